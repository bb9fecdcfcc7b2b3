"""Which operations are steps of a chain of element-wise operations, and with which arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.kernels.elementwise.chain import computing_type
from irdeconv.op import Op
from irdeconv.ops import activation, convert, normalization, quantize
from irdeconv.spec import Array, Spec, is_static

FLOATS = frozenset({"f64", "f32", "f16", "bf16"})


@dataclass(frozen=True)
class Port:
    """An argument that is an input of the operation; `shape` is what it is reshaped to."""

    number: int
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ChainStep:
    """A step (see kernels.elementwise.steps) before its arguments have registers.

    Arguments are inputs or constants that were derived from constant inputs.
    """

    name: str
    args: tuple[Port | Array, ...]
    params: tuple[Any, ...] = ()


Rule = Callable[[Any, Sequence[Spec]], ChainStep | None]
RULES: dict[type[Op], Rule] = {}

UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceiling": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "HSigmoid": "hsigmoid",
    "HSwish": "hswish",
    "Log": "log",
    "Mish": "mish",
    "Negative": "negative",
    "ReLU": "relu",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "SoftPlus": "softplus",
    "SoftSign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
BINARY = {
    "Add": "add",
    "Divide": "divide",
    "FloorMod": "remainder",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "Mod": "fmod",
    "Multiply": "multiply",
    "Power": "power",
    "SquaredDifference": "squared_difference",
    "Subtract": "subtract",
}
# Truth values and bits are no floating-point numbers; they are evaluated one by one.
SEPARATE = frozenset(
    "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Equal Greater GreaterEqual IsFinite IsInf IsNaN "
    "Less LessEqual LogicalAnd LogicalNot LogicalOr LogicalXor NotEqual Select".split()
)


def step_of(op: Op, inputs: Sequence[Spec]) -> ChainStep | None:
    """Return the operation as a step; None where it is none, or not for these inputs.

    Every input that is an argument and the result are f64 all together, or f32, f16 or bf16.
    """
    if not inputs or any(s.dtype is None for s in inputs):
        return None
    step = _of_type(op, inputs)
    if step is None:
        return None
    names = {str(inputs[a.number].dtype) for a in step.args if isinstance(a, Port)}
    return step if names <= FLOATS and ("f64" not in names or names == {"f64"}) else None


def _of_type(op: Op, inputs: Sequence[Spec]) -> ChainStep | None:
    if op.type in UNARY:
        return ChainStep(UNARY[op.type], (Port(0),))
    if op.type in BINARY:
        return ChainStep(BINARY[op.type], (Port(0), Port(1)))
    rule = RULES.get(type(op))
    return None if rule is None else rule(op, inputs)


def _rule(*classes: type[Op]) -> Callable[[Rule], Rule]:
    def register(fn: Rule) -> Rule:
        for cls in classes:
            RULES[cls] = fn
        return fn

    return register


def _number(spec: Spec) -> float | None:
    value = spec.known
    return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


def _array(value: Any, kind: Any) -> Any:
    return np.asarray(value, kind)


@_rule(activation.Clamp)
def _clamp(op: activation.Clamp, inputs: Sequence[Spec]) -> ChainStep:
    return ChainStep("clamp", (Port(0),), (op.min, op.max))


@_rule(activation.Elu)
def _elu(op: activation.Elu, inputs: Sequence[Spec]) -> ChainStep:
    return ChainStep("elu", (Port(0),), (op.alpha,))


@_rule(activation.Gelu2)
def _gelu2(op: activation.Gelu2, inputs: Sequence[Spec]) -> ChainStep:
    return ChainStep("gelu_erf", (Port(0),))


@_rule(activation.Gelu)
def _gelu(op: activation.Gelu, inputs: Sequence[Spec]) -> ChainStep:
    return ChainStep("gelu_erf" if op.approximation_mode == "ERF" else "gelu_tanh", (Port(0),))


@_rule(activation.Round)
def _round(op: activation.Round, inputs: Sequence[Spec]) -> ChainStep:
    return ChainStep("round" if op.mode == "half_to_even" else "round_half_away", (Port(0),))


@_rule(activation.Swish)
def _swish(op: activation.Swish, inputs: Sequence[Spec]) -> ChainStep | None:
    beta = _number(inputs[1]) if len(inputs) > 1 else 1.0
    return None if beta is None else ChainStep("swish", (Port(0),), (beta,))


@_rule(activation.PReLU)
def _prelu(op: activation.PReLU, inputs: Sequence[Spec]) -> ChainStep | None:
    data, slope = inputs[0].shape, inputs[1].shape
    if not is_static(data) or not is_static(slope):
        return None
    if len(slope) == 1 and len(data) > 1 and slope[0] == data[1]:
        return ChainStep("prelu", (Port(0), Port(1, (slope[0], *(1,) * (len(data) - 2)))))
    return ChainStep("prelu", (Port(0), Port(1)))


@_rule(activation.HardSigmoid)
def _hard_sigmoid(op: activation.HardSigmoid, inputs: Sequence[Spec]) -> ChainStep | None:
    alpha, beta = _number(inputs[1]), _number(inputs[2])
    if alpha is None or beta is None:
        return None
    return ChainStep("hard_sigmoid", (Port(0),), (alpha, beta))


@_rule(activation.Selu)
def _selu(op: activation.Selu, inputs: Sequence[Spec]) -> ChainStep | None:
    alpha, scale = _number(inputs[1]), _number(inputs[2])
    if alpha is None or scale is None:
        return None
    return ChainStep("selu", (Port(0),), (alpha, scale))


@_rule(convert.Convert)
def _convert(op: convert.Convert, inputs: Sequence[Spec]) -> ChainStep | None:
    source, target = str(inputs[0].dtype), op.destination_type.name
    if target not in FLOATS or (target == "f64") != (source == "f64"):
        return None
    if target in ("f64", "f32", source):
        return ChainStep("identity", (Port(0),))
    return ChainStep("narrow", (Port(0),), (op.destination_type.container.name,))


@_rule(quantize.FakeQuantize)
def _fake_quantize(op: quantize.FakeQuantize, inputs: Sequence[Spec]) -> ChainStep | None:
    """Constant limits in order; others need the selections of the general form."""
    given = [s.known for s in inputs[1:]]
    if any(v is None for v in given) or inputs[0].dtype is None:
        return None
    kind = computing_type(inputs[0].dtype.container)
    low, high, first, last = (_array(v, kind) for v in given)
    if not np.all(low < high):
        return None
    args = (Port(0), low, high, high - low, last - first, first)
    return ChainStep("fake_quantize", args, (op.levels,))


@_rule(normalization.BatchNormInference, normalization.BatchNormInference1)
def _batch_norm(op: normalization.BatchNormInference, inputs: Sequence[Spec]) -> ChainStep | None:
    first = 2 if isinstance(op, normalization.BatchNormInference1) else 0
    data = inputs[first]
    given = [s.known for i, s in enumerate(inputs) if i != first]
    if data.shape is None or data.dtype is None or any(v is None for v in given):
        return None
    kind = computing_type(data.dtype.container)
    shape = (-1, *(1,) * (len(data.shape) - 2))
    gamma, beta, mean, variance = (_array(v, kind).reshape(shape) for v in given)
    with np.errstate(all="ignore"):
        factor = gamma / np.sqrt(variance + kind.type(op.epsilon))
    return ChainStep("affine", (Port(first), mean, factor, beta))


CLASSES: frozenset[str] = frozenset(
    {cls.type for cls in RULES} | set(UNARY) | set(BINARY) | SEPARATE
)
