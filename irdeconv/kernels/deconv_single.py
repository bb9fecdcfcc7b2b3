"""Deconvolution of inputs with a single position, as generators begin with: one matrix product.

Each output meets at most one tap, so `[N, C] @ [C, M * outputs]` is the result, in its own layout.
"""

from __future__ import annotations

import math

import numpy as np

from irdeconv.kernels import residues as geo
from irdeconv.kernels.prepared import Candidate, Epilogue, Kernel, Windows
from irdeconv.kernels.products import multiply, product_cost
from irdeconv.kernels.team import Space, Team
from irdeconv.spec import Array

CHUNK = 1 << 19  # elements of the filter that one thread multiplies at a time


class _Single:
    """The kernel: `filters[i]` is `[C/g, channels * outputs]`, zero where no tap lands."""

    def __init__(self, windows: Windows, w: Array) -> None:
        m, plane = windows.outputs // windows.groups, math.prod(windows.sizes)
        landing = np.zeros((*w.shape[:3], *windows.sizes), w.dtype)
        taps, places = zip(*(_landing(a) for a in geo.axes_of(windows)), strict=True)
        landing[(..., *np.ix_(*places))] = w[(..., *np.ix_(*taps))]
        step = max(1, CHUNK // (w.shape[1] * plane))
        self.cuts = [
            (g, slice(i, min(i + step, m)))
            for g in range(windows.groups)
            for i in range(0, m, step)
        ]
        self.filters = [
            np.ascontiguousarray(landing[g, :, c]).reshape(w.shape[1], -1) for g, c in self.cuts
        ]
        self.sizes = w.shape[1], m, plane

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        c, m, plane = self.sizes
        narrow = x.dtype != self.filters[0].dtype
        data, y = x.reshape(len(x), -1), out.reshape(len(out), -1)
        if narrow:
            data = team.space.array(data.shape, self.filters[0].dtype)
            data[...] = x.reshape(data.shape)

        def work(index: int, space: Space) -> None:
            (group, channels), w = self.cuts[index], self.filters[index]
            first = (group * m + channels.start) * plane
            part, into = data[:, group * c : (group + 1) * c], y[:, first : first + w.shape[1]]
            sums = space.array(into.shape, w.dtype) if narrow else into
            multiply(part, w, sums)
            if epilogue is not None:
                some = slice(group * m + channels.start, group * m + channels.stop)
                for image, row in enumerate(sums):
                    epilogue(row.reshape(-1, plane), image, some, slice(0, plane))
            if narrow:
                into[...] = sums

        team.each(range(len(self.cuts)), work)


def _landing(axis: geo.Axis) -> tuple[list[int], list[int]]:
    """Return the taps of an axis that land in the output, and where."""
    found = [(k, k * axis.dilation - axis.begin) for k in range(axis.kernel)]
    inside = [(k, o) for k, o in found if 0 <= o < axis.size]
    return [k for k, _ in inside], [o for _, o in inside]


def single_candidates(windows: Windows) -> list[Candidate]:
    """Return the kernel, where the input has a single position."""
    if windows.positions != 1:
        return []
    c, plane = windows.shape[1] // windows.groups, math.prod(windows.sizes)
    columns = windows.outputs // windows.groups * plane
    pieces = max(1, c * columns // CHUNK)
    n = windows.shape[0]
    cost = pieces * product_cost(n, c, columns // pieces) if n > 1 else 0.06 * c * columns + 1000
    size = windows.groups * c * columns

    def prepare(w: Array) -> Kernel:
        return _Single(windows, w)

    return [Candidate("single", windows.groups * cost + 2000, size * windows.itemsize, prepare)]
