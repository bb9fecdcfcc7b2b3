"""Deconvolution by compiled code that visits each row of the output once (the extra `fast`).

*placed*: as in `terms`, `[taps*M, C] @ [C, positions]` computes every term; the
compiled loop adds the terms that reach a row in registers and writes its residues interleaved.
NumPy needs a pass per tap for that, and a loop of its own for every row. *spread*: with few
channels per group the same loop multiplies the inputs by the taps itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.kernels.compiled import LANES
from irdeconv.kernels.deconvolution import term_products as products
from irdeconv.kernels.deconvolution.blocks import OutputBlock, close_tile
from irdeconv.kernels.deconvolution.col2im import (
    BlockTerms,
    Chunk,
    RowLayout,
    start_of,
    steps_of,
)
from irdeconv.kernels.shared.candidate import Epilogue
from irdeconv.kernels.shared.jit import load
from irdeconv.kernels.shared.products import pitch, worth_copying
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array


@dataclass(frozen=True)
class _Item:
    """A chunk of a block: where its channels, inputs and sums are, and the loop's arguments."""

    block: OutputBlock
    channels: slice
    inputs: tuple[slice, ...]
    columns: int
    start: int
    sums: int
    filter: Any
    arguments: tuple[Any, ...]


class _RowKernel:
    """What both kernels share: the items of work, and the call of the compiled loop."""

    def __init__(self, layout: RowLayout, filters: Sequence[Any], loop: Any) -> None:
        self.problem, self.loop = layout.problem, loop
        self.items: list[_Item] = []
        c, m = self.problem.group_inputs, self.problem.group_outputs
        known: dict[Any, tuple[Any, ...]] = {}
        for block, terms in zip(layout.blocks, layout.terms, strict=True):
            for i, (chunk, w) in enumerate(zip(layout.chunks, filters, strict=True)):
                kind = id(terms), block.count, i
                if kind not in known:
                    known[kind] = self._arguments(terms, block, chunk, w)
                first = chunk.groups.start * m + chunk.channels.start
                inputs = slice(chunk.groups.start * c, chunk.groups.stop * c)
                item = _Item(
                    block=block,
                    channels=slice(first, first + (chunk.count - 1) * m + chunk.width),
                    inputs=(block.images, inputs, *(slice(p.first, p.last) for p in block.parts)),
                    columns=block.input_positions,
                    start=start_of(self.problem, block, first),
                    sums=terms.sums,
                    filter=w,
                    arguments=known[kind],
                )
                self.items.append(item)

    def _arguments(
        self, terms: BlockTerms, block: OutputBlock, chunk: Chunk, w: Any
    ) -> tuple[Any, ...]:
        """Return what the compiled loop is told besides the arrays."""
        raise NotImplementedError

    def _counts(self, block: OutputBlock, chunk: Chunk, *steps: int) -> tuple[Any, ...]:
        """Return numbers and distances of images, groups and outputs, `steps` in the source."""
        far = steps_of(self.problem, block, chunk.count, chunk.width)
        return (block.count, chunk.count, chunk.width), (LANES, *steps, *far)

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
        load()
        from irdeconv.kernels.compiled.col2im import copy_terms, sum_terms

        rows = w.reshape(*w.shape[:3], -1).transpose(0, 3, 2, 1)  # [g, taps, M/g, C/g]
        most, filters = layout.blocks.most(lambda b: b.input_positions), []
        for c in layout.chunks:
            part = np.ascontiguousarray(rows[c.groups, :, c.channels])
            matrices = part.reshape(len(part), -1, part.shape[-1])
            filters.append(products.TermProducts(matrices, most))
        self.single = all(terms.single for terms in layout.terms)
        super().__init__(layout, filters, copy_terms if self.single else sum_terms)

    def _arguments(
        self, terms: BlockTerms, block: OutputBlock, chunk: Chunk, w: Any
    ) -> tuple[Any, ...]:
        """See the base class; rows of terms are a pitch apart."""
        width, count = block.input_positions, self.problem.taps
        line = pitch(width, self.problem.compute)
        tap = chunk.width * line
        taps = np.arange(count) * tap
        counts = self._counts(block, chunk, width // block.count, count * tap, line)
        rows = terms.rows(taps)
        if self.single:
            return *counts, rows, terms.single_row(taps)
        return *counts, rows, terms.row(taps), ()

    def _write(self, source: Array, out: Array, item: _Item, space: Space) -> None:
        if self.single:
            self.loop(source, out, *item.arguments)
        else:
            super()._write(source, out, item, space)

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """See the base class."""
        x = self._gather(x, item, space)
        product, line = item.filter, pitch(item.columns, item.filter.dtype)
        flat = space.array((product.stack * product.rows * line + 2 * LANES,), product.dtype)
        if item.columns:
            product(x, flat, LANES, line, space)
        return flat

    def _gather(self, x: Array, item: _Item, space: Space) -> Array:
        """Return the inputs `[groups, C/g, columns]`; no row lies before the first one."""
        c, product, part = self.problem.group_inputs, item.filter, x[item.inputs]
        width, count, dtype = item.columns, product.stack, product.dtype
        lies = len(part) == 1 and part.strides[-1] == x.itemsize and x.dtype == dtype
        if lies and width >= product.least_columns:
            try:
                flat: Array = part[0].reshape(count, c, -1, copy=False)
            except ValueError:
                pass
            else:
                if flat.strides[1] >= 0 and not worth_copying(product.rows, flat.strides[1]):
                    return flat
        host = space.array((count * c, pitch(width, dtype)), dtype)[:, :width]
        host.reshape(count * c, len(part), *part.shape[2:])[...] = part.swapaxes(0, 1)
        return host.reshape(count, c, width)


class SpreadInputs(_RowKernel):
    """Products by the compiled code; a chunk's filter is `[groups, channels, C/g, taps]`."""

    def __init__(self, layout: RowLayout, w: Array) -> None:
        load()
        from irdeconv.kernels.compiled.col2im import sum_terms

        rows = w.reshape(*w.shape[:3], -1).swapaxes(1, 2)
        filters = [
            np.ascontiguousarray(rows[c.groups, c.channels]).reshape(-1) for c in layout.chunks
        ]
        super().__init__(layout, filters, sum_terms)

    def _arguments(
        self, terms: BlockTerms, block: OutputBlock, chunk: Chunk, w: Any
    ) -> tuple[Any, ...]:
        """See the base class; the source is a copy of the inputs, the same for all taps."""
        c, taps = self.problem.group_inputs, np.zeros(self.problem.taps, np.int64)
        size = block.input_positions // block.count
        counts = self._counts(block, chunk, chunk.count * c * size, c * size, 0)
        factors = w, terms.entries[0], terms.pair_taps, (c, size, len(taps))
        return *counts, terms.rows(taps), terms.row(taps), factors

    def source(self, x: Array, item: _Item, space: Space) -> Array:
        """See the base class."""
        part = x[item.inputs]
        flat: Array = space.array((part.size + 2 * LANES,), item.filter.dtype)
        flat[LANES:-LANES].reshape(part.shape)[...] = part
        return flat
