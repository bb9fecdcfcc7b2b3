"""Where raising ends, that what it gives is proved, and resizes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.form_names import CONDITIONS
from irdeconv.cli.main import main
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Convert, Opaque
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.movement import ShapeOf
from irdeconv.proof.model import Unproved
from irdeconv.verify.raising import raise_deconvolutions, resize_unproved
from irdeconv.verify.raising_site import GraphWalk
from support.forms_grid import form_layer
from support.layers import begun, build, constant, parameter, result
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
    raised_whole,
    resize,
    source,
)
from support.rows import each_row, parts
from support.runtime_truth import outputs

# What raising leaves alone, and what it leaves as it was around a raised layer.

# What must stay ----------------------------------------------------------------------------------


def shuffled(change: str) -> Net:
    """A graph that looks like a decomposition and is none, for one reason."""
    net = Net(11)
    x, w, pads = source(net, (1, 2, 4, 3)), net.numbers(3, 2, 3, 3), ((1, 1), (1, 1))
    if change in ("pad value", "pad mode", "inserted ones"):
        wide = net.op("Reshape", "opset1", x, [1, 2, 4, 1, 3, 1])
        fill = np.float32(change == "pad value")
        if change == "inserted ones":
            x = net.op("Concat", "opset1", wide, np.ones((1, 2, 4, 1, 3, 1), np.float32), axis=3)
        else:
            mode = "edge" if change == "pad mode" else "constant"
            rows = ([0] * 6, [0, 0, 0, 1, 0, 0])
            x = net.op("Pad", "opset1", wide, *rows, fill, pad_mode=mode)
        x = net.op("Reshape", "opset1", x, [1, 2, 8, 3])
    elif change == "permuted":
        y = net.convolution(x, net.numbers(8, 2, 3, 3), pads)
        y = net.op("Reshape", "opset1", y, [1, 2, 2, 2, 4, 3])
        y = net.op("Transpose", "opset1", y, [0, 1, 2, 4, 3, 5])
        end(net, net.op("Reshape", "opset1", y, [1, 2, 8, 6]))
        return net
    elif change == "linear":
        x = resize(net, x, (2, 2), mode="linear")
    elif change == "half a factor":
        x = resize(net, x, (1.5, 2))
    elif change == "cropped, then padded":
        x = net.op("ZeroInsertion", "irdeconv_1", x, strides=(2, 2))
        for amount in (-1, 1):
            row = [0, 0, amount, 0]
            x = net.op("Pad", "opset1", x, row, row, np.float32(0), pad_mode="constant")
    strides = (3, 1) if change == "stride" else (1, 1)
    if change == "stride":
        x = resize(net, x, (2, 2))
    end(net, net.convolution(x, w, pads, strides=strides))
    return net


NOT_RAISED = ["pad value", "pad mode", "inserted ones", "permuted", "linear", "half a factor"]
NOT_RAISED += ["cropped, then padded", "stride"]


@pytest.mark.parametrize("change", NOT_RAISED)
def test_what_only_looks_like_a_decomposition_stays(change: str) -> None:
    net = shuffled(change)
    raised = ird.raise_(net.graph)
    assert raised_types(raised.graph) == []
    assert ird.dump(raised.graph) == ird.dump(ird.infer(net.graph))
    assert agrees(net, raised.graph, net.numbers(1, 2, 4, 3))


def test_reasons_are_told() -> None:
    reasons = {c: str(ird.raise_(shuffled(c).graph).report) for c in NOT_RAISED}
    assert 'mode="linear" is not followed' in reasons["linear"]
    assert "1.5 is no whole factor" in reasons["half a factor"]
    assert "cropped and then padded" in reasons["cropped, then padded"]
    assert "stride 3 leaves no whole stride" in reasons["stride"]


def test_a_bias_that_differs_between_phases_stays_inside() -> None:
    net = Net(13)
    y = net.convolution(source(net, (1, 3, 4, 4)), net.numbers(8, 3, 3, 3))
    y = net.op("Add", "opset1", y, np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1))
    graph = end(net, net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=2))
    raised = ird.raise_(graph)
    assert raised_types(raised.graph) == []
    assert "the bias differs between the phases" in str(raised.report)


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
def test_the_wrong_order_of_channels_is_not_proved(mode: str) -> None:
    """The checker finds out where a graph is not the one that was raised."""
    net = Net(14)
    y = net.convolution(source(net, (1, 3, 4, 4)), net.numbers(8, 3, 3, 3))
    y = net.op("DepthToSpace", "opset1", y, mode=mode, block_size=2, name="shuffle")
    graph = end(net, y)
    raised = ird.raise_(graph).graph
    other = "depth_first" if mode == "blocks_first" else "blocks_first"
    graph.replace_op(y.node, DepthToSpace(mode=other, block_size=2))
    assert not ird.check_certificate(raised, ird.infer(graph)).passed
    assert not ird.check_certificate(raised, ird.infer(graph), probe=True).passed


# Surroundings ------------------------------------------------------------------------------------


def test_values_in_between_that_others_use_stay() -> None:
    net = Net(15)
    up = resize(net, source(net, (1, 2, 3, 3)), (2, 2))
    w = net.const(net.numbers(4, 2, 3, 3))
    y = net.convolution(up, w, ((1, 1), (1, 1)), axes=2)
    z = net.convolution(up, w, ((0, 0), (0, 0)), axes=2, name="second")
    shuffled = net.op("DepthToSpace", "opset1", y, mode="depth_first", block_size=2)
    for i, value in enumerate((up, y, z, shuffled)):
        end(net, value, f"y{i}")
    raised = ird.raise_(net.graph)
    assert agrees(net, raised.graph, net.numbers(1, 2, 3, 3))
    assert raised.graph.outputs == net.graph.outputs
    assert left(raised.graph) == ["Interpolate"]
    assert len(raised_types(raised.graph)) == 3


def test_names_of_tensors_stay() -> None:
    net = Net(16)
    y = net.convolution(resize(net, source(net, (1, 2, 3, 3)), (2, 2)), net.numbers(4, 2, 3, 3))
    net.graph.node(y.node).tensor_names = (("the_tensor",),)
    net.graph.node(y.node).name = "up/Convolution_7"
    raised = ird.raise_(end(net, y)).graph
    (node,) = raised.nodes("ConvolutionBackpropData")
    assert node.tensor_names == (("the_tensor",),)
    assert node.name == "up/ConvolutionBackpropData_7"
    assert raised.outputs == ["the_tensor"]


def test_a_filter_that_is_computed_stays() -> None:
    net = Net()
    x = resize(net, source(net, (1, 2, 3, 3)), (2, 2))
    w = parameter(net.graph, (4, 2, 3, 3), np.float32, "w")
    raised = ird.raise_(end(net, net.convolution(x, w, axes=2)))
    assert "the filter is no constant" in str(raised.report)
    assert left(raised.graph) == ["Interpolate", "Convolution"]


def test_a_compressed_filter_stays_compressed() -> None:
    net = Net(17)
    small = net.const(net.numbers(8, 3, 3, 3).astype(np.float16))
    w = net.op("Convert", "opset1", small, destination_type=ELEMENT_TYPES["f32"])
    y = net.convolution(source(net, (1, 3, 4, 4)), w, axes=2)
    graph = end(net, net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=2))
    raised = ird.raise_(graph).graph
    (node,) = raised.nodes("ConvolutionBackpropData")
    convert = raised.node(raised.inputs_of(node.id)[1].node)
    assert convert.type == "Convert"
    assert str(raised.spec(raised.inputs_of(convert.id)[0]).dtype) == "f16"
    certified(graph, raised)


def test_only_the_patterns_that_are_asked_for() -> None:
    net = Net(18)
    y = net.convolution(resize(net, source(net, (1, 2, 3, 3)), (2, 2)), net.numbers(8, 2, 3, 3))
    y = net.op("ReLU", "opset1", y)
    y = net.convolution(y, net.numbers(4, 8, 1, 1), name="second")
    graph = end(net, net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=2))
    assert len(raised_types(ird.raise_(graph).graph)) == 2
    assert left(ird.raise_(graph, ["resize"]).graph) == ["Convolution", "DepthToSpace"]


def test_nothing_to_raise() -> None:
    g = Graph()
    result(g, Value(parameter(g, (1, 2, 3), np.float32, "x").node))
    assert str(ird.raise_(g).report) == "no decompositions of deconvolutions"


def test_certificates_are_checked_in_files(tmp_path: Path) -> None:
    """`raise --certify FILE` and `check-certificate` agree; another model is refused."""
    net = Net(19)
    y = net.convolution(source(net, (1, 3, 4, 4)), net.numbers(8, 3, 3, 3))
    y = net.op("Add", "opset1", y, np.full((1, 8, 1, 1), 3, np.float32))
    y = net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=2)
    a, b, c = (str(tmp_path / name) for name in ("a.xml", "b.xml", "c.json"))
    ird.write(end(net, y), a)
    assert main(["raise", a, "-o", b, "--certify", c, "-q"]) == 0
    assert main(["check-certificate", b, a, "--certificate", c, "--probe"]) == 0
    net.graph.replace_op(y.node, DepthToSpace(mode="depth_first", block_size=2))
    ird.write(net.graph, a)
    assert main(["check-certificate", b, a]) == 1


def test_repeated_names_stay_and_are_told_apart() -> None:
    net = Net(20)
    x = resize(net, source(net, (1, 2, 3, 3)), (2, 2))
    x = net.op("ReLU", "opset1", net.convolution(x, net.numbers(2, 2, 3, 3)), name="conv")
    graph = end(net, net.convolution(resize(net, x, (3, 1)), net.numbers(2, 2, 2, 2)))
    raised = ird.raise_(graph).graph
    assert [n.name for n in raised.nodes() if n.type not in ("Const", "Parameter", "Result")] == [
        "conv"
    ] * 3
    assert agrees(net, raised, net.numbers(1, 2, 3, 3))
    certified(graph, raised)


def test_zeros_of_a_fixed_size_beside_open_data_stay() -> None:
    """The graph runs at one size alone, a deconvolution would at all."""
    net = Net()
    x = net.op("Unsqueeze", "opset1", source(net, (1, 2, 3), open_sizes=True), [3])
    x = net.op("Concat", "opset1", x, np.zeros((1, 2, 3, 1), np.float32), axis=3)
    x = net.op("Reshape", "opset1", x, [1, 2, 6])
    graph = end(net, net.convolution(x, np.ones((2, 2, 3), np.float32), axes=1))
    assert raised_types(ird.raise_(graph).graph) == []


@pytest.mark.parametrize(("name", "kept"), [("i32", True), ("u64", True), ("i8", False)])
def test_sizes_are_not_followed_through_types_in_which_they_wrap(name: str, kept: bool) -> None:
    g, x = begun((None, 3))
    size = g.add(ShapeOf(ELEMENT_TYPES["i64"]), [x], name="size")
    small = g.add(Convert(ELEMENT_TYPES[name]), [Value(size.id)], name="small")
    result(g, Value(small.id), "y")
    walk = GraphWalk(ird.infer(g))
    walk.values[x] = leaf = walk.leaf(x)
    if kept:
        assert tuple(walk.get(Value(small.id)).array) == leaf.shape
    else:
        with pytest.raises(Unproved):
            walk.get(Value(small.id))


# Raising keeps what is proved: convolutions with a stride, mutants, what no proof covers.

FORMS = tuple(CONDITIONS)


# A convolution with a stride ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "strides", "whole"),
    [((4, 2), (2, 1), (2, 2)), ((4, 4), (4, 2), (1, 2)), ((2, 3), (1, 3), (2, 1)),
     ((2, 4), (2, 2), (1, 2))],
)  # fmt: skip
@pytest.mark.parametrize("free", [False, True])
def test_a_stride_behind_an_enlargement(factors: Any, strides: Any, whole: Any, free: bool) -> None:
    net, shape = Net(41), (1, 3, 4, 5)
    x = resize(net, source(net, shape, open_sizes=free), factors)
    y = net.convolution(x, net.numbers(2, 3, 3, 4), ((1, 2), (0, 1)), strides=strides)
    graph = end(net, y)
    proved = "is proved for" not in str(ird.raise_(graph).report)
    # By symbolic sizes a stride is followed only if it is that of the repeated elements.
    undone = all(s in (1, f) for s, f in zip(strides, factors, strict=True))
    assert proved is (not free or undone)
    raised = raise_deconvolutions(graph).graph
    (node,) = raised.nodes("ConvolutionBackpropData")
    assert node.op.strides == whole  # type: ignore[attr-defined]
    assert left(raised) == []
    assert agrees(net, raised, net.numbers(*shape))
    if proved:
        certified(graph, raised)


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
def test_pixel_shuffle_behind_a_stride(mode: str) -> None:
    net, shape = Net(42), (2, 3, 3, 4)
    x = net.op("ZeroInsertion", "irdeconv_1", source(net, shape), strides=(2, 2), trailing=True)
    y = net.convolution(x, net.numbers(8, 3, 3, 3), ((1, 1), (1, 1)), strides=(2, 2))
    end(net, net.op("DepthToSpace", "opset1", y, mode=mode, block_size=2))
    raised = raised_whole(net, "depth-to-space", shape)
    assert raised_types(raised.graph) == ["ConvolutionBackpropData"]


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
    net, shape = Net(43), (1, 2, 6)
    w = blocked(net.numbers(2, 3, 4))
    w[0, 0, 0] += changed
    y = net.convolution(source(net, shape), w, ((1,), (1,)), strides=(2,))
    graph = end(net, net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=4))
    raised = ird.raise_(graph)
    assert raised_types(raised.graph) == ["ConvolutionBackpropData"] * (not changed)
    assert changed == ("different filters" in str(raised.report))
    assert agrees(net, raised.graph, net.numbers(*shape))


def test_strides_that_are_none_of_a_deconvolution() -> None:
    for factors, why in (((2, 3), "no whole stride"), ((2, 2), "enlarges")):
        net = Net(44)
        x = resize(net, source(net, (1, 2, 4, 4)), factors)
        graph = end(net, net.convolution(x, net.numbers(2, 2, 3, 3), strides=(2, 2)))
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
    raised = ird.raise_(ird.lower(graph, form).graph)
    assert raised_types(raised.graph) == []
    assert form != "zero-insertion" or "not finite" in str(raised.report)


def test_what_is_not_proved_is_put_back() -> None:
    net = Net(46)
    x = source(net, (1, 2, 4, 5))
    a = net.convolution(resize(net, x, (2, 2)), net.numbers(3, 2, 3, 3), name="first")
    b = net.convolution(resize(net, x, (2, 3)), net.numbers(4, 2, 3, 3), name="second")
    end(net, a, "y1")
    graph = end(net, b, "y2")
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
    net = Net(1, graph)
    assert agrees(net, raised, net.numbers(1, 2, 4, 5), output="y1")


def test_an_unknown_operation_says_nothing_of_its_shape() -> None:
    net = Net(47)
    spec = Spec.of(np.zeros((1, 2, 4, 5), np.float32)).without_value()
    unknown = net.graph.add(Opaque("Mystery", "opset9", declared=(spec,)), [], name="m")
    x = resize(net, Value(unknown.id), (2, 2))
    raised = ird.raise_(end(net, net.convolution(x, net.numbers(3, 2, 3, 3))))
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
        graph, feeds = build(layer, x, layer_numbers(rng, layer.filter_shape, np.float32))
        low = ird.lower(graph, FORMS[done % len(FORMS)]).graph
        for text, mutant in mutants(low):
            try:
                wrong = ird.infer(mutant)
            except ird.InferenceError:
                continue
            yield text, wrong, ird.raise_(wrong), feeds
        done += 1


@pytest.mark.thorough
@pytest.mark.parametrize("chunk", parts(1, 2))
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
@pytest.mark.parametrize("step", parts(1, (3, 1)))
def test_openvino_runs_raised_mutants_alike(step: int, tmp_path: Path) -> None:
    count, rng = 0, np.random.default_rng(49)
    for text, wrong, raised, feeds in list(raised_mutants(rng, 2))[::step]:
        if not any(r.pattern for r in raised.report):
            continue
        found = []
        for name, graph in (("a", wrong), ("b", raised.graph)):
            ird.write(graph, tmp_path / f"{name}.xml")
            found += outputs(tmp_path / f"{name}.xml", list(feeds.values()))[:1]
        assert np.array_equal(*found), text
        count += 1
    assert count > 10 / step


# A resize alone as a deconvolution: where it is one, where not, and what proves it.

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


@each_row("mode", LINEAR)
@each_row("rule", RULES)
@each_row("sizes", [(8, 10), (7, 9), (7, 5), (13, 17), (4, 9)])
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
    net = resized((1, 3, 4, 5), sizes, mode, rule)
    ird.write(net.graph, tmp_path / "a.xml")
    made = raised(net)
    assert raised_types(made.graph)
    ird.write(made, tmp_path / "b.xml")
    x = numbers(np.random.default_rng(2), 1, 3, 4, 5)
    assert np.array_equal(*(outputs(tmp_path / f, [x])[0] for f in ("a.xml", "b.xml")))
