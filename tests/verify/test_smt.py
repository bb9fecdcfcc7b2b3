"""The second proof: its rules, the command line, open sizes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UnsupportedError
from irdeconv.cli.main import main
from irdeconv.cli.second_proof import file_name
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.proof.model import Layer as ModelLayer
from irdeconv.proof.model import Unproved
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.standardize import standardize
from irdeconv.verify.smt_formula import obligation
from irdeconv.verify.smt_meaning import meaning, windows
from irdeconv.verify.smt_solver import Discharge, discharge, prove
from irdeconv.verify.smt_terms import larger, smaller, term, variable
from obligations import obligations
from support import dialect_layers, dialect_random, layers
from support.dialect_layers import VERSIONS
from support.proof_layers import OPENVINO, random_model

# Obligations of layers as SMT-LIB: what the lowering emits is proved, other regions refuted.

SECONDS = 10.0
# Why there may be no answer if several axes are open: a Reshape that merges them needs products.
OPEN = re.compile(
    r"the product of .+ and .+ is not linear|a division by .+, which is no positive constant"
)


def lowered(graph: Graph, form: str, *, standard: bool = False) -> Graph:
    low = ird.lower(graph, form).graph
    return standardize(low) if standard else low


def check_random(seed: int, form: str | None = None, system: str | None = None) -> None:
    """Prove a random layer, lowered in a form, as it is and as it is written."""
    rng = np.random.default_rng(seed)
    while True:
        model = random_model(rng)
        if system in (None, model.system):
            break
    chosen = form or str(rng.choice(list(FORMS)))
    low = lowered(model.graph, chosen, standard=bool(rng.random() < 0.5))
    for ob in obligations(model.graph, low):
        answer, _ = prove(ob, SECONDS)
        if not answer and open_axes(model.graph) > 1:
            assert answer.verdict == "unknown", (seed, chosen, model.system, model.text)
            assert OPEN.search(answer.text), (seed, chosen, model.system, model.text, str(answer))
            continue
        assert answer, (seed, chosen, model.system, model.text, str(answer))


def open_axes(graph: Graph) -> int:
    """The most axes of unknown size that data has."""
    shapes = [graph.spec(Value(p.id)).shape or () for p in graph.parameters]
    return max(sum(not isinstance(d, int) for d in shape) for shape in shapes)


@pytest.mark.thorough
@pytest.mark.parametrize("system", [OPENVINO, *VERSIONS])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_every_system(form: str, system: str) -> None:
    check_random(sum(map(ord, form + system)), form, system)


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(4))
def test_random_layers(block: int) -> None:
    for seed in range(12 * block, 12 * block + 12):
        check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_many_random_layers(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_random(seed)


def layer(**changes: Any) -> layers.Layer:
    """Two groups with C/g != M/g, other numbers on each axis."""
    made = layers.Layer(
        batch=2,
        size=(4, 3),
        groups=2,
        c=1,
        m=3,
        kernel=(3, 4),
        strides=(2, 3),
        dilations=(1, 2),
        pads_begin=(1, -2),
        pads_end=(0, 1),
        output_padding=(1, 0),
    )
    return replace(made, **changes)


def source_of(made: layers.Layer, data_shape: Any = None, shape_source: str = "const") -> Graph:
    rng = np.random.default_rng(5)
    size = int(np.prod(made.filter_shape))
    w = (rng.permutation(size) + 1).reshape(made.filter_shape).astype(np.float32)
    x = np.zeros(made.data_shape, np.float32)
    graph, _ = layers.build(made, x, w, data_shape=data_shape, shape_source=shape_source)
    return ird.infer(graph)


def test_channels_that_depend_on_positions_of_several_axes() -> None:
    """Phases of one element: the channel of an output is 4*o1 + o2, in a Concat with zeros."""
    made = layer(groups=None, kernel=(3, 2), strides=(3, 4), dilations=(3, 1), size=(1, 1), m=1)
    made = replace(made, auto_pad="same_lower", output_shape=(3, 4), output_padding=(0, 0))
    graph = source_of(made)
    for standard in (False, True):
        (ob,) = obligations(graph, lowered(graph, "phases", standard=standard))
        answer, _ = prove(ob, SECONDS)
        assert answer, str(answer)


def test_a_stranger_reads_and_runs_the_text() -> None:
    """The text alone, given to a solver by itself, answers unsat for each step."""
    import z3

    graph = source_of(layer(), [None, 2, None, 3])
    (ob,) = obligations(graph, lowered(graph, "phases"))
    text = obligation(ob)
    answers = z3.Z3_eval_smtlib2_string(z3.main_ctx().ref(), text).split()
    assert set(answers) == {"unsat"}
    assert len(answers) == text.count("(check-sat)") == text.count("; step ")
    assert max(map(len, text.splitlines())) < 400
    assert "; size of axis 2 of Parameter" in text
    assert discharge(text, SECONDS).verdict == "proved"


def edits(low: Graph) -> Iterator[tuple[str, Graph]]:
    """Yield lowered graphs with one thing changed."""
    for node in low.topological():
        if not node.origins:
            continue
        if node.type == "Const" and node.op.data.array().size:  # type: ignore[attr-defined]
            for name, change in CHANGES.items():
                array = node.op.data.array()  # type: ignore[attr-defined]
                made = change(array)
                if not np.array_equal(made, array):
                    op = replace(node.op, data=ArrayData.of(made, node.op.element_type))  # type: ignore
                    yield f"{node.name} {name}", changed(low, node, op)
        elif node.type in ("Convolution", "GroupConvolution"):
            for name in ("strides", "dilations", "pads_begin"):
                values = list(getattr(node.op, name))
                values[0] += 1
                op = replace(node.op, **{name: tuple(values)})
                yield f"{node.name} {name}", changed(low, node, op)
        elif node.type == "ZeroInsertion":
            op = replace(node.op, strides=(node.op.strides[0] + 1, *node.op.strides[1:]))  # type: ignore
            yield f"{node.name} strides", changed(low, node, op)
        elif node.type == "DepthToSpace":
            other = {"blocks_first": "depth_first", "depth_first": "blocks_first"}[node.op.mode]  # type: ignore
            op = replace(node.op, mode=other)  # type: ignore[call-arg]
            yield f"{node.name} mode", changed(low, node, op)
        elif node.type == "Add":
            yield f"{node.name} type", changed(low, node, REGISTRY["Subtract", "opset1"]())


def last_more(array: Any) -> Any:
    out = array.copy()
    out.flat[-1] += 1
    return out


CHANGES: dict[str, Callable[[Any], Any]] = {
    "one more": last_more,
    "reversed": lambda a: np.ascontiguousarray(np.flip(a)),
    "rolled": lambda a: np.roll(a, 1, a.ndim - 2) if a.ndim > 2 else a,
}


def changed(low: Graph, node: Node, op: Any) -> Graph:
    out = low.copy()
    out.replace_op(node.id, op)
    for n in out.nodes():
        n.specs = None
    return out


def values_at(graph: Graph, sizes: dict[str, int]) -> Any:
    """Run a graph at the sizes of a counterexample, on powers of two: no sum hides another."""
    (x,) = graph.parameters
    at = list(graph.topological()).index(x)
    shape = graph.spec(Value(x.id)).shape or ()
    exact = [
        d if isinstance(d, int) else sizes.get(f"x_{at}_{a}", d.lo) for a, d in enumerate(shape)
    ]
    data = np.random.default_rng(1).integers(1, 1 << 16, exact).astype(np.float64)
    (out,) = ird.run(graph, {"x": data}, form=None, fuse=False).values()
    return out


def check_edits(form: str, *, dynamic: bool, every: int) -> list[str]:
    """Return the verdicts on changed regions, each held against both graphs' values."""
    made = layer(batch=1, output_padding=(0, 0))
    if form == "gemm":
        made = replace(made, kernel=made.strides, dilations=(1, 1))
    rng = np.random.default_rng(2)
    w = (rng.permutation(int(np.prod(made.filter_shape))) + 1.0).reshape(made.filter_shape)
    shape = [1, 2, None, 3] if dynamic else made.data_shape
    source = ird.infer(layers.build(made, np.zeros(made.data_shape), w, data_shape=shape)[0])
    verdicts = []
    for name, other in list(edits(lowered(source, form)))[::every]:
        (ob,) = obligations(source, other)
        answer, _ = prove(ob, SECONDS)
        verdicts.append(answer.verdict)
        if answer.verdict == "unknown":
            continue
        sizes = answer.values or {"x_0_2": 4}
        wanted = values_at(source, sizes)
        try:
            found = values_at(ird.infer(other), sizes)
        except ird.IrdeconvError:
            found = np.zeros(0)  # it does not even run
        same = wanted.shape == found.shape and np.array_equal(wanted, found)
        assert same == (answer.verdict == "proved"), (name, str(answer))
        if wanted.shape == found.shape and "o1" in sizes and "o2" in sizes:
            at = (sizes.get("o0", 0), slice(None), sizes["o1"], sizes["o2"])
            assert (wanted[at] != found[at]).any(), (name, str(answer))
    return verdicts


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_other_regions_are_refuted_with_a_true_counterexample(form: str, dynamic: bool) -> None:
    verdicts = check_edits(form, dynamic=dynamic, every=5)
    assert "refuted" in verdicts


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_all_edits_of_a_region(form: str, dynamic: bool) -> None:
    verdicts = check_edits(form, dynamic=dynamic, every=1)
    assert verdicts.count("refuted") >= 5


def test_a_difference_far_beyond_the_samples() -> None:
    """Pads that are right up to a size of 1000 are refuted with a larger one."""
    graph = source_of(layer(groups=None, pads_begin=(1, 0)), [1, 1, None, 3])
    low = lowered(graph, "zero-insertion")
    (pad,) = [n for n in low.nodes("Pad") if n.origins]
    begin = low.inputs_of(pad.id)[1]
    data = low.inputs_of(pad.id)[0]
    limit = layers.constant(low, np.array([0, 0, 1000, 1000]), "limit")
    sizes = low.add(REGISTRY["ShapeOf", "opset3"](), [data], name="sizes")
    none = layers.constant(low, np.array([0, 0, 0, 0]), "none")
    beyond = low.add(REGISTRY["Subtract", "opset1"](), [Value(sizes.id), limit], name="beyond")
    inputs = [Value(beyond.id), none]
    more = low.add(REGISTRY["Maximum", "opset1"](), inputs, name="more")
    channels = layers.constant(low, np.array([0, 0, 1, 0]), "channels")
    one = low.add(REGISTRY["Multiply", "opset1"](), [Value(more.id), channels], name="one")
    moved = low.add(REGISTRY["Add", "opset1"](), [begin, Value(one.id)], name="moved")
    low.set_input(pad.id, 1, Value(moved.id))
    (ob,) = obligations(graph, low)
    answer, _ = prove(ob, SECONDS)
    assert answer.verdict == "refuted"
    assert 2 * answer.values["x_0_2"] > 1000


def test_biases_and_activations_are_compared() -> None:
    rng = np.random.default_rng(3)
    made = dialect_random.random_layer(rng, "com.ms.internal.nhwc_11", semantics="runtime")
    made = replace(made, bias=0, attributes={"strides": (2,) * made.axes, "activation": "Relu"})
    made = replace(made, groups=1)
    arrays = [np.zeros(s, np.float32) + 1 for s in made.shapes]
    graph = ird.infer(dialect_layers.build(made, arrays, inputs=(0,))[0])
    low = lowered(graph, "zero-insertion")
    (ob,) = obligations(graph, low)
    assert prove(ob, SECONDS)[0]
    (relu,) = low.nodes("ReLU")
    (ob,) = obligations(graph, changed(low, relu, REGISTRY["Tanh", "opset1"]()))
    assert "activations differ" in prove(ob, SECONDS)[0].text
    (add,) = [
        n for n in low.nodes("Add") if n.origins and len(low.spec(Value(n.id)).shape or ()) > 2
    ]
    (ob,) = obligations(graph, changed(low, add, REGISTRY["Subtract", "opset1"]()))
    answer = prove(ob, SECONDS)[0]
    assert answer.verdict == "refuted"
    assert "other numbers are added" in str(answer)


def test_what_is_not_followed_is_unknown() -> None:
    graph = source_of(layer())
    low = lowered(graph, "zero-insertion")
    (pad,) = [n for n in low.nodes("Pad") if n.origins]
    (ob,) = obligations(graph, changed(low, pad, replace(pad.op, pad_mode="edge")))  # type: ignore
    with pytest.raises(Unproved, match="does not pad with a constant"):
        obligation(ob)
    answer, _ = prove(ob, SECONDS)
    assert (answer.verdict, bool(answer)) == ("unknown", False)


def test_no_time_is_no_answer() -> None:
    graph = source_of(layer(), [2, 2, None, 3])
    (ob,) = obligations(graph, lowered(graph, "stacked"))
    answer = discharge(obligation(ob), 0.0)
    assert answer.verdict == "unknown"
    assert answer.text == "no answer within 0 s"


def test_without_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(UnsupportedError, match="z3-solver") as e:
        discharge("", SECONDS)
    assert e.value.diagnostics[0].hint == "pip install 'irdeconv[smt]'"


@pytest.mark.parametrize("version", [OPENVINO, *VERSIONS])
def test_windows_by_their_own_definition(version: str) -> None:
    """Begin and size of every axis, against the rules that the tests are written from."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        made: Any
        if version == OPENVINO:
            made = layers.random_layer(rng)
            wanted, semantics = made.output_shape, made.semantics
        else:
            made, wanted = dialect_random.random_layer(rng, version), None
            semantics = made.get("semantics")
        op = made.op
        port = (None,) * (3 if wanted else 2)
        spelled = op.version + "/document" * (semantics == "document")
        one = ModelLayer("x", op.type, spelled, op.to_attributes(), inputs=port)  # type: ignore
        found = meaning(one, made.axes + 2)
        asked = None if wanted is None else [term(v) for v in wanted]
        got = windows(found, [term(v) for v in made.size], made.kernel, asked)
        assert [(b.known, o.known) for b, o in got] == made.window()


def test_terms_by_hand() -> None:
    x, y = variable("x", 0), variable("y", 0, 3)
    assert ((x * 4 + y) // 4).text == "x"
    assert ((x * 4 + y) % 4).text == "y"
    assert (x * 6 + y * 2 - 5).text == "(- (+ (* 6 x) (* 2 y)) 5)"
    assert (x // 2 * 2 + x % 2).text == "(+ (* 2 (div x 2)) (mod x 2))"
    assert larger(x, -1).text == "x"
    assert smaller(larger(x, 3), 9).text == "(smaller (larger x 3) 9)"
    assert (-x // 2).value({"x": 5}) == -3
    with pytest.raises(Unproved, match="not linear"):
        x * y


# `check-certificate --smt`: answers, files, and what it refuses.

SAMPLE = Path(__file__).resolve().parents[2] / "ir_samples/openvino/segmentation_head.xml"


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """A sample and what it is lowered to, as arguments of check-certificate."""
    lowered = tmp_path / "lowered.xml"
    assert main(["lower", str(SAMPLE), "-o", str(lowered), "--form", "phases", "--quiet"]) == 0
    return ["check-certificate", str(SAMPLE), str(lowered)]


def test_every_layer_is_proved_twice(
    pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    folder = tmp_path / "formulas" / "smt"
    assert main([*pair, "--smt", "--smt-timeout", "30", "--smt-write", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "smt ok   up1: proved in" in out
    assert "smt: z3 proves 2 of 2 layers" in out
    assert "smt: wrote 2 of 2 formulas to" in out
    assert sorted(p.name for p in folder.iterdir()) == ["00_up1.smt2", "01_up2.smt2"]
    text = (folder / "00_up1.smt2").read_text("utf-8")
    assert text.startswith("; ")
    assert text.count("(check-sat)") == text.count("; step ")


def test_formulas_are_written_without_z3(
    pair: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert main([*pair, "--smt-write", str(tmp_path / "smt")]) == 0
    assert len(list((tmp_path / "smt").iterdir())) == 2


def test_z3_that_is_missing(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert main([*pair, "--smt"]) == 4
    err = capsys.readouterr().err
    assert "--smt needs the package z3-solver, which is not installed" in " ".join(err.split())
    assert "pip install 'irdeconv[smt]'" in err


def test_a_time_needs_a_question(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*pair, "--smt-timeout", "1"]) == 2
    assert "--smt-timeout is of --smt" in capsys.readouterr().err


def test_what_is_refuted_fails_and_is_told(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first checker proves what the solver refutes: one of them is wrong, and nothing holds."""
    answer = Discharge("refuted", {"o1": 3, "i1": 1}, "differs", "these taps have other weights")
    monkeypatch.setattr("irdeconv.verify.smt_report.prove", lambda *_: (answer, "text"))
    assert main([*pair, "--smt"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "smt FAIL up1: refuted: these taps have other weights (o1 = 3, i1 = 1)" in out
    assert main([*pair, "--smt", "--format", "json"]) == 1
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert content["passed"] is False
    assert content["smt"][0]["counterexample"] == {"o1": 3, "i1": 1}


def test_no_answer_is_no_failure(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Discharge("unknown", text="no answer within 1 s")
    monkeypatch.setattr("irdeconv.verify.smt_report.prove", lambda *_: (answer, ""))
    assert main([*pair, "--smt"]) == 0
    assert "smt: z3 proves 0 of 2 layers" in capsys.readouterr().out


def test_names_of_files() -> None:
    assert file_name(0, "up.0/deconv") == "00_up.0_deconv.smt2"
    assert file_name(12, "../..") == "12_layer.smt2"
    assert len(file_name(1, "x" * 500)) < 80


# Obligations of written models whose sizes are open: proved, or unknown with the reason.

RUN_TIME = [
    (auto_pad, source) for auto_pad in ("explicit", "same_upper", "same_lower", "valid")
    for source in ("const", "input", "computed")
]  # fmt: skip


@pytest.mark.parametrize(("auto_pad", "shape_source"), RUN_TIME)
def test_pads_that_follow_from_sizes(auto_pad: str, shape_source: str) -> None:
    made = layer(auto_pad=auto_pad, output_shape=(9, 8), output_padding=(0, 1))
    for shape in ([2, 2, 4, 3], [None, 2, 4, 3], [2, 2, None, 3], [2, 2, 4, None]):
        graph = source_of(made, shape, shape_source)
        for standard in (False, True):
            (ob,) = obligations(graph, lowered(graph, "zero-insertion", standard=standard))
            answer, text = prove(ob, SECONDS)
            assert answer, (shape, str(answer))
            assert ("declare-const output_shape" in text) == (shape_source == "input")


@pytest.mark.parametrize(("auto_pad", "shape_source"), RUN_TIME)
def test_several_open_axes(auto_pad: str, shape_source: str) -> None:
    """ZeroInsertion keeps axes apart. What is written merges them: no answer, and never a wrong."""
    made = layer(auto_pad=auto_pad, output_shape=(9, 8), output_padding=(0, 1))
    graph = source_of(made, [None, 2, None, None], shape_source)
    (ob,) = obligations(graph, lowered(graph, "zero-insertion"))
    answer, _ = prove(ob, SECONDS)
    assert answer, str(answer)
    (ob,) = obligations(graph, lowered(graph, "zero-insertion", standard=True))
    answer, _ = prove(ob, SECONDS)
    assert answer.verdict == "unknown"
    assert answer.text == "the product of (* 2 x_0_0) and x_0_2 is not linear"


@pytest.mark.parametrize("form", ["phases", "stacked"])
@pytest.mark.parametrize("strides", [(2, 2), (2, 3)])
def test_interleaving_of_several_open_axes(form: str, strides: tuple[int, int]) -> None:
    """DepthToSpace is followed at every size, Transposes only with one open axis."""
    made = layer(strides=strides, dilations=(1, 1), output_padding=(0, 0))
    for shape, answered in (([2, 2, None, 3], True), ([None, 2, None, None], strides == (2, 2))):
        graph = source_of(made, shape)
        (ob,) = obligations(graph, lowered(graph, form, standard=True))
        answer, _ = prove(ob, SECONDS)
        assert answer.verdict == ("proved" if answered else "unknown"), str(answer)
        assert answered or OPEN.search(answer.text)


def test_a_computed_bound_that_may_be_negative_is_not_proved() -> None:
    """The StridedSlice of computed pads; with one more cropped its end counts from the end."""
    made = layer(auto_pad="explicit", output_shape=(9, 8), output_padding=(0, 1))
    graph = source_of(made, [2, 2, None, 3])
    low = lowered(graph, "zero-insertion", standard=True)
    (ob,) = obligations(graph, low)
    assert prove(ob, SECONDS)[0]
    (crop,) = low.nodes("StridedSlice")
    limit = layers.constant(low, np.array([0, 0, 1000, 0]), "limit")
    inputs = [low.inputs_of(crop.id)[2], limit]
    less = low.add(REGISTRY["Subtract", "opset1"](), inputs, name="less")
    low.set_input(crop.id, 2, Value(less.id))
    (ob,) = obligations(graph, low)
    assert prove(ob, SECONDS)[0].verdict != "proved"


def test_channels_that_depend_on_pads_of_open_size() -> None:
    """What is interleaved is cut by pads that follow at run time."""
    made = layer(groups=None, kernel=(4, 2), strides=(4, 2), dilations=(1, 1), size=(4, 3))
    made = replace(made, auto_pad="same_upper", output_shape=(15, 5), output_padding=(0, 0))
    for shape in ([None, 1, 4, 3], [1, 1, None, 3], [2, 1, 4, None]):
        graph = source_of(made, shape)
        (ob,) = obligations(graph, lowered(graph, "gemm", standard=True))
        answer, text = prove(ob, SECONDS)
        assert answer, (shape, str(answer))
        axis = shape.index(None)
        position = {0: "", 2: " for o1 = (- (+ (* 4 q1) 3) (", 3: " for o2 = (- (+ (* 2 q2) 1) ("}
        assert f"which taps read the same element{position[axis]}" in text
