"""Vector instructions for compiled loops; imported only if numba is installed.

Loops that the compiler turns into vectors by itself need proof that arrays do not overlap, and
finish the rest of a row element by element. These functions do neither: they take places in
flat arrays and read and write whole vectors there. Nothing is checked, so callers leave room.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from irdeconv.kernels import jit

CONTRACT = ("contract",)
MASKED = jit.lanes() == 16
Pair = tuple[ir.Value, ir.Value]


class VectorCode:
    """Writes code for vectors of `lanes` elements of a type."""

    def __init__(self, context: Any, builder: ir.IRBuilder, lanes: int, element: types.Type):
        self.context, self.builder, self.lanes, self.element = context, builder, lanes, element
        self.scalar = context.get_data_type(element)
        self.zero = ir.Constant(ir.VectorType(self.scalar, lanes), None)

    def total(self) -> ir.Value:
        """Return memory for a vector of sums, zero here."""
        # `alloca_once` takes the memory in the function's first block. Elsewhere it would never
        # become a register, and in a loop every turn would take more of the stack. The zero is
        # stored here, so that each turn of a loop around this begins with it.
        total = cgutils.alloca_once(self.builder, self.zero.type)
        self.builder.store(self.zero, total)
        return total

    def splat(self, value: ir.Value) -> ir.Value:
        """Return a vector that has the same value in all lanes."""
        # LLVM has no broadcast. It makes one of this pair, an element and a shuffle by zeros, and
        # takes a value that was just loaded straight from memory.
        lane, kind = ir.Constant(ir.IntType(32), 0), ir.VectorType(value.type, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, lane)
        return self.shuffled(one, one, [0] * self.lanes)

    def shuffled(self, one: ir.Value, other: ir.Value, lanes: list[int]) -> ir.Value:
        """Return some lanes of two vectors, those of the other one counted behind the first's."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        return self.builder.shuffle_vector(one, other, mask)

    def add_product(self, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        """Return total + a * b; it may be contracted."""
        # Both need the flag to become one fused multiply-add. No other flag is set: with `reassoc`
        # LLVM could change the order of sums, and results would depend on how loops are unrolled.
        product = self.builder.fmul(a, b, flags=CONTRACT)
        return self.builder.fadd(total, product, flags=CONTRACT)

    def add_product_to(self, total: ir.Value, a: ir.Value, b: ir.Value) -> None:
        """Add a * b to a vector of sums in memory."""
        self.builder.store(self.add_product(a, b, self.builder.load(total)), total)


class FlatArray:
    """An array of one axis, whose elements and vectors code reads and writes."""

    def __init__(self, code: VectorCode, kind: types.Array, value: ir.Value) -> None:
        array = code.context.make_array(kind)(code.context, code.builder, value)
        self.code, self.data, self.count = code, array.data, array.nitems

    def by(self, code: VectorCode) -> FlatArray:
        """Return the same array for vectors of other lengths."""
        other = copy(self)
        other.code = code
        return other

    def element(self, at: ir.Value) -> ir.Value:
        """Load an element."""
        return self.code.builder.load(self.code.builder.gep(self.data, [at]))

    def vector(self, at: ir.Value, skip: int = 1) -> ir.Value:
        """Load every `skip`-th element of `lanes * skip` neighbours."""
        code = self.code
        # One long load and a shuffle, since loads of single elements would be one instruction
        # each. So `skip - 1` elements behind the last one that counts are read, too.
        neighbours = ir.VectorType(code.scalar, code.lanes * skip)
        # Without `align` LLVM takes the address for a multiple of the whole vector's size, and its
        # instruction for such addresses ends the process at any other one.
        loaded = code.builder.load(self._pointer(at, neighbours), align=4)
        if skip == 1:
            return loaded
        return code.shuffled(loaded, loaded, [lane * skip for lane in range(code.lanes)])

    def store(self, value: ir.Value, at: ir.Value) -> None:
        """Store a vector of any length."""
        self.code.builder.store(value, self._pointer(at, value.type), align=4)

    def prefetch(self, at: ir.Value) -> None:
        """Fetch an element, which may lie behind the array, into the level 2 cache.

        The processor has more room for pending loads there than for the first level.
        """
        builder, number = self.code.builder, ir.IntType(32)
        # The address is not marked `inbounds`, and fetching never faults: it may lie anywhere.
        pointer = builder.gep(self.data, [at])
        shape = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        # To be read (0), near but not nearest (2 of 0 to 3: prefetcht1), data (1).
        builder.call(fetch, [pointer, number(0), number(2), number(1)])

    def store_first(self, value: ir.Value, at: ir.Value, count: ir.Value) -> None:
        """Store a vector, only its first elements if the processor has masks."""
        if MASKED:
            self.store_some(value, at, (count.type(0), count), 1)
        else:
            self.store(value, at)

    def store_some(self, value: ir.Value, at: ir.Value, span: Pair, step: int) -> None:
        """Store the elements in a span of a vector, every `step`-th one from its beginning on."""
        code, builder = self.code, self.code.builder
        # AVX-512 has registers for masks and masked stores. Elsewhere the vector goes to the stack,
        # and its elements are copied from there one by one.
        if MASKED and code.lanes > 1:
            self._store_masked(value, at, span, step)
            return
        memory = cgutils.alloca_once(builder, value.type)
        builder.store(value, memory)
        first = builder.bitcast(memory, code.scalar.as_pointer())
        low, high = span
        with cgutils.for_range_slice(builder, low, high, low.type(step)) as (place, _):
            element = builder.load(builder.gep(first, [place]))
            builder.store(element, builder.gep(self.data, [builder.add(at, place)]))

    def _store_masked(self, value: ir.Value, at: ir.Value, span: Pair, step: int) -> None:
        """Store vector by vector: a longer one is taken apart if it is no power of two."""
        # Lanes without their bit are not written and cannot fault, so `at` may lie close to the
        # array's end. Places are compared as 32 bits: 16 of those fill one register, not two.
        builder, size, number = self.code.builder, self.code.lanes, ir.IntType(32)
        low, high = (self.code.splat(builder.trunc(edge, number)) for edge in span)
        for first in range(0, value.type.count, size):
            lanes = list(range(first, first + size))
            part = self.code.shuffled(value, value, lanes)
            places = ir.Constant(low.type, lanes)
            above = builder.icmp_signed(">=", places, low)
            wanted = builder.and_(above, builder.icmp_signed("<", places, high))
            if step > 1:
                bits = ir.VectorType(ir.IntType(1), size)
                steps = ir.Constant(bits, [int(lane % step == 0) for lane in lanes])
                wanted = builder.and_(wanted, steps)
            place = builder.add(at, ir.Constant(at.type, first))
            pointer = self._pointer(place, part.type)
            shape = ir.FunctionType(ir.VoidType(), [part.type, pointer.type, number, wanted.type])
            name = f"llvm.masked.store.v{size}f{self.code.element.bitwidth}.p0"
            store = cgutils.get_or_insert_function(builder.module, shape, name)
            builder.call(store, [part, pointer, number(4), wanted])

    def _pointer(self, at: ir.Value, kind: ir.Type) -> ir.Value:
        pointer = self.code.builder.gep(self.data, [at])
        return self.code.builder.bitcast(pointer, kind.as_pointer())


def instruction(lanes: int | Callable[[types.Type], int], write: Callable[..., None]) -> Any:
    """Make a function for compiled loops of `write(code, *arguments)`, which writes its code.

    `lanes` may depend on the element type. In its code arrays are `FlatArray`, of which the first
    one has the vectors' element type, numbers are integers, and tuples are tuples of these.
    """
    _, *parameters = inspect.signature(write).parameters.values()

    def typed(context: Any, *arguments: types.Type) -> Any:
        kinds = [_plain(kind) for kind in arguments]

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> Any:
            element = kinds[0].dtype
            count = lanes if isinstance(lanes, int) else lanes(element)
            code = VectorCode(context, builder, count, element)
            write(code, *(_argument(code, k, v) for k, v in zip(kinds, values, strict=True)))
            return context.get_dummy_value()

        return types.void(*kinds), generate

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    vars(typed)["__signature__"] = inspect.Signature([first, *parameters])
    return intrinsic(typed)


def _plain(kind: types.Type) -> types.Type:
    """Return the type of an argument with any integer as a place in an array."""
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types([_plain(k) for k in kind])
    return kind if isinstance(kind, types.Array) else types.intp


def _argument(code: VectorCode, kind: types.Type, value: ir.Value) -> Any:
    if isinstance(kind, types.Array):
        return FlatArray(code, kind, value)
    if isinstance(kind, types.BaseTuple):
        members = cgutils.unpack_tuple(code.builder, value, len(kind))
        return tuple(_argument(code, k, v) for k, v in zip(kind, members, strict=True))
    return value


def _copy(lanes: int, skip: int = 1) -> Any:
    def copy(
        code: VectorCode, source: FlatArray, start: ir.Value, target: FlatArray, place: ir.Value
    ) -> None:
        target.store(source.vector(start, skip), place)

    return instruction(lanes, copy)


def _clear(code: VectorCode, target: FlatArray, place: ir.Value) -> None:
    target.store(code.zero, place)


# Loops whose tables depend on the processor use NATIVE vectors. Those of 8 lanes are the same on
# all: LLVM makes two registers of them if the processor's have four lanes, half of one for 16.
NATIVE = jit.lanes()
copy_vector, clear_vector = _copy(NATIVE), instruction(NATIVE, _clear)
clear4 = instruction(4, _clear)
copy8, copy4, copy1 = _copy(8), _copy(4), _copy(1)
copy_vector_by_2, copy4_by_2 = _copy(NATIVE, 2), _copy(4, 2)
copy8_by_2, copy8_by_3, copy8_by_4 = _copy(8, 2), _copy(8, 3), _copy(8, 4)


def _reach(
    code: VectorCode,
    source: FlatArray,
    first: ir.Value,
    entries: tuple[FlatArray, FlatArray, FlatArray],
    span: Pair,
    shifts: FlatArray,
    pairs: Pair,
    out: FlatArray,
    to: ir.Value,
) -> None:
    """Write eight elements of `out`: sums over entries and pairs of elements of `source`.

    `entries` are (start, first lane wanted, lane behind the last one), of which those in `span`
    count, `shifts` those of the pairs in the range `pairs`; a term lies `first + start + shift`
    behind the beginning.
    """
    builder, (starts, lows, highs) = code.builder, entries
    total = code.total()
    with cgutils.for_range(builder, span[1], start=span[0]) as loop:
        start, low, high = (column.element(loop.index) for column in (starts, lows, highs))
        # All lanes are added over all pairs. Those that must not count are dropped once, behind it.
        part, base = code.total(), builder.add(first, start)
        with cgutils.for_range(builder, pairs[1], start=pairs[0]) as pair:
            at = builder.add(base, shifts.element(pair.index))
            builder.store(builder.fadd(builder.load(part), source.vector(at)), part)
        lanes = ir.Constant(ir.VectorType(low.type, code.lanes), list(range(code.lanes)))
        above = builder.icmp_signed(">=", lanes, code.splat(low))
        wanted = builder.and_(above, builder.icmp_signed("<", lanes, code.splat(high)))
        # The other lanes hold terms of other rows, or memory that was never written. A selection
        # drops a NaN there; a product with zero would not.
        reached = builder.select(wanted, builder.load(part), code.zero)
        builder.store(builder.fadd(builder.load(total), reached), total)
    out.store(builder.load(total), to)


reach8 = instruction(8, _reach)


def in_turns(code: VectorCode, parts: list[ir.Value]) -> ir.Value:
    """Return the elements of some vectors in turns."""
    if len(parts) == 1:
        return parts[0]
    lanes = parts[0].type.count
    if len(parts) % 2:  # they are one behind the other, then taken in turns
        # A shuffle takes two vectors of one length, so each part is made as long as the others are
        # together.
        joined = parts[0]
        for i, part in enumerate(parts[1:], 1):
            size = lanes * i
            grown = code.shuffled(part, part, [lane % lanes for lane in range(size)])
            joined = code.shuffled(joined, grown, list(range(size + lanes)))
        turns = [i % len(parts) * lanes + i // len(parts) for i in range(lanes * len(parts))]
        return code.shuffled(joined, joined, turns)
    # Two vectors in turns take an instruction or two (unpcklps, unpckhps), so pairs are joined.
    # Every second part: the elements of [0, 2] and [1, 3] in turns are those of 0, 1, 2, 3.
    one, other = in_turns(code, parts[::2]), in_turns(code, parts[1::2])
    size = one.type.count
    return code.shuffled(one, other, [i // 2 + i % 2 * size for i in range(2 * size)])


def _zip(count: int) -> Any:
    def zip(
        code: VectorCode,
        source: FlatArray,
        at: ir.Value,
        begins: FlatArray,
        target: FlatArray,
        place: ir.Value,
    ) -> None:
        """Write eight elements from each of `count` places, `at + begins[i]`, in turns."""
        numbers = [ir.Constant(at.type, i) for i in range(count)]
        starts = [code.builder.add(at, begins.element(i)) for i in numbers]
        target.store(in_turns(code, [source.vector(start) for start in starts]), place)

    return instruction(8, zip)


zip2, zip3, zip4, zip6, zip8 = (_zip(n) for n in (2, 3, 4, 6, 8))


# Of vectors of depthwise layers: the number of elements, 2 if every second one of the frame is
# read, the taps along rows if rows share what they read, or 1, and how many rows share it.
KINDS = [
    (lanes, *kind)
    for lanes in ((16, 8, 4) if MASKED else (8, 4, 1))
    for kind in ((1, 1, 1), (2, 1, 1), *((1, *pair) for pair in jit.SHARED if lanes > 4))
]


def _plane(
    code: VectorCode,
    x: FlatArray,
    places: tuple[FlatArray, FlatArray],
    w: tuple[FlatArray, ir.Value],
    offsets: FlatArray,
    out: FlatArray,
    starts: Pair,
    kind: tuple[ir.Value, ...],
    row: ir.Value,
) -> None:
    """Write the vectors of a plane: each is a sum over the taps t.

    Its terms are weight t, counted from a start, times the vector of `x` from its place in
    `places[0] + offsets[t]` on; `places[1]` are those in `out`, both behind `starts`. `kind` is one
    of `KINDS`. Only the first `row` elements of a vector are written if the processor has masks.
    """
    # There are whole groups: the last place is repeated if some are missing.
    builder, number = code.builder, ir.IntType(64)
    for lanes, skip, taps, rows in KINDS:
        pairs = zip(kind, (lanes, skip, taps, rows), strict=True)
        same = [builder.icmp_signed("==", given, number(wanted)) for given, wanted in pairs]
        with builder.if_then(reduce(builder.and_, same)):
            own, begin = VectorCode(code.context, builder, lanes, code.element), number(0)
            source, target = x.by(own), out.by(own)
            for many in (rows,) if taps > 1 else (8, 4) if lanes == 16 else (4,):
                count = builder.sdiv(places[0].count, number(many))
                stop = builder.mul(count, number(many))
                with cgutils.for_range_slice(builder, begin, stop, number(many)) as (p, _):
                    group = [builder.add(p, number(i)) for i in range(many)]
                    at, to = (
                        [builder.add(start, table.element(i)) for i in group]
                        for start, table in zip(starts, places, strict=True)
                    )
                    sums = _tap_sums(source, at, w, offsets, skip, taps)
                    for total, place in zip(sums, to, strict=True):
                        target.store_first(total, place, row)
                begin = stop


def _tap_sums(
    x: FlatArray,
    at: list[ir.Value],
    w: tuple[FlatArray, ir.Value],
    offsets: FlatArray,
    skip: int,
    taps: int,
) -> list[ir.Value]:
    """Return the sums of vectors, which lie below one another if there are several `taps`."""
    # Several places at once: a weight is loaded once for all of them, and each addition waits
    # for the one before it in its own sum, but not for those of the others. What is read is
    # multiplied for all rows that it reaches, so rows below the last vector's are read, too.
    code, builder, rows = x.code, x.code.builder, at[:]
    while len(rows) < len(at) + taps - 1:
        rows.append(builder.add(rows[-1], builder.sub(at[1], at[0])))
    totals, columns = [code.total() for _ in at], builder.sdiv(offsets.count, w[1].type(taps))
    with cgutils.for_range(builder, columns) as tap:
        shift, weight, factors = offsets.element(tap.index), builder.add(w[1], tap.index), []
        for _ in range(taps):
            factors.append(code.splat(w[0].element(weight)))
            weight = builder.add(weight, columns)
        for r, place in enumerate(rows):
            part = x.vector(builder.add(place, shift), skip)
            for t, total in enumerate(totals):
                if 0 <= r - t < taps:
                    code.add_product_to(total, part, factors[r - t])
    return [builder.load(total) for total in totals]


plane = instruction(NATIVE, _plane)


def _mix(count: int) -> Any:
    def mix(
        code: VectorCode,
        source: FlatArray,
        at: Pair,
        matrix: FlatArray,
        rows: ir.Value,
        out: FlatArray,
        to: Pair,
        many: ir.Value,
    ) -> None:
        """Multiply `count` runs of `many` elements, in whole vectors, by a matrix of `rows` rows.

        `at` and `to` are the start of the first run and the distance of runs.
        """
        builder, (begin, step), (place, far) = code.builder, at, to
        numbers = [ir.Constant(step.type, i) for i in range(count)]
        behind = builder.add(many, ir.Constant(step.type, code.lanes - 1))
        whole = builder.sdiv(behind, ir.Constant(step.type, code.lanes))
        with cgutils.for_range(builder, whole) as vectors:
            shift = builder.mul(vectors.index, ir.Constant(step.type, code.lanes))
            first, target = builder.add(begin, shift), builder.add(place, shift)
            # All runs are read before one is written: `out` may be `source`, place for place.
            parts = [source.vector(builder.add(first, builder.mul(step, i))) for i in numbers]
            with cgutils.for_range(builder, rows) as loop:
                row = builder.mul(loop.index, ir.Constant(step.type, count))
                total = code.zero
                for i, part in zip(numbers, parts, strict=True):
                    factor = code.splat(matrix.element(builder.add(row, i)))
                    total = code.add_product(part, factor, total)
                out.store(total, builder.add(target, builder.mul(loop.index, far)))

    return instruction(_half_lines, mix)


def _half_lines(element: types.Type) -> int:
    """Return the lanes of vectors of 32 bytes or more: of 64 if the processor has them."""
    return 16 if NATIVE == 16 and element.bitwidth == 32 else 8


mix1, mix2, mix3, mix4, mix5, mix6 = (_mix(n) for n in range(1, 7))
