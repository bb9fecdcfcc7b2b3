"""Compose what stands before, in and behind convolutions into one deconvolution.

A convolution of stride V reads u[j], where element i stands at j = p + S1*i + r1 (r1 an entry of
the data's pulse), and gives v[q] = sum over t of w[t] u[V*q + D*t]. Behind it position o of the
output holds v[q] of a channel that r2 chooses, o = P + S2*q + r2. So x[i] meets w[t] where V
divides S1*i + a, a = p + r1 - D*t, in the output

    o = S*i + k,   S = S1*S2 / V,   k = P + S2*a / V + r2.

If S is whole, and all i meet the same weights, that is a deconvolution of stride S whose tap
k - kmin collects all w[t] with that k, and which begins at -kmin. Its end follows from the size of
the output. Which t an i meets depends on i modulo V / gcd(S1, V), its phase: of several phases all
must give one filter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.passes.raising.size import Size, Unreadable
from irdeconv.passes.raising.sums import Sums
from irdeconv.passes.raising.tensor import Signal
from irdeconv.spec import Array

LARGEST_FILTER = 1 << 28  # elements of a raised filter
Ints = tuple[int, ...]


@dataclass(frozen=True)
class ChannelBlock:
    """Output channels that one convolution makes, or zeros (`filter` None).

    `filter` is [g, M/g, C/g, *T]; `signals` are the data's spatial axes with the convolution's own
    pads; `sizes` are those of the output.
    """

    count: int
    sizes: tuple[Size, ...]
    filter: Array | None = None
    signals: tuple[Signal, ...] = ()
    dilations: Ints = ()
    strides: Ints = ()

    def phases(self, axis: int) -> range:
        """The phases of an element along a spatial axis."""
        return range(self.strides[axis] // math.gcd(self.strides[axis], self.signals[axis].stride))


@dataclass(frozen=True)
class Behind:
    """What stands behind the convolutions: the channel of every output channel, and the axes.

    The channel of output m at residue r of the axes is channels[m] plus the pulses' entries.
    """

    channels: Ints
    signals: tuple[Signal, ...]


@dataclass(frozen=True)
class Raising:
    """A deconvolution: `filter` is [g, C/g, M/g, *K].

    `exact` says that every element of the filter is an element of the old one, or an exact sum.
    `summed` is the largest number of old elements in a new one.
    """

    filter: Array
    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output_padding: Ints
    exact: bool = True
    summed: int = 1


@dataclass(frozen=True)
class TapAxis:
    """One axis of the result: the stride, lowest k, the places of k from it, O - S*I."""

    stride: int
    low: int
    places: Ints
    excess: int

    @property
    def size(self) -> int:
        """The taps from the lowest to the highest k."""
        return self.places[-1] + 1


def compose(blocks: Sequence[ChannelBlock], behind: Behind) -> Raising:
    """Return the deconvolution; Unreadable where there is none."""
    real = [b for b in blocks if b.filter is not None]
    if not real:
        raise Unreadable("there is no convolution")
    axes = len(behind.signals)
    lines = [_tap_axis(real, behind, a) for a in range(axes)]
    filter, sums = _filter(blocks, real[0], behind, lines)
    phases = itertools.product(*(real[0].phases(a) for a in range(axes)))
    if any(
        (_filter(blocks, real[0], behind, lines, p)[0] != filter).any() for p in phases if any(p)
    ):
        raise Unreadable("the convolution's stride gives elements of the data different filters")
    interleaved = any(len(s.pulse) > 1 for s in behind.signals)
    rows = []
    for a, line in enumerate(lines):
        used = np.array(line.places)
        if interleaved:
            others = tuple(i for i in range(filter.ndim) if i != 3 + a)
            used = np.flatnonzero((filter != 0).any(others))
        rows.append(spelled(used if used.size else np.array(line.places), line))
    for a, row in enumerate(rows):
        filter = _taken(filter, 3 + a, row[0])
    _, dilations, begin, end, extra = zip(*rows, strict=True)
    strides = tuple(line.stride for line in lines)
    return Raising(
        filter=filter,
        strides=strides,
        dilations=dilations,
        pads_begin=begin,
        pads_end=end,
        output_padding=extra,
        exact=sums.exact,
        summed=sums.count,
    )


def _tap_axis(blocks: Sequence[ChannelBlock], behind: Behind, axis: int) -> TapAxis:
    """Return one axis; Unreadable where zeros stand in the place of outputs of the scatter."""
    out = behind.signals[axis]
    strides = {(b.signals[axis].stride, b.strides[axis]) for b in blocks}
    if len(strides) > 1:
        raise Unreadable("the convolutions' data is spread, or their strides are, differently")
    (spread, by) = strides.pop()
    stride, rest = divmod(spread * out.stride, by)
    if rest:
        raise Unreadable(f"the convolution's stride {by} leaves no whole stride on axis {axis}")
    every: set[int] = set()
    for b in blocks:
        s, span = b.signals[axis], b.dilations[axis] * (_taps(b, axis) - 1)
        # Where q of the first element's lowest tap is below 0, outputs in front of q = 0 are not 0.
        behind_last = by > 1 or s.tail < span
        if (out.offset > 0 > s.offset - span) or (out.tail > 0 and behind_last):
            raise Unreadable(f"spatial axis {axis} is padded where the scatter goes on")
        residues = [r for r, entry in enumerate(out.pulse) if entry is not None]
        for phase in b.phases(axis):
            every |= {k + r for _, k in _reached(b, out, axis, phase) for r in residues}
    if not every:
        raise Unreadable(f"the convolution reads nothing but zeros along spatial axis {axis}")
    excess = (out.size - blocks[0].signals[axis].count * stride).number
    if excess is None:
        raise Unreadable(f"spatial axis {axis} grows with another size than the data's")
    low = min(every)
    return TapAxis(stride, low, tuple(sorted(k - low for k in every)), excess)


def _reached(block: ChannelBlock, out: Signal, axis: int, phase: int) -> list[tuple[int, int]]:
    """Return (t, k - r2) for every tap and entry of the pulse that elements of a phase meet."""
    s, dilation, by = block.signals[axis], block.dilations[axis], block.strides[axis]
    stride = s.stride * out.stride // by
    places = [
        (t, s.stride * phase + s.offset + r - dilation * t)
        for t in range(_taps(block, axis))
        for r, entry in enumerate(s.pulse)
        if entry is not None
    ]
    return [
        (t, out.offset + out.stride * (at // by) - stride * phase)
        for t, at in places
        if at % by == 0
    ]


def _taps(block: ChannelBlock, axis: int) -> int:
    assert block.filter is not None
    return int(block.filter.shape[3 + axis])


def _filter(
    blocks: Sequence[ChannelBlock],
    first: ChannelBlock,
    behind: Behind,
    lines: Sequence[TapAxis],
    phase: Ints | None = None,
) -> tuple[Array, Sums]:
    """Gather all taps of a phase into a filter [g, C/g, M/g, *K] that starts at the lowest k."""
    assert first.filter is not None
    groups, _, inner = first.filter.shape[:3]
    total = len(behind.channels)
    kernel = [line.size for line in lines]
    if total * inner * math.prod(kernel) > LARGEST_FILTER:
        raise Unreadable(f"its filter would have {total * inner * math.prod(kernel)} elements")
    if total % groups:
        raise Unreadable(f"{total} output channels are not {groups} groups")
    sums = Sums((total, inner, *kernel), first.filter.dtype)
    ends = np.cumsum([b.count for b in blocks])
    entries = ([r for r, c in enumerate(s.pulse) if c is not None] for s in behind.signals)
    for residue in itertools.product(*entries):
        added = sum(s.pulse[r] or 0 for s, r in zip(behind.signals, residue, strict=True))
        channels = np.array(behind.channels) + added
        owner = np.searchsorted(ends, channels, "right")
        if channels.min() < 0 or owner.max() >= len(blocks):
            raise Unreadable("channels are read that no convolution makes")
        for i in np.unique(owner):
            rows = np.flatnonzero(owner == i)
            local = channels[rows] - (ends[i] - blocks[i].count)
            _gather(sums, blocks[i], rows, local, residue, behind, lines, groups, phase)
    grouped = sums.result().reshape(groups, total // groups, inner, *kernel)
    return grouped.swapaxes(1, 2), sums


def _gather(
    sums: Sums,
    block: ChannelBlock,
    rows: Array,
    local: Array,
    residue: Ints,
    behind: Behind,
    lines: Sequence[TapAxis],
    groups: int,
    phase: Ints | None,
) -> None:
    """Add the taps of one convolution for some output channels at one residue."""
    w = block.filter
    if w is None:
        return
    if w.shape[0] != groups or w.shape[2] != sums.shape[1]:
        raise Unreadable("the convolutions' groups differ")
    each = sums.shape[0] // groups
    if (local // w.shape[1] != rows // each).any():
        raise Unreadable("the channels of the groups are interleaved")
    part = w[local // w.shape[1], local % w.shape[1]]
    places = [
        [(t, k + residue[a] - line.low) for t, k in _reached(block, behind.signals[a], a, p)]
        for a, (line, p) in enumerate(zip(lines, phase or (0,) * len(lines), strict=True))
    ]
    for combination in itertools.product(*places):
        taps, at = zip(*combination, strict=True)
        sums.add(rows, at, part[(slice(None), slice(None), *taps)])


def spelled(used: Array, line: TapAxis) -> tuple[Ints, int, int, int, int]:
    """Return an axis as OpenVINO spells it: taps (-1: a zero), dilation, pads, output_padding.

    `used` are the taps that are needed: the sub-pixel forms pad theirs with zeros. A begin below 0
    has no legal spelling, nor an output_padding of a stride or more: zero taps take their place.
    """
    apart = math.gcd(*(int(u - used[0]) for u in used)) or 1
    first, last = int(used[0]), int(used[-1])
    first -= -(-max(line.low + first, 0) // apart) * apart
    begin = -(line.low + first)
    end = last + line.low - line.stride + 1 - line.excess  # O = S(I-1) + K - begin - end
    longer = -(-max(-end - line.stride + 1, 0) // apart) * apart
    last, end = last + longer, end + longer
    taps = tuple(t if 0 <= t < line.size else -1 for t in range(first, last + 1, apart))
    return taps, apart, begin, max(end, 0), max(-end, 0)


def _taken(filter: Array, axis: int, taps: Ints) -> Array:
    """Return a filter at some taps of an axis, -1 giving zeros."""
    out = filter.take([max(t, 0) for t in taps], axis)
    blank = [i for i, t in enumerate(taps) if t < 0]
    out[(slice(None),) * axis + (blank,)] = 0
    return out
