"""Element-wise operations as rules: a ufunc of NumPy, or a function that emits calls.

The calls form a straight-line program. Values are numbered: inputs first, then constants and
results in order. Registers are tile-sized pieces of scratch memory; a result takes over that of a
value that dies. Real results become integers as OpenVINO's CPU rounds them.

A pass over a tile in cache costs 0.08 ns per element (add, multiply), 0.11 (divide, clip), about 1
(exp, tanh, log on AVX2; 0.4 on AVX-512). `np.maximum` with a scalar costs 0.4, so `clip` replaces
it. expm1 and log1p are not used in f32: 12 ns if NumPy has no vector loop for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import products
from irdeconv.kernels.numpy_calls import POSITIONAL, NumPyCall

Function = Callable[..., Any]  # (*arrays, array that is written)
Rule = Callable[..., Any]  # a ufunc, or (emitter, *values, *parameters) -> value


@dataclass(frozen=True)
class Instruction:
    """One operation of a chain: its rule, argument registers, numeric parameters."""

    rule: Rule
    args: tuple[int, ...]
    params: tuple[Any, ...] = ()


@dataclass(frozen=True)
class TileCall:
    """One call; `args` are values, the result is a value."""

    fn: Function
    args: tuple[int, ...]
    result: int


class Emitter:
    """Collects the calls of a program in one type; `approximates`: last bits may differ."""

    def __init__(
        self,
        inputs: int,
        dtype: np.dtype[Any],
        known: dict[int, Array],
        *,
        approximates: bool = True,
    ) -> None:
        self.dtype, self.approximates = dtype, approximates
        self.calls: list[TileCall] = []
        self.constants: dict[int, Array] = {}
        self._known = known
        self._count = inputs

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def constant(self, value: Any) -> int:
        """Return a scalar constant, rounded to the type."""
        number = self._new()
        with np.errstate(all="ignore"):
            self.constants[number] = np.array(value).astype(self.dtype).reshape(())
        return number

    def emit(self, rule: Rule, args: Sequence[int], params: Sequence[Any] = ()) -> int:
        """Add a rule's calls; returns the result."""
        if isinstance(rule, np.ufunc):
            return self.call(rule, *args)
        return int(rule(self, *args, *params))

    def call(self, fn: Function, *args: Any) -> int:
        """Add a call; arguments that are no `int` are scalar constants."""
        fn = POSITIONAL.get(fn, fn)
        values = tuple(a if type(a) is int else self.constant(a) for a in args)
        if all(v in self.constants for v in values):
            return self._folded(fn, values)
        result = self._new()
        self.calls.append(TileCall(fn, values, result))
        return result

    def _folded(self, fn: Function, values: tuple[int, ...]) -> int:
        out = np.empty((), self.dtype)
        with np.errstate(all="ignore"):
            fn(*(self.constants[v] for v in values), out)
        return self.constant(out)

    def known(self, value: int) -> Array | None:
        """Return a value's constant, of any shape; None if it has none."""
        return self.constants.get(value, self._known.get(value))

    def is_relu(self, call: TileCall) -> bool:
        """Whether a call is that of `relu`."""
        ends = [self.constants.get(v) for v in call.args[1:]]
        return call.fn is clip_loop and ends[0] == 0 and ends[1] == INF


@dataclass(frozen=True)
class TileProgram:
    """Calls with memory: inputs, destination, constants, then `registers` pieces of scratch."""

    code: tuple[tuple[Function, tuple[int, ...], int], ...]
    constants: tuple[Array, ...]
    registers: int

    def run(self, inputs: Sequence[Array], out: Array, scratch: Sequence[Array]) -> None:
        """Execute on one tile; inputs broadcast to `out`, `scratch` has its shape."""
        slots = [*inputs, out, *self.constants, *scratch]
        for fn, args, target in self.code:
            if len(args) == 2:
                fn(slots[args[0]], slots[args[1]], slots[target])
            else:
                fn(*[slots[i] for i in args], slots[target])

    def calls(
        self, inputs: Sequence[Array], out: Array, scratch: Sequence[Array]
    ) -> list[NumPyCall]:
        """Return the calls of `run` on these arrays."""
        slots = [*inputs, out, *self.constants, *scratch]
        return [(fn, [slots[i] for i in args], slots[to]) for fn, args, to in self.code]


def copy(x: Array, out: Array) -> None:
    """Copy, rounding to the element type of `out`."""
    if x is not out:
        np.copyto(out, x, casting="same_kind")


def assign(
    inputs: int,
    emitter: Emitter,
    result: int,
    *,
    home: int | None,
    loads: Sequence[int] = (),
    store: bool = False,
) -> TileProgram:
    """Assign memory.

    `home` is the input that shares its memory with the destination; the others are only read.
    `loads` are the inputs that are first converted into a register. `store` says that the
    destination has another element type, so that it holds nothing but the result.
    """
    calls, final = _with_conversions(emitter.calls, result, loads, inputs, store)
    calls = _needed(calls, final)
    last = {value: at for at, call in enumerate(calls) for value in call.args}
    place = {i: i for i in range(inputs)}
    place |= {v: inputs + 1 + k for k, v in enumerate(emitter.constants)}
    first = inputs + 1 + len(emitter.constants)
    free: list[int] = [] if store or home in last else [inputs]
    code, registers = [], 0
    for at, call in enumerate(calls):
        args = tuple(place[v] for v in call.args)
        dying = {v for v in call.args if last[v] == at}
        free += [place[v] for v in dying if place[v] >= first or place[v] == inputs]
        if home in dying and not store:
            free.append(inputs)
        if call.result == final:
            slot = inputs
        elif free:
            slot = min(free)  # the destination first: it is in the cache anyway
            free.remove(slot)
        else:
            slot, registers = first + registers, registers + 1
        place[call.result] = slot
        code.append((call.fn, args, slot))
    return TileProgram(tuple(code), tuple(emitter.constants.values()), registers)


def _needed(calls: Sequence[TileCall], final: int) -> list[TileCall]:
    """Return the calls that the last result depends on."""
    wanted, kept = {final}, list[TileCall]()
    for call in reversed(calls):
        if call.result in wanted:
            wanted.update(call.args)
            kept.append(call)
    return kept[::-1]


def _with_conversions(
    calls: list[TileCall], result: int, loads: Sequence[int], inputs: int, store: bool
) -> tuple[list[TileCall], int]:
    """Put conversions around the calls; the last call computes the returned value."""
    fresh = max([result, inputs - 1, *(c.result for c in calls), *(max(c.args) for c in calls)]) + 1
    renamed = {value: fresh + k for k, value in enumerate(loads)}
    fresh += len(renamed)
    out = [TileCall(copy, (value,), new) for value, new in renamed.items()]
    out += [TileCall(c.fn, tuple(renamed.get(v, v) for v in c.args), c.result) for c in calls]
    result = renamed.get(result, result)
    if store or not calls or result != calls[-1].result:
        out.append(TileCall(copy, (result,), fresh))
        result = fresh
    return out, result


def evaluate(rule: Rule, arrays: Sequence[Array], params: Sequence[Any] = ()) -> Array:
    """Compute a rule on whole arrays of one element type, in this type."""
    program = _on_arrays(rule, len(arrays), arrays[0].dtype, tuple(params))
    shape = arrays[0].shape  # broadcast_shapes takes longer than the sums of a small cell
    if len(arrays) > 1:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
    out = np.empty(shape, arrays[0].dtype)
    program.run(arrays, out, [np.empty_like(out) for _ in range(program.registers)])
    return out


def in_place(rule: Rule, x: Array) -> list[NumPyCall]:
    """Return the calls that replace an array by a function of it."""
    program = _on_arrays(rule, 1, x.dtype, (), 0)
    return program.calls([x], x, [np.empty(x.shape, x.dtype) for _ in range(program.registers)])


@lru_cache(maxsize=256)  # cells of recurrent networks ask for the same one at every step
def _on_arrays(
    rule: Rule, inputs: int, dtype: np.dtype[Any], params: tuple[Any, ...], home: int | None = None
) -> TileProgram:
    emitter = Emitter(inputs, dtype, {}, approximates=False)
    return assign(inputs, emitter, emitter.emit(rule, range(inputs), params), home=home)


_FIRST_I32, _BEYOND_I32 = -(2.0**31), 2.0**31
_LAST_F32 = float(
    np.nextafter(np.float32(_BEYOND_I32), np.float32(0))
)  # the last f32 that fits 32 bits


def rounded(values: Array, dtype: np.dtype[Any], *, clips: bool = False) -> Array:
    """Return float32 or float64 values as integers of `dtype`: nearest, halves to even.

    They pass through 32 bits: 8-bit types then saturate, 16-bit ones keep the low bits. Values
    beyond 32 bits become the nearest float32 below if a function `clips`, else -2**31, as
    NaN does; of a function that clips NaN becomes 255 in u8.
    """
    whole = np.rint(values)
    if clips:
        whole = np.clip(whole, _FIRST_I32, _LAST_F32)
    lost = _LAST_F32 if clips and dtype == np.uint8 else _FIRST_I32
    fixed = np.where((whole >= _FIRST_I32) & (whole < _BEYOND_I32), whole, lost).astype(np.int64)
    return saturated(fixed, dtype)


def cut(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return real values cut towards zero as integers of `dtype`, 64-bit ones exactly.

    Values beyond 32 bits (infinities, too) become the nearest of 32 bits, NaN -2**31 (0 in 8
    bits); 8-bit types then saturate, others keep the low bits.
    """
    lost = 0.0 if dtype.itemsize == 1 else _FIRST_I32
    whole = np.where(np.isnan(values), lost, np.trunc(values))
    if dtype.itemsize < 8:
        whole = np.clip(whole, _FIRST_I32, _BEYOND_I32 - 1)
    fixed = np.where(np.isinf(whole), np.copysign(_BEYOND_I32, whole), whole)
    return saturated(fixed.astype(np.int64), dtype)


def saturated(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return 64-bit integers in a narrower type: 8 bits saturate, others keep the low bits."""
    if dtype.itemsize == 1:
        info = np.iinfo(dtype)
        values = np.clip(values, info.min, info.max)
    return values.astype(dtype)


INF = math.inf

# np.clip checks its arguments for a microsecond before it comes to this loop.
clip_loop: Any = getattr(getattr(np, "_core", np), "umath", np).clip


def clip(x: Array, low: Any, high: Any, out: Array) -> None:
    """Limit to low..high (arrays of the type of `x`, for speed)."""
    clip_loop(x, low, high, out)


def negative(e: Emitter, x: int) -> int:
    """Multiply: np.negative in place on columns of a matrix is wrong in NumPy 2.4."""
    return e.call(np.multiply, x, -1.0)


def _single(e: Emitter, value: int) -> float | None:
    """Return a constant of one element that is a number."""
    array = e.known(value)
    if array is None or array.size != 1 or np.isnan(array).any():
        return None
    return float(array.reshape(-1)[0])


def maximum(e: Emitter, a: int, b: int) -> int:
    """The larger one, a NaN if either is."""
    for x, bound in ((a, b), (b, a)):
        low = _single(e, bound)
        if low is not None:
            return e.call(clip_loop, x, low, INF)
    return e.call(np.maximum, a, b)


def minimum(e: Emitter, a: int, b: int) -> int:
    """The smaller one, a NaN if either is."""
    for x, bound in ((a, b), (b, a)):
        high = _single(e, bound)
        if high is not None:
            return e.call(clip_loop, x, -INF, high)
    return e.call(np.minimum, a, b)


def relu(e: Emitter, x: int) -> int:
    """max(x, 0)."""
    return e.call(clip_loop, x, 0.0, INF)


def clamp(e: Emitter, x: int, low: float, high: float) -> int:
    """min(max(x, low), high)."""
    return e.call(clip_loop, x, low, high)


def squared_difference(e: Emitter, a: int, b: int) -> int:
    """(a - b)^2."""
    return e.call(np.square, e.call(np.subtract, a, b))


def power(e: Emitter, a: int, b: int) -> int:
    """a^b, as products, a quotient or a root for small exponents."""
    exponent = _single(e, b)
    if exponent == -1:
        return e.call(np.divide, 1.0, a)
    if exponent == 0.5:
        return e.call(np.sqrt, a)
    if exponent == 1:
        return e.call(np.positive, a)
    if exponent == 2:
        return e.call(np.square, a)
    if exponent == 3:
        return e.call(np.multiply, e.call(np.square, a), a)
    return e.call(np.power, a, b)


def prelu(e: Emitter, x: int, slope: int) -> int:
    """Choose between x and its product with the slope, which maximum does for slopes up to 1."""
    known = e.known(slope)
    if known is not None and known.size and known.all():  # with 0 an infinite x becomes a NaN
        if (known <= 1).all():
            return e.call(np.maximum, x, e.call(np.multiply, x, slope))
        if (known >= 1).all() and np.isfinite(known).all():
            return e.call(np.minimum, x, e.call(np.multiply, x, slope))
    low = e.call(np.multiply, e.call(clip_loop, x, -INF, 0.0), slope)
    return e.call(np.add, e.call(clip_loop, x, 0.0, INF), low)


def sigmoid(e: Emitter, x: int) -> int:
    """1 / (1 + exp(-x))."""
    power = e.call(np.exp, e.call(np.multiply, x, -1.0))
    return e.call(np.divide, 1.0, e.call(np.add, power, 1.0))


def swish(e: Emitter, x: int, beta: float) -> int:
    """Compute x / (1 + exp(-beta x)); -inf / inf is a NaN, as the product -inf * 0 is."""
    power = e.call(np.exp, e.call(np.multiply, x, -beta))
    return e.call(np.divide, x, e.call(np.add, power, 1.0))


def hsigmoid(e: Emitter, x: int) -> int:
    """min(max(x + 3, 0), 6) / 6."""
    return e.call(np.divide, e.call(clip_loop, e.call(np.add, x, 3.0), 0.0, 6.0), 6.0)


def hswish(e: Emitter, x: int) -> int:
    """x * hsigmoid(x)."""
    return e.call(np.multiply, x, hsigmoid(e, x))


def hard_sigmoid(e: Emitter, x: int, alpha: float, beta: float) -> int:
    """min(max(alpha * x + beta, 0), 1)."""
    return e.call(clip_loop, e.call(np.add, e.call(np.multiply, x, alpha), beta), 0.0, 1.0)


def softsign(e: Emitter, x: int) -> int:
    """x / (1 + |x|)."""
    return e.call(np.divide, x, e.call(np.add, e.call(np.abs, x), 1.0))


def _expm1(e: Emitter, x: int) -> int:
    """exp(x) - 1 for x <= 0: 2t / (1 - t) with t = tanh(x / 2), in which nothing cancels."""
    if not e.approximates or e.dtype != np.float32:
        return e.call(np.expm1, x)
    t = e.call(np.tanh, e.call(np.multiply, x, 0.5))
    return e.call(np.divide, e.call(np.add, t, t), e.call(np.subtract, 1.0, t))


def elu(e: Emitter, x: int, alpha: float) -> int:
    """x, below 0 alpha * (exp(x) - 1)."""
    low = e.call(np.multiply, _expm1(e, e.call(clip_loop, x, -INF, 0.0)), alpha)
    return e.call(np.add, e.call(clip_loop, x, 0.0, INF), low)


def selu(e: Emitter, x: int, alpha: float, scale: float) -> int:
    """elu(x, alpha) * scale."""
    return e.call(np.multiply, elu(e, x, alpha), scale)


# log(1 + v) = 2 artanh(s), s = v / (2 + v) <= 1/3: the series to s^13 leaves 1.3e-8 of it.
_ARTANH = [2 / n for n in (13, 11, 9, 7, 5, 3, 1)]


def _log1p(e: Emitter, v: int) -> int:
    """log(1 + v) for 0 <= v <= 1."""
    if not e.approximates or e.dtype != np.float32:
        return e.call(np.log1p, v)
    s = e.call(np.divide, v, e.call(np.add, v, 2.0))
    square = e.call(np.square, s)
    total = e.call(np.multiply, square, _ARTANH[0])
    for term in _ARTANH[1:-1]:
        total = e.call(np.multiply, e.call(np.add, total, term), square)
    return e.call(np.multiply, e.call(np.add, total, _ARTANH[-1]), s)


def softplus(e: Emitter, x: int) -> int:
    """log(1 + exp(x))."""
    tail = _log1p(e, e.call(np.exp, e.call(np.multiply, e.call(np.abs, x), -1.0)))
    return e.call(np.add, e.call(clip_loop, x, 0.0, INF), tail)


def mish(e: Emitter, x: int) -> int:
    """x * n / (n + 2) with v = exp(x), n = v (v + 2): the tangent in closed form.

    From 25 on the quotient is 1 in both types (n > 2 / epsilon), so v may stop growing there.
    """
    v = e.call(np.exp, e.call(clip_loop, x, -INF, 25.0))
    n = e.call(np.multiply, e.call(np.add, v, 2.0), v)
    return e.call(np.multiply, x, e.call(np.divide, n, e.call(np.add, n, 2.0)))


def erf(e: Emitter, x: int) -> int:
    """The error function; in f32 the roundings of the quotient's steps add up to 7 u at most."""
    if not e.approximates or e.dtype != np.float32:
        return e.call(products.erf, x)
    v = e.call(clip_loop, x, -products.ERF_END, products.ERF_END)
    square = e.call(np.square, v)
    over = e.call(np.multiply, square, products.ERF_P[0])
    for term in products.ERF_P[1:-1]:
        over = e.call(np.multiply, e.call(np.add, over, term), square)
    over = e.call(np.multiply, e.call(np.add, over, products.ERF_P[-1]), v)
    under = e.call(np.add, square, products.ERF_Q[0])
    for term in products.ERF_Q[1:]:
        under = e.call(np.add, e.call(np.multiply, under, square), term)
    return e.call(clip_loop, e.call(np.divide, over, under), -1.0, 1.0)


def gelu_erf(e: Emitter, x: int) -> int:
    """x * (1 + erf(x / sqrt(2))) / 2."""
    part = erf(e, e.call(np.multiply, x, 0.5**0.5))
    half = e.call(np.multiply, e.call(np.add, part, 1.0), 0.5)
    return e.call(np.multiply, half, x)


def gelu_tanh(e: Emitter, x: int) -> int:
    """x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 x^3), x factored out."""
    factor = (2 / math.pi) ** 0.5
    inner = e.call(np.add, e.call(np.multiply, e.call(np.square, x), 0.044715 * factor), factor)
    half = e.call(np.add, e.call(np.tanh, e.call(np.multiply, inner, x)), 1.0)
    return e.call(np.multiply, e.call(np.multiply, half, 0.5), x)


def round_half_away(e: Emitter, x: int) -> int:
    """The integer part, and 1 of x's sign more if the rest is a half at least."""
    whole = e.call(np.trunc, x)
    rest = e.call(np.fmax, e.call(np.subtract, x, whole), -1.0)  # inf - inf is no rest
    return e.call(np.add, whole, e.call(np.trunc, e.call(np.add, rest, rest)))


def whole_u8(e: Emitter, x: int) -> int:
    """The whole part of 0 to 255, 0 for NaN."""
    return e.call(np.fmax, e.call(np.trunc, x), 0.0)


def no_negative_zero(e: Emitter, x: int) -> int:
    """The same numbers as integers have: 0 for -0."""
    return e.call(np.add, x, 0.0)


def fake_quantize(
    e: Emitter, x: int, low: int, _: int, scale: int, level: int, first: int, levels: int
) -> int:
    """Quantize as FakeQuantize does; `scale` is high - low, `level` that of the output."""
    # Differences and quotients are rounded in order, so limiting them to 0..1 gives the same bits
    # as limiting x, and limits of one element cost less than those of each channel.
    least, offset = e.known(low), e.known(first)
    if least is not None and np.all(least >= 0):  # a ReLU in front changes nothing
        x = next((c.args[0] for c in e.calls if c.result == x and e.is_relu(c)), x)
    part = x if least is not None and not least.any() else e.call(np.subtract, x, low)
    part = e.call(clip_loop, e.call(np.divide, part, scale), 0.0, 1.0)
    step = e.call(np.rint, e.call(np.multiply, part, levels - 1.0))
    part = e.call(np.multiply, step, level)
    return part if offset is not None and not offset.any() else e.call(np.add, part, first)


def affine(e: Emitter, x: int, center: int, factor: int, offset: int) -> int:
    """(x - center) * factor + offset."""
    part = e.call(np.multiply, e.call(np.subtract, x, center), factor)
    return e.call(np.add, part, offset)


def narrow(e: Emitter, x: int, dtype: np.dtype[Any]) -> int:
    """Round to a narrower element type; the values stay in the type of the computation."""
    if e.dtype == np.float32 and dtype == np.float16:
        return e.call(to_f16, x)
    if e.dtype == np.float32 and dtype.name == "bfloat16":
        return e.call(to_bf16, x)

    def through(values: Array, out: Array) -> None:
        np.copyto(out, values.astype(dtype))

    return e.call(through, x)


_SIGN, _EXPONENT = np.uint32(1 << 31), np.uint32(0xFF << 23)
_SMALLEST_F16, _ABOVE_F16 = np.float32(2.0**-14), np.float32(2.0**16)
_TEN_BITS, _TO_INFINITY = np.float32(1.5 * 2.0**13), np.float32(2.0**112)
_LARGE_F16 = np.float32(2.0**15).view(np.uint32)


def to_f16(values: Array, out: Array) -> None:
    """Round f32 to the numbers of f16, ties to even: a fifth of the time of NumPy's casts."""
    # 1.5 * 2^13 times the power of two below x has so many bits in front of the point that adding
    # it rounds x to 10 bits behind its first. Below 2^-14 the numbers of f16 are as far apart as
    # there. What has become 2^16 or more becomes infinite by a factor of 2^112, nothing else does.
    bits = values.view(np.uint32)
    shift = np.bitwise_and(bits, _EXPONENT).view(np.float32)
    # In most tensors all numbers are positive and small: one look at their bits says so.
    plain = bits.max(initial=0) < _LARGE_F16
    sign = None if plain else np.bitwise_and(bits, _SIGN)  # of a zero
    large = not plain and shift.view(np.uint32).max() >= _LARGE_F16
    clip_loop(shift, _SMALLEST_F16, _ABOVE_F16, shift)
    np.multiply(shift, _TEN_BITS, out=shift)
    np.add(values, shift, out=out)
    np.subtract(out, shift, out=out)
    if large:
        np.multiply(out, _TO_INFINITY, out=out)
        np.divide(out, _TO_INFINITY, out=out)
    if sign is not None:
        whole = out.view(np.uint32)
        np.bitwise_or(whole, sign, out=whole)


def to_bf16(values: Array, out: Array) -> None:
    """Round f32 to the numbers of bf16, ties to even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    kept = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    kept &= np.uint32(0xFFFF0000)
    nothing = np.isnan(values)
    if nothing.any():
        kept[nothing] = bits[nothing]
    np.copyto(out, kept.view(np.float32))
