"""Graphs of any number of layers, in the shapes that make a walk of a graph slow."""

from collections.abc import Callable

import numpy as np

from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.channels import Split
from irdeconv.ops.convolution import Convolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat
from support.layers import begun, constant, result

SHAPE = (1, 4, 8, 8)
CHANNELS = np.ones((1, 4, 1, 1), np.float32)


def chain(n: int) -> Graph:
    """n layers, one behind the other."""
    g, y = begun(SHAPE, info=Info("chain"))
    for i in range(n):
        y = Value(g.add(ReLU(), [y], name=f"block{i // 10}/relu_{i}").id)
    result(g, y)
    return g


def convolutions(n: int) -> Graph:
    """A chain of convolutions and biases, each with a constant of its own: 4 layers a piece."""
    g, y = begun(SHAPE, info=Info("convolutions"))
    op = Convolution(pads_begin=(1, 1), pads_end=(1, 1))
    for i in range(n // 4):
        w = constant(g, np.ones((4, 4, 3, 3), np.float32), f"w{i}")
        y = Value(g.add(op, [y, w], name=f"block{i // 10}/conv_{i}").id)
        y = Value(g.add(Add(), [y, constant(g, CHANNELS, f"b{i}")], name=f"bias_{i}").id)
    result(g, y)
    return g


def wide(n: int) -> Graph:
    """n readers of one input, all read by one Concat."""
    g, x = begun(SHAPE, info=Info("wide"))
    ys = [Value(g.add(ReLU(), [x], name=f"relu_{i}").id) for i in range(n)]
    result(g, Value(g.add(Concat(axis=1), ys, name="cat").id))
    return g


def many_outputs(n: int) -> Graph:
    """A Split of n outputs, all read by one Concat."""
    g, x = begun((1, n), info=Info("many outputs"))
    split = g.add(Split(num_splits=n), [x, constant(g, np.int64(1), "axis")], name="split")
    pieces = [Value(split.id, port) for port in range(n)]
    result(g, Value(g.add(Concat(axis=1), pieces, name="cat").id))
    return g


def shared_constant(n: int) -> Graph:
    """One constant with n readers."""
    g, y = begun(SHAPE, info=Info("shared constant"))
    c = constant(g, CHANNELS, "c")
    for i in range(n):
        y = Value(g.add(Add(), [y, c], name=f"add_{i}").id)
    result(g, y)
    return g


def many_constants(n: int) -> Graph:
    """n constants with one reader."""
    g, x = begun(SHAPE, info=Info("many constants"))
    rows = [constant(g, np.ones((1, 1, 8, 8), np.float32), f"c{i}") for i in range(n)]
    result(g, Value(g.add(Concat(axis=1), [x, *rows], name="cat").id))
    return g


def sums_of_constants(n: int) -> Graph:
    """A sum of constants that grows by one constant a layer, every stage of it read: 3 a piece."""
    g, y = begun(SHAPE, info=Info("sums of constants"))
    total = constant(g, CHANNELS, "c")
    for i in range(n // 3):
        c = constant(g, CHANNELS, f"c{i}")
        total = Value(g.add(Add(), [total, c], name=f"sum_{i}").id)
        y = Value(g.add(Add(), [y, total], name=f"read_{i}").id)
    result(g, y)
    return g


LARGE_GRAPHS: tuple[Callable[[int], Graph], ...] = (
    chain,
    convolutions,
    wide,
    many_outputs,
    shared_constant,
    many_constants,
    sums_of_constants,
)
