"""What is known before a run: constants, and what depends on constants alone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from irdeconv import progress
from irdeconv.constant import ArrayData, ConstantData
from irdeconv.errors import Collector, UnsupportedError
from irdeconv.graph import Graph, Node, Value
from irdeconv.io.lacking import lacks_data, no_data
from irdeconv.kernels.shared.exact import in_order
from irdeconv.op import Op, as_tuple, kept
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.convert import Convert
from irdeconv.ops.elementwise import Multiply, Subtract
from irdeconv.runtime.budget import FoldBudget
from irdeconv.runtime.failure import failure
from irdeconv.spec import Array

PROMISED_BYTES = 1 << 18  # above this size a constant may be made when it is asked for
REREAD_BYTES = 1 << 26  # of large constants, until the pages of mapped files are given back


class Constants(Mapping[Value, Array]):
    """Arrays of values that are known before a run.

    Large ones that are made quickly (read, moved, decompressed) are made when they are asked for,
    and made again where nobody holds them any more: most are packed for a kernel, one at a time.
    """

    def __init__(self) -> None:
        self._held: dict[Value, Array] = {}
        self._makers: dict[Value, Callable[[], Array]] = {}
        self._made: dict[Value, weakref.ref[Array]] = {}
        self._files: list[ConstantData] = []
        self._read = 0
        self.nbytes = 0

    def hold(self, value: Value, array: Array) -> None:
        """Add what is there."""
        self._held[value] = array
        self.nbytes += array.nbytes

    def promise(self, value: Value, nbytes: int, make: Callable[[], Array]) -> None:
        """Add what is to be made when it is asked for."""
        self._makers[value] = make
        self.nbytes += nbytes

    def watch(self, data: ConstantData) -> None:
        """Give back what is read of a mapped file for that constant, now and then."""
        self._files.append(data)

    def release(self) -> None:
        """Give back what has been read of mapped files: whatever is still used is read again."""
        self._read = 0
        for data in self._files:
            data.release()

    def __getitem__(self, value: Value) -> Array:
        held = self._held.get(value)
        if held is not None:
            return held
        made = self._made.get(value)
        array = None if made is None else made()
        if array is None:
            if self._read > REREAD_BYTES:
                self.release()
            array = self._makers[value]()
            self._read += array.nbytes
            self._made[value] = weakref.ref(array)
        return array

    def __contains__(self, value: object) -> bool:
        return value in self._held or value in self._makers

    def __iter__(self) -> Iterator[Value]:
        yield from self._held
        yield from self._makers

    def __len__(self) -> int:
        return len(self._held) + len(self._makers)


@dataclass(frozen=True)
class Folded:
    """What is left to execute, and the values that are known before."""

    order: list[Node] = field(default_factory=list)
    constants: Constants = field(default_factory=Constants)
    given: list[Node] = field(default_factory=list)


def fold(graph: Graph, max_memory: int | None = None) -> Folded:
    """Evaluate what depends on constants alone, in so many bytes.

    Raises UnsupportedError with every operation that cannot be executed, ExecutionError or
    LimitError where an evaluation fails.
    """
    order, live = graph.topological(), graph.live()
    _refuse_unsupported(list(_needed(graph)))
    folded = Folded()
    budget = FoldBudget(graph, max_memory)
    for node in progress.each("folding constants", order):
        if node.type == "Result" or (node.id not in live and node.type != "Parameter"):
            continue
        inputs = graph.inputs_of(node.id)
        if node.type == "Parameter":
            folded.given.append(node)
        elif all(v in folded.constants for v in inputs) and node.op.pure:
            _add(folded.constants, node, inputs, budget)
            folded.given.append(node)
        elif _known(node):
            for port, spec in enumerate(node.specs or ()):
                if spec.known is not None:
                    folded.constants.hold(Value(node.id, port), spec.known)
        else:
            folded.order.append(node)
    return folded


def _add(constants: Constants, node: Node, inputs: tuple[Value, ...], budget: FoldBudget) -> None:
    """Add the outputs of a node whose inputs are constants."""
    if _is_promised(node):
        budget.take(node, [])

        def make() -> Array:
            return _folded(node, [constants[v] for v in inputs])[0]

        constants.promise(Value(node.id), node.spec().nbytes or 0, make)
        if isinstance(node.op, Const):
            constants.watch(node.op.data)
        return
    arrays = [constants[v] for v in inputs]
    budget.take(node, arrays)
    try:
        out = _folded(node, arrays)
    except Exception as e:
        raise failure(node, arrays, e) from e
    for port, array in enumerate(out):
        constants.hold(Value(node.id, port), array)


def _is_promised(node: Node) -> bool:
    """Whether a constant is large and made in a few passes over its elements, without failing."""
    op, size = node.op, node.spec().nbytes if node.specs and len(node.specs) == 1 else None
    if size is None or size <= PROMISED_BYTES or node.spec().known is not None:
        return False
    if isinstance(op, Const):
        return not isinstance(op.data, ArrayData)
    return op.moves or isinstance(op, Convert | Multiply | Subtract)


def _folded(node: Node, arrays: list[Array]) -> tuple[Array, ...]:
    """Return a node's constant outputs, to the bit as inference has them.

    Where sums have a defined order they are computed in it.
    """
    known = [s.known for s in node.specs or ()]
    if known and not in_order() and all(v is not None for v in known):
        return tuple(v for v in known if v is not None)
    with np.errstate(all="ignore"):
        return kept(as_tuple(node.op.evaluate(*arrays)), node.specs)


def _known(node: Node) -> bool:
    """Whether inference knows all values, as for ShapeOf of an exact shape."""
    specs = node.specs or ()
    return bool(specs) and all(s.known is not None for s in specs) and node.op.pure


def _needed(graph: Graph) -> Iterator[Node]:
    """Yield the nodes that something needs, producers first, those of bodies in front of theirs."""
    live = graph.live()
    for node in graph.topological():
        if node.id in live:
            for body in bodies_of(node):
                yield from _needed(body.graph)
            yield node


def _refuse_unsupported(order: list[Node]) -> None:
    found = Collector()
    for node in order:
        op = node.op
        runs = type(op).evaluate is not Op.evaluate or node.type == "Parameter"
        if isinstance(op, Opaque) or not runs:
            found.add(
                "E502",
                f'irdeconv cannot execute {node.type} ({op.version}), layer "{node.name}"',
                location=node.location,
                layer=node.name,
            )
    lacking = [n for n in order if lacks_data(n.op)]
    if lacking:
        found.diagnostics.append(no_data(lacking, "has no data"))
    if found.errors:
        raise UnsupportedError(found.diagnostics)
