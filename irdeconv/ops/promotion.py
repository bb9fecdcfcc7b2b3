"""ConvertPromoteTypes."""

from __future__ import annotations

from dataclasses import dataclass

from irdeconv.dtypes import ELEMENT_TYPES, ElementType, f32, of_numpy
from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.convert import convert
from irdeconv.spec import Array, Spec
from irdeconv.traits import CONVERSION

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

    def evaluate(self, left: Array, right: Array) -> tuple[Array, ...]:
        specs = [Spec(of_numpy(x.dtype), x.shape) for x in (left, right)]
        dtype = self._common(*specs)
        assert dtype is not None
        return convert(left, dtype), convert(right, dtype)

    def _common(self, left: Spec, right: Spec) -> ElementType | None:
        a, b = left.dtype, right.dtype
        if a is None or b is None:
            return None
        for port, t in enumerate((a, b)):
            if t.kind == "string":
                raise OpError(f"input {port} is {t}; it must be a number", code="E303", port=port)
        if a == b:
            return a
        if self.pytorch_scalar_promotion:
            if left.rank is None or right.rank is None:
                return None
            if (left.rank == 0) != (right.rank == 0):
                found = _with_scalar(*((b, a) if left.rank == 0 else (a, b)))
                return self._allowed(found, a, b)
        return self._allowed(self._promoted(a, b), a, b)

    def _promoted(self, a: ElementType, b: ElementType) -> _Common:
        if _KINDS[a.kind] != _KINDS[b.kind]:
            return _higher(a, b)
        if a.kind == b.kind:
            if a.bits != b.bits:
                return _Common(max(a, b, key=lambda t: t.bits), safe=True)
            return _Common(_named("f", 2 * a.bits), safe=False)
        signed, unsigned = (a, b) if a.kind == "int" else (b, a)
        if unsigned.bits < signed.bits:
            return _Common(signed, safe=True)
        if unsigned.bits == 64:
            return _Common(self.u64_integer_promotion_target, safe=False)
        return _Common(_named("i", 2 * unsigned.bits), safe=False)

    def _allowed(self, found: _Common, a: ElementType, b: ElementType) -> ElementType:
        if found.safe or self.promote_unsafe:
            return found.dtype
        text = f"{a} and {b} have no common type that holds all of their values"
        hint = f'promote_unsafe="true" takes {found.dtype}'
        raise OpError(text, code="E303", port=1, hint=hint)


@dataclass(frozen=True)
class _Common:
    dtype: ElementType
    safe: bool


def _named(letter: str, bits: int) -> ElementType:
    return ELEMENT_TYPES[f"{letter}{bits}"]


def _higher(a: ElementType, b: ElementType) -> _Common:
    """Return the type of the higher kind; numbers need fewer bits than a floating-point type."""
    low, high = sorted((a, b), key=lambda t: _KINDS[t.kind])
    return _Common(high, safe=low.kind == "bool" or low.bits < high.bits)


def _with_scalar(tensor: ElementType, scalar: ElementType) -> _Common:
    """Return the tensor's type, or the scalar's where that is of a higher kind."""
    if _KINDS[tensor.kind] != _KINDS[scalar.kind]:
        return _higher(tensor, scalar)
    loses_sign = scalar.kind == "int" and tensor.kind == "uint"
    return _Common(tensor, safe=scalar.bits <= tensor.bits and not loses_sign)
