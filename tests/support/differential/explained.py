"""Disagreements of graphs that stay, each with its reason; docs/disagreements.md has the titles."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from support.differential.judging import Finding
from support.differential.lenient import lenient
from support.live_operations.explained import explanation
from support.live_operations.sample import Sample
from support.live_operations.verdict import Verdict

DECONVOLUTIONS = r"(Group)?ConvolutionBackpropData"


@dataclass(frozen=True)
class Refusal:
    """What OpenVINO refuses and irdeconv computes: the title, and words of OpenVINO's message."""

    title: str
    message: str
    layers: str = ".*"

    def fits(self, finding: Finding, layer: str) -> bool:
        return bool(re.search(self.message, finding.detail) and re.fullmatch(self.layers, layer))


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


REFUSALS = (
    Refusal("layers of other systems", r"from unsupported opset"),
    Refusal("layers without a kernel", r"evaluate\(\) is not implemented for op"),
    Refusal("ranks that are not known", r"doesn't support \w+ operation with dynamic rank"),
    Refusal(
        "deconvolutions of open sizes",
        r"nodes/deconv\.cpp|DnnlBlockedMemoryDesc|dnnl_blocked_memory_desc|is undefined|"
        r"non static shape|deconvolution forward propagation primitive",
        DECONVOLUTIONS,
    ),
    Refusal("an Interpolate of batches or channels", r"only supports resize on spatial"),
    Refusal("a Roll of several axes by one shift", r"'shift' and 'axes' dimensions mismatch"),
    Refusal("an RDFT of more than the data has", r"Signal size greater than input size", "RDFT"),
    Refusal("Fourier transforms of f64", r"FFT op input element type must be"),
    Refusal(
        "detections of f64",
        r"Expected bf16, fp16 or fp32 as element type",
        "NonMaxSuppression|MulticlassNms|MatrixNms",
    ),
    Refusal(
        "lists of another integer type than i32 and i64, or of two types",
        r"element type \(?\w*\)? ?must|must have same element type|element types? (of .* )?must|"
        r"[Tt]ype (of .* )?(must|should) be|Expected i32 or i64",
        "BatchToSpace|SpaceToBatch|Col2Im|Eye|EmbeddingSegmentsSum|I?R?DFT|I?STFT|EmbeddingBag.*|"
        "NMSRotated|Interpolate|RandomUniform",
    ),
    Refusal("a reflecting Pad of an empty axis", r"REFLECT padding mode requires", "Pad"),
    Refusal("a pooling of no batches", r"Batch size is zero"),
    Refusal("constants that OpenVINO folds in another type", r"assigned value out of range for"),
    Refusal("reductions without a kernel", r"incorrect number of input/output dim", "Reduce.*"),
    Refusal(
        "shapes that its fusions make",
        r"SnippetsOpset|Eltwise shape infer input shapes dim|Unsupported auto broadcast spec",
    ),
    Refusal("a Gather whose axis is found while it runs", r"axis value is not set", "Gather"),
    Refusal("states that are only read", r"doesn't have sibling output", "ReadValue"),
    Refusal(
        "EmbeddingBag with an offset behind the last index",
        r"Offset value exceeds indices size",
        "EmbeddingBagOffsets(Sum)?",
    ),
    Refusal("a TopK of no elements", r"K \(0\) must be greater or equal to 1", "TopK"),
    Refusal("an IRDFT of whole axes", r"cannot create std::vector larger than max_size", "IRDFT"),
    Refusal("a TopK of more than there are", r"exceeds the axis dimension", "TopK"),
    Refusal("an Einsum with spaces in its equation", r"Input subscript of Einsum", "Einsum"),
    Refusal(
        "priors whose size is no constant", r"Unexpected op type in PriorBox shape inf", "PriorBox"
    ),
    Refusal(
        "a ROIPooling whose pooled_h and pooled_w are 0", r"Pooled size attributes", "ROIPooling"
    ),
    Refusal(
        "a BinaryConvolution that its kernel does not take",
        r"_u1_\w+' could not create reorder primitive",
        "BinaryConvolution",
    ),
    Refusal(
        "sizes that the plugin cannot leave open",
        r"memory desc is undefined|dynamic shape|non static shape|for use with oneDNN",
    ),
)


def _empty(s: Sample) -> bool:
    return any(0 in g.tensor.values.shape for g in s.inputs)


def _several_types(s: Sample) -> bool:
    return len({g.tensor.dtype.name for g in s.inputs}) > 1


def _has_bad_filter(s: Sample) -> bool:
    return not bool(np.all(np.isfinite(s.inputs[1].tensor.values.astype(np.float64))))


def _of_nothing(s: Sample) -> bool:
    """Whether a deconvolution reads data with a spatial axis of size 0."""
    return 0 in s.inputs[0].tensor.values.shape[2:]


def _asks_for_more(s: Sample) -> bool:
    k, axis = int(s.inputs[1].tensor.values.reshape(-1)[0]), int(s.attributes.get("axis", 0))
    return k > s.inputs[0].tensor.values.shape[axis]


def _zero_sized(s: Sample) -> bool:
    return bool(np.any(s.inputs[0].tensor.values == 0))


def _keeps_nothing(s: Sample) -> bool:
    return int(s.attributes.get("nms_top_k", -1)) == 0 or _empty(s)


def _is_f64(s: Sample) -> bool:
    return any(g.tensor.dtype.name == "f64" for g in s.inputs)


CONDITIONS = (
    Condition("data with an empty axis", "shape", DECONVOLUTIONS, _of_nothing),
    Condition("an infinity or a NaN in the filter", "lowered", DECONVOLUTIONS, _has_bad_filter),
    Condition(
        "a TopK of more than there are", "shape|values|OpenVINO crashes", "TopK", _asks_for_more
    ),
    Condition("priors of no places", "OpenVINO crashes", "PriorBox(Clustered)?", _zero_sized),
    Condition("a Gather of no indices", "OpenVINO crashes", "Gather", _empty),
    Condition(
        "detections that may keep nothing",
        "values",
        "MulticlassNms|MatrixNms|NonMaxSuppression",
        _keeps_nothing,
    ),
    Condition(
        "layers of several floating-point types",
        "only irdeconv",
        "GroupNormalization|FakeQuantize",
        _several_types,
    ),
    Condition(
        "layers of nothing that are not compiled",
        "only irdeconv",
        "MatMul|LSTMCell|GRUCell|RNNCell|BinaryConvolution|NonMaxSuppression",
        _empty,
    ),
)
F64 = Condition("f64, computed in f32", "values", ".*", _is_f64)  # where it alone agrees


def reason_for(finding: Finding, alone: Verdict | None, xml: bytes = b"") -> str:
    """Return the title of what explains a finding; empty where nothing does."""
    if finding.kind == "only OpenVINO":
        return lenient(finding.detail, xml)
    if alone is not None:
        for condition in (*CONDITIONS, *((F64,) if alone.kind == "agree" else ())):
            if condition.fits(finding, alone.sample):
                return condition.title
    layer = alone.sample.type if alone is not None else _named(finding)
    if finding.kind in ("only irdeconv", "OpenVINO crashes"):
        refused = next((r.title for r in REFUSALS if r.fits(finding, layer)), "")
        return refused or (explanation(alone) if alone is not None else "")
    return explanation(alone) if finding.kind == "values" and alone is not None else ""


def _named(finding: Finding) -> str:
    """Return the type of the layer that a message names, or that a name begins with."""
    found = re.search(r"(\w+) node with name", finding.detail)
    return found.group(1) if found else finding.layer.partition("_")[0]


def titles() -> set[str]:
    """Return the titles of all reasons of this module."""
    return {x.title for x in (*REFUSALS, *CONDITIONS, F64)}
