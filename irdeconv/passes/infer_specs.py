"""Shape, element type and value inference over a graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from irdeconv import progress
from irdeconv.errors import Collector, Diagnostic, InferenceError, Note, OpError, Problem
from irdeconv.graph import Graph, Node
from irdeconv.op import infer_op, ports
from irdeconv.ops.basic import Opaque
from irdeconv.ops.bodies import BodyOp, bodies_of
from irdeconv.ops.body_inference import BodyError, infer_bodies
from irdeconv.passes.declared import Declarations, is_stale, warning
from irdeconv.spec import Shape, Spec, compatible, format_shape

TENSOR_BYTES = 1 << 40  # a larger tensor is surely a mistake in the file


def infer_specs(
    graph: Graph,
    shapes: Mapping[int, Shape | None] | None = None,
    *,
    given: Mapping[int, Spec] | None = None,
    remarks: bool = False,
    believe: bool = True,
) -> list[Diagnostic]:
    """Fill in the specs of every node in place and return everything that does not fit.

    `shapes` overrides the shapes of Parameters by node id, `given` their specs. A node that fails
    keeps its declared specs, so that one mistake is reported once. `remarks` adds warnings and
    compares the declared with the inferred specs. Unknown operations have the specs that the file
    declares, as far as these hold of its inputs (passes/declared.py), or if they are not to be
    believed none. Operations with bodies get inferred ones.
    """
    problems, declarations = Collector(), Declarations(believe)
    for node in progress.each("inferring shapes", graph.topological()):
        inputs = graph.input_specs(node.id)
        try:
            specs = _infer(graph, node, inputs, declarations)
        except BodyError as e:
            problems.diagnostics += e.diagnostics
            node.specs = _declared(node)
            continue
        except (OpError, ArithmeticError, ValueError, TypeError, IndexError) as e:
            unfit = Problem("E300", f"its inputs do not fit: {e}")
            report(problems, graph, node, e.problem if isinstance(e, OpError) else unfit)
            node.specs = _declared(node)
            continue
        if shapes and node.id in shapes:
            specs = (Spec(specs[0].dtype, shapes[node.id]),)
        node.specs = specs if given is None or node.id not in given else (given[node.id],)
        declarations.enter(graph, node, node.specs)
        _check_size(problems, node, inputs)
        if remarks:
            _remark(problems, graph, node, believe)
    return problems.diagnostics


def _infer(
    graph: Graph, node: Node, inputs: tuple[Spec, ...], declarations: Declarations
) -> tuple[Spec, ...]:
    """Return the specs of a node's outputs; its bodies get theirs."""
    if isinstance(node.op, BodyOp):
        walk = partial(_walk, believe=declarations.believe)
        node.op, specs = infer_bodies(node.op, inputs, walk)
        return specs
    if isinstance(node.op, Opaque):
        return declarations.of(graph, node, node.op)
    return infer_op(node.op, inputs)


def _remark(problems: Collector, graph: Graph, node: Node, believe: bool) -> None:
    """Add the warnings about an inferred node."""
    for problem in node.op.remarks(*graph.input_specs(node.id)):
        report(problems, graph, node, problem)
    _compare(problems, graph, node)
    if believe and is_stale(node):
        problems.diagnostics.append(warning(graph, node))
    problems.diagnostics += _remarks(node, believe)


def _declared(node: Node) -> tuple[Spec, ...]:
    return tuple(s.without_value() for s in node.declared) or (Spec(None, None),)


def _walk(graph: Graph, given: Mapping[int, Spec], believe: bool) -> None:
    """Infer a body in place; BodyError with everything that does not fit."""
    found = infer_specs(graph, given=given, believe=believe)
    if any(d.severity == "error" for d in found):
        raise BodyError("a layer inside its body does not fit", found)


def _remarks(node: Node, believe: bool) -> list[Diagnostic]:
    """Return the warnings of bodies that have been inferred."""
    found = []
    for graph in (body.graph for body in bodies_of(node)):
        given = {n.id: n.spec() for n in graph.parameters}
        found += infer_specs(graph, given=given, remarks=True, believe=believe)
    return found


def inferred(graph: Graph) -> Graph:
    """Return a copy with every spec inferred; InferenceError with everything that does not fit."""
    out = graph.copy()
    fill_specs(out)
    return out


def fill_specs(graph: Graph) -> None:
    """Infer a graph in place where specs are missing; InferenceError as from `inferred`."""
    if any(n.specs is None for n in graph.nodes()):
        require_specs(graph)


def require_specs(graph: Graph) -> None:
    """Infer all specs of a graph in place; InferenceError with everything that does not fit."""
    problems = infer_specs(graph)
    if any(d.severity == "error" for d in problems):
        raise InferenceError(problems)


def _check_size(problems: Collector, node: Node, inputs: tuple[Spec, ...]) -> None:
    """Report a tensor that no machine holds, once on its way through the graph."""
    if any(s.nbytes is not None and s.nbytes > TENSOR_BYTES for s in inputs):
        return
    for spec in node.specs or ():
        if spec.nbytes is not None and spec.nbytes > TENSOR_BYTES:
            problems.add(
                "E602",
                f'{node.type} "{node.name}": its output {spec} takes {spec.nbytes} bytes; the '
                f"limit is {TENSOR_BYTES}",
                location=node.location,
                layer=node.name,
                hint="check the sizes of the inputs and the attributes, pads above all",
            )


def report(problems: Collector, graph: Graph, node: Node, problem: Problem) -> None:
    """Add an operation's problem with its layer, its place and where its inputs come from."""
    location, notes = node.location, []
    if problem.attribute is None:
        names = ports(type(node.op))
        for port, value in enumerate(graph.inputs_of(node.id)):
            producer = graph.node(value.node)
            if problem.port in (None, port) or port == 0:
                text = f'{names.name(port)} is {graph.spec(value)} from "{producer.name}"'
                notes.append(Note(text, producer.location))
    elif location is not None:
        location = location.at(problem.attribute)
    problems.add(
        problem.code,
        f'{node.type} "{node.name}": {problem.message}',
        severity=problem.severity,
        location=location,
        layer=node.name,
        notes=notes,
        hint=problem.hint,
    )


def _compare(problems: Collector, graph: Graph, node: Node) -> None:
    """Warn where the file declares other shapes or element types than the inferred ones."""
    if isinstance(node.op, Opaque):
        return
    for port, (said, is_) in enumerate(zip(node.declared, node.specs or (), strict=False)):
        _compare_one(problems, node, "output", port, (said, is_))
    for port, (said, value) in enumerate(
        zip(node.declared_inputs, graph.inputs_of(node.id), strict=False)
    ):
        # What the producer declares as well is reported there.
        source = graph.node(value.node).declared
        if value.port >= len(source) or said != source[value.port]:
            _compare_one(problems, node, "input", port, (said, graph.spec(value)))


def _compare_one(
    problems: Collector,
    node: Node,
    side: Literal["input", "output"],
    port: int,
    specs: tuple[Spec, Spec],
) -> None:
    """Compare the declared with the inferred spec of a port."""
    said, is_ = specs
    differences = []
    if said.dtype is not None and is_.dtype is not None and said.dtype != is_.dtype:
        differences.append(("W203", "type", said.dtype.precision, is_.dtype.precision))
    if not compatible(said.shape, is_.shape):
        shapes = format_shape(said.shape), format_shape(is_.shape)
        differences.append(("W202", "shape", *shapes))
    for code, kind, declared, inferred in differences:
        problems.add(
            code,
            f'{node.type} "{node.name}": {side} {port} is declared {declared}, '
            f"but it is {inferred}",
            location=node.place_of(side, port),
            layer=node.name,
            hint=f"OpenVINO ignores the declaration and uses the inferred {kind}",
        )
