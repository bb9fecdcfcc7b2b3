"""Max and average pooling by whole slices, one per tap; never a view of overlapping windows.

The windows of output o read positions o*S + k*D - pads_begin for k < K; positions outside of the
data are ignored. Maximum and sum are separable, so one axis is reduced after the other, which costs
sum(K) instead of prod(K) passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.kernels.resampling import trailing
from irdeconv.spec import Array

PLANE_BYTES = 1 << 18  # planes are pooled in groups of about this size, to stay in cache


@dataclass(frozen=True)
class Windows:
    """Where the windows lie: one value per spatial axis; `sizes` is the output's O."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads_begin: Sequence[int]
    sizes: Sequence[int]

    def axis(self, a: int, size: int) -> Taps:
        """Return the taps along spatial axis `a` of `size` input positions."""
        rule = self.strides[a], self.dilations[a], self.pads_begin[a]
        return Taps(size, self.kernel[a], *rule, self.sizes[a])


@dataclass(frozen=True)
class Taps:
    """The taps of one axis."""

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    count: int

    def reach(self, k: int) -> tuple[slice, slice]:
        """Return (outputs, inputs): the outputs with tap `k` inside the data, and what it reads."""
        shift = k * self.dilation - self.begin
        lo = max(0, -(shift // self.stride))
        hi = min(self.count, (self.size - 1 - shift) // self.stride + 1)
        if hi <= lo:
            return slice(0, 0), slice(0, 0)
        first = lo * self.stride + shift
        last = first + (hi - lo - 1) * self.stride
        return slice(lo, hi), slice(first, last + 1, self.stride)

    def valid(self) -> Array:
        """Return the number of taps inside the data for every output."""
        found = np.zeros(self.count, np.int64)
        for k in range(self.kernel):
            found[self.reach(k)[0]] += 1
        return found


Reducer = Callable[..., Any]


def _reduce(x: Array, axis: int, taps: Taps, ufunc: Reducer, start: Any) -> Array:
    """Combine the taps along one axis; windows without data give `start`."""
    shape = (*x.shape[:axis], taps.count, *x.shape[axis + 1 :])
    y = np.empty(shape, x.dtype)
    ahead = (slice(None),) * axis
    reaches = [taps.reach(k) for k in range(taps.kernel)]
    whole = [r for r in reaches if r[0] == slice(0, taps.count)]
    parts = [r for r in reaches if r[0] != slice(0, taps.count)]
    if len(whole) > 1:
        ufunc(x[(*ahead, whole[0][1])], x[(*ahead, whole[1][1])], out=y)
    else:
        y[...] = x[(*ahead, whole[0][1])] if whole else start
    for target, source in whole[2:] + (parts if whole else reaches):
        view = y[(*ahead, target)]
        ufunc(view, x[(*ahead, source)], out=view)
    return y


def _pool(x: Array, windows: Windows, ufunc: Reducer, start: Any, out: Array) -> None:
    """Reduce all spatial axes, a group of planes at a time."""
    planes = x.reshape(-1, *x.shape[2:])
    results = out.reshape(-1, *out.shape[2:])
    group = max(1, PLANE_BYTES // max(1, math.prod(x.shape[2:]) * x.itemsize))
    axes = [windows.axis(a, size) for a, size in enumerate(x.shape[2:])]
    for first in range(0, len(planes), group):
        y = planes[first : first + group]
        for a, taps in enumerate(axes):
            if taps == Taps(taps.size, 1, 1, taps.dilation, 0, taps.size):
                continue
            y = _reduce(y, a + 1, taps, ufunc, start)
        results[first : first + group] = y


def _lowest(x: Array) -> Any:
    if x.dtype.kind in "iu":
        return np.iinfo(x.dtype).min
    import ml_dtypes

    return ml_dtypes.finfo(x.dtype).min  # type: ignore[no-untyped-call]


def max_pool(x: Array, windows: Windows) -> Array:
    """Return the maxima of the windows, `[N,C,*I]` -> `[N,C,*O]`.

    A window without data, or with nothing but -Inf, gives the lowest finite value of the element
    type, as the runtimes do.  [pooling/MaxPool]
    """
    y = np.empty((*x.shape[:2], *windows.sizes), x.dtype)
    if 0 in x.shape:
        y[...] = _lowest(x)
    elif y.size:
        _pool(x, windows, np.maximum, _lowest(x), y)
        if x.dtype.kind not in "iu":
            np.maximum(y, _lowest(x), out=y)
    return y


def max_pool_indices(x: Array, windows: Windows, axis: int = 0) -> tuple[Array, Array]:
    """Return maxima and where each lies, as i64: the first of equal ones wins.

    An index counts elements of the input flattened from `axis` (not negative) on. A window without
    data has the index of its plane's first element.  [pooling/MaxPool-8]
    """
    shape = (*x.shape[:2], *windows.sizes)
    y, found = np.full(shape, _lowest(x), x.dtype), np.full(shape, -1, np.int64)
    axes = [windows.axis(a, size) for a, size in enumerate(x.shape[2:])]
    numbers = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    for k in np.ndindex(*windows.kernel):
        pairs = [taps.reach(t) for taps, t in zip(axes, k, strict=True)]
        best, where = (trailing(a, (p[0] for p in pairs)) for a in (y, found))
        value, number = (trailing(a, (p[1] for p in pairs)) for a in (x, numbers))
        larger = (value > best) | (where < 0)
        np.copyto(best, value, where=larger)
        np.copyto(where, number, where=larger)
    np.maximum(y, _lowest(x), out=y)
    if x.size:
        corner = trailing(numbers, [slice(1)] * len(axes))
        np.copyto(found, corner, where=found < 0)
    return y, np.maximum(found, 0) % max(math.prod(x.shape[axis:]), 1)


@np.errstate(all="ignore")
def avg_pool(x: Array, windows: Windows, *, exclude_pad: bool) -> Array:
    """Return the means of the windows, `[N,C,*I]` -> `[N,C,*O]`.

    `exclude_pad` divides by the number of positions inside the data (no position gives 0, as in the
    runtime), otherwise by prod(K). Floats narrower than f32 are summed in f32 and rounded once,
    integers are summed exactly and rounded to the nearest, halves to even.  [pooling/AvgPool]
    """
    kind = x.dtype.kind
    narrow = x.dtype not in (np.float32, np.float64)
    dtype = np.dtype(np.int64 if kind in "iu" else np.float32) if narrow else x.dtype
    total = np.zeros((*x.shape[:2], *windows.sizes), dtype)
    if x.size and total.size:
        _pool(x.astype(dtype, copy=False), windows, np.add, 0, total)
    count = np.maximum(_counts(x.shape[2:], windows, exclude_pad=exclude_pad), 1)
    if kind in "iu":
        return np.rint(total / count).astype(x.dtype)
    np.divide(total, count.astype(dtype), out=total)
    return total.astype(x.dtype, copy=False)


def _counts(spatial: Sequence[int], windows: Windows, *, exclude_pad: bool) -> Array:
    count = np.array(1 if exclude_pad else math.prod(windows.kernel))
    for a, size in enumerate(spatial if exclude_pad else ()):
        count = count[..., None] * windows.axis(a, size).valid()
    return count
