"""Whether irdeconv and OpenVINO say the same of a model: of reading, shapes, types and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError
from irdeconv.ir.graph import Graph, Node, Value, unique
from irdeconv.ir.spec import Array, Interval, Spec, bounds, merge
from support.live_operations.runtime import Answer

PASSIVE = ("Parameter", "Const", "Result")
MEMORY = 2**30  # bytes; a changed attribute can ask for as many as there are


@dataclass(frozen=True)
class Finding:
    """A disagreement: its kind, the layer where it shows first, what is said of it."""

    kind: str
    layer: str = ""
    detail: str = ""


@dataclass
class Ours:
    """irdeconv's side: what it refuses, or the inferred graph and the arrays of a run."""

    errors: tuple[str, ...] = ()
    graph: Graph | None = None
    arrays: tuple[Array, ...] = ()
    found: tuple[Finding, ...] = ()


def ours_of(xml: bytes, weights: bytes, feeds: Mapping[str, Array] | None = None) -> Ours:
    """Validate, infer and run an IR; every array is held against what inference said of it."""
    refused = [d for d in ird.validate(xml, weights) if d.severity == "error"]
    errors = tuple("\n".join([str(d), *(f"note: {n.message}" for n in d.notes)]) for d in refused)
    if errors:
        return Ours(errors)
    graph = ird.infer(ird.read(xml, weights))
    found: list[Finding] = []

    def held(node: Node, arrays: Sequence[Array]) -> None:
        for port, array in enumerate(arrays):
            why = contradiction(node.spec(port), array)
            if why:
                found.append(Finding("inference contradicted", node.name, f"port {port}: {why}"))

    try:
        arrays = ird.run(graph, dict(feeds or {}), form=None, trace=held, max_memory=MEMORY)
    except IrdeconvError as e:
        return Ours((str(e),), graph, (), tuple(found))
    return Ours((), graph, tuple(arrays.values()), tuple(found))


def contradiction(spec: Spec, array: Array) -> str:
    """Say what inference was wrong about; empty where it was right."""
    if spec.dtype is not None and spec.dtype.container != array.dtype:
        return f"inferred {spec.dtype}, ran {array.dtype}"
    if spec.shape is not None:
        exact = len(spec.shape) == array.ndim
        if not exact or any(
            merge(a, b) is None for a, b in zip(spec.shape, array.shape, strict=True)
        ):
            return f"inferred {spec}, ran {list(array.shape)}"
    if spec.value is None or array.dtype.kind in "OSUT":
        return ""
    known = zip(spec.value.reshape(-1), array.reshape(-1), strict=True)
    return next((f"value {a}, ran {b}" for a, b in known if not _is(a, b)), "")


def _is(said: Any, ran: Any) -> bool:
    if isinstance(said, Interval):
        low, high = bounds(said)
        return bool(low <= ran and (high is None or ran <= high))
    return bool(said == ran) or bool(said != said and ran != ran)


def shapes_apart(graph: Graph, live: Answer) -> tuple[list[Finding], int, int]:
    """Return layers whose types or shapes exclude each other; how many are wider and narrower."""
    found, wider, narrower = [], 0, 0
    names = Counter(n.name for n in graph.nodes())
    for node in graph.topological():
        type_name, theirs = live.layers.get(node.name, ("", ()))
        # Converts that version 10 implies take the names of what they read.
        if (
            node.type == "Result"
            or names[node.name] > 1
            or (type_name in ("Convert", "Result") and type_name != node.type)
        ):
            continue
        for port, (kind, shape) in enumerate(theirs[: max(node.outputs, 1)]):
            spec = node.spec(port)
            if str(spec.dtype) != kind:
                found.append(Finding("type", node.name, f"{spec.dtype}, OpenVINO {kind}"))
            elif not _meet(spec, shape):
                found.append(Finding("shape", node.name, f"{spec}, OpenVINO {_shown(shape)}"))
            wider += _below(shape, _pairs(spec))
            narrower += _below(_pairs(spec), shape)
    return found, wider, narrower


def _pairs(spec: Spec) -> Any:
    if spec.shape is None:
        return None
    return tuple((lo, -1 if hi is None else hi) for lo, hi in map(bounds, spec.shape))


def _shown(shape: Any) -> str:
    if shape is None:
        return "[...]"
    return str([a if a == b else f"{a}..{b}" for a, b in shape])


def _meet(spec: Spec, shape: Any) -> bool:
    ours = _pairs(spec)
    if ours is None or shape is None:
        return True
    if len(ours) != len(shape):
        return False
    rows = zip(ours, shape, strict=True)
    return all((a[1] < 0 or b[0] <= a[1]) and (b[1] < 0 or a[0] <= b[1]) for a, b in rows)


def _below(a: Any, b: Any) -> bool:
    """Whether one shape has an exact size, or a rank, where the other has none."""
    if a is None or b is None:
        return a is not None
    return any(x[0] == x[1] and y[0] != y[1] for x, y in zip(a, b, strict=False))


def values_apart(graph: Graph, live: Answer, feeds: Mapping[str, Array]) -> Finding | None:
    """Return the first layer whose values rounding does not explain; by `compare`."""
    graph, arrays = _named_apart(graph), {}
    for result, array in zip(graph.results, live.arrays, strict=True):
        source = graph.inputs_of(result.id)[0]
        node = graph.node(source.node)
        if node.type in ("Parameter", "Const"):
            continue
        spec = node.spec(source.port)
        one = max(node.outputs, 1) == 1
        arrays[node.name if one else f"{node.name}.{source.port}"] = _shown_as(array, spec)
    if not arrays:
        return None
    report = ird.compare(graph, arrays, dict(feeds))
    first = report.first_difference
    return None if first is None else Finding("values", first.name, str(first))


def _named_apart(graph: Graph) -> Graph:
    """Return the graph with a name of its own for every layer: `compare` goes by names."""
    nodes = sorted(graph.nodes(), key=lambda n: n.type != "Parameter")
    names = unique(n.name for n in nodes)
    if names == [n.name for n in nodes]:
        return graph
    out = graph.copy()
    for node, name in zip(nodes, names, strict=True):
        out.node(node.id).name = name
    return ird.infer(out)


def _shown_as(array: Array, spec: Spec) -> Array:
    """f64 was computed in f32."""
    return (
        array.astype(np.float32) if spec.dtype is not None and spec.dtype.name == "f64" else array
    )


def same_as_lowered(graph: Graph, feeds: Mapping[str, Array]) -> Finding | None:
    """Return where the graph without deconvolutions gives something else."""
    lowered = ird.lower(graph)
    report = ird.compare(graph, lowered.graph, dict(feeds))
    first = report.first_difference
    return None if first is None else Finding("lowered", first.name, str(first))


__all__ = ["Finding", "Ours", "Value", "ours_of", "same_as_lowered", "shapes_apart", "values_apart"]
