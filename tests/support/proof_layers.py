"""Random models of one deconvolution for the proof: every system, type, rank and kind of size."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import irdeconv as ird
from irdeconv.formats.xml_writer import write_ir
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.ports import declaration
from irdeconv.ir.spec import Interval
from support import dialect_layers, dialect_random, layers
from support.dialect_layers import TENSORRT, VERSIONS

OPENVINO = "openvino"
NARROW: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i32": np.int32,
    "i64": np.int64,
}
TAILS = ("ReLU", "Sigmoid", "Tanh")


@dataclass
class ProofLayer:
    """A model of one deconvolution `deconv` and how it came about, for messages.

    `dynamic`: some size is open.
    """

    graph: Graph
    system: str
    text: str
    dynamic: bool


def random_model(rng: np.random.Generator, *, budget: int = 400) -> ProofLayer:
    """Return a model whose shapes fit; three of ten have open sizes."""
    while True:
        system = OPENVINO if rng.random() < 0.4 else str(rng.choice(VERSIONS))
        make = _openvino if system == OPENVINO else _dialect
        try:
            made = make(rng, system, budget)
            made.graph = ird.infer(made.graph)
        except ird.InferenceError:
            continue  # an attribute beyond the system's limits, an output of size 0
        return made


def write_source(graph: Graph, path: Path) -> None:
    """Write a model with its deconvolutions as their systems spell them."""
    write_ir(graph, path)


def _narrow(system: str) -> list[str]:
    """Return what a system's deconvolution may have beside f32, as its class declares."""
    if system == OPENVINO:
        return list(NARROW)
    cls = REGISTRY["Deconvolution" if system == TENSORRT else "ConvTranspose", system]
    return [t for t in declaration(cls.signature).inputs[0].kind.split("|") if t != "f32"]


def _element_type(rng: np.random.Generator, system: str) -> tuple[str, Any]:
    if rng.random() < 0.5:
        return "f32", np.float32
    name = str(rng.choice(_narrow(system)))
    return name, NARROW[name]


def open_dims(
    rng: np.random.Generator, shape: tuple[int, ...], channels: int
) -> list[int | Interval | None]:
    """Open some dimensions, all but that of the channels: wholly or to an interval."""
    while True:
        dims: list[int | Interval | None] = list(shape)
        for axis, size in enumerate(shape):
            kind = rng.random()
            if axis == channels or kind < 0.4:
                continue
            low, high = max(size - int(rng.integers(0, 4)), 0), size + int(rng.integers(1, 90))
            top = None if rng.random() < 0.3 else high
            dims[axis] = None if kind < 0.75 else Interval(low, top)
        if dims != list(shape):
            return dims


def _openvino(rng: np.random.Generator, system: str, budget: int) -> ProofLayer:
    layer = layers.random_layer(rng, budget=budget)
    dynamic, empty = rng.random() < 0.3, rng.random() < 0.06
    layer = replace(layer, semantics="runtime")
    if empty:
        layer = replace(layer, size=_emptied(rng, layer.size))
    kind, dtype = _element_type(rng, system)
    x, w = np.zeros(layer.data_shape, dtype), _weights(rng, layer.filter_shape, dtype)
    dims = open_dims(rng, layer.data_shape, 1) if dynamic else list(layer.data_shape)
    graph, _ = layers.build(
        layer,
        x,
        w,
        filter_input=bool(rng.random() < 0.2),
        shape_source=str(rng.choice(["const", "const", "input", "computed"])),
        shape_type=rng.choice([np.int64, np.int64, np.int32]),
        data_shape=dims,
    )
    if rng.random() < 0.4 and kind in ("f32", "f16", "bf16", "f64"):
        _surround(graph, rng, dtype, (1, (layer.groups or 1) * layer.m, *(1,) * layer.axes))
    return ProofLayer(graph, system, f"{kind} {dims} {layer}", dynamic)


def _surround(graph: Graph, rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> None:
    """Put a bias behind the deconvolution, an activation before and behind it."""
    (node,) = graph.find("deconv")
    data = graph.inputs_of(node.id)[0]
    front = graph.add(REGISTRY[str(rng.choice(TAILS)), "opset1"](), [data], name="front")
    graph.set_input(node.id, 0, Value(front.id))
    users = graph.users(Value(node.id))
    bias = layers.constant(graph, _weights(rng, shape, dtype), "bias")
    y = graph.add(REGISTRY["Add", "opset1"](), [Value(node.id), bias], name="biased")
    last = graph.add(REGISTRY[str(rng.choice(TAILS)), "opset1"](), [Value(y.id)], name="last")
    for user, port in users:
        graph.set_input(user, port, Value(last.id))
    last.tensor_names, node.tensor_names = node.tensor_names, ()


def _dialect(rng: np.random.Generator, system: str, budget: int) -> ProofLayer:
    layer = dialect_random.random_layer(rng, system, budget=budget, semantics="runtime")
    if rng.random() < 0.06:
        layer = replace(layer, size=_emptied(rng, layer.size))
    dynamic = rng.random() < 0.3
    kind, dtype = _element_type(rng, system)
    arrays = [np.zeros(layer.data_shape, dtype)]
    arrays += [_weights(rng, shape, dtype) for shape in layer.shapes[1:]]
    channels = len(layer.data_shape) - 1 if layer.channels_last else 1
    dims = open_dims(rng, layer.data_shape, channels) if dynamic else list(layer.data_shape)
    inputs = (0, 1, 2) if rng.random() < 0.15 else (0,)
    graph, _ = dialect_layers.build(layer, arrays, inputs=inputs, data_shape=dims)
    return ProofLayer(graph, system, f"{kind} {dims} {layer}", dynamic)


def _emptied(rng: np.random.Generator, size: tuple[int, ...]) -> tuple[int, ...]:
    at = int(rng.integers(len(size)))
    return tuple(0 if a == at else s for a, s in enumerate(size))


def _weights(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Small integers, none of them zero, distinct as far as the type has room."""
    size = int(np.prod(shape))
    values = rng.permutation(size) % 100 + 1
    if np.dtype(dtype) != np.uint8:
        values = values * rng.choice([-1, 1], size)
    return values.reshape(shape).astype(dtype)
