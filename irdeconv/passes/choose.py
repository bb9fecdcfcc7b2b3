"""The choice of a form: a table of costs per deconvolution, and the cheapest one that is allowed.

    score = mac * MACs' + byte * bytes + scratch * scratch bytes + node * nodes

with the weights of the target. MACs' are the MACs with channels rounded up to the target's
alignment and, if the target skips inserted zeros, divided by prod(S) in the zero-insertion form
(whose ZeroInsertion then counts neither as traffic nor as node). A form is refused by its own rule,
by a condition of the target, or because it spreads infinities or NaNs of the constants to more
outputs than another form does. Equal scores go to the first form in FORMS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.errors import OpError
from irdeconv.graph import Graph, Node
from irdeconv.ops import core
from irdeconv.passes.emit import Decision, DeconvolutionInputs, Style
from irdeconv.passes.forms import Form, forms_for
from irdeconv.passes.legalising import proposals
from irdeconv.passes.nonfinite import NonFiniteReport
from irdeconv.passes.planning import PlannedValue, Planner, Pruned
from irdeconv.passes.rewrite import Skip
from irdeconv.passes.site import DeconvolutionSite, site_of
from irdeconv.spec import Spec
from irdeconv.targets.profile import Target


@dataclass(frozen=True)
class Cost:
    """The costs of one form; planning.py has the units."""

    macs: int
    bytes: int
    scratch: int
    nodes: int
    wasted: float


@dataclass(frozen=True)
class FormCost:
    """One form of one deconvolution: costs (None if sizes are unknown), score, or a refusal.

    `assumed` says that sizes stand in for unknown ones. `affected` counts the outputs that
    non-finite constants spoil, None if there are none. `violations` are the conditions of the
    target that no spelling of the form meets, `decisions` how the form is spelled.
    """

    form: str
    cost: Cost | None
    score: float | None
    refused: str | None
    chosen: bool = False
    assumed: bool = False
    affected: int | None = None
    violations: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = field(default=(), repr=False)

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


@dataclass(frozen=True)
class PlanningTask:
    """A core.Deconvolution to be planned, for a target and a style of emitting.

    Without `all_costs` a form is given up if another one is cheaper; without `sums` no partial sums
    of convolutions are added, which int8 would round.
    """

    graph: Graph
    node: Node
    target: Target
    style: Style = Style()
    bias: bool = False
    spread: NonFiniteReport | None = None
    all_costs: bool = True
    sums: bool = True


def cost_table(task: PlanningTask) -> tuple[FormCost, ...]:
    """Return a row per form for a core.Deconvolution; the cheapest allowed one is `chosen`."""
    site = site_of(task.graph, task.node)
    forms = [*forms_for(task.target).values()]
    if site is None:
        rows = [_row_without_costs(form, task) for form in forms]
    else:
        found: dict[str, FormCost] = {}
        for form in reversed(forms):  # zero-insertion multiplies most, and is given up most often
            found[form.name] = _row(form, site, task, _least([*found.values()], task))
        rows = [found[form.name] for form in forms]
    rows = _refuse_spreading(rows)
    open_rows = [r for r in rows if r.refused is None]
    # If nothing is known about costs, the form that always applies is as good as any.
    best = min(open_rows, key=lambda r: math.inf if r.score is None else r.score, default=None)
    return tuple(replace(r, chosen=r is best) for r in rows)


def chosen(rows: tuple[FormCost, ...]) -> FormCost | None:
    """Return the chosen row of a table, None if all forms are refused."""
    return next((r for r in rows if r.chosen), None)


def _least(rows: Sequence[FormCost], task: PlanningTask) -> float:
    """Return the score that a further form has to reach."""
    if task.all_costs or task.spread is not None:
        return math.inf
    scores = [r.score for r in rows if r.refused is None and r.score is not None]
    return min(scores, default=math.inf)


def planned(
    form: Form, site: DeconvolutionSite, task: PlanningTask, limit: float = math.inf
) -> tuple[Planner, PlannedValue] | Skip:
    """Build a form for a site without numbers. Raises OpError if the rule does.

    It is given up beyond `limit`, the score of another form.
    """
    data = task.graph.input_specs(task.node.id)[0]
    dtype = data.dtype or ELEMENT_TYPES["f32"]
    b = Planner(task.target, task.style, dtype, proposals)
    b.limit, b.legal = limit, limit < math.inf
    b.sums = task.sums
    size = Spec(dtype, site.data_shape)
    known = Spec(dtype, data.shape) if site.assumed and data.shape else size
    filter = Spec(dtype, site.filter_shape)
    inputs = DeconvolutionInputs(
        PlannedValue(known, size, on_data=True),
        PlannedValue(filter, filter, constant=site.constant_filter),
        b.const(np.array(site.begin, np.int64)),
        b.const(np.array(site.end, np.int64)),
        b.const(np.zeros((1, site.outputs, *(1,) * site.rank), dtype.container))
        if task.bias
        else None,
    )
    result = form.lower(core.Deconvolution(site.strides, site.dilations), b, inputs)
    return result if isinstance(result, Skip) else (b, result)


def cost_of(b: Planner, result: PlannedValue, site: DeconvolutionSite) -> Cost:
    """Return what a plan costs."""
    macs = sum(o.macs * o.times for o in b.operations)
    return Cost(
        macs=macs,
        bytes=sum(o.moved * o.times for o in b.operations) * site.itemsize,
        scratch=b.scratch(result) * site.itemsize,
        nodes=sum(o.times for o in b.operations),
        wasted=max(0.0, 1 - site.useful_macs() / macs) if macs else 0.0,
    )


def _row(form: Form, site: DeconvolutionSite, task: PlanningTask, limit: float) -> FormCost:
    try:
        plan = planned(form, site, task, limit)
    except Pruned:
        plan = Skip("another form is cheaper, or none of its spellings is legal")
    except OpError as e:
        plan = Skip(str(e))
    if isinstance(plan, Skip):
        return FormCost(form.name, None, None, plan.reason)
    b, result = plan
    violations = tuple(dict.fromkeys(f for o in b.operations for f in o.failures))
    cost = cost_of(b, result, site)
    return FormCost(
        form=form.name,
        cost=cost,
        score=b.score + task.target.cost.scratch * cost.scratch,
        refused="; ".join(violations) or None,
        assumed=site.assumed,
        affected=None if task.spread is None else task.spread.affected.get(form.name),
        violations=violations,
        decisions=tuple(b.decisions),
    )


def _row_without_costs(form: Form, task: PlanningTask) -> FormCost:
    op = task.node.op
    assert isinstance(op, core.Deconvolution)
    _, *specs = task.graph.input_specs(task.node.id)
    skip = form.skips(op, *specs)
    refused = skip.reason if skip else None
    if refused is None and task.target.operations is not None:
        refused = "the filter's shape or the pads are known only at run time"
    return FormCost(form.name, None, None, refused)


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
