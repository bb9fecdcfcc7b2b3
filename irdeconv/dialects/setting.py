"""One deconvolution apart from any system: attributes in common terms and sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.attributes import Ints
from irdeconv.dtypes import ElementType, i64
from irdeconv.geometry import filled
from irdeconv.spec import DYNAMIC, Dim, Shape, Spec, is_static

PADS = ("pads_begin", "pads_end", "output_padding")
PER_AXIS = ("strides", "dilations", *PADS)


@dataclass(frozen=True, kw_only=True)
class CommonTerms:
    """Attributes in common terms: lists over the spatial axes, `auto_pad` as OpenVINO spells it."""

    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output_padding: Ints = ()
    auto_pad: str = "explicit"
    output_shape: Shape | None = None

    @property
    def lists(self) -> dict[str, Ints]:
        """The lists over the spatial axes, by name."""
        return {name: getattr(self, name) for name in PER_AXIS}

    def filled(self, axes: int) -> CommonTerms:
        """Return the terms with a value on every axis where a list is absent."""
        lists: dict[str, Any] = {
            name: filled(values, axes, 0 if name in PADS else 1)
            for name, values in self.lists.items()
        }
        return replace(self, **lists)


@dataclass(frozen=True, kw_only=True)
class Setting(CommonTerms):
    """One layer: its terms and sizes.

    `size` and `kernel` are spatial. `groups` is 1 where it is unknown. `system` is the key of the
    system that the layer belongs to.
    """

    system: str
    size: Shape
    kernel: Shape
    groups: int = 1
    channels: Dim = DYNAMIC
    outputs: Dim = DYNAMIC
    dtype: ElementType | None = None

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    @property
    def extent(self) -> Shape:
        """DK on every axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def full(self) -> Shape:
        """FULL, the size of the uncropped scatter, on every axis."""
        rows = zip(self.size, self.strides, self.extent, strict=True)
        return tuple((i - 1) * s + dk for i, s, dk in rows)

    @property
    def same(self) -> bool:
        """Whether auto_pad is same_upper or same_lower."""
        return self.auto_pad.startswith("same")

    @property
    def explicit_pads(self) -> tuple[Ints, Ints]:
        """The pads; zeros where auto_pad takes their place."""
        zero = (0,) * self.axes
        return (self.pads_begin, self.pads_end) if self.auto_pad == "explicit" else (zero, zero)

    @property
    def short(self) -> list[int]:
        """The axes on which the dilated kernel is shorter than the stride."""
        rows = enumerate(zip(self.extent, self.strides, strict=True))
        return [axis for axis, (dk, s) in rows if isinstance(dk, int) and dk < s]

    def on_axis(self, axis: int, axes: int) -> Setting:
        """Return the setting in which all of `axes` axes are this one."""

        def only(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return (values[axis],) * axes

        lists: dict[str, Any] = {name: only(values) for name, values in self.lists.items()}
        return replace(
            self,
            **lists,
            size=only(self.size),
            kernel=only(self.kernel),
            output_shape=None if self.output_shape is None else only(self.output_shape),
        )

    # A layer with these sizes, for systems that are asked; one channel per group where unknown.

    @property
    def group_outputs(self) -> int:
        """M/g."""
        outputs = self.outputs if isinstance(self.outputs, int) else self.groups
        return max(outputs // self.groups, 1)

    def data_spec(self, *, channels_last: bool = False) -> Spec:
        """Return data (1, C, *I) or (1, *I, C)."""
        channels = self.channels if isinstance(self.channels, int) else self.groups
        shape = (1, *self.size, channels) if channels_last else (1, channels, *self.size)
        return Spec(self.dtype, shape)

    def filter_spec(self, *, grouped: bool = False) -> Spec:
        """Return a filter (C, M/g, *K) or (g, C/g, M/g, *K)."""
        channels = self.channels if isinstance(self.channels, int) else self.groups
        lead = (self.groups, channels // self.groups) if grouped else (channels,)
        return Spec(self.dtype, (*lead, self.group_outputs, *self.kernel))


def part(shape: Shape | None, start: int, count: int) -> Shape:
    """Return `count` dimensions from `start`, unknown ones where the rank is unknown or too low."""
    known = () if shape is None else shape[start : start + count]
    return known + (DYNAMIC,) * (count - len(known))


def shape_input(output_shape: Shape) -> Spec:
    """Return the spec of an output_shape input with these values."""
    value = np.empty(len(output_shape), object)
    value[:] = output_shape
    if is_static(output_shape):
        value = value.astype(np.int64)
    return Spec(i64, (len(output_shape),), value)


def shape_text(values: Shape) -> str:
    """Return `5,5`."""
    return ",".join(map(str, values))
