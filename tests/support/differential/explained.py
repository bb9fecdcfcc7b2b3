"""Disagreements of graphs that stay, each with its reason; docs/disagreements.md has the titles."""

from __future__ import annotations

import re
from dataclasses import dataclass

from irdeconv.graph import Graph, Node
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
    Refusal("layers without a kernel", r"evaluate\(\) is not implemented for op"),
    Refusal("ranks that are not known", r"doesn't support \w+ operation with dynamic rank"),
    Refusal(
        "deconvolutions of open sizes",
        r"nodes/deconv\.cpp|DnnlBlockedMemoryDesc|memory desc is undefined|non static shape",
        DECONVOLUTIONS,
    ),
    Refusal("an Interpolate of batches or channels", r"only supports resize on spatial"),
    Refusal("a Roll of several axes by one shift", r"'shift' and 'axes' dimensions mismatch"),
    Refusal("an RDFT of more than the data has", r"Signal size greater than input size", "RDFT"),
    Refusal("Fourier transforms of f64", r"FFT op input element type must be"),
    Refusal("states that are only read", r"doesn't have sibling output", "ReadValue"),
    Refusal(
        "sizes that the plugin cannot leave open",
        r"memory desc is undefined|dynamic shape|non static shape|for use with oneDNN",
    ),
)


def reason_for(finding: Finding, alone: Verdict | None, graph: Graph | None) -> str:
    """Return the title of what explains a finding; empty where nothing does."""
    layer = alone.sample.type if alone is not None else _named(finding)
    if finding.kind in ("only irdeconv", "OpenVINO crashes"):
        return next((r.title for r in REFUSALS if r.fits(finding, layer)), "")
    if finding.kind == "values" and alone is not None:
        return explanation(alone)
    if finding.kind == "values" and graph is not None:
        return _of_constants(graph, finding)
    return ""


def _named(finding: Finding) -> str:
    """Return the type of the layer that a message names, or that a name begins with."""
    found = re.search(r"(\w+) node with name", finding.detail)
    return found.group(1) if found else finding.layer.partition("_")[0]


def _of_constants(graph: Graph, finding: Finding) -> str:
    """A layer whose inputs are constants is computed once, before: `compare` sees no layer."""
    read = {graph.node(v.node).id for r in _results(graph, finding) for v in graph.inputs_of(r.id)}
    folded = all(graph.node(i).spec().value is not None for i in read)
    return "functions of constants" if read and folded else ""


def _results(graph: Graph, finding: Finding) -> list[Node]:
    return [r for r in graph.results if r.name == finding.layer]
