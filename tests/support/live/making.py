"""A random graph in the making: every value is computed while layers are added."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import Op, as_tuple, infer_op, lookup
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Interval, Spec
from irdeconv.ops.basic import Const, Parameter, Result
from support.live.mutate import numbers
from support.live.sample import PLAIN, plain_name

Rng = np.random.Generator
MOST_ELEMENTS = 3000
TAME = 2.0**16  # larger numbers seldom go on: what both sides do with them is known
FEW = 64  # elements of a value that inference may look at
MOST_INPUTS = 6


class NothingFitsError(Exception):
    """No value of a graph suits a layer."""


@dataclass(frozen=True)
class Held:
    """An output of a layer, and what it is when the graph runs."""

    value: Value
    array: Array
    dtype: ElementType
    fixed: bool = False  # a constant

    @property
    def spec(self) -> Spec:
        known = self.fixed and self.array.size <= FEW
        return Spec(self.dtype, self.array.shape, self.array if known else None)

    @property
    def is_plain(self) -> bool:
        return self.dtype.name in PLAIN or self.dtype.name == "bf16"


@dataclass
class Making:
    """The graph so far, its values and what its inputs are fed."""

    rng: Rng
    openness: float  # the share of dimensions that inputs leave open
    graph: Graph = field(default_factory=Graph)
    held: list[Held] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)
    constants: list[Held] = field(default_factory=list)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def below(self, count: int) -> int:
        return int(self.rng.integers(count))

    def name(self, kind: str) -> str:
        return f"{kind}_{len(self.graph)}"

    def constant(self, array: Any, dtype: ElementType | str = "i64") -> Held:
        """Add a constant, or share one that is there."""
        kind = ELEMENT_TYPES[dtype] if isinstance(dtype, str) else dtype
        values = np.asarray(array, kind.container)
        for old in self.constants:
            same = old.dtype is kind and old.array.shape == values.shape
            if same and old.array.tobytes() == values.tobytes() and self.chance(0.7):
                return old
        op = Const(kind, values.shape, ArrayData(values, kind))
        node = self.graph.add(op, name=self.name("const"))
        made = Held(Value(node.id), values, kind, fixed=True)
        self.constants.append(made)
        return made

    def parameter(self, array: Array, dtype: ElementType, declared: Any = None) -> Held:
        """Add an input whose shape is declared exactly, in part, or as told."""
        if len(self.feeds) >= MOST_INPUTS or (dtype.name not in PLAIN and dtype.name != "bf16"):
            return self.constant(array, dtype)
        if dtype.name == "bf16":
            f32 = ELEMENT_TYPES["f32"]
            wide = self.parameter(array.astype(np.float32), f32, declared)
            made = self.add(layer("Convert", 1, destination_type=dtype), [wide], always=True)
            assert made is not None
            return made[0]
        dims = [self._opened(d) for d in array.shape]
        if declared is not None:
            dims = [DYNAMIC if d < 0 else d for d in declared]
        op, name = Parameter(tuple(dims), dtype), self.name("input")
        node = self.graph.add(op, name=name)
        self.feeds[name] = array
        made_one = Held(Value(node.id), array, dtype)
        self.held.append(made_one)
        return made_one

    def _opened(self, size: int) -> Dim:
        if not self.chance(self.openness):
            return size
        if self.chance(0.6):
            return DYNAMIC
        low = self.below(size + 1)
        return Interval.of(low, None if self.chance(0.3) else size + self.below(4))

    def add(self, op: Op, inputs: Sequence[Held], *, always: bool = False) -> list[Held] | None:
        """Add a layer and hold its outputs; None where it does not fit or its numbers run wild."""
        try:
            with np.errstate(all="ignore"):
                specs = as_tuple(infer_op(op, tuple(h.spec for h in inputs)))
                arrays = as_tuple(op.evaluate(*(h.array for h in inputs)))
        except (OpError, MemoryError, TypeError, ValueError, ArithmeticError, IndexError):
            return None  # what a run reports as E500
        wild = any(a.size > MOST_ELEMENTS for a in arrays) or not all(map(_is_tame, arrays))
        if wild and not always and not self.chance(0.02):
            return None
        if any(a.size > 10 * MOST_ELEMENTS for a in arrays):
            return None
        node = self.graph.add(op, [h.value for h in inputs], name=self.name(op.type))
        made = []
        for port, (spec, array) in enumerate(zip(specs, arrays, strict=True)):
            assert spec.dtype is not None
            made.append(Held(Value(node.id, port), np.asarray(array), spec.dtype))
        self.held += [] if wild else made
        return made

    def some(self, *names: str, least: int = 0) -> Held | None:
        """Choose a value, newer ones more often; of these element types, of so many axes."""
        fits = [
            h
            for h in self.held
            if (not names or h.dtype.name in names) and h.array.ndim >= least and h.is_plain
        ]
        if not fits:
            return None
        return fits[max(self.below(len(fits)), self.below(len(fits)))]

    def take(self, *names: str, least: int = 0) -> Held:
        """Choose a value in the same way; raise NothingFitsError where there is none."""
        if (found := self.some(*names, least=least)) is None:
            raise NothingFitsError
        return found

    def fresh(self, dtype: ElementType, shape: Sequence[int]) -> Held:
        """Add an input or a constant of small numbers."""
        values = numbers(self.rng, dtype, shape, 5).values
        if self.chance(0.5):
            return self.constant(values, dtype)
        return self.parameter(values, dtype)

    def finish(self, share: float) -> None:
        """Let values be outputs that no layer reads, and this share of the others."""
        for held in list(self.held):
            node = self.graph.node(held.value.node)
            used = self.graph.users(held.value)
            if node.type == "Parameter" and used:
                continue
            if used and not self.chance(share):
                continue
            shown = held
            if held.dtype.kind == "string":
                continue
            if target := plain_name(held.dtype):
                converted = layer("Convert", 1, destination_type=ELEMENT_TYPES[target])
                made = self.add(converted, [held], always=True)
                if made is None:
                    continue
                shown = made[0]
            self.graph.add(Result(), [shown.value], name=self.name("result"))


def layer(kind: str, opset: int, **attributes: Any) -> Op:
    """Make an operation."""
    cls = lookup(kind, f"opset{opset}")
    assert cls is not None, kind
    return cls(**attributes)


def _is_tame(array: Array) -> bool:
    if array.dtype.kind in "OSUTb" or not array.size:
        return True
    wide = array.astype(np.float64)
    return bool(np.all(np.isfinite(wide)) and np.abs(wide).max() <= TAME)


def fitted(m: Making, held: Held, dtype: ElementType, shape: Sequence[int]) -> Held | None:
    """Return the value as this type and shape, through as few layers as that takes."""
    out: Held | None = held
    if held.dtype is not dtype:
        out = _converted(m, held, dtype)
    if out is None or out.array.shape == tuple(shape):
        return out
    return _reshaped(m, out, tuple(shape))


def _converted(m: Making, held: Held, dtype: ElementType) -> Held | None:
    if not _holds(dtype, held):
        return None
    made = m.add(layer("Convert", 1, destination_type=dtype), [held])
    return made[0] if made else None


def _holds(dtype: ElementType, held: Held) -> bool:
    """Whether the type has room for the values; the conversion of others is a known difference."""
    if held.dtype.kind == "string" or dtype.kind not in ("float", "int", "uint", "bool"):
        return False
    if dtype.is_packed or not held.array.size or held.dtype.kind == "bool":
        return not dtype.is_packed
    if dtype.is_real or dtype.kind == "bool":
        return True
    low = -(2.0 ** (dtype.bits - 1)) if dtype.kind == "int" else 0.0
    wide = held.array.astype(np.float64)
    room = min(2.0 ** (dtype.bits - 1), 2.0**24)
    return bool(np.all(np.isfinite(wide)) and wide.min() >= max(low, -room) and wide.max() < room)


def _reshaped(m: Making, held: Held, shape: tuple[int, ...]) -> Held | None:
    size, wanted = held.array.size, math.prod(shape)
    out: list[Held] | None = [held]
    if size != wanted:
        if not size or not wanted:
            return None
        out = m.add(layer("Reshape", 1, special_zero=False), [held, m.constant([-1])])
        if out and size < wanted:
            out = m.add(layer("Tile", 1), [out[0], m.constant([-(-wanted // size)])])
        if out and out[0].array.size != wanted:
            ends = [m.constant([v]) for v in (0, wanted, 1, 0)]
            out = m.add(layer("Slice", 8), [out[0], *ends])
    if not out or out[0].array.shape == shape:
        return out[0] if out else None
    out = m.add(layer("Reshape", 1, special_zero=False), [out[0], m.constant(shape)])
    return out[0] if out else None
