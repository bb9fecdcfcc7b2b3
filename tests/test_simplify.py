"""Simplified graphs: what goes, what has to stay, and that every bit of the results does."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.dtypes import f16, f32, i32, i64
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.channels import Split
from irdeconv.ops.convert import Convert
from irdeconv.ops.elementwise import Add, Divide, Multiply, Subtract
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.ops.shape import Reshape, ShapeOf, Squeeze1, Unsqueeze
from irdeconv.ops.slicing import Slice
from support import irbuild as ib
from support.networks import image, network
from support.plan_graphs import Builder

SHAPE = (2, 1, 3)
SPECIAL = np.array([[[0.0, -0.0, 1.5]], [[np.inf, np.nan, 1e-40]]], np.float32)
Rule = Callable[[Builder, Value], Value]


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def between(rule: Rule, dtype: Any = np.float32, shape: Any = SHAPE) -> Graph:
    """x -> ReLU-like -> the rule -> Sigmoid -> y, so that the rule is at no end of the model."""
    b = Builder()
    x = b.add(Subtract(), b.input(shape, dtype), np.array(0, dtype))
    middle = rule(b, b.add(Multiply(), x, np.full((3,), 2, dtype)))
    return b.done(b.add(Add(), middle, np.array(3, dtype)))


def kinds(graph: Graph) -> list[str]:
    """The types of the rule's layers: without ends, constants and what `between` adds."""
    found = [n.type for n in graph.nodes() if n.type not in ("Const", "Parameter", "Result")]
    for kind in ("Multiply", "Add"):
        found.remove(kind)
    return found


def check_bits(before: Graph, after: Graph, *feeds: Any) -> None:
    results = [ird.run(g, list(feeds), form=None, fuse=False) for g in (before, after)]
    assert list(results[0]) == list(results[1])
    for name, want in results[0].items():
        assert results[1][name].dtype == want.dtype
        assert results[1][name].tobytes() == want.tobytes(), name


NOTHING: dict[str, Rule] = {
    "reshape to the same shape": lambda b, x: b.add(Reshape(), x, ints(2, 1, -1)),
    "squeeze and unsqueeze": lambda b, x: b.add(
        Unsqueeze(), b.add(Squeeze1(), x, ints(1)), ints(1)
    ),
    "transpose in order": lambda b, x: b.add(Transpose(), x, ints(0, 1, 2)),
    "transpose there and back": lambda b, x: b.add(
        Transpose(), b.add(Transpose(), x, ints(2, 0, 1)), ints(1, 2, 0)
    ),
    "pads of 0": lambda b, x: b.add(Pad12("constant"), x, ints(0, 0, 0), ints(0, 0, 0)),
    "convert to the same type": lambda b, x: b.add(Convert(f32), x),
    "concat of one": lambda b, x: b.add(Concat(0), x),
    "split into one": lambda b, x: b.add(Split(num_splits=1), x, np.int64(0)),
    "add -0": lambda b, x: b.add(Add(), x, np.float32([-0.0])),
    "subtract 0": lambda b, x: b.add(Subtract(), x, np.float32(0)),
    "multiply by 1": lambda b, x: b.add(Multiply(), np.ones((1, 3), np.float32), x),
    "divide by 1": lambda b, x: b.add(Divide(), x, np.float32(1)),
    "slice of everything": lambda b, x: b.add(Slice(), x, ints(0), ints(9), ints(1), ints(2)),
    "tile once": lambda b, x: b.add(REGISTRY["Tile", "opset1"](), x, ints(1, 1)),
    "broadcast to the same shape": lambda b, x: b.add(
        REGISTRY["Broadcast", "opset3"](), x, ints(2, 1, 3)
    ),
}


@pytest.mark.parametrize("rule", NOTHING.values(), ids=NOTHING)
def test_layers_that_change_nothing_go(rule: Rule):
    before = between(rule)
    after, report = ird.simplify(before)
    assert kinds(after) == []
    assert sum(report.before.values()) - len(after) >= 2
    check_bits(before, after, SPECIAL)


STAYS: dict[str, tuple[Rule, list[str]]] = {
    "add +0, which makes +0 of -0": (
        lambda b, x: b.add(Add(), x, np.float32([[0]])), ["Add"]),
    "subtract -0": (lambda b, x: b.add(Subtract(), x, np.float32(-0.0)), ["Subtract"]),
    "multiply by ones that broadcast": (
        lambda b, x: b.add(Multiply(), x, np.ones((2, 3), np.float32)), ["Multiply"]),
    "multiply by ones of a higher rank": (
        lambda b, x: b.add(Multiply(), x, np.ones((1, 1, 1, 1), np.float32)), ["Multiply"]),
    "one over x": (lambda b, x: b.add(Divide(), np.float32(1), x), ["Divide"]),
    "0 minus x": (lambda b, x: b.add(Subtract(), np.float32(0), x), ["Subtract"]),
    "transpose of equal sizes": (
        lambda b, x: b.add(Transpose(), b.add(Concat(1), x, x, x), ints(0, 2, 1)),
        ["Concat", "Transpose"]),
    "slice backwards": (
        lambda b, x: b.add(Slice(), x, ints(-1), ints(-9), ints(-1), ints(2)), ["Slice"]),
    "to fewer bits and back": (
        lambda b, x: b.add(Convert(f32), b.add(Convert(f16), x)), ["Convert", "Convert"]),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "left"), STAYS.values(), ids=STAYS)
def test_what_may_change_a_bit_stays(rule: Rule, left: list[str]):
    before = between(rule)
    after = ird.simplify(before).graph
    assert kinds(after) == left
    check_bits(before, after, SPECIAL)


JOINED: dict[str, tuple[Rule, list[str]]] = {
    "reshapes": (
        lambda b, x: b.add(Reshape(), b.add(Reshape(), x, ints(6)), ints(3, -1)), ["Reshape"]),
    "squeeze, then unsqueeze elsewhere": (
        lambda b, x: b.add(Unsqueeze(), b.add(Squeeze1(), x, ints(1)), ints(0)), ["Reshape"]),
    "transposes": (
        lambda b, x: b.add(Transpose(), b.add(Transpose(), x, ints(1, 0, 2)), ints(2, 0, 1)),
        ["Transpose"]),
    "to more bits and back": (
        lambda b, x: b.add(
            Convert(f32),
            b.add(Convert(f16), b.add(Convert(f32), b.add(Convert(f16), x)))),
        ["Convert", "Convert"]),
    "integers through wider ones": (
        lambda b, x: b.add(
            Convert(f32), b.add(Convert(i64), b.add(Convert(i32), x))), ["Convert", "Convert"]),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "left"), JOINED.values(), ids=JOINED)
def test_pairs_become_one(rule: Rule, left: list[str]):
    before = between(rule)
    after = ird.simplify(before).graph
    assert kinds(after) == left
    check_bits(before, after, np.float32([[[0, -0.0, 1.5]], [[7, -3, 2]]]))


@pytest.mark.parametrize("name", [*NOTHING, *STAYS, *JOINED])
def test_open_shapes_keep_every_bit(name: str):
    rule = NOTHING.get(name) or (STAYS | JOINED)[name][0]
    before = between(rule, shape=(None, 1, None))
    after = ird.simplify(before).graph
    data = np.float32([[[0, -0.0, 1.5]], [[7, -3, 2]]])
    check_bits(before, after, data)
    assert [str(n.spec()) for n in after.results] == [str(n.spec()) for n in before.results]


def test_of_open_shapes_goes_what_needs_no_sizes():
    gone = [n for n, rule in NOTHING.items()
            if not kinds(ird.simplify(between(rule, shape=(None, 1, None))).graph)]  # fmt: skip
    assert gone == [
        "transpose in order", "transpose there and back", "pads of 0", "convert to the same type",
        "concat of one", "split into one", "add -0", "subtract 0", "divide by 1", "tile once",
    ]  # fmt: skip


def test_what_follows_from_shapes_is_constant():
    def rule(b: Builder, x: Value) -> Value:
        sizes = b.add(ShapeOf(), x)
        first = b.add(REGISTRY["Gather", "opset8"](), sizes, ints(0), np.int64(0))
        return b.add(Reshape(), x, b.add(Concat(0), first, ints(-1)))

    before = between(rule)
    after, report = ird.simplify(before)
    assert kinds(after) == ["Reshape"]
    assert report.steps["folded"] == 3
    check_bits(before, after, SPECIAL)


def test_constants_are_folded_up_to_a_limit():
    def graph() -> Graph:
        b = Builder()
        big = b.add(REGISTRY["Broadcast", "opset3"](), np.float32(2), ints(64, 100))
        return b.done(b.add(Add(), b.input((64, 100)), big))

    assert [n.type for n in ird.simplify(graph()).graph.nodes() if n.type != "Const"] == [
        "Parameter", "Add", "Result",
    ]  # fmt: skip
    kept = ird.simplify(graph(), max_growth=25_000).graph
    assert len(list(kept.nodes("Broadcast"))) == 1
    assert not list(ird.simplify(graph(), max_growth=26_000).graph.nodes("Broadcast"))


def test_weights_stay_compressed_and_what_moves_them_acts_on_fewer_bits():
    b = Builder()
    weights = b.add(Convert(f32), np.arange(6, dtype=np.float16).reshape(2, 3))
    turned = b.add(Transpose(), weights, ints(1, 0))
    before = b.done(b.add(REGISTRY["MatMul", "opset1"](), b.input((1, 3)), turned))
    after = ird.simplify(before).graph
    assert [n.type for n in after.topological()] == [
        "Parameter", "Const", "Convert", "MatMul", "Result",
    ]  # fmt: skip
    (constant,) = after.nodes("Const")
    assert str(constant.spec()) == "f16[3,2]"
    check_bits(before, after, np.float32([[1, 2, 3]]))
    assert not list(ird.simplify(before, decompress=True).graph.nodes("Convert"))


def test_quantization_of_constants_stays():
    b = Builder()
    ends = [np.float32(v) for v in (-1, 1, -1, 1)]
    weights = b.add(REGISTRY["FakeQuantize", "opset1"](levels=3), np.float32([0.3, 0.7]), *ends)
    graph = b.done(b.add(Multiply(), b.input((2,)), weights))
    assert len(list(ird.simplify(graph).graph.nodes("FakeQuantize"))) == 1


def test_duplicates_become_one_but_outputs_keep_their_names():
    b = Builder()
    x = b.input((2, 3))
    twice = [b.add(Multiply(), b.add(ReLU(), x), np.float32([1, 2, 3])) for _ in range(2)]
    before = b.done(b.add(Add(), *twice), b.add(Sigmoid(), x), b.add(Sigmoid(), x))
    after, report = ird.simplify(before)
    assert [report.after.get(k) for k in ("ReLU", "Multiply", "Const", "Sigmoid")] == [1, 1, 1, 2]
    assert after.outputs == before.outputs == ["y0", "y1", "y2"]
    check_bits(before, after, np.float32([[1, -2, 3], [4, 5, -6]]))


def test_the_ends_of_the_model_stay():
    b = Builder()
    x = b.input((2, 3))
    b.input((1,), name="unused")
    before = b.done(b.add(Reshape(), x, ints(2, 3)), b.add(Convert(f32), b.add(ReLU(), x)))
    b.graph.add(ReLU(), [x], name="dead")
    after, report = ird.simplify(b.graph)
    assert after.inputs == ["x", "unused"]
    assert after.outputs == before.outputs == ["y0", "y1"]
    # One that only passes an input on to an output stays: else both were one tensor.
    assert [n.type for n in after.nodes() if n.type in ("Reshape", "Convert")] == ["Reshape"]
    assert report.steps["dead"] == 1
    assert after.find("dead") == []


def test_tensor_names_of_what_goes_are_names_of_what_stays():
    before = between(lambda b, x: b.add(Convert(f32), x))
    (multiply,), (convert,) = before.nodes("Multiply"), before.nodes("Convert")
    multiply.tensor_names = (("a",),)
    convert.tensor_names = (("b",),)
    after = ird.simplify(before).graph
    assert [n.tensor_names for n in after.nodes("Multiply")] == [(("a", "b"),)]


def test_variables_and_unknown_operations_stay():
    loop = ird.read(ib.loop().encode())
    assert len(ird.simplify(loop).graph) == len(loop)


SHAPES = [(0, 0, 0), (2, 3, 4), (4, 1, 6), (1, -1, 2), (8, 0, -1)]
OPS: list[Callable[[Builder, Value, random.Random], Value]] = [
    lambda b, x, r: b.add(ReLU(), x),
    lambda b, x, r: b.add(Add(), x, np.float32(r.choice([0.0, -0.0, 1.0]))),
    lambda b, x, r: b.add(Multiply(), x, np.float32([r.choice([1.0, 2.0])])),
    lambda b, x, r: b.add(Transpose(), x, ints(*r.sample(range(3), 3))),
    lambda b, x, r: b.add(Reshape(special_zero=True), b.add(Reshape(), x, ints(2, 3, 4)),
                          ints(*r.choice(SHAPES))),
    lambda b, x, r: b.add(Reshape(), b.add(Unsqueeze(), x, ints(r.randint(0, 3))), ints(2, 3, 4)),
    lambda b, x, r: b.add(Squeeze1(), b.add(Unsqueeze(), x, ints(axis := r.randint(0, 3))),
                          ints(axis)),
    lambda b, x, r: b.add(Convert(f32), b.add(Convert(r.choice([f16, f32])), x)),
    lambda b, x, r: b.add(Reshape(), x, b.add(ShapeOf(), x)),
    lambda b, x, r: b.add(Concat(0), x),
    lambda b, x, r: b.add(Add(), b.add(Sigmoid(), x), b.add(Sigmoid(), x)),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_compute_the_same_bits(seed: int):
    r, b = random.Random(seed), Builder()
    values = [b.input((2, 3, 4))]
    for _ in range(14):
        values.append(r.choice(OPS)(b, r.choice(values[-2:]), r))
    graph = b.done(values[-1], values[-3], values[4])
    data = np.random.default_rng(seed).standard_normal((2, 3, 4)).astype(np.float32)
    data[0, 0] = [0, -0.0, np.inf, 1e-42]
    after = ird.simplify(graph).graph
    assert (after.inputs, after.outputs) == (graph.inputs, graph.outputs)
    assert [str(n.spec()) for n in after.results] == [str(n.spec()) for n in graph.results]
    check_bits(graph, after, data)
    again = ird.simplify(after)
    assert sum(again.report.steps.values()) == 0


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    monkeypatch.chdir(tmp_path)
    ird.write(between(NOTHING["transpose there and back"]), "net.xml")
    command = "simplify net.xml -o out.xml --check irdeconv --format json"
    assert main(command.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["types"]["Transpose"] == {"before": 2, "after": 0}
    assert found["check"] == {
        "with": "irdeconv", "passed": True, "same_bits": True, "difference": 0.0,
    }  # fmt: skip
    assert not list(ird.read("out.xml").nodes("Transpose"))
    assert main("simplify net.xml -i x=ones".split()) == 2


@pytest.mark.oracles
@pytest.mark.parametrize("name", [*NOTHING, *STAYS, *JOINED])
def test_openvino_agrees(name: str, tmp_path: Path, capsys: Any):
    row = NOTHING.get(name) or (STAYS | JOINED)[name][0]
    ird.write(between(row), tmp_path / "net.xml")
    assert main(["simplify", str(tmp_path / "net.xml"), "--check", "openvino"]) == 0
    assert "same bits before and after" in capsys.readouterr().out


@pytest.mark.oracles
def test_openvino_agrees_on_a_network(tmp_path: Path, capsys: Any):
    ird.write(ird.infer(network()), tmp_path / "net.xml")
    assert main(["simplify", str(tmp_path / "net.xml"), "--check", "openvino"]) == 0
    check_bits(network(), ird.simplify(network()).graph, image())
