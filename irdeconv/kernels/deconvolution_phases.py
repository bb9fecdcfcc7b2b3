"""Deconvolution by phases, of single positions, and by separable filters.

Phases: every residue of the output is a convolution of stride 1. All residues read the same shifts
of the input, so they share one buffer of shifted copies (each a flat run of zero-padded planes).
Residues with equally many taps share one product `[residues*M, taps*C] @ [taps*C, block]`.

Single positions, as at the begin of generators: each output meets at most one tap, so `[N, C] @ [C,
M * taps]` holds the outputs in their layout, with zeros between them if taps are missing.

Separable: a depthwise filter w[i, j] = a[i] * b[j] deconvolves the rows, then the columns, each by
a product with the matrix A[o, s] = a[k] at o + begin = s*S + k*D. Inf and NaN spread along axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import deconvolution, jit, machine
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import (
    ROUNDING_NS,
    SHARES,
    Candidate,
    ConvProblem,
    Epilogue,
    Fix,
    Kernel,
    deliver,
    reads,
    shared,
    trailing,
)
from irdeconv.kernels.deconvolution import (
    Blocking,
    OutputBlock,
    close_tile,
    lead_columns,
    open_tile,
    pad,
    put,
    split_output,
    tile_bytes,
)
from irdeconv.kernels.deconvolution_col2im import PHASES, Passes
from irdeconv.kernels.products import (
    CALL,
    lanes,
    matrix,
    multiply,
    pitch,
    product_cost,
    stack_cost,
)
from irdeconv.kernels.recorded_calls import Repeated, complete, in_turn, recorded_products
from irdeconv.kernels.scratch import ALIGNMENT, ITEMS, Space, clear, pieces, shares
from irdeconv.kernels.threads import Team

DEEP = 600  # rows of the copies
NEAR_STRIDE = 16  # outputs that are farther apart are written to a cache line each
Shift = tuple[int, ...]


@dataclass(frozen=True)
class _Family:
    """Residues with equally many taps: their numbers, and their shifts' places in the copies."""

    members: list[Shift]
    taps: list[Shift]
    start: int

    @cached_property
    def places(self) -> dict[Shift, int]:
        """The place of each residue among the members."""
        return {r: i for i, r in enumerate(self.members)}


def _families(axes: tuple[deconvolution.DeconvAxis, ...]) -> tuple[list[_Family], list[Shift]]:
    """Return the families and an order of the copies in which each finds its own side by side."""
    members: dict[Shift, list[Shift]] = {}
    for r in deconvolution.residues(axes):
        members.setdefault(tuple(a.counts[i] for a, i in zip(axes, r, strict=True)), []).append(r)
    order: list[Shift] = []
    families = []
    for counts in sorted(members, key=math.prod, reverse=True):
        wanted = set(np.ndindex(*counts))
        size = len(wanted)
        start = next(
            (i for i in range(len(order) - size + 1) if set(order[i : i + size]) == wanted), None
        )
        if start is None:
            start = len(order)
            order += _in_order(wanted, axes)
        families.append(_Family(members[counts], order[start : start + size], start))
    return families, order


def _in_order(wanted: set[Shift], axes: tuple[deconvolution.DeconvAxis, ...]) -> list[Shift]:
    """Order shifts so that those without the last one of an axis are adjacent (up to two axes)."""
    last = [a.counts[0] - 1 if a.counts[-1] < a.counts[0] else -1 for a in axes]

    def place(q: Shift) -> tuple[int, Shift]:
        outer = len(q) > 1 and q[0] == last[0]
        inner = q[-1] == last[-1]
        return (1 if not outer and not inner else 0 if not inner else 3 if outer else 2), q

    return sorted(wanted, key=place)


@dataclass(frozen=True)
class _PhasesLayout:
    """The parts of the work: blocks, some groups at a time, or some output channels of one."""

    problem: ConvProblem
    blocks: Blocking
    groups: int
    channels: int

    @property
    def chunks(self) -> list[tuple[slice, slice]]:
        """Slices of groups and, in each of them, of channels."""
        groups = pieces(self.problem.groups, self.groups)
        return list(itertools.product(groups, pieces(self.problem.group_outputs, self.channels)))


class _Phases:
    """The kernel: `filters[chunk][family]` is `[groups, residues * channels, taps * C/g]`."""

    def __init__(self, layout: _PhasesLayout, w: Array) -> None:
        self.problem, self.layout = layout.problem, layout
        self.axes = deconvolution.axes_of(layout.problem)
        self.families, self.order = _families(self.axes)
        self.filters = [
            [self._filter(w[groups, :, channels], f) for f in self.families]
            for groups, channels in layout.chunks
        ]
        self.c, self.m = w.shape[1:3]

    def _filter(self, w: Array, family: _Family) -> Array:
        g, c, m = w.shape[:3]
        f = np.empty((g, len(family.members), m, len(family.taps), c), w.dtype)
        for (i, r), (j, q) in itertools.product(enumerate(family.members), enumerate(family.taps)):
            k = tuple(a + b * axis.step for a, b, axis in zip(r, q, self.axes, strict=True))
            f[:, i, :, j] = trailing(w, k).swapaxes(1, 2)
        return f.reshape(g, len(family.members) * m, -1)

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        chunks = zip(self.layout.chunks, self.filters, strict=True)

        def work(item: tuple[OutputBlock, tuple[Any, list[Array]]], space: Space) -> None:
            block, ((groups, some), filters) = item
            first, last = groups.start * self.m, (groups.stop - 1) * self.m
            channels = slice(first + some.start, last + some.stop)
            tile = open_tile(out, block, channels, space)
            if not block.empty:
                copies = self._copies(x, block, groups, space)
                tiles = tile.reshape(tile.shape[0], len(copies), -1, *tile.shape[2:])
                for i in self._turns(block):
                    self._family(copies, self.families[i], filters[i], block, tiles, space)
            close_tile(tile, out, block, channels, epilogue)

        team.each(itertools.product(self.layout.blocks, chunks), work)

    def _turns(self, block: OutputBlock) -> list[int]:
        """Return the families by number, those first whose residues are written first."""
        turns = {r: i for i, r in enumerate(block.order)}
        last = [max(turns[r] for r in family.members) for family in self.families]
        return sorted(range(len(last)), key=last.__getitem__)

    def _copies(self, x: Array, block: OutputBlock, groups: slice, space: Space) -> Array:
        """Return `[groups, shifts, C/g, columns]`: the padded inputs, read some positions back."""
        g, c, filled = groups.stop - groups.start, self.c, block.columns
        width = _width(block)
        host = matrix(space, g * len(self.order) * c, width, self.problem.compute)
        copies = host.reshape(g, len(self.order), c, width)
        origin = self.order.index((0,) * len(self.axes))
        part = block.inputs(x[:, groups.start * c : groups.stop * c])
        part = part.reshape(part.shape[0], g, c, *part.shape[2:])
        base = copies[:, origin]
        base[..., filled:] = 0
        pad(part, block, base[..., :filled].reshape(g, c, block.count, *block.grid))
        for i, q in enumerate(self.order):
            if i != origin:
                offset = min(block.offset(q), width)
                copies[:, i, :, :offset] = 0
                copies[:, i, :, offset:] = base[..., : width - offset]
        return copies

    def _family(
        self,
        copies: Array,
        family: _Family,
        w: Array,
        block: OutputBlock,
        tiles: Array,
        space: Space,
    ) -> None:
        g, _, c, width = copies.shape
        skip = lead_columns(block)
        right = copies[:, family.start : family.start + len(family.taps), :, skip:]
        right = right.reshape(g, len(family.taps) * c, width - skip)
        # The columns before `skip` are only read by shifts; nothing is written from there.
        host = matrix(space, g * w.shape[1], width, copies.dtype).reshape(g, -1, width)
        multiply(w, right, host[:, :, skip:])
        planes = host[:, :, : block.columns]
        planes = planes.reshape(g, len(family.members), -1, block.count, *block.grid)
        planes = planes.transpose(1, 3, 0, 2, *range(4, planes.ndim))
        for r in block.order:
            if r in family.places:
                put(planes[family.places[r]], r, block, tiles)


def _width(block: OutputBlock) -> int:
    """Return the columns of the copies: products have a whole number of vectors."""
    skip = lead_columns(block)
    return skip + lanes(block.columns - skip)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel of exact phases."""
    return [shared(_candidate(layout) for layout in _layouts(problem))]


def _layouts(problem: ConvProblem) -> Iterator[_PhasesLayout]:
    """Yield ways to cut the work: blocks of the usual size, or of a part of it, and channels."""
    _, order = _families(deconvolution.axes_of(problem))
    g, m, size = problem.groups, problem.group_outputs, problem.itemsize
    rows = problem.group_inputs * len(order)
    room = blocking.SIZES.phases_bytes // size // rows
    if rows > DEEP:  # products that deep are packed, which pays from more columns on
        room *= 4
    if problem.narrow:  # a tile of sums is needed besides the residues
        sums = blocking.SIZES.phases_sums_bytes // size
        room = min(room, sums // (m * math.prod(problem.strides)))
    known: set[int] = set()
    for share in SHARES:
        limit = max(room // share, blocking.SIZES.phases_columns)
        blocks = split_output(problem, limit, overhead=2)
        if len(blocks) in known:
            continue
        known.add(len(blocks))
        together = blocking.SIZES.phases_bytes // size // rows // blocks.most(_width)
        together = shares(g, -(-g // max(1, min(g, together))))
        batches = len(blocks) * -(-g // together)
        yield _PhasesLayout(problem, blocks, together, m)
        if batches < ITEMS and together == 1 and m > 1:  # the inputs are copied for each half
            yield _PhasesLayout(problem, blocks, 1, shares(m, 2))


def _candidate(layout: _PhasesLayout) -> Candidate:
    problem, together = layout.problem, layout.groups
    families, order = _families(deconvolution.axes_of(problem))
    g, c, m = problem.groups, problem.group_inputs, layout.channels
    most, chunks = layout.blocks.most(_width), len(layout.chunks)
    apart = max(1.0, problem.strides[-1] / NEAR_STRIDE)
    work = Passes()
    for block, times in layout.blocks.kinds:
        width, row, skip = _width(block), max(1, block.grid[-1]), lead_columns(block)
        copied = chunks * together * c * width
        done = Passes(copied=copied * len(order), rows=copied / row, items=chunks)
        done.calls += chunks * len(order)
        for f in families:
            rows = len(f.members) * m
            done.product += chunks * stack_cost(together, rows, len(f.taps) * c, width - skip)
            done.written += chunks * together * rows * width * apart
            done.rows += chunks * together * rows * width / row
            done.calls += chunks * len(f.members)
        work.add(done, times)
        work.fill(block, problem.outputs, times)
    scratch = problem.itemsize * (
        pitch(most, problem.compute)
        * together
        * (c * len(order) + sum(len(f.members) for f in families) * m)
        + g * c * problem.group_outputs * problem.taps
    )
    scratch += tile_bytes(problem, layout.blocks, together * m)
    return work.candidate("phases", PHASES, scratch, partial(_Phases, layout))


MOST_IMAGES = 4  # for which the filter is read anew
PLACED, ZERO = 1.0, 0.1  # ns per element that is placed, and per zero that is written


class _Single:
    """The kernel: `filters[i]` is `[C/g, channels * taps that land]`."""

    def __init__(self, problem: ConvProblem, w: Array) -> None:
        axes, m = deconvolution.axes_of(problem), problem.group_outputs
        landing = [reads(a.size, a.dilation, -a.begin, a.kernel) for a in axes]
        w = trailing(w, (taps for taps, _ in landing))
        self.where = [places for _, places in landing]
        self.kernel = w.shape[3:]
        self.whole = self.kernel == problem.sizes
        step = _channels(w.shape[1], math.prod(self.kernel))
        self.cuts = [(g, some) for g in range(problem.groups) for some in pieces(m, step)]
        self.filters = [
            np.ascontiguousarray(w[g, :, c]).reshape(w.shape[1], -1) for g, c in self.cuts
        ]
        self.c, self.m = w.shape[1:3]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        dtype, data = self.filters[0].dtype, x.reshape(len(x), -1)
        if x.dtype != dtype:
            data = team.space.array(data.shape, dtype)
            data[...] = x.reshape(data.shape)

        def work(index: int, space: Space) -> None:
            (group, channels), w = self.cuts[index], self.filters[index]
            part = data[:, group * self.c : (group + 1) * self.c]
            some = slice(group * self.m + channels.start, group * self.m + channels.stop)
            into = out[:, some]
            tile = space.array(into.shape, dtype) if out.dtype != dtype else into
            self._sums(part, w, tile, space)
            if epilogue is not None:
                for image, rows in enumerate(tile.reshape(*tile.shape[:2], -1)):
                    epilogue(rows, image, some, slice(0, rows.shape[1]))
            if tile is not into:
                into[...] = tile

        team.each(range(len(self.cuts)), work)

    def fixed(self, x: Array, out: Array, finish: Fix) -> Repeated | None:
        """See `FixedKernel`; of few images, since products of matrices are faster for many."""
        suits = x.dtype == out.dtype == np.float32 and x.flags.c_contiguous and jit.available()
        if not (suits and self.whole and len(x) <= MOST_IMAGES and jit.works()):
            return None
        data = x.reshape(len(x), -1)
        pieces = []
        for (group, channels), w in zip(self.cuts, self.filters, strict=True):
            some = slice(group * self.m + channels.start, group * self.m + channels.stop)
            part = data[:, group * self.c : (group + 1) * self.c]
            tiles = [image.reshape(len(image), -1) for image in out[:, some]]
            given = zip(part, tiles, strict=True)
            work = [recorded_products(x[None], w, tile.reshape(1, -1)) for x, tile in given]
            done = [
                finish(tile, image, some, slice(0, tile.shape[1]))
                for image, tile in enumerate(tiles)
            ]
            products = complete(work)
            pieces.append(products and in_turn([products], *done))
        return Repeated.of(pieces)

    def _sums(self, x: Array, w: Array, tile: Array, space: Space) -> None:
        """Write the sums where they land in `tile [N, channels, *O]`, zeros elsewhere."""
        if self.whole:
            multiply(x, w, tile.reshape(len(x), -1, copy=False))
            return
        sums = space.array((len(x), w.shape[1]), w.dtype)
        multiply(x, w, sums)
        clear(tile)
        trailing(tile, self.where)[...] = sums.reshape(*tile.shape[:2], *self.kernel)


def _channels(c: int, taps: int) -> int:
    """Return the number of output channels that are multiplied at a time."""
    return max(1, blocking.SIZES.single_elements // (c * max(1, taps)))


def single_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, if the input has a single position and some tap lands."""
    axes = deconvolution.axes_of(problem)
    landing = (reads(a.size, a.dilation, -a.begin, a.kernel)[0] for a in axes)
    taps = math.prod(s.stop - s.start for s in landing)
    if problem.positions != 1 or not taps:
        return []
    n, c, m = problem.shape[0], problem.group_inputs, problem.group_outputs
    columns, plane = m * taps, math.prod(problem.sizes)
    chunks = max(1, c * columns // blocking.SIZES.single_elements)
    cost = 0.06 * c * columns + 1000
    if n > 1:
        cost = chunks * product_cost(n, c, columns // chunks)
    if taps != plane:
        cost += n * m * (PLACED * taps + ZERO * plane)
    tile = taps * (taps != plane) + plane * problem.narrow
    elements = problem.groups * c * columns + n * min(m, _channels(c, taps)) * tile
    elements += n * problem.shape[1] * problem.narrow
    return [
        Candidate(
            name="single",
            cost=problem.groups * cost + 2000,
            scratch=elements * problem.itemsize + 3 * ALIGNMENT,
            prepare=partial(_Single, problem),
            items=problem.groups * -(-m // _channels(c, taps)),
        )
    ]


def factors(w: Array) -> list[Array] | None:
    """Factorise filters `[channels, K0, K1]` of rank 1 as `[channels, K0]` and `[channels, K1]`.

    None unless the products reproduce every element to within one unit in its last place.
    """
    exact = w.astype(np.float64)
    if not np.isfinite(exact).all():
        return None
    channels = np.arange(len(w))
    peak = np.abs(exact).reshape(len(w), -1).argmax(1)
    i, j = np.unravel_index(peak, w.shape[1:])
    pivot = exact[channels, i, j]
    scale = np.where(pivot == 0, 1, pivot)[:, None]
    left, right = exact[channels, :, j], exact[channels, i] / scale
    close = np.abs(left[:, :, None] * right[:, None] - exact) <= np.spacing(np.abs(w))
    return [left, right] if close.all() else None


def _matrix(taps: Array, axis: deconvolution.DeconvAxis) -> Array:
    """Return `[channels, O, I]` of an axis for taps `[channels, K]`."""
    a = np.zeros((len(taps), axis.size, axis.inputs), taps.dtype)
    for k in range(axis.kernel):
        s = np.arange(axis.inputs)
        o = s * axis.stride + k * axis.dilation - axis.begin
        inside = (o >= 0) & (o < axis.size)
        a[:, o[inside], s[inside]] = taps[:, k, None]
    return a


class _Separable:
    """The kernel: `rows [M, O0, I0]` and `columns [M, I1, O1]`."""

    name = "separable"

    def __init__(
        self, problem: ConvProblem, parts: list[Array], dtype: np.dtype[np.generic]
    ) -> None:
        axes = deconvolution.axes_of(problem)
        self.problem = problem
        self.why = f"filters of rank 1, estimated {_cost(problem) / 1e3:.0f} us"
        self.rows = _matrix(parts[0].astype(dtype), axes[0])
        columns = _matrix(parts[1].astype(dtype), axes[1])
        self.columns = np.ascontiguousarray(columns.swapaxes(1, 2))

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        n, m, *sizes = out.shape
        per = m // self.problem.groups
        step = _step(self.problem)
        items = [(i, some) for i in range(n) for some in pieces(m, step)]

        def work(item: tuple[int, slice], space: Space) -> None:
            image, some = item
            part = x[image, some.start // per : some.stop // per]
            host = space.array((some.stop - some.start, *part.shape[1:]), self.rows.dtype)
            host.reshape(len(part), per, *part.shape[1:])[...] = part[:, None]
            between = space.array((len(host), sizes[0], part.shape[2]), host.dtype)
            np.matmul(self.rows[some], host, out=between)
            target = out[image, some].reshape(len(host), -1)
            tile = target if x.dtype == host.dtype else space.array(target.shape, host.dtype)
            np.matmul(between, self.columns[some], out=tile.reshape(len(host), *sizes))
            deliver(tile, target, epilogue, image, some, slice(0, target.shape[1]))

        team.each(items, work)


def separable(problem: ConvProblem, candidate: Candidate) -> Candidate:
    """Wrap a candidate: filters of rank 1 are multiplied axis by axis if that costs less."""
    if _cost(problem) + ROUNDING_NS >= candidate.cost:
        return candidate

    def prepare(w: Array) -> Kernel:
        taps = w.reshape(problem.outputs, *problem.kernel)
        parts = factors(taps)
        return candidate.prepare(w) if parts is None else _Separable(problem, parts, w.dtype)

    per = sum(o * i for o, i in zip(problem.sizes, problem.shape[2:], strict=True))
    block = problem.positions + problem.sizes[0] * problem.shape[3]
    if problem.narrow:
        block += math.prod(problem.sizes)
    elements = problem.outputs * per + min(problem.outputs, _step(problem)) * block
    scratch = elements * problem.itemsize + 3 * ALIGNMENT
    return replace(candidate, prepare=prepare, scratch=max(candidate.scratch, scratch))


def _step(problem: ConvProblem) -> int:
    """Return the number of output channels that are computed at a time: those of some groups."""
    per = problem.group_outputs
    plane = math.prod(problem.sizes) * problem.itemsize
    return max(1, blocking.SIZES.separable_bytes // plane // per) * per


def _cost(problem: ConvProblem) -> float:
    """Estimate the nanoseconds; infinite if it does not apply."""
    if problem.rank != 2 or problem.shape[1] != problem.groups:
        return math.inf
    (i0, i1), (o0, o1) = problem.shape[2:], problem.sizes
    one = 0.0115 * machine.product_time() * (o0 * i0 * i1 + o0 * i1 * o1)
    one += 0.135 * (i0 * i1 + o0 * i1 + o0 * o1)
    return problem.shape[0] * problem.outputs * (one + 0.3 * CALL) + 4 * CALL
