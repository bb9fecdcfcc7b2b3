"""The micro-kernel: constant weights, packed once, times data that is read in place.

A tile of the result, some rows by some vectors, stays in registers while all products of its sums
are added. A table of offsets locates each sum's data, so taps of a convolution need no columns;
another one locates the results, so that rows of any width are stored in place. Imported only
if numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from irdeconv.kernels import jit
from irdeconv.kernels.compiled_vectors import FlatArray, Pair, VectorCode, in_turns, instruction
from irdeconv.kernels.jit import group_sizes

Stores = tuple[FlatArray, FlatArray, FlatArray, FlatArray]
Pieces = tuple[FlatArray, FlatArray, FlatArray]
# 16 KiB: weights that were fetched 2 KiB ahead were not there in time from main memory.
FETCHED_AHEAD = 4096  # weights that are fetched into a level 2 cache before they are used
FETCHED = 16  # of them at a time, a cache line
Vectors = Callable[[ir.Value], list[ir.Value]]
Sums = list[list[ir.Value]]


@dataclass(frozen=True)
class _Tiles:
    """Writes the code that writes vectors of `out`: sums over k of `panels` times `x`.

    The terms of vector v of row m are the weight (m, k) times the vector at `reads[v] +
    offsets[k]`. `panels` hold `rows` rows each, `bias` a number for each of them, `limits` the
    least and the greatest result. The elements of `turns` neighbouring rows are written in turns,
    in that many of `steps` places; behind the first `shared` products only the first `longer` of
    these rows have more. `stores` are the pieces of vectors that are written: for each vector the
    first one's number, and for each piece the place of the vector's first element, counted from
    `base + starts[m]`, and the range of elements to write. If `near` has
    elements, the data of tiles is copied there first, tile by tile, by `pieces`: for each
    tile the first one's number, and for each piece its place in the data and its place in a row of
    the tile.
    """

    code: VectorCode
    rows: int
    x: FlatArray
    offsets: FlatArray
    panels: FlatArray
    bias: FlatArray
    limits: FlatArray
    reads: FlatArray
    pieces: Pieces
    near: FlatArray
    out: FlatArray
    starts: FlatArray
    base: ir.Value
    shared: ir.Value
    turns: int
    steps: int
    longer: int

    def number(self, value: int) -> ir.Value:
        """Return a constant place."""
        return ir.Constant(ir.IntType(64), value)

    def plus(self, at: ir.Value, steps: int) -> ir.Value:
        """Return a place that lies behind another."""
        return self.code.builder.add(at, self.number(steps))

    def times(self, value: ir.Value, factor: int) -> ir.Value:
        return self.code.builder.mul(value, self.number(factor))

    def gather_all(self, vectors: int) -> None:
        """Copy the vectors of all tiles."""
        for number, first, size in self.groups(vectors):
            self.gather(number, first, size)

    def gather(self, group: ir.Value, first: ir.Value, vectors: int) -> None:
        """Copy the vectors that a tile reads, one row behind the other.

        A piece is the beginning of a vector, or a later part that lies elsewhere; the next piece
        overwrites the elements behind its end.
        """
        builder, (firsts, reads, places) = self.code.builder, self.pieces
        begin, stop = firsts.element(group), firsts.element(self.plus(group, 1))
        start = self.near_start(first)
        with cgutils.for_range(builder, self.offsets.count) as loop:
            offset = self.offsets.element(loop.index)
            row = builder.add(start, self.times(loop.index, self.code.lanes * vectors))
            # Pieces rise in a row, or each would destroy the beginning of the one behind it. The
            # last one of all writes behind the last row: `near_elements` has room for that. Each
            # reads a whole vector, however short it is: lines of frames have room for one more.
            with cgutils.for_range(builder, stop, start=begin) as piece:
                part = self.x.vector(builder.add(reads.element(piece.index), offset))
                self.near.store(part, builder.add(row, places.element(piece.index)))

    def depth(self) -> ir.Value:
        """Return the number of rows of the data."""
        return self.offsets.count

    def near_start(self, first: ir.Value) -> ir.Value:
        """Return the start of a tile's copy; `first` is the tile's first vector."""
        # Each vector before it takes `lanes` elements of each row, for tiles of any size.
        return self.code.builder.mul(self.times(first, self.code.lanes), self.depth())

    def copied(self, first: ir.Value, vectors: int) -> Vectors:
        """Return a function that loads the vectors of a row that were copied."""
        lanes, begin = self.code.lanes, self.near_start(first)

        def vectors_of(k: ir.Value) -> list[ir.Value]:
            start = self.code.builder.add(begin, self.times(k, vectors * lanes))
            return [self.near.vector(self.plus(start, v * lanes)) for v in range(vectors)]

        return vectors_of

    def lying(self, first: ir.Value, vectors: int, ahead: bool) -> Vectors:
        """Return a function that loads the vectors of a row in place.

        `ahead`: the next tile's data of a row is fetched as well. Rows are far apart, and
        no processor sees that the next vector of each of many will be wanted. It costs as much as a
        load, so only the first panel does it.
        """
        starts = [self.reads.element(self.plus(first, v)) for v in range(vectors)]

        def vectors_of(k: ir.Value) -> list[ir.Value]:
            offset = self.offsets.element(k)
            places = [self.code.builder.add(start, offset) for start in starts]
            for place in places if ahead else ():
                # Groups of equal size follow each other: the next one begins `vectors` further on.
                self.x.prefetch(self.plus(place, vectors * self.code.lanes))
            return [self.x.vector(place) for place in places]

        return vectors_of

    def multiply(self, panel: ir.Value, first: ir.Value, vectors: int, find: Vectors) -> Sums:
        """Return the sums of a tile, whose first vector is `first`, within limits."""
        # The sums become registers, since nothing takes their addresses. They begin with the bias
        # and then take their products in the order of k, in every tile: so the bits of a result
        # depend neither on the tile nor on the start of a block.
        code, row = self.code, self.times(panel, self.rows)
        totals: Sums = [[code.total() for _ in range(vectors)] for _ in range(self.rows)]
        self.begin(row, totals)
        # Panels are packed alike: first the shared products, k by k with all rows of a panel, then
        # the others, k by k with only the rows that have them. See `_packed` in `panels`.
        some = [sums for m, sums in enumerate(totals) if m % self.turns < self.longer]
        count, begin = self.depth(), self.number(0)
        rest = code.builder.sub(count, self.shared)
        parts = self.times(self.shared, self.rows), self.times(rest, len(some))
        start = code.builder.mul(panel, code.builder.add(*parts))
        self.add(begin, self.shared, start, totals, find)
        if self.longer < self.turns:
            self.add(self.shared, count, code.builder.add(start, parts[0]), some, find)
        return [
            [self.clamped(value) for value in self.ended(self.plus(row, m), first, sums)]
            for m, sums in enumerate(totals)
        ]

    def begin(self, row: ir.Value, totals: Sums) -> None:
        """Begin the sums of some rows with their bias."""
        for m, sums in enumerate(totals):
            bias = self.code.splat(self.bias.element(self.plus(row, m)))
            for total in sums:
                self.code.builder.store(bias, total)

    def ended(self, row: ir.Value, first: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        return [self.code.builder.load(total) for total in sums]

    def add_product(self, total: ir.Value, part: ir.Value, factor: ir.Value) -> None:
        """Add a product to a vector of sums in memory."""
        self.code.add_product_to(total, part, factor)

    def add(
        self, begin: ir.Value, end: ir.Value, place: ir.Value, totals: Sums, find: Vectors
    ) -> None:
        """Add the products from `begin` to `end`, whose weights lie at a place, to sums."""
        code = self.code
        with cgutils.for_range(code.builder, end, start=begin) as loop:
            parts = find(loop.index)
            at = self.times(code.builder.sub(loop.index, begin), len(totals))
            # Once for each line of weights. Near the end this is memory behind the array: fetching
            # changes nothing there.
            for weight in range(0, len(totals), FETCHED):
                ahead = self.plus(at, FETCHED_AHEAD + weight)
                self.panels.prefetch(code.builder.add(place, ahead))
            # The vectors stay, weights come and go: a weight is used by all vectors of its row at
            # once, so each is loaded once for every tile.
            for m, sums in enumerate(totals):
                weight = code.builder.add(place, self.plus(at, m))
                factor = code.splat(self.panels.element(weight))
                for part, total in zip(parts, sums, strict=True):
                    self.add_product(total, part, factor)

    def clamped(self, value: ir.Value) -> ir.Value:
        """Return a vector of sums within limits; NaN stays NaN."""
        # Ordered comparisons with NaN are false, so that NaN passes both selections. LLVM's minnum
        # and maxnum would return the limit instead.
        builder = self.code.builder
        low, high = (self.code.splat(self.limits.element(self.number(i))) for i in range(2))
        raised = builder.select(builder.fcmp_ordered("<", value, low), low, value)
        return builder.select(builder.fcmp_ordered(">", raised, high), high, raised)

    def finish(self, row: ir.Value, first: ir.Value, sums: Sums, stores: Stores) -> None:
        """Write the rows of a tile that the result has, vector by vector, piece by piece."""
        builder, (firsts, places, lows, highs) = self.code.builder, stores
        many = self.code.lanes * self.steps
        for v in range(len(sums[0])):
            vector = self.plus(first, v)
            begin, end = firsts.element(vector), firsts.element(self.plus(vector, 1))
            with cgutils.for_range(builder, end, start=begin) as piece:
                low, high = lows.element(piece.index), highs.element(piece.index)
                place = builder.add(self.base, places.element(piece.index))
                # Elements of other products lie between those that are written here.
                if self.turns < self.steps:
                    self.store(row, place, [s[v] for s in sums], (low, high))
                    continue
                # Most pieces are whole vectors, whose store needs no mask. A span can only be as
                # long as the vector if it is the vector.
                size = builder.sub(high, low)
                whole = builder.icmp_signed("==", size, self.number(many))
                with builder.if_else(whole) as (then, otherwise):
                    with then:
                        self.store(row, place, [s[v] for s in sums], None)
                    with otherwise:
                        self.store(row, place, [s[v] for s in sums], (low, high))

    def store(
        self, row: ir.Value, place: ir.Value, sums: list[ir.Value], span: Pair | None
    ) -> None:
        """Write a vector of each row, or the elements in a span of it."""
        builder = self.code.builder
        for m in range(0, self.rows, self.turns):
            # The last panel may have more rows than are left. `turns` divides their number.
            number = self.plus(row, m)
            with builder.if_then(builder.icmp_signed("<", number, self.starts.count)):
                at = builder.add(place, self.starts.element(number))
                # If one row is written in every `steps`-th place, the others of these hold the
                # same numbers; `store_some` leaves them out.
                parts = sums[m : m + self.turns]
                joined = in_turns(self.code, parts * (self.steps // self.turns))
                if span is None:
                    self.out.store(joined, at)
                else:
                    self.out.store_some(joined, at, span, self.steps // self.turns)

    def write(self, vectors: int, stores: Stores) -> None:
        """Visit all tiles, panel by panel, so that its weights stay near."""
        builder, panels = self.code.builder, self.panel_count()
        copied = builder.icmp_signed(">", self.near.count, self.number(0))
        with builder.if_else(copied) as (then, otherwise):
            with then:
                self.write_copied(vectors, stores)
            with otherwise:
                # The first panel in a loop of its own: whether to fetch is decided in the code, not
                # anew for each product. No panel is a possible number, too.
                some = builder.icmp_signed(">", panels, self.number(0))
                one = builder.select(some, self.number(1), self.number(0))
                for begin, end in ((self.number(0), one), (one, panels)):
                    with cgutils.for_range(builder, end, start=begin) as panel:
                        for _, first, size in self.groups(vectors):
                            find = self.lying(first, size, ahead=end is one)
                            self.tile(panel.index, first, size, find, stores)

    def panel_count(self) -> ir.Value:
        last = self.plus(self.starts.count, self.rows - 1)
        return self.code.builder.sdiv(last, self.number(self.rows))

    def write_copied(self, vectors: int, stores: Stores) -> None:
        """Copy the data of all tiles, then visit them."""
        self.gather_all(vectors)
        with cgutils.for_range(self.code.builder, self.panel_count()) as panel:
            for _, first, size in self.groups(vectors):
                self.tile(panel.index, first, size, self.copied(first, size), stores)

    def tile(
        self, panel: ir.Value, first: ir.Value, size: int, find: Vectors, stores: Stores
    ) -> None:
        """Compute a tile, and write it."""
        sums = self.multiply(panel, first, size, find)
        self.finish(self.times(panel, self.rows), first, sums, stores)

    def groups(self, vectors: int) -> Iterator[tuple[ir.Value, ir.Value, int]]:
        """Write loops over groups of vectors; in each, yield its number, first vector and size."""
        # The caller writes the loop's body while this waits at `yield`; the step to the next group
        # is written behind it. A caller that stops early leaves the loop without an end.
        builder, zero = self.code.builder, self.number(0)
        number, done = (cgutils.alloca_once_value(builder, zero) for _ in range(2))
        for size in group_sizes(vectors):
            left = builder.sub(self.reads.count, builder.load(done))
            with cgutils.for_range(builder, builder.sdiv(left, self.number(size))):
                first = builder.load(done)
                yield builder.load(number), first, size
                builder.store(self.plus(first, size), done)
                builder.store(self.plus(builder.load(number), 1), number)


NAN_BITS = 0x34000000  # all NaNs have these bits, and no number near `panels.MAGIC` has one
_PRODUCTS = {8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}  # by lanes


@dataclass(frozen=True)
class _IntegerTiles(_Tiles):
    """The same of integers: sums of 32 bits of products of words, `packed` integers each.

    The data are numbers or NaN. They become integers when they are copied: the integer of x is in
    the low bits of x * limits[2] + limits[3], for the limits stand in front of these. Words k have
    the data of `offsets[k]`, `offsets[k + n/packed]` and so on. `bias` has three numbers for each
    row: first the bias of all rows, then the factors of the sums, then the integers with which
    these begin. Behind the copies each vector of the result has one that is NaN where a sum has
    read NaN, else 0.
    """

    packed: int = 2

    @property
    def integers(self) -> ir.Type:
        """The type of a vector of sums."""
        return ir.VectorType(ir.IntType(32), self.code.lanes)

    def part(self, array: FlatArray, parts: int) -> ir.Value:
        """Return the length of one of the equal parts of an array."""
        return self.code.builder.sdiv(array.count, self.number(parts))

    def depth(self) -> ir.Value:
        return self.part(self.offsets, self.packed)

    def lost(self, vector: ir.Value) -> ir.Value:
        """Return the place of the vector that is NaN where a vector's sums are."""
        # One more is behind them: a piece is stored as a whole vector.
        size = self.times(self.plus(self.reads.count, 1), self.code.lanes)
        start = self.code.builder.sub(self.near.count, size)
        return self.code.builder.add(start, self.times(vector, self.code.lanes))

    def gather_all(self, vectors: int) -> None:
        """Copy the vectors of all tiles as integers."""
        code, builder, seen = self.code, self.code.builder, self.code.total()
        for number, first, size in self.groups(vectors):
            with cgutils.for_range(builder, self.depth()) as loop:
                offset = self.times(loop.index, code.lanes * size)
                row = builder.add(self.near_start(first), offset)
                with self.each_piece(number) as (read, place):
                    self.copy_words(loop.index, read, builder.add(row, place), seen)
        with cgutils.for_range(builder, self.reads.count) as loop:
            self.near.store(code.zero, self.lost(loop.index))
        bits = builder.and_(self.as_integers(builder.load(seen)), self.integer(NAN_BITS))
        whole = ir.IntType(32 * code.lanes)
        some = builder.icmp_unsigned("!=", builder.bitcast(bits, whole), whole(0))
        with builder.if_then(some, likely=False):
            for number, first, _ in self.groups(vectors):
                with self.each_piece(number) as (read, place):
                    self.mark_lost(read, builder.add(self.lost(first), place))

    @contextmanager
    def each_piece(self, group: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Write a loop over the pieces of a tile; yield where one is read, and its place."""
        firsts, reads, places = self.pieces
        begin, stop = firsts.element(group), firsts.element(self.plus(group, 1))
        with cgutils.for_range(self.code.builder, stop, start=begin) as piece:
            yield reads.element(piece.index), places.element(piece.index)

    def copy_words(self, k: ir.Value, read: ir.Value, place: ir.Value, seen: ir.Value) -> None:
        """Copy a vector of words, and add the bits of its numbers to those that were seen."""
        code, builder, bits = self.code, self.code.builder, 32 // self.packed
        factor, first = (code.splat(self.limits.element(self.number(i))) for i in (2, 3))
        every, word = self.as_integers(builder.load(seen)), self.integer(0)
        for i in range(self.packed):
            number = builder.add(k, self.times(self.depth(), i))
            part = self.x.vector(builder.add(read, self.offsets.element(number)))
            found = self.as_integers(code.add_product(part, factor, first))
            every = builder.or_(every, found)
            low = builder.and_(found, self.integer((1 << bits) - 1))
            word = builder.or_(word, builder.shl(low, self.integer(bits * i)))
        builder.store(builder.bitcast(every, code.zero.type), seen)
        self.near.store(builder.bitcast(word, code.zero.type), place)

    def mark_lost(self, read: ir.Value, place: ir.Value) -> None:
        """Write NaN where one of the data of a sum is NaN."""
        builder, total = self.code.builder, self.code.total()
        with cgutils.for_range(builder, self.offsets.count) as loop:
            part = self.x.vector(builder.add(read, self.offsets.element(loop.index)))
            builder.store(builder.fadd(builder.load(total), builder.fsub(part, part)), total)
        self.near.store(builder.load(total), place)

    def integer(self, value: int) -> ir.Value:
        return ir.Constant(self.integers, [value] * self.code.lanes)

    def as_integers(self, value: ir.Value) -> ir.Value:
        return self.code.builder.bitcast(value, self.integers)

    def begin(self, row: ir.Value, totals: Sums) -> None:
        """Begin the sums of some rows with their integers."""
        super().begin(self.code.builder.add(row, self.times(self.part(self.bias, 3), 2)), totals)

    def add_product(self, total: ir.Value, part: ir.Value, factor: ir.Value) -> None:
        """Add the products of words."""
        builder, kind = self.code.builder, self.integers
        sums, *words = (self.as_integers(v) for v in (builder.load(total), part, factor))
        if self.packed == 4:
            # LLVM 22 has other types for it, and accepts these.
            added = self.call("avx512.vpdpbusd.512", kind, [sums, *words])
        else:
            pairs = ir.VectorType(ir.IntType(16), 2 * self.code.lanes)
            pair = [builder.bitcast(v, pairs) for v in words]
            added = builder.add(sums, self.call(_PRODUCTS[self.code.lanes], kind, pair))
        builder.store(builder.bitcast(added, self.code.zero.type), total)

    def call(self, name: str, kind: ir.Type, values: list[ir.Value]) -> ir.Value:
        """Call an instruction of the processor."""
        shape = ir.FunctionType(kind, [v.type for v in values])
        name = f"llvm.x86.{name}"
        found = cgutils.get_or_insert_function(self.code.builder.module, shape, name)
        return self.code.builder.call(found, values)

    def ended(self, row: ir.Value, first: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """Return the sums of a row as the numbers that they stand for."""
        code, builder, values = self.code, self.code.builder, []
        bias = code.splat(self.bias.element(row))
        factor = code.splat(self.bias.element(builder.add(row, self.part(self.bias, 3))))
        for v, total in enumerate(sums):
            number = builder.sitofp(self.as_integers(builder.load(total)), code.zero.type)
            lost = self.near.vector(self.lost(self.plus(first, v)))
            values.append(builder.fadd(code.add_product(number, factor, bias), lost))
        return values

    def write(self, vectors: int, stores: Stores) -> None:
        """Visit all tiles, whose data are always copied."""
        self.write_copied(vectors, stores)


def tile_code(rows: int, vectors: int, packed: int = 1) -> Any:
    """Return the function of a tile for compiled code, which it becomes a part of."""
    kind: Any = _Tiles if packed == 1 else partial(_IntegerTiles, packed=packed)

    def tiles(
        code: VectorCode,
        x: FlatArray,
        offsets: FlatArray,
        panels: FlatArray,
        bias: FlatArray,
        limits: FlatArray,
        reads: FlatArray,
        stores: Stores,
        pieces: Pieces,
        near: FlatArray,
        out: FlatArray,
        starts: FlatArray,
        base: ir.Value,
        shared: ir.Value,
        counts: tuple[tuple[ir.Value, ...], ...],
    ) -> None:
        """See `_Tiles`; `counts` are tuples as long as the last three fields."""
        read = x, offsets, panels, bias, limits, reads, pieces, near
        # The length of a tuple is part of its type: known here, in the code generator, as a number
        # that is passed is not.
        turns, steps, longer = map(len, counts)
        tile = kind(code, rows, *read, out, starts, base, shared, turns, steps, longer)
        tile.write(vectors, stores)

    return instruction(jit.lanes(), tiles)
