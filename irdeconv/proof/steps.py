"""The effect of each operation on a view of the data (maps.View), at symbolic sizes.

The rules of movements are in `language`; here are the primitives that they call, for views.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from irdeconv.proof.definition import ACTIVATIONS, LayerDefinition, Relation, activation
from irdeconv.proof.language import listed_call
from irdeconv.proof.maps import Axis, KernelSums, Read, View, by_channel, last
from irdeconv.proof.model import (
    FLOATS,
    MOST_RESIZED,
    RULES,
    Array,
    Call,
    Ints,
    Layer,
    Run,
    TypedArray,
    computed,
    need,
)
from irdeconv.proof.sizes import Case, Expr, Size, SizesTooLarge, SizesTooSmall, is_int
from irdeconv.proof.views import (
    Numbers,
    Pieces,
    elements,
    filled,
    padded,
    rebuilt,
    regrouped,
    single,
    taken,
    views_of,
    with_axis,
    zero_shape,
)

Moved = View | Pieces
MOST_REPEATED, MOST_LIVE = 64, 2**10  # more is for exact sizes


@dataclass(frozen=True)
class _OpenCall(Call):
    """A layer of views in a case of the sizes."""

    case: Case = field(default_factory=Case)

    def pick(self, x: Any, axis: int, at: Array) -> Any:
        return taken(x, axis, at)

    def pad(self, x: Any, rows: Sequence[tuple[Size, Size]]) -> Any:
        return padded(self.case, x, dict(zip(range(x.ndim), rows, strict=True)))

    def cut(self, x: Any, parts: Sequence[Any]) -> Any:
        for a, part in enumerate(parts):
            self.need(isinstance(part, slice), "an axis comes or goes")
            n, s = x.shape[a], 1 if part.step is None else part.step
            b = 0 if part.start is None else part.start
            e = n if part.stop is None else part.stop
            if s == 1 and type(b) is type(e - n) is int and b == e - n == 0:
                continue
            if all(axis.coordinate is None for axis in x.run(a)):
                self.need(s != 0 and type(b) is type(e) is int, "open bounds or no step")
                x = self.pick(x, a, np.arange(n)[part])
                continue
            b, e = (_clipped(v, n) for v in (b, e))
            e = e if e >= b else b  # not e > b: an empty slice keeps its size as an expression
            x = _stepped(self, padded(self.case, x, {a: (-b, e - n)}), a, s)
        return x

    def resize(self, x: Any, axis: int, f: int, h: int) -> Any:
        size = x.shape[axis] * f
        # With h = 0 or 1 output o takes element floor(o / f), which none beyond the axis is.
        need(
            f == 1 or (h in (0, 1) and f <= MOST_REPEATED),
            f"{self.layer} does not repeat each element",
        )
        if not self.case.implies(MOST_RESIZED - 1 - size):
            raise SizesTooLarge(f"{self.layer}: {size} elements may be too many for f32")
        return self.each(x, axis, np.zeros(f, np.int64)) if f > 1 else x

    def expand(self, x: Any, axes: Sequence[int]) -> Any:
        for a in sorted(axes):
            x = replace(x, runs=(*x.runs[:a], 0, *x.runs[a:]))
        return x

    def merge(self, x: Any, axis: int) -> Any:
        runs = (*x.runs[:axis], x.runs[axis] + x.runs[axis + 1], *x.runs[axis + 2 :])
        return replace(x, runs=runs)

    def broadcast(self, x: Any, shape: Sequence[Any]) -> Any:
        for a, (length, n) in enumerate(zip(x.shape, shape, strict=True)):
            if not self.case.is_zero(length - n):
                self.need(is_int(length, 1) and type(n) is int and n >= 1, f"size {n}")
                x = self.pick(x, a, np.zeros(self.room([n]), np.int64))
        return x

    def reshape(self, x: Any, shape: Sequence[Any], kept: Sequence[int] | None = None) -> Any:
        low = [v for v in shape if not isinstance(v, Expr) and v < 0]
        self.need(low in ([], [-1]), "two sizes are left open")
        y: Any = (regrouped if isinstance(x, View) else _zeros_regrouped)(self.case, x, shape)
        for i, v in enumerate(() if kept is None else shape):
            same = x.shape[i] if i < len(x.shape) else 1  # an Expr of 0 would be a copy of it
            # A product is at least 1 if its factors are; that of all sizes is the same before.
            factors = [a.length for a in y.run(i)] if isinstance(y, View) else x.shape
            fits = not isinstance(v, Expr) or all(self.case.implies(n - 1) for n in factors)
            if not fits and not self.case.implies(v - same):
                raise SizesTooSmall(f"{self.layer} keeps an axis where size {i} is 0")
        return y

    def join(self, parts: Sequence[Any], axis: int) -> Any:
        views = [v for p in parts for v in views_of(p)]
        opens = [n for v in views for n in v.run(axis) if n.coordinate is not None]
        # Zeros beside one place of the data are pads; beside sums they are residues without taps.
        pads = opens and views[0].blocks is None and views[0].runs[axis] == 1
        is_open = (pads and not all(map(views_of, parts))) or not all(map(_is_one, opens))
        several = is_open and sum(map(bool, map(views_of, parts))) > 1
        need(not several, f"{self.layer} joins several tensors along an open axis")
        if views and not is_open:
            parts = [_constant_view(self.case, p) for p in parts]
        shapes = [p.shape if views_of(p) else zero_shape(p) for p in parts]
        like, sizes = views[0].shape if views else shapes[0], [s[axis] for s in shapes]
        for shape in shapes:
            need(len(shape) == len(like), f"{self.layer} joins other ranks")
            pairs = [*zip(shape, like, strict=True)]
            same = (self.case.is_zero(m - n) for m, n in (*pairs[:axis], *pairs[axis + 1 :]))
            need(all(same), f"{self.layer} joins other shapes")
        if not views:
            return Pieces(parts[0].type, (*like[:axis], sum(sizes), *like[axis + 1 :]))
        need(all(map(self.case.implies, sizes)), f"{self.layer} joins sizes that may be negative")
        self.need(is_open or all(type(n) is int for n in sizes), "zeros of an open size")
        alike = is_open or not views[0].activation or all(map(views_of, parts))
        need(alike, f"{self.layer} joins unlike things")
        made = []  # the sum of the parts, each with zeros in place of the others
        for i, part in enumerate(parts):
            begin, end = sum(sizes[:i]), sum(sizes[i:])
            for v in views_of(part):
                if is_open:
                    v = padded(self.case, v, {axis: (begin, end - sizes[i])})
                else:
                    v = taken(_beside(_settled(v), axis), axis, np.arange(-begin, end), joins=True)
                made.append(v)
        return _together(self, made)


def called(case: Case, layer: Layer) -> _OpenCall:
    """Return a layer of views; the attributes of a convolution are read by `define`."""
    if layer.type not in RULES:
        return _OpenCall(layer, layer.attributes, 0, case=case)
    call = listed_call(layer)[0]
    return _OpenCall(layer, call.said, call.opset, case=case)


def _zeros_regrouped(case: Case, zeros: Pieces, target: Sequence[Size]) -> Pieces:
    """Return zeros in another shape of as many elements; one size may be -1."""
    count, sizes = math.prod(zeros.shape), list(target)
    text = f"zeros {list(zeros.shape)} are not followed to {sizes}"
    for i in [i for i, v in enumerate(sizes) if is_int(v, -1)]:
        rest = -math.prod(sizes)
        need(type(rest) is int and rest > 0, text)
        sizes[i] = count // rest
    need(case.is_zero(count - math.prod(sizes)), text)
    return Pieces(zeros.type, tuple(sizes))


def _clipped(at: Size, n: Size) -> Size:
    """Return a bound of a slice within 0..n; negative ones count from the end."""
    at = at if at >= 0 else at + n
    at = at if at >= 0 else 0
    return at if at <= n else n


def _stepped(c: Call, x: View, a: int, step: int) -> View:
    """Return every step-th element along an open axis."""
    if step == 1:
        return x
    x, place = single(x, a)
    axis = x.axes[place]
    fits = step > 0 and axis.coordinate and axis.radix == 1
    need(fits, f"{c.layer} has the step {step} on an open axis of the data")
    if x.blocks is not None:
        return _strided(x, place, step)
    length = -(-axis.length // step)
    return with_axis(x, place, replace(axis, length=length, step=axis.step * step))


def _settled(x: View) -> View:
    """Move shifts and bounds along the axes of sums into the reads of their convolutions."""
    for a, axis in enumerate(x.axes):
        moved = axis.bounds or not is_int(axis.shift, 0)
        if moved and axis.coordinate and axis.radix == 1 and x.blocks and not x.is_finished:
            x = _strided(x, a, 1)
    return x


def _at_whole_periods(x: View) -> View:
    """Let known axes of moved data begin with a period, so that more views are at one place."""
    for a, axis in enumerate(x.axes):
        r, numbers = axis.radix, [axis.shift, *(n for row in axis.bounds for n in row)]
        fits = axis.coordinate is not None and r > 1 and x.blocks is None and not x.is_finished
        if not fits or any(type(n) is not int for n in numbers):
            continue
        live = np.flatnonzero((x.table >= 0).any(tuple({*range(len(x.axes))} - {a})))
        # Position q of place t = q + shift has the place q + begin now: the same one of the base.
        begin = np.unique((live - axis.shift) % r + axis.shift - live)
        bounds = [np.unique(-(-(n - live) // r) * r) for n in numbers[1:]]
        if {len(v) for v in (begin, *bounds)} == {1}:
            ends = [int(v[0]) for v in bounds]
            rows = tuple(dict.fromkeys(zip(ends[::2], ends[1::2], strict=True)))
            x = replace(x, table=np.roll(x.table, -axis.shift, a))
            x = with_axis(x, a, replace(axis, shift=int(begin[0]), bounds=rows))
    return x


def _strided(x: View, a: int, step: int) -> View:
    """Take outputs v = step*q + shift of the convolutions for position q along an axis of sums."""
    axis, blocks = x.axes[a], []
    at = (axis.coordinate or 0) - 1
    for block in x.blocks or ():
        rows = []
        for sums in block:
            read = sums.reads[at]
            ends = (
                (low - axis.shift, high - axis.shift) for low, high in (*read.bounds, *axis.bounds)
            )
            bounds = tuple((-(-low // step), -(-high // step)) for low, high in ends)
            pad, stride = read.pad - read.stride * axis.shift, read.stride * step
            read = replace(read, pad=pad, bounds=bounds, stride=stride)
            rows.append(replace(sums, reads=(*sums.reads[:at], read, *sums.reads[at + 1 :])))
        blocks.append(tuple(rows))
    length = -(-axis.length // step)
    return with_axis(
        replace(x, blocks=tuple(blocks)), a, replace(axis, length=length, shift=0, bounds=())
    )


def _alike(case: Case, a: Axis, b: Axis) -> bool:
    """Return whether two axes have the same length and places."""
    same = (a.coordinate, a.radix, a.step, len(a.bounds))
    if a is b or same != (b.coordinate, b.radix, b.step, len(b.bounds)):
        return a is b
    pairs = [(a.length, b.length), (a.shift, b.shift)]
    for p, q in zip(a.bounds, b.bounds, strict=True):
        pairs += zip(p, q, strict=True)
    return all(p is q or case.is_zero(p - q) for p, q in pairs)


def _together(c: _OpenCall, views: Sequence[View]) -> Moved:
    """Return the sum of views, as one view if they are at the same places."""
    first, found, blocks = views[0], list[View](), list[tuple[KernelSums, ...]]()
    rows = 0  # of the blocks so far
    for v in views:
        like = v.activation == first.activation and (v.blocks is None) == (first.blocks is None)
        need(like and (v.blocks is not None or not v.is_finished), f"{c.layer} joins unlike things")
        # Rows are counted through all blocks: those of a view begin where the last ones end.
        v = replace(v, table=np.where(v.table < 0, -1, v.table + rows)) if rows else v
        blocks += v.blocks or ()
        rows += sum(b[0].rows for b in v.blocks or ())
        at = next((i for i, u in enumerate(found) if _same_places(c.case, u, v)), len(found))
        found[at : at + 1] = [_over(c, u, v) for u in found[at : at + 1]] or [v]
    if first.blocks is not None:
        need(len(found) == 1, f"{c.layer} joins other shapes or places")
        return replace(found[0], blocks=tuple(blocks))
    found = [v for v in found if (v.table >= 0).any()] or found[:1]
    return found[0] if len(found) == 1 else Pieces(first.type, first.shape, tuple(found))


def _same_places(case: Case, a: View, b: View) -> bool:
    """Return whether the elements of two views are at the same places."""
    return a.runs == b.runs and all(_alike(case, *p) for p in zip(a.axes, b.axes, strict=True))


def _over(c: _OpenCall, a: View, b: View) -> View:
    """Return two views at the same places as one."""
    need(not ((a.table >= 0) & (b.table >= 0)).any(), f"{c.layer} adds elements")
    biased = [v for v in (a, b) if v.bias is not None]
    numbered = {v.bias_numbered for v in biased}
    need(len(numbered) < 2, f"{c.layer} joins constant and computed biases")
    both: Any = np.maximum if True in numbered else np.add
    bias = reduce(both, [v.bias for v in biased]) if biased else None
    return replace(a, table=np.maximum(a.table, b.table), bias=bias, bias_numbered=True in numbered)


def _constant_view(case: Case, value: Any) -> Any:
    """Return a constant of one number for each channel as a view, other values as they are."""
    array = value.array if isinstance(value, TypedArray) else np.zeros(0)
    if array.ndim < 3 or not array.any():
        return value
    first = array[(slice(1), slice(None), *(slice(1),) * (array.ndim - 2))]
    need(bool((array == first).all()), "the data is joined with something else")
    made = filled(case, TypedArray(first, value.type), array.shape)
    return made if isinstance(made, View) else value


def _is_one(axis: Axis) -> bool:
    """Return whether an open axis has one place."""
    return axis.coordinate is not None and is_int(axis.length, 1)


def _beside(x: View, a: int, most: int = 0) -> View:
    """Move open axes of size 1 from a run to another one: they have one place in either.

    They stay while the run has `most` open axes at most.
    """
    rows = x.rows
    extra = sum(n.coordinate is not None for n in rows[a]) - most
    ones = [i for i, n in enumerate(rows[a]) if _is_one(n)][: max(extra, 0)]
    if not ones:
        return x
    rows[0 if a else 1] += tuple(rows[a][i] for i in ones)
    rows[a] = tuple(n for i, n in enumerate(rows[a]) if i not in ones)
    return x.grouped(rows)


def _both(c: _OpenCall, a: View, b: View) -> View:
    """Return the sum of convolutions."""
    a, b = (_settled(v) for v in ((b, a) if a.bias is None else (a, b)))
    fits = a.type == b.type and b.bias is None and not a.activation and not b.activation
    need(fits and a.blocks and b.blocks, f"{c.layer} adds other than convolutions")
    same = _same_places(c.case, a, b) and np.array_equal(a.table, b.table)
    blocks = list(zip(a.blocks or (), b.blocks or (), strict=True))
    same = same and all(p[0].rows == q[0].rows for p, q in blocks)
    need(same, f"{c.layer} adds unlike convolutions")
    return replace(a, blocks=tuple((*p, *q) for p, q in blocks))


def _add(c: _OpenCall, a: Any, b: Any) -> Any:
    x, other = (a, b) if isinstance(a, View) else (b, a)
    minus = c.layer.type == "Subtract"
    if isinstance(x, View) and isinstance(other, View):
        need(not minus and x.type in FLOATS, f"{c.layer} adds other than convolutions")
        return _both(c, x, other)
    if not isinstance(x, View):  # zeros, and a number for each channel
        need(not minus, f"{c.layer} subtracts from zeros")
        zeros, value = (a, b) if isinstance(a, Pieces) or isinstance(b, Numbers) else (b, a)
        return filled(c.case, value, zero_shape(zeros))
    need(x is a or not minus, f"{c.layer} subtracts the data")
    numbers, is_numbered = elements(other), isinstance(other, Numbers)
    need(other.type == x.type and not (minus and is_numbered), f"{c.layer} mixes element types")
    c.need(not minus or x.type in FLOATS, f"it subtracts {x.type}")
    numbers = -numbers if minus else numbers
    x, numbers = _spread(c, x, numbers)
    if not is_numbered and not numbers.any():
        return x
    need(x.blocks is not None and x.bias is None and not x.activation, f"{c.layer} adds no bias")
    return replace(x, bias=numbers, bias_numbered=is_numbered)


def _spread(call: Call, x: View, c: Array) -> tuple[View, Array]:
    """Return a view, and a constant that is broadcast along its axes, shaped like its table."""
    shape = (1,) * (x.ndim - c.ndim) + c.shape
    call.need(len(shape) == x.ndim, "it raises the rank")
    along = [a for a, n in enumerate(shape) if n != 1]
    c = c.reshape(shape)
    for a in along:
        x, place = single(x, a)
        axis, length = x.axes[place], shape[a]
        call.need(is_int(axis.length, length), f"{length} numbers for one axis")
        if axis.coordinate is not None:  # they have to repeat with the period of the axis
            fits = type(axis.shift) is int and length >= axis.radix
            call.need(fits, "it varies along an open axis")
            at = (np.arange(length) + axis.shift) % axis.radix
            short = c.take(np.unique(at, return_index=True)[1], a)
            call.need(np.array_equal(c, short.take(at, a)), "it varies along an open axis")
            c, shape = short, (*shape[:a], axis.radix, *shape[a + 1 :])
    sizes = [1] * len(x.axes)
    for a in along:
        sizes[sum(x.runs[: a + 1]) - 1] = shape[a]
    return x, np.broadcast_to(c.reshape(sizes), x.table.shape)


def _multiply(c: _OpenCall, a: Any, b: Any) -> View:
    x, other = (a, b) if isinstance(a, View) else (b, a)
    x, factors = _spread(c, x, elements(other))
    need(isinstance(other, TypedArray) and other.type == x.type, f"{c.layer} mixes element types")
    need(bool(((factors == 0) | (factors == 1)).all()), f"{c.layer} scales the data")
    need(factors.all() or not x.is_finished, f"{c.layer} puts zeros beside a bias")
    return replace(x, table=np.where(factors == 0, -1, x.table))


def _same_type(c: _OpenCall, x: View) -> View:
    to = c.said["destination_type"]
    need(to == x.type, f"{c.layer} changes the element type from {x.type} to {to}")
    return x


def _activation(c: _OpenCall, x: Any, *parameters: Any) -> Any:
    need(not x.activation, f"{c.layer} is a second activation")
    return replace(x, activation=activation(c.layer, x.type, parameters))


def _copies(c: _OpenCall, x: View, weights: Array, windows: Sequence[Relation]) -> Moved:
    """Return copies by weights [g, M/g, C/g, *T]: an output channel has at most one tap, of 1."""
    g, m, k, *taps = weights.shape
    c.need(is_int(x.shape[1], g * k), f"{x.shape[1]} channels")
    flat, count = weights.reshape(g * m, -1), math.prod(taps)
    channel, tap = np.divmod(flat.argmax(1), max(count, 1))
    channel = np.where(flat.any(1), channel + np.arange(g * m) // m * k, -1)
    rows = [(w.taps, w.dilation, w.pad, w.outputs) for w in windows]
    ends = [(b, n + d * (t - 1) - b - x.shape[2 + a]) for a, (t, d, b, n) in enumerate(rows)]
    kept = (channel >= 0).all() or not x.is_finished
    need(kept, "zeros join what has a bias or an activation")
    x, parts = padded(c.case, x, dict(enumerate(ends, 2))), []
    for t in np.unique(tap):
        at = zip(np.unravel_index(t, taps), rows, strict=True)
        cuts = [(-d * int(i), -d * (n - 1 - int(i))) for i, (n, d, *_) in at]
        moved = _at_whole_periods(_settled(padded(c.case, x, dict(enumerate(cuts, 2)))))
        parts.append(taken(moved, 1, np.where(tap == t, channel, -1), joins=True))
    return _together(c, parts)


def _sums(c: _OpenCall, x: View, filter: Any, windows: Sequence[Relation]) -> View:
    """Convolve with weights [g, M/g, C/g, *T].

    An axis of the data in the batch has one tap; so has an axis that the data lack.
    """
    need(x.blocks is None and not x.is_finished, f"{c.layer} is not the first convolution")
    need(np.isfinite(filter.array).all(), f"{c.layer} has a weight that is not finite")
    (g, m, inner, *taps), (x, outer) = filter.shape, _outer_axes(c, x, filter.shape, windows)
    rows, places = x.rows, [a.coordinate for a in x.axes]
    fits = sum(a is None for a in places) == 1 and x.runs[1] == 1 and max(x.runs[2:]) < 2
    fits = fits and 0 in [a.coordinate for a in rows[0]] and rows[1][0].coordinate is None
    c.need(fits, "the axes are not those of the data")
    along = sorted((i for i, a in enumerate(places) if a), key=lambda i: places[i] or 0)
    order = [places.index(0), places.index(None), *along]
    batch, spatial = x.axes[order[0]], [x.axes[i] for i in along]
    table, count = by_channel(x.table, order), g * inner
    need(len(table) == count, f"{c.layer} has {len(table)} channels, its filter {count}")
    at = [outer.get(a.coordinate or 0) for a in spatial]
    kernel = [1 if i is None else taps[i] for i in at]
    to = sorted(range(len(taps)), key=lambda i: (i not in at, at.index(i) if i in at else 0))
    weights = filter.array.transpose(0, 1, 2, *(3 + i for i in to)).reshape(g, m, inner, *kernel)
    reads, made, block, numbered = [], {0: batch}, [], isinstance(filter, Numbers)
    for axis, i in zip(spatial, at, strict=True):
        w = Relation(1, 1, 1, 0, axis.length, 1, axis.length) if i is None else windows[i]
        # Elements that the axis skips by its step are skipped by taps that reach further.
        by, whole_axis = axis.step, replace(axis, length=axis.span, step=1)
        reads.append(Read(whole_axis, w.dilation * by, w.pad * by, (), (), w.stride * by))
        made[axis.coordinate or 0] = Axis(w.outputs, axis.coordinate)
    for channels, live in _live_places(c, table):
        channels = channels.reshape(g, inner)
        chosen = (channels >= 0).any(0)
        own = tuple(replace(read, live=r) for read, r in zip(reads, live, strict=True))
        block.append(KernelSums(weights[:, :, chosen], numbered, channels[:, chosen], own))
    out = [[made[a.coordinate or 0] for a in row] for row in (rows[0], *rows[2:])]
    out.insert(1, [Axis(g * m)])
    axes = tuple(a for row in out for a in row)
    table = np.arange(g * m).reshape([a.rows for a in axes])
    return View(x.type, table, axes, tuple(map(len, out)), (tuple(block),))


def _outer_axes(
    c: _OpenCall, x: View, filter: Ints, windows: Sequence[Relation]
) -> tuple[View, dict[int, int]]:
    """Return the data without axes of one place, and which filter axis is along a coordinate."""
    outer: dict[int, int] = {}
    for a in range(1, x.ndim):
        x = _beside(x, a, most=min(a - 1, 1))
        x, place = single(x, a)
        axis = x.axes[place]
        if a > 1 and axis.coordinate is None:
            w = windows[a - 2]
            one = axis.length == filter[a + 1] == 1 and (w.pad, w.outputs) == (0, 1)
            c.need(one, "it has an axis that the data do not have")
            x = rebuilt(x, place, place + 1, (), (*x.runs[:a], x.runs[a] - 1, *x.runs[a + 1 :]))
        elif a > 1 and axis.coordinate is not None:
            outer[axis.coordinate] = a - 2
    return x, outer


def _live_places(c: _OpenCall, table: Array) -> Iterator[tuple[Array, list[Ints]]]:
    """Yield rows of channels with equal zeros in a period, -1 of others, and the other places."""
    flat = (table >= 0).reshape(len(table), -1)
    kinds: dict[bytes, list[int]] = {}
    for i in np.flatnonzero(flat.any(1)).tolist() or [0]:
        kinds.setdefault(flat[i].tobytes(), []).append(i)
    for those in kinds.values():
        places = np.nonzero(table[those[0]] >= 0)
        live = [tuple(np.unique(at).tolist()) or (0,) for at in places]
        need(math.prod(map(len, live)) <= MOST_LIVE, f"{c.layer} reads too much of a period")
        channels, some = np.full(len(table), -1), table[those]
        channels[those] = last(some, [r[0] for r in live])
        index: Any = (slice(None), *np.ix_(*live))
        # One table of channels is kept for all of them, so each has to have the same rows.
        same = some[index].reshape(len(those), -1) == channels[those, None]
        need(same.all(), f"{c.layer} reads unlike elements of a period")
        yield channels, live


def weighed(
    c: _OpenCall,
    x: Moved,
    d: LayerDefinition,
    filter: Any,
    relations: Sequence[Relation],
    inner: bool,
) -> Moved:
    """Return a convolution of data by [g, M/g, C/g, *K]: moved elements, or sums.

    It is moved elements if it only copies and is no end. A deconvolution is one behind zeros
    between elements.
    """
    plain_layer = d.data_axes == (*range(len(x.shape)),) and not d.activation
    need(plain_layer and len(x.shape) > 2, f"{c.layer} is not followed inside")
    windows, turned = [], []
    for a, w in enumerate(relations, 3):
        if w.dilation < 0:  # a scatter is a gather through the reversed filter (docs/proof.md, 7)
            turned.append(a)
            w = w._replace(dilation=-w.dilation, pad=w.pad - w.dilation * (w.taps - 1))
        windows.append(w)
    filter = filter._replace(array=np.flip(filter.array, tuple(turned)))
    flat = filter.array.reshape(filter.shape[0] * filter.shape[1], -1)
    plain = isinstance(filter, TypedArray) and x.type in FLOATS
    plain = plain and {w.stride for w in windows} == {1}
    # At the end of a region copies stay sums: with these the definition is compared.
    copies = np.isin(flat, (0, 1)).all() and ((flat != 0).sum(1) < 2).all()
    made = list[View]()
    for v in views_of(x):
        for a, w in enumerate(windows, 2):
            v = c.insert(v, a, w.radix, trailing=False)
        if plain and copies and (inner or v.blocks is not None):
            made += views_of(_copies(c, v, filter.array, windows))
        else:
            made.append(_sums(c, v, filter, windows))
    return _together(c, made) if made[0].blocks is None else reduce(partial(_both, c), made)


def followed(case: Case, layer: Layer, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a step: of a sum of moved data, the sum of those of its views."""
    call, run, views = called(case, layer), STEPS[layer.type], list[Any]()
    many = [(i, v) for i, v in enumerate(inputs) if isinstance(v, Pieces) and v.views]
    if layer.type == "Concat" or not many:
        return computed(call, run, inputs)
    fits = len(many) == 1 and layer.type not in ACTIVATIONS  # others are linear
    need(fits, f"{layer} is not followed of data that are joined")
    at, pieces = many[0]
    for v in pieces.views:
        views += computed(call, run, [*inputs[:at], v, *inputs[at + 1 :]])
    return [Pieces(views[0].type, views[0].shape, tuple(views))]


def biased(c: _OpenCall, x: View, bias: Any, axis: int = 1) -> View:
    """Return sums with a bias, one number per channel."""
    c.need(elements(bias).shape == x.shape[axis:][:1], "its bias has not one number per channel")
    y: View = _add(c, x, bias._replace(array=bias.array.reshape(-1, *(1,) * (x.ndim - axis - 1))))
    return y


BEHIND = ("Add", "Subtract", *ACTIVATIONS)
# The rule of a movement is the same for all opsets: it reads that of the call.
_MOVING = (
    "Broadcast Concat DepthToSpace Identity Interpolate Pad Reshape Slice Squeeze StridedSlice "
    "Tile Transpose Unsqueeze ZeroInsertion"
)
STEPS: dict[str, Run] = {
    **{name: next(iter(RULES[name].values())).run for name in _MOVING.split()},
    **dict.fromkeys(("Add", "Subtract"), _add),
    **dict.fromkeys(ACTIVATIONS, _activation),
    "Convert": _same_type,
    "Multiply": _multiply,
}
