"""The meaning of each operation of the language.

Interpolate by whole factors: which axes it enlarges, and which element each output takes.

What each operation of the language computes, with OpenVINO's rules.

Operands that do not fit are mostly refused by NumPy itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple as axes_of

from irdeconv.proof.model import ALL, FLOATS, Array, Call, Run, TypedArray, Unproved, op

MOST_RESIZED = 1 << 19  # elements of an axis; OpenVINO computes places in f32


def enlarged(c: Call, rank: int, given: Sequence[TypedArray]) -> tuple[bool, list[tuple[int, Any]]]:
    """Return whether the axes are given scales, and the axes with their scales or sizes."""
    old, ported = c.opset < 4, 4 <= c.opset < 11
    odd = (old and c.word("align_corners")) or any(c.ints("pads_begin") + c.ints("pads_end"))
    c.need(c.word("mode", "nearest") and not odd, "pads or aligned corners")
    scales = not old and c.word("shape_calculation_mode", "sizes", "scales") == "scales"
    target, rest = given[1 if ported and scales else 0], given[2 if ported else 1 :]
    chosen = sorted(c.ints("axes")) if old else c.vector(rest[0]) if rest else range(rank)
    values = target.array.tolist() if scales else c.vector(target)
    fits = (target.type == "f32") == scales and min(chosen) >= 0 and len(rest) <= (not old)
    c.need(fits, "its inputs")
    return scales, list(zip(axes_of(tuple(chosen), rank), values, strict=True))


def ahead(c: Call, f: int) -> int:
    """Return h: output o takes element floor((2*o + h) / (2*f)), or the nearest that exists."""
    if c.opset < 4:
        return 0
    where = dict.fromkeys(("half_pixel", "pytorch_half_pixel"), 1 - f)
    where |= {"asymmetric": 0, "tf_half_pixel_for_nn": 1}
    up = {"floor": 0, "simple": 0, "ceil": 2 * f - 1, "round_prefer_ceil": f}
    up["round_prefer_floor"] = f - 1
    return up[c.word("nearest_mode", *up)] + where[c.word("coordinate_transformation_mode", *where)]


@op("Pad-1 x,v,v,s? pad_mode=constant")
def _pad(c: Call, x: Array, begin: Any, end: Any, value: Any = None) -> Array:
    zero = value is None or (value.array.shape == () and value.array == 0)
    c.need(c.word("pad_mode", "constant") and zero, "it pads with something else than a zero")
    rows = list(zip(x.shape, c.vector(begin), c.vector(end), strict=True))
    # At run time OpenVINO reads foreign memory where an axis is cropped by more than its size.
    c.need(all(min(b, e) >= -n for n, b, e in rows), "it crops zeros that it inserts itself")
    c.room(n + b + e for n, b, e in rows)
    for axis, (n, b, e) in enumerate(rows):
        x = c.pick(x, axis, np.arange(-b, n + e))
    return x


@op("ZeroInsertion-0 x strides trailing=false")
def _zero_insertion(c: Call, x: Array) -> Array:
    for axis, (n, s) in enumerate(zip(x.shape[2:], c.ints("strides"), strict=True), 2):
        c.need(s >= 1, f"a stride is {s}")
        o = np.arange(*c.room([s * n if c.word("trailing") or not n else s * (n - 1) + 1]))
        x = c.pick(x, axis, np.where(o % s, -1, o // s))
    return x


@op("Slice-8 x,v,v,v,v?")
def _slice(c: Call, x: Array, start: Any, stop: Any, step: Any, axes: Any = None) -> Array:
    ends = [c.vector(v, far=True) for v in (start, stop)]
    rows = list(zip(*ends, c.vector(step), strict=True))
    chosen = tuple(range(len(rows))) if axes is None else c.vector(axes)
    parts = [slice(None)] * x.ndim
    for a, (b, e, s) in zip(axes_of(chosen, x.ndim), rows, strict=True):
        # Unlike in Python a start before an axis that runs back is its first element.
        parts[a] = slice(b if s > 0 else max(b, -x.shape[a]), e, s)
    return x[tuple(parts)]


@op("StridedSlice-1 x,v,v,v? begin_mask= end_mask= new_axis_mask= shrink_axis_mask= ellipsis_mask=")
def _strided_slice(c: Call, x: Array, begin: Any, end: Any, step: Any = None) -> Array:
    names = ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    masks, first = [c.ints(f"{n}_mask") for n in names], c.vector(begin, None, 1, far=True)
    alike = len(masks[0]) == len(masks[1]) and {*map(len, masks)} <= {0, len(masks[0])}
    alike = alike and {*sum(masks, ())} <= {0, 1} and len(masks[0]) <= len(first)
    c.need(alike, f"masks {masks} of {len(first)} bounds")
    parts: list[Any] = []
    steps = [1] * len(first) if step is None else c.vector(step)
    for i, (b, e, s) in enumerate(zip(first, c.vector(end, far=True), steps, strict=True)):
        open_0, open_1, new, shrink, rest = (i < len(m) and m[i] for m in masks)
        one = not shrink or (s == 1 and not open_0)
        c.need(one and new + shrink + rest <= 1, "two masks meet, or one element with a step")
        c.need(s > 0 or (s and x.size and (open_0 or b >= -1)), f"a step {s} from {b}")
        span = slice(None if open_0 else b, None if open_1 else e, s)
        parts.append(... if rest else None if new else b if shrink else span)
    return np.asarray(x[tuple(parts)], x.dtype)


@op("Gather-1 x,a,e | Gather-7 x,a,e batch_dims=0")
def _gather(c: Call, x: Array, indices: TypedArray, axis: TypedArray) -> Array:
    (a,) = axes_of(c.vector(axis, 1), x.ndim)
    none = ((0,), (-indices.array.ndim,))  # negative numbers count from the rank of the indices
    c.need(c.opset < 7 or c.ints("batch_dims") in none, "batch_dims are not followed")
    c.room((*x.shape[:a], *indices.array.shape, *x.shape[a + 1 :]))
    return np.asarray(x.take(c.inside(indices, x.shape[a], c.opset >= 8), a), x.dtype)


@op("ScatterNDUpdate-4 x,a,x | ScatterNDUpdate-15 x,a,x reduction=none")
def _scatter(c: Call, x: Array, indices: TypedArray, updates: Array) -> Array:
    sizes = x.shape[: indices.array.shape[-1]]
    at = tuple(np.moveaxis(c.inside(indices, np.array(sizes), True), -1, 0))
    places = np.ravel_multi_index(at, sizes)
    once = np.unique(places).size == places.size and c.said.get("reduction", "none") == "none"
    c.need(once, "it writes to a place twice")
    c.need(updates.shape == (*places.shape, *x.shape[len(at) :]), f"updates {updates.shape}")
    out = x.astype(np.promote_types(x.dtype, updates.dtype))
    out[at] = updates
    return out


@op("Concat-1 x* axis")
def _concat(c: Call, *x: Array) -> Array:
    (a,) = axes_of(c.ints("axis"), x[0].ndim)
    c.room([sum(p.size for p in x)])
    return np.concatenate(x, a)


@op("Split-1 x,s num_splits | VariadicSplit-1 x,e,v")
def _split(c: Call, x: Array, axis: TypedArray, *lengths: TypedArray) -> list[Array]:
    (a,) = axes_of(c.vector(axis, 1), x.ndim)
    if not lengths:
        (count,) = c.ints("num_splits")
        return list(np.split(x, count, a))
    (parts,) = map(c.vector, lengths)
    parts = tuple(x.shape[a] - sum(parts) - 1 if p == -1 else p for p in parts)
    c.need(min(parts) >= 0 and sum(parts) == x.shape[a], f"parts of {parts} of {x.shape[a]}")
    return list(np.split(x, np.cumsum(parts)[:-1], a))


@op("Transpose-1 x,v")
def _transpose(c: Call, x: Array, order: TypedArray) -> Array:
    c.need(sorted(c.vector(order)) in ([], [*range(x.ndim)]), f"an order {c.vector(order)}")
    return x.transpose(c.vector(order) or None)


@op("Reshape-1 x,v special_zero=false")
def _reshape(c: Call, x: Array, pattern: TypedArray) -> Array:
    out, kept = list(c.vector(pattern)), list[int]()
    if c.word("special_zero"):
        kept = [i for i, v in enumerate(out) if v == 0]
        out = [x.shape[i] if i in kept else v for i, v in enumerate(out)]
    if -1 in out:  # kept dimensions cancel, even those of 0
        size = math.prod(d for i, d in enumerate(x.shape) if i not in kept)
        rest = -math.prod(d for i, d in enumerate(out) if i not in kept)
        c.need(rest and size % rest == 0, f"-1 in {c.vector(pattern)} stands for nothing")
        out[out.index(-1)] = size // rest
    return x.reshape(c.room(out))


@op("Squeeze-1 x,e? | Squeeze-15 x,e? allow_axis_skip=false")
def _squeeze(c: Call, x: Array, axes: Any = None) -> Array:
    ones = [a for a, d in enumerate(x.shape) if d == 1]
    given = () if axes is None else axes_of(c.vector(axes), x.ndim)
    skips = not given or (c.opset >= 15 and c.word("allow_axis_skip"))
    return x.squeeze(tuple(a for a in given or ones if a in ones or not skips))


@op("Broadcast-1 x,v,v? mode=numpy")
def _broadcast(c: Call, x: Array, target: TypedArray, *mapping: TypedArray) -> Array:
    mode = c.word("mode", "numpy", "explicit", *["bidirectional"] * (c.opset >= 3))
    c.need(len(mapping) == (mode == "explicit"), f"{len(mapping)} mappings in the mode {mode}")
    shape = c.room(c.vector(target, least=1))
    c.need(x.size and (mode != "bidirectional" or 0 not in shape), "of empty data")
    for axes in mapping:
        to = c.vector(axes, x.ndim)
        c.need([*to] == sorted({*to} & {*range(len(shape))}), f"axes_mapping is {to}")
        x = x.reshape([x.shape[to.index(a)] if a in to else 1 for a in range(len(shape))])
    shape = np.broadcast_shapes(x.shape, shape) if mode == "bidirectional" else shape
    return np.broadcast_to(x, c.room(shape))


@op("Tile-1 x,v")
def _tile(c: Call, x: Array, repeats: TypedArray) -> Array:
    times = c.room(c.vector(repeats, least=1))
    c.need(x.size, "of empty data")
    c.room((*times, *x.shape))
    return np.tile(x, times)


def _regroup(x: Array, apart: Iterable[int], order: Any, shape: Iterable[int]) -> Array:
    return x.reshape(tuple(apart)).transpose(tuple(order)).reshape(tuple(shape))


def depth_to_space(c: Call, shape: Sequence[Any]) -> tuple[list[Any], list[int], list[Any]]:
    """Return how DepthToSpace splits a shape, transposes the parts, and merges them."""
    (n, depth, *space), (b,), k = shape, c.ints("block_size"), len(shape) - 2
    c.need(k and b >= 1 and depth % b**k == 0, f"{shape} in blocks of {b}")
    inner, first = depth // b**k, c.word("mode", "blocks_first", "depth_first") == "blocks_first"
    blocks = [*[b] * k, inner] if first else [inner, *[b] * k]
    order = [0, k + 1 if first else 1, *(v for a in range(k) for v in (k + 2 + a, a + 2 - first))]
    return [n, *blocks, *space], order, [n, inner, *(d * b for d in space)]


@op("DepthToSpace-1 x mode block_size | SpaceToDepth-1 x mode block_size")
def _blocks(c: Call, x: Array) -> Array:
    if c.layer.type == "DepthToSpace":
        return _regroup(x, *depth_to_space(c, x.shape))
    (n, depth, *space), (b,) = x.shape, c.ints("block_size")
    c.need(b >= 1 and not any(d % b for d in space), f"{x.shape} in blocks of {b}")
    shape = (n, depth * b ** len(space), *(d // b for d in space))
    apart, order, _ = depth_to_space(c, shape)
    return _regroup(x, [apart[i] for i in order], np.argsort(order), shape)


@op("BatchToSpace-2 x,v,v,v")
def _batches(c: Call, x: Array, block: Any, begin: Any, end: Any) -> Array:
    k, (one, *blocks), times = x.ndim - 1, c.vector(block), math.prod(c.vector(block))
    cuts = list(zip(c.vector(begin), c.vector(end), strict=True))
    legal = x.size and x.ndim > 1 and one == 1 and min(blocks) >= 1 and cuts[0] == (0, 0)
    c.need(legal and len(x) % times == 0, f"{x.shape} in blocks {blocks}, cut by {cuts}")
    shape = [len(x) // times, *(d * b for d, b in zip(x.shape[1:], blocks, strict=True))]
    fits = all(min(b, e) >= 0 and b + e <= d for d, (b, e) in zip(shape, cuts, strict=True))
    c.need(fits, f"{shape} cut by {cuts}")
    order = (k, *(v for a in range(k) for v in (k + 1 + a, a)))
    x = _regroup(x, (*blocks, shape[0], *x.shape[1:]), order, shape)
    return x[tuple(slice(b, d - e) for d, (b, e) in zip(shape, cuts, strict=True))]


@op(
    "ShuffleChannels-1 x axis=1 group=1 | ShuffleChannels-2 x gone |"
    "ShuffleChannels-3 x axis=1 group=1"
)
def _shuffle(c: Call, x: Array) -> Array:
    (a,), (g,) = axes_of(c.ints("axis"), x.ndim), c.ints("group")
    c.need(g >= 1 and x.shape[a] % g == 0, f"{x.shape[a]} channels in {g} groups")
    lead, tail = math.prod(x.shape[:a]), math.prod(x.shape[a + 1 :])
    return _regroup(x, (lead, g, x.shape[a] // g, tail), (0, 2, 1, 3), x.shape)


RESIZES = (
    "mode shape_calculation_mode coordinate_transformation_mode=half_pixel "
    "nearest_mode=round_prefer_floor antialias=false pads_begin= pads_end= cube_coeff=-0.75"
)


@op(
    "Interpolate-1 x,v axes mode align_corners=true antialias=false pads_begin= pads_end= |"
    f"Interpolate-4 x,v,v,v? {RESIZES} | Interpolate-11 x,v,v? {RESIZES}"
)
def _interpolate(c: Call, x: Array, *given: TypedArray) -> Array:
    """Enlarge by whole factors f."""
    scales, targets = enlarged(c, x.ndim, given)
    for a, v in targets:
        f, n = int(v) if scales else v // x.shape[a], x.shape[a]
        fits = f >= 1 and f * (1 if scales else n) == v and f * n < MOST_RESIZED
        c.need(fits, f"{n} to {v}")
        at = (2 * np.arange(f * n) + ahead(c, f)) // (2 * f)
        x = c.pick(x, a, np.clip(at, 0, n - 1)) if f > 1 else x
    return x


@op("Select-1 a,x,x auto_broadcast=numpy")
def _select(c: Call, mask: TypedArray, a: Array, b: Array) -> Array:
    c.together(mask.array, a, b)
    fits = mask.type == "boolean" and mask.array.ndim <= max(a.ndim, b.ndim)
    c.need(fits, f"a mask of {mask.type} {mask.array.shape}")
    return np.where(mask.array, a, b)


op("Identity-16 x")(lambda c, x: x)


@op("Roll-7 x,e,e")
def _roll(c: Call, x: Array, shift: TypedArray, axes: TypedArray) -> Array:
    to = axes_of(c.vector(axes), x.ndim)
    c.need(shift.array.ndim <= axes.array.ndim, "one axis for a vector of shifts")
    return np.roll(x, c.vector(shift, len(to), 1), to)


op("Unsqueeze-1 x,e")(lambda c, x, axes: np.expand_dims(x, c.vector(axes, least=1)))
op("Reverse-1 x,v mode | Reverse-2 x,v gone")(
    lambda c, x, axes: c.word("mode", "index") and np.flip(x, c.vector(axes))
)


@op("Convert-1 x destination_type | ConvertLike-1 x,a", moves=False)
def _convert(c: Call, x: Array, *like: Any) -> Array:
    source, target = c.types[0], c.type
    if source == target or (source in FLOATS and target in FLOATS):
        return x if source == target else c.exact(x, target)
    if source in FLOATS:
        usual = (x == 0) | (abs(c.real(x, source)) >= 2.0**-126)
        c.need(x.dtype == FLOATS[source] != np.float64 and usual.all(), "a rounded or tiny input")
    else:
        x = c.whole(x, source)
    if target in FLOATS:
        out = np.asarray(x, np.float16 if target == "f16" else np.float32)  # f64 becomes f32
        c.need((out == x).all() and target != "bf16", f"{target} rounds its input")
        return out.astype(FLOATS[target])
    x = np.trunc(x) if source in FLOATS and target != "boolean" else x
    return np.asarray(x != 0, bool) if target == "boolean" else c.whole(x, target)


_SAME = "Add Subtract Multiply Maximum Minimum"  # as NumPy's, which are spelled a_b
_KEEP = (*_SAME.split(), "Negative", "Abs")
COMPARE = "Equal NotEqual Less LessEqual Greater GreaterEqual"
_PAIRS = f"{_SAME} {COMPARE}".split()
_FUNCTIONS: dict[str, Run] = {
    **{t: getattr(np, re.sub("(?<=[a-z])(?=[A-Z])", "_", t).lower()) for t in _PAIRS},
    "Negative": np.negative,
    "Divide": lambda a, b: a / b if a.dtype == np.float64 else a // b,
    "FloorMod": np.remainder,
    "Abs": lambda a: np.maximum(a, -a),
    "ReLU": lambda a: np.maximum(a, 0),
}


@op("Abs-1 x | Negative-1 x | ReLU-1 x", False)
@op("Divide-1 x,x auto_broadcast=numpy m_pythondiv=true", False)
@op(" | ".join(f"{t}-1 x,x auto_broadcast=numpy" for t in [*_PAIRS, "FloorMod"]), False)
def _compute(c: Call, *x: Array) -> Array:
    kind, source = c.layer.type, c.types[0]
    c.together(*x)
    c.need(source in ("i32", "i64") or (source in FLOATS and c.type == source), f"of {source}")
    check = c.real if source in FLOATS else c.whole
    summed = kind in ("Add", "Subtract") and source in FLOATS
    y = [(c.exact if summed else check)(a, source) for a in x]
    if source not in FLOATS and kind not in _KEEP:  # OpenVINO computes them in f32
        known = [int(v) for a in y for v in a.flat if isinstance(v, int | np.integer)]
        c.need(max(map(abs, known), default=0) < 1 << 23, "integers beyond 24 bits")
    if kind in ("Divide", "FloorMod"):
        c.need((y[1] != 0).all(), "it divides by zero")
        c.need(kind == "Divide" or (source not in FLOATS and (y[1] > 0).all()), "odd divisors")
    if kind == "Divide" and source not in FLOATS and not ((y[0] >= 0) & (y[1] > 0)).all():
        c.need((y[0] % y[1] == 0).all(), "a negative quotient, which is rounded in two ways")
    out = np.asarray(_FUNCTIONS[kind](*y))
    return out.astype(bool) if c.type == "boolean" else check(out, source)


@op("Clamp-1 x min max", moves=False)
def _clamp(c: Call, x: Array) -> Array:
    (low,), (high,) = c.ints("min"), c.ints("max")
    c.need(c.type in ("i32", "i64") and low <= high, f"{low} .. {high} of {c.type}")
    return np.asarray(np.minimum(np.maximum(c.whole(x, c.type), low), high), x.dtype)


@op("ReduceSum-1 x,e keep_dims=false | ReduceProd-1 x,e keep_dims=false", moves=False)
def _reduce(c: Call, x: Array, axes: TypedArray) -> Array:
    c.need(c.type in ("i32", "i64") and x.size in ALL, "only vectors are reduced")
    run: Any = np.add if c.layer.type == "ReduceSum" else np.multiply
    terms = c.whole(x, c.type).astype(object)
    return c.whole(
        run.reduce(terms, c.vector(axes, least=1), keepdims=bool(c.word("keep_dims"))), c.type
    )


@op("Range-4 s,s,s output_type", moves=False)
def _range(c: Call, *ends: TypedArray) -> Array:
    first, stop, step = (c.vector(e, 1)[0] for e in ends)
    c.need(max(map(abs, (first, stop, step))) < 1 << 23, "integers beyond 24 bits")
    # At run time OpenVINO does not look at the sign of the step to find that there are none.
    c.need(first == stop or (first < stop) == (step > 0), "it runs away from its end")
    values = range(first, stop, step)
    c.room([len(values)])
    return c.whole(np.array(values, np.int64), c.type)


op("ShapeOf-1 x | ShapeOf-3 x output_type", moves=False)(lambda c, x: np.array(x.shape, np.int64))


@op("MatMul-1 x,x transpose_a=false transpose_b=false | Einsum-7 x,x equation", False)
@op("Sigmoid-1 x | Tanh-1 x | PReLU-1 x,a | HardSigmoid-1 x,s,s", False)
def _of_data(c: Call, *x: Array) -> Array:
    raise Unproved(f"{c.layer} is followed of data only")
