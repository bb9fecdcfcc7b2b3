"""Layers that suit the values that a graph has: element-wise ones, moves, sums, products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irdeconv.ir.dtypes import ELEMENT_TYPES
from support.differential.making import Held, Making, layer, pick

Maker = Callable[[Making], "list[Held] | None"]
UNARY = (
    "Abs ReLU Sigmoid Tanh Negative Sign Ceiling Floor Exp Erf SoftPlus HSwish Sin Cos Atan Sqrt"
).split()
ANY_TYPE = ("Abs", "ReLU", "Negative", "Sign")
BINARY = "Add Add Subtract Multiply Multiply Maximum Minimum SquaredDifference Mod".split()
COMPARED = "Equal NotEqual Less LessEqual Greater GreaterEqual".split()
REALS = ("f32", "f16", "bf16", "f64")
SIGNED = (*REALS, "i32", "i64")
NUMBERS = (*SIGNED, "u8", "i8")
REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceProd".split()


def unary(m: Making) -> list[Held] | None:
    kind = pick(m.rng, UNARY)
    held = m.some(*(SIGNED if kind in ANY_TYPE else REALS))
    return m.add(layer(kind, 4 if kind in ("HSwish", "SoftPlus") else 1), [held]) if held else None


def binary(m: Making) -> list[Held] | None:
    kind = pick(m.rng, BINARY + COMPARED)
    a = m.some(*(SIGNED if kind in BINARY else NUMBERS))
    if a is None:
        return None
    b = _beside(m, a)
    return m.add(layer(kind, 1), [a, b] if m.chance(0.7) else [b, a])


def _beside(m: Making, a: Held) -> Held:
    """Return something that broadcasts with a value: another value, or a new one."""
    fits = [h for h in m.held if h.dtype is a.dtype and _broadcasts(h, a) and h is not a]
    if fits and m.chance(0.6):
        return fits[m.below(len(fits))]
    shape = tuple(1 if m.chance(0.4) else d for d in a.array.shape)
    if m.chance(0.3):
        shape = shape[m.below(len(shape) + 1) :]
    return m.fresh(a.dtype, shape)


def _broadcasts(a: Held, b: Held) -> bool:
    rows = zip(reversed(a.array.shape), reversed(b.array.shape), strict=False)
    return all(1 in (x, y) or x == y for x, y in rows)


def select(m: Making) -> list[Held] | None:
    mask, a = m.some("boolean"), m.some(*NUMBERS)
    if a is None or mask is None or not _broadcasts(mask, a):
        return None
    return m.add(layer("Select", 1), [mask, a, _beside(m, a)])


def concat(m: Making) -> list[Held] | None:
    a = m.some(least=1)
    if a is None:
        return None
    axis = m.below(a.array.ndim)
    fits = [h for h in m.held if h.dtype is a.dtype and _differ_at_most(h, a, axis)]
    others = [fits[m.below(len(fits))] for _ in range(1 + m.below(2))]
    if m.chance(0.3):
        others.append(m.fresh(a.dtype, a.array.shape))
    from_end = axis - (a.array.ndim if m.chance(0.3) else 0)
    return m.add(layer("Concat", 1, axis=from_end), [a, *others])


def _differ_at_most(a: Held, b: Held, axis: int) -> bool:
    if a.array.ndim != b.array.ndim:
        return False
    rows = enumerate(zip(a.array.shape, b.array.shape, strict=True))
    return all(x == y or i == axis for i, (x, y) in rows)


def split(m: Making) -> list[Held] | None:
    a = m.some(least=1)
    if a is None:
        return None
    axis = m.below(a.array.ndim)
    size = a.array.shape[axis]
    if m.chance(0.5):
        parts = [n for n in (2, 3, 4) if size and size % n == 0]
        if not parts:
            return None
        return m.add(layer("Split", 1, num_splits=pick(m.rng, parts)), [a, m.constant(axis)])
    if size < 2:
        return None
    cut = 1 + m.below(size - 1)
    lengths = [cut, -1 if m.chance(0.3) else size - cut]
    return m.add(layer("VariadicSplit", 1), [a, m.constant(axis), m.constant(lengths)])


def transpose(m: Making) -> list[Held] | None:
    a = m.some(least=2)
    if a is None:
        return None
    return m.add(layer("Transpose", 1), [a, m.constant(m.rng.permutation(a.array.ndim))])


def reshape(m: Making) -> list[Held] | None:
    """Two neighbours become one, or an axis two; sizes that stay are 0."""
    a = m.some(least=2)
    if a is None:
        return None
    at = m.below(a.array.ndim - 1)
    sizes = [0] * a.array.ndim
    sizes[at : at + 2] = [-1]
    special = True
    if at < a.array.ndim - 2:  # 0 copies the axis of the same place, which has moved
        sizes, special = list(a.array.shape), False
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        if 0 in sizes:
            return None
        sizes[m.below(len(sizes))] = -1
    return m.add(layer("Reshape", 1, special_zero=special), [a, m.constant(sizes)])


def by_shape(m: Making) -> list[Held] | None:
    """A shape that is computed: of another value, in part, in another order."""
    a, like = m.some(least=1), m.some(least=1)
    if a is None or like is None:
        return None
    kind = pick(m.rng, ("i64", "i32"))
    made = m.add(layer("ShapeOf", 3, output_type=ELEMENT_TYPES[kind]), [like])
    if not made:
        return None
    sizes = made[0]
    way = m.below(3)
    if way == 0 and a.array.size == like.array.size:
        return m.add(layer("Reshape", 1, special_zero=False), [a, sizes])
    if way == 1:
        return m.add(layer("Broadcast", 3, mode="bidirectional"), [a, sizes])
    order = m.constant(m.rng.permutation(a.array.ndim))
    own = m.add(layer("ShapeOf", 3), [a])
    moved = own and m.add(layer("Gather", 8), [own[0], order, m.constant(0)])
    return m.add(layer("Reshape", 1, special_zero=False), [a, moved[0]]) if moved else None


def reduction(m: Making) -> list[Held] | None:
    a = m.some(*SIGNED, least=1)
    if a is None:
        return None
    kind = pick(m.rng, REDUCTIONS)
    count = 1 + m.below(min(2, a.array.ndim))
    axes = m.rng.permutation(a.array.ndim)[:count]
    opset = 4 if kind in ("ReduceL1", "ReduceL2") else 1
    return m.add(layer(kind, opset, keep_dims=m.chance(0.5)), [a, m.constant(axes)])


def softmax(m: Making) -> list[Held] | None:
    a = m.some(*REALS, least=1)
    if a is None:
        return None
    return m.add(layer("SoftMax", 8, axis=m.below(a.array.ndim)), [a])


def matmul(m: Making) -> list[Held] | None:
    a = m.some(*REALS, least=2)
    if a is None:
        return None
    across = m.chance(0.4)
    rows = a.array.shape[-1]
    columns = 1 + m.below(4)
    b = m.fresh(a.dtype, (columns, rows) if across else (rows, columns))
    return m.add(layer("MatMul", 1, transpose_a=False, transpose_b=across), [a, b])


def pad(m: Making) -> list[Held] | None:
    a = m.some(*NUMBERS, least=1)
    if a is None:
        return None
    rank = a.array.ndim
    begin, end = m.rng.integers(0, 3, rank), m.rng.integers(0, 3, rank)
    mode = pick(m.rng, ("constant", "edge", "reflect", "symmetric"))
    inputs = [a, m.constant(begin), m.constant(end)]
    if mode == "constant":
        inputs.append(m.constant(np.array(m.below(3)), a.dtype))
    return m.add(layer("Pad", 12, pad_mode=mode), inputs)


def convert(m: Making) -> list[Held] | None:
    a = m.some(*NUMBERS, "boolean")
    target = ELEMENT_TYPES[pick(m.rng, REALS)]
    return m.add(layer("Convert", 1, destination_type=target), [a]) if a else None


def convolution(m: Making) -> list[Held] | None:
    a = m.some(*REALS, least=3)
    if a is None or a.array.ndim > 5 or 0 in a.array.shape:
        return None
    c, size = a.array.shape[1], a.array.shape[2:]
    n = len(size)
    kernel = [1 + m.below(min(3, s)) for s in size]
    attributes = {
        "strides": tuple(1 + m.below(2) for _ in size),
        "dilations": (1,) * n,
        "pads_begin": tuple(m.below(k) for k in kernel),
        "pads_end": tuple(m.below(k) for k in kernel),
        "auto_pad": pick(m.rng, ("explicit", "explicit", "same_upper", "same_lower", "valid")),
    }
    groups = pick(m.rng, [g for g in (1, 2, 3, 4) if c % g == 0])
    outputs = 1 + m.below(3)
    if groups == 1 and m.chance(0.8):
        w = m.fresh(a.dtype, (outputs, c, *kernel))
        return m.add(layer("Convolution", 1, **attributes), [a, w])
    w = m.fresh(a.dtype, (groups, outputs, c // groups, *kernel))
    return m.add(layer("GroupConvolution", 1, **attributes), [a, w])


def pooling(m: Making) -> list[Held] | None:
    a = m.some("f32", "f16", least=3)
    if a is None or a.array.ndim > 5 or 0 in a.array.shape:
        return None
    size = a.array.shape[2:]
    kernel = tuple(1 + m.below(min(3, s)) for s in size)
    attributes = {
        "kernel": kernel,
        "strides": tuple(1 + m.below(2) for _ in size),
        "pads_begin": tuple(m.below(k) for k in kernel),
        "pads_end": tuple(m.below(k) for k in kernel),
        "rounding_type": pick(m.rng, ("floor", "ceil")),
        "auto_pad": pick(m.rng, ("explicit", "same_upper", "same_lower", "valid")),
    }
    if m.chance(0.5):
        return m.add(layer("AvgPool", 1, exclude_pad=m.chance(0.5), **attributes), [a])
    return m.add(layer("MaxPool", 1, **attributes), [a])


MAKERS: tuple[Maker, ...] = (
    unary, unary, binary, binary, binary, select, concat, concat, split, transpose, reshape,
    by_shape, by_shape, reduction, softmax, matmul, pad, convert, convolution, pooling,
)  # fmt: skip
