"""Element-wise operations, reductions, normalizations, products of matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from irdeconv.ir.dtypes import ELEMENT_TYPES
from op_cases import Tensor
from support.live_operations.generators.tools import (
    Generator,
    Rng,
    Sample,
    axes,
    axis,
    flag,
    index,
    kind,
    numbers,
    pick,
    sample,
    shape,
)
from support.live_operations.mutate import cast, type_for

UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceiling Cos Cosh Erf Exp Floor HSigmoid HSwish IsFinite "
    "IsInf IsNaN Log LogicalNot Mish Negative ReLU Sigmoid Sign Sin Sinh SoftPlus SoftSign Sqrt "
    "Tan Tanh Gelu BitwiseNot Identity Elu Clamp Round"
).split()
BINARY = (
    "Add Subtract Multiply Divide Maximum Minimum Mod FloorMod SquaredDifference Power Equal "
    "NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalXor Xor BitwiseAnd "
    "BitwiseOr BitwiseXor PReLU"
).split()
REAL = ("f32", "f32", "f32", "f16", "bf16", "f64")
BITS = ("i32", "u8", "i8", "i64", "u32", "boolean", "i16", "u16")


def unary(rng: Rng, name: str, version: str) -> Sample:
    dtype = kind(rng, *BITS) if name == "BitwiseNot" else type_for(rng, name)
    if dtype.kind == "bool" and name not in ("LogicalNot", "BitwiseNot", "Identity"):
        dtype = ELEMENT_TYPES["f32"]
    if name in ("Gelu", "Mish", "SoftPlus", "SoftSign"):
        dtype = kind(rng, *REAL)
    texts = {
        "alpha": pick(rng, (0.5, 1.0, 1.5)),
        "min": pick(rng, (-2.5, 0.0, -3.0)),
        "max": pick(rng, (2.5, 6.0, 4.0)),
        "mode": pick(rng, ("half_to_even", "half_away_from_zero")),
        "approximation_mode": pick(rng, ("ERF", "TANH")),
        "detect_negative": flag(rng),
        "detect_positive": flag(rng),
    }
    return sample(rng, name, version, texts, [numbers(rng, dtype, shape(rng))])


def _partner(rng: Rng, whole: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to the whole one."""
    cut = int(rng.integers(0, len(whole) + 1)) if rng.random() < 0.4 else 0
    return tuple(1 if rng.random() < 0.25 else d for d in whole[cut:])


def _no_zeros(t: Tensor) -> Tensor:
    return replace(t, values=np.where(t.values == 0, np.array(1).astype(t.values.dtype), t.values))


def binary(rng: Rng, name: str, version: str) -> Sample:
    dtype = kind(rng, *BITS) if name.startswith("Bitwise") else type_for(rng, name)
    if dtype.kind == "bool" and not name.startswith(("Logical", "Xor", "Bitwise")):
        dtype = kind(rng, *REAL, "i32", "i64")
    whole, mode = shape(rng), "numpy" if rng.random() < 0.85 else pick(rng, ("none", "pdpd"))
    a = whole if mode != "numpy" or name == "PReLU" else _partner(rng, whole)
    b = _partner(rng, whole) if mode == "numpy" and name != "PReLU" else whole
    if mode == "pdpd":
        b = whole[: int(rng.integers(0, len(whole) + 1))]
    if name == "PReLU":
        b = (whole[1],) if len(whole) > 1 else (1,)
    reach = 3 if name == "Power" else 5 if name == "Multiply" else 9
    x, y = numbers(rng, dtype, a, reach), numbers(rng, dtype, b, reach)
    if name in ("Divide", "Mod", "FloorMod"):
        y = _no_zeros(y)
    if name == "Power":
        y = cast(np.abs(np.trunc(y.values.astype(np.float64))), dtype)
    return sample(rng, name, version, {"auto_broadcast": mode}, [x, y])


def select(rng: Rng, name: str, version: str) -> Sample:
    whole, dtype = shape(rng), type_for(rng, name)
    cond = numbers(rng, ELEMENT_TYPES["boolean"], _partner(rng, whole))
    both = [numbers(rng, dtype, _partner(rng, whole)) for _ in range(2)]
    return sample(rng, name, version, {}, [cond, *both])


def convert(rng: Rng, name: str, version: str) -> Sample:
    source, target = type_for(rng, name), type_for(rng, name)
    x = numbers(rng, source, shape(rng), 100)
    if name == "ConvertLike":
        return sample(rng, name, version, {}, [x, numbers(rng, target, (2,))])
    return sample(rng, name, version, {"destination_type": target}, [x])


def reduction(rng: Rng, name: str, version: str) -> Sample:
    dtype = type_for(rng, name)
    if dtype.kind == "bool" and "Logical" not in name:
        dtype = ELEMENT_TYPES["f32"]
    size = shape(rng, 1, 4)
    x = numbers(rng, dtype, size, 2)
    chosen = index(rng, axes(rng, len(size), 1))
    return sample(rng, name, version, {"keep_dims": flag(rng)}, [x, chosen], [1])


def normalized(rng: Rng, name: str, version: str) -> Sample:
    """SoftMax, LogSoftmax, MVN, NormalizeL2, LRN, GRN, CumSum."""
    size = shape(rng, 2, 4)
    x = numbers(rng, kind(rng, *REAL), size)
    texts = {
        "axis": axis(rng, len(size)) if version not in ("opset1", "opset5") else len(size) - 1,
        "eps": pick(rng, (0.001, 0.5)),
        "eps_mode": pick(rng, ("inside_sqrt", "outside_sqrt") if name == "MVN" else ("add", "max")),
        "normalize_variance": flag(rng),
        "across_channels": flag(rng),
        "alpha": 0.5,
        "beta": pick(rng, (0.5, 0.75)),
        "bias": pick(rng, (1.0, 2.0)),
        "size": pick(rng, (1, 3, 5)),
        "exclusive": flag(rng),
        "reverse": flag(rng),
    }
    if name in ("SoftMax", "LogSoftmax", "GRN"):
        return sample(rng, name, version, texts, [x])
    if name == "CumSum":
        return sample(rng, name, version, texts, [x, index(rng, axis(rng, len(size)))], [1])
    if name == "MVN" and int(version[5:]) < 6:
        return sample(rng, name, version, texts, [x])
    chosen = sorted({a % len(size) for a in axes(rng, len(size), 1)})
    if name == "LRN":
        chosen = [1] if rng.random() < 0.6 or len(size) < 3 else list(range(2, len(size)))
    return sample(rng, name, version, texts, [x, index(rng, chosen)], [1])


def batch_norm(rng: Rng, name: str, version: str) -> Sample:
    dtype, size = kind(rng, "f32", "f16", "f64"), shape(rng, 2, 4)
    data = numbers(rng, dtype, size)
    gamma, beta, mean, variance = (numbers(rng, dtype, size[1:2]) for _ in range(4))
    variance = replace(variance, values=np.abs(variance.values))
    if int(version[5:]) < 5:
        inputs = [gamma, beta, data, mean, variance]
    else:
        inputs = [data, gamma, beta, mean, variance]
    return sample(rng, name, version, {"epsilon": pick(rng, (0.5, 0.001))}, inputs)


def matmul(rng: Rng, name: str, version: str) -> Sample:
    dtype = kind(rng, *REAL, "i32")
    m, k, n = (int(v) for v in rng.permutation([1, 2, 3, 4, 5])[:3])
    batch = shape(rng, 0, 2, 3)
    ta, tb = rng.random() < 0.4, rng.random() < 0.4
    a = (*_partner(rng, batch), *((k, m) if ta else (m, k)))
    b = (*_partner(rng, batch), *((n, k) if tb else (k, n)))
    if rng.random() < 0.1:
        a, ta = (k,), False
    texts = {"transpose_a": str(ta).lower(), "transpose_b": str(tb).lower()}
    return sample(rng, name, version, texts, [numbers(rng, dtype, a, 3), numbers(rng, dtype, b, 3)])


GENERATORS: dict[str, Generator] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(
        [f"Reduce{w}" for w in "L1 L2 LogicalAnd LogicalOr Max Mean Min Prod Sum".split()],
        reduction,
    ),
    **dict.fromkeys(
        ("SoftMax", "LogSoftmax", "MVN", "NormalizeL2", "LRN", "GRN", "CumSum"), normalized
    ),
    "Select": select,
    "Convert": convert,
    "ConvertLike": convert,
    "BatchNormInference": batch_norm,
    "MatMul": matmul,
}
