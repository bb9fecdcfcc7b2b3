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

from irdeconv.kernels import residues as geo
from irdeconv.kernels.prepared import Windows
from irdeconv.spec import Array

LANES = 8  # elements of a vector; the compiled code reads and writes that many around a row


@dataclass(frozen=True)
class Line:
    """Some outputs of an axis and the inputs that they need, each counted from the first one.

    Output t is the sum of the inputs s with t + offset = s*S + k*D; so blocks that lie elsewhere
    are often alike.
    """

    kernel: int
    stride: int
    dilation: int
    outputs: int
    inputs: int
    offset: int

    @staticmethod
    def of(part: geo.Part) -> Line:
        """Find it for a part of an axis."""
        a = part.axis
        offset = part.lo + a.begin - part.first * a.stride
        return Line(a.kernel, a.stride, a.dilation, part.hi - part.lo, part.inputs, offset)

    @property
    def residues(self) -> Array:
        """How many outputs each residue modulo the stride has."""
        return np.maximum(0, -(-(self.outputs - np.arange(self.stride)) // self.stride))

    def contributions(self) -> tuple[Array, Array, Array]:
        """Return how many terms reach each output, and their taps and inputs in order."""
        at = np.arange(self.kernel) * self.dilation - self.offset  # where input 0 lands
        low, high = -(at // self.stride), (self.outputs - 1 - at) // self.stride + 1
        taps, inputs = _ranges(np.maximum(0, low), np.minimum(self.inputs, high))
        outputs = at[taps] + inputs * self.stride
        order = np.argsort(outputs, kind="stable")
        return np.bincount(outputs, minlength=self.outputs), taps[order], inputs[order]

    def runs(self) -> tuple[Array, Array, Array, Array]:
        """Return for each tap its residue, its shift there, and which outputs of it are reached."""
        shifts, residues = np.divmod(
            np.arange(self.kernel) * self.dilation - self.offset, self.stride
        )
        high = np.minimum(self.residues[residues], shifts + self.inputs)
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
class Places:
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

    def far(self, tap: int) -> tuple[Array, tuple[Array, ...]]:
        """Return how far away pairs lie, and the entries, where taps are `tap` elements apart."""
        start = self.entries[0] * tap + self.entries[1]
        return self.pair_taps * tap + self.pair_at, (start, *self.entries[2:])

    def vectors(self, stride: int, room: int) -> Array:
        """Return where each eight outputs belong where residues are `room` elements apart."""
        width = abs(self.width)
        sizes = np.maximum(0, -(-(width - np.arange(stride)) // (stride * LANES)))
        residues, nth = _ranges(np.zeros_like(sizes), sizes)
        places: Array = residues * room + nth * LANES
        return places

    @staticmethod
    def of(lines: Sequence[Line], sizes: Sequence[int]) -> Places:
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
        return Places(*pairs, width, single, *last.entries())


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
class Layout:
    """How the work is cut: blocks of outputs, then groups or channels of one group at a time."""

    windows: Windows
    blocks: geo.Cut
    chunks: list[Chunk]

    @property
    def in_channels(self) -> int:
        """C/g."""
        return self.windows.shape[1] // self.windows.groups

    @property
    def out_channels(self) -> int:
        """M/g."""
        return self.windows.outputs // self.windows.groups

    @property
    def items(self) -> int:
        """How many pieces of work there are."""
        return len(self.blocks) * len(self.chunks)

    @cached_property
    def places(self) -> list[Places]:
        """What reaches the rows of each block; blocks that are alike share it."""
        known: dict[Any, Places] = {}
        found = []
        for block in self.blocks:
            lines = tuple(Line.of(p) for p in block.parts)
            if lines not in known:
                apart = [line.outputs for line in lines]
                known[lines] = Places.of(
                    lines, apart if self.windows.narrow else self.windows.sizes
                )
            found.append(known[lines])
        return found


def columns(block: geo.Block) -> int:
    """Return how many inputs a block needs."""
    return block.count * math.prod(p.inputs for p in block.parts)
