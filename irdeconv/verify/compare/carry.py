"""Errors on their way through layers that only one of two models has.

`None` stands for an error that no bound is known for, 0.0 for none at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irdeconv.op import Op
from irdeconv.ops.auto_broadcast import aligned
from irdeconv.spec import Array
from irdeconv.verify.compare.rounding import (
    absolute,
    evaluate,
    floats,
    is_exact,
    is_narrow,
    is_real,
)

Error = Array | float | None
_NUDGES, _HEADROOM = 24, 4.0  # how often errors are tried, and how much more all of them may do


def carried(
    op: Op, inputs: Sequence[Array], errors: Sequence[Error], outputs: Sequence[Array]
) -> list[Error]:
    """Bound the change of every output when the inputs change by at most `errors`."""
    known = [e for e in errors if e is not None]
    if len(known) < len(errors):
        return [None] * len(outputs)
    if not any(np.any(e) for e in known):  # arrays, too, may hold nothing but zeros
        return [0.0] * len(outputs)
    full = [np.broadcast_to(np.asarray(e), x.shape) for e, x in zip(known, inputs, strict=True)]
    try:
        with np.errstate(all="ignore"):
            real = all(map(is_real, outputs))
            return _carried(op, inputs, full, outputs) if real else _sensed(op, inputs, full)
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
    if carry == "function" and not any(e.any() for e in errors[1:]):
        return [_stepped(op, inputs, first)]
    if carry == "averages":
        return list(evaluate(op, [_like(first, inputs[0]), *inputs[1:]]))
    return _sensed(op, inputs, errors)


def _second(op: Op, errors: Sequence[Array]) -> Array:
    """Return the error of the second operand, its axes where auto_broadcast has them."""
    return aligned(errors[1], errors[0].ndim, getattr(op, "auto_broadcast", "numpy"))


def _sensed(op: Op, inputs: Sequence[Array], errors: Sequence[Array]) -> list[Error]:
    """Estimate the changes by trying errors; only small ones, such as those of narrow types.

    What is chosen (indices, say) may be anything wherever one try chooses differently.
    """
    here = evaluate(op, inputs)
    if not all(map(is_narrow, filter(is_real, inputs))):
        return [None] * len(here)
    wide = floats(inputs, lambda v: v.astype(np.float64))
    here, rng = evaluate(op, wide), np.random.default_rng(0)
    most: list[Array] = [np.zeros(y.shape) for y in here]
    for _ in range(_NUDGES):
        moved = [
            x + e * rng.uniform(-1, 1, x.shape) if is_real(x) else x
            for x, e in zip(wide, errors, strict=True)
        ]
        for y, there, m in zip(here, evaluate(op, moved), most, strict=True):
            change = np.abs(there.astype(np.float64) - y) if is_real(y) else _unlike(y, there)
            top = 0.0 if is_real(y) else np.inf
            np.maximum(m, np.nan_to_num(change, nan=0.0, posinf=top), out=m)
    if is_exact(op):
        return [_HEADROOM * m for m in most]
    return [np.full(m.shape, _HEADROOM * float(m.max(initial=0.0))) for m in most]


def _unlike(y: Array, there: Array) -> Array:
    return np.where(y == there, 0.0, np.inf)


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
    """Return the larger change of a function over x - e .. x + e; exact where it is monotone."""
    x, *others = floats(inputs, lambda v: v.astype(np.float64))
    here, up, down = (evaluate(op, [x + d, *others])[0] for d in (0.0, error, -error))
    return np.asarray(np.maximum(np.abs(up - here), np.abs(down - here)))
