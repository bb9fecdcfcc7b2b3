"""ONNX models whose nodes stand in any order, old operation sets, definitions, sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irdeconv as ird

pytest.importorskip("onnx")

from onnx import TensorProto, helper

from support.onnx_models import convert, info, model, node, run, single

X = np.arange(-6, 6, dtype=np.float32).reshape(2, 3, 2)


def refusal(made: Any) -> list[str]:
    with pytest.raises(ird.IrdeconvError) as e:
        convert(made)
    return [d.message for d in e.value.diagnostics]


# Order -------------------------------------------------------------------------------------------


def test_nodes_in_any_order() -> None:
    nodes = [node("Relu", "b", "y"), node("Neg", "a", "b"), node("Abs", "x", "a")]
    (y,) = run(model(nodes, [info("x", [2])], ["y"]), {"x": np.array([-2, 3], np.float32)})
    assert y.tolist() == [0, 0]
    graph = convert(model(nodes, [info("x", [2])], ["y"]))
    assert [n.name for n in graph.topological()][1:4] == ["La", "Lb", "Ly"]


def test_a_body_comes_behind_what_it_reads() -> None:
    then = helper.make_graph([node("Neg", "a", "t")], "t", [], [info("t", None)])
    other = helper.make_graph([node("Relu", "a", "e")], "e", [], [info("e", None)])
    nodes = [node("If", "c", "y", then_branch=then, else_branch=other), node("Abs", "x", "a")]
    made = model(nodes, [info("x", [2]), info("c", [], TensorProto.BOOL)], ["y"])
    feeds = {"x": np.array([-2, 3], np.float32), "c": np.array(True)}
    assert run(made, feeds)[0].tolist() == [-2, -3]


def test_a_circle_is_named() -> None:
    nodes = [node("Neg", "b", "a"), node("Abs", "a", "b"), node("Relu", "x", "y")]
    (text,) = refusal(model(nodes, [info("x", [2])], ["y"]))
    assert text == 'nodes that depend on each other in a circle: "La", "Lb"'


# Old operation sets ------------------------------------------------------------------------------


def test_broadcasting_from_an_axis() -> None:
    """Before operation set 7 the second input lay along the axes from `axis` on."""
    bias = np.array([10, 20, 30], np.float32)
    made = single("Add", {"x": X}, {"b": bias}, opset=6, broadcast=1, axis=1)
    np.testing.assert_array_equal(run(made, {"x": X})[0], X + bias[None, :, None])
    made = single("Mul", {"x": X}, {"b": np.array([2, 3], np.float32)}, opset=6, broadcast=1)
    np.testing.assert_array_equal(run(made, {"x": X})[0], X * [2, 3])


def test_operation_set_1() -> None:
    made = single("Relu", {"x": X}, opset=1, consumed_inputs=[0])
    np.testing.assert_array_equal(run(made, {"x": X})[0], np.maximum(X, 0))
    made = single("Reshape", {"x": X}, opset=1, shape=[3, 4])
    assert run(made, {"x": X})[0].shape == (3, 4)


# Definitions -------------------------------------------------------------------------------------


def test_an_operation_without_a_rule_is_what_it_consists_of() -> None:
    labels = np.array([[2, 0]])
    made = single("NegativeLogLikelihoodLoss", {"x": X[:1]}, {"t": labels}, opset=13)
    want = -(X[0, 2, 0] + X[0, 0, 1]) / 2
    assert run(made, {"x": X[:1]})[0] == pytest.approx(want)


def test_a_version_without_a_rule_too() -> None:
    """GroupNormalization 18 has a scale for each group, 21 one for each channel."""
    x = np.random.default_rng(1).standard_normal((1, 4, 5)).astype(np.float32)
    constants = {"s": np.array([2, 3], np.float32), "b": np.array([1, -1], np.float32)}
    made = single("GroupNormalization", {"x": x}, constants, opset=18, num_groups=2)
    groups = x.reshape(2, -1)
    centred = groups - groups.mean(1, keepdims=True)
    want = centred / np.sqrt(groups.var(1, keepdims=True) + 1e-5) * [[2], [3]] + [[1], [-1]]
    np.testing.assert_allclose(run(made, {"x": x})[0], want.reshape(1, 4, 5), rtol=1e-4, atol=1e-5)


def test_what_a_definition_lacks_is_told_with_its_operation() -> None:
    made = single("SequenceMap", {"x": X}, opset=17, body=helper.make_graph([], "b", [], []))
    texts = refusal(made)
    assert all("SequenceMap" in t for t in texts)


# Sequences ---------------------------------------------------------------------------------------


def test_sequences_that_vanish() -> None:
    nodes = [
        node("SplitToSequence", "x", "s", axis=1),
        node("SequenceInsert", "s extra first", "more"),
        node("SequenceErase", "more last", "less"),
        node("SequenceAt", "less second", "one"),
        node("SequenceLength", "less", "count"),
        node("ConcatFromSequence", "less", "all", axis=1),
    ]
    constants = {
        "extra": np.full((2, 1, 2), 9, np.float32),
        "first": np.array(0),
        "second": np.array(1),
        "last": np.array(-1),
    }
    made = model(nodes, [info("x", [2, 3, 2])], ["one", "count", "all"], constants)
    one, count, every = run(made, {"x": X})
    np.testing.assert_array_equal(one, X[:, :1])
    assert count == 3
    np.testing.assert_array_equal(every, np.concatenate([constants["extra"], X[:, :2]], 1))


def test_a_sequence_cannot_be_an_output() -> None:
    made = model([node("SequenceConstruct", "x x", "y")], [info("x", [2])], ["y"])
    assert refusal(made) == ['output "y" is a sequence, not a tensor']


def test_optional_values_that_are_there() -> None:
    nodes = [
        node("Optional", "x", "o"),
        node("OptionalHasElement", "o", "there"),
        node("OptionalGetElement", "o", "y"),
    ]
    there, y = run(model(nodes, [info("x", [2, 3, 2])], ["there", "y"], opset=18), {"x": X})
    assert there.tolist() is True
    np.testing.assert_array_equal(y, X)


# Narrow types ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "saturate", "want"),
    [
        ("FLOAT8E4M3FN", 1, [448, -448, 1, np.nan]),
        ("FLOAT8E4M3FN", 0, [np.nan, np.nan, 1, np.nan]),
        ("FLOAT8E5M2", 1, [1024, -57344, 1, np.nan]),
        ("FLOAT8E5M2", 0, [1024, -np.inf, 1, np.nan]),
    ],
)
def test_casts_to_8_bits(to: str, saturate: int, want: list[float]) -> None:
    x = np.array([1000, -1e6, 1.01, np.nan], np.float32)
    number = getattr(TensorProto, to)
    (y,) = run(single("Cast", {"x": x}, opset=19, to=number, saturate=saturate), {"x": x})
    np.testing.assert_array_equal(y.astype(np.float32), np.array(want, np.float32))


def test_blocks_of_weights_stay_packed() -> None:
    """4-bit weights with a scale for each block: a constant, Convert, Subtract, Multiply."""
    data = np.resize(np.arange(-8, 8, dtype=np.int8), (4, 8))
    packed = helper.make_tensor("w", TensorProto.INT4, [4, 8], data.ravel().tolist())
    scale = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    nodes = [node("DequantizeLinear", "w s", "d", axis=1, block_size=4), node("MatMul", "x d", "y")]
    made = model(nodes, [info("x", [1, 4])], ["y"], {"s": scale}, opset=21)
    made.graph.initializer.append(packed)
    kinds = [n.op.element_type.name for n in convert(made).nodes("Const")]
    assert "i4" in kinds
    x = np.ones((1, 4), np.float32)
    want = (data * np.repeat(scale, 4, 1)).sum(0, keepdims=True)
    np.testing.assert_array_equal(run(made, {"x": x})[0], want)


def test_of_many_errors_the_first_are_shown() -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
    nodes = [helper.make_node("Relu", [f"lost{i}"], [f"y{i}"]) for i in range(300)]
    graph = helper.make_graph([*nodes, helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    with pytest.raises(ird.InputError) as e:
        ird.convert(helper.make_model(graph).SerializeToString())
    found = [d.message for d in e.value.diagnostics]
    assert len(found) == 101
    assert found[-1] == "200 more like this one are not shown"
