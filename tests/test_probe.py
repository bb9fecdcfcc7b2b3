"""The probe's arithmetic, held against Python's unbounded integers and plain loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ops.convolution import GroupConvolution
from irdeconv.verify.proof import probe
from irdeconv.verify.proof.certificate import probe_layers
from irdeconv.verify.proof.product import (
    PRIME,
    TERMS,
    Product,
    contract,
    matmul,
    product_aware,
    reduced,
    scattered,
    times,
)
from support.layers import Layer, build
from support.random_dialects import weights

pytestmark = pytest.mark.thorough


def elements(rng: np.random.Generator, *shape: int) -> Any:
    """Random elements; a fifth of them the largest one."""
    return np.where(rng.random(shape) < 0.2, PRIME - 1, rng.integers(0, PRIME, shape))


def exact(array: Any) -> Any:
    """The same as unbounded integers."""
    return array.astype(object)


@pytest.mark.parametrize("terms", [0, 1, 7, TERMS, TERMS + 1, 2 * TERMS + 3])
def test_matmul_is_exact(terms: int) -> None:
    rng = np.random.default_rng(terms)
    for a, b in (
        (elements(rng, 2, 3, terms), elements(rng, 2, terms, 4)),
        (np.full((1, terms), PRIME - 1), np.full((terms, 1), PRIME - 1)),
    ):
        want = (exact(a) @ exact(b)) % PRIME if terms else np.zeros((*a.shape[:-1], b.shape[-1]))
        assert np.array_equal(matmul(a, b), want)


def test_reduction_of_extreme_integers() -> None:
    around = [n + d for n in (0, PRIME, 2 * PRIME, 2**31, 2**62, 2**63 - 2) for d in (-1, 0, 1)]
    values = np.array([v for v in around if v >= 0], np.int64)
    assert reduced(values).tolist() == [int(v) % PRIME for v in values]
    wide = np.array([2**64 - 1, 2**63, (PRIME - 1) ** 2], np.uint64)
    assert reduced(wide).tolist() == [int(v) % PRIME for v in wide]
    rng = np.random.default_rng(0)
    a, b = elements(rng, 50), elements(rng, 50)
    assert times(a, b).tolist() == [int(x) * int(y) % PRIME for x, y in zip(a, b, strict=True)]


SHAPES = [((2, 6, 5), (3,), 2), ((1, 4, 3, 5), (2, 3), 1), ((2, 2, 2, 3, 2), (2, 1, 3), 2)]


@pytest.mark.parametrize(("shape", "kernel", "groups"), SHAPES)
def test_products_are_deconvolved_as_by_the_definition(
    shape: tuple[int, ...], kernel: tuple[int, ...], groups: int
) -> None:
    rng = np.random.default_rng(len(shape))
    inner, outputs, axes = shape[1] // groups, 3, len(kernel)
    x = Product(tuple(elements(rng, n) for n in shape))
    w = elements(rng, groups, outputs, inner, *kernel)
    strides, dilations, begin = (2, 3, 1)[:axes], (1, 2, 1)[:axes], (1, -1, 0)[:axes]
    sizes = (9, 11, 4)[:axes]
    rows = zip(
        x.factors[2:], strides, dilations, kernel, zip(begin, sizes, strict=True), strict=True
    )
    got = contract(x, w, [scattered(*row) for row in rows])
    want = np.zeros((shape[0], groups * outputs, *sizes), object)
    full = exact(x.dense())
    for n, g, c, m in itertools.product(*map(range, (shape[0], groups, inner, outputs))):
        for s in itertools.product(*map(range, shape[2:])):
            for k in itertools.product(*map(range, kernel)):
                at = [
                    i * t + j * d - b
                    for i, t, j, d, b in zip(s, strides, k, dilations, begin, strict=True)
                ]
                if all(0 <= o < size for o, size in zip(at, sizes, strict=True)):
                    value = full[(n, g * inner + c, *s)] * int(w[(g, m, c, *k)])
                    want[(n, g * outputs + m, *at)] += value
    assert np.array_equal(got, want % PRIME)


def test_the_elements_of_a_product() -> None:
    rng = np.random.default_rng(5)
    x = Product(tuple(elements(rng, n) for n in (2, 3, 4)))
    a, b, c = map(exact, x.factors)
    want = a[:, None, None] * b[:, None] * c % PRIME
    assert np.array_equal(x.dense(), want)
    assert np.array_equal(x.transposed((2, 0, 1)).dense(), want.transpose(2, 0, 1))
    for target in [(2, 3, 1, 4), (6, 4), (1, 24), (2, 12, 1)]:
        moved = x.reshaped(target)
        assert moved is not None
        assert np.array_equal(moved.dense(), want.reshape(target))
    assert x.reshaped((3, 2, 4)) is None
    assert x.reshaped((2, 3, 2, 2)) is None
    single = Product(tuple(elements(rng, n) for n in (1, 3, 1)))
    for target in [(3,), (1, 1, 3, 1), (3, 1)]:
        moved = single.reshaped(target)
        assert moved is not None
        assert np.array_equal(moved.dense(), single.dense().reshape(target))


@pytest.mark.parametrize("seed", range(8))
def test_convolutions_of_products_and_of_their_elements_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(1, 4))
    draw: Any = lambda lo, hi: tuple(int(v) for v in rng.integers(lo, hi, axes))  # noqa: E731
    op = GroupConvolution(draw(1, 4), draw(-1, 3), draw(-1, 3), draw(1, 3), "explicit")
    x = Product(tuple(elements(rng, n) for n in (2, 4, *draw(5, 9))))
    w = elements(rng, 2, 3, 2, *draw(1, 3))
    by_axis, by_tap = probe._convolve(op, x, w), probe._convolve(op, x.dense(), w)
    assert by_axis.shape == by_tap.shape
    assert np.array_equal(by_axis, by_tap)


def test_movements_keep_products_or_take_all_elements() -> None:
    rng = np.random.default_rng(9)
    x = Product(tuple(elements(rng, n) for n in (1, 2, 3, 4)))
    from irdeconv.ops.core import ZeroInsertion
    from irdeconv.ops.movement import Transpose
    from irdeconv.ops.padding import Pad12
    from irdeconv.ops.shape import Reshape, Squeeze1
    from irdeconv.verify.proof.evaluator import MOVEMENTS

    cases: list[tuple[Any, tuple[Any, ...], bool]] = [
        (Pad12("constant"), (np.array([0, 0, -1, 2]), np.array([0, 0, 3, -1])), True),
        (ZeroInsertion((2, 3)), (), True),
        (ZeroInsertion((2, 3), trailing=True), (), True),
        (Transpose(), (np.array([0, 2, 3, 1]),), True),
        (Reshape(special_zero=True), (np.array([0, 2, 3, 1, 4]),), True),
        (Reshape(special_zero=True), (np.array([0, 2, -1]),), True),
        (Reshape(special_zero=False), (np.array([1, 2, 3, 2, 2]),), False),
        (Squeeze1(), (np.array([0]),), True),
    ]
    for op, more, kept in cases:
        rule = MOVEMENTS[op.type]
        got = product_aware(op.type, rule)(op, x, *more)
        assert isinstance(got, Product) == kept, op
        assert got.shape == (want := rule(op, x.dense(), *more)).shape
        assert np.array_equal(got.dense() if isinstance(got, Product) else got, want)


def test_two_convolutions_in_a_row_are_refused() -> None:
    layer = Layer(1, (4, 5), None, 2, 2, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (0, 0))
    rng = np.random.default_rng(1)
    graph, _ = build(layer, np.zeros(layer.data_shape, np.float32), weights(rng, (2, 2, 3, 3)))
    source = ird.infer(graph)
    low = ird.lower(source).graph
    (last,) = low.nodes("Convolution")
    (pad,) = low.nodes("Pad")
    x, w = low.inputs_of(last.id)
    first = low.add(last.op, [x, w], name="again")
    wide = low.add(pad.op, [type(x)(first.id), *low.inputs_of(pad.id)[1:]], name="again/pad")
    low.set_input(last.id, 0, type(x)(wide.id))
    report = probe_layers(source, low)
    assert [r.reason for r in report.layers] == ['Convolution "deconv" is not the first one']


def test_layers_of_billions_of_products_are_probed_by_their_axes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A side sums K taps of the last axis for each output, the layer C K K / (S S): 64 times more.

    Two sides make a thirty-second; the other axis and the channels cost less than that.
    """
    from irdeconv.verify.proof import product

    count, plain = 0, product.matmul

    def counted(a: Any, b: Any) -> Any:
        nonlocal count
        count += a.size * b.shape[-1]
        return plain(a, b)

    monkeypatch.setattr(product, "matmul", counted)
    monkeypatch.setattr(probe, "matmul", counted)
    layer = Layer(1, (256, 320), None, 64, 32, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    assert layer.products > 2 * 10**9
    w = weights(np.random.default_rng(3), layer.filter_shape)
    graph, _ = build(layer, np.zeros((1,), np.float32), w, data_shape=layer.data_shape)
    source = ird.infer(graph)
    for form in ("zero-insertion", "phases", "stacked"):
        low = ird.lower(source, form).graph
        count = 0
        report = probe_layers(source, low, trials=1)
        assert report.passed, str(report)
        assert 0 < count < layer.products / 20
