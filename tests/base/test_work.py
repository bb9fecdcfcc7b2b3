"""The account of work: sums of folded constants, values, bodies; limits in threads."""

from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base import work
from irdeconv.base.errors import OpError
from irdeconv.base.extras import is_plain
from irdeconv.cli.main import main
from irdeconv.formats import layers
from irdeconv.formats.importing import ImportBuilder, source_node
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import infer_op
from irdeconv.ir.spec import Interval, Spec, broadcast
from irdeconv.ops.convolution import Convolution
from irdeconv.ops.core import ZeroInsertion
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from irdeconv.ops.elementwise import Add, Minimum, Sqrt
from irdeconv.ops.movement import Broadcast, Concat
from irdeconv.ops.slicing import Slice
from irdeconv.proof.model import COUNTERS, Unproved
from irdeconv.rewrite import layer_rules, planning
from irdeconv.rewrite.builder import GraphBuilder
from irdeconv.rewrite.emit import Style
from irdeconv.rewrite.standardize import standardize
from irdeconv.show.page_details import details_of
from irdeconv.show.ranks import (
    FEW_PASSING,
    Net,
    crossings,
    layered,
    order_rows,
)
from irdeconv.verify.suite import gathered
from support import irbuild as ib
from support.plan_graphs import Builder
from support.rows import each_row
from support.verdicts import core_answer


def test_the_sum_of_folded_constants_is_limited():
    b, x = Builder.of((1,), np.float32)
    for number in range(8):
        row = b.add(Broadcast(), np.full(1, number + 1, np.float32), np.array([10**5]))
        x = b.add(Add(), x, b.add(Sqrt(), row))
    graph = b.done(x)
    with ird.Limits(work=3 * 10**6).applied():
        some = ird.simplify(graph, max_growth=1 << 30)
    whole = ird.simplify(graph, max_growth=1 << 30)
    assert 0 < some.report.steps["folded"] < whole.report.steps["folded"]
    data = np.ones(1, np.float32)
    (a,), (b_,) = (ird.run(g, data).values() for g in (some.graph, whole.graph))
    assert np.array_equal(a, b_)


def test_limits_hold_in_threads_started_inside():
    seen = []
    with ird.Limits(work=7).applied():
        thread = Thread(target=lambda: seen.append(ird.base.limits.current().work))
        thread.start()
        thread.join()
    other = Thread(target=lambda: seen.append(ird.base.limits.current().work))
    other.start()
    other.join()
    assert seen == [7, ird.Limits().work]


def test_half_of_an_account_is_left_for_nodes():
    @work.fresh
    def spend():
        return work.room(40), work.room(20), work.take(61)

    with ird.Limits(work=100).applied():
        with pytest.raises(ird.IrdeconvError, match="the limit of work, 100") as caught:
            spend()
        assert caught.value.diagnostics[0].code == "E602"


@each_row("a", [1, 3, Interval(0, 1), Interval(1, 2), Interval(0, 3), Interval(2)])
@each_row("b", [0, 1, 3, Interval(0, 1), Interval(1, 4), Interval(2, 3)])
def test_broadcasting_intervals_holds_for_every_size(a, b):
    def sizes(d):
        return range(d.lo, 6 if d.hi is None else d.hi + 1) if isinstance(d, Interval) else [d]

    fits = {n if m == 1 else m for m in sizes(a) for n in sizes(b) if 1 in (m, n) or m == n}
    if not fits:
        with pytest.raises(ValueError, match="do not broadcast"):
            broadcast((a,), (b,))
        return
    (found,) = broadcast((a,), (b,))
    low, high = (found.lo, found.hi) if isinstance(found, Interval) else (found, found)
    assert low <= min(fits)
    assert high is None or high >= max(fits)


def test_a_layer_that_no_output_needs_may_not_fit():
    b = Builder()
    x, y = (b.input((Interval(0),), np.float32) for _ in range(2))
    b.add(Minimum(), x, y)
    graph = b.done(b.add(Sqrt(), x))
    feeds = [np.ones(2, np.float32), np.ones(3, np.float32)]
    for fuse in (True, False):
        assert [v.tolist() for v in ird.run(graph, feeds, fuse=fuse).values()] == [[1, 1]]


# Loops that an input sizes draw on the account, and name the limit and the layer.

HEAD = "ir_samples/openvino/segmentation_head.xml"


def test_a_proof_that_takes_too_much_is_none():
    model = "ir_samples/openvino/dynamic.xml"
    lowered = ird.lower(model, "phases")
    with ird.Limits(work=1 << 14).applied():
        made, report = ird.certify(model, lowered), ird.check_certificate(model, lowered)
    assert not made
    assert not report.equal
    refused = [c for c in made if not c.proved]
    assert refused
    assert all("the limit of work, 16,384 units" in c.reason for c in refused)
    assert "--limit work=N" in str(made)
    assert ird.check_certificate(model, lowered)


def test_the_proof_of_separate_groups_grows_slower_than_their_number(monkeypatch):
    used = []
    monkeypatch.setattr("irdeconv.proof.model.COUNTERS", [used.append])

    def units(channels: int) -> int:
        weights = np.arange(channels * 64, dtype=np.float32).reshape(channels, 1, 1, 8, 8)
        b, x = Builder.of((1, channels, 9, 9), np.float32)
        pads = {"pads_begin": (4, 3), "pads_end": (3, 4)}
        whole = b.done(b.add(GroupConvolutionBackpropData(strides=(1, 1), **pads), x, weights))
        b, x = Builder.of((1, channels, 9, 9), np.float32)
        pads = {"pads_begin": (3, 4), "pads_end": (4, 3)}
        made = [
            b.add(
                Convolution(strides=(1, 1), dilations=(1, 1), **pads),
                b.add(Slice(), x, *(np.array([v]) for v in (c, c + 1, 1, 1))),
                np.ascontiguousarray(weights[c, :, :, ::-1, ::-1]),
            )
            for c in range(channels)
        ]
        used.clear()
        assert ird.check_certificate(whole, b.done(b.add(Concat(axis=1), *made)))
        return sum(used)

    assert units(24) < 6 * units(2)


def test_the_proof_alone_has_a_limit_of_its_own():
    from irdeconv.proof.__main__ import MOST_WORK, limited

    count = limited()
    count(MOST_WORK)
    with pytest.raises(Unproved, match="more than 536,870,912 steps"):
        count(1)


def test_a_proof_leaves_its_limit_to_no_other():
    before = [*COUNTERS]
    core_answer(Path("none.xml"), Path("none.xml"))
    assert before == COUNTERS


@pytest.mark.parametrize("options", [{"form": "auto"}, {"target": "edgetpu"}])
def test_a_lowering_names_the_layer_that_is_too_much(options):
    with ird.Limits(work=0).applied(), pytest.raises(ird.LimitError) as caught:
        ird.lower(HEAD, **options)
    (found,) = caught.value.diagnostics
    assert found.code == "E602"
    assert found.layer in ("up1", "up2")
    assert "work=N" in found.hint


def test_the_search_for_a_form_ends_at_half_of_the_account():
    ended = []
    for size in (2 * 10**6, 4 * 10**7):
        with ird.Limits(work=size).applied():
            report = ird.lower(HEAD, target="max78000", best_effort=True).report
        rows = [row.refused or "" for layer in report for row in layer.costs]
        ended.append([text for text in rows if "the search stopped at half of the limit" in text])
    assert ended[0]
    assert "2,000,000 units" in ended[0][0]
    assert not ended[1]


def test_a_repeated_number_is_counted_before_it_is_stored():
    b = GraphBuilder(ird.Graph(), None)
    with pytest.raises(ird.IrdeconvError, match="the limit of work"):
        work.counted(b.const)(np.broadcast_to(np.float32(0), (1 << 40,)))


def test_a_page_keeps_its_first_order_without_work():
    nets = [Net(v, tuple({20 + v * k % 19 for k in (1, 5, 8)})) for v in range(20)]
    rank = [0] * 20 + [1] * 20
    found = []
    for size in (0, 10**9):
        layers = layered(rank, nets)
        with ird.Limits(work=size).applied():
            work.fresh(order_rows)(layers)
        found.append(crossings(layers, layers.rows))
    assert found[1] < found[0]


def test_crossed_values_draw_on_the_account(tmp_path):
    values = ",".join(map(str, range(1, 60)))
    file = tmp_path / "layers.toml"
    file.write_text(f"[cross]\nsize=[{values}]\nkernel=[{values}]\nstrides=[{values}]\n")
    with ird.Limits(work=10**6).applied(), pytest.raises(ird.IrdeconvError) as caught:
        work.fresh(gathered)(layers=file)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message[:23]) == ("E602", "crossing so many values")


@pytest.mark.parametrize("target", ["max78000", "nvdla"])
def test_a_stride_or_a_kernel_of_any_length_is_planned(target):
    b, x = Builder.of((1, 1, 1, 1), np.float32)
    long = b.input((1, 1, 10**9, 1), np.float32)
    w = np.ones((1, 1, 3, 3), np.float32)
    made = [
        b.add(ConvolutionBackpropData((10**9, 1), (0, 0), (0, 0), (1, 1)), x, w),
        b.add(ConvolutionBackpropData((2, 2), (0, 0), (0, 0), (1, 1)), x, long),
    ]
    graph, lower = b.done(*made), work.fresh(ird.lower)
    assert len(lower(graph, target=target, best_effort=True).report.layers) == 2
    with pytest.raises(ird.IrdeconvError, match=r"\[E602\].*the limit of work"):
        lower(graph, target="k210", best_effort=True)


def test_divisors_and_parts_of_long_axes():
    for n in (1, 12, 720_720, 999_983):
        assert layer_rules.divisors(n) == [d for d in range(1, n + 1) if n % d == 0]
    assert [*map(layer_rules.divisors(10**18).count, (1000, 10**15, 10**9))] == [1, 1, 0]
    every = {-(-700 // p) for p in range(1, 701)}
    assert layer_rules.part_sizes(700) == sorted(every, reverse=True)[:24]
    assert len(layer_rules.part_sizes(10**12)) == 24


def test_a_list_of_too_many_layers_is_refused_at_once(tmp_path, monkeypatch):
    checked = []
    monkeypatch.setattr("irdeconv.verify.suite._misfit", lambda *a: checked.append(a))
    file = tmp_path / "layers.toml"
    file.write_text("[[layer]]\nsize=3\n" * 20_001)
    with pytest.raises(ird.IrdeconvError, match="more than 20,000 layers are listed"):
        gathered(layers=file)
    assert not checked


def test_files_add_work_once():
    @work.fresh
    def left(*files):
        for size, name in files:
            work.earn(size, name)
        return work.left() - ird.Limits().work

    assert left((5, "a"), (5, "a"), (3, "b")) == 8 * work.EARNED
    assert left((5, ""), (5, "")) == 10 * work.EARNED


def test_inputs_and_deconvolutions_of_an_import_count():
    b = ImportBuilder(ird.Graph(), source_node("here", None))

    @work.fresh
    def used(make):
        before = work.left()
        make()
        return before - work.left()

    x, w = (b.parameter(n, ELEMENT_TYPES["f32"], (1, 1, 4)) for n in "xw")
    assert used(lambda: b.parameter("y", ELEMENT_TYPES["f32"], (1,))) == work.IMPORTED
    layer = ConvolutionBackpropData((1,), (0,), (0,), (1,))
    assert used(lambda: b.add(layer, x, w)) == 4 * work.IMPORTED


def test_layers_of_the_text_form_count():
    text = ird.dump("ir_samples/openvino/group_deconv.xml", elide=None)
    layers = len(ird.parse(text))
    for number in (layers, layers - 1):
        with ird.Limits(work=number * work.IMPORTED).applied():
            if number == layers:
                assert len(work.fresh(ird.parse)(text)) == layers
                continue
            with pytest.raises(ird.LimitError, match="reading so many layers"):
                work.fresh(ird.parse)(text)


def test_points_of_links_on_a_page_draw_on_the_account():
    nets = [Net(v, (v + 1, 2000)) for v in range(2000)]
    for size, most in ((0, FEW_PASSING), (10**9, 4 * 2001)):
        with ird.Limits(work=size).applied():
            layers = work.fresh(layered)([*range(2001)], nets)
        assert 0 < len(layers.rank) - 2001 <= most


def test_each_model_of_suite_run_has_its_own_account(tmp_path):
    ird.suite(tmp_path / "s", sets=["quick"], only=["*-00[12]"])

    @work.fresh
    def both():
        assert not work.room(10**9)
        work.take(6 * 10**7)
        return ird.run_suite(tmp_path / "s", "irdeconv")

    with ird.Limits(work=6 * 10**7).applied():
        assert len(both()) == 2


def test_constants_are_folded_without_compiled_kernels(monkeypatch):
    seen = []

    def evaluate(self, x):
        seen.append(not is_plain())
        return np.sqrt(x)

    monkeypatch.setattr(Sqrt, "evaluate", evaluate)
    (spec,) = infer_op(Sqrt(), (Spec.of(np.full(2, 4, np.float32)),))
    assert spec.known.tolist() == [2, 2]
    assert seen
    assert not any(seen)


@pytest.mark.parametrize(
    ("limit", "plain", "strict"), [(2**18, "Const", "Const"), (2**14, "Sqrt", None)]
)
def test_for_a_target_no_operation_on_constants_stays_for_want_of_work(limit, plain, strict):
    b, x = Builder.of((1,), np.float32)

    @work.fresh
    def added(style):
        made = GraphBuilder(b.graph, b.graph.node(x.node), style=style)
        value = made.add(Sqrt(), made.const(np.ones(9000, np.float32)))
        return b.graph.node(value.node).type

    with ird.Limits(work=limit).applied():
        assert added(Style()) == plain
        if strict is None:
            with pytest.raises(OpError, match="folding Sqrt of constants exceeds"):
                added(Style(folded=True))
        else:
            assert added(Style(folded=True)) == strict


def test_raising_draws_on_the_account():
    lowered = ird.lower(HEAD)

    @work.fresh
    def raised():
        return ird.raise_(lowered)

    with ird.Limits(work=1000).applied(), pytest.raises(ird.IrdeconvError) as caught:
        raised()
    (found,) = caught.value.diagnostics
    assert (found.code, found.message[:10]) == ("E602", 'to raise "')


def many_layers(folder, number):
    """Write an IR with a chain of deconvolutions; return its path."""
    ports = {"inputs": [ib.port(0), ib.port(1)], "outputs": [ib.port(2, (1, 1, 4, 4))]}
    layers = [ib.parameter(0, "x", (1, 1, 4, 4)), ib.const(1, "w", (1, 1, 3, 3), 0, 36)]
    edges, read = [], (0, 0)
    data = 'strides="1,1" pads_begin="1,1" pads_end="1,1" dilations="1,1"'
    for at in range(2, number + 2):
        layers.append(ib.layer(at, f"d{at}", "ConvolutionBackpropData", data, **ports))
        edges += [(*read, at, 0), (1, 0, at, 1)]
        read = (at, 2)
    layers.append(ib.result(number + 2, "r", (1, 1, 4, 4)))
    path = folder / "many.xml"
    path.write_text(ib.net(layers, *edges, (*read, number + 2, 0)), "utf-8")
    path.with_suffix(".bin").write_bytes(np.ones(9, np.float32).tobytes())
    return path


def test_what_is_written_read_again_and_explained_is_counted(tmp_path, capsys):
    many, out = many_layers(tmp_path, 60), tmp_path / "out.xml"
    lower = ["lower", str(many), "-o", str(out), "--force"]
    words = [*lower, "--certify", str(tmp_path / "c.json")]
    assert [main([*words, "--limit", f"work={n}M"]) for n in (6, 500)] == [1, 0]
    assert "--limit work=N" in "".join(capsys.readouterr())
    assert main([*lower, "--limit", "work=8M"]) == 0
    graph = ird.read(many)
    for limit, missing in ((4, True), (500, False)):
        with ird.Limits(work=limit << 20).applied():
            details = work.fresh(details_of)({"before": graph})
        assert any("--limit work=N" in d.get("explain", "") for d in details.values()) == missing


def test_equal_layers_share_one_table_of_costs(tmp_path, monkeypatch):
    planned = []
    plain = planning._planned_rows
    monkeypatch.setattr(planning, "_planned_rows", lambda *a: planned.append(a) or plain(*a))
    low = ird.lower(ird.read(many_layers(tmp_path, 20)), form="auto")
    assert len(planned) == 1
    assert [r.costs for r in low.report] == [low.report.layers[0].costs] * 20


def test_the_spelling_of_zero_insertion_counts():
    b, x = Builder.of((1, 1, 4, 4), np.float32)
    graph = b.done(b.add(ZeroInsertion((2, 2)), x))
    with ird.Limits(work=6144).applied(), pytest.raises(ird.LimitError) as caught:
        work.fresh(standardize)(graph)
    assert [d.code for d in caught.value.diagnostics] == ["E602"]
    work.fresh(standardize)(graph)


def test_only_diagnostics_that_are_shown_have_suggestions(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(layers, "did_you_mean", lambda *a: asked.append(a))
    text = many_layers(tmp_path, 300).read_text("utf-8")
    for n in range(300):
        text = text.replace("ConvolutionBackpropData", f"Convolutio{n}", 1)
    path = tmp_path / "unknown.xml"
    path.write_text(text, "utf-8")
    found = ird.validate(path)
    assert sum(d.code == "E206" for d in found) == len(asked) + 1 == 101
