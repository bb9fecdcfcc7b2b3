"""OpenVINO against itself: the same model with exact sizes, or its layers one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array
from irdeconv.ops.basic import Parameter
from support.differential.judging import PASSIVE, Finding, shapes_apart, values_apart
from support.differential.locating import sample_of
from support.live_operations import ours
from support.live_operations.runtime import Answer, Runtime
from support.live_operations.sweep import live_answer
from support.live_operations.verdict import Verdict, judge

EXACT = "models that depend on what is declared"
WHOLE = "layers that give something else in a whole model"
ENLARGED = "rounding that later layers enlarge"
KINDS = ("only irdeconv", "OpenVINO crashes", "values")


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
    if finding.kind not in KINDS:
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
        sample = sample_of(graph, node, arrays)
        live = live_answer(sample, runtime)
        verdict = judge(sample, live, ours.answer(sample))
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
    x, y = a.astype(np.float64), b.astype(np.float64)
    room = 2.0**-9 * max(1.0, float(np.abs(x[np.isfinite(x)]).max(initial=0)))
    return bool(np.allclose(x, y, rtol=0, atol=room, equal_nan=True))
