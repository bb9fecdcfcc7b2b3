"""Products of constant matrices by the compiled micro-kernel (the extra `fast`).

The matrix is packed once into panels, each of as many rows as a tile of the micro-kernel has. Its
right operand is read wherever it lies: what the vectors of a tile read, and how far apart its rows
are, are tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module

import numpy as np

from irdeconv.kernels.compiled import TILES
from irdeconv.kernels.compiled.places import VectorPlaces, effort
from irdeconv.kernels.compiled.recorded import Recorded
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.products import ALIASED_BYTES
from irdeconv.kernels.shared.scratch import ScratchPlace, ScratchPlan, Space
from irdeconv.spec import Array

NEAR_BYTES = 5 << 17  # of what is copied at once, to stay in a level 2 cache
FAR_BYTES = 1 << 19  # of packed weights, from which on they are read from a far cache
ALIASED_ROWS = 24  # that still stay there, about
UNLIMITED = np.array([-np.inf, np.inf], np.float32)
_NOTHING = np.zeros(0, np.float32)


@dataclass(frozen=True)
class RegisterTile:
    """How many rows and vectors of the result are computed together, in registers."""

    rows: int
    vectors: int


MANY_REGISTERS = (
    RegisterTile(24, 1),
    RegisterTile(12, 2),
    RegisterTile(8, 3),
    RegisterTile(6, 4),
    RegisterTile(4, 6),
    RegisterTile(3, 8),
    RegisterTile(2, 12),
    RegisterTile(10, 2),
    RegisterTile(5, 5),
)
FEW_REGISTERS = (
    RegisterTile(12, 1),
    RegisterTile(8, 1),
    RegisterTile(6, 2),
    RegisterTile(4, 3),
    RegisterTile(3, 4),
    RegisterTile(2, 6),
    RegisterTile(5, 2),
)


def own_tiles() -> tuple[RegisterTile, ...]:
    """Return the tiles that this processor takes."""
    return MANY_REGISTERS if jit.many_registers() else FEW_REGISTERS


def best_tile(rows: int, vectors: int, multiple: int = 1) -> RegisterTile:
    """Return the tile that computes least in vain for a result of so many rows and vectors.

    It has a `multiple` of rows.
    """
    return _best_of(own_tiles(), rows, vectors, multiple)


@lru_cache(maxsize=1 << 13)  # the cuts of a layer's work ask for the same few again and again
def _best_of(
    tiles: tuple[RegisterTile, ...], rows: int, vectors: int, multiple: int
) -> RegisterTile:
    return min(
        (t for t in tiles if t.rows % multiple == 0), key=lambda t: computed(rows, vectors, t)
    )


def computed(rows: int, vectors: int, tile: RegisterTile) -> float:
    """Return how many vectors of sums could be computed for a result of so many rows and vectors.

    Some are computed in vain, and some tiles are slower.
    """
    return -(-rows // tile.rows) * effort(vectors, tile.rows, tile.vectors)


def missed(rows: int, depth: int, vectors: int, tile: RegisterTile, stride: int) -> int:
    """Return how many vectors of a right operand `[depth, vectors]` the first cache loses.

    Its rows lie `stride` bytes apart, and it is read once for each `tile.rows` of the result's.
    """
    if stride % ALIASED_BYTES or depth <= ALIASED_ROWS:
        return 0
    return depth * vectors * -(-rows // tile.rows)


@dataclass(frozen=True)
class RowTurns:
    """Rows of a product of which `turns` neighbours are written in turns, `steps` places apart.

    `turns` is `steps` or 1. The last `extra` products of a sum are those of the first `longer` rows
    of each such neighbours only; there are none where these are all.
    """

    turns: int = 1
    steps: int = 1
    longer: int = 1
    extra: int = 0


ALIKE = RowTurns()
PANEL_BYTES = 1 << 20  # of a matrix that are packed at a time


class Panels:
    """A constant matrix `[M, K]` of f32, packed for a tile."""

    def __init__(self, matrix: Array, tile: RegisterTile, rows: RowTurns = ALIKE) -> None:
        jit.load()
        self.tile, self.rows, (count, self.depth) = tile, rows, matrix.shape
        panels = -(-count // tile.rows)
        self.shared = self.depth - rows.extra
        self.packed = _packed(matrix, tile.rows, self.shared, rows)
        self.no_bias = np.zeros(panels * tile.rows, np.float32)
        self._multiply = _compiled(tile)
        counts = rows.turns, rows.steps, rows.longer
        self._counts = self.shared, tuple((0,) * n for n in counts)

    def bias(self, values: Array) -> Array:
        """Return a number for each row `[M]`, as calls expect it."""
        bias = self.no_bias.copy()
        bias[: len(values)] = values
        return bias

    def __call__(
        self,
        x: Array,
        offsets: Array,
        places: VectorPlaces,
        out: Array,
        starts: Array,
        base: int,
        space: Space,
        bias: Array | None = None,
        limits: Array = UNLIMITED,
    ) -> None:
        """Write row m of the product into `out`, from `base + starts[m]` on; both arrays are flat.

        The right operand's row k lies `offsets[k]` behind the first one. Rows that are written in
        turns begin where the first one of them does.
        """
        elements = self._near_elements(places)
        near = space.array((elements,), np.float32) if elements else _NOTHING
        first = self.no_bias if bias is None else bias
        more = limits, places.reads, places.stores, places.pieces, near, out, starts, base
        self._multiply(x, offsets, self.packed, first, *more, *self._counts)

    def recorded(
        self,
        x: Array | ScratchPlace,
        offsets: Array,
        places: VectorPlaces,
        out: Array | ScratchPlace,
        starts: Array,
        base: int,
        plan: ScratchPlan,
    ) -> Recorded:
        """Write down a call without bias and limits."""
        elements = self._near_elements(places)
        near = plan.array((elements,), np.float32) if elements else _NOTHING
        more = UNLIMITED, places.reads, places.stores, places.pieces, near, out, starts, base
        return Recorded.of(
            step_name(self.tile, self.rows),
            x,
            offsets,
            self.packed,
            self.no_bias,
            *more,
            *self._counts,
        )

    def _near_elements(self, places: VectorPlaces) -> int:
        copied = len(places.pieces[0]) > 0
        return near_elements(self.depth, len(places.reads)) if copied else 0


def step_name(tile: RegisterTile, rows: RowTurns = ALIKE) -> str:
    """Return by which name a table of calls knows the micro-kernel with a tile."""
    counts = tile.rows, tile.vectors, rows.turns, rows.steps, rows.longer
    return TILES + "_".join(map(str, counts))


def near_vectors(depth: int) -> int:
    """Return how many vectors are copied at once for sums of so many products."""
    return max(1, NEAR_BYTES // (4 * max(1, depth) * jit.lanes()))


def near_elements(depth: int, vectors: int) -> int:
    """Return how many elements are copied for so many vectors, and what is written behind."""
    return (depth * vectors + 1) * jit.lanes()


@cache
def _compiled(tile: RegisterTile) -> Callable[..., None]:
    module = import_module("irdeconv.kernels.compiled.micro_kernel")
    found: Callable[..., None] = getattr(module, f"tiles{tile.rows}x{tile.vectors}")
    return found


def _packed(matrix: Array, rows: int, shared: int, turns: RowTurns) -> Array:
    """Return panels of so many rows behind one another, some at a time: weights are large."""
    count, depth = matrix.shape
    has_more = np.arange(rows) % turns.turns < turns.longer
    elements = rows * shared + int(has_more.sum()) * (depth - shared)
    out = np.zeros((-(-count // rows), elements), np.float32)
    some = max(PANEL_BYTES // max(4 * rows * depth, 1), 1)
    for first in range(0, len(out), some):
        part = matrix[first * rows : (first + some) * rows]
        whole = np.zeros((min(some, len(out) - first), rows, depth), np.float32)
        whole.reshape(-1, depth)[: len(part)] = part
        some_panels, columns = out[first : first + some], whole.swapaxes(1, 2)
        some_panels[:, : rows * shared] = columns[:, :shared].reshape(len(whole), -1)
        some_panels[:, rows * shared :] = columns[:, shared:, has_more].reshape(len(whole), -1)
    return out.reshape(-1)
