"""What the compiled loops of convolutions do, run as plain Python inside of their arrays."""

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from irdeconv import kernels
from irdeconv.kernels import convolution_direct, jit
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.eager import convolution_candidates
from support.blocks import SMALL
from support.kernels import convolved, run
from test_kernels_convolve import Shifts, data, draw, strided

pytestmark = pytest.mark.thorough


def copied(lanes: int, skip: int = 1) -> Any:
    """Do what a copy of `compiled_vectors` does, inside of the arrays."""

    def copy(source: Any, start: int, target: Any, place: int) -> None:
        assert min(start, place) >= 0
        part = source[start : start + lanes * skip].reshape(lanes, skip)
        target[place : place + lanes] = part[:, 0]

    return copy


def plane(
    x: Any, places: Any, w: Any, offsets: Any, out: Any, starts: Any, kind: Any, row: int
) -> None:
    """Do what `plane` of `compiled_vectors` does, inside of the arrays."""
    lanes, skip, taps, many = kind
    assert len(places[0]) % (many if taps > 1 else 4) == 0
    written = min(lanes, row) if jit.lanes() == 16 else lanes
    for source, target in zip(places[0] + starts[0], places[1] + starts[1], strict=True):
        total = np.zeros(lanes, x.dtype)
        for t, shift in enumerate(offsets):
            assert source + shift >= 0
            part = x[source + shift : source + shift + lanes * skip].reshape(lanes, skip)
            total += w[0][w[1] + t] * part[:, 0]
        out[target : target + written] = total[:written]


def cleared(lanes: int) -> Any:
    """Do what `clear_vector` and `clear4` do."""

    def clear(target: Any, place: int) -> None:
        assert place >= 0
        target[place : place + lanes] = np.zeros(lanes)[: len(target) - place]

    return clear


VECTORS = SimpleNamespace(
    NATIVE=jit.lanes(),
    copy_vector=copied(jit.lanes()),
    clear_vector=cleared(jit.lanes()),
    clear4=cleared(4),
    copy_vector_by_2=copied(jit.lanes(), 2),
    copy4_by_2=copied(4, 2),
    **{f"copy8_by_{n}": copied(8, n) for n in (2, 3, 4)},
    **{f"copy{n}": copied(n) for n in (16, 8, 4, 1)},
    plane=plane,
)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the loops that numba would compile as Python, so that they need no numba."""
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(njit=None))
    monkeypatch.setattr(jit, "compiled", lambda function: function)
    monkeypatch.setitem(sys.modules, "irdeconv.kernels.compiled_vectors", VECTORS)
    monkeypatch.setattr(kernels, "compiled_vectors", VECTORS, raising=False)
    monkeypatch.delitem(sys.modules, "irdeconv.kernels.compiled_convolution", raising=False)
    monkeypatch.setattr(jit, "available", lambda: True)
    monkeypatch.setattr(blocking, "SIZES", SMALL)
    convolution_direct.compiled.cache_clear()
    yield
    sys.modules.pop("irdeconv.kernels.compiled_convolution", None)
    convolution_direct.compiled.cache_clear()


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", range(400, 520))
def test_compiled_loops(seed: int) -> None:
    w = draw(seed)
    c = w.shape[1]
    w = replace(w, groups=c, outputs=c * (1 + seed % 2))
    x, f = data(w)
    want = convolved(w, x, f)
    epilogue = Shifts(w, seed % 3 == 0)
    (found,) = [k for k in convolution_candidates(w) if k.name in ("depthwise", "zero")]
    y, shared = np.full((2, *w.out_shape), np.nan, w.dtype)
    team = run(found, strided(x, seed), f, y, epilogue)
    assert (y == epilogue.on(want)).all()
    # An input whose elements are not neighbours is copied first.
    assert team.peak <= found.scratch + x.nbytes + 64 * 4
    run(found, x, f, shared, epilogue, threads=3)
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
