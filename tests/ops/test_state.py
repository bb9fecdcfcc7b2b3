"""Variables: what a plan keeps from run to run, and what it begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.proof import reader
from irdeconv.proof.pairing import check as core_check
from support import body_models as bm

F32 = np.float32
ONE = np.array([[1, 2]], F32)


def growing(shape: str = "?, 2") -> str:
    """Return: the rows of all inputs so far."""
    text = bm.state(shape=shape, x="?, 2")
    return text.replace("opset1.Add(%3, %0)", "opset1.Concat(%3, %0) {axis = 0}")


TEN = bm.const(1, [[10.0, 20.0]])
FROM_X = bm.const(1, [[10.0, 10.0]]) + bm.node(2, "opset1.Add", 0, 1)
MODELS: dict[str, tuple[str, list[Any]]] = {
    "zeros": (bm.state(), [ONE, 2 * ONE, 3 * ONE]),
    "constant": (bm.state(TEN, "(%1)"), [11 * ONE, 12 * ONE, 13 * ONE]),
    "computed": (bm.state(FROM_X, "(%2)"), [n * ONE + 10 for n in (2, 3, 4)]),
    "of opset3": (bm.state(TEN, "(%1)", old=True), [11 * ONE, 12 * ONE, 13 * ONE]),
    "growing": (growing(), [np.repeat(ONE, n, 0) for n in (1, 2, 3)]),
    "bounded": (growing("..4, 2"), [np.repeat(ONE, n, 0) for n in (1, 2, 3)]),
}
each = pytest.mark.parametrize(("text", "wanted"), MODELS.values(), ids=list(MODELS))


def given(plan: ird.Plan, **how: Any) -> Any:
    (out,) = plan.run({"x": ONE}, **how).values()
    return out


@each
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


@each
def test_text_form_file_and_inference(text: str, wanted: list[Any]) -> None:
    graph = ird.infer(ird.parse(text))
    whole = ird.dump(graph, elide=None)
    assert ird.dump(ird.parse(whole), elide=None) == whole
    xml, weights = ir_bytes(graph)
    assert [d for d in ird.validate(xml, weights=weights) if d.severity == "error"] == []
    assert ir_bytes(ird.infer(ird.read(xml, weights=weights))) == (xml, weights)


@pytest.mark.oracles
@each
def test_openvino_agrees(text: str, wanted: list[Any]) -> None:
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
    """The loop's body adds its row to a variable; its value after each iteration."""
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
