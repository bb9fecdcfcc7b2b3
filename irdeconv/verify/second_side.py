"""Shapes and constants of one model for the second check, by rules of its own.

If OpenVINO is installed and reads the file, its sizes and folded integers take precedence: a rule
that contradicts it is not followed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import islpy as isl
import numpy as np

from irdeconv.base.extras import ExtraError, extra
from irdeconv.verify.second_definition import STEPS, is_deconvolution
from irdeconv.verify.second_reading import Array, SecondLayer, SecondModel, SecondPort, Unfollowed
from irdeconv.verify.second_relations import (
    LARGEST_SIZE,
    MOST_SIZES,
    VALUES,
    SecondFacts,
    SecondOperation,
    SecondStep,
    Size,
    flat,
)

MOST_ELEMENTS = 1 << 25
STATEFUL = ("RandomUniform", "Multinomial", "ReadValue", "Assign", "Loop", "TensorIterator", "If")
OPSET = re.compile("opset([1-9]|1[0-7])")
# What a rule raises for attributes and constants that do not fit.
FAILURES = (LookupError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError)
WEIGHTS = ("Add", "Subtract", "Multiply", "Negative")  # operations on weights, as NumPy names them


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
        self._steps: dict[SecondPort, SecondStep] = {}
        self._arrays: dict[SecondPort, Array] = {}
        self._constant: list[bool] = []
        for y in model.layers:
            fixed = bool(y.inputs) and all(self._constant[p.layer] for p in y.inputs)
            self._constant.append(y.type == "Const" or (fixed and y.type != "RandomUniform"))
        self._said, self._folded = openvino(model) if openvino else ({}, {})

    def enter(self, at: int) -> None:
        """Number a layer's outputs: layers alike with equal inputs have equal outputs."""
        y = self.model.layers[at]
        which = {"Parameter": str(at), **dict.fromkeys(STATEFUL, y.name)}.get(y.type)
        key = [y.type, y.version, sorted(y.attributes.items()), y.rest, which]
        key += [self.number[p] for p in y.inputs]
        for port in range(len(y.names)):
            number = self.facts.numbers.setdefault((str(key), port), len(self.facts.numbers))
            self.number.setdefault(SecondPort(at, port), number)

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

    def step(self, port: SecondPort) -> SecondStep:
        """Return what an operation reads."""
        if port in self._steps:
            return self._steps[port]
        y = self.layer(port)
        known = y.type in STEPS and (is_deconvolution(y) or OPSET.fullmatch(y.version))
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
        y.require(all(n >= 0 for n in every if isinstance(n, int)), "an axis of negative size")
        if self.index:
            least = all(self.facts.at_least(n, 0) for n in every)
            y.require(least, "a negative size where the original has none")
        self._steps[port] = made
        return made

    def constant(self, port: SecondPort) -> Array | None:
        """Return the elements of a value that depends on no input, None of another one."""
        try:
            return self.array(port) if self._constant[port.layer] else None
        except Unfollowed:
            return None

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
        fixed = len(shape) < 2 and all(isinstance(n, int) and n <= MOST_SIZES for n in shape)
        y.require(number in self.facts.known and fixed, "it is not known")
        names = (f"v{number}_{i}" for i in range(math.prod(shape)))
        return _objects(self.facts.size(n, -1 << 31, 1 << 31) for n in names).reshape(shape)

    def _array(self, y: SecondLayer, port: SecondPort) -> Array:
        if y.array is not None:
            y.require(y.array.size <= MOST_ELEMENTS, "it is too large")
            wide = y.array.dtype.kind == "f" and y.array.dtype != np.float16
            return y.array.astype(np.float64) if wide else y.array
        if y.type == "ShapeOf" and y.text("output_type", "i64") == "i64":
            return _objects(self.shape(y.inputs[0]))
        if y.type == "Convert":
            return _converted(y, self.array(y.inputs[0]))
        if y.type in VALUES:
            return self._computed(y, [self.array(p) for p in y.inputs])
        step = self.step(port)
        plain = not step.sums and not step.function and all(isinstance(n, int) for n in step.shape)
        y.require(plain, "it is not followed")
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
        y.require(wide, "narrow or many integers")
        sizes = [a.astype(object) for a in inputs]
        if y.type == "Divide":
            every = [v for a in sizes for v in a.reshape(-1).tolist()]
            positive = all(self.facts.at_least(v, 0) for v in every)
            y.require(positive, "it may divide negative integers")
        made = np.frompyfunc(VALUES[y.type], len(sizes), 1)(*sizes)
        made = np.asarray(np.frompyfunc(self.facts.simple, 1, 1)(made), object)
        small = (abs(v) < 1 << 31 for v in made.reshape(-1).tolist() if isinstance(v, int))
        y.require(all(small), "it computes an integer beyond 32 bits")
        return made


def _objects(values: Any) -> Array:
    """Return a vector of sizes."""
    return np.array([*values, None], object)[:-1]


def normal(x: Array) -> Array:
    """Return numbers in double precision, which must keep all digits of f32 and of integers."""
    size = abs(x[x != 0].astype(np.float64))
    most = 2.0**127 if x.dtype.kind == "f" else 2.0**53
    if size.size and not 2.0**-126 <= size.min() <= size.max() < most:
        raise Unfollowed("a weight is too small or too large")
    return x.astype(np.float64)


def _converted(y: SecondLayer, x: Array) -> Array:
    kind = y.text("destination_type")
    if kind == "i64" and x.dtype.kind in "iuO":
        return x if x.dtype == object else x.astype(np.int64)
    y.require(kind in ("f64", "f32", "f16") and x.dtype != object, "it rounds")
    if x.dtype == np.float16:
        return x  # f16 is what the file stores, which may be rounded
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        exact = np.array_equal(wide.astype(f"<f{int(kind[1:]) // 8}"), wide)
    y.require(exact, "it rounds")
    return wide


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
    folded = {
        c.get_friendly_name(): c.data for c in constants if c.get_element_type().is_integral()
    }
    return shapes, {k: v.astype(np.int64) for k, v in folded.items() if v.size <= MOST_SIZES}
