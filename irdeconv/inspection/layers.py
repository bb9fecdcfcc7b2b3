"""Facts about every layer and every deconvolution of a graph, inferred or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from irdeconv.constant import FileData
from irdeconv.dialects.template import CanonicalRecorder
from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node
from irdeconv.op import Op
from irdeconv.ops.basic import Const, Opaque
from irdeconv.spec import Dim, Shape, Spec, dims, format_shape, is_static


@dataclass(frozen=True)
class LayerFacts:
    """One layer. Shapes are text (`[1,3,?]`); `macs` is None where sizes are unknown.

    `parameters` and `bytes` count the constants that reach the layer without passing another layer
    with other inputs, so weights behind a Convert belong to the convolution.
    """

    id: int
    name: str
    type: str
    version: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    element_types: tuple[str, ...]
    parameters: int
    bytes: int
    macs: int | None
    deconvolution: bool
    constant: bool
    origins: tuple[str, ...]


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


def layers(graph: Graph) -> list[LayerFacts]:
    """Return the facts of all nodes in id order."""
    sources = _constant_sources(graph)
    return [_layer(graph, n, sources) for n in graph.nodes()]


def _layer(graph: Graph, node: Node, sources: dict[int, frozenset[int]]) -> LayerFacts:
    inputs = graph.input_specs(node.id)
    outputs = node.specs if node.specs is not None else node.declared
    constant = node.id in sources
    sources_behind = [i for v in graph.inputs_of(node.id) for i in sources.get(v.node, ())]
    held = {node.id} if isinstance(node.op, Const) else set() if constant else set(sources_behind)
    sizes = [_const_size(graph.node(i).op) for i in held]
    return LayerFacts(
        id=node.id,
        name=node.name,
        type=node.op.type,
        version=node.op.version,
        inputs=tuple(format_shape(s.shape) for s in inputs),
        outputs=tuple(format_shape(s.shape) for s in outputs),
        element_types=tuple(str(s.dtype or "?") for s in outputs),
        parameters=sum(n for n, _ in sizes),
        bytes=sum(b for _, b in sizes),
        macs=macs(node.op, inputs, outputs),
        deconvolution=node.op.deconvolution,
        constant=constant,
        origins=node.origins,
    )


def macs(op: Op, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
    """Return the multiply-accumulates of a layer; None where they are unknown."""
    if isinstance(op, Opaque) or type(op).macs is Op.macs:
        return None if isinstance(op, Opaque) else 0
    try:
        return op.macs(inputs, outputs)
    except (IndexError, OpError):
        return None  # an unfinished graph: ports or declarations are missing


def _const_size(op: Op) -> tuple[int, int]:
    if not isinstance(op, Const) or not is_static(op.shape):
        return 0, 0
    count = math.prod(op.shape)
    if isinstance(op.data, FileData):
        return count, op.data.size
    return count, op.element_type.nbytes(count)


def _constant_sources(graph: Graph) -> dict[int, frozenset[int]]:
    """Return, for each node that depends on constants alone, the ids of these constants."""
    found: dict[int, frozenset[int]] = {}
    if graph.cycle():
        return {n.id: frozenset([n.id]) for n in graph.nodes("Const")}
    for node in graph.topological():
        inputs = graph.inputs_of(node.id)
        if isinstance(node.op, Const):
            found[node.id] = frozenset([node.id])
        elif inputs and node.type != "Result" and all(v.node in found for v in inputs):
            found[node.id] = frozenset().union(*(found[v.node] for v in inputs))
    return found


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
