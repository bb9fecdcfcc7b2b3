"""Fused plans: what becomes one step, and that the numbers are those of node by node."""

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import build as build_layer
from layers import constant, expected, numbers, parameter, random_layer, result

import irdeconv as ird
from irdeconv.graph import Graph, Value
from irdeconv.kernels.prepared import Candidate, Windows
from irdeconv.kernels.team import Team
from irdeconv.ops.activation import PReLU, ReLU, Sigmoid
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.core import Deconvolution, ZeroInsertion
from irdeconv.ops.elementwise import Add, Multiply
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.ops.shape import Reshape
from irdeconv.ops.slicing import Slice
from irdeconv.runtime import choice
from irdeconv.runtime.arena import Lifetime, layout, most_alive
from irdeconv.runtime.choice import Tuner

RNG = np.random.default_rng(7)


class Builder:
    """Builds a graph node by node."""

    def __init__(self):
        self.graph = Graph()
        self.count = 0

    def add(self, op, *inputs):
        self.count += 1
        values = [v if isinstance(v, Value) else self.const(v) for v in inputs]
        return Value(self.graph.add(op, values, name=f"{op.type}{self.count}").id)

    def const(self, array):
        self.count += 1
        return constant(self.graph, np.asarray(array), f"c{self.count}")

    def input(self, shape, dtype=np.float32, name="x"):
        return parameter(self.graph, shape, dtype, name)

    def done(self, *values):
        for i, v in enumerate(values):
            result(self.graph, v, f"y{i}")
        return ird.infer(self.graph)


def plans(graph, feeds, **options):
    """Run fused and node by node; return the fused plan's steps and both results."""
    fused = ird.compile(graph, None, threads=1, **options)
    outs = fused.run(feeds)
    plain = ird.compile(graph, None, threads=1, fuse=False).run(feeds)
    return [[n.type for n in s.nodes] for s in fused.steps], outs, plain


def same(outs, plain, terms=1000):
    assert list(outs) == list(plain)
    for name, want in plain.items():
        got = outs[name]
        assert got.dtype == want.dtype
        unit = np.finfo(np.float32).eps if want.dtype != np.float64 else np.finfo(np.float64).eps
        scale = np.abs(want).max(initial=0)
        np.testing.assert_allclose(got, want, rtol=0, atol=terms * unit * float(scale))


def randn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def test_convolution_takes_in_what_surrounds_it():
    b = Builder()
    x = b.input((2, 3, 7, 6))
    y = b.add(Pad12(), x, np.array([0, 0, 1, 2]), np.array([0, 0, 2, 1]), np.float32(0))
    y = b.add(Convolution(), y, randn(4, 3, 3, 3))
    y = b.add(Add(), y, randn(1, 4, 1, 1))
    y = b.add(PReLU(), y, randn(4))
    other = b.add(Convolution((1, 1), (1, 2), (2, 1)), x, randn(4, 3, 3, 3))
    z = b.add(ReLU(), b.add(Add(), other, y))
    g = b.done(z)
    steps, outs, plain = plans(g, [randn(2, 3, 7, 6)])
    front, back = ["Pad", "Convolution", "Add", "PReLU"], ["Convolution"]
    assert sorted(steps, key=len) in (
        [back, [*front, "Add", "ReLU"]],
        [[*back, "Add", "ReLU"], front],
    )
    same(outs, plain)


def test_what_others_read_stays():
    b = Builder()
    x = b.input((1, 2, 5, 5))
    y = b.add(Convolution(), x, randn(3, 2, 2, 2))
    z = b.add(ReLU(), y)
    g = b.done(z, y)
    steps, outs, plain = plans(g, [randn(1, 2, 5, 5)])
    assert steps == [["Convolution"], ["ReLU"]]
    same(outs, plain)


def test_a_value_used_twice_inside_is_fused():
    b = Builder()
    x = b.input((1, 2, 5, 5))
    y = b.add(Convolution(), x, randn(3, 2, 2, 2))
    y = b.add(Multiply(), y, b.add(Sigmoid(), y))
    steps, outs, plain = plans(b.done(y), [randn(1, 2, 5, 5)])
    assert steps == [["Convolution", "Sigmoid", "Multiply"]]
    same(outs, plain)


@pytest.mark.parametrize(
    ("pads", "own", "fused"),
    [((1, 1), (0, 0), True), ((-1, -1), (0, 0), True), ((-1, 0), (1, 0), False),
     ((0, -1), (0, 1), False), ((2, -1), (-1, 0), True), ((-1, 2), (-1, 1), True)],
)  # fmt: skip
def test_a_pad_that_cuts_what_the_convolution_would_see_stays(pads, own, fused):
    b = Builder()
    x = b.input((1, 1, 8))
    y = b.add(Pad12(), x, np.array([0, 0, pads[0]]), np.array([0, 0, pads[1]]), np.float32(0))
    y = b.add(Convolution((1,), (own[0],), (own[1],)), y, randn(1, 1, 3))
    steps, outs, plain = plans(b.done(y), [randn(1, 1, 8)])
    assert (len(steps) == 1) == fused
    same(outs, plain)


def test_a_pad_with_another_value_or_mode_stays():
    for value, mode in ((1.5, "constant"), (0, "edge"), (np.nan, "constant")):
        b = Builder()
        x = b.input((1, 1, 8))
        y = b.add(Pad12(mode), x, np.array([0, 0, 1]), np.array([0, 0, 1]), np.float32(value))
        g = b.done(b.add(Convolution(), y, randn(1, 1, 3)))
        steps, outs, plain = plans(g, [randn(1, 1, 8)])
        assert steps == [["Pad"], ["Convolution"]]
        np.testing.assert_array_equal(np.isnan(outs["y0"]), np.isnan(plain["y0"]))


def test_the_three_nodes_of_a_deconvolution_are_one_step():
    b = Builder()
    x = b.input((2, 4, 5))
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


@pytest.mark.parametrize("seed", range(40))
def test_random_layers_fused_agree_with_the_definition(seed):
    rng = np.random.default_rng([11, seed])
    layer = random_layer(rng)
    x, w = numbers(rng, layer.data_shape, np.float32), numbers(rng, layer.filter_shape, np.float32)
    g, feeds = build_layer(layer, x, w)
    for form in ("zero-insertion", None):
        got = ird.run(g, feeds, form=form, threads=1)
        want = expected(layer, x, w)
        same({"y": got["y"]}, {"y": np.asarray(want, np.float32)})


def test_views_share_memory_and_last_long_enough():
    b = Builder()
    x = b.input((2, 3, 4))
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
    b = Builder()
    x = b.input((1, 3, 8, 9))
    y = b.add(ReLU(), x)
    crop = b.add(Slice(), y, *(np.array(v) for v in ([1, 2], [7, 8], [1, 1], [2, 3])))
    z = b.add(Add(), b.add(Convolution(), y, randn(3, 3, 3, 4)), crop)
    plan = ird.compile(b.done(z), None, threads=1)
    plain = ird.compile(plan.graph, None, threads=1, fuse=False)
    for _ in range(2):
        data = randn(1, 3, 8, 9)
        same(plan.run([data]), plain.run([data]))


def test_a_view_that_needs_a_copy_is_made_in_every_run():
    b = Builder()
    x = b.input((2, 3, 4))
    y = b.add(Transpose(), b.add(ReLU(), x), np.array([0, 2, 1]))
    flat = b.add(Reshape(special_zero=False), y, np.array([2, 12]))
    plan = ird.compile(b.done(b.add(Multiply(), flat, np.float32(2))), None, threads=1)
    for _ in range(2):
        data = np.abs(randn(2, 3, 4))
        want = 2 * data.swapaxes(1, 2).reshape(2, 12)
        np.testing.assert_array_equal(plan.run([data])["y0"], want)


def test_outputs_are_the_callers_own_arrays():
    b = Builder()
    x = b.input((2, 3))
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
    b = Builder()
    x = b.input((None, 2, None))
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


@pytest.mark.parametrize("seed", range(60))
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


def test_memory_is_limited_before_running():
    b = Builder()
    x = b.input((1, 4, 64, 64))
    g = b.done(b.add(ReLU(), b.add(Convolution(), b.add(ReLU(), x), randn(4, 4, 3, 3))))
    ird.compile(g, None, threads=1, max_memory=1 << 30)
    with pytest.raises(ird.LimitError, match="the limit is 1,000") as e:
        ird.compile(g, None, threads=1, max_memory=1000)
    assert e.value.exit_code == 5


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
    windows = Windows((1, 2, 9), 3, 1, (3,), (1,), (1,), (1,), (9,))
    options = candidates(1e6, 1.5e6, 9e6)
    team, w = Team(), randn(1, 3, 2, 3)
    measured = []

    def timed(candidate, *_):
        measured.append(candidate.name)
        return -candidate.cost

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
    path.write_text("no JSON")
    monkeypatch.setattr(choice, "_MEASURED", {})
    assert choose(Tuner(True, path)) == "kernel1500000"
    assert len(measured) == 4


def test_a_tuned_plan_computes_the_same():
    b = Builder()
    x = b.input((1, 32, 40, 40))
    g = b.done(b.add(Convolution((1, 1), (1, 1), (1, 1)), x, randn(32, 32, 3, 3)))
    data = randn(1, 32, 40, 40)
    tuned = ird.compile(g, None, threads=1, tune=True)
    same(tuned.run([data]), ird.run(g, [data], None, fuse=False))


def test_a_kernel_that_its_filter_decides_says_so():
    row = np.concatenate([np.arange(1, 9), np.arange(8, 0, -1)]).astype(np.float32)
    w = np.tile(np.outer(row, row), (3, 1, 1, 1, 1))
    b = Builder()
    pads = np.array([4, 4])
    y = b.add(Deconvolution((8, 8), (1, 1)), b.input((1, 3, 32, 24)), w, pads, pads)
    [step] = ird.compile(b.done(y), threads=1).steps
    assert step.kernel == "deconvolution separable"
    assert "rank 1" in step.why
