"""Compare what a lowered layer was found to compute with the definition of the source layer.

The definition: along an axis, output o is reached by the pairs (s, k) of input and tap with
s*S + k*D = o + begin. The lowered layer: by pairs (s, t) of input and emitted tap. Both are equal
where every emitted tap stands for one tap k throughout, no pair is missing, and every emitted
weight is the filter's element at those taps, or zero where there is none. Several emitted taps may
stand for one k; then they must always be read together, and their sum is the filter's element. A
tap of zeros alone need not be read. Taps are matched axis by axis; only the weights are compared as
whole arrays, once each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from irdeconv.spec import Array
from irdeconv.verify.proof.attributes import Ints
from irdeconv.verify.proof.definition import Definition, Unproved
from irdeconv.verify.proof.sums import compare_sums
from irdeconv.verify.proof.views import EVERYWHERE, ConvolutionBlock, Stack, TensorView

NO_TAP = -1
UNUSED = -2


@dataclass(frozen=True)
class Expected:
    """A source layer at exact sizes.

    `shape` is the data's; `filter` is [g, C/g, M/g, *K]: elements, or their numbers from 1 on;
    `windows` has (begin, O) per spatial axis; `bias` its elements or numbers, None without one.
    `numbered` says that the filter is not known but by numbers.
    """

    definition: Definition
    shape: Ints
    filter: Array
    windows: tuple[tuple[int, int], ...]
    bias: Array | None = None
    numbered: bool = False

    @property
    def output(self) -> Ints:
        """The output's shape in the data's layout."""
        order = self.definition.data_axes
        sizes = [self.shape[0], self.filter.shape[0] * self.filter.shape[2]]
        sizes += [o for _, o in self.windows]
        return tuple(sizes[order.index(a)] for a in range(len(order)))

    @cached_property
    def silent(self) -> tuple[Array, ...]:
        """Which taps of each axis have nothing but zeros: they need not be read."""
        rank = self.filter.ndim
        others = (tuple(a for a in range(rank) if a != taps) for taps in range(3, rank))
        return tuple(~(self.filter != 0).any(axes) for axes in others)

    def pairs(self, axis: int, at: Array) -> Array:
        """Return for outputs `at` and every tap the input that meets it there, -1 for none."""
        d, kernel = self.definition, self.filter.shape[3 + axis]
        reach = at[:, None] + self.windows[axis][0] - np.arange(kernel) * d.dilations[axis]
        s = reach // d.strides[axis]
        inside = (s >= 0) & (s < self.shape[d.data_axes[2 + axis]])
        return np.where((reach % d.strides[axis] == 0) & inside, s, -1)


@dataclass(frozen=True)
class OutputClass:
    """Outputs of one axis that take the same block: their places, reading positions and digits."""

    digits: dict[int, int]
    outputs: Array
    places: Array


@dataclass(frozen=True)
class TapMatch:
    """What the emitted taps of one axis stand for in one class: k, NO_TAP or UNUSED.

    `empty` says that no output of the class has a tap at all.
    """

    stands_for: Array
    empty: bool

    @property
    def repeats(self) -> bool:
        """Whether several emitted taps stand for the same one."""
        real = self.stands_for[self.stands_for >= 0]
        return np.unique(real).size != real.size

    def groups(self) -> list[list[int]]:
        """Return the used emitted taps, those that stand for the same one together."""
        found: dict[int, list[int]] = {}
        for t, k in enumerate(self.stands_for.tolist()):
            if k != UNUSED:
                found.setdefault(k if k >= 0 else -3 - t, []).append(t)
        return list(found.values())


@dataclass
class Comparer:
    """Compares what a view shows of the convolutions in `stack`.

    `done` remembers comparisons of weights, which do not depend on sizes.
    """

    expected: Expected
    view: TensorView
    stack: Stack
    done: set[tuple[object, ...]] = field(default_factory=set)
    rounded: bool = False

    def compare(self) -> None:
        """Raise Unproved with the first difference."""
        expected, view = self.expected, self.view
        if view.shape != expected.output:
            raise Unproved(f"the output is {list(view.shape)}, not {list(expected.output)}")
        order = expected.definition.data_axes
        self._compare_bias(order[1])
        self._compare_activation()
        if 0 in expected.output:
            return
        if not np.array_equal(view.coordinate(0, order[0]), np.arange(expected.shape[0])):
            raise Unproved("the batch is not kept as it is")
        if not view.axes[order[1]].valid.all():
            raise Unproved("output channels are padded")
        axes = range(expected.definition.axes)
        classes = [list(self._classes(a)) for a in axes]
        taps: dict[tuple[int, int, int], TapMatch] = {}
        for combination in itertools.product(*(range(len(c)) for c in classes)):
            chosen = [classes[a][i] for a, i in enumerate(combination)]
            for block, rows, local in self._rows(chosen):
                matches = []
                for a, i in enumerate(combination):
                    key = (id(block), a, i)
                    if key not in taps:
                        taps[key] = self._taps(a, block, chosen[a])
                    matches.append(taps[key])
                self._compare_block(block, rows, local, matches)

    def _compare_bias(self, axis: int) -> None:
        added, wanted = self.view.bias, self.expected.bias
        if self.stack.bias is not None and not added and wanted is not None:
            if 0 not in self.view.shape and not all(a.valid.all() for a in self.view.axes):
                raise Unproved("zeros are put beside what has got a bias")
            return  # _rows compares it channel by channel
        if wanted is None and not added and self.stack.bias is None:
            return
        if wanted is None or not added:
            raise Unproved("there is a bias too many" if added else "the bias is missing")
        at, values = added[0]
        if len(added) > 1 or at not in (axis, EVERYWHERE) or not same(values, wanted).all():
            raise Unproved("the bias is another one")

    def _compare_activation(self) -> None:
        wanted, applied = self.expected.definition.activation, self.view.activation
        kind, kind_applied = (a[0] if a else None for a in (wanted, applied))
        if kind != kind_applied:
            raise Unproved(f"the activation is {kind_applied}, not {kind}")
        if wanted is None or applied is None:
            return
        parameters = applied[1]
        equal = len(parameters) == len(wanted[1]) and all(
            p == np.asarray(v).astype(p.dtype) for p, v in zip(parameters, wanted[1], strict=True)
        )
        if not equal:
            raise Unproved(f"the parameters of {kind} are {[float(p) for p in parameters]}")

    def _classes(self, axis: int) -> Iterator[OutputClass]:
        """Yield the outputs of an axis by the digits of the channels that they carry."""
        at = self.expected.definition.data_axes[2 + axis]
        seen = self.view.axes[at]
        outside = np.flatnonzero(~seen.valid)
        missed = (self.expected.pairs(axis, outside) >= 0) & ~self.expected.silent[axis]
        if missed.any():
            o = outside[int(np.flatnonzero(missed.any(1))[0])]
            raise Unproved(f"axis {axis}: output {o} is padded with zero, but taps reach it")
        places = self.view.coordinate(2 + axis, at, alone=False)
        spatial = self.view.components[2 + axis].digits
        others = [i for i, d in enumerate(seen.digits) if d not in spatial]
        if any(seen.digits[i] not in self.view.components[1].digits for i in others):
            raise Unproved(f"axis {axis} of the output mixes with another axis")
        outputs = np.flatnonzero(seen.valid)
        keys = seen.index[others][:, outputs]
        if self._repeats(axis):
            # Which taps read the same element depends on where the output stands in its period.
            stride = self.expected.definition.strides[axis]
            keys = np.concatenate([keys, outputs[None] % stride])
        for key in np.unique(keys, axis=1).T:
            chosen = outputs[(keys == key[:, None]).all(0)]
            digits = {seen.digits[i]: int(v) for i, v in zip(others, key, strict=False)}
            yield OutputClass(digits, chosen, places[chosen])

    def _repeats(self, axis: int) -> bool:
        """Whether an element is read through several taps, or several times, on an axis."""
        for block in self.stack.blocks:
            for along in range(2) if block.weights is not None else ():
                s = np.sort(block.reading[axis], along).swapaxes(0, along)
                if ((s[1:] == s[:-1]) & (s[1:] >= 0)).any():
                    return True
        return False

    def _rows(self, classes: list[OutputClass]) -> Iterator[tuple[ConvolutionBlock, Array, Array]]:
        """Yield blocks, the output channels that they make for these classes, the own channels."""
        component = self.view.components[1]
        seen = self.view.axes[self.expected.definition.data_axes[1]]
        digits: dict[int, Array | int] = dict(zip(seen.digits, seen.index, strict=True))
        for c in classes:
            digits |= c.digits
        if any(d not in digits for d in component.digits):
            raise Unproved("a part of the channels is on no axis of the output")
        index = tuple(digits[d] for d in component.digits)
        channels = np.broadcast_to(component.table[index], seen.size)
        inner, bias = self.stack.bias, self.expected.bias
        if inner is not None and bias is not None and not same(inner[channels], bias).all():
            raise Unproved("the bias is another one")
        ends = self.stack.ends
        owner = np.searchsorted(ends, channels, "right")
        for i in np.unique(owner):
            block, rows = self.stack.blocks[i], np.flatnonzero(owner == i)
            yield block, rows, channels[rows] - (ends[i] - block.count)

    def _taps(self, axis: int, block: ConvolutionBlock, outputs: OutputClass) -> TapMatch:
        """Find the tap that every emitted tap of an axis stands for; Unproved where none does."""
        wanted = self.expected.pairs(axis, outputs.outputs) >= 0
        silent = self.expected.silent[axis]
        if block.weights is None:
            return TapMatch(np.zeros(0, np.int64), not (wanted & ~silent).any())
        d, kernel = self.expected.definition, self.expected.filter.shape[3 + axis]
        s = block.reading[axis][outputs.places]
        rest = outputs.outputs[:, None] + self.expected.windows[axis][0] - s * d.strides[axis]
        k = rest // d.dilations[axis]
        meets = (rest % d.dilations[axis] == 0) & (k >= 0) & (k < kernel)
        k = np.where(meets, k, NO_TAP)
        read = s >= 0
        least = np.where(read, k, kernel).min(0, initial=kernel)
        most = np.where(read, k, NO_TAP).max(0, initial=NO_TAP)
        used = read.any(0)
        for t in np.flatnonzero(used & (least != most)):
            where = np.flatnonzero(read[:, t])
            o, other = outputs.outputs[where[0]], outputs.outputs[where[-1]]
            raise Unproved(
                f"axis {axis}: emitted tap {t} is tap {least[t]} at some and tap {most[t]} at "
                f"other outputs between {o} and {other} (-1: none)"
            )
        stands_for = np.where(used, most, UNUSED)
        wanted &= ~silent | np.isin(np.arange(kernel), stands_for)
        empty = not wanted.any()
        self._complete(axis, empty, stands_for, wanted, read & meets, outputs)
        return TapMatch(stands_for, empty)

    def _complete(
        self, axis: int, empty: bool, taps: Array, wanted: Array, read: Array, outputs: OutputClass
    ) -> None:
        """Raise Unproved where a pair of the definition is not read, or read twice."""
        real = taps[taps >= 0]
        if np.unique(real).size != real.size:
            if self.expected.numbered:
                raise Unproved(f"axis {axis}: taps {real.tolist()} of the filter are read twice")
            for t in np.flatnonzero(taps >= 0):
                if (read[:, t] != wanted[:, taps[t]]).any():
                    raise Unproved(f"axis {axis}: not all parts of tap {taps[t]} are always read")
            if np.delete(wanted, real, 1).any():
                raise Unproved(f"axis {axis}: a tap is missing")
            return
        count, needed = read.sum(1), wanted.sum(1)
        if not empty and (count != needed).any():
            at = int(np.flatnonzero(count != needed)[0])
            raise Unproved(
                f"axis {axis}: output {outputs.outputs[at]} is reached by {needed[at]} taps, "
                f"but reads {count[at]}"
            )

    def _compare_block(
        self, block: ConvolutionBlock, rows: Array, local: Array, taps: list[TapMatch]
    ) -> None:
        """Compare the weights of some output channels with the filter's elements."""
        nothing = any(t.empty for t in taps)
        if block.weights is None or block.channels is None:
            _, _, outputs, *_ = self.expected.filter.shape
            filters = self.expected.filter[rows // outputs, :, rows % outputs]
            if not nothing and (filters != 0).any():
                raise Unproved(f"output channel {rows[0]} is zero where taps reach it")
            return
        met = (t.stands_for.tobytes() for t in taps)
        key = (block.node, nothing, rows.tobytes(), local.tobytes(), *met)
        if key in self.done:
            return
        outputs = block.weights.shape[1]
        emitted = block.weights[local // outputs, local % outputs]
        channels = block.channels[local // outputs]
        if any(t.repeats for t in taps):
            differs = self._sums_differ(emitted, rows, channels, taps, nothing)
        else:
            wanted = self._elements(rows, channels, taps)
            differs = ~same(emitted, np.zeros_like(wanted) if nothing else wanted)
            for a, t in enumerate(taps):
                free = (t.stands_for == UNUSED).reshape(-1, *(1,) * (len(taps) - 1 - a))
                differs &= ~free
        if differs.any():
            m, c, *where = (int(v) for v in np.argwhere(differs)[0])
            raise Unproved(
                f"the weight of output channel {rows[m]}, input {c} of its group, tap {where} is "
                f"not the filter's"
            )
        self.done.add(key)

    def _sums_differ(
        self, emitted: Array, rows: Array, channels: Array, taps: list[TapMatch], nothing: bool
    ) -> Array:
        """Return where emitted taps that read the same element do not add up to the filter's."""
        groups = [t.groups() for t in taps]
        first = [
            TapMatch(t.stands_for[[g[0] for g in row]], t.empty)
            for t, row in zip(taps, groups, strict=True)
        ]
        wanted = self._elements(rows, channels, first)
        differs = np.zeros(wanted.shape, bool)
        every = (slice(None), slice(None))  # channels
        for at in itertools.product(*(range(len(row)) for row in groups)):
            members = itertools.product(*(row[i] for row, i in zip(groups, at, strict=True)))
            parts = [emitted[every + m] for m in members]
            where = every + at
            good, rounded = compare_sums(parts, wanted[where] * (not nothing))
            differs[where] = ~good
            self.rounded |= rounded
        return differs

    def _elements(self, rows: Array, channels: Array, taps: list[TapMatch]) -> Array:
        """Return the filter's elements for output channels, data channels and taps."""
        g, inner, outputs, *kernel = self.expected.filter.shape
        local = channels - (rows // outputs)[:, None] * inner
        inside = (local >= 0) & (local < inner) & (channels >= 0)
        met = np.sort(np.where(inside, local, inner), axis=1)[:, :inner]
        if not np.array_equal(met, np.broadcast_to(np.arange(inner), (rows.size, inner))):
            raise Unproved("an output channel does not meet each input of its group once")
        padded = np.zeros(
            (g, inner + 1, outputs, *(k + 1 for k in kernel)), self.expected.filter.dtype
        )
        padded[(slice(None), slice(inner), slice(None), *map(slice, kernel))] = self.expected.filter
        n = len(taps)
        lead = (slice(None), slice(None), *(None,) * n)
        index = [(rows // outputs)[:, None][lead], np.where(inside, local, inner)[lead]]
        index.append((rows % outputs)[:, None][lead])
        for a, t in enumerate(taps):
            k = np.where(t.stands_for >= 0, t.stands_for, kernel[a])
            index.append(k.reshape(1, 1, *(1,) * a, -1, *(1,) * (n - 1 - a)))
        return np.asarray(padded[tuple(index)])


def same(a: Array, b: Array) -> Array:
    """Return where elements are equal; a NaN equals a NaN."""
    return np.asarray((a == b) | ((a != a) & (b != b)))
