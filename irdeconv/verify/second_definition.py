"""Convolutions, and the deconvolutions of all dialects by their definition, for the second check.

On an axis, input i times tap k is added to element S*i + D*k of the full scatter, which has
FULL = S*(I-1) + D*(K-1) + 1 elements. Output o is element o + begin, or 0 outside. The attributes
decide `begin` and the number of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.verify.second_reading import SecondLayer, Unfollowed
from irdeconv.verify.second_relations import SecondRead, SecondStep, Size, divided, larger

MOST_WEIGHTS = 1 << 25
_SYSTEMS = {"opset": "openvino", "onednn_graph": "onednn", "onnx_opset": "onnx"}
_SYSTEMS |= {"com.ms.internal.nhwc": "onnx", "tensorrt": "tensorrt"}
_TYPES = {"openvino": "BackpropData", "onednn": "ConvTranspose", "onnx": "ConvTranspose"}
_TYPES["tensorrt"] = "Deconvolution"
DECONVOLUTIONS = "ConvolutionBackpropData", "GroupConvolutionBackpropData", *_TYPES.values()
_FUNCTIONS = {"Relu": "ReLU", "LeakyRelu": "PReLU", "Clip": "Clamp"}


@dataclass
class Attributes:
    """A layer's attributes by one set of names, whatever its system calls them.

    `filter` names the axes of the filter: C all input channels, c those of a group, m the outputs
    of a group, t1, t2, ... the taps.
    """

    system: str
    filter: list[str]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    mode: str = "explicit"
    extra: Sequence[int] = (0,) * 8
    asked: Sequence[Any] = ()
    document: bool = False
    groups: int = 1
    last: bool = False
    bias: bool = False
    function: tuple[Any, ...] | None = None
    inverted: bool = False  # same_upper means the larger half at the begin

    def window(self, a: int, size: Size, kernel: int) -> tuple[Size, Size]:
        """Return `begin` and the number of outputs on an axis."""
        reach, stride = self.dilations[a] * (kernel - 1) + 1, self.strides[a]
        longest = (size - 1) * stride + reach + self.extra[a]
        asked = self.asked[a] if self.asked else None
        same, upper = self.mode.startswith("same"), self.mode == "same_upper"
        total = None
        if self.system == "openvino" and asked is not None and self.document:
            return (longest - asked + int(upper)) // 2, asked
        if self.system == "onnx" and (same or asked is not None):
            total = longest - (size * stride if asked is None else asked)
        elif self.system == "openvino" and same and asked is not None:
            total = longest - asked
        elif self.system in ("onednn", "tensorrt") and same:
            total = reach - stride
        if total is not None:
            total = larger(total, 0)
            begin = total // 2 if upper != self.inverted else total - total // 2
            return begin, longest - total if asked is None else asked
        explicit = self.mode == "explicit"
        begin, end = (p[a] if explicit else 0 for p in (self.before, self.after))
        return begin, longest - begin - end if asked is None else asked


def is_deconvolution(y: SecondLayer) -> bool:
    """Whether a layer is a deconvolution of a known dialect."""
    return _system(y) is not None


def _system(y: SecondLayer) -> str | None:
    found = next((s for start, s in _SYSTEMS.items() if y.version.startswith(start)), None)
    return found if found and y.type.endswith(_TYPES[found]) else None


def _mode(y: SecondLayer, key: str, explicit: str) -> str:
    mode = y.text(key, explicit).removeprefix("k")
    if mode in (explicit, "notset") or mode.startswith(("explicit_", "caffe_")):
        return "explicit"
    if mode not in ("valid", "same_upper", "same_lower"):
        raise Unfollowed(f"{y}: {key} is {mode[:40]!r}")
    return mode


def _attributes(s: Any, y: SecondLayer, axes: int) -> Attributes:
    system = _system(y)
    if system is None:
        raise Unfollowed(f"{y} of {y.version} is not followed")
    return _RULES[system](s, y, axes, [f"t{1 + a}" for a in range(axes)])


def _openvino(s: Any, y: SecondLayer, axes: int, taps: list[str]) -> Attributes:
    keys = ("strides", 1), ("dilations", 1), ("pads_begin", 0), ("pads_end", 0)
    filter = [*(["g"] if y.type.startswith("Group") else []), "c", "m", *taps]
    strides, dilations, before, after = (y.ints(k, axes, n) for k, n in keys)
    d = Attributes("openvino", filter, strides, dilations, before, after)
    d.extra, d.mode = y.ints("output_padding", axes), _mode(y, "auto_pad", "explicit")
    d.asked = s.sizes(y.inputs[2]) if len(y.inputs) > 2 else ()
    d.document, d.inverted = s.document, True
    return d


def _onednn(s: Any, y: SecondLayer, axes: int, taps: list[str]) -> Attributes:
    same = {**y.attributes, "auto_pad": "explicit"}
    d = _openvino(s, replace(y, attributes=same, inputs=y.inputs[:2]), axes, taps)
    axis_of = {"i": ["C"], "o": ["m"], "x": taps}
    letters = y.text("weights_format") or y.text("filter_format") or "xio"
    d.filter = [name for letter in letters for name in axis_of[letter]]
    d.system, d.mode, d.inverted = "onednn", _mode(y, "auto_pad", "none"), False
    d.last, d.bias = y.text("data_format", "nxc") == "nxc", len(y.inputs) > 2
    (d.groups,) = y.ints("groups", 1, 1)
    return d


def _onnx(s: Any, y: SecondLayer, axes: int, taps: list[str]) -> Attributes:
    pads = y.ints("pads", 2 * axes)
    steps = y.ints("strides", axes, 1), y.ints("dilations", axes, 1)
    d = Attributes("onnx", ["C", "m", *taps], *steps, pads[:axes], pads[axes:])
    d.extra, d.mode = y.ints("output_padding", axes), _mode(y, "auto_pad", "notset")
    d.asked, d.last, d.bias = y.ints("output_shape")[-axes:], "nhwc" in y.version, len(y.inputs) > 2
    d.inverted = s.document and (d.last or y.version == "onnx_opset1")
    (d.groups,) = y.ints("group", 1, 1)
    name = y.attributes.get("activation", "").strip() if d.last else ""
    values = [t for t in y.attributes.get("activation_params", "").split(",") if t.strip()]
    numbers = () if name == "Relu" else tuple(float(np.float32(t)) for t in values)
    d.function = (_FUNCTIONS.get(name, name), numbers) if name else None
    return d


def _tensorrt(s: Any, y: SecondLayer, axes: int, taps: list[str]) -> Attributes:
    said = {
        k.removesuffix("_nd").removeprefix("nb_").removeprefix("num_"): v
        for k, v in y.attributes.items()
    }
    z = replace(y, attributes={"pre_padding": "", "post_padding": "", **said})
    both = z.ints("padding", axes)
    before, after = (
        z.ints(k, axes) if said.get(k) else both for k in ("pre_padding", "post_padding")
    )
    steps = z.ints("stride", axes, 1), z.ints("dilation", axes, 1)
    d = Attributes("tensorrt", ["C", "m", *taps], *steps, before, after)
    d.mode, d.bias = _mode(z, "padding_mode", "explicit"), len(y.inputs) > 2
    (d.groups,) = z.ints("groups", 1, 1)
    return d


_RULES = {"openvino": _openvino, "onednn": _onednn, "onnx": _onnx, "tensorrt": _tensorrt}
Window = Callable[[int, Size, int], tuple[Size, Size]]


def deconvolution(s: Any, y: SecondLayer, port: int) -> SecondStep:
    """Follow S*i + D*k = o + begin on every axis."""
    d = _attributes(s, y, len(s.shape(y.inputs[0])) - 2)
    return _block(s, y, d, d.window, scatters=True)


def convolution(s: Any, y: SecondLayer, port: int) -> SecondStep:
    """Follow S*o + D*k = i + begin on every axis."""
    axes = len(s.shape(y.inputs[0])) - 2
    filter = ["m", "c", *(f"t{1 + a}" for a in range(axes))]
    filter = ["g", *filter] if y.type.startswith("Group") else filter
    steps = y.ints("strides", axes, 1), y.ints("dilations", axes, 1)
    pads = y.ints("pads_begin", axes), y.ints("pads_end", axes)
    d = Attributes("", filter, *steps, *pads, mode=_mode(y, "auto_pad", "explicit"))

    def window(a: int, size: Size, kernel: int) -> tuple[Size, Size]:
        reach, stride = d.dilations[a] * (kernel - 1) + 1, d.strides[a]
        begin, end = (p[a] if d.mode == "explicit" else 0 for p in pads)
        if d.mode.startswith("same"):
            count = (size + (stride - 1)) // stride
            total = larger((count - 1) * stride + reach - size, 0)
            begin = total // 2 if d.mode == "same_upper" else total - total // 2
            end = total - begin
        return begin, (size + begin + end - reach) // stride + 1

    return _block(s, y, d, window, scatters=False)


def _block(s: Any, y: SecondLayer, d: Attributes, window: Window, *, scatters: bool) -> SecondStep:
    """Return sums of products over taps: the input channel of a group, a place on every axis."""
    facts, data, shape = s.facts, s.shape(y.inputs[0]), s.shape(y.inputs[1])
    axes, rank = len(data) - 2, len(data)
    steps = all(0 < v < 1 << 20 for v in (*d.strides, *d.dilations, d.groups))
    if not steps or not 1 <= axes <= 6 or len(shape) != len(d.filter):
        raise Unfollowed(f"{y}: its strides, its dilations, or the rank of its filter")
    if not all(isinstance(n, int) and n for n in shape) or math.prod(shape) > MOST_WEIGHTS:
        raise Unfollowed(f"{y}: the shape of its filter is open, empty or too large")
    of = dict(zip(d.filter, shape, strict=True))
    groups, outputs = of.get("g", d.groups), of["m"]
    inputs = of["c"] if "c" in of else of["C"] // groups
    channel, space = (rank - 1, range(1, rank - 1)) if d.last else (1, range(2, rank))
    s.demand(data[channel], groups * inputs, y)
    taps = inputs, *(of[f"t{1 + i}"] for i in range(axes))
    names = {f"t{i}": facts.name(f"t{i}") for i in range(rank - 1)}
    where = [
        c for (n, t), size in zip(names.items(), taps, strict=True) for c in facts.inside(t, size)
    ]
    at, out = facts.axes(data), [*data]
    group, names["m"] = divided(at[channel], outputs)
    names |= {"g": group, "c": names["t0"], "C": group * inputs + names["t0"]}
    bias = [SecondRead(y.inputs[2], facts.relation(data, [at[channel]]))] if d.bias else []
    out[channel], at[channel] = groups * outputs, names["C"]
    for i, a in enumerate(space):
        begin, out[a] = window(i, data[a], taps[1 + i])
        s.assume(out[a])
        reach = names[f"t{1 + i}"] * d.dilations[i]
        if scatters:  # S*i + D*k = o + begin
            at[a], over = divided(at[a] + begin - reach, d.strides[i])
            where.append(facts.same(over, 0))
        else:  # S*o + D*k = i + begin
            at[a] = at[a] * d.strides[i] + reach - begin
        where += facts.inside(at[a], data[a])
    filter = SecondRead(
        y.inputs[1], facts.relation(data, [names[k] for k in d.filter], taps=len(taps))
    )
    read = SecondRead(y.inputs[0], facts.relation(data, at, where, len(taps)), filter, taps)
    return SecondStep(out, [read, *bias], sums=True, function=d.function)
