"""Fusion groups: the nodes of a graph that a plan executes as one step each.

The graph stays as it is; only the plan knows them. Two kinds of fusion make them: what surrounds a
convolution (ZeroInsertion and Pad in front, element-wise operations behind), and runs of
element-wise operations. Everything inside a group is used by the group alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.core import Deconvolution
from irdeconv.ops.interpolate import Resizing
from irdeconv.ops.pooling import Pool
from irdeconv.runtime.chains import is_element_wise
from irdeconv.runtime.fused_convolution import FusedConvolution, fuse_convolution
from irdeconv.spec import Array, is_static

LONGEST_CHAIN = 64  # element-wise nodes that are looked at together
_CONVOLVED = ("float16", "float32", "float64", "bfloat16")


@dataclass(frozen=True)
class FusionGroup:
    """Nodes that one step executes, producers first; the last one's outputs are the group's.

    `inputs` are read at run time.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]

    @property
    def last(self) -> Node:
        """The node whose outputs the group has."""
        return self.nodes[-1]


@dataclass(frozen=True)
class ConvolutionGroup(FusionGroup):
    """A convolution or deconvolution with what surrounds it.

    `finish` are the element-wise nodes at the end of `nodes`.
    """

    layer: FusedConvolution
    finish: tuple[Node, ...] = ()

    @property
    def core(self) -> Node:
        """The convolution or deconvolution."""
        return self.layer.nodes[-1]


@dataclass(frozen=True)
class ChainGroup(FusionGroup):
    """Element-wise operations on tensors of one shape."""


def dense_inputs(group: FusionGroup) -> tuple[Value, ...]:
    """Return what a group reads faster where elements follow each other in memory."""
    if isinstance(group, ConvolutionGroup):
        return (group.layer.data,)
    return group.inputs[:1] if isinstance(group.last.op, Pool | Resizing) else ()


class Users:
    """Who reads which value, among the nodes that are executed; a Result counts as a reader."""

    def __init__(self, graph: Graph, order: Iterable[Node]) -> None:
        self._readers: dict[Value, list[int]] = {}
        for node in order:
            for value in dict.fromkeys(graph.inputs_of(node.id)):
                self._readers.setdefault(value, []).append(node.id)
        self.results = {graph.inputs_of(n.id)[0] for n in graph.results}

    def of(self, value: Value) -> list[int]:
        """Return the readers' node ids."""
        return self._readers.get(value, [])

    def only(self, value: Value) -> int | None:
        """Return the single reader, None where there are more or fewer or a Result."""
        readers = self.of(value)
        return readers[0] if len(readers) == 1 and value not in self.results else None


@dataclass
class GroupFinder:
    """Finds the groups of a graph.

    `order` are the nodes to execute, producers first; `constants` the values that are known.
    """

    graph: Graph
    order: list[Node]
    constants: Mapping[Value, Array]

    def __post_init__(self) -> None:
        self.users = Users(self.graph, self.order)
        self.place = {n.id: k for k, n in enumerate(self.order)}
        self.taken: set[int] = set()

    def find(self) -> list[FusionGroup]:
        """Return every group, in an order in which they can be executed."""
        groups: list[FusionGroup] = []
        for node in self.order:
            if isinstance(node.op, ConvolutionBase | Deconvolution):
                group = self._convolution_group(node)
                if group is not None:
                    groups.append(group)
                    self.taken |= {n.id for n in group.nodes}
        for node in self.order:
            if node.id not in self.taken and self._element_wise(node):
                nodes = (node, *self._behind(node))
                groups.append(ChainGroup(nodes, self._inputs(nodes)))
                self.taken |= {n.id for n in nodes}
        rest = [n for n in self.order if n.id not in self.taken]
        groups += [FusionGroup((n,), self._inputs((n,))) for n in rest]
        return sorted(groups, key=lambda g: self.place[g.last.id])

    def _convolution_group(self, node: Node) -> ConvolutionGroup | None:
        layer = fuse_convolution(self.graph, node, self.constants, self.users)
        if layer is None or layer.problem.dtype not in _CONVOLVED:
            return None
        if any(n.id in self.taken for n in layer.nodes):
            return None
        finish = self._behind(node)
        nodes = (*layer.nodes, *finish)
        return ConvolutionGroup(nodes=nodes, inputs=self._inputs(nodes), layer=layer, finish=finish)

    def _element_wise(self, node: Node) -> bool:
        specs = node.specs or ()
        if len(specs) != 1 or not is_static(specs[0].shape) or 0 in specs[0].shape:
            return False
        return is_element_wise(node.op, self.graph.input_specs(node.id), specs[0])

    def _behind(self, node: Node) -> tuple[Node, ...]:
        """Return the element-wise nodes behind `node` that can be executed together with it.

        They have its shape and type, and nothing but the last one is used by anyone else.
        """
        spec = node.spec()
        inside = {node.id}
        chain: list[Node] = []
        best = 0
        waiting = set(self.users.of(Value(node.id)))
        while waiting and len(chain) < LONGEST_CHAIN:
            nearest = min(waiting, key=self.place.__getitem__)
            waiting.discard(nearest)
            other = self.graph.node(nearest)
            fits = other.id not in self.taken and self._element_wise(other)
            if not fits or other.spec().shape != spec.shape or other.spec().dtype != spec.dtype:
                continue
            inside.add(other.id)
            chain.append(other)
            waiting |= set(self.users.of(Value(other.id))) - inside
            if self._closed(inside, other.id):
                best = len(chain)
        return tuple(chain[:best])

    def _closed(self, inside: set[int], last: int) -> bool:
        """Whether only the last node's value is seen from outside."""
        return all(
            Value(i) not in self.users.results and set(self.users.of(Value(i))) <= inside
            for i in inside
            if i != last
        )

    def _inputs(self, nodes: Iterable[Node]) -> tuple[Value, ...]:
        made = {n.id for n in nodes}
        read = [v for n in nodes for v in self.graph.inputs_of(n.id)]
        return tuple(
            dict.fromkeys(v for v in read if v.node not in made and v not in self.constants)
        )
