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


class _Vectors:
    """Loads and stores of `lanes` elements of the element type of some arrays."""

    def __init__(self, context: Any, builder: Any, lanes: int, element: Any) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.scalar = context.get_data_type(element)
        self.type = ir.VectorType(self.scalar, lanes)

    def pointer(self, kind: Any, array: Any, at: Any) -> Any:
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
        place = self.builder.bitcast(pointer, self.type.as_pointer())
        self.builder.store(value, place, align=4)

    def splat(self, value: Any) -> Any:
        lane = ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), value, lane)
        return self.shuffled(one, [0] * self.lanes)

    def shuffled(self, value: Any, lanes: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        return self.builder.shuffle_vector(value, value, mask)

    def add_product(self, a: Any, b: Any, total: Any) -> Any:
        product = self.builder.fmul(a, b, flags=CONTRACT)
        return self.builder.fadd(total, product, flags=CONTRACT)


def _copy(lanes: int, skip: int = 1) -> Any:
    def typed(context: Any, source: Any, start: Any, target: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            v = _Vectors(context, builder, lanes, source.dtype)
            value = v.load(v.pointer(source, args[0], args[1]), skip)
            v.store(value, v.pointer(target, args[2], args[3]))
            return context.get_dummy_value()

        return types.void(source, types.intp, target, types.intp), generate

    return intrinsic(typed)


copy8, copy4, copy1 = _copy(8), _copy(4), _copy(1)
copy8_by_2 = _copy(8, 2)


def _sums(lanes: int, skip: int) -> Any:
    """Make `sums(x, from, w, start, offsets, out, to)`, `from` and `to` being four places each.

    Vectors of `out` become the sums over t of `w[start + t]` times every `skip`-th element of `x`
    from `from + offsets[t]` on.
    """

    def typed(
        context: Any, x: Any, at: Any, w: Any, start: Any, offsets: Any, out: Any, to: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            v = _Vectors(context, builder, lanes, x.dtype)
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


def _multiply(v: _Vectors, outputs: int, kinds: Any, args: Any) -> None:
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
            v = _Vectors(context, builder, lanes, x.dtype)
            _multiply(v, outputs, (x, w, offsets, out), args)
            return context.get_dummy_value()

        two = types.UniTuple(types.intp, 2)
        return types.void(x, two, w, types.intp, offsets, out, two, types.intp), generate

    return intrinsic(typed)


products8x4 = _products(8, 4)
