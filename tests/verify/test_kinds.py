"""Known mistakes are named; what no mistake explains is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.channels import ShuffleChannels
from irdeconv.ops.elementwise import Add
from irdeconv.ops.padding import Pad1
from irdeconv.verify.difference import kind_of
from irdeconv.verify.mistakes import filter_mistake
from support.commands import answer
from support.layers import Layer, build, constant, expected, numbers, parameter, result, sequential

A = np.random.default_rng(0).standard_normal((2, 6, 7, 8)).astype(np.float32)


def moved(dy: int, dx: int) -> np.ndarray:
    out = np.zeros_like(A)
    out[:, :, max(dy, 0) : 7 + min(dy, 0), max(dx, 0) : 8 + min(dx, 0)] = A[
        :, :, max(-dy, 0) : 7 - max(dy, 0), max(-dx, 0) : 8 - max(dx, 0)
    ]
    return out


def without_last(rows: int) -> np.ndarray:
    out = A.copy()
    out[..., 8 - rows :] = 0
    return out


@pytest.mark.parametrize(
    ("b", "kind"),
    [
        (moved(1, 0), "shifted by (1, 0)"),
        (moved(0, -1), "shifted by (0, -1)"),
        (moved(-2, 1), "shifted by (-2, 1)"),
        (A[:, :, ::-1], "mirrored along spatial axes (0)"),
        (A[:, :, ::-1, ::-1], "mirrored along spatial axes (0, 1)"),
        (A[:, [0, 3, 1, 4, 2, 5]], "channels of 2 groups interleaved"),
        (A[:, [0, 2, 4, 1, 3, 5]], "channels of 3 groups interleaved"),
        (A[:, [5, 0, 1, 2, 3, 4]], "channels permuted: (5, 0, 1, 2, 3, 4)"),
        (A - np.arange(6).reshape(1, 6, 1, 1), "a bias is missing: (0.0, 1.0, 2.0, 3.0)"),
        (without_last(2), "the last 2 rows of spatial axis 1 are zero"),
        (A * 3, "scaled by 3"),
        (A[:, :, :-1], "(-1, 0) rows more at the end"),
        (A[:, :, :, 1:], "(0, -1) rows more at the begin"),
    ],
)
def test_kinds(b: np.ndarray, kind: str) -> None:
    assert (kind_of(A, b.astype(np.float32), 1e-5) or "").startswith(kind)


@pytest.mark.parametrize(
    "b",
    [
        A[::-1],
        np.random.default_rng(1).standard_normal(A.shape),
        A[:, :5],
        A + A**2,
        A + np.copysign(1.5e-5, A),  # hardly more than allowed: no bias of 0 per channel
    ],
)
def test_what_no_mistake_explains(b: np.ndarray) -> None:
    assert kind_of(A, b.astype(np.float32), 1e-5) is None


LAYER = Layer(1, (4, 5), None, 3, 3, (3, 3), (2, 1), (1, 1), (1, 0), (0, 1), (0, 0))


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda w: np.flip(w, (2, 3)), "the kernel is flipped"),
        (lambda w: w.swapaxes(0, 1), "input and output channels are swapped"),
        (lambda w: w.swapaxes(2, 3), "kernel rows and columns are swapped"),
        (lambda w: w * 2, None),
    ],
)
def test_mistakes_of_the_filter(mistake, text) -> None:
    rng = np.random.default_rng(3)
    x, w = (numbers(rng, s, np.float32) for s in (LAYER.data_shape, LAYER.filter_shape))
    wrong = expected(LAYER, x, np.ascontiguousarray(mistake(w)))
    assert filter_mistake(lambda v: expected(LAYER, x, v[0]), w[None], wrong, 1e-5) == text


def test_compare_names_the_kind_and_the_first_layer() -> None:
    rng = np.random.default_rng(3)
    x, w = (numbers(rng, s, np.float32) for s in (LAYER.data_shape, LAYER.filter_shape))
    g, feeds = build(LAYER, x, w)
    moved_pads = Layer(**{**LAYER.__dict__, "pads_begin": (0, 0), "pads_end": (1, 1)})
    other, _ = build(moved_pads, x, w)
    report = ird.compare(g, ird.lower(other).graph, feeds)
    assert report.first_difference.name == "deconv"
    assert report.first_difference.kind == "shifted by (1, 0)"
    assert "shifted by (1, 0)" in str(report)
    assert report.to_dict()["tensors"][0]["kind"] == "shifted by (1, 0)"


def biased(values: np.ndarray) -> Graph:
    return sequential(A.shape, ("add", Add(), {"bias": values.reshape(1, 6, 1, 1)}))


def test_a_missing_bias_in_a_graph() -> None:
    a, b = biased(np.arange(6, dtype=np.float32)), biased(np.zeros(6, np.float32))
    report = ird.compare(a, b, [A])
    assert (report.tensors[0].kind or "").startswith("a bias is missing")


def test_the_tensors_of_large_graphs_are_handed_over_one_by_one() -> None:
    """Memory follows the largest layer, not their sum; layers in another order are found."""
    steps = [(f"a{k}", Add(), {"one": np.float32(1)}) for k in range(40)]
    g = sequential((1, 8, 64, 64), *steps)
    data = np.zeros((1, 8, 64, 64), np.float32)
    report = ird.compare(g, g.copy(), [data])
    assert report.passed
    assert [t.name for t in report.tensors[:-1]] == [f"a{k}" for k in range(40)]


def test_an_error_in_one_run_ends_the_comparison() -> None:
    g, h = (sequential((None,), ("add", Add(), {"c": np.zeros(n, np.float32)})) for n in (2, 3))
    with pytest.raises(ird.ExecutionError):
        ird.compare(g, h, [np.zeros(2, np.float32)])
    with pytest.raises(ird.ExecutionError):
        ird.compare(h, g, [np.zeros(2, np.float32)])


# From the command line, with IRs that are wrong in one way each ---------------------------------

GROUPED = Layer(1, (4, 5), 2, 2, 2, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1))


def model(layer: Layer, w: np.ndarray, *, bias: float = 1.0, wrong: str = "") -> Graph:
    """A deconvolution `deconv` and a bias `add`; `wrong` puts something around or instead of it."""
    g = Graph()
    x = parameter(g, layer.data_shape, np.float32, "x")
    groups = layer.groups or 1
    if wrong == "input interleaved":
        x = Value(g.add(ShuffleChannels(axis=1, group=groups), [x], name="shuffle").id)
    inner = "deconv" if wrong in ("", "input interleaved") else "inner"
    y = Value(g.add(layer.op, [x, constant(g, w, "w")], name=inner).id)
    if wrong == "output interleaved":
        y = Value(g.add(ShuffleChannels(axis=1, group=groups), [y], name="deconv").id)
    if wrong == "padded":
        pads = [constant(g, np.array(p), f"p{p}") for p in ([0, 0, 0, 0], [0, 0, 1, 1])]
        y = Value(g.add(Pad1(pad_mode="constant"), [y, *pads], name="deconv").id)
    channels = groups * layer.m
    b = constant(g, bias * np.arange(1, channels + 1, dtype=np.float32)[:, None, None], "b")
    result(g, Value(g.add(Add(), [y, b], name="add").id))
    return g


def changed(**values: object) -> Layer:
    return Layer(**{**GROUPED.__dict__, **values})  # type: ignore[arg-type]


W = np.random.default_rng(5).standard_normal(GROUPED.filter_shape).astype(np.float32)


@pytest.mark.parametrize(
    ("layer", "w", "more", "kind"),
    [
        (changed(pads_begin=(0, 1), pads_end=(2, 1)), W, {}, "shifted by (1, 0)"),
        (GROUPED, W[..., ::-1, ::-1], {}, "the kernel is flipped"),
        (GROUPED, W[..., ::-1], {}, "flipped along spatial axes (1)"),
        (GROUPED, W.swapaxes(3, 4), {}, "rows and columns are swapped"),
        (GROUPED, W.swapaxes(1, 2), {}, "input and output channels are swapped"),
        (GROUPED, W[::-1], {}, "in reverse order"),
        (GROUPED, W, {"wrong": "input interleaved"}, "; input channels of 2 groups interleaved"),
        (GROUPED, W, {"wrong": "output interleaved"}, "; channels of 2 groups interleaved"),
        (GROUPED, W, {"bias": 0.0}, "a bias is missing"),
        (changed(output_padding=(0, 0)), W, {"wrong": "padded"}, "are zero (output_padding?)"),
    ],
)
def test_broken_models_are_named(
    layer: Layer, w: np.ndarray, more: dict, kind: str, tmp_path: Path
) -> None:
    a, b = tmp_path / "a.xml", tmp_path / "b.xml"
    ird.write(ird.infer(model(GROUPED, W)), a)
    ird.write(ird.infer(model(layer, np.ascontiguousarray(w), **more)), b)
    out = answer("compare", a, b, "-i", "x=randn", code=1).out
    first = next(line for line in out.splitlines() if line.startswith("DIFF"))
    name = "add" if "bias" in more else "deconv"
    assert first.startswith(f"DIFF {name} ")
    assert kind in first
    assert f"'{name}'" in out.splitlines()[-1]
    assert main(["compare", str(a), str(a), "-i", "x=randn"]) == 0


def test_channels_of_unlike_number_read_in_the_wrong_order() -> None:
    layer = Layer(1, (4, 5), None, 2, 3, (3, 3), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0))
    w = np.random.default_rng(6).standard_normal(layer.filter_shape).astype(np.float32)
    x = np.random.default_rng(7).standard_normal(layer.data_shape).astype(np.float32)
    g, feeds = build(layer, x, w)
    misread, _ = build(layer, x, np.ascontiguousarray(w.reshape(3, 2, 3, 3).swapaxes(0, 1)))
    first = ird.compare(g, misread, feeds).first_difference
    assert first.kind == "input and output channels are swapped"
