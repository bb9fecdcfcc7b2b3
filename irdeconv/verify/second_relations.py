"""The reads of every operation: relations between the elements of its output and of its inputs.

Sizes and positions are integers or texts that isl reads. A size is one over open sizes, a position
one over the axes of the output, `o0`, `o1`, ..., too. Axes of open sizes that a Reshape merges are
written `[a][b]`: isl does not read that in an expression, so nothing is computed with them.

The deconvolutions of all dialects follow by their definition. On an axis, input i times tap k is
added to element S*i + D*k of the full scatter, which has FULL = S*(I-1) + D*(K-1) + 1 elements.
Output o is element o + begin, or 0 outside. The attributes decide `begin` and the number of
outputs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import islpy as isl
import numpy as np

from irdeconv.verify.second_reading import CONVOLUTION, Array, SecondLayer, SecondPort, Unfollowed

LARGEST_SIZE = 1 << 24  # of an open axis
MOST_SIZES = 64  # elements of a vector, and of the indices of a Gather
PARAMETERS = ("min", "max", "alpha", "beta")  # of functions: numbers
MERGED = "open sizes are merged, multiplied or divided by"
NAMES = re.compile(r"[dv]\d*_\d+")  # of open sizes
FITS = "its shape does not follow, or does not fit"
_FUNCTIONS = {"Relu": "ReLU", "LeakyRelu": "PReLU", "Clip": "Clamp"}
# Operations on sizes. A divisor is a positive number.
VALUES = {
    "Add": "{} + {}",
    "Subtract": "{} - ({})",
    "Multiply": "",
    "Divide": "floor(({})/{})",
    "Maximum": "max({}, {})",
    "FloorMod": "({}) mod {}",
    "Minimum": "min({}, {})",
    "Negative": "-({})",
    "ReLU": "max({}, 0)",
}
Size = Any  # int or str
Sizes = Sequence[Size]
At = tuple[Size, Size]  # a position, and the size of its axis
# A product of elements of several ports or arrays, to all of which a relation leads at once.
SecondRead = tuple[isl.Map, tuple[Any, ...]]


def merged(parts: Sequence[Size]) -> Size:
    """Return the size of an axis that is merged of these, or a position along it."""
    return parts[0] if len(parts) == 1 else "".join(f"[{n}]" for n in parts)


def flat(sizes: Iterable[Size]) -> list[Size]:
    """Return the parts of merged axes, of others their sizes."""
    every = list[Size]()
    for n in sizes:
        parts = str(n)[1:-1].split("][") if "[" in str(n) else [n]
        if len(parts) > 1 and merged(parts) != n:
            raise Unfollowed(MERGED)
        every += [int(p) if str(p).isdecimal() else p for p in parts]
    return every


def product(sizes: Iterable[Size]) -> Size:
    """Return a product, with several open factors by them: isl multiplies by numbers only."""
    every = flat(sizes)
    number = math.prod(n for n in every if isinstance(n, int))
    opens = [n for n in every if isinstance(n, str)]
    if not opens or not number:
        return number
    return merged(opens if number == 1 else [f"({number} * ({opens[0]}))", *opens[1:]])


def axes_of(shape: Sizes) -> list[str]:
    """Return the positions along the axes of an output."""
    names = iter([f"o{i}" for i in range(len(flat(shape)))])
    return [merged([next(names) for _ in flat([n])]) for n in shape]


def linear(position: Size, inner: At) -> Size:
    """Return the position along an axis and one inside of it."""
    return f"{inner[0]} + {inner[1]} * ({position})" if position != 0 else inner[0]


class SecondFacts:
    """Open sizes with their limits, which hold for both models, and other shared facts."""

    def __init__(self) -> None:
        self.numbers: dict[object, int] = {}  # of values, by layers and inputs
        self.known: set[int] = set()  # numbers of the original's values
        self.stops: set[int] = set()  # those that the lowered model has, too
        self.said: dict[int, list[int | None]] = {}  # shapes that OpenVINO infers
        self.limits: dict[str, isl.Set] = {}  # of each open size
        self.cases: dict[str, str] = {}  # sizes that are different in several cases

    def size(self, name: str, low: int = 1, high: int = LARGEST_SIZE) -> Size:
        """Return an open size: d or v, two numbers."""
        self.limits.setdefault(name, self.read(isl.Set, f"{{ : {low} <= {name} <= {high} }}"))
        return name

    def within(self, text: str) -> isl.Set:
        """Return the limits of the open sizes in a text, and of those that these follow from."""
        names = NAMES.findall(text)
        names += NAMES.findall("".join(self.cases.get(name, "") for name in names))
        limits = (self.limits[name] for name in dict.fromkeys(names))
        return reduce(isl.Set.intersect, limits, isl.Set("{ : }")).coalesce()

    def read(self, kind: Any, text: str) -> Any:
        """Return an object of isl by its text, in which names of open sizes are parameters."""
        names = sorted({*NAMES.findall(text)})
        try:
            return kind(f"[{', '.join(names)}] -> {text}")
        except isl.Error as e:
            if "syntax error" in str(e):
                raise Unfollowed(MERGED) from None
            raise

    def simple(self, size: Size) -> Size:
        """Return a number if it is one, else the simplified expression within the limits."""
        if isinstance(size, int):
            return size
        m = self.settled(self.read(isl.Map, f"{{ [] -> [i] : i = {size} }}"))
        found = m.as_pw_multi_aff().get_at(0).gist_params(m.params()).coalesce()
        if found.n_piece() == 1 and found.is_cst():
            return found.max_val().to_python()
        plain = re.fullmatch(r".*{ \[\] -> \[(\(.*\))\] }", str(found))
        if plain:
            return plain[1]
        # By cases: a name for it keeps them out of relations until these are compared.
        same = [name for name, text in self.cases.items() if text == str(found)]
        name = f"v_{len(self.cases)}"
        if not same:
            self.limits[name] = isl.Set("{ : }")
            self.limits[name] = self.settled(self.read(isl.Set, f"{{ : {name} = {size} }}"))
            self.cases[name] = str(found)
        return same[0] if same else name

    def value(self, kind: str, *sizes: Size) -> Size:
        """Return the value of an operation on sizes, if OpenVINO computes it alike."""
        if kind in ("Divide", "FloorMod"):
            fits = isinstance(sizes[1], int) and sizes[1] > 0
            if not fits or (kind == "Divide" and not self.holds(sizes[0], ">=", 0)):
                raise Unfollowed("a size is divided by no number, or a negative one is")
        return self.simple(VALUES[kind].format(*sizes)) if VALUES[kind] else product(sizes)

    def holds(self, a: Size, relation: str, b: Size) -> bool:
        """Whether a comparison of two sizes is true within the limits."""
        text = f"{{ : 0 + {a} {relation} {b} }}"
        return self.within(text).is_subset(self.read(isl.Set, text))

    def equal(self, *both: Size) -> bool:
        """Whether two sizes are equal within the limits, merged ones part by part."""
        a, b = (flat([n]) for n in both)
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(m == n or self.holds(m, "=", n) for m, n in pairs)

    def quotient(self, a: Size, b: Size) -> Size | None:
        """Return the exact quotient of products, None if cancelling their factors has no end.

        Factors cancel if one is a multiple of the other by a number, or an open one of a number.
        """
        left = flat([a])
        for d in flat([b]):
            for i, n in enumerate(left):
                k: Size = 0
                if isinstance(d, int):
                    k = self.simple(f"floor(({n})/{d})") if d > 0 else 0
                elif isinstance(n, str):
                    most = [self._most(x) for x in (n, d)]
                    k = most[0] // most[1] if most[1] else 0
                if self.holds(n, "=", product((k, d))):
                    left[i] = k
                    break
            else:
                return None
        return product(left)

    def _most(self, size: str) -> int:
        found = self.read(isl.PwAff, f"{{ [({size})] }}").intersect_domain(self.within(size))
        return int(found.max_val().to_python())

    def relation(self, shape: Sizes, at: Sizes, where: Sizes = (), taps: Sizes = ()) -> isl.Map:
        """Return the relation from an output's elements to positions, for any of the taps."""
        outs, ins = ([f"{x}{i}" for i in range(len(flat(n)))] for x, n in (("o", shape), ("i", at)))
        texts = [f"0 <= {o} < {n}" for o, n in zip(outs, flat(shape), strict=True)]
        texts += [f"{i} = {p}" for i, p in zip(ins, flat(at), strict=True)]
        every = " and ".join([*texts, *map(str, where)]) or "true"
        some = f"exists ({', '.join(map(str, taps))} : {every})" if taps else every
        # Without this, quotients and remainders stay as unknowns that multiply in compositions.
        text = f"{{ [{', '.join(outs)}] -> [{', '.join(ins)}] : {some} }}"
        made: isl.Map = self.read(isl.Map, text).detect_equalities()
        return made

    def settled(self, m: Any) -> Any:
        """Return a relation or a set within the limits, without names of cases."""
        made, kind = m.intersect_params(self.within(str(m.params()))), isl.dim_type.param
        for i in reversed(range(made.dim(kind))):
            if made.get_dim_name(kind, i) in self.cases:
                made = made.project_out(kind, i, 1)
        return made.coalesce()


@dataclass
class SecondStep:
    """One operation: the output's sizes, and each element as a function of the sum of reads.

    Without `sums` at most one of the reads has an element: the operation moves elements, or zeros.
    `unfollowed` is the reason if there are no reads, or no shape.
    """

    shape: list[Size] | None
    reads: list[SecondRead] | None = None
    sums: bool = False
    function: tuple[Any, ...] | None = None
    unfollowed: str = "it is not followed as a computation on data"


class SecondOperation:
    """A layer with its inputs, of which `side` has the values.

    `shape` is that of the first one, `at` are the positions along its axes. `port` is the output.
    """

    def __init__(self, side: Any, layer: SecondLayer, port: SecondPort) -> None:
        self.side, self.layer, self.inputs, self.port = side, layer, layer.inputs, port
        self.facts: SecondFacts = side.facts
        self.shape: list[Size] = side.shape(layer.inputs[0]) if layer.inputs else []
        self.at = axes_of(self.shape)
        self.require = layer.require

    def sizes(self, i: int, default: Sizes = ()) -> list[Size]:
        """Return the integers of an input, of which some may be open, else the default."""
        if i >= len(self.inputs):
            return [*default]
        array = self.side.array(self.inputs[i]).reshape(-1)
        few = array.dtype.kind != "f" and array.size <= MOST_SIZES
        self.require(few, f"input {i} is no list of at most {MOST_SIZES} integers")
        return [*array.tolist()]

    def axes(self, i: int, default: Sizes = (), rank: int = 0) -> list[int]:
        """Return axes that an input names, counted from the first one."""
        return [range(rank or len(self.shape))[int(a)] for a in self.sizes(i, default)]

    def demand(self, a: Size, b: Size) -> None:
        """Require that two sizes are equal."""
        self.require(self.facts.equal(a, b), f"sizes {a} and {b} do not fit")

    def read(self, port: SecondPort, shape: Sizes, at: Sizes, *where: str) -> SecondRead:
        """Return an output's reads of an input: at a position, nothing outside."""
        box = (f"0 <= i{i} < {n}" for i, n in enumerate(flat(self.side.shape(port))))
        return self.facts.relation(shape, at, [*where, *box]), (port,)

    def moved(self, shape: Sizes, at: Sizes, *where: str) -> SecondStep:
        """Return a step that reads the first input at a position."""
        return SecondStep([*shape], [self.read(self.inputs[0], shape, at, *where)])

    def changed(self, changes: Mapping[int, At]) -> SecondStep:
        """Return a step that changes axes: reading at a position, to a size."""
        shape, at = [*self.shape], list[Size](self.at)
        for axis, (position, size) in changes.items():
            at[axis], shape[axis] = position, self.facts.simple(size)
        return self.moved(shape, at)

    def stretched(self, port: SecondPort, out: Sizes) -> SecondRead:
        """Return an output's reads of an input that is broadcast to it."""
        shape, at = self.side.shape(port), list[Size](axes_of(out))
        for axis, size in enumerate(shape, len(out) - len(shape)):
            if size == 1:
                at[axis] = 0
            else:
                self.demand(size, out[axis])
        return self.read(port, out, at[len(out) - len(shape) :])


def _declared(op: SecondOperation) -> SecondStep:
    """Return the shape of an input or a constant."""
    y, model = op.layer, op.side.model
    texts = [t.strip() for t in y.attributes.get("shape", "").split(",") if t.strip()]
    if y.type == "Parameter":
        texts = model.shapes.get(op.port.layer, texts)
    shape: list[Size] = []
    for axis, text in enumerate(texts):
        low, dots, high = text.replace("?", "..").replace("-1", "..").partition("..")
        y.require(f"{low}{high}0".isdigit(), f"its shape {','.join(texts)[:60]}")
        name = f"d{op.side.number[op.port]}_{axis}"
        limits = max(int(low or 1), 1), int(high or LARGEST_SIZE)
        shape.append(op.facts.size(name, *limits) if dots else int(low))
    return SecondStep(shape)


def _transpose(op: SecondOperation) -> SecondStep:
    order = op.axes(1) or [*range(len(op.shape))][::-1]
    out = [op.shape[a] for a in order]
    axes = axes_of(out)
    return op.moved(out, [axes[order.index(a)] for a in range(len(op.shape))])


def _reshape(op: SecondOperation) -> SecondStep:
    """Follow Reshape, Squeeze and Unsqueeze."""
    dims = [*op.shape]
    if op.layer.type == "Squeeze":
        lost = op.axes(1, [a for a, n in enumerate(dims) if n == 1])
        dims = [n for a, n in enumerate(dims) if a not in lost]
    elif op.layer.type == "Unsqueeze":
        for axis in sorted(op.axes(1, rank=len(dims) + len(op.sizes(1)))):
            dims.insert(axis, 1)
    else:
        copies = op.layer.text("special_zero") in ("true", "1")
        dims = [op.shape[i] if copies and d == 0 else d for i, d in enumerate(op.sizes(1))]
        for i in (i for i, d in enumerate(dims) if d == -1):
            rest = op.facts.quotient(product(op.shape), product(dims[:i] + dims[i + 1 :]))
            op.require(rest is not None, FITS)
            dims[i] = rest or 0
    if all(0 in flat(row) for row in (op.shape, dims)):
        return SecondStep(dims, [])
    return _regrouped(op, dims)


def _regrouped(op: SecondOperation, dims: list[Size]) -> SecondStep:
    """Cut and join axes by common parts; open sizes that are joined stay apart in one axis."""
    sizes = flat(op.shape)
    queue: list[Any] = [(axis, n) for axis, n in enumerate(sizes) if n != 1]
    out, rows = list[Size](), list[list[tuple[int, Size]]]()
    for size in dims:
        row, need = list[tuple[int, Size]](), size
        while need != 1:
            op.require(queue, FITS)
            axis, n = queue.pop(0)
            rest, left = op.facts.quotient(need, n), op.facts.quotient(n, need)
            if rest is None:
                op.require(left is not None, "its axes have no common parts")
                queue.insert(0, (axis, left))
            row.append((axis, need if rest is None else n))
            need = 1 if rest is None else rest
        parts = [n for _, n in row]
        opens = any(isinstance(n, str) for n in parts[1:])
        out.append(merged(parts) if opens else size)
        rows.append(row)
    op.require(not queue, FITS)
    at: list[list[At]] = [[] for _ in sizes]
    for position, row in zip(axes_of(out), rows, strict=True):
        places = flat([position])
        for _, n in row[:0:-1] if len(places) == 1 else ():
            places[:1] = [f"floor(({places[0]})/{n})", f"(({places[0]}) mod {n})"]
        for (axis, n), place in zip(row, places, strict=False):
            at[axis].append((place, n))
    return op.moved(out, [reduce(linear, row, 0) for row in at])


def _depth_to_space(op: SecondOperation) -> SecondStep:
    (batch, depth, *space), (block,) = op.shape, op.layer.ints("block_size", 1, 1)
    channels = op.facts.quotient(depth, block ** len(space))
    op.require(channels is not None, f"blocks of {block} of its channels")
    out = [batch, channels, *(op.facts.simple(f"{n} * {block}") for n in space)]
    first, channel, *names = axes_of(out)
    order: list[At] = [(f"({o} mod {block})", block) for o in names]
    order.insert(len(space) if op.layer.text("mode") == "blocks_first" else 0, (channel, channels))
    return op.moved(out, [first, reduce(linear, order, 0), *(f"floor({o}/{block})" for o in names)])


def _pad(op: SecondOperation) -> SecondStep:
    zeros = not any(op.side.array(p).any() for p in op.inputs[3:])
    constant = op.layer.text("pad_mode", "constant") == "constant"
    op.require(constant and zeros, "it pads with something else than zeros")
    rows = enumerate(zip(op.shape, op.at, op.sizes(1), op.sizes(2), strict=True))
    padded = [(a, row) for a, row in rows if row[2:] != (0, 0)]
    return op.changed({a: (f"{o} - ({b})", f"{n} + {b} + {e}") for a, (n, o, b, e) in padded})


def _slice(op: SecondOperation) -> SecondStep:
    """Follow Slice and StridedSlice; a negative bound counts from the end."""
    start, stop = op.sizes(1), op.sizes(2)
    steps, axes = op.sizes(3, [1] * len(start)), op.axes(4, range(len(start)))
    masks = [op.layer.ints(k) for k in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")]
    op.require(not any(map(any, masks)), "it has masks that change axes")
    skips = [op.layer.ints(k) + [0] * len(start) for k in ("begin_mask", "end_mask")]
    changes: dict[int, At] = {}
    for a, b, e, by, *skip in zip(axes, start, stop, steps, *skips, strict=False):
        op.require(isinstance(by, int), "its step is open")
        ends = (0, 1 << 31) if by > 0 else (1 << 31, -1 << 31)
        b, e = (end if left_out else n for n, end, left_out in zip((b, e), ends, skip, strict=True))
        size, o = op.shape[a], op.at[a]
        if all(isinstance(n, int) for n in (size, b, e)):
            op.require(by > 0 or b >= -size, "it starts in front of the data")
            taken = range(size)[b:e:by]
            changes[a] = f"{o} * {by} + {taken.start}", len(taken)
        elif (b, e, by) != (0, 1 << 31, 1):
            op.require(by > 0, "an axis of open size is reversed")
            behind = [(n, op.facts.holds(n, "<", 0)) for n in (b, e)]
            known = all(k or op.facts.holds(n, ">=", 0) for n, k in behind)
            op.require(known, "a bound may count from either end")
            b, e = (f"max({size} + {n}, 0)" if k else n for n, k in behind)
            count = f"floor((max(min({e}, {size}) - ({b}), 0) + {by} - 1)/{by})"
            changes[a] = f"{o} * {by} + {b}", count
    return op.changed(changes)


def _concat(op: SecondOperation) -> SecondStep:
    every = [op.side.shape(p) for p in op.inputs]
    out, (axis,) = [*op.shape], op.layer.ints("axis", 1)
    axis = range(len(out))[axis]
    sizes = [str(shape[axis]) for shape in every]
    ends = [" + ".join(sizes[:i]) or "0" for i in range(len(every) + 1)]
    out[axis] = op.facts.simple(ends[-1])
    reads = []
    for p, shape, begin in zip(op.inputs, every, ends, strict=False):
        for a, (n, size) in enumerate(zip(shape, out, strict=True)):
            op.demand(n, n if a == axis else size)
        at = axes_of(out)
        at[axis] = f"{at[axis]} - ({begin})"
        reads.append(op.read(p, out, at))
    return SecondStep(out, reads)


def _gather(op: SecondOperation) -> SecondStep:
    """Follow every constant index."""
    index, (axis,) = op.side.array(op.inputs[1]), op.axes(2)
    few = index.size <= MOST_SIZES and index.dtype.kind in "iu"
    op.require(few and not any(op.layer.ints("batch_dims")), "its indices are not followed")
    size, out = op.shape[axis], [*op.shape[:axis], *index.shape, *op.shape[axis + 1 :]]
    names, reads = axes_of(out), []
    for place, value in np.ndenumerate(index):
        chosen = f"{value} + {size}" if value < 0 else value
        where = [f"{o} = {n}" for o, n in zip(names[axis:], place, strict=False)]
        at = [*names[:axis], chosen, *names[axis + index.ndim :]]
        reads.append(op.read(op.inputs[0], out, at, *where))
    return SecondStep(out, reads)


def _tile(op: SecondOperation) -> SecondStep:
    repeats, rank = op.sizes(1), len(op.shape)
    sizes = [1] * (len(repeats) - rank) + op.shape
    repeats = [1] * (rank - len(repeats)) + repeats
    out = [n if k == 1 else product((n, k)) for n, k in zip(sizes, repeats, strict=True)]
    rows = zip(axes_of(out), sizes, repeats, strict=True)
    at = [o if k == 1 else f"{o} mod {n}" for o, n, k in rows]
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
    return op.changed({a: (f"floor({op.at[a]}/{k})", product((op.shape[a], k))) for a, k in rows})


def _broadcast(op: SecondOperation) -> SecondStep:
    op.require(op.layer.text("mode", "numpy") == "numpy", "its mode is not followed")
    out = op.sizes(1)
    return SecondStep(out, [op.stretched(op.inputs[0], out)])


def _arithmetic(op: SecondOperation) -> SecondStep:
    """Add, subtract, or scale by a constant; a mask of zeros and ones leaves out elements."""
    numpy = op.layer.text("auto_broadcast", "numpy") == "numpy"
    op.require(numpy, "its auto_broadcast is not followed")
    a, b = sorted(map(op.side.shape, op.inputs), key=len)
    a = [1] * (len(b) - len(a)) + a
    out = [n if m == 1 else m for m, n in zip(a, b, strict=True)]
    reads = [op.stretched(p, out) for p in op.inputs]
    if op.layer.type == "Subtract":
        reads[1] = reads[1][0], (op.inputs[1], np.array(-1.0))
    if op.layer.type in ("Add", "Subtract"):
        return SecondStep(out, reads, sums=True)
    constants = [op.side.constant(p) for p in op.inputs]
    if op.layer.type != "Multiply" or all(array is None for array in constants):
        return SecondStep(out)
    for array, mask, data in zip(constants, reads, reads[::-1], strict=True):
        if array is not None and array.size > 1 and np.isin(array, (0, 1)).all():
            kept = mask[0].intersect_range(_ones(array)).domain()
            return SecondStep(out, [(data[0].intersect_domain(kept), data[1])])
    return SecondStep(out, [(reads[0][0].flat_range_product(reads[1][0]), op.inputs)], sums=True)


def _ones(mask: Array) -> isl.Set:
    """Return the set in which a mask of zeros and ones is 1, if it is a product over axes."""
    every = {*range(mask.ndim)}
    rows = [np.asarray(mask.any(tuple(every - {a}))) for a in every]
    if not mask[np.ix_(*rows)].all():
        raise Unfollowed("a mask is no product of masks of its axes")
    texts = ["true"]
    for axis, row in enumerate(rows):
        n = len(row)
        period = next(p for p in range(1, n + 1) if (row == np.resize(row[:p], n)).all())
        kept = [f"i{axis} mod {period} = {r}" for r in np.flatnonzero(row[:period])]
        texts += [f"0 <= i{axis} < {n}", f"({' or '.join(kept) or 'false'})"]
    names = ", ".join(f"i{a}" for a in range(mask.ndim))
    return isl.Set(f"{{ [{names}] : {' and '.join(texts)} }}")


def _function(op: SecondOperation) -> SecondStep:
    arrays = [op.side.array(p) for p in op.inputs[1:]]
    op.require(all(a.size == 1 for a in arrays), "it has parameters per channel")
    attributes = op.layer.attributes
    said = [float(attributes[k]) for k in PARAMETERS if k in attributes]
    more = sorted((k, v) for k, v in attributes.items() if k not in PARAMETERS)
    step = op.changed({})
    step.function = (op.layer.type, (*said, *(float(a.reshape(-1)[0]) for a in arrays)), *more)
    return step


class Attributes:
    """The attributes of a layer under names that all systems share.

    `filter` names the axes of the filter: g the groups, C all input channels, c those of a group,
    m the outputs of a group, t1, t2, ... the taps.
    """

    def __init__(self, op: SecondOperation, axes: int) -> None:
        y = op.layer
        self.system, document = y.system, op.side.model.document
        # Of OpenVINO's document, what is cut off may be negative.
        self.documented = document and self.system == "openvino"
        self.strides = y.ints("strides stride stride_nd", axes, 1)
        self.dilations = y.ints("dilations dilation dilation_nd", axes, 1)
        both = "padding_nd padding"
        self.before = y.ints(f"pads_begin pre_padding {both}", axes)
        self.after = y.ints(f"pads_end post_padding {both}", axes)
        self.extra = y.ints("output_padding", axes)
        (self.groups,) = y.ints("groups group num_groups nb_groups", 1, 1)
        mode = y.text("auto_pad padding_mode", "explicit").removeprefix("k")
        explicit = mode in ("notset", "none") or mode.startswith(("explicit", "caffe_"))
        self.mode = "explicit" if explicit else mode
        known = explicit or mode in ("valid", "same_upper", "same_lower")
        y.require(known, f"it pads by {mode[:40]!r}")
        # Whether the channels are last, and whether same_upper means the larger half at the begin.
        self.last, self.inverted, self.asked = False, False, list[Size]()
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
            self.inverted = document and (self.last or y.version == "onnx_opset1")
        name = y.attributes.get("activation", "").strip()
        texts = [t for t in y.text("activation_params").split(",") if t.strip() and name != "Relu"]
        numbers = tuple(float(np.float32(t)) for t in texts)
        self.function = (_FUNCTIONS.get(name, name), numbers) if name else None

    def window(self, a: int, size: Size, kernel: int) -> tuple[Size, Size]:
        """Return `begin` and the number of outputs on an axis."""
        reach, stride = self.dilations[a] * (kernel - 1) + 1, self.strides[a]
        longest = f"({size} - 1) * {stride} + {reach + self.extra[a]}"
        asked = self.asked[a] if self.asked else None
        begin: Size = self.before[a] if self.mode == "explicit" else 0
        end: Size = self.after[a] if self.mode == "explicit" else 0
        same, total = self.mode.startswith("same"), ""
        if asked is not None and (same or self.documented or self.system == "onnx"):
            total = f"{longest} - {asked}"
        elif same and self.system == CONVOLUTION:
            total = f"floor(({size} - 1)/{stride}) * {stride} + {reach} - {size}"
        elif same and self.system == "onnx":
            total = f"{longest} - {size} * {stride}"
        elif same and self.system != "openvino":
            total = f"{reach - stride}"
        if total:  # it is cut off, or padded, in halves
            total = total if self.documented else f"max({total}, 0)"
            begin, end = (f"floor(({total} + {more})/2)" for more in (0, 1))
            if (self.mode == "same_upper") == self.inverted:
                begin, end = end, begin
        if self.system == CONVOLUTION:
            return begin, f"floor(({size} + {begin} + {end} - {reach})/{stride}) + 1"
        return begin, f"{longest} - ({begin}) - ({end})" if asked is None else asked


def convolution(op: SecondOperation) -> SecondStep:
    """Return sums of products over taps: the input channel of a group, a place on every axis.

    A deconvolution reads at S*i + D*k = o + begin, a convolution at S*o + D*k = i + begin.
    """
    facts, data, rank, shape = op.facts, op.shape, len(op.shape), op.side.shape(op.inputs[1])
    d = Attributes(op, rank - 2)
    op.require(min(*d.strides, *d.dilations, d.groups) > 0, "a stride or the like is not positive")
    op.require(len(d.filter) == len(shape), "the rank of its filter does not fit")
    op.require(all(isinstance(n, int) and n for n in shape), "its filter is open or empty")
    of: dict[str, Any] = {"g": d.groups, **dict(zip(d.filter, shape, strict=True))}
    of.setdefault("c", of.get("C", 0) // of["g"])
    of["C"] = of["g"] * of["c"]
    channel, space = (rank - 1, range(1, rank - 1)) if d.last else (1, range(2, rank))
    op.demand(data[channel], of["C"])
    out, o = [*data], axes_of(data)
    out[channel], at = of["g"] * of["m"], [*o]
    at[channel] = "C"
    where = [f"{o[channel]} = {of['m']} * g + m", f"C = {of['c']} * g + c"]
    for i, a in enumerate(space):
        begin, out[a] = map(facts.simple, d.window(i, data[a], of[f"t{1 + i}"]))
        if op.side.original and isinstance(out[a], str):  # it has such an output
            has = facts.read(isl.Set, f"{{ : 0 <= {out[a]} }}")
            for name in NAMES.findall(str(facts.settled(has.intersect(facts.within(out[a]))))):
                facts.limits[name] &= has
        at[a], of[f"x{i}"] = f"x{i}", data[a]
        ends = (o[a], f"x{i}") if d.system == CONVOLUTION else (f"x{i}", o[a])
        reach = f"{d.strides[i]} * {ends[0]} + {d.dilations[i]} * t{1 + i}"
        where.append(f"{reach} = {ends[1]} + {begin}")
    where += [f"0 <= {name} < {n}" for name, n in of.items()]
    at += d.filter
    factors: tuple[Any, ...] = op.inputs[:2]
    if op.side.constant(op.inputs[1]) is None:
        # Several taps may read one element of the operand behind the filter: each counts.
        taps = [name for name in of if name[0] in "ct"]
        at, factors = at + taps, (*factors, np.ones([of[name] for name in taps]))
    reads: list[SecondRead] = [(facts.relation(out, at, where, [*of]), factors)]
    if d.system not in ("openvino", CONVOLUTION) and len(op.inputs) > 2:
        reads.append((facts.relation(out, [o[channel]]), op.inputs[2:3]))
    return SecondStep(out, reads, sums=True, function=d.function)


_RULES: dict[str, Callable[[SecondOperation], SecondStep]] = {
    "Parameter Const": _declared,
    "ShapeOf": lambda op: SecondStep([len(op.shape)]),
    "Convert Negative": lambda op: SecondStep(op.shape),
    "Convolution GroupConvolution ConvTranspose Deconvolution": convolution,
    "ConvolutionBackpropData GroupConvolutionBackpropData": convolution,
    "Identity": lambda op: op.changed({}),
    "Transpose": _transpose,
    "Reshape Squeeze Unsqueeze": _reshape,
    "DepthToSpace": _depth_to_space,
    "Pad": _pad,
    "Slice StridedSlice": _slice,
    "Concat": _concat,
    "Gather": _gather,
    "Tile": _tile,
    "Interpolate": _interpolate,
    "Broadcast": _broadcast,
    "Add Subtract Multiply Divide FloorMod Maximum Minimum": _arithmetic,
    "ReLU Sigmoid Tanh PReLU Clamp HardSigmoid": _function,
}
STEPS = {kind: rule for kinds, rule in _RULES.items() for kind in kinds.split()}
