"""The layer behind a disagreement, as a sample that runs alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array, Interval, Spec
from irdeconv.ops.basic import Result
from op_cases import Tensor
from support.differential.judging import PASSIVE, Finding, values_apart
from support.live_operations.runtime import Runtime
from support.live_operations.sample import PLAIN, Given, Sample
from support.live_operations.sweep import verdict_of
from support.live_operations.verdict import Verdict

_NODE = re.compile(r"[:\s']([A-Za-z0-9]+_\d+)")


def samples_of(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Sample]:
    """Return every layer with the arrays that it reads, as far as the graph runs."""
    arrays: dict[Value, Array] = {}

    def keep(node: Node, outputs: object) -> None:
        for port, array in enumerate(outputs):  # type: ignore[arg-type, var-annotated]
            arrays[Value(node.id, port)] = array

    for node, array in zip(graph.parameters, feeds.values(), strict=True):
        arrays[Value(node.id)] = array
    with contextlib.suppress(IrdeconvError):
        ird.run(graph, dict(feeds), form=None, trace=keep)
    for node in graph.nodes("Const"):
        arrays[Value(node.id)] = node.op.evaluate()  # type: ignore[assignment]
    nodes = [n for n in graph.topological() if n.type not in PASSIVE]
    return {
        n.name: sample_of(graph, n, arrays)
        for n in nodes
        if all(v in arrays for v in graph.inputs_of(n.id))
    }


def sample_of(graph: Graph, node: Node, arrays: Mapping[Value, Array]) -> Sample:
    """Return a layer that reads these arrays."""
    inputs = tuple(
        _given(graph.spec(v), arrays[v], graph.node(v.node).type == "Const")
        for v in graph.inputs_of(node.id)
    )
    texts = node.op.to_attributes()
    texts.pop("semantics", None)
    return Sample(node.type, node.op.version, texts, inputs, max(node.outputs, 1), "located")


def _given(spec: Spec, array: Array, constant: bool) -> Given:
    assert spec.dtype is not None
    plain = spec.dtype.name in PLAIN or spec.dtype.name == "bf16"
    shape = spec.shape
    declared = None if shape is None else tuple(-1 if isinstance(d, Interval) else d for d in shape)
    return Given(Tensor(spec.dtype, array), constant or not plain, declared)


def locate(
    graph: Graph, feeds: Mapping[str, Array], finding: Finding, runtime: Runtime
) -> tuple[Finding, Verdict | None]:
    """Return the finding with the layer where it begins, and what this layer does alone."""
    samples = samples_of(graph, feeds)
    if finding.kind == "values":
        finding = _shown_everywhere(graph, feeds, finding, runtime)
    elif finding.kind in ("only irdeconv", "OpenVINO crashes"):
        named = [n for n in _NODE.findall(finding.detail) if n in samples]
        for name in [*named, *samples]:
            verdict = verdict_of(samples[name], runtime)
            if verdict.kind in ("only irdeconv", "OpenVINO crashes"):
                return Finding(finding.kind, name, verdict.reason), verdict
        return finding, None
    name = _computing(graph, finding.layer)
    name = name if name in samples else name.rpartition(".")[0]
    sample = samples.get(name)  # what has several outputs is named with the port
    if sample is None:
        return finding, None
    verdict = verdict_of(sample, runtime)
    if verdict.kind == "only irdeconv":  # as a whole it runs: OpenVINO folds what is known
        node, folded = next(n for n in graph.nodes() if n.name == name), _folded(graph)
        known = [v.node in folded for v in graph.inputs_of(node.id)]
        rows = zip(sample.inputs, known, strict=True)
        inputs = tuple(replace(g, constant=g.constant or fixed) for g, fixed in rows)
        verdict = verdict_of(replace(sample, inputs=inputs), runtime)
    return finding, verdict


def _computing(graph: Graph, name: str) -> str:
    """Return the layer that a Result of this name reads, else the name."""
    results = {r.name: graph.inputs_of(r.id)[0].node for r in graph.results}
    return graph.node(results[name]).name if name in results else name


def _folded(graph: Graph) -> set[int]:
    """Return the nodes that read no input of the graph, however far up, or only its shape."""
    found: set[int] = set()
    for node in graph.topological():
        values = graph.inputs_of(node.id)
        known = bool(node.specs) and all(s.known is not None for s in node.specs or ())
        if node.type == "Const" or known or (values and all(v.node in found for v in values)):
            found.add(node.id)
    return found


def refused_alone(
    graph: Graph, feeds: Mapping[str, Array], error: str, runtime: Runtime
) -> Verdict | None:
    """Return what the layer that a run refused does alone; None where it does not say which."""
    named = re.search(r'error\[E\d+\]: \w+ "([^"\n]*)"', error)
    sample = samples_of(graph, feeds).get(named.group(1)) if named else None
    return None if sample is None else verdict_of(sample, runtime)


def _shown_everywhere(
    graph: Graph, feeds: Mapping[str, Array], finding: Finding, runtime: Runtime
) -> Finding:
    """Compare once more with a Result behind every layer; keep the finding where that agrees."""
    shown = graph.copy()
    for i, value in enumerate(_unseen(graph)):
        shown.add(Result(), [value], name=f"shown {i}")
    shown = ird.infer(shown)
    xml, weights = ir_bytes(shown)
    live = runtime.ask(xml.decode(), weights, list(feeds.values()))
    if live.kind != "ran":
        return finding
    return values_apart(shown, live, feeds) or finding


def _unseen(graph: Graph) -> Iterator[Value]:
    for node in graph.topological():
        if node.type in PASSIVE:
            continue
        for port in range(max(node.outputs, 1)):
            value, dtype = Value(node.id, port), node.spec(port).dtype
            ends = {graph.node(user).type for user, _ in graph.users(value)}
            if dtype is not None and dtype.name in PLAIN and "Result" not in ends:
                yield value
