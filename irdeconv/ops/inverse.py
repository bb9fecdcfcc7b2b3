"""Inverse."""

from __future__ import annotations

import numpy as np

from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.checks import want_rank, want_type
from irdeconv.spec import Array, Spec, format_shape, merge


def _inverses(x: Array) -> Array:
    """Return the inverses of [..., n, n], NaN for singular matrices."""
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        if x.ndim == 2:
            return np.full_like(x, np.nan)
        return np.stack([_inverses(one) for one in x])


@op("Inverse", since=14)
class Inverse(Op):
    """Inverse matrices: (..., n, n) -> (..., n, n), floating-point; with `adjoint` transposed.

    Computed in double precision. Singular matrices give NaN, where the runtime gives Inf and NaN.
    [matrix/Inverse-14]
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
