"""Raised graphs against other systems: OpenVINO runs the written file, ONNX models come in."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from support.forms_grid import form_layer
from support.layers import Layer, build, expected
from support.layers import numbers as layer_numbers
from support.raising_graphs import Net, end, left, numbers, raised_types, resize, source
from support.rows import parts
from support.runtime_truth import outputs

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.oracles


def run_ov(path: Path, feeds: dict[str, Any]) -> Any:
    return outputs(path, list(feeds.values()))[0]


def raised_and_written(graph: ird.Graph, path: Path) -> ird.Graph:
    """Raise, write, and return what was read back."""
    raised = ird.raise_(graph)
    assert all(r.pattern for r in raised.report), str(raised.report)
    assert raised_types(raised.graph)
    ird.write(raised.graph, path)
    return ird.infer(ird.read(path))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", parts(3, 6))
def test_openvino_runs_raised_layers(chunk: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([91, chunk])
    done = 0
    while done < 10:
        layer: Layer = replace(form_layer(rng), semantics="runtime")
        if min(layer.output_size) < 1 or max(layer.strides) == 1:
            continue
        x = layer_numbers(rng, layer.data_shape, np.float32)
        w = layer_numbers(rng, layer.filter_shape, np.float32)
        graph, feeds = build(layer, x, w)
        for form in ("zero-insertion", "phases", "stacked"):
            path = tmp_path / f"{form}.xml"
            raised_and_written(ird.lower(graph, form).graph, path)
            assert np.array_equal(run_ov(path, feeds), expected(layer, x, w)), (layer, form)
        done += 1


@pytest.mark.parametrize("rule", ["asymmetric", "half_pixel", "tf_half_pixel_for_nn"])
@pytest.mark.parametrize("factors", [(2, 2), (3, 2), (5, 1)])
def test_openvino_repeats_elements_alike(rule: str, factors: Any, tmp_path: Path) -> None:
    """The graph with Interpolate and the raised one give the same in OpenVINO."""
    net, shape = Net(92), (2, 3, 5, 7)
    rounding = "round_prefer_floor" if rule == "half_pixel" else "floor"
    given = {"coordinate_transformation_mode": rule, "nearest_mode": rounding}
    x = resize(net, source(net, shape), factors, **given)
    graph = end(net, net.convolution(x, net.numbers(4, 3, 3, 2), ((1, 0), (1, 2))))
    ird.write(graph, tmp_path / "a.xml")
    raised_and_written(graph, tmp_path / "b.xml")
    feeds = {"x": net.numbers(*shape)}
    assert np.array_equal(run_ov(tmp_path / "a.xml", feeds), run_ov(tmp_path / "b.xml", feeds))


def onnx_model(rng: np.random.Generator, kind: str) -> Any:
    from support.onnx_models import info, model

    make = onnx.helper.make_node
    constants: dict[str, Any] = {"w": numbers(rng, 8, 3, 3, 3), "b": np.zeros(8, np.float32)}
    conv = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3], "name": "conv"}
    if kind == "resize":
        constants["scales"] = np.array([1, 1, 2, 3], np.float32)
        mode = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        nodes = [
            make("Resize", ["x", "", "scales"], ["u"], mode="nearest", name="up", **mode),
            make("Conv", ["u", "w"], ["y"], **conv),
        ]
    elif kind == "upsample":
        constants["scales"] = np.array([1, 1, 2, 2], np.float32)
        nodes = [
            make("Upsample", ["x", "scales"], ["u"], mode="nearest", name="up"),
            make("Conv", ["u", "w"], ["y"], **conv),
        ]
    else:
        nodes = [
            make("Conv", ["x", "w", "b"], ["u"], **conv),
            make("DepthToSpace", ["u"], ["y"], mode=kind, blocksize=2, name="shuffle"),
        ]
    opset = 9 if kind == "upsample" else 17
    if opset == 9:
        constants.pop("b")
    used = {k: v for k, v in constants.items() if any(k in n.input for n in nodes)}
    return model(nodes, [info("x", ["n", 3, "h", "w"])], ["y"], used, opset=opset)


@pytest.mark.parametrize("kind", ["resize", "upsample", "DCR", "CRD"])
def test_onnx_models(kind: str, tmp_path: Path) -> None:
    from support.onnx_models import convert, runtime

    rng = np.random.default_rng(93)
    made = onnx_model(rng, kind)
    graph = convert(made)
    raised = raised_and_written(graph, tmp_path / "net.xml")
    assert left(raised) == []
    report = ird.check_certificate(raised, ird.infer(graph))
    assert report.passed, str(report)
    for size in ((1, 3, 4, 5), (2, 3, 1, 3)):
        feeds = {"x": numbers(rng, *size)}
        (want,) = runtime(made, feeds)
        assert np.array_equal(ird.run(raised, feeds, form=None, fuse=False)["y"], want)
        assert np.array_equal(run_ov(tmp_path / "net.xml", feeds), want)
