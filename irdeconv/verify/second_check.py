"""A second opinion on a lowered model, by relations between elements that isl compares.

Both models are read from a value that should be equal back to values that both have. An output is
then a sum of products: relations say which element of the data meets which element of the filter.
The sums are equal for all data if for every output and element of the data the weights add up to
the same number.

If OpenVINO is installed and reads a file, its sizes and folded integers take precedence: a rule
that contradicts it is not followed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, NamedTuple

import islpy as isl
import numpy as np

from irdeconv.base import progress
from irdeconv.base.extras import ExtraError, extra
from irdeconv.verify.second_reading import (
    CODES,
    Array,
    SecondLayer,
    SecondModel,
    SecondPort,
    Unfollowed,
)
from irdeconv.verify.second_relations import (
    LARGEST_SIZE,
    MOST_SIZES,
    STEPS,
    VALUES,
    SecondFacts,
    SecondOperation,
    SecondStep,
    Size,
    flat,
    inside,
    is_deconvolution,
    shown,
)

AGREES, DIFFERS, NOT_APPLICABLE = "agrees", "differs", "does not apply"
ISL_OPERATIONS = 1_000_000  # of isl for one comparison
MOST_ELEMENT_TAPS = 8  # that read the same element for the same output
MOST_INNER_LAYERS = 6  # from a deconvolution to the value that both models have
MOST_COMPARISONS = 2  # of comparisons for one deconvolution
OUT = isl.dim_type.out
MOST_ELEMENTS = 1 << 25
STATEFUL = ("RandomUniform", "Multinomial", "ReadValue", "Assign", "Loop", "TensorIterator", "If")
OPSET = re.compile("opset([1-9]|1[0-7])")
# What a rule raises for attributes and constants that do not fit.
FAILURES = (LookupError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
WEIGHTS = ("Add", "Subtract", "Multiply")  # operations on weights, as NumPy names them
Functions = tuple[Any, ...]
Parts = list[tuple[Any, int]]  # values, as far as they are known, and their ranks


class SecondDiffers(Exception):
    """The two values differ; the text says in what."""


class SecondTerm(NamedTuple):
    """Products that a side sums: elements of values that both models have, times constants."""

    side: int
    functions: Functions  # of the sum, the last one first
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


class SecondSide:
    """One of the two models; the original has the lowered one as `other`."""

    def __init__(
        self,
        facts: SecondFacts,
        model: SecondModel,
        openvino: Callable[[SecondModel], Any] | None,
        other: SecondSide | None = None,
    ) -> None:
        self.facts, self.model, self.other, self.index = facts, model, other, int(other is None)
        self.number: dict[SecondPort, int] = {}
        self._shapes: dict[SecondPort, list[Size] | Unfollowed] = {}
        self.step, self.array = cache(self._step), cache(self._array)
        self._constant: list[bool] = []
        for y in model.layers:
            fixed = bool(y.inputs) and all(self._constant[p.layer] for p in y.inputs)
            self._constant.append(y.type == "Const" or (fixed and y.type != "RandomUniform"))
        self._said, self._folded = openvino(model) if openvino else ({}, {})

    def enter(self, at: int) -> None:
        """Number a layer's outputs: layers alike with equal inputs have equal outputs."""
        y = self.model.layers[at]
        which = {"Parameter": str(at), **dict.fromkeys(STATEFUL, y.name)}.get(y.type)
        key: list[Any] = [y.type, y.version, sorted(y.attributes.items()), y.rest, which]
        key += [self.number[p] for p in y.inputs]
        numbers = self.facts.numbers
        for port in range(len(y.names)):
            own = numbers.setdefault((str(key), port), len(numbers))
            self.number[SecondPort(at, port)] = own

    def layer(self, port: SecondPort) -> SecondLayer:
        """Return the layer that computes a value."""
        return self.model.layers[port.layer]

    def shape(self, port: SecondPort) -> list[Size]:
        """Return sizes; layers in front are looked at in order, not recursively."""
        for one in (*map(SecondPort, range(len(self._shapes), port.layer)), port):
            if one not in self._shapes:
                try:
                    self._shapes[one] = [self.facts.simple(n) for n in self._sizes_of(one)]
                except Unfollowed as e:
                    self._shapes[one] = e
        found = self._shapes[port]
        if isinstance(found, Unfollowed):
            raise found
        return [*found]

    def _sizes_of(self, port: SecondPort) -> Sequence[Size]:
        y = self.layer(port)
        if y.type in ("Parameter", "Const"):
            return self._declared(port, y)
        if y.type == "ShapeOf":
            return [len(self.shape(y.inputs[0]))]
        if y.type in (*VALUES, "Convert"):
            shapes = [self.shape(p) for p in y.inputs]
            if all(isinstance(n, int) for shape in shapes for n in shape):
                return np.broadcast_shapes(*map(tuple, shapes))
        if y.type in STEPS:
            return self.step(port).shape
        said = self._said.get((y.name, port.port))
        if said is not None:
            name = f"d{self.number.get(port, f'_{port.layer}')}"
            return [self.facts.size(f"{name}_{a}") if n is None else n for a, n in enumerate(said)]
        for p, number in self.other.number.items() if self.other else ():
            if self.other and number == self.number[port]:
                return self.other.shape(p)
        raise Unfollowed(f"the shape of {y} is not known, which OpenVINO would infer")

    def _declared(self, port: SecondPort, y: SecondLayer) -> list[Size]:
        texts = [t.strip() for t in y.attributes.get("shape", "").split(",") if t.strip()]
        if y.type == "Parameter":
            texts = self.model.shapes.get(port.layer, texts)
        shape: list[Size] = []
        for axis, text in enumerate(texts):
            low, dots, high = text.replace("?", "..").replace("-1", "..").partition("..")
            y.require(f"{low}{high}0".isdigit(), f"its shape {','.join(texts)[:60]}")
            name = f"d{self.number[port]}_{axis}"
            limits = max(int(low or 1), 1), int(high or LARGEST_SIZE)
            shape.append(self.facts.size(name, *limits) if dots else int(low))
        return shape

    def _step(self, port: SecondPort) -> SecondStep:
        """Return what an operation reads."""
        y = self.layer(port)
        known = is_deconvolution(y) or (y.type in STEPS and OPSET.fullmatch(y.version))
        y.require(known, f"{y.version} is not followed")
        try:
            made = STEPS[y.type](SecondOperation(self, y, port.port))
        except FAILURES as e:
            raise Unfollowed(f"{y}: {type(e).__name__} {e}") from None
        made.shape = [self.facts.simple(n) for n in made.shape]
        said = self._said.get((y.name, port.port), made.shape)
        pairs = zip(made.shape, said, strict=False)
        fits = all(b is None or not isinstance(a, int) or a == b for a, b in pairs)
        y.require(fits and len(said) == len(made.shape), f"OpenVINO infers another shape, {said}")
        every = flat(made.shape)
        least = all(self.facts.at_least(n, 0) for n in every if self.index or isinstance(n, int))
        y.require(least, "an axis may have a negative size")
        return made

    def constant(self, port: SecondPort) -> Array | None:
        """Return the elements of a value that depends on no input, None of another one."""
        try:
            return self.array(port) if self._constant[port.layer] else None
        except Unfollowed:
            return None

    def _array(self, port: SecondPort) -> Array:
        """Return the elements of a constant, or sizes as objects: open ones if both have them."""
        y = self.layer(port)
        folded = self._folded.get(y.name) if y.type != "Const" else None
        try:
            return self._elements(y, port) if folded is None else folded
        except (Unfollowed, *FAILURES):
            number, shape = self.number.get(port), self.shape(port)
            fixed = len(shape) < 2 and all(isinstance(n, int) and n <= MOST_SIZES for n in shape)
            y.require(number in self.facts.known and fixed, "its values are not known")
            names = [f"v{number}_{i}" for i in range(math.prod(shape))]
            sizes = [self.facts.size(name, -1 << 31, 1 << 31) for name in names]
            return np.array(sizes, object).reshape(shape)

    def _elements(self, y: SecondLayer, port: SecondPort) -> Array:
        if y.array is not None:
            return y.array
        if y.type == "ShapeOf" and y.text("output_type", "i64") == "i64":
            return np.array(self.shape(y.inputs[0]), object)
        if y.type == "Convert":
            return _converted(y, self.array(y.inputs[0]))
        if y.type in VALUES:
            return self._computed(y, [self.array(p) for p in y.inputs])
        step = self.step(port)
        plain = not step.sums and not step.function and all(isinstance(n, int) for n in step.shape)
        y.require(plain, "it is not followed as a constant")
        every = [self.array(one.port) for one in step.reads]
        made = np.zeros(step.shape, np.result_type(*every) if every else object)
        for one, data in zip(step.reads, every, strict=True):
            there, places = tabulate(one.relation, tuple(step.shape))
            made[there] = data[tuple(p[there] for p in places)]
        return made

    def _computed(self, y: SecondLayer, inputs: list[Array]) -> Array:
        """Calculate with sizes, or with weights in double precision."""
        y.require(y.text("auto_broadcast", "numpy") == "numpy", "it is not followed")
        if any(a.dtype.kind == "f" for a in inputs):
            y.require(y.type in WEIGHTS, "it is not followed with weights")
            return normal(getattr(np, y.type.lower())(*(a.astype(np.float64) for a in inputs)))
        wide = all(a.dtype in (object, np.int64, np.int32) and not a.size >> 16 for a in inputs)
        y.require(wide, "its integers have fewer than 32 bits, or are too many")
        sizes = [a.astype(object) for a in inputs]
        every = (v for a in sizes for v in a.reshape(-1).tolist() if y.type == "Divide")
        y.require(all(self.facts.at_least(v, 0) for v in every), "it may divide negative integers")
        made = np.frompyfunc(VALUES[y.type], len(sizes), 1)(*sizes)
        made = np.asarray(np.frompyfunc(self.facts.simple, 1, 1)(made), object)
        small = (abs(v) < 1 << 31 for v in made.reshape(-1).tolist() if isinstance(v, int))
        y.require(all(small), "it computes an integer beyond 32 bits")
        return made

    def terms(self, end: SecondPort) -> list[SecondTerm]:
        """Return what is summed for the elements of a value, back to values of both models."""
        shape, axes = self.shape(end), self.facts.axes(self.shape(end))
        where = [c for o, n in zip(axes, shape, strict=True) for c in inside(o, n)]
        begin = self.facts.relation(shape, axes, where).intersect_params(self.facts.limits)
        return self._terms([self._part(end)], begin)

    def _part(self, value: SecondPort | Array) -> tuple[Any, int]:
        """Return the elements of a constant, the number of a value of both models, or a port."""
        if not isinstance(value, SecondPort):
            return value, value.ndim
        array, number = self.constant(value), self.number.get(value)
        known = number if array is None and number in self.facts.stops else array
        return value if known is None else known, len(flat(self.shape(value)))

    def _terms(
        self, parts: Parts, m: isl.Map, functions: Functions = (), *, summed: bool = False
    ) -> list[SecondTerm]:
        """Return what is summed of products of these values, to whose elements `m` leads."""
        ports = [(i, v) for i, (v, _) in enumerate(parts) if isinstance(v, SecondPort)]
        if not ports:
            return self._term(parts, m, functions)
        at, port = ports[0]
        step, made = self.step(port), list[SecondTerm]()
        if step.function:
            if summed:
                raise Unfollowed(f"{self.layer(port)} is not the last that is computed")
            functions = (*functions, step.function)
            # A function of an empty sum may be another number than 0: its outputs are a source.
            made += self._term([(-1, 0)], isl.Map.from_domain(m.domain()), functions)
        before, behind = (
            isl.Map.identity(isl.Space.alloc(self.facts.context, 0, n, n))
            for n in (sum(n for _, n in own) for own in (parts[:at], parts[at + 1 :]))
        )
        for one in step.reads:
            inner = m.apply_range(before.flat_product(one.relation).flat_product(behind))
            if not inner.is_empty():
                read = map(self._part, (one.port, *one.factors))
                more, inner = [*parts[:at], *read, *parts[at + 1 :]], inner.detect_equalities()
                made += self._terms(more, inner, functions, summed=summed or step.sums)
        return made

    def _term(self, parts: Parts, m: isl.Map, functions: Functions) -> list[SecondTerm]:
        """Return a product by the elements of sources, and by the position of its weight."""
        names = [", ".join(f"i{k}_{a}" for a in range(rank)) for k, (_, rank) in enumerate(parts)]
        rows = [(value, own) for (value, _), own in zip(parts, names, strict=True)]
        sources = sorted(row for row in rows if isinstance(row[0], int))
        arrays = [(np.ones(1), "0"), *(row for row in rows if not isinstance(row[0], int))]
        if not all(array.any() for array, _ in arrays):
            return []
        numbers = tuple(number for number, _ in sources)
        if len({*numbers}) < len(numbers):
            raise Unfollowed("a value is multiplied by itself")
        every, elements, place = (
            ", ".join(own for _, own in some if own) for some in (rows, sources, arrays)
        )
        text = f"{{ [{every}] -> [[{elements}] -> [{place}]] }}"
        relation = m.apply_range(isl.Map(text, self.facts.context))
        weights = tuple(array for array, _ in arrays)
        return [SecondTerm(self.index, functions, numbers, relation, weights)]


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
        have, found, todo, seen = {*self.lowered.number.values()}, [], [(wanted, 0)], set()
        while todo:
            port, depth = todo.pop()
            fresh = port not in seen and self.source.number[port] not in have
            if fresh and depth <= MOST_INNER_LAYERS:
                y = self.source.layer(port)
                found += [y.name] if is_deconvolution(y) else []
                todo += [(p, depth + 1) for p in y.inputs]
                seen.add(port)
        return found

    def _compared(self, wanted: SecondPort, output: SecondPort) -> tuple[str, str]:
        context = self.facts.context
        context.reset_operations()
        context.set_max_operations(ISL_OPERATIONS)
        self.facts.stops = self.facts.known & {*self.lowered.number.values()}
        try:
            _compare((self.source, wanted), (self.lowered, output))
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


def _compare(*ends: tuple[SecondSide, SecondPort]) -> None:
    """Raise Differs unless two values are equal, source by source."""
    a, b = (side.shape(end) for side, end in ends)
    if len(a) != len(b) or not all(map(ends[0][0].facts.equal, a, b)):
        texts = [", ".join(map(shown, shape)) for shape in (b, a)]
        raise SecondDiffers(f"the shape is [{texts[0]}] instead of [{texts[1]}]")
    every = [side.terms(end) for side, end in ends]
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
    more = []
    for i, tap in enumerate(others):
        own = tap.relation.domain()
        both = domain.intersect(own)
        if not both.is_empty():
            more.append((both, [*chosen, tap], others[i + 1 :]))
            domain = domain.subtract(own)
    if not domain.is_empty():
        _compare_sums(domain, chosen)
    for row in more:
        _compare_taps(*row)


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


def normal(x: Array) -> Array:
    """Return numbers in double precision, which must keep all digits of f32 and of integers."""
    size = abs(x[x != 0].astype(np.float64))
    most = 2.0**127 if x.dtype.kind == "f" else 2.0**53
    if size.size and not 2.0**-126 <= size.min() <= size.max() < most:
        raise Unfollowed("a weight is too small or too large")
    return x.astype(np.float64)


def _converted(y: SecondLayer, x: Array) -> Array:
    kind = y.text("destination_type")
    y.require(kind in ("f64", "f32", "f16", "i64"), "it may round")
    if x.dtype == (object if kind == "i64" else np.float16):
        return x  # f16 is what the file stores, which may be rounded
    with np.errstate(over="ignore"):
        made = x.astype(CODES[kind])
    y.require(np.array_equal(made, x), "it rounds")
    return made if kind == "i64" else made.astype(np.float64)


def tabulate(relation: isl.Map, shape: tuple[int, ...]) -> tuple[Array, list[Array]]:
    """Return where a relation of one value is defined in a box, and the values."""
    if math.prod(shape) > MOST_ELEMENTS or not relation.is_single_valued():
        raise Unfollowed("a relation has several values, or too many elements")
    grid = [np.asarray(g) for g in np.ogrid[tuple(slice(n) for n in shape)]]
    there = np.zeros(shape, bool)
    values = [np.zeros(shape, np.int64) for _ in range(relation.dim(isl.dim_type.out))]

    def piece(where: isl.Set, of: isl.MultiAff) -> None:
        mask = np.zeros(shape, bool)
        for basic in where.compute_divs().get_basic_sets():
            own = np.ones(shape, bool)
            for c in basic.get_constraints():
                value = _evaluated(c.get_aff(), grid)
                own &= value == 0 if c.is_equality() else value >= 0
            mask |= own
        for i, value in enumerate(values):
            value[mask] = np.broadcast_to(_evaluated(of.get_at(i), grid), shape)[mask]
        there[mask] = True

    relation.project_out_all_params().compute_divs().as_pw_multi_aff().foreach_piece(piece)
    return there, values


def _evaluated(aff: isl.Aff, grid: list[Array]) -> Any:
    """Return an expression at every element of a box; its value is an integer."""
    by = aff.get_denominator_val()

    def factor(kind: isl.dim_type, i: int) -> int:
        return aff.get_coefficient_val(kind, i).mul(by).to_python()

    total: Any = aff.get_constant_val().mul(by).to_python()
    for i, places in enumerate(grid):
        total = total + factor(isl.dim_type.in_, i) * places
    for i in range(aff.dim(isl.dim_type.div)):
        if factor(isl.dim_type.div, i):
            total = total + factor(isl.dim_type.div, i) * _evaluated(aff.get_div(i), grid)
    return total // by.to_python()


def openvino_facts(model: SecondModel) -> tuple[dict[tuple[str, int], Any], dict[str, Array]]:
    """Return the shapes that OpenVINO infers, and the integers that it folds, by layers' names."""
    try:
        openvino = extra("openvino", "Core", "PartialShape")
        passes = extra("openvino.passes", "Manager", "ConstantFolding")
        net = openvino.Core().read_model(model.xml, model.weights)
        if model.shapes:
            texts = {i: f"[{','.join(map(str, d))}]" for i, d in model.shapes.items()}
            net.reshape({i: openvino.PartialShape(t) for i, t in texts.items()})
        shapes = {
            (op.get_friendly_name(), i): [d.get_length() if d.is_static else None for d in p]
            for op in net.get_ops()
            for i in range(op.get_output_size())
            if (p := op.get_output_partial_shape(i)).rank.is_static
        }
        manager = passes.Manager()
        manager.register_pass(passes.ConstantFolding())
        manager.run_passes(net)
    except (ExtraError, RuntimeError, TypeError, ValueError):
        return {}, {}  # not installed, a dialect, or nothing that OpenVINO reads
    constants = (op for op in net.get_ops() if op.get_type_name() == "Constant")
    whole = (
        (c.get_friendly_name(), c.data) for c in constants if c.get_element_type().is_integral()
    )
    return shapes, {k: v.astype(np.int64) for k, v in whole if v.size <= MOST_SIZES}


def second_check(
    source: SecondModel,
    lowered: SecondModel,
    facts: Callable[[SecondModel], Any] | None = openvino_facts,
) -> list[SecondAnswer]:
    """Return an answer for each rewritten deconvolution, and as the last one for the model.

    `facts` returns shapes and folded integers from elsewhere.
    """
    return _Comparing(source, lowered, facts).answers()
