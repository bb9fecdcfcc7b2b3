"""Products of constant matrices with inputs wherever they lie, and zeros that are written."""

from __future__ import annotations

import numpy as np
import pytest

from irdeconv.kernels.deconvolution_terms import COPIED_ROWS, TermProducts
from irdeconv.kernels.jit import wanted
from irdeconv.kernels.scratch import Space, clear
from irdeconv.kernels.threads import arithmetic

UNTOUCHED = -77.0


def integers(*shape: int, seed: int, dtype: str = "float32") -> np.ndarray:
    """Draw small integers, so that every order of summation gives the same."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 13, COPIED_ROWS, COPIED_ROWS + 27])
@pytest.mark.parametrize("columns", [16, 17, 63, 400])
def test_products_are_written_row_by_row_and_nothing_else(
    compiled: bool, dtype: str, rows: int, columns: int
) -> None:
    stack, depth, line, first = 2, 37, columns + 16, 8
    w = integers(stack, rows, depth, seed=1, dtype=dtype)
    x = integers(stack, depth, columns + 5, seed=2, dtype=dtype)[:, :, 3 : 3 + columns]
    out = np.full(first + stack * rows * line, UNTOUCHED, dtype)
    with wanted(compiled), arithmetic():
        product = TermProducts(w, columns)
        product(x, out, first, line, Space())
    assert (out[:first] == UNTOUCHED).all()
    terms = out[first:].reshape(stack, rows, line)
    np.testing.assert_array_equal(terms[..., :columns], w @ x)
    assert (terms[..., columns:] == UNTOUCHED).all()


@pytest.mark.parametrize("rows", [5, COPIED_ROWS])
def test_few_columns_have_memory_behind_them(rows: int) -> None:
    """What is read behind the last row takes no part in any sum."""
    w, line = integers(1, rows, 9, seed=3), 32
    host = np.full((9, 32), np.nan, np.float32)
    x = host[None, :, :7]
    x[...] = integers(1, 9, 7, seed=4)
    out = np.full(rows * line, UNTOUCHED, np.float32)
    product = TermProducts(w, 7)
    product(x, out, 0, line, Space())
    terms = out.reshape(rows, line)
    np.testing.assert_array_equal(terms[:, :7], (w @ x)[0])
    assert (terms[:, 7:] == UNTOUCHED).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
def test_clear_fills_only_what_it_is_given(dtype: str) -> None:
    whole = np.ones((3, 5, 12), dtype)
    clear(whole[1:, ::2, 2:9])
    clear(whole[:1, :1, ::3])
    want = np.ones((3, 5, 12), dtype)
    want[1:, ::2, 2:9] = 0
    want[:1, :1, ::3] = 0
    np.testing.assert_array_equal(whole, want)


def test_clear_of_nothing_and_of_a_scalar() -> None:
    clear(np.ones((3, 0), np.float32))
    scalar = np.ones((), np.float32)
    clear(scalar)
    assert scalar == 0
