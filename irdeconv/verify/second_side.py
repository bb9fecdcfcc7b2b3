"""Facts of one model for the second check: axes, sizes and constants, by rules of its own.

If OpenVINO is installed and reads the file, its sizes and folded integers take precedence: a rule
that contradicts it is not followed.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
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
    SecondSize,
    Unfollowed,
    larger,
    smaller,
)
from irdeconv.verify.second_relations import RULES, Runs, SecondStep, product, run_of

MOST_ELEMENTS = 1 << 25
LARGEST_SIZE = 1 << 24  # of an open axis
MOST_FOLDED = 64  # elements of a vector of sizes
# What a rule raises for attributes and constants that do not fit.
FAILURES = (LookupError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
STEPS = {**RULES, **dict.fromkeys(DECONVOLUTIONS, deconvolution)}
OPSET = re.compile("opset([1-9]|1[0-7])")
STEPS |= dict.fromkeys(("Convolution", "GroupConvolution"), convolution)


class SecondFacts:
    """What holds for both models: open sizes with their limits, axes of values by number."""

    def __init__(self, numbering: Numbering, openvino: Any) -> None:
        self.numbering = numbering
        self.context = isl.Context()
        self.open: dict[str, tuple[int, int]] = {}
        self.assumed: set[str] = set()  # sizes of outputs that the original computes
        self.sides = tuple(SecondSide(self, i, openvino) for i in (0, 1))

    def relation(self, text: str) -> isl.Map:
        """Return a relation in the open sizes."""
        return isl.Map(f"[{', '.join(self.open)}] -> {text}", context=self.context)

    def size(self, name: str, low: int = 1, high: int = LARGEST_SIZE) -> SecondSize:
        """Return an open size."""
        self.open[name] = low, high
        return SecondSize.of(name)

    @property
    def limits(self) -> isl.Set:
        """All open sizes within their limits."""
        rows = [f"{low} <= {n} <= {high}" for n, (low, high) in self.open.items()]
        rows += [f"{text} >= 0" for text in sorted(self.assumed)]
        text = f"[{', '.join(self.open)}] -> {{ : {' and '.join(rows)} }}"
        return isl.Set(text, context=self.context)

    def always(self, condition: str) -> bool:
        """Whether a condition on open sizes holds within their limits."""
        text = f"[{', '.join(self.open)}] -> {{ : {condition} }}"
        return bool(self.limits.is_subset(isl.Set(text, context=self.context)))


class SecondSide:
    """One of the two models."""

    def __init__(self, facts: SecondFacts, index: int, openvino: Any) -> None:
        self.facts, self.index = facts, index
        self.model = facts.numbering.models[index]
        self.document = self.model.document
        self.number = facts.numbering.of[index]
        self._axes: dict[SecondPort, Runs | str] = {}
        self._steps: dict[SecondPort, SecondStep] = {}
        self._arrays: dict[SecondPort, Array] = {}
        self._constant: list[bool] = []
        for y in self.model.layers:
            fixed = bool(y.inputs) and all(self._constant[p.layer] for p in y.inputs)
            self._constant.append(y.type == "Const" or (fixed and y.type != "RandomUniform"))
        self._shapes, self._folded = openvino(self.model) if openvino else ({}, {})

    def layer(self, port: SecondPort) -> SecondLayer:
        """Return the layer that computes a value."""
        return self.model.layers[port.layer]

    def is_constant(self, port: SecondPort) -> bool:
        """Whether a value depends on no input."""
        return self._constant[port.layer]

    def runs(self, port: SecondPort) -> Runs:
        """Return the axes of a value; layers in front are looked at in order, not recursively."""
        for at in range(len(self._axes), port.layer + 1):
            if SecondPort(at) not in self._axes:
                self._look(SecondPort(at))
        found = self._axes.get(port) or self._look(port)
        if isinstance(found, str):
            raise Unfollowed(found)
        return found

    def _look(self, port: SecondPort) -> Runs | str:
        try:
            made: Runs | str = self._runs(port)
        except Unfollowed as e:
            made = str(e)
        self._axes[port] = made
        return made

    def _runs(self, port: SecondPort) -> Runs:
        y, said = self.layer(port), self._shapes.get((self.layer(port).name, port.port))
        if y.type in ("Parameter", "Const"):
            shape = self._declared(port, y)
        elif y.type == "ShapeOf":
            shape = [len(self.runs(y.inputs[0]))]
        elif y.type == "Gather":
            shape, index = self.shape(y.inputs[0]), self.shape(y.inputs[1])
            axis = self.ints(y.inputs[2])[0] % len(shape)
            shape[axis : axis + 1] = index
        elif y.type in ("Convert", *ARITHMETIC) and self._are_vectors(y):
            shapes = [[n.known or 0 for n in self.shape(p)] for p in y.inputs]
            shape = [*np.broadcast_shapes(*map(tuple, shapes))]
        elif y.type in STEPS:
            runs = self.step(port).runs
            known = [product(run).known for run in runs]
            fits = said is None or len(said) == len(known)
            pairs = zip(known, said or known, strict=fits)
            if not fits or any(None not in p and p[0] != p[1] for p in pairs):
                raise Unfollowed(f"{y}: OpenVINO infers another shape, {said}")
            return runs
        elif said is not None:
            name = f"d{self.number.get(port, f'_{self.index}_{port.layer}')}"
            rows = enumerate(said)
            shape = [self.facts.size(f"{name}_{a}") if n is None else n for a, n in rows]
        else:
            return self._of_other(port, y)
        return [run_of(n) for n in shape]

    def _are_vectors(self, y: SecondLayer) -> bool:
        """Whether the inputs have known sizes, and are constant or no more than vectors."""
        shapes = [self.shape(p) for p in y.inputs]
        small = all(len(n) < 2 for n in shapes) or all(map(self.is_constant, y.inputs))
        return small and all(n.known is not None for row in shapes for n in row)

    def _of_other(self, port: SecondPort, y: SecondLayer) -> Runs:
        """Return the axes of the equal value of the other model, if its file says more."""
        for p, number in self.facts.numbering.of[1].items():
            if self.index == 0 and number == self.number[port]:
                return self.facts.sides[1].runs(p)
        raise Unfollowed(f"the shape of {y} is not known, which OpenVINO would infer")

    def _declared(self, port: SecondPort, y: SecondLayer) -> list[Any]:
        texts = [t.strip() for t in y.attributes.get("shape", "").split(",") if t.strip()]
        if y.type == "Parameter":
            place = self.model.places("Parameter").index(port.layer)
            texts = self.model.shapes.get(place, texts)
        shape: list[Any] = []
        for axis, text in enumerate(texts):
            low, dots, high = str(text).replace("?", "..").replace("-1", "..").partition("..")
            if not (low + high).isdigit() and low + high:
                raise Unfollowed(f"{y}: its shape {','.join(map(str, texts))[:60]}")
            name = f"d{self.number[port]}_{axis}"
            limits = max(int(low or 1), 1), int(high or LARGEST_SIZE)
            shape.append(self.facts.size(name, *limits) if dots else int(low))
        return shape

    def shape(self, port: SecondPort) -> list[SecondSize]:
        """Return the sizes of a value."""
        return [product(run) for run in self.runs(port)]

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
            sizes = (n for run in made.runs for n in run if n.known is None)
            if self.index and not all(self.facts.always(f"{n.text} >= 0") for n in sizes):
                raise Unfollowed(f"{y} has a negative size where the original has none")
            self._steps[port] = made
        return self._steps[port]

    def demand(self, a: SecondSize, b: SecondSize, y: SecondLayer) -> None:
        """Require that two sizes are equal."""
        if not a.same(b) and not self.facts.always(f"{a.text} = {b.text}"):
            raise Unfollowed(f"{y}: sizes {a.text} and {b.text} do not fit")

    def assume(self, size: SecondSize) -> None:
        """Leave out sizes at which an output of the original would have less than no elements."""
        if self.index == 0 and size.known is None:
            self.facts.assumed.add(size.text)

    def from_end(self, value: SecondSize, size: SecondSize) -> SecondSize:
        """Return a bound of a Slice counted from the start, not below 0."""
        if self.facts.always(f"{value.text} >= 0"):
            return value
        if self.facts.always(f"{value.text} < 0"):
            return larger(size + value, 0)
        raise Unfollowed("a bound may count from either end")

    def sizes(self, port: SecondPort) -> list[SecondSize]:
        """Return a vector of integers, of which some may be open."""
        array = self.array(port).reshape(-1)
        if array.dtype.kind in "fu" or array.size > MOST_FOLDED:
            raise Unfollowed(f"{self.layer(port)} is no short vector of integers")
        return [SecondSize.of(v) for v in array.tolist()]

    def ints(self, port: SecondPort) -> list[int]:
        """Return a vector of integers."""
        known = [v.known for v in self.sizes(port)]
        if None in known:
            raise Unfollowed(f"{self.layer(port)} is computed from open sizes")
        return [v or 0 for v in known]

    def array(self, port: SecondPort) -> Array:
        """Return elements: f64 or i64, sizes as objects, numbers of unknown elements as u64."""
        if port not in self._arrays:
            y = self.layer(port)
            folded = self._folded.get(y.name) if y.type != "Const" else None
            try:
                made = self._array(y, port) if folded is None else folded
            except (Unfollowed, *FAILURES):
                made = self._symbols(y, port)
            self._arrays[port] = made
        return self._arrays[port]

    def _symbols(self, y: SecondLayer, port: SecondPort) -> Array:
        number = self.number.get(port, -1)
        shape = [n.known for n in self.shape(port)]
        if number not in self.facts.numbering.known or None in shape:
            raise Unfollowed(f"{y} is not known")
        count = math.prod(n or 0 for n in shape)
        if count > MOST_ELEMENTS:
            raise Unfollowed(f"{y} has {count} elements")
        if len(shape) < 2 and count <= MOST_FOLDED:  # a vector of sizes
            names = (f"v{number}_{i}" for i in range(count))
            sizes = [self.facts.size(name, -(1 << 31), 1 << 31) for name in names]
            return np.array([*sizes, None], object)[:-1].reshape(shape)
        return (np.arange(1, count + 1, dtype=np.uint64) + (number << 32)).reshape(shape)

    def _array(self, y: SecondLayer, port: SecondPort) -> Array:
        if y.type == "Const":
            if y.array is None or y.array.size > MOST_ELEMENTS or y.array.dtype == np.uint64:
                raise Unfollowed(f"{y} is not read")
            wide = y.array.dtype.kind == "f" and y.array.dtype != np.float16
            return y.array.astype(np.float64) if wide else y.array
        if y.type == "ShapeOf" and y.text("output_type", "i64") == "i64":
            return np.array([*self.shape(y.inputs[0]), None], object)[:-1]
        inputs = [self.array(p) for p in y.inputs]
        if y.type == "Gather" and y.ints("batch_dims", 1) == [0]:
            return np.take(inputs[0], inputs[1].astype(np.int64), int(inputs[2].reshape(-1)[0]))
        if y.type == "Convert":
            return _converted(y, inputs[0])
        if y.type in ARITHMETIC:
            return self._computed(y, inputs)
        step = self.step(port)
        if step.kind != "move":
            raise Unfollowed(f"{y} is not followed")
        shape = [n.known or 0 for run in step.runs for n in run]
        made = np.zeros(shape, _joint(inputs[: len(step.reads)]))
        for one in step.reads:
            sides = [n.known or 0 for run in self.runs(one.port) for n in run]
            data = self.array(one.port).reshape(sides)
            box = " and ".join(f"0 <= i{a} < {n}" for a, n in enumerate(data.shape))
            limits = f"{{ [{', '.join(f'i{a}' for a in range(data.ndim))}] : {box or '1 = 1'} }}"
            whole = self.facts.relation(one.text).intersect_range(
                isl.Set(limits, self.facts.context)
            )
            there, places = tabulate(whole, tuple(shape))
            made[there] = data[tuple(p[there] for p in places)]
        return made.reshape([product(run).known or 0 for run in step.runs])

    def _computed(self, y: SecondLayer, inputs: list[Array]) -> Array:
        """Calculate with sizes, or with weights in double precision."""
        many = any(a.dtype.kind not in "f" and a.size >> 16 for a in inputs)
        if (
            many
            or any(a.dtype == np.uint64 for a in inputs)
            or y.text("auto_broadcast", "numpy") != "numpy"
        ):
            raise Unfollowed(f"{y} is not followed")
        if any(a.dtype.kind == "f" for a in inputs):
            if y.type not in ("Add", "Subtract", "Multiply", "Negative"):
                raise Unfollowed(f"{y} of weights is not followed")
            return normal(ARITHMETIC[y.type](*(a.astype(np.float64) for a in inputs)))
        if any(a.dtype not in (object, np.int64, np.int32) for a in inputs):
            raise Unfollowed(f"{y} of narrow integers")
        sizes = [np.frompyfunc(SecondSize.of, 1, 1)(a) for a in inputs]
        every = [v for a in sizes for v in np.ravel(a).tolist()] if y.type == "Divide" else []
        if not all(self.facts.always(f"{v.text} >= 0") for v in every):
            raise Unfollowed(f"{y} may divide negative integers")
        made = np.asarray(ARITHMETIC[y.type](*sizes), object)
        if any(abs(v.known or 0) >= 1 << 31 for v in made.reshape(-1).tolist()):
            raise Unfollowed(f"{y} computes an integer beyond 32 bits")
        return made


def _joint(arrays: list[Array]) -> Any:
    """Return a type for the elements of all arrays; beside unknown elements only zeros may be."""
    if any(a.dtype == np.uint64 for a in arrays):
        if any(a.any() for a in arrays if a.dtype != np.uint64):
            raise Unfollowed("elements that are not known are joined to others")
        return np.uint64
    return np.result_type(*arrays)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Subtract": operator.sub,
    "Multiply": operator.mul,
    "Divide": operator.floordiv,
    "FloorMod": operator.mod,
    "Negative": operator.neg,
    "Maximum": np.frompyfunc(larger, 2, 1),
    "Minimum": np.frompyfunc(smaller, 2, 1),
    "ReLU": np.frompyfunc(lambda v: larger(v, 0), 1, 1),
}


def normal(x: Array) -> Array:
    """Return products and sums, which must be numbers of f32 that keep all digits."""
    size = abs(x[x != 0])
    if size.size and not 2.0**-126 <= size.min() <= size.max() < 2.0**127:
        raise Unfollowed("a weight is too small or too large")
    return np.asarray(x)


def _converted(y: SecondLayer, x: Array) -> Array:
    kind = {"f64": np.float64, "f32": np.float32, "f16": np.float16}.get(y.text("destination_type"))
    if x.dtype == np.uint64:
        raise Unfollowed(f"{y} of unknown elements")
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
    return _scaled(aff, grid) // aff.get_denominator_val().to_python()


def _scaled(aff: isl.Aff, grid: list[Array]) -> Any:
    """Return an expression times its denominator."""
    by = aff.get_denominator_val()
    total: Any = aff.get_constant_val().mul(by).to_python()
    for i, places in enumerate(grid):
        total = total + aff.get_coefficient_val(isl.dim_type.in_, i).mul(by).to_python() * places
    for i in range(aff.dim(isl.dim_type.div)):
        factor = aff.get_coefficient_val(isl.dim_type.div, i).mul(by).to_python()
        if factor:
            total = total + factor * evaluated(aff.get_div(i), grid)
    return total


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
