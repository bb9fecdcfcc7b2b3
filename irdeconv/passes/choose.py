"""The choice of a form: a table of costs per deconvolution, and the cheapest admissible one.

    score = mac * MACs' + byte * bytes + scratch * scratch bytes + node * nodes

with the weights of the target. MACs' are the MACs with the channels of a group rounded up to the
target's alignment and, where the target skips inserted zeros, divided by prod(S) in the
zero-insertion form (whose ZeroInsertion then counts neither as traffic nor as node). A form is
refused by its own rule, by a condition of the target, or because it spreads infinities or NaNs of
the constants over more outputs than another form does. Equal scores go to the form that FORMS lists
first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node
from irdeconv.ops import core
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.passes.cost import Cost, CountedOperation, Emission, count
from irdeconv.passes.forms import FORMS, Form
from irdeconv.passes.nonfinite import NonFiniteReport
from irdeconv.passes.rewrite import Skip
from irdeconv.passes.site import DeconvolutionSite, Ints, site_of
from irdeconv.spec import is_static
from irdeconv.targets.conditions import Facts
from irdeconv.targets.expressions import Value
from irdeconv.targets.operations import ALIASES
from irdeconv.targets.profile import Target


@dataclass(frozen=True)
class FormCost:
    """One form of one deconvolution: costs (None where sizes are unknown), score, or a refusal.

    `assumed` says that sizes stand in for unknown ones. `affected` counts the outputs that
    non-finite constants spoil, None where there are none.
    """

    form: str
    cost: Cost | None
    score: float | None
    refused: str | None
    chosen: bool = False
    assumed: bool = False
    affected: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        names = ("macs", "bytes", "scratch", "nodes", "wasted")
        return {
            "form": self.form,
            "chosen": self.chosen,
            "refused": self.refused,
            **{n: None if self.cost is None else getattr(self.cost, n) for n in names},
            "score": self.score,
            "assumed": self.assumed,
            "affected_outputs": self.affected,
        }


def cost_table(
    graph: Graph, node: Node, target: Target, spread: NonFiniteReport | None = None
) -> tuple[FormCost, ...]:
    """Return a row per form for a core.Deconvolution; the cheapest admissible one is `chosen`."""
    site = site_of(graph, node)
    if site is None:
        rows = [_row_without_costs(form, graph, node) for form in FORMS.values()]
    else:
        rows = [_row(form, site, target, spread) for form in FORMS.values()]
    rows = _refuse_spreading(rows)
    open_rows = [r for r in rows if r.refused is None]
    # Where nothing is known about costs, the form that always applies is as good as any.
    best = min(open_rows, key=lambda r: math.inf if r.score is None else r.score, default=None)
    return tuple(replace(r, chosen=r is best) for r in rows)


def chosen(rows: tuple[FormCost, ...]) -> str | None:
    """Return the chosen form of a table, None where all forms are refused."""
    return next((r.form for r in rows if r.chosen), None)


def _row(
    form: Form, site: DeconvolutionSite, target: Target, spread: NonFiniteReport | None
) -> FormCost:
    try:
        emitted = count(form, site, depth_to_space=target.has("DepthToSpace"))
    except OpError as e:
        emitted = Skip(str(e))
    if isinstance(emitted, Skip):
        return FormCost(form.name, None, None, emitted.reason)
    return FormCost(
        form=form.name,
        cost=emitted.cost,
        score=score_of(emitted, site, target),
        refused=refusal(emitted, site, target),
        assumed=site.assumed,
        affected=None if spread is None else spread.affected.get(form.name),
    )


def _row_without_costs(form: Form, graph: Graph, node: Node) -> FormCost:
    op = node.op
    assert isinstance(op, core.Deconvolution)
    _, *specs = graph.input_specs(node.id)
    skip = form.skips(op, *specs)
    return FormCost(form.name, None, None, skip.reason if skip else None)


def refusal(emitted: Emission, site: DeconvolutionSite, target: Target) -> str | None:
    """Return the first condition of a target that what a form emits does not meet, or None."""
    failures = (text for o in emitted.operations for text in _failures(o, site, target))
    return next(failures, None)


def _failures(counted: CountedOperation, site: DeconvolutionSite, target: Target) -> list[str]:
    """Return why a target cannot execute one operation."""
    op = counted.op
    if isinstance(op, ConvolutionBase):
        return target.failures(op.type, _facts(counted, op, site))
    spelled = ("Reshape", "Pad") if isinstance(op, core.ZeroInsertion) else (op.type,)
    names = [ALIASES.get(n, n) for n in spelled]
    return [f"{n} is not in the target's list of operations" for n in names if not target.has(n)]


def _facts(counted: CountedOperation, op: ConvolutionBase, site: DeconvolutionSite) -> Facts:
    outputs, kernel = _filter_of(counted, site)
    shape, groups = counted.inputs[0].shape, site.groups if op.grouped else 1
    assert is_static(shape)
    values: dict[str, Value | None] = {
        "spatial_axes": site.rank,
        "inputs": shape[1],
        "outputs": outputs * groups,
        "groups": groups,
        "depthwise": groups == shape[1] and groups > 1,
        "multiplier": outputs,
        "constant_filter": site.constant_filter,
        "has_bias": False,
        "rank": len(shape),
        "batch": shape[0],
        "type": "f32",
    }
    ones, none = (1,) * site.rank, (0,) * site.rank
    axes = {
        "kernel": kernel,
        "stride": op.strides or ones,
        "dilation": op.dilations or ones,
        "pad_begin": op.pads_begin or none,
        "pad_end": op.pads_end or none,
        "size": shape[2:],
    }
    return Facts(values, axes)


def _filter_of(counted: CountedOperation, site: DeconvolutionSite) -> tuple[int, Ints]:
    """Return the output channels of a convolution's group, and its kernel."""
    shape = counted.inputs[1].shape
    assert is_static(shape)
    return shape[-site.rank - 2], shape[-site.rank :]


def score_of(emitted: Emission, site: DeconvolutionSite, target: Target) -> float:
    """Return the weighted cost of what a form emits."""
    cost, weights = emitted.cost, target.cost
    multiple = weights.channel_alignment
    macs = sum(o.macs * o.times * _rounding(o, site, multiple) for o in emitted.operations)
    moved, nodes, scratch = cost.bytes, cost.nodes, cost.scratch
    inserted = [o for o in emitted.operations if isinstance(o.op, core.ZeroInsertion)]
    if weights.skips_inserted_zeros and inserted:
        macs /= math.prod(site.strides)
        # It is written and read again; the Pad or convolution behind it reads the data instead.
        size = (inserted[0].output.size or 0) * site.itemsize
        moved -= 2 * size
        scratch = max(0, scratch - size)
        nodes -= 1
    return (
        weights.mac * macs + weights.byte * moved + weights.scratch * scratch + weights.node * nodes
    )


def _rounding(counted: CountedOperation, site: DeconvolutionSite, multiple: int) -> float:
    """Return by which factor rounding up channels multiplies a convolution's products."""
    if multiple == 1 or not isinstance(counted.op, ConvolutionBase):
        return 1.0
    channels = (site.c, _filter_of(counted, site)[0])
    return math.prod(-(-n // multiple) * multiple / n for n in channels)


def _refuse_spreading(rows: list[FormCost]) -> list[FormCost]:
    """Refuse the forms that spread non-finite constants further than another admissible one."""
    counts = [r.affected for r in rows if r.refused is None and r.affected is not None]
    least = min(counts, default=0)
    reason = "spreads non-finite constants to {} outputs instead of {}"
    return [
        replace(r, refused=reason.format(r.affected, least))
        if r.refused is None and (r.affected or 0) > least
        else r
        for r in rows
    ]
