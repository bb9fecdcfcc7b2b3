"""The bounds of rounding: they hold, they are close, every operation has one rule at most."""

from __future__ import annotations

import numpy as np
import pytest

from irdeconv.base.errors import OpError
from irdeconv.ir.op import DRAWN
from irdeconv.ops import core
from irdeconv.ops.activation import Gelu, Sigmoid
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add, Maximum, Multiply
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Transpose
from irdeconv.ops.reduction import ReduceMean
from irdeconv.verify.difference import Allowed
from irdeconv.verify.judge import (
    LAMBDA,
    SINGLE,
    allowed,
    carried,
    evaluate,
    gamma,
    is_real,
    precise,
    terms,
    worth_precision,
)
from op_cases import Case, all_cases

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
    y = evaluate(op, inputs)
    assert terms(op, inputs, y[0]) == count
    (bound,) = allowed(op, inputs, y)
    assert bound.rule == f"gamma_{count} |W||x|"
    exact = precise(op, inputs, y)[0]
    assert np.all(np.abs(y[0] - exact) <= bound.limit)
    # The worst order of summation: each product rounded, then added in sequence.
    sizes = evaluate(op, [np.abs(v) if v.dtype.kind == "f" else v for v in inputs])[0]
    assert np.all(bound.limit <= 1.01 * count * SINGLE * sizes + 1e-30)


def test_many_terms_count_as_independent() -> None:
    assert gamma(LAMBDA**2, SINGLE) == pytest.approx(LAMBDA**2 * SINGLE, rel=1e-4)
    assert gamma(10000, SINGLE) == pytest.approx(LAMBDA * 100 * SINGLE, rel=1e-3)
    x, w = normal(1, 4096), normal(4096, 64)
    (bound,) = allowed(MatMul(), (x, w), evaluate(MatMul(), (x, w)))
    assert bound.rule == "gamma~_4096 |W||x|"
    one_by_one = np.zeros((1, 64), np.float32)
    for k in range(4096):  # the least favourable order that anyone uses
        one_by_one += x[:, k : k + 1] * w[k]
    exact = x.astype(np.float64) @ w.astype(np.float64)
    assert np.all(np.abs(one_by_one - exact) <= bound.limit)
    assert np.abs(one_by_one - exact).max() > bound.limit.max() / 1000


@pytest.mark.parametrize("op", [Sigmoid(), Gelu(), Gelu(approximation_mode="TANH")])
def test_functions(op) -> None:
    x = np.linspace(-12, 12, 4001, dtype=np.float32)
    y = evaluate(op, [x])
    (bound,) = allowed(op, [x], y)
    assert np.all(np.abs(y[0] - precise(op, [x], y)[0]) <= bound.limit)
    assert np.all(bound.limit <= 32 * SINGLE * np.maximum(np.abs(y[0]), 1) * 1.01)


def test_narrow_types_are_rounded_once() -> None:
    x, w = normal(3, 8).astype(np.float16), normal(8, 5).astype(np.float16)
    y = evaluate(MatMul(), (x, w))
    (bound,) = allowed(MatMul(), (x, w), y)
    apart = np.abs(y[0].astype(np.float64) - precise(MatMul(), (x, w), y)[0])
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
    before = evaluate(op, wide)
    (bound,) = carried(op, wide, errors, before)
    for _ in range(200):
        moved = [v + e * RNG.choice([-1, 1], np.shape(e)) if v.dtype.kind == "f" else v
                 for v, e in zip(wide, errors, strict=True)]  # fmt: skip
        assert np.all(np.abs(evaluate(op, moved)[0] - before[0]) <= bound * (1 + 1e-6))


def test_errors_without_a_bound_stay_so() -> None:
    x = normal(2, 3)
    assert carried(Add(), (x, x), (None, 0.0), (x,)) == [None]
    assert carried(Add(), (x, x), (0.0, 0.0), (x,)) == [0.0]


@pytest.mark.parametrize("row", all_cases().values(), ids=all_cases())
def test_every_operation_stays_within_its_bound(row: Case) -> None:
    op, inputs = row.build()[0], [t.values for t in row.inputs]
    try:
        outputs = evaluate(op, inputs)
    except OpError:
        return  # a row for inference alone
    wide = precise(op, inputs, outputs) if worth_precision(op, outputs) else outputs
    for y, exact, bound in zip(outputs, wide, allowed(op, inputs, outputs), strict=True):
        if is_real(y):
            with np.errstate(invalid="ignore"):  # infinities, which are the same on both sides
                apart = np.nan_to_num(np.abs(exact - y.astype(np.float64)), nan=0.0, posinf=0.0)
            assert np.all(apart <= np.nan_to_num(bound.limit)), bound.rule
        else:
            assert bound == Allowed(0.0, "exact") or op.rounding == DRAWN


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_bad_value_leaves_the_bounds_of_what_it_does_not_reach(bad: float) -> None:
    op, w = core.Deconvolution((2,), (1,)), normal(1, 1, 1, 3)
    x = normal(1, 1, 6)
    (before,) = allowed(op, (x, w, ONE, ONE), evaluate(op, (x, w, ONE, ONE)))
    x[0, 0, 5] = bad
    (bound,) = allowed(op, (x, w, ONE, ONE), evaluate(op, (x, w, ONE, ONE)))
    assert np.array_equal(bound.limit[..., :7], before.limit[..., :7])
    assert not np.isfinite(bound.limit[..., 9:]).any()


def test_errors_that_are_all_zero_carry_nothing() -> None:
    """Bounds of a tensor without elements, say; sums of products have nothing to add up then."""
    nothing, axes = np.zeros((0, 1, 2), np.float32), np.array([0])
    mean = ReduceMean(keep_dims=False)
    assert carried(mean, (nothing, axes), (nothing, 0.0), (np.zeros((1, 2), np.float32),)) == [0.0]
