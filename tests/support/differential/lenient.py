"""What irdeconv refuses and OpenVINO does not look at: codes, operations and words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lxml import etree

from support.live_operations.refusals import refusal
from support.live_operations.sample import Sample

RANGES = "indices and labels out of range"
FILES = "files that are not written as the specification says"
PORTS = "ports, edges and declarations that contradict each other"
LIMITS = "tensors beyond the limits"
SIZES = "sizes that contradict each other"
TYPES = "element types that the specification excludes"
RECURRENT = "(LSTM|GRU|RNN)(Cell|Sequence)"
EMPTY = "data with an empty axis"
VALUES = "E305|E500"
NO_DATA = r"note: data is \w+\[([^\]]*\D)?[0?]"  # or data of open size: they are fed none
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
    Lenient(FILES, "E105", 'the attribute "name" is missing'),
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
    Lenient(SIZES, "E302", "at least one is needed", "CTCGreedyDecoder|CTCLoss"),
    Lenient(SIZES, "E302", "has no elements to pool", "Adaptive(Avg|Max)Pool"),
    Lenient(SIZES, "E302", r"channels; .* are needed", "DeformablePSROIPooling"),
    Lenient(PORTS, "E211", "nothing gives output port", "If"),
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
    Lenient(SIZES, "E302|E500", "of initial_hidden_state has size", RECURRENT),
    Lenient(SIZES, "E302|E500", "columns and b .* rows", "MatMul"),
    Lenient(SIZES, "E302", "offsets have (shape|\\d+ channels)", "DeformablePSROIPooling"),
    # Of such data the plugin takes a deconvolution to give something.
    Lenient(EMPTY, "E306", "but the padded data only (0|-\\d+)", "(Group)?Convolution"),
    Lenient(SIZES, "E305|E500", r"elements, which do not fill \[(.*\D)?0\b", "Reshape"),
    Lenient(TYPES, "E303", "is boolean", "GenerateProposals"),
    Lenient(TYPES, "E303", "data is boolean; it must be a number type", "LRN"),
    Lenient(TYPES, "E303", "x is .* must be a floating-point type", RECURRENT),
    Lenient(TYPES, "E303", "sequence_lengths is .* an integer type", "(RNN|GRU|LSTM)Sequence"),
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
    # What reads nothing looks at no axis.
    Lenient(RANGES, VALUES, rf"axis .* is outside a tensor(.|\n)*{NO_DATA}", "CumSum"),
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
    return reason or _of_the_file(error, text, xml)


def _of_the_file(error: str, text: str, xml: bytes) -> str:
    """Return the title of what the layer that a diagnostic names, or the others, explain."""
    name = re.match(r'error\[E\d+\]: \w+ "([^"\n]*)"', text)
    place = re.match(r"[^:]*:(\d+):", error)
    try:
        root = etree.fromstring(xml)
    except etree.XMLSyntaxError:  # OpenVINO's reader takes a < for a character of an attribute
        return FILES if "E101" in text and re.search(rb'="[^"\n]*<[^"\n]*"', xml) else ""
    found = [e for e in root.iterfind("layers/layer") if name and e.get("name") == name.group(1)]
    if place and len(found) > 1:  # the line tells which of them, or one in it
        found = [e for e in found if (e.sourceline or 0) <= int(place[1])][-1:]
    if not found:
        return ""
    if _is_replaced(root, found):
        return PORTS
    return UNUSED if _is_unused(root, found) else _by_attributes(found[0], text)


def _is_replaced(root: Any, found: list[Any]) -> bool:
    """Whether another layer further down has the same id: OpenVINO drops the first."""
    last = {e.get("id"): e for e in root.iterfind("layers/layer")}
    return all(last[e.get("id")] is not e for e in found)


def _by_attributes(layer: Any, text: str) -> str:
    """Return the title of what attributes that are refused explain."""
    if not text.startswith("error[E210]"):
        return ""
    data = layer.find("data")
    texts = {} if data is None else dict(data.attrib)
    sample = Sample(layer.get("type", ""), layer.get("version", ""), texts, ())
    try:
        return refusal(sample, text)
    except (IndexError, ValueError):  # it goes by inputs, too
        return ""


def _is_unused(root: Any, found: list[Any]) -> bool:
    """Whether no Result needs any of these layers."""
    layers = {e.get("id"): e for e in root.iterfind("layers/layer")}
    needed = {n for n, e in layers.items() if e.get("type") in ("Result", "Assign")}
    edges, before = list(root.iterfind("edges/edge")), -1
    while len(needed) != before:
        before = len(needed)
        needed |= {e.get("from-layer") for e in edges if e.get("to-layer") in needed}
    return not needed & {e.get("id") for e in found}
