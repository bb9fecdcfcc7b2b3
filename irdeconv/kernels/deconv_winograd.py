"""Deconvolution with fewer multiplications: short polynomial products (Winograd, Toom-Cook).

The residues of the output are products of the input with short filters, and they share the input,
so a tile of it is evaluated once for all residues: `[points, t^d] @ [t^d, C * tiles]`, one matrix
product `[residues*M, C] @ [C, tiles]` per point, interpolation as another product, and the tails of
neighbouring tiles are added. The bound of the rounding error, relative to that of a direct sum,
grows per axis by `toom.growth(tile, taps) / taps` and the overlap of two tiles: at 2 taps by 6, 7
and 21 for tiles of 2, 3 and 4. Inf and NaN spread over their tile.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from irdeconv.kernels import residues as geo
from irdeconv.kernels.prepared import Candidate, Epilogue, Kernel, Windows
from irdeconv.kernels.products import CALL, lanes, multiply, pitch, product_cost
from irdeconv.kernels.resampling import trailing
from irdeconv.kernels.team import Space, Team
from irdeconv.kernels.toom import kron, matrices
from irdeconv.spec import Array

EVALUATED = 1 << 22  # bytes of one block's evaluated inputs
PRODUCTS = 1 << 21  # bytes of one chunk's products
SHARED = 1 << 20  # bytes of products from which on threads share them
CHUNKS = 4  # parts of the channels, at least
NARROW = 256  # positions; a block is not smaller
TILES = (2, 3, 4)
MAX_POINTS = 6  # per axis; beyond, the interpolation loses too many digits


@dataclass(frozen=True)
class _Layout:
    """Tiles per axis, blocks of positions, and output channels per chunk."""

    windows: Windows
    axes: tuple[geo.Axis, ...]
    tiles: tuple[int, ...]
    blocks: geo.Cut
    channels: int

    @property
    def points(self) -> tuple[int, ...]:
        """The number of points per axis."""
        return tuple(t + a.counts[0] - 1 for t, a in zip(self.tiles, self.axes, strict=True))

    @property
    def residues(self) -> int:
        """The number of residues of the output."""
        return math.prod(len(a.counts) for a in self.axes)

    def grid(self, block: geo.Block) -> tuple[int, ...]:
        """The number of tiles per axis; the last ones hold the zeros behind each row."""
        return tuple(-(-g // t) for g, t in zip(block.grid, self.tiles, strict=True))

    def columns(self, block: geo.Block) -> int:
        """The number of tiles of a block."""
        return block.count * math.prod(self.grid(block))


class _Winograd:
    """The kernel: `filters[group][chunk]` is `[points, residues * channels, C/g]`."""

    def __init__(self, layout: _Layout, w: Array) -> None:
        self.layout = layout
        self.c = layout.windows.shape[1] // layout.windows.groups
        self.m = layout.windows.outputs // layout.windows.groups
        triples = [matrices(t, a.counts[0]) for t, a in zip(layout.tiles, layout.axes, strict=True)]
        self.evaluate = kron([e for e, _, _ in triples], w.dtype)
        self.interpolate = kron([i for _, _, i in triples], w.dtype)
        taps = [f for _, f, _ in triples]
        step = layout.channels
        self.chunks = [slice(i, min(i + step, self.m)) for i in range(0, self.m, step)]
        self.filters = [
            [self._filter(w[g][:, c], taps) for c in self.chunks] for g in range(len(w))
        ]

    def _filter(self, w: Array, taps: list[Array]) -> Array:
        c, m = w.shape[:2]
        axes = self.layout.axes
        counts = [a.counts[0] for a in axes]
        rows = np.zeros((self.layout.residues, m, c, *counts), np.float64)
        for i, r in enumerate(geo.residues(axes)):
            own = trailing(w, (slice(k, None, a.step) for k, a in zip(r, axes, strict=True)))
            trailing(rows[i], (slice(n) for n in own.shape[2:]))[...] = own.swapaxes(0, 1)
        matrix = kron(taps, np.float64)
        flat = rows.reshape(-1, math.prod(counts))
        values: Array = np.matmul(matrix, flat.T).astype(w.dtype)
        return values.reshape(len(matrix), -1, c)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        used = team.space.used
        for block in self.layout.blocks:
            for group in range(self.layout.windows.groups):
                team.space.release(used)
                self._block(x, out, block, group, epilogue, team)

    def _block(
        self,
        x: Array,
        out: Array,
        block: geo.Block,
        group: int,
        epilogue: Epilogue | None,
        team: Team,
    ) -> None:
        columns = self.layout.columns(block)
        dtype = self.layout.windows.compute
        values = team.space.array((len(self.evaluate), self.c, pitch(columns, dtype)), dtype)
        if not block.empty:
            part = block.inputs(x[:, group * self.c : (group + 1) * self.c])
            step = max(16, -(-self.c // 8))
            pieces = [slice(i, min(i + step, self.c)) for i in range(0, self.c, step)]
            team.each(pieces, lambda c, s: self._evaluate(part[:, c], values[:, c], block, s))

        def work(i: int, space: Space) -> None:
            chunk = self.chunks[i]
            channels = slice(group * self.m + chunk.start, group * self.m + chunk.stop)
            tile = geo.open_tile(out, block, channels, space)
            if not block.empty:
                self._chunk(
                    values[:, :, : lanes(columns)], self.filters[group][i], block, tile, space
                )
            geo.close_tile(tile, out, block, channels, epilogue)

        team.each(range(len(self.chunks)), work)

    def _evaluate(self, part: Array, values: Array, block: geo.Block, space: Space) -> None:
        """Evaluate inputs [images, channels, *]; values are [points, channels, tiles]."""
        grid, tiles = self.layout.grid(block), self.layout.tiles
        channels, width = values.shape[1:]
        host = space.array((math.prod(tiles), channels, width), values.dtype)
        own = math.prod(grid) * block.count
        source = part.swapaxes(0, 1)
        for i, at in enumerate(np.ndindex(*tiles)):
            dest = host[i, :, :own].reshape(channels, block.count, *grid)
            seen = trailing(source, (slice(a, None, t) for a, t in zip(at, tiles, strict=True)))
            for axis, n in enumerate(seen.shape[2:]):
                dest[(slice(None),) * (2 + axis) + (slice(n, None),)] = 0
            trailing(dest, (slice(n) for n in seen.shape[2:]))[...] = seen
            host[i, :, own:] = 0
        flat = values.reshape(len(values), -1, copy=False) if values.flags.forc else None
        if flat is None:
            flat = space.array((len(values), channels * width), values.dtype)
            multiply(self.evaluate, host.reshape(len(host), -1), flat)
            values[...] = flat.reshape(values.shape)
        else:
            multiply(self.evaluate, host.reshape(len(host), -1), flat)

    def _chunk(
        self, values: Array, filters: Array, block: geo.Block, tile: Array, space: Space
    ) -> None:
        rows, width = filters.shape[1], values.shape[2]
        columns = self.layout.columns(block)
        products = space.array((len(filters), rows, width), values.dtype)
        for w, v, p in zip(filters, values, products, strict=True):
            multiply(w, v, p)
        sums = space.array(products.shape, values.dtype)
        flat = sums.reshape(len(sums), -1)
        multiply(self.interpolate, products.reshape(len(sums), -1), flat)
        self._overlap(sums[:, :, :columns], block)
        host = sums[:, :, :columns].reshape(
            *self.layout.points, self.layout.residues, -1, block.count, *self.layout.grid(block)
        )
        self._place(host, block, tile)

    def _overlap(self, sums: Array, block: geo.Block) -> None:
        """Add each tile's tail to the next tile along each axis."""
        grid, tiles, points = self.layout.grid(block), self.layout.tiles, self.layout.points
        host = sums.reshape(*points, *sums.shape[1:], copy=False)
        for e in np.ndindex(*points):
            over = [int(i >= t) for i, t in zip(e, tiles, strict=True)]
            if any(over):
                offset = 0
                for o, size in zip(over, grid, strict=True):
                    offset = offset * size + o
                offset = min(offset, sums.shape[2])
                into = host[tuple(i - o * t for i, o, t in zip(e, over, tiles, strict=True))]
                into[:, offset:] += host[e][:, : sums.shape[2] - offset]

    def _place(self, host: Array, block: geo.Block, tile: Array) -> None:
        axes, tiles = self.layout.axes, self.layout.tiles
        for i, r in enumerate(geo.residues(axes)):
            pairs = [p.reach(k) for p, k in zip(block.parts, r, strict=True)]
            for at in np.ndindex(*tiles):
                cut = [_every(s, d, a, t) for (s, d), a, t in zip(pairs, at, tiles, strict=True)]
                source = trailing(host[(*at, i)], (s for s, _ in cut))
                trailing(tile, (d for _, d in cut))[...] = source.swapaxes(0, 1)


def _every(source: slice, dest: slice, at: int, tile: int) -> tuple[slice, slice]:
    """Restrict positions `source` -> `dest` to those that are `at` modulo the tile."""
    first = -(-(source.start - at) // tile)
    last = -(-(source.stop - at) // tile)
    if last <= first:
        return slice(0, 0), slice(0, 0)
    start = dest.start + (first * tile + at - source.start) * dest.step
    step = dest.step * tile
    return slice(first, last), slice(start, start + (last - first - 1) * step + 1, step)


def winograd_candidates(windows: Windows) -> list[Candidate]:
    """Return kernels of the tile sizes that could pay; none where every tap lands alone."""
    axes = geo.axes_of(windows)
    if any(a.shift > 1 and a.counts[0] > 1 for a in axes) or all(a.counts[0] == 1 for a in axes):
        return []
    choices = [
        [t for t in TILES if t >= a.counts[0] - 1 and t + a.counts[0] - 1 <= MAX_POINTS]
        if a.counts[0] > 1
        else [1]
        for a in axes
    ]
    found = [_candidate(_layout(windows, axes, t)) for t in itertools.product(*choices)]
    return sorted(found, key=lambda c: c.cost)[:3]


def _layout(windows: Windows, axes: tuple[geo.Axis, ...], tiles: tuple[int, ...]) -> _Layout:
    c, m = windows.shape[1] // windows.groups, windows.outputs // windows.groups
    ratio = math.prod((t + a.counts[0] - 1) / t for t, a in zip(tiles, axes, strict=True))
    room = int(EVALUATED / windows.itemsize / ratio / c)
    blocks = geo.split(windows, max(NARROW, room))
    draft = _Layout(windows, axes, tiles, blocks, m)
    most = blocks.most(draft.columns)
    row = math.prod(draft.points) * draft.residues * most * windows.itemsize
    share = m if row * m < SHARED else -(-m // CHUNKS)
    channels = max(1, min(share, PRODUCTS // row))
    return _Layout(windows, axes, tiles, blocks, -(-m // -(-m // channels)))


def _candidate(layout: _Layout) -> Candidate:
    windows = layout.windows
    c, m = windows.shape[1] // windows.groups, windows.outputs // windows.groups
    points, inputs = math.prod(layout.points), math.prod(layout.tiles)
    rows, chunks = layout.residues * layout.channels, -(-m // layout.channels)
    tails = points - inputs
    cost, most = 0.0, layout.blocks.most(layout.columns)
    for block, times in layout.blocks.kinds:
        columns = layout.columns(block)
        row = max(1, layout.grid(block)[-1])
        own = inputs * c * columns * (0.5 + 15.0 / row) + 2 * CALL * inputs * 8
        own += product_cost(points, inputs, c * columns) + 0.4 * points * c * columns
        own += chunks * points * product_cost(rows, c, columns)
        own += chunks * (
            product_cost(points, points, rows * columns) + 0.45 * points * rows * columns
        )
        own += chunks * tails * (0.25 * rows * columns + CALL)
        writing = rows * columns * (0.40 + 22.0 / row) + layout.residues * 2 * CALL
        cost += times * (own + chunks * inputs * writing)
    scratch = windows.itemsize * (
        points * pitch(most, windows.compute) * (c + 2 * rows)
        + inputs * pitch(most, windows.compute) * max(16, c // 8)
        + windows.groups * points * layout.residues * m * c
    )
    scratch += geo.tile_bytes(windows, layout.blocks, layout.channels)

    def prepare(w: Array) -> Kernel:
        return _Winograd(layout, w)

    name = "winograd-" + "x".join(map(str, layout.tiles))
    return Candidate(name, cost * windows.groups, scratch, prepare)
