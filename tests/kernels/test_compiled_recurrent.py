"""Recurrent cells as compiled loops, beside the products of NumPy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.kernels import jit
from support.layers import constant, parameter, result

pytest.importorskip("numba")

N, T, WIDE, H = 2, 5, 3, 7
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def sequence(cell: str, **attributes: Any) -> tuple[Graph, dict[str, Any]]:
    """A sequence with constant weights, and one cell behind its first step."""
    rng = np.random.default_rng(len(cell))
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    gates = GATES[cell] * H
    bias = gates + H * bool(attributes.get("linear_before_reset"))

    def draw(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    states = [draw(N, directions, H) for _ in range(2 if cell == "LSTM" else 1)]
    weights = draw(directions, gates, WIDE), draw(directions, gates, H), draw(directions, bias)
    g = Graph()
    feeds = {"x": draw(N, T, WIDE), "lengths": np.array([T, 2])}
    x = parameter(g, (N, T, WIDE), np.float32, "x")
    lengths = parameter(g, (N,), np.int64, "lengths")
    first = [constant(g, s, f"state {n}") for n, s in enumerate(states)]
    fixed = [constant(g, w, f"weight {n}") for n, w in enumerate(weights)]
    op = REGISTRY[f"{cell}Sequence", "opset5"](H, **attributes)
    node = g.add(op, [x, *first, lengths, *fixed], name="sequence")
    for port in range(1 + len(states)):
        result(g, Value(node.id, port), f"y{port}")
    single = {k: v for k, v in attributes.items() if k != "direction"}
    begin = parameter(g, (N, WIDE), np.float32, "step")
    feeds["step"] = draw(N, WIDE)
    inputs = [begin, *(constant(g, s[:, 0], f"s{n}") for n, s in enumerate(states))]
    inputs += [constant(g, w[0], f"w{n}") for n, w in enumerate(weights)]
    version = "opset4" if cell == "LSTM" else "opset3"
    step = g.add(REGISTRY[f"{cell}Cell", version](H, **single), inputs, name="cell")
    result(g, Value(step.id), "z")
    return g, feeds


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("cell", "more"),
    [
        ("RNN", {}),
        ("RNN", {"clip": 0.5}),
        ("GRU", {}),
        ("GRU", {"linear_before_reset": True, "clip": 0.75}),
        ("LSTM", {}),
        ("LSTM", {"clip": 1.0}),
    ],
)
def test_loops_agree_with_products(
    cell: str, more: dict[str, Any], direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    g, feeds = sequence(cell, direction=direction, **more)
    fast = ird.compile(g).run(feeds)
    monkeypatch.setenv("IRDECONV_FAST", "0")
    plain = ird.compile(g).run(feeds)
    assert list(fast) == list(plain)
    for name, y in plain.items():
        assert np.abs(fast[name] - y).max() < 4e-6, name
        assert np.abs(y).max() > 0.1


@pytest.mark.skipif(not jit.available(), reason="needs numba")
def test_other_activations_and_weights_that_change_are_left_to_numpy() -> None:
    g, _ = sequence("LSTM", direction="forward")
    node = next(n for n in g.nodes() if n.name == "sequence")
    specs = ird.infer(g).input_specs(node.id)
    values = [*specs[:4], *(replace(s, value=np.ones(s.shape, np.float32)) for s in specs[4:])]
    open_weights = [s.without_value() for s in specs]
    assert node.op.evaluator(frozenset([0]), open_weights) == node.op.evaluate
    assert node.op.evaluator(frozenset([0]), values) != node.op.evaluate
    other = replace(node.op, activations=("sigmoid", "relu", "tanh"))
    assert (other.evaluator(frozenset([0]), values) == other.evaluate) is jit.available()
