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
    NHWC,
    ONEDNN,
    ONNX,
    TENSORRT,
    VERSIONS,
    DialectLayer,
    build,
    problems,
)
from support.rows import each_row

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
    given = {k: v for k, v in (OF.get(version, PLAIN) | changes).items() if v is not None}
    made = DialectLayer(version, 1, (3, 4), 2, 2, 3, (3, 2), given, bias=0)
    return replace(made, **fields)


ALL_ONNX = (*ONNX, *NHWC)
# versions, changes, code, attribute, words of the message
REJECTED: list[tuple[tuple[str, ...], dict[str, Any], str, str | None, str]] = [
    # Every system.
    (VERSIONS, {"surplus": 2}, "E302", None, "data has 6 channels, the filter wants 4"),
    (VERSIONS, {"ranks": 1}, "E301", None, "it must be 4"),
    (VERSIONS, {"bias": 1}, "E302", None, "the bias has 7 values for 6 output channels"),
    # oneDNN Graph.
    ((ONEDNN,), {"strides": None}, "E105", None, '"strides" is missing'),
    ((ONEDNN,), {"pads_begin": None}, "E105", None, '"pads_begin" is missing'),
    ((ONEDNN,), {"pads_end": None}, "E105", None, '"pads_end" is missing'),
    ((ONEDNN,), {"dilations": None}, "E105", None, '"dilations" is missing'),
    ((ONEDNN,), {"strides": (0, 1)}, "E210", "strides", "[0, 1]; each value must be positive"),
    ((ONEDNN,), {"dilations": (1, -1)}, "E210", "dilations", "each value must be positive"),
    ((ONEDNN,), {"strides": ()}, "E210", "strides", "strides is empty"),
    ((ONEDNN,), {"pads_begin": (-1, 0)}, "E304", "pads_begin", "no negative value"),
    ((ONEDNN,), {"pads_end": (-2, 0)}, "E304", "pads_end", "less than the stride 2 only"),
    ((ONEDNN,), {"pads_end": (-1, 0), "semantics": "document"}, "E304", "pads_end", "negative"),
    ((ONEDNN,), {"output_padding": (2, 0)}, "E304", "output_padding", "must be less than 2"),
    ((ONEDNN,), {"output_padding": (0, -1)}, "E304", "output_padding", "no negative value"),
    ((ONEDNN,), {"output_padding": (0,)}, "E304", "output_padding", "output_padding has 1 values"),
    ((ONEDNN,), {"pads_begin": (0, 0, 0)}, "E304", "pads_begin", "pads_begin has 3 values"),
    ((ONEDNN,), {"groups": 0}, "E210", "groups", "positive"),
    ((ONEDNN,), {"groups": 3}, "E304", "groups", "3 groups do not divide"),
    ((ONEDNN,), {"auto_pad": "notset"}, "E106", "auto_pad", '"notset" is not one of'),
    ((ONEDNN,), {"data_format": "NHWC"}, "E106", "data_format", '"NHWC" is not one of'),
    ((ONEDNN,), {"weights_format": "OIHW"}, "E106", "weights_format", '"OIHW" is not one of'),
    ((ONEDNN,), {"filter_format": "XIO"}, "E210", "weights_format", "two names of one attribute"),
    ((ONEDNN,), {"kernel": (0, 2)}, "E302", None, "the kernel has size 0 on spatial axis 0"),
    ((ONEDNN,), {"pads_begin": (7, 0)}, "E306", None, "would have size 0 on spatial axis 0"),
    ((ONEDNN,), {"pads_begin": (9, 0)}, "E306", None, "would have size -2 on spatial axis 0"),
    # ONNX and its channels-last operations.
    (ALL_ONNX, {"strides": (0, 1)}, "E210", "strides", "[0, 1]; each value must be positive"),
    (ALL_ONNX, {"dilations": (1, 0)}, "E210", "dilations", "0]; each value must be positive"),
    (ALL_ONNX, {"group": 0}, "E210", "group", "positive"),
    (ALL_ONNX, {"group": 3}, "E304", "group", "3 groups do not divide"),
    (
        ALL_ONNX,
        {"strides": (1,), "output_padding": (0, 0)},
        "E304",
        "strides",
        "strides has 1 values",
    ),
    (ALL_ONNX, {"pads": (0, 0, 0)}, "E304", "pads", "2 spatial axes need 4"),
    (ALL_ONNX, {"pads": (0, -1, 0, 0)}, "E210", "pads", "each value must not be negative"),
    (
        ALL_ONNX,
        {"pads": (0, 0, 0, 0), "auto_pad": "VALID"},
        "E210",
        "pads",
        "pads cannot be given together with auto_pad=VALID",
    ),
    (ALL_ONNX, {"auto_pad": "same_upper"}, "E106", "auto_pad", "did you mean"),
    (ALL_ONNX, {"kernel_shape": (2, 3)}, "E304", "kernel_shape", "the filter's kernel [3,2]"),
    (ALL_ONNX, {"output_padding": (2, 0)}, "E304", "output_padding", "must be less than 2"),
    (
        ALL_ONNX,
        {"output_padding": (0, 3), "semantics": "document"},
        "E304",
        "output_padding",
        "must be less than 3",
    ),
    (ALL_ONNX, {"output_padding": (0, -1)}, "E210", "output_padding", "not be negative"),
    (ALL_ONNX, {"output_shape": (7, 15)}, "E306", "output_shape", "4 inputs give 12"),
    (ALL_ONNX, {"output_shape": (9, 1)}, "E306", "output_shape", "with output_padding at most 8"),
    (ALL_ONNX, {"output_shape": (7,)}, "E304", "output_shape", "output_shape has 1 values"),
    (ONNX[1:], {"output_shape": (1, 6, 7, 9)}, "E304", "output_shape", "has 4 values"),
    (ALL_ONNX, {"output_shape": (7, 0)}, "E306", None, "would have size 0"),
    (ALL_ONNX, {"output_shape": (7, -1)}, "E210", "output_shape", "not be negative"),
    (ALL_ONNX, {"kernel": (3, 0)}, "E302", None, "the kernel has size 0 on spatial axis 1"),
    (ALL_ONNX, {"pads": (4, 0, 3, 0)}, "E306", None, "would have size 0"),
    (NHWC, {"activation": "Gelu"}, "E106", "activation", '"Gelu" is not one of'),
    (NHWC, {"activation": "LeakyRelu"}, "E210", "activation_params", "it takes 1: alpha"),
    (NHWC, {"activation_params": (1.0,)}, "E210", "activation_params", "without an activation"),
    (
        NHWC,
        {"activation": "Clip", "activation_params": (1.0,)},
        "E210",
        "activation_params",
        "it takes 2: min, max",
    ),
    (
        NHWC,
        {"activation": "Relu", "activation_params": (0.0, 6.0)},
        "E210",
        "activation_params",
        "it takes 0: none",
    ),
    # TensorRT.
    ((TENSORRT,), {"kernel_size": None}, "E105", None, '"kernel_size" is missing'),
    ((TENSORRT,), {"num_output_maps": None}, "E105", None, '"num_output_maps" is missing'),
    ((TENSORRT,), {"kernel_size": (0, 2)}, "E210", "kernel_size", "[0, 2]; each value must"),
    ((TENSORRT,), {"kernel_size": (2, 2)}, "E304", "kernel_size", "the filter's kernel [3,2]"),
    ((TENSORRT,), {"stride": (0, 2)}, "E210", "stride", "[0, 2]; each value must"),
    ((TENSORRT,), {"dilation": (0, 2)}, "E210", "dilation", "[0, 2]; each value must"),
    ((TENSORRT,), {"stride": (1, 1, 1)}, "E304", "stride", "stride has 3 values"),
    ((TENSORRT,), {"pre_padding": (-1, 0)}, "E304", "pre_padding", "no negative value"),
    ((TENSORRT,), {"post_padding": (0, -1)}, "E304", "post_padding", "no negative value"),
    ((TENSORRT,), {"num_groups": 0}, "E210", "num_groups", "positive"),
    ((TENSORRT,), {"num_groups": 3}, "E304", "num_groups", "3 groups do not divide"),
    ((TENSORRT,), {"num_output_maps": 5}, "E304", "num_groups", "do not divide 5 output maps"),
    ((TENSORRT,), {"num_output_maps": 4}, "E304", "num_output_maps", "the kernel gives 6"),
    (
        (TENSORRT,),
        {"padding": (1, 1), "pre_padding": (1, 1)},
        "E210",
        "padding_nd",
        "besides pre_padding or post_padding",
    ),
    *(
        (
            (TENSORRT,),
            {"padding_mode": mode, "pre_padding": (1, 0), "post_padding": (0, 0)},
            "E210",
            "padding_mode",
            "is ambiguous",
        )
        for mode in ("CAFFE_ROUND_DOWN", "CAFFE_ROUND_UP", "kCAFFE_ROUND_UP")
    ),
    ((TENSORRT,), {"padding_mode": "SAME"}, "E106", "padding_mode", '"SAME" is not one of'),
    ((TENSORRT,), {"pre_padding": (7, 0)}, "E306", None, "would have size 0"),
]  # fmt: skip


@each_row(("version", "row"), [(version, row) for row in REJECTED for version in row[0]])
def test_rejections(version: str, row: Any) -> None:
    _, changes, code, attribute, words = row
    found = problems(layer(version, **changes))
    assert [p.code for p in found] == [code], found
    assert found[0].attribute == attribute
    assert words in found[0].message
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


ACCEPTED = {
    ONEDNN: ("f32", "f16", "bf16"),
    TENSORRT: ("f32", "f16", "bf16", "i8"),
    "onnx_opset22": ("f32", "f16", "bf16", "f64"),
}


@each_row("version", VERSIONS)
def test_every_element_type(version: str) -> None:
    for name in ("f64", "f32", "f16", "bf16", "i8", "u8", "i32", "i64"):
        made = replace(layer(version), c=4, m=4)
        if version == TENSORRT:
            made = replace(made, attributes=made.attributes | {"num_output_maps": 8})
        specs = tuple(Spec(ELEMENT_TYPES[name], s) for s in made.shapes)
        if name in ACCEPTED.get(version, ("f64", "f32", "f16")):
            assert infer_op(made.op, specs)[0].dtype == ELEMENT_TYPES[name]
        else:
            with pytest.raises(OpError, match=f"data is {name}"):
                infer_op(made.op, specs)


@each_row(
    ("groups", "c", "m", "words"),
    [
        (1, 4, 8, ""),
        (2, 4, 4, ""),
        (3, 8, 4, ""),
        (1, 2, 4, "2 channels in 1 groups make 2"),
        (2, 2, 4, "multiple of 4 input channels; 4 channels in 2 groups make 2"),
        (2, 4, 6, "multiple of 4 output channels; 12 channels in 2 groups make 6"),
    ],
)
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


WARNINGS = [
    (ONEDNN, {"auto_pad": "valid"}, "W301", "pads_begin and pads_end are required and ignored"),
    (ONEDNN, {"weights_format": "OIX"}, "W301", "the other spelling"),
    (ONEDNN, {"pads_end": (-1, 0)}, "W301", "pads_end [-1, 0] has negative values"),
    (ONNX[1], {"output_shape": (7, 9), "pads": (1, 1, 1, 1)}, "W301", "so pads are ignored"),
    (ONNX[0], {"output_shape": (1, 6, 7, 9)}, "W301", "output_shape has 4 values"),
    (ONNX[0], {"output_shape": (6, 12)}, "W300", "an odd total is split differently"),
    (NHWC[1], {"output_shape": (6, 12)}, "W300", "an odd total is split differently"),
    (ONNX[1], {"strides": (4, 3), "auto_pad": "SAME_UPPER"}, "W301", "shorter than the stride"),
    (TENSORRT, {"padding_mode": "SAME_LOWER", "padding": (1, 1)}, "W301", "overrides the given"),
]


def warnings(made: DialectLayer) -> list[Any]:
    graph, _ = build(made, [np.zeros(s, np.float32) for s in made.shapes])
    return [d for d in ird.validate(graph) if d.severity != "note"]


@each_row(("version", "changes", "code", "words"), WARNINGS)
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
