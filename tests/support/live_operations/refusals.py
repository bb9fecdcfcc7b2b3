"""What irdeconv refuses although OpenVINO's CPU plugin computes something: each with its cause.

A cause is a contradiction among the numbers of a sample: another refusal of the same operation is
not explained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.live_operations import contradictions as at
from support.live_operations.conditions import has_index_outside, is_open, unequal_shapes
from support.live_operations.sample import Sample

ATTRIBUTES, SIZES, TYPES, VALUES = ("E210", "E304"), ("E302",), ("E303",), ("E305",)
CELLS = "RNNCell GRUCell LSTMCell RNNSequence GRUSequence LSTMSequence"


@dataclass(frozen=True)
class Refusal:
    """Operations, the codes with which they are refused, and what a sample of them has."""

    title: str
    operations: str
    codes: tuple[str, ...]
    condition: Callable[[Sample], bool]

    def fits(self, sample: Sample, reason: str) -> bool:
        named = sample.type in self.operations.split() or not self.operations
        return named and any(c in reason for c in self.codes) and self.condition(sample)


REFUSALS = (
    Refusal("booleans in place of numbers", "", TYPES, at.is_boolean),
    Refusal(
        "an attention mask of another real type",
        "ScaledDotProductAttention",
        TYPES,
        at.has_another_mask,
    ),
    Refusal(
        "a hidden_size unlike that of the state",
        CELLS,
        SIZES + ATTRIBUTES,
        at.has_another_hidden_size,
    ),
    Refusal(
        "open planes of NV12 and I420 that do not fit",
        "NV12toBGR NV12toRGB I420toBGR I420toRGB",
        SIZES,
        at.planes_differ,
    ),
    Refusal(
        "channels that are not those of the regions", "RegionYolo", SIZES, at.regions_do_not_fit
    ),
    Refusal(
        "groups, regions or offsets of DeformablePSROIPooling that do not fit",
        "DeformablePSROIPooling",
        SIZES,
        at.groups_do_not_fit,
    ),
    Refusal("columns that are not the windows of Col2Im", "Col2Im", SIZES, at.columns_do_not_fit),
    Refusal(
        "open regions and scores of other sizes", "DetectionOutput", SIZES, at.has_other_scores
    ),
    Refusal("open regions and scores of other sizes", "Proposal", SIZES, at.anchors_differ),
    Refusal(
        "open regions and scores of other sizes",
        "ExperimentalDetectronDetectionOutput",
        SIZES,
        at.scores_do_not_fit,
    ),
    Refusal(
        "open regions and scores of other sizes",
        "ExperimentalDetectronTopKROIs",
        SIZES,
        at.axis_differs(0, 1, 4),
    ),
    Refusal(
        "open regions and scores of other sizes",
        "GenerateProposals",
        SIZES,
        at.axis_differs(0, 1, 3, 4),
    ),
    Refusal(
        "an image's size of less than 3 numbers",
        "ExperimentalDetectronGenerateProposalsSingleImage",
        SIZES,
        at.axis_differs(0, 0, 3, 4),
    ),
    Refusal("open spectra that are no pairs", "ISTFT", SIZES, at.axis_differs(0, -1, 2)),
    Refusal("slopes of PReLU that fit no axis", "PReLU", SIZES, at.has_no_axis_for_slopes),
    Refusal(
        "updates of SliceScatter unlike their slice",
        "SliceScatter",
        SIZES,
        at.updates_another_slice,
    ),
    Refusal(
        "auto_broadcast none with unequal shapes",
        "",
        SIZES,
        lambda s: s.attributes.get("auto_broadcast") == "none" and unequal_shapes(s) and is_open(s),
    ),
    Refusal(
        "nothing to choose from",
        "AdaptiveAvgPool AdaptiveMaxPool GridSample",
        SIZES,
        at.is_empty(0),
    ),
    Refusal("nothing to choose from", "CTCGreedyDecoderSeqLen", SIZES + VALUES, at.is_empty(0)),
    Refusal(
        "nothing to choose from",
        "CTCGreedyDecoder CTCLoss Multinomial",
        SIZES + VALUES,
        at.is_empty(0, -1),
    ),
    Refusal(
        "nothing to choose from",
        "EmbeddingBagPacked EmbeddingBagPackedSum EmbeddingBagOffsets EmbeddingBagOffsetsSum "
        "EmbeddingSegmentsSum",
        VALUES,
        at.is_empty(0, 0),
    ),
    Refusal("levels of FakeQuantize below 2", "FakeQuantize", ATTRIBUTES, at.below(2, "levels")),
    Refusal(
        "negative pads of windows",
        "AvgPool MaxPool Col2Im",
        ATTRIBUTES,
        at.below(0, "pads_begin", "pads_end"),
    ),
    Refusal("a dilation or size below 1", "Col2Im", ATTRIBUTES, at.below(1, "dilations")),
    Refusal("a dilation or size below 1", "LRN", ATTRIBUTES, at.below(1, "size")),
    Refusal("a dilation or size below 1", "ExtractImagePatches", ATTRIBUTES, at.below(1, "sizes")),
    Refusal(
        "a dilation or size below 1", "ROIPooling", ATTRIBUTES, at.below(1, "pooled_h", "pooled_w")
    ),
    Refusal(
        "a dilation or size below 1",
        "DeformablePSROIPooling",
        ATTRIBUTES,
        at.below(1, "spatial_bins_x", "spatial_bins_y"),
    ),
    Refusal(
        "a kernel without elements",
        "Convolution GroupConvolution",
        SIZES,
        lambda s: 0 in at.shape_of(s, 1)[-(len(at.shape_of(s, 0)) - 2) :],
    ),
    Refusal(
        "a sampling_ratio below 0",
        "ROIAlign ROIAlignRotated ExperimentalDetectronROIFeatureExtractor",
        ATTRIBUTES,
        at.below(0, "sampling_ratio"),
    ),
    Refusal(
        "seeds below 0",
        "RandomUniform Multinomial",
        ATTRIBUTES,
        at.below(0, "global_seed", "op_seed"),
    ),
    Refusal(
        "classes and lengths of other types than i32 and i64",
        "CTCGreedyDecoderSeqLen",
        ATTRIBUTES,
        at.has_other_integers,
    ),
    Refusal(
        "a grid unlike the feature map",
        "ExperimentalDetectronPriorGridGenerator",
        ATTRIBUTES,
        at.has_another_grid,
    ),
    Refusal(
        "a grid of negative strides",
        "ExperimentalDetectronPriorGridGenerator",
        ATTRIBUTES,
        at.below(0, "stride_x", "stride_y"),
    ),
    Refusal("a keep_top_k below -1", "DetectionOutput", ATTRIBUTES, at.below(-1, "keep_top_k")),
    Refusal(
        "axes that are named twice",
        "Interpolate",
        ATTRIBUTES,
        lambda s: len(set(at.numbers_in(s, "axes"))) < len(at.numbers_in(s, "axes")),
    ),
    Refusal("priors and anchors without a size", "PriorBox", ATTRIBUTES, at.has_no_size),
    Refusal(
        "priors and anchors without a size",
        "Proposal",
        ATTRIBUTES,
        lambda s: not at.numbers_in(s, "scale") or not at.numbers_in(s, "ratio"),
    ),
    Refusal("batch_dims outside of the axes", "Gather", ATTRIBUTES, at.batches_outside),
    Refusal("axes_mapping that is not given", "Broadcast", ("E300",), lambda s: len(s.inputs) == 2),
    Refusal("labels that are no classes", "CTCLoss", VALUES, at.has_foreign_labels),
    Refusal(
        "indices out of range",
        "GatherND ScatterNDUpdate ScatterUpdate ScatterElementsUpdate",
        VALUES,
        has_index_outside,
    ),
    Refusal("more draws than classes", "Multinomial", VALUES, at.draws_too_many),
    Refusal(
        "regions of no image",
        "ROIPooling PSROIPooling DeformablePSROIPooling",
        VALUES,
        at.has_a_foreign_image,
    ),
    Refusal(
        "a convolution of open sizes without a window",
        "Convolution GroupConvolution",
        ("E306",),
        is_open,
    ),
    Refusal("regions of no image", "MulticlassNms", VALUES, at.counts_other_regions),
    Refusal("a Squeeze of an axis of another size than 1", "Squeeze", VALUES, at.squeezes_more),
    Refusal("a dropped axis without the element", "StridedSlice", VALUES, at.shrinks_outside),
    Refusal("strings that end outside of the bytes", "StringTensorPack", VALUES, at.packs_outside),
    Refusal("a step of Range that is cut to 0", "Range", VALUES, at.steps_by_nothing),
)


def refusal(sample: Sample, reason: str) -> str:
    """The title of what explains that irdeconv refuses a sample; empty where nothing does."""
    return next((r.title for r in REFUSALS if r.fits(sample, reason)), "")
