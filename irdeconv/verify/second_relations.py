"""What every operation reads: relations between the elements of its output and of its inputs.

A size is an integer or an isl expression over open sizes. A position is one over the axes of the
output, `o0`, `o1`, ..., too, and over the taps of a convolution, `t0`, `t1`, ...: the input channel
and the place on every axis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import islpy as isl
import numpy as np

from irdeconv.verify.second_reading import Array, SecondLayer, SecondPort, Unfollowed

Size = Any  # int or isl.PwAff, which have the same operators, or a product without operators
FUNCTIONS = ("ReLU", "Sigmoid", "Tanh", "PReLU", "Clamp", "HardSigmoid")
MOST_GATHERED = 64  # elements of a Gather, each a relation of its own


@dataclass(frozen=True)
class Merged:
    """The size of an axis that was merged of open ones, or a position along it, by its parts."""

    parts: tuple[Size, ...]

    def __add__(self, *_: Any) -> Any:
        raise Unfollowed("a Reshape merges axes of open sizes")

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __floordiv__ = __mod__ = __add__


class SecondRead(NamedTuple):
    """An input, the relation from the output's elements (and taps) to its own, and a factor."""

    port: SecondPort
    relation: isl.Map
    weight: SecondRead | None = None
    taps: tuple[int, ...] = ()
    sign: int = 1


@dataclass
class SecondStep:
    """One operation: the output's sizes, and what an element is: a function of the sum of reads.

    Without `sums` at most one of the reads has an element: the operation moves elements, or zeros.
    """

    shape: list[Size]
    reads: list[SecondRead]
    sums: bool = False
    function: tuple[Any, ...] | None = None


def is_number(size: Size, number: int) -> bool:
    """Whether a size is this number, and not open."""
    return isinstance(size, int) and size == number


def shown(size: Size) -> str:
    """Return a size as a text."""
    return "*".join(re.sub(r"^.*?-> { \[\((.*)\)\] }$", r"\1", str(n)) for n in factors(size))


def larger(a: Size, b: Size) -> Size:
    """Return the larger of two sizes."""
    difference = a - b
    if isinstance(difference, int):
        return max(a, b)
    return difference.max(difference * 0) + b


def smaller(a: Size, b: Size) -> Size:
    """Return the smaller of two sizes."""
    return -larger(-a, -b)


def factors(size: Size) -> tuple[Size, ...]:
    """Return the parts of a merged axis, of another one its size."""
    return size.parts if isinstance(size, Merged) else (size,)


def product(sizes: Iterable[Size]) -> Size:
    """Return a product, with several open factors by them: isl multiplies by numbers only."""
    every = [n for size in sizes for n in factors(size)]
    number = math.prod(n for n in every if isinstance(n, int))
    first, *rest = [n for n in every if not isinstance(n, int)] or [1]
    return Merged((first * number, *rest)) if rest else first * number


def linear(position: Size, inner: tuple[Size, Size]) -> Size:
    """Return the position along an axis and one inside of it, by that one's size and position."""
    size, place = inner
    if isinstance(size, Merged) or not (is_number(position, 0) or isinstance(size, int)):
        raise Unfollowed("a Reshape merges axes of open sizes")
    return position * size + place


def divided(a: Size, by: Size) -> tuple[Size, Size]:
    """Return quotient and remainder."""
    if not isinstance(by, int) or by <= 0:
        raise Unfollowed("a division of sizes by an open or negative number")
    return a // by, a % by


Rule = Callable[[Any, SecondLayer, int], SecondStep]  # side, layer, output port


def _axis(y: SecondLayer, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Unfollowed(f"{y}: axis {axis} of rank {rank}")
    return axis % rank


def _moved(
    s: Any, y: SecondLayer, shape: list[Size], at: Sequence[Size], where: Iterable[isl.Set] = ()
) -> SecondStep:
    """Return a step that reads one input at a position."""
    return SecondStep(shape, [SecondRead(y.inputs[0], s.facts.relation(shape, at, where))])


def _changed(s: Any, y: SecondLayer, changes: Mapping[int, tuple[Size, Size]]) -> SecondStep:
    """Return a step that changes axes: to a size, reading at a position, zeros outside."""
    shape = s.shape(y.inputs[0])
    at, where = s.facts.axes(shape), []
    for axis, (size, position) in changes.items():
        where += s.facts.inside(position, shape[axis])
        shape[axis], at[axis] = size, position
    return _moved(s, y, shape, at, where)


def _same(s: Any, y: SecondLayer, port: int) -> SecondStep:
    return _changed(s, y, {})


def _transpose(s: Any, y: SecondLayer, port: int) -> SecondStep:
    shape = s.shape(y.inputs[0])
    order = [_axis(y, a, len(shape)) for a in s.ints(y.inputs[1])] or [*range(len(shape))][::-1]
    if sorted(order) != [*range(len(shape))]:
        raise Unfollowed(f"{y}: its order is no permutation")
    out = [shape[a] for a in order]
    axes = s.facts.axes(out)
    return _moved(s, y, out, [axes[order.index(a)] for a in range(len(axes))])


def _reshape(s: Any, y: SecondLayer, port: int) -> SecondStep:
    shape, dims = s.shape(y.inputs[0]), s.sizes(y.inputs[1])
    if y.text("special_zero", "false") in ("true", "1"):
        dims = [shape[i] if is_number(d, 0) else d for i, d in enumerate(dims)]
    for i, d in enumerate(dims):
        if is_number(d, -1):
            dims[i] = s.facts.quotient(product(shape), product(dims[:i] + dims[i + 1 :]))
            if dims[i] is None:
                raise Unfollowed(f"{y}: its shape does not follow, or does not fit")
    return _regrouped(s, y, dims)


def _regrouped(s: Any, y: SecondLayer, dims: Sequence[Size]) -> SecondStep:
    """Cut and join axes; open sizes that are joined stay apart as parts of one axis."""
    flat = [n for size in s.shape(y.inputs[0]) for n in factors(size)]
    if not s.facts.equal(product(flat), product(dims)):
        raise Unfollowed(f"{y}: its shape does not follow, or does not fit")
    if any(is_number(n, 0) for n in flat):
        return SecondStep([*dims], [])
    found = _common_parts(s, flat, dims)
    if found is None:
        whole = reduce(linear, zip(dims, s.facts.axes(dims), strict=True), 0)
        return _moved(s, y, [*dims], _parts(whole, flat))
    runs, pieces = found
    out = [
        d if all(isinstance(n, int) for n in run[1:]) else Merged((*run,))
        for d, run in zip(dims, runs, strict=True)
    ]
    places = [
        [*o.parts] if isinstance(o, Merged) else _parts(o, run)
        for o, run in zip(s.facts.axes(out), runs, strict=True)
    ]
    rows = ([(runs[a][i], places[a][i]) for a, i in row] for row in pieces)
    return _moved(s, y, out, [reduce(linear, row, 0) for row in rows])


def _common_parts(s: Any, flat: Sequence[Size], dims: Sequence[Size]) -> Any:
    """Return parts that make up axes on both sides: by output, and their places by input."""
    queue = [(at, n) for at, n in enumerate(flat) if not is_number(n, 1)]
    pieces: list[list[tuple[int, int]]] = [[] for _ in flat]
    runs: list[list[Size]] = []
    for axis, need in enumerate(dims):
        run: list[Size] = []
        while not is_number(need, 1):
            at, n = queue.pop(0)
            rest, left = s.facts.quotient(need, n), s.facts.quotient(n, need)
            if rest is None and left is None:
                return None
            if rest is None:
                queue.insert(0, (at, left))
            pieces[at].append((axis, len(run)))
            run.append(need if rest is None else n)
            need = 1 if rest is None else rest
        runs.append(run)
    return runs, pieces


def _parts(position: Size, sizes: Sequence[Size]) -> list[Size]:
    """Return the positions along axes, of the one along the axis that they were cut from."""
    made: list[Size] = []
    for size in sizes[:0:-1]:
        position, place = divided(position, size)
        made.append(place)
    return [*([position] if sizes else []), *made[::-1]]


def _squeeze(s: Any, y: SecondLayer, port: int) -> SecondStep:
    shape = s.shape(y.inputs[0])
    ones = [a for a, n in enumerate(shape) if is_number(n, 1)]
    axes = s.ints(y.inputs[1]) if len(y.inputs) > 1 else ones
    lost = {_axis(y, a, len(shape)) for a in axes}
    return _regrouped(s, y, [n for a, n in enumerate(shape) if a not in lost])


def _unsqueeze(s: Any, y: SecondLayer, port: int) -> SecondStep:
    dims, axes = s.shape(y.inputs[0]), s.ints(y.inputs[1])
    for axis in sorted(_axis(y, a, len(dims) + len(axes)) for a in axes):
        dims.insert(axis, 1)
    return _regrouped(s, y, dims)


def _pad(s: Any, y: SecondLayer, port: int) -> SecondStep:
    shape = s.shape(y.inputs[0])
    if y.text("pad_mode", "constant") != "constant" or any(s.array(p).any() for p in y.inputs[3:]):
        raise Unfollowed(f"{y} pads with something else than zeros")
    both = [s.sizes(p) for p in y.inputs[1:3]]
    rows = enumerate(zip(shape, s.facts.axes(shape), *both, strict=True))
    padded = [(a, row) for a, row in rows if not all(is_number(n, 0) for n in row[2:])]
    return _changed(s, y, {a: (n + b + e, o - b) for a, (n, o, b, e) in padded})


def _slice(s: Any, y: SecondLayer, port: int) -> SecondStep:
    shape = s.shape(y.inputs[0])
    start, stop, step = (s.sizes(p) for p in y.inputs[1:4])
    axes = s.ints(y.inputs[4]) if len(y.inputs) > 4 else [*range(len(start))]
    rows = zip([_axis(y, a, len(shape)) for a in axes], start, stop, step, strict=True)
    return _changed(s, y, {a: _cut(s, y, a, *cut) for a, *cut in rows})


def _strided_slice(s: Any, y: SecondLayer, port: int) -> SecondStep:
    rank = len(s.shape(y.inputs[0]))
    start, stop = (s.sizes(p) for p in y.inputs[1:3])
    step = s.sizes(y.inputs[3]) if len(y.inputs) > 3 else [1] * len(start)
    masks = [y.ints(k, None) for k in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")]
    if any(map(any, masks)) or len(start) > rank:
        raise Unfollowed(f"{y} has masks that are not followed")
    skips = [y.ints(k, None) + [0] * rank for k in ("begin_mask", "end_mask")]
    changes = {}
    for a, (b, e, by) in enumerate(zip(start, stop, step, strict=True)):
        first, last = (1 << 31, -1 << 31) if isinstance(by, int) and by < 0 else (0, 1 << 31)
        b, e = first if skips[0][a] else b, last if skips[1][a] else e
        if not (is_number(b, 0) and is_number(by, 1) and is_number(e, 1 << 31)):
            changes[a] = _cut(s, y, a, b, e, by)
    return _changed(s, y, changes)


def _cut(
    s: Any, y: SecondLayer, axis: int, start: Size, stop: Size, step: Size
) -> tuple[Size, Size]:
    """Take elements from a start to a stop, counted from the end if negative."""
    size, o = s.shape(y.inputs[0])[axis], s.facts.name(f"o{axis}")
    if not isinstance(step, int) or not step:
        raise Unfollowed(f"{y}: a step that is open or 0")
    if all(isinstance(n, int) for n in (size, start, stop)):
        if step < 0 and start < -size:
            raise Unfollowed(f"{y} starts in front of the data")
        taken = range(size)[start:stop:step]
        return len(taken), o * step + taken.start
    if step < 0:
        raise Unfollowed(f"{y}: an axis of open size is reversed")
    begin, end = (s.facts.from_end(n, size) for n in (start, stop))
    count = larger(smaller(end, size) - begin, 0)
    return (count + (step - 1)) // step, o * step + begin


def _concat(s: Any, y: SecondLayer, port: int) -> SecondStep:
    every = [s.shape(p) for p in y.inputs]
    out, axis = s.shape(y.inputs[0]), _axis(y, y.ints("axis", 1)[0], len(every[0]))
    out[axis] = sum(shape[axis] for shape in every)
    reads, begin = [], 0
    for p, shape in zip(y.inputs, every, strict=True):
        for a, (n, size) in enumerate(zip(shape, out, strict=True)):
            s.demand(n, n if a == axis else size, y)
        at = s.facts.axes(out)
        at[axis] -= begin
        where = s.facts.inside(at[axis], shape[axis])
        reads.append(SecondRead(p, s.facts.relation(out, at, where)))
        begin += shape[axis]
    return SecondStep(out, reads)


def _split(s: Any, y: SecondLayer, port: int) -> SecondStep:
    shape = s.shape(y.inputs[0])
    axis = _axis(y, s.ints(y.inputs[1])[0], len(shape))
    if y.type == "Split":
        lengths = [divided(shape[axis], y.ints("num_splits", 1)[0])[0]] * len(y.names)
    else:
        lengths = s.sizes(y.inputs[2])
        rest = shape[axis] - sum(n for n in lengths if not is_number(n, -1))
        lengths = [rest if is_number(n, -1) else n for n in lengths]
    return _changed(s, y, {axis: (lengths[port], s.facts.name(f"o{axis}") + sum(lengths[:port]))})


def _gather(s: Any, y: SecondLayer, port: int) -> SecondStep:
    """Follow every constant index."""
    shape, index = s.shape(y.inputs[0]), s.array(y.inputs[1])
    axis = _axis(y, s.ints(y.inputs[2])[0], len(shape))
    if y.ints("batch_dims", 1) != [0] or index.size > MOST_GATHERED or index.dtype.kind not in "iu":
        raise Unfollowed(f"{y} is not followed")
    out = [*shape[:axis], *index.shape, *shape[axis + 1 :]]
    names, reads = s.facts.axes(out), []
    for place, value in np.ndenumerate(index):
        where = [s.facts.same(names[axis + i], n) for i, n in enumerate(place)]
        value = int(value) + (shape[axis] if value < 0 else 0)
        at = [*names[:axis], value, *names[axis + index.ndim :]]
        where += s.facts.inside(value, shape[axis])
        reads.append(SecondRead(y.inputs[0], s.facts.relation(out, at, where)))
    return SecondStep(out, reads)


def _depth_to_space(s: Any, y: SecondLayer, port: int) -> SecondStep:
    shape, block = s.shape(y.inputs[0]), y.ints("block_size", 1, 1)[0]
    axes = range(2, len(shape))
    depth = block ** len(axes) if 0 < block < 1 << 12 and len(axes) < 4 else 0
    if not depth or not isinstance(shape[1], int) or shape[1] % depth:
        raise Unfollowed(f"{y}: blocks of {block} of its channels")
    channels = shape[1] // depth
    out = [shape[0], channels, *(shape[a] * block for a in axes)]
    names = s.facts.axes(out)
    places = [divided(names[a], block) for a in axes]
    order = [(inner, block) for _, inner in places]
    channel = names[1], channels
    order = [*order, channel] if y.text("mode") == "blocks_first" else [channel, *order]
    at = [names[0], reduce(lambda t, row: t * row[1] + row[0], order, 0), *(p for p, _ in places)]
    return _moved(s, y, out, at)


def _tile(s: Any, y: SecondLayer, port: int) -> SecondStep:
    shape, counts = s.shape(y.inputs[0]), s.ints(y.inputs[1])
    if min(counts, default=0) < 0:
        raise Unfollowed(f"{y} repeats less than no time")
    rank = max(len(shape), len(counts))
    counts = [1] * (rank - len(counts)) + counts
    sizes = [1] * (rank - len(shape)) + shape
    out = [size if n == 1 else size * n for size, n in zip(sizes, counts, strict=True)]
    rows = zip(s.facts.axes(out), sizes, counts, strict=True)
    at = [o if n == 1 else divided(o, size)[1] for o, size, n in rows]
    return _moved(s, y, out, at[rank - len(shape) :])


def _broadcast(s: Any, y: SecondLayer, port: int) -> SecondStep:
    if y.text("mode", "numpy") != "numpy":
        raise Unfollowed(f"{y} has a mode that is not followed")
    out = s.sizes(y.inputs[1])
    return SecondStep(out, [_stretched(s, y, y.inputs[0], out)])


def _stretched(s: Any, y: SecondLayer, port: SecondPort, out: Sequence[Size]) -> SecondRead:
    """Return what an output reads of an input that is broadcast to it."""
    shape, at = s.shape(port), s.facts.axes(out)
    for axis, size in enumerate(shape, len(out) - len(shape)):
        if is_number(size, 1):
            at[axis] = 0
        else:
            s.demand(size, out[axis], y)
    return SecondRead(port, s.facts.relation(out, at[len(out) - len(shape) :]))


def _both(s: Any, y: SecondLayer) -> tuple[list[Size], list[SecondRead]]:
    """Return the sizes of two broadcast inputs, and how they are read."""
    if y.text("auto_broadcast", "numpy") != "numpy":
        raise Unfollowed(f"{y} has an auto_broadcast that is not followed")
    a, b = sorted((s.shape(p) for p in y.inputs), key=len)
    a = [1] * (len(b) - len(a)) + a
    out = [n if is_number(m, 1) else m for m, n in zip(a, b, strict=True)]
    return out, [_stretched(s, y, p, out) for p in y.inputs]


def _add(s: Any, y: SecondLayer, port: int) -> SecondStep:
    out, (one, other) = _both(s, y)
    sign = -1 if y.type == "Subtract" else 1
    return SecondStep(out, [one, other._replace(sign=sign)], sums=True)


def _multiply(s: Any, y: SecondLayer, port: int) -> SecondStep:
    """Scale by a constant; a mask of zeros and ones leaves out elements."""
    out, reads = _both(s, y)
    known = [s.is_constant(p) for p in y.inputs]
    if sum(known) != 1:
        raise Unfollowed(f"{y} does not scale by a constant")
    data, by = reads if known[1] else reads[::-1]
    array = s.array(by.port)
    if array.size > 1 and np.isin(array, (0, 1)).all():
        kept = by.relation.intersect_range(_ones(s, array)).domain()
        return SecondStep(out, [SecondRead(data.port, data.relation.intersect_domain(kept))])
    return SecondStep(out, [data._replace(weight=by)], sums=True)


def _ones(s: Any, mask: Array) -> isl.Set:
    """Return where a mask of zeros and ones is 1, if it is a product of masks of its axes."""
    texts, again = [], np.ones_like(mask)
    for axis, size in enumerate(mask.shape):
        row = mask.max(tuple(a for a in range(mask.ndim) if a != axis))
        again *= row.reshape([-1 if a == axis else 1 for a in range(mask.ndim)])
        periods = (p for p in range(1, size + 1) if (row == np.resize(row[:p], size)).all())
        period = next(periods, 1)
        kept = [f"i{axis} mod {period} = {r}" for r in np.flatnonzero(row[:period])]
        texts += [f"0 <= i{axis} < {size}", f"({' or '.join(kept) or '1 = 0'})"]
    if not np.array_equal(again, mask):
        raise Unfollowed("a mask is no product of masks of its axes")
    names = ", ".join(f"i{a}" for a in range(mask.ndim))
    return isl.Set(f"{{ [{names}] : {' and '.join(texts)} }}", s.facts.context)


def _function(s: Any, y: SecondLayer, port: int) -> SecondStep:
    arrays = [s.array(p) for p in y.inputs[1:]]
    if any(a.size != 1 for a in arrays):
        raise Unfollowed(f"{y} has parameters per channel")
    said = [float(y.attributes[k]) for k in ("min", "max", "alpha", "beta") if k in y.attributes]
    more = sorted(
        (k, v) for k, v in y.attributes.items() if k not in ("min", "max", "alpha", "beta")
    )
    step = _same(s, y, port)
    step.function = (y.type, (*said, *(float(a.reshape(-1)[0]) for a in arrays)), *more)
    return step


def _interpolate(s: Any, y: SecondLayer, port: int) -> SecondStep:
    """Follow nearest-neighbour enlargement by whole scales, which repeats elements."""
    shape = s.shape(y.inputs[0])
    keys = "mode", "shape_calculation_mode", "coordinate_transformation_mode", "nearest_mode"
    pads = any(y.ints("pads_begin") + y.ints("pads_end"))
    if pads or [y.text(k) for k in keys] != ["nearest", "scales", "asymmetric", "floor"]:
        raise Unfollowed(f"{y} is not followed")
    scales = s.array(y.inputs[2]).reshape(-1).tolist()
    axes = s.ints(y.inputs[3]) if len(y.inputs) > 3 else [*range(len(shape))]
    changes = {}
    for axis, scale in zip([_axis(y, a, len(shape)) for a in axes], scales, strict=True):
        if scale != int(scale) or scale < 1:
            raise Unfollowed(f"{y} enlarges by {scale}")
        changes[axis] = shape[axis] * int(scale), s.facts.name(f"o{axis}") // int(scale)
    return _changed(s, y, changes)


RULES: dict[str, Rule] = {
    "Identity": _same,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Pad": _pad,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Concat": _concat,
    "Split": _split,
    "VariadicSplit": _split,
    "Gather": _gather,
    "DepthToSpace": _depth_to_space,
    "Tile": _tile,
    "Broadcast": _broadcast,
    "Interpolate": _interpolate,
    "Add": _add,
    "Subtract": _add,
    "Multiply": _multiply,
    **dict.fromkeys(FUNCTIONS, _function),
}
