"""Find the layers of one graph in another, and check that all that is not rewritten is the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.spec import ints
from irdeconv.verify.proof.attributes import attributes_of
from irdeconv.verify.proof.definition import Unproved, define, is_defined
from irdeconv.verify.proof.evaluator import Constants
from irdeconv.verify.proof.kept import kept_parts
from irdeconv.verify.proof.layer import LayerPlace, needed
from irdeconv.verify.proof.relation import same

SUFFIX = "BackpropData"
_COUNTED = re.compile(r"_\d+$")


@dataclass
class Matching:
    """What of a source graph was found in a lowered one.

    `places` has the deconvolutions that were rewritten, or why one was not found; `kept` the names
    of those that stand there unchanged; `others` counts the other layers that are the same;
    `problems` says which are not. `biases` has the Add that belongs to a deconvolution because the
    lowered graph adds the bias somewhere inside.
    """

    places: dict[int, LayerPlace | str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    others: int = 0
    problems: list[str] = field(default_factory=list)
    biases: dict[int, int] = field(default_factory=dict)

    def place(self, node: Node) -> LayerPlace:
        """Return where a rewritten deconvolution lies; Unproved where it was not found."""
        place = self.places[node.id]
        if isinstance(place, str):
            raise Unproved(place)
        return place


class Matcher:
    """Matches two graphs; layers are known by tensor names, names, or what they were made from."""

    def __init__(self, source: Graph, lowered: Graph) -> None:
        self.source, self.lowered = source, lowered
        self.constants, self.lowered_constants = Constants(source), Constants(lowered)
        self.nodes: dict[int, int] = {}
        self.out = Matching()
        self.names: dict[str, list[int]] = {}
        self.tensors: dict[str, int] = {}
        self.origins: dict[tuple[str, ...], int] = {}
        # A node that bears a name and type of the source graph is most likely that node.
        self.reserved = {(n.name, n.type) for n in source.nodes() if not is_defined(n)}
        for node in lowered.topological():
            if node.type in ("Const", "Result"):
                continue
            for name in {node.name, _COUNTED.sub("", node.name)}:
                self.names.setdefault(name, []).append(node.id)
            self.tensors |= dict.fromkeys((node.tensor_names or ((),))[0], node.id)
            if node.origins:
                self.origins[node.origins] = node.id

    def match(self) -> Matching:
        """Match everything that a Result needs, inputs first."""
        source = self.source
        results = [Value(n.id) for n in source.results]
        demanded = needed(results, lambda i: self.demands(source.node(i)))
        for node in source.topological():
            if node.id not in demanded or node.type == "Const":
                continue
            if node.type == "Result" or node.id in self.out.biases.values():
                continue
            if is_defined(node):
                self._deconvolution(node)
            else:
                self._same(node)
        self._results()
        return self.out

    def demands(self, node: Node) -> list[Value]:
        """Return the inputs that must be found: of a deconvolution those that are no constants."""
        inputs = list(self.source.inputs_of(node.id))
        if not is_defined(node):
            return inputs
        demanded = [inputs[0]]
        for port, v in enumerate(inputs[1:], 1):
            size = node.type.endswith(SUFFIX) and port == 2
            known = size and ints(self.source.spec(v)) is not None
            if not known and self.constants.get(v) is None:
                demanded.append(v)
        return demanded

    def _candidates(self, node: Node) -> list[int]:
        """Return nodes of the lowered graph that may compute what a source node does, best first.

        Names are no keys: frontends repeat them, and a lowering renames what would be a lie.
        """
        likely = [self.tensors[t] for t in (node.tensor_names or ((),))[0] if t in self.tensors]
        renamed = node.name.replace(node.type, node.type.removesuffix(SUFFIX))
        for name in (node.name, renamed):
            likely += self.names.get(name, [])
        if (node.name,) in self.origins:
            likely.append(self.origins[(node.name,)])
        return list(dict.fromkeys(likely))

    def _bias_behind(self, node: Node) -> int | None:
        """Return the Add of a constant behind a deconvolution that stands for a bias inside it."""
        users = self.source.users(Value(node.id))
        add = self.source.node(users[0][0]) if len(users) == 1 else None
        if add is None or add.type != "Add" or self._candidates(node):
            return None
        other = self.source.inputs_of(add.id)[1 - users[0][1]]
        found = (self.lowered.node(c) for c in self._candidates(add))
        alike = any(n.type in ("Add", node.type) for n in found)
        return None if alike or self.constants.get(other) is None else add.id

    def _lowered_from(self, node: Node, last: Node) -> int | None:
        """Return the candidate for `last` that is computed from a deconvolution's data."""
        taken = set(self.nodes.values())
        free = [c for c in self._candidates(last) if c not in taken]
        data = self.nodes.get(self.source.inputs_of(node.id)[0].node)
        reaching = [c for c in free if data is not None and self._reaches(c, data, taken)]

        def likely(c: int) -> bool:
            other = self.lowered.node(c)
            return (other.name, other.type) in self.reserved

        return next(iter(sorted(reaching, key=likely) or free), None)

    def _reaches(self, node: int, data: int, taken: set[int]) -> bool:
        """Whether a node is computed from another one by nodes that have no match yet."""
        inputs_of = self.lowered.inputs_of
        free = needed([Value(node)], inputs_of, lambda v: v.node in taken)
        return any(v.node == data for i in free for v in inputs_of(i))

    def translate(self, value: Value) -> Value | None:
        """Return the value of the lowered graph that equals one of the source graph."""
        node = self.nodes.get(value.node)
        return None if node is None else Value(node, value.port)

    def _equal(self, value: Value, lowered: Value) -> bool:
        if self.translate(value) == lowered:
            return True
        a, b = self.constants.get(value), self.lowered_constants.get(lowered)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            return False
        return bool(np.array_equal(a, b) if a.dtype == object else same(a, b).all())

    def _same(self, node: Node) -> None:
        candidates = self._candidates(node)
        if node.type == "Parameter":
            at = [n.id for n in self.source.parameters].index(node.id)
            candidates += [n.id for n in self.lowered.parameters[at : at + 1]]
        nodes = self.lowered.node
        equal = (c for c in candidates if not self._difference(node, nodes(c)))
        alike = (c for c in candidates if nodes(c).type == node.type)
        match = next(equal, next(alike, next(iter(candidates), None)))
        if match is None:
            self.out.problems.append(f'{node.type} "{node.name}" is not in the lowered graph')
            return
        reason = self._difference(node, self.lowered.node(match))
        if reason:
            self.out.problems.append(f'{node.type} "{node.name}" {reason}')
        else:
            self.out.others += 1
        self.nodes[node.id] = match

    def _difference(self, node: Node, other: Node) -> str | None:
        if node.type != other.type:
            return f"is a {other.type} in the lowered graph"
        if node.type == "Parameter":
            same_type = attributes_of(node).element_type == attributes_of(other).element_type
            return None if same_type else "has another element type"
        if node.op.to_attributes() != other.op.to_attributes():
            return "has other attributes in the lowered graph"
        if kept_parts(node) != kept_parts(other):
            return "has another version, or other children, in the lowered graph"
        pairs = (self.source.inputs_of(node.id), self.lowered.inputs_of(other.id))
        if len(pairs[0]) != len(pairs[1]):
            return "has another number of inputs in the lowered graph"
        for port, (a, b) in enumerate(zip(*pairs, strict=True)):
            if not self._equal(a, b):
                return f"has another input {port} in the lowered graph"
        return None

    def _deconvolution(self, node: Node) -> None:
        add = self._bias_behind(node)
        last = node if add is None else self.source.node(add)
        match = self._lowered_from(node, last)
        if match is None:
            self.out.places[node.id] = "it is not in the lowered graph"
            return
        if add is not None:
            self.out.biases[node.id] = add
        self.nodes[last.id] = match
        other = self.lowered.node(match)
        if is_defined(other):
            reason = self._difference(node, other)
            self.out.kept.append(node.name)
            if reason:
                self.out.places[node.id] = reason
            return
        self.out.places[node.id] = self._place(node, Value(match))

    def _place(self, node: Node, output: Value) -> LayerPlace | str:
        inputs = self.source.inputs_of(node.id)
        try:
            d = define(self.source, node)
        except Unproved as e:
            return str(e)
        demanded = self.demands(node)
        lowered = {v: self.translate(v) for v in demanded}
        data = lowered[inputs[0]]
        if data is None:
            if self.constants.get(inputs[0]) is not None:
                return "its data is a constant, so that nothing is left to be followed"
            return "its data is not in the lowered graph"
        ports = (1, d.bias, d.output_shape)
        rest = (lowered.get(inputs[p]) if p is not None else None for p in ports)
        return LayerPlace(output, data, *rest)

    def _results(self) -> None:
        results = (self.source.results, self.lowered.results)
        if len(results[0]) != len(results[1]):
            self.out.problems.append(f"{len(results[0])} outputs became {len(results[1])}")
        for a, b in zip(*results, strict=False):
            if not self._equal(self.source.inputs_of(a.id)[0], self.lowered.inputs_of(b.id)[0]):
                self.out.problems.append(f'output "{a.name}" shows something else')


def match(source: Graph, lowered: Graph) -> Matching:
    """Find every layer of a source graph in a lowered graph."""
    return Matcher(source, lowered).match()
