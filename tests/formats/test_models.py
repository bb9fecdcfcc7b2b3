"""A model is read in whatever form it is given, by functions and by verbs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.formats.kinds import kind_of
from irdeconv.formats.models import graph_of
from support.commands import answer
from support.onednn_dumps import content, op, tensor
from support.onnx_models import info, model

HEAD = Path("ir_samples/openvino/segmentation_head.xml")
WEIGHTS = np.random.default_rng(3).standard_normal((2, 3, 2, 2)).astype(np.float32)
LISTS = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
ENDS = [tensor(i, s) for i, s in enumerate(((1, 2, 3, 3), (2, 3, 2, 2), (1, 3, 6, 6)))]
FORMATS = {"data_format": "NCX", "weights_format": "IOX"}
DUMP = content(op("ConvTranspose", ENDS[:2], ENDS[2:], **LISTS, **FORMATS))


def deconv(shape: Any = (1, 2, 3, 3)) -> Any:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="deconv", strides=[2, 2])
    return model([node], [info("x", shape)], ["y"], {"w": WEIGHTS})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """One deconvolution in every format."""
    paths = {kind: tmp_path / f"net.{kind}" for kind in ("xml", "onnx", "json", "ird")}
    onnx.save(deconv(), paths["onnx"])
    graph = ird.infer(ird.read(paths["onnx"]))
    ird.write(graph, paths["xml"])
    paths["ird"].write_text(ird.dump(graph), "utf-8")
    paths["json"].write_text(json.dumps(DUMP), "utf-8")
    return paths


def output(graph: Any) -> Any:
    x = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
    feeds = [x, WEIGHTS] if len(graph.inputs) == 2 else [x]
    (y,) = ird.run(graph, feeds).values()
    return y


def test_what_holds_a_graph_gives_it() -> None:
    g = ird.infer(ird.read(HEAD))
    low, raised, table = ird.lower(g), ird.raise_(g), ird.inspect(g)
    plan = ird.compile(g)
    assert graph_of(g) is g
    assert all(graph_of(m) is m.graph for m in (low, raised, table, plan))


@pytest.mark.parametrize("kind", ["xml", "onnx", "json", "ird"])
def test_files_and_bytes_of_each_format(files: dict[str, Path], kind: str) -> None:
    path = files[kind]
    data = path.read_bytes()
    assert kind_of(data[:256], "").format == kind
    expected = output(graph_of(files["xml"]))
    weights = path.with_suffix(".bin").read_bytes() if kind == "xml" else None
    nameless = path.rename(path.with_suffix(".model"))
    if kind == "xml":
        path.with_suffix(".bin").rename(path.with_name("net.model.bin"))
        weights_file = path.with_name("net.model.bin")
        graphs = [graph_of(nameless, weights_file), graph_of(data, weights)]
    else:
        graphs = [graph_of(nameless), graph_of(str(nameless)), graph_of(bytearray(data))]
    for graph in graphs:
        np.testing.assert_allclose(output(graph), expected, rtol=1e-6, atol=1e-6)


def test_models_in_memory() -> None:
    proto = deconv()
    before = proto.SerializeToString(deterministic=True)
    y = output(graph_of(proto))
    assert proto.SerializeToString(deterministic=True) == before
    np.testing.assert_array_equal(y, output(graph_of(before)))


@pytest.mark.oracles
def test_an_openvino_model_is_read_without_a_file_of_the_callers() -> None:
    openvino = pytest.importorskip("openvino")
    model = openvino.Core().read_model(str(HEAD))
    graph, expected = graph_of(model), graph_of(HEAD)
    x = {"image": np.full(expected.parameters[0].spec().shape, 0.5, np.float32)}
    for a, b in zip(ird.run(graph, x).values(), ird.run(expected, x).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    with pytest.raises(ird.UsageError, match="weights: an openvino"):
        graph_of(model, "x.bin")


def test_shapes_reach_the_importer() -> None:
    open_model = deconv(("n", 2, "h", "w"))
    for shapes in ({"x": (1, 2, 3, 3)}, {"": "1,2,3,3"}):
        assert graph_of(open_model, shapes=shapes).parameters[0].spec().shape == (1, 2, 3, 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (7, "this is no model but a int: 7"),
        (None, "no model but a NoneType"),
        ({"x": 1}, "no model but a dict"),
        (np.zeros(3), "no model but a numpy.ndarray"),
        (Path, "no model but a type"),
    ],
)
def test_what_is_no_model_is_named(wrong: Any, message: str) -> None:
    with pytest.raises(ird.UsageError, match=message) as caught:
        graph_of(wrong)
    assert "openvino.Model" in str(caught.value)


def test_arguments_that_a_model_does_not_have(files: dict[str, Path]) -> None:
    graph = ird.read(files["xml"])
    for given, options, message in (
        (graph, {"weights": "a.bin"}, "weights: a graph that has been read"),
        (graph, {"semantics": "document"}, "semantics: a graph that has been read"),
        (files["ird"], {"weights": "a.bin"}, "weights: the text form holds"),
        (files["onnx"], {"weights": "a.bin"}, "an ONNX model contains its"),
        (deconv(), {"weights": "a.bin"}, "an ONNX model contains its"),
    ):
        with pytest.raises(ird.UsageError, match=message):
            graph_of(given, **options)


@pytest.mark.parametrize("kind", ["onnx", "json", "ird"])
def test_validate_reports_what_importers_find(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"bad.{kind}"
    path.write_bytes({"onnx": b"\x08\x09\x3a", "json": b'{"graph": ', "ird": b"graph 2"}[kind])
    (found,) = ird.validate(path)
    assert found.severity == "error"
    assert found.location.file == str(path)


def test_a_text_with_a_cycle_is_refused() -> None:
    text = """graph 1 "n" {
      %0 "a" = opset1.ReLU(%1)
      %1 "b" = opset1.ReLU(%0)
    }"""
    with pytest.raises(ird.InputError, match="cycle"):
        graph_of(text.encode())


def test_a_text_is_not_utf8() -> None:
    with pytest.raises(ird.InputError, match="byte 9 is not"):
        graph_of(b'graph 1 "\xff" {}')


@pytest.mark.parametrize("kind", ["xml", "onnx", "json", "ird"])
@pytest.mark.parametrize(
    "verb", ["validate", "infer", "lower", "raise", "inspect", "explain", "run", "compare"]
)
def test_verbs_take_every_format(files: dict[str, Path], verb: str, kind: str) -> None:
    answer(verb, files[kind])


def test_shape_of_an_open_onnx_input(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    onnx.save(deconv(("n", 2, "h", "w")), path)
    assert "f32[1,3,6,6]" in answer("infer", path, "--shape", "1,2,3,3").out


def test_an_output_does_not_overwrite_external_data(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    external = {"save_as_external_data": True, "location": "net.bin", "size_threshold": 0}
    onnx.save(deconv(), path, **external)
    err = answer("lower", path, "-o", tmp_path / "net.xml", code=2).err
    assert "would overwrite a file that" in err
    assert main(["lower", str(path), "-o", str(tmp_path / "low.xml")]) == 0


def test_constants_that_a_text_left_out_are_named_once(tmp_path: Path) -> None:
    graph = graph_of(ird.dump(HEAD, elide=0).encode())
    with pytest.raises(ird.UnsupportedError, match="and 4 more layers as well") as caught:
        ird.run(graph, np.zeros((1, 3, 32, 32)))
    (found,) = caught.value.diagnostics
    assert found.code == "E120"
    assert "elide=None" in str(found.hint)
    with pytest.raises(ird.InputError, match="was printed without its large constants"):
        ird.write(graph, tmp_path / "net.xml")
    assert ird.infer(graph).results[0].spec().shape == (1, 2, 32, 32)
