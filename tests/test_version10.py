"""Version 10: f16 inputs are f32 outside, outputs f32 or i32, as OpenVINO shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Parameter

# What is inside, what an input and an output are outside.
ENDS = {
    "f64": ("f64", "f32"),
    "f32": ("f32", "f32"),
    "f16": ("f32", "f32"),
    "i64": ("i64", "i32"),
    "i32": ("i32", "i32"),
    "i16": ("i16", "f32"),
    "u64": ("u64", "i32"),
    "u32": ("u32", "i32"),
    "u8": ("u8", "f32"),
    "boolean": ("boolean", "f32"),
}


def net(dtype: str, version: int) -> bytes:
    """A Concat of the input with itself, seen by two Results."""
    port = f'precision="{ELEMENT_TYPES[dtype].precision}"'
    ends = "".join(
        f'<layer id="{i}" name="r{i}" type="Result" version="opset1"><input>'
        f'<port id="0" {port}><dim>6</dim></port></input></layer>'
        for i in (2, 3)
    )
    return (
        f'<net name="n" version="{version}"><layers>'
        '<layer id="0" name="x" type="Parameter" version="opset1">'
        f'<data element_type="{dtype}" shape="3"/><output><port id="0" {port}><dim>3</dim></port>'
        '</output></layer><layer id="1" name="c" type="Concat" version="opset1"><data axis="0"/>'
        f'<input><port id="0" {port}><dim>3</dim></port><port id="1" {port}><dim>3</dim></port>'
        f'</input><output><port id="2" {port}><dim>6</dim></port></output></layer>{ends}</layers>'
        '<edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>'
        '<edge from-layer="0" from-port="0" to-layer="1" to-port="1"/>'
        '<edge from-layer="1" from-port="2" to-layer="2" to-port="0"/>'
        '<edge from-layer="1" from-port="2" to-layer="3" to-port="0"/></edges></net>'
    ).encode()


def shown(graph: ird.Graph) -> tuple[str, str]:
    """The element types at the ends."""
    inferred = ird.infer(graph)
    (x,), (y, z) = inferred.parameters, inferred.results
    assert inferred.input_specs(y.id) == inferred.input_specs(z.id)
    return str(x.spec().dtype), str(inferred.input_specs(y.id)[0].dtype)


@pytest.mark.parametrize("dtype", ENDS)
def test_ends(dtype: str) -> None:
    graph = ird.read(net(dtype, 10), b"")
    assert shown(graph) == ENDS[dtype]
    assert graph.inputs == ["x"]
    assert graph.outputs == ["c", "c.1"]
    assert ird.validate(net(dtype, 10), b"") == []
    assert shown(ird.read(net(dtype, 11), b"")) == (dtype, dtype)


@pytest.mark.parametrize("dtype", ["f16", "i64"])
def test_written_ends_stay(dtype: str, tmp_path: Path) -> None:
    graph = ird.read(net(dtype, 10), b"")
    ird.write(graph, tmp_path / "m.xml")
    again = ird.read(tmp_path / "m.xml")
    assert shown(again) == ENDS[dtype]
    assert len(again) == len(graph)


def test_written_in_version_10_nothing_is_added(tmp_path: Path) -> None:
    """The Converts are what version 10 says anyway: the file has the layers that were read."""
    graph = ird.read(net("f16", 10), b"")
    ird.write(graph, tmp_path / "m.xml")
    text = (tmp_path / "m.xml").read_text()
    assert text.count("<layer ") == 4
    assert "Convert" not in text
    assert 'element_type="f16"' in text
    graph.info.ir_version = 11
    ird.write(graph, tmp_path / "m.xml")
    assert (tmp_path / "m.xml").read_text().count('type="Convert"') == 2


def test_a_convert_that_stands_at_no_end_is_written(tmp_path: Path) -> None:
    graph = ird.read(net("f16", 10), b"")
    (x,), (y, _) = graph.parameters, graph.results
    inner, outer = graph.nodes("Convert")
    relu = graph.add(ReLU(), graph.inputs_of(y.id), name="relu")
    graph.set_input(y.id, 0, Value(relu.id))
    graph.replace_op(x.id, Parameter((3,), ELEMENT_TYPES["i32"]))
    x.declared = ()
    ird.write(ird.infer(graph), tmp_path / "m.xml")
    assert {n.name for n in ird.read(tmp_path / "m.xml").nodes("Convert")} == {
        inner.name,
        outer.name,
    }


def test_values_pass_through_the_inner_type() -> None:
    x = np.array([1.0002, 70000, -3], np.float32)
    with np.errstate(over="ignore"):
        want = np.tile(x.astype(np.float16), 2).astype(np.float32)
    out = ird.run(ird.read(net("f16", 10), b""), [x])["c"]
    np.testing.assert_array_equal(out, want, strict=True)


@pytest.mark.oracles
@pytest.mark.parametrize("dtype", ENDS)
def test_openvino_shows_the_same(dtype: str) -> None:
    ov = pytest.importorskip("openvino")
    model = ov.Core().read_model(net(dtype, 10), b"")
    graph = ird.read(net(dtype, 10), b"")
    kinds = tuple(e.element_type.to_dtype() for e in (model.inputs[0], model.outputs[0]))
    assert kinds == tuple(ELEMENT_TYPES[name].container for name in shown(graph))
    x = np.array([0, 1, 3]).astype(ELEMENT_TYPES[ENDS[dtype][0]].container)
    theirs = ov.Core().compile_model(model, "CPU")([x])[0]
    np.testing.assert_array_equal(ird.run(graph, [x])["c"], theirs, strict=True)


def deconvolution(dtype: str, *, last: bool, names: str) -> tuple[bytes, bytes]:
    """A deconvolution whose name tells its type, and a ReLU behind it or none."""
    kind = f'precision="{ELEMENT_TYPES[dtype].precision}"'

    def port(number: int, sizes: tuple[int, ...], more: str = "") -> str:
        dims = "".join(f"<dim>{n}</dim>" for n in sizes)
        return f'<port id="{number}" {kind}{more}>{dims}</port>'

    def layer(i: int, name: str, type: str, data: str, inputs: str, output: str) -> str:
        sides = f"<input>{inputs}</input>" if inputs else ""
        sides += f"<output>{output}</output>" if output else ""
        head = f'<layer id="{i}" name="{name}" type="{type}" version="opset1">'
        return f"{head}{f'<data {data}/>' if data else ''}{sides}</layer>"

    x, w, y = (1, 4, 5), (4, 3, 3), (1, 3, 11)
    weights = np.arange(36).astype(ELEMENT_TYPES[dtype].container).tobytes()
    said = f'element_type="{dtype}" shape="{{}}"'
    strides = 'strides="2" pads_begin="0" pads_end="0" dilations="1"'
    blob = f'{said.format("4,3,3")} offset="0" size="{len(weights)}"'
    layers = [
        layer(0, "x", "Parameter", said.format("1,4,5"), "", port(0, x)),
        layer(1, "w", "Const", blob, "", port(0, w)),
        layer(2, "up/ConvolutionBackpropData", "ConvolutionBackpropData", strides,
              port(0, x) + port(1, w), port(2, y, names)),
        layer(3, "relu", "ReLU", "", port(0, y), port(1, y)),
        layer(4, "out", "Result", "", port(0, y), ""),
    ]  # fmt: skip
    edges = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (3, 1, 4, 0)]
    if last:
        layers, edges = layers[:3] + layers[4:], [*edges[:2], (2, 2, 4, 0)]
    joined = "".join(
        f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>'
        for a, b, c, d in edges
    )
    text = f'<net name="n" version="10"><layers>{"".join(layers)}</layers><edges>{joined}</edges>'
    return f"{text}</net>".encode(), weights


@pytest.mark.parametrize("names", ["", ' names="tensor"'])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_what_is_lowered_is_proved(dtype: str, last: bool, names: str, tmp_path: Path) -> None:
    """An output is called as its layer, and the types inside are those of the file."""
    for suffix, data in zip(
        (".xml", ".bin"), deconvolution(dtype, last=last, names=names), strict=True
    ):
        (tmp_path / f"m{suffix}").write_bytes(data)
    for form in ("zero-insertion", "phases", "stacked"):
        low = ird.lower(ird.read(tmp_path / "m.xml"), form)
        ird.write(low.graph, tmp_path / "low.xml")
        report = ird.check_certificate(tmp_path / "m.xml", tmp_path / "low.xml")
        assert report.passed, str(report)
        assert len(report.layers) == 1
        kept = "up/ConvolutionBackpropData" in {n.name for n in low.graph.nodes()}
        assert kept == last


@pytest.mark.oracles
@pytest.mark.parametrize("names", ["", ' names="tensor"'])
def test_openvino_knows_the_lowered_output_by_the_same_names(names: str, tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    data = deconvolution("f16", last=True, names=names)
    ird.write(ird.lower(ird.read(*data)).graph, tmp_path / "low.xml")
    source = ov.Core().read_model(*data)
    low = ov.Core().read_model(tmp_path / "low.xml")
    assert low.outputs[0].names >= source.outputs[0].names
