"""Vector instructions for compiled loops; imported only where numba is installed.

Loops that the compiler turns into vectors by itself need proof that arrays do not overlap, and
finish what is left of a row element by element. These functions do neither: they take places in
flat arrays and read and write whole vectors there. Nothing is checked, so callers leave room.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba import types  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba.core import cgutils  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba.extending import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    intrinsic,
)

CONTRACT = ("contract",)


class VectorBuilder:
    """Loads and stores of `lanes` elements of the element type of some arrays."""

    def __init__(self, context: Any, builder: Any, lanes: int, element: Any) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.scalar = context.get_data_type(element)
        self.type = ir.VectorType(self.scalar, lanes)

    def pointer(self, kind: Any, array: Any, at: Any) -> Any:
        """Return where an element of a flat array is."""
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        return self.builder.gep(data, [at])

    def load(self, pointer: Any, skip: int) -> Any:
        """Load every `skip`-th element of `lanes * skip` neighbours."""
        wide = ir.VectorType(self.scalar, self.lanes * skip)
        found = self.builder.load(self.builder.bitcast(pointer, wide.as_pointer()), align=4)
        if skip == 1:
            return found
        return self.shuffled(found, [lane * skip for lane in range(self.lanes)])

    def store(self, value: Any, pointer: Any) -> None:
        """Store a vector."""
        place = self.builder.bitcast(pointer, self.type.as_pointer())
        self.builder.store(value, place, align=4)

    def splat(self, value: Any) -> Any:
        """Return a vector of a number."""
        lane, kind = ir.Constant(ir.IntType(32), 0), ir.VectorType(value.type, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, lane)
        return self.shuffled(one, [0] * self.lanes)

    def shuffled(self, value: Any, lanes: list[int]) -> Any:
        """Return some lanes of a vector."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        return self.builder.shuffle_vector(value, value, mask)

    def add_product(self, a: Any, b: Any, total: Any) -> Any:
        """Return total + a * b; it may be contracted."""
        product = self.builder.fmul(a, b, flags=CONTRACT)
        return self.builder.fadd(total, product, flags=CONTRACT)


def _copy(lanes: int, skip: int = 1) -> Any:
    def typed(context: Any, source: Any, start: Any, target: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            v = VectorBuilder(context, builder, lanes, source.dtype)
            value = v.load(v.pointer(source, args[0], args[1]), skip)
            v.store(value, v.pointer(target, args[2], args[3]))
            return context.get_dummy_value()

        return types.void(source, types.intp, target, types.intp), generate

    return intrinsic(typed)


copy8, copy4, copy1 = _copy(8), _copy(4), _copy(1)
copy8_by_2, copy8_by_3, copy8_by_4 = _copy(8, 2), _copy(8, 3), _copy(8, 4)


def _reach(v: VectorBuilder, kinds: Any, args: Any, sums: Any) -> None:
    """Write the code of `reach8`; `sums(base, entry, part)` adds the terms of one entry."""
    builder, (first, (starts, lows, highs), (begin, end), out, to) = v.builder, args
    total = cgutils.alloca_once(builder, v.type)
    builder.store(ir.Constant(v.type, None), total)
    with cgutils.for_range(builder, end, start=begin) as loop:
        start, low, high = (
            builder.load(v.pointer(kind, array, loop.index))
            for kind, array in zip(kinds[:3], (starts, lows, highs), strict=True)
        )
        part = cgutils.alloca_once(builder, v.type)
        builder.store(ir.Constant(v.type, None), part)
        sums(builder.add(first, start), loop.index, part)
        lanes = ir.Constant(ir.VectorType(low.type, v.lanes), list(range(v.lanes)))
        above = builder.icmp_signed(">=", lanes, v.splat(low))
        wanted = builder.and_(above, builder.icmp_signed("<", lanes, v.splat(high)))
        some = builder.select(wanted, builder.load(part), ir.Constant(v.type, None))
        builder.store(builder.fadd(builder.load(total), some), total)
    v.store(builder.load(total), v.pointer(kinds[3], out, to))


TWO, FOUR = types.UniTuple(types.intp, 2), types.UniTuple(types.intp, 4)


def _reach8(
    context: Any,
    source: Any,
    first: Any,
    entries: Any,
    some: Any,
    shifts: Any,
    pairs: Any,
    out: Any,
    to: Any,
) -> Any:
    """Write eight elements of `out`: sums over entries and pairs of what lies in `source`.

    `entries` are (start, first lane wanted, lane behind the last one), of which those in the range
    `some` count, `shifts` those of the pairs in the range `pairs`; a term lies `first + start +
    shift` behind the beginning.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        v = VectorBuilder(context, builder, 8, source.dtype)
        begin, end = cgutils.unpack_tuple(builder, args[5], 2)

        def sums(base: Any, entry: Any, part: Any) -> None:
            with cgutils.for_range(builder, end, start=begin) as loop:
                shift = builder.load(v.pointer(shifts, args[4], loop.index))
                term = v.load(v.pointer(source, args[0], builder.add(base, shift)), 1)
                builder.store(builder.fadd(builder.load(part), term), part)

        _reach(v, (*entries, out), _given(builder, args), sums)
        return context.get_dummy_value()

    return types.void(source, types.intp, entries, TWO, shifts, TWO, out, types.intp), generate


def _given(builder: Any, args: Any) -> tuple[Any, ...]:
    """Return what `_reach` takes of the arguments of `reach8` or `spread8`."""
    arrays = cgutils.unpack_tuple(builder, args[2], 3)
    return args[1], arrays, cgutils.unpack_tuple(builder, args[3], 2), args[6], args[7]


def _spread8(
    context: Any,
    source: Any,
    first: Any,
    entries: Any,
    some: Any,
    shifts: Any,
    pairs: Any,
    out: Any,
    to: Any,
    taps: Any,
    w: Any,
    inputs: Any,
) -> Any:
    """Do the same with products: `taps` are those of (entries, pairs), their sum is a place in `w`.

    `inputs` are (number, distance in `source`, first place in `w`, distance in `w`).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        v = VectorBuilder(context, builder, 8, source.dtype)
        _reach(v, (*entries, out), _given(builder, args), _products_of(v, source, shifts, w, args))
        return context.get_dummy_value()

    fixed = source, types.intp, entries, TWO, shifts, TWO, out, types.intp
    return types.void(*fixed, taps, w, FOUR), generate


def _products_of(v: VectorBuilder, source: Any, shifts: Any, w: Any, args: Any) -> Any:
    """Return what writes the sums of one entry of `spread8`."""
    builder = v.builder
    begin, end = cgutils.unpack_tuple(builder, args[5], 2)
    own, others = cgutils.unpack_tuple(builder, args[8], 2)
    count, far, filter, filter_far = cgutils.unpack_tuple(builder, args[10], 4)

    def sums(base: Any, entry: Any, part: Any) -> None:
        tap = builder.add(filter, builder.load(v.pointer(shifts, own, entry)))
        with cgutils.for_range(builder, end, start=begin) as loop:
            shift = builder.load(v.pointer(shifts, args[4], loop.index))
            other = builder.load(v.pointer(shifts, others, loop.index))
            at, place = builder.add(base, shift), builder.add(tap, other)
            with cgutils.for_range(builder, count) as channels:
                data = builder.add(at, builder.mul(channels.index, far))
                weight = builder.add(place, builder.mul(channels.index, filter_far))
                factor = v.splat(builder.load(v.pointer(w, args[9], weight)))
                term = v.load(v.pointer(source, args[0], data), 1)
                builder.store(v.add_product(term, factor, builder.load(part)), part)

    return sums


reach8, spread8 = intrinsic(_reach8), intrinsic(_spread8)


def _in_turns(builder: Any, parts: list[Any]) -> Any:
    """Return the elements of some vectors in turns."""
    if len(parts) == 1:
        return parts[0]
    lanes = parts[0].type.count
    if len(parts) % 2:  # they are one behind the other, then taken in turns
        wide = parts[0]
        for i, part in enumerate(parts[1:], 1):
            size = lanes * i
            grown = _shuffled(builder, part, part, [lane % lanes for lane in range(size)])
            wide = _shuffled(builder, wide, grown, list(range(size + lanes)))
        turns = [i % len(parts) * lanes + i // len(parts) for i in range(lanes * len(parts))]
        return _shuffled(builder, wide, wide, turns)
    one, other = _in_turns(builder, parts[::2]), _in_turns(builder, parts[1::2])
    size = one.type.count
    return _shuffled(builder, one, other, [i // 2 + i % 2 * size for i in range(2 * size)])


def _shuffled(builder: Any, one: Any, other: Any, lanes: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
    return builder.shuffle_vector(one, other, mask)


def _zip(count: int) -> Any:
    """Make `zip(source, at, begins, target, place)`.

    It writes eight elements from each of `count` places, `at + begins[i]`, in turns.
    """

    def typed(context: Any, source: Any, at: Any, begins: Any, target: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            v = VectorBuilder(context, builder, 8, source.dtype)
            parts = []
            for i in range(count):
                begin = builder.load(v.pointer(begins, args[2], ir.Constant(args[1].type, i)))
                start = builder.add(args[1], begin)
                parts.append(v.load(v.pointer(source, args[0], start), 1))
            value = _in_turns(builder, parts)
            to = v.pointer(target, args[3], args[4])
            builder.store(value, builder.bitcast(to, value.type.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(source, types.intp, begins, target, types.intp), generate

    return intrinsic(typed)


zip2, zip3, zip4, zip6, zip8 = (_zip(n) for n in (2, 3, 4, 6, 8))


def _sums(lanes: int, skip: int) -> Any:
    """Make `sums(x, from, w, start, offsets, out, to)`, `from` and `to` being four places each.

    Vectors of `out` become the sums over t of `w[start + t]` times every `skip`-th element of `x`
    from `from + offsets[t]` on.
    """

    def typed(
        context: Any, x: Any, at: Any, w: Any, start: Any, offsets: Any, out: Any, to: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            v = VectorBuilder(context, builder, lanes, x.dtype)
            sources = cgutils.unpack_tuple(builder, args[1], 4)
            targets = cgutils.unpack_tuple(builder, args[6], 4)
            zero = ir.Constant(v.type, None)
            totals = [cgutils.alloca_once_value(builder, zero) for _ in sources]
            for total in totals:
                builder.store(zero, total)
            taps = context.make_array(offsets)(context, builder, args[4]).nitems
            with cgutils.for_range(builder, taps) as loop:
                shift = builder.load(v.pointer(offsets, args[4], loop.index))
                place = builder.add(args[3], loop.index)
                factor = v.splat(builder.load(v.pointer(w, args[2], place)))
                for source, total in zip(sources, totals, strict=True):
                    part = v.load(v.pointer(x, args[0], builder.add(source, shift)), skip)
                    builder.store(v.add_product(part, factor, builder.load(total)), total)
            for target, total in zip(targets, totals, strict=True):
                v.store(builder.load(total), v.pointer(out, args[5], target))
            return context.get_dummy_value()

        four = types.UniTuple(types.intp, 4)
        return types.void(x, four, w, types.intp, offsets, out, four), generate

    return intrinsic(typed)


sums8, sums4, sums1 = _sums(8, 1), _sums(4, 1), _sums(1, 1)
sums8_by_2, sums4_by_2 = _sums(8, 2), _sums(4, 2)


def _multiply(v: VectorBuilder, outputs: int, kinds: Any, args: Any) -> None:
    """Write the code of `products`; see there."""
    builder, number = v.builder, [ir.Constant(args[3].type, m) for m in range(outputs)]
    x, w, offsets, out = kinds
    sources = cgutils.unpack_tuple(builder, args[1], 2)
    targets = cgutils.unpack_tuple(builder, args[6], 2)
    totals = [[cgutils.alloca_once(builder, v.type) for _ in sources] for _ in number]
    for total in (t for row in totals for t in row):
        builder.store(ir.Constant(v.type, None), total)
    taps = v.context.make_array(offsets)(v.context, builder, args[4]).nitems
    with cgutils.for_range(builder, taps) as loop:
        shift = builder.load(v.pointer(offsets, args[4], loop.index))
        step = builder.mul(loop.index, ir.Constant(args[3].type, outputs))
        place = builder.add(args[3], step)
        parts = [v.load(v.pointer(x, args[0], builder.add(s, shift)), 1) for s in sources]
        for m, row in zip(number, totals, strict=True):
            factor = v.splat(builder.load(v.pointer(w, args[2], builder.add(place, m))))
            for part, total in zip(parts, row, strict=True):
                builder.store(v.add_product(part, factor, builder.load(total)), total)
    for m, row in zip(number, totals, strict=True):
        far = builder.mul(args[7], m)
        for target, total in zip(targets, row, strict=True):
            v.store(builder.load(total), v.pointer(out, args[5], builder.add(target, far)))


def _products(lanes: int, outputs: int) -> Any:
    """Make `products(x, from, w, start, offsets, out, to, plane)`; `from` and `to` are two places.

    Vectors of `out` at `to + m * plane`, m below `outputs`, become the sums over t of
    `w[start + t * outputs + m]` times the elements of `x` from `from + offsets[t]` on.
    """

    def typed(
        context: Any, x: Any, at: Any, w: Any, start: Any, offsets: Any, out: Any, to: Any, far: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            v = VectorBuilder(context, builder, lanes, x.dtype)
            _multiply(v, outputs, (x, w, offsets, out), args)
            return context.get_dummy_value()

        two = types.UniTuple(types.intp, 2)
        return types.void(x, two, w, types.intp, offsets, out, two, types.intp), generate

    return intrinsic(typed)


products8x4 = _products(8, 4)


def _mix(count: int) -> Any:
    """Make `mix(source, (from, step), matrix, rows, out, (to, far), many)`.

    `many` vectors of `out` from `to + j * far` on, j below `rows`, become the sums over i below
    `count` of `matrix[j * count + i]` times the elements of `source` from `from + i * step` on.
    """

    def typed(
        context: Any, source: Any, at: Any, matrix: Any, rows: Any, out: Any, to: Any, many: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            v = VectorBuilder(context, builder, 8, source.dtype)
            begin, step = cgutils.unpack_tuple(builder, args[1], 2)
            place, far = cgutils.unpack_tuple(builder, args[5], 2)
            number = [ir.Constant(step.type, i) for i in range(count)]
            eight = ir.Constant(step.type, 8)
            with cgutils.for_range(builder, args[6]) as vectors:
                shift = builder.mul(vectors.index, eight)
                first, target = builder.add(begin, shift), builder.add(place, shift)
                starts = [builder.add(first, builder.mul(step, i)) for i in number]
                parts = [v.load(v.pointer(source, args[0], start), 1) for start in starts]
                with cgutils.for_range(builder, args[3]) as loop:
                    row = builder.mul(loop.index, ir.Constant(step.type, count))
                    total = ir.Constant(v.type, None)
                    for i, part in zip(number, parts, strict=True):
                        factor = builder.load(v.pointer(matrix, args[2], builder.add(row, i)))
                        total = v.add_product(part, v.splat(factor), total)
                    into = builder.add(target, builder.mul(loop.index, far))
                    v.store(total, v.pointer(out, args[4], into))
            return context.get_dummy_value()

        return types.void(source, TWO, matrix, types.intp, out, TWO, types.intp), generate

    return intrinsic(typed)


mix1, mix2, mix3, mix4, mix5, mix6 = (_mix(n) for n in range(1, 7))
