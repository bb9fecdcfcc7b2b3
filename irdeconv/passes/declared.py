"""Whether what a file declares of an unknown operation still holds of its inferred inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

from irdeconv.errors import Diagnostic, Note, severity_of
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.basic import Opaque
from irdeconv.spec import Shape, Spec, compatible, merge_shapes

STALE = "W207"


@dataclass
class Declarations:
    """Follows, node by node, what shapes that are not the declared ones reach.

    A declared shape is a statement about the declared inputs. It is not true any more where an
    input contradicts its declaration, or where it may be larger or smaller because somebody has
    given other shapes. An inference that merely knows less than the file says changes nothing.
    Without `believe` no declaration counts.
    """

    believe: bool = True
    changed: set[int] = field(default_factory=set)

    def enter(self, graph: Graph, node: Node, specs: tuple[Spec, ...]) -> None:
        """Note whether a node of these specs is, or rests on, an input of another shape."""
        sources = graph.inputs_of(node.id)
        if sources:
            reached = self.changed and any(v.node in self.changed for v in sources)
        else:
            own = zip(specs, node.declared, strict=False)
            reached = any(not _within(is_.shape, said.shape) for is_, said in own)
        if reached:
            self.changed.add(node.id)

    def of(self, graph: Graph, node: Node, op: Opaque) -> tuple[Spec, ...]:
        """Return what is declared of an unknown operation's outputs, as far as it holds."""
        if not self.believe:
            return (Spec(None, None),) * len(op.declared)
        wrong = [
            (said, graph.spec(value))
            for value, said in _declared_inputs(graph, node)
            if self._broken(said, graph.spec(value), value)
        ]
        if not wrong:
            return op.declared
        types = all(_same_type(said, is_) for said, is_ in wrong)
        return tuple(Spec(s.dtype if types else None, None) for s in op.declared)

    def _broken(self, said: Spec, is_: Spec, value: Value) -> bool:
        if not compatible(said.shape, is_.shape) or not _same_type(said, is_):
            return True
        return value.node in self.changed and not _within(is_.shape, said.shape)


def stale(graph: Graph) -> list[Diagnostic]:
    """Warn of every unknown operation of an inferred graph whose declared shapes do not hold."""
    return [warning(graph, node) for node in graph.nodes() if is_stale(node)]


def is_stale(node: Node) -> bool:
    """Whether an inferred node is an unknown operation whose declared shapes do not hold."""
    return isinstance(node.op, Opaque) and node.specs not in (None, node.op.declared)


def warning(graph: Graph, node: Node) -> Diagnostic:
    """Return what is to be said of such a node: which inputs are not as they are declared."""
    notes = [
        Note(f"input {port} is declared {said}, and it is {graph.spec(value)}")
        for port, (value, said) in enumerate(_declared_inputs(graph, node))
        if graph.spec(value).shape != said.shape or not _same_type(said, graph.spec(value))
    ]
    return Diagnostic(
        STALE,
        severity_of(STALE),
        f'{node.type} "{node.name}": irdeconv does not know the operation, and what the file '
        "declares of its outputs does not hold of these inputs: their shapes are unknown",
        node.location,
        node.name,
        tuple(notes),
    )


def _declared_inputs(graph: Graph, node: Node) -> list[tuple[Value, Spec]]:
    """Return the inputs with what is declared of them, by the node or by their producer."""
    pairs = []
    for port, value in enumerate(graph.inputs_of(node.id)):
        said = node.declared_inputs[port : port + 1]
        by_producer = graph.node(value.node).declared[value.port : value.port + 1]
        found = said if said and said[0].shape is not None else by_producer
        pairs += [(value, s) for s in found]
    return pairs


def _same_type(a: Spec, b: Spec) -> bool:
    return a.dtype is None or b.dtype is None or a.dtype == b.dtype


def _within(a: Shape | None, b: Shape | None) -> bool:
    """Whether every shape that `a` allows is one that `b` allows."""
    return a == b or (compatible(a, b) and merge_shapes(a, b) == a)
