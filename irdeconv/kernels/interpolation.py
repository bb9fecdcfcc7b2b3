"""Interpolation prepared for exact sizes; the coordinates and weights are those of interpolate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.kernels.interpolate import (
    Resize,
    Rules,
    Weights,
    apply_weights,
    dense_matrix,
    nearest_of,
    pays_dense,
    weights,
)
from irdeconv.kernels.moves import Nearest, take
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array


@dataclass(frozen=True)
class Pass:
    """One axis: its weights and, where a product costs least, their dense matrix `[O, I]`."""

    axis: int
    weights: Weights
    dense: Array | None


class Interpolation:
    """Resizes the given axes of f32 or f64 tensors of one shape (`nearest`: of any type)."""

    def __init__(
        self, shape: Sequence[int], dtype: Any, resizes: Sequence[Resize], rules: Rules
    ) -> None:
        self.nearest: Nearest | None = None
        self.passes: list[Pass] = []
        if rules.mode == "nearest":
            found = [(r.axis, nearest_of(r, shape[r.axis], rules)) for r in resizes]
            self.nearest = Nearest.of(shape, found)
            return
        rules = replace(rules, antialias=rules.antialias and any(r.scale < 1 for r in resizes))
        for r in sorted(resizes, key=lambda r: r.size / shape[r.axis]):
            size = shape[r.axis]
            if r.size == size and r.scale == 1:
                continue
            matrix = weights(r, size, rules)
            pays = pays_dense(size, matrix, last=r.axis == len(shape) - 1)
            self.passes.append(
                Pass(r.axis, matrix, dense_matrix(matrix, size, dtype) if pays else None)
            )

    def __call__(self, x: Array, out: Array, team: Team) -> None:
        """Write the resized `x` into `out` (C-contiguous)."""
        if self.nearest is not None:
            self.nearest(x, out, team)
            return
        # A dense product spreads an Inf or NaN over its row, a weight of 0 makes a NaN of it.
        finite = bool(np.isfinite(np.add.reduce(x, axis=None)))
        team.begin()
        for n, one in enumerate(self.passes):
            count = len(one.weights.index)
            shape = (*x.shape[: one.axis], count, *x.shape[one.axis + 1 :])
            last = n == len(self.passes) - 1
            y = out if last else team.space.array(shape, x.dtype)
            if not finite:
                y[...] = apply_weights(x, one.weights, one.axis)
            elif one.dense is not None:
                _product(x, one.dense, one.axis, y)
            else:
                _gather(x, one, y, team)
            x = y
        if not self.passes:
            np.copyto(out, x)


def _product(x: Array, matrix: Array, axis: int, out: Array) -> None:
    count, size = matrix.shape
    if axis == x.ndim - 1:
        np.matmul(x.reshape(-1, size), matrix.T, out=out.reshape(-1, count))
        return
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    np.matmul(matrix, x.reshape(outer, size, inner), out=out.reshape(outer, count, inner))


def _gather(x: Array, one: Pass, out: Array, team: Team) -> None:
    """Add the weighted neighbours of all positions, one tap after the other."""
    behind = (1,) * (x.ndim - one.axis - 1)
    taps = one.weights.index.shape[1]
    part = team.space.array(out.shape, x.dtype) if taps > 1 else out
    for t in range(taps):
        y = part if t else out
        take(x, one.weights.index[:, t], one.axis, y)
        factor = one.weights.weight[:, t].astype(x.dtype).reshape(-1, *behind)
        np.multiply(y, factor, out=y)
        if t:
            np.add(out, y, out=out)
