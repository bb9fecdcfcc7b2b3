"""Random samples of operations whose inputs have a meaning: axes, splits, indices, places."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from irdeconv.ir.dtypes import ELEMENT_TYPES
from op_cases import Tensor
from support.live.drawn import (
    Drawing,
    anything,
    axes,
    axis,
    choices,
    flag,
    index,
    kind,
    makes,
    shape,
    text,
)
from support.live.mutate import FUNCTIONS, REAL_ONLY, Rng, cast, numbers, pick, type_for

# Element-wise operations, reductions, normalizations, products of matrices.

UNARY = f"{' '.join(FUNCTIONS)} BitwiseNot Identity IsFinite IsInf IsNaN LogicalNot"
BINARY = (
    "Add Subtract Multiply Divide Maximum Minimum Mod FloorMod SquaredDifference Power Equal "
    "NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalXor Xor BitwiseAnd "
    "BitwiseOr BitwiseXor PReLU"
)
REAL = ("f32", "f32", "f32", "f16", "bf16", "f64")
BITS = ("i32", "u8", "i8", "i64", "u32", "boolean", "i16", "u16")


@makes(UNARY)
def unary(rng: Rng, name: str, version: str) -> Drawing:
    dtype = kind(rng, *BITS) if name == "BitwiseNot" else type_for(rng, name)
    if dtype.kind == "bool" and name not in ("LogicalNot", "BitwiseNot", "Identity"):
        dtype = ELEMENT_TYPES["f32"]
    if name in FUNCTIONS and name in REAL_ONLY:
        dtype = kind(rng, *REAL)
    texts = choices(
        rng,
        "alpha=0.5|1.0|1.5 min=-2.5|0.0|-3.0 max=2.5|6.0|4.0 mode=half_to_even|half_away_from_zero "
        "approximation_mode=ERF|TANH detect_negative=true|false detect_positive=true|false",
    )
    return texts, [numbers(rng, dtype, shape(rng))]


def _partner(rng: Rng, whole: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to the whole one."""
    cut = int(rng.integers(0, len(whole) + 1)) if rng.random() < 0.4 else 0
    return tuple(1 if rng.random() < 0.25 else d for d in whole[cut:])


def _no_zeros(t: Tensor) -> Tensor:
    return replace(t, values=np.where(t.values == 0, np.array(1).astype(t.values.dtype), t.values))


@makes(BINARY)
def binary(rng: Rng, name: str, version: str) -> Drawing:
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
    return {"auto_broadcast": mode}, [x, y]


@makes("Select")
def select(rng: Rng, name: str, version: str) -> Drawing:
    whole, dtype = shape(rng), type_for(rng, name)
    cond = numbers(rng, ELEMENT_TYPES["boolean"], _partner(rng, whole))
    both = [numbers(rng, dtype, _partner(rng, whole)) for _ in range(2)]
    return {}, [cond, *both]


@makes("Convert ConvertLike")
def convert(rng: Rng, name: str, version: str) -> Drawing:
    source, target = type_for(rng, name), type_for(rng, name)
    x = numbers(rng, source, shape(rng), 100)
    if name == "ConvertLike":
        return {}, [x, numbers(rng, target, (2,))]
    return {"destination_type": target}, [x]


@makes(
    "ReduceL1 ReduceL2 ReduceLogicalAnd ReduceLogicalOr ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum"
)
def reduction(rng: Rng, name: str, version: str) -> Drawing:
    dtype = type_for(rng, name)
    if dtype.kind == "bool" and "Logical" not in name:
        dtype = ELEMENT_TYPES["f32"]
    size = shape(rng, 1, 4)
    x = numbers(rng, dtype, size, 2)
    chosen = index(rng, axes(rng, len(size), 1))
    return {"keep_dims": flag(rng)}, [x, chosen], [1]


@makes("SoftMax LogSoftmax MVN NormalizeL2 LRN GRN CumSum")
def normalized(rng: Rng, name: str, version: str) -> Drawing:
    size = shape(rng, 2, 4)
    x = numbers(rng, kind(rng, *REAL), size)
    texts = {
        "axis": axis(rng, len(size)) if version not in ("opset1", "opset5") else len(size) - 1,
        "alpha": 0.5,
    }
    mode = "inside_sqrt|outside_sqrt" if name == "MVN" else "add|max"
    texts |= choices(
        rng,
        f"eps=0.001|0.5 eps_mode={mode} normalize_variance=true|false across_channels=true|false "
        "beta=0.5|0.75 bias=1.0|2.0 size=1|3|5 exclusive=true|false reverse=true|false",
    )
    if name in ("SoftMax", "LogSoftmax", "GRN"):
        return texts, [x]
    if name == "CumSum":
        return texts, [x, index(rng, axis(rng, len(size)))], [1]
    if name == "MVN" and int(version[5:]) < 6:
        return texts, [x]
    chosen = sorted({a % len(size) for a in axes(rng, len(size), 1)})
    if name == "LRN":
        chosen = [1] if rng.random() < 0.6 or len(size) < 3 else list(range(2, len(size)))
    return texts, [x, index(rng, chosen)], [1]


@makes("BatchNormInference")
def batch_norm(rng: Rng, name: str, version: str) -> Drawing:
    dtype, size = kind(rng, "f32", "f16", "f64"), shape(rng, 2, 4)
    data = numbers(rng, dtype, size)
    gamma, beta, mean, variance = (numbers(rng, dtype, size[1:2]) for _ in range(4))
    variance = replace(variance, values=np.abs(variance.values))
    if int(version[5:]) < 5:
        inputs = [gamma, beta, data, mean, variance]
    else:
        inputs = [data, gamma, beta, mean, variance]
    return {"epsilon": pick(rng, (0.5, 0.001))}, inputs


@makes("MatMul")
def matmul(rng: Rng, name: str, version: str) -> Drawing:
    dtype = kind(rng, *REAL, "i32")
    m, k, n = (int(v) for v in rng.permutation([1, 2, 3, 4, 5])[:3])
    batch = shape(rng, 0, 2, 3)
    ta, tb = rng.random() < 0.4, rng.random() < 0.4
    a = (*_partner(rng, batch), *((k, m) if ta else (m, k)))
    b = (*_partner(rng, batch), *((n, k) if tb else (k, n)))
    if rng.random() < 0.1:
        a, ta = (k,), False
    texts = {"transpose_a": str(ta).lower(), "transpose_b": str(tb).lower()}
    return texts, [numbers(rng, dtype, a, 3), numbers(rng, dtype, b, 3)]


# Operations that move elements: shapes, pieces, padding, repetition.


@makes("Transpose")
def transpose(rng: Rng, name: str, version: str) -> Drawing:
    size = shape(rng, 1)
    order = [] if rng.random() < 0.2 else [int(a) for a in rng.permutation(len(size))]
    return {}, [numbers(rng, anything(rng), size), index(rng, order)], [1]


@makes("Reshape")
def reshape(rng: Rng, name: str, version: str) -> Drawing:
    size = shape(rng, 1, 4)
    total, target = math.prod(size), []
    for _ in range(int(rng.integers(0, 3))):
        found = [d for d in range(1, total + 1) if total and total % d == 0] or [1]
        target.append(int(pick(rng, found)))
        total //= target[-1]
    target.append(total)
    special = rng.random() < 0.5 and math.prod(size) > 0
    if special and rng.random() < 0.5:
        target = [0, -1]
    elif rng.random() < 0.4 and math.prod(size):
        target[int(rng.integers(len(target)))] = -1
    inputs = [numbers(rng, anything(rng), size), index(rng, target)]
    return {"special_zero": str(special).lower()}, inputs, [1]


@makes("Squeeze")
def squeeze(rng: Rng, name: str, version: str) -> Drawing:
    size = [1 if rng.random() < 0.5 else d for d in shape(rng, 1)]
    ones = [a for a, d in enumerate(size) if d == 1]
    chosen = [a - (len(size) if rng.random() < 0.3 else 0) for a in ones if rng.random() < 0.6]
    x = numbers(rng, anything(rng), size)
    return {}, [x, index(rng, chosen)] if chosen else [x], [1]


@makes("Unsqueeze")
def unsqueeze(rng: Rng, name: str, version: str) -> Drawing:
    size, more = shape(rng, 0, 3), int(rng.integers(1, 3))
    rank = len(size) + more
    chosen = [int(a) - (rank if rng.random() < 0.3 else 0) for a in rng.permutation(rank)[:more]]
    return {}, [numbers(rng, anything(rng), size), index(rng, chosen)], [1]


@makes("Tile")
def tile(rng: Rng, name: str, version: str) -> Drawing:
    size = shape(rng, 1, 4)
    repeats = [int(v) for v in rng.integers(1, 4, int(rng.integers(1, len(size) + 2)))]
    return {}, [numbers(rng, anything(rng), size), index(rng, repeats)], [1]


@makes("Broadcast")
def broadcast(rng: Rng, name: str, version: str) -> Drawing:
    target = shape(rng, 1, 4)
    first = int(rng.integers(0, len(target)))
    size = tuple(1 if rng.random() < 0.3 else d for d in target[first:])
    x = numbers(rng, anything(rng), size)
    if rng.random() < 0.3:
        mapping = sorted(int(a) for a in rng.permutation(len(target))[: len(size)])
        x = numbers(rng, anything(rng), [target[a] for a in mapping])
        return {"mode": "explicit"}, [x, index(rng, target), index(rng, mapping)], [1, 2]
    mode = "numpy" if int(version[5:]) < 3 else pick(rng, ("numpy", "bidirectional"))
    return {"mode": mode}, [x, index(rng, target)], [1]


@makes("Concat")
def concat(rng: Rng, name: str, version: str) -> Drawing:
    size, dtype = list(shape(rng, 1, 4)), anything(rng)
    at, parts = axis(rng, len(size)), []
    for _ in range(int(rng.integers(1, 5))):
        size[at] = int(rng.integers(0 if rng.random() < 0.1 else 1, 4))
        parts.append(numbers(rng, dtype, size))
    return {"axis": at}, parts


@makes("Split VariadicSplit")
def split(rng: Rng, name: str, version: str) -> Drawing:
    size, count = list(shape(rng, 1, 4)), int(rng.integers(2, 4))
    at = axis(rng, len(size))
    lengths = [int(v) for v in rng.integers(0 if rng.random() < 0.1 else 1, 4, count)]
    size[at] = sum(lengths) if name == "VariadicSplit" else count * int(rng.integers(1, 4))
    x = numbers(rng, anything(rng), size)
    if name == "Split":
        inputs, lists = [x, index(rng, at)], [1]
    else:
        if rng.random() < 0.3:
            lengths[int(rng.integers(count))] = -1
        inputs, lists = [x, index(rng, at), index(rng, lengths)], [1, 2]
    return {"num_splits": count}, inputs, lists, count


@makes("Pad")
def pad(rng: Rng, name: str, version: str) -> Drawing:
    size = shape(rng, 1, 4)
    mode = pick(rng, ("constant", "edge", "reflect", "symmetric"))
    low = -1 if int(version[5:]) >= 12 and rng.random() < 0.3 else 0

    def amounts() -> list[int]:
        least = [max(low, 1 - d) if d else 0 for d in size]
        most = [min(2, d - 1) if mode == "reflect" else min(2, d) for d in size]
        return [int(rng.integers(a, max(a, b) + 1)) for a, b in zip(least, most, strict=True)]

    begin, end = amounts(), [max(v, 0) for v in amounts()]
    dtype = kind(rng, "f32", "f32", "f16", "i32", "i64", "u8", "i8")
    inputs = [numbers(rng, dtype, size), index(rng, begin), index(rng, end)]
    if mode == "constant" and rng.random() < 0.6:
        inputs.append(numbers(rng, dtype, ()))
    return {"pad_mode": mode}, inputs, [1, 2, 3]


@makes("StridedSlice Slice")
def strided(rng: Rng, name: str, version: str) -> Drawing:
    """StridedSlice, and Slice with the axes named."""
    size = shape(rng, 1, 4, 6)
    count = int(rng.integers(1, len(size) + 1))
    chosen = sorted(int(a) for a in rng.permutation(len(size))[:count])
    if name == "StridedSlice":
        chosen = list(range(count))
    steps = [int(pick(rng, (1, 1, 2, 3, -1, -2))) for _ in chosen]
    ends = [[int(v) for v in rng.integers(-size[a] - 1, size[a] + 2, 2)] for a in chosen]
    begin, end = [e[0] for e in ends], [e[1] for e in ends]
    x = numbers(rng, anything(rng), size)
    lists = [index(rng, v).values.astype("int64") for v in (begin, end, steps)]
    inputs = [x, *(index(rng, v) for v in lists)]
    same = inputs[1].dtype
    inputs[2:] = [type(t)(same, t.values.astype(same.container)) for t in inputs[2:]]
    if name == "Slice":
        return {}, [*inputs, index(rng, chosen)], [1, 2, 3, 4]
    masks = {
        f"{what}_mask": text([int(rng.random() < chance) for _ in chosen])
        for what, chance in (
            ("begin", 0.3), ("end", 0.3), ("new_axis", 0.1), ("shrink_axis", 0.1), ("ellipsis", 0),
        )
    }  # fmt: skip
    return masks, inputs, [1, 2, 3]


@makes("DepthToSpace SpaceToDepth ShuffleChannels")
def channels(rng: Rng, name: str, version: str) -> Drawing:
    block, spatial = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    sizes = [int(v) for v in rng.integers(1, 4, spatial)]
    mode = pick(rng, ("blocks_first", "depth_first"))
    texts = {"block_size": block, "mode": mode, "axis": 1, "group": block}
    if name == "SpaceToDepth":
        size = (2, 3, *(block * d for d in sizes))
    elif name == "DepthToSpace":
        size = (2, 2 * block**spatial, *sizes)
    else:
        size = (2, 2 * block, 3, 2)
    return texts, [numbers(rng, anything(rng), size)]


@makes("SpaceToBatch BatchToSpace")
def blocks(rng: Rng, name: str, version: str) -> Drawing:
    steps = [1, int(rng.integers(1, 3)), int(rng.integers(1, 4))]
    begin, end = [0, int(rng.integers(0, 2)), 0], [0, 0, int(rng.integers(0, 2))]
    sizes = [int(rng.integers(2, 4)) * s for s in steps[1:]]
    if name == "SpaceToBatch":
        size = (2, *(d - b - e for d, b, e in zip(sizes, begin[1:], end[1:], strict=True)))
    else:
        size = (2 * math.prod(steps), *sizes)
    lists = [index(rng, v) for v in (steps, begin, end)]
    kept = lists[0].dtype
    lists = [type(t)(kept, t.values.astype(kept.container)) for t in lists]
    return {}, [numbers(rng, anything(rng), size), *lists], [1, 2, 3]


@makes("Roll")
def roll(rng: Rng, name: str, version: str) -> Drawing:
    size = shape(rng, 1, 4)
    chosen = axes(rng, len(size), 1)
    shifts = [int(v) for v in rng.integers(-5, 6, len(chosen))]
    return {}, [numbers(rng, anything(rng), size), index(rng, shifts), index(rng, chosen)], [1, 2]


@makes("ReverseSequence")
def reverse_sequence(rng: Rng, name: str, version: str) -> Drawing:
    size = [int(v) for v in rng.integers(1, 5, 3)]
    batch, along = (int(a) for a in rng.permutation(3)[:2])
    lengths = [int(v) for v in rng.integers(1, size[along] + 1, size[batch])]
    texts = {"batch_axis": batch, "seq_axis": along}
    return texts, [numbers(rng, anything(rng), size), index(rng, lengths)], [1]


@makes("ShapeOf")
def shape_of(rng: Rng, name: str, version: str) -> Drawing:
    return {"output_type": pick(rng, ("i64", "i32"))}, [numbers(rng, anything(rng), shape(rng))]


# Operations that read or write at computed places: gather, scatter, sort, count.

NUMBERS = ("f32", "f32", "f16", "i32", "i64", "u8", "i8")


def _below(rng: Rng, sizes: Any, of: tuple[int, ...], *, negative: bool = True) -> Any:
    """Indices in range, some counted from the end."""
    values = rng.integers(0, np.maximum(sizes, 1), of)
    return np.where(rng.random(of) < 0.25 * negative, values - sizes, values)


def _not_empty(rng: Rng, low: int, high: int) -> tuple[int, ...]:
    return tuple(max(d, 1) for d in shape(rng, low, high))


@makes("Gather")
def gather(rng: Rng, name: str, version: str) -> Drawing:
    size, number = _not_empty(rng, 1, 4), int(version[5:])
    at, batch = axis(rng, len(size)), 0
    if number >= 7 and rng.random() < 0.3:
        batch = int(rng.integers(0, at % len(size) + 1))
    of = (*size[:batch], *shape(rng, 0, 2, 3))
    places = _below(rng, size[at], of, negative=number >= 8)
    inputs = [numbers(rng, anything(rng), size), index(rng, places), index(rng, at)]
    return {"batch_dims": batch}, inputs, [2]


@makes("GatherElements")
def gather_elements(rng: Rng, name: str, version: str) -> Drawing:
    size = _not_empty(rng, 1, 4)
    at = axis(rng, len(size))
    of = list(size)
    of[at] = int(rng.integers(1, 5))
    inputs = [numbers(rng, anything(rng), size), index(rng, _below(rng, size[at], tuple(of)))]
    return {"axis": at}, inputs


@makes("GatherND")
def gather_nd(rng: Rng, name: str, version: str) -> Drawing:
    size = _not_empty(rng, 1, 4)
    batch = int(rng.integers(0, len(size)))
    depth = int(rng.integers(1, len(size) - batch + 1))
    of = (*size[:batch], *shape(rng, 0, 2, 3), depth)
    places = _below(rng, np.array(size[batch : batch + depth]), of)
    return {"batch_dims": batch}, [numbers(rng, anything(rng), size), index(rng, places)]


@makes("ScatterUpdate")
def scatter(rng: Rng, name: str, version: str) -> Drawing:
    """ScatterUpdate: distinct places on an axis."""
    size, dtype = _not_empty(rng, 1, 4), anything(rng)
    at = axis(rng, len(size)) % len(size)
    places = rng.permutation(size[at])[: int(rng.integers(1, size[at] + 1))]
    updates = numbers(rng, dtype, (*size[:at], len(places), *size[at + 1 :]))
    return {}, [numbers(rng, dtype, size), index(rng, places), updates, index(rng, at)], [3]


@makes("ScatterElementsUpdate")
def scatter_elements(rng: Rng, name: str, version: str) -> Drawing:
    size, dtype = _not_empty(rng, 1, 3), kind(rng, *NUMBERS)
    at = axis(rng, len(size))
    how = pick(rng, ("none", "sum", "prod", "min", "max", "mean"))
    of = list(size)
    if int(version[5:]) < 12 or how == "none":  # the last of equal places is anybody's
        of[at] = 1
    places = _below(rng, size[at], tuple(of))
    updates = numbers(rng, dtype, of, 3)
    inputs = [numbers(rng, dtype, size, 3), index(rng, places), updates, index(rng, at)]
    return {"reduction": how, "use_init_val": flag(rng)}, inputs, [3]


@makes("ScatterNDUpdate")
def scatter_nd(rng: Rng, name: str, version: str) -> Drawing:
    size, dtype = _not_empty(rng, 1, 3), kind(rng, *NUMBERS)
    depth = int(rng.integers(1, len(size) + 1))
    whole = math.prod(size[:depth])
    flat = rng.permutation(whole)[: int(rng.integers(1, min(whole, 4) + 1))]
    places = np.stack(np.unravel_index(flat, size[:depth]), -1)
    updates = numbers(rng, dtype, (len(flat), *size[depth:]), 3)
    texts = choices(rng, "reduction=none|sum|sub|prod|min|max")
    return texts, [numbers(rng, dtype, size, 3), index(rng, places), updates]


@makes("OneHot")
def one_hot(rng: Rng, name: str, version: str) -> Drawing:
    size, depth = shape(rng, 0, 3), int(rng.integers(1, 5))
    dtype = kind(rng, "f32", "i32", "i64", "f16", "u8", "boolean")
    places = index(rng, rng.integers(-1, depth + 1, size))
    on, off = (Tensor(dtype, np.array(v).astype(dtype.container)) for v in (1, 0))
    texts = {"axis": axis(rng, len(size) + 1), "negative_indices_mode": "ignore_negative"}
    return texts, [places, index(rng, depth), on, off], [1, 2, 3]


@makes("TopK")
def top_k(rng: Rng, name: str, version: str) -> Drawing:
    """Distinct values, so that the order is defined."""
    size, dtype = _not_empty(rng, 1, 3), kind(rng, "f32", "f32", "f16", "i32", "f64")
    at = axis(rng, len(size))
    values = rng.permutation(math.prod(size)).reshape(size).astype(dtype.container)
    texts = {
        "axis": at,
        "mode": pick(rng, ("max", "min")),
        "sort": pick(rng, ("value", "index")),
        "index_element_type": pick(rng, ("i32", "i64")) if int(version[5:]) > 1 else None,
        "stable": flag(rng) if rng.random() < 0.3 else "false",
    }
    if texts["stable"] == "true":
        texts["sort"] = "value"
    k = index(rng, int(rng.integers(1, size[at] + 1)))
    return texts, [Tensor(dtype, values), k], [1], 2


@makes("NonZero")
def non_zero(rng: Rng, name: str, version: str) -> Drawing:
    texts = choices(rng, "output_type=i64|i32")
    return texts, [numbers(rng, anything(rng), shape(rng, 1, 4), 1)]


@makes("Unique")
def unique(rng: Rng, name: str, version: str) -> Drawing:
    size, dtype = _not_empty(rng, 1, 3), kind(rng, "f32", "i32", "i64", "u8", "f16")
    texts = choices(rng, "sorted=true|false index_element_type=i64|i32 count_element_type=i64|i32")
    inputs = [numbers(rng, dtype, size, 2)]
    if rng.random() < 0.5:
        inputs.append(index(rng, axis(rng, len(size))))
    return texts, inputs, [1], 4


@makes("Range")
def ranges(rng: Rng, name: str, version: str) -> Drawing:
    dtype = kind(rng, "i64", "i32", "f32")
    start, step = int(rng.integers(-5, 6)), int(pick(rng, (1, 2, 3, -1, -2)))
    stop = start + step * int(rng.integers(0, 6)) + int(rng.integers(0, 2))
    kept = [Tensor(dtype, np.array(v).astype(dtype.container)) for v in (start, stop, step)]
    return {"output_type": dtype}, kept, [0, 1, 2] if rng.random() < 0.5 else [2]


@makes("Eye")
def eye(rng: Rng, name: str, version: str) -> Drawing:
    rows, columns, at = (int(v) for v in rng.integers((1, 1, -3), (5, 5, 4)))
    inputs = [index(rng, v) for v in (rows, columns, at)]
    if rng.random() < 0.4:
        inputs.append(index(rng, shape(rng, 1, 2)))
    return {"output_type": pick(rng, ("f32", "i32", "i64", "u8", "f16"))}, inputs, [0, 1, 2, 3]


@makes("Bucketize")
def bucketize(rng: Rng, name: str, version: str) -> Drawing:
    dtype = kind(rng, "f32", "i32", "i64")
    edges = np.sort(rng.permutation(9)[: int(rng.integers(1, 6))]).astype(dtype.container)
    texts = {"output_type": pick(rng, ("i64", "i32")), "with_right_bound": flag(rng)}
    return texts, [numbers(rng, dtype, shape(rng)), Tensor(dtype, edges)]


@makes("SearchSorted")
def search_sorted(rng: Rng, name: str, version: str) -> Drawing:
    dtype, size = kind(rng, "f32", "i32", "i64"), list(_not_empty(rng, 1, 3))
    edges = np.sort(numbers(rng, dtype, size).values, -1)
    size[-1] = int(rng.integers(1, 5))
    texts = {"right_mode": flag(rng), "output_type": pick(rng, ("i64", "i32"))}
    return texts, [Tensor(dtype, edges), numbers(rng, dtype, size)]


@makes("EmbeddingBagOffsets EmbeddingBagOffsetsSum EmbeddingBagPacked EmbeddingBagPackedSum")
def bags(rng: Rng, name: str, version: str) -> Drawing:
    """EmbeddingBag*, of offsets or packed."""
    dtype = kind(rng, "f32", "f16")
    rows = int(rng.integers(2, 6))
    table = numbers(rng, dtype, (rows, *shape(rng, 1, 2, 3)))
    texts = {"reduction": pick(rng, ("sum", "mean"))}
    if "Packed" in name:
        size = tuple(int(v) for v in rng.integers(1, 4, 2))
        inputs = [table, index(rng, rng.integers(0, rows, size))]
        weights = numbers(rng, dtype, size)
    else:
        count = int(rng.integers(2, 6))
        offsets = np.sort(rng.integers(0, count, int(rng.integers(1, 4))))
        offsets[0] = 0
        places = index(rng, rng.integers(0, rows, count))
        inputs = [table, places, Tensor(places.dtype, offsets.astype(places.dtype.container))]
        inputs.append(Tensor(places.dtype, np.array(0).astype(places.dtype.container)))
        weights = numbers(rng, dtype, (count,))
    if texts["reduction"] == "sum" and rng.random() < 0.5:
        inputs.append(weights)
    lists = range(1, len(inputs)) if rng.random() < 0.5 else [3]
    return texts, inputs, list(lists)


@makes("BitwiseLeftShift BitwiseRightShift")
def shifts(rng: Rng, name: str, version: str) -> Drawing:
    dtype, size = kind(rng, "i32", "u8", "i64", "u32"), shape(rng)
    a = numbers(rng, dtype, size)
    by = rng.integers(0, 4, size).astype(dtype.container)
    return {}, [a, Tensor(dtype, by)]
