"""Comparing two graphs, layer by layer, and shrinking what differs."""

import io
import json
import shlex
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.formats.arrays import SavedArrays
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import f32, i64
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Const
from irdeconv.ops.elementwise import Exp
from irdeconv.verify.difference import Allowed, _ulps, difference
from support.commands import Answer, Capture, Patch, answer
from support.layers import Layer, build, numbers, parameter, result, sequential
from support.memory import peak_of
from support.mutants import with_input
from support.networks import LAYERS, image, network
from support.raising_graphs import Net
from support.rows import each_row
from support.runtime_truth import outputs

# Comparison of graphs: verdict, the first differing layer, the derived tolerance.

EXACT = Allowed(0.0, "exact")

LAYER = Layer(1, (4, 5), 2, 2, 3, (3, 2), (2, 3), (1, 1), (1, 0), (0, 1), (0, 0))


def deconvolution(seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(LAYER.data_shape).astype(np.float32)
    return build(LAYER, x, rng.standard_normal(LAYER.filter_shape).astype(np.float32))


def test_the_lowered_graph_is_the_same():
    g, feeds = deconvolution()
    report = ird.compare(g, ird.lower(g).graph, feeds)
    assert report.passed
    assert report.first_difference is None
    assert [t.name for t in report.tensors] == ["deconv", "y"]
    assert report.tensors[0].type_b == "GroupConvolution"
    assert 0 < report.tensors[0].tolerance < 1e-4


def test_equal_elements_hide_exchanged_channels_which_is_said():
    layer = replace(LAYER, pads_begin=(0, 0), pads_end=(0, 0), kernel=(1, 1), strides=(1, 1))
    shapes = (layer.data_shape, layer.filter_shape)
    x, w = (np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in shapes)
    (g, feeds), (other, _) = build(layer, x, w), build(layer, x, w[:, ::-1])
    assert not ird.compare(g, other, feeds)
    for equal, said in ((x * 0 + 2, ["W503"]), (x, [])):
        same = ird.compare(g, g, dict.fromkeys(feeds, equal))
        assert [d.code for d in same.diagnostics] == said
    # All channels are the same numbers, so their order in the filter makes no difference.
    assert ird.compare(g, other, dict.fromkeys(feeds, x * 0 + 2))


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
    g = sequential((2,), ("y", ReLU()))
    other = g.copy()
    other.replace_op(1, Exp())
    for model, mark in ((g, "ok  "), (other, "DIFF")):
        report = ird.compare(g, model, [np.ones(2, np.float32)])
        assert [(t.name, t.output) for t in report.tensors] == [("y", False), ("y", True)]
        assert [line[:6] for line in report.lines(everything=True)] == [f"{mark} y"]
        assert str(report).count("own error") == 1


def test_missing_outputs_fail():
    g = sequential((2,), ("r", ReLU()))
    more = g.copy()
    result(more, Value(0), "extra")
    feeds = [np.ones(2, np.float32)]
    assert not ird.compare(g, more, feeds).passed
    assert not ird.compare(more, g, feeds).passed


@each_row(
    ("a", "b", "passed"),
    [([1, np.nan], [1, np.nan], True), ([1, np.nan], [1, 2], False), ([1, 2], [1, np.nan], False),
     ([np.inf, 1], [np.inf, 1], True), ([np.inf, 1], [-np.inf, 1], False), ([0, 0], [0, 0], True)],
)  # fmt: skip
def test_non_finite_values_must_match(a, b, passed):
    out = difference(("t", "A", "B"), np.array(a, np.float32), np.array(b, np.float32), EXACT)
    assert out.passed is passed


@pytest.mark.parametrize(("b", "passed"), [([np.inf, 1], True), ([3e38, 1], False)])
def test_a_limit_without_end_allows_no_infinite_difference(b, passed):
    g = sequential((2,), ("e", Exp()))
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


@each_row(
    ("a", "b", "passed"),
    [(2, 2, True), (2, 2.5, False), (2, np.nan, False), (np.inf, 2, False),
     (np.nan, np.nan, True), (np.inf, np.inf, True)],
)  # fmt: skip
def test_scalars_are_compared(a, b, passed):
    """Of arrays without axes NumPy makes numbers, which are no arrays any more."""
    g = sequential((), ("r", ReLU()))
    report = ird.compare(g, {"r": np.array(b, np.float32)}, [np.array(a, np.float32)])
    assert report.passed is passed
    out = difference(("t", "A", "B"), np.array(a, np.float32), np.array(b, np.float32), EXACT)
    assert out.passed is passed


def test_nothing_is_compared_without_elements():
    g = sequential((0, 2, 3, 3), ("r", ReLU()))
    assert ird.compare(g, g.copy(), [np.zeros((0, 2, 3, 3), np.float32)]).passed
    longer = {"r": np.zeros((0, 2, 4, 3), np.float32)}
    assert not ird.compare(g, longer, [np.zeros((0, 2, 3, 3), np.float32)]).passed


def test_the_model_that_takes_other_inputs_is_named():
    two, three = (sequential((size,), ("y", ReLU())) for size in (2, 3))
    with pytest.raises(ird.UsageError, match=r"the other model: input \"x\" f32\[3\]: an array"):
        ird.compare(two, three, [np.ones(2)])
    with pytest.raises(ird.UsageError, match=r"error\[E501\]: input \"x\" f32\[2\]: an array"):
        ird.compare(two, three, [np.ones(3)])


SPOILT = {0: np.nan, 3: np.inf, 11: -np.inf, 17: 1e30}


@pytest.mark.parametrize("piece", [1, 4, 7])
@pytest.mark.parametrize("limit", [0.0, 0.5, "each", "of a row"])
@pytest.mark.parametrize("spoilt", [False, True])
def test_pieces_come_to_what_the_whole_comes_to(
    piece: int, limit: float | str, spoilt: bool, monkeypatch: Patch
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
    allowed = Allowed(2.0, "made up")
    found, most = peak_of(lambda: difference(("x", "A", "B"), a, b, allowed, a * 1))
    assert found.passed
    assert most < 3 * a.nbytes


# Comparison layer by layer: small mistakes are found where they are, rounding raises no alarm.

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
    assert ird.compare(a, traced(b), [image()]).passed
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
    a, b = (traced(h)["add1"] for h in (g, wrong))
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


def traced(g: ird.Graph) -> dict[str, np.ndarray]:
    """Every layer's first output, by its name."""
    found: dict[str, np.ndarray] = {}
    ird.run(g, [image()], form=None, trace=lambda n, a: found.setdefault(n.name, a[0].copy()))
    return found


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


# `compare --reduce`: the first layer that differs as files that show the difference alone.

FILES = {"layer.xml", "layer.bin", "inputs.npz", "outputs_a.npz", "outputs_b.npz", "report.json"}
PAIR = FILES | {"other.xml", "other.bin"}


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def shown(folder: Path, monkeypatch: Patch) -> dict[str, Any]:
    """Run the commands of the report: each shows the difference. Return the report."""
    report = json.loads((folder / "report.json").read_text())
    assert set(report["files"]) | {"layer.bin", "report.json"} | (
        {"other.bin"} if "other.xml" in report["files"] else set()
    ) == {p.name for p in folder.iterdir()}
    monkeypatch.chdir(folder)
    for command in report["see_it"]:
        assert main(shlex.split(command)[1:]) == 1
    assert main(["compare", "layer.xml", "outputs_a.npz", "-i", "inputs.npz"]) == 0
    return report


def test_a_second_model(tmp_path: Path, monkeypatch: Patch) -> None:
    """Inputs and outputs are the second model's; wrong layers before do not change that."""
    broken = network({"w2": lambda v: v[:, :, ::-1], "b3": lambda v: 0 * v})
    ird.compare(network(), broken, [image()], reduce=tmp_path / "new" / "piece")
    folder = tmp_path / "new" / "piece"
    assert {p.name for p in folder.iterdir()} == PAIR
    whole = traced(broken)
    given = arrays(folder / "inputs.npz")["relu1:0"]
    np.testing.assert_allclose(given, whole["relu1"], rtol=1e-4, atol=1e-5)
    theirs = arrays(folder / "outputs_b.npz")["conv2"]
    np.testing.assert_allclose(theirs, whole["conv2"], rtol=1e-4, atol=1e-5)
    report = shown(folder, monkeypatch)
    assert report["layers"] == [{"name": "conv2", "type": "Convolution"}]
    assert "the kernel is flipped" in report["difference"]["kind"]
    (mine,) = arrays(folder / "outputs_a.npz").values()
    conv2 = traced(network())["conv2"]
    np.testing.assert_allclose(mine, conv2, rtol=1e-5, atol=1e-5)  # all before it is right


@pytest.mark.parametrize("dumped", ["all", "conv2", "relu2"])
def test_saved_arrays(dumped: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """Where layers are missing among the arrays, the piece begins at the last one before."""
    whole = traced(network({"w2": lambda v: v[:, :, ::-1]}))
    names = ["relu1", "conv2", "relu2", "up"] if dumped == "all" else ["add1", dumped]
    saved = {name: whole[name] for name in names}
    ird.compare(network(), saved, [image()], reduce=tmp_path / "piece")
    assert {p.name for p in (tmp_path / "piece").iterdir()} == FILES
    report = shown(tmp_path / "piece", monkeypatch)
    left = {"all": ["conv2"], "conv2": ["relu1", "conv2"], "relu2": ["relu1", "conv2", "relu2"]}
    assert [n["name"] for n in report["layers"]] == left[dumped]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_wrong_lowering(swapped: bool, tmp_path: Path, monkeypatch: Patch) -> None:
    """One layer on one side, the three that it became on the other."""
    whole = ird.infer(network())
    low = ird.lower(whole).graph
    pad = next(low.nodes("Pad"))
    begin = np.array(low.node(low.inputs_of(pad.id)[1].node).op.data.array())
    moved = with_input(low, pad, 1, begin - np.array([0, 0, 1, 0]))
    moved = with_input(moved, moved.node(pad.id), 2, begin + np.array([0, 0, 2, 1]))
    wrong = ird.infer(moved)
    sides = (wrong, whole) if swapped else (whole, wrong)
    ird.compare(*sides, [image()], reduce=tmp_path / "piece")
    report = shown(tmp_path / "piece", monkeypatch)
    several = [n.name for n in low.nodes() if n.origins == ("up",) and n.type != "Const"]
    names = [n["name"] for n in report["layers"]]
    assert (sorted(names) == sorted(several)) if swapped else (names == ["up"])


@pytest.mark.oracles
def test_openvino(tmp_path: Path, monkeypatch: Patch) -> None:
    real = ReLU.evaluate
    monkeypatch.setattr(ReLU, "evaluate", lambda self, x: real(self, x) + (x.shape[1] == 24))
    ird.compare(network(), "openvino", [image()], reduce=tmp_path / "piece")
    assert {p.name for p in (tmp_path / "piece").iterdir()} == FILES
    report = shown(tmp_path / "piece", monkeypatch)
    assert report["see_it"][0] == "irdeconv compare layer.xml openvino -i inputs.npz"
    assert [n["name"] for n in report["layers"]] == ["relu2"]
    mine, theirs = (arrays(tmp_path / "piece" / f"outputs_{s}.npz")["relu2"] for s in "ab")
    np.testing.assert_allclose(mine, theirs + 1, rtol=1e-6)
    alone = outputs(tmp_path / "piece" / "layer.xml", arrays(tmp_path / "piece" / "inputs.npz"))[0]
    np.testing.assert_array_equal(alone, theirs)


def test_the_option(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    ird.write(network(), "net.xml")
    ird.write(network({"w3": lambda v: -v}), "other.xml")
    assert main(["compare", "net.xml", "net.xml", "--reduce", "piece"]) == 0
    assert not Path("piece").exists()
    both = ("compare", "net.xml", "other.xml", "--reduce")
    assert "wrote piece/report.json" in answer(*both, "piece", code=1).err
    assert {p.name for p in Path("piece").iterdir()} == PAIR
    assert "--reduce . would overwrite the input other.xml" in answer(*both, ".", code=2).err
    assert "it is not a folder" in answer(*both, "net.xml", code=6).err


# Comparison with saved arrays.


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.xml"
    ird.write(ird.infer(network()), path)
    np.save(tmp_path / "x.npy", image())
    return path


def layers(edit: dict[str, Any] | None = None) -> dict[str, np.ndarray]:
    """Return the layers of the network alone, in its order."""
    found = traced(network(edit))
    return {n: found[n] for n in LAYERS}


def compare(net: Path, arrays: dict[str, np.ndarray], *more: str, code: int = 0) -> Answer:
    file = net.with_name("saved.npz")
    np.savez(file, **arrays)
    return answer("compare", net, file, "-i", f"x=@{net.with_name('x.npy')}", *more, code=code)


def test_what_run_dumps_can_be_compared(net: Path) -> None:
    x = f"x=@{net.with_name('x.npy')}"
    file = str(net.with_name("all.npz"))
    assert main(["run", str(net), x, "--dump", "all", "-o", file, "--form", "phases"]) == 0
    last = answer("compare", net, file, "-i", x, "--all").out.splitlines()[-1]
    # "up" is one with the Add of its bias.
    assert last == "the same: 1 output, 9 layers compared, 1 without a counterpart"


def test_an_output_that_is_a_layer_is_dumped_twice(tmp_path: Path) -> None:
    model, file = str(tmp_path / "m.xml"), str(tmp_path / "all.npz")
    ird.write(ird.infer(sequential((2, 3), ("y", ReLU()))), model)
    assert main(["run", model, "x=ones", "--dump", "all", "-o", file]) == 0
    saved = dict(np.load(file))
    assert {"y", "dump/y"} <= set(saved)
    assert "W500" not in answer("compare", model, file, "-i", "x=ones").err
    np.savez(file, **{**saved, "dump/y": saved["y"] + 1})
    assert "first at ReLU 'y'" in answer("compare", model, file, "-i", "x=ones", code=1).out


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ({"out": "out"}, "Sigmoid 'out'"),
        ({"out": "out:0"}, "Sigmoid 'out'"),
        ({"out": "arr_0"}, "Result 'out:0'"),
        ({"out": "out0"}, "Result 'out:0'"),
        ({"out": "output_0"}, "Result 'out:0'"),
        ({"out": "out0_0"}, "Result 'out:0'"),
        ({"out": "whatever"}, "Result 'out:0'"),
        ({"conv2": "conv2", "out": "out:0"}, "Convolution 'conv2'"),
        ({"conv2": "dump/conv2", "up": "dump/up:0"}, "Convolution 'conv2'"),
    ],
)
def test_names(net: Path, names: dict[str, str], first: str) -> None:
    good, bad = layers(), layers({"w1": lambda w: w * 1.5})
    right, wrong = ({s: found[n] for n, s in names.items()} for found in (good, bad))
    assert "without a counterpart" in compare(net, right).out
    assert f"first at {first};" in compare(net, wrong, code=1).out


def test_a_wrong_layer_among_saved_ones(net: Path) -> None:
    out = compare(net, layers({"w2": lambda w: np.flip(w, (2, 3))}), code=1).out
    assert "first at Convolution 'conv2'" in out
    assert "the kernel is flipped" in out


def test_arrays_that_stand_for_nothing(net: Path) -> None:
    good = layers()
    err = compare(net, {"up": good["up"], "upp": good["up"], "x": image()}).err
    assert "warning[W500]: " in err
    assert '"upp"' in err
    assert '"x"' not in err


def test_shapes_and_types(net: Path) -> None:
    up = layers()["up"]
    assert "(-1, 0) rows more at the end" in compare(net, {"up": up[:, :, :-1]}, code=1).out
    compare(net, {"up": up.astype(np.float64)})
    assert "W501" in compare(net, {"up": up.astype(np.int32)}, code=1).err
    compare(net, {"up": up.astype(np.float16)})
    compare(net, {"up": (up * 1.01).astype(np.float16)}, code=1)


def test_elements_that_no_tensor_has(net: Path) -> None:
    up = layers()["up"]
    for odd in (up + 0j, up + 1j, up.view("V4"), up.view("M8[s]")):
        assert "neither real numbers nor texts" in compare(net, {"up": odd}, code=2).err
    records = {"up": up.astype([("a", "f4")])}
    assert "records, not plain numbers" in compare(net, records, code=6).err


@pytest.mark.parametrize("name", ["y", "dump/y", "r", "arr_0"])
def test_bfloat16_has_no_name_in_npy(name: str, tmp_path: Path) -> None:
    g = ird.infer(sequential((2, 3), ("y", ReLU()), dtype=ml_dtypes.bfloat16, output="r"))
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    file = tmp_path / "saved.npz"
    np.savez(file, **{name: x})
    assert np.load(file)[name].dtype.kind == "V"
    assert ird.compare(g, file, [x]).passed
    np.savez(file, **{name: x + ml_dtypes.bfloat16(1)})
    assert not ird.compare(g, file, [x]).passed


def test_json(net: Path) -> None:
    found = compare(net, {"up": layers()["up"], "odd": image()}, "--format", "json").json
    assert (found["passed"], found["not_compared"]) == (True, 8)
    assert [d["code"] for d in found["diagnostics"]] == ["W500"]
    (tensor,) = found["tensors"]
    numbers = {"max_abs", "max_rel", "ulps", "cosine", "own", "own_at", "tolerance", "rule"}
    assert numbers <= set(tensor)


@pytest.mark.parametrize("shape", [b"(1, 2, 32,9**9", b"(-1, 2, 32, 3)", b"(9999999999, )"])
def test_damaged_headers(net: Path, shape: bytes, capsys: Capture) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.zeros((1, 2, 32, 32), np.float32))
    assert len(shape) == len(b"(1, 2, 32, 32)")
    damaged = buffer.getvalue().replace(b"(1, 2, 32, 32)", shape)
    file = net.with_name("damaged.npz")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("up.npy", damaged)
    assert main(["compare", str(net), str(file)]) in (5, 6)
    assert "E100" in (err := capsys.readouterr().err) or "out of memory" in err


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06 cut", b"no zip at all"])
def test_files_that_are_no_archives(net: Path, content: bytes) -> None:
    file = net.with_name("bad.npz")
    assert not file.write_bytes(content) or "not .npz" in answer("compare", net, file, code=2).err
    assert content or "E100" in answer("compare", net, file, code=6).err
    assert main(["compare", str(net), str(net.with_name("none.npz"))]) == 6


def test_members_are_read_one_at_a_time(net: Path, monkeypatch: Patch) -> None:
    held: list[str] = []
    read = SavedArrays.__getitem__
    monkeypatch.setattr(
        SavedArrays, "__getitem__", lambda self, key: held.append(key) or read(self, key)
    )
    good = layers()
    file = net.with_name("saved.npz")
    np.savez(file, **dict(reversed(good.items())))
    assert ird.compare(network(), file, [image()]).passed
    assert held == [*LAYERS, "out"]  # in the order of execution; the last one is an output, too


def test_saved_results_are_judged_again(tmp_path: Path) -> None:
    a = np.float32([[1, 2], [3, 4]])
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file, y in zip(files, (a, a + np.float32(1e-3)), strict=True):
        np.savez(file, y=y, z=a)
    assert "different" in answer("compare", *files, code=1).out
    assert "the same" in answer("compare", *files, "--tolerance", "1e-3").out
    shown = answer("compare", *files, "--tolerance", "y=1e-3").out
    # |a-b| = 0.001 four times: L2 0.002; the largest is 4, and 20 lg (4 / 0.001) = 72
    assert "L2 0.002, cosine 1, PSNR 72.0 dB" in shown
    assert ird.compare(files[0], {"y": a, "q": a}).missing == ("z", "q")
    assert "did you mean" in answer("compare", *files, "--tolerance", "yy=1", code=2).err


def test_a_tolerance_of_one_output() -> None:
    wrong = {"out": layers()["out"] * np.float32(1.001)}
    assert not ird.compare(network(), wrong, [image()]).passed
    assert ird.compare(network(), wrong, [image()], tolerance={"out": 0.01}).passed
    with pytest.raises(ird.UsageError, match="no such layer"):
        ird.compare(network(), wrong, [image()], tolerance={"none": 1})


def test_nan_on_one_side_and_in_inputs() -> None:
    wrong = layers()["out"].copy()
    wrong.flat[3] = np.nan
    assert "NaN on the second side only: 1 of" in str(
        ird.compare(network(), {"out": wrong}, [image()])
    )
    found = ird.compare(network(), network(), [image() * np.nan])
    assert "are NaN" in found.diagnostics[0].message


def test_a_mapping_of_arrays() -> None:
    assert ird.compare(network(), layers(), [image()]).passed
    assert not ird.compare(network(), {"up": layers()["up"] + 1}, [image()]).passed
    with pytest.raises(ird.UsageError):
        ird.compare(network(), {"nobody": image()[:0], "else": image()}, [image()])
