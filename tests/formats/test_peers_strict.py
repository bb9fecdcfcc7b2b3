"""`validate` refuses what OpenVINO does, nothing else: known kinds, mutants of single layers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import Diagnostic
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import ELEMENT_TYPES
from support import body_models as bm
from support.live.differences import reason_for
from support.live.judging import Kind, Verdict
from support.live.mutate import TYPES, Rng, cast, pick
from support.live.runtime import Runtime
from support.live.sample import Sample, answer, given, ir_of, layer
from support.live.sweep import sample_of, targets, verdict_of
from support.rows import each_row

NET = (
    '<net name="n" version="11"><layers><layer id="0" name="x" type="Parameter" version="opset1">'
    '<data element_type="f32" shape="1,4,2,2"/><output><port id="0" precision="FP32"><dim>1</dim>'
    "</port></output></layer>{}</layers><edges>{}</edges></net>"
)
TWICE = '<rt_info><attribute name="layout" version="0"/><b/><attribute version="0" name="layout"/>'
ATTRIBUTE = '<rt_info><attribute version="0" name="{}" {}="{}"/></rt_info>'


def noted(*attribute: str) -> tuple[str, str]:
    """Return a change that adds an attribute to the rt_info of the port that a Result reads."""
    bare = 'precision="FP32"/>'
    return bare, bare.replace("/>", f">{ATTRIBUTE.format(*attribute)}</port>")


KINDS = [
    ("ReLU-1", {}, "1,4,2,2", ("<dim>1<", "<dim>?<"), "E213"),
    ("ReLU-1", {}, "1,4,2,2", ("<dim>1<", "<dim>..<"), "E213"),
    ("ReLU-1", {}, "1,4,2,2", ("</output>", f"</output>{TWICE}</rt_info>"), "E108"),
    ("ReLU-1", {}, "1,4,2,2", noted("layout", "layout", "[N,,C]"), "E106"),
    ("ReLU-1", {}, "1,4,2,2", noted("layout", "layout", "[N,...,batch]"), "E106"),
    ("ReLU-1", {}, "1,4,2,2", noted("layout", "layout", "NCH"), "E301"),
    ("ReLU-1", {}, "1,4,2,2", noted("layout", "layout", "NCHWD..."), "E301"),
    ("ReLU-1", {}, "1,4,2,2", noted("old_api_map_order", "value", "0,x"), "E106"),
    ("ReLU-1", {}, "1,4,2,2", noted("old_api_map_element_type", "value", "FP16"), "E106"),
    ("ReLU-1", {}, "1,4,2,2", ('version="11"', 'version="11 "'), "E106"),
    ("ReLU-1", {}, "1,4,2,2", ('to-port="0"', 'to-port="0 "'), "E106"),
    ("DepthToSpace-1", {"mode": "blocks_first"}, "1,4,2,2", (), "E105"),
    ("ShapeOf-3", {}, "1,4,2,2", (), "E105"),
    ("GRUCell-6", {"hidden_size": "3"}, "1,4", ('"opset6"', '"extension"'), "E208"),
    ("AvgPool-1", {"kernel": "1,1", "strides": " "}, "1,1,2,2", (), "E106"),
    ("AvgPool-1", {"kernel": "2", "strides": "1", "auto_pad": "same_upper"}, "1,1,0", (), "E306"),
    ("MaxPool-1", {"kernel": "2,2", "strides": ""}, "1,1,2,2", (), "E210"),
]  # fmt: skip


def layers(name: str, texts: dict[str, str], shape: str) -> str:
    """Return an IR of one layer that reads x."""
    kind, _, opset = name.partition("-")
    data = " ".join(f'{k}="{v}"' for k, v in texts.items())
    edges = '<edge from-layer="{}" from-port="0" to-layer="{}" to-port="0"/>'
    made = (
        f'<layer id="1" name="y" type="{kind}" version="opset{opset}"><data {data}/><input>'
        '<port id="0"/></input><output><port id="0" precision="FP32"/></output></layer><layer '
        'id="2" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer>'
    )
    return NET.format(made, edges.format(0, 1) + edges.format(1, 2)).replace("1,4,2,2", shape)


def errors(xml: str, blob: bytes) -> list[Diagnostic]:
    """Return irdeconv's errors."""
    return [d for d in ird.validate(xml.encode(), blob or b"\0") if d.severity == "error"]


def refuses(xml: str, blob: bytes) -> list[str]:
    """Return the codes of irdeconv's errors."""
    return [d.code for d in errors(xml, blob)]


def refusal(d: Diagnostic) -> str:
    """Return an error, of a false declaration that of the layer that it does not fit."""
    behind = [n for n in d.notes if " does not fit: " in n.message]
    said = f"error[{d.code}]: {behind[0].message}" if behind else str(d)
    return said.replace(" does not fit: ", ": ", 1)


def read_error(xml: str, blob: bytes) -> str:
    """Return why OpenVINO does not read a model; empty where it does."""
    openvino = pytest.importorskip("openvino")
    try:
        weights = openvino.Tensor(np.frombuffer(blob or b"\0", np.uint8).copy())
        openvino.Core().read_model(xml.encode(), weights).validate_nodes_and_infer_types()
    except Exception as e:  # as various as its layers
        return str(e)
    return ""


@pytest.mark.oracles
@each_row(("name", "texts", "shape", "change", "code"), KINDS)
def test_known_kinds(name: str, texts: Any, shape: str, change: Any, code: str) -> None:
    xml = layers(name, texts, shape).replace(*(change or ("", "")), 1)
    assert code in refuses(xml, b"")
    assert read_error(xml, b"")


OTHERS = [
    ("Interpolate-11 mode=nearest // f8e4m3 ones[1,1,2,2] // const i64 [1,1,4,4]", "E303"),
    ("PriorBox-1 min_size=3.4028236e38 offset=0.5 // const i64 [2,2] // const i64 [4,4]", "E106"),
    ("PSROIPooling-1 output_dim=9 group_size=1 spatial_scale=1 mode=bilinear // f32 zeros[1,9,4,9]"
     " // f32 [[0,0,0,1,1]]", "E210"),
    ("GatherND-8 batch_dims=1 // f32 ones[2,3] // const i64 zeros[3,1]", "E302"),
    ("ConvolutionBackpropData-1 strides=x // f32 ones[1,1,2] // const f32 ones[1,1,2]", "E106"),
    ("Reshape-1 special_zero=true // open f32 ones[2] // const i64 [2,0]", "E305"),
    ("SparseFillEmptyRows-16 // f32 [1,2] // u32 [2,2] // u32 [[0,1],[1,0]] // f32 5", "E303"),
    ("Reshape-1 special_zero=false // open f32 ones[1,2] // const i64 [-1,0]", "E305"),
    ("GroupNormalization-12 num_groups=1 // f32 zeros[1,0,1] // f32 zeros[0] // f32 zeros[0]",
     "E302"),
]  # fmt: skip


@pytest.mark.oracles
@each_row(("text", "code"), OTHERS)
def test_known_kinds_of_several_inputs(text: str, code: str) -> None:
    xml, blob = ir_of(layer(text), [])
    assert code in refuses(xml, blob)
    assert read_error(xml, blob)


STATE = """graph 1 "m" <ir_version = 11> {
  %0 "x" = opset1.Parameter() {shape = [1, 2], element_type = f32}
  %1 "v" = opset6.ReadValue() {variable_id = "v", variable_shape = [1, 2], variable_type = f32}
  %2 "kept" = opset6.Assign(%0) {variable_id = "v"}
  %3 "y" = opset1.Result(%1)
}"""


@pytest.mark.oracles
@each_row(("name", "text", "code"), [("shape", "1,3", "E302"), ("type", "f16", "E303")])
def test_a_variable_has_its_shape_and_type(name: str, text: str, code: str) -> None:
    xml = ir_bytes(ird.infer(ird.parse(STATE)))[0].decode()
    other = re.sub(f'variable_{name}="[^"]*"', f'variable_{name}="{text}"', xml)
    assert (refuses(xml, b""), read_error(xml, b"")) == ([], "")
    assert refuses(other, b"") == [code]
    assert read_error(other, b"")


@pytest.mark.oracles
@each_row(
    ("given", "start", "declared", "code"),
    [
        (bm.loop(), 'name="a".*?', ("f32", "f16"), "E303"),
        (bm.branch(bm.parameter(0, "c", "", "boolean")), 'name="p".*?', ('"1,2"', '"1,3"'), "E302"),
        (bm.nested().text, 'name="row".*?', ('"1,2"', '"1"'), "E305"),
    ],
)
def test_a_body_fits_as_it_is_declared(given: str, start: str, declared: Any, code: str) -> None:
    """Though its inputs have the types and shapes of what is read."""
    xml, blob = ir_bytes(ird.infer(ird.parse(given)))
    assert (refuses(xml.decode(), blob), read_error(xml.decode(), blob)) == ([], "")
    other = re.sub(f"({start}){declared[0]}", rf"\1{declared[1]}", xml.decode(), flags=re.DOTALL)
    assert refuses(other, blob) == [code]
    assert read_error(other, blob)


ALLOWED = [
    "ROIAlignRotated-15 pooled_h=1 pooled_w=1 sampling_ratio=0 spatial_scale=1 clockwise_mode=true "
    "// f32 ones[1,1,4,4] // f32 [[2,2,0,4,0]] // const i32 [0]",
    "StridedSlice-1 begin_mask=0,0 // f32 ones[3,4] // i64 [0,0] // i64 [1,1] // i64 [1,1]",
    "SpaceToBatch-2 // f32 ones[2,6] // const i32 [1,2] // const i64 [0,0] // const i32 [0,0]",
    "DeformableConvolution-8 group=1 deformable_group=1 strides=1,1 // "
    "i32 ones[1,1,2,2] // i32 zeros[1,2,2,2] // i32 ones[1,1,1,1]",
    "TopK-3 axis=0 mode=max sort=value // outputs 2 // f32 [1,2] // const u8 1",
    *(f"GridSample-9 mode=bicubic padding_mode=border // {kind} [[[[9,127,127,8]]]] // f32 "
      "[[[[-0.3,0],[-0.2,0],[0.1,0],[0.4,0]]]]" for kind in ("i8", "u8", "i16", "i64")),
    *(f"{name} // const i16 [-4,-2,-1,0,1,2,3,8]" for name in (
        "Exp-1", "Sin-1", "Cos-1", "Tan-1", "Atan-1", "Sinh-1", "Cosh-1", "Asinh-4", "Tanh-1",
        "Erf-1", "Sigmoid-1", "HSwish-4", "HSigmoid-5", "Elu-1 alpha=0.7",
        "Clamp-1 min=-2.8 max=1.2",
    )),
    *(f"{name}-4 // const i64 [1,2,3,4,5,6,7]" for name in ("Sqrt", "Log", "Acosh")),
]  # fmt: skip


@pytest.mark.oracles
@each_row(("text",), ALLOWED)
def test_what_openvino_runs_is_valid(text: str) -> None:
    with Runtime() as runtime:
        assert verdict_of(layer(text), runtime).kind == "agree"


def mutants(count: int) -> Iterator[Sample]:
    """Yield layers of all operations with another text, element type or shape."""
    rng, every = np.random.default_rng(40), targets()
    for seed in range(count):
        sample = sample_of(every[int(rng.integers(len(every)))], seed)
        if sample is not None:
            yield mutated(rng, sample)


def mutated(rng: Rng, s: Sample) -> Sample:
    """Change an attribute, or the element type or the shape of an input."""
    if (s.attributes and rng.random() < 0.4) or not s.inputs:
        text = pick(rng, ("", " ", "x", "-1", "0", "1,1", "nan", "true", "f16", None))
        texts = {**s.attributes, pick(rng, list(s.attributes) or ["x"]): text}
        return replace(s, attributes={k: v for k, v in texts.items() if v is not None})
    at = int(rng.integers(len(s.inputs)))
    tensor = s.inputs[at].tensor
    if rng.random() < 0.5 and tensor.dtype.kind != "string":
        tensor = cast(tensor.values, ELEMENT_TYPES[pick(rng, TYPES)])
    else:
        shape = list(tensor.values.shape)
        shape = pick(rng, ([*shape, 1], [1, *shape], shape[1:], [0 for _ in shape], [2]))
        tensor = replace(tensor, values=np.resize(tensor.values, shape))
    made = given(tensor, constant=s.inputs[at].constant)
    return replace(s, inputs=(*s.inputs[:at], made, *s.inputs[at + 1 :]))


def judged(sample: Sample, runtime: Runtime) -> tuple[str, str]:
    """Return what both sides say of a mutant, and of a disagreement without a row what it is."""
    xml, blob = ir_of(sample, [])
    found, live = errors(xml, blob), runtime.ask(xml, blob, sample.feeds)
    both = f"{live.kind}, {'refused' if found else 'valid'}"
    if (live.kind == "ran") != bool(found):
        return both, ""
    if not found and answer(sample).kind == "refused":  # by its values
        return both, ""
    refused: Kind = "only irdeconv" if live.kind == "refused" else "OpenVINO crashes"
    verdict = Verdict("only OpenVINO" if found else refused, sample, live.message)
    verdict = replace(verdict, reason=refusal(found[0])) if found else verdict
    why = reason_for(verdict.finding, verdict, xml.encode())
    return both, "" if why else f"{verdict.kind}: {sample}: {verdict.reason[-300:]}"


@pytest.mark.oracles
def test_a_mutant_is_refused_by_both_or_by_neither() -> None:
    """Else a row of the table says why."""
    with Runtime() as runtime:
        rows = [judged(sample, runtime) for sample in mutants(100)]
    assert [why for _, why in rows if why] == []
    counts = Counter(both for both, _ in rows)
    assert min(counts["refused, refused"], counts["ran, valid"]) > 20
