"""Binders of operations that compute: pooling, reductions, products, normalizations, comparisons.

They take f32 and f64, which are computed as they are; other types are left to `evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.kernels import rows
from irdeconv.kernels.interpolation import Interpolation
from irdeconv.kernels.moves import rows_of
from irdeconv.kernels.pooling.slices import Pooling, counts
from irdeconv.kernels.shared.team import Team
from irdeconv.ops import (
    elementwise,
    interpolate,
    matmul,
    normalization,
    pooling,
    reduction,
    softmax,
)
from irdeconv.ops.checks import axis_of
from irdeconv.runtime.binder import Bound, binder, is_real, shape_of
from irdeconv.spec import Array, Spec, ints


@binder(pooling.Pool)
def _pool(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    """Max and average pooling of one output; the second one of MaxPool-8 is evaluated."""
    if len(outputs) > 1 or inputs[0].dtype is None:
        return None
    shape, sizes = shape_of(inputs[0]), shape_of(outputs[0])[2:]
    windows, padded = op.windows(shape[2:], sizes)
    count = None
    if isinstance(op, pooling.AvgPoolBase):
        count = counts(shape[2:], windows, exclude_pad=op.exclude_pad or not padded)
    return Bound(Pooling(shape, inputs[0].dtype.container, windows, count))


@binder(interpolate.InterpolateBase, interpolate.Interpolate1)
def _interpolate(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    image = inputs[0]
    values = [s.known for s in inputs[1:] if s.known is not None]
    if len(values) < len(inputs) - 1 or (op.mode != "nearest" and not is_real(image)):
        return None
    if op.mode == "area" or any((*op.pads_begin, *op.pads_end)):
        return None
    shape = shape_of(image)
    resizes, rules = interpolate.plan(op, image, values)
    assert image.dtype is not None
    resize = Interpolation(shape, image.dtype.container, resizes, rules)
    return Bound(lambda x, *_, out, team: resize(x, out, team))


Reducer = Callable[[Array, tuple[int, ...], Array], Any]


def _ufunc(ufunc: Any) -> Reducer:
    return lambda x, axes, out: ufunc.reduce(x, axis=axes, keepdims=True, out=out)


_REDUCERS: dict[str, Reducer] = {
    "ReduceSum": _ufunc(np.add),
    "ReduceProd": _ufunc(np.multiply),
    "ReduceMax": _ufunc(np.maximum),
    "ReduceMin": _ufunc(np.minimum),
}


@binder(reduction.Reduction)
def _reduce(
    op: reduction.Reduction, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Bound | None:
    chosen = inputs[1].known
    if chosen is None or not is_real(inputs[0]):
        return None
    shape = shape_of(inputs[0])
    axes = reduction.reduced_axes(chosen, len(shape))
    block = rows_of(shape, axes)
    if op.type in ("ReduceMean", "ReduceSum") and block is not None:
        outer, n, inner = block
        factor = n if op.type == "ReduceMean" else 1

        def call(x: Array, *_: Array, out: Array, team: Team) -> None:
            rows.mean(x.reshape(outer, n, inner), out.reshape(outer, inner), team, factor)

        return Bound(call)
    if op.type not in _REDUCERS or not axes:
        return None
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    reducer = _REDUCERS[op.type]
    return Bound(lambda x, *_, out, team: reducer(x, axes, out.reshape(kept)))


def _by_rows(block: tuple[int, int, int], kernel: Callable[..., None], **more: Any) -> Bound:
    """Call a kernel of kernels.rows on data and result as `[outer, n, inner]`."""
    return Bound(
        lambda x, *_, out, team: kernel(x.reshape(block), out.reshape(block), team, **more)
    )


@binder(softmax.SoftMax1, softmax.SoftMax, softmax.LogSoftmax)
def _softmax(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    if not is_real(inputs[0]):
        return None
    shape = shape_of(inputs[0])
    at = axis_of(op.axis, len(shape))
    block = math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])
    return _by_rows(block, rows.softmax, log=isinstance(op, softmax.LogSoftmax))


@binder(matmul.MatMul)
def _matmul(op: matmul.MatMul, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    if not is_real(*inputs):
        return None
    swap_a = op.transpose_a and len(shape_of(inputs[0])) > 1
    swap_b = op.transpose_b and len(shape_of(inputs[1])) > 1

    def call(a: Array, b: Array, out: Array, team: Team) -> None:
        a = a.swapaxes(-1, -2) if swap_a else a
        np.matmul(a, b.swapaxes(-1, -2) if swap_b else b, out=out)

    return Bound(call)


def _trailing(shape: tuple[int, ...], first: int) -> tuple[int, int, int] | None:
    return rows_of(shape, tuple(range(first, len(shape))))


@binder(normalization.MVN2)
def _mvn2(op: normalization.MVN2, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    block = _trailing(shape_of(inputs[0]), 1 if op.across_channels else 2)
    if block is None or not is_real(inputs[0]):
        return None
    variance = op.normalize_variance
    return _by_rows(block, rows.standardize, variance=variance, eps=op.eps, inside=True)


def _axes_block(inputs: Sequence[Spec]) -> tuple[int, int, int] | None:
    """Return (outer, n, inner) for constant axes (the second input) that are neighbours."""
    chosen = ints(inputs[1])
    if chosen is None or not is_real(inputs[0]):
        return None
    shape = shape_of(inputs[0])
    return rows_of(shape, reduction.mean_axes(chosen, len(shape), 1))


@binder(normalization.MVN)
def _mvn(op: normalization.MVN, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    block = _axes_block(inputs)
    if block is None:
        return None
    inside = op.eps_mode == "inside_sqrt"
    variance = op.normalize_variance
    return _by_rows(block, rows.standardize, variance=variance, eps=op.eps, inside=inside)


@binder(normalization.NormalizeL2)
def _normalize_l2(
    op: normalization.NormalizeL2, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Bound | None:
    block = _axes_block(inputs)
    if block is None:
        return None
    return _by_rows(block, rows.normalize_l2, eps=op.eps, add=op.eps_mode == "add")


@binder(normalization.GroupNormalization)
def _group_norm(
    op: normalization.GroupNormalization, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Bound | None:
    if not is_real(*inputs):
        return None
    shape = shape_of(inputs[0])
    block = shape[0] * op.num_groups, math.prod(shape[1:]) // op.num_groups, 1
    flat = shape[0], shape[1], math.prod(shape[2:])

    def call(x: Array, scale: Array, bias: Array, out: Array, team: Team) -> None:
        rows.standardize(
            x.reshape(block), out.reshape(block), team, variance=True, eps=op.epsilon, inside=True
        )
        planes = out.reshape(flat)
        np.multiply(planes, scale[:, None], out=planes)
        np.add(planes, bias[:, None], out=planes)

    return Bound(call)


COMPARISONS: dict[str, Any] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalXor": np.logical_xor,
    "NotEqual": np.not_equal,
}
INTEGERS: dict[str, Any] = {
    "Add": np.add,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Multiply": np.multiply,
    "Subtract": np.subtract,
}


@binder(elementwise.Binary)
def _binary(
    op: elementwise.Binary, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Bound | None:
    """Comparisons, logic and integer arithmetic; floats are steps of chains."""
    assert inputs[0].dtype is not None
    integral = inputs[0].dtype.is_integral and not inputs[0].dtype.is_packed
    ufunc = COMPARISONS.get(op.type) or (INTEGERS.get(op.type) if integral else None)
    if ufunc is None or inputs[0].dtype.kind == "string":
        return None
    return Bound(lambda a, b, out, team: ufunc(a, b, out=out))


@binder(elementwise.Select)
def _select(op: elementwise.Select, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
    def call(cond: Array, then: Array, otherwise: Array, out: Array, team: Team) -> None:
        np.copyto(out, otherwise)
        np.copyto(out, then, where=cond)

    return Bound(call)
