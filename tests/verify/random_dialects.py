"""Random deconvolutions of the systems other than OpenVINO, as graphs of one layer."""

from dataclasses import replace
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from support.dialect_layers import DIALECTS, build
from support.dialect_random import random_layer
from support.layers import constant, parameter, result


def weights(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Distinct values, none of them zero."""
    size = int(np.prod(shape))
    signs = rng.choice([-1, 1], size)
    return ((rng.permutation(size) + 1) * signs).reshape(shape).astype(dtype)


def random_dialect(
    rng: np.random.Generator, kind: str, *, dynamic: bool = False, computed: bool = False
) -> Graph:
    """A graph with one layer `deconv`; its batch and sizes open, or filter and bias inputs."""
    layer = random_layer(rng, str(rng.choice(DIALECTS[kind])))
    layer = replace(layer, bias=0) if computed else layer
    if dynamic:  # a size that does not follow the data's is proved for some sizes only
        more = {k: v for k, v in layer.attributes.items() if k != "output_shape"}
        layer = replace(layer, attributes=more)
    x, *others = layer.shapes
    arrays = [np.zeros(x, np.float32), *(weights(rng, shape) for shape in others)]
    channels = len(x) - 1 if layer.channels_last else 1
    dims = [d if a == channels or not dynamic else None for a, d in enumerate(x)]
    return build(layer, arrays, inputs=(0, 1, 2) if computed else (0,), data_shape=dims)[0]


# A model with two deconvolutions, for tests of certificates.


def chain() -> Graph:
    """Two deconvolutions with a ReLU between, one filter for both."""
    g = Graph()
    op = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2), pads_begin=(1, 0))
    w = constant(g, weights(np.random.default_rng(1), (3, 3, 3, 2)), "w")
    first = g.add(op, [parameter(g, (1, 3, 4, 5), np.float32, "x"), w], name="first")
    relu = g.add(REGISTRY["ReLU", "opset1"](), [Value(first.id)], name="relu")
    second = g.add(op, [Value(relu.id), w], name="up/ConvolutionBackpropData")
    result(g, Value(second.id))
    return ird.infer(g)
