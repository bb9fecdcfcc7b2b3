"""Interpolate of operation sets 1, 4 and 11."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from irdeconv.attributes import Ints
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.interpolation import Interpolation, interpolate
from irdeconv.kernels.interpolation_weights import (
    Mode,
    NearestMode,
    Resize,
    Rules,
    Transformation,
)
from irdeconv.kernels.shared.zero_insertion import window
from irdeconv.op import Op, attribute, op
from irdeconv.ops.binding import is_computed, known, shape_of
from irdeconv.ops.checks import axes_of, exact, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, dims, ints
from irdeconv.traits import SCALE, Bound, Rounding

SCALE_SLACK = 1e-6  # added to scales before O = floor(I * scale), as the runtime does

Targets = Sequence[Dim] | None


def _padded(shape: Shape, begin: Ints, end: Ints) -> Shape:
    """Return the shape after padding; lists shorter than the rank are completed by zeros."""
    rank = len(shape)
    for name, pads in (("pads_begin", begin), ("pads_end", end)):
        if len(pads) > rank:
            raise OpError(
                f"{name} has {len(pads)} values for a tensor of rank {rank}",
                code="E304",
                attribute=name,
            )
    pairs = zip(shape, _complete(begin, rank), _complete(end, rank), strict=True)
    return tuple(d + b + e for d, b, e in pairs)


def _complete(pads: Ints, rank: int) -> Ints:
    return (*pads, *(0,) * (rank - len(pads)))


def _resized(padded: Shape, axes: Sequence[int], sizes: Targets, port: int) -> Shape:
    """Return `padded` with `sizes` along `axes`; E305 where they do not fit each other."""
    out = list(padded)
    for i, axis in enumerate(axes):
        out[axis] = DYNAMIC if sizes is None else sizes[i]
        if bounds(out[axis])[0] < 0:
            if isinstance(out[axis], int):
                message = f"axis {axis} would get size {out[axis]}"
                raise OpError(message, code="E305", port=port)
            out[axis] = DYNAMIC
    return tuple(out)


def _scaled(size: Dim, scale: float) -> Dim:
    factor = float(np.float32(scale)) + SCALE_SLACK
    low, high = bounds(size)
    top = None if high is None else math.floor(high * factor)
    return Interval.of(math.floor(low * factor), top)


def _want_vector(spec: Spec, name: str, count: int, port: int) -> None:
    """Require a vector of at least `count` elements; E301, E305."""
    want_rank(spec.shape, 1, 1, port, name)
    top = bounds(spec.shape[0])[1] if spec.shape else None
    if top is not None and top < count:
        raise OpError(
            f"{name} has {top} values for {count} axes",
            code="E305",
            port=port,
            hint="one value per interpolated axis",
        )


class Resizing(Op):
    """Base of all versions: pads of zeros, then a kernel that resizes axes."""

    mode: str
    pads_begin: Ints
    pads_end: Ints

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        """The rule by which `compare` judges it."""
        return SCALE if "cubic" in self.mode else Rounding("scale", carry="averages")

    def check(self) -> Iterator[Problem]:
        for name, pads in (("pads_begin", self.pads_begin), ("pads_end", self.pads_end)):
            for axis, p in enumerate(pads):
                if p < 0:
                    message = f"{name} must not be negative, but is {p} on axis {axis}"
                    yield Problem("E210", message, attribute=name)

    def padded(self, shape: Shape) -> Shape:
        """Return the shape after padding."""
        return _padded(shape, self.pads_begin, self.pads_end)

    def resizes(self, shape: Ints, *others: Array) -> tuple[list[Resize], Rules]:
        """Return what happens to each axis of an image of a shape, which is padded before."""
        raise NotImplementedError

    def evaluate(self, image: Array, *others: Array) -> Array:
        if self.mode == "area":
            raise OpError("the mode area cannot be executed", code="E502", attribute="mode")
        low = [-p for p in _complete(self.pads_begin, image.ndim)]
        sizes = exact(self.padded(image.shape)) or ()
        return interpolate(window(image, low, sizes), *self.resizes(image.shape, *others))

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        image, others = inputs[0], known(inputs[1:])
        if self.mode == "area" or (self.mode != "nearest" and not is_computed(image)):
            return None
        if others is None or image.dtype is None or any((*self.pads_begin, *self.pads_end)):
            return None
        shape = shape_of(image)
        resize = Interpolation(shape, image.dtype.container, *self.resizes(shape, *others))
        return Bound(resize)


@dataclass(frozen=True)
class InterpolateBase(Resizing):
    """What Interpolate-4 and -11 share."""

    mode: Mode = attribute("nearest", documented=True)
    shape_calculation_mode: Literal["sizes", "scales"] = attribute("sizes", documented=True)
    coordinate_transformation_mode: Transformation = "half_pixel"
    nearest_mode: NearestMode = "round_prefer_floor"
    antialias: bool = False
    pads_begin: Ints = (0,)
    pads_end: Ints = (0,)
    cube_coeff: float = -0.75

    def target(self, others: Sequence[Array]) -> tuple[Array, Array | None]:
        """Return sizes or scales, and the axes where they are given, of the inputs behind."""
        return others[0], others[1] if len(others) > 1 else None

    def spec_of(self, image: Spec, target: Spec, axes: Spec | None, ports: tuple[int, int]) -> Spec:
        """Return the output's spec; `ports` are those of `target` and `axes`."""
        want_type(image, "number", 0, "image")
        scales = self.shape_calculation_mode == "scales"
        name = "scales" if scales else "sizes"
        want_type(target, "real" if scales else "integer", ports[0], name)
        if image.shape is None:
            return Spec(image.dtype, None)
        rank = len(image.shape)
        padded = self.padded(image.shape)
        chosen = self._axes(axes, rank, ports[1])
        if chosen is None:
            return Spec(image.dtype, (DYNAMIC,) * rank)
        _want_vector(target, name, len(chosen), ports[0])
        wanted = self._sizes(padded, chosen, target) if scales else dims(target)
        return Spec(image.dtype, _resized(padded, chosen, wanted, ports[0]))

    def _axes(self, axes: Spec | None, rank: int, port: int) -> Ints | None:
        if axes is None:
            return tuple(range(rank))
        want_type(axes, "integer", port, "axes")
        want_rank(axes.shape, 0, 1, port, "axes")
        found = ints(axes)
        return None if found is None else axes_of(found, rank, port)

    def _sizes(self, padded: Shape, axes: Ints, scales: Spec) -> Targets:
        known = scales.known
        if known is None:
            return None
        factors = [float(f) for f in known.reshape(-1)]
        for f in factors:
            if not 0 < f < math.inf:
                raise OpError(f"a scale is {f:g}; scales must be positive", code="E305", port=1)
        return [_scaled(padded[a], f) for a, f in zip(axes, factors, strict=False)]

    def resizes(self, shape: Ints, *others: Array) -> tuple[list[Resize], Rules]:
        target, axes = self.target(others)
        given = None if axes is None else Spec.of(axes)
        resized = shape_of(self.spec_of(Spec(None, shape), Spec.of(target), given, (1, 2)))
        padded = exact(self.padded(shape)) or ()
        scales = self.shape_calculation_mode == "scales"
        out = []
        for i, a in enumerate(self._axes(given, len(shape), 2) or ()):
            scale = float(target.reshape(-1)[i]) if scales else resized[a] / max(padded[a], 1)
            out.append(Resize(a, resized[a], scale))
        return out, Rules(
            self.mode,
            self.coordinate_transformation_mode,
            self.nearest_mode,
            self.antialias,
            self.cube_coeff,
        )

    def remarks(self, *inputs: Any) -> Iterator[Problem]:
        if self.mode == "linear" and self.antialias:
            yield Problem(
                "W303",
                "OpenVINO's CPU plugin ignores antialias in linear mode; irdeconv does not",
                attribute="antialias",
            )
        if self.mode == "bicubic_pillow" and self.cube_coeff != -0.5:
            yield Problem(
                "W303",
                f"OpenVINO's CPU plugin takes -0.5 for the cube_coeff {self.cube_coeff:g} in "
                "bicubic_pillow mode",
                attribute="cube_coeff",
            )


@op("Interpolate", since=11)
class Interpolate11(InterpolateBase):
    """Resize axes: image (any rank), sizes or scales (k,), optional axes (k,) -> same rank.

    Sizes are integers, scales floating-point: O = floor(padded I * scale). The image is padded by
    zeros first. Without axes all of them are resized.  [image/Interpolate-11]
    """

    def infer(self, image: Spec, scales_or_sizes: Spec, axes: Spec | None = None) -> Spec:
        return self.spec_of(image, scales_or_sizes, axes, (1, 2))


@op("Interpolate", since=4, until=10)
class Interpolate4(InterpolateBase):
    """Resize axes: image, output_shape (k,), scales (k,), optional axes (k,) -> same rank.

    `shape_calculation_mode` says which of output_shape and scales counts. Otherwise as
    Interpolate-11, without the Pillow modes.  [image/Interpolate-4]
    """

    mode: Literal["nearest", "linear", "linear_onnx", "cubic"] = attribute(
        "nearest", documented=True
    )

    def infer(
        self, image: Spec, output_shape: Spec, scales: Spec, axes: Spec | None = None
    ) -> Spec:
        if self.shape_calculation_mode == "scales":
            return self.spec_of(image, scales, axes, (2, 3))
        return self.spec_of(image, output_shape, axes, (1, 3))

    def target(self, others: Sequence[Array]) -> tuple[Array, Array | None]:
        output_shape, scales, *axes = others
        target = scales if self.shape_calculation_mode == "scales" else output_shape
        return target, axes[0] if axes else None


@op("Interpolate", until=3)
class Interpolate1(Resizing):
    """Resize the axes of the attribute `axes`: image, output_shape (k,) -> same rank.

    The sizes are those of the axes in ascending order. Positions map by corners; without
    align_corners by x / scale, but linear without pads by half pixels, except for the axes 2 and 3
    of four: so does the runtime, the document does not say. nearest truncates when it enlarges and
    rounds up when it shrinks. `area` is not executed.  [image/Interpolate-1]
    """

    axes: Ints
    mode: Literal["nearest", "linear", "cubic", "area"]
    align_corners: bool = True
    antialias: bool = False
    pads_begin: Ints = (0,)
    pads_end: Ints = (0,)

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        if any(a < 0 for a in self.axes) or len(set(self.axes)) != len(self.axes):
            message = f"axes are {list(self.axes)}; each is named once, counted from 0"
            yield Problem("E210", message, attribute="axes")

    def infer(self, image: Spec, output_shape: Spec) -> Spec:
        want_type(image, "number", 0, "image")
        want_type(output_shape, "integer", 1, "output_shape")
        if image.shape is None:
            return Spec(image.dtype, None)
        rank = len(image.shape)
        if any(a >= rank for a in self.axes):
            raise OpError(
                f"axes {list(self.axes)} exceed the image's rank {rank}",
                code="E304",
                attribute="axes",
            )
        padded = self.padded(image.shape)
        _want_vector(output_shape, "output_shape", len(self.axes), 1)
        return Spec(image.dtype, _resized(padded, sorted(self.axes), dims(output_shape), 1))

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
