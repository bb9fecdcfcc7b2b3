"""One ONNX node as rules see it: names, types, tensors, shapes; the registry of rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeVar

import numpy as np

from irdeconv.base import work
from irdeconv.base.extras import needed
from irdeconv.formats.importing import ImportBuilder, MakeOp, Refusal, SourceNode, one_operation
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.graph import Graph, Value, producers_first
from irdeconv.ir.op import Op
from irdeconv.ir.spec import DYNAMIC, Array, Shape, Spec

# TensorProto.DataType by name; complex numbers and the FNUZ types have no counterpart.
_BY_ONNX_NAME = dict(
    pair.split("=")
    for pair in """
        FLOAT=f32 DOUBLE=f64 FLOAT16=f16 BFLOAT16=bf16 FLOAT8E4M3FN=f8e4m3 FLOAT8E5M2=f8e5m2
        FLOAT8E8M0=f8e8m0 FLOAT4E2M1=f4e2m1 INT64=i64 INT32=i32 INT16=i16 INT8=i8 INT4=i4
        UINT64=u64 UINT32=u32 UINT16=u16 UINT8=u8 UINT4=u4 UINT2=u2 BOOL=boolean
        STRING=string
    """.split()
)


# The same as the schemas of operations spell them.
SCHEMA_TYPES = {f"tensor({k.lower()})": ELEMENT_TYPES[v] for k, v in _BY_ONNX_NAME.items()}


def onnx_module(name: str = "onnx", *names: str) -> Any:
    """Import a module of the package onnx; UnsupportedError if it is missing or broken."""
    return needed("reading ONNX models", name, *names)


def element_type(number: int) -> ElementType:
    """Return the element type of a TensorProto.DataType; Refusal if there is none."""
    name = _type_names().get(number, str(number))
    if name not in _BY_ONNX_NAME:
        raise Refusal(f"the element type {name} is not covered")
    return ELEMENT_TYPES[_BY_ONNX_NAME[name]]


@cache
def _type_names() -> dict[int, str]:
    return {v: k for k, v in onnx_module().TensorProto.DataType.items()}


def onnx_type(dtype: ElementType) -> int:
    """Return the TensorProto.DataType of an element type; Refusal if ONNX has none."""
    name = next((k for k, v in _BY_ONNX_NAME.items() if v == dtype.name), None)
    if name is None:
        raise Refusal(f"ONNX has no element type {dtype}")
    number: int = onnx_module().TensorProto.DataType.Value(name)
    return number


def to_array(tensor: Any) -> tuple[Array, ElementType]:
    """Return the values of a TensorProto in their container, and the element type.

    Raises Refusal for types without a counterpart, ValueError if the data does not fit the
    shape or was left in another file.
    """
    helper = onnx_module("onnx.numpy_helper")
    dtype = element_type(tensor.data_type)
    if tensor.data_location == tensor.EXTERNAL:
        raise ValueError("its data lies in another file, which was not read")
    if tensor.HasField("segment"):
        raise ValueError("it is a segment of a tensor, which is not covered")
    shape = list(tensor.dims)
    if any(d < 0 for d in shape):
        raise ValueError(f"its shape {shape} has a negative dimension")
    try:
        values = helper.to_array(tensor)
    except (ValueError, TypeError):
        raise ValueError(f"its data do not fill the shape {shape} of {dtype}") from None
    if dtype.kind == "string":
        # Not values.flat, which stops at 32 axes.
        text = [v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in values.reshape(-1)]
        out = np.empty(len(text), object)
        out[:] = text
        return out.reshape(values.shape), dtype
    return np.asarray(values).astype(dtype.container, copy=False), dtype


def initializers(graph: Any) -> dict[str, Any]:
    """Return the initializers of a GraphProto as TensorProtos; sparse ones filled with zeros.

    A sparse one has no data if they cannot be read, or take more work than is left.
    """
    out = {t.name: t for t in graph.initializer}
    for sparse in graph.sparse_initializer:
        name, kind, dims = sparse.values.name, sparse.values.data_type, list(sparse.dims)
        out[name] = onnx_module().TensorProto(name=name, data_type=kind, dims=dims)
        with suppress(Refusal, ValueError, IndexError):
            (values, dtype), (at, _) = to_array(sparse.values), to_array(sparse.indices)
            if min(dims) >= 0 and work.room(math.prod(dims) * dtype.container.itemsize):
                full = np.zeros(dims, values.dtype)
                full[tuple(at.T) if at.ndim == 2 else np.unravel_index(at, dims)] = values
                out[name] = onnx_module("onnx.numpy_helper").from_array(full, name)
    return out


def declared_shape(tensor: Any) -> Shape | None:
    """Return the shape of a TypeProto.Tensor: symbols and unset dimensions are open."""
    if not tensor.HasField("shape"):
        return None
    return tuple(
        int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else DYNAMIC
        for d in tensor.shape.dim
    )


def set_shape(tensor: Any, shape: Iterable[Any]) -> Any:
    """Give a TypeProto.Tensor a shape, whose dimensions are open but for integers; return it."""
    tensor.ClearField("shape")
    tensor.shape.SetInParent()
    for d in shape:
        dim = tensor.shape.dim.add()
        if isinstance(d, int):
            dim.dim_value = d
    return tensor


def type_proto(builder: ImportBuilder, value: Any) -> Any:
    """Return the TypeProto of a value; an empty one for anything else than a tensor."""
    out = onnx_module().TypeProto()
    if not isinstance(value, Value):
        return out
    out.tensor_type.elem_type = onnx_type(builder.dtype(value))
    shape = builder.spec(value).shape
    if shape is not None:
        set_shape(out.tensor_type, shape)
    return out


NHWC = "com.ms.internal.nhwc"
STANDARD = ("", "ai.onnx")  # the two spellings of ONNX's own domain
Item = TypeVar("Item")


@dataclass(frozen=True)
class ValueSequence:
    """A sequence of tensors whose length is known while importing."""

    items: tuple[Value, ...]


Found = Value | ValueSequence
Outputs = Found | tuple[Found, ...]


@dataclass(frozen=True)
class Entry:
    """An input of a body: a Parameter of a spec, or a constant; `axis` is hidden."""

    spec: Spec
    axis: int | None = None
    constant: Array | None = None


@dataclass(frozen=True)
class ImportedBody:
    """A body: Parameters by input (None: a constant), Results by output, captured Parameters."""

    graph: Graph
    parameters: tuple[int | None, ...]
    results: tuple[int, ...]
    captured: tuple[tuple[int, Value], ...]

    def spec(self, output: int) -> Spec:
        """Return the spec of an output."""
        return self.graph.node(self.results[output]).spec()


class Bodies(Protocol):
    """The reader's methods for rules of control operations."""

    def graph(
        self, body: Any, entries: Sequence[Entry], axes: Mapping[int, int | None] | None = None
    ) -> ImportedBody:
        """Import a GraphProto; outputs of `axes` get one of size 1 there, or lose all (None)."""

    def branches(self, bodies: Sequence[Any]) -> list[ImportedBody | str]:
        """Import GraphProtos without inputs; one that does not fit is its error, unless all are."""

    def inline(self, body: Any, inputs: Sequence[Found] = ()) -> tuple[Found, ...]:
        """Import the nodes of a GraphProto in place; return its outputs."""


@dataclass(kw_only=True)
class OnnxNode(SourceNode):
    """A node: type, version of the operation, output names; `remarks` become warnings."""

    type: str
    version: int
    outputs: tuple[str, ...]
    bodies: Bodies
    sequences: Mapping[int, ValueSequence] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def input(self, at: int) -> Value | None:
        """Return an optional input, a tensor."""
        if at in self.sequences:
            raise Refusal(f"input {at} is a sequence, not a tensor")
        return super().input(at)

    def sequence(self, at: int) -> tuple[Value, ...]:
        """Return the items of an input that is a sequence."""
        if at not in self.sequences:
            raise Refusal(f"input {at} is no sequence")
        return self.sequences[at].items

    def _take(self, name: str, default: Any, want: Any) -> Any:
        self.asked.add(name)
        found = self.attributes.get(name, default)
        if found is not default and not isinstance(found, want):
            raise Refusal(f"the attribute {name} is {type(found).__name__}, not {want.__name__}")
        return found

    def get(self, name: str, default: Any = None, want: Any = object) -> Any:
        """Return an attribute, which must be of the type; without a default it is required."""
        self._take(name, default, want)
        return super().get(name, default)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute; without a default it is required."""
        return int(self.get(name, default, int))

    def flag(self, name: str, default: bool) -> bool:
        """Return an integer attribute that is 0 or 1; of others runtimes make either."""
        found = self.integer(name, default)
        if found not in (0, 1):
            raise Refusal(f"{name}={found} is neither 0 nor 1")
        return bool(found)

    def element(self, name: str, default: ElementType) -> ElementType:
        """Return an attribute that is a TensorProto.DataType; 0 is the default."""
        wanted = self.integer(name, 0)
        return element_type(wanted) if wanted else default

    def meaning(self, name: str, default: str, words: Mapping[str, Any]) -> Any:
        """Return the meaning of a text attribute; refuse every other word."""
        text = self.text(name, default)
        if text not in words:
            raise Refusal(f"{name}={text} is not covered")
        return words[text]

    def choice(self, name: str, words: str) -> Any:
        """Return a text attribute that is one of the words, the first one by default."""
        known = {word: word for word in words.split()}
        return self.meaning(name, next(iter(known)), known)

    def ints(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return a list of integers."""
        return _all_of(int, name, self._take(name, default, tuple))

    def vector(self, b: ImportBuilder, name: str, at: int, since: int) -> Value | None:
        """Return optional integers: an attribute before the version `since`, then an input."""
        if self.version >= since:
            return self.input(at)
        return b.ints(*self.ints(name)) if name in self else None

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of floating-point numbers."""
        return _all_of(float, name, self._take(name, (), tuple))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return _all_of(str, name, self._take(name, (), tuple))

    def body(self, name: str) -> Any:
        """Return a GraphProto, which is required."""
        return self.get(name, None, onnx_module().GraphProto)

    def tensor(self, name: str) -> Any:
        """Return a TensorProto; None if it is missing."""
        return self._take(name, None, onnx_module().TensorProto)

    def only(self, name: str, value: Any, why: str = "") -> None:
        """Refuse every other value of an attribute than its default `value`."""
        self.asked.add(name)
        found = self.attributes.get(name, value)
        if found != value:
            raise Refusal(f"{name}={found} is not covered{why and '; ' + why}")

    def axis(self, b: ImportBuilder, x: Value, name: str = "axis", default: int = 0) -> int:
        """Return an axis attribute counted from 0."""
        return wrap(self.integer(name, default), b.rank(x), name)

    def known(self, b: ImportBuilder, at: int, what: str) -> Array | None:
        """Return the value of an optional input that must be a constant; None without it."""
        found = self.input(at)
        return None if found is None else b.need(found, what)

    def scalar(self, b: ImportBuilder, at: int, default: float, like: Value | None = None) -> Value:
        """Return an optional input of one element, else a default as i64 or as in `like`."""
        found = self.input(at)
        if found is not None:
            return b.as_scalar(found)
        return b.scalar(default) if like is None else b.like(default, like)

    def wants(self, output: int) -> bool:
        """Whether an output is used under a name."""
        return output < len(self.outputs) and bool(self.outputs[output])


def _all_of(kind: type[Item], name: str, found: tuple[Any, ...]) -> tuple[Item, ...]:
    """Return a list attribute; refuse one with items of another kind."""
    for item in found:
        if not isinstance(item, kind):
            others = type(item).__name__
            raise Refusal(f"the attribute {name} is a list of {others}, not of {kind.__name__}")
    return found


def wrap(axis: int, rank: int, what: str = "axis") -> int:
    """Return an axis counted from 0; refuse one outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise Refusal(f"{what} is {axis}, but the rank is {rank}")
    return axis + rank if axis < 0 else axis


def require_one_length(**lists: Sequence[Any]) -> None:
    """Raise Refusal if lists that belong together differ in length."""
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise Refusal(f"numbers of values differ: {said}")


Rule = Callable[[OnnxNode, ImportBuilder], Outputs]


@dataclass(frozen=True)
class Coverage:
    """A rule and the versions of the operation that it is right for."""

    rule: Rule
    versions: frozenset[int]


RULES: dict[tuple[str, str], Coverage] = {}


def rule(types: str, versions: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Register a rule for operation types and versions, both lists of words."""

    def register(fn: Rule) -> Rule:
        for type in types.split():
            if (domain, type) in RULES:
                raise TypeError(f"{type} has two rules")
            RULES[domain, type] = Coverage(fn, frozenset(map(int, versions.split())))
        return fn

    return register


def plain(types: str, versions: str, op: Op | MakeOp[OnnxNode], inputs: int | None = 1) -> None:
    """Register an operation of the first inputs as they are (None: of all)."""
    rule(types, versions)(one_operation(op, inputs))


ATTRIBUTE_KINDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings"}


@dataclass(kw_only=True)
class Names:
    """A graph, a body of a node or a function's definition: opsets by domain, tensors by name.

    A value of None could not be imported; `tensors` are initializers that nothing has used yet;
    `absent` are inputs of a function that its caller left out, `attributes` those that it gave.
    `prefix` begins the names of layers, `title` messages about them; `owner` is the layer of the
    model, if these are inside one, `depth` functions deep. Names that are not here are looked up
    in `outer`; `capture` brings a value from there into a graph of its own.
    """

    builder: ImportBuilder
    opsets: Mapping[str, int]
    values: dict[str, Found | None] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ""
    title: str = ""
    owner: str = ""
    depth: int = 0
    outer: Names | None = None
    body: Any = None  # the GraphProto or FunctionProto itself
    capture: Callable[[Value], Value] | None = None

    def opset(self, domain: str) -> int:
        """Return the version of a domain's operation set, 0 if none is named."""
        return int(self.opsets.get(domain, 0))

    def knows(self, name: str) -> bool:
        """Whether a tensor of this name was met."""
        here = name in self.values or name in self.tensors
        return here or (self.outer is not None and self.outer.knows(name))

    def lacks(self, name: str) -> bool:
        """Whether a name is that of an input which the caller of the function left out."""
        return name in self.absent or (self.outer is not None and self.outer.lacks(name))

    def given(self, node: Any) -> dict[str, Any]:
        """Return a node's attributes; one that refers to a function's is that of the caller."""
        pairs = (
            (a.name, self.attributes.get(a.ref_attr_name) if a.ref_attr_name else a)
            for a in node.attribute
        )
        return {name: source for name, source in pairs if source is not None}


def opsets_of(imports: Sequence[Any]) -> dict[str, int]:
    """Return the operation sets that a model or function names, by domain."""
    return {standard(i.domain): int(i.version) for i in imports}


def standard(domain: str) -> str:
    """Return a domain; ONNX's own has two spellings."""
    return "" if domain in STANDARD else domain


def overload(message: Any) -> str:
    """Return the overload of a function or call; older packages have none."""
    return str(getattr(message, "overload", ""))


def plain_attribute(a: Any) -> Any:
    """Return an attribute as int, float, str, a tuple of them, a TensorProto or a GraphProto."""
    field_name = ATTRIBUTE_KINDS.get(a.type)
    if field_name is None:
        return a
    value = getattr(a, field_name)
    if field_name == "s":
        return value.decode("utf-8", "replace")
    if field_name == "strings":
        return tuple(v.decode("utf-8", "replace") for v in value)
    return tuple(value) if field_name in ("floats", "ints") else value


def bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the graphs that a node holds, with the names of their attributes."""
    for a in node.attribute:
        if a.HasField("g"):
            yield a.name, a.g
        for at, body in enumerate(a.graphs):
            yield f"{a.name}[{at}]", body


def first_output(node: Any) -> str:
    """Return the name of a node's first output that has one."""
    return next((str(o) for o in node.output if o), "")


def title_of(node: Any) -> str:
    """Return the readable name of a node: its own, else that of its first output."""
    return str(node.name or first_output(node) or node.op_type)


def read_by(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, those that its bodies take from outside included."""
    yield from (i for i in node.input if i)
    for _, body in bodies(node):
        made = own_names(body)
        yield from (i for n in body.node for i in read_by(n) if i not in made)
        yield from (o.name for o in body.output if o.name not in made)


def own_names(body: Any) -> set[str]:
    """Return the names of the tensors that a GraphProto makes or is given itself."""
    sparse = (s.values for s in body.sparse_initializer)
    own = {i.name for i in (*body.input, *body.initializer, *sparse)}
    return own | {o for n in body.node for o in n.output}


def in_order(nodes: Sequence[Any]) -> list[Any]:
    """Return nodes after those that they read, else in order; circles are left out."""
    makers = {o: at for at, n in enumerate(nodes) for o in n.output if o}
    waits = [{makers[i] for i in read_by(n) if i in makers} for n in nodes]
    return [nodes[at] for at in producers_first(waits)]
