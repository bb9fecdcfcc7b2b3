"""The effect of each operation on a view of the data (maps.View), at symbolic sizes.

The rules of movements are in `language`; here are the primitives that they call, for views.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irdeconv.proof.definition import ACTIVATIONS, LayerDefinition, Relation, activation
from irdeconv.proof.language import listed_call
from irdeconv.proof.maps import COPY_STEP, Axis, KernelSums, Moves, Read, View, by_channel, last
from irdeconv.proof.model import (
    FLOATS,
    LARGEST_ARRAY,
    MOST_RESIZED,
    RULES,
    Array,
    Call,
    Ints,
    Layer,
    Run,
    TypedArray,
    need,
)
from irdeconv.proof.sizes import Case, Expr, Size, SizesTooLarge, SizesTooSmall, is_int
from irdeconv.proof.views import (
    Numbers,
    Zeros,
    elements,
    filled,
    padded,
    rebuilt,
    regrouped,
    single,
    taken,
    with_axis,
    zero_shape,
)

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

    def insert(self, x: Any, axis: int, stride: int, trailing: bool) -> Any:
        if stride == 1:
            return x
        # S*(I - 1) + 1 elements, but none of none: the question splits the case at I = 0.
        cut = 0 if trailing or not x.shape[axis] > 0 else 1 - stride
        return padded(self.case, each(x, axis, np.arange(stride)), {axis: (0, cut)})

    def resize(self, x: Any, axis: int, f: int, h: int) -> Any:
        size = x.shape[axis] * f
        # With h = 0 or 1 output o takes element floor(o / f), which none beyond the axis is.
        need(
            f == 1 or (h in (0, 1) and f <= MOST_REPEATED),
            f"{self.layer} does not repeat each element",
        )
        if not self.case.implies(MOST_RESIZED - 1 - size):
            raise SizesTooLarge(f"{self.layer}: {size} elements may be too many for f32")
        return each(x, axis, np.zeros(f, np.int64)) if f > 1 else x

    def expand(self, x: Any, axes: Sequence[int]) -> Any:
        return _unsqueezed(x, axes)

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
        pattern = next((p for p in parts if isinstance(p, View)), None)
        if pattern is None:
            shapes = list(map(zero_shape, parts))
            sizes = list(shapes[0])
            sizes[axis] = _length(self, shapes, shapes[0], axis)
            return Zeros(parts[0].type, tuple(sizes))
        if any(a.coordinate is not None for a in pattern.run(axis)):
            views = [p for p in parts if isinstance(p, View)]
            # Zeros beside one place of the data are pads; beside sums they are residues without
            # taps.
            pads = len(views) < len(parts) and pattern.blocks is None and pattern.runs[axis] == 1
            axes = (n for v in views for n in v.run(axis))
            if pads or any(n.coordinate is not None and not _is_one(n) for n in axes):
                return _joined_open(self, parts, axis)
            parts = [_beside(p, axis) if isinstance(p, View) else p for p in parts]
        return _joined_rows(self, parts, axis)


def called(case: Case, layer: Layer) -> _OpenCall:
    """Return a layer of views; the attributes of a convolution are read by `define`."""
    if layer.type not in RULES:
        return _OpenCall(layer, layer.attributes, 0, case=case)
    call = listed_call(layer)[0]
    return _OpenCall(layer, call.said, call.opset, case=case)


def _unsqueezed(x: View, places: Sequence[int]) -> View:
    """Return a view with axes of size 1 at places of the result."""
    for a in sorted(places):
        x = replace(x, runs=(*x.runs[:a], 0, *x.runs[a:]))
    return x


def each(x: View, a: int, places: Array) -> View:
    """Put copies (places of 0) or zeros (others) of each element of an axis in its place."""
    x = taken(_unsqueezed(x, [a + 1]), a + 1, places)
    return replace(x, runs=(*x.runs[:a], x.runs[a] + x.runs[a + 1], *x.runs[a + 2 :]))


def _zeros_regrouped(case: Case, zeros: Zeros, target: Sequence[Size]) -> Zeros:
    """Return zeros in another shape of as many elements; one size may be -1."""
    count, sizes = math.prod(zeros.shape), list(target)
    text = f"zeros {list(zeros.shape)} are not followed to {sizes}"
    for i in [i for i, v in enumerate(sizes) if is_int(v, -1)]:
        rest = -math.prod(sizes)
        need(type(rest) is int and rest > 0, text)
        sizes[i] = count // rest
    need(case.is_zero(count - math.prod(sizes)), text)
    return Zeros(zeros.type, tuple(sizes))


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
        if axis.coordinate and axis.radix == 1 and x.blocks and not x.is_finished:
            x = _strided(x, a, 1)
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
    pairs = [(a.length, b.length), (a.shift, b.shift)]
    for p, q in zip(a.bounds, b.bounds, strict=False):
        pairs += zip(p, q, strict=True)
    same = (a.coordinate, a.radix, a.step, len(a.bounds))
    return same == (b.coordinate, b.radix, b.step, len(b.bounds)) and all(
        case.is_zero(p - q) for p, q in pairs
    )


def _copied(case: Case, views: Sequence[View]) -> list[View]:
    """Return moved data that differ in their places along open axes as copies of one."""
    copies: dict[Moves, int] = {}
    made = []
    for i, v in enumerate(views):
        pairs = list(zip(v.axes, views[0].axes, strict=True))
        by = {a.coordinate: a.shift - b.shift for a, b in pairs if a.coordinate is not None}
        empty = {a.coordinate for a in v.axes if case.is_zero(a.length)}  # moved by any number
        by = {c: 0 if case.is_zero(n) else i if c in empty else n for c, n in by.items()}
        # Copies are distinguished by their moves. Comparing open moves would split the case.
        need(all(type(n) is int for n in by.values()), "copies are moved by open sizes")
        rows = [tuple((n + by[c], own) for c, (n, own) in enumerate(row)) for row in v.copies]
        number = np.array([copies.setdefault(row, len(copies)) for row in rows])
        table = np.where(
            v.table < 0, -1, number[v.table // COPY_STEP] * COPY_STEP + v.table % COPY_STEP
        )
        axes = (a if a.coordinate is None else replace(a, shift=b.shift) for a, b in pairs)
        made.append(replace(v, table=table, axes=tuple(axes)))
    return [replace(v, copies=tuple(copies)) for v in made]


def _zero_view(c: _OpenCall, value: Any, pattern: View, at: int) -> View:
    """Return zeros as a view beside which a pattern stands."""
    size = _length(c, [zero_shape(value)], pattern.shape, at)
    c.need(type(size) is int and size >= 0, "zeros of an open or negative size")
    pattern, place = single(pattern, at)
    sizes = [size if i == place else n for i, n in enumerate(pattern.table.shape)]
    table, axis = np.full(c.room(sizes), -1), replace(pattern.axes[place], length=size)
    blocks = None if pattern.blocks is None else ()
    view = View(pattern.type, table, pattern.axes, pattern.runs, blocks, copies=pattern.copies)
    return with_axis(view, place, axis)


def _constant_view(case: Case, value: TypedArray) -> View | TypedArray:
    """Return a constant of one number for each channel as a view, zeros as they are."""
    array = value.array
    if array.ndim < 3 or not array.size or not array.any():
        return value
    first = array[(slice(1), slice(None), *(slice(1),) * (array.ndim - 2))]
    need(bool((array == first).all()), "the data is joined with something else")
    made = filled(case, TypedArray(first, value.type), array.shape)
    return made if isinstance(made, View) else value


def _joined_rows(c: _OpenCall, parts: Sequence[Any], at: int) -> View:
    """Join views and constants along a run of explicit axes: their tables."""
    case, pattern = c.case, next(p for p in parts if isinstance(p, View))
    parts = [_constant_view(case, p) if isinstance(p, TypedArray) else p for p in parts]
    pattern = _settled(pattern)
    views = [_settled(p) if isinstance(p, View) else _zero_view(c, p, pattern, at) for p in parts]
    views = [single(v, at)[0] for v in views]
    views = _copied(case, views) if pattern.blocks is None else views
    place = single(pattern, at)[1]
    tables: list[Array] = []
    blocks: list[tuple[KernelSums, ...]] = []
    for v in views:
        same_ends = v.activation == views[0].activation and v.runs == views[0].runs
        like = same_ends and (v.blocks is None) == (pattern.blocks is None)
        need(like, f"{c.layer} joins unlike things")
        both = enumerate(zip(v.axes, views[0].axes, strict=True))
        same = (_alike(case, *pair) for i, pair in both if i != place)
        need(all(same), f"{c.layer} joins other shapes or places")
        # Rows are counted through all blocks: those of a view begin where the last ones end.
        tables.append(np.where(v.table < 0, -1, v.table + sum(b[0].rows for b in blocks)))
        blocks += v.blocks or ()
    need(sum(t.size for t in tables) <= LARGEST_ARRAY, f"{c.layer} joins too much")
    table, axes = np.concatenate(tables, place), list(views[0].axes)
    axes[place] = replace(axes[place], length=int(table.shape[place]))
    numbered = {v.bias_numbered for v in views if v.bias is not None}
    need(len(numbered) < 2, f"{c.layer} joins constant and computed biases")
    nothing = -1 if True in numbered else 0.0
    every = [np.full(v.table.shape, nothing) if v.bias is None else v.bias for v in views]
    bias = np.concatenate(every, place) if numbered else None
    found = None if pattern.blocks is None else tuple(blocks)
    ends = (bias, True in numbered, views[0].activation, views[0].copies)
    return View(pattern.type, table, tuple(axes), views[0].runs, found, *ends)


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
    rows[0 if a else 1] += tuple(rows[a][i] for i in ones)
    rows[a] = tuple(n for i, n in enumerate(rows[a]) if i not in ones)
    return x.grouped(rows)


def _joined_open(c: _OpenCall, parts: Sequence[Any], at: int) -> View:
    """Join one view with zeros along an open axis."""
    [where, *more] = [i for i, p in enumerate(parts) if isinstance(p, View)]
    need(not more, f"{c.layer} joins several tensors along an open axis")
    sides = [list(map(zero_shape, side)) for side in (parts[:where], parts[where + 1 :])]
    fits = all(c.case.implies(s[at]) for side in sides for s in side)
    need(fits, f"{c.layer} joins sizes that may be negative")
    begin, end = (_length(c, side, parts[where].shape, at) for side in sides)
    return padded(c.case, parts[where], {at: (begin, end)})


def _length(c: _OpenCall, shapes: Sequence[Sequence[Size]], like: Sequence[Size], at: int) -> Size:
    """Return the size of tensors joined along an axis, whose other sizes are those of a shape."""
    need(all(len(s) == len(like) for s in shapes), f"{c.layer} joins other ranks")
    pairs = [(s[i], n) for s in shapes for i, n in enumerate(like) if i != at]
    need(all(c.case.is_zero(m - n) for m, n in pairs), f"{c.layer} joins other shapes")
    return sum(s[at] for s in shapes)


def _both(c: _OpenCall, a: View, b: View) -> View:
    """Return the sum of convolutions."""
    a, b = (_settled(v) for v in ((b, a) if a.bias is None else (a, b)))
    fits = c.layer.type == "Add" and a.type == b.type and a.type in FLOATS and b.bias is None
    fits = fits and not a.activation and not b.activation and a.runs == b.runs
    need(fits and a.blocks and b.blocks, f"{c.layer} adds other than convolutions")
    pairs = zip(a.axes, b.axes, strict=True)
    same = all(_alike(c.case, *pair) for pair in pairs) and np.array_equal(a.table, b.table)
    blocks = list(zip(a.blocks or (), b.blocks or (), strict=True))
    same = same and all(p[0].rows == q[0].rows for p, q in blocks)
    need(same, f"{c.layer} adds unlike convolutions")
    return replace(a, blocks=tuple((*p, *q) for p, q in blocks))


def _add(c: _OpenCall, a: Any, b: Any) -> Any:
    x, other = (a, b) if isinstance(a, View) else (b, a)
    minus = c.layer.type == "Subtract"
    if isinstance(x, View) and isinstance(other, View):
        return _both(c, x, other)
    if not isinstance(x, View):  # zeros, and a number for each channel
        need(not minus, f"{c.layer} subtracts from zeros")
        zeros, value = (a, b) if isinstance(a, Zeros) or isinstance(b, Numbers) else (b, a)
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
            fits = type(axis.shift) is int and len(x.copies) < 2 and length >= axis.radix
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


def _copies(c: _OpenCall, x: View, weights: Array, windows: Sequence[Relation]) -> View:
    """Return copies by weights [g, M/g, C/g, *T]: an output channel has at most one tap, of 1."""
    g, m, k, *taps = weights.shape
    c.need(is_int(x.shape[1], g * k), f"{x.shape[1]} channels")
    flat, count = weights.reshape(g * m, -1), math.prod(taps)
    channel, tap = np.divmod(flat.argmax(1), max(count, 1))
    channel = np.where(flat.any(1), channel + np.arange(g * m) // m * k, -1)
    rows = [(w.taps, w.dilation, w.pad, w.outputs) for w in windows]
    ends = [(b, n + d * (t - 1) - b - x.shape[2 + a]) for a, (t, d, b, n) in enumerate(rows)]
    x, parts, chosen = padded(c.case, x, dict(enumerate(ends, 2))), [], []
    for t in np.unique(tap):
        at = zip(np.unravel_index(t, taps), rows, strict=True)
        cuts = [(-d * int(i), -d * (n - 1 - int(i))) for i, (n, d, *_) in at]
        chosen.append(np.flatnonzero(tap == t))
        parts.append(c.pick(padded(c.case, x, dict(enumerate(cuts, 2))), 1, channel[chosen[-1]]))
    return taken(c.join(parts, 1), 1, np.argsort(np.concatenate(chosen)))


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
    channels, live = _live_places(c, by_channel(x.table, order))
    count = g * inner
    need(channels.size == count, f"{c.layer} has {channels.size} channels, its filter {count}")
    at = [outer.get(a.coordinate or 0) for a in spatial]
    kernel = [1 if i is None else taps[i] for i in at]
    to = sorted(range(len(taps)), key=lambda i: (i not in at, at.index(i) if i in at else 0))
    weights = filter.array.transpose(0, 1, 2, *(3 + i for i in to)).reshape(g, m, inner, *kernel)
    reads, made = [], {0: batch}
    for axis, i, r in zip(spatial, at, live, strict=True):
        w = Relation(1, 1, 1, 0, axis.length, 1, axis.length) if i is None else windows[i]
        # Elements that the axis skips by its step are skipped by taps that reach further.
        by, whole_axis = axis.step, replace(axis, length=axis.span, step=1)
        reads.append(Read(whole_axis, w.dilation * by, w.pad * by, r, (), w.stride * by))
        made[axis.coordinate or 0] = Axis(w.outputs, axis.coordinate)
    numbered, channels = isinstance(filter, Numbers), channels.reshape(g, inner)
    parts = _sums_of_copies(c, x, KernelSums(weights, numbered, channels, tuple(reads)))
    # Samples of other places in the batch would be added up.
    c.need(all(moves[0] == (0, ()) for moves in x.copies), "the batch is moved")
    need(parts, f"{c.layer} reads nothing")
    out = [[made[a.coordinate or 0] for a in row] for row in (rows[0], *rows[2:])]
    out.insert(1, [Axis(g * m)])
    axes = tuple(a for row in out for a in row)
    table = np.arange(g * m).reshape([a.rows for a in axes])
    return View(x.type, table, axes, tuple(map(len, out)), (tuple(parts),))


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


def _live_places(c: _OpenCall, table: Array) -> tuple[Array, list[Ints]]:
    """Return the row of each channel, and per axis the places of a period that are not zero."""
    used = (table >= 0).any(axis=0)
    n = used.ndim
    live = [
        tuple(np.flatnonzero(used.any(axis=tuple({*range(n)} - {a}))).tolist()) or (0,)
        for a in range(n)
    ]
    channels = last(table, [r[0] for r in live])
    need(math.prod(map(len, live)) <= MOST_LIVE, f"{c.layer} reads too much of a period")
    index: Any = (slice(None), *np.ix_(*live))
    # One table of channels is kept for all of them, so each has to have the same rows.
    same = table[index].reshape(len(table), -1) == channels[:, None]
    need(same.all(), f"{c.layer} reads unlike elements of a period")
    return channels, live


def _sums_of_copies(c: _OpenCall, x: View, every: KernelSums) -> list[KernelSums]:
    """Return the sums over the channels of each copy of the data, at its places."""
    copy, channel, parts = *np.divmod(every.channels, COPY_STEP), list[KernelSums]()
    for i, moves in enumerate(x.copies):
        chosen = [np.flatnonzero(row == i) for row in copy]
        count = len(chosen[0])
        c.need(len(x.copies) == 1 or {*map(len, chosen)} == {count}, "unlike groups")
        own, read = every.weights, np.where(copy < 0, -1, channel)
        if len(x.copies) > 1:
            own = np.stack([w[:, k] for w, k in zip(own, chosen, strict=True)])
            read = np.stack([row[k] for row, k in zip(channel, chosen, strict=True)])
        there = []
        for along in every.reads:
            axis = along.axis
            move, limits = moves[axis.coordinate or 0]
            axis = replace(axis, shift=axis.shift + move, bounds=(*axis.bounds, *limits))
            there.append(replace(along, axis=axis))
        if count or len(x.copies) == 1:
            parts.append(replace(every, weights=own, channels=read, reads=tuple(there)))
    return parts


def weighed(
    c: _OpenCall,
    x: View,
    d: LayerDefinition,
    filter: Any,
    relations: Iterable[Relation],
    inner: bool,
) -> View:
    """Return a convolution of a view by [g, M/g, C/g, *K]: moved elements, or sums.

    It is moved elements if it only copies and is no end. A deconvolution is one behind zeros
    between elements.
    """
    plain_layer = d.data_axes == (*range(x.ndim),) and not d.activation
    need(plain_layer and x.ndim > 2, f"{c.layer} is not followed inside")
    windows, turned = [], []
    for a, w in enumerate(relations, 2):
        x = c.insert(x, a, w.radix, trailing=False)
        if w.dilation < 0:  # a scatter is a gather through the reversed filter (docs/proof.md, 7)
            turned.append(a + 1)
            w = w._replace(dilation=-w.dilation, pad=w.pad - w.dilation * (w.taps - 1))
        windows.append(w)
    filter = filter._replace(array=np.flip(filter.array, tuple(turned)))
    flat = filter.array.reshape(filter.shape[0] * filter.shape[1], -1)
    plain = isinstance(filter, TypedArray) and x.type in FLOATS
    plain = plain and {w.stride for w in windows} == {1}
    # At the end of a region copies stay sums: with these the definition is compared.
    copies = np.isin(flat, (0, 1)).all() and ((flat != 0).sum(1) < 2).all()
    if plain and copies and (inner or x.blocks is not None):
        return _copies(c, x, filter.array, windows)
    return _sums(c, x, filter, windows)


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
