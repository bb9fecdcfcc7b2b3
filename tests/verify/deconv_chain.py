"""A model with two deconvolutions, for tests of certificates."""

from __future__ import annotations

import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from random_dialects import weights
from support.layers import constant, parameter, result


def chain() -> Graph:
    """Two deconvolutions with a ReLU between, one filter for both."""
    g = Graph()
    op = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2), pads_begin=(1, 0))
    w = constant(g, weights(np.random.default_rng(1), (3, 3, 3, 2)), "w")
    x = parameter(g, (1, 3, 4, 5), np.float32, "x")
    first = g.add(op, [x, w], name="first")
    relu = g.add(REGISTRY["ReLU", "opset1"](), [Value(first.id)], name="relu")
    second = g.add(op, [Value(relu.id), w], name="up/ConvolutionBackpropData")
    result(g, Value(second.id))
    return ird.infer(g)
