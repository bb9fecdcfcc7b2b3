"""Random expressions of constants that decide a shape, what OpenVINO makes of them, and pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError, OpError
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import infer_op, lookup, parse_attributes
from irdeconv.ir.spec import Spec, is_static
from irdeconv.ops import catalog
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.rewrite.standardize import standardize
from support.live.runtime import Runtime
from support.live.sample import Answer

Rng = np.random.Generator
TYPES = ["i64"] * 7 + ["i32"] * 4 + ["f32"] * 5 + "i16 i8 u8 u16 u32 u64 f16 bf16 f64".split()
NUMBERS = (-129, -9, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 9, 10, 49, 100, 300, 40_000, 70_000)
NUMBERS += (2**24 + 1, 2**31 - 1, 2**31, 2**40 + 3)
REALS = (0.1, 1 / 3, 0.5, 1.7, 2.5, -2.5, -7.5, 2.9999998, 300.2, 1e-40, 1e10, 3e38, np.inf, np.nan)
INTEGER = "Abs Negative Sign Floor Clamp Exp Log Sqrt Cos Tanh Round ReLU Identity".split()
REAL = [*INTEGER, *"Ceiling Erf Sigmoid Sin Atan SoftPlus Gelu HSwish Mish Elu".split()]
BINARY = "Add Subtract Multiply Divide Mod FloorMod Power Maximum Minimum SquaredDifference".split()
COMPARED = "Equal NotEqual Less LessEqual Greater GreaterEqual".split()
REDUCED = [f"Reduce{name}" for name in "Sum Prod Max Min Mean L1 L2".split()]
LIMITS = {"min": "-2.5", "max": "6.0", "alpha": "1.0"}


class Expression:
    """A graph in the making; `steps` are the operations so far."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.graph, self.steps = rng, Graph(), list[str]()

    def add(self, name: str, *inputs: Value, **said: object) -> Value:
        """Add an operation of the last opset that has it, inferred."""
        opset = max(n for n in catalog.opsets(name) if n <= 16)
        cls = lookup(name, f"opset{opset}")
        assert cls is not None
        values, _ = parse_attributes(cls, {k: str(v) for k, v in said.items()})
        return self.node(cls(**values), *inputs)

    def node(self, op: Any, *inputs: Value) -> Value:
        specs = infer_op(op, tuple(self.graph.spec(v) for v in inputs))
        self.steps.append(op.type)
        at = len(self.graph)
        return Value(self.graph.add(op, list(inputs), name=f"n{at}", specs=specs).id)

    def const(self, values: Any, dtype: str = "i64") -> Value:
        kind = ELEMENT_TYPES[dtype]
        array = np.asarray(values).astype(kind.container)
        made = self.node(Const(kind, array.shape, ArrayData(array, kind)))
        self.steps.pop()
        return made

    def numbers(self, dtype: str, shape: Sequence[int] = (3,)) -> Value:
        """Return a constant that a type may have, with numbers at which types end."""
        kind = ELEMENT_TYPES[dtype]
        pool = [*NUMBERS, *REALS] if kind.is_real else NUMBERS
        if self.rng.random() < 0.7:
            pool = [n for n in pool if abs(n) < 11]
        with np.errstate(all="ignore"):
            if kind.is_integral:
                info = np.iinfo(kind.container)
                pool = [n for n in pool if info.min <= n <= info.max]
            return self.const(np.array(self.rng.choice(pool, shape), np.float64), dtype)

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def type_of(self, value: Value) -> str:
        return str(self.graph.spec(value).dtype)

    def step(self, x: Value) -> Value:
        """Add one operation behind a vector of three numbers."""
        dtype, what = self.type_of(x), self.rng.random()
        real = ELEMENT_TYPES[dtype].is_real
        if what < 0.3:
            name = self.pick(REAL if real else INTEGER)
            known = {k: v for k, v in LIMITS.items() if name in ("Clamp", "Elu")}
            return self.add(name, x, **({"alpha": 1.0} if name == "Elu" else known))
        if what < 0.65:
            pair = [x, self.numbers(dtype)]
            return self.add(self.pick(BINARY), *(pair if self.rng.random() < 0.8 else pair[::-1]))
        if what < 0.85:
            return self.add("Convert", x, destination_type=self.pick(TYPES))
        if what < 0.93:
            total = self.add(self.pick(REDUCED), x, self.const([0]), keep_dims=True)
            return self.add("Concat", total, x, axis=0) if self.rng.random() < 0.3 else total
        if what < 0.96:
            mask = self.add(self.pick(COMPARED), x, self.numbers(dtype))
            return self.add("Select", mask, x, self.numbers(dtype, (1,)))
        if what < 0.98:
            return self.add("CumSum", x, self.const(0))
        return self.add("MatMul", x, self.numbers(dtype, (self.graph.spec(x).shape[0], 2)))

    def size(self, base: int) -> Value:
        """Return an expression [1] of 1 to 5 steps, which is `base` if irdeconv folds rightly."""
        x = self.numbers(self.pick(TYPES))
        self.steps.clear()
        for _ in range(int(self.rng.integers(1, 6))):
            x = self.step(x)
        if ELEMENT_TYPES[self.type_of(x)].is_real and self.rng.random() < 0.5:
            x = self.add(self.pick(("Floor", "Ceiling", "Round")), x)
        return self.shifted(self.add("Convert", x, destination_type="i64"), base)

    def shifted(self, x: Value, base: int) -> Value:
        """Return one element of integers, less what irdeconv has for it, plus `base`."""
        at = int(self.rng.integers(self.graph.spec(x).shape[0]))
        one = self.add("Gather", x, self.const([at]), self.const(0))
        known = self.graph.spec(one).known
        k = int(known[0]) if known is not None else 0
        if self.rng.random() < 0.5:
            return self.add("Add", one, self.const([max(min(base - k, 2**63 - 1), -(2**63))]))
        return self.chosen(one, k, base)

    def chosen(self, x: Value, k: int, base: int) -> Value:
        """Return `base` where x is k, else another size."""
        other = self.const([base % 3 + 1 if base < 4 else base // 2])
        same = self.add("Equal", x, self.const([k]))
        return self.add("Select", same, self.const([base]), other)

    def written(self, row: str, base: int) -> Value:
        """Return what a text such as "i64 -7 Divide 2" describes: `base`, if NumPy has it."""
        dtype, first, *steps = row.split()
        x = self.const([float(first)], dtype)
        value = self.graph.spec(x).known
        self.steps.clear()
        for name, *more in (s.split(":") for s in [*steps, "Convert:i64"]):
            if name == "Convert":
                x = self.add(name, x, destination_type=more[0])
            elif name.startswith("Reduce"):
                x = self.add(name, x, self.const([0]), keep_dims=True)
            else:
                x = self.add(name, x, *(self.const([float(m)], self.type_of(x)) for m in more))
            node = self.graph.node(x.node)
            others = [self.graph.spec(v).known for v in self.graph.inputs_of(x.node)[1:]]
            value = node.op.evaluate(value, *others)
        assert value is not None
        return self.chosen(x, int(value[0]), base)


def ends(e: Expression, s: Value, x: Value) -> dict[str, Callable[[], Value]]:
    """Return the ways in which a size (1 to 3) decides the shape of a layer; x is f32[12]."""
    zero, one, many = e.const([0]), e.const([1]), e.const([-1])
    scalar = lambda v: e.add("Squeeze", v, zero)  # noqa: E731
    plain = {"mode": "nearest", "shape_calculation_mode": "sizes"}
    return {
        "Reshape": lambda: e.add("Reshape", x, e.add("Concat", s, many, axis=0)),
        "Broadcast": lambda: e.add("Broadcast", x, e.add("Concat", s, e.const([12]), axis=0)),
        "Slice": lambda: e.add("Slice", x, zero, s, one),
        "StridedSlice": lambda: e.add(
            "StridedSlice", x, zero, s, one, begin_mask="0", end_mask="0"
        ),
        "Range": lambda: e.add("Range", scalar(zero), scalar(s), scalar(one), output_type="f32"),
        "OneHot": lambda: e.add(
            "OneHot", one, scalar(s), e.const(1, "f32"), e.const(0, "f32"), axis=-1
        ),
        "Tile": lambda: e.add("Tile", x, s),
        "Pad": lambda: e.add("Pad", x, zero, s, pad_mode="constant"),
        "TopK": lambda: e.add("TopK", x, scalar(s), axis=0, mode="max", sort="value"),
        "VariadicSplit": lambda: e.add(
            "VariadicSplit", x, scalar(zero), e.add("Concat", s, many, axis=0)
        ),
        "Interpolate": lambda: e.add(
            "Interpolate", e.add("Unsqueeze", x, e.const([0, 1])), s, e.const([2]), **plain
        ),
        "Gather": lambda: e.add("Gather", e.add("Broadcast", x, e.const([5, 7, 12])), one, s),
        "ReduceSum": lambda: e.add("ReduceSum", e.add("Broadcast", x, e.const([5, 7, 9, 12])), s),
    }


@dataclass(frozen=True)
class Drawn:
    """A model with a shape that a drawn expression decides."""

    graph: Graph
    steps: tuple[str, ...]
    layer: Value

    @property
    def inferred(self) -> tuple[int, ...] | None:
        """The shape that inference finds; None if it leaves it open."""
        shape = self.graph.spec(self.layer).shape
        return shape if is_static(shape) else None

    def __str__(self) -> str:
        return " ".join(self.steps)


def drawn(seed: int, number: int) -> Drawn | None:
    """Return an expression of a seed; None if irdeconv refuses it."""
    rng = np.random.default_rng([seed, number])
    e = Expression(rng)
    x = Value(e.graph.add(Parameter((12,), f32), name="x", specs=(Spec(f32, (12,)),)).id)
    try:
        s = e.size(int(rng.integers(1, 4)))
        made = ends(e, s, x)
        layer = made[e.pick(list(made))]()
    except (IrdeconvError, OpError):
        return None
    e.graph.add(Result(), [layer], name="y")
    return Drawn(e.graph, tuple(e.steps), layer)


SHAPE, HEIGHTS = (1, 2, 4, 9), (2, 3, 4, 6, 9, 12)


@dataclass(frozen=True)
class FactPair:
    """A deconvolution of data that an expression reshapes, and its lowering for one height."""

    original: Graph
    lowered: Graph
    steps: tuple[str, ...]


def _reshaped(e: Expression, h: Value) -> tuple[Expression, Value]:
    """Return a graph that reshapes x to [1, 2, h, -1], and the result."""
    x = Value(e.graph.add(Parameter(SHAPE, f32), name="x", specs=(Spec(f32, SHAPE),)).id)
    pattern = e.add("Concat", e.const([1, 2]), h, e.const([-1]), axis=0)
    return e, e.add("Reshape", x, pattern, special_zero=False)


def _behind(e: Expression, r: Value, form: str | None = None, height: int = 0) -> Graph:
    """Put a deconvolution behind a value, lowered for a height if a form is given."""
    layer = Expression(e.rng)
    shape = (1, 2, height, 36 // height) if form else None
    data = layer.graph.add(Parameter(shape, f32), name="r", specs=(Spec(f32, shape),))
    w = layer.const(np.arange(1, 25).reshape(2, 3, 2, 2), "f32")
    said = {"strides": "2,2", "dilations": "1,1", "pads_begin": "1,0", "pads_end": "0,1"}
    y = layer.add("ConvolutionBackpropData", Value(data.id), w, **said)
    layer.graph.node(y.node).name = "deconv"
    layer.graph.add(Result(), [y], name="y")
    inner = layer.graph
    if form:
        inner = ird.infer(standardize(ird.lower(inner, form).graph))
    values = {Value(inner.parameters[0].id): r}
    for node in inner.topological():
        if node.type != "Parameter":
            read = [values[v] for v in inner.inputs_of(node.id)]
            if form and node.type == "Reshape":  # to the sizes that follow from the height
                read[1] = e.const(node.spec().shape)
            made = e.graph.add(node.op, read, name=node.name, origins=node.origins)
            values |= {Value(node.id, i): Value(made.id, i) for i in range(4)}
    return e.graph


def fact_pair(seed: int, number: int, row: str | None = None) -> FactPair | None:
    """Return a pair of a seed, or of a text; None if irdeconv refuses it.

    The lowering is for the height that irdeconv has, or for another one, which may be a constant.
    """
    rng = np.random.default_rng([seed, number, 1])
    base = int(rng.choice(HEIGHTS))
    form = "phases" if row is None and rng.random() < 0.3 else "zero-insertion"

    def begun() -> tuple[Expression, Value]:
        e = Expression(np.random.default_rng([seed, number]))
        return e, e.size(base) if row is None else e.written(row, base)

    try:
        e, r = _reshaped(*begun())
        height = base if row or rng.random() < 0.6 else int(rng.choice(HEIGHTS))
        other, h = begun()
        if rng.random() < 0.5 and row is None:
            h = other.const([height])
        lowered = _behind(*_reshaped(other, h), form, height)
        return FactPair(_behind(e, r), lowered, tuple(e.steps))
    except (IrdeconvError, OpError):
        return None


def files(graph: Graph, path: Path) -> tuple[str, bytes]:
    """Write a graph and return text and constants."""
    ird.write(graph, path)
    return path.read_text(), path.with_suffix(".bin").read_bytes()


def truth(graph: Graph, path: Path, runtime: Runtime, *feeds: Any) -> Answer:
    """Return what OpenVINO infers and computes."""
    return runtime.ask(*files(graph, path), feeds)


def alike(a: Answer, b: Answer) -> bool:
    """Whether OpenVINO runs both models of a pair, and computes the same."""
    same = a.kind == b.kind == "ran" and a.arrays[0].shape == b.arrays[0].shape
    return same and np.array_equal(a.arrays[0], b.arrays[0])


def contradicts(d: Drawn, answer: Answer) -> str:
    """Say how an inferred shape differs from OpenVINO's, if it does."""
    mine = d.inferred
    if mine is None or answer.kind != "ran":
        return ""
    real = answer.arrays[0].shape
    declared = answer.specs[0][1]
    read = None if declared is None else tuple(lo for lo, hi in declared if lo == hi)
    if real != mine or (read is not None and len(read) == len(mine) and read != mine):
        return f"{d}: inferred {mine}, read {declared}, run {real}"
    return ""
