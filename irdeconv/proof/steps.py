"""What each operation makes of a view of the data (maps.View), at symbolic sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.proof import language
from irdeconv.proof.definition import LayerDefinition, define, ints
from irdeconv.proof.maps import Axis, Block, Read, Reference, View
from irdeconv.proof.model import Array, Layer, Port, TypedArray, Unproved
from irdeconv.proof.sizes import Case, Expr, Size

MOST_ELEMENTS, MOST_AXES = 2**26, 16


@dataclass(frozen=True)
class Leaf:
    """A value of the source model where the regions begin."""

    port: Port
    type: str | None
    shape: tuple[Size, ...]


@dataclass(frozen=True)
class Numbers:
    """Numbers (from 0 on; -1: a zero) of the elements of a leaf, moved about."""

    type: str | None
    array: Array

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of the axes."""
        return tuple(self.array.shape)


@dataclass(frozen=True)
class Zeros:
    """Zeros of an open shape."""

    type: str | None
    shape: tuple[Size, ...]


def need(holds: Any, text: str) -> None:
    """Raise Unproved with a text unless something holds."""
    if not holds:
        raise Unproved(text)


def vector(value: Any) -> list[Size]:
    """Return a vector of integers, known or symbolic."""
    known = isinstance(value, TypedArray) and value.array.ndim < 2 and value.type in ("i32", "i64")
    need(known, "a vector of sizes is not known")
    return list(value.array.reshape(-1).tolist())


def whole(value: Any) -> list[int]:
    """Return a vector of known integers."""
    found = vector(value)
    need(not any(isinstance(v, Expr) for v in found), "a vector depends on open sizes")
    return found


def elements(value: Any) -> Array:
    """Return the elements of a constant, or their numbers."""
    if not isinstance(value, TypedArray | Numbers):
        raise Unproved("weights are neither constants nor an input of the source layer")
    return value.array


def numbers(leaf: Leaf) -> Numbers:
    """Return the numbers of a leaf's elements."""
    need(all(isinstance(n, int) for n in leaf.shape), "the shape of computed weights is open")
    count = math.prod(leaf.shape)
    need(count <= MOST_ELEMENTS, f"there are {count} computed weights")
    return Numbers(leaf.type, np.arange(count).reshape(leaf.shape))


def canonical(d: LayerDefinition, value: Any) -> Array:
    """Return a filter as [g, C/g, M/g, *K], or [g, M/g, C/g, *K] of a convolution."""
    array = elements(value)
    need(array.ndim == len(d.filter_axes), f"the filter has rank {array.ndim}")
    ordered = array.transpose(d.filter_axes)
    if d.groups is None:
        return ordered
    need(len(ordered) % d.groups == 0, f"{len(ordered)} channels in {d.groups} groups")
    return ordered.reshape(d.groups, len(ordered) // d.groups, *ordered.shape[1:])


def data_view(leaf: Leaf, d: LayerDefinition) -> View:
    """Return the data of a layer, of which every element is known by its place."""
    channels = leaf.shape[d.data_axes[1]]
    need(isinstance(channels, int), "the number of channels is open")
    axes = [
        Axis(n, None, max(d.data_axes.index(a) - 1, 0), bounds=((0, n),))
        for a, n in enumerate(leaf.shape)
    ]
    axes[d.data_axes[1]] = Axis(channels, 0)
    return View(leaf.type, np.arange(channels), tuple(axes))


def moved(layer: Layer, inputs: Sequence[Any]) -> list[Numbers]:
    """Move numbers of elements; only zeros may join them."""
    ports, index, rest = language.MOVES[layer.type], [], []
    for port, value in enumerate(inputs):
        if not (port in ports if ports else True):
            need(isinstance(value, TypedArray), f"{layer}: its operand is not known")
            rest.append(value)
        elif isinstance(value, Numbers):
            index.append(value.array)
        else:
            index.append(np.full(_zero_shape(value), -1))
    kind = next(v.type for v in inputs if isinstance(v, Numbers))
    return [Numbers(kind, a) for a in language.move(layer, index, rest)]


# ---- views


def with_axis(view: View, a: int, axis: Axis) -> View:
    """Return a view with another axis in a place."""
    return replace(view, axes=(*view.axes[:a], axis, *view.axes[a + 1 :]))


def rebuilt(view: View, first: int, last: int, sizes: Sequence[int], axes: Iterable[Axis]) -> View:
    """Replace axes `first` to `last` by others; their digits become digits of `sizes`.

    The new axes count their digits from 0.
    """
    gone = [a.digit for a in view.axes[first:last] if a.digit is not None]
    rest = [d for d in range(view.table.ndim) if d not in gone]

    def shaped(table: Array) -> Array:
        kept = [table.shape[d] for d in rest]
        return table.transpose(*rest, *gone).reshape(*kept, *sizes)

    def placed(a: Axis) -> Axis:
        return a if a.digit is None else replace(a, digit=rest.index(a.digit))

    new = [a if a.digit is None else replace(a, digit=len(rest) + a.digit) for a in axes]
    before, behind = map(placed, view.axes[:first]), map(placed, view.axes[last:])
    bias = None if view.bias is None else shaped(view.bias)
    return replace(view, table=shaped(view.table), bias=bias, axes=(*before, *new, *behind))


def taken(view: View, a: int, places: Array) -> View:
    """Return the elements at some places of an explicit axis; outside of it are zeros."""
    n, digit = view.axes[a].length, view.axes[a].digit or 0
    need(view.axes[a].coordinate is None, "an open axis is rearranged")
    inside = (places >= 0) & (places < n)
    need(inside.all() or not view.is_finished, "zeros join what has a bias or an activation")
    need(view.table.size // max(n, 1) * places.size <= MOST_ELEMENTS, "a table grows too large")

    def pick(table: Array, nothing: Any) -> Array:
        shape = list(table.shape)
        shape[digit] = places.size
        out = np.moveaxis(np.full(shape, nothing, table.dtype), digit, 0)
        out[inside] = np.moveaxis(table, digit, 0)[places[inside]]
        return np.moveaxis(out, 0, digit)

    bias = None if view.bias is None else pick(view.bias, 0)
    axis = replace(view.axes[a], length=int(places.size))
    return with_axis(replace(view, table=pick(view.table, -1), bias=bias), a, axis)


def padded(case: Case, view: View, rows: Sequence[tuple[Size, Size]]) -> View:
    """Return a view with zeros before and behind each axis; negative numbers cut off."""
    need(len(rows) == len(view.axes), f"{len(rows)} pads for {len(view.axes)} axes")
    for a, (begin, end) in enumerate(rows):
        axis = view.axes[a]
        if type(begin) is type(end) is int and begin == end == 0:
            continue
        length = axis.length + begin + end
        need(case.implies(length), f"more than there is may be cut off: {begin} and {end}")
        if axis.coordinate is None:
            need(type(begin) is type(end) is int, "pads of channels are open")
            need(max(abs(begin), abs(end)) <= MOST_ELEMENTS, f"pads of {begin} and {end}")
            view = taken(view, a, np.arange(-begin, axis.length + end))
            continue
        shrinks = case.implies(-begin) and case.implies(-end)
        need(shrinks or not view.is_finished, "zeros join what has a bias or an activation")
        new = (axis.shift, axis.shift + axis.length)
        known = str(new) in map(str, axis.bounds)
        bounds = axis.bounds if shrinks or known else (*axis.bounds, new)
        axis = replace(axis, length=length, shift=axis.shift - begin, bounds=bounds)
        view = with_axis(view, a, axis)
    return view


def regrouped(case: Case, view: View, target: Sequence[Size]) -> View:
    """Return a view in another shape of as many elements.

    Every open axis becomes one axis, with the explicit axes right behind it merged into it;
    explicit axes are merged and split among themselves; axes of size 1 come and go.
    """
    groups = _groups(case, view.axes, list(target), 0, 0, set())
    text = f"{list(view.shape)} is not followed to {list(target)}"
    need(groups is not None and len(target) <= MOST_AXES, text)
    for first, last, sizes in reversed(groups or []):
        old = view.axes[first:last]
        if not old or old[0].coordinate is None:
            made = [Axis(n, d) for d, n in enumerate(sizes)]
            view = rebuilt(view, first, last, sizes, made)
        elif len(old) > 1:
            axis, inner = old[0], math.prod(a.length for a in old[1:])
            bounds = tuple((low * inner, high * inner) for low, high in axis.bounds)
            radix, length = axis.radix * inner, axis.length * inner
            merged = Axis(length, 0, axis.coordinate, radix, axis.shift * inner, bounds)
            view = rebuilt(view, first, last, [radix], [merged])
    return view


def _groups(
    case: Case, axes: Sequence[Axis], target: list[Size], i: int, j: int, failed: set[Any]
) -> list[tuple[int, int, list[Size]]] | None:
    """Return which axes from i on become which sizes from j on, None where they do not fit."""
    if i == len(axes) and j == len(target):
        return []
    if (i, j) in failed or len(target) > MOST_AXES:
        return None
    is_open = i < len(axes) and axes[i].coordinate is not None
    run = next(
        (a for a in range(i + is_open, len(axes)) if axes[a].coordinate is not None), len(axes)
    )
    choices = [(e, j + 1) for e in range(i + 1, run + 1)] if is_open and j < len(target) else []
    if not is_open:
        choices = [(e, f) for e in range(i + 1, run + 1) for f in range(len(target), j - 1, -1)]
    for e, f in [*choices, (i, j + 1)]:
        sizes = target[j:f]
        if f > len(target) or (e > i and not is_open and not all(type(n) is int for n in sizes)):
            continue
        have, want = (math.prod(v) for v in ([a.length for a in axes[i:e]], sizes))
        if case.is_zero(have - want):
            rest = _groups(case, axes, target, e, f, failed)
            if rest is not None:
                return [(i, e, sizes), *rest]
    failed.add((i, j))
    return None


# ---- operations: each takes the walk's case, the layer, and its inputs


def _pad(case: Case, layer: Layer, x: View, begin: Any, end: Any, value: Any = None) -> View:
    fill = value is None or (isinstance(value, TypedArray) and not value.array.any())
    constant = layer.attributes.get("pad_mode") == "constant" and set(layer.attributes) <= {
        "pad_mode"
    }
    need(fill and constant, f"{layer} does not fill with zeros")
    return padded(case, x, list(zip(vector(begin), vector(end), strict=True)))


def _insert(case: Case, layer: Layer, x: View) -> View:
    """Put zeros between elements: a new axis of zeros behind each, then cut the last ones off."""
    n = len(x.axes) - 2
    strides, trailing = ints(layer, "strides", n), layer.attributes.get("trailing", "false")
    need(min(strides) >= 1 and trailing in ("true", "false"), f"{layer} is not understood")
    for a, s in enumerate(strides, 2):
        size = x.axes[a].length
        x = taken(_unsqueezed(x, [a + 1]), a + 1, np.arange(s))
        x = regrouped(case, x, [*x.shape[:a], size * s, *x.shape[a + 2 :]])
        cut = 0 if trailing == "true" or not size > 0 else 1 - s
        x = padded(case, x, [(0, cut if i == a else 0) for i in range(n + 2)])
    return x


def _slice(
    case: Case, layer: Layer, x: View, start: Any, stop: Any, step: Any, axes: Any = None
) -> View:
    rows = list(zip(vector(start), vector(stop), whole(step), strict=True))
    chosen = list(range(len(rows))) if axes is None else _axes(whole(axes), len(x.axes))
    need(len(chosen) == len(rows) and not layer.attributes, f"{layer} is not understood")
    for a, (b, e, s) in zip(chosen, rows, strict=True):
        n = x.axes[a].length
        if x.axes[a].coordinate is None:
            need(s != 0 and type(b) is type(e) is int, f"{layer} has open bounds or no step")
            x = taken(x, a, np.arange(n)[slice(b if s > 0 else max(b, -n), e, s)])
            continue
        need(s == 1, f"{layer} has the step {s} on an open axis")
        b, e = (_clipped(v, n) for v in (b, e))
        e = e if e > b else b
        x = padded(case, x, [(-b, e - n) if i == a else (0, 0) for i in range(len(x.axes))])
    return x


def _clipped(at: Size, n: Size) -> Size:
    """Return a bound of a slice within 0..n; negative ones count from the end."""
    at = at if at >= 0 else at + n
    at = at if at >= 0 else 0
    return at if at <= n else n


def _axes(given: Sequence[int], rank: int) -> list[int]:
    """Return axes counted from 0, each once."""
    need(all(-rank <= a < rank for a in given), f"axes {list(given)} of {rank}")
    found = [a % rank for a in given]
    need(len(set(found)) == len(found), f"axes {list(given)} are not distinct")
    return found


def _transpose(case: Case, layer: Layer, x: View, order: Any) -> View:
    rank = len(x.axes)
    to = _axes(whole(order), rank) or list(reversed(range(rank)))
    need(len(to) == rank, f"{layer} has the order {to}")
    return replace(x, axes=tuple(x.axes[a] for a in to))


def _reshape(case: Case, layer: Layer, x: View, pattern: Any) -> View:
    special = layer.attributes.get("special_zero", "")
    need(special in ("true", "false", "1", "0"), f"{layer} says special_zero={special!r}")
    target = vector(pattern)
    for i, v in enumerate(target):
        if not isinstance(v, Expr) and v == 0 and special in ("true", "1"):
            need(i < len(x.axes), f"{layer} keeps an axis that is not there")
            target[i] = x.axes[i].length
    unknown = [i for i, v in enumerate(target) if not isinstance(v, Expr) and v == -1]
    need(len(unknown) < 2, f"{layer} leaves two sizes open")
    if unknown:
        target[unknown[0]] = _rest(
            case, x.shape, [v for v in target if v is not target[unknown[0]]]
        )
    need(all(case.implies(v) for v in target), f"{layer} may have a negative size")
    return regrouped(case, x, target)


def _rest(case: Case, shape: Sequence[Size], target: Sequence[Size]) -> Size:
    """Return what -1 stands for: the product of the shape over that of the other sizes."""
    need(all(case.implies(v - 1) for v in target), "-1 stands beside a size that may be 0")
    left, by = list(shape), 1
    for v in target:
        same = next((i for i, n in enumerate(left) if case.is_zero(n - v)), None)
        if same is not None:
            del left[same]
            continue
        need(type(v) is int, f"-1 beside {v} is not followed")
        by *= v
    total = math.prod(left)
    need(total % by == 0, f"{list(shape)} does not fill {list(target)}")
    return total // by


def _unsqueezed(x: View, places: Sequence[int]) -> View:
    for a in sorted(places):
        x = rebuilt(x, a, a, [1], [Axis(1, 0)])
    return x


def _unsqueeze(case: Case, layer: Layer, x: View, places: Any) -> View:
    given = whole(places)
    return _unsqueezed(x, _axes(given, len(x.axes) + len(given)))


def _squeeze(case: Case, layer: Layer, x: View, places: Any) -> View:
    need(layer.version != "opset15" and whole(places), f"{layer} is not followed for all sizes")
    for a in sorted(_axes(whole(places), len(x.axes)), reverse=True):
        axis = x.axes[a]
        need(axis.coordinate is None and axis.length == 1, f"{layer} removes an open axis")
        x = rebuilt(x, a, a + 1, [], [])
    return x


def _depth_to_space(case: Case, layer: Layer, x: View) -> View:
    (b,), mode = ints(layer, "block_size", 1, None), layer.attributes.get("mode")
    n, c, *space = x.shape
    k, first = len(space), mode == "blocks_first"
    need(
        mode in ("blocks_first", "depth_first") and 1 <= b <= MOST_ELEMENTS, f"{layer}: mode {mode}"
    )
    need(type(c) is int and k and c % b**k == 0, f"{layer}: {c} channels")
    inner = c // b**k
    x = regrouped(
        case, x, [n, *([b] * k if first else []), inner, *([] if first else [b] * k), *space]
    )
    at, channel = (1, 1 + k) if first else (2, 1)
    order = [0, channel, *(v for a in range(k) for v in (2 + k + a, at + a))]
    x = replace(x, axes=tuple(x.axes[a] for a in order))
    return regrouped(case, x, [n, inner, *(v * b for v in space)])


def _concat(case: Case, layer: Layer, *parts: Any) -> View:
    pattern = next(p for p in parts if isinstance(p, View))
    rank, (at,) = len(pattern.axes), ints(layer, "axis", 1, None)
    (at,) = _axes([at], rank)
    need(all(p.type == pattern.type for p in parts), f"{layer} joins several element types")
    if pattern.axes[at].coordinate is not None:
        where = [i for i, p in enumerate(parts) if isinstance(p, View)]
        zeros = [_zero_shape(p) for i, p in enumerate(parts) if i not in where]
        need(len(where) == 1, f"{layer} joins several tensors along an open axis")
        same = (
            case.is_zero(a - b)
            for z in zeros
            for i, (a, b) in enumerate(zip(z, pattern.shape, strict=True))
            if i != at
        )
        need(all(same), f"{layer} joins other shapes")
        begin, end = (
            sum(_zero_shape(p)[at] for p in side)
            for side in (parts[: where[0]], parts[where[0] + 1 :])
        )
        return padded(case, pattern, [(begin, end) if i == at else (0, 0) for i in range(rank)])
    views = [p if isinstance(p, View) else _zero_view(p, pattern, at) for p in parts]
    views = [_settled(case, v) for v in views]
    tables, biases, blocks = [], [], list[Block]()
    for v in views:
        need(
            v.activation == views[0].activation and len(v.axes) == rank,
            f"{layer} joins unlike things",
        )
        need((v.blocks is None) == (pattern.blocks is None), f"{layer} joins data and sums")
        pairs = [
            (a, b) for i, (a, b) in enumerate(zip(v.axes, views[0].axes, strict=True)) if i != at
        ]
        need(all(_alike(case, a, b) for a, b in pairs), f"{layer} joins other shapes or places")
        digits = [a.digit for a in v.axes if a.digit is not None]
        table = v.table.transpose(digits)
        tables.append(np.where(table < 0, -1, table + sum(b.rows for b in blocks)))
        biases.append(None if v.bias is None else v.bias.transpose(digits))
        blocks += v.blocks or ()
    digit = [a.digit is not None for a in views[0].axes[:at]].count(True)
    counter = iter(range(rank))
    axes = [a if a.digit is None else replace(a, digit=next(counter)) for a in views[0].axes]
    table = np.concatenate(tables, digit)
    need(table.size <= MOST_ELEMENTS, f"{layer} joins too much")
    axes[at] = replace(axes[at], length=int(table.shape[digit]))
    bias = None
    if any(b is not None for b in biases):
        rows = zip(biases, tables, strict=True)
        bias = np.concatenate([np.zeros(t.shape) if b is None else b for b, t in rows], digit)
    found = None if pattern.blocks is None else tuple(blocks)
    return View(pattern.type, table, tuple(axes), found, bias, pattern.activation)


def _zero_shape(value: Any) -> tuple[Size, ...]:
    zero = isinstance(value, Zeros) or (isinstance(value, TypedArray) and not value.array.any())
    need(zero, "the data is joined with something else")
    return tuple(value.shape if isinstance(value, Zeros) else value.array.shape)


def _zero_view(value: Any, pattern: View, at: int) -> View:
    """Return zeros as a view beside which a pattern stands."""
    shape = _zero_shape(value)
    need(len(shape) == len(pattern.axes) and type(shape[at]) is int, "zeros of another rank")
    axes = [replace(a, length=n) for a, n in zip(pattern.axes, shape, strict=True)]
    sizes = list(pattern.table.shape)
    sizes[axes[at].digit or 0] = shape[at]
    need(math.prod(sizes) <= MOST_ELEMENTS, "there are too many zeros")
    blocks = None if pattern.blocks is None else ()
    return View(pattern.type, np.full(sizes, -1), tuple(axes), blocks)


def _alike(case: Case, a: Axis, b: Axis) -> bool:
    """Return whether two axes have the same length and places."""
    pairs = [(a.length, b.length), (a.shift, b.shift)]
    for p, q in zip(a.bounds, b.bounds, strict=False):
        pairs += zip(p, q, strict=True)
    same = (a.coordinate, a.radix, len(a.bounds), a.digit is None)
    return same == (b.coordinate, b.radix, len(b.bounds), b.digit is None) and all(
        case.is_zero(p - q) for p, q in pairs
    )


def _settled(case: Case, x: View) -> View:
    """Move shifts and bounds along the axes of sums into what their convolutions read."""
    for a, axis in enumerate(x.axes):
        c = axis.coordinate
        if not c or axis.radix != 1 or not x.blocks or x.is_finished:
            continue
        blocks = []
        for block in x.blocks:
            read = block.reads[c - 1]
            moved_bounds = tuple(
                (low - axis.shift, high - axis.shift) for low, high in (*read.bounds, *axis.bounds)
            )
            read = replace(read, pad=read.pad - axis.shift, bounds=moved_bounds)
            blocks.append(replace(block, reads=(*block.reads[: c - 1], read, *block.reads[c:])))
        x = with_axis(replace(x, blocks=tuple(blocks)), a, replace(axis, shift=0, bounds=()))
    return x


def _tile(case: Case, layer: Layer, x: View, repeats: Any) -> View:
    times = whole(repeats)
    need(len(times) == len(x.axes) and min(times) >= 1, f"{layer} has the repeats {times}")
    for a, n in enumerate(times):
        if n > 1:
            need(n <= MOST_ELEMENTS, f"{layer} has the repeats {times}")
            x = taken(x, a, np.tile(np.arange(x.axes[a].length), n))
    return x


def _broadcast(case: Case, layer: Layer, x: View, target: Any) -> View:
    sizes, mode = vector(target), layer.attributes.get("mode")
    need(mode == "numpy" and len(sizes) == len(x.axes), f"{layer} is not followed for all sizes")
    for a, (axis, n) in enumerate(zip(x.axes, sizes, strict=True)):
        if not case.is_zero(axis.length - n):
            need(
                type(n) is int and axis.length == 1 and 1 <= n <= MOST_ELEMENTS,
                f"{layer}: size {n}",
            )
            x = taken(x, a, np.zeros(n, np.int64))
    return x


def _spread(layer: Layer, x: View, c: Array) -> Array:
    """Return a constant that is broadcast along the axes of a view, shaped like its table."""
    shape = (1,) * (len(x.axes) - c.ndim) + c.shape
    need(len(shape) == len(x.axes), f"{layer} raises the rank")
    out = [1] * x.table.ndim
    for axis, n in zip(x.axes, shape, strict=True):
        need(
            n == 1 or (axis.coordinate is None and n == axis.length),
            f"{layer} varies along an open axis",
        )
        if axis.coordinate is None and axis.digit is not None:
            out[axis.digit] = n
    order = [
        i
        for a in sorted((a.digit, i) for i, a in enumerate(x.axes) if a.digit is not None)
        for i in a[1:]
    ]
    rest = [i for i in range(len(shape)) if i not in order]
    return np.broadcast_to(c.reshape(shape).transpose(*rest, *order).reshape(out), x.table.shape)


def _add(case: Case, layer: Layer, a: Any, b: Any) -> Any:
    x, other = (a, b) if isinstance(a, View | Reference) else (b, a)
    minus = layer.type == "Subtract"
    need(
        layer.attributes.get("auto_broadcast", "numpy") == "numpy", f"{layer} broadcasts otherwise"
    )
    need(x is a or not minus, f"{layer} subtracts the data")
    c, is_numbered = elements(other), isinstance(other, Numbers)
    need(other.type == x.type and not (minus and is_numbered), f"{layer} mixes element types")
    c = -c if minus else c
    if isinstance(x, Reference):
        rank, at = len(x.data), x.definition.data_axes[1]
        shape = (1,) * (rank - c.ndim) + c.shape
        count = x.weights.shape[0] * x.weights.shape[2]
        along = [i for i, n in enumerate(shape) if n != 1]
        plain = len(shape) == rank and along in ([], [at]) and c.size in (1, count)
        need(plain and x.bias is None and not x.activation, f"{layer} adds no bias")
        return replace(x, bias=np.broadcast_to(c.reshape(-1), (count,)))
    spread = _spread(layer, x, c)
    if not is_numbered and not c.any():
        return x
    need(x.bias is None and not x.activation and x.blocks is not None, f"{layer} adds no bias")
    return replace(x, bias=spread)


def _multiply(case: Case, layer: Layer, a: Any, b: Any) -> View:
    x, other = (a, b) if isinstance(a, View) else (b, a)
    c = _spread(layer, x, elements(other))
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
    found = [elements(p) for p in parameters]
    if layer.type == "Clamp":
        found = [np.asarray(float(layer.attributes[k])) for k in ("min", "max")]
    need(all(p.size == 1 for p in found), f"the parameters of {layer} are no scalars")
    return replace(x, activation=(layer.type, *(p.reshape(()) for p in found)))


def _convolution(case: Case, layer: Layer, x: View, filter: Any) -> View:
    """Return sums: each output of the table's rows reads the data through the filter's taps."""
    d = define(layer, len(x.axes))
    n, weights = len(x.axes) - 2, canonical(d, filter)
    need(x.blocks is None and not x.is_finished, f"{layer} is not the first convolution")
    need(filter.type == x.type, f"{layer}: a filter of {filter.type}")
    need(set(d.strides) == {1}, f"{layer} has strides")
    places = [a.coordinate for a in x.axes]
    need(places == [0, None, *range(1, n + 1)], f"{layer}: the axes are not those of the data")
    digits = [x.axes[a].digit for a in (1, 0, *range(2, n + 2)) if x.axes[a].digit is not None]
    table = x.table.transpose(digits).reshape([x.axes[1].length, *(a.radix for a in x.axes[2:])])
    used = np.argwhere((table >= 0).any(axis=0))
    need(len(used) < 2, f"{layer} reads several elements of a period")
    live = [int(r) for r in used[0]] if len(used) else [0] * n
    channels, (g, _, c, *taps) = table[:, *live], weights.shape
    need(channels.size == g * c, f"{layer} has {channels.size} channels, its filter {g * c}")
    reads, axes = [], [x.axes[0], Axis(int(g * weights.shape[1]), 0)]
    for a, (axis, k) in enumerate(zip(x.axes[2:], taps, strict=True)):
        begin, size = d.window(a, axis.length, k, None)
        need(case.implies(size), f"{layer}: the kernel may not fit on axis {a}")
        reads.append(Read(replace(axis, digit=None), d.dilations[a], begin, live[a]))
        axes.append(Axis(size, None, 1 + a))
    block = Block(weights, isinstance(filter, Numbers), channels.reshape(g, c), tuple(reads))
    return View(x.type, np.arange(block.rows), tuple(axes), (block,))


Step = Callable[..., Any]
STEPS: dict[str, Step] = {
    "Add": _add,
    "Broadcast": _broadcast,
    "Clamp": _activation,
    "Concat": _concat,
    "Convert": _same_type,
    "Convolution": _convolution,
    "DepthToSpace": _depth_to_space,
    "GroupConvolution": _convolution,
    "HardSigmoid": _activation,
    "Identity": _same_type,
    "Multiply": _multiply,
    "PReLU": _activation,
    "Pad": _pad,
    "ReLU": _activation,
    "Reshape": _reshape,
    "Sigmoid": _activation,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Subtract": _add,
    "Tanh": _activation,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "ZeroInsertion": _insert,
}
