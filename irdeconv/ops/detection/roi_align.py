"""ROIAlign and ROIAlignRotated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from irdeconv.errors import OpError, Problem
from irdeconv.kernels.detection import regions
from irdeconv.kernels.detection.regions import SampledAxis, axis_of_samples
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import one_type, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Spec, merge

Pooling = Literal["avg", "max"]
Aligned = Literal["asymmetric", "half_pixel_for_nn", "half_pixel"]
# What is added to a place before the scale, and after it.
_SHIFTS = {"asymmetric": (0.0, 0.0), "half_pixel_for_nn": (0.0, -0.5), "half_pixel": (0.5, -0.5)}


class _Regions(Op):
    """Base: feature maps (N, C, H, W), regions (R, numbers), their images (R) -> (R, C, h, w)."""

    pooled_h: int
    pooled_w: int
    sampling_ratio: int
    spatial_scale: float
    numbers = 4

    def check(self) -> Iterator[Problem]:
        for name in ("pooled_h", "pooled_w", "sampling_ratio"):
            if getattr(self, name) < 0:
                text = f"{name} is {getattr(self, name)}; it must not be negative"
                yield Problem("E210", text, attribute=name)

    def infer(self, data: Spec, rois: Spec, batch_indices: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        dtype = one_type(data, rois, names=("data", "rois"))
        want_type(batch_indices, "integer", 2, "batch_indices")
        for port, (spec, rank) in enumerate(((data, 4), (rois, 2), (batch_indices, 1))):
            want_rank(spec.shape, rank, rank, port, ("data", "rois", "batch_indices")[port])
        r, b = rois.shape or (DYNAMIC,) * 2, batch_indices.shape or (DYNAMIC,)
        if merge(r[1], self.numbers) is None:
            text = f"a region has {r[1]} numbers; it must have {self.numbers}"
            raise OpError(text, code="E302", port=1)
        count = merge(r[0], b[0])
        if count is None:
            text = f"there are {r[0]} regions and {b[0]} batch_indices"
            raise OpError(text, code="E302", port=2)
        channels = DYNAMIC if data.shape is None else data.shape[1]
        return Spec(dtype, (count, channels, self.pooled_h, self.pooled_w))

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
                raise OpError(text, code="E305", port=2)
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
    """Return the samples along y and x of a region at (x, y); E305 where there are too many."""
    y = axis_of_samples(begin[1], extent[1], bins[0], ratio)
    x = axis_of_samples(begin[0], extent[0], bins[1], ratio)
    count = max(y.count, 1) * y.bins * max(x.count, 1) * x.bins
    if count > regions.REGION_SAMPLES:
        text = f"a region of {extent[0]} x {extent[1]} elements has {count} samples"
        raise OpError(text, code="E305", port=port, hint=f"the limit is {regions.REGION_SAMPLES}")
    return y, x


class _Straight(_Regions):
    """Base of the two versions of ROIAlign."""

    mode: Pooling
    aligned_mode: Aligned = "asymmetric"

    def _pool(self, image: Array, region: Array) -> Array:
        before, after = map(np.float32, _SHIFTS[self.aligned_mode])
        places = (region + before) * np.float32(self.spatial_scale) + after
        extent = places[2:] - places[:2]
        if self.aligned_mode == "asymmetric":
            extent = np.maximum(extent, np.float32(1))
        y, x = self._axes(places[:2], extent)
        return (regions.largest if self.mode == "max" else regions.average)(image, y, x)


@op("ROIAlign", since=3, until=8)
class ROIAlign3(_Straight):
    """Pool regions [left, top, right, bottom] at samples: data (N, C, H, W), rois (R, 4), images
    (R) -> (R, C, pooled_h, pooled_w).

    A bin has `sampling_ratio` squared samples, or for 0 one per element, interpolated linearly.
    Those more than an element outside are 0. The result is their mean; "max" is at least 0, as in
    the runtime. Regions from the first with the image -1 on are 0; the runtime leaves them
    unwritten. A side is at least 1 long.  [detection/ROIAlign-3]
    """

    pooled_h: int = attribute(0, documented=True)
    pooled_w: int = attribute(0, documented=True)
    sampling_ratio: int = attribute(0, documented=True)
    spatial_scale: float = attribute(0.0, documented=True)
    mode: Pooling = attribute("avg", documented=True)


@op("ROIAlign", since=9)
class ROIAlign(_Straight):
    """Pool regions at samples, as ROIAlign-3: data (N, C, H, W), rois (R, 4), images (R)
    -> (R, C, pooled_h, pooled_w).

    "half_pixel_for_nn" and "half_pixel" subtract half an element from the scaled places, the
    latter adds one before scaling; sides are then as long as they are.  [detection/ROIAlign-9]
    """

    pooled_h: int = attribute(0, documented=True)
    pooled_w: int = attribute(0, documented=True)
    sampling_ratio: int = attribute(0, documented=True)
    spatial_scale: float = attribute(0.0, documented=True)
    mode: Pooling = attribute("avg", documented=True)
    aligned_mode: Aligned = "asymmetric"


@op("ROIAlignRotated", since=15)
class ROIAlignRotated(_Regions):
    """Pool rotated regions [centre x, centre y, width, height, angle]: data (N, C, H, W), rois
    (R, 5), images (R) -> (R, C, pooled_h, pooled_w).

    The mean of samples as in ROIAlign, half an element before the scaled places; the angle in
    radians, anticlockwise unless `clockwise_mode`.  [detection/ROIAlignRotated-15]
    """

    pooled_h: int = attribute(0, documented=True)
    pooled_w: int = attribute(0, documented=True)
    sampling_ratio: int = attribute(0, documented=True)
    spatial_scale: float = attribute(0.0, documented=True)
    clockwise_mode: bool = False
    numbers = 5

    def _pool(self, image: Array, region: Array) -> Array:
        centre = region[:2] * np.float32(self.spatial_scale) - np.float32(0.5)
        extent = region[2:4] * np.float32(self.spatial_scale)
        angle = -region[4] if self.clockwise_mode else region[4]
        cos, sin = np.cos(angle), np.sin(angle)

        def turn(y: Array, x: Array) -> tuple[Array, Array]:
            return y * cos - x * sin + centre[1], y * sin + x * cos + centre[0]

        y, x = self._axes(-extent / 2, extent)
        return regions.average_at(image, y, x, turn)
