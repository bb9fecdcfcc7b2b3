"""Comparison of graphs: verdict, the first differing layer, the derived tolerance."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Const
from irdeconv.ops.elementwise import Exp
from irdeconv.verify.difference import Allowed, difference
from support.layers import Layer, build, numbers, parameter, result

EXACT = Allowed(0.0, "exact")

LAYER = Layer(
    1, (4, 5), 2, 2, 3, (3, 2), (2, 3), (1, 1), (1, 0), (0, 1), (0, 0)
)  # fmt: skip


def deconvolution(seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(LAYER.data_shape).astype(np.float32)
    w = rng.standard_normal(LAYER.filter_shape).astype(np.float32)
    return build(LAYER, x, w)


def test_the_lowered_graph_is_the_same():
    g, feeds = deconvolution()
    report = ird.compare(g, ird.lower(g).graph, feeds)
    assert report.passed
    assert report.first_difference is None
    assert [t.name for t in report.tensors] == ["deconv", "y"]
    assert report.tensors[0].type_b == "GroupConvolution"
    assert 0 < report.tensors[0].tolerance < 1e-4


def test_a_changed_weight_is_found_where_it_is():
    g, feeds = deconvolution()
    other = g.copy()
    w = next(n for n in other.nodes("Const"))
    values = np.array(w.op.data.array())
    values[1, 1, 2, 0, 1] += 0.5
    w.op = Const(element_type=w.op.element_type, shape=w.op.shape, data=ArrayData.of(values))
    report = ird.compare(g, ird.lower(other).graph, feeds)
    assert not report.passed
    first = report.first_difference
    assert (first.name, first.worst[1]) == ("deconv", 5)
    assert "different: first at" in str(report)


def test_a_layer_and_the_output_of_its_name_are_one_line():
    g = Graph()
    y = Value(g.add(ReLU(), [parameter(g, (2,), np.float32, "x")], name="y").id)
    result(g, y, "y")
    other = g.copy()
    other.replace_op(y.node, Exp())
    for model, mark in ((g, "ok  "), (other, "DIFF")):
        report = ird.compare(g, model, [np.ones(2, np.float32)])
        assert [(t.name, t.output) for t in report.tensors] == [("y", False), ("y", True)]
        assert [line[:6] for line in report.lines(everything=True)] == [f"{mark} y"]
        assert str(report).count("own error") == 1


def test_missing_outputs_fail():
    g = Graph()
    x = parameter(g, (2,), np.float32, "x")
    y = Value(g.add(ReLU(), [x], name="r").id)
    result(g, y, "y")
    more = g.copy()
    result(more, x, "extra")
    feeds = [np.ones(2, np.float32)]
    assert not ird.compare(g, more, feeds).passed
    assert not ird.compare(more, g, feeds).passed


@pytest.mark.parametrize(
    ("a", "b", "passed"),
    [([1, np.nan], [1, np.nan], True), ([1, np.nan], [1, 2], False), ([1, 2], [1, np.nan], False),
     ([np.inf, 1], [np.inf, 1], True), ([np.inf, 1], [-np.inf, 1], False), ([0, 0], [0, 0], True)],
)  # fmt: skip
def test_non_finite_values_must_match(a, b, passed):
    out = difference(("t", "A", "B"), np.array(a, np.float32), np.array(b, np.float32), EXACT)
    assert out.passed is passed


@pytest.mark.parametrize(("b", "passed"), [([np.inf, 1], True), ([3e38, 1], False)])
def test_a_limit_without_end_allows_no_infinite_difference(b, passed):
    g = Graph()
    x = parameter(g, (2,), np.float32, "x")
    result(g, Value(g.add(Exp(), [x], name="e").id), "y")
    saved = {"e": np.array(b, np.float32)}  # e**100 is beyond float32, and so is its rounding
    assert ird.compare(g, saved, [np.array([100, 0], np.float32)]).passed is passed


def test_integers_are_compared_exactly():
    a = numbers(np.random.default_rng(0), (3, 4), np.int32)
    b = a.copy()
    assert difference(("t", "A", "B"), a, b, EXACT).passed
    b[2, 1] += 1
    out = difference(("t", "A", "B"), a, b, EXACT)
    assert (out.passed, out.worst, out.max_abs) == (False, (2, 1), 1.0)


def test_shapes_that_differ():
    out = difference(("t", "A", "B"), np.zeros((2, 3)), np.zeros((3, 2)), EXACT)
    assert not out.passed
    assert "[2, 3] and [3, 2]" in str(out)


@pytest.mark.parametrize(
    ("a", "b", "passed"),
    [(2, 2, True), (2, 2.5, False), (2, np.nan, False), (np.inf, 2, False),
     (np.nan, np.nan, True), (np.inf, np.inf, True)],
)  # fmt: skip
def test_scalars_are_compared(a, b, passed):
    """Of arrays without axes NumPy makes numbers, which are no arrays any more."""
    g = Graph()
    x = parameter(g, (), np.float32, "x")
    result(g, Value(g.add(ReLU(), [x], name="r").id), "y")
    report = ird.compare(g, {"r": np.array(b, np.float32)}, [np.array(a, np.float32)])
    assert report.passed is passed
    out = difference(("t", "A", "B"), np.array(a, np.float32), np.array(b, np.float32), EXACT)
    assert out.passed is passed


def test_nothing_is_compared_without_elements():
    g = Graph()
    x = parameter(g, (0, 2, 3, 3), np.float32, "x")
    result(g, Value(g.add(ReLU(), [x], name="r").id), "y")
    report = ird.compare(g, g.copy(), [np.zeros((0, 2, 3, 3), np.float32)])
    assert report.passed
    longer = {"r": np.zeros((0, 2, 4, 3), np.float32)}
    assert not ird.compare(g, longer, [np.zeros((0, 2, 3, 3), np.float32)]).passed


def test_the_model_that_takes_other_inputs_is_named():
    def relu(size: int) -> Graph:
        g = Graph()
        result(g, Value(g.add(ReLU(), [parameter(g, (size,), np.float32, "x")], name="y").id), "y")
        return g

    with pytest.raises(ird.UsageError, match=r"the other model: input \"x\" f32\[3\]: an array"):
        ird.compare(relu(2), relu(3), [np.ones(2)])
    with pytest.raises(ird.UsageError, match=r"error\[E501\]: input \"x\" f32\[2\]: an array"):
        ird.compare(relu(2), relu(3), [np.ones(3)])


SPOILT = {0: np.nan, 3: np.inf, 11: -np.inf, 17: 1e30}


@pytest.mark.parametrize("piece", [1, 4, 7])
@pytest.mark.parametrize("limit", [0.0, 0.5, "each", "of a row"])
@pytest.mark.parametrize("spoilt", [False, True])
def test_pieces_come_to_what_the_whole_comes_to(
    piece: int, limit: float | str, spoilt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    a, b, want = (rng.integers(-4, 5, (2, 3, 4)).astype(np.float32) for _ in range(3))
    for at, value in SPOILT.items() if spoilt else ():
        a.flat[at], b.flat[at + 1] = value, value
    limits = {"each": rng.random((2, 3, 4)) * 4, "of a row": rng.random(4) * 4}
    allowed = Allowed(limits.get(str(limit), limit), "made up")
    whole = difference(("x", "A", "B"), a, b, allowed, want)
    monkeypatch.setattr("irdeconv.verify.difference.COMPARED_AT_ONCE", piece)
    found = difference(("x", "A", "B"), a, b, allowed, want)
    assert found.cosine == pytest.approx(whole.cosine)
    assert replace(found, cosine=whole.cosine) == whole


def test_a_comparison_takes_little_memory_beside_its_tensors() -> None:
    a = np.arange(1 << 20, dtype=np.float32)
    b = a + 1
    tracemalloc.start()
    found = difference(("x", "A", "B"), a, b, Allowed(2.0, "made up"), a * 1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.passed
    assert most < 3 * a.nbytes
