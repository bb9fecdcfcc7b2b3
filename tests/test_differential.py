"""Random graphs and mutants of IRs, irdeconv against a live OpenVINO."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.spec import DYNAMIC, Interval, Spec
from support.differential.evidence import ENLARGED, EXACT, WHOLE
from support.differential.explained import titles
from support.differential.graphs import random_graph
from support.differential.judging import contradiction
from support.differential.lenient import LENIENT, UNUSED, lenient
from support.differential.models import maker, random_model
from support.differential.trial import Model, Outcome, attempt
from support.differential.wholes import WHOLES
from support.live_operations.runtime import Runtime

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from support.differential.mutants import mutant  # noqa: E402
from support.differential.small import shrink_into  # noqa: E402

pytestmark = pytest.mark.oracles
pytest.importorskip("openvino")


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with Runtime() as made:
        yield made


def outcomes(runtime: Runtime, numbers: range, *, mutants: bool = False) -> list[Outcome]:
    models = map(maker(0, mutants=mutants), numbers)
    return [attempt(model, runtime) for model in models if model is not None]


def test_random_graphs_agree(runtime: Runtime) -> None:
    found = outcomes(runtime, range(20))
    assert not [o for o in found if not o.settled]
    assert sum(o.kind == "agree" for o in found) > 12


def test_mutants_agree_or_are_refused(runtime: Runtime) -> None:
    found = outcomes(runtime, range(30), mutants=True)
    assert not [o for o in found if not o.settled]
    assert sum(o.kind == "agree" for o in found) > 10
    assert sum(o.kind == "both refuse" for o in found) > 3


@pytest.mark.slow
@pytest.mark.parametrize("mutants", [False, True])
def test_many_agree(runtime: Runtime, mutants: bool) -> None:
    found = outcomes(runtime, range(400), mutants=mutants)
    assert not [o for o in found if not o.settled]


def test_mutants_repeat() -> None:
    first, again = mutant(3, 5), mutant(3, 5)
    assert first is not None
    assert again is not None
    assert first.xml == again.xml
    assert first.weights == again.weights
    other = mutant(3, 6)
    assert other is None or other.xml != first.xml


@pytest.mark.parametrize("number", [236, 253])
def test_the_number_of_outputs_is_always_known(number: int) -> None:
    """A VariadicSplit whose lengths are an input of open size has no known number of outputs."""
    assert random_model(11, number) is not None


@pytest.mark.parametrize(
    ("seed", "number", "why"),
    [
        (500, 1342, EXACT),
        (41, 702, WHOLE),
        (41, 330, ENLARGED),
        (500, 6947, "a HardSigmoid whose alpha is 0"),
    ],
)
def test_openvino_is_held_against_itself(
    runtime: Runtime, seed: int, number: int, why: str
) -> None:
    model = random_model(seed, number)
    assert model is not None
    assert attempt(model, runtime).why == why


def modelled(text: str, **feeds: np.ndarray) -> Model:
    return Model(*ir_bytes(ird.infer(ird.parse(text))), feeds)


def test_empty_texts_are_run(runtime: Runtime) -> None:
    text = """graph 1 "g" <ir_version = 11> {
  %0 "x" = opset1.Parameter() {shape = [2], element_type = string}
  %1 "apart" = opset15.StringTensorUnpack(%0)
  %2 "r" = opset1.Result(%1#1)
}"""
    assert attempt(modelled(text, x=np.array(["", ""], object)), runtime).kind == "agree"


def test_what_a_run_refuses_is_explained_by_the_layer(runtime: Runtime) -> None:
    """The chroma of 2 rows of luma has 1."""
    text = """graph 1 "g" <ir_version = 11> {
  %0 "y" = opset1.Parameter() {shape = [1, 2, 4, 1], element_type = u8}
  %1 "uv" = opset1.Parameter() {shape = [1, ?, 2, 2], element_type = u8}
  %2 "image" = opset8.NV12toBGR(%0, %1)
  %3 "r" = opset1.Result(%2)
}"""
    shapes = {"y": (1, 2, 4, 1), "uv": (1, 2, 2, 2)}
    model = modelled(text, **{n: np.zeros(s, np.uint8) for n, s in shapes.items()})
    outcome = attempt(model, runtime)
    assert outcome.kind == "only OpenVINO"
    assert outcome.why == "open planes of NV12 and I420 that do not fit"


def einsum_model(equation: str) -> Model:
    """A chain with an Einsum, which OpenVINO does not read where there are spaces."""
    text = f"""graph 1 "g" <ir_version = 11> {{
  %0 "x" = opset1.Parameter() {{shape = [2, 3], element_type = f32}}
  %1 "relu" = opset1.ReLU(%0)
  %2 "sum" = opset7.Einsum(%1) {{equation = "{equation}"}}
  %3 "tanh" = opset1.Tanh(%2)
  %4 "sine" = opset1.Sin(%0)
  %5 "r0" = opset1.Result(%3)
  %6 "r1" = opset1.Result(%4)
}}"""
    return Model(*ir_bytes(ird.infer(ird.parse(text))), {"x": np.ones((2, 3), np.float32)})


def test_a_graph_is_shrunk(runtime: Runtime, tmp_path: Path) -> None:
    model = einsum_model("i j -> j")
    outcome = attempt(model, runtime)
    assert outcome.kind == "only irdeconv"
    said = shrink_into(tmp_path, 7, model, outcome)
    assert '4 layers -> 1: Einsum "sum"' in said
    small = ird.infer(ird.read(tmp_path / "7.xml"))
    assert [n.type for n in small.nodes()] == ["Parameter", "Einsum", "Result"]
    assert list(np.load(tmp_path / "7.npz")) == list(small.inputs)


def test_a_file_that_is_not_read_is_shrunk(runtime: Runtime, tmp_path: Path) -> None:
    made = einsum_model("ij->j")
    wrong = b"FP64000".join(made.xml.rsplit(b"FP32", 1))
    model = Model(wrong, made.weights, made.feeds)
    outcome = attempt(model, runtime)
    assert outcome.kind == "only OpenVINO"
    assert "E212" in outcome.detail
    said = shrink_into(tmp_path, 8, model, outcome)
    before, after = map(int, re.findall(r"(\d+) lines -> (\d+)", said)[0])
    assert after < before / 2
    assert "FP64000" in said


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ('a:1:2: error[E212]: Slice "s": the precision "x" is not an element type', "ports"),
        ('a:1:2: error[E303]: SoftMax "s": data is i8; it must be a floating-point type', "elem"),
        ('a:1:2: error[E303]: Add "s": data is i8; it must be a floating-point type', ""),
        ('a:1:2: error[E500]: Add "s": batch_indices has 7 at 0; there are 2 images', ""),
        ("a:1:1: error[E209]: the model has no Result, so nothing of it is computed", "models"),
        ("something else", ""),
    ],
)
def test_leniency_is_of_one_code_and_operation(error: str, why: str) -> None:
    assert lenient(error).startswith(why)
    assert bool(lenient(error)) == bool(why)


def test_graphs_repeat() -> None:
    first, again = random_graph(3, 5), random_graph(3, 5)
    assert ird.dump(first.graph) == ird.dump(again.graph)
    assert all(np.array_equal(first.feeds[n], again.feeds[n]) for n in first.feeds)
    assert ird.dump(first.graph) != ird.dump(random_graph(3, 6).graph)


def test_graphs_have_what_they_should() -> None:
    """Of a hundred graphs: deconvolutions, several inputs and outputs, open sizes, most types."""
    graphs = [ird.infer(random_graph(4, n).graph) for n in range(60)]
    specs = [s for g in graphs for n in g.nodes() for s in [n.spec(0)] if n.type != "Result"]
    kinds = {str(s.dtype) for s in specs}
    assert {"f32", "f16", "bf16", "f64", "i64", "i32", "i8", "u8", "boolean"} <= kinds
    assert sum(any(n.op.deconvolution for n in g.nodes()) for g in graphs) > 10
    assert sum(len(g.inputs) > 1 and len(g.outputs) > 1 for g in graphs) > 20
    assert sum(not s.static for s in specs) > 40
    readers = [len({u for u, _ in g.users(v)}) for g in graphs for v in values(g)]
    assert max(readers) > 2


def values(graph: ird.Graph) -> list[ird.Value]:
    return [ird.Value(n.id) for n in graph.nodes() if n.type not in ("Result",)]


@pytest.mark.parametrize(
    ("spec", "array", "wrong"),
    [
        (Spec(ELEMENT_TYPES["f32"], (2, DYNAMIC)), np.zeros((2, 5), np.float32), ""),
        (Spec(ELEMENT_TYPES["f32"], (3, DYNAMIC)), np.zeros((2, 5), np.float32), "ran [2, 5]"),
        (Spec(ELEMENT_TYPES["f32"], None), np.zeros((2,), np.float64), "ran float64"),
        (
            Spec(ELEMENT_TYPES["i64"], (2,), np.array([Interval(1, 3), 4], object)),
            np.array([4, 4]),
            "value 1..3, ran 4",
        ),
    ],
)
def test_contradictions_are_seen(spec: Spec, array: np.ndarray, wrong: str) -> None:
    assert (wrong in contradiction(spec, array)) if wrong else not contradiction(spec, array)


def test_what_no_result_needs_is_not_looked_at() -> None:
    xml = einsum_model("ij->j").xml
    error = 'a:1:2: error[E301]: Tanh "tanh": arg has rank 3; it must be 4'
    assert not lenient(error, xml)
    assert (
        lenient(error, xml.replace(b'name="r0" type="Result"', b'name="r0" type="ReLU"')) == UNUSED
    )


@pytest.mark.parametrize(
    "title",
    sorted({*titles(), EXACT, WHOLE, ENLARGED, UNUSED, *(r.title for r in (*LENIENT, *WHOLES))}),
)
def test_reasons_are_documented(title: str) -> None:
    page = (ROOT / "docs/disagreements.md").read_text("utf-8")
    assert f"| {title} |" in page
