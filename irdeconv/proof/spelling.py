"""Attributes as OpenVINO 2026.4.1 reads them: the kinds of numbers, and their spelling.

Of some texts it reads only the beginning ("0.1e1" as the integer 0); these are refused here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

_NAMES: dict[str, str] = {
    "integer": """
        axes axis background_class background_label_id base_size batch_axis batch_dims begin_mask
        block_size classes coords deformable_group dilations ellipsis_mask end_axis end_mask
        feat_stride global_seed group group_size h hidden_size input_height input_width keep_top_k
        kernel levels mask max_detections_per_image max_rois new_axis_mask nms_top_k num num_classes
        num_groups num_splits op_seed output_dim output_padding output_roi output_size pads_begin
        pads_end part_size pooled_h pooled_w post_nms_count post_nms_topn pre_nms_count pre_nms_topn
        Proposal.min_size pyramid_scales rates sampling_ratio seq_axis shrink_axis_mask size sizes
        spatial_bins_x spatial_bins_y stride strides top_k w
    """,
    "real": """
        activations_alpha activations_beta alpha anchors aspect_ratio beta bias box_coordinate_scale
        box_size_scale clip confidence_threshold cube_coeff deltas_weights density eps epsilon
        fixed_ratio fixed_size gaussian_sigma height iou_threshold max max_delta_log_wh max_size min
        min_size nms_eta nms_thresh nms_threshold objectness_score offset pad_value post_threshold
        ratio scale score_threshold spatial_scale step step_h step_w stride_x stride_y trans_std
        variance width
    """,
    "boolean": """
        across_channels adjoint align_corners aligned allow_axis_skip antialias
        bilinear_interpolation_pad causal center class_agnostic_box_regression clip_after_nms
        clip_before_nms clockwise clockwise_mode ctc_merge_repeated decrease_label_id
        detect_negative detect_positive do_softmax exclude-pad exclusive flatten flip input_forget
        keep_dims linear_before_reset log_probs m_pythondiv merge_repeated
        min_max_aspect_ratios_order normalize normalize_variance normalized
        preprocess_collapse_repeated PriorBox.clip PriorBoxClustered.clip promote_unsafe
        pytorch_scalar_promotion reverse right_mode scale_all_sizes share_location
        sort_result_across_batch sort_result_descending sorted special_zero stable transpose_a
        transpose_b transpose_frames unique use_init_val variance_encoded_in_target
        with_replacement with_right_bound
    """,
    "text": "activations shape variable_shape",  # spaces around its parts do not count
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_INTEGER = re.compile(r"\s*-?[0-9]{1,40}\s*", re.ASCII)
_REAL = re.compile(
    r"\s*([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|(?-i:-?inf|nan))\s*", re.ASCII | re.I
)


def kind_of(type: str, name: str) -> str:
    """Return the kind of an attribute, or of the parts of its list; "" for words and types."""
    return _KINDS.get(f"{type}.{name}") or _KINDS.get(name, "")


def integer(text: str, end: int = 2**63) -> int:
    """Return an integer -2^63 <= n < end; ValueError for texts that OpenVINO reads otherwise."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f'"{text}" is not an integer')
    value = int(text)
    if not -(2**63) <= value < end:
        raise ValueError(f"{value} does not fit 64 bits")
    return value


def real(text: str) -> float:
    """Return one number of f64; ValueError as above."""
    if not _REAL.fullmatch(text):
        raise ValueError(f'"{text}" is not a number')
    value = float(text)
    if math.isinf(value) and "inf" not in text:
        raise ValueError(f'"{text}" is beyond the range of f64')
    return value


def boolean(text: str) -> bool:
    """Return `true` or 1, `false` or 0, in any case; ValueError for others."""
    if text.lower() not in ("true", "1", "false", "0"):
        raise ValueError(f'"{text}" is neither true nor false')
    return text.lower() in ("true", "1")


_SPELLED: dict[str, Callable[[str], Any]] = {
    "integer": integer,
    "real": lambda part: f"{real(part):.17g}",
    "single": lambda part: f"{np.float32(real(part)):.17g}",
    "boolean": lambda part: "true" if boolean(part) else "false",
    "text": str.strip,
}


def spelled(kind: str, text: str) -> str | None:
    """Return a value in its one spelling, None if no reader takes it; "single" is f32."""
    try:
        parts = text.split(",") if text or kind != "integer" else []
        return ",".join(str(_SPELLED[kind](part)) for part in parts) if kind else text
    except ValueError:
        return None
