"""SliceScatter."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.checks import one_type
from irdeconv.ops.slicing import Slice
from irdeconv.spec import Array, Shape, Spec, compatible, format_shape
from irdeconv.traits import MOVES


@op("SliceScatter", since=15)
class SliceScatter(Op):
    """Replace start:stop:step of the given axes (of the first ones without `axes`) by `updates`.

    start, stop, step, axes: as of Slice; updates: the shape of that slice; data and updates: any
    type, one for both.  [movement/SliceScatter-15]
    """

    rounding = MOVES
    part: ClassVar[Slice] = Slice()

    def infer(
        self,
        data: Spec,
        updates: Spec,
        start: Spec,
        stop: Spec,
        step: Spec,
        axes: Spec | None = None,
    ) -> Spec:
        dtype = one_type(data, updates, names=("data", "updates"))
        lists = (start, stop, step) if axes is None else (start, stop, step, axes)
        try:
            replaced = self.part.infer(data, *lists)
        except OpError as e:  # Slice has its lists one port earlier
            port = e.problem.port
            shifted = replace(e.problem, port=port + 1) if port else e.problem
            raise OpError.of(shifted) from None
        _want_shape(updates.shape, replaced.shape)
        return Spec(dtype, data.shape)

    def evaluate(self, data: Array, updates: Array, *lists: Array) -> Array:
        out = data.copy()
        replaced = self.part.view(data.shape, *lists)(out)
        _want_shape(updates.shape, replaced.shape)
        np.copyto(replaced, updates)
        return out


def _want_shape(updates: Shape | None, replaced: Shape | None) -> None:
    if not compatible(replaced, updates):
        raise OpError(
            f"updates are {format_shape(updates)}; the slice is {format_shape(replaced)}",
            code="E302",
            port=1,
        )
