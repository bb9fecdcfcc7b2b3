"""What an operation declares besides its meaning: how it is executed fast, and how it rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from irdeconv.spec import Array


@dataclass(frozen=True)
class Operand:
    """An argument of a step that is an input of the operation.

    `number` counts the operation's inputs; `shape` is what the input is reshaped to.
    """

    number: int
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ChainStep:
    """An element-wise operation as a step of a chain (see kernels.elementwise).

    `rule` says what it computes. Arguments are inputs, the data first, or constants that were
    derived from constant inputs.
    """

    rule: Callable[..., Any]
    args: tuple[Operand | Array, ...]
    params: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Bound:
    """An operation for exact shapes; one of the two is set.

    `call(*inputs, out=array, team=team)` writes into C-contiguous memory of the output's shape and
    type, which may hold anything and overlaps no input; inputs have any
    strides. `view(*inputs)` returns the output, or a tuple of several, as views of
    the first input; a copy where reshaping an input that is not contiguous needs one.
    """

    call: Callable[..., None] | None = None
    view: Callable[..., Any] | None = None


Carry = Literal[
    "unknown", "moves", "keeps", "adds", "larger", "slope", "products", "function", "averages"
]


@dataclass(frozen=True)
class Rounding:
    """How far a correct implementation may be off, and what becomes of errors of the inputs.

    `rule` bounds the rounding: none at all (`exact`); `roundings`, `count` of them relative to the
    result, also of a `conversion`; of a `remainder` relative to the first input, since that is what
    is left of a - b floor(a / b); a `sum` of products, linear in each input: gamma_n times the
    same on absolute values; a `function` of one element within a few units in the last place of
    result and argument, a `composite` one of several steps that may cancel, so also relative to
    `count` or 1;
    `softmax` and `log_softmax`; `levels` of a quantization, one up or down where the argument is
    as close to the border; `any` result where it is drawn anew in every run; else relative to the
    largest value (`scale`).

    `carry` bounds the error of the output by those of the inputs: `moves` them with the elements,
    `keeps` the first, `adds` two, takes the `larger`, multiplies by a PReLU's `slope` or by the
    other factors (`products`), follows the `function`, or `averages` with weights from 0 to 1.
    """

    rule: Literal[
        "exact",
        "roundings",
        "conversion",
        "remainder",
        "sum",
        "function",
        "composite",
        "softmax",
        "log_softmax",
        "levels",
        "scale",
        "any",
    ]
    count: int = 0
    carry: Carry = "unknown"


MOVES = Rounding("exact", carry="moves")
KEEPS = Rounding("exact", carry="keeps")
JUMPS = Rounding("exact")  # a small change of an input may change the output by any amount
CONVERSION = Rounding("conversion", 1)
REMAINDER = Rounding("remainder", 3)
SUM = Rounding("sum", carry="products")
FUNCTION = Rounding("function", carry="function")
COMPOSITE = Rounding("composite", carry="function")
LEVELS = Rounding("levels", carry="function")
SCALE = Rounding("scale")
DRAWN = Rounding("any")


def roundings(count: int, carry: Carry = "unknown") -> Rounding:
    """Return the rule of arithmetic; a division counts as multiplying by the reciprocal."""
    return Rounding("roundings", count, carry)
