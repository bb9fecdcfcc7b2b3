"""Legacy normalizations: statistics are blobs, sums over regions, softmax."""

from __future__ import annotations

import math

import numpy as np

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import LegacyLayer, Outputs, layer, standard
from irdeconv.ops.elementwise import Multiply
from irdeconv.ops.normalization import MVN2, BatchNormInference, NormalizeL2
from irdeconv.ops.slicing import Slice
from irdeconv.ops.softmax import LogSoftmax, SoftMax


@layer("BatchNormalization")
def batch_normalization(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """(x - biases) / sqrt(weights + epsilon): the weights are variances, the biases means."""
    channels = b.static(n[0], "the data", 2)[1]
    single = n.elements("weights") == 1 and channels != 1
    if single:
        raise Refusal("one variance for all channels")
    mean, variance = n.blob(b, "biases", (channels,)), n.blob(b, "weights", (channels,))
    # Only now is it known that there are as many numbers in the file.
    b.room(channels)
    ones, zeros = (np.full(channels, v, b.dtype(n[0]).container) for v in (1, 0))
    op = BatchNormInference(epsilon=n.number("epsilon"))
    return b.add(op, n[0], b.const(ones), b.const(zeros), mean, variance)


@layer("Norm LRN")
def norm(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x / (k + alpha / size^axes * sum of squares)^beta over channels or a square of places.

    k is read as an integer, as the Inference Engine did.
    """
    across = n.word("region", "across", "across same") == "across"
    sizes = [n.integer(a) for a in ("local-size", "local_size", "size") if a in n]
    if len(sizes) != 1:
        raise Refusal("its size is not given" if not sizes else f"it has the sizes {sizes}")
    op = standard(
        "LRN",
        "opset1",
        alpha=n.number("alpha"),
        beta=n.number("beta"),
        bias=float(math.trunc(n.finite("k", 1))),
        size=sizes[0],
    )
    axes = (1,) if across else range(2, b.rank(n[0]))
    return b.add(op, n[0], b.ints(*axes))


@layer("Normalize")
def normalize(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x / sqrt(eps + sum of squares) * weights, over the channels or all of an image."""
    shape = b.static(n[0], "the data", 2)
    axes = range(1, len(shape)) if n.flag("across_spatial", False) else (1,)
    op = NormalizeL2(eps=n.number("eps", 1e-10), eps_mode="add")
    y = b.add(op, n[0], b.ints(*axes))
    shared, count = n.flag("channel_shared", False), n.elements("weights")
    if count == 0:
        return y
    if count != (1 if shared else shape[1]) and count != shape[1]:
        raise Refusal(f"{count} weights for {shape[1]} channels")
    scale = n.blob(b, "weights", (1, count, *(1,) * (len(shape) - 2)))
    return b.add(Multiply(), y, _first(b, scale) if shared and count > 1 else scale)


def _first(b: ImportBuilder, values: Value) -> Value:
    """Return the first of several channels' values: the only one that counts where they share."""
    one = b.ints(1)
    return b.add(Slice(), values, b.ints(0), one, one, one)


@layer("MVN")
def mvn(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """(x - mean) / sqrt(variance + eps) over the places, or over the channels too."""
    op = MVN2(
        across_channels=n.flag("across_channels", False),
        normalize_variance=n.flag("normalize_variance", True),
        eps=n.number("eps", 1e-9),
    )
    return b.add(op, n[0])


@layer("GRN")
def grn(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """x / sqrt(bias + sum of squares over the channels)."""
    return b.add(standard("GRN", "opset1", bias=n.number("bias", 0)), n[0])


@layer("SoftMax")
def softmax(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """exp(x) by its sum along an axis."""
    return b.add(SoftMax(axis=n.axis(b, n[0])), n[0])


@layer("LogSoftmax")
def log_softmax(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Logarithm of the softmax along an axis."""
    return b.add(LogSoftmax(axis=n.axis(b, n[0], default=-1)), n[0])
