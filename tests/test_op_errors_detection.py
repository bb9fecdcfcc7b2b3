"""What the operations of detectors say about inputs and attributes that do not fit."""

from __future__ import annotations

import pytest

from op_cases import count, f32, i64
from support.refusals import Row, check_attribute, check_refusal, row

SENSITIVE = "mode=average output_dim=1 group_size=2 spatial_scale=1"
ROI_POOLING = "pooled_h=1 pooled_w=2 spatial_scale=1"
BINS = "output_dim=2 group_size=2 spatial_scale=1"
ANCHORS = "base_size=8 pre_nms_topn=9 post_nms_topn=9 ratio=1 scale=1,2"
SHIFTED = ["f32[1,8,2,2]", "f32[3]"]
DETECTED = ["f32[1,16]", "f32[1,12]"]  # boxes and scores of three classes of four priors
BOXES, A4 = ["f32[1,6,4]", "f32[1,1,6]"], count((1, 3, 4))
ROTATED = ["f32[1,6,5]", "f32[1,1,6]", "i64[]", "f32[]", "f32[0]"]
REGIONS = ["f32[2,3,1,4]", "f32[1,4,2,3]", "f32[?,1,2,3]"]
LIMITS = "min_size=1 nms_threshold=0.5 pre_nms_count=6 post_nms_count=3"
DETECTRON = "ExperimentalDetectron"
SINGLE = ["f32[3]", "f32[5,4]", "f32[4,2,3]", "f32[1,2,3]"]
GRID = ["f32[2,4]", "f32[1,9,2,3]", "f32[1,3,8,6]"]
OUTPUT = "num_classes=2 max_detections_per_image=3 deltas_weights=1,1,1,1"
RESULTS = ["f32[3,4]", "f32[3,6]", "f32[3,2]", "f32[1,3]"]
ROWS = [
    row("NonMaxSuppression-9", "", ["f32[1,6,5]", "f32[1,1,6]"], "E302", 0, "5 numbers"),
    row("NonMaxSuppression-9", "", ["f32[1,6,4]", "f32[1,1,5]"], "E302", 1, "1 x 5", "1 x 6"),
    row("PriorBox-8", "min_size=4", [i64([2, 3, 4]), i64([8, 9])], "E302", 0, "3 values"),
    row("PriorBoxClustered-1", "", [i64([2, -3]), i64([8, 9])], "E305", 0, "-3"),
    row("DetectionOutput-8", "keep_top_k=1", [*DETECTED, "f32[1,2,21]"], "E302", 2, "21", "5"),
    row("DetectionOutput-8", "keep_top_k=1", [*DETECTED, "f32[1,1,20]"], "E302", 2, "2, boxes"),
    row("DetectionOutput-8", "keep_top_k=1", [*DETECTED, "f32[1,2,15]"], "E302", 0, "16", "12"),
    row(
        "DetectionOutput-8", "keep_top_k=1", [*DETECTED, "f32[2,2,20]"], "E302", 2, "2", "1 images"
    ),
    row("NonMaxSuppression-3", "", [*BOXES, "i64[1]"], "E301", 2, "rank 1", "must be 0"),
    row("NMSRotated-13", "", [*BOXES, "i64[]", *["f32[]"] * 2], "E302", 0, "4 numbers", "5"),
    row("MatrixNms-8", "", ["f32[2,6,4]", "f16[2,1,6]"], "E303", 1, "f32", "f16"),
    row("MulticlassNms-9", "", ["f32[2,6,4]", "f32[3,6]", "i64[1]"], "E302", 1, "3 x 6", "2 x 6"),
    row(
        "MulticlassNms-9", "", [A4, count((1, 3)), i64([2, 2])], "E305", 2, "[2, 2]", "add up to 3"
    ),
    row("MulticlassNms-9", "", [A4, count((1, 3)), i64([-1, 2])], "E305", 2, "[-1, 2]"),
    row("GenerateProposals-9", LIMITS, ["f32[1,5]", *REGIONS], "E302", 0, "5 numbers", "3 or 4"),
    row("GenerateProposals-9", LIMITS, ["f32[2,3]", *REGIONS], "E302", 2, "size 1", "2 is needed"),
    row(f"{DETECTRON}GenerateProposalsSingleImage-6", LIMITS, SINGLE, "E302", 1, "5 anchors", "6"),
    row(f"{DETECTRON}PriorGridGenerator-6", "h=3", GRID, "E304", "h", "h is 3", "has 2"),
    row(f"{DETECTRON}TopKROIs-6", "max_rois=1", ["f32[3,4]", "f32[4]"], "E302", 1, "size 4", "3"),
    row(f"{DETECTRON}DetectionOutput-6", OUTPUT, RESULTS, "E302", 1, "size 6", "8 is needed"),
    row(
        f"{DETECTRON}ROIFeatureExtractor-6",
        "output_size=1 sampling_ratio=0 pyramid_scales=4",
        ["f32[3,4]", "f32[1,2,4,4]", "f32[1,2,2,2]"],
        "E304",
        "pyramid_scales",
        "1 numbers",
        "2 levels",
    ),
    row(
        f"{DETECTRON}ROIFeatureExtractor-6",
        "output_size=1 sampling_ratio=0 pyramid_scales=1",
        [f32([[0, 0, 3e7, 1]]), count((1, 2, 4, 4))],
        "E305",
        0,
        "30000000.0 x 1.0 elements",
    ),
    row("Proposal-4", ANCHORS, ["f32[1,6,2,2]", *SHIFTED], "E302", 0, "6 channels", "4"),
    row("Proposal-4", ANCHORS, ["f32[1,4,3,2]", *SHIFTED], "E302", 1, "axis 2", "3", "2"),
    row("Proposal-4", ANCHORS, ["f32[1,4,2,2]", SHIFTED[0], "f32[5]"], "E302", 2, "5 numbers"),
    row("ROIAlign-9", "", ["f32[1,2,5,5]", "f32[3,5]", "i64[3]"], "E302", 1, "5 numbers", "4"),
    row("ROIAlign-9", "", ["f32[1,2,5,5]", "f32[3,4]", "i64[2]"], "E302", 2, "3 regions", "2"),
    row("ROIAlignRotated-15", "", ["f32[1,2,5,5]", "f16[3,5]", "i64[3]"], "E303", 1, "f16"),
    row("NMSRotated-13", "", ROTATED, "E302", 4, "score_threshold has 0 values"),
    row("ROIPooling-2", ROI_POOLING, ["f32[1,2,5,5]", "f32[3,4]"], "E302", 1, "4 numbers", "5"),
    row("PSROIPooling-1", SENSITIVE, ["f32[1,5,5,5]", "f32[3,5]"], "E302", 0, "5 channels", "4"),
    row("DeformablePSROIPooling-1", BINS, ["f32[1,8,5,5]", "f32[3,5]", "f32[3,6,1,1]"], "E302", 2),
    row("DeformablePSROIPooling-1", BINS, ["f32[1,8,5,5]", "f32[3,5]", "f32[3,2,1,2]"], "E302", 2),
    row("DeformablePSROIPooling-1", BINS, ["f32[1,8,5,5]", "f32[3,5]", "f32[3,5,1,1]"], "E302", 2),
    row("RegionYolo-1", "coords=4 classes=2 mask=0,1", ["f32[1,12,2,2]"], "E302", 0, "12", "14"),
    row("ReorgYolo-1", "stride=2", ["f32[1,4,2,3]"], "E302", 0, "size 3", "2"),
    row("ReorgYolo-1", "stride=2", ["f32[1,3,2,2]"], "E302", 0, "3 channels", "4"),
    row("NV12toRGB-8", "", ["u8[1,4,4,1]"], "E302", 0, "4 rows", "3"),
    row("NV12toRGB-8", "", ["i32[1,6,4,1]"], "E303", 0, "i32"),
    row("NV12toRGB-8", "", ["u8[1,4,4,1]", "u8[1,2,3,2]"], "E302", 1, "axis 2", "3"),
    row("I420toBGR-8", "", ["u8[1,4,5,1]", *["u8[1,2,2,1]"] * 2], "E302", 1, "half of 5"),
    row("I420toBGR-8", "", ["u8[1,4,4,1]", "u8[1,2,2,1]"], "E208", 1, "2 planes"),
]


@pytest.mark.parametrize("r", ROWS, ids=[f"{i}-{r.op}" for i, r in enumerate(ROWS)])
def test_refusal(r: Row) -> None:
    check_refusal(r)


COUNTS, POOLED = {"pre_nms_count": "9", "post_nms_count": "9"}, {"output_size": "2"}
RESULT = dict(pair.split("=") for pair in OUTPUT.split())
CHECKS = [
    ("PriorBox-8", {"min_size": "4", "variance": "1,2"}, "variance"),
    ("PriorBox-8", {"min_size": "0"}, "min_size"),
    ("PriorBox-8", {"fixed_size": "4"}, None),
    ("PriorBox-8", {"fixed_size": "4", "density": "9223372036854775807"}, None),
    ("PriorBox-8", {"fixed_size": "4", "density": "inf"}, "density"),
    ("PriorBox-8", {"fixed_size": "1e308", "density": "1"}, "fixed_size"),
    ("PriorBox-8", {"min_size": "4", "max_size": "5,6"}, None),
    ("PriorBoxClustered-1", {"width": "4", "height": "5,6"}, "height"),
    ("DetectionOutput-8", {"keep_top_k": "-2", "normalized": "1"}, "keep_top_k"),
    ("ROIAlign-9", {"sampling_ratio": "-1"}, "sampling_ratio"),
    ("ROIPooling-2", {"output_roi": "2", "spatial_scale": "1", "pooled_w": "1"}, "output_roi"),
    ("ROIPooling-2", {"output_roi": "2,2"}, "spatial_scale"),
    (
        "DeformablePSROIPooling-1",
        {"output_dim": "1", "spatial_scale": "1", "spatial_bins_y": "4611686018427387904"},
        "spatial_bins_y",
    ),
    (
        "DeformablePSROIPooling-1",
        {"output_dim": "1", "spatial_scale": "1", "spatial_bins_x": "0"},
        "spatial_bins_x",
    ),
    ("RegionYolo-1", {"num": "1"}, "coords"),
    ("ReorgYolo-1", {"stride": "0"}, "stride"),
    ("DetectionOutput-8", {"keep_top_k": "", "normalized": "1"}, "keep_top_k"),
    ("DetectionOutput-8", {"keep_top_k": "1", "input_width": "0"}, "input_width"),
    ("MatrixNms-8", {"keep_top_k": "-2"}, "keep_top_k"),
    ("MatrixNms-8", {"output_type": "u8"}, "output_type"),
    ("MulticlassNms-9", {"nms_eta": "1.5"}, "nms_eta"),
    ("GenerateProposals-9", {"pre_nms_count": "9"}, "post_nms_count"),
    ("GenerateProposals-9", {"post_nms_count": "9"}, "pre_nms_count"),
    ("GenerateProposals-9", {**COUNTS, "nms_eta": "0.5"}, "nms_eta"),
    (f"{DETECTRON}DetectionOutput-6", {**RESULT, "post_nms_count": "-2"}, "post_nms_count"),
    (f"{DETECTRON}DetectionOutput-6", {**RESULT, "deltas_weights": "1,1"}, "deltas_weights"),
    (f"{DETECTRON}PriorGridGenerator-6", {"stride_x": "-1"}, "stride_x"),
    (f"{DETECTRON}TopKROIs-6", {"max_rois": "-1"}, "max_rois"),
    (f"{DETECTRON}ROIFeatureExtractor-6", {"sampling_ratio": "2"}, "output_size"),
    (f"{DETECTRON}ROIFeatureExtractor-6", {**POOLED, "sampling_ratio": "-1"}, "sampling_ratio"),
    (f"{DETECTRON}ROIFeatureExtractor-6", {**POOLED, "pyramid_scales": "0"}, "pyramid_scales"),
]


@pytest.mark.parametrize(("op", "given", "name"), CHECKS)
def test_attribute_check(op: str, given: dict[str, str], name: str | None) -> None:
    check_attribute(op, given, name)
