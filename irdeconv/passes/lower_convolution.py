"""Ordinary convolutions that a target cannot run, rewritten by the rules of legalising.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.errors import OpError
from irdeconv.geometry import IntVector, filled
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.shape import Unsqueeze
from irdeconv.passes.channel_bias import ChannelBias, bias_behind
from irdeconv.passes.convolving import AXIS_0, ConvolutionLayer, convolve
from irdeconv.passes.emit import Decision, FormBuilder, Style, X
from irdeconv.passes.layer_facts import facts_of, operation_of
from irdeconv.passes.legalising import proposals
from irdeconv.passes.planning import PlannedValue, Planner
from irdeconv.passes.stored import stored
from irdeconv.spec import Spec, is_static
from irdeconv.targets.conditions import Facts
from irdeconv.targets.profile import Target


@dataclass(frozen=True)
class ConvolutionPlan:
    """How a convolution is rewritten, or the conditions that no rewriting meets."""

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
    facts = facts_of(op, inputs, node.spec(), constants)
    facts = Facts({**facts.values, "has_bias": bias is not None}, facts.axes)
    failures = tuple(target.failures(operation_of(op), facts))
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
    b = Planner(target, style, data.dtype or ELEMENT_TYPES["f32"], proposals)
    size = Spec(data.dtype, tuple(n if isinstance(n, int) else 32 for n in data.shape or ()))
    x = PlannedValue(size if is_static(data.shape) else data, size, on_data=True)
    w = PlannedValue(filter, filter, constant=constant)
    plan.build(b, x, w, None if plan.bias is None else _bias(b, plan.bias))
    return b


def _bias(b: Planner, bias: ChannelBias) -> PlannedValue:
    count = 1 if bias.constant is None else bias.constant.size
    return b.const(np.zeros((1, count, *(1,) * (bias.rank - 2)), b.dtype.container))


def legalised(graph: Graph, node: Node, plan: ConvolutionPlan, replace: Any) -> list[Node]:
    """Replace a convolution, and the bias behind it, as planned; return the new nodes."""
    x, w = graph.inputs_of(node.id)
    end = node if plan.bias is None else plan.bias.add

    def build(_: object, b: Any, *__: Value) -> Value:
        value: Value = plan.build(b, x, w, None if plan.bias is None else plan.bias.value(b))
        return value

    change = replace(graph, end, build, plan.decisions)
    return [graph.node(i) for i in change.made]
