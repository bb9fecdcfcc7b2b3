"""Sums of products with data elements, and whether two of them are equal at every output.

Everything has a number: elements of constants, of inputs (data, or symbols such as a computed
filter), outputs of convolutions. A value is a sum of terms; each lists for every element the number
that it is a multiple of. docs/proof.md, section 5, has the equations between them. Only weights may
be rounded, never a number that decides a size or an index.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from irdeconv.proof.definition import Activation
from irdeconv.proof.model import (
    ALL,
    FLOATS,
    MOVES,
    Array,
    Ints,
    Model,
    TypedArray,
    Unproved,
    need,
    normal,
    room,
    spend,
)

FRACTION = 512  # units of work
MOST_SUMS = 2**20
MOST_ROUNDED = 2.0**-10  # relative change of a weight that counts as rounding


class Part(NamedTuple):
    """Weights times a factor, both in float64, times symbols (0: none).

    `stored` is the type to which the weights were rounded, None if that is not known.
    """

    weights: Array
    factor: Array
    symbols: Array
    stored: Any


def product(a: Array, b: Array | None) -> Array:
    """Return a * b if that is exact in float64; None means 1."""
    if b is not None and not _fits(a, b).all():
        raise Unproved("a product of factors is not exact in float64, or beyond the range of f32")
    return a if b is None else a * b


def _fits(a: Array, b: Array) -> Array:
    """Return a mask of products that are surely exact, and of f32: of float32, or with 0, 1, -1."""
    with np.errstate(all="ignore"):
        short = (a.astype(np.float32) == a) & (b.astype(np.float32) == b)
        short &= normal(a * b)
    return np.asarray(short | np.isin(a, (-1, 0, 1)) | np.isin(b, (-1, 0, 1)))


def compare(low: Sequence[Part], source: Sequence[Part], what: str) -> float:
    """Return the largest relative difference of two sums; Unproved unless they are equal.

    They may differ if one of them is a single weight, to which the other one is rounded.
    """
    kinds, worst = [p.symbols for p in (*low, *source)], 0.0
    for kind in kinds if any(k.any() for k in kinds) else [np.array(0)]:
        none = [np.zeros(kinds[0].shape)]
        sides = [[_of_kind(p, kind) for p in side] or none for side in (low, source)]
        other = _total([*sides[0], *(-b for b in sides[1])]) != 0
        if not other.any():
            continue
        a, b = ([p[other] for p in side] for side in sides)
        both, gap = [_total(side) for side in (a, b)], abs(_total([*a, *(-v for v in b)]))
        near = (_rounded(a, b, low) | _rounded(b, a, source)) & (both[1] != 0)  # none is near 0
        for i in np.flatnonzero(~near)[:1]:
            text = f"add up to {both[0][i]:.9g}, in the source to {both[1][i]:.9g}"
            raise Unproved(f"{what} {text}")
        worst = max(worst, float(np.max(gap / abs(both[1]))))
    if worst > MOST_ROUNDED:
        raise Unproved(f"{what} change by {worst:.1e} of themselves, which is no rounding")
    return worst


def _of_kind(part: Part, kind: Array) -> Array:
    weights = part.weights * (part.symbols == kind)
    return product(weights, np.broadcast_to(part.factor, weights.shape))


def _total(parts: Sequence[Array]) -> Array:
    """Return the sums of the parts, each rounded once: their signs are exact."""
    rows = np.stack(parts)
    with np.errstate(all="ignore"):
        out, many = np.sum(rows, axis=0), np.count_nonzero(rows, axis=0) > 2
    slow = room((int(many.sum()),), MOST_SUMS, "sums of weights")
    spend(8 * rows.size + FRACTION // 8 * slow * len(parts))
    try:
        out[many] = [math.fsum(column) for column in rows[:, many].T]
    except (OverflowError, ValueError):  # ValueError: of infinite ones
        out = np.array(math.inf)
    if not np.isfinite(out).all():
        raise Unproved("a sum of weights is beyond the range of f64")
    return np.asarray(out)


def _rounded(a: Sequence[Array], b: Sequence[Array], parts: Sequence[Part]) -> Array:
    """Return a mask: a is one number of the type of its weight, and none is nearer to b."""
    types = {p.stored if np.isin(p.factor, (-1, 1)).all() else None for p in parts}
    if types not in ({np.float16}, {np.float32}):
        return np.zeros(len(a[0]) if a else len(b[0]), bool)
    stored, one = types.pop(), np.sum(a, axis=0)
    with np.errstate(over="ignore"):
        narrow = one.astype(stored)
        ends = [np.nextafter(narrow, stored(s)) for s in (-np.inf, np.inf)]
    # The sum of two neighbours is exact in float64.
    low, high = (np.where(np.isfinite(e), e, narrow).astype(np.float64) + one for e in ends)
    doubled = [2 * v for v in b]
    fits = (_total([*doubled, -low]) >= 0) & (_total([high, *(-v for v in doubled)]) >= 0)
    return np.asarray(fits & (narrow == one) & (np.count_nonzero(a, axis=0) < 2))


MOST_TERMS = 256
NONE = -1  # the number of no element, and the place where nothing is read


class Term(NamedTuple):
    """The number of each element (NONE: it is 0), and its factor in float64 (None: 1)."""

    number: Array
    factor: Array | None = None


class Linear(NamedTuple):
    """A sum of terms of one shape; `last` are activations behind it, with their parameters."""

    type: str | None
    terms: tuple[Term, ...]
    last: tuple[Activation, ...] = ()

    @property
    def shape(self) -> Ints:
        """The shape of the value."""
        return tuple(self.terms[0].number.shape)

    def each(self, move: Callable[[Array], Array]) -> Linear:
        """Return the value after a movement of its elements."""
        rows = ((move(n), None if f is None else move(f)) for n, f in self.terms)
        return self._replace(terms=tuple(Term(*row) for row in rows))


def scaled(value: Linear, factor: Array) -> Linear:
    """Return a value times a constant, which is broadcast to it."""
    need(not value.last and value.type in FLOATS, f"{value.type} or an activation is multiplied")
    need(((factor == 0) | normal(factor)).all(), f"{value.type} is multiplied by odd numbers")
    terms = []
    for number, old in value.terms:
        index = np.where(factor == 0, NONE, number)
        new = np.where(index == NONE, 1.0, product(np.broadcast_to(factor, index.shape), old))
        terms.append(Term(index, None if (new == 1).all() else new))
    return value._replace(terms=tuple(terms))


def added(a: Linear, b: Linear) -> Linear:
    """Return the sum of two values of one shape; terms that nowhere meet become one."""
    terms = list(a.terms)
    for t in b.terms:
        for i, u in enumerate(terms):
            if not ((u.number != NONE) & (t.number != NONE)).any():
                both = [1.0 if v.factor is None else v.factor for v in (t, u)]
                plain = t.factor is None and u.factor is None
                factor = None if plain else np.where(t.number != NONE, *both)
                terms[i] = Term(np.where(t.number != NONE, t.number, u.number), factor)
                break
        else:
            terms.append(t)
    room((len(terms),), MOST_TERMS, "terms of a sum")
    room((len(terms), *a.shape))
    return a._replace(terms=tuple(terms))


MOST_TAPS, MOST_GROUPS, MOST_HELD, MOST_MATCHED = 2**22, 2**19, 2**27, 2**20
FAR = 2**62
ONE = -2  # the place of a constant 1


Tap = tuple[int, int, int]  # place in the list of terms, base, tap
Group = tuple[Tap, ...]


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


class Rows(NamedTuple):
    """Element (row, place) is the sum of weights[row, c, t] * data[c, reads[place, t]].

    A symbol other than 0 in `symbols[row, c, t]` is a factor, too. `stored` is the type to which
    weights may have been rounded.
    """

    reads: Array
    weights: Array
    symbols: Array
    stored: Any = None


class Column(NamedTuple):
    """Base, row, place and factor (or one for all) of the number of each element."""

    owner: Array
    row: Array
    place: Array
    factor: Array

    def factors(self) -> Array:
        """Return the factor of each element."""
        return np.broadcast_to(self.factor, self.row.shape)


@dataclass
class Bases:
    """All numbers of a proof."""

    all: list[Base] = field(default_factory=list)
    equations: int = 0
    channels: int = 1
    held: int = 0  # elements of all tables
    matched: int = 0  # pairs of taps whose symbols were compared
    tables: dict[int, Rows] = field(default_factory=dict)

    def add(self, shape: Ints, **what: Any) -> Array:
        """Return new numbers."""
        start = self.all[-1].start + math.prod(self.all[-1].shape) if self.all else 0
        room((1, start + room(shape)), MOST_HELD)
        numbers = np.arange(start, start + math.prod(shape)).reshape(shape)
        self.all.append(Base(start, shape, **what))
        return numbers

    def constant(self, given: TypedArray) -> Linear:
        """Return the numbers of a constant; a zero has none."""
        values = np.asarray(given.array)
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise Unproved("a constant has elements that are no finite numbers")
        flat = values.reshape(-1).astype(np.float64)
        if values.dtype.kind in "iu" and (np.abs(flat) >= 2.0**53).any():
            raise Unproved("a constant has integers of more than 53 bits")
        numbers = self.add(values.shape, values=flat, stored=given.stored, rows=max(flat.size, 1))
        return Linear(given.type, (Term(np.where(values == 0, NONE, numbers)),))

    def of(self, value: Linear) -> list[Base]:
        """Return the bases of a value."""
        found = {b for t in value.terms for b in present(self.owners(t.number))}
        return [self.all[b] for b in sorted(found)]

    def owners(self, number: Array) -> Array:
        """Return which base each number is of, -1 for NONE."""
        return np.searchsorted([b.start for b in self.all], number, "right") - 1

    def column(self, term: Term) -> Column:
        """Return base, row and place of each element."""
        number = term.number
        owner = self.owners(number)
        row, place = np.zeros_like(number), np.zeros_like(number)
        for b in present(owner):
            base, here = self.all[b], owner == b
            rest, last = np.divmod(number[here] - base.start, base.inner)
            row[here], place[here] = rest % base.rows, rest // base.rows * base.inner + last
        return Column(owner, row, place, np.ones(1) if term.factor is None else term.factor)

    def atoms(self, term: Term, *shape: int) -> tuple[Array, Array, Array, Array]:
        """Return place, channel, factor and symbol of each element of a term without blocks."""
        column = self.column(term)
        owner, row, place = (a.reshape(shape) for a in column[:3])
        channel, symbol, factor = np.zeros_like(row), np.zeros_like(row), np.ones(shape)
        place = np.where(owner < 0, NONE, place)
        for b in present(owner):
            base, here = self.all[b], owner == b
            need(base.block is None, "a convolution of a convolution is not followed")
            if base.is_data:
                channel[here], place[here] = row[here], place[here] + base.start
                continue
            place[here] = ONE
            if base.values is None:
                symbol[here] = row[here] + base.start + 1
            else:
                factor[here] = base.values[row[here]]
        return place, channel, product(factor, column.factors().reshape(shape)), symbol

    def rows(self, number: int) -> Rows:
        """Return the elements of a base as sums of products."""
        if number not in self.tables:
            base = self.all[number]
            self.tables[number] = self._expanded(base.block) if base.block else self._plain(base)
        return self.tables[number]

    def _plain(self, base: Base) -> Rows:
        n, none = base.rows, np.zeros((base.rows, 1, 1), int)
        if base.is_data:
            places, eye = np.arange(math.prod(base.shape) // n), np.zeros((room((n, n)) // n, n, 1))
            eye[range(n), range(n)] = 1
            return Rows(places[:, None] + base.start, eye, none)
        reads = np.full((1, 1), ONE)
        if base.values is not None:
            return Rows(reads, base.values.reshape(n, 1, 1), none, base.stored)
        symbols = np.arange(n).reshape(n, 1, 1) + base.start + 1
        return Rows(reads, np.ones((n, 1, 1)), symbols)

    def _expanded(self, block: Block) -> Rows:
        n, g, k, *space = block.data.shape
        m, at = block.filter.shape[1], _window(block.reads, space)
        reads = [np.zeros((n * len(at), 0), int)]
        made, plain = [np.zeros((2, g * m, self.channels, 0))], True
        for x, w in itertools.product(block.data.terms, block.filter.terms):
            slots, channel, scale, seen = self._channels(x, n, g, k)
            place, _, factor, symbol = self.atoms(w, g, m, k, at.shape[1])
            need(not (place >= 0).any(), "data is multiplied by data")
            taps = len(seen) * at.shape[1]
            self.held = room((1, self.held + n * len(at) * taps + 2 * g * m * self.channels * taps))
            kept = np.flatnonzero(slots >= 0)
            both = np.zeros((2, g, m, self.channels, len(seen), at.shape[1]))
            target = (kept // k, slice(None), channel[kept], slots[kept])
            taken = (kept // k, slice(None), kept % k)
            factor = np.where(place == NONE, 0, factor)[taken]
            both[0][target] = product(factor, scale[kept][:, None, None])
            both[1][target] = symbol[taken]
            made.append(both.reshape(2, g * m, self.channels, taps))
            reads += [p[:, at].reshape(n * len(at), -1) for p in seen]
            plain &= w.factor is None and bool((scale[kept] == 1).all())
        weights, symbols = np.concatenate(made, 3)
        stored = {b.stored for b in self.of(block.filter)} if plain else set()
        kind = stored.pop() if len(stored) == 1 else None
        return Rows(np.concatenate(reads, 1), weights, symbols.astype(int), kind)

    def _channels(
        self, x: Term, n: int, g: int, k: int
    ) -> tuple[Array, Array, Array, Sequence[Array]]:
        """Return for each input channel which of the listed places it reads, channel and factor.

        Channels of one group that read the same elements get different slots; -1 reads nothing.
        """
        shape = (n, g * k, math.prod(x.number.shape[3:]))
        place, channel, factor, symbol = (a.swapaxes(0, 1) for a in self.atoms(x, *shape))
        place = np.pad(place, ((0, 0), (0, 0), (0, 1)), constant_values=NONE)  # at position -1
        channel, factor = (np.pad(a, ((0, 0), (0, 0), (0, 1))) for a in (channel, factor))
        slots, chosen, scale = np.full(g * k, -1), np.zeros(g * k, int), np.ones(g * k)
        spend(place.size * 16 + g * k * FRACTION)
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
            # Two channels that read the same channel in one place need two slots, or one is lost.
            owner = (same, i // k, int(chosen[i]))
            slots[i], _ = seen.setdefault((same, copies[owner]), (len(seen), place[i]))
            copies[owner] += 1
        return slots, chosen, scale, [p for _, p in seen.values()]

    def equal(self, low: Linear, source: Linear, axis: int | None) -> float:
        """Return the largest rounding of weights; Unproved if the values are not equal.

        `axis` is that of the data's channels; None: each element is a channel of its own.
        """
        for base in (b for b in self.all if b.is_data):
            shape = (1, *base.shape) if axis is None or axis >= len(base.shape) else base.shape
            at = 0 if shape is not base.shape else axis or 0
            base.rows, base.inner = max(shape[at], 1), max(math.prod(shape[at + 1 :]), 1)
        self.channels = max([b.rows for b in self.all if b.is_data], default=1)
        self.tables.clear()
        self.held = 0
        columns = [self.column(t) for t in (*low.terms, *source.terms)]
        columns = [Column(*(a.reshape(-1) for a in c)) for c in columns]
        first, inverse = distinct([a for c in columns for a in (c.owner, c.place)])
        patterns, kinds = self._patterns([(c.owner[first], c.place[first]) for c in columns])
        kinds = kinds[inverse]
        outputs, _ = distinct([kinds, *(a for c in columns for a in (c.row, c.factor))])
        equations: dict[Group, list[Array]] = {}
        for number, groups in enumerate(patterns):
            chosen = outputs[kinds[outputs] == number]
            for group in groups:
                equations.setdefault(group, []).append(chosen)
        self.equations, worst, count = len(equations), 0.0, len(low.terms)
        for group, found in equations.items():
            worst = max(worst, self._solved(group, np.concatenate(found), columns, count))
        return worst

    def _solved(self, group: Group, every: Array, columns: Sequence[Column], count: int) -> float:
        """Compare the weights of a group's taps; the first `count` columns are the lowered side."""
        places = {j for j, _, _ in group}
        used = {j: (columns[j].row[every], columns[j].factors()[every]) for j in places}
        lead, _ = distinct([a for pair in used.values() for a in pair])
        # Symbols are compared pair by pair: a filter computed at run time could take for ever.
        if any(self.rows(b).symbols.any() for b in {b for _, b, _ in group}):
            steps = self.matched + len(group) ** 2
            self.matched = room((1, steps), MOST_MATCHED, "sums of computed weights")
        size, worst = max(MOST_TAPS // (self.channels * len(group)), 1), 0.0
        for piece in np.array_split(lead, -(-lead.size // size)):
            sides: tuple[list[Part], list[Part]] = ([], [])
            for j, b, t in group:
                table, (row, factor) = self.rows(b), (a[piece] for a in used[j])
                both = (a[row, :, t] for a in (table.weights, table.symbols))
                wide = [np.pad(a, ((0, 0), (0, self.channels - a.shape[1]))) for a in both]
                sides[j >= count].append(Part(wide[0], factor[:, None], wide[1], table.stored))
            worst = max(worst, compare(*sides, "the weights between an input and an output"))
        return worst

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
            spend(members.size * (FRACTION // 4 + 8 * len(taps)))
            for piece in np.array_split(members, pieces):
                read = np.zeros((piece.size, 0), int)
                for j, b in used:
                    read = np.append(read, self.rows(b).reads[located[j][1][piece]], 1)
                # Where taps coincide does not change when all places are shifted.
                # So outputs in the middle of a map are one pattern, and only the edges are others.
                shift = np.where(read >= 0, read, FAR).min(1, keepdims=True, initial=FAR)
                for m, row in zip(piece, np.where(read >= 0, read - shift, read), strict=True):
                    key = (i, row.tobytes())
                    if key not in numbers:
                        numbers[key] = room((len(patterns),), MOST_GROUPS // max(len(taps), 1))
                        patterns.append(_together(taps, row))
                    kinds[m] = numbers[key]
        return patterns, kinds


def _together(taps: Sequence[Tap], places: Array) -> list[Group]:
    spend(FRACTION // 8 * len(taps))
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


def present(owner: Array) -> list[int]:
    """Return the bases that occur."""
    found: list[int] = np.flatnonzero(np.bincount(owner.reshape(-1) + 1)[1:]).tolist()
    return found


def distinct(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Return the first place of each distinct row of some columns, and the index of each row."""
    spend(32 * sum(c.size for c in columns))
    key = np.zeros(columns[0].shape, int)
    for c in columns:
        if c.dtype.kind == "f":
            c = np.unique(c, return_inverse=True)[1].reshape(c.shape)
        low, width = int(c.min()), int(c.max()) - int(c.min()) + 1
        if (int(key.max()) + 1) * width >= 2**63:
            key = np.unique(key, return_inverse=True)[1].reshape(-1)
        key = key * width + (c - low)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


# Beside the movements, what makes real numbers of those that it reads at all ports or at this one,
# and decides neither a size nor an index by them.
_NUMBERS = """
    Abs AdaptiveAvgPool:0 Add Assign AvgPool BatchNormInference Clamp Convert Convolution
    ConvolutionBackpropData Cos CumSum:0 DeformableConvolution Divide Einsum Elu Erf Exp
    FakeQuantize GRN GRUCell GRUSequence GatherElements:0 GatherND:0 Gelu GridSample
    GroupConvolution GroupConvolutionBackpropData GroupNormalization HSigmoid HSwish HardSigmoid
    LRN:0 LSTMCell LSTMSequence Log LogSoftmax MVN:0 MatMul MaxPool Maximum Minimum Mish Multiply
    Negative NormalizeL2:0 PReLU Power RNNCell RNNSequence ROIAlign:0 ROIPooling:0 ReLU ReadValue
    ReduceL1:0 ReduceL2:0 ReduceMax:0 ReduceMean:0 ReduceMin:0 ReduceSum:0 RegionYolo ReorgYolo
    Result ScaledDotProductAttention Selu Sigmoid Sin SoftMax SoftPlus SoftSign SpaceToBatch:0 Sqrt
    SquaredDifference Subtract Swish Tanh
"""
_WORDS = (word.partition(":") for word in _NUMBERS.split())
_PORTS = {name: [int(port)] if port else ALL for name, _, port in _WORDS}
SHAPING = {"Reshape", "Transpose", "Squeeze", "Unsqueeze"}


def misled(model: Model, places: Collection[int]) -> str:
    """Return the layer that makes more than numbers of rounded values; "" if none does.

    A rounded constant must meet elements of the inputs, and only be moved before. Layers are behind
    their inputs. A shape stays the same.
    """
    spend(64 * len(model.layers))
    data, moved, states = set[int](), {*places}, set[int]()
    for i, layer in enumerate(model.layers):
        read = layer.inputs if layer.type != "ShapeOf" else ()
        if layer.type in ("Parameter", "ReadValue") or data & {p.layer for p in read}:
            data.add(i)
        states |= {i} if layer.type == "ReadValue" else set()
        odd = {port for port, p in enumerate(read) if p.layer in moved}
        if not odd:
            continue
        moved.add(i)
        real = layer.attributes.get("destination_type", "f32") in FLOATS
        # The second output of a MaxPool has indices.
        real &= all(read[p].port == 0 or model.of(read[p]).type != "MaxPool" for p in odd)
        real &= i in data or layer.type in SHAPING
        allowed = _PORTS.get(layer.type, MOVES.get(layer.type, ()))
        if not (real and all(p in allowed for p in odd)):
            return f"{layer} makes more than real numbers of weights that are rounded"
        if layer.type == "Assign" and not states <= {*places}:
            return misled(model, {*places, *states})
    return ""


def half(array: Array) -> Hashable:
    """Return a key that arrays share if they are the same in f16."""
    with np.errstate(over="ignore"):
        return array.shape, hashlib.sha256(array.astype("<f2").tobytes()).digest()
