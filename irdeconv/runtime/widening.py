"""Graphs of f16 and bf16 as plans execute them: tensors of f32 with values of the narrow type.

Sums and chains are computed in f32 anyway. A tensor that stays f32 between two steps is rounded in
the epilogue of the first one, and is converted neither there nor in the second. Where another
operation, an input or an output needs the narrow type, a Convert is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import MOVES, ChainStep, Op, Operand
from irdeconv.ir.spec import Array, Spec
from irdeconv.kernels import elementwise
from irdeconv.ops.basic import VariableOp
from irdeconv.ops.convert import Convert
from irdeconv.ops.pooling import Pool
from irdeconv.ops.reduction import Reduction
from irdeconv.ops.sparse import SegmentMax
from irdeconv.rewrite.infer_specs import infer_specs
from irdeconv.runtime.fusion import ChainGroup, ConvolutionGroup, FusionGroup

NARROW = frozenset({"f16", "bf16"})
# Operations that compute in f32 and round once; tests/runtime/test_widening.py has them all.
ROUNDED_ONCE = frozenset(
    {"MatMul", "SoftMax", "Softmax", "LogSoftmax", "MVN", "NormalizeL2", "LRN", "GRN"}
)
WIDE = Convert(ELEMENT_TYPES["f32"])


@dataclass(frozen=True)
class Rounded(Op):
    """Round f32 to the numbers of `element_type`, f16 or bf16; the result is f32."""

    type: ClassVar[str] = "Rounded"
    signature = "data: real t [*I] -> t [*I]"
    element_type: ElementType

    def evaluate(self, data: Array) -> Array:
        """Round data [*I]."""
        return elementwise.evaluate(elementwise.narrow, [data], (self.element_type.container,))

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep:
        """Return the rounding."""
        return ChainStep(elementwise.narrow, (Operand(0),), (self.element_type.container,))


def has_narrow(graph: Graph) -> bool:
    """Whether a value of the graph is f16 or bf16."""
    return any(_is_narrow(s) for n in graph.nodes() for s in n.specs or ())


def _is_narrow(spec: Spec) -> bool:
    return spec.dtype is not None and spec.dtype.name in NARROW


def widened(graph: Graph, groups: list[FusionGroup]) -> Graph:
    """Return the graph with f32 inside, where all of `groups`, producers first, allow it.

    It is the graph itself if that changes nothing.
    """
    chosen = _joined([g for g in groups if _widens(graph, g)])
    if not chosen:
        return graph
    rewriting = _Widening(graph, graph.copy(), {n.id for g in chosen for n in g.nodes})
    for group in chosen:
        rewriting.widen(group)
    rewriting.narrow_again()
    wide, given = rewriting.out, {n.id: n.spec() for n in rewriting.out.parameters}
    errors = any(d.severity == "error" for d in infer_specs(wide, given=given))
    return graph if errors else wide


def _joined(groups: list[FusionGroup]) -> list[FusionGroup]:
    """Return the groups that share a value with another one; alone, they would gain nothing."""
    made = {n.id for g in groups for n in g.nodes}
    read = {v.node for g in groups for v in g.inputs}
    return [g for g in groups if g.last.id in read or any(v.node in made for v in g.inputs)]


def _widens(graph: Graph, group: FusionGroup) -> bool:
    """Whether the group gives the same numbers if narrow inputs and outputs are f32."""
    specs = [s for n in group.nodes for s in (*graph.input_specs(n.id), *(n.specs or ()))]
    names = {s.dtype.name if s.dtype is not None else "" for s in specs}
    if not names & NARROW or "" in names:
        return False
    if isinstance(group, ConvolutionGroup | ChainGroup):
        return "f64" not in names
    op = group.last.op
    moves = op.rounding is MOVES and not isinstance(op, VariableOp | SegmentMax)
    once = op.type in ROUNDED_ONCE or isinstance(op, Pool | Reduction) or moves
    return once and bool(group.inputs) and _is_narrow(graph.input_specs(group.last.id)[0])


@dataclass
class _Widening:
    """Rewrites `out`, a copy of `graph`; `inside` are the nodes that become f32."""

    graph: Graph
    out: Graph
    inside: set[int]
    wide: dict[Value, Value] = field(default_factory=dict)

    def widen(self, group: FusionGroup) -> None:
        """Let a group read and write f32; its last node is followed by the rounding."""
        within = {n.id for n in group.nodes}
        for node in group.nodes:
            for port, value in enumerate(self.graph.inputs_of(node.id)):
                if value.node not in within and _is_narrow(self.graph.spec(value)):
                    self.out.set_input(node.id, port, self._wide(value))
            if isinstance(node.op, Convert) and node.op.destination_type.name in NARROW:
                self.out.replace_op(node.id, Rounded(node.op.destination_type))
        last, exact = group.last, all(n.op.rounding is MOVES for n in group.nodes)
        for port, spec in enumerate(last.specs or ()):
            if spec.dtype is not None and spec.dtype.name in NARROW:
                value = Value(last.id, port)
                self.wide[value] = value if exact else self._rounded(value, spec.dtype)

    def _wide(self, value: Value) -> Value:
        """Return a value of f32."""
        if value not in self.wide:
            name = f"{self.graph.node(value.node).name}/f32"
            self.wide[value] = Value(self.out.add(WIDE, [value], name=name).id)
        return self.wide[value]

    def _rounded(self, value: Value, dtype: ElementType) -> Value:
        """Return an output of f32 with the numbers of its narrow type."""
        last = self.out.node(value.node)
        if isinstance(last.op, Rounded):
            return value
        rounding = self.out.add(Rounded(dtype), [value], name=last.name)
        last.name = f"{last.name}/f32"
        return Value(rounding.id)

    def narrow_again(self) -> None:
        """Convert where something else reads a value that is f32 now, except its shape."""
        for value, wide in self.wide.items():
            if value.node not in self.inside:
                continue
            old, dtype, read = self.graph.node(value.node), self.graph.spec(value).dtype, None
            assert dtype is not None
            for node, port in self.graph.users(value):
                if self.graph.node(node).type == "ShapeOf":
                    self.out.set_input(node, port, wide)
                elif node not in self.inside:
                    if read is None:
                        read = self.out.add(Convert(dtype), [wide], name=f"{old.name}/{dtype.name}")
                        read.add_names(0, old.names_of(value.port))  # it may be an output
                    self.out.set_input(node, port, Value(read.id))
