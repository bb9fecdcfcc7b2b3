"""Disagreements of graphs that stay, each with its reason; docs/disagreements.md has the titles."""

from __future__ import annotations

import re
from dataclasses import dataclass

from support.differential.judging import Finding
from support.live_operations.explained import explanation
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
        "lists of another integer type than i32 and i64, or of two types",
        r"element type \(?\w*\)? ?must|must have same element type|element types? (of .* )?must|"
        r"[Tt]ype (of .* )?(must|should) be|Expected i32 or i64",
        "BatchToSpace|SpaceToBatch|Col2Im|Eye|EmbeddingSegmentsSum|I?R?DFT|I?STFT|EmbeddingBag.*|"
        "NMSRotated|Interpolate",
    ),
    Refusal("a reflecting Pad of an empty axis", r"REFLECT padding mode requires", "Pad"),
    Refusal("a pooling of no batches", r"Batch size is zero"),
    Refusal("constants that OpenVINO folds in another type", r"assigned value out of range for"),
    Refusal("reductions without a kernel", r"incorrect number of input/output dim", "Reduce.*"),
    Refusal("shapes that its fusions make", r"SnippetsOpset|Eltwise shape infer input shapes dim"),
    Refusal("a Gather whose axis is found while it runs", r"axis value is not set", "Gather"),
    Refusal("states that are only read", r"doesn't have sibling output", "ReadValue"),
    Refusal(
        "sizes that the plugin cannot leave open",
        r"memory desc is undefined|dynamic shape|non static shape|for use with oneDNN",
    ),
)

# What irdeconv refuses and OpenVINO does not look at, by the beginning of the code.
LENIENT = {
    "E210": "attributes out of range or against the inputs",
    "E304": "attributes out of range or against the inputs",
    "E303": "element types that the specification excludes",
    "E302": "sizes that contradict each other",
    "E306": "sizes that contradict each other",
    "E305": "indices and labels out of range",
    "E500": "indices and labels out of range",
    "E209": "models without a Result",
    "E60": "tensors beyond the limits",
    "E1": "files that are not written as the specification says",
    "E2": "ports, edges and declarations that contradict each other",
}


EMPTY = "data with an empty axis"  # of deconvolutions: their size is that of one element


def reason_for(finding: Finding, alone: Verdict | None) -> str:
    """Return the title of what explains a finding; empty where nothing does."""
    layer = alone.sample.type if alone is not None else _named(finding)
    if finding.kind in ("only irdeconv", "OpenVINO crashes"):
        return next((r.title for r in REFUSALS if r.fits(finding, layer)), "")
    if finding.kind == "only OpenVINO":
        return _lenient(finding.detail)
    if finding.kind == "shape" and alone is not None and _of_nothing(alone):
        return EMPTY
    if finding.kind == "values" and alone is not None:
        return explanation(alone)
    return ""


def _lenient(error: str) -> str:
    found = re.search(r"error\[(E\d+)\]", error)
    code = found.group(1) if found else ""
    return next((title for start, title in LENIENT.items() if code.startswith(start)), "")


def _named(finding: Finding) -> str:
    """Return the type of the layer that a message names, or that a name begins with."""
    found = re.search(r"(\w+) node with name", finding.detail)
    return found.group(1) if found else finding.layer.partition("_")[0]


def _of_nothing(alone: Verdict) -> bool:
    """Whether a deconvolution reads data with a spatial axis of size 0."""
    if not re.fullmatch(DECONVOLUTIONS, alone.sample.type):
        return False
    return 0 in alone.sample.inputs[0].tensor.values.shape[2:]
