"""What a deconvolution of each dialect means, written once more, in integer terms.

Nothing is shared with irdeconv.proof.definition. Along an axis the scatter puts input s times tap k
at s*S + k*D; it is FULL = S(I-1) + D(K-1) + 1 long. Output o is element o + begin of it, zero
outside. `begin` and the output's size O are terms over open sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from irdeconv.proof.model import Array, Layer, Unproved
from irdeconv.verify.smt_arrays import list_of, text_of
from irdeconv.verify.smt_terms import SizeTerm, larger, term

Layout = tuple[int, ...]


@dataclass(frozen=True)
class AxisOfLayer:
    """What the rule of a window sees: sizes I and K, stride S, dilation D, the size asked for."""

    size: SizeTerm
    kernel: int
    stride: int
    dilation: int
    wanted: SizeTerm | None

    @property
    def reach(self) -> int:
        """What the dilated kernel covers."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def full(self) -> SizeTerm:
        """The length of the scatter."""
        return (self.size - 1) * self.stride + self.reach


Rule = Callable[[int, AxisOfLayer], tuple[SizeTerm, SizeTerm]]


@dataclass(frozen=True)
class Meaning:
    """A deconvolution: `layout` lists the axes of data and output as N, C, then the spatial ones.

    `filter_order` brings the filter to [I, O, *K], or for grouped filters to [g, I, O, *K]. Where
    an output is smaller than `least`, or larger than the scatter by more than `beyond`, the system
    refuses the layer.
    """

    strides: list[int]
    dilations: list[int]
    groups: int | None
    layout: Layout
    filter_order: Layout
    rule: Rule
    bias: int | None = None
    output_shape: int | None = None
    pads: bool = False
    activation: tuple[str, tuple[float, ...]] | None = None
    least: int = 1
    beyond: list[int] | None = None

    def functions(self) -> list[tuple[str, tuple[float, ...]]]:
        """Return what is applied last: none or one."""
        return [] if self.activation is None else [self.activation]

    def filter(self, given: Array) -> Array:
        """Return the filter as [g, C/g, M/g, *K]."""
        if given.ndim != len(self.filter_order):
            raise Unproved(f"a filter of rank {given.ndim}, not {len(self.filter_order)}")
        ordered = given.transpose(self.filter_order)
        if self.groups is None:
            return ordered
        if self.groups < 1 or ordered.shape[0] % self.groups:
            raise Unproved(f"{ordered.shape[0]} input channels in {self.groups} groups")
        return ordered.reshape(self.groups, -1, *ordered.shape[1:])


def is_deconvolution(layer: Layer) -> bool:
    """Whether a layer is a deconvolution that is known here."""
    return _rule_of(layer) is not None


def meaning(layer: Layer, rank: int) -> Meaning:
    """Return what a deconvolution of data of a rank means."""
    rule = _rule_of(layer)
    if rule is None or not 3 <= rank <= 8:
        raise Unproved(f"{layer} {layer.version} of rank {rank} is no deconvolution")
    found = rule(layer, rank - 2)
    if min(*found.strides, *found.dilations) < 1:
        raise Unproved(f"{layer} has a stride or dilation below 1")
    return found


def _rule_of(layer: Layer) -> Callable[[Layer, int], Meaning] | None:
    rules = _DIALECTS.get(layer.type, {})
    return next((r for start, r in rules.items() if layer.version.startswith(start)), None)


def _steps(layer: Layer, axes: int) -> tuple[list[int], list[int]]:
    return list_of(layer, "strides", axes, 1), list_of(layer, "dilations", axes, 1)


def _openvino(layer: Layer, axes: int) -> Meaning:
    strides, dilations = _steps(layer, axes)
    before, after = list_of(layer, "pads_begin", axes), list_of(layer, "pads_end", axes)
    extra, mode = list_of(layer, "output_padding", axes), text_of(layer, "auto_pad", "explicit")
    if mode not in ("explicit", "valid", "same_upper", "same_lower"):
        raise Unproved(f"{layer}: auto_pad is {mode!r}")

    def rule(a: int, x: AxisOfLayer) -> tuple[SizeTerm, SizeTerm]:
        explicit = mode == "explicit"
        begin = term(before[a] if explicit else 0)
        if x.wanted is None:
            end = after[a] if explicit else 0
            return begin, x.full - begin - end + extra[a]
        if _by_document(layer):
            cut = x.full - x.wanted + extra[a]
            return ((cut + 1) // 2 if mode == "same_upper" else cut // 2), x.wanted
        if mode.startswith("same"):
            cut = larger(x.full - x.wanted + extra[a], 0)
            begin = cut // 2 if mode == "same_lower" else (cut + 1) // 2
        return begin, x.wanted

    grouped = layer.type.startswith("Group")
    plain = tuple(range(axes + 2))
    shaped = 2 if len(layer.inputs) > 2 else None
    order = (*plain, axes + 2) if grouped else plain
    groups = None if grouped else 1
    return Meaning(strides, dilations, groups, plain, order, rule, output_shape=shaped, least=0)


def _by_document(layer: Layer) -> bool:
    """Whether a layer means what its document says, not what the runtime does."""
    return layer.version.endswith("/document")


def _onednn(layer: Layer, axes: int) -> Meaning:
    strides, dilations = _steps(layer, axes)
    before, after = list_of(layer, "pads_begin", axes), list_of(layer, "pads_end", axes)
    extra, mode = list_of(layer, "output_padding", axes), text_of(layer, "auto_pad", "none")
    if mode not in ("none", "valid", "same_upper", "same_lower"):
        raise Unproved(f"{layer}: auto_pad is {mode!r}")

    def rule(a: int, x: AxisOfLayer) -> tuple[SizeTerm, SizeTerm]:
        begin, end = (before[a], after[a]) if mode == "none" else (0, 0)
        if mode.startswith("same"):
            cut = max(0, x.reach - x.stride)
            begin = cut // 2 if mode == "same_upper" else cut - cut // 2
            end = cut - begin
        return term(begin), x.full - begin - end + extra[a]

    letters = layer.attributes.get("weights_format") or layer.attributes.get("filter_format")
    letters = (letters or "XIO").strip().upper()
    if sorted(letters) != ["I", "O", "X"]:
        raise Unproved(f"{layer}: the filter's format is {letters!r}")
    spatial = letters.index("X")
    places = {c: i + (axes - 1) * (i > spatial) for i, c in enumerate(letters)}
    order = (places["I"], places["O"], *range(spatial, spatial + axes))
    (groups,) = list_of(layer, "groups", 1, 1)
    last = text_of(layer, "data_format", "NXC") == "nxc"
    return Meaning(strides, dilations, groups, _layout(axes, last), order, rule, _bias(layer))


def _onnx(layer: Layer, axes: int) -> Meaning:
    strides, dilations = _steps(layer, axes)
    extra, pads = list_of(layer, "output_padding", axes), list_of(layer, "pads", 2 * axes)
    mode, shape = text_of(layer, "auto_pad", "notset"), list_of(layer, "output_shape")[-axes:]
    if mode not in ("notset", "valid", "same_upper", "same_lower"):
        raise Unproved(f"{layer}: auto_pad is {mode!r}")

    channels_last, document = "nhwc" in layer.version, _by_document(layer)
    old = channels_last or layer.version.split("/")[0] == "onnx_opset1"
    less_first = (mode == "same_upper") != (old and document)

    def rule(a: int, x: AxisOfLayer) -> tuple[SizeTerm, SizeTerm]:
        longest = x.full + extra[a]
        if not shape and not mode.startswith("same"):
            before, after = (pads[a], pads[axes + a]) if mode == "notset" else (0, 0)
            return term(before), longest - before - after
        size = term(shape[a]) if shape else x.size * x.stride
        cut = larger(longest - size, 0)
        begin = cut // 2 if less_first else (cut + 1) // 2
        return begin, size if shape else longest - cut

    (groups,) = list_of(layer, "group", 1, 1)
    return Meaning(
        strides,
        dilations,
        groups,
        _layout(axes, channels_last),
        tuple(range(axes + 2)),
        rule,
        _bias(layer),
        activation=_activation(layer) if channels_last else None,
        beyond=None
        if document or not shape
        else [e + s - 1 for e, s in zip(extra, strides, strict=True)],
    )


_FUNCTIONS = {
    "Relu": "ReLU",
    "Tanh": "Tanh",
    "Sigmoid": "Sigmoid",
    "LeakyRelu": "PReLU",
    "Clip": "Clamp",
    "HardSigmoid": "HardSigmoid",
}


def _activation(layer: Layer) -> tuple[str, tuple[float, ...]] | None:
    name = layer.attributes.get("activation", "").strip()
    if not name:
        return None
    if name not in _FUNCTIONS:
        raise Unproved(f"{layer}: the activation {name!r}")
    texts = layer.attributes.get("activation_params", "").split(",")
    values = tuple(float(t) for t in texts if t.strip())
    return _FUNCTIONS[name], () if name == "Relu" else values


def _tensorrt(layer: Layer, axes: int) -> Meaning:
    given = _plain_names(layer)
    both = list_of(given, "padding", axes)
    before = list_of(given, "pre_padding", axes) if "pre_padding" in given.attributes else both
    after = list_of(given, "post_padding", axes) if "post_padding" in given.attributes else both
    mode = given.attributes.get("padding_mode", "EXPLICIT_ROUND_DOWN").strip().removeprefix("k")

    def rule(a: int, x: AxisOfLayer) -> tuple[SizeTerm, SizeTerm]:
        begin, end = before[a], after[a]
        if mode.startswith("SAME"):
            cut = max(x.reach - x.stride, 0)
            begin = cut // 2 if mode == "SAME_UPPER" else cut - cut // 2
            end = cut - begin
        return term(begin), x.full - begin - end

    return Meaning(
        list_of(given, "stride", axes, 1),
        list_of(given, "dilation", axes, 1),
        list_of(given, "groups", 1, 1)[0],
        _layout(axes, False),
        tuple(range(axes + 2)),
        rule,
        _bias(layer),
    )


def _plain_names(layer: Layer) -> Layer:
    """Return a layer with attributes as they are called without `num_`, `nb_` and `_nd`."""
    attributes: Mapping[str, str] = {
        k.removesuffix("_nd").removeprefix("nb_").removeprefix("num_"): v
        for k, v in layer.attributes.items()
    }
    return Layer(layer.name, layer.type, layer.version, attributes)


def _canonical(layer: Layer, axes: int) -> Meaning:
    def rule(a: int, x: AxisOfLayer) -> tuple[SizeTerm, SizeTerm]:
        raise Unproved("the pads are inputs")

    layout, order = tuple(range(axes + 2)), tuple(range(axes + 3))
    return Meaning(*_steps(layer, axes), None, layout, order, rule, pads=True, least=0)


def _layout(axes: int, channels_last: bool) -> Layout:
    return (0, axes + 1, *range(1, axes + 1)) if channels_last else tuple(range(axes + 2))


def _bias(layer: Layer) -> int | None:
    return 2 if len(layer.inputs) > 2 else None


_DIALECTS: Mapping[str, Mapping[str, Callable[[Layer, int], Meaning]]] = {
    "ConvolutionBackpropData": {"opset": _openvino},
    "GroupConvolutionBackpropData": {"opset": _openvino},
    "ConvTranspose": {"onednn_graph": _onednn, "onnx_opset": _onnx, "com.ms.internal.nhwc": _onnx},
    "Deconvolution": {"tensorrt": _tensorrt, "irdeconv": _canonical},
}


DECONVOLUTIONS = tuple(_DIALECTS)


def windows(
    found: Meaning,
    sizes: Sequence[SizeTerm],
    kernel: Sequence[int],
    wanted: Sequence[SizeTerm] | None,
) -> list[tuple[SizeTerm, SizeTerm]]:
    """Return begin and O of every spatial axis."""
    asked: Sequence[SizeTerm | None] = wanted if wanted is not None else [None] * len(kernel)
    rows = zip(sizes, kernel, found.strides, found.dilations, asked, strict=True)
    return [found.rule(a, AxisOfLayer(*row)) for a, row in enumerate(rows)]
