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
from support.rows import each_row, tables

TABLES = tables(__file__)

# Validation warns of every layer that documents, formulas and runtimes read differently.

TYPES = {"opset1": "ConvolutionBackpropData", "tensorrt": "Deconvolution"}


def found(
    version: str, data: Any, filter: Any, attributes: dict[str, str], more: dict[str, Any]
) -> list[tuple[str, str, str]]:
    """Validate a layer; return code, severity and message of what is not an error."""
    cls = REGISTRY[TYPES.get(version, "ConvTranspose"), version]
    values, problems = parse_attributes(cls, attributes)
    assert [p for p in problems if p.severity == "error"] == []
    if "semantics" in more:
        values["semantics"] = more["semantics"]
    g, dtype = Graph(), more.get("dtype", "float32")
    data = tuple(None if d == -1 else d for d in data)
    inputs = [parameter(g, data, dtype, "x"), constant(g, np.ones(filter, dtype), "w")]
    if "output_shape" in more:
        inputs.append(constant(g, np.array(more["output_shape"], np.int64), "shape"))
    result(g, Value(g.add(cls(**values), inputs, name="deconv").id))
    diagnostics = ird.validate(g)
    assert [str(d) for d in diagnostics if d.severity == "error"] == []
    return [(d.code, d.severity, d.message) for d in diagnostics]


@each_row("code, words, layer", TABLES["warned"])
def test_a_divergence_is_told(code: str, words: str, layer: Any) -> None:
    diagnostics = found(*layer)
    told = [(c, s) for c, s, message in diagnostics if words in message]
    assert len(told) == 1, diagnostics
    assert told[0][0] == code
    assert told[0][1] in ("warning", "note")


@each_row("row", TABLES["quiet"])
def test_where_all_agree_nothing_is_told(row: Any) -> None:
    semantic = {"W300", "W301", "W303"}
    assert [d for d in found(*row) if d[0] in semantic] == []


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
