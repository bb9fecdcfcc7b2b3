"""The graph: nodes and edges, names, renaming."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.extras import extra
from irdeconv.cli.main import main
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, GraphError, Value, unique
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Parameter, Result
from irdeconv.ops.elementwise import Add
from irdeconv.runtime.editing import rename
from support.commands import Patch, answer
from support.networks import image, network
from support.rows import tables

TABLES = tables(__file__)

# The graph's invariants and its order.

SAMPLE = Path(__file__).resolve().parents[2] / "ir_samples/openvino/group_deconv.xml"


@pytest.fixture
def graph() -> Graph:
    g = Graph()
    x = g.add(Parameter((2, 3), f32), name="x")
    a = g.add(ReLU(), [Value(x.id)], name="a")
    b = g.add(Add(), [Value(a.id), Value(x.id)], name="b")
    g.add(Result(), [Value(b.id)], name="y")
    return g


def names(g):
    return [n.name for n in g.topological()]


def test_reading(graph):
    assert len(graph) == 4
    assert names(graph) == ["x", "a", "b", "y"]
    assert graph.inputs_of(2) == (Value(1), Value(0))
    assert graph.users(Value(0)) == [(1, 0), (2, 1)]
    assert (graph.inputs, graph.outputs) == (["x"], ["y"])
    assert [n.name for n in graph.nodes("ReLU")] == ["a"]
    assert graph.nx.number_of_edges() == 4


def test_a_type_that_no_operation_has_is_a_typing_error(graph):
    with pytest.raises(ird.UsageError, match='did you mean "ConvolutionBackpropData"'):
        graph.nodes("ConvolutionBackPropData")
    assert [*graph.nodes("ShapeOf"), *graph.nodes("Custom")] == []


def test_the_networkx_view_is_read_only(graph):
    import networkx as nx

    with pytest.raises(nx.NetworkXError):
        graph.nx.add_node(7)


def test_one_producer_per_input_and_dense_ports(graph):
    with pytest.raises(GraphError, match="dense"):
        graph.connect(Value(0), 1, 0)
    with pytest.raises(GraphError, match="dense"):
        graph.connect(Value(0), 1, 2)
    with pytest.raises(GraphError, match="does not exist"):
        graph.add(ReLU(), [Value(99)], name="z")
    with pytest.raises(GraphError, match="exists already"):
        graph.add(ReLU(), [], name="z", id=1)


def test_replace_uses_and_set_input(graph):
    graph.replace_uses(Value(1), Value(0))
    assert graph.inputs_of(2) == (Value(0), Value(0))
    graph.remove(1)
    graph.lint()
    graph.set_input(2, 1, Value(0))
    assert graph.inputs_of(2) == (Value(0), Value(0))


def test_cycles_are_named(graph):
    graph.set_input(1, 0, Value(2))
    with pytest.raises(GraphError, match="cycle"):
        graph.lint()
    assert set(graph.cycle()) == {"a", "b"}


def test_copy_is_independent(graph):
    other = graph.copy()
    other.node(1).name = "renamed"
    other.replace_uses(Value(1), Value(0))
    assert graph.node(1).name == "a"
    assert graph.inputs_of(2) == (Value(1), Value(0))
    assert other.add(ReLU(), [Value(0)], name="new").id == graph.add(ReLU(), [], name="n").id


@pytest.mark.parametrize("again", [lambda g: pickle.loads(pickle.dumps(g)), copy.deepcopy])
def test_pickled_and_copied_graphs_run(again):
    g = ird.infer(ird.read(SAMPLE))
    x = np.ones((2, 6, 4, 5), np.float32)
    other = again(g)
    assert ird.dump(other) == ird.dump(g)
    assert np.array_equal(ird.run(other, [x])["deconv"], ird.run(g, [x])["deconv"])
    (held,) = (n.op.data for n in other.nodes("Const"))
    assert not held.array().flags.writeable


def test_pickled_errors_keep_their_diagnostics():
    with pytest.raises(ird.InputError) as e:
        ird.read(b"<net")
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is ird.InputError
    assert str(again) == str(e.value)


def test_semantics_are_checked():
    with pytest.raises(ird.UsageError, match="runtime or document"):
        ird.read(SAMPLE, semantics="documents")


def test_live_leaves_out_what_no_result_needs(graph):
    assert graph.add(ReLU(), [Value(0)], name="dead").id not in graph.live()


def test_unique():
    assert unique(["a", "b", "a", "a.1", "a"]) == ["a", "b", "a.1", "a.1.1", "a.2"]


# Other names for layers and tensors.


def named(graph: Any) -> list[str]:
    return [n.name for n in graph.nodes() if n.type != "Const"]


def tensors(graph: Any) -> list[str]:
    return [t for n in graph.nodes() for names in n.tensor_names for t in names]


def test_an_old_name_means_the_layer_and_the_tensor_that_have_it():
    g = network()
    g.find("up")[0].tensor_names = (("up", "b"),)
    new = rename(g, {"up": "deconv", "tensor:conv1:0": "first", "layer:relu1": "act"}).graph
    assert named(new) == [
        "x", "conv1", "add1", "act", "conv2", "relu2", "deconv", "add3", "split", "out", "y/sink",
    ]  # fmt: skip
    assert "first" in tensors(new)
    assert new.find("deconv")[0].tensor_names == (("deconv", "b"),)
    assert named(g)[6] == "up"


def test_names_may_be_exchanged_and_the_numbers_stay():
    g = network()
    done = rename(g, {"conv1": "conv2", "conv2": "conv1", "out:0": "mask"})
    assert [(c.kind, c.old, c.new) for c in done.changes] == [
        ("layer", "conv1", "conv2"), ("layer", "conv2", "conv1"), ("tensor", "out:0", "mask"),
    ]  # fmt: skip
    before, after = (ird.run(graph, [image()]) for graph in (g, done.graph))
    np.testing.assert_array_equal(after["mask"], before["out:0"])


def test_one_tensor_may_lose_a_name_to_another_of_its_own():
    g = network()
    g.find("up")[0].tensor_names = (("a", "b"),)
    assert rename(g, {"a": "b"}).graph.find("up")[0].tensor_names == (("b",),)


@pytest.mark.parametrize(("names", "message"), TABLES["names_that_cannot_be_given"])
def test_names_that_cannot_be_given(names: dict[str, str], message: str):
    with pytest.raises(ird.UsageError) as e:
        rename(network(), names)
    assert [d.message for d in e.value.diagnostics] == [message]


def test_a_pattern_applies_to_what_is_not_named(tmp_path: Path, monkeypatch: Patch):
    monkeypatch.chdir(tmp_path)
    ird.write(ird.infer(network()), "net.xml")
    command = ["rename", "net.xml", r"--pattern=s/conv(\d)/c\1_/", "conv1=stem", "-o", "out.xml"]
    assert "layer conv2 -> c2_\n" in answer(*command).out
    new = ird.read("out.xml")
    assert named(new)[1::3] == ["stem", "c2_", "add3", "y/sink"]
    assert tensors(new)[:2] == ["c1_:0", "add1:0"]
    assert main([*command[:3], "--only", "tensors", "-o", "out.xml"]) == 0
    assert named(ird.read("out.xml"))[1] == "conv1"
    assert ird.rename("net.xml", pattern=("^", "net/")).outputs == ["net/out:0"]


@pytest.mark.parametrize(("arguments", "message"), TABLES["usage"])
def test_usage(arguments: list[str], message: str, tmp_path: Path):
    model = tmp_path / "net.xml"
    ird.write(ird.infer(network()), model)
    assert message in answer("rename", model, *arguments, "-o", tmp_path / "out.xml", code=2).err


@pytest.mark.oracles
def test_openvino_reports_the_new_names(tmp_path: Path):
    core = extra("openvino", "Core").Core()
    g = network()
    g.find("x")[0].tensor_names = (("x",),)
    ird.write(
        rename(g, {"x": "photo", "out:0": "mask", "conv1": "stem=1"}).graph, tmp_path / "m.xml"
    )
    model = core.read_model(tmp_path / "m.xml")
    names = [[end.get_any_name() for end in ends] for ends in (model.inputs, model.outputs)]
    assert names == [["photo"], ["mask"]]
    assert "stem=1" in {n.get_friendly_name() for n in model.get_ordered_ops()}
