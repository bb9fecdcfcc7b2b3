"""Rename layers and tensors, and keep names if one tensor replaces another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from irdeconv.base.errors import Collector, UsageError, did_you_mean, first_names
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ops.basic import Opaque

Kind = Literal["layer", "tensor"]
KINDS: tuple[Kind, Kind] = ("layer", "tensor")


@dataclass(frozen=True)
class Renaming:
    """One name that has become another."""

    kind: Annotated[Kind, str]  # layer, tensor, input or output
    old: str  # before
    new: str  # after


@dataclass(frozen=True)
class Substitution:
    """A regular expression, and the replacement of its matches: of the first or of all."""

    pattern: re.Pattern[str]
    replacement: str
    everywhere: bool = False

    def __call__(self, name: str) -> str:
        """Return the name after the substitution."""
        return self.pattern.sub(self.replacement, name, count=0 if self.everywhere else 1)


@dataclass(frozen=True)
class Renamed:
    """The graph with other names, and the changes: each name once."""

    graph: Graph
    changes: tuple[Renaming, ...]

    @property
    def new_names(self) -> list[dict[str, str]]:
        """The new names by the old ones, of layers and of tensors."""
        return [{c.old: c.new for c in self.changes if c.kind == kind} for kind in KINDS]


_NewNames = dict[Kind, dict[str, str]]  # the new names by the old ones, of layers and of tensors


def rename(
    graph: Graph,
    names: Mapping[str, str] | None = None,
    substitutions: Iterable[Substitution] = (),
    kinds: Iterable[Kind] = KINDS,
) -> Renamed:
    """Return a copy with other names, given as to `irdeconv.rename`, and the changes.

    `substitutions` apply in turn to all names of `kinds` that are not in `names`. Layers and
    tensors in bodies keep their names. Raises UsageError for unknown old names (E503) and for new
    names that are empty or not unique (E508).
    """
    out, problems = graph.copy(), Collector()
    counts = {kind: _counted(out, kind, {}) for kind in KINDS}
    new_names = _exact(names or {}, counts, problems)
    for kind in kinds:
        for old in counts[kind]:
            new = old
            for substitution in substitutions:
                new = substitution(new)
            if new != old:
                new_names[kind].setdefault(old, new)
    _check(out, counts, new_names, problems)
    problems.require_none(UsageError)
    for node in out.nodes():
        _apply(node, new_names)
    changes = [Renaming(k, old, new) for k in KINDS for old, new in new_names[k].items()]
    return Renamed(out, tuple(changes))


def _counted(graph: Graph, kind: Kind, names: Mapping[str, str]) -> Counter[str]:
    """Return the names of layers or tensors after renaming, with how many of them have each."""
    if kind == "layer":  # the ends and initializers of an ONNX model are only tensors
        ops = ((n, n.op) for n in graph.nodes())
        own = (n for n, op in ops if not isinstance(op, Opaque) or op.declares or op.data)
        return Counter(names.get(n.name, n.name) for n in own)
    ports = (port for node in graph.nodes() for port in node.tensor_names)
    return Counter(name for port in ports for name in {names.get(t, t) for t in port})


def _exact(
    names: Mapping[str, str], known: Mapping[Kind, Counter[str]], problems: Collector
) -> _NewNames:
    out: _NewNames = {kind: {} for kind in KINDS}
    for text, new in names.items():
        kinds = [kind for kind in KINDS if text in known[kind]]
        old = text
        if not kinds:
            prefix, _, old = text.partition(":")
            kinds = [kind for kind in KINDS if kind == prefix and old in known[kind]]
        for kind in kinds:
            if new != old:
                out[kind][old] = new
        if not kinds:
            every = [*known["layer"], *known["tensor"]]
            message = f'the model has no layer or tensor "{text}"'
            problems.add("E503", message, hint=did_you_mean(text, every))
    return out


def _check(
    graph: Graph, known: Mapping[Kind, Counter[str]], found: _NewNames, problems: Collector
) -> None:
    """Report new names that are empty, contain control characters, or are not unique."""
    for kind in KINDS:
        names = found[kind]
        times = _counted(graph, kind, names)
        before: dict[str, list[str]] = {}  # the old names by the new one
        for old in known[kind]:
            before.setdefault(names.get(old, old), []).append(old)
        for new in dict.fromkeys(names.values()):
            olds = first_names(before[new])
            if not new or not new.isprintable():
                problems.add("E508", f"{kind} {olds}: {new!a} is no name")
            elif times[new] > 1:
                problems.add("E508", f'{times[new]} {kind}s would be called "{new}": {olds}')


def _apply(node: Node, found: _NewNames) -> None:
    node.name, tensors = found["layer"].get(node.name, node.name), found["tensor"]
    if tensors:
        node.tensor_names = tuple(
            tuple(dict.fromkeys(tensors.get(t, t) for t in names)) for names in node.tensor_names
        )
        node.extra = tuple(
            (key, tensors.get(text, text) if key == "output_names" else text)
            for key, text in node.extra
        )


def feeds_result(graph: Graph, node: Node) -> bool:
    """Whether an output of the model is an output of the node."""
    return any(graph.node(i).type == "Result" for i in graph.successors(node.id))


def may_stand_for(graph: Graph, old: Node, new: Value) -> bool:
    """Whether a tensor may replace a node's output: outputs of the model stay apart."""
    if not feeds_result(graph, old):
        return True
    producer = graph.node(new.node)
    free = producer.type != "Parameter" and not feeds_result(graph, producer)
    return free and not producer.names_of(new.port)


def give_names(graph: Graph, old: Value, new: Value) -> None:
    """Let a tensor answer to another one's names as well, unless programs ask for it by its own."""
    more, producer = graph.node(old.node).names_of(old.port), graph.node(new.node)
    named_end = bool(producer.names_of(new.port)) and feeds_result(graph, producer)
    if more and producer.type != "Parameter" and not named_end:
        producer.add_names(new.port, more)
