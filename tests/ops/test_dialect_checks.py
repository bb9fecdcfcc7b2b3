"""What each system's deconvolution refuses: code, attribute, words of every rule; warnings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32
from irdeconv.ir.op import REGISTRY, infer_op, parse_attributes
from irdeconv.ir.spec import Spec
from support.dialect_layers import (
    DIALECTS,
    NHWC,
    ONEDNN,
    ONNX,
    TENSORRT,
    TYPES,
    VERSIONS,
    DialectLayer,
    build,
    problems,
)
from support.rows import each_row, tables

TABLES = tables(__file__)

PADS = {"pads_begin": (1, 0), "pads_end": (0, 1)}
LISTS = {"strides": (2, 3), "dilations": (1, 2)}
OF: dict[str, dict[str, Any]] = {
    ONEDNN: LISTS | PADS | {"groups": 2, "data_format": "NCX", "weights_format": "IOX"},
    TENSORRT: {
        "kernel_size": (3, 2), "num_output_maps": 6, "num_groups": 2,
        "stride": (2, 3), "dilation": (1, 2),
    },
}  # fmt: skip
PLAIN = LISTS | {"group": 2}


def layer(version: str, **changes: Any) -> DialectLayer:
    """Two groups of two inputs and three outputs, 3x4 data, kernel 3x2; changed attributes."""
    fields = {
        k: changes.pop(k) for k in ("bias", "surplus", "ranks", "kernel", "size") if k in changes
    }
    given = {k: v for k, v in (OF.get(version, PLAIN) | changes).items() if v != ""}
    made = DialectLayer(version, 1, (3, 4), 2, 2, 3, (3, 2), given, bias=0)
    return replace(made, **fields)


SYSTEMS = {**DIALECTS, "every": VERSIONS, "onnx": (*ONNX, *NHWC), "onnx_from_11": ONNX[1:]}
REJECTED = [
    (version, *row)
    for system, rows in TABLES["rejected"].items()
    for row in rows
    for version in SYSTEMS[system]
]


@each_row(("version", "changes", "code", "attribute", "words"), REJECTED)
def test_rejections(
    version: str, changes: dict[str, Any], code: str, attribute: str, words: str
) -> None:
    found = problems(layer(version, **changes))
    assert [p.code for p in found] == [code], found
    assert (found[0].attribute or "") == attribute
    assert words in f"{found[0].message}; {found[0].hint}"
    assert problems(layer(version)) == []


@each_row("version", VERSIONS)
@each_row(
    ("types", "words"),
    [
        (("i32", "i32"), "data is i32"),
        (("f32", "f16"), "data is f32 and"),
        (("f32", "f32", "f16"), "bias is f16"),
        (("boolean", "boolean"), "data is boolean"),
    ],
)
def test_element_types(version: str, types: tuple[str, ...], words: str) -> None:
    made = layer(version)
    specs = [
        Spec(t, s) for t, s in zip(map(ELEMENT_TYPES.__getitem__, types), made.shapes, strict=False)
    ]
    with pytest.raises(OpError) as raised:
        infer_op(made.op, tuple(specs))
    assert raised.value.problem.code == "E303"
    assert words in str(raised.value)


@each_row("version", VERSIONS)
def test_every_element_type(version: str) -> None:
    for name in ("f64", "f32", "f16", "bf16", "i8", "u8", "i32", "i64"):
        made = replace(layer(version), c=4, m=4)
        if version == TENSORRT:
            made = replace(made, attributes=made.attributes | {"num_output_maps": 8})
        specs = tuple(Spec(ELEMENT_TYPES[name], s) for s in made.shapes)
        if name in TYPES[version]:
            assert infer_op(made.op, specs)[0].dtype == ELEMENT_TYPES[name]
        else:
            with pytest.raises(OpError, match=f"data is {name}"):
                infer_op(made.op, specs)


@each_row(("groups", "c", "m", "words"), TABLES["int8_groups_of_tensorrt"])
def test_int8_groups_of_tensorrt(groups: int, c: int, m: int, words: str) -> None:
    """The group size, channels / groups, is a multiple of 4."""
    attributes = {"kernel_size": (1, 1), "num_output_maps": m * groups, "num_groups": groups}
    found = problems(DialectLayer(TENSORRT, 1, (2, 2), groups, c, m, (1, 1), attributes), np.int8)
    assert [p.code for p in found] == (["E303"] if words else [])
    assert [p.attribute for p in found if words not in p.message] == []


def test_tensorrt_has_two_or_three_axes() -> None:
    for axes in (1, 2, 3, 4):
        attributes = {"kernel_size": (1,) * axes, "num_output_maps": 1}
        made = DialectLayer(TENSORRT, 1, (2,) * axes, 1, 1, 1, (1,) * axes, attributes)
        assert [p.code for p in problems(made)] == ([] if axes in (2, 3) else ["E301"])


@each_row("text", ["NXC", "nxc"])
def test_onednn_reads_any_case(text: str) -> None:
    made = layer(ONEDNN)
    values, found = parse_attributes(made.cls, made.texts() | {"data_format": text})
    assert found == []
    assert values["data_format"] == "NXC"


def warnings(made: DialectLayer) -> list[Any]:
    graph, _ = build(made, [np.zeros(s, np.float32) for s in made.shapes])
    return [d for d in ird.validate(graph) if d.severity != "note"]


@each_row(("version", "changes", "code", "words"), TABLES["warnings"])
def test_warnings(version: str, changes: dict[str, Any], code: str, words: str) -> None:
    made = layer(version, **changes)
    assert problems(made) == []
    found = warnings(made)
    assert [d.code for d in found if words in d.message] == [code], found


@each_row("version", VERSIONS)
def test_no_warnings_without_reason(version: str) -> None:
    assert warnings(layer(version)) == []


@each_row("version", ONNX[1:])
def test_versions_whose_text_is_the_runtime_do_not_warn(version: str) -> None:
    assert warnings(layer(version, output_shape=(6, 12))) == []


def test_layers_that_are_alike_but_for_a_value_are_told_apart() -> None:
    """What inference remembers of a layer must not be taken for another one."""
    op = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2))
    data, filter = Spec(f32, (1, 2, 5, 5)), Spec.of(np.ones((2, 3, 3, 3), np.float32))
    assert infer_op(op, (data, filter)) == (Spec(f32, (1, 3, 11, 11)),)
    for size in (9, 10, 9):
        wanted = Spec.of(np.array([size, size + 1]))
        assert infer_op(op, (data, filter, wanted)) == (Spec(f32, (1, 3, size, size + 1)),)
    assert infer_op(op, (Spec(f32, (1, 2, 4, 5)), filter)) == (Spec(f32, (1, 3, 9, 11)),)
    assert infer_op(replace(op, strides=(1, 2)), (data, filter)) == (Spec(f32, (1, 3, 7, 11)),)


def test_of_constant_data_the_values_are_computed_beside_unknown_data() -> None:
    op = REGISTRY["ConvolutionBackpropData", "opset1"]()
    x, w = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2), np.full((1, 1, 1, 1), 3.0, "f4")
    assert infer_op(op, (Spec(f32, x.shape), Spec.of(w)))[0].value is None
    for _ in range(2):
        known = infer_op(op, (Spec.of(x), Spec.of(w)))[0].value
        assert known is not None
        assert known.tolist() == (3 * x).tolist()
