"""Views of the data (maps.View) and what else values are at symbolic sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.proof import language
from irdeconv.proof.call import HIGHEST_RANK, LARGEST_ARRAY, MOVES, pick, room
from irdeconv.proof.definition import LayerDefinition
from irdeconv.proof.maps import Axis, View
from irdeconv.proof.model import Array, Layer, Port, TypedArray, Unproved, need
from irdeconv.proof.sizes import Case, Size


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


def elements(value: Any) -> Array:
    """Return the elements of a constant, or their numbers."""
    if not isinstance(value, TypedArray | Numbers):
        raise Unproved("weights are neither constants nor an input of the source layer")
    return value.array


def numbers(leaf: Leaf, start: int = 0) -> Numbers:
    """Return the numbers of a leaf's elements, from `start` on: no two leaves may share one."""
    need(all(isinstance(n, int) for n in leaf.shape), "the shape of computed weights is open")
    count = room(leaf.shape, what="computed weights")
    return Numbers(leaf.type, np.arange(start, start + count).reshape(leaf.shape))


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
    ports, index, rest = MOVES[layer.type], [], []
    for port, value in enumerate(inputs):
        if not (port in ports if ports else True):
            need(isinstance(value, TypedArray), f"{layer}: its operand is not known")
            rest.append(value)
        elif isinstance(value, Numbers):
            index.append(value.array)
        else:
            index.append(np.full(zero_shape(value), -1))
    kind = next(v.type for v in inputs if isinstance(v, Numbers))
    return [Numbers(kind, a) for a in language.move(layer, index, rest)]


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
    need(view.table.size // max(n, 1) * places.size <= LARGEST_ARRAY, "a table grows too large")
    bias = None if view.bias is None else pick(view.bias, digit, places, 0)
    axis = replace(view.axes[a], length=int(places.size))
    return with_axis(replace(view, table=pick(view.table, digit, places, -1), bias=bias), a, axis)


def padded(case: Case, view: View, rows: Mapping[int, tuple[Size, Size]]) -> View:
    """Return a view with zeros before and behind some axes; negative numbers cut off."""
    for place, (begin, end) in rows.items():
        axis = view.axes[place]
        if type(begin) is type(end) is int and begin == end == 0:
            continue
        length = axis.length + begin + end
        parts = (length, axis.length + begin, axis.length + end)
        cuts = f"more than there is may be cut off: {begin} and {end}"
        need(all(map(case.implies, parts)), cuts)
        if axis.coordinate is None:
            need(type(begin) is type(end) is int, "pads of channels are open")
            need(max(abs(begin), abs(end)) <= LARGEST_ARRAY, f"pads of {begin} and {end}")
            view = taken(view, place, np.arange(-begin, axis.length + end))
            continue
        shrinks = case.implies(-begin) and case.implies(-end)
        need(shrinks or not view.is_finished, "zeros join what has a bias or an activation")
        new = (axis.shift, axis.shift + axis.length)
        known = any(all(map(case.is_zero, (a - new[0], b - new[1]))) for a, b in axis.bounds)
        bounds = axis.bounds if shrinks or known else (*axis.bounds, new)
        axis = replace(axis, length=length, shift=axis.shift - begin, bounds=bounds)
        view = with_axis(view, place, axis)
    return view


def regrouped(case: Case, view: View, target: Sequence[Size]) -> View:
    """Return a view in another shape of as many elements.

    Every open axis becomes one axis, with the explicit axes right behind it merged into it;
    explicit axes are merged and split among themselves; axes of size 1 come and go.
    """
    groups = _groups(case, view.axes, list(target), 0, 0, set())
    text = f"{list(view.shape)} is not followed to {list(target)}"
    need(groups is not None and len(target) <= HIGHEST_RANK, text)
    for first, end, sizes in reversed(groups or []):
        old = view.axes[first:end]
        if not old or old[0].coordinate is None:
            made = [Axis(n, d) for d, n in enumerate(sizes)]
            view = rebuilt(view, first, end, sizes, made)
        elif len(old) > 1:
            axis, inner = old[0], math.prod(a.length for a in old[1:])
            bounds = tuple((low * inner, high * inner) for low, high in axis.bounds)
            radix, length = axis.radix * inner, axis.length * inner
            merged = Axis(length, 0, axis.coordinate, radix, axis.shift * inner, bounds)
            view = rebuilt(view, first, end, [radix], [merged])
    return view


def _groups(
    case: Case, axes: Sequence[Axis], target: list[Size], i: int, j: int, failed: set[Any]
) -> list[tuple[int, int, list[Size]]] | None:
    """Return which axes from i on become which sizes from j on, None where they do not fit."""
    if i == len(axes) and j == len(target):
        return []
    if (i, j) in failed or len(target) > HIGHEST_RANK:
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


def alike(case: Case, a: Axis, b: Axis) -> bool:
    """Return whether two axes have the same length and places."""
    pairs = [(a.length, b.length), (a.shift, b.shift)]
    for p, q in zip(a.bounds, b.bounds, strict=False):
        pairs += zip(p, q, strict=True)
    same = (a.coordinate, a.radix, len(a.bounds), a.digit is None)
    return same == (b.coordinate, b.radix, len(b.bounds), b.digit is None) and all(
        case.is_zero(p - q) for p, q in pairs
    )


def settled(x: View) -> View:
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


def zero_shape(value: Any) -> tuple[Size, ...]:
    """Return the shape of zeros; Unproved for anything else."""
    zero = isinstance(value, Zeros) or (isinstance(value, TypedArray) and not value.array.any())
    need(zero, "the data is joined with something else")
    return tuple(value.shape if isinstance(value, Zeros) else value.array.shape)


def zero_view(value: Any, pattern: View, at: int) -> View:
    """Return zeros as a view beside which a pattern stands."""
    shape = zero_shape(value)
    need(len(shape) == len(pattern.axes) and type(shape[at]) is int, "zeros of another rank")
    axes = [replace(a, length=n) for a, n in zip(pattern.axes, shape, strict=True)]
    sizes = list(pattern.table.shape)
    sizes[axes[at].digit or 0] = shape[at]
    room(sizes, what="zeros")
    blocks = None if pattern.blocks is None else ()
    return View(pattern.type, np.full(sizes, -1), tuple(axes), blocks)


def clipped(at: Size, n: Size) -> Size:
    """Return a bound of a slice within 0..n; negative ones count from the end."""
    at = at if at >= 0 else at + n
    at = at if at >= 0 else 0
    return at if at <= n else n


def rest_of(case: Case, shape: Sequence[Size], target: Sequence[Size]) -> Size:
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


def unsqueezed(x: View, places: Sequence[int]) -> View:
    """Return a view with axes of size 1 at places of the result."""
    for a in sorted(places):
        x = rebuilt(x, a, a, [1], [Axis(1, 0)])
    return x


def spread(layer: Layer, x: View, c: Array) -> Array:
    """Return a constant that is broadcast along the axes of a view, shaped like its table."""
    shape = (1,) * (len(x.axes) - c.ndim) + c.shape
    need(len(shape) == len(x.axes), f"{layer} raises the rank")
    rows = zip(x.axes, shape, strict=True)
    fits = (n == 1 or (a.coordinate is None and n == a.length) for a, n in rows)
    need(all(fits), f"{layer} varies along an open axis")
    places = range(len(shape))
    order = sorted(places, key=lambda i: -1 if (d := x.axes[i].digit) is None else d)
    turned = c.reshape(shape).transpose(order)
    # Axes without a digit come first, and have the size 1.
    return np.broadcast_to(turned.reshape(turned.shape[len(shape) - x.table.ndim :]), x.table.shape)
