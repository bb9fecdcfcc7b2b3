"""Stacks of products of constant matrices by the compiled micro-kernel (the extra `fast`)."""

from __future__ import annotations

import numpy as np

from irdeconv.kernels.compiled.panels import Panels, best_tile
from irdeconv.kernels.compiled.places import ProductColumns, VectorPlaces, vector_starts
from irdeconv.kernels.compiled.recorded import Recorded
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.scratch import ScratchPlace, ScratchPlan, Space
from irdeconv.spec import Array

NOTHING = Space()  # scratch memory of which nothing is used: all is read where it lies
FIRST_CALLS = 1  # that are made one by one: writing calls down takes longer than one run saves


class StackedPanels:
    """Constant matrices `[stack, M, K]` of f32, packed for right operands of some widths.

    What is to be called once more with the same places is written down.
    """

    def __init__(self, matrices: Array, columns: int) -> None:
        tile = best_tile(matrices.shape[1], -(-columns // jit.lanes()))
        self.panels = [Panels(matrix, tile) for matrix in matrices]
        self.rows, self.depth = matrices.shape[1:]
        self._tables: dict[tuple[int, ...], Recorded] = {}
        self._calls = 0

    def __call__(
        self, values: Array, line: int, columns: int, out: Array, base: int, plane: int
    ) -> None:
        """Write all products into the flat array `out`, the first one from `base` on.

        Products `[M, columns]` are `plane` elements apart. `values [stack, *]` is contiguous: in
        each of its rows lies a right operand `[K, columns]`, `line` elements from row to row. The
        columns are whole vectors.
        """
        self._calls += 1
        place = line, columns, base, plane, values.shape[1], len(out)
        table = self._tables.get(place)
        if table is None and self._calls > FIRST_CALLS:
            table = self._tables[place] = self._recorded(values, *place[:4], out)
        if table is not None:
            table.run_on(values, out, NOTHING)
            return
        offsets, places, starts = self._places(line, columns)
        for i, panels in enumerate(self.panels):
            panels(values[i], offsets, places, out, starts, base + i * plane, NOTHING)

    def _places(self, line: int, columns: int) -> tuple[Array, VectorPlaces, Array]:
        """Return where rows are read, where vectors are, and where rows are written."""
        at = np.arange(columns)
        places = VectorPlaces.lying(ProductColumns(at, at), vector_starts(columns, False))
        return np.arange(self.depth) * line, places, np.arange(self.rows) * columns

    def _recorded(
        self, values: Array, line: int, columns: int, base: int, plane: int, out: Array
    ) -> Recorded:
        offsets, places, starts = self._places(line, columns)
        source, flat = ScratchPlace.given(0, values), ScratchPlace.given(1, out)
        calls = []
        for i, panels in enumerate(self.panels):
            x = source.seen(lambda rows, i=i: rows[i])  # type: ignore[misc]
            more = flat, starts, base + i * plane, ScratchPlan()
            calls.append(panels.recorded(x, offsets, places, *more))
        return Recorded.joined(calls)
