"""Pieces cut out of graphs: what belongs to them, what flows in, and that the numbers stay."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.elementwise import Add, Multiply
from irdeconv.run.extract import cut_out, extract
from irdeconv.run.selection import Selection
from support.layers import constant, parameter, result
from support.networks import image, network


def residual() -> Graph:
    """x -> a -> b -> c; c + a -> d; d * y -> e, with the shape of x deciding a Reshape's."""
    g = Graph()
    x = parameter(g, (2, 3), np.float32, "x")
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
    begun = cut_out(residual(), ["b"])
    assert ends(begun) == ([("t/a", "asked"), ("y", "model")], ["out"])
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
    (["d"], ["b"], "--to b is not computed from --from d"),
    (["d:0"], ["tensor:t/d"], "there is no layer between --from d:0 and --to tensor:t/d"),
    (["b", "e"], ["d"], "--from e: nothing of the piece reads it"),
    (["b"], ["shape"], "--to shape is not computed from --from b"),
    (["early/sink"], [], "no output of the model is computed from --from early/sink"),
])  # fmt: skip
def test_what_cannot_be_cut_out(from_: list[str], to: list[str], message: str):
    with pytest.raises(UsageError) as e:
        extract(residual(), from_, to)
    assert [(d.code, d.message) for d in e.value.diagnostics] == [("E507", message)]


def test_the_wrong_way_round_is_said():
    with pytest.raises(UsageError) as e:
        extract(residual(), ["d"], ["b"])
    assert "the wrong way round" in (e.value.diagnostics[0].hint or "")


def test_names_that_are_none():
    with pytest.raises(UsageError) as e:
        extract(residual(), ["bb", "t/dd"], ["split:7", "c:3"])
    assert [(d.code, d.hint) for d in e.value.diagnostics] == [
        ("E503", 'did you mean "b"?'),
        ("E503", 'did you mean "t/d"?'),
        ("E503", "inspect lists the names of all layers"),
        ("E503", "the output ports of this layer: 0"),
    ]


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
