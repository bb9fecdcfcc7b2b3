"""Change of element type: Convert, ConvertLike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from irdeconv.dtypes import ElementType, low_bits, of_numpy
from irdeconv.errors import OpError
from irdeconv.kernels.elementwise import integers, steps
from irdeconv.op import Op, attribute, op
from irdeconv.ops import ranges
from irdeconv.spec import Array, Dim, Interval, Spec
from irdeconv.traits import CONVERSION, Bound, ChainStep, Operand


def convert(values: Array, dtype: ElementType) -> Array:
    """Return values as another element type: the same array where nothing changes.

    Numbers to boolean: neither 0 nor NaN. Real to integer: towards zero, through 32 bits. Integers
    to narrower types keep their low bits (300 becomes the u8 44), packed types included; packed
    types are held in containers.
    """
    if values.dtype == object:
        return ranges.each(_dim_to(dtype), values)
    if dtype.kind == "bool":
        return values if values.dtype == np.bool_ else (values != 0) & (values == values)
    with np.errstate(all="ignore"):
        if dtype.is_integral and not np.issubdtype(values.dtype, np.integer):
            values = _to_integer(values, dtype)
        out = values.astype(dtype.container, copy=False)
    return low_bits(out, dtype)


def _to_integer(values: Array, dtype: ElementType) -> Array:
    """Truncate within 32 bits; what these cannot hold becomes -2**31, NaN too.

    f64 goes to the nearest end instead, and saturates in 8 bits. u32 and 64-bit integers have all
    their values, beyond which they take the nearest end (NaN: 0).
    """
    if values.dtype == np.bool_:
        return values
    if dtype.bits == 64 or dtype.name == "u32":
        return _within_64(values, np.dtype(np.uint64 if dtype.name == "u64" else np.int64))
    if values.dtype == np.float64:
        return integers.cut(values, np.dtype(dtype.container))
    whole = np.trunc(values.astype(np.float64))
    fits = (whole >= -(2.0**31)) & (whole < 2.0**31)
    return np.where(fits, whole, -(2.0**31)).astype(np.int64)


def _within_64(values: Array, whole: np.dtype[Any]) -> Array:
    """Truncate within 64 bits (beyond: the nearest end; NaN becomes 0)."""
    info = np.iinfo(whole)
    out = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
    # The largest 64-bit integers are no floats: a cast of what lies beyond would wrap around.
    negative = out < 0 if whole.kind == "u" else np.zeros(out.shape, bool)
    inside = np.where((out >= float(info.max)) | negative, 0, np.maximum(out, float(info.min)))
    top = np.where(out >= float(info.max), info.max, inside.astype(whole))
    return np.where(negative, out.astype(np.int64).astype(whole), top) if negative.any() else top


def _dim_to(dtype: ElementType) -> Any:
    real = dtype.container.type if dtype.container.kind == "f" else np.float32

    def apply(v: Any) -> Any:
        if isinstance(v, Interval):
            if dtype.kind == "bool":
                raise TypeError("a partly known value as boolean")
            return v if dtype.is_real else _narrowed(v, dtype)
        return real(v) if dtype.is_real else int(convert(np.array(int(v)), dtype))

    return apply


def _narrowed(v: Interval, dtype: ElementType) -> Dim:
    """Return the values of a narrow type where the interval leaves it: low bits are kept.

    Sizes are taken to fit 32 bits.
    """
    if dtype.bits >= 32:
        return v
    lowest = -(2 ** (dtype.bits - 1)) if dtype.kind == "int" else 0
    highest = lowest + 2**dtype.bits - 1
    inside = v.lo >= lowest and v.hi is not None and v.hi <= highest
    return v if inside else Interval(lowest, highest)


def _check(source: ElementType | None, target: ElementType) -> None:
    if source is not None and (source.kind == "string") != (target.kind == "string"):
        raise OpError(f"{source} cannot be converted to {target}", code="E303", port=0)


class _Conversion(Op):
    """Base: how both operations run."""

    rounding = CONVERSION

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        """Casts that NumPy does as the operation does: not real to integer, not to packed types."""
        source, target = inputs[0].dtype, outputs[0].dtype
        assert source is not None
        assert target is not None
        if source == target:
            return Bound(view=lambda x, *_: x)
        integral = target.is_integral and not source.is_real and not target.is_packed
        if not (target.is_real or integral) or "string" in (source.kind, target.kind):
            return None
        return Bound(lambda x, *_, out, team: np.copyto(out, x, casting="unsafe"))


@op("Convert", until=17)
class Convert(_Conversion):
    """Change the element type to `destination_type`, the shape stays.

    Real to integer truncates, narrower integers keep the low bits; to boolean: not 0.
    [type/Convert-1]
    """

    partial: ClassVar[bool] = True
    destination_type: ElementType
    at_end: bool = attribute(False, internal=True)  # what version 10 does at an input or output

    def infer(self, data: Spec) -> Spec:
        _check(data.dtype, self.destination_type)
        return Spec(self.destination_type, data.shape)

    def evaluate(self, data: Array) -> Array:
        return convert(data, self.destination_type)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        """Return the rounding to a type of fewer bits; f64 does not mix with others in a chain."""
        source, target = str(inputs[0].dtype), self.destination_type.name
        if target not in ("f64", "f32", "f16", "bf16") or (target == "f64") != (source == "f64"):
            return None
        if target in ("f64", "f32", source):
            return ChainStep(np.positive, (Operand(0),))
        return ChainStep(steps.narrow, (Operand(0),), (self.destination_type.container,))


@op("ConvertLike")
class ConvertLike(_Conversion):
    """Change the element type of `data` to that of `like`; shape kept.  [type/ConvertLike-1]"""

    def infer(self, data: Spec, like: Spec) -> Spec:
        if like.dtype is not None:
            _check(data.dtype, like.dtype)
        return Spec(like.dtype, data.shape)

    def evaluate(self, data: Array, like: Array) -> Array:
        return convert(data, of_numpy(like.dtype))
