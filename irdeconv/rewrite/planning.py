"""Planning: forms are counted, held against a target, and chosen by cost.

Planning: a form is built without numbers, counted, and held against a target.

With R = prod(S) residues, per axis I inputs, O outputs, and from `subpixel.analyse`: I' = I + more
outputs of every residue, K_r taps of residue r (they sum up to K), E the inputs that a stacked
filter spans (`*` is a product over axes), the forms cost:

    form            multiply-accumulates                intermediates, elements
    zero-insertion  N M C/g *(O K)                      N C *(S I), N C *(O + D(K-1))
    phases          sum over r: N M C/g *(I' K_r)       per r: N C *(I'+E_r-1), N M *I'; N M R *I'
                      = N M C/g *(I' K)
    stacked         N M R C/g *(I' E)                   N C *(I'+E-1), N M R *I', twice
    gemm            N M C/g *(S I)                      N M R *I, twice

- bytes: tensors and filters that an operation reads (not pads, axes, shapes), and what it writes.
- scratch: the most bytes of intermediates alive at once, without the layer's data, output and
  constants. Reshape, Squeeze and Unsqueeze share their input's memory.
- nodes: operations without constants and without the arithmetic on sizes.
- wasted: the share of products that reach no output: inserted or padded zeros, cropped outputs.

An unknown batch counts as 1, an unknown size as 32 (or the nearest that its bounds allow).
Constant filters are rearranged before anything runs, at no cost.

The choice of a form: a table of costs per deconvolution, and the cheapest one that is allowed.

    score = mac * MACs' + byte * bytes + scratch * scratch bytes + node * nodes

with the weights of the target. MACs' are the MACs with channels rounded up to the target's
alignment and, if the target skips inserted zeros, divided by prod(S) in the zero-insertion form
(whose ZeroInsertion then counts neither as traffic nor as node). A form is refused by its own rule,
by a condition of the target, or because it spreads infinities or NaNs of the constants to more
outputs than another form does. Equal scores go to the first form in FORMS.

How many nodes a lowering makes at least, told before it makes any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.base.limits import current
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, i64
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op, SpecBuilder, SugarOp, infer_op
from irdeconv.ir.spec import Array, Spec
from irdeconv.ops import core
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.dialect_openvino import BackpropData
from irdeconv.ops.dialect_template import DialectDeconvolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.shape import Reshape, ShapeOf, Squeeze1, Unsqueeze
from irdeconv.rewrite.builder import NodeBudget, Skip
from irdeconv.rewrite.convolving import facts_of, operation_of
from irdeconv.rewrite.emit import Decision, DeconvolutionInputs, Option, RuleCall, Rules, Style
from irdeconv.rewrite.forms import FORMS, Form, forms_for
from irdeconv.rewrite.interleaving import spell_zero_insertion
from irdeconv.rewrite.legalising import proposals
from irdeconv.rewrite.nonfinite import NonFiniteReport
from irdeconv.rewrite.site import DeconvolutionSite, site_of
from irdeconv.rewrite.target_conditions import Facts
from irdeconv.rewrite.targets import ScoreWeights, Target

MOST_OPERATIONS = 1500  # that are tried while a form is planned, before rules are given up
VIEWS = (Reshape, Squeeze1, Unsqueeze)  # output and input share their memory


@dataclass(frozen=True)
class PlannedValue:
    """A value without numbers: its spec, the same with stand-ins for unknown sizes, its buffer.

    `buffer` is None for the layer's data and filter and for constants. `on_data` says that it
    depends on the data. `maker` is the index of the operation that computes it. `deferred` are the
    operations that compute a vector of sizes; they are recorded if something reads the vector.
    """

    spec: Spec
    size: Spec
    buffer: int | None = None
    constant: bool = False
    on_data: bool = False
    maker: int = -1
    deferred: tuple[PlannedOperation, ...] = ()


@dataclass
class PlannedOperation:
    """An emitted operation, how often it is emitted alike, and the conditions that it violates.

    `moved` are the elements of tensors and filters that it reads and writes; none for a view.
    """

    op: Op
    inputs: tuple[Spec, ...]
    output: Spec
    moved: int
    macs: int
    on_data: bool
    facts: Facts | None = None
    failures: tuple[str, ...] = ()
    times: int = 1


@dataclass
class _Segment:
    """What one option emitted."""

    operations: list[PlannedOperation]
    buffers: list[tuple[int, tuple[int, ...]]]
    decisions: list[Decision]
    value: PlannedValue
    failed: int = 0  # operations that violate conditions
    score: float = 0.0
    operation: int = 0  # the number of its first operation
    buffer: int = 0  # of its first buffer


class Pruned(OpError):
    """An option is worse than another one."""


def no_rules(*_: object) -> Sequence[RuleCall]:
    """Propose nothing."""
    return ()


@dataclass
class Planner:
    """Records what a rule emits, and takes the cheapest of several options that the target allows.

    `buffers` has the elements of every buffer and the buffers that were read for it. `decisions`
    are the options taken, in the order of the choices.
    """

    target: Target
    style: Style = Style()
    dtype: ElementType = ELEMENT_TYPES["f32"]  # of data and filter
    rules: Rules = no_rules
    sums: bool = True  # whether partial sums of several convolutions may be added
    room: int = MOST_OPERATIONS  # operations that are left to be tried
    operations: list[PlannedOperation] = field(default_factory=list)
    buffers: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    _total: float = 0.0  # the score of what is recorded
    _inserting: bool = False
    _zeros: int = 1  # so many products of a convolution are one of the data
    limit: float = math.inf  # a score that another option has
    legal: bool = False  # whether another option violates nothing
    _repeated: dict[object, _Segment] = field(default_factory=dict)

    def const(self, array: Array) -> PlannedValue:
        """Return a constant."""
        spec = Spec.of(array)
        return PlannedValue(spec, spec, constant=True)

    def spec(self, value: PlannedValue) -> Spec:
        """Return the spec of a value, in which sizes may be unknown."""
        return value.spec

    def refine(self, value: PlannedValue, spec: Spec) -> PlannedValue:
        """Return the value as it is."""
        return value

    def add(self, op: Op, *inputs: PlannedValue) -> PlannedValue:
        """Infer one operation and record it, unless all of its inputs are constants."""
        checked = self.target.operations is not None
        if isinstance(op, core.ZeroInsertion) and not self._inserting:
            return self._inserted(op, *inputs)
        spec = infer_op(op, tuple(v.spec for v in inputs))[0]
        sizes = tuple(v.size for v in inputs)
        same = all(v.spec is v.size for v in inputs)
        size = spec if same else infer_op(op, sizes)[0]
        if all(v.constant for v in inputs):
            return PlannedValue(spec, size, constant=True)
        made = self._operation(op, inputs, (sizes, size))
        if checked:
            self._check(made, op, inputs, spec)
        if _is_arithmetic(op, inputs, spec):
            deferred = (*_deferred(inputs), made)
            return PlannedValue(spec, size, on_data=made.on_data, deferred=deferred)
        for step in _deferred(inputs):
            if not any(o is step for o in self.operations):
                self._record(step)
        buffer = inputs[0].buffer
        if not isinstance(op, VIEWS):
            buffer = len(self.buffers)
            read = tuple(v.buffer for v in inputs if v.buffer is not None)
            self.buffers.append((size.size or 0, read))
        self._record(made)
        return PlannedValue(
            spec, size, buffer, on_data=made.on_data, maker=len(self.operations) - 1
        )

    def _inserted(self, op: core.ZeroInsertion, x: PlannedValue) -> PlannedValue:
        """Insert zeros: as they are written, for a target that lists its operations.

        If the target skips inserted zeros, that and the products with them cost nothing.
        """
        self._inserting = True
        try:
            if self.target.operations is None:
                return self.add(op, x)
            spelled = spell_zero_insertion(op, self, x)
            assert isinstance(spelled, PlannedValue)
            return spelled
        finally:
            self._inserting, self._zeros = False, math.prod(op.strides)

    def _operation(
        self, op: Op, inputs: Sequence[PlannedValue], specs: tuple[tuple[Spec, ...], Spec]
    ) -> PlannedOperation:
        """Return an operation with what it costs; `specs` are those of its inputs and output."""
        sizes, size = specs
        macs, moved = op.macs(sizes, (size,)) or 0, 0
        if not isinstance(op, VIEWS):
            moved = (size.size or 0) + sum(s.size or 0 for s in sizes if s.dtype == self.dtype)
        return PlannedOperation(op, sizes, size, moved, macs, any(v.on_data for v in inputs))

    def _record(self, made: PlannedOperation) -> None:
        self.operations.append(made)
        self._count(made)

    def _count(self, made: PlannedOperation) -> None:
        """Add the score of an operation; Pruned if a better option is known."""
        self.room -= 1
        self._total += self._score(made, self.target.cost)
        if self._total > self.limit or (self.legal and made.failures):
            raise Pruned("another option is better", code="E400")

    def _check(
        self, made: PlannedOperation, op: Op, inputs: Sequence[PlannedValue], spec: Spec
    ) -> None:
        """Record the violated conditions; a bias becomes a part of the convolution in front."""
        specs = tuple(v.spec for v in inputs)
        constants = tuple(v.constant for v in inputs)
        front = self.operations[inputs[0].maker] if inputs[0].maker >= 0 else None
        biased = front is not None and isinstance(front.op, ConvolutionBase | BackpropData)
        if isinstance(op, Add) and biased and front and front.facts and constants[1:] == (True,):
            front.facts = Facts({**front.facts.values, "has_bias": True}, front.facts.axes)
            found = self.target.failures(operation_of(front.op), front.facts)
            front.failures = tuple(found)
            return
        made.facts = facts_of(op, specs, spec, constants)
        made.failures = tuple(self.target.failures(operation_of(op), made.facts))

    def choose(self, options: Sequence[Option[PlannedValue]]) -> PlannedValue:
        """Build every option and keep the best: few violations first, then a low score."""
        if len(options) == 1 or self.target.operations is None:
            self.decisions.append(0)
            return options[0].build()
        return self._best([(i, option.build) for i, option in enumerate(options)])

    def attempt(self, layer: Any, plain: Callable[[], PlannedValue]) -> PlannedValue:
        """Build the plain layer; if it violates conditions, try the rules that may help."""
        first = None
        with suppress(Pruned):
            first = self._tried(0, plain)
            if not first.failed or self.room <= 0:
                self._append(first)
                return first.value
        if self.room <= 0:
            raise Pruned("the layer violates conditions", code="E400")
        calls = self.rules(self, layer)
        options = [(call, partial(call.rule, self, layer, *call.params)) for call in calls]
        return self._best(options, first)

    def _best(
        self,
        options: Sequence[tuple[Decision, Callable[[], PlannedValue]]],
        best: _Segment | None = None,
    ) -> PlannedValue:
        """Build options and keep the best; what cannot be better is given up early."""
        reason: OpError = Pruned("no rule applies", code="E400")
        legal, limit = self.legal, self.limit
        for number, build in options:
            if best is not None and not best.failed:
                self.legal, self.limit = True, min(limit, self._total + best.score)
            try:
                segment = self._tried(number, build)
            except OpError as e:
                reason = e
                continue
            finally:
                self.legal, self.limit = legal, limit
            if best is None or (segment.failed, segment.score) < (best.failed, best.score):
                best = segment
        if best is None:
            raise reason
        self._append(best)
        return best.value

    def _tried(self, number: Decision, build: Callable[[], PlannedValue]) -> _Segment:
        """Return what an option emits; the records are as before afterwards."""
        marks, total = [len(v) for v in self._lists()], self._total
        self.decisions.append(number)
        try:
            value = build()
            return self._segment(value, marks, self._total - total)
        finally:
            self._total = total
            for v, m in zip(self._lists(), marks, strict=True):
                del v[m:]

    def _segment(self, value: PlannedValue, marks: Sequence[int], score: float) -> _Segment:
        """Return what was recorded since some marks."""
        operations, buffers, decisions = marks
        made = self.operations[operations:]
        failed = sum(o.times for o in made if o.failures)
        rest = self.buffers[buffers:], self.decisions[decisions:]
        return _Segment(made, *rest, value, failed, score, operations, buffers)

    def _lists(self) -> tuple[list[Any], list[Any], list[Any]]:
        return self.operations, self.buffers, self.decisions

    def _append(self, segment: _Segment) -> None:
        self.operations += segment.operations
        self.buffers += segment.buffers
        self.decisions += segment.decisions
        self._total += segment.score

    def _score(self, o: PlannedOperation, weights: ScoreWeights) -> float:
        macs = o.macs * channel_rounding(o, weights.channel_alignment)
        if weights.skips_inserted_zeros:
            if self._inserting:
                return 0.0
            macs /= self._zeros
        moved = o.moved * self.dtype.container.itemsize
        return weights.mac * macs + weights.byte * moved + weights.node

    def repeat(self, key: object, build: Callable[[], PlannedValue]) -> PlannedValue:
        """Run `build` for the first of equal keys; count the same again for all others.

        Beside its own buffers it may read only the inputs of the rule and constants.
        """
        segment = self._repeated.get(key)
        if segment is None or not self._holds(segment):
            marks, total = [len(v) for v in self._lists()], self._total
            value = build()
            self._repeated[key] = self._segment(value, marks, self._total - total)
            return value
        for made in segment.operations:
            made.times += 1
        self._total += segment.score
        if self._total > self.limit:
            raise Pruned("another option is better", code="E400")
        self.decisions += segment.decisions
        start, shift = segment.buffer, len(self.buffers) - segment.buffer
        self.buffers += [
            (n, tuple(b + shift * (b >= start) for b in read)) for n, read in segment.buffers
        ]
        value = segment.value
        if value.buffer is None or value.buffer < start:
            return value
        return replace(value, buffer=value.buffer + shift)

    def _holds(self, segment: _Segment) -> bool:
        """Whether a segment was not undone since it was recorded."""
        at, operations = segment.operation, segment.operations
        here = self.operations[at : at + len(operations)]
        return all(a is b for a, b in zip(here, operations, strict=False)) and bool(here)

    @property
    def score(self) -> float:
        """The score of what is recorded, without scratch memory."""
        return self._total

    def scratch(self, result: PlannedValue) -> int:
        """Return the most elements of intermediates alive at once, the result excluded."""
        last = {read: i for i, (_, reads) in enumerate(self.buffers) for read in reads}
        most = alive = 0
        for i, (elements, reads) in enumerate(self.buffers):
            alive += elements if i != result.buffer else 0
            most = max(most, alive)
            alive -= sum(self.buffers[read][0] for read in set(reads) if last[read] == i)
        return most


def _is_arithmetic(op: Op, inputs: Sequence[PlannedValue], spec: Spec) -> bool:
    """Whether an operation computes a vector of sizes from sizes."""
    read = [v for v in inputs if not v.constant]
    if spec.dtype != i64 or (spec.rank or 0) > 1:
        return False
    return isinstance(op, ShapeOf) or all(v.deferred for v in read)


def _deferred(inputs: Sequence[PlannedValue]) -> list[PlannedOperation]:
    """Return the operations that compute the sizes among some inputs, each once."""
    return list({id(o): o for v in inputs for o in v.deferred}.values())


def channel_rounding(o: PlannedOperation, multiple: int) -> float:
    """Return the factor by which rounding up channels multiplies a convolution's products."""
    if multiple == 1 or not isinstance(o.op, ConvolutionBase):
        return 1.0
    shape = o.inputs[1].shape or ()
    channels = [n for n in shape[o.op.grouped :][:2] if isinstance(n, int) and n]
    return math.prod(-(-n // multiple) * multiple / n for n in channels)


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


class _CoreFinder(SpecBuilder):
    """Keeps the core.Deconvolution that a dialect's expands to, with the specs of its inputs."""

    def __init__(self) -> None:
        self.found: tuple[core.Deconvolution, tuple[Spec, ...]] | None = None

    def add(self, op: Op, *inputs: Spec) -> Spec:
        """Infer one operation."""
        if isinstance(op, core.Deconvolution):
            self.found = op, inputs
        return super().add(op, *inputs)


def require_room(graph: Graph, form: str, budget: NodeBudget) -> None:
    """Raise LimitError where an inferred graph, lowered in a form, gets more nodes than are left.

    What is foreseen is a lower bound, none for `auto`: what is made is counted as well.
    """
    layers = list(_deconvolutions(graph))
    if form not in FORMS or len(layers) * current().lowered_nodes <= budget.left:
        return
    nodes, known = 0, dict[object, int]()
    for inside, node in layers:
        op, inputs = node.op, inside.input_specs(node.id)
        key = op.alike(inputs) if isinstance(op, DialectDeconvolution) else None
        least = known.get(key) if key else None
        if least is None:
            least = known[key] = _foreseen_least(op, inputs, FORMS[form])
        nodes += least
        budget.require(nodes, node)


def _deconvolutions(graph: Graph) -> Iterator[tuple[Graph, Node]]:
    for node in graph.nodes():
        for body in bodies_of(node):
            yield from _deconvolutions(body.graph)
        if node.op.deconvolution:
            yield graph, node


def _foreseen_least(op: Op, inputs: tuple[Spec, ...], form: Form) -> int:
    finder = _CoreFinder()
    try:
        if isinstance(op, SugarOp):
            op.expand(finder, *inputs)
        else:
            finder.add(op, *inputs)
    except OpError:  # lowering reports it
        return 0
    if finder.found is None:
        return 0
    core_op, (_, filter, begin, end) = finder.found
    return 0 if form.skips(core_op, filter, begin, end) else form.least_nodes(core_op, filter)
