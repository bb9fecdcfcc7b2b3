"""Compiled calls that are written down: what they read, and plans that make many at once."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.kernels import (
    convolution_depthwise,
    convolution_direct,
    deconvolution_direct,
    deconvolution_winograd,
    jit,
    machine,
    products,
    reductions,
    scratch,
)
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.scratch import ScratchPlan, Space
from irdeconv.kernels.threads import Threads
from irdeconv.ops.activation import Gelu, Mish, ReLU, Sigmoid, SoftMax
from irdeconv.ops.channels import ShuffleChannels
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.core import Deconvolution
from irdeconv.ops.elementwise import Add, Divide, Erf, Multiply
from irdeconv.ops.image import Interpolate11
from irdeconv.ops.movement import Concat, Pad12, Reshape, Transpose
from irdeconv.ops.pooling import AvgPool1, MaxPool1
from irdeconv.ops.reduction import ReduceMean, ReduceSum
from support.plan_graphs import Builder, plans, randn, same
from support.rows import parts

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(not jit.available(), reason="needs numba")]


def recorded(step: str, *arguments: Any) -> Any:
    from irdeconv.kernels.recorded_calls import Recorded

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
    b, x = Builder.of((2, 3, 17, 19))
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
    assert len(shared.program([x])._joined) == len(program._joined)  # all of them are short
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
    from irdeconv.kernels.recorded_calls import Repeated, in_turn

    x, out = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.zeros((2, 3, 4), np.float32)
    places = ScratchPlan().array(x[0:1].shape, np.float32)
    pieces = []
    for k in range(2):
        here = slice(k, k + 1)
        first, last = recorded("copy", x[here], places), recorded("copy", places, out[here])
        pieces.append(in_turn([first, lambda space: space.array((9,), np.float64).fill(7), last]))
    work = Repeated(tuple(pieces))
    assert work.phases == ()
    for threads in (1, 2):
        out.fill(0)
        work(Threads(threads))
        np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("width", [1, 7, 16, 1030])
@pytest.mark.parametrize("axes", ["rows", "columns", "both", "scalar"])
def test_programs_compute_what_numpy_does_to_the_bit(width, axes):
    """All operations, operands that broadcast in every way, any length, NaN and infinity."""
    from irdeconv.kernels import elementwise as steps
    from irdeconv.kernels.elementwise import Instruction
    from irdeconv.kernels.elementwise_chain import Chain

    x, out = randn(5, width), np.empty((5, width), np.float32)
    x[0, 0], x[-1, -1], x[2, 0] = np.nan, np.inf, -0.0
    shape = {"rows": (5, 1), "columns": (1, width), "both": (5, width), "scalar": (1, 1)}[axes]
    y, known = randn(*shape), randn(5, 1)
    rules = [
        *(np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum),
        *(steps.squared_difference, steps.maximum),
    ]
    for rule in rules:
        chain = Chain.compile(
            [
                Instruction(rule, (0, 1)),
                Instruction(np.add, (3, 2)),
                Instruction(steps.clamp, (4,), (-1.5, 2.0)),
                Instruction(np.square, (3,)),
                Instruction(np.sqrt, (6,)),
                Instruction(np.subtract, (7, 5)),
            ],
            np.float32,
            [None, known],
        )
        with np.errstate(all="ignore"):
            want = np.empty_like(out)
            chain.run([x, y], want, Threads())
        work = chain.fixed([x, y], out)
        assert work.phases
        work(Threads())
        np.testing.assert_array_equal(out, want)


def test_what_a_program_has_no_operation_for_is_left_to_numpy():
    from irdeconv.kernels.elementwise import Instruction
    from irdeconv.kernels.elementwise_chain import Chain

    x, out = randn(3, 40), np.empty((3, 40), np.float32)
    chain = Chain.compile([Instruction(np.exp, (0,)), Instruction(np.add, (1, 1))], np.float32)
    chain.fixed([x], out)(Threads())
    np.testing.assert_allclose(out, 2 * np.exp(x), rtol=1e-6)


def resized(b: Any, x: Any, *sizes: int, axes: tuple[int, ...] = (2, 3), **more: Any) -> Any:
    op = Interpolate11(**{"mode": "linear", "shape_calculation_mode": "sizes", **more})
    return b.add(op, x, np.array(sizes), np.array(axes))


def turned(b: Any, x: Any, channels: int) -> Any:
    """Return a convolution of data whose channels come last."""
    y = b.add(Convolution(), x, randn(channels, 6, 1, 1))
    y = b.add(Transpose(), b.add(ReLU(), y), np.array([0, 3, 2, 1]))
    return b.add(Convolution(), y, randn(4, 19, 1, 1))


def padded(begin: list[int], end: list[int], mode: Any = "constant", value: float = 0) -> Any:
    rows = np.array(begin), np.array(end), np.float32(value)
    return lambda b, x: b.add(Pad12(mode), x, *rows)


def wider(b: Builder, x: Any) -> Any:
    """Return 48 channels of at least 68 x 76."""
    return b.add(Concat(1), *(resized(b, x, 68, 76) for _ in range(8)))


LAYERS = {
    "reflected": padded([0, 0, 0, 3], [0, 0, 0, -2], "reflect"),
    "edge": padded([0, 0, 2, 3], [0, 0, 4, 1], "edge"),
    "reflected-around": padded([0, 2, 16, 4], [0, 5, 3, 18], "reflect"),
    "symmetric": padded([0, 6, 1, 4], [1, 0, 17, 19], "symmetric"),
    "erf": lambda b, x: b.add(Erf(), b.add(Add(), x, randn(1))),
    "gelu": lambda b, x: b.add(Gelu(), b.add(Add(), x, randn(1, 6, 1, 1))),
    "gelu-joined": lambda b, x: b.add(Concat(1), x, b.add(Gelu(), x)),
    "mish": lambda b, x: b.add(Concat(1), x, b.add(Mish(), x)),
    "sigmoid": lambda b, x: b.add(Concat(1), x, b.add(Sigmoid(), x)),
    "softmax": lambda b, x: b.add(SoftMax(3), x),
    "softmax-planes": lambda b, x: b.add(SoftMax(1), b.add(Reshape(), x, np.array([-1, 646]))),
    "larger": lambda b, x: resized(b, x, 34, 57),
    "smaller": lambda b, x: resized(b, x, 5, 40, antialias=True),
    "aligned": lambda b, x: resized(b, x, 9, 31, coordinate_transformation_mode="align_corners"),
    "channels-last": lambda b, x: resized(b, x, 9, 34, axes=(1, 2)),
    "repeated": lambda b, x: resized(b, x, 34, 57, mode="nearest"),
    "products": lambda b, x: b.add(Convolution(), x, randn(40, 6, 1, 1)),
    "tiles": lambda b, x: b.add(
        ReLU(),
        b.add(Convolution(pads_begin=(1, 1), pads_end=(1, 1)), wider(b, x), randn(64, 48, 3, 3)),
    ),
    **{f"turned-{n}": partial(turned, channels=n) for n in (3, 4, 7, 16, 21)},
    "pad": padded([0, 1, 2, 0], [0, 2, 0, 3], value=1.5),
    "crop": padded([0, 1, -2, 0], [0, 0, 1, -1]),
    "concat": lambda b, x: b.add(Concat(1), x, b.add(ReLU(), x), x),
    "concat-columns": lambda b, x: b.add(Concat(3), x, b.add(ReLU(), x)),
    "shuffle": lambda b, x: b.add(ShuffleChannels(1, 3), x),
    "mean": lambda b, x: b.add(ReduceMean(True), x, np.array([2, 3])),
    "sum": lambda b, x: b.add(ReduceSum(False), x, np.array([1, 2, 3])),
    "squeezed": lambda b, x: b.add(
        Multiply(),
        x,
        b.add(Convolution(), b.add(ReduceMean(True), x, np.array([2, 3])), randn(6, 6, 1, 1)),
    ),
    "scaled": lambda b, x: b.add(Divide(), b.add(Multiply(), x, randn(1, 6, 1, 1)), randn(1)),
    "transposed": lambda b, x: b.add(
        Convolution(), b.add(Transpose(), x, np.array([0, 2, 3, 1])), randn(3, 17, 2, 2)
    ),
    "factors": lambda b, x: b.add(GroupConvolution(), x, randn(6, 1, 1, 1, 1)),
    "max-2": lambda b, x: b.add(MaxPool1((2, 2), (2, 2), (0, 0), (0, 0)), x),
    "average-2": lambda b, x: b.add(AvgPool1((2, 2), (2, 2), (0, 0), (0, 0)), x),
    "column": lambda b, x: b.add(
        MaxPool1((2, 1), (2, 1), (1, 0), (0, 0)), b.add(Convolution(), x, randn(4, 6, 2, 19))
    ),
    "column-means": lambda b, x: b.add(
        AvgPool1((3, 1), (1, 1), (1, 0), (2, 0), exclude_pad=True),
        b.add(Convolution(), x, randn(4, 6, 2, 19)),
    ),
    "max-5": lambda b, x: b.add(MaxPool1((5, 4), (3, 2), (2, 1), (1, 2)), x),
    "max-3": lambda b, x: b.add(MaxPool1((3, 3), (1, 1), (1, 1), (1, 1)), x),
    "average": lambda b, x: b.add(AvgPool1((3, 2), (2, 2), (1, 0), (0, 1), exclude_pad=False), x),
    "whole": lambda b, x: b.add(AvgPool1((17, 19), (1, 1), (0, 0), (0, 0)), x),
}


@pytest.mark.parametrize("images", parts(2, [1, 5, 2]))
@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_are_one_call_compute_what_their_operations_say(name, images):
    b, x = Builder.of((images, 6, 17, 19))
    y = LAYERS[name](b, b.add(ReLU(), x))
    graph, data = b.done(b.add(ReLU(), y)), randn(images, 6, 17, 19)
    _, outs, plain = plans(graph, [data])
    same(outs, plain)
    assert [s.kernel for s in ird.compile(graph, None, threads=1).steps if s.phases]
    shared = ird.compile(graph, None, threads=2).run([data])
    np.testing.assert_array_equal(shared["y0"], outs["y0"])


def test_small_inputs_and_outputs_are_the_callers_own():
    b, x = Builder.of((2, 3))
    y = b.add(ReLU(), x)
    plan = ird.compile(b.done(y, x, y), None, threads=1)
    data = randn(2, 3)
    first = plan.run([data])
    kept = {name: array.copy() for name, array in first.items()}
    second = plan.run([-data])
    for name, array in first.items():
        np.testing.assert_array_equal(array, kept[name])
        assert not any(np.shares_memory(array, a) for a in (data, *second.values()))
    copied = list(second.values())
    assert not np.shares_memory(copied[0], copied[-1])
    np.testing.assert_array_equal(copied[1], -data)


@pytest.mark.parametrize("where", [(0, 0), (3, 5), (16, 18)])
def test_what_has_no_weight_takes_no_part(where):
    """An infinity spreads to the outputs that it has a weight in, and makes no NaN of others."""
    b, x = Builder.of((1, 2, 17, 19))
    y = resized(b, b.add(ReLU(), x), 33, 37, coordinate_transformation_mode="align_corners")
    graph, data = b.done(b.add(ReLU(), y)), np.abs(randn(1, 2, 17, 19))
    data[0, 1, *where] = np.inf
    _, outs, plain = plans(graph, [data])
    finite = np.isfinite(plain["y0"])
    assert not finite.all()
    np.testing.assert_array_equal(np.isfinite(outs["y0"]), finite)
    np.testing.assert_array_equal(np.isnan(outs["y0"]), np.isnan(plain["y0"]))
    np.testing.assert_allclose(outs["y0"][finite], plain["y0"][finite], rtol=1e-5)


@pytest.mark.parametrize(("size", "moved"), [(4, False), (40, True)])
def test_what_a_deconvolution_reads_and_writes_is_copied_only_where_it_is_small(
    size: int, moved: bool
) -> None:
    """Its calls are written down for memory anywhere; the caller's arrays are used themselves."""
    b, pads = Builder(), np.zeros(2, np.int64)
    x, w = b.input((1, 24, size, size)), randn(1, 24, 8, 2, 2)
    g = b.done(b.add(Deconvolution((2, 2), (1, 1)), x, w, pads, pads))
    plan = ird.compile(g, None, threads=1)
    for owned in (True, True, False):
        data = randn(1, 24, size, size)
        data.setflags(write=owned)  # memory of others may only be read
        same(plan.run([data]), ird.run(g, [data], None, fuse=False))
    program = plan._static()
    assert all((program.values[slot] is None) == moved for slot in program.parameters)
    assert bool(program.fresh) == moved


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5.6, -60.0, 89.0, -104.0, 3e38, -3e38]


@pytest.mark.parametrize("name", ["erf", "gelu", "mish", "sigmoid"])
def test_activations_end_where_their_definitions_do(name):
    """Signs of zeros, infinities and NaN; erf is exactly 1 far out, so GELU is exactly x or 0."""
    op = {"erf": Erf, "gelu": Gelu, "mish": Mish, "sigmoid": Sigmoid}[name]()
    values = np.concatenate([SPECIAL, np.linspace(-7, 7, 70_001)]).astype(np.float32)
    b = Builder()
    graph = b.done(b.add(op, b.input((1, values.size))))
    (got,), (want,) = (
        ird.compile(graph, None, threads=1, fuse=fuse).run([values[None]]).values()
        for fuse in (True, False)
    )
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)
    ends = slice(0, len(SPECIAL))
    np.testing.assert_allclose(got[0, ends], want[0, ends], rtol=1e-6, atol=1e-37)
    known = ~np.isnan(got[0, :5])
    np.testing.assert_array_equal(np.signbit(got[0, :5])[known], np.signbit(want[0, :5])[known])


@pytest.mark.parametrize(("rows", "width"), [(700, 101), (3, 40_000), (5, 1), (2, 17), (900, 2)])
def test_rows_of_a_softmax_sum_up_to_one(rows, width):
    """Rows with infinities and NaN, too; from 65,536 elements on calls are written down anew."""
    x = randn(rows, width) * 20
    x[0, 0] = -np.inf
    if rows > 2:
        x[1, -1], x[2, 0] = np.inf, np.nan
    b = Builder()
    graph = b.done(b.add(SoftMax(1), b.input(x.shape)))
    with np.errstate(all="ignore"):
        power = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
        want = power / power.sum(1, keepdims=True)
    (got,) = ird.compile(graph, None, threads=1).run([x]).values()
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("turned", range(4))
def test_the_blas_multiplies_what_numpy_would_give_it(turned):
    from irdeconv.kernels.recorded_calls import recorded_matmuls

    if machine.matrix_product() is None:
        pytest.skip("NumPy has another BLAS")
    a, b, out = randn(3, 7, 5), randn(3, 5, 9), np.full((3, 7, 12), np.nan, np.float32)
    a, b = (
        np.swapaxes(np.swapaxes(x, 1, 2).copy(), 1, 2) if turned >> i & 1 else x
        for i, x in enumerate((a, b))
    )
    work = recorded_matmuls([(np.matmul, a, b, out[..., :9])])
    assert work is not None
    work(Space())
    np.testing.assert_array_equal(out[..., :9], np.matmul(a, b))
    assert np.isnan(out[..., 9:]).all()


@pytest.mark.parametrize("sizes", [(64, 64, 3136), (256, 64, 784), (100, 70, 1001)])
@pytest.mark.parametrize("stack", [(), (2,)])
def test_small_products_of_one_are_each_written(sizes, stack, monkeypatch):
    """On processors whose BLAS reads small operands in place a product is cut into tiles."""
    from irdeconv.kernels.recorded_calls import recorded_matmuls

    monkeypatch.setattr(products, "multiplies_in_place", lambda: True)
    m, k, n = sizes
    a, b = randn(*stack, m, k), randn(*stack, k, n)
    out = np.full((*stack, m, n), np.nan, np.float32)
    calls = products.product_calls(a, b, out)
    assert len(calls) > 1 or calls[0][3].ndim > out.ndim
    work = recorded_matmuls(calls)
    if work is not None:
        work(Space())
        np.testing.assert_allclose(out, np.matmul(a, b), rtol=1e-5, atol=1e-4)
    assert work is not None or stack or machine.matrix_product() is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (randn(1, 5), randn(5, 9)),
        (randn(7, 5), randn(5, 1)),
        (randn(7, 10)[:, ::2], randn(5, 9)),
        (np.broadcast_to(randn(1, 5), (7, 5)), randn(5, 9)),
        (randn(7, 5).astype(np.float64), randn(5, 9).astype(np.float64)),
        (randn(2, 3, 2, 7, 5), randn(2, 3, 2, 5, 9)),
    ],
)
def test_other_products_are_left_to_numpy(a, b):
    from irdeconv.kernels.recorded_calls import recorded_matmuls

    product = np.matmul(a, b)
    assert recorded_matmuls([(np.matmul, a, b, product)]) is None
    assert recorded_matmuls([(np.multiply, a[..., :1], b[..., :1, :], product)]) is None


def test_a_step_that_cannot_be_recorded_is_not_left_out(monkeypatch):
    x = randn(1, 4, 4)
    assert reductions.Attention().fixed(x, x, x, np.empty_like(x)) is not None
    for name in ("recorded_copy", "recorded_program", "recorded_products"):
        with monkeypatch.context() as patch:
            patch.setattr(reductions, name, lambda *_: None)
            assert reductions.Attention().fixed(x, x, x, np.empty_like(x)) is None


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    "problem",
    [
        ConvProblem((2, 48, 30, 26), 20, 2, (3, 3), (1, 1), (1, 1), (1, 1), (30, 26)),
        ConvProblem((1, 32, 20, 17), 70, 1, (4, 4), (2, 2), (1, 1), (1, 0), (40, 35)),
        ConvProblem((1, 20, 410), 33, 1, (6,), (2,), (1,), (1,), (820,)),
    ],
)
@pytest.mark.parametrize("small", [False, True])
@np.errstate(all="ignore")
def test_tiles_that_are_written_down_compute_the_same(problem, threads, small, monkeypatch):
    """By phases that wait for each other, and by blocks that do not."""
    from irdeconv.kernels.recorded_calls import ProgramCode, recorded_program, shared_calls

    def twice(tile, image, channels, positions):
        return recorded_program(ProgramCode([(jit.ADDED, (0, 0), 1)], (), 0), [tile], tile)

    if small:
        sizes = replace(scratch.SIZES, evaluated_bytes=20_000, tile_columns=8)
        monkeypatch.setattr(scratch, "SIZES", sizes)
    x = randn(*problem.shape)
    w = randn(problem.groups, problem.group_inputs, problem.group_outputs, *problem.kernel)
    phases = set()
    for candidate in deconvolution_winograd.candidates(problem):
        want, out = (np.full(problem.out_shape, np.nan, np.float32) for _ in range(2))
        candidate.prepare(w)(x, want, None, Threads(1))
        with scratch.shared_by(threads):
            work = candidate.prepare(w).fixed(x, out, twice)
        phases.add(len(work.phases))
        for _ in range(3):
            out.fill(np.nan)
            shared_calls([work.phases], threads)(Threads(threads))
            np.testing.assert_array_equal(out, 2 * want)
    assert phases == {1} if small else max(phases) > 1


@pytest.mark.parametrize("threads", [1, 2, 4, 16])
@pytest.mark.parametrize(
    ("shape", "outputs", "kernel", "strides", "sizes"),
    [
        ((8, 64, 8, 8), 32, (4, 4), (2, 2), (18, 18)),
        ((1, 32, 1, 512), 16, (1, 4), (1, 2), (1, 1026)),
        ((4, 32, 12, 12), 16, (4, 4), (2, 2), (26, 26)),
    ],
)
def test_work_that_is_cut_for_threads_is_still_written_down(
    shape, outputs, kernel, strides, sizes, threads
):
    lists = kernel, strides, (1, 1), (0, 0), sizes
    problem = ConvProblem(shape, outputs, 1, *lists)
    x, w = randn(*shape), randn(1, shape[1], outputs, *kernel)
    direct = next(c for c in deconvolution_direct.candidates(problem))
    with scratch.shared_by(threads):
        made = direct.prepare(w)
    one, out = (np.full(problem.out_shape, np.nan, np.float32) for _ in range(2))
    direct.prepare(w)(x, one, None, Threads(1))
    work = made.fixed(x, out, lambda *_: None)
    assert work is not None
    work(Threads(threads))
    np.testing.assert_array_equal(out, one)


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "begin", "sizes"),
    [
        ((1, 1, 4410), (64,), (2,), (0,), (2173,)),
        ((1, 1, 61, 77), (7, 7), (1, 1), (3, 3), (61, 77)),
        ((1, 2, 61, 13), (7, 7), (1, 1), (3, 3), (61, 13)),
        ((1, 1, 97, 130), (6, 6), (2, 2), (1, 1), (47, 64)),
        ((1, 1, 9, 20, 41), (4, 4, 4), (1, 1, 1), (0, 0, 0), (6, 17, 38)),
    ],
)
def test_threads_share_a_plane_by_vectors(
    shape, kernel, strides, begin, sizes, threads, monkeypatch
):
    from irdeconv.kernels.recorded_calls import ProgramCode, recorded_program

    def twice(tile, image, channels, positions):
        return recorded_program(ProgramCode([(jit.ADDED, (0, 0), 1)], (), 0), [tile], tile)

    def add(tile, image, channels, positions):
        tile += tile

    lists = kernel, strides, (1,) * len(kernel), begin, sizes
    problem = ConvProblem(shape, shape[1], shape[1], *lists)
    x, w = randn(*shape), randn(shape[1], 1, 1, *kernel)
    [candidate] = convolution_depthwise.depthwise_candidates(problem)
    want = np.full(problem.out_shape, np.nan, np.float32)
    candidate.prepare(w)(x, want, None, Threads(1))
    monkeypatch.setattr(scratch, "SHARED_NS", 10.0)
    with scratch.shared_by(threads):
        made = candidate.prepare(w)
    assert len(made.blocks) > shape[1]
    fixed, called = (np.full(problem.out_shape, np.nan, np.float32) for _ in range(2))
    made.fixed(x, fixed, twice)(Threads(threads))
    made(x, called, add, Threads(threads))
    np.testing.assert_array_equal(fixed, 2 * want)
    np.testing.assert_array_equal(called, 2 * want)


def test_threads_share_outputs_rather_than_parts_of_planes() -> None:
    """An epilogue on parts of planes is slower."""
    problem = ConvProblem((1, 96, 8, 8), 96, 1, (1, 1), (1, 1), (1, 1), (0, 0), (8, 8))
    [direct] = convolution_direct.candidates(problem)
    with scratch.shared_by(2):
        layout = direct.prepare(randn(96, 96, 1, 1)).layout
    assert (layout.step, layout.outputs) == (64, 48)
