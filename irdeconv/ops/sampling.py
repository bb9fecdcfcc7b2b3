"""GridSample."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from irdeconv.errors import OpError
from irdeconv.kernels import sampling
from irdeconv.op import Op, op
from irdeconv.ops.checks import want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Dim, Spec, merge

WEIGHTS: dict[str, sampling.NeighbourWeights | None] = {
    "nearest": None,
    "bilinear": sampling.linear_weights,
    "bicubic": sampling.cubic_weights,
}


@op("GridSample", since=9)
class GridSample(Op):
    """Read an image at given places: data (N, C, H, W), grid (N, P, Q, 2) -> (N, C, P, Q).

    The grid holds (x, y) from -1 to 1: with `align_corners` these are the centres of the outer
    elements, otherwise their edges. Outside are zeros, the border element or a reflection. Any
    numbers; the grid is real.  [image/GridSample-9]
    """

    align_corners: bool = False
    mode: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros"

    def infer(self, data: Spec, grid: Spec) -> Spec:
        want_type(data, "number", 0, "data")
        want_type(grid, "real", 1, "grid")
        want_rank(data.shape, 4, 4, 0, "data")
        want_rank(grid.shape, 4, 4, 1, "grid")
        x, g = data.shape or (DYNAMIC,) * 4, grid.shape or (DYNAMIC,) * 4
        batch: Dim | None = merge(x[0], g[0])
        if batch is None:
            text = f"data has a batch of {x[0]}, the grid one of {g[0]}"
            raise OpError(text, code="E302", port=1)
        if merge(g[3], 2) is None:
            text = f"the grid's last axis has {g[3]} elements; it must have 2, x and y"
            raise OpError(text, code="E302", port=1)
        return Spec(data.dtype, (batch, x[1], g[1], g[2]))

    def evaluate(self, data: Array, grid: Array) -> Array:
        wide = np.result_type(data.dtype, np.float32) if data.dtype.kind not in "iu" else np.float64
        places = grid.astype(wide)
        height, width = data.shape[2:]
        if not height or not width:
            return self._of_nothing(data, grid)
        x = sampling.source(places[..., 0], width, align_corners=self.align_corners)
        y = sampling.source(places[..., 1], height, align_corners=self.align_corners)
        read = sampling.sample(data.astype(wide), y, x, WEIGHTS[self.mode], self._extend())
        return np.asarray(read.astype(data.dtype))

    def _of_nothing(self, data: Array, grid: Array) -> Array:
        shape = (*data.shape[:2], *grid.shape[1:3])
        if self.padding_mode != "zeros" and 0 not in shape:
            text = (
                f"the image has {data.shape[2]} x {data.shape[3]} elements; "
                f'padding_mode="{self.padding_mode}" needs one'
            )
            raise OpError(text, code="E302", port=0)
        return np.zeros(shape, data.dtype)

    def _extend(self) -> sampling.Extend:
        if self.padding_mode == "zeros":
            return None
        if self.padding_mode == "border":
            return sampling.bordered
        return partial(sampling.reflected, align_corners=self.align_corners)
