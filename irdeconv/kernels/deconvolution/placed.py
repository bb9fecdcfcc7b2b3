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
    start_of,
    steps_of,
)
from irdeconv.kernels.shared.candidate import Epilogue
from irdeconv.kernels.shared.products import aliases, multiply, pitch, worth_copying
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array


@dataclass(frozen=True)
class _Item:
    """A chunk of a block: where its channels, inputs and sums are, and the loop's arguments."""

    block: OutputBlock
    chunk: Chunk
    channels: slice
    inputs: tuple[slice, ...]
    columns: int
    start: int
    sums: int
    filter: Array
    arguments: tuple[Any, ...]


class _RowKernel:
    """What both kernels share: the items of work, and the call of the compiled loop."""

    def __init__(self, layout: RowLayout, filters: Sequence[Array], loop: Any) -> None:
        self.problem, self.loop = layout.problem, loop
        self.items: list[_Item] = []
        known: dict[Any, tuple[Any, ...]] = {}
        for block, terms in zip(layout.blocks, layout.terms, strict=True):
            for i, (chunk, w) in enumerate(zip(layout.chunks, filters, strict=True)):
                kind = id(terms), block.count, i
                if kind not in known:
                    known[kind] = self._arguments(terms, block, chunk, w)
                self.items.append(self._item(terms, block, chunk, w, known[kind]))

    def _item(
        self,
        terms: BlockTerms,
        block: OutputBlock,
        chunk: Chunk,
        w: Array,
        arguments: tuple[Any, ...],
    ) -> _Item:
        c, m = self.problem.group_inputs, self.problem.group_outputs
        first = chunk.groups.start * m + chunk.channels.start
        inputs = slice(chunk.groups.start * c, chunk.groups.stop * c)
        return _Item(
            block=block,
            chunk=chunk,
            channels=slice(first, first + (chunk.count - 1) * m + chunk.width),
            inputs=(block.images, inputs, *(slice(p.first, p.last) for p in block.parts)),
            columns=block.input_positions,
            start=start_of(self.problem, block, first),
            sums=terms.sums,
            filter=w,
            arguments=arguments,
        )

    def _arguments(
        self, terms: BlockTerms, block: OutputBlock, chunk: Chunk, w: Array
    ) -> tuple[Any, ...]:
        """Return what the compiled loop is told besides the arrays."""
        *steps, tap = self.steps(block, chunk)
        taps = np.arange(self.problem.taps) * tap
        return (
            (block.count, chunk.count, chunk.width),
            (LANES, *steps, *steps_of(self.problem, block, chunk.count, chunk.width)),
            terms.rows(taps),
            *self.row(terms, taps, block, w),
        )

    def steps(self, block: OutputBlock, chunk: Chunk) -> tuple[int, ...]:
        """Return the distances of images, groups, outputs and taps in the source."""
        raise NotImplementedError

    def row(self, terms: BlockTerms, taps: Array, block: OutputBlock, w: Array) -> tuple[Any, ...]:
        """Return what the loop is told about each row, and what terms are multiplied by."""
        return terms.row(taps), ()

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """Return what the compiled code reads, with `LANES` elements around it."""
        raise NotImplementedError

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        flat, narrow = out.reshape(-1), self.problem.narrow

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
        sums = space.array((item.sums,), source.dtype)
        self.loop(source, out, sums, *item.arguments)


class PlacedTerms(_RowKernel):
    """Terms by a product; a chunk's filter is `[groups, taps * channels, C/g]`."""

    def __init__(self, layout: RowLayout, w: Array) -> None:
        rows = w.reshape(*w.shape[:3], -1).transpose(0, 3, 2, 1)  # [g, taps, M/g, C/g]
        filters = []
        for c in layout.chunks:
            part = np.ascontiguousarray(rows[c.groups, :, c.channels])
            filters.append(part.reshape(part.shape[0], -1, part.shape[-1]))
        self.single = all(terms.single for terms in layout.terms)
        loop = compiled().copy_terms if self.single else compiled().sum_terms
        super().__init__(layout, filters, loop)

    def row(self, terms: BlockTerms, taps: Array, block: OutputBlock, w: Array) -> tuple[Any, ...]:
        """See the base class."""
        return (terms.single_row(taps),) if self.single else super().row(terms, taps, block, w)

    def _write(self, source: Array, out: Array, item: _Item, space: Space) -> None:
        if self.single:
            self.loop(source, out, *item.arguments)
        else:
            super()._write(source, out, item, space)

    def steps(self, block: OutputBlock, chunk: Chunk) -> tuple[int, ...]:
        """See the base class; rows of terms are a pitch apart."""
        problem, width = self.problem, block.input_positions
        line = pitch(width, problem.compute)
        tap = chunk.width * line
        return width // block.count, problem.taps * tap, line, tap

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """See the base class."""
        x = self._gather(x, item, space)
        w, width = item.filter, item.columns
        line = pitch(width, w.dtype)
        flat = space.array((len(w) * w.shape[1] * line + 2 * LANES,), w.dtype)
        terms = flat[LANES:-LANES].reshape(len(w), w.shape[1], line)[..., :width]
        if width:
            multiply(w, x, terms)
        return flat

    def _gather(self, x: Array, item: _Item, space: Space) -> Array:
        """Return the inputs `[groups, C/g, columns]`."""
        c, count, part = self.problem.group_inputs, item.chunk.count, x[item.inputs]
        if len(part) == 1 and part.strides[-1] == x.itemsize and x.dtype == item.filter.dtype:
            try:
                flat: Array = part[0].reshape(count, c, -1, copy=False)
            except ValueError:
                pass
            else:
                rows = item.filter.shape[1]
                if not (aliases(flat.strides[1]) and worth_copying(rows, c, flat.strides[1])):
                    return flat
        width, dtype = item.columns, item.filter.dtype
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
        super().__init__(layout, filters, compiled().sum_terms)

    def steps(self, block: OutputBlock, chunk: Chunk) -> tuple[int, ...]:
        """See the base class; the source is a copy of the inputs."""
        size = block.input_positions // block.count
        c = self.problem.group_inputs
        return chunk.count * c * size, c * size, 0, 0

    def row(self, terms: BlockTerms, taps: Array, block: OutputBlock, w: Array) -> tuple[Any, ...]:
        """See the base class."""
        size = block.input_positions // block.count
        inputs = self.problem.group_inputs, size, self.problem.taps
        return terms.row(taps), (w, terms.entries[0], terms.pair_taps, inputs)

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """See the base class."""
        part = x[item.inputs]
        flat: Array = space.array((part.size + 2 * LANES,), item.filter.dtype)
        flat[LANES:-LANES].reshape(part.shape)[...] = part
        return flat


@cache
def compiled() -> Any:
    """Import what needs numba."""
    return import_module("irdeconv.kernels.compiled.col2im")
