"""What is planned for memory that stays where it is, on views of it."""

from __future__ import annotations

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ops.activation import Gelu, ReLU, Sigmoid
from irdeconv.ops.channels import ShuffleChannels
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.interpolate import Interpolate11
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.ops.pooling import AvgPool1, MaxPool1
from irdeconv.ops.reduction import ReduceMean, ReduceSum
from irdeconv.ops.softmax import SoftMax
from support.plan_graphs import Builder, randn, same

VIEWED = {
    "mean": lambda b, x: b.add(ReduceMean(True), x, np.array([2, 3])),
    "sum-of-all": lambda b, x: b.add(ReduceSum(False), x, np.array([1, 2, 3])),
    "softmax": lambda b, x: b.add(SoftMax(3), x),
    "average": lambda b, x: b.add(AvgPool1((3, 2), (1, 1), (1, 0), (0, 1), exclude_pad=True), x),
    "whole": lambda b, x: b.add(AvgPool1((6, 6), (1, 1), (0, 0), (0, 0)), x),
    "max": lambda b, x: b.add(MaxPool1((2, 2), (2, 2), (0, 0), (0, 0)), x),
    "resized": lambda b, x: b.add(
        Interpolate11("linear", "sizes"), x, np.array([13, 17]), np.array([2, 3])
    ),
    "shuffle": lambda b, x: b.add(ShuffleChannels(1, 3), x),
    "gelu": lambda b, x: b.add(Gelu(), b.add(Add(), x, randn(1, 6, 1, 1))),
    "sigmoid": lambda b, x: b.add(Sigmoid(), x),
    "reflected": lambda b, x: b.add(
        Pad12("reflect"), x, np.array([0, 0, 2, 3]), np.array([0, 0, 4, 1]), np.float32(0)
    ),
    "pad": lambda b, x: b.add(
        Pad12(), x, np.array([0, 1, 2, 0]), np.array([0, 2, 0, 3]), np.float32(1.5)
    ),
    "concat": lambda b, x: b.add(Concat(2), x, b.add(ReLU(), x)),
    "convolution": lambda b, x: b.add(Convolution(), x, randn(5, 6, 3, 3)),
    "one-position": lambda b, x: b.add(
        Convolution(), b.add(ReduceMean(True), x, np.array([2, 3])), randn(5, 6, 1, 1)
    ),
    "depthwise": lambda b, x: b.add(GroupConvolution(), x, randn(6, 1, 1, 3, 3)),
}


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3), (3, 2, 1, 0)])
@pytest.mark.parametrize("name", VIEWED)
def test_what_reads_a_view_sees_the_data_of_every_run(name, order):
    """A view whose elements are reshaped may be a copy of what was there when it was planned."""
    b = Builder()
    x = b.input((6, 6, 6, 6))
    graph = b.done(VIEWED[name](b, b.add(Transpose(), x, np.array(order))))
    fused, plain = (ird.compile(graph, None, threads=1, fuse=fuse) for fuse in (True, False))
    for _ in range(3):
        data = randn(6, 6, 6, 6)
        same(fused.run([data]), plain.run([data]), terms=50)
