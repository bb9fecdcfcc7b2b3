"""Deconvolutions inside loops and branches: lowered in every form, proved, written, executed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph
from irdeconv.ops.basic import Const
from irdeconv.ops.bodies import change_bodies, every_node
from irdeconv.proof import reader
from irdeconv.proof.pairing import check as core_check
from support import body_models as bm

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
each = pytest.mark.parametrize(("text", "shape"), MODELS.values(), ids=list(MODELS))
forms = pytest.mark.parametrize(
    "form",
    ["phases", *(pytest.param(f, marks=pytest.mark.thorough) for f in ("stacked", "auto"))],
)


def deconvolutions(graph: Graph) -> list[str]:
    return [n.name for n in every_node(graph) if n.op.deconvolution]


@each
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


@each
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


@each
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


@each
@forms
def test_another_filter_in_a_body_is_refused(text: str, shape: tuple[int, ...], form: str) -> None:
    graph = ird.parse(text)
    verdict = ird.check_certificate(graph, changed(ird.lower(graph, form).graph))
    assert not verdict.passed
    assert not verdict.equal
    assert ird.check_certificate(graph, changed(graph)).equal is False


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("iterator", "[[0, 0, [0]]]", "[[0, 0, [0, -1, 0, -1]]]"),
        ("iterator", "[[5, 0, [0]]]", "[[5, 0, [1]]]"),
        ("iterator", "[[5, 0, [0]]]", "[[5, 0]]"),
        ("open loop", "edges = [[5, 0]]", "edges = []"),
        ("open loop", "data = [2]}", "data = [3]}"),
        ("open loop", "outputs = [[6, none, none, true], [5, 0]]", "outputs = [[5, 0]]"),
    ],
)
def test_other_maps_are_refused(name: str, old: str, new: str) -> None:
    graph = ird.parse(MODELS[name][0])
    low = ird.dump(ird.lower(graph).graph, elide=None)
    assert low.count(old) == 1
    assert not ird.check_certificate(graph, ird.infer(ird.parse(low.replace(old, new)))).equal


@pytest.mark.oracles
@each
def test_openvino_agrees(text: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    graph = ird.parse(text)
    x = RAND.integers(-9, 10, shape).astype(np.float32)
    (want,) = ird.run(graph, x).values()
    for form in ("zero-insertion", "phases"):
        ird.write(ird.lower(graph, form).graph, tmp_path / "m.xml")
        hint = {"INFERENCE_PRECISION_HINT": "f32"}
        (got,) = ov.Core().compile_model(tmp_path / "m.xml", "CPU", hint)([x]).values()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)


def test_inspection_counts_deconvolutions_in_bodies() -> None:
    text = str(ird.inspect(ird.parse(MODELS["nested"][0])))
    assert "body of 7 layers, 2 deconvolutions" in " ".join(text.split())
