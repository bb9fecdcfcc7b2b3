"""ONNX models held against the limits before anything is built of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from irdeconv.errors import Diagnostic, LimitError
from irdeconv.importers.imported import malformed
from irdeconv.limits import Limits, raise_hint
from irdeconv.opening import shown
from irdeconv.source import Location


def require_modest(model: Any, limits: Limits, location: Location) -> None:
    """Refuse more nodes, inputs, outputs or attributes than the limits allow, endless functions.

    Raises LimitError; InputError for functions that call themselves and nodes without operation.
    """
    count = 0
    for body in (model.graph, *model.functions):
        for node in _nodes(body):
            count += 1
            if not node.op_type:
                raise malformed(location, f"the node {shown(node.name)} names no operation")
            for found, limit in (
                (len(node.input), "ports"),
                (len(node.output), "ports"),
                (len(node.attribute), "attributes"),
            ):
                _require(found, limit, limits, location, f'{node.op_type} "{node.name}" has')
    _require(count, "layers", limits, location, "the model has")
    if model.functions:
        _require_finite(model, limits, location)


_WHAT = {"ports": "inputs or outputs", "attributes": "attributes", "layers": "nodes"}


def _require(found: int, limit: str, limits: Limits, location: Location, text: str) -> None:
    most = getattr(limits, limit)
    if found > most:
        message = f"{text} {found:,} {_WHAT[limit]}; the limit is {most:,}"
        raise LimitError(Diagnostic("E601", "error", message, location, hint=raise_hint(limit)))


def _require_finite(model: Any, limits: Limits, location: Location) -> None:
    """Refuse functions that call themselves, and those whose nodes in place of calls are too many.

    A few functions that each call the next one twice stand for more nodes than any memory holds.
    """
    functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
    counts: dict[Any, int] = {}
    for key in functions:
        _count(key, functions, counts, location)
    total = sum(counts.get(k, 0) for k in _calls(model.graph))
    most = limits.called_nodes
    if total > most:
        text = f"calls of its functions stand for {total:,} nodes; the limit is {most:,}"
        hint = raise_hint("called_nodes")
        raise LimitError(Diagnostic("E601", "error", text, location, hint=hint))


def _count(start: Any, functions: Any, counts: dict[Any, int], location: Location) -> None:
    """Fill in how many nodes a function becomes, and those that it calls; no recursion."""
    path: dict[Any, list[Any]] = {}
    waiting = [start]
    while waiting:
        key = waiting[-1]
        if key in counts:
            waiting.pop()
            continue
        if key in path:
            counts[key] = sum(counts.get(k, 1) for k in path.pop(key))
            waiting.pop()
            continue
        called = path[key] = list(_calls(functions[key]))
        for k in called:
            if k in path:
                raise malformed(location, f"the function {shown(key[1])} calls itself", code="E205")
        waiting += [k for k in dict.fromkeys(called) if k in functions and k not in counts]


def _calls(body: Any) -> Iterator[Any]:
    """Yield what each node of a body is."""
    return ((n.domain, n.op_type, getattr(n, "overload", "")) for n in _nodes(body))


def _nodes(body: Any) -> Iterator[Any]:
    """Yield the nodes of a graph or function, those in bodies of its nodes included."""
    bodies = [body]
    while bodies:
        for node in bodies.pop().node:
            yield node
            for a in node.attribute:
                bodies += [*([a.g] if a.HasField("g") else ()), *a.graphs]
