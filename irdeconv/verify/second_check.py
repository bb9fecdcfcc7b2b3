"""A second opinion on a lowered model, by relations between elements that isl compares.

Both models are read from a value that should be equal back to values that both have. An output is
then a sum of products: relations say which element of the data meets which element of the filter.
The sums are equal for all data if for every output and element of the data the weights add up to
the same number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import islpy as isl
import numpy as np

from irdeconv.base import progress
from irdeconv.verify.second_definition import is_deconvolution
from irdeconv.verify.second_reading import (
    Array,
    Numbering,
    SecondLayer,
    SecondModel,
    SecondPort,
    Unfollowed,
)
from irdeconv.verify.second_relations import Merged, SecondStep, shown
from irdeconv.verify.second_side import (
    FAILURES,
    SecondFacts,
    SecondSide,
    normal,
    openvino_facts,
    tabulate,
)

AGREES, DIFFERS, NOT_APPLICABLE = "agrees", "differs", "does not apply"
ISL_OPERATIONS = 1_000_000  # of isl for one comparison
MOST_VISITS, DEEPEST = 20_000, 150  # of layers in one comparison
MOST_ELEMENT_TAPS = 8  # that read the same element for the same output
MOST_INNER_LAYERS = 6  # from a deconvolution to the value that both models have
MOST_COMPARISONS = 2  # of comparisons for one deconvolution
IN, OUT = isl.dim_type.in_, isl.dim_type.out


class SecondDiffers(Exception):
    """The two values differ; the text says in what."""


class Factor(NamedTuple):
    """An element of a constant, by a relation from outputs (and taps) to its position."""

    places: isl.Map
    array: Array


class SecondProduct(NamedTuple):
    """Elements of values that both models have, by number, times elements of constants."""

    sources: tuple[tuple[int, isl.Map], ...]
    factors: tuple[Factor, ...]

    def times(self, other: SecondProduct) -> SecondProduct:
        """Return the product of both."""
        return SecondProduct(self.sources + other.sources, self.factors + other.factors)


class SecondTerm(NamedTuple):
    """Products that are summed."""

    sources: tuple[int, ...]
    relation: isl.Map  # from an output to [elements of the sources -> position of the weight]
    arrays: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a position."""
        return tuple(n for a in self.arrays for n in a.shape)


@dataclass(frozen=True)
class SecondLeaf:
    """Outputs that are computed alike: functions, the last one first, of a sum of terms."""

    where: isl.Set
    functions: tuple[Any, ...]
    terms: tuple[SecondTerm, ...] = ()


@dataclass(frozen=True)
class SecondAnswer:
    """The answer for one deconvolution, or for the whole model."""

    layer: str
    verdict: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.layer}: {self.verdict}{self.text and ': '}{self.text}"

    def to_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"layer": self.layer, "verdict": self.verdict, "text": self.text}


def second_check(
    source: SecondModel,
    lowered: SecondModel,
    facts: Callable[[SecondModel], Any] | None = openvino_facts,
) -> list[SecondAnswer]:
    """Return an answer for each rewritten deconvolution, and as the last one for the model.

    `facts` returns shapes and folded integers from elsewhere.
    """
    return _Comparing(SecondFacts(Numbering(source, lowered), facts)).answers()


class _Comparing:
    def __init__(self, facts: SecondFacts) -> None:
        self.facts, self.numbers = facts, facts.numbering.of
        self.source, self.lowered = facts.numbering.models
        self.made: dict[str, SecondAnswer] = {}
        self.tries: dict[str, int] = {}
        self.named: dict[str, SecondPort] = {}
        for i, y in enumerate(self.source.layers):
            for port, names in enumerate(y.names):
                self.named |= dict.fromkeys((*names, y.name), SecondPort(i, port))

    def answers(self) -> list[SecondAnswer]:
        """Number the lowered model; compare values that should be equal by names and readers."""
        with progress.stage("checking again", len(self.lowered.layers)) as step:
            for at, y in enumerate(self.lowered.layers):
                for wanted, output in self._by_reader(at, y):
                    self._settle(wanted, output)
                self.facts.numbering.enter(1, at)
                for port, names in enumerate(y.names):
                    for wanted in {self.named[n] for n in {*names, y.name} & {*self.named}}:
                        self._settle(wanted, SecondPort(at, port))
                step()
        return [*self.made.values(), self._whole()]

    def _by_reader(self, at: int, y: SecondLayer) -> Iterator[tuple[SecondPort, SecondPort]]:
        """Yield the inputs of the layer of the original that a layer should be."""
        other = self.source.layers[self.named[y.name].layer] if y.name in self.named else None
        if y.type == "Result":
            places = self.source.places("Result"), self.lowered.places("Result").index(at)
            other = self.source.layers[places[0][places[1]]] if places[1] < len(places[0]) else None
        if other is not None and (other.type, len(other.inputs)) == (y.type, len(y.inputs)):
            yield from zip(other.inputs, y.inputs, strict=True)

    def _settle(self, wanted: SecondPort, output: SecondPort) -> None:
        number, own = self.numbers[0][wanted], self.numbers[1]
        if own[output] in self.facts.numbering.known or number in own.values():
            return
        layers = self._deconvolutions(wanted)
        if not layers or max(self.tries.get(name, 0) for name in layers) >= MOST_COMPARISONS:
            return
        self.tries |= {name: self.tries.get(name, 0) + 1 for name in layers}
        verdict, text = self._compared(wanted, output)
        for name in layers:
            if verdict == AGREES or name not in self.made:
                self.made[name] = SecondAnswer(name, verdict, text)
        if verdict == AGREES:
            own[output] = number

    def _deconvolutions(self, wanted: SecondPort) -> list[str]:
        """Return the deconvolutions between a value and those that the lowered model has."""
        found, todo, seen = [], [(wanted, 0)], set()
        have = set(self.numbers[1].values())
        while todo:
            port, depth = todo.pop()
            if (
                self.numbers[0][port] not in have
                and port not in seen
                and depth <= MOST_INNER_LAYERS
            ):
                y = self.source.layers[port.layer]
                found += [y.name] if is_deconvolution(y) else []
                todo += [(p, depth + 1) for p in y.inputs]
                seen.add(port)
        return found

    def _whole(self) -> SecondAnswer:
        """Say whether inputs, outputs and written variables are the same values."""
        for kind in ("Parameter", "Result", "Assign"):
            ends: list[list[Any]] = []
            for numbers, model in zip(self.numbers, (self.source, self.lowered), strict=True):
                ports = [p for at in model.places(kind) for p in model.layers[at].inputs]
                ports = (
                    [SecondPort(at) for at in model.places(kind)] if kind == "Parameter" else ports
                )
                named = [[*sorted(model.layers[p.layer].names[p.port])] for p in ports]
                kept = [
                    model.layers[at].attributes.get("variable_id", "") for at in model.places(kind)
                ]
                rows = zip(ports, kept, named, strict=True)
                ends.append([[v, numbers[p], v or n] for p, v, n in rows])
            if kind == "Assign":
                ends = [sorted(e) for e in ends]
            if ends[0] != ends[1]:
                text = f"the values or names of {kind} layers are not shown to be equal"
                return SecondAnswer("the model", NOT_APPLICABLE, text)
        return SecondAnswer("the model", AGREES)

    def _compared(self, wanted: SecondPort, output: SecondPort) -> tuple[str, str]:
        context = self.facts.context
        context.reset_operations()
        context.set_max_operations(ISL_OPERATIONS)
        try:
            pair = zip(self.facts.sides, (wanted, output), strict=True)
            compare(self.facts, [_Walk(side, end) for side, end in pair])
        except SecondDiffers as e:
            return DIFFERS, str(e)
        except Unfollowed as e:
            return NOT_APPLICABLE, str(e)
        except (isl.Error, *FAILURES) as e:
            much = "maximal number of operations" in str(e)
            return NOT_APPLICABLE, "isl needs too many operations" if much else f"{e}"[:90]
        finally:
            context.set_max_operations(0)
        return AGREES, ""


class _Walk:
    """One model, from an output back to values that both have."""

    def __init__(self, side: SecondSide, end: SecondPort) -> None:
        self.side, self.facts, self.end = side, side.facts, end
        numbering = self.facts.numbering
        self.stops = numbering.known & set(numbering.of[1].values())
        self.visits = 0
        self.shape = side.shape(end)
        self.rank = len(self.shape)

    def leaves(self) -> list[SecondLeaf]:
        """Return the outputs in parts that are computed alike."""
        axes, inside = self.facts.axes(self.shape), self.facts.inside
        where = [c for o, n in zip(axes, self.shape, strict=True) for c in inside(o, n)]
        begin = self.facts.relation(self.shape, axes, where)
        return self._leaves(self.end, begin.intersect_params(self.facts.limits), (), 0)

    def _leaves(
        self, port: SecondPort, m: isl.Map, functions: tuple[Any, ...], depth: int
    ) -> list[SecondLeaf]:
        """Return parts of the domain of `m`, which leads to elements of a value."""
        known = self._known(port, m)
        step = self._step(port, depth) if known is None else None
        functions = (*functions, step.function) if step and step.function else functions
        if step is None or step.sums:
            found = known or (self._sum(step, m, depth) if step else [])
            return [SecondLeaf(m.domain(), functions, tuple(map(self._term, found)))]
        made, rest = list[SecondLeaf](), m.domain()
        for one in step.reads:
            inner = m.apply_range(one.relation).detect_equalities()
            if not inner.is_empty():
                rest = rest.subtract(inner.domain())
                made += self._leaves(one.port, inner, functions, depth + 1)
        return made if rest.is_empty() else [*made, SecondLeaf(rest, functions)]

    def _known(self, port: SecondPort, m: isl.Map) -> list[SecondProduct] | None:
        """Return an element of a constant, or of a value that both models have."""
        number = self.side.number.get(port)
        if self.side.is_constant(port):
            try:
                array = self.side.array(port)
                return [SecondProduct((), (Factor(m, array),))] if array.any() else []
            except Unfollowed:
                pass
        return [SecondProduct(((number, m),), ())] if number in self.stops else None

    def _step(self, port: SecondPort, depth: int) -> SecondStep:
        self.visits += 1
        if self.visits > MOST_VISITS or depth > DEEPEST:
            raise Unfollowed("the rewritten part has too many layers")
        return self.side.step(port)

    def _products(self, port: SecondPort, m: isl.Map, depth: int) -> list[SecondProduct]:
        """Return what is summed for an element of a value."""
        known = self._known(port, m)
        if known is not None:
            return known
        step = self._step(port, depth)
        if step.function:
            raise Unfollowed(f"{self.side.layer(port)} is not the last that is computed")
        return self._sum(step, m, depth)

    def _sum(self, step: SecondStep, m: isl.Map, depth: int) -> list[SecondProduct]:
        made: list[SecondProduct] = []
        for one in step.reads:
            if one.taps and m.dim(IN) > self.rank:
                raise Unfollowed(f"{self.side.layer(one.port)} is convolved twice")
            count = len(one.taps)
            same = isl.Map.identity(isl.Space.alloc(self.facts.context, 0, count, count))
            wide = m.flat_product(same) if count else m
            data = wide.apply_range(one.relation).detect_equalities()
            if data.is_empty():
                continue
            found = self._products(one.port, data, depth + 1)
            if one.sign < 0:
                found = [p.times(self._number(data, -1.0)) for p in found]
            if one.weight is not None:
                places = wide.apply_range(one.weight.relation)
                weights = self._products(one.weight.port, places, depth + 1)
                if any(p.sources for p in weights) and count:
                    weights = [p.times(self._taps(one.taps)) for p in weights]
                found = [a.times(b) for a, b in itertools.product(found, weights)]
            made += found
        return made

    def _number(self, m: isl.Map, value: float) -> SecondProduct:
        """Return a number as a factor."""
        there = isl.Map.from_domain_and_range(m.domain(), isl.Set("{ [0] }", self.facts.context))
        return SecondProduct((), (Factor(there, np.array([value])),))

    def _taps(self, sizes: tuple[int, ...]) -> SecondProduct:
        """Return 1 for each tap: several ones may read one element of a filter."""
        taps = [self.facts.name(f"t{i}") for i in range(len(sizes))]
        places = self.facts.relation(self.shape, taps, taps=len(taps))
        return SecondProduct((), (Factor(places, np.broadcast_to(1.0, sizes)),))

    def _term(self, product: SecondProduct) -> SecondTerm:
        """Return a product by the positions of its weights, without the taps that lead there."""
        sources = sorted(product.sources, key=lambda s: s[0])
        numbers = tuple(n for n, _ in sources)
        if len({*numbers}) < len(numbers):
            raise Unfollowed("a value is multiplied by itself")
        factors = product.factors
        if not any(f.array.ndim for f in factors):
            factors += self._number(sources[0][1], 1.0).factors
        maps = [m for _, m in sources] + [f.places for f in factors]
        deepest = max(m.dim(IN) for m in maps)
        maps = [m.insert_dims(IN, m.dim(IN), deepest - m.dim(IN)) for m in maps]
        nothing = isl.Map.from_domain_and_range(
            maps[-1].domain(), isl.Set("{ [] }", self.facts.context)
        )
        elements = reduce(isl.Map.flat_range_product, maps[: len(sources)], nothing)
        places = reduce(isl.Map.flat_range_product, maps[len(sources) :])
        relation = elements.range_product(places)
        relation = relation.project_out(IN, self.rank, relation.dim(IN) - self.rank)
        return SecondTerm(numbers, relation, tuple(f.array for f in factors))


def compare(facts: SecondFacts, walks: Sequence[_Walk]) -> None:
    """Raise Differs unless both sides are equal, leaf by leaf and source by source."""
    a, b = (walk.shape for walk in walks)
    if any(isinstance(n, Merged) for n in (*a, *b)):
        raise Unfollowed("a Reshape merges axes of open sizes")
    if len(a) != len(b) or not all(map(facts.equal, a, b)):
        texts = [", ".join(map(shown, shape)) for shape in (b, a)]
        raise SecondDiffers(f"the shape is [{texts[0]}] instead of [{texts[1]}]")
    for x, y in itertools.product(*(walk.leaves() for walk in walks)):
        where = x.where.intersect(y.where)
        if where.is_empty():
            continue
        if x.functions != y.functions:
            raise SecondDiffers(f"the activations are {y.functions} instead of {x.functions}")
        for sources in {t.sources for t in x.terms + y.terms}:
            terms = [[t for t in leaf.terms if t.sources == sources] for leaf in (x, y)]
            sides = [_Taps(facts, where, own) for own in terms]
            for counts in itertools.product(*(range(len(s.firsts) + 1) for s in sides)):
                domain = None
                for side, count in sorted(zip(sides, counts, strict=True), key=lambda r: -r[1]):
                    domain = side.exactly(count, domain)
                if domain is not None and not domain.is_empty():
                    rows = [s.taps(n) for s, n in zip(sides, counts, strict=True)]
                    for taps in itertools.product(*rows[0], *rows[1]):
                        _equal(domain, taps, counts[0])


class _Taps:
    """The taps that read an element for an output: the first ones, the second ones, ..."""

    def __init__(self, facts: SecondFacts, where: isl.Set, terms: Sequence[SecondTerm]) -> None:
        self.terms, self.firsts = terms, list[isl.Map]()
        self.rank = max((len(t.shape) for t in terms), default=0)
        rest = None
        for i, t in enumerate(terms):
            names = [f"f{a}" for a in range(len(t.shape))]
            zeros = ["0"] * (self.rank - len(names))
            tag = f"{{ [{', '.join(names)}] -> [{', '.join([str(i), *names, *zeros])}] }}"
            own = (
                t.relation.intersect_domain(where)
                .uncurry()
                .apply_range(isl.Map(tag, facts.context))
            )
            rest = own if rest is None else rest.union(own)
        while rest is not None and not rest.is_empty():
            single = rest.is_single_valued()
            self.firsts.append(rest if single else rest.lexmin())
            rest = None if single else rest.subtract(self.firsts[-1])
            if len(self.firsts) > MOST_ELEMENT_TAPS:
                raise Unfollowed("too many taps read one element")
        self.domains = [f.domain() for f in self.firsts]

    def exactly(self, count: int, domain: isl.Set | None) -> isl.Set | None:
        """Return the part of a domain, or all, in which this many taps read an element."""
        if count:
            own = self.domains[count - 1]
            domain = own if domain is None else domain.intersect(own)
        more = domain is not None and count < len(self.domains)
        return domain.subtract(self.domains[count]) if domain is not None and more else domain

    def taps(self, count: int) -> list[list[tuple[isl.Map, SecondTerm]]]:
        """Return for each of the first taps the terms that it may belong to."""
        made = []
        for first in self.firsts[:count]:
            row = []
            for i, t in enumerate(self.terms):
                own = first.fix_val(OUT, 0, isl.Val(i, first.get_ctx()))
                own = own.project_out(OUT, 1 + len(t.shape), self.rank - len(t.shape))
                row.append((own.project_out(OUT, 0, 1), t))
            made.append([(own, t) for own, t in row if not own.is_empty()])
        return made


def _equal(domain: isl.Set, taps: Sequence[tuple[isl.Map, SecondTerm]], first: int) -> None:
    """Compare the sums of weights where these taps read an element: `first` are the original's."""
    domain = reduce(lambda d, tap: d.intersect(tap[0].domain()), taps, domain)
    if domain.is_empty():
        return
    places = _positions([r.intersect_domain(domain) for r, _ in taps], [t for _, t in taps])
    values = [_weight(t.arrays, p) for (_, t), p in zip(taps, places, strict=True)]
    zero = np.zeros(1)
    sums = np.broadcast_arrays(sum(values[:first], zero), sum(values[first:], zero))
    off = np.flatnonzero(sums[0] != sums[1])
    if len(taps) == 2 and first == 1 and np.float16 in [a.dtype for a in taps[1][1].arrays]:
        exact, near = (s.astype(np.float64) for s in sums)
        rounded = (exact.astype(np.float16) == near) & (abs(exact - near) <= abs(exact) / 1024)
        off = np.flatnonzero((exact != near) & ~rounded)
    if off.size:
        numbers = f"{sums[1][off[0]]} instead of {sums[0][off[0]]}"
        raise SecondDiffers(f"a weight is {numbers}, such as for {domain.sample_point()}")


def _positions(relations: Sequence[isl.Map], terms: Sequence[SecondTerm]) -> list[list[Array]]:
    """Return all combinations of positions of weights: one of them decides the others."""
    for key in reversed(range(len(relations))):
        others = [r for i, r in enumerate(relations) if i != key]
        back = isl.Map.from_domain(relations[key].range())
        if others:
            back = relations[key].reverse().apply_range(reduce(isl.Map.flat_range_product, others))
        back = back.project_out_all_params()
        if back.is_single_valued():
            there, values = tabulate(back, terms[key].shape)
            flat = [v[there] for v in values]
            made = []
            for i, t in enumerate(terms):
                own = [*np.nonzero(there)] if i == key else flat[: len(t.shape)]
                flat = flat if i == key else flat[len(t.shape) :]
                made.append(own)
            return made
    raise Unfollowed("an element of a filter stands for several of the other one")


def _weight(arrays: Sequence[Array], places: Sequence[Array]) -> Array:
    """Return products of elements in double precision."""
    rest, total = list(places), np.ones(places[0].shape)
    for array in arrays:
        value = array[tuple(rest.pop(0) for _ in range(array.ndim))]
        if value.dtype.kind in "iu" and (abs(value.astype(np.float64)) >= 2.0**53).any():
            raise Unfollowed("an integer weight of more than 53 bits")
        total = normal(total * value.astype(np.float64))
    return total
