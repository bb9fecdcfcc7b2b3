"""Depthwise deconvolution by filters of rank 1 (bilinear upsampling): a dense product per axis.

A filter w[i, j] = a[i] * b[j] deconvolves the rows, then the columns, each by a product with the
matrix A[o, s] = a[k] where o + begin = s*S + k*D. The matrices are mostly zeros, but small. Inf and
NaN of the input spread along the axes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.candidate import ROUNDING_NS, Candidate, Epilogue, Kernel, deliver
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import call_cost
from irdeconv.kernels.shared.rates import relative
from irdeconv.kernels.shared.scratch import ALIGNMENT, Space
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array


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


def _matrix(taps: Array, axis: geo.DeconvAxis) -> Array:
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
        axes = geo.axes_of(problem)
        self.problem = problem
        self.why = f"filters of rank 1, estimated {_cost(problem) / 1e3:.0f} us"
        self.rows = _matrix(parts[0].astype(dtype), axes[0])
        columns = _matrix(parts[1].astype(dtype), axes[1])
        self.columns = np.ascontiguousarray(columns.swapaxes(1, 2))

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
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
    """Wrap a candidate: filters of rank 1 are multiplied axis by axis where that costs less."""
    cost = _cost(problem)
    if cost + ROUNDING_NS >= candidate.cost:
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
    """Return how many output channels are computed at a time: those of some groups."""
    per = problem.group_outputs
    plane = math.prod(problem.sizes) * problem.itemsize
    return max(1, blocking.SIZES.separable_bytes // plane // per) * per


def _cost(problem: ConvProblem) -> float:
    """Estimate the nanoseconds; infinite where it does not apply."""
    if problem.rank != 2 or problem.shape[1] != problem.groups:
        return math.inf
    (i0, i1), (o0, o1) = problem.shape[2:], problem.sizes
    now, call = relative(), call_cost()
    one = 0.0115 * now.product * (o0 * i0 * i1 + o0 * i1 * o1)
    one += 0.135 * now.copy * (i0 * i1 + o0 * i1 + o0 * o1)
    return problem.shape[0] * problem.outputs * (one + 0.3 * call) + 4 * call
