"""Single layers in live OpenVINO: op_cases, ties of scores, narrow types, strings, bodies.

Every row of op_cases goes there as an IR of one layer; an operation that OpenVINO does not know as
irdeconv writes it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from lxml import etree

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.constant import decode
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Value
from irdeconv.ir.op import REGISTRY, as_tuple, lookup
from irdeconv.ir.spec import DYNAMIC, Interval, Spec
from irdeconv.rewrite.standardize import standardize
from op_cases import ROUNDING, Case, Tensor, differs, f16, f32, first_rows, i32, i64
from support import body_models as bm
from support.layers import begun, constant, result
from support.live.differences import ENLARGED, EXACT, UNUSED, WHOLE, lenient, reason_for
from support.live.graphs import random_graph, random_model
from support.live.judging import contradiction, judge
from support.live.runtime import Asked, Runtime
from support.live.sample import (
    PLAIN,
    Answer,
    Model,
    Sample,
    answer,
    build,
    given,
    ir_of,
    plain_name,
)
from support.live.sweep import Table, sweep, targets
from support.live.sweep import sample_of as drawn
from support.live.trial import Outcome, attempt
from support.processors import LACKS_AVX512
from support.rows import each_row, parts
from support.runtime_truth import outputs, outputs_of_each

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from support.live.mutants import mutant

ov = pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

# Every row of op_cases in live OpenVINO, through an IR of one layer.

# The CPU plugin computes exp, erf and their like by polynomials of up to this many rounded steps.
POLYNOMIAL = 16
TOGETHER = 40  # rows that become one model


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with Runtime() as made:
        yield made


def is_constant(row: Case, i: int) -> bool:
    """Whether an input is a constant: lists of axes, scalars, types that no tensor is passed in."""
    t = row.inputs[i]
    listed = (t.dtype.is_integral and t.values.ndim <= 1) or t.values.size == 1
    return t.dtype.name not in PLAIN or (i > 0 and listed)


def sample_of(row: Case) -> Sample:
    inputs = tuple(given(t, constant=is_constant(row, i)) for i, t in enumerate(row.inputs))
    texts = {k: str(v) for k, v in etree.fromstring(f"<data {row.attributes}/>").items()}
    return Sample(row.type, row.version, texts, inputs, len(row.outputs))


def asked(row: Case) -> Asked:
    """Return the row as a model; outputs of unusual types become i32 or f32."""
    sample, cls = sample_of(row), lookup(row.type, row.version)
    if cls is None or cls.standard:
        text, blob = ir_of(sample, [plain_name(t.dtype) for t in row.outputs])
    else:
        xml, blob = ir_bytes(standardize(ird.infer(build(sample))))
        text = xml.decode()
    return text, blob, sample.feeds


def difference(row: Case, runtime: Runtime) -> str:
    """Run the row; return how OpenVINO differs, or why it refuses."""
    try:
        live = runtime.ask(*asked(row))
    except ird.UnsupportedError as e:
        return f"it cannot be written: {e}"
    if row.defect:
        verdict = judge(sample_of(row), live, answer(sample_of(row)))
        if verdict.kind != "agree":  # within the engine's wider limits
            assert reason_for(verdict.finding, verdict) == row.defect
    if live.kind != "ran":
        return f"OpenVINO {live.kind}: {live.message}"
    limit = max(row.tolerance, POLYNOMIAL * ROUNDING)
    found = [differs(g, w, limit) for g, w in zip(live.arrays, row.outputs, strict=True)]
    return "; ".join(f for f in found if f)


def check_rows(rows: dict[str, Case], runtime: Runtime) -> None:
    plain = [row for row in rows.values() if not (row.crash or row.defect)]
    for at in range(0, len(plain), TOGETHER):
        runtime.ask_ahead([*map(asked, plain[at : at + TOGETHER])])
    each_row("row", rows)(lambda row: check(row, runtime))()


def check(row: Case, runtime: Runtime) -> None:
    if row.crash:
        return
    found = difference(row, runtime)
    if row.defect:
        assert found, f"the listed defect is gone: {row.defect}"
    elif not (LACKS_AVX512 and depends_on_the_processor(row)):
        assert found == ""


def depends_on_the_processor(row: Case) -> bool:
    """Whether a result is bf16, which is not rounded everywhere, or a mean of integers."""
    kinds = {t.dtype.name for t in row.outputs}
    return "bf16" in kinds or (row.type == "AvgPool" and "i32" in kinds)


@pytest.mark.parametrize("others", parts(1, [False, True]))
def test_openvino_agrees(runtime: Runtime, others: bool) -> None:
    check_rows(first_rows(others=others), runtime)


# Equal scores in live OpenVINO: which boxes come first decides which are kept.


def agrees(op: str, attributes: str, inputs: list[Tensor], kind: Any, runtime: Runtime) -> None:
    """Compare what irdeconv computes with the live runtime."""
    row = Case(op, attributes, tuple(inputs), ())
    outs = as_tuple(row.build()[0].evaluate(*(t.values for t in inputs)))
    wanted = tuple((f32 if o.dtype == np.float32 else kind)(o) for o in outs)
    assert difference(Case(op, attributes, tuple(inputs), wanted), runtime) == ""


def ties(r: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    """Return scores of which many are equal."""
    return f32(r.integers(0, r.choice([2, 5, 30]), shape) / 32 + 0.0625)


def boxes(r: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    low = r.integers(0, 30, (*shape, 2))
    return f32(np.concatenate([low, low + r.integers(2, 12, (*shape, 2))], -1))


@each_row("count", [7, 16, 17, 40, 300, 3000])
def test_top_regions(count: int, runtime: Runtime) -> None:
    r = np.random.default_rng(count)
    inputs = [boxes(r, (count,)), ties(r, (count,))]
    most = count if count % 2 else count // 2
    op = "ExperimentalDetectronTopKROIs-6"
    agrees(op, f'max_rois="{most}"', inputs, f32, runtime)


@each_row("seed", range(6))
def test_proposals(seed: int, runtime: Runtime) -> None:
    r = np.random.default_rng(seed)
    info, anchors = f32([[40, 50, 1]]), boxes(r, (5, 6, 3))
    inputs = [info, anchors, f32(r.normal(0, 0.1, (1, 12, 5, 6))), ties(r, (1, 3, 5, 6))]
    before = r.choice([20, 89, 90])
    limits = f'nms_threshold="0.5" pre_nms_count="{before}" post_nms_count="30" min_size="3"'
    agrees("GenerateProposals-9", limits, inputs, i64, runtime)


@each_row("seed", range(6))
def test_matrix_nms(seed: int, runtime: Runtime) -> None:
    r = np.random.default_rng(seed)
    inputs = [boxes(r, (2, 60)), ties(r, (2, 2, 60))]
    text = f'nms_top_k="{r.choice([-1, 20, 59])}" keep_top_k="40"'
    agrees("MatrixNms-8", text, inputs, i64, runtime)


# f16 and bf16: sums in f32, stored rounded once, within one unit of OpenVINO's results.

CORE = ov.Core()
TYPES = [np.float16, ml_dtypes.bfloat16]
LAYERS: dict[str, tuple[Any, ...]] = {
    "Convolution 3x3": ("Convolution", (1, 8, 12, 10), (6, 8, 3, 3), (1, 1), (1, 1)),
    "Convolution 1x1": ("Convolution", (2, 16, 7, 9), (5, 16, 1, 1), (1, 1), (0, 0)),
    "Convolution stem": ("Convolution", (1, 3, 20, 18), (8, 3, 5, 5), (2, 2), (2, 1)),
    "depthwise": ("GroupConvolution", (1, 6, 9, 11), (6, 1, 1, 3, 3), (1, 2), (1, 0)),
    "Deconvolution k4s2": ("ConvolutionBackpropData", (1, 8, 6, 5), (8, 6, 4, 4), (2, 2), (1, 1)),
    "Deconvolution k2s2": ("ConvolutionBackpropData", (2, 8, 6, 5), (8, 3, 2, 2), (2, 2), (0, 0)),
    "grouped": ("GroupConvolutionBackpropData", (1, 6, 7, 4), (2, 3, 5, 3, 3), (3, 2), (0, 1)),
}


def steps_apart(a: Any, b: Any) -> Any:
    """Count the representable numbers from a to b, element by element."""
    keys = []
    for v in (a, b):
        bits = np.ascontiguousarray(v).view(np.int16).astype(np.int64)
        keys.append(np.where(bits < 0, -(bits & 0x7FFF), bits))
    return np.abs(keys[0] - keys[1])


@each_row("dtype", TYPES)
@each_row("name", list(LAYERS))
def test_one_unit_from_openvino(name: str, dtype: Any, tmp_path: Path) -> None:
    kind, shape, filter_shape, strides, pads = LAYERS[name]
    rng = np.random.default_rng(len(name))
    x = rng.standard_normal(shape).astype(dtype)
    terms = np.prod(filter_shape) / max(filter_shape[0], 1)
    w = (rng.standard_normal(filter_shape) / np.sqrt(terms)).astype(dtype)
    g, data = begun(shape, dtype)
    op = REGISTRY[kind, "opset1"](strides=strides, pads_begin=pads, pads_end=pads, dilations=(1, 1))
    y = Value(g.add(op, [data, constant(g, w, "w")], name="layer").id)
    result(g, Value(g.add(REGISTRY["ReLU", "opset1"](), [y], name="relu").id))
    path = tmp_path / "net.xml"
    ird.write(g, path)
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    request = CORE.compile_model(CORE.read_model(path), "CPU", config).create_infer_request()
    element = ov.Type.f16 if dtype is np.float16 else ov.Type.bf16
    request.set_input_tensor(ov.Tensor(x.view(np.uint16), list(shape), element))
    request.infer()
    want = request.get_output_tensor().data
    want = np.frombuffer(want.tobytes(), dtype).reshape(want.shape)
    for fuse in (True, False):
        got = ird.run(ird.infer(g), {"x": x}, fuse=fuse)["y"]
        assert got.dtype == dtype
        # Sums near zero cancel: there one unit is that of the terms, not of the sum.
        unit = float(ml_dtypes.finfo(dtype).eps) * float(np.abs(want.astype(np.float32)).max())
        near = np.abs(got.astype(np.float32) - want.astype(np.float32)) <= unit * 2.0**-10
        assert np.all(near | (steps_apart(got, want) <= 1)), (name, fuse)


# Strings from a model input to its outputs, written, and the same in OpenVINO.


def test_strings_are_taken_apart_and_put_together(tmp_path: Path) -> None:
    o = pytest.importorskip("openvino.opset16")
    text = o.parameter([-1, 2], ov.Type.string)
    parts = o.string_tensor_unpack(text)
    whole = o.string_tensor_pack(*(parts.output(i) for i in range(3)))
    turned = o.gather(whole, o.constant([1, 0]), o.constant(0))
    results = [o.result(turned.output(0)), o.result(parts.output(2))]
    ov.save_model(ov.Model(results, [text]), tmp_path / "m.xml")
    graph = ird.read(tmp_path / "m.xml")
    assert ird.validate(graph) == []
    ird.write(graph, tmp_path / "written.xml")
    given = np.array([["ab", "é"], ["", "xyz"]])
    theirs = outputs(tmp_path / "written.xml", [given])
    ours = ird.run(graph, [given]).values()
    assert [a.tolist() for a in ours] == [a.tolist() for a in theirs]
    assert [a.tolist() for a in ours] == [[["", "xyz"], ["ab", "é"]], [*"abéxyz".encode()]]


# Packed element types against a live OpenVINO: random bytes, converted to f32 by both.

IR = """<net name="m" version="11"><layers>
<layer id="0" name="c" type="Const" version="opset1">
<data element_type="{type}" shape="{count}" offset="0" size="{size}"/>
<output><port id="0" precision="{precision}"><dim>{count}</dim></port></output></layer>
<layer id="1" name="v" type="Convert" version="opset1"><data destination_type="f32"/>
<input><port id="0"/></input>
<output><port id="1" precision="FP32"><dim>{count}</dim></port></output></layer>
<layer id="2" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>"""


PACKED = "u1 u2 u3 u4 u6 i4 nf4 f4e2m1 f8e4m3 f8e5m2 f8e8m0 bf16".split()


@each_row("count", [1, 3, 8, 13, 64, 101])
def test_decodes_like_openvino(count: int) -> None:
    models, ours = [], []
    for dtype in map(ELEMENT_TYPES.__getitem__, PACKED):
        raw = np.random.default_rng(count).integers(0, 256, dtype.nbytes(count), dtype=np.uint8)
        xml = IR.format(type=dtype, count=count, size=len(raw), precision=dtype.precision)
        models.append(((xml.encode(), raw.tobytes()), []))
        ours.append(decode(raw.tobytes(), dtype, (count,)).astype(np.float32))
    for name, got, (expected,) in zip(PACKED, ours, outputs_of_each(models), strict=True):
        # OpenVINO flushes denormal numbers to zero.
        got[np.abs(got) < np.finfo(np.float32).tiny] = 0
        np.testing.assert_array_equal(got, expected, err_msg=name)


# Loops and branches in live OpenVINO, from the files that irdeconv writes.


@each_row("given", bm.MODELS)
def test_openvino_runs_bodies_alike(given: bm.BodyModel) -> None:
    graph = ird.infer(ird.parse(given.text))
    feeds = [given.feeds[name] for name in graph.inputs]
    try:
        made = outputs(ir_bytes(graph), feeds)
    except RuntimeError:
        assert given.peer
        return
    pairs = list(zip(made, given.outputs, strict=True))
    if given.peer:
        assert not all(np.array_equal(got, want) for got, want in pairs)
        return
    for got, want in pairs:
        np.testing.assert_array_equal(got, want, strict=True)


@each_row("name", ["nested", "carried", "while", "growing"])
def test_compare_runs_a_loop_as_one_layer(name: str) -> None:
    given = bm.MODELS[name]
    report = ird.compare(ird.parse(given.text), "openvino", given.feeds)
    assert report.passed, str(report)


def test_compare_gives_openvino_the_layers_that_assign_what_is_read() -> None:
    for text in (bm.state(), bm.state(bm.const(1, [[10.0, 20.0]]), "(%1)")):
        report = ird.compare(ird.parse(text), "openvino", {"x": bm.ONE})
        assert report.passed, str(report)


# Random layers of every operation, random graphs and mutants of IRs against a live OpenVINO.


LEAST = 0.97
Make = Callable[[int, int], "Model | None"]


def test_a_sample_of_the_operations_agrees() -> None:
    """Every eighth operation of the newest opset; few samples, so one more may differ."""
    table = Table()
    for row in sweep([t for t in targets() if t.opset == 16][::8], range(1)):
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
    assert str(drawn(target, 3)) == str(drawn(target, 3))
    assert str(drawn(target, 3)) != str(drawn(target, 4))


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


def outcomes(runtime: Runtime, make: Make, numbers: range) -> list[Outcome]:
    models = (make(0, number) for number in numbers)
    return [attempt(model, runtime) for model in models if model is not None]


def test_random_graphs_agree(runtime: Runtime) -> None:
    found = outcomes(runtime, random_model, range(8))
    assert not [o for o in found if not o.settled]
    assert sum(o.kind == "agree" for o in found) > 4


def test_mutants_agree_or_are_refused(runtime: Runtime) -> None:
    found = outcomes(runtime, mutant, range(20))
    assert not [o for o in found if not o.settled]
    assert sum(o.kind == "agree" for o in found) > 6
    assert sum(o.kind == "both refuse" for o in found) > 1


@pytest.mark.slow
@each_row("make", [random_model, mutant])
def test_many_agree(runtime: Runtime, make: Make) -> None:
    assert not [o for o in outcomes(runtime, make, range(400)) if not o.settled]


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
        (500, 6947, "a HardSigmoid or Selu by 0"),
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
    assert max([len({u for u, _ in g.users(v)}) for g in graphs for v in values(g)]) > 2


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
