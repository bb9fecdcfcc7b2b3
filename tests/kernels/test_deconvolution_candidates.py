"""Every prepared deconvolution kernel against the naive scatter, over its whole domain."""

import math
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from irdeconv.kernels.candidate import Candidate, ConvProblem
from irdeconv.kernels.deconvolution import axes_of
from irdeconv.kernels.deconvolution_phases import factors
from irdeconv.kernels.eager import for_deconvolution
from irdeconv.kernels.products import growth, matrices
from irdeconv.kernels.threads import Threads
from support.kernels import deconvolved, every_kernel, integers
from support.rows import parts

pytestmark = pytest.mark.thorough

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True)
class Added:
    """An epilogue that adds a value per channel, or per position."""

    values: Any
    positional: bool

    def __call__(self, tile: Any, image: int, channels: slice, positions: slice) -> None:
        if self.positional:
            tile += self.values[image, channels, positions]
        else:
            tile += self.values[channels, None]


def draw(seed: int, dtype: str = "float64") -> ConvProblem:
    r = random.Random(seed)
    rank = r.choice([1, 2, 2, 3])
    groups, c, m = r.choice([1, 1, 2, 3]), r.choice([1, 1, 2, 5]), r.choice([1, 1, 3, 4])
    inputs = [r.randint(1, {1: 20, 2: 7, 3: 4}[rank]) for _ in range(rank)]
    kernel = [r.randint(1, 5 if rank < 3 else 3) for _ in range(rank)]
    strides = [r.randint(1, 4) for _ in range(rank)]
    dilations = [r.choice([1, 1, 1, 2, 3, 4]) for _ in range(rank)]
    if r.random() < 0.5:  # the usual case: equal on all axes
        kernel, strides, dilations = [kernel[0]] * rank, [strides[0]] * rank, [1] * rank
    begin = [r.choice([0, 0, 1, 2, -1, -3, 4]) for _ in range(rank)]
    sizes = [
        max(0, s * (i - 1) + d * (k - 1) + 1 - b - r.choice([b, b, 0, -2, 3]))
        for s, i, d, k, b in zip(strides, inputs, dilations, kernel, begin, strict=True)
    ]
    n = r.choice([1, 1, 2, 5])
    rows = (tuple(v) for v in (kernel, strides, dilations, begin, sizes))
    return ConvProblem((n, groups * c, *inputs), groups * m, groups, *rows, dtype)


def data(problem: ConvProblem, seed: int = 0) -> tuple[Any, Any]:
    x, w = integers(problem, seed)
    if seed % 3 == 0:
        x = np.asfortranarray(x)
    elif seed % 3 == 1:
        x = np.repeat(x, 2, -1)[..., ::2]
    return x, w


@np.errstate(all="ignore")  # as the engine does
def run(problem: ConvProblem, candidate: Candidate, x: Any, w: Any, epilogue: Any = None) -> Any:
    """Run twice on one thread and on three; all four must give the same bits."""
    kernel = candidate.prepare(w)
    results = []
    for team in (Threads(1), Threads(3)):
        for _ in range(2):
            y = np.full(problem.out_shape, np.nan, problem.dtype)
            team.begin()
            kernel(x, y, epilogue, team)
            results.append(y)
    assert all(y.tobytes() == results[0].tobytes() for y in results)
    return results[0]


def bound(problem: ConvProblem, candidate: Candidate, x: Any, w: Any, dtype: str = "") -> float:
    """Bound the error: sums of products of magnitude |x| |w|, in any order, and an epilogue's."""
    c = w.shape[1]
    terms = c * problem.taps
    unit = UNIT[dtype or problem.dtype]
    scale = float(np.abs(x).max(initial=0)) * float(np.abs(w).max(initial=0)) * c
    size = scale * problem.taps
    name = candidate.name
    if not candidate.transforms:
        return size * (terms + 8) * unit
    # The transforms' absolute sums, of up to two tiles per axis; a product and two matrices with
    # rounded elements on each path.
    if "convolution" in name:  # of 3 taps by 3 with tiles of 2 or 4
        gain = {"2": 2.0 * 1.5 * 3, "4": 10.0 * 1.0 * 19}[name[-1]] ** 2
        return (size * gain * (c + 20) + 9) * unit
    gain, roundings = 1.0, c + 8
    inputs = points = 1
    for t, a in zip(map(int, name.split("-")[-1].split("x")), axes_of(problem), strict=True):
        taps = a.counts[0]
        gain *= growth(t, taps) * (2 if taps > 1 else 1)
        inputs, points = inputs * t, points * (t + taps - 1)
    gamma = (roundings + inputs + points + problem.rank) * unit
    return scale * gain * gamma / (1 - gamma) + (size + 9) * unit


def laid_out(x: Any, seed: int) -> Any:
    """Return the same values in another layout."""
    every, back = [slice(None)] * x.ndim, slice(None, None, -1)
    if seed % 6 == 5:  # behind a byte each
        packed = np.zeros(x.shape[:-1], [("byte", "u1"), ("row", x.dtype, x.shape[-1:])])
        packed["row"] = x
        x = packed["row"]
    elif seed % 6 == 1:
        x = np.repeat(x, 2, axis=-1)
        every[-1] = slice(None, None, 2)
    elif seed % 6:
        every[(-1, -2, 1)[seed % 6 - 2]] = back
        x = np.ascontiguousarray(x[tuple(every)])
    return x[tuple(every)]


def check(problem: ConvProblem, seed: int) -> None:
    x, w = data(problem, seed)
    want = deconvolved(problem, x, w)
    r = np.random.default_rng(seed)
    bias = r.integers(-9, 10, problem.outputs).astype(problem.dtype)
    plane = (problem.shape[0], problem.outputs, math.prod(problem.sizes))
    other = r.integers(-9, 10, plane).astype(problem.dtype)
    ones = [1] * problem.rank
    for candidate in every_kernel(for_deconvolution, problem):
        limit = bound(problem, candidate, x, w)
        for epilogue, more in (
            (None, 0.0),
            (Added(bias, False), bias.reshape(-1, *ones)),
            (Added(other, True), other.reshape(problem.out_shape)),
        ):
            y = run(problem, candidate, laid_out(x, seed), w, epilogue)
            exact = want.astype(np.float64) + more
            factorised = problem.rank == 2 and w.shape[1] == 1
            if candidate.transforms or factorised:
                assert (np.abs(y - exact) <= limit).all(), candidate.name
            else:  # sums of small integers are exact in any order
                assert (y == exact).all(), candidate.name


def require_exact(problem: ConvProblem, **options: Any) -> None:
    x, w = data(problem)
    want = deconvolved(problem, x, w)
    for candidate in every_kernel(partial(for_deconvolution, **options), problem):
        assert (run(problem, candidate, x, w) == want).all(), candidate.name


@pytest.mark.sampled(15)
@pytest.mark.parametrize("seed", parts(30, 60))
def test_every_candidate_in_one_block(seed: int) -> None:
    check(draw(seed), seed)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", parts(15, range(60, 120)))
def test_every_candidate_in_many_blocks(seed: int) -> None:
    check(draw(seed), seed)


@pytest.mark.parametrize("stride", [1, 2])
def test_every_direct_candidate_of_four_axes(stride: int) -> None:
    rows = (2,) * 4, (stride,) * 4, (1,) * 4, (0,) * 4, (stride + 2,) * 4
    require_exact(ConvProblem((2, 4, 2, 2, 2, 2), 6, 2, *rows, "float64"), direct=True)


@pytest.mark.parametrize("seed", range(120, 150))
def test_every_candidate_of_stride_one(seed: int) -> None:
    problem = draw(seed)
    ones = (1,) * problem.rank
    sizes = tuple(o // s for o, s in zip(problem.sizes, problem.strides, strict=True))
    dilations = problem.dilations if seed % 2 else (seed % 3 + 1,) * problem.rank
    problem = replace(problem, strides=ones, dilations=dilations, sizes=sizes)
    check(problem, seed)
    if 0 not in (*problem.out_shape, *problem.shape):
        assert "convolution" in [c.name.split()[0] for c in for_deconvolution(problem)]


@pytest.mark.parametrize("seed", range(150, 170))
def test_every_candidate_of_a_single_position(seed: int) -> None:
    problem = draw(seed)
    r = random.Random(seed)
    shape = (r.choice([1, 2, 3, 9]), problem.shape[1], *(1 for _ in problem.kernel))
    check(replace(problem, shape=shape), seed)
    axes = zip(problem.kernel, problem.dilations, problem.begin, problem.sizes, strict=True)
    landing = all(any(0 <= i * d - b < o for i in range(k)) for k, d, b, o in axes)
    if 0 not in problem.out_shape:
        names = [c.name for c in for_deconvolution(replace(problem, shape=shape))]
        assert ("single" in names) == landing


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("begin", [0, 1, 2])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_every_candidate_of_stride_two(kernel: int, begin: int, dilation: int) -> None:
    shared = (2, 2), (dilation, dilation), (begin, begin)
    for width in (14, 15, 18):
        problem = ConvProblem((2, 4, 5, 7), 6, 2, (kernel, kernel), *shared, (9, width), "float32")
        check(problem, kernel)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernel", [(1, 4), (4, 1), (2, 5), (5, 2), (3, 7)])
@pytest.mark.parametrize("images", [1, 3])
def test_every_candidate_of_unequal_sides(kernel: tuple[int, int], images: int) -> None:
    shared = (2, 3), (1, 1), (1, 2), (13, 19), "float32"
    check(ConvProblem((images, 4, 6, 7), 6, 2, kernel, *shared), images)


@pytest.mark.parametrize("channels", [1, 3])
def test_every_candidate_where_no_taps_meet(channels: int) -> None:
    problem = ConvProblem((2, 6, 7, 5), 6 * channels, 6, (2, 3), (2, 3), (1, 1), (1, 0), (12, 15))
    require_exact(problem)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(200, 212))
def test_narrow_floats_are_rounded_once(seed: int, dtype: str) -> None:
    assert ml_dtypes.bfloat16  # gives NumPy the type's name
    problem = draw(seed, dtype)
    x, w = data(problem, seed)
    exact = deconvolved(problem, x, w)
    for candidate in every_kernel(for_deconvolution, problem):
        y = run(problem, candidate, x, w).astype(np.float64)
        limit = bound(problem, candidate, x.astype("f8"), w.astype("f8"), "float32")
        assert (np.abs(y - exact) <= np.abs(exact) * UNIT[dtype] + limit).all(), candidate.name


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("seed", parts(10, range(212, 232)))
def test_narrow_floats_are_rounded_behind_the_epilogue(seed: int, dtype: str) -> None:
    problem = draw(seed, dtype)
    x, w = data(problem, seed)
    r = np.random.default_rng(seed)
    plane = (problem.shape[0], problem.outputs, math.prod(problem.sizes))
    bias = r.integers(-99, 99, problem.outputs).astype(np.float32)
    other = r.integers(-99, 99, plane).astype(np.float32)
    sums = deconvolved(problem, x, w)
    cases = (
        (Added(bias, False), sums + bias.reshape(-1, *(1 for _ in problem.sizes))),
        (Added(other, True), sums + other.reshape(problem.out_shape)),
    )
    for candidate in every_kernel(for_deconvolution, problem):
        if not candidate.transforms:  # sums of small integers are exact in f32
            for epilogue, exact in cases:
                y = run(problem, candidate, x, w, epilogue)
                assert (y == exact.astype(np.float32).astype(dtype)).all(), candidate.name


def bilinear(channels: int, size: int, dtype: Any) -> Any:
    """Return the usual upsampling filter, `[channels, 1, 1, size, size]`."""
    factor = (size + 1) // 2
    center = factor - 1 if size % 2 else factor - 0.5
    row = 1 - np.abs(np.arange(size) - center) / factor
    return np.tile((row[:, None] * row).astype(dtype), (channels, 1, 1, 1, 1))


def test_bilinear_filters_are_separable() -> None:
    lists = (32, 32), (16, 16), (1, 1), (8, 8), (128, 96)
    problem = ConvProblem((1, 3, 8, 6), 3, 3, *lists, "float32")
    w = bilinear(3, 32, np.float32)
    x = np.random.default_rng(0).standard_normal(problem.shape).astype(np.float32)
    want = deconvolved(problem, x, w)
    bias = np.ones(3, np.float32)
    for candidate in every_kernel(for_deconvolution, problem):
        y = run(problem, candidate, x, w, Added(bias, False))
        assert (np.abs(y - 1 - want) <= 2 * bound(problem, candidate, x, w)).all()
    assert for_deconvolution(problem)[0].prepare(w).name == "separable"


def test_only_filters_of_rank_one_are_factorised() -> None:
    w = bilinear(2, 7, np.float32)[:, 0, 0]
    found = factors(w)
    assert found is not None
    product = found[0][:, :, None] * found[1][:, None]
    assert (np.abs(product - w) <= np.spacing(np.abs(w))).all()
    w[1, 3, 3] += 4 * np.spacing(w[1, 3, 3])
    assert factors(w) is None
    w[1, 3, 3] = np.inf
    assert factors(w) is None
    zero = factors(np.zeros((1, 3, 2), np.float32))
    assert zero is not None
    assert not (zero[0][:, :, None] * zero[1][:, None]).any()


@pytest.mark.parametrize("tile", [1, 2, 3, 4])
@pytest.mark.parametrize("taps", [1, 2, 3])
def test_interpolation_gives_the_product_of_polynomials(tile: int, taps: int) -> None:
    evaluate, transform, interpolate = matrices(tile, taps)
    r = np.random.default_rng(0)
    a, b = r.standard_normal(tile), r.standard_normal(taps)
    got = interpolate @ ((evaluate @ a) * (transform @ b))
    assert np.allclose(got, np.convolve(a, b), rtol=0, atol=1e-12)


def test_candidates_are_sorted_and_direct_ones_transform_nothing() -> None:
    problem = ConvProblem((1, 8, 16, 16), 8, 1, (4, 4), (2, 2), (1, 1), (1, 1), (32, 32))
    every = for_deconvolution(problem)
    assert [c.cost for c in every] == sorted(c.cost for c in every)
    assert any(c.name.startswith("winograd") and c.transforms for c in every)
    direct = for_deconvolution(problem, direct=True)
    assert direct
    assert not any(c.transforms for c in direct)


WIDE = ConvProblem((1, 32, 32, 32), 32, 1, (16, 16), (8, 8), (1, 1), (4, 4), (256, 256))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@np.errstate(all="ignore")  # as the engine does
def test_scratch_is_at_least_what_is_used(dtype: str) -> None:
    problem = replace(WIDE, shape=(1, 32, 8, 8), sizes=(64, 64), dtype=dtype)
    x, w = data(problem)
    for candidate in every_kernel(for_deconvolution, problem):
        team = Threads(1)
        kernel = candidate.prepare(w)
        for _ in range(2):
            team.begin()
            kernel(x, np.empty(problem.out_shape, dtype), None, team)
        assert team.peak <= candidate.scratch, candidate.name


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_memory_stays_small_where_the_inserted_zeros_would_be_many(dtype: str) -> None:
    problem = replace(WIDE, dtype=dtype)
    filters = 4 * 32 * 32 * 16 * 16
    assert for_deconvolution(problem)[0].scratch - filters <= 16 << 20


NARROW = [  # kernel, stride, channels, groups, outputs: what each of the kernels is good at
    ((3, 3), (2, 2), 32, 1, 32),
    ((2, 2), (2, 2), 64, 1, 8),
    ((4, 4), (2, 2), 64, 1, 64),
    ((8, 8), (4, 4), 16, 1, 16),
    ((2, 2), (2, 2), 64, 64, 64),
    ((4, 4), (2, 2), 32, 32, 32),
    ((2, 2), (2, 2), 256, 1, 1),
]


@pytest.mark.parametrize(("kernel", "strides", "c", "groups", "m"), NARROW)
@np.errstate(all="ignore")  # as the engine does
def test_narrow_floats_are_converted_block_by_block(
    kernel: tuple[int, ...], strides: tuple[int, ...], c: int, groups: int, m: int
) -> None:
    sizes = (192 * strides[0], 192 * strides[1])
    lists = (kernel, strides, (1, 1), (0, 0), sizes)
    problem = ConvProblem((1, c, 192, 192), m, groups, *lists, "float16")
    x, w = np.zeros(problem.shape, "f2"), np.zeros((groups, c // groups, m // groups, *kernel))
    team, out = Threads(1), np.empty(problem.out_shape, "f2")
    for _ in range(2):
        team.begin()
        best = for_deconvolution(problem)[0]
        best.prepare(w.astype("f2"))(x, out, None, team)
    assert team.peak <= best.scratch
    assert team.peak < 2 * (x.size + out.size), best.name  # half of what f32 would need


@pytest.mark.parametrize("seed", range(8))
@np.errstate(all="ignore")
def test_filters_that_are_not_finite_meet_no_zeros_around_the_inputs(seed: int) -> None:
    problem = replace(draw(seed), dtype="float32")
    x, w = data(problem, seed)
    w = w.astype(np.float32)
    w.reshape(-1)[:: max(1, w.size // 2)] = (np.inf, np.nan, -np.inf)[seed % 3]
    want = deconvolved(problem, x, w)
    for direct in (False, True):
        for candidate in every_kernel(partial(for_deconvolution, direct=direct), problem):
            y = run(problem, candidate, x, w)
            assert np.array_equal(y, want.astype(np.float32), equal_nan=True), candidate.name
