"""The choice of a form: a table of costs per deconvolution, and the cheapest admissible one.

    score = mac * MACs' + byte * bytes + scratch * scratch bytes + node * nodes

with the weights of the profile. MACs' are the MACs with the channels of a group rounded up to the
target's alignment and, where the target skips inserted zeros, divided by prod(S) in the
zero-insertion form (whose ZeroInsertion then counts neither as traffic nor as node). A form is
refused by its own rule, by a limit of the profile, or because it spreads infinities or NaNs of the
constants over more outputs than another form does. Equal scores go to the form that FORMS lists
first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node
from irdeconv.op import SpecBuilder
from irdeconv.passes.cost import Cost, Step, cost_of, steps_of
from irdeconv.passes.forms import FORMS
from irdeconv.passes.nonfinite import Spread
from irdeconv.passes.profile import Profile
from irdeconv.passes.site import Site, constant_of, site_of


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
    graph: Graph, node: Node, profile: Profile, spread: Spread | None = None
) -> tuple[FormCost, ...]:
    """Return a row per form for a core.Deconvolution; the cheapest admissible one is `chosen`."""
    site = site_of(graph, node)
    rows = [_row(form, graph, node, site, profile, spread) for form in FORMS]
    rows = _refuse_spreading(rows, spread)
    open_rows = [r for r in rows if r.refused is None]
    # Where nothing is known about costs, the form that always applies is as good as any.
    best = min(open_rows, key=lambda r: math.inf if r.score is None else r.score, default=None)
    return tuple(replace(r, chosen=r is best) for r in rows)


def chosen(rows: tuple[FormCost, ...]) -> str | None:
    """Return the chosen form of a table, None where all forms are refused."""
    return next((r.form for r in rows if r.chosen), None)


def _row(
    form: str,
    graph: Graph,
    node: Node,
    site: Site | None,
    profile: Profile,
    spread: Spread | None,
) -> FormCost:
    refused = _own_refusal(form, graph, node)
    if refused is not None:
        return FormCost(form, None, None, refused)
    if site is None:
        filter = constant_of(graph, graph.inputs_of(node.id)[1])
        return FormCost(form, None, None, _filter_refusal(filter is not None, profile))
    steps = steps_of(form, site, depth_to_space=profile.depth_to_space)
    cost = cost_of(steps, site)
    affected = None if spread is None else spread.affected.get(form)
    refused = refusal(steps, site, profile)
    score = score_of(steps, site, profile)
    return FormCost(form, cost, score, refused, assumed=site.assumed, affected=affected)


def _own_refusal(form: str, graph: Graph, node: Node) -> str | None:
    """Return why a form does not apply, by its rule's word on specs alone."""
    try:
        skip = FORMS[form].skips(node.op, SpecBuilder(), *graph.input_specs(node.id))
    except OpError as e:
        return str(e)
    return None if skip is None else skip.reason


def refusal(steps: list[Step], site: Site, profile: Profile) -> str | None:
    """Return the first limit of a profile that the steps of a form exceed, or None."""
    if profile.max_spatial_axes is not None and site.rank > profile.max_spatial_axes:
        return f"{site.rank} spatial axes, the target has {profile.max_spatial_axes}"
    if profile.max_groups is not None and site.groups > profile.max_groups:
        return f"{site.groups} groups, the target has at most {profile.max_groups}"
    refused = _filter_refusal(site.constant_filter, profile)
    return refused or next((r for r in (_step_refusal(s, profile) for s in steps) if r), None)


def _filter_refusal(constant: bool, profile: Profile) -> str | None:
    if constant or profile.non_constant_filters:
        return None
    return "the filter is no constant, the target needs one"


def _step_refusal(step: Step, profile: Profile) -> str | None:
    """Return why a target cannot do one step, or None."""
    limits = (
        ("kernel", step.kernel, profile.max_kernel),
        ("dilation", step.dilations, profile.max_dilation),
        ("stride", step.strides, profile.max_stride),
    )
    for name, values, most in limits:
        if most is not None and max(values, default=0) > most:
            return f"{name} {max(values)}, the target has at most {most}"
    if step.kind == "ZeroInsertion" and not profile.zero_insertion:
        return "the target inserts no zeros"
    if step.kind == "Pad" and max(step.pads) > 0 and not profile.pad:
        return "the target does not pad"
    if step.kind == "Pad" and min(step.pads) < 0 and not profile.crop:
        return "the target does not crop"
    if step.strides and step.kind == "DepthToSpace" and not profile.depth_to_space:
        return "the target has no DepthToSpace"
    if step.strides and step.kind == "Transpose" and not profile.strided_write:
        wanted = "DepthToSpace for this layer" if profile.depth_to_space else "interleaving"
        return f"the target has no strided write and no {wanted}"
    return None


def score_of(steps: list[Step], site: Site, profile: Profile) -> float:
    """Return the weighted cost of a form's steps."""
    cost, weights = cost_of(steps, site), profile.weights
    macs = sum(s.macs * _rounding(s, site, profile.channel_alignment) for s in steps)
    moved, nodes, scratch = cost.bytes, cost.nodes, cost.scratch
    inserted = [s for s in steps if s.kind == "ZeroInsertion" and s.strides == site.strides]
    if profile.skips_inserted_zeros and inserted:
        macs /= math.prod(site.strides)
        # It is written and read again; the Pad or convolution behind it reads the data instead.
        moved -= 2 * inserted[0].out * site.itemsize
        scratch = max(0, scratch - inserted[0].out * site.itemsize)
        nodes -= inserted[0].nodes
    return (
        weights.mac * macs + weights.byte * moved + weights.scratch * scratch + weights.node * nodes
    )


def _rounding(step: Step, site: Site, multiple: int) -> float:
    """Return by which factor rounding up channels multiplies a convolution's products."""
    if not step.macs or multiple == 1:
        return 1.0
    factor = 1.0
    for channels in (site.c, step.channels):
        factor *= -(-channels // multiple) * multiple / channels
    return factor


def _refuse_spreading(rows: list[FormCost], spread: Spread | None) -> list[FormCost]:
    """Refuse the forms that spread non-finite constants further than another admissible one."""
    if spread is None:
        return rows
    counts = [r.affected for r in rows if r.refused is None and r.affected is not None]
    least = min(counts, default=0)
    out = []
    for r in rows:
        if r.refused is None and r.affected is not None and r.affected > least:
            reason = f"spreads non-finite constants to {r.affected} outputs instead of {least}"
            r = replace(r, refused=reason)
        out.append(r)
    return out
