"""Simple rules of importers, and activations by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from irdeconv.formats.importing import ImportBuilder, SourceNode
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ops import activation, elementwise
from irdeconv.ops.activation import (
    Clamp,
    Elu,
    HardSigmoid,
    PReLU,
    ReLU,
    Selu,
    Sigmoid,
    SoftPlus,
    SoftSign,
    Swish,
)
from irdeconv.ops.elementwise import Add, Divide, Greater, Multiply, Power, Select, Tanh

N = TypeVar("N", bound=SourceNode)
SimpleRule = Callable[[N, ImportBuilder], Value]
MakeOp = Callable[[N, ImportBuilder], Op]
Activation = Callable[..., Value]  # of a builder, the data and numbers


def _with_scalars(op: Op) -> Activation:
    """Return an operation whose numbers are scalar inputs."""
    return lambda b, x, *numbers: b.add(op, x, *(b.like(v, x) for v in numbers))


def _leaky_relu(b: ImportBuilder, x: Value, alpha: float) -> Value:
    """x, or alpha * x below 0."""
    dtype = b.dtype(x)
    return b.add(PReLU(), x, b.const(np.array([alpha], dtype.container), dtype))


def _thresholded_relu(b: ImportBuilder, x: Value, alpha: float) -> Value:
    """x if it is above alpha, else 0."""
    return b.add(Select(), b.add(Greater(), x, b.like(alpha, x)), x, b.like(0, x))


def _affine(b: ImportBuilder, x: Value, alpha: float, beta: float) -> Value:
    """alpha * x + beta."""
    return b.add(Add(), b.add(Multiply(), x, b.like(alpha, x)), b.like(beta, x))


def _scaled_tanh(b: ImportBuilder, x: Value, alpha: float, beta: float) -> Value:
    """alpha * tanh(beta * x)."""
    inner = b.add(Tanh(), b.add(Multiply(), x, b.like(beta, x)))
    return b.add(Multiply(), inner, b.like(alpha, x))


def _soft_plus(b: ImportBuilder, x: Value, beta: float = 1) -> Value:
    """log(1 + exp(beta * x)) / beta."""
    if beta == 1:
        return b.add(SoftPlus(), x)
    factor = b.like(beta, x)
    return b.add(Divide(), b.add(SoftPlus(), b.add(Multiply(), x, factor)), factor)


ACTIVATIONS: dict[str, Activation] = {
    "affine": _affine,
    "clip": lambda b, x, low, high: b.add(Clamp(low, high), x),
    "elu": lambda b, x, alpha: b.add(Elu(alpha=alpha), x),
    "hardsigmoid": _with_scalars(HardSigmoid()),
    "leakyrelu": _leaky_relu,
    "pow": _with_scalars(Power()),
    "relu": _with_scalars(ReLU()),
    "scaledtanh": _scaled_tanh,
    "selu": _with_scalars(Selu()),
    "sigmoid": _with_scalars(Sigmoid()),
    "softplus": _soft_plus,
    "softsign": _with_scalars(SoftSign()),
    "swish": _with_scalars(Swish()),
    "tanh": _with_scalars(Tanh()),
    "thresholdedrelu": _thresholded_relu,
}


def named_operations(words: str) -> Iterator[tuple[str, Op]]:
    """Yield names in another format and operations without attributes: `Ceil=Ceiling Exp`."""
    for word in words.split():
        theirs, _, ours = word.partition("=")
        module = elementwise if hasattr(elementwise, ours or theirs) else activation
        yield theirs, getattr(module, ours or theirs)()


def by_numbers(name: str, **usual: float | None) -> SimpleRule[Any]:
    """Return the rule of an activation whose numbers are attributes, None for required ones."""
    apply = ACTIVATIONS[name]
    return lambda n, b: apply(b, n[0], *(n.number(a, v) for a, v in usual.items()))


def one_operation(op: Op | MakeOp[N], inputs: int | None = 1) -> SimpleRule[N]:
    """Return the rule of a layer that is one operation of its inputs as they are.

    `inputs` is their number, None for all.
    """

    def apply(n: N, b: ImportBuilder) -> Value:
        made = op if isinstance(op, Op) else op(n, b)
        return b.add(made, *(n.given if inputs is None else (n[i] for i in range(inputs))))

    return apply
