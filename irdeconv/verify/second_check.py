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
from irdeconv.verify.second_relations import SecondStep, whole
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


class SecondTerm(NamedTuple):
    """Products that are summed: elements of a value times weights; source None: weights alone."""

    source: int | None
    relation: isl.Map  # from an output to [element -> position of the weight]
    arrays: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a position."""
        return tuple(n for a in self.arrays for n in a.shape)


@dataclass(frozen=True)
class SecondLeaf:
    """Outputs that are computed alike: functions, the last one first, of a sum of terms."""

    where: isl.Set
    functions: tuple[Any, ...] | None
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

    def leaves(self) -> list[SecondLeaf]:
        """Return the outputs in parts that are computed alike."""
        names, exprs, bounds = [f"o{a}" for a in range(len(self.shape))], [], []
        for a, run in enumerate(self.side.runs(self.end)):
            own = [f"p{a}_{i}" for i in range(len(run))]
            bounds += [f"0 <= {p} < {n.text}" for p, n in zip(own, run, strict=True)]
            bounds.append(f"o{a} = {whole(own, run)}")
            exprs += own
        text = f"{{ [{', '.join(names)}] -> [{', '.join(exprs)}] : {' and '.join(bounds)} }}"
        begin = self.facts.relation(text).intersect_params(self.facts.limits)
        return self._leaves(self.end, begin, (), (), 0)

    def _follow(self, m: isl.Map, text: str) -> isl.Map:
        return m.apply_range(self.facts.relation(text))

    def _leaves(
        self,
        port: SecondPort,
        m: isl.Map,
        factors: tuple[Factor, ...],
        functions: tuple[Any, ...] | None,
        depth: int,
    ) -> list[SecondLeaf]:
        """Return parts of the domain of `m`, which leads to elements of a value.

        `functions` is None inside a sum. Inside a convolution the domain has its taps, too.
        """
        self.visits += 1
        if self.visits > MOST_VISITS or depth > DEEPEST:
            raise Unfollowed("the rewritten part has too many layers")
        inside, layer = m.dim(IN) > len(self.shape), self.side.layer(port)
        if self.side.is_constant(port):
            array = self._elements(port)
            if inside and array.any():
                raise Unfollowed(f"{layer} is convolved, and is no zero")
            terms = self._terms(None, m, (*factors, Factor(m, array))) if array.any() else ()
            return [SecondLeaf(m.domain(), functions, terms)]
        if self.side.number.get(port) in self.stops:
            return [
                SecondLeaf(m.domain(), functions, self._terms(self.side.number[port], m, factors))
            ]
        step = self.side.step(port)
        if inside and step.kind == "block":
            raise Unfollowed(f"{layer} is convolved")
        if step.function is not None:
            if factors or functions is None:
                raise Unfollowed(f"{layer} is not the last that is computed")
            functions = (*functions, step.function)
        if step.kind == "block":
            return [SecondLeaf(m.domain(), functions, self._block(step, m, factors, depth))]
        if step.kind in ("sum", "scale"):
            rule = self._sum if step.kind == "sum" else self._scaled
            return rule(step, m, factors, functions, depth)
        return self._moved(step, m, factors, functions, depth)

    def _moved(
        self, step: SecondStep, m: isl.Map, factors: tuple[Factor, ...], functions: Any, depth: int
    ) -> list[SecondLeaf]:
        """Return what every input becomes; the rest is zeros, which need no part of a sum."""
        inside = m.dim(IN) > len(self.shape)
        made, rest = [], m.domain()
        for one in step.reads:
            inner = self._follow(m, one.text)
            if not inner.is_empty():
                rest = rest if inside else rest.subtract(inner.domain())
                made += self._leaves(one.port, inner, factors, functions, depth + 1)
        return made if inside or rest.is_empty() else [*made, SecondLeaf(rest, functions)]

    def _sum(
        self, step: SecondStep, m: isl.Map, factors: tuple[Factor, ...], functions: Any, depth: int
    ) -> list[SecondLeaf]:
        """Return every combination of the parts of both addends."""
        made = [SecondLeaf(m.domain(), functions)]
        for one, sign in zip(step.reads, step.signs, strict=True):
            more = factors if sign == 1 else (*factors, self._number(m, -1.0))
            inner = self._follow(m, one.text)
            below = self._leaves(one.port, inner, more, None, depth + 1)
            if m.dim(IN) > len(self.shape):
                made += below
                continue
            made = [
                SecondLeaf(where, functions, a.terms + b.terms)
                for a, b in itertools.product(made, below)
                if not (where := a.where.intersect(b.where)).is_empty()
            ]
        return made

    def _scaled(
        self, step: SecondStep, m: isl.Map, factors: tuple[Factor, ...], functions: Any, depth: int
    ) -> list[SecondLeaf]:
        """Return multiples; a mask of zeros and ones leaves out elements."""
        data, by = step.reads
        array, places = self._elements(by.port), self._follow(m, by.text)
        rest: list[SecondLeaf] = []
        if array.size > 1 and np.isin(array, (0, 1)).all():
            kept = places.intersect_range(self._ones(array)).domain()
            rest = [SecondLeaf(m.domain().subtract(kept), functions)]
            m = m.intersect_domain(kept)
        else:
            factors = (*factors, Factor(places, array))
        below = self._leaves(data.port, self._follow(m, data.text), factors, functions, depth + 1)
        return below + rest

    def _block(
        self, step: SecondStep, m: isl.Map, factors: tuple[Factor, ...], depth: int
    ) -> tuple[SecondTerm, ...]:
        made: list[SecondLeaf] = []
        if step.bias is not None:
            to = self._follow(m, step.bias.text)
            made += self._leaves(step.bias.port, to, factors, None, depth + 1)
        taps = ", ".join(f"t{i}" for i in range(len(step.taps)))
        bounds = " and ".join(f"0 <= t{i} < {n}" for i, n in enumerate(step.taps))
        every = self.facts.relation(f"{{ [{taps}] -> [] : {bounds} }}")
        wide = m.flat_product(self.facts.relation(f"{{ [{taps}] -> [{taps}] : {bounds} }}"))
        filter, (one,) = step.filter, step.reads
        assert filter is not None
        lifted = [Factor(f.places.flat_product(every), f.array) for f in factors]
        lifted.append(Factor(self._follow(wide, filter.text), self.side.array(filter.port)))
        data = self._follow(wide, one.text)
        made += self._leaves(one.port, data, (*lifted,), None, depth + 1)
        return tuple(t for leaf in made for t in leaf.terms)

    def _number(self, m: isl.Map, value: float) -> Factor:
        """Return a number as a factor."""
        nowhere = isl.Map.from_domain(m.domain())
        return Factor(self._follow(nowhere, "{ [] -> [0] }"), np.array([value]))

    def _elements(self, port: SecondPort) -> Array:
        """Return a constant in the parts of its axes."""
        shape = [n.known for run in self.side.runs(port) for n in run]
        return self.side.array(port).reshape(shape)

    def _ones(self, mask: Array) -> isl.Set:
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
        return isl.Set(f"{{ [{names}] : {' and '.join(texts)} }}", self.facts.context)

    def _terms(
        self, source: int | None, m: isl.Map, factors: tuple[Factor, ...]
    ) -> tuple[SecondTerm, ...]:
        """Return products by the positions of their weights, without the taps that lead there."""
        if not any(f.array.ndim for f in factors):
            factors = (*factors, self._number(m, 1.0))
        places = reduce(isl.Map.flat_range_product, (f.places for f in factors))
        if source is None:
            m = self._follow(isl.Map.from_domain(m.domain()), "{ [] -> [] }")
        relation, rank = m.range_product(places), len(self.shape)
        relation = relation.project_out(IN, rank, relation.dim(IN) - rank)
        term = SecondTerm(source, relation, tuple(f.array for f in factors))
        return () if relation.is_empty() else (term,)


def compare(facts: SecondFacts, walks: Sequence[_Walk]) -> None:
    """Raise Differs unless both sides are equal, leaf by leaf and source by source."""
    a, b = (walk.shape for walk in walks)
    pairs = [*zip(a, b, strict=False)]
    same = (x.same(y) or facts.always(f"{x.text} = {y.text}") for x, y in pairs)
    if len(a) != len(b) or not all(same):
        texts = [", ".join(n.text for n in shape) for shape in (b, a)]
        raise SecondDiffers(f"the shape is [{texts[0]}] instead of [{texts[1]}]")
    for x, y in itertools.product(*(walk.leaves() for walk in walks)):
        where = x.where.intersect(y.where)
        if where.is_empty():
            continue
        if x.functions != y.functions:
            raise SecondDiffers(f"the activations are {y.functions} instead of {x.functions}")
        for source in {t.source for t in x.terms + y.terms}:
            terms = [[t for t in leaf.terms if t.source == source] for leaf in (x, y)]
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
            own = t.relation.intersect_domain(where).uncurry().apply_range(facts.relation(tag))
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
    sums = np.broadcast_arrays(_total(values[:first]), _total(values[first:]))
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
    """Return products of elements; an unknown element is only multiplied by 1."""
    rest, total = list(places), np.ones(places[0].shape)
    for array in arrays:
        value = array[tuple(rest.pop(0) for _ in range(array.ndim))]
        unknown = [v.dtype == np.uint64 for v in (total, value)]
        if any(unknown):
            symbol, other = (total, value) if unknown[0] else (value, total)
            if all(unknown) or not ((other == 1) | (symbol == 0)).all():
                raise Unfollowed("unknown elements are multiplied")
            total = symbol
        else:
            total = normal(total * value.astype(np.float64))
    return total


def _total(values: Sequence[Array]) -> Array:
    """Return sums of weights; of unknown elements only one may be other than 0."""
    if not any(v.dtype == np.uint64 for v in values):
        return np.asarray(sum(values, np.zeros(1)))
    if np.sum([v != 0 for v in values], 0).max(initial=0) > 1:
        raise Unfollowed("unknown elements are added")
    return np.asarray(np.max([v.astype(np.uint64) for v in values], 0))
