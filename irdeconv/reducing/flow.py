"""The values that flow through a graph, computed as far as they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from irdeconv import progress
from irdeconv.graph import Graph, Node, Value
from irdeconv.kernels.shared.blas import one_blas_thread
from irdeconv.op import as_tuple
from irdeconv.spec import Array, Interval, Spec

KEPT_BYTES = 1 << 29


@dataclass
class Flow:
    """The values of an inferred graph on given inputs.

    What cannot be computed (operations without an evaluator, layers that fail) is random, the same
    in every run; `guessed` has the names of these layers.
    """

    graph: Graph
    feeds: dict[str, Array]
    guessed: set[str] = field(default_factory=set)
    _known: dict[Value, Array] = field(default_factory=dict)
    _random: set[int] = field(default_factory=set)
    _bytes: int = 0

    def arrays(self, wanted: Iterable[Value]) -> dict[Value, Array | None]:
        """Return values, None where not even a shape is known."""
        wanted = list(wanted)
        missing = [v for v in wanted if v not in self._known]
        found = self._compute(set(missing)) if missing else {}
        return {v: self._known.get(v, found.get(v)) for v in wanted}

    def replace(self, value: Value, array: Array) -> None:
        """Let a value be another one than the graph computes."""
        self._known[value] = array
        self._random.discard(value.node)

    def is_guessed(self, value: Value) -> bool:
        """Whether a value is random, or computed of random ones."""
        return value.node in self._random

    def _compute(self, wanted: set[Value]) -> dict[Value, Array]:
        order = self._needed(wanted)
        left = Counter(v for n in order for v in self.graph.inputs_of(n.id))
        live: dict[Value, Array] = {}
        with progress.stage("computing what flows into the piece", len(order)) as step:
            for node in order:
                step(detail=node.name)
                inputs = self.graph.inputs_of(node.id)
                arrays = [self._known.get(v, live.get(v)) for v in inputs]
                self._random |= {node.id} if any(v.node in self._random for v in inputs) else set()
                for port, array in enumerate(self._outputs(node, arrays)):
                    live[Value(node.id, port)] = array
                    self._keep(Value(node.id, port), array)
                for v in inputs:
                    left[v] -= 1
                    if not left[v] and v not in wanted:
                        live.pop(v, None)
        return live

    def _keep(self, value: Value, array: Array) -> None:
        if self._bytes + array.nbytes <= KEPT_BYTES:
            self._known[value] = array
            self._bytes += array.nbytes

    def _needed(self, wanted: set[Value]) -> list[Node]:
        """Return the nodes that have to be executed, producers first."""
        seen: set[int] = set()
        stack = [v for v in wanted if v not in self._known]
        while stack:
            value = stack.pop()
            if value.node not in seen and value not in self._known:
                seen.add(value.node)
                stack += self.graph.inputs_of(value.node)
        return [n for n in self.graph.topological() if n.id in seen]

    def _outputs(self, node: Node, inputs: list[Array | None]) -> tuple[Array, ...]:
        if node.type == "Parameter":
            return (self.feeds[node.name],)
        try:
            with np.errstate(all="ignore"), one_blas_thread():
                made = node.op.evaluate(*inputs)
            return tuple(np.asarray(y) for y in as_tuple(made))
        except Exception:  # unknown operations, and whatever a broken layer objects to
            self.guessed.add(node.name)
            self._random.add(node.id)
            shapes = (s for s in node.specs or ())
            return tuple(guess(s, node.id, port) for port, s in enumerate(shapes))


def guess(spec: Spec, *seed: int) -> Array:
    """Return numbers of a spec: reals in [0, 1), others 0; open sizes are the smallest ones."""
    shape = tuple(max(d.lo, 1) if isinstance(d, Interval) else d for d in spec.shape or ())
    dtype = np.dtype(np.float32) if spec.dtype is None else spec.dtype.container
    if spec.dtype is None or spec.dtype.is_real:
        return np.random.default_rng(seed).random(shape).astype(dtype)
    return np.full(shape, "" if dtype.kind == "O" else 0, dtype)
