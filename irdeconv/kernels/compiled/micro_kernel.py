"""The micro-kernel: constant weights, packed once, times data that is read wherever it lies.

A tile of the result, some rows by some vectors, stays in registers while all products of its sums
are added. What a sum reads is a table of offsets, so taps of a convolution need no columns.
Imported only where numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba.core import cgutils  # type: ignore[import-not-found, import-untyped, unused-ignore]

from irdeconv.kernels.compiled import TURNS
from irdeconv.kernels.compiled.vectors import FlatArray, Pair, VectorCode, in_turns, instruction
from irdeconv.kernels.shared import jit

VectorPlaces = tuple[FlatArray, FlatArray]
Pieces = tuple[FlatArray, FlatArray, FlatArray]
Vectors = Callable[[ir.Value], list[ir.Value]]


@dataclass(frozen=True)
class _Tiles:
    """Writes the code of `tiles`, for tiles of `rows` by `vectors`; the arrays are as there."""

    code: VectorCode
    rows: int
    vectors: int
    x: FlatArray
    offsets: FlatArray
    panels: FlatArray
    near: FlatArray
    out: FlatArray
    starts: FlatArray

    def number(self, value: int) -> ir.Value:
        """Return a constant place."""
        return ir.Constant(ir.IntType(64), value)

    def plus(self, at: ir.Value, steps: int) -> ir.Value:
        """Return a place that lies behind another."""
        return self.code.builder.add(at, self.number(steps))

    def times(self, value: ir.Value, factor: int) -> ir.Value:
        """Return a multiple."""
        return self.code.builder.mul(value, self.number(factor))

    def gather(self, group: ir.Value, pieces: Pieces) -> None:
        """Copy what the vectors of a tile read to `near`, one row behind the other.

        A piece is the beginning of a vector or what of it lies elsewhere; what is copied behind its
        end is overwritten by the next piece.
        """
        builder, (firsts, reads, places) = self.code.builder, pieces
        first, stop = firsts.element(group), firsts.element(self.plus(group, 1))
        with cgutils.for_range(builder, self.offsets.count) as loop:
            offset = self.offsets.element(loop.index)
            row = self.times(loop.index, self.code.lanes * self.vectors)
            with cgutils.for_range(builder, stop, start=first) as piece:
                part = self.x.vector(builder.add(reads.element(piece.index), offset))
                self.near.store(part, builder.add(row, places.element(piece.index)))

    def near_vectors(self, k: ir.Value) -> list[ir.Value]:
        """Return the vectors of row k that were copied."""
        lanes = self.code.lanes
        start = self.times(k, self.vectors * lanes)
        return [self.near.vector(self.plus(start, v * lanes)) for v in range(self.vectors)]

    def far_vectors(self, reads: list[ir.Value]) -> Vectors:
        """Return what gives the vectors of a row where they lie."""

        def vectors(k: ir.Value) -> list[ir.Value]:
            offset = self.offsets.element(k)
            return [self.x.vector(self.code.builder.add(read, offset)) for read in reads]

        return vectors

    def begin(self, row: ir.Value, bias: FlatArray) -> list[list[ir.Value]]:
        """Return memory for the sums of a tile, in which the bias is."""
        totals = []
        for m in range(self.rows):
            first = self.code.splat(bias.element(self.plus(row, m)))
            totals.append([self.code.total() for _ in range(self.vectors)])
            for total in totals[-1]:
                self.code.builder.store(first, total)
        return totals

    def multiply(self, row: ir.Value, totals: list[list[ir.Value]], vectors: Vectors) -> None:
        """Add the products of a panel, which begins with a row, to the sums of a tile."""
        code, count = self.code, self.offsets.count
        start = code.builder.mul(row, count)
        with cgutils.for_range(code.builder, count) as loop:
            parts = vectors(loop.index)
            place = code.builder.add(start, self.times(loop.index, self.rows))
            for m, sums in enumerate(totals):
                factor = code.splat(self.panels.element(self.plus(place, m)))
                for part, total in zip(parts, sums, strict=True):
                    code.add_product_to(total, part, factor)

    def clamped(self, total: ir.Value, limits: Pair) -> ir.Value:
        """Return a vector of sums within limits; NaN stays NaN."""
        builder, (low, high) = self.code.builder, limits
        value = builder.load(total)
        raised = builder.select(builder.fcmp_ordered("<", value, low), low, value)
        return builder.select(builder.fcmp_ordered(">", raised, high), high, raised)

    def finish(
        self,
        row: ir.Value,
        totals: list[list[ir.Value]],
        limits: Pair,
        base: ir.Value,
        writes: list[ir.Value],
        turns: int,
    ) -> None:
        """Write the rows of a tile that the result has, `turns` of them in turns."""
        builder = self.code.builder
        done = [[self.clamped(total, limits) for total in sums] for sums in totals]
        for m in range(0, self.rows, turns):
            number = self.plus(row, m)
            with builder.if_then(builder.icmp_signed("<", number, self.starts.count)):
                place = builder.add(base, self.starts.element(number))
                for i, write in enumerate(writes):
                    parts = [done[m + turn][i] for turn in range(turns)]
                    self.out.store(in_turns(self.code, parts), builder.add(place, write))

    def write(
        self,
        bias: FlatArray,
        limits: FlatArray,
        places: VectorPlaces,
        pieces: Pieces,
        base: ir.Value,
        turns: ir.Value,
    ) -> None:
        """Visit the groups of vectors and the panels."""
        builder = self.code.builder
        clamp = [self.code.splat(limits.element(self.number(i))) for i in range(2)]
        copied = builder.icmp_signed(">", self.near.count, self.number(0))
        groups = builder.sdiv(places[0].count, self.number(self.vectors))
        with cgutils.for_range(builder, groups) as group:
            first = self.times(group.index, self.vectors)
            reads, writes = (
                [p.element(self.plus(first, v)) for v in range(self.vectors)] for p in places
            )
            with builder.if_then(copied):
                self.gather(group.index, pieces)
            last = self.plus(self.starts.count, self.rows - 1)
            with cgutils.for_range(builder, builder.sdiv(last, self.number(self.rows))) as panel:
                row = self.times(panel.index, self.rows)
                totals = self.begin(row, bias)
                with builder.if_else(copied) as (then, otherwise):
                    with then:
                        self.multiply(row, totals, self.near_vectors)
                    with otherwise:
                        self.multiply(row, totals, self.far_vectors(reads))
                for count in (n for n in TURNS if self.rows % n == 0):
                    with builder.if_then(builder.icmp_signed("==", turns, self.number(count))):
                        self.finish(row, totals, (clamp[0], clamp[1]), base, writes, count)


def _tiles(rows: int, vectors: int) -> Any:
    def tiles(
        code: VectorCode,
        x: FlatArray,
        offsets: FlatArray,
        panels: FlatArray,
        bias: FlatArray,
        limits: FlatArray,
        places: VectorPlaces,
        pieces: Pieces,
        near: FlatArray,
        out: FlatArray,
        starts: FlatArray,
        base: ir.Value,
        turns: ir.Value,
    ) -> None:
        """Write vectors of `out`: sums over k of `panels` times `x`.

        Vector v of row m is written at `base + starts[m] + writes[v]`. Its terms are the weight
        (m, k) times the vector at `reads[v] + offsets[k]`. `panels` hold `rows` rows each, `bias` a
        number for each of them, `limits` the least and the greatest result. `places` are (reads,
        writes), a multiple of `vectors` long. Where `near` has elements, what a tile reads is
        copied there first, by `pieces`: for each tile the first one's number, and for each piece
        where it is read, and where in a row of `near` it is written. The elements of `turns`
        neighbouring rows are written in turns where the first one begins.
        """
        tile = _Tiles(code, rows, vectors, x, offsets, panels, near, out, starts)
        tile.write(bias, limits, places, pieces, base, turns)

    return instruction(jit.lanes(), tiles)


_tiles24x1, _tiles12x2, _tiles8x3, _tiles6x4 = (
    _tiles(24, 1),
    _tiles(12, 2),
    _tiles(8, 3),
    _tiles(6, 4),
)
_tiles12x1, _tiles6x2, _tiles4x3 = _tiles(12, 1), _tiles(6, 2), _tiles(4, 3)


# One function for each tile, by name: numba keeps the code of those that a module defines.


@jit.compiled
def tiles24x1(*arguments: Any) -> None:
    """See `_tiles`."""
    _tiles24x1(*arguments)


@jit.compiled
def tiles12x2(*arguments: Any) -> None:
    """See `_tiles`."""
    _tiles12x2(*arguments)


@jit.compiled
def tiles8x3(*arguments: Any) -> None:
    """See `_tiles`."""
    _tiles8x3(*arguments)


@jit.compiled
def tiles6x4(*arguments: Any) -> None:
    """See `_tiles`."""
    _tiles6x4(*arguments)


@jit.compiled
def tiles12x1(*arguments: Any) -> None:
    """See `_tiles`."""
    _tiles12x1(*arguments)


@jit.compiled
def tiles6x2(*arguments: Any) -> None:
    """See `_tiles`."""
    _tiles6x2(*arguments)


@jit.compiled
def tiles4x3(*arguments: Any) -> None:
    """See `_tiles`."""
    _tiles4x3(*arguments)
