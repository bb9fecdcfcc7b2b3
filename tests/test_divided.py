"""Layers that a kernel cuts too unevenly for two threads are computed in parts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import candidate, divided
from irdeconv.kernels.candidate import GAIN, LONG, Candidate, ConvProblem, shared
from irdeconv.kernels.divided import DividedKernel, LayerPart, parts_of
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.threads import Threads, arithmetic
from support.kernels import every_kernel
from support.oracle import convolution, deconvolution

PLAIN = ConvProblem((1, 6, 5, 4), 4, 1, (3, 2), (2, 3), (1, 1), (1, 0), (9, 11))


def layer(images: int, groups: int, outputs: int) -> ConvProblem:
    return replace(PLAIN, shape=(images, 6, 5, 4), groups=groups, outputs=outputs)


def sizes(parts: list[LayerPart]) -> list[tuple[int, int, int]]:
    """The images, groups and output channels of each part."""
    return [(p.problem.shape[0], p.problem.groups, p.problem.outputs) for p in parts]


@pytest.mark.parametrize(
    ("problem", "wanted"),
    [
        (layer(4, 1, 3), [(2, 1, 3)] * 2),
        (layer(5, 1, 3), [(3, 1, 3), (2, 1, 3)]),
        (layer(1, 2, 4), [(1, 1, 2)] * 2),
        (layer(3, 2, 4), [(1, 1, 2)] * 6),
        (layer(1, 1, 4), [(1, 1, 2)] * 2),
        (layer(3, 1, 4), [(1, 1, 2)] * 6),
        (layer(1, 3, 6), [(1, 1, 1)] * 6),
        (layer(1, 1, 1), []),
        (layer(1, 1, 3), []),  # 2 and 1
    ],
)
def test_parts_are_about_as_long(problem: ConvProblem, wanted: list[tuple[int, ...]]) -> None:
    assert sizes(parts_of(problem)) == wanted


def way(cost: float, items: int) -> Candidate:
    return Candidate("some", cost, 0, lambda w: lambda x, out, epilogue, team: None, items)


def test_more_is_paid_for_pieces_that_two_threads_share() -> None:
    costs = [(LONG * 2, 1), (LONG * 2.01, 3), (LONG * 2.1, 2), (LONG * 3, 8)]
    assert shared(way(*c) for c in costs).items == 2
    assert shared(way(*c) for c in costs[:2]).items == 3
    assert shared(way(cost / 3, items) for cost, items in costs).items == 3  # it is short
    assert [way(1, n).gain >= GAIN for n in (1, 2, 3, 4, 5, 7)] == [False, True, False, *[True] * 3]


class Finish:
    """Adds a number for each channel, and one for each place of the output."""

    positional = True

    def __init__(self, problem: ConvProblem) -> None:
        n, m = problem.out_shape[:2]
        self.bias = 100 * np.arange(m)
        self.places = 1000 * np.arange(n * m * np.prod(problem.sizes)).reshape(n, m, -1)

    def __call__(self, tile: Any, image: int, channels: slice, positions: slice) -> None:
        tile += self.bias[channels, None]
        tile += self.places[image, channels, positions]

    def whole(self) -> Any:
        return self.bias[:, None] + self.places


@pytest.fixture
def every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide short layers, too, whatever that costs."""
    for module in (candidate, divided):
        monkeypatch.setattr(module, "LONG", 0.0)
    monkeypatch.setattr(divided, "DEARER", 1e9)


@pytest.mark.usefixtures("every_part")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "problem",
    [
        layer(1, 1, 4),
        layer(3, 1, 4),
        layer(4, 1, 3),
        layer(1, 2, 4),
        layer(1, 3, 6),
        replace(layer(3, 2, 4), dtype="float64"),
        replace(layer(3, 1, 4), strides=(1, 1), sizes=(6, 5)),
    ],
    ids=lambda p: f"{p.shape[0]} images, {p.groups} groups, stride {p.strides[0]}, {p.dtype}",
)
def test_parts_compute_the_definition(problem: ConvProblem, threads: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, problem.shape).astype(problem.dtype)
    shape = (problem.groups, problem.group_inputs, problem.group_outputs, *problem.kernel)
    w = rng.integers(-9, 10, shape).astype(problem.dtype)
    geometry = problem.strides, problem.dilations, problem.begin
    want = deconvolution(x, w, *geometry, problem.sizes)
    compare(for_deconvolution(problem), problem, x, w, want, threads)


@pytest.mark.usefixtures("every_part")
@pytest.mark.parametrize("groups", [1, 2])
def test_parts_of_convolutions_compute_the_definition(groups: int) -> None:
    problem = replace(layer(3, groups, 4), strides=(1, 1), begin=(0, 0), sizes=(3, 3))
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, problem.shape).astype(np.float32)
    shape = (groups, problem.group_outputs, problem.group_inputs, *problem.kernel)
    w = rng.integers(-9, 10, shape).astype(np.float32)
    want = convolution(x, w, (1, 1), (1, 1), (0, 0), (0, 0))
    compare(every_kernel(for_convolution, problem), problem, x, w, want, 2)


def compare(
    candidates: list[Candidate], problem: ConvProblem, x: Any, w: Any, want: Any, threads: int
) -> None:
    """Run those that compute parts, with an epilogue."""
    finish, times = Finish(problem), 0
    for some in candidates:
        with arithmetic():
            kernel = some.prepare(w)
        if not isinstance(kernel, DividedKernel):
            continue
        times += 1
        out = np.empty(problem.out_shape, problem.dtype)
        team = Threads(threads)
        with team.lock, arithmetic():
            team.begin()
            kernel(x, out, finish, team)
        ends = want + finish.whole().reshape(out.shape)
        exact = partial(np.array_equal, out)
        close = partial(np.allclose, out, rtol=0, atol=2e-1)
        assert (close if some.transforms else exact)(ends), some.name
    assert times >= 2
