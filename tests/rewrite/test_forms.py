"""All lowering forms and their choice equal the definition to the bit; where they do not apply."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.form_names import CONDITIONS
from irdeconv.ir.graph import Graph, Node
from irdeconv.rewrite.emit import Skip
from irdeconv.rewrite.forms import FORMS, Form
from irdeconv.rewrite.planning import FormCost, PlanningTask, cost_of, planned
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.subpixel import DeconvolutionSite
from irdeconv.rewrite.targets import load_target
from support.forms_grid import ALL, check_case, form_layer
from support.layers import Layer, build, expected, numbers
from support.rows import each_row, parts
from targets import lacking

pytestmark = pytest.mark.thorough

SEED = 20250117
CASES = 25
# The full sweep: more than 20,000 results, half of them proved. `pytest -m slow` runs it.
SLOW_CHUNKS, SLOW_CASES = 40, 100


def two_d(**changes: Any) -> Layer:
    """S = 2, K = 4, two input and three output channels."""
    layer = Layer(2, (3, 4), None, 2, 3, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    return replace(layer, **changes)


def graph_of(layer: Layer, **more: Any) -> tuple[Graph, dict[str, Any], Any]:
    rng = np.random.default_rng(3)
    x, w = numbers(rng, layer.data_shape, np.float32), numbers(rng, layer.filter_shape, np.float32)
    graph, feeds = build(layer, x, w, **more)
    return graph, feeds, expected(layer, x, w)


def test_every_form_equals_the_definition() -> None:
    seen: Counter[str] = Counter()
    runs = sum(check_case(np.random.default_rng([SEED, 0, k]), seen) for k in range(CASES))
    assert runs >= CASES * len(ALL)
    for form in ALL[:-1]:
        assert seen[f"{form}: {form}"] >= 2, seen


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(SLOW_CHUNKS))
def test_every_form_is_equal_and_proved_in_the_full_sweep(chunk: int) -> None:
    seen: Counter[str] = Counter()
    rngs = [np.random.default_rng([SEED + 1, chunk, k]) for k in range(SLOW_CASES)]
    runs = sum(check_case(rng, seen, prove=k % 2 == 0) for k, rng in enumerate(rngs))
    print(f"{runs} results equal, {seen['proved']} layers proved", dict(sorted(seen.items())))
    assert runs >= SLOW_CASES * len(ALL)
    assert seen["proved"] >= SLOW_CASES // 2 * len(ALL)


def test_the_sweep_is_large_and_varied() -> None:
    assert SLOW_CHUNKS * SLOW_CASES * len(ALL) >= 20_000
    layers = [form_layer(np.random.default_rng([SEED, 99, k])) for k in range(1500)]
    pairs = [list(zip(la.strides, la.dilations, la.kernel, strict=True)) for la in layers]
    counts = {
        "1D": sum(la.axes == 1 for la in layers),
        "2D": sum(la.axes == 2 for la in layers),
        "3D": sum(la.axes == 3 for la in layers),
        "groups": sum((la.groups or 1) > 1 for la in layers),
        "batch": sum(la.batch > 1 for la in layers),
        "gcd": sum(any(np.gcd(s, d) > 1 and k > 1 for s, d, k in p) for p in pairs),
        "K < S": sum(any(k < s for s, _, k in p) for p in pairs),
        "K == S": sum(all(k == s and d == 1 for s, d, k in p) for p in pairs),
        "negative pads": sum(min(la.pads_begin + la.pads_end) < 0 for la in layers),
        "output_shape": sum(la.output_shape is not None for la in layers),
        "output_padding": sum(
            any(o >= s for o, s in zip(la.output_padding, la.strides, strict=True)) for la in layers
        ),
    }
    assert min(counts.values()) > 100, counts


@pytest.mark.parametrize(
    ("form", "changes", "reason"),
    [
        ("gemm", {}, "the kernel [4, 4] is not the stride [2, 2]"),
        ("gemm", {"kernel": (2, 2), "dilations": (1, 2)}, "the taps are dilated by [1, 2]"),
    ],
)
def test_a_form_that_does_not_apply_says_why(form: str, changes: Any, reason: str) -> None:
    graph, feeds, want = graph_of(two_d(**changes))
    low = ird.lower(graph, form)
    (record,) = low.report
    assert (record.form, record.reason) == ("zero-insertion", reason)
    assert record.to_dict()["reason"] == reason
    assert np.array_equal(ird.run(low.graph, feeds, form=None, fuse=False)["y"], want)


@pytest.mark.parametrize("form", ["phases", "stacked"])
def test_pads_that_are_known_only_at_run_time(form: str) -> None:
    layer = two_d(output_shape=(7, 9), auto_pad="same_upper")
    graph, feeds, want = graph_of(layer, shape_source="input")
    low = ird.lower(graph, form)
    assert [r.reason for r in low.report] == ["the pads are known only at run time"]
    assert np.array_equal(ird.run(low.graph, feeds, form=None, fuse=False)["y"], want)
    (auto,) = ird.lower(graph, "auto").report
    assert (auto.form, auto.reason) == ("zero-insertion", None)
    refused = {c.form for c in auto.costs if c.refused is not None}
    assert {"phases", "stacked", "gemm"} <= refused
    assert "zero-insertion" not in refused


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("free", [False, True])
def test_certificates_call_a_form_by_its_name(form: Form, free: bool) -> None:
    square = two_d(kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0))
    layers = (two_d(), square, two_d(strides=(1, 1)))
    shape = (None, 2, None, 4) if free else None
    graphs = [ird.infer(graph_of(layer, data_shape=shape)[0]) for layer in layers]
    lows = [ird.lower(graph, form.name) for graph in graphs]
    at = [low.report.layers[0].form for low in lows].index(form.name)
    (made,) = ird.certify(graphs[at], lows[at].graph)
    assert made.form == form.name
    assert made.reason is None


def test_what_each_form_is_made_of() -> None:
    graph, _, _ = graph_of(two_d())
    nodes = {form: next(iter(ird.lower(graph, form).report)).nodes for form in ALL[:3]}
    assert nodes["zero-insertion"] == ("ZeroInsertion", "Pad", "Convolution")
    assert nodes["phases"] == ("Convolution",) * 4 + ("Concat", "DepthToSpace")
    # K = 4, S = 2, P = 1: one output more in front needs two taps of an axis instead of three.
    assert nodes["stacked"] == ("Convolution", "DepthToSpace", "StridedSlice")
    unpadded = two_d(pads_begin=(0, 0), pads_end=(0, 0))
    (record,) = ird.lower(graph_of(unpadded)[0], "stacked").report
    assert record.nodes == ("Convolution", "DepthToSpace")
    square = two_d(kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0))
    (record,) = ird.lower(graph_of(square)[0], "gemm").report
    assert record.nodes == ("Convolution", "DepthToSpace")
    assert record.macs_lowered == record.macs_direct


@pytest.mark.parametrize("chunk", parts(1, 2))
def test_a_form_tells_without_building_what_it_tells_when_built(chunk: int) -> None:
    """The reasons for which `auto` refuses a form are those of its lowering."""
    reasons: Counter[str] = Counter()
    for k in range(30 * chunk, 30 * chunk + 30):
        rng = np.random.default_rng([SEED, 7, k])
        layer = form_layer(rng, budget=200)
        x = numbers(rng, layer.data_shape, np.float32)
        w = numbers(rng, layer.filter_shape, np.float32)
        source = str(rng.choice(["const", "input"]))
        graph, _ = build(layer, x, w, filter_input=bool(k % 2), shape_source=source)
        (auto,) = ird.lower(graph, "auto", explain_costs=True).report
        refused = {c.form: c.refused for c in auto.costs}
        for form in ALL[:-1]:
            (record,) = ird.lower(graph, form).report
            assert record.reason == refused[form]
            reasons[f"{form} {record.reason is None}"] += 1
    assert min(reasons.values()) >= 2
    assert len(reasons) == 2 * len(FORMS) - 1  # zero-insertion applies always


def test_a_stacked_filter_is_made_by_a_node_per_axis_not_per_residue() -> None:
    """What arranges a filter that is no constant does not grow with the 64 residues."""
    layer = two_d(c=1, m=1, size=(2, 2), kernel=(9, 10), strides=(8, 8))
    graph, feeds, want = graph_of(layer, filter_input=True)
    low = ird.lower(graph, "stacked")
    (record,) = low.report
    assert Counter(record.nodes)["Gather"] == 2
    assert len(record.nodes) <= 13, record.nodes
    assert np.array_equal(ird.run(low.graph, feeds, form=None, fuse=False)["y"], want)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["zero-insertion", "phases", "stacked"])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_own_pads_of_convolutions_behind_crops(form: str, kernel: int, stride: int) -> None:
    """More is cropped at one end than the data has, while zeros join the other one."""
    layers = 0
    for size, begin, end in itertools.product((1, 2), range(-3, 6), range(-3, 6)):
        layer = Layer(1, (size,), None, 1, 1, (kernel,), (stride,), (1,), (begin,), (end,), (0,))
        if layer.output_size[0] > 0:
            graph, feeds, want = graph_of(layer)
            low = ird.lower(graph, form, lacking()).graph  # its convolutions pad by themselves
            found = ird.run(low, feeds, form=None, fuse=False)["y"]
            np.testing.assert_array_equal(found, want, strict=True, err_msg=str(layer))
            layers += 1
    assert layers > 60


def test_auto_is_a_form_like_the_others() -> None:
    graph, feeds, want = graph_of(two_d())
    assert np.array_equal(ird.run(graph, feeds, form="auto", fuse=False)["y"], want)
    assert np.array_equal(ird.compile(graph, form="auto", fuse=False).run(feeds)["y"], want)
    report = ird.lower(graph, "auto").report
    assert (report.form, report.target) == ("auto", "generic")
    (record,) = report
    assert record.form in ALL[:-1]
    assert [c.form for c in record.costs if c.chosen] == [record.form]
    assert report.to_dict()["target"] == "generic"


@pytest.mark.oracles
@pytest.mark.parametrize("chunk", parts(1, 10))
def test_openvino_computes_what_each_form_writes(chunk: int, tmp_path: Path) -> None:
    """Of some layers, every form's files; known defects of the plugin are left out."""
    from support.runtime_truth import lowered_defect, outputs_of_each

    models, wanted = [], []
    for k in range(10):
        rng = np.random.default_rng([SEED + 2, chunk, k])
        layer = form_layer(rng)
        while min(layer.output_size) < 1 or lowered_defect(layer) or layer.semantics != "runtime":
            layer = form_layer(rng)
        x = numbers(rng, layer.data_shape, np.float32)
        w = numbers(rng, layer.filter_shape, np.float32)
        graph, feeds = build(layer, x, w, filter_input=bool(rng.random() < 0.2))
        for node in graph.parameters:
            node.tensor_names = ((node.name,),)
        want = expected(layer, x, w)
        for form in ALL:
            low = ird.lower(graph, form).graph
            path = tmp_path / f"{k}-{form}.xml"
            ird.write(low, path)
            assert "BackpropData" not in path.read_text("utf-8")
            again = ird.run(ird.read(path), feeds, form=None, fuse=False)["y"]
            assert np.array_equal(again, want), (form, layer)
            models.append((path, feeds))
            wanted.append((want, form, layer))
    for (found,), (want, *which) in zip(outputs_of_each(models), wanted, strict=True):
        assert np.array_equal(found, want), which
    assert len(wanted) == 10 * len(ALL)


# Costs against counting on the emitted graphs and by hand.


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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", parts(4, 10))
def test_costs_are_those_of_the_emitted_graph(form: str, chunk: int) -> None:
    seen = 0
    for k in range(600):
        layer = form_layer(np.random.default_rng([77, chunk, k]))
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
        if seen == 20:
            return
    pytest.fail(f"{form} took only {seen} layers")


@each_row("seed", range(30))
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
