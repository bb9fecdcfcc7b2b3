"""Facts of one model for the second check: sizes and constants, by rules of its own.

If OpenVINO is installed and reads the file, its sizes and folded integers take precedence: a rule
that contradicts it is not followed.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import islpy as isl
import numpy as np

from irdeconv.base.extras import ExtraError, extra
from irdeconv.verify.second_definition import DECONVOLUTIONS, convolution, deconvolution
from irdeconv.verify.second_reading import (
    Array,
    Numbering,
    SecondLayer,
    SecondModel,
    SecondPort,
    Unfollowed,
)
from irdeconv.verify.second_relations import (
    RULES,
    Merged,
    SecondStep,
    Size,
    divided,
    factors,
    is_number,
    larger,
    product,
    shown,
    smaller,
)

MOST_ELEMENTS = 1 << 25
LARGEST_SIZE = 1 << 24  # of an open axis
MOST_FOLDED = 64  # elements of a vector of sizes
# What a rule raises for attributes and constants that do not fit.
FAILURES = (LookupError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
STEPS = {**RULES, **dict.fromkeys(DECONVOLUTIONS, deconvolution)}
OPSET = re.compile("opset([1-9]|1[0-7])")
STEPS |= dict.fromkeys(("Convolution", "GroupConvolution"), convolution)


class SecondFacts:
    """What holds for both models: open sizes with their limits; expressions for isl."""

    def __init__(self, numbering: Numbering, openvino: Any) -> None:
        self.numbering = numbering
        self.context = isl.Context()
        self.limits = isl.Set("{ : }", self.context)
        self.sides = tuple(SecondSide(self, i, openvino) for i in (0, 1))

    def name(self, name: str) -> isl.PwAff:
        """Return an axis, a tap or an open size by its name."""
        return isl.PwAff(f"[{name}] -> {{ [({name})] }}", self.context)

    def axes(self, shape: Sequence[Size]) -> list[Size]:
        """Return the positions along the axes of an output."""
        made: list[Size] = []
        for a, n in enumerate(shape):
            parts = tuple(self.name(f"o{a}_{i}") for i in range(len(factors(n))))
            made.append(Merged(parts) if isinstance(n, Merged) else self.name(f"o{a}"))
        return made

    def size(self, name: str, low: int = 1, high: int = LARGEST_SIZE) -> Size:
        """Return an open size."""
        made = self.name(name)
        self.assume(made - low)
        self.assume(high - made)
        return made

    def assume(self, size: Size) -> None:
        """Leave out open sizes at which a size is negative."""
        self.limits = self.limits.intersect(self.lifted(size).nonneg_set())

    def lifted(self, size: Size) -> isl.PwAff:
        """Return an expression, also of a number."""
        return isl.PwAff(f"{{ [({size})] }}", self.context) if isinstance(size, int) else size

    def simple(self, size: Size) -> Size:
        """Return a number if it is one, else what the limits leave of an expression."""
        if isinstance(size, Merged):
            return Merged(tuple(map(self.simple, size.parts)))
        if isinstance(size, int):
            return size
        size = size.gist(self.limits).coalesce()
        fixed = size.n_piece() == 1 and size.is_cst()
        return size.max_val().to_python() if fixed else size

    def same(self, a: Size, b: Size) -> isl.Set:
        """Return the condition that two expressions are equal."""
        return self.lifted(a - b).zero_set()

    def inside(self, position: Size, size: Size) -> list[isl.Set]:
        """Return the conditions that a position is one of an axis."""
        return [self.lifted(n).nonneg_set() for n in (position, size - 1 - position)]

    def equal(self, a: Size, b: Size) -> bool:
        """Whether two sizes are equal within the limits."""
        if isinstance(a, Merged) or isinstance(b, Merged):
            return is_number(self.quotient(a, b), 1)
        return bool(self.limits.is_subset(self.same(a, b)))

    def at_least(self, a: Size, b: Size) -> bool:
        """Whether a size is surely not below another one within the limits."""
        if isinstance(a, Merged) or isinstance(b, Merged):
            return self.quotient(a, b) is not None
        return bool(self.limits.is_subset(self.lifted(a - b).nonneg_set()))

    def quotient(self, a: Size, b: Size) -> Size | None:
        """Return the exact quotient of products, None if cancelling their factors has no end."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b if b and a % b == 0 else None
        left, rest = [*factors(a)], 1
        for d in factors(b):
            for i, n in enumerate(left):
                if (k := self._ratio(n, d)) is not None:
                    left[i] = k
                    break
                if (k := self._ratio(d, n)) is not None:
                    left[i], rest = 1, rest * k
                    break
            else:
                if not isinstance(d, int):
                    return None
                rest *= d
        left = [*factors(product(left))]
        for i, n in enumerate(left):
            if rest and self.equal(n % rest, 0):
                return product([*left[:i], n // rest, *left[i + 1 :]])
        return None

    def _ratio(self, a: Size, b: Size) -> int | None:
        """Return the whole number `k` with a = k*b, None if there is none."""
        most = [self.lifted(n).intersect_domain(self.limits).max_val().to_python() for n in (a, b)]
        k = most[0] // most[1] if most[1] else 0
        return k if k and self.equal(a, b * k) else None

    def from_end(self, bound: Size, size: Size) -> Size:
        """Return a bound of a Slice counted from the start, not below 0."""
        if self.at_least(bound, 0):
            return bound
        if self.at_least(-1, bound):
            return self.simple(larger(size + bound, 0))
        raise Unfollowed("a bound may count from either end")

    def relation(
        self,
        shape: Sequence[Size],
        at: Sequence[Size],
        where: Sequence[isl.Set] = (),
        taps: int = 0,
    ) -> isl.Map:
        """Return the relation from an output's elements (and taps) to positions."""
        names = [
            n.get_dim_name(isl.dim_type.param, 0) for o in self.axes(shape) for n in factors(o)
        ]
        names += [f"t{i}" for i in range(taps)]
        made = isl.Set("{ [] }", self.context)
        for position in (n for axis in at for n in factors(axis)):
            one = isl.MultiPwAff.from_pw_aff(self.lifted(position))
            made = made.flat_product(isl.Set.from_multi_pw_aff(one))
        for condition in where:
            made = made.intersect_params(condition)
        ids = isl.MultiId(f"{{ [{', '.join(names)}] }}", self.context)
        # Without this, quotients and remainders stay as unknowns that multiply in compositions.
        return made.unbind_params_insert_domain(ids).detect_equalities()


class SecondSide:
    """One of the two models."""

    def __init__(self, facts: SecondFacts, index: int, openvino: Any) -> None:
        self.facts, self.index = facts, index
        self.model = facts.numbering.models[index]
        self.document = self.model.document
        self.number = facts.numbering.of[index]
        self._shapes: dict[SecondPort, list[Size] | str] = {}
        self._steps: dict[SecondPort, SecondStep] = {}
        self._arrays: dict[SecondPort, Array] = {}
        self._constant: list[bool] = []
        for y in self.model.layers:
            fixed = bool(y.inputs) and all(self._constant[p.layer] for p in y.inputs)
            self._constant.append(y.type == "Const" or (fixed and y.type != "RandomUniform"))
        self._said, self._folded = openvino(self.model) if openvino else ({}, {})

    def layer(self, port: SecondPort) -> SecondLayer:
        """Return the layer that computes a value."""
        return self.model.layers[port.layer]

    def is_constant(self, port: SecondPort) -> bool:
        """Whether a value depends on no input."""
        return self._constant[port.layer]

    def shape(self, port: SecondPort) -> list[Size]:
        """Return sizes; layers in front are looked at in order, not recursively."""
        for at in range(len(self._shapes), port.layer):
            self._look(SecondPort(at))
        found = self._look(port)
        if isinstance(found, str):
            raise Unfollowed(found)
        return [*found]

    def _look(self, port: SecondPort) -> list[Size] | str:
        if port not in self._shapes:
            try:
                self._shapes[port] = [self.facts.simple(n) for n in self._sizes_of(port)]
            except Unfollowed as e:
                self._shapes[port] = str(e)
        return self._shapes[port]

    def _sizes_of(self, port: SecondPort) -> Sequence[Size]:
        y = self.layer(port)
        said = self._said.get((y.name, port.port))
        if y.type in ("Parameter", "Const"):
            return self._declared(port, y)
        if y.type == "ShapeOf":
            return [len(self.shape(y.inputs[0]))]
        if y.type in (*VALUES, "Convert") and self._are_vectors(y):
            return np.broadcast_shapes(*(tuple(self.shape(p)) for p in y.inputs))
        if y.type in STEPS:
            made = self.step(port).shape
            rows = zip(made, said or (), strict=False)
            differ = any(isinstance(a, int) and b not in (None, a) for a, b in rows)
            if differ or (said is not None and len(said) != len(made)):
                raise Unfollowed(f"{y}: OpenVINO infers another shape, {said}")
            return made
        if said is not None:
            name = f"d{self.number.get(port, f'_{self.index}_{port.layer}')}"
            return [self.facts.size(f"{name}_{a}") if n is None else n for a, n in enumerate(said)]
        return self._of_other(port, y)

    def _are_vectors(self, y: SecondLayer) -> bool:
        """Whether the inputs have known sizes, and are constant or no more than vectors."""
        shapes = [self.shape(p) for p in y.inputs]
        small = all(len(n) < 2 for n in shapes) or all(map(self.is_constant, y.inputs))
        return small and all(isinstance(n, int) for row in shapes for n in row)

    def _of_other(self, port: SecondPort, y: SecondLayer) -> list[Size]:
        """Return the sizes of the equal value of the other model, if its file says more."""
        for p, number in self.facts.numbering.of[1].items():
            if self.index == 0 and number == self.number[port]:
                return self.facts.sides[1].shape(p)
        raise Unfollowed(f"the shape of {y} is not known, which OpenVINO would infer")

    def _declared(self, port: SecondPort, y: SecondLayer) -> list[Size]:
        texts = [t.strip() for t in y.attributes.get("shape", "").split(",") if t.strip()]
        if y.type == "Parameter":
            place = self.model.places("Parameter").index(port.layer)
            texts = self.model.shapes.get(place, texts)
        shape: list[Size] = []
        for axis, text in enumerate(texts):
            low, dots, high = str(text).replace("?", "..").replace("-1", "..").partition("..")
            if not (low + high).isdigit() and low + high:
                raise Unfollowed(f"{y}: its shape {','.join(map(str, texts))[:60]}")
            name = f"d{self.number[port]}_{axis}"
            limits = max(int(low or 1), 1), int(high or LARGEST_SIZE)
            shape.append(self.facts.size(name, *limits) if dots else int(low))
        return shape

    def step(self, port: SecondPort) -> SecondStep:
        """Return what an operation reads."""
        if port not in self._steps:
            y = self.layer(port)
            if y.type not in STEPS or (y.type in RULES and not OPSET.fullmatch(y.version)):
                raise Unfollowed(f"{y} of {y.version} is not followed")
            try:
                made = STEPS[y.type](self, y, port.port)
            except FAILURES as e:
                raise Unfollowed(f"{y}: {type(e).__name__} {e}") from None
            made.shape = [self.facts.simple(n) for n in made.shape]
            every = [n for size in made.shape for n in factors(size)]
            if any(n < 0 for n in every if isinstance(n, int)):
                raise Unfollowed(f"{y} has an axis of negative size")
            if self.index and not all(self.facts.at_least(n, 0) for n in every):
                raise Unfollowed(f"{y} has a negative size where the original has none")
            self._steps[port] = made
        return self._steps[port]

    def demand(self, a: Size, b: Size, y: SecondLayer) -> None:
        """Require that two sizes are equal, part by part."""
        pairs = zip(factors(a), factors(b), strict=False)
        if len(factors(a)) != len(factors(b)) or not all(self.facts.equal(*p) for p in pairs):
            raise Unfollowed(f"{y}: sizes {shown(a)} and {shown(b)} do not fit")

    def assume(self, size: Size) -> None:
        """Leave out sizes at which an output of the original would have less than no elements."""
        if self.index == 0 and not isinstance(size, int):
            self.facts.assume(size)

    def sizes(self, port: SecondPort) -> list[Size]:
        """Return a vector of integers, of which some may be open."""
        array = self.array(port).reshape(-1)
        if array.dtype.kind == "f" or array.size > MOST_FOLDED:
            raise Unfollowed(f"{self.layer(port)} is no short vector of integers")
        return [self.facts.simple(v) for v in array.tolist()]

    def ints(self, port: SecondPort) -> list[int]:
        """Return a vector of integers."""
        made = self.sizes(port)
        if not all(isinstance(v, int) for v in made):
            raise Unfollowed(f"{self.layer(port)} is computed from open sizes")
        return made

    def array(self, port: SecondPort) -> Array:
        """Return the elements of a constant, or sizes as objects."""
        if port not in self._arrays:
            y = self.layer(port)
            folded = self._folded.get(y.name) if y.type != "Const" else None
            try:
                self._arrays[port] = self._array(y, port) if folded is None else folded
            except (Unfollowed, *FAILURES):
                self._arrays[port] = self._unknown(y, port)
        return self._arrays[port]

    def _unknown(self, y: SecondLayer, port: SecondPort) -> Array:
        """Return open sizes for a vector that both models have."""
        number, shape = self.number.get(port, -1), self.shape(port)
        fixed = len(shape) < 2 and all(isinstance(n, int) and n <= MOST_FOLDED for n in shape)
        if number not in self.facts.numbering.known or not fixed:
            raise Unfollowed(f"{y} is not known")
        names = (f"v{number}_{i}" for i in range(math.prod(shape)))
        return _objects(self.facts.size(n, -1 << 31, 1 << 31) for n in names).reshape(shape)

    def _array(self, y: SecondLayer, port: SecondPort) -> Array:
        if y.type == "Const":
            if y.array is None or y.array.size > MOST_ELEMENTS:
                raise Unfollowed(f"{y} is not read")
            wide = y.array.dtype.kind == "f" and y.array.dtype != np.float16
            return y.array.astype(np.float64) if wide else y.array
        if y.type == "ShapeOf" and y.text("output_type", "i64") == "i64":
            return _objects(self.shape(y.inputs[0]))
        if y.type == "Convert":
            return _converted(y, self.array(y.inputs[0]))
        if y.type in VALUES:
            return self._computed(y, [self.array(p) for p in y.inputs])
        step = self.step(port)
        if step.sums or step.function or not all(isinstance(n, int) for n in step.shape):
            raise Unfollowed(f"{y} is not followed")
        every = [self.array(one.port) for one in step.reads]
        made = np.zeros(step.shape, np.result_type(*every) if every else object)
        for one, data in zip(step.reads, every, strict=True):
            there, places = tabulate(one.relation, tuple(step.shape))
            made[there] = data[tuple(p[there] for p in places)]
        return made

    def _computed(self, y: SecondLayer, inputs: list[Array]) -> Array:
        """Calculate with sizes, or with weights in double precision."""
        if any(a.dtype.kind != "f" and a.size >> 16 for a in inputs):
            raise Unfollowed(f"{y} of many integers")
        if y.text("auto_broadcast", "numpy") != "numpy":
            raise Unfollowed(f"{y} is not followed")
        if any(a.dtype.kind == "f" for a in inputs):
            if y.type not in WEIGHTS:
                raise Unfollowed(f"{y} of weights is not followed")
            return normal(WEIGHTS[y.type](*(a.astype(np.float64) for a in inputs)))
        if any(a.dtype not in (object, np.int64, np.int32) for a in inputs):
            raise Unfollowed(f"{y} of narrow integers")
        sizes = [a.astype(object) for a in inputs]
        every = [v for a in sizes for v in np.ravel(a).tolist()]
        if y.type == "Divide" and not all(self.facts.at_least(v, 0) for v in every):
            raise Unfollowed(f"{y} may divide negative integers")
        made = np.frompyfunc(VALUES[y.type], len(sizes), 1)(*sizes)
        made = np.asarray(np.frompyfunc(self.facts.simple, 1, 1)(made), object)
        if any(isinstance(v, int) and abs(v) >= 1 << 31 for v in made.reshape(-1).tolist()):
            raise Unfollowed(f"{y} computes an integer beyond 32 bits")
        return made


def _objects(values: Any) -> Array:
    """Return a vector of sizes."""
    return np.array([*values, None], object)[:-1]


# Operations on sizes, and on weights.
VALUES: dict[str, Callable[..., Size]] = {
    "Add": operator.add,
    "Subtract": operator.sub,
    "Multiply": lambda a, b: product((a, b)),
    "Divide": lambda a, b: divided(a, b)[0],
    "FloorMod": lambda a, b: divided(a, b)[1],
    "Negative": operator.neg,
    "Maximum": larger,
    "Minimum": smaller,
    "ReLU": lambda a: larger(a, 0),
}
WEIGHTS: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
    "Negative": np.negative,
}


def normal(x: Array) -> Array:
    """Return products and sums, which must be numbers of f32 that keep all digits."""
    size = abs(x[x != 0])
    if size.size and not 2.0**-126 <= size.min() <= size.max() < 2.0**127:
        raise Unfollowed("a weight is too small or too large")
    return np.asarray(x)


def _converted(y: SecondLayer, x: Array) -> Array:
    kind = {"f64": np.float64, "f32": np.float32, "f16": np.float16}.get(y.text("destination_type"))
    if x.dtype == np.float16 and kind is not None:
        return x  # f16 is what the file stores, which may be rounded
    if kind is not None and x.dtype != object:
        wide = x.astype(np.float64)
        with np.errstate(over="ignore"):
            if np.array_equal(wide.astype(kind), wide):
                return wide
    if y.text("destination_type") == "i64" and x.dtype.kind in "iuO":
        return x if x.dtype == object else x.astype(np.int64)
    raise Unfollowed(f"{y} rounds")


def tabulate(relation: isl.Map, shape: tuple[int, ...]) -> tuple[Array, list[Array]]:
    """Return where a relation of one value is defined in a box, and the values."""
    if math.prod(shape) > MOST_ELEMENTS or not relation.is_single_valued():
        raise Unfollowed("a relation has several values, or too many elements")
    grid = [np.asarray(g) for g in np.ogrid[tuple(slice(n) for n in shape)]]
    there = np.zeros(shape, bool)
    values = [np.zeros(shape, np.int64) for _ in range(relation.dim(isl.dim_type.out))]

    def piece(where: isl.Set, of: isl.MultiAff) -> None:
        mask = member(where, grid, shape)
        for i, value in enumerate(values):
            value[mask] = np.broadcast_to(evaluated(of.get_at(i), grid), shape)[mask]
        there[mask] = True

    relation.project_out_all_params().compute_divs().as_pw_multi_aff().foreach_piece(piece)
    return there, values


def member(where: isl.Set, grid: list[Array], shape: tuple[int, ...]) -> Array:
    """Return which elements of a box are in a set."""
    made = np.zeros(shape, bool)
    for basic in where.compute_divs().get_basic_sets():
        mask = np.ones(shape, bool)
        for c in basic.get_constraints():
            value = evaluated(c.get_aff(), grid)
            mask &= value == 0 if c.is_equality() else value >= 0
        made |= mask
    return made


def evaluated(aff: isl.Aff, grid: list[Array]) -> Any:
    """Return an expression at every element of a box; its value is an integer."""
    by = aff.get_denominator_val()

    def factor(kind: isl.dim_type, i: int) -> int:
        return aff.get_coefficient_val(kind, i).mul(by).to_python()

    total: Any = aff.get_constant_val().mul(by).to_python()
    for i, places in enumerate(grid):
        total = total + factor(isl.dim_type.in_, i) * places
    for i in range(aff.dim(isl.dim_type.div)):
        if factor(isl.dim_type.div, i):
            total = total + factor(isl.dim_type.div, i) * evaluated(aff.get_div(i), grid)
    return total // by.to_python()


def openvino_facts(model: SecondModel) -> tuple[dict[tuple[str, int], Any], dict[str, Array]]:
    """Return the shapes that OpenVINO infers, and the integers that it folds, by layers' names."""
    try:
        openvino = extra("openvino", "Core", "PartialShape")
        passes = extra("openvino.passes", "Manager", "ConstantFolding")
    except ExtraError:
        return {}, {}
    try:
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
    except (RuntimeError, TypeError, ValueError):
        return {}, {}  # a dialect, or nothing that OpenVINO reads
    constants = (op for op in net.get_ops() if op.get_type_name() == "Constant")
    folded = {
        c.get_friendly_name(): c.data for c in constants if c.get_element_type().is_integral()
    }
    return shapes, {k: v.astype(np.int64) for k, v in folded.items() if v.size <= MOST_FOLDED}
