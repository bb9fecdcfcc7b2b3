"""What OpenVINO's deconvolutions refuse: shapes, element types, lists, attribute texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.op import parse_attributes
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData as Conv
from irdeconv.ops.dialect_openvino import GroupConvolutionBackpropData as GroupConv
from support.layers import Layer, build, graph_of

I64 = np.int64


def f32(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


REJECTED = [
    # code, words of the message, operation, arrays
    ("E302", "data has 5 channels, the filter wants 4", Conv(), f32(1, 5, 3), f32(4, 2, 3)),
    (
        "E302",
        "data has 5 channels, the filter wants 6 = 2 groups x 3",
        GroupConv(),
        f32(1, 5, 3),
        f32(2, 3, 1, 3),
    ),
    ("E301", "data has rank 2", Conv(), f32(4, 3), f32(3, 2, 3)),
    ("E301", "data has rank 6", Conv(), f32(1, 1, 1, 1, 1, 1), f32(1, 1, 1, 1, 1, 1)),
    ("E301", "it has rank 3", Conv(), f32(1, 4, 3, 3), f32(4, 2, 3)),
    ("E301", "it has rank 4", GroupConv(), f32(1, 4, 3, 3), f32(4, 2, 3, 3)),
    ("E302", "the kernel has size 0 on spatial axis 0", Conv(), f32(1, 1, 3), f32(1, 1, 0)),
    ("E303", "data is f32, the filter f64", Conv(), f32(1, 1, 3), np.zeros((1, 1, 3))),
    (
        "E303",
        "boolean is not numeric",
        Conv(),
        np.zeros((1, 1, 3), bool),
        np.zeros((1, 1, 3), bool),
    ),
    ("E303", "output_shape is f32", Conv(), f32(1, 1, 3), f32(1, 1, 3), f32(1)),
    ("E304", "strides has 1 values for 2", Conv(strides=(2,)), f32(1, 1, 3, 3), f32(1, 1, 3, 3)),
    ("E304", "dilations has 3 values", Conv(dilations=(1, 1, 1)), f32(1, 1, 3), f32(1, 1, 3)),
    ("E304", "pads_begin has 2 values", Conv(pads_begin=(1, 1)), f32(1, 1, 3), f32(1, 1, 3)),
    ("E304", "pads_end has 2 values", Conv(pads_end=(1, 1)), f32(1, 1, 3), f32(1, 1, 3)),
    ("E304", "output_padding has 2", Conv(output_padding=(1, 1)), f32(1, 1, 3), f32(1, 1, 3)),
    ("E305", "output_shape has shape", Conv(), f32(1, 1, 3), f32(1, 1, 3), np.zeros(2, I64)),
    ("E305", "output_shape has shape", Conv(), f32(1, 1, 3), f32(1, 1, 3), np.array(3)),
    ("E305", "size -2 on spatial axis 0", Conv(), f32(1, 1, 3), f32(1, 1, 3), np.array([-2])),
    ("E306", "would have size -1 on", Conv(pads_begin=(6,)), f32(1, 1, 3), f32(1, 1, 3)),
]


@pytest.mark.parametrize("row", REJECTED, ids=lambda r: f"{r[0]} {r[1]}")
def test_rejections(row: Any) -> None:
    code, words, op, *arrays = row
    graph, feeds = graph_of(op, *arrays)
    with pytest.raises(ird.InferenceError) as raised:
        ird.infer(graph)
    (error,) = raised.value.diagnostics
    assert (error.code, error.severity, error.layer) == (code, "error", "deconv")
    assert words in error.message
    assert error.message.startswith(op.type)
    assert [d.code for d in ird.validate(graph) if d.severity == "error"] == [code]
    with pytest.raises(ird.InferenceError):
        ird.lower(graph)
    with pytest.raises(ird.InferenceError):
        ird.run(graph, feeds)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Conv(strides=(2, 0)), "strides must be at least 1, but is 0 on spatial axis 1"),
        (Conv(dilations=(-1, 1)), "dilations must be at least 1, but is -1 on spatial axis 0"),
        (Conv(strides=(2, 2), pads_end=(0,)), "strides has 2 values, pads_end 1"),
    ],
)
def test_attributes_are_checked_alone(op: Any, words: str) -> None:
    assert [p.message for p in op.check()] == [words]


def test_a_negative_size_at_run_time_is_an_execution_error() -> None:
    layer = Layer(1, (3,), None, 1, 1, (3,), (1,), (1,), (0,), (0,), (0,), output_shape=(2,))
    graph, feeds = build(layer, f32(1, 1, 3), f32(1, 1, 3), shape_source="input")
    feeds["output_shape"] = np.array([-2], I64)
    for form in (None, "zero-insertion"):
        with pytest.raises(ird.ExecutionError, match="E500"):
            ird.run(graph, feeds, form=form)


def test_attributes_from_text() -> None:
    values, problems = parse_attributes(
        Conv, {"strides": "2,3", "auto_pad": "Same_Upper", "pads_begin": " 1, -1", "pads_end": ""}
    )
    assert values == {
        "strides": (2, 3),
        "auto_pad": "same_upper",
        "pads_begin": (1, -1),
        "pads_end": (),
    }
    assert [(p.code, "dilations" in p.message) for p in problems] == [("W101", True)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"auto_pad": "notset"}, "E106"),
        ({"auto_pad": "same"}, "E106"),
        ({"strides": "2.7,2"}, "E106"),
        ({"strides": "2,,2"}, "E106"),
        ({"strides": "99999999999999999999"}, "E106"),
        ({"pad_begin": "1"}, "W100"),
        ({"semantics": "document"}, "W100"),
    ],
)
def test_bad_attribute_texts(data: dict[str, str], code: str) -> None:
    every = {"strides": "1", "pads_begin": "0", "pads_end": "0", "dilations": "1"}
    _, problems = parse_attributes(Conv, every | data)
    assert [p.code for p in problems] == [code]
