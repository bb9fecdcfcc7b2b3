"""Which kernels can compute a convolution, and what each is expected to cost."""

from __future__ import annotations

import numpy as np

from irdeconv.kernels.columns import Columns, Shifted, row_taps
from irdeconv.kernels.pointwise import Pointwise
from irdeconv.kernels.prepared import Candidate, Epilogue, Kernel, Windows, finish
from irdeconv.kernels.team import Team
from irdeconv.kernels.volume import Volume, volume
from irdeconv.spec import Array


def convolution_candidates(windows: Windows) -> list[Candidate]:
    """Return the kernels for a convolution of a float type, the cheapest first; at least one.

    1 to 3 spatial axes, any pads; whatever has size 0 is zero.
    """
    w = windows
    if 0 in w.shape or 0 in w.out_shape or 0 in w.kernel:
        return [Candidate("zero", 0.0, 0, lambda _: _zero)]
    v = volume(w)
    found = [Candidate("columns", 1.0, 0, lambda w: columns(v, w))]
    if v.plain:
        found.append(Candidate("pointwise", 0.5, 0, lambda w: pointwise(v, w)))
    if v.axes[1].kernel > 1:
        found.append(Candidate("shifted", 2, 0, lambda w: shifted(v, w, False)))
        found.append(Candidate("stacked", 3, 0, lambda w: shifted(v, w, True)))
    return sorted(found, key=lambda c: c.cost)


def _zero(x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
    out[...] = 0
    if out.size:
        finish(out, epilogue, team)


def pointwise(v: Volume, w: Array) -> Kernel:
    return Pointwise(v, v.filter(w).reshape(v.groups, v.outputs, v.channels))


def columns(v: Volume, w: Array) -> Kernel:
    f = v.filter(w).swapaxes(-1, -2)
    return Columns(v, f.reshape(v.groups, v.outputs, -1))


def shifted(v: Volume, w: Array, stacked: bool) -> Kernel:
    f = np.moveaxis(v.filter(w), 4, 0)  # [row, g, M/g, C/g, depth, column]
    parts = [np.ascontiguousarray(f[t.cut]).reshape(t.count, *f.shape[1:3], -1) for t in row_taps(v)]
    return Shifted(v, parts, stacked)
