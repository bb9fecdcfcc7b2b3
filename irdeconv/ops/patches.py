"""Windows of images as columns: Col2Im, ExtractImagePatches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from irdeconv.attributes import Ints
from irdeconv.errors import OpError, Problem
from irdeconv.geometry_conv import dilated, extent, output_size, pads, steps
from irdeconv.op import Op, attribute, op
from irdeconv.ops.channels import divided
from irdeconv.ops.checks import elements, exact, want_rank, want_type, widened
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, merge, non_negative
from irdeconv.traits import MOVES, SUM

ONE, ZERO = (1, 1), (0, 0)


def _pairs(op: Op, names: Sequence[str], least: int = 1) -> Iterator[Problem]:
    """Yield what is wrong with attributes that are pairs of numbers of at least `least`."""
    for name in names:
        values = getattr(op, name)
        if values and (len(values) != 2 or min(values) < least):
            text = f"{name} is {list(values)}; it must be two numbers of at least {least}"
            yield Problem("E210", text, attribute=name)


@op("Col2Im", since=15)
class Col2Im(Op):
    """Add up columns at the windows that they came from: [N, C * K, L] -> [N, C, *output_size].

    output_size, kernel_size: two integers each, inputs; K = the kernel's elements, L = the number
    of windows of the padded image. The batch axis may be absent. Numbers.  [movement/Col2Im-15]
    """

    rounding = SUM
    # Written always: OpenVINO reads beyond a list that is absent.
    strides: Ints = ONE
    dilations: Ints = ONE
    pads_begin: Ints = ZERO
    pads_end: Ints = ZERO

    def check(self) -> Iterator[Problem]:
        yield from _pairs(self, ("strides", "dilations"))
        yield from _pairs(self, ("pads_begin", "pads_end"), 0)

    def infer(self, data: Spec, output_size: Spec, kernel_size: Spec) -> Spec:
        want_type(data, "number", 0, "data")
        want_rank(data.shape, 2, 3, 0, "data")
        size = self._two(output_size, 1, "output_size")
        kernel = self._two(kernel_size, 2, "kernel_size")
        if data.shape is None:
            return Spec(data.dtype, None)
        *batch, rows, columns = data.shape
        sizes, exact_kernel = exact(size), exact(kernel)
        channels: Dim = Interval(0, bounds(rows)[1])
        if exact_kernel is not None:
            channels = divided(rows, math.prod(exact_kernel), "the axis of columns")
        if sizes is not None and exact_kernel is not None:
            windows = math.prod(self._windows(sizes, exact_kernel))
            if merge(columns, windows) is None:
                text = f"data has {columns} columns; the image has {windows} windows"
                raise OpError(text, code="E302", port=0)
        return Spec(data.dtype, (*batch, channels, *map(non_negative, size)))

    def _two(self, spec: Spec, port: int, name: str) -> Shape:
        want_rank(spec.shape, 1, 1, port, name)
        values = elements(spec, port, name)
        if values is None:
            return (DYNAMIC, DYNAMIC)
        if len(values) != 2:
            text = f"{name} has {len(values)} values; it must have 2"
            raise OpError(text, code="E302", port=port)
        for v in values:
            if isinstance(v, int) and v < 1:
                raise OpError(f"{name} has {v}; it must be positive", code="E305", port=port)
        return values

    def _windows(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """Return how many windows each axis has; E302 where not one fits."""
        out = []
        for axis, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
            pad = (self.pads_begin or ZERO)[axis], (self.pads_end or ZERO)[axis]
            reach = extent(k, (self.dilations or ONE)[axis])
            count = steps(size, reach, (self.strides or ONE)[axis], pad)
            if count < 1:
                text = f"no window of {reach} fits {size} with pads of {pad[0]} and {pad[1]}"
                raise OpError(text, code="E302", port=2)
            out.append(count)
        return out

    def evaluate(self, data: Array, output_size: Array, kernel_size: Array) -> Array:
        sizes, kernel = output_size.tolist(), kernel_size.tolist()
        windows = self._windows(sizes, kernel)
        batch, channels = data.shape[:-2], data.shape[-2] // math.prod(kernel)
        wide = widened(data)
        columns = wide.reshape(*batch, channels, *kernel, *windows)
        stride, dilation = self.strides or ONE, self.dilations or ONE
        begin, end = self.pads_begin or ZERO, self.pads_end or ZERO
        padded = [s + b + e for s, b, e in zip(sizes, begin, end, strict=True)]
        image = np.zeros((*batch, channels, *padded), wide.dtype)
        for at in np.ndindex(*kernel):
            first = [a * d for a, d in zip(at, dilation, strict=True)]
            place = zip(first, windows, stride, strict=True)
            part = tuple(slice(f, f + (n - 1) * s + 1, s) for f, n, s in place)
            where: Any = (..., *part)
            source: Any = (..., *at, slice(None), slice(None))
            image[where] += columns[source]
        inside: Any = (..., *(slice(b, b + s) for b, s in zip(begin, sizes, strict=True)))
        return np.ascontiguousarray(image[inside]).astype(data.dtype, copy=False)


def _inside(first: int, count: int, stride: int, size: int) -> tuple[slice, slice]:
    """Return which of the `count` places first, first + stride, ... are in an axis, and where."""
    low = min(max(-(first // stride), 0), count)
    high = min(max(-((first - size) // stride), low), count)
    if low == high:
        return slice(0, 0), slice(0, 0)
    start = first + low * stride
    return slice(low, high), slice(start, start + (high - low - 1) * stride + 1, stride)


@op("ExtractImagePatches", since=3)
class ExtractImagePatches(Op):
    """Put windows into the channel axis: [N, C, H, W] -> [N, sizes * C, OH, OW].

    Channel (ky * sizes[1] + kx) * C + c has element (ky, kx) of the window in channel c; `rates`
    are dilations, same_upper and same_lower pad with 0. Any type.
    [movement/ExtractImagePatches-3]
    """

    rounding = MOVES
    sizes: Ints
    strides: Ints
    rates: Ints
    auto_pad: Literal["valid", "same_upper", "same_lower"] = attribute("valid", documented=True)

    def check(self) -> Iterator[Problem]:
        for name in ("sizes", "strides", "rates"):
            if not getattr(self, name):
                yield Problem("E210", f"{name} is empty; two numbers are needed", attribute=name)
        yield from _pairs(self, ("sizes", "strides", "rates"))

    def infer(self, image: Spec) -> Spec:
        want_rank(image.shape, 4, 4, 0, "image")
        shape = (DYNAMIC,) * 4 if image.shape is None else image.shape
        out: list[Dim] = []
        for size, k, stride, rate in zip(
            shape[2:], self.sizes, self.strides, self.rates, strict=True
        ):
            count = output_size(self.auto_pad, size, dilated(k, rate), stride, (0, 0))
            low, high = bounds(count)
            # An image without a window gives an empty output.
            low = 0 if isinstance(size, Interval) else max(low, 0)
            out.append(Interval.of(low, None if high is None else max(high, 0)))
        return Spec(image.dtype, (shape[0], shape[1] * math.prod(self.sizes), *out))

    def evaluate(self, image: Array) -> Array:
        n, c = image.shape[:2]
        spec: Any = self.infer(Spec.of(image, keep=False))
        target = tuple(int(d) for d in spec.shape)
        out = np.zeros((n, *self.sizes, c, *target[2:]), image.dtype)
        begin, _ = pads(
            self.auto_pad,
            image.shape[2:],
            self.sizes,
            self.strides,
            self.rates,
            (ZERO, ZERO),
        )
        if out.size:
            for at in np.ndindex(*self.sizes):
                first = [a * r - b for a, r, b in zip(at, self.rates, begin, strict=True)]
                axes = zip(first, target[2:], self.strides, image.shape[2:], strict=True)
                to, of = zip(*(_inside(*axis) for axis in axes), strict=True)
                out[(slice(None), *at, slice(None), *to)] = image[(slice(None),) * 2 + of]
        return out.reshape(target)
