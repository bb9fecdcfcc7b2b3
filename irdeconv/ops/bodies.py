"""Bodies: the graphs inside Loop, TensorIterator and If, and what joins them to the outside.

A body's graph is never changed in place: who rewrites one puts a new graph into a new operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from irdeconv.errors import OpError, Problem
from irdeconv.graph import Graph, Node
from irdeconv.op import Op, attribute
from irdeconv.spec import Array, Spec
from irdeconv.traits import DRAWN, JUMPS, SCALE, Rounding

# Infers a graph in place with these specs of its Parameters; raises where that fails.
Walk = Callable[[Graph, Mapping[int, Spec]], None]
# Executes a body once: arrays by Parameter -> arrays by Result, which nobody writes to any more.
Run = Callable[[Mapping[int, Array]], Mapping[int, Array]]


@dataclass(frozen=True)
class Slicing:
    """Parts of a tensor along an axis, one in each iteration.

    `start` and `end` stand between elements: 0 in front of the first, -1 behind the last. Between
    them lie whole parts of |`stride`| elements, of which an iteration has the first `part_size`;
    with a negative stride the last part comes first.
    """

    axis: int
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1

    def parts(self, size: int) -> int:
        """Return how many parts an axis has; OpError E302 where they are not whole."""
        start, end = (p + size + 1 if p < 0 else p for p in (self.start, self.end))
        first, last = (end, start) if self.stride < 0 else (start, end)
        step = abs(self.stride)
        if not 0 <= first <= last <= size or (last - first) % step:
            raise OpError(
                f"axis {self.axis} has {size} elements; from {self.start} to {self.end} there are "
                f"no whole parts of {step}",
                code="E302",
            )
        return (last - first) // step

    def at(self, iteration: int, size: int) -> slice:
        """Return where a part lies.

        The runtime counts from the first element, or backwards from the last, whatever `start` is.
        """
        step = abs(self.stride)
        number = size // step - 1 - iteration if self.stride < 0 else iteration
        return slice(number * step, number * step + self.part_size)

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with it whatever the tensor."""
        if self.stride == 0:
            yield Problem("E211", "the stride is 0")
        elif not 1 <= self.part_size <= abs(self.stride):
            yield Problem("E211", f"parts of {self.part_size} do not fit the stride {self.stride}")


@dataclass(frozen=True)
class BodyInput:
    """What a Parameter of the body gets: an input of the operation, or a part of it.

    `iteration`: the number of the iteration instead.
    """

    parameter: int
    port: int | None = None
    slicing: Slicing | None = None
    iteration: bool = False


@dataclass(frozen=True)
class BodyOutput:
    """Where the value of a Result of the body goes: to an output of the operation.

    That of the last iteration, or with a `slicing` those of all, joined. `condition`: it says
    whether there is another iteration.
    """

    result: int
    port: int | None = None
    slicing: Slicing | None = None
    condition: bool = False


@dataclass(frozen=True)
class Body:
    """A graph inside an operation.

    `tag` is the element of the file: body, then_body, else_body. `edges` carry values from one
    iteration to the next: from a Result to a Parameter, whose input is the first value.
    """

    graph: Graph
    inputs: tuple[BodyInput, ...] = ()
    outputs: tuple[BodyOutput, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    tag: str = "body"

    def carried(self) -> dict[int, int]:
        """Return by Parameter the Result whose value it gets in the next iteration.

        An edge to an input that is sliced means nothing.
        """
        whole = {i.parameter for i in self.inputs if i.slicing is None and not i.iteration}
        return {parameter: result for result, parameter in self.edges if parameter in whole}

    def by_port(self) -> list[BodyOutput]:
        """Return what gives the operation's outputs, in their order."""
        given = {o.port: o for o in self.outputs if o.port is not None}
        return [given[port] for port in sorted(given)]

    def check(self) -> Iterator[Problem]:
        """Yield what does not fit the graph."""
        kinds = {n.id: n.type for n in self.graph.nodes()}
        fed = Counter(i.parameter for i in self.inputs)
        ends = [(i.parameter, "Parameter") for i in self.inputs]
        ends += [(o.result, "Result") for o in self.outputs]
        for result, parameter in self.edges:
            ends += [(result, "Result"), (parameter, "Parameter")]
        for ident, kind in ends:
            if kinds.get(ident) != kind:
                yield Problem("E211", f"the {self.tag} has no {kind} {ident}")
        for node in self.graph.parameters:
            if fed[node.id] != 1:
                times = "nothing feeds" if node.id not in fed else "several entries feed"
                yield Problem("E211", f'{times} the input "{node.name}" of the {self.tag}')
        slicings = [i.slicing for i in self.inputs] + [o.slicing for o in self.outputs]
        for slicing in slicings:
            yield from () if slicing is None else slicing.problems()


@dataclass(frozen=True)
class BodyOp(Op):
    """Base of the operations with bodies.

    Their graphs have the specs of the last inference.
    """

    tags: ClassVar[tuple[str, ...]] = ("body",)
    folds: ClassVar[bool] = False
    bodies: tuple[Body, ...] = attribute((), internal=True)

    @property
    def side_effect(self) -> bool:  # type: ignore[override]
        """Whether a body has a layer with side effects."""
        return any(n.op.side_effect for b in self.bodies for n in b.graph.nodes())

    @cached_property  # asked for every output
    def rounding(self) -> Rounding:  # type: ignore[override]
        """Exact where every layer of the bodies is, else relative to the largest value.

        None where one draws numbers.
        """
        rules = {n.op.rounding.rule for b in self.bodies for n in b.graph.nodes()}
        if "any" in rules:
            return DRAWN
        return JUMPS if rules <= {"exact"} else SCALE

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        """Return the layers of the bodies, times how much larger than the output an input is."""
        largest = max((x.size for x in inputs), default=0)
        layers = sum(len(b.graph) for b in self.bodies)
        return layers * (largest // max(output.size, 1) + 1)

    @property
    def pure(self) -> bool:
        """Whether every layer of the bodies is."""
        return all(n.op.pure for b in self.bodies for n in b.graph.nodes())

    def body(self, tag: str) -> Body:
        """Return the body of a tag."""
        return next(b for b in self.bodies if b.tag == tag)

    def with_graphs(self, change: Callable[[Graph], Graph]) -> BodyOp:
        """Return the operation with every body's graph changed; Parameters and Results stay."""
        return replace(self, bodies=tuple(replace(b, graph=change(b.graph)) for b in self.bodies))

    def inferred(self, inputs: Sequence[Spec], walk: Walk) -> BodyOp:
        """Return the operation with its bodies inferred for these inputs by `walk`."""
        raise NotImplementedError

    def results(self, inputs: Sequence[Spec]) -> tuple[Spec, ...]:
        """Return the specs of the outputs, the bodies being inferred."""
        raise NotImplementedError

    def execute(
        self, inputs: Sequence[Array], run: Callable[[Body], Run], limit: int | None = None
    ) -> tuple[Array, ...]:
        """Compute the outputs; `run` gives what executes a body once.

        OpError E602 where joined outputs take more bytes than the limit, or a loop does not end.
        """
        raise NotImplementedError

    def check(self) -> Iterator[Problem]:
        tags = tuple(b.tag for b in self.bodies)
        if sorted(tags) != sorted(self.tags):
            have = ", ".join(tags) or "none"
            yield Problem("E211", f"its bodies are {have}, not {' and '.join(self.tags)}")
        for body in self.bodies:
            yield from body.check()
            ports = sorted(o.port for o in body.outputs if o.port is not None)
            if ports != list(range(len(ports))):
                yield Problem("E211", f"the {body.tag} gives the outputs {ports}")

    def macs(self, inputs: tuple[object, ...], outputs: tuple[object, ...]) -> int | None:
        """Return None: how often a body runs is known when it has run."""
        return None


def bodies_of(node: Node) -> tuple[Body, ...]:
    """Return the bodies of a node; most have none."""
    return node.op.bodies if isinstance(node.op, BodyOp) else ()


def every_node(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph and those of all bodies in it."""
    for node in graph.nodes():
        yield node
        for body in bodies_of(node):
            yield from every_node(body.graph)


def change_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> None:
    """Put changed graphs into the bodies of a graph, in place."""
    for node in graph.nodes():
        if isinstance(node.op, BodyOp):
            graph.replace_op(node.id, node.op.with_graphs(change))
