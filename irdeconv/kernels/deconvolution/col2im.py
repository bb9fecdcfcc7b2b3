"""What the compiled deconvolution kernels are told: which terms reach which rows of the output.

A row of the output is the sum, over the *pairs* of (input row, row of taps) that reach it, of the
same few sums along the row; those are described by *entries*, eight outputs of a residue at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from irdeconv.kernels.compiled import LANES
from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import Blocking, OutputBlock
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.spec import Array


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
    def of(part: geo.OutputSpan) -> AxisTerms:
        """Find it for a part of an axis."""
        a = part.axis
        origin = part.first * a.stride - a.begin - part.lo
        landings = tuple(range(origin, origin + a.kernel * a.dilation, a.dilation))
        limits = (part.inputs,) * a.kernel
        return AxisTerms(a.stride, part.outputs, part.inputs, landings, limits)

    @staticmethod
    def of_tiles(part: geo.OutputSpan, tile: int) -> AxisTerms:
        """Find it where coefficients of the products of tiles of inputs are the terms.

        Tap e * residues + r is coefficient e of residue r; those of shift 1 are supposed.
        """
        a, count = part.axis, -(-part.inputs // tile)
        landings, limits = [], []
        for e in range(tile + a.counts[0] - 1):
            for r, taps in enumerate(a.counts):
                landings.append((part.first + e) * a.stride + r * a.dilation - a.begin - part.lo)
                own = a.inputs - part.first + taps - 1 - e
                limits.append(max(0, min(count, -(-own // tile))))
        size = part.outputs
        return AxisTerms(a.stride * tile, size, count, tuple(landings), tuple(limits))

    @property
    def kernel(self) -> int:
        """How many taps there are."""
        return len(self.landings)

    @property
    def residues(self) -> Array:
        """How many outputs each residue modulo the stride has."""
        return np.maximum(0, -(-(self.outputs - np.arange(self.stride)) // self.stride))

    def contributions(self) -> tuple[Array, Array, Array]:
        """Return how many terms reach each output, and their taps and inputs in order."""
        at = np.array(self.landings)
        low, high = -(at // self.stride), (self.outputs - 1 - at) // self.stride + 1
        taps, inputs = _ranges(np.maximum(0, low), np.minimum(self.limits, high))
        outputs = at[taps] + inputs * self.stride
        order = np.argsort(outputs, kind="stable")
        return np.bincount(outputs, minlength=self.outputs), taps[order], inputs[order]

    def runs(self) -> tuple[Array, Array, Array, Array]:
        """Return for each tap its residue, its shift there, and which outputs of it are reached."""
        shifts, residues = np.divmod(self.landings, self.stride)
        high = np.minimum(self.residues[residues], shifts + self.limits)
        return residues, shifts, np.maximum(0, shifts), high

    def entries(self) -> tuple[Array, tuple[Array, ...]]:
        """Return where the entries of each eight outputs of a residue begin, and the entries."""
        residues, shifts, low, high = self.runs()
        vectors = -(-self.residues // LANES)
        taps, found = _ranges(low // LANES, np.where(low < high, -(-high // LANES), 0))
        places = (np.cumsum(vectors) - vectors)[residues[taps]] + found
        order = np.argsort(places, kind="stable")
        taps, at = taps[order], found[order] * LANES
        lanes = np.maximum(0, low[taps] - at), np.minimum(LANES, high[taps] - at)
        first = _starts(np.bincount(places, minlength=int(vectors.sum())))
        return first, (taps, at - shifts[taps], *lanes)

    @property
    def single(self) -> bool:
        """Whether all outputs of each residue are one term, of the same tap."""
        residues, _, low, high = self.runs()
        reached, wanted = low < high, self.residues
        times = np.bincount(residues[reached], minlength=self.stride)
        whole = (low == 0) & (high == wanted[residues])
        return bool((times == (wanted > 0)).all() and whole[reached].all())


def _ranges(low: Array, high: Array) -> tuple[Array, Array]:
    """Return, for every integer of the ranges `low..high` in turn, which range it is of, and it."""
    sizes = np.maximum(0, high - low)
    which = np.repeat(np.arange(len(sizes)), sizes)
    return which, np.arange(len(which)) + (low - np.cumsum(sizes) + sizes)[which]


def _starts(counts: Array) -> Array:
    """Return where each of some runs begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@dataclass(frozen=True)
class BlockTerms:
    """What reaches the rows of a block.

    For each output row: where its pairs begin and where it lies behind the block's first output.
    For each pair: the tap, and where its input row begins. Entries: for each eight outputs of a
    residue where theirs begin; each has a tap, the place of its first input in the input's row, the
    first lane that it reaches and the lane behind the last one. `width` is negative where the rows
    are not adjacent, `single` tells whether each residue of a row is one run of terms.
    """

    first: Array
    to: Array
    pair_taps: Array
    pair_at: Array
    width: int
    single: bool
    first_entry: Array
    entries: tuple[Array, ...]

    def far(self, taps: Array) -> tuple[Array, tuple[Array, ...]]:
        """Return how far away pairs lie, and the entries, where taps lie at `taps`."""
        start = taps[self.entries[0]] + self.entries[1]
        return taps[self.pair_taps] + self.pair_at, (start, *self.entries[2:])

    def vectors(self, stride: int, room: int) -> Array:
        """Return where each eight outputs belong where residues are `room` elements apart."""
        width = abs(self.width)
        sizes = np.maximum(0, -(-(width - np.arange(stride)) // (stride * LANES)))
        residues, nth = _ranges(np.zeros_like(sizes), sizes)
        places: Array = residues * room + nth * LANES
        return places

    @staticmethod
    def of(lines: Sequence[AxisTerms], sizes: Sequence[int]) -> BlockTerms:
        """Find it for a box of outputs in a plane of these sizes."""
        counts, taps, at, to = np.ones(1, np.int64), *(np.zeros(1, np.int64) for _ in range(3))
        for line, size in zip(lines[:-1], sizes, strict=False):
            own, k, s = line.contributions()
            row, nth = _ranges(
                np.zeros(len(counts) * len(own), np.int64), np.outer(counts, own).ravel()
            )
            outer, inner = np.divmod(row, len(own))
            a, b = (
                _starts(counts)[outer] + nth // own[inner],
                _starts(own)[inner] + nth % own[inner],
            )
            taps, at = taps[a] * line.kernel + k[b], at[a] * line.inputs + s[b]
            counts = np.outer(counts, own).ravel()
            to = (to[:, None] * size + np.arange(line.outputs)).ravel()
        last, to = lines[-1], to * sizes[-1]
        width = last.outputs if (np.diff(to) == last.outputs).all() else -last.outputs
        single = bool((counts == 1).all()) and last.single
        pairs = _starts(counts), to, taps * last.kernel, at * last.inputs
        return BlockTerms(*pairs, width, single, *last.entries())


@dataclass(frozen=True)
class Chunk:
    """Groups, and some of the output channels of each, that are computed together."""

    groups: slice
    channels: slice

    @property
    def count(self) -> int:
        """The number of groups."""
        return int(self.groups.stop - self.groups.start)

    @property
    def width(self) -> int:
        """The number of channels of a group."""
        return int(self.channels.stop - self.channels.start)


@dataclass(frozen=True)
class RowLayout:
    """How the work is cut: blocks of outputs, then groups or channels of one group at a time."""

    problem: ConvProblem
    blocks: Blocking
    chunks: list[Chunk]

    @property
    def items(self) -> int:
        """How many pieces of work there are."""
        return len(self.blocks) * len(self.chunks)

    @cached_property
    def places(self) -> list[BlockTerms]:
        """What reaches the rows of each block; blocks that are alike share it."""
        known: dict[Any, BlockTerms] = {}
        found = []
        for block in self.blocks:
            lines = tuple(AxisTerms.of(p) for p in block.parts)
            if lines not in known:
                apart = [line.outputs for line in lines]
                known[lines] = BlockTerms.of(
                    lines, apart if self.problem.narrow else self.problem.sizes
                )
            found.append(known[lines])
        return found


def start_of(problem: ConvProblem, block: OutputBlock, channel: int) -> int:
    """Return where a block's sums begin in the output, or in a tile of their own."""
    if problem.narrow:
        return 0
    at = int(block.images.start) * problem.outputs + channel
    for part, size in zip(block.parts, problem.sizes, strict=True):
        at = at * size + part.lo
    return at


def steps_of(
    problem: ConvProblem, block: OutputBlock, groups: int, channels: int
) -> tuple[int, ...]:
    """Return the distances of images, groups and planes of sums; a group has `channels`."""
    if problem.narrow:  # a tile of their own
        plane = math.prod(p.outputs for p in block.parts)
        return groups * channels * plane, channels * plane, plane
    plane = math.prod(problem.sizes)
    return problem.outputs * plane, problem.group_outputs * plane, plane


def room_of(width: int, stride: int) -> int:
    """Return how many outputs of each residue of a row the compiled code may write."""
    return (width + stride * LANES - 1) // (stride * LANES) * LANES
