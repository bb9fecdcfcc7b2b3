"""Facts about every deconvolution of a graph, inferred or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from irdeconv.dialects.template import CanonicalRecorder
from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node
from irdeconv.inspection.layers import macs
from irdeconv.spec import Dim, Shape, Spec, dims, is_static


@dataclass(frozen=True)
class DeconvolutionFacts:
    """One deconvolution with everything resolved; None or `?` where sizes are unknown.

    `attributes` are as written; strides, dilations, pads, kernel, groups and output are the
    effective ones. MACs: `direct` of the scatter, `zero_insertion` of the lowered convolution.
    """

    id: int
    name: str
    type: str
    version: str
    attributes: dict[str, str]
    groups: str | None = None
    channels_in: str | None = None
    channels_out: str | None = None
    kernel: str | None = None
    strides: str | None = None
    dilations: str | None = None
    pads_begin: str | None = None
    pads_end: str | None = None
    output: str | None = None
    macs_direct: int | None = None
    macs_zero_insertion: int | None = None
    problem: str | None = None


def deconvolutions(graph: Graph) -> list[DeconvolutionFacts]:
    """Return the facts of every deconvolution in id order."""
    return [_facts(graph, n) for n in graph.nodes() if n.op.deconvolution]


def _facts(graph: Graph, node: Node) -> DeconvolutionFacts:
    inputs = graph.input_specs(node.id)
    op, problem = node.op, None
    recorder = CanonicalRecorder()
    try:
        recorder.expand(op, inputs)
    except OpError as e:
        problem = str(e)
    except TypeError:
        problem = f"{len(inputs)} inputs do not fit {op.type}"
    resolved = _resolved(recorder, node.spec()) if recorder.op else {}
    return DeconvolutionFacts(
        node.id,
        node.name,
        op.type,
        op.version,
        op.to_attributes(),
        macs_direct=macs(op, inputs, node.specs or node.declared),
        problem=problem,
        **resolved,
    )


def _resolved(canonical: CanonicalRecorder, own: Spec) -> dict[str, Any]:
    op, inputs, out = canonical.op, canonical.inputs, canonical.out
    assert op is not None
    assert out is not None
    filter = inputs[1].shape
    g, c, m = filter[:3] if filter else (None, None, None)
    return {
        "groups": _dim(g),
        "channels_in": None if g is None or c is None else str(g * c),
        "channels_out": None if g is None or m is None else str(g * m),
        "kernel": _dims(filter[3:] if filter else None),
        "strides": _dims(op.strides),
        "dilations": _dims(op.dilations),
        "pads_begin": _dims(dims(inputs[2])),
        "pads_end": _dims(dims(inputs[3])),
        "output": _dims(own.shape or out.shape),
        "macs_zero_insertion": zero_insertion_macs(filter, out.shape),
    }


def zero_insertion_macs(grouped_filter: Shape | None, output: Shape | None) -> int | None:
    """Return N * M * C/g * prod(K) * prod(O) for a filter (g, C/g, M/g, *K); None where unknown."""
    if not is_static(grouped_filter) or not is_static(output):
        return None
    return output[0] * math.prod(grouped_filter) * math.prod(output[2:])


def _dim(dim: Dim | None) -> str | None:
    return None if dim is None else str(dim)


def _dims(values: Shape | None) -> str | None:
    return None if values is None else ",".join(map(str, values))
