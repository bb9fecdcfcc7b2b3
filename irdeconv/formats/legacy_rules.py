"""Which legacy layers are covered: all modules of rules, and why some layers have none."""

from __future__ import annotations

from irdeconv.formats import (  # noqa: F401 -- importing fills RULES
    legacy_arithmetic,
    legacy_convolution,
    legacy_shape,
)
from irdeconv.formats.importing import ImportBuilder, Refusal
from irdeconv.formats.legacy_layer import RULES, LegacyLayer, Outputs, as_kind

_NO_OPERATION = "no operation of OpenVINO computes it"
_STATE = "networks with state are not covered"
REFUSED = {
    "memory": _STATE,
    "simplernms": f"{_NO_OPERATION}; its successor is Proposal",
    "powerfile": _NO_OPERATION,
    "spatialtransformer": _NO_OPERATION,
    "binaryconvolution": "the layout of its packed filter is the CPU's own",
    "gemmbinary": _NO_OPERATION,
}


def apply(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Apply the rule of a layer's type; an Activation is a layer of the type that it names."""
    kind = n.kind
    if kind == "activation":
        kind = n.text("type").lower()
        if kind not in RULES:
            raise Refusal(f'the activation "{kind}" is not covered')
    return RULES[kind](as_kind(n, kind), b)
