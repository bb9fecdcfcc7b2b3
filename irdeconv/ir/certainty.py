"""Whether OpenVINO folds an operation of constants to exactly these numbers.

OpenVINO folds when it reads a model, folds more when it compiles it (then f64 and f16 are f32, and
i64 is i32), and executes the rest; there it drops layers by bounds that are wrong at times. A value
is certain if the first two have it. So it needs an operation listed here, which is folded when a
model is read, integers of 31 bits, and real numbers that f32 holds; a sum may be added in any
order. `tests/verify/test_false_declarations.py` compares shapes that follow from such values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.spec import UNKNOWN, Array, Interval, distinct

MOVED = frozenset(
    "Broadcast Concat Gather GatherND OneHot Pad Reshape Reverse ScatterNDUpdate "
    "ScatterUpdate Select ShapeOf Slice Split Squeeze StridedSlice Tile Transpose Unsqueeze "
    "VariadicSplit".split()
)
# In f32 one step of these is rounded in one way only.
STEPS = frozenset("Add Subtract Multiply".split())
SMALL = frozenset(  # of integers OpenVINO may compute these in f32
    "Divide Equal FloorMod Greater GreaterEqual Less LessEqual Mod NotEqual Power Range".split()
)
EXACT = STEPS | SMALL - {"Range"}
EXACT |= frozenset(
    "Abs Ceiling Clamp Floor LogicalAnd LogicalNot LogicalOr LogicalXor Maximum Minimum Negative "
    "ReLU Round Sign Sqrt".split()
)
REDUCED = frozenset("ReduceLogicalAnd ReduceLogicalOr ReduceMax ReduceMin".split())
SUMMED = frozenset("MatMul ReduceL1 ReduceProd ReduceSum".split())
SINGLE, LAST_SMALL, LAST_INTEGER, LEAST_NORMAL = np.float32, 1 << 23, 1 << 30, 2.0**-126
NO_SIZE = 1 << 62  # larger integers are ends of slices; in 32 bits they mean the same
# Types in which exact results are those of OpenVINO; it has other numbers in narrow integers.
FOLDED = ("bool", "float16", "float32", "float64", "int32", "int64")
DIGITS = {"f64": 24, "f32": 24, "f16": 11, "bf16": 8, "f8e4m3": 3, "f8e5m2": 2}

Evaluate = Callable[..., Array]


def is_held(x: Array) -> bool:
    """Whether OpenVINO keeps all numbers of an array in each type that it may give them."""
    if x.dtype.kind in "iub":
        return not x.size or (int(x.min()) >= -LAST_INTEGER and int(x.max()) <= LAST_INTEGER)
    if x.dtype.kind in "OSUT":
        return False
    wide = x.astype(np.float64)
    normal = (wide == 0) | ((abs(wide) >= LEAST_NORMAL) & np.isfinite(wide))
    return bool(np.all(normal & (wide.astype(SINGLE) == wide)))


def settled(kind: str, dtype: ElementType, values: Array) -> Array:
    """Return partly known values, widened to OpenVINO's possible results in their type."""
    if kind in MOVED or values.dtype != object or not (dtype.is_real or dtype.is_integral):
        return values
    bits = DIGITS.get(dtype.name, min(dtype.bits - (dtype.kind == "int"), 31))
    lowest, most = 0 if dtype.kind == "uint" else -(1 << bits), (1 << bits) - 1

    def settle(v: Any) -> Any:
        if not isinstance(v, Interval):
            return v if lowest <= v <= most and (dtype.name == "f32" or v == int(v)) else UNKNOWN
        if bits == 31 or (lowest <= v.lo and v.hi is not None and v.hi <= most):
            return v  # sizes fit 32 bits
        return Interval(v.lo, None) if dtype.is_real and v.lo >= lowest else UNKNOWN

    found = np.asarray(np.frompyfunc(settle, 1, 1)(distinct(values)), object)
    return np.broadcast_to(found, values.shape)


def is_whole(x: Array, most: int) -> bool:
    """Whether all numbers are integers of at most this size."""
    wide = x.astype(np.float64)
    return bool(np.all((abs(wide) <= most) & (wide == np.trunc(wide))))


def is_certain(op: Any, inputs: Sequence[Array], out: Array) -> bool:
    """Whether OpenVINO has the same output of an operation for these inputs."""
    kind = op.type
    if kind in MOVED and not _writes_twice(op, inputs):
        return is_held(out if is_real(out) else out[abs(_wide(out)) < NO_SIZE])
    if not is_held(out):
        return False
    if not all(map(is_held, inputs)):
        return False
    if kind in ("Convert", "ConvertLike"):
        if out.dtype.kind == "b":
            return True
        wide = inputs[0].astype(np.float64)
        return bool(np.all(out == (wide if is_real(out) else np.trunc(wide))))
    if inputs[0].dtype.name not in FOLDED or (kind == "Mod" and is_real(out)):
        return False
    if kind in SMALL and not all(is_real(x) or is_whole(x, LAST_SMALL) for x in inputs):
        return False
    if kind == "Range":
        return all(is_whole(x, LAST_SMALL) for x in (*inputs, out))
    if kind == "Divide" and not is_real(out):
        exact = op.evaluate(*map(_wide, inputs))
        return bool(np.all((np.floor if op.m_pythondiv else np.trunc)(exact) == out))
    if kind in EXACT:
        return _is_exact(kind, op.evaluate, inputs, out)
    if kind in REDUCED | SUMMED:
        return kind in REDUCED or _is_sum(kind, op.evaluate, inputs, out)
    return False


def is_real(x: Array) -> bool:
    """Whether an array holds floating-point numbers."""
    return x.dtype.kind not in "iub"


def _writes_twice(op: Any, inputs: Sequence[Array]) -> bool:
    """Whether a scatter may write to a place twice, or combines the values that it writes."""
    if not op.type.startswith("Scatter"):
        return False
    at, rows = inputs[1], inputs[1].shape[-1] if op.type == "ScatterNDUpdate" else 1
    places = at.reshape(-1, max(rows, 1))
    once = len(np.unique(places, axis=0)) == len(places) and (at >= 0).all()
    return not once or getattr(op, "reduction", "none") != "none"


def _wide(x: Array) -> Array:
    return x if x.dtype.kind == "b" else x.astype(np.float64)


def _is_exact(kind: str, evaluate: Evaluate, inputs: Sequence[Array], out: Array) -> bool:
    if kind in STEPS and out.dtype == SINGLE:
        return True
    if kind == "Abs":  # OpenVINO leaves it out if it takes the input for a size
        return bool((inputs[0] >= 0).all())
    if kind in ("Power", "Sqrt") and not is_whole(out, LAST_SMALL):
        return False
    if kind == "Divide":  # the runtime multiplies by the inverse
        a, b = (x.astype(SINGLE) for x in inputs)
        if not np.all(a * (SINGLE(1) / b) == a / b):
            return False
        if out.dtype == SINGLE:
            return True
    return bool(np.all(evaluate(*map(_wide, inputs)) == out))


def _is_sum(kind: str, evaluate: Evaluate, inputs: Sequence[Array], out: Array) -> bool:
    """Whether no partial sum or product can be rounded, or leave its type."""
    count = 2 if kind == "MatMul" else 1
    data, rest = [x.astype(np.float64) for x in inputs[:count]], inputs[count:]
    most = LAST_SMALL if is_real(out) else LAST_INTEGER
    if not all(is_whole(x, most) for x in data):
        return False
    whole = is_whole(evaluate(*map(abs, data), *rest), most)
    return whole and bool(np.all(evaluate(*data, *rest) == out))
