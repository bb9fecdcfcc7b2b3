"""Places of elements as tensors: NonZero, OneHot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from irdeconv.dtypes import ElementType, i64
from irdeconv.errors import OpError, Problem
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import axis_of, index_type, one_type, single, want_type
from irdeconv.spec import DYNAMIC, Array, Interval, Spec, bounds, is_static, non_negative
from irdeconv.traits import JUMPS


@op("NonZero", since=3)
class NonZero(Op):
    """Places of the elements that are not 0: [rank, count] of `output_type`, row-major order.

    [condition/NonZero-3]
    """

    rounding = JUMPS
    output_type: ElementType = i64

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "output_type")

    def infer(self, data: Spec) -> Spec:
        if data.shape is None:
            return Spec(self.output_type, (DYNAMIC, DYNAMIC))
        if data.known is not None:
            return Spec(self.output_type, (len(data.shape), int(np.count_nonzero(data.known))))
        highest = math.prod(data.shape) if is_static(data.shape) else None
        return Spec(self.output_type, (len(data.shape), Interval.of(0, highest)))

    def evaluate(self, data: Array) -> Array:
        found = np.nonzero(np.atleast_1d(data))
        return np.array(found if data.ndim else (), self.output_type.container).reshape(
            data.ndim, -1 if data.ndim else len(found[0])
        )


class _OneHot(Op):
    """Base of the two versions."""

    rounding = JUMPS
    axis: int
    negative_indices_mode: str = "ignore_negative"

    def infer(self, indices: Spec, depth: Spec, on_value: Spec, off_value: Spec) -> Spec:
        want_type(indices, "integer", 0, "indices")
        dtype = one_type(on_value, off_value, names=("on_value", "off_value"), ports=(2, 3))
        count = single(depth, 1, "depth")
        if indices.shape is None:
            return Spec(dtype, None)
        at = axis_of(self.axis, len(indices.shape) + 1, attribute="axis")
        if bounds(count)[1] is not None and (bounds(count)[1] or 0) < 0:
            raise OpError(f"depth is {count}; it must not be negative", code="E305", port=1)
        return Spec(dtype, (*indices.shape[:at], non_negative(count), *indices.shape[at:]))

    def evaluate(self, indices: Array, depth: Array, on_value: Array, off_value: Array) -> Array:
        at = self.axis % (indices.ndim + 1)
        shape = [1] * (indices.ndim + 1)
        shape[at] = int(depth.reshape(-1)[0])
        if self.negative_indices_mode == "normalize":
            indices = np.where(indices < 0, indices + shape[at], indices)
        found = np.expand_dims(indices, at) == np.arange(shape[at]).reshape(shape)
        out = np.where(found, on_value.reshape(-1)[0], off_value.reshape(-1)[0])
        return np.asarray(out, on_value.dtype)


@op("OneHot", until=15)
class OneHot1(_OneHot):
    """A new `axis` of `depth` elements: on_value at the index, off_value elsewhere.

    indices: integers, those outside 0..depth-1 give no on_value; depth, values: scalars.
    [sequence/OneHot-1]
    """

    axis: int = attribute(0, documented=True)


@op("OneHot", since=16)
class OneHot(_OneHot):
    """A new `axis` of `depth` elements: on_value at the index, off_value elsewhere.

    Negative indices give no on_value or, normalized, count from the end.  [sequence/OneHot-16]
    """

    axis: int = attribute(0, documented=True)
    negative_indices_mode: Literal["ignore_negative", "normalize"] = "ignore_negative"
