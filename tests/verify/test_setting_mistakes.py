"""What a layer is set to is named where it is wrong, and nothing where something else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.ir.op import REGISTRY, Op
from irdeconv.verify.difference import kind_of
from irdeconv.verify.judge import evaluate
from irdeconv.verify.mistakes import setting_mistake
from support.layers import sequential

RNG = np.random.default_rng(81)
X = (2 * RNG.standard_normal((2, 3, 7, 8))).astype(np.float32)


def op(kind: str, opset: int = 1, **attributes: Any) -> Op:
    return REGISTRY[kind, f"opset{opset}"](**attributes)


def pool(kind: str = "AvgPool", **changes: Any) -> Op:
    usual: dict[str, Any] = {"kernel": (3, 2), "strides": (2, 2), "pads_begin": (1, 0),
                             "pads_end": (1, 0), "rounding_type": "floor"}  # fmt: skip
    usual |= {"exclude_pad": True} if kind == "AvgPool" else {}
    return op(kind, **usual | changes)


def mvn(eps: float, mode: str = "inside_sqrt") -> Op:
    return op("MVN", 6, normalize_variance=True, eps=eps, eps_mode=mode)


SLOPE, AXES = np.float32(0.1), np.array([2, 3])
PARTS = [np.array(v, np.float32) for v in ([1, 2, 3], [0, 1, 2], [0.5, 0, 1], [1e-3, 2e-3, 1])]
SQUARE, WIDE = (RNG.standard_normal(s).astype(np.float32) for s in ((8, 8), (8, 5)))
SMALL = X * np.float32(0.03)


@pytest.mark.parametrize(
    ("mine", "wrong", "inputs", "kind"),
    [
        (op("ReLU"), op("Sigmoid"), [X], "the activation is Sigmoid instead of ReLU"),
        (op("ReLU"), op("Clamp", min=0.0, max=6.0), [X * 5], "the activation is ReLU6 instead of"),
        (op("Gelu", 7), op("Gelu", 7, approximation_mode="TANH"), [X],
         "the activation is Gelu by Tanh instead of Gelu"),
        (op("HSwish", 4), op("Swish", 4), [X], "the activation is Swish instead of HSwish"),
        (op("Elu", alpha=1.0), op("Elu", alpha=0.5), [X], "alpha is 0.5 instead of 1"),
        (op("ReLU"), op("Elu", alpha=0.5), [X], "the activation is Elu of alpha 0.5 instead of"),
        (mvn(1e-3), mvn(1e-5), [SMALL, AXES], "epsilon is 1e-05 instead of 0.001"),
        (mvn(1e-3), mvn(1e-3, "outside_sqrt"), [SMALL, AXES],
         "epsilon is outside_sqrt instead of inside_sqrt"),
        (op("NormalizeL2", eps=0.01, eps_mode="add"), op("NormalizeL2", eps=0.1, eps_mode="add"),
         [SMALL, AXES], "epsilon is 0.1 instead of 0.01"),
        (op("BatchNormInference", 5, epsilon=1e-3), op("BatchNormInference", 5, epsilon=1e-5),
         [X, *PARTS], "epsilon is 1e-05 instead of 0.001"),
        (op("GroupNormalization", 12, num_groups=3, epsilon=1e-3),
         op("GroupNormalization", 12, num_groups=3, epsilon=0.0), [SMALL, *PARTS[:2]],
         "epsilon is 0 instead of 0.001"),
        (pool(), pool(exclude_pad=False), [X], "pads count in the averages"),
        (pool(exclude_pad=False), pool(), [X], "pads do not count in the averages"),
        (pool(kernel=(2, 3)), pool(kernel=(2, 3), rounding_type="ceil"), [X],
         "sizes are rounded by ceil instead of floor"),
        (pool("MaxPool", kernel=(2, 3)), pool("MaxPool", kernel=(2, 3), rounding_type="ceil"), [X],
         "sizes are rounded by ceil instead of floor"),
    ],
)  # fmt: skip
def test_settings(mine: Op, wrong: Op, inputs: list[Any], kind: str) -> None:
    b = evaluate(wrong, inputs)[0]
    assert (setting_mistake(mine, inputs, b, 1e-4) or "").startswith(kind)
    # Something else besides, in one place: nothing is explained.
    other = b.copy()
    other.reshape(-1)[3] += 0.01
    assert setting_mistake(mine, inputs, other, 1e-4) is None
    # Its own settings, off by more than rounding but not much.
    own = evaluate(mine, inputs)[0]
    assert setting_mistake(mine, inputs, own + np.float32(1e-4) * np.sign(own), 1e-4) is None


@pytest.mark.parametrize(
    ("slope", "other", "text"),
    [(SLOPE, np.float32(0.2), "alpha is 0.2 instead of 0.1"),
     (SLOPE, np.float32(0.0), "the activation is ReLU instead of PReLU"),
     (np.array([0.1, 0.2, 0.3], np.float32), np.float32(0.2), "alpha is 0.2 instead of its own"),
     (SLOPE, np.float32(1.0), "the activation (PReLU) is missing")],
)  # fmt: skip
def test_slopes(slope: Any, other: Any, text: str) -> None:
    (b,) = evaluate(op("PReLU"), [5 * X, other])
    assert setting_mistake(op("PReLU"), [5 * X, slope], b, 1e-4) == text


@pytest.mark.parametrize("w", [SQUARE, WIDE])
def test_transposed_weights(w: Any) -> None:
    mine = op("MatMul")
    turned = w.T if w is SQUARE else w.reshape(w.shape[::-1]).T
    b = X[0, 0] @ turned
    assert (setting_mistake(mine, [X[0, 0], w], b, 1e-4) or "").endswith("transposed")
    (own,) = evaluate(mine, [X[0, 0], w])
    assert setting_mistake(mine, [X[0, 0], w], own * 2, 1e-4) is None


def test_one_number_says_nothing() -> None:
    x = np.full((1, 3, 2, 2), -1.0, np.float32)
    (b,) = evaluate(op("PReLU"), [x, np.float32(0.5)])
    assert setting_mistake(op("PReLU"), [x, SLOPE], b, 1e-4) is None
    assert setting_mistake(op("ReLU"), [x[..., :1, :1]], b[..., :1, :1], 1e-4) is None


@pytest.mark.parametrize(
    ("a", "kind"),
    [(X, "a bias is missing"), (X[:1, :, :1, :1], None), (np.ones_like(X), None),
     (X[:, :, :1, :1], "a bias is missing")],
)  # fmt: skip
def test_a_bias_is_told_by_several_unlike_numbers(a: Any, kind: str | None) -> None:
    b = a - np.array([1, 2.5, -3], np.float32).reshape(1, 3, 1, 1)
    assert (kind_of(a, b, 1e-4) or "").startswith(kind or "") is True
    assert (kind is None) == (kind_of(a, b, 1e-4) is None)


def test_rounding_is_no_scale() -> None:
    assert kind_of(X, X * np.float32(1.00002), 1e-4) is None
    assert kind_of(X, X * 2, 1e-4) == "scaled by 2"


def two_layers(last: Op, *others: Any) -> Graph:
    first = "m", op("Multiply"), {"half": np.float32(0.5)}
    more = {f"c{i}": v for i, v in enumerate(others)}
    return ird.infer(sequential(X.shape, first, ("last", last, more)))


@pytest.mark.parametrize(
    ("mine", "wrong", "text"),
    [(two_layers(mvn(1e-2), AXES), two_layers(mvn(1e-6), AXES), "epsilon is 1e-06 instead of 0.01"),
     (two_layers(pool(kernel=(2, 3))), two_layers(pool(kernel=(2, 3), rounding_type="ceil")),
      "sizes are rounded by ceil instead of floor"),
     (two_layers(op("HSwish", 4)), two_layers(op("Mish", 4)), "the activation is Mish instead of")],
)  # fmt: skip
def test_compare_names_it(mine: Graph, wrong: Graph, text: str) -> None:
    first = ird.compare(mine, wrong, [X]).first_difference
    assert first.name == "last"
    assert (first.kind or "").startswith(text)
