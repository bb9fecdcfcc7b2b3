"""Bodies of loops and branches, run and lowered."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph
from irdeconv.ops.basic import Const
from irdeconv.ops.bodies import change_bodies, every_node
from irdeconv.proof import reader
from irdeconv.proof.pairing import check as core_check
from support import body_models as bm
from support.memory import peak_of
from support.rows import each_row, tables
from support.runtime_truth import outputs

TABLES = tables(__file__)

# Loops and branches: inference, running, text form, limits, and what is refused.

each = each_row("given", bm.MODELS)


def check(given: bm.BodyModel, made: dict[str, np.ndarray]) -> None:
    for got, want in zip(made.values(), given.outputs, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


@each
def test_running(given: bm.BodyModel) -> None:
    graph = ird.parse(given.text)
    plan = ird.compile(graph)
    check(given, plan.run(given.feeds))
    check(given, plan.run(given.feeds))
    check(given, ird.run(graph, given.feeds, fuse=False))


@each
def test_inference(given: bm.BodyModel) -> None:
    graph = ird.infer(ird.parse(given.text))
    specs = [graph.input_specs(n.id)[0] for n in graph.results]
    assert tuple(map(str, specs)) == given.shapes


@each
def test_text_form_and_file_give_it_back(given: bm.BodyModel) -> None:
    check(given, ird.run(read_back(given.text), given.feeds))


def read_back(text: str) -> Graph:
    """Return a model as it is read from its file; the text form gives it back, too."""
    graph = ird.infer(ird.parse(text))
    whole = ird.dump(graph, elide=None)
    assert ird.dump(ird.parse(whole), elide=None) == whole
    xml, weights = ir_bytes(graph)
    assert [d for d in ird.validate(xml, weights=weights) if d.severity == "error"] == []
    back = ird.read(xml, weights=weights)
    assert ir_bytes(ird.infer(back)) == (xml, weights)
    return back


def attempt(text: str, feeds: dict[str, object] | None) -> None:
    """Infer a model, or run it where feeds are given."""
    graph = ird.infer(ird.parse(text))
    if feeds is not None:
        ird.run(graph, feeds)


def problem(text: str, feeds: dict[str, object] | None = None) -> ird.Diagnostic:
    """Return the one error of a model that is inferred, or run where feeds are given."""
    with pytest.raises(ird.IrdeconvError) as e:
        attempt(text, feeds)
    (found,) = e.value.diagnostics
    return found


def test_a_mistake_inside_a_body_is_reported_with_its_place() -> None:
    text = bm.MODELS["nested"].text.replace("opset1.Add(%0, %0)", "opset1.MatMul(%0, %0)")
    found = problem(text)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "MatMul" in row)
    assert (found.code, found.layer) == ("E302", "n1")
    assert found.location is not None
    assert found.location.position == (line, 1)


@each_row(
    ("text", "code", "message"),
    [
        (bm.iterator("[2]", "[0]")[0], "E305", "axis 2 is outside"),
        (bm.iterator("[0, 0, -1, 3, 3]", "[0]", "3,2")[0], "E302", "no whole parts of 3"),
        (bm.loop(kind="i16"), "E303", "not i32 or i64"),
        (bm.loop(condition=[[True]]), "E301", "condition has rank 2; it must be 0 or 1"),
        (bm.loop(goes_on=bm.const(9, [[True]], "boolean")), "E301", "the body's condition"),
        (bm.branch(bm.const(0, [[True]], "boolean")), "E301", "condition has rank 2"),
        (bm.loop(trip=[1, 2]), "E302", "trip_count has 2 values"),
        (bm.loop(condition=1).replace("boolean, data = [1]", "u8, data = [1]"), "E303", "boolean"),
        (
            bm.iterator("[0]", "[0]")[0].replace(
                "[1,2], element_type = f32", "[1,2], element_type = f16"
            ),
            "E303",
            'the input "b" of its body is f16, and what it gets is f32',
        ),
    ],
)
def test_what_does_not_fit(text: str, code: str, message: str) -> None:
    found = problem(text)
    assert (found.code, message in found.message) == (code, True), found


@pytest.mark.parametrize(("kind", "shape"), [("f16", "1,2"), ("f32", "1,3"), ("f32", "?,2")])
def test_a_body_fits_as_it_is_declared(kind: str, shape: str) -> None:
    """Else OpenVINO refuses a file; what is written is declared as it is inferred."""
    added = bm.node(3, "opset1.Add", 1, 2)
    fixed = bm.const(8, [[0.0, 0.0]]) + bm.node(7, "opset1.Add", 1, 8) + added.replace("%1", "%7")
    right = bm.loop().replace(added, fixed)
    end = "element_type = f32}\n%2"
    other = right.replace(f"[1,2], {end}", f"[{shape}], {end.replace('f32', kind)}")
    wrong = [d for d in ird.validate(ird.parse(other)) if d.severity == "error"]
    assert len(wrong) == (shape != "?,2")
    xml, blob = ir_bytes(ird.infer(ird.parse(other)))
    assert [d for d in ird.validate(xml, blob) if d.severity == "error"] == []
    (parameter,) = (n for n in every_node(ird.read(xml, blob)) if n.name == "a")
    assert str(parameter.op.infer()) == ("f32[1,2]" if wrong else "f32[?,2]")


def test_carried_values_keep_their_type() -> None:
    text = bm.growing(3).replace("opset1.Concat(%0, %0) {axis = 0}",
                                 "opset1.Convert(%0) {destination_type = f16}")  # fmt: skip
    assert "both must have one type" in problem(text).message


def test_parts_that_do_not_suffice() -> None:
    inner = bm.parameter(0, "row", "1,2") + bm.const(1, True, "boolean") + bm.results(1, 0, first=5)
    text = bm.parameter(0, "x", "4,2") + bm.const(1, 6, "i32") + bm.const(2, True, "boolean")
    text += bm.node(3, "opset5.Loop", 1, 2, 0)
    text += bm.body(inner, "[[0, 2, [0]]]", "[[5, none, none, true], [6, 0, [0]]]")
    found = problem(bm.model(text + bm.results(3)), {"x": bm.X})
    assert (found.code, "iteration 4 needs elements 4 to 4" in found.message) == ("E500", True)


def test_too_many_iterations() -> None:
    endless = bm.loop(trip=-1, joined=False)
    with ird.Limits(iterations=50).applied():
        for text in (endless, bm.loop(trip=51, joined=False)):
            found = problem(text, {"x": bm.ONE})
            assert (found.code, "the limit is 50" in found.message) == ("E602", True)
        fifty = ird.parse(bm.loop(trip=50, joined=False))
        (made,) = ird.run(fifty, {"x": bm.ONE}).values()
        np.testing.assert_array_equal(made, bm.runs(50, bm.ONE)[0])
        with pytest.raises(ird.LimitError):
            ird.run(ird.parse(endless), {"x": bm.ONE})


def test_joined_outputs_are_limited_before_they_are_made() -> None:
    plan = ird.compile(ird.parse(bm.loop(trip=None)), max_memory=100_000)
    with pytest.raises(ird.LimitError, match="takes 3,199,992 bytes beside 459 in use"):
        plan.run({"x": bm.ONE, "trip": np.array(200_000, np.int32)})


def heavy_branch(fed: bool) -> str:
    """Return an If whose then_body needs 8 MB for a sum; a constant one unless the input is fed."""
    inner = bm.parameter(0, "p", "1") + bm.const(1, [1_000_000], "i64") + bm.const(5, [0], "i64")
    inner += bm.node(2, "opset3.Broadcast", 0, 1, more='{mode = "numpy"}')
    inner += bm.node(3, "opset1.Sqrt", 2)
    inner += bm.node(4, "opset1.ReduceSum", 3, 5, more="{keep_dims = true}")
    then = bm.body(inner + bm.results(4, first=9), "[[0, 1]]", "[[9, 0]]", tag="then_body")
    other = bm.body(bm.parameter(0, "q", "1") + bm.results(0, first=9), "[[0, 1]]", "[[9, 0]]",
                    tag="else_body")  # fmt: skip
    text = bm.parameter(0, "go", "", "boolean") if fed else bm.const(0, True, "boolean")
    text += bm.const(1, [4.0]) + bm.node(2, "opset8.If", 0, 1) + then + other
    return bm.model(text + bm.results(2))


@pytest.mark.parametrize("fuse", [True, False])
@each_row(
    ("text", "feeds", "limit"),
    [
        (heavy_branch(False), {}, 2_000_000),
        (heavy_branch(True), {"go": np.array(True)}, 2_000_000),
        (bm.growing(None), {"x": bm.ONE, "trip": np.array(17, np.int32)}, 1_000_000),
        (bm.loop(trip=None), {"x": bm.ONE, "trip": np.array(10_000, np.int32)}, 100_000),
    ],
)
def test_what_bodies_allocate_is_counted_first(
    text: str, feeds: dict[str, Any], limit: int, fuse: bool
) -> None:
    def fail() -> None:
        with pytest.raises(ird.LimitError, match=f"the limit is {limit:,}"):
            ird.run(graph, feeds, fuse=fuse, max_memory=limit)

    graph = ird.infer(ird.parse(text))
    assert ird.run(graph, feeds, fuse=fuse, max_memory=20_000_000)
    assert peak_of(fail)[1] < limit


def test_outputs_that_the_caller_keeps_are_not_counted() -> None:
    plan = ird.compile(ird.parse(bm.growing(None)), max_memory=30_000)
    feed = {"x": bm.ONE, "trip": np.array(10, np.int32)}  # 8 KiB made of 4 KiB, and a copy
    kept = [plan.run(feed) for _ in range(9)]
    assert sum(array.nbytes for out in kept for array in out.values()) > 70_000


def test_a_layer_that_fails_inside_a_body_is_named() -> None:
    """Before running where shapes tell; where it is found on the way, the innermost layer."""
    text = bm.growing(3).replace("opset1.Concat(%0, %0) {axis = 0}", "opset1.Add(%0, %7)")
    text = text.replace("%5 ", bm.const(7, [[1.0, 1], [1, 1]]) + "%5 ")
    graph = ird.parse(text.replace('%0 "x" = opset1.Parameter() {shape = [1,2]',
                                   '%0 "x" = opset1.Parameter() {shape = [?,2]'))  # fmt: skip
    for fuse, code in ((True, "E302"), (False, "E500")):
        with pytest.raises(ird.ExecutionError) as e:
            ird.run(graph, {"x": np.ones((3, 2), np.float32)}, fuse=fuse)
        assert [(d.code, d.layer) for d in e.value.diagnostics] == [(code, "n1")]


def test_unknown_operations_inside_a_body_are_named() -> None:
    text = bm.growing(3).replace("opset1.Concat(%0, %0) {axis = 0}",
                                 "opaque opset9.Mystery(%0) {declared = [f32[1,2]]}")  # fmt: skip
    found = problem(text, {"x": bm.ONE})
    assert (found.code, found.layer) == ("E502", "n1")


@each_row(("old", "new", "message"), TABLES["malformed_bodies_of_the_text_form"])
def test_malformed_bodies_of_the_text_form(old: str, new: str, message: str) -> None:
    text = bm.MODELS["parts"].text
    with pytest.raises(ird.InputError) as e:
        ird.parse(text.replace(old, new))
    assert message in str(e.value)


def test_bodies_are_copied_with_what_changes(tmp_path: Path) -> None:
    """Inference with other shapes leaves the specs of the first graph as they are."""
    graph = ird.infer(ird.parse(bm.MODELS["open"].text))
    (loop,) = graph.nodes("TensorIterator")
    other = ird.infer(graph, {"x": [6, 2]})
    assert str(loop.spec()) == "f32[?,2]"
    assert str(next(other.nodes("TensorIterator")).spec()) == "f32[6,2]"


@each_row("fuse", [True, False])
def test_no_iteration_gives_rows_as_wide_as_the_first_would_be(fuse: bool) -> None:
    text = bm.MODELS["no part"].text.replace("shape = [?,2]", "shape = [?,?]")
    (made,) = ird.run(ird.parse(text), {"x": np.zeros((0, 5), np.float32)}, fuse=fuse).values()
    assert made.shape == (0, 5)
    open_row = bm.loop(trip=0, shape="?,?")
    outs = list(
        ird.run(ird.parse(open_row), {"x": np.zeros((2, 3), np.float32)}, fuse=fuse).values()
    )
    assert [o.shape for o in outs] == [(2, 3), (0, 3)]


# Deconvolutions inside loops and branches: lowered in every form, proved, written, executed.

RAND = np.random.default_rng(0)
W = RAND.integers(-3, 4, (2, 2, 3, 3)).astype(np.float32)
DOUBLES = (
    "opset1.ConvolutionBackpropData(%0, %1) {strides = [2, 2], pads_begin = [1, 1], "
    "pads_end = [1, 1], dilations = [1, 1], output_padding = [1, 1]}"
)


def up(shape: str, result: int = 5) -> str:
    """Return nodes that double the sizes of %0 into %2."""
    return (
        bm.parameter(0, "b", shape)
        + bm.const(1, W)
        + f'%2 "up" = {DOUBLES}\n'
        + bm.results(2, first=result)
    )


def iterator(shape: str, part: str) -> str:
    text = bm.parameter(0, "x", shape) + bm.node(1, "opset1.TensorIterator", 0)
    return bm.model(text + bm.body(up(part), "[[0, 0, [0]]]", "[[5, 0, [0]]]") + bm.results(1))


def loop(shape: str) -> str:
    inner = up(shape) + bm.const(3, True, "boolean") + bm.results(3, first=6)
    text = bm.parameter(0, "x", shape) + bm.const(1, 2, "i32") + bm.const(2, True, "boolean")
    text += bm.node(3, "opset5.Loop", 1, 2, 0)
    text += bm.body(inner, "[[0, 2]]", "[[6, none, none, true], [5, 0]]", "[[5, 0]]")
    return bm.model(text + bm.results(3))


def branch(nested: bool = False) -> str:
    """An If on the sum of x; nested: inside a TensorIterator, with rows of x."""
    then = bm.body(up("1,2,3,4"), "[[0, 1]]", "[[5, 0]]", tag="then_body")
    other = up("1,2,3,4").replace("1.0, ", "2.0, ", 1)
    other = bm.body(other, "[[0, 1]]", "[[5, 0]]", tag="else_body")
    inner = bm.parameter(0, "row", "1,2,3,4") + bm.const(1, [0, 1, 2, 3], "i64") + bm.const(2, 0.0)
    inner += bm.node(3, "opset1.ReduceSum", 0, 1) + bm.node(4, "opset1.Greater", 3, 2)
    inner += bm.node(5, "opset8.If", 4, 0) + then + other + bm.results(5, first=8)
    if not nested:
        return bm.model(inner)
    text = bm.parameter(0, "x", "2,2,3,4") + bm.node(1, "opset1.TensorIterator", 0)
    return bm.model(text + bm.body(inner, "[[0, 0, [0]]]", "[[8, 0, [0]]]") + bm.results(1))


MODELS = {
    "iterator": (iterator("2,2,3,4", "1,2,3,4"), (2, 2, 3, 4)),
    "open iterator": (iterator("?,2,?,?", "1,2,?,?"), (2, 2, 3, 4)),
    "loop": (loop("1,2,3,4"), (1, 2, 3, 4)),
    "open loop": (loop("?,2,?,?"), (1, 2, 3, 4)),
    "branch": (branch(), (1, 2, 3, 4)),
    "nested": (branch(nested=True), (2, 2, 3, 4)),
}
each_model = each_row(("text", "shape"), MODELS)
forms = pytest.mark.parametrize(
    "form", ["phases", *(pytest.param(f, marks=pytest.mark.thorough) for f in ("stacked", "auto"))]
)


def deconvolutions(graph: Graph) -> list[str]:
    return [n.name for n in every_node(graph) if n.op.deconvolution]


@each_model
@forms
def test_lowered_proved_and_run(text: str, shape: tuple[int, ...], form: str) -> None:
    graph = ird.parse(text)
    low, report = ird.lower(graph, form)
    count = len(deconvolutions(graph))
    assert (len(report), deconvolutions(low)) == (count, [])
    assert [r.reason for r in report if r.form is None] == []
    verdict = ird.check_certificate(graph, low)
    assert verdict.passed, str(verdict)
    assert len(verdict.layers) == count
    x = RAND.integers(-9, 10, shape).astype(np.float32)
    for sign in (x, -x):
        want = ird.run(graph, sign, form=None)
        for got in (ird.run(graph, sign, form), ird.run(low, sign, form=None, fuse=False)):
            for a, b in zip(want.values(), got.values(), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-3)


@each_model
def test_files_are_proved_by_the_core(text: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    graph = ird.parse(text)
    ird.write(graph, tmp_path / "a.xml")
    ird.write(ird.lower(graph).graph, tmp_path / "b.xml")
    verdict = ird.check_certificate(tmp_path / "a.xml", tmp_path / "b.xml")
    assert verdict.passed, str(verdict)
    proofs = ird.certify(tmp_path / "a.xml", tmp_path / "b.xml")
    assert ird.check_certificate(tmp_path / "a.xml", tmp_path / "b.xml", proofs)
    # The core alone does not infer what flows into a body.
    alone = core_check(*(reader.read(tmp_path / f"{n}.xml") for n in "ab"))
    assert (alone.passed, alone.exit_code) == (True, 3)
    assert any("Parameter" in text for text in alone.taken)


@each_model
def test_written_zero_insertions_are_read_back(
    text: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    low = ird.lower(ird.parse(text), "zero-insertion").graph
    ird.write(low, tmp_path / "m.xml")
    back = ird.infer(tmp_path / "m.xml")
    kinds = [Counter(n.type for n in every_node(g) if n.type != "Const") for g in (low, back)]
    assert kinds[0] == kinds[1]
    assert kinds[0]["ZeroInsertion"] == len(deconvolutions(ird.parse(text)))


def changed(graph: Graph) -> Graph:
    """Return a graph with one number of the last filter in its bodies changed."""
    out = graph.copy()

    def edit(body: Graph) -> Graph:
        body = body.copy()
        for node in [n for n in body.nodes("Const") if n.op.data.array().ndim > 3][-1:]:
            values = node.op.data.array().copy()  # type: ignore[attr-defined]
            values.reshape(-1)[0] += 1
            data = ArrayData.of(values, f32)
            body.replace_op(node.id, Const(element_type=f32, shape=values.shape, data=data))
        change_bodies(body, edit)
        return body

    change_bodies(out, edit)
    return out


@pytest.mark.sampled(1)
@each_model
@forms
def test_another_filter_in_a_body_is_refused(text: str, shape: tuple[int, ...], form: str) -> None:
    graph = ird.parse(text)
    verdict = ird.check_certificate(graph, changed(ird.lower(graph, form).graph))
    assert not verdict.passed
    assert not verdict.equal
    assert ird.check_certificate(graph, changed(graph)).equal is False


@each_row(("name", "old", "new"), TABLES["other_maps_are_refused"])
def test_other_maps_are_refused(name: str, old: str, new: str) -> None:
    graph = ird.parse(MODELS[name][0])
    low = ird.dump(ird.lower(graph).graph, elide=None)
    assert low.count(old) == 1
    assert not ird.check_certificate(graph, ird.infer(ird.parse(low.replace(old, new)))).equal


@pytest.mark.oracles
@each_model
def test_openvino_agrees(text: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    graph = ird.parse(text)
    x = RAND.integers(-9, 10, shape).astype(np.float32)
    (want,) = ird.run(graph, x).values()
    for form in ("zero-insertion", "phases"):
        ird.write(ird.lower(graph, form).graph, tmp_path / "m.xml")
        (got,) = outputs(tmp_path / "m.xml", [x])
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)


def test_inspection_counts_deconvolutions_in_bodies() -> None:
    text = str(ird.inspect(ird.parse(MODELS["nested"][0])))
    assert "body of 7 layers, 2 deconvolutions" in " ".join(text.split())


# Variables: what a plan keeps from run to run, and what it begins with.


F32 = np.float32
ONE = np.array([[1, 2]], F32)


def growing(shape: str = "?, 2") -> str:
    """Return: the rows of all inputs so far."""
    text = bm.state(shape=shape, x="?, 2")
    return text.replace("opset1.Add(%3, %0)", "opset1.Concat(%3, %0) {axis = 0}")


TEN = bm.const(1, [[10.0, 20.0]])
FROM_X = bm.const(1, [[10.0, 10.0]]) + bm.node(2, "opset1.Add", 0, 1)
STATES: dict[str, tuple[str, list[Any]]] = {
    "zeros": (bm.state(), [ONE, 2 * ONE, 3 * ONE]),
    "constant": (bm.state(TEN, "(%1)"), [11 * ONE, 12 * ONE, 13 * ONE]),
    "computed": (bm.state(FROM_X, "(%2)"), [n * ONE + 10 for n in (2, 3, 4)]),
    "of opset3": (bm.state(TEN, "(%1)", old=True), [11 * ONE, 12 * ONE, 13 * ONE]),
    "growing": (growing(), [np.repeat(ONE, n, 0) for n in (1, 2, 3)]),
    "bounded": (growing("..4, 2"), [np.repeat(ONE, n, 0) for n in (1, 2, 3)]),
}
each_state = pytest.mark.parametrize(("text", "wanted"), STATES.values(), ids=list(STATES))


def given(plan: ird.Plan, **how: Any) -> Any:
    (out,) = plan.run({"x": ONE}, **how).values()
    return out


@each_state
@pytest.mark.parametrize("fuse", [True, False])
def test_runs_go_on_until_a_reset(text: str, wanted: list[Any], fuse: bool) -> None:
    plan = ird.compile(ird.parse(text), fuse=fuse)
    for _ in range(2):
        assert plan.state == {}
        for number, want in enumerate(wanted):
            out = given(plan, trace=(lambda node, arrays: None) if number == 1 else None)
            np.testing.assert_array_equal(out, want, strict=True)
            np.testing.assert_array_equal(plan.state["v"], want)
            out[...] = -1  # which belongs to the caller
        plan.reset()


@each_state
def test_text_form_file_and_inference(text: str, wanted: list[Any]) -> None:
    read_back(text)


@pytest.mark.oracles
@each_state
def test_openvino_agrees_on_states(text: str, wanted: list[Any]) -> None:
    ov = pytest.importorskip("openvino")
    xml, weights = ir_bytes(ird.infer(ird.parse(text)))
    core = ov.Core()
    model = core.read_model(xml, ov.Tensor(np.frombuffer(weights or b"\0", np.uint8)))
    request = core.compile_model(model, "CPU").create_infer_request()
    for _ in range(2):
        for want in wanted:
            np.testing.assert_array_equal(request.infer([ONE])[0], want, strict=True)
        request.reset_state()


def test_every_plan_has_its_own_values() -> None:
    graph = ird.infer(ird.parse(bm.state()))
    first, second = ird.compile(graph), ird.compile(graph)
    given(first)
    np.testing.assert_array_equal(given(second), ONE)
    np.testing.assert_array_equal(given(first), 2 * ONE)
    for _ in range(2):
        np.testing.assert_array_equal(ird.run(graph, {"x": ONE})["n50"], ONE)


def test_a_run_that_fails_changes_nothing() -> None:
    fails = '%8 "bad" = opset1.Add(%4, %0)\n'
    text = growing().replace("%50 ", fails + '%51 "r" = opset1.Result(%8)\n%50 ')
    plan = ird.compile(ird.parse(text))
    plan.run({"x": ONE})
    with pytest.raises(ird.ExecutionError):
        plan.run({"x": np.repeat(ONE, 3, 0)})
    np.testing.assert_array_equal(plan.state["v"], ONE)


def test_a_value_that_does_not_fit_the_variable() -> None:
    plan = ird.compile(ird.parse(growing("..2, 2")))
    given(plan), given(plan)
    with pytest.raises(ird.ExecutionError, match=r"has shape \[..2,2\], the value \[3,2\]"):
        given(plan)


def test_variables_in_bodies_go_from_iteration_to_iteration() -> None:
    """The loop's body adds its row to a variable; its value after every iteration."""
    inner = bm.parameter(0, "row", "1,2")
    inner += '%1 "read" = opset6.ReadValue() {variable_id = "v", variable_shape = [1, 2], '
    inner += 'variable_type = f32}\n%2 "sum" = opset1.Add(%1, %0)\n'
    inner += '%3 "keep" = opset6.Assign(%2) {variable_id = "v"}\n' + bm.results(2, first=5)
    text = bm.parameter(0, "x", "4,2") + bm.node(1, "opset1.TensorIterator", 0)
    text += bm.body(inner, "[[0, 0, [0]]]", "[[5, 0, [0]]]") + bm.results(1)
    plan = ird.compile(ird.parse(bm.model(text)))
    for run in range(3):
        (out,) = plan.run({"x": bm.X}).values()
        np.testing.assert_array_equal(out, bm.X.cumsum(0) + run * bm.X.sum(0))
    plan.reset()
    (out,) = plan.run({"x": bm.X}).values()
    np.testing.assert_array_equal(out, bm.X.cumsum(0))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (bm.state(bm.const(1, [[1, 2]], "i64"), "(%1)"), "E303"),
        (bm.state(bm.const(1, [1.0, 2.0, 3.0]), "(%1)"), "E302"),
    ],
    ids=range(2),
)
def test_first_values_that_do_not_fit(text: str, code: str) -> None:
    with pytest.raises(ird.InferenceError) as e:
        ird.infer(ird.parse(text))
    assert [d.code for d in e.value.diagnostics] == [code]


def test_a_variable_of_unknown_rank_has_no_zeros() -> None:
    text = bm.state().replace("variable_shape = [1, 2]", "variable_shape = none")
    with pytest.raises(ird.ExecutionError, match="of an unknown rank"):
        ird.run(ird.parse(text), {"x": ONE})


def test_a_certificate_takes_later_operation_sets_for_the_same(tmp_path: Path) -> None:
    """What irdeconv writes has the first set that an operation is in."""
    xml, weights = ir_bytes(ird.infer(ird.parse(bm.state())))
    later = xml.replace(b'"ReadValue" version="opset6"', b'"ReadValue" version="opset9"')
    later = later.replace(b'"Assign" version="opset6"', b'"Assign" version="opset16"')
    older = xml.replace(b'"Assign" version="opset6"', b'"Assign" version="opset5"')
    for name, text in (("a", xml), ("b", later), ("c", older)):
        (tmp_path / f"{name}.xml").write_bytes(text)
        (tmp_path / f"{name}.bin").write_bytes(weights or b"\0")
    sides = [reader.read(tmp_path / f"{name}.xml") for name in "abc"]
    assert core_check(sides[0], sides[1]).passed
    assert not core_check(sides[0], sides[2]).passed


@pytest.mark.parametrize("name", ["loop", "branch", "iterator"])
def test_an_input_of_open_type_gets_that_of_its_data(name: str) -> None:
    xml, blob = ir_bytes(ird.infer(ird.parse(MODELS[name][0])))
    head, tag, body = xml.decode().partition("body>")
    opened = re.sub(r'(type="Parameter"[^/]*element_type=)"f32"', r'\1"dynamic"', body)
    text = f"{head}{tag}{opened}"
    assert opened != body
    codes = {d.code for d in ird.validate(text.encode(), blob)}
    assert codes == ({"E212"} if name == "iterator" else set())  # as in OpenVINO
    if not codes:
        feeds = {"row" if name == "branch" else "x": np.ones(MODELS[name][1], np.float32)}
        results = [ird.run(ird.read(x, blob), feeds) for x in (xml, text.encode())]
        for a, b in zip(*(r.values() for r in results), strict=True):
            assert np.array_equal(a, b)
