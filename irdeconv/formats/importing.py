"""The common parts of importers: building, reporting, results, simple rules and activations.

The builder infers nodes and folds constants. Each replaced name stays unique and has a warning.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from irdeconv.base import errors, work
from irdeconv.base.limits import current, raise_hint
from irdeconv.base.source import Location
from irdeconv.formats.xml_writer import make_names_safe
from irdeconv.ir.dtypes import ElementType, i64
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph, Info, Node, Value
from irdeconv.ir.op import Op, infer_op, parse_attributes, require_fit
from irdeconv.ir.spec import Array, Shape, Spec, example_shape, is_static
from irdeconv.ops import activation, elementwise, movement
from irdeconv.ops.activation import Clamp, Elu, PReLU, SoftPlus
from irdeconv.ops.basic import Convert, Parameter, Result
from irdeconv.ops.bodies import BodyOp, infer_bodies, infer_plainly
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add, Divide, Greater, Multiply, Select, Subtract, Tanh
from irdeconv.ops.generation import Identity
from irdeconv.ops.movement import Broadcast, Concat, Reshape, ShapeOf, Transpose, Unsqueeze
from irdeconv.ops.reduction import ReduceProd
from irdeconv.ops.slicing import Gather, Slice
from irdeconv.rewrite.builder import GraphBuilder, remove_dead, unique_names
from irdeconv.rewrite.compressed_filters import constant

FOLD_LIMIT = 1 << 20  # a constant that folding would make is at most this long, or as its inputs
MOST_MADE = 1 << 24  # elements of a constant that an importer makes of sizes alone
R = TypeVar("R")


class Refusal(Exception):
    """An operation, attribute or input that an importer does not cover; names no node."""


class OpenSizeRefusal(Refusal):
    """A refusal that exact sizes of the model's inputs may avoid."""


class Reported(Exception):
    """Something inside a layer failed, and the report has it already."""


def source_node(name: str, location: Location | None) -> Node:
    """Return a GraphBuilder's source of names and places, for a layer that does not exist yet."""
    return Node(-1, Identity(), name, location)


@dataclass
class ImportBuilder(GraphBuilder):
    """Builds the nodes of one imported layer after the other; `begin` starts the next one."""

    checks: ClassVar[bool] = True
    # Names that tensors get at the end: thousands of one tensor, or of one node.
    bound: defaultdict[Value, list[str]] = field(default_factory=lambda: defaultdict(list))

    def inner(self, name: str) -> ImportBuilder:
        """Return a builder of a body of the layer `name`."""
        graph = Graph(Info(name=name, file=self.graph.info.file))
        return ImportBuilder(graph, source_node(name, self.source.location))

    def begin(self, name: str) -> None:
        """Start the nodes of the layer `name`."""
        self.source = source_node(name, self.source.location)
        self.made = []

    def add(self, op: Op, *inputs: Value) -> Value:
        """Add an operation; constants are folded if the result is not much longer than they."""
        require_fit(op)
        if inputs and all(constant(self.graph, v) is not None for v in inputs):
            specs = infer_op(op, tuple(self.spec(v) for v in inputs))
            longest = max((self.spec(v).size or 0 for v in inputs), default=0)
            if (specs[0].size or 0) > max(FOLD_LIMIT, 2 * longest):
                return self._node(op, inputs, specs)
        return super().add(op, *inputs)

    def outputs(self, op: Op, *inputs: Value) -> tuple[Value, ...]:
        """Add an operation with several outputs; nothing is folded."""
        require_fit(op)
        given = tuple(self.spec(v) for v in inputs)
        if isinstance(op, BodyOp):
            op, specs = infer_bodies(op, given, infer_plainly)
        else:
            specs = infer_op(op, given)
        node = self._node(op, inputs, specs).node
        return tuple(Value(node, port) for port in range(len(specs)))

    def _charge(self, units: int) -> None:
        """Take units of work for the source; LimitError if too few are left."""
        try:
            work.take(units)
        except errors.OpError as e:
            at, hint = self.source, e.problem.hint
            text, more = f'"{at.name}": {e}', (at.location, at.name)
            found = errors.Diagnostic("E602", "error", text, *more, hint=hint)
            raise errors.LimitError(found) from None

    def _node(self, op: Op, inputs: tuple[Value, ...], specs: tuple[Spec, ...]) -> Value:
        self._charge(work.IMPORTED * (4 if op.deconvolution else 1))
        return super()._node(op, inputs, specs)

    def room(self, *sizes: int) -> None:
        """Raise Refusal if an importer would make a constant of too many elements itself."""
        if max(sizes) > MOST_MADE:
            raise Refusal(f"it needs a constant of {max(sizes):,} elements, above {MOST_MADE:,}")
        self._charge(sum(sizes))

    def ints(self, *values: int) -> Value:
        """Add a vector of i64; Refusal for a number beyond its range."""
        try:
            return self.const(np.array(values, np.int64))
        except OverflowError:
            raise Refusal(f"not all of {list(values)} exist in i64") from None

    def scalar(self, value: Any, dtype: ElementType = i64) -> Value:
        """Add a scalar of an element type; numbers too large for a floating-point one are infinite.

        Raises Refusal for a number that an integer type does not have.
        """
        with np.errstate(over="ignore"):
            if dtype.kind not in ("int", "uint", "boolean"):
                return self.const(np.array(value, dtype.container))
        with suppress(OverflowError, ValueError):
            found = np.array(int(value), dtype.container)
            if found == value:
                return self.const(found)
        raise Refusal(f"the number {value} does not exist in {dtype}")

    def like(self, value: Any, x: Value) -> Value:
        """Add a scalar of the element type that `x` has."""
        return self.scalar(value, self.dtype(x))

    def known(self, value: Value) -> Array | None:
        """Return the value of a constant, or one that inference knows; else None."""
        found = constant(self.graph, value)
        return found if found is not None else self.spec(value).known

    def need(self, value: Value, what: str) -> Array:
        """Return a value that must be known while importing."""
        found = self.known(value)
        if found is None:
            raise OpenSizeRefusal(f"{what} is not a constant")
        return found

    def vector(self, value: Value, what: str) -> list[Any]:
        """Return the numbers of a vector that must be known while importing."""
        found = self.need(value, what)
        if found.ndim != 1:
            raise Refusal(f"{what} has rank {found.ndim}, not 1")
        return list(found.tolist())

    def dtype(self, value: Value) -> ElementType:
        """Return the element type."""
        found = self.spec(value).dtype
        if found is None:
            raise Refusal("the element type of an input is unknown")
        return found

    def shape(self, value: Value, least: int = 0) -> Shape:
        """Return the shape, whose dimensions may be open, of so many axes at `least`."""
        found = self.spec(value).shape
        if found is None:
            raise OpenSizeRefusal("the rank of an input is unknown")
        if len(found) < least:
            raise Refusal(f"an input has rank {len(found)}; at least {least} is needed")
        return found

    def rank(self, value: Value) -> int:
        """Return the number of axes."""
        return len(self.shape(value))

    def size(self, value: Value, axis: int, what: str = "") -> int:
        """Return the size of an axis, which must be exact; `what` follows the axis in a message."""
        found = self.shape(value, 1)[axis]
        if not isinstance(found, int):
            raise OpenSizeRefusal(f"axis {axis} of open size{what}")
        return found

    def static(self, value: Value, what: str, least: int = 0) -> tuple[int, ...]:
        """Return a shape that must be exact, of so many axes at `least`."""
        found = self.shape(value, least)
        if not is_static(found):
            raise OpenSizeRefusal(f"{what} has open dimensions")
        return found

    def reshape(self, value: Value, shape: Value | Sequence[int]) -> Value:
        """Reshape to a vector, or to exact numbers, of which one may be -1."""
        target = shape if isinstance(shape, Value) else self.ints(*shape)
        return self.add(Reshape(special_zero=False), value, target)

    def plus(self, x: Value, y: Value | None) -> Value:
        """Add an optional tensor."""
        return x if y is None else self.add(Add(), x, y)

    def sub(self, x: Value, y: Value) -> Value:
        """Return x - y."""
        return self.add(Subtract(), x, y)

    def mul(self, x: Value, y: Value) -> Value:
        """Return x * y."""
        return self.add(Multiply(), x, y)

    def div(self, x: Value, y: Value) -> Value:
        """Return x / y; of integers the quotient that is rounded down."""
        return self.add(Divide(), x, y)

    def scaled(self, x: Value, factor: float) -> Value:
        """Multiply by a number."""
        return self.mul(x, self.like(factor, x))

    def times(self, x: Value, factor: float) -> Value:
        """Multiply by a number, unless it is 1."""
        return x if factor == 1 else self.scaled(x, factor)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """Return the elements of x if the condition holds, else those of y."""
        return self.add(Select(), condition, x, y)

    def take(self, x: Value, indices: Value, axis: int) -> Value:
        """Return the elements or slices at indices of an axis."""
        return self.add(Gather(), x, indices, self.scalar(axis))

    def squeeze(self, x: Value, *axes: int) -> Value:
        """Remove axes of size 1."""
        return self.add(movement.Squeeze1(), x, self.ints(*axes))

    def unsqueeze(self, x: Value, *axes: int) -> Value:
        """Insert axes of size 1."""
        return self.add(Unsqueeze(), x, self.ints(*axes))

    def slice(self, x: Value, *rows: Sequence[int]) -> Value:
        """Return a part of x by its starts, stops, steps and axes."""
        return self.add(Slice(), x, *(self.ints(*row) for row in rows))

    def broadcast(self, x: Value, shape: Value) -> Value:
        """Repeat x to fill a shape."""
        return self.add(Broadcast("numpy"), x, shape)

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Transpose, unless the order changes nothing."""
        same = list(order) == list(range(len(order)))
        return x if same else self.add(Transpose(), x, self.ints(*order))

    def channels_first(self, x: Value) -> Value:
        """Move the last axis behind the first one."""
        rank = self.rank(x)
        return self.permute(x, (0, rank - 1, *range(1, rank - 1)))

    def channels_last(self, x: Value) -> Value:
        """Move axis 1 to the end."""
        return self.permute(x, (0, *range(2, self.rank(x)), 1))

    def as_scalar(self, value: Value, most_axes: float = 1) -> Value:
        """Return a one-element tensor without axes; it may have `most_axes`."""
        if self.rank(value) > most_axes:
            raise Refusal(f"a number has rank {self.rank(value)}")
        return value if self.rank(value) == 0 else self.reshape(value, ())

    def shape_of(self, value: Value) -> Value:
        """Return the shape as a vector of i64."""
        shape = self.spec(value).shape
        return self.ints(*shape) if is_static(shape) else self.add(ShapeOf(i64), value)

    def size_of(self, value: Value, axis: int) -> Value:
        """Return the size of an axis as a scalar of i64."""
        return self.take(self.shape_of(value), self.scalar(axis), 0)

    def convert(self, value: Value, dtype: ElementType) -> Value:
        """Return the value in another element type; itself if it has that type."""
        return value if self.dtype(value) == dtype else self.add(Convert(dtype), value)

    def flatten(self, value: Value, axis: int) -> Value:
        """Return a matrix: the axes before `axis` (from 0) become the rows."""
        shape = self.shape(value)
        if is_static(shape):
            return self.reshape(value, (math.prod(shape[:axis]), math.prod(shape[axis:])))
        if axis == 1:
            return self.add(Reshape(special_zero=True), value, self.ints(0, -1))
        sizes = [math.prod(s) if is_static(s) else 0 for s in (shape[:axis], shape[axis:])]
        if any(sizes):
            return self.reshape(value, [v or -1 for v in sizes])
        whole, first = self.shape_of(value), self.scalar(0)
        sides = range(axis), range(axis, len(shape))
        parts = [self.add(Gather(), whole, self.ints(*axes), first) for axes in sides]
        counts = [self.add(ReduceProd(keep_dims=True), p, self.ints(0)) for p in parts]
        return self.reshape(value, self.add(Concat(0), *counts))

    def convolution(self, x: Value, w: Value, groups: int, **lists: Any) -> Value:
        """Add a convolution of a filter [M, C/g, *K]; `lists` are strides, pads, dilations, ..."""
        if groups == 1:
            return self.add(Convolution(**lists), x, w)
        m, *rest = self.static(w, "the filter", 1)
        if groups < 1 or m % groups:
            raise Refusal(f"{m} output channels do not divide into {groups} groups")
        return self.add(GroupConvolution(**lists), x, self.reshape(w, (groups, m // groups, *rest)))

    def per_channel(self, values: Value, axes: int) -> Value:
        """Return one value for each channel as it broadcasts to data of so many spatial axes."""
        return self.reshape(values, (1, -1, *(1,) * axes))

    def stand_in(self, name: str, spec: Spec) -> Value:
        """Add an input of a body for a value of this type and shape from outside."""
        if spec.dtype is None:
            raise Refusal("the element type of an input is unknown")
        return self.parameter(name, spec.dtype, spec.shape)

    def parameter(self, name: str, dtype: ElementType, shape: Shape | None) -> Value:
        """Add a model input."""
        self._charge(work.IMPORTED)
        op, specs = Parameter(shape=shape, element_type=dtype), (Spec(dtype, shape),)
        node = self.graph.add(op, name=name, location=self.source.location, specs=specs)
        node.tensor_names = ((name,),)
        return Value(node.id)

    def constant(self, name: str, array: Array, dtype: ElementType) -> Value:
        """Add a named constant; its place and origin are those of the model."""
        value = self.const(array, dtype)
        node = self.graph.node(value.node)
        node.name, node.origins, node.tensor_names = name, (), ((name,),)
        self.made.remove(node.id)
        return value

    def own(self, value: Value, *, layer: str) -> None:
        """Give the node of `value`, if it was made since `begin`, the layer's name."""
        if value.node in self.made:
            node = self.graph.node(value.node)
            node.name, node.origins = layer, ()

    def bind(self, value: Value, name: str, *, alone: bool) -> Value:
        """Give a value a tensor name; with `alone` a named value is copied to have just this."""
        node, names = self.graph.node(value.node), self.bound[value]
        if alone and (names or node.names_of(value.port)):
            copy = self.outputs(Identity(), value)[0]
            self.own(copy, layer=self.source.name)
            return self.bind(copy, name, alone=False)
        names.append(name)
        return value

    def result(self, value: Value, name: str) -> None:
        """Add a model output."""
        location, specs = self.source.location, (self.spec(value),)
        self.graph.add(Result(), [value], name=f"{name}/result", location=location, specs=specs)

    def finish(self) -> None:
        """Drop nodes that no output needs; the others count as layers of the model, not as made."""
        ports: defaultdict[int, dict[int, list[str]]] = defaultdict(dict)
        for value, names in self.bound.items():
            ports[value.node][value.port] = names
        for number in filter(self.graph.__contains__, ports):
            node, more = self.graph.node(number), ports[number]
            width = max(len(node.tensor_names), 1 + max(more))
            node.tensor_names = tuple(
                (*node.names_of(port), *more.get(port, ())) for port in range(width)
            )
        remove_dead(self.graph, set())
        unique_names(self.graph)
        for node in self.graph.nodes():
            # A Pad that counts as made is split if OpenVINO could not compute it as one.
            node.origins = (node.name,) if node.type == "Pad" else ()


UNCOVERED = "E502"
ONLY_EXACT = "it needs an exact equivalent in standard operations; change it in the model"
# Operations raise these for unforeseen inputs; the error then names the node.
MISFITS = (ValueError, TypeError, ArithmeticError, IndexError, KeyError, AttributeError)
SHOWN_LAYERS = 3  # layers that a message names, of those that are uncovered alike
CHECK = "it may be cut off, damaged or edited: export it again where the model was made"


@dataclass
class Imported:
    """An imported model: the graph, how often each node type occurred, warnings.

    `format` names the source with its version, `kinds` counts node types, `files` are those that
    were read besides the model.
    """

    graph: Graph
    format: str
    kinds: Counter[str] = field(default_factory=Counter)
    diagnostics: list[errors.Diagnostic] = field(default_factory=list)
    files: tuple[Path, ...] = ()


@dataclass
class Report(errors.Collector):
    """Collects the errors of a model that is being imported."""

    location: Location | None = None
    error_count: int = 0

    def add(self, code: str, message: str, **more: Any) -> None:
        """Record a diagnostic; raises all of them if there are more errors than allowed."""
        super().add(code, message, **more)
        most = current().errors
        self.error_count += errors.severity_of(code) == "error"
        if self.error_count > most:
            text = f"more than {most:,} errors; what else the model has is not looked at"
            super().add("E601", text, location=self.location, hint=raise_hint("errors"))
            self.finish()

    def uncovered(self, layer: str, message: str, hint: str | None = None) -> None:
        """Record something that the importer does not cover."""
        self.add(UNCOVERED, message, location=self.location, layer=layer, hint=hint or ONLY_EXACT)

    def malformed(self, message: str, code: str = "E103", hint: str | None = None) -> None:
        """Record that the file is malformed."""
        self.add(code, message, location=self.location, hint=hint or CHECK)

    def finish(self) -> None:
        """Raise all errors: UnsupportedError first; wrong arguments alone are UsageError.

        Similar ones become one diagnostic, and of one code no more are kept than are shown.
        """
        kept = errors.Collector(most=current().reports)
        kept.take(merged(self.diagnostics))
        kept.count_rest()
        self.diagnostics = kept.diagnostics
        if not self.errors:
            return
        codes = {d.code for d in self.errors}
        kind: type[errors.IrdeconvError] = errors.InferenceError
        if codes == {"E310"}:
            kind = errors.UsageError
        elif UNCOVERED in codes:
            kind = errors.UnsupportedError
        elif any(c.startswith(("E1", "E20")) for c in codes):
            kind = errors.InputError
        raise kind(self.diagnostics)


def merged(diagnostics: Sequence[errors.Diagnostic]) -> list[errors.Diagnostic]:
    """Return diagnostics with one for all layers that are uncovered for the same reason.

    It has the place of the first and names some. In an exported network hundreds of layers often
    have the same operation that is not covered.
    """
    alike: dict[Any, list[errors.Diagnostic]] = {}
    for at, d in enumerate(diagnostics):
        named = f' "{d.layer}"'
        same = d.code == UNCOVERED and named in d.message
        key = (d.message.replace(named, "", 1), d.hint) if same else at
        alike.setdefault(key, []).append(d)
    out = []
    for key, found in alike.items():
        first = found[0]
        if len(found) > 1:
            names = ", ".join(f'"{d.layer}"' for d in found[:SHOWN_LAYERS])
            rest = f" and {len(found) - SHOWN_LAYERS} more" if len(found) > SHOWN_LAYERS else ""
            first = replace(first, message=f"{key[0]}: {names}{rest}")
        out.append(first)
    return out


def malformed(
    location: Location, message: str, hint: str | None = None, *, code: str = "E103"
) -> errors.InputError:
    """Return the error of a file that is not a model of its format."""
    found = errors.Diagnostic(code, "error", message, location, hint=hint or CHECK)
    return errors.InputError(found)


@dataclass(kw_only=True)
class SourceNode:
    """A node of another format: attributes, inputs (None: left out).

    `semantics` is the reading of deconvolutions. Attributes that no rule asks for are refused.
    """

    name: str
    attributes: dict[str, Any]
    inputs: tuple[Value | None, ...]
    semantics: Semantics = "runtime"
    asked: set[str] = field(default_factory=set)

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def input(self, at: int) -> Value | None:
        """Return an optional input."""
        return self.inputs[at] if at < len(self.inputs) else None

    def __getitem__(self, at: int) -> Value:
        found = self.input(at)
        if found is None:
            raise Refusal(f"input {at} is missing")
        return found

    @property
    def given(self) -> tuple[Value, ...]:
        """All inputs, none of which may be left out."""
        return tuple(self[i] for i in range(len(self.inputs)))

    def get(self, name: str, default: Any = None, want: Any = object) -> Any:
        """Return an attribute, `want` being its type; without a default it is required."""
        self.asked.add(name)
        found = self.attributes.get(name, default)
        if found is None:
            raise Refusal(f"the attribute {name} is missing")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """Return a floating-point attribute; without a default it is required."""
        return float(self.get(name, default, float))

    def text(self, name: str, default: object = None) -> str:
        """Return a text attribute; without a default it is required."""
        return str(self.get(name, default, str))

    def word(self, name: str, default: str, allowed: str) -> str:
        """Return one of the allowed words; a prefix as in caffe.ResampleParameter. is dropped."""
        text = self.text(name, default)
        for choice in allowed.split():
            if choice.lower() == text.rpartition(".")[2].lower():
                return choice
        raise Refusal(f'{name}="{text}" is not covered; it is one of {allowed}')

    def accept(self, *names: str) -> None:
        """Accept any attributes: they make no difference."""
        self.asked.update(names)

    @property
    def left(self) -> list[str]:
        """Attributes that no rule has read or accepted."""
        return sorted(set(self.attributes) - self.asked)

    def refuse_rest(self) -> None:
        """Refuse attributes that no rule has read or accepted."""
        if self.left:
            why = f"the attribute {', '.join(self.left)} is not covered"
            raise Refusal(errors.asking(why, self.left[0], self.asked - set(self.attributes), 0.8))


def registrar(
    rules: dict[str, R], key: Callable[[str], str] = str
) -> Callable[[str], Callable[[R], R]]:
    """Return the decorator that registers a rule for kinds, a list of words."""

    def register(kinds: str, rule: R) -> R:
        rules.update(dict.fromkeys(map(key, kinds.split()), rule))
        return rule

    return lambda kinds: partial(register, kinds)


def operation(cls: type[Op], attributes: Mapping[str, Any]) -> Op:
    """Return an operation by its attributes as XML spells them; Refusal for wrong ones."""
    values, problems = parse_attributes(cls, {k: _spelled(v) for k, v in attributes.items()})
    for problem in problems:
        if problem.severity == "error" or problem.code == "W100":
            raise Refusal(problem.message)
    made: Op = cls(**values)
    return made


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(map(_spelled, value))
    return str(value)


@dataclass
class ModelReader:
    """Builds the graph of one model; `shapes` are given for inputs by name."""

    location: Location
    shapes: dict[str, Shape | None]
    semantics: Semantics

    def start(self, name: str, format: str) -> Imported:
        """Start an import: its report, its builder and an empty graph."""
        self.out = Report(location=self.location)
        self.graph = Graph(Info(name=name, file=self.location.file))
        self.builder = ImportBuilder(self.graph, source_node("", self.location))
        return Imported(self.graph, format)

    def finish(self, done: Imported) -> Imported:
        """Raise all errors at once, or return the model."""
        if not self.graph.results and not self.out.errors:
            self.out.malformed("the model has no outputs, so nothing of it is computed", "E209")
        self.out.finish()
        self.builder.finish()
        make_names_safe(self.graph, self.out, self.location)
        done.diagnostics = self.out.diagnostics
        return done

    def attempt(
        self, name: str, title: str, build: Callable[[], None], builder: ImportBuilder | None = None
    ) -> None:
        """Build the nodes of one layer; if that fails, record the reason and remove them."""
        builder = builder or self.builder
        builder.begin(name)
        try:
            # Numbers too large for a narrow type are infinite, as when the model runs.
            with np.errstate(all="ignore"):
                build()
        except Refusal as e:
            remedy = self._remedy if isinstance(e, OpenSizeRefusal) else None
            self.out.uncovered(name, f"{title}: {e}", remedy)
        except errors.OpError as e:
            problem, place = e.problem, self.out.location
            text = f"{title}: {problem.message}"
            self.out.add(problem.code, text, location=place, layer=name, hint=problem.hint)
        except errors.IrdeconvError:
            raise
        except MISFITS as e:
            message = f"{title}: its inputs do not fit: {e}"
            self.out.add("E300", message, location=self.location, layer=name)
        except Reported:
            pass
        else:
            return
        builder.undo()

    @cached_property
    def _remedy(self) -> str | None:
        """The option that gives open inputs sizes, which may avoid a refusal."""
        shapes = {n.names_of(0)[0]: n.spec().shape for n in self.graph.parameters}
        wanted = [f"{k}{example_shape(s)}" for k, s in shapes.items() if not is_static(s)]
        text = f"if it follows from the inputs' sizes, give them: --shape '{','.join(wanted)}'"
        return text if wanted else None


N = TypeVar("N", bound=SourceNode)
SimpleRule = Callable[[N, ImportBuilder], Value]
MakeOp = Callable[[N, ImportBuilder], Op]
Activation = Callable[..., Value]  # of a builder, the data and numbers


def _with_scalars(op: Op) -> Activation:
    """Return an operation whose numbers are scalar inputs."""
    return lambda b, x, *numbers: b.add(op, x, *(b.like(v, x) for v in numbers))


def named_operations(words: str) -> Iterator[tuple[str, Op]]:
    """Yield names in another format and operations without attributes: `Ceil=Ceiling Exp`."""
    for word in words.split():
        theirs, _, ours = word.partition("=")
        module = elementwise if hasattr(elementwise, ours or theirs) else activation
        yield theirs, getattr(module, ours or theirs)()


def _soft_plus(b: ImportBuilder, x: Value, beta: float = 1) -> Value:
    """log(1 + exp(beta * x)) / beta."""
    if beta == 1:
        return b.add(SoftPlus(), x)
    factor = b.like(beta, x)
    return b.div(b.add(SoftPlus(), b.mul(x, factor)), factor)


ACTIVATIONS: dict[str, Activation] = {
    "affine": lambda b, x, alpha, beta: b.plus(b.scaled(x, alpha), b.like(beta, x)),
    "clip": lambda b, x, low, high: b.add(Clamp(low, high), x),
    "elu": lambda b, x, alpha: b.add(Elu(alpha=alpha), x),
    "leakyrelu": lambda b, x, alpha: b.add(  # x, or alpha * x below 0
        PReLU(), x, b.const(np.array([alpha], b.dtype(x).container), b.dtype(x))
    ),
    "scaledtanh": lambda b, x, alpha, beta: b.scaled(b.add(Tanh(), b.scaled(x, beta)), alpha),
    "softplus": _soft_plus,
    "thresholdedrelu": lambda b, x, alpha: b.select(
        b.add(Greater(), x, b.like(alpha, x)), x, b.like(0, x)
    ),
}
_PLAIN = "HardSigmoid pow=Power ReLU Selu Sigmoid SoftSign Swish Tanh"
ACTIVATIONS |= {name.lower(): _with_scalars(op) for name, op in named_operations(_PLAIN)}


def by_numbers(name: str, **usual: float | None) -> SimpleRule[Any]:
    """Return the rule of an activation whose numbers are attributes, None for required ones."""
    apply = ACTIVATIONS[name]
    return lambda n, b: apply(b, n[0], *(n.number(a, v) for a, v in usual.items()))


def one_operation(op: Op | MakeOp[N], inputs: int | None = 1) -> SimpleRule[N]:
    """Return the rule of a layer that is one operation of its inputs as they are.

    `inputs` is their number, None for all.
    """

    def apply(n: N, b: ImportBuilder) -> Value:
        made = op if isinstance(op, Op) else op(n, b)
        return b.add(made, *(n.given if inputs is None else (n[i] for i in range(inputs))))

    return apply
