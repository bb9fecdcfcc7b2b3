"""The verb `extract`: pieces as files, with what flows into them, and OpenVINO running them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.extras import extra
from irdeconv.cli.main import main
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op
from irdeconv.ops.activation import Sigmoid
from irdeconv.ops.control import TensorIterator
from irdeconv.run.extract import cut_out, record
from support import irbuild as ib
from support.layers import result
from support.networks import image, network

STATE = ib.net(
    [
        ib.parameter(0, "x"),
        ib.layer(1, "read", "ReadValue", 'variable_id="v" variable_type="f32" variable_shape="2,3"',
                 outputs=[ib.port(0, (2, 3))], version="opset6"),
        ib.add(2, "sum"),
        ib.layer(3, "assign", "Assign", 'variable_id="v"', inputs=[ib.port(0, (2, 3))],
                 outputs=[ib.port(1, (2, 3))], version="opset6"),
        ib.relu(4, "r"),
        ib.result(5, "y"),
    ],
    (0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (2, 2, 4, 0), (4, 1, 5, 0),
)  # fmt: skip


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The network of `support.networks` as net.xml in the working directory."""
    monkeypatch.chdir(tmp_path)
    graph = ird.infer(network())
    ird.write(graph, "net.xml")
    return graph


def outputs(command: str, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert main([*command.split(), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def arrays(path: str) -> dict[str, Any]:
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def test_a_piece_runs_alone_on_what_flowed_into_it(net: Any, capsys: pytest.CaptureFixture[str]):
    np.savez("x.npz", x=image())
    found = outputs("extract net.xml --from conv2 --to up -o p.xml --inputs-from x.npz", capsys)
    assert [r["name"] for r in found["inputs"]] == ["relu1:0"]
    assert (found["layers"], found["layers_of_the_model"]) == (3, 9)
    assert list(arrays("p_inputs.npz")) == ["relu1:0"]
    alone = ird.compile(ird.read("p.xml"), None, fuse=False).run(arrays("p_inputs.npz"))
    kept = {}

    def trace(node: Any, outputs: Any) -> None:
        kept[node.name] = np.array(outputs[0])

    ird.compile(net, None, fuse=False).run([image()], trace)
    np.testing.assert_array_equal(alone["up:0"], kept["up"])


def test_what_flows_in_is_taken_from_a_dump_of_the_whole_run(
    net: Any, capsys: pytest.CaptureFixture[str]
):
    assert main("run net.xml --form none --no-fuse --dump all -o run.npz".split()) == 0
    found = outputs(
        "extract net.xml --from split:1 --to out -o p.xml --inputs-from run.npz", capsys
    )
    assert found["saved_inputs"] == "p_inputs.npz"
    dumped = arrays("run.npz")
    np.testing.assert_array_equal(arrays("p_inputs.npz")["split:1"], dumped["dump/split.1"])
    assert main("extract net.xml --to relu1 --add-output conv2 -o p.xml".split()) == 0
    assert ird.read("p.xml").outputs == ["relu1:0", "conv2:0"]


def test_arrays_that_are_no_inputs_are_refused(net: Any, capsys: pytest.CaptureFixture[str]):
    np.savez("other.npz", a=image(), b=image())
    assert main("extract net.xml --from up -o p.xml --inputs-from other.npz".split()) == 2
    error = capsys.readouterr().err
    assert '("relu2:0")' in error
    assert '("x" is missing)' in error
    assert not Path("p.xml").exists()


@pytest.mark.parametrize(("command", "message"), [
    ("extract net.xml -o p.xml", "nothing to cut"),
    ("extract net.xml --to up -o net.xml", "would overwrite the input net.xml"),
    ("extract net.xml --to up -o p.xml --save-inputs in.txt", "kept in an .npz file"),
    ("extract net.xml --to up -o p.xml --inputs-from a.npz -i x=ones", "name one of them"),
])  # fmt: skip
def test_usage(net: Any, command: str, message: str, capsys: pytest.CaptureFixture[str]):
    assert main(command.split()) == 2
    assert message in capsys.readouterr().err


def test_a_piece_of_a_model_that_does_not_fit_together_elsewhere(net: Any, capsys: Any):
    text = Path("net.xml").read_text("utf-8")
    Path("net.xml").write_text(text.replace('num_splits="2"', 'num_splits="3"'), "utf-8")
    assert main("extract net.xml --to conv2 -o front.xml --save-inputs".split()) == 0
    assert main("extract net.xml --to split:0 -o p.xml".split()) == 3
    assert '"split"' in capsys.readouterr().err


def test_state_stays_where_the_piece_reads_and_writes_it():
    graph = ird.read(STATE.encode())
    kept = cut_out(graph, ["sum"], ["r"])
    assert [n.type for n in kept.graph.nodes()] == [
        "Parameter", "ReadValue", "Add", "Assign", "ReLU", "Result",
    ]  # fmt: skip
    assert [e.name for e in kept.inputs] == ["x"]
    behind = cut_out(graph, ["r"])
    assert [n.type for n in behind.graph.nodes()] == ["Parameter", "ReLU", "Result"]


def test_what_a_variable_gives_flows_in_where_the_piece_does_not_write_it():
    other = '<edge from-layer="4" from-port="1" to-layer="3" to-port="0"/>'
    graph = ird.read(STATE.replace(other.replace("4", "2", 1).replace("1", "2", 1), other).encode())
    piece = cut_out(graph, ["sum"], ["sum"])
    assert [(e.name, e.why) for e in piece.inputs] == [("x", "asked"), ("read", "needed")]
    first = record(ird.infer(graph), piece, {"x": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(first["read"], np.zeros((2, 3), np.float32))
    assert first["read"].dtype == np.float32
    np.testing.assert_array_equal(first["x"], 1)


def test_a_layer_with_a_body_goes_along_whole_and_is_not_cut_inside(tmp_path: Path):
    graph = ird.read(ib.loop().encode())
    (tensor_iterator,) = graph.nodes("TensorIterator")
    piece = cut_out(graph, to=[tensor_iterator.name])
    ird.write(piece.graph, tmp_path / "p.xml")
    assert [n.type for n in ird.read(tmp_path / "p.xml").nodes()] == [
        "Parameter", "TensorIterator", "Result",
    ]  # fmt: skip
    with pytest.raises(ird.UsageError) as e:
        cut_out(graph, ["br"])
    assert "inside a body of TensorIterator" in (e.value.diagnostics[0].hint or "")


def test_names_in_kept_parts_are_written_and_found_as_they_are(tmp_path: Path) -> None:
    kept = '<körper größe="4" a="ü &lt; &#38;">ß</körper>'
    inner = ib.parameter(0, "grün &amp; rot") + ib.result(1, "by")
    body = f"<body><layers>{inner}</layers><edges>{ib.edges((0, 0, 1, 0))}</edges></body>"
    mystery = ib.layer(
        1, "m", "Mystery", version="extension", body=kept + body,
        inputs=[ib.port(0, (2, 3))], outputs=[ib.port(1, (2, 3))],
    )  # fmt: skip
    layers = [ib.parameter(0, "x"), mystery, ib.result(2, "y")]
    ird.write(ird.read(ib.net(layers, (0, 0, 1, 0), (1, 1, 2, 0)).encode()), tmp_path / "m.xml")
    text = (tmp_path / "m.xml").read_text(encoding="utf-8")
    assert kept.replace("&#38;", "&amp;") in text
    with pytest.raises(ird.UsageError) as e:
        cut_out(ird.read(tmp_path / "m.xml"), ["grün & rot"])
    assert "inside a body of Mystery" in (e.value.diagnostics[0].hint or "")


@pytest.mark.oracles
def test_openvino_records_where_irdeconv_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TensorIterator, "evaluate", Op.evaluate)
    graph = ird.read(ib.loop().encode())
    (body,) = graph.nodes("TensorIterator")
    result(graph, Value(graph.add(Sigmoid(), [Value(body.id)], name="behind").id), "z")
    ird.write(graph, "net.xml")
    command = "extract net.xml --from behind -o p.xml --save-inputs --seed 3".split()
    assert main(command) == 4
    assert "cannot execute TensorIterator" in capsys.readouterr().err
    assert main([*command, "--run-in", "openvino"]) == 0
    (flowed,) = arrays("p_inputs.npz").values()
    core = extra("openvino", "Core").Core()
    rand = np.random.default_rng([3, 0]).random(flowed.shape).astype(np.float32)
    whole = core.compile_model("net.xml", "CPU")([rand])
    np.testing.assert_array_equal(flowed, whole[0])
    assert flowed.any()


@pytest.mark.oracles
@pytest.mark.parametrize("cut", [
    (["conv2"], ["up"]), (["add1:0"], ["split"]), (["split:1"], ["out"]), ([], ["relu2", "conv1"]),
])  # fmt: skip
def test_openvino_computes_the_same_in_the_piece_as_in_the_whole(tmp_path: Path, cut: Any):
    core = extra("openvino", "Core").Core()
    graph = ird.infer(network())
    piece = cut_out(graph, *cut)
    sources = [(graph.node(e.source.node).name, e.source.port)
               for e in (*piece.inputs, *piece.outputs)]  # fmt: skip
    ird.write(graph, tmp_path / "whole.xml")
    ird.write(piece.graph, tmp_path / "piece.xml")
    whole = core.read_model(tmp_path / "whole.xml")
    nodes = {n.get_friendly_name(): n for n in whole.get_ordered_ops()}
    found = whole.add_outputs([nodes[name].output(port) for name, port in sources])
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(whole, "CPU", config)
    made = compiled([image()])
    # In the order asked for; one that was an output already is not added again.
    values = [made[compiled.output(o.get_any_name())] for o in found]
    assert len(values) == len(sources)
    begin, end = values[: len(piece.inputs)], values[len(piece.inputs) :]
    alone = core.compile_model(tmp_path / "piece.xml", "CPU", config)
    names = [i.get_any_name() for i in alone.inputs if i.get_names()]
    assert names == [e.name for e in piece.inputs if e.why != "model"]
    for got, want in zip(alone(begin).values(), end, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(np.abs(want).max()))
