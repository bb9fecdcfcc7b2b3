"""Pairs that hang on how a file spells a number, a port or a version, and on the types of data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pair_parts import pair
from text_graph import End, TextGraph

Make = Callable[[TextGraph], End]
SPELLED, PORTS, RANKS = "spelled otherwise", "ports and versions", "ranks of vectors"
INTEGERS, LIMITS = "integer data", "limits of types and layers"
SHAPE = (2, 3, 4, 6)
ONE_AXIS = {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0, "auto_pad": "explicit"}
TWO_AXES = {k: f"{v},{v}" if k != "auto_pad" else v for k, v in ONE_AXIS.items()}


def texts(
    cause: str,
    name: str,
    original: Make,
    lowered: Make,
    shape: tuple[int, ...] = SHAPE,
    type: str = "f32",
) -> None:
    """Add a pair of two graphs of one input."""

    def write(folder: Path) -> None:
        for file, make in (("original", original), ("lowered", lowered)):
            graph = TextGraph(shape, type)
            graph.write(folder / f"{file}.xml", make(graph))

    pair(cause, name, write, shape)


def plus_zero(g: TextGraph, y: End | None = None) -> End:
    return g.add("Add-1", y or g.x, g.real(0), auto_broadcast="numpy")


def times(value: Any) -> Make:
    return lambda g: g.add("Multiply-1", g.x, g.real(value), auto_broadcast="numpy")


def matmul(transposed: str, weights: Any = ((1, 2), (3, 4)), moved: bool = True) -> Make:
    def make(g: TextGraph) -> End:
        x = plus_zero(g) if moved else g.x
        said = {"transpose_a": "false", "transpose_b": transposed}
        return g.add("MatMul-1", x, g.real(weights), **said)

    return make


for _text, _truth in (("True", "false"), ("TRUE", "false"), ("yes", "true"), (" true", "true")):
    texts(SPELLED, f"transposed_{_text}", matmul(_truth, moved=False), matmul(_text), (2, 2))
texts(
    SPELLED,
    "keep_dims_True",
    lambda g: g.add("MatMul-1", g.x, g.real([1, 1, 1])),
    lambda g: g.add("ReduceSum-1", g.x, g.const([1]), keep_dims="True"),
    (2, 3),
)


def clamp(most: str, moved: bool = True) -> Make:
    return lambda g: g.add("Clamp-1", plus_zero(g) if moved else g.x, min="-2", max=most)


for _text, _truth in (
    ("1_0", "10"),
    ("\u0661", "1"),
    ("Infinity", "1e40"),
    ("0x1", "1"),
    ("", "9"),
):
    texts(SPELLED, f"clamp_{_text!a}".replace("\\", ""), clamp(_truth, False), clamp(_text), (8,))


def einsum(equation: str, opset: Any = 7, weights: Any = ((1, 2), (3, 4))) -> Make:
    return lambda g: g.add(f"Einsum-{opset}", g.x, g.real(weights), equation=equation)


for _text in ("a b,bc->ac", "ab,bc -> ac", "ab, bc->ac"):
    texts(SPELLED, f"einsum_{_text}", matmul("false", moved=False), einsum(_text), (2, 2))


# Inputs too many, and operations that a set does not have -----------------------------------------


def sums(opset: Any) -> Make:
    return lambda g: g.add(f"ReduceSum-{opset}", g.x, g.const([1]), keep_dims="false")


for _opset in (99, 17, 0, "extension"):
    _of_ones = matmul("false", (1, 1), moved=False)
    texts(PORTS, f"sum_of_opset_{_opset}", _of_ones, sums(_opset), (2, 2))
texts(PORTS, "einsum_of_opset1", matmul("false", moved=False), einsum("ab,bc->ac", 1), (2, 2))


def extra(head: str, **said: Any) -> Make:
    """What does nothing, or doubles, with one input more."""

    def make(g: TextGraph) -> End:
        more: list[Any] = []
        if "onv" in head:
            eye = 2 * np.eye(3).reshape(3, 3, 1, 1)
            more = [g.real(eye), *[g.const([4, 6])] * ("Backprop" in head)]
        elif head == "ReduceSum-1":
            more = [g.const([])]
        return plus_zero(g, g.add(head, g.x, *more, g.real([1, 2, 3]), **said))

    return make


texts(PORTS, "convert", plus_zero, extra("Convert-1", destination_type="f32"))
texts(PORTS, "sum_of_nothing", plus_zero, extra("ReduceSum-1", keep_dims="false"))
texts(PORTS, "convolution", times(2), extra("Convolution-1", **TWO_AXES))
texts(PORTS, "deconvolution", times(2), extra("ConvolutionBackpropData-1", **TWO_AXES))
texts(PORTS, "negative", times(-1), extra("Negative-1"))


def activated(said: dict[str, Any], head: str, *numbers: Any, **attributes: Any) -> None:
    """A deconvolution with an activation against one behind a product."""
    shape, name = (2, 4, 6, 3), f"{said['activation']}_{head}_{len(numbers)}_{len(attributes)}"

    def original(g: TextGraph) -> End:
        weights = g.real(np.ones((3, 2, 1, 1)))
        return g.add("ConvTranspose-com.ms.internal.nhwc_1", g.x, weights, strides="1,1", **said)

    def lowered(g: TextGraph) -> End:
        y = g.add("MatMul-1", g.x, g.real(np.ones((3, 2))))
        return g.add(head, y, *map(g.real, numbers), **attributes)

    texts(PORTS, name, original, lowered, shape)


activated({"activation": "LeakyRelu"}, "PReLU-1")
activated({"activation": "HardSigmoid"}, "HardSigmoid-1")
activated(
    {"activation": "HardSigmoid", "activation_params": "0.25,0.5"}, "HardSigmoid-1", 0.25, [0.5]
)
activated({"activation": "Tanh", "activation_params": "1"}, "Tanh-1", [1])
activated({"activation": "Clip", "activation_params": "5,1"}, "Clamp-1", min=5, max=1)


# Vectors that are scalars, and scalars that are vectors -------------------------------------------


def same_cut(g: TextGraph) -> End:
    return g.add("Slice-8", g.x, *(g.const([v]) for v in (1, 3, 1, 2)))


def cut(port: int) -> Make:
    numbers: list[Any] = [[1], [3], [1], [2]]
    numbers[port] = numbers[port][0]
    return lambda g: g.add("Slice-8", g.x, *map(g.const, numbers))


for _port in range(4):
    texts(RANKS, f"slice_{_port}", same_cut, cut(_port))


def vectors(name: str, original: Make, head: str, *given: Any, **more: Any) -> None:
    """A layer that reads constants, of which one has another rank."""
    shape, outputs = more.pop("shape", SHAPE), more.pop("outputs", 1)

    def lowered(g: TextGraph) -> End:
        return plus_zero(g, g.add(head, g.x, *map(g.const, given), outputs=outputs, **more))

    texts(RANKS, name, original, lowered, shape)


vectors("split_length", plus_zero, "VariadicSplit-1", 2, 4)
vectors("split_axis", plus_zero, "Split-1", [2], num_splits=1)
vectors("tile", plus_zero, "Tile-1", 1)
vectors("broadcast", plus_zero, "Broadcast-3", 6, mode="bidirectional")
vectors("transpose", plus_zero, "Transpose-1", 0, shape=(4,))
vectors("reshape", plus_zero, "Reshape-1", -1, special_zero="false", shape=(4,))
vectors("reverse", plus_zero, "Reverse-1", 0, mode="index", shape=(1, 3))
vectors("roll_of_two", plus_zero, "Roll-7", [0], [2, 3])
vectors("roll_of_scalar", plus_zero, "Roll-7", 0, [2, 3])
vectors("roll_axis", plus_zero, "Roll-7", [0], 2)
vectors("pad_begin", plus_zero, "Pad-1", 0, [0], pad_mode="constant", shape=(4,))
vectors("pad_end", plus_zero, "Pad-12", [0], 0, pad_mode="constant", shape=(4,))
vectors("blocks", plus_zero, "BatchToSpace-2", [1], [0], [0], shape=(4,))
vectors("bounds", plus_zero, "StridedSlice-1", 0, 9, 1, begin_mask="", end_mask="", shape=(4,))
_RESIZED = {"mode": "nearest", "shape_calculation_mode": "sizes"}
vectors("resize", plus_zero, "Interpolate-11", [6], 3, **_RESIZED)
vectors("sizes", plus_zero, "Interpolate-11", 6, [3], **_RESIZED)


def _gathered(g: TextGraph) -> End:
    ends = [g.const(v) for v in ([0], [3], [1])]
    at = g.add("Range-4", *ends, output_type="i64")
    return g.add("Gather-8", g.x, at, g.const(0), batch_dims=0)


def _first_three(g: TextGraph) -> End:
    return g.add("Slice-8", g.x, *(g.const([v]) for v in (0, 3, 1, 0)))


texts(RANKS, "range", _first_three, _gathered, (5,))


# Integers: OpenVINO saturates u8 and i8, and computes products in f32 -----------------------------


def there_and_back(value: int) -> Make:
    def make(g: TextGraph) -> End:
        y = g.add("Add-1", g.x, g.real(value), auto_broadcast="numpy")
        return g.add("Subtract-1", y, g.real(value), auto_broadcast="numpy")

    return make


ODD = 2**24 + 1
texts(INTEGERS, "u8_saturates", plus_zero, there_and_back(254), (8,), "u8")
texts(INTEGERS, "i8_saturates", plus_zero, there_and_back(126), (8,), "i8")
texts(
    INTEGERS,
    "u8_opposite",
    plus_zero,
    lambda g: g.add("Negative-1", g.add("Negative-1", g.x)),
    (8,),
    "u8",
)
for _type in ("i32", "i64"):
    texts(
        INTEGERS,
        f"{_type}_product",
        times(ODD),
        lambda g: g.add("MatMul-1", g.x, g.real([[ODD, 0], [0, ODD]])),
        (2, 2),
        _type,
    )
    texts(
        INTEGERS,
        f"{_type}_convolution",
        times(ODD),
        lambda g: g.add("Convolution-1", g.x, g.real([[[ODD]]]), **ONE_AXIS),
        (1, 1, 4),
        _type,
    )


# Numbers beyond a type, and layers that the plugin does not run -----------------------------------


def filtered(weights: Any, compressed: bool = False) -> Make:
    """A deconvolution of stride 2 by a filter [1, 1, K]."""

    def make(g: TextGraph) -> End:
        w = g.const(weights, "f16") if compressed else g.real(weights)
        w = g.add("Convert-1", w, destination_type="f32") if compressed else w
        return g.add("ConvolutionBackpropData-1", g.x, w, **{**ONE_AXIS, "strides": 2})

    return make


texts(
    LIMITS,
    "zero_was_rounded",
    filtered([[[3, 0, 5]]], True),
    filtered([[[3, 2.9e-8, 5]]]),
    (1, 1, 4),
)


def _joined(g: TextGraph) -> End:
    """A filter of which only the first half is stored in f16."""
    halves = g.add("Convert-1", g.const([[[3, 1, 2]]], "f16"), destination_type="f32")
    w = g.add("Concat-1", halves, g.real([[[3, 1, 1]]]), axis=0)
    return g.add("ConvolutionBackpropData-1", g.x, w, **{**ONE_AXIS, "strides": 2})


_FINE = [[[3, 1, 2]], [[3, 1, 1 + 2.0**-12]]]
texts(LIMITS, "rounded_beside_f16", filtered(_FINE), _joined, (1, 2, 4))


def _joined_forward(g: TextGraph) -> End:
    """The same with a convolution that replaces a deconvolution of stride 1."""
    halves = g.add("Convert-1", g.const([[[2, 1, 3]]], "f16"), destination_type="f32")
    w = g.add("Concat-1", halves, g.real([[[1, 1, 3]]]), axis=1)
    said = {**ONE_AXIS, "pads_begin": 2, "pads_end": 2}
    said.pop("output_padding", None)
    return g.add("Convolution-1", g.x, w, **said)


def _fine(g: TextGraph) -> End:
    return g.add("ConvolutionBackpropData-1", g.x, g.real(_FINE), **ONE_AXIS)


texts(LIMITS, "rounded_beside_f16_forward", _fine, _joined_forward, (1, 2, 4))


def _scaled_filter(g: TextGraph) -> End:
    w = g.real([[[2.0**-100, 2.0**-100]]])
    for by in (2.0**-100, 2.0**100):
        w = g.add("Multiply-1", w, g.real(by), auto_broadcast="numpy")
    return g.add("ConvolutionBackpropData-1", g.x, w, **{**ONE_AXIS, "strides": 2})


texts(LIMITS, "underflow", filtered([[[2.0**-100, 2.0**-100]]]), _scaled_filter, (1, 1, 4))


def conv(head: str, weights: Any, **said: Any) -> Make:
    axes = np.ndim(weights) - 2
    lists = {k: ",".join([str(v)] * axes) for k, v in ONE_AXIS.items() if k != "auto_pad"}
    given = {**lists, "auto_pad": "explicit", **said}
    return lambda g: g.add(head, g.x, g.real(weights), **given)


def _empty(g: TextGraph) -> End:
    return g.add("Slice-8", g.x, *(g.const([v]) for v in (0, 0, 1, 2)))


def _beside_nothing(g: TextGraph) -> End:
    return g.add("Concat-1", g.x, conv("Convolution-1", [[[1, 1, 1]]], strides=2)(g), axis=2)


def _padded(g: TextGraph) -> End:
    return g.add("Pad-12", g.x, g.const([0, 0, 1]), g.const([0, 0, 1]), pad_mode="constant")


_WIDE = np.full((1, 1, 1, 1, 1, 1), 2)
texts(LIMITS, "rank_of_6", times(2), conv("Convolution-1", _WIDE), (2, 1, 3, 2, 2, 2))
texts(LIMITS, "no_output", _empty, conv("Convolution-1", [[[1, 1, 1]]], strides=2), (1, 1, 2))
texts(LIMITS, "beside_no_output", plus_zero, _beside_nothing, (1, 1, 2))
_CROPS = {"pads_begin": -1, "pads_end": -1}
texts(LIMITS, "convolution_crops", same_cut, conv("Convolution-1", [[[1]]], **_CROPS), (1, 1, 4))
texts(LIMITS, "grows", _padded, conv("ConvolutionBackpropData-1", [[[1]]], **_CROPS), (1, 1, 4))


_WEIGHTS = 2 * np.eye(4).reshape(4, 4, 1)


def turned_back(type: str) -> Make:
    """Channels last behind a convolution."""

    def make(g: TextGraph) -> End:
        y = conv("Convolution-1", _WEIGHTS)(g)
        return g.add("Transpose-1", y, g.const([0, 2, 1], type))

    return make


def _back_by_definition(g: TextGraph) -> End:
    y = g.add("ConvolutionBackpropData-1", g.x, g.real(_WEIGHTS), **ONE_AXIS)
    return g.add("Transpose-1", y, g.const([0, 2, 1]))


for _type in ("i8", "u8"):
    texts(RANKS, f"order_of_{_type}", _back_by_definition, turned_back(_type), (1, 4, 8))


_COLUMNS = np.arange(1.0, 37).reshape(12, 1, 1, 3)


def _one_column(g: TextGraph) -> End:
    return g.add("Convolution-1", g.x, g.real(_COLUMNS), **TWO_AXES)


def _stepping(g: TextGraph) -> End:
    return g.add("Convolution-1", g.x, g.real(_COLUMNS), **{**TWO_AXES, "strides": "1,2"})


# The stride changes nothing, but oneDNN computes other values.
texts(LIMITS, "step_in_one_column", _one_column, _stepping, (2, 1, 4, 3))
