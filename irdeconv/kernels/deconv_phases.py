"""Deconvolution by exact phases: every residue of the output as a convolution of stride 1.

All residues read the same shifts of the input, so one buffer of shifted copies (each a flat run of
zero-padded planes) serves them; residues with equally many taps share one matrix product
`[residues*M, taps*C] @ [taps*C, block]`, and each residue is written once.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from irdeconv.kernels import residues as geo
from irdeconv.kernels.prepared import Candidate, Epilogue, Kernel, Windows
from irdeconv.kernels.products import CALL, matrix, multiply, pitch, product_cost
from irdeconv.kernels.team import Space, Team
from irdeconv.spec import Array

BLOCK = 1 << 20  # bytes of shifted copies
Shift = tuple[int, ...]


@dataclass(frozen=True)
class _Family:
    """Residues with equally many taps: which, and where their shifts lie among the copies."""

    members: list[Shift]
    taps: list[Shift]
    start: int


def _families(axes: tuple[geo.Axis, ...]) -> tuple[list[_Family], list[Shift]]:
    """Return the families and an order of the copies in which each finds its own side by side."""
    members: dict[Shift, list[Shift]] = {}
    for r in geo.residues(axes):
        members.setdefault(tuple(a.counts[i] for a, i in zip(axes, r, strict=True)), []).append(r)
    order: list[Shift] = []
    families = []
    for counts in sorted(members, key=math.prod, reverse=True):
        wanted = set(np.ndindex(*counts))
        size = len(wanted)
        start = next(
            (i for i in range(len(order) - size + 1) if set(order[i : i + size]) == wanted), None
        )
        if start is None:
            start = len(order)
            order += _in_order(wanted, axes)
        families.append(_Family(members[counts], order[start : start + size], start))
    return families, order


def _in_order(wanted: set[Shift], axes: tuple[geo.Axis, ...]) -> list[Shift]:
    """Order shifts so that those without the last one of an axis are adjacent (up to two axes)."""
    last = [a.counts[0] - 1 if a.counts[-1] < a.counts[0] else -1 for a in axes]

    def place(q: Shift) -> tuple[int, Shift]:
        outer = len(q) > 1 and q[0] == last[0]
        inner = q[-1] == last[-1]
        return (1 if not outer and not inner else 0 if not inner else 3 if outer else 2), q

    return sorted(wanted, key=place)


class _Phases:
    """The kernel: `filters[group][family]` is `[residues * M/g, taps * C/g]`."""

    def __init__(self, windows: Windows, blocks: list[geo.Block], w: Array) -> None:
        self.windows, self.blocks = windows, blocks
        self.axes = geo.axes_of(windows)
        self.families, self.order = _families(self.axes)
        self.filters = [
            [self._filter(w[g], f) for f in self.families] for g in range(windows.groups)
        ]

    def _filter(self, w: Array, family: _Family) -> Array:
        c, m = w.shape[:2]
        f = np.empty((len(family.members), m, len(family.taps), c), w.dtype)
        for (i, r), (j, q) in itertools.product(
            enumerate(family.members), enumerate(family.taps)
        ):
            k = tuple(a + b * axis.step for a, b, axis in zip(r, q, self.axes, strict=True))
            f[i, :, j] = w[(slice(None), slice(None), *k)].T
        return f.reshape(len(family.members) * m, -1)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        m = self.windows.outputs // self.windows.groups

        def work(item: tuple[geo.Block, int], space: Space) -> None:
            block, group = item
            channels = slice(group * m, (group + 1) * m)
            tile = block.box(out)[:, channels]
            if not block.covered:
                tile[...] = 0
            if not block.empty:
                copies = self._copies(x, block, group, space)
                for family, w in zip(self.families, self.filters[group], strict=True):
                    self._family(copies, family, w, block, tile, space)
            geo.finish_block(out, block, channels, epilogue)

        team.each(itertools.product(self.blocks, range(self.windows.groups)), work)

    def _copies(self, x: Array, block: geo.Block, group: int, space: Space) -> Array:
        """Return `[shifts, C/g, columns]`: the padded inputs, read some positions back."""
        c, width = self.windows.shape[1] // self.windows.groups, block.columns
        host = matrix(space, len(self.order) * c, width, x.dtype)
        copies = host.reshape(len(self.order), c, width)
        origin = self.order.index((0,) * len(self.axes))
        part = block.inputs(x[:, group * c : (group + 1) * c])
        geo.pad(part, block, copies[origin].reshape(c, block.count, *block.grid))
        for i, q in enumerate(self.order):
            if i != origin:
                offset = min(block.offset(q), width)
                copies[i, :, :offset] = 0
                copies[i, :, offset:] = copies[origin, :, : width - offset]
        return host

    def _family(
        self,
        copies: Array,
        family: _Family,
        w: Array,
        block: geo.Block,
        tile: Array,
        space: Space,
    ) -> None:
        c = self.windows.shape[1] // self.windows.groups
        m = tile.shape[1]
        skip = _halo_columns(block)
        right = copies[family.start * c : (family.start + len(family.taps)) * c, skip:]
        # The columns before `skip` are only read by shifts; nothing is written from there.
        host = matrix(space, w.shape[0], copies.shape[1], copies.dtype)
        multiply(w, right, host[:, skip:])
        planes = host.reshape(len(family.members), m, block.count, *block.grid)
        for plane, r in zip(planes, family.members, strict=True):
            geo.put(plane, r, block, tile)


def _halo_columns(block: geo.Block) -> int:
    """Return how many leading columns of a block belong to no output."""
    if block.count > 1:
        return 0
    lead = block.parts[0].start - block.parts[0].first
    return int(lead * math.prod(block.grid[1:]))


def phases_candidates(windows: Windows) -> list[Candidate]:
    """Return the kernel of exact phases."""
    axes = geo.axes_of(windows)
    families, order = _families(axes)
    c, m = windows.shape[1] // windows.groups, windows.outputs // windows.groups
    room = BLOCK // windows.itemsize // (c * len(order))
    blocks = geo.split(windows, max(room, 128))
    cost, most = 0.0, 0
    for block in blocks:
        width = block.columns
        most = max(most, width)
        row = max(1, block.grid[-1])
        cost += c * width * (0.15 + 6.0 / row) + 0.14 * c * width * (len(order) - 1)
        cost += 2 * CALL * len(order)
        for f in families:
            rows = len(f.members) * m
            cost += product_cost(rows, len(f.taps) * c, width - _halo_columns(block))
            cost += rows * width * (0.24 + 9.0 / row) + CALL * len(f.members)
    rows = max(len(f.members) for f in families) * m
    scratch = windows.itemsize * (
        pitch(most, windows.dtype) * (c * len(order) + rows) + windows.groups * c * m * windows.taps
    )

    def prepare(w: Array) -> Kernel:
        return _Phases(windows, blocks, w)

    return [Candidate("phases", cost * windows.groups, scratch, prepare)]
