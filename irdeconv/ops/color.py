"""NV12toRGB, NV12toBGR, I420toRGB and I420toBGR."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import u8
from irdeconv.ir.op import Op, op
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, merge
from irdeconv.kernels import regions
from irdeconv.ops.checks import one_type, want_rank


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
    """Base: one plane with everything, or a plane each (`channels` of them behind the first)."""

    channels: ClassVar[tuple[int, ...]]
    reverse: ClassVar[bool]
    names: ClassVar[tuple[str, ...]]

    def _infer(self, planes: tuple[Spec, ...]) -> Spec:
        dtype = one_type(*planes, names=self.names)
        if dtype is not None and not dtype.is_real and dtype != u8:
            text = f"the image is {dtype}; it must be u8 or a floating-point type"
            raise OpError(text, code="E303", port=0)
        shapes = [self._plane(s, port) for port, s in enumerate(planes)]
        batch, height, width = shapes[0]
        if len(planes) == 1:
            height = _image(height)
        for port, (images, rows, columns) in enumerate(shapes[1:], 1):
            both = merge(batch, images)
            if both is None:
                text = f"{self.names[port]} has {images} images, {self.names[0]} has {batch}"
                raise OpError(text, code="E302", port=port)
            batch = both
            height = _doubled(rows, height, port, 1)
            width = _doubled(columns, width, port, 2)
        _even(height, "height")
        _even(width, "width")
        return Spec(dtype, (batch, height, width, 3))

    def _plane(self, spec: Spec, port: int) -> Shape:
        """Return images, rows and columns; E301, E302."""
        want_rank(spec.shape, 4, 4, port, self.names[port])
        shape = spec.shape or (DYNAMIC,) * 4
        need = (1, *self.channels)[port]
        if merge(shape[3], need) is None:
            text = f"{self.names[port]} has {shape[3]} channels; it must have {need}"
            raise OpError(text, code="E302", port=port)
        return shape[:3]

    def split(self, small: Array) -> tuple[Array, Array]:
        """Return both differences (N, H / 2, W / 2) of the lower third of a plane (N, H / 2, W)."""
        raise NotImplementedError

    def _colours(self, planes: tuple[Array, ...]) -> Array:
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

    channels = (2,)
    names = ("arg", "arg_uv")

    def infer(self, arg: Spec, arg_uv: Spec | None = None) -> Spec:
        return self._infer((arg,) if arg_uv is None else (arg, arg_uv))

    def evaluate(self, arg: Array, arg_uv: Array | None = None) -> Array:
        return self._colours((arg,) if arg_uv is None else (arg, arg_uv))

    def split(self, small: Array) -> tuple[Array, Array]:
        return small[..., ::2], small[..., 1::2]


class _I420(_Colours):
    """Base: one difference behind the other."""

    channels = (1, 1)
    names = ("arg", "arg_u", "arg_v")

    def infer(self, arg: Spec, arg_u: Spec | None = None, arg_v: Spec | None = None) -> Spec:
        if arg_u is None or arg_v is None:
            if arg_u is not arg_v:
                raise OpError("there are 2 planes; 1 or 3 are needed", code="E208", port=1)
            return self._infer((arg,))
        return self._infer((arg, arg_u, arg_v))

    def evaluate(self, arg: Array, *others: Array) -> Array:
        return self._colours((arg, *others))

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
