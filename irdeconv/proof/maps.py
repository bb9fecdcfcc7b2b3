"""Index maps of a lowered deconvolution, and their comparison (docs/proof.md, lemmas 6 and 7)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from irdeconv.proof.definition import Activation, LayerDefinition, Relation
from irdeconv.proof.model import Array, Ints, Unproved, need, spend
from irdeconv.proof.sizes import Case, Expr, Size, is_empty, is_int
from irdeconv.proof.sums import FAR, Part, compare

NEVER, WRONG = -1, -2  # emitted taps that read zeros only, or what the definition does not read
READ, MISSING, IMPOSSIBLE = 0, 1, 2  # taps of the definition
TAP_WORK = 2048  # units of work for a tap or a residue
MOST_ALIGNED = 2**26
MOST_ALONG = 2**13  # taps of an axis, which are looked at one by one
MOST_PAIRS = 2**25  # of a tap and a residue of an axis


Bounds = tuple[tuple[Size, Size], ...]
Taps = tuple[list[int], list[int]]  # the tap of each emitted tap, and the ones that are reached


@dataclass(frozen=True)
class Axis:
    """One axis of a view: explicit, or open along axis `coordinate` of the base.

    Position q of an open axis is t = step*q + shift: a zero unless low <= t < high for all
    `bounds`. t // radix is the place along the base's axis `coordinate` (0: batch, then the spatial
    ones; None: explicit). t % radix runs along the table's axis of the same place, as q does of an
    explicit axis. Only moved data have a step other than 1, and only with the radix 1.
    """

    length: Size
    coordinate: int | None = None
    radix: int = 1
    shift: Size = 0
    bounds: Bounds = ()
    step: int = 1

    @property
    def rows(self) -> Any:
        """How long the table is along it."""
        return self.length if self.coordinate is None else self.radix

    @property
    def span(self) -> Size:
        """How many values t has from the first position to the last one."""
        return (self.length - 1) * self.step + 1

    def inside(self, t: Size) -> list[Size]:
        """Return expressions: all are >= 0 if position t - shift exists and is no zero.

        The step is 1: outputs of a convolution have no other, and `sums` removes it from its reads.
        """
        q = t - self.shift
        bounds = [b for low, high in self.bounds for b in (t - low, high - 1 - t)]
        return [q, self.length - 1 - q, *bounds]


@dataclass(frozen=True)
class Read:
    """The reads of a convolution along one axis: output v takes stride*v + dilation*t - pad.

    Only elements with t % radix in `live` are not zero. Outputs outside of `bounds` are zeros.
    """

    axis: Axis
    dilation: int
    pad: Size
    live: tuple[int, ...]
    bounds: Bounds = ()
    stride: int = 1


@dataclass(frozen=True)
class KernelSums:
    """A convolution of the data: `weights` [g, M/g, C/g, *T], element numbers if `numbered`.

    `channels` [g, C/g] are the data's channels that it reads, -1 for zeros.
    """

    weights: Array
    numbered: bool
    channels: Array
    reads: tuple[Read, ...]

    @property
    def rows(self) -> int:
        """Number of output channels."""
        return int(self.weights.shape[0] * self.weights.shape[1])

    @property
    def kind(self) -> tuple[Any, ...]:
        """What is equal in sums that only differ in groups."""
        return self.numbered, self.weights.dtype, self.weights.shape[1:], self.reads


Block = tuple[KernelSums, ...]


@dataclass(frozen=True)
class View:
    """A tensor computed from the data; `blocks` None: nothing but moved elements of the data.

    `table` has one axis for each of `axes`: the row of the base of each element, -1 for zero; rows
    of several blocks are counted through. A block is a sum of convolutions with the same rows. Each
    axis of the tensor is a run of `axes`, in row-major order, of as many as `runs` says (0: it has
    the size 1). `bias` has a number for each element of the table (with `bias_numbered` that of an
    element of an input); then comes the `activation`.
    """

    type: str | None
    table: Array
    axes: tuple[Axis, ...]
    runs: Ints
    blocks: tuple[Block, ...] | None = None
    bias: Array | None = None
    bias_numbered: bool = False
    activation: Activation | None = None

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of the tensor's axes."""
        return tuple(math.prod(a.length for a in row) for row in self.rows)

    @property
    def ndim(self) -> int:
        """The rank of the tensor."""
        return len(self.runs)

    @property
    def rows(self) -> list[tuple[Axis, ...]]:
        """The axes of the view in each axis of the tensor."""
        return [self.run(a) for a in range(len(self.runs))]

    def run(self, a: int) -> tuple[Axis, ...]:
        """Return the axes of the view in one axis of the tensor."""
        first = sum(self.runs[:a])
        return self.axes[first : first + self.runs[a]]

    def grouped(self, runs: Iterable[Sequence[Axis]]) -> View:
        """Return a view whose tensor has other runs of the same axes."""
        rows, places = list(runs), {id(a): i for i, a in enumerate(self.axes)}
        axes = tuple(a for r in rows for a in r)
        order = [places[id(a)] for a in axes]  # equal axes are not the same one
        bias = None if self.bias is None else self.bias.transpose(order)
        table, lengths = self.table.transpose(order), tuple(map(len, rows))
        return replace(self, table=table, bias=bias, axes=axes, runs=lengths)

    def transpose(self, order: Iterable[int]) -> View:
        """Return a view of the same axes in another order."""
        return self.grouped(map(self.run, order))

    @property
    def is_finished(self) -> bool:
        """Whether a zero that joins it would not be a sum without terms."""
        return self.bias is not None or bool(self.activation)


@dataclass(frozen=True, kw_only=True)
class Reference(View):
    """A deconvolution by its definition, or a convolution if neither side has a deconvolution.

    The data have the shape `data`, `weights` are [g, C/g, M/g, *K].
    """

    definition: LayerDefinition
    data: tuple[Size, ...]
    weights: Array
    numbered: bool
    relations: tuple[Relation, ...]


@dataclass
class MapComparison:
    """Compares a view with a deconvolution in one case of the sizes."""

    case: Case
    wanted: Reference
    view: View
    halves: bool = False  # whether weights are stored in f16
    maps: dict[str, None] = field(default_factory=dict)
    found: dict[Any, Any] = field(default_factory=dict)
    rounding: float = 0.0

    def compare(self) -> None:
        """Raise Unproved with the first difference."""
        wanted, view, order = self.wanted, self.view, self.wanted.definition.data_axes
        shape = wanted.shape
        sums = view.blocks is not None and not isinstance(view, Reference)
        if not sums or view.runs != (1,) * len(order):
            raise Unproved("no convolution was found, or the rank is another one")
        if not all(self.case.is_zero(a - b) for a, b in zip(view.shape, shape, strict=True)):
            raise Unproved(f"the output is {list(view.shape)}, not {list(shape)}")
        axes = [view.axes[a] for a in order]
        self.batch(axes[0], shape[order[0]])
        if axes[1].coordinate is not None or any(
            a.coordinate != i for i, a in enumerate(axes[2:], 1)
        ):
            raise Unproved("the axes of the output are not those of the data")
        table = by_channel(view.table, order)
        self.finish(order)
        if not is_empty(shape):
            for residues in product(*(range(a.radix) for a in axes[2:])):
                self.residues(axes[2:], residues, last(table, residues))

    @cached_property
    def starts(self) -> Array:
        """The first row of each block; at the end the number of rows."""
        return np.cumsum([0, *(block[0].rows for block in self.view.blocks or ())])

    def batch(self, axis: Axis, size: Size) -> None:
        """Check that the batch stays as it is."""
        n = self.case.free("n")
        # A batch that is shifted or cut would be the batch of other samples.
        plain = axis.coordinate == 0 and axis.radix == 1 == axis.step
        plain = plain and self.case.is_zero(axis.shift)
        if not plain or not all(self.case.implies(e, (n, size - 1 - n)) for e in axis.inside(n)):
            raise Unproved("the batch is not kept as it is")

    def finish(self, order: Sequence[int]) -> None:
        """Compare bias and activation."""
        bias, wanted = self.view.bias, self.wanted.bias
        if (bias is None) != (wanted is None):
            raise Unproved("the bias is missing" if bias is None else "there is a bias too many")
        if self.view.bias_numbered != self.wanted.bias_numbered:
            raise Unproved("a constant bias stands for a computed one")
        if bias is not None and wanted is not None:
            found = by_channel(bias, order)
            right = np.broadcast_to(by_channel(wanted, order), found.shape)
            self.agree([found], right, "the bias")
        if self.view.activation != self.wanted.activation:
            raise Unproved(f"its end is {self.view.activation}, not {self.wanted.activation}")

    def residues(self, axes: list[Axis], residues: tuple[int, ...], rows: Array) -> None:
        """Compare the outputs whose positions have some residues; `rows` [M] are their rows."""
        places = [*enumerate(zip(axes, residues, strict=True))]
        spend(TAP_WORK * (1 + len(rows) // 64))
        of = np.where(rows < 0, 0, np.searchsorted(self.starts, rows, "right"))  # 0: of none
        alike: dict[Any, list[int]] = {}
        for i in np.unique(of).tolist():
            block = (self.view.blocks or ())[i - 1] if i else ()
            alike.setdefault(tuple(part.kind for part in block), []).append(i)
        for those in alike.values():
            block, first = self.joined(tuple(those)) if those[0] else ((), self.starts)
            found = [
                [self.taps(a, axis, r, part) for a, (axis, r) in places]
                for part in block or (None,)
            ]
            chosen = np.flatnonzero(np.isin(of, those))
            self.weights(chosen, rows[chosen] - first[of[chosen] - 1], block, found)

    def joined(self, those: tuple[int, ...]) -> tuple[Block, Array]:
        """Return blocks of one kind as one of more groups; by block, rows minus those in it."""
        every = [(self.view.blocks or ())[i - 1] for i in those]
        if len(every) == 1 or those in self.found:
            kept: tuple[Block, Array] = self.found.get(those, (every[0], self.starts))
            return kept
        first, sums = self.starts[:-1].copy(), []
        first[np.subtract(those, 1)] -= np.cumsum([0, *(block[0].rows for block in every[:-1])])
        for parts in zip(*every, strict=True):
            spend(sum(p.weights.size for p in parts))
            weights = np.concatenate([p.weights for p in parts])
            channels = np.concatenate([p.channels for p in parts])
            sums.append(replace(parts[0], weights=weights, channels=channels))
        self.found[those] = tuple(sums), first
        return tuple(sums), first

    def taps(self, a: int, out: Axis, residue: int, block: KernelSums | None) -> Taps:
        """Return the taps of an axis; the same question is answered once."""
        emitted = (block.weights.shape[3 + a], block.reads[a]) if block else None
        key = (a, out, residue, emitted)
        if key not in self.found:
            self.found[key] = self._taps(a, out, residue, *(emitted or (0, None)))
        taps: Taps = self.found[key]
        return taps

    def _taps(self, a: int, out: Axis, residue: int, emitted: int, read: Read | None) -> Taps:
        """Return the tap of each emitted tap, at every live place, and the state of each tap.

        The outputs o with o + out.shift = out.radix*v + residue are looked at.
        """
        d = self.wanted.relations[a]
        first, place = self.places(a, out, read)
        read = read or Read(out, 1, 0, ())
        met = [(t, live) for t in range(emitted) for live in read.live]
        reached = self._unmet(first, a, out, residue, len(met))
        stands, line = [NEVER] * len(met), []
        for at, (t, live) in enumerate(met):
            spend(TAP_WORK)
            pair = _met(out, read, residue, t, live, first, place)
            if pair is None:
                continue
            i, o, there = pair
            # The pair is one of the definition.
            given = [o, d.outputs - 1 - o, i, d.inputs - 1 - i]
            there += given[:2]  # no element has outputs beyond the tensor
            if self.case.excludes(there):
                continue
            # Until shown otherwise it reads too much; its weight has to be 0 then.
            stands[at] = WRONG
            k = self._reached(d, i, o)
            # It must exist wherever the definition has the pair, or products would be missing.
            if k is not None and all(self.case.implies(e, given) for e in there):
                stands[at], reached[k] = k, READ
                line.append(f"{t} as {k}")
        for k in [k for k, state in enumerate(reached) if state == MISSING]:
            spend(TAP_WORK)
            if self.impossible(first, k, a, out, residue):
                reached[k] = IMPOSSIBLE
        where = f", (o + {out.shift}) mod {out.radix} = {residue}" if out.radix > 1 else ""
        self.maps[f"axis {a}: {d}{where}: taps {', '.join(line) or 'none'}"] = None
        return stands, reached

    def _reached(self, d: Relation, i: Size, o: Size) -> int | None:
        """Return the tap of the definition through which i and o meet; None if there is none."""
        reach = i * d.radix - o * d.stride + d.pad
        likely = range(d.taps) if isinstance(reach, Expr) else [reach // d.dilation]
        spend(TAP_WORK // 2 * len(likely))
        fits = (k for k in likely if self.case.is_zero(reach - k * d.dilation))
        return next((k for k in fits if 0 <= k < d.taps), None)

    def places(self, a: int, out: Axis, read: Read | None) -> tuple[Size, Size]:
        """Return symbols for any input i and any place v of the outputs; 0 for the only i or o.

        A tap stands for one of the definition at all of them only if the periods fit.
        """
        d = self.wanted.relations[a]
        i, v = (
            0 if is_int(n, 1) else self.case.free(name)
            for n, name in ((d.inputs, "i"), (d.outputs, "v"))
        )
        if read and type(i) is not int and type(v) is not int:
            periods, right = (out.radix * read.axis.radix, read.stride), (d.radix, d.stride)
            fits = periods[0] * right[1] == periods[1] * right[0]
            need(fits, f"axis {a}: periods of {periods}, not {right}")
        return i, v

    def _unmet(self, i: Size, a: int, out: Axis, residue: int, emitted: int) -> list[int]:
        """Return the state of each tap before any is met: whether it has outputs of a residue."""
        d = self.wanted.relations[a]
        taps, ahead = np.arange(d.taps), (out.shift + d.pad - residue) % out.radix
        most = max(d.taps, emitted)
        fits = most <= MOST_ALONG and most * out.radix <= MOST_PAIRS
        text = f"axis {a}: {most:,} taps and {out.radix:,} residues"
        need(fits, f"{text}; at most {MOST_ALONG:,} taps and {MOST_PAIRS:,} pairs are followed")
        # The outputs that a tap meets have one residue for all i, if these are there and the same.
        fixed = type(i) is int or d.radix % out.radix == 0
        if d.dilation > 0 or not fixed or type(ahead) is not int:
            return [MISSING] * d.taps
        other = (ahead - taps * d.dilation) % out.radix != 0
        states: list[int] = np.where(other, IMPOSSIBLE, MISSING).tolist()
        return states

    def impossible(self, i: Size, k: int, a: int, out: Axis, residue: int) -> bool:
        """Return whether no output o of a residue and no input i meet through a tap."""
        d = self.wanted.relations[a]
        offset = k * d.dilation - d.pad  # radix*i = stride*o + offset; radix or stride is 1
        if d.dilation > 0:
            o = self.case.free("v") * out.radix + residue - out.shift
            i = o * d.stride + offset
        else:
            o = i * d.radix - offset
        return self.case.excludes([o, d.outputs - 1 - o, i, d.inputs - 1 - i])

    def weights(self, chosen: Array, rows: Array, block: Block, taps: list[list[Taps]]) -> None:
        """Compare the weights of output channels `chosen`, which are `rows` of a block."""
        right, channels = self._wanted_weights(chosen)
        emitted: dict[tuple[int, ...], list[Array]] = {}
        for sums, along in zip(block, taps, strict=False):
            found = self._aligned(sums, rows, channels)
            held = (found != (-1 if sums.numbered else 0)).any(axis=(0, 1))  # by tap
            for at in product(*([t for t, k in enumerate(s) if k != NEVER] for s, _ in along)):
                spend(TAP_WORK + found.shape[0] * found.shape[1])
                stands = tuple(s[t] for (s, _), t in zip(along, at, strict=True))
                rows_of = zip(at, sums.reads, strict=True)
                place = [t // len(read.live) for t, read in rows_of]
                part, some = last(found, place), held[tuple(place)]
                need(
                    WRONG not in stands or not some,
                    f"tap {list(at)} reads a place that the source does not read",
                )
                # Zeros among several taps for one k add nothing, and numbers cannot be added.
                if stands in emitted and not self.some(emitted[stands][0], sums.numbered):
                    emitted[stands] = []
                elif stands in emitted and not some:
                    continue
                emitted.setdefault(stands, []).append(part)
        mixed = any(sums.numbered != self.wanted.numbered for sums in block)
        for k in product(*([t for t, s in enumerate(r) if s != IMPOSSIBLE] for _, r in taps[0])):
            wanted = last(right, k)
            spend(TAP_WORK + 4 * wanted.size)
            if k in emitted:
                need(not mixed, "a constant filter replaces a computed one")
                self.agree(emitted[k], wanted, f"the weights of tap {list(k)}")
            elif self.some(wanted, self.wanted.numbered):
                raise Unproved(f"tap {list(k)} of the filter is not read everywhere")

    def _wanted_weights(self, chosen: Array) -> tuple[Array, Array]:
        """Return the weights [R, C/g, *K] of output channels, and the channels that they meet."""
        w = self.wanted.weights
        group, inner = np.divmod(chosen, w.shape[2])
        channels = group[:, None] * w.shape[1] + np.arange(w.shape[1])
        return w.swapaxes(1, 2)[group, inner], channels

    def _aligned(self, block: KernelSums, rows: Array, channels: Array) -> Array:
        """Return a block's weights [R, C/g, *T] in the order of the definition's channels."""
        group, inner = np.divmod(rows, block.weights.shape[1])
        weights, reads = block.weights[group, inner], block.channels[group]
        if reads.shape == channels.shape and (reads == channels).all():
            return weights
        order = np.sort(reads, axis=1)
        # Below, a second weight of the same channel would overwrite the first.
        twice = (order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)
        need(not twice.any(), "channels of the data are read several times")
        # Each row counts its channels from its first one: those of groups are few.
        both = np.concatenate([channels, reads], axis=1)
        low = np.where(both < 0, FAR, both).min(axis=1, keepdims=True, initial=FAR)
        channels, reads = channels - low, np.where(reads < 0, -1, reads - low)
        every = int(max(channels.max(initial=-1), reads.max(initial=-1))) + 1
        text = f"{len(rows):,} rows of {every:,} channels are more than {MOST_ALIGNED:,} pairs"
        need(every * len(rows) <= MOST_ALIGNED, text)
        spend(len(rows) * (every + 1) * math.prod(weights.shape[2:]))
        nothing = -1 if block.numbered else 0
        dense = np.full((len(rows), every + 1, *weights.shape[2:]), nothing, weights.dtype)
        dense[np.arange(len(rows))[:, None], reads] = weights  # -1 is the last place
        # What the other channels hold, after these are taken out, is read too much.
        out = dense[np.arange(len(rows))[:, None], channels]
        dense[np.arange(len(rows))[:, None], channels] = nothing
        if self.some(dense[:, :-1], block.numbered):
            raise Unproved("a channel is read that the definition does not read")
        return out

    @staticmethod
    def some(weights: Array, numbered: bool) -> bool:
        """Return whether some weights are not zero."""
        return bool((weights != -1).any() if numbered else weights.any())

    def agree(self, parts: list[Array], wanted: Array, what: str) -> None:
        """Check that weights add up to the wanted ones, exactly or but for rounding."""
        need(all(np.isfinite(p).all() for p in (*parts, wanted)), f"{what} are not all finite")
        if len(parts) == 1 and np.array_equal(parts[0], wanted):
            return
        need(not self.wanted.numbered and wanted.dtype.kind == "f", f"{what} are other ones")
        if (np.count_nonzero(parts, axis=0) < 2).all() and np.array_equal(sum(parts), wanted):
            return
        one, none = np.ones(1), np.zeros(wanted.shape, int)
        stored = np.float16 if self.halves and len(parts) == 1 else wanted.dtype.type
        low = [Part(p.astype(np.float64), one, none, stored) for p in parts]
        right = Part(wanted.astype(np.float64), one, none, wanted.dtype.type)
        self.rounding = max(self.rounding, compare(low, [right], what))


def _met(
    out: Axis, read: Read, residue: int, t: int, live: int, i: Size, o: Size
) -> tuple[Size, Size, list[Size]] | None:
    """Return an input i, an output o that reads it by tap t, and expressions >= 0 if both exist.

    Output o = radix*v + residue - shift reads place stride*v + D*t - pad + shift = i*radix + live.
    A number i or o is known; symbols mean any i and v: the one that gives the other as a whole
    number is used. None: there is no v.
    """
    first = read.dilation * t - read.pad + read.axis.shift  # the place that v = 0 reads
    inner, stride = read.axis.radix, read.stride
    v: Size | None = o
    if type(o) is int:
        v = _divided(o + out.shift - residue, out.radix)
    elif type(i) is int or stride == 1:
        v = _divided(i * inner + live - first, stride)
    if v is not None and (type(o) is int or v is o):
        i = _divided(v * stride + first - live, inner)
    if v is None or i is None:
        return None
    o = v * out.radix + residue - out.shift
    bounds = [e for low, high in read.bounds for e in (v - low, high - 1 - v)]
    return i, o, [*out.inside(o + out.shift), *read.axis.inside(i * inner + live), *bounds]


def _divided(n: Size, by: int) -> Size | None:
    """Return a quotient that is a whole number, None if it never is one."""
    quotient = n // by
    rest = n - quotient * by
    need(type(rest) is int, f"{n} is a multiple of {by} at some sizes only")
    return quotient if rest == 0 else None


def by_channel(table: Array, order: Sequence[int]) -> Array:
    """Return a table [C, *radixes], given the places of the axes N, C, *spatial."""
    turned = table.transpose(order)
    return turned.reshape(turned.shape[1:])


def last(array: Array, places: Sequence[int]) -> Array:
    """Return the elements at places of the last axes."""
    index: Any = (..., *places)
    return np.asarray(array[index])
