"""Plans: steps and memory."""

import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irdeconv as ird
from irdeconv.ir.dtypes import f32
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Interval
from irdeconv.kernels import jit
from irdeconv.kernels.candidate import Candidate, ConvProblem
from irdeconv.kernels.threads import Threads
from irdeconv.ops.activation import PReLU, ReLU, Sigmoid
from irdeconv.ops.basic import Convert
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.core import Deconvolution, ZeroInsertion
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.ops.elementwise import Add, Exp, Greater, Multiply
from irdeconv.ops.movement import Concat, Pad12, Reshape, Transpose
from irdeconv.ops.pooling import MaxPool14
from irdeconv.ops.slicing import Slice
from irdeconv.runtime import executors
from irdeconv.runtime import plan as plan_module
from irdeconv.runtime.executors import Tuner
from irdeconv.runtime.program import Lifetime, layout, most_alive
from support import oracle
from support.layers import build as build_layer
from support.layers import expected, numbers, random_layer
from support.memory import peak_of
from support.plan_graphs import RNG, Builder, plans, randn, same, same_in_every_run, steps_of
from support.rows import each_row

# Fused plans: what becomes one step, and that the numbers are those of node by node.


def test_convolution_takes_in_what_surrounds_it():
    b, x = Builder.of((2, 3, 7, 6))
    y = b.add(Pad12(), x, np.array([0, 0, 1, 2]), np.array([0, 0, 2, 1]), np.float32(0))
    y = b.add(Convolution(), y, randn(4, 3, 3, 3))
    y = b.add(Add(), y, randn(1, 4, 1, 1))
    y = b.add(PReLU(), y, randn(4))
    other = b.add(Convolution((1, 1), (1, 2), (2, 1)), x, randn(4, 3, 3, 3))
    z = b.add(ReLU(), b.add(Add(), other, y))
    steps = steps_of(b.done(z), (2, 3, 7, 6))
    front, back = ["Pad", "Convolution", "Add", "PReLU"], ["Convolution"]
    assert sorted(steps, key=len) in (
        [back, [*front, "Add", "ReLU"]],
        [[*back, "Add", "ReLU"], front],
    )


def test_a_deconvolution_that_no_output_needs_is_left_out():
    for behind in (False, True):
        b, x = Builder.of((1, 2, 5, 5))
        unread = b.add(ConvolutionBackpropData(strides=(2, 2)), x, randn(2, 3, 2, 2))
        if behind:
            b.add(ReLU(), unread)
        assert steps_of(b.done(b.add(Sigmoid(), x)), (1, 2, 5, 5)) == [["Sigmoid"]]


def test_what_others_read_stays():
    b, x = Builder.of((1, 2, 5, 5))
    y = b.add(Convolution(), x, randn(3, 2, 2, 2))
    assert steps_of(b.done(b.add(ReLU(), y), y), (1, 2, 5, 5)) == [["Convolution"], ["ReLU"]]


def test_a_value_used_twice_inside_is_fused():
    b, x = Builder.of((1, 2, 5, 5))
    y = b.add(Convolution(), x, randn(3, 2, 2, 2))
    y = b.add(Multiply(), y, b.add(Sigmoid(), y))
    assert steps_of(b.done(y), (1, 2, 5, 5)) == [["Convolution", "Sigmoid", "Multiply"]]


@pytest.mark.parametrize(
    ("pads", "own", "fused"),
    [((1, 1), (0, 0), True), ((-1, -1), (0, 0), True), ((-1, 0), (1, 0), False),
     ((0, -1), (0, 1), False), ((2, -1), (-1, 0), True), ((-1, 2), (-1, 1), True)],
)  # fmt: skip
def test_a_pad_that_cuts_what_the_convolution_would_see_stays(pads, own, fused):
    b, x = Builder.of((1, 1, 8))
    y = b.add(Pad12(), x, np.array([0, 0, pads[0]]), np.array([0, 0, pads[1]]), np.float32(0))
    y = b.add(Convolution((1,), (own[0],), (own[1],)), y, randn(1, 1, 3))
    assert (steps_of(b.done(y), (1, 1, 8))[-1] == ["Pad", "Convolution"]) == fused


def test_a_pad_with_another_value_or_mode_stays():
    for value, mode in ((1.5, "constant"), (0, "edge"), (np.nan, "constant")):
        b, x = Builder.of((1, 1, 8))
        y = b.add(Pad12(mode), x, np.array([0, 0, 1]), np.array([0, 0, 1]), np.float32(value))
        g = b.done(b.add(Convolution(), y, randn(1, 1, 3)))
        steps, outs, plain = plans(g, [randn(1, 1, 8)])
        assert steps == [["Pad"], ["Convolution"]]
        np.testing.assert_array_equal(np.isnan(outs["y0"]), np.isnan(plain["y0"]))


def test_the_three_nodes_of_a_deconvolution_are_one_step():
    b, x = Builder.of((2, 4, 5))
    y = b.add(ZeroInsertion((3,)), x)
    y = b.add(Pad12(), y, np.array([0, 0, 2]), np.array([0, 0, 1]), np.float32(0))
    w = randn(2, 3, 2, 4)
    y = b.add(GroupConvolution((1,), (1,), (2,), (2,)), y, w)
    data = randn(2, 4, 5)
    steps, outs, plain = plans(b.done(y), [data])
    assert steps == [["ZeroInsertion", "Pad", "GroupConvolution"]]
    same(outs, plain)
    want = oracle.deconvolution(
        data, np.flip(w, 3).swapaxes(1, 2), (3,), (2,), (6 - 3,), outs["y0"].shape[2:]
    )
    same({"y0": outs["y0"]}, {"y0": want.astype(np.float32)})


@each_row("seed", range(40))
def test_random_layers_fused_agree_with_the_definition(seed):
    rng = np.random.default_rng([11, seed])
    layer = random_layer(rng)
    x, w = numbers(rng, layer.data_shape, np.float32), numbers(rng, layer.filter_shape, np.float32)
    g, feeds = build_layer(layer, x, w)
    for form in ("zero-insertion", None):
        got = ird.run(g, feeds, form=form, threads=1)
        same({"y": got["y"]}, {"y": np.asarray(expected(layer, x, w), np.float32)})


def test_views_share_memory_and_last_long_enough():
    b, x = Builder.of((2, 3, 4))
    y = b.add(ReLU(), x)
    v = b.add(Reshape(special_zero=False), y, np.array([6, 4]))
    t = b.add(Transpose(), v, np.array([1, 0]))
    for _ in range(4):  # buffers that would overwrite what the view sees
        x = b.add(
            Multiply(), b.add(Convolution((1,), (1,), (1,)), x, randn(3, 3, 3)), randn(1, 3, 1)
        )
    z = b.add(Add(), x, b.add(Reshape(special_zero=False), t, np.array([2, 3, 4])))
    _, outs, plain = plans(b.done(z, v, v), [randn(2, 3, 4)])
    same(outs, plain)
    arrays = list(outs.values())
    assert not np.shares_memory(arrays[1], arrays[2])


def test_a_cropped_residual_is_read_anew_in_every_run():
    b, x = Builder.of((1, 3, 8, 9))
    y = b.add(ReLU(), x)
    crop = b.add(Slice(), y, *(np.array(v) for v in ([1, 2], [7, 8], [1, 1], [2, 3])))
    z = b.add(Add(), b.add(Convolution(), y, randn(3, 3, 3, 4)), crop)
    same_in_every_run(b.done(z), (1, 3, 8, 9))


@pytest.mark.parametrize("shape", [(1, 1, 1, 9), (1, 4, 1, 1), (1, 4, 6, 9)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
def test_what_is_added_in_place_is_read_anew_in_every_run(shape, kernel):
    """Kernels keep their views of memory that stays where it is, never copies of what is in it."""
    b = Builder()
    x, other = b.input((1, 4, 6, 9)), b.input(shape, name="r")
    y = b.add(ReLU(), x)
    pads = {"pads_begin": (1, 1), "pads_end": (1, 1)} if kernel == (3, 3) else {}
    for filter, op in (((4, 4), Convolution), ((4, 1, 1), GroupConvolution)):
        y = b.add(op(**pads), y, randn(*filter, *kernel))
        y = b.add(ReLU(), b.add(Add(), y, b.add(ReLU(), other)))
    same_in_every_run(b.done(b.add(Transpose(), y, np.array([1, 0, 3, 2]))), (1, 4, 6, 9), shape)


@pytest.mark.parametrize("shape", [(7,), (6, 1), (5, 1, 1), (5, 6, 7), (3, 1, 1, 1)])
def test_what_is_added_to_a_volume_by_fewer_axes_is_read_anew_in_every_run(shape):
    b = Builder()
    x, other = b.input((1, 2, 5, 6, 7)), b.input(shape, name="r")
    y = b.add(Convolution(), x, randn(3, 2, 1, 1, 1))
    y = b.add(Add(), y, b.add(ReLU(), other))
    y = b.add(Convolution(), y, randn(3, 3, 1, 1, 1))
    same_in_every_run(b.done(y), (1, 2, 5, 6, 7), shape)


def test_a_view_that_needs_a_copy_is_made_in_every_run():
    b, x = Builder.of((2, 3, 4))
    y = b.add(Transpose(), b.add(ReLU(), x), np.array([0, 2, 1]))
    flat = b.add(Reshape(special_zero=False), y, np.array([2, 12]))
    plan = ird.compile(b.done(b.add(Multiply(), flat, np.float32(2))), None, threads=1)
    for _ in range(2):
        data = np.abs(randn(2, 3, 4))
        want = 2 * data.swapaxes(1, 2).reshape(2, 12)
        np.testing.assert_array_equal(plan.run([data])["y0"], want)


@pytest.mark.skipif(not jit.available(), reason="numba is not installed")
def test_a_view_of_a_view_is_copied_where_a_reshaping_would_copy_it():
    b, x = Builder.of((1, 2, 20, 8))
    y = b.add(Transpose(), b.add(ReLU(), x), np.array([2, 1, 0, 3]))
    y = b.add(Transpose(), y, np.array([0, 2, 1, 3]))  # an axis of one element: no copy here
    flat = b.add(Reshape(special_zero=False), y, np.array([20, 16]))
    plan = ird.compile(b.done(b.add(Multiply(), flat, np.float32(2))), None, threads=1)
    data = np.abs(randn(1, 2, 20, 8))
    want = 2 * data[0].swapaxes(0, 1).reshape(20, 16)
    np.testing.assert_array_equal(plan.run([data])["y0"], want)
    assert [s.node.type for s in plan.steps] == ["ReLU", "Transpose", "Multiply"]


@pytest.mark.skipif(not jit.available(), reason="numba is not installed")
def test_a_slice_that_a_reshaping_would_copy_is_copied_itself():
    b, x = Builder.of((3, 6, 4))
    some = b.add(Slice(), b.add(ReLU(), x), *(np.array([n]) for n in (1, 5, 1, 1)))
    flat = b.add(Reshape(special_zero=False), some, np.array([48]))
    plan = ird.compile(b.done(b.add(Multiply(), flat, np.float32(2))), None, threads=1)
    assert [s.node.type for s in plan.steps] == ["ReLU", "Slice", "Multiply"]


def test_few_views_of_a_long_chain_are_looked_at(monkeypatch):
    b, x = Builder.of((1, 4, 6))
    y = b.add(ReLU(), x)
    for _ in range(50):
        y = b.add(Transpose(), y, np.array([1, 0, 2]))
        y = b.add(Reshape(special_zero=False), y, np.array([1, 4, 6]))
    graph, bound = b.done(b.add(ReLU(), y)), []
    made = executors.bind
    monkeypatch.setattr(executors, "bind", lambda *a: bound.append(a) or made(*a))
    ird.compile(graph, None, threads=1)
    assert 50 < len(bound) <= 100 * (1 + executors.VIEWS_BEFORE)


@pytest.mark.skipif(not jit.available(), reason="numba is not installed")
@pytest.mark.parametrize(("size", "cut"), [(8, False), (40, True)])
def test_only_long_programs_are_cut_for_threads(size: int, cut: bool) -> None:
    b, x = Builder.of((1, 8, size, size))
    g = b.done(b.add(Convolution(), x, randn(64, 8, 3, 3)))
    plan = ird.compile(g, threads=2)
    phases = [phase for step in plan.steps for phase in step.phases]
    assert any(len(phase) > 1 for phase in phases) == cut
    team = plan._static().team
    assert team.threads == (2 if cut else 1)
    assert team.lock is plan.settings.team.lock


def test_outputs_are_the_callers_own_arrays():
    b, x = Builder.of((2, 3))
    y = b.add(ReLU(), x)
    g = b.done(y, x, b.add(Reshape(special_zero=False), y, np.array([6])), y)
    plan = ird.compile(g, None, threads=1)
    data = randn(2, 3)
    first = plan.run([data])
    kept = {k: v.copy() for k, v in first.items()}
    second = plan.run([data + 1])
    for name, array in first.items():
        np.testing.assert_array_equal(array, kept[name])
        assert not np.shares_memory(array, data)
        assert all(not np.shares_memory(array, other) for other in second.values())


def test_open_shapes_get_a_program_each():
    b, x = Builder.of((None, 2, None))
    y = b.add(Convolution((1,), (1,), (1,)), x, randn(3, 2, 3))
    g = b.done(b.add(ReLU(), y))
    plan = ird.compile(g, None, threads=1)
    for n, i in ((1, 4), (2, 9), (1, 4), (3, 1)):
        data = randn(n, 2, i)
        same(plan.run([data]), ird.run(g, [data], None, fuse=False))
    with pytest.raises(ird.UsageError):
        plan.run([randn(1, 3, 4)])


def test_shapes_that_do_not_fit_name_the_layer():
    b = Builder()
    x, y = b.input((None, 2), name="x"), b.input((None, 2), name="z")
    g = b.done(b.add(Concat(1), x, y))
    plan = ird.compile(g, None)
    with pytest.raises(ird.ExecutionError, match='Concat "Concat1"'):
        plan.run([randn(1, 2), randn(2, 2)])


def random_graph(rng):
    """A graph of convolutions, element-wise operations, joins, reshapes with several outputs."""
    b = Builder()
    shape = (int(rng.integers(1, 3)), 4, int(rng.integers(3, 7)), int(rng.integers(3, 7)))
    values = [b.input(shape)]
    for _ in range(int(rng.integers(4, 14))):
        x, z = (values[int(rng.integers(len(values)))] for _ in range(2))
        kind = rng.integers(8)
        w = rng.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6
        scale = rng.standard_normal((1, 4, 1, 1)).astype(np.float32)
        if kind <= 1:
            y = b.add(Convolution((1, 1), (1, 1), (1, 1)), x, w)
        elif kind == 2:
            y = b.add(Add(), x, z)
        elif kind == 3:
            y = b.add(Multiply(), x, scale)
        elif kind == 4:
            y = b.add(Sigmoid(), x)
        elif kind == 5:
            y = b.add(Convolution(), b.add(Concat(1), x, z), np.concatenate([w, w], 1)[..., :1, :1])
        elif kind == 6:
            flat = b.add(Reshape(special_zero=True), x, np.array([0, 0, -1]))
            y = b.add(Reshape(special_zero=False), b.add(ReLU(), flat), np.array(shape))
        else:
            y = b.add(Transpose(), b.add(Transpose(), x, np.array([0, 2, 3, 1])),
                      np.array([0, 3, 1, 2]))  # fmt: skip
        values.append(y)
    outs = rng.choice(np.arange(1, len(values)), min(3, len(values) - 1), replace=False)
    return b.done(*(values[i] for i in (*outs, len(values) - 1))), shape


@each_row("seed", range(60))
def test_random_graphs_fused_and_node_by_node(seed):
    rng = np.random.default_rng([5, seed])
    graph, shape = random_graph(rng)
    data = rng.standard_normal(shape).astype(np.float32)
    fused = ird.compile(graph, None, threads=1)
    plain = ird.compile(graph, None, threads=1, fuse=False)
    for feed in (data, data[..., ::-1]):
        want = plain.run([feed])
        same(fused.run([feed]), want, terms=4000)
    many = ird.compile(graph, None, threads=3).run([data])
    for name, array in fused.run([data]).items():
        np.testing.assert_array_equal(many[name], array)


def test_a_kernel_that_its_filter_decides_says_so():
    row = np.concatenate([np.arange(1, 33), np.arange(32, 0, -1)]).astype(np.float32)
    w = np.tile(np.outer(row, row), (3, 1, 1, 1, 1))
    b = Builder()
    pads = np.array([16, 16])
    y = b.add(Deconvolution((32, 32), (1, 1)), b.input((1, 3, 16, 12)), w, pads, pads)
    [step] = ird.compile(b.done(y), threads=1).steps
    assert step.kernel == "deconvolution separable"
    assert "rank 1" in step.why


@pytest.mark.parametrize("fuse", [True, False])
def test_constants_are_to_the_bit_what_inference_said(fuse: bool) -> None:
    """Another kernel would round the same sums in another way."""
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 3, 2, 3), (3, 3, 4, 4)))
    graph = ird.infer(ird.parse(FOLDED.format(x=x.ravel().tolist(), w=w.ravel().tolist())))
    (layer,) = (n for n in graph.nodes() if n.op.deconvolution)
    (y,) = ird.compile(graph, None, fuse=fuse).run({}).values()
    assert np.array_equal(y, layer.spec().known)


FOLDED = """graph 1 "m" <ir_version = 11> {{
  %0 "x" = opset1.Const() {{element_type = f32, shape = [1, 3, 2, 3], data = {x}}}
  %1 "w" = opset1.Const() {{element_type = f32, shape = [3, 3, 4, 4], data = {w}}}
  %2 "y" = opset1.ConvolutionBackpropData(%0, %1) {{strides = [2, 2], pads_begin = [0, 0],
    pads_end = [0, 0], dilations = [2, 2]}}
  %3 "out" = opset1.Result(%2)
}}"""


# The memory of plans and the choice of kernels.


def test_memory_is_limited_before_running():
    b, x = Builder.of((1, 4, 64, 64))
    g = b.done(b.add(ReLU(), b.add(Convolution(), b.add(ReLU(), x), randn(4, 4, 3, 3))))
    ird.compile(g, None, threads=1, max_memory=1 << 30)
    with pytest.raises(ird.LimitError, match="the limit is 1,000") as e:
        ird.compile(g, None, threads=1, max_memory=1000)
    assert e.value.exit_code == 5


def test_an_output_that_nothing_reads_is_counted_where_it_is_computed():
    b, x = Builder.of((1, 4, 64, 64))
    pool = MaxPool14(kernel=(2, 2), strides=(1, 1), pads_begin=(0, 0), pads_end=(0, 0))
    graph = b.done(b.add(pool, x))
    read, values, places = 4 * 64 * 64 * 4, 4 * 63 * 63 * 4, 4 * 63 * 63 * 8
    plan = ird.compile(graph, None, threads=1, max_memory=read + 2 * values + places // 4)
    data = randn(1, 4, 64, 64)
    assert np.array_equal(*plan.run([data]).values(), max_pool_2x2(data))
    with pytest.raises(ird.LimitError, match="running needs 256,128 bytes"):
        plan.run([data], trace=lambda node, arrays: None)  # node by node, with all outputs


@pytest.mark.parametrize("fuse", [True, False])
def test_scalars_of_numpy_need_no_count(fuse: bool) -> None:
    b, x = Builder.of(())
    graph = b.done(b.add(Greater(), x, np.float32(2)), b.add(Exp(), x))
    plan = ird.compile(graph, threads=1, fuse=fuse, max_memory=1 << 20)
    for value in (1, 3):
        greater, power = plan.run([np.float32(value)]).values()
        assert greater == (value > 2)
        assert np.isclose(power, np.exp(value))


@pytest.mark.parametrize("how", ["run", "observe"])
@pytest.mark.parametrize("fuse", [True, False])
def test_an_input_is_counted_without_what_it_is_a_view_of(fuse, how):
    """Nor are views of it, of whose memory NumPy names the same owner."""
    b, x = Builder.of((1, 60_000))
    graph = b.done(b.add(ReLU(), b.add(Reshape(), x, np.array([2, 30_000]))))
    plan = ird.compile(graph, threads=1, fuse=fuse, max_memory=1 << 20)
    call = {"run": plan.run, "observe": lambda f: plan.observe(f, lambda s, v: s.call(v))}[how]
    large = np.ones((10, 60_000), np.float32)
    for rows in (large[:1], large[1:2], large[:1].copy()):
        assert call([rows])["y0"].all()


def test_observe_reports_an_output_without_room_as_run_does():
    b, x = Builder.of((Interval(0, None),))
    plan = ird.compile(b.done(x), threads=1, fuse=False, max_memory=1 << 20)
    for call in (plan.run, lambda feed: plan.observe(feed, lambda s, v: s.call(v))):
        with pytest.raises(ird.LimitError, match='output "y0" takes 600,000 bytes beside 600,000'):
            call([np.ones(150_000, np.float32)])
        assert plan.stepwise().memory.held == 0


def test_kernels_prepared_again_are_counted_once(monkeypatch):
    b, x = Builder.of((1, 64, 4, 4))
    graph, tries = b.done(b.add(Convolution(), x, randn(64, 64, 3, 3))), []
    compiled = plan_module.compiled

    def broken_at_first(*args):
        tries.append(args)
        built = compiled(*args)
        if len(tries) == 1:
            raise jit.BrokenCompilerError
        return built

    monkeypatch.setattr(plan_module, "compiled", broken_at_first)
    plan = ird.compile(graph, None, threads=1, fuse=False, max_memory=1 << 20)
    once = plan.stepwise().memory.fixed
    assert len(tries) == 2
    assert once == 4 * 64 * 64 * 9


def max_pool_2x2(x):
    y = np.maximum(x[..., 1:, :], x[..., :-1, :])
    return np.maximum(y[..., 1:], y[..., :-1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_wide_stride_needs_no_large_scratch(dtype, fuse):
    b, x = Builder.of((1, 32, 32, 32), dtype)
    deconvolution = REGISTRY["ConvolutionBackpropData", "opset1"]
    op = deconvolution(strides=(8, 8), pads_begin=(4, 4), pads_end=(4, 4), dilations=(1, 1))
    graph = b.done(b.add(op, x, randn(32, 32, 16, 16).astype(dtype)))
    data = randn(1, 32, 32, 32).astype(dtype)
    form = "zero-insertion" if fuse else None  # the insertion's zeros take memory when it runs
    ird.compile(graph, form, threads=1, fuse=fuse).run([data])  # loads compiled kernels
    plan = ird.compile(graph, form, threads=1, fuse=fuse)
    _, first = peak_of(lambda: plan.run([data]))  # scratch memory is made in the first run
    output = data.itemsize * 32 * 256 * 256
    program = plan.program([data])
    assert first - output <= 16 << 20
    assert max(s.scratch for s in program.steps) <= 16 << 20
    assert program.arena <= 1 << 20


def heavy(path, kind):
    """Write three deconvolutions of one input, each with 8 MiB of weights as f32."""
    b, x = Builder.of((1, 512, 6, 6))
    op = REGISTRY["ConvolutionBackpropData", "opset1"]
    layer = op(strides=(2, 2), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1))
    found = []
    for _ in range(3):
        w = b.const(RNG.integers(-3, 4, (512, 256, 4, 4)).astype(kind))
        w = b.add(Convert(f32), w) if kind != "float32" else w
        found.append(b.add(layer, x, w))
    ird.write(b.done(*found), path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("form", ["zero-insertion", None])
def test_weights_are_held_once(tmp_path, kind, form):
    heavy(tmp_path / "m.xml", kind)
    graph = ird.infer(ird.read(tmp_path / "m.xml"))
    data = [np.ones((1, 512, 6, 6), np.float32)]
    ird.compile(graph, form, threads=1).run(data)  # code is loaded
    tracemalloc.start()
    try:
        plan = ird.compile(graph, form, threads=1)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not any("winograd" in s.kernel for s in plan.steps)  # its filters are larger
    layer = 8 << 20
    assert 3 * layer <= held <= 1.1 * 3 * layer
    assert most <= held + 2.2 * layer  # one filter after the other is packed


def test_numba_is_imported_by_no_module_that_reading_needs():
    code = "import sys, irdeconv as ird; ird.read; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


lifetimes = st.lists(
    st.builds(
        lambda size, first, length: Lifetime(size, first, first + length),
        st.integers(0, 5000), st.integers(0, 30), st.integers(0, 8),
    ),
    max_size=40,
)  # fmt: skip


@given(lifetimes)
@settings(max_examples=200, deadline=None)
def test_buffers_that_live_together_do_not_overlap(buffers):
    offsets, total = layout(buffers)
    assert total >= most_alive(buffers)
    for i, a in enumerate(buffers):
        assert offsets[i] % 64 == 0
        assert offsets[i] + a.size <= total
        for j, b in enumerate(buffers[:i]):
            together = a.first <= b.last and b.first <= a.last
            apart = offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]
            assert apart or not together or not a.size or not b.size


def candidates(*costs):
    def prepare(w):
        return lambda x, out, epilogue, team: None

    return [Candidate(f"kernel{c:.0f}", c, 0, prepare) for c in costs]


def test_estimates_choose_unless_measuring_is_asked_for(tmp_path, monkeypatch):
    windows = ConvProblem((1, 2, 9), 3, 1, (3,), (1,), (1,), (1,), (9,))
    options = candidates(1e6, 1.5e6, 9e6)
    team, w = Threads(), randn(1, 3, 2, 3)
    measured = []

    def timed(candidate, *_):
        measured.append(candidate.name)
        return 1 / candidate.cost

    monkeypatch.setattr(executors, "_time", timed)
    monkeypatch.setattr(executors, "_MEASURED", {})
    choose = lambda tuner: tuner.choose("convolution", windows, options, w, team).candidate.name  # noqa: E731
    assert choose(Tuner()) == "kernel1000000"
    assert not measured
    path = tmp_path / "cache" / "kernels.json"
    assert choose(Tuner(True, path)) == "kernel1500000"
    assert measured == ["kernel1000000", "kernel1500000"]  # the third cannot win
    assert choose(Tuner(True)) == "kernel1500000"  # from memory
    monkeypatch.setattr(executors, "_MEASURED", {})
    assert choose(Tuner(True, path)) == "kernel1500000"  # from the file
    assert len(measured) == 2
    schema = '"schema": "irdeconv/kernels/1"'
    for damaged in ("no JSON", f"{{{schema}}}", f'{{{schema}, "kernels": [1]}}'):
        path.write_text(damaged)
        monkeypatch.setattr(executors, "_MEASURED", {})
        measured.clear()
        with pytest.warns(RuntimeWarning, match="measured anew"):
            assert choose(Tuner(True, path)) == "kernel1500000"
        assert len(measured) == 2
    monkeypatch.setattr(executors, "_MEASURED", {})
    with pytest.raises(ird.FileAccessError, match="directory"):
        choose(Tuner(True, path.parent))
    assert sorted(tmp_path.iterdir()) == [path.parent]  # nothing is left of the attempt


def test_a_tuned_plan_computes_the_same():
    b, x = Builder.of((1, 32, 40, 40))
    g = b.done(b.add(Convolution((1, 1), (1, 1), (1, 1)), x, randn(32, 32, 3, 3)))
    data = randn(1, 32, 40, 40)
    tuned = ird.compile(g, None, threads=1, tune=True)
    same(tuned.run([data]), ird.run(g, [data], None, fuse=False))


def test_memory_of_outputs_is_used_again_only_where_nobody_sees_it():
    b, x = Builder.of((2, 3, 50))
    plan = ird.compile(b.done(b.add(ReLU(), x), b.add(Sigmoid(), x)), None, threads=1)
    data = np.abs(randn(2, 3, 50))
    view = plan.run([data])["y0"][1, 1:]
    buffer = memoryview(plan.run([data + 1])["y0"])
    whole = plan.run([data + 2])["y0"]
    fed = plan.run([plan.run([data + 3])["y0"]])["y0"]
    for k in range(4, 8):
        plan.run([data + k])
    np.testing.assert_array_equal(view, data[1, 1:])
    np.testing.assert_array_equal(np.asarray(buffer), data + 1)
    np.testing.assert_array_equal(whole, data + 2)
    np.testing.assert_array_equal(fed, data + 3)


@pytest.mark.parametrize("caller_fails", [True, False])
def test_threads_are_done_when_one_of_them_failed(caller_fails):
    team, began, ended = Threads(2), [], []
    caller, other = threading.get_ident(), threading.Event()

    def work(item, _):
        began.append(item)
        if (threading.get_ident() == caller) == caller_fails:
            assert other.wait(10)
            raise ValueError("bad item")
        other.set()
        time.sleep(0.05)
        ended.append(item)

    with pytest.raises(ValueError, match="bad item"):
        team.each(range(50), work)
    assert len(began) == len(ended) + 1 < 50


def test_programs_of_many_shapes_from_several_threads(monkeypatch):
    """While one thread compiles for its shape, others may drop what it needs."""
    monkeypatch.setattr(plan_module, "PROGRAMS", 1)
    b, x = Builder.of((Interval(1, None),))
    compiled = ird.compile(b.done(b.add(ReLU(), x)), None, threads=1)
    shared = compiled._programs

    class Slow(type(shared)):
        def move_to_end(self, key, last=True):
            time.sleep(0.002)
            super().move_to_end(key, last)

    compiled._programs = Slow(shared)

    def run(n):
        return all(compiled.run([randn(n + k)])["y0"].shape == (n + k,) for k in (1, 2, 3))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(0, 40, 4)))


@pytest.mark.parametrize("how", ["trace", "watch", "observe"])
def test_a_callback_must_not_run_the_plan_whose_memory_is_in_use(how):
    """It raises, in place of waiting for itself; the plan and plans of its own are as before."""
    b, x = Builder.of((1, 4, 8, 8))
    g = b.done(b.add(ReLU(), b.add(Convolution(), x, randn(4, 4, 3, 3))))
    plan, other, feed = ird.compile(g, None), ird.compile(g, None), [randn(1, 4, 8, 8)]
    want, seen = other.run(feed), []

    def again(*args):
        seen.append(other.run(feed))
        plan.run(feed)

    def around(step, values):
        step.call(values)
        again()

    def start():
        if how == "observe":
            plan.observe(feed, around)
        else:
            plan.run(feed, **{how: again})

    errors = []

    def guarded():
        try:
            start()
        except RuntimeError as e:
            errors.append(str(e))

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits for itself"
    (error,) = errors
    assert "compile a second plan for the callback" in error
    for got in (*seen, plan.run(feed)):
        for name, array in want.items():
            assert np.array_equal(got[name], array)


@pytest.mark.parametrize("how", ["trace", "watch", "observe"])
def test_a_callback_must_not_wait_for_a_thread_that_runs_the_plan(how):
    """That thread gets an error, in place of waiting for the callback that waits for it."""
    b, x = Builder.of((2, 3))
    plan, feed = ird.compile(b.done(b.add(ReLU(), x)), None), [randn(2, 3)]
    want = plan.run(feed)
    turn = plan.settings.team.lock
    turn.patience = 0.05
    with ThreadPoolExecutor(1) as pool:

        def callback(*args):
            with pytest.raises(RuntimeError, match="compile a second plan"):
                pool.submit(plan.run, feed).result(30)
            if how == "observe":
                step, values = args
                step.call(values)

        execute = plan.observe if how == "observe" else plan.run
        got = execute(feed, **{"around" if how == "observe" else how: callback})
        assert np.array_equal(got["y0"], want["y0"])
        assert np.array_equal(pool.submit(plan.run, feed).result(30)["y0"], want["y0"])


def test_layers_that_are_alike_are_listed_once(monkeypatch):
    b, x = Builder.of((1, 4, 9, 9))
    for _ in range(3):
        x = b.add(Convolution(pads_begin=(1, 1), pads_end=(1, 1)), x, randn(4, 4, 3, 3))
    graph, listed = b.done(b.add(Convolution(), x, randn(4, 4, 3, 3))), []
    list_all = executors.for_convolution
    monkeypatch.setattr(executors, "for_convolution", lambda p: listed.append(p) or list_all(p))
    ird.compile(graph, None, threads=1)
    assert [p.begin for p in listed] == [(1, 1), (0, 0)]
