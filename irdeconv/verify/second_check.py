"""A second opinion on a lowered model, by relations between elements that isl compares.

Both models are read from a value that should be equal back to values that both have. An output is
then a sum of products: relations say which element of the data meets which element of the filter.
The sums are equal for all data if for every output and element of the data the weights add up to
the same number.

If OpenVINO is installed and reads a file, its sizes take precedence: a rule that contradicts them
is not followed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial, reduce
from operator import itemgetter
from typing import Any, NamedTuple

import islpy as isl
import numpy as np

from irdeconv.base import progress, work
from irdeconv.base.extras import ExtraError, extra
from irdeconv.verify import second_reading as reading
from irdeconv.verify import second_relations as rules
from irdeconv.verify.second_reading import Array, SecondLayer, SecondModel, SecondPort, Unfollowed
from irdeconv.verify.second_reading import SecondAnswer as SecondAnswer
from irdeconv.verify.second_relations import SecondFacts, SecondOperation, SecondStep, Size

AGREES, DIFFERS, NOT_APPLICABLE = "agrees", "differs", "does not apply"
MOST_READ = 4096  # inputs of a layer: OpenVINO's time grows with their square
ISL_WORK, ELEMENT_WORK = 16, 64  # units of work of an operation of isl, and of an element
MOST_ELEMENT_TAPS = 8  # that read the same element for the same output
MOST_INNER_LAYERS = 6  # from a deconvolution to the value that both models have
MOST_COMPARISONS = 2  # of comparisons for one deconvolution
MOST_ELEMENTS = 1 << 25
STATEFUL = ("RandomUniform", "Multinomial", "ReadValue", "Assign", "Loop", "TensorIterator", "If")
OPSET = re.compile("opset([1-9]|1[0-7])")
# Errors of a rule for attributes and constants that do not fit.
FAILURES = (LookupError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
WEIGHTS = ("Add", "Subtract", "Multiply")  # operations on weights, as NumPy names them


class SecondDiffers(Exception):
    """The two values differ; the text names the difference."""


class SecondTerm(NamedTuple):
    """Products that a value sums, of elements of values that both models have, and of constants.

    `relation` leads from an element to the elements of all factors. A factor is the number of a
    value or an array, with its rank. `functions` are those of the sum, the last one first. When
    sums are compared, the relation leads from [output -> elements of values] to those of arrays.
    """

    side: int
    relation: isl.Map
    factors: tuple[Any, ...]
    functions: tuple[Any, ...] = ()


class SecondSide:
    """One of the two models."""

    def __init__(self, facts: SecondFacts, model: SecondModel, openvino: Any, original: bool):
        self.facts, self.model, self.original = facts, model, original
        self.index = int(not original)
        self.number: dict[SecondPort, int] = {}
        self._steps: dict[SecondPort, SecondStep] = {}
        self.array, self._summed = cache(self._array), cache(self._sum)
        self._constant: list[bool] = []
        for y in model.layers:
            fixed = bool(y.inputs) and all(self._constant[p.layer] for p in y.inputs)
            self._constant.append(y.type == "Const" or (fixed and y.type != "RandomUniform"))
        self._said = openvino(model) if openvino else {}

    def enter(self, at: int) -> None:
        """Number a layer's outputs: layers alike with equal inputs have equal outputs."""
        y, numbers = self.model.layers[at], self.facts.numbers
        which = {"Parameter": str(at), **dict.fromkeys(STATEFUL, y.name)}.get(y.type)
        key: list[Any] = [y.type, y.version, sorted(y.attributes.items()), y.rest, which]
        text = str(key + [self.number[p] for p in y.inputs])
        for port in range(len(y.names)):
            own = numbers.setdefault((text, port), len(numbers))
            self.number[SecondPort(at, port)] = own
            if (y.name, port) in self._said:
                self.facts.said.setdefault(own, self._said[y.name, port])

    def layer(self, port: SecondPort) -> SecondLayer:
        """Return the layer that computes a value."""
        return self.model.layers[port.layer]

    def shape(self, port: SecondPort) -> list[Size]:
        """Return sizes."""
        step = self.step(port)
        if step.shape is None:
            raise Unfollowed(step.unfollowed)
        return [*step.shape]

    def step(self, port: SecondPort) -> SecondStep:
        """Return an operation's reads; layers in front are done in order, not recursively."""
        for one in (*map(SecondPort, range(len(self._steps), port.layer)), port):
            if one not in self._steps:
                self._steps[one] = self._followed(one)
        return self._steps[port]

    def _followed(self, port: SecondPort) -> SecondStep:
        y, number = self.layer(port), self.number[port]
        said = self.facts.said.get(number)
        try:
            known = y.type in rules.STEPS and (y.is_deconvolution or OPSET.fullmatch(y.version))
            y.require(known, f"{y.version} is not followed")
            made = rules.STEPS[y.type](SecondOperation(self, y, port))
            shape = made.shape or []
            pairs = zip(shape, said or shape, strict=True)
            fits = all(b is None or isinstance(a, str) or a == b for a, b in pairs)
            y.require(fits, f"OpenVINO infers another shape, {said}")
            # The original has outputs, so its open sizes are not negative.
            sizes = (n for n in rules.flat(shape) if isinstance(n, int) or not self.original)
            least = all(self.facts.holds(n, ">=", 0) for n in sizes)
            y.require(least, "an axis may have a negative size")
            return made
        except (Unfollowed, *FAILURES) as e:
            text = str(e) if isinstance(e, Unfollowed) else f"{y}: {e!r}"
            own = enumerate(said or ())
            shape = [self.facts.size(f"d{number}_{a}") if n is None else n for a, n in own]
            return SecondStep(None if said is None else shape, unfollowed=text)

    def constant(self, port: SecondPort) -> Array | None:
        """Return the elements of a value that depends on no input, None of another one."""
        try:
            return self.array(port) if self._constant[port.layer] else None
        except Unfollowed:
            return None

    def _array(self, port: SecondPort) -> Array:
        """Return the elements of a constant, or sizes as objects: open ones if both have them."""
        y, number = self.layer(port), self.number[port]
        try:
            return self._elements(y, port)
        except (Unfollowed, *FAILURES):
            shape = self.shape(port)
            fixed = all(isinstance(n, int) and n <= rules.MOST_SIZES for n in shape)
            vector = fixed and len(shape) < 2 and number in self.facts.known
            y.require(vector, "its values are not known")
            names = [f"v{number}_{i}" for i in range(math.prod(map(int, shape)))]
            sizes = [self.facts.size(name, -1 << 31, 1 << 31) for name in names]
            return np.array(sizes, object).reshape([int(n) for n in shape])

    def _elements(self, y: SecondLayer, port: SecondPort) -> Array:
        if y.array is not None:
            return y.array
        if y.type == "ShapeOf" and y.text("output_type", "i64") == "i64":
            return np.array(self.shape(y.inputs[0]), object)
        if y.type == "Convert":
            return _converted(y, self.array(y.inputs[0]))
        if y.type in rules.VALUES:
            return self._computed(y, [self.array(p) for p in y.inputs])
        step, shape = self.step(port), tuple(self.shape(port))
        plain = not step.sums and not step.function and all(isinstance(n, int) for n in shape)
        if step.reads is None or not plain:
            raise Unfollowed(f"{y}: it is not followed as a constant")
        every = [self.array(factors[0]) for _, factors in step.reads]
        made = np.zeros(shape, np.result_type(*every) if every else object)
        for (relation, _), data in zip(step.reads, every, strict=True):
            there, places = tabulate(relation, shape)
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
        rows = [a.astype(object) for a in inputs]
        value = np.frompyfunc(partial(self.facts.value, y.type), len(rows), 1)
        made = np.asarray(value(*rows), object)
        small = (abs(v) < 1 << 31 for v in made.reshape(-1).tolist() if isinstance(v, int))
        y.require(all(small), "it computes an integer beyond 32 bits")
        return made

    def terms(self, end: SecondPort) -> Iterator[SecondTerm]:
        """Yield the summands of a value's elements, back to values of both models."""
        self._summed = cache(self._sum)  # both have more of them in every comparison
        for term in self._factor(end):
            made = term._replace(relation=self.facts.settled(term.relation))
            arrays = (value for value, _ in made.factors if isinstance(value, np.ndarray))
            if not made.relation.is_empty() and all(array.any() for array in arrays):
                yield made

    def _factor(self, value: Any) -> list[SecondTerm]:
        array = self.constant(value) if isinstance(value, SecondPort) else value
        if array is None and self.number[value] not in self.facts.stops:
            return self._summed(value)
        shape = self.shape(value) if array is None else array.shape
        factor = self.number[value] if array is None else array, len(rules.flat(shape))
        return [SecondTerm(self.index, self.facts.relation(shape, rules.axes_of(shape)), (factor,))]

    def _sum(self, port: SecondPort) -> list[SecondTerm]:
        step, made = self.step(port), list[SecondTerm]()
        if step.reads is None:
            raise Unfollowed(step.unfollowed)
        for relation, factors in step.reads:
            for terms in itertools.product(*map(self._factor, factors)):
                inner = reduce(isl.Map.flat_product, (t.relation for t in terms))
                m = relation.apply_range(inner).detect_equalities()
                functions = max((t.functions for t in terms), key=len)
                if functions and step.sums:
                    raise Unfollowed(f"{self.layer(port)} sums values of a function")
                own = tuple(factor for t in terms for factor in t.factors)
                made += [] if m.is_empty() else [SecondTerm(self.index, m, own, functions)]
        if step.function:
            made = [t._replace(functions=(step.function, *t.functions)) for t in made]
            # A function of an empty sum may be another number than 0: its outputs are a source.
            outputs = self.facts.relation(self.shape(port), [])
            made.append(SecondTerm(self.index, outputs, ((-1, 0),), (step.function,)))
        return made


class _Comparing:
    def __init__(self, source: SecondModel, lowered: SecondModel, openvino: Any) -> None:
        self.facts = SecondFacts()
        self.source = SecondSide(self.facts, source, openvino, True)
        self.lowered = SecondSide(self.facts, lowered, openvino, False)
        self.made: dict[str, list[SecondAnswer]] = defaultdict(list)
        self.named: dict[str, SecondPort] = {}
        for at, y in enumerate(source.layers):
            self.source.enter(at)
            for port, names in enumerate(y.names):
                self.named |= dict.fromkeys((*names, y.name), SecondPort(at, port))
        self.facts.known |= {*self.source.number.values()}
        # Half of the account is for isl, which counts the operations of all comparisons.
        units = work.left() // 2
        work.room(units, whole=True)
        self.operations = min(max(units // ISL_WORK, 1), 1 << 60)
        isl.DEFAULT_CONTEXT.reset_operations()

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
                    for wanted in {self.named[n] for n in {*names, y.name} if n in self.named}:
                        self._settle(wanted, SecondPort(at, port))
                step()
        whole = SecondAnswer("the model", AGREES)
        for kind in ("Assign", "Result", "Parameter"):
            if _ends(self.source, kind) != _ends(self.lowered, kind):
                text = f"the values or names of {kind} layers are not shown to be equal"
                whole = SecondAnswer("the model", NOT_APPLICABLE, text)
        best = [
            min(row, key=lambda one: one.verdict != AGREES, default=_left_out(name))
            for name, row in self.made.items()
        ]
        return [*best, whole]

    def _settle(self, wanted: SecondPort, output: SecondPort) -> None:
        """Compare two values if there are deconvolutions between them and known ones."""
        number, own = self.source.number[wanted], self.lowered.number
        if own[output] in self.facts.known or number in own.values():
            return
        layers = self._deconvolutions(wanted)
        if not layers or any(len(self.made[name]) >= MOST_COMPARISONS for name in layers):
            return
        isl.DEFAULT_CONTEXT.set_max_operations(self.operations)
        self.facts.stops = self.facts.known & {*own.values()}
        verdict, text = AGREES, ""
        try:
            _compare((self.source, wanted), (self.lowered, output))
            own[output] = number
        except SecondDiffers as e:
            verdict, text = DIFFERS, str(e)
        except (Unfollowed, isl.Error, *FAILURES) as e:
            text = _limit("isl") if "maximal number of operations" in str(e) else str(e)
            verdict = NOT_APPLICABLE
        finally:
            isl.DEFAULT_CONTEXT.set_max_operations(0)
        for name in layers:
            self.made[name].append(SecondAnswer(name, verdict, text))

    def _deconvolutions(self, wanted: SecondPort) -> list[str]:
        """Return the deconvolutions between a value and those that the lowered model has."""
        have, found, todo, seen = {*self.lowered.number.values()}, [], [(wanted, 0)], set()
        while todo:
            port, depth = todo.pop()
            fresh = port not in seen and self.source.number[port] not in have
            if fresh and depth <= MOST_INNER_LAYERS:
                y = self.source.layer(port)
                found += [y.name] if y.is_deconvolution else []
                todo += [(p, depth + 1) for p in y.inputs]
                seen.add(port)
        return found


def _limit(what: str = "the comparison") -> str:
    return f"{what} needs too many operations for {work.limit_text()}"


def _left_out(name: str) -> SecondAnswer:
    text = "it was not compared, because a deconvolution beside it was compared twice"
    return SecondAnswer(name, NOT_APPLICABLE, text)


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
    groups: dict[Any, list[SecondTerm]] = defaultdict(list)
    functions: tuple[set[Any], set[Any]] = (set(), set())
    a, b = (side.shape(end) for side, end in ends)
    equal = len(a) == len(b) and all(map(ends[0][0].facts.equal, a, b))
    followed = all(side.step(end).reads is not None for side, end in ends)
    if not equal and followed and all(isinstance(n, int) for n in (*a, *b)):
        raise SecondDiffers(f"the shape is {b} instead of {a}")
    for i, (side, end) in enumerate(ends):
        for term in side.terms(end):
            functions[i].add(term.functions or None)
            for sources, tap in _taps(term):
                groups[term.functions, sources].append(tap)
    # Later, as open sizes of unfollowed values are not those that the other model has.
    if not equal:
        raise SecondDiffers(f"the shape is {b} instead of {a}")
    first, second = (every - {None} for every in functions)
    if first != second:
        raise SecondDiffers(f"the activations are {second} instead of {first}")
    for taps in groups.values():
        # Regions in which the same taps read an element, with the places of these.
        regions: list[tuple[isl.Set, tuple[int, ...]]] = []
        for i, tap in enumerate(taps):
            own, before = tap.relation.domain(), regions
            pairs = [(domain.intersect(own), (*chosen, i)) for domain, chosen in before]
            pairs += [(domain.subtract(own), chosen) for domain, chosen in before]
            pairs.append((reduce(isl.Set.subtract, (domain for domain, _ in before), own), (i,)))
            regions = [row for row in pairs if not row[0].is_empty()]
        for domain, chosen in sorted(regions, key=itemgetter(1)):
            _compare_sums(domain, [taps[i] for i in chosen])


def _taps(term: SecondTerm) -> Iterator[tuple[tuple[int, ...], SecondTerm]]:
    """Yield sources with the first taps that read an element for an output, the second ones, ..."""
    names = [[f"i{k}_{a}" for a in range(rank)] for k, (_, rank) in enumerate(term.factors)]
    rows = [(factor, own) for (factor, _), own in zip(term.factors, names, strict=True)]
    sources = sorted(row for row in rows if isinstance(row[0], int))
    arrays = [(np.ones(1), ["0"]), *(row for row in rows if not isinstance(row[0], int))]
    numbers = tuple(number for number, _ in sources)
    if len({*numbers}) < len(numbers):
        raise Unfollowed("a value is multiplied by itself")
    parts = ([name for _, own in some for name in own] for some in (rows, sources, arrays))
    every, elements, place = map(", ".join, parts)
    ordered = isl.Map(f"{{ [{every}] -> [[{elements}] -> [{place}]] }}")
    rest = term.relation.apply_range(ordered).uncurry()
    for _ in range(MOST_ELEMENT_TAPS):
        first = rest if rest.is_single_valued() else rest.lexmin()
        yield numbers, term._replace(relation=first, factors=tuple(array for array, _ in arrays))
        rest = rest.subtract(first)
        if rest.is_empty():
            return
    raise Unfollowed("too many taps read one element")


def _compare_sums(domain: isl.Set, taps: Sequence[SecondTerm]) -> None:
    """Compare the sums of weights over the elements that these taps, and no others, read."""
    relations = [tap.relation.intersect_domain(domain) for tap in taps]
    positions = _positions(relations, taps)
    rows: tuple[list[Array], list[Array]] = ([], [])
    for tap in taps:
        weights: Any = 1.0
        for array in tap.factors:
            place = tuple(next(positions) for _ in range(array.ndim))
            weights = normal(weights * normal(array[place]))
        rows[tap.side].append(weights)
    exact, near = np.broadcast_arrays(*(sum(row, np.zeros(1)) for row in rows))
    off = exact != near
    if any(a.dtype == np.float16 for a in taps[-1].factors) and off.any():
        close = (exact.astype(np.float16) == near) & (abs(exact - near) <= abs(exact) / 1024)
        if close[off].all():
            raise Unfollowed("its weights are rounded to f16")
    if off.any():
        texts = f"{near[off][0]} instead of {exact[off][0]}"
        raise SecondDiffers(f"a weight is {texts}, such as for {domain.sample_point()}")


def _positions(relations: Sequence[isl.Map], taps: Sequence[SecondTerm]) -> Iterator[Array]:
    """Return the axes of all combinations of weights: those of one tap decide the others."""
    every = reduce(isl.Map.flat_range_product, relations)
    for relation, tap in zip(reversed(relations), reversed(taps), strict=True):
        back = relation.reverse().apply_range(every).project_out_all_params()
        if back.is_single_valued():
            there, values = tabulate(back, tuple(n for a in tap.factors for n in a.shape))
            return (v[there] for v in values)
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
        return x  # f16 as the file stores it, which may be rounded
    with np.errstate(over="ignore"):
        made = x.astype(reading.CODES[kind])
    y.require(np.array_equal(made, x), "it rounds")
    return made if kind == "i64" else made.astype(np.float64)


def tabulate(relation: isl.Map, shape: tuple[int, ...]) -> tuple[Array, list[Array]]:
    """Return the domain of a relation of one value in a box as a mask, and the values."""
    if math.prod(shape) > MOST_ELEMENTS or not relation.is_single_valued():
        raise Unfollowed("a relation has several values, or too many elements")
    if not work.room(ELEMENT_WORK * math.prod(shape), whole=True):
        raise Unfollowed(_limit())
    grid = [np.asarray(g) for g in np.ogrid[tuple(slice(n) for n in shape)]]
    there = np.zeros(shape, bool)
    values = [np.zeros(shape, np.int64) for _ in range(relation.dim(isl.dim_type.out))]

    pieces: list[tuple[isl.Set, isl.MultiAff]] = []
    every = relation.project_out_all_params().compute_divs().as_pw_multi_aff()
    every.foreach_piece(lambda *piece: pieces.append(piece))  # islpy ignores exceptions in it
    for where, of in pieces:
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


def openvino_shapes(model: SecondModel) -> dict[tuple[str, int], Any]:
    """Return the shapes that OpenVINO infers by layers' names, None for an open size."""
    if max((len(y.inputs) for y in model.layers), default=0) > MOST_READ:
        return {}
    try:
        openvino = extra("openvino", "Core", "PartialShape")
        net = openvino.Core().read_model(model.xml, model.weights)
        if model.shapes:
            texts = {i: f"[{','.join(map(str, d))}]" for i, d in model.shapes.items()}
            net.reshape({i: openvino.PartialShape(t) for i, t in texts.items()})
    except (ExtraError, RuntimeError, TypeError, ValueError):
        return {}  # not installed, a dialect, or nothing that OpenVINO reads
    shapes: dict[tuple[str, int], Any] = {}
    for op in net.get_ops():
        for i, shape in enumerate(out.get_partial_shape() for out in op.outputs()):
            if shape.rank.is_static:
                sizes = [d.get_length() if d.is_static else None for d in shape]
                shapes[op.get_friendly_name(), i] = sizes
    return shapes


def second_check(
    source: SecondModel,
    lowered: SecondModel,
    facts: Callable[[SecondModel], Any] | None = openvino_shapes,
) -> list[SecondAnswer]:
    """Return an answer for each rewritten deconvolution, and as the last one for the model.

    `facts` returns shapes from elsewhere.
    """
    return _Comparing(source, lowered, facts).answers()
