"""A second opinion on a lowered model, by relations between elements that isl compares.

Both models are read from a value that should be equal back to values that both have. An output is
then a sum of products: relations say which element of the data meets which element of the filter.
The sums are equal for all data if for every output and element of the data the weights add up to
the same number.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import islpy as isl
import numpy as np

from irdeconv.base import progress
from irdeconv.verify.second_definition import is_deconvolution
from irdeconv.verify.second_reading import Array, SecondModel, SecondPort, Unfollowed
from irdeconv.verify.second_relations import Merged, SecondFacts, flat, inside, shown
from irdeconv.verify.second_side import FAILURES, SecondSide, normal, openvino_facts, tabulate

AGREES, DIFFERS, NOT_APPLICABLE = "agrees", "differs", "does not apply"
ISL_OPERATIONS = 1_000_000  # of isl for one comparison
MOST_VISITS, DEEPEST = 20_000, 150  # of layers in one comparison
MOST_ELEMENT_TAPS = 8  # that read the same element for the same output
MOST_INNER_LAYERS = 6  # from a deconvolution to the value that both models have
MOST_COMPARISONS = 2  # of comparisons for one deconvolution
OUT = isl.dim_type.out


class SecondDiffers(Exception):
    """The two values differ; the text says in what."""


class SecondTerm(NamedTuple):
    """Products that a side sums: elements of values that both models have, times constants."""

    side: int
    functions: tuple[Any, ...]  # of the sum, the last one first
    sources: tuple[int, ...]
    relation: isl.Map  # from an output to [elements of the sources -> position of the weight]
    arrays: tuple[Array, ...]


@dataclass(frozen=True)
class SecondAnswer:
    """The answer for one deconvolution, or for the whole model."""

    layer: str
    verdict: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.layer}: {self.verdict}{self.text and ': '}{self.text}"


def second_check(
    source: SecondModel,
    lowered: SecondModel,
    facts: Callable[[SecondModel], Any] | None = openvino_facts,
) -> list[SecondAnswer]:
    """Return an answer for each rewritten deconvolution, and as the last one for the model.

    `facts` returns shapes and folded integers from elsewhere.
    """
    return _Comparing(source, lowered, facts).answers()


class _Comparing:
    def __init__(self, source: SecondModel, lowered: SecondModel, openvino: Any) -> None:
        self.facts = SecondFacts()
        self.lowered = SecondSide(self.facts, lowered, openvino)
        self.source = SecondSide(self.facts, source, openvino, self.lowered)
        self.made: dict[str, list[SecondAnswer]] = defaultdict(list)
        self.named: dict[str, SecondPort] = {}
        for at, y in enumerate(source.layers):
            self.source.enter(at)
            for port, names in enumerate(y.names):
                self.named |= dict.fromkeys((*names, y.name), SecondPort(at, port))
        self.facts.known |= {*self.source.number.values()}

    def answers(self) -> list[SecondAnswer]:
        """Number the lowered model; compare values that should be equal by names and readers."""
        layers = self.lowered.model.layers
        with progress.stage("checking again", len(layers)) as step:
            for at, y in enumerate(layers):
                reader = self.source.layer(self.named[y.name]) if y.name in self.named else y
                if (reader.type, len(reader.inputs)) == (y.type, len(y.inputs)) and reader is not y:
                    for wanted, output in zip(reader.inputs, y.inputs, strict=True):
                        self._settle(wanted, output)
                self.lowered.enter(at)
                for port, names in enumerate(y.names):
                    for wanted in {self.named[n] for n in {*names, y.name} & {*self.named}}:
                        self._settle(wanted, SecondPort(at, port))
                step()
        whole = SecondAnswer("the model", AGREES)
        for kind in ("Assign", "Result", "Parameter"):
            if _ends(self.source, kind) != _ends(self.lowered, kind):
                text = f"the values or names of {kind} layers are not shown to be equal"
                whole = SecondAnswer("the model", NOT_APPLICABLE, text)
        rows = self.made.values()
        return [*(min(row, key=lambda one: one.verdict != AGREES) for row in rows), whole]

    def _settle(self, wanted: SecondPort, output: SecondPort) -> None:
        """Compare two values if there are deconvolutions between them and known ones."""
        number, own = self.source.number[wanted], self.lowered.number
        if own[output] in self.facts.known or number in own.values():
            return
        layers = self._deconvolutions(wanted)
        if layers and all(len(self.made.get(name, ())) < MOST_COMPARISONS for name in layers):
            verdict, text = self._compared(wanted, output)
            for name in layers:
                self.made[name].append(SecondAnswer(name, verdict, text))
            if verdict == AGREES:
                own[output] = number

    def _deconvolutions(self, wanted: SecondPort) -> list[str]:
        """Return the deconvolutions between a value and those that the lowered model has."""
        found, todo, seen = [], [(wanted, 0)], {*self.lowered.number.values()}
        while todo:
            port, depth = todo.pop()
            if self.source.number[port] not in seen and depth <= MOST_INNER_LAYERS:
                y = self.source.layer(port)
                found += [y.name] if is_deconvolution(y) else []
                todo += [(p, depth + 1) for p in y.inputs]
                seen.add(self.source.number[port])
        return found

    def _compared(self, wanted: SecondPort, output: SecondPort) -> tuple[str, str]:
        context = self.facts.context
        context.reset_operations()
        context.set_max_operations(ISL_OPERATIONS)
        stops = self.facts.known & {*self.lowered.number.values()}
        try:
            pairs = (self.source, wanted), (self.lowered, output)
            _compare(self.facts, [_Walk(side, end, stops) for side, end in pairs])
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


def _ends(side: SecondSide, kind: str) -> list[Any]:
    """Return the values of inputs, outputs or written variables, with their names."""
    rows: list[Any] = []
    for at in side.model.places(kind):
        port, *_ = *side.model.layers[at].inputs, SecondPort(at)
        names = sorted(side.layer(port).names[port.port])
        variable = side.model.layers[at].attributes.get("variable_id")
        rows.append((variable or names, side.number[port]))
    return sorted(rows) if kind == "Assign" else rows


class _Walk:
    """One model, from an output back to values that both have."""

    def __init__(self, side: SecondSide, end: SecondPort, stops: set[int]) -> None:
        self.side, self.facts, self.end, self.stops = side, side.facts, end, stops
        self.visits = 0
        self.shape = side.shape(end)

    def terms(self) -> list[SecondTerm]:
        """Return what is summed for every output."""
        axes = self.facts.axes(self.shape)
        where = [c for o, n in zip(axes, self.shape, strict=True) for c in inside(o, n)]
        begin = self.facts.relation(self.shape, axes, where).intersect_params(self.facts.limits)
        return self._terms([self.end], begin)

    def _terms(
        self,
        parts: list[Any],
        m: isl.Map,
        functions: tuple[Any, ...] = (),
        depth: int = 0,
        *,
        summed: bool = False,
    ) -> list[SecondTerm]:
        """Return what is summed of products of these values, to whose elements `m` leads."""
        known, ranks = [*map(self._known, parts)], [*map(self._rank, parts)]
        at = next((i for i, k in enumerate(known) if k is None), None)
        if at is None:
            return self._term(known, ranks, m, functions)
        self.visits += 1
        if self.visits > MOST_VISITS or depth > DEEPEST:
            raise Unfollowed("the rewritten part has too many layers")
        step, made = self.side.step(parts[at]), list[SecondTerm]()
        if step.function:
            if summed:
                raise Unfollowed(f"{self.side.layer(parts[at])} is not the last that is computed")
            functions = (*functions, step.function)
            # A function of an empty sum may be another number than 0: its outputs are a source.
            made += self._term([-1], [0], isl.Map.from_domain(m.domain()), functions)
        before, behind = (
            isl.Map.identity(isl.Space.alloc(self.facts.context, 0, n, n))
            for n in (sum(ranks[:at]), sum(ranks[at + 1 :]))
        )
        summed = summed or step.sums
        for one in step.reads:
            inner = m.apply_range(before.flat_product(one.relation).flat_product(behind))
            if not inner.is_empty():
                inner = inner.detect_equalities()
                more = [*parts[:at], one.port, *one.factors, *parts[at + 1 :]]
                made += self._terms(more, inner, functions, depth + 1, summed=summed)
        return made

    def _known(self, part: SecondPort | Array) -> int | Array | None:
        """Return the elements of a constant, or the number of a value that both models have."""
        if not isinstance(part, SecondPort):
            return part
        array, number = self.side.constant(part), self.side.number.get(part)
        return array if array is not None else number if number in self.stops else None

    def _rank(self, part: SecondPort | Array) -> int:
        return len(flat(self.side.shape(part))) if isinstance(part, SecondPort) else part.ndim

    def _term(
        self, known: list[Any], ranks: list[int], m: isl.Map, functions: tuple[Any, ...]
    ) -> list[SecondTerm]:
        """Return a product by the elements of sources, and by the position of its weight."""
        names = [", ".join(f"i{k}_{a}" for a in range(rank)) for k, rank in enumerate(ranks)]
        rows = [*zip(known, names, strict=True)]
        sources = sorted((k, n) for k, n in rows if isinstance(k, int))
        arrays: list[Any] = [(np.ones(1), "0"), *(r for r in rows if not isinstance(r[0], int))]
        if not all(k.any() for k, _ in arrays):
            return []
        if len({k for k, _ in sources}) < len(sources):
            raise Unfollowed("a value is multiplied by itself")
        every, elements, place = (
            ", ".join(n for _, n in own if n) for own in (rows, sources, arrays)
        )
        text = f"{{ [{every}] -> [[{elements}] -> [{place}]] }}"
        relation = m.apply_range(isl.Map(text, self.facts.context))
        numbers, weights = tuple(k for k, _ in sources), tuple(k for k, _ in arrays)
        return [SecondTerm(self.side.index, functions, numbers, relation, weights)]


def _compare(facts: SecondFacts, walks: Sequence[_Walk]) -> None:
    """Raise Differs unless both sides are equal, source by source."""
    a, b = (walk.shape for walk in walks)
    if any(isinstance(n, Merged) for n in (*a, *b)):
        raise Unfollowed("a Reshape merges axes of open sizes")
    if len(a) != len(b) or not all(map(facts.equal, a, b)):
        texts = [", ".join(map(shown, shape)) for shape in (b, a)]
        raise SecondDiffers(f"the shape is [{texts[0]}] instead of [{texts[1]}]")
    every = [walk.terms() for walk in walks]
    first, second = ({t.functions for t in terms} - {()} for terms in every)
    if first != second:
        raise SecondDiffers(f"the activations are {second} instead of {first}")
    groups: dict[Any, list[SecondTerm]] = defaultdict(list)
    for term in itertools.chain(*every):
        groups[term.functions, term.sources] += _taps(term)
    for taps in groups.values():
        for i, tap in enumerate(taps):
            before = (one.relation.domain() for one in taps[:i])
            domain = reduce(isl.Set.subtract, before, tap.relation.domain())
            _compare_taps(domain, [tap], taps[i + 1 :])


def _taps(term: SecondTerm) -> Iterator[SecondTerm]:
    """Yield the first taps that read an element for an output, the second ones, ..."""
    rest = term.relation.uncurry()
    for _ in range(MOST_ELEMENT_TAPS):
        first = rest if rest.is_single_valued() else rest.lexmin()
        yield term._replace(relation=first)
        rest = rest.subtract(first)
        if rest.is_empty():
            return
    raise Unfollowed("too many taps read one element")


def _compare_taps(domain: isl.Set, chosen: list[SecondTerm], others: Sequence[SecondTerm]) -> None:
    """Compare sums where all of the chosen taps, and any of the others, read an element."""
    for i, tap in enumerate(others):
        own = tap.relation.domain()
        both = domain.intersect(own)
        if not both.is_empty():
            _compare_taps(both, [*chosen, tap], others[i + 1 :])
            domain = domain.subtract(own)
    if not domain.is_empty():
        _compare_sums(domain, chosen)


def _compare_sums(domain: isl.Set, taps: Sequence[SecondTerm]) -> None:
    """Compare the sums of weights where these taps, and no others, read an element."""
    taps = [t._replace(relation=t.relation.intersect_domain(domain)) for t in taps]
    rows: tuple[list[Array], list[Array]] = ([], [])
    for tap, places in zip(taps, _positions(taps), strict=True):
        weights: Any = 1.0
        for array in tap.arrays:
            place, places = places[: array.ndim], places[array.ndim :]
            weights = normal(weights * normal(array[tuple(place)]))
        rows[tap.side].append(weights)
    exact, near = np.broadcast_arrays(*(sum(row, np.zeros(1)) for row in rows))
    off = exact != near
    halves = any(a.dtype == np.float16 for a in taps[-1].arrays)
    if halves and len(rows[0]) == len(rows[1]) == 1:  # the lowering may round a filter
        rounded = exact.astype(np.float16) == near
        off &= ~(rounded & (abs(exact - near) <= abs(exact) / 1024))
    if off.any():
        texts = f"{near[off][0]} instead of {exact[off][0]}"
        raise SecondDiffers(f"a weight is {texts}, such as for {domain.sample_point()}")


def _positions(taps: Sequence[SecondTerm]) -> list[list[Array]]:
    """Return all combinations of positions of weights: one of them decides the others."""
    every = reduce(isl.Map.flat_range_product, (tap.relation for tap in taps))
    for tap in reversed(taps):
        back = tap.relation.reverse().apply_range(every).project_out_all_params()
        if back.is_single_valued():
            there, values = tabulate(back, tuple(n for a in tap.arrays for n in a.shape))
            rest = iter([v[there] for v in values])
            return [[next(rest) for _ in range(t.relation.dim(OUT))] for t in taps]
    raise Unfollowed("an element of a filter stands for several of the other one")
