"""The graph builder: new nodes inherit place, origins and name; constants are folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from irdeconv.constant import ArrayData
from irdeconv.dtypes import ElementType, of_numpy
from irdeconv.graph import Graph, Node, Value
from irdeconv.op import Op, as_tuple, infer_op
from irdeconv.ops.basic import Const
from irdeconv.ops.convert import Convert
from irdeconv.ops.padding import Pad12
from irdeconv.spec import Array, Spec


def constant(graph: Graph, value: Value) -> Array | None:
    """Return the data of a constant, None for any other value."""
    op = graph.node(value.node).op
    return op.data.array() if isinstance(op, Const) and op.data.available else None


@dataclass
class GraphBuilder:
    """Adds nodes for the rewriting of `source`; every new node carries its place and origins.

    An operation whose inputs are all constants becomes a constant at once. One that only moves
    elements goes in front of the Convert of a compressed constant, so that f16 weights stay f16.
    """

    graph: Graph
    source: Node
    made: list[int] = field(default_factory=list)

    def add(self, op: Op, *inputs: Value) -> Value:
        """Add an operation behind its inputs, inferred and perhaps folded; returns output 0."""
        moved = self._below_convert(op, inputs)
        if moved is not None:
            return moved
        arrays = [constant(self.graph, v) for v in inputs]
        specs = infer_op(op, tuple(self.graph.spec(v) for v in inputs))
        if inputs and op.pure and all(a is not None for a in arrays):
            result: Array = as_tuple(op.evaluate(*arrays))[0]
            return self.const(result, specs[0].dtype)
        return self._node(op, inputs, specs)

    def keep(self, op: Op, *inputs: Value) -> Value:
        """Add an operation as it is, also behind constants."""
        return self._node(op, inputs, infer_op(op, tuple(self.graph.spec(v) for v in inputs)))

    def const(self, array: Array, dtype: ElementType | None = None) -> Value:
        """Add a constant, of an element type that its container alone need not tell."""
        array = np.ascontiguousarray(array) if array.ndim else array
        element_type = dtype or of_numpy(array.dtype)
        data = ArrayData.of(array, element_type)
        return self._node(
            Const(data=data, element_type=element_type, shape=array.shape),
            (),
            (Spec.of(array, element_type),),
        )

    def spec(self, value: Value) -> Spec:
        """Return the spec of a value."""
        return self.graph.spec(value)

    def refine(self, value: Value, spec: Spec) -> Value:
        """Keep the more precise spec of a value made here."""
        node = self.graph.node(value.node)
        if value.node in self.made and node.specs is not None and len(node.specs) == 1:
            node.specs = (spec,)
        return value

    def repeat(self, key: object, build: Callable[[], Value]) -> Value:
        """Return `build()`."""
        return build()

    def _node(self, op: Op, inputs: tuple[Value, ...], specs: tuple[Spec, ...]) -> Value:
        source = self.source
        node = self.graph.add(
            op,
            inputs,
            name=f"{source.name}/{op.type}",
            location=source.location,
            origins=source.origins or (source.name,),
            specs=specs,
        )
        self.made.append(node.id)
        return Value(node.id)

    def _below_convert(self, op: Op, inputs: tuple[Value, ...]) -> Value | None:
        """Apply a movement to the compressed constant and convert the result."""
        convert = self.graph.node(inputs[0].node) if inputs else None
        if convert is None or not isinstance(convert.op, Convert):
            return None
        compressed = self.graph.inputs_of(convert.id)[0]
        pads = isinstance(op, Pad12) and len(inputs) == 3 and self._keeps_zero(convert, compressed)
        if not op.moves and not pads:  # what only moves elements commutes with Convert
            return None
        rest = [constant(self.graph, v) for v in inputs[1:]]
        if constant(self.graph, compressed) is None or any(a is None for a in rest):
            return None
        made = self.keep(convert.op, self.add(op, compressed, *inputs[1:]))
        self.graph.node(made.node).rt_info = convert.rt_info
        return made

    def _keeps_zero(self, convert: Node, compressed: Value) -> bool:
        """Whether a compressed zero is converted to 0, so that a Pad may go in front."""
        array = constant(self.graph, compressed)
        if array is None:
            return False
        return not np.any(as_tuple(convert.op.evaluate(np.zeros(1, array.dtype)))[0])
