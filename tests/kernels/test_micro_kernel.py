"""The micro-kernel and the kernels made of it: every way to cut the work, in guarded memory."""

import itertools
import os
import platform
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import (
    convolution_direct,
    deconvolution_direct,
    deconvolution_winograd,
    jit,
    panels,
)
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import Candidate, ConvProblem
from irdeconv.kernels.convolution import as_conv3d
from irdeconv.kernels.convolution_direct import VectorLayout
from irdeconv.kernels.deconvolution import Blocking, axes_of
from irdeconv.kernels.panels import (
    FEW_REGISTERS,
    MANY_REGISTERS,
    Panels,
    ProductColumns,
    RegisterTile,
    RowTurns,
    StackedPanels,
    VectorPlaces,
    computed,
    missed,
    vector_starts,
)
from irdeconv.kernels.residue_cuts import APART, GAPS, NEAR, ROWS
from irdeconv.kernels.scratch import Space
from irdeconv.kernels.threads import Threads
from irdeconv.kernels.winograd_tilings import Tiling
from support.blocks import SMALL
from support.commands import Patch
from support.kernels import convolved, deconvolved, integers, outputs_of_teams
from support.rows import parts
from test_deconvolution_candidates import bound
from test_deconvolution_compiled import guarded, linux, wide
from test_kernels_convolve import data

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(not jit.available(), reason="needs numba")]
TILES = MANY_REGISTERS if jit.many_registers() else FEW_REGISTERS
best_of = panels._best_of  # before tests replace it


def where(columns: ProductColumns, tile: RegisterTile, copied: bool) -> VectorPlaces:
    """Return where vectors are read that begin with every so many columns, and written."""
    if copied:
        (places,) = VectorPlaces.copied(columns, tile.vectors)
        return places
    return VectorPlaces.lying(columns, vector_starts(len(columns.reads), False))


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("rows", [1, 5, 12, 29])
@pytest.mark.parametrize("copied", [False, True])
def test_a_product_is_exact_and_writes_only_its_rows(
    tile: RegisterTile, rows: int, copied: bool
) -> None:
    r, depth = np.random.default_rng(rows), 7
    width = 3 * jit.lanes() + 5
    w = r.integers(-9, 10, (rows, depth)).astype(np.float32)
    x = r.integers(-9, 10, (depth, width + jit.lanes())).astype(np.float32)
    bias = r.integers(-9, 10, rows).astype(np.float32)
    out = np.full((rows + 1, width + 3), np.nan, np.float32)
    places = where(ProductColumns(np.arange(width), np.arange(width)), tile, copied)
    offsets, row_starts = np.arange(depth) * x.shape[1], np.arange(rows) * out.shape[1]
    panels = Panels(w, tile)
    limits = np.array([-40, 60], np.float32)
    flat = out.reshape(-1)
    more = {"bias": panels.bias(bias), "limits": limits}
    panels(x.reshape(-1), offsets, places, flat, row_starts, 0, Space(), **more)
    want = np.clip(np.matmul(w, x) + bias[:, None], -40, 60)[:, :width]
    assert (out[:rows, :width] == want).all()
    assert np.isnan(out[rows:]).all()
    assert np.isnan(out[:, width:]).all()


def turned() -> list[tuple[RegisterTile, int, bool]]:
    """Every tile with every distance of rows, in a drawn order: each is compiled anew."""
    steps = [(1, False), (2, False), (2, True), (3, False), (5, True), (8, False)]
    every = [(tile, *step) for tile in TILES for step in steps]
    return random.Random(659).sample(every, len(every))  # each kind among the first


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", parts(12, turned()), ids=str)
def test_rows_are_written_in_turns_or_apart(case: tuple[RegisterTile, int, bool]) -> None:
    """Narrow rows with gaps between them, whose first and last column are cut."""
    tile, steps, copied = case
    r, outputs, lines, width, depth = np.random.default_rng(steps), 5, 4, jit.lanes() // 2 + 1, 3
    reads = np.arange(lines)[:, None] * (width + 2) + np.arange(width)
    far = width * steps + 3
    writes = np.arange(lines)[:, None] * far + np.arange(width) * steps
    for turns in {1, steps if tile.rows % steps == 0 else 1}:
        lows, highs = np.zeros_like(writes), np.full_like(writes, steps)
        if turns > 1:
            lows[:, 0], highs[:, -1] = 1, steps - 1
        table = (a.ravel() for a in (lows, highs))
        columns = ProductColumns(reads.ravel(), writes.ravel(), steps, *table)
        w = r.integers(-9, 10, (outputs * turns, depth)).astype(np.float32)
        x = r.integers(-9, 10, (depth, reads.max() + 1 + jit.lanes())).astype(np.float32)
        out, want = np.full((2, outputs, lines * far), np.nan, np.float32)
        starts = np.repeat(np.arange(outputs) * lines * far, turns)
        places = where(columns if copied else columns.with_gaps(), tile, copied)
        offsets, flat = np.arange(depth) * x.shape[1], out.reshape(-1)
        longer = max(1, turns - 1)
        w.reshape(outputs, turns, depth)[:, longer:, 2:] = 0
        panels = Panels(w, tile, RowTurns(turns, steps, longer, int(longer < turns)))
        panels(x.reshape(-1), offsets, places, flat, starts, 0, Space())
        sums = np.matmul(w, x).reshape(outputs, turns, -1)
        for at, (line, column) in enumerate(np.ndindex(lines, width)):
            low, high = (0, 1) if turns < steps else (lows.flat[at], highs.flat[at])
            to = writes[line, column]
            want[:, to + low : to + high] = sums[:, low:high, reads[line, column]]
        assert np.array_equal(out, want, equal_nan=True)


def test_limits_keep_nan_and_other_types_are_refused() -> None:
    tile, lanes = TILES[0], jit.lanes()
    x = np.full(lanes, np.nan, np.float32)
    out, at = np.zeros(lanes, np.float32), np.zeros(1, np.int64)
    limits = np.array([0, 6], np.float32)
    panels = Panels(np.ones((1, 1), np.float32), tile)
    places = where(ProductColumns(np.arange(lanes), np.arange(lanes)), tile, False)
    panels(x, at, places, out, at, 0, Space(), limits=limits)
    assert np.isnan(out).all()
    limits.flags.writeable = False
    panels(x, at, places, out, at, 0, Space(), limits=limits)
    for values, offsets in ((x.astype(np.float64), at), (x, at.astype(np.int32))):
        with pytest.raises(TypeError):  # not read as f32 or i64
            panels(values, offsets, places, out, at, 0, Space())


def test_the_tile_wastes_little() -> None:
    for rows, vectors in [(512, 1), (64, 49), (24, 6), (1, 100)]:
        tile = best_of(TILES, rows, vectors, 1)
        least = min(computed(rows, vectors, t) for t in TILES)
        assert computed(rows, vectors, tile) <= 1.2 * least
    assert best_of(TILES, 9, 40, 3).rows % 3 == 0


def convolution(seed: int) -> ConvProblem:
    """Draw a convolution, often with rows of several vectors."""
    r = random.Random(seed)
    rank, groups = r.choice([1, 2, 2, 3]), r.choice([1, 1, 2])
    kernel = r.choice([(1,) * rank, tuple(r.randint(1, 4) for _ in range(rank))])
    strides = r.choice([(1,) * rank, tuple(r.randint(1, 3) for _ in range(rank))])
    dilations = r.choice([(1,) * rank, tuple(r.randint(1, 2) for _ in range(rank))])
    begin, end = (
        tuple(r.choice([0, 0, 1, 2, -1]) if max(kernel) > 1 else 0 for _ in range(rank))
        for _ in range(2)
    )
    last = r.choice([3, 9, 17, 40, 70])
    inputs = (*(r.randint(4, 7) for _ in range(rank - 1)), last)
    rows = zip(inputs, begin, end, dilations, kernel, strides, strict=True)
    sizes = tuple(max(1, (i + b + e - d * (k - 1) - 1) // s + 1) for i, b, e, d, k, s in rows)
    n, c, m = r.choice([1, 3]), r.choice([1, 2, 5]), r.choice([1, 3, 13, 30])
    shape = (n, groups * c, *inputs)
    problem = ConvProblem(shape, groups * m, groups, kernel, strides, dilations, begin, sizes)
    return replace(problem, dtype=r.choice(["float32", "float32", "float16"]))


def layouts(problem: ConvProblem) -> Iterator[Candidate]:
    """Yield the kernel in every mode, cut in every way."""
    for layout in VectorLayout.all_of(convolution_direct._long_columns(as_conv3d(problem))):
        for cut in layout.shares():
            yield convolution_direct._candidate(cut)


@linux
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("seed", parts(8, 30))
@np.errstate(all="ignore")  # as the engine does
def test_convolutions_in_every_layout(seed: int, small: bool, monkeypatch: Patch) -> None:
    """A read or write beyond the memory ends the process."""
    if small:
        monkeypatch.setattr(blocking, "SIZES", replace(SMALL, direct_bytes=6000))
    problem = convolution(seed)
    x, w = data(problem)
    want = convolved(problem, x, w)
    for candidate in layouts(problem):
        for y in guarded(problem, candidate, x, w):
            assert (y == want.astype(problem.dtype)).all()


@pytest.mark.parametrize(("room", "depths"), [(1 << 18, [5]), (3200, [2, 2, 1]), (50, [1] * 5)])
def test_depths_are_computed_together(room: int, depths: list[int], monkeypatch: Patch) -> None:
    monkeypatch.setattr(blocking, "SIZES", replace(SMALL, direct_bytes=room))
    ones, zeros = (1, 1, 1), (0, 0, 0)
    problem = ConvProblem((1, 3, 6, 4, 9), 7, 1, (2, 1, 2), ones, ones, zeros, (5, 4, 8))
    x, w = data(problem)
    want = convolved(problem, x, w)
    for layout in VectorLayout.all_of(as_conv3d(problem)):
        whole = replace(layout, step=4)
        assert [b.size.depths for b in whole.blocks] == depths
        for y in guarded(problem, convolution_direct._candidate(whole), x, w):
            assert (y == want).all()


def require_exact(problem: ConvProblem, cut: Any, x: Any, w: Any, want: Any) -> None:
    for y in guarded(problem, deconvolution_direct._candidate(cut), x, w):
        assert (y == want).all(), cut


@pytest.mark.sampled(3)
@linux
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("seed", parts(8, 30))
@np.errstate(all="ignore")  # as the engine does
def test_deconvolutions_in_every_cut(seed: int, small: bool, monkeypatch: Patch) -> None:
    if small:
        monkeypatch.setattr(blocking, "SIZES", replace(SMALL, residues_columns=60))
    problem = replace(wide(seed), dtype="float32")
    x, w = integers(problem, seed)
    want = deconvolved(problem, x, w)
    for mode, share in itertools.product((GAPS, NEAR, ROWS, APART), (1, 4)):
        require_exact(problem, deconvolution_direct._cut(problem, mode, share), x, w, want)


STRIDES = [(2,), (3,), (2, 4), (3, 2), (1, 2), (2, 2, 2), (3, 1, 4)]


@pytest.mark.sampled(1)
@linux
@pytest.mark.parametrize("case", [*itertools.product(STRIDES, (False, True))], ids=str)
@np.errstate(all="ignore")  # as the engine does
def test_strides_that_are_the_kernel(
    case: tuple[tuple[int, ...], bool], monkeypatch: Patch
) -> None:
    """The inputs themselves are read, if nothing is cut off."""
    stride, small = case
    if small:
        monkeypatch.setattr(blocking, "SIZES", replace(SMALL, residues_columns=60))
    for groups, c, m in [(1, 5, 7), (3, 2, 1), (1, 3, 30)]:
        inputs = (*(5, 3)[: len(stride) - 1], 2 * jit.lanes() + 3)
        sizes = tuple(i * s for i, s in zip(inputs, stride, strict=True))
        ones = (1,) * len(stride)
        zeros = (0,) * len(stride)
        shape = (2, groups * c, *inputs)
        whole = ConvProblem(shape, groups * m, groups, stride, stride, ones, zeros, sizes)
        for problem in (whole, replace(whole, begin=(1, *zeros[1:]))):
            x, w = integers(problem, c)
            want = deconvolved(problem, x, w)
            for mode in (GAPS, ROWS, NEAR):
                cut = deconvolution_direct._cut(problem, mode, 1)
                assert small or cut.bare
                require_exact(problem, cut, x, w, want)


@linux
@pytest.mark.parametrize(
    ("kernel", "stride", "begin", "end", "bare"),
    [
        ((4, 4), (2, 2), (3, 3), (3, 3), True),
        ((4, 4), (2, 2), (2, 3), (2, 3), True),
        ((4, 4), (2, 2), (3, 3), (1, 3), False),
        ((4, 4), (2, 2), (3, 1), (3, 3), False),
        ((3,), (1,), (2,), (2,), True),
        ((2, 3, 4), (1, 1, 2), (1, 2, 2), (1, 2, 2), True),
    ],
)
@np.errstate(all="ignore")  # as the engine does
def test_where_no_tap_lies_outside_the_inputs_themselves_are_read(
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    bare: bool,
    monkeypatch: Patch,
) -> None:
    inputs = (*(5, 6)[: len(stride) - 1], 2 * jit.lanes() + 3)
    rows = zip(inputs, kernel, stride, begin, end, strict=True)
    sizes = tuple((i - 1) * s + k - b - e for i, k, s, b, e in rows)
    shape, ones = (2, 6, *inputs), (1,) * len(stride)
    problem = ConvProblem(shape, 9, 3, kernel, stride, ones, begin, sizes)
    x, w = integers(problem, 0)
    want = deconvolved(problem, x, w)
    assert deconvolution_direct._cut(problem, GAPS, 1).bare == bare
    aliased = replace(problem, shape=(*shape[:2], *inputs[:-1], 128))
    far = replace(problem, shape=(1 << 14, *shape[1:]))
    assert not deconvolution_direct._cut(aliased, GAPS, 1).bare
    assert not deconvolution_direct._cut(far, GAPS, 1).bare
    for small, mode in itertools.product((False, True), (GAPS, ROWS, NEAR, APART)):
        if small:
            monkeypatch.setattr(blocking, "SIZES", replace(SMALL, residues_columns=80))
        require_exact(problem, deconvolution_direct._cut(problem, mode, 1), x, w, want)


@pytest.mark.sampled(1)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="imitates others of its kind")
@pytest.mark.parametrize(("name", "lanes"), [("haswell", 8), ("x86-64-v2", 4)])
@pytest.mark.parametrize("step", parts(1, [7, 2]))
def test_lesser_processors(step: int, name: str, lanes: int, tmp_path: Path) -> None:
    """What is compiled for them gives the same results."""
    code = (
        "import test_micro_kernel as t\n"
        f"t.panels.own_tiles = lambda: t.TILES[::{step}]\n"
        f"assert t.jit.lanes() == {lanes}\n"
        "for tile in t.panels.own_tiles():\n"
        "    t.test_a_product_is_exact_and_writes_only_its_rows(tile, 29, True)\n"
        "p = t.replace(t.wide(4), dtype='float32')\n"
        "x, w = t.integers(p, 1)\n"
        "(k,) = t.deconvolution_direct.candidates(p)\n"
        "for y in t.guarded(p, k, x, w): assert (y == t.deconvolved(p, x, w)).all()\n"
    )
    here = Path(__file__).resolve()
    folders = [str(folder) for folder in here.parents[:3]]  # of this file, tests, the checkout
    paths = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    more = {"NUMBA_CPU_NAME": name, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", code], env=os.environ | more, check=True)


@pytest.mark.parametrize("mode", [GAPS, ROWS, NEAR, APART])
def test_images_that_follow_one_another_do_not_see_inputs_that_are_cut_off(mode: str) -> None:
    problem = ConvProblem((2, 2, 11), 2, 1, (4,), (2,), (2,), (4,), (5,))
    x, w = integers(problem, 0)
    cut = deconvolution_direct._cut(problem, mode, 1)
    assert max(block.count for block in cut.blocks) == 2
    require_exact(problem, cut, x, w, deconvolved(problem, x, w))


# Stacks of products by the micro-kernel, and the Winograd kernels that are made of them.


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
        assert (planes[:, : rows * columns] == np.matmul(w, seen).reshape(stack, -1)).all()
        planes[:, : rows * columns] = np.nan
        assert np.isnan(out).all()


@pytest.mark.parametrize("small", [False, True])
@np.errstate(all="ignore")  # as the engine does
def test_tiles_are_computed_by_several_teams_at_once(small: bool, monkeypatch: Patch) -> None:
    """Their places are given with each call, also where threads of one team share blocks."""
    if small:
        monkeypatch.setattr(blocking, "SIZES", replace(SMALL, evaluated_bytes=20_000))
    problem = ConvProblem((2, 6, 20, 17), 10, 2, (4, 4), (2, 2), (1, 1), (1, 0), (40, 35))
    x, w = integers(problem, 0)
    want = deconvolved(problem, x, w)
    for candidate in deconvolution_winograd.candidates(problem):
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
    lanes: int, size: int, monkeypatch: Patch
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
