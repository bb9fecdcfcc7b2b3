"""What is planned for memory that stays where it is, on views of it."""

from dataclasses import replace

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.kernels import scratch
from irdeconv.kernels.recorded_calls import SharedCalls
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.pooling import AvgPool1, MaxPool1
from irdeconv.ops.reduction import ReduceMean
from irdeconv.runtime.program import joined
from support.plan_graphs import Builder, randn, same
from test_recorded_calls import LAYERS, padded

SAME = ("mean", "sum", "softmax", "max-2", "larger", "shuffle", "gelu", "pad")
VIEWED = {name: LAYERS[name] for name in SAME} | {
    "average": lambda b, x: b.add(AvgPool1((3, 2), (1, 1), (1, 0), (0, 1), exclude_pad=True), x),
    "whole": lambda b, x: b.add(AvgPool1((6, 6), (1, 1), (0, 0), (0, 0)), x),
    "sigmoid": lambda b, x: b.add(Sigmoid(), x),
    "reflected": padded([0, 0, 2, 3], [0, 0, 4, 1], "reflect"),
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
    b, x = Builder.of((6, 6, 6, 6))
    graph = b.done(VIEWED[name](b, b.add(Transpose(), x, np.array(order))))
    fused, plain = (ird.compile(graph, None, threads=1, fuse=fuse) for fuse in (True, False))
    for _ in range(3):
        data = randn(6, 6, 6, 6)
        same(fused.run([data]), plain.run([data]), terms=50)


@pytest.mark.parametrize("other", [(1, 12, 1, 1), (1, 1, 1, 1)])
def test_blocks_of_channels_add_their_own_part(other, monkeypatch):
    """Of a tensor with one element for each channel, or one for all of them."""
    monkeypatch.setattr(scratch, "SIZES", replace(scratch.SIZES, depthwise_bytes=20))
    b, x = Builder.of((1, 12, 1, 1))
    y = b.add(GroupConvolution(), x, randn(12, 1, 1, 1, 1))
    y = b.add(Add(), y, randn(1, 12, 1, 1))
    graph = b.done(b.add(Add(), y, b.input(other, name="other")))
    fused, plain = (ird.compile(graph, None, threads=1, fuse=fuse) for fuse in (True, False))
    feeds = [randn(1, 12, 1, 1), randn(*other)]
    for _ in range(3):
        same(fused.run(feeds), plain.run(feeds), terms=3)


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_share_compiled_steps_in_one_call(threads):
    """They wait for each other inside of it, and steps between that are not compiled are shared."""
    b, y = Builder.of((1, 8, 40, 40))
    for _ in range(3):
        y = b.add(ReLU(), b.add(Convolution(), y, randn(8, 8, 1, 1)))
    y = b.add(MaxPool1((2, 2), (2, 2), (0, 0), (0, 0)), y)
    long = b.add(Convolution(), b.input((1, 96, 60, 60), name="long"), randn(128, 96, 3, 3))
    graph = b.done(b.add(Sigmoid(), y), b.add(ReLU(), b.add(Concat(1), long, long)))
    plans = [ird.compile(graph, None, threads=number) for number in (1, threads)]
    feeds = [randn(1, 8, 40, 40), randn(1, 96, 60, 60)]
    one, many = (plan.program(feeds) for plan in plans)
    if not any(step.phases for step in one.steps):
        pytest.skip("needs numba")
    assert len(many.steps) == len(one.steps) > len(joined(many.steps, many.team))
    calls = (getattr(step.call, "prepared", None) for step in joined(many.steps, many.team))
    shared = [call for call in calls if isinstance(call, SharedCalls)]
    assert max(len(phase) for call in shared for phase in call.phases) >= 2
    want = plans[0].run(feeds)
    for _ in range(20):  # shared and not, and threads that come late
        got = plans[1].run(feeds)
        assert all(np.array_equal(got[name], array) for name, array in want.items())
