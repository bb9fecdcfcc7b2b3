"""Exact mode: one order of summation, so that direct and lowered results are the same bits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from eager import convolution
from irdeconv.cli.main import main
from irdeconv.kernels import products
from irdeconv.ops.matrix import MatMul
from support.forms_grid import ALL, form_layer
from support.ir_text import write_ir
from support.layers import Layer, build, expected, numbers
from support.rows import each_row, parts

pytestmark = pytest.mark.thorough

FLOATS = (np.float32, np.float64, np.float16)


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def floats(rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    """Values of very different sizes, zeros of both signs among them."""
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
    values[rng.random(shape) < 0.15] = 0.0
    values[rng.random(shape) < 0.15] = -0.0
    return values.astype(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("chunk", parts(4, 10))
def test_all_forms_give_the_same_bits(dtype: Any, chunk: int) -> None:
    for k in range(12):
        rng = np.random.default_rng([91, chunk, k])
        layer = form_layer(rng, budget=400)
        x, w = floats(rng, layer.data_shape, dtype), floats(rng, layer.filter_shape, dtype)
        graph, feeds = build(layer, x, w, filter_input=bool(rng.random() < 0.3))
        direct = ird.run(graph, feeds, form=None, exact=True)["y"]
        assert direct.dtype == dtype
        for form in ALL:
            got = ird.run(graph, feeds, form=form, exact=True)["y"]
            assert bits(got) == bits(direct), (form, layer)


def reference(x: Any, w: Any, layer: Layer) -> Any:
    """The terms in the defined order, one by one, in float32: channels, then input positions."""
    one = np.float32
    y = np.zeros((layer.batch, layer.m, *layer.output_size), one)
    begin = [b for b, _ in layer.window()]
    for c in range(layer.c):
        for s in np.ndindex(*layer.size):
            for k in np.ndindex(*layer.kernel):
                o = [
                    a * st + t * d - p
                    for a, st, t, d, p in zip(
                        s, layer.strides, k, layer.dilations, begin, strict=True
                    )
                ]
                if all(0 <= v < n for v, n in zip(o, layer.output_size, strict=True)):
                    for n, m in np.ndindex(layer.batch, layer.m):
                        term = one(x[(n, c, *s)]) * one(w[(c, m, *k)])
                        y[(n, m, *o)] = one(y[(n, m, *o)] + term)
    return y


@each_row("seed", range(12))
def test_the_order_is_the_documented_one(seed: int) -> None:
    rng = np.random.default_rng([92, seed])
    layer = replace(form_layer(rng, budget=250), groups=None)
    x, w = (floats(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    graph, feeds = build(layer, x, w)
    got = ird.run(graph, feeds, form=None, exact=True)["y"]
    assert bits(got) == bits(reference(x, w, layer))


def test_a_sum_is_never_negative_zero() -> None:
    """Products of -0, and outputs that nothing reaches, are +0."""
    layer = Layer(1, (3,), None, 1, 1, (2,), (3,), (1,), (-1,), (-1,), (0,))
    x, w = -np.zeros(layer.data_shape, np.float32), np.ones(layer.filter_shape, np.float32)
    graph, feeds = build(layer, x, w)
    for form in (None, *ALL):
        y = ird.run(graph, feeds, form=form, exact=True)["y"]
        assert not np.signbit(y).any()


@each_row("seed", range(20))
def test_integers_and_small_floats_are_what_they_always_were(seed: int) -> None:
    rng = np.random.default_rng([93, seed])
    layer = form_layer(rng, budget=400)
    dtype = rng.choice([np.int8, np.int32, np.int64, np.float32])
    x, w = numbers(rng, layer.data_shape, dtype, 3), numbers(rng, layer.filter_shape, dtype, 3)
    graph, feeds = build(layer, x, w)
    want = expected(layer, x, w)
    for form in (None, "zero-insertion", "phases"):
        assert np.array_equal(ird.run(graph, feeds, form=form, exact=True)["y"], want)


def test_convolutions_with_strides_and_padding_keep_the_order() -> None:
    rng = np.random.default_rng(94)
    x, w = floats(rng, (2, 3, 7, 6), np.float32), floats(rng, (4, 3, 3, 2), np.float32)
    args = ((2, 1), (1, 2), (1, -1), (0, 2))
    with products.accumulate_in_order():
        got = convolution(x, w, *args)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)))[..., 1:]
    with products.accumulate_in_order():
        same = convolution(wide, w, *args[:2], (0, 0), (0, 0))
    assert bits(got) == bits(same)
    # Two sums of 18 products, each rounded at most 18 times.
    limit = 2 * 18 * 2.0**-24 * convolution(np.abs(x), np.abs(w), *args)
    assert np.all(np.abs(got - convolution(x, w, *args)) <= limit)
    assert not products.in_order()


def test_the_mode_belongs_to_the_plan() -> None:
    layer = Layer(1, (6, 5), None, 9, 4, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    rng = np.random.default_rng(95)
    x, w = (floats(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    graph, feeds = build(layer, x, w)
    plans = [ird.compile(graph, form=f, exact=True) for f in (None, "phases")]
    first, second = (bits(p.run(feeds)["y"]) for p in plans)
    assert first == second
    assert bits(ird.run(graph, feeds, form="phases", exact=True)["y"]) == first
    plain = ird.compile(graph, form=None, fuse=False).run(feeds)["y"]
    # Two sums of 9 channels and at most 2 x 2 taps.
    size = ird.run(*build(layer, np.abs(x), np.abs(w)), form=None, fuse=False)["y"]
    assert np.all(np.abs(plain - plans[0].run(feeds)["y"]) <= 2 * 36 * 2.0**-24 * size)


def test_the_command_line_has_it(tmp_path: Path) -> None:
    layer = Layer(1, (5, 4), None, 3, 2, (3, 3), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0))
    write_ir(
        tmp_path / "net.xml", layer, floats(np.random.default_rng(1), layer.filter_shape, "f4")
    )
    saved = []
    for form in ("none", "zero-insertion", "phases", "auto"):
        path = tmp_path / f"{form}.npy"
        command = ["run", str(tmp_path / "net.xml"), "x=randn", "--exact", "--form", form]
        assert main([*command, "-o", str(path)]) == 0
        saved.append(path.read_bytes())
    assert len(set(saved)) == 1


@pytest.mark.parametrize(("low", "high"), [(-128, 128), (-(2**31), 2**31 - 1)])
@pytest.mark.parametrize("shape", [(2, 30, 70), (3, 2)])
def test_products_of_integers(low, high, shape):
    """Matrix products wrap as NumPy's do, whether floats hold the sums or not."""
    rng = np.random.default_rng(5)
    a = rng.integers(low, high, shape).astype("i4")
    b = rng.integers(low, high, (shape[-1], 40)).astype("i4")
    np.testing.assert_array_equal(MatMul().evaluate(a, b), a @ b)
