"""One model on both sides: what comes of it, where a disagreement begins, what explains it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array
from support.differential.evidence import against_itself
from support.differential.explained import reason_for
from support.differential.judging import (
    Finding,
    ours_of,
    same_as_lowered,
    shapes_apart,
    values_apart,
)
from support.differential.lenient import UNUSED
from support.differential.locating import locate, refused_alone
from support.differential.wholes import leaves_out, of_a_whole
from support.live_operations.runtime import Answer, Runtime
from support.live_operations.verdict import Verdict

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


@dataclass(frozen=True)
class Model:
    """An IR with the values of its inputs."""

    xml: bytes
    weights: bytes
    feeds: Mapping[str, Array]


def attempt(made: Model | Callable[[], Model | None], runtime: Runtime) -> Outcome:
    """Make a model and run it on both sides; what goes wrong in irdeconv is a finding, too."""
    try:
        model = made if isinstance(made, Model) else made()
        return Outcome("none made") if model is None else _attempt(model, runtime)
    except Exception as e:  # the finding of a bug
        last = traceback.extract_tb(e.__traceback__)[-1]
        where = f"{last.filename.rpartition('irdeconv/')[2]}:{last.lineno}"
        return Outcome("irdeconv fails", "", f"{type(e).__name__} at {where}: {e}"[:400])


def _attempt(model: Model, runtime: Runtime) -> Outcome:
    ours = ours_of(model.xml, model.weights, model.feeds)
    arrays = list(model.feeds.values())
    text = model.xml.decode("utf-8", "surrogateescape")
    live = runtime.ask(text, model.weights, arrays)
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
