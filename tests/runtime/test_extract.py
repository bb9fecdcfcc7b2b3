"""Parts of a graph as models of their own, in memory and in files."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.base.extras import extra
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY, Op
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.control import TensorIterator
from irdeconv.ops.elementwise import Add, Multiply
from irdeconv.runtime.editing import cut_out, record
from irdeconv.runtime.selection import Selection
from support import irbuild as ib
from support.commands import Capture, Patch, answer
from support.layers import begun, constant, parameter, result
from support.networks import image, network
from support.runtime_truth import outputs as computed

# Pieces cut out of graphs: what belongs to them, what flows in, and that the numbers stay.


def extract(graph: Graph, *ends: Any, **more: Any) -> Graph:
    return cut_out(graph, *ends, **more).graph


def residual() -> Graph:
    """x -> a -> b -> c; c + a -> d; d * y -> e, with the shape of x deciding a Reshape's."""
    g, x = begun((2, 3))
    y = parameter(g, (2, 3), np.float32, "y")

    def add(name: str, op: Any, *inputs: Value) -> Value:
        return Value(g.add(op, inputs, name=name).id)

    a = add("a", ReLU(), x)
    b = add("b", Sigmoid(), a)
    c = add("c", Multiply(), b, constant(g, np.float32([[1, 2, 3]]), "scale"))
    d = add("d", Add(), c, a)
    shape = add("shape", REGISTRY["ShapeOf", "opset3"](), x)
    r = add("r", REGISTRY["Reshape", "opset1"](special_zero=False), d, shape)
    e = add("e", Multiply(), r, y)
    for value, name in ((a, "t/a"), (d, "t/d")):
        g.node(value.node).tensor_names = ((name, f"{name}:0"),)
    result(g, e, "out")
    result(g, a, "early")
    return g


def traced(graph: Graph, feeds: Any, *, exact: bool = False) -> dict[Value, Any]:
    """Every tensor of a run, node by node; what follows from shapes is not executed."""
    specs = {Value(n.id, p): s for n in graph.nodes() for p, s in enumerate(n.specs or ())}
    kept = {value: spec.known for value, spec in specs.items() if spec.known is not None}

    def trace(node: Any, arrays: Any) -> None:
        for port, array in enumerate(arrays):
            kept[Value(node.id, port)] = np.array(array)

    ird.run(graph, feeds, form=None, trace=trace, exact=exact)
    return kept


def types(graph: Graph) -> list[str]:
    return [n.type for n in graph.nodes()]


def ends(piece: Any) -> tuple[list[tuple[str, str]], list[str]]:
    return [(e.name, e.why) for e in piece.inputs], [e.name for e in piece.outputs]


def test_from_a_layer_cuts_in_front_of_it_and_takes_the_other_inputs_along():
    piece = cut_out(residual(), ["b"], ["d"])
    assert ends(piece) == ([("t/a", "asked")], ["t/d"])
    assert types(piece.graph) == ["Parameter", "Sigmoid", "Const", "Multiply", "Add", "Result"]
    assert piece.graph.parameters[0].tensor_names == (("t/a", "t/a:0"),)
    assert str(piece.graph.parameters[0].spec()) == "f32[2,3]"


def test_from_a_tensor_cuts_behind_its_layer_and_what_else_is_needed_becomes_an_input():
    piece = cut_out(residual(), ["tensor:t/d"], ["e"])
    assert ends(piece) == ([("t/d", "asked"), ("y", "model")], ["out"])
    # The shape that lies outside is known, so it is a constant.
    assert sorted(types(piece.graph)) == [
        "Const",
        *["Multiply"],
        *["Parameter"] * 2,
        *["Reshape"],
        "Result",
    ]
    again = cut_out(residual(), ["c:0"], ["d"])
    assert ends(again) == ([("c", "asked"), ("t/a", "needed")], ["t/d"])


def test_one_port_of_a_layer():
    piece = cut_out(residual(), ["0:d"], ["d"])
    assert ends(piece) == ([("c", "asked"), ("t/a", "needed")], ["t/d"])
    assert ends(cut_out(residual(), to=["1:d"]))[1] == ["t/a"]
    split = cut_out(network(), ["split:1"], ["out"])
    assert ends(split) == ([("split:1", "asked")], ["out:0"])


def test_without_from_and_to_it_begins_and_ends_with_the_model():
    assert ends(cut_out(residual(), to=["a"])) == ([("x", "model")], ["t/a"])
    assert ends(cut_out(residual(), ["b"])) == ([("t/a", "asked"), ("y", "model")], ["out"])
    whole = extract(residual())
    assert (whole.inputs, whole.outputs) == (["x", "y"], ["out", "t/a"])
    assert len(whole) == len(residual())


def test_outputs_stand_in_the_order_asked_for_and_a_result_of_the_model_stays_itself():
    piece = extract(residual(), to=["e", "b", "early/sink", "b:0"])
    assert piece.outputs == ["out", "b", "t/a"]
    assert [n.name for n in piece.results] == ["out/sink", "b/sink_port_0", "early/sink"]


def test_a_constant_alone_and_a_tensor_that_is_input_and_output():
    assert types(extract(residual(), to=["scale"])) == ["Const", "Result"]
    both = extract(residual(), ["b"], ["d", "t/a"])
    assert (both.inputs, both.outputs) == (["t/a"], ["t/d", "t/a"])
    weights = extract(residual(), ["scale", "b"], ["c"])
    assert (weights.inputs, weights.outputs) == (["scale", "t/a"], ["c"])


@pytest.mark.parametrize(
    ("graph", "feeds"),
    [
        (residual, {"x": np.float32([[1, -2, 3], [4, 5, -6]]), "y": np.ones((2, 3), np.float32)}),
        (network, {"x": image()}),
    ],
)
def test_random_pieces_compute_the_same_bits(graph: Callable[[], Graph], feeds: Any):
    whole = ird.infer(graph())
    traces = [traced(whole, feeds, exact=exact) for exact in (False, True)]
    rng, names, cut = random.Random(3), [n.name for n in whole.nodes()], 0
    for _ in range(120):
        try:
            piece = cut_out(whole, rng.sample(names, rng.randint(1, 2)), [rng.choice(names)])
        except UsageError:  # the one lies not behind the other
            continue
        cut += 1
        for exact, kept in enumerate(traces):
            given = {e.name: kept[e.source] for e in piece.inputs}
            got = ird.run(piece.graph, given, form=None, fuse=False, exact=bool(exact))
            for end in piece.outputs:
                np.testing.assert_array_equal(got[end.name], kept[end.source], strict=True)
    assert cut > 15


@pytest.mark.parametrize(("from_", "to", "message"), [
    (["b", "e"], ["d"], 'from_="e": nothing of the piece reads it'),
    (["b"], ["shape"], 'to="shape" is not computed from from_="b"'),
    (["early/sink"], [], 'no output of the model is computed from from_="early/sink"'),
])  # fmt: skip
def test_what_cannot_be_cut_out(from_: list[str], to: list[str], message: str):
    with pytest.raises(UsageError) as e:
        extract(residual(), from_, to)
    assert [(d.code, d.message) for d in e.value.diagnostics] == [("E507", message)]


def test_two_layers_of_a_name_are_refused_but_dumped_together():
    g = residual()
    g.find("b")[0].name = "c"
    with pytest.raises(UsageError, match="2 layers or tensors"):
        extract(g, to=["c"])
    assert len(Selection(g).layers(["c"], "--dump")) == 2
    assert Selection(g).layers(["type:Add", "t/a"], "--dump") == {
        g.find("a")[0].id, g.find("d")[0].id
    }  # fmt: skip


def test_names_with_colons():
    g = residual()
    g.find("b")[0].name = "c:0"
    assert types(extract(g, ["c:0"], ["c:0"])) == ["Parameter", "Sigmoid", "Result"]
    assert types(extract(g, ["c:0:0"], ["c"])) == ["Parameter", "Const", "Multiply", "Result"]


# The verb `extract`: pieces as files, with what flows into them, and OpenVINO running them.

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
def net(tmp_path: Path, monkeypatch: Patch) -> Any:
    """The network of `support.networks` as net.xml in the working directory."""
    monkeypatch.chdir(tmp_path)
    graph = ird.infer(network())
    ird.write(graph, "net.xml")
    return graph


def outputs(command: str, capsys: Capture) -> Any:
    capsys.readouterr()
    return answer(*command.split(), "--format", "json").json


def arrays(path: str) -> dict[str, Any]:
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def test_a_piece_runs_alone_on_what_flowed_into_it(net: Any, capsys: Capture):
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


def test_what_flows_in_is_taken_from_a_dump_of_the_whole_run(net: Any, capsys: Capture):
    assert main("run net.xml --form none --no-fuse --dump all -o run.npz".split()) == 0
    found = outputs(
        "extract net.xml --from split:1 --to out -o p.xml --inputs-from run.npz", capsys
    )
    assert found["saved_inputs"] == "p_inputs.npz"
    dumped = arrays("run.npz")
    np.testing.assert_array_equal(arrays("p_inputs.npz")["split:1"], dumped["dump/split.1"])
    assert main("extract net.xml --to relu1 --add-output conv2 -o p.xml".split()) == 0
    assert ird.read("p.xml").outputs == ["relu1:0", "conv2:0"]


def test_arrays_that_are_no_inputs_are_refused(net: Any, capsys: Capture):
    np.savez("other.npz", a=image(), b=image())
    assert main("extract net.xml --from up -o p.xml --inputs-from other.npz".split()) == 2
    error = capsys.readouterr().err
    assert '("relu2:0")' in error
    assert '("x" is missing)' in error
    assert not Path("p.xml").exists()


def test_a_piece_of_a_model_that_does_not_fit_together_elsewhere(net: Any):
    text = Path("net.xml").read_text("utf-8")
    Path("net.xml").write_text(text.replace('num_splits="2"', 'num_splits="3"'), "utf-8")
    assert main("extract net.xml --to conv2 -o front.xml --save-inputs".split()) == 0
    assert '"split"' in answer(*"extract net.xml --to split:0 -o p.xml".split(), code=3).err


def test_state_stays_where_the_piece_reads_and_writes_it():
    graph = ird.read(STATE.encode())
    kept = cut_out(graph, ["sum"], ["r"])
    assert [n.type for n in kept.graph.nodes()] == [
        "Parameter", "ReadValue", "Add", "Assign", "ReLU", "Result",
    ]  # fmt: skip
    assert [e.name for e in kept.inputs] == ["x"]
    behind = cut_out(graph, ["r"])
    assert [n.type for n in behind.graph.nodes()] == ["Parameter", "ReLU", "Result"]


@pytest.mark.parametrize("front", ["assign", "read"])
def test_a_variable_is_not_written_where_the_piece_does_not_read_it(front: str) -> None:
    with pytest.raises(ird.UsageError, match='write the variable "v", which it does not read'):
        cut_out(ird.read(STATE.encode()), [front], ["assign"])


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
    ird.write(cut_out(graph, to=[tensor_iterator.name]).graph, tmp_path / "p.xml")
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
def test_openvino_records_where_irdeconv_cannot(tmp_path: Path, monkeypatch: Patch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TensorIterator, "evaluate", Op.evaluate)
    graph = ird.read(ib.loop().encode())
    (body,) = graph.nodes("TensorIterator")
    result(graph, Value(graph.add(Sigmoid(), [Value(body.id)], name="behind").id), "z")
    ird.write(graph, "net.xml")
    command = "extract net.xml --from behind -o p.xml --save-inputs --seed 3".split()
    assert "cannot execute TensorIterator" in answer(*command, code=4).err
    assert main([*command, "--run-in", "openvino"]) == 0
    (flowed,) = arrays("p_inputs.npz").values()
    rand = np.random.default_rng([3, 0]).random(flowed.shape).astype(np.float32)
    whole = computed(Path("net.xml"), [rand])
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
