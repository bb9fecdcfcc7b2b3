"""SoftMax and LogSoftmax."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.errors import Problem
from irdeconv.kernels import reductions
from irdeconv.op import Op, op
from irdeconv.ops.binding import is_computed, shape_of
from irdeconv.ops.checks import axis_of, want_type
from irdeconv.ops.unary import wide
from irdeconv.spec import Array, Spec
from irdeconv.traits import Bound, Rounding


def softmax(x: Array, axis: int) -> Any:
    """Return exp(x) / sum(exp(x)) along an axis, shifted so that nothing overflows."""
    e = np.exp(x - np.max(x, axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Any:
    """Return the logarithm of the softmax along an axis."""
    shifted = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))


@dataclass(frozen=True)
class _AlongAxis(Op):
    """Base: floating-point data, a valid axis, the shape stays."""

    rounding = Rounding("softmax")
    axis: int = 1

    def infer(self, data: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        if data.shape is not None:
            axis_of(self.axis, len(data.shape), attribute="axis")
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array) -> Array:
        return wide(softmax)(data, self.axis)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        if not is_computed(inputs[0]):
            return None
        shape = shape_of(inputs[0])
        at = axis_of(self.axis, len(shape))
        block = math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])
        log = self.rounding.rule == "log_softmax"
        return Bound(reductions.Softmax(block, log))

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return int(inputs[0].shape[self.axis]) if inputs[0].ndim else 1


@op("SoftMax", until=7, aliases=("Softmax",))
class SoftMax1(_AlongAxis):
    """exp(x) / sum of exp along `axis` (not negative), floating-point.

    Absent, it is 0 in the runtime, 1 in the specification.  [activation/SoftMax-1]
    """

    axis: int = 0

    def check(self) -> Iterator[Problem]:
        if self.axis < 0:
            message = f"axis is {self.axis}; it must not be negative before opset8"
            yield Problem("E210", message, attribute="axis")


@op("SoftMax", since=8, aliases=("Softmax",))
class SoftMax(_AlongAxis):
    """exp(x) / sum of exp along `axis` (may be negative).  [activation/SoftMax-8]"""


@op("LogSoftmax", since=5)
class LogSoftmax(_AlongAxis):
    """x - log(sum of exp) along `axis`, floating-point.  [activation/LogSoftmax-5]"""

    rounding = Rounding("log_softmax")

    def evaluate(self, data: Array) -> Array:
        return wide(log_softmax)(data, self.axis)
