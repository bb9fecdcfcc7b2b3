"""Winograd deconvolution whose tiles compiled code reads and places (the extra `fast`).

The coefficients of a tile's product are terms of the output, as those of `kernels.deconv_placed`
are: every row is written once, and tails need neither a pass of their own nor further tiles.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from irdeconv.kernels import residues as geo
from irdeconv.kernels.deconv_winograd import Tiling, Winograd
from irdeconv.kernels.places import LANES, Line, Places, room_of, start_of, steps_of
from irdeconv.kernels.products import lanes, multiply, pitch
from irdeconv.kernels.team import Space
from irdeconv.spec import Array


class FastWinograd(Winograd):
    """The kernel; its tiling has no tiles behind rows."""

    def __init__(self, tiling: Tiling, w: Array) -> None:
        super().__init__(tiling, w)
        known: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        self.told: dict[tuple[int, int], tuple[int, tuple[Any, ...]]] = {}
        for block in tiling.blocks:
            lines = tuple(
                Line.of_tiles(p, t) for p, t in zip(block.parts, tiling.tiles, strict=True)
            )
            for channels in {c.stop - c.start for c in self.chunks}:
                kind = lines, block.count, channels
                if kind not in known:
                    known[kind] = self._tell(*kind, block)
                self.told[id(block), channels] = known[kind]

    def enter(self, part: Array, values: Array, block: geo.Block, space: Space) -> None:
        """See the base class."""
        tiles, grid = self.tiling.tiles, self.tiling.grid(block)
        host = space.array((math.prod(tiles), *values.shape[1:]), values.dtype)
        if part.dtype != host.dtype:
            wide = space.array(part.shape, host.dtype)
            wide[...] = part
            part = wide
        lead = (1,) * (3 - len(tiles))
        volume = part.reshape(*part.shape[:2], *lead, *part.shape[2:])
        compiled().gather(volume, host, (*lead, *tiles), (*lead, *grid))
        np.matmul(self.evaluate, host.swapaxes(0, 1), out=values.swapaxes(0, 1))

    def leave(
        self,
        products: Array,
        block: geo.Block,
        channels: slice,
        tile: Array,
        out: Array,
        space: Space,
    ) -> None:
        """See the base class."""
        flat = space.array((products.size + 2 * LANES,), products.dtype)
        sums = flat[LANES:-LANES].reshape(len(products), -1)
        multiply(self.interpolate, products.reshape(len(products), -1), sums)
        start = start_of(self.tiling.windows, block, channels.start)
        y = (tile if tile.dtype != out.dtype else out).reshape(-1)[start:]
        size, told = self.told[id(block), channels.stop - channels.start]
        compiled().place(flat, y, space.array((size,), flat.dtype), *told)

    def _tell(
        self, lines: tuple[Line, ...], images: int, channels: int, block: geo.Block
    ) -> tuple[int, tuple[Any, ...]]:
        """Return the size of the sums of a row, and what the compiled code is told."""
        windows, stride = self.tiling.windows, lines[-1].stride
        sizes = [line.outputs for line in lines] if windows.narrow else windows.sizes
        places = Places.of(lines, sizes)
        columns = self.tiling.columns(block)
        width = min(lanes(columns), pitch(columns, windows.compute))
        pairs, entries = places.far(self._taps() * channels * width)
        room = room_of(abs(places.width), stride)
        steps = columns // images, 0, width, *steps_of(windows, block, 1, channels)
        told = (
            (images, 1, channels),
            (LANES, *steps),
            (places.first, places.to, pairs),
            (places.width, stride, places.first_entry, places.vectors(stride, room), entries),
        )
        return stride * room, told

    def _taps(self) -> Array:
        """Return where taps lie: each axis has (coefficient, residue), the sums all coefficients,
        then all residues.
        """
        points, residues = self.tiling.points, [len(a.counts) for a in self.tiling.axes]
        rank = len(points)
        at = np.arange(math.prod(points) * math.prod(residues)).reshape(*points, *residues)
        return at.transpose([i for a in range(rank) for i in (a, rank + a)]).reshape(-1)


@cache
def compiled() -> Any:
    """Import what needs numba."""
    return import_module("irdeconv.kernels.compiled_place")
