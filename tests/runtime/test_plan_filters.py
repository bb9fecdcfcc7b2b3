"""Filters of plans: constants that are prepared once, subnormal ones, those that are computed."""

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.kernels import candidate, eager, jit
from irdeconv.ops.activation import ReLU
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from irdeconv.ops.elementwise import Add, Divide, FakeQuantize, Greater, Multiply
from irdeconv.ops.generation import Identity
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Concat, Reshape
from irdeconv.runtime.fusion import FusedConvolution
from support.plan_graphs import Builder, plans, randn, same, steps_of

TINY = np.finfo(np.float32).tiny
READERS = MatMul(), Divide(), Greater()  # not all are products


def subnormal_filters():
    w = randn(6, 4, 3, 3)
    w[::2, 1] = TINY / 4
    b, x = Builder.of((1, 4, 5, 7))
    y = b.add(Convolution(pads_begin=(1, 1), pads_end=(1, 1)), x, w)
    m = np.array([[1, TINY / 2], [-TINY / 8, 3]], np.float32)
    both = b.add(MatMul(), b.input((3, 2), name="a"), m)
    shared = b.const(np.where(m == 1, m, m * 0.75))
    return b.done(y, both, *(b.add(op, b.input((2, 2), name=op.type), shared) for op in READERS))


def test_subnormal_numbers_of_constant_filters_are_0() -> None:
    graph = subnormal_filters()
    x = np.full((1, 4, 5, 7), 2.0**100, np.float32)
    a = np.array([[0, 2**120], [2**120, 0], [1, 1]], np.float32)
    feeds = [x, a, *[np.full((2, 2), TINY / 2, np.float32)] * 3]
    _, outs, plain = plans(graph, feeds)
    flushed, want = outs["y1"], plain["y1"]
    np.testing.assert_array_equal(flushed, np.where(np.abs(want) < 1, 0, want))
    assert (want != flushed).any()
    for name in ("y2", "y3", "y4"):
        np.testing.assert_array_equal(outs[name], plain[name])
    same(outs, plain)


def test_large_filters_without_subnormal_numbers_stay() -> None:
    w = randn(300, 300)
    b, x = Builder.of((2, 300))
    graph = b.done(b.add(MatMul(), x, w))
    _, outs, plain = plans(graph, [randn(2, 300)])
    same(outs, plain)


def test_identities_are_no_steps() -> None:
    b, x = Builder.of((1, 4, 6, 6))
    y = b.add(Convolution(), b.add(Identity(), x), b.add(Identity(), randn(5, 4, 3, 3)))
    y = b.add(ReLU(), b.add(Identity(), b.add(Add(), b.add(Identity(), y), randn(1, 5, 1, 1))))
    graph = b.done(b.add(Identity(), y))
    assert steps_of(graph, (1, 4, 6, 6)) == [["Convolution", "Add", "ReLU"], ["Identity"]]


@pytest.mark.parametrize("grouped", [False, True])
def test_sums_of_integers_prepare_their_filter_once(
    grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, op = ((2, 3, 4, 3, 3), GroupConvolution()) if grouped else ((6, 8, 3, 3), Convolution())
    w = np.random.default_rng(3).integers(-128, 128, shape).astype(np.int64)
    b, x = Builder.of((1, 8, 9, 7), np.int64)
    plan = ird.compile(b.done(b.add(op, x, w)), threads=1)
    listed = []
    candidates = eager.convolution_candidates
    monkeypatch.setattr(
        eager, "convolution_candidates", lambda p: (listed.append(p.dtype), candidates(p))[1]
    )
    for largest in (256, 256, 2**20, 2**50, 2**20):  # sums in f32, f64, and i64
        data = np.random.default_rng(largest).integers(0, largest, (1, 8, 9, 7))
        np.testing.assert_array_equal(plan.run([data])["y0"], op.evaluate(data, w))
    assert [listed.count(kind) for kind in ("float32", "float64", "int64")] == [3, 3, 2]


def test_sums_of_integers_with_a_filter_known_in_part_are_prepared_in_every_run() -> None:
    b, x = Builder.of((1, 1, 5), np.int64)
    parts = b.add(Concat(0), np.array([1, 2]), b.input((1,), np.int64, "p"))
    w = b.add(Reshape(False), parts, np.array([1, 1, 3]))
    plan = ird.compile(b.done(b.add(Convolution(), x, w)), threads=1)
    data = np.arange(5).reshape(1, 1, 5)
    for last in (3, 100, 7):
        want = [np.dot(data[0, 0, i : i + 3], [1, 2, last]) for i in range(3)]
        assert plan.run([data, np.array([last])])["y0"].reshape(-1).tolist() == want


def layers_with_computed_filters(given=None):
    one = {"strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1)}
    layers = [
        (Convolution(), (5, 8, 1, 1)),
        (Convolution(pads_begin=(1, 1), pads_end=(1, 1)), (9, 8, 3, 3)),
        (GroupConvolution(**one), (8, 1, 1, 3, 3)),
        (GroupConvolution(**one), (2, 3, 4, 5, 3)),
        (ConvolutionBackpropData(**one), (8, 6, 4, 4)),
        (GroupConvolutionBackpropData(**one), (2, 4, 3, 3, 3)),
    ]
    b, x = Builder.of((1, 8, 7, 6))
    filters = given or [b.input(shape, name=f"w{i}") for i, (_, shape) in enumerate(layers)]
    graph = b.done(*(b.add(op, x, w) for (op, _), w in zip(layers, filters, strict=True)))
    return graph, [shape for _, shape in layers]


def test_kernels_of_computed_filters_are_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, shapes = layers_with_computed_filters()
    fused, plain = (ird.compile(graph, threads=1, fuse=fuse) for fuse in (True, False))
    feeds = [randn(1, 8, 7, 6), *(randn(*shape) for shape in shapes)]
    for w in feeds[-2:]:
        w[0, 1, 0] = np.inf  # zeros that are inserted must not meet it
    constant = ird.compile(layers_with_computed_filters(feeds[1:])[0], threads=1)
    for got, want in zip(fused.run(feeds).values(), constant.run(feeds[:1]).values(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    if jit.available():
        monkeypatch.setattr(FusedConvolution, "arrange", None)
    for _ in range(2):
        feeds = [randn(1, 8, 7, 6), *(randn(*shape) for shape in shapes)]
        same(fused.run(feeds), plain.run(feeds))


@pytest.mark.skipif(not jit.available(), reason="needs numba")
def test_what_is_kept_of_computed_filters_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    b, x = Builder.of((1, 64, 4, 4))
    graph = b.done(b.add(Convolution(), x, b.input((64, 64, 3, 3))))
    with pytest.raises(ird.IrdeconvError, match="E602"):
        ird.compile(graph, threads=1, max_memory=500_000)
    monkeypatch.setattr(candidate, "REFILLED", 0)
    ird.compile(graph, threads=1, max_memory=500_000)


@pytest.mark.skipif(not jit.available(), reason="needs numba")
def test_a_large_layer_with_a_computed_filter_takes_the_compiled_kernel() -> None:
    b, x = Builder.of((1, 128, 64, 64))
    graph = b.done(b.add(Convolution(), x, b.input((128, 128, 3, 3), name="w")))
    assert [s.kernel for s in ird.compile(graph, threads=1).steps] == ["convolution direct"]


def test_many_small_images_are_few_tiles() -> None:
    b, x = Builder.of((256, 32))
    y = b.add(Add(), b.add(Multiply(), x, np.float32([0.5])), randn(32))
    limits = [np.float32(v) for v in (-1, 1, 0, 255)]
    graph = b.done(b.add(FakeQuantize(levels=256), y, *limits))
    plan = ird.compile(graph, threads=1)
    if jit.available():
        assert len(plan.steps[0].call.prepared.pieces) < 8
    _, outs, plain = plans(graph, [randn(256, 32)])
    assert np.abs(outs["y0"] - plain["y0"]).max() <= 1  # a step
