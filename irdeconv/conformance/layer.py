"""One layer of a suite in the terms that all dialects share, and as its dialect spells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

import irdeconv.ops  # noqa: F401 -- importing fills the registry
from irdeconv.attributes import Ints
from irdeconv.dialects import READINGS
from irdeconv.dialects.setting import Setting
from irdeconv.dialects.system import Cannot, DialectSystem
from irdeconv.dialects.template import DialectDeconvolution
from irdeconv.dtypes import ELEMENT_TYPES, ElementType, i64
from irdeconv.errors import OpError
from irdeconv.op import REGISTRY, infer_op
from irdeconv.spec import Spec, is_static

# The dialects by the names that commands know, and the reading that each follows.
DIALECTS = {
    "openvino": "openvino_runtime",
    "onednn": "onednn",
    "onnx": "onnxruntime",
    "ort-nhwc": "nhwc",
    "tensorrt": "tensorrt",
}
_SYSTEMS = {r.key: r for r in READINGS if isinstance(r, DialectSystem)}
_EXTRAS = ("data_format", "weights_format", "filter_format", "padding_mode")


class Refused(Exception):
    """The dialect has no such layer; the text says why."""


@dataclass(frozen=True, kw_only=True)
class SuiteLayer:
    """One deconvolution; lists have a value per spatial axis, channels count all groups.

    `output_shape` None: the layer has none. `filter` is "constant" or "input". `extras` are
    attributes that only the dialect has, by name; `version` its operation set, "" the usual one.
    """

    dialect: str
    size: Ints
    kernel: Ints
    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output_padding: Ints
    auto_pad: str = "explicit"
    output_shape: Ints | None = None
    batch: int = 1
    groups: int = 1
    channels: int = 2
    outputs: int = 3
    element_type: str = "f32"
    bias: bool = False
    filter: str = "constant"
    version: str = ""
    activation: str = "none"
    extras: Mapping[str, str] = field(default_factory=dict)

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return len(self.size)

    @property
    def dtype(self) -> ElementType:
        """The element type of data, filter, bias and output."""
        return ELEMENT_TYPES[self.element_type]

    @property
    def extent(self) -> Ints:
        """D(K-1) + 1 on every axis."""
        rows = zip(self.kernel, self.dilations, strict=True)
        return tuple(d * (k - 1) + 1 for k, d in rows)

    @property
    def full(self) -> Ints:
        """S(I-1) + D(K-1) + 1 on every axis, the size of the uncropped scatter."""
        rows = zip(self.size, self.strides, self.extent, strict=True)
        return tuple(s * (i - 1) + e for i, s, e in rows)

    @cached_property
    def op(self) -> DialectDeconvolution:
        """The operation of the dialect; Refused where it has none for this layer."""
        setting = Setting(
            system=DIALECTS[self.dialect],
            size=self.size,
            kernel=self.kernel,
            groups=self.groups,
            channels=self.channels,
            outputs=self.outputs,
            dtype=self.dtype,
            strides=self.strides,
            dilations=self.dilations,
            pads_begin=self.pads_begin,
            pads_end=self.pads_end,
            output_padding=self.output_padding,
            auto_pad=self.auto_pad,
            output_shape=self.output_shape,
        )
        try:
            op, _ = _SYSTEMS[setting.system].make(setting)
        except Cannot as e:
            raise Refused(str(e)) from None
        assert isinstance(op, DialectDeconvolution)
        return self._with_own(op)

    def _with_own(self, op: DialectDeconvolution) -> DialectDeconvolution:
        """Add what only this dialect has, and pads that an auto_pad makes it ignore."""
        own: dict[str, Any] = dict(self.extras)
        if self.activation != "none":
            name, *parameters = self.activation.split()
            own |= {"activation": name, "activation_params": tuple(map(float, parameters))}
        if self.auto_pad != "explicit" and any((*self.pads_begin, *self.pads_end)):
            names = {"tensorrt": ("pre_padding", "post_padding"), "onnx": None, "ort-nhwc": None}
            pair = names.get(self.dialect, ("pads_begin", "pads_end"))
            if pair is None:
                raise Refused(f"pads cannot be given together with auto_pad={self.auto_pad}")
            own |= dict(zip(pair, (self.pads_begin, self.pads_end), strict=True))
        known = {f.name for f in fields(op)}
        unknown = sorted(set(own) - known)
        if unknown:
            raise Refused(f"{self.dialect} has no {', '.join(unknown)}")
        if self.bias and self.dialect == "openvino":
            raise Refused("OpenVINO's deconvolutions have no bias")
        if not self.version:
            return replace(op, **own)
        cls: Any = REGISTRY.get((op.type, self.version))
        if cls is None or cls.version.split("_")[0] != op.version.split("_")[0]:
            raise Refused(f"{self.dialect} has no operation set {self.version}")
        return cls(**({n: getattr(op, n) for n in known} | own))  # type: ignore[no-any-return]

    @property
    def data_shape(self) -> Ints:
        """The shape of the data in the dialect's layout."""
        if self.op.channels_last:
            return (self.batch, *self.size, self.channels)
        return (self.batch, self.channels, *self.size)

    @property
    def filter_shape(self) -> Ints:
        """The shape of the filter in the dialect's layout."""
        inputs, outputs = self.channels // self.groups, self.outputs // self.groups
        if self.op.group_count is None:
            return (self.groups, inputs, outputs, *self.kernel)
        order = self.op.filter_order(self.axes)
        sizes = dict(zip(order, (self.channels, outputs, *self.kernel), strict=True))
        return tuple(sizes[axis] for axis in range(len(order)))

    @property
    def port_shapes(self) -> dict[str, Ints]:
        """The shapes of all inputs by their names in the model."""
        shapes = {"x": self.data_shape, "filter": self.filter_shape}
        if self.bias:
            shapes["bias"] = (self.outputs,)
        if self.output_shape is not None and self.dialect == "openvino":
            shapes["output_shape"] = (self.axes,)
        return shapes

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The types and shapes of all inputs, with the numbers of an output_shape."""
        shapes = dict(self.port_shapes)
        wanted = shapes.pop("output_shape", None)
        specs = [Spec(self.dtype, shape) for shape in shapes.values()]
        if wanted is not None:
            specs.append(Spec(i64, wanted, np.array(self.output_shape, np.int64)))
        return tuple(specs)

    @property
    def output(self) -> Ints:
        """The output's shape in the dialect's layout; Refused where the layer is none."""
        problem = next((p for p in self.op.check() if p.severity == "error"), None)
        if problem is not None:
            raise Refused(problem.message)
        try:
            (out,) = infer_op(self.op, self.specs)
        except OpError as e:
            raise Refused(str(e)) from None
        assert is_static(out.shape)
        return out.shape

    @property
    def meets_scatter(self) -> bool:
        """Whether the output begins within the scatter; beyond, it is all zeros."""
        begins = self.op.begins(*self.specs)
        return begins is None or all(b < n for b, n in zip(begins, self.full, strict=True))

    def refusal(self) -> str | None:
        """Return why the dialect has no such layer, None where it has."""
        if min(self.groups, self.channels, self.outputs) < 1:
            return "groups, channels and outputs are at least 1"
        if self.channels % self.groups or self.outputs % self.groups:
            return (
                f"{self.groups} groups do not divide {self.channels} channels and "
                f"{self.outputs} outputs"
            )
        try:
            _ = self.output
        except Refused as e:
            return str(e)
        return None
