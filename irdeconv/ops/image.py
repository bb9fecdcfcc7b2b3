"""Interpolate, GridSample, windows of images as columns (Col2Im, ExtractImagePatches), colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from irdeconv.base import errors
from irdeconv.ir.attributes import Ints, NaturalInts, ValueRange
from irdeconv.ir.dtypes import u8
from irdeconv.ir.geometry import dilated, extent, output_size, pads, steps
from irdeconv.ir.op import MOVES, SCALE, SUM, Bound, Op, Rounding, attribute, op
from irdeconv.ir.ports import KINDS, Fit, exact
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    dims,
    ints,
    merge,
    non_negative,
)
from irdeconv.kernels import boxes, copies, interpolation
from irdeconv.kernels.candidate import reads
from irdeconv.kernels.elementwise import rounded
from irdeconv.kernels.interpolation import (
    Interpolation,
    Mode,
    NearestMode,
    Resize,
    Rules,
    Transformation,
    interpolate,
)
from irdeconv.ops.channels import divided
from irdeconv.ops.checks import (
    at_least,
    axes_of,
    inferred_shape,
    is_computed,
    known,
    shape_of,
    widened,
)

SCALE_SLACK = 1e-6  # added to scales before O = floor(I * scale), as the runtime does

Targets = Sequence[Dim] | None


def _resized(padded: Shape, axes: Sequence[int], sizes: Targets, port: int) -> Shape:
    """Return `padded` with `sizes` along `axes`; E305 if they do not fit each other."""
    out = list(padded)
    for i, axis in enumerate(axes):
        out[axis] = DYNAMIC if sizes is None else sizes[i]
        if bounds(out[axis])[0] < 0:
            if isinstance(out[axis], int):
                raise errors.value_error(port, f"axis {axis} would get size {out[axis]}")
            out[axis] = DYNAMIC
    return tuple(out)


def _scaled(size: Dim, scale: float) -> Dim:
    factor = float(np.float32(scale)) + SCALE_SLACK
    low, high = bounds(size)
    top = None if high is None else math.floor(high * factor)
    return Interval.of(math.floor(low * factor), top)


def _want_values(spec: Spec, name: str, count: int, port: int) -> None:
    """Require a vector of at least `count` elements; E305."""
    top = bounds(spec.shape[0])[1] if spec.shape else None
    if top is not None and top < count:
        text = f"{name} has {errors.values_of(top)} for {count} axes"
        raise errors.value_error(port, text, hint="one value per interpolated axis")


class Resizing(Op):
    """Base of all versions: pads of zeros, then a kernel that resizes axes."""

    mode: str
    pads_begin: Ints
    pads_end: Ints

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        return SCALE if "cubic" in self.mode else Rounding("scale", carry="averages")

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        at.groups["O"] = self.resized(shape, *others)

    def resized(self, shape: Shape, *others: Spec) -> Shape:
        """Return the output's shape for an image of a shape, which is padded before."""
        raise NotImplementedError

    def pads(self, rank: int) -> tuple[Ints, Ints]:
        """Return the pads of each axis; lists shorter than the rank are completed by zeros."""
        begin, end = ((*p, *(0,) * (rank - len(p))) for p in (self.pads_begin, self.pads_end))
        return begin, end

    def padded(self, shape: Shape) -> Shape:
        """Return the shape after padding."""
        rank = len(shape)
        begin, end = self.pads(rank)
        for name, amounts in (("pads_begin", begin), ("pads_end", end)):
            if len(amounts) > rank:
                text = f"{name} has {errors.values_of(len(amounts))} for a tensor of rank {rank}"
                raise errors.attribute_error(name, text)
        return tuple(d + b + e for d, b, e in zip(shape, begin, end, strict=True))

    def resizes(self, shape: Ints, *others: Array) -> tuple[list[Resize], Rules]:
        """Return the resizing of each axis of an image with this shape before padding."""
        raise NotImplementedError

    def evaluate(self, image: Array, *others: Array) -> Array:
        if self.mode == "area":
            raise errors.OpError("the mode area cannot be executed", code="E502", attribute="mode")
        resizes = self.resizes(image.shape, *others)
        begin, end = self.pads(image.ndim)
        if any((*begin, *end)):
            image = copies.padded(image, begin, end)
        return interpolate(image, *resizes)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        image, others = inputs[0], known(inputs[1:])
        if self.mode == "area" or (self.mode != "nearest" and not is_computed(image)):
            return None
        if others is None or image.dtype is None or any((*self.pads_begin, *self.pads_end)):
            return None
        shape = shape_of(image)
        return Bound(Interpolation(shape, image.dtype.container, *self.resizes(shape, *others)))


_IMAGES, _SIZES, _SCALES = "f32|f16|bf16|f64|i8|u8|i32|i64", "i32|i64|u32|u64", "f32|f16|bf16"


@op("Interpolate", since=11)
class Interpolate11(Resizing):
    """Resize axes: image (any rank), sizes or scales (k,), optional axes (k,) -> same rank.

    Sizes are integers, scales floating-point: O = floor(padded I * scale). The image is padded by
    zeros first. Without axes all of them are resized.  [image/Interpolate-11]
    """

    signature = f"image: {_IMAGES} t; scales_or_sizes: number [?]; axes?: {_SIZES} [?] -> t [*O]"
    mode: Mode = attribute("nearest", documented=True)
    shape_calculation_mode: Literal["sizes", "scales"] = attribute("sizes", documented=True)
    coordinate_transformation_mode: Transformation = "half_pixel"
    nearest_mode: NearestMode = "round_prefer_floor"
    antialias: bool = False
    pads_begin: NaturalInts = (0,)
    pads_end: NaturalInts = (0,)
    cube_coeff: float = -0.75

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        kind = _SCALES if self.by_scales else _SIZES
        return self.signature.replace("number [?]", f"{kind} [?]")

    @property
    def by_scales(self) -> bool:
        """Whether scales decide the sizes."""
        return self.shape_calculation_mode == "scales"

    def target(self, others: Sequence[Any]) -> tuple[Any, Any]:
        """Return sizes or scales, and the axes if they are given, from the inputs behind."""
        return others[0], others[1] if len(others) > 1 else None

    def resized(self, shape: Shape, *others: Spec) -> Shape:
        target, axes = self.target(others)
        port = 1 + [other is target for other in others].index(True)
        padded, chosen = self.padded(shape), self._axes(axes, len(shape), len(others))
        if chosen is None:
            return (DYNAMIC,) * len(shape)
        _want_values(target, self.shape_calculation_mode, len(chosen), port)
        wanted = self._sizes(padded, chosen, target) if self.by_scales else dims(target)
        return _resized(padded, chosen, wanted, port)

    def _axes(self, axes: Spec | None, rank: int, port: int) -> Ints | None:
        if axes is None:
            return tuple(range(rank))
        found = ints(axes)
        return None if found is None else axes_of(found, rank, port)

    def _sizes(self, padded: Shape, axes: Ints, scales: Spec) -> Targets:
        known = scales.known
        if known is None:
            return None
        factors = [float(f) for f in known.reshape(-1)]
        for f in factors:
            if not 0 < f < math.inf:
                raise errors.value_error(1, f"a scale is {f:g}; scales must be positive")
        return [_scaled(padded[a], f) for a, f in zip(axes, factors, strict=False)]

    def resizes(self, shape: Ints, *others: Array) -> tuple[list[Resize], Rules]:
        target, axes = self.target(others)
        given = None if axes is None else Spec.of(axes)
        resized = exact(self.resized(shape, *map(Spec.of, others))) or ()
        padded = exact(self.padded(shape)) or ()
        out = []
        for i, a in enumerate(self._axes(given, len(shape), 2) or ()):
            by = float(target.reshape(-1)[i]) if self.by_scales else resized[a] / max(padded[a], 1)
            out.append(Resize(a, resized[a], by))
        return out, Rules(
            self.mode,
            self.coordinate_transformation_mode,
            self.nearest_mode,
            self.antialias,
            self.cube_coeff,
        )

    def remarks(self, *inputs: Any) -> Iterator[errors.Problem]:
        if self.mode == "linear" and self.antialias:
            text = "OpenVINO's CPU plugin ignores antialias in linear mode; irdeconv does not"
            yield errors.Problem("W303", text, attribute="antialias")
        if self.mode == "bicubic_pillow" and self.cube_coeff != -0.5:
            text = f"OpenVINO's CPU plugin takes -0.5 for the cube_coeff {self.cube_coeff:g} in "
            text += "bicubic_pillow mode"
            yield errors.Problem("W303", text, attribute="cube_coeff")


@op("Interpolate", since=4, until=10)
class Interpolate4(Interpolate11):
    """Resize axes: image, output_shape (k,), scales (k,), optional axes (k,) -> same rank.

    `shape_calculation_mode` chooses output_shape or scales. Otherwise as Interpolate-11, without
    the Pillow modes.  [image/Interpolate-4]
    """

    signature = (
        f"image: {_IMAGES} t; output_shape: {_SIZES}; scales: {_SCALES}; axes?: {_SIZES} [?] "
        "-> t [*O]"
    )
    mode: Literal["nearest", "linear", "linear_onnx", "cubic"] = attribute(
        "nearest", documented=True
    )

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        used = f"scales: {_SCALES}" if self.by_scales else f"output_shape: {_SIZES}"
        return self.signature.replace(used, f"{used} [?]")

    def complete(self, at: Fit, *inputs: Spec) -> None:
        for axis in exact(at.values("axes")) or ():
            if axis < 0:
                raise errors.value_error(3, f"axis {axis} is negative")
        super().complete(at, *inputs)

    def target(self, others: Sequence[Any]) -> tuple[Any, Any]:
        output_shape, scales, *axes = others
        return scales if self.by_scales else output_shape, axes[0] if axes else None


@op("Interpolate", until=3)
class Interpolate1(Resizing):
    """Resize the axes of the attribute `axes`: image, output_shape (k,) -> same rank.

    The sizes are those of the axes in ascending order. Positions map by corners; without
    align_corners by x / scale, but linear without pads by half pixels, except for the axes 2 and 3
    of four, as in the runtime; the document has no rule. nearest truncates when it enlarges and
    rounds up when it shrinks. `area` is not executed.  [image/Interpolate-1]
    """

    signature = "image: number t; output_shape: integer [?] -> t [*O]"
    axes: Ints
    mode: Literal["nearest", "linear", "cubic", "area"]
    align_corners: bool = True
    antialias: bool = False
    pads_begin: NaturalInts = (0,)
    pads_end: NaturalInts = (0,)

    def check(self) -> Iterator[errors.Problem]:
        if any(a < 0 for a in self.axes) or len(set(self.axes)) != len(self.axes):
            message = f"axes are {list(self.axes)}; each is named once, counted from 0"
            yield errors.attribute_problem("axes", message)

    def resized(self, shape: Shape, *others: Spec) -> Shape:
        if any(a >= len(shape) for a in self.axes):
            text = f"axes {list(self.axes)} exceed the image's rank {len(shape)}"
            raise errors.attribute_error("axes", text)
        padded = self.padded(shape)
        _want_values(others[0], "output_shape", len(self.axes), 1)
        return _resized(padded, sorted(self.axes), dims(others[0]), 1)

    def _transformation(self, rank: int) -> Transformation:
        if self.align_corners:
            return "align_corners"
        padded = any(self.pads_begin) or any(self.pads_end)
        usual = rank == 4 and set(self.axes) == {2, 3}
        return "half_pixel" if self.mode == "linear" and not padded and not usual else "asymmetric"

    def resizes(self, shape: Ints, *others: Array) -> tuple[list[Resize], Rules]:
        padded = exact(self.padded(shape)) or ()
        pairs = zip(sorted(self.axes), others[0].reshape(-1).tolist(), strict=False)
        mode = "nearest" if self.mode == "area" else self.mode
        rules = Rules(mode, self._transformation(len(shape)), "simple", self.antialias)
        return [Resize(a, size, size / max(padded[a], 1)) for a, size in pairs], rules


WEIGHTS: dict[str, interpolation.NeighbourWeights | None] = {
    "nearest": None,
    "bilinear": interpolation.linear_weights,
    "bicubic": interpolation.cubic_weights,
}


@op("GridSample", since=9)
class GridSample(Op):
    """Read an image at given places: data (N, C, H, W), grid (N, P, Q, 2) -> (N, C, P, Q).

    The grid holds (x, y) from -1 to 1: with `align_corners` these are the centres of the outer
    elements, otherwise their edges. Outside are zeros, the border element or a reflection. Any
    numbers; the grid is real. Integers of 8 bits are rounded and saturate, wider ones are cut.
    [image/GridSample-9]
    """

    signature = "data: number t [N, C, ?, ?]; grid: real [N, P, Q, 2] -> t [N, C, P, Q]"
    align_corners: bool = False
    mode: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros"

    def evaluate(self, data: Array, grid: Array) -> Array:
        wide = np.result_type(data.dtype, np.float32) if data.dtype.kind not in "iu" else np.float64
        places = grid.astype(wide)
        height, width = data.shape[2:]
        shape = (*data.shape[:2], *grid.shape[1:3])
        if not height or not width:
            if self.padding_mode != "zeros" and 0 not in shape:
                text = f"the image has {height} x {width} elements; "
                text += f'padding_mode="{self.padding_mode}" needs one'
                raise errors.size_error(0, text)
            return np.zeros(shape, data.dtype)
        x = interpolation.source(places[..., 0], width, align_corners=self.align_corners)
        y = interpolation.source(places[..., 1], height, align_corners=self.align_corners)
        extend: dict[str, interpolation.Extend] = {
            "zeros": None,
            "border": interpolation.bordered,
            "reflection": partial(interpolation.reflected, align_corners=self.align_corners),
        }
        weights = WEIGHTS[self.mode]
        read = interpolation.sample(data.astype(wide), y, x, weights, extend[self.padding_mode])
        eight_bits = data.dtype in (np.int8, np.uint8)
        return rounded(read, data.dtype) if eight_bits else np.asarray(read.astype(data.dtype))


ONE, ZERO = (1, 1), (0, 0)


@op("Col2Im", since=15)
class Col2Im(Op):
    """Add up columns at the windows that they came from: [N, C * K, L] -> [N, C, *output_size].

    output_size, kernel_size: two integers each, inputs; K = the kernel's elements, L = the number
    of windows of the padded image. The batch axis may be absent. Numbers.  [movement/Col2Im-15]
    """

    rounding = SUM
    signature = (
        "data: number t [*N:1, R, L]; output_size: i32|i64 i [2]; kernel_size: i [2] -> t [*O]"
    )
    # Written always: OpenVINO reads beyond a list that is absent.
    strides: Annotated[Ints, ValueRange(1, counts=(0, 2))] = ONE
    dilations: Annotated[Ints, ValueRange(1, counts=(0, 2))] = ONE
    pads_begin: Annotated[Ints, ValueRange(0, counts=(0, 2))] = ZERO
    pads_end: Annotated[Ints, ValueRange(0, counts=(0, 2))] = ZERO

    def complete(self, at: Fit, data: Spec, *others: Spec) -> None:
        size, kernel = _two(at, "output_size", 1), _two(at, "kernel_size", 2)
        if data.shape is None:
            return
        *batch, rows, columns = data.shape
        sizes, exact_kernel = exact(size), exact(kernel)
        channels: Dim = Interval(0, bounds(rows)[1])
        if exact_kernel is not None:
            channels = divided(rows, math.prod(exact_kernel), "the axis of columns")
        if sizes is not None and exact_kernel is not None:
            windows = math.prod(self._windows(sizes, exact_kernel))
            if merge(columns, windows) is None:
                raise errors.size_error(
                    0, f"data has {columns} columns; the image has {windows} windows"
                )
        at.groups["O"] = (*batch, channels, *map(non_negative, size))

    def _windows(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """Return the number of windows on each axis; E302 if none fits."""
        out = []
        for axis, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
            pad = (self.pads_begin or ZERO)[axis], (self.pads_end or ZERO)[axis]
            reach = extent(k, (self.dilations or ONE)[axis])
            count = steps(size, reach, (self.strides or ONE)[axis], pad)
            if count < 1:
                text = f"no window of {reach} fits {size} with pads of {pad[0]} and {pad[1]}"
                raise errors.size_error(2, text)
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
            target: Any = (..., *part)
            source: Any = (..., *at, slice(None), slice(None))
            image[target] += columns[source]
        inside: Any = (..., *(slice(b, b + s) for b, s in zip(begin, sizes, strict=True)))
        return np.ascontiguousarray(image[inside]).astype(data.dtype, copy=False)


def _two(at: Fit, name: str, port: int) -> Shape:
    """Return two sizes; exact ones must be positive; E305."""
    values = at.values(name) or (DYNAMIC, DYNAMIC)
    at_least(1, (v for v in values if isinstance(v, int)), port, name)
    return values


@op("ExtractImagePatches", since=3)
class ExtractImagePatches(Op):
    """Put windows into the channel axis: [N, C, H, W] -> [N, sizes * C, OH, OW].

    Channel (ky * sizes[1] + kx) * C + c has element (ky, kx) of the window in channel c; `rates`
    are dilations, same_upper and same_lower pad with 0. Any type.
    [movement/ExtractImagePatches-3]
    """

    rounding = MOVES
    signature = "image: any t [N, C, ?, ?] -> t [N, W, *O]"
    sizes: Annotated[Ints, ValueRange(1, counts=(2,))]
    strides: Annotated[Ints, ValueRange(1, counts=(2,))]
    rates: Annotated[Ints, ValueRange(1, counts=(2,))]
    auto_pad: Literal["valid", "same_upper", "same_lower"] = attribute("valid", required=True)

    def complete(self, at: Fit, image: Spec) -> None:
        spatial = (DYNAMIC,) * 2 if image.shape is None else image.shape[2:]
        out: list[Dim] = []
        for size, k, stride, rate in zip(
            spatial, self.sizes, self.strides, self.rates, strict=True
        ):
            low, high = bounds(output_size(self.auto_pad, size, dilated(k, rate), stride, (0, 0)))
            # An image without a window gives an empty output.
            low = 0 if isinstance(size, Interval) else max(low, 0)
            out.append(Interval.of(low, None if high is None else max(high, 0)))
        at["W"], at.groups["O"] = at["C"] * math.prod(self.sizes), tuple(out)

    def evaluate(self, image: Array) -> Array:
        n, c = image.shape[:2]
        target = inferred_shape(self, image)
        out = np.zeros((n, *self.sizes, c, *target[2:]), image.dtype)
        begin, _ = pads(
            self.auto_pad, image.shape[2:], self.sizes, self.strides, self.rates, (ZERO, ZERO)
        )
        if out.size:
            for at in np.ndindex(*self.sizes):
                first = [a * r - b for a, r, b in zip(at, self.rates, begin, strict=True)]
                axes = zip(image.shape[2:], self.strides, first, target[2:], strict=True)
                to, of = zip(*(reads(*axis) for axis in axes), strict=True)
                out[(slice(None), *at, slice(None), *to)] = image[(slice(None),) * 2 + of]
        return out.reshape(target)


def _even(size: Dim, what: str) -> None:
    if not isinstance(size, Interval) and size % 2:
        raise errors.size_error(0, f"the image's {what} is {size}; it must be even")


def _image(height: Dim) -> Dim:
    """Return the image's rows, two of three of the only plane's."""
    if not isinstance(height, Interval):
        if height % 3:
            raise errors.size_error(0, f"the plane has {height} rows; it must have a multiple of 3")
        return height // 3 * 2
    low, high = bounds(height)
    return Interval.of(low * 2 // 3, None if high is None else high * 2 // 3)


def _doubled(size: Dim, full: Dim, port: int, axis: int) -> Dim:
    """Merge a size with twice that of a smaller plane; E302."""
    both = merge(size * 2, full)
    if both is None:
        raise errors.size_error(
            port, f"axis {axis} has {size} elements; it must have half of {full}"
        )
    return both


class _Colours(Op):
    """Base: one plane with everything, or a plane of luma and one or two of half its size."""

    def complete(self, at: Fit, *planes: Spec) -> None:
        dtype = at.types.get("t")
        if dtype is not None and dtype != u8 and not KINDS["real"][1](dtype):
            text = f"the image is {dtype}; it must be u8 or a floating-point type"
            raise errors.OpError(text, code="E303", port=0)
        if len(planes) == 1:
            at["H"] = _image(at["H"])
        else:
            at["H"] = _doubled(at["R"], at["H"], 1, 1)
            at["W"] = _doubled(at["S"], at["W"], 1, 2)
        _even(at["H"], "height")
        _even(at["W"], "width")

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
        out = boxes.to_rgb(*(p.astype(np.float32) for p in (y, u, v)))
        if planes[0].dtype == np.uint8:
            out = np.rint(out)
        out = out[..., ::-1] if self.type.endswith("toBGR") else out
        return np.ascontiguousarray(out).astype(y.dtype)


@op("NV12toRGB", since=8)
class NV12toRGB(_Colours):
    """Colours of luma and interleaved differences: (N, 3H/2, W, 1), or (N, H, W, 1) and
    (N, H/2, W/2, 2) -> (N, H, W, 3), red first.

    y = 1.164 (Y - 16), red = y + 1.596 (V - 128), green = y - 0.391 (U - 128) - 0.813 (V - 128),
    blue = y + 2.018 (U - 128), in 0 to 255; u8 is rounded.  [image/NV12toRGB-8]
    """

    signature = "arg: any t [N, H, W, 1]; arg_uv?: t [N, R, S, 2] -> t [N, H, W, 3]"

    def split(self, small: Array) -> tuple[Array, Array]:
        return small[..., ::2], small[..., 1::2]


@op("I420toRGB", since=8)
class I420toRGB(_Colours):
    """Colours of luma and two planes of differences, as NV12toRGB: (N, 3H/2, W, 1), or (N, H, W, 1)
    and twice (N, H/2, W/2, 1) -> (N, H, W, 3), red first.  [image/I420toRGB-8]
    """

    signature = (
        "arg: any t [N, H, W, 1]; arg_u?: t [N, R, S, 1]; arg_v?: t [N, R, S, 1] -> t [N, H, W, 3]"
    )

    def complete(self, at: Fit, *planes: Spec) -> None:
        if len(planes) == 2:
            raise errors.OpError("there are 2 planes; 1 or 3 are needed", code="E208", port=1)
        super().complete(at, *planes)

    def split(self, small: Array) -> tuple[Array, Array]:
        images, rows, columns = small.shape
        both = small.reshape(images, 2, rows, columns // 2)
        return both[:, 0], both[:, 1]


@op("NV12toBGR", since=8)
class NV12toBGR(NV12toRGB):
    """Colours of luma and interleaved differences, as NV12toRGB, blue first: (N, 3H/2, W, 1), or
    (N, H, W, 1) and (N, H/2, W/2, 2) -> (N, H, W, 3).  [image/NV12toBGR-8]
    """


@op("I420toBGR", since=8)
class I420toBGR(I420toRGB):
    """Colours of luma and two planes of differences, as NV12toRGB, blue first: (N, 3H/2, W, 1), or
    (N, H, W, 1) and twice (N, H/2, W/2, 1) -> (N, H, W, 3).  [image/I420toBGR-8]
    """
