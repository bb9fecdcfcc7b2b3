"""Model inputs, outputs, constants, conversions, variables, strings, unknown operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_problem, size_error
from irdeconv.base.limits import LARGEST_INT
from irdeconv.ir.constant import ConstantData
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, f32, low_bits, of_numpy, string
from irdeconv.ir.op import CONVERSION, MOVES, TYPES, Bound, ChainStep, Op, Operand, attribute, op
from irdeconv.ir.ports import Fit, fit
from irdeconv.ir.spec import (
    DYNAMIC,
    UNKNOWN,
    Array,
    Arrays,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    compatible,
    format_shape,
    is_small,
    merge_shapes,
)
from irdeconv.kernels import elementwise
from irdeconv.kernels.copies import CastKernel, within_32
from irdeconv.ops import ranges
from irdeconv.ops.checks import joint_shape


@op("Parameter")
class Parameter(Op):
    """A model input: element type and (possibly dynamic) shape.  [infrastructure/Parameter-1]"""

    shape: Shape | None
    element_type: ElementType

    def infer(self) -> Spec:
        return Spec(self.element_type, self.shape)

    def check(self) -> Iterator[Problem]:
        # No text has such a number: a program made it.
        beyond = [d for d in self.shape or () if max(n or 0 for n in bounds(d)) > LARGEST_INT]
        if beyond:
            text = f"shape: {beyond[0]} is above {LARGEST_INT}, the largest number of 64 bits"
            yield Problem("E213", text, "shape")


class PassingOp(Op):
    """Base of operations whose output is their input."""

    rounding = MOVES

    def infer(self, data: Spec) -> Spec:
        return data

    def evaluate(self, data: Array) -> Array:
        return data


@op("Result")
class Result(PassingOp):
    """A model output: passes its input on.  [infrastructure/Result-1]"""


@op("Const")
class Const(Op):
    """A constant: bytes of the `.bin` file, or an array.  [infrastructure/Constant-1]"""

    element_type: ElementType
    shape: Shape | None
    data: ConstantData = attribute(internal=True)

    def infer(self) -> Spec:
        spec = Spec(self.element_type, self.shape)
        if not is_small(spec) or not self.data.available:
            return spec
        return Spec(self.element_type, self.shape, self.data.array())

    def evaluate(self) -> Array:
        return self.data.array()


def is_indispensable(type: str) -> bool:
    """Whether irdeconv must support every operation of this type.

    These are deconvolutions, the ends of a model, and constants.
    """
    ends = type in ("Parameter", "Result", "Const")
    return ends or any(c.deconvolution for c in TYPES.get(type, ()))


ONNX = "onnx/"  # begins the version of a node of ONNX


@dataclass(frozen=True)
class Section:
    """A part of a layer that is kept unchanged: `tag` and its XML bytes."""

    tag: str
    xml: bytes


@dataclass(frozen=True)
class Opaque(Op):
    """An operation known only by its declaration: attributes and bodies are kept for writing.

    `declared` are the specs of the outputs as the file states them. `stateful` operations (Assign)
    are never dead. `sections` are children of the layer beyond ports (bodies, port maps) in the
    file's order; constants in bodies refer to the file that `weights` reads.
    """

    kind: str
    opset: str
    data: tuple[tuple[str, str], ...] = ()
    declared: tuple[Spec, ...] = ()
    sections: tuple[Section, ...] = ()
    weights: ConstantData | None = None
    stateful: bool = False

    @property
    def type(self) -> str:  # type: ignore[override]
        """The type as the file spells it."""
        return self.kind

    @property
    def version(self) -> str:  # type: ignore[override]
        """The version as the file spells it."""
        return self.opset

    @property
    def side_effect(self) -> bool:  # type: ignore[override]
        """Whether the node is needed even if nothing uses it."""
        return self.stateful

    @property
    def declares(self) -> bool:
        """Whether its specs rest on a declaration; of ONNX nodes the importer lists these."""
        return not self.opset.startswith(ONNX)

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        return self.declared

    def to_attributes(self) -> dict[str, str]:
        return dict(self.data)


@dataclass(frozen=True)
class MisfitBranch(Opaque):
    """The outputs of a branch whose layers do not fit: a run that chooses it fails."""

    signature = "input*: any"
    pure: ClassVar[bool] = False

    @property
    def why(self) -> str:
        """The first error of the branch."""
        return f"the branch does not fit: {dict(self.data)['why']}"

    def evaluate(self, *inputs: Array) -> Arrays:
        raise OpError(self.why, code="E302")


@dataclass(frozen=True)
class VariableOp(Op):
    """Base of the operations on a variable."""

    rounding = MOVES
    pure: ClassVar[bool] = False  # the value is not the input's alone
    variable_id: str

    def check(self) -> Iterator[Problem]:
        if not self.variable_id:
            yield attribute_problem("variable_id", "variable_id is empty")


class ReadingOp(VariableOp):
    """Base of the operations that read a variable."""


@op("ReadValue", since=3, until=5)
class ReadValue3(ReadingOp):
    """Give a variable's value, at first the input's.  [infrastructure/ReadValue-3]

    init_value (...), any type -> (...), the value that the last inference assigned.
    """

    def infer(self, init_value: Spec) -> Spec:
        return init_value.without_value()

    def evaluate(self, init_value: Array) -> Array:
        return init_value


@op("ReadValue", since=6)
class ReadValue6(ReadingOp):
    """Give a variable's value, at first the input's.  [infrastructure/ReadValue-6]

    init_value (...), which may be absent: zeros then, as few as variable_shape allows ->
    variable_shape, of variable_type: the value that the last inference assigned.
    """

    signature = "init_value?: variable_type -> variable_type [*V]"
    variable_shape: Shape | None
    variable_type: ElementType

    def complete(self, at: Fit, init_value: Spec | None = None) -> None:
        own = at.groups["V"] = self.variable_shape
        if init_value is not None and not compatible(init_value.shape, own):
            text = f"init_value has shape {format_shape(init_value.shape)}, the variable"
            raise size_error(0, f"{text} {format_shape(own)}")

    def evaluate(self, init_value: Array | None = None) -> Array:
        return self.zeros() if init_value is None else init_value

    def zeros(self) -> Array:
        """Return the value of a variable that nothing was assigned to, without an input."""
        if self.variable_shape is None:
            raise OpError("of an unknown rank there are no zeros to begin with", code="E301")
        shape = [d.lo if isinstance(d, Interval) else d for d in self.variable_shape]
        return np.zeros(shape, self.variable_type.container)


@op("Assign", since=3, until=5)
class Assign3(VariableOp):
    """Keep a value for the next inference.  [infrastructure/Assign-3]

    value (...), any type -> (...), the same.
    """

    side_effect = True

    def infer(self, value: Spec) -> Spec:
        return value

    def evaluate(self, value: Array) -> Array:
        return value


@op("Assign", since=6)
class Assign6(Assign3):
    """Keep a value for the next inference.  [infrastructure/Assign-6]

    value (...), any type -> (...), the same. The variable's type and shape are ReadValue's.
    """


def unfit(own: Spec, array: Array) -> str | None:
    """Return the reason why a variable cannot have a value; None if it can."""
    if own.dtype is not None and array.dtype != own.dtype.container:
        return f"the variable is {own.dtype}, the value {array.dtype}"
    try:
        merge_shapes(own.shape, array.shape)
    except ValueError:
        shapes = format_shape(own.shape), format_shape(array.shape)
        return f"the variable has shape {shapes[0]}, the value {shapes[1]}"
    return None


@op("StringTensorUnpack", since=15)
class StringTensorUnpack(Op):
    """Take strings apart: string [*S] -> begins i32 [*S], ends i32 [*S], symbols u8 [bytes].

    String i is symbols[begins[i]:ends[i]], as UTF-8; the strings follow each other.
    [type/StringTensorUnpack-15]
    """

    rounding = MOVES
    signature = "data: string [*S] -> i32 [*S]; i32 [*S]; u8 [B]"

    def complete(self, at: Fit, data: Spec) -> None:
        at["B"] = DYNAMIC if data.known is None else sum(map(len, _texts(data.known)))

    def evaluate(self, data: Array) -> Arrays:
        texts = _texts(data)
        ends = np.cumsum([0, *map(len, texts)])
        if ends[-1] >= 2**31:
            raise OpError(f"{ends[-1]} bytes of text do not fit i32", code="E306", port=0)
        begins, ends = (a.astype(np.int32).reshape(data.shape) for a in (ends[:-1], ends[1:]))
        return begins, ends, np.frombuffer(b"".join(texts), np.uint8)


@op("StringTensorPack", since=15)
class StringTensorPack(Op):
    """Put strings together: begins [*S], ends [*S], symbols u8 [bytes] -> string [*S].

    String i is symbols[begins[i]:ends[i]] read as UTF-8; begins, ends: i32 or i64, one type.
    [type/StringTensorPack-15]
    """

    rounding = MOVES
    signature = "begins: i32|i64 t; ends: t; symbols: u8 [B] -> string"

    def infer(self, begins: Spec, ends: Spec, symbols: Spec) -> Spec:
        fit(self, begins, ends, symbols)
        text = f"begins {format_shape(begins.shape)} and ends {format_shape(ends.shape)} differ"
        return Spec(string, joint_shape(begins.shape, ends.shape, text, 1, merge_shapes))

    def evaluate(self, begins: Array, ends: Array, symbols: Array) -> Array:
        text = symbols.tobytes()
        out = np.empty(begins.size, object)
        flat = zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)
        for i, (begin, end) in enumerate(flat):
            if not 0 <= begin <= end <= len(text):
                where = f"string {i} lies from {begin} to {end} of {len(text)} bytes"
                raise OpError(where, code="E305", port=0 if begin < 0 else 1)
            out[i] = text[begin:end].decode(errors="replace")
        return out.reshape(begins.shape)


def _texts(data: Array) -> list[bytes]:
    return [s if isinstance(s, bytes) else str(s).encode() for s in data.reshape(-1)]


def macs(op: Op, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
    """Return the multiply-accumulates of a layer; None if they are unknown."""
    try:
        return None if isinstance(op, Opaque) else op.macs(inputs, outputs)
    except (IndexError, OpError):
        return None  # an unfinished graph: ports or declarations are missing


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
    return within_32(values.astype(np.float32, copy=False))


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
        """Casts that NumPy does as the operation does, and of f32 to integers; none to packed."""
        source, target = inputs[0].dtype, outputs[0].dtype
        assert source is not None
        assert target is not None
        if source == target:
            return Bound(view=lambda x, *_: x)
        integral = target.is_integral and not target.is_packed
        cuts = integral and source.is_real
        if cuts and (source.name != "f32" or target.bits == 64 or target.name == "u32"):
            return None
        if not (target.is_real or integral) or "string" in (source.kind, target.kind):
            return None
        return Bound(CastKernel(cuts))


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
