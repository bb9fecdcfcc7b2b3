"""SoftMax and LogSoftmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.op import Op, op
from irdeconv.ops.activation import wide
from irdeconv.ops.checks import axis_of, want_type
from irdeconv.spec import Array, Spec


def softmax(x: Array, axis: int) -> Any:
    """Return exp(x) / sum(exp(x)) along an axis, shifted so that nothing overflows."""
    e = np.exp(x - np.max(x, axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Any:
    """Return the logarithm of the softmax along an axis."""
    shifted = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))


class _AlongAxis(Op):
    """Base: floating-point data, a valid axis, the shape stays."""

    axis: int

    def infer(self, data: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        if data.shape is not None:
            axis_of(self.axis, len(data.shape), attribute="axis")
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array) -> Array:
        return wide(softmax)(data, self.axis)


@op("SoftMax", until=7, aliases=("Softmax",))
class SoftMax1(_AlongAxis):
    """exp(x) / sum of exp along `axis` (not negative), floating-point.  [activation/SoftMax-1]"""

    axis: int = 1


@op("SoftMax", since=8, aliases=("Softmax",))
class SoftMax(_AlongAxis):
    """exp(x) / sum of exp along `axis` (may be negative).  [activation/SoftMax-8]"""

    axis: int = 1


@op("LogSoftmax", since=5)
class LogSoftmax(_AlongAxis):
    """x - log(sum of exp) along `axis`, floating-point.  [activation/LogSoftmax-5]"""

    axis: int = 1

    def evaluate(self, data: Array) -> Array:
        return wide(log_softmax)(data, self.axis)
