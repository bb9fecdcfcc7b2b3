"""Quantized networks beside OpenVINO: what it executes in 8-bit integers, and what a level is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.elementwise import FakeQuantize
from irdeconv.verify.judge import allowed
from support.layers import constant, parameter, result
from support.processors import fitting

RNG = np.random.default_rng(7)


def quantized(g: Graph, x: Value, low: float, high: float, name: str) -> Value:
    limits = [np.float32(v).reshape(1, 1, 1, 1) for v in (low, high)] * 2
    inputs = [x, *(constant(g, v, f"{name}/{i}") for i, v in enumerate(limits))]
    return Value(g.add(REGISTRY["FakeQuantize", "opset1"](256), inputs, name=name).id)


def compressed(g: Graph, shape: tuple[int, ...], name: str) -> Value:
    """Return a filter of i8 with a scale per output channel, as weights are stored."""
    levels = fitting(RNG.integers(-127, 128, shape).astype(np.int8))
    scales = RNG.uniform(0.002, 0.02, (shape[0], *[1] * (len(shape) - 1))).astype(np.float32)
    w = g.add(REGISTRY["Convert", "opset1"](f32), [constant(g, levels, name)], name=f"{name}/f32")
    product = [Value(w.id), constant(g, scales, f"{name}/scale")]
    return Value(g.add(REGISTRY["Multiply", "opset1"](), product, name=f"{name}/scaled").id)


def network(low: float = -2.31) -> Graph:
    """A convolution, a deconvolution and a product with a matrix, all quantized."""
    g = Graph()
    x = quantized(g, parameter(g, (2, 3, 8, 10), np.float32, "x"), low, 2.6, "fq x")
    ones: dict[str, Any] = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}
    ones["dilations"] = (1, 1)
    conv = REGISTRY["Convolution", "opset1"](**ones)
    y = Value(g.add(conv, [x, compressed(g, (8, 3, 3, 3), "w")], name="convolution").id)
    y = Value(g.add(REGISTRY["ReLU", "opset1"](), [y], name="relu").id)
    y = quantized(g, y, 0, 3.1, "fq relu")
    deconv = REGISTRY["ConvolutionBackpropData", "opset1"](**ones | {"strides": (2, 2)})
    y = Value(g.add(deconv, [y, compressed(g, (8, 4, 4, 4), "v")], name="deconvolution").id)
    y = quantized(g, y, -3.7, 3.9, "fq up")
    matmul = REGISTRY["MatMul", "opset1"](transpose_b=True)
    result(g, Value(g.add(matmul, [y, compressed(g, (20, 20), "m")], name="product").id))
    return g


@pytest.mark.oracles
@pytest.mark.parametrize("precision", ["f32", "bf16", "int8"])
def test_openvino_agrees(precision: Any, tmp_path: Path) -> None:
    ird.write(network(), tmp_path / "a.xml")
    x = RNG.standard_normal((2, 3, 8, 10)).astype(np.float32)
    a, peer = tmp_path / "a.xml", f"openvino:{tmp_path / 'a.xml'}"
    assert ird.compare(a, peer, {"x": x}, peer_precision=precision)
    ird.write(network(low=-2.35), tmp_path / "b.xml")
    other = ird.compare(a, f"openvino:{tmp_path / 'b.xml'}", {"x": x})
    assert other.first_difference is not None
    assert other.first_difference.name == "fq x"


def test_a_value_at_a_border_may_be_one_level_off() -> None:
    """Levels 0, 1, 2, 3 of 0..3: 1.5 is between two, 1.25 is not."""
    op = FakeQuantize(4)
    limits = [np.float32(v).reshape(1) for v in (0, 3, 0, 3)]
    x = np.array([1.5, 1.25, 7], np.float32)
    y = op.evaluate(x, *limits)
    (bound,) = allowed(op, [x, *limits], (y,))
    assert y.tolist() == [2, 1, 3]
    limit = np.broadcast_to(bound.limit, (3,))
    assert 1 <= limit[0] < 1.001
    assert np.all(limit[1:] < 1e-5)
