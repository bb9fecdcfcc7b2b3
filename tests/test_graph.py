"""The graph's invariants and its order."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, GraphError, Value, unique
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Parameter, Result
from irdeconv.ops.elementwise import Add

SAMPLE = Path(__file__).resolve().parent.parent / "ir_samples/openvino/group_deconv.xml"


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


def test_removing_what_is_used_is_refused(graph):
    with pytest.raises(GraphError, match="still used"):
        graph.remove(0)


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
    dead = graph.add(ReLU(), [Value(0)], name="dead")
    assert dead.id not in graph.live()


def test_unique():
    assert unique(["a", "b", "a", "a.1", "a"]) == ["a", "b", "a.1", "a.1.1", "a.2"]
