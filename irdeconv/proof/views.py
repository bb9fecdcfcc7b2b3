"""Operations on views of the data (maps.View), and the other values at symbolic sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from irdeconv.proof import model
from irdeconv.proof.definition import LayerDefinition, Relation
from irdeconv.proof.maps import Axis, Reference, View
from irdeconv.proof.sizes import Case, Expr, Size, SizesTooSmall, is_int, ratio


@dataclass(frozen=True)
class Leaf:
    """A value of the source model at the beginning of the regions."""

    port: model.Port
    type: str | None
    shape: tuple[Size, ...]


class Numbers(NamedTuple):
    """Numbers (from 0 on; -1: a zero) of the elements of a leaf, moved about."""

    type: str | None
    array: model.Array

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of the axes."""
        return tuple(self.array.shape)


@dataclass(frozen=True)
class Pieces:
    """The sum of views of moved data; without views it is zeros of an open shape."""

    type: str | None
    shape: tuple[Size, ...]
    views: tuple[View, ...] = ()


def views_of(value: Any) -> tuple[View, ...]:
    """Return the views whose sum is a value, none of zeros and other values."""
    return value.views if isinstance(value, Pieces) else (value,) * isinstance(value, View)


def elements(value: Any) -> model.Array:
    """Return the elements of a constant, or their numbers."""
    if not isinstance(value, model.TypedArray | Numbers):
        raise model.Unproved("weights are neither constants nor an input of the source layer")
    return value.array


def data_view(leaf: Leaf, d: LayerDefinition) -> View:
    """Return the data of a layer, of which every element is known by its place."""
    channels = leaf.shape[d.data_axes[1]]
    model.need(isinstance(channels, int), "the number of channels is open")
    axes = [
        Axis(n, max(d.data_axes.index(a) - 1, 0), bounds=((0, n),))
        for a, n in enumerate(leaf.shape)
    ]
    axes[d.data_axes[1]] = Axis(channels)
    table = np.arange(channels).reshape([a.rows for a in axes])
    return View(leaf.type, table, tuple(axes), (1,) * len(axes))


def defined(
    data: Leaf, d: LayerDefinition, filter: Any, relations: Sequence[Relation]
) -> Reference:
    """Return a layer of `data` by its definition; the filter is [g, M/g, C/g, *K]."""
    g, m = filter.shape[:2]
    sizes = [data.shape[d.data_axes[0]], g * m, *(r.outputs for r in relations)]
    shape = tuple(sizes[d.data_axes.index(a)] for a in range(len(sizes)))
    output = data_view(Leaf(data.port, data.type, shape), d)
    return Reference(
        **{**vars(output), "blocks": ()},
        definition=d,
        data=data.shape,
        weights=filter.array.swapaxes(1, 2),
        numbered=isinstance(filter, Numbers),
        relations=tuple(relations),
    )


def with_axis(view: View, a: int, axis: Axis) -> View:
    """Return a view with another axis in a place."""
    return replace(view, axes=(*view.axes[:a], axis, *view.axes[a + 1 :]))


def rebuilt(view: View, first: int, last: int, axes: Iterable[Axis], runs: model.Ints) -> View:
    """Replace axes `first` to `last` by others, which divide the same rows of the table."""
    axes = (*view.axes[:first], *axes, *view.axes[last:])
    shape = [a.rows for a in axes]
    bias = None if view.bias is None else view.bias.reshape(shape)
    return replace(view, table=view.table.reshape(shape), bias=bias, axes=axes, runs=runs)


def single(view: View, a: int) -> tuple[View, int]:
    """Merge the run of an axis of the tensor into one axis; return its place, too.

    Explicit axes merge with each other, and into an open one in front of them. Open axes of size 1
    stay beside it.
    """
    run, first = view.run(a), sum(view.runs[:a])
    spatial = [axis for axis in run if axis.coordinate is not None]
    ones = [axis for axis in spatial if is_int(axis.length, 1)]
    wide = [axis for axis in spatial if not any(axis is one for one in ones)]
    model.need(len(wide) < 2, "several open axes are one")
    chosen = wide or ones[-1:]
    inner = [axis for axis in run if axis.coordinate is None]
    # Behind an open axis e is a remainder, n*t + e; in front, e*length + q has an open factor.
    if wide:  # what stands in front of it has to be nothing
        front = itertools.takewhile(lambda axis: axis is not wide[0], run)
        nothing = all(n.coordinate is not None or n.length == 1 for n in front)
        model.need(nothing, "an explicit axis stands in front of an open one")
    ones = [axis for axis in ones if axis is not chosen[0]]
    rows = view.rows
    view = view.grouped([*rows[:a], (*ones, *chosen, *inner), *rows[a + 1 :]])
    place, end, size = first + len(ones), first + len(run), math.prod(n.length for n in inner)
    runs = (*view.runs[:a], len(ones) + 1, *view.runs[a + 1 :])
    if not chosen and len(inner) != 1:
        view = rebuilt(view, place, end, [Axis(size)], runs)
    elif chosen and inner:
        axis = chosen[0]
        model.need(axis.step == 1, "elements that were taken with a step are merged")
        bounds = tuple((low * size, high * size) for low, high in axis.bounds)
        radix, length = axis.radix * size, axis.length * size
        merged = Axis(length, axis.coordinate, radix, axis.shift * size, bounds)
        view = rebuilt(view, place, end, [merged], runs)
    return view, place


def plain(view: View) -> View:
    """Return a view in which every axis of the tensor is one axis, in its own place if it is 1."""
    view = view.grouped(_in_own_places(view, list(map(list, view.rows))))
    for a in range(len(view.runs)):
        view, _ = single(view, a)
    return view


def taken(view: View, a: int, at: model.Array, joins: bool = False) -> View:
    """Return the elements at some places of an explicit axis of the tensor; others are zeros.

    With `joins` these become elements of another tensor: they have no bias or activation.
    """
    view, place = single(view, a)
    axis = view.axes[place]
    n = axis.length
    model.need(axis.coordinate is None, "an open axis is rearranged")
    inside = (at >= 0) & (at < n)
    fits = joins or inside.all() or not view.is_finished
    model.need(fits, "zeros join what has a bias or an activation")
    model.need(
        view.table.size // max(n, 1) * at.size <= model.LARGEST_ARRAY, "a table grows too large"
    )
    bias = None if view.bias is None else model.pick(view.bias, place, at, -view.bias_numbered)
    view = replace(view, table=model.pick(view.table, place, at, -1), bias=bias)
    return with_axis(view, place, replace(axis, length=int(at.size)))


def padded(case: Case, view: View, rows: Mapping[int, tuple[Size, Size]]) -> View:
    """Return a view with zeros before and behind some axes; negative numbers cut off."""
    for a, (begin, end) in rows.items():
        if is_int(begin, 0) and is_int(end, 0):
            continue
        view, place = single(view, a)
        axis = view.axes[place]
        length = axis.length + begin + end
        # A Pad that crops more than there is reads foreign memory in OpenVINO.
        parts = (length, axis.length + begin, axis.length + end)
        cuts = f"more than there is may be cut off: {begin} and {end}"
        model.need(all(map(case.implies, parts)), cuts)
        if axis.coordinate is None:
            model.need(type(begin) is type(end) is int, "pads of channels are open")
            model.need(
                max(abs(begin), abs(end)) <= model.LARGEST_ARRAY, f"pads of {begin} and {end}"
            )
            view = taken(view, a, np.arange(-begin, axis.length + end))
            continue
        shrinks = case.implies(-begin) and case.implies(-end)
        model.need(shrinks or not view.is_finished, "zeros join what has a bias or an activation")
        # What is cut off and padded again is zero: the axis must not grow back over data.
        bounds = axis.bounds
        if not shrinks:
            low, high = axis.shift, axis.shift + axis.span
            known = (case.is_zero(m - low) and case.is_zero(n - high) for m, n in bounds)
            bounds += () if any(known) else ((low, high),)
        shift = axis.shift - begin * axis.step
        view = with_axis(view, place, replace(axis, length=length, shift=shift, bounds=bounds))
    return view


def regrouped(case: Case, view: View, target: Sequence[Size]) -> View:
    """Return a view in another shape of as many elements; one size may be -1.

    Every axis of the new tensor is a run of the view's axes. Explicit axes are merged and split as
    need be; an axis of size 1 belongs anywhere.
    """
    text = f"{list(view.shape)} is not followed to {list(target)}"
    model.need(0 < len(target) <= model.HIGHEST_RANK, text)
    view, sizes = _merged(view), list(target)
    unknown = next((i for i, v in enumerate(sizes) if is_int(v, -1)), len(sizes))
    counts, used = [0] * (len(sizes) + 1), [0, 0]  # axes of each run, and from either end

    def ahead(i: int) -> bool:
        """Whether more is left than the sizes behind i: of nothing, anything is a multiple."""
        left = math.prod(a.length for a in view.axes[used[0] : len(view.axes) - used[1]])
        return not case.is_zero(left - math.prod(sizes[i + 1 :]))

    # From both ends towards -1: which axes it gets is known only when all others have theirs.
    for i in (*range(unknown), *reversed(range(unknown + 1, len(sizes)))):
        back, done = i > unknown, 1
        while not case.is_zero(sizes[i] - done) or (is_int(done, 0) and ahead(i)):
            model.need(sum(used) < len(view.axes), text)
            at = len(view.axes) - 1 - used[1] if back else used[0]
            n, f = view.axes[at].length, ratio(sizes[i], done)
            if view.axes[at].coordinate is None and 1 < f < n and n % f == 0:
                halves = [n // f, f] if back else [f, n // f]
                view = rebuilt(view, at, at + 1, map(Axis, halves), ())
                n = f
            done, used[back], counts[i] = done * n, used[back] + 1, counts[i] + 1
    counts[unknown] = len(view.axes) - sum(used)
    ends = itertools.pairwise(itertools.accumulate(counts, initial=0))
    rows = [list(view.axes[a:b]) for a, b in ends]
    rest = rows.pop()  # nothing, if one size was unknown
    if unknown == len(sizes):
        model.need(all(is_int(a.length, 1) for a in rest), text)
        rows[-1] += rest
    elif any(not case.implies(a.length - 1) for i, r in enumerate(rows) if i != unknown for a in r):
        raise SizesTooSmall(f"{text}: -1 stands beside a size that may be 0")
    return view.grouped(_in_own_places(view, rows))


def _merged(view: View) -> View:
    """Merge explicit axes that are neighbours; those of size 1 go, as they belong anywhere."""
    for i in reversed(range(len(view.axes))):
        if view.axes[i].coordinate is not None:
            continue
        if view.axes[i].length == 1:
            view = rebuilt(view, i, i + 1, (), ())
        elif i + 1 < len(view.axes) and view.axes[i + 1].coordinate is None:
            size = view.axes[i].length * view.axes[i + 1].length
            view = rebuilt(view, i, i + 2, [Axis(size)], ())
    return view


def _in_own_places(view: View, rows: list[list[Axis]]) -> list[list[Axis]]:
    """Move axes of size 1 to their places in a tensor of the data, if these are free."""
    spatial = [a for a in view.axes if a.coordinate is not None]
    # Again and again, since one that moves can leave the place of another one.
    for axis in spatial * len(spatial) if len(rows) == len(spatial) + 1 else ():
        own = axis.coordinate and axis.coordinate + 1
        free = own is not None and all(a.coordinate is None for a in rows[own])
        if is_int(axis.length, 1) and free:
            rows = [[a for a in r if a is not axis] for r in rows]
            rows[own or 0].insert(0, axis)
    return rows


def zero_shape(value: Any) -> tuple[Size, ...]:
    """Return the shape of zeros; Unproved for anything else."""
    zero = isinstance(value, Pieces) and not value.views
    zero |= isinstance(value, model.TypedArray) and not value.array.any()
    model.need(zero, "the data is joined with something else")
    return tuple(value.shape)


def filled(case: Case, value: model.TypedArray | Numbers, shape: Sequence[Size]) -> Pieces | View:
    """Return one number for each channel, in the shape of a tensor like the data."""
    plain_sizes = value.array.dtype != object and all(isinstance(n, Expr) or n >= 0 for n in shape)
    model.need(plain_sizes, f"numbers in the shape {list(shape)}")
    numbered, c = isinstance(value, Numbers), value.array
    c = c.reshape((1,) * (len(shape) - c.ndim) + c.shape)
    same = (n == 1 or case.is_zero(n - m) for n, m in zip(c.shape, shape, strict=True))
    model.need(all(same), "numbers of another shape")
    if not numbered and not c.any():
        return Pieces(value.type, tuple(shape))
    fits = len(shape) > 2 and type(shape[1]) is int and c.size == c.shape[1]
    model.need(fits and all(map(case.implies, shape)), "numbers along other axes")
    axes = [Axis(n, max(a - 1, 0), bounds=((0, n),) * (a == 0)) for a, n in enumerate(shape)]
    axes[1] = Axis(shape[1])
    bias = np.broadcast_to(c.reshape(-1), shape[1:2]).reshape([a.rows for a in axes])
    table = np.full(bias.shape, -1)
    return View(value.type, table, tuple(axes), (1,) * len(axes), (), bias, numbered)
