"""Judging one layer: bounds of rounding from its operation and inputs, and carried errors.

A sum of n products is computed within gamma_n |W| |x| of its exact value, added in any order, with
gamma_n = n u / (1 - n u), u the unit roundoff of the accumulator. For many terms roundings
behave as independent: then n counts as LAMBDA sqrt(n), which fails with a probability below 2
exp(-LAMBDA^2 / 2) = 3e-14 per element; the rule is then spelled gamma~_n. Equal terms are rounded
alike: if a sum has m_i of the i-th value, n counts as LAMBDA sqrt(sum of m_i^2), at most n.
Tensors of fewer than 32 bits (f16, bf16) are computed in single precision and rounded once. An
unknown peer may add up in f16 as well (in bf16 none does): its roundings are relative to partial
sums, which run from 0 to the result and stray by the root of the sum of squares.

Errors are carried through layers that only one model has: None without a known bound, 0.0 for none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import ml_dtypes
import numpy as np

from irdeconv.base.extras import plain
from irdeconv.ir.dtypes import f32
from irdeconv.ir.op import EagerBuilder, Op, SugarOp, as_tuple
from irdeconv.ir.spec import Array, Spec
from irdeconv.kernels import jit
from irdeconv.ops.checks import aligned
from irdeconv.ops.control import If
from irdeconv.ops.reduction import MeanVariance
from irdeconv.verify.difference import Allowed, largest, roundoff, same_values
from irdeconv.verify.partner import Error, Followed, Partner, Precision, followed_outputs

LAMBDA = 8
FUNCTION_ULPS = 8  # units in the last place that libraries' elementary functions may be off
SINGLE = roundoff(np.dtype(np.float32))
_SAMPLED, _DISTINCT_TIMES, _SIGN_DRAWS = 1024, 16, 2  # how equal terms are looked for, and measured
SMALLEST = float(np.finfo(np.float32).tiny)  # runtimes may take smaller numbers for 0

Arrays = Sequence[Array]


def is_narrow(a: Array) -> bool:
    """Whether an array holds floating-point numbers of fewer than 32 bits."""
    return is_real(a) and a.dtype.itemsize < 4


def stored(y: Array) -> Array:
    """Return how far off its value a narrow number may be that a peer shows: it is rounded."""
    # Of bf16, OpenVINO cuts the bits off on processors without AVX-512.
    times = 2 if y.dtype == ml_dtypes.bfloat16 and not jit.many_registers() else 1
    least = float(ml_dtypes.finfo(y.dtype).smallest_subnormal)  # type: ignore[no-untyped-call]
    return np.asarray(times * roundoff(y.dtype) * _size(y) + least)


def reread(x: Array, computes: Precision) -> Array | float:
    """Return how far off a value may be for a partner that computes in less than its type.

    int8 rounds to 255 levels of the tensor's range, for any calibrated range.
    """
    if computes == "f32" or not is_real(x):
        return 0.0
    size = _size(x)
    if computes == "bf16":
        return np.asarray(roundoff(np.dtype(ml_dtypes.bfloat16)) * size)
    return np.full(x.shape, largest(size) / 127)


def is_exact(op: Op) -> bool:
    """Whether an operation rounds nothing."""
    return op.rounding.rule == "exact"


def is_real(a: Array) -> bool:
    """Whether an array holds floating-point numbers."""
    return a.dtype.kind == "f" or (a.dtype.kind == "V" and a.dtype.isbuiltin == 2)


def floats(inputs: Arrays, change: Callable[[Array], Array]) -> list[Array]:
    """Return the inputs with the floating-point ones changed."""
    return [change(x) if is_real(x) else x for x in inputs]


class _AnyType(EagerBuilder):
    """Builds with arrays whose floating-point type is said to be f32, which every dialect takes."""

    def spec(self, value: Array) -> Spec:
        found = Spec.of(value)
        return replace(found, dtype=f32) if is_real(value) else found


@plain()  # NumPy judges what was compiled; to compile more takes longer
def evaluate(op: Op, inputs: Arrays) -> tuple[Array, ...]:
    """Evaluate an operation quietly, in any floating-point type; all outputs."""
    with np.errstate(all="ignore"):
        if isinstance(op, SugarOp) and type(op).evaluate is SugarOp.evaluate:
            made = op.expand(_AnyType(), *inputs)
        else:
            made = op.evaluate(*inputs)
        return tuple(np.asarray(y) for y in as_tuple(made))


def precise(op: Op, inputs: Arrays, outputs: Arrays) -> tuple[Array, ...]:
    """Return the outputs in double precision; as given if they overflow in their own type."""
    wide = evaluate(op, floats(inputs, lambda x: x.astype(np.float64)))
    own = [y.astype(np.float64) if is_real(y) else y for y in outputs]
    pairs = zip(wide, own, outputs, strict=True)
    return tuple(np.where(np.isfinite(o), w, o) if is_real(y) else y for w, o, y in pairs)


def worth_precision(op: Op, outputs: Arrays) -> bool:
    """Whether double precision says more about the outputs than their own type."""
    if op.rounding.rule in ("exact", "conversion", "any") or not op.folds:
        return False  # bodies have constants of their own types
    return any(is_real(y) and y.dtype.itemsize < 8 for y in outputs)


def allowed(op: Op, inputs: Arrays, outputs: Arrays) -> tuple[Allowed, ...]:
    """Bound, per output, how far a correct implementation may be off the exact result."""
    return tuple(_allowed(op, inputs, y) for y in outputs)


def _allowed(op: Op, inputs: Arrays, y: Array) -> Allowed:
    if op.rounding.rule == "any":
        return Allowed(math.inf, "drawn anew in every run")
    if not is_real(y):
        return Allowed(0.0, "exact")
    with np.errstate(all="ignore"):
        if is_exact(op):
            return Allowed(SMALLEST, "exact")
        found = _RULES[op.rounding.rule](op, inputs, y)
        if is_narrow(y):  # accumulated in single precision, then rounded
            found = Allowed(found.limit + stored(y), found.rule)
        # In double precision the result to compare with is no better than the other one.
        factor = 2 if y.dtype.itemsize == 8 else 1
    return Allowed(factor * found.limit + SMALLEST, found.rule)


def unit(y: Array) -> float:
    """Return the unit roundoff of the accumulator of a type."""
    return min(roundoff(y.dtype), SINGLE)


def gamma(n: float, u: float) -> float:
    """Return the factor of n roundings in the same direction."""
    grown = n * u
    return grown / (1 - grown) if grown < 0.5 else math.inf


def terms(op: Op, inputs: Arrays, y: Array) -> int:
    """Return how many products at most add up to an element of the result."""
    x = inputs[0]
    if op.deconvolution and x.size:  # one product is 1, so the result counts them
        ones = floats([x[:1], *inputs[1:]], lambda v: np.ones(v.shape, np.float32))
        return int(evaluate(op, ones)[0].max(initial=1))
    return op.terms(inputs, y)


def independent(n: int, times: float = 1) -> float:
    """Return how many of n independent roundings add up, if each occurs so many times."""
    return min(n, LAMBDA * math.sqrt(n * max(times, 1)))


def roundings_of(op: Op, inputs: Arrays, y: Array) -> float:
    """Return how many roundings of a sum add up."""
    n = terms(op, inputs, y)
    if n <= LAMBDA**2:
        return n
    products = math.prod(_distinct(x) for x in inputs if is_real(x))
    if products <= LAMBDA**2:  # then sum(m_i^2) >= n^2 / LAMBDA^2
        return n
    return independent(n, _equal_terms(op, inputs, n) if products < _DISTINCT_TIMES * n else 1)


def _distinct(x: Array) -> int:
    """Return how many different numbers a sample of an array has."""
    at = np.random.default_rng(0).integers(max(x.size, 1), size=min(x.size, _SAMPLED))
    return int(np.unique(x.reshape(-1)[at].astype(np.float64)).size)


def _equal_terms(op: Op, inputs: Arrays, n: int) -> float:
    """Estimate sum(m_i^2) / n for sums of n terms that have m_i of the i-th value, on average.

    With a random sign for each number, terms of equal factors have the same sign, and the square
    of the sum is sum(m_i^2) on average.
    """
    rng = np.random.default_rng(0)
    count = evaluate(op, floats(inputs, lambda x: np.ones(x.shape, np.float32)))[0]
    sums = [evaluate(op, floats(inputs, partial(_signs, rng)))[0] for _ in range(_SIGN_DRAWS)]
    each = np.max(count, initial=0) / n  # what one product adds to the result
    return float(np.mean(np.square(sums)) / (np.mean(count) * each)) if each else 1.0


def _signs(rng: np.random.Generator, x: Array) -> Array:
    """Return 1 or -1 for each number, by a hash; 0 for 0, which is added exactly."""
    odd, shift = rng.integers(1 << 63, size=2, dtype=np.uint64)
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    hashed = (bits * (2 * odd + 1) + shift) >> np.uint64(63)
    return np.where(x == 0, 0, 1 - 2 * hashed.astype(np.float32)).astype(np.float32)


def magnitude(op: Op, inputs: Arrays) -> Array:
    """Evaluate a sum of products on absolute values."""
    return evaluate(op, floats(inputs, absolute))[0]


def absolute(x: Array) -> Array:
    """Return |x| in a type that does not overflow in sums."""
    return np.asarray(np.abs(x if x.dtype.itemsize >= 4 else x.astype(np.float32)))


def _sum(op: Op, inputs: Arrays, y: Array) -> Allowed:
    n, together = terms(op, inputs, y), roundings_of(op, inputs, y)
    factor = gamma(together, unit(y))
    name = f"gamma{'~' if together < n else ''}_{n}"
    product = "|W||x|" if len([x for x in inputs if is_real(x)]) > 1 else "|x|"
    flushed = n * SMALLEST * max((1.0, *(largest(absolute(x)) for x in inputs)))
    # The magnitude is itself rounded.
    return Allowed(factor * (1 + factor) * magnitude(op, inputs) + flushed, f"{name} {product}")


def _sums_narrowly(op: Op, y: Array) -> bool:
    return op.rounding.rule == "sum" and y.dtype == np.float16


def summed_narrowly(op: Op, inputs: Arrays, y: Array) -> Array | float:
    """Return by how much more a sum of products is off that is added up in f16."""
    if not _sums_narrowly(op, y):
        return 0.0
    squares = magnitude(op, floats(inputs, lambda x: np.square(x.astype(np.float64))))
    partial = np.sqrt(squares) + _size(y)
    return np.asarray(LAMBDA * math.sqrt(terms(op, inputs, y)) * roundoff(y.dtype) * partial)


def _roundings(op: Op, inputs: Arrays, y: Array) -> Allowed:
    k = op.rounding.count
    return Allowed(k * roundoff(y.dtype) * _size(y), f"{k} u |y|")


def _remainder(op: Op, inputs: Arrays, y: Array) -> Allowed:
    """Bound by the first input, of which a multiple of the second is taken away."""
    k, size = op.rounding.count, _size(inputs[0])
    if size.ndim != y.ndim:  # aligned as auto_broadcast says
        size = np.asarray(size.max(initial=0.0))
    return Allowed(k * unit(y) * (size + _size(y)), f"{k} u (|x| + |y|)")


def _function(op: Op, inputs: Arrays, y: Array) -> Allowed:
    """Bound by the effect of a small change of the argument, and the result's own rounding."""
    u = FUNCTION_ULPS * unit(y)
    x, *others = floats(inputs, lambda v: v.astype(np.float64))
    here, up, down = (evaluate(op, [x * f, *others])[0] for f in (1.0, 1 + u, 1 - u))
    change = np.maximum(np.abs(up - here), np.abs(down - here))
    change = np.where(np.isfinite(change), change, 0.0)
    rule = f"{FUNCTION_ULPS} u (|y| + |x f'|)"
    if op.rounding.rule == "function":
        return Allowed(u * _size(y) + change, rule)
    least = max(op.rounding.count, 1)
    steps = np.maximum(np.minimum(np.abs(x), _size(y) + 1), float(least))
    return Allowed(u * (_size(y) + steps) + change, f"{rule[:-1]} + {least})")


def _levels(op: Op, inputs: Arrays, y: Array) -> Allowed:
    """Bound by the levels around: (x - low) / (high - low) cancels, and is rounded like low."""
    u = FUNCTION_ULPS * unit(y)
    x, low, high, *out = floats(inputs, lambda v: v.astype(np.float64))
    here = evaluate(op, [x, low, high, *out])[0]
    nudge = u * (np.abs(x) + np.abs(low) + np.abs(high))
    around = [evaluate(op, [x + d, low, high, *out])[0] for d in (nudge, -nudge)]
    change = np.maximum(*(np.abs(v - here) for v in around))
    size = np.abs(out[0]) + np.abs(out[1])
    return Allowed(u * size + change, f"{FUNCTION_ULPS} u (|limits| + |x| at a border)")


def of_levels(x: Array, span: float) -> Array:
    """Bound how far off x is in the unit of the levels, of which there are `span` and one."""
    return np.asarray(FUNCTION_ULPS * SINGLE * (_size(x) + span))


def _softmax(op: Op, inputs: Arrays, y: Array) -> Allowed:
    x = inputs[0].astype(np.float64)
    finite = x[np.isfinite(x)]
    spread = float(np.ptp(finite)) if finite.size else 0.0
    n = terms(op, inputs, y)
    factor = gamma(independent(n), unit(y)) + unit(y) * (2 * FUNCTION_ULPS + 2 * spread)
    size = _size(y) if op.rounding.rule == "softmax" else _size(y) + 1
    return Allowed(factor * size, f"gamma_{n} y")


def _scale(op: Op, inputs: Arrays, y: Array) -> Allowed:
    """Bound by roundings of the largest value, and of a mean that is subtracted."""
    n = local_terms(op, inputs, y)
    found = scaled(y, n)
    if not isinstance(op, MeanVariance):
        return found
    x = inputs[0].astype(np.float64)
    most = np.abs(x).max(op.axes_in(x.ndim, *inputs[1:]), keepdims=True, initial=0)
    mean = n * unit(y) * most * op.slope(x, *inputs[1:])
    return Allowed(found.limit + mean, f"{n} u (max |y| + max |x| / s)")


_RULES: dict[str, Callable[[Op, Arrays, Array], Allowed]] = {
    "roundings": _roundings,
    "conversion": _roundings,
    "remainder": _remainder,
    "sum": _sum,
    "function": _function,
    "composite": _function,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "levels": _levels,
    "scale": _scale,
}


def scaled(y: Array, n: int) -> Allowed:
    """Bound by n roundings of the largest value."""
    return Allowed(n * unit(y) * largest(_size(y)), f"{n} u max |y|")


def local_terms(op: Op, inputs: Arrays, y: Array, *, narrow: bool = False) -> int:
    """Return the roundings of the accumulator on the way through one layer, roughly.

    To store a narrow number is one rounding, as large as many of the accumulator; a peer that adds
    up in f16 (`narrow`) makes as many as are likely to add up.
    """
    if is_exact(op) or not is_real(y):
        return 0
    times = 1.0 if is_narrow(y) else 0.0
    if narrow and _sums_narrowly(op, y):
        times += math.sqrt(terms(op, inputs, y))
    return round(times * roundoff(y.dtype) / unit(y)) + _local_terms(op, inputs, y)


def _local_terms(op: Op, inputs: Arrays, y: Array) -> int:
    rule = op.rounding.rule
    if rule == "sum":
        return math.ceil(roundings_of(op, inputs, y))
    if rule in ("roundings", "conversion", "remainder"):
        return op.rounding.count
    if rule in ("function", "composite", "levels"):
        return FUNCTION_ULPS
    n = math.prod(inputs[0].shape[2:]) if inputs else 0
    return 2 * FUNCTION_ULPS + math.ceil(independent(n))


def _whole(x: Array) -> bool:
    return not is_real(x) or bool(np.all(x == np.rint(x)))


def _size(y: Array) -> Array:
    return np.asarray(np.abs(y.astype(np.float64)))


_NUDGES, _HEADROOM = 24, 4.0  # how often errors are tried, and how much more all of them may do


def carried(
    op: Op, inputs: Sequence[Array], errors: Sequence[Error], outputs: Sequence[Array]
) -> list[Error]:
    """Bound the change of every output when the inputs change by at most `errors`."""
    known = [e for e in errors if e is not None]
    if len(known) < len(errors):
        return [None] * len(outputs)
    # Arrays, too, may hold nothing but zeros; and there may be nothing that has an error.
    if not any(x.size and np.any(e) for e, x in zip(known, inputs, strict=True)):
        return [0.0] * len(outputs)
    full = [np.broadcast_to(np.asarray(e), x.shape) for e, x in zip(known, inputs, strict=True)]
    try:
        with np.errstate(all="ignore"):
            steps = op.rounding.carry == "function" and all(y.dtype.kind in "iu" for y in outputs)
            real = steps or all(map(is_real, outputs))
            found = _carried(op, inputs, full, outputs) if real else _sensed(op, inputs, full)
            # As of inf * 0, where the way so far bounds nothing.
            return [e if e is None else np.where(np.isnan(e), np.inf, e) for e in found]
    except (TypeError, ValueError, IndexError):  # an evaluator that takes no such values
        return [None] * len(outputs)


def _carried(
    op: Op, inputs: Sequence[Array], errors: Sequence[Array], outputs: Sequence[Array]
) -> list[Error]:
    if any(e.any() and not is_real(x) for e, x in zip(errors, inputs, strict=True)):
        return [None] * len(outputs)
    first, carry = errors[0], op.rounding.carry
    if carry == "moves":
        moved = [_like(e, x) if is_real(x) else x for e, x in zip(errors, inputs, strict=True)]
        return [np.abs(e) for e in evaluate(op, moved)]
    if carry == "keeps":
        return [first]
    if carry == "adds":
        return [first + _second(op, errors)]
    if carry == "larger":
        return [np.maximum(first, _second(op, errors))]
    if carry == "slope" and not errors[1].any():
        return [first * max(1.0, float(np.max(absolute(inputs[1]), initial=0)))]
    if carry == "products" and len([x for x in inputs if is_real(x)]) <= 2:
        return [_telescoped(op, inputs, errors)]
    if carry == "quotient":
        return [_divided(op, inputs, errors)]
    if carry == "function" and len(outputs) == 1 and not any(e.any() for e in errors[1:]):
        return [_stepped(op, inputs, first)]
    if carry == "averages":
        return list(evaluate(op, [_like(first, inputs[0]), *inputs[1:]]))
    return _sensed(op, inputs, errors)


def _second(op: Op, errors: Sequence[Array]) -> Array:
    """Return the error of the second operand, its axes aligned as auto_broadcast does."""
    return aligned(errors[1], errors[0].ndim, getattr(op, "auto_broadcast", "numpy"))


def _divided(op: Op, inputs: Sequence[Array], errors: Sequence[Array]) -> Array:
    """Return |(a + d) / (b + e) - a / b| <= (|d| + |a / b| |e|) / (|b| - |e|)."""
    e = _second(op, errors)
    room = np.maximum(_second(op, [errors[0], np.abs(inputs[1])]) - e, 0)
    return np.asarray((errors[0] + _size(evaluate(op, inputs)[0]) * e) / room)


def _sensed(op: Op, inputs: Sequence[Array], errors: Sequence[Array]) -> list[Error]:
    """Estimate the changes by trying errors; only small ones, such as those of narrow types.

    Choices (indices, say) may be anything if one try chooses differently.
    """
    here = evaluate(op, inputs)
    if not all(map(is_narrow, filter(is_real, inputs))):
        return [None] * len(here)
    wide = floats(inputs, lambda v: v.astype(np.float64))
    here, rng = evaluate(op, wide), np.random.default_rng(0)
    most: list[Array] = [np.zeros(y.shape) for y in here]
    for _ in range(_NUDGES):
        pairs = zip(wide, errors, strict=True)
        moved = [x + e * rng.uniform(-1, 1, x.shape) if is_real(x) else x for x, e in pairs]
        for y, there, m in zip(here, evaluate(op, moved), most, strict=True):
            if is_real(y):
                change = np.nan_to_num(np.abs(there.astype(np.float64) - y), posinf=0.0)
            else:
                change = np.where(y == there, 0.0, np.inf)
            np.maximum(m, change, out=m)
    if is_exact(op):
        return [_HEADROOM * m for m in most]
    return [np.full(m.shape, _HEADROOM * float(m.max(initial=0.0))) for m in most]


def _like(error: Array, x: Array) -> Array:
    return np.array(error, dtype=np.float32 if x.dtype.itemsize < 4 else x.dtype)


def _telescoped(op: Op, inputs: Sequence[Array], errors: Sequence[Array]) -> Array:
    """Return |f(x + e) - f(x)| <= sum over ports of f(.., |x| + e, e_i, |x|, ..)."""
    sizes = floats(inputs, absolute)
    total: Array | None = None
    for i, (x, e) in enumerate(zip(inputs, errors, strict=True)):
        if not is_real(x) or not e.any():
            continue
        mixed = [
            s if j > i or not is_real(s) else _like(errors[j] + (s if j < i else 0), s)
            for j, s in enumerate(sizes)
        ]
        part = np.abs(evaluate(op, mixed)[0])
        total = part if total is None else total + part
    assert total is not None  # some error is not zero, and none of them an integer's
    return total


def _stepped(op: Op, inputs: Sequence[Array], error: Array) -> Array:
    """Return the larger change of a function over x - e .. x + e; exact if it is monotone."""
    x, *others = floats(inputs, lambda v: v.astype(np.float64))
    steps = (evaluate(op, [x + d, *others])[0] for d in (0.0, error, -error))
    here, up, down = (y.astype(np.float64) for y in steps)
    return np.asarray(np.maximum(np.abs(up - here), np.abs(down - here)))


@dataclass(frozen=True)
class Judge:
    """A layer, its inputs on the partner's side, its own outputs and those `made` of the former."""

    op: Op
    partner: Partner
    inputs: tuple[Followed, ...]
    outs: tuple[Array, ...]
    made: tuple[Array, ...]

    @staticmethod
    def of(
        op: Op,
        inputs: tuple[Followed, ...],
        arrays: list[Array],
        outs: tuple[Array, ...],
        partner: Partner,
    ) -> Judge:
        """Compute the layer from the partner's inputs, if they differ from its own `arrays`."""
        values = [f.value for f in inputs]
        if not is_exact(op):
            # They may be read in less than their own type: factors of a sum and data; limits,
            # slopes and axes are not.
            read = len(inputs) if op.rounding.rule == "sum" else 1
            inputs = tuple(
                replace(f, error=f.error + reread(f.value, partner.computes))
                if port < read and f.error is not None
                else f
                for port, f in enumerate(inputs)
            )
        try:
            made = outs if all(map(same_values, values, arrays)) else evaluate(op, values)
        except Exception:  # the partner's tensors do not fit this layer, for any reason
            own = zip(arrays, inputs, strict=True)
            inputs, made = tuple(replace(f, value=a, error=None) for a, f in own), outs
        return Judge(op, partner, inputs, outs, made)

    @property
    def arrays(self) -> list[Array]:
        """The input values."""
        return [f.value for f in self.inputs]

    def verdict(self, port: int, theirs: Array) -> tuple[Array, Allowed]:
        """Return the expected output of the partner and how far it may be off."""
        made = self.made[port]
        wanted = made if same_values(made, theirs) else self._precise[port]
        allowed = self._own[port]
        more = reread(made, self.partner.computes)
        if not (isinstance(more, float) or is_exact(self.op)):
            more = more * (1 if self._carried[port] is not None else self._terms(port) + 1)
            name = f"{allowed.rule} + {self.partner.computes}"
            allowed = Allowed(np.asarray(allowed.limit + more), name)
        error, terms = self._carried[port], self._terms(port)
        near = not any(f.terms for f in self._inside or self.inputs)
        return wanted, limited(made, theirs, error, terms, allowed, near=near)

    def bridged(self, port: int) -> Followed:
        """Return the output for its readers, if the partner does not have it."""
        made, error = self.made[port], self._carried[port]
        if error is not None and is_real(made) and not self._kept_exactly(port):
            error = error + 2 * np.asarray(self._own[port].limit)
        sound = all(f.sound for f in self.inputs)
        return Followed(made, error, self._terms(port), self._all_terms(port), sound)

    def _kept_exactly(self, port: int) -> bool:
        """Whether nothing is rounded, as in sums of whole numbers and conversions to more bits."""
        made, rule = self.made[port], self.op.rounding
        converts = rule.rule == "conversion" and port < len(self.inputs)
        same = converts and same_values(self.inputs[port].value, made)
        sums = rule.rule == "roundings" and rule.carry in ("adds", "products")
        whole = (
            sums
            and all(map(_whole, self.arrays))
            and largest(_size(made)) <= 1 / roundoff(made.dtype)
        )
        return same or whole or is_exact(self.op)

    def seen(self, port: int, theirs: Array, *, passed: bool) -> Followed:
        """Return the partner's output for its readers."""
        mine = self.outs[port]
        value = mine if same_values(mine, theirs) else theirs
        if value.dtype != mine.dtype and value.dtype.kind not in "OSUT":
            with np.errstate(all="ignore"):
                value = value.astype(mine.dtype)
        sound = passed and all(f.sound for f in self.inputs)
        return Followed(value, self._kept(port, value), 0, self._all_terms(port), sound)

    def _kept(self, port: int, value: Array) -> Error:
        """Bound how far a shown value is off the one that the partner goes on with."""
        if not self.partner.wide or not is_narrow(value):
            return 0.0
        if not is_exact(self.op):
            return stored(value)
        carried = self._carried[port]
        unlike = isinstance(carried, np.ndarray) and carried.shape not in ((), value.shape)
        return None if unlike else carried

    @cached_property
    def _precise(self) -> tuple[Array, ...]:
        if not worth_precision(self.op, self.made):
            return self.made
        return precise(self.op, self.arrays, self.made)

    @cached_property
    def _inside(self) -> tuple[Followed, ...]:
        """The outputs of an If, followed through the layers of its branch."""
        if not isinstance(self.op, If) or self.op.rounding.rule == "any":
            return ()

        def bridge(op: Op, inputs: tuple[Followed, ...]) -> list[Followed]:
            arrays = [f.value for f in inputs]
            outs = evaluate(op, arrays)
            judge = Judge.of(op, inputs, arrays, outs, self.partner)
            return [judge.bridged(port) for port in range(len(outs))]

        return followed_outputs(self.op, self.inputs, bridge)

    @cached_property
    def _own(self) -> tuple[Allowed, ...]:
        if self._inside:
            least = (SMALLEST if is_real(y) else 0.0 for y in self.made)
            return tuple(Allowed(n, "layers of the branch") for n in least)
        found = allowed(self.op, self.arrays, self.made)
        if not self.partner.narrow:
            return found
        more = (summed_narrowly(self.op, self.arrays, y) for y in self.made)
        return tuple(replace(f, limit=f.limit + m) for f, m in zip(found, more, strict=True))

    @cached_property
    def _carried(self) -> list[Error]:
        if self._inside:
            return [f.error for f in self._inside]
        return carried(self.op, self.arrays, [f.error for f in self.inputs], self.made)

    def _terms(self, port: int) -> int:
        if self._inside:
            return self._inside[port].terms
        return max((f.terms for f in self.inputs), default=0) + self._locals[port]

    def _all_terms(self, port: int) -> int:
        if self._inside:
            return self._inside[port].all_terms
        return max((f.all_terms for f in self.inputs), default=0) + self._locals[port] + 1

    @cached_property
    def _locals(self) -> list[int]:
        narrow = self.partner.narrow
        return [local_terms(self.op, self.arrays, y, narrow=narrow) for y in self.made]


def limited(
    made: Array, theirs: Array, error: Error, terms: int, own: Allowed, *, near: bool = False
) -> Allowed:
    """Join a layer's own bound, the error carried to it and the partner's element type.

    Bounds that were carried far grow beyond use, or there are none: then the `terms` roundings on
    the way count, each relative to the largest value. From values that were seen the way is not far
    (`near`). A partner that joined the layers on the way has rounded their constants once more,
    which changes the result by a unit at least.
    """
    found = own
    if is_real(made) and not near:
        once = unit(made) * np.abs(made.astype(np.float64))
        found = Allowed(np.asarray(own.limit + once), own.rule)
    if not (isinstance(error, float) and error == 0):
        roundings = scaled(made, 2 * (terms + 1))
        if error is not None:
            found = Allowed(np.asarray(found.limit + error), f"{own.rule} + carried")
        most, usual = (np.max(v.limit, initial=0.0) for v in (found, roundings))
        if error is None or (is_real(made) and not near and most > usual):
            found = Allowed(np.maximum(own.limit, roundings.limit), roundings.rule)
    coarse = roundoff(theirs.dtype)
    if is_real(made) and coarse > roundoff(made.dtype):
        size = np.abs(made.astype(np.float64))
        # A partner with narrower tensors than an f64 layer's computes in single precision, from
        # rounded inputs: the factor 2 of f64 bounds (rounding.allowed) leaves room for these.
        found = Allowed(max(1.0, min(coarse, SINGLE) / unit(made)) * found.limit, found.rule)
        found = Allowed(found.limit + coarse * size, f"{found.rule} + u |y| of {theirs.dtype}")
    return found
