"""Raising keeps what is proved: convolutions with a stride, mutants, what no proof covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Opaque
from irdeconv.rewrite.raising import raise_deconvolutions
from support.forms_grid import form_layer
from support.layers import build
from support.layers import numbers as layer_numbers
from support.mutants import mutants
from support.raising_graphs import (
    Net,
    agrees,
    certified,
    end,
    left,
    numbers,
    raised_types,
    resize,
    source,
)

FORMS = ("zero-insertion", "phases", "stacked", "gemm")


# A convolution with a stride ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "strides", "whole"),
    [((4, 2), (2, 1), (2, 2)), ((4, 4), (4, 2), (1, 2)), ((2, 3), (1, 3), (2, 1)),
     ((2, 4), (2, 2), (1, 2))],
)  # fmt: skip
@pytest.mark.parametrize("free", [False, True])
def test_a_stride_behind_an_enlargement(factors: Any, strides: Any, whole: Any, free: bool) -> None:
    rng = np.random.default_rng(41)
    net, shape = Net(), (1, 3, 4, 5)
    x = resize(net, source(net, shape, open_sizes=free), factors)
    y = net.convolution(x, numbers(rng, 2, 3, 3, 4), ((1, 2), (0, 1)), strides=strides)
    graph = end(net, y)
    if free:  # the walk by symbolic sizes follows no stride behind repeated elements
        assert "is proved for" in str(ird.raise_(graph).report)
    raised = raise_deconvolutions(graph).graph
    (node,) = raised.nodes("ConvolutionBackpropData")
    assert node.op.strides == whole  # type: ignore[attr-defined]
    assert left(raised) == []
    assert agrees(net, raised, numbers(rng, *shape))
    if not free:
        certified(graph, raised)


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
def test_pixel_shuffle_behind_a_stride(mode: str) -> None:
    rng = np.random.default_rng(42)
    net, shape = Net(), (2, 3, 3, 4)
    x = net.op("ZeroInsertion", "irdeconv_1", source(net, shape), strides=(2, 2), trailing=True)
    y = net.convolution(x, numbers(rng, 8, 3, 3, 3), ((1, 1), (1, 1)), strides=(2, 2))
    graph = end(net, net.op("DepthToSpace", "opset1", y, mode=mode, block_size=2))
    raised = ird.raise_(graph).graph
    assert raised_types(raised) == ["ConvolutionBackpropData"]
    assert agrees(net, raised, numbers(rng, *shape))
    certified(graph, raised)


def blocked(w: Any) -> Any:
    """A deconvolution of stride 2, 4 taps and pads 1 as a convolution of stride 2, 4 at a time.

    Output 4q + r takes tap r - 2t + 3 of the element that tap t of the convolution meets.
    """
    _, m, taps = w.shape
    out = np.zeros((4, m, w.shape[0], 4), np.float32)
    for r in range(4):
        for t in range(4):
            k = r - 2 * t + 3
            if 0 <= k < taps:
                out[r, :, :, t] = w[:, :, k].T
    return out.reshape(4 * m, w.shape[0], 4)


@pytest.mark.parametrize("changed", [False, True])
def test_a_stride_whose_positions_meet_one_filter(changed: bool) -> None:
    rng = np.random.default_rng(43)
    net, shape = Net(), (1, 2, 6)
    w = blocked(numbers(rng, 2, 3, 4))
    w[0, 0, 0] += changed
    y = net.convolution(source(net, shape), w, ((1,), (1,)), strides=(2,))
    graph = end(net, net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=4))
    raised = ird.raise_(graph)
    assert raised_types(raised.graph) == ["ConvolutionBackpropData"] * (not changed)
    assert changed == ("different filters" in str(raised.report))
    assert agrees(net, raised.graph, numbers(rng, *shape))


def test_strides_that_are_none_of_a_deconvolution() -> None:
    rng = np.random.default_rng(44)
    for factors, strides, why in (
        ((2, 3), (2, 2), "no whole stride"),
        ((2, 2), (2, 2), "enlarges"),
    ):
        net = Net()
        x = resize(net, source(net, (1, 2, 4, 4)), factors)
        graph = end(net, net.convolution(x, numbers(rng, 2, 2, 3, 3), strides=strides))
        assert why in str(ird.raise_(graph).report)


# What is left ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("form", FORMS)
def test_weights_that_are_not_finite_stay(value: float, form: str) -> None:
    rng = np.random.default_rng(45)
    layer = next(v for v in iter(lambda: form_layer(rng), None) if min(v.strides) > 1)
    w = layer_numbers(rng, layer.filter_shape, np.float32)
    w.reshape(-1)[0] = value
    graph, _ = build(layer, layer_numbers(rng, layer.data_shape, np.float32), w)
    low = ird.lower(graph, form).graph
    raised = ird.raise_(low)
    assert raised_types(raised.graph) == []
    assert form != "zero-insertion" or "not finite" in str(raised.report)


def two_sites(rng: np.random.Generator) -> Graph:
    net = Net()
    x = source(net, (1, 2, 4, 5))
    a = net.convolution(resize(net, x, (2, 2)), numbers(rng, 3, 2, 3, 3), name="first")
    b = net.convolution(resize(net, x, (2, 3)), numbers(rng, 4, 2, 3, 3), name="second")
    end(net, a, "y1")
    return end(net, b, "y2")


def test_what_is_not_proved_is_put_back() -> None:
    graph = two_sites(np.random.default_rng(46))
    seen: list[list[str]] = []

    def prove(raised: Graph, source: Graph) -> dict[str, str]:
        seen.append([n.name for n in raised.nodes("ConvolutionBackpropData")])
        return {name: "it is not proved: a test" for name in seen[-1] if name == "first"}

    raised, report = raise_deconvolutions(graph, prove=prove)
    assert seen == [["first", "second"], ["second"]]
    assert str(report) == (
        "second: resize -> ConvolutionBackpropData\nfirst stays: it is not proved: a test"
    )
    assert [n.name for n in raised.nodes("Convolution")] == ["first"]
    assert agrees(Net(graph), raised, numbers(np.random.default_rng(1), 1, 2, 4, 5), output="y1")


def test_an_unknown_operation_says_nothing_of_its_shape() -> None:
    rng = np.random.default_rng(47)
    net = Net()
    spec = Spec.of(np.zeros((1, 2, 4, 5), np.float32)).without_value()
    unknown = net.graph.add(Opaque("Mystery", "opset9", declared=(spec,)), [], name="m")
    x = resize(net, Value(unknown.id), (2, 2))
    raised = ird.raise_(end(net, net.convolution(x, numbers(rng, 3, 2, 3, 3))))
    assert raised_types(raised.graph) == []
    assert "rank of the data is unknown" in str(raised.report)


# Mutants -----------------------------------------------------------------------------------------


def raised_mutants(rng: np.random.Generator, layers: int) -> Any:
    """Yield lowered layers with faults, raised, beside the faulty ones."""
    done = 0
    while done < layers:
        layer = form_layer(rng, budget=200)
        if layer.output_shape is not None or max(layer.strides) == 1:
            continue
        if min(layer.output_size) < 1:
            continue
        x = layer_numbers(rng, layer.data_shape, np.float32)
        w = layer_numbers(rng, layer.filter_shape, np.float32)
        graph, feeds = build(layer, x, w)
        low = ird.lower(graph, FORMS[done % len(FORMS)]).graph
        for text, mutant in mutants(low):
            try:
                wrong = ird.infer(mutant)
            except ird.InferenceError:
                continue
            yield text, wrong, ird.raise_(wrong), feeds
        done += 1


@pytest.mark.thorough
@pytest.mark.parametrize("chunk", range(2))
def test_raised_mutants_compute_what_the_mutants_do(chunk: int) -> None:
    count = 0
    for text, wrong, raised, feeds in raised_mutants(np.random.default_rng([48, chunk]), 3):
        if any(r.pattern for r in raised.report):
            (want,) = ird.run(wrong, feeds, form=None, fuse=False).values()
            (got,) = ird.run(raised, feeds, form=None, fuse=False).values()
            assert np.array_equal(got, want), text
            count += 1
    assert count > 10


@pytest.mark.oracles
def test_openvino_runs_raised_mutants_alike(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    core, count = ov.Core(), 0
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    for text, wrong, raised, feeds in raised_mutants(np.random.default_rng(49), 2):
        if not any(r.pattern for r in raised.report):
            continue
        found = []
        for name, graph in (("a", wrong), ("b", raised.graph)):
            ird.write(graph, tmp_path / f"{name}.xml")
            model = core.compile_model(core.read_model(tmp_path / f"{name}.xml"), "CPU", config)
            found.append(model(list(feeds.values()))[0])
        assert np.array_equal(*found), text
        count += 1
    assert count > 10
