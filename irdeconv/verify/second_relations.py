"""What every operation reads: relations between the elements of its output and of its inputs.

A size is an integer or an isl expression over open sizes. A position is one over the axes of the
output, `o0`, `o1`, ..., too, and over the taps of a convolution, `t0`, `t1`, ...: the input channel
and the place on every axis.

The deconvolutions of all dialects follow by their definition. On an axis, input i times tap k is
added to element S*i + D*k of the full scatter, which has FULL = S*(I-1) + D*(K-1) + 1 elements.
Output o is element o + begin, or 0 outside. The attributes decide `begin` and the number of
outputs.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import islpy as isl
import numpy as np

from irdeconv.verify.second_reading import Array, SecondLayer, SecondPort, Unfollowed

LARGEST_SIZE = 1 << 24  # of an open axis
MOST_SIZES = 64  # elements of a vector, and of the indices of a Gather
PARAMETERS = ("min", "max", "alpha", "beta")  # of functions: numbers
CONVOLUTION = "convolution"
# The system of a type, by the begin of the version.
SYSTEMS = {
    "Convolution": {"opset": CONVOLUTION},
    "GroupConvolution": {"opset": CONVOLUTION},
    "ConvolutionBackpropData": {"opset": "openvino"},
    "GroupConvolutionBackpropData": {"opset": "openvino"},
    "ConvTranspose": {"onednn_": "onednn", "onnx_": "onnx", "com.ms.internal.nhwc": "onnx"},
    "Deconvolution": {"tensorrt": "tensorrt"},
}
_FUNCTIONS = {"Relu": "ReLU", "LeakyRelu": "PReLU", "Clip": "Clamp"}
Size = Any  # int or isl.PwAff, which have the same operators, or Merged
Sizes = Sequence[Size]


@dataclass(frozen=True)
class Merged:
    """The size of an axis that was merged of open ones, or a position along it, by its parts."""

    parts: tuple[Size, ...]

    def __add__(self, *_: Any) -> Any:
        raise Unfollowed("a Reshape merges axes of open sizes")

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __floordiv__ = __mod__ = __add__


def flat(sizes: Iterable[Size]) -> list[Size]:
    """Return the parts of merged axes, of others their sizes."""
    return [n for s in sizes for n in (s.parts if isinstance(s, Merged) else [s])]


def product(sizes: Iterable[Size]) -> Size:
    """Return a product, with several open factors by them: isl multiplies by numbers only."""
    every = flat(sizes)
    number = math.prod(n for n in every if isinstance(n, int))
    first, *rest = [n for n in every if not isinstance(n, int)] or [1]
    return Merged((first * number, *rest)) if rest else first * number


def is_number(size: Size, number: int) -> bool:
    """Whether a size is this number, and not open."""
    return isinstance(size, int) and size == number


def shown(size: Size) -> str:
    """Return a size as a text."""
    return "*".join(re.sub(r"^.*?-> { \[\((.*)\)\] }$", r"\1", str(n)) for n in flat([size]))


def larger(a: Size, b: Size) -> Size:
    """Return the larger of two sizes."""
    more = a - b
    return max(a, b) if isinstance(more, int) else more.max(more * 0) + b


def inside(position: Size, size: Size) -> list[Size]:
    """Return expressions that are not negative if a position is one of an axis."""
    return [position, size - 1 - position]


def divided(a: Size, by: Size) -> tuple[Size, Size]:
    """Return quotient and remainder."""
    if not isinstance(by, int) or by <= 0:
        raise Unfollowed("a division of sizes by an open or negative number")
    return a // by, a % by


def linear(position: Size, inner: tuple[Size, Size]) -> Size:
    """Return the position along an axis and one inside of it, by that one's position and size."""
    place, size = inner
    if isinstance(size, Merged) or not (is_number(position, 0) or isinstance(size, int)):
        raise Unfollowed("a Reshape merges axes of open sizes")
    return position * size + place


# Operations on sizes.
VALUES: dict[str, Callable[..., Size]] = {
    "Add": operator.add,
    "Subtract": operator.sub,
    "Multiply": lambda a, b: product((a, b)),
    "Divide": lambda a, b: divided(a, b)[0],
    "Maximum": larger,
    "FloorMod": lambda a, b: divided(a, b)[1],
    "Minimum": lambda a, b: -larger(-a, -b),
    "Negative": operator.neg,
    "ReLU": lambda a: larger(a, 0),
}


class SecondFacts:
    """Open sizes with their limits, which hold for both models; expressions for isl."""

    def __init__(self) -> None:
        self.numbers: dict[object, int] = {}  # of values, by layers and inputs
        self.known: set[int] = set()  # numbers of the original's values
        self.stops: set[int] = set()  # those that the lowered model has, too
        self.context = isl.Context()
        self.limits = isl.Set("{ : }", self.context)

    def name(self, name: str) -> isl.PwAff:
        """Return an axis, a tap or an open size by its name."""
        return isl.PwAff(f"[{name}] -> {{ [({name})] }}", self.context)

    def axes(self, shape: Sizes) -> list[Size]:
        """Return the positions along the axes of an output."""
        names = iter([self.name(f"o{i}") for i in range(len(flat(shape)))])
        parts = [tuple(next(names) for _ in flat([n])) for n in shape]
        return [own[0] if len(own) == 1 else Merged(own) for own in parts]

    def size(self, name: str, low: int = 1, high: int = LARGEST_SIZE) -> Size:
        """Return an open size."""
        limits = f"[{name}] -> {{ : {low} <= {name} <= {high} }}"
        self.limits = self.limits.intersect(isl.Set(limits, self.context))
        return self.name(name)

    def lifted(self, size: Size) -> isl.PwAff:
        """Return an expression, also of a number."""
        return isl.PwAff(f"{{ [({size})] }}", self.context) if isinstance(size, int) else size

    def simple(self, size: Size) -> Size:
        """Return a number if it is one, else what the limits leave of an expression."""
        if isinstance(size, int):
            return size
        if isinstance(size, Merged):
            return Merged(tuple(map(self.simple, size.parts)))
        size = size.gist(self.limits).coalesce()
        fixed = size.n_piece() == 1 and size.is_cst()
        return size.max_val().to_python() if fixed else size

    def at_least(self, a: Size, b: Size) -> bool:
        """Whether a size is surely not below another one within the limits."""
        more = a + -b  # in this order a merged axis on either side says so
        return more >= 0 if isinstance(more, int) else self.limits.is_subset(more.nonneg_set())

    def equal(self, a: Size, b: Size) -> bool:
        """Whether two sizes are equal within the limits."""
        return self.at_least(a, b) and self.at_least(b, a)

    def quotient(self, a: Size, b: Size) -> Size | None:
        """Return the exact quotient of products, None if cancelling their factors has no end."""
        left = flat([a])
        for d in flat([b]):
            ratios = [self._ratio(n, d) for n in left]
            i = next((i for i, k in enumerate(ratios) if k is not None), None)
            if i is None:
                return None
            left[i] = ratios[i]
        return product(left)

    def _ratio(self, a: Size, b: Size) -> Size | None:
        """Return the exact quotient of a size and a number or, if it is a number, of two sizes."""
        if isinstance(b, int):
            return a if b == 1 else a // b if b > 0 and self.equal(a % b, 0) else None
        if isinstance(a, int):
            return None
        most = [n.intersect_domain(self.limits).max_val().to_python() for n in (a, b)]
        k = most[0] // most[1] if most[1] else 0
        return k if k and self.equal(a, b * k) else None

    def relation(self, shape: Sizes, at: Sizes, where: Sizes = (), taps: int = 0) -> isl.Map:
        """Return the relation from an output's elements to positions, for any of the taps.

        The expressions `where` are not negative.
        """
        names = [f"o{i}" for i in range(len(flat(shape)))] + [f"t{i}" for i in range(taps)]
        every = (isl.Set.from_pw_aff(self.lifted(n)) for n in flat(at))
        made = reduce(isl.Set.flat_product, every, isl.Set("{ [] }", self.context))
        conditions = (self.lifted(n).nonneg_set() for n in where)
        made = reduce(isl.Set.intersect_params, conditions, made)
        ids = isl.MultiId(f"{{ [{', '.join(names)}] }}", self.context)
        # Without this, quotients and remainders stay as unknowns that multiply in compositions.
        relation = made.unbind_params_insert_domain(ids).detect_equalities()
        return relation.project_out(isl.dim_type.in_, len(names) - taps, taps)


class SecondRead(NamedTuple):
    """An input, and factors: a product of elements, to all of which a relation leads at once."""

    port: SecondPort
    relation: isl.Map
    factors: tuple[SecondPort | Array, ...] = ()


@dataclass
class SecondStep:
    """One operation: the output's sizes, and what an element is: a function of the sum of reads.

    Without `sums` at most one of the reads has an element: the operation moves elements, or zeros.
    """

    shape: list[Size]
    reads: list[SecondRead]
    sums: bool = False
    function: tuple[Any, ...] | None = None


class SecondOperation:
    """A layer with its inputs, of which `side` has the values.

    `shape` is that of the first one, `at` are the positions along its axes. `port` is the output.
    """

    def __init__(self, side: Any, layer: SecondLayer, port: int) -> None:
        self.side, self.layer, self.inputs, self.port = side, layer, layer.inputs, port
        self.facts: SecondFacts = side.facts
        self.shape: list[Size] = side.shape(layer.inputs[0])
        self.at = self.facts.axes(self.shape)
        self.require = layer.require

    def sizes(self, i: int, default: Sizes = ()) -> list[Size]:
        """Return the integers of an input, of which some may be open, else the default."""
        if i >= len(self.inputs):
            return [*default]
        array = self.side.array(self.inputs[i]).reshape(-1)
        self.require(
            array.dtype.kind != "f" and array.size <= MOST_SIZES,
            f"input {i} is no list of at most {MOST_SIZES} integers",
        )
        return [self.facts.simple(v) for v in array.tolist()]

    def axes(self, i: int, default: Sequence[int] = (), rank: int = 0) -> list[int]:
        """Return axes that an input names, counted from the first one."""
        return [range(rank or len(self.shape))[a] for a in self.sizes(i, default)]

    def demand(self, a: Size, b: Size) -> None:
        """Require that two sizes are equal, part by part."""
        parts = flat([a]), flat([b])
        fits = len(parts[0]) == len(parts[1]) and all(map(self.facts.equal, *parts))
        self.require(fits, f"sizes {shown(a)} and {shown(b)} do not fit")

    def moved(self, shape: Sizes, at: Sizes, where: Sizes = ()) -> SecondStep:
        """Return a step that reads the first input at a position."""
        read = SecondRead(self.inputs[0], self.facts.relation(shape, at, where))
        return SecondStep([*shape], [read])

    def changed(self, changes: Mapping[int, tuple[Size, Size]]) -> SecondStep:
        """Return a step that changes axes: to a size, reading at a position, zeros outside."""
        shape, at, where = [*self.shape], [*self.at], []
        for axis, (size, position) in changes.items():
            where += inside(position, shape[axis])
            shape[axis], at[axis] = size, position
        return self.moved(shape, at, where)


def _transpose(op: SecondOperation) -> SecondStep:
    order = op.axes(1) or [*range(len(op.shape))][::-1]
    out = [op.shape[a] for a in order]
    axes = op.facts.axes(out)
    return op.moved(out, [axes[order.index(a)] for a in range(len(op.shape))])


def _reshape(op: SecondOperation) -> SecondStep:
    dims = op.sizes(1)
    if op.layer.text("special_zero") in ("true", "1"):
        dims = [op.shape[i] if is_number(d, 0) else d for i, d in enumerate(dims)]
    for i, d in enumerate(dims):
        if is_number(d, -1):
            dims[i] = op.facts.quotient(product(op.shape), product(dims[:i] + dims[i + 1 :]))
            op.require(dims[i] is not None, "its shape does not follow, or does not fit")
    return _regrouped(op, dims)


def _squeeze(op: SecondOperation) -> SecondStep:
    lost = op.axes(1, [a for a, n in enumerate(op.shape) if is_number(n, 1)])
    return _regrouped(op, [n for a, n in enumerate(op.shape) if a not in lost])


def _unsqueeze(op: SecondOperation) -> SecondStep:
    dims = [*op.shape]
    for axis in sorted(op.axes(1, rank=len(dims) + len(op.sizes(1)))):
        dims.insert(axis, 1)
    return _regrouped(op, dims)


def _regrouped(op: SecondOperation, dims: list[Size]) -> SecondStep:
    """Cut and join axes by common parts; open sizes that are joined stay apart in one axis."""
    sizes = flat(op.shape)
    if all(any(is_number(n, 0) for n in row) for row in (sizes, dims)):
        return SecondStep(dims, [])
    queue = [(axis, n) for axis, n in enumerate(sizes) if not is_number(n, 1)]
    out, rows = list[Size](), list[list[tuple[int, Size]]]()
    for size in dims:
        row, need = list[tuple[int, Size]](), size
        while not is_number(need, 1):
            op.require(queue, "its shape does not follow, or does not fit")
            axis, n = queue.pop(0)
            rest, left = op.facts.quotient(need, n), op.facts.quotient(n, need)
            if rest is None and left is None:
                return _counted(op, dims)
            if rest is None:
                queue.insert(0, (axis, left))
            row.append((axis, need if rest is None else n))
            need = 1 if rest is None else rest
        opens = not all(isinstance(n, int) for _, n in row[1:])
        out.append(Merged(tuple(n for _, n in row)) if opens else size)
        rows.append(row)
    op.require(not queue, "its shape does not follow, or does not fit")
    at: list[list[tuple[Size, Size]]] = [[] for _ in sizes]
    for position, row in zip(op.facts.axes(out), rows, strict=True):
        places = flat([position])
        for _, n in row[:0:-1] if len(places) == 1 else ():
            places[:1] = divided(places[0], n)
        for (axis, n), place in zip(row, places, strict=False):
            at[axis].append((place, n))
    return op.moved(out, [reduce(linear, row, 0) for row in at])


def _counted(op: SecondOperation, dims: list[Size]) -> SecondStep:
    """Reshape by the number that an element has in the order of all; sizes are exact."""
    exact = all(isinstance(n, int) for n in (*op.shape, *dims))
    op.require(exact and math.prod(op.shape) == math.prod(dims), "its axes have no common parts")
    place = reduce(linear, zip(op.facts.axes(dims), dims, strict=True), 0)
    at = list[Size]()
    for n in op.shape[::-1]:
        place, own = divided(place, n)
        at.insert(0, own)
    return op.moved(dims, at)


def _depth_to_space(op: SecondOperation) -> SecondStep:
    (batch, depth, *space), (block,) = op.shape, op.layer.ints("block_size", 1, 1)
    channels, over = divided(depth, block ** len(space))
    op.require(is_number(over, 0), f"blocks of {block} of its channels")
    out = [batch, channels, *(n * block for n in space)]
    first, channel, *names = op.facts.axes(out)
    order = [(divided(o, block)[1], block) for o in names]
    order.insert(len(space) if op.layer.text("mode") == "blocks_first" else 0, (channel, channels))
    return op.moved(out, [first, reduce(linear, order, 0), *(o // block for o in names)])


def _pad(op: SecondOperation) -> SecondStep:
    zeros = not any(op.side.array(p).any() for p in op.inputs[3:])
    constant = op.layer.text("pad_mode", "constant") == "constant"
    op.require(constant and zeros, "it pads with something else than zeros")
    rows = enumerate(zip(op.shape, op.at, op.sizes(1), op.sizes(2), strict=True))
    padded = [(a, row) for a, row in rows if not all(is_number(n, 0) for n in row[2:])]
    return op.changed({a: (n + b + e, o - b) for a, (n, o, b, e) in padded})


def _slice(op: SecondOperation) -> SecondStep:
    start, stop = op.sizes(1), op.sizes(2)
    step = op.sizes(3, [1] * len(start))
    axes = op.axes(4, range(len(start)))
    masks = [op.layer.ints(k) for k in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")]
    op.require(not any(map(any, masks)), "it has masks that change axes")
    skips = [op.layer.ints(k) + [0] * len(start) for k in ("begin_mask", "end_mask")]
    changes = {}
    for i, (a, b, e, by) in enumerate(zip(axes, start, stop, step, strict=True)):
        first, last = (1 << 31, -1 << 31) if isinstance(by, int) and by < 0 else (0, 1 << 31)
        b, e = first if skips[0][i] else b, last if skips[1][i] else e
        if not (is_number(b, 0) and is_number(by, 1) and is_number(e, 1 << 31)):
            changes[a] = _cut(op, a, b, e, by)
    return op.changed(changes)


def _cut(op: SecondOperation, axis: int, start: Size, stop: Size, step: Size) -> tuple[Size, Size]:
    """Take elements from a start to a stop, counted from the end if negative."""
    size, o = op.shape[axis], op.at[axis]
    if all(isinstance(n, int) for n in (size, start, stop)):
        op.require(step > 0 or start >= -size, "it starts in front of the data")
        taken = range(size)[start:stop:step]
        return len(taken), o * step + taken.start
    op.require(isinstance(step, int) and step > 0, "an axis of open size is reversed")
    bounds = []
    for bound in (start, stop):
        behind = op.facts.at_least(-1, bound)
        op.require(behind or op.facts.at_least(bound, 0), "a bound may count from either end")
        bounds.append(larger(size + bound, 0) if behind else bound)
    count = larger(-larger(-bounds[1], -size) - bounds[0], 0)
    return (count + (step - 1)) // step, o * step + bounds[0]


def _concat(op: SecondOperation) -> SecondStep:
    every = [op.side.shape(p) for p in op.inputs]
    out, (axis,) = [*op.shape], op.layer.ints("axis", 1)
    axis = range(len(out))[axis]
    out[axis] = sum(shape[axis] for shape in every)
    reads, begin = [], 0
    for p, shape in zip(op.inputs, every, strict=True):
        for a, (n, size) in enumerate(zip(shape, out, strict=True)):
            op.demand(n, n if a == axis else size)
        at = op.facts.axes(out)
        at[axis] -= begin
        where = inside(at[axis], shape[axis])
        reads.append(SecondRead(p, op.facts.relation(out, at, where)))
        begin += shape[axis]
    return SecondStep(out, reads)


def _split(op: SecondOperation) -> SecondStep:
    (axis,), count = op.axes(1), len(op.layer.names)
    lengths = op.sizes(2, [divided(op.shape[axis], count)[0]] * count)
    rest = op.shape[axis] - sum(n for n in lengths if not is_number(n, -1))
    lengths = [rest if is_number(n, -1) else n for n in lengths]
    return op.changed({axis: (lengths[op.port], op.at[axis] + sum(lengths[: op.port]))})


def _gather(op: SecondOperation) -> SecondStep:
    """Follow every constant index."""
    index, (axis,) = op.side.array(op.inputs[1]), op.axes(2)
    few = index.size <= MOST_SIZES and index.dtype.kind in "iu"
    op.require(few and not any(op.layer.ints("batch_dims")), "its indices are not followed")
    size, out = op.shape[axis], [*op.shape[:axis], *index.shape, *op.shape[axis + 1 :]]
    names, reads = op.facts.axes(out), []
    for place, value in np.ndenumerate(index):
        chosen = int(value) + (size if value < 0 else 0)
        where = inside(chosen, size)
        for o, n in zip(names[axis:], place, strict=False):
            where += [o - n, n - o]
        at = [*names[:axis], chosen, *names[axis + index.ndim :]]
        reads.append(SecondRead(op.inputs[0], op.facts.relation(out, at, where)))
    return SecondStep(out, reads)


def _tile(op: SecondOperation) -> SecondStep:
    repeats, rank = op.sizes(1), len(op.shape)
    sizes = [1] * (len(repeats) - rank) + op.shape
    repeats = [1] * (rank - len(repeats)) + repeats
    out = [n if is_number(k, 1) else n * k for n, k in zip(sizes, repeats, strict=True)]
    rows = zip(op.facts.axes(out), sizes, repeats, strict=True)
    at = [o if is_number(k, 1) else divided(o, n)[1] for o, n, k in rows]
    return op.moved(out, at[len(out) - rank :])


def _interpolate(op: SecondOperation) -> SecondStep:
    """Follow nearest-neighbour enlargement by whole scales, which repeats elements."""
    keys = "mode", "shape_calculation_mode", "coordinate_transformation_mode", "nearest_mode"
    plain = [op.layer.text(k) for k in keys] == ["nearest", "scales", "asymmetric", "floor"]
    pads = op.layer.ints("pads_begin") + op.layer.ints("pads_end")
    scales = op.side.array(op.inputs[2]).reshape(-1).tolist()
    whole = all(k == int(k) and k >= 1 for k in scales)
    op.require(plain and whole and not any(pads), f"enlarging by {scales} is not followed")
    rows = zip(op.axes(3, range(len(op.shape))), map(int, scales), strict=True)
    return op.changed({a: (op.shape[a] * k, op.at[a] // k) for a, k in rows})


def _broadcast(op: SecondOperation) -> SecondStep:
    op.require(op.layer.text("mode", "numpy") == "numpy", "its mode is not followed")
    out = op.sizes(1)
    return SecondStep(out, [_stretched(op, op.inputs[0], out)])


def _stretched(op: SecondOperation, port: SecondPort, out: Sizes) -> SecondRead:
    """Return what an output reads of an input that is broadcast to it."""
    shape, at = op.side.shape(port), op.facts.axes(out)
    for axis, size in enumerate(shape, len(out) - len(shape)):
        if is_number(size, 1):
            at[axis] = 0
        else:
            op.demand(size, out[axis])
    return SecondRead(port, op.facts.relation(out, at[len(out) - len(shape) :]))


def _arithmetic(op: SecondOperation) -> SecondStep:
    """Add, subtract, or scale by a constant; a mask of zeros and ones leaves out elements."""
    numpy = op.layer.text("auto_broadcast", "numpy") == "numpy"
    op.require(numpy, "its auto_broadcast is not followed")
    a, b = sorted(map(op.side.shape, op.inputs), key=len)
    a = [1] * (len(b) - len(a)) + a
    out = [n if is_number(m, 1) else m for m, n in zip(a, b, strict=True)]
    reads = [_stretched(op, p, out) for p in op.inputs]
    if op.layer.type == "Subtract":
        reads[1] = reads[1]._replace(factors=(np.array(-1.0),))
    if op.layer.type != "Multiply":
        return SecondStep(out, reads, sums=True)
    data, by = sorted(reads, key=lambda read: op.side.constant(read.port) is not None)
    array = op.side.constant(by.port)
    op.require(array is not None, "it does not scale by a constant")
    if array.size > 1 and np.isin(array, (0, 1)).all():
        kept = by.relation.intersect_range(_ones(op.facts, array)).domain()
        return SecondStep(out, [SecondRead(data.port, data.relation.intersect_domain(kept))])
    relation = data.relation.flat_range_product(by.relation)
    return SecondStep(out, [SecondRead(data.port, relation, (by.port,))], sums=True)


def _ones(facts: SecondFacts, mask: Array) -> isl.Set:
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
    return isl.Set(f"{{ [{names}] : {' and '.join(texts)} }}", facts.context)


def _function(op: SecondOperation) -> SecondStep:
    arrays = [op.side.array(p) for p in op.inputs[1:]]
    op.require(all(a.size == 1 for a in arrays), "it has parameters per channel")
    attributes = op.layer.attributes
    said = [float(attributes[k]) for k in PARAMETERS if k in attributes]
    more = sorted((k, v) for k, v in attributes.items() if k not in PARAMETERS)
    step = op.changed({})
    step.function = (op.layer.type, (*said, *(float(a.reshape(-1)[0]) for a in arrays)), *more)
    return step


def system_of(y: SecondLayer) -> str:
    """Return the system of a convolution or deconvolution, nothing of another layer."""
    rows = SYSTEMS.get(y.type, {}).items()
    return next((system for begin, system in rows if y.version.startswith(begin)), "")


def is_deconvolution(y: SecondLayer) -> bool:
    """Whether a layer is a deconvolution of a known dialect."""
    return system_of(y) not in ("", CONVOLUTION)


class Attributes:
    """The attributes of a layer under names that all systems share.

    `filter` names the axes of the filter: g the groups, C all input channels, c those of a group,
    m the outputs of a group, t1, t2, ... the taps.
    """

    def __init__(self, op: SecondOperation, axes: int) -> None:
        y = op.layer
        self.system, self.document = system_of(y), op.side.model.document
        self.strides = y.ints("strides stride stride_nd", axes, 1)
        self.dilations = y.ints("dilations dilation dilation_nd", axes, 1)
        self.before, self.after = (
            y.ints(f"pads_{end} {short}_padding padding_nd padding", axes)
            for end, short in (("begin", "pre"), ("end", "post"))
        )
        self.extra = y.ints("output_padding", axes)
        (self.groups,) = y.ints("groups group num_groups nb_groups", 1, 1)
        mode = y.text("auto_pad padding_mode", "explicit").removeprefix("k")
        explicit = mode in ("notset", "none") or mode.startswith(("explicit", "caffe_"))
        self.mode = "explicit" if explicit else mode
        known = explicit or mode in ("valid", "same_upper", "same_lower")
        y.require(known, f"it pads by {mode[:40]!r}")
        self.asked: Sizes = ()
        self.last = False  # the channels
        self.inverted = False  # same_upper means the larger half at the begin
        taps = [f"t{1 + a}" for a in range(axes)]
        self.filter = ["C", "m", *taps]
        if self.system in ("openvino", CONVOLUTION):
            order = ["c", "m"] if self.system == "openvino" else ["m", "c"]
            self.filter = [*(["g"] if y.type.startswith("Group") else []), *order, *taps]
            self.inverted = self.system == "openvino"
            self.asked = op.sizes(2)
        elif self.system == "onednn":
            of = {"i": ["C"], "o": ["m"], "x": taps}
            letters = y.text("weights_format filter_format", "xio")
            self.filter = [name for letter in letters for name in of[letter]]
            self.last = y.text("data_format", "nxc") == "nxc"
        elif self.system == "onnx":
            pads = y.ints("pads", 2 * axes)
            self.before, self.after = pads[:axes], pads[axes:]
            self.asked, self.last = y.ints("output_shape")[-axes:], "nhwc" in y.version
            self.inverted = self.document and (self.last or y.version == "onnx_opset1")
        name = y.attributes.get("activation", "").strip()
        texts = [t for t in y.text("activation_params").split(",") if t.strip() and name != "Relu"]
        numbers = tuple(float(np.float32(t)) for t in texts)
        self.function = (_FUNCTIONS.get(name, name), numbers) if name else None

    def window(self, a: int, size: Size, kernel: int) -> tuple[Size, Size]:
        """Return `begin` and the number of outputs on an axis."""
        reach, stride = self.dilations[a] * (kernel - 1) + 1, self.strides[a]
        asked = self.asked[a] if self.asked else None
        same = self.mode.startswith("same")
        begin, end = (p[a] if self.mode == "explicit" else 0 for p in (self.before, self.after))
        if self.system == CONVOLUTION:
            if same:
                count = (size + (stride - 1)) // stride
                begin, end = self._halves((count - 1) * stride + reach - size)
            return begin, (size + begin + end - reach) // stride + 1
        longest = (size - 1) * stride + reach + self.extra[a]
        if self.system in ("onednn", "tensorrt") and same:
            begin, end = self._halves(reach - stride)
        elif self.system == "onnx" and (same or asked is not None):
            begin, end = self._halves(longest - (size * stride if asked is None else asked))
        elif self.system == "openvino" and asked is not None:
            if self.document:
                return (longest - asked + int(self.mode == "same_upper")) // 2, asked
            if same:
                begin, end = self._halves(longest - asked)
        return begin, longest - begin - end if asked is None else asked

    def _halves(self, total: Size) -> tuple[Size, Size]:
        """Return what is cut off, or padded, at the begin and at the end."""
        total = larger(total, 0)
        small, large = total // 2, total - total // 2
        first = (self.mode == "same_upper") != self.inverted
        return (small, large) if first else (large, small)


def _require_sound(op: SecondOperation, d: Attributes, filter: Sizes) -> None:
    fine = min(*d.strides, *d.dilations, d.groups) > 0
    op.require(fine, "a stride, a dilation or the number of groups is not positive")
    op.require(len(d.filter) == len(filter), "the rank of its filter does not fit")
    op.require(all(isinstance(n, int) and n for n in filter), "its filter is open or empty")


def convolution(op: SecondOperation) -> SecondStep:
    """Return sums of products over taps: the input channel of a group, a place on every axis.

    A deconvolution reads at S*i + D*k = o + begin, a convolution at S*o + D*k = i + begin.
    """
    facts, data, shape = op.facts, op.shape, op.side.shape(op.inputs[1])
    rank = len(data)
    d = Attributes(op, rank - 2)
    _require_sound(op, d, shape)
    of = {"g": d.groups, **dict(zip(d.filter, shape, strict=True))}
    inputs = of["c"] if "c" in of else of["C"] // of["g"]
    channel, space = (rank - 1, range(1, rank - 1)) if d.last else (1, range(2, rank))
    op.demand(data[channel], of["g"] * inputs)
    taps = {"t0": inputs, **{k: n for k, n in of.items() if k[0] == "t"}}
    names = {t: facts.name(t) for t in taps}
    where = [c for t, n in taps.items() for c in inside(names[t], n)]
    at, out, reads = [*op.at], [*data], list[SecondRead]()
    if d.system not in ("openvino", CONVOLUTION) and len(op.inputs) > 2:
        reads = [SecondRead(op.inputs[2], facts.relation(data, [at[channel]]))]
    names["g"], names["m"] = divided(at[channel], of["m"])
    names |= {"c": names["t0"], "C": names["g"] * inputs + names["t0"]}
    out[channel], at[channel] = of["g"] * of["m"], names["C"]
    for i, a in enumerate(space):
        begin, out[a] = d.window(i, data[a], of[f"t{1 + i}"])
        if not op.side.index and not isinstance(out[a], int):  # the original has such an output
            facts.limits = facts.limits.intersect(out[a].nonneg_set())
        reach = names[f"t{1 + i}"] * d.dilations[i]
        if d.system == CONVOLUTION:
            at[a] = at[a] * d.strides[i] + reach - begin
        else:
            at[a], over = divided(at[a] + begin - reach, d.strides[i])
            where.append(-over)
        where += inside(at[a], data[a])
    at += [names[k] for k in d.filter]
    factors: tuple[Any, ...] = (op.inputs[1],)
    if op.side.constant(op.inputs[1]) is None:
        # Several taps may read one element of what is behind the filter: each counts.
        at, factors = at + [names[t] for t in taps], (*factors, np.ones([*taps.values()]))
    reads.append(SecondRead(op.inputs[0], facts.relation(data, at, where, len(taps)), factors))
    return SecondStep(out, reads, sums=True, function=d.function)


STEPS: dict[str, Callable[[SecondOperation], SecondStep]] = {
    **dict.fromkeys(SYSTEMS, convolution),
    "Identity": lambda op: op.changed({}),
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "DepthToSpace": _depth_to_space,
    "Pad": _pad,
    "Slice": _slice,
    "StridedSlice": _slice,
    "Concat": _concat,
    "Split": _split,
    "VariadicSplit": _split,
    "Gather": _gather,
    "Tile": _tile,
    "Interpolate": _interpolate,
    "Broadcast": _broadcast,
    **dict.fromkeys(("Add", "Subtract", "Multiply"), _arithmetic),
    **dict.fromkeys(("ReLU", "Sigmoid", "Tanh", "PReLU", "Clamp", "HardSigmoid"), _function),
}
