"""Convolutions, and the deconvolutions of all dialects by their definition, for the second check.

On an axis, input i times tap k is added to element S*i + D*k of the full scatter, which has
FULL = S*(I-1) + D*(K-1) + 1 elements. Output o is element o + begin, or 0 outside. The attributes
decide `begin` and the number of outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.verify.second_reading import SecondLayer
from irdeconv.verify.second_relations import (
    RULES,
    SecondOperation,
    SecondRead,
    SecondStep,
    Size,
    divided,
    inside,
    larger,
)

CONVOLUTION = "convolution"
# The begin of a version, the end of a type, and the system that has such layers.
SYSTEMS = (
    ("opset", "BackpropData", "openvino"),
    ("opset", "Convolution", CONVOLUTION),
    ("onednn_graph", "ConvTranspose", "onednn"),
    ("onnx_opset", "ConvTranspose", "onnx"),
    ("com.ms.internal.nhwc", "ConvTranspose", "onnx"),
    ("tensorrt", "Deconvolution", "tensorrt"),
)
_FUNCTIONS = {"Relu": "ReLU", "LeakyRelu": "PReLU", "Clip": "Clamp"}


def system_of(y: SecondLayer) -> str:
    """Return the system of a convolution or deconvolution, nothing of another layer."""
    rows = (s for begin, end, s in SYSTEMS if y.version.startswith(begin) and y.type.endswith(end))
    return next(rows, "")


def is_deconvolution(y: SecondLayer) -> bool:
    """Whether a layer is a deconvolution of a known dialect."""
    return system_of(y) not in ("", CONVOLUTION)


class Attributes:
    """A layer's attributes by one set of names, whatever its system calls them.

    `filter` names the axes of the filter: g the groups, C all input channels, c those of a group,
    m the outputs of a group, t1, t2, ... the taps.
    """

    def __init__(self, op: SecondOperation, axes: int) -> None:
        y = op.layer
        self.system, self.document = system_of(y), op.side.model.document
        self.strides = y.ints("strides stride stride_nd", axes, 1)
        self.dilations = y.ints("dilations dilation dilation_nd", axes, 1)
        self.before, self.after = (
            y.ints(f"pads_{end} {short}_padding padding_nd padding", axes)
            for end, short in (("begin", "pre"), ("end", "post"))
        )
        self.extra = y.ints("output_padding", axes)
        (self.groups,) = y.ints("groups group num_groups nb_groups", 1, 1)
        mode = y.text("auto_pad padding_mode", "explicit").removeprefix("k")
        explicit = mode in ("notset", "none") or mode.startswith(("explicit", "caffe_"))
        self.mode = "explicit" if explicit else mode
        known = explicit or mode in ("valid", "same_upper", "same_lower")
        y.require(known, f"it pads by {mode[:40]!r}")
        self.asked: Sequence[Size] = ()
        self.last = False  # the channels
        self.inverted = False  # same_upper means the larger half at the begin
        taps = [f"t{1 + a}" for a in range(axes)]
        self.filter = ["C", "m", *taps]
        if self.system in ("openvino", CONVOLUTION):
            order = ["c", "m"] if self.system == "openvino" else ["m", "c"]
            self.filter = [*(["g"] if y.type.startswith("Group") else []), *order, *taps]
            self.inverted = self.system == "openvino"
            self.asked = op.sizes(2)
        elif self.system == "onednn":
            of = {"i": ["C"], "o": ["m"], "x": taps}
            letters = y.text("weights_format filter_format", "xio")
            self.filter = [name for letter in letters for name in of[letter]]
            self.last = y.text("data_format", "nxc") == "nxc"
        elif self.system == "onnx":
            pads = y.ints("pads", 2 * axes)
            self.before, self.after = pads[:axes], pads[axes:]
            self.asked, self.last = y.ints("output_shape")[-axes:], "nhwc" in y.version
            self.inverted = self.document and (self.last or y.version == "onnx_opset1")

    def window(self, a: int, size: Size, kernel: int) -> tuple[Size, Size]:
        """Return `begin` and the number of outputs on an axis."""
        reach, stride = self.dilations[a] * (kernel - 1) + 1, self.strides[a]
        asked = self.asked[a] if self.asked else None
        same = self.mode.startswith("same")
        begin, end = (p[a] if self.mode == "explicit" else 0 for p in (self.before, self.after))
        if self.system == CONVOLUTION:
            if same:
                count = (size + (stride - 1)) // stride
                begin, end = self._halves((count - 1) * stride + reach - size)
            return begin, (size + begin + end - reach) // stride + 1
        longest = (size - 1) * stride + reach + self.extra[a]
        if self.system in ("onednn", "tensorrt") and same:
            begin, end = self._halves(reach - stride)
        elif self.system == "onnx" and (same or asked is not None):
            begin, end = self._halves(longest - (size * stride if asked is None else asked))
        elif self.system == "openvino" and asked is not None:
            if self.document:
                return (longest - asked + int(self.mode == "same_upper")) // 2, asked
            if same:
                begin, end = self._halves(longest - asked)
        return begin, longest - begin - end if asked is None else asked

    def _halves(self, total: Size) -> tuple[Size, Size]:
        """Return what is cut off, or padded, at the begin and at the end."""
        total = larger(total, 0)
        small, large = total // 2, total - total // 2
        first = (self.mode == "same_upper") != self.inverted
        return (small, large) if first else (large, small)


def _activation(y: SecondLayer) -> tuple[Any, ...] | None:
    """Return what a layer of ONNX Runtime computes last."""
    name = y.attributes.get("activation", "").strip()
    values = [t for t in y.text("activation_params").split(",") if t.strip()]
    numbers = () if name == "Relu" else tuple(float(np.float32(t)) for t in values)
    return (_FUNCTIONS.get(name, name), numbers) if name else None


def convolution(op: SecondOperation) -> SecondStep:
    """Return sums of products over taps: the input channel of a group, a place on every axis.

    A deconvolution reads at S*i + D*k = o + begin, a convolution at S*o + D*k = i + begin.
    """
    facts, data, shape = op.facts, op.shape, op.side.shape(op.inputs[1])
    rank = len(data)
    d = Attributes(op, rank - 2)
    known = all(isinstance(n, int) and n for n in shape)
    op.require(known, "the shape of its filter is open or empty")
    of = dict(zip(d.filter, shape, strict=True))
    groups = of.get("g", d.groups)
    inputs = of["c"] if "c" in of else of["C"] // groups
    channel, space = (rank - 1, range(1, rank - 1)) if d.last else (1, range(2, rank))
    op.demand(data[channel], groups * inputs)
    taps = {"t0": inputs, **{k: n for k, n in of.items() if k[0] == "t"}}
    names = {t: facts.name(t) for t in taps}
    where = [c for t, n in taps.items() for c in inside(names[t], n)]
    at, out, bias = [*op.at], [*data], []
    if is_deconvolution(op.layer) and d.system != "openvino" and len(op.inputs) > 2:
        bias = [SecondRead(op.inputs[2], facts.relation(data, [at[channel]]))]
    group, names["m"] = divided(at[channel], of["m"])
    names |= {"g": group, "c": names["t0"], "C": group * inputs + names["t0"]}
    out[channel], at[channel] = groups * of["m"], names["C"]
    for i, a in enumerate(space):
        begin, out[a] = d.window(i, data[a], of[f"t{1 + i}"])
        if not op.side.index and not isinstance(out[a], int):
            facts.assume(out[a])  # no output of the original has a negative size
        reach = names[f"t{1 + i}"] * d.dilations[i]
        if d.system == CONVOLUTION:
            at[a] = at[a] * d.strides[i] + reach - begin
        else:
            at[a], over = divided(at[a] + begin - reach, d.strides[i])
            where.append(-over)
        where += inside(at[a], data[a])
    at += [names[k] for k in d.filter]
    factors: list[Any] = [op.inputs[1]]
    if op.side.constant(op.inputs[1]) is None:
        # Several taps may read one element of what is behind the filter: each counts.
        at += [names[t] for t in taps]
        factors.append(np.broadcast_to(1.0, [*taps.values()]))
    read = SecondRead(op.inputs[0], facts.relation(data, at, where, len(taps)), (*factors,))
    return SecondStep(out, [read, *bias], sums=True, function=_activation(op.layer))


_TYPES = ("Convolution", "GroupConvolution", "ConvTranspose", "Deconvolution")
_TYPES += ("ConvolutionBackpropData", "GroupConvolutionBackpropData")
STEPS = {**RULES, **dict.fromkeys(_TYPES, convolution)}
