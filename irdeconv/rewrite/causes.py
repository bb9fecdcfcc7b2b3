"""The layer that causes a difference between declared and inferred shapes.

A layer is a cause if its outputs contradict the file's declarations although its inputs agree with
theirs, or if they would contradict them even then. The differences and errors that follow from it
become notes of its one diagnostic. Without the differing values, inference with the declared shapes
of the inputs shows which ones follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from irdeconv.base import errors
from irdeconv.base.errors import Collector, Diagnostic, Note, Problem
from irdeconv.ir.attributes import Attribute, attributes, axis_lists
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import infer_op
from irdeconv.ir.spec import Spec, compatible, format_shape, is_static
from irdeconv.ops.basic import Const, Opaque, Parameter
from irdeconv.ops.bodies import BodyOp

FAILURES = (errors.OpError, ArithmeticError, ValueError, TypeError, LookupError)
_SHOWN_CAUSES = 3  # layers that do not fit, or attributes that could be wrong
_EXAMINED = 8  # causes whose attributes are searched
_CANDIDATES = range(-1, 13)  # that an attribute could have instead


@dataclass
class _ShapeCause:
    node: Node
    differing: int = 0  # layers behind it whose declared shapes differ, too
    failures: list[tuple[Node, Problem]] = field(default_factory=list)


@dataclass
class Causes:
    """The causes among the layers that were entered, which are inferred and in order.

    Without `compare` there are none, because the inputs are not those that the file declares.
    """

    graph: Graph
    compare: bool = True
    _causes: dict[int, _ShapeCause] = field(default_factory=dict)
    _of: dict[int, _ShapeCause] = field(default_factory=dict)  # of each layer that differs or may
    _waiting: list[Node] = field(default_factory=list)

    def enter(self, node: Node) -> None:
        """Note a layer that was inferred; nothing is computed before it is needed."""
        if self.compare:
            self._waiting.append(node)

    def of_input(self, node: Node) -> _ShapeCause | None:
        """Return the cause of a difference in the inputs of a layer, which may not be inferred."""
        for waiting in self._waiting:
            self._place(waiting)
        self._waiting.clear()
        return self._of_input(node) if self._of else None

    def _of_input(self, node: Node) -> _ShapeCause | None:
        found = (self._of.get(v.node) for v in self.graph.inputs_of(node.id))
        return next(filter(None, found), None)

    def _place(self, node: Node) -> None:
        pairs = list(zip(node.declared, node.specs or (), strict=False))
        differs = any(not said.agrees(is_) for said, is_ in pairs)
        cause = self._of_input(node) if self._of else None
        if differs and (cause is None or not self._follows(node)):
            self._of[node.id] = self._causes[node.id] = _ShapeCause(node)
        elif cause is not None and (differs or _is_open(node)):
            self._of[node.id] = cause
            cause.differing += differs

    def absorbs(self, node: Node, problem: Problem) -> bool:
        """Note a problem of a layer that a difference in its inputs causes; whether one does."""
        cause = self.of_input(node)
        if cause is None or isinstance(node.op, BodyOp) or not self._follows(node):
            return False
        cause.failures.append((node, problem))
        return True

    def _follows(self, node: Node) -> bool:
        """Whether a layer would be as declared if its inputs were."""
        if isinstance(node.op, BodyOp | Opaque):
            return True
        try:
            outputs = infer_op(node.op, self.believed(node))
        except FAILURES:
            return False
        return all(said.agrees(is_) for said, is_ in zip(node.declared, outputs, strict=False))

    def believed(self, node: Node) -> tuple[Spec, ...]:
        """Return the inputs of a layer; those that differ are as declared."""
        return tuple(
            self._declared(node, port, value) if value.node in self._of else self.graph.spec(value)
            for port, value in enumerate(self.graph.inputs_of(node.id))
        )

    def _declared(self, node: Node, port: int, value: Value) -> Spec:
        own, is_ = node.declared_inputs[port : port + 1], self.graph.spec(value)
        producer = self.graph.node(value.node)
        by_producer = producer.declared[value.port : value.port + 1]
        said = next((s for s in (*own, *by_producer) if s.shape is not None), None)
        said = said or (by_producer or (Spec(is_.dtype, None),))[0]
        if self._of[value.node].node is producer and compatible(said.shape, is_.shape):
            return replace(is_, dtype=said.dtype or is_.dtype)  # only its type differs
        return said.without_value()

    def report(self, problems: Collector, known: list[Diagnostic] | None, *, remarks: bool) -> None:
        """Add a diagnostic for each cause, without `remarks` only for those with errors.

        It takes the place of warnings about the cause's attributes, which leave `known` or
        `problems`.
        """
        for number, cause in enumerate(self._causes.values()):
            if remarks or cause.failures:
                followed = cause.failures or cause.differing  # else the declaration may be wrong
                fits = self._fitting(cause.node) if followed and number < _EXAMINED else {}
                found = _diagnostic(cause, fits)
                for warnings in (known or [], problems.diagnostics):
                    same = next((d for d in warnings if _explains(d, cause.node, fits)), None)
                    if same is not None:
                        warnings.remove(same)
                        found = _merged(same, found, fits)
                        break
                problems.take([found])

    def _fitting(self, node: Node) -> dict[str, str]:
        """Return the value of each attribute that alone gives the declared shapes."""
        shapes = [s.shape for s in node.declared]
        exact = all(map(is_static, shapes)) and any(c == "W202" for c, *_ in differences(node))
        if isinstance(node.op, BodyOp | Opaque) or not exact:
            return {}
        if isinstance(node.op, Const | Parameter):
            return {"shape": ",".join(map(str, shapes[0] or ()))}
        inputs, found = self.believed(node), {}
        for xml, a in attributes(type(node.op)).items():
            for value in _others(node.op, a, inputs, shapes):
                if _misfits(node.op, {a.name: value}, inputs, shapes) == 0:
                    found[xml] = a.kind.format(value) or ""
                    break
        return found


def _diagnostic(cause: _ShapeCause, fits: dict[str, str]) -> Diagnostic:
    """Return the diagnostic of a cause; `fits` gives attributes that it could have."""
    node, failures = cause.node, cause.failures
    (code, port, text), *others = differences(node)
    notes = [Note(text) for *_, text in others[:_SHOWN_CAUSES]]
    for failed, problem in failures[:_SHOWN_CAUSES]:
        notes.append(Note(f"{failed.label} does not fit: {problem.message}", failed.location))
    if failures[_SHOWN_CAUSES:]:
        notes.append(Note(f"{len(failures) - _SHOWN_CAUSES} more layers behind it do not fit"))
    if cause.differing:
        verb = "differs" if cause.differing == 1 else "differ"
        notes.append(Note(f"{errors.count(cause.differing, 'layer')} behind it {verb}, too"))
    place, hint = node.place_of("output", port), _remedy(fits) or ignored(code)
    if failures and not fits:
        hint = "the layers behind it fit the declared shape: check this layer, and its inputs"
    if len(fits) == 1 and node.location is not None:
        place = node.location.at(*fits)
    code = failures[0][1].code if failures else code
    where = place, node.name, tuple(notes)
    return Diagnostic(code, errors.severity_of(code), f"{node.label}: {text}", *where, hint)


def _remedy(fits: dict[str, str]) -> str:
    either = " or ".join(f'{name}="{value}"' for name, value in list(fits.items())[:_SHOWN_CAUSES])
    return f"{either} would give the declared shape" if fits else ""


def _is_open(node: Node) -> bool:
    """Whether a difference in the inputs may go through a layer that is as declared."""
    specs, declared = node.specs or (), node.declared
    exact = len(declared) >= len(specs) and all(is_static(s.shape) for s in declared)
    return not exact or any(s.value is not None for s in specs)


def differences(node: Node) -> list[tuple[str, int, str]]:
    """Return the code, the port and the text of each output that contradicts its declaration."""
    pairs = zip(node.declared, node.specs or (), strict=False)
    every = [(c, p, t) for p, pair in enumerate(pairs) for c, t in compared("output", p, *pair)]
    return sorted(every, key=lambda found: found[0])


def compared(side: str, port: int, said: Spec, is_: Spec) -> Iterator[tuple[str, str]]:
    """Yield the code and the text of each difference of a declared spec and the inferred one."""
    begin = f"{side} {port} is declared"
    if said.dtype is not None and is_.dtype is not None and said.dtype != is_.dtype:
        yield "W203", f"{begin} {said.dtype.precision}, but it is {is_.dtype.precision}"
    if not compatible(said.shape, is_.shape):
        yield "W202", f"{begin} {format_shape(said.shape)}, but it is {format_shape(is_.shape)}"


def ignored(code: str) -> str:
    """Return the hint for a declaration that OpenVINO does not read."""
    kind = "shape" if code == "W202" else "type"
    return f"OpenVINO ignores the declaration and uses the inferred {kind}"


def _explains(d: Diagnostic, node: Node, fits: Collection[str]) -> bool:
    """Whether a warning about a layer's attributes is the reason of its difference."""
    if d.layer != node.name or d.severity != "warning" or d.location is None:
        return False
    here, own = d.location.anchor, node.location.anchor if node.location else None
    if here is not None and own is not None and here[:2] != own[:2]:
        return False
    if d.code == "W100":
        return (d.hint or "").startswith("did you mean")
    return d.code in ("W101", "W302") or (d.code[:2] == "W3" and d.location.attribute in fits)


def _merged(cause: Diagnostic, difference: Diagnostic, fits: dict[str, str]) -> Diagnostic:
    """Return the warning about a cause with the difference as a note."""
    text = difference.message.split(": ", 1)[1]
    code = difference.code if difference.severity == "error" else cause.code
    own = cause.location and cause.location.attribute
    meant = {n: v for n, v in fits.items() if n == own or f'"{n}" is missing' in cause.message}
    hint = cause.hint if cause.code == "W100" else _remedy(meant or fits) or cause.hint
    notes = (*cause.notes, Note(text), *difference.notes)
    return replace(cause, code=code, severity=difference.severity, notes=notes, hint=hint)


def _misfits(
    op: Any, change: dict[str, Any], inputs: tuple[Spec, ...], shapes: Iterable[Any]
) -> int:
    """Return how many dimensions differ from these shapes with changed attributes."""
    try:
        outputs = infer_op(replace(op, **change), inputs)
    except FAILURES:
        return 1 << 30
    count = 0
    for is_, said in zip((s.shape for s in outputs), shapes, strict=False):
        same_rank = is_ is not None and len(is_) == len(said)
        pairs = zip(is_ or (), said, strict=False)
        count += sum(a != b for a, b in pairs) if same_rank else 1 << 20
    return count


def _others(
    op: Any, a: Attribute, inputs: tuple[Spec, ...], shapes: Iterable[Any]
) -> Iterator[Any]:
    """Yield other values of an attribute; of a list the one whose shape is nearest."""
    name, old = a.name, getattr(op, a.name)
    if isinstance(old, bool):
        yield not old
    elif isinstance(old, str) and " | " in a.kind.label:
        yield from (word for word in a.kind.label.split(" | ") if word != old)
    elif isinstance(old, int):
        yield from (v for v in sorted(_CANDIDATES, key=lambda v: v < 0) if v != old)
    elif isinstance(old, tuple) and all(isinstance(v, int) for v in old):
        best = old or (1,) * max(map(len, axis_lists(op).values()), default=0)
        for axis in range(len(best)):
            ways = [(*best[:axis], v, *best[axis + 1 :]) for v in _CANDIDATES]
            best = min(ways, key=lambda w: _misfits(op, {name: w}, inputs, shapes))
        yield best
