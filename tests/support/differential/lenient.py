"""What irdeconv refuses and OpenVINO does not look at: codes, operations and words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

RANGES = "indices and labels out of range"
FILES = "files that are not written as the specification says"
PORTS = "ports, edges and declarations that contradict each other"
LIMITS = "tensors beyond the limits"
SIZES = "sizes that contradict each other"
TYPES = "element types that the specification excludes"
VALUES = "E305|E500"
UNUSED = "layers that no Result needs"
NO_RESULT = "models without a Result"


@dataclass(frozen=True)
class Lenient:
    """A diagnostic: its title, codes, types of layers, and words of its text."""

    title: str
    code: str
    text: str
    layers: str = r"\w*"

    def fits(self, code: str, layer: str, text: str) -> bool:
        return (
            bool(re.fullmatch(self.code, code))
            and bool(re.fullmatch(self.layers, layer))
            and bool(re.search(self.text, text))
        )


LENIENT = (
    Lenient(NO_RESULT, "E209", "the model has no Result"),
    Lenient(FILES, "E104", "<net> has no <layers>"),
    # OpenVINO has defaults of its own for these.
    Lenient(FILES, "E105", r'"rounding_type" is missing|"exclude-pad" is missing', "AvgPool"),
    Lenient(FILES, "E105", r'"destination_type" is missing', "Convert"),
    Lenient(FILES, "E106", "is neither true nor false"),
    Lenient(PORTS, "E200", r"the id \d+ is already that of"),
    Lenient(PORTS, "E201", "two (in|out)put ports have the id"),
    Lenient(PORTS, "E202", "an edge to layer -?\\d+, which does not exist"),
    Lenient(FILES, "E122", r"elements of \w+ take \d+ bytes, size is", "Const"),
    Lenient(FILES, "E213", "is not a dimension"),
    Lenient(FILES, r"E1\d\d", "an IR has no XML namespaces"),
    # Constants and layers that no Result needs: OpenVINO leaves them out before it looks.
    Lenient(PORTS, "E204", "has no producer"),
    Lenient(PORTS, "E208", "input ports?, but needs"),
    Lenient(PORTS, "E212", "is not an element type"),
    Lenient(SIZES, "E302", "at least one is needed", "CTCGreedyDecoder"),
    Lenient(
        SIZES, "E500", "has size .* is needed", "ExperimentalDetectronDetectionOutput"
    ),
    Lenient(SIZES, "E500", "numbers for each image", "GenerateProposals"),
    Lenient(SIZES, "E302|E500", 'do not fit auto_broadcast="(pdpd|none)"'),
    Lenient(SIZES, "E305|E500", "split_lengths .* do not fit", "VariadicSplit"),
    Lenient(SIZES, "E302|E500", "segment_ids for", "SegmentMax"),
    Lenient(SIZES, "E305|E500", "pad_mode=.* allows at most", "Pad"),
    Lenient(SIZES, "E302|E500", "differ in batch dimension", "Gather"),
    Lenient(TYPES, "E303", "must be a floating-point type", "SoftMax"),
    Lenient(SIZES, "E302|E500", "output_size has", "PriorBox(Clustered)?"),
    Lenient(SIZES, "E302", "a region has", "DeformablePSROIPooling"),
    Lenient(SIZES, "E302", "the kernel has size 0", "(Group)?Convolution"),
    Lenient(SIZES, "E302", "a score of each prior and class", "DetectionOutput"),
    Lenient(SIZES, "E302", "of initial_hidden_state has size", "(LSTM|GRU|RNN)(Cell|Sequence)"),
    Lenient(SIZES, "E302|E500", "columns and b .* rows", "MatMul"),
    Lenient(SIZES, "E305|E500", r"elements, which do not fill \[(.*\D)?0\b", "Reshape"),
    Lenient(TYPES, "E303", "is boolean", "GenerateProposals"),
    # E500 says while it runs what E305 says of constants.
    Lenient(RANGES, VALUES, "an index is .* the table has rows", "Embedding\\w+"),
    Lenient(RANGES, VALUES, "a segment id is .* there are", "EmbeddingSegmentsSum"),
    Lenient(RANGES, VALUES, "index .* is outside axis", "Gather\\w*|Scatter\\w*"),
    Lenient(RANGES, VALUES, "step is 0", "Range"),
    Lenient(RANGES, VALUES, "roisnum is", "MulticlassNms"),
    Lenient(RANGES, VALUES, "a parent at step", "GatherTree"),
    Lenient(RANGES, VALUES, "batch_indices has .* there are", "ROIAlign(Rotated)?"),
    Lenient(RANGES, VALUES, "region .* is of image|is not finite", "(PS)?ROIPooling"),
    Lenient(RANGES, VALUES, "a length is .* it must be from", "ReverseSequence"),
    Lenient(RANGES, VALUES, "sequence_lengths has", "(RNN|GRU|LSTM)Sequence"),
    Lenient(RANGES, VALUES, "of sequence \\d+|blank_index is", "CTC\\w+"),
    Lenient(RANGES, VALUES, "only axes of 1 can be squeezed", "Squeeze"),
    Lenient(RANGES, VALUES, "name an axis twice", "(Uns|S)queeze"),
    Lenient(LIMITS, "E602", "the limit is"),
    Lenient(LIMITS, "E603", "elements are nested deeper than"),
)  # fmt: skip


def lenient(error: str, xml: bytes = b"") -> str:
    """Return the title of what explains a refusal of a file; empty where nothing does."""
    found = re.search(r'error\[(E\d+)\]: (?:(\w+) ")?', error)
    if found is None:
        return ""
    code, layer = found.group(1), found.group(2) or ""
    text = error[found.start() :]
    reason = next((row.title for row in LENIENT if row.fits(code, layer, text)), "")
    place = re.match(r"[^:]*:(\d+):", error)
    return reason or (UNUSED if _is_unused(text, xml, int(place[1]) if place else 0) else "")


def _is_unused(text: str, xml: bytes, line: int) -> bool:
    """Whether no Result needs the layer that a diagnostic names."""
    name = re.match(r'error\[E\d+\]: \w+ "([^"\n]*)"', text)
    try:
        root = etree.fromstring(xml)
    except etree.XMLSyntaxError:
        return False
    layers = {e.get("id"): e for e in root.iterfind("layers/layer")}
    needed = {n for n, e in layers.items() if e.get("type") in ("Result", "Assign")}
    edges, before = list(root.iterfind("edges/edge")), -1
    while len(needed) != before:
        before = len(needed)
        needed |= {e.get("from-layer") for e in edges if e.get("to-layer") in needed}
    named = {n for n, e in layers.items() if name is not None and e.get("name") == name.group(1)}
    if len(named) > 1:  # the line tells which of them
        named = {n for n in named if layers[n].sourceline == line}
    return bool(named) and not needed & named
