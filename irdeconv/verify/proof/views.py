"""Tensors whose elements are known by where they come from, axis by axis.

A `TensorView` says of every element of a tensor which element of a base tensor it is, or that it
is 0. The base is the data of a layer, or the outputs of convolutions. Each axis is described on its
own, so the cost of every step is the sum over the axes, not their product.

A coordinate of the base is a function of `digits`: a base axis starts with one digit, and an axis
that a Reshape takes apart gives several. An axis of the view lists, for each of its positions, the
values of the digits that it carries, and whether there is an element at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from irdeconv.spec import Array
from irdeconv.verify.proof.attributes import Ints
from irdeconv.verify.proof.definition import Unproved
from irdeconv.verify.proof.places import NOTHING

EVERYWHERE = -1  # the axis of a bias of one value


@dataclass(frozen=True)
class ConvolutionBlock:
    """Output channels that one convolution makes, or zeros (`weights` None).

    `weights` [g, M/g, C/g, *T]; `channels` [g, C/g] are the data's channels they meet;
    `reading[a][q, t]` is the data's position on spatial axis a that output q reads through tap t,
    -1 for a zero.
    """

    node: int
    count: int
    weights: Array | None = None
    channels: Array | None = None
    reading: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Stack:
    """Blocks behind one another along the channels; `bias` has a value for each channel."""

    blocks: tuple[ConvolutionBlock, ...]
    bias: Array | None = None

    @cached_property
    def ends(self) -> Array:
        """The channel behind each block."""
        return np.cumsum([b.count for b in self.blocks])


@dataclass(frozen=True)
class ViewAxis:
    """One axis of a view.

    `digits` are the digits that it carries, `index[d, p]` the value of the d-th of them at position
    p, `valid[p]` whether there is an element (else 0).
    """

    digits: Ints
    index: Array
    valid: Array

    @staticmethod
    def whole(digit: int, size: int) -> ViewAxis:
        """Return an axis that shows a digit as it is; an axis of size 1 needs none."""
        if size == 1:
            return ViewAxis.single()
        return ViewAxis((digit,), np.arange(size)[None], np.ones(size, bool))

    @staticmethod
    def single() -> ViewAxis:
        """Return an axis of size 1 that carries nothing."""
        return ViewAxis((), np.zeros((0, 1), np.int64), np.ones(1, bool))

    @property
    def size(self) -> int:
        """Number of positions."""
        return int(self.valid.size)

    def take(self, places: Array) -> ViewAxis:
        """Return the axis read at `places`; -1 reads a zero."""
        if not self.size:
            blank = np.zeros((len(self.digits), places.size), np.int64)
            return ViewAxis(self.digits, blank, np.zeros(places.size, bool))
        valid = np.where(places >= 0, self.valid[places], False)
        return ViewAxis(self.digits, self.index[:, places], valid)


@dataclass(frozen=True)
class Component:
    """A coordinate of the base: `table[digits...]`, -1 where there is no element."""

    digits: Ints
    table: Array


@dataclass(frozen=True)
class TensorView:
    """A tensor by its axes. `components` are the coordinates of the base.

    `base` are the outputs of convolutions, None the layer's data.
    `bias` are vectors added along one axis each: (axis, values), one value along EVERYWHERE.
    `activation` comes after them.
    """

    base: Stack | None
    components: tuple[Component, ...]
    axes: tuple[ViewAxis, ...]
    bias: tuple[tuple[int, Array], ...] = ()
    activation: tuple[str, tuple[Array, ...]] | None = None

    @staticmethod
    def of(base: Stack | None, shape: Sequence[int]) -> TensorView:
        """Return a tensor that is its own base."""
        return TensorView(
            base,
            tuple(
                Component((a,), np.arange(n)) if n != 1 else Component((), np.array(0))
                for a, n in enumerate(shape)
            ),
            tuple(ViewAxis.whole(a, n) for a, n in enumerate(shape)),
        )

    @property
    def shape(self) -> Ints:
        """The sizes of the axes."""
        return tuple(a.size for a in self.axes)

    @property
    def is_plain(self) -> bool:
        """Whether the tensor is its base, element for element."""
        if self.bias or self.activation or len(self.axes) != len(self.components):
            return False
        pairs = list(zip(self.axes, self.components, strict=True))
        if any(set(a.digits) != set(c.digits) for a, c in pairs):
            return False
        whole = (np.arange(a.size) for a in self.axes)
        return all(np.array_equal(self.coordinate(b, b), p) for b, p in enumerate(whole))

    def moved(
        self, axes: Sequence[ViewAxis], components: Sequence[Component] | None = None
    ) -> TensorView:
        """Return the same base with other axes; Unproved behind a bias or an activation."""
        if self.bias or self.activation:
            raise Unproved("elements are moved after bias or activation")
        kept = self.components if components is None else tuple(components)
        return replace(self, axes=tuple(axes), components=kept)

    def coordinate(self, base_axis: int, axis: int, *, alone: bool = True) -> Array:
        """Return the base coordinate that one view axis decides; -1 for zeros.

        Unproved where other axes have a part in it, or, with `alone`, where this one has a part in
        other coordinates.
        """
        component, seen = self.components[base_axis], self.axes[axis]
        missing, more = set(component.digits) - set(seen.digits), set(seen.digits)
        if missing or (alone and more - set(component.digits)):
            raise Unproved(f"axis {axis} does not run along axis {base_axis} of its source")
        rows = [seen.index[seen.digits.index(d)] for d in component.digits]
        return np.where(seen.valid, component.table[tuple(rows)], NOTHING)


def transpose(view: TensorView, order: Sequence[int]) -> TensorView:
    """Permute the axes; bias vectors follow their axis."""
    places = {a: i for i, a in enumerate(order)} | {EVERYWHERE: EVERYWHERE}
    bias = tuple((places[a], v) for a, v in view.bias)
    return replace(view, axes=tuple(view.axes[i] for i in order), bias=bias)


def read(view: TensorView, places: Sequence[Array]) -> TensorView:
    """Read every axis at the given places; -1 gives zeros."""
    return view.moved([a.take(p) for a, p in zip(view.axes, places, strict=True)])


def unsqueeze(view: TensorView, places: Sequence[int]) -> TensorView:
    """Insert axes of size 1 at the given places of the result."""
    old = iter(view.axes)
    rank = len(view.axes) + len(places)
    return view.moved([ViewAxis.single() if i in places else next(old) for i in range(rank)])


def squeeze(view: TensorView, places: Sequence[int]) -> TensorView:
    """Remove axes of size 1; Unproved where one of them carries a digit."""
    target = [n for i, n in enumerate(view.shape) if i not in places]
    if any(view.shape[p] != 1 for p in places):
        raise Unproved(f"Squeeze of axes {list(places)} of {list(view.shape)}")
    return regroup(view, target)


def regroup(view: TensorView, target: Sequence[int]) -> TensorView:
    """Bring a view into another shape of as many elements.

    Neighbouring axes are merged where the shapes part, then split where they meet again.
    """
    if 0 in target:
        return view.moved([ViewAxis.whole(NOTHING, n).take(np.full(n, NOTHING)) for n in target])
    components = list(view.components)
    made: list[ViewAxis] = []
    i = j = 0
    while i < len(view.axes) or j < len(target):
        first, start = i, j
        have = want = 1
        if i < len(view.axes):
            have, i = view.axes[i].size, i + 1
        if j < len(target):
            want, j = target[j], j + 1
        while have != want:
            if (have < want and i < len(view.axes)) or j == len(target):
                have, i = have * view.axes[i].size, i + 1
            else:
                want, j = want * target[j], j + 1
        group = merge(view.axes[first:i])
        made += split(group, target[start:j], components)
    return view.moved(made, components)


def merge(axes: Sequence[ViewAxis]) -> ViewAxis:
    """Return one axis that runs through several, the last one fastest."""
    out = axes[0] if axes else ViewAxis.single()
    for a in axes[1:]:
        index = np.concatenate(
            [np.repeat(out.index, a.size, axis=1), np.tile(a.index, (1, out.size))]
        )
        valid = np.repeat(out.valid, a.size) & np.tile(a.valid, out.size)
        out = ViewAxis(out.digits + a.digits, index, valid)
    return out


def split(axis: ViewAxis, sizes: Sequence[int], components: list[Component]) -> list[ViewAxis]:
    """Return the axes into which one axis falls apart.

    A digit that more than one of them decides is replaced by one digit for each; `components` is
    updated accordingly.
    """
    long = [i for i, n in enumerate(sizes) if n != 1]
    if len(long) < 2:
        out = [ViewAxis.single() for _ in sizes]
        if long or (sizes and axis.digits):
            out[long[0] if long else 0] = axis
        elif axis.digits:
            raise Unproved("an axis vanishes that decides a coordinate")
        return out
    if not axis.valid.all():
        raise Unproved("an axis with zeros in it is taken apart")
    owners: list[list[tuple[int, Array]]] = [[] for _ in sizes]
    for digit, row in zip(axis.digits, axis.index, strict=True):
        values = row.reshape(tuple(sizes))
        deciding = [i for i in range(len(sizes)) if _varies(values, i)]
        if len(deciding) < 2:
            at = deciding[0] if deciding else long[0]
            owners[at].append((digit, _along(values, at)))
            continue
        fresh = _replace_digit(components, digit, values, deciding)
        for at, new in zip(deciding, fresh, strict=True):
            owners[at].append((new, np.arange(sizes[at])))
    return [_axis(n, rows) for n, rows in zip(sizes, owners, strict=True)]


def _varies(values: Array, axis: int) -> bool:
    first = values[(*(slice(None),) * axis, slice(0, 1))]
    return bool((values != first).any())


def _along(values: Array, axis: int) -> Array:
    """Return the values along one axis where they are the same along all others."""
    if not values.size:
        return np.zeros(values.shape[axis], np.int64)
    return values[tuple(slice(None) if i == axis else 0 for i in range(values.ndim))]


def _axis(size: int, rows: Sequence[tuple[int, Array]]) -> ViewAxis:
    index = np.array([r for _, r in rows], np.int64).reshape(len(rows), size)
    return ViewAxis(tuple(d for d, _ in rows), index, np.ones(size, bool))


def _replace_digit(
    components: list[Component], digit: int, values: Array, deciding: Sequence[int]
) -> Ints:
    """Replace a digit by one for each deciding axis; `values` are the digit's along all axes."""
    owner = next(i for i, c in enumerate(components) if digit in c.digits)
    old = components[owner]
    at = old.digits.index(digit)
    top = max(d for c in components for d in c.digits) + 1
    fresh = tuple(range(top, top + len(deciding)))
    small = values[tuple(slice(None) if i in deciding else 0 for i in range(values.ndim))]
    table = np.take(old.table, small, axis=at)
    components[owner] = Component((*old.digits[:at], *fresh, *old.digits[at + 1 :]), table)
    return fresh
