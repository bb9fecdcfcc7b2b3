"""Warnings where systems diverge, attributes that do not fit, declarations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY, Op, parse_attributes
from irdeconv.ir.spec import Spec
from irdeconv.ops.recurrent import LSTMCell, LSTMCell1, LSTMSequence
from irdeconv.ops.reduction import ReduceL1, ReduceL2
from support import irbuild as ib
from support.hostile import FOLDER
from support.layers import constant, parameter, result
from support.rows import each_row

# Validation warns of every layer that documents, formulas and runtimes read differently.

OPENVINO, ONEDNN, TENSORRT = "opset1", "onednn_graph_1", "tensorrt"
ONNX1, ONNX11, NHWC = "onnx_opset1", "onnx_opset11", "com.ms.internal.nhwc_11"
PADS = {"pads_begin": "0", "pads_end": "0", "dilations": "1"}
TYPES = {OPENVINO: "ConvolutionBackpropData", TENSORRT: "Deconvolution"}


def found(
    version: str,
    data: Any,
    filter: Any,
    attributes: dict[str, str],
    *,
    output_shape: Any = None,
    semantics: str = "runtime",
    dtype: Any = np.float32,
) -> list[tuple[str, str, str]]:
    """Validate a layer; return code, severity and message of what is not an error."""
    cls = REGISTRY[TYPES.get(version, "ConvTranspose"), version]
    values, problems = parse_attributes(cls, attributes)
    assert [p for p in problems if p.severity == "error"] == []
    if semantics != "runtime":
        values["semantics"] = semantics
    g = Graph()
    inputs = [parameter(g, data, dtype, "x"), constant(g, np.ones(filter, dtype), "w")]
    if output_shape is not None:
        inputs.append(constant(g, np.array(output_shape, np.int64), "shape"))
    result(g, Value(g.add(cls(**values), inputs, name="deconv").id))
    diagnostics = ird.validate(g)
    assert [str(d) for d in diagnostics if d.severity == "error"] == []
    return [(d.code, d.severity, d.message) for d in diagnostics]


X, W = (1, 1, 4), (1, 1, 3)
STRIDE = {"strides": "2"}
ROWS: dict[str, tuple[str, str, Any]] = {
    # statement: code, words, the layer
    "explicit pads with output_shape": (
        "W300",
        "runtime begins the output at (2,) of the full scatter, the published formula at (1,)",
        (OPENVINO, X, W, {"pads_begin": "2"}, {"output_shape": [4]})),
    "explicit pads with output_shape, sizes unknown": (
        "W300", "the published formula at a place that depends on the sizes",
        (OPENVINO, (1, 1, None), W, {"pads_begin": "2"}, {"output_shape": [4]})),
    "valid with output_shape": (
        "W300",
        "runtime begins the output at (0,) of the full scatter, the published formula at (1,)",
        (OPENVINO, X, W, {"auto_pad": "valid"}, {"output_shape": [4]})),
    "valid with a negative total": (
        "W300", "at (0,) of the full scatter, the published formula at (-1,)",
        (OPENVINO, X, W, {"auto_pad": "valid"}, {"output_shape": [8]})),
    "same_* with a negative total": (
        "W300", "at (0,) of the full scatter, the published formula at (-1,)",
        (OPENVINO, X, W, {"auto_pad": "same_lower"}, {"output_shape": [8]})),
    "same_upper with an odd total": (
        "W301", "put the odd element at the begin, the document's prose at the end",
        (OPENVINO, X, W, {"auto_pad": "same_upper"}, {"output_shape": [5]})),
    "same_lower with an odd total": (
        "W301", "put the odd element at the end, the document's prose at the begin",
        (OPENVINO, X, W, {"auto_pad": "same_lower"}, {"output_shape": [5]})),
    "negative output_padding": (
        "W301",
        "output_padding is -1 on spatial axis 0: the runtime takes a negative one as a crop",
        (OPENVINO, X, W, {"output_padding": "-1"}, {})),
    "OpenVINO in f64": (
        "W303", "the OpenVINO CPU plugin computes f64 in f32",
        (OPENVINO, X, W, {}, {"dtype": np.float64})),
    "OpenVINO in i32": (
        "W303", "the OpenVINO CPU plugin computes i32 in f32",
        (OPENVINO, X, W, {}, {"dtype": np.int32})),
    "oneDNN: pads with auto_pad": (
        "W301", "auto_pad=same_upper: pads_begin and pads_end are required and ignored",
        (ONEDNN, (1, 4, 1), (3, 1, 1), PADS | STRIDE
         | {"auto_pad": "same_upper", "pads_begin": "1"}, {})),
    "oneDNN: a kernel shorter than the stride under same_*": (
        "W300",
        "on spatial axes [0] the kernel is shorter than the stride; the document's total is "
        "negative there, the library takes 0",
        (ONEDNN, (1, 4, 1), (3, 1, 1), PADS | {"strides": "4", "auto_pad": "same_lower"}, {})),
    "oneDNN: output_padding of a stride, by the document": (
        "W301", "output_padding [2] is not below the strides [2]: the library refuses it",
        (ONEDNN, (1, 4, 1), (3, 1, 1), PADS | STRIDE | {"output_padding": "2"},
         {"semantics": "document"})),
    "oneDNN: the other spelling's filter format": (
        "W301", "weights_format=XIO: a value of the other spelling",
        (ONEDNN, (1, 4, 1), (3, 1, 1), PADS | STRIDE | {"weights_format": "XIO"}, {})),
    "oneDNN: no filter format": (
        "W300", "the document's default is XIO, which irdeconv reads, the library's is XOI",
        (ONEDNN, (1, 4, 2), (3, 2, 2), PADS | STRIDE, {})),
    "ONNX 1: an odd total": (
        "W300",
        "ONNX Runtime begins the output at [0] of the full scatter, the formula printed for this "
        "version at [1]",
        (ONNX1, X, W, STRIDE | {"auto_pad": "SAME_UPPER"}, {})),
    "ONNX 1: an odd total, sizes unknown": (
        "W300",
        "begins the output at [1] of the full scatter, the formula printed for this version at [0]",
        (ONNX1, (1, 1, None), W, STRIDE | {"auto_pad": "SAME_LOWER"}, {})),
    "ONNX 1: an odd total of output_shape": (
        "W300",
        "begins the output at [1] of the full scatter, the formula printed for this version at [0]",
        (ONNX1, X, W, STRIDE | {"output_shape": "8"}, {})),
    "nhwc: an odd total": (
        "W300",
        "begins the output at [0] of the full scatter, the formula printed for this version at [1]",
        (NHWC, (1, 4, 1), W, STRIDE | {"auto_pad": "SAME_UPPER"}, {})),
    "ONNX: SAME_* with a kernel shorter than the stride": (
        "W301",
        "the kernel is shorter than the stride, so the output is smaller than input times stride",
        (ONNX11, X, W, {"strides": "4", "auto_pad": "SAME_UPPER"}, {})),
    "ONNX: SAME_* with output_padding": (
        "W301",
        "ONNX's shape inference adds it to the output size, ONNX Runtime and irdeconv do not",
        (ONNX11, X, W, STRIDE | {"auto_pad": "SAME_UPPER", "output_padding": "1"}, {})),
    "ONNX: output_padding below the dilation only, by the document": (
        "W301", "output_padding [2] is not below the strides [2]: ONNX Runtime refuses it",
        (ONNX11, X, W, STRIDE | {"dilations": "3", "output_padding": "2"},
         {"semantics": "document"})),
    "ONNX: an output_shape beyond the scatter, by the document": (
        "W303", "larger than the scatter by a stride or more, which ONNX Runtime refuses",
        (ONNX11, X, W, STRIDE | {"output_shape": "11"}, {"semantics": "document"})),
    "ONNX: pads with output_shape": (
        "W301", "output_shape is given, so pads are ignored",
        (ONNX11, X, W, STRIDE | {"output_shape": "9", "pads": "1,1"}, {})),
    "ONNX 1: output_shape with batch and channels": (
        "W301", "output_shape has 3 values",
        (ONNX1, X, W, STRIDE | {"output_shape": "1,1,9"}, {})),
    "ONNX: groups in the reference evaluator": (
        "W303", "onnx.reference computes groups wrongly",
        (ONNX11, (1, 2, 4), (2, 1, 3), {"group": "2"}, {})),
    "ONNX: output_shape in the reference evaluator": (
        "W303", "onnx.reference computes output_shape without SAME_* wrongly",
        (ONNX11, X, W, STRIDE | {"output_shape": "9"}, {})),
    "TensorRT: SAME_* overrides paddings": (
        "W301", "padding_mode=SAME_LOWER overrides the given paddings",
        (TENSORRT, (1, 1, 4, 4), (1, 1, 3, 3),
         {"kernel_size": "3,3", "num_output_maps": "1", "padding_mode": "SAME_LOWER",
          "padding_nd": "1,1"}, {})),
    "TensorRT: rounding up": (
        "W301", "the size of a deconvolution is exact, so rounding up and down are the same",
        (TENSORRT, (1, 1, 4, 4), (1, 1, 3, 3),
         {"kernel_size": "3,3", "num_output_maps": "1", "padding_mode": "EXPLICIT_ROUND_UP"}, {})),
}  # fmt: skip


@each_row("statement", list(ROWS))
def test_a_divergence_is_told(statement: str) -> None:
    code, words, (*layer, more) = ROWS[statement]
    diagnostics = found(*layer, **more)
    told = [(c, s) for c, s, message in diagnostics if words in message]
    assert len(told) == 1, diagnostics
    assert told[0][0] == code
    assert told[0][1] in ("warning", "note")


QUIET: list[Any] = [
    (OPENVINO, X, W, STRIDE | {"pads_begin": "1", "pads_end": "1"}, {}),
    (OPENVINO, X, W, STRIDE | {"auto_pad": "same_upper"}, {}),
    (OPENVINO, X, W, {"auto_pad": "same_upper"}, {"output_shape": [4]}),
    (ONEDNN, (1, 4, 1), (3, 1, 1), PADS | STRIDE | {"auto_pad": "same_upper"}, {}),
    (ONNX1, X, W, {"auto_pad": "SAME_UPPER"}, {}),
    (ONNX11, X, W, STRIDE | {"auto_pad": "SAME_UPPER"}, {}),
    (NHWC, (1, 4, 1), W, STRIDE | {"pads": "1,0"}, {}),
    (TENSORRT, (1, 1, 4, 4), (1, 1, 3, 3),
     {"kernel_size": "3,3", "num_output_maps": "1", "padding_mode": "SAME_LOWER"}, {}),
]  # fmt: skip


@each_row("row", QUIET)
def test_where_all_agree_nothing_is_told(row: Any) -> None:
    *layer, more = row
    semantic = {"W300", "W301", "W303"}
    assert [d for d in found(*layer, **more) if d[0] in semantic] == []


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (ReduceL1(), [Spec(f32, (2,)), Spec.of(np.array([], np.int64))]),
        (ReduceL2(keep_dims=True), [Spec(f32, (2,)), Spec.of(np.array([], np.int64))]),
        (LSTMCell1(2, input_forget=True), [Spec(f32, None)] * 6),
        (LSTMCell1(2), [Spec(f32, None)] * 7),
    ],
)
def test_the_runtime_differs_from_the_document(op: Op, inputs: list[Spec]) -> None:
    assert [p.code for p in op.remarks(*inputs)] == ["W300"]


def test_activations_of_two_directions() -> None:
    twice = ("sigmoid", "tanh", "tanh", "sigmoid", "tanh", "relu")
    assert [p.code for p in LSTMSequence(2, twice).check()] == ["W300"]
    assert [p.code for p in LSTMSequence(2, twice[:3] * 2).check()] == []
    assert [p.code for p in LSTMSequence(2, twice[:4]).check()] == ["E210"]
    assert [p.code for p in LSTMCell(2, twice[:3] * 2).check()] == ["E210"]


# Attributes that no file can have: a program or the text form has made them.

UNFIT = [
    ("text_no_levels.ird", "E210", "levels is 0"),
    ("text_parameter_of_body.ird", "E213", "above 9223372036854775807"),
]


@pytest.mark.parametrize(("name", "code", "words"), UNFIT)
def test_attributes_that_no_reader_takes_are_neither_inferred_nor_written(
    name: str, code: str, words: str, tmp_path: Path
) -> None:
    g = ird.parse((FOLDER / "files" / name).read_text())
    for act in (lambda: ird.infer(g), lambda: ird.write(g, tmp_path / "out.xml")):
        with pytest.raises(ird.IrdeconvError) as caught:
            act()
        found = [d for d in caught.value.diagnostics if d.severity == "error"]
        assert [d.code for d in found] == [code]
        assert words in found[0].message
    assert list(tmp_path.iterdir()) == []


# What a file declares beside what is inferred: every lie once, at the layer that tells it.

OUT = ib.port(1, (2, 3))


def relu(inputs: str, output: str) -> str:
    return ib.layer(1, "r", "ReLU", inputs=[inputs], outputs=[output])


def net(middle: str, end: str) -> bytes:
    result = ib.layer(2, "y", "Result", inputs=[end])
    layers = [ib.parameter(0, "x"), middle, result]
    edges = [
        '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>',
        '<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>',
    ]
    text = "\n".join(["<layers>", *layers, "</layers>", "<edges>", *edges, "</edges>"])
    return f'<?xml version="1.0"?>\n<net name="m" version="11">\n{text}\n</net>\n'.encode()


@each_row(("middle", "end", "expected"), [
        (relu(ib.port(0, (2, 3)), OUT), ib.port(0, (2, 3)), []),
        (relu(ib.port(0, (2, -1)), ib.port(1, (-1, 3))), ib.port(0, (2, 3)), []),
        # The lie about the output is repeated by the consumer; it is reported at its origin.
        (relu(ib.port(0, (2, 3)), ib.port(1, (9, 9))), ib.port(0, (9, 9)), [("W202", "r")]),
        (relu(ib.port(0, (2, 3)), OUT), ib.port(0, (9, 9)), [("W202", "y")]),
        (relu(ib.port(0, (9,)), OUT), ib.port(0, (2, 3)), [("W202", "r")]),
        (relu(ib.port(0, (2, 3)), ib.port(1, (2, 3), "I64")), ib.port(0, (2, 3), "I64"),
         [("W203", "r")]),
        (relu(ib.port(0, (9, 9)), ib.port(1, (8, 8))), ib.port(0, (7, 7)),
         [("W202", "r"), ("W202", "r"), ("W202", "y")]),
    ])  # fmt: skip
def test_declarations(middle: str, end: str, expected: list[tuple[str, str]]) -> None:
    assert [(d.code, d.layer) for d in ird.validate(net(middle, end))] == expected


@pytest.mark.parametrize(
    ("middle", "end", "line", "column"),
    [
        (relu(ib.port(0, (2, 3)), ib.port(1, (9, 9))), ib.port(0, (9, 9)), 10, 9),
        (relu(ib.port(0, (9, 9)), OUT), ib.port(0, (2, 3)), 9, 8),
        (relu(ib.port(0, (2, 3)), ib.port(1, (2, 3), "I64")), ib.port(0, (2, 3)), 10, 9),
        (relu(ib.port(0, (2, 3)), OUT), ib.port(0, (9, 9)), 13, 8),
    ],
)  # fmt: skip
def test_the_place_is_the_port(middle: str, end: str, line: int, column: int) -> None:
    found = ird.validate(net(middle, end))
    assert [d.location and d.location.position for d in found][:1] == [(line, column)]


def test_a_second_data_element_is_an_error() -> None:
    two = ib.layer(
        1,
        "c",
        "Convert",
        'destination_type="f16"/><data destination_type="i32"',
        inputs=[ib.port(0, (2, 3))],
        outputs=[ib.port(1, (2, 3), "FP16")],
    )
    found = ird.validate(net(two, ib.port(0, (2, 3), "FP16")))
    assert [(d.code, d.location and d.location.position) for d in found] == [("E108", (9, 31))]


def test_other_shapes_than_declared_are_no_mistake_where_they_are_asked_for() -> None:
    text = net(relu(ib.port(0, (2, 3)), OUT), ib.port(0, (2, 3)))
    assert ird.validate(text, shapes={"x": [7, 8]}) == []


@pytest.mark.parametrize("more", [{"weights": "net.bin"}, {"semantics": "document"}])
def test_a_graph_is_not_read_again(more: dict[str, Any]) -> None:
    graph = ird.read(net(relu(ib.port(0, (2, 3)), OUT), ib.port(0, (2, 3))))
    with pytest.raises(ird.UsageError, match=next(iter(more))):
        ird.validate(graph, **more)
