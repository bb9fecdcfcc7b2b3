"""Comparison layer by layer: small mistakes are found where they are, rounding raises no alarm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import f32, i64
from irdeconv.ir.graph import Graph, Value
from irdeconv.verify.difference import _ulps
from support.layers import parameter, result
from support.networks import LAYERS, image, network
from support.raising_graphs import Net

FORMS = ("zero-insertion", "phases", "stacked", "auto")


def bump(values: np.ndarray) -> np.ndarray:
    """Change one tap, the largest, by one per cent."""
    out = values.copy()
    out.ravel()[np.abs(out).argmax()] *= 1.01
    return out


@pytest.mark.parametrize("form", FORMS)
def test_every_form_passes_layer_by_layer(form: str) -> None:
    g = network()
    report = ird.compare(g, ird.lower(g, form).graph, [image()])
    assert report.passed, report
    absorbed = form != "zero-insertion"  # the layer's convolution adds the bias
    layers = [name for name in LAYERS[:7] if name != "up" or not absorbed]
    compared = [t.name for t in report.tensors if not t.output]
    assert compared == [*layers, "split", "split.1", "out"]
    rules = {t.name: t.rule for t in report.tensors}
    assert rules["conv1"] == "gamma_27 |W||x|"
    assert rules["conv2"] == "gamma~_144 |W||x|"
    assert absorbed or rules["up"] == "gamma~_96 |W||x|"
    assert rules["add1"] == "1 u |y|"
    assert rules["relu1"] == rules["split.1"] == "exact"
    assert all(t.own <= t.tolerance for t in report.tensors)


@pytest.mark.parametrize(
    ("name", "edit", "layer"),
    [
        ("w1", bump, "conv1"),
        ("w2", bump, "conv2"),
        ("w3", bump, "up"),
        ("b1", np.zeros_like, "add1"),
        ("b3", np.zeros_like, "add3"),
    ],
)
def test_a_small_mistake_is_found_where_it_is_and_nowhere_else(name, edit, layer: str) -> None:
    g, wrong = network(), network({name: edit})
    report = ird.compare(g, ird.lower(wrong).graph, [image()])
    assert [t.name for t in report.tensors if not t.passed and not t.output] == [layer]
    assert report.first_difference.name == layer
    # The layers behind it are as far apart as it made them, but make nothing of it themselves.
    behind = next(t for t in report.tensors if t.name == "add3")
    assert layer == "add3" or (behind.max_abs > behind.tolerance and behind.passed)


def test_two_mistakes_are_both_found() -> None:
    report = ird.compare(network(), network({"w1": bump, "b3": np.zeros_like}), [image()])
    assert [t.name for t in report.tensors if not t.passed and not t.output] == ["conv1", "add3"]


def test_an_output_behind_a_mistake_passes_only_where_it_does_not_show() -> None:
    hidden = network({"w2": lambda w: w + np.float32(1e-4)})
    report = ird.compare(network(), hidden, [image()])
    assert report.first_difference.name == "conv2"
    assert not report.outputs[0].passed


def test_layers_that_one_side_lacks_are_bridged() -> None:
    others = {n: f"other_{n}" for n in ("conv1", "add1", "conv2")}
    g, renamed = network(), network(names=others)
    report = ird.compare(g, ird.lower(renamed).graph, [image()])
    assert report.passed
    assert report.alone == 3
    assert "3 without a counterpart" in report.verdict
    wrong = network({"w2": bump}, names=others)
    assert ird.compare(g, wrong, [image()]).first_difference.name == "relu2"
    one = ird.compare(g, network(names={"add1": "other"}), [image()])
    assert next(t.rule for t in one.tensors if t.name == "relu1") == "exact + carried"
    nothing = ird.compare(g, network(names={n: f"other_{n}" for n in LAYERS}), [image()])
    assert nothing.passed
    assert len(nothing.tensors) == 1


@pytest.mark.parametrize("other", FORMS[:3])
@pytest.mark.parametrize("form", FORMS[:3])
def test_two_lowerings_of_one_model_are_the_same(form: str, other: str, tmp_path: Path) -> None:
    g = ird.infer(network())
    a, b = ird.lower(g, form).graph, ird.lower(g, other).graph
    in_memory = ird.compare(a, b, [image()])
    assert in_memory.passed, str(in_memory)
    ird.write(a, tmp_path / "a.xml")
    ird.write(b, tmp_path / "b.xml")
    a, b = ird.read(tmp_path / "a.xml"), ird.read(tmp_path / "b.xml")
    report = ird.compare(a, b, [image()])
    assert report.passed, str(report)
    assert form != other or report.alone == 0
    arrays: dict[str, np.ndarray] = {}
    ird.run(b, [image()], form=None, trace=lambda n, x: arrays.setdefault(n.name, x[0].copy()))
    assert ird.compare(a, arrays, [image()]).passed
    wrong = ird.lower(network({"w3": bump}), other).graph
    assert ird.compare(a, wrong, [image()]).first_difference.name.split("/")[0] in ("up", "add3")


def test_a_given_tolerance_compares_tensors_as_they_are() -> None:
    g, wrong = network(), network({"w1": bump})
    strict = ird.compare(g, wrong, [image()], tolerance=0.0)
    assert {t.rule for t in strict.tensors} == {"given"}
    assert next(t.name for t in strict.tensors if not t.passed) == "conv1"
    assert not next(t for t in strict.tensors if t.name == "add3").passed
    assert ird.compare(g, wrong, [image()], tolerance=0.1).passed


def test_measures_of_a_difference() -> None:
    g = network({"b1": lambda b: b})
    wrong = network({"b1": lambda b: b + np.float32(0.5)})
    found = next(t for t in ird.compare(g, wrong, [image()]).tensors if t.name == "add1")
    a, b = (traced(h, "add1") for h in (g, wrong))
    apart = np.abs(a.astype(np.float64) - b)
    assert found.max_abs == apart.max()
    assert found.worst == np.unravel_index(apart.argmax(), apart.shape)
    assert found.max_rel == (apart / np.maximum(np.abs(a), np.abs(b))).max()
    x, y = a[found.worst], b[found.worst]
    few = np.float32(0.25), np.nextafter(np.float32(0.25), np.float32(1))
    assert found.ulps == _ulps(x, y)
    assert found.ulps > 1
    assert found.kind.startswith("a bias is missing")
    assert _ulps(*few) == 1
    assert _ulps(np.float32(-1e-45), np.float32(1e-45)) == 2
    assert _ulps(np.float16(1), np.float16(1 + 3 * 2**-10)) == 3
    assert _ulps(np.int32(1), np.int32(3)) is None


def traced(g: ird.Graph, name: str) -> np.ndarray:
    found = {}
    ird.run(g, [image()], form=None, trace=lambda n, a: found.setdefault(n.name, a[0].copy()))
    return found[name]


def test_partial_failures_leave_no_thread_behind() -> None:
    import threading

    before = threading.active_count()
    with pytest.raises(ird.UsageError):
        ird.compare(network(), network(), [np.zeros((1, 3, 5, 5), np.float32)])
    assert threading.active_count() == before


def folding() -> tuple[Graph, np.ndarray]:
    """A deconvolution of constants, which is folded; it is an output and added to the input."""
    rng, net = np.random.default_rng(8), Net()
    data, weights = rng.standard_normal((1, 5, 1, 6)), rng.standard_normal((5, 3, 1, 4))
    net.op("ReLU", "opset1", parameter(net.graph, (1, 3, 1, 16), np.float32, "x"), name="relu")
    up = net.op(
        "ConvolutionBackpropData", "opset1", data.astype(np.float32), weights.astype(np.float32),
        name="up", strides=(1, 2), pads_begin=(0, 0), pads_end=(0, 0), dilations=(1, 1),
        output_padding=(0, 2),
    )  # fmt: skip
    relu = Value(next(n.id for n in net.graph.nodes("ReLU")))
    size = net.op("ShapeOf", "opset3", relu, output_type=i64)
    up = net.op("Reshape", "opset1", up, size, name="shaped", special_zero=False)
    result(net.graph, net.op("Add", "opset1", relu, up, name="sum"), "y")
    result(net.graph, up, "z")
    return ird.infer(net.graph), rng.standard_normal((1, 3, 1, 16)).astype(np.float32)


def test_folded_constants_may_be_rounded_as_layers_are() -> None:
    graph, x = folding()
    saved = ird.run(graph, [x])
    assert ird.compare(graph, ird.lower(graph).graph, [x])
    near = {k: np.nextafter(v, np.float32(9)) for k, v in saved.items()}
    report = ird.compare(graph, near, [x])
    assert report, report
    assert all(0 < t.tolerance < 5e-5 for t in report.outputs)
    for name in saved:
        far = saved | {name: saved[name] + np.float32(1e-4)}
        assert [t.name for t in ird.compare(graph, far, [x]).outputs if not t.passed] == [name]


def test_constants_that_are_only_converted_to_more_bits_round_nothing() -> None:
    net = Net()
    x = parameter(net.graph, (3,), np.float32, "x")
    wide = net.op("Convert", "opset1", np.array([0.1, 2, 3], np.float16), destination_type=f32)
    result(net.graph, net.op("Maximum", "opset1", x, wide, name="most"), "y")
    graph, data = ird.infer(net.graph), np.zeros(3, np.float32)
    (saved,) = ird.run(graph, [data]).values()
    assert ird.compare(graph, {"most": saved}, [data])
    assert not ird.compare(graph, {"most": np.nextafter(saved, np.float32(9))}, [data])
