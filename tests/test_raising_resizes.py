"""A resize alone as a deconvolution: where it is one, where not, and what proves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.verify.raising import resize_unproved
from support.layers import constant
from support.raising_graphs import Net, agrees, end, numbers, raised_types, source

LINEAR = ("linear", "linear_onnx")
RULES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn")


def resized(shape: Any, sizes: Any, mode: str, rule: str, rounding: str = "floor") -> Net:
    net = Net()
    given = {"shape_calculation_mode": "sizes", "coordinate_transformation_mode": rule}
    axes = np.arange(2, len(shape))
    end(net, net.op("Interpolate", "opset11", source(net, shape), np.array(sizes), axes, name="up",
                    mode=mode, nearest_mode=rounding, **given))  # fmt: skip
    return net


def raised(net: Net) -> Any:
    made = ird.raise_(net.graph, ["upsample"])
    shape = net.graph.parameters[0].op.infer().shape
    assert agrees(net, made.graph, numbers(np.random.default_rng(1), *shape))
    return made


@pytest.mark.parametrize("mode", LINEAR)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sizes", [(8, 10), (7, 9), (7, 5), (13, 17), (4, 9)])
def test_linear_weights(mode: str, rule: str, sizes: Any) -> None:
    made = raised(resized((2, 3, 4, 5), sizes, mode, rule))
    whole = all((o - 1) % (i - 1) == 0 for o, i in zip(sizes, (4, 5), strict=True))
    assert bool(raised_types(made.graph)) == (whole and rule == "align_corners")
    assert raised_types(made.graph) or "weighs neighbours by position" in str(made.report)


def test_the_bilinear_kernel() -> None:
    graph = raised(resized((1, 1, 3, 4), (5, 7), "linear_onnx", "align_corners")).graph
    (node,) = graph.nodes("ConvolutionBackpropData")
    filter: Any = graph.node(graph.inputs_of(node.id)[1].node).op
    line = np.array([0.5, 1, 0.5])
    assert np.array_equal(filter.data.array()[0, 0], np.outer(line, line))
    assert (node.op.strides, node.op.pads_begin) == ((2, 2), (1, 1))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("rule", "rounding", "copies"),
    [("asymmetric", "floor", True), ("half_pixel", "round_prefer_ceil", True),
     ("asymmetric", "ceil", False), ("align_corners", "floor", False)],
)  # fmt: skip
def test_copies(rule: str, rounding: str, copies: bool) -> None:
    made = raised(resized((1, 3, 4, 5), (8, 15), "nearest", rule, rounding))
    assert raised_types(made.graph) == ["GroupConvolutionBackpropData"] * copies


@pytest.mark.parametrize("mode", ["cubic", "linear_onnx"])
def test_weights_that_are_not_exact_stay(mode: str) -> None:
    made = raised(resized((1, 2, 3, 4), (7, 10), mode, "align_corners"))
    assert raised_types(made.graph) == []


def test_a_resize_stays_unless_it_is_asked_for() -> None:
    net = resized((1, 3, 4, 5), (8, 10), "nearest", "asymmetric")
    assert raised_types(ird.raise_(net.graph).graph) == []


def test_open_sizes_stay() -> None:
    net = Net()
    x = source(net, (1, 3, 4, 5), open_sizes=True)
    given = {"mode": "linear", "shape_calculation_mode": "scales"}
    end(net, net.op("Interpolate", "opset11", x, np.array([2, 2], np.float32), np.array([2, 3]),
                    coordinate_transformation_mode="align_corners", **given))  # fmt: skip
    made = ird.raise_(net.graph, ["upsample"])
    assert raised_types(made.graph) == []
    assert "they are open" in str(made.report)


@pytest.mark.parametrize("change", ["tap", "channel", "pads", "stride"])
def test_the_proof_refuses_another_deconvolution(change: str) -> None:
    from dataclasses import replace

    net = resized((1, 3, 4, 5), (7, 9), "linear", "align_corners")
    before: Graph = ird.infer(net.graph)
    graph = ird.raise_(net.graph, ["upsample"]).graph
    (node,) = graph.nodes("GroupConvolutionBackpropData")
    assert resize_unproved(graph, node, before) is None
    op: Any = node.op
    if change in ("tap", "channel"):
        found: Any = graph.node(graph.inputs_of(node.id)[1].node).op
        wrong = found.data.array().copy()
        wrong[slice(None) if change == "tap" else 1, ..., 0, 1] += np.float32(2**-20)
        graph.set_input(node.id, 1, constant(graph, wrong, "wrong"))
    elif change == "pads":
        graph.replace_op(node.id, replace(op, pads_begin=(0, 1), pads_end=(2, 1)))
    else:
        graph.replace_op(node.id, replace(op, strides=(1, 2), pads_end=(0, 1), pads_begin=(0, 1)))
    assert resize_unproved(ird.infer(graph), node, before) is not None


@pytest.mark.oracles
@pytest.mark.parametrize(("mode", "rule", "sizes"), [
    ("linear_onnx", "align_corners", (7, 9)), ("linear", "align_corners", (13, 9)),
    ("nearest", "asymmetric", (8, 15)),
])  # fmt: skip
def test_openvino(mode: str, rule: str, sizes: Any, tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    net = resized((1, 3, 4, 5), sizes, mode, rule)
    ird.write(net.graph, tmp_path / "a.xml")
    made = raised(net)
    assert raised_types(made.graph)
    ird.write(made, tmp_path / "b.xml")
    core, x = ov.Core(), numbers(np.random.default_rng(2), 1, 3, 4, 5)
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    a, b = (core.compile_model(core.read_model(tmp_path / f), "CPU", config)([x])[0]
            for f in ("a.xml", "b.xml"))  # fmt: skip
    assert np.array_equal(a, b)
