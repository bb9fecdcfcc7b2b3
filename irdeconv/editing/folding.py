"""Constants in place of what is computed of constants, or follows from shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.constant import ArrayData
from irdeconv.dtypes import ElementType
from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node, Value
from irdeconv.op import Op, as_tuple, kept
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.convert import Convert, ConvertLike
from irdeconv.passes.builder import GraphBuilder
from irdeconv.passes.rewrite import replace_node
from irdeconv.spec import Array, Spec

_KEPT = ("FakeQuantize", "FakeConvert")  # how weights are quantized is said by these


@dataclass(frozen=True)
class FoldingLimits:
    """What folding may do.

    A constant may be at most `growth` bytes larger than those that it is computed of. With
    `decompress` the Convert of weights in fewer bits is folded as well.
    """

    growth: int
    decompress: bool = False


def fold(graph: Graph, node: Node, limits: FoldingLimits) -> bool:
    """Replace a node of an inferred graph by constants if that may be; whether it was."""
    if _is_fixed(node) or (_is_decompression(graph, node) and not limits.decompress):
        return False
    values = _values(graph, node, limits)
    if values is None:
        return _move_in_front_of_convert(graph, node)
    for port, (array, spec) in enumerate(zip(values, node.specs or (), strict=True)):
        if graph.users(Value(node.id, port)):
            _replace(graph, node, port, array, spec)
    graph.remove(node.id)
    return True


def _is_fixed(node: Node) -> bool:
    op = node.op
    if isinstance(op, Const | Opaque) or not op.pure or node.type in ("Parameter", "Result"):
        return True
    if node.type in _KEPT or type(op).evaluate is Op.evaluate or not node.specs:
        return True
    return any(s.dtype is None or s.dtype.kind == "string" for s in node.specs)


def _is_decompression(graph: Graph, node: Node) -> bool:
    """Whether it brings weights from fewer bits, of few types, to floating-point numbers."""
    if not isinstance(node.op, Convert | ConvertLike):
        return False
    source = graph.spec(graph.inputs_of(node.id)[0]).dtype
    target = node.spec().dtype
    return source is not None and target is not None and _is_compressed(source, target)


def _is_compressed(source: ElementType, target: ElementType) -> bool:
    numeric = source.is_real or source.is_integral
    return target.is_real and numeric and source.bits < min(target.bits, 32)


def _is_constant(graph: Graph, value: Value) -> bool:
    op = graph.node(value.node).op
    return isinstance(op, Const) and op.data.available


def _values(graph: Graph, node: Node, limits: FoldingLimits) -> list[Array] | None:
    """Return the outputs where they are known and small enough; None otherwise."""
    inputs, specs = graph.inputs_of(node.id), node.specs or ()
    known = [s.known for s in specs]
    exact = [k for k in known if k is not None]
    if len(exact) == len(specs) and not any(s.dtype is None or s.dtype.is_real for s in specs):
        return exact
    if not inputs or not all(_is_constant(graph, v) for v in inputs):
        return None
    before = sum(graph.spec(v).nbytes or 0 for v in inputs if len(graph.users(v)) == 1)
    after = [s.nbytes for s in specs]
    if None in after or sum(n or 0 for n in after) > before + limits.growth:
        return None
    arrays = [graph.node(v.node).op.evaluate() for v in inputs]
    try:
        with np.errstate(all="ignore"):
            return list(kept(as_tuple(node.op.evaluate(*arrays)), node.specs))
    except (OpError, ArithmeticError, ValueError, TypeError, IndexError, MemoryError):
        return None  # it fails when the model runs, which is not for a rewrite to say


def _replace(graph: Graph, node: Node, port: int, array: Array, spec: Spec) -> None:
    dtype = spec.dtype
    assert dtype is not None
    values = np.array(array, dtype.container, order="C", copy=None)
    op = Const(element_type=dtype, shape=values.shape, data=ArrayData.of(values, dtype))
    made = graph.add(
        op,
        name=node.output_key(port),
        location=node.location,
        origins=node.origins or (node.name,),
        specs=(Spec.of(values, dtype),),
    )
    made.tensor_names = node.tensor_names[port : port + 1]
    graph.replace_uses(Value(node.id, port), Value(made.id))


def _move_in_front_of_convert(graph: Graph, node: Node) -> bool:
    """Let what only moves weights act on them as they are stored; whether it does."""
    inputs = graph.inputs_of(node.id)
    if not node.op.moves or node.outputs != 1 or not inputs or not node.spec().static:
        return False
    convert = graph.node(inputs[0].node)
    if not isinstance(convert.op, Convert) or len(graph.users(inputs[0])) != 1:
        return False
    before = graph.inputs_of(convert.id)[0]
    if not all(_is_constant(graph, v) for v in (before, *inputs[1:])):
        return False
    if (node.spec().size or 0) > (graph.spec(before).size or 0):
        return False

    def add(op: Op, builder: GraphBuilder, *values: Value) -> Value:
        return builder.add(op, *values)

    return bool(replace_node(graph, node, add).made)
