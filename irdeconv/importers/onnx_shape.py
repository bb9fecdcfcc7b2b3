"""ONNX's operations on shapes and layouts: Reshape, Transpose, Concat, Split, Slice, Pad, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irdeconv.dtypes import ElementType, f32, i64, of_numpy
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, plain, rule
from irdeconv.importers.onnx_tensors import to_array
from irdeconv.ops.broadcasting import Broadcast, Tile
from irdeconv.ops.channels import DepthToSpace, SpaceToDepth
from irdeconv.ops.elementwise import GreaterEqual, LessEqual, Select, Subtract
from irdeconv.ops.generate import Range
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.places import NonZero
from irdeconv.ops.reduction import ReduceProd
from irdeconv.ops.shape import Reshape, Squeeze1, Unsqueeze
from irdeconv.ops.slicing import Slice
from irdeconv.ops.splitting import Split, VariadicSplit

BLOCKS = {"DCR": "blocks_first", "CRD": "depth_first"}

plain("Expand", "8 13", Broadcast("bidirectional"), inputs=2)
plain("Tile", "6 13", Tile(), inputs=2)
plain("NonZero", "9 13", NonZero(i64))


@rule("Reshape", "1 5 13 14 19 21 23 24 25")
def reshape(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """0 copies a dimension unless allowzero is set."""
    copies = not n.integer("allowzero", 0)
    target = b.ints(*n.ints("shape")) if n.version < 5 else n[1]
    return b.add(Reshape(special_zero=copies), n[0], target)


@rule("Flatten", "1 9 11 13 21 23 24 25")
def flatten(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A matrix; the axes before `axis` become the rows."""
    axis, rank = n.integer("axis", 1), b.rank(n[0])
    if not -rank <= axis <= rank:
        raise Refusal(f"axis is {axis}, but the rank is {rank}")
    return b.flatten(n[0], axis + rank if axis < 0 else axis)


@rule("Transpose", "1 13 21 23 24 25")
def transpose(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Permute the axes; reverse them without perm."""
    order = n.ints("perm") or tuple(reversed(range(b.rank(n[0]))))
    return b.add(Transpose(), n[0], b.ints(*order))


def _axes(n: OnnxNode, b: ImportBuilder) -> Value | None:
    """Return the axes: an attribute before version 13, an input from it on."""
    if n.version >= 13:
        return n.input(1)
    return b.ints(*n.ints("axes")) if "axes" in n else None


@rule("Squeeze", "1 11 13 21 23 24 25")
def squeeze(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Remove axes of size 1: the given ones, or all."""
    axes = _axes(n, b)
    return b.add(Squeeze1(), n[0]) if axes is None else b.add(Squeeze1(), n[0], axes)


@rule("Unsqueeze", "1 11 13 21 23 24 25")
def unsqueeze(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Insert axes of size 1."""
    axes = _axes(n, b)
    if axes is None:
        raise Refusal("axes are missing")
    return b.add(Unsqueeze(), n[0], axes)


@rule("Concat", "1 4 11 13")
def concat(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Join along an axis."""
    return b.add(Concat(n.axis(b, n[0], default=1)), *n.given)


@rule("Split", "2 11 13 18")
def split(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Cut along an axis: by lengths, or into equal parts of which the last may be shorter."""
    x, count = n[0], len(n.outputs)
    axis = n.axis(b, x)
    lengths = n.input(1) if n.version >= 13 else None
    if n.version < 13 and "split" in n:
        lengths = b.ints(*n.ints("split"))
    at = b.scalar(axis)
    if lengths is not None:
        if b.shape(lengths) != (count,):
            raise Refusal(f"split is {b.spec(lengths).without_value()} for {count} outputs")
        return b.outputs(VariadicSplit(), x, at, lengths)
    if n.version >= 18 and n.integer("num_outputs", count) != count:
        raise Refusal(f"num_outputs is {n.integer('num_outputs')} for {count} outputs")
    size = b.shape(x, 1)[axis]
    if not isinstance(size, int):
        raise Refusal(f"axis {axis} of open size into {count} parts")
    if size % count == 0:
        return b.outputs(Split(count), x, at)
    part = -(-size // count)
    last = size - part * (count - 1)
    if n.version < 18 or last < 0:
        raise Refusal(f"axis {axis} of size {size} does not divide into {count} parts")
    return b.outputs(VariadicSplit(), x, at, b.ints(*(part,) * (count - 1), last))


@rule("Slice", "1 10 11 13")
def slice_(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Take start:end:step of axes."""
    x = n[0]
    if n.version < 10:
        starts, ends = n.ints("starts"), n.ints("ends")
        axes = n.ints("axes") or tuple(range(len(starts)))
        ones = (1,) * len(starts)
        return b.add(Slice(), x, *(b.ints(*v) for v in (starts, ends, ones, axes)))
    start, end, steps, chosen = n[1], n[2], n.input(4), n.input(3)
    if steps is None:
        count = b.shape(start, 1)[0]
        if not isinstance(count, int):
            raise Refusal("starts has an unknown number of values")
        b.room(count)
        steps = b.const(np.ones(count, b.dtype(start).container))
    more = () if chosen is None else (chosen,)
    return b.add(Slice(), x, start, end, steps, *more)


@rule("Shape", "1 13 15 19 21 23 24 25")
def shape(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The shape as i64; from version 15 on perhaps a part of it."""
    whole = b.shape_of(n[0])
    if "start" not in n and "end" not in n:
        return whole
    rank = b.rank(n[0])
    start, end, _ = slice(n.integer("start", 0), n.integer("end", rank)).indices(rank)
    part = (b.ints(v) for v in (start, max(end, start), 1, 0))
    return b.add(Slice(), whole, *part)


@rule("Size", "1 13 19 21 23 24 25")
def size(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The number of elements as an i64 scalar."""
    return b.add(ReduceProd(keep_dims=False), b.shape_of(n[0]), b.ints(0))


@rule("DepthToSpace", "1 11 13 28")
@rule("SpaceToDepth", "1 13 28")
def blocks(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Blocks of channels become pixels, or back; DCR has the block first, CRD the channel."""
    op = DepthToSpace if n.type == "DepthToSpace" else SpaceToDepth
    return b.add(op(n.meaning("mode", "DCR", BLOCKS), n.integer("blocksize")), n[0])


CONSTANTS: dict[str, tuple[Any, Callable[[OnnxNode, str], Any]]] = {
    "value_float": (np.float32, lambda n, name: n.number(name, 0.0)),
    "value_floats": (np.float32, OnnxNode.numbers),
    "value_int": (np.int64, OnnxNode.integer),
    "value_ints": (np.int64, OnnxNode.ints),
    "value_string": (object, lambda n, name: n.text(name, "")),
    "value_strings": (object, OnnxNode.texts),
}


@rule("Constant", "1 9 11 12 13 19 21 23 24 25")
def constant(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A constant tensor."""
    if len(n.attributes) != 1:
        raise Refusal("exactly one value attribute is needed")
    (name,) = n.attributes
    if name == "value":
        return b.const(*to_array(n.tensor(name)))
    if name not in CONSTANTS:
        raise Refusal(f"the attribute {name} is not covered")
    type, value = CONSTANTS[name]
    array = np.array(value(n, name), type)
    return b.const(array, of_numpy(array.dtype))


@rule("ConstantOfShape", "9 20 21 23 24 25")
def constant_of_shape(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A tensor of one repeated value, f32 zero by default."""
    tensor = n.tensor("value")
    array, dtype = (np.zeros(1, np.float32), None) if tensor is None else to_array(tensor)
    kind: ElementType = dtype or of_numpy(array.dtype)
    return b.add(Broadcast("numpy"), b.const(array.reshape(()), kind), n[0])


@rule("Range", "11 27")
def range_(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """start, start + delta, ... below limit; f16 and bf16 ones are computed in f32."""
    n.only("stash_type", 1)
    ends, dtype = [b.as_scalar(n[i]) for i in range(3)], b.dtype(n[0])
    if dtype.name not in ("f16", "bf16"):
        return b.add(Range(dtype), *ends)
    return b.convert(b.add(Range(f32), *(b.convert(v, f32) for v in ends)), dtype)


@rule("Trilu", "14")
def trilu(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Keep the triangle above (or below) the k-th diagonal of matrices, else 0."""
    x = n[0]
    rows, columns = b.shape(x, 2)[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Refusal("matrices of open size")
    b.room(rows, columns)
    across, down = b.const(np.arange(columns)[None, :]), b.const(np.arange(rows)[:, None])
    away = b.add(Subtract(), across, down)
    k = b.scalar(0) if n.input(1) is None else b.as_scalar(n[1])
    inside = GreaterEqual() if n.integer("upper", 1) else LessEqual()
    return b.add(Select(), b.add(inside, away, k), x, b.like(0, x))
