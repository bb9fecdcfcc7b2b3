"""Operations bound to exact shapes: calls that write into given memory, and views.

A new operation needs one function with `@binder` in `bound_moves` or `bound_math`, or a row of
`chain_ops`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irdeconv.kernels.elementwise.chain import Chain, Step
from irdeconv.kernels.shared.team import Team
from irdeconv.op import Op
from irdeconv.runtime import bound_math, bound_moves
from irdeconv.runtime.binder import BINDERS, Bound, shape_of
from irdeconv.runtime.chain_ops import ChainStep, Port, step_of
from irdeconv.spec import Array, Spec

assert bound_math
assert bound_moves


def bind(op: Op, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    """Bind an operation to exact shapes; None where only its `evaluate` will do.

    Inputs that are constants have their values in their specs, however many elements these have.
    """
    specs = (*inputs, *outputs)
    if not all(s.static and s.dtype is not None for s in specs) or any(s.size == 0 for s in specs):
        return None
    for cls in type(op).__mro__:
        if cls in BINDERS:
            found = BINDERS[cls](op, inputs, outputs)
            if found is not None:
                return found
    step = step_of(op, inputs)
    return None if step is None else bind_step(step, inputs)


def bind_step(step: ChainStep, inputs: Sequence[Spec]) -> Bound | None:
    """Bind an element-wise operation that stands alone."""
    operands: list[Array | None] = []
    given: list[tuple[int, tuple[int, ...] | None]] = []
    for i, arg in enumerate(step.args):
        value = _constant(arg, inputs)
        if i > 0 and value is not None:
            operands.append(value)
            continue
        if not isinstance(arg, Port):
            return None
        given.append((arg.number, arg.shape))
        if i > 0:
            operands.append(None)
    args = tuple(range(len(step.args)))
    kind = inputs[given[0][0]].dtype
    assert kind is not None
    chain = Chain.compile([Step(step.name, args, step.params)], kind.container, operands)
    plain = [(n, None if s == shape_of(inputs[n]) else s) for n, s in given]

    def call(*arrays: Array, out: Array, team: Team) -> None:
        chain.run([arrays[n] if s is None else arrays[n].reshape(s) for n, s in plain], out, team)

    return Bound(call)


def _constant(arg: Port | Array, inputs: Sequence[Spec]) -> Array | None:
    if not isinstance(arg, Port):
        return arg
    value = inputs[arg.number].known
    if value is None:
        return None
    return np.asarray(value) if arg.shape is None else np.asarray(value).reshape(arg.shape)
