"""How far an infinity or a NaN spreads in each lowering form, predicted from geometry.

By the definition a bad tap spoils the outputs it reaches from an input element, and a bad input
element the outputs that one of its taps reaches. A zero that was inserted or padded, times an
infinity or a NaN, is NaN, so that a form spreads it further:

    form              a bad tap spoils, of an axis                  a bad input element spoils
    definition, gemm  o with o + pads_begin = s*S + k*D, s in 0..I  the same outputs
    zero-insertion    every output                                  the same outputs
    phases            every output of the tap's residue             the same outputs
    stacked           every output of the tap's residue             what the widened filter spans

An output in several dimensions is spoilt where it is along every axis. For finite data the
prediction for bad constants is exact: what is not spoilt stays finite unless sums overflow. Kernels
that use padding of their own (running without lowering) may behave like phases at the border; exact
mode is the definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.ops.elementwise import Add
from irdeconv.passes.site import Site, constant_of, site_of
from irdeconv.passes.subpixel import Axis
from irdeconv.spec import Array

DEFINITION = "definition"
FORMS = ("zero-insertion", "phases", "stacked", "gemm")


@dataclass(frozen=True)
class Spread:
    """The non-finite constants of one deconvolution and the outputs that they spoil.

    `filter_bad` of `filter_size` filter values and `bias_bad` of `bias_size` bias values are not
    finite. `affected` counts outputs per form and by the definition, of `outputs` altogether; it is
    empty where the sizes are not known, and holds for stand-in sizes where `assumed`.
    """

    filter_bad: int
    filter_size: int
    bias_bad: int
    bias_size: int
    outputs: int | None
    affected: dict[str, int]
    assumed: bool = False

    def widened(self, form: str) -> int:
        """Return how many outputs a form spoils beyond the definition."""
        return self.affected.get(form, 0) - self.affected.get(DEFINITION, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return dict(vars(self))


def examine(graph: Graph, node: Node) -> Spread | None:
    """Scan the filter and bias of a core.Deconvolution; None where all of it is finite."""
    filter = _bad(constant_of(graph, graph.inputs_of(node.id)[1]))
    bias = _bad(_bias(graph, node))
    count, more = (0 if v is None else int(v.sum()) for v in (filter, bias))
    if not count and not more:
        return None
    site, affected = site_of(graph, node), {}
    if site is not None:
        for form in (DEFINITION, *FORMS):
            affected[form] = site.batch * int(footprint(form, site, filter, bias).sum())
    return Spread(
        count,
        0 if filter is None else filter.size,
        more,
        0 if bias is None else bias.size,
        None if site is None else site.batch * site.outputs * int(np.prod(site.output)),
        affected,
        site is not None and site.assumed,
    )


@np.errstate(all="ignore")  # BLAS may raise flags on what it reads beyond short rows
def footprint(form: str, site: Site, filter: Array | None, bias: Array | None = None) -> Array:
    """Return which outputs [M, *O] of finite data are spoilt.

    `filter` [g, C/g, M/g, *K] and `bias` ([M] or broadcast) are true where they are not finite.
    """
    shape = (site.outputs, *site.output)
    spoilt: Array = np.zeros(shape, bool)
    if filter is not None and filter.any():
        taps: Array = filter.any(axis=1).reshape(site.outputs, *site.kernel).astype(np.float32)
        for axis in range(site.rank):
            # Counts of spoiling taps; the axis in front moves to the end.
            taps = np.tensordot(taps, tap_reach(form, site, axis), ((1,), (1,)))
        spoilt = spoilt | (taps > 0)
    if bias is not None and bias.any():
        per_channel = bias.reshape(-1) if bias.size > 1 else np.repeat(bias, site.outputs)
        spoilt = spoilt | per_channel.reshape(-1, *(1,) * site.rank)
    return spoilt


@np.errstate(all="ignore")  # as above
def input_footprint(form: str, site: Site, data: Array) -> Array:
    """Return which outputs [*O] bad elements of a channel spoil in its group; `data` is [*I]."""
    found: Array = data.astype(np.float32)
    for axis in range(site.rank):
        found = np.tensordot(found, input_reach(form, site, axis), ((0,), (1,)))
    spoilt: Array = found > 0
    return spoilt


def tap_reach(form: str, site: Site, axis: int) -> Array:
    """Return [O, K], 1 where an output multiplies anything with a tap (float32)."""
    outputs, taps = site.output[axis], np.arange(site.kernel[axis])
    if form == "zero-insertion":
        return np.ones((outputs, taps.size), np.float32)
    at = np.arange(outputs)[:, None] + site.begin[axis] - taps * site.dilations[axis]
    meets = at % site.strides[axis] == 0
    if form not in ("phases", "stacked"):
        source = at // site.strides[axis]
        meets &= (source >= 0) & (source < site.size[axis])
    return np.asarray(meets, np.float32)


def input_reach(form: str, site: Site, axis: int) -> Array:
    """Return [O, I], 1 where an output multiplies an input element with anything (float32)."""
    outputs, inputs = np.arange(site.output[axis])[:, None], np.arange(site.size[axis])
    stride, dilation = site.strides[axis], site.dilations[axis]
    if form == "stacked":
        low, high = _span(site.axes[axis])
        offset = inputs - outputs // stride
        return ((offset >= low) & (offset < high)).astype(np.float32)
    at = outputs + site.begin[axis] - inputs * stride
    tap = at // dilation
    meets = (at % dilation == 0) & (tap >= 0) & (tap < site.kernel[axis])
    return np.asarray(meets, np.float32)


def _span(axis: Axis) -> tuple[int, int]:
    """Return the window of inputs, relative to an output's block, that a stacked filter spans."""
    every = [r for r in axis.residues if r.taps]
    return min(r.first for r in every), max(r.first + r.extent for r in every)


def _bad(values: Array | None) -> Array | None:
    if values is None:
        return None
    if values.dtype.kind in "biuO":
        return np.zeros(values.shape, bool)
    found: Array = ~np.isfinite(values)
    return found


def _bias(graph: Graph, node: Node) -> Array | None:
    """Return the constant that an Add right behind a deconvolution adds to its channels."""
    users = graph.users(Value(node.id))
    if len(users) != 1 or not isinstance(graph.node(users[0][0]).op, Add):
        return None
    other = graph.inputs_of(users[0][0])[1 - users[0][1]]
    values, output = constant_of(graph, other), node.spec()
    if values is None or output.rank is None or values.size == 0:
        return None
    shape = (1,) * (output.rank - values.ndim) + values.shape
    per_channel = len(shape) == output.rank and values.size == shape[1]
    return values if per_channel and (output.shape or ())[1] in (shape[1], values.size) else None
