"""The closed list of operations of a rewritten region, as OpenVINO reads them.

`evaluate` computes concrete values, `move` sends element numbers the same way; a movement is
written once, for arrays and for views (`model.Call`). Any other operation is Unproved, also one
that OpenVINO computes in two ways or not at all. Real numbers are computed in float64, so they may
have been rounded, and never become integers again. Arrays of objects hold symbolic integers. NumPy
itself refuses most operands that do not fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple as axes_of

from irdeconv.proof.model import (
    ALL,
    BITS,
    FLOATS,
    MOVES,
    PACKED,
    RULES,
    Array,
    Call,
    Layer,
    Listed,
    Run,
    TypedArray,
    Unproved,
    computed,
    op,
    vector,
)
from irdeconv.proof.sizes import is_empty, is_int, positive, ratio
from irdeconv.proof.spelling import kind_of, spelled


def enlarged(c: Call, rank: int, given: Sequence[TypedArray]) -> tuple[bool, list[tuple[int, Any]]]:
    """Return whether the axes are given scales, and the axes with their scales or sizes."""
    old, ported = c.opset < 4, 4 <= c.opset < 11
    odd = (old and c.word("align_corners")) or any(c.ints("pads_begin") + c.ints("pads_end"))
    c.need(c.word("mode", "nearest") and not odd, "pads or aligned corners")
    scales = not old and c.word("shape_calculation_mode", "sizes", "scales") == "scales"
    target, rest = given[1 if ported and scales else 0], given[2 if ported else 1 :]
    chosen = sorted(c.ints("axes")) if old else c.vector(rest[0]) if rest else range(rank)
    values = target.array.tolist() if scales else vector(target)
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


@op("Pad-1 x,V,V,s? pad_mode=constant")
def _pad(c: Call, x: Any, begin: Any, end: Any, value: Any = None) -> Any:
    zero = value is None or (value.array.shape == () and value.array == 0)
    c.need(c.word("pad_mode", "constant") and zero, "it pads with something else than a zero")
    return c.pad(x, list(zip(vector(begin), vector(end), strict=True)))


@op("ZeroInsertion-0 x strides trailing=false")
def _zero_insertion(c: Call, x: Any) -> Any:
    for axis, s in zip(range(2, x.ndim), c.ints("strides"), strict=True):
        c.need(s >= 1, f"a stride is {s}")
        x = c.insert(x, axis, s, bool(c.word("trailing")))
    return x


@op("Slice-8 x,V,V,V,V?")
def _slice(c: Call, x: Any, start: Any, stop: Any, step: Any, axes: Any = None) -> Any:
    ends = [vector(v, far=True) for v in (start, stop)]
    rows = list(zip(*ends, c.vector(step), strict=True))
    chosen = tuple(range(len(rows))) if axes is None else c.vector(axes)
    parts = [slice(None)] * x.ndim
    for a, (b, e, s) in zip(axes_of(chosen, x.ndim), rows, strict=True):
        # Unlike in Python a start before an axis that runs back is its first element.
        parts[a] = slice(b if s > 0 else max(b, -x.shape[a]), e, s)
    return c.cut(x, parts)


@op("StridedSlice-1 x,V,V,V? begin_mask= end_mask= new_axis_mask= shrink_axis_mask= ellipsis_mask=")
def _strided_slice(c: Call, x: Any, begin: Any, end: Any, step: Any = None) -> Any:
    names = ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    masks, first = [c.ints(f"{n}_mask") for n in names], vector(begin, far=True)
    alike = len(masks[0]) == len(masks[1]) and {*map(len, masks)} <= {0, len(masks[0])}
    alike = alike and {*sum(masks, ())} <= {0, 1} and 1 <= len(first) >= len(masks[0])
    c.need(alike, f"masks {masks} of {len(first)} bounds")
    parts: list[Any] = []
    steps = [1] * len(first) if step is None else c.vector(step)
    for i, (b, e, s) in enumerate(zip(first, vector(end, far=True), steps, strict=True)):
        open_0, open_1, new, shrink, rest = (i < len(m) and m[i] for m in masks)
        one = not shrink or (s == 1 and not open_0)
        c.need(one and new + shrink + rest <= 1, "two masks meet, or one element with a step")
        c.need(s > 0 or (s and x.size and (open_0 or b >= -1)), f"a step {s} from {b}")
        span = slice(None if open_0 else b, None if open_1 else e, s)
        parts.append(... if rest else None if new else b if shrink else span)
    return c.cut(x, parts)


@op("Gather-1 x,A,E | Gather-7 x,A,E batch_dims=0")
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
def _concat(c: Call, *x: Any) -> Any:
    (a,) = axes_of(c.ints("axis"), len(x[0].shape))
    return c.join(x, a)


@op("Split-1 x,S num_splits | VariadicSplit-1 x,E,V")
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
def _transpose(c: Call, x: Any, order: TypedArray) -> Any:
    to = c.vector(order) or tuple(reversed(range(x.ndim)))
    c.need(sorted(to) == [*range(x.ndim)], f"an order {to}")
    return x.transpose(to)


@op("Reshape-1 x,V special_zero=false")
def _reshape(c: Call, x: Any, pattern: TypedArray) -> Any:
    out = vector(pattern)
    if not c.word("special_zero"):
        return c.reshape(x, out)
    kept = [i for i, v in enumerate(out) if is_int(v, 0)]
    return c.reshape(x, [x.shape[i] if i in kept else v for i, v in enumerate(out)], kept)


@op("Squeeze-1 x,E? | Squeeze-15 x,E? allow_axis_skip=false")
def _squeeze(c: Call, x: Any, axes: Any = None) -> Any:
    ones = [a for a, n in enumerate(x.shape) if is_int(n, 1)]
    given = () if axes is None else axes_of(c.vector(axes), x.ndim)
    skips = not given or (c.opset >= 15 and c.word("allow_axis_skip"))
    every = all(type(n) is int for n in x.shape) if skips else {*given} <= {*ones}
    c.need(every, "it removes an axis of another size than 1")
    gone = {*ones} & {*(given or ones)}
    return c.reshape(x, [n for a, n in enumerate(x.shape) if a not in gone])


@op("Unsqueeze-1 x,E")
def _unsqueeze(c: Call, x: Any, axes: TypedArray) -> Any:
    given = c.vector(axes, least=1)
    return c.expand(x, axes_of(given, x.ndim + len(given)))


@op("Broadcast-1 x,v,v? mode=numpy")
def _broadcast(c: Call, x: Any, target: TypedArray, *mapping: TypedArray) -> Any:
    mode = c.word("mode", "numpy", "explicit", *["bidirectional"] * (c.opset >= 3))
    c.need(len(mapping) == (mode == "explicit"), f"{len(mapping)} mappings in the mode {mode}")
    shape, both = vector(target), mode == "bidirectional"
    c.need(shape and not is_empty([*x.shape, *shape * both]), "of empty data")
    for axes in mapping:
        to = c.vector(axes, x.ndim)
        c.need([*to] == sorted({*to} & {*range(len(shape))}), f"axes_mapping is {to}")
        x = c.reshape(x, [x.shape[to.index(a)] if a in to else 1 for a in range(len(shape))])
    x = c.expand(x, range(len(shape) - x.ndim))
    if both:
        shape = [1] * (x.ndim - len(shape)) + shape
        shape = [m if is_int(n, 1) else n for m, n in zip(x.shape, shape, strict=True)]
    return c.broadcast(x, shape)


@op("Tile-1 x,V")
def _tile(c: Call, x: Any, repeats: TypedArray) -> Any:
    times = c.room(c.vector(repeats, least=1))
    c.need(not is_empty(x.shape), "of empty data")
    x = c.expand(x, range(len(times) - x.ndim))
    for a, n in enumerate(times, x.ndim - len(times)):
        if n != 1:
            c.need(type(x.shape[a]) is int, "an open axis is repeated")
            c.room([x.shape[a] * n])
            x = c.pick(x, a, np.tile(np.arange(x.shape[a]), n))
    return x


def _regroup(c: Call, x: Any, apart: Sequence[Any], order: Any, shape: Sequence[Any]) -> Any:
    return c.reshape(c.reshape(x, apart).transpose(tuple(order)), shape)


def _apart(c: Call, shape: Sequence[Any]) -> tuple[list[Any], list[int], list[Any]]:
    """Return how DepthToSpace splits a shape, transposes the parts, and merges them."""
    (n, depth, *space), (b,), k = shape, c.ints("block_size"), len(shape) - 2
    fits = k and b >= 1 and type(depth) is int and depth % b**k == 0
    c.need(fits, f"{shape} in blocks of {b}")
    inner, first = depth // b**k, c.word("mode", "blocks_first", "depth_first") == "blocks_first"
    blocks = [*[b] * k, inner] if first else [inner, *[b] * k]
    order = [0, k + 1 if first else 1, *(v for a in range(k) for v in (k + 2 + a, a + 2 - first))]
    return [n, *blocks, *space], order, [n, inner, *(d * b for d in space)]


@op("DepthToSpace-1 x mode block_size | SpaceToDepth-1 x mode block_size")
def _blocks(c: Call, x: Any) -> Any:
    if c.layer.type == "DepthToSpace":
        return _regroup(c, x, *_apart(c, x.shape))
    (n, depth, *space), (b,) = x.shape, c.ints("block_size")
    c.need(b >= 1 and not any(d % b for d in space), f"{x.shape} in blocks of {b}")
    shape = (n, depth * b ** len(space), *(d // b for d in space))
    apart, order, _ = _apart(c, shape)
    return _regroup(c, x, [apart[i] for i in order], np.argsort(order), shape)


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
    x = _regroup(c, x, (*blocks, shape[0], *x.shape[1:]), order, shape)
    return x[tuple(slice(b, d - e) for d, (b, e) in zip(shape, cuts, strict=True))]


@op(
    "ShuffleChannels-1 x axis=1 group=1 | ShuffleChannels-2 x gone |"
    "ShuffleChannels-3 x axis=1 group=1"
)
def _shuffle(c: Call, x: Any) -> Any:
    (a,), (g,) = axes_of(c.ints("axis"), x.ndim), c.ints("group")
    c.need(g >= 1 and x.shape[a] % g == 0, f"{x.shape[a]} channels in {g} groups")
    lead, tail = math.prod(x.shape[:a]), math.prod(x.shape[a + 1 :])
    return _regroup(c, x, (lead, g, x.shape[a] // g, tail), (0, 2, 1, 3), x.shape)


RESIZES = (
    "mode shape_calculation_mode coordinate_transformation_mode=half_pixel "
    "nearest_mode=round_prefer_floor antialias=false pads_begin= pads_end= cube_coeff=-0.75"
)


@op(
    "Interpolate-1 x,v axes mode align_corners=true antialias=false pads_begin= pads_end= |"
    f"Interpolate-4 x,v,v,v? {RESIZES} | Interpolate-11 x,v,v? {RESIZES}"
)
def _interpolate(c: Call, x: Any, *given: TypedArray) -> Any:
    """Enlarge by whole factors f."""
    scales, targets = enlarged(c, x.ndim, given)
    for a, v in targets:
        f = int(v) if scales else ratio(v, x.shape[a])
        c.need(f >= 1 and (f == v or not scales), f"{x.shape[a]} to {v} is no whole factor")
        x = c.resize(x, a, f, ahead(c, f))
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


_positive = np.frompyfunc(positive, 1, 1)


def _maximum(a: Array, b: Array) -> Array:
    is_open = object in (a.dtype, b.dtype)
    return np.asarray(a + _positive(b - a), object) if is_open else np.maximum(a, b)


_SAME = "Add Subtract Multiply Maximum Minimum"  # as NumPy's, which are spelled a_b
_KEEP = (*_SAME.split(), "Negative", "Abs")
COMPARE = "Equal NotEqual Less LessEqual Greater GreaterEqual"
_PAIRS = f"{_SAME} {COMPARE}".split()
_FUNCTIONS: dict[str, Run] = {
    **{t: getattr(np, re.sub("(?<=[a-z])(?=[A-Z])", "_", t).lower()) for t in _PAIRS},
    "Maximum": _maximum,
    "Negative": np.negative,
    "Divide": lambda a, b: a / b if a.dtype == np.float64 else a // b,
    "FloorMod": np.remainder,
    "Abs": lambda a: np.maximum(a, -a),
    "ReLU": lambda a: _maximum(np.zeros_like(a), a),
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


@op("ReduceSum-1 x,E keep_dims=false | ReduceProd-1 x,E keep_dims=false", moves=False)
def _reduce(c: Call, x: Array, axes: TypedArray) -> Array:
    c.need(c.type in ("i32", "i64") and x.size in ALL, "only vectors are reduced")
    run: Any = np.add if c.layer.type == "ReduceSum" else np.multiply
    terms = c.whole(x, c.type).astype(object)
    kept = bool(c.word("keep_dims"))
    return c.whole(run.reduce(terms, c.vector(axes, least=1), keepdims=kept), c.type)


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


# Attributes that OpenVINO reads, by the type of a layer; it does not look at others.
ATTRIBUTES = {
    name: {a.partition("=")[0] for row in rows.values() for a in row.attributes}
    for name, rows in RULES.items()
}
# Ports that take integers of any type. The order of a Transpose behind a convolution does not.
VECTORS = {
    name: {p for row in rows.values() for p, letter in enumerate(row.takes) if letter[0].isupper()}
    for name, rows in RULES.items()
}
# OpenVINO bounds these wrongly where sizes are open, and then leaves them out or folds them.
_MISJUDGED = ("Abs", "Clamp", "FloorMod", "Minimum")
_RANKS = {"v": (1,), "s": (0,), "e": (0, 1)}


def listed_call(layer: Layer, given: Sequence[Any] | None = None) -> tuple[Call, Listed]:
    """Return a layer with its attributes, and its rule; `given` are its inputs, if known."""
    number = re.fullmatch("opset([1-9]|1[0-6])|irdeconv_1", layer.version)
    opset = int(number[1] or 0) if number else -1
    row = max((v for v in RULES.get(layer.type, ()) if v <= opset), default=-1)
    if row < 0 or (row == 0) != (opset == 0):
        raise Unproved(f"{layer} of {layer.version} is no operation of a rewritten layer")
    rule = RULES[layer.type][row]
    parts = [a.partition("=") for a in rule.attributes]
    said = {**{name: text for name, sep, text in parts if sep}, **layer.attributes}
    odd = sorted(said.keys() ^ {name for name, _, _ in parts})
    c = Call(layer, said, opset)
    c.need(not odd and not layer.rest, f"missing or not followed: {', '.join(odd) or 'its body'}")
    for name, text in said.items():  # also what changes nothing has to be valid
        moved = name == "auto_broadcast" and text != "numpy"  # OpenVINO then refuses some
        legal = not moved and spelled(kind_of(layer.type, name), text) is not None
        c.need(legal, f'{name}="{text[:40]}" is not followed')
    if given is not None:
        _check_inputs(c, rule.takes, given)
    return c, rule


def check_open(layer: Layer, types: Sequence[str]) -> None:
    """Check that OpenVINO computes a layer of integers as it is, also those of open sizes."""
    to_boolean = layer.type == "Convert" and layer.attributes.get("destination_type") == "boolean"
    if (layer.type in _MISJUDGED or to_boolean) and any(t in BITS for t in types):
        fault = "the fault open-bounds of OpenVINO 2026.4.1"
        raise Unproved(f"{layer}, with open sizes, meets {fault}")


def _check_inputs(c: Call, takes: Sequence[str], given: Sequence[Any]) -> None:
    """Check how many inputs there are, and that vectors are of rank 1, scalars of rank 0."""
    least = sum(letter.isalpha() for letter in takes)
    fits = least <= len(given) and (len(given) <= len(takes) or "*" in takes[0])
    c.need(fits, f"{len(given)} inputs instead of {', '.join(takes).lower()}")
    for port, (letter, value) in enumerate(zip(takes, given, strict=False)):
        if isinstance(value, TypedArray) and letter[0].lower() in _RANKS:
            rank = value.array.ndim
            c.need(rank in _RANKS[letter[0].lower()], f"input {port} has rank {rank}")


def output_type(layer: Layer, types: Sequence[str]) -> str:
    """Return the element type of the outputs by those of the inputs; Unproved if they misfit."""
    (c, rule), kind, plain = listed_call(layer), layer.type, {*FLOATS, *BITS, "boolean"}
    shared = {t for p, t in enumerate(types) if p in rule.ports or (kind == "Pad" and p == 3)}
    known = {*plain, *PACKED} if kind == "Convert" else plain
    c.need({*types} <= known and len(shared) <= 1, f"inputs of the types {', '.join(types)}")
    if kind == "Convert":
        return c.word("destination_type", *plain)
    if kind in ("Range", "ShapeOf"):
        return c.word("output_type", "i32", "i64") if c.opset >= 3 else "i64"
    c.need(len(types) > (kind == "ConvertLike"), "inputs are missing")
    c.need(kind != "BatchToSpace" or len({*types[1:]}) == 1, f"vectors of the types {types[1:]}")
    c.need(kind != "Interpolate" or types[0] in (*FLOATS, "i64", "i32", "i8", "u8"), f"{types}")
    return types[1] if kind == "ConvertLike" else "boolean" if kind in COMPARE else shared.pop()


def evaluate(layer: Layer, inputs: Sequence[TypedArray]) -> list[TypedArray]:
    """Return the values of a layer's outputs; Unproved if they do not follow."""
    types, (c, rule) = [x.type for x in inputs], listed_call(layer, inputs)
    c = replace(c, types=types, type=output_type(layer, types))
    given = [x.array if p in rule.ports else x for p, x in enumerate(inputs)]
    return [TypedArray(x, c.type) for x in computed(c, rule.run, given)]


def move(layer: Layer, inputs: Sequence[Any]) -> list[Array]:
    """Return element numbers behind a movement, -1 for an inserted zero; else Unproved.

    The inputs at the ports in MOVES are arrays of numbers, the others known values.
    """
    ports, (c, rule) = MOVES.get(layer.type, ()), listed_call(layer, inputs)
    known = all(p in ports or isinstance(x, TypedArray) for p, x in enumerate(inputs))
    c.need(ports and known, "it does more than move elements, or its operands are not known")
    return computed(replace(c, nothing=-1), rule.run, inputs)
