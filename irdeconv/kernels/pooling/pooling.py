"""Max and average pooling by whole slices, one per tap; never a view of overlapping windows.

The windows of output o read positions o*S + k*D - pads_begin for k < K; positions outside of the
data are ignored. Maximum and sum are separable, so one axis is reduced after the other, which costs
sum(K) instead of prod(K) passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.kernels.compiled.recorded import Recorded, Repeated
from irdeconv.kernels.compiled.written import recorded_means
from irdeconv.kernels.elementwise.steps import clip
from irdeconv.kernels.pooling.flat import FlatPooling
from irdeconv.kernels.shared import blocking, jit
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.products import row_sums
from irdeconv.kernels.shared.scratch import ScratchPlan, Space
from irdeconv.kernels.shared.team import Team, Threads
from irdeconv.kernels.shared.windows import WindowAxis
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array

Reducer = Callable[..., Any]
ROWS_TOGETHER = 8  # rows of windows that are combined before columns are
ROW_SLACK = 32  # elements behind a row that whole vectors may read


def _reduce(x: Array, axis: int, taps: WindowAxis, ufunc: Reducer, start: Any, y: Array) -> None:
    """Combine the taps along one axis; windows without data give `start`."""
    ahead = (slice(None),) * axis
    reaches = [taps.reach(k) for k in taps.inner]
    whole = [r for r in reaches if r[0] == slice(0, taps.out)]
    parts = [r for r in reaches if r[0] != slice(0, taps.out)]
    if len(whole) > 1:
        ufunc(x[(*ahead, whole[0][1])], x[(*ahead, whole[1][1])], out=y)
    else:
        y[...] = x[(*ahead, whole[0][1])] if whole else start
    for target, source in whole[2:] + (parts if whole else reaches):
        view = y[(*ahead, target)]
        ufunc(view, x[(*ahead, source)], out=view)


def _by_slices(
    x: Array, axes: Sequence[WindowAxis], ufunc: Reducer, start: Any, kind: Any, space: Space
) -> Array:
    """Reduce one axis of planes after the other by slices; the result is scratch memory."""
    y = x
    for a, taps in enumerate(axes):
        if taps.plain:
            continue
        reduced = space.array((*y.shape[: a + 1], taps.out, *y.shape[a + 2 :]), kind)
        if y.dtype != kind:
            wide = space.array(y.shape, kind)
            wide[...] = y
            y = wide
        _reduce(y, a + 1, taps, ufunc, start, reduced)
        y = reduced
    return y


def _slices_cost(axes: Sequence[WindowAxis]) -> float:
    """Estimated nanoseconds for one plane by slices: those along the last axis are slow."""
    shape, cost = [t.size for t in axes], 0.0
    for a, taps in enumerate(axes):
        shape[a] = taps.out
        one = (
            0.2 + 2.0 / max(shape[-1], 1) if a < len(axes) - 1 else 0.8 if taps.stride > 1 else 0.25
        )
        cost += (taps.kernel > 1) * taps.kernel * one * math.prod(shape)
    return cost


class Pooling:
    """Max (`count` None) or average pooling prepared for exact sizes; run often.

    `shape` is the input's [N, C, *I]; averages divide by `count`, which broadcasts to [*O].
    """

    def __init__(
        self, shape: Sequence[int], dtype: Any, axes: Sequence[WindowAxis], count: Array | None
    ) -> None:
        self.axes = axes
        self.whole = np.dtype(dtype).kind in "iu"
        self.average = count is not None
        self.kind = _summing(np.dtype(dtype), exact=self.average)
        self.start = 0 if self.average else _lowest(np.dtype(dtype))
        # Arrays of the type: NumPy converts scalars anew in every call.
        self.count = count if count is None or self.whole else count.astype(self.kind)
        self.limits = [np.array(v, self.kind) for v in (self.start, 0 if self.whole else np.inf)]
        self.ufunc: Reducer = np.add if self.average else np.maximum
        self.flat = FlatPooling.of(self.axes, idempotent=not self.average)
        self.shifted = self.flat.cost < _slices_cost(self.axes)
        self.whole_plane = self.average and all(
            t.out == 1 and t.begin == 0 and t.dilation == 1 and t.kernel == t.size
            for t in self.axes
        )
        plane = math.prod(shape[2:]) * self.kind.itemsize
        group = max(1, blocking.SIZES.pooling_bytes // max(1, plane))
        planes = math.prod(shape[:2])
        last = self.axes[-1]
        self.single = len(self.axes) == 2 and last.plain and last.size == 1
        self.windows = self._windows() if jit.available() else None
        self.parts = pieces(planes, group)

    def __call__(self, x: Array, out: Array, team: Team) -> None:
        """Pool `x` (any strides) into `out` (C-contiguous)."""
        if 0 in x.shape:
            out[...] = self.start
        elif out.size:
            planes = x.reshape(-1, *x.shape[2:])
            results = out.reshape(-1, *out.shape[2:])
            team.each(self.parts, lambda p, space: self._group(planes[p], results[p], space))

    def fixed(self, x: Array, out: Array) -> Repeated | None:
        """See `FixedCall`."""
        if not (x.dtype == out.dtype == self.kind == np.float32 and x.flags.c_contiguous):
            return None
        planes, results = (a.reshape(-1, *a.shape[2:]) for a in (x, out))
        if self.whole_plane and self.count is not None and jit.available():
            return recorded_means(
                planes.reshape(len(planes), -1, 1), results.reshape(-1), self.count.item()
            )
        if self.windows is None:
            return None
        arguments, reach = self.windows
        planes, results = self._rows(planes), self._rows(results)
        lines = ScratchPlan().array((ROWS_TOGETHER, reach + ROW_SLACK), np.float32)
        calls = (
            Recorded.of("pool_planes", planes[p], results[p], lines, *arguments) for p in self.parts
        )
        return Repeated(tuple(calls))

    def _windows(self) -> tuple[Any, int] | None:
        """Return what the compiled loop on f32 planes takes for common windows, see `call_of`."""
        if self.kind != np.float32 or len(self.axes) != 2 or self.whole_plane or not jit.works():
            return None
        from irdeconv.kernels.compiled.pooling import call_of

        lowest = 0.0 if self.average else float(self.start)
        axes, count = list(self.axes), self.count
        if self.single:
            axes.reverse()
            count = count.reshape(count.shape[::-1]) if count is not None else None
        found: tuple[Any, int] | None = call_of(axes, count, lowest)
        return found

    def _rows(self, planes: Array) -> Array:
        """Return planes of a single column as planes of a row."""
        return planes.reshape(len(planes), 1, -1) if self.single else planes

    def _group(self, planes: Array, out: Array, space: Space) -> None:
        if (
            self.windows is not None
            and planes.dtype == out.dtype == self.kind
            and planes.flags.c_contiguous
        ):
            from irdeconv.kernels.compiled.pooling import pool_planes

            arguments, reach = self.windows
            lines = space.array((ROWS_TOGETHER, reach + ROW_SLACK), np.float32)
            pool_planes(self._rows(planes), self._rows(out), lines, *arguments)
            return
        if self.whole_plane and planes.dtype == self.kind and not self.whole:
            results = row_sums(planes.reshape(len(planes), -1), space).reshape(out.shape)
        elif self.shifted:
            results = self.flat.run(planes, self.ufunc, self.start, self.kind, space)
        else:
            results = _by_slices(planes, self.axes, self.ufunc, self.start, self.kind, space)
        if self.count is None:
            out[...] = results
            if not self.whole:
                clip(out, self.limits[0], self.limits[1], out)
        elif out.dtype == self.kind:
            np.divide(results, self.count, out=out)
        else:
            mean = results / self.count
            out[...] = np.rint(mean) if self.whole else mean


def _summing(dtype: np.dtype[Any], *, exact: bool) -> np.dtype[Any]:
    """Return the type that is computed with: maxima of integers stay, sums are 64 bits wide."""
    if dtype.kind in "iu":
        return np.dtype(np.int64) if exact else dtype
    return dtype if dtype == np.float64 else np.dtype(np.float32)


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    import ml_dtypes

    return ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]


def max_pool(x: Array, axes: Sequence[WindowAxis]) -> Array:
    """Return the maxima of the windows, `[N,C,*I]` -> `[N,C,*O]`.

    A window without data, or with nothing but -Inf, gives the lowest finite value of the element
    type, as the runtimes do.  [pooling/MaxPool]
    """
    y = np.empty((*x.shape[:2], *(a.out for a in axes)), x.dtype)
    Pooling(x.shape, x.dtype, axes, None)(x, y, Threads())
    return y


def max_pool_indices(x: Array, axes: Sequence[WindowAxis], axis: int = 0) -> tuple[Array, Array]:
    """Return maxima and where each lies, as i64: the first of equal ones wins.

    An index counts elements of the input flattened from `axis` (not negative) on. A window without
    data has the index of its plane's first element.  [pooling/MaxPool-8]
    """
    shape = (*x.shape[:2], *(a.out for a in axes))
    y, places = np.full(shape, _lowest(x.dtype), x.dtype), np.full(shape, -1, np.int64)
    numbers = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    for k in np.ndindex(*(a.kernel for a in axes)):
        pairs = [taps.reach(t) for taps, t in zip(axes, k, strict=True)]
        best, where = (trailing(a, (p[0] for p in pairs)) for a in (y, places))
        value, number = (trailing(a, (p[1] for p in pairs)) for a in (x, numbers))
        larger = (value > best) | (where < 0)
        np.copyto(best, value, where=larger)
        np.copyto(where, number, where=larger)
    np.maximum(y, _lowest(x.dtype), out=y)
    if x.size:
        corner = trailing(numbers, [slice(1)] * len(axes))
        np.copyto(places, corner, where=places < 0)
    np.maximum(places, 0, out=places)
    np.remainder(places, max(math.prod(x.shape[axis:]), 1), out=places)
    return y, places


@np.errstate(all="ignore")
def avg_pool(x: Array, axes: Sequence[WindowAxis], *, exclude_pad: bool) -> Array:
    """Return the means of the windows, `[N,C,*I]` -> `[N,C,*O]`.

    `exclude_pad` divides by the number of positions inside the data (no position gives 0, as in the
    runtime), otherwise by prod(K). Floats narrower than f32 are summed in f32 and rounded once,
    integers are summed exactly and rounded to the nearest, halves to even.  [pooling/AvgPool]
    """
    y = np.empty((*x.shape[:2], *(a.out for a in axes)), x.dtype)
    count = counts(axes, exclude_pad=exclude_pad)
    Pooling(x.shape, x.dtype, axes, count)(x, y, Threads())
    return y


def counts(axes: Sequence[WindowAxis], *, exclude_pad: bool) -> Array:
    """Return what sums are divided by to give means; it broadcasts to [*O]."""
    count = np.array(1 if exclude_pad else math.prod(a.kernel for a in axes))
    for a in axes if exclude_pad else ():
        count = count[..., None] * a.valid()
    least: Array = np.maximum(count, 1)
    return least
