"""A deconvolution against its replacement, for all sizes, and the verdict on two models.

Values computed from the data are `View`s (maps.py). Sizes are ints or sizes.Expr. Decisions on the
way split the sizes into cases (sizes.every_case); every case has to be shown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.proof import language, views
from irdeconv.proof.definition import (
    CONVOLUTIONS,
    OWN,
    Activation,
    LayerDefinition,
    Relation,
    define,
    is_deconvolution,
)
from irdeconv.proof.linear import ModelWalk, NoOutput, Value
from irdeconv.proof.maps import MapComparison, Reference, View
from irdeconv.proof.model import (
    FLOATS,
    MOST_LAYERS,
    MOVES,
    REFUSED,
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
)
from irdeconv.proof.sizes import (
    INEQUALITY,
    LARGEST_SIZES,
    Case,
    Expr,
    Size,
    SizesTooLarge,
    SizesTooSmall,
    every_case,
    ratio,
)
from irdeconv.proof.steps import BEHIND, STEPS, biased, called, followed, weighed

Stop = Callable[[Port], Port | None]
_IN_INTEGERS = "Abs Add Convert Maximum Minimum Multiply Negative Range ShapeOf Subtract".split()


def prove(ob: Obligation) -> Proof:
    """Return the proof of an obligation about one deconvolution for all sizes; else Unproved."""
    with suppress(SizesTooSmall):
        return _up_to_the_largest(ob, 0)
    return _up_to_the_largest(ob, 1)


def _up_to_the_largest(ob: Obligation, least: int) -> Proof:
    for largest in LARGEST_SIZES[:-1]:
        with suppress(SizesTooLarge):
            return _proof(ob, least, largest)
    return _proof(ob, least, LARGEST_SIZES[-1])


def _proof(ob: Obligation, least: int, largest: int) -> Proof:
    """Return the proof for open sizes from `least` up to `largest`."""
    found: list[MapComparison] = []
    bounded: list[bool] = []

    def show(case: Case) -> None:
        walk = RegionWalk(ob, case, least)
        try:
            found.append(_compared(walk))
            bounded.append(walk.few_elements())
        except NoOutput:
            return
        except REFUSED as e:
            raise Unproved(f"what is computed does not fit together: {e}") from None

    cases = every_case(show, largest)
    need(found, "the source layer has no output at any size")
    data = found[0].wanted.data
    is_open = any(isinstance(n, Expr) for c in found for n in (*c.wanted.data, *c.view.shape))
    ends = f"from {least} up to {largest:,}" if least else f"up to {largest:,}"
    ends += " per axis" + ", and 2^31 - 1 elements per tensor" * any(bounded)
    sizes = f"every size ({ends})" if is_open else f"the size {list(data)}"
    if cases > 1:
        sizes += f", in {cases} cases"
    maps = dict.fromkeys(m for c in found for m in c.maps)
    view = None if found[0].wanted.definition.forward else found[0].view
    return Proof("index maps", sizes, True, tuple(maps), max(c.rounding for c in found), view=view)


def _compared(walk: RegionWalk) -> MapComparison:
    """Evaluate both sides, the one with the deconvolution first, and compare them."""
    ob, images = walk.ob, set(walk.ob.twins.values())
    sides: list[tuple[Model, Port, Stop]] = [
        (ob.source, ob.wanted, lambda p: p if p in images else None),
        (ob.lowered, ob.output, ob.twins.get),
    ]
    sides = [(model, end, _beginning(model, stop)) for model, end, stop in sides]
    layers = [_followed(*side) for side in sides]
    deconvolved = [any(map(is_deconvolution, side)) for side in layers]
    if any(deconvolved) and not deconvolved[0]:
        sides.reverse()
        walk.raised = True
    elif not any(deconvolved):
        one = [y.type in CONVOLUTIONS for y in layers[0]].count(True) == 1
        need(one, "no deconvolution is on either side, nor one convolution in the source")
    # It decides which leaf is the data and which one the filter, so the second side knows.
    first = walk.side(*sides[0])
    second = walk.side(*sides[1])
    if not isinstance(first, Reference) or not isinstance(second, View):
        raise Unproved("it is not one layer against what took its place")
    given = (y.elements for y in layers[not walk.raised] if y.elements is not None)
    stored = {e.type for e in given if e.type in FLOATS and e.array.any()}
    halves, second = stored == {"f16"}, views.plain(second)
    comparison = MapComparison(walk.case, first, second, halves and first.type != "f16")
    comparison.compare()
    return comparison


def _divides(n: Expr, shape: Sequence[Size]) -> bool:
    """Return whether a number is a product of sizes of a shape, or less by a whole factor."""
    sizes = [v for v in shape if isinstance(v, Expr)]
    most = math.prod(max(v, 1) for v in shape if not isinstance(v, Expr))
    chosen = (c for r in range(len(sizes)) for c in itertools.combinations(sizes, r + 1))
    return any(1 <= ratio(n, math.prod(c)) <= most for c in chosen)


def _moved(layer: Layer, inputs: Sequence[Any]) -> list[views.Numbers]:
    """Move numbers of elements; only zeros may join them."""
    ports, given = MOVES[layer.type], list[Any]()
    for port, value in enumerate(inputs):
        if port in ports:
            is_zero = not isinstance(value, views.Numbers)
            value = np.full(views.zero_shape(value), -1) if is_zero else value.array
        given.append(value)
    kind = next(v.type for v in inputs if isinstance(v, views.Numbers))
    return [views.Numbers(kind, a) for a in language.move(layer, given)]


def _followed(model: Model, output: Port, stop: Stop) -> list[Layer]:
    places, _ = region(model, output, lambda port, _: stop(port) is not None, MOST_LAYERS)
    return [model.layers[i] for i in places]


def _beginning(model: Model, stop: Stop) -> Stop:
    """Return where a region begins: constants, and what is computed from them, are part of it."""
    return lambda port: None if is_constant(model, port) else stop(port)


def is_constant(model: Model, port: Port, most: int = 64) -> bool:
    """Whether a value is computed from few constants alone."""
    with suppress(Unproved):
        places, _ = region(model, port, lambda p, _: False, most)
        layers = (model.layers[i] for i in places)
        return all(y.inputs or y.elements is not None for y in layers)
    return False


def open_leaf(case: Case, port: Port, name: str, fact: Fact, least: int) -> views.Leaf:
    """Return a value as a leaf; an open size is a symbol of `least` or its upper bound at least."""
    if fact.shape is None:
        raise Unproved(f'the rank of "{name}" is not known')
    sizes = list[Size]()
    for a, n in enumerate(fact.shape):
        low, high = (n, n) if isinstance(n, int) else n
        low = max(low, least if high is None else min(least, high))
        sizes.append(n if isinstance(n, int) else case.symbol(f"{name}[{a}]", low, high))
    return views.Leaf(port, fact.type, tuple(sizes))


class RegionWalk(ModelWalk):
    """Evaluates the regions of both models in one case of the sizes."""

    def __init__(self, ob: Obligation, case: Case, least: int = 0) -> None:
        super().__init__(ob.source, lambda port, _: None)
        self.ob, self.case, self.least = ob, case, least  # `least` of the open sizes
        # Data as a View, weights as Numbers, else a vector of symbols.
        self.leaves: dict[Port, Value] = {}
        self.count = 0  # of the numbers that leaves have
        self.shapes: list[tuple[Size, ...]] = []  # of tensors
        self.products: list[tuple[Layer, Expr]] = []  # of open sizes
        self.raised = False  # whether the deconvolution is in the lowered model
        self.is_leaf = False  # whether it reads data from outside

    def side(self, model: Model, output: Port, stop: Stop) -> Value:
        """Evaluate the region of a value of one of the models."""
        self.model, self.values = model, {}
        self.leaf = lambda port, _: None if (at := stop(port)) is None else self.begin(at)
        return self.value(output)

    def few_elements(self) -> bool:
        """Check products of sizes that fit 32 bits if no tensor has 2^31 elements.

        The product has to be one of sizes of some tensor; return whether there are any.
        """
        for layer, n in self.products:
            if not any(_divides(n, shape) for shape in self.shapes):
                raise SizesTooLarge(f"{layer}: {n} is no product of the sizes of a tensor")
        return bool(self.products)

    def begin(self, port: Port) -> Value:
        """Return a value of the source model by its role in the deconvolution."""
        if port not in self.leaves:
            name = self.ob.source.of(port).name
            leaf = open_leaf(self.case, port, name, self.ob.fact(port), self.least)
            self.shapes.append(leaf.shape)
            self.leaves[port], short = leaf, all(type(n) is int and n < 9 for n in leaf.shape)
            if leaf.type in ("i32", "i64") and len(leaf.shape) < 2 and short:  # may be sizes
                names = (f"{name}:{i}" for i in range(math.prod(leaf.shape)))
                symbols = [self.case.symbol(n, -self.case.largest) for n in names]
                array = np.array(symbols, object).reshape(leaf.shape)
                self.leaves[port] = TypedArray(array, leaf.type)
        return self.leaves[port]

    def step(self, layer: Layer, given: list[Value]) -> Sequence[Value]:
        """Return the outputs of a layer."""
        self.runs, self.fixed = True, not self.case.count
        # A leaf may have got its role since the walk met it.
        given = [self.leaves.get(v.port, v) if isinstance(v, views.Leaf) else v for v in given]
        made = super().step(layer, given)
        self.shapes += [v.shape for v in made if views.views_of(v)]
        return made

    def _followed(self, call: Call, given: Sequence[Value]) -> Sequence[Value]:
        layer = call.layer
        if any(isinstance(v, Reference) for v in given) and layer.type not in BEHIND:
            raise Unproved(f"{layer} behind the deconvolution is not followed for all sizes")
        # Zeros are joined and reshaped; with a number for each channel they are a bias.
        blank = (
            (views.Pieces, TypedArray, views.Numbers)
            if layer.type == "Add"
            else (views.Pieces, TypedArray)
        )
        zeros = layer.type in ("Add", "Concat", "Reshape")
        zeros = zeros and all(isinstance(v, blank) for v in given)
        if layer.type in STEPS and (zeros or any(map(views.views_of, given))):
            return followed(self.case, layer, given)
        if any(isinstance(v, views.Numbers) for v in given) and layer.type in MOVES:
            return _moved(layer, given)
        raise Unproved(f"{layer} is not followed for all sizes")

    def _known(self, layer: Layer, given: Sequence[TypedArray]) -> Sequence[Value]:
        if layer.type == "Broadcast" and layer.attributes.get("mode") == "numpy":
            value, target = given[0], vector(given[1])
            if len(given) == 2 and any(isinstance(n, Expr) for n in target):
                return [views.filled(self.case, value, target)]
        is_open = any(v.array.dtype == object for v in given)
        spend(INEQUALITY * sum(v.array.size for v in given) * is_open)
        out = super()._known(layer, given)
        self.within(layer, [*given, *out] if is_open else [])
        return out

    def numbered(self, leaf: views.Leaf) -> views.Numbers:
        """Let a leaf stand for its elements, with numbers that no other leaf has."""
        held = self.leaves[leaf.port]
        if not isinstance(held, views.Numbers):
            fixed = all(isinstance(n, int) for n in leaf.shape)
            need(fixed, "the shape of computed weights is open")
            first, self.count = self.count, self.count + room(leaf.shape, what="computed weights")
            array = np.arange(first, self.count).reshape(leaf.shape)
            held = self.leaves[leaf.port] = views.Numbers(leaf.type, array)
        return held

    def within(self, layer: Layer, values: Sequence[TypedArray]) -> None:
        """Check that numbers fit their type, and 32 bits, or 24 if OpenVINO computes in f32."""
        most = 32 if layer.type in _IN_INTEGERS or layer.type in MOVES else 24
        for array, kind, _ in values:
            for n in array.flat if array.dtype == object else ():
                signed, bits = kind[0] == "i", min(int(kind[1:]), most)
                low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
                if self.case.implies(n - low) and self.case.implies(high - 1 - n):
                    continue
                if signed and bits == 32 and any(len(m) > 1 for m in n.terms):
                    self.products.append((layer, n))
                else:
                    raise SizesTooLarge(f"{layer}: {n} may not fit {kind} within {bits} bits")

    def _operands(self, layer: Layer, given: list[Value]) -> tuple[LayerDefinition, Value, Value]:
        data, filter = given[:2]
        begins = isinstance(data, views.Leaf) or views.views_of(data)
        if not begins or isinstance(data, Reference):
            raise Unproved(f"the data of {layer} is not where a region begins")
        d, self.is_leaf = define(layer, len(data.shape)), isinstance(data, views.Leaf)
        self.runs = self.raised or not self.is_leaf
        if isinstance(data, views.Leaf):
            # A view does not say of which leaf it is.
            one = not any(isinstance(v, View) for v in self.leaves.values())
            need(one, f"{layer} reads other data than a layer before it")
            self.leaves[data.port] = views.data_view(data, d)
        filter = self.numbered(filter) if isinstance(filter, views.Leaf) else filter
        return d, data, filter._replace(array=d.ordered(views.elements(filter)))

    def _fits(self, layer: Layer, d: LayerDefinition, along: Relation) -> None:
        """Check that a layer has outputs; of a defined one in the source this is a fact."""
        # Where no size is open OpenVINO takes no convolution without outputs.
        out, least = along.outputs, self.fixed and layer.version != OWN
        if not self.runs:
            if self.case.implies(-1 - out):
                raise NoOutput(f"{layer} has no output")
        elif d.forward:
            fits = along.taps > 0 and self.case.implies(out - least)
            need(fits, f"the kernel of {layer} may not fit")
        elif not self.case.implies(out):  # S*(I - 1) + 1 of no input
            text = f"{layer} may have no output"
            raise Unproved(text) if self.is_leaf else SizesTooSmall(text)
        self.case.facts += [out] if isinstance(out, Expr) else []

    def _weighed(
        self, layer: Layer, d: LayerDefinition, x: Value, w: Value, relations: Sequence[Relation]
    ) -> Value:
        """Return a layer of leaves by its definition, another one as sums over a view."""
        need(w.type == x.type or not self.runs, f"{layer}: a filter of {w.type}")
        if isinstance(x, views.Leaf):
            return views.defined(x, d, w, relations)
        return weighed(called(self.case, layer), x, d, w, relations, self.inner)

    def _biased(self, layer: Layer, y: Value, bias: Value, axis: int) -> Value:
        need(isinstance(y, View), f"{layer} adds no bias")
        bias = self.numbered(bias) if isinstance(bias, views.Leaf) else bias
        return biased(called(self.case, layer), y, bias, axis)

    def _activated(self, value: View, last: Activation) -> View:
        return replace(value, activation=last)


@dataclass(frozen=True)
class LayerProof:
    """How a value of the source, `wanted`, is computed by `output`: by `proof`, or why not."""

    name: str
    type: str
    output: Port
    wanted: Port
    proof: Proof | None
    reason: str | None = None


@dataclass(frozen=True)
class ProofVerdict:
    """The result of a proof of two models.

    `unequal` are outputs that are not proved, `problems` other differences. `kept` are
    deconvolutions that both models have, `others` counts all other equal layers but constants.
    `rounding` is the largest relative difference of a weight. `bodies` are the verdicts on the
    bodies of equal layers, by tag and the places of the layers in both models; the other fields are
    without theirs.
    """

    layers: tuple[LayerProof, ...]
    problems: tuple[str, ...]
    unequal: tuple[str, ...]
    kept: tuple[str, ...]
    others: int
    twins: dict[Port, Port]
    assumed: tuple[str, ...]
    rounding: float
    bodies: tuple[tuple[str, int, int, ProofVerdict], ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all is proved, for every size or those that the proofs name."""
        return not self.problems and not self.unequal

    @property
    def every(self) -> bool:
        """Whether the proofs hold for every size."""
        own = all(y.proof.every for y in self.layers if y.proof is not None)
        return own and all(v.every for _, _, _, v in self.bodies)

    @property
    def taken(self) -> tuple[str, ...]:
        """All assumptions, those of bodies as well."""
        inner = (text for _, _, _, v in self.bodies for text in v.taken)
        return tuple(dict.fromkeys([*self.assumed, *inner]))

    @property
    def exit_code(self) -> int:
        """0: for every size; 3: for some sizes, or under assumptions; 1: not proved."""
        return 1 if not self.passed else 0 if self.every and not self.taken else 3

    def lines(self) -> list[str]:
        """Return the verdict and its reasons."""
        lines = [f"{self.others} equal layers, {len(self.kept)} deconvolutions as they were"]
        for tag, _, place, verdict in self.bodies:
            lines += [f"in the {tag} of layer {place}: {text}" for text in verdict.lines()[:-1]]
        for y in self.layers:
            how = f"{y.proof.method}, {y.proof.sizes}" if y.proof else f"not proved: {y.reason}"
            lines += [f'{y.type} "{y.name}": {how}', *(y.proof.maps if y.proof else ())]
        lines += [f"assumed: {text}" for text in self.assumed]
        if self.rounding:
            lines.append(f"weights are rounded, by up to {self.rounding:.2g} of each")
        end = "equal for every size" if self.every else "equal for the sizes above"
        end += ", if what is assumed is so" if self.taken else ""
        return [
            *lines,
            *(f"problem: {p}" for p in (*self.problems, *self.unequal)),
            end if self.passed else "not proved",
        ]
