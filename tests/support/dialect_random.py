"""Random layers of every system's deconvolution, with legal attributes."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from support.dialect_layers import ACTIVATIONS, NHWC, ONEDNN, TENSORRT, DialectLayer
from support.layers import Ints

# What may make a legal layer illegal: changes for `changed`.
Spoil = Callable[[np.random.Generator, DialectLayer], dict[str, Any]]
FIELDS = {"bias", "surplus", "ranks", "kernel", "size", "batch", "attributes"}


def random_layer(
    rng: np.random.Generator, version: str, *, budget: int = 400, semantics: str | None = None
) -> DialectLayer:
    """A random layer of a system with legal attributes that differ from axis to axis.

    The output may be empty. `budget` bounds the products; without `semantics` three of ten layers
    follow the document.
    """
    semantics = semantics or ("document" if rng.random() < 0.3 else "runtime")
    while True:
        layer = _shape(rng, version)
        make = {ONEDNN: _onednn_attributes, TENSORRT: _tensorrt_attributes}.get(
            version, _onnx_attributes
        )
        layer = replace(layer, attributes=make(rng, layer, semantics))
        room = math.prod(max(s, 1) for s in layer.output_shape)
        if layer.products <= budget and room <= 4 * budget:
            return layer


def ints(rng: np.random.Generator, axes: int, low: int, high: int) -> Ints:
    """Draw an integer for each axis."""
    return tuple(int(v) for v in rng.integers(low, high + 1, axes))


def one(rng: np.random.Generator, values: Ints, value: int) -> Ints:
    """Return the values with another one somewhere."""
    at = int(rng.integers(len(values)))
    return (*values[:at], value, *values[at + 1 :])


def changed(layer: DialectLayer, changes: dict[str, Any]) -> DialectLayer:
    """Return the layer with other attributes (None or () takes one away) or shapes (`FIELDS`)."""
    fields = {k: v for k, v in changes.items() if k in FIELDS}
    given = layer.attributes | {k: v for k, v in changes.items() if k not in FIELDS}
    fields.setdefault("attributes", {k: v for k, v in given.items() if v not in ((), None)})
    return replace(layer, **fields)


def _shape(rng: np.random.Generator, version: str) -> DialectLayer:
    low = 2 if version == TENSORRT else 1
    axes = int(rng.choice(range(low, 4)))
    return DialectLayer(
        version,
        batch=int(rng.choice([1, 2], p=[0.7, 0.3])),
        size=ints(rng, axes, 1, (9, 5, 3)[axes - 1]),
        groups=1 if rng.random() < 0.4 else int(rng.integers(2, 5)),
        c=int(rng.integers(1, 4)),
        m=int(rng.integers(1, 4)),
        kernel=ints(rng, axes, 1, (5, 4, 3)[axes - 1]),
        bias=0 if rng.random() < 0.5 else None,
    )


def _below(rng: np.random.Generator, limits: Ints) -> Ints:
    return tuple(int(rng.integers(0, limit)) for limit in limits)


def _onednn_attributes(rng: Any, layer: DialectLayer, semantics: str) -> dict[str, Any]:
    n, document = layer.axes, semantics == "document"
    strides = ints(rng, n, 1, 4)
    end = tuple(
        int(rng.integers(1 - s, 0)) if s > 1 and not document and rng.random() < 0.1 else p
        for s, p in zip(strides, ints(rng, n, 0, 3), strict=True)
    )
    limits = tuple(s + 3 * document for s in strides)
    out = {
        "strides": strides,
        "pads_begin": ints(rng, n, 0, 3),
        "pads_end": end,
        "dilations": ints(rng, n, 1, 3),
        "auto_pad": str(rng.choice(["none", "same_upper", "same_lower", "valid"])),
        "groups": layer.groups,
        "data_format": str(rng.choice(["NXC", "NCX"])),
        "semantics": semantics,
    }
    if rng.random() < 0.5:
        out["output_padding"] = _below(rng, limits)
    if rng.random() < 0.9:
        name = str(rng.choice(["weights_format", "filter_format"]))
        out[name] = str(rng.choice(["XIO", "OIX", "XOI", "IOX"]))
    return out


def _onnx_attributes(rng: Any, layer: DialectLayer, semantics: str) -> dict[str, Any]:
    n = layer.axes
    strides, dilations = ints(rng, n, 1, 4), ints(rng, n, 1, 3)
    out: dict[str, Any] = {
        "auto_pad": str(rng.choice(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])),
        "group": layer.groups,
        "semantics": semantics,
        "strides": strides,
        "dilations": dilations,
    }
    if rng.random() < 0.3:
        out["kernel_shape"] = layer.kernel
    if out["auto_pad"] == "NOTSET" and rng.random() < 0.8:
        out["pads"] = ints(rng, 2 * n, 0, 3)
    document = semantics == "document"
    if rng.random() < 0.4:
        limits = map(max, strides, dilations) if document else strides
        out["output_padding"] = _below(rng, tuple(limits))
    if rng.random() < 0.35:
        tops = [s * (i - 1) + d * (k - 1) + 1 + s - 1 for s, i, d, k in zip(
            strides, layer.size, dilations, layer.kernel, strict=True
        )]  # fmt: skip
        wanted = tuple(int(rng.integers(1, t + 1 + 2 * document)) for t in tops)
        long = layer.version not in ("onnx_opset11", "onnx_opset22") and rng.random() < 0.3
        out["output_shape"] = (layer.batch, layer.m * layer.groups, *wanted) if long else wanted
    for name in ("strides", "dilations"):
        if rng.random() < 0.1 and set(out[name]) == {1}:
            del out[name]
    if layer.version in NHWC and rng.random() < 0.7:
        out |= _activation(rng)
    return out


def _activation(rng: Any) -> dict[str, Any]:
    name = str(rng.choice(list(ACTIVATIONS)))
    few: dict[str, list[tuple[float, ...]]] = {
        "Relu": [(), (0.0, 3.4e38)],
        "LeakyRelu": [(0.5,), (0.125,), (-1.0,)],
        "Clip": [(-3.0, 8.0), (0.0, 6.0)],
        "HardSigmoid": [(0.25, 0.5), (0.0625, 0.25)],
    }
    choices = few.get(name, [()])
    return {"activation": name, "activation_params": choices[int(rng.integers(len(choices)))]}


def _tensorrt_attributes(rng: Any, layer: DialectLayer, semantics: str) -> dict[str, Any]:
    n = layer.axes
    mode = str(rng.choice(["EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "SAME_UPPER", "SAME_LOWER",
                           "CAFFE_ROUND_DOWN", "CAFFE_ROUND_UP"]))  # fmt: skip
    out: dict[str, Any] = {
        "kernel_size": layer.kernel,
        "num_output_maps": layer.m * layer.groups,
        "padding_mode": ("k" if rng.random() < 0.3 else "") + mode,
        "num_groups": layer.groups,
        "stride": ints(rng, n, 1, 4),
        "dilation": ints(rng, n, 1, 3),
    }
    pre, post = ints(rng, n, 0, 3), ints(rng, n, 0, 3)
    if rng.random() < 0.25:
        out["padding"] = pre
    elif rng.random() < 0.9:
        out |= {"pre_padding": pre, "post_padding": pre if mode.startswith("CAFFE") else post}
    return out
