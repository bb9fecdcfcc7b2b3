"""What explains a disagreement with OpenVINO is what a layer, or a graph, has: nothing else is."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import ELEMENT_TYPES
from op_cases import Tensor
from support.differential.explained import reason_for
from support.differential.judging import Finding
from support.differential.lenient import PORTS, RANGES, UNUSED, lenient
from support.differential.wholes import leaves_out, of_a_whole
from support.live_operations.sample import Given, Sample, given
from support.live_operations.verdict import Verdict


def layer(kind: str, *inputs: Given, **attributes: str) -> Sample:
    name, _, opset = kind.partition("-")
    return Sample(name, f"opset{opset}", attributes, inputs)


def held(dtype: str, values: object) -> Given:
    kind = ELEMENT_TYPES[dtype]
    return given(Tensor(kind, np.asarray(values, kind.container)))


def fixed(dtype: str, values: object) -> Given:
    return replace(held(dtype, values), constant=True)


def opened(g: Given) -> Given:
    return replace(g, declared=(-1,) * g.tensor.values.ndim)


IMAGE, FILTER = held("f32", np.ones((1, 4, 5, 2))), held("f32", np.ones((2, 2, 3, 1, 1)))
ONE, NONE = held("f32", np.ones((1, 4, 1, 1))), held("f32", np.ones((1, 4, 1, 0)))
X, AXIS = held("f32", [1, 2]), held("i64", [0])
PLANE, STEPS, PLACES = np.ones((1, 1, 2)), held("f32", np.ones((2, 3, 1))), held("i64", [2, 3])
LAYER = held("bf16", np.ones((1, 1, 1, 2, 2)))
ROW, BIAS = held("f32", [[1]]), held("f32", [1])
PADS = {"strides": "1,1", "dilations": "1,1", "pads_begin": "0,0"}
TO_NOTHING, EMPTY = fixed("i64", [0]), held("i32", [])
FIRST_AND_LAST = fixed("i64", [0, 2])
GROUPED, PDPD = "GroupConvolutionBackpropData-1", {"auto_broadcast": "pdpd"}
REFUSED, CRASHED = "only irdeconv", "OpenVINO crashes"
NO_KERNEL = "evaluate() is not implemented for op"
ODD = "axis element type must be either int64_t or int32_t but got (u8)"
ROWS = [
    (
        "a Broadcast of nothing",
        CRASHED,
        "its process ended",
        layer("Broadcast-3", EMPTY, TO_NOTHING, mode="numpy"),
        layer("Broadcast-3", opened(EMPTY), TO_NOTHING, mode="numpy"),
    ),
    (
        "lists of another integer type than i32 and i64, or of two types",
        REFUSED,
        ODD,
        layer("CumSum-3", held("u64", [1]), fixed("u8", 0)),
        layer("CumSum-3", held("u64", [1]), fixed("i32", 0)),
    ),
    (
        "a real transform of more than the data has",
        "values",
        "",
        layer("IRDFT-9", IMAGE, FIRST_AND_LAST, fixed("i64", [2, 7])),
        layer("IRDFT-9", IMAGE, FIRST_AND_LAST, fixed("i64", [1, 9])),
    ),
    (
        "data with an empty axis",
        CRASHED,
        "two runs give different numbers",
        layer(GROUPED, NONE, FILTER, pads_end="0,0", **PADS),
        layer(GROUPED, ONE, FILTER, pads_end="0,0", **PADS),
    ),
    (
        "layers without a kernel",
        REFUSED,
        NO_KERNEL,
        layer("Selu-1", X, held("f32", [1]), fixed("f32", [1])),
        layer("Selu-1", X, fixed("f32", [1]), fixed("f32", [1])),
    ),
    (
        "layers without a kernel",
        REFUSED,
        NO_KERNEL,
        layer("Divide-1", held("i8", [[1], [2]]), held("i8", [1, 2]), **PDPD),
        layer("Divide-1", held("i8", [1, 2]), held("i8", [1, 2]), **PDPD),
    ),
    (
        "real transforms whose axes or sizes are inputs",
        REFUSED,
        "Cannot get dims for non static shape",
        layer("RDFT-9", X, AXIS),
        layer("RDFT-9", opened(X), AXIS),
    ),
    (
        "Convolution with negative pads",
        REFUSED,
        "could not construct a memory descriptor using a format tag",
        layer("Convolution-1", IMAGE, IMAGE, pads_end="-1,0", **PADS),
        layer("Convolution-1", IMAGE, IMAGE, pads_end="1,0", **PADS),
    ),
    (
        "ranks that are not known",
        REFUSED,
        "doesn't support ReduceL2 operation with dynamic rank",
        layer("ReduceL2-4", X, AXIS, keep_dims="false"),
        layer("ReduceL2-4", X, fixed("i64", [0]), keep_dims="false"),
    ),
    (
        "ranks that are not known",
        REFUSED,
        "doesn't support Unsqueeze operation with dynamic rank",
        layer("Unsqueeze-1", X, AXIS),
        layer("Unsqueeze-1", X, fixed("i64", [0])),
    ),
    (
        "layers without a kernel",
        REFUSED,
        NO_KERNEL,
        layer("SquaredDifference-1", AXIS, AXIS, **PDPD),
        layer("SquaredDifference-1", X, X, **PDPD),
    ),
    (
        "layers without a kernel",
        REFUSED,
        NO_KERNEL,
        replace(layer("MaxPool-8", held("bf16", PLANE)), outputs=2),
        replace(layer("MaxPool-8", held("f16", PLANE)), outputs=2),
    ),
    (
        "pdpd of differences, quotients, comparisons, logic and bits",
        REFUSED,
        "Eltwise shape infer input shapes dim index: 1 mismatch",
        layer("Xor-1", held("boolean", [[1, 0]]), held("boolean", [1]), **PDPD),
        layer("Xor-1", held("boolean", [[1, 0]]), held("boolean", [[1, 0]]), **PDPD),
    ),
    (
        "a GatherTree of bf16",
        REFUSED,
        "has incorrect input/output data precision",
        layer("GatherTree-1", held("bf16", [1])),
        layer("GatherTree-1", held("f16", [1])),
    ),
    (
        "masks of StridedSlice of several lengths",
        REFUSED,
        "All masks of StridedSlice must have the same size",
        layer("StridedSlice-1", X, begin_mask="0,0", end_mask="0,0", shrink_axis_mask="1"),
        layer("StridedSlice-1", X, begin_mask="0,0", end_mask="0,0", shrink_axis_mask=""),
    ),
    (
        "an AvgPool of opset16 without strides or dilations",
        CRASHED,
        "its process ended",
        layer("AvgPool-16", IMAGE, strides="1,1"),
        layer("AvgPool-16", IMAGE, strides="1,1", dilations="1,1"),
    ),
    (
        "a MaxPool without strides",
        REFUSED,
        "Expected strides size to be equal to",
        layer("MaxPool-1", IMAGE, kernel="2,2"),
        layer("MaxPool-1", IMAGE, kernel="2,2", strides="1,1"),
    ),
    (
        "a Slice with a step beyond 31 bits",
        CRASHED,
        "its process ended",
        layer("Slice-8", X, AXIS, AXIS, fixed("i64", [-(2**31)])),
        layer("Slice-8", X, AXIS, AXIS, fixed("i64", [1 - 2**31])),
    ),
    (
        "priors of no places",
        CRASHED,
        "its process ended",
        layer("PriorBox-8", PLACES, PLACES, aspect_ratio="2"),
        layer("PriorBox-8", PLACES, PLACES, min_size="2"),
    ),
    (
        "a CTCLoss of no labels",
        CRASHED,
        "its process ended",
        layer("CTCLoss-4", IMAGE, AXIS, AXIS, held("i32", [2, 0])),
        layer("CTCLoss-4", IMAGE, AXIS, AXIS, held("i32", [2, 1])),
    ),
    (
        "regions behind an image of -1",
        "values",
        "",
        layer("ROIAlignRotated-15", IMAGE, X, held("i32", [0, -1])),
        layer("ROIAlignRotated-15", IMAGE, X, held("i32", [0, 0])),
    ),
    (
        "a Convolution of bf16 over one layer of one channel",
        "values",
        "",
        layer("Convolution-1", LAYER, LAYER, auto_pad="explicit", pads_begin="1,0,0"),
        layer("Convolution-1", LAYER, LAYER, auto_pad="explicit", pads_begin="0,1,0"),
    ),
    (
        "regions behind an image of -1",
        REFUSED,
        "node with name '3' realRois must be greater than 0",
        layer("ROIAlign-9", IMAGE, X, held("i32", [-1, 0])),
        layer("ROIAlign-9", IMAGE, X, held("i32", [0, -1])),
    ),
    (
        "integers beyond 32 bits",
        REFUSED,
        "overflow while converting elements to byte size",
        layer("Range-4", held("i64", 0), fixed("i64", 2**31), fixed("i64", 3)),
        layer("Range-4", held("i64", 0), fixed("i64", 2**31 - 1), fixed("i64", 3)),
    ),
    (
        "sequences of no steps",
        "values",
        "output 1: differs",
        layer("GRUSequence-5", STEPS, STEPS, held("i32", [2, 0]), hidden_size="1"),
        layer("GRUSequence-5", STEPS, STEPS, held("i32", [2, 1]), hidden_size="1"),
    ),
    (
        "a NaN that a cell clips",
        "values",
        "output 0: differs",
        layer("RNNCell-1", ROW, ROW, held("f32", [[np.nan]]), ROW, BIAS, hidden_size="1", clip="1"),
        layer("RNNCell-1", ROW, ROW, held("f32", [[np.inf]]), ROW, BIAS, hidden_size="1", clip="1"),
    ),
    (
        "places of SparseFillEmptyRows out of order",
        "values",
        "output 1: differs",
        layer("SparseFillEmptyRows-16", X, AXIS, held("i64", [[0, 1], [0, 1]]), X),
        layer("SparseFillEmptyRows-16", X, AXIS, held("i64", [[0, 1], [1, 0]]), X),
    ),
    (
        "integers beyond 32 bits",
        "values",
        "output 0: differs",
        layer("Convert-1", held("f32", [np.nan]), destination_type="i64"),
        layer("Convert-1", held("f32", [np.nan]), destination_type="i32"),
    ),
    (
        "a Roll of several axes by one shift",
        REFUSED,
        "'shift' and 'axes' dimensions mismatch",
        layer("Roll-7", IMAGE, fixed("i64", [1]), fixed("i64", [0, 1])),
        layer("Roll-7", IMAGE, fixed("i64", [1]), fixed("i64", [0])),
    ),
]


def test_of_two_layers_of_one_id_the_first_is_not_looked_at() -> None:
    xml = b"""<net><layers>
<layer id="0" name="x" type="Parameter"/>
<layer id="1" name="first" type="ReLU"/>
<layer id="1" name="second" type="ReLU"/>
<layer id="3" name="y" type="Result"/>
</layers><edges><edge from-layer="0" to-layer="1"/>
<edge from-layer="1" to-layer="3"/></edges></net>"""
    for line, name, title in ((3, "first", PORTS), (4, "second", "")):
        assert lenient(f'm.xml:{line}:1: error[E301]: ReLU "{name}": it is wrong', xml) == title


@pytest.mark.parametrize(
    ("ratio", "title"), [("-1", "a sampling_ratio below 0"), ("1", ""), ("x", "")]
)
def test_attributes_are_looked_at_in_the_file(ratio: str, title: str) -> None:
    xml = f"""<net><layers>
<layer id="1" name="r" type="ROIAlign" version="opset3"><data sampling_ratio="{ratio}"/></layer>
<layer id="3" name="y" type="Result"/>
</layers><edges><edge from-layer="1" to-layer="3"/></edges></net>"""
    error = 'm.xml:2:1: error[E210]: ROIAlign "r": sampling_ratio must not be negative'
    assert lenient(error, xml.encode()) == title


@pytest.mark.parametrize(("shape", "title"), [("1,?,2", RANGES), ("0,3", RANGES), ("1,10,2", "")])
def test_an_axis_is_looked_at_where_there_are_data(shape: str, title: str) -> None:
    error = 'm.xml:2:1: error[E305]: CumSum "c": axis 11 is outside a tensor of rank 3 (-3 to 2)'
    assert lenient(f'{error}\nnote: data is f16[{shape}] from "x"') == title


SHAPE_ONLY = """graph 1 "m" <ir_version = 11> {
  %0 "x" = opset1.Parameter() {shape = [?], element_type = f32}
  %1 "to" = opset1.Const() {element_type = i64, shape = [2], data = [2, 3]}
  %2 "moved" = opset1.Reshape(%0, %1) {special_zero = false}
  %3 "shape" = opset3.ShapeOf(%2) {output_type = i64}
  %4 "y" = opset1.Result(%3)
  %5 "z" = opset1.Result(%0)
}"""


def test_what_only_a_known_shape_is_read_of_is_left_out() -> None:
    graph = ird.infer(ird.parse(SHAPE_ONLY))
    error = 'm.xml:2:1: error[E500]: {} "{}": it does not fit'
    assert leaves_out(graph, error.format("Reshape", "moved"))
    assert not leaves_out(graph, error.format("Parameter", "x"))
    assert not leaves_out(graph, "m.xml:2:1: error[E500]: it does not fit")


def test_of_two_layers_of_one_name_the_line_tells_which() -> None:
    """What no Result needs is told by its place."""
    xml = b"""<net><layers>
<layer id="0" name="x" type="Parameter"/>
<layer id="1" name="twin" type="ReLU"/>
<layer id="2" name="twin" type="ReLU"/>
<layer id="3" name="y" type="Result"/>
</layers><edges><edge from-layer="0" to-layer="1"/><edge from-layer="0" to-layer="2"/>
<edge from-layer="1" to-layer="3"/></edges></net>"""
    for line, title in ((3, ""), (4, UNUSED)):
        assert lenient(f'm.xml:{line}:1: error[E301]: ReLU "twin": it is wrong', xml) == title


@pytest.mark.parametrize(("why", "kind", "message", "sample", "other"), ROWS)
def test_a_reason_is_what_the_layer_has(
    why: str, kind: str, message: str, sample: Sample, other: Sample
) -> None:
    """The same fault of a layer that has nothing of the kind is not explained."""
    for one, title in ((sample, why), (other, "")):
        alone = Verdict("differ" if kind == "values" else kind, one, message)  # type: ignore[arg-type]
        assert reason_for(Finding(kind, one.type, message), alone) == title
    assert reason_for(Finding(kind, sample.type, message), None) == ""


LOOP = """graph 1 "m" <ir_version = 11> {{
  %0 "x" = opset1.Parameter() {{shape = [1, 2], element_type = f32}}
  %1 "trips" = opset1.Const() {{element_type = i32, shape = [], data = [{trips}]}}
  %2 "begins" = opset1.Const() {{element_type = boolean, shape = [], data = b"AQ=="}}
  %3 "loop" = opset5.Loop(%1, %2, %0)
    body {{inputs = [[0, 2]], outputs = [[2, none, none, true], [1, 0]], edges = [[1, 0]]}} {{
      %0 "a" = opset1.Parameter() {{shape = [1, 2], element_type = f32}}
      %1 "again" = opset1.Result(%0)
      %3 "go" = opset1.Const() {{element_type = boolean, shape = [], data = b"AQ=="}}
      %2 "going" = opset1.Result(%3)
    }}
  %4 "out" = opset1.Result(%3)
}}"""


@pytest.mark.parametrize(
    ("trips", "begins", "message", "why"),
    [
        (-2, 1, "overflow while multiplying dim", "a Loop of a trip_count below -1"),
        (0, 1, "Shape mismatch for tensor iterator", "a Loop that never begins"),
        (3, 255, "Shape mismatch for tensor iterator", "booleans that are neither 0 nor 1"),
        (3, 1, "Shape mismatch for tensor iterator", ""),
        (-1, 1, "overflow while multiplying dim", ""),
    ],
)
def test_a_loop_is_explained_by_its_numbers(
    trips: int, begins: int, message: str, why: str
) -> None:
    xml, weights = ir_bytes(ird.infer(ird.parse(LOOP.format(trips=trips))))
    offset = re.search(rb'name="begins".*?offset="(\d+)"', xml, re.DOTALL)
    assert offset is not None
    at = int(offset[1])
    weights = weights[:at] + bytes([begins]) + weights[at + 1 :]
    graph = ird.infer(ird.read(xml, weights))
    assert of_a_whole(Finding(REFUSED, "", message), graph) == why
