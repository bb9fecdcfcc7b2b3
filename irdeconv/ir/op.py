"""Operations: the base class, the registry, attributes from text, and traits for passes.

An operation is one frozen dataclass. Its fields are the attributes, its docstring is the
documentation, `signature` declares the ports (or that of `infer` lists them), `evaluate` computes.
Traits state how it is executed fast, and how it rounds.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, TypeVar, dataclass_transform

import numpy as np

from irdeconv.base import errors, work
from irdeconv.base.errors import OpError, Problem
from irdeconv.base.extras import plain
from irdeconv.base.hints import hinted_calls, hinted_names
from irdeconv.ir.attributes import Attribute as Attribute
from irdeconv.ir.attributes import attribute as attribute
from irdeconv.ir.attributes import attributes as attributes
from irdeconv.ir.attributes import out_of_range, per_class, ranges
from irdeconv.ir.attributes import parse_attributes as parse_attributes
from irdeconv.ir.certainty import MOVED, is_certain, settled
from irdeconv.ir.dtypes import low_bits
from irdeconv.ir.ports import Fit, declaration, fit
from irdeconv.ir.spec import Array, Shape, Spec, format_shape, is_small, simplify


@dataclass(frozen=True)
class Operand:
    """An argument of a step that is an input of the operation.

    `number` counts the operation's inputs; `shape` is the input's shape in the chain.
    """

    number: int
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ChainStep:
    """An element-wise operation as a step of a chain (see kernels.elementwise).

    `rule` is its formula. Arguments are inputs, the data first, or constants that were
    derived from constant inputs.
    """

    rule: Callable[..., Any]
    args: tuple[Operand | Array, ...]
    params: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Bound:
    """An operation for exact shapes; one of the two is set.

    `call(*inputs, out=array, team=team)` writes into C-contiguous memory of the output's shape and
    type, which may hold anything and overlaps no input; inputs have any
    strides. `view(*inputs)` returns the output, or a tuple of several, as views of
    the first input; a copy if reshaping an input that is not contiguous needs one.
    """

    call: Callable[..., None] | None = None
    view: Callable[..., Any] | None = None


Carry = Literal[
    "unknown", "moves", "keeps", "adds", "larger", "slope", "products", "quotient", "function",
    "averages",
]  # fmt: skip


@dataclass(frozen=True)
class Rounding:
    """How far a correct implementation may be off, and how errors of the inputs spread.

    `rule` bounds the rounding: none at all (`exact`); `roundings`, `count` of them relative to the
    result, also of a `conversion`; of a `remainder` relative to the first input, which is reduced
    to a - b floor(a / b); a `sum` of products, linear in each input: gamma_n times the
    same on absolute values; a `function` of one element within a few units in the last place of
    result and argument, a `composite` one of several steps that may cancel, so also relative to
    `count` or 1;
    `softmax` and `log_softmax`; `levels` of a quantization, one up or down if the argument is
    as close to the border; `any` result if it is drawn anew in every run; else relative to the
    largest value (`scale`).

    `carry` bounds the error of the output by those of the inputs: `moves` them with the elements,
    `keeps` the first, `adds` two, takes the `larger`, multiplies by a PReLU's `slope` or by the
    other factors (`products`), divides (`quotient`), follows the `function`, or `averages` with
    weights from 0 to 1.
    """

    rule: Literal[
        "exact",
        "roundings",
        "conversion",
        "remainder",
        "sum",
        "function",
        "composite",
        "softmax",
        "log_softmax",
        "levels",
        "scale",
        "any",
    ]
    count: int = 0
    carry: Carry = "unknown"


MOVES = Rounding("exact", carry="moves")
KEEPS = Rounding("exact", carry="keeps")
JUMPS = Rounding("exact")  # a small change of an input may change the output by any amount
STEPS = Rounding("exact", carry="function")  # by one step, if the input is as close to its border
CONVERSION = Rounding("conversion", 1, "function")
REMAINDER = Rounding("remainder", 3)
SUM = Rounding("sum", carry="products")
FUNCTION = Rounding("function", carry="function")
COMPOSITE = Rounding("composite", carry="function")
LEVELS = Rounding("levels", carry="function")
SCALE = Rounding("scale")
DRAWN = Rounding("any")


def roundings(count: int, carry: Carry = "unknown") -> Rounding:
    """Return the rule of arithmetic; a division counts as multiplying by the reciprocal."""
    return Rounding("roundings", count, carry)


X = TypeVar("X")
C = TypeVar("C", bound="type[Op]")
LAST_OPSET = 16


@hinted_calls
@hinted_names
@dataclass(frozen=True)
class Op:
    """Base of all operations.

    `type` and `version` are those of `<layer>`; `versions` lists every version text that is
    accepted. `standard`: OpenVINO knows the operation. `partial`: `evaluate` also works on object
    arrays of dimensions, so that partly known shapes flow through it. `side_effect`: the node stays
    even if its output is unused. `folds`: inference may evaluate it. `moves`: every element of
    the output is one of the first input, or 0. `deconvolution`: it is a deconvolution of any
    dialect. `rounding` is the rule by which `compare` judges it. `signature` declares the ports,
    as in `"data: real t [N, *I]; scale?: t [] -> t [N, *I]"`; irdeconv/ir/ports.py has the syntax.
    """

    type: ClassVar[str] = ""
    signature: ClassVar[str] = ""
    version: ClassVar[str] = ""
    versions: ClassVar[tuple[str, ...]] = ()
    standard: ClassVar[bool] = True
    partial: ClassVar[bool] = False
    side_effect: ClassVar[bool] = False
    folds: ClassVar[bool] = True
    moves: ClassVar[bool] = False
    deconvolution: ClassVar[bool] = False
    rounding: ClassVar[Rounding] = SCALE

    @property
    def pure(self) -> bool:
        """Whether outputs depend on inputs alone, so that constants may replace them."""
        return not self.side_effect

    def infer(self, *inputs: Any) -> Spec | tuple[Spec, ...]:
        """Return the spec of every output; raise OpError if the inputs do not fit."""
        if not self.signature:
            raise OpError(f"{self.type} has no shape rule", code="E502")
        at = fit(self, *inputs, signature=self.signature_for(inputs))
        self.complete(at, *inputs)
        return at.result()

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        """Return the signature that these inputs must fit, if it depends on them."""
        return self.signature

    def complete(self, at: Fit, *inputs: Any) -> None:
        """Set the sizes that the signature leaves open; raise OpError for errors beyond it.

        By default `complete_from` does so if the rank of the first input is known.
        """
        shape = inputs[0].shape if inputs and inputs[0] is not None else None
        if shape is not None:
            self.complete_from(at, shape, *inputs[1:])

    def complete_from(self, at: Fit, shape: Shape, *others: Any) -> None:
        """Do the same from the shape of the first input; `others` are the other inputs."""

    def evaluate(self, *inputs: Any) -> Array | tuple[Array, ...]:
        """Compute the outputs; arrays in their element types' NumPy containers."""
        raise OpError(f"{self.type} has no evaluator", code="E502")

    def fold(self, *inputs: Any) -> Array | tuple[Array, ...]:
        """Compute the outputs of constants; overridden if OpenVINO folds them to other numbers."""
        return self.evaluate(*inputs)

    def evaluator(self, used: frozenset[int], inputs: Sequence[Spec]) -> Callable[..., Any]:
        """Return a function that computes the outputs of the ports `used`; others may be missing.

        Constant inputs have their values, however many elements these have.
        """
        return self.evaluate

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        """Return the operation as a step of an element-wise chain; None if it is none.

        `inputs` have their values if they are constants. Operands and result are taken to be
        f64, f32, f16 or bf16.
        """
        return None

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        """Bind to exact shapes without empty axes; None if only `evaluate` will do.

        Constant inputs have their values, however many elements these have.
        """
        return None

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        """Return the largest number of products that add up to an element of the first output."""
        return -(-inputs[0].size // max(output.size, 1)) + 1

    def check(self) -> Iterator[Problem]:
        """Yield errors of the attributes alone, besides values out of their ranges."""
        return iter(())

    def problems(self) -> Iterator[Problem]:
        """Yield all errors of the attributes alone."""
        yield from out_of_range(self)
        yield from self.check()

    @cached_property
    def misfit(self) -> Problem | None:
        """The first error of `problems`, computed once."""
        return next((p for p in self.problems() if p.severity == "error"), None)

    def remarks(self, *inputs: Any) -> Iterator[Problem]:
        """Yield warnings that need the inputs' specs (which fit: `infer` succeeded)."""
        return iter(())

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the multiply-accumulates of one run; None if sizes are unknown."""
        return 0

    def to_attributes(self) -> dict[str, str]:
        """Return the XML attributes in the order of the fields."""
        texts = {}
        for a in attributes(type(self)).values():
            value = getattr(self, a.name)
            # An absent list is empty; OpenVINO reads an empty text alike, people wonder about it.
            if value != () or a.default != ():
                texts[a.xml] = a.kind.format(value)
        return {k: v for k, v in texts.items() if v is not None}


class SugarOp(Op):
    """An operation that is defined by `expand` into others.

    With a graph builder `expand` is the lowering, with a spec builder the shape rule, with an eager
    builder the evaluator. Subclasses declare the input ports in the signature of `expand`.
    A `deconvolution` expands to one core.Deconvolution.
    """

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        """The rule by which `compare` judges it."""
        return SUM if self.deconvolution else SCALE

    def expand(self, b: Builder[Any], *inputs: Any) -> Any:
        """Build the same computation from more basic operations."""
        raise OpError(f"{self.type} has no expansion", code="E502")

    def infer(self, *inputs: Any) -> Spec | tuple[Spec, ...]:
        """Run `expand` on specs."""
        return self.expand_specs(*inputs)

    def expand_specs(self, *inputs: Any) -> Spec | tuple[Spec, ...]:
        """Run `expand` on specs; a class whose layers are often alike may memoize the result."""
        return self.expand(SpecBuilder(), *inputs)  # type: ignore[no-any-return]

    def evaluate(self, *inputs: Any) -> Array | tuple[Array, ...]:
        """Run `expand` on arrays."""
        return self.expand(EagerBuilder(), *inputs)  # type: ignore[no-any-return]


class Builder(Protocol[X]):
    """A builder for `expand` and lowering rules; X is a node's output, a Spec or an array."""

    def add(self, op: Op, *inputs: X) -> X:
        """Apply an operation with one output."""

    def const(self, array: Array) -> X:
        """Make a constant."""

    def spec(self, value: X) -> Spec:
        """Return the spec of a value."""

    def refine(self, value: X, spec: Spec) -> X:
        """State further facts of a value; only inference makes use of them."""


class SpecBuilder:
    """Builds with specs: `add` infers."""

    def add(self, op: Op, *inputs: Spec) -> Spec:
        """Infer one operation, with its value if all inputs are known."""
        return infer_op(op, inputs)[0]

    def const(self, array: Array) -> Spec:
        """Return the array's spec with its value."""
        return Spec.of(array)

    def spec(self, value: Spec) -> Spec:
        """Return the spec itself."""
        return value

    def refine(self, value: Spec, spec: Spec) -> Spec:
        """Return the more precise spec."""
        return spec


class EagerBuilder:
    """Builds with arrays: `add` evaluates."""

    def add(self, op: Op, *inputs: Array) -> Array:
        """Evaluate one operation."""
        out: Array = as_tuple(op.evaluate(*inputs))[0]
        return out

    def const(self, array: Array) -> Array:
        """Return the array itself."""
        return array

    def spec(self, value: Array) -> Spec:
        """Return the array's spec, with its value if it is small."""
        return Spec.of(value)

    def refine(self, value: Array, spec: Spec) -> Array:
        """Return the array itself."""
        return value


def as_tuple(result: Any) -> tuple[Any, ...]:
    """Return several outputs as they are and a single one as a tuple."""
    return result if isinstance(result, tuple) else (result,)


def kept(arrays: tuple[Any, ...], specs: Sequence[Spec] | None) -> tuple[Any, ...]:
    """Return computed outputs as their element types keep them; see `dtypes.low_bits`."""
    types = [s.dtype for s in specs or ()] + [None] * len(arrays)
    return tuple(a if t is None else low_bits(a, t) for a, t in zip(arrays, types, strict=False))


def require_fit(op: Op) -> None:
    """Raise OpError for the first of an operation's attributes that does not fit.

    Readers of files have checked them; a program, or the text form, may have made any.
    """
    cls = type(op)
    if (cls.check is not Op.check or ranges(cls)) and op.misfit is not None:
        raise OpError.of(op.misfit)


# Modules of `ops` whose operations may look at every input element for every output element.
PRODUCTS = frozenset(
    "convolution detection_output detectron image matrix pooling recurrent regions "
    "signal sparse suppression".split()
)
TAPS = 64  # of Interpolate, for each element of input and output


def size_in_units(spec: Spec) -> int:
    """Return the units of work of a tensor: its bytes, more if it is known as intervals."""
    if spec.value is not None and spec.value.dtype == object:
        steps = zip(spec.value.strides, spec.value.shape, strict=True)
        return work.PER_INTERVAL * int(math.prod(n for step, n in steps if step))
    item: int = 8 if spec.dtype is None else spec.dtype.container.itemsize
    return (spec.size or 0) * item


def effort(op: Op, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> int:
    """Return the units of work that computing the outputs takes at most, about."""
    out = sum(map(size_in_units, outputs)) + work.PER_TENSOR * (len(inputs) + len(outputs))
    if op.type in MOVED:
        return out
    read = sum(map(size_in_units, inputs))
    if op.type == "Interpolate":
        return TAPS * (read + out)
    wide = type(op).__module__.rpartition(".")[2] in PRODUCTS or op.deconvolution
    if not wide and op.type != "LRN":
        return read + out
    macs = op.macs(tuple(inputs), tuple(outputs))
    sizes = (sum(s.size or 0 for s in specs) for specs in (inputs, outputs))
    return read + out + (macs or math.prod(sizes))


FEW_OUTPUTS = 64  # inferring more counts as work


def infer_op(op: Op, inputs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Infer one operation and, if the inputs' values are known and small, evaluate it."""
    require_fit(op)
    own = ports(type(op))
    if not own.fits(len(inputs)):
        raise OpError(own.misfit(len(inputs)), code="E208")
    outputs: tuple[Spec, ...] = as_tuple(op.infer(*(s.certain() for s in inputs)))
    if len(outputs) > FEW_OUTPUTS:
        work.take(work.PER_TENSOR * len(outputs))
    for spec in outputs:
        if any(isinstance(d, int) and d < 0 for d in spec.shape or ()):
            raise OpError(f"its output would be {format_shape(spec.shape)}", code="E305")
    known = [o for o in outputs if o.value is not None]
    if known and not work.room(sum(map(size_in_units, known))):
        return tuple(o.without_value() for o in outputs)
    if not inputs or inputs[0].value is None:  # most nodes read data first
        return outputs
    if len(known) < len(outputs) and all(s.value is not None for s in inputs):
        return _with_values(op, inputs, outputs)
    return outputs


def _with_values(op: Op, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    whole = all(s.known is not None for s in inputs)
    silent = not op.pure or not op.folds or type(op).evaluate is Op.evaluate
    if silent or (not whole and not op.partial):
        return outputs
    if any(o.dtype is None or not is_small(o) for o in outputs):
        return outputs
    if not work.room(effort(op, inputs, outputs)):
        return outputs
    try:
        with np.errstate(all="ignore"), plain():
            given: list[Any] = [s.value for s in inputs]
            values = [np.asarray(v) for v in as_tuple(op.fold(*given))]
            unsure = any(s.unsure for s in inputs)
            unsure |= whole and not all(is_certain(op, given, v) for v in values)
            if not whole:
                pairs = zip(outputs, values, strict=True)
                values = [settled(op.type, o.dtype, v) if o.dtype else v for o, v in pairs]
    except OpError:
        raise
    except MemoryError:  # running it reports that
        return outputs
    except (TypeError, ValueError, ArithmeticError, IndexError) as e:
        if whole:
            raise OpError(f"{op.type} of these constants fails: {e}", code="E305") from e
        return outputs
    return tuple(
        o
        if o.value is not None or o.dtype is None
        else dataclasses.replace(o, value=low_bits(simplify(v, o.dtype), o.dtype), unsure=unsure)
        for o, v in zip(outputs, values, strict=True)
    )


@dataclass(frozen=True)
class Ports:
    """The input ports of an operation: names, how many are required, whether more may follow."""

    names: tuple[str, ...]
    required: int
    variadic: bool

    def fits(self, count: int) -> bool:
        """Whether an operation may have `count` inputs."""
        return self.required <= count and (self.variadic or count <= len(self.names))

    def misfit(self, count: int) -> str:
        """Say why an operation may not have `count` inputs."""
        given = f"it has {errors.count(count, 'input')}"
        if count < self.required:
            more = ("one or more",) if self.required > len(self.names) else ()
            needed = ", ".join((*self.names[: self.required], *more))
            return f"{given}, but needs {self.required}: {needed}"
        return f"{given}, but takes {len(self.names)} at most: {', '.join(self.names) or 'none'}"

    def name(self, port: int) -> str:
        """Return the port's name: `data`, `filter`, ... or `input 3`."""
        return self.names[port] if port < len(self.names) else f"input {port}"


@per_class
def ports(cls: type[Op]) -> Ports:
    """Return the input ports: the declared ones, else those of `infer` (of a SugarOp `expand`)."""
    if cls.signature:
        declared = declaration(cls.signature).inputs
        named = [p for p in declared if p.mark not in ("*", "+")]
        required = sum(p.mark in ("", "+") for p in declared)
        return Ports(tuple(p.name for p in named), required, len(named) < len(declared))
    sugar = issubclass(cls, SugarOp) and cls.infer is SugarOp.infer
    rule: Any = cls.expand if sugar else cls.infer  # type: ignore[attr-defined]
    parameters = list(inspect.signature(rule).parameters.values())
    parameters = parameters[2 if sugar else 1 :]
    names: list[str] = []
    required, variadic = 0, False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            variadic = True
            required += not names  # a list of inputs alone is never empty
            continue
        names.append(p.name)
        required += p.default is p.empty
    return Ports(tuple(names), required, variadic)


REGISTRY: dict[tuple[str, str], type[Op]] = {}
TYPES: dict[str, list[type[Op]]] = {}


@dataclass_transform(frozen_default=True)
def op(
    type: str,
    version: str | None = None,
    *,
    since: int = 1,
    until: int = LAST_OPSET,
    without: tuple[int, ...] = (),
    aliases: tuple[str, ...] = (),
    standard: bool = True,
) -> Callable[[C], C]:
    """Register a class as the operation `type` of opset `since`..`until`, or of `version` alone.

    `without` are opsets in between that lack it.
    """

    def register(cls: C) -> C:
        # A class without attributes of its own has all that dataclass would make of it, from its
        # base: to make it anew for every such operation takes a good part of a short command.
        operation: Any = dataclass(frozen=True)(cls) if _declares(cls) else cls
        hinted_calls(operation)
        if not (cls.__doc__ or "").strip() or cls.__doc__ == Op.__doc__:
            raise TypeError(f"operation {type} has no docstring")
        operation.type = type
        numbers = (n for n in range(since, until + 1) if n not in without)
        operation.versions = (version,) if version else tuple(f"opset{n}" for n in numbers)
        operation.version = operation.versions[0]
        operation.standard = standard
        for spelled in (type, *aliases):
            for v in operation.versions:
                if (spelled, v) in REGISTRY:
                    raise TypeError(f"{spelled} {v} is registered twice")
                REGISTRY[spelled, v] = operation
        TYPES.setdefault(type, []).append(operation)
        # pickle looks a class up in its module, those too that a function makes.
        vars(sys.modules[cls.__module__]).setdefault(cls.__name__, operation)
        attributes(operation)  # a field of a type that XML cannot spell fails here
        return cls if operation is cls else operation  # type: ignore[no-any-return]

    return register


def _declares(cls: type[Op]) -> bool:
    """Whether a class declares an attribute, or has those of several; not just its base's."""
    said = vars(cls).get("__annotations__", {}).values()
    own = [text for text in said if not str(text).startswith("ClassVar")]
    return bool(own) or len(cls.__bases__) > 1


def lookup(type: str, version: str) -> type[Op] | None:
    """Return the operation's class, or None."""
    return REGISTRY.get((type, version))
