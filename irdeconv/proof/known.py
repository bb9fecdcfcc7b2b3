"""Which inputs OpenVINO knows before a model runs; some layers it does not run without that."""

from __future__ import annotations

import re

from irdeconv.proof.call import RULES
from irdeconv.proof.model import Layer, Model

# Of the listed operations these are not computed beforehand (Interpolate: not of integers).
_LATE = {"Identity", "Roll", "Interpolate", "MatMul", "Einsum"}
_LATE |= {"HardSigmoid", "PReLU", "Sigmoid", "Tanh"}
# Ports of the listed operations that have to be known: OpenVINO refuses others, computes nonsense
# (the value of a Pad) or dies (the axes of a Slice).
_ASKED = {
    **dict.fromkeys(("ReduceProd", "ReduceSum", "Squeeze", "Unsqueeze"), 1),
    "Gather": 2,
    "Pad": 3,
    "Slice": 4,
}


def known_inputs(model: Model) -> list[set[int]]:
    """Return for each layer the ports that read constants, or what listed layers make of these."""
    folds: list[bool] = []
    found: list[set[int]] = []
    for y in model.layers:
        found.append({port for port, source in enumerate(y.inputs) if folds[source.layer]})
        listed = y.type in RULES.keys() - _LATE and re.fullmatch("opset[0-9]+", y.version)
        whole = len(found[-1]) == len(y.inputs) > 0
        folds.append(y.type == "Const" or bool(listed and whole))
    return found


def is_late(layer: Layer, known: set[int]) -> bool:
    """Whether a listed layer reads a vector that has to be known and is not."""
    port = _ASKED.get(layer.type, len(layer.inputs))
    return port < len(layer.inputs) and port not in known
