"""What the compiled deconvolution kernels are told: which terms reach which rows of the output.

A row of the output is the sum, over the *pairs* of (input row, row of taps) that reach it, of the
same few sums along the row; those are described by *entries*, eight outputs of a residue at a time.
"""

from __future__ import annotations

import itertools
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
class Places:
    """What reaches the rows of a block.

    For each output row: where its pairs begin and where it lies in the plane. For each pair: the
    tap, and where its input row begins. Entries: for each eight outputs of a residue where theirs
    begin; each has a tap, the place of its first input in the input's row, the first lane that it
    reaches and the lane behind the last one. `width` is negative where the rows are not adjacent.
    """

    first: Array
    to: Array
    pair_taps: Array
    pair_at: Array
    width: int
    first_entry: Array
    entries: tuple[Array, ...]

    @cached_property
    def single(self) -> bool:
        """Whether each output is one term."""
        pairs, entries = np.diff(self.first), np.diff(self.first_entry)
        lanes = int((self.entries[3] - self.entries[2]).sum())
        return bool((pairs == 1).all() and (entries == 1).all() and lanes == abs(self.width))

    @cached_property
    def _far(self) -> dict[int, tuple[Array, tuple[Array, ...]]]:
        return {}

    def far(self, tap: int) -> tuple[Array, tuple[Array, ...]]:
        """Return how far away pairs lie, and the entries, where taps are `tap` elements apart."""
        if tap not in self._far:
            start = self.entries[0] * tap + self.entries[1]
            pairs = self.pair_taps * tap + self.pair_at
            self._far[tap] = pairs, (start, *self.entries[2:])
        return self._far[tap]

    @staticmethod
    def of(parts: Sequence[geo.Part], sizes: Sequence[int], apart: bool) -> Places:
        """Find it for a box of outputs in a plane of these sizes, or for a copy of the box."""
        lows = [0 if apart else p.lo for p in parts]
        sizes = [p.hi - p.lo for p in parts] if apart else sizes
        lines = [_contributions(p) for p in parts[:-1]]
        first, to, taps, places = [0], [], [], []
        for row in itertools.product(*(range(len(p)) for p in lines)):
            for found in itertools.product(*(p[o] for p, o in zip(lines, row, strict=True))):
                tap = at = 0
                for (k, s), part in zip(found, parts, strict=False):
                    tap, at = tap * part.axis.kernel + k, at * part.inputs + s
                taps.append(tap * parts[-1].axis.kernel)
                places.append(at * parts[-1].inputs)
            first.append(len(taps))
            at = 0
            for o, lo, size in zip(row, lows, sizes, strict=False):
                at = at * size + o + lo
            to.append(at * sizes[-1] + lows[-1])
        width = parts[-1].hi - parts[-1].lo
        follow = bool((np.diff(to) == width).all())
        a, b, c, d = (np.array(v, np.int64) for v in (first, to, taps, places))
        return Places(a, b, c, d, width if follow else -width, *_entries(parts[-1]))


def _contributions(part: geo.Part) -> list[list[tuple[int, int]]]:
    """Return for each output which (tap, input) reach it, inputs counted from the part's first."""
    a, found = part.axis, []
    for o in range(part.lo, part.hi):
        reach = [(k, *divmod(o + a.begin - k * a.dilation, a.stride)) for k in range(a.kernel)]
        inside = [(k, s) for k, s, rest in reach if not rest and part.first <= s < part.last]
        found.append([(k, s - part.first) for k, s in inside])
    return found


def _entries(part: geo.Part) -> tuple[Array, tuple[Array, ...]]:
    """Return where the entries of each eight outputs of a residue begin, and the entries."""
    a, width = part.axis, part.hi - part.lo
    runs: list[list[tuple[int, int, int, int]]] = [[] for _ in range(a.stride)]
    for k in range(a.kernel):
        shift, f = divmod(k * a.dilation - a.begin - part.lo, a.stride)
        lo = max(0, shift + part.first)
        hi = min(-(-(width - f) // a.stride), shift + part.last)
        if lo < hi:
            runs[f].append((k, shift + part.first, lo, hi))
    first, entries = [0], []
    for f, found in enumerate(runs):
        for at in range(0, -(-(width - f) // a.stride), LANES):
            for k, shift, lo, hi in found:
                if lo < at + LANES and hi > at:
                    entries.append((k, at - shift, max(0, lo - at), min(LANES, hi - at)))
            first.append(len(entries))
    flat = np.array(entries, np.int64).reshape(-1, 4)
    return np.array(first, np.int64), tuple(np.ascontiguousarray(flat[:, i]) for i in range(4))


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
    blocks: list[geo.Block]
    chunks: list[Chunk]

    @property
    def in_channels(self) -> int:
        """C/g."""
        return self.windows.shape[1] // self.windows.groups

    @property
    def out_channels(self) -> int:
        """M/g."""
        return self.windows.outputs // self.windows.groups

    @cached_property
    def places(self) -> list[Places]:
        """What reaches the rows of each block."""
        known: dict[Any, Places] = {}
        for block in self.blocks:
            if block.parts not in known:
                sizes, apart = self.windows.sizes, self.windows.narrow
                known[block.parts] = Places.of(block.parts, sizes, apart)
        return [known[b.parts] for b in self.blocks]


def columns(block: geo.Block) -> int:
    """Return how many inputs a block needs."""
    return block.count * math.prod(p.inputs for p in block.parts)
