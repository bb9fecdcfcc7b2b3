"""Which layers a piece consists of, and which tensors flow into it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.state import VariableOp


@dataclass
class Region:
    """What a walk back from the outputs of a piece has met.

    `layers` belong to the piece, `inputs` are tensors that flow in, `known` tensors from outside
    whose values follow from shapes alone, `states` the ReadValue and Assign of variables that the
    piece keeps.
    """

    layers: set[int] = field(default_factory=set)
    inputs: set[Value] = field(default_factory=set)
    known: set[Value] = field(default_factory=set)
    states: set[int] = field(default_factory=set)


def variable(node: Node) -> str | None:
    """Return the variable that a ReadValue or Assign stands for; None for other layers."""
    return node.op.variable_id if isinstance(node.op, VariableOp) else None


def behind(graph: Graph, seeds: Iterable[int]) -> set[int]:
    """Return the ids of the seeds and of all layers that anything of theirs flows into."""
    seen = set(seeds)
    stack = list(seen)
    while stack:
        for i in graph.successors(stack.pop()):
            if i not in seen:
                seen.add(i)
                stack.append(i)
    return seen


def constant_layers(graph: Graph) -> set[int]:
    """Return the ids of the constants and of the layers that only constants flow into."""
    found: set[int] = set()
    for node in graph.topological():
        inputs = graph.inputs_of(node.id)
        fed = bool(inputs) and all(v.node in found for v in inputs)
        if node.type == "Const" or (fed and variable(node) is None and node.type != "Result"):
            found.add(node.id)
    return found


class Cutter:
    """Walks back from outputs, up to `cuts` and to what `inside` has not.

    Constants come along whole. A variable stays one where the piece both reads it and computes what
    is assigned; what ReadValue gives flows in otherwise.
    """

    def __init__(
        self, graph: Graph, cuts: Collection[Value], inside: set[int], constants: set[int]
    ) -> None:
        self._graph, self._cuts, self._inside, self._constants = graph, cuts, inside, constants
        self._assigns = {
            name: n.id for n in graph.nodes("Assign") if (name := variable(n)) is not None
        }

    def region(self, outputs: Iterable[Value]) -> Region:
        """Return the piece that ends in `outputs`."""
        region, read = Region(), set[Value]()
        self._walk(outputs, region, read)
        settled = False
        while not settled:
            settled = True
            for value in sorted(read):
                assign = self._assigns[variable(self._graph.node(value.node)) or ""]
                source = self._graph.inputs_of(assign)[0]
                if source.node in region.layers or source in self._cuts:
                    read.remove(value)
                    region.states |= {value.node, assign}
                    region.layers |= {value.node, assign}
                    self._walk([source, *self._graph.inputs_of(value.node)], region, read)
                    settled = False
        region.inputs |= read
        return region

    def _walk(self, values: Iterable[Value], region: Region, read: set[Value]) -> None:
        stack = list(values)
        while stack:
            value = stack.pop()
            node = self._graph.node(value.node)
            if value in self._cuts:
                region.inputs.add(value)
            elif node.id in region.layers:
                continue
            elif variable(node) in self._assigns and node.type == "ReadValue":
                read.add(value)
            elif node.id in self._inside or node.id in self._constants:
                region.layers.add(node.id)
                stack += self._graph.inputs_of(node.id)
            elif self._graph.spec(value).known is not None:
                region.known.add(value)
            else:
                region.inputs.add(value)
