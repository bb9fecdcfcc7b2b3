"""What the compiled loops of convolutions do, run as plain Python inside of their arrays."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import compiled
from irdeconv.kernels.convolution import depthwise as fast
from irdeconv.kernels.convolution import direct
from irdeconv.kernels.convolution.candidates import convolution_candidates
from irdeconv.kernels.convolution.conv3d import as_conv3d
from irdeconv.kernels.shared import blocking, jit
from irdeconv.kernels.shared.problem import ConvProblem
from support import oracle
from support.blocks import SMALL
from test_kernels_convolve import Shifts, data, draw, run, strided

pytestmark = pytest.mark.thorough


def copied(lanes: int) -> Any:
    """Do what a copy of kernels.compiled.vectors does, inside of the arrays."""

    def copy(source: Any, start: int, target: Any, place: int) -> None:
        assert min(start, place) >= 0
        target[place : place + lanes] = source[start : start + lanes].reshape(lanes)

    return copy


def summed(lanes: int, skip: int) -> Any:
    """Do what sums of kernels.compiled.vectors do, inside of the arrays."""

    def sums(x: Any, at: Any, w: Any, start: int, offsets: Any, out: Any, to: Any) -> None:
        for source, target in zip(at, to, strict=True):
            total = np.zeros(lanes, x.dtype)
            for t, shift in enumerate(offsets):
                assert source + shift >= 0
                part = x[source + shift : source + shift + lanes * skip].reshape(lanes, skip)
                total += w[start + t] * part[:, 0]
            out[target : target + lanes] = total

    return sums


def multiplied(
    x: Any, at: Any, w: Any, start: int, offsets: Any, out: Any, to: Any, plane: int
) -> None:
    """Do what `products8x4` of kernels.compiled.vectors does, inside of the arrays."""
    for source, target in zip(at, to, strict=True):
        for m in range(4):
            total = np.zeros(8, x.dtype)
            for t, shift in enumerate(offsets):
                assert source + shift >= 0
                total += w[start + 4 * t + m] * x[source + shift : source + shift + 8].reshape(8)
            assert target >= 0
            out[target + m * plane : target + m * plane + 8] = total


VECTORS = SimpleNamespace(
    products8x4=multiplied,
    copy8_by_2=lambda x, at, out, to: copied(8)(x[at : at + 16].reshape(8, 2)[:, 0], 0, out, to),
    **{f"copy{n}": copied(n) for n in (8, 4, 1)},
    **{f"sums{n}": summed(n, 1) for n in (8, 4, 1)},
    **{f"sums{n}_by_2": summed(n, 2) for n in (8, 4)},
)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the loops that numba would compile as Python, so that they need no numba."""
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(njit=None))
    monkeypatch.setattr(jit, "compiled", lambda function: function)
    monkeypatch.setitem(sys.modules, "irdeconv.kernels.compiled.vectors", VECTORS)
    monkeypatch.setattr(compiled, "vectors", VECTORS, raising=False)
    monkeypatch.delitem(sys.modules, "irdeconv.kernels.compiled.convolution", raising=False)
    monkeypatch.setattr(jit, "available", lambda: True)
    monkeypatch.setattr(blocking, "SIZES", SMALL)
    fast.compiled.cache_clear()
    yield
    sys.modules.pop("irdeconv.kernels.compiled.convolution", None)
    fast.compiled.cache_clear()


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", range(400, 520))
def test_compiled_loops(seed: int) -> None:
    w, end = draw(seed)
    c = w.shape[1]
    w = replace(w, groups=c, outputs=c * (1 + seed % 2))
    x, f = data(w)
    want = oracle.convolution(x, f, w.strides, w.dilations, w.begin, end).reshape(w.out_shape)
    epilogue = Shifts(w, seed % 3 == 0)
    (found,) = [k for k in convolution_candidates(w) if k.name in ("depthwise", "zero")]
    y, shared = np.full((2, *w.out_shape), np.nan, w.dtype)
    team = run(found, strided(x, seed), f, y, epilogue)
    assert (y == epilogue.on(want)).all()
    # An input whose elements are not neighbours is copied first.
    assert team.peak <= found.scratch + x.nbytes + 64 * 4
    run(found, x, f, shared, epilogue, threads=3)
    assert y.tobytes() == shared.tobytes()


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", range(520, 600))
def test_compiled_direct_products(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = replace(SMALL, direct_bytes=32 * (4 + seed % 7))
    monkeypatch.setattr(blocking, "SIZES", sizes)
    w, end = draw(seed)
    width = 8 + seed % 25
    size = (width - 1) * w.strides[-1] + (w.kernel[-1] - 1) * w.dilations[-1] + 1
    size = max(1, size - w.begin[-1] - end[-1])
    shape = (*w.shape[:-1], size)
    reach = size + w.begin[-1] + end[-1] - (w.kernel[-1] - 1) * w.dilations[-1] - 1
    sizes = (*w.sizes[:-1], reach // w.strides[-1] + 1)
    w = replace(w, groups=1, outputs=4 + seed % 3, shape=shape, sizes=sizes, dtype="float32")
    found = [k for k in convolution_candidates(w) if k.name == "direct"]
    if not found:  # a single axis, or one that is left with too few positions
        assert 0 in w.out_shape or not direct.applies(as_conv3d(w))
        return
    x, f = data(w)
    want = oracle.convolution(x, f, w.strides, w.dilations, w.begin, end).reshape(w.out_shape)
    epilogue = Shifts(w, seed % 3 == 0)
    y, shared = np.full((2, *w.out_shape), np.nan, w.dtype)
    run(found[0], strided(x, seed), f, y, epilogue)
    assert (y == epilogue.on(want)).all()
    run(found[0], x, f, shared, epilogue, threads=3)
    assert y.tobytes() == shared.tobytes()


def test_compiled_loops_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    w = ConvProblem((1, 8, 9, 9), 8, 8, (3, 3), (1, 1), (1, 1), (1, 1), (9, 9))
    monkeypatch.setattr(jit, "installed", lambda: True)
    monkeypatch.setenv("IRDECONV_FAST", "1")
    assert "depthwise" in [c.name for c in convolution_candidates(w)]
    monkeypatch.setenv("IRDECONV_FAST", "0")
    assert "depthwise" not in [c.name for c in convolution_candidates(w)]
    monkeypatch.delenv("IRDECONV_FAST")
    monkeypatch.setattr(jit, "installed", lambda: False)
    assert "depthwise" not in [c.name for c in convolution_candidates(w)]
