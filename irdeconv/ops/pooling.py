"""Pooling over windows: AvgPool and MaxPool of every opset, adaptive pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_error, size_error, values_of
from irdeconv.ir import dtypes, geometry
from irdeconv.ir.attributes import IndexType, Ints, NaturalAxisInts, PositiveAxisInts, ValueRange
from irdeconv.ir.geometry import AutoPad, Rounding
from irdeconv.ir.op import MOVES, SUM, Bound, Op, attribute, op
from irdeconv.ir.ports import Fit, axis_of, exact
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Shape, Spec, bounds, format_shape, merge
from irdeconv.kernels import pooling
from irdeconv.kernels.candidate import WindowAxis, window_axes
from irdeconv.ops.checks import WindowOp, check_lists, inferred_shape, shape_of
from irdeconv.ops.elementwise import wide

_STRIDES = ValueRange(1, per_axis=True, needed=True)


@dataclass(frozen=True)
class Pool(WindowOp):
    """Base of all poolings: attributes, checks, output sizes.

    `kernel` and `strides` are required; absent pads mean 0. Pads are not negative.
    """

    signature = "data: number t [N, C, *I:1..3] -> t [N, C, *O]"
    kernel: PositiveAxisInts
    strides: Annotated[Ints, _STRIDES] = attribute((), required=True)
    pads_begin: NaturalAxisInts = attribute((), documented=True)
    pads_end: NaturalAxisInts = attribute((), documented=True)
    rounding_type: Rounding = "floor"
    auto_pad: AutoPad = "explicit"

    def check(self) -> Iterator[Problem]:
        if not self.kernel:
            yield Problem("E304", "kernel is empty; it is required", attribute="kernel")

    def windows(self, shape: Ints) -> tuple[list[WindowAxis], bool]:
        """Return the windows in data of that shape, and whether anything is padded."""
        outputs = exact(self.sizes(shape)) or ()
        strides, dilations, _ = self.filled(len(self.kernel))
        begin, end = self.effective_pads(shape[2:], self.kernel)
        axes = window_axes(shape[2:], outputs, self.kernel, strides, dilations, begin)
        return axes, any(begin) or any(end)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        """Pool into one output; the second one of MaxPool-8 is evaluated."""
        if len(outputs) > 1 or inputs[0].dtype is None:
            return None
        shape = shape_of(inputs[0])
        windows, padded = self.windows(shape)
        count = self.counts(windows, padded)
        return Bound(pooling.Pooling(shape, inputs[0].dtype.container, windows, count))

    def counts(self, windows: list[WindowAxis], padded: bool) -> Array | None:
        """Return the divisors of the sums over windows; None if there is nothing to divide."""
        return None

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        at.groups["O"] = self.sizes(shape)

    def sizes(self, shape: Shape) -> Shape:
        """Return the output's spatial sizes; E304 and E306 if the windows do not fit."""
        check_lists(self, len(shape) - 2)
        for axis, name in enumerate(("batch", "channel axis")):
            if shape[axis] == 0:
                raise OpError(f"the {name} has no element", code="E306", port=0)
        return tuple(self._size(a, size) for a, size in enumerate(shape[2:]))

    def _size(self, axis: int, size: Dim) -> Dim:
        strides, dilations, (begin, end) = self.filled(len(self.kernel))
        reach = geometry.extent(self.kernel[axis], dilations[axis])
        pad = (begin[axis], end[axis]) if self.auto_pad == "explicit" else (0, 0)
        o = geometry.output_size(self.auto_pad, size, reach, strides[axis], pad, self.rounding_type)
        same = self.auto_pad in ("same_upper", "same_lower")
        top = bounds(size)[1]
        if top is not None and (not top if same else top + sum(pad) < reach):
            text = f"the dilated kernel has size {reach} on spatial axis {axis}, "
            text += f"but the padded data only {size + sum(pad)}"
            raise OpError(text, code="E306", attribute="kernel")
        return o


@dataclass(frozen=True)
class AvgPoolBase(Pool):
    """Average pooling of every operation set."""

    rounding = SUM

    exclude_pad: bool = attribute(True, xml="exclude-pad", documented=True)

    def complete(self, at: Fit, data: Spec) -> None:
        super().complete(at, data)
        if self.auto_pad != "explicit" or not self.exclude_pad:
            return
        _, dilations, pads = self.filled(len(self.kernel))
        for axis, (k, d) in enumerate(zip(self.kernel, dilations, strict=True)):
            for name, pad in zip(("pads_begin", "pads_end"), pads, strict=True):
                if pad[axis] >= geometry.extent(k, d):
                    text = f"{name} is {pad[axis]} on spatial axis {axis}, so that windows of size "
                    text += f"{geometry.extent(k, d)} lie wholly in the padding and have no mean"
                    raise attribute_error(name, text)

    def evaluate(self, data: Array) -> Array:
        windows, padded = self.windows(data.shape)
        return pooling.avg_pool(data, windows, exclude_pad=self._excludes(padded))

    def _excludes(self, padded: bool) -> bool:
        # Without any padding the runtime also ignores the overhang of ceil rounding.
        return self.exclude_pad or not padded

    def counts(self, windows: list[WindowAxis], padded: bool) -> Array:
        return pooling.counts(windows, exclude_pad=self._excludes(padded))

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return math.prod(self.kernel) + 1


@op("AvgPool", until=13)
class AvgPool1(AvgPoolBase):
    """Means of windows: data (N, C, *I) -> (N, C, *O), any number type.

    O by `rounding_type` of (I + pads - K) / S, plus 1; ceil(I / S) under same_upper, same_lower.
    `exclude-pad` divides by the positions inside the data.  [pooling/AvgPool-1]
    """

    rounding_type: Literal["floor", "ceil"] = "floor"


@op("AvgPool", since=14, until=15)
class AvgPool14(AvgPoolBase):
    """AvgPool-1 with `rounding_type` ceil_torch: no window starts behind data and begin padding.

    data (N, C, *I) -> (N, C, *O).  [pooling/AvgPool-14]
    """


@op("AvgPool", since=16)
class AvgPool16(AvgPoolBase):
    """AvgPool-14 with dilated windows: data (N, C, *I) -> (N, C, *O).  [pooling/AvgPool-16]"""

    dilations: PositiveAxisInts = ()


@op("MaxPool", until=7)
class MaxPool1(Pool):
    """Maxima of windows: data (N, C, *I) -> (N, C, *O), any number type.

    Padding never wins; a window without data gives the lowest finite value.  [pooling/MaxPool-1]
    """

    rounding = MOVES
    rounding_type: Literal["floor", "ceil"] = "floor"

    def evaluate(self, data: Array) -> Array:
        return pooling.max_pool(data, self.windows(data.shape)[0])


@op("MaxPool", since=14)
class MaxPool14(Pool):
    """MaxPool-8 with `rounding_type` ceil_torch: no window starts behind data and begin padding.

    data (N, C, *I) -> two of (N, C, *O).  [pooling/MaxPool-14]
    """

    rounding = MOVES
    signature = f"{Pool.signature}; index_element_type [N, C, *O]"

    dilations: PositiveAxisInts = attribute((), documented=True)
    index_element_type: IndexType = dtypes.i64
    axis: int = 0

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        super().complete_from(at, shape)
        axis_of(self.axis, len(shape), attribute="axis")

    def evaluate(self, data: Array) -> tuple[Array, Array]:
        windows = self.windows(data.shape)[0]
        axis = axis_of(self.axis, data.ndim, attribute="axis")
        y, found = pooling.max_pool_indices(data, windows, axis)
        return y, found.astype(self.index_element_type.container, copy=False)

    def evaluator(self, used: frozenset[int], inputs: Sequence[Spec]) -> Callable[..., Any]:
        if 1 in used:
            return self.evaluate
        # The first output alone is several times faster than both.
        return lambda data: pooling.max_pool(data, self.windows(data.shape)[0])


@op("MaxPool", since=8, until=13)
class MaxPool8(MaxPool14):
    """Maxima of dilated windows and their indices: data (N, C, *I) -> two of (N, C, *O).

    The second output counts elements of data flattened from `axis` on; the first of equal maxima
    wins.  [pooling/MaxPool-8]
    """

    rounding_type: Literal["floor", "ceil"] = "floor"


class _Adaptive(Op):
    """Base of both: data and the values O."""

    signature = "data: number t [N, C, *I:1..3]; output_shape: integer [?] = *O -> t [N, C, *O]"

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        axes, sizes = len(shape) - 2, at.groups["O"]
        if merge(count := at.count("output_shape"), axes) is None:
            raise size_error(1, f"output_shape has {values_of(count)} for {axes} spatial axes")
        at.groups["O"] = sizes = (DYNAMIC,) * axes if sizes is None else sizes
        if 0 in shape[2:] and 0 not in (*shape[:2], *sizes):
            raise size_error(0, f"data {format_shape(shape)} has no elements to pool")


@op("AdaptiveAvgPool", since=8)
class AdaptiveAvgPool(_Adaptive):
    """Means of O windows that share the data: data (N, C, *I), O values -> (N, C, *O).

    One to three spatial axes, any numbers. Window o reads floor(o I / O) up to ceil((o + 1) I / O),
    so neighbours may overlap.  [pooling/AdaptiveAvgPool-8]
    """

    rounding = SUM

    def evaluate(self, data: Array, output_shape: Array) -> Array:
        shape = inferred_shape(self, data, output_shape)
        if 0 in shape:
            return np.zeros(shape, data.dtype)
        return wide(pooling.means)(data, shape[2:])

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        pairs = zip(inputs[0].shape[2:], output.shape[2:], strict=True)
        return int(math.prod(size // max(count, 1) + 2 for size, count in pairs)) + 1


@op("AdaptiveMaxPool", since=8)
class AdaptiveMaxPool(_Adaptive):
    """Maxima of O windows and their indices: data (N, C, *I), O values -> two of (N, C, *O).

    Windows as for AdaptiveAvgPool. The second output counts the elements of a channel's plane, the
    first of equal maxima wins.  [pooling/AdaptiveMaxPool-8]
    """

    rounding = MOVES
    signature = f"{_Adaptive.signature}; index_element_type [N, C, *O]"
    index_element_type: IndexType = dtypes.i64

    def evaluate(self, data: Array, output_shape: Array) -> tuple[Array, Array]:
        shape = inferred_shape(self, data, output_shape)
        kind: Any = self.index_element_type.container
        if 0 in shape:
            return np.zeros(shape, data.dtype), np.zeros(shape, kind)
        y, places = pooling.maxima(data, shape[2:])
        return y, places.astype(kind)
