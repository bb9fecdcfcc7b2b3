"""MatMul."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.binding import is_computed, shape_of
from irdeconv.ops.checks import one_type, want_rank, want_type
from irdeconv.spec import Array, Dim, Shape, Spec, broadcast, format_shape, is_static, merge
from irdeconv.traits import SUM, Bound


@op("MatMul")
class MatMul(Op):
    """Matrix product of the last two axes: [.., M, K] x [.., K, N] -> [.., M, N].

    The axes before them broadcast. `transpose_a`, `transpose_b` swap the last two axes first; a
    vector stands for [1, K] on the left and [K, 1] on the right, its axis goes from the result.
    Any numbers of one type.  [matrix/MatMul-1]
    """

    rounding = SUM
    transpose_a: bool = False
    transpose_b: bool = False

    def infer(self, a: Spec, b: Spec) -> Spec:
        dtype = one_type(a, b, names=("a", "b"))
        for port, s, name in ((0, a, "a"), (1, b, "b")):
            want_type(s, "number", port, name)
            want_rank(s.shape, 1, None, port, name)
        if a.shape is None or b.shape is None:
            return Spec(dtype, None)
        left, right = self._left(a.shape), self._right(b.shape)
        if merge(left[-1], right[-2]) is None:
            raise OpError(
                f"a {format_shape(a.shape)} has {left[-1]} columns and b {format_shape(b.shape)} "
                f"has {right[-2]} rows; they must be equal",
                code="E302",
                port=1,
            )
        try:
            batch = broadcast(left[:-2], right[:-2]) or ()
        except ValueError as e:
            raise OpError(
                f"batch axes of a {format_shape(a.shape)} and b {format_shape(b.shape)}: {e}",
                code="E302",
                port=1,
            ) from None
        rows: Shape = () if len(a.shape) == 1 else (left[-2],)
        columns: Shape = () if len(b.shape) == 1 else (right[-1],)
        return Spec(dtype, (*batch, *rows, *columns))

    def _left(self, shape: Shape) -> Shape:
        if len(shape) == 1:
            return (1, *shape)
        return _swapped(shape) if self.transpose_a else shape

    def _right(self, shape: Shape) -> Shape:
        if len(shape) == 1:
            return (*shape, 1)
        return _swapped(shape) if self.transpose_b else shape

    def evaluate(self, a: Array, b: Array) -> Array:
        if self.transpose_a and a.ndim > 1:
            a = a.swapaxes(-1, -2)
        if self.transpose_b and b.ndim > 1:
            b = b.swapaxes(-1, -2)
        if a.dtype.kind not in "iu" and a.dtype.itemsize < 4:
            wide = np.matmul(a.astype(np.float32), b.astype(np.float32))
            return np.asarray(wide.astype(a.dtype))
        with np.errstate(all="ignore"):
            return np.asarray(np.matmul(a, b))

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        if not is_computed(*inputs):
            return None
        swap_a = self.transpose_a and len(shape_of(inputs[0])) > 1
        swap_b = self.transpose_b and len(shape_of(inputs[1])) > 1

        def call(a: Array, b: Array, out: Array, team: Any) -> None:
            a = a.swapaxes(-1, -2) if swap_a else a
            np.matmul(a, b.swapaxes(-1, -2) if swap_b else b, out=out)

        return Bound(call)

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        a = inputs[0]
        return int(a.shape[-2 if self.transpose_a and a.ndim > 1 else -1])

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        shape, out = inputs[0].shape, outputs[0].shape
        if not is_static(shape) or not is_static(out):
            return None
        return math.prod(out) * _exact(self._left(shape)[-1])


def _exact(d: Dim) -> int:
    assert isinstance(d, int)
    return d


def _swapped(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])
