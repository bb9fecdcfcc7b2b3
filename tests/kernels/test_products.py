"""Products of matrices in the shapes in which OpenBLAS is fast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from irdeconv.kernels import products
from irdeconv.kernels import scratch as blocking


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (7, 3, 130), (50, 9, 5), (33, 5, 70), (3, 40, 9), (40, 200, 90)]
)
@pytest.mark.parametrize("small", [1, 500, 20_000])
@pytest.mark.parametrize("in_place", [False, True])
@np.errstate(all="ignore")  # as the engine does
def test_products_in_tiles(
    m: int, k: int, n: int, small: int, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "multiplies_in_place", lambda: in_place)
    monkeypatch.setattr(blocking, "SIZES", replace(blocking.SIZES, small_macs=small))
    r = np.random.default_rng(0)
    a, b = (r.integers(-9, 10, s).astype(np.float32) for s in ((m, k), (k, n)))
    out = np.full((m, n + 3), np.nan, np.float32)
    products.multiply(a, b, out[:, :n])
    assert (out[:, :n] == a.astype(int) @ b.astype(int)).all()
    assert np.isnan(out[:, n:]).all()


def test_products_are_split_where_small_ones_are_not_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "multiplies_in_place", lambda: True)
    for m, k, n in ((4096, 64, 1024), (8192, 1024, 16), (48, 256, 3600)):
        rows, columns = products.tile(m, k, n)
        assert 0 < rows * k * columns <= blocking.SIZES.small_macs
    assert products.tile(4096, 512, 256) == (0, 0)
    assert products.worth_copying(48, 1 << 14)
    assert not products.worth_copying(8, 1 << 14)
    assert not products.worth_copying(48, 2048)
    monkeypatch.setattr(products, "multiplies_in_place", lambda: False)
    assert products.tile(4096, 64, 1024) == products.tile(8192, 1024, 16) == (0, 0)
    assert not products.worth_copying(48, 1 << 14)


def test_rows_do_not_alias_in_the_cache() -> None:
    for columns in (1, 16, 128, 1000, 1024, 4096):
        assert products.pitch(columns, "float32") >= columns
        assert products.pitch(columns, "float32") * 4 % 512
        assert products.pitch(columns, "float64") * 8 % 512
