"""Layers that change nothing, and pairs of layers that are one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irdeconv.dtypes import ElementType, i64
from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node, Value
from irdeconv.op import Op, as_tuple
from irdeconv.ops.basic import Opaque
from irdeconv.ops.broadcasting import Broadcast, Broadcast1, Tile
from irdeconv.ops.convert import Convert, ConvertLike
from irdeconv.ops.elementwise import Add, Binary, Divide, Multiply, Subtract
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad1, Pad12
from irdeconv.ops.shape import Reshape, Squeeze, Squeeze1, Unsqueeze
from irdeconv.ops.splitting import Split, VariadicSplit
from irdeconv.passes.builder import GraphBuilder
from irdeconv.passes.rewrite import replace_node
from irdeconv.passes.stored import constant
from irdeconv.spec import Array, ints, is_static

RESHAPERS = (Reshape, Squeeze1, Squeeze, Unsqueeze)
_TRIED = 1 << 20  # elements that a layer is tried on, to see whether it moves any


def passed_on(graph: Graph, node: Node) -> Value | None:
    """Return the input that a node of an inferred graph gives as it is, bit for bit."""
    op, inputs = node.op, graph.inputs_of(node.id)
    if isinstance(op, Opaque) or not op.pure or not inputs or node.outputs != 1:
        return None
    if isinstance(op, Add | Subtract | Multiply | Divide):
        return _not_changed_by(graph, node)
    for kinds, rule in _RULES:
        if isinstance(op, kinds):
            return inputs[0] if rule(graph, node) else None
    return inputs[0] if op.moves and _moves_nothing(graph, node) else None


def _of_one_type(graph: Graph, node: Node) -> bool:
    source = graph.spec(graph.inputs_of(node.id)[0]).dtype
    return source is not None and source == node.spec().dtype


def _of_one_shape(graph: Graph, node: Node) -> bool:
    shape = graph.spec(graph.inputs_of(node.id)[0]).shape
    return is_static(shape) and shape == node.spec().shape


def _is_single(graph: Graph, node: Node) -> bool:
    return len(graph.inputs_of(node.id)) == 1 or isinstance(node.op, Split | VariadicSplit)


def _pads_nothing(graph: Graph, node: Node) -> bool:
    pads = [ints(graph.spec(v)) for v in graph.inputs_of(node.id)[1:3]]
    return all(p is not None and not any(p) for p in pads)


def _repeats_nothing(graph: Graph, node: Node) -> bool:
    data, repeats = (graph.spec(v) for v in graph.inputs_of(node.id)[:2])
    times = ints(repeats)
    return times is not None and set(times) <= {1} and len(times) <= (data.rank or 0)


def _permutes_nothing(graph: Graph, node: Node) -> bool:
    order, spec = _order(graph, node), graph.spec(graph.inputs_of(node.id)[0])
    if order is None or spec.shape is None:
        return False
    moved = [i for i in order if spec.shape[i] != 1]
    return spec.shape == node.spec().shape and (
        moved == sorted(moved) if spec.static else list(order) == sorted(order)
    )


def _order(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Return a Transpose's order, counted from 0."""
    data, order = (graph.spec(v) for v in graph.inputs_of(node.id))
    known = ints(order)
    if known is None or data.rank is None:
        return None
    return tuple(i % data.rank for i in known) or tuple(reversed(range(data.rank)))


def _moves_nothing(graph: Graph, node: Node) -> bool:
    """Whether numbered elements come out in their places."""
    data, *others = graph.inputs_of(node.id)
    shape = graph.spec(data).shape
    arrays = [constant(graph, v) for v in others]
    if not _of_one_shape(graph, node) or any(a is None for a in arrays):
        return False
    assert is_static(shape)
    size = math.prod(shape)
    if size > _TRIED:
        return False
    numbered = np.arange(1, size + 1).reshape(shape)
    try:
        moved = as_tuple(node.op.evaluate(numbered, *arrays))[0]
    except (OpError, ValueError, TypeError, IndexError):
        return False
    return np.array_equal(moved, numbered)


_RULES: tuple[tuple[tuple[type[Op], ...], Callable[[Graph, Node], bool]], ...] = (
    ((Convert, ConvertLike), _of_one_type),
    (RESHAPERS, _of_one_shape),
    ((Concat, Split, VariadicSplit), _is_single),
    ((Pad1, Pad12), _pads_nothing),
    ((Tile,), _repeats_nothing),
    ((Transpose,), _permutes_nothing),
    ((Broadcast, Broadcast1), _moves_nothing),
)


def _not_changed_by(graph: Graph, node: Node) -> Value | None:
    """Return the operand to which 0 is added, or that is multiplied by 1.

    Of floating-point numbers only -0 changes none when added: -0 + 0 is +0.
    """
    a, b = graph.inputs_of(node.id)
    commutes = isinstance(node.op, Add | Multiply)
    for kept, other in ((a, b), (b, a)) if commutes else ((a, b),):
        if graph.spec(other).size is None or not _keeps_shape(graph, node, kept, other):
            continue
        values = constant(graph, other)
        if values is not None and _is_neutral(node.op, values, graph.spec(other).dtype):
            return kept
    return None


def _keeps_shape(graph: Graph, node: Node, kept: Value, other: Value) -> bool:
    data, operand = graph.spec(kept), graph.spec(other)
    if data.static and data.shape == node.spec().shape:
        return True
    assert isinstance(node.op, Binary)
    ranks = data.rank is not None and (operand.rank or 0) <= data.rank
    return ranks and operand.size == 1 and node.op.auto_broadcast == "numpy"


def _is_neutral(op: Op, values: Array, dtype: ElementType | None) -> bool:
    if dtype is None or not values.size or values.size > _TRIED:
        return False
    if isinstance(op, Multiply | Divide):
        return bool(np.all(values == 1))
    if np.any(values != 0):
        return False
    if not dtype.is_real:
        return True
    return bool(np.all(np.signbit(values.astype(np.float64)) == isinstance(op, Add)))


# Pairs ------------------------------------------------------------------------------------------


def joined_with_producer(graph: Graph, node: Node) -> bool:
    """Let one layer do what a node and its producer do together; whether it does."""
    inputs = graph.inputs_of(node.id)
    if not inputs or node.outputs != 1:
        return False
    producer = graph.node(inputs[0].node)
    if isinstance(node.op, RESHAPERS) and isinstance(producer.op, RESHAPERS):
        return _join_reshapes(graph, node, producer)
    if isinstance(node.op, Transpose) and isinstance(producer.op, Transpose):
        return _join_transposes(graph, node, producer)
    if isinstance(node.op, Convert) and isinstance(producer.op, Convert):
        return _join_converts(graph, node, producer)
    return False


def _only_user(graph: Graph, producer: Node) -> bool:
    return len(graph.users(Value(producer.id))) == 1


def _join_reshapes(graph: Graph, node: Node, producer: Node) -> bool:
    source, shape = graph.inputs_of(producer.id)[0], node.spec().shape
    back = is_static(shape) and graph.spec(source).shape == shape
    if not (back or _only_user(graph, producer)):
        return False
    if isinstance(node.op, Reshape):
        target = graph.spec(graph.inputs_of(node.id)[1])
        pattern = ints(target)
        copies = node.op.special_zero and 0 in (pattern or ())
        # Of open shapes the one in between may tell more.
        if pattern and not copies and node.op.infer(graph.spec(source), target).shape == shape:
            graph.set_input(node.id, 0, source)
            return True
    if not is_static(shape):
        return False

    def build(op: Op, b: GraphBuilder, *_: Value) -> Value:
        return b.keep(Reshape(special_zero=False), source, b.const(np.array(shape, np.int64)))

    replace_node(graph, node, build)
    return True


def _join_transposes(graph: Graph, node: Node, producer: Node) -> bool:
    first, second = _order(graph, producer), _order(graph, node)
    if first is None or second is None:
        return False
    order = [first[i] for i in second]
    if order != sorted(order) and not _only_user(graph, producer):
        return False
    source = graph.inputs_of(producer.id)[0]

    def build(op: Op, b: GraphBuilder, *_: Value) -> Value:
        return b.keep(Transpose(), source, b.const(np.array(order, np.int64), i64))

    replace_node(graph, node, build)
    return True


def _join_converts(graph: Graph, node: Node, producer: Node) -> bool:
    """Leave out a conversion to a type that has every value of the one before it."""
    source = graph.inputs_of(producer.id)[0]
    first, between = graph.spec(source).dtype, producer.spec().dtype
    if first is None or between is None or not _holds(between, first):
        return False
    graph.set_input(node.id, 0, source)
    return True


_DIGITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}  # bits of the significand
_EXPONENT = {"f64": 11, "f32": 8, "f16": 5, "bf16": 8}


def _holds(wide: ElementType, narrow: ElementType) -> bool:
    """Whether every value of a type is one of another, so that no conversion tells them apart."""
    if wide.name in _DIGITS and narrow.name in _DIGITS:
        names = wide.name, narrow.name
        return _DIGITS[names[0]] >= _DIGITS[names[1]] and _EXPONENT[names[0]] >= _EXPONENT[names[1]]
    if wide.name in ("f32", "f64") and narrow.is_integral:
        return narrow.bits < _DIGITS[wide.name]
    if wide.kind == "int" and narrow.is_integral:
        return wide.bits > narrow.bits or wide == narrow
    return wide.kind == narrow.kind == "uint" and wide.bits >= narrow.bits
