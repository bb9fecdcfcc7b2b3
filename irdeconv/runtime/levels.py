"""Which f32 tensors stand for integers of 8 bits: behind FakeQuantize, or a Convert from them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array, is_static
from irdeconv.kernels.candidate import Levels
from irdeconv.kernels.panels import LARGEST_LEVEL, LEAST_STEP, MOST_STEP, OFF
from irdeconv.ops.basic import Convert
from irdeconv.ops.checks import ViewOp
from irdeconv.ops.elementwise import FakeQuantize, Multiply, Subtract
from irdeconv.ops.pooling import MaxPool1, MaxPool14

_LOWEST = {"u8": 0, "i8": -128}


def levels_of(graph: Graph, value: Value, constants: Mapping[Value, Array]) -> Levels | None:
    """Return the levels of a value; None if they are unknown, or 0 is none of them.

    Elements may be NaN as well.
    """
    node = graph.node(value.node)
    while value.port == 0 and _keeps_levels(graph, node):
        value = graph.inputs_of(node.id)[0]
        node = graph.node(value.node)
    if isinstance(node.op, FakeQuantize):
        ends = [_number(graph, node, port, constants) for port in (3, 4)]
        step = (max(ends) - min(ends)) / (node.op.levels - 1)
        return _levels(step, -min(ends) / (step or math.nan), node.op.levels)
    if not isinstance(node.op, Multiply):
        return None
    step, zero = _number(graph, node, 1, constants), 0.0
    node = graph.node(graph.inputs_of(node.id)[0].node)
    if isinstance(node.op, Subtract):
        zero = _number(graph, node, 1, constants)
        node = graph.node(graph.inputs_of(node.id)[0].node)
    dtype = graph.input_specs(node.id)[0].dtype if isinstance(node.op, Convert) else None
    lowest = _LOWEST.get(str(dtype), math.nan)
    return _levels(step, zero - lowest, LARGEST_LEVEL + 1)


def _keeps_levels(graph: Graph, node: Node) -> bool:
    """Whether the first output has elements of the first input alone."""
    if isinstance(node.op, MaxPool1 | MaxPool14):  # a window without data gives another number
        shape = graph.input_specs(node.id)[0].shape
        return is_static(shape) and all(w.valid().all() for w in node.op.windows(shape)[0])
    return isinstance(node.op, ViewOp)


def _number(graph: Graph, node: Node, port: int, constants: Mapping[Value, Array]) -> float:
    """Return the number that an input has alone; NaN if it is unknown."""
    array = constants.get(graph.inputs_of(node.id)[port])
    return math.nan if array is None or array.size != 1 else float(array.reshape(-1)[0])


def _levels(step: float, zero: float, count: int) -> Levels | None:
    """Return `count` levels, if they are of 8 bits and 0 is one of them."""
    if not (
        LEAST_STEP <= step <= MOST_STEP and -0.5 < zero < count - 0.5 and count <= LARGEST_LEVEL + 1
    ):
        return None
    return Levels(step, round(zero)) if abs(zero - round(zero)) <= OFF else None
