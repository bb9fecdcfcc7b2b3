"""Comparing f16 and bf16 graphs with peers that round later, or add up in the narrow type."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import of_numpy
from irdeconv.ir.graph import Graph, Node
from irdeconv.ops.activation import Gelu, ReLU
from irdeconv.ops.basic import Const, Parameter
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.reduction import MVN
from irdeconv.verify import judge
from support.layers import parameter, result
from support.planted import faults
from support.raising_graphs import Net
from wide_network import SHAPE, wide_network

TYPES = pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
RNG = np.random.default_rng(71)


def retyped(graph: Graph, dtype: Any) -> Graph:
    """The graph with inputs and real constants of another type."""
    out = graph.copy()
    for node in out.nodes():
        node.specs, op = None, node.op
        if isinstance(op, Parameter):
            out.replace_op(node.id, Parameter(op.shape, of_numpy(np.dtype(dtype))))
        if isinstance(op, Const) and judge.is_real(op.data.array()):
            values = op.data.array().astype(dtype)
            kind = of_numpy(values.dtype)
            made = Const(kind, values.shape, data=ArrayData.of(values, kind))
            out.replace_op(node.id, made)
    return ird.infer(out)


def chain(dtype: Any) -> Graph:
    """Products, sums, a deconvolution, a normalisation and a softmax."""
    net = Net()
    x = parameter(net.graph, (2, 8, 6, 6), np.float32, "x")
    deconv = {"strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
    w = RNG.standard_normal((8, 6, 4, 4)).astype(np.float32)
    y = net.op(
        "ConvolutionBackpropData", "opset1", x, w, name="up", output_padding=(0, 0), **deconv
    )
    bias = RNG.standard_normal((1, 6, 1, 1)).astype(np.float32)
    y = net.op("Add", "opset1", y, bias, name="bias")
    y = net.op("PReLU", "opset1", y, np.full(6, 0.1, np.float32), name="act")
    y = net.op("Multiply", "opset1", y, bias + 3, name="scale")
    y = net.op("MVN", "opset6", y, np.array([2, 3]), name="norm", normalize_variance=True,
               eps=1e-3, eps_mode="inside_sqrt")  # fmt: skip
    y = net.op("SoftMax", "opset8", y, name="soft", axis=1)
    result(net.graph, y, "y")
    return retyped(net.graph, dtype)


def shown_by_a_wide_peer(graph: Graph, x: Any, dtype: Any) -> tuple[Any, Any]:
    """Every layer computed in single precision, each rounded only for us; the outputs."""
    wide, layers = retyped(graph, np.float32), {}

    def keep(node: Node, arrays: tuple[Any, ...]) -> None:
        layers[node.name] = arrays[0].astype(dtype) if judge.is_real(arrays[0]) else arrays[0]

    outs = ird.compile(wide).run([x.astype(np.float32)], trace=keep)
    return layers, {k: v.astype(dtype) for k, v in outs.items()}


@TYPES
def test_a_peer_that_rounds_only_what_it_shows(dtype: Any) -> None:
    graph = chain(dtype)
    x = RNG.standard_normal((2, 8, 6, 6)).astype(dtype)
    layers, outs = shown_by_a_wide_peer(graph, x, dtype)
    mine = {}
    ird.compile(graph).run([x], trace=lambda n, a: mine.update({n.name: a[0]}) if a else None)
    assert any(not np.array_equal(mine[k], layers[k]) for k in layers)
    assert ird.compare(graph, layers, [x]), ird.compare(graph, layers, [x])
    assert ird.compare(graph, outs, [x]), ird.compare(graph, outs, [x])


@TYPES
@pytest.mark.parametrize("layer", ["up", "bias", "act", "scale", "norm", "soft"])
def test_mistakes_are_found_in_spite_of_it(dtype: Any, layer: str) -> None:
    """Each seventh number of one tensor is off by a tenth and some roundings."""
    graph = chain(dtype)
    x = RNG.standard_normal((2, 8, 6, 6)).astype(dtype)
    layers, _ = shown_by_a_wide_peer(graph, x, dtype)
    wrong = layers[layer].astype(np.float32)
    wrong.reshape(-1)[::7] *= np.float32(1.1 + 12 * float(ml_dtypes.finfo(dtype).eps))
    first = ird.compare(graph, layers | {layer: wrong.astype(dtype)}, [x]).first_difference
    assert first.name == layer


def test_ties_that_the_rounding_makes() -> None:
    """A peer picks the first of two numbers that are one number in f16, or the second."""
    net = Net()
    x = parameter(net.graph, (1, 1, 4), np.float32, "x")
    y = net.op("Add", "opset1", x, np.float32(1), name="add")
    pool = {"strides": (2,), "kernel": (2,), "dilations": (1,), "pads_begin": (0,)}
    y = net.op("MaxPool", "opset8", y, name="pool", pads_end=(0,), **pool)
    result(net.graph, y, "y")
    graph = retyped(net.graph, np.float16)
    x16 = np.array([[[2e-4, 3e-4, 1, 2]]], np.float16)
    good = {"add": np.array([[[1, 1, 2, 3]]], np.float16), "pool": np.array([[[1, 3]]], np.float16)}
    for places, same in (([0, 3], True), ([1, 3], True), ([0, 2], False)):
        seen = good | {"pool.1": np.array([[places]], np.int64)}
        assert bool(ird.compare(graph, seen, [x16])) is same, places


def test_another_graph_rounds_where_the_first_one_does() -> None:
    graph = chain(np.float16)
    x = RNG.standard_normal((2, 8, 6, 6)).astype(np.float16)
    report = ird.compare(graph, graph, [x])
    assert report
    assert {t.own for t in report.tensors} == {0.0}


def test_an_error_without_a_bound_has_none_behind_a_function() -> None:
    x = np.ones((1, 3), np.float16)
    (error,) = judge.carried(Gelu("ERF"), [x], [np.full(x.shape, np.inf)], [x])
    assert np.all(np.asarray(error) == np.inf)


def test_sums_in_f16() -> None:
    """Added one by one in f16; the bound is far from that of the worst order."""
    dtype = np.float16
    x = RNG.standard_normal((6, 200)).astype(dtype)
    w = RNG.standard_normal((200, 9)).astype(dtype)
    (y,) = judge.evaluate(MatMul(), [x, w])
    total = np.zeros((6, 9), dtype)
    for k in range(200):
        total = (total + (x[:, k : k + 1] * w[k]).astype(dtype)).astype(dtype)
    exact = x.astype(np.float64) @ w.astype(np.float64)
    limit = judge.summed_narrowly(MatMul(), [x, w], y)
    limit = limit + judge.allowed(MatMul(), [x, w], [y])[0].limit
    apart = np.abs(total.astype(np.float64) - exact)
    assert np.all(apart <= limit)
    assert apart.max() > np.max(judge.allowed(MatMul(), [x, w], [y])[0].limit)
    size = np.abs(x).astype(np.float64) @ np.abs(w).astype(np.float64)
    assert np.all(limit < 200 * judge.roundoff(np.dtype(dtype)) * size)
    for op, other in ((ReLU(), y), (MatMul(), y.astype(ml_dtypes.bfloat16))):
        assert judge.summed_narrowly(op, [x, w], other) == 0.0


def test_numbers_below_the_normal_ones() -> None:
    y = np.array([0, 6e-8, 1e-6, 1], np.float16)
    assert np.all(judge.stored(y) >= [2**-25, 2**-25, 2**-25, 2**-11])


# The first two change no value; the last one adds 1e-6 in another place than another one.
INVISIBLE = {"rounding_type-avgpool31", "rounding_type-maxpool32", "eps_mode-normalizel229"}


@pytest.mark.parametrize(
    "step", [pytest.param(18, marks=pytest.mark.thorough), pytest.param(1, marks=pytest.mark.slow)]
)
def test_planted_faults_are_found_in_f16(step: int) -> None:
    whole = retyped(ird.infer(wide_network()), np.float16)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float16)
    missed, count = set(), 0
    for fault in list(faults(whole))[::step]:
        wrong = fault.planted(whole)
        if wrong is None:
            continue
        layers: dict[str, Any] = {}
        keep = {"trace": lambda n, a, to=layers: to.update({n.name: a[0]}) if a else None}
        ird.compile(ird.infer(wrong)).run([x], **keep)
        count += 1
        if ird.compare(whole, layers, [x]):
            missed.add(f"{fault.kind}-{fault.layer}")
    assert count > 70 // step
    assert missed <= INVISIBLE
    assert step > 1 or missed == INVISIBLE


@pytest.mark.oracles
@TYPES
def test_openvino(dtype: Any, tmp_path: Path) -> None:
    x = RNG.standard_normal((2, 8, 6, 6)).astype(dtype)
    report = ird.compare(chain(dtype), "openvino", [x])
    assert report, report
    wide = retyped(ird.infer(wide_network()), dtype)
    report = ird.compare(wide, "openvino", [RNG.standard_normal(SHAPE).astype(dtype)])
    assert report, report


def test_a_mean_of_equal_numbers_is_rounded() -> None:
    x, axes = np.full((2, 1, 5, 3), 7.3, np.float32), np.array([2, 3])
    op, y = MVN(True, 1e-3, "inside_sqrt"), np.zeros_like(x)
    (one,) = judge.allowed(op, [x, axes], [y])
    rounded = np.float32(7.3) * 2.0**-24 / np.sqrt(1e-3)
    assert ((rounded < one.limit) & (one.limit < 100 * rounded)).all()
    spread = np.linspace(-1, 1, x.size, dtype=np.float32).reshape(x.shape)
    (other,) = judge.allowed(op, [spread, axes], [np.asarray(op.evaluate(spread, axes))])
    assert np.max(other.limit) < 100 * 2.0**-24 * 4
    beside = np.concatenate([spread, 1000 * x], 1)
    (both,) = judge.allowed(op, [beside, axes], [np.asarray(op.evaluate(beside, axes))])
    assert both.limit[0, 0].max() < 100 * 2.0**-24 * 4 < both.limit[0, 1].max()
