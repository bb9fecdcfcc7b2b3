"""Pooling kernels against the definition."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from irdeconv.ir import geometry
from irdeconv.kernels import jit, pooling
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import WindowAxis, window_axes
from irdeconv.kernels.scratch import BlockSizes
from irdeconv.kernels.threads import Threads
from support import oracle


def draw(seed: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Draw a shape, and what the oracle takes: kernel, strides, dilations, pads and outputs."""
    r = random.Random(seed)
    rank = r.randint(1, 3)
    top = {1: 11, 2: 7, 3: 4}[rank]

    def axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(r.randint(low, high) for _ in range(rank))

    shape = (r.randint(1, 2), r.randint(1, 3), *axis(1, top))
    return shape, (axis(1, 4), axis(1, 4), axis(1, 3), axis(0, 5), axis(1, 5))


def axes_of(sizes: Sequence[int], rule: Sequence[tuple[int, ...]]) -> list[WindowAxis]:
    *windows, outputs = rule
    return window_axes(sizes, outputs, *windows)


def values(shape: tuple[int, ...], dtype: Any) -> Any:
    return np.random.default_rng(0).integers(0, 20, shape).astype(dtype)


@pytest.fixture(params=[(1, 0), (1 << 18, 0), (1, np.inf), (1 << 18, np.inf)])
def plane_bytes(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pool plane by plane or all at once, by slices or by shifts of flat memory."""
    monkeypatch.setattr(blocking, "SIZES", BlockSizes(pooling_bytes=request.param[0]))
    monkeypatch.setattr(pooling, "_slices_cost", lambda axes: request.param[1])


@pytest.mark.usefixtures("plane_bytes")
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int64])
@pytest.mark.parametrize("seed", range(25))
def test_maxima_and_their_places(seed: int, dtype: Any) -> None:
    shape, rule = draw(seed)
    windows = axes_of(shape[2:], rule)
    x = values(shape, dtype)
    best, where = oracle.max_pool(x, *rule)
    lowest = np.finfo(dtype).min if dtype == np.float32 else np.iinfo(dtype).min
    want = np.where(best == None, lowest, best).astype(dtype)  # noqa: E711 -- elementwise
    assert (pooling.max_pool(x, windows) == want).all()
    for axis in range(x.ndim):
        y, found = pooling.max_pool_indices(x, windows, axis)
        inside = int(np.prod(shape[axis:]))
        known = np.array([w is not None for w in where.reshape(-1)]).reshape(where.shape)
        assert y.dtype == dtype
        assert (y == want).all()
        assert (found[known] == where[known] % inside).all()


@pytest.mark.usefixtures("plane_bytes")
@pytest.mark.parametrize("exclude_pad", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_means(seed: int, exclude_pad: bool) -> None:
    shape, rule = draw(seed)
    windows = axes_of(shape[2:], rule)
    total, inside = oracle.avg_pool(values(shape, np.int32), *rule)
    count = inside if exclude_pad else np.full(inside.shape, np.prod(rule[0]))
    for dtype in (np.float64, np.float32, np.int32):
        y = pooling.avg_pool(values(shape, dtype), windows, exclude_pad=exclude_pad)
        assert y.dtype == dtype
        for got, s, n in zip(
            y.flat, total.flat, np.broadcast_to(count, total.shape).flat, strict=True
        ):
            if n:
                exact = int(s) / int(n)
                assert got == (round(exact) if dtype == np.int32 else dtype(exact))


def test_windows_without_data() -> None:
    x = np.ones((1, 1, 2), np.float32)
    windows = axes_of(x.shape[2:], [(1,), (1,), (1,), (1,), (4,)])
    assert pooling.avg_pool(x, windows, exclude_pad=True)[0, 0].tolist() == [0, 1, 1, 0]
    assert pooling.max_pool_indices(x, windows)[1].tolist() == [[[0, 0, 1, 0]]]


def test_index_of_a_window_without_data_is_its_planes_first() -> None:
    x = np.ones((1, 2, 3), np.float32)
    windows = axes_of(x.shape[2:], [(1,), (4,), (1,), (1,), (2,)])  # positions -1 and 3
    assert pooling.max_pool_indices(x, windows, 1)[1].tolist() == [[[0, 0], [3, 3]]]
    assert pooling.max_pool_indices(x, windows, 2)[1].tolist() == [[[0, 0], [0, 0]]]


def test_negative_infinity_gives_the_lowest_finite_value() -> None:
    x = np.full((1, 1, 3), -np.inf, np.float32)
    windows = axes_of(x.shape[2:], [(2,), (1,), (1,), (1,), (4,)])
    y, found = pooling.max_pool_indices(x, windows)
    assert (y == np.finfo(np.float32).min).all()
    assert (pooling.max_pool(x, windows) == y).all()
    assert found.tolist() == [[[0, 0, 1, 2]]]


def test_narrow_floats_are_summed_in_f32() -> None:
    for dtype, big in ((np.float16, 2048), (ml_dtypes.bfloat16, 256)):
        x = np.array([big, 1, 1, big], dtype).reshape(1, 1, 4)
        windows = axes_of([4], [(4,), (1,), (1,), (0,), (1,)])
        y = pooling.avg_pool(x, windows, exclude_pad=True)
        assert y.dtype == dtype
        assert float(y.item()) == float(dtype((2 * big + 2) / 4))


@pytest.mark.parametrize(
    ("rounding", "size", "pad", "stride", "want"),
    [
        ("floor", 8, (1, 1), 3, 3),
        ("ceil", 8, (1, 1), 3, 4),
        ("ceil_torch", 8, (1, 1), 3, 3),
        ("ceil", 6, (2, 0), 2, 4),
        ("ceil_torch", 6, (2, 0), 2, 4),
        ("floor", 6, (2, 0), 2, 3),
    ],
)
def test_rounding(rounding: Any, size: int, pad: tuple[int, int], stride: int, want: int) -> None:
    assert geometry.steps(size, 3, stride, pad, rounding) == want


@pytest.mark.parametrize(
    ("rule", "want"), [("same_upper", (1, 2)), ("same_lower", (2, 1)), ("valid", (0, 0))]
)
def test_automatic_pads(rule: str, want: tuple[int, int]) -> None:
    begin, end = geometry.pads(rule, [7], [4], [1], [1], ([5], [5]))
    assert (*begin, *end) == want
    assert geometry.pads("explicit", [7], [4], [1], [1], ([5], [6])) == ((5,), (6,))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("pad", [0, 1, 2])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 1), (3, 2)])
def test_common_windows(
    kernel: int, stride: int, pad: int, average: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows that are compiled where numba is there, against the form without it."""
    x = np.random.default_rng(pad).normal(size=(2, 3, 9, 21)).astype(np.float32)
    x.reshape(-1)[[0, 30, 31, 200]] = np.nan, np.inf, -np.inf, np.inf
    x[1, 1] = -np.inf
    for extra in range(3):
        sizes = tuple((i + pad + extra - kernel) // stride + 1 for i in x.shape[2:])
        rule = (kernel,) * 2, (stride,) * 2, (1, 1), (pad, min(pad, 1)), sizes
        windows = axes_of(x.shape[2:], rule)
        counts = pooling.counts(windows, exclude_pad=True) if average else None
        got, want = (np.empty((2, 3, *sizes), np.float32) for _ in range(2))
        with np.errstate(all="ignore"):
            pooling.Pooling(x.shape, x.dtype, windows, counts)(x, got, Threads(3))
            with monkeypatch.context() as m:
                m.setattr(jit, "available", lambda: False)
                pooling.Pooling(x.shape, x.dtype, windows, counts)(x, want, Threads())
        np.testing.assert_allclose(got, want, rtol=9 * 2.0**-24 if average else 0, atol=2.0**-22)
