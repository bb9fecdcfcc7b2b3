"""Random graphs and mutants of IRs, irdeconv against a live OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.spec import DYNAMIC, Interval, Spec
from support.differential.explained import EMPTY, LENIENT, REFUSALS
from support.differential.graphs import random_graph
from support.differential.judging import contradiction
from support.differential.models import random_model
from support.differential.trial import Outcome, attempt
from support.live_operations.runtime import Runtime

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.oracles
pytest.importorskip("openvino")


def outcomes(seed: int, count: int) -> list[tuple[int, Outcome]]:
    models = ((n, random_model(seed, n)) for n in range(count))
    with Runtime() as runtime:
        return [(n, attempt(model, runtime)) for n, model in models if model is not None]


def test_random_graphs_agree() -> None:
    found = outcomes(0, 20)
    assert not [row for row in found if not row[1].settled]
    assert sum(o.kind == "agree" for _, o in found) > 12


@pytest.mark.slow
def test_many_random_graphs_agree() -> None:
    found = outcomes(0, 400)
    assert not [row for row in found if not row[1].settled]


def test_graphs_repeat() -> None:
    first, again = random_graph(3, 5), random_graph(3, 5)
    assert ird.dump(first.graph) == ird.dump(again.graph)
    assert all(np.array_equal(first.feeds[n], again.feeds[n]) for n in first.feeds)
    assert ird.dump(first.graph) != ird.dump(random_graph(3, 6).graph)


def test_graphs_have_what_they_should() -> None:
    """Of a hundred graphs: deconvolutions, several inputs and outputs, open sizes, most types."""
    graphs = [ird.infer(random_graph(4, n).graph) for n in range(60)]
    specs = [s for g in graphs for n in g.nodes() for s in [n.spec(0)] if n.type != "Result"]
    kinds = {str(s.dtype) for s in specs}
    assert {"f32", "f16", "bf16", "f64", "i64", "i32", "i8", "u8", "boolean"} <= kinds
    assert sum(any(n.op.deconvolution for n in g.nodes()) for g in graphs) > 10
    assert sum(len(g.inputs) > 1 and len(g.outputs) > 1 for g in graphs) > 20
    assert sum(not s.static for s in specs) > 40
    readers = [len({u for u, _ in g.users(v)}) for g in graphs for v in values(g)]
    assert max(readers) > 2


def values(graph: ird.Graph) -> list[ird.Value]:
    return [ird.Value(n.id) for n in graph.nodes() if n.type not in ("Result",)]


@pytest.mark.parametrize(
    ("spec", "array", "wrong"),
    [
        (Spec(ELEMENT_TYPES["f32"], (2, DYNAMIC)), np.zeros((2, 5), np.float32), ""),
        (Spec(ELEMENT_TYPES["f32"], (3, DYNAMIC)), np.zeros((2, 5), np.float32), "ran [2, 5]"),
        (Spec(ELEMENT_TYPES["f32"], None), np.zeros((2,), np.float64), "ran float64"),
        (
            Spec(ELEMENT_TYPES["i64"], (2,), np.array([Interval(1, 3), 4], object)),
            np.array([4, 4]),
            "value 1..3, ran 4",
        ),
    ],
)
def test_contradictions_are_seen(spec: Spec, array: np.ndarray, wrong: str) -> None:
    assert (wrong in contradiction(spec, array)) if wrong else not contradiction(spec, array)


@pytest.mark.parametrize("title", sorted({EMPTY, *(r.title for r in REFUSALS), *LENIENT.values()}))
def test_refusals_are_documented(title: str) -> None:
    page = (ROOT / "docs/disagreements.md").read_text("utf-8")
    assert f"| {title} |" in page
