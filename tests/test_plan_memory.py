"""The memory of plans and the choice of kernels."""

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
from irdeconv.kernels.candidate import Candidate, ConvProblem
from irdeconv.kernels.threads import Threads
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.convert import Convert
from irdeconv.ops.convolution import Convolution
from irdeconv.ops.pooling import MaxPool14
from irdeconv.run import choice
from irdeconv.run import plan as plan_module
from irdeconv.run.choice import Tuner
from irdeconv.run.program import Lifetime, layout, most_alive
from support.plan_graphs import RNG, Builder, randn, same


def test_memory_is_limited_before_running():
    b = Builder()
    x = b.input((1, 4, 64, 64))
    g = b.done(b.add(ReLU(), b.add(Convolution(), b.add(ReLU(), x), randn(4, 4, 3, 3))))
    ird.compile(g, None, threads=1, max_memory=1 << 30)
    with pytest.raises(ird.LimitError, match="the limit is 1,000") as e:
        ird.compile(g, None, threads=1, max_memory=1000)
    assert e.value.exit_code == 5


def test_an_output_that_nothing_reads_is_counted_where_it_is_computed():
    b = Builder()
    x = b.input((1, 4, 64, 64))
    pool = MaxPool14(kernel=(2, 2), strides=(1, 1), pads_begin=(0, 0), pads_end=(0, 0))
    graph = b.done(b.add(pool, x))
    read, values, places = 4 * 64 * 64 * 4, 4 * 63 * 63 * 4, 4 * 63 * 63 * 8
    plan = ird.compile(graph, None, threads=1, max_memory=read + values + places // 4)
    data = randn(1, 4, 64, 64)
    assert np.array_equal(*plan.run([data]).values(), max_pool_2x2(data))
    with pytest.raises(ird.LimitError, match="running needs 190,592 bytes"):
        plan.run([data], trace=lambda node, arrays: None)  # node by node, with all outputs


def max_pool_2x2(x):
    y = np.maximum(x[..., 1:, :], x[..., :-1, :])
    return np.maximum(y[..., 1:], y[..., :-1])


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_wide_stride_needs_no_large_scratch(dtype, fuse):
    b = Builder()
    x = b.input((1, 32, 32, 32), dtype)
    deconvolution = REGISTRY["ConvolutionBackpropData", "opset1"]
    op = deconvolution(strides=(8, 8), pads_begin=(4, 4), pads_end=(4, 4), dilations=(1, 1))
    graph = b.done(b.add(op, x, randn(32, 32, 16, 16).astype(dtype)))
    data = randn(1, 32, 32, 32).astype(dtype)
    form = "zero-insertion" if fuse else None  # the insertion's zeros take memory when it runs
    plan = ird.compile(graph, form, threads=1, fuse=fuse)
    tracemalloc.start()
    try:
        plan.run([data])
        first = tracemalloc.get_traced_memory()[1]  # scratch memory is made in the first run
    finally:
        tracemalloc.stop()
    output = data.itemsize * 32 * 256 * 256
    program = plan.program([data])
    assert first - output <= 16 << 20
    assert max(s.scratch for s in program.steps) <= 16 << 20
    assert program.arena <= 1 << 20


def heavy(path, kind):
    """Write three deconvolutions of one input, each with 8 MiB of weights as f32."""
    b = Builder()
    x = b.input((1, 512, 6, 6))
    op = REGISTRY["ConvolutionBackpropData", "opset1"]
    layer = op(strides=(2, 2), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1))
    found = []
    for _ in range(3):
        w = b.const(RNG.integers(-3, 4, (512, 256, 4, 4)).astype(kind))
        w = b.add(Convert(f32), w) if kind != "float32" else w
        found.append(b.add(layer, x, w))
    ird.write(b.done(*found), path)


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

    monkeypatch.setattr(choice, "_time", timed)
    monkeypatch.setattr(choice, "_MEASURED", {})
    choose = lambda tuner: tuner.choose("convolution", windows, options, w, team).candidate.name  # noqa: E731
    assert choose(Tuner()) == "kernel1000000"
    assert not measured
    path = tmp_path / "cache" / "kernels.json"
    assert choose(Tuner(True, path)) == "kernel1500000"
    assert measured == ["kernel1000000", "kernel1500000"]  # the third cannot win
    assert choose(Tuner(True)) == "kernel1500000"  # from memory
    monkeypatch.setattr(choice, "_MEASURED", {})
    assert choose(Tuner(True, path)) == "kernel1500000"  # from the file
    assert len(measured) == 2
    schema = '"schema": "irdeconv/kernels/1"'
    for damaged in ("no JSON", f"{{{schema}}}", f'{{{schema}, "kernels": [1]}}'):
        path.write_text(damaged)
        monkeypatch.setattr(choice, "_MEASURED", {})
        measured.clear()
        with pytest.warns(RuntimeWarning, match="measured anew"):
            assert choose(Tuner(True, path)) == "kernel1500000"
        assert len(measured) == 2
    monkeypatch.setattr(choice, "_MEASURED", {})
    with pytest.raises(ird.FileAccessError, match="directory"):
        choose(Tuner(True, path.parent))
    assert sorted(tmp_path.iterdir()) == [path.parent]  # nothing is left of the attempt


def test_a_tuned_plan_computes_the_same():
    b = Builder()
    x = b.input((1, 32, 40, 40))
    g = b.done(b.add(Convolution((1, 1), (1, 1), (1, 1)), x, randn(32, 32, 3, 3)))
    data = randn(1, 32, 40, 40)
    tuned = ird.compile(g, None, threads=1, tune=True)
    same(tuned.run([data]), ird.run(g, [data], None, fuse=False))


def test_memory_of_outputs_is_used_again_only_where_nobody_sees_it():
    b = Builder()
    x = b.input((2, 3, 50))
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
    b = Builder()
    x = b.input((Interval(1, None),))
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
    b = Builder()
    x = b.input((1, 4, 8, 8))
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
    b = Builder()
    x = b.input((2, 3))
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
    b = Builder()
    x = b.input((1, 4, 9, 9))
    for _ in range(3):
        x = b.add(Convolution(pads_begin=(1, 1), pads_end=(1, 1)), x, randn(4, 4, 3, 3))
    graph, listed = b.done(b.add(Convolution(), x, randn(4, 4, 3, 3))), []
    list_all = choice.for_convolution
    monkeypatch.setattr(choice, "for_convolution", lambda p: listed.append(p) or list_all(p))
    ird.compile(graph, None, threads=1)
    assert [p.begin for p in listed] == [(1, 1), (0, 0)]
