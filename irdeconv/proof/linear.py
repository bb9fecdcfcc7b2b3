"""The walk over a region, and proofs at exact sizes of everything that is linear in the data.

A `ModelWalk` takes each layer by its rule, and evaluates constants and sizes as arrays. Subclasses
represent what depends on data: `LinearWalk` by sums of numbered elements, `symbolic.RegionWalk` by
views of the data, also at open sizes, `verify.probe` by residues modulo a prime.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple as axes_of

from irdeconv.proof.definition import (
    ACTIVATIONS,
    CONVOLUTIONS,
    OWN,
    Activation,
    LayerDefinition,
    Relation,
    activation,
    check_runs,
    define,
    finish,
    is_deconvolution,
)
from irdeconv.proof.language import check_open, evaluate, listed_call, move, output_type
from irdeconv.proof.model import (
    BITS,
    FLOATS,
    FOLLOWED,
    MOST_LAYERS,
    MOVES,
    REFUSED,
    RULES,
    Array,
    Call,
    Fact,
    Layer,
    Model,
    Obligation,
    Port,
    Proof,
    TypedArray,
    Unproved,
    need,
    region,
    room,
    spend,
    vector,
    whole,
)
from irdeconv.proof.sizes import Expr, is_int
from irdeconv.proof.sums import MOST_HELD, NONE, Bases, Block, Linear, Term, added, scaled

MOST_SUMMED = 4096
# The types of constants as files store them, to which weights may be rounded.
_STORED = {"f16": np.float16, "f32": np.float32}


Value = Any  # a TypedArray, or what depends on data
Leaf = Callable[[Port, Layer], Value | None]


class Misfit(Unproved):
    """The size of an axis of the data does not fit the filter."""

    def __init__(self, text: str, axis: tuple[Port, int], size: int) -> None:
        super().__init__(text)
        self.axis, self.size = axis, size


class NoOutput(Unproved):
    """A layer has no output at the sizes chosen."""


def convolves(layer: Layer) -> bool:
    """Whether a layer is a convolution or deconvolution."""
    return layer.type in CONVOLUTIONS or is_deconvolution(layer)


@dataclass
class ModelWalk:
    """Evaluates values of a model.

    Those that depend on data have `type`, `shape`, and, at exact sizes, `each`, which moves their
    elements. `leaf` returns the values at which it stops, by port and reader. With `runs`, OpenVINO
    has to run the deconvolutions; `fixed`: all sizes are known before. `inner` says whether a
    convolution reads what is made of the layer that is looked at.
    """

    model: Model
    leaf: Leaf
    runs: bool = False
    fixed: bool = False
    values: dict[Port, Value] = field(default_factory=dict)
    inner: bool = False
    # The rules of layers that depend on data and do not only move them.
    rules: ClassVar[dict[str, Callable[..., Value]]]
    lift: ClassVar[Any]  # (value): a constant as what values are that depend on data
    _joined: ClassVar[Any]  # (values): all elements behind one another, then a zero
    _plus: ClassVar[Any]  # (a, b): the sum of values of one shape
    _negated: ClassVar[Any]  # (value): its opposite
    _activated: ClassVar[Any]  # (value, last): a value behind an activation
    # (layer, x, w, reads): the sums [N, g, m, *O] over data [N, g, k, *S] times [g, m, k, *T].
    _block: ClassVar[Any]

    def value(self, port: Port) -> Value:
        """Return a value; Unproved if it cannot be followed."""

        def stops(p: Port, reader: Layer | None) -> bool:
            found = reader and (self.values.get(p) or self.leaf(p, reader))
            if found is not None:
                self.values[p] = found
            return found is not None

        places, _ = region(self.model, port, stops, MOST_LAYERS)
        ahead = set[int]()  # what convolutions read
        for place in reversed(places):
            layer = self.model.layers[place]
            if place in ahead or convolves(layer):
                ahead |= {p.layer for p in layer.inputs}
        followed = set(places)
        last = {p: place for place in places for p in self.model.layers[place].inputs}
        for place in places:
            layer, self.inner = self.model.layers[place], place in ahead
            known = bool(layer.inputs) or layer.elements is not None
            need(known, f"{layer} is no part of the rewriting")
            try:
                made = self.step(layer, [self.values[p] for p in layer.inputs])
            except REFUSED as e:
                raise Unproved(f"{layer} is not followed: {e}") from None
            for i, value in enumerate(made):
                self.values.setdefault(Port(place, i), value)
            for p in {p for p in layer.inputs if p.layer in followed and last[p] == place}:
                del self.values[p]  # nothing else reads it
        return self.values[port]

    def step(self, layer: Layer, given: list[Value]) -> Sequence[Value]:
        """Return the outputs of a layer."""
        spend(FOLLOWED)
        if layer.elements is not None:
            return [layer.elements._replace(stored=_STORED.get(layer.elements.type))]
        if convolves(layer):
            return [self._convolve(layer, given)]
        need(layer.type in RULES, f"{layer} is not followed")
        call, _ = listed_call(layer, given)
        if layer.type == "ShapeOf":
            is_open = any(isinstance(n, Expr) for n in given[0].shape)
            sizes = np.array(given[0].shape, object if is_open else np.int64)
            return [TypedArray(sizes, output_type(layer, ["f32"]))]
        output_type(layer, [str(v.type) for v in given])  # refuses what misfits
        known = all(isinstance(v, TypedArray) for v in given)
        if known and layer.type not in ("MatMul", "Einsum"):
            return self._known(layer, given)
        return self._followed(call, given)

    def _known(self, layer: Layer, given: Sequence[TypedArray]) -> Sequence[TypedArray]:
        """Return what is computed from constants and sizes alone."""
        if self.runs and not self.fixed:
            check_open(layer, [v.type for v in given])
        ports = (0,) if layer.type == "Convert" else MOVES.get(layer.type, ())
        kinds = {v.stored for i, v in enumerate(given) if i in ports}
        stored = kinds.pop() if len(kinds) == 1 else None
        return [v._replace(stored=stored) for v in evaluate(layer, given)]

    def _followed(self, call: Call, given: Sequence[Value]) -> Sequence[Value]:
        """Return what depends on data."""
        if call.layer.type in MOVES:
            return list(self._moved(call.layer, given))
        call.need(call.layer.type in self.rules, "it is not followed")
        return [self.rules[call.layer.type](self, call, given)]

    def _moved(self, layer: Layer, given: Sequence[Value]) -> list[Value]:
        """Move the numbers of all elements, then these elements."""
        ports = MOVES[layer.type]
        values = [self.lift(v) for i, v in enumerate(given) if i in ports]
        whole = self._joined(values)
        ends = np.cumsum([0] + [math.prod(v.shape) for v in values]).tolist()
        starts = zip(itertools.pairwise(ends), values, strict=True)
        numbers = (np.arange(*e).reshape(v.shape) for e, v in starts)
        inputs = [next(numbers) if i in ports else v for i, v in enumerate(given)]
        return [self._taken(layer, whole, at) for at in move(layer, inputs)]

    def _taken(self, layer: Layer, whole: Value, at: Array) -> Value:
        return whole.each(partial(np.take, indices=at))

    def _pair(self, call: Call, given: Sequence[Value]) -> Sequence[Value]:
        """Return the operands of Add or Multiply in one shape."""
        return self._alike(call.layer, [self.lift(v) for v in given])

    def _alike(self, layer: Layer, values: Sequence[Value]) -> Sequence[Value]:
        shape = np.broadcast_shapes(*(v.shape for v in values))
        room(shape)
        return [v.each(partial(np.broadcast_to, shape=shape)) for v in values]

    def _add(self, call: Call, given: Sequence[Value]) -> Value:
        a, b = self._pair(call, given)
        return self._plus(a, self._negated(b) if call.layer.type == "Subtract" else b)

    def _activate(self, call: Call, given: Sequence[Value]) -> Value:
        value = self.lift(given[0])
        return self._activated(value, activation(call.layer, value.type, given[1:]))

    def _convolve(self, layer: Layer, given: list[Value]) -> Value:
        """Evaluate a convolution or deconvolution of any dialect by its definition."""
        d, x, w = self._operands(layer, given)
        (_, c, *space), (g, _, k, *kernel) = (x.shape[a] for a in d.data_axes), w.shape
        if not is_int(c - g * k, 0):
            text = f"{layer}: {c} channels of data, {g * k} of the filter"
            raise Misfit(text, (layer.inputs[0], d.data_axes[1]), g * k)
        relations = d.relations(space, kernel, lambda port: vector(given[port]))
        for along in relations:
            self._fits(layer, d, along)
        if self.runs:
            check_runs(layer, d, g * k, tuple(r.outputs for r in relations))
        y = self._weighed(layer, d, x, w, relations)
        if d.bias is not None:
            y = self._biased(layer, y, given[d.bias], d.data_axes[1])
        return self._activated(y, finish(d.activation, y.type)) if d.activation else y

    def _operands(self, layer: Layer, given: list[Value]) -> tuple[LayerDefinition, Value, Value]:
        """Return the definition, the data, and the filter [g, M/g, C/g, *K]."""
        x, w = (self.lift(v) for v in given[:2])
        d = define(layer, len(x.shape))
        return d, x, w.each(d.ordered)

    def _fits(self, layer: Layer, d: LayerDefinition, along: Relation) -> None:
        """Check that a layer has outputs."""
        if along.outputs < 0:
            raise NoOutput(f"{layer} would have {along.outputs} outputs")
        room((along.outputs, along.taps))
        least = d.forward and self.fixed and layer.version != OWN
        need(along.taps > 0 and along.outputs >= least, f"{layer}: the kernel does not fit")

    def _weighed(
        self, layer: Layer, d: LayerDefinition, x: Value, w: Value, relations: Sequence[Relation]
    ) -> Value:
        """Return the sums, without a bias."""
        (n, _, *space), (g, m, k, *_) = (x.shape[a] for a in d.data_axes), w.shape
        x = x.each(lambda a: a.transpose(d.data_axes).reshape(n, g, k, *space))
        back, shape = np.argsort(d.data_axes), (n, g * m, *(r.outputs for r in relations))
        y = self._block(layer, x, w, [r.readings() for r in relations])
        return y.each(lambda a: a.reshape(shape).transpose(back))

    def _biased(self, layer: Layer, y: Value, bias: Value, axis: int) -> Value:
        column = [n if a == axis else 1 for a, n in enumerate(y.shape)]
        bias = self.lift(bias).each(lambda a: a.reshape(column))
        return self._plus(*self._alike(layer, [y, bias]))

    def _einsum(self, call: Call, given: Sequence[Value]) -> Value:
        text = call.said["equation"]
        parts = re.fullmatch("([A-Za-z]+),([A-Za-z]+)->([A-Za-z]*)", text)
        if parts is None:
            raise Unproved(f"{call.layer} has the equation {text[:40]!r}")
        return self._product(call.layer, given, [list(p) for p in parts.groups()])

    def _matmul(self, call: Call, given: Sequence[Value]) -> Value:
        values, labels = [self.lift(v) for v in given], []
        for value, name, side in zip(values, "ab", ("ik", "kj"), strict=True):
            flag = call.word(f"transpose_{name}")
            last = ["k"] if len(value.shape) == 1 else list(reversed(side) if flag else side)
            labels.append([f"{i}" for i in range(len(value.shape) - len(last), 0, -1)] + last)
        batch = [la for la in max(labels, key=len) if la not in "ijk"]
        for i, value in enumerate(values):  # an axis of size 1 is repeated along the other's
            other = dict(zip(labels[1 - i], values[1 - i].shape, strict=True))
            own = enumerate(zip(labels[i], value.shape, strict=True))
            axes = tuple(a for a, (la, n) in own if la != "k" and n == 1 < other.get(la, 1))
            values[i] = value.each(partial(np.squeeze, axis=axes))
            labels[i] = [la for a, la in enumerate(labels[i]) if a not in axes]
        out = batch + [la for la in "ij" if la in labels[0] + labels[1]]
        return self._product(call.layer, values, [*labels, out])

    def _swaps(self, x: Value, w: Value) -> bool:
        """Return whether `w` is the data of a product, and `x` the filter."""
        return False

    def _product(self, layer: Layer, given: Sequence[Value], labels: list[list[str]]) -> Value:
        """Multiply and sum by labels of axes; one operand is the data, the other one the filter."""
        x, w = (self.lift(v) for v in given)
        need(x.type in FLOATS, f"{layer} of {x.type}")
        of_x, of_w, out = labels
        if self._swaps(x, w):
            x, w, of_x, of_w = w, x, of_w, of_x
        sizes = dict(zip(of_x, x.shape, strict=True)) | dict(zip(of_w, w.shape, strict=True))
        both = [la for la in of_x if la in of_w]
        group, inner = [la for la in both if la in out], [la for la in both if la not in out]
        place, rows = ([la for la in one if la not in both] for one in (of_x, of_w))
        fits = all(sizes[la] == n for la, n in zip(of_x, x.shape, strict=True))
        single = all(len(set(names)) == len(names) for names in labels)
        if not fits or not single or sorted(place + group + rows) != sorted(out):
            raise Unproved(f"{layer} is not followed for its axes {labels}")
        n, g, k, m = (math.prod(sizes[la] for la in names) for names in (place, group, inner, rows))
        order = [of_x.index(la) for la in place + group + inner]
        x = x.each(lambda a: a.transpose(order).reshape(n, g, k))
        turn = [of_w.index(la) for la in group + rows + inner]
        w = w.each(lambda a: a.transpose(turn).reshape(g, m, k))
        made = place + group + rows
        shape, back = [sizes[la] for la in made], [made.index(la) for la in out]
        return self._block(layer, x, w).each(lambda a: a.reshape(shape).transpose(back))


ModelWalk.rules = {
    **dict.fromkeys(("Add", "Subtract"), ModelWalk._add),
    "Negative": lambda walk, call, given: walk._negated(walk.lift(given[0])),
    "MatMul": ModelWalk._matmul,
    "Einsum": ModelWalk._einsum,
    **dict.fromkeys(ACTIVATIONS, ModelWalk._activate),
}


@dataclass
class LinearWalk(ModelWalk):
    """Evaluates values as sums of terms; `choose` returns a vector for unknown sizes."""

    bases: Bases = field(default_factory=Bases)
    choose: Callable[[Port, Sequence[int]], TypedArray] | None = None
    held: int = 0  # elements of all values

    def lift(self, value: Value) -> Linear:
        """Return a constant as a sum of terms, too."""
        return value if isinstance(value, Linear) else self.bases.constant(value)

    def step(self, layer: Layer, given: list[Value]) -> Sequence[Value]:
        """Return the outputs of a layer."""
        made = super().step(layer, given)
        # All values are kept, as several layers may read one: their sum has a limit, too.
        self.held = room((1, self.held + sum(room(v.shape) for v in made)), MOST_HELD)
        return made

    def _operands(self, layer: Layer, given: list[Value]) -> tuple[LayerDefinition, Value, Value]:
        d, x, w = super()._operands(layer, given)
        port = d.output_shape
        if self.choose and port is not None and not isinstance(given[port], TypedArray):
            rows = enumerate(zip(d.data_axes[2:], w.shape[3:], strict=True))
            free = [d.window(a, x.shape[axis], k, None)[1] for a, (axis, k) in rows]
            given[port] = self.choose(layer.inputs[port], free)
        return d, x, w

    def _joined(self, values: Sequence[Linear]) -> Linear:
        need(len({v.last for v in values}) < 2, "what has other activations is joined")
        room((max(len(v.terms) for v in values), sum(math.prod(v.shape) for v in values)))
        blank = Term(np.full((), NONE))
        terms = []
        for row in itertools.zip_longest(*(v.terms for v in values), fillvalue=blank):
            pairs = [(t, v.shape) for t, v in zip(row, values, strict=True)]
            index = _behind([np.broadcast_to(t.number, shape) for t, shape in pairs], NONE)
            factor = [np.broadcast_to(1.0 if t.factor is None else t.factor, s) for t, s in pairs]
            plain = all(t.factor is None for t in row)
            terms.append(Term(index, None if plain else _behind(factor, 1.0)))
        return values[0]._replace(terms=tuple(terms))

    def _taken(self, layer: Layer, whole: Linear, at: Array) -> Value:
        if whole.last and (at < 0).any():
            raise Unproved(f"{layer} puts zeros beside what has an activation")
        room((len(whole.terms), *at.shape))
        return super()._taken(layer, whole, at)

    def _block(self, layer: Layer, x: Linear, w: Linear, reads: Sequence[Array] = ()) -> Linear:
        if x.last or w.last or x.type != w.type or x.type not in {*FLOATS, *BITS}:
            raise Unproved(f"{layer} is not followed for its types or an activation before it")
        for base in self.bases.of(x):
            base.is_data |= base.values is None and base.block is None
        sizes = [len(r) for r in reads]
        rows, inner = x.shape[1] * w.shape[1], math.prod(sizes)
        block = Block(x, w, tuple(reads))
        shape = (*x.shape[:2], w.shape[1], *sizes)
        numbers = self.bases.add(shape, block=block, rows=max(rows, 1), inner=max(inner, 1))
        return Linear(x.type, (Term(numbers),))

    _plus = staticmethod(added)

    def _negated(self, value: Linear) -> Linear:
        return scaled(value, np.array(-1.0))

    def _activated(self, value: Linear, last: Activation) -> Linear:
        return value._replace(last=(*value.last, last))

    def _swaps(self, x: Linear, w: Linear) -> bool:
        bases = [self.bases.of(v) for v in (x, w)]
        return any(b.is_data for b in bases[1]) or all(b.values is not None for b in bases[0])

    def _alike(self, layer: Layer, values: Sequence[Linear]) -> Sequence[Linear]:
        # OpenVINO computes sums of integers in three ways: modulo 2**n, up to the largest, in f32.
        types = {v.type for v in values}
        if len(types) > 1 or not types <= {*FLOATS} or any(v.last for v in values):
            raise Unproved(f"{layer} is not followed for its types or activations")
        return super()._alike(layer, values)

    def _scale(self, call: Call, given: Sequence[Value]) -> Linear:
        """Multiply or divide by a constant."""
        a, b = self._pair(call, given)
        value, constant = (a, given[1]) if isinstance(given[1], TypedArray) else (b, given[0])
        divides = call.layer.type == "Divide"
        if not isinstance(constant, TypedArray) or (divides and value is b):
            raise Unproved(f"{call.layer} does not take a value times a constant")
        c = np.asarray(constant.array, np.float64)
        if divides:
            with np.errstate(all="ignore"):
                c, exact = 1 / c, abs(np.frexp(c)[0]) == 0.5
            call.need((exact & np.isfinite(c)).all(), "it divides by other than powers of 2")
        return scaled(value, c)

    def _convert(self, call: Call, given: Sequence[Value]) -> Linear:
        value = self.lift(given[0])
        call.need(call.said["destination_type"] == value.type, f"it converts {value.type}")
        return value

    def _sum(self, call: Call, given: Sequence[Value]) -> Linear:
        [value] = self._alike(call.layer, [self.lift(given[0])])
        chosen = sorted(axes_of(whole(given[1]), len(value.shape)))
        shape = [n for a, n in enumerate(value.shape) if a not in chosen]
        first = value.each(lambda a: np.moveaxis(a, chosen, range(len(chosen))).reshape(-1, *shape))
        out = Linear(value.type, (Term(np.full(shape, NONE)),))
        for i in range(room((value.shape[a] for a in chosen), MOST_SUMMED)):
            out = added(out, first.each(partial(np.take, indices=i, axis=0)))
        keeps = call.word("keep_dims")
        return out.each(partial(np.expand_dims, axis=chosen)) if keeps else out


LinearWalk.rules = {
    **ModelWalk.rules,
    **dict.fromkeys(("Multiply", "Divide"), LinearWalk._scale),
    "ReduceSum": LinearWalk._sum,
    "Convert": LinearWalk._convert,
}


def _behind(arrays: Sequence[Array], last: float) -> Array:
    """Return all elements behind one another, then one more, which an index of -1 means."""
    return np.append(np.concatenate([a.reshape(-1) for a in arrays]), last)


SIZES, CUTS = (1, 2, 3, 5, 8), (0, 1, 2, 3, -1)


@dataclass
class Leaves:
    """The inputs of a region, with sizes chosen for open axes.

    An open axis has the size `wish` or the next one that is allowed, number `longer` one more;
    `fixed` are sizes of single ones. `cut` chooses by how much a wanted output is smaller.
    """

    ob: Obligation
    bases: Bases
    fixed: dict[tuple[Port, int], int]
    wish: int
    longer: int
    cut: int
    values: dict[Port, Value] = field(default_factory=dict)
    chosen: list[int] = field(default_factory=list)  # sizes of open axes
    asked: list[int] = field(default_factory=list)  # sizes wanted of the output

    def get(self, port: Port) -> Value:
        """Return the value at a port of the source."""
        if port not in self.values:
            self.values[port] = self._known(port) or self._numbered(port)
        return self.values[port]

    def choose(self, port: Port, free: Sequence[int]) -> TypedArray:
        """Return sizes of the output that are wanted at run time."""
        if port not in self.values:
            raise Unproved("the sizes wanted of the output are computed inside of the rewriting")
        cuts = itertools.islice(itertools.cycle(CUTS), self.cut, self.cut + len(free))
        sizes = [max(o - c, 1) for o, c in zip(free, cuts, strict=True)]
        self.asked += sizes
        type = self.ob.fact(port).type or "i64"
        self.values[port] = made = TypedArray(np.array(sizes, np.int64), type)
        return made

    def _known(self, port: Port) -> TypedArray | None:
        def leaf(read: Port, reader: Layer) -> Value | None:
            fact = self.ob.fact(read) if reader.type == "ShapeOf" else Fact(None, None)
            fixed = fact.shape is not None and all(isinstance(n, int) for n in fact.shape)
            return fact if fixed else None

        try:
            value = LinearWalk(self.ob.source, leaf, bases=self.bases).value(port)
        except Unproved:
            return None
        return value if isinstance(value, TypedArray) else None

    def _numbered(self, port: Port) -> Linear:
        type, shape = self.ob.fact(port)
        if shape is None:
            raise Unproved(f"the rank of {self.ob.source.of(port)} is not known")
        sizes = [n if isinstance(n, int) else self._size(port, a, *n) for a, n in enumerate(shape)]
        numbers = self.bases.add(tuple(sizes), rows=max(room(sizes), 1))
        return Linear(type, (Term(numbers),))

    def _size(self, port: Port, axis: int, low: int, high: int | None) -> int:
        if low == high:
            return low
        size = max(low, 1) + self.wish - 1 + (len(self.chosen) == self.longer)
        if (port, axis) in self.fixed:
            return self.fixed[port, axis]
        self.chosen.append(size if high is None else min(size, high))
        return self.chosen[-1]


def prove(ob: Obligation) -> Proof:
    """Prove the lowered value to be the wanted one, at fixed or some open sizes; else Unproved."""
    # One axis longer at a time: what holds only for equal sizes is found.
    plans = [(n, -1, i) for i, n in enumerate(SIZES)] + [(SIZES[-1], i, 0) for i in range(6)]
    fixed: dict[tuple[Port, int], int] = {}
    sizes: dict[tuple[int, ...], None] = {}
    failure, lines, worst = Unproved("no size was walked"), [], 0.0
    for plan in plans:
        leaves, wanted = _source(ob, fixed, plan)
        if isinstance(wanted, Unproved):
            failure = wanted  # the source does not allow these sizes
        else:
            worst = max(worst, _compared(ob, leaves, wanted))
            sizes[*leaves.chosen, *leaves.asked] = None
            lines.append(f"{list(wanted.shape)}: {leaves.bases.equations} equations of weights")
        if not leaves.chosen + leaves.asked or -1 < plan[1] >= len(leaves.chosen) - 1:
            break
    if not lines:
        raise failure
    is_open = any(sizes)
    listed = ", ".join("x".join(map(str, row)) for row in sizes)
    text = f"the open sizes {listed} only" if is_open else "its sizes, which are fixed"
    return Proof("element by element", text, not is_open, tuple(lines), worst)


def _source(
    ob: Obligation, fixed: dict[tuple[Port, int], int], plan: tuple[int, int, int]
) -> tuple[Leaves, Linear | Unproved]:
    """Return the source's value, with data of as many channels as its filters have."""
    stops = set(ob.twins.values())
    while True:
        leaves = Leaves(ob, Bases(), fixed, *plan)

        def leaf(port: Port, reader: Layer, leaves: Leaves = leaves) -> Value | None:
            return leaves.get(port) if port in stops else None

        walk = LinearWalk(ob.source, leaf, bases=leaves.bases, choose=leaves.choose)
        try:
            return leaves, walk.lift(walk.value(ob.wanted))
        except Misfit as e:
            if e.axis in fixed:
                return leaves, e
            fixed[e.axis] = e.size
        except Unproved as e:
            return leaves, e


def _compared(ob: Obligation, leaves: Leaves, wanted: Linear) -> float:
    """Return the rounding of the lowered value's weights; Unproved unless it is the wanted one."""

    def leaf(port: Port, reader: Layer) -> Value | None:
        return leaves.get(ob.twins[port]) if port in ob.twins else None

    fixed = not leaves.chosen + leaves.asked
    walk = LinearWalk(ob.lowered, leaf, runs=True, fixed=fixed, bases=leaves.bases)
    output = walk.lift(walk.value(ob.output))
    same = [f"{v.type} {list(v.shape)} {v.last}" for v in (output, wanted)]
    need(same[0] == same[1], f"the value is {same[0]}, the source's is {same[1]}")
    if 0 in wanted.shape:
        return 0.0
    ranks = {len(b.shape) for b in leaves.bases.all if b.is_data}
    why = None
    # Which axis has the channels is a guess that costs time only: every element may be a channel.
    for axis in (1, max(ranks, default=0) - 1, None):
        try:
            rounding = leaves.bases.equal(output, wanted, axis)
        except Unproved as e:
            why = why or e
            continue
        if rounding and not ranks:  # no weights: it may decide a size or an index
            raise Unproved("a constant that meets no data is rounded")
        return rounding
    raise why or Unproved("nothing was compared")
