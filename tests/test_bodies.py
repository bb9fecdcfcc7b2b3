"""Loops and branches: inference, running, text form, limits, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from support import body_models as bm

each = pytest.mark.parametrize("given", bm.MODELS.values(), ids=list(bm.MODELS))


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
    graph = ird.infer(ird.parse(given.text))
    text = ird.dump(graph, elide=None)
    assert ird.dump(ird.parse(text), elide=None) == text
    xml, weights = ir_bytes(graph)
    back = ird.read(xml, weights=weights)
    assert ir_bytes(ird.infer(back)) == (xml, weights)
    check(given, ird.run(back, given.feeds))
    assert [d for d in ird.validate(xml, weights=weights) if d.severity == "error"] == []


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
    text = bm.MODELS["nested"].text.replace("opset1.Add(%0, %0)", "opset1.Split(%0, %0)")
    text = text.replace("opset1.Split(%0, %0)", "opset1.MatMul(%0, %0)")
    found = problem(text)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "MatMul" in row)
    assert (found.code, found.layer) == ("E302", "n1")
    assert found.location is not None
    assert found.location.position == (line, 1)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (bm.iterator("[2]", "[0]")[0], "E305", "axis 2 is outside"),
        (bm.iterator("[0, 0, -1, 3, 3]", "[0]", "3,2")[0], "E302", "no whole parts of 3"),
        (bm.loop(kind="i16"), "E303", "not i32 or i64"),
        (bm.loop(trip=[1, 2]), "E302", "trip_count has 2 values"),
        (bm.loop(condition=1).replace("boolean, data = [1]", "u8, data = [1]"), "E303", "boolean"),
    ],
    ids=range(5),
)
def test_what_does_not_fit(text: str, code: str, message: str) -> None:
    found = problem(text)
    assert (found.code, message in found.message) == (code, True), found


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
    with ird.Limits(iterations=50).applied():
        _fifty_iterations()


def _fifty_iterations() -> None:
    endless = bm.loop(trip=-1, joined=False)
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
    with pytest.raises(ird.LimitError, match="takes 7,200,000 bytes; the limit is 100,000"):
        plan.run({"x": bm.ONE, "trip": np.array(900_000, np.int32)})


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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("inputs = [[0, 0, [0]]]", "inputs = [[9, 0, [0]]]", "has no Parameter 9"),
        ("inputs = [[0, 0, [0]]]", "inputs = []", "nothing feeds"),
        ("outputs = [[3, 0, [0]]]", "outputs = [[3, 1, [0]]]", "gives the outputs [1]"),
        ("[[0, 0, [0]]]", "[[0, 0, [0, 0, -1, 0]]]", "the stride is 0"),
        ("[[0, 0, [0]]]", "[[0, 0, [0, 0, -1, 1, 2]]]", "do not fit the stride"),
        ("body {", "then_body {", "its bodies are none"),
        ("outputs = [[3", "outputs = [[3, 4, 5, 6, 7", "at most"),
        ("edges = []", "edges = 3", "list of lists"),
        ("edges = []", "back = []", "no field"),
    ],
    ids=range(9),
)
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


@pytest.mark.parametrize("fuse", [True, False])
def test_no_iteration_gives_rows_as_wide_as_the_first_would_be(fuse: bool) -> None:
    text = bm.MODELS["no part"].text.replace("shape = [?,2]", "shape = [?,?]")
    (made,) = ird.run(ird.parse(text), {"x": np.zeros((0, 5), np.float32)}, fuse=fuse).values()
    assert made.shape == (0, 5)
    open_row = bm.loop(trip=0, shape="?,?")
    outs = list(
        ird.run(ird.parse(open_row), {"x": np.zeros((2, 3), np.float32)}, fuse=fuse).values()
    )
    assert [o.shape for o in outs] == [(2, 3), (0, 3)]
