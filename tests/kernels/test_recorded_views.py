"""What is planned for memory that stays where it is, on views of it."""

from __future__ import annotations

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ops.activation import Gelu, ReLU, Sigmoid, SoftMax
from irdeconv.ops.channels import ShuffleChannels
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.image import Interpolate11
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.ops.pooling import AvgPool1, MaxPool1
from irdeconv.ops.reduction import ReduceMean, ReduceSum
from irdeconv.runtime.program import joined
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


def test_threads_leave_short_steps_to_one_call():
    """A step of 0.04 ms ends before another thread has woken up; long ones are shared."""
    b = Builder()
    y = b.input((1, 8, 12, 12))
    for _ in range(3):
        y = b.add(ReLU(), b.add(Convolution(), y, randn(8, 8, 1, 1)))
    y = b.add(MaxPool1((2, 2), (2, 2), (0, 0), (0, 0)), y)
    long = b.add(Convolution(), b.input((1, 96, 60, 60), name="long"), randn(128, 96, 3, 3))
    graph = b.done(b.add(Sigmoid(), y), b.add(ReLU(), b.add(Concat(1), long, long)))
    plans = [ird.compile(graph, None, threads=threads) for threads in (1, 2)]
    feeds = [randn(1, 8, 12, 12), randn(1, 96, 60, 60)]
    one, two = (plan.program(feeds) for plan in plans)
    if not any(step.recorded for step in one.steps):
        pytest.skip("needs numba")
    assert len(joined(one.steps, one.team)) < len(two.steps) == len(one.steps)
    assert len(joined(two.steps, two.team)) < len(two.steps)
    assert all(step.recorded for step in two.steps if step.short)
    products = [max(n.spec().size for n in step.nodes) for step in two.steps if step.short]
    assert products
    assert max(products) < 128 * 60 * 60
    for name, want in plans[0].run(feeds).items():
        np.testing.assert_array_equal(plans[1].run(feeds)[name], want)
