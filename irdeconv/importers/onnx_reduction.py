"""ONNX's reductions, arg-extremes and cumulative sums."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from irdeconv.dtypes import i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.importers.onnx_quantization import limits
from irdeconv.ops import reduction as red
from irdeconv.ops.elementwise import Add, Multiply, Select, Subtract
from irdeconv.ops.indexing import GatherElements, ScatterElementsUpdate, ScatterNDUpdate
from irdeconv.ops.indexing import GatherND as GatherNDOp
from irdeconv.ops.ordering import CumSum, TopK
from irdeconv.ops.places import OneHot
from irdeconv.ops.shape import Squeeze1
from irdeconv.ops.slicing import Gather, Slice
from irdeconv.ops.unary import Exp, IsFinite, Log
from irdeconv.spec import is_static

ALL = "1 11 13 18"


def _axes(n: OnnxNode, b: ImportBuilder, *, noop: bool = False) -> Value | None:
    """Return the reduced axes; None where nothing is, which is refused without `noop`."""
    nothing = n.integer("noop_with_empty_axes", 0)
    axes = b.ints(*n.ints("axes")) if "axes" in n else n.input(1)
    if axes is not None:
        count = b.shape(axes)[0] if b.rank(axes) else 1
        if not isinstance(count, int):
            raise Refusal("axes of an unknown number")
        if count:
            return axes
    if not nothing:
        return b.ints(*range(b.rank(n[0])))
    if not noop:  # the reduction changes every element, also without axes
        raise Refusal("noop_with_empty_axes=1 without axes")
    return None


def _reduce(
    n: OnnxNode, b: ImportBuilder, op: Any, x: Value | None = None, *, noop: bool = False
) -> Value:
    x = n[0] if x is None else x
    axes = _axes(n, b, noop=noop)
    keep = bool(n.integer("keepdims", 1))
    return x if axes is None else b.add(op(keep_dims=keep), x, axes)


for _type, _versions, _op, _noop in (
    ("ReduceSum", "1 11 13", red.ReduceSum, True),
    ("ReduceMean", ALL, red.ReduceMean, True),
    ("ReduceProd", ALL, red.ReduceProd, True),
    ("ReduceL1", ALL, red.ReduceL1, False),
    ("ReduceL2", ALL, red.ReduceL2, False),
):
    rule(_type, _versions)(partial(_reduce, op=_op, noop=_noop))


@rule("ReduceMax ReduceMin", "1 11 12 13 18 20")
def extreme(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The largest or smallest value; of booleans or, and."""
    x, largest = n[0], n.type == "ReduceMax"
    if 0 in b.shape(x):
        return _of_nothing(n, b, largest=largest)
    if b.dtype(x).kind == "bool":
        op: Any = red.ReduceLogicalOr if largest else red.ReduceLogicalAnd
    else:
        op = red.ReduceMax if largest else red.ReduceMin
    return _reduce(n, b, op, noop=True)


def _of_nothing(n: OnnxNode, b: ImportBuilder, *, largest: bool) -> Value:
    """The extreme of an axis without elements: the end of the element type's range."""
    x, dtype = n[0], b.dtype(n[0])
    axes = _axes(n, b, noop=True)
    if axes is None:
        return x
    ends: tuple[Any, Any]
    if dtype.kind == "bool":
        ends = (False, True)
    else:
        ends = (-np.inf, np.inf) if dtype.is_real else limits(dtype)
    sums = red.ReduceSum(keep_dims=bool(n.integer("keepdims", 1)))
    plain = b.const(np.zeros(b.static(x, "data without elements"), np.float32))
    shape = b.static(b.add(sums, plain, axes), "the result")
    value = int(ends[not largest]) if dtype.is_integral else ends[not largest]
    b.room(math.prod(shape))
    return b.const(np.full(shape, value, dtype.container), dtype)


@rule("ReduceSumSquare", ALL)
def sum_square(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The sum of squares."""
    return _reduce(n, b, red.ReduceSum, b.add(Multiply(), n[0], n[0]))


@rule("ReduceLogSum", f"{ALL} 28")
def log_sum(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The logarithm of the sum."""
    return b.add(Log(), _reduce(n, b, red.ReduceSum))


@rule("ReduceLogSumExp", f"{ALL} 28")
def log_sum_exp(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Subtract the maximum first, where it is finite, so that nothing overflows."""
    x, axes = n[0], _axes(n, b)
    shape = b.shape(x)
    if is_static(shape) and math.prod(shape) == 0:
        return b.add(Log(), _reduce(n, b, red.ReduceSum, b.add(Exp(), x)))
    assert axes is not None
    top = b.add(red.ReduceMax(keep_dims=True), x, axes)
    top = b.add(Select(), b.add(IsFinite(), top), top, b.like(0, x))
    y = b.add(Log(), _reduce(n, b, red.ReduceSum, b.add(Exp(), b.add(Subtract(), x, top))))
    if not n.integer("keepdims", 1):
        top = b.add(Squeeze1(), top, axes)
    return b.add(Add(), y, top)


@rule("ArgMax ArgMin", "1 11 12 13")
def arg_extreme(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Where the extreme lies as i64: the first of equal ones, or the last."""
    x, last = n[0], bool(n.integer("select_last_index", 0))
    axis = n.axis(b, x)
    if last:
        ends = (b.ints(v) for v in (-1, np.iinfo(np.int64).min, -1, axis))
        x = b.add(Slice(), x, *ends)
    op = TopK(axis, "max" if n.type == "ArgMax" else "min", "value", True, i64)
    places = b.outputs(op, x, b.scalar(1))[1]
    if last:
        size = b.add(Gather(), b.shape_of(x), b.scalar(axis), b.scalar(0))
        top = b.add(Subtract(), size, b.scalar(1))
        places = b.add(Subtract(), top, places)
    if n.integer("keepdims", 1):
        return places
    return b.add(Squeeze1(), places, b.ints(axis))


@rule("TopK", "1 10 11 24")
def top_k(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The k largest or smallest elements and their places; of equal ones the first comes first."""
    x = n[0]
    axis = n.axis(b, x, default=-1)
    k = b.scalar(n.integer("k")) if n.version < 10 else b.as_scalar(n[1])
    largest = n.integer("largest", 1)
    n.integer("sorted", 1)  # unsorted means any order
    return b.outputs(TopK(axis, "max" if largest else "min", "value", True, i64), x, k)


@rule("CumSum", "11 14")
def cum_sum(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Sums of what comes before."""
    flags = bool(n.integer("exclusive", 0)), bool(n.integer("reverse", 0))
    return b.add(CumSum(*flags), n[0], b.as_scalar(n[1]))


@rule("OneHot", "9 11 28")
def one_hot(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """on_value at the index, off_value elsewhere; negative indices count from the end."""
    indices = n[0]
    if b.dtype(indices).name not in ("i32", "i64"):
        indices = b.convert(indices, i64)
    depth = b.as_scalar(n[1])
    if b.dtype(depth).name not in ("i32", "i64"):
        depth = b.convert(depth, i64)
    off, on = (b.add(Gather(), n[2], b.scalar(i), b.scalar(0)) for i in (0, 1))
    op = OneHot(n.integer("axis", -1), "normalize")
    return b.add(op, indices, depth, on, off)


@rule("Gather", "1 11 13")
def gather(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Take indices along an axis."""
    return b.add(Gather(), n[0], n[1], b.scalar(n.axis(b, n[0])))


@rule("GatherElements", "11 13")
def gather_elements(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Take single elements along an axis."""
    return b.add(GatherElements(n.axis(b, n[0])), n[0], n[1])


@rule("GatherND", "11 12 13")
def gather_nd(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Take parts by index tuples."""
    return b.add(GatherNDOp(n.integer("batch_dims", 0)), n[0], n[1])


REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "max": "max", "min": "min"}


@rule("Scatter", "9 11")
@rule("ScatterElements", "11 13 16 18")
def scatter_elements(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Write or combine single elements along an axis."""
    op = ScatterElementsUpdate(n.meaning("reduction", "none", REDUCTIONS))
    return b.add(op, n[0], n[1], n[2], b.scalar(n.axis(b, n[0])))


@rule("ScatterND", "11 13 16 18")
def scatter_nd(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Write or combine parts by index tuples."""
    op = ScatterNDUpdate(n.meaning("reduction", "none", REDUCTIONS))
    return b.add(op, n[0], n[1], n[2])
