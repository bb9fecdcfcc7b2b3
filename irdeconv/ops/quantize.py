"""FakeQuantize."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from irdeconv.errors import Problem
from irdeconv.kernels.elementwise import steps
from irdeconv.kernels.elementwise.chain import computing_type
from irdeconv.op import Op, op
from irdeconv.ops.binding import known
from irdeconv.ops.checks import real_types, widest
from irdeconv.ops.elementwise import AutoBroadcast, broadcast_shapes
from irdeconv.spec import Array, Spec
from irdeconv.traits import FUNCTION, ChainStep, Operand


@op("FakeQuantize")
class FakeQuantize(Op):
    """Map in_low..in_high to out_low..out_high in `levels` steps; below and above: the ends.

    data and the four limits: floating-point, of any types; the limits broadcast to the data.
    round((x - il) / (ih - il) * (levels - 1)) / (levels - 1) * (oh - ol) + ol, halves to even.
    [quantization/FakeQuantize-1]
    """

    rounding = FUNCTION

    levels: int
    auto_broadcast: AutoBroadcast = "numpy"

    def check(self) -> Iterator[Problem]:
        if self.levels < 2:
            yield Problem(
                "E210", f"levels is {self.levels}; at least 2 are needed", attribute="levels"
            )

    def infer(self, data: Spec, in_low: Spec, in_high: Spec, out_low: Spec, out_high: Spec) -> Spec:
        limits = (in_low, in_high, out_low, out_high)
        names = ("data", "in_low", "in_high", "out_low", "out_high")
        dtype = real_types(data, *limits, names=names)
        shape = data.shape
        for port, s in enumerate(limits, 1):
            shape = broadcast_shapes(shape, s.shape, self.auto_broadcast, port)
        return Spec(dtype, shape)

    def evaluate(
        self, data: Array, in_low: Array, in_high: Array, out_low: Array, out_high: Array
    ) -> Array:
        x, il, ih, ol, oh = widest(data, in_low, in_high, out_low, out_high)
        steps = x.dtype.type(self.levels - 1)
        with np.errstate(all="ignore"):
            q = np.rint((x - il) / (ih - il) * steps) / steps * (oh - ol) + ol
        low, high = np.minimum(il, ih), np.maximum(il, ih)
        out = np.where(x <= low, ol, np.where(x > high, oh, q))
        return np.asarray(out, data.dtype)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        """Constant limits in order; others need the selections of the general form."""
        limits = known(inputs[1:])
        if limits is None or inputs[0].dtype is None:
            return None
        kind = computing_type(inputs[0].dtype.container)
        low, high, first, last = (np.asarray(v, kind) for v in limits)
        if not np.all(low < high):
            return None
        args = (Operand(0), low, high, high - low, last - first, first)
        return ChainStep(steps.fake_quantize, args, (self.levels,))
