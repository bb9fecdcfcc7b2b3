"""FakeQuantize and FakeConvert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import ml_dtypes
import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.attributes import ValueRange
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import FUNCTION, LEVELS, ChainStep, Op, Operand, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import Array, Spec, broadcasts_into, compatible, format_shape
from irdeconv.kernels import elementwise as steps
from irdeconv.kernels.candidate import type_of_sums
from irdeconv.ops.checks import AutoBroadcast, aligned, broadcast_shapes, known, widest


@op("FakeQuantize")
class FakeQuantize(Op):
    """Map in_low..in_high to out_low..out_high in `levels` steps; below and above: the ends.

    data and the four limits: floating-point, of any types; the limits broadcast to the data.
    round((x - il) / (ih - il) * (levels - 1)) / (levels - 1) * (oh - ol) + ol, halves to even.
    [quantization/FakeQuantize-1]
    """

    rounding = LEVELS
    signature = "data: real t; in_low: real; in_high: real; out_low: real; out_high: real -> t [*O]"

    levels: Annotated[int, ValueRange(2)]
    auto_broadcast: AutoBroadcast = "numpy"

    def complete(self, at: Fit, data: Spec, *limits: Spec) -> None:
        shape = data.shape
        for port, s in enumerate(limits, 1):
            shape = broadcast_shapes(shape, s.shape, self.auto_broadcast, port)
        at.groups["O"] = shape

    def evaluate(self, data: Array, *limits: Array) -> Array:
        placed = (aligned(v, data.ndim, self.auto_broadcast) for v in limits)
        x, il, ih, ol, oh = widest(data, *placed)
        steps = x.dtype.type(self.levels - 1)
        with np.errstate(all="ignore"):
            q = np.rint((x - il) / (ih - il) * steps) / steps * (oh - ol) + ol
        low, high = np.minimum(il, ih), np.maximum(il, ih)
        return np.asarray(np.where(x <= low, ol, np.where(x > high, oh, q)), data.dtype)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        """Constant limits in order; others need the selections of the general form."""
        limits = known(inputs[1:])
        if limits is None or inputs[0].dtype is None or self.auto_broadcast == "pdpd":
            return None
        kind = type_of_sums(inputs[0].dtype.container)
        low, high, first, last = (np.asarray(v, kind) for v in limits)
        if not np.all(low < high):
            return None
        args = (Operand(0), low, high, high - low, last - first, first)
        return ChainStep(steps.fake_quantize, args, (self.levels,))


@op("FakeConvert", since=13)
class FakeConvert(Op):
    """Round data * scale - shift to an 8-bit float and undo both: (rounded + shift) / scale.

    data, scale and the optional shift: one floating-point type; the shape of the latter two
    broadcasts to the data's. The product is rounded to f16 and then to `destination_type`, ties to
    even. Larger numbers become the type's largest one, NaN the lowest, as in the runtime.
    [quantization/FakeConvert-13]
    """

    rounding = FUNCTION

    signature = "data: f32|f16|bf16 t [*I]; scale: t; shift?: t -> t [*I]"
    destination_type: Literal["f8e4m3", "f8e5m2"] = "f8e4m3"

    def complete(self, at: Fit, data: Spec, scale: Spec, shift: Spec | None = None) -> None:
        if shift is not None and not compatible(scale.shape, shift.shape):
            text = f"shift {format_shape(shift.shape)} has not the shape of scale"
            raise OpError(f"{text}, {format_shape(scale.shape)}", code="E302", port=2)
        if data.shape is not None and not broadcasts_into(scale.shape or (), data.shape):
            text = f"scale {format_shape(scale.shape)} does not broadcast to the data's shape"
            raise OpError(f"{text}, {format_shape(data.shape)}", code="E302", port=1)

    def evaluate(self, data: Array, scale: Array, shift: Array | None = None) -> Array:
        kind = ELEMENT_TYPES[self.destination_type].container
        top = np.float32(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
        with np.errstate(all="ignore"):
            moved = data * scale if shift is None else data * scale - shift
            x = moved.astype(np.float16).astype(np.float32)
            rounded = np.minimum(np.fmax(x, -top), top).astype(kind).astype(data.dtype)
            out = rounded / scale if shift is None else (rounded + shift) / scale
        return np.asarray(out, data.dtype)
