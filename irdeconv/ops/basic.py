"""Model inputs, outputs, constants, variables, tensors of strings, unknown operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_problem, size_error
from irdeconv.base.limits import LARGEST_INT
from irdeconv.ir.constant import ConstantData
from irdeconv.ir.dtypes import ElementType, string
from irdeconv.ir.op import MOVES, TYPES, Op, attribute, op
from irdeconv.ir.ports import Fit, fit
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Arrays,
    Interval,
    Shape,
    Spec,
    bounds,
    compatible,
    format_shape,
    is_small,
    merge_shapes,
)
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
