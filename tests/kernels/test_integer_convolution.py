"""Convolutions of 8-bit levels: exact sums of integers, and when they are chosen."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
import pytest

import irdeconv as ird
from irdeconv.ir.spec import Array
from irdeconv.kernels import convolution_direct, jit
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import ConvProblem, Levels
from irdeconv.kernels.convolution import as_conv3d
from irdeconv.kernels.convolution_direct import EXACT, VectorLayout
from irdeconv.kernels.panels import OFF, row_steps
from support.blocks import SMALL
from support.commands import Patch
from support.kernels import convolved
from support.rows import parts
from test_deconvolution_compiled import guarded, linux
from test_micro_kernel import convolution

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not jit.available(), reason="needs numba"),
    pytest.mark.skipif(not jit.packed_integers(), reason="no products of integers here"),
]
PACKED = sorted({2, jit.packed_integers()})


def problem_of(seed: int) -> ConvProblem:
    """Draw a convolution of levels with a zero in their middle, or at an end."""
    r = random.Random(seed)
    step, zero = r.choice([(0.25, 128), (0.1, 0), (0.0371, 255), (0.5, 3)])
    return replace(convolution(seed), dtype="float32", levels=Levels(step, zero))


def drawn(problem: ConvProblem, seed: int) -> tuple[Array, Array]:
    """Return data that are levels, and a filter whose rows have steps of their own."""
    r = np.random.default_rng(seed)
    assert problem.levels is not None
    step, zero = problem.levels
    x = (r.integers(0, 256, problem.shape) - zero) * step
    shape = problem.groups, problem.group_outputs, problem.group_inputs, *problem.kernel
    w = r.integers(-127, 128, shape)
    w[:, :, 0] = 127  # so that the steps of any part of the taps are known
    w[:, ::3] = 0
    w = w * r.uniform(0.01, 0.1, (*shape[:2], *(1,) * (w.ndim - 2)))
    return x.astype(np.float32), w.astype(np.float32)


def exact_layouts(problem: ConvProblem) -> list[VectorLayout]:
    conv = convolution_direct._long_columns(as_conv3d(problem))
    found = (layout.shares() for layout in VectorLayout.all_of(conv) if layout.mode == EXACT)
    return list(itertools.chain(*found))


@linux
@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("seed", parts(6, 18))
@np.errstate(all="ignore")  # as the engine does
def test_sums_are_exact_in_every_layout(
    seed: int, small: bool, packed: int, monkeypatch: Patch
) -> None:
    """Only the factors and the last product are rounded; nothing beyond the memory is touched."""
    monkeypatch.setattr(jit, "packed_integers", lambda: packed)
    if small:
        monkeypatch.setattr(blocking, "SIZES", replace(SMALL, direct_bytes=6000))
    problem = problem_of(seed)
    x, w = drawn(problem, seed)
    want = convolved(problem, x, w)
    size = convolved(problem, np.abs(x), np.abs(w)).max(initial=0)
    layouts = exact_layouts(problem)
    assert layouts
    for layout in layouts:
        for y in guarded(problem, convolution_direct._candidate(layout), x, w):
            assert np.abs(y - want).max(initial=0) <= size * 2.0**-20


@linux
@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("seed", parts(4, 12))
@np.errstate(all="ignore")  # as the engine does
def test_nan_reaches_the_sums_that_read_it(seed: int, packed: int, monkeypatch: Patch) -> None:
    monkeypatch.setattr(jit, "packed_integers", lambda: packed)
    problem = problem_of(seed)
    x, w = drawn(problem, seed)
    x.reshape(-1)[:: max(1, x.size // 3)] = np.nan
    want = convolved(problem, x, w)
    for layout in exact_layouts(problem):
        for y in guarded(problem, convolution_direct._candidate(layout), x, w):
            assert (np.isnan(y) == np.isnan(want)).all()


def test_steps_of_rows() -> None:
    rows = np.array([[127, -3, 5], [-128, 64, 1], [0, 0, 0], [100, 1, -7]]) * [[0.3], [2], [1], [7]]
    steps = row_steps(rows.astype(np.float32))
    assert steps is not None
    assert np.allclose(steps, [0.3, 2, 1, 7])
    assert row_steps(np.array([[128, 1]], np.float32)) is None  # no integer of 8 bits is 128
    assert row_steps(np.array([[127, 0.5]], np.float32)) is None
    assert row_steps(np.array([[np.inf, 1]], np.float32)) is None
    assert row_steps(np.full((1, 1 << 17), 127, np.float32)) is None  # sums of 32 bits overflow
    for scale in (1e-20, 1e20):  # f32 might not have the product with another step
        assert row_steps(np.array([[127, 1]], np.float32) * np.float32(scale)) is None


@pytest.mark.parametrize(
    ("name", "value"), [("CPU_NAME", "haswell"), ("CPU_FEATURES", "-avx2"), ("ENABLE_AVX", "0")]
)
def test_a_compiler_without_the_instructions(name: str, value: str, monkeypatch: Patch) -> None:
    """LLVM ends the process for an instruction that its target lacks."""
    monkeypatch.setenv(f"NUMBA_{name}", value)
    assert jit.packed_integers.__wrapped__() == 0


def quantised(
    x: Any, low: float, high: float, levels: int = 256, out: tuple[float, float] | None = None
) -> Any:
    ends = [np.float32(v) for v in (low, high, *(out or (low, high)))]
    return op.fake_quantize(x, *ends, levels)


def network(
    low: float, high: float, levels: int = 256, *, pool: Mapping[str, Any] | None = None
) -> ov.Model:
    """Two quantised convolutions, grouped and with pads, around a pool."""
    r = np.random.default_rng(9)
    x = op.parameter([2, 4, 13, 21], np.float32, name="x")
    y = quantised(x, low, high, levels)
    if pool is not None:
        y = op.max_pool(y, **pool).output(0)
    w = r.integers(-127, 128, (2, 9, 2, 3, 2))
    w[..., 0, 0] = 127
    filter = (w * r.uniform(0.01, 0.1, (2, 9, 1, 1, 1))).astype(np.float32)
    y = op.group_convolution(y, filter, [1, 2], [1, 0], [2, 1], [1, 2])
    y = quantised(op.relu(y), 0, 40)
    w = r.integers(-127, 128, (5, 18, 1, 1))
    w[:, 0] = 127
    return ov.Model(
        [op.convolution(y, (w * 0.02).astype(np.float32), [1, 1], [0, 0], [0, 0], [1, 1])], [x]
    )


def run(model: ov.Model, x: Array, tmp_path: Any) -> tuple[list[str], list[Array]]:
    """Return the kernels, and the outputs of the plan, without fusion, of two threads."""
    path = tmp_path / "net.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    graph = ird.infer(ird.read(path))
    plan = ird.compile(graph, threads=1)
    others = [ird.compile(graph, threads=1, fuse=False), ird.compile(graph, threads=2)]
    return [s.kernel for s in plan.steps], [
        next(iter(p.run({"x": x}).values())) for p in (plan, *others)
    ]


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.28, 1.27), (-3.0, 0.0)])
def test_a_plan_takes_them_and_agrees_with_openvino(low: float, high: float, tmp_path: Any) -> None:
    model = network(low, high)
    x = np.random.default_rng(1).uniform(low, high, (2, 4, 13, 21)).astype(np.float32)
    x[1, 2, 3, 4] = np.nan
    kernels, (fused, plain, shared) = run(model, x, tmp_path)
    assert len([k for k in kernels if "integers" in k]) == 2
    assert (np.isnan(fused) == np.isnan(plain)).all()
    assert np.array_equal(fused, shared, equal_nan=True)
    levels = np.nan_to_num(np.abs(fused - plain)) / (40 / 255 * 127 * 0.02)
    assert levels.max() < 1.001  # a level of the second convolution's data at most
    assert (levels > 0.001).mean() < 0.01
    x[1] = x[0]
    want = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
    fused = run(model, x, tmp_path)[1][0]
    assert np.abs(fused - want).max() < 40 / 255 * 127 * 0.02 * 3
    assert (np.abs(fused - want) > 1e-3).mean() < 0.05


POOL = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"low": 0, "high": 6, "pool": POOL | {"kernel_shape": [2, 2]}}, 2),
        # The last window of a row begins behind the data, so its maximum is no level.
        (
            {
                "low": 0,
                "high": 6,
                "pool": POOL | {"kernel_shape": [1, 1], "strides": [1, 3], "rounding_type": "ceil"},
            },
            1,
        ),
        ({"low": -1.0, "high": 1.0}, 1),  # 0 lies between two levels
        ({"low": 1.0, "high": 2.0}, 1),  # and here below all
        ({"low": 0.0, "high": 2.0, "levels": 257}, 1),
        ({"low": 0.0, "high": 1e-37}, 1),  # f32 has no reciprocal of the step
    ],
)
def test_where_levels_are_known(arguments: dict[str, Any], count: int, tmp_path: Any) -> None:
    x = np.random.default_rng(2).uniform(-1, 3, (2, 4, 13, 21)).astype(np.float32)
    kernels, (fused, plain, _) = run(network(**arguments), x, tmp_path)
    assert len([k for k in kernels if "integers" in k]) == count
    assert (np.abs(fused - plain) > 1e-3).mean() < 0.01


def test_taps_that_read_pads_alone_give_no_steps(tmp_path: Any) -> None:
    """Multiples of a step that their largest weight has, and no multiples without it."""
    w = np.zeros((32, 16, 1, 3), np.float32)
    w[:, 0, 0, :2] = 127, 3 + 0.9 * OFF
    w[:, 1:, 0, 1] = 2 - 0.9 * OFF
    x = op.parameter([1, 16, 400, 1], np.float32, name="x")
    y = op.convolution(quantised(x, 0, 6), w, [1, 1], [0, 1], [0, 1], [1, 1])
    data = np.ones((1, 16, 400, 1), np.float32)
    kernels, (fused, plain, _) = run(ov.Model([y], [x]), data, tmp_path)
    assert not any("integers" in k for k in kernels)
    assert np.abs(fused - plain).max() < 1e-4


@pytest.mark.parametrize(
    ("stored", "zero", "known"), [("u8", 3, True), ("i8", -5, True), ("i16", 0, False)]
)
def test_levels_of_dequantized_integers(stored: str, zero: int, known: bool, tmp_path: Any) -> None:
    x = op.parameter([1, 3, 9, 30], np.float32, name="x")
    y = op.convert(op.round(op.multiply(op.clamp(x, 0, 4), np.float32(20)), "half_to_even"), stored)
    y = op.subtract(op.convert(y, "f32"), np.float32(zero))
    y = op.multiply(y, np.float32(0.05))
    w = (np.random.default_rng(4).integers(-90, 128, (8, 3, 3, 3)) * 0.02).astype(np.float32)
    model = ov.Model([op.convolution(y, w, [1, 1], [1, 1], [1, 1], [1, 1])], [x])
    data = np.random.default_rng(5).uniform(0, 4, (1, 3, 9, 30)).astype(np.float32)
    kernels, (fused, plain, _) = run(model, data, tmp_path)
    assert any("integers" in k for k in kernels) == known
    assert np.abs(fused - plain).max() < 1e-4
