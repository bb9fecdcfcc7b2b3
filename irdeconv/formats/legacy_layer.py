"""One legacy layer as rules see it: attributes, blobs, declared outputs; the registry of rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from irdeconv.formats.activations import MakeOp, one_operation
from irdeconv.formats.document import NoWeights, XmlPort, integer
from irdeconv.formats.importing import ImportBuilder, Refusal, SourceNode, operation
from irdeconv.formats.legacy_grammar import Blob
from irdeconv.ir.attributes import attributes, parse_float
from irdeconv.ir.constant import ArrayData, ConstantData, FileData
from irdeconv.ir.dtypes import BY_PRECISION, ElementType, boolean, f16, f32, i32, i64
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op, lookup
from irdeconv.ir.spec import Spec, is_static
from irdeconv.ops.basic import Const
from irdeconv.ops.convert import Convert

X = TypeVar("X")
Outputs = Value | tuple[Value, ...]
Ints = tuple[int, ...]
Usual = Mapping[str, Any]
Rule = Callable[["LegacyLayer", ImportBuilder], Outputs]
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_DRAWN = 1 << 30  # elements of one blob that are drawn
_COMPRESSED = '<rt_info><attribute name="decompression" version="0"/></rt_info>'


@dataclass(frozen=True)
class BlobSource:
    """Where blobs come from: the `.bin`, or random numbers where `seed` is given."""

    weights: NoWeights
    seed: int | None = None

    def data(self, blob: Blob, dtype: ElementType, shape: Ints, key: Sequence[int]) -> ConstantData:
        """Return the constant of a blob, or numbers drawn by seed and key; integers are 0."""
        if self.seed is None:
            if self.weights.size is not None:
                self.weights.read(blob.offset, blob.size)  # says where it lies outside
            return FileData(self.weights, blob.offset, blob.size, dtype, shape)
        size = math.prod(shape)
        if size > _DRAWN:
            raise Refusal(f"a random blob of {size} elements; the limit is {_DRAWN}")
        if not dtype.is_real:
            return ArrayData.of(np.zeros(shape, dtype.container), dtype)
        rng = np.random.default_rng([self.seed, *key])
        drawn = rng.standard_normal(shape) / math.sqrt(max(1, size // max(shape, default=1)))
        return ArrayData.of(np.asarray(drawn, dtype.container), dtype)


@dataclass(kw_only=True)
class LegacyLayer(SourceNode):
    """A layer: its type in lower case, number and precision, blobs, declared outputs.

    Types, choices and truth values are compared without regard to case. `declared` are the specs
    of the outputs, of f32 where the file says FP16: blobs stay f16, computed is in f32, as the
    CPU always did. `iterate` builds what has a body.
    """

    kind: str
    id: int
    precision: ElementType
    blobs: dict[str, Blob]
    declared: tuple[Spec, ...]
    source: BlobSource
    iterate: Rule | None = None
    used: set[str] = field(default_factory=set)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an attribute's text; without a default it is required."""
        self.asked.add(name)
        found = self.attributes.get(name, default)
        if found is None:
            raise Refusal(f"the attribute {name} is missing")
        return str(found).strip()

    def number(self, name: str, default: float | None = None) -> float:
        """Return a floating-point attribute."""
        return self._parsed(name, self.text(name, _as_text(default)), parse_float)

    def finite(self, name: str, default: float | None = None) -> float:
        """Return a floating-point attribute that is neither infinite nor NaN."""
        found = self.number(name, default)
        if not math.isfinite(found):
            raise Refusal(f"{name} is {found}")
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; a number without a fraction is one."""
        return self._parsed(name, self.text(name, _as_text(default)), _integer)

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """Return a list of floating-point numbers."""
        return self._list(name, default, parse_float)

    def ints(self, name: str, default: Sequence[int] | None = None) -> Ints:
        """Return a list of integers."""
        return self._list(name, default, _integer)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return a truth value."""
        text = self.text(name, None if default is None else str(int(default))).lower()
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        return self.number(name) != 0

    def word(self, name: str, default: str, allowed: str) -> str:
        """Return one of the allowed words; a prefix as in caffe.ResampleParameter. is dropped."""
        text = self.text(name, default)
        for choice in allowed.split():
            if choice.lower() == text.rpartition(".")[2].lower():
                return choice
        raise Refusal(f'{name}="{text}" is not covered; it is one of {allowed}')

    def only(self, name: str, value: float, why: str) -> None:
        """Refuse every other value of an attribute than what its absence means."""
        if self.number(name, value) != value:
            raise Refusal(f"{name}={self.text(name)} is not covered: {why}")

    def ignore(self, *names: str) -> None:
        """Say of attributes that they change nothing."""
        self.asked |= set(names)

    def same(self, kind: str, version: str, usual: Usual | None = None, **fixed: Any) -> Op:
        """Return an operation whose attributes, but for the `fixed`, have the layer's names.

        Absent ones have the `usual` values, else the operation's; those that the specification
        requires are required here, too.
        """
        read: dict[str, Callable[..., Any]] = {
            "boolean": self.flag,
            "integer": self.integer,
            "integers": self.ints,
            "number": self.number,
            "numbers": self.numbers,
        }
        for a in attributes(_class_of(kind, version)).values():
            if a.xml not in fixed:
                default = None if a.required or a.documented else a.default
                take = read.get(a.kind.label, self.text)
                fixed[a.xml] = take(a.xml, (usual or {}).get(a.xml, default))
        return standard(kind, version, **fixed)

    def _list(
        self, name: str, default: Sequence[X] | None, parse: Callable[[str], X]
    ) -> tuple[X, ...]:
        if name not in self and default is not None:
            self.asked.add(name)
            return tuple(default)
        texts = [t for t in self.text(name).split(",") if t.strip()]
        return tuple(self._parsed(name, t.strip(), parse) for t in texts)

    def _parsed(self, name: str, text: str, parse: Callable[[str], X]) -> X:
        try:
            return parse(text)
        except (ValueError, OverflowError):
            raise Refusal(f'{name}="{text}" is no number') from None

    @property
    def left(self) -> list[str]:
        """Attributes that no rule has asked for."""
        return sorted(set(self.attributes) - self.asked)

    @property
    def shape(self) -> Ints:
        """The declared shape of the first output."""
        return self.shapes[0]

    @property
    def shapes(self) -> tuple[Ints, ...]:
        """The declared shapes of the outputs, which are exact."""
        exact = [s.shape for s in self.declared if is_static(s.shape)]
        if not exact or len(exact) < len(self.declared):
            raise Refusal("an output has no exact shape")
        return tuple(exact)

    def axis(self, b: ImportBuilder, x: Value, name: str = "axis", default: int = 1) -> int:
        """Return an axis attribute counted from 0."""
        axis, rank = self.integer(name, default), b.rank(x)
        if not -rank <= axis < rank:
            raise Refusal(f"{name}={axis} is no axis of {rank} dimensions")
        return axis % rank

    def elements(self, name: str) -> int:
        """Return how many elements a blob has; 0 where there is none."""
        blob = self.blobs.get(name)
        return 0 if blob is None else blob.size * 8 // max(self._type(blob).bits, 1)

    def blob(self, b: ImportBuilder, name: str, shape: Ints) -> Value:
        """Add the constant of a blob, decompressed where it is f16."""
        value = self.optional(b, name, shape)
        if value is None:
            raise Refusal(f"it has no {name}")
        return value

    def optional(self, b: ImportBuilder, name: str, shape: Ints) -> Value | None:
        """Add the constant of a blob; None where the layer has none."""
        blob = self.blobs.get(name)
        if blob is None or not blob.size:
            return None
        self.used.add(name)
        if min(shape, default=0) < 0:
            raise Refusal(f"{name} of shape {list(shape)}")
        dtype = self._type(blob)
        wanted = dtype.nbytes(math.prod(shape))
        if blob.size != wanted:
            raise Refusal(
                f"its {name} have {blob.size} bytes; {list(shape)} of {dtype} are {wanted}"
            )
        data = self.source.data(blob, dtype, shape, (self.id, sum(name.encode())))
        op = Const(element_type=dtype, shape=shape, data=data)
        made = b.keep(op)
        return decompressed(b, made) if dtype == f16 else made

    def _type(self, blob: Blob) -> ElementType:
        return self.precision if blob.precision is None else precision_of(blob.precision)


def _as_text(default: float | None) -> str | None:
    return None if default is None else str(default)


def _integer(text: str) -> int:
    number = parse_float(text)
    if not number.is_integer():
        raise ValueError(text)
    whole = integer(text)
    return int(number) if whole is None else whole


def precision_of(text: str) -> ElementType:
    """Return the element type that a precision names; I1, Q78 and the like have none."""
    found = BY_PRECISION.get(text.strip().upper())
    if found is None:
        raise Refusal(f"the precision {text} is not covered")
    return found


def decompressed(b: ImportBuilder, value: Value) -> Value:
    """Return an f16 constant as f32, so marked that runtimes keep it compressed."""
    made = b.keep(Convert(f32), value)
    b.graph.node(made.node).rt_info = _COMPRESSED
    return made


def computed(dtype: ElementType | None) -> ElementType | None:
    """Return the element type in which a layer of a declared one computes."""
    return f32 if dtype == f16 else dtype


def standard(kind: str, version: str, **values: Any) -> Op:
    """Return a standard operation by its attributes as the XML spells them."""
    return operation(_class_of(kind, version), values)


def _class_of(kind: str, version: str) -> type[Op]:
    cls = lookup(kind, version)
    if cls is None:
        raise Refusal(f"{kind} of {version} is not covered")
    return cls


def integers(b: ImportBuilder, value: Value) -> Value:
    """Return indices, sizes or axes as i64; older files hold them as floating-point numbers."""
    known = b.known(value)
    if known is not None and known.dtype != object:
        exact = known.dtype.kind in "biu"
        with np.errstate(all="ignore"):  # NaN, and f16 and f32 beyond their range
            fits = exact or bool((np.abs(known.astype(np.float64)) < 2.0**63).all())
        if not fits:
            raise Refusal("an index, a size or an axis is no number that 64 bits hold")
        return b.const(np.asarray(known, np.int64))
    return value if b.dtype(value) in (i32, i64) else b.convert(value, i64)


def exact_shape(port: XmlPort) -> Ints:
    """Return the shape that a port declares; old files know no open dimensions."""
    shape = tuple(d for d in map(integer, port.dims) if d is not None and 0 <= d < 2**63)
    if len(shape) < len(port.dims):
        raise Refusal(f"a port has the dimensions {', '.join(port.dims)}")
    return shape


def truth(b: ImportBuilder, value: Value) -> Value:
    """Return numbers as truth values: all but 0 are true."""
    return b.convert(value, boolean)


RULES: dict[str, Rule] = {}


def plain(kinds: str, op: Op | MakeOp[LegacyLayer], inputs: int | None = 1) -> None:
    """Register an operation of the first inputs as they are (None: of all)."""
    layer(kinds)(one_operation(op, inputs))


def layer(kinds: str) -> Callable[[Rule], Rule]:
    """Register a rule for layer types, a list of words."""

    def register(fn: Rule) -> Rule:
        for kind in kinds.split():
            RULES[kind.lower()] = fn
        return fn

    return register


def as_kind(n: LegacyLayer, kind: str) -> LegacyLayer:
    """Return a layer as one of another type, which shares what has been asked for."""
    return replace(n, kind=kind)
