"""Plans of f16 and bf16 keep f32 between steps; the numbers are those of the narrow type."""

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import f16, f32
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.activation import LogSoftmax, ReLU, SoftMax
from irdeconv.ops.basic import Assign6, Convert, ReadValue6
from irdeconv.ops.convolution import GroupConvolution
from irdeconv.ops.elementwise import Add, Exp, Multiply, Tanh
from irdeconv.ops.indexing import CumSum
from irdeconv.ops.matrix import MatMul, ScaledDotProductAttention
from irdeconv.ops.movement import Concat, Reshape, Transpose
from irdeconv.ops.pooling import AvgPool14, MaxPool14
from irdeconv.ops.reduction import GRN, LRN, MVN, GroupNormalization, NormalizeL2, Reduction
from irdeconv.runtime.fusion import ROUNDED_ONCE
from support.plan_graphs import Builder, plans, randn

NARROW = [np.float16, ml_dtypes.bfloat16]
SHAPE = (2, 6, 5, 7)
AXES = np.array([2, 3])
POOL = ((1, 1), (0, 0), (0, 0), (2, 3))
ONCE = [
    (SoftMax(1), ()),
    (LogSoftmax(-1), ()),
    (MVN(True, 1e-5, "inside_sqrt"), (AXES,)),
    (NormalizeL2(1e-6, "add"), (AXES,)),
    (LRN(0.1, 0.75, 1.0, 3), (np.array([1]),)),
    (GRN(1e-3), ()),
]
ONCE += [(op(True), (AXES,)) for op in set(REGISTRY.values()) if issubclass(op, Reduction)]


@pytest.mark.parametrize("dtype", NARROW)
def test_rounding_once(dtype: type) -> None:
    """These operations give in f32, rounded to the narrow type, what they give in it."""
    assert {op.type for op, _ in ONCE} | {"MatMul", "Softmax"} >= ROUNDED_ONCE
    x, y = randn(*SHAPE).astype(dtype), randn(2, 6, 7, 3).astype(dtype)
    for op, more in [*ONCE, (MatMul(), (y,))]:
        if op.type.startswith("ReduceLogical"):
            continue
        wide = [a.astype(np.float32) if a.dtype == dtype else a for a in (x, *more)]
        with np.errstate(all="ignore"):
            want, got = op.evaluate(x, *more), op.evaluate(*wide).astype(dtype)
        np.testing.assert_array_equal(got, want, err_msg=op.type)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_network(dtype: type) -> None:
    """Steps round at their ends; an operation that sums in the narrow type gets that."""
    b, x = Builder.of(SHAPE, dtype)
    y = b.add(GroupConvolution((1, 1), (1, 1), (1, 1)), x, randn(2, 4, 3, 3, 3).astype(dtype))
    y = b.add(ReLU(), b.add(Add(), y, randn(1, 8, 1, 1).astype(dtype)))
    pooled = b.add(Transpose(), y, np.array([0, 2, 3, 1]))
    both = b.add(Concat(1), y, b.add(Multiply(), y, np.array(0.3, dtype)))
    summed = b.add(CumSum(), both, np.array(1))
    wide = b.add(Convert(f32), both)
    shaped = b.add(Reshape(), summed, np.array([2, -1]))
    graph = b.done(pooled, shaped, wide, both)
    steps, outs, plain = plans(graph, [randn(*SHAPE).astype(dtype)])
    assert ["GroupConvolution", "Add", "ReLU", "Rounded"] in steps
    for name, want in plain.items():
        assert outs[name].dtype == want.dtype
        unit = 2 * float(ml_dtypes.finfo(dtype).eps) * (20 if want.ndim == 2 else 1)
        close = np.abs(outs[name].astype(float) - want.astype(float))
        assert close.max() <= unit * np.abs(want.astype(float)).max()
        narrow = outs[name].astype(dtype).astype(outs[name].dtype)
        assert np.array_equal(outs[name], narrow)


def test_variables_keep_their_type():
    """ReadValue and Assign hold f16 though the steps between them read f32."""
    b, x = Builder.of((2, 3), np.float16)
    r = b.add(ReadValue6("v", (2, 3), f16), np.zeros((2, 3), np.float16))
    y = b.add(Add(), r, x)
    b.add(Assign6("v"), y)
    graph = b.done(b.add(Exp(), y))
    data = [randn(2, 3).astype(np.float16)]
    fused, plain = (ird.compile(graph, None, fuse=fuse) for fuse in (True, False))
    for _ in range(2):
        (got,), (want,) = fused.run(data).values(), plain.run(data).values()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("pool", [MaxPool14, AvgPool14])
def test_pools(pool: type) -> None:
    """Pooling reads and writes f32 as well."""
    b, x = Builder.of(SHAPE, np.float16)
    y = b.add(ReLU(), b.add(Add(), x, x))
    graph = b.done(
        b.add(pool(strides=(2, 1), pads_begin=(0, 0), pads_end=(0, 0), kernel=(2, 3)), y)
    )
    _, outs, plain = plans(graph, [randn(*SHAPE).astype(np.float16)])
    np.testing.assert_array_equal(next(iter(outs.values())), next(iter(plain.values())))


def test_normalizations_and_attention():
    """Compiled calls of small tensors, one of them read in another order, give NumPy's results."""
    b, x = Builder.of((2, 6, 5, 8))
    turned = b.add(Transpose(), x, np.array([0, 2, 1, 3]))
    ends = []
    for data, axes in ((x, [3]), (turned, [2, 3]), (turned, [3])):
        for mode in ("inside_sqrt", "outside_sqrt"):
            ends.append(b.add(MVN(True, 1e-3, mode), data, np.array(axes)))
    ends.append(b.add(MVN(False, 1e-3), turned, np.array([3])))
    ends.append(b.add(GroupNormalization(3, 1e-3), x, randn(6), randn(6)))
    query = b.add(MVN(True, 1e-3), turned, np.array([3]))
    ends += [
        b.add(ScaledDotProductAttention(causal), query, turned, b.add(ReLU(), turned))
        for causal in (False, True)
    ]
    ends.append(b.add(Exp(), b.add(Tanh(), b.add(Multiply(), x, np.float32(9)))))
    _, outs, plain = plans(b.done(*ends), [randn(2, 6, 5, 8)])
    for name, want in plain.items():
        np.testing.assert_allclose(outs[name], want, rtol=2e-6, atol=2e-6, err_msg=name)


def test_exponentials_everywhere():
    """No overflow before the end of f32, no zero where a number below the normal ones is left."""
    b = Builder()
    y = b.add(Exp(), b.add(Add(), b.input((7,)), np.float32(0)))
    x = np.array([88.7, 88.75, -87.4, -103, -104, np.inf, np.nan], np.float32)
    _, outs, plain = plans(b.done(y), [x])
    (got,), (want,) = outs.values(), plain.values()
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1.5e-45)


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, True)])
def test_tiny_products(turned: tuple[bool, bool]):
    """Of a constant and of a tensor, a vector of one row and a matrix."""
    b = Builder()
    x, y = b.input((3, 5)), b.input((5, 3), name="y")
    a = x if not turned[0] else b.add(Transpose(), x, np.array([1, 0]))
    ends = []
    for left in (a, b.add(Reshape(), a, np.array([1, *((5, 3) if turned[0] else (3, 5))]))):
        ends.append(b.add(MatMul(*turned), left, randn(7, 5) if turned[1] else randn(5, 7)))
        other = y if not turned[1] else b.add(Transpose(), y, np.array([1, 0]))
        ends.append(b.add(MatMul(*turned), left, b.add(ReLU(), other)))
    _, outs, plain = plans(b.done(*ends), [randn(3, 5), randn(5, 3)])
    for name, want in plain.items():
        np.testing.assert_allclose(outs[name], want, rtol=1e-5, atol=1e-6, err_msg=name)
