"""Costs against counting on the emitted graphs and by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.form_names import CONDITIONS
from irdeconv.ir.graph import Graph, Node
from irdeconv.rewrite.builder import Skip
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.planning import FormCost, PlanningTask, cost_of, planned
from irdeconv.rewrite.site import DeconvolutionSite
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.targets import load_target
from support.forms_grid import form_layer
from support.layers import Layer, build, numbers
from support.sweeps import parts
from targets import lacking
from test_forms import two_d

pytestmark = pytest.mark.thorough

VIEWS = ("Reshape", "Squeeze", "Unsqueeze")


def graph_only(layer: Layer, **more: Any) -> Graph:
    rng = np.random.default_rng(3)
    x, w = numbers(rng, layer.data_shape, np.float32), numbers(rng, layer.filter_shape, np.float32)
    return build(layer, x, w, **more)[0]


def lowered(graph: Graph, form: str, target: Any = None) -> tuple[Graph, FormCost, Any]:
    low = ird.lower(graph, form, target, explain_costs=True)
    (record,) = low.report
    (row,) = (c for c in record.costs if c.form == form)
    return low.graph, row, record


def emitted(graph: Graph) -> list[Node]:
    """The operations that stand for the layer, in the order in which they were made.

    Unsqueeze is not the form's: it gives a filter that is no constant its group axis.
    """
    order = graph.topological()
    return [n for n in order if n.origins and n.type not in ("Const", "Unsqueeze")]


def elements(graph: Graph, value: Any) -> int:
    return math.prod(graph.spec(value).shape or ())


def tensors(graph: Graph, node: Node) -> list[Any]:
    """The inputs that hold data, filters, masks or factors: not pads, axes or shapes."""
    dtype = node.spec().dtype
    return [v for v in graph.inputs_of(node.id) if graph.spec(v).dtype == dtype]


def counted(graph: Graph) -> dict[str, int]:
    """MACs, bytes, nodes and scratch bytes of a lowered graph, counted node by node."""
    nodes = emitted(graph)
    whole = {n.id: n for n in nodes}
    macs = sum(n.op.macs(graph.input_specs(n.id), n.specs or ()) or 0 for n in nodes)
    moved = 0
    for n in nodes:
        if n.type not in VIEWS:
            moved += math.prod(n.spec().shape or ())
            moved += sum(elements(graph, v) for v in tensors(graph, n))

    def base(i: int) -> int:
        """The node whose memory a node's output lies in."""
        while i in whole and whole[i].type in VIEWS:
            i = graph.inputs_of(i)[0].node
        return i

    order = [n for n in nodes if n.type not in VIEWS]
    last: dict[int, int] = {}
    for step, n in enumerate(nodes):
        for v in graph.inputs_of(n.id):
            last[base(v.node)] = step
    final = base(nodes[-1].id)
    owners = {n.id: math.prod(n.spec().shape or ()) for n in order if n.id != final}
    most = 0
    for step, _ in enumerate(nodes):
        born = [n.id for n in nodes[: step + 1] if n.id in owners]
        most = max(most, sum(owners[i] for i in born if last.get(i, step) >= step))
    return {"macs": macs, "bytes": 4 * moved, "nodes": len(nodes), "scratch": 4 * most}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", parts(2, 4))
def test_costs_are_those_of_the_emitted_graph(form: str, chunk: int) -> None:
    seen = 0
    for k in range(600):
        rng = np.random.default_rng([77, chunk, k])
        layer = form_layer(rng)
        if min(layer.output_size) < 1:
            continue
        graph = graph_only(layer, filter_input=bool(k % 3 == 0))
        target = lacking("DepthToSpace") if k % 2 else None
        low, row, record = lowered(graph, form, target)
        if target is not None:  # what its operations are: the plan has zero-insertion as written
            low = standardize(low)
        if record.form != form:
            assert CONDITIONS[form]
            continue
        assert row.cost is not None
        costs = {name: getattr(row.cost, name) for name in ("macs", "bytes", "nodes", "scratch")}
        if emitted(low):  # a 1x1 layer of one channel may vanish
            assert costs == counted(low), (form, layer)
        assert row.cost.macs == record.macs_lowered
        seen += 1
        if seen == 50:
            return
    pytest.fail(f"{form} took only {seen} layers")


@pytest.mark.parametrize("seed", range(30))
def test_wasted_products_are_those_that_reach_no_output(seed: int) -> None:
    """Counted one by one: pairs of input and tap whose place lies in the output."""
    layer = form_layer(np.random.default_rng([78, seed]), budget=200)
    graph = graph_only(layer)
    useful = layer.batch * (layer.groups or 1) * layer.c * layer.m
    for a, (begin, size) in enumerate(layer.window()):
        places = [
            s * layer.strides[a] + k * layer.dilations[a] - begin
            for s in range(layer.size[a])
            for k in range(layer.kernel[a])
        ]
        useful *= sum(0 <= p < size for p in places)
    for form in ("zero-insertion", "phases", "stacked"):
        _, row, _ = lowered(graph, form)
        assert row.cost is not None
        if row.cost.macs:
            assert row.cost.wasted == pytest.approx(1 - useful / row.cost.macs)


# N = 1, C = 2, I = 2, M = 3, S = 2, no pads.
THREE_TAPS = Layer(1, (2,), None, 2, 3, (3,), (2,), (1,), (0,), (0,), (0,))
TWO_TAPS = replace(THREE_TAPS, kernel=(2,))


@pytest.mark.parametrize(
    ("form", "layer", "cost"),
    [
        # ZeroInsertion 4 -> 8, Pad -> 14, Convolution with 18 -> 15; 36 of 90 products are useful.
        ("zero-insertion", THREE_TAPS, (90, 12 + 22 + 47, 22, 3, 0.6)),
        # Convolution with 12: 4 -> 9, Convolution with 6: 4 -> 9, both with pads; Concat,
        # DepthToSpace 18 -> 18, StridedSlice -> 15.
        ("phases", THREE_TAPS, (36 + 18, 25 + 19 + 36 + 36 + 33, 36, 5, 1 / 3)),
        # Convolution with 24 and pads: 4 -> 18, DepthToSpace, StridedSlice -> 15.
        ("stacked", THREE_TAPS, (72, 46 + 36 + 33, 36, 3, 0.5)),
        # Convolution with 12: 4 -> 12, DepthToSpace.
        ("gemm", TWO_TAPS, (24, 28 + 24, 12, 2, 0)),
    ],
)
def test_costs_by_hand(form: str, layer: Layer, cost: tuple[float, ...]) -> None:
    """Products, numbers moved and kept, nodes, the part of the products that is wasted."""
    macs, moved, kept, nodes, wasted = cost
    _, row, _ = lowered(graph_only(layer), form)
    assert row.cost is not None
    assert row.cost.wasted == pytest.approx(wasted)
    exact = {"macs": macs, "bytes": 4 * moved, "scratch": 4 * kept, "nodes": nodes}
    assert row.cost == replace(row.cost, **exact)


def test_residues_that_are_alike_are_counted_at_once() -> None:
    """FCN-32s: 1024 residues of 4 taps, of which the pads have 3 x 3 kinds."""
    lists = {"size": 16, "kernel": 64, "strides": 32, "dilations": 1, "begin": 1, "end": 1}
    squares: Any = {name: (value, value) for name, value in lists.items()}
    site = DeconvolutionSite(
        batch=1, groups=1, c=21, m=21, itemsize=4, constant_filter=False, **squares
    )
    graph = graph_only(replace(two_d(), c=21, m=21, batch=1, size=(16, 16)))
    (node,) = graph.find("deconv")
    plan = planned(FORMS["phases"], site, PlanningTask(ird.infer(graph), node, load_target()))
    assert not isinstance(plan, Skip)
    assert len(plan[0].operations) < 50
    cost = cost_of(*plan, site)
    # Slice, Transpose, Squeeze, Convolution of each, Concat, DepthToSpace, StridedSlice.
    assert cost.nodes == 4 * 1024 + 3
    assert cost.macs == 1024 * 21 * 21 * 4 * 17 * 17


def test_sizes_that_stand_in_leave_an_output() -> None:
    """40 elements are cut off, more than 32 inputs have outputs."""
    layer = two_d(strides=(1, 1), kernel=(2, 2), pads_begin=(40, 0), size=(60, 4))
    graph = graph_only(layer, data_shape=(1, 2, None, 4))
    for form in ("zero-insertion", "phases", "stacked"):
        _, row, _ = lowered(graph, form)
        assert row.cost is not None
        assert row.cost.macs > 0


def test_sizes_that_are_unknown_are_stood_in_for() -> None:
    graph = graph_only(two_d(), data_shape=(None, 2, None, 4))
    fixed = graph_only(two_d(batch=1, size=(32, 4)))
    for form in ("zero-insertion", "phases", "stacked"):
        _, row, _ = lowered(graph, form)
        _, same, _ = lowered(fixed, form)
        assert row.assumed
        assert not same.assumed
        assert row.cost == same.cost
