"""What the tests of kernels share: candidates, integer inputs, results by the definition, a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any
from unittest import mock

import numpy as np

from irdeconv.base.extras import plain
from irdeconv.kernels import machine
from irdeconv.kernels.candidate import Candidate, ConvProblem
from irdeconv.kernels.threads import Threads, arithmetic
from support import oracle

List = Callable[[ConvProblem], list[Candidate]]


def every_kernel(listed: List, problem: ConvProblem) -> list[Candidate]:
    """Return the candidates with numba, and those that exist only without it."""
    found = listed(problem)
    names = {c.name for c in found}
    with plain():
        return found + [c for c in listed(problem) if c.name not in names]


@contextmanager
def products_taking(times: float) -> Iterator[None]:
    """Let matrix products take so many times as long in cost formulas."""
    machine.scaled.cache_clear()
    with mock.patch.object(machine, "product_time", return_value=times):
        yield
    machine.scaled.cache_clear()


def integers(
    problem: ConvProblem, seed: int = 0, top: int = 9, *, convolution: bool = False
) -> tuple[Any, Any]:
    """Return an input and a filter of a deconvolution, or of a convolution."""
    r = np.random.default_rng(seed)
    channels = problem.group_inputs, problem.group_outputs
    shape = (problem.groups, *(channels[::-1] if convolution else channels), *problem.kernel)
    x, w = (r.integers(-top, top + 1, s).astype(problem.dtype) for s in (problem.shape, shape))
    return x, w


def deconvolved(problem: ConvProblem, x: Any, w: Any) -> Any:
    """Return the deconvolution by its definition, in float64."""
    args = problem.strides, problem.dilations, problem.begin, problem.sizes
    return oracle.deconvolution(x.astype(np.float64), w.astype(np.float64), *args)


def convolved(problem: ConvProblem, x: Any, w: Any) -> Any:
    """Return the convolution by its definition, in float64."""
    lists = problem.strides, problem.dilations, problem.begin
    rows = zip(problem.shape[2:], problem.kernel, problem.sizes, *lists, strict=True)
    end = [(o - 1) * s + d * (k - 1) + 1 - i - b for i, k, o, s, d, b in rows]
    y = oracle.convolution(x.astype(np.float64), w.astype(np.float64), *lists, end)
    return y.reshape(problem.out_shape)


@np.errstate(all="ignore")  # as the engine does
def run(c: Candidate, x: Any, w: Any, out: Any, epilogue: Any = None, threads: int = 1) -> Threads:
    """Compute `out`; return the team that did it."""
    team = Threads(threads)
    team.begin()
    c.prepare(w)(x, out, epilogue, team)
    return team


# A kernel run by several teams of threads at once.


def outputs_of_teams(kernel: Any, x: Any, shape: tuple[int, ...], workers: int) -> list[Any]:
    """Return the outputs of three teams of so many workers; each runs the kernel five times."""
    outs = [np.empty(shape, x.dtype) for _ in range(3)]

    def work(y: Any) -> None:
        team = Threads(workers)
        for _ in range(5):
            y[...] = np.nan
            team.begin()
            with arithmetic():
                kernel(x, y, None, team)

    threads = [Thread(target=work, args=(y,)) for y in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outs
