"""Inference of shapes, element types and values over a graph.

For an unknown operation the file's declaration is used if the inferred inputs agree with it. A
caller may give the model's inputs other shapes than the declared ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from irdeconv.base import errors, progress, work
from irdeconv.base.codes import CODES
from irdeconv.base.limits import LARGEST_INT, current, raise_hint
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import infer_op, lookup, ports, require_fit
from irdeconv.ir.spec import (
    Dim,
    Shape,
    Spec,
    bounds,
    compatible,
    dims,
    format_shape,
    is_static,
    merge_shapes,
    parse_shape,
)
from irdeconv.ops.basic import Assign6, Const, Opaque, Parameter, ReadValue6
from irdeconv.ops.bodies import BodyError, BodyOp, bodies_of, every_node, infer_bodies
from irdeconv.ops.channels import VariadicSplit
from irdeconv.rewrite.causes import FAILURES, Causes, compared, differences, ignored

STALE = "W207"
DECLARED = errors.Note(
    "the body is inferred as its Parameters declare it, as OpenVINO does to begin with"
)
UNSURE = "its shape is not known: it would follow from a number that is not the same everywhere"


@dataclass
class Declarations:
    """Tracks, node by node, the nodes behind shapes that differ from the declared ones.

    A declared shape is a statement about the declared inputs. It is no longer true if an input
    contradicts its declaration, or if it may be larger or smaller because other shapes are given.
    An inferred shape that is merely less exact than the declared one changes nothing.
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

    def of(self, graph: Graph, node: Node, outputs: tuple[Spec, ...]) -> tuple[Spec, ...]:
        """Return the declared outputs of a node that cannot be inferred, as far as they hold."""
        if not self.believe:
            return (Spec(None, None),) * len(outputs)
        given = [(said, graph.spec(v), v) for v, said in _declared_inputs(graph, node)]
        wrong = [(said, spec) for said, spec, v in given if self._broken(said, spec, v)]
        if not wrong:
            return outputs
        types = all(_same_type(said, is_) for said, is_ in wrong)
        return tuple(Spec(s.dtype if types else None, None) for s in outputs)

    def _broken(self, said: Spec, is_: Spec, value: Value) -> bool:
        if not said.agrees(is_):
            return True
        return value.node in self.changed and not _within(is_.shape, said.shape)


def stale(graph: Graph) -> list[errors.Diagnostic]:
    """Warn of every unknown operation of an inferred graph whose declared shapes do not hold."""
    return [warning(graph, node) for node in graph.nodes() if is_stale(node)]


def is_stale(node: Node) -> bool:
    """Whether an inferred node is an unknown operation whose declared shapes do not hold."""
    return isinstance(node.op, Opaque) and node.specs not in (None, node.op.declared)


def warning(graph: Graph, node: Node) -> errors.Diagnostic:
    """Return the warning about such a node: the inputs that differ from their declaration."""
    notes = [
        errors.Note(f"input {port} is declared {said}, and it is {graph.spec(value)}")
        for port, (value, said) in enumerate(_declared_inputs(graph, node))
        if graph.spec(value).shape != said.shape or not _same_type(said, graph.spec(value))
    ]
    text = f"{node.label}: irdeconv does not know the operation, and what the file "
    text += "declares of its outputs does not hold of these inputs: their shapes are unknown"
    place = node.location, node.name
    return errors.Diagnostic(STALE, errors.severity_of(STALE), text, *place, tuple(notes))


def _declared_inputs(graph: Graph, node: Node) -> list[tuple[Value, Spec]]:
    """Return the inputs with their declared specs, from the node or from their producer."""
    pairs = []
    for port, value in enumerate(graph.inputs_of(node.id)):
        said = node.declared_inputs[port : port + 1]
        by_producer = graph.node(value.node).declared[value.port : value.port + 1]
        pairs += [(value, s) for s in (said if said and said[0].shape is not None else by_producer)]
    return pairs


def _same_type(a: Spec, b: Spec) -> bool:
    return a.dtype is None or b.dtype is None or a.dtype == b.dtype


def _within(a: Shape | None, b: Shape | None) -> bool:
    """Whether every shape that `a` allows is one that `b` allows."""
    return a == b or (compatible(a, b) and merge_shapes(a, b) == a)


@work.one_pass
@work.gc_paused()
@np.errstate(all="ignore")  # values that inference computes with may be any
def infer_specs(
    graph: Graph,
    shapes: Mapping[int, Shape | None] | None = None,
    *,
    given: Mapping[int, Spec] | None = None,
    remarks: bool = False,
    believe: bool = True,
    needed: bool = False,
    compare: bool = True,
    known: list[errors.Diagnostic] | None = None,
) -> list[errors.Diagnostic]:
    """Fill in the specs of every node in place and return everything that does not fit.

    `shapes` overrides the shapes of Parameters by node id, `given` their specs. A node that fails
    keeps its declared specs. `remarks` adds warnings, also of specs unlike the declared ones.
    Unknown operations have the declared specs if these hold of the inputs, or none without
    `believe`. `needed` ignores layers that no output needs. `compare` looks for causes of errors
    (see `Causes`), whose diagnostics absorb the warnings of `known` about them.
    """
    found, unneeded = errors.Collector(most=current().reports), errors.Collector(most=0)
    state = _Inference(Declarations(believe), Causes(graph, compare and not (shapes or given)))
    live = graph.live() if needed else None
    for node in progress.each("inferring shapes", graph.topological()):
        problems = found if live is None or node.id in live else unneeded
        inputs = graph.input_specs(node.id)
        try:
            specs = _infer(graph, node, inputs, state.declarations, needed=needed)
        except FAILURES as e:
            _report_failure(problems, graph, node, e, state.causes)
            node.specs = tuple(s.without_value() for s in node.declared) or (Spec(None, None),)
            continue
        if shapes and node.id in shapes:
            specs = (Spec(specs[0].dtype, shapes[node.id]),)
        node.specs = (given[node.id],) if given and node.id in given else specs
        state.enter(problems, graph, node, inputs, remarks=remarks)
    state.causes.report(found, known, remarks=remarks)
    for node in rounded_shapes(graph) if remarks else ():
        report(found, graph, node, errors.Problem("W304", UNSURE))
    found.count_rest()
    return found.diagnostics


@dataclass(frozen=True)
class _Inference:
    """The parts of an inference that follow the graph from node to node."""

    declarations: Declarations
    causes: Causes
    sizes: _SizeCheck = field(default_factory=lambda: _SizeCheck())

    def enter(
        self,
        problems: errors.Collector,
        graph: Graph,
        node: Node,
        inputs: tuple[Spec, ...],
        *,
        remarks: bool,
    ) -> None:
        """Check a node that has its specs."""
        self.declarations.enter(graph, node, node.specs or ())
        self.sizes.check(problems, node, inputs)
        _check_ports(problems, graph, node)
        self.causes.enter(node)
        if remarks:
            _remark(problems, graph, node, inputs, self.declarations.believe, self.causes)


def body_misfits(graph: Graph) -> list[errors.Diagnostic]:
    """Return an error for each layer of a body that does not fit what its Parameters declare.

    OpenVINO infers a body so before it feeds it. `graph` is as it was read.
    """
    found = []
    for body in (b for n in every_node(graph) for b in bodies_of(n)):
        work.take(len(body.graph) * work.NODE)
        problems = infer_specs(body.graph.copy())
        found += [replace(d, notes=(*d.notes, DECLARED)) for d in problems if d.severity == "error"]
    return found


def variable_misfits(graph: Graph) -> list[errors.Diagnostic]:
    """Return an error for each value that its variable cannot have; `graph` is inferred."""
    found, held = errors.Collector(most=current().reports), {}
    for node in graph.nodes("ReadValue"):
        if isinstance(node.op, ReadValue6):
            held[node.op.variable_id] = Spec(node.op.variable_type, node.op.variable_shape)
    for node in graph.nodes("Assign"):
        own = held.get(getattr(node.op, "variable_id", ""))
        if own is None or not isinstance(node.op, Assign6):
            continue
        value = node.spec()
        code = "E302" if value.dtype in (None, own.dtype) else "E303"
        if code == "E303" or not compatible(value.shape, own.shape):
            text = f"the value is {value}, the variable {own}"
            report(found, graph, node, errors.Problem(code, text))
    return found.diagnostics


def rounded_shapes(graph: Graph) -> list[Node]:
    """Return the nodes with a shape that would follow from values that OpenVINO may not have.

    `graph` is inferred. It is inferred again as if OpenVINO had all values.
    """
    if not any(s.unsure for n in graph.nodes() for s in n.specs or ()):
        return []
    found: list[Node] = []
    other: dict[Value, Spec] = {}
    for node in graph.topological():
        read, old = graph.inputs_of(node.id), node.specs or ()
        inputs, new = tuple(other.get(v, graph.spec(v)) for v in read), old
        if any(v in other for v in read) and not isinstance(node.op, BodyOp | Opaque):
            try:
                new = infer_op(node.op, inputs)
            except FAILURES:
                return [*found, node]
            moved = any(s.shape != graph.spec(v).shape for s, v in zip(inputs, read, strict=True))
            drawn = all(s.known is not None for s in inputs) and not all(s.static for s in new)
            differs = any(a.shape != b.shape for a, b in zip(new, old, strict=False))
            found += [node] * (not moved and (differs or drawn))
        for port, (a, b) in enumerate(zip(new, old, strict=False)):
            if b.unsure or a.shape != b.shape or (new is not old and a.value is not None):
                other[Value(node.id, port)] = a.believed()
    return found


def _report_failure(
    problems: errors.Collector, graph: Graph, node: Node, error: Exception, causes: Causes
) -> None:
    """Report why a node cannot be inferred; of a body all that is wrong inside it."""
    if isinstance(error, BodyError) or problems.most == 0:  # 0: no output needs it
        problems.take(getattr(error, "diagnostics", ()))
        return
    problem = errors.Problem("E300", f"its inputs do not fit: {error}")
    problem = error.problem if isinstance(error, errors.OpError) else problem
    if not causes.absorbs(node, problem):
        report(problems, graph, node, problem)


def _infer(
    graph: Graph, node: Node, inputs: tuple[Spec, ...], declarations: Declarations, *, needed: bool
) -> tuple[Spec, ...]:
    """Return the specs of a node's outputs; its bodies get theirs."""
    if isinstance(node.op, BodyOp):
        require_fit(node.op)
        walk = partial(_walk, believe=declarations.believe, needed=needed)
        node.op, specs = infer_bodies(node.op, [s.certain() for s in inputs], walk)
        return specs
    if isinstance(node.op, Opaque):
        return declarations.of(graph, node, node.op.declared)
    uncounted = isinstance(node.op, VariadicSplit) and inputs[2:] and dims(inputs[2]) is None
    if uncounted and node.declared:
        consts = (n.op for n in graph.nodes() if isinstance(n.op, Const))
        if not all(op.data.available for op in consts):
            return declarations.of(graph, node, tuple(s.without_value() for s in node.declared))
    return infer_op(node.op, inputs)


def _check_ports(problems: errors.Collector, graph: Graph, node: Node) -> None:
    """Report output ports that are declared or read and that the operation does not have."""
    if isinstance(node.op, Opaque):
        return
    have, read = len(node.specs or ()), graph.highest_port(node.id) + 1
    ports = max(len(node.declared), read)
    if ports > have:
        kind = "output ports" if ports > read else "outputs that are read"
        text = f"{node.label}: it has {ports} {kind}, but {errors.count(have, 'output')}"
        problems.add_at(node, "E208", text, location=node.place_of("output", have))


def _remark(
    problems: errors.Collector,
    graph: Graph,
    node: Node,
    inputs: tuple[Spec, ...],
    believe: bool,
    causes: Causes,
) -> None:
    """Add the warnings about an inferred node, but those that follow from another layer's cause."""
    if isinstance(node.op, Opaque):  # nothing is known that could be compared
        unknown = lookup(node.type, node.op.version) is None  # else its error has been reported
        if believe and unknown and is_stale(node):
            problems.take([warning(graph, node)])
        return
    follows = causes.of_input(node) is not None
    for problem in node.op.remarks(*(causes.believed(node) if follows else inputs)):
        report(problems, graph, node, problem)
    _compare(problems, graph, node, shapes=causes.compare)
    if isinstance(node.op, BodyOp) and not follows:  # its bodies were inferred without an error
        inside = errors.Collector(most=current().reports)
        for body in (b.graph for b in bodies_of(node)):
            within = Causes(body)
            for inner in body.topological():
                within.enter(inner)
                _remark(inside, body, inner, body.input_specs(inner.id), believe, within)
            within.report(inside, None, remarks=True)
        inside.count_rest()
        problems.take(inside.diagnostics)


def _walk(graph: Graph, given: Mapping[int, Spec], *, believe: bool, needed: bool) -> None:
    """Infer a body in place; BodyError with everything that does not fit."""
    found = infer_specs(graph, given=given, believe=believe, needed=needed)
    if any(d.severity == "error" for d in found):
        raise BodyError("a layer inside its body does not fit", found)


def inferred(graph: Graph, *, needed: bool = False) -> Graph:
    """Return a copy with every spec inferred; InferenceError with everything that does not fit."""
    out = graph.copy()
    fill_specs(out, needed=needed)
    return out


def fill_specs(graph: Graph, *, needed: bool = False) -> None:
    """Infer a graph in place if specs are missing; InferenceError as from `inferred`."""
    if any(n.specs is None for n in graph.nodes()):
        require_specs(graph, needed=needed)


def require_specs(graph: Graph, *, needed: bool = False, compare: bool = True) -> None:
    """Infer all specs of a graph in place; InferenceError with everything that does not fit.

    With `needed` layers that no output needs may not fit; `compare` is that of `infer_specs`.
    """
    problems = infer_specs(graph, needed=needed, compare=compare)
    if any(d.severity == "error" for d in problems):
        raise errors.InferenceError(problems)


# Codes of errors that other sizes of the inputs may avoid.
_OF_SIZES = ("E302", "E304", "E305", "E306")


def refused(
    problems: Iterable[errors.Diagnostic],
    shapes: Mapping[str, ShapeLike],
    declared: Callable[[], object],
) -> list[errors.Diagnostic]:
    """Return the problems of a model with the given input shapes; a general hint names these.

    `declared` infers the model without them: if it raises an error, the shapes are not the cause.
    """
    found = list(problems)
    general = [d for d in found if d.code in _OF_SIZES and d.hint == CODES[d.code].hint]
    with suppress(errors.IrdeconvError):
        if general and shapes and (model := declared()) is not None:
            sizes = {name: parse_shape_like(shape) for name, shape in shapes.items()}
            near = _accepted(model, sizes) if isinstance(model, Graph) else None
            other = f"takes --shape '{_listed(near)}'" if near else "needs other sizes"
            hint = f"the model refuses {_listed(sizes)}; it {other}"
            hint = hint if errors.Spelling.options else errors.in_python(hint)
            return [replace(d, hint=hint) if d in general else d for d in found]
    return found


def _listed(shapes: Mapping[str, Shape | None]) -> str:
    return ",".join(f"{name}{format_shape(shape)}" for name, shape in shapes.items())


def _accepted(model: Graph, shapes: Mapping[str, Shape | None]) -> dict[str, Shape | None]:
    """Return input shapes near the given ones with which a model can be inferred, or none.

    Dimensions that are exact in the file stay so, open ones become a multiple of a unit, 8 or 224.
    """
    names = model.input_names() | ({"": model.parameters[0]} if len(shapes) == 1 else {})
    own = {n: p.op.shape for n, p in names.items() if isinstance(p.op, Parameter)}
    ways = ((8, LARGEST_INT), (32, LARGEST_INT), (8, 8), (224, 224))
    for unit, most in ways if shapes.keys() <= own.keys() else ():
        near = {name: _rounded(own[name], s, unit, most) for name, s in shapes.items()}
        problems = infer_specs(model.copy(), input_shapes(model, near))
        if not any(d.severity == "error" for d in problems):
            return near
    return {}


def _rounded(declared: Shape | None, wanted: Shape | None, unit: int, most: int) -> Shape | None:
    """Return a shape with the declared sizes, and multiples of a unit behind the first two."""
    if declared is None or wanted is None or len(declared) != len(wanted):
        return wanted
    up = [min(-(-w // unit) * unit, most) if isinstance(w, int) else w for w in wanted]
    out = zip(declared, (*wanted[:2], *up[2:]), strict=True)
    return tuple(d if isinstance(d, int) else size for d, size in out)


@contextmanager
def naming_shapes(
    shapes: Mapping[str, ShapeLike], declared: Callable[[], object]
) -> Iterator[None]:
    """Raise InferenceError with the hints of `refused`."""
    try:
        yield
    except errors.InferenceError as e:
        raise errors.InferenceError(refused(e.diagnostics, shapes, declared)) from None


class _SizeCheck:
    """Reports tensors that no machine holds, each once on its way through the graph."""

    def __init__(self) -> None:
        self._limits = current()
        self._total, self._reported = 0, False

    def check(self, problems: errors.Collector, node: Node, inputs: tuple[Spec, ...]) -> None:
        """Check a node that has been inferred; too large sizes become open ones."""
        specs = node.specs or ()
        if all(map(self._fits, specs)):
            self._sum(problems, node)
            return
        found = [beyond(spec) for spec in specs]
        for spec, (excess, limit) in ((s, f) for s, f in zip(specs, found, strict=True) if f):
            if not any(map(beyond, inputs)):
                self._report(problems, node, f"its output {spec} {excess}", limit)
        cut = (Spec(s.dtype, s.shape if _countable(s) else None) for s in specs)
        node.specs = tuple(c if f else s for c, s, f in zip(cut, specs, found, strict=True))

    def _fits(self, spec: Spec) -> bool:
        """Whether a spec is within the limits; if it is, add its bytes to the total.

        The usual spec needs few steps: every node of every graph passes here.
        """
        shape, limits = spec.shape, self._limits
        if not is_static(shape) or len(shape) > limits.rank or 0 in shape:
            return beyond(spec) is None
        size = math.prod(shape)
        bytes = 0 if spec.dtype is None else size * spec.dtype.container.itemsize
        if size > limits.tensor_elements or bytes > limits.tensor_bytes or size > LARGEST_INT:
            return False
        self._total += bytes
        return True

    def _sum(self, problems: errors.Collector, node: Node) -> None:
        limit = self._limits.total_bytes
        if self._total > limit and not self._reported:
            self._reported = True
            text = f"with its outputs the model has {self._total:,} bytes; the limit is {limit:,}"
            self._report(problems, node, text, "total_bytes")

    def _report(self, problems: errors.Collector, node: Node, text: str, limit: str) -> None:
        hint = "check the sizes of the inputs and the attributes, pads above all"
        hint = f"{hint}; {raise_hint(limit)}" if limit else hint
        problems.add_at(node, "E602", f"{node.label}: {text}", hint=hint)


def _countable(spec: Spec) -> bool:
    """Whether all dimensions fit 64 bits, and there are not too many."""
    shape = spec.shape or ()
    return len(shape) <= current().rank and all(bounds(d)[0] <= LARGEST_INT for d in shape)


def beyond(spec: Spec) -> tuple[str, str] | None:
    """Return a tensor's excess in words, and the limit by name; None if it is within all limits."""
    limits = current()
    if spec.shape is None:
        return None
    if len(spec.shape) > limits.rank:
        return f"has rank {len(spec.shape)}; the limit is {limits.rank}", "rank"
    if not _countable(spec):
        return f"has a dimension above {LARGEST_INT}, the largest number of 64 bits", ""
    size, bytes = spec.size or 0, spec.nbytes or 0
    if size > limits.tensor_elements:
        return f"has {size:,} elements; the limit is {limits.tensor_elements:,}", "tensor_elements"
    if bytes > limits.tensor_bytes:
        return f"takes {bytes:,} bytes; the limit is {limits.tensor_bytes:,}", "tensor_bytes"
    if (spec.extent or 0) > LARGEST_INT:
        return "is empty, but no array has such sizes on its other axes", ""
    return None


def report(problems: errors.Collector, graph: Graph, node: Node, problem: errors.Problem) -> None:
    """Add an operation's problem with its layer, its place and the producers of its inputs."""
    location, notes = node.location, []
    if problem.attribute is None:
        names = ports(type(node.op))
        for port, value in enumerate(graph.inputs_of(node.id)):
            producer = graph.node(value.node)
            if problem.port in (None, port) or port == 0:
                text = f'{names.name(port)} is {graph.spec(value)} from "{producer.name}"'
                notes.append(errors.Note(text, producer.location))
    elif location is not None:
        location = location.at(problem.attribute)
    text = f"{node.label}: {problem.message}"
    more = {"severity": problem.severity, "notes": notes, "hint": problem.hint}
    problems.add_at(node, problem.code, text, location=location, **more)


def _compare(problems: errors.Collector, graph: Graph, node: Node, *, shapes: bool) -> None:
    """Warn if the file declares other inputs than the inferred ones; without `shapes` types only.

    Outputs that differ are reported with their causes, but without `shapes` here.
    """
    found = [] if shapes else [("output", *d) for d in differences(node) if d[0] == "W203"]
    for port, (said, value) in enumerate(
        zip(node.declared_inputs, graph.inputs_of(node.id), strict=False)
    ):
        # A declaration that the producer repeats is reported there.
        source = graph.node(value.node).declared
        if value.port < len(source) and said == source[value.port]:
            continue
        every = compared("input", port, said, graph.spec(value))
        found += [("input", code, port, text) for code, text in every if shapes or code == "W203"]
    for side, code, port, text in found:
        place = node.place_of("output" if side == "output" else "input", port)
        problems.add_at(node, code, f"{node.label}: {text}", location=place, hint=ignored(code))


ShapeLike = str | Sequence[Any] | None


def input_shapes(graph: Graph, shapes: Mapping[str, ShapeLike]) -> dict[int, Shape | None]:
    """Return the wanted shapes of inputs by node id.

    An input is named as when it is fed; the empty name is the only input. Raises UsageError with
    everything that does not fit.
    """
    problems, out = errors.Collector(), {}
    names = graph.input_names()
    if len(graph.parameters) == 1:
        names = {"": graph.parameters[0], **names}
    for name, wanted in shapes.items():
        node = names.get(name)
        if node is None:
            message = f'the model has no input "{name}"; it has {", ".join(graph.inputs)}'
            hint = (errors.did_you_mean(name, names) if name else None) or "name one of them"
            problems.add("E310", message, hint=hint)
            continue
        try:
            out[node.id] = _input_shape(name, node, wanted)
        except ValueError as e:
            problems.add("E310", str(e), layer=node.name)
    problems.require_none(errors.UsageError)
    return out


def _input_shape(name: str, node: Node, wanted: ShapeLike) -> Shape | None:
    """Return the wanted shape of an input; ValueError with the reason if it does not fit.

    As with OpenVINO's reshape it may change a static shape; only a change of rank is surely a
    mistake.
    """
    try:
        shape = parse_shape_like(wanted)
    except ValueError as e:
        raise ValueError(f'shape of input "{name}": {e}') from e
    if not isinstance(node.op, Parameter):
        raise ValueError(f'input "{name}" is a Parameter of unknown version {node.op.version}')
    require_rank(name, node.op.infer().shape, shape)
    return shape


def require_rank(name: str, declared: Shape | None, shape: Shape | None) -> None:
    """Raise ValueError if the wanted shape of an input has another rank than the declared one."""
    if declared is not None and shape is not None and len(shape) != len(declared):
        text = f'input "{name}" has shape {format_shape(declared)}; {format_shape(shape)} does not '
        raise ValueError(f"{text}fit: ranks {len(declared)} and {len(shape)}")


def parse_shape_like(wanted: ShapeLike) -> Shape | None:
    """Return a shape from a text, or from ints, None and "lo..hi"; ValueError if it is wrong.

    None means an unknown rank.
    """
    if wanted is None or isinstance(wanted, str):
        return None if wanted is None else parse_shape(wanted)
    if not isinstance(wanted, Iterable) or getattr(wanted, "ndim", 1) != 1:
        what = "an array" if hasattr(wanted, "shape") else repr(wanted)
        raise ValueError(f"{what} is not a list of dimensions")
    dims: list[Dim] = []
    for d in wanted:
        parsed = parse_shape("?" if d is None else str(d))
        if parsed is None or len(parsed) != 1:
            raise ValueError(f'"{d}" is not a dimension')
        dims.append(parsed[0])
    return tuple(dims)


def constant_layers(
    graph: Graph, inputs: Mapping[int, tuple[Value, ...]] | None = None
) -> dict[int, list[int]]:
    """Return the producers of every node that depends on constants alone, producers first.

    `inputs` are those of all nodes, if they are known already.
    """
    found: dict[int, list[int]] = {}
    for node in graph.reading_order():
        values = graph.inputs_of(node.id) if inputs is None else inputs[node.id]
        producers = [v.node for v in values]
        if isinstance(node.op, Const) or (
            producers and node.type != "Result" and all(p in found for p in producers)
        ):
            found[node.id] = producers
    return found


def layer_count(graph: Graph) -> str:
    """Return `19 layers (5 constant)`."""
    return f"{errors.count(len(graph), 'layer')} ({len(constant_layers(graph))} constant)"
