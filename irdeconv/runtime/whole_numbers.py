"""Products of 8-bit integers as products of f32, where these hold every sum: the same bits.

A network that is quantized when it runs converts numbers of 0 to 255 to u8, then to i32, subtracts
a zero point, multiplies by constant integers, and converts the sums to f32. All of these are whole
numbers of f32, so the graph that is executed converts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array
from irdeconv.kernels import elementwise
from irdeconv.ops.activation import Clamp
from irdeconv.ops.basic import Convert
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.elementwise import Subtract, UnaryFunction
from irdeconv.ops.matrix import MatMul
from irdeconv.rewrite.infer_specs import infer_specs
from irdeconv.runtime.fusion import WIDE

_MOST_U8, _EXACT = 255, 2**24  # number of u8, and up to which f32 has all whole numbers


@dataclass(frozen=True)
class Whole(UnaryFunction):
    """The whole part of f32 in 0 to 255; 0 for NaN, as a conversion to u8 gives."""

    type: ClassVar[str] = "Whole"
    signature = "data: real t [*I] -> t [*I]"
    rule = elementwise.whole_u8


@dataclass(frozen=True)
class WholeSums(UnaryFunction):
    """Sums of products of whole numbers in f32, which integers would have as well."""

    type: ClassVar[str] = "WholeSums"
    signature = "data: real t [*I] -> t [*I]"
    rule = elementwise.no_negative_zero


def with_whole_numbers(graph: Graph, order: list[Node], constants: Mapping[Value, Array]) -> Graph:
    """Return the graph with f32 in place of integers, itself if that changes nothing.

    `order` are the nodes that are executed, `constants` the values that are known.
    """
    work = _WholeNumbers(graph, constants)
    for node in order:
        if isinstance(node.op, MatMul | ConvolutionBase):
            work.product(node)
    if not work.whole:
        return graph
    work.zero_points()
    given = {n.id: n.spec() for n in work.out.parameters}
    errors = any(d.severity == "error" for d in infer_specs(work.out, given=given))
    return graph if errors else work.out


@dataclass
class _WholeNumbers:
    graph: Graph
    constants: Mapping[Value, Array]
    out: Graph = field(init=False)
    whole: dict[Value, Value] = field(default_factory=dict)  # of values that become u8
    centred: dict[tuple[Value, ...], Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.out = self.graph.copy()

    def product(self, node: Node) -> None:
        """Compute a layer in f32 if that has all of its sums, and they become f32 anyway."""
        data, filter = self.graph.inputs_of(node.id)
        readers = [self.graph.node(n) for n, _ in self.graph.users(Value(node.id))]
        centre, weights = self.graph.node(data.node), self.constants.get(filter)
        if weights is None or str(node.spec().dtype) != "i32" or len(readers) != 1:
            return
        if not (centre.op == Subtract() and _converts(readers[0], "f32")):
            return
        parts = [self._clamped(v) for v in self.graph.inputs_of(centre.id)]
        if None in parts or _MOST_U8 * _taps(node.op, weights) > _EXACT:
            return
        pair = tuple(self._whole(v) for v in parts if v is not None)
        if pair not in self.centred:
            self.centred[pair] = Value(self.out.add(Subtract(), pair, name=centre.name).id)
        wide = self.out.add(WIDE, [filter], name=f"{node.name}/f32")
        self.out.set_input(node.id, 0, self.centred[pair])
        self.out.set_input(node.id, 1, Value(wide.id))
        self.out.replace_op(readers[0].id, WholeSums())

    def _clamped(self, value: Value) -> Value | None:
        """Return the f32 in 0 to 255 that is converted to u8 and then to i32."""
        for target in ("i32", "u8"):
            node = self.graph.node(value.node)
            if not _converts(node, target):
                return None
            value = self.graph.inputs_of(node.id)[0]
        op, dtype = self.graph.node(value.node).op, self.graph.spec(value).dtype
        inside = isinstance(op, Clamp) and op.min >= 0 and op.max <= _MOST_U8
        return value if inside and str(dtype) == "f32" else None

    def _whole(self, value: Value) -> Value:
        if value not in self.whole:
            name = f"{self.graph.node(value.node).name}/whole"
            self.whole[value] = Value(self.out.add(Whole(), [value], name=name).id)
        return self.whole[value]

    def zero_points(self) -> None:
        """Let the same numbers, converted to u8 and then to f32, be whole numbers of f32, too."""
        results = {self.graph.inputs_of(n.id)[0] for n in self.graph.results}
        for node in self.graph.nodes("Convert"):
            narrow, wide = self.graph.inputs_of(node.id)[0], Value(node.id)
            if _converts(node, "f32") and _converts(self.graph.node(narrow.node), "u8"):
                whole = self.whole.get(self.graph.inputs_of(narrow.node)[0])
                if whole is not None and wide not in results:
                    self.out.replace_uses(wide, whole)


def _converts(node: Node, target: str) -> bool:
    return isinstance(node.op, Convert) and node.op.destination_type.name == target


def _taps(op: Op, weights: Array) -> float:
    """Return the largest sum of an output's weights without their signs."""
    axes: tuple[int, ...] = (-1,)
    if isinstance(op, ConvolutionBase):
        axes = tuple(range(1 + op.grouped, weights.ndim))
    elif isinstance(op, MatMul) and not op.transpose_b and weights.ndim > 1:
        axes = (-2,)
    return float(np.abs(weights.astype(np.float64)).sum(axes).max(initial=0))
