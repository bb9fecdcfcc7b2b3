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
from irdeconv.ops import core
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.movement import Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.passes.cost import Cost, CountedOperation, Emission, count
from irdeconv.passes.forms import FORMS, Form
from irdeconv.passes.nonfinite import NonFiniteReport
from irdeconv.passes.profile import Profile
from irdeconv.passes.rewrite import Skip
from irdeconv.passes.site import DeconvolutionSite, Ints, constant_of, site_of
from irdeconv.spec import ints, is_static


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
    graph: Graph, node: Node, profile: Profile, spread: NonFiniteReport | None = None
) -> tuple[FormCost, ...]:
    """Return a row per form for a core.Deconvolution; the cheapest admissible one is `chosen`."""
    site = site_of(graph, node)
    if site is None:
        rows = [_row_without_costs(form, graph, node, profile) for form in FORMS.values()]
    else:
        rows = [_row(form, site, profile, spread) for form in FORMS.values()]
    rows = _refuse_spreading(rows)
    open_rows = [r for r in rows if r.refused is None]
    # Where nothing is known about costs, the form that always applies is as good as any.
    best = min(open_rows, key=lambda r: math.inf if r.score is None else r.score, default=None)
    return tuple(replace(r, chosen=r is best) for r in rows)


def chosen(rows: tuple[FormCost, ...]) -> str | None:
    """Return the chosen form of a table, None where all forms are refused."""
    return next((r.form for r in rows if r.chosen), None)


def _row(
    form: Form, site: DeconvolutionSite, profile: Profile, spread: NonFiniteReport | None
) -> FormCost:
    try:
        emitted = count(form, site, depth_to_space=profile.depth_to_space)
    except OpError as e:
        emitted = Skip(str(e))
    if isinstance(emitted, Skip):
        return FormCost(form.name, None, None, emitted.reason)
    return FormCost(
        form=form.name,
        cost=emitted.cost,
        score=score_of(emitted, site, profile),
        refused=refusal(emitted, site, profile),
        assumed=site.assumed,
        affected=None if spread is None else spread.affected.get(form.name),
    )


def _row_without_costs(form: Form, graph: Graph, node: Node, profile: Profile) -> FormCost:
    op = node.op
    assert isinstance(op, core.Deconvolution)
    _, *specs = graph.input_specs(node.id)
    skip = form.skips(op, *specs)
    filter = constant_of(graph, graph.inputs_of(node.id)[1])
    refused = skip.reason if skip else _filter_refusal(filter is not None, profile)
    return FormCost(form.name, None, None, refused)


def refusal(emitted: Emission, site: DeconvolutionSite, profile: Profile) -> str | None:
    """Return the first limit of a profile that what a form emits exceeds, or None."""
    if profile.max_spatial_axes is not None and site.rank > profile.max_spatial_axes:
        return f"{site.rank} spatial axes, the target has {profile.max_spatial_axes}"
    if profile.max_groups is not None and site.groups > profile.max_groups:
        return f"{site.groups} groups, the target has at most {profile.max_groups}"
    refused = _filter_refusal(site.constant_filter, profile)
    by_operation = (_operation_refusal(o, site, profile) for o in emitted.operations)
    return refused or next((reason for reason in by_operation if reason), None)


def _filter_refusal(constant: bool, profile: Profile) -> str | None:
    if constant or profile.non_constant_filters:
        return None
    return "the filter is no constant, the target needs one"


def _operation_refusal(
    counted: CountedOperation, site: DeconvolutionSite, profile: Profile
) -> str | None:
    """Return why a target cannot do one operation, or None."""
    op = counted.op
    kernel: Ints = ()
    strides, dilations, pads = kernel, kernel, kernel
    interleaves = isinstance(op, Transpose) and counted.on_data  # it is not of the filter
    if isinstance(op, ConvolutionBase):
        kernel, dilations = _filter_of(counted, site)[1], op.dilations
    elif isinstance(op, Pad12):
        pads = tuple(pad for spec in counted.inputs[1:3] for pad in ints(spec) or ())
    elif interleaves or isinstance(op, core.ZeroInsertion | DepthToSpace):
        strides = site.strides
    limits = (
        ("kernel", kernel, profile.max_kernel),
        ("dilation", dilations, profile.max_dilation),
        ("stride", strides, profile.max_stride),
    )
    for name, values, most in limits:
        if most is not None and max(values, default=0) > most:
            return f"{name} {max(values)}, the target has at most {most}"
    instead = "DepthToSpace for this layer" if profile.depth_to_space else "interleaving"
    abilities = (
        (isinstance(op, core.ZeroInsertion), profile.zero_insertion, "inserts no zeros"),
        (max(pads, default=0) > 0, profile.pad, "does not pad"),
        (min(pads, default=0) < 0, profile.crop, "does not crop"),
        (interleaves, profile.strided_write, f"has no strided write and no {instead}"),
    )
    lacking = (text for needed, able, text in abilities if needed and not able)
    return next((f"the target {text}" for text in lacking), None)


def _filter_of(counted: CountedOperation, site: DeconvolutionSite) -> tuple[int, Ints]:
    """Return the output channels of a convolution's group, and its kernel."""
    shape = counted.inputs[1].shape
    assert is_static(shape)
    return shape[-site.rank - 2], shape[-site.rank :]


def score_of(emitted: Emission, site: DeconvolutionSite, profile: Profile) -> float:
    """Return the weighted cost of what a form emits."""
    cost, weights, multiple = emitted.cost, profile.weights, profile.channel_alignment
    macs = sum(o.macs * o.times * _rounding(o, site, multiple) for o in emitted.operations)
    moved, nodes, scratch = cost.bytes, cost.nodes, cost.scratch
    inserted = [o for o in emitted.operations if isinstance(o.op, core.ZeroInsertion)]
    if profile.skips_inserted_zeros and inserted:
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
