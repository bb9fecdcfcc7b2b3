"""Memory and work, counted before anything is allocated; errors of layers in a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.base.codes import CODES
from irdeconv.base.errors import (
    Diagnostic,
    ExecutionError,
    IrdeconvError,
    LimitError,
    Note,
    OpError,
)
from irdeconv.base.limits import LARGEST_INT, current, raise_hint
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op, as_tuple
from irdeconv.ir.spec import Array, Spec, bounds
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.control import LoopBase

REMEMBERED = 64  # sets of inputs that a layer has been inferred for
LISTED = 64  # elements of an input whose values inference gets
ALLOW = "allow more with --max-memory, or use smaller inputs"


def memory_limit(max_memory: int | None) -> int | None:
    """Return the bytes that a run may take: `max_memory`, else the limit in force, if any."""
    if max_memory is not None:
        return max_memory
    return current().memory if current().memory < LARGEST_INT else None


class FoldBudget:
    """Bytes of the constants that are computed before a run; `limit` None counts nothing."""

    def __init__(self, graph: Graph, limit: int | None) -> None:
        self._graph, self._limit, self._taken = graph, limit, 0

    def take(self, node: Node, arrays: Sequence[Array]) -> None:
        """Count the bytes that a node of constant inputs needs; LimitError beyond the limit."""
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
    """Return the bytes of a node's outputs for these inputs; 0 if inference refuses them."""
    specs = node.specs or ()
    if any(s.nbytes is None for s in specs):
        try:
            specs = _inferred(graph, node, arrays)
        except OpError:
            return 0  # running it reports the error
    return sum(s.nbytes or 0 for s in specs)


def guarded(
    graph: Graph, node: Node, function: Callable[..., Any], limit: int | None
) -> Callable[..., Any]:
    """Return a node's function with the checks that only a run can make.

    It refuses sizes that inference refuses, though NumPy may accept them, and outputs beyond the
    limit. Inputs like those of an earlier run are not checked again.
    """
    known: dict[tuple[Any, ...], int] = {}

    def evaluate(*arrays: Array) -> Any:
        key = tuple(map(_facts, arrays))
        size = known.get(key)
        if size is None:
            if len(known) >= REMEMBERED:
                known.clear()
            specs = _inferred(graph, node, arrays)
            size = known[key] = sum(s.nbytes or 0 for s in specs)
        if limit is not None and size > limit:
            text = f"its outputs take {size:,} bytes for these inputs; the limit is {limit:,}"
            raise OpError(text, code="E602", hint=ALLOW)
        return function(*arrays)

    return evaluate


def _facts(array: Array) -> tuple[Any, ...]:
    """Return the facts that inference uses: the shape, and the values of a short list."""
    return array.shape, array.tobytes() if _is_list(array) else None


def _is_list(array: Array) -> bool:
    return array.ndim < 2 and array.size <= LISTED and array.dtype != object


def _inferred(graph: Graph, node: Node, arrays: Sequence[Array]) -> tuple[Spec, ...]:
    """Infer a node for these inputs; OpError if they do not fit."""
    given = [
        Spec(known.dtype or Spec.of(array).dtype, array.shape, array if _is_list(array) else None)
        for known, array in zip(graph.input_specs(node.id), arrays, strict=True)
    ]
    try:
        specs: tuple[Spec, ...] = as_tuple(node.op.infer(*given))
    except (ArithmeticError, ValueError, TypeError, IndexError) as e:
        raise OpError(f"its inputs do not fit: {e}") from e
    return specs


def require_macs(graph: Graph) -> None:
    """Raise LimitError if a run multiplies more often than the limit in force allows."""
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
    """Return how often the bodies of an operation run; 1 if that is unknown."""
    trips = op.trips(inputs) if isinstance(op, LoopBase) else 1
    return trips if isinstance(trips, int) else max(bounds(trips)[0], 1)


def failure(node: Node, arrays: Sequence[Any], error: Exception) -> IrdeconvError:
    """Return the error of a layer that failed, with the arrays that it got."""
    error = _told(node, arrays, error)
    shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in map(np.asarray, arrays))
    hint, notes = None, [Note(f"its inputs are {shapes or 'none'}")]
    text = str(error) or type(error).__name__
    memory = isinstance(error, MemoryError)
    if isinstance(error, OpError):
        code, hint = error.problem.code, error.problem.hint
        memory = code == "E602"
        if not memory and code != "E300":
            notes.append(Note(f"this is {code}: {CODES[code].title}"))
    diagnostic = Diagnostic(
        code="E602" if memory else "E500",
        severity="error",
        message=f'{node.type} "{node.name}": {text}',
        location=node.location,
        layer=node.name,
        notes=tuple(notes),
        hint=hint,
    )
    return LimitError(diagnostic) if memory else ExecutionError(diagnostic)


def _told(node: Node, arrays: Sequence[Any], error: Exception) -> Exception:
    """Return the error of inference for these very arrays, if it refuses them; else the error."""
    if isinstance(error, OpError | IrdeconvError | MemoryError):
        return error
    try:
        node.op.infer(*(Spec(None, a.shape, Spec.of(a).value) for a in map(np.asarray, arrays)))
    except OpError as refusal:
        return refusal
    except Exception:  # without element types it need not get through
        return error
    return error
