"""What OpenVINO refuses and irdeconv computes: words of its message, and what the layer has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from support.differential.holding import (
    asks_for_more,
    dilates_integers,
    divides_8_bits,
    empty,
    ends_behind,
    feeds_a_scalar_f64,
    finds_nothing,
    gives_places_of_bf16,
    has_no_rank,
    has_odd_default,
    has_unequal_masks,
    is_below_nothing,
    is_f64,
    is_foreign,
    is_under_pdpd,
    joins_one_and_none,
    keeps_nothing,
    lacks_lists,
    mixed,
    normalizes_others,
    odd_lists,
    opens,
    places_of_a_row,
    resizes_others,
    squares_wide_integers,
    takes_no_filter,
    takes_one_of_batches,
    transforms_by_inputs,
    transforms_more,
    varies,
    whole_axes,
)
from support.differential.judging import Finding
from support.live_operations.conditions import (
    aligned_at_the_end,
    all_constant,
    is_open,
    types,
    values_of,
)
from support.live_operations.magnitudes import is_beyond_32_bits
from support.live_operations.sample import Sample

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


NO_KERNEL = r"evaluate\(\) is not implemented for op"
ENDED = r"its process ended"
STATIC = r"non static shape|memory desc is undefined|dynamic shape"
DETECTIONS = "NonMaxSuppression|MulticlassNms|MatrixNms|NMSRotated"
LISTS = (
    "BatchToSpace|SpaceToBatch|Col2Im|Eye|EmbeddingSegmentsSum|I?R?DFT|I?STFT|EmbeddingBag.*|"
    "NMSRotated|Interpolate|RandomUniform|CumSum|SegmentMax|Scatter.*|PriorBox(Clustered)?|TopK|"
    "GatherElements|Roll"
)


def _rows(title: str, message: str, *rows: tuple[str, Callable[[Sample], bool]]) -> list[Refusal]:
    """Return one refusal for each kind of layer, with what holds there."""
    return [Refusal(title, message, layers, holds) for layers, holds in rows]


REFUSALS = (
    Refusal("layers of other systems", r"from unsupported opset", ".*", is_foreign),
    *_rows(
        "layers without a kernel",
        NO_KERNEL,
        ("Selu|HardSigmoid", varies(1, 2)),
        ("Swish|Reduce.*", varies(1)),
        ("LRN", normalizes_others),
        (CONVOLUTIONS, lambda s: opens(s.inputs[1])),
        ("BinaryConvolution|(Deformable)?PSROIPooling", is_open),
        ("BinaryConvolution", is_below_nothing),
        ("OneHot", lambda s: values_of(s, 0).dtype.itemsize < 4),
        ("GroupNormalization", lambda s: "bf16" in types(s)),
        ("MaxPool", gives_places_of_bf16),
        ("MVN", varies(1)),
        ("SquaredDifference", squares_wide_integers),
        (".*", divides_8_bits),
    ),
    *_rows(
        "ranks that are not known",
        r"doesn't support \w+ operation with dynamic rank",
        ("(Uns|S)queeze|Reduce.*", varies(1)),
        (".*", has_no_rank),
    ),
    Refusal(
        "deconvolutions of open sizes",
        r"nodes/deconv\.cpp|DnnlBlockedMemoryDesc|dnnl_blocked_memory_desc|is undefined|"
        r"non static shape|deconvolution forward propagation primitive",
        DECONVOLUTIONS,
        lambda s: is_open(s) or varies(2)(s),
    ),
    Refusal(
        "an Interpolate of batches or channels",
        r"only supports resize on spatial",
        "Interpolate",
        resizes_others,
    ),
    Refusal(
        "an Interpolate that is folded along other axes than the spatial ones",
        r"Axes are not correct!|exactly two \(HW\) axes",
        "Interpolate",
        lambda s: resizes_others(s) and (all_constant(s) or varies(1, 2, 3)(s) or is_open(s)),
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
        "Fourier transforms of f64", r"FFT op input element type must be", "I?R?DFT|I?STFT", is_f64
    ),
    Refusal(
        "real transforms whose axes or sizes are inputs",
        r"non static shape|its process ended",
        "I?RDFT",
        transforms_by_inputs,
    ),
    Refusal(
        "detections of f64", r"Expected bf16, fp16 or fp32 as element type", DETECTIONS, is_f64
    ),
    Refusal(
        "detections of constants",
        r"The memory desc is undefined",
        f"{DETECTIONS}|GenerateProposals",
        all_constant,
    ),
    Refusal(
        "lists of another integer type than i32 and i64, or of two types",
        r"element type \(?\w*\)? ?must|must have same element type|element types? (of .* )?must|"
        r"[Tt]ype (of .* )?(must|should) be|Expected i32 or i64|element type of .* be i\d+ or i\d+|"
        r"not representable as pointer to i\d+|must be of int32 or int64|must have int32 or int64",
        LISTS,
        odd_lists,
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
        r"Argument shapes are inconsistent|Eltwise executor got invalid input/output dims|"
        r"Eltwise shape infer input shapes dim index: \d+ mismatch",
        ".*",
        aligned_at_the_end,
    ),
    Refusal(
        "pdpd of a 1 beside nothing",
        r"Argument shapes are inconsistent",
        ".*",
        joins_one_and_none,
    ),
    Refusal(
        "a Gather whose axis is found while it runs",
        r"axis value is not set|incorrect input parameter axis value|its process ended",
        "Gather",
        varies(2),
    ),
    Refusal("a Gather of one constant place in batches", ENDED, "Gather", takes_one_of_batches),
    Refusal("a Slice whose axes are an input", ENDED, "Slice", varies(4)),
    Refusal("a Tile of nothing", ENDED, "Tile", empty),
    Refusal("a GroupNormalization of nothing", ENDED, "GroupNormalization", empty),
    Refusal(
        "negative pads",
        r"deconvolution forward propagation primitive",
        DECONVOLUTIONS,
        is_below_nothing,
    ),
    Refusal(
        "a Broadcast under pdpd",
        r"index '\d+' out of range|Accessing out-of-range dimension",
        "Broadcast",
        is_under_pdpd,
    ),
    Refusal("a Select under pdpd", r"Unsupported auto broadcast spec", "Select", is_under_pdpd),
    Refusal(
        "a pooling of integers with dilations",
        r"Supported primitive descriptors list is empty",
        "AvgPool|MaxPool",
        dilates_integers,
    ),
    Refusal(
        "an EmbeddingBag whose default index is below -1",
        r"invalid embedding bag index",
        "Embedding.*",
        has_odd_default,
    ),
    Refusal("detections that may keep nothing", f"{STATIC}|{ENDED}", DETECTIONS, keeps_nothing),
    Refusal(
        "detections of bf16",
        r"unsupported '\w+' input precision: bf16",
        DETECTIONS,
        lambda s: "bf16" in types(s),
    ),
    Refusal(
        "detections of open boxes",
        r"unsupported 'boxes' input 3rd dimension size",
        DETECTIONS,
        lambda s: opens(s.inputs[0]),
    ),
    Refusal(
        "MatrixNms that finds nothing",
        r"Total number of boxes is less or equal than 0",
        "MatrixNms",
        finds_nothing,
    ),
    Refusal(
        "an EmbeddingBagPacked of no indices",
        r"Invalid embedding bag index",
        "EmbeddingBagPacked(Sum)?",
        lambda s: not values_of(s, 1).size,
    ),
    Refusal(
        "a OneHot of a scalar whose depth is an input",
        r"incorrect number of input/output dimensions",
        "OneHot",
        lambda s: not values_of(s, 0).ndim and varies(1)(s),
    ),
    Refusal(
        "a BatchNormInference without channels",
        r"Channel count must be at least 1",
        "BatchNormInference",
        empty,
    ),
    Refusal("FakeConvert of f64", r"must be a bf16, f16, f32 but got: f64", "FakeConvert", is_f64),
    Refusal("a scalar input of f64", r"Can't set the input tensor", ".*", feeds_a_scalar_f64),
    Refusal(
        "a Unique whose axis is found while it runs",
        r"must be connected to a Constant",
        "Unique",
        varies(1),
    ),
    Refusal("a Unique of nothing", r"non static shape", "Unique", empty),
    Refusal(
        "EmbeddingBag with an offset behind the last index",
        r"Offset value exceeds indices size",
        "EmbeddingBagOffsets(Sum)?",
        ends_behind,
    ),
    Refusal("an EmbeddingBagPacked of open sizes", STATIC, "EmbeddingBagPacked(Sum)?", is_open),
    Refusal(
        "a TopK of no elements",
        r"K \(0\) must be greater or equal to 1",
        "TopK",
        lambda s: not values_of(s, 1).any(),
    ),
    Refusal(
        "a real transform of whole axes",
        r"cannot create std::vector larger than max_size",
        "I?RDFT",
        whole_axes,
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
        varies(0),
    ),
    Refusal(
        "a ROIPooling whose pooled_h and pooled_w are 0",
        r"Pooled size attributes",
        "ROIPooling",
        lambda s: "0" in (s.attributes.get("pooled_h", "0"), s.attributes.get("pooled_w", "0")),
    ),
    Refusal(
        "a BinaryConvolution that its kernel does not take",
        r"_u1_[\w.]+' could not create reorder primitive|can't convert from: \w+ precision to: u1",
        "BinaryConvolution",
        takes_no_filter,
    ),
    Refusal(
        "Convolution with negative pads",
        r"could not construct a memory descriptor|object is not initialized",
        "(Group)?Convolution",
        is_below_nothing,
    ),
    Refusal(
        "places of AdaptiveMaxPool as i64",
        r"does not support i64 for use with oneDNN",
        "AdaptiveMaxPool",
        lambda s: s.attributes.get("index_element_type", "i64") == "i64",
    ),
    Refusal(
        "regions behind an image of -1",
        r"realRois must be greater than 0",
        "ROIAlign",
        lambda s: values_of(s, 2)[0] == -1,
    ),
    Refusal(
        "an AvgPool of opset16 without strides or dilations",
        r"Expected strides size to be equal to",
        "AvgPool",
        lacks_lists,
    ),
    Refusal(
        "a MaxPool without strides",
        r"Expected strides size to be equal to",
        "MaxPool",
        lambda s: "strides" not in s.attributes,
    ),
    Refusal(
        "integers beyond 32 bits",
        r"overflow while converting elements to byte size",
        "Range",
        is_beyond_32_bits,
    ),
    Refusal(
        "a GatherTree of bf16",
        r"incorrect input/output data precision",
        "GatherTree",
        lambda s: "bf16" in types(s),
    ),
    Refusal(
        "masks of StridedSlice of several lengths",
        r"All masks of StridedSlice must have the same size",
        "StridedSlice",
        has_unequal_masks,
    ),
    Refusal("places of MaxPool along one axis", r"kernel_dilations=", "MaxPool", places_of_a_row),
    Refusal(
        "layers of several floating-point types",
        r"",
        "GroupNormalization|FakeQuantize",
        mixed,
    ),
    Refusal(
        "layers of nothing that are not compiled",
        r"",
        "MatMul|(LSTM|GRU|RNN)(Cell|Sequence)|BinaryConvolution|NonMaxSuppression|ISTFT|"
        f"{CONVOLUTIONS}",
        empty,
    ),
)
