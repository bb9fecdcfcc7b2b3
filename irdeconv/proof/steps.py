"""What each operation makes of a view of the data (maps.View), at symbolic sizes.

Each function takes the case of the sizes, the layer, and its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple as axes_of

from irdeconv.proof import language
from irdeconv.proof.definition import (
    ACTIVATIONS,
    OWN,
    LayerDefinition,
    activation,
    check_runs,
    define,
    ints,
)
from irdeconv.proof.maps import COPY_STEP, Axis, KernelSums, Read, Reference, View, by_channel, last
from irdeconv.proof.model import (
    FLOATS,
    LARGEST_ARRAY,
    Array,
    Ints,
    Layer,
    TypedArray,
    need,
    vector,
    whole,
)
from irdeconv.proof.operations import MOST_RESIZED, ahead, depth_to_space, enlarged
from irdeconv.proof.sizes import Case, Expr, Size, SizesTooLarge, SizesTooSmall
from irdeconv.proof.views import (
    Numbers,
    alike,
    canonical,
    clipped,
    constant_view,
    copied,
    elements,
    grouped,
    padded,
    rebuilt,
    regrouped,
    settled,
    single,
    spread,
    stepped,
    taken,
    unsqueezed,
    zero_shape,
    zero_view,
    zeros_regrouped,
)

MOST_REPEATED, MOST_LIVE = 64, 2**10  # more is for exact sizes


def _pad(case: Case, layer: Layer, x: View, begin: Any, end: Any, value: Any = None) -> View:
    fill = value is None or (isinstance(value, TypedArray) and not value.array.any())
    constant = dict(layer.attributes) == {"pad_mode": "constant"}
    need(fill and constant, f"{layer} does not fill with zeros")
    rows = list(zip(vector(begin), vector(end), strict=True))
    need(len(rows) == len(x.runs), f"{layer} has {len(rows)} pads for {len(x.runs)} axes")
    return padded(case, x, dict(enumerate(rows)))


def _insert(case: Case, layer: Layer, x: View) -> View:
    """Put zeros between elements: a new axis of zeros behind each, then cut the last ones off."""
    n = len(x.runs) - 2
    strides, trailing = ints(layer, "strides", n), layer.attributes.get("trailing", "false")
    need(min(strides) >= 1 and trailing in ("true", "false"), f"{layer} is not understood")
    for a, s in enumerate(strides, 2):
        x = _spread(case, x, a, s, trailing == "true")
    return x


def _spread(case: Case, x: View, a: int, stride: int, trailing: bool) -> View:
    if stride == 1:
        return x
    # S*(I - 1) + 1 elements, but none of none: the question splits the case at I = 0.
    cut = 0 if trailing or not x.shape[a] > 0 else 1 - stride
    return padded(case, each(x, a, np.arange(stride)), {a: (0, cut)})


def each(x: View, a: int, places: Array) -> View:
    """Put copies (places of 0) or zeros (others) of each element of an axis in its place."""
    x = taken(*single(unsqueezed(x, [a + 1]), a + 1), places)
    return replace(x, runs=(*x.runs[:a], x.runs[a] + x.runs[a + 1], *x.runs[a + 2 :]))


def _slice(
    case: Case, layer: Layer, x: View, start: Any, stop: Any, step: Any, axes: Any = None
) -> View:
    rows = list(zip(vector(start, True), vector(stop, True), whole(step), strict=True))
    chosen = range(len(rows)) if axes is None else axes_of(whole(axes), len(x.runs))
    need(len(chosen) == len(rows) and not layer.attributes, f"{layer} is not understood")
    return _cut(case, layer, x, zip(chosen, rows, strict=True))


def _strided_slice(
    case: Case, layer: Layer, x: View, begin: Any, end: Any, step: Any = None
) -> View:
    ends, call = [vector(v, True) for v in (begin, end)], language.listed_call(layer)[0]
    steps = [1] * len(ends[0]) if step is None else whole(step)
    names = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    masks = [call.ints(n) for n in names]
    need(len(masks[0]) == len(masks[1]), f"{layer} has masks that OpenVINO refuses")
    first, last, *others = ([*m] or [0] * len(steps) for m in masks)
    fits = len(steps) <= len(x.runs) and not any(map(any, others)) and min(steps) > 0
    need(fits and {*first, *last} <= {0, 1}, f"{layer} is not followed for all sizes")
    rows = [
        (0 if m else b, x.shape[a] if n else e, s)
        for a, (b, e, s, m, n) in enumerate(zip(*ends, steps, first, last, strict=True))
    ]
    return _cut(case, layer, x, enumerate(rows))


def _cut(case: Case, layer: Layer, x: View, rows: Iterable[tuple[int, Any]]) -> View:
    """Return a slice of axes, given their begin, end and step."""
    for a, (b, e, s) in rows:
        n = x.shape[a]
        if s == 1 and type(b) is type(e - n) is int and b == e - n == 0:
            continue
        if all(axis.coordinate is None for axis in x.run(a)):
            need(s != 0 and type(b) is type(e) is int, f"{layer} has open bounds or no step")
            x = taken(*single(x, a), np.arange(n)[slice(b if s > 0 else max(b, -n), e, s)])
            continue
        b, e = (clipped(v, n) for v in (b, e))
        e = e if e >= b else b  # not e > b: an empty slice keeps its size as an expression
        x = stepped(case, layer, padded(case, x, {a: (-b, e - n)}), a, s)
    return x


def _transpose(case: Case, layer: Layer, x: View, order: Any) -> View:
    rank = len(x.runs)
    to = whole(order) or tuple(range(rank))[::-1]
    need(sorted(to) == [*range(rank)], f"{layer} has the order {to}")
    return grouped(x, map(x.run, to))


def _reshape(case: Case, layer: Layer, x: Any, pattern: Any) -> Any:
    special = layer.attributes.get("special_zero", "")
    need(special in ("true", "false", "1", "0"), f"{layer} says special_zero={special!r}")
    target = vector(pattern)
    for i, v in enumerate(target):
        if not isinstance(v, Expr) and v == 0 and special in ("true", "1"):
            need(i < len(x.shape), f"{layer} keeps an axis that is not there")
            target[i] = x.shape[i]
    low = [v for v in target if not isinstance(v, Expr) and v < 0]
    need(low in ([], [-1]), f"{layer} leaves two sizes open")
    y: Any = (regrouped if isinstance(x, View) else zeros_regrouped)(case, x, target)
    for i, v in enumerate(target if special in ("true", "1") else ()):
        kept = x.shape[i] if i < len(x.shape) else 1  # an Expr of 0 would be a copy of it
        # A product is at least 1 if its factors are; that of all sizes is the same before.
        factors = [a.length for a in y.run(i)] if isinstance(y, View) else x.shape
        fits = not isinstance(v, Expr) or all(case.implies(n - 1) for n in factors)
        if not fits and not case.implies(v - kept):
            raise SizesTooSmall(f"{layer} keeps an axis where size {i} is 0")
    return y


def _unsqueeze(case: Case, layer: Layer, x: View, places: Any) -> View:
    given = whole(places)
    return unsqueezed(x, axes_of(given, len(x.runs) + len(given)))


def _squeeze(case: Case, layer: Layer, x: View, places: Any) -> View:
    need(layer.version != "opset15" and whole(places), f"{layer} is not followed for all sizes")
    gone = axes_of(whole(places), len(x.runs))
    ones = all(type(x.shape[a]) is int and x.shape[a] == 1 for a in gone)
    need(ones, f"{layer} removes an open axis")
    return regrouped(case, x, [n for a, n in enumerate(x.shape) if a not in gone])


def _depth_to_space(case: Case, layer: Layer, x: View) -> View:
    need(type(x.shape[1]) is int, f"{layer}: {x.shape[1]} channels")
    apart, order, shape = depth_to_space(language.listed_call(layer)[0], x.shape)
    x = regrouped(case, x, apart)
    return regrouped(case, grouped(x, map(x.run, order)), shape)


def _concat(case: Case, layer: Layer, *parts: Any) -> View:
    pattern = next(p for p in parts if isinstance(p, View))
    (at,) = axes_of(ints(layer, "axis", 1, None), len(pattern.runs))
    need(all(p.type == pattern.type for p in parts), f"{layer} joins several element types")
    return _joined(case, layer, parts, at)


def _joined(case: Case, layer: Layer, parts: Sequence[Any], at: int) -> View:
    pattern = next(p for p in parts if isinstance(p, View))
    if any(a.coordinate is not None for a in pattern.run(at)):
        views = [p for p in parts if isinstance(p, View)]
        # Zeros beside one place of the data are pads; beside sums they are residues without taps.
        pads = len(views) < len(parts) and pattern.blocks is None and pattern.runs[at] == 1
        wide = any(n.coordinate is not None and not _is_one(n) for v in views for n in v.run(at))
        if pads or wide:
            return _joined_open(case, layer, parts, at)
        parts = [_beside(p, at) if isinstance(p, View) else p for p in parts]
    return _joined_rows(case, layer, parts, at)


def _joined_rows(case: Case, layer: Layer, parts: Sequence[Any], at: int) -> View:
    """Join views and constants along a run of explicit axes: their tables."""
    pattern = next(p for p in parts if isinstance(p, View))
    parts = [constant_view(case, p) if isinstance(p, TypedArray) else p for p in parts]
    pattern = settled(pattern)
    views = [settled(p) if isinstance(p, View) else zero_view(case, p, pattern, at) for p in parts]
    views = [single(v, at)[0] for v in views]
    views = copied(case, views) if pattern.blocks is None else views
    place = single(pattern, at)[1]
    tables: list[Array] = []
    biases: list[Array | None] = []
    blocks: list[tuple[KernelSums, ...]] = []
    for v in views:
        same_ends = v.activation == views[0].activation and v.runs == views[0].runs
        like = same_ends and (v.blocks is None) == (pattern.blocks is None)
        need(like, f"{layer} joins unlike things")
        both = enumerate(zip(v.axes, views[0].axes, strict=True))
        same = (alike(case, *pair) for i, pair in both if i != place)
        need(all(same), f"{layer} joins other shapes or places")
        digits = [a.digit for a in v.axes if a.digit is not None]
        table = v.table.transpose(digits)
        tables.append(np.where(table < 0, -1, table + sum(b[0].rows for b in blocks)))
        biases.append(None if v.bias is None else v.bias.transpose(digits))
        blocks += v.blocks or ()
    digit = [a.digit is not None for a in views[0].axes[:place]].count(True)
    need(sum(t.size for t in tables) <= LARGEST_ARRAY, f"{layer} joins too much")
    counter, table = iter(range(len(views[0].axes))), np.concatenate(tables, digit)
    axes = [a if a.digit is None else replace(a, digit=next(counter)) for a in views[0].axes]
    axes[place] = replace(axes[place], length=int(table.shape[digit]))
    numbered = {v.bias_numbered for v in views if v.bias is not None}
    need(len(numbered) < 2, f"{layer} joins constant and computed biases")
    nothing, pairs = -1 if True in numbered else 0.0, zip(biases, tables, strict=True)
    every = [np.full(t.shape, nothing) if b is None else b for b, t in pairs]
    bias = np.concatenate(every, digit) if numbered else None
    found = None if pattern.blocks is None else tuple(blocks)
    ends = (bias, True in numbered, views[0].activation, views[0].copies)
    return View(pattern.type, table, tuple(axes), views[0].runs, found, *ends)


def _is_one(axis: Axis) -> bool:
    """Return whether an open axis has one place."""
    return axis.coordinate is not None and type(axis.length) is int and axis.length == 1


def _beside(x: View, a: int, most: int = 0) -> View:
    """Move open axes of size 1 from a run to another one: they have one place in either.

    They stay while the run has `most` open axes at most.
    """
    rows = [x.run(i) for i in range(len(x.runs))]
    extra = sum(n.coordinate is not None for n in rows[a]) - most
    ones = [i for i, n in enumerate(rows[a]) if _is_one(n)][: max(extra, 0)]
    rows[0 if a else 1] += tuple(rows[a][i] for i in ones)
    rows[a] = tuple(n for i, n in enumerate(rows[a]) if i not in ones)
    return grouped(x, rows)


def _joined_open(case: Case, layer: Layer, parts: Sequence[Any], at: int) -> View:
    """Join one view with zeros along an open axis."""
    where = [i for i, p in enumerate(parts) if isinstance(p, View)]
    view = parts[where[0]]
    need(len(where) == 1, f"{layer} joins several tensors along an open axis")
    sizes: list[Any] = [0, 0]
    for i, part in enumerate(parts):
        if i != where[0]:
            shape = zero_shape(part)
            fits = len(shape) == len(view.runs) and case.implies(shape[at])
            need(fits, f"{layer} joins other ranks")
            pairs = enumerate(zip(shape, view.shape, strict=True))
            need(all(a == at or case.is_zero(m - n) for a, (m, n) in pairs), f"{layer}: shapes")
            sizes[i > where[0]] += shape[at]
    return padded(case, view, {at: (sizes[0], sizes[1])})


def _tile(case: Case, layer: Layer, x: View, repeats: Any) -> View:
    times = whole(repeats)
    need(len(times) == len(x.runs) and min(times) >= 1, f"{layer} has the repeats {times}")
    for a, n in enumerate(times):
        if n > 1:
            need(n <= LARGEST_ARRAY, f"{layer} has the repeats {times}")
            x, place = single(x, a)
            x = taken(x, place, np.tile(np.arange(x.axes[place].length), n))
    return x


def _broadcast(case: Case, layer: Layer, x: View, target: Any) -> View:
    sizes, mode = vector(target), layer.attributes.get("mode")
    need(mode == "numpy" and len(sizes) == len(x.runs), f"{layer} is not followed for all sizes")
    for a, (length, n) in enumerate(zip(x.shape, sizes, strict=True)):
        if not case.is_zero(length - n):
            one = type(n) is type(length) is int and length == 1
            need(one and 1 <= n <= LARGEST_ARRAY, f"{layer}: size {n}")
            x = taken(*single(x, a), np.zeros(n, np.int64))
    return x


def _interpolate(case: Case, layer: Layer, x: View, *given: TypedArray) -> View:
    """Repeat elements: output o takes element floor(o / f), which none beyond the axis is."""
    need(x.type is not None and all(isinstance(v, TypedArray) for v in given), f"{layer}: inputs")
    language.output_type(layer, [str(x.type), *(v.type for v in given)])
    call = language.listed_call(layer)[0]
    scales, targets = enlarged(call, len(x.runs), given)
    for a, v in targets:
        size, f = x.shape[a], int(v) if scales else 0
        need(f == v >= 1 and f <= MOST_REPEATED, f"{layer} has no small whole scales")
        h = ahead(call, f)
        need(f == 1 or h in (0, 1), f"{layer} does not repeat each element")
        if not case.implies(MOST_RESIZED - 1 - size * f):
            raise SizesTooLarge(f"{layer}: {size * f} elements may be too many for f32")
        if f > 1:
            x = each(x, a, np.zeros(f, np.int64))
    return x


def _both(case: Case, layer: Layer, a: View, b: View) -> View:
    """Return the sum of convolutions."""
    a, b = (settled(v) for v in ((b, a) if a.bias is None else (a, b)))
    fits = layer.type == "Add" and a.type == b.type and a.type in FLOATS and b.bias is None
    fits = fits and not a.activation and not b.activation and a.runs == b.runs
    need(fits and a.blocks and b.blocks, f"{layer} adds other than convolutions")
    pairs = zip(a.axes, b.axes, strict=True)
    tables = [v.table.transpose([x.digit for x in v.axes if x.digit is not None]) for v in (a, b)]
    same = all(alike(case, *pair) for pair in pairs) and np.array_equal(tables[0], tables[1])
    blocks = [(p, q) for p, q in zip(a.blocks or (), b.blocks or (), strict=True)]
    same = same and all(p[0].rows == q[0].rows for p, q in blocks)
    need(same, f"{layer} adds unlike convolutions")
    return replace(a, blocks=tuple((*p, *q) for p, q in blocks))


def _add(case: Case, layer: Layer, a: Any, b: Any) -> Any:
    x, other = (a, b) if isinstance(a, View | Reference) else (b, a)
    minus = layer.type == "Subtract"
    mode = layer.attributes.get("auto_broadcast", "numpy")
    need(mode == "numpy", f"{layer} broadcasts otherwise")
    if isinstance(x, View) and isinstance(other, View):
        return _both(case, layer, x, other)
    need(x is a or not minus, f"{layer} subtracts the data")
    c, is_numbered = elements(other), isinstance(other, Numbers)
    need(other.type == x.type and not (minus and is_numbered), f"{layer} mixes element types")
    need(not minus or x.type in FLOATS, f"{layer} of {x.type}")
    c = -c if minus else c
    if isinstance(x, Reference):
        rank, at = len(x.data), x.definition.data_axes[1]
        shape = (1,) * (rank - c.ndim) + c.shape
        count = x.weights.shape[0] * x.weights.shape[2]
        along = [i for i, n in enumerate(shape) if n != 1]
        plain = len(shape) == rank and along in ([], [at]) and c.size in (1, count)
        need(plain and x.bias is None and not x.activation, f"{layer} adds no bias")
        values = np.broadcast_to(c.reshape(-1), (count,))
        return replace(x, bias=values, bias_numbered=is_numbered)
    x, bias = spread(layer, x, c)
    if not is_numbered and not c.any():
        return x
    need(x.bias is None and not x.activation and x.blocks is not None, f"{layer} adds no bias")
    return replace(x, bias=bias, bias_numbered=is_numbered)


def _multiply(case: Case, layer: Layer, a: Any, b: Any) -> View:
    x, other = (a, b) if isinstance(a, View) else (b, a)
    mode = layer.attributes.get("auto_broadcast", "numpy")
    need(mode == "numpy", f"{layer} broadcasts otherwise")
    x, c = spread(layer, x, elements(other))
    need(isinstance(other, TypedArray) and other.type == x.type, f"{layer} mixes element types")
    need(bool(((c == 0) | (c == 1)).all()), f"{layer} scales the data")
    need(c.all() or not x.is_finished, f"{layer} puts zeros beside a bias")
    return replace(x, table=np.where(c == 0, -1, x.table))


def _same_type(case: Case, layer: Layer, x: View) -> View:
    to = layer.attributes.get("destination_type", x.type)
    need(to == x.type, f"{layer} changes the element type from {x.type} to {to}")
    return x


def _activation(case: Case, layer: Layer, x: Any, *parameters: Any) -> Any:
    need(not x.activation, f"{layer} is a second activation")
    return replace(x, activation=activation(layer, x.type, parameters))


def _convolution(case: Case, layer: Layer, x: View, filter: Any, inner: bool = False) -> View:
    """Return sums: each output of the table's rows reads the data through the filter's taps.

    Moved data if another convolution reads the result (`inner`), and the filter only copies.
    """
    d = define(layer, len(x.runs))
    # Where no size is open OpenVINO takes no convolution without outputs.
    least = 0 if case.count or layer.version == OWN else 1
    windows = []
    weights = canonical(d, filter)
    for a, k in enumerate(weights.shape[3:]):
        begin, size = d.window(a, x.shape[2 + a], k, None)
        need(k > 0 and case.implies(size - least), f"{layer}: the kernel may not fit on axis {a}")
        windows.append(ReadWindow(d.strides[a], d.dilations[a], begin, size))
    need(filter.type == x.type, f"{layer}: a filter of {filter.type}")
    g, _, c = weights.shape[:3]
    check_runs(layer, d, g * c, tuple(w.size for w in windows))
    return _weighed(case, layer, x, weights, isinstance(filter, Numbers), windows, inner)


class ReadWindow(NamedTuple):
    """Output v < size of an axis reads place stride*v + dilation*t - pad through tap t."""

    stride: int
    dilation: int
    pad: Size
    size: Size


def _weighed(
    case: Case,
    layer: Layer,
    x: View,
    weights: Array,
    numbered: bool,
    windows: Sequence[ReadWindow],
    inner: bool,
) -> View:
    """Return a convolution as moved elements if it only copies and is no end, else as sums."""
    flat = weights.reshape(weights.shape[0] * weights.shape[1], -1)
    plain = not numbered and x.type in FLOATS and {w.stride for w in windows} == {1}
    copies = np.isin(flat, (0, 1)).all() and ((flat != 0).sum(1) < 2).all()
    if plain and copies and (inner or x.blocks is not None):
        return _copies(case, layer, x, weights, windows)
    return sums(layer, x, weights, numbered, windows)


def _copies(
    case: Case, layer: Layer, x: View, weights: Array, windows: Sequence[ReadWindow]
) -> View:
    """Return what weights [g, M/g, C/g, *T] copy: one tap of an output channel is 1 at most."""
    g, m, c, *taps = weights.shape
    need(type(x.shape[1]) is int and x.shape[1] == g * c, f"{layer}: {x.shape[1]} channels")
    flat, count = weights.reshape(g * m, -1), math.prod(taps)
    channel, tap = np.divmod(flat.argmax(1), max(count, 1))
    channel = np.where(flat.any(1), channel + np.arange(g * m) // m * c, -1)
    rows = [(k, w.dilation, w.pad, w.size) for k, w in zip(taps, windows, strict=True)]
    ends = [(b, n + d * (k - 1) - b - x.shape[2 + a]) for a, (k, d, b, n) in enumerate(rows)]
    x, parts, chosen = padded(case, x, dict(enumerate(ends, 2))), [], []
    for t in np.unique(tap):
        at = zip(np.unravel_index(t, taps), rows, strict=True)
        cuts = [(-d * int(i), -d * (k - 1 - int(i))) for i, (k, d, *_) in at]
        chosen.append(np.flatnonzero(tap == t))
        part = single(padded(case, x, dict(enumerate(cuts, 2))), 1)
        parts.append(taken(*part, channel[chosen[-1]]))
    return taken(*single(_joined(case, layer, parts, 1), 1), np.argsort(np.concatenate(chosen)))


def sums(
    layer: Layer, x: View, weights: Array, numbered: bool, windows: Sequence[ReadWindow]
) -> View:
    """Convolve with weights [g, M/g, C/g, *T].

    What an axis of the data is part of the batch has one tap; so has an axis that is none.
    """
    need(x.blocks is None and not x.is_finished, f"{layer} is not the first convolution")
    need(np.isfinite(weights).all(), f"{layer} has a weight that is not finite")
    (g, m, c, *taps), (x, outer) = weights.shape, _outer_axes(layer, x, weights, windows)
    rows, places = [x.run(a) for a in range(len(x.runs))], [a.coordinate for a in x.axes]
    fits = sum(a is None for a in places) == 1 and x.runs[1] == 1 and max(x.runs[2:]) < 2
    spatial = sorted((a for a in x.axes if a.coordinate), key=lambda a: a.coordinate or 0)
    fits = fits and 0 in [a.coordinate for a in rows[0]] and rows[1][0].coordinate is None
    need(fits, f"{layer}: the axes are not those of the data")
    batch = next(a for a in rows[0] if a.coordinate == 0)
    channels, live = _live_places(layer, by_channel(x.table, [batch, rows[1][0], *spatial]))
    need(channels.size == g * c, f"{layer} has {channels.size} channels, its filter {g * c}")
    at = [outer.get(a.coordinate or 0) for a in spatial]
    kernel = [1 if i is None else taps[i] for i in at]
    order = sorted(range(len(taps)), key=lambda i: (i not in at, at.index(i) if i in at else 0))
    weights = weights.transpose(0, 1, 2, *(3 + i for i in order)).reshape(g, m, c, *kernel)
    reads, made = [], {0: batch}
    for axis, i, r in zip(spatial, at, live, strict=True):
        w = ReadWindow(1, 1, 0, axis.length) if i is None else windows[i]
        by, whole_axis = axis.step, replace(axis, digit=None, length=axis.span, step=1)
        reads.append(Read(whole_axis, w.dilation * by, w.pad * by, r, (), w.stride * by))
        made[axis.coordinate or 0] = Axis(w.size, None, axis.coordinate)
    parts = _sums_of_copies(layer, x, weights, numbered, channels.reshape(g, c), reads)
    # Samples of other places in the batch would be added up.
    need(all(moves[0] == (0, ()) for moves in x.copies), f"{layer}: the batch is moved")
    need(parts, f"{layer} reads nothing")
    out = [[made[a.coordinate or 0] for a in row] for row in (rows[0], *rows[2:])]
    out.insert(1, [Axis(g * m, 0)])
    return grouped(View(x.type, np.arange(g * m), (), (), (tuple(parts),)), out)


def _outer_axes(
    layer: Layer, x: View, weights: Array, windows: Sequence[ReadWindow]
) -> tuple[View, dict[int, int]]:
    """Return the data without axes of one place, and which filter axis is along a coordinate."""
    outer: dict[int, int] = {}
    for a in range(1, len(x.runs)):
        x = _beside(x, a, most=min(a - 1, 1))
        x, place = single(x, a)
        axis = x.axes[place]
        if a > 1 and axis.coordinate is None:
            one = axis.length == weights.shape[a + 1] == 1 and windows[a - 2][2:] == (0, 1)
            need(one, f"{layer}: an axis")
            x = rebuilt(x, place, place + 1, [], [], (*x.runs[:a], x.runs[a] - 1, *x.runs[a + 1 :]))
        elif a > 1 and axis.coordinate is not None:
            outer[axis.coordinate] = a - 2
    return x, outer


def _live_places(layer: Layer, table: Array) -> tuple[Array, list[Ints]]:
    """Return the row of each channel, and per axis the places of a period that are not zero."""
    used = (table >= 0).any(axis=0)
    n = used.ndim
    live = [
        tuple(np.flatnonzero(used.any(axis=tuple({*range(n)} - {a}))).tolist()) or (0,)
        for a in range(n)
    ]
    channels = last(table, [r[0] for r in live])
    need(math.prod(map(len, live)) <= MOST_LIVE, f"{layer} reads too much of a period")
    index: Any = (slice(None), *np.ix_(*live))
    # One table of channels is kept for all of them, so each has to have the same rows.
    same = table[index].reshape(len(table), -1) == channels[:, None]
    need(same.all(), f"{layer} reads unlike elements of a period")
    return channels, live


def _sums_of_copies(
    layer: Layer, x: View, weights: Array, numbered: bool, channels: Array, reads: Sequence[Read]
) -> list[KernelSums]:
    """Return the sums over the channels of each copy of the data, read where the copy is."""
    copy, channel, parts = *np.divmod(channels, COPY_STEP), list[KernelSums]()
    for i, moves in enumerate(x.copies):
        chosen = [np.flatnonzero(row == i) for row in copy]
        count = len(chosen[0])
        need(len(x.copies) == 1 or {*map(len, chosen)} == {count}, f"{layer}: unlike groups")
        if len(x.copies) > 1:
            own = np.stack([w[:, k] for w, k in zip(weights, chosen, strict=True)])
            read = np.stack([row[k] for row, k in zip(channel, chosen, strict=True)])
        else:
            own, read = weights, np.where(copy < 0, -1, channel)
        there = []
        for along in reads:
            axis = along.axis
            move, limits = moves[axis.coordinate or 0]
            axis = replace(axis, shift=axis.shift + move, bounds=(*axis.bounds, *limits))
            there.append(replace(along, axis=axis))
        if count or len(x.copies) == 1:
            parts.append(KernelSums(own, numbered, read, tuple(there)))
    return parts


def deconvolved(
    case: Case,
    layer: Layer,
    x: View,
    d: LayerDefinition,
    weights: Array,
    numbered: bool,
    ends: Any,
    inner: bool,
) -> View:
    """Return a deconvolution as zeros between elements, and a convolution with these around it."""
    plain_layer = d.data_axes == (*range(len(x.runs)),) and not d.activation
    need(plain_layer and len(x.runs) > 2, f"{layer} is not followed inside")
    windows = []
    for a, (s, by, (begin, size)) in enumerate(zip(d.strides, d.dilations, ends, strict=True), 2):
        x = _spread(case, x, a, s, trailing=False)
        windows.append(ReadWindow(1, by, by * (weights.shape[1 + a] - 1) - begin, size))
    turned = np.flip(np.swapaxes(weights, 1, 2), tuple(range(3, weights.ndim)))
    return _weighed(case, layer, x, turned, numbered, windows, inner)


def biased(case: Case, layer: Layer, x: View, bias: Any) -> View:
    """Return a deconvolution inside with its bias, one number per channel."""
    need(elements(bias).shape == x.shape[1:2], f"{layer}: the bias")
    column = elements(bias).reshape(-1, *(1,) * (len(x.runs) - 2))
    kinds = Numbers(bias.type, column), TypedArray(column, bias.type)
    y: View = _add(case, layer, x, kinds[not isinstance(bias, Numbers)])
    return y


BEHIND = ("Add", "Subtract", *ACTIVATIONS)
STEPS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("Add", "Subtract"), _add),
    **dict.fromkeys(("Convert", "Identity"), _same_type),
    **dict.fromkeys(("Convolution", "GroupConvolution"), _convolution),
    **dict.fromkeys(ACTIVATIONS, _activation),
    "Broadcast": _broadcast,
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Interpolate": _interpolate,
    "Multiply": _multiply,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "ZeroInsertion": _insert,
}
