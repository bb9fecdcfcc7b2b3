"""The cost formulas against counting on the emitted graphs, and what profiles make of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.cli.options import OptionParser, add_form
from irdeconv.graph import Graph, Node
from irdeconv.passes.choose import FormCost
from irdeconv.passes.forms import AUTO, FORMS
from irdeconv.passes.profile import Profile, ScoreWeights, load_profile, profile_names
from support.forms_grid import form_layer
from support.ir_text import write_ir
from support.layers import Layer, build, numbers
from test_forms import graph_of, two_d

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
    """The inputs that hold data or filter values, not pads, axes or shapes."""
    inputs = graph.inputs_of(node.id)
    return list(inputs if node.type == "Concat" or "Convolution" in node.type else inputs[:1])


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
@pytest.mark.parametrize("chunk", range(4))
def test_formulas_agree_with_counting(form: str, chunk: int) -> None:
    seen = 0
    for k in range(60):
        rng = np.random.default_rng([77, chunk, k])
        layer = form_layer(rng)
        if form == "gemm":
            layer = replace(layer, kernel=layer.strides, dilations=(1,) * layer.axes)
        if min(layer.output_size) < 1:
            continue
        x = numbers(rng, layer.data_shape, np.float32)
        w = numbers(rng, layer.filter_shape, np.float32)
        graph, _ = build(layer, x, w, filter_input=bool(k % 3 == 0))
        target = "no-depth-to-space" if k % 2 else None
        low, row, record = lowered(graph, form, target)
        assert record.form == form
        assert row.cost is not None
        costs = {name: getattr(row.cost, name) for name in ("macs", "bytes", "nodes", "scratch")}
        if emitted(low):  # a 1x1 layer of one channel may vanish
            assert costs == counted(low), (form, layer)
        assert row.cost.macs == record.macs_lowered
        seen += 1
    assert seen > 40


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


def test_sizes_that_are_unknown_are_stood_in_for() -> None:
    graph = graph_only(two_d(), data_shape=(None, 2, None, 4))
    fixed = graph_only(two_d(batch=1, size=(32, 4)))
    for form in ("zero-insertion", "phases", "stacked"):
        _, row, _ = lowered(graph, form)
        _, same, _ = lowered(fixed, form)
        assert row.assumed
        assert not same.assumed
        assert row.cost == same.cost


def chosen(layer: Layer, target: Any, **more: Any) -> tuple[str | None, dict[str, str | None]]:
    (record,) = ird.lower(graph_only(layer, **more), "auto", target).report
    return record.form, {c.form: c.refused for c in record.costs}


def test_the_choice_is_the_least_score_of_the_weighting() -> None:
    graph = graph_only(two_d())
    for weights in (
        ScoreWeights(1, 0, 0, 0),
        ScoreWeights(0, 1, 0, 0),
        ScoreWeights(0, 0, 1, 0),
        ScoreWeights(0, 0, 0, 1),
        ScoreWeights(2, 3, 5, 7),
    ):
        (record,) = ird.lower(graph, "auto", Profile(weights=weights)).report
        rows = {c.form: c for c in record.costs if c.cost is not None}
        for c in rows.values():
            assert c.cost is not None
            assert c.score == pytest.approx(
                weights.mac * c.cost.macs
                + weights.byte * c.cost.bytes
                + weights.scratch * c.cost.scratch
                + weights.node * c.cost.nodes
            )
        open_rows = [c for c in rows.values() if c.refused is None]
        least = min(c.score for c in open_rows if c.score is not None)
        assert rows[record.form or ""].score == least
    assert chosen(two_d(), Profile(weights=ScoreWeights(1, 0, 0, 0)))[0] == "phases"
    wide = two_d(c=64, m=64, size=(32, 32))
    assert chosen(wide, "generic")[0] == "phases"
    assert chosen(replace(wide, kernel=(2, 2)), "generic")[0] == "gemm"


UPSAMPLED = two_d(kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0))


@pytest.mark.parametrize(
    ("limit", "layer", "form", "reason"),
    [
        ({"max_kernel": 2}, two_d(), "zero-insertion", "kernel 4, the target has at most 2"),
        ({"max_kernel": 2}, two_d(), "phases", None),
        ({"max_stride": 1}, two_d(), "phases", "stride 2, the target has at most 1"),
        (
            {"max_dilation": 1},
            two_d(dilations=(1, 3)),
            "zero-insertion",
            "dilation 3, the target has at most 1",
        ),
        ({"max_groups": 1}, two_d(groups=2), "stacked", "2 groups, the target has at most 1"),
        ({"max_spatial_axes": 1}, two_d(), "gemm", "the kernel [4, 4] is not the stride [2, 2]"),
        ({"max_spatial_axes": 1}, UPSAMPLED, "gemm", "2 spatial axes, the target has 1"),
        ({"pad": False}, two_d(), "phases", "the target does not pad"),
        (
            {"crop": False},
            replace(UPSAMPLED, pads_end=(0, 1)),
            "gemm",
            "the target does not crop",
        ),
        ({"zero_insertion": False}, two_d(), "zero-insertion", "the target inserts no zeros"),
        ({"depth_to_space": False}, two_d(), "phases", None),
        (
            {"depth_to_space": False, "strided_write": False},
            two_d(),
            "phases",
            "the target has no strided write and no interleaving",
        ),
        (
            {"strided_write": False},
            two_d(strides=(2, 3)),
            "stacked",
            "the target has no strided write and no DepthToSpace for this layer",
        ),
        ({"strided_write": False}, two_d(), "stacked", None),
    ],
)
def test_limits_refuse_forms(limit: Any, layer: Layer, form: str, reason: str | None) -> None:
    _, refused = chosen(layer, Profile(**limit))
    assert refused[form] == reason


def test_filters_that_are_no_constants_can_be_refused() -> None:
    form, refused = chosen(two_d(), Profile(non_constant_filters=False), filter_input=True)
    assert form == "zero-insertion"
    reason = "the filter is no constant, the target needs one"
    assert {refused[f] for f in ("zero-insertion", "phases", "stacked")} == {reason}
    assert chosen(two_d(), Profile(non_constant_filters=False))[1]["phases"] is None


def test_alignment_counts_rounded_channels() -> None:
    """C = 2 and M = 3 are rounded up to 8; the stacked form has 12 outputs, rounded to 16."""
    graph = graph_only(two_d())
    weights = ScoreWeights(1, 0, 0, 0)
    (record,) = ird.lower(graph, "auto", Profile(channel_alignment=8, weights=weights)).report
    factors = {c.form: c.score / c.cost.macs for c in record.costs if c.score and c.cost}
    assert factors["zero-insertion"] == factors["phases"] == pytest.approx(4 * 8 / 3)
    assert factors["stacked"] == pytest.approx(4 * 16 / 12)


def test_no_form_suits() -> None:
    graph, feeds, want = graph_of(two_d())
    low = ird.lower(graph, "auto", Profile(name="tiny", max_spatial_axes=1))
    (record,) = low.report
    assert (record.form, record.reason) == ("zero-insertion", "no form suits tiny")
    (warning,) = low.report.diagnostics
    assert warning.code == "W402"
    assert "phases: 2 spatial axes, the target has 1" in warning.message
    assert np.array_equal(ird.run(low.graph, feeds, form=None, fuse=False)["y"], want)


def test_a_form_that_was_asked_for_is_warned_of() -> None:
    graph = graph_only(two_d())
    low = ird.lower(graph, "phases", "zero-insertion-hardware")
    assert [r.form for r in low.report] == ["phases"]
    assert [d.code for d in low.report.diagnostics] == ["W402"]
    assert ird.lower(graph, "phases").report.diagnostics == ()


def test_packaged_profiles() -> None:
    assert profile_names() == ["generic", "no-depth-to-space", "zero-insertion-hardware"]
    assert all(load_profile(name).description for name in profile_names())
    assert load_profile(None).name == "generic"
    layer = two_d(c=16, m=16, size=(16, 16))
    assert chosen(layer, "zero-insertion-hardware")[0] == "zero-insertion"
    low = ird.lower(graph_only(layer), "auto", "no-depth-to-space").graph
    assert not list(low.nodes("DepthToSpace"))
    assert list(low.nodes("Transpose"))


def test_a_profile_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "npu.toml"
    path.write_text('description = "mine"\nmax_kernel = 2\n[weights]\nmac = 0\nnode = 1\n')
    profile = load_profile(path)
    assert profile == Profile(
        "npu", "mine", max_kernel=2, weights=replace(ScoreWeights(), mac=0, node=1)
    )
    assert load_profile(str(path)) == profile
    with pytest.raises(ird.FileAccessError, match=r"E100.*missing\.toml"):
        load_profile(tmp_path / "missing.toml")


def test_every_mistake_of_a_profile_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        'max_kernal = 3\nmax_stride = 0\npad = 1\nname = 7\n[weights]\nmacs = 1\nbyte = "x"\n'
    )
    with pytest.raises(ird.UsageError) as raised:
        load_profile(path)
    found = {d.message.split(": ", 1)[1].split(":")[0]: d.hint for d in raised.value.diagnostics}
    assert len(raised.value.diagnostics) == 6
    assert found['there is no key "max_kernal"'] == 'did you mean "max_kernel"?'
    assert "max_stride is a whole number of at least 1, not 0" in found
    assert "pad is true or false, not 1" in found
    assert "name is a text, not 7" in found
    path.write_text("max_kernel 3")
    with pytest.raises(ird.UsageError, match="not TOML"):
        load_profile(path)
    with pytest.raises(ird.UsageError, match="there is no target") as unknown:
        load_profile("generik")
    assert unknown.value.diagnostics[0].hint == 'did you mean "generic"?'


def test_the_help_names_every_form() -> None:
    parser = OptionParser("irdeconv", None)
    add_form(parser, none=True)
    text = " ".join(parser.format_help().split())
    assert all(form in text for form in (*FORMS, AUTO))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, out = tmp_path / "net.xml", tmp_path / "low.xml"
    write_ir(net, two_d(), np.ones(two_d().filter_shape))
    (tmp_path / "npu.toml").write_text("max_kernel = 2\n")
    command = ["lower", str(net), "--form", "auto", "--target", str(tmp_path / "npu.toml")]
    assert main([*command, "--explain-costs", "-o", str(out)]) == 0
    text = capsys.readouterr().out
    assert "deconv: zero-insertion refused: kernel 4, the target has at most 2" in text
    assert "1 deconvolution of 1 lowered as auto for npu" in text
    assert main([*command, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["target"] == "npu"
    rows = {c["form"]: c for c in report["layers"][0]["costs"]}
    assert list(rows) == list(FORMS)
    assert rows["phases"]["macs"] == 2 * 2 * 3 * 16 * 3 * 4
    assert rows["zero-insertion"]["refused"] == "kernel 4, the target has at most 2"
    assert main(["lower", str(net), "--form", "gemm"]) == 0
    text = capsys.readouterr().out
    assert "deconv: zero-insertion instead of gemm: the kernel [4, 4]" in text
    assert "1 deconvolution of 1 lowered as gemm, 1 of them as zero-insertion instead; " in text
    assert main(["lower", str(net), "--target", "generc"]) == 2
    assert 'did you mean "generic"?' in capsys.readouterr().err
