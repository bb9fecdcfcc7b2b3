"""Disagreements of graphs that stay, each with its reason; docs/disagreements.md has the titles."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from support.differential.holding import (
    asks_for_more,
    empty,
    ends_regions,
    has_no_labels,
    has_no_prior,
    keeps_nothing,
    lacks_lists,
    pads_one_layer_of_bf16,
    steps_beyond_31_bits,
    transforms_more,
    varies,
)
from support.differential.judging import Finding
from support.differential.lenient import lenient
from support.differential.refused import DECONVOLUTIONS, DETECTIONS, REFUSALS
from support.live_operations.conditions import is_open, slices_by_inputs
from support.live_operations.explained import explanation
from support.live_operations.sample import Sample
from support.live_operations.verdict import Verdict


@dataclass(frozen=True)
class Condition:
    """A disagreement about one layer: the title, kinds of findings, types of layers, what holds."""

    title: str
    kinds: str
    layers: str
    holds: Callable[[Sample], bool]

    def fits(self, finding: Finding, sample: Sample) -> bool:
        same = re.fullmatch(self.kinds, finding.kind) and re.fullmatch(self.layers, sample.type)
        return bool(same) and self.holds(sample)


def _has_bad_filter(s: Sample) -> bool:
    return not bool(np.all(np.isfinite(s.inputs[1].tensor.values.astype(np.float64))))


def _of_nothing(s: Sample) -> bool:
    """Whether a deconvolution reads data with a spatial axis of size 0."""
    return 0 in s.inputs[0].tensor.values.shape[2:]


def _spreads_nothing(s: Sample) -> bool:
    """Whether Broadcast of exact sizes has a 0 that is there beforehand."""
    return 0 in s.inputs[0].tensor.values.shape and s.inputs[1].constant and not is_open(s)


def _is_f64(s: Sample) -> bool:
    return any(g.tensor.dtype.name == "f64" for g in s.inputs)


UNSTABLE = "values|OpenVINO crashes"
CONDITIONS = (
    Condition("data with an empty axis", f"shape|{UNSTABLE}", DECONVOLUTIONS, _of_nothing),
    Condition(
        "an infinity or a NaN in the filter", "lowered|values", DECONVOLUTIONS, _has_bad_filter
    ),
    Condition("a TopK of more than there are", f"shape|{UNSTABLE}", "TopK", asks_for_more),
    Condition("priors of no places", "OpenVINO crashes", "PriorBox(Clustered)?", has_no_prior),
    Condition(
        "a Convolution of bf16 over one layer of one channel",
        "values",
        "Convolution",
        pads_one_layer_of_bf16,
    ),
    Condition("a CTCLoss of no labels", UNSTABLE, "CTCLoss", has_no_labels),
    Condition(
        "a Slice with a step beyond 31 bits", "OpenVINO crashes", "Slice", steps_beyond_31_bits
    ),
    Condition("a Gather of no indices", "OpenVINO crashes", "Gather", empty),
    Condition("a Broadcast of nothing", "OpenVINO crashes", "Broadcast", _spreads_nothing),
    Condition("a real transform of more than the data has", UNSTABLE, "IRDFT", transforms_more),
    Condition(
        "a SliceScatter whose places are no constants", UNSTABLE, "SliceScatter", slices_by_inputs
    ),
    Condition(
        "layers of nothing that are not compiled",
        "OpenVINO crashes",
        "(LSTM|GRU|RNN)Sequence|MatMul",
        empty,
    ),
    Condition(
        "detections that may keep nothing",
        UNSTABLE,
        f"{DETECTIONS}|DetectionOutput",
        keeps_nothing,
    ),
    Condition("output_shape known only at run time", UNSTABLE, DECONVOLUTIONS, varies(2)),
    Condition("layers with an empty input", "shape", "I?STFT", empty),
    Condition("regions behind an image of -1", UNSTABLE, "ROIAlign(Rotated)?", ends_regions),
    Condition(
        "an AvgPool of opset16 without strides or dilations",
        "OpenVINO crashes",
        "AvgPool",
        lacks_lists,
    ),
)
F64 = Condition("f64, computed in f32", "values", ".*", _is_f64)  # where it alone agrees


def reason_for(finding: Finding, alone: Verdict | None, xml: bytes = b"") -> str:
    """Return the title of what explains a finding; empty where nothing does."""
    if finding.kind == "only OpenVINO":
        cause = explanation(alone) if alone is not None and alone.kind == finding.kind else ""
        return cause or lenient(finding.detail, xml)
    if alone is None:
        return ""
    for condition in (*CONDITIONS, *((F64,) if alone.kind == "agree" else ())):
        if condition.fits(finding, alone.sample):
            return condition.title
    if finding.kind in ("only irdeconv", "OpenVINO crashes"):
        refused = next((r.title for r in REFUSALS if r.fits(finding, alone.sample)), "")
        return refused or explanation(alone)
    return explanation(alone) if finding.kind in ("values", "shape") else ""


def titles() -> set[str]:
    """Return the titles of all reasons of this module."""
    return {x.title for x in (*REFUSALS, *CONDITIONS, F64)}
