"""What raising leaves alone, and what it leaves as it was around a raised layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.cli.main import main
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.convert import Convert
from irdeconv.ops.shape import ShapeOf
from irdeconv.rewrite.raising_tensor import Size, SizeEvaluator, Unreadable
from irdeconv.verify.check import check, probe_layers
from support.layers import parameter, result
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

# What must stay ----------------------------------------------------------------------------------


def shuffled(rng: np.random.Generator, change: str) -> Net:
    """A graph that looks like a decomposition and is none, for one reason."""
    net, shape = Net(), (1, 2, 4, 3)
    x, w, pads = source(net, shape), numbers(rng, 3, 2, 3, 3), ((1, 1), (1, 1))
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
        y = net.convolution(x, numbers(rng, 8, 2, 3, 3), pads)
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


NOT_RAISED = [
    "pad value",
    "pad mode",
    "inserted ones",
    "permuted",
    "linear",
    "half a factor",
    "cropped, then padded",
    "stride",
]


@pytest.mark.parametrize("change", NOT_RAISED)
def test_what_only_looks_like_a_decomposition_stays(change: str) -> None:
    rng = np.random.default_rng(11)
    net = shuffled(rng, change)
    raised = ird.raise_(net.graph)
    assert raised_types(raised.graph) == []
    assert ird.dump(raised.graph) == ird.dump(ird.infer(net.graph))
    assert agrees(net, raised.graph, numbers(rng, 1, 2, 4, 3))


def test_reasons_are_told() -> None:
    rng = np.random.default_rng(12)
    told = {c: str(ird.raise_(shuffled(rng, c).graph).report) for c in NOT_RAISED}
    assert "is of the mode linear" in told["linear"]
    assert "no whole factors" in told["half a factor"]
    assert "cropped and then padded" in told["cropped, then padded"]
    assert "stride 3 leaves no whole stride" in told["stride"]


def test_a_bias_that_differs_between_phases_stays_inside() -> None:
    rng = np.random.default_rng(13)
    net = Net()
    y = net.convolution(source(net, (1, 3, 4, 4)), numbers(rng, 8, 3, 3, 3))
    y = net.op("Add", "opset1", y, np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1))
    graph = end(net, net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=2))
    raised = ird.raise_(graph)
    assert raised_types(raised.graph) == []
    assert "the bias differs between the phases" in str(raised.report)


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
def test_the_wrong_order_of_channels_is_not_proved(mode: str) -> None:
    """The checker finds out where a graph is not the one that was raised."""
    rng = np.random.default_rng(14)
    net = Net()
    y = net.convolution(source(net, (1, 3, 4, 4)), numbers(rng, 8, 3, 3, 3))
    y = net.op("DepthToSpace", "opset1", y, mode=mode, block_size=2, name="shuffle")
    graph = end(net, y)
    raised = ird.raise_(graph).graph
    other = "depth_first" if mode == "blocks_first" else "blocks_first"
    graph.replace_op(y.node, DepthToSpace(mode=other, block_size=2))
    assert not check(raised, ird.infer(graph)).passed
    assert not probe_layers(raised, ird.infer(graph)).passed


# Surroundings ------------------------------------------------------------------------------------


def test_values_in_between_that_others_use_stay() -> None:
    rng = np.random.default_rng(15)
    net = Net()
    up = resize(net, source(net, (1, 2, 3, 3)), (2, 2))
    w = net.const(numbers(rng, 4, 2, 3, 3))
    y = net.convolution(up, w, ((1, 1), (1, 1)), axes=2)
    z = net.convolution(up, w, ((0, 0), (0, 0)), axes=2, name="second")
    shuffled = net.op("DepthToSpace", "opset1", y, mode="depth_first", block_size=2)
    for i, value in enumerate((up, y, z, shuffled)):
        end(net, value, f"y{i}")
    raised = ird.raise_(net.graph)
    assert agrees(net, raised.graph, numbers(rng, 1, 2, 3, 3))
    assert raised.graph.outputs == net.graph.outputs
    assert left(raised.graph) == ["Interpolate"]
    assert len(raised_types(raised.graph)) == 3


def test_names_of_tensors_stay() -> None:
    rng = np.random.default_rng(16)
    net = Net()
    y = net.convolution(resize(net, source(net, (1, 2, 3, 3)), (2, 2)), numbers(rng, 4, 2, 3, 3))
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
    rng = np.random.default_rng(17)
    net = Net()
    small = net.const(numbers(rng, 8, 3, 3, 3).astype(np.float16))
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
    rng = np.random.default_rng(18)
    net = Net()
    y = net.convolution(resize(net, source(net, (1, 2, 3, 3)), (2, 2)), numbers(rng, 8, 2, 3, 3))
    y = net.op("ReLU", "opset1", y)
    y = net.convolution(y, numbers(rng, 4, 8, 1, 1), name="second")
    graph = end(net, net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=2))
    assert len(raised_types(ird.raise_(graph).graph)) == 2
    assert left(ird.raise_(graph, ["resize"]).graph) == ["Convolution", "DepthToSpace"]
    with pytest.raises(UsageError, match="there is no pattern"):
        ird.raise_(graph, ["rezise"])


def test_nothing_to_raise() -> None:
    g = Graph()
    x = parameter(g, (1, 2, 3), np.float32, "x")
    result(g, Value(x.node))
    assert str(ird.raise_(g).report) == "no decompositions of deconvolutions"


def test_certificates_are_checked_in_files(tmp_path: Path) -> None:
    """`raise --certify FILE` and `check-certificate` agree; another model is refused."""
    rng = np.random.default_rng(19)
    net = Net()
    y = net.convolution(source(net, (1, 3, 4, 4)), numbers(rng, 8, 3, 3, 3))
    y = net.op("Add", "opset1", y, np.full((1, 8, 1, 1), 3, np.float32))
    y = net.op("DepthToSpace", "opset1", y, mode="blocks_first", block_size=2)
    a, b, c = (str(tmp_path / name) for name in ("a.xml", "b.xml", "c.json"))
    ird.write(end(net, y), a)
    assert main(["raise", a, "-o", b, "--certify", c, "-q"]) == 0
    assert main(["check-certificate", b, a, "--certificate", c, "--probe"]) == 0
    net.graph.replace_op(y.node, DepthToSpace(mode="depth_first", block_size=2))
    ird.write(net.graph, a)
    assert main(["check-certificate", b, a]) == 1
    assert main(["raise", a, "--only", "rezise"]) == 2


def test_repeated_names_stay_and_are_told_apart() -> None:
    rng = np.random.default_rng(20)
    net = Net()
    x = resize(net, source(net, (1, 2, 3, 3)), (2, 2))
    x = net.op("ReLU", "opset1", net.convolution(x, numbers(rng, 2, 2, 3, 3)), name="conv")
    graph = end(net, net.convolution(resize(net, x, (3, 1)), numbers(rng, 2, 2, 2, 2)))
    raised = ird.raise_(graph).graph
    assert [n.name for n in raised.nodes() if n.type not in ("Const", "Parameter", "Result")] == [
        "conv"
    ] * 3
    assert agrees(net, raised, numbers(rng, 1, 2, 3, 3))
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
    g = Graph()
    x = parameter(g, (None, 3), np.float32, "x")
    size = g.add(ShapeOf(ELEMENT_TYPES["i64"]), [x], name="size")
    small = g.add(Convert(ELEMENT_TYPES[name]), [Value(size.id)], name="small")
    result(g, Value(small.id), "y")
    vectors = SizeEvaluator(ird.infer(g), {x: [Size.symbol("n"), Size.of(3)]})
    if kept:
        assert vectors.get(Value(small.id)) == [Size.symbol("n"), Size.of(3)]
    else:
        with pytest.raises(Unreadable):
            vectors.get(Value(small.id))
