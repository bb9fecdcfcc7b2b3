"""Random layers of every operation, random graphs and mutants of IRs against a live OpenVINO."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.spec import DYNAMIC, Interval, Spec
from op_cases import f16, f32, i32
from support.live.differences import ENLARGED, EXACT, UNUSED, WHOLE, lenient
from support.live.graphs import random_graph, random_model
from support.live.judging import contradiction, judge
from support.live.runtime import Runtime
from support.live.sample import Answer, Model, Sample, given
from support.live.sweep import Table, sample_of, sweep, targets
from support.live.trial import Outcome, attempt
from support.rows import each_row

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from support.live.mutants import mutant
from support.processors import LACKS_AVX512

pytestmark = pytest.mark.oracles
pytest.importorskip("openvino")
LEAST = 0.97
Make = Callable[[int, int], "Model | None"]


def test_a_sample_of_the_operations_agrees() -> None:
    """Every fifth operation of the newest opset; few samples, so one more may differ."""
    table = Table()
    for row in sweep([t for t in targets() if t.opset == 16][::5], range(1)):
        table.add(*row)
    assert table.rate >= LEAST - 0.05, table.found


@pytest.mark.slow
def test_all_operations_agree() -> None:
    table = Table()
    for row in sweep(targets(), range(2)):
        table.add(*row)
    assert table.rate >= LEAST, table.rows()


def test_samples_repeat() -> None:
    target = next(t for t in targets() if t.type == "Concat")
    assert str(sample_of(target, 3)) == str(sample_of(target, 3))
    assert str(sample_of(target, 3)) != str(sample_of(target, 4))


ADD = Sample("Add", "opset1", {}, (given(f32([1, 2])), given(f32([3, 4]))))
TWO = (("f32", ((2, 2),)),)


def ran(values: object, specs: object = TWO) -> Answer:
    return Answer("ran", specs, (values,))  # type: ignore[arg-type]


@each_row(
    ("live", "ours", "kind", "reason"),
    [
        (ran(f32([4, 6]).values), ran(f32([4, 6]).values), "agree", ""),
        (ran(f32([4, 6]).values), ran(f32([4, 7]).values), "differ", "1 of 2 values; at [1] 7.0"),
        (ran(f32([4, 6]).values), ran(f32([4]).values), "differ", "shape [1], OpenVINO [2]"),
        (ran(f32([4, 6]).values), ran(f32([4, 6]).values, (("f16", None),)), "differ", "type f16"),
        (
            ran(f32([4, 6]).values),
            ran(f32([4, 6]).values, (("f32", ((3, -1),)),)),
            "differ",
            "inferred [3..-1], OpenVINO [2]",
        ),
        (Answer("refused", message="no"), ran(f32([4, 6]).values), "only irdeconv", "no"),
        (ran(f32([4, 6]).values), Answer("refused", message="E303"), "only OpenVINO", "E303"),
        (Answer("refused"), Answer("refused"), "both refuse", ""),
        (Answer("crashed"), Answer("refused"), "OpenVINO crashes", ""),
        (ran(f32([4, 6]).values), Answer("crashed", message="KeyError"), "differ", "KeyError"),
    ],
)  # fmt: skip
def test_verdicts(live: Answer, ours: Answer, kind: str, reason: str) -> None:
    verdict = judge(ADD, live, ours)
    assert verdict.kind == kind
    assert reason in verdict.reason


def test_an_open_size_that_openvino_knows_is_wider() -> None:
    verdict = judge(ADD, ran(f32([4, 6]).values), ran(f32([4, 6]).values, (("f32", None),)))
    assert (verdict.kind, verdict.wider) == ("agree", True)


def test_the_limit_is_that_of_the_narrowest_type() -> None:
    sample = Sample("PReLU", "opset1", {}, (given(f16([1.0])), given(f32([3.0]))))
    half = (("f32", ((1, 1),)),)
    assert judge(sample, ran(f32([1]).values, half), ran(f32([1.001]).values, half)).kind == "agree"
    whole = Sample("Abs", "opset1", {}, (given(i32([1])),))
    kinds = (("i32", ((1, 1),)),)
    assert judge(whole, ran(i32([1]).values, kinds), ran(i32([2]).values, kinds)).kind == "differ"


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with Runtime() as made:
        yield made


def outcomes(runtime: Runtime, make: Make, numbers: range) -> list[Outcome]:
    models = (make(0, number) for number in numbers)
    return [attempt(model, runtime) for model in models if model is not None]


def test_random_graphs_agree(runtime: Runtime) -> None:
    found = outcomes(runtime, random_model, range(20))
    assert not [o for o in found if not o.settled]
    assert sum(o.kind == "agree" for o in found) > 12


def test_mutants_agree_or_are_refused(runtime: Runtime) -> None:
    found = outcomes(runtime, mutant, range(30))
    assert not [o for o in found if not o.settled]
    assert sum(o.kind == "agree" for o in found) > 10
    assert sum(o.kind == "both refuse" for o in found) > 3


@pytest.mark.slow
@each_row("make", [random_model, mutant])
def test_many_agree(runtime: Runtime, make: Make) -> None:
    found = outcomes(runtime, make, range(400))
    assert not [o for o in found if not o.settled]


def test_mutants_repeat() -> None:
    first, again = mutant(3, 5), mutant(3, 5)
    assert first is not None
    assert again is not None
    assert first.xml == again.xml
    assert first.weights == again.weights
    other = mutant(3, 6)
    assert other is None or other.xml != first.xml


@each_row("number", [236, 253])
def test_the_number_of_outputs_is_always_known(number: int) -> None:
    """A VariadicSplit whose lengths are an input of open size has no known number of outputs."""
    assert random_model(11, number) is not None


@each_row(
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
    found = attempt(model, runtime).why
    assert found == why or (LACKS_AVX512 and why == ENLARGED and not found)


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


@each_row(
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
