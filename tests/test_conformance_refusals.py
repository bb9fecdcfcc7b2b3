"""What irdeconv refuses and OpenVINO computes: each explanation fits one contradiction only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from op_cases import Tensor, boolean, count, f16, f32, i32, i64, u8
from support.live_operations import ours
from support.live_operations.refusals import REFUSALS, refusal
from support.live_operations.sample import Given, Sample, given

Row = tuple[str, str, tuple[Tensor | Given, ...]]
ROW, MATRIX, IMAGE = f32([1, 2]), count((2, 3), 1), count((1, 1, 4, 4), 1)
NOTHING = f32(np.zeros((0, 2)))
ONE, ZERO, SCALARS = i64([1]), i64([0]), (f32(0), f32(1), f32(0), f32(1))
POOL = "kernel=2,2 strides=1,1 exclude-pad=false"
WINDOWS = "strides=1,1 dilations=1,1 pads_begin=0,0 pads_end=0,0"
REGIONS = "coords=4 classes=2 num=2 do_softmax=true"
GROUPS = "output_dim=2 spatial_scale=1 group_size=2 mode=bilinear_deformable"
PART = f"{GROUPS} part_size=3 trans_std=0.1 spatial_bins_x=1"
ROI, ALIGN = f32([[0, 0, 0, 3, 3]]), "pooled_h=2 pooled_w=2 spatial_scale=1.0 mode=avg"
DETECTION = (
    "score_threshold=0.2 nms_threshold=0.5 max_delta_log_wh=2 num_classes=2 post_nms_count=1 "
    "max_detections_per_image=3 deltas_weights=10,10,5,5"
)
PROPOSALS = "min_size=0 nms_threshold=0.5 post_nms_count=5 pre_nms_count=10"
BOXES = "base_size=16 pre_nms_topn=4 post_nms_topn=1 nms_thresh=0.5 feat_stride=16 ratio=1"
SCORES = (f32([[[[0.5]], [[0.5]]]]), f32(np.zeros((1, 4, 1, 1))), f32([16, 16, 1]))
GRID, DETECTED = (count((1, 4)), count((1, 5, 2, 3)), count((1, 3, 8, 6))), "num_classes=2"
SLICE = "begin_mask=0 end_mask=0 new_axis_mask=0 ellipsis_mask=0"


def zeros(*shape: int) -> Tensor:
    return f32(np.zeros(shape))


def fixed(t: Tensor) -> Given:
    return given(t)


def constant(t: Tensor) -> Given:
    return given(t, constant=True)


def sample_of(row: Row) -> Sample:
    """A layer of inputs that are open in every axis, unless they are given otherwise."""
    (kind, version), attributes, tensors = row[0].split("-"), row[1], row[2]
    texts = dict(text.split("=") for text in attributes.split())
    ports = tuple(
        t if isinstance(t, Given) else Given(t, declared=(-1,) * t.values.ndim) for t in tensors
    )
    return Sample(kind, f"opset{version}", texts, ports)


def cell(rows: int) -> tuple[Tensor, ...]:
    return zeros(2, 4), zeros(2, rows), zeros(rows, 4), zeros(rows, rows), zeros(rows)


def planes(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(u8(np.zeros(s)) for s in shapes)


LABELLED = (zeros(1, 2, 3), i32([2]))
TABLE = {
    "booleans": (("CumSum-3", "", (boolean([1, 0]), i64(0))), "E303"),
    "booleans in place": (("SoftPlus-4", "", (boolean([]),)), "E303"),
    "an attention mask": (
        ("ScaledDotProductAttention-13", "causal=false", (*(zeros(1, 2, 3),) * 3, f16([[0, 0]]))),
        "E303",
    ),
    "a hidden_size": (("RNNCell-3", "hidden_size=2", cell(3)), "E302"),
    "open planes": (("NV12toBGR-8", "", planes((1, 2, 3, 1), (1, 1, 2, 2))), "E302"),
    "channels": (("RegionYolo-1", REGIONS, (zeros(1, 13, 1, 1),)), "E302"),
    "groups": (("DeformablePSROIPooling-1", GROUPS, (zeros(1, 7, 4, 4), ROI)), "E302"),
    "groups, regions": (
        ("DeformablePSROIPooling-1", PART, (zeros(1, 8, 4, 4), ROI, zeros(1, 3, 3, 3))),
        "E302",
    ),
    "columns": (("Col2Im-15", WINDOWS, (zeros(4, 6), i64([2, 4]), i64([2, 2]))), "E302"),
    "open regions": (("ExperimentalDetectronTopKROIs-6", "max_rois=1", (zeros(3, 3), ROW)), "E302"),
    "open regions and": (
        ("ExperimentalDetectronDetectionOutput-6", DETECTION,
         (zeros(1, 4), zeros(1, 8), zeros(1, 3), zeros(1, 3))),
        "E302",
    ),
    "open spectra": (
        ("ISTFT-16", "center=false normalized=false", (zeros(5, 4, 3), zeros(8), *(i64(8),) * 2)),
        "E302",
    ),
    "slopes": (("PReLU-1", "", (f32(1), ROW)), "E302"),
    "updates": (("SliceScatter-15", "", (ROW, ROW, ZERO, ONE, ONE)), "E302"),
    "auto_broadcast": (("Add-1", "auto_broadcast=none", (given(MATRIX), MATRIX)), ""),
    "a kernel": (
        ("Convolution-1", "strides=1 pads_begin=0 pads_end=0 dilations=1",
         (zeros(1, 1, 5), given(zeros(1, 1, 0)))),
        "E302",
    ),
    "nothing": (("CTCGreedyDecoder-1", "", (zeros(1, 2, 0), zeros(1, 2))), "E302"),
    "nothing to": (
        ("EmbeddingBagPackedSum-3", "", (NOTHING, i64([[0]]))),
        "E305",
    ),
    "levels": (("FakeQuantize-1", "levels=1", (ROW, *SCALARS)), "E210"),
    "negative pads": (("AvgPool-1", f"{POOL} pads_begin=0,0 pads_end=-1,0", (IMAGE,)), "E210"),
    "a dilation": (
        ("LRN-1", "alpha=1 beta=1 bias=1 size=0", (MATRIX, ONE)),
        "E210",
    ),
    "a sampling_ratio": (
        ("ROIAlign-3", f"{ALIGN} sampling_ratio=-1", (IMAGE, zeros(1, 4), ZERO)),
        "E210",
    ),
    "seeds": (("RandomUniform-8", "output_type=f32 op_seed=-1", (ONE, f32(0), f32(1))), "E210"),
    "classes": (
        ("CTCGreedyDecoderSeqLen-6", "classes_index_type=f16", (zeros(1, 2, 3), i32([2]))),
        "E210",
    ),
    "a grid": (("ExperimentalDetectronPriorGridGenerator-6", "h=1", GRID), "E304"),
    "a grid of": (("ExperimentalDetectronPriorGridGenerator-6", "stride_x=-1", GRID), "E210"),
    "priors": (("PriorBox-1", "offset=0.5 density=2", (i64([1, 1]), i64([4, 4]))), "E210"),
    "priors and": (("Proposal-1", BOXES, SCORES), "E210"),
    "a keep_top_k": (
        ("DetectionOutput-1", f"{DETECTED} keep_top_k=-2 nms_threshold=0.5",
         (zeros(1, 4), zeros(1, 2), zeros(1, 2, 4))),
        "E210",
    ),
    "axes that": (
        ("Interpolate-1", "axes=2,2 mode=nearest", (IMAGE, constant(i64([2, 2])))),
        "E210",
    ),
    "batch_dims": (
        ("Gather-7", "batch_dims=-2", (fixed(ROW), fixed(ZERO), constant(i64(0)))),
        "E304",
    ),
    "axes_mapping": (("Broadcast-1", "mode=explicit", (fixed(ROW), constant(i64([2, 2])))), "E300"),
    "labels": (("CTCLoss-4", "", (*LABELLED, i32([[1, 7]]), i32([2]))), "E305"),
    "indices": (("GatherND-8", "", (MATRIX, i64([[3]]))), "E305"),
    "more draws": (
        ("Multinomial-13", "convert_type=i32 with_replacement=false log_probs=false",
         (given(f32([[1.0]])), i64([2]))),
        "E305",
    ),
    "regions of": (
        ("ROIPooling-1", "pooled_h=1 pooled_w=1 spatial_scale=1 method=max",
         (IMAGE, f32([[1, 0, 0, 1, 1]]))),
        "E305",
    ),
    "a Squeeze": (("Squeeze-1", "", (given(MATRIX), i64([0]))), "E305"),
    "a dropped": (
        ("StridedSlice-1", f"{SLICE} shrink_axis_mask=1", (ROW, i64([2]), i64([3]), ONE)),
        "E305",
    ),
    "strings": (("StringTensorPack-15", "", (i64([0]), i64([4]), u8([1, 2, 3]))), "E305"),
    "a step": (("Range-4", "output_type=i32", (f32(0), f32(2), f32(0.5))), "E305"),
}  # fmt: skip
# The same with numbers that fit: refused for another reason, it is not explained.
FITS: dict[str, Row] = {
    "booleans": ("CumSum-3", "", (ROW, i64(0))),
    "booleans in place": ("SoftPlus-4", "", (boolean([1]),)),
    "an attention mask": (
        "ScaledDotProductAttention-13", "causal=false", (*(zeros(1, 2, 3),) * 3, f32([[0, 0]])),
    ),
    "a hidden_size": ("RNNCell-3", "hidden_size=3", cell(3)),
    "open planes": ("NV12toBGR-8", "", planes((1, 2, 4, 1), (1, 1, 2, 2))),
    "channels": ("RegionYolo-1", REGIONS, (zeros(1, 14, 1, 1),)),
    "groups": ("DeformablePSROIPooling-1", GROUPS, (zeros(1, 8, 4, 4), ROI)),
    "groups, regions": (
        "DeformablePSROIPooling-1", PART, (zeros(1, 8, 4, 4), ROI, zeros(1, 4, 3, 3)),
    ),
    "columns": ("Col2Im-15", WINDOWS, (zeros(4, 3), i64([2, 4]), i64([2, 2]))),
    "open regions": ("ExperimentalDetectronTopKROIs-6", "max_rois=1", (zeros(3, 4), ROW)),
    "open regions and": (
        "ExperimentalDetectronDetectionOutput-6", DETECTION,
        (zeros(1, 4), zeros(1, 8), zeros(1, 2), zeros(1, 3)),
    ),
    "open spectra": (
        "ISTFT-16", "center=false normalized=false", (zeros(5, 4, 2), zeros(8), *(i64(8),) * 2),
    ),
    "slopes": ("PReLU-1", "", (f32(1), f32([2]))),
    "updates": ("SliceScatter-15", "", (ROW, ROW, ZERO, i64([2]), ONE)),
    "a kernel": (
        "Convolution-1", "strides=1 pads_begin=0 pads_end=0 dilations=1",
        (zeros(1, 1, 5), zeros(1, 1, 1)),
    ),
    "nothing": ("CTCGreedyDecoder-1", "", (zeros(1, 2, 1), zeros(1, 2))),
    "nothing to": ("EmbeddingBagPackedSum-3", "", (MATRIX, i64([[5]]))),
    "levels": ("FakeQuantize-1", "levels=2", (ROW, *SCALARS)),
    "negative pads": ("AvgPool-1", f"{POOL} pads_begin=0,0 pads_end=0,0", (IMAGE,)),
    "a dilation": ("LRN-1", "alpha=1 beta=1 bias=1 size=1", (MATRIX, ONE)),
    "a sampling_ratio": ("ROIAlign-3", f"{ALIGN} sampling_ratio=0", (IMAGE, zeros(1, 4), ZERO)),
    "seeds": ("RandomUniform-8", "output_type=f32 op_seed=1", (ONE, f32(0), f32(1))),
    "classes": (
        "CTCGreedyDecoderSeqLen-6", "classes_index_type=i32", (zeros(1, 2, 3), i32([2])),
    ),
    "a grid": ("ExperimentalDetectronPriorGridGenerator-6", "h=2", GRID),
    "a grid of": ("ExperimentalDetectronPriorGridGenerator-6", "stride_x=0", GRID),
    "priors": ("PriorBox-1", "offset=0.5 min_size=2", (i64([1, 1]), i64([4, 4]))),
    "priors and": ("Proposal-1", f"{BOXES} scale=1", SCORES),
    "a keep_top_k": (
        "DetectionOutput-1", f"{DETECTED} keep_top_k=-1 nms_threshold=0.5",
        (zeros(1, 4), zeros(1, 2), zeros(1, 2, 4)),
    ),
    "axes that": ("Interpolate-1", "axes=2,3 mode=nearest", (IMAGE, constant(i64([2, 2])))),
    "batch_dims": ("Gather-7", "batch_dims=0", (fixed(ROW), fixed(ZERO), constant(i64(0)))),
    "axes_mapping": ("Broadcast-1", "mode=explicit", (ROW, constant(i64([2, 2])), ZERO)),
    "labels": ("CTCLoss-4", "", (*LABELLED, i32([[1, 7]]), i32([1]))),
    "indices": ("GatherND-8", "", (MATRIX, i64([[-2]]))),
    "more draws": (
        "Multinomial-13", "convert_type=i32 with_replacement=true log_probs=false",
        (f32([[1.0]]), i64([2])),
    ),
    "regions of": (
        "ROIPooling-1", "pooled_h=1 pooled_w=1 spatial_scale=1 method=max",
        (IMAGE, f32([[0, 0, 0, 1, 1]])),
    ),
    "a Squeeze": ("Squeeze-1", "", (zeros(1, 3), i64([0]))),
    "a dropped": ("StridedSlice-1", f"{SLICE} shrink_axis_mask=1", (ROW, ONE, i64([3]), ONE)),
    "strings": ("StringTensorPack-15", "", (i64([0]), i64([3]), u8([1, 2, 3]))),
    "a step": ("Range-4", "output_type=i32", (f32(0), f32(2), f32(1.5))),
}  # fmt: skip


@pytest.mark.parametrize("begin", [b for b in TABLE if TABLE[b][1]])
def test_what_is_refused_is_explained_by_its_cause(begin: str) -> None:
    row, code = TABLE[begin]
    answer = ours.answer(sample_of(row))
    assert answer.kind == "refused"
    assert code in answer.message
    assert refusal(sample_of(row), answer.message).startswith(begin)


@pytest.mark.parametrize("begin", FITS)
def test_another_refusal_of_the_operation_is_not_explained(begin: str) -> None:
    assert refusal(sample_of(FITS[begin]), f"error[{TABLE[begin][1]}]") == ""


@pytest.mark.parametrize("begin", TABLE)
def test_another_code_is_not_explained(begin: str) -> None:
    assert refusal(sample_of(TABLE[begin][0]), "error[E999]") == ""


@pytest.mark.parametrize("title", sorted({r.title for r in REFUSALS}))
def test_each_has_a_row(title: str) -> None:
    page = Path(__file__).resolve().parent.parent / "docs/disagreements.md"
    assert f"| {title} |" in page.read_text("utf-8")
