"""Random expressions of constants that decide a shape, what OpenVINO makes of them, and pairs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError, OpError
from irdeconv.ir.attributes import attributes
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import Op, infer_op, lookup, parse_attributes
from irdeconv.ir.spec import is_static
from irdeconv.ops import catalog
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.rewrite.standardize import standardize
from support.live.generators import BINARY, UNARY
from support.live.mutate import Rng, pick
from support.live.runtime import Runtime
from support.live.sample import Answer

TYPES = ["i64"] * 7 + ["i32"] * 4 + ["f32"] * 5 + "i16 i8 u8 u16 u32 u64 f16 bf16 f64".split()
NUMBERS = (-129, -9, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 9, 10, 49, 100, 300, 40_000, 70_000)
NUMBERS += (2**24 + 1, 2**31 - 1, 2**31, 2**40 + 3)
REALS = (0.1, 1 / 3, 0.5, 1.7, 2.5, -2.5, -7.5, 2.9999998, 300.2, 1e-40, 1e10, 3e38, np.inf, np.nan)
REDUCED = [f"Reduce{name}" for name in "Sum Prod Max Min Mean L1 L2".split()]
COMMON = {"min": "-2.5", "max": "6", "alpha": "1"}
SHAPE, HEIGHTS = (1, 2, 4, 9), (2, 3, 4, 6, 9, 12)
LAYER = {"strides": "2,2", "dilations": "1,1", "pads_begin": "1,0", "pads_end": "0,1"}
REFUSALS = (IrdeconvError, OpError)


def fits(n: int, kind: ElementType) -> bool:
    signed = kind.kind == "int"
    bits = 1 if kind.kind == "bool" else kind.bits - signed
    return -(2**bits) * signed <= n < 2**bits


class Expression:
    """A graph in the making, and its input."""

    def __init__(self, rng: Rng, shape: Sequence[int]) -> None:
        self.rng, self.graph = rng, Graph()
        self.x = self.node(Parameter(tuple(shape), f32))

    def node(self, op: Op, *inputs: Value) -> Value:
        specs, at = infer_op(op, tuple(map(self.graph.spec, inputs))), len(self.graph)
        return Value(self.graph.add(op, list(inputs), name=f"n{at}", specs=specs).id)

    def add(self, name: str, *inputs: Value, **said: object) -> Value:
        """Add an operation of the last opset that has it."""
        cls = lookup(name, f"opset{max(n for n in catalog.opsets(name) if n <= 16)}")
        assert cls is not None
        texts = {k: str(v) for k, v in {**COMMON, **said}.items() if k in attributes(cls)}
        return self.node(cls(**parse_attributes(cls, texts)[0]), *inputs)

    def const(self, values: Any, dtype: str = "i64") -> Value:
        kind = ELEMENT_TYPES[dtype]
        array = np.asarray(values).astype(kind.container)
        return self.node(Const(kind, array.shape, ArrayData(array, kind)))

    def numbers(self, dtype: str, shape: Sequence[int] = (3,)) -> Value:
        """Return a constant, at times with numbers at which types end."""
        kind = ELEMENT_TYPES[dtype]
        pool = [*NUMBERS, *REALS] if kind.is_real else [n for n in NUMBERS if fits(n, kind)]
        pool = [n for n in pool if abs(n) < 11 or self.rng.random() < 0.1]
        with np.errstate(all="ignore"):
            return self.const(self.rng.choice(pool, shape).astype(np.float64), dtype)

    def step(self, x: Value) -> Value:
        """Add one operation behind a vector of some numbers."""
        dtype, what, rng = str(self.graph.spec(x).dtype), self.rng.random(), self.rng
        if what < 0.3:
            return self.add(pick(rng, UNARY.split()), x)
        if what < 0.65:
            pair = [x, self.numbers(dtype)]
            name = pick(rng, BINARY.split()[:-7])
            y = self.add(name, *(pair if rng.random() < 0.8 else pair[::-1]))
            either = str(self.graph.spec(y).dtype) == "boolean"
            return self.add("Select", y, x, self.numbers(dtype, (1,))) if either else y
        if what < 0.85:
            return self.add("Convert", x, destination_type=pick(rng, TYPES))
        if what < 0.93:
            total = self.add(pick(rng, REDUCED), x, self.const([0]), keep_dims=True)
            return self.add("Concat", total, x, axis=0) if rng.random() < 0.3 else total
        if what < 0.96:
            return self.add("CumSum", x, self.const(0))
        return self.add("MatMul", x, self.numbers(dtype, (self.graph.spec(x).shape[0], 2)))

    def size(self, base: int) -> Value:
        """Return an expression [1] of 1 to 5 steps, which is `base` if irdeconv folds rightly."""
        x = self.numbers(pick(self.rng, TYPES))
        for _ in range(int(self.rng.integers(1, 6))):
            x = self.step(x)
        if self.graph.spec(x).dtype.is_real and self.rng.random() < 0.5:
            x = self.add(pick(self.rng, ("Floor", "Ceiling", "Round")), x)
        x = self.add("Convert", x, destination_type="i64")
        at = int(self.rng.integers(self.graph.spec(x).shape[0]))
        x = self.add("Gather", x, self.const([at]), self.const(0))
        known = self.graph.spec(x).known
        k = 0 if known is None else int(known[0])
        if self.rng.random() < 0.5:
            return self.add("Add", x, self.const([max(min(base - k, 2**63 - 1), -(2**63))]))
        return self.chosen(x, k, base)

    def chosen(self, x: Value, k: int, base: int) -> Value:
        """Return `base` where x is k, else another size."""
        other = self.const([base % 3 + 1 if base < 4 else base // 2])
        return self.add("Select", self.add("Equal", x, self.const([k])), self.const([base]), other)

    def written(self, row: str, base: int) -> Value:
        """Return what a text such as "i64 -7 Divide:2" describes: `base`, if NumPy has it."""
        dtype, first, *steps = row.split()
        x = self.const([float(first)], dtype)
        value: Any = self.graph.spec(x).known
        for name, more in (s.split(":") if ":" in s else (s, "") for s in [*steps, "Convert:i64"]):
            kind = str(self.graph.spec(x).dtype)
            rest = [self.const([float(more)], kind)] if more and name != "Convert" else []
            x = self.add(name, x, *rest, **({} if rest or not more else {"destination_type": more}))
            others = [self.graph.spec(v).known for v in rest]
            value = self.graph.node(x.node).op.evaluate(value, *others)
        return self.chosen(x, int(value[0]), base)


def ends(e: Expression, s: Value) -> list[Callable[[], Value]]:
    """Return the ways in which a size (1 to 3) decides the shape of a layer; x is f32[12]."""
    add, x, zero, one, rest = e.add, e.x, e.const([0]), e.const([1]), e.const([-1])
    scalar = [add("Squeeze", v, zero) for v in (zero, s, one)]
    pixels = add("Unsqueeze", x, e.const([0, 1]))
    wide = add("Broadcast", x, e.const([5, 7, 9, 12]))
    sizes = {"mode": "nearest", "shape_calculation_mode": "sizes"}
    pair = add("Concat", s, rest, axis=0)
    lit = (e.const(1, "f32"), e.const(0, "f32"))
    return [
        lambda: add("Reshape", x, pair),
        lambda: add("Broadcast", x, add("Concat", s, e.const([12]), axis=0)),
        lambda: add("Slice", x, zero, s, one),
        lambda: add("StridedSlice", x, zero, s, one, begin_mask="0", end_mask="0"),
        lambda: add("Range", *scalar, output_type="f32"),
        lambda: add("OneHot", one, scalar[1], *lit, axis=-1),
        lambda: add("Tile", x, s),
        lambda: add("Pad", x, zero, s, pad_mode="constant"),
        lambda: add("TopK", x, scalar[1], axis=0, mode="max", sort="value"),
        lambda: add("VariadicSplit", x, scalar[0], pair),
        lambda: add("Interpolate", pixels, s, e.const([2]), **sizes),
        lambda: add("Gather", wide, one, s),
        lambda: add("ReduceSum", wide, s),
    ]


def drawn(seed: int, number: int) -> tuple[Graph, Value] | None:
    """Return a graph and the layer with a shape that its constants decide; None if refused."""
    e = Expression(np.random.default_rng([seed, number]), (12,))
    try:
        layer = pick(e.rng, ends(e, e.size(int(e.rng.integers(1, 4)))))()
    except REFUSALS:
        return None
    e.graph.add(Result(), [layer], name="y")
    return e.graph, layer


def _behind(e: Expression, h: Value, form: str | None = None, height: int = 0) -> Graph:
    """Put a deconvolution of x as [1, 2, h, -1] behind it, lowered for one height if by a form."""
    pattern = e.add("Concat", e.const([1, 2]), h, e.const([-1]), axis=0)
    layer = Expression(e.rng, (1, 2, height, 36 // height) if form else SHAPE)
    w = layer.const(np.arange(1, 25).reshape(2, 3, 2, 2), "f32")
    y = layer.add("ConvolutionBackpropData", layer.x, w, **LAYER)
    layer.graph.node(y.node).name = "deconv"
    layer.graph.add(Result(), [y], name="y")
    inner = layer.graph
    if form:
        inner = ird.infer(standardize(ird.lower(inner, form).graph))
    values = {Value(inner.parameters[0].id): e.add("Reshape", e.x, pattern, special_zero=False)}
    for node in inner.topological():
        if node.type != "Parameter":
            read = [values[v] for v in inner.inputs_of(node.id)]
            if form and node.type == "Reshape":  # to the sizes that follow from the height
                read[1] = e.const(node.spec().shape)
            made = e.graph.add(node.op, read, name=node.name, origins=node.origins)
            values |= {Value(node.id, i): Value(made.id, i) for i in range(4)}
    return e.graph


def fact_pair(seed: int, number: int, row: str | None = None) -> tuple[Graph, Graph] | None:
    """Return a pair of a seed, or of a text; None if irdeconv refuses it.

    The lowering is for the height that irdeconv has, or for another one, which may be a constant.
    """
    rng = np.random.default_rng([seed, number, 1])
    base, drawn = int(rng.choice(HEIGHTS)), rng.random(3)

    def begun() -> tuple[Expression, Value]:
        e = Expression(np.random.default_rng([seed, number]), SHAPE)
        return e, e.size(base) if row is None else e.written(row, base)

    try:
        original, (e, h) = _behind(*begun()), begun()
        height = base if row or drawn[0] < 0.6 else int(rng.choice(HEIGHTS))
        form = "phases" if row is None and drawn[1] < 0.3 else "zero-insertion"
        h = e.const([height]) if row is None and drawn[2] < 0.5 else h
        return original, _behind(e, h, form, height)
    except REFUSALS:
        return None


def truth(graph: Graph, path: Path, runtime: Runtime, *feeds: Any) -> Answer:
    """Return what OpenVINO infers and computes."""
    ird.write(graph, path)
    return runtime.ask(path.read_text(), path.with_suffix(".bin").read_bytes(), feeds)


def alike(a: Answer, b: Answer) -> bool:
    """Whether OpenVINO runs both models of a pair, and computes the same."""
    return a.kind == b.kind == "ran" and np.array_equal(a.arrays[0], b.arrays[0])


def contradicts(shape: Any, answer: Answer) -> bool:
    """Whether OpenVINO, reading or running the model, has another shape than a known one."""
    if not is_static(shape) or answer.kind != "ran":
        return False
    read = tuple(lo for lo, hi in answer.specs[0][1] or () if lo == hi)
    return answer.arrays[0].shape != shape or (len(read) == len(shape) and read != shape)
