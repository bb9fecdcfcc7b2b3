"""Compiled chains and programs of element-wise operations; imported only if numba is installed.

A chain is bias, activation and residual of f32 rows in one pass. exp is a polynomial (two units in
the last place) that becomes vector instructions; results may differ from NumPy's by the last bits;
below exp(-87.3) exp is 0. All work in place, because a loop over two arrays that may overlap does
not become a vector. A program is interpreted by pieces of a row, which stay in the nearest cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, products
from irdeconv.kernels.compiled_vectors import FlatArray, Pair, VectorCode, instruction

PIECE = 2048  # elements; a piece of a row stays in the level 1 cache

_F = np.float32
_LOG2E, _LN2_HIGH, _LN2_LOW = _F(1.44269504), _F(0.693359375), _F(-2.12194440e-4)
_E0, _E1, _E2 = _F(1.9875691500e-4), _F(1.3981999507e-3), _F(8.3334519073e-3)
_E3, _E4, _E5 = _F(4.1665795894e-2), _F(1.6666665459e-1), _F(5.0000001201e-1)
_TOP, _BOTTOM, _INF = _F(88.3762), _F(-87.3), _F(np.inf)
_ZERO, _HALF, _ONE, _TWO, _THREE, _SIX = (_F(v) for v in (0, 0.5, 1, 2, 3, 6))
_P6, _P5, _P4, _P3, _P2, _P1, _P0 = map(_F, products.ERF_P)
_Q3, _Q2, _Q1, _Q0 = map(_F, products.ERF_Q)
TANH_NEAR = _F(0.625)
# tanh(x) = x + x^3 p(x^2) near 0; there 1 - exp(-2x) cancels.
TANH = tuple(
    map(
        _F,
        (
            -5.70498872745e-3,
            2.06390887954e-2,
            -5.37397155531e-2,
            1.33314422036e-1,
            -3.33332819422e-1,
        ),
    )
)
_ERF_END, _ROOT_HALF, _MISH_END = _F(products.ERF_END), _F(0.5**0.5), _F(25)


def _bits_to_float(context: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


def _adjacent(context: Any, array: Any) -> Any:
    """Take a row of an array of any layout as one whose elements are neighbours (as they are)."""
    result = types.Array(array.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return impl_ret_borrowed(context, builder, result, args[0])

    return result(array), generate


bits_to_float: Any = intrinsic(_bits_to_float)
adjacent: Any = intrinsic(_adjacent)


@jit.compiled
def _exp(x: Any) -> Any:
    """2^n * p(r) with x = n ln 2 + r."""
    # Selections become instructions for vectors. The bounds come first, since n of a NaN or of a
    # large number would not fit into an integer.
    inside = min(max(x, _BOTTOM), _TOP) if x == x else _ZERO
    n = np.floor(inside * _LOG2E + _HALF)
    # The upper part of ln 2 has so few bits that its product with n is exact.
    r = (inside - n * _LN2_HIGH) - n * _LN2_LOW
    p = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    # 2^n has the exponent's bits n + 127 and no others.
    y = (p * r * r + r + _ONE) * bits_to_float((np.int32(n) + np.int32(127)) << np.int32(23))
    y = _INF if x > _TOP else y
    y = _ZERO if x < _BOTTOM else y
    return y if x == x else x


@jit.compiled
def exponentiate(into: Any) -> None:
    """Compute exp(x) in place."""
    for i in range(len(into)):
        into[i] = _exp(into[i])


@jit.compiled
def _sigmoid(x: Any) -> Any:
    return _ONE / (_ONE + _exp(-x))


@jit.compiled
def _clamp(x: Any, low: Any, high: Any) -> Any:
    """Limit as two selections of which neither takes a NaN for a bound."""
    x = low if x < low else x
    return high if x > high else x


@jit.compiled
def _erf(x: Any) -> Any:
    """See `elementwise.erf`."""
    v = _clamp(x, -_ERF_END, _ERF_END)
    s = v * v
    over = ((((((_P6 * s + _P5) * s + _P4) * s + _P3) * s + _P2) * s + _P1) * s + _P0) * v
    under = (((s + _Q3) * s + _Q2) * s + _Q1) * s + _Q0
    y = _clamp(over / under, -_ONE, _ONE)
    # Products and sums may be rounded together here, and end below 1.
    y = _ONE if x >= _ERF_END else y
    return -_ONE if x <= -_ERF_END else y


@jit.compiled
def _mish(x: Any) -> Any:
    """See `elementwise.mish`."""
    v = _exp(_clamp(x, -_INF, _MISH_END))
    n = (v + _TWO) * v
    return x * (n / (n + _TWO))


@jit.compiled
def _approximate(into: Any, b: Any, beta: Any, code: int) -> None:
    """Apply an activation that is made of approximations to x + b in place."""
    if code == jit.SIGMOID:
        for i in range(len(into)):
            into[i] = _sigmoid(into[i] + b)
    elif code == jit.SWISH:
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v / (_ONE + _exp(-beta * v))
    elif code == jit.ERF:
        for i in range(len(into)):
            into[i] = _erf(into[i] + b)
    elif code == jit.GELU:
        for i in range(len(into)):
            v = into[i] + b
            into[i] = (_erf(v * _ROOT_HALF) + _ONE) * _HALF * v
    elif code == jit.MISH:
        for i in range(len(into)):
            into[i] = _mish(into[i] + b)


@jit.compiled
def _activate(into: Any, b: Any, s: Any, low: Any, high: Any, code: int) -> None:
    """Apply an activation to x + b in place; `s` is the slope of a PReLU, `low` beta of a Swish."""
    if code == jit.CLAMP:
        for i in range(len(into)):
            into[i] = _clamp(into[i] + b, low, high)
    elif code == jit.PRELU:
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v * s if v < _ZERO else v + _ZERO * s
    elif code == jit.HSIGMOID:
        for i in range(len(into)):
            into[i] = _clamp(into[i] + b + _THREE, _ZERO, _SIX) / _SIX
    elif code == jit.HSWISH:
        for i in range(len(into)):
            v = into[i] + b
            into[i] = v * (_clamp(v + _THREE, _ZERO, _SIX) / _SIX)
    elif code == jit.HARD_SIGMOID:
        for i in range(len(into)):
            into[i] = _clamp((into[i] + b) * low + high, _ZERO, _ONE)
    elif code == jit.NOTHING:
        for i in range(len(into)):
            into[i] += b
    else:
        _approximate(into, b, low, code)


@jit.compiled
def _add(into: Any, b: Any, more: Any) -> None:
    for i in range(len(into)):
        into[i] = into[i] + b + more[i]


def place_number(value: int) -> ir.Value:
    """Return a constant place."""
    return ir.Constant(ir.IntType(64), value)


Write = Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]


def larger(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """Write the larger one of two vectors' elements; NaN wins."""
    # "uno" of a value with itself is true for NaN only. If the other one is NaN, the comparison is
    # false and that one is chosen, so no third test is needed.
    first = builder.fcmp_ordered(">", v[0], v[1])
    return builder.select(builder.or_(first, builder.fcmp_unordered("uno", v[0], v[0])), v[0], v[1])


def smaller(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """Write the smaller one of two vectors' elements; NaN wins."""
    first = builder.fcmp_ordered("<", v[0], v[1])
    return builder.select(builder.or_(first, builder.fcmp_unordered("uno", v[0], v[0])), v[0], v[1])


def _clipped(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    raised = builder.select(builder.fcmp_ordered("<", v[0], v[1]), v[1], v[0])
    return builder.select(builder.fcmp_ordered(">", raised, v[2]), v[2], raised)


def _named(name: str, operands: int = 1) -> Write:
    """Write a call of LLVM's function of so many operands."""

    def write(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
        kind, full = v[0].type, f"llvm.{name}.v{v[0].type.count}f32"
        found = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * operands), full
        )
        return builder.call(found, v[:operands])

    return write


def turns(code: VectorCode, count: ir.Value) -> Iterator[tuple[VectorCode, ir.Value]]:
    """Write loops over `count` elements, by vectors and one by one; yields code and place."""
    builder, size = code.builder, place_number(code.lanes)
    scalar = VectorCode(code.context, builder, 1, code.element)
    whole = builder.mul(builder.sdiv(count, size), size)
    for kind, begin, stop in ((code, place_number(0), whole), (scalar, whole, count)):
        with cgutils.for_range_slice(builder, begin, stop, place_number(kind.lanes)) as (i, _):
            yield kind, i


def _to_f16(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """Round to f16, ties to even; see `elementwise.to_f16`."""
    x, kind = v[0], ir.VectorType(ir.IntType(32), v[0].type.count)
    bits = builder.bitcast(x, kind)
    sign, size = (builder.and_(bits, _lanes(kind, m)) for m in (1 << 31, (1 << 31) - 1))
    near = builder.and_(_half_up(builder, size, 13), _lanes(kind, -1 << 13))
    # Below 2^-14 the numbers are 2^-24 apart, as those of f32 are from 0.5 to 1.
    middle = _lanes(x.type, 0.75)
    small = builder.fsub(builder.fadd(builder.bitcast(size, x.type), middle), middle)
    is_small = builder.icmp_unsigned("<", size, _lanes(kind, 113 << 23))
    near = builder.select(is_small, builder.bitcast(small, kind), near)
    beyond = builder.icmp_unsigned(">=", near, _lanes(kind, 143 << 23))
    near = builder.or_(builder.select(beyond, _lanes(kind, 255 << 23), near), sign)
    return builder.select(builder.fcmp_unordered("uno", x, x), x, builder.bitcast(near, x.type))


def _to_bf16(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    x, kind = v[0], ir.VectorType(ir.IntType(32), v[0].type.count)
    near = builder.and_(_half_up(builder, builder.bitcast(x, kind), 16), _lanes(kind, -1 << 16))
    return builder.select(builder.fcmp_unordered("uno", x, x), x, builder.bitcast(near, x.type))


def _half_up(builder: ir.IRBuilder, bits: ir.Value, lost: int) -> ir.Value:
    """Add half of the unit that stays if so many bits are lost, less one bit if it is even."""
    odd = builder.and_(builder.lshr(bits, _lanes(bits.type, lost)), _lanes(bits.type, 1))
    return builder.add(bits, builder.add(odd, _lanes(bits.type, (1 << lost - 1) - 1)))


def _lanes(kind: ir.VectorType, value: float) -> ir.Value:
    return ir.Constant(kind, [value] * kind.count)


def _quantized(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """Quantize x by (low, high, scale, level, first, levels - 1) as `elementwise.fake_quantize`."""
    x, low, high, scale, level, first, levels = v
    inside = smaller(builder, [larger(builder, [x, low]), high])
    part = builder.fdiv(builder.fsub(inside, low), scale)
    step = _named("nearbyint")(builder, [builder.fmul(part, levels)])
    # The fence keeps the product and the sum from being rounded together.
    product = _named("arithmetic.fence")(builder, [builder.fmul(step, level)])
    return builder.fadd(product, first)


def _scaled(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """x * factor + offset, rounded twice."""
    x, factor, offset = v
    return builder.fadd(_named("arithmetic.fence")(builder, [builder.fmul(x, factor)]), offset)


def _exponential(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """2^n * p(r) with x = n ln 2 + r, also near the largest number and below the normal ones."""
    x, kind = v[0], ir.VectorType(ir.IntType(32), v[0].type.count)
    nothing = builder.fcmp_unordered("uno", x, x)
    ends = [_lanes(x.type, end) for end in (-104.0, 89.0)]  # 0 and infinity
    inside = builder.select(nothing, _lanes(x.type, 0.0), _clipped(builder, [x, *ends]))
    scaled = builder.fmul(inside, _lanes(x.type, float(_LOG2E)))
    n = _named("floor")(builder, [builder.fadd(scaled, _lanes(x.type, 0.5))])
    y = inside
    for part in (_LN2_HIGH, _LN2_LOW):
        y = builder.fsub(y, builder.fmul(n, _lanes(x.type, float(part))))
    y = _polynomial(builder, y, (_E0, _E1, _E2, _E3, _E4, _E5, _ONE, _ONE))
    # Two powers of two, since 2^n itself may be no normal number.
    whole = builder.fptosi(n, kind)
    first = builder.ashr(whole, _lanes(kind, 1))
    for power in (first, builder.sub(whole, first)):
        bits = builder.shl(builder.add(power, _lanes(kind, 127)), _lanes(kind, 23))
        y = builder.fmul(y, builder.bitcast(bits, x.type))
    return builder.select(nothing, x, y)


def _polynomial(builder: ir.IRBuilder, x: ir.Value, factors: Sequence[Any]) -> ir.Value:
    """Compute a polynomial, the factor of the highest power first."""
    y = _lanes(x.type, float(factors[0]))
    for factor in factors[1:]:
        y = builder.fadd(builder.fmul(y, x), _lanes(x.type, float(factor)))
    return y


def _tangent(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """tanh(x): x + x^3 p(x^2) near 0, where 1 - exp(-2x) cancels."""
    x, one = v[0], _lanes(v[0].type, 1.0)
    size, square = _named("fabs")(builder, [x]), builder.fmul(x, x)
    small = builder.fmul(_polynomial(builder, square, (*TANH, 0)), x)
    power = _exponential(builder, [builder.fmul(size, _lanes(x.type, -2.0))])
    large = builder.fdiv(builder.fsub(one, power), builder.fadd(one, power))
    large = _named("copysign", 2)(builder, [large, x])
    near = builder.fcmp_ordered("<", size, _lanes(x.type, float(TANH_NEAR)))
    return builder.select(near, builder.fadd(small, x), large)


def _logistic(builder: ir.IRBuilder, v: list[ir.Value]) -> ir.Value:
    """1 / (1 + exp(-x))."""
    one = _lanes(v[0].type, 1.0)
    return builder.fdiv(one, builder.fadd(one, _exponential(builder, [builder.fneg(v[0])])))


def _in_place(write: Write, known: int = 0) -> Any:
    """Make a function that changes `count` elements of a row, by `known` numbers."""

    def change(code: VectorCode, row: FlatArray, numbers: FlatArray, count: ir.Value) -> None:
        given = [numbers.element(place_number(i)) for i in range(known)]
        for kind, i in turns(code, count):
            at = row.by(kind)
            values = [at.vector(i), *(kind.splat(number) for number in given)]
            at.store(write(code.builder, values), i)

    return instruction(jit.lanes(), change)


_quantize, _scale = _in_place(_quantized, 6), _in_place(_scaled, 2)
sigmoids, tangents = _in_place(_logistic), _in_place(_tangent)  # (row, any array, count)
_round_f16, _round_bf16 = _in_place(_to_f16), _in_place(_to_bf16)

_WRITTEN: dict[int, Write] = {
    jit.ADDED: lambda builder, v: builder.fadd(v[0], v[1]),
    jit.SUBTRACTED: lambda builder, v: builder.fsub(v[0], v[1]),
    jit.MULTIPLIED: lambda builder, v: builder.fmul(v[0], v[1]),
    jit.DIVIDED: lambda builder, v: builder.fdiv(v[0], v[1]),
    jit.LARGER: larger,
    jit.SMALLER: smaller,
    jit.CLIPPED: _clipped,
    jit.ROOT: _named("sqrt"),
    jit.MOVED: lambda builder, v: v[0],
    jit.NEAREST: _named("nearbyint"),
    jit.TO_F16: _to_f16,
    jit.TO_BF16: _to_bf16,
    jit.ABSOLUTE: _named("fabs"),
    jit.FLOOR: _named("floor"),
    jit.CEILING: _named("ceil"),
    jit.CUT: _named("trunc"),
    jit.EXPONENTIAL: _exponential,
    jit.TANGENT: _tangent,
    jit.NUMBER: _named("maxnum", 2),
}


@jit.compiled
def _end(row: Any, numbers: Any) -> None:
    """Multiply and add, quantize or round a row; see `finish_rows`."""
    if len(numbers) in (2, 3, 8):
        _scale(row, numbers, len(row))
        numbers = numbers[2:]
    if len(numbers) == 6:
        _quantize(row, numbers, len(row))
    elif len(numbers) and numbers[0] == 1:
        _round_f16(row, numbers, len(row))
    elif len(numbers):
        _round_bf16(row, numbers, len(row))


_MATRIX, _VECTOR = "float32[:,:]", "float32[::1]"


@jit.compiled_for(
    f"void({_MATRIX}, {_VECTOR}, {_VECTOR}, {_MATRIX}, {_MATRIX}, float32, float32, int64, "
    "float32[:,::1])"
)
def finish_rows(
    out: Any,
    bias: Any,
    slope: Any,
    before: Any,
    after: Any,
    low: Any,
    high: Any,
    code: int,
    ending: Any,
) -> None:
    """Compute end(act(x + bias + before) + after) in place; elements of a row are neighbours.

    A tensor of a single row serves all rows, one without rows is left out. `ending [rows or 1, n]`:
    two numbers in front are a factor and an offset; then one rounds to f16 (1) or bf16 (0), six
    quantize; see `_quantized`.
    """
    rows, width = out.shape
    for r in range(rows):
        row = adjacent(out[r])
        s = slope[r if len(slope) > 1 else 0]
        for at in range(0, width, PIECE):
            part = row[at : at + PIECE]
            b = bias[r if len(bias) > 1 else 0]
            if len(before):
                _add(part, b, adjacent(before[r if len(before) > 1 else 0])[at : at + PIECE])
                b = _ZERO
            if code != jit.NOTHING or not len(before):
                _activate(part, b, s, low, high, code)
            if len(after):
                _add(part, _ZERO, adjacent(after[r if len(after) > 1 else 0])[at : at + PIECE])
            if ending.size:  # even to skip it takes as long as a short row
                _end(part, ending[r if len(ending) > 1 else 0])


_NONE = np.zeros((0, 0), _F)


@dataclass(frozen=True)
class Added:
    """The registers of tensors that are added, 0 for none."""

    before: int = 0
    after: int = 0


class CompiledChain:
    """A chain: add a constant (or none) and a tensor, apply an activation, add a tensor.

    `code` is the activation's, `limits` its two numbers. `bias`, `slope` and the numbers of
    `ending` are constants of any shape; `fits` says whether they vary by channel alone.
    """

    def __init__(
        self,
        code: int,
        limits: tuple[float, float],
        bias: Array,
        slope: Array,
        added: Added,
        ending: Sequence[Array] = (),
    ) -> None:
        self._code, self.added = code, added
        self._shapes = (bias.shape, slope.shape, *(a.shape for a in ending))
        size = max((a.size for a in ending), default=1)
        flat = [np.broadcast_to(a.reshape(-1), size) for a in ending if a.size in (1, size)]
        fits = len(flat) == len(ending)
        self._ending = np.array(flat if fits else [], _F).reshape(-1, size).T.copy()
        self._bias, self._slope = (np.array(a, _F).reshape(-1) for a in (bias, slope))
        self._low, self._high = _F(limits[0]), _F(limits[1])

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the constants are scalars or vary along axis 1 of an output `[N, M, *O]`."""
        along = [(1,) * (len(shape) - len(s)) + s for s in self._shapes if math.prod(s) > 1]
        return all(len(s) == len(shape) and s[1] == math.prod(s) == shape[1] for s in along)

    @property
    def scalar(self) -> bool:
        """Whether nothing varies by channel, and no tensor is added."""
        once = self._bias.size == self._slope.size == len(self._ending) == 1
        return once and self.added == Added()

    def __call__(
        self, out: Array, channels: slice, before: Array = _NONE, after: Array = _NONE
    ) -> None:
        """Finish `out [channels, positions]`, f32 and each row contiguous, in place.

        `before` and `after` are the tensors to add, each `[channels or 1, positions]`.
        """
        finish_rows(*self.arguments(out, channels, before, after))

    def arguments(
        self, out: Array, channels: slice, before: Array = _NONE, after: Array = _NONE
    ) -> tuple[Any, ...]:
        """Return the arguments of `finish_rows`."""
        bias, slope = (a[channels] if a.size > 1 else a for a in (self._bias, self._slope))
        ending = self._ending[channels] if len(self._ending) > 1 else self._ending
        return out, bias, slope, before, after, self._low, self._high, self._code, ending


def _operation(
    code: VectorCode,
    memory: FlatArray,
    operation: ir.Value,
    first: Pair,
    second: Pair,
    third: Pair,
    to: ir.Value,
    count: ir.Value,
) -> None:
    """Do an operation on `count` elements of operands (place, step); they are stored at `to`."""
    builder = code.builder
    behind = builder.append_basic_block("behind")
    choice = builder.switch(operation, behind)
    for number, write in _WRITTEN.items():
        block = builder.append_basic_block(f"operation{number}")
        choice.add_case(place_number(number), block)
        builder.position_at_end(block)
        for kind, i in turns(code, count):
            at = memory.by(kind)
            # A step of 0 reads the same vector again: scalars are stored as SPLAT elements.
            values = [
                at.vector(builder.add(place, builder.mul(i, step)))
                for place, step in (first, second, third)
            ]
            at.store(write(builder, values), builder.add(to, i))
        builder.branch(behind)
    builder.position_at_end(behind)


_apply = instruction(jit.lanes(), _operation)
_element = instruction(1, lambda code, memory, at, target, to: target.store(memory.vector(at), to))


@jit.compiled
def run_program(
    out: Any, code: Any, inputs: Any, constants: Any, splats: Any, slots: Any, registers: Any
) -> None:
    """Compute `out [rows, width]`, whose rows are contiguous, by instructions.

    Each row of `code` is (operation, three operands, target), numbers of slots: inputs, `out`,
    constants, registers. `inputs` are (place, step of rows, step of columns: 0 or 1), places
    counted in elements from the start of `out`. The rest is scratch memory: `splats [slots,
    SPLAT]`, `slots [slots, 2]`, `registers [registers, ROW_PART]`.
    """
    # All places are counted from the start of `out`, and `memory` is `out` for every operand: one
    # array, so nothing depends on which of several arrays a slot is in.
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
                slots[i, 0], slots[i, 1] = start + i * jit.SPLAT, 0
        # All instructions for a part of a row, then the next part: registers stay in the cache.
        for at in range(0, width, jit.ROW_PART):
            for i in range(given):
                if inputs[i, 2]:
                    slots[i, 0], slots[i, 1] = inputs[i, 0] + r * inputs[i, 1] + at, 1
            slots[given, 0] = r * far + at
            for k in range(len(code)):
                first, second, third = slots[code[k, 1]], slots[code[k, 2]], slots[code[k, 3]]
                a, b, c = (first[0], first[1]), (second[0], second[1]), (third[0], third[1])
                _apply(
                    out, code[k, 0], a, b, c, slots[code[k, 4], 0], min(jit.ROW_PART, width - at)
                )


@jit.compiled
def _begin(out: Any, given: int, constants: Any, splats: Any, slots: Any, registers: Any) -> None:
    """Fill in the places of the slots behind the inputs."""
    known, start = len(constants), (splats.ctypes.data - out.ctypes.data) // 4
    begin = (registers.ctypes.data - out.ctypes.data) // 4
    slots[given, 1] = 1
    for k in range(given + 1, given + 1 + known):
        splats[k, :] = constants[k - given - 1]
        slots[k, 0], slots[k, 1] = start + k * jit.SPLAT, 0
    for k in range(len(registers)):
        at = given + 1 + known + k
        slots[at, 0], slots[at, 1] = begin + k * jit.ROW_PART, 1
