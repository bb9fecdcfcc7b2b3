"""Pad: constant, edge, reflect, symmetric; negative pads crop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem
from irdeconv.ir.op import MOVES, Bound, Op, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, ints, non_negative
from irdeconv.kernels.copies import Border, OwnBorderKernel, PadKernel, padded
from irdeconv.ops.checks import indexed, shape_of

PadMode = Literal["constant", "edge", "reflect", "symmetric"]


def pad_indices(mode: PadMode, size: int, begin: int, end: int) -> Array:
    """Return the index of the axis element at each position of the padded axis."""
    at = np.arange(-begin, size + end)
    if mode == "edge":
        return np.clip(at, 0, size - 1)
    shift = 1 if mode == "symmetric" else 0  # symmetric repeats the border element
    at = np.where(at < 0, -at - shift, at)
    return np.where(at >= size, 2 * (size - 1) - at + shift, at)


@op("Pad", until=11)
class Pad1(Op):
    """Extend each axis by pads_begin and pads_end elements by the rule `pad_mode`.

    data: any type; pads: integer vectors, one value an axis; pad_value: a scalar of the data's
    type, 0 by default. Negative pads crop as from opset12 on, which the runtime accepts although
    the document does not.  [movement/Pad-1]
    """

    rounding = MOVES
    signature = (
        "data: any t; pads_begin: integer [?]; pads_end: integer [?]; pad_value?: t [] -> t [*O]"
    )
    pad_mode: PadMode = "constant"

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        for port, pads in enumerate(inputs[1:3], 1):
            values = ints(pads)
            if values is not None and any(v < 0 for v in values):
                text = f"pads {list(values)} are negative, which Pad allows from opset12 on"
                yield Problem("W301", text, port=port)

    def complete(self, at: Fit, data: Spec, *others: Spec) -> None:
        begin, end = at.values("pads_begin"), at.values("pads_end")
        shape = self._shape(data.shape, begin, end)
        if shape is None:
            return
        at.groups["O"] = (DYNAMIC,) * len(shape)
        if begin is not None and end is not None:
            at.groups["O"] = tuple(map(self._dim, range(len(shape)), shape, begin, end))

    def _shape(
        self, shape: Shape | None, begin: tuple[Dim, ...] | None, end: tuple[Dim, ...] | None
    ) -> Shape | None:
        """Return the data's shape, made of unknown dimensions if only the rank is known."""
        for port, name, pads in ((1, "pads_begin", begin), (2, "pads_end", end)):
            if pads is None:
                continue
            if shape is None:
                shape = (DYNAMIC,) * len(pads)
            if len(pads) != len(shape):
                text = f"{name} has {len(pads)} values for data of rank {len(shape)}"
                raise OpError(text, code="E302", port=port)
        return shape

    def _dim(self, axis: int, size: Dim, begin: Dim, end: Dim) -> Dim:
        for port, pad in ((1, begin), (2, end)):
            self._check(axis, size, pad, port)
        out = size + begin + end
        if not isinstance(out, Interval) and out < 0:
            text = f"axis {axis} of size {size} with pads {begin} and {end} would have size {out}"
            raise OpError(text, code="E306", port=1)
        return non_negative(out)

    def _check(self, axis: int, size: Dim, pad: Dim, port: int) -> None:
        """Require that the pads of a mirroring mode find an element to copy."""
        low, high = bounds(pad)[0], bounds(size)[1]
        if self.pad_mode == "constant" or low <= 0 or high is None:
            return
        limit = {"edge": None if high else 0, "reflect": high - 1, "symmetric": high}[self.pad_mode]
        if limit is not None and low > limit:
            text = f'pad {pad} of axis {axis}: pad_mode="{self.pad_mode}" '
            text += f"allows at most {limit} for size {size}"
            raise OpError(text, code="E305", port=port)

    def evaluate(
        self, data: Array, pads_begin: Array, pads_end: Array, pad_value: Array | None = None
    ) -> Array:
        begin = tuple(int(v) for v in pads_begin.reshape(-1))
        end = tuple(int(v) for v in pads_end.reshape(-1))
        if self.pad_mode == "constant":
            return padded(data, begin, end, 0 if pad_value is None else pad_value.reshape(()))
        for axis, (b, e) in enumerate(zip(begin, end, strict=True)):
            self._check(axis, data.shape[axis], b, 1)
            self._check(axis, data.shape[axis], e, 2)
            if b or e:
                data = data.take(pad_indices(self.pad_mode, data.shape[axis], b, e), axis)
        return data

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        begin, end = ints(inputs[1]), ints(inputs[2])
        if begin is None or end is None:
            return None
        if self.pad_mode != "constant":
            return self._bind_own(shape_of(inputs[0]), begin, end)
        if not any(begin) and not any(end):
            return Bound(view=lambda x, *_: x)
        border = Border.of(shape_of(inputs[0]), begin, end)
        if not border.filled:
            return Bound(view=indexed(border.source))

        value = inputs[3].known if len(inputs) > 3 else np.zeros((), np.float32)
        return Bound(PadKernel(border, None if value is None else value.reshape(())))

    def _bind_own(
        self, shape: tuple[int, ...], begin: Sequence[int], end: Sequence[int]
    ) -> Bound | None:
        """Bind a padding that repeats the data's own elements, unless something is cropped."""
        if min(*begin, *end, 0) < 0:
            return None
        for axis, (size, *pads) in enumerate(zip(shape, begin, end, strict=True)):
            for port, count in enumerate(pads, 1):
                self._check(axis, size, count, port)
        rows = zip(shape, begin, end, strict=True)
        indices = [pad_indices(self.pad_mode, *row) for row in rows]
        return Bound(OwnBorderKernel.of(shape, begin, indices))


@op("Pad", since=12)
class Pad12(Pad1):
    """Extend each axis by pads_begin and pads_end elements by `pad_mode`; negative pads crop.

    data: any type; pads: integer vectors, one value an axis; pad_value: a scalar of the data's
    type, 0 by default. All modes are windows on the endlessly extended data.  [movement/Pad-12]
    """

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        return iter(())
