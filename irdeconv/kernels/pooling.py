"""Max and average pooling, adaptive pooling.

The windows of output o read positions o*S + k*D - pads_begin for k < K, without those outside of
the data. Maximum and sum are separable, so one axis is reduced after the other, by whole slices,
one per tap: sum(K) instead of prod(K) passes.

A shift of contiguous memory costs 0.1 ns per element, a slice with a stride 0.2 to 0.8. So shifts
pay, although they also compute windows that do not exist, across the ends of rows as well.

Adaptive: window o of O reads floor(oI/O) to ceil((o+1)I/O).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, scratch
from irdeconv.kernels.candidate import Piece, WindowAxis, reads, trailing, type_of_sums
from irdeconv.kernels.numpy_calls import NumPyCalls, cast, make, written
from irdeconv.kernels.products import row_sums
from irdeconv.kernels.recorded_calls import Recorded, Repeated, recorded_means, remade
from irdeconv.kernels.scratch import ScratchPlan, Space, pieces
from irdeconv.kernels.threads import Team, Threads


def windows(size: int, count: int) -> tuple[list[slice], Array]:
    """Return the different windows on `size` positions, at most two each, and the index of each."""
    at = np.arange(count, dtype=np.int64)
    pairs = np.stack([at * size // count, -(-(at + 1) * size // count)], -1)
    new = np.ones(count, bool)
    new[1:] = (pairs[1:] != pairs[:-1]).any(-1)
    return [slice(int(a), int(b)) for a, b in pairs[new]], np.cumsum(new) - 1


def means(x: Array, counts: Sequence[int]) -> Array:
    """Return the means of the windows: x (N, C, *I), f32 or f64, -> (N, C, *counts)."""
    y = x
    divisor = np.ones((), x.dtype)
    for i, count in enumerate(counts):
        parts, which = windows(x.shape[2 + i], count)
        lengths = np.array([p.stop - p.start for p in parts], x.dtype)[which]
        divisor = divisor[..., None] * lengths
        ahead: Any = (slice(None),) * (2 + i)
        found = np.empty((*y.shape[: 2 + i], len(parts), *y.shape[3 + i :]), x.dtype)
        for o, part in enumerate(parts):
            np.sum(y[(*ahead, part)], 2 + i, out=found[(*ahead, o)])
        y = found if len(parts) == count else found.take(which, 2 + i)
    return np.asarray(y / divisor)


def maxima(x: Array, counts: Sequence[int]) -> tuple[Array, Array]:
    """Return maxima (N, C, *counts) and their places in their planes, as i64; the first wins."""
    plane = x.shape[2:]
    places = np.arange(math.prod(plane), dtype=np.int64).reshape(1, 1, *plane)
    y, at = x, np.broadcast_to(places, x.shape)
    # The last axis first: then the first of equal rows has the first of equal elements.
    for i, count in reversed(list(enumerate(counts))):
        axis = 2 + i
        ahead: Any = (slice(None),) * axis
        parts, which = windows(x.shape[axis], count)
        shape = (*y.shape[:axis], len(parts), *y.shape[axis + 1 :])
        best, where = np.empty(shape, x.dtype), np.empty(shape, np.int64)
        for o, part in enumerate(parts):
            values = y[(*ahead, part)]
            first = np.argmax(values, axis)[(*ahead, None)]
            target = (*ahead, slice(o, o + 1))
            best[target] = np.take_along_axis(values, first, axis)
            where[target] = np.take_along_axis(at[(*ahead, part)], first, axis)
        y, at = best, where
        if len(parts) != count:
            y, at = best.take(which, axis), where.take(which, axis)
    return y, at


class FlatPass(NamedTuple):
    """One pass: ufunc(buffers[left], buffers[right] from `offset` on) into buffers[target].

    Buffer 0 is the source, 1 and 2 are spare. `lost` counts the elements at the end whose windows
    leave the memory.
    """

    left: int
    right: int
    offset: int
    lost: int
    target: int


@dataclass(frozen=True)
class FlatPooling:
    """Planes `[*I]` pooled into `[*O]`.

    `need` is the part of each axis that windows reach, `picked` has the starts of windows there,
    `padded`: planes are first copied between borders.
    """

    axes: tuple[WindowAxis, ...]
    need: tuple[int, ...]
    padded: bool
    passes: tuple[FlatPass, ...]
    picked: tuple[slice, ...]
    result: int

    @staticmethod
    def of(axes: Sequence[WindowAxis], *, idempotent: bool) -> FlatPooling:
        """Return the plan; `idempotent`: a tap may be combined twice (maximum)."""
        need = tuple(a.span(a.out) for a in axes)
        padded = any(a.begin or n > a.size for a, n in zip(axes, need, strict=True))
        if not padded:
            need = tuple(a.size for a in axes)
        passes = _passes(axes, need, idempotent)
        picked = (slice(None), *(slice(0, (a.out - 1) * a.stride + 1, a.stride) for a in axes))
        return FlatPooling(
            axes=tuple(axes),
            need=need,
            padded=padded,
            passes=passes,
            picked=picked,
            result=passes[-1].target if passes else 0,
        )

    @property
    def cost(self) -> float:
        """Estimated nanoseconds for one plane."""
        whole = math.prod(self.need)
        outputs = math.prod(a.out for a in self.axes)
        return whole * (0.1 * len(self.passes) + 0.25 * self.padded) + 0.4 * outputs

    def calls(self, planes: Array, ufunc: Any, start: Any, kind: Any, space: Space) -> NumPyCalls:
        """Return calls whose result `[planes, *O]` is a view of scratch memory or of the planes."""
        source = yield from self._source(planes, start, kind, space)
        size = source.size
        buffers = [source.reshape(-1)]
        buffers += [space.array((size,), kind) for _ in self.passes[:2]]
        for left, right, offset, lost, target in self.passes:
            keep = size - lost
            operands = buffers[left][:keep], buffers[right][offset : offset + keep]
            yield ufunc, operands, buffers[target][:keep]
        results: Array = buffers[self.result].reshape(source.shape)[self.picked]
        return results

    def _source(self, planes: Array, start: Any, kind: Any, space: Space) -> NumPyCalls:
        if not self.padded and planes.dtype == kind and planes.flags.c_contiguous:
            return planes
        out = space.array((len(planes), *self.need), kind)
        into, source = [slice(None)], [slice(None)]
        for axis, need in zip(self.axes, self.need, strict=True):
            target, read = reads(axis.size, 1, -axis.begin, need)
            into.append(target)
            source.append(read)
        if self.padded:
            yield cast, (start,), out
        yield cast, (planes[tuple(source)],), out[tuple(into)]
        return out


def _passes(
    axes: Sequence[WindowAxis], need: Sequence[int], idempotent: bool
) -> tuple[FlatPass, ...]:
    """Return the passes, last axis first: widths double if taps may be combined twice."""
    out: list[FlatPass] = []
    now, lost = 0, 0
    for a in reversed(range(len(axes))):
        step = axes[a].dilation * math.prod(need[a + 1 :])
        kernel, width, base = axes[a].kernel, 1, now
        while width < kernel:
            shift = min(width, kernel - width) if idempotent else 1
            spare = 2 if now == 1 else 1
            if idempotent:
                out.append(FlatPass(now, now, shift * step, lost + shift * step, spare))
                lost += shift * step
                now = spare
            elif width == 1:
                out.append(FlatPass(base, base, step, lost + step, spare))
                now = spare
            else:  # adds to the result of the pass before
                out.append(FlatPass(now, base, width * step, lost + width * step, now))
            width += shift
        if not idempotent:
            lost += (kernel - 1) * step
    return tuple(out)


Reducer = Callable[..., Any]
ROWS_TOGETHER = 8  # rows of windows that are combined before columns are
ROW_SLACK = 32  # elements behind a row that whole vectors may read


def _reduce(
    x: Array, axis: int, taps: WindowAxis, ufunc: Reducer, start: Any, y: Array
) -> NumPyCalls:
    """Combine the taps along one axis; windows without data give `start`."""
    ahead = (slice(None),) * axis
    reaches = [taps.reach(k) for k in taps.inner]
    whole = [r for r in reaches if r[0] == slice(0, taps.out)]
    parts = [r for r in reaches if r[0] != slice(0, taps.out)]
    if len(whole) > 1:
        yield ufunc, (x[(*ahead, whole[0][1])], x[(*ahead, whole[1][1])]), y
    else:
        yield cast, (x[(*ahead, whole[0][1])] if whole else start,), y
    for target, source in whole[2:] + (parts if whole else reaches):
        view = y[(*ahead, target)]
        yield ufunc, (view, x[(*ahead, source)]), view
    return y


def _by_slices(
    x: Array, axes: Sequence[WindowAxis], ufunc: Reducer, start: Any, kind: Any, space: Space
) -> NumPyCalls:
    """Reduce one axis of planes after the other by slices; the result is scratch memory."""
    y = x
    for a, taps in enumerate(axes):
        if taps.plain:
            continue
        reduced = space.array((*y.shape[: a + 1], taps.out, *y.shape[a + 2 :]), kind)
        if y.dtype != kind:
            wide = space.array(y.shape, kind)
            yield cast, (y,), wide
            y = wide
        y = yield from _reduce(y, a + 1, taps, ufunc, start, reduced)
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


POOLED_NS = 0.5  # that an element takes, about


class Pooling:
    """Max (`count` None) or average pooling prepared for a shape [N, C, *I]; `count` fits [*O]."""

    def __init__(
        self, shape: Sequence[int], dtype: Any, axes: Sequence[WindowAxis], count: Array | None
    ) -> None:
        self.axes = axes
        self.whole = np.dtype(dtype).kind in "iu"
        self.average = count is not None
        # Maxima of integers stay, sums are 64 bits wide.
        integral = np.dtype(np.int64 if self.average else dtype)
        self.kind = integral if self.whole else type_of_sums(dtype)
        self.start = 0 if self.average else _lowest(np.dtype(dtype))
        # Arrays of the type: NumPy converts scalars anew in every call.
        self.count = count if count is None or self.whole else count.astype(self.kind)
        self.lowest = np.array(self.start, self.kind)
        self.ufunc: Reducer = np.add if self.average else np.fmax
        self.flat = FlatPooling.of(self.axes, idempotent=not self.average)
        self.shifted = self.flat.cost < _slices_cost(self.axes)
        self.whole_plane = self.average and all(
            t.out == 1 and t.begin == 0 and t.dilation == 1 and t.kernel == t.size
            for t in self.axes
        )
        plane = math.prod(shape[2:]) * self.kind.itemsize
        group = max(1, scratch.SIZES.pooling_bytes // max(1, plane))
        planes = math.prod(shape[:2])
        last = self.axes[-1]
        self.single = len(self.axes) == 2 and last.plain and last.size == 1
        self.windows = self._windows() if jit.available() else None
        self.parts = pieces(planes, group)
        # BLAS sums rows in another order if there are others, so only compiled pieces are finer.
        step = scratch.shared_step(planes, group, POOLED_NS * math.prod(shape))
        self.compiled_parts = pieces(planes, step)

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
        if not jit.available():
            return Repeated(tuple(self._piece(planes[p], results[p]) for p in self.parts))
        if self.whole_plane and self.count is not None and jit.available():
            return recorded_means(
                planes.reshape(len(planes), -1, 1), results.reshape(-1), self.count.item()
            )
        if self.windows is None:
            return None
        arguments, reach = self.windows
        planes, results = self._rows(planes), self._rows(results)
        lines = ScratchPlan().array((ROWS_TOGETHER, reach + ROW_SLACK), np.float32)
        call = partial(Recorded.of, "pool_planes")
        parts = self.compiled_parts
        return Repeated(tuple(call(planes[p], results[p], lines, *arguments) for p in parts))

    def _piece(self, planes: Array, out: Array) -> Piece:
        return remade(lambda space: written(self._calls(planes, out, space)))

    def _windows(self) -> tuple[Any, int] | None:
        """Return the compiled loop's arguments on f32 planes for common windows, see `call_of`."""
        if self.kind != np.float32 or len(self.axes) != 2 or self.whole_plane or not jit.works():
            return None
        from irdeconv.kernels.compiled_sums import call_of

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
            from irdeconv.kernels.compiled_sums import pool_planes

            arguments, reach = self.windows
            lines = space.array((ROWS_TOGETHER, reach + ROW_SLACK), np.float32)
            pool_planes(self._rows(planes), self._rows(out), lines, *arguments)
            return
        make(self._calls(planes, out, space))

    def _calls(self, planes: Array, out: Array, space: Space) -> NumPyCalls:
        if self.whole_plane and planes.dtype == self.kind and not self.whole:
            rows = planes.reshape(len(planes), -1)
            sums = yield from row_sums(rows, space)
            results = sums.reshape(out.shape)
        elif self.shifted:
            results = yield from self.flat.calls(planes, self.ufunc, self.start, self.kind, space)
        else:
            results = yield from _by_slices(
                planes, self.axes, self.ufunc, self.start, self.kind, space
            )
        if self.whole and self.count is not None:
            yield _rounded_quotient, (results, self.count), out
            return out
        end, operand = (np.fmax, self.lowest) if self.count is None else (np.divide, self.count)
        if out.dtype == self.kind:
            yield end, (results, operand), out
        else:
            total = space.array(results.shape, self.kind)
            yield end, (results, operand), total
            yield cast, (total,), out
        return out


def _rounded_quotient(a: Array, b: Array, out: Array) -> None:
    out[...] = np.rint(a / b)


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    import ml_dtypes

    return ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]


def max_pool(x: Array, axes: Sequence[WindowAxis]) -> Array:
    """Return the maxima of the windows, `[N,C,*I]` -> `[N,C,*O]`.

    NaN never wins. A window without data, or with nothing but NaN and -Inf, gives the lowest finite
    value of the element type, as the runtimes do.  [pooling/MaxPool]
    """
    y = np.empty((*x.shape[:2], *(a.out for a in axes)), x.dtype)
    Pooling(x.shape, x.dtype, axes, None)(x, y, Threads())
    return y


def max_pool_indices(x: Array, axes: Sequence[WindowAxis], axis: int = 0) -> tuple[Array, Array]:
    """Return maxima and their places, as i64: the first of equal ones wins.

    An index counts elements of the input flattened from `axis` (not negative) on. A window without
    data, or with nothing but NaN, has the index of its plane's first element.  [pooling/MaxPool-8]
    """
    shape = (*x.shape[:2], *(a.out for a in axes))
    y, indices = np.full(shape, _lowest(x.dtype), x.dtype), np.full(shape, -1, np.int64)
    numbers = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    for k in np.ndindex(*(a.kernel for a in axes)):
        pairs = [taps.reach(t) for taps, t in zip(axes, k, strict=True)]
        best, where = (trailing(a, (p[0] for p in pairs)) for a in (y, indices))
        value, number = (trailing(a, (p[1] for p in pairs)) for a in (x, numbers))
        larger = (value > best) | ((where < 0) & (value == value))  # NaN never wins
        np.copyto(best, value, where=larger)
        np.copyto(where, number, where=larger)
    np.maximum(y, _lowest(x.dtype), out=y)
    if x.size:
        corner = trailing(numbers, [slice(1)] * len(axes))
        np.copyto(indices, corner, where=indices < 0)
    np.maximum(indices, 0, out=indices)
    np.remainder(indices, max(math.prod(x.shape[axis:]), 1), out=indices)
    return y, indices


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
    """Return the divisors of sums that give means; they broadcast to [*O]."""
    count = np.array(1 if exclude_pad else math.prod(a.kernel for a in axes))
    for a in axes if exclude_pad else ():
        count = count[..., None] * a.valid()
    least: Array = np.maximum(count, 1)
    return least
