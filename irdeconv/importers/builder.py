"""What importers build with: inferred nodes, folded constants, names, refusals."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from irdeconv.dtypes import ElementType, i64
from irdeconv.graph import Node, Value
from irdeconv.op import Op, infer_op, require_fit
from irdeconv.ops.basic import Parameter, Result
from irdeconv.ops.bodies import BodyOp
from irdeconv.ops.body_inference import infer_bodies, infer_plainly
from irdeconv.ops.convert import Convert
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.generate import Identity
from irdeconv.ops.shape import Reshape, ShapeOf
from irdeconv.passes.builder import GraphBuilder
from irdeconv.passes.rewrite import remove_dead, unique_names
from irdeconv.passes.stored import constant
from irdeconv.source import Location
from irdeconv.spec import Array, Shape, Spec, is_static

FOLD_LIMIT = 1 << 20  # a constant that folding would make is at most this long, or as its inputs
MOST_MADE = 1 << 24  # elements of a constant that an importer makes of sizes alone


class Refusal(Exception):
    """An operation, attribute or input that an importer does not cover; names no node."""


def require_one_length(**lists: Sequence[Any]) -> None:
    """Raise Refusal where lists that go together differ in length."""
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise Refusal(f"numbers of values differ: {said}")


def source_node(name: str, location: Location | None) -> Node:
    """Return what a GraphBuilder takes names and places from, for a layer that is not there yet."""
    return Node(-1, Identity(), name, location)


@dataclass
class ImportBuilder(GraphBuilder):
    """Builds the nodes of one imported layer after the other; `begin` starts the next one."""

    checks: ClassVar[bool] = True
    # Names that tensors get at the end: one tensor may have thousands, or one node as many tensors.
    bound: defaultdict[Value, list[str]] = field(default_factory=lambda: defaultdict(list))

    def begin(self, name: str) -> None:
        """Start the nodes of the layer `name`."""
        self.source = source_node(name, self.source.location)
        self.made = []

    def undo(self) -> None:
        """Remove the nodes made since `begin`."""
        for i in sorted(self.made, reverse=True):
            self.graph.remove(i)
        self.made = []

    def add(self, op: Op, *inputs: Value) -> Value:
        """Add an operation; constants are folded where the result is not much longer than they."""
        require_fit(op)
        if inputs and all(constant(self.graph, v) is not None for v in inputs):
            specs = infer_op(op, tuple(self.spec(v) for v in inputs))
            longest = max((self.spec(v).size or 0 for v in inputs), default=0)
            if (specs[0].size or 0) > max(FOLD_LIMIT, 2 * longest):
                return self._node(op, inputs, specs)
        return super().add(op, *inputs)

    def keep(self, op: Op, *inputs: Value) -> Value:
        """Add an operation as it is."""
        require_fit(op)
        return super().keep(op, *inputs)

    def outputs(self, op: Op, *inputs: Value) -> tuple[Value, ...]:
        """Add an operation with several outputs; nothing is folded."""
        require_fit(op)
        given = tuple(self.spec(v) for v in inputs)
        if isinstance(op, BodyOp):
            op, specs = infer_bodies(op, given, infer_plainly)
        else:
            specs = infer_op(op, given)
        node = self._node(op, inputs, specs)
        return tuple(Value(node.node, port) for port in range(len(specs)))

    def room(self, *sizes: int) -> None:
        """Raise Refusal where an importer would make a constant of too many elements itself."""
        if max(sizes) > MOST_MADE:
            raise Refusal(f"it needs a constant of {max(sizes):,} elements, above {MOST_MADE:,}")

    # Constants ---------------------------------------------------------------------------------

    def ints(self, *values: int) -> Value:
        """Add a vector of i64; Refusal where a number does not exist there."""
        try:
            return self.const(np.array(values, np.int64))
        except OverflowError:
            raise Refusal(f"not all of {list(values)} exist in i64") from None

    def scalar(self, value: Any, dtype: ElementType = i64) -> Value:
        """Add a scalar of an element type; what is too large for a floating-point one is infinite.

        Raises Refusal for a number that an integer type does not have.
        """
        with np.errstate(over="ignore"):
            if dtype.kind not in ("int", "uint", "boolean"):
                return self.const(np.array(value, dtype.container))
        try:
            found = np.array(int(value), dtype.container)
        except (OverflowError, ValueError):
            found = None
        if found is None or found != value:
            raise Refusal(f"the number {value} does not exist in {dtype}")
        return self.const(found)

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
            raise Refusal(f"{what} is not a constant")
        return found

    def vector(self, value: Value, what: str) -> list[Any]:
        """Return the numbers of a vector that must be known while importing."""
        found = self.need(value, what)
        if found.ndim != 1:
            raise Refusal(f"{what} has rank {found.ndim}, not 1")
        numbers: list[Any] = found.tolist()
        return numbers

    # Specs -------------------------------------------------------------------------------------

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
            raise Refusal("the rank of an input is unknown")
        if len(found) < least:
            raise Refusal(f"an input has rank {len(found)}; at least {least} is needed")
        return found

    def rank(self, value: Value) -> int:
        """Return the number of axes."""
        return len(self.shape(value))

    def static(self, value: Value, what: str, least: int = 0) -> tuple[int, ...]:
        """Return a shape that must be exact, of so many axes at `least`."""
        found = self.shape(value, least)
        if not is_static(found):
            raise Refusal(f"{what} has open dimensions; give its size with shapes")
        return found

    # Frequent small subgraphs ------------------------------------------------------------------

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Reshape to exact numbers, of which one may be -1."""
        return self.add(Reshape(special_zero=False), value, self.ints(*shape))

    def as_scalar(self, value: Value) -> Value:
        """Return a one-element tensor without axes."""
        return value if self.rank(value) == 0 else self.reshape(value, ())

    def shape_of(self, value: Value) -> Value:
        """Return the shape as a vector of i64."""
        shape = self.spec(value).shape
        return self.ints(*shape) if is_static(shape) else self.add(ShapeOf(i64), value)

    def convert(self, value: Value, dtype: ElementType) -> Value:
        """Return the value in another element type; itself where it has that type."""
        return value if self.dtype(value) == dtype else self.add(Convert(dtype), value)

    def flatten(self, value: Value, axis: int) -> Value:
        """Return a matrix: the axes before `axis` (from 0) become the rows."""
        shape = self.shape(value)
        if is_static(shape):
            return self.reshape(value, (math.prod(shape[:axis]), math.prod(shape[axis:])))
        if axis == 0:
            return self.reshape(value, (1, -1))
        if axis == 1:
            return self.add(Reshape(special_zero=True), value, self.ints(0, -1))
        raise Refusal(f"flattening at axis {axis} of an open shape")

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

    # Names -------------------------------------------------------------------------------------

    def stand_in(self, name: str, spec: Spec) -> Value:
        """Add an input of a body that stands for a value of this type and shape from outside."""
        if spec.dtype is None:
            raise Refusal("the element type of an input is unknown")
        return self.parameter(name, spec.dtype, spec.shape)

    def parameter(self, name: str, dtype: ElementType, shape: Shape | None) -> Value:
        """Add a model input."""
        op, location = Parameter(shape=shape, element_type=dtype), self.source.location
        node = self.graph.add(op, name=name, location=location, specs=(Spec(dtype, shape),))
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
        """Let the node of `value`, where it was made since `begin`, bear the layer's name."""
        node = self.graph.node(value.node)
        if node.id not in self.made:
            return
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
        spec = self.spec(value)
        location = self.source.location
        self.graph.add(Result(), [value], name=f"{name}/result", location=location, specs=(spec,))

    def finish(self) -> None:
        """Drop what no output needs; the nodes that stay are layers of the model, none is made."""
        self._write_names()
        remove_dead(self.graph, set())
        unique_names(self.graph)
        for node in self.graph.nodes():
            # A Pad that counts as made is split where OpenVINO could not compute it as one.
            node.origins = (node.name,) if node.type == "Pad" else ()

    def _write_names(self) -> None:
        ports: defaultdict[int, dict[int, list[str]]] = defaultdict(dict)
        for value, names in self.bound.items():
            ports[value.node][value.port] = names
        for number in filter(self.graph.__contains__, ports):
            node, more = self.graph.node(number), ports[number]
            width = max(len(node.tensor_names), 1 + max(more))
            node.tensor_names = tuple(
                (*node.names_of(port), *more.get(port, ())) for port in range(width)
            )
