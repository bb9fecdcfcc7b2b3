"""Variables: what a model keeps from one inference to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from irdeconv.dtypes import ElementType
from irdeconv.errors import OpError, Problem
from irdeconv.op import Op, op
from irdeconv.spec import Array, Interval, Shape, Spec, compatible, format_shape, merge_shapes
from irdeconv.traits import MOVES


@dataclass(frozen=True)
class VariableOp(Op):
    """Base of the operations that stand for a variable."""

    rounding = MOVES
    variable_id: str

    @property
    def pure(self) -> bool:
        """False: the value is not the input's alone."""
        return False

    def check(self) -> Iterator[Problem]:
        if not self.variable_id:
            yield Problem("E210", "variable_id is empty", attribute="variable_id")


class ReadingOp(VariableOp):
    """Base of the operations that read a variable."""


@op("ReadValue", since=3, until=5)
class ReadValue3(ReadingOp):
    """Give a variable's value, at first the input's.  [infrastructure/ReadValue-3]

    init_value (...), any type -> (...), the value that the last inference assigned.
    """

    def infer(self, init_value: Spec) -> Spec:
        return init_value.without_value()

    def evaluate(self, init_value: Array) -> Array:
        return init_value


@op("ReadValue", since=6)
class ReadValue6(ReadingOp):
    """Give a variable's value, at first the input's.  [infrastructure/ReadValue-6]

    init_value (...), which may be absent: zeros then, as few as variable_shape allows ->
    variable_shape, of variable_type: the value that the last inference assigned.
    """

    variable_shape: Shape | None
    variable_type: ElementType

    def infer(self, init_value: Spec | None = None) -> Spec:
        own = Spec(self.variable_type, self.variable_shape)
        if init_value is None:
            return own
        if init_value.dtype not in (None, own.dtype):
            raise OpError(
                f"init_value is {init_value.dtype}, the variable {own.dtype}", code="E303", port=0
            )
        if not compatible(init_value.shape, own.shape):
            raise OpError(
                f"init_value has shape {format_shape(init_value.shape)}, the variable "
                f"{format_shape(own.shape)}",
                code="E302",
                port=0,
            )
        return own

    def evaluate(self, init_value: Array | None = None) -> Array:
        return self.zeros() if init_value is None else init_value

    def zeros(self) -> Array:
        """Return the value of a variable that nothing was assigned to, without an input."""
        if self.variable_shape is None:
            raise OpError("of an unknown rank there are no zeros to begin with", code="E301")
        shape = [d.lo if isinstance(d, Interval) else d for d in self.variable_shape]
        return np.zeros(shape, self.variable_type.container)


@op("Assign", since=3, until=5)
class Assign3(VariableOp):
    """Keep a value for the next inference.  [infrastructure/Assign-3]

    value (...), any type -> (...), the same.
    """

    side_effect = True

    def infer(self, value: Spec) -> Spec:
        return value

    def evaluate(self, value: Array) -> Array:
        return value


@op("Assign", since=6)
class Assign6(Assign3):
    """Keep a value for the next inference.  [infrastructure/Assign-6]

    value (...), any type -> (...), the same. The variable's type and shape are ReadValue's.
    """


def unfit(own: Spec, array: Array) -> str | None:
    """Say why a variable cannot have a value; None where it can."""
    if own.dtype is not None and array.dtype != own.dtype.container:
        return f"the variable is {own.dtype}, the value {array.dtype}"
    try:
        merge_shapes(own.shape, array.shape)
    except ValueError:
        shapes = format_shape(own.shape), format_shape(array.shape)
        return f"the variable has shape {shapes[0]}, the value {shapes[1]}"
    return None
