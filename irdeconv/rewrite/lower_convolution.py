"""The bias behind a deconvolution, an Add of one number per output channel; ordinary convolutions
that a target cannot run, rewritten by the rules of legalising.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.geometry import IntVector, filled
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array, Spec, is_static
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.elementwise import Add
from irdeconv.ops.shape import Unsqueeze
from irdeconv.rewrite.builder import GraphBuilder, NodeBudget, replace_node
from irdeconv.rewrite.compressed_filters import constant_of, stored
from irdeconv.rewrite.convolving import AXIS_0, ConvolutionLayer, convolve
from irdeconv.rewrite.emit import Decision, FormBuilder, Style, X
from irdeconv.rewrite.planning import PlannedValue, Planner
from irdeconv.rewrite.target_facts import facts_of
from irdeconv.rewrite.targets import Target


@dataclass(frozen=True)
class ChannelBias:
    """An Add behind a deconvolution, and its constant [M], or its value [1, M, 1, ...]."""

    add: Node
    other: Value
    constant: Array | None
    rank: int

    def value(self, b: GraphBuilder) -> Value:
        """Return the bias as a value [1, M, 1, ...]."""
        if self.constant is None:
            return self.other
        shape = (1, -1, *(1,) * (self.rank - 2))
        return b.const(self.constant.reshape(shape), b.spec(self.other).dtype)


def bias_behind(graph: Graph, node: Node) -> ChannelBias | None:
    """Return the bias of a deconvolution of which nothing else reads the output."""
    users, output = graph.users(Value(node.id)), node.spec()
    if len(users) != 1 or not isinstance(graph.node(users[0][0]).op, Add) or not output.shape:
        return None
    add, channels = graph.node(users[0][0]), output.shape[1]
    other = graph.inputs_of(add.id)[1 - users[0][1]]
    spec, rank = graph.spec(other), len(output.shape)
    if other.node == node.id or not isinstance(channels, int) or spec.shape is None:
        return None
    values = constant_of(graph, other)
    if values is None:
        # Made by the expansion of the same layer as the Add.
        own = bool(add.origins) and graph.node(other.node).origins == add.origins
        same = spec.shape == (1, channels, *(1,) * (rank - 2))
        return ChannelBias(add, other, None, rank) if same and own else None
    shape = (1,) * (rank - values.ndim) + values.shape
    along = [a for a, n in enumerate(shape) if n != 1]
    if len(shape) != rank or along not in ([], [1]) or values.size not in (1, channels):
        return None
    row = np.broadcast_to(values.reshape(-1), (channels,))
    return ChannelBias(add, other, np.ascontiguousarray(row), rank)


def is_quantized(graph: Graph, node: Node) -> bool:
    """Whether a layer will run in int8: its data are quantized, or its filter is stored so."""
    data, filter, *_ = graph.inputs_of(node.id)
    known = stored(graph, filter)
    if known is not None and known.dtype.kind != "float":
        return True
    producer = graph.node(data.node)
    while producer.type in ("Convert", "Multiply", "Subtract"):
        producer = graph.node(graph.inputs_of(producer.id)[0].node)
        dtype = producer.spec().dtype
        if dtype is not None and dtype.name in ("i8", "u8"):
            return True
    return producer.type == "FakeQuantize"


@dataclass(frozen=True)
class ConvolutionPlan:
    """The decisions that rewrite a convolution, or the conditions that no rewriting meets."""

    op: ConvolutionBase
    bias: ChannelBias | None
    decisions: tuple[Decision, ...] = ()
    violations: tuple[str, ...] = ()

    def build(self, b: FormBuilder[X], x: X, w: X, bias: X | None) -> X:
        """Emit the convolution of data (N, C, *I) with a filter as the operation has it."""
        if not self.op.grouped:
            w = b.add(Unsqueeze(), w, b.const(AXIS_0))
        shape, size = b.spec(w).shape, b.spec(x).shape
        if not is_static(shape) or size is None:
            raise OpError("the filter's shape is known only at run time", code="E400")
        axes = len(size) - 2
        pads = filled(self.op.pads_begin, axes, 0), filled(self.op.pads_end, axes, 0)
        if self.op.auto_pad != "explicit":
            if not is_static(size):
                raise OpError("auto_pad follows from sizes known only at run time", code="E400")
            pads = self.op.effective_pads(size[2:], shape[3:])
        strides, dilations = (filled(v, axes, 1) for v in (self.op.strides, self.op.dilations))
        begin, end = map(IntVector, pads)
        return convolve(b, ConvolutionLayer(x, w, strides, dilations, begin, end, bias))


def plan_convolution(
    graph: Graph, node: Node, target: Target, style: Style
) -> ConvolutionPlan | None:
    """Return how to rewrite a convolution, None if the target can run it as it is."""
    op, bias = node.op, bias_behind(graph, node)
    assert isinstance(op, ConvolutionBase)
    inputs, values = graph.input_specs(node.id), graph.inputs_of(node.id)
    constants = (False, stored(graph, values[1]) is not None)
    found = facts_of(op, inputs, (node.spec(),), constants, bias is not None)
    failures = tuple(target.failures(*found))
    if not failures:
        return None
    plan = ConvolutionPlan(op, bias)
    try:
        b = _planned(plan, inputs, constants[1], target, style)
    except OpError as e:
        return ConvolutionPlan(op, bias, violations=(*failures, str(e)))
    violations = tuple(dict.fromkeys(f for o in b.operations for f in o.failures))
    return ConvolutionPlan(op, bias, tuple(b.decisions), violations)


def _planned(
    plan: ConvolutionPlan, inputs: tuple[Spec, ...], constant: bool, target: Target, style: Style
) -> Planner:
    data, filter = inputs
    b = Planner(target, style, data.dtype or ELEMENT_TYPES["f32"])
    shape = tuple(n if isinstance(n, int) else 32 for n in data.shape or ())
    size = b.memo.one(Spec(data.dtype, shape))
    x = PlannedValue(size if is_static(data.shape) else data, size)
    w = PlannedValue(filter, filter, constant=constant)
    plan.build(b, x, w, None if plan.bias is None else _bias(b, plan.bias))
    return b


def _bias(b: Planner, bias: ChannelBias) -> PlannedValue:
    count = 1 if bias.constant is None else bias.constant.size
    return b.const(np.zeros((1, count, *(1,) * (bias.rank - 2)), b.dtype.container))


def legalised(
    graph: Graph, node: Node, plan: ConvolutionPlan, budget: NodeBudget, style: Style
) -> list[Node]:
    """Replace a convolution, and the bias behind it, as planned; return the new nodes."""
    x, w = graph.inputs_of(node.id)
    end = node if plan.bias is None else plan.bias.add

    def build(_: object, b: Any, *__: Value) -> Value:
        value: Value = plan.build(b, x, w, None if plan.bias is None else plan.bias.value(b))
        return value

    change = replace_node(graph, end, build, budget, style, plan.decisions)
    return [graph.node(i) for i in change.made]
