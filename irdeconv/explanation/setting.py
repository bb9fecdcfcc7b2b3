"""One deconvolution apart from any system: sizes, lists on every axis, pads as they were given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.attributes import Ints
from irdeconv.dialects.onednn import OneDnnConvTranspose
from irdeconv.dialects.onnx import ConvTranspose
from irdeconv.dialects.openvino import BackpropData
from irdeconv.dialects.tensorrt import TensorRtDeconvolution
from irdeconv.dtypes import ElementType, i64
from irdeconv.geometry import filled
from irdeconv.ops import core
from irdeconv.spec import DYNAMIC, Dim, Shape, Spec, dims, ints

AUTO_PAD = {
    "none": "explicit",
    "NOTSET": "explicit",
    "SAME_UPPER": "same_upper",
    "SAME_LOWER": "same_lower",
    "VALID": "valid",
}


@dataclass(frozen=True)
class Setting:
    """Attributes and sizes in common terms; `auto_pad` as OpenVINO spells it.

    `size` and `kernel` are spatial. `groups` is 1 where it is unknown. `system` is the key of the
    system that the layer belongs to.
    """

    system: str
    size: Shape
    kernel: Shape
    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output_padding: Ints
    auto_pad: str = "explicit"
    output_shape: Shape | None = None
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
    def static(self) -> bool:
        """Whether all sizes are known."""
        return all(isinstance(d, int) for d in (*self.size, *self.kernel))

    def on_axis(self, axis: int, axes: int) -> Setting:
        """Return the setting in which all of `axes` axes are this one."""

        def only(values: Any) -> Any:
            return (values[axis],) * axes

        names = (
            "size", "kernel", "strides", "dilations", "pads_begin", "pads_end", "output_padding"
        )  # fmt: skip
        shape = None if self.output_shape is None else only(self.output_shape)
        changes = {name: only(getattr(self, name)) for name in names}
        return replace(self, output_shape=shape, **changes)


def setting(op: Any, inputs: tuple[Spec, ...]) -> Setting | None:
    """Return a deconvolution's setting; None where not even the number of axes is known.

    Ranks that do not fit are for inference to refuse; those that leave no axis have no setting.
    """
    if any(x.shape is not None and len(x.shape) < 3 for x in inputs[:2]):
        return None
    if isinstance(op, BackpropData):
        return _openvino(op, *inputs)
    if isinstance(op, OneDnnConvTranspose):
        return _onednn(op, *inputs[:2])
    if isinstance(op, ConvTranspose):
        return _onnx(op, *inputs[:2])
    if isinstance(op, TensorRtDeconvolution):
        return _tensorrt(op, *inputs[:2])
    return _canonical(op, *inputs) if isinstance(op, core.Deconvolution) else None


def system_of(op: Any) -> str:
    """Return the key of the system that a deconvolution belongs to."""
    if isinstance(op, BackpropData):
        return f"openvino_{op.semantics}"
    if isinstance(op, OneDnnConvTranspose):
        return "onednn" if op.semantics == "runtime" else "onednn_document"
    if isinstance(op, ConvTranspose):
        nhwc = op.channels_last
        if op.semantics == "runtime":
            return "nhwc" if nhwc else "onnxruntime"
        return "nhwc_document" if nhwc else "onnx_1" if op.mirrored_text else "onnx_11"
    return "tensorrt" if isinstance(op, TensorRtDeconvolution) else "canonical"


def _openvino(op: BackpropData, x: Spec, w: Spec, shape: Spec | None = None) -> Setting | None:
    axes = op.spatial_axes(x, w, shape)
    if axes is None:
        return None
    first = op.groups_axis
    parts = _part(w.shape, 0, first + 2)
    groups: Dim = parts[0] if first else 1
    return _made(
        op, axes, x.dtype, _part(x.shape, 1, axes + 1), _part(w.shape, first + 2, axes),
        groups if isinstance(groups, int) else 1, parts[first + 1] * groups,
        strides=op.strides, dilations=op.dilations, output_padding=op.output_padding,
        pads=(op.pads_begin, op.pads_end), auto_pad=op.auto_pad,
        output_shape=None if shape is None else dims(shape) or (DYNAMIC,) * axes,
    )  # fmt: skip


def _onednn(op: OneDnnConvTranspose, x: Spec, w: Spec) -> Setting | None:
    lists = (op.strides, op.pads_begin, op.pads_end, op.dilations, op.output_padding)
    axes = _axes(x, w, lists)
    if axes is None:
        return None
    data = _part(x.shape, 1, axes + 1)
    if op.data_format == "NXC":
        data = (data[-1], *data[:-1])
    filter = _part(w.shape, 0, axes + 2)
    at = 0 if op.layout.endswith("X") else axes
    outputs = filter[at + op.layout.replace("X", "").index("O")]
    kernel = filter[2:] if at == 0 else filter[:axes]
    return _made(
        op, axes, x.dtype, data, kernel, op.groups, outputs * op.groups,
        strides=op.strides, dilations=op.dilations, output_padding=op.output_padding,
        pads=(op.pads_begin, op.pads_end), auto_pad=AUTO_PAD.get(op.auto_pad, op.auto_pad),
    )  # fmt: skip


def _onnx(op: ConvTranspose, x: Spec, w: Spec) -> Setting | None:
    axes = op.axes(x, w)
    if axes is None:
        return None
    data = _part(x.shape, 1, axes + 1)
    if op.channels_last:
        data = (data[-1], *data[:-1])
    filter = _part(w.shape, 1, axes + 1)
    kernel = filter[1:] if w.shape is not None else op.kernel_shape or filter[1:]
    pads = filled(op.pads, 2 * axes, 0)
    return _made(
        op, axes, x.dtype, data, kernel, op.group, filter[0] * op.group,
        strides=op.strides, dilations=op.dilations, output_padding=op.output_padding,
        pads=(pads[:axes], pads[axes:]), auto_pad=AUTO_PAD[op.auto_pad],
        output_shape=op.output_shape[-axes:] if op.output_shape else None,
    )  # fmt: skip


def _tensorrt(op: TensorRtDeconvolution, x: Spec, w: Spec) -> Setting | None:
    axes = _axes(x, w, (op.kernel_size,))
    if axes is None:
        return None
    mode = op.mode if op.mode.startswith("SAME") else "NOTSET"
    return _made(
        op, axes, x.dtype, _part(x.shape, 1, axes + 1), op.kernel_size, op.num_groups,
        op.num_output_maps, strides=op.stride, dilations=op.dilation, output_padding=(),
        pads=op.pads(axes), auto_pad=AUTO_PAD[mode],
    )  # fmt: skip


def _canonical(op: core.Deconvolution, x: Spec, w: Spec, begin: Spec, end: Spec) -> Setting | None:
    axes, pads = len(op.strides), (ints(begin), ints(end))
    if pads[0] is None or pads[1] is None:
        return None
    filter = _part(w.shape, 0, axes + 3)
    groups = filter[0]
    return _made(
        op, axes, x.dtype, _part(x.shape, 1, axes + 1), filter[3:],
        groups if isinstance(groups, int) else 1, groups * filter[2],
        strides=op.strides, dilations=op.dilations, output_padding=(),
        pads=(pads[0], pads[1]), auto_pad="explicit",
    )  # fmt: skip


def _made(
    op: Any,
    axes: int,
    dtype: ElementType | None,
    data: Shape,
    kernel: Shape,
    groups: int,
    outputs: Dim,
    *,
    strides: Ints,
    dilations: Ints,
    output_padding: Ints,
    pads: tuple[Ints, Ints],
    auto_pad: str,
    output_shape: Shape | None = None,
) -> Setting | None:
    lists = (
        filled(strides, axes, 1),
        filled(dilations, axes, 1),
        filled(pads[0], axes, 0),
        filled(pads[1], axes, 0),
        filled(output_padding, axes, 0),
    )
    lengths = {len(v) for v in (*lists, data[1:], kernel, output_shape or kernel)}
    if lengths != {axes}:
        return None
    return Setting(
        system_of(op), data[1:], kernel, *lists, auto_pad, output_shape, groups, data[0], outputs,
        dtype,
    )  # fmt: skip


def _axes(x: Spec, w: Spec, lists: tuple[Ints, ...]) -> int | None:
    for spec in (x, w):
        if spec.shape is not None:
            return len(spec.shape) - 2
    return next((len(v) for v in lists if v), None)


def _part(shape: Shape | None, start: int, count: int) -> Shape:
    """Return `count` dimensions from `start`, unknown ones where the rank is unknown or too low."""
    found = () if shape is None else shape[start : start + count]
    return found + (DYNAMIC,) * (count - len(found))


def wanted_spec(output_shape: Shape) -> Spec:
    """Return the spec of an output_shape input with these values."""
    value = np.empty(len(output_shape), object)
    value[:] = output_shape
    if all(isinstance(d, int) for d in output_shape):
        value = value.astype(np.int64)
    return Spec(i64, (len(output_shape),), value)
