"""What rounding allows one layer: bounds derived from its operation and its inputs.

A sum of n products is computed within gamma_n |W| |x| of its exact value in whatever order it is
added, gamma_n = n u / (1 - n u), u the unit roundoff of the accumulator. For many terms roundings
behave as independent: then n counts as LAMBDA sqrt(n), which fails with a probability below
2 exp(-LAMBDA^2 / 2) = 3e-14 per element; the rule is then spelled gamma~_n.

Tensors of fewer than 32 bits (f16, bf16) are computed in single precision and rounded once. A peer
of which nothing is known may add up in f16 as well (in bf16 none does): its roundings are relative
to partial sums, which run from 0 to the result and stray by the root of the sum of squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np

from irdeconv.dtypes import f32
from irdeconv.op import EagerBuilder, Op, SugarOp, as_tuple
from irdeconv.spec import Array, Spec
from irdeconv.verify.compare.difference import Allowed, roundoff
from irdeconv.verify.compare.partner import Precision

LAMBDA = 8
FUNCTION_ULPS = 8  # units in the last place that libraries' elementary functions may be off
SINGLE = roundoff(np.dtype(np.float32))
SMALLEST = float(np.finfo(np.float32).tiny)  # runtimes may take what is smaller for 0

Arrays = Sequence[Array]


def is_narrow(a: Array) -> bool:
    """Whether an array holds floating-point numbers of fewer than 32 bits."""
    return is_real(a) and a.dtype.itemsize < 4


def stored(y: Array) -> Array:
    """Return how far off its value a narrow number may be that a peer shows: it is rounded."""
    least = float(ml_dtypes.finfo(y.dtype).smallest_subnormal)  # type: ignore[no-untyped-call]
    return np.asarray(roundoff(y.dtype) * _size(y) + least)


def reread(x: Array, computes: Precision) -> Array | float:
    """Return how far off a value may be for a partner that computes in less than its type.

    int8 rounds to 255 levels of the tensor's range, whatever the range that was calibrated.
    """
    if computes == "f32" or not is_real(x):
        return 0.0
    size = _size(x)
    if computes == "bf16":
        return np.asarray(roundoff(np.dtype(ml_dtypes.bfloat16)) * size)
    finite = size[np.isfinite(size)]
    return np.full(x.shape, float(finite.max(initial=0.0)) / 127)


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


def evaluate(op: Op, inputs: Arrays) -> tuple[Array, ...]:
    """Evaluate an operation quietly, in any floating-point type; all outputs."""
    with np.errstate(all="ignore"):
        if isinstance(op, SugarOp) and type(op).evaluate is SugarOp.evaluate:
            made = op.expand(_AnyType(), *inputs)
        else:
            made = op.evaluate(*inputs)
        return tuple(np.asarray(y) for y in as_tuple(made))


def precise(op: Op, inputs: Arrays, outputs: Arrays) -> tuple[Array, ...]:
    """Return the outputs in double precision; where they overflow in their own type, as given."""
    wide = evaluate(op, floats(inputs, lambda x: x.astype(np.float64)))
    return tuple(
        np.where(np.isfinite(y.astype(np.float64)), w, y.astype(np.float64)) if is_real(y) else y
        for w, y in zip(wide, outputs, strict=True)
    )


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


def gamma(n: int, u: float) -> float:
    """Return the factor of n roundings."""
    grown = min(n, LAMBDA * math.sqrt(n)) * u
    return grown / (1 - grown) if grown < 0.5 else math.inf


def terms(op: Op, inputs: Arrays, y: Array) -> int:
    """Return how many products at most add up to an element of the result."""
    x = inputs[0]
    if op.deconvolution and x.size:  # one product is 1, so the result counts them
        ones = floats([x[:1], *inputs[1:]], lambda v: np.ones(v.shape, np.float32))
        return int(evaluate(op, ones)[0].max(initial=1))
    return op.terms(inputs, y)


def magnitude(op: Op, inputs: Arrays) -> Array:
    """Evaluate a sum of products on absolute values."""
    return evaluate(op, floats(inputs, absolute))[0]


def absolute(x: Array) -> Array:
    """Return |x| in a type that does not overflow in sums."""
    return np.asarray(np.abs(x if x.dtype.itemsize >= 4 else x.astype(np.float32)))


def _sum(op: Op, inputs: Arrays, y: Array) -> Allowed:
    n = terms(op, inputs, y)
    factor = gamma(n, unit(y))
    name = f"gamma{'~' if n > LAMBDA**2 else ''}_{n}"
    what = "|W||x|" if len([x for x in inputs if is_real(x)]) > 1 else "|x|"
    flushed = n * SMALLEST * max(map(_largest, inputs), default=1.0)
    # The magnitude is itself rounded.
    return Allowed(factor * (1 + factor) * magnitude(op, inputs) + flushed, f"{name} {what}")


def _sums_narrowly(op: Op, y: Array) -> bool:
    return op.rounding.rule == "sum" and y.dtype == np.float16


def summed_narrowly(op: Op, inputs: Arrays, y: Array) -> Array | float:
    """Return by how much more a sum of products is off that is added up in f16."""
    if not _sums_narrowly(op, y):
        return 0.0
    squares = magnitude(op, floats(inputs, lambda x: np.square(x.astype(np.float64))))
    partial = np.sqrt(squares) + _size(y)
    return np.asarray(LAMBDA * math.sqrt(terms(op, inputs, y)) * roundoff(y.dtype) * partial)


def _largest(x: Array) -> float:
    """Return the largest finite magnitude, at least 1."""
    size = absolute(x)
    return float(np.max(size, initial=1, where=np.isfinite(size)))


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
    """Bound by what a small change of the argument does, and the result's own rounding."""
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


def _softmax(op: Op, inputs: Arrays, y: Array) -> Allowed:
    x = inputs[0].astype(np.float64)
    finite = x[np.isfinite(x)]
    spread = float(np.ptp(finite)) if finite.size else 0.0
    n = terms(op, inputs, y)
    factor = gamma(n, unit(y)) + unit(y) * (2 * FUNCTION_ULPS + 2 * spread)
    size = _size(y) if op.rounding.rule == "softmax" else _size(y) + 1
    return Allowed(factor * size, f"gamma_{n} y")


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
    "scale": lambda op, inputs, y: scaled(y, local_terms(op, inputs, y)),
}


def scaled(y: Array, n: int) -> Allowed:
    """Bound by n roundings of the largest value."""
    size = _size(y)
    top = float(size[np.isfinite(size)].max(initial=0.0))
    return Allowed(n * unit(y) * top, f"{n} u max |y|")


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
        n = terms(op, inputs, y)
        return math.ceil(min(n, LAMBDA * math.sqrt(n)))
    if rule in ("roundings", "conversion", "remainder"):
        return op.rounding.count
    if rule in ("function", "composite", "levels"):
        return FUNCTION_ULPS
    n = math.prod(inputs[0].shape[2:]) if inputs else 0
    return 2 * FUNCTION_ULPS + math.ceil(min(n, LAMBDA * math.sqrt(n)))


def _size(y: Array) -> Array:
    return np.asarray(np.abs(y.astype(np.float64)))
