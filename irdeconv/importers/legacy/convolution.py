"""Legacy convolutions, deconvolutions and fully connected layers, whose filters are blobs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from irdeconv.dialects.openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import Ints, LegacyLayer, Outputs, layer, standard
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.matmul import MatMul
from irdeconv.ops.shape import Reshape

_LETTERS = "yx"  # version 2 names the axes of an image


@dataclass(frozen=True)
class WindowLists:
    """The attributes of windows, a value for each spatial axis."""

    kernel: Ints
    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    dilations: Ints

    @property
    def lists(self) -> dict[str, Any]:
        """The attributes of a convolution."""
        names = ("strides", "pads_begin", "pads_end", "dilations")
        return {name: getattr(self, name) for name in names}

    @property
    def extents(self) -> Ints:
        """How far a dilated kernel reaches."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def windows(n: LegacyLayer, sizes: Ints, *, transposed: bool = False) -> WindowLists:
    """Return kernel, strides, pads and dilations; pads follow from auto_pad where it is given.

    `sizes` are the spatial ones of the data. Pads at the end are those at the begin unless given.
    """
    if "kernel" in n:
        kernel, axes = n.ints("kernel"), len(sizes)
        strides, begin = n.ints("strides", (1,) * axes), n.ints("pads_begin", (0,) * axes)
        end, dilations = n.ints("pads_end", begin), n.ints("dilations", (1,) * axes)
    else:
        kernel = tuple(n.integer(f"kernel-{a}") for a in _LETTERS)
        strides = tuple(n.integer(f"stride-{a}", 1) for a in _LETTERS)
        begin = tuple(n.integer(f"pad-{a}", 0) for a in _LETTERS)
        pairs = zip("br", begin, strict=True)
        end = tuple(n.integer(f"pad-{a}", p) for a, p in pairs)
        dilations = tuple(n.integer(f"dilation-{a}", 1) for a in _LETTERS)
    lists = {"kernel": kernel, "strides": strides, "pads_begin": begin, "pads_end": end}
    for name, values in {**lists, "dilations": dilations}.items():
        if len(values) != len(sizes):
            raise Refusal(f"{name} has {len(values)} values for {len(sizes)} spatial axes")
    # A 0 stands for 1, as it did in the Inference Engine.
    found = WindowLists(
        kernel,
        tuple(s or 1 for s in strides),
        begin,
        end,
        tuple(d or 1 for d in dilations),
    )
    auto = n.text("auto_pad", "").lower()
    return _automatic(found, auto, sizes, transposed) if auto not in ("", "explicit") else found


def _automatic(w: WindowLists, auto: str, sizes: Ints, transposed: bool) -> WindowLists:
    if auto == "valid":
        zeros = (0,) * len(sizes)
        return WindowLists(w.kernel, w.strides, zeros, zeros, w.dilations)
    if auto not in ("same_upper", "same_lower"):
        raise Refusal(f'auto_pad="{auto}" is not covered')
    totals = []
    for size, extent, stride in zip(sizes, w.extents, w.strides, strict=True):
        rest = 0 if transposed else size % stride
        totals.append(max(extent - (rest or stride), 0))
    small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    begin, end = (small, large) if auto == "same_upper" else (large, small)
    return WindowLists(w.kernel, w.strides, begin, end, w.dilations)


def _image(n: LegacyLayer, b: ImportBuilder) -> Ints:
    shape = b.static(n[0], "the data")
    if len(shape) not in (3, 4, 5):
        raise Refusal(f"data of {len(shape)} dimensions")
    return shape


def _groups(n: LegacyLayer, channels: int, outputs: int) -> int:
    groups = n.integer("group", 1)
    if groups < 1 or channels % groups or outputs % groups:
        raise Refusal(f"{channels} and {outputs} channels do not divide into {groups} groups")
    return groups


def _weights(n: LegacyLayer, b: ImportBuilder, at: int, shape: Ints) -> Value:
    """Return the filter: a blob, or since version 6 an input, in the order of that shape."""
    given = n.input(at)
    if given is None:
        return n.blob(b, "weights", shape)
    if min(shape) < 0:
        raise Refusal(f"a filter {list(shape)}")
    return given if b.shape(given) == shape else b.reshape(given, shape)


def _biased(n: LegacyLayer, b: ImportBuilder, y: Value, at: int, shape: Ints) -> Value:
    given = n.input(at)
    bias = n.optional(b, "biases", shape) if given is None else b.reshape(given, shape)
    return y if bias is None else b.add(Add(), y, bias)


@layer("Convolution")
def convolution(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Convolve with a filter [g, M/g, C/g, *K] and add a value for each output channel."""
    _, channels, *sizes = _image(n, b)
    outputs = n.integer("output")
    groups = _groups(n, channels, outputs)
    w = windows(n, tuple(sizes))
    n.ignore("input")
    shape = (outputs // groups, channels // groups, *w.kernel)
    if groups == 1:
        y = b.add(Convolution(**w.lists), n[0], _weights(n, b, 1, shape))
    else:
        y = b.add(GroupConvolution(**w.lists), n[0], _weights(n, b, 1, (groups, *shape)))
    return _biased(n, b, y, 2, (1, outputs, *(1,) * len(sizes)))


@layer("Deconvolution")
def deconvolution(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Transposed convolution with a filter [g, C/g, M/g, *K], and a bias.

    Sizes are S * (I - 1) + D * (K - 1) + 1 - pads, under same_upper and same_lower S * I.
    """
    _, channels, *sizes = _image(n, b)
    outputs = n.integer("output")
    groups = _groups(n, channels, outputs)
    w = windows(n, tuple(sizes), transposed=True)
    n.ignore("input")
    # Under same_upper and same_lower a stride longer than the kernel leaves zeros at the end.
    same = n.text("auto_pad", "").lower().startswith("same")
    spare = tuple(max(s - e, 0) for s, e in zip(w.strides, w.extents, strict=True))
    lists: dict[str, Any] = w.lists
    if same and any(spare):
        lists["output_padding"] = spare
    shape = (channels // groups, outputs // groups, *w.kernel)
    if groups == 1:
        op = ConvolutionBackpropData(**lists, semantics=n.semantics)
        y = b.add(op, n[0], _weights(n, b, 1, shape))
    else:
        grouped = GroupConvolutionBackpropData(**lists, semantics=n.semantics)
        y = b.add(grouped, n[0], _weights(n, b, 1, (groups, *shape)))
    return _biased(n, b, y, 2, (1, outputs, *(1,) * len(sizes)))


@layer("DeformableConvolution")
def deformable_convolution(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Convolve at places that the second input moves; a filter [M, C/g, *K] and a bias."""
    _, channels, *sizes = _image(n, b)
    outputs = n.integer("output")
    groups = _groups(n, channels, outputs)
    w = windows(n, tuple(sizes))
    op = standard(
        "DeformableConvolution",
        "opset1",
        **w.lists,
        group=groups,
        deformable_group=n.integer("deformable_group", 1),
    )
    shape = (outputs, channels // groups, *w.kernel)
    y = b.add(op, n[0], n[1], _weights(n, b, 2, shape))
    return _biased(n, b, y, 3, (1, outputs, *(1,) * len(sizes)))


@layer("FullyConnected InnerProduct")
def fully_connected(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x W^T + bias over the last axes together, as many as a row of W [out-size, in] takes."""
    outputs, shape = n.integer("out-size"), b.static(n[0], "the data")
    n.ignore("alpha", "beta")  # left over from Gemm, and never read
    given = n.input(1)
    size = n.elements("weights") if given is None else math.prod(b.static(given, "the weights"))
    if outputs < 1 or size % outputs or not size:
        raise Refusal(f"{size} weights do not divide into {outputs} rows")
    width = size // outputs
    w = _weights(n, b, 1, (outputs, width))
    first = next((a for a in range(1, len(shape)) if math.prod(shape[a:]) == width), None)
    if first is None:
        raise Refusal(f"a row has {width} weights, which no last axes of {list(shape)} have")
    x = n[0]
    if first < len(shape) - 1:
        x = b.add(Reshape(special_zero=True), x, b.ints(*(0,) * first, width))
    y = _biased(n, b, b.add(MatMul(transpose_b=True), x, w), 2, (1,) * first + (outputs,))
    return y if b.shape(y) == n.shape else b.reshape(y, n.shape)
