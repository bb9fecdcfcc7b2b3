"""Straight-line programs of element-wise operations on rows of f32, interpreted by compiled code.

A piece of a row goes through all instructions while it is in the nearest cache, vector by vector.
Imported only where numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba.core import cgutils  # type: ignore[import-not-found, import-untyped, unused-ignore]

from irdeconv.kernels.compiled import (
    ADDED,
    CLIPPED,
    DIVIDED,
    LARGER,
    MOVED,
    MULTIPLIED,
    ROOT,
    ROW_PART,
    SMALLER,
    SPLAT,
    SUBTRACTED,
)
from irdeconv.kernels.compiled.vectors import FlatArray, Pair, VectorCode, instruction
from irdeconv.kernels.shared import jit


def place_number(value: int) -> ir.Value:
    """Return a constant place."""
    return ir.Constant(ir.IntType(64), value)


Write = Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]


def larger(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """Write the larger one of two vectors' elements; NaN wins."""
    first = builder.fcmp_ordered(">", v[0], v[1])
    return builder.select(builder.or_(first, builder.fcmp_unordered("uno", v[0], v[0])), v[0], v[1])


def _smaller(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    first = builder.fcmp_ordered("<", v[0], v[1])
    return builder.select(builder.or_(first, builder.fcmp_unordered("uno", v[0], v[0])), v[0], v[1])


def _clipped(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    raised = builder.select(builder.fcmp_ordered("<", v[0], v[1]), v[1], v[0])
    return builder.select(builder.fcmp_ordered(">", raised, v[2]), v[2], raised)


def _root(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    kind = v[0].type
    name = f"llvm.sqrt.v{kind.count}f32"
    found = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
    return builder.call(found, [v[0]])


def _each(write: Write) -> Any:
    """Make what computes `count` elements from place `to` on, of operands (place, step)."""

    def each(
        code: VectorCode,
        memory: FlatArray,
        first: Pair,
        second: Pair,
        third: Pair,
        to: ir.Value,
        count: ir.Value,
    ) -> None:
        builder = code.builder
        scalar = VectorCode(code.context, builder, 1, code.element)
        whole = builder.mul(builder.sdiv(count, place_number(code.lanes)), place_number(code.lanes))
        for kind, begin, stop in ((code, place_number(0), whole), (scalar, whole, count)):
            at = memory.by(kind)
            with cgutils.for_range_slice(builder, begin, stop, place_number(kind.lanes)) as (i, _):
                values = [
                    at.vector(builder.add(place, builder.mul(i, step)))
                    for place, step in (first, second, third)
                ]
                at.store(write(builder, values), builder.add(to, i))

    return instruction(jit.lanes(), each)


_add = _each(lambda builder, v: builder.fadd(v[0], v[1]))
_subtract = _each(lambda builder, v: builder.fsub(v[0], v[1]))
_multiply = _each(lambda builder, v: builder.fmul(v[0], v[1]))
_divide = _each(lambda builder, v: builder.fdiv(v[0], v[1]))
_copy = _each(lambda builder, v: v[0])
_maximum, _minimum, _clip, _sqrt = _each(larger), _each(_smaller), _each(_clipped), _each(_root)


@jit.compiled
def _apply(memory: Any, code: int, a: Any, b: Any, c: Any, to: int, count: int) -> None:
    if code == ADDED:
        _add(memory, a, b, c, to, count)
    elif code == SUBTRACTED:
        _subtract(memory, a, b, c, to, count)
    elif code == MULTIPLIED:
        _multiply(memory, a, b, c, to, count)
    elif code == DIVIDED:
        _divide(memory, a, b, c, to, count)
    elif code == LARGER:
        _maximum(memory, a, b, c, to, count)
    elif code == SMALLER:
        _minimum(memory, a, b, c, to, count)
    elif code == CLIPPED:
        _clip(memory, a, b, c, to, count)
    elif code == ROOT:
        _sqrt(memory, a, b, c, to, count)
    elif code == MOVED:
        _copy(memory, a, b, c, to, count)


_element = instruction(1, lambda code, memory, at, target, to: target.store(memory.vector(at), to))


@jit.compiled
def run_program(
    out: Any, code: Any, inputs: Any, constants: Any, splats: Any, slots: Any, registers: Any
) -> None:
    """Compute `out [rows, width]`, whose rows are contiguous, by instructions.

    Each row of `code` is (operation, three operands, target), numbers of slots: inputs, `out`,
    constants, registers. `inputs` are (place, step of rows, step of columns: 0 or 1), places
    counted in elements from where `out` begins. The rest is scratch memory: `splats [slots,
    SPLAT]`, `slots [slots, 2]`, `registers [registers, ROW_PART]`.
    """
    rows, width = out.shape
    given, far = len(inputs), out.strides[0] // 4
    start = (splats.ctypes.data - out.ctypes.data) // 4
    _begin(out, given, constants, splats, slots, registers)
    one = splats[given]
    for r in range(rows):
        for i in range(given):
            if inputs[i, 2] == 0:
                _element(out, inputs[i, 0] + r * inputs[i, 1], one, 0)
                splats[i, :] = one[0]
                slots[i, 0], slots[i, 1] = start + i * SPLAT, 0
        for at in range(0, width, ROW_PART):
            for i in range(given):
                if inputs[i, 2]:
                    slots[i, 0], slots[i, 1] = inputs[i, 0] + r * inputs[i, 1] + at, 1
            slots[given, 0] = r * far + at
            for k in range(len(code)):
                first, second, third = slots[code[k, 1]], slots[code[k, 2]], slots[code[k, 3]]
                a, b, c = (first[0], first[1]), (second[0], second[1]), (third[0], third[1])
                _apply(out, code[k, 0], a, b, c, slots[code[k, 4], 0], min(ROW_PART, width - at))


@jit.compiled
def _begin(out: Any, given: int, constants: Any, splats: Any, slots: Any, registers: Any) -> None:
    """Write down where what is behind the inputs lies."""
    known, start = len(constants), (splats.ctypes.data - out.ctypes.data) // 4
    begin = (registers.ctypes.data - out.ctypes.data) // 4
    slots[given, 1] = 1
    for k in range(given + 1, given + 1 + known):
        splats[k, :] = constants[k - given - 1]
        slots[k, 0], slots[k, 1] = start + k * SPLAT, 0
    for k in range(len(registers)):
        at = given + 1 + known + k
        slots[at, 0], slots[at, 1] = begin + k * ROW_PART, 1
