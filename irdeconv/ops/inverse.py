"""Inverse."""

from __future__ import annotations

import numpy as np

from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.checks import want_rank, want_type
from irdeconv.spec import Array, Spec, format_shape, merge


def _inverses(x: Array) -> Array:
    """Return the inverses of [..., n, n], by elimination where one of them is singular."""
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return _eliminated(x) if x.ndim == 2 else np.stack([_inverses(one) for one in x])


def _eliminated(x: Array) -> Array:
    """Solve for the identity with the largest pivots; those that are 0 leave Inf and NaN."""
    upper, right = x.copy(), np.eye(len(x))
    for k in range(len(x)):
        best = k + int(np.argmax(np.abs(upper[k:, k])))
        for rows in (upper, right):
            rows[[k, best]] = rows[[best, k]]
        factors = (upper[k + 1 :, k] / upper[k, k])[:, None]
        upper[k + 1 :, k:] -= factors * upper[k, k:]
        right[k + 1 :] -= factors * right[k]
    for k in reversed(range(len(x))):
        for j in range(k + 1, len(x)):
            right[k] -= upper[k, j] * right[j]
        right[k] /= upper[k, k]
    return right


@op("Inverse", since=14)
class Inverse(Op):
    """Inverse matrices: (..., n, n) -> (..., n, n), floating-point; with `adjoint` transposed.

    Computed in double precision. Singular matrices give Inf and NaN.  [matrix/Inverse-14]
    """

    adjoint: bool = False

    def infer(self, data: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        want_rank(data.shape, 2, None, 0, "data")
        if data.shape is None:
            return data
        size = merge(data.shape[-2], data.shape[-1])
        if size is None:
            text = f"data {format_shape(data.shape)} has no square matrices"
            raise OpError(text, code="E302", port=0)
        return Spec(data.dtype, (*data.shape[:-2], size, size))

    def evaluate(self, data: Array) -> Array:
        with np.errstate(all="ignore"):
            found = _inverses(data.astype(np.float64)).astype(data.dtype)
        return np.ascontiguousarray(found.swapaxes(-1, -2)) if self.adjoint else found
