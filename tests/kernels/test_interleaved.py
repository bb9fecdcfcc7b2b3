"""Convolutions on interleaved rows: in memory that stays where it is, and what a band spreads."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import convolution_rows, convolution_shifted, jit
from irdeconv.kernels.candidate import ConvProblem, FixedKernel
from irdeconv.kernels.convolution import as_conv3d
from irdeconv.kernels.convolution_rows import banded
from irdeconv.kernels.eager import convolution
from irdeconv.kernels.scratch import Space
from irdeconv.kernels.threads import Threads
from support.kernels import convolved, integers, run

PROBLEMS = {
    "3x3": ConvProblem((2, 3, 7, 6), 5, 1, (3, 3), (1, 1), (1, 1), (1, 1), (7, 6)),
    "strides": ConvProblem((1, 4, 9, 11), 6, 2, (3, 2), (2, 3), (1, 1), (1, 0), (4, 4)),
    "long rows": ConvProblem((1, 2, 6, 12), 3, 1, (2, 5), (1, 1), (1, 2), (0, 4), (5, 12)),
    "3D": ConvProblem((1, 2, 4, 5, 6), 3, 1, (3, 2, 3), (1,) * 3, (1,) * 3, (1, 0, 1), (4, 4, 6)),
    "depthwise": ConvProblem((1, 3, 11, 7), 3, 3, (3, 3), (1, 1), (1, 1), (1, 1), (11, 7)),
    "two outputs": ConvProblem((2, 3, 10, 9), 6, 3, (5, 3), (2, 1), (1, 2), (2, 2), (5, 9)),
    "stride 2": ConvProblem((2, 4, 9, 12), 4, 4, (3, 3), (2, 2), (1, 1), (1, 0), (5, 6)),
    "dilated rows": ConvProblem((1, 2, 13, 5), 2, 2, (3, 3), (1, 1), (3, 1), (3, 1), (13, 5)),
}


@pytest.fixture(autouse=True)
def without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "available", lambda: False)


@np.errstate(all="ignore")  # as the engine does
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_memory_that_stays_is_read_anew_in_every_run(name: str, channels_last: bool) -> None:
    p = PROBLEMS[name]
    _, w = integers(p, top=4, convolution=True)
    bias = np.arange(p.outputs, dtype=np.float32)[:, None]

    def finish(tile: Any, image: int, channels: slice, positions: slice) -> Any:
        return lambda space: np.add(tile, bias[channels], out=tile)

    found = convolution_rows.candidates(p) + convolution_shifted.candidates(p)
    assert {c.name for c in found} & {"interleaved", "banded"}
    assert ("shifted" in {c.name for c in found}) == (p.groups == p.outputs == p.shape[1] > 1)
    for threads in (1, 3):
        for c in found:
            x, y = np.empty(p.shape, np.float32), np.empty(p.out_shape, np.float32)
            if channels_last:
                x = np.moveaxis(np.empty((p.shape[0], *p.shape[2:], p.shape[1]), "f"), -1, 1)
            kernel = c.prepare(w)
            assert isinstance(kernel, FixedKernel)
            work, team = kernel.fixed(x, y, finish), Threads(threads)
            assert work is not None
            for seed in range(3):
                x[...] = integers(p, seed, top=4)[0]
                y[...] = np.nan
                team.begin()
                work(team)
                want = convolved(p, x, w)
                assert (y == want + bias.reshape(1, -1, *(1,) * (x.ndim - 2))).all(), c.name


def test_a_band_is_the_filter_moved_down() -> None:
    conv = as_conv3d(ConvProblem((1, 2, 9, 4), 2, 2, (2, 1), (2, 1), (3, 1), (0, 0), (3, 4)))
    got = banded(np.array([[1, 2], [3, 4]], np.float32).reshape(2, 1, 2, 1, 1, 1), 3, conv)
    assert got.shape == (2, 1, 3, 8)
    assert got[0, 0].tolist() == [
        [1, 0, 0, 2, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 2, 0, 0],
        [0, 0, 0, 0, 1, 0, 0, 2],
    ]


@np.errstate(all="ignore")
def test_an_infinity_spreads_over_a_band_of_a_plan_and_not_node_by_node() -> None:
    p = ConvProblem((1, 4, 32, 32), 4, 4, (3, 3), (1, 1), (1, 1), (1, 1), (32, 32))
    x, w = np.zeros(p.shape, np.float32), np.ones((4, 1, 1, 3, 3), np.float32)
    x[0, 2, 15, 9] = np.inf
    (c,) = (c for c in convolution_rows.candidates(p) if c.name == "banded")
    assert c.spreads
    y = np.empty(p.out_shape, np.float32)
    run(c, x, w, y)
    plain = convolution(x, w, p)
    bad = np.argwhere(~np.isfinite(y))
    assert set(bad[:, 1]) == {2}
    assert set(bad[:, 3]) == {8, 9, 10}
    assert 3 < len(set(bad[:, 2])) <= 16
    assert np.argwhere(~np.isfinite(plain))[:, 2:].tolist() == [
        [h, v] for h in (14, 15, 16) for v in (8, 9, 10)
    ]


def test_what_is_made_of_scratch_memory_is_made_again_only_where_that_has_moved() -> None:
    space, made = Space(), list[int]()

    def make() -> Any:
        made.append(space.used)
        return space.array((64,), np.float32)

    for _ in range(3):
        space.reset()
        space.again(space, make)
        assert space.used == 256
    assert made == [0, 0]  # the first one lay in memory of its own
    space.array((1 << 10,), np.float32)
    space.reset()
    again = space.again(space, make)
    assert made == [0, 0, 0]
    assert np.shares_memory(again, space.array((0,), np.uint8)) or space.used == 256
    space.array((16,), np.float32)
    assert space.again(make, make) is not again


def test_what_was_made_goes_with_its_owner() -> None:
    space = Space()
    space.array((64,), np.float32)
    space.reset()

    def work() -> None:
        """An owner."""

    made = space.again(work, lambda: space.array((64,), np.float32))
    gone = weakref.ref(made)
    del made, work
    gc.collect()
    assert gone() is None
