"""Operations that irdeconv knows only by their declaration: which of them a file may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from irdeconv.errors import Collector, Diagnostic, Problem
from irdeconv.graph import Graph, Node
from irdeconv.limits import current
from irdeconv.op import REGISTRY, TYPES, Op, lookup
from irdeconv.ops.basic import Opaque, is_indispensable
from irdeconv.ops.bodies import BodyOp, bodies_of
from irdeconv.ops.catalog import CATALOG, LAST, opsets, spelling
from irdeconv.suggest import did_you_mean

_OPSET = re.compile(r"opset([1-9][0-9]{0,3})")


def unknown(kind: str, version: str, live: bool) -> Problem | None:
    """Return what is wrong with a type or version that irdeconv does not know.

    None where others may know it. Operations of opset1 and so on are OpenVINO's, or nobody's. An
    operation set of another name is that of an extension, one of a higher number that of a newer
    OpenVINO. Of what no result needs (not `live`) it does not matter.
    """
    number, have = _OPSET.fullmatch(version), opsets(kind)
    if number and int(number[1]) in have:
        return None
    if not live:
        message = f"no result needs it, and its operation {kind} ({version}) is unknown"
        return Problem("W201", message, hint="OpenVINO never looks at it")
    if dialects_of(kind):
        return no_dialect(kind, f'the version "{version}" is unknown')
    if _is_custom(kind, version):
        return None
    if have:
        return _wrong_opset(kind, version, have, number)
    hint = did_you_mean(kind, {*CATALOG, *TYPES})
    return Problem("E206", f'the operation type "{kind}" ({version}) is unknown', "type", hint=hint)


def _wrong_opset(kind: str, version: str, have: list[int], number: re.Match[str] | None) -> Problem:
    text = _ranges(have)
    if number is None or int(number[1]) > LAST:
        message, hint = f'"{version}" is not an operation set', f"{kind} is in {text}"
        return Problem("E214", message, "version", hint=hint)
    return Problem("E207", f"{version} has no {kind}", "version", hint=f"it is in {text}")


def no_dialect(kind: str, message: str, attribute: str | None = "version") -> Problem:
    """Return the problem of a type of dialects whose version selects none of them."""
    listed = ", ".join(f'version="{v}"' for v in dialects_of(kind))
    if kind == "Deconvolution":
        listed = f"{listed}, or the type ConvolutionBackpropData of opset1"
    text = f"{message}; it selects the dialect of {kind}"
    return Problem("E214", text, attribute, hint=listed)


def by_declaration(kind: str, version: str, count: int) -> str:
    """Return the warning of so many layers of one operation that is not known in detail."""
    more = f" (and {count - 1} more layers of it)" if count > 1 else ""
    return (
        f"irdeconv does not know {kind} ({version}) in detail{more}; its declared shapes are taken "
        "as they are"
    )


def unkept(op: Opaque) -> Problem | None:
    """Return why no reader keeps a layer of this type and version as its text; None where one does.

    One that irdeconv knows is read with its details or not at all, unless its bodies stay as text.
    """
    kind, version = op.kind, op.opset
    cls = _known(kind, version) if kind and version else None
    if cls is not None:
        kept = issubclass(cls, BodyOp) and bool(op.sections)
    else:
        kept = bool(kind and version) and not is_indispensable(kind)
    text = f"an operation {kind} ({version}) without its details is none that is read"
    return None if kept else Problem("E206", text)


def _known(kind: str, version: str) -> type[Op] | None:
    cls = lookup(spelling(kind) or kind, version)
    return None if left_out(kind, version) else cls


def unknown_operations(graph: Graph) -> list[Diagnostic]:
    """Return what a reader of the `.xml` says of the operations that are known by declaration."""
    found = Collector(most=current().reports)
    others: dict[tuple[str, str], list[Node]] = {}
    for node, live in _opaque(graph):
        assert isinstance(node.op, Opaque)
        kind, version = node.op.kind, node.op.opset
        problem = unkept(node.op)
        if problem is None and _known(kind, version) is None:
            problem = unknown(kind, version, live)
            if problem is None:
                others.setdefault((kind, version), []).append(node)
        if problem is not None:
            _report(found, node, problem)
    for (kind, version), nodes in others.items():
        _report(found, nodes[0], Problem("W204", by_declaration(kind, version, len(nodes))))
    found.count_rest()
    return found.diagnostics


def _opaque(graph: Graph) -> Iterator[tuple[Node, bool]]:
    """Yield the operations known by declaration, and whether a result needs them."""
    live: set[int] | None = None
    for node in graph.nodes():
        if isinstance(node.op, Opaque):
            live = graph.live() if live is None else live
            yield node, node.id in live
        for body in bodies_of(node):
            yield from _opaque(body.graph)


def _report(found: Collector, node: Node, problem: Problem) -> None:
    text = f'{node.type} "{node.name}": {problem.message}'
    found.add(problem.code, text, location=node.location, layer=node.name, hint=problem.hint)


@lru_cache(maxsize=4096)
def left_out(kind: str, version: str) -> bool:
    """Whether OpenVINO lacks the operation in just this opset, as ShuffleChannels in opset2."""
    number, have = _OPSET.fullmatch(version), opsets(kind)
    return bool(have) and number is not None and int(number[1]) not in have


@lru_cache(maxsize=4096)
def _is_custom(kind: str, version: str) -> bool:
    """Whether a version names the operation set of an extension, or of a newer OpenVINO.

    Nobody could tell what a deconvolution of such a set computes, and ends of a model have none.
    """
    if is_indispensable(kind):
        return False
    number = _OPSET.fullmatch(version)
    if number is not None:
        return int(number[1]) > LAST
    return did_you_mean(version, [f"opset{n}" for n in range(1, LAST + 1)]) is None


def dialects_of(kind: str) -> list[str]:
    """Return the versions of a type that only dialects have, such as ConvTranspose."""
    return [] if kind in CATALOG else _of_dialects(len(REGISTRY)).get(kind, [])


@lru_cache(maxsize=1)
def _of_dialects(registered: int) -> dict[str, list[str]]:
    """Return the versions that are no operation set, by type, of so many registered operations."""
    found: dict[str, list[str]] = {}
    for kind, version in sorted(REGISTRY):
        if not _OPSET.fullmatch(version):
            found.setdefault(kind, []).append(version)
    return found


def _ranges(numbers: list[int]) -> str:
    """Return `opset2 to opset16, ...`."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][-1] == n - 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(
        f"opset{p[0]}" if len(p) == 1 else f"opset{p[0]} to opset{p[-1]}" for p in parts
    )
