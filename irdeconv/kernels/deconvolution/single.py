"""Deconvolution of inputs with a single position, as generators begin with: one matrix product.

Each output meets at most one tap, so `[N, C] @ [C, M * taps]` holds the outputs in their own
layout. Where some outputs meet none, the others are placed among zeros.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from irdeconv.kernels.compiled.recorded import Recorded, Repeated, in_turn
from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.shared import blocking, jit
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Fix
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import multiply, product_cost
from irdeconv.kernels.shared.rates import relative
from irdeconv.kernels.shared.scratch import ALIGNMENT, Space, clear
from irdeconv.kernels.shared.team import Team
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array

MOST_IMAGES = 4  # for which the filter is read anew
PLACED, ZERO = 1.0, 0.1  # ns per element that is placed, and per zero that is written


class _Single:
    """The kernel: `filters[i]` is `[C/g, channels * taps that land]`."""

    def __init__(self, problem: ConvProblem, w: Array) -> None:
        axes, m = geo.axes_of(problem), problem.group_outputs
        landing = [_landing(a) for a in axes]
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
        """See Kernel."""
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
            work = [
                Recorded.of("row_products", x[None], w, tile.reshape(1, -1)) for x, tile in given
            ]
            done = [
                finish(tile, image, some, slice(0, tile.shape[1]))
                for image, tile in enumerate(tiles)
            ]
            pieces.append(in_turn([*work, *done]))
        return Repeated(tuple(pieces))

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
    """Return how many output channels are multiplied at a time."""
    return max(1, blocking.SIZES.single_elements // (c * max(1, taps)))


def _landing(axis: geo.DeconvAxis) -> tuple[slice, slice]:
    """Return the taps of an axis that land in the output, and where."""
    first = max(0, -(-axis.begin // axis.dilation))
    stop = min(axis.kernel, (axis.size - 1 + axis.begin) // axis.dilation + 1)
    stop = max(first, stop)
    at = first * axis.dilation - axis.begin
    return slice(first, stop), slice(at, at + (stop - first - 1) * axis.dilation + 1, axis.dilation)


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, where the input has a single position and some tap lands."""
    landing = [_landing(a)[0] for a in geo.axes_of(problem)]
    taps = math.prod(s.stop - s.start for s in landing)
    if problem.positions != 1 or not taps:
        return []
    n, c, m = problem.shape[0], problem.group_inputs, problem.group_outputs
    columns, plane = m * taps, math.prod(problem.sizes)
    chunks = max(1, c * columns // blocking.SIZES.single_elements)
    now = relative()
    cost = 0.06 * now.copy * c * columns + 1000 * now.call
    if n > 1:
        cost = chunks * product_cost(n, c, columns // chunks)
    if taps != plane:
        cost += n * m * (PLACED * now.strided * taps + ZERO * now.copy * plane)
    tile = taps * (taps != plane) + plane * problem.narrow
    elements = problem.groups * c * columns + n * min(m, _channels(c, taps)) * tile
    elements += n * problem.shape[1] * problem.narrow
    scratch = elements * problem.itemsize + 3 * ALIGNMENT
    return [
        Candidate(
            name="single",
            cost=problem.groups * cost + 2000 * now.call,
            scratch=scratch,
            prepare=partial(_Single, problem),
            items=problem.groups * -(-m // _channels(c, taps)),
        )
    ]
