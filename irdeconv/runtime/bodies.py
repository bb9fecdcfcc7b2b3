"""Loops and branches in a program: a program for each body, perhaps for each shape it meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from irdeconv.graph import Graph, Node
from irdeconv.kernels.shared.team import Team
from irdeconv.ops.bodies import Body, BodyOp
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.runtime.executors import Executor, outputs_of, unshared
from irdeconv.runtime.program import Call, Program, Slots, Values
from irdeconv.spec import Array, Spec, is_static

SHAPES = 4  # of a body's inputs that get a program of their own; others run node by node

# Compiles a graph; False: node by node, for any shapes.
Compile = Callable[[Graph, bool], Program]


def body_executor(
    graph: Graph, node: Node, op: BodyOp, compile: Compile, max_memory: int | None
) -> Executor:
    """Return what executes a loop or a branch."""
    return _BodyExecutor(
        arguments=graph.inputs_of(node.id),
        outputs=outputs_of(node),
        kernel="bodies",
        op=op,
        compile=compile,
        max_memory=max_memory,
    )


@dataclass(kw_only=True)
class _BodyExecutor(Executor):
    op: BodyOp
    compile: Compile
    max_memory: int | None

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        op, limit = self.op, self.max_memory
        runs = {body.tag: _Runner(body, self.compile) for body in op.bodies}

        def call(values: Values) -> None:
            arrays = [values[i] for i in ins]
            made = op.execute(arrays, lambda body: runs[body.tag], limit)
            for slot, array in zip(outs, made, strict=True):
                values[slot] = unshared(array, arrays)

        return call


class _Runner:
    """Executes a body once for each call."""

    def __init__(self, body: Body, compile: Compile) -> None:
        self._graph, self._compile = body.graph, compile
        self._parameters = [n.id for n in body.graph.parameters]
        self._results = [n.id for n in body.graph.results]
        self._programs: dict[Any, Program] = {}
        self._static = all(is_static(n.spec().shape) for n in body.graph.parameters)
        if self._static:
            self._program(())

    def __call__(self, given: Mapping[int, Array]) -> dict[int, Array]:
        arrays = [given[i] for i in self._parameters]
        shapes = () if self._static else tuple(a.shape for a in arrays)
        return dict(zip(self._results, self._program(shapes).compute(arrays), strict=True))

    def _program(self, shapes: tuple[tuple[int, ...], ...]) -> Program:
        """Return the program for these shapes; () where there is only one set of them."""
        key = shapes if shapes in self._programs or len(self._programs) < SHAPES else None
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._compiled(key)
        return program

    def _compiled(self, shapes: tuple[tuple[int, ...], ...] | None) -> Program:
        graph: Graph | None = self._graph
        if not self._static:
            graph = None if shapes is None else self._specialized(shapes)
        return self._compile(self._graph if graph is None else graph, graph is not None)

    def _specialized(self, shapes: tuple[tuple[int, ...], ...]) -> Graph | None:
        """Return the graph for exact shapes; None where they do not fit, which running says."""
        graph = self._graph.copy()
        given = {
            i: Spec(graph.node(i).spec().dtype, shape)
            for i, shape in zip(self._parameters, shapes, strict=True)
        }
        problems = infer_specs(graph, given=given)
        return None if any(d.severity == "error" for d in problems) else graph
