"""ONNX's If, where the condition is known while importing."""

from __future__ import annotations

from irdeconv.importers.builder import ImportBuilder
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule


@rule("If", "1 11 13 16 19 21 23 24 25")
def branch(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The nodes of the branch that the condition chooses, in place."""
    both = n.anything("then_branch"), n.anything("else_branch")
    chosen = bool(b.need(b.as_scalar(n[0]), "the condition"))
    return n.bodies.inline(both[0] if chosen else both[1])
