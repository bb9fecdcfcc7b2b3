"""Raising: every decomposition that is one deconvolution becomes one, and a report."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import Any

import numpy as np

from irdeconv import progress
from irdeconv.dialects.openvino import BackpropData, backprop_data
from irdeconv.dtypes import ElementType, of_numpy
from irdeconv.errors import OpError, misused
from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.convert import Convert, convert
from irdeconv.ops.elementwise import Add
from irdeconv.passes.builder import GraphBuilder
from irdeconv.passes.infer_specs import infer_specs, inferred
from irdeconv.passes.raising.compose import Raising
from irdeconv.passes.raising.records import PATTERNS, Raised, RaisedLayer, RaisingReport
from irdeconv.passes.raising.site import CONVOLVING, Decomposition, RaisingSite
from irdeconv.passes.rewrite import Skip, products, remove_dead, replace_node, unique_names
from irdeconv.spec import Array, compatible
from irdeconv.suggest import did_you_mean

CORES = (*CONVOLVING, "Concat")


def raise_deconvolutions(graph: Graph, only: Collection[str] | None = None) -> Raised:
    """Return a copy of the graph in which decompositions are deconvolutions again.

    `only` names the patterns to look for. Raises UsageError for an unknown one, InferenceError
    where the graph does not fit together.
    """
    for name in only or ():
        if name not in PATTERNS:
            hint = did_you_mean(name, PATTERNS) or f"there are {', '.join(PATTERNS)}"
            raise misused(f'there is no pattern "{name}"', hint)
    wanted = frozenset(PATTERNS if only is None else only)
    out = inferred(graph)
    dead = {n.id for n in out.nodes()} - out.live()
    cores = [n for n in out.topological() if n.type in CORES and n.id not in dead]
    layers: list[RaisedLayer] = []
    named = {n.id for n in out.nodes()}
    # Joined convolutions come before single ones.
    for core in progress.each(
        "raising", sorted(cores, key=lambda n: n.type != "Concat"), name=attrgetter("name")
    ):
        while core.id in out:
            layer = _raise_one(out, core, wanted, named)
            if layer is not None:
                layers.append(layer)
                remove_dead(out, dead)
            if layer is None or layer.pattern is None:
                break
    unique_names(out, named)
    infer_specs(out)
    out.lint()
    layers.sort(key=lambda r: r.pattern is None)
    return Raised(out, RaisingReport(tuple(layers)))


def _raise_one(
    graph: Graph, core: Node, wanted: Collection[str], named: set[int]
) -> RaisedLayer | None:
    """Raise what a core belongs to; None where nothing speaks for a deconvolution.

    `named` gets the node that takes over a name.
    """
    site = RaisingSite(graph, core)
    if not site.is_complete:
        return None
    decomposition = site.best()
    if decomposition is None:
        if not site.is_candidate:
            return None
        reason = "; ".join(site.refused) or "nothing enlarges its axes by whole factors"
        return RaisedLayer(core.name, core.type, None, reason)
    pattern = _pattern(core, decomposition)
    return _replace(graph, site, decomposition, pattern, named) if pattern in wanted else None


def _pattern(core: Node, decomposition: Decomposition) -> str:
    if decomposition.repeats:
        return "resize"
    if core.type == "Concat":
        return "phases"
    return "depth-to-space" if decomposition.interleaves else "zero-insertion"


def _replace(
    graph: Graph, site: RaisingSite, decomposition: Decomposition, pattern: str, named: set[int]
) -> RaisedLayer:
    """Put the deconvolution in the place of the last node of its decomposition."""
    core, end, made = site.core, graph.node(decomposition.end), decomposition.raising
    before = products(graph, site.convolutions)
    op = _operation(made)

    def build(_: Any, b: GraphBuilder, *__: Any) -> Any:
        filter = made.filter[0] if made.filter.shape[0] == 1 else made.filter
        y = b.add(op, decomposition.data, _constant(b, filter, site.compressed))
        if not compatible(b.spec(y).shape, end.spec().shape):
            return Skip(f"the output would be {b.spec(y)} in the place of {end.spec()}")
        if decomposition.bias is None:
            return y
        bias = decomposition.bias.reshape(1, -1, *(1,) * len(made.strides))
        return b.add(Add(), y, b.const(bias))

    try:
        change = replace_node(graph, end, build)
    except OpError as e:
        return RaisedLayer(core.name, core.type, None, f"the deconvolution would be wrong: {e}")
    if change.skipped:
        return RaisedLayer(core.name, core.type, None, change.skipped)
    new = next(n for n in map(graph.node, change.made) if n.type == op.type)
    named.add(change.made[-1])
    if end.type in CONVOLVING:
        new.name = new.name.replace(end.type, op.type)
    return RaisedLayer(
        name=new.name if decomposition.bias is None else end.name,
        type=op.type,
        pattern=pattern,
        attributes=tuple(op.to_attributes().items()),
        macs_before=before,
        macs_raised=products(graph, [new]),
        exact=made.exact,
        note=_note(made),
    )


def _operation(made: Raising) -> BackpropData:
    return backprop_data(made.filter.shape[0])(
        strides=made.strides,
        pads_begin=made.pads_begin,
        pads_end=made.pads_end,
        dilations=made.dilations,
        output_padding=made.output_padding,
    )


def _constant(b: GraphBuilder, filter: Array, compressed: ElementType | None) -> Value:
    """Return the filter as a constant, in the element type of a compressed one where it fits."""
    if compressed is not None:
        with np.errstate(all="ignore"):
            small = convert(filter, compressed)
        if np.array_equal(convert(small, of_numpy(filter.dtype)), filter):
            return b.keep(Convert(of_numpy(filter.dtype)), b.const(small))
    return b.const(filter)


def _note(made: Raising) -> str | None:
    """Tell how sums in the filter round."""
    if made.summed == 1:
        return None
    count = f"{made.summed} filter elements"
    if made.exact:
        return f"up to {count} are summed, exactly; products are rounded after the sum, not before"
    return f"equal up to rounding: sums of up to {count} are rounded"
