"""From a row of attribute values to a layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from irdeconv.attributes import Ints
from irdeconv.conformance.layer import Refused, SuiteLayer
from irdeconv.conformance.rules import LISTS, RELATIVE, ROUNDING, per_axis

# What a row has where nothing else is said.
BASE: dict[str, Any] = {
    "axes": 2,
    "batch": 1,
    "size": (4, 5, 3),
    "groups": 1,
    "channels": 2,
    "outputs": 3,
    "kernel": 3,
    "strides": 2,
    "dilations": 1,
    "auto_pad": "explicit",
    "pads_begin": 0,
    "pads_end": 0,
    "output_padding": 0,
    "output_shape": "none",
    "element_type": "f32",
    "filter": "constant",
    "bias": False,
}
# Attributes that only some dialects have, their values, the usual one first.
OWN: dict[str, dict[str, tuple[str, ...]]] = {
    "openvino": {},
    "onednn": {"data_format": ("NXC", "NCX"), "weights_format": ("XIO", "OIX", "XOI", "IOX")},
    "onnx": {"version": ("onnx_opset11", "onnx_opset1", "onnx_opset22")},
    "ort-nhwc": {
        "version": ("com.ms.internal.nhwc_11", "com.ms.internal.nhwc_1"),
        "activation": (
            *("none", "Relu", "LeakyRelu 0.25", "Clip -3 8", "HardSigmoid 0.25 0.5"),
            *("Tanh", "Sigmoid"),
        ),
    },
    "tensorrt": {"padding_mode": ROUNDING},
}
TYPES = {
    "openvino": ("f32", "f16", "bf16", "f64", "i32", "i64"),
    "onednn": ("f32", "f16", "bf16"),
    "onnx": ("f32", "f16", "f64", "bf16"),
    "ort-nhwc": ("f32", "f16", "f64"),
    "tensorrt": ("f32", "f16", "bf16", "i8"),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "auto_pad": ("explicit", "same_upper", "same_lower", "valid"),
    "filter": ("constant", "input"),
    "bias": (False, True),
}
_GROWTH = 64  # by how much data may grow until the output has products


def base(dialect: str) -> dict[str, Any]:
    """Return the usual value of every attribute of a dialect."""
    return BASE | {name: values[0] for name, values in OWN[dialect].items()}


def layer_of(dialect: str, row: Mapping[str, Any], *, grow: bool = False) -> SuiteLayer:
    """Return the layer of a row; Refused where the dialect has none.

    With `grow` the data are enlarged until no output axis is empty or beyond the scatter.
    """
    view = {**base(dialect), **row}
    axes = view["axes"]
    for name in LISTS:
        if not isinstance(view[name], int) and len(view[name]) < axes:
            raise Refused(f"{name} has {len(view[name])} values for {axes} spatial axes")
    lists: dict[str, Any] = {name: per_axis(view[name], axes) for name in LISTS}
    plain = ("batch", "groups", "channels", "outputs", "auto_pad", "element_type", "filter")
    own = OWN[dialect]
    extras = {n: view[n] for n in own if n not in ("version", "activation")}
    if extras.get("padding_mode") == ROUNDING[0]:
        del extras["padding_mode"]  # the mode that auto_pad has chosen
    layer = SuiteLayer(
        dialect=dialect,
        **lists,
        **{name: view[name] for name in plain},
        bias=bool(view["bias"]),
        version=view.get("version", ""),
        activation=view.get("activation", "none"),
        extras=extras,
    )
    for _ in range(_GROWTH if grow else 1):
        sized = replace(layer, output_shape=_output_shape(view["output_shape"], layer))
        refusal = sized.refusal()
        if refusal is None and min(sized.output) > 0 and sized.meets_scatter:
            return sized
        layer = replace(layer, size=tuple(n + 1 for n in layer.size))
    if refusal is not None:
        raise Refused(refusal)
    return sized


def _output_shape(wanted: str | int | Ints, layer: SuiteLayer) -> Ints | None:
    """Return what an output_shape stands for: numbers, or the scatter and a little more or less."""
    if wanted == "none":
        return None
    if isinstance(wanted, str):
        assert wanted in RELATIVE
        more = {"full": 0, "smaller": -3, "larger": 1}[wanted]
        return tuple(max(full + more, 1) for full in layer.full)
    return per_axis(wanted, layer.axes)


def label(value: Any) -> str:
    """Return a value as people read it: `3,1,2`, `none`, `yes`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) if len(set(value)) != 1 else str(value[0])
    return str(value)


def terms(layer: SuiteLayer) -> dict[str, str]:
    """Return a layer's attributes in the terms that all dialects share, and its own ones."""
    shape = layer.output_shape
    out: dict[str, Any] = {
        "dialect": layer.dialect,
        "axes": layer.axes,
        "batch": layer.batch,
        "groups": layer.groups,
        "channels": layer.channels,
        "outputs": layer.outputs,
        **{name: getattr(layer, name) for name in LISTS},
        "auto_pad": layer.auto_pad,
        "output_shape": "none" if shape is None else ",".join(map(str, shape)),
        "element_type": layer.element_type,
        "filter": layer.filter,
        "bias": layer.bias,
    }
    own = OWN[layer.dialect]
    out |= {name: layer.extras.get(name, values[0]) for name, values in own.items()}
    out |= {n: getattr(layer, n) for n in ("version", "activation") if n in own}
    return {name: label(value) for name, value in out.items()}


def traits(layer: SuiteLayer) -> list[str]:
    """Return what is true of a layer beyond single values: what mistakes depend on."""
    begin, end = layer.pads_begin, layer.pads_end
    explicit = layer.auto_pad == "explicit"
    rows = list(zip(layer.extent, layer.strides, strict=True))
    facts = {
        "a stride above 1": max(layer.strides) > 1,
        "a dilation above 1": max(layer.dilations) > 1,
        "a kernel of size 1": min(layer.kernel) == 1,
        "an even kernel": any(k % 2 == 0 for k in layer.kernel),
        "a kernel shorter than the stride": any(e < s for e, s in rows),
        "a kernel that the stride does not divide": any(e % s for e, s in rows),
        "unlike axes": any(
            len(set(getattr(layer, n))) > 1 for n in ("kernel", "strides", "dilations")
        ),
        "several groups": layer.groups > 1,
        "several groups with C/g != M/g": layer.groups > 1 and layer.channels != layer.outputs,
        "one channel per group": layer.groups > 1 and layer.channels == layer.groups,
        "pads": explicit and any((*begin, *end)),
        "unlike pads at begin and end": explicit and begin != end,
        "negative pads": explicit and min((*begin, *end)) < 0,
        "pads beyond the kernel": explicit
        and any(p >= e for p, (e, _) in zip((*begin, *end), [*rows, *rows], strict=True)),
        "output_padding": any(layer.output_padding),
        "an output_shape": layer.output_shape is not None,
        "auto_pad same": layer.auto_pad.startswith("same"),
        "a batch above 1": layer.batch > 1,
        "no data": 0 in (layer.batch, *layer.size),
    }
    return [name for name, holds in facts.items() if holds]
