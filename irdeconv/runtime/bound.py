"""Operations bound to exact shapes: calls that write into given memory, and views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irdeconv.errors import OpError
from irdeconv.kernels.elementwise.calls import Instruction
from irdeconv.kernels.elementwise.chain import Chain
from irdeconv.kernels.shared.team import Team
from irdeconv.op import Op
from irdeconv.runtime.chains import chain_step
from irdeconv.spec import Array, Spec
from irdeconv.traits import Bound, ChainStep, Operand


def bind(op: Op, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    """Bind an operation to exact shapes; None where only its `evaluate` will do.

    Inputs that are constants have their values in their specs, however many elements these have.
    """
    specs = (*inputs, *outputs)
    if not all(s.static and s.dtype is not None for s in specs) or any(s.size == 0 for s in specs):
        return None
    try:
        bound = op.bind(inputs, outputs)
    except (OpError, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # of constants that do not fit, which the run reports with the layer's name
    if bound is not None:
        return bound
    step = chain_step(op, inputs)
    return None if step is None else _alone(step, inputs)


def _alone(step: ChainStep, inputs: Sequence[Spec]) -> Bound | None:
    """Bind an element-wise operation that stands alone."""
    operands: list[Array | None] = []
    read: list[Operand] = []
    for i, arg in enumerate(step.args):
        value = _constant(arg, inputs)
        if i > 0 and value is not None:
            operands.append(value)
            continue
        if not isinstance(arg, Operand):
            return None
        read.append(arg)
        if i > 0:
            operands.append(None)
    args = tuple(range(len(step.args)))
    kind = inputs[read[0].number].dtype
    assert kind is not None
    chain = Chain.compile([Instruction(step.rule, args, step.params)], kind.container, operands)
    plain = [(a.number, None if a.shape == inputs[a.number].shape else a.shape) for a in read]

    def call(*arrays: Array, out: Array, team: Team) -> None:
        chain.run([arrays[n] if s is None else arrays[n].reshape(s) for n, s in plain], out, team)

    return Bound(call)


def _constant(arg: Operand | Array, inputs: Sequence[Spec]) -> Array | None:
    if not isinstance(arg, Operand):
        return arg
    value = inputs[arg.number].known
    if value is None:
        return None
    return np.asarray(value) if arg.shape is None else np.asarray(value).reshape(arg.shape)
