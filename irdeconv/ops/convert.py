"""Changes of the element type: Convert, ConvertLike, ConvertPromoteTypes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, f32, low_bits, of_numpy
from irdeconv.ir.op import CONVERSION, Bound, ChainStep, Op, Operand, attribute, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import UNKNOWN, Array, Arrays, Dim, Interval, Spec
from irdeconv.kernels import elementwise
from irdeconv.ops import ranges


def convert(values: Array, dtype: ElementType) -> Array:
    """Return values as another element type: the same array if nothing changes.

    Numbers to boolean: neither 0 nor NaN. Real to integer: towards zero, through 32 bits. Integers
    to narrower types keep their low bits (300 becomes the u8 44), packed types included; packed
    types are held in containers.
    """
    if values.dtype == object:
        return ranges.each(partial(_dim_to, dtype), values)
    if dtype.kind == "bool":
        return values if values.dtype == np.bool_ else (values != 0) & (values == values)
    with np.errstate(all="ignore"):
        if dtype.is_integral and not np.issubdtype(values.dtype, np.integer):
            values = _to_integer(values, dtype)
        out = values.astype(dtype.container, copy=False)
    return low_bits(out, dtype)


def _to_integer(values: Array, dtype: ElementType) -> Array:
    """Truncate within 32 bits; numbers beyond them become -2**31, NaN too.

    From f64 they become the nearest end, and saturate in 8 bits. u32 and 64-bit integers have all
    their values; numbers beyond become the nearest end (NaN: 0).
    """
    if values.dtype == np.bool_:
        return values
    if dtype.bits == 64 or dtype.name == "u32":
        return _within_64(values, np.dtype(np.uint64 if dtype.name == "u64" else np.int64))
    if values.dtype == np.float64:
        return elementwise.cut(values, np.dtype(dtype.container))
    whole = np.trunc(values.astype(np.float64))
    return np.where((whole >= -(2.0**31)) & (whole < 2.0**31), whole, -(2.0**31)).astype(np.int64)


def _within_64(values: Array, whole: np.dtype[Any]) -> Array:
    """Truncate within 64 bits (beyond: the nearest end; NaN becomes 0)."""
    info = np.iinfo(whole)
    out = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
    # The largest 64-bit integers are no floats: a cast of larger numbers would wrap around.
    negative = out < 0 if whole.kind == "u" else np.zeros(out.shape, bool)
    inside = np.where((out >= float(info.max)) | negative, 0, np.maximum(out, float(info.min)))
    top = np.where(out >= float(info.max), info.max, inside.astype(whole))
    return np.where(negative, out.astype(np.int64).astype(whole), top) if negative.any() else top


def _dim_to(dtype: ElementType, v: Any) -> Any:
    if isinstance(v, Interval):
        if dtype.kind == "bool":
            raise TypeError("a partly known value as boolean")
        return v if dtype.is_real else _narrowed(v, dtype)
    if dtype.kind == "bool":
        return bool(v != 0)
    real = dtype.container.type if dtype.container.kind == "f" else np.float32
    made: Any = real(v) if dtype.is_real else int(convert(np.array(int(v)), dtype))
    return made if made == (v if dtype.is_real else int(v)) else UNKNOWN


def _narrowed(v: Interval, dtype: ElementType) -> Dim:
    """Return all values of a narrow type if the interval exceeds it: low bits are kept.

    Sizes are assumed to fit 32 bits.
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
    signature = "data: any [*I] -> destination_type [*I]"
    destination_type: ElementType
    at_end: bool = attribute(False, internal=True)  # version 10's conversion of an input or output

    def complete(self, at: Fit, data: Spec) -> None:
        _check(data.dtype, self.destination_type)

    def evaluate(self, data: Array) -> Array:
        return convert(data, self.destination_type)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        """Return the rounding to a type of fewer bits; f64 does not mix with others in a chain."""
        source, target = str(inputs[0].dtype), self.destination_type.name
        if target not in ("f64", "f32", "f16", "bf16") or (target == "f64") != (source == "f64"):
            return None
        if target in ("f64", "f32", source):
            return ChainStep(np.positive, (Operand(0),))
        return ChainStep(elementwise.narrow, (Operand(0),), (self.destination_type.container,))


@op("ConvertLike")
class ConvertLike(_Conversion):
    """Change the element type of `data` to that of `like`; shape kept.  [type/ConvertLike-1]"""

    signature = "data: any [*I]; like: any t -> t [*I]"

    def complete(self, at: Fit, data: Spec, like: Spec) -> None:
        if like.dtype is not None:
            _check(data.dtype, like.dtype)

    def evaluate(self, data: Array, like: Array) -> Array:
        return convert(data, of_numpy(like.dtype))


Common = tuple[ElementType, bool]  # of two types, and whether it holds all of their values
_NOT_PROMOTED = ("string", "f8e8m0", "f4e2m1", "nf4", "u2", "u3", "u6")
_KINDS = {"bool": 0, "int": 1, "uint": 1, "float": 2}


@op("ConvertPromoteTypes", since=14)
class ConvertPromoteTypes(Op):
    """Convert two tensors to their common element type; two outputs, shapes kept.

    The higher kind wins (boolean, integers, floating-point), within a kind more bits; a signed and
    an unsigned type take the signed one that holds both, u64 and a signed one
    `u64_integer_promotion_target`. Without `promote_unsafe` types that may lose values are an
    error. `pytorch_scalar_promotion`: a scalar changes a tensor's kind, not its bits.
    [type/ConvertPromoteTypes-14]
    """

    rounding = CONVERSION
    promote_unsafe: bool = False
    pytorch_scalar_promotion: bool = False
    u64_integer_promotion_target: ElementType = f32

    def infer(self, left: Spec, right: Spec) -> tuple[Spec, ...]:
        dtype = self._common(left, right)
        return Spec(dtype, left.shape), Spec(dtype, right.shape)

    def evaluate(self, left: Array, right: Array) -> Arrays:
        dtype = self._common(*[Spec(of_numpy(x.dtype), x.shape) for x in (left, right)])
        assert dtype is not None
        return convert(left, dtype), convert(right, dtype)

    def _common(self, left: Spec, right: Spec) -> ElementType | None:
        a, b = left.dtype, right.dtype
        if a is None or b is None:
            return None
        for port, t in enumerate((a, b)):
            if t.name in _NOT_PROMOTED:
                raise OpError(f"input {port} is {t}; it must be a number", code="E303", port=port)
        if a == b:
            return a
        if self.pytorch_scalar_promotion:
            if left.rank is None or right.rank is None:
                return None
            if (left.rank == 0) != (right.rank == 0):
                return self._allowed(_with_scalar(*((b, a) if left.rank == 0 else (a, b))), a, b)
        return self._allowed(self._promoted(a, b), a, b)

    def _promoted(self, a: ElementType, b: ElementType) -> Common:
        if _KINDS[a.kind] != _KINDS[b.kind]:
            return _higher(a, b)
        if a.kind == b.kind:
            if a.bits != b.bits:
                return (max(a, b, key=lambda t: t.bits), True)
            return (ELEMENT_TYPES[f"f{2 * a.bits}"], False)
        signed, unsigned = (a, b) if a.kind == "int" else (b, a)
        if unsigned.bits < signed.bits:
            return (signed, True)
        if unsigned.bits == 64:
            return (self.u64_integer_promotion_target, False)
        return (ELEMENT_TYPES[f"i{2 * unsigned.bits}"], False)

    def _allowed(self, found: Common, a: ElementType, b: ElementType) -> ElementType:
        dtype, safe = found
        if safe or self.promote_unsafe:
            return dtype
        text = f"{a} and {b} have no common type that holds all of their values"
        raise OpError(text, code="E303", port=1, hint=f'promote_unsafe="true" takes {dtype}')


def _higher(a: ElementType, b: ElementType) -> Common:
    """Return the type of the higher kind; numbers need fewer bits than a floating-point type."""
    low, high = sorted((a, b), key=lambda t: _KINDS[t.kind])
    return (high, low.kind == "bool" or low.bits < high.bits)


def _with_scalar(tensor: ElementType, scalar: ElementType) -> Common:
    """Return the tensor's type, or the scalar's if that is of a higher kind."""
    if _KINDS[tensor.kind] != _KINDS[scalar.kind]:
        return _higher(tensor, scalar)
    loses_sign = scalar.kind == "int" and tensor.kind == "uint"
    return (tensor, scalar.bits <= tensor.bits and not loses_sign)
