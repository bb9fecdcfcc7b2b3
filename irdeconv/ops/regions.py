"""Pooled regions (ROIAlign, ROIPooling and variants), RegionYolo and ReorgYolo."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from irdeconv.base.errors import Problem, attribute_problem, size_error, value_error
from irdeconv.base.limits import current, raise_hint
from irdeconv.ir.attributes import Floats, Ints, Natural, Positive, PositiveScale, ValueRange
from irdeconv.ir.op import MOVES, Op, attribute, op
from irdeconv.ir.ports import Fit, axis_of
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Shape, Spec, bounds, merge
from irdeconv.kernels import boxes
from irdeconv.kernels.boxes import Groups, SampledAxis, axis_of_samples

Aligned = Literal["asymmetric", "half_pixel_for_nn", "half_pixel"]
# The offsets of a coordinate before the scale, and after it.
_SHIFTS = {"asymmetric": (0.0, 0.0), "half_pixel_for_nn": (0.0, -0.5), "half_pixel": (0.5, -0.5)}


@dataclass(frozen=True)
class _Regions(Op):
    """Base: feature maps (N, C, H, W), regions (R, numbers), their images (R) -> (R, C, h, w)."""

    signature = (
        "data: real t [?, C, ?, ?]; rois: t [R, 4]; batch_indices: integer [R] "
        "-> t [R, C, pooled_h, pooled_w]"
    )
    pooled_h: Natural = attribute(0, documented=True)
    pooled_w: Natural = attribute(0, documented=True)
    sampling_ratio: Natural = attribute(0, documented=True)
    spatial_scale: float = attribute(0.0, documented=True)

    def evaluate(self, data: Array, rois: Array, batch_indices: Array) -> Array:
        wide = data.astype(np.float32)
        out = np.zeros((len(rois), data.shape[1], self.pooled_h, self.pooled_w), np.float32)
        for i, (region, image) in enumerate(
            zip(rois.astype(np.float32), batch_indices, strict=True)
        ):
            if image == -1:
                break
            if not 0 <= image < len(data):
                text = f"batch_indices has {image} at {i}; there are {len(data)} images"
                raise value_error(2, text)
            if out[i].size and wide[0, 0].size:
                out[i] = self._pool(wide[image], region)
        return out.astype(data.dtype)

    def _pool(self, image: Array, region: Array) -> Array:
        raise NotImplementedError

    def _axes(self, begin: Array, extent: Array) -> tuple[SampledAxis, SampledAxis]:
        """Return the samples along y and x of a region that begins at (x, y); E305."""
        bins = (self.pooled_h, self.pooled_w)
        return limited_axes(begin, extent, bins, self.sampling_ratio, port=1)


def limited_axes(
    begin: Array, extent: Array, bins: tuple[int, int], ratio: int, port: int = 0
) -> tuple[SampledAxis, SampledAxis]:
    """Return the samples along y and x of a region at (x, y); E305 if there are too many."""
    y = axis_of_samples(begin[1], extent[1], bins[0], ratio)
    x = axis_of_samples(begin[0], extent[0], bins[1], ratio)
    count = max(y.count, 1) * y.bins * max(x.count, 1) * x.bins
    if count > boxes.REGION_SAMPLES:
        text = f"a region of {extent[0]} x {extent[1]} elements has {count} samples"
        raise value_error(port, text, hint=f"the limit is {boxes.REGION_SAMPLES}")
    return y, x


@op("ROIAlign", since=3, until=8)
class ROIAlign3(_Regions):
    """Pool regions [left, top, right, bottom] at samples: data (N, C, H, W), rois (R, 4), images
    (R) -> (R, C, pooled_h, pooled_w).

    A bin has `sampling_ratio` squared samples, or for 0 one per element, interpolated linearly.
    Those more than an element outside are 0. The result is their mean; "max" is at least 0, as in
    the runtime. Regions from the first with the image -1 on are 0; the runtime leaves them
    unwritten. A side is at least 1 long.  [detection/ROIAlign-3]
    """

    aligned_mode = "asymmetric"
    mode: Literal["avg", "max"] = attribute("avg", documented=True)

    def _pool(self, image: Array, region: Array) -> Array:
        before, after = map(np.float32, _SHIFTS[self.aligned_mode])
        places = (region + before) * np.float32(self.spatial_scale) + after
        extent = places[2:] - places[:2]
        if self.aligned_mode == "asymmetric":
            extent = np.maximum(extent, np.float32(1))
        y, x = self._axes(places[:2], extent)
        return (boxes.largest if self.mode == "max" else boxes.average)(image, y, x)


@op("ROIAlign", since=9)
class ROIAlign(ROIAlign3):
    """Pool regions at samples, as ROIAlign-3: data (N, C, H, W), rois (R, 4), images (R)
    -> (R, C, pooled_h, pooled_w).

    "half_pixel_for_nn" and "half_pixel" subtract half an element from the scaled places, the
    latter adds one before scaling; sides are then as long as they are.  [detection/ROIAlign-9]
    """

    aligned_mode: Aligned = "asymmetric"


@op("ROIAlignRotated", since=15)
class ROIAlignRotated(_Regions):
    """Pool rotated regions [centre x, centre y, width, height, angle]: data (N, C, H, W), rois
    (R, 5), images (R) -> (R, C, pooled_h, pooled_w).

    The mean of samples as in ROIAlign, half an element before the scaled places; the angle in
    radians, anticlockwise unless `clockwise_mode`.  [detection/ROIAlignRotated-15]
    """

    signature = _Regions.signature.replace("[R, 4]", "[R, 5]")
    clockwise_mode: bool = False

    def _pool(self, image: Array, region: Array) -> Array:
        centre = region[:2] * np.float32(self.spatial_scale) - np.float32(0.5)
        extent = region[2:4] * np.float32(self.spatial_scale)
        angle = -region[4] if self.clockwise_mode else region[4]
        cos, sin = np.cos(angle), np.sin(angle)

        def turn(y: Array, x: Array) -> tuple[Array, Array]:
            return y * cos - x * sin + centre[1], y * sin + x * cos + centre[0]

        y, x = self._axes(-extent / 2, extent)
        return boxes.average_at(image, y, x, turn)


Pool = Callable[[int, Array, Array], Array]


class _RegionPooling(Op):
    """Base: data (N, C, H, W), regions (R, 5) of an image and four places."""

    spatial_scale: float

    def _each(self, data: Array, rois: Array, shape: tuple[int, ...], pool: Pool) -> Array:
        """Pool region by region, up to the first of image -1; the rest is 0."""
        wide, out = data.astype(np.float32), np.zeros((len(rois), *shape), np.float32)
        for i, (number, *places) in enumerate(rois.astype(np.float32)):
            if np.isfinite(number) and int(number) == -1:
                break
            if not np.isfinite((number, *places)).all():
                text = f"region {i} is {[float(v) for v in (number, *places)]}, which is not finite"
                raise value_error(1, text)
            image = int(number)
            if not 0 <= image < len(data):
                text = f"region {i} is of image {image}; there are {len(data)} images"
                raise value_error(1, text)
            if data[image].size:
                with np.errstate(all="ignore"):  # regions may have any numbers
                    out[i] = pool(i, wide[image], np.array(places))
        return out.astype(data.dtype)


@op("ROIPooling")
class ROIPooling(_RegionPooling):
    """Pool regions to one size: data (N, C, H, W), rois (R, 5) -> (R, C, pooled_h, pooled_w).

    OpenVINO writes the size as `output_size` and `output_roi` too; `pooled_h` and `pooled_w` count.
    A region is image, left, top, right, bottom; the first of image -1 and all behind it are 0.
    "max": bins of whole elements, both corners inside, scaled and rounded. "bilinear": points
    spread from corner to corner, which are fractions of the feature map, without
    `spatial_scale`.  [detection/ROIPooling-1]
    """

    signature = "data: real t [?, C, ?, ?]; rois: t [R, 5] -> t [R, C, *P]"
    output_size: Annotated[Ints, ValueRange(None, counts=(0, 2))] = ()
    output_roi: Annotated[Ints, ValueRange(None, counts=(0, 2))] = ()
    pooled_h: int = 0
    pooled_w: int = 0
    spatial_scale: PositiveScale = attribute(0.0, documented=True)
    method: Literal["max", "bilinear"] = attribute("max", exact=True)

    def check(self) -> Iterator[Problem]:
        for name, size in zip(("pooled_h", "pooled_w"), self.size(), strict=True):
            if size < 1:
                yield attribute_problem(name, f"{name} is {size}; it must be positive")

    def size(self) -> tuple[int, int]:
        """Return height and width of the result."""
        height, width = (*(self.output_roi or self.output_size), 0, 0)[:2]
        return self.pooled_h or height, self.pooled_w or width

    def complete(self, at: Fit, *inputs: Spec) -> None:
        at.groups["P"] = self.size()

    def evaluate(self, data: Array, rois: Array) -> Array:
        bins = self.size()

        def pool(_: int, image: Array, region: Array) -> Array:
            if self.method == "max":
                return boxes.maxima(image, region, self.spatial_scale, bins)
            y = boxes.spread(region[1], region[3], bins[0], image.shape[1])
            x = boxes.spread(region[0], region[2], bins[1], image.shape[2])
            return boxes.at_points(image, y, x)

        return self._each(data, rois, (data.shape[1], *bins), pool)


class _Sensitive(_RegionPooling):
    """Base: each bin of a region reads channels of its own."""

    signature = (
        "data: real t [?, C, ?, ?]; rois: real [R, 5] -> t [R, output_dim, group_size, group_size]"
    )
    output_dim: int
    group_size: int
    spatial_bins_x: int
    spatial_bins_y: int

    def _groups(self) -> Groups:
        bins = (self.spatial_bins_y, self.spatial_bins_x)
        return Groups(self.group_size, self.output_dim, bins, self.spatial_scale)

    def _check_channels(self, channels: Dim, parts: int, *, exact: bool) -> None:
        """Require channels that are `output_dim` times `parts`, or more unless `exact`; E302."""
        need = self.output_dim * parts
        top = bounds(channels)[1]
        if merge(channels, need) is None and (exact or (top is not None and top < need)):
            text = f"data has {channels} channels; {self.output_dim} x {parts} = {need} are needed"
            raise size_error(0, text)


@op("PSROIPooling")
class PSROIPooling(_Sensitive):
    """Pool regions, each bin from channels of its own: data (N, C, H, W), rois (R, 5)
    -> (R, output_dim, group_size, group_size).

    A region is image, left, top, right, bottom; the first of image -1 and all behind it are 0.
    "average": the mean of a bin's elements, C = output_dim * group_size^2, corners rounded before
    they are scaled. "bilinear": points of the region's spatial bins, whose corners are fractions
    of the feature map once scaled, C = output_dim * spatial_bins_x * spatial_bins_y; the mean over
    the bins.  [detection/PSROIPooling-1]
    """

    mode: Literal["average", "bilinear"] = attribute(exact=True)
    output_dim: Positive = attribute(0, documented=True)
    group_size: Positive = attribute(0, documented=True)
    spatial_scale: PositiveScale = attribute(0.0, documented=True)
    spatial_bins_x: int = 0
    spatial_bins_y: int = 0

    def check(self) -> Iterator[Problem]:
        for name in ("spatial_bins_x", "spatial_bins_y") if self.mode == "bilinear" else ():
            if getattr(self, name) < 1:
                text = f"{name} is {getattr(self, name)}; it must be positive"
                yield attribute_problem(name, text)

    def complete(self, at: Fit, *inputs: Spec) -> None:
        bins = self.spatial_bins_x * self.spatial_bins_y
        parts = self.group_size**2 if self.mode == "average" else bins
        self._check_channels(at["C"], parts, exact=True)

    def evaluate(self, data: Array, rois: Array) -> Array:
        groups = self._groups()
        pool = groups.average if self.mode == "average" else groups.bilinear
        shape = (self.output_dim, self.group_size, self.group_size)
        return self._each(data, rois, shape, lambda _, image, region: pool(image, region))


@op("DeformablePSROIPooling")
class DeformablePSROIPooling(_Sensitive):
    """Pool regions with shifted bins, each from channels of its own: data (N, C, H, W), rois (R, 5)
    and shifts (R, 2K, part_size, part_size) -> (R, output_dim, group_size, group_size).

    A bin is the mean of `spatial_bins` samples that are in the image, interpolated linearly. The
    shifts of the K classes, x then y, times `trans_std` are fractions of the region's sides; none
    without the third input. C = output_dim * group_size^2; a region of image -1 and all behind it
    are 0.  [detection/DeformablePSROIPooling-1]
    """

    signature = (
        "data: real t [?, C, ?, ?]; rois: real [R, 5]; "
        "offsets?: real [R, K, part_size, part_size] -> t [R, output_dim, group_size, group_size]"
    )
    output_dim: Positive = attribute(0, documented=True)
    spatial_scale: float = attribute(0.0, documented=True)
    group_size: Positive = 1
    mode: Literal["bilinear_deformable"] = "bilinear_deformable"
    spatial_bins_x: Positive = 1
    spatial_bins_y: Positive = 1
    trans_std: float = 1.0
    part_size: int = 1

    def check(self) -> Iterator[Problem]:
        for name in ("spatial_bins_x", "spatial_bins_y"):
            limit = current().samples
            if getattr(self, name) > limit:
                text = f"{name} is {getattr(self, name)}; the limit is {limit}"
                yield attribute_problem(name, text, hint=raise_hint("samples"))

    def complete(self, at: Fit, *inputs: Spec) -> None:
        self._check_channels(at["C"], self.group_size**2, exact=False)
        channels = at["K"]
        if isinstance(channels, int) and (
            channels < 2 or channels % 2 or self.output_dim % (channels // 2)
        ):
            text = f"offsets have {channels} channels for {self.output_dim} outputs"
            hint = "two channels for each class, and classes divide output_dim"
            raise size_error(2, text, hint=hint)

    def evaluate(self, data: Array, rois: Array, offsets: Array | None = None) -> Array:
        groups, side = self._groups(), self.group_size
        part = np.arange(side) * self.part_size // side

        def pool(i: int, image: Array, region: Array) -> Array:
            if offsets is None:
                return groups.deformed(image, region, None)
            own = offsets[i].astype(np.float32)[:, part][:, :, part]
            moves = own[: len(own) // 2 * 2].reshape(-1, 2, side, side).swapaxes(0, 1)
            each = np.repeat(moves, self.output_dim // moves.shape[1], 1)
            return groups.deformed(image, region, each * np.float32(self.trans_std))

        return self._each(data, rois, (self.output_dim, side, side), pool)


def _logistic(x: Array) -> None:
    """Replace x by 1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    x[:] = np.where(x > 0, 1 / (1 + small), small / (1 + small))


@op("RegionYolo")
class RegionYolo(Op):
    """YOLO's predictions as probabilities: data (N, regions * (coords + 1 + classes), H, W).

    The logistic function is applied to the first two channels of each region, its centre, and to
    its confidence behind `coords`. Without `do_softmax` (version 3) there are as many regions as
    `mask` has numbers, the classes are logistic too, and the shape stays. With it (version 2) there
    are `num` regions, softmax is applied to the classes, and the axes from `axis` to `end_axis`
    become one. Even if there are more channels, regions follow each other in memory, as in the
    runtime. `anchors` are not used.  [detection/RegionYolo-1]
    """

    signature = "data: real t [N, C, H, W] -> t [*Y]"
    axis: int = attribute(0, documented=True)
    coords: Natural = attribute(0, documented=True)
    classes: Natural = attribute(0, documented=True)
    end_axis: int = attribute(0, documented=True)
    num: Natural = attribute(0, documented=True)
    do_softmax: bool = attribute(False, documented=True)
    mask: Ints = ()
    anchors: Floats = ()

    def check(self) -> Iterator[Problem]:
        if self.coords + self.classes == 0:
            text = "coords and classes are 0; a region has two channels at least"
            yield attribute_problem("coords", text)

    def _channels(self) -> int:
        return self.coords + 1 + self.classes

    def _regions(self) -> int:
        return self.num if self.do_softmax else len(self.mask)

    def complete(self, at: Fit, data: Spec) -> None:
        shape = data.shape or (DYNAMIC,) * 4
        each, top = self._channels(), bounds(shape[1])[1]
        need = self._regions() * each
        if top is not None and top < need:
            text = f"data has {shape[1]} channels; {self._regions()} regions of {each} need {need}"
            raise size_error(0, text)
        at.groups["Y"] = self._flat(shape) if self.do_softmax else (shape[0], need, *shape[2:])

    def _flat(self, shape: Shape) -> Shape:
        begin = axis_of(self.axis, 4, attribute="axis")
        end = axis_of(self.end_axis, 4, attribute="end_axis")
        last = max(begin, end)
        return (*shape[:begin], math.prod(shape[begin : last + 1]), *shape[last + 1 :])

    def evaluate(self, data: Array) -> Array:
        images, _, height, width = data.shape
        count = self._regions()
        need = count * self._channels()
        used = images * need * height * width
        out = data.astype(np.float32).reshape(-1)
        raw = out[:used].copy().reshape(images, count, self._channels(), height, width)
        found = out[:used].reshape(raw.shape)
        _logistic(found[:, :, :2])
        behind = found[:, :, self.coords :]
        _logistic(behind[:, :, :1] if self.do_softmax else behind)
        if self.do_softmax and self.classes:
            classes = raw[:, :, self.coords + 1 :]
            powers = np.exp(classes - classes.max(2, keepdims=True))
            behind[:, :, 1:] = powers / powers.sum(2, keepdims=True)
        if self.do_softmax:
            return out.reshape(self._flat(data.shape)).astype(data.dtype)  # type: ignore[arg-type]
        return found.reshape(images, need, height, width).astype(data.dtype)


@op("ReorgYolo")
class ReorgYolo(Op):
    """Rearrange squares of `stride` into channels as darknet does: (N, C, H, W)
    -> (N, C * s^2, H / s, W / s).

    The elements are taken for (N, P, H * s, W * s), P = C / s^2 rounded down. Channel k of
    (N, C, H, W) is every s-th element of channel k mod P of those, from row and column of k / P on:
    the elements of the result, whose shape is another.  [detection/ReorgYolo-1]
    """

    rounding = MOVES
    signature = "data: any t [N, C, H, W] -> t [N, C*side*side, Y, X]"
    stride: Ints

    @property
    def side(self) -> int:
        """The stride along both axes."""
        return self.stride[0]

    def check(self) -> Iterator[Problem]:
        if not self.stride or self.stride[0] < 1:
            yield attribute_problem("stride", f"stride is {list(self.stride)}; it must be positive")

    def complete(self, at: Fit, *inputs: Spec) -> None:
        side, top = self.side, bounds(at["C"])[1]
        if top is not None and top < side**2:
            raise size_error(0, f"data has {at['C']} channels; a stride of {side} needs {side**2}")
        for axis, (size, part) in enumerate((("H", "Y"), ("W", "X")), 2):
            if isinstance(at[size], int) and at[size] % side:
                text = f"axis {axis} has size {at[size]}, which the stride {side} does not divide"
                raise size_error(0, text)
            at[part] = at[size] // side

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
