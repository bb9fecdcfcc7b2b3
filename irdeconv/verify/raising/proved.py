"""Raise decompositions, prove every deconvolution that came of it, put back what is not proved.

Lowering is the rewriting that the proof knows: the raised graph is its original, and the graph that
was given is what a lowering would have made of it.
"""

from __future__ import annotations

from collections.abc import Collection

from irdeconv.graph import Graph
from irdeconv.passes.raising import Raised, raise_deconvolutions
from irdeconv.verify.proof.check import check
from irdeconv.verify.raising.resized import resize_unproved


def raise_proved(graph: Graph, only: Collection[str] | None = None) -> Raised:
    """Return a copy in which the decompositions that are proved are deconvolutions again.

    Raises what `raise_deconvolutions` does.
    """
    return raise_deconvolutions(graph, only, unproved)


def unproved(raised: Graph, source: Graph) -> dict[str, str]:
    """Return the deconvolutions of `raised` that are not proved equal to `source`, and why.

    Where something besides them differs, none is proved.
    """
    before = {n.name for n in source.nodes() if n.op.deconvolution}
    new = [n for n in raised.nodes() if n.op.deconvolution and n.name not in before]
    report = check(raised, source)
    if report.problems:
        return {n.name: f"it is not proved: {report.problems[0]}" for n in new}
    done = {c.layer: c for c in report.layers}
    out: dict[str, str] = {}
    for node in new:
        if any(n.type == "Interpolate" for n in source.find(node.name)):
            why = resize_unproved(raised, node, source)
            out |= {} if why is None else {node.name: f"it is not proved: {why}"}
            continue
        proof = done.get(node.name)
        if proof is None:
            out[node.name] = "it is not proved: the proof does not find it"
        elif proof.reason is not None:
            out[node.name] = f"it is not proved: {proof.reason}"
        elif not proof.every:
            out[node.name] = f"it is proved for {proof.proved}"
    return out
