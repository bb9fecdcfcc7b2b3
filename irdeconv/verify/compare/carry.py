"""Errors on their way through layers that only one of two models has.

`None` stands for an error that no bound is known for, 0.0 for none at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irdeconv.op import Op
from irdeconv.spec import Array
from irdeconv.verify.compare.rounding import absolute, evaluate, floats, is_real

Error = Array | float | None


def carried(
    op: Op, inputs: Sequence[Array], errors: Sequence[Error], outputs: Sequence[Array]
) -> list[Error]:
    """Bound the change of every output when the inputs change by at most `errors`."""
    if all(isinstance(e, float) and e == 0 for e in errors):
        return [0.0] * len(outputs)
    known = [e for e in errors if e is not None]
    if len(known) < len(errors) or not all(map(is_real, outputs)):
        return [None] * len(outputs)
    full = [np.broadcast_to(np.asarray(e), x.shape) for e, x in zip(known, inputs, strict=True)]
    try:
        with np.errstate(all="ignore"):
            return _carried(op, inputs, full, outputs)
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
        return [first + errors[1]]
    if carry == "larger":
        return [np.maximum(first, errors[1])]
    if carry == "slope" and not errors[1].any():
        return [first * max(1.0, float(np.max(absolute(inputs[1]), initial=0)))]
    if carry == "products" and len([x for x in inputs if is_real(x)]) <= 2:
        return [_telescoped(op, inputs, errors)]
    if carry == "function" and not any(e.any() for e in errors[1:]):
        return [_stepped(op, inputs, first)]
    if carry == "averages":
        return list(evaluate(op, [_like(first, inputs[0]), *inputs[1:]]))
    return [None] * len(outputs)


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
    assert total is not None  # some error is not zero
    return total


def _stepped(op: Op, inputs: Sequence[Array], error: Array) -> Array:
    """Return the larger change of a function over x - e .. x + e; exact where it is monotone."""
    x, *others = floats(inputs, lambda v: v.astype(np.float64))
    here, up, down = (evaluate(op, [x + d, *others])[0] for d in (0.0, error, -error))
    return np.asarray(np.maximum(np.abs(up - here), np.abs(down - here)))
