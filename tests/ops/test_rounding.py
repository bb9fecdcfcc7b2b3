"""What rounding may change of results, and operations that are bound to their inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from irdeconv.base.errors import OpError
from irdeconv.ir import dtypes
from irdeconv.ir.op import DRAWN, Bound, Op, as_tuple, infer_op, lookup
from irdeconv.ir.spec import Array, Interval, Spec
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.threads import Threads
from irdeconv.ops import core
from irdeconv.ops.activation import Gelu, Sigmoid
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add, Maximum, Multiply
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Transpose
from irdeconv.ops.reduction import ReduceMean
from irdeconv.runtime.program import bind
from irdeconv.verify import judge
from irdeconv.verify.difference import Allowed
from op_cases import Case, Tensor, all_cases, boolean, differs, f32, first_rows, i64
from support.blocks import SMALL
from support.rows import each_row, parts

# The bounds of rounding: they hold, they are close, every operation has one rule at most.

RNG = np.random.default_rng(0)
ONE = np.array([1])


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "count"),
    [
        (Convolution(), (normal(1, 6, 5, 5), normal(4, 6, 3, 3)), 54),
        (GroupConvolution(), (normal(1, 6, 5), normal(2, 4, 3, 3)), 9),
        (MatMul(), (normal(2, 7), normal(7, 3)), 7),
        (MatMul(transpose_a=True), (normal(7, 2), normal(7, 3)), 7),
        # Every output of a deconvolution with stride 2 meets 2 of 3 taps at most.
        (core.Deconvolution((2,), (1,)), (normal(1, 4, 9), normal(1, 4, 2, 3), ONE, ONE), 8),
        (core.Deconvolution((2,), (2,)), (normal(1, 4, 9), normal(1, 4, 2, 3), ONE, ONE), 12),
    ],
)  # fmt: skip
def test_terms_and_bounds_of_sums(op, inputs, count: int) -> None:
    y = judge.evaluate(op, inputs)
    assert judge.terms(op, inputs, y[0]) == count
    (bound,) = judge.allowed(op, inputs, y)
    assert bound.rule == f"gamma_{count} |W||x|"
    exact = judge.precise(op, inputs, y)[0]
    assert np.all(np.abs(y[0] - exact) <= bound.limit)
    # The worst order of summation: each product rounded, then added in sequence.
    sizes = judge.evaluate(op, [np.abs(v) if v.dtype.kind == "f" else v for v in inputs])[0]
    assert np.all(bound.limit <= 1.01 * count * judge.SINGLE * sizes + 1e-30)


def test_many_terms_count_as_independent() -> None:
    assert judge.independent(judge.LAMBDA**2) == judge.LAMBDA**2
    assert judge.gamma(judge.independent(10000), judge.SINGLE) == pytest.approx(
        judge.LAMBDA * 100 * judge.SINGLE, rel=1e-3
    )
    x, w = normal(1, 4096), normal(4096, 64)
    (bound,) = judge.allowed(MatMul(), (x, w), judge.evaluate(MatMul(), (x, w)))
    assert bound.rule == "gamma~_4096 |W||x|"
    one_by_one = np.zeros((1, 64), np.float32)
    for k in range(4096):  # the least favourable order that anyone uses
        one_by_one += x[:, k : k + 1] * w[k]
    exact = x.astype(np.float64) @ w.astype(np.float64)
    assert np.all(np.abs(one_by_one - exact) <= bound.limit)
    assert np.abs(one_by_one - exact).max() > bound.limit.max() / 1000


def test_equal_terms_are_rounded_alike() -> None:
    """The sum of one number over and over drifts: its roundings are not independent."""
    x, w = np.full((1, 10000), 0.1, np.float32), np.ones((10000, 2), np.float32)
    y = judge.evaluate(MatMul(), (x, w))
    (bound,), (apart,) = (judge.allowed(MatMul(), (v, w), y) for v in (x, normal(1, 10000)))
    assert (bound.rule, apart.rule) == ("gamma_10000 |W||x|", "gamma~_10000 |W||x|")
    one_by_one = np.cumsum(x, dtype=np.float32)[-1]
    error = abs(one_by_one - 10000 * np.float64(x[0, 0]))
    assert (
        judge.gamma(judge.independent(10000), judge.SINGLE) * one_by_one
        < error
        < np.min(bound.limit)
    )


@pytest.mark.parametrize("op", [Sigmoid(), Gelu(), Gelu(approximation_mode="TANH")])
def test_functions(op) -> None:
    x = np.linspace(-12, 12, 4001, dtype=np.float32)
    y = judge.evaluate(op, [x])
    (bound,) = judge.allowed(op, [x], y)
    assert np.all(np.abs(y[0] - judge.precise(op, [x], y)[0]) <= bound.limit)
    assert np.all(bound.limit <= 32 * judge.SINGLE * np.maximum(np.abs(y[0]), 1) * 1.01)


def test_narrow_types_are_rounded_once() -> None:
    x, w = normal(3, 8).astype(np.float16), normal(8, 5).astype(np.float16)
    y = judge.evaluate(MatMul(), (x, w))
    (bound,) = judge.allowed(MatMul(), (x, w), y)
    apart = np.abs(y[0].astype(np.float64) - judge.precise(MatMul(), (x, w), y)[0])
    assert np.all(apart <= bound.limit)
    assert np.all(bound.limit <= 2**-11 * np.abs(y[0].astype(np.float64)) * 1.1 + 1e-4)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (MatMul(), (normal(4, 6), normal(6, 3))),
        (Multiply(), (normal(4, 6), normal(4, 6))),
        (Add(), (normal(4, 6), normal(1, 6))),
        (Add(auto_broadcast="pdpd"), (normal(4, 6), normal(4))),
        (Maximum(auto_broadcast="pdpd"), (normal(2, 1, 3), normal(2))),
        (Sigmoid(), (normal(4, 6),)),
        (Transpose(), (normal(4, 6), np.array([1, 0]))),
    ],
)
def test_carried_errors_bound_every_change(op, inputs) -> None:
    wide = [v.astype(np.float64) if v.dtype.kind == "f" else v for v in inputs]
    errors = [np.abs(normal(*v.shape)) * 1e-2 if v.dtype.kind == "f" else 0.0 for v in inputs]
    before = judge.evaluate(op, wide)
    (bound,) = judge.carried(op, wide, errors, before)
    for _ in range(200):
        moved = [v + e * RNG.choice([-1, 1], np.shape(e)) if v.dtype.kind == "f" else v
                 for v, e in zip(wide, errors, strict=True)]  # fmt: skip
        assert np.all(np.abs(judge.evaluate(op, moved)[0] - before[0]) <= bound * (1 + 1e-6))


def test_errors_without_a_bound_stay_so() -> None:
    x = normal(2, 3)
    assert judge.carried(Add(), (x, x), (None, 0.0), (x,)) == [None]
    assert judge.carried(Add(), (x, x), (0.0, 0.0), (x,)) == [0.0]


@pytest.mark.parametrize("others", parts(1, [False, True]))
def test_every_operation_stays_within_its_bound(others: bool) -> None:
    each_row("row", first_rows(others=others))(require_bounds)()


def require_bounds(row: Case) -> None:
    op, inputs = row.build()[0], [t.values for t in row.inputs]
    try:
        outputs = judge.evaluate(op, inputs)
    except OpError:
        return  # a row for inference alone
    wide = judge.precise(op, inputs, outputs) if judge.worth_precision(op, outputs) else outputs
    for y, exact, bound in zip(outputs, wide, judge.allowed(op, inputs, outputs), strict=True):
        if judge.is_real(y):
            with np.errstate(invalid="ignore"):  # infinities, which are the same on both sides
                apart = np.nan_to_num(np.abs(exact - y.astype(np.float64)), nan=0.0, posinf=0.0)
            assert np.all(apart <= np.nan_to_num(bound.limit)), bound.rule
        else:
            assert bound == Allowed(0.0, "exact") or op.rounding == DRAWN


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_bad_value_leaves_the_bounds_of_what_it_does_not_reach(bad: float) -> None:
    op, w = core.Deconvolution((2,), (1,)), normal(1, 1, 1, 3)
    x = normal(1, 1, 6)
    (before,) = judge.allowed(op, (x, w, ONE, ONE), judge.evaluate(op, (x, w, ONE, ONE)))
    x[0, 0, 5] = bad
    (bound,) = judge.allowed(op, (x, w, ONE, ONE), judge.evaluate(op, (x, w, ONE, ONE)))
    assert np.array_equal(bound.limit[..., :7], before.limit[..., :7])
    assert not np.isfinite(bound.limit[..., 9:]).any()


def test_errors_that_are_all_zero_carry_nothing() -> None:
    """Bounds of a tensor without elements, say; sums of products have nothing to add up then."""
    nothing, axes = np.zeros((0, 1, 2), np.float32), np.array([0])
    mean = ReduceMean(keep_dims=False)
    for error in (nothing, 0.1):
        made = (np.zeros((1, 2), np.float32),)
        assert judge.carried(mean, (nothing, axes), (error, 0.0), made) == [0.0]


# Operations bound to exact shapes give what their evaluators give.


def apply(
    bound: Bound, arrays: Sequence[Array], outputs: Sequence[Spec], team: Threads
) -> list[Array]:
    """Run into memory that holds garbage, or take the views."""
    if bound.view is not None:
        found = as_tuple(bound.view(*arrays))
        assert all(np.shares_memory(f, arrays[0]) for f in found)
        return list(found)
    assert bound.call is not None
    (spec,) = outputs
    assert spec.dtype is not None
    out = np.empty([int(d) for d in spec.shape or ()], spec.dtype.container)  # type: ignore[arg-type]
    out.reshape(-1).view(np.uint8)[...] = 0xFF
    bound.call(*arrays, out=out, team=team)
    return [out]


def bound_of(op: Op, tensors: Sequence[Tensor]) -> tuple[Bound | None, tuple[Spec, ...]]:
    """Bind with the first input unknown and the others constant."""
    specs = [Spec(t.dtype, t.values.shape, t.values if i else None) for i, t in enumerate(tensors)]
    exact = infer_op(op, tuple(t.spec for t in tensors))
    outputs = tuple(Spec(o.dtype, o.shape) for o in exact)
    return bind(op, specs, outputs), outputs


@each_row("row", all_cases)
def test_rows(row: Case) -> None:
    """Every row of op_cases, its first input as a view of every second element too."""
    bound, outputs = bound_of(row.build()[0], row.inputs)
    if bound is None:
        return
    arrays = [t.values for t in row.inputs]
    spread = arrays[0]
    if spread.ndim:
        spread = np.repeat(spread, 2, axis=-1)[..., ::2]
    for first in (arrays[0], spread):
        if bound.view is not None and first is spread:
            continue  # reshaping may copy
        with np.errstate(all="ignore"):
            got = apply(bound, [first, *arrays[1:]], outputs, Threads())
        assert len(got) == len(row.outputs)
        for g, want in zip(got, row.outputs, strict=True):
            assert g.dtype == want.dtype.container
            assert differs(g, want, row.tolerance) == ""


BOUND = """
Abs AvgPool BatchNormInference Broadcast Clamp Concat Convert DepthToSpace Divide Elu
Equal Exp FakeQuantize Gather Gelu GroupNormalization HSwish HardSigmoid Interpolate Less
LogicalAnd LogSoftmax MVN MatMul MaxPool Multiply NormalizeL2 PReLU Pad Power ReLU ReduceMax
ReduceMean ReduceSum Reshape Select Selu ShuffleChannels Sigmoid Slice SoftMax SpaceToDepth Split
Squeeze StridedSlice Swish Tanh Tile Transpose Unsqueeze VariadicSplit
""".split()


@each_row("name", BOUND)
def test_is_bound(name: str) -> None:
    """Some row of each of these operations is bound, so that the test above checks something."""
    found = [r for r in all_cases().values() if r.type == name]
    assert any(bound_of(r.build()[0], r.inputs)[0] is not None for r in found)


def op_of(name: str, version: str = "opset16", **attributes: Any) -> Op:
    cls = lookup(name, version)
    assert cls is not None
    return cls(**attributes)


def values(shape: Sequence[int], seed: int = 0, bad: bool = False) -> Tensor:
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    if bad:
        x.reshape(-1)[[1, 7, 20]] = np.inf, -np.inf, np.nan
    return Tensor(dtypes.f32, x)


X = (2, 12, 10, 14)
AXES = i64([2, 3])
LARGE: list[tuple[Op, list[Tensor], float]] = [
    # Operation, inputs, units of the last place (of the largest value) by which the sums' order or
    # the fused form differs.
    (op_of("MaxPool", kernel=(2, 2), strides=(2, 2)), [values(X, bad=True)], 0),
    (op_of("MaxPool", kernel=(3, 5), strides=(2, 1), pads_begin=(1, 2)), [values(X, bad=True)], 0),
    (op_of("AvgPool", kernel=(3, 3), strides=(2, 2), pads_begin=(1, 1)), [values(X, bad=True)], 9),
    (op_of("AvgPool", kernel=(10, 14), strides=(1, 1)), [values(X)], 140),
    (op_of("AvgPool", kernel=(10, 14), strides=(1, 1)), [values(X, bad=True)], 140),
    (op_of("Interpolate", mode="nearest"), [values(X, bad=True), i64([20, 42]), AXES], 0),
    (op_of("Interpolate", mode="nearest"), [values(X), i64([24, 5, 33]), i64([1, 2, 3])], 0),
    (op_of("Interpolate", mode="linear"), [values(X), i64([21, 30]), AXES], 4),
    (op_of("Interpolate", mode="linear"), [values(X, bad=True), i64([21, 30]), AXES], 4),
    (op_of("Interpolate", mode="cubic"), [values((1, 1, 300, 90)), i64([150, 200]), AXES], 8),
    (op_of("Interpolate", mode="linear"), [values((1, 2, 300, 210)), i64([600, 420]), AXES], 4),
    (op_of("ReduceMean", keep_dims=True), [values(X, bad=True), AXES], 140),
    (op_of("ReduceMean"), [values((2, 3, 40, 50)), AXES], 24),
    (op_of("ReduceSum"), [values(X), i64([1])], 12),
    (op_of("ReduceSum"), [values(X), i64([0, 3])], 28),
    (op_of("ReduceMin"), [values(X, bad=True), i64([1, 2])], 0),
    (op_of("SoftMax", axis=1), [values(X, bad=True)], 14),
    (op_of("SoftMax", axis=-1), [values((3, 2000))], 20),
    (op_of("LogSoftmax", axis=2), [values(X)], 14),
    (op_of("MatMul", transpose_a=True), [values((2, 5, 7)), values((5, 9))], 5),
    (op_of("MatMul", transpose_b=True), [values((6, 5)), values((3, 9, 5))], 5),
    (op_of("MatMul"), [values((5,)), values((3, 5, 9))], 5),
    (op_of("MVN", normalize_variance=True, eps=1e-5), [values(X), AXES], 140),
    (op_of("NormalizeL2", eps=1e-5), [values(X), i64([1])], 12),
    (op_of("GroupNormalization", num_groups=3), [values(X), values((12,)), values((12,))], 560),
    (op_of("Pad"), [values(X, bad=True), i64([0, -1, 2, 3]), i64([1, 2, -4, 0]), f32(0.5)], 0),
    (op_of("Pad"), [values(X), i64([0, 0, -12, 3]), i64([0, 0, 12, 0]), f32(0.5)], 0),
    (op_of("Concat", axis=-1), [values((300, 70, 20)), values((300, 70, 1))], 0),
    (op_of("DepthToSpace", block_size=2), [values(X, bad=True)], 0),
    (op_of("DepthToSpace", block_size=2, mode="depth_first"), [values(X)], 0),
    (op_of("SpaceToDepth", block_size=2), [values(X)], 0),
    (op_of("ShuffleChannels", group=3), [values(X)], 0),
    (op_of("Tile"), [values(X), i64([2, 1, 3, 2, 1])], 0),
    (op_of("Gather"), [values(X), i64([3, -1, 0, 3]), i64(1)], 0),
    (op_of("Gather"), [values(X), i64([-6, -4, -2]), i64(1)], 0),
    (op_of("Gather"), [values(X), i64(-2), i64(2)], 0),
    (op_of("Select"), [boolean([1, 0, 0, 1, 0]), values((4, 5)), values((1, 1))], 0),
    (op_of("Add"), [i64(np.arange(12), (3, 4)), i64([1, 2, 3, 4])], 0),
]  # fmt: skip


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("op", "tensors", "ulps"), LARGE, ids=lambda v: getattr(v, "type", None))
def test_larger_shapes(
    op: Op, tensors: list[Tensor], ulps: float, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of odd sizes, and the same bits for every number of threads."""
    if small:
        monkeypatch.setattr(blocking, "SIZES", SMALL)
    bound, outputs = bound_of(op, tensors)
    used = outputs[:1] if op.type == "MaxPool" else outputs
    if op.type == "MaxPool":
        bound = bind(op, [Spec(dtypes.f32, tensors[0].values.shape)], used)
    assert bound is not None
    arrays = [t.values for t in tensors]
    with np.errstate(all="ignore"):
        want = as_tuple(
            op.evaluator(frozenset(range(len(used))), [t.spec for t in tensors])(*arrays)
        )
        results = [apply(bound, arrays, used, Threads(threads)) for threads in (1, 3, 1)]
    for got, expected in zip(results[0], want, strict=True):
        assert got.shape == expected.shape
        finite = np.abs(expected[np.isfinite(expected)])
        limit = ulps * 2.0**-23 * float(np.max(finite, initial=0))
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit)
    for again in results[1:]:
        assert [a.tobytes() for a in again] == [a.tobytes() for a in results[0]]


def test_what_is_not_bound() -> None:
    x = Spec(dtypes.f32, (2, 3))
    relu = op_of("ReLU", "opset1")
    assert bind(relu, [Spec(dtypes.f32, (2, Interval(1, 4)))], [x]) is None
    assert bind(relu, [Spec(dtypes.f32, (0, 3))], [Spec(dtypes.f32, (0, 3))]) is None
    assert bind(relu, [Spec(None, (2, 3))], [x]) is None
    assert bind(op_of("Transpose"), [x, Spec(dtypes.i64, (2,))], [Spec(dtypes.f32, (3, 2))]) is None
    assert bind(op_of("ShapeOf"), [x], [Spec(dtypes.i64, (2,))]) is None
