"""Compiled calls that are written down: what they read, and plans that make many at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.scratch import ScratchPlan, Space
from irdeconv.kernels.shared.team import Threads
from irdeconv.ops.activation import ReLU
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.pooling import MaxPool1
from support.plan_graphs import Builder, randn

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not jit.available(), reason="needs numba"),
]


def recorded(step: str, *arguments: Any) -> Any:
    from irdeconv.kernels.compiled.recorded import Recorded

    return Recorded.of(step, *arguments)


def test_a_record_describes_arrays_of_any_strides():
    x = np.arange(2 * 3 * 20, dtype=np.float32).reshape(2, 3, 20)[:, ::-1, 1::3]
    out = np.zeros((3, 7, 2), np.float32).transpose(2, 0, 1)
    recorded("copy", x, out)(Space())
    np.testing.assert_array_equal(out, x)


def test_calls_that_are_joined_share_scratch_memory():
    x, out = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.zeros((2, 3, 2), np.float32)
    plan = ScratchPlan()
    plan.array((5,), np.float32)
    between = plan.array(x.shape, np.float32)
    odd = between.seen(lambda a: a[..., 1::2])
    work = type(recorded("copy", x, x)).joined(
        [recorded("copy", x, between), recorded("copy", odd, out)]
    )
    assert len(work.table) == 4
    assert plan.used == 64 + 128
    assert work.scratch == 64 + 4 * 24
    work(Space())
    np.testing.assert_array_equal(out, x[..., 1::2])


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((2, 3), np.float32),
        np.zeros((1, 2, 3)),
        ScratchPlan().array((2, 3), np.float32),
        ScratchPlan().array((1, 2, 3), np.float64),
    ],
    ids=str,
)
def test_what_a_call_does_not_take_is_refused(x):
    with pytest.raises(TypeError, match="is no"):
        recorded("copy", x, np.zeros((1, 2, 3), np.float32))


def test_memory_that_has_to_be_contiguous_is_looked_at():
    loops = np.zeros((2, 8, 8, 8), np.float32)
    axes, shape = ((1, 0),) * 3, (1, 1, 1, 8, 8, 8)
    frames = np.zeros((2, 600), np.float32)
    recorded("fill_all", loops, frames, 0, shape, axes)
    with pytest.raises(TypeError, match="is no"):
        recorded("fill_all", loops[..., ::-1], frames, 0, shape, axes)
    with pytest.raises(TypeError, match="is no"):
        recorded("fill_all", loops, frames, 0, shape[:5], axes)


def network() -> Any:
    """Return a graph whose layers are compiled but for some in between, and its input."""
    b = Builder()
    x = b.input((2, 3, 17, 19))
    same = {"pads_begin": (1, 1), "pads_end": (1, 1)}
    y = b.add(ReLU(), b.add(Convolution(**same), x, randn(8, 3, 3, 3)))
    for strides in ((1, 1), (2, 2)):
        y = b.add(GroupConvolution(strides=strides, **same), y, randn(8, 1, 1, 3, 3))
        z = b.add(ReLU(), b.add(Convolution(**same), y, randn(8, 8, 3, 3)))
        y = b.add(Add(), z, b.add(ReLU(), b.add(Convolution(**same), z, randn(8, 8, 3, 3))))
    y = b.add(MaxPool1((5, 5), (2, 2), (2, 2), (2, 2)), y)
    y = b.add(Convolution(**same), y, randn(5, 8, 3, 3))
    return b.done(b.add(ReLU(), b.add(Convolution(), y, randn(4, 5, 1, 1)))), randn(2, 3, 17, 19)


def test_steps_that_are_compiled_are_one_call_and_compute_the_same():
    graph, x = network()
    plan = ird.compile(graph, None, threads=1)
    shared = ird.compile(graph, None, threads=2)
    program = plan.program([x])
    assert len(program._joined) < len(program.steps)
    assert len(shared.program([x])._joined) == len(shared.steps)
    want = plan.run([x])["y0"]
    plain = ird.compile(graph, None, threads=1, fuse=False).run([x])["y0"]
    np.testing.assert_allclose(want, plain, rtol=1e-4, atol=1e-4)
    for _ in range(3):
        np.testing.assert_array_equal(plan.run([x])["y0"], want)
        np.testing.assert_array_equal(shared.run([x])["y0"], want)
    seen = []
    watched = plan.observe([x], lambda step, values: (seen.append(step), step.call(values)))
    np.testing.assert_array_equal(watched["y0"], want)
    assert seen == program.steps


def test_a_team_does_pieces_that_are_compiled_and_others():
    from irdeconv.kernels.compiled.recorded import Repeated, in_turn

    x, out = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.zeros((2, 3, 4), np.float32)
    places = ScratchPlan().array(x[0:1].shape, np.float32)
    pieces = []
    for k in range(2):
        here = slice(k, k + 1)
        first, last = recorded("copy", x[here], places), recorded("copy", places, out[here])
        pieces.append(in_turn([first, lambda space: space.array((9,), np.float64).fill(7), last]))
    work = Repeated(tuple(pieces))
    assert work.recorded is None
    for threads in (1, 2):
        out.fill(0)
        work(Threads(threads))
        np.testing.assert_array_equal(out, x)
