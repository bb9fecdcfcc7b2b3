"""Scratch memory: what is filled with zeros."""

from __future__ import annotations

import numpy as np
import pytest

from irdeconv.kernels.scratch import clear


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
