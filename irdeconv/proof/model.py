"""A model in the proof: layers in order, with attributes as the file spells them.

Also the registry of operations, and their helpers: attributes, vectors, limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from irdeconv.proof.spelling import integer

Array = np.ndarray[Any, np.dtype[Any]]
Ints = tuple[int, ...]
Interval = tuple[int, int | None]  # the sizes low..high; None: no upper limit
Shape = tuple[int | Interval, ...]


class Unproved(Exception):
    """The equality of two values does not follow; the text has the reason."""


def need(holds: Any, text: str) -> None:
    """Raise Unproved with a text unless something holds."""
    if not holds:
        raise Unproved(text)


FOLLOWED = 8192  # units of work to follow a layer
COUNTERS: list[Callable[[int], None]] = []  # of work; they raise Unproved if it is too much


def spend(units: int) -> None:
    """Count work in units of about 10 nanoseconds, before it is done."""
    for count in COUNTERS:
        count(units)


class Port(NamedTuple):
    """Output `port` (counted from 0) of layer `layer` (its place in the model)."""

    layer: int
    port: int = 0


class TypedArray(NamedTuple):
    """Elements with the type in the file: "f32", "i64", "boolean", "bf16", ...

    Types that NumPy lacks are held in wider ones (bf16 in float32, u4 in uint8). `stored` is the
    float type of NumPy in which a file has them, if that is known.
    """

    array: Array
    type: str
    stored: Any = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the axes."""
        return tuple(self.array.shape)


class Fact(NamedTuple):
    """Element type and shape of a value; None: not known."""

    type: str | None
    shape: Shape | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.type}[...]"
        sizes = [
            str(n) if isinstance(n, int) else f"{n[0]}..{'' if n[1] is None else n[1]}"
            for n in self.shape
        ]
        return f"{self.type}[{','.join(sizes)}]"


@dataclass(frozen=True)
class Layer:
    """One layer.

    `attributes` are those of <data>, `inputs` the sources by input ports, `outputs` the declared
    outputs (never believed inside a rewritten region), `names` the tensor names of each output.
    `elements` are a constant's. `rest` is the canonical text of all else, never empty if the layer
    has bodies. `bodies` are those of loops and branches by their tags; they are no part of `rest`.
    """

    name: str
    type: str
    version: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Fact, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    elements: TypedArray | None = None
    rest: str = ""
    bodies: tuple[tuple[str, Model], ...] = ()

    def __str__(self) -> str:
        return f'{self.type} "{self.name}"'


@dataclass(frozen=True)
class Model:
    """Layers, each behind its inputs; inputs and results as places in the file's order.

    `rest` is the canonical text of all else that could matter. `files` has SHA-256 and size of the
    bytes of "xml" and "bin"; nothing for graphs in memory.
    """

    layers: tuple[Layer, ...]
    parameters: Ints
    results: Ints
    rest: str = ""
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict, compare=False)

    def of(self, port: Port) -> Layer:
        """Return the layer that computes a value."""
        return self.layers[port.layer]


def region(
    model: Model, output: Port, stops: Callable[[Port, Layer | None], bool], most: float = math.inf
) -> tuple[list[int], list[Port]]:
    """Return the layers between a value and those at which it `stops`, in order, and the latter.

    `stops` takes a value, and its reader unless it is the output. The walk needs no recursion, as
    each layer is behind its inputs: models are deep.
    """
    places, ends = set[int](), dict[Port, None]()
    todo: list[tuple[Port, Layer | None]] = [(output, None)]
    while todo:
        port, reader = todo.pop()
        if stops(port, reader):
            ends[port] = None
        elif port.layer not in places:
            places.add(port.layer)
            room((len(places),), most, "layers")
            layer = model.of(port)
            todo += [(p, layer) for p in layer.inputs]
    return sorted(places), list(ends)


@dataclass(frozen=True)
class Obligation:
    """To show: value `output` of `lowered` equals value `wanted` of `source`.

    `twins` maps values of `lowered` to equal values of `source`, among them all that a region reads
    from outside. `fact` returns type and shape of values of `source`.
    """

    source: Model
    lowered: Model
    wanted: Port
    output: Port
    twins: Mapping[Port, Port]
    fact: Callable[[Port], Fact]


@dataclass(frozen=True)
class Proof:
    """An obligation that was met.

    `method` is by index maps, or element by element. `sizes` are the proved ones in words; `every`:
    these are all that `fact` allows. `maps` has the index maps, one line each. `rounding` is the
    largest relative difference of a weight. `view` has the index maps of
    a deconvolution, if it was followed by them.
    """

    method: str
    sizes: str
    every: bool
    maps: tuple[str, ...] = ()
    rounding: float = 0.0
    assumed: tuple[str, ...] = ()
    view: Any = None


LARGEST_ARRAY, HIGHEST_RANK, LONGEST_VECTOR = 1 << 25, 16, 1 << 16
MOST_LAYERS = 20_000  # of what was rewritten
MOST_RESIZED = 1 << 19  # elements of an axis; OpenVINO computes places in f32
FLOATS = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.float32}
BITS = {"i64": 64, "i32": 32, "i16": 16, "i8": 8, "u64": 64, "u32": 32, "u16": 16, "u8": 8}
PACKED = {"i4": 4, "u4": 4}  # only Convert reads them
# What does not fit is refused by Python or NumPy.
REFUSED = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
ALL = range(LONGEST_VECTOR)
Run = Callable[..., Any]


class Listed(NamedTuple):
    """The rule of an operation; `ports` have the moved elements, or share a type.

    `takes` has a letter for each port: "x" for these, "v" a vector, "s" a scalar, "e" either of
    them, "a" any array; "?" behind it: it may be missing, "*": there may be more. Capital ones take
    integers of any type. `attributes` have OpenVINO's default if one may be missing.
    """

    run: Run
    ports: Sequence[int]
    takes: Sequence[str]
    attributes: Sequence[str]


RULES: dict[str, dict[int, Listed]] = {}  # for each type, by the opset from which on it holds
MOVES: dict[str, Sequence[int]] = {}  # the types that only move elements, those at these ports


def op(rows: str, moves: bool = True) -> Callable[[Run], Run]:
    """Return a decorator: it adds a function to RULES under rows "Type-opset takes attributes"."""

    def add(run: Run) -> Run:
        for head, letters, *attributes in map(str.split, rows.split("|")):
            name, _, opset = head.partition("-")
            takes = letters.split(",")
            ports = ALL if letters == "x*" else [p for p, v in enumerate(takes) if v == "x"]
            RULES.setdefault(name, {})[int(opset)] = Listed(run, ports, takes, attributes)
            MOVES.update({name: ports} if moves else {})
        return run

    return add


@dataclass(frozen=True)
class Call:
    """A layer at work; `said` are its attributes with defaults.

    Rules move arrays by the methods from `pick` on; in `proof.steps` these take views of open
    sizes.
    """

    layer: Layer
    said: Mapping[str, str]
    opset: int
    types: Sequence[str] = ()
    type: str = ""  # of the outputs
    nothing: int = 0  # marks an inserted zero

    def need(self, holds: Any, text: str) -> None:
        """Raise Unproved with the text unless it holds."""
        need(holds, f"{self.layer}: {text}")

    def word(self, name: str, *words: str) -> str:
        """Return an attribute that is one of some words; "" for false, if there are none."""
        fits = self.said[name] in (words or ("true", "1", "false", "0"))
        self.need(fits, f'{name}="{self.said[name]}" is not followed')
        return self.said[name] if words or self.said[name] in ("true", "1") else ""

    def ints(self, name: str) -> Ints:
        """Return an attribute that lists small integers."""
        return listed(self.layer, name, self.said[name], 10**5)

    def vector(
        self, given: Any, length: int | None = None, least: int = 0, far: bool = False
    ) -> Ints:
        """Return the exact integers of a vector, or of a scalar; `far`: also beyond 32 bits."""
        found = whole(given, far)
        fits = least <= len(found) < LONGEST_VECTOR and length in (None, len(found))
        self.need(fits, f"a vector of {len(found)} numbers instead of {length or 'more'}")
        return found

    def room(self, shape: Iterable[int]) -> Ints:
        """Return a shape that an array may have."""
        shape = tuple(shape)
        fits = len(shape) <= HIGHEST_RANK and min(shape, default=0) >= 0
        self.need(fits, f"no result of shape {shape}")
        room((max(d, 1) for d in shape), what=f"elements of {self.layer}, in the shape {shape},")
        return shape

    def together(self, *x: Array) -> None:
        """Check arrays that are broadcast to each other."""
        self.room(np.broadcast_shapes(*(a.shape for a in x)))

    def pick(self, x: Any, axis: int, at: Array) -> Any:
        """Return the elements at some places of an axis; outside of it there is nothing."""
        self.room((*x.shape[:axis], at.size, *x.shape[axis + 1 :]))
        return pick(x, axis, at, self.nothing)

    def pad(self, x: Any, rows: Sequence[tuple[Any, Any]]) -> Any:
        """Pad each axis before and behind with `nothing`; negative numbers crop."""
        sizes = [(n, *row) for n, row in zip(x.shape, rows, strict=True)]
        # At run time OpenVINO reads foreign memory where an axis is cropped by more than its size.
        fits = all(min(b, e) >= -n for n, b, e in sizes)
        self.need(fits, "it crops zeros that it inserts itself")
        self.room(map(sum, sizes))
        for axis, (n, b, e) in enumerate(sizes):
            x = self.pick(x, axis, np.arange(-b, n + e)) if b or e else x
        return x

    def cut(self, x: Any, parts: Sequence[Any]) -> Any:
        """Return slices of the axes."""
        return np.asarray(x[tuple(parts)], x.dtype)

    def each(self, x: Any, axis: int, places: Array) -> Any:
        """Put copies (places of 0) or `nothing` (others) in place of each element of an axis."""
        return self.merge(self.pick(self.expand(x, [axis + 1]), axis + 1, places), axis)

    def insert(self, x: Any, axis: int, stride: int, trailing: bool) -> Any:
        """Insert stride - 1 times `nothing` between elements; `trailing`: behind the last, too."""
        if stride == 1:
            return x
        room([stride])  # which are made at once
        # S*(I - 1) + 1 elements, but none of none: the question splits the case at I = 0.
        cut = 0 if trailing or not x.shape[axis] > 0 else 1 - stride
        rows = [(0, cut if a == axis else 0) for a in range(x.ndim)]
        return self.pad(self.each(x, axis, np.arange(stride)), rows)

    def resize(self, x: Any, axis: int, f: int, h: int) -> Any:
        """Repeat each element f times: output o is element floor((2*o + h) / (2*f))."""
        n = x.shape[axis]
        self.need(f * n < MOST_RESIZED, f"{f * n} elements may be too many for f32")
        at = np.clip((2 * np.arange(f * n) + h) // (2 * f), 0, n - 1)
        return self.pick(x, axis, at) if f > 1 else x

    def join(self, parts: Sequence[Any], axis: int) -> Any:
        """Join tensors along an axis."""
        self.room([sum(p.size for p in parts)])
        return np.concatenate(parts, axis)

    def expand(self, x: Any, axes: Sequence[int]) -> Any:
        """Return x with axes of size 1 at these places of the result."""
        return np.expand_dims(x, tuple(axes))

    def merge(self, x: Any, axis: int) -> Any:
        """Make one axis of two neighbours, in row-major order."""
        m, n, *behind = x.shape[axis:]
        return x.reshape((*x.shape[:axis], m * n, *behind))

    def broadcast(self, x: Any, shape: Sequence[Any]) -> Any:
        """Repeat x along its axes of size 1."""
        return np.broadcast_to(x, self.room(shape))

    def reshape(self, x: Any, shape: Sequence[Any], kept: Sequence[int] | None = None) -> Any:
        """Return x in another shape; a size of -1 follows from the others.

        `kept` are the axes whose size special_zero copies from x; None: special_zero is off.
        """
        out, kept = list(shape), kept or ()
        if -1 in out:  # kept dimensions cancel, even those of 0
            size = math.prod(d for i, d in enumerate(x.shape) if i not in kept)
            rest = -math.prod(d for i, d in enumerate(out) if i not in kept)
            self.need(rest and size % rest == 0, f"no size fits in place of -1 in {out}")
            out[out.index(-1)] = size // rest
        return x.reshape(self.room(out))

    def inside(self, at: TypedArray, sizes: Any, wraps: bool) -> Array:
        """Return indices counted from 0; with `wraps` negative ones count from the end."""
        x = at.array
        fits = x.dtype != object and (x >= (np.negative(sizes) if wraps else 0)) & (x < sizes)
        fits = at.type in ("i32", "i64") and x.size and np.all(fits)
        self.need(fits, f"indices are outside of {sizes}")
        return np.asarray(np.where(x < 0, x + sizes, x), np.int64)

    def whole(self, x: Any, type: str) -> Array:
        """Return integers, each of which fits the type and 32 bits, in 64 bits or as objects."""
        x, bits = np.asarray(x), min({**BITS, **PACKED}.get(type, 1) - (type[0] == "i"), 31)
        low = -(1 << bits) + (bits == 31) if type[0] == "i" else 0  # -2^31 has no opposite
        known = [v for v in x.flat if isinstance(v, int)] if x.dtype == object else []
        known += [x.min(), x.max()] if x.size and x.dtype != object else []
        fits = all(low <= v < 1 << bits for v in known)
        self.need(fits, f"integers beyond {type} or 32 bits: {known[:9]}")
        return np.asarray(x if x.dtype == object else x.astype(np.int64))

    def real(self, x: Any, type: str) -> Array:
        """Return real numbers within the normal range of their type, in float64.

        f16 and bf16 hold them as they are; a product of f32 may be rounded.
        """
        fits = (x == 0) | normal(x)
        self.need(type in FLOATS and np.all(fits), f"numbers beyond the range of {type}")
        x = np.asarray(x, np.float64)
        return self.exact(x, type) if type in ("f16", "bf16") else x

    def exact(self, x: Any, type: str) -> Array:
        """Return real numbers that their type holds as they are, as a sum may cancel all else."""
        held = np.asarray(x, FLOATS[type])
        short = type != "bf16" or not (held.view(np.uint32) & 0xFFFF).any()
        self.need(short and np.array_equal(held, x), f"numbers that {type} rounds")
        return np.asarray(x, np.float64)


def normal(x: Array) -> Array:
    """Return which numbers are normal ones of f32; smaller ones may become 0."""
    return np.asarray((abs(x) >= 2.0**-126) & (abs(x) < 2.0**128))


def listed(
    layer: Layer, name: str, text: str, end: float = 10**10, read: Callable[[str], Any] = integer
) -> tuple[Any, ...]:
    """Return the numbers -end < n < end that an attribute lists, none if it is empty."""
    try:
        found = [read(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        found = [end]
    fits = all(-end < v < end for v in found)
    need(fits, f'{layer}: {name}="{text[:40]}" is no list of small numbers')
    return tuple(found)


def vector(given: Any, far: bool = False) -> list[Any]:
    """Return the integers, known or symbolic, of a vector or scalar; `far`: also beyond 32 bits.

    OpenVINO cuts them to 32 bits; of a step of -2^31 it dies.
    """
    known = isinstance(given, TypedArray) and given.array.ndim < 2 and given.type in ("i32", "i64")
    need(known, "a vector of integers is not known")
    # Python integers; open sizes (Expr) have no __index__.
    found = [v.__index__() if hasattr(v, "__index__") else v for v in given.array.flat]
    near = far or all(abs(v) < 1 << 31 for v in found if isinstance(v, int))
    need(near, f"a vector has numbers beyond 32 bits: {found[:9]}")
    return found


def whole(given: Any, far: bool = False) -> Ints:
    """Return the integers of a vector or scalar; none may be symbolic."""
    found = vector(given, far)
    need(all(hasattr(v, "__index__") for v in found), "a vector depends on open sizes")
    return tuple(map(int, found))


def room(shape: Iterable[int], most: float = LARGEST_ARRAY, what: str = "elements") -> int:
    """Return the number of elements; Unproved if there are too many."""
    size = math.prod(shape)
    need(0 <= size <= most, f"{size} {what} are more than the proof takes on")
    if most == LARGEST_ARRAY:
        spend(size)
    return size


def pick(x: Array, axis: int, at: Array, nothing: int) -> Array:
    """Return the elements at some places of an axis, `nothing` for those outside of it."""
    kept = (at >= 0) & (at < x.shape[axis])
    if kept.all():
        return x.take(at, axis)
    out = np.full((*x.shape[:axis], at.size, *x.shape[axis + 1 :]), nothing, x.dtype)
    out[(slice(None),) * axis + (kept,)] = x.take(at[kept], axis)
    return out


def computed(c: Call, run: Run, inputs: Sequence[Any]) -> list[Array]:
    """Compute the outputs; Unproved if NumPy refuses."""
    try:
        with np.errstate(all="ignore"):
            out = run(c, *inputs)
    except REFUSED as e:
        raise Unproved(f"{c.layer} does not fit its inputs: {e}") from None
    return list(out) if isinstance(out, list) else [out]
