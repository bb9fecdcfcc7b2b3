"""What a source deconvolution means, read from its attributes: nothing is shared with the lowering.

Every dialect's layer is y[o] = full[o + begin] for 0 <= o < O (0 outside the scatter), where
full[s*S + k*D] collects x[s] * w[k]; then bias, then activation. The rules of each system that give
`begin` and O are written here once more, axis by axis in plain integers.

Axis letters: N batch, C input channels, M output channels, I input size, O output size, K kernel,
S stride, D dilation, g groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from irdeconv.graph import Graph, Node
from irdeconv.proof.model import Unproved as Unproved
from irdeconv.spec import Array
from irdeconv.verify.proof.attributes import Ints, attributes_of

Activation = tuple[str, tuple[float, ...]]


@dataclass(frozen=True)
class Extent:
    """One axis of a layer: `size` I, `stride`, `dilation`, `kernel` K, `wanted` output size."""

    size: int
    stride: int
    dilation: int
    kernel: int
    wanted: int | None = None

    @property
    def reach(self) -> int:
        """DK = D(K-1) + 1."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def full(self) -> int:
        """S(I-1) + DK, the size of the scatter."""
        return self.stride * (self.size - 1) + self.reach


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A deconvolution layer, independent of sizes.

    `data_axes` lists the data's axes as N, C, then the spatial ones; the output has the same
    layout. `filter_axes` lists the filter's axes as [g,] C, M/g, *K, without g for `splits` (then C
    is cut into groups). `window(axis, extent)` returns (begin, O). `bias` and `output_shape` are
    input ports or None. `activation` is the operation applied last, with its parameters.
    `is_sized` says that the output's size is an attribute: `begin` changes with the input's size.
    """

    node: Node
    strides: Ints
    dilations: Ints
    groups: int | None
    data_axes: Ints
    filter_axes: Ints
    window: Callable[[int, Extent], tuple[int, int]]
    bias: int | None = None
    output_shape: int | None = None
    activation: Activation | None = None
    is_sized: bool = False

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    def canonical_filter(self, filter: Array) -> Array:
        """Return the filter as [g, C/g, M/g, *K]."""
        ordered = filter.transpose(self.filter_axes)
        if self.groups is None:
            return ordered
        return ordered.reshape(self.groups, -1, *ordered.shape[1:])

    def canonical_shape(self, filter: Ints) -> Ints:
        """Return the shape of the canonical filter."""
        return self.canonical_filter(np.broadcast_to(False, filter)).shape

    def extents(self, data: Ints, filter: Ints, wanted: Ints | None) -> list[Extent]:
        """Return every spatial axis for exact shapes of the data and of the canonical filter."""
        size = [data[a] for a in self.data_axes[2:]]
        sizes = wanted or (None,) * self.axes
        rows = zip(size, self.strides, self.dilations, filter[3:], sizes, strict=True)
        return [Extent(*row) for row in rows]

    def windows(self, data: Ints, filter: Ints, wanted: Ints | None) -> list[tuple[int, int]]:
        """Return (begin, O) of every spatial axis."""
        return [self.window(a, e) for a, e in enumerate(self.extents(data, filter, wanted))]


def define(graph: Graph, node: Node) -> Definition:
    """Return the definition of a deconvolution node of any dialect, canonical one included.

    Raises Unproved where its rank is not known or the operation is none of them.
    """
    rule = _RULES.get((node.type, _family(node)))
    if rule is None:
        raise Unproved(f"{node.type} {node.op.version} is no deconvolution that is known here")
    shape = graph.spec(graph.inputs_of(node.id)[0]).shape
    if shape is None:
        raise Unproved("the rank of the data is unknown")
    return rule(graph, node, len(shape) - 2)


def is_defined(node: Node) -> bool:
    """Whether a node is a deconvolution."""
    return (node.type, _family(node)) in _RULES


def _family(node: Node) -> str:
    version = node.op.version
    for family in ("opset", "onednn_graph", "onnx_opset", "com.ms.internal.nhwc", "tensorrt"):
        if version.startswith(family):
            return family
    return "irdeconv" if version.startswith("irdeconv") else version


def _filled(values: Ints, axes: int, default: int) -> Ints:
    return tuple(values) or (default,) * axes


def _halves(total: int, small_first: bool) -> int:
    """Return the share of a total that goes to the begin."""
    return total // 2 if small_first else total - total // 2


def _openvino(graph: Graph, node: Node, axes: int) -> Definition:
    op = attributes_of(node)
    begin, end = _filled(op.pads_begin, axes, 0), _filled(op.pads_end, axes, 0)
    extra = _filled(op.output_padding, axes, 0)
    mode, document = op.auto_pad, op.semantics == "document"

    def window(a: int, e: Extent) -> tuple[int, int]:
        if e.wanted is None:
            b, q = (begin[a], end[a]) if mode == "explicit" else (0, 0)
            return b, e.full - b - q + extra[a]
        total = e.full - e.wanted + extra[a]
        if document:
            return _halves(total, mode != "same_upper"), e.wanted
        if mode in ("explicit", "valid"):
            return (begin[a] if mode == "explicit" else 0), e.wanted
        return _halves(max(total, 0), mode == "same_lower"), e.wanted

    grouped = node.type.startswith("Group")
    return Definition(
        node=node,
        strides=_filled(op.strides, axes, 1),
        dilations=_filled(op.dilations, axes, 1),
        groups=None if grouped else 1,
        data_axes=tuple(range(axes + 2)),
        filter_axes=tuple(range(axes + 3 if grouped else axes + 2)),
        window=window,
        output_shape=2 if len(graph.inputs_of(node.id)) > 2 else None,
    )


def _onednn(graph: Graph, node: Node, axes: int) -> Definition:
    op = attributes_of(node)
    extra = _filled(op.output_padding, axes, 0)

    def window(a: int, e: Extent) -> tuple[int, int]:
        if op.auto_pad == "none":
            b, q = op.pads_begin[a], op.pads_end[a]
        elif op.auto_pad == "valid":
            b = q = 0
        else:
            total = max(0, e.reach - e.stride)
            b = _halves(total, op.auto_pad == "same_upper")
            q = total - b
        return b, e.full - b - q + extra[a]

    layout = op.weights_format or op.filter_format or "XIO"
    places = {"X": list(range(axes)), "I": [0], "O": [0]}
    at = 0
    for letter in layout:
        places[letter] = [at + i for i in range(len(places[letter]))]
        at += len(places[letter])
    last = op.data_format == "NXC"
    return Definition(
        node=node,
        strides=op.strides,
        dilations=op.dilations,
        groups=op.groups,
        data_axes=_data_axes(axes, last),
        filter_axes=(*places["I"], *places["O"], *places["X"]),
        window=window,
        bias=_bias(graph, node),
    )


def _data_axes(axes: int, channels_last: bool) -> Ints:
    return (0, axes + 1, *range(1, axes + 1)) if channels_last else tuple(range(axes + 2))


def _bias(graph: Graph, node: Node) -> int | None:
    return 2 if len(graph.inputs_of(node.id)) > 2 else None


_ACTIVATIONS = {
    "Relu": "ReLU",
    "Tanh": "Tanh",
    "Sigmoid": "Sigmoid",
    "LeakyRelu": "PReLU",
    "Clip": "Clamp",
    "HardSigmoid": "HardSigmoid",
}


def _onnx(graph: Graph, node: Node, axes: int) -> Definition:
    op = attributes_of(node)
    pads, extra = _filled(op.pads, 2 * axes, 0), _filled(op.output_padding, axes, 0)
    nhwc = _family(node) == "com.ms.internal.nhwc"
    old = nhwc or op.version == "onnx_opset1"
    small_first = (op.auto_pad == "SAME_UPPER") != (old and op.semantics == "document")

    def window(a: int, e: Extent) -> tuple[int, int]:
        longest = e.full + extra[a]
        if op.output_shape:
            size = op.output_shape[len(op.output_shape) - axes + a]
            return _halves(max(0, longest - size), small_first), size
        if op.auto_pad.startswith("SAME"):
            total = max(0, longest - e.size * e.stride)
            return _halves(total, small_first), longest - total
        b, q = (0, 0) if op.auto_pad == "VALID" else (pads[a], pads[axes + a])
        return b, longest - b - q

    name = op.activation if nhwc else None
    parameters = () if name in (None, "Relu") else tuple(op.activation_params)
    return Definition(
        node=node,
        strides=_filled(op.strides, axes, 1),
        dilations=_filled(op.dilations, axes, 1),
        groups=op.group,
        data_axes=_data_axes(axes, nhwc),
        filter_axes=tuple(range(axes + 2)),
        window=window,
        bias=_bias(graph, node),
        activation=None if name is None else (_ACTIVATIONS[name], parameters),
        is_sized=bool(op.output_shape),
    )


def _tensorrt(graph: Graph, node: Node, axes: int) -> Definition:
    op = attributes_of(node)
    both = _filled(op.padding, axes, 0)
    pre, post = op.pre_padding or both, op.post_padding or both
    mode = op.padding_mode.removeprefix("k")

    def window(a: int, e: Extent) -> tuple[int, int]:
        if not mode.startswith("SAME"):
            return pre[a], e.full - pre[a] - post[a]
        total = max(e.reach - e.stride, 0)
        return _halves(total, mode == "SAME_UPPER"), e.full - total

    return Definition(
        node=node,
        strides=_filled(op.stride, axes, 1),
        dilations=_filled(op.dilation, axes, 1),
        groups=op.num_groups,
        data_axes=_data_axes(axes, channels_last=False),
        filter_axes=tuple(range(axes + 2)),
        window=window,
        bias=_bias(graph, node),
    )


def _canonical(graph: Graph, node: Node, axes: int) -> Definition:
    op = attributes_of(node)
    pads = [graph.spec(v).known for v in graph.inputs_of(node.id)[2:4]]
    if pads[0] is None or pads[1] is None:
        raise Unproved("the pads of the source layer are known only at run time")
    begin, end = (tuple(int(p) for p in np.asarray(v).reshape(-1)) for v in pads)

    def window(a: int, e: Extent) -> tuple[int, int]:
        return begin[a], e.full - begin[a] - end[a]

    return Definition(
        node=node,
        strides=op.strides,
        dilations=op.dilations,
        groups=None,
        data_axes=tuple(range(axes + 2)),
        filter_axes=tuple(range(axes + 3)),
        window=window,
    )


_RULES: dict[tuple[str, str], Callable[[Graph, Node, int], Definition]] = {
    ("ConvolutionBackpropData", "opset"): _openvino,
    ("GroupConvolutionBackpropData", "opset"): _openvino,
    ("ConvTranspose", "onednn_graph"): _onednn,
    ("ConvTranspose", "onnx_opset"): _onnx,
    ("ConvTranspose", "com.ms.internal.nhwc"): _onnx,
    ("Deconvolution", "tensorrt"): _tensorrt,
    ("Deconvolution", "irdeconv"): _canonical,
}
