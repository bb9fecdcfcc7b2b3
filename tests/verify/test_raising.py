"""Raising: decompositions become one deconvolution that computes the same bits, and is proved."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.rewrite.forms import FORMS
from irdeconv.verify.raising import raise_deconvolutions
from support.forms_grid import form_layer
from support.layers import Layer, build, constant, expected
from support.layers import numbers as layer_numbers
from support.raising_graphs import (
    WAYS,
    Net,
    agrees,
    certified,
    end,
    left,
    numbers,
    raised_types,
    raised_whole,
    resize,
    source,
    spelled,
)
from support.rows import parts, tables

TABLES = tables(__file__)

pytestmark = pytest.mark.thorough

CHUNKS, CASES = 6, 9


# Round trips -------------------------------------------------------------------------------------


def round_trip(rng: np.random.Generator, seen: Counter[Any], free: bool) -> None:
    """Lower one random layer in every form, raise it, compare with the definition."""
    layer = replace(form_layer(rng), semantics="runtime")
    if min(layer.output_size) < 1 or max(layer.strides) == 1:
        return
    dtype = rng.choice([np.float32, np.int32, np.float64])
    x = layer_numbers(rng, layer.data_shape, dtype)
    w = layer_numbers(rng, layer.filter_shape, dtype)
    free = free and layer.output_shape is None
    declared = [None if free and a != 1 else d for a, d in enumerate(x.shape)]
    graph, feeds = build(layer, x, w, data_shape=declared)
    want = expected(layer, x, w)
    for form in FORMS:
        low = ird.lower(graph, form)
        raised = ird.raise_(low.graph)
        assert [r.pattern is not None for r in raised.report] == [True], (layer, raised.report)
        assert left(raised.graph) == [], layer
        assert np.array_equal(ird.run(raised.graph, feeds, form=None, fuse=False)["y"], want), layer
        certified(low.graph, raised.graph)
        seen[low.report.layers[0].form, raised.report.layers[0].pattern, free] += 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", parts(3, CHUNKS))
def test_every_form_is_raised_again(chunk: int) -> None:
    rng = np.random.default_rng([81, chunk])
    seen: Counter[Any] = Counter()
    for _ in range(CASES):
        round_trip(rng, seen, free=chunk % 3 == 2)
    assert {f for f, _, _ in seen} >= {"zero-insertion", "phases", "stacked"}
    assert {free for _, _, free in seen} >= {chunk % 3 == 2}


def test_the_filter_comes_back() -> None:
    """Attributes and filter of the round trip are those of the layer where its taps are not 0."""
    rng = np.random.default_rng(2)
    layer = Layer(1, (4, 5), 2, 3, 2, (3, 2), (2, 3), (1, 2), (1, 0), (0, 2), (1, 0))
    x = layer_numbers(rng, layer.data_shape, np.float32)
    w = layer_numbers(rng, layer.filter_shape, np.float32)
    graph, _ = build(layer, x, w)
    for form in ("zero-insertion", "phases", "stacked"):
        raised = ird.raise_(ird.lower(graph, form).graph).graph
        (node,) = raised.nodes("GroupConvolutionBackpropData")
        found: Any = raised.node(raised.inputs_of(node.id)[1].node).op
        assert np.array_equal(found.data.array(), w), form
        same = ("strides", "dilations", "pads_begin")
        assert all(getattr(node.op, k) == getattr(layer, k) for k in same), form
        assert ird.infer(raised).node(node.id).spec().shape == (1, 4, *layer.output_size)


def test_data_is_sliced_before_the_deconvolution_as_it_was() -> None:
    """Else it would compute outputs of all data, and cut most of them off."""
    net = Net(13)
    part = net.op("Slice", "opset8", source(net, (1, 2, 64, 3)), [2], [6], [1], [2])
    y = net.op("ConvolutionBackpropData", "opset1", part, net.numbers(2, 3, 2, 2), strides=(2, 2))
    raised = ird.raise_(ird.lower(ird.infer(end(net, y)), "phases").graph)
    assert raised_types(raised.graph) == ["ConvolutionBackpropData"]
    assert len(list(raised.graph.nodes("Slice"))) == 1


# Spellings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strides", [(2,), (3, 2), (1, 4), (2, 3, 2)])
def test_inserted_zeros_as_they_are_spelled(way: str, strides: tuple[int, ...]) -> None:
    net, shape = Net(4), (2, 3, 4, 3, 5)[: 2 + len(strides)]
    x = spelled(net, source(net, shape), way, shape, strides)
    w = net.numbers(4, 3, *(3, 2, 1)[: len(strides)])
    pads = ((2,) * len(strides), (1,) * len(strides))
    end(net, net.convolution(x, w, pads, dilations=(1, 2, 1)[: len(strides)]))
    raised_whole(net, "zero-insertion", shape)


@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower", "valid"])
def test_a_crop_in_front_and_automatic_pads(auto_pad: str) -> None:
    net, shape = Net(5), (1, 2, 5, 4)
    x = spelled(net, source(net, shape), "concat", shape, (2, 2))
    masks = {"begin_mask": (1, 1, 0, 0), "end_mask": (1, 1, 0, 0)}
    x = net.op("StridedSlice", "opset1", x, [0, 0, 0, 0], [0, 0, -1, -1], [1] * 4, **masks)
    end(net, net.convolution(x, net.numbers(3, 2, 4, 3), auto_pad=auto_pad))
    raised = raised_whole(net, "zero-insertion", shape)
    assert raised_types(raised.graph) == ["ConvolutionBackpropData"]


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
@pytest.mark.parametrize("bias", ["none", "behind", "inside"])
def test_pixel_shuffle(mode: str, bias: str) -> None:
    """ESPCN: a convolution, a bias, channels into space; then a crop and a ReLU."""
    net = Net(6)
    y = net.convolution(source(net, (1, 3, 6, 5)), net.numbers(18, 3, 3, 3), ((1, 1), (1, 1)))
    values = net.numbers(2)
    if bias == "inside":
        inside = np.tile(values, 9) if mode == "blocks_first" else np.repeat(values, 9)
        y = net.op("Add", "opset1", y, inside.reshape(1, 18, 1, 1), name="add")
    y = net.op("DepthToSpace", "opset1", y, mode=mode, block_size=3, name="shuffle")
    if bias == "behind":
        y = net.op("Add", "opset1", y, values.reshape(1, 2, 1, 1), name="add")
    end(net, net.op("ReLU", "opset1", y, name="relu"))
    raised = raised_whole(net, "depth-to-space", (1, 3, 6, 5))
    assert sum(n.type == "Add" for n in raised.graph.nodes()) == (bias != "none")


@pytest.mark.parametrize("zeros_added", [False, True])
def test_pixel_shuffle_by_reshape_and_transpose_of_open_sizes(zeros_added: bool) -> None:
    net = Net(7)
    y = net.convolution(source(net, (1, 3, 6, 5), open_sizes=True), net.numbers(8, 3, 2, 2))
    if zeros_added:
        y = net.op("Add", "opset1", y, np.zeros((1, 8, 1, 1), np.float32))
    shape = net.op("ShapeOf", "opset1", y)
    zero = net.const(np.array(0))
    n, h, w = (net.op("Gather", "opset8", shape, net.const([a]), zero) for a in (0, 2, 3))
    wide = net.op("Concat", "opset1", n, [2, 2, 2], h, w, axis=0)
    y = net.op("Transpose", "opset1", net.op("Reshape", "opset1", y, wide), [0, 1, 4, 2, 5, 3])
    two = net.const([2])
    h, w = (net.op("Multiply", "opset1", v, two) for v in (h, w))
    y = net.op("Reshape", "opset1", y, net.op("Concat", "opset1", n, two, h, w, axis=0))
    end(net, y)
    raised_whole(net, "depth-to-space", (1, 3, 6, 5), (2, 3, 2, 9))


RESIZES = [
    ((2,), (3,), ((1,), (1,)), (1,)),
    ((2, 3), (3, 2), ((1, 0), (1, 1)), (1, 2)),
    ((3, 1), (4, 3), ((2, 2), (0, 1)), (1, 1)),
    ((2, 2, 3), (3, 1, 2), ((1, 0, 0), (1, 0, 4)), (1, 1, 1)),
    ((4,), (2,), ((0,), (0,)), (3,)),
]


@pytest.mark.parametrize(("factors", "kernel", "pads", "dilations"), RESIZES)
@pytest.mark.parametrize("open_sizes", [False, True])
def test_repeated_elements(
    factors: Any, kernel: Any, pads: Any, dilations: Any, open_sizes: bool
) -> None:
    net, shape = Net(8), (2, 3, 4, 3, 2)[: 2 + len(factors)]
    x = resize(net, source(net, shape, open_sizes=open_sizes), factors)
    end(net, net.convolution(x, net.numbers(4, 3, *kernel), pads, dilations=dilations))
    (layer,) = raised_whole(net, "resize", shape).report
    assert layer.exact
    assert "exactly" in (layer.note or "")


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("way", ["tile", "numpy", "bidirectional", "opset1", "opset4", "opset11"])
def test_repeated_elements_as_they_are_spelled(way: str, open_sizes: bool) -> None:
    net = Net(12)
    x = source(net, (2, 3, 4), open_sizes=open_sizes)
    sizes = net.op("ShapeOf", "opset1", x)
    grown = net.op("Multiply", "opset1", sizes, [1, 1, 3])
    if way.startswith("opset"):
        given: dict[str, Any] = {"axes": (2,), "align_corners": False}
        if way != "opset1":
            given = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
            given["shape_calculation_mode"] = "sizes"
        more = {"opset1": [], "opset4": [np.ones(1, np.float32), [2]], "opset11": [[2]]}[way]
        target = net.op("Gather", "opset8", grown, [2], np.array(0))
        x = net.op("Interpolate", way, x, target, *more, mode="nearest", **given)
    else:
        wide = net.op("Unsqueeze", "opset1", x, [3])
        shape: Any = [1, 1, 1, 3] if way == "tile" else [3]
        if way == "numpy":
            shape = net.op("Concat", "opset1", sizes, [3], axis=0)
        how = ("Tile", "opset1") if way == "tile" else ("Broadcast", "opset3")
        wide = net.op(*how, wide, shape, **({} if way == "tile" else {"mode": way}))
        x = net.op("Reshape", "opset1", wide, grown)
    graph = end(net, net.convolution(x, net.numbers(2, 3, 4), ((1,), (2,)), axes=1))
    raised = raise_deconvolutions(graph)
    assert [r.pattern for r in raised.report] == ["resize"], str(raised.report)
    assert agrees(net, raised.graph, net.numbers(2, 3, 4))
    assert not open_sizes or agrees(net, raised.graph, net.numbers(1, 3, 7))


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize(("rule", "rounding", "repeats"), TABLES["coordinates"])
def test_coordinates_that_repeat_elements(
    rule: str, rounding: str, repeats: bool, open_sizes: bool
) -> None:
    """What is raised agrees; what is not differs from repetition for some size."""
    net = Net(9)
    given = {"coordinate_transformation_mode": rule, "nearest_mode": rounding}
    x = resize(net, source(net, (1, 1, 4, 5), open_sizes=open_sizes), (3, 2), **given)
    graph = end(net, net.convolution(x, net.numbers(2, 1, 3, 3), ((1, 1), (1, 1))))
    raised = ird.raise_(graph)
    assert bool(raised_types(raised.graph)) == repeats
    assert agrees(net, raised.graph, net.numbers(1, 1, 4, 5))
    alone = Net()
    end(alone, resize(alone, source(alone, (1, 1, 4, 5)), (3, 2), **given))
    x0 = net.numbers(1, 1, 4, 5)
    copies = x0.repeat(3, 2).repeat(2, 3)
    assert np.array_equal(ird.run(alone.graph, [x0], form=None, fuse=False)["y"], copies) == repeats


@pytest.mark.parametrize("factors", [(3, 2), (1, 2), (2, 2)])
def test_a_resize_by_other_factors_is_not_proved_for_open_sizes(factors: Any) -> None:
    """The core sees another factor, rule, filter or pad in what was raised from (3, 2)."""
    w = numbers(np.random.default_rng(11), 4, 3, 3, 3)

    def resized(factors: Any, w: Any, pad: int = 1, **rule: Any) -> ird.Graph:
        net = Net()
        x = resize(net, source(net, (1, 3, 4, 5), open_sizes=True), factors, **rule)
        return ird.infer(end(net, net.convolution(x, w, ((pad, 1), (2 - pad, 1)))))

    raised = ird.raise_(resized((3, 2), w)).graph
    assert raised_types(raised) == ["ConvolutionBackpropData"]
    assert ird.check_certificate(raised, resized(factors, w)).passed == (factors == (3, 2))
    changed = w.copy()
    changed[3, 2, 0, 2] += 1
    for other in (
        resized((3, 2), changed),
        resized((3, 2), w, pad=0),
        resized((3, 2), w, nearest_mode="ceil"),
    ):
        assert not ird.check_certificate(raised, other).passed


def test_sums_that_round_are_said_to() -> None:
    net = Net(10)
    w = net.rng.standard_normal((2, 3, 3, 3)).astype(np.float32)
    x = resize(net, source(net, (1, 3, 4, 4)), (2, 2))
    graph = end(net, net.convolution(x, w, ((1, 1), (1, 1))))
    raised = ird.raise_(graph)
    assert raised.report.layers[0].note.startswith("equal up to rounding")
    report = ird.check_certificate(raised.graph, ird.infer(graph))
    assert report.passed
    assert "up to the rounding" in str(report)
    # A filter that is off by two units in the last place is no rounding of the sums.
    (node,) = raised.graph.nodes("ConvolutionBackpropData")
    found: Any = raised.graph.node(raised.graph.inputs_of(node.id)[1].node).op
    wrong = found.data.array().copy()
    for _ in range(2):
        wrong[1, 1, 1, 1] = np.nextafter(wrong[1, 1, 1, 1], np.float32(np.inf))
    raised.graph.set_input(node.id, 1, constant(raised.graph, wrong, "wrong"))
    assert not ird.check_certificate(ird.infer(raised.graph), ird.infer(graph)).passed
