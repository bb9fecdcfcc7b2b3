"""Batch normalization, scale and bias that are folded into the layers beside them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Convert
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from irdeconv.ops.elementwise import Add, Divide, Multiply, Subtract
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.reduction import BatchNormInference
from irdeconv.rewrite.channel_folding import behind_folded
from irdeconv.rewrite.compressed_filters import constant_of
from support import dialect_layers as dialects
from support import oracle
from support.plan_graphs import Builder

RNG = np.random.default_rng(5)
LISTS = {"strides": (2, 1), "pads_begin": (1, 0), "pads_end": (1, 2), "dilations": (1, 2)}
WINDOW = ((2, 1), (1, 2))


def some(*shape: int) -> Any:
    """Numbers that differ along every axis, none of them near 0."""
    return (RNG.permutation(int(np.prod(shape))).reshape(shape) / 7 + 0.4).astype(np.float32)


def convolved(x: Any, w: Any) -> Any:
    groups = w if w.ndim == 5 else w[None]
    return oracle.convolution(x, groups, *WINDOW, LISTS["pads_begin"], LISTS["pads_end"])


def scattered(x: Any, w: Any) -> Any:
    sizes = [2 * x.shape[2] + w.shape[-2] - 4, x.shape[3] + 2 * w.shape[-1] - 4]
    return oracle.deconvolution(x, w if w.ndim == 5 else w[None], *WINDOW, (1, 0), sizes)


Rule = Callable[..., Any]
LAYERS: dict[str, tuple[Any, Any, Any, Rule]] = {
    "convolution": (Convolution(**LISTS), some(2, 3, 4, 5), some(5, 3, 3, 2), convolved),
    "groups": (GroupConvolution(**LISTS), some(2, 6, 4, 5), some(2, 5, 3, 3, 2), convolved),
    "deconvolution": (
        ConvolutionBackpropData(**LISTS), some(2, 3, 4, 5), some(3, 5, 3, 2), scattered),
    "deconvolution in groups": (
        GroupConvolutionBackpropData(**LISTS), some(2, 6, 4, 5), some(2, 3, 5, 3, 2), scattered),
    "product": (MatMul(), some(2, 4, 3), some(3, 5), np.matmul),
    "product, transposed": (MatMul(transpose_b=True), some(2, 4, 3), some(5, 3),
        lambda x, w: np.matmul(x, w.T)),
}  # fmt: skip
ATTRIBUTES = {
    dialects.ONEDNN: {**LISTS, "dilations": (1, 1), "groups": 2},
    dialects.TENSORRT: {"num_groups": 2, "kernel_size": (3, 2), "num_output_maps": 10},
}
DIALECTS = {
    version: dialects.DialectLayer(
        version, 2, (4, 5), 2, 3, 5, (3, 2), ATTRIBUTES.get(version, {"group": 2}), bias=0
    )
    for version in dialects.VERSIONS
}


def layer_of(name: str) -> tuple[Any, Any, tuple[Any, ...], Rule, int]:
    """The operation, its data, filter and perhaps bias, its definition, the channels' axis."""
    if name not in DIALECTS:
        op, x, w, rule = LAYERS[name]
        return op, x, (w,), rule, 2 if isinstance(op, MatMul) else 1
    made = DIALECTS[name]
    x, *rest = (some(*shape) for shape in made.shapes)
    last = made.axes + 1 if made.channels_last else 1
    return made.op, x, tuple(rest), partial(dialects.expected, made), last


def chain(name: str) -> tuple[Graph, Any, Any]:
    """x * a -> the layer -> (c - (y + d) * e / d) -> batch normalization; data and results."""
    op, x, filters, rule, axis = layer_of(name)
    b = Builder()

    def vector(size: int) -> Any:
        return some(size).reshape(-1, *[1] * (x.ndim - 1 - axis))

    a = vector(x.shape[axis])
    y = b.add(op, b.add(Multiply(), a, b.input(x.shape)), *filters)
    want = rule(x * a.astype(np.float64), *(f.astype(np.float64) for f in filters))
    c, d, e = (vector(want.shape[axis]) for _ in range(3))
    y = b.add(Subtract(), c, b.add(Divide(), b.add(Multiply(), b.add(Add(), y, d), e), d))
    want = c - (want + d) * e / d
    if axis == 1:
        variance = vector(c.size)
        flat = (v.reshape(-1) for v in (c, d, e, variance))
        y = b.add(BatchNormInference(epsilon=0.25), y, *flat)
        want = (want - e) / np.sqrt(variance + 0.25) * c + d
    return b.done(y), x, want


@pytest.mark.parametrize("name", [*LAYERS, *DIALECTS])
def test_chains_around_a_layer(name: str):
    graph, x, want = chain(name)
    after, report = ird.simplify(graph, fuse=True)
    (got,) = ird.run(after, x, form=None).values()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    (row,) = report.fused
    assert len(row.took) == (6 if layer_of(name)[4] == 1 else 5)
    assert 0 < row.bound < 2**-23
    assert ird.compare(graph, after, x).passed
    layers = [n.type for n in after.nodes() if n.type not in ("Const", "Parameter", "Result")]
    assert layers == [graph.find(row.name)[0].type, *["Add"] * (name not in DIALECTS)]


@pytest.mark.parametrize("name", [*LAYERS, *DIALECTS])
def test_plans_fold_what_is_behind(name: str):
    """The graph stays; a fused plan names all layers, and differs from others by rounding."""
    graph, x, want = chain(name)
    before = [n.label for n in graph.nodes()]
    ready = behind_folded(graph)
    assert [n.label for n in graph.nodes()] == before
    assert not any(isinstance(n.op, BatchNormInference) for n in ready.nodes())
    plan = ird.compile(graph, form=None)
    close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5 * np.abs(want).max())
    for got in (plan.run([x]), ird.run(graph, x, form=None, fuse=False)):
        close(*got.values(), want)
    names = {name for step in plan.steps for node in step.nodes for name in node.origins}
    assert {n.name for n in graph.nodes("BatchNormInference")} <= names


def test_biases_alone_and_narrow_types_stay():
    b, x = Builder.of((1, 2, 4, 4))
    graph = b.done(b.add(Add(), b.add(Convolution(), x, W), PER_CHANNEL))
    assert behind_folded(graph) is graph
    b = Builder()
    x = b.input((1, 2, 4, 4), dtype=np.float16)
    y = b.add(Convolution(), x, W.astype(np.float16))
    graph = b.done(b.add(Multiply(), y, PER_CHANNEL.astype(np.float16)))
    assert behind_folded(graph) is graph


def test_plans_leave_small_products_and_shared_filters():
    b, x = Builder.of((1, 2, 4, 4))
    graph = b.done(b.add(Multiply(), b.add(Convolution(), x, W), PER_CHANNEL * np.float32(1e-39)))
    plain = [n.type for n in graph.topological()]
    assert [n.type for n in behind_folded(graph).topological()] == plain
    b, x = Builder.of((1, 2, 4, 4))
    w = b.const(W)
    ends = [b.add(Multiply(), b.add(Convolution(), x, w), PER_CHANNEL) for _ in range(2)]
    graph = b.done(*ends)
    assert behind_folded(graph) is graph


def test_a_folded_product_can_be_lowered():
    graph, _, _ = chain("product")
    low = ird.lower(ird.simplify(graph, fuse=True).graph)
    assert [n.type for n in low.graph.nodes("MatMul")] == ["MatMul"]


@pytest.mark.oracles
@pytest.mark.parametrize("name", LAYERS)
def test_openvino_agrees(name: str):
    graph, x, _ = chain(name)
    after = ird.simplify(graph, fuse=True).graph
    for model in (graph, after):
        assert ird.compare(model, "openvino", x).passed


PER_CHANNEL = np.float32([3, 5]).reshape(2, 1, 1)
W = some(2, 2, 3, 3)


def convolve(b: Builder, x: Any, w: Any = W) -> Any:
    return b.add(Convolution(pads_begin=(1, 1), pads_end=(1, 1)), x, w)


def scaled(b: Builder, x: Any, by: Any, w: Any = W) -> Any:
    return b.add(Multiply(), convolve(b, x, w), by)


def twice(b: Builder, x: Any) -> Any:
    y = convolve(b, x)
    return b.add(Add(), b.add(Multiply(), y, PER_CHANNEL), b.add(ReLU(), y))


def normalized(b: Builder, x: Any, *, variance: float) -> Any:
    ones = np.ones(2, np.float32)
    return b.add(BatchNormInference(), convolve(b, x), ones, ones, ones, np.float32([1, variance]))


KEPT: dict[str, tuple[Callable[[Builder, Any], Any], str | None]] = {
    "two readers": (twice, None),
    "a constant per row": (lambda b, x: scaled(b, x, some(4, 1)), None),
    "a constant per image": (lambda b, x: scaled(b, x, some(3, 1, 1, 1)), None),
    "only a bias": (lambda b, x: b.add(Add(), convolve(b, x), PER_CHANNEL), None),
    "1 over y": (lambda b, x: b.add(Divide(), PER_CHANNEL, convolve(b, x)), None),
    "quantized": (
        lambda b, x: scaled(b, x, PER_CHANNEL, b.add(Convert(f32), W.astype(np.int8))), None),
    "no variance": (partial(normalized, variance=0), "a variance of .* is not positive"),
    "infinite": (partial(normalized, variance=np.inf), "is not finite"),
    "overflow": (lambda b, x: scaled(b, x, np.float32(3e38)), "would not be finite"),
    "by zero": (
        lambda b, x: b.add(Divide(), convolve(b, x), np.float32([[[1]], [[0]]])), "divides by 0"),
    "bias before padding": (
        lambda b, x: convolve(b, b.add(Add(), x, PER_CHANNEL)), "does not reach padded zeros"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_chains_that_stay(name: str):
    rule, reason = KEPT[name]
    b = Builder()
    graph = b.done(rule(b, b.input((1, 2, 4, 4))))
    after, report = ird.simplify(graph, fuse=True)
    assert report.steps["fused"] == 0
    assert len(after) == len(ird.simplify(graph).graph)
    if reason is None:
        assert report.fused == ()
    else:
        (row,) = report.fused
        assert re.search(reason, row.reason)


def test_filters_keep_their_storage():
    """The filter is rounded once to its type; a compressed one gets a factor behind it."""
    exact = W.astype(np.float16).astype(np.float64) * PER_CHANNEL[..., None].astype(np.float64)
    for stored in (W.astype(np.float16).astype(np.float32), W.astype(np.float16)):
        b, x = Builder.of((1, 2, 4, 4))
        w = stored if stored.dtype == np.float32 else b.add(Convert(f32), stored)
        graph = b.done(scaled(b, x, PER_CHANNEL, w))
        low = ird.lower(graph, fuse=True)
        (row,) = low.report.fused
        assert row.took == (row.result,)
        (layer,) = low.graph.nodes("Convolution")
        found = constant_of(low.graph, low.graph.inputs_of(layer.id)[1])
        np.testing.assert_array_equal(found, exact.astype(np.float32))
        assert bool(list(low.graph.nodes("Convert"))) == (stored.dtype == np.float16)
