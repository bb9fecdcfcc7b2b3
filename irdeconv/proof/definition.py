"""The meaning of a deconvolution, read from its attributes (docs/proof.md, section 2).

Every dialect's layer is a window (begin, O) of the full scatter along each axis; then bias, then
activation. Sizes may be ints or symbolic (sizes.py): only +, -, *, // and comparisons are used.

I input size, O output size, K kernel, S stride, D dilation, g groups, C and M channels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from irdeconv.proof.model import FLOATS, Array, Ints, Layer, TypedArray, Unproved, listed, need
from irdeconv.proof.sizes import Size, positive
from irdeconv.proof.spelling import real

CONVOLUTIONS = ("Convolution", "GroupConvolution")
OPSET = "opset([1-9]|1[0-6])"  # those that the language knows
OWN = "irdeconv_1"  # the version of what OpenVINO has not, or not so: it may have no outputs
# Operation sets that changed an operation; it is the same in those between.
_CHANGED = {"ReadValue": (6, 3), "Assign": (6, 3), "Loop": (5,), "TensorIterator": (1,), "If": (8,)}


def last_changed(kind: str, version: str) -> str:
    """Return the version of the set that last changed the operation."""
    number = int(version[5:]) if re.fullmatch(OPSET, version) else 0
    return next((f"opset{n}" for n in _CHANGED.get(kind, ()) if n <= number), version)


class Dialect(NamedTuple):
    """Types, versions and attributes of a dialect; its words for padding, the usual one first.

    With SAME the pads add up to the full size minus `same`: the "wanted" size, that of the input
    times S, or that of a `kernel` of size S.
    """

    types: str
    versions: str
    known: str
    same: str = "wanted"
    modes: str = "explicit valid same_upper same_lower"
    inputs: Ints = (2, 3)  # how many a layer may have


CONVOLUTION_SAYS = "strides dilations pads_begin pads_end auto_pad"
_ONEDNN = f"{CONVOLUTION_SAYS} output_padding groups data_format filter_format weights_format"
_ONNX = "strides dilations pads auto_pad output_padding output_shape group kernel_shape"
_RT = "stride dilation padding pre_padding post_padding padding_mode groups kernel_size output_maps"
_ROUNDED = "EXPLICIT_ROUND_DOWN EXPLICIT_ROUND_UP CAFFE_ROUND_DOWN CAFFE_ROUND_UP"
_SAME = "SAME_UPPER SAME_LOWER"
_ACTIVE = f"{_ONNX} activation activation_params"
_BACK, _CONV_T = "ConvolutionBackpropData GroupConvolutionBackpropData", "ConvTranspose"
_DIALECTS = {
    "convolution": Dialect("", "", CONVOLUTION_SAYS, "input", inputs=(2,)),
    "opset": Dialect(_BACK, OPSET, f"{CONVOLUTION_SAYS} output_padding"),
    "onednn": Dialect(_CONV_T, "onednn_graph_1", _ONEDNN, "kernel", f"none valid {_SAME.lower()}"),
    "onnx": Dialect(_CONV_T, "onnx_opset(1|11|22)", _ONNX, "input", f"NOTSET VALID {_SAME}"),
    "nhwc": Dialect(
        _CONV_T, "com.ms.internal.nhwc_(1|11)", _ACTIVE, "input", f"NOTSET VALID {_SAME}"
    ),
    "tensorrt": Dialect("Deconvolution", "tensorrt", _RT, "kernel", f"{_ROUNDED} {_SAME}"),
    "irdeconv": Dialect("Deconvolution", "irdeconv_1", "strides dilations", inputs=(4,)),
}
_ALSO = {"stride": "strides", "dilation": "dilations", "padding_mode": "auto_pad"}
_ALSO |= {"pre_padding": "pads_begin", "post_padding": "pads_end", "group": "groups"}
Activation = tuple[str, tuple[float, ...]]  # its type and parameters
_ACTIVATIONS = {"Relu": "ReLU", "LeakyRelu": "PReLU", "Clip": "Clamp"}
_ACTIVATIONS |= {name: name for name in ("Tanh", "Sigmoid", "HardSigmoid")}
ACTIVATIONS = ("Clamp", "HardSigmoid", "PReLU", "ReLU", "Sigmoid", "Tanh")
_COUNTS = {"PReLU": 1, "Clamp": 2, "HardSigmoid": 2}  # of parameters; others have none


class Padding(NamedTuple):
    """How many elements the output lacks of the full one at `begin` and `end` of each spatial axis.

    With `same` (see Dialect) a total is halved, `small_first` with the smaller half at the begin;
    `crops_only` if it is never negative. `extra` is added to the full one, `sizes` are those of the
    output if it lists them.
    """

    begin: Ints
    end: Ints
    extra: Ints
    same: str | None
    small_first: bool
    crops_only: bool
    sizes: Ints


class Relation(NamedTuple):
    """Input i meets output o through tap k along an axis if radix*i = stride*o + dilation*k - pad.

    0 <= i < inputs, 0 <= k < taps, 0 <= o < outputs. A convolution has the radix 1; a deconvolution
    S*i + D*k = o + b has the radix S, the stride 1, the dilation -D and the pad -b.
    """

    radix: int
    stride: int
    dilation: int
    pad: Size
    inputs: Size
    taps: int
    outputs: Size

    def __str__(self) -> str:
        if self.dilation > 0:
            sides = f"{self.stride}*o + {self.dilation}*k = i + {self.pad}"
        else:
            sides = f"{self.radix}*i + {-self.dilation}*k = o + {-self.pad}"
        return f"{sides}, 0 <= i < {self.inputs}, 0 <= o < {self.outputs}"

    def readings(self) -> Array:
        """Return the input [O, K] that each output reads through each tap, -1 for none."""
        o, k = np.arange(self.outputs)[:, None], np.arange(self.taps)
        i, rest = np.divmod(o * self.stride + k * self.dilation - self.pad, self.radix)
        return np.where((rest == 0) & (i >= 0) & (i < self.inputs), i, -1)


@dataclass(frozen=True)
class LayerDefinition:
    """A deconvolution, or with `forward` a convolution, independent of sizes.

    `data_axes` lists the axes N, C, *spatial of data and output. `filter_axes` lists the filter's
    axes as [g,] C, M/g, *K (`forward`: [g,] M/g, C/g, *K), without g if C is cut into `groups`.
    `bias`, `output_shape` and `pads` are input ports or None.
    """

    strides: Ints
    dilations: Ints
    groups: int | None
    data_axes: Ints
    filter_axes: Ints
    padding: Padding
    bias: int | None
    output_shape: int | None
    pads: int | None
    activation: Activation | None
    forward: bool

    def window(self, a: int, size: Size, kernel: int, wanted: Size | None) -> tuple[Size, Size]:
        """Return (begin, O) along a spatial axis; `wanted` is the O that is asked for, or None."""
        stride, span, p = self.strides[a], self.dilations[a] * (kernel - 1) + 1, self.padding
        full = (size - 1) * stride + span + p.extra[a]
        wanted = p.sizes[a] if p.sizes else wanted
        begin, total = p.begin[a], p.begin[a] + p.end[a]
        if p.same:
            if p.same == "kernel":
                total = span - stride
            elif self.forward:
                total = (-(-size // stride) - 1) * stride + span - size
            elif wanted is not None:
                total = full - wanted
            else:
                total = full - size * stride if p.same == "input" else 0
            if p.crops_only:
                total = positive(total)
            begin = total // 2 if p.small_first else total - total // 2
        if self.forward:
            return begin, (size + total - span) // stride + 1
        return begin, full - total if wanted is None else wanted

    def relations(
        self, space: Sequence[Size], kernel: Sequence[int], numbers: Callable[[int], Sequence[Size]]
    ) -> list[Relation]:
        """Return the relation of each spatial axis; `numbers` returns those of an input."""
        n, shape, pads = len(self.strides), self.output_shape, self.pads
        wanted = [None] * n if shape is None else numbers(shape)
        ends = [[0] * n] * 2 if pads is None else [numbers(pads + end) for end in (0, 1)]
        found = []
        for a, (i, k, o, p, q) in enumerate(zip(space, kernel, wanted, *ends, strict=True)):
            begin, size = self.window(a, i, k, o)
            # Windows compose: the pads of the canonical layer cut its full output.
            begin, size = begin + p, size - p - q
            s, d = self.strides[a], self.dilations[a]
            step = (1, s, d, begin) if self.forward else (s, 1, -d, -begin)
            found.append(Relation(*step, i, k, size))
        return found

    def ordered(self, filter: Array) -> Array:
        """Return a filter as [g, M/g, C/g, *K]."""
        need(filter.ndim == len(self.filter_axes), f"the filter has rank {filter.ndim}")
        w = filter.transpose(self.filter_axes)
        if self.groups is not None:
            need(len(w) % self.groups == 0, f"{len(w)} channels in {self.groups} groups")
            w = w.reshape(self.groups, len(w) // self.groups, *w.shape[1:])
        return w if self.forward else w.swapaxes(1, 2)


def family(layer: Layer) -> str | None:
    """Return the dialect of a deconvolution, None for another layer."""
    version = layer.version.removesuffix("/document")
    fitting = ((k, d.versions) for k, d in _DIALECTS.items() if layer.type in d.types.split())
    return next((k for k, versions in fitting if re.fullmatch(versions, version)), None)


def check_runs(layer: Layer, d: LayerDefinition, channels: int = 0, sizes: Ints = ()) -> None:
    """Check that OpenVINO, if it has the layer, runs it as it is defined.

    `channels` are those of the data, `sizes` the output's, if they matter. Its convolutions of one
    channel read other elements if an axis of one output has a stride.
    """
    least = min((*d.padding.begin, *d.padding.end), default=0)
    need(family(layer) != "opset" or least >= 0, f"{layer} has negative pads")
    idle = d.forward and channels == 1 and len(sizes) > 1 and d.strides[-1] > 1 == sizes[-1]
    need(not idle, f"{layer} meets the fault stride-of-one-output of OpenVINO 2026.4.1")


def is_deconvolution(layer: Layer) -> bool:
    """Whether a layer is a deconvolution of any dialect, the canonical one included."""
    return family(layer) is not None


def ints(layer: Layer, name: str, count: int, default: int | None = 0) -> Ints:
    """Return a list of `count` integers; each is the default if it is missing or empty."""
    text = layer.attributes.get(name, "")
    found = listed(layer, name, text)
    if not found and default is not None:
        return (default,) * count
    need(len(found) == count, f"{layer}: {name} is {text[:40]!r}, not {count} integers")
    return found


def _word(layer: Layer, name: str, allowed: str) -> str:
    words = allowed.split()
    value = layer.attributes.get(name, words[0])
    need(value in words, f"{layer}: {name} is {value[:40]!r}, not one of {', '.join(words)}")
    return value


def define(layer: Layer, rank: int) -> LayerDefinition:
    """Return the meaning of a layer for data of a rank; Unproved unless it is known."""
    kind, n = family(layer), rank - 2
    if layer.type in CONVOLUTIONS and re.fullmatch(f"{OPSET}|{OWN}", layer.version):
        kind = "convolution"
    limited = kind in ("convolution", "opset") and layer.version != OWN
    if kind is None or n < 1 or (limited and n > 3):
        raise Unproved(f"{layer} of version {layer.version} and rank {rank} is no deconvolution")
    need(len(layer.inputs) in _DIALECTS[kind].inputs, f"{layer} has {len(layer.inputs)} inputs")
    layer = _plain(layer, kind)
    steps = ints(layer, "strides", n, 1), ints(layer, "dilations", n, 1)
    [count] = ints(layer, "groups", 1, 1)
    if min((*steps[0], *steps[1], count)) < 1:
        raise Unproved(f"{layer} has a stride, dilation or number of groups below 1")
    own = kind in ("convolution", "opset", "irdeconv")
    split = kind == "irdeconv" or layer.type.startswith("Group")  # the filter has an axis of groups
    taken = _filter_axes(layer, n) if kind == "onednn" else range(n + 2 + split)
    last = kind == "onednn" and _word(layer, "data_format", "NXC NCX") == "NXC"
    data = (0, n + 1, *range(1, n + 1)) if last or kind == "nhwc" else range(n + 2)
    third = 2 if len(layer.inputs) > 2 else None
    return LayerDefinition(
        *steps,
        None if split else count,
        tuple(data),
        tuple(taken),
        _padding(layer, kind, n),
        bias=None if own else third,
        output_shape=third if kind == "opset" else None,
        pads=2 if kind == "irdeconv" else None,
        activation=_activation(layer),
        forward=kind == "convolution",
    )


def _plain(layer: Layer, kind: str) -> Layer:
    """Return a layer with the names of attributes that all dialects share."""
    said = dict(layer.attributes)
    if kind == "tensorrt":
        said = {re.sub("^(nb|num)_|_nd$", "", k): v for k, v in said.items()}
        said |= {k: v.removeprefix("k") for k, v in said.items() if k == "padding_mode"}
    unknown = set(said) - set(_DIALECTS[kind].known.split())
    if unknown or layer.rest:
        raise Unproved(f"{layer} has {min(unknown, default='a part')}, which is not known here")
    said = {_ALSO.get(k, k): v for k, v in said.items()}
    both = said.pop("padding", "")
    ends = {name: said.get(name) or both for name in ("pads_begin", "pads_end")}
    return replace(layer, attributes={**said, **ends})


def _padding(layer: Layer, kind: str, n: int) -> Padding:
    dialect, document = _DIALECTS[kind], layer.version.endswith("/document")
    mode = _word(layer, "auto_pad", dialect.modes).lower()
    both = ints(layer, "pads_begin", n) + ints(layer, "pads_end", n)
    if "pads" in layer.attributes:
        both = ints(layer, "pads", 2 * n)
    if mode == "valid":
        both = (0,) * (2 * n)
    shape = layer.attributes.get("output_shape", "")
    sizes = listed(layer, "output_shape", shape)[-n:]
    need(len(sizes) in (0, n), f"{layer}: output_shape is {shape[:40]!r}, not {n} integers")
    # As documented, OpenVINO always halves what an output_shape lacks.
    by_document = document and kind == "opset" and len(layer.inputs) > 2
    same = dialect.same if mode.startswith("same") or sizes or by_document else None
    old = kind == "nhwc" or layer.version.startswith("onnx_opset1/")
    small_first = mode == "same_upper"
    if kind == "opset" or (old and document):
        small_first = not small_first
    need(kind != "convolution" or min(both) >= 0, f"{layer} has negative pads")
    extra = ints(layer, "output_padding", n)
    return Padding(both[:n], both[n:], extra, same, small_first, not by_document, sizes)


def _filter_axes(layer: Layer, n: int) -> list[int]:
    """Return the axes I, O, *X of a filter by its format."""
    named = (layer.attributes.get(f"{name}_format") for name in ("weights", "filter"))
    layout = next(filter(None, named), "XIO")
    need(sorted(layout) == ["I", "O", "X"], f"{layer}: the filter's format is {layout[:40]!r}")
    every = layout.replace("X", "X" * n)
    return [every.index("I"), every.index("O"), *(a for a, x in enumerate(every) if x == "X")]


def _activation(layer: Layer) -> Activation | None:
    name = layer.attributes.get("activation")
    if not name:
        return None
    need(name in _ACTIVATIONS, f"{layer}: the activation {name[:40]!r} is not known")
    text = layer.attributes.get("activation_params", "")
    numbers = listed(layer, "activation_params", text, np.inf, real)
    if name == "Relu" and numbers[:1] == (0,) and numbers[1:2] >= (3.4e38,):
        numbers = numbers[2:]  # its upper bound bounds nothing in f32
    fits = len(numbers) == _COUNTS.get(_ACTIVATIONS[name], 0)
    need(fits, f"{layer}: activation_params is {text[:40]!r}")
    return _ACTIVATIONS[name], numbers


def activation(layer: Layer, type: str | None, parameters: Sequence[Any]) -> Activation:
    """Return an activation of a value of some type; its parameters are TypedArrays of one number.

    Numbers of attributes are rounded to the type.
    """
    names = ("min", "max") if layer.type == "Clamp" else ()
    said = [(name, layer.attributes[name]) for name in names]
    numbers = [v for pair in said for v in listed(layer, *pair, np.inf, real)]
    fits = all(isinstance(p, TypedArray) and p.array.size == 1 for p in parameters)
    need(fits, f"the parameters of {layer} are no constant scalars")
    need(all(p.type == type for p in parameters), f"{layer} mixes element types")
    numbers += [float(p.array.reshape(())) for p in parameters]
    need(len(numbers) == _COUNTS.get(layer.type, 0), f"{layer} has the parameters {numbers}")
    ordered = layer.type != "Clamp" or numbers[0] <= numbers[1]
    need(ordered and np.isfinite(numbers).all(), f"{layer} has the parameters {numbers}")
    return finish((layer.type, tuple(numbers)), type)


def finish(last: Activation, type: str | None) -> Activation:
    """Return an activation with its numbers rounded to a type, but those beyond its range."""
    with np.errstate(over="ignore"):
        held = np.array(last[1], FLOATS.get(type or "", np.float64)).astype(np.float64)
    return last[0], tuple(np.where(np.isfinite(held), held, last[1]).tolist())
