"""Memory and work that are counted before anything is allocated or multiplied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from irdeconv.errors import Diagnostic, LimitError, OpError
from irdeconv.graph import Graph, Node
from irdeconv.limits import LARGEST_INT, current, raise_hint
from irdeconv.op import Op, infer_op
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.control import LoopBase
from irdeconv.spec import Array, Spec, bounds

ALLOW = "allow more (max_memory=, --max-memory), or use smaller inputs"


def memory_limit(max_memory: int | None) -> int | None:
    """Return the bytes that a run may take: what is given, else the limit in force, if any."""
    if max_memory is not None:
        return max_memory
    return current().memory if current().memory < LARGEST_INT else None


class FoldBudget:
    """Bytes of the constants that are computed before a run; `limit` None counts nothing."""

    def __init__(self, graph: Graph, limit: int | None) -> None:
        self._graph, self._limit, self._taken = graph, limit, 0

    def take(self, node: Node, arrays: Sequence[Array]) -> None:
        """Count what a node of constant inputs will allocate; LimitError beyond the limit."""
        if self._limit is None:
            return
        self._taken += needed(self._graph, node, arrays)
        if self._taken > self._limit:
            message = (
                f'{node.type} "{node.name}": constants take {self._taken:,} bytes with it; the '
                f"limit is {self._limit:,}"
            )
            raise LimitError(
                Diagnostic("E602", "error", message, node.location, node.name, hint=ALLOW)
            )


def needed(graph: Graph, node: Node, arrays: Sequence[Array]) -> int:
    """Return the bytes of a node's outputs for these inputs; 0 where inference cannot tell."""
    specs = node.specs or ()
    if any(s.nbytes is None for s in specs):
        given = [
            Spec(known.dtype, array.shape, array) if known.dtype else Spec.of(array)
            for known, array in zip(graph.input_specs(node.id), arrays, strict=True)
        ]
        try:
            specs = infer_op(node.op, tuple(given))
        except (OpError, ArithmeticError, ValueError, TypeError, IndexError):
            return 0  # running it says what is wrong
    return sum(s.nbytes or 0 for s in specs)


def guarded(
    graph: Graph, node: Node, function: Callable[..., Any], limit: int
) -> Callable[..., Any]:
    """Return a node's function, which refuses sizes beyond a limit that only values tell."""

    def evaluate(*arrays: Array) -> Any:
        size = needed(graph, node, arrays)
        if size > limit:
            text = f"its outputs take {size:,} bytes for these inputs; the limit is {limit:,}"
            raise OpError(text, code="E602", hint=ALLOW)
        return function(*arrays)

    return evaluate


def require_macs(graph: Graph) -> None:
    """Raise LimitError where a run multiplies more often than the limit in force allows."""
    total, limit = _macs(graph), current().macs
    if total > limit:
        message = f"running takes {total:,} multiply-accumulates; the limit is {limit:,}"
        raise LimitError(Diagnostic("E602", "error", message, hint=raise_hint("macs")))


def _macs(graph: Graph) -> int:
    """Return the multiply-accumulates, of bodies as often as they run; unknown sizes count none."""
    total = 0
    for node in graph.nodes():
        inputs = graph.input_specs(node.id)
        try:
            total += node.op.macs(inputs, node.specs or ()) or 0
            times = _times(node.op, inputs)
        except (IndexError, OpError):
            continue
        total += times * sum(_macs(body.graph) for body in bodies_of(node))
    return total


def _times(op: Op, inputs: tuple[Spec, ...]) -> int:
    """Return how often the bodies of an operation run; once where that is not known."""
    trips = op.trips(inputs) if isinstance(op, LoopBase) else 1
    return trips if isinstance(trips, int) else max(bounds(trips)[0], 1)
