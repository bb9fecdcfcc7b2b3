"""Copies into given memory, sums over neighbours, moves to and from computed places.

Copies are joining, padding, permuting and repeating. Moves and the best of rows run compiled where
there is some code for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, scratch
from irdeconv.kernels.candidate import NONE, reads
from irdeconv.kernels.numpy_calls import NumPyCalls, Prepared, cast, kept, make, moved
from irdeconv.kernels.recorded_calls import Recorded, Repeated, recorded_copy, recorded_fill
from irdeconv.kernels.threads import Team

COPIED_NS = 0.5  # that an element takes, about
LONG_CUT = 16  # of an axis; a longer one is cut no better
SHORT_AXIS = 16  # axes up to this size are walked by a loop of their own
Index = tuple[slice, ...]


@dataclass(frozen=True)
class ConcatKernel:
    """Joins arrays along an axis; `parts` are their places in the result."""

    parts: tuple[Index, ...]

    @staticmethod
    def of(sizes: Sequence[int], axis: int) -> ConcatKernel:
        """Return the plan for parts of these sizes along the axis (not negative)."""
        ends = np.cumsum(sizes)
        places = [slice(int(e) - s, int(e)) for s, e in zip(sizes, ends, strict=True)]
        return ConcatKernel(tuple((*(slice(None),) * axis, p) for p in places))

    def __call__(self, *arrays: Array, out: Array, team: Team) -> None:
        """Write the joined arrays into `out`."""
        if out.size <= scratch.SIZES.copied_elements:
            for at, x in zip(self.parts, arrays, strict=True):
                np.copyto(out[at], x)
        else:
            pairs = zip(self.parts, arrays, strict=True)
            team.each(list(pairs), lambda p, _: np.copyto(out[p[0]], p[1]))

    def fixed(self, *arrays: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        pairs = [(x, out[at]) for at, x in zip(self.parts, arrays, strict=True)]
        calls = Repeated.of(self._pieces(pairs, out), COPIED_NS * out.size)
        most = scratch.SIZES.copied_elements
        return calls or kept(out, [(moved, (x,), part) for x, part in pairs], most)

    def _pieces(self, pairs: list[tuple[Array, Array]], out: Array) -> Iterator[Recorded | None]:
        """Yield copies of all parts within the same rows: parts may share cache lines."""
        axes = [a for a in range(len(self.parts[0]) - 1) if out.shape[a] > 1]
        if not axes:
            yield from (recorded_copy(*pair) for pair in pairs)
            return
        axis = max(axes, key=lambda a: (min(out.shape[a], LONG_CUT), -a))
        size = out.shape[axis]
        for cut in scratch.pieces(size, scratch.shared_step(size, size, COPIED_NS * out.size)):
            at = (*[slice(None)] * axis, cut)
            calls = [recorded_copy(x[at], part[at]) for x, part in pairs]
            yield None if None in calls else Recorded.joined(filter(None, calls))


@dataclass(frozen=True)
class Border:
    """A window on a signal that a constant extends: the part to copy, the parts to fill."""

    into: Index
    source: Index
    filled: tuple[Index, ...]

    @staticmethod
    def of(shape: Sequence[int], begin: Sequence[int], end: Sequence[int]) -> Border:
        """Return the plan; negative pads crop, also more than there is."""
        sizes = [d + b + e for d, b, e in zip(shape, begin, end, strict=True)]
        into: list[slice] = []
        source: list[slice] = []
        filled: list[Index] = []
        for d, b, size in zip(shape, begin, sizes, strict=True):
            copied, read = reads(d, 1, -b, size)
            if copied == NONE:
                return Border((NONE,), (NONE,), (tuple(slice(0, n) for n in sizes),))
            # The parts before and behind along this axis, within the copied part of earlier ones.
            outside = slice(0, copied.start), slice(copied.stop, size)
            filled += [(*into, s) for s in outside if s.stop > s.start]
            into.append(copied)
            source.append(read)
        return Border(tuple(into), tuple(source), tuple(filled))

    def recorded(self, x: Array, out: Array, value: Any) -> Repeated | None:
        """Record a call for memory at fixed addresses."""
        whole = [] if self.into == (NONE,) else [recorded_copy(x[self.source], out[self.into])]
        fills = (recorded_fill(out[at], value) for at in self.filled)
        return Repeated.of([*fills, *whole], COPIED_NS * out.size)

    def __call__(self, x: Array, out: Array, value: Any = 0) -> None:
        """Write the window on `x` into `out`."""
        for at in self.filled:
            out[at] = value
        if self.into != (NONE,):
            out[self.into] = x[self.source]


@dataclass(frozen=True)
class PadKernel:
    """Extends by a constant: `value`, or the last input if that is None."""

    border: Border
    value: Any = None

    def __call__(self, x: Array, *rest: Array, out: Array, team: Team) -> None:
        """Write the extended `x` into `out`."""
        self.border(x, out, rest[-1].reshape(()) if self.value is None else self.value)

    def fixed(self, x: Array, *_: Array, out: Array) -> Repeated | None:
        """See `FixedCall`."""
        return None if self.value is None else self.border.recorded(x, out, self.value)


@dataclass(frozen=True)
class OwnBorderKernel:
    """Extends by the data's own elements, along one axis after the other.

    `into` is the place of the data; `copies` are pairs: a border's place in the result, and the
    place there of the elements, known by then, that it repeats.
    """

    into: Index
    copies: tuple[tuple[Index, Index], ...]

    @staticmethod
    def of(shape: Sequence[int], begin: Sequence[int], indices: Sequence[Array]) -> OwnBorderKernel:
        """Return the plan: `indices` has for each axis the element at each place.

        Before and behind the data they are the same everywhere, or neighbours.
        """
        copies: list[tuple[Index, Index]] = []
        for axis, (size, first, index) in enumerate(zip(shape, begin, indices, strict=True)):
            ahead = (slice(None),) * axis
            for place in (slice(0, first), slice(first + size, len(index))):
                if place.stop > place.start:
                    copies.append(((*ahead, place), (*ahead, _run(index[place] + first))))
        into = tuple(slice(b, b + size) for b, size in zip(begin, shape, strict=True))
        return OwnBorderKernel(into, tuple(copies))

    def __call__(self, x: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the extended `x` into `out`."""
        out[self.into] = x
        for border, own in self.copies:
            out[border] = out[own]

    def fixed(self, x: Array, *_: Array, out: Array) -> Repeated | None:
        """See `FixedCall`."""
        pairs = [(x, out[self.into]), *((out[own], out[border]) for border, own in self.copies)]
        calls = [recorded_copy(source, target) for source, target in pairs]
        found = [call for call in calls if call is not None]
        return Repeated((Recorded.joined(found),)) if len(found) == len(calls) else None


def _run(places: Array) -> slice:
    """Return the slice of a repeated place, or of neighbours up or down."""
    first, last = int(places[0]), int(places[-1])
    if first == last:
        return slice(first, first + 1)
    step = 1 if last > first else -1
    stop = last + step
    return slice(first, None if stop < 0 else stop, step)


@dataclass(frozen=True)
class CopyKernel:
    """Copies a view of the inputs, broadcast to `shape`, into a result with as many elements."""

    view: Callable[..., Array]
    shape: tuple[int, ...]

    def __call__(self, *arrays: Array, out: Array, team: Team) -> None:
        """Write the view, of any strides, into `out`."""
        make(self._calls(self.view(*arrays), out.reshape(self.shape)))

    @staticmethod
    def _calls(x: Array, out: Array) -> NumPyCalls:
        """Return the copies.

        NumPy's innermost loop runs along the last axis of the result, which is slow if that has a
        few elements that lie far apart in `x`: 2.3 ns per element against 0.3 by one copy for each.
        """
        size = x.shape[-1] if x.ndim else 1
        if 1 < size <= SHORT_AXIS and x.size >= 4 * SHORT_AXIS and abs(x.strides[-1]) > x.itemsize:
            for k in range(size):
                yield cast, (x[..., k],), out[..., k]
        else:
            yield cast, (x,), out
        return out

    def fixed(self, *arrays: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        view = self.view(*arrays)
        if not np.may_share_memory(view, arrays[0]):  # a copy of the present elements
            return None
        if not jit.available():
            calls = self._calls(view, out.reshape(self.shape))
            return kept(out, calls, scratch.SIZES.copied_elements)
        view, target = np.broadcast_to(view, self.shape), out.reshape(self.shape)
        if view.size < 2:
            return Repeated.of([recorded_copy(view, target)])
        # The first axis that can be cut into enough pieces of the same size.
        axis = max(range(view.ndim), key=lambda a: (min(view.shape[a], LONG_CUT), -a))
        size = view.shape[axis]
        cuts = scratch.pieces(size, scratch.shared_step(size, size, COPIED_NS * view.size))
        places = [(*[slice(None)] * axis, cut) for cut in cuts]
        return Repeated.of(recorded_copy(view[place], target[place]) for place in places)


def within_32(values: Array) -> Array:
    """Truncate f32 within 32 bits; numbers beyond them become -2**31, NaN too."""
    first = np.float32(-(2.0**31))
    return np.where((values >= first) & (values < -first), values, first).astype(np.int32)


@dataclass(frozen=True)
class CastKernel:
    """Changes the element type as NumPy does; `cuts` says that f32 become integers by 32 bits."""

    cuts: bool

    def __call__(self, x: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the elements into `out`."""
        cast(within_32(x) if self.cuts else x, out)

    def fixed(self, x: Array, *_: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        if not (self.cuts or jit.available()):
            return kept(out, [(cast, (x,), out)])
        real, whole = (out, x)[:: -1 if self.cuts else 1]
        suits = real.dtype == np.float32 and whole.dtype.name in jit.CAST_TYPES
        if not (suits and x.flags.c_contiguous and jit.available() and jit.works()):
            return None
        step = scratch.shared_step(out.size, 1 << 16, COPIED_NS / 4 * out.size, 64)
        name, pairs = f"cast_{x.dtype}_{out.dtype}", (x.reshape(-1), out.reshape(-1))
        cuts = scratch.pieces(out.size, step)
        return Repeated(tuple(Recorded.of(name, *(a[cut] for a in pairs)) for cut in cuts))


def padded(x: Array, begin: Sequence[int], end: Sequence[int], value: Any = 0) -> Array:
    """Return `x` with a constant around it; negative pads crop."""
    sizes = [d + b + e for d, b, e in zip(x.shape, begin, end, strict=True)]
    out = np.empty(sizes, x.dtype)
    Border.of(x.shape, begin, end)(x, out, value)
    return out


def take(x: Array, indices: Array, axis: int, out: Array) -> None:
    """Pick elements along an axis; indices are inside of it and not negative."""
    np.take(x, indices, axis, out=out, mode="clip")  # the mode "raise" buffers the result


@dataclass(frozen=True)
class Nearest:
    """Repeats or picks whole elements along some axes.

    `factors` are repeats, one for each axis; `indices` are those taken along an axis before that.
    """

    indices: tuple[tuple[int, Array], ...]
    factors: tuple[int, ...]

    @staticmethod
    def of(shape: Sequence[int], indices: Sequence[tuple[int, Array]]) -> Nearest:
        """Return the plan for an index vector for each of some axes."""
        left, factors = [], [1] * len(shape)
        for axis, index in indices:
            size = shape[axis]
            factor = len(index) // size
            if len(index) == size * factor and (index == np.arange(len(index)) // factor).all():
                factors[axis] = factor
            else:
                left.append((axis, index))
        # Axes that shrink first leave less to do for the others.
        left.sort(key=lambda pair: len(pair[1]) / shape[pair[0]])
        return Nearest(tuple(left), tuple(factors))

    def __call__(self, x: Array, out: Array, team: Team) -> None:
        """Write the resized `x` into `out`."""
        repeats = any(f > 1 for f in self.factors)
        team.begin()
        for n, (axis, index) in enumerate(self.indices):
            shape = (*x.shape[:axis], len(index), *x.shape[axis + 1 :])
            last = n == len(self.indices) - 1 and not repeats
            y = out if last else team.space.array(shape, x.dtype)
            take(x, index, axis, y)
            x = y
        for source, target in self._repeated(x, out) if repeats else ():
            target[...] = source
        if not (repeats or self.indices):
            np.copyto(out, x)

    def recorded(self, x: Array, out: Array) -> Repeated | None:
        """Record a call for memory at fixed addresses; planes of the first axes by themselves."""
        if self.indices or max(self.factors) == 1:
            return None
        ahead = next(axis for axis, f in enumerate(self.factors) if f > 1)
        planes = x.reshape(-1, *x.shape[ahead:])
        results = out.reshape(len(planes), *out.shape[ahead:])
        own = replace(self, factors=(1, *self.factors[ahead:]))
        step = scratch.shared_step(len(planes), len(planes), COPIED_NS * out.size)
        found = []
        for p in scratch.pieces(len(planes), step):
            calls = [recorded_copy(*pair) for pair in own._repeated(planes[p], results[p])]
            found.append(None if None in calls else Recorded.joined(filter(None, calls)))
        return Repeated.of(found)

    def _repeated(self, x: Array, out: Array) -> Iterator[tuple[Array, Array]]:
        """Yield (source, target) of the copies, each of which may read what those before wrote.

        Elements are written once with a stride along the last axis, then whole rows.
        """
        split = [v for d, f in zip(x.shape, self.factors, strict=True) for v in (d, f)]
        view = out.reshape(split)
        rank, width = x.ndim, self.factors[-1]
        first: tuple[Any, ...] = (slice(None), 0) * (rank - 1) + (slice(None),)
        for k in range(width):
            yield x, view[(*first, k)]
        rows = out.reshape(*split[:-2], -1)
        for axis in reversed(range(rank - 1)):
            ahead: tuple[Any, ...] = (slice(None),) * (2 * axis + 1)
            for k in range(1, self.factors[axis]):
                yield rows[(*ahead, 0)], rows[(*ahead, k)]


def tiled(shape: Sequence[int], repeats: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (shape of the input, shape of the result) between which a copy broadcasts."""
    pairs = list(zip(shape, repeats, strict=True))
    inside = tuple(v for d, _ in pairs for v in (1, d))
    return inside, tuple(v for d, r in pairs for v in (r, d))


FEW = 16  # neighbours on a side up to which they are added one by one


def sums(x: Array, axis: int, reach: int) -> Array:
    """Return the sum of each element and up to `reach` ones before and behind it along an axis."""
    size = x.shape[axis]
    reach = min(reach, max(size - 1, 0))
    if reach > FEW:  # from running sums, in double precision
        running = np.cumsum(x, axis, dtype=np.float64)
        padded = np.concatenate([np.zeros_like(_part(running, axis, slice(1))), running], axis)
        places = np.arange(size)
        ends = np.minimum(places + reach + 1, size)
        begins = np.maximum(places - reach, 0)
        found = np.take(padded, ends, axis) - np.take(padded, begins, axis)
        return np.asarray(found, x.dtype)
    out = x.copy()
    for k in range(1, reach + 1):
        low, high = _part(x, axis, slice(None, -k)), _part(x, axis, slice(k, None))
        _part(out, axis, slice(None, -k))[...] += high
        _part(out, axis, slice(k, None))[...] += low
    return out


def _part(x: Array, axis: int, part: slice) -> Array:
    return x[(slice(None),) * axis + (part,)]


WAYS = ("none", "sum", "prod", "min", "max")  # in the order of their numbers in compiled code
FEW_BEST = 32  # elements of a row, up to which they are found faster than by sorting it


def suits(data: np.dtype[Any] | None, indices: np.dtype[Any] | None) -> bool:
    """Whether compiled code moves elements of a type to or from indices of another one."""
    known = data is not None and data.itemsize == 4 and data.kind in "fiu"
    return known and indices in (np.int32, np.int64) and jit.available() and jit.works()


def _loops() -> Any:
    return import_module("irdeconv.kernels.compiled_moves")


def _seen(x: Array, at: int) -> Array:
    """Return `[outer, size, inner]`."""
    shape = math.prod(x.shape[:at]), x.shape[at], math.prod(x.shape[at + 1 :])
    return np.ascontiguousarray(x).reshape(shape)


def _real(x: Array, at: int) -> Array:
    """Return `[outer, size, inner]` as f32, which moves any 4 bytes as they are."""
    return _seen(x, at).view(np.float32)


@dataclass(frozen=True)
class TakeEach:
    """GatherElements along an axis; `evaluate` is asked if an index is outside of it."""

    axis: int
    evaluate: Callable[..., Array]

    def __call__(self, data: Array, indices: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the elements into `out`."""
        at = self.axis
        if _loops().take_each(_real(data, at), _seen(indices, at), _real(out, at)):
            np.copyto(out, self.evaluate(data, indices))


@dataclass(frozen=True)
class PutEach:
    """ScatterElementsUpdate along an axis, in one of `WAYS`; see `TakeEach`."""

    axis: int
    way: int
    evaluate: Callable[..., Array]

    def __call__(
        self, data: Array, indices: Array, updates: Array, *more: Array, out: Array, team: Team
    ) -> None:
        """Write the data with the updates into `out`."""
        np.copyto(out, data)
        at = self.axis
        given = _real(out, at), _seen(indices, at), _real(updates, at)
        if _loops().put_each(*given, self.way):
            np.copyto(out, self.evaluate(data, indices, updates, *more))


@dataclass(frozen=True)
class TakeRows:
    """Gather along an axis by one list of indices; an index outside of it gives zeros."""

    axis: int
    wraps: bool

    def __call__(self, data: Array, indices: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the rows into `out`."""
        self._moved(data, indices, out)(team)

    def fixed(self, data: Array, indices: Array, *_: Array, out: Array) -> Any:
        """See `FixedCall`."""
        lies = data.flags.c_contiguous and indices.flags.c_contiguous
        return self._moved(data, indices, out) if lies else None

    def _moved(self, data: Array, indices: Array, out: Array) -> Callable[[Team], None]:
        x, flat = _real(data, self.axis), np.ascontiguousarray(indices).reshape(-1)
        result = out.view(np.float32).reshape(len(x), len(flat), x.shape[2])
        move, wraps = _loops().take_rows, self.wraps
        return lambda team: move(x, flat, result, wraps)


def best_of_rows(x: Array, count: int, *, largest: bool) -> tuple[Array, Array]:
    """Return the first elements of sorted rows `[.., n]` of f32, and their places."""
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    values, places = (
        np.empty((len(rows), count), np.float32),
        np.empty((len(rows), count), np.int64),
    )
    _loops().best(rows, values, places, largest)
    shape = (*x.shape[:-1], count)
    return values.reshape(shape), places.reshape(shape)
