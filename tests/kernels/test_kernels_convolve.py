"""Prepared convolution kernels against the definition, over the whole domain of each."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from irdeconv.kernels import jit
from irdeconv.kernels.candidate import Candidate, ConvProblem
from irdeconv.kernels.eager import as_deconvolution, convolution_candidates
from irdeconv.kernels.products import growth
from support.commands import Patch
from support.kernels import convolved, every_kernel, integers, products_taking, run
from support.rows import parts

pytestmark = pytest.mark.thorough


def draw(seed: int) -> ConvProblem:
    """Return a random convolution."""
    r = random.Random(seed)
    rank = r.randint(1, 3)

    def axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(r.randint(low, high) for _ in range(rank))

    groups, c, m, n = r.choice([1, 1, 2, 3]), r.randint(1, 3), r.randint(1, 3), r.randint(1, 2)
    sizes = axis(1, {1: 14, 2: 9, 3: 5}[rank])
    kernel = r.choice([(1,) * rank, (3,) * rank, axis(1, 3), axis(1, 4)])
    strides = r.choice([(1,) * rank, axis(1, 3)])
    dilations = r.choice([(1,) * rank, axis(1, 3)])
    begin, end = r.choice([(axis(-2, 4), axis(-2, 4)), ((kernel[0] // 2,) * rank,) * 2])
    rows = zip(sizes, begin, end, dilations, kernel, strides, strict=True)
    out = tuple(max((i + b + e - d * (k - 1) - 1) // s + 1, 0) for i, b, e, d, k, s in rows)
    shape = (n, groups * c, *sizes)
    return ConvProblem(shape, groups * m, groups, kernel, strides, dilations, begin, out)


def data(w: ConvProblem) -> tuple[Any, Any]:
    return integers(w, top=4, convolution=True)


def strided(x: Any, seed: int) -> Any:
    """Return an array of the same values whose elements are not neighbours."""
    if seed % 3 == 0:
        return x
    if seed % 3 == 1:
        return np.asfortranarray(x)
    host = np.full([2 * n + 1 for n in x.shape], np.nan, x.dtype)
    view = host[(slice(1, None, 2),) * x.ndim][(..., *(slice(None, None, -1),) * (x.ndim - 2))]
    view[...] = x
    return view


class Shifts:
    """y + channel, then times a tensor of the output's shape if positional."""

    def __init__(self, w: ConvProblem, positional: bool) -> None:
        self.positional = positional
        r = np.random.default_rng(1)
        self.bias = r.integers(-3, 4, (w.outputs, 1))
        self.factor = r.integers(-2, 3, (w.shape[0], w.outputs, int(np.prod(w.sizes))))

    def __call__(self, tile: Any, image: int, channels: slice, positions: slice) -> None:
        tile += self.bias[channels].astype(tile.dtype)
        if self.positional:
            tile *= self.factor[image, channels, positions].astype(tile.dtype)

    def on(self, y: Any) -> Any:
        """Return what the whole output becomes."""
        flat = y.reshape(*y.shape[:2], -1) + self.bias
        return (flat * self.factor if self.positional else flat).reshape(y.shape)


def tolerance(c: Candidate, w: ConvProblem) -> float:
    """Bound the rounding of a sum of products of integers up to 4 in size; epilogues double it."""
    if not c.transforms:
        return 0.0  # every partial sum is an integer that f32 holds
    # Transforms multiply a rounding error by at most the products of their absolute row sums.
    tiles, depth = map(int, c.name.split("-")[-1].split("x")), w.shape[1]
    gain = math.prod(2 * growth(t, k) for t, k in zip(tiles, w.kernel, strict=True) if k > 1)
    return float(2 * np.finfo(np.float32).eps * (depth + 20) * gain * depth * 16)


def check(
    seed: int, candidates: Callable[[ConvProblem], list[Candidate]] = convolution_candidates
) -> set[str]:
    w = draw(seed)
    x, f = data(w)
    want = convolved(w, x, f)
    epilogue = Shifts(w, seed % 2 == 0) if seed % 5 else None
    want = epilogue.on(want) if epilogue else want
    names = set()
    for c in candidates(w):
        y, shared = np.full((2, *w.out_shape), np.nan, w.dtype)
        run(c, strided(x, seed), f, y, epilogue)
        assert np.abs(y - want).max(initial=0) <= tolerance(c, w), c.name
        run(c, strided(x, seed), f, shared, epilogue, threads=3)
        assert y.tobytes() == shared.tobytes(), c.name
        names.add(c.name)
    return names


@pytest.mark.parametrize("seed", parts(75, 150))
def test_every_candidate_computes_the_convolution(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("first", parts(1, [3, 0, 1, 2]))
def test_kernels_of_deconvolutions_compute_the_convolution(first: int) -> None:
    seeds = [s for s in range(first, 400, 4) if not draw(s).empty]
    names = set().union(*(check(s, as_deconvolution) for s in seeds))
    assert ("single" in names) == (first == 3)
    assert any(n.startswith("winograd-") for n in names)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", parts(75, range(150, 300)))
def test_every_candidate_computes_the_convolution_in_blocks(seed: int) -> None:
    check(seed)


def test_the_grid_reaches_every_kernel() -> None:
    names = {
        c.name for seed in range(300) for c in every_kernel(convolution_candidates, draw(seed))
    }
    assert names >= {"zero", "columns", "pointwise", "interleaved"}


@pytest.mark.sampled(30)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(300, 340))
def test_other_float_types(seed: int, dtype: str) -> None:
    w = replace(draw(seed), dtype=dtype)
    x, f = data(w)
    want = convolved(w, x, f)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    for c in every_kernel(convolution_candidates, w):
        y = np.full(w.out_shape, np.nan, kind)
        run(c, strided(x, seed), f, y)
        if c.transforms:
            step = float(ml_dtypes.finfo(kind).eps)
            assert np.abs(y - want).max(initial=0) <= tolerance(c, w) + step * np.abs(want).max()
        else:
            assert (y == want.astype(np.float32).astype(kind)).all(), c.name


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", parts(30, range(340, 400)))
def test_scratch_memory_is_what_the_candidate_says(seed: int, dtype: str) -> None:
    w = replace(draw(seed), dtype=dtype)
    x, f = data(w)
    for c in every_kernel(convolution_candidates, w):
        team = run(c, x, f, np.empty(w.out_shape, w.dtype))
        pieces = 16  # each rounded up to a cache line
        assert team.peak <= c.scratch + 64 * pieces, c.name


def test_a_large_layer_works_in_blocks() -> None:
    w = ConvProblem((1, 32, 256, 256), 32, 1, (5, 5), (1, 1), (1, 1), (2, 2), (256, 256))
    assert all(c.scratch < 1 << 24 for c in every_kernel(convolution_candidates, w))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("groups", "kernel", "stride"), [(1, 3, 1), (1, 1, 1), (1, 5, 2), (64, 3, 1), (64, 3, 2)]
)
def test_narrow_floats_are_converted_block_by_block(groups: int, kernel: int, stride: int) -> None:
    size = 128 // stride
    shape, squares = (3, 64, 128, 128), ((kernel,) * 2, (stride,) * 2, (1, 1), (kernel // 2,) * 2)
    w = ConvProblem(shape, 64, groups, *squares, (size, size), "float16")
    x, f = data(w)
    for c in every_kernel(convolution_candidates, w):
        team = run(c, x, f, np.empty(w.out_shape, w.dtype))
        assert team.peak <= c.scratch + 64 * 16, c.name
        assert team.peak < 4 * x.size, c.name  # the input in f32, and that is not all of it


@pytest.mark.parametrize("stride", [2, 7, 16, 20])
@pytest.mark.parametrize(("n", "c"), [(1, 1), (2, 1), (1, 3)])
def test_long_kernel_of_one_axis(n: int, c: int, stride: int) -> None:
    w = ConvProblem((n, c, 90), 2, 1, (16,), (stride,), (1,), (4,), (80 // stride + 1,))
    x, f = data(w)
    want = convolved(w, x, f)
    for c_ in every_kernel(convolution_candidates, w):
        for given in (x, strided(x, 1), strided(x, 2)):
            y = np.full(w.out_shape, np.nan, np.float32)
            team = run(c_, given, f, y)
            assert (y == want).all(), c_.name
            assert team.peak <= c_.scratch + 64 * 16


def costs(**changes: Any) -> dict[str, float]:
    w = ConvProblem((1, 64, 56, 56), 64, 1, (3, 3), (1, 1), (1, 1), (1, 1), (56, 56))
    return {c.name: c.cost for c in convolution_candidates(replace(w, **changes))}


def test_cheapest_comes_first_and_is_what_the_field_would_choose(monkeypatch: Patch) -> None:
    with products_taking(1.0):  # on every processor
        monkeypatch.setattr(jit, "available", lambda: False)
        found = costs()
        assert list(found) == sorted(found, key=lambda name: found[name])
        assert next(iter(costs(outputs=1, shape=(1, 64, 56, 56)))) == "interleaved"
        assert next(iter(costs(shape=(1, 3, 112, 112), strides=(2, 2)))) == "interleaved"
        assert next(iter(costs(shape=(1, 3, 56, 56)))) == "columns"
        small: dict[str, Any] = {"shape": (1, 96, 8, 8), "outputs": 96, "sizes": (8, 8)}
        assert next(iter(costs(**small, groups=96))) == "shifted"
        assert next(iter(costs(groups=64))) == "banded"
        assert "interleaved" not in costs(dilations=(2, 2), begin=(2, 2))
        assert set(costs(kernel=(1, 1), begin=(0, 0))) == {"pointwise"}
        # Beyond the fixed overheads a wider type takes longer.
        assert costs(dtype="float64")["columns"] > 1.5 * found["columns"]


def test_filter_of_taps_in_the_padding_alone_is_not_used() -> None:
    """A 3x3 window on a single position sees its centre."""
    w = ConvProblem((2, 4, 1, 1), 5, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1))
    names = {c.name for c in convolution_candidates(w)}
    assert {"pointwise"} <= names <= {"pointwise", "direct"}
    x, f = data(w)
    y = np.empty(w.out_shape, np.float32)
    run(convolution_candidates(w)[0], x, f, y)
    assert (y[..., 0, 0] == x[..., 0, 0] @ f[0, :, :, 1, 1].T).all()


def test_winograd_of_random_data_is_as_accurate_as_stated() -> None:
    r = np.random.default_rng(2)
    w = ConvProblem((1, 32, 20, 20), 16, 1, (3, 3), (1, 1), (1, 1), (1, 1), (20, 20))
    x = r.standard_normal(w.shape)
    f = r.standard_normal((1, 16, 32, 3, 3))
    found = {c.name: c for c in convolution_candidates(w)}
    want, y = np.empty(w.out_shape), np.empty(w.out_shape, np.float32)
    exact = {c.name: c for c in convolution_candidates(replace(w, dtype="float64"))}
    run(exact["columns"], x, f, want)
    found |= {c.name: c for c in as_deconvolution(w)}
    bounds = {"columns": 1e-6} | {n: 2e-5 for n in found if n.startswith("winograd-")}
    assert len(bounds) > (3 if jit.available() else 1)
    for name, bound in bounds.items():
        run(found[name], x.astype(np.float32), f, y)
        assert np.abs(y - want).max() <= bound * np.abs(want).max(), name


def test_nothing_to_sum_is_zero_and_finished() -> None:
    w = ConvProblem((1, 0, 4), 3, 1, (2,), (1,), (1,), (0,), (3,))
    (c,) = convolution_candidates(w)
    y = np.full(w.out_shape, np.nan, np.float32)
    epilogue = Shifts(w, False)
    run(c, np.empty(w.shape, np.float32), np.empty((1, 3, 0, 2), np.float32), y, epilogue)
    assert (y == epilogue.bias).all()
