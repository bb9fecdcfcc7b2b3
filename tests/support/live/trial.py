"""One model on both sides: what comes of it, where a disagreement begins, what explains it.

Where no row of the table does, OpenVINO is held against itself: the same model with exact sizes,
or its layers one after the other.
"""

import contextlib
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array, Interval, Spec
from irdeconv.ops.basic import Parameter, Result
from op_cases import Tensor
from support.live.differences import ENLARGED, EXACT, UNUSED, WHOLE, of_a_whole, reason_for
from support.live.judging import (
    PASSIVE,
    Finding,
    Verdict,
    close,
    judge,
    ours_of,
    same_as_lowered,
    shapes_apart,
    values_apart,
)
from support.live.runtime import Runtime
from support.live.sample import PLAIN, Answer, Given, Model, Sample, answer
from support.live.sweep import live_answer, verdict_of
from support.live.wholes import leaves_out

Maker = Callable[[], "Model | None"]
SETTLED = ("agree", "both refuse")
REFUSED = ("only irdeconv", "OpenVINO crashes")


@dataclass(frozen=True)
class Outcome:
    """What came of one model. `why` is the title of what explains a disagreement, if anything."""

    kind: str
    layer: str = ""
    detail: str = ""
    why: str = ""
    wider: int = 0
    narrower: int = 0

    @property
    def settled(self) -> bool:
        """Whether nothing is to be looked into; nothing is of what could not be made."""
        return self.kind in (*SETTLED, "none made") or bool(self.why)


def attempt(made: Model | Maker, runtime: Runtime) -> Outcome:
    """Make a model and run it on both sides; what goes wrong in irdeconv is a finding, too."""
    try:
        model = made if isinstance(made, Model) else made()
        return Outcome("none made") if model is None else _attempt(model, runtime)
    except Exception as e:  # the finding of a bug
        last = traceback.extract_tb(e.__traceback__)[-1]
        where = f"{last.filename.rpartition('irdeconv/')[2]}:{last.lineno}"
        return Outcome("irdeconv fails", "", f"{type(e).__name__} at {where}: {e}"[:400])


def _attempt(model: Model, runtime: Runtime) -> Outcome:
    ours = ours_of(model)
    arrays = list(model.feeds.values())
    live = runtime.ask(model.xml.decode("utf-8", "surrogateescape"), model.weights, arrays)
    found = _refused(ours.errors, live)
    wider = narrower = 0
    if ours.found:
        found = ours.found[0]
    elif found is None and live.kind == "ran" and not ours.errors:
        assert ours.graph is not None
        apart, wider, narrower = shapes_apart(ours.graph, live)
        found = apart[0] if apart else _values(ours.graph, live, model.feeds)
    if found is None:
        return Outcome("both refuse" if ours.errors else "agree", wider=wider, narrower=narrower)
    verdict, why = None, ""
    if ours.graph is not None and not ours.errors:
        found, verdict = locate(ours.graph, model.feeds, found, runtime)
        why = reason_for(found, verdict) or of_a_whole(found, ours.graph)
        if not why:
            why, other = against_itself(ours.graph, model.feeds, found, live, runtime)
            if other is not None:
                found, verdict = Finding(found.kind, other.sample.type, found.detail), other
                why = reason_for(_alone(found, other), other)
    else:
        if ours.graph is not None:
            verdict = refused_alone(ours.graph, model.feeds, found.detail, runtime)
            why = UNUSED if leaves_out(ours.graph, found.detail) else ""
        why = why or reason_for(found, verdict, model.xml)
    layer = verdict.sample.type if verdict else found.layer.partition("_")[0]
    alone = f" // alone: {verdict.kind} {verdict.reason} of {verdict.sample}" if verdict else ""
    return Outcome(found.kind, layer, (found.detail[:600] + alone)[:1600], why, wider, narrower)


def _alone(found: Finding, verdict: Verdict) -> Finding:
    """Return a refusal as what the layer behind it says alone."""
    refused = found.kind in REFUSED and verdict.kind in REFUSED
    return Finding(verdict.kind, found.layer, verdict.reason) if refused else found


def _refused(errors: tuple[str, ...], live: Answer) -> Finding | None:
    if live.kind == "crashed":
        return None if errors else Finding("OpenVINO crashes", "", live.message)
    if live.kind == "unstable":
        return None if errors else Finding("OpenVINO crashes", "", live.message)
    if live.kind == "refused" and not errors:
        return Finding("only irdeconv", "", live.message)
    if live.kind == "ran" and errors:
        return Finding("only OpenVINO", "", errors[0])
    return None


def _values(graph: Graph, live: Answer, feeds: Mapping[str, Array]) -> Finding | None:
    found = values_apart(graph, live, feeds)
    if found is None and any(n.op.deconvolution for n in graph.nodes()):
        return same_as_lowered(graph, feeds)
    return found


_NODE = re.compile(r"[:\s']([A-Za-z0-9]+_\d+)")


def samples_of(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Sample]:
    """Return every layer with the arrays that it reads, as far as the graph runs."""
    arrays: dict[Value, Array] = {}

    def keep(node: Node, outputs: object) -> None:
        for port, array in enumerate(outputs):  # type: ignore[arg-type, var-annotated]
            arrays[Value(node.id, port)] = array

    for node, array in zip(graph.parameters, feeds.values(), strict=True):
        arrays[Value(node.id)] = array
    with contextlib.suppress(IrdeconvError):
        ird.run(graph, dict(feeds), form=None, trace=keep)
    for node in graph.nodes("Const"):
        arrays[Value(node.id)] = node.op.evaluate()  # type: ignore[assignment]
    nodes = [n for n in graph.topological() if n.type not in PASSIVE]
    return {
        n.name: sample_in(graph, n, arrays)
        for n in nodes
        if all(v in arrays for v in graph.inputs_of(n.id))
    }


def sample_in(graph: Graph, node: Node, arrays: Mapping[Value, Array]) -> Sample:
    """Return a layer that reads these arrays."""
    inputs = tuple(
        _given(graph.spec(v), arrays[v], graph.node(v.node).type == "Const")
        for v in graph.inputs_of(node.id)
    )
    texts = node.op.to_attributes()
    texts.pop("semantics", None)
    return Sample(node.type, node.op.version, texts, inputs, max(node.outputs, 1), "located")


def _given(spec: Spec, array: Array, constant: bool) -> Given:
    assert spec.dtype is not None
    plain = spec.dtype.name in PLAIN or spec.dtype.name == "bf16"
    shape = spec.shape
    declared = None if shape is None else tuple(-1 if isinstance(d, Interval) else d for d in shape)
    return Given(Tensor(spec.dtype, array), constant or not plain, declared)


def locate(
    graph: Graph, feeds: Mapping[str, Array], finding: Finding, runtime: Runtime
) -> tuple[Finding, Verdict | None]:
    """Return the finding with the layer where it begins, and what this layer does alone."""
    samples = samples_of(graph, feeds)
    if finding.kind == "values":
        finding = _shown_everywhere(graph, feeds, finding, runtime)
    elif finding.kind in REFUSED:
        for name in [*[n for n in _NODE.findall(finding.detail) if n in samples], *samples]:
            verdict = verdict_of(samples[name], runtime)
            if verdict.kind in REFUSED:
                return Finding(finding.kind, name, verdict.reason), verdict
        return finding, None
    name = _computing(graph, finding.layer)
    name = name if name in samples else name.rpartition(".")[0]
    sample = samples.get(name)  # what has several outputs is named with the port
    if sample is None:
        return finding, None
    verdict = verdict_of(sample, runtime)
    if verdict.kind == "only irdeconv":  # as a whole it runs: OpenVINO folds what is known
        node, folded = next(n for n in graph.nodes() if n.name == name), _folded(graph)
        known = [v.node in folded for v in graph.inputs_of(node.id)]
        rows = zip(sample.inputs, known, strict=True)
        inputs = tuple(replace(g, constant=g.constant or fixed) for g, fixed in rows)
        verdict = verdict_of(replace(sample, inputs=inputs), runtime)
    return finding, verdict


def _computing(graph: Graph, name: str) -> str:
    """Return the layer that a Result of this name reads, else the name."""
    results = {r.name: graph.inputs_of(r.id)[0].node for r in graph.results}
    return graph.node(results[name]).name if name in results else name


def _folded(graph: Graph) -> set[int]:
    """Return the nodes that read no input of the graph, however far up, or only its shape."""
    found: set[int] = set()
    for node in graph.topological():
        values = graph.inputs_of(node.id)
        known = bool(node.specs) and all(s.known is not None for s in node.specs or ())
        if node.type == "Const" or known or (values and all(v.node in found for v in values)):
            found.add(node.id)
    return found


def refused_alone(
    graph: Graph, feeds: Mapping[str, Array], error: str, runtime: Runtime
) -> Verdict | None:
    """Return what the layer that a run refused does alone; None where it does not say which."""
    named = re.search(r'error\[E\d+\]: \w+ "([^"\n]*)"', error)
    sample = samples_of(graph, feeds).get(named.group(1)) if named else None
    return None if sample is None else verdict_of(sample, runtime)


def _shown_everywhere(
    graph: Graph, feeds: Mapping[str, Array], finding: Finding, runtime: Runtime
) -> Finding:
    """Compare once more with a Result behind every layer; keep the finding where that agrees."""
    shown = graph.copy()
    for i, value in enumerate(_unseen(graph)):
        shown.add(Result(), [value], name=f"shown {i}")
    shown = ird.infer(shown)
    xml, weights = ir_bytes(shown)
    live = runtime.ask(xml.decode(), weights, list(feeds.values()))
    if live.kind != "ran":
        return finding
    return values_apart(shown, live, feeds) or finding


def _unseen(graph: Graph) -> Iterator[Value]:
    for node in graph.topological():
        if node.type in PASSIVE:
            continue
        for port in range(max(node.outputs, 1)):
            value, dtype = Value(node.id, port), node.spec(port).dtype
            ends = {graph.node(user).type for user, _ in graph.users(value)}
            if dtype is not None and dtype.name in PLAIN and "Result" not in ends:
                yield value


HELD = (*REFUSED, "values")


@dataclass(frozen=True)
class Relay:
    """OpenVINO's outputs, each layer run alone on what the ones before gave.

    `apart` is the first layer that irdeconv computes otherwise from the same numbers.
    """

    arrays: Mapping[Value, Array]
    apart: Verdict | None = None


def against_itself(
    graph: Graph, feeds: Mapping[str, Array], finding: Finding, live: Answer, runtime: Runtime
) -> tuple[str, Verdict | None]:
    """Return what OpenVINO's own answers say of a finding: a title, or the layer behind it."""
    if finding.kind not in HELD:
        return "", None
    if agrees_with_exact_sizes(graph, feeds, runtime):
        return EXACT, None
    relay = one_by_one(graph, feeds, runtime)
    if relay is None or relay.apart is not None:
        return "", relay and relay.apart
    results = [relay.arrays[graph.inputs_of(r.id)[0]] for r in graph.results]
    if values_apart(graph, replace(live, arrays=tuple(results)), feeds) is None:
        return WHOLE, None
    if live.kind != "ran":
        return WHOLE, None  # its own numbers, or irdeconv's from the same: nothing to refuse
    return (ENLARGED if _alike(graph, results, live.arrays) else ""), None


def agrees_with_exact_sizes(graph: Graph, feeds: Mapping[str, Array], runtime: Runtime) -> bool:
    """Whether both sides agree where the inputs are declared as they are."""
    exact = graph.copy()
    for node, array in zip(exact.parameters, feeds.values(), strict=True):
        assert isinstance(node.op, Parameter)
        node.op = replace(node.op, shape=array.shape)
    if [n.op for n in exact.parameters] == [n.op for n in graph.parameters]:
        return False
    try:
        exact = ird.infer(exact)
    except IrdeconvError:  # a fault of irdeconv's, which ran it
        return False
    xml, weights = ir_bytes(exact)
    live = runtime.ask(xml.decode(), weights, list(feeds.values()))
    if live.kind != "ran" or shapes_apart(exact, live)[0]:
        return False
    return values_apart(exact, live, feeds) is None


def one_by_one(graph: Graph, feeds: Mapping[str, Array], runtime: Runtime) -> Relay | None:
    """Run the layers alone; None where one of them is no layer by itself, as a Loop is."""
    arrays: dict[Value, Array] = {}
    for node, array in zip(graph.parameters, feeds.values(), strict=True):
        arrays[Value(node.id)] = array
    for node in graph.topological():
        if node.type == "Const":
            arrays[Value(node.id)] = node.op.evaluate()  # type: ignore[assignment]
        if node.type in PASSIVE:
            continue
        sample = sample_in(graph, node, arrays)
        live = live_answer(sample, runtime)
        verdict = judge(sample, live, answer(sample))
        if verdict.kind == "both refuse":
            return None
        if verdict.kind != "agree":
            return Relay(arrays, verdict)
        arrays |= _outputs(graph, node, live.arrays)
    return Relay(arrays)


def _outputs(graph: Graph, node: Node, arrays: Sequence[Any]) -> dict[Value, Array]:
    """The outputs in the arrays that irdeconv has for them: bf16 and packed ones came as others."""
    out = {}
    for port, array in enumerate(arrays):
        dtype = node.spec(port).dtype
        held = array if dtype is None else np.asarray(array).astype(dtype.container)
        out[Value(node.id, port)] = held
    return out


def _alike(graph: Graph, ones: Sequence[Array], others: Sequence[Array]) -> bool:
    """Whether two runs of OpenVINO give the same but for their last digits."""
    rows = zip(ones, others, strict=True)
    return all(a.shape == b.shape and _close(a, b) for a, b in rows)


def _close(a: Array, b: Array) -> bool:
    if a.dtype.kind in "OSUTb" or not a.size:
        return bool(np.array_equal(a, b))
    return bool(close(b, a, 2.0**-9).all())
