"""Names that no IR can hold, in models of other formats: replaced, unique, with a warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.formats.convert import import_model

BAD = ["\x1b[31mred", "_[31mred", "a\x00b", "a\x01b", "c\ud800", "d\uffff", "\x85"]


def dump(names: list[str]) -> bytes:
    """Return a chain of ReLUs as oneDNN Graph dumps it."""
    nodes = []
    for at, name in enumerate(names):
        tensors = [{"id": at + k, "dtype": "f32", "shape": [1, 2]} for k in (0, 1)]
        node = {"id": at, "name": name, "kind": "ReLU", "attrs": {}}
        nodes.append({**node, "inputs": tensors[:1], "outputs": tensors[1:]})
    return json.dumps({"version": "3.0.0", "graph": nodes}).encode()


def test_names_of_a_dump(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(dump(BAD))
    assert main(["convert", str(tmp_path / "x.json"), "-o", str(tmp_path / "x.xml")]) == 0
    assert main(["validate", str(tmp_path / "x.xml")]) == 0
    names = [n.name for n in ird.read(tmp_path / "x.xml").nodes() if n.type == "ReLU"]
    assert names == ["_[31mred_2", "_[31mred", "a_b", "a_b_2", "c_", "d_", "_"]


def test_each_name_has_a_warning() -> None:
    done = import_model(dump(["fine", *(f"{i}\x1b" for i in range(30))]))
    assert {d.code for d in done.diagnostics} == {"W103"}
    assert len(done.diagnostics) == 21
    assert r"'0\x1b' has characters that no IR can hold" in done.diagnostics[0].message


def test_names_of_an_onnx_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    info = [onnx.helper.make_tensor_value_info(n, 1, [2]) for n in ("x", "\x1b[31mred")]
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["a\x01"], name="n\x07"),
        onnx.helper.make_node("Relu", ["a\x01"], ["\x1b[31mred"], name="n_"),
    ]
    graph = onnx.helper.make_graph(nodes, "g\x08", info[:1], info[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    assert main(["convert", str(tmp_path / "x.onnx"), "-o", str(tmp_path / "x.xml")]) == 0
    assert ird.validate(tmp_path / "x.xml") == []
    assert list(ird.read(tmp_path / "x.xml").outputs) == ["_[31mred"]


def test_no_text_is_written_that_cannot_be_read(tmp_path: Path) -> None:
    text = ird.dump(ird.read("ir_samples/openvino/deconv_3x3_to_5x5.xml"))
    for char in ("\\u001b", "\\u0085", "\\ud800", "\\ufffe"):
        graph = ird.parse(text.replace('"deconv"', f'"de{char}conv"'))
        with pytest.raises(ird.IrdeconvError) as e:
            ird.write(graph, tmp_path / "x.xml")
        assert [d.code for d in e.value.diagnostics] == ["E701"]
        assert list(tmp_path.iterdir()) == []
