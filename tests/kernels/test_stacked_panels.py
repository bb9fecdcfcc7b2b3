"""Stacks of products by the micro-kernel, and the Winograd kernels that are made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from irdeconv.kernels import deconvolution_direct, deconvolution_winograd_cuts, jit
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.deconvolution import Blocking, axes_of
from irdeconv.kernels.deconvolution_winograd import Tiling
from irdeconv.kernels.panels import RegisterTile, StackedPanels, missed
from irdeconv.kernels.residue_cuts import GAPS
from irdeconv.kernels.threads import Threads
from support.blocks import SMALL
from support.kernels import deconvolved, integers
from teams import outputs_of_teams
from test_deconvolution_candidates import bound

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not jit.available(), reason="needs numba"),
]


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize(("rows", "depth"), [(1, 1), (7, 5), (50, 11)])
def test_products_are_exact_and_nothing_else_is_written(stack: int, rows: int, depth: int) -> None:
    """The first call of a place is made as it is, the others are written down."""
    r, lanes = np.random.default_rng(rows), jit.lanes()
    w = r.integers(-9, 10, (stack, rows, depth)).astype(np.float32)
    panels = StackedPanels(w, 3 * lanes)
    for columns in (lanes, 3 * lanes, 3 * lanes, lanes, 2 * lanes):
        line, plane = columns + 3, rows * columns + 5
        values = r.integers(-9, 10, (stack, depth * line + 2)).astype(np.float32)
        out = np.full(9 + stack * plane, np.nan, np.float32)
        panels(values, line, columns, out, 4, plane)
        seen = values[:, : depth * line].reshape(stack, depth, line)[:, :, :columns]
        planes = out[4:-5].reshape(stack, plane)
        want = np.matmul(w, seen).reshape(stack, -1)
        assert (planes[:, : rows * columns] == want).all()
        planes[:, : rows * columns] = np.nan
        assert np.isnan(out).all()


@pytest.mark.parametrize("small", [False, True])
@np.errstate(all="ignore")  # as the engine does
def test_tiles_are_computed_by_several_teams_at_once(
    small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their places are given with each call, also where threads of one team share blocks."""
    if small:
        monkeypatch.setattr(blocking, "SIZES", replace(SMALL, evaluated_bytes=20_000))
    problem = ConvProblem((2, 6, 20, 17), 10, 2, (4, 4), (2, 2), (1, 1), (1, 0), (40, 35))
    x, w = integers(problem, 0)
    want = deconvolved(problem, x, w)
    for candidate in deconvolution_winograd_cuts.candidates(problem):
        kernel, limit = candidate.prepare(w), bound(problem, candidate, x, w)
        outs = outputs_of_teams(kernel, x, problem.out_shape, 2)
        assert all((y == outs[0]).all() for y in outs), candidate.name
        assert (np.abs(outs[0] - want) <= limit).all(), candidate.name


@pytest.mark.parametrize("kernel", [(3, 3), (2, 1)])  # one leaves outputs that nothing meets
def test_small_pieces_of_work_are_called_together(kernel: tuple[int, int]) -> None:
    problem = ConvProblem((1, 80, 6, 5), 40, 20, kernel, (2, 2), (1, 1), (0, 0), (13, 11))
    x, w = integers(problem, 1)
    cut = deconvolution_direct._cut(problem, GAPS, 1)
    made, team = deconvolution_direct.DirectDeconvolution(cut, w), Threads(1)
    assert made.movable
    assert 1 <= len(made._runs) < len(made._items) == 20
    assert [item for run in made._runs for item in run] == made._items
    for _ in range(3):
        y = np.full(problem.out_shape, np.nan, np.float32)
        team.begin()
        made(x, y, None, team)
        assert (y == deconvolved(problem, x, w)).all()


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("size", [4, 9, 30])
def test_tiles_are_multiplied_by_whole_vectors_of_the_processor(
    lanes: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one with short vectors a few columns must not cost those of one with long vectors."""
    monkeypatch.setattr(jit, "lanes", lambda: lanes)
    lists = (2, 2), (1, 1), (1, 1), (0, 0), (size + 1, size + 1)
    problem = ConvProblem((1, 3, size, size), 2, 1, *lists)
    blocks = Blocking(problem, 1, problem.sizes)
    tiling = Tiling(problem, axes_of(problem), (2, 2), blocks, 2, behind=False)
    for block in blocks:
        width, columns = tiling.width(block), tiling.columns(block)
        assert width % lanes == 0
        assert columns <= width < columns + lanes


@pytest.mark.parametrize(
    ("depth", "stride", "vectors"),
    [(256, 4096, 256 * 10 * 9), (256, 16384, 256 * 10 * 9), (256, 4160, 0), (24, 4096, 0)],
)
def test_rows_that_compete_for_a_cache_are_missed_by_every_tile(
    depth: int, stride: int, vectors: int
) -> None:
    """50 rows are nine tiles of six, each of which reads the whole right operand."""
    assert missed(50, depth, 10, RegisterTile(6, 4), stride) == vectors
