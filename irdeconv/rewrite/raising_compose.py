"""Composing one deconvolution of the parts around convolutions.

What a convolution of a decomposition is computed with: its pads and its filter.

Filter elements that collect others, summed so that it is known whether rounding took part.

Compose what stands before, in and behind convolutions into one deconvolution.

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
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import as_tuple
from irdeconv.ir.spec import Array
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.rewrite.raising_tensor import Signal, Size, Unreadable

LONGEST = 24  # nodes in front of or behind a convolution, or on the way to a constant


def pads_of(
    op: ConvolutionBase, spans: Sequence[int], producer: str, signals: Sequence[Signal]
) -> list[tuple[int, int]]:
    """Return the pads of a convolution; Unreadable where OpenVINO takes others.

    `spans` are D(K-1), `producer` is the type of the layer in front, `signals` are what it reads.
    """
    if op.auto_pad == "valid":
        return [(0, 0) for _ in spans]
    if op.auto_pad in ("same_upper", "same_lower"):
        if max(op.strides, default=1) > 1:
            raise Unreadable("the pads of a convolution with a stride follow from the size")
        # A ZeroInsertion is written with a Pad at its end.
        if producer in ("Pad", "ZeroInsertion") and None in [s.size.number for s in signals]:
            raise Unreadable("automatic pads behind a Pad of open sizes: OpenVINO forgets them")
        small = [n // 2 for n in spans]
        rows = [(h, n - h) for h, n in zip(small, spans, strict=True)]
        return rows if op.auto_pad == "same_upper" else [(q, p) for p, q in rows]
    zeros = (0,) * len(spans)
    pads = list(zip(op.pads_begin or zeros, op.pads_end or zeros, strict=True))
    if min(map(min, pads), default=0) < 0:
        raise Unreadable("the convolution has negative pads, which OpenVINO refuses")
    return pads


def is_finite(values: Array) -> bool:
    """Whether an array has neither infinities nor NaN."""
    with np.errstate(invalid="ignore"):  # of signalling NaN
        return bool(np.isfinite(values.astype(np.float64)).all())


def folded(graph: Graph, value: Value, depth: int = 0) -> Array | None:
    """Return a value that is computed from constants alone, None for any other."""
    array = constant(graph, value)
    node = graph.node(value.node)
    inputs = graph.inputs_of(node.id)
    if array is not None or not inputs or depth > LONGEST or not node.op.pure:
        return array
    arrays = [folded(graph, v, depth + 1) for v in inputs]
    if any(a is None for a in arrays):
        return None
    try:
        made: Array = as_tuple(node.op.evaluate(*arrays))[value.port]
    except (OpError, ValueError, TypeError, IndexError):
        return None
    return made


class Sums:
    """A filter (M, C/g, *K) into which elements are added, with the error of every sum.

    Floating-point elements are summed as a pair of doubles (Knuth's two-sum), of which the second
    one holds what the first one could not.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.integral = dtype.kind in "iub"
        self.high: Array = np.zeros(shape, np.int64 if self.integral else np.float64)
        self.low: Array = np.zeros(shape)
        self.lost = np.zeros(shape, bool)
        self.hits: Array = np.zeros((shape[0], *shape[2:]), np.int64)
        self.exact = True

    @property
    def count(self) -> int:
        """The largest number of elements in one sum."""
        return int(self.hits.max(initial=0))

    def add(self, rows: Array, at: Sequence[int], values: Array) -> None:
        """Add values (rows, C/g) to the tap `at` of some output channels."""
        where: Any = (rows, slice(None), *at)
        taps: Any = (rows, *at)
        fresh = (self.hits[taps] == 0)[:, None]
        self.hits[taps] += 1
        wide = values.astype(self.high.dtype)
        if fresh.all():
            self.high[where] = wide
            return
        if self.integral:
            self.high[where] += wide
            return
        with np.errstate(all="ignore"):
            self._add(where, np.where(fresh, 0.0, self.high[where]), wide)

    def _add(self, where: Any, old: Array, new: Array) -> None:
        total, error = _two_sum(old, new)
        low, lost = _two_sum(self.low[where], np.where(np.isfinite(total), error, 0))
        self.high[where], self.low[where] = total, low
        self.lost[where] |= lost != 0

    def result(self) -> Array:
        """Return the sums in the filter's type; Unreadable where one does not fit it."""
        with np.errstate(all="ignore"):
            total = self.high if self.integral else self.high + self.low
            out = total.astype(self.dtype)
            wide = out.astype(self.high.dtype)
        if self.integral:
            if (wide != self.high).any():
                raise Unreadable("a sum of filter elements does not fit its type")
            return out
        finite = np.isfinite(self.high)
        if not np.isfinite(wide[finite]).all():
            raise Unreadable("a sum of filter elements does not fit its type")
        exact = (wide == self.high) & (self.low == 0) & ~self.lost
        self.exact = bool(exact[finite].all())
        return out


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its exact error."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


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
