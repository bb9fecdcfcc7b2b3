"""NV12toRGB, NV12toBGR, I420toRGB and I420toBGR."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import u8
from irdeconv.ir.op import Op, op
from irdeconv.ir.ports import Specs, fit
from irdeconv.ir.spec import Array, Dim, Interval, Spec, bounds, merge
from irdeconv.kernels import regions


def _even(size: Dim, what: str) -> None:
    if not isinstance(size, Interval) and size % 2:
        raise OpError(f"the image's {what} is {size}; it must be even", code="E302", port=0)


def _image(height: Dim) -> Dim:
    """Return the image's rows, two of three of the only plane's."""
    if not isinstance(height, Interval):
        if height % 3:
            text = f"the plane has {height} rows; it must have a multiple of 3"
            raise OpError(text, code="E302", port=0)
        return height // 3 * 2
    low, high = bounds(height)
    return Interval.of(low * 2 // 3, None if high is None else high * 2 // 3)


def _doubled(size: Dim, full: Dim, port: int, axis: int) -> Dim:
    """Return what is known of a size that is twice that of a smaller plane; E302."""
    both = merge(size * 2, full)
    if both is None:
        text = f"axis {axis} has {size} elements; it must have half of {full}"
        raise OpError(text, code="E302", port=port)
    return both


class _Colours(Op):
    """Base: one plane with everything, or a plane of luma and one or two of half its size."""

    reverse: ClassVar[bool]

    def infer(self, *planes: Spec) -> Specs:
        at = fit(self, *planes)
        dtype = at.types.get("t")
        if dtype is not None and not dtype.is_real and dtype != u8:
            text = f"the image is {dtype}; it must be u8 or a floating-point type"
            raise OpError(text, code="E303", port=0)
        if len(planes) == 1:
            at["H"] = _image(at["H"])
        else:
            at["H"] = _doubled(at["R"], at["H"], 1, 1)
            at["W"] = _doubled(at["S"], at["W"], 1, 2)
        _even(at["H"], "height")
        _even(at["W"], "width")
        return at.result()

    def split(self, small: Array) -> tuple[Array, Array]:
        """Return both differences (N, H / 2, W / 2) of the lower third of a plane (N, H / 2, W)."""
        raise NotImplementedError

    def evaluate(self, *planes: Array) -> Array:
        y = planes[0][..., 0]
        if len(planes) == 1:
            rows = y.shape[1] // 3 * 2
            y, small = y[:, :rows], y[:, rows:]
            u, v = self.split(small)
        elif len(planes) == 2:
            u, v = planes[1][..., 0], planes[1][..., 1]
        else:
            u, v = planes[1][..., 0], planes[2][..., 0]
        out = regions.to_rgb(*(p.astype(np.float32) for p in (y, u, v)))
        if planes[0].dtype == np.uint8:
            out = np.rint(out)
        return np.ascontiguousarray(out[..., ::-1] if self.reverse else out).astype(y.dtype)


class _NV12(_Colours):
    """Base: the differences of a pixel side by side, in rows as wide as the image."""

    signature = "arg: any t [N, H, W, 1]; arg_uv?: t [N, R, S, 2] -> t [N, H, W, 3]"

    def split(self, small: Array) -> tuple[Array, Array]:
        return small[..., ::2], small[..., 1::2]


class _I420(_Colours):
    """Base: one difference behind the other."""

    signature = (
        "arg: any t [N, H, W, 1]; arg_u?: t [N, R, S, 1]; arg_v?: t [N, R, S, 1] -> t [N, H, W, 3]"
    )

    def infer(self, *planes: Spec) -> Specs:
        if len(planes) == 2:
            raise OpError("there are 2 planes; 1 or 3 are needed", code="E208", port=1)
        return super().infer(*planes)

    def split(self, small: Array) -> tuple[Array, Array]:
        images, rows, columns = small.shape
        both = small.reshape(images, 2, rows, columns // 2)
        return both[:, 0], both[:, 1]


@op("NV12toRGB", since=8)
class NV12toRGB(_NV12):
    """Colours of luma and interleaved differences: (N, 3H/2, W, 1), or (N, H, W, 1) and
    (N, H/2, W/2, 2) -> (N, H, W, 3), red first.

    y = 1.164 (Y - 16), red = y + 1.596 (V - 128), green = y - 0.391 (U - 128) - 0.813 (V - 128),
    blue = y + 2.018 (U - 128), in 0 to 255; u8 is rounded.  [image/NV12toRGB-8]
    """

    reverse = False


@op("NV12toBGR", since=8)
class NV12toBGR(_NV12):
    """Colours of luma and interleaved differences, as NV12toRGB, blue first: (N, 3H/2, W, 1), or
    (N, H, W, 1) and (N, H/2, W/2, 2) -> (N, H, W, 3).  [image/NV12toBGR-8]
    """

    reverse = True


@op("I420toRGB", since=8)
class I420toRGB(_I420):
    """Colours of luma and two planes of differences, as NV12toRGB: (N, 3H/2, W, 1), or (N, H, W, 1)
    and twice (N, H/2, W/2, 1) -> (N, H, W, 3), red first.  [image/I420toRGB-8]
    """

    reverse = False


@op("I420toBGR", since=8)
class I420toBGR(_I420):
    """Colours of luma and two planes of differences, as NV12toRGB, blue first: (N, 3H/2, W, 1), or
    (N, H, W, 1) and twice (N, H/2, W/2, 1) -> (N, H, W, 3).  [image/I420toBGR-8]
    """

    reverse = True
