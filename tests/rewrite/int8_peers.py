"""Quantized deconvolution models of any rank, and OpenVINO's int8 pipeline to run them in.

OpenVINO executes a FakeQuantize of 256 levels as u8 or i8 with a zero point, and moves the
dequantisation behind the layers that follow ("low precision transformations"). `LP_TRANSFORMS_MODE`
set to "NO" turns this off.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import f32, u8
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.rewrite.standardize import standardize
from support.layers import constant, parameter, result
from support.processors import fitting
from support.runtime_truth import joined

ov = pytest.importorskip("openvino")

Ints = tuple[int, ...]
Quantization = Literal["asymmetric", "symmetric", "subtract"]

FLOAT = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "LP_TRANSFORMS_MODE": "NO"}
INT8 = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
SCALE = 4 / 255
TOLERANCE = 2e-2  # of the original's range
CORE = ov.Core()


@dataclass(frozen=True)
class QuantizedLayer:
    """A deconvolution whose data and filter are quantized.

    `quantization` says how the data become integers: "asymmetric" is a FakeQuantize with
    `zero_point`; "symmetric" is one around 0; "subtract" is a FakeQuantize to 0..255, a Convert to
    u8 and back, Subtract and Multiply. `behind` puts a quantized convolution and a PReLU in front.
    """

    size: Ints
    kernel: Ints
    strides: Ints
    zero_point: int = 128
    quantization: Quantization = "asymmetric"
    pads: Ints | None = None
    groups: int = 1
    channels: int = 4
    outputs: int = 4
    batch: int = 2
    behind: bool = True

    @property
    def shape(self) -> Ints:
        """The shape of the model's input."""
        return (self.batch, self.channels, *self.size)

    @property
    def crop(self) -> Ints:
        """What is cut off at both ends of each axis."""
        if self.pads is not None:
            return self.pads
        return tuple(max(0, k - s) // 2 for k, s in zip(self.kernel, self.strides, strict=True))


def model(layer: QuantizedLayer, seed: int = 1) -> Graph:
    """Return a model of one quantized deconvolution with a bias."""
    rng = np.random.default_rng(seed)
    axes, g = len(layer.size), Graph()
    x = parameter(g, layer.shape, np.float32, "x")
    if layer.behind:
        x = fake_quantized(g, x, (-2, 2), (-2, 2), "fq x")
        w = filter_of(g, rng, (layer.channels, layer.channels, *(3,) * axes), 0, "w")
        conv = REGISTRY["Convolution", "opset1"](**_lists(axes, (1,) * axes, (1,) * axes))
        y = Value(g.add(conv, [x, w], name="convolution").id)
        slope = constant(g, np.array([0.3], np.float32), "slope")
        x = Value(g.add(REGISTRY["PReLU", "opset1"](), [y, slope], name="prelu").id)
    x = _quantized(g, x, layer)
    channels, outputs = layer.channels // layer.groups, layer.outputs // layer.groups
    shape, kind, axis = (channels, outputs, *layer.kernel), "ConvolutionBackpropData", 1
    if layer.groups > 1:
        shape, kind, axis = (layer.groups, *shape), f"Group{kind}", 2
    v = filter_of(g, rng, shape, axis, "v")
    deconv = REGISTRY[kind, "opset1"](**_lists(axes, layer.strides, layer.crop))
    y = Value(g.add(deconv, [x, v], name="deconvolution").id)
    bias = rng.uniform(-1, 1, (1, layer.outputs, *(1,) * axes)).astype(np.float32)
    y = Value(g.add(REGISTRY["Add", "opset1"](), [y, constant(g, bias, "bias")], name="add").id)
    result(g, y)
    return g


def _lists(axes: int, strides: Ints, pads: Ints) -> dict[str, Any]:
    lists = {"strides": strides, "pads_begin": pads, "pads_end": pads}
    return lists | {"dilations": (1,) * axes}


def filter_of(g: Graph, rng: np.random.Generator, shape: Ints, axis: int, name: str) -> Value:
    """Return a filter of i8 with a scale per output channel."""
    levels = fitting(rng.integers(-127, 128, shape).astype(np.int8))
    scales = [n if a in (axis, axis - 2) else 1 for a, n in enumerate(shape)]
    scale = rng.uniform(0.004, 0.02, scales).astype(np.float32)
    convert: Any = REGISTRY["Convert", "opset1"]
    w = g.add(convert(f32), [constant(g, levels, name)], name=f"{name}/f32")
    product = [Value(w.id), constant(g, scale, f"{name}/scale")]
    return Value(g.add(REGISTRY["Multiply", "opset1"](), product, name=f"{name}/scaled").id)


def fake_quantized(
    g: Graph, x: Value, span: tuple[float, float], to: tuple[float, float], name: str
) -> Value:
    """Return data behind a FakeQuantize of 256 levels."""
    limits = [np.float32(v).reshape(1) for v in (*span, *to)]
    inputs = [x, *(constant(g, v, f"{name}/{i}") for i, v in enumerate(limits))]
    quantize: Any = REGISTRY["FakeQuantize", "opset1"]
    return Value(g.add(quantize(256), inputs, name=name).id)


def _quantized(g: Graph, x: Value, layer: QuantizedLayer) -> Value:
    if layer.quantization == "symmetric":
        return fake_quantized(g, x, (-2, 2 * 127 / 128), (-2, 2 * 127 / 128), "fq")
    ends = (-SCALE * layer.zero_point, SCALE * (255 - layer.zero_point))
    if layer.quantization == "asymmetric":
        return fake_quantized(g, x, ends, ends, "fq")
    y = fake_quantized(g, x, ends, (0, 255), "fq")
    convert: Any = REGISTRY["Convert", "opset1"]
    for dtype in (u8, f32):
        y = Value(g.add(convert(dtype), [y], name=dtype.name).id)
    for kind, value in (("Subtract", layer.zero_point), ("Multiply", SCALE)):
        operand = constant(g, np.array([value], np.float32), f"{kind}/value")
        y = Value(g.add(REGISTRY[kind, "opset1"](), [y, operand], name=kind).id)
    return y


def data(layer: QuantizedLayer, seed: int = 2) -> Any:
    """Return data for the model's input."""
    return np.random.default_rng(seed).uniform(-2, 2, layer.shape).astype(np.float32)


def spelled(graph: Graph) -> tuple[bytes, bytes]:
    """Return the files of a graph in operations that OpenVINO knows."""
    return ir_bytes(standardize(graph))


def run(models: Sequence[tuple[bytes, bytes]], arrays: Sequence[Any], *, int8: bool) -> list[Any]:
    """Return OpenVINO's output of each model, in 8-bit integers where it can, or in f32."""
    whole = joined([CORE.read_model(*files) for files in models])
    compiled = CORE.compile_model(whole, "CPU", INT8 if int8 else FLOAT)
    found = compiled(list(arrays))
    return [np.array(found[output]) for output in compiled.outputs]


def difference(found: Any, want: Any) -> float:
    """Return the largest difference, relative to the range of `want`."""
    if found.shape != want.shape:
        return float("inf")
    spread = float(want.max() - want.min())
    return float(np.abs(found.astype(np.float64) - want).max(initial=0)) / (spread or 1)


def int8_differences(
    layers: Sequence[QuantizedLayer], forms: Sequence[str]
) -> dict[tuple[QuantizedLayer, str], float]:
    """Return how far each lowered form in OpenVINO int8 is from the original in f32.

    Forms often lower a layer to equal models; each of these runs once.
    """
    graphs, arrays = [model(layer) for layer in layers], [data(layer) for layer in layers]
    wanted = run([spelled(g) for g in graphs], arrays, int8=False)
    models = {
        (i, form): (i, spelled(ird.lower(graphs[i], form).graph))
        for i, form in itertools.product(range(len(layers)), forms)
    }
    distinct = list(dict.fromkeys(models.values()))
    outputs = run([files for _, files in distinct], [arrays[i] for i, _ in distinct], int8=True)
    found = dict(zip(distinct, outputs, strict=True))
    return {(layers[i], f): difference(found[m], wanted[i]) for (i, f), m in models.items()}
