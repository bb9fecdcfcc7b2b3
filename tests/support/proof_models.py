"""Little models of the proof's own data types, built layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.proof.model import Fact, Layer, Model, Obligation, Port, Shape, TypedArray

NAMES = {"float16": "f16", "float32": "f32", "float64": "f64", "bool": "boolean"}
VERSIONS = {"ScatterNDUpdate": "opset4", "Broadcast": "opset3", "Interpolate": "opset4"}
VERSIONS |= {"BatchToSpace": "opset2", "Slice": "opset8", "Gather": "opset8", "Einsum": "opset7"}
VERSIONS |= {"Identity": "opset16", "ShapeOf": "opset3"}


def typed(array: Any, type: str | None = None) -> TypedArray:
    """Return an array with its own type, or another one."""
    array = np.asarray(array)
    name = array.dtype.name
    named = NAMES.get(name) or name.replace("uint", "u").replace("int", "i")
    return TypedArray(array, type or named)


class Region:
    """A model that grows; every method returns the port of what it adds."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.parameters: list[int] = []

    def parameter(self, name: str = "x") -> Port:
        """Add an input."""
        self.parameters.append(len(self.layers))
        return self._add(Layer(name, "Parameter", "opset1"))

    def const(self, array: Any, type: str | None = None) -> Port:
        """Add a constant."""
        elements = typed(array, type)
        return self._add(Layer(f"c{len(self.layers)}", "Const", "opset1", elements=elements))

    def add(self, kind: str, *inputs: Port | Any, version: str | None = None, **said: Any) -> Port:
        """Add a layer; inputs that are no ports become constants, integers those of 64 bits."""
        ports = [v if isinstance(v, Port) else self.const(v) for v in inputs]
        texts = {
            k: ",".join(map(str, v))
            if isinstance(v, tuple | list)
            else str(v).lower()
            if isinstance(v, bool)
            else str(v)
            for k, v in said.items()
        }
        name = f"{kind.lower()}{len(self.layers)}"
        version = version or VERSIONS.get(kind, "opset1")
        return self._add(Layer(name, kind, version, texts, tuple(ports)))

    def _add(self, layer: Layer) -> Port:
        self.layers.append(layer)
        return Port(len(self.layers) - 1)

    @property
    def model(self) -> Model:
        """The model so far."""
        return Model(tuple(self.layers), tuple(self.parameters), ())


def obligation(
    source: tuple[Region, Port],
    lowered: tuple[Region, Port],
    shapes: Sequence[tuple[Shape, str]],
) -> Obligation:
    """Return the obligation that two values are equal; inputs are twins in their order."""
    twins = zip(lowered[0].parameters, source[0].parameters, strict=True)
    facts = dict(zip(source[0].parameters, shapes, strict=True))

    def fact(port: Port) -> Fact:
        if port.layer not in facts:
            return Fact(None, None)
        shape, type = facts[port.layer]
        return Fact(type, tuple(shape))

    return Obligation(
        source=source[0].model,
        lowered=lowered[0].model,
        wanted=source[1],
        output=lowered[1],
        twins={Port(a): Port(b) for a, b in twins},
        fact=fact,
    )
