"""What OpenVINO refuses and irdeconv computes: words of its message, and what the layer has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.op import infer_op, lookup
from irdeconv.spec import DYNAMIC, Spec
from support.differential.judging import Finding
from support.live_operations.conditions import (
    aligned_at_the_end,
    all_constant,
    integers,
    is_open,
    op_of,
    types,
    unequal_shapes,
    values_of,
)
from support.live_operations.sample import Given, Sample

DECONVOLUTIONS = r"(Group)?ConvolutionBackpropData"
CONVOLUTIONS = r"(Group)?Convolution(BackpropData)?"


@dataclass(frozen=True)
class Refusal:
    """The title, words of OpenVINO's message, types of layers, and what holds of such a layer."""

    title: str
    message: str
    layers: str
    holds: Callable[[Sample], bool]

    def fits(self, finding: Finding, sample: Sample) -> bool:
        named = re.search(self.message, finding.detail) and re.fullmatch(self.layers, sample.type)
        return bool(named) and self.holds(sample)


def empty(s: Sample) -> bool:
    return any(0 in g.tensor.values.shape for g in s.inputs)


def asks_for_more(s: Sample) -> bool:
    """Whether TopK is to take more elements than its axis has."""
    k, axis = int(values_of(s, 1).reshape(-1)[0]), int(s.attributes.get("axis", 0))
    return k > values_of(s, 0).shape[axis]


def transforms_more(s: Sample) -> bool:
    """Whether a real transform goes over more than its data have; the last axis has pairs."""
    if len(s.inputs) < 3:
        return False
    shape, axes, sizes = values_of(s, 0).shape, *(values_of(s, i).reshape(-1) for i in (1, 2))
    inverse = s.type == "IRDFT"
    rows = zip(axes.tolist(), sizes.tolist(), strict=True)
    held = [(shape[:-1] if inverse else shape)[a] for a, _ in rows]
    needed = sizes.tolist()
    if inverse and needed:
        needed[-1] = needed[-1] // 2 + 1
    return any(n > h for n, h in zip(needed, held, strict=True))


def transforms_by_inputs(s: Sample) -> bool:
    """Whether axes or sizes of a transform are inputs, though its data are of exact size."""
    return not all(g.constant for g in s.inputs[1:]) and not _is_open(s.inputs[0])


def _is_open(g: Given) -> bool:
    return not g.constant and (g.declared is None or -1 in g.declared)


def _varies(*ports: int) -> Callable[[Sample], bool]:
    """Return whether one of these inputs is no constant."""
    return lambda s: any(i < len(s.inputs) and not s.inputs[i].constant for i in ports)


def _has_no_rank(s: Sample) -> bool:
    """Whether the number of axes of an output is not known beforehand."""
    cls = lookup(s.type, s.version)
    if cls is None:
        return False
    specs = [_declared(g) for g in s.inputs]
    return any(out.shape is None for out in infer_op(op_of(s), tuple(specs)))


def _declared(g: Given) -> Spec:
    spec = g.tensor.spec
    if g.constant or g.declared is None:
        return spec if g.constant else Spec(spec.dtype, None)
    return Spec(spec.dtype, tuple(DYNAMIC if d < 0 else d for d in g.declared))


def _odd_lists(s: Sample) -> bool:
    """Whether lists are of other integer types than i32 and i64, or of two types."""
    listed = s.inputs if s.type in ("Eye", "PriorBox", "PriorBoxClustered") else s.inputs[1:]
    kinds = {g.tensor.dtype.name for g in listed if g.tensor.dtype.is_integral}
    return len(kinds) > 1 or not kinds <= {"i32", "i64"}


def _is_f64(s: Sample) -> bool:
    return "f64" in types(s)


def _mixed(s: Sample) -> bool:
    return len({g.tensor.dtype.name for g in s.inputs if g.tensor.dtype.is_real}) > 1


def _is_foreign(s: Sample) -> bool:
    return not op_of(s).standard


def _is_below_nothing(s: Sample) -> bool:
    """Whether pads are negative."""
    op: Any = op_of(s)
    return min((*op.pads_begin, *op.pads_end), default=0) < 0


def _whole_axes(s: Sample) -> bool:
    return -1 in values_of(s, 2).reshape(-1).tolist()[:-1]


def _ends_behind(s: Sample) -> bool:
    """Whether an offset of a bag is not below the number of indices."""
    return bool(np.any(values_of(s, 2).astype(np.int64) >= values_of(s, 1).size))


def _resizes_others(s: Sample) -> bool:
    """Whether Interpolate goes over other axes than all the spatial ones."""
    return _axes(s) != set(range(2, values_of(s, 0).ndim))


def _axes(s: Sample) -> set[int]:
    rank, opset = values_of(s, 0).ndim, int(s.version.removeprefix("opset"))
    port = 3 if opset < 11 else 2
    if port >= len(s.inputs):
        return set(range(rank))
    return {int(a) % rank for a in values_of(s, port).reshape(-1)}


def _places_of_a_row(s: Sample) -> bool:
    return s.outputs == 2 and values_of(s, 0).ndim == 3


def _joins_one_and_none(s: Sample) -> bool:
    """Whether pdpd meets an axis of size 0 with one of size 1."""
    a, b = (values_of(s, i).shape for i in (0, 1))
    pdpd = s.attributes.get("auto_broadcast") == "pdpd" and len(a) == len(b)
    return pdpd and any((x, y) == (0, 1) for x, y in zip(a, b, strict=True))


def _divides_8_bits(s: Sample) -> bool:
    return s.attributes.get("auto_broadcast") == "pdpd" and integers(s, 8) and unequal_shapes(s)


def _takes_no_filter(s: Sample) -> bool:
    """Whether the data are no f32 or are open, or the filter does."""
    return is_open(s) or s.inputs[0].tensor.dtype.name != "f32" or all_constant(s)


NO_KERNEL = r"evaluate\(\) is not implemented for op"
STATIC = r"non static shape|memory desc is undefined|dynamic shape"
DETECTIONS = "NonMaxSuppression|MulticlassNms|MatrixNms|NMSRotated"
LISTS = (
    "BatchToSpace|SpaceToBatch|Col2Im|Eye|EmbeddingSegmentsSum|I?R?DFT|I?STFT|EmbeddingBag.*|"
    "NMSRotated|Interpolate|RandomUniform|CumSum|SegmentMax|Scatter.*|PriorBox(Clustered)?"
)


def _rows(title: str, message: str, *rows: tuple[str, Callable[[Sample], bool]]) -> list[Refusal]:
    """Return one refusal for each kind of layer, with what holds there."""
    return [Refusal(title, message, layers, holds) for layers, holds in rows]


REFUSALS = (
    Refusal("layers of other systems", r"from unsupported opset", ".*", _is_foreign),
    *_rows(
        "layers without a kernel",
        NO_KERNEL,
        ("Selu|HardSigmoid", _varies(1, 2)),
        ("Swish|LRN|Reduce.*", _varies(1)),
        (CONVOLUTIONS, lambda s: _is_open(s.inputs[1])),
        ("BinaryConvolution", is_open),
        ("Divide", _divides_8_bits),
    ),
    *_rows(
        "ranks that are not known",
        r"doesn't support \w+ operation with dynamic rank",
        ("Squeeze|Reduce.*", _varies(1)),
        (".*", _has_no_rank),
    ),
    Refusal(
        "deconvolutions of open sizes",
        r"nodes/deconv\.cpp|DnnlBlockedMemoryDesc|dnnl_blocked_memory_desc|is undefined|"
        r"non static shape|deconvolution forward propagation primitive",
        DECONVOLUTIONS,
        lambda s: is_open(s) or _varies(2)(s),
    ),
    Refusal(
        "an Interpolate of batches or channels",
        r"only supports resize on spatial",
        "Interpolate",
        _resizes_others,
    ),
    Refusal(
        "linear_onnx of constants along other axes than the spatial ones",
        r"Axes are not correct!",
        "Interpolate",
        lambda s: all_constant(s) and _resizes_others(s),
    ),
    Refusal(
        "a Roll of several axes by one shift",
        r"'shift' and 'axes' dimensions mismatch",
        "Roll",
        lambda s: values_of(s, 1).size == 1 < values_of(s, 2).size,
    ),
    Refusal(
        "a real transform of more than the data has",
        r"Signal size greater than input size",
        "RDFT",
        transforms_more,
    ),
    Refusal(
        "Fourier transforms of f64", r"FFT op input element type must be", "I?R?DFT|I?STFT", _is_f64
    ),
    Refusal(
        "real transforms whose axes or sizes are inputs",
        r"non static shape|its process ended",
        "I?RDFT",
        transforms_by_inputs,
    ),
    Refusal(
        "detections of f64", r"Expected bf16, fp16 or fp32 as element type", DETECTIONS, _is_f64
    ),
    Refusal("detections of constants", r"The memory desc is undefined", DETECTIONS, all_constant),
    Refusal(
        "lists of another integer type than i32 and i64, or of two types",
        r"element type \(?\w*\)? ?must|must have same element type|element types? (of .* )?must|"
        r"[Tt]ype (of .* )?(must|should) be|Expected i32 or i64|element type of .* be i\d+ or i\d+|"
        r"is not representable as pointer to i\d+",
        LISTS,
        _odd_lists,
    ),
    Refusal(
        "a reflecting Pad of an empty axis",
        r"REFLECT padding mode requires",
        "Pad",
        lambda s: 0 in values_of(s, 0).shape,
    ),
    Refusal(
        "a pooling of no batches",
        r"Batch size is zero",
        "AvgPool|MaxPool|Adaptive.*",
        lambda s: values_of(s, 0).shape[0] == 0,
    ),
    Refusal(
        "constants that OpenVINO folds in another type",
        r"assigned value out of range for",
        "Negative",
        lambda s: s.inputs[0].tensor.dtype.kind == "uint",
    ),
    Refusal(
        "reductions without a kernel",
        r"incorrect number of input/output dim",
        "Reduce.*",
        lambda s: not values_of(s, 0).ndim or not values_of(s, 1).size,
    ),
    Refusal(
        "pdpd of differences, quotients, comparisons, logic and bits",
        r"Argument shapes are inconsistent",
        ".*",
        aligned_at_the_end,
    ),
    Refusal(
        "pdpd of a 1 beside nothing",
        r"Argument shapes are inconsistent",
        ".*",
        _joins_one_and_none,
    ),
    Refusal(
        "a Gather whose axis is found while it runs", r"axis value is not set", "Gather", _varies(2)
    ),
    Refusal(
        "a Unique whose axis is found while it runs",
        r"must be connected to a Constant",
        "Unique",
        _varies(1),
    ),
    Refusal("a Unique of nothing", r"non static shape", "Unique", empty),
    Refusal(
        "EmbeddingBag with an offset behind the last index",
        r"Offset value exceeds indices size",
        "EmbeddingBagOffsets(Sum)?",
        _ends_behind,
    ),
    Refusal("an EmbeddingBagPacked of open sizes", STATIC, "EmbeddingBagPacked(Sum)?", is_open),
    Refusal(
        "a TopK of no elements",
        r"K \(0\) must be greater or equal to 1",
        "TopK",
        lambda s: not values_of(s, 1).any(),
    ),
    Refusal(
        "an IRDFT of whole axes",
        r"cannot create std::vector larger than max_size",
        "IRDFT",
        _whole_axes,
    ),
    Refusal("a TopK of more than there are", r"exceeds the axis dimension", "TopK", asks_for_more),
    Refusal(
        "an Einsum with spaces in its equation",
        r"Input subscript of Einsum",
        "Einsum",
        lambda s: " " in s.attributes["equation"],
    ),
    Refusal(
        "priors whose size is no constant",
        r"Unexpected op type in PriorBox shape inf",
        "PriorBox",
        _varies(0),
    ),
    Refusal(
        "a ROIPooling whose pooled_h and pooled_w are 0",
        r"Pooled size attributes",
        "ROIPooling",
        lambda s: "0" in (s.attributes.get("pooled_h", "0"), s.attributes.get("pooled_w", "0")),
    ),
    Refusal(
        "a BinaryConvolution that its kernel does not take",
        r"_u1_\w+' could not create reorder primitive|can't convert from: \w+ precision to: u1",
        "BinaryConvolution",
        _takes_no_filter,
    ),
    Refusal(
        "Convolution with negative pads",
        r"could not construct a memory descriptor|object is not initialized",
        "(Group)?Convolution",
        _is_below_nothing,
    ),
    Refusal(
        "places of AdaptiveMaxPool as i64",
        r"does not support i64 for use with oneDNN",
        "AdaptiveMaxPool",
        lambda s: s.attributes.get("index_element_type", "i64") == "i64",
    ),
    Refusal("places of MaxPool along one axis", r"kernel_dilations=", "MaxPool", _places_of_a_row),
    Refusal(
        "layers of several floating-point types",
        r"",
        "GroupNormalization|FakeQuantize",
        _mixed,
    ),
    Refusal(
        "layers of nothing that are not compiled",
        r"",
        "MatMul|LSTMCell|GRUCell|RNNCell|BinaryConvolution|NonMaxSuppression|ISTFT",
        empty,
    ),
)
