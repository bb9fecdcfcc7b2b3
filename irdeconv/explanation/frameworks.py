"""PyTorch and TensorFlow: no IR of theirs is read, only their rules are asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from irdeconv import geometry
from irdeconv.attributes import Ints
from irdeconv.dialects.base import check_output
from irdeconv.dialects.setting import Setting, shape_text
from irdeconv.dialects.system import PLAIN, Cannot, Crop, System
from irdeconv.errors import OpError
from irdeconv.geometry import IntVector, Vector, Window
from irdeconv.spec import DYNAMIC, Shape, is_static, non_negative


@dataclass(frozen=True)
class PyTorch(System):
    """torch.nn.ConvTranspose1d, 2d, 3d: one padding for both sides, no auto_pad.

    An output_shape is the argument `output_size`, which chooses output_padding.
    """

    symmetric: ClassVar[bool] = True

    def crop(self, s: Setting) -> Crop:
        """Return the window, or say which check of PyTorch fails."""
        padding, extra = self._attributes(s)
        for name, values in (("padding", padding), ("output_padding", extra)):
            if min(values) < 0:
                raise OpError(f"{name} {list(values)} is negative", code="E304")
        rows = zip(extra, s.strides, s.dilations, strict=True)
        for axis, (p, stride, dilation) in enumerate(rows):
            if p >= max(stride, dilation):
                raise OpError(
                    f"output_padding is {p} on spatial axis {axis}; it must be less than stride "
                    f"{stride} or dilation {dilation}",
                    code="E304",
                )
        _check_axes(s)
        crop = _crop(s, geometry.pytorch(IntVector(padding), IntVector(extra)))
        check_output(crop.size)
        return crop

    def _attributes(self, s: Setting) -> tuple[Ints, Ints]:
        if s.same:
            raise Cannot(f"there is no {s.auto_pad} for a transposed convolution")
        begin, end = s.explicit_pads
        if begin != end:
            differ = (
                f"pads {list(begin)} and {list(end)} differ; " if s.output_shape is None else ""
            )
            raise Cannot(f"{differ}padding is the same on both sides")
        return begin, s.output_padding if s.output_shape is None else self._extra(s, begin)

    def _extra(self, s: Setting, padding: Ints) -> Ints:
        """Return the output_padding that `output_size` chooses."""
        out = []
        for axis, (full, stride, p, size) in enumerate(
            zip(s.full, s.strides, padding, s.output_shape or (), strict=True)
        ):
            if not isinstance(full, int) or not isinstance(size, int):
                raise Cannot("output_padding depends on sizes that are not known")
            least = full - 2 * p
            if not least <= size < least + stride:
                raise OpError(
                    f"output_size is {size} on spatial axis {axis}; {least} to "
                    f"{least + stride - 1} are possible",
                    code="E306",
                )
            out.append(size - least)
        return tuple(out)

    def spell(self, s: Setting) -> dict[str, str]:
        """Return padding and output_padding, or output_size."""
        padding, extra = self._attributes(s)
        out = {"padding": shape_text(padding)}
        if s.output_shape is not None:
            return out | {"output_size": shape_text(s.output_shape)}
        return out | ({"output_padding": shape_text(extra)} if any(extra) else {})


@dataclass(frozen=True)
class TensorFlow(System):
    """conv1d_transpose, conv2d_transpose, conv3d_transpose with one of the two paddings.

    The output size is an argument of the functions; without one it is that of Keras, which refuses
    strides together with dilations.
    """

    padding: str

    def crop(self, s: Setting) -> Crop:
        """Return the window of this padding; pads and auto_pad of the layer do not take part."""
        if s.groups > 1:
            raise Cannot("there are no groups")
        _check_axes(s)
        full, size = _vector(s.full), self.size(s)
        if size is None or full is None:
            return self._open(s)
        for axis, (i, stride, dk, o) in enumerate(
            zip(s.size, s.strides, s.extent, size, strict=True)
        ):
            assert isinstance(i, int)
            assert isinstance(dk, int)
            allowed = geometry.tensorflow_sizes(self.padding, i, stride, dk)
            if o not in allowed:
                raise OpError(
                    f"a convolution over {o} elements on spatial axis {axis} does not give {i}; "
                    f"output_shape must be {allowed[0]} to {allowed[-1]}",
                    code="E306",
                )
        return _crop(s, geometry.tensorflow(self.padding, full, IntVector(size)))

    def size(self, s: Setting) -> Ints | None:
        """Return the output size: the one that is asked for, or the default."""
        if s.output_shape is not None:
            return s.output_shape if is_static(s.output_shape) else None
        size, extent = _vector(s.size), _vector(s.extent)
        if size is None or extent is None:
            return None
        strides = IntVector(s.strides)
        return _values(geometry.tensorflow_size(self.padding, size, strides, extent))

    def _open(self, s: Setting) -> Crop:
        """Return the window for unknown sizes: the default's pads do not depend on them."""
        extent = _vector(s.extent)
        if extent is None or s.output_shape is not None:
            begin = 0 if self.padding == "VALID" else DYNAMIC
            rest = (DYNAMIC,) * s.axes
            return Crop((begin,) * s.axes, rest, s.output_shape or rest)
        strides = IntVector(s.strides)
        one = geometry.tensorflow_size(self.padding, IntVector((1,) * s.axes), strides, extent)
        return _crop(s, geometry.tensorflow(self.padding, extent, one))

    def spell(self, s: Setting) -> dict[str, str]:
        """Return padding and output_shape."""
        out = {"padding": self.padding}
        return out if s.output_shape is None else out | {"output_shape": shape_text(s.output_shape)}

    def ways(self, s: Setting, wanted: Crop) -> Iterator[Setting]:
        """Yield the setting that asks for the wanted size."""
        if is_static(wanted.size):
            yield replace(s, output_shape=wanted.size)


_MODES = (PLAIN[0], ("explicit", True))
FRAMEWORKS = (
    PyTorch("pytorch", "PyTorch", _MODES),
    TensorFlow("tensorflow_same", "TensorFlow SAME", _MODES, "SAME"),
    TensorFlow("tensorflow_valid", "TensorFlow VALID", _MODES, "VALID"),
)


def _check_axes(s: Setting) -> None:
    if not 1 <= s.axes <= 3:
        raise OpError(f"{s.axes} spatial axes; 1 to 3 are possible", code="E301")


def _vector(values: Shape) -> IntVector | None:
    return IntVector(values) if is_static(values) else None


def _crop(s: Setting, window: Window) -> Crop:
    begin, end = _values(window.pads_begin), _values(window.pads_end)
    rows = zip(s.full, begin, end, strict=True)
    size = tuple(non_negative(f - b - e) for f, b, e in rows)
    return Crop(begin, end, size)


def _values(v: Vector) -> Ints:
    assert isinstance(v, IntVector)
    return v.values
