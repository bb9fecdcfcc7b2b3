"""RegionYolo and ReorgYolo."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irdeconv.attributes import Floats, Ints
from irdeconv.errors import OpError, Problem
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import axis_of, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds
from irdeconv.traits import MOVES


def _logistic(x: Array) -> None:
    """Replace x by 1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    x[:] = np.where(x > 0, 1 / (1 + small), small / (1 + small))


@op("RegionYolo")
class RegionYolo(Op):
    """What YOLO predicts, made probabilities: data (N, regions * (coords + 1 + classes), H, W).

    The logistic function goes over the first two channels of each region, its centre, and over
    its confidence behind `coords`. Without `do_softmax` (version 3) there are as many regions as
    `mask` has numbers, the classes are logistic too, and the shape stays. With it (version 2) there
    are `num` regions, softmax goes over the classes, and the axes from `axis` to `end_axis`
    become one. Where there are more channels, regions follow each other in memory all the same, as
    in the runtime. `anchors` are not used.  [detection/RegionYolo-1]
    """

    axis: int = attribute(0, documented=True)
    coords: int = attribute(0, documented=True)
    classes: int = attribute(0, documented=True)
    end_axis: int = attribute(0, documented=True)
    num: int = attribute(0, documented=True)
    do_softmax: bool = attribute(False, documented=True)
    mask: Ints = ()
    anchors: Floats = ()

    def check(self) -> Iterator[Problem]:
        for name in ("coords", "classes", "num"):
            if getattr(self, name) < 0:
                text = f"{name} is {getattr(self, name)}; it must not be negative"
                yield Problem("E210", text, attribute=name)
        if self.coords + self.classes == 0:
            text = "coords and classes are 0; a region has two channels at least"
            yield Problem("E210", text, attribute="coords")

    def _channels(self) -> int:
        return self.coords + 1 + self.classes

    def _regions(self) -> int:
        return self.num if self.do_softmax else len(self.mask)

    def infer(self, data: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        want_rank(data.shape, 4, 4, 0, "data")
        shape = data.shape or (DYNAMIC,) * 4
        each, top = self._channels(), bounds(shape[1])[1]
        need = self._regions() * each
        if top is not None and top < need:
            text = f"data has {shape[1]} channels; {self._regions()} regions of {each} need {need}"
            raise OpError(text, code="E302", port=0)
        flat = self._flat(shape) if self.do_softmax else (shape[0], need, *shape[2:])
        return Spec(data.dtype, flat)

    def _flat(self, shape: Shape) -> Shape:
        begin = axis_of(self.axis, 4, attribute="axis")
        end = axis_of(self.end_axis, 4, attribute="end_axis")
        joined: Dim = shape[begin]
        for size in shape[begin + 1 : end + 1]:
            joined = joined * size
        return (*shape[:begin], joined, *shape[max(begin, end) + 1 :])

    def evaluate(self, data: Array) -> Array:
        images, _, height, width = data.shape
        count = self._regions()
        need = count * self._channels()
        used = images * need * height * width
        out = data.astype(np.float32).reshape(-1)
        raw = out[:used].copy().reshape(images, count, self._channels(), height, width)
        regions = out[:used].reshape(raw.shape)
        _logistic(regions[:, :, :2])
        behind = regions[:, :, self.coords :]
        _logistic(behind[:, :, :1] if self.do_softmax else behind)
        if self.do_softmax and self.classes:
            classes = raw[:, :, self.coords + 1 :]
            powers = np.exp(classes - classes.max(2, keepdims=True))
            behind[:, :, 1:] = powers / powers.sum(2, keepdims=True)
        if self.do_softmax:
            return out.reshape(self._flat(data.shape)).astype(data.dtype)  # type: ignore[arg-type]
        return regions.reshape(images, need, height, width).astype(data.dtype)


@op("ReorgYolo")
class ReorgYolo(Op):
    """Rearrange squares of `stride` into channels as darknet does: (N, C, H, W)
    -> (N, C * s^2, H / s, W / s).

    The elements are taken for (N, P, H * s, W * s), P = C / s^2 rounded down. Channel k of
    (N, C, H, W) is every s-th element of channel k mod P of those, from row and column of k / P on:
    the elements of the result, whose shape is another.  [detection/ReorgYolo-1]
    """

    rounding = MOVES
    stride: Ints

    def check(self) -> Iterator[Problem]:
        if not self.stride or self.stride[0] < 1:
            text = f"stride is {list(self.stride)}; it must be positive"
            yield Problem("E210", text, attribute="stride")

    def infer(self, data: Spec) -> Spec:
        want_rank(data.shape, 4, 4, 0, "data")
        if data.shape is None:
            return Spec(data.dtype, (DYNAMIC,) * 4)
        side, (images, channels, *sizes) = self.stride[0], data.shape
        top = bounds(channels)[1]
        if top is not None and top < side**2:
            text = f"data has {channels} channels; a stride of {side} needs {side**2}"
            raise OpError(text, code="E302", port=0)
        for axis, size in enumerate(sizes, 2):
            if not isinstance(size, Interval) and size % side:
                text = f"axis {axis} has size {size}, which the stride {side} does not divide"
                raise OpError(text, code="E302", port=0)
        return Spec(data.dtype, (images, channels * side**2, *(d // side for d in sizes)))

    def evaluate(self, data: Array) -> Array:
        images, channels, height, width = data.shape
        side = self.stride[0]
        planes = channels // side**2
        group, plane = np.divmod(np.arange(channels), planes)
        down, across = np.divmod(group, side)
        rows = down[:, None] + side * np.arange(height)
        columns = across[:, None] + side * np.arange(width)
        first = np.arange(images)[:, None, None] * planes + plane[:, None]
        at = (first * height * side + rows)[..., None] * width * side + columns[:, None]
        out = np.take(data, at)
        return np.asarray(out.reshape(images, channels * side**2, height // side, width // side))
