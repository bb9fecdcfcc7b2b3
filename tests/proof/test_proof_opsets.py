"""Whether the core lists each operation in just those operation sets in which OpenVINO has it."""

import pytest

pytest.importorskip("openvino")

from irdeconv.proof.definition import CONVOLUTIONS, family
from irdeconv.proof.language import listed_call
from irdeconv.proof.model import RULES, Layer, Unproved
from support.rows import each_row

BACK = [f"{kind}BackpropData" for kind in CONVOLUTIONS]
OWN = "ZeroInsertion"
NAMES = {"ReLU": "Relu", "PReLU": "PRelu"}  # files spell them otherwise


def listed(kind: str, opset: int) -> bool:
    """Whether the core knows an operation in a set."""
    version = f"opset{opset}"
    if kind in BACK:
        return family(Layer("y", kind, version)) is not None
    first = max((v for v in RULES[kind] if 0 < v <= opset), default=0)
    if not first:
        return False
    needed = [a for a in RULES[kind][first].attributes if "=" not in a and a != "gone"]
    try:
        listed_call(Layer("y", kind, version, dict.fromkeys(needed, "0")))
    except Unproved:
        return False
    return True


def known(kind: str, opset: int) -> bool:
    """Whether OpenVINO knows it."""
    from openvino._pyopenvino import NodeFactory

    try:
        NodeFactory(f"opset{opset}").create(NAMES.get(kind, kind))
    except RuntimeError:
        return False
    return True


@pytest.mark.oracles
@each_row("kind", sorted({*RULES, *BACK} - {OWN}))
def test_the_core_lists_no_operation_where_openvino_has_none(kind: str) -> None:
    ours = [opset for opset in range(1, 17) if listed(kind, opset)]
    assert [opset for opset in ours if not known(kind, opset)] == []
    assert ours, kind
