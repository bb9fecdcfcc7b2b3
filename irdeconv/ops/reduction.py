"""Reductions over axes: ReduceSum, ReduceMean, ReduceMax, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from irdeconv.base.errors import Problem
from irdeconv.ir.op import JUMPS, MOVES, SUM, Bound, Op, op
from irdeconv.ir.ports import Fit, Types, axis_of
from irdeconv.ir.spec import DYNAMIC, Array, Spec
from irdeconv.kernels import reductions
from irdeconv.kernels.elementwise import saturated
from irdeconv.kernels.reductions import rows_of
from irdeconv.ops.checks import is_computed, shape_of, union
from irdeconv.ops.ranges import holds_real

Reducer = Callable[..., Array]
LAST_BF16 = (2 - 2.0**-7) * 2.0**127


def reduced_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Return the axes counted from 0 and sorted; any order and negative ones are fine."""
    return tuple(sorted({axis_of(int(a), rank, port=1) for a in axes}))


@dataclass(frozen=True)
class Reduction(Op):
    """Base of the reductions: of no axes at all each element by itself is reduced.

    `ufunc` reduces f32 and f64 into given memory. With `averages` the sum is divided. With `norm` a
    single element becomes its absolute value.
    """

    fn: ClassVar[Reducer]
    ufunc: ClassVar[np.ufunc | None] = None
    averages: ClassVar[bool] = False
    norm: ClassVar[bool] = False
    keep_dims: bool = False

    def complete(self, at: Fit, data: Spec, axes: Spec) -> None:
        shape, gone = data.shape, at.axes("axes")
        if shape is None:
            return
        if gone is None and self.keep_dims:
            at.groups["O"] = tuple(union(d, 1) for d in shape)
        elif gone is None:
            single = len(at.values("axes") or ()) == 1 and len(shape) > 0
            at.groups["O"] = (DYNAMIC,) * (len(shape) - 1) if single else None
        elif self.keep_dims:
            at.groups["O"] = tuple(1 if i in gone else d for i, d in enumerate(shape))
        else:
            at.groups["O"] = tuple(d for i, d in enumerate(shape) if i not in gone)

    def remarks(self, data: Spec, axes: Spec) -> Iterator[Problem]:
        if self.norm and axes.known is not None and not axes.known.size:
            text = "without axes the runtime gives absolute values, the document the data itself"
            yield Problem("W300", text, hint="give axes, or an Abs in its place")

    def evaluate(self, data: Array, axes: Array) -> Array:
        adds = data.dtype != object or (type(self).partial and not holds_real(data))
        if axes.dtype == object or not adds:  # Python adds partly known integers, nothing else
            raise TypeError(f"{self.type} of partly known values")
        chosen = reduced_axes(axes.reshape(-1), data.ndim)
        return type(self).fn(data, chosen, self.keep_dims)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        chosen, ufunc = inputs[1].known, type(self).ufunc
        if chosen is None or ufunc is None or not is_computed(inputs[0]):
            return None
        shape = shape_of(inputs[0])
        axes = reduced_axes(chosen.reshape(-1), len(shape))
        block = rows_of(shape, axes)
        if ufunc is np.add and block is not None:
            return Bound(reductions.Mean(block, block[1] if self.averages else 1))
        if self.averages or not axes:
            return None
        kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
        whole: Any = {"axis": axes, "keepdims": True}
        return Bound(lambda x, *_, out, team: ufunc.reduce(x, out=out.reshape(kept), **whole))


Finish = Callable[[Array, int], Array]  # from totals and how many elements each has


def _wide(fn: Reducer, finish: Finish | None = None) -> Reducer:
    """Accumulate f16, bf16 and f8 in float32, integers in 64 bits; round once.

    Totals of 8 bits pass through 32 and saturate, as in the runtime, before they are finished.
    """

    def reduce(x: Array, axes: Any, keep: bool) -> Array:
        dtype = x.dtype
        if x.dtype == object:
            return np.asarray(fn(x, axes, keep), object)
        with np.errstate(all="ignore"):
            if dtype.kind in "iu" and dtype.itemsize < 8:
                x = x.astype(np.int64 if dtype.kind == "i" else np.uint64)
            elif dtype.kind not in "iu" and dtype.itemsize < 4:
                x = x.astype(np.float32)
            total = np.asarray(fn(x, axes, keep))
            if dtype.kind in "iu" and dtype.itemsize == 1:
                total = saturated(total.astype(np.int32), dtype).astype(np.int64)
            if finish is not None:
                total = finish(total, x.size // max(total.size, 1))
            return total.astype(dtype, copy=False)

    return reduce


def _numpy(fn: Reducer) -> Reducer:
    def reduce(x: Array, axes: Any, keep: bool) -> Array:
        return np.asarray(fn(x, axis=axes, keepdims=keep))

    return reduce


def _divided(total: Array, count: int) -> Array:
    """Return means; those of integers are cut towards zero."""
    if total.dtype.kind not in "iu":
        return np.asarray(total / np.asarray(max(count, 1), total.dtype))
    return np.asarray(np.sign(total) * (np.abs(total) // max(count, 1)))


def _end(dtype: np.dtype[Any], lowest: bool) -> Array:
    """Return the lowest or highest number of i32 or float32 (infinite in f16) in a type.

    The highest float32 is infinity: the runtime uses the highest finite one only if axes are
    constants.
    """
    if dtype.kind in "iu":
        info = np.iinfo(np.int32)
        return saturated(np.array(info.min if lowest else info.max), dtype)
    if dtype == np.float32 and not lowest:
        return np.array(np.inf, dtype)
    # Rounding float32's end to bf16 would make infinity of it.
    end = LAST_BF16 if dtype.name == "bfloat16" else float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        return np.array(-end if lowest else end).astype(dtype)


def _extreme(fn: Reducer, lowest: bool) -> Reducer:
    """Return max or min; over nothing the end of float32 or of i32, as their type has it."""

    def reduce(x: Array, axes: Any, keep: bool) -> Array:
        if x.size:
            return np.asarray(fn(x, axis=axes, keepdims=keep))
        return np.full(np.sum(x, axis=axes, keepdims=keep).shape, _end(x.dtype, lowest))

    return reduce


_sum = _numpy(np.sum)


def reduction(
    name: str, fn: Reducer, what: str, *, since: int = 1, accepts: Types = "number", **members: Any
) -> type[Reduction]:
    """Register a reduction; `members` are class variables that differ from the base's."""
    types = "boolean" if accepts == "boolean" else "any numbers"
    body = {
        "__doc__": f"{what} over `axes`, {types}; reduced axes go or, with keep_dims, become 1.  "
        f"[reduction/{name}-{since}]",
        "__module__": __name__,
        "fn": staticmethod(fn),
        "signature": f"data: {accepts} t; axes: integer [*A:1] of data -> t [*O]",
        **members,
    }
    return op(name, since=since)(type(name, (Reduction,), body))


ReduceSum = reduction("ReduceSum", _wide(_sum), "Sum", partial=True, rounding=SUM, ufunc=np.add)
ReduceMean = reduction(
    "ReduceMean",
    _wide(_sum, _divided),
    "Arithmetic mean (integers: towards zero)",
    rounding=SUM,
    ufunc=np.add,
    averages=True,
)
ReduceProd = reduction(
    "ReduceProd", _wide(_numpy(np.prod)), "Product", partial=True, ufunc=np.multiply
)
ReduceMax = reduction(
    "ReduceMax", _extreme(np.max, True), "Largest value", rounding=MOVES, ufunc=np.maximum
)
ReduceMin = reduction(
    "ReduceMin", _extreme(np.min, False), "Smallest value", rounding=JUMPS, ufunc=np.minimum
)
ReduceL1 = reduction(
    "ReduceL1",
    _wide(lambda x, *how: _sum(np.abs(x), *how)),
    "Sum of absolute values",
    since=4,
    rounding=SUM,
    norm=True,
)
ReduceL2 = reduction(
    "ReduceL2",
    _wide(lambda x, *how: _sum(x * x, *how), lambda total, _: np.sqrt(total)),
    "Root of the sum of squares",
    since=4,
    norm=True,
)
ReduceLogicalAnd = reduction(
    "ReduceLogicalAnd", _numpy(np.all), "Whether all are true", accepts="boolean", rounding=JUMPS
)
ReduceLogicalOr = reduction(
    "ReduceLogicalOr", _numpy(np.any), "Whether any is true", accepts="boolean", rounding=JUMPS
)
