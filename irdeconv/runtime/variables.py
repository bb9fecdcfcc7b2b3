"""The variables of a plan: values that live from one run to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node
from irdeconv.ops.state import ReadingOp, VariableOp, unfit
from irdeconv.spec import Array, Spec


@dataclass
class Variables:
    """Values by variable: `kept` from run to run; what a run assigns is kept at its end.

    Inside a run `now` is what is read: a body's assignments hold from its next iteration on.
    """

    kept: dict[str, Array] = field(default_factory=dict)
    now: dict[str, Array] = field(default_factory=dict)
    assigned: dict[str, Array] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a run; a run that failed before has changed nothing."""
        self.now = dict(self.kept)
        self.assigned.clear()

    def go_on(self) -> None:
        """Let what was assigned be read."""
        self.now |= self.assigned
        self.assigned.clear()

    def end(self) -> None:
        """Keep what the run has assigned."""
        self.go_on()
        self.kept = self.now

    def function(self, graph: Graph, node: Node, op: VariableOp) -> Callable[..., Any]:
        """Return what evaluates a node that reads or assigns a variable."""
        name = op.variable_id
        if isinstance(op, ReadingOp):
            own = node.spec()

            def read(*init: Array) -> Any:
                held = self.now.get(name)
                return op.evaluate(*init) if held is None else _checked(name, own, held)

            return read
        readers = [n for n in graph.nodes("ReadValue") if _variable(n) == name]
        spec = readers[0].spec() if readers else Spec(None, None)

        def assign(value: Array) -> Array:
            self.assigned[name] = np.array(_checked(name, spec, value))
            return value

        return assign


def _variable(node: Node) -> str | None:
    return node.op.variable_id if isinstance(node.op, VariableOp) else None


def _checked(name: str, own: Spec, array: Array) -> Array:
    problem = unfit(own, array)
    if problem is not None:
        raise OpError(f'"{name}": {problem}', code="E302", hint="reset() gives up all values")
    return array
