"""Deconvolution by compiled code that visits each row of the output once (the extra `fast`).

*placed*: as in kernels.deconvolution.terms, `[taps*M, C] @ [C, positions]` computes every term; the
compiled loop adds the terms that reach a row in registers and writes its residues interleaved.
NumPy needs a pass per tap for that, and a loop of its own for every row. *spread*: with few
channels per group the same loop multiplies the inputs by the taps itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from irdeconv.kernels.compiled import LANES
from irdeconv.kernels.deconvolution.blocks import OutputBlock, close_tile
from irdeconv.kernels.deconvolution.col2im import (
    BlockTerms,
    Chunk,
    RowLayout,
    room_of,
    start_of,
    steps_of,
)
from irdeconv.kernels.shared.candidate import Epilogue
from irdeconv.kernels.shared.products import aliases, multiply, pitch, worth_copying
from irdeconv.kernels.shared.team import Space, Team
from irdeconv.spec import Array


@dataclass(frozen=True)
class _Item:
    """A chunk of a block, and what the compiled code is told about it."""

    block: OutputBlock
    chunk: Chunk
    channels: slice
    taken: tuple[slice, ...]
    width: int
    start: int
    filter: Array
    told: tuple[Any, ...]


class _RowKernel:
    """What both kernels share: the items of work, and the call of the compiled code."""

    def __init__(self, layout: RowLayout, filters: Sequence[Array], function: Any) -> None:
        problem = layout.problem
        self.layout, self.c, self.function = layout, problem.group_inputs, function
        m = problem.group_outputs
        stride = problem.strides[-1]
        width = max(abs(p.width) for p in layout.places)
        self.room = room_of(width, stride)
        self.sums = stride * self.room
        self.items: list[_Item] = []
        known: dict[Any, tuple[Any, ...]] = {}
        for block, places in zip(layout.blocks, layout.places, strict=True):
            inputs = [slice(p.first, p.last) for p in block.parts]
            for i, (chunk, w) in enumerate(zip(layout.chunks, filters, strict=True)):
                first = chunk.groups.start * m + chunk.channels.start
                channels = slice(first, first + (chunk.count - 1) * m + chunk.width)
                some = slice(chunk.groups.start * self.c, chunk.groups.stop * self.c)
                kind = id(places), block.count, i
                if kind not in known:
                    known[kind] = self._told(places, block, chunk, w)
                taken = (block.images, some, *inputs)
                start, width = start_of(problem, block, first), block.input_positions
                item = _Item(block, chunk, channels, taken, width, start, w, known[kind])
                self.items.append(item)

    def _told(
        self, places: BlockTerms, block: OutputBlock, chunk: Chunk, w: Array
    ) -> tuple[Any, ...]:
        """Return what the compiled code is told besides the arrays."""
        *steps, tap = self.steps(block, chunk)
        pairs, entries = places.far(np.arange(self.layout.problem.taps) * tap)
        return (
            (block.count, chunk.count, chunk.width),
            (LANES, *steps, *steps_of(self.layout.problem, block, chunk.count, chunk.width)),
            (places.first, places.to, pairs),
            *self.row(places, entries),
            *self.more(places, block, w),
        )

    def row(self, places: BlockTerms, entries: tuple[Array, ...]) -> tuple[Any, ...]:
        """Return what the compiled code is told about a row."""
        stride = self.layout.problem.strides[-1]
        into = places.vectors(stride, self.room)
        return ((places.width, stride, places.first_entry, into, entries),)

    def steps(self, block: OutputBlock, chunk: Chunk) -> tuple[int, ...]:
        """Return the distances of images, groups, outputs and taps in the source."""
        raise NotImplementedError

    def more(self, places: BlockTerms, block: OutputBlock, w: Array) -> tuple[Any, ...]:
        """Return further arguments."""
        return ()

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """Return what the compiled code reads, with `LANES` elements around it."""
        raise NotImplementedError

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        flat, narrow = out.reshape(-1), self.layout.problem.narrow

        def work(item: _Item, space: Space) -> None:
            source = self.source(x, item, space)
            if epilogue is None and not narrow:
                self._write(source, flat[item.start :], item, space)
                return
            tile = item.block.box(out)[:, item.channels]
            y = flat
            if narrow:
                tile = space.array(tile.shape, source.dtype)
                y = tile.reshape(-1)
            self._write(source, y[item.start :], item, space)
            close_tile(tile, out, item.block, item.channels, epilogue)

        team.each(self.items, work)

    def _write(self, source: Array, out: Array, item: _Item, space: Space) -> None:
        self.function(source, out, space.array((self.sums,), source.dtype), *item.told)


class PlacedTerms(_RowKernel):
    """Terms by a product; a chunk's filter is `[groups, taps * channels, C/g]`."""

    def __init__(self, layout: RowLayout, w: Array) -> None:
        rows = w.reshape(*w.shape[:3], -1).transpose(0, 3, 2, 1)  # [g, taps, M/g, C/g]
        filters = []
        for c in layout.chunks:
            part = np.ascontiguousarray(rows[c.groups, :, c.channels])
            filters.append(part.reshape(part.shape[0], -1, part.shape[-1]))
        self.single = all(p.single for p in layout.places)
        function = compiled().place_single if self.single else compiled().place
        super().__init__(layout, filters, function)

    def row(self, places: BlockTerms, entries: tuple[Array, ...]) -> tuple[Any, ...]:
        """See the base class."""
        if not self.single:
            return super().row(places, entries)
        stride = self.layout.problem.strides[-1]
        into, starts = places.vectors(stride, self.room), np.zeros(stride, np.int64)
        residues, begins = np.unique(into // self.room, return_index=True)
        starts[residues] = entries[0][places.first_entry[begins]]
        return places.width, stride, starts

    def _write(self, source: Array, out: Array, item: _Item, space: Space) -> None:
        if self.single:
            self.function(source, out, *item.told)
        else:
            super()._write(source, out, item, space)

    def steps(self, block: OutputBlock, chunk: Chunk) -> tuple[int, ...]:
        """See the base class; rows of terms are a pitch apart."""
        problem, width = self.layout.problem, block.input_positions
        line = pitch(width, problem.compute)
        tap = chunk.width * line
        return width // block.count, problem.taps * tap, line, tap

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """See the base class."""
        x = self._gather(x, item, space)
        w, width = item.filter, item.width
        line = pitch(width, w.dtype)
        flat = space.array((len(w) * w.shape[1] * line + 2 * LANES,), w.dtype)
        terms = flat[LANES:-LANES].reshape(len(w), w.shape[1], line)[..., :width]
        if width:
            multiply(w, x, terms)
        return flat

    def _gather(self, x: Array, item: _Item, space: Space) -> Array:
        """Return the inputs `[groups, C/g, columns]`."""
        c, count, part = self.c, item.chunk.count, x[item.taken]
        if len(part) == 1 and part.strides[-1] == x.itemsize and x.dtype == item.filter.dtype:
            try:
                found: Array = part[0].reshape(count, c, -1, copy=False)
            except ValueError:
                pass
            else:
                rows = item.filter.shape[1]
                if not (aliases(found.strides[1]) and worth_copying(rows, c, found.strides[1])):
                    return found
        width, dtype = item.width, item.filter.dtype
        host = space.array((count * c, pitch(width, dtype)), dtype)[:, :width]
        host.reshape(count * c, len(part), *part.shape[2:])[...] = part.swapaxes(0, 1)
        return host.reshape(count, c, width)


class SpreadInputs(_RowKernel):
    """Products by the compiled code; a chunk's filter is `[groups, channels, C/g, taps]`."""

    def __init__(self, layout: RowLayout, w: Array) -> None:
        rows = w.reshape(*w.shape[:3], -1).swapaxes(1, 2)
        filters = [
            np.ascontiguousarray(rows[c.groups, c.channels]).reshape(-1) for c in layout.chunks
        ]
        super().__init__(layout, filters, compiled().spread)

    def steps(self, block: OutputBlock, chunk: Chunk) -> tuple[int, ...]:
        """See the base class; the source is a copy of the inputs."""
        size = block.input_positions // block.count
        return chunk.count * self.c * size, self.c * size, 0, 0

    def more(self, places: BlockTerms, block: OutputBlock, w: Array) -> tuple[Any, ...]:
        """See the base class."""
        inputs = self.c, block.input_positions // block.count, self.layout.problem.taps
        return w, (places.entries[0], places.pair_taps), inputs

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """See the base class."""
        part = x[item.taken]
        flat: Array = space.array((part.size + 2 * LANES,), item.filter.dtype)
        flat[LANES:-LANES].reshape(part.shape)[...] = part
        return flat


@cache
def compiled() -> Any:
    """Import what needs numba."""
    return import_module("irdeconv.kernels.compiled.col2im")
