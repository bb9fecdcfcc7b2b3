"""Which constants may be stored in f16: weights, but no number that decides a size or an index."""

import hashlib
from collections.abc import Hashable

import numpy as np

from irdeconv.proof.model import Array, Model

WEIGHING = {
    *("Add", "Subtract", "Multiply", "Divide", "PReLU", "BatchNormInference", "MatMul", "Gather"),
    *("Convolution", "GroupConvolution", "ConvolutionBackpropData", "GroupConvolutionBackpropData"),
    *("LSTMCell", "GRUCell", "RNNCell", "LSTMSequence", "GRUSequence", "RNNSequence"),
}
SHAPING = {"Reshape", "Transpose", "Squeeze", "Unsqueeze"}


def weighs(model: Model, place: int, *, divides: bool = True) -> bool:
    """Whether a constant at a place only meets elements of the inputs, moved about before at most.

    Layers stand behind those that they read. The shape of an input is none of its elements. Without
    `divides` the constant must divide nothing.
    """
    data: set[int] = set()
    moved = {place}
    for i, layer in enumerate(model.layers):
        read = {p.layer for p in layer.inputs}
        if layer.type == "Parameter" or (layer.type != "ShapeOf" and read & data):
            data.add(i)
        if read & moved:
            if layer.type not in (WEIGHING if i in data else SHAPING):
                return False
            divisors = {p.layer for p in layer.inputs[1:]} if layer.type == "Divide" else set()
            if divisors & moved and not divides:
                return False
            moved |= set() if i in data else {i}
    return True


def half(array: Array) -> Hashable:
    """Return what arrays share that are the same in f16."""
    with np.errstate(over="ignore"):
        return array.shape, hashlib.sha256(array.astype("<f2").tobytes()).digest()
