"""Products of constant matrices by the compiled micro-kernel (the extra `fast`).

The matrix is packed once into panels, each of as many rows as a tile of the micro-kernel has. Its
right operand is read wherever it lies: what the vectors of a tile read, and how far apart its rows
are, are tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

import numpy as np

from irdeconv.kernels.compiled.recorded import Recorded
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.scratch import ScratchPlace, ScratchPlan, Space
from irdeconv.spec import Array

NEAR_BYTES = 5 << 17  # of what a tile reads, at most, so that it stays in a level 2 cache
_NONE = np.zeros(0, np.int64)
FAR_BYTES = 1 << 19  # of packed weights, from which on they are read from a far cache
UNLIMITED = np.array([-np.inf, np.inf], np.float32)
_NOTHING = np.zeros(0, np.float32)


@dataclass(frozen=True)
class RegisterTile:
    """How many rows and vectors of the result are computed together, in registers."""

    rows: int
    vectors: int


MANY_REGISTERS = (RegisterTile(24, 1), RegisterTile(12, 2), RegisterTile(8, 3), RegisterTile(6, 4))
FEW_REGISTERS = (RegisterTile(12, 1), RegisterTile(6, 2), RegisterTile(4, 3))
NARROWER = 0.12  # a tile's fewer vectors cost that much: products read more for each sum


def best_tile(rows: int, vectors: int, depth: int = 0, multiple: int = 1) -> RegisterTile:
    """Return the tile that computes least in vain for a result of so many rows and vectors.

    With a `depth`, the products of a sum, what a tile reads should stay in a near cache. It has a
    `multiple` of rows.
    """
    some = MANY_REGISTERS if jit.many_registers() else FEW_REGISTERS
    tiles = [t for t in some if t.rows % multiple == 0]
    near = [t for t in tiles if 4 * near_elements(depth, t) <= NEAR_BYTES] or tiles[:1]
    return min(near, key=lambda t: padded(rows, vectors, t) * (1 + NARROWER / t.vectors))


def padded(rows: int, vectors: int, tile: RegisterTile) -> int:
    """Return how many vectors of sums are computed for a result of so many rows and vectors."""
    high = -(-rows // tile.rows) * tile.rows
    return high * -(-vectors // tile.vectors) * tile.vectors


@dataclass(frozen=True)
class VectorPlaces:
    """Where the vectors of a result are read and written; whole tiles, the last one repeated.

    With `pieces`, what a tile reads is copied first: for each tile the first piece's number, and
    for each piece where it is read, and where among the tile's vectors it belongs.
    """

    reads: Array
    writes: Array
    pieces: tuple[Array, Array, Array] = (_NONE, _NONE, _NONE)

    @staticmethod
    def of(reads: Array, writes: Array, tile: RegisterTile) -> VectorPlaces:
        """Read whole vectors where they lie."""
        return VectorPlaces(_whole(reads, tile), _whole(writes, tile))

    @staticmethod
    def gathered(reads: Array, writes: Array, tile: RegisterTile) -> VectorPlaces:
        """Copy the vectors of a tile, which lie anywhere, before they are read."""
        places = VectorPlaces.of(reads, writes, tile)
        numbers = np.arange(len(places.reads))
        firsts = np.arange(0, len(numbers) + 1, tile.vectors)
        pieces = firsts, places.reads, numbers % tile.vectors * jit.lanes()
        return VectorPlaces(places.reads, places.writes, pieces)

    @staticmethod
    def copied(positions: Array, tile: RegisterTile, *, overlap: bool = True) -> VectorPlaces:
        """Read vectors of neighbours among `positions`, which lie anywhere; write them in a row.

        The last vector overlaps the one before it, or is written with what lies behind it.
        """
        lanes = jit.lanes()
        starts = vector_starts(len(positions), overlap)
        places = _whole(starts, tile)[:, None] + np.arange(lanes)
        more = int(starts[-1]) + lanes - len(positions)
        if more > 0:
            positions = np.concatenate([positions, positions[-1] + 1 + np.arange(more)])
        lying = positions[places]
        first = np.ones(lying.shape, bool)
        first[:, 1:] = np.diff(lying, axis=1) != 1
        vector, lane = np.nonzero(first)
        counts = np.bincount(vector // tile.vectors)
        firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        to = vector % tile.vectors * lanes + lane
        pieces = firsts, lying[first].astype(np.int64), to.astype(np.int64)
        writes = _whole(starts, tile)
        return VectorPlaces(writes, writes, pieces)


def vector_starts(count: int, overlap: bool = True) -> Array:
    """Return where vectors of so many neighbours begin; the last one may overlap."""
    starts = np.arange(0, count, jit.lanes())
    return np.minimum(starts, max(0, count - jit.lanes())) if overlap else starts


def _whole(starts: Array, tile: RegisterTile) -> Array:
    """Repeat the last vector until tiles are whole."""
    return np.pad(starts.astype(np.int64), (0, -starts.size % tile.vectors), "edge")


class Panels:
    """A constant matrix `[M, K]` of f32, packed for a tile."""

    def __init__(self, matrix: Array, tile: RegisterTile) -> None:
        jit.load()
        self.tile, (rows, self.depth) = tile, matrix.shape
        count = -(-rows // tile.rows)
        whole = np.zeros((count * tile.rows, self.depth), np.float32)
        whole[:rows] = matrix
        panels = whole.reshape(count, tile.rows, self.depth).swapaxes(1, 2)
        self.packed = np.ascontiguousarray(panels).reshape(-1)
        self.no_bias = np.zeros(len(whole), np.float32)
        self._multiply = _compiled(tile)

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
        turns: int = 1,
    ) -> None:
        """Write row m of the product into `out`, from `base + starts[m]` on; both arrays are flat.

        The right operand's row k lies `offsets[k]` behind the first one. The elements of `turns`
        neighbouring rows are written in turns where the first one begins.
        """
        near = _NOTHING
        if len(places.pieces[0]):
            near = space.array((near_elements(self.depth, self.tile),), np.float32)
        first = self.no_bias if bias is None else bias
        both = places.reads, places.writes
        more = limits, both, places.pieces, near, out, starts, base, turns
        self._multiply(x, offsets, self.packed, first, *more)

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
        """Write down a call without bias, limits and turns."""
        near: Array | ScratchPlace = _NOTHING
        if len(places.pieces[0]):
            near = plan.array((near_elements(self.depth, self.tile),), np.float32)
        both = places.reads, places.writes
        more = UNLIMITED, both, places.pieces, near, out, starts, base, 1
        name = f"tiles{self.tile.rows}x{self.tile.vectors}"
        return Recorded.of(name, x, offsets, self.packed, self.no_bias, *more)


def near_elements(depth: int, tile: RegisterTile) -> int:
    """Return how many elements a tile of so many products reads, and what is written behind."""
    return (depth * tile.vectors + 1) * jit.lanes()


@cache
def _compiled(tile: RegisterTile) -> Callable[..., None]:
    module = import_module("irdeconv.kernels.compiled.micro_kernel")
    found: Callable[..., None] = getattr(module, f"tiles{tile.rows}x{tile.vectors}")
    return found
