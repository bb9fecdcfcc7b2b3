"""ROIPooling, PSROIPooling and DeformablePSROIPooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from irdeconv.attributes import Ints
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.detection import pooled_regions
from irdeconv.kernels.detection.pooled_regions import Groups
from irdeconv.limits import current, raise_hint
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import one_type, positive_number, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Shape, Spec, bounds, format_shape, merge

Pool = Callable[[int, Array, Array], Array]


class _RegionPooling(Op):
    """Base: data (N, C, H, W), regions (R, 5) of an image and four places."""

    spatial_scale: float

    def _check_scale(self) -> Iterator[Problem]:
        if not 0 < self.spatial_scale < math.inf:
            text = f"spatial_scale is {self.spatial_scale}; it must be positive"
            yield Problem("E210", text, attribute="spatial_scale")

    def _shapes(self, data: Spec, rois: Spec) -> tuple[Shape, Dim]:
        """Return the shape of the data and the number of regions; E301, E302, E303."""
        want_type(data, "real", 0, "data")
        want_type(rois, "real", 1, "rois")
        want_rank(data.shape, 4, 4, 0, "data")
        want_rank(rois.shape, 2, 2, 1, "rois")
        count, numbers = rois.shape or (DYNAMIC,) * 2
        if merge(numbers, 5) is None:
            text = f"a region has {numbers} numbers; it must have 5, the image first"
            raise OpError(text, code="E302", port=1)
        return data.shape or (DYNAMIC,) * 4, count

    def _each(self, data: Array, rois: Array, shape: tuple[int, ...], pool: Pool) -> Array:
        """Pool region by region, up to the first of image -1; the rest is 0."""
        wide, out = data.astype(np.float32), np.zeros((len(rois), *shape), np.float32)
        for i, (number, *places) in enumerate(rois.astype(np.float32)):
            if np.isfinite(number) and int(number) == -1:
                break
            if not np.isfinite((number, *places)).all():
                text = f"region {i} is {[float(v) for v in (number, *places)]}, which is not finite"
                raise OpError(text, code="E305", port=1)
            image = int(number)
            if not 0 <= image < len(data):
                text = f"region {i} is of image {image}; there are {len(data)} images"
                raise OpError(text, code="E305", port=1)
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
    spread from corner to corner, which are fractions of the feature map, whatever
    `spatial_scale`.  [detection/ROIPooling-1]
    """

    output_size: Ints = ()
    output_roi: Ints = ()
    pooled_h: int = 0
    pooled_w: int = 0
    spatial_scale: float = attribute(0.0, documented=True)
    method: Literal["max", "bilinear"] = "max"

    def check(self) -> Iterator[Problem]:
        yield from self._check_scale()
        for name in ("output_size", "output_roi"):
            values: Ints = getattr(self, name)
            if len(values) not in (0, 2):
                text = f"{name} has {len(values)} values; it must have 2"
                yield Problem("E210", text, attribute=name)
        for name, size in zip(("pooled_h", "pooled_w"), self.size(), strict=True):
            if size < 1:
                text = f"{name} is {size}; it must be positive"
                yield Problem("E210", text, attribute=name)

    def size(self) -> tuple[int, int]:
        """Return height and width of the result."""
        height, width = (*(self.output_roi or self.output_size), 0, 0)[:2]
        return self.pooled_h or height, self.pooled_w or width

    def infer(self, data: Spec, rois: Spec) -> Spec:
        shape, count = self._shapes(data, rois)
        dtype = one_type(data, rois, names=("data", "rois"))
        return Spec(dtype, (count, shape[1], *self.size()))

    def evaluate(self, data: Array, rois: Array) -> Array:
        bins = self.size()

        def pool(_: int, image: Array, region: Array) -> Array:
            if self.method == "max":
                return pooled_regions.maxima(image, region, self.spatial_scale, bins)
            y = pooled_regions.spread(region[1], region[3], bins[0], image.shape[1])
            x = pooled_regions.spread(region[0], region[2], bins[1], image.shape[2])
            return pooled_regions.at_points(image, y, x)

        return self._each(data, rois, (data.shape[1], *bins), pool)


class _Sensitive(_RegionPooling):
    """Base: each bin of a region reads channels of its own."""

    output_dim: int
    group_size: int
    spatial_bins_x: int
    spatial_bins_y: int

    def check(self) -> Iterator[Problem]:
        for name in ("output_dim", "group_size"):
            yield from positive_number(self, name)

    def _groups(self) -> Groups:
        bins = (self.spatial_bins_y, self.spatial_bins_x)
        return Groups(self.group_size, self.output_dim, bins, self.spatial_scale)

    def _pooled(self, data: Spec, rois: Spec, parts: int, *, exact: bool = True) -> Spec:
        """Infer from channels that are `output_dim` times `parts`, or more unless `exact`."""
        shape, count = self._shapes(data, rois)
        need = self.output_dim * parts
        top = bounds(shape[1])[1]
        if merge(shape[1], need) is None and (exact or (top is not None and top < need)):
            text = f"data has {shape[1]} channels; {self.output_dim} x {parts} = {need} are needed"
            raise OpError(text, code="E302", port=0)
        return Spec(data.dtype, (count, self.output_dim, self.group_size, self.group_size))


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

    mode: Literal["average", "bilinear"]
    output_dim: int = attribute(0, documented=True)
    group_size: int = attribute(0, documented=True)
    spatial_scale: float = attribute(0.0, documented=True)
    spatial_bins_x: int = 1
    spatial_bins_y: int = 1

    def check(self) -> Iterator[Problem]:
        yield from self._check_scale()
        yield from super().check()
        if self.mode == "bilinear":
            yield from positive_number(self, "spatial_bins_x")
            yield from positive_number(self, "spatial_bins_y")

    def infer(self, data: Spec, rois: Spec) -> Spec:
        bins = self.spatial_bins_x * self.spatial_bins_y
        return self._pooled(data, rois, self.group_size**2 if self.mode == "average" else bins)

    def evaluate(self, data: Array, rois: Array) -> Array:
        groups = self._groups()
        pool = groups.average if self.mode == "average" else groups.bilinear
        shape = (self.output_dim, self.group_size, self.group_size)
        return self._each(data, rois, shape, lambda _, image, region: pool(image, region))


@op("DeformablePSROIPooling")
class DeformablePSROIPooling(_Sensitive):
    """Pool regions with shifted bins, each from channels of its own: data (N, C, H, W), rois (R, 5)
    and shifts (R, 2K, part_size, part_size) -> (R, output_dim, group_size, group_size).

    A bin is the mean of `spatial_bins` samples that lie in the image, interpolated linearly. The
    shifts of the K classes, x then y, times `trans_std` are fractions of the region's sides; none
    without the third input. C = output_dim * group_size^2; a region of image -1 and all behind it
    are 0.  [detection/DeformablePSROIPooling-1]
    """

    output_dim: int = attribute(0, documented=True)
    spatial_scale: float = attribute(0.0, documented=True)
    group_size: int = 1
    mode: Literal["bilinear_deformable"] = "bilinear_deformable"
    spatial_bins_x: int = 1
    spatial_bins_y: int = 1
    trans_std: float = 1.0
    part_size: int = 1

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        for name in ("spatial_bins_x", "spatial_bins_y"):
            yield from positive_number(self, name)
            limit = current().samples
            if getattr(self, name) > limit:
                text = f"{name} is {getattr(self, name)}; the limit is {limit}"
                yield Problem("E210", text, attribute=name, hint=raise_hint("samples"))

    def infer(self, data: Spec, rois: Spec, offsets: Spec | None = None) -> Spec:
        out = self._pooled(data, rois, self.group_size**2, exact=False)
        if offsets is None:
            return out
        want_type(offsets, "real", 2, "offsets")
        want_rank(offsets.shape, 4, 4, 2, "offsets")
        shape = offsets.shape or (DYNAMIC,) * 4
        count = merge(shape[0], (rois.shape or (DYNAMIC,))[0])
        side = self.part_size
        if count is None or any(merge(d, side) is None for d in shape[2:]):
            text = f"offsets have shape {format_shape(shape)}; a region's are (2K, {side}, {side})"
            raise OpError(text, code="E302", port=2)
        channels = shape[1]
        if isinstance(channels, int) and (
            channels < 2 or channels % 2 or self.output_dim % (channels // 2)
        ):
            text = f"offsets have {channels} channels for {self.output_dim} outputs"
            hint = "two channels for each class, and classes divide output_dim"
            raise OpError(text, code="E302", port=2, hint=hint)
        return out

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
