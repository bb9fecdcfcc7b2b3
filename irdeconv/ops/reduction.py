"""Reductions over axes (ReduceSum, ...) and normalizations: NormalizeL2, MVN, LRN, ..."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, value_error, values_of
from irdeconv.ir.attributes import Positive, ValueRange
from irdeconv.ir.op import JUMPS, MOVES, SUM, Bound, ChainStep, Op, Operand, attribute, op
from irdeconv.ir.ports import Fit, Types, axis_of
from irdeconv.ir.spec import DYNAMIC, Array, Shape, Spec, bounds
from irdeconv.kernels import copies, elementwise, reductions
from irdeconv.kernels.candidate import type_of_sums
from irdeconv.kernels.elementwise import saturated
from irdeconv.kernels.reductions import GroupNorm, OnRows, Standardize, rows_of
from irdeconv.ops.channels import divided
from irdeconv.ops.checks import is_computed, known, shape_of, union
from irdeconv.ops.elementwise import wide
from irdeconv.ops.ranges import holds_real

Reducer = Callable[..., Array]
LAST_BF16 = (2 - 2.0**-7) * 2.0**127


def reduced_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Return the axes counted from 0 and sorted; any order and negative ones are fine."""
    return tuple(sorted({axis_of(int(a), rank, port=1) for a in axes}))


@dataclass(frozen=True)
class Reduction(Op):
    """Base of the reductions: of no axes at all each element by itself is reduced.

    `ufunc` reduces f32 and f64 into given memory, or ends a sum of squares. With `averages` the sum
    is divided. With `norm` a single element becomes its absolute value.
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
        if ufunc in (np.add, np.sqrt) and block is not None:
            divisor = 0 if ufunc is np.sqrt else block[1] if self.averages else 1
            return Bound(reductions.Mean(block, divisor))
        if self.averages or not axes or ufunc is np.sqrt:
            return None
        reduced = reductions.ReducedRows.of(block, ufunc)
        if reduced is not None:
            return Bound(reduced)
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
    ufunc=np.sqrt,
)
ReduceLogicalAnd = reduction(
    "ReduceLogicalAnd", _numpy(np.all), "Whether all are true", accepts="boolean", rounding=JUMPS
)
ReduceLogicalOr = reduction(
    "ReduceLogicalOr", _numpy(np.any), "Whether any is true", accepts="boolean", rounding=JUMPS
)


def _check_axes(op: Op, at: Fit, shape: Shape, *others: Spec) -> None:
    """Require no more axes than the data have; E305."""
    least = bounds(at.count("axes"))[0]
    if least > len(shape):
        raise value_error(1, f"axes has {values_of(least)} for data of rank {len(shape)}")


class _OverAxes(Op):
    """Base of normalizations over axes, which are the second input: any order, negative ones too.

    Axes that are neighbours are normalized by a kernel; `evaluate` does it for all.
    """

    signature = "data: real t [*I]; axes: integer [*A:1] of data -> t [*I]"

    def axes_in(self, rank: int, *axes: Array) -> tuple[int, ...]:
        """Return the axes counted from 0 and sorted."""
        return reduced_axes(axes[0].reshape(-1), rank)

    def normalize(self, x: Array, axes: tuple[int, ...]) -> Any:
        """Compute f32 or f64."""
        raise NotImplementedError

    def kernel(self) -> Callable[..., None]:
        """Return a function that normalizes `[outer, n, inner]` along n: `(x, out, team)`."""
        raise NotImplementedError

    def evaluate(self, data: Array, *axes: Array) -> Array:
        return wide(self.normalize)(data, self.axes_in(data.ndim, *axes))

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        axes, shape = known(inputs[1:]), shape_of(inputs[0])
        if axes is None or not is_computed(inputs[0]):
            return None
        block = rows_of(shape, self.axes_in(len(shape), *axes))
        return None if block is None else Bound(OnRows(block, self.kernel()))


@op("NormalizeL2")
class NormalizeL2(_OverAxes):
    """x / sqrt(sum of squares over `axes`, `eps` added or as its lower bound), floating-point.

    Without axes every element but 0 is divided by itself.  [normalization/NormalizeL2-1]
    """

    eps: float = attribute(0.0, documented=True)
    eps_mode: Literal["add", "max"] = attribute("add", documented=True)

    def normalize(self, x: Array, axes: tuple[int, ...]) -> Any:
        if not axes:
            return np.where(x == 0, x, x.dtype.type(1))
        eps = x.dtype.type(self.eps)
        squares = np.sum(x * x, axes, keepdims=True)
        return x / np.sqrt(squares + eps if self.eps_mode == "add" else np.maximum(squares, eps))

    def kernel(self) -> Callable[..., None]:
        return partial(reductions.normalize_l2, eps=self.eps, add=self.eps_mode == "add")


def standardize(
    x: Array, axes: tuple[int, ...], *, variance: bool, eps: float, inside: bool
) -> Any:
    """Subtract the mean over axes and, with `variance`, divide by the standard deviation."""
    if x.size == 0:  # nothing has no mean
        return np.empty_like(x)
    centred = x - np.mean(x, axes, keepdims=True)
    if not variance:
        return centred
    spread = np.mean(centred * centred, axes, keepdims=True)
    small = x.dtype.type(eps)
    return centred / (np.sqrt(spread + small) if inside else np.sqrt(spread) + small)


class MeanVariance(_OverAxes):
    """Base of the two versions."""

    normalize_variance: bool
    eps: float
    eps_mode: str = "inside_sqrt"

    def normalize(self, x: Array, axes: tuple[int, ...]) -> Any:
        inside = self.eps_mode == "inside_sqrt"
        return standardize(x, axes, variance=self.normalize_variance, eps=self.eps, inside=inside)

    def slope(self, x: Array, *axes: Array) -> Array:
        """Return by how much the outputs move if the means of `x` move by 1."""
        if not self.normalize_variance:
            return np.ones(())
        spread = x.var(self.axes_in(x.ndim, *axes), keepdims=True)
        inside = self.eps_mode == "inside_sqrt"
        return np.asarray(1 / (np.sqrt(spread + self.eps) if inside else spread**0.5 + self.eps))

    def kernel(self) -> Callable[..., None]:
        return Standardize(self.normalize_variance, self.eps, self.eps_mode == "inside_sqrt")


@op("MVN", until=5)
class MVN2(MeanVariance):
    """Mean-variance normalization over all axes from 2 on, or from 1 with `across_channels`.

    Divides by sqrt(variance + eps) with `normalize_variance`; floating-point. Absent, `eps` is 0 in
    the runtime, 1e-9 in the specification.  [normalization/MVN-1]
    """

    signature = "data: real t [*I] -> t [*I]"
    across_channels: bool = False
    normalize_variance: bool = True
    eps: float = 0.0

    def axes_in(self, rank: int, *axes: Array) -> tuple[int, ...]:
        return tuple(range(1 if self.across_channels else 2, rank))


@op("MVN", since=6)
class MVN(MeanVariance):
    """Mean-variance normalization over `axes` (integers, may be negative), floating-point.

    With `normalize_variance`: / sqrt(variance + eps) or / (sqrt(variance) + eps).
    [normalization/MVN-6]
    """

    normalize_variance: bool = attribute(False, documented=True)
    eps: float = attribute(0.0, documented=True)
    eps_mode: Literal["inside_sqrt", "outside_sqrt"] = attribute("inside_sqrt", documented=True)
    signature = _OverAxes.signature.replace("*A:1", "?")
    complete_from = _check_axes


def _batch_norm(x: Array, parameters: tuple[Array, ...], epsilon: float) -> Any:
    shape = (-1, *(1,) * (x.ndim - 2))
    gamma, beta, mean, variance = (p.astype(x.dtype).reshape(shape) for p in parameters)
    return (x - mean) / np.sqrt(variance + x.dtype.type(epsilon)) * gamma + beta


@op("BatchNormInference", since=5)
class BatchNormInference(Op):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (axis 1).

    data: [N, C, ...]; the others: vectors of C values, one floating-point type.
    [normalization/BatchNormInference-5]
    """

    first: ClassVar[int] = 0  # the data's port; the parameters keep their order
    signature = (
        "data: real t [N, C, *I]; gamma: t [C]; beta: t [C]; mean: t [C]; variance: t [C] "
        "-> t [N, C, *I]"
    )
    epsilon: Annotated[float, ValueRange(0, high=math.inf)] = attribute(0.0, documented=True)

    def evaluate(self, *inputs: Array) -> Array:
        parameters = inputs[: self.first] + inputs[self.first + 1 :]
        return wide(_batch_norm)(inputs[self.first], parameters, self.epsilon)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        """Constant parameters."""
        data = inputs[self.first]
        parameters = known([*inputs[: self.first], *inputs[self.first + 1 :]])
        if data.shape is None or data.dtype is None or parameters is None:
            return None
        kind = type_of_sums(data.dtype.container)
        shape = (-1, *(1,) * (len(data.shape) - 2))
        gamma, beta, mean, variance = (np.asarray(p, kind).reshape(shape) for p in parameters)
        with np.errstate(all="ignore"):
            factor = gamma / np.sqrt(variance + kind.type(self.epsilon))
        return ChainStep(elementwise.affine, (Operand(self.first), mean, factor, beta))


@op("BatchNormInference", until=4)
class BatchNormInference1(BatchNormInference):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (axis 1).

    Inputs gamma, beta, data, mean, variance: one floating-point type, vectors of C values.
    [normalization/BatchNormInference-1]
    """

    first: ClassVar[int] = 2
    signature = (
        "gamma: real t [C]; beta: t [C]; data: t [N, C, *I]; mean: t [C]; variance: t [C] "
        "-> t [N, C, *I]"
    )


@op("GroupNormalization", since=12)
class GroupNormalization(Op):
    """Standardize each of `num_groups` groups of channels, then * scale + bias for each channel.

    data: [N, C, ...]; scale, bias: vectors of C values; floating-point, of any types.
    [normalization/GroupNormalization-12]
    """

    signature = "data: real t [N, C, *I]; scale: real [C]; bias: real [C] -> t [N, C, *I]"
    num_groups: Positive
    epsilon: float = attribute(0.0, documented=True)

    def complete(self, at: Fit, *inputs: Spec) -> None:
        if not divided(at["C"], self.num_groups, "the channel axis", "num_groups"):
            raise OpError("the channel axis is 0", code="E302", attribute="num_groups")

    def evaluate(self, data: Array, scale: Array, bias: Array) -> Array:
        return wide(self._normalize)(data, scale, bias)

    def _normalize(self, x: Array, scale: Array, bias: Array) -> Any:
        if not x.size:
            return x
        shape = (-1, *(1,) * (x.ndim - 2))
        grouped = x.reshape(x.shape[0], self.num_groups, -1)
        whole = standardize(grouped, (2,), variance=True, eps=self.epsilon, inside=True)
        flat = whole.reshape(x.shape)
        return flat * scale.astype(x.dtype).reshape(shape) + bias.astype(x.dtype).reshape(shape)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        if not is_computed(*inputs):
            return None
        shape = shape_of(inputs[0])
        block = shape[0] * self.num_groups, math.prod(shape[1:]) // self.num_groups, 1
        rows = OnRows(block, Standardize(True, self.epsilon, True))
        return Bound(GroupNorm(rows, (shape[0], shape[1], math.prod(shape[2:]))))


@op("LRN")
class LRN(Op):
    """x / (bias + alpha / size^n * sum of squares)^beta over windows of `size` along n `axes`.

    Any shape, floating-point (integers are computed in double precision). Windows are centred, the
    even ones one smaller, and end at the border. Beside all spatial axes others do not count, as in
    the runtime, which computes axis 1 or these only, and cuts `bias` to an integer.
    [normalization/LRN-1]
    """

    signature = "data: number t [N, *I]; axes: integer [?] of data -> t [N, *I]"
    alpha: float
    beta: float
    bias: float
    size: Positive
    complete_from = _check_axes

    def evaluate(self, data: Array, axes: Array) -> Array:
        chosen = reduced_axes(axes.reshape(-1), data.ndim)
        spatial = tuple(range(2, data.ndim))
        across = not spatial or not set(spatial) <= set(chosen)
        return wide(self._normalize)(data, chosen if across else spatial)

    def _normalize(self, x: Array, axes: tuple[int, ...]) -> Any:
        total = x * x
        for axis in axes:
            total = copies.sums(total, axis, (self.size - 1) // 2)
        kind = x.dtype.type
        base = kind(self.bias) + kind(self.alpha / self.size ** len(axes)) * total
        if self.beta == 0.5:
            return x / np.sqrt(base)
        if self.beta == 0.75:  # a power costs ten times as much
            root = np.sqrt(base)
            return x / (root * np.sqrt(root))
        return x / np.power(base, kind(self.beta))


@op("GRN")
class GRN(Op):
    """x / sqrt(sum of squares over the channels + bias): data (N, C) to (N, C, H, W).

    Floating-point (integers are computed in double precision).  [normalization/GRN-1]
    """

    signature = "data: number t [N, C, *I:2] -> t [N, C, *I]"
    bias: float = attribute(1.0, documented=True)

    def evaluate(self, data: Array) -> Array:
        return wide(self._normalize)(data)

    def _normalize(self, x: Array) -> Any:
        return x / np.sqrt(np.sum(x * x, 1, keepdims=True) + x.dtype.type(self.bias))
