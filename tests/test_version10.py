"""Version 10: f16 inputs are f32 outside, outputs f32 or i32, as OpenVINO shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.graph import Value
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
