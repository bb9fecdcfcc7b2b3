"""What irdeconv refuses and OpenVINO does not look at: codes, operations and words."""

from __future__ import annotations

import re
from dataclasses import dataclass

RANGES = "indices and labels out of range"
FILES = "files that are not written as the specification says"
PORTS = "ports, edges and declarations that contradict each other"
LIMITS = "tensors beyond the limits"
SIZES = "sizes that contradict each other"
TYPES = "element types that the specification excludes"
NO_RESULT = "models without a Result"


@dataclass(frozen=True)
class Lenient:
    """A diagnostic: its title, code, types of layers, and words of its text."""

    title: str
    code: str
    text: str
    layers: str = r"\w*"

    def fits(self, code: str, layer: str, text: str) -> bool:
        return (
            code == self.code
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
    Lenient(PORTS, "E202", "an edge to layer -?\\d+, which does not exist"),
    # Constants and layers that no Result needs: OpenVINO leaves them out before it looks.
    Lenient(PORTS, "E204", "has no producer"),
    Lenient(PORTS, "E208", "input ports?, but needs"),
    Lenient(PORTS, "E212", "is not an element type"),
    Lenient(SIZES, "E302", "at least one is needed", "CTCGreedyDecoder"),
    Lenient(
        SIZES, "E500", "has size .* is needed", "ExperimentalDetectronDetectionOutput"
    ),
    Lenient(SIZES, "E500", "numbers for each image", "GenerateProposals"),
    Lenient(TYPES, "E303", "must be a floating-point type", "SoftMax"),
    Lenient(RANGES, "E305", "name an axis twice", "Unsqueeze"),
    Lenient(RANGES, "E500", "batch_indices has .* there are", "ROIAlign(Rotated)?"),
    Lenient(RANGES, "E305", "sequence_lengths has", "(RNN|GRU|LSTM)Sequence"),
    Lenient(RANGES, "E500", "sequence_lengths has", "(RNN|GRU|LSTM)Sequence"),
    Lenient(LIMITS, "E602", "the limit is"),
    Lenient(LIMITS, "E603", "elements are nested deeper than"),
)  # fmt: skip


def lenient(error: str) -> str:
    """Return the title of what explains a refusal; empty where nothing does."""
    found = re.search(r'error\[(E\d+)\]: (?:(\w+) ")?', error)
    if found is None:
        return ""
    code, layer = found.group(1), found.group(2) or ""
    text = error[found.start() :]
    return next((row.title for row in LENIENT if row.fits(code, layer, text)), "")
