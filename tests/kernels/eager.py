"""The eager kernels called with the lists that the oracle takes."""

import math
from collections.abc import Sequence
from typing import Any

from irdeconv.kernels import eager
from irdeconv.kernels.candidate import ConvProblem

Ints = Sequence[int]


def convolution(
    x: Any, w: Any, strides: Ints, dilations: Ints, begin: Ints, end: Ints, out: Any = None
) -> Any:
    """Convolve `x [N,C,*I]` with `w [g,M/g,C/g,*K]`, or with the same without g."""
    grouped = w.ndim - x.ndim
    kernel = w.shape[2 + grouped :]
    rows = zip(x.shape[2:], kernel, strides, dilations, begin, end, strict=True)
    sizes = [max((i + b + e - d * (k - 1) - 1) // s + 1, 0) for i, k, s, d, b, e in rows]
    outputs, groups = math.prod(w.shape[: 1 + grouped]), w.shape[0] if grouped else 1
    lists = map(tuple, (kernel, strides, dilations, begin, sizes))
    windows = ConvProblem(x.shape, outputs, groups, *lists, x.dtype.name)
    return eager.convolution(x, w, windows, out)


def deconvolution(
    x: Any, w: Any, strides: Ints, dilations: Ints, begin: Ints, sizes: Ints, out: Any = None
) -> Any:
    """Deconvolve `x [N,C,*I]` with `w [g,C/g,M/g,*K]` into outputs of `sizes`."""
    lists = map(tuple, (w.shape[3:], strides, dilations, begin, sizes))
    windows = ConvProblem(x.shape, w.shape[0] * w.shape[2], w.shape[0], *lists, x.dtype.name)
    return eager.deconvolution(x, w, windows, out)
