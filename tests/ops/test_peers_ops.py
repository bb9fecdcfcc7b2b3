"""Single layers in live OpenVINO: op_cases, ties of scores, narrow types, strings, bodies.

Every row of op_cases goes there as an IR of one layer; an operation that OpenVINO does not know as
irdeconv writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from lxml import etree

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY, as_tuple, lookup
from irdeconv.ir.packing import decode
from op_cases import ROUNDING, Case, Tensor, all_cases, differs, f32, i64
from support import body_models as bm
from support.layers import constant, parameter, result
from support.live.differences import reason_for
from support.live.judging import judge
from support.live.runtime import Runtime
from support.live.sample import PLAIN, Answer, Sample, answer, build, given, ir_of, plain_name
from support.processors import LACKS_AVX512
from support.rows import each_row
from support.runtime_truth import outputs

ov = pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

# Every row of op_cases in live OpenVINO, through an IR of one layer.

# The CPU plugin computes exp, erf and their like by polynomials of up to this many rounded steps.
POLYNOMIAL = 16


Live = tuple[Runtime, Path]  # with a folder for what irdeconv writes


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with Runtime() as made:
        yield made, tmp_path_factory.mktemp("rows")


def is_constant(row: Case, i: int) -> bool:
    """Whether an input is a constant: lists of axes, scalars, types that no tensor is passed in."""
    t = row.inputs[i]
    listed = (t.dtype.is_integral and t.values.ndim <= 1) or t.values.size == 1
    return t.dtype.name not in PLAIN or (i > 0 and listed)


def sample_of(row: Case) -> Sample:
    inputs = tuple(given(t, constant=is_constant(row, i)) for i, t in enumerate(row.inputs))
    texts = {k: str(v) for k, v in etree.fromstring(f"<data {row.attributes}/>").items()}
    return Sample(row.type, row.version, texts, inputs, len(row.outputs))


def run(row: Case, runtime: Runtime, folder: Path) -> Answer:
    """Run the row; outputs of unusual types become i32 or f32."""
    sample, cls = sample_of(row), lookup(row.type, row.version)
    if cls is None or cls.standard:
        text, blob = ir_of(sample, [plain_name(t.dtype) for t in row.outputs])
    else:
        ird.write(ird.infer(build(sample)), path := folder / "written.xml")
        text, blob = path.read_text("utf-8"), path.with_suffix(".bin").read_bytes()
    return runtime.ask(text, blob, sample.feeds)


def difference(row: Case, runtime: Runtime, folder: Path) -> str:
    """Run the row; return how OpenVINO differs, or why it refuses."""
    try:
        live = run(row, runtime, folder)
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


def every_third(*, others: bool) -> dict[str, Case]:
    """Return every third row of each operation, or all the others."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for name, row in all_cases().items():
        if bool(seen[row.type, row.version] % 3) == others:
            found[name] = row
        seen[row.type, row.version] += 1
    return found


def check(row: Case, live: Live) -> None:
    if row.crash:
        return
    found = difference(row, *live)
    if row.defect:
        assert found, f"the listed defect is gone: {row.defect}"
    elif not (LACKS_AVX512 and depends_on_the_processor(row)):
        assert found == ""


def depends_on_the_processor(row: Case) -> bool:
    """Whether a result is bf16, which is not rounded everywhere, or a mean of integers."""
    kinds = {t.dtype.name for t in row.outputs}
    return "bf16" in kinds or (row.type == "AvgPool" and "i32" in kinds)


@each_row("row", lambda: every_third(others=False))
def test_openvino_agrees(row: Case, live: Live) -> None:
    check(row, live)


@pytest.mark.slow
@each_row("row", lambda: every_third(others=True))
def test_openvino_agrees_in_the_other_rows(row: Case, live: Live) -> None:
    check(row, live)


# Equal scores in live OpenVINO: which boxes come first decides which are kept.


def agrees(op: str, attributes: str, inputs: list[Tensor], kind: Any, live: Live) -> None:
    """Compare what irdeconv computes with the live runtime."""
    row = Case(op, attributes, tuple(inputs), ())
    outs = as_tuple(row.build()[0].evaluate(*(t.values for t in inputs)))
    wanted = tuple((f32 if o.dtype == np.float32 else kind)(o) for o in outs)
    assert difference(Case(op, attributes, tuple(inputs), wanted), *live) == ""


def ties(r: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    """Return scores of which many are equal."""
    return f32(r.integers(0, r.choice([2, 5, 30]), shape) / 32 + 0.0625)


def boxes(r: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    low = r.integers(0, 30, (*shape, 2))
    return f32(np.concatenate([low, low + r.integers(2, 12, (*shape, 2))], -1))


@each_row("count", [7, 16, 17, 40, 300, 3000])
def test_top_regions(count: int, live: Live) -> None:
    r = np.random.default_rng(count)
    inputs = [boxes(r, (count,)), ties(r, (count,))]
    most = count if count % 2 else count // 2
    op = "ExperimentalDetectronTopKROIs-6"
    agrees(op, f'max_rois="{most}"', inputs, f32, live)


@each_row("seed", range(6))
def test_proposals(seed: int, live: Live) -> None:
    r = np.random.default_rng(seed)
    info, anchors = f32([[40, 50, 1]]), boxes(r, (5, 6, 3))
    inputs = [info, anchors, f32(r.normal(0, 0.1, (1, 12, 5, 6))), ties(r, (1, 3, 5, 6))]
    before = r.choice([20, 89, 90])
    limits = f'nms_threshold="0.5" pre_nms_count="{before}" post_nms_count="30" min_size="3"'
    agrees("GenerateProposals-9", limits, inputs, i64, live)


@each_row("seed", range(6))
def test_matrix_nms(seed: int, live: Live) -> None:
    r = np.random.default_rng(seed)
    inputs = [boxes(r, (2, 60)), ties(r, (2, 2, 60))]
    text = f'nms_top_k="{r.choice([-1, 20, 59])}" keep_top_k="40"'
    agrees("MatrixNms-8", text, inputs, i64, live)


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
    g = Graph()
    data = parameter(g, shape, dtype, "x")
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


@each_row(
    "name",
    ["u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1", "f8e4m3", "f8e5m2", "f8e8m0", "bf16"],
)
@each_row("count", [1, 3, 8, 13, 64, 101])
def test_decodes_like_openvino(name: str, count: int) -> None:
    dtype = ELEMENT_TYPES[name]
    raw = np.random.default_rng(count).integers(0, 256, dtype.nbytes(count), dtype=np.uint8)
    xml = IR.format(type=name, count=count, size=len(raw), precision=dtype.precision)
    (expected,) = outputs((xml.encode(), raw.tobytes()))
    got = decode(raw.tobytes(), dtype, (count,)).astype(np.float32)
    # OpenVINO flushes denormal numbers to zero.
    got[np.abs(got) < np.finfo(np.float32).tiny] = 0
    np.testing.assert_array_equal(got, expected)


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
