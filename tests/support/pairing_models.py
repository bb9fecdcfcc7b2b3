"""Small models made by hand for what pairs the values of two."""

from __future__ import annotations

import numpy as np

from irdeconv.proof.model import Fact, Layer, Model, Port, TypedArray
from irdeconv.proof.symbolic import ProofVerdict

WEIGHTS = np.arange(1, 13, dtype="<f4").reshape(3, 4)


def parameter(name: str = "x", shape: tuple[int, ...] = (2, 3)) -> Layer:
    text = ",".join(map(str, shape))
    data = {"shape": text, "element_type": "f32"}
    return Layer(name, "Parameter", "opset1", data, (), (Fact("f32", shape),), ((name,),))


def constant(name: str, array: np.ndarray, type: str = "f32") -> Layer:
    shape = ",".join(map(str, array.shape))
    data = {"element_type": type, "shape": shape}
    facts = (Fact(type, array.shape),)
    return Layer(name, "Const", "opset1", data, (), facts, ((),), TypedArray(array, type))


def operation(type: str, name: str, *inputs: int, rest: str = "", **data: str) -> Layer:
    ports = tuple(map(Port, inputs))
    return Layer(name, type, "opset1", data, ports, (Fact(None, None),), ((),), None, rest)


def result(source: int, *names: str) -> Layer:
    return Layer("r", "Result", "opset1", {}, (Port(source),), (), (names,))


def model(*layers: Layer) -> Model:
    ends = [tuple(i for i, y in enumerate(layers) if y.type == t) for t in ("Parameter", "Result")]
    return Model(layers, ends[0], ends[1], "version 11")


def network(**changes: Layer) -> Model:
    """Return MatMul(Sigmoid(x), w), with other layers in the places of some."""
    layers = {
        "x": parameter(),
        "s": operation("Sigmoid", "s", 0),
        "w": constant("w", WEIGHTS),
        "m": operation("MatMul", "m", 1, 2, transpose_a="false"),
        "r": result(3, "y"),
    }
    return model(*{**layers, **changes}.values())


def said(verdict: ProofVerdict) -> tuple[str, ...]:
    """What does not hold."""
    return verdict.problems + verdict.unequal
