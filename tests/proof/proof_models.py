"""Small models of the proof's core, and those made by hand for pairing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.proof.model import Fact, Layer, Model, Obligation, Port, Shape, TypedArray
from irdeconv.proof.symbolic import ProofVerdict

# Little models of the proof's own data types, built layer by layer.

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
    source: tuple[Region, Port], lowered: tuple[Region, Port], shapes: Sequence[tuple[Shape, str]]
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


# A deconvolution of stride 2 and kernel 4, and its zero-insertion

STEPS = {"strides": (2, 2), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}
PADS = {"pads_begin": (2, 2), "pads_end": (2, 2)}
ONES = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
DATA = (2, 2, 3, 4)


def weights(*shape: int, seed: int = 0) -> Any:
    """Distinct integers but 0."""
    count = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(count) + 1
    return (order * np.where(order % 2 == 0, 1, -1)).reshape(shape).astype(np.float32)


def source(w: Any, **said: Any) -> tuple[Region, Port]:
    """A deconvolution of the data; a filter of None is an input."""
    r = Region()
    x = r.parameter("x")
    f = r.parameter("w") if w is None else r.const(w)
    kind = "GroupConvolutionBackpropData" if w is not None and w.ndim == 5 else None
    return r, r.add(kind or "ConvolutionBackpropData", x, f, **STEPS | said)


def spread(r: Region, x: Port, shape: tuple[int, ...]) -> Port:
    """Put a zero behind each element of both axes, then cut the last ones, then pad by 2."""
    n, c, h, w = shape
    y = r.add("Unsqueeze", x, np.array([3, 5]))
    y = r.add(
        "Pad", y, np.zeros(6, int), np.array([0, 0, 0, 1, 0, 1]), np.float32(0), pad_mode="constant"
    )
    y = r.add("Reshape", y, np.array([n, c, 2 * h, 2 * w]), special_zero=False)
    ends = np.array([0, 0, 2, 2]), np.array([0, 0, 1, 1])
    return r.add("Pad", y, *ends, np.float32(0), pad_mode="constant")


def lowered(w: Any, shape: tuple[int, ...] = DATA) -> tuple[Region, Port]:
    """The same by zero-insertion; a filter of None is an input that is reversed in the graph."""
    r = Region()
    y = spread(r, r.parameter("x"), shape)
    if w is None:
        back = -np.ones(2, int)
        f = r.add("Slice", r.parameter("w"), back, np.full(2, -(2**31)), back, np.array([2, 3]))
        f = r.add("Transpose", f, np.array([1, 0, 2, 3]))
    else:
        f = r.const(np.flip(w, (2, 3)).swapaxes(0, 1))
    return r, r.add("Convolution", y, f, **ONES)


def obliged(a: Any, b: Any, data: Shape = DATA, *more: Shape, type: str = "f32") -> Obligation:
    return obligation(a, b, [(shape, type) for shape in (data, *more)])


# Small models made by hand for what pairs the values of two.

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
