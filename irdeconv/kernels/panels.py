"""Products of constant matrices, alone and in stacks, by the micro-kernel (the extra `fast`).

The matrix is packed once into panels, each of as many rows as a tile of the micro-kernel has. Its
right operand is read in place: tables have the places that the vectors of a tile read, the
distances of its rows, and the places of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit
from irdeconv.kernels.candidate import Levels
from irdeconv.kernels.jit import PACKED, TILES, group_sizes, groups
from irdeconv.kernels.products import ALIASED_BYTES
from irdeconv.kernels.recorded_calls import Recorded
from irdeconv.kernels.scratch import ScratchPlace, ScratchPlan, Space

_NONE = np.zeros(0, np.int64)
Stores = tuple[Array, Array, Array, Array]


@dataclass(frozen=True)
class ProductColumns:
    """Columns of a product: their places in the right operand, and the places of their sums.

    `reads` are places behind those of the rows. Column i is written at `writes[i]` and, if rows
    are written in turns, behind it: in the places from `lows[i]` up to `highs[i]` of the `steps`
    until the next column. Both are None if all columns are written whole.
    """

    reads: Array
    writes: Array
    steps: int = 1
    lows: Array | None = None
    highs: Array | None = None

    def edges(self) -> tuple[Array, Array]:
        """Return lows and highs."""
        if self.lows is None or self.highs is None:
            zeros = np.zeros_like(self.writes)
            return zeros, zeros + self.steps
        return self.lows, self.highs

    def with_gaps(self) -> ProductColumns:
        """Add columns that are not written, so that all are neighbours, in rising order."""
        if not len(self.reads):
            return self
        at = self.reads - self.reads[0]
        size = int(at[-1]) + 1
        writes, lows, highs = np.zeros((3, size), np.int64)
        low, high = self.edges()
        writes[at], lows[at], highs[at] = self.writes, low, high
        return ProductColumns(self.reads[0] + np.arange(size), writes, self.steps, lows, highs)


@dataclass(frozen=True)
class VectorPlaces:
    """Tables of the micro-kernel: `reads` of vectors, `stores` and `pieces`; see there."""

    reads: Array
    stores: Stores
    pieces: tuple[Array, Array, Array] = (_NONE, _NONE, _NONE)

    @staticmethod
    def lying(columns: ProductColumns, starts: Array) -> VectorPlaces:
        """Read vectors in place.

        They begin with the columns `starts`; columns that follow one another are read from
        neighbours while these are, and belong to the vector as far.
        """
        lanes, count = jit.lanes(), len(columns.reads)
        # A vector reads `lanes` neighbours. Columns that lie elsewhere are not of this vector, even
        # if it computes something in their lanes: another one begins with them. With starts at
        # every so many columns that holds only if all columns are neighbours: see `with_gaps`.
        at = starts[:, None] + np.arange(lanes)
        reads = columns.reads[np.minimum(at, count - 1)]
        near = (at < count) & (reads == reads[:, :1] + np.arange(lanes))
        return VectorPlaces(_integers(columns.reads[starts]), _stores(columns, at, near))

    @staticmethod
    def copied(
        columns: ProductColumns, vectors: int, *, overlap: bool = False, most: int = 1 << 62
    ) -> list[VectorPlaces]:
        """Copy the vectors that a tile reads, which may lie anywhere, before they are read.

        At most so many vectors are copied at once. The last one may overlap the one before it, so
        that nothing behind the columns is read.
        """
        starts = vector_starts(len(columns.reads), overlap)
        step = max(vectors, most // vectors * vectors)
        parts = [starts[at : at + step] for at in range(0, len(starts), step)]
        return [VectorPlaces._copied(columns, part, vectors) for part in parts]

    @staticmethod
    def _copied(columns: ProductColumns, starts: Array, vectors: int) -> VectorPlaces:
        lanes, count = jit.lanes(), len(columns.reads)
        at = starts[:, None] + np.arange(lanes)
        inside = at < count
        lying = columns.reads[np.minimum(at, count - 1)]
        # A piece begins with each vector, and wherever a column does not lie beside the one before.
        first = inside.copy()
        first[:, 1:] &= np.diff(lying, axis=1) != 1
        vector, lane = np.nonzero(first)
        sizes = groups(len(starts), vectors)
        # The micro-kernel counts its groups in the same order; see `group_sizes`.
        ends = np.cumsum(sizes)
        group = np.searchsorted(ends, vector, side="right")
        begins = ends - sizes
        firsts = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=len(sizes)))])
        to = (vector - begins[group]) * lanes + lane
        pieces = _integers(firsts), _integers(lying[first]), _integers(to)
        reads = np.zeros(len(starts), np.int64)
        return VectorPlaces(reads, _stores(columns, at, inside), pieces)


def vector_starts(count: int, overlap: bool = True) -> Array:
    """Return the starts of vectors of so many neighbours; the last one may overlap."""
    # Overlapping lanes compute the same sums twice and write them twice. If nothing may be read
    # behind the columns, as at the end of an input, that is the only way to read whole vectors.
    starts = np.arange(0, count, jit.lanes())
    return np.minimum(starts, max(0, count - jit.lanes())) if overlap else starts


def effort(count: int, rows: int, vectors: int) -> float:
    """Return the number of products of vectors that take as long as a panel with so many vectors.

    A tile with few vectors loads nearly as much as it adds, and waits for its own sums; one with
    many vectors waits for a farther cache. The loop itself takes as long as a product.
    """
    total = 0
    for size in group_sizes(vectors):
        added = max(rows * size, rows + ACROSS * size, LATENCY)
        total += count // size * (1 + added + max(0, size - STREAMS) ** 2)
        count %= size
    return total


LATENCY = 8  # sums that are needed for none to wait for the one before it
ACROSS = 2  # loads of a vector that lies across two cache lines
STREAMS = 3  # vectors of a tile, beyond which each is another stream to wait for


def _stores(columns: ProductColumns, at: Array, inside: Array) -> Stores:
    """Return the pieces in which the columns `at [vectors, lanes]` are written."""
    # Lanes are one piece as long as each is written to its end, the start of the next one. A
    # piece leaves out the elements of other products, which may already be written.
    steps, (lows, highs) = columns.steps, columns.edges()
    at = np.minimum(at, len(columns.writes) - 1)
    writes, low, high = columns.writes[at], lows[at], highs[at]
    wanted = inside & (high > low)
    joined = wanted[:, 1:] & wanted[:, :-1] & (np.diff(writes, axis=1) == steps)
    joined &= (high[:, :-1] == steps) & (low[:, 1:] == 0)
    first, last = wanted.copy(), wanted.copy()
    first[:, 1:] &= ~joined
    last[:, :-1] &= ~joined
    vector, lane = np.nonzero(first)
    _, end = np.nonzero(last)
    firsts = np.concatenate([[0], np.cumsum(np.bincount(vector, minlength=len(at)))])
    places = writes[first] - lane * steps
    spans = lane * steps + low[first], end * steps + high[last]
    low, high = map(_integers, spans)
    return _integers(firsts), _integers(places), low, high


def _integers(values: Array) -> Array:
    return np.ascontiguousarray(values, np.int64)


NEAR_BYTES = 5 << 17  # copied at once, to stay in a level 2 cache
FAR_BYTES = 1 << 19  # of packed weights, from which on they are read from a far cache
ALIASED_ROWS = 24  # that still stay there, about
UNLIMITED = np.array([-np.inf, np.inf], np.float32)
_NOTHING = np.zeros(0, np.float32)


@dataclass(frozen=True)
class RegisterTile:
    """The numbers of rows and vectors of the result that are computed together, in registers."""

    rows: int
    vectors: int


# The sums of a tile take at most 25 of 32 registers, or 12 of 16. The rest are for the vectors of
# one row of the right operand and a weight. LLVM would keep more sums on the stack, and load and
# store them for each product.
MANY_REGISTERS = tuple(
    RegisterTile(*size)
    for size in ((24, 1), (12, 2), (8, 3), (6, 4), (4, 6), (3, 8), (2, 12), (10, 2), (5, 5))
)
FEW_REGISTERS = tuple(
    RegisterTile(*size) for size in ((12, 1), (8, 1), (6, 2), (4, 3), (3, 4), (2, 6), (5, 2))
)


def own_tiles() -> tuple[RegisterTile, ...]:
    """Return the tiles that this processor takes."""
    return MANY_REGISTERS if jit.many_registers() else FEW_REGISTERS


def best_tile(rows: int, vectors: int, multiple: int = 1) -> RegisterTile:
    """Return the tile, with a `multiple` of rows, that wastes least for such a result."""
    return _best_of(own_tiles(), rows, vectors, multiple)


@lru_cache(maxsize=1 << 13)  # the cuts of a layer's work ask for the same few again and again
def _best_of(
    tiles: tuple[RegisterTile, ...], rows: int, vectors: int, multiple: int
) -> RegisterTile:
    return min(
        (t for t in tiles if t.rows % multiple == 0), key=lambda t: computed(rows, vectors, t)
    )


def computed(rows: int, vectors: int, tile: RegisterTile) -> float:
    """Return the number of vectors of sums for such a result, wasted ones included."""
    return -(-rows // tile.rows) * effort(vectors, tile.rows, tile.vectors)


def missed(rows: int, depth: int, vectors: int, tile: RegisterTile, stride: int) -> int:
    """Return the number of vectors of an operand `[depth, vectors]` that the first cache loses.

    Its rows lie `stride` bytes apart, and it is read once for each `tile.rows` of the result's.
    """
    # The low 12 bits of an address decide in which set of the first cache its line is kept. Rows a
    # multiple of 4 KiB apart all meet in one set, which has 8 to 12 places.
    if stride % ALIASED_BYTES or depth <= ALIASED_ROWS:
        return 0
    return depth * vectors * -(-rows // tile.rows)


@dataclass(frozen=True)
class RowTurns:
    """Rows of a product of which `turns` neighbours are written in turns, `steps` places apart.

    `turns` is `steps` or 1. The last `extra` products of a sum are those of the first `longer` rows
    of each such neighbours only; there are none if these are all.
    """

    turns: int = 1
    steps: int = 1
    longer: int = 1
    extra: int = 0


ALIKE = RowTurns()
PANEL_BYTES = 1 << 20  # of a matrix that are packed at a time


class Panels:
    """A constant matrix `[M, K]` of f32, packed for a tile."""

    limits = UNLIMITED

    def __init__(self, matrix: Array, tile: RegisterTile, rows: RowTurns = ALIKE) -> None:
        jit.load()
        self.tile, self.rows, (count, self.depth) = tile, rows, matrix.shape
        panels = -(-count // tile.rows)
        self.shared = self.depth - rows.extra
        self.packed = _packed(matrix, tile.rows, self.shared, rows)
        self.no_bias = np.zeros(panels * tile.rows, np.float32)

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
        limits: Array | None = None,
    ) -> None:
        """Write row m of the product into `out`, from `base + starts[m]` on; both arrays are flat.

        The right operand's row k lies `offsets[k]` behind the first one. Rows that are written in
        turns begin at the first one of them.
        """
        elements = self._near_elements(places)
        near = space.array((elements,), np.float32) if elements else _NOTHING
        # Rows that fill the last panel have a bias, too: the code reads one for each row of a tile.
        first = self.no_bias if bias is None else bias
        self._multiply(
            x,
            offsets,
            self.packed,
            first,
            self.limits if limits is None else limits,
            places.reads,
            places.stores,
            places.pieces,
            near,
            out,
            starts,
            base,
            self.shared,
        )

    @cached_property
    def _multiply(self) -> Callable[..., None]:
        steps = import_module("irdeconv.kernels.compiled_records")
        multiply: Callable[..., None] = steps.tiles(self._step)
        return multiply

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
        """Record a call without bias and limits."""
        elements = self._near_elements(places)
        near = plan.array((elements,), np.float32) if elements else _NOTHING
        more = self.limits, places.reads, places.stores, places.pieces, near, out, starts, base
        # Tuples of that many zeros: their lengths are types to numba, so that each combination
        # has code of its own.
        counts = tuple((0,) * n for n in (self.rows.turns, self.rows.steps, self.rows.longer))
        return Recorded.of(
            self._step, x, offsets, self.packed, self.no_bias, *more, self.shared, counts
        )

    @property
    def _step(self) -> str:
        return step_name(self.tile, self.rows)

    def _near_elements(self, places: VectorPlaces) -> int:
        copied = len(places.pieces[0]) > 0
        return near_elements(self.depth, len(places.reads)) if copied else 0


class IntegerPanels(Panels):
    """A matrix whose rows are multiples of `steps` (see `row_steps`), for data that are `levels`.

    Its products are of integers, and exact; several of each sum are packed into a word. The data
    are always copied: that makes them integers.
    """

    def __init__(self, matrix: Array, steps: Array, tile: RegisterTile, levels: Levels) -> None:
        many = jit.packed_integers()
        integers = np.rint(matrix / steps[:, None]).astype(np.int64)
        packed = np.pad(integers, ((0, 0), (0, -integers.shape[1] % many)))
        bits = 32 // many
        # The lowest bits of a word are its first integer.
        packed = packed.reshape(len(packed), -1, many) & ((1 << bits) - 1)
        words = (packed << bits * np.arange(many)).sum(axis=2)
        super().__init__(words.astype(np.uint32).view(np.float32), tile)
        self.limits = np.array([*UNLIMITED, 1 / levels.step, MAGIC + levels.zero], np.float32)
        more = np.zeros((2, len(self.no_bias)), np.float32)
        more[0, : len(steps)] = steps * levels.step
        # Data that are zero stand for this integer, so each sum is too large by so many weights.
        more[1, : len(steps)] = (
            (-levels.zero * integers.sum(axis=1)).astype(np.int32).view(np.float32)
        )
        self.no_bias = np.concatenate([self.no_bias, *more])

    @property
    def _step(self) -> str:
        return step_name(self.tile, packed=jit.packed_integers())

    def _near_elements(self, places: VectorPlaces) -> int:
        return integer_elements(self.depth, len(places.reads))


def packed_offsets(offsets: Array) -> Array:
    """Return the offsets of the first integers of all words, then of the second ones, ..."""
    many = jit.packed_integers()
    return np.pad(offsets, (0, -len(offsets) % many), "edge").reshape(-1, many).T.reshape(-1)


def step_name(tile: RegisterTile, rows: RowTurns = ALIKE, *, packed: int = 1) -> str:
    """Return the micro-kernel's name, with a tile, in a table of calls."""
    counts = tile.rows, tile.vectors, rows.turns, rows.steps, rows.longer
    return TILES + PACKED[packed] + "_".join(map(str, counts))


LARGEST_WEIGHT, LARGEST_LEVEL = 128, 255  # of weights and of data
MOST_PRODUCTS = (2**31 - 1) // (LARGEST_LEVEL * LARGEST_WEIGHT)  # in a sum of 32 bits
# x + MAGIC has the integer next to x in its low bits, as a f32 of that size has steps of 1.
MAGIC = 1.5 * 2**23
SOME_COLUMNS = 16
LEAST_STEP, MOST_STEP = 2.0**-60, 2.0**60  # so that f32 has their reciprocals and products
OFF = 2.0**-14  # steps by which a multiple may be wrong: f32 rounds it, and its range has 256


def row_steps(rows: Array) -> Array | None:
    """Return f64 steps of rows `[M, K]` whose elements are 8-bit integers; None if others are."""
    top = np.abs(rows).max(axis=1).astype(np.float64)
    if rows.shape[1] > MOST_PRODUCTS or not (top <= MOST_STEP).all():
        return None
    steps = np.where(top > 0, 0.0, 1.0)
    # Most quantisers use the whole range in each row, or in one of them.
    _try_steps(steps, rows, top / 127)
    _try_steps(steps, rows, np.full_like(top, top.max() / 127))
    for largest in (128, *range(126, 0, -1)):
        if steps.all():
            break
        _try_steps(steps, rows, top / largest)
    return steps if (steps >= LEAST_STEP).all() else None


def _try_steps(steps: Array, rows: Array, found: Array) -> None:
    """Replace steps that are still 0 by those that were found, if the rows fit."""
    left = np.flatnonzero(steps == 0)
    for columns in (slice(SOME_COLUMNS), slice(None)):  # most that do not fit show it soon
        multiples = rows[left, columns] / found[left, None]
        off = np.abs(multiples - np.rint(multiples)).max(axis=1, initial=0)
        left = left[(off <= OFF) & (multiples.max(axis=1) < LARGEST_WEIGHT - 0.5)]
    steps[left] = found[left]


def near_vectors(depth: int) -> int:
    """Return the number of vectors that are copied at once for sums of so many products."""
    return max(1, NEAR_BYTES // (4 * max(1, depth) * jit.lanes()))


def near_elements(depth: int, vectors: int) -> int:
    """Return the number of elements copied for so many vectors, room behind them included."""
    # One vector more: the last piece is stored as a whole vector, wherever in a row it begins.
    return (depth * vectors + 1) * jit.lanes()


def integer_elements(depth: int, vectors: int) -> int:
    """Return the same for `depth` words of integers, and a vector behind for each of these."""
    return (depth * vectors + 1 + vectors + 1) * jit.lanes()


_PACKED: WeakValueDictionary[Any, Array] = WeakValueDictionary()


def _packed(matrix: Array, rows: int, shared: int, turns: RowTurns) -> Array:
    """Return panels of so many rows behind one another; programs for other shapes share them."""
    plain = matrix.T if matrix.strides[0] < matrix.strides[1] else matrix
    # Only constants are read-only; even so, the elements there may be other ones by now.
    check = None if matrix.flags.writeable else crc32(np.ascontiguousarray(plain).data)
    key = check, matrix.ctypes.data, matrix.shape, matrix.strides, rows, shared, turns
    known = _PACKED.get(key)
    if known is not None and check is not None:
        return known
    # Weights of one k are neighbours, in the order in which the micro-kernel reads them. Rows that
    # the matrix does not have are zeros: their sums are computed and never written.
    count, depth = matrix.shape
    if plain is not matrix:  # some rows at a time, since their elements lie far apart
        matrix = np.empty(matrix.shape, np.float32)
        for k in range(0, depth, 64):
            matrix[:, k : k + 64] = plain[k : k + 64].T
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
    _PACKED[key] = packed = out.reshape(-1)
    return packed


NOTHING = Space()  # scratch memory of which nothing is used: all is read in place
FIRST_CALLS = 1  # that are made one by one: writing calls down takes longer than one run saves


class StackedPanels:
    """Constant matrices `[stack, M, K]` of f32, packed for right operands of some widths.

    Calls that are to be repeated with the same places are recorded.
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
        # A table counts places from the beginnings of `values` and `out`, so it serves all arrays
        # of these sizes.
        place = line, columns, base, plane, values.shape[1], len(out)
        table = self._tables.get(place)
        if table is None and self._calls > FIRST_CALLS:
            given = ScratchPlace.given(0, values), ScratchPlace.given(1, out)
            table = self._tables[place] = self.recorded(*given, *place[:4])
        if table is not None:
            table.run_on(values, out, NOTHING)
            return
        offsets, places, starts = self._places(line, columns)
        for i, panels in enumerate(self.panels):
            panels(values[i], offsets, places, out, starts, base + i * plane, NOTHING)

    def _places(self, line: int, columns: int) -> tuple[Array, VectorPlaces, Array]:
        """Return the places at which rows and vectors are read, and rows are written."""
        at = np.arange(columns)
        places = VectorPlaces.lying(ProductColumns(at, at), vector_starts(columns, False))
        return np.arange(self.depth) * line, places, np.arange(self.rows) * columns

    def recorded(
        self,
        values: ScratchPlace,
        out: ScratchPlace,
        line: int,
        columns: int,
        base: int,
        plane: int,
    ) -> Recorded:
        """Record a call, see `__call__`."""
        offsets, places, starts = self._places(line, columns)
        calls = []
        for i, panels in enumerate(self.panels):
            x = values.seen(lambda rows, i=i: rows[i])  # type: ignore[misc]
            more = out, starts, base + i * plane, ScratchPlan()
            calls.append(panels.recorded(x, offsets, places, *more))
        return Recorded.joined(calls)
