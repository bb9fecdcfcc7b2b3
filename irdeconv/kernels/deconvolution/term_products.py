"""The products of all taps with inputs, by the micro-kernel where it can, else by NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.kernels.compiled.panels import (
    FAR_BYTES,
    Panels,
    best_tile,
    computed,
    near_elements,
    near_vectors,
)
from irdeconv.kernels.compiled.places import ProductColumns, VectorPlaces, vector_starts
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import multiply, stack_cost
from irdeconv.kernels.shared.rates import rate
from irdeconv.kernels.shared.scratch import Space
from irdeconv.spec import Array

COPIED_ROWS = 64  # of a matrix, from which on it is worth copying what they all read
LARGE = 1 << 10  # elements of a matrix, from which on each one of a stack is worth a call


@dataclass(frozen=True, kw_only=True)
class TermRates:
    """Nanoseconds of products."""

    product: float  # each nanosecond that NumPy's product alone would take
    sums: float = rate("sums", 0.0)  # each vector of products that the micro-kernel adds
    near: float = rate("copy", 0.0)  # each vector that is copied for it
    stored: float = rate("copy", 0.0)  # each vector of sums
    streamed: float = rate("far", 0.0)  # each byte of weights that are not in a near cache


def is_packed(dtype: np.dtype[Any], count: int, rows: int, depth: int) -> bool:
    """Whether products of `count` matrices `[rows, depth]` are the micro-kernel's."""
    large = count == 1 or rows * depth >= LARGE
    return dtype == np.float32 and large and jit.available()


class TermProducts:
    """Constant matrices `[stack, rows, depth]`, packed for right operands of some columns."""

    def __init__(self, matrices: Array, columns: int) -> None:
        self.dtype, (self.stack, self.rows, self.depth) = matrices.dtype, matrices.shape
        self._panels: list[Panels] = []
        if is_packed(matrices.dtype, *matrices.shape):
            self._tile = best_tile(self.rows, -(-columns // jit.lanes()))
            self._panels = [Panels(matrix, self._tile) for matrix in matrices]
        else:
            self._matrices = matrices
        self._known: dict[tuple[int, ...], tuple[Array, list[VectorPlaces], Array]] = {}

    @property
    def least_columns(self) -> int:
        """The columns from which on an operand may lie anywhere.

        One with fewer needs memory behind its last row that may be read.
        """
        return jit.lanes() if self._panels else 0

    def __call__(self, x: Array, out: Array, first: int, line: int, space: Space) -> None:
        """Multiply `x [stack, depth, columns]`, whose last axis is contiguous.

        The products' rows are written into the flat array `out`, from `first` on, `line` elements
        from row to row.
        """
        width = x.shape[2]
        if not self._panels:
            size = self.stack * self.rows * line
            terms = out[first : first + size].reshape(self.stack, self.rows, line)
            multiply(self._matrices, x, terms[..., :width])
            return
        offsets, places, starts = self._places(x.strides[1] // x.itemsize, width, line)
        used = space.used
        for i, panels in enumerate(self._panels):
            base, source = first + i * self.rows * line, _flat(x[i])
            for part in places:
                panels(source, offsets, part, out, starts, base, space)
                space.release(used)

    def _places(self, step: int, width: int, line: int) -> tuple[Array, list[VectorPlaces], Array]:
        """Return where rows are read, where vectors are, and where rows are written."""
        found = self._known.get((step, width, line))
        if found is None:
            at = np.arange(width)
            columns = ProductColumns(at, at)
            if self.rows >= COPIED_ROWS:
                most = near_vectors(self.depth)
                places = VectorPlaces.copied(columns, self._tile.vectors, overlap=True, most=most)
            else:
                places = [VectorPlaces.lying(columns, vector_starts(width))]
            found = np.arange(self.depth) * step, places, np.arange(self.rows) * line
            self._known[step, width, line] = found
        return found


def terms_cost(
    rates: TermRates, problem: ConvProblem, count: int, rows: int, depth: int, columns: int
) -> float:
    """Estimate the nanoseconds of `count` products."""
    if not is_packed(problem.compute, count, rows, depth):
        return rates.product * stack_cost(count, rows, depth, columns)
    vectors, weights = -(-columns // jit.lanes()), 4 * rows * depth
    tile = best_tile(rows, vectors)
    cost = rates.sums * depth * computed(rows, vectors, tile) + rates.stored * rows * vectors
    copied = rows >= COPIED_ROWS
    if copied:
        cost += rates.near * depth * vectors
    if weights > FAR_BYTES:
        cost += rates.streamed * weights * (-(-vectors // near_vectors(depth)) if copied else 1)
    return count * cost


def copied_elements(rows: int, depth: int, columns: int) -> int:
    """Return how many elements are copied at once, at most."""
    if rows < COPIED_ROWS:
        return 0
    vectors = -(-columns // jit.lanes())
    wanted = max(best_tile(rows, vectors).vectors, near_vectors(depth))
    return near_elements(depth, min(vectors, wanted))


def _flat(rows: Array) -> Array:
    """View the memory from the first element of some rows to the last one's end."""
    size = (rows.shape[0] - 1) * (rows.strides[0] // rows.itemsize) + rows.shape[1]
    return np.lib.stride_tricks.as_strided(rows, (size,), (rows.itemsize,))
