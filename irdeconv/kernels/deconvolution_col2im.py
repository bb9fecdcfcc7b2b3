"""Tables for compiled col2im, and the cost of col2im with NumPy.

A row of the output is the sum, over the *pairs* of (input row, row of taps) that reach it, of the
same few sums along the row; those are described by *entries*, eight outputs of a residue at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import deconvolution, jit
from irdeconv.kernels.candidate import Candidate, ConvProblem, Estimate
from irdeconv.kernels.deconvolution import OutputBlock
from irdeconv.kernels.jit import LANES
from irdeconv.kernels.products import CALL


@dataclass(frozen=True)
class AxisTerms:
    """Some outputs of an axis and the inputs that they need, each counted from the first one.

    Input s reaches output s*S + landings[k] through tap k, which takes the inputs below limits[k];
    so blocks that lie elsewhere are often alike.
    """

    stride: int
    outputs: int
    inputs: int
    landings: tuple[int, ...]
    limits: tuple[int, ...]

    @staticmethod
    def of_tiles(part: deconvolution.OutputSpan, tile: int) -> AxisTerms:
        """Return the terms if they are the coefficients of the products of tiles of inputs.

        Tap e * residues + r is coefficient e of residue r; it assumes shift 1.
        """
        a, count = part.axis, -(-part.inputs // tile)
        landings, limits = [], []
        for e in range(tile + a.counts[0] - 1):
            for r, taps in enumerate(a.counts):
                landings.append((part.first + e) * a.stride + r * a.dilation - a.begin - part.lo)
                # The grown positions of a residue end taps - 1 behind the inputs. Those of tile i
                # and coefficient e lie at first + i * tile + e; behind that end they are zeros.
                reached = a.inputs - part.first + taps - 1 - e
                limits.append(max(0, min(count, -(-reached // tile))))
        size = part.outputs
        return AxisTerms(a.stride * tile, size, count, tuple(landings), tuple(limits))

    @property
    def kernel(self) -> int:
        """The number of taps."""
        return len(self.landings)

    @property
    def residues(self) -> Array:
        """The number of outputs of each residue modulo the stride."""
        return np.maximum(0, -(-(self.outputs - np.arange(self.stride)) // self.stride))

    def contributions(self) -> tuple[Array, Array, Array]:
        """Return the number of terms that reach each output, and their taps and inputs in order."""
        at = np.array(self.landings)
        low, high = -(at // self.stride), (self.outputs - 1 - at) // self.stride + 1
        taps, inputs = _ranges(np.maximum(0, low), np.minimum(self.limits, high))
        outputs = at[taps] + inputs * self.stride
        # Stable: the terms of an output stay in the order of taps, so its sum has one order.
        order = np.argsort(outputs, kind="stable")
        return np.bincount(outputs, minlength=self.outputs), taps[order], inputs[order]

    def runs(self) -> tuple[Array, Array, Array, Array]:
        """Return for each tap its residue, its shift there, and the range of its outputs."""
        # Rounded down: a tap that lands in front of the outputs has a negative shift.
        shifts, residues = np.divmod(self.landings, self.stride)
        high = np.minimum(self.residues[residues], shifts + self.limits)
        return residues, shifts, np.maximum(0, shifts), high

    def entries(self) -> tuple[Array, tuple[Array, ...]]:
        """Return the start of the entries of each eight outputs of a residue, and the entries."""
        residues, shifts, low, high = self.runs()
        # A run of a tap seldom begins with a vector, so its first and last entry have lanes that it
        # does not reach; the compiled code drops those.
        vectors = -(-self.residues // LANES)
        taps, vector = _ranges(low // LANES, np.where(low < high, -(-high // LANES), 0))
        places = (np.cumsum(vectors) - vectors)[residues[taps]] + vector
        order = np.argsort(places, kind="stable")
        taps, at = taps[order], vector[order] * LANES
        lanes = np.maximum(0, low[taps] - at), np.minimum(LANES, high[taps] - at)
        first = _starts(np.bincount(places, minlength=int(vectors.sum())))
        return first, (taps, at - shifts[taps], *lanes)


def _ranges(low: Array, high: Array) -> tuple[Array, Array]:
    """Return for each integer of the ranges `low..high` its range's number, and the integer."""
    sizes = np.maximum(0, high - low)
    which = np.repeat(np.arange(len(sizes)), sizes)
    return which, np.arange(len(which)) + (low - np.cumsum(sizes) + sizes)[which]


def _starts(counts: Array) -> Array:
    """Return the starts of some runs, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@dataclass(frozen=True)
class BlockTerms:
    """The terms that reach the rows of a block.

    For each output row: its first pair and its place behind the block's first output. For each
    pair: the tap, and the start of its input row. Entries: for each eight outputs of a residue the
    first one of theirs; each has a tap, the place of its first input in the input's row, the first
    lane that it reaches and the lane behind the last one. `width` is negative if the rows are
    not adjacent.
    """

    first_pair: Array
    row_starts: Array
    pair_taps: Array
    pair_inputs: Array
    width: int
    stride: int
    first_entry: Array
    entries: tuple[Array, ...]

    @property
    def room(self) -> int:
        """The number of sums of a row's residue that the compiled loop writes: whole vectors."""
        return -(-abs(self.width) // (self.stride * LANES)) * LANES

    @property
    def sums(self) -> int:
        """The number of sums of a row that the compiled loop writes."""
        return self.stride * self.room

    def rows(self, taps: Array) -> tuple[Array, ...]:
        """Return the loop's tables for all rows; `taps` are the places of the taps' terms."""
        return self.first_pair, self.row_starts, taps[self.pair_taps] + self.pair_inputs

    def row(self, taps: Array) -> tuple[Any, ...]:
        """Return the loop's tables for each row; `taps` are the places of the taps' terms."""
        tap, inputs, *lanes = self.entries
        entries = taps[tap] + inputs, *lanes
        return self.width, self.stride, self.first_entry, self._vectors(), entries

    def _vectors(self) -> Array:
        """Return the places of each eight outputs among the sums."""
        outputs = abs(self.width) - np.arange(self.stride)
        counts = np.maximum(0, -(-outputs // (self.stride * LANES)))
        residues, nth = _ranges(np.zeros_like(counts), counts)
        places: Array = residues * self.room + nth * LANES
        return places

    @staticmethod
    def of(axes: Sequence[AxisTerms], sizes: Sequence[int]) -> BlockTerms:
        """Return the terms of a box of outputs in a plane of these sizes."""
        *outer, last = axes
        counts, taps, inputs, starts = np.ones(1, np.int64), *np.zeros((3, 1), np.int64)
        for axis, size in zip(outer, sizes, strict=False):
            taps, inputs = _combined(counts, taps, inputs, axis)
            counts = np.outer(counts, axis.contributions()[0]).ravel()
            starts = (starts[:, None] * size + np.arange(axis.outputs)).ravel()
        starts *= sizes[-1]
        first_entry, entries = last.entries()
        return BlockTerms(
            first_pair=_starts(counts),
            row_starts=starts,
            pair_taps=taps * last.kernel,
            pair_inputs=inputs * last.inputs,
            width=last.outputs if (np.diff(starts) == last.outputs).all() else -last.outputs,
            stride=last.stride,
            first_entry=first_entry,
            entries=entries,
        )


def _combined(counts: Array, taps: Array, inputs: Array, axis: AxisTerms) -> tuple[Array, Array]:
    """Return the taps and inputs of pairs, `counts` of each row, with those of a further axis."""
    axis_counts, axis_taps, axis_inputs = axis.contributions()
    pairs = np.outer(counts, axis_counts).ravel()
    row, nth = _ranges(np.zeros_like(pairs), pairs)
    outer, inner = np.divmod(row, len(axis_counts))
    a = _starts(counts)[outer] + nth // axis_counts[inner]
    b = _starts(axis_counts)[inner] + nth % axis_counts[inner]
    return taps[a] * axis.kernel + axis_taps[b], inputs[a] * axis.inputs + axis_inputs[b]


def halves() -> int:
    """Return the number of the processor's vectors in one of the compiled loop, at least one."""
    return max(1, LANES // jit.lanes())


def block_terms(problem: ConvProblem, blocks: Iterable[Sequence[AxisTerms]]) -> list[BlockTerms]:
    """Return the terms of the rows of blocks in the output or in tiles; alike ones share them."""
    known: dict[tuple[AxisTerms, ...], BlockTerms] = {}
    terms = []
    for axes in map(tuple, blocks):
        if axes not in known:
            sizes = [axis.outputs for axis in axes] if problem.narrow else problem.sizes
            known[axes] = BlockTerms.of(axes, sizes)
        terms.append(known[axes])
    return terms


def start_of(problem: ConvProblem, block: OutputBlock, channel: int) -> int:
    """Return the start of a block's sums in the output, or in a tile of their own."""
    if problem.narrow:
        return 0
    at = int(block.images.start) * problem.outputs + channel
    for part, size in zip(block.parts, problem.sizes, strict=True):
        at = at * size + part.lo
    return at


def steps_of(problem: ConvProblem, block: OutputBlock, channels: int) -> tuple[int, int]:
    """Return the distances of images and planes of sums, of which a tile has `channels`."""
    if problem.narrow:  # a tile of their own
        plane = math.prod(p.outputs for p in block.parts)
        return channels * plane, plane
    plane = math.prod(problem.sizes)
    return problem.outputs * plane, plane


@dataclass
class Passes:
    """Counts of a kernel's work: elements of f32 unless said otherwise.

    `product`: nanoseconds that its products alone would take; `items` of work; `calls` of NumPy;
    `copied`; `rows` of copies, sums and stores, the innermost loops; `written` to places beside
    each other's; `filled` with zeros, if no tap reaches them; `added`.
    """

    product: float = 0
    items: float = 0
    calls: float = 0
    copied: float = 0
    rows: float = 0
    written: float = 0
    filled: float = 0
    added: float = 0

    def fill(self, block: OutputBlock, channels: int, times: float) -> None:
        """Count the zeros of a block that has positions which no tap reaches."""
        if not block.covered:
            size = math.prod(part.outputs for part in block.parts)
            self.filled += times * block.count * channels * size

    def add(self, other: Passes, times: float) -> None:
        """Count another's work so many times."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + times * value)

    def nanoseconds(self, rates: NumpyRates) -> float:
        """Return the estimated time."""
        return float(sum(value * getattr(rates, name) for name, value in vars(self).items()))

    def candidate(
        self, name: str, rates: NumpyRates, scratch: int, prepare: Callable[..., Any]
    ) -> Candidate:
        """Return a candidate with this work's cost."""
        estimate = Estimate(rates, self.nanoseconds)
        items = max(1, round(self.items))
        return Candidate(name, estimate.cost, scratch, prepare, items=items, estimate=estimate)


@dataclass(frozen=True, kw_only=True)
class NumpyRates:
    """Nanoseconds of one of each count in `Passes`."""

    product: float = 1.0
    items: float = 5000.0
    calls: float = CALL
    copied: float = 0.2
    rows: float = 13.0
    written: float = 0.35
    filled: float = 0.06
    added: float = 0.2


PHASES = NumpyRates(
    product=1.01,
    items=5910,
    calls=1680,
    copied=0.0798,
    rows=0.995,
    written=0.271,
    filled=0.0425,
    added=0.2,
)
TERMS = NumpyRates(
    product=0.991,
    items=5570,
    calls=326,
    copied=0.204,
    rows=1.92,
    written=0.247,
    filled=0.0356,
    added=0.0684,
)
WIDE = NumpyRates(
    product=1.051,
    items=11870,
    calls=4423,
    copied=0.1125,
    rows=3.86,
    written=0.1325,
    filled=0.06,
    added=0.2,
)
