"""Sums of products with data elements, and whether two of them are equal at every output.

Everything has a number: elements of constants, of what is read from outside (data, or symbols such
as a computed filter), outputs of convolutions. A value is a sum of terms; each tells for every
element which number it is a multiple of. Two values are equal where for each output and each place
of the data the weights of all taps that read there add up to the same, channel by channel. Outputs
whose taps coincide in the same way are one class, so few equations between weights are left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from irdeconv.proof.call import LARGEST_ARRAY
from irdeconv.proof.model import Array, Ints, TypedArray, Unproved
from irdeconv.proof.weights import Part, compare, product

MOST_TAPS = 2**22
FAR = 2**62
NONE, ONE = -1, -2  # places: nothing is read; a constant 1 is read


Tap = tuple[int, int, int]  # place in the list of terms, base, tap
Group = tuple[Tap, ...]


class Term(NamedTuple):
    """The number of each element (NONE: it is 0), and its factor in float64 (None: 1)."""

    number: Array
    factor: Array | None = None


class Linear(NamedTuple):
    """A sum of terms of one shape; `last` are activations behind it, with their parameters."""

    type: str | None
    terms: tuple[Term, ...]
    last: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def shape(self) -> Ints:
        """The shape of the value."""
        return tuple(self.terms[0].number.shape)

    def each(self, move: Callable[[Array], Array]) -> Linear:
        """Return the value after a movement of its elements."""
        moved = [
            Term(move(n), None if factor is None else move(factor)) for n, factor in self.terms
        ]
        return self._replace(terms=tuple(moved))


class Block(NamedTuple):
    """Sums over k and T of data [N, g, k, *S] times filter [g, m, k, *T]: [N, g, m, *O].

    `reads[a][o, t]` is the position on spatial axis a that output o reads through tap t, or NONE.
    """

    data: Linear
    filter: Linear
    reads: tuple[Array, ...]


@dataclass
class Base:
    """Numbers from `start` on: of a constant's `values`, of a block's outputs, data, or symbols.

    They are an array [A, rows, inner]; a place is in [A, inner].
    """

    start: int
    shape: Ints
    values: Array | None = None
    stored: Any = None
    block: Block | None = None
    is_data: bool = False
    rows: int = 1
    inner: int = 1

    def split(self, numbers: Array) -> tuple[Array, Array]:
        """Return rows and places."""
        rest, last = np.divmod(numbers - self.start, self.inner)
        return rest % self.rows, rest // self.rows * self.inner + last


class Rows(NamedTuple):
    """Element (row, place) is the sum of weights[row, c, t] * data[c, reads[place, t]].

    Where `symbols[row, c, t]` is not 0, that symbol is a factor, too. `stored` is the type to which
    weights may have been rounded.
    """

    reads: Array
    weights: Array
    symbols: Array
    stored: Any = None


class Column(NamedTuple):
    """Base, row and place of what each output is a multiple of; the factor is factor[scale]."""

    owner: Array
    row: Array
    place: Array
    scale: Array
    factor: Array


def room(shape: Iterable[int], most: int = LARGEST_ARRAY) -> int:
    """Return the number of elements; Unproved where there are too many."""
    size = math.prod(shape)
    if not 0 <= size <= most:
        raise Unproved(f"{size} elements are more than the proof by elements takes on")
    return size


@dataclass
class Bases:
    """All numbers of a proof."""

    all: list[Base] = field(default_factory=list)
    equations: int = 0
    tables: dict[int, Rows] = field(default_factory=dict)

    def add(self, shape: Ints, **what: Any) -> Array:
        """Return new numbers."""
        start = self.all[-1].start + math.prod(self.all[-1].shape) if self.all else 0
        numbers = np.arange(start, start + room(shape)).reshape(shape)
        self.all.append(Base(start, shape, **what))
        return numbers

    def constant(self, given: TypedArray, stored: Any) -> Linear:
        """Return the numbers of a constant; a zero has none."""
        values = np.asarray(given.array)
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise Unproved("a constant has elements that are no finite numbers")
        flat = values.reshape(-1).astype(np.float64)
        if values.dtype.kind in "iu" and (np.abs(flat) >= 2.0**53).any():
            raise Unproved("a constant has integers of more than 53 bits")
        numbers = self.add(values.shape, values=flat, stored=stored, rows=max(flat.size, 1))
        return Linear(given.type, (Term(np.where(values == 0, NONE, numbers)),))

    def owners(self, index: Array) -> Array:
        """Return which base each number is of; -1 for NONE."""
        return np.searchsorted([b.start for b in self.all], index, "right") - 1

    def of(self, value: Linear) -> list[Base]:
        """Return the bases of a value."""
        found = {int(b) for t in value.terms for b in np.unique(self.owners(t.number))}
        return [self.all[b] for b in sorted(found) if b >= 0]

    def atoms(self, term: Term) -> tuple[Array, Array, Array, Array]:
        """Return place, channel, factor and symbol of each element of a term without blocks."""
        shape, owners = term.number.shape, self.owners(term.number)
        place, channel, symbol = np.full(shape, NONE), np.zeros(shape, int), np.zeros(shape, int)
        factor = np.ones(shape)
        for b in np.unique(owners[owners >= 0]):
            base, here = self.all[b], owners == b
            rows, places = base.split(term.number[here])
            if base.block is not None:
                raise Unproved("a convolution of a convolution is not followed")
            place[here] = places + base.start if base.is_data else ONE
            if base.is_data:
                channel[here] = rows
            elif base.values is None:
                symbol[here] = rows + base.start + 1
            else:
                factor[here] = base.values[rows]
        return place, channel, product(factor, term.factor), symbol

    def rows(self, number: int) -> Rows:
        """Return the elements of a base as sums of products."""
        if number not in self.tables:
            base = self.all[number]
            self.tables[number] = self._expanded(base.block) if base.block else self._plain(base)
        return self.tables[number]

    def _plain(self, base: Base) -> Rows:
        n = base.rows
        own, none = np.arange(n).reshape(n, 1, 1), np.zeros((n, 1, 1), int)
        if base.is_data:
            places = np.arange(math.prod(base.shape) // n) + base.start
            room((n, n))
            return Rows(places[:, None], np.eye(n)[:, :, None], np.zeros((n, n, 1), int))
        reads = np.full((1, 1), ONE)
        if base.values is None:
            return Rows(reads, np.ones((n, 1, 1)), own + base.start + 1)
        return Rows(reads, base.values.reshape(n, 1, 1), none, base.stored)

    def _expanded(self, block: Block) -> Rows:
        n, g, k, *space = block.data.shape
        m, at = block.filter.shape[1], _window(block.reads, space)
        channels = self.channels()
        reads, weights, symbols, plain = [np.zeros((n * len(at), 0), int)], [], [], True
        for x in block.data.terms:
            slots, channel, scale, seen = self._channels(x, n, g, k)
            kept = np.flatnonzero(slots >= 0)
            room((n * len(at), len(seen) * at.shape[1] * len(block.filter.terms)))
            room((g * m, channels, len(seen) * at.shape[1] * len(block.filter.terms)))
            for w in block.filter.terms:
                place, _, factor, symbol = (a.reshape(g, m, k, -1) for a in self.atoms(w))
                if (place >= 0).any():
                    raise Unproved("data is multiplied by data")
                made = np.zeros((2, g, m, channels, len(seen), at.shape[1]))
                target = (kept // k, slice(None), channel[kept], slots[kept])
                taken = (kept // k, slice(None), kept % k)
                factor = np.where(place == NONE, 0, factor)[taken]
                made[0][target] = product(factor, scale[kept][:, None, None])
                made[1][target] = symbol[taken]
                weights.append(made[0].reshape(g * m, channels, -1))
                symbols.append(made[1].reshape(g * m, channels, -1).astype(int))
                reads += [np.pad(p, ((0, 0), (0, 1)), constant_values=NONE)[:, at] for p in seen]
                plain &= w.factor is None and bool((scale[kept] == 1).all())
        stored = {b.stored for b in self.of(block.filter)} if plain else set()
        joined = [r.reshape(n * len(at), r.shape[-1]) for r in reads]
        return Rows(
            np.concatenate(joined, 1),
            np.concatenate(weights, 2),
            np.concatenate(symbols, 2),
            stored.pop() if len(stored) == 1 else None,
        )

    def _channels(
        self, x: Term, n: int, g: int, k: int
    ) -> tuple[Array, Array, Array, Sequence[Array]]:
        """Return for each input channel which of the listed places it reads, channel and factor.

        Channels of one group that read the same elements get different slots; -1 reads nothing.
        """
        place, channel, factor, symbol = (
            np.moveaxis(a.reshape(n, g * k, -1), 1, 0) for a in self.atoms(x)
        )
        slots, chosen, scale = np.full(g * k, -1), np.zeros(g * k, int), np.ones(g * k)
        alike: dict[bytes, int] = {}
        copies: Counter[tuple[int, int, int]] = Counter()
        seen: dict[tuple[int, int], tuple[int, Array]] = {}
        for i in range(g * k):
            read = place[i] != NONE
            if not read.any():
                continue
            chosen[i], scale[i] = channel[i][read][0], factor[i][read][0]
            uniform = (channel[i][read] == chosen[i]) & (factor[i][read] == scale[i])
            if symbol[i].any() or not uniform.all():
                raise Unproved("an input channel of a convolution is not one channel of the data")
            same = alike.setdefault(place[i].tobytes(), len(alike))
            owner = (same, i // k, int(chosen[i]))
            slots[i], _ = seen.setdefault((same, copies[owner]), (len(seen), place[i]))
            copies[owner] += 1
        return slots, chosen, scale, [p for _, p in seen.values()]

    def equal(self, low: Linear, source: Linear, axis: int | None) -> float:
        """Return the largest rounding of weights; Unproved where the values are not equal.

        `axis` is that of the data's channels; None: each element is a channel of its own.
        """
        for base in self.all:
            if base.is_data and axis is not None and axis < len(base.shape):
                base.rows, base.inner = max(base.shape[axis], 1), math.prod(base.shape[axis + 1 :])
            elif base.is_data:
                base.rows, base.inner = 1, math.prod(base.shape)
        self.tables.clear()
        columns = [self._column(t) for t in (*low.terms, *source.terms)]
        first, inverse = distinct([a for c in columns for a in (c.owner, c.place)])
        patterns, kinds = self._patterns([(c.owner[first], c.place[first]) for c in columns])
        kinds = kinds[inverse]
        outputs, _ = distinct([kinds, *(a for c in columns for a in (c.row, c.scale))])
        equations: dict[Group, list[Array]] = {}
        for number, groups in enumerate(patterns):
            chosen = outputs[kinds[outputs] == number]
            for group in groups:
                equations.setdefault(group, []).append(chosen)
        self.equations = len(equations)
        solved = (
            self._solved(group, np.concatenate(found), columns, len(low.terms))
            for group, found in equations.items()
        )
        return max(solved, default=0.0)

    def _column(self, term: Term) -> Column:
        number = term.number.reshape(-1)
        owner, row, place = self.owners(number), np.zeros_like(number), np.zeros_like(number)
        for b in np.unique(owner[owner >= 0]):
            here = owner == b
            row[here], place[here] = self.all[b].split(number[here])
        factor = np.ones(1) if term.factor is None else term.factor.reshape(-1)
        factor, scale = np.unique(factor, return_inverse=True)
        return Column(owner, row, place, np.broadcast_to(scale.reshape(-1), row.shape), factor)

    def _solved(self, group: Group, outputs: Array, columns: Sequence[Column], count: int) -> float:
        """Compare the weights of a group's taps; the first `count` columns are the lowered side."""
        used = [columns[j] for j in sorted({j for j, _, _ in group})]
        outputs = outputs[distinct([a[outputs] for c in used for a in (c.row, c.scale)])[0]]
        channels, worst = self.channels(), 0.0
        size = max(MOST_TAPS // (channels * len(group)), 1)
        for piece in np.array_split(outputs, -(-outputs.size // size)):
            sides: tuple[list[Part], list[Part]] = ([], [])
            for j, b, t in group:
                table, row = self.rows(b), columns[j].row[piece]
                both = (a[row, :, t] for a in (table.weights, table.symbols))
                wide = [np.pad(a, ((0, 0), (0, channels - a.shape[1]))) for a in both]
                factor = columns[j].factor[columns[j].scale[piece]]
                sides[j >= count].append(Part(wide[0], factor[:, None], wide[1], table.stored))
            worst = max(worst, compare(*sides))
        return worst

    def channels(self) -> int:
        """Return how many channels the data has."""
        return max([b.rows for b in self.all if b.is_data], default=1)

    def _patterns(self, located: Sequence[tuple[Array, Array]]) -> tuple[list[list[Group]], Array]:
        """Return the taps that read one place together, for each way in which taps do so.

        `located` are the bases and places of terms; the second result says which way each has.
        """
        kinds = np.zeros(located[0][0].size, int)
        patterns: list[list[Group]] = []
        numbers: dict[tuple[int, bytes], int] = {}
        lead, inverse = distinct([owners for owners, _ in located])
        for i, at in enumerate(lead):
            members = np.flatnonzero(inverse == i)
            used = [(j, int(o[at])) for j, (o, _) in enumerate(located) if o[at] >= 0]
            taps = [(j, b, t) for j, b in used for t in range(self.rows(b).reads.shape[1])]
            pieces = -(-members.size * len(taps) // MOST_TAPS) or 1
            for piece in np.array_split(members, pieces):
                read = np.zeros((piece.size, 0), int)
                for j, b in used:
                    read = np.append(read, self.rows(b).reads[located[j][1][piece]], 1)
                # Where taps coincide does not change when all places are shifted.
                shift = np.where(read >= 0, read, FAR).min(1, keepdims=True, initial=FAR)
                for m, row in zip(piece, np.where(read >= 0, read - shift, read), strict=True):
                    key = (i, row.tobytes())
                    if key not in numbers:
                        numbers[key] = room((len(patterns),), MOST_TAPS // max(len(taps), 1))
                        patterns.append(_together(taps, row))
                    kinds[m] = numbers[key]
        return patterns, kinds


def _together(taps: Sequence[Tap], places: Array) -> list[Group]:
    """Return the taps that read the same place."""
    found: dict[int, list[Tap]] = {}
    for tap, place in zip(taps, places.tolist(), strict=True):
        found.setdefault(place, []).append(tap)
    found.pop(NONE, None)
    return [tuple(group) for group in found.values()]


def _window(reads: Sequence[Array], space: Sequence[int]) -> Array:
    """Return the positions, as numbers in the whole space, that outputs read through taps."""
    at = np.zeros((1, 1), int)
    for table, size in zip(reads, space, strict=True):
        shape = (len(at) * len(table), at.shape[1] * table.shape[1])
        room(shape)
        a, b = at[:, None, :, None], table[None, :, None, :]
        at = np.where((a < 0) | (b < 0), NONE, a * size + b).reshape(shape)
    return at


def distinct(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Return where each distinct row of some columns stands first, and which one each row is."""
    key = np.zeros(columns[0].shape, int)
    for c in columns:
        low, width = int(c.min()), int(c.max()) - int(c.min()) + 1
        if (int(key.max()) + 1) * width >= 2**63:
            key = np.unique(key, return_inverse=True)[1].reshape(-1)
        key = key * width + (c - low)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
