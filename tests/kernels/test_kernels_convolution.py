"""Kernels of convolutions and deconvolutions, and zero-insertion, against their definitions."""

import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eager import convolution, deconvolution
from irdeconv.kernels import candidate, copies, eager
from support import oracle
from support.rows import each_row


@dataclass(frozen=True)
class Shape:
    n: int
    groups: int
    c: int
    m: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def window(self) -> tuple[Any, ...]:
        return self.strides, self.dilations, self.begin, self.end


def draw(seed: int) -> Shape:
    r = random.Random(seed)
    rank = r.randint(1, 3)
    top = {1: 11, 2: 7, 3: 4}[rank]

    def axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(r.randint(low, high) for _ in range(rank))

    dilations = axis(1, 3) if r.random() < 0.5 else (1,) * rank
    counts = r.randint(1, 3), r.choice([1, 1, 2, 3]), r.randint(1, 4), r.randint(1, 3)
    boxes = axis(1, top), axis(1, 4 if rank < 3 else 3), axis(1, 4)
    return Shape(*counts, *boxes, dilations, axis(-3, 6), axis(-3, 6))


def data(s: Shape, dtype: Any, low: int = -9, high: int = 10) -> tuple[Any, Any]:
    r = np.random.default_rng(0)
    x = r.integers(low, high, (s.n, s.groups * s.c, *s.sizes)).astype(dtype)
    return x, r.integers(low, high, (s.groups, s.m, s.c, *s.kernel)).astype(dtype)


def wrapped(exact: Any, dtype: Any) -> Any:
    """Return Python integers modulo the type's range."""
    bits = 8 * np.dtype(dtype).itemsize
    flat = [int(v) % 2**bits for v in exact.reshape(-1)]
    return np.array(flat, object).astype(np.uint64).astype(dtype).reshape(exact.shape)


@each_row("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@each_row("seed", range(25))
def test_integers_are_exact(seed: int, dtype: Any) -> None:
    s = draw(seed)
    x, w = data(s, dtype, 0 if np.dtype(dtype).kind == "u" else -9)
    y = convolution(x, w, *s.window)
    want = wrapped(oracle.convolution(x, w, *s.window), dtype)
    assert y.dtype == dtype
    assert y.shape == want.shape
    assert (y == want).all()


@each_row("seed", range(20))
def test_output_may_be_a_strided_view(seed: int) -> None:
    s = draw(seed)
    x, w = data(s, np.float32)
    want = oracle.convolution(x, w, *s.window)
    host = np.full((*want.shape[:2], *(2 * n + 1 for n in want.shape[2:])), np.nan, np.float32)
    y = host[(..., *(slice(1, None, 2) for _ in s.sizes))]
    assert convolution(x, w, *s.window, out=y) is y
    assert (y == want).all()
    assert np.isnan(host).sum() == host.size - y.size


def test_sums_beyond_64_bits_wrap() -> None:
    x = np.full((1, 3, 2), 2**40 + 1, np.int64)
    y = convolution(x, np.full((1, 1, 3, 2), 2**30 + 3, np.int64), [1], [1], [0], [0])
    assert y.item() == (6 * (2**40 + 1) * (2**30 + 3) + 2**63) % 2**64 - 2**63


def test_accumulator_is_the_narrowest_exact_one() -> None:
    x = np.full((1, 1, 4), 127, np.int8)
    assert eager.accumulator(x, x, 1000) == np.float32
    assert eager.accumulator(x, x, 2000) == np.float64
    big = np.full((1, 1, 4), 2**31 - 1, np.int32)
    assert eager.accumulator(big, big, 1) == np.int64
    assert eager.accumulator(np.full(1, -128, np.int8), x, 1032) == np.float32


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_rounded_once(dtype: Any) -> None:
    # 2048 + 1 + 1: in f16 each addition alone would be lost.
    x = np.array([2048 if dtype == np.float16 else 256, 1, 1], dtype).reshape(1, 3, 1)
    y = convolution(x, np.ones((1, 1, 3, 1), dtype), [1], [1], [0], [0])
    assert y.dtype == dtype
    assert float(y.item()) == (2050 if dtype == np.float16 else 258)


def test_ungrouped_filter_and_hand_worked_sums() -> None:
    x = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    w = np.array([[1, 0], [0, -1]], np.float32).reshape(1, 1, 2, 2)
    y = convolution(x, w, [1, 1], [1, 1], [0, 0], [0, 0])
    assert y.tolist() == [[[[-4, -4], [-4, -4]]]]
    y = convolution(x, w, [2, 2], [1, 1], [1, 1], [1, 1])
    assert y.tolist() == [[[[-1, -3], [-7, -4]]]]


@pytest.mark.parametrize("shape", [(0, 2, 5), (1, 2, 0), (2, 2, 1)])
def test_empty_output(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    y = convolution(x, np.ones((1, 3, 2, 3), np.float32), [1], [1], [0], [0])
    assert y.shape == (shape[0], 3, max(shape[2] - 2, 0))


def test_windows_wholly_in_padding_are_zero() -> None:
    x = np.ones((1, 1, 2, 2), np.float32)
    y = convolution(x, np.ones((1, 1, 1, 2, 2), np.float32), [1, 1], [1, 1], [4, 0], [0, 4])
    assert y.shape == (1, 1, 5, 5)
    assert y[0, 0].sum(axis=1).tolist() == [0, 0, 0, 3, 6]


# Deconvolutions and zero-insertion against the naive scatter.


def case(seed: int, dtype: Any) -> tuple[Shape, Any, Any, list[int]]:
    s = draw(seed)
    x, w = data(s, dtype, 0 if np.dtype(dtype).kind == "u" else -9)
    r = random.Random(seed)
    full = [
        v * (i - 1) + d * (k - 1) + 1
        for i, k, v, d in zip(s.sizes, s.kernel, s.strides, s.dilations, strict=True)
    ]
    return s, x, np.ascontiguousarray(w.swapaxes(1, 2)), [r.randint(0, f + 3) for f in full]


@each_row("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@each_row("seed", range(25))
def test_integer_deconvolutions_are_exact(seed: int, dtype: Any) -> None:
    s, x, w, sizes = case(seed, dtype)
    y = deconvolution(x, w, s.strides, s.dilations, s.begin, sizes)
    want = wrapped(oracle.deconvolution(x, w, s.strides, s.dilations, s.begin, sizes), dtype)
    assert y.dtype == dtype
    assert y.shape == want.shape
    assert (y == want).all()


ONE, DEPTHWISE = ((2, 4, 1, 1), (2, 2, 3, 3, 2)), ((2, 3, 3, 2), (3, 1, 1, 5, 32))
CASES: list[Any] = [  # shapes, strides, dilations, begin, sizes
    *((ONE, [2, 1], [d, 1], [b, -1], [6, 4]) for d in (1, 2) for b in (-2, 0, 1, 9)),
    (DEPTHWISE, [4, 16], [1, 1], [1, 8], [12, 32]),
    *(
        (((1, c, 9, 8), (1, c, m, 4, 3)), strides, [1, 1], [1, 1], [12, 11])
        for c, m in ((1, 8), (8, 1), (4, 4))
        for strides in ([1, 1], [2, 2], [2, 1], [5, 5])
    ),
]


@pytest.mark.slow
@each_row("shapes, strides, dilations, begin, sizes", CASES)
def test_every_choice_of_kernel_agrees_with_the_oracle(
    shapes: Any, strides: Any, dilations: Any, begin: Any, sizes: Any
) -> None:
    """Inputs of one position, wide depthwise strides, few or many channels."""
    r = np.random.default_rng(0)
    x, w = (r.integers(-9, 9, shape) for shape in shapes)
    args = strides, dilations, begin, sizes
    assert (deconvolution(x, w, *args) == oracle.deconvolution(x, w, *args)).all()


@each_row("dtype", [np.int64, np.uint64])
@each_row("channels", [2, 20])
@each_row("stride", [1, 2, 3])
def test_deconvolved_sums_beyond_64_bits_wrap(dtype: Any, channels: int, stride: int) -> None:
    """Large enough for the kernels that numba compiles, which know floats only."""
    r = np.random.default_rng(0)
    x = r.integers(2**40, size=(1, channels, 12, 20)).astype(dtype)
    w = r.integers(2**30, size=(1, channels, 2, 3, 3)).astype(dtype)
    args = [stride] * 2, [1, 1], [1, 0], [12 * stride, 20 * stride + 1]
    want = wrapped(oracle.deconvolution(x, w, *args), dtype)
    assert (deconvolution(x, w, *args) == want).all()


def test_by_hand() -> None:
    # full = 1*[1,2,3] at 0, 10*[1,2,3] at 2 -> 1 2 13 20 30
    x, w = np.array([[[1, 10]]]), np.array([[[[1, 2, 3]]]])
    assert deconvolution(x, w, [2], [1], [0], [5]).tolist() == [[[1, 2, 13, 20, 30]]]
    assert deconvolution(x, w, [2], [1], [-1], [8]).tolist() == [[[0, 1, 2, 13, 20, 30, 0, 0]]]
    assert deconvolution(x, w, [2], [1], [4], [2]).tolist() == [[[30, 0]]]
    assert deconvolution(x, w, [2], [2], [0], [7]).tolist() == [[[1, 0, 12, 0, 23, 0, 30]]]


def test_output_into_a_strided_view() -> None:
    s, x, w, sizes = case(3, np.float32)
    want = oracle.deconvolution(x, w, s.strides, s.dilations, s.begin, sizes)
    host = np.zeros((*want.shape, 2), np.float32)
    y = host[..., 1]
    assert deconvolution(x, w, s.strides, s.dilations, s.begin, sizes, out=y) is y
    assert (y == want).all()
    assert not host[..., 0].any()


def test_without_input_there_are_zeros() -> None:
    x, w = np.ones((1, 2, 0)), np.ones((1, 2, 3, 2))
    assert deconvolution(x, w, [2], [1], [0], [3]).tolist() == [[[0, 0, 0]] * 3]


def test_an_infinite_input_stays_where_the_scatter_puts_it() -> None:
    x, w = np.zeros((1, 1, 4), np.float32), np.ones((1, 1, 1, 2), np.float32)
    x[0, 0, 1] = np.inf
    y = deconvolution(x, w, [2], [1], [0], [8])
    assert np.isinf(y[0, 0]).tolist() == [False, False, True, True, False, False, False, False]


@each_row("seed", range(20))
def test_zero_insertion(seed: int) -> None:
    s = draw(seed)
    x = data(s, np.int32)[0]
    y = candidate.zero_insert(x, s.strides)
    assert y.dtype == x.dtype
    assert (y == oracle.zero_insert(x, s.strides)).all()


def test_zero_insertion_of_nothing() -> None:
    assert candidate.zero_insert(np.ones((1, 2, 0, 2)), [3, 2]).shape == (1, 2, 0, 3)


@each_row("seed", range(30))
def test_lowering_identity(seed: int) -> None:
    """Zero-insertion, window and a convolution with the flipped filter are the scatter."""
    s, x, w, sizes = case(seed, np.int64)
    reach = [d * (k - 1) for d, k in zip(s.dilations, s.kernel, strict=True)]
    spread = candidate.zero_insert(x, s.strides)
    begin = [b - r for b, r in zip(s.begin, reach, strict=True)]
    rows = zip(sizes, reach, begin, spread.shape[2:], strict=True)
    end = [o + r + b - i for o, r, b, i in rows]
    seen = copies.padded(spread, (0, 0, *(-b for b in begin)), (0, 0, *end))
    flipped = np.flip(w, tuple(range(3, w.ndim))).swapaxes(1, 2)
    ones, zeros = [1] * len(sizes), [0] * len(sizes)
    y = convolution(seen, flipped, ones, s.dilations, zeros, zeros)
    assert (y == oracle.deconvolution(x, w, s.strides, s.dilations, s.begin, sizes)).all()
