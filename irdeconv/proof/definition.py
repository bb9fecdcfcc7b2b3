"""What a deconvolution means, read from its attributes.

Every dialect's layer is y[o] = full[o + begin] for 0 <= o < O (0 outside the scatter), where
full[s*S + k*D] collects x[s] * w[k] along each axis; then bias, then activation. Sizes may be ints
or symbolic (sizes.py): only +, -, *, // and comparisons are used.

I input size, O output size, K kernel, S stride, D dilation, g groups, C and M channels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from irdeconv.proof.model import Ints, Layer, Unproved
from irdeconv.proof.sizes import Expr, Size

Window = Callable[[int, Size, int, "Size | None"], tuple[Size, Size]]
CONVOLUTIONS = ("Convolution", "GroupConvolution")
_KNOWN = {
    "opset": "strides dilations pads_begin pads_end auto_pad output_padding",
    "onednn_graph": "strides dilations pads_begin pads_end auto_pad output_padding groups "
    "data_format filter_format weights_format",
    "onnx_opset": "strides dilations pads auto_pad output_padding output_shape group kernel_shape",
    "com.ms.internal.nhwc": "strides dilations pads auto_pad output_padding output_shape group "
    "kernel_shape activation activation_params",
    "tensorrt": "stride dilation padding pre_padding post_padding padding_mode groups kernel_size "
    "output_maps",
    "irdeconv": "strides dilations",
}
OPSET = "opset([1-9]|1[0-6])"
_VERSIONS = {
    "opset": OPSET,
    "onednn_graph": "onednn_graph_1",
    "onnx_opset": "onnx_opset(1|11|22)",
    "com.ms.internal.nhwc": "com.ms.internal.nhwc_(1|11)",
    "tensorrt": "tensorrt",
    "irdeconv": "irdeconv_1",
}
_TYPES = {
    "ConvolutionBackpropData": ("opset",),
    "GroupConvolutionBackpropData": ("opset",),
    "ConvTranspose": ("onednn_graph", "onnx_opset", "com.ms.internal.nhwc"),
    "Deconvolution": ("tensorrt", "irdeconv"),
}
_ACTIVATIONS = {
    "Relu": "ReLU",
    "Tanh": "Tanh",
    "Sigmoid": "Sigmoid",
    "LeakyRelu": "PReLU",
    "Clip": "Clamp",
    "HardSigmoid": "HardSigmoid",
}


@dataclass(frozen=True)
class LayerDefinition:
    """A deconvolution, or with `forward` a convolution, independent of sizes.

    `data_axes` lists the data's axes as N, C, then the spatial ones; the output has the same
    layout. `filter_axes` lists the filter's axes as [g,] C, M/g, *K (`forward`: [g,] M/g, C/g, *K);
    the first only where `groups` is None, otherwise C is cut into groups. `window(axis, I, K, O)`
    returns (begin, O), where O is the size asked for, or None. `bias`, `output_shape` and `pads`
    are input ports or None.
    """

    strides: Ints
    dilations: Ints
    groups: int | None
    data_axes: Ints
    filter_axes: Ints
    window: Window
    bias: int | None = None
    output_shape: int | None = None
    pads: int | None = None
    activation: tuple[str, tuple[float, ...]] | None = None
    forward: bool = False


def family(layer: Layer) -> str | None:
    """Return the dialect of a deconvolution, None where the layer is none."""
    version = layer.version.removesuffix("/document")
    kinds = (f for f in _TYPES.get(layer.type, ()) if re.fullmatch(_VERSIONS[f], version))
    return next(kinds, None)


def is_deconvolution(layer: Layer) -> bool:
    """Whether a layer is a deconvolution of any dialect, the canonical one included."""
    return family(layer) is not None


def ints(layer: Layer, name: str, count: int, default: int | None = 0) -> Ints:
    """Return a list of `count` integers; the default for each where it is missing or empty."""
    text = layer.attributes.get(name, "").strip()
    if not text and default is not None:
        return (default,) * count
    parts = text.split(",")
    if len(parts) != count or not all(re.fullmatch(r"\s*-?[0-9]{1,10}\s*", p) for p in parts):
        raise Unproved(f"{layer}: {name} is {text[:40]!r}, not {count} integers")
    return tuple(map(int, parts))


def define(layer: Layer, rank: int) -> LayerDefinition:
    """Return what a deconvolution or convolution of data of a rank means; Unproved for others."""
    kind, n = family(layer), rank - 2
    if layer.type in CONVOLUTIONS and re.fullmatch(OPSET, layer.version):
        return _convolution(layer, n)
    if kind is None or n < 1:
        raise Unproved(f"{layer} of version {layer.version} and rank {rank} is no deconvolution")
    if kind == "tensorrt":
        names = {
            k.removesuffix("_nd").replace("nb_", "num_"): v for k, v in layer.attributes.items()
        }
        names = {k.removeprefix("num_"): v for k, v in names.items()}
        layer = replace(layer, attributes=names)
    unknown = set(layer.attributes) - set(_KNOWN[kind].split())
    if unknown or layer.rest:
        raise Unproved(f"{layer} has {min(unknown, default='a part')}, which is not known here")
    d = _RULES[kind](layer, n)
    if min((*d.strides, *d.dilations, d.groups or 1)) < 1:
        raise Unproved(f"{layer} has a stride, dilation or number of groups below 1")
    return d


def _halves(total: Size, small_first: bool) -> Size:
    """Return the share of a total that goes to the begin."""
    return total // 2 if small_first else total - total // 2


def _positive(total: Size) -> Size:
    return total.case.positive(total) if isinstance(total, Expr) else max(total, 0)


def _full(d: tuple[Ints, Ints], a: int, size: Size, kernel: int) -> Size:
    """Return S(I-1) + D(K-1) + 1, the size of the scatter along an axis."""
    return (size - 1) * d[0][a] + d[1][a] * (kernel - 1) + 1


def _steps(
    layer: Layer, n: int, names: tuple[str, str] = ("strides", "dilations")
) -> tuple[Ints, Ints]:
    return ints(layer, names[0], n, 1), ints(layer, names[1], n, 1)


def _openvino(layer: Layer, n: int) -> LayerDefinition:
    steps = _steps(layer, n)
    begin, end = ints(layer, "pads_begin", n), ints(layer, "pads_end", n)
    extra = ints(layer, "output_padding", n)
    mode = _one_of(layer, "auto_pad", ("explicit", "valid", "same_upper", "same_lower"))
    document = layer.version.endswith("/document")

    def window(a: int, size: Size, kernel: int, wanted: Size | None) -> tuple[Size, Size]:
        full = _full(steps, a, size, kernel)
        if wanted is None:
            b, q = (begin[a], end[a]) if mode == "explicit" else (0, 0)
            return b, full - b - q + extra[a]
        total = full - wanted + extra[a]
        if document:
            return _halves(total, mode != "same_upper"), wanted
        if mode in ("explicit", "valid"):
            return (begin[a] if mode == "explicit" else 0), wanted
        return _halves(_positive(total), mode == "same_lower"), wanted

    grouped = layer.type.startswith("Group")
    shape = 2 if len(layer.inputs) > 2 else None
    axes, taken = tuple(range(n + 2)), tuple(range(n + 3 if grouped else n + 2))
    return LayerDefinition(*steps, None if grouped else 1, axes, taken, window, output_shape=shape)


def _one_of(layer: Layer, name: str, allowed: tuple[str, ...]) -> str:
    value = layer.attributes.get(name, "").strip() or allowed[0]
    if value not in allowed:
        raise Unproved(f"{layer}: {name} is {value[:40]!r}, not one of {', '.join(allowed)}")
    return value


def _data_axes(n: int, channels_last: bool) -> Ints:
    return (0, n + 1, *range(1, n + 1)) if channels_last else tuple(range(n + 2))


def _bias(layer: Layer) -> int | None:
    return 2 if len(layer.inputs) > 2 else None


def _onednn(layer: Layer, n: int) -> LayerDefinition:
    steps = _steps(layer, n)
    begin, end = ints(layer, "pads_begin", n), ints(layer, "pads_end", n)
    extra = ints(layer, "output_padding", n)
    mode = _one_of(layer, "auto_pad", ("none", "valid", "same_upper", "same_lower"))

    def window(a: int, size: Size, kernel: int, wanted: Size | None) -> tuple[Size, Size]:
        b, q = (begin[a], end[a]) if mode == "none" else (0, 0)
        if mode.startswith("same"):
            total = max(0, steps[1][a] * (kernel - 1) + 1 - steps[0][a])
            b = _halves(total, mode == "same_upper")
            q = total - b
        return b, _full(steps, a, size, kernel) - b - q + extra[a]

    named = {k: v for k, v in layer.attributes.items() if k in ("weights_format", "filter_format")}
    layout = named.get("weights_format") or named.get("filter_format") or "XIO"
    if sorted(layout) != ["I", "O", "X"]:
        raise Unproved(f"{layer}: the filter's format is {layout[:40]!r}")
    places, at = {}, 0
    for letter in layout:
        places[letter] = tuple(range(at, at + (n if letter == "X" else 1)))
        at += len(places[letter])
    last = _one_of(layer, "data_format", ("NXC", "NCX")) == "NXC"
    groups, taken = ints(layer, "groups", 1, 1)[0], places["I"] + places["O"] + places["X"]
    return LayerDefinition(*steps, groups, _data_axes(n, last), taken, window, bias=_bias(layer))


def _onnx(layer: Layer, n: int) -> LayerDefinition:
    steps = _steps(layer, n)
    pads, extra = ints(layer, "pads", 2 * n), ints(layer, "output_padding", n)
    mode = _one_of(layer, "auto_pad", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    nhwc, name = family(layer) == "com.ms.internal.nhwc", layer.attributes.get("activation")
    old = nhwc or re.match(r"onnx_opset1\b", layer.version) is not None
    small_first = (mode == "SAME_UPPER") != (old and layer.version.endswith("/document"))
    listed = layer.attributes.get("output_shape", "").strip()
    sizes = ints(layer, "output_shape", listed.count(",") + 1)[-n:] if listed else ()

    def window(a: int, size: Size, kernel: int, wanted: Size | None) -> tuple[Size, Size]:
        longest = _full(steps, a, size, kernel) + extra[a]
        if sizes:
            return _halves(_positive(longest - sizes[a]), small_first), sizes[a]
        if mode.startswith("SAME"):
            total = _positive(longest - size * steps[0][a])
            return _halves(total, small_first), longest - total
        b, q = (0, 0) if mode == "VALID" else (pads[a], pads[n + a])
        return b, longest - b - q

    if (listed and len(sizes) != n) or (name and name not in _ACTIVATIONS):
        raise Unproved(f"{layer}: output_shape or activation is not understood")
    text = layer.attributes.get("activation_params", "").strip()
    parameters = () if name == "Relu" or not text else tuple(map(float, text.split(",")))
    activation = (_ACTIVATIONS[name], parameters) if name else None
    groups, taken = ints(layer, "group", 1, 1)[0], tuple(range(n + 2))
    axes, bias = _data_axes(n, nhwc), _bias(layer)
    return LayerDefinition(*steps, groups, axes, taken, window, bias, activation=activation)


def _tensorrt(layer: Layer, n: int) -> LayerDefinition:
    steps, both = _steps(layer, n, ("stride", "dilation")), ints(layer, "padding", n)
    pre, post = (
        ints(layer, name, n) if layer.attributes.get(name) else both
        for name in ("pre_padding", "post_padding")
    )
    rounding = [f"{r}_ROUND_{d}" for r in ("EXPLICIT", "CAFFE") for d in ("DOWN", "UP")]
    modes = [k + m for k in ("", "k") for m in (*rounding, "SAME_UPPER", "SAME_LOWER")]
    mode = _one_of(layer, "padding_mode", tuple(modes)).removeprefix("k")

    def window(a: int, size: Size, kernel: int, wanted: Size | None) -> tuple[Size, Size]:
        full = _full(steps, a, size, kernel)
        if not mode.startswith("SAME"):
            return pre[a], full - pre[a] - post[a]
        total = max(steps[1][a] * (kernel - 1) + 1 - steps[0][a], 0)
        return _halves(total, mode == "SAME_UPPER"), full - total

    groups, taken = ints(layer, "groups", 1, 1)[0], tuple(range(n + 2))
    return LayerDefinition(*steps, groups, _data_axes(n, False), taken, window, bias=_bias(layer))


def _canonical(layer: Layer, n: int) -> LayerDefinition:
    """Return the package's own operation, whose pads are inputs: `begin` is what `pads` says."""
    steps = _steps(layer, n)

    def window(a: int, size: Size, kernel: int, wanted: Size | None) -> tuple[Size, Size]:
        return 0, _full(steps, a, size, kernel)

    return LayerDefinition(*steps, None, tuple(range(n + 2)), tuple(range(n + 3)), window, pads=2)


def _convolution(layer: Layer, n: int) -> LayerDefinition:
    """Return a convolution: y[o] = sum of x[o*S + k*D - begin] * w[k]."""
    steps = _steps(layer, n)
    begin, end = ints(layer, "pads_begin", n), ints(layer, "pads_end", n)
    known = {"strides", "dilations", "pads_begin", "pads_end", "auto_pad"}
    mode = _one_of(layer, "auto_pad", ("explicit", "valid", "same_upper", "same_lower"))
    if set(layer.attributes) - known or layer.rest or n < 1 or min((*steps[0], *steps[1])) < 1:
        raise Unproved(f"{layer} has attributes that are not understood")

    def window(a: int, size: Size, kernel: int, wanted: Size | None) -> tuple[Size, Size]:
        stride, span = steps[0][a], steps[1][a] * (kernel - 1)
        b, q = (begin[a], end[a]) if mode == "explicit" else (0, 0)
        if mode.startswith("same"):
            rest = -(-size // stride) - 1
            total = _positive(rest * stride + span + 1 - size)
            b = _halves(total, mode == "same_upper")
            q = total - b
        return b, (size + b + q - span - 1) // stride + 1

    grouped = layer.type.startswith("Group")
    axes, taken = tuple(range(n + 2)), tuple(range(n + 3 if grouped else n + 2))
    return LayerDefinition(*steps, None if grouped else 1, axes, taken, window, forward=True)


_RULES: dict[str, Callable[[Layer, int], LayerDefinition]] = {
    "opset": _openvino,
    "onednn_graph": _onednn,
    "onnx_opset": _onnx,
    "com.ms.internal.nhwc": _onnx,
    "tensorrt": _tensorrt,
    "irdeconv": _canonical,
}
