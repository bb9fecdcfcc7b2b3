"""How the compiled deconvolution kernels are cut, and that they keep to their memory."""

import ctypes
import itertools
import math
import mmap
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import deconvolution_direct, deconvolution_phases, deconvolution_winograd, jit
from irdeconv.kernels.candidate import Candidate, ConvProblem, FixedKernel, every_cut
from irdeconv.kernels.deconvolution import split_output
from irdeconv.kernels.deconvolution_col2im import LANES, AxisTerms, BlockTerms
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.scratch import ALIGNMENT, Space
from irdeconv.kernels.threads import Threads
from support.kernels import deconvolved, every_kernel, outputs_of_teams
from support.memory import peak_of
from support.rows import each_row, parts
from test_deconvolution_candidates import bound, data, draw, require_exact

pytestmark = pytest.mark.thorough

needs_numba = pytest.mark.skipif(not jit.available(), reason="needs numba")
linux = pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")


def wide(seed: int) -> ConvProblem:
    """Draw a layer with rows of vectors, also ones where taps land far from each other."""
    r = random.Random(seed)
    problem = draw(seed, r.choice(["float32", "float64", "float16"]))
    last = r.choice([8, 16, 19, 33])
    strides = (*problem.strides[:-1], r.choice([1, 2, 3, 9]))
    dilations = (*problem.dilations[:-1], r.choice([1, 2, last]))
    span = strides[-1] * last + dilations[-1] * problem.kernel[-1]
    sizes = (*(max(1, o) for o in problem.sizes[:-1]), r.randint(1, span + 9))
    shape = (*problem.shape[:-1], last)
    return replace(problem, shape=shape, strides=strides, dilations=dilations, sizes=sizes)


@each_row("seed", range(60))
def test_kinds_of_blocks_are_those_that_there_are(seed: int) -> None:
    problem = wide(seed)
    for limit in (1, 7, 40, 300):
        cut = split_output(problem, limit)
        want: dict[Any, int] = {}
        for block in cut:
            key = block.count, tuple(p.kind for p in block.parts)
            want[key] = want.get(key, 0) + 1
        got = {(b.count, tuple(p.kind for p in b.parts)): times for b, times in cut.kinds}
        assert got == want
        assert len(cut) == len(list(cut)) == sum(want.values())


def test_blocks_are_few_where_a_filter_is_very_long() -> None:
    problem = ConvProblem((1, 1, 8), 1, 1, (10**6,), (1,), (1,), (0,), (10**6 + 7,))
    assert all(len(split_output(problem, limit)) < 10 for limit in (1, 4096, 10**6 - 1))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_costs_of_large_layers_need_no_list_of_blocks(rank: int) -> None:
    size = {1: 10**7, 2: 4096, 3: 256}[rank]
    lists = ((4,) * rank, (2,) * rank, (1,) * rank, (1,) * rank, (2 * size,) * rank)
    problem = ConvProblem((256, 8, *(size,) * rank), 8, 1, *lists)
    for_deconvolution(problem)  # imports what it needs
    assert peak_of(lambda: for_deconvolution(problem))[1] < 1 << 20


def line_of(
    r: random.Random, k: int, stride: int, dilation: int, outputs: int, n: int
) -> AxisTerms:
    """Draw taps that are evenly spaced, or any."""
    at = r.randint(-9, 9)
    landings = [at + i * dilation for i in range(k)]
    limits = [n] * k
    if r.random() < 0.5:
        landings = [r.randint(-9, 20) for _ in landings]
        limits = [r.randint(0, n) for _ in limits]
    return AxisTerms(stride, outputs, n, tuple(landings), tuple(limits))


@each_row("seed", range(120))
def test_terms_are_those_of_the_definition(seed: int) -> None:
    r = random.Random(seed)
    draws = [[r.randint(1, n) for n in (4, 4, 3, 9, 5)] for _ in range(r.choice([1, 2, 3]))]
    draws[-1][3] = r.randint(1, 70)
    lines = [line_of(r, *v) for v in draws]
    terms = BlockTerms.of(lines, [line.outputs + 2 for line in lines])

    def reached(line: AxisTerms, t: int) -> list[tuple[int, int]]:
        found = [(k, *divmod(t - at, line.stride)) for k, at in enumerate(line.landings)]
        return [(k, s) for k, s, rest in found if not rest and 0 <= s < line.limits[k]]

    *outer, last = lines
    for row, at in enumerate(itertools.product(*(range(line.outputs) for line in outer))):
        want, to = [], 0
        for found in itertools.product(*(reached(v, t) for v, t in zip(outer, at, strict=True))):
            tap = place = 0
            for (k, s), line in zip(found, outer, strict=True):
                tap, place = tap * line.kernel + k, place * line.inputs + s
            want.append((tap * last.kernel, place * last.inputs))
        for t, line in zip((*at, 0), lines, strict=True):
            to = to * (line.outputs + 2) + t
        span = slice(terms.first_pair[row], terms.first_pair[row + 1])
        assert [*zip(terms.pair_taps[span], terms.pair_inputs[span], strict=True)] == want
        assert terms.row_starts[row] == to
    sums: list[list[tuple[int, int]]] = [[] for _ in range(last.outputs)]
    vectors = [
        (f, v)
        for f in range(last.stride)
        for v in range(0, last.outputs, LANES * last.stride)
        if f + v < last.outputs
    ]
    for i, (f, v) in enumerate(vectors):
        for e in range(terms.first_entry[i], terms.first_entry[i + 1]):
            tap, start, low, high = (int(column[e]) for column in terms.entries)
            for lane in range(low, high):
                sums[f + v + lane * last.stride].append((tap, start + lane))
    assert sums == [reached(last, t) for t in range(last.outputs)]


@needs_numba
def test_halves_of_a_row_meet_different_taps() -> None:
    """Each output is one term, but the first half of the row meets another tap than the rest."""
    require_exact(ConvProblem((2, 3, 8), 2, 1, (2,), (1,), (8,), (0,), (16,)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@np.errstate(all="ignore")  # as the engine does
def test_bad_inputs_of_a_single_position_stay_where_taps_land(dtype: str) -> None:
    problem = ConvProblem((2, 3, 1, 1), 2, 1, (3, 2), (1, 1), (2, 3), (1, 0), (7, 5), dtype)
    x, w = data(problem)
    x[1, 1] = np.nan
    [candidate] = deconvolution_phases.single_candidates(problem)
    y, team = np.full(problem.out_shape, 7, dtype), Threads(1)
    candidate.prepare(w.astype(np.float32))(x, y, None, team)
    bad = np.isnan(y)
    assert not bad[0].any()
    assert bad[1, :, 1:4:2, 0:4:3].all()
    assert bad.sum() == 2 * 2 * 2
    assert (y[0] == deconvolved(problem, x, w)[0]).all()


class Guarded(Space):
    """Hands out NaNs that end, or begin, where memory ends that may be touched at all."""

    def __init__(self, behind: bool) -> None:
        super().__init__()
        self.behind = behind
        self.kept: list[Any] = []

    def array(self, shape: Any, dtype: Any) -> Any:
        kind, page = np.dtype(dtype), mmap.PAGESIZE
        size = math.prod(shape) * kind.itemsize
        pages = max(1, -(-size // page))
        memory = mmap.mmap(-1, (pages + 2) * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        protect = ctypes.CDLL(None).mprotect
        for at in (start, start + (pages + 1) * page):
            assert protect(ctypes.c_void_p(at), ctypes.c_size_t(page), 0) == 0
        self.kept.append(memory)
        offset = page + (pages * page - size if self.behind else 0)
        found = np.frombuffer(memory, np.uint8, size, offset)
        found[...] = 255
        return found.view(kind).reshape(shape)


class GuardedTeam(Threads):
    def __init__(self, behind: bool) -> None:
        super().__init__(1)
        self.space, self._spaces = Guarded(behind), [Guarded(behind)]


def guarded(problem: ConvProblem, candidate: Candidate, x: Any, w: Any) -> Iterator[Any]:
    """Yield results of a kernel that may touch nothing behind its arrays, or before them."""
    kernel = candidate.prepare(w.astype(problem.compute))
    for behind in (False, True):
        team = GuardedTeam(behind)
        source = team.space.array(problem.shape, problem.dtype)
        source[...] = x
        for _ in range(2):  # what is done again may be prepared
            y = team.space.array(problem.out_shape, problem.dtype)
            kernel(source, y, None, team)
            yield y
        y = team.space.array(problem.out_shape, problem.dtype)
        prepared = isinstance(kernel, FixedKernel) and kernel.fixed(source, y, nothing)
        if prepared:
            prepared(team)
            yield y


def nothing(tile: Any, image: int, channels: slice, positions: slice) -> None:
    """Finish nothing. A Fix."""


@needs_numba
@linux
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", ["float32", "float64"])  # each has products of its own
@pytest.mark.parametrize("seed", range(40))
@np.errstate(all="ignore")  # as the engine does
def test_tiles_touch_nothing_outside(seed: int, dtype: str) -> None:
    problem = replace(wide(seed), dtype=dtype)
    x, w = data(problem, seed)
    want = deconvolved(problem, x, w)
    for candidate in deconvolution_winograd.candidates(problem):
        limit = bound(problem, candidate, x, w)
        for y in guarded(problem, candidate, x, w):
            assert (np.abs(y - want) <= limit).all(), candidate.name


@needs_numba
@pytest.mark.usefixtures("small_blocks")
def test_some_of_these_layers_have_tiles() -> None:
    problems = [replace(wide(seed), dtype="float64") for seed in range(40)]
    assert sum(bool(deconvolution_winograd.candidates(p)) for p in problems) > 5


@pytest.mark.sampled(3)
@needs_numba
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", parts(10, range(40, 70)))
@np.errstate(all="ignore")  # as the engine does
def test_bad_inputs_stay_where_their_terms_land_and_scratch_is_counted(seed: int) -> None:
    problem = replace(wide(seed), dtype="float16" if seed % 3 == 0 else "float32")
    x, w = data(problem, seed)
    want = deconvolved(problem, x, w).astype(problem.dtype)
    bad = np.zeros(problem.shape, bool)
    bad[..., np.random.default_rng(seed).integers(problem.shape[-1])] = True
    reached = deconvolved(problem, bad.astype("f4"), np.ones_like(w)) > 0
    x[bad] = np.inf if seed % 2 else np.nan
    for candidate in every_cut(deconvolution_direct.candidates(problem)):
        kernel, team = candidate.prepare(w.astype(problem.compute)), Threads(1)
        for _ in range(2):
            y = np.full(problem.out_shape, np.nan, problem.dtype)
            team.begin()
            kernel(x, y, None, team)
            assert ((y == want) | reached).all(), candidate.name
        assert team.peak <= candidate.scratch, candidate.name


@needs_numba
@pytest.mark.usefixtures("small_blocks")
def test_a_kernel_is_run_by_several_teams_at_once() -> None:
    problem = ConvProblem((2, 4, 20, 17), 6, 2, (4, 3), (2, 2), (1, 1), (1, 0), (40, 35))
    x, w = data(problem)
    want = deconvolved(problem, x, w)
    for candidate in every_cut(deconvolution_direct.candidates(problem)):
        outs = outputs_of_teams(candidate.prepare(w), x, problem.out_shape, 1)
        assert all((y == want).all() for y in outs), candidate.name


@pytest.mark.parametrize(
    "problem",
    [
        ConvProblem((5, 2, 1, 4), 14, 2, (5, 2), (1, 1), (3, 1), (0, 4), (13, 1), "float64"),
        ConvProblem((2, 21, 6, 9), 9, 3, (6, 2), (1, 1), (3, 1), (0, 0), (18, 10)),
        ConvProblem((3, 1, 1, 13), 2, 1, (2, 3), (1, 3), (5, 1), (-3, 0), (12, 39)),
        ConvProblem((1, 512, 16, 16), 1, 1, (4, 4), (2, 2), (1, 1), (1, 1), (32, 32)),
        ConvProblem((1, 16, 4, 6000), 1, 1, (4, 4), (2, 2), (1, 1), (1, 1), (8, 12000), "float16"),
        ConvProblem((1, 8, 64, 64), 16, 1, (3, 3), (1, 1), (2, 2), (2, 2), (64, 64)),
    ],
)
@np.errstate(all="ignore")  # as the engine does
def test_thin_and_dilated_layers_declare_their_scratch(problem: ConvProblem) -> None:
    x, w = data(problem)
    x, own = np.ascontiguousarray(x, problem.dtype), np.ascontiguousarray(w, problem.compute)
    pairs = [(c, own) for c in every_kernel(for_deconvolution, problem)]
    pairs += [
        (c, np.ascontiguousarray(own.swapaxes(1, 2)))
        for c in every_kernel(for_convolution, problem)
    ]
    for candidate, filters in pairs:
        team, y = Threads(1), np.empty(problem.out_shape, problem.dtype)
        candidate.prepare(filters)(x, y, None, team)
        rounded = candidate.scratch + 4 * ALIGNMENT
        assert team.peak <= rounded, candidate.name


BATCHES = [  # N, C, positions, M, groups, taps, stride
    (32, 32768, 100, 16, 16, 4, 2),
    (256, 4096, 100, 2, 2, 4, 2),
    (10_000, 2048, 16, 8, 1, 4, 2),
    (256, 16, 100, 1024, 16, 8, 8),
]


@needs_numba
@pytest.mark.parametrize("row", BATCHES)
def test_copies_of_batches_stay_small(row: tuple[int, ...]) -> None:
    n, c, positions, m, groups, taps, stride = row
    lists = (taps,), (stride,), (1,), (0,), (stride * positions,)
    problem = ConvProblem((n, c, positions), m, groups, *lists)
    for candidate in deconvolution_direct.candidates(problem):
        assert candidate.scratch - 4 * c * m // groups * taps < 16 << 20, candidate.name


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("outputs", [1, 16])
@np.errstate(all="ignore")  # as the engine does
def test_scratch_of_separable_filters_is_counted(dtype: str, outputs: int) -> None:
    lists = (16, 16), (2, 2), (1, 1), (0, 0), (64, 128)
    problem = ConvProblem((1, 1, 32, 64), outputs, 1, *lists, dtype)
    x, w = np.ones(problem.shape, dtype), np.ones((1, 1, outputs, 16, 16), dtype)
    names = []
    for candidate in every_kernel(for_deconvolution, problem):
        kernel, team = candidate.prepare(w), Threads(1)
        names.append(getattr(kernel, "name", candidate.name))
        team.begin()
        kernel(x, np.empty(problem.out_shape, dtype), None, team)
        assert team.peak <= candidate.scratch, candidate.name
    assert "separable" in names


# Zero-extended frames that compiled code fills, in guarded memory.


def frame_of(x: Any, shape: tuple[int, ...], axes: Any) -> Any:
    """Return `[C, *phases, *rest]` by the definition: position h*S + p - begin, or zero."""
    out = np.zeros((len(x), *shape), np.float32)
    for at in np.ndindex(*shape):
        rows = zip(at, at[3:], axes, strict=False)
        place = [rest * stride + phase - begin for phase, rest, (stride, begin) in rows]
        if all(0 <= i < n for i, n in zip(place, x.shape[1:], strict=True)):
            out[(slice(None), *at)] = x[(slice(None), *place)]
    return out


@needs_numba
@linux
@pytest.mark.parametrize("seed", parts(50, 120))
def test_a_frame_holds_the_planes_and_zeros_around_them(seed: int) -> None:
    from irdeconv.kernels import compiled_convolution

    r = random.Random(seed)
    width = r.choice([1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 19, 23, 31, 32, 33, 40])
    sizes = r.choice([1, 1, 2]), r.randint(1, 4), width
    strides = (1, 1, 1) if seed % 2 else (r.choice([1, 2]), r.choice([1, 2]), r.choice([1, 2, 3]))
    axes = tuple((s, r.choice([0, 0, 1, 2, -1, 20])) for s in strides)
    rest = [-(-(n + b) // s) + r.randint(0, 2) for n, (s, b) in zip(sizes, axes, strict=True)]
    shape = *strides, *(max(1, n) for n in rest)
    channels, first = r.randint(1, 3), r.choice([0, 0, 5])
    size, room = int(np.prod(shape)), jit.lanes()
    for behind in (False, True):
        space = Guarded(behind)
        x = space.array((channels, *sizes), np.float32)
        x[...] = np.arange(1, x.size + 1).reshape(x.shape)
        frames = space.array((channels, first + size + room), np.float32)
        compiled_convolution.fill_all(x, frames, first, shape, axes)
        found = frames[:, first : first + size].reshape(channels, *shape)
        np.testing.assert_array_equal(found, frame_of(x, shape, axes))
        assert np.isnan(frames[:, :first]).all()
