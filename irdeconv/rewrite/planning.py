"""Planning: a form is built without numbers, counted, held against a target, and chosen by cost.

docs/forms.md has the multiply-accumulates and intermediates of each form. Other costs:

- bytes: tensors and filters that an operation reads (not pads, axes, shapes), and its outputs.
- scratch: the most bytes of intermediates alive at once, without the layer's data, output and
  constants. Reshape, Squeeze and Unsqueeze share their input's memory.
- nodes: operations without constants and without the arithmetic on sizes.
- wasted: the share of products that reach no output: inserted or padded zeros, cropped outputs.

An unknown batch counts as 1, an unknown size as 32 (or the nearest that its bounds allow). Constant
filters are rearranged before anything runs, at no cost. The cheapest allowed form is chosen:

    score = mac * MACs' + byte * bytes + scratch * scratch bytes + node * nodes

with the weights of the target. MACs' are the MACs with channels rounded up to the target's
alignment and, if the target skips inserted zeros, divided by prod(S) in the zero-insertion form
(whose ZeroInsertion then counts neither as traffic nor as node). A form is refused by its own rule,
by a condition of the target, or because it spreads infinities or NaNs of the constants to more
outputs than another form does. Equal scores go to the first form in FORMS.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import OpError
from irdeconv.base.json_form import Record
from irdeconv.base.limits import raise_hint
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, i64
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op, infer_op
from irdeconv.ir.spec import Array, Spec
from irdeconv.ops import core
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.dialect_openvino import BackpropData
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Reshape, ShapeOf, Squeeze1, Unsqueeze
from irdeconv.rewrite import emit
from irdeconv.rewrite.forms import NATIVE, Form, NonFiniteReport, forms_for
from irdeconv.rewrite.legalising import proposals
from irdeconv.rewrite.subpixel import DeconvolutionSite, site_of
from irdeconv.rewrite.target_conditions import Facts
from irdeconv.rewrite.targets import ScoreWeights, Target, facts_of, operation_of

# Operations that are tried for a layer before rules are given up; for each form at first.
MOST_OPERATIONS, FEW_OPERATIONS = 1500, 150
STOPPED = f"the search stopped after {MOST_OPERATIONS:,} operations"
NEW_PLANNED, KNOWN_PLANNED = 8_192, 512  # units of work for an operation: a new one, a known one
VAIN = "the search stopped, as the target has no convolution of this batch or type"
CostTables = dict[object, "tuple[FormCost, ...]"]  # by all that they depend on
VIEWS = (Reshape, Squeeze1, Unsqueeze)  # output and input share their memory


@dataclass(frozen=True)
class PlannedValue:
    """A value without numbers: its spec, the same with stand-ins for unknown sizes, its buffer.

    `buffer` is None for the layer's data and filter and for constants. `maker` is the index of the
    operation that computes it. `deferred` are the operations that compute a vector of sizes; they
    are recorded if something reads the vector.
    """

    spec: Spec
    size: Spec
    buffer: int | None = None
    constant: bool = False
    maker: int = -1
    deferred: tuple[PlannedOperation, ...] = ()


@dataclass
class PlannedOperation:
    """An emitted operation, the number of equal ones, and the conditions that it violates.

    `moved` are the elements of tensors and filters that it reads and writes; none for a view.
    """

    op: Op
    inputs: tuple[Spec, ...]
    moved: int
    macs: int
    facts: Facts | None = None
    failures: tuple[str, ...] = ()
    times: int = 1
    place: int = -1  # where it was recorded last


@dataclass
class _Segment:
    """The layers that one option emitted."""

    operations: list[PlannedOperation]
    buffers: list[tuple[int, tuple[int, ...]]]
    decisions: list[emit.Decision]
    value: PlannedValue
    failed: int = 0  # operations that violate conditions
    score: float = 0.0
    operation: int = 0  # the number of its first operation
    buffer: int = 0  # of its first buffer


class Pruned(OpError):
    """An option is worse than another one."""


@dataclass
class PlanningMemo:
    """Results for one target and style, from the forms of a layer that were planned before.

    Equal specs are one object of `specs`. `operations` has the output of an operation, and its
    costs if it is not constant. `layers` has the plan of a layer, or a score that was out of reach
    and whether only legal graphs counted. `judged` has the target's verdicts on a layer's numbers.
    `room` is the number of operations left to be tried. `copied`: a layer could be made of copies.
    """

    room: int = MOST_OPERATIONS
    copied: bool = False
    stopped: str = STOPPED  # why a search ended
    specs: dict[object, Spec] = field(default_factory=dict)
    operations: dict[object, tuple[PlannedValue, PlannedOperation | None]] = field(
        default_factory=dict
    )
    layers: dict[object, _Segment | tuple[float, bool]] = field(default_factory=dict)
    judged: dict[object, int | frozenset[str]] = field(default_factory=dict)

    def draw(self, units: int) -> None:
        """Count work; the search ends if half of the account is used. OpError if all is."""
        if not work.room(units):
            work.take(units)
            self.room, limit = 0, f"{work.limit_text()}; {raise_hint('work')}"
            self.stopped = f"the search stopped at half of {limit}"

    def one(self, spec: Spec) -> Spec:
        """Return the one object for all specs that are equal to this one."""
        value = spec.value
        own = None if value is None else (value.dtype.char, *value.reshape(-1).tolist())
        return self.specs.setdefault((spec.dtype, spec.shape, own), spec)


@dataclass
class Planner:
    """Records a rule's operations, and chooses the cheapest option that the target allows.

    `buffers` has the elements of every buffer and the buffers that were read for it. `decisions`
    are the options taken, in the order of the choices.
    """

    target: Target
    style: emit.Style = emit.Style()
    dtype: ElementType = ELEMENT_TYPES["f32"]  # of data and filter
    sums: bool = True  # whether partial sums of several convolutions may be added
    copies: bool = False  # whether a deconvolution may become hundreds of them
    operations: list[PlannedOperation] = field(default_factory=list)
    buffers: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    decisions: list[emit.Decision] = field(default_factory=list)
    score: float = 0.0  # of the recorded operations, without scratch memory
    _inserting: bool = False
    _zeros: int = 1  # so many products of a convolution are one of the data
    limit: float = math.inf  # a score that another option has
    legal: bool = False  # whether another option violates nothing
    _repeated: dict[object, _Segment] = field(default_factory=dict)
    memo: PlanningMemo = field(default_factory=PlanningMemo)

    def const(self, array: Array) -> PlannedValue:
        """Return a constant."""
        spec = self.memo.one(Spec.of(array))
        return PlannedValue(spec, spec, constant=True)

    def spec(self, value: PlannedValue) -> Spec:
        """Return the spec of a value, in which sizes may be unknown."""
        return value.spec

    def refine(self, value: PlannedValue, spec: Spec) -> PlannedValue:
        """Return the value as it is."""
        return value

    def add(self, op: Op, *inputs: PlannedValue) -> PlannedValue:
        """Infer one operation and record it, unless all of its inputs are constants."""
        if isinstance(op, core.ZeroInsertion) and not self._inserting:
            return self._inserted(op, *inputs)
        self.memo.draw(KNOWN_PLANNED)
        # Equal specs are one object, so their identity is the cheapest key.
        key = (op, *[(id(v.spec), id(v.size), v.constant) for v in inputs])
        found = self.memo.operations.get(key)
        if found is None:  # options differ in few operations, so most were seen before
            found = self.memo.operations[key] = self._inferred(op, inputs)
        value, made = found
        if made is None:
            return value
        made = PlannedOperation(**vars(made))
        self._join_bias(made, inputs)
        sizes = value.spec.dtype == i64 and (value.spec.rank or 0) <= 1
        if sizes and (isinstance(op, ShapeOf) or all(v.deferred for v in inputs if not v.constant)):
            return replace(value, deferred=(*_deferred(inputs), made))
        for step in _deferred(inputs):
            at = step.place
            if not (0 <= at < len(self.operations) and self.operations[at] is step):
                self._record(step)
        buffer = inputs[0].buffer
        if not isinstance(op, VIEWS):
            buffer = len(self.buffers)
            read = tuple(v.buffer for v in inputs if v.buffer is not None)
            self.buffers.append((value.size.size or 0, read))
        self._record(made)
        return replace(value, buffer=buffer, maker=len(self.operations) - 1)

    def _inferred(
        self, op: Op, inputs: Sequence[PlannedValue]
    ) -> tuple[PlannedValue, PlannedOperation | None]:
        """Return the output of an operation, and the operation with costs and violations."""
        self.memo.draw(NEW_PLANNED)
        specs, sizes = tuple(v.spec for v in inputs), tuple(v.size for v in inputs)
        spec = size = self.memo.one(infer_op(op, specs)[0])
        if any(v.spec is not v.size for v in inputs):
            size = self.memo.one(infer_op(op, sizes)[0])
        constants = tuple(v.constant for v in inputs)
        if all(constants):
            return PlannedValue(spec, size, constant=True), None
        macs, moved = op.macs(sizes, (size,)) or 0, 0
        if not isinstance(op, VIEWS):
            moved = (size.size or 0) + sum(s.size or 0 for s in sizes if s.dtype == self.dtype)
        made = PlannedOperation(op, sizes, moved, macs)
        if self.target.operations is not None:
            name, made.facts = facts_of(op, specs, (spec,), constants)
            made.failures = tuple(self.target.failures(name, made.facts))
        return PlannedValue(spec, size), made

    def _inserted(self, op: core.ZeroInsertion, x: PlannedValue) -> PlannedValue:
        """Insert zeros: as they are written, for a target that lists its operations.

        If the target skips inserted zeros, that and the products with them cost nothing.
        """
        self._inserting = True
        try:
            if self.target.operations is None:
                return self.add(op, x)
            spelled = emit.spell_zero_insertion(op, self, x)
            assert isinstance(spelled, PlannedValue)
            return spelled
        finally:
            self._inserting, self._zeros = False, math.prod(op.strides)

    def _record(self, made: PlannedOperation) -> None:
        """Add an operation and its score; Pruned if a better option is known."""
        made.place = len(self.operations)
        self.operations.append(made)
        self.memo.room -= 1  # also for operations undone later: it bounds the time of the search
        self.score += self._score(made, self.target.cost)
        if self.score > self.limit or (self.legal and made.failures):
            raise Pruned("another option is better", code="E400")

    def _join_bias(self, made: PlannedOperation, inputs: Sequence[PlannedValue]) -> None:
        """Let an Add of a constant be the bias of the convolution in front, which is checked."""
        front = self.operations[inputs[0].maker] if inputs[0].maker >= 0 else None
        if front is None or front.facts is None or not isinstance(made.op, Add):
            return
        if inputs[1].constant and isinstance(front.op, ConvolutionBase | BackpropData):
            front.facts = Facts({**front.facts.values, "has_bias": True}, front.facts.axes)
            found = self.target.failures(operation_of(front.op), front.facts)
            front.failures, made.failures = tuple(found), ()

    def choose(self, options: Sequence[emit.Option[PlannedValue]]) -> PlannedValue:
        """Build every option and keep the best: few violations first, then a low score."""
        if len(options) == 1 or self.target.operations is None:
            self.decisions.append(0)
            return options[0].build()
        rows = [(i, option, option.fits(self)) for i, option in enumerate(options)]
        return self._best(sorted(rows, key=lambda row: not row[2]))

    def attempt(self, layer: Any, plain: Callable[[], PlannedValue]) -> PlannedValue:
        """Build the plain layer; if it violates conditions, try the rules that may help.

        Rules in another order, or of another form, often lead to the same layer again. So its plan
        is memoized, and so is a score that it could not reach.
        """
        key = _key_of(layer)
        if key is None or self.target.operations is None:
            return self._attempted(layer, plain)
        key, slack = (*key, self._zeros), self.limit - self.score
        known = self.memo.layers.get(key)
        if isinstance(known, _Segment):
            later = len(self.operations) - known.operation
            self.operations += [PlannedOperation(**vars(o)) for o in known.operations]
            value = self._again(known, layer.x.buffer)
            return replace(value, maker=value.maker + later)
        if known is not None and slack <= known[0] and self.legal >= known[1]:
            raise Pruned("another option is better", code="E400")
        mark = self._mark()
        try:
            value = self._attempted(layer, plain)
        except Pruned:
            if self.memo.room > 0:  # else the search was not finished
                self.memo.layers[key] = slack, self.legal
            raise
        segment = self._segment(value, mark)
        # Copies: a bias that joins a recorded convolution, or a repetition, changes it later.
        if self.memo.room > 0:
            made = [PlannedOperation(**vars(o)) for o in segment.operations]
            self.memo.layers[key] = replace(segment, operations=made)
        return value

    def _again(self, segment: _Segment, outside: int | None = None) -> PlannedValue:
        """Record buffers, decisions and score of a segment once more; return its value.

        Its input from the outside is in buffer `outside`, or in the same buffer as before.
        """
        start, shift = segment.buffer, len(self.buffers) - segment.buffer

        def moved(buffer: int) -> int:
            return buffer + shift if buffer >= start else (buffer if outside is None else outside)

        self.buffers += [(n, tuple(map(moved, read))) for n, read in segment.buffers]
        self.decisions += segment.decisions
        self.score += segment.score
        if self.score > self.limit or (self.legal and segment.failed):
            raise Pruned("another option is better", code="E400")
        value = segment.value
        return value if value.buffer is None else replace(value, buffer=moved(value.buffer))

    def _attempted(self, layer: Any, plain: Callable[[], PlannedValue]) -> PlannedValue:
        first = None
        with suppress(Pruned):  # a rule may be cheaper than the layer as it is
            first = self._tried(0, plain)
            if not first.failed or self.memo.room <= 0:
                self._append(first)
                return first.value
        if self.memo.room <= 0:
            raise Pruned("the layer violates conditions", code="E400")
        calls = proposals(self, layer)
        rules = ((c, emit.Option("rule", partial(c.rule, self, layer, *c.params))) for c in calls)
        options = ((call, option, True) for call, option in rules)
        return self._best(itertools.takewhile(lambda _: self.memo.room > 0, options), first)

    def _best(
        self,
        options: Iterable[tuple[emit.Decision, emit.Option[PlannedValue], bool]],
        best: _Segment | None = None,
    ) -> PlannedValue:
        """Build options and keep the best; an option that cannot be better is given up early."""
        reason: OpError = Pruned("no rule applies", code="E400")
        legal, limit = self.legal, self.limit
        for number, option, fits in options:
            if not fits and (self.legal or (best and (option.spare or not best.failed))):
                continue  # it violates conditions, and something else does not
            if best is not None and not best.failed:
                # Only something cheaper can win now, and only if it violates nothing.
                self.legal, self.limit = True, min(limit, self.score + best.score)
            try:
                segment = self._tried(number, option.build)
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

    def _tried(self, number: emit.Decision, build: Callable[[], PlannedValue]) -> _Segment:
        """Return the layers of an option; the records are as before afterwards."""
        mark = operations, buffers, decisions, score = self._mark()
        self.decisions.append(number)
        try:
            return self._segment(build(), mark)
        finally:  # the next option starts from the same records
            self.score = score
            del self.operations[operations:], self.buffers[buffers:], self.decisions[decisions:]

    def _mark(self) -> tuple[int, int, int, float]:
        """Return the lengths of the records, and the score."""
        return len(self.operations), len(self.buffers), len(self.decisions), self.score

    def _segment(self, value: PlannedValue, mark: tuple[int, int, int, float]) -> _Segment:
        """Return the records since a mark."""
        operations, buffers, decisions, score = mark
        made = self.operations[operations:]
        failed = sum(o.times for o in made if o.failures)
        rest = self.buffers[buffers:], self.decisions[decisions:]
        return _Segment(made, *rest, value, failed, self.score - score, operations, buffers)

    def _append(self, segment: _Segment) -> None:
        for place, made in enumerate(segment.operations, len(self.operations)):
            made.place = place
        self.operations += segment.operations
        self.buffers += segment.buffers
        self.decisions += segment.decisions
        self.score += segment.score

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
            mark, value = self._mark(), build()
            self._repeated[key] = self._segment(value, mark)
            return value
        for made in segment.operations:  # phases have thousands of parts, but few kinds
            made.times += 1
        return self._again(segment)

    def _holds(self, segment: _Segment) -> bool:
        """Whether a segment was not undone since it was recorded."""
        at, operations = segment.operation, segment.operations
        here = self.operations[at : at + len(operations)]
        return all(a is b for a, b in zip(here, operations, strict=False)) and bool(here)

    def scratch(self, result: PlannedValue) -> int:
        """Return the most elements of intermediates alive at once, the result excluded."""
        last = {read: i for i, (_, reads) in enumerate(self.buffers) for read in reads}
        most = alive = 0
        for i, (elements, reads) in enumerate(self.buffers):
            alive += elements if i != result.buffer else 0
            most = max(most, alive)
            alive -= sum(self.buffers[read][0] for read in set(reads) if last[read] == i)
        return most


def _key_of(layer: Any) -> tuple[object, ...] | None:
    """Return the key that decides the plan of a layer.

    None if a few numbers do not decide it: open sizes, a filter that is computed.
    """
    x, w, bias = layer.x, layer.w, layer.bias
    fixed = x.spec.static and x.size is x.spec and w.constant and w.spec.static
    if not fixed or not (bias is None or bias.constant) or not layer.has_known_pads:
        return None
    rest = [v for n, v in vars(layer).items() if n not in ("x", "w", "bias")]
    own = (x.spec.dtype, x.spec.shape, x.constant, x.buffer is None)
    return (type(layer), *own, w.spec.shape, bias is None, *rest)


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


class Cost(Record):
    """The costs of one form; planning.py has the units."""

    macs: int  # multiply-accumulates
    bytes: int  # that are read and written
    scratch: int  # the most bytes of intermediate tensors at once
    nodes: int  # number of layers that it needs
    wasted: float  # share of the multiply-accumulates that multiplies a zero


_COST_KEYS = "form chosen refused *cost score assumed affected_outputs=affected"


class FormCost(Record, keys=_COST_KEYS):
    """One form of one deconvolution: costs (None if sizes are unknown), score, or a refusal.

    `violations` are the conditions of the target that the best spelling violates, `decisions` how
    the form is spelled.
    """

    form: str  # its name
    cost: Cost | None
    score: float | None  # the weighted sum; the form with the least one is chosen
    refused: str | None  # why it cannot be chosen; null if it can
    chosen: bool = False  # whether the layer was lowered in this form
    assumed: bool = False  # whether open sizes were replaced by assumed ones
    affected: int | None = None  # outputs that non-finite constants would spoil; null without any
    violations: tuple[str, ...] = ()
    decisions: tuple[emit.Decision, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class PlanningTask:
    """A core.Deconvolution to be planned, for a target and a style of emitting.

    `alone` names the only form to plan; None: all. Without `all_costs` a form is given up if
    another one is cheaper; without `sums` no partial sums of convolutions are added, which int8
    would round. With `best_effort` the spelling with the fewest violations is wanted as well. With
    `copies` a deconvolution of the target may be replaced by copies of the data,
    which multiply a thousand times as much.
    """

    graph: Graph
    node: Node
    target: Target
    style: emit.Style = emit.Style()
    bias: bool = False
    spread: NonFiniteReport | None = None
    alone: str | None = None
    all_costs: bool = True
    sums: bool = True
    best_effort: bool = False
    copies: bool = False
    memo: PlanningMemo = field(default_factory=PlanningMemo, compare=False, repr=False)


def cost_table(task: PlanningTask, known: CostTables) -> tuple[FormCost, ...]:
    """Return a row per form for a core.Deconvolution; the cheapest allowed one is `chosen`.

    `known` has the tables of equal layers, for the same target and options.
    """
    data, site = task.graph.input_specs(task.node.id)[0], site_of(task.graph, task.node)
    if site is None or task.spread is not None:
        return _cost_table(task, site)
    key = task.node.op, site, data.dtype, data.shape, task.bias, task.sums
    if key not in known:
        known[key] = _cost_table(task, site)
    return known[key]


def _cost_table(task: PlanningTask, site: DeconvolutionSite | None) -> tuple[FormCost, ...]:
    forms = [f for name, f in forms_for(task.target).items() if task.alone in (None, name)]
    if site is None:
        rows = [_row_without_costs(form, task) for form in forms]
    else:
        found = _planned_rows(forms, site, task)
        no_form_fits = all(r.refused for r in found.values())
        if task.memo.copied and no_form_fits and not _is_vain(site, task):
            # Copies multiply so much that they never win if anything else is legal, and the search
            # for them would cost time for most layers. If `native` is planned alone, only they are
            # left.
            last = replace(task, copies=True, memo=replace(task.memo, layers={}))
            found |= _planned_rows([NATIVE], site, last)
        rows = [found[form.name] for form in forms]
    rows = _refuse_spreading(rows)
    open_rows = [r for r in rows if r.refused is None]
    # If nothing is known about costs, the form that always applies is as good as any.
    best = min(open_rows, key=lambda r: math.inf if r.score is None else r.score, default=None)
    return tuple(replace(r, chosen=r is best) for r in rows)


def _planned_rows(
    forms: Sequence[Form], site: DeconvolutionSite, task: PlanningTask
) -> dict[str, FormCost]:
    """Plan each form with few operations at first, then those that need more with the rest.

    A form that is legal and cheap cuts the search for the others short, but only afterwards is it
    clear which one that is. If all costs are requested, each form has the whole number. If nothing
    can be legal, each has only the few, unless the best effort is wanted.
    """
    found: dict[str, FormCost] = {}
    left, rest = MOST_OPERATIONS, [*reversed(forms)]  # zero-insertion multiplies most
    vain, whole = _is_vain(site, task), task.all_costs or len(rest) == 1
    steps = (FEW_OPERATIONS, MOST_OPERATIONS)
    for most in steps[:1] if vain else steps[whole:]:
        unfinished = []
        for form in rest:
            room = task.memo.room = most if task.all_costs else min(most, left)
            row = _row(form, site, task, _least([*found.values()], task))
            left -= room - task.memo.room
            if row.refused is None or form.name not in found or found[form.name].refused:
                found[form.name] = row
            if task.memo.room <= 0:
                unfinished.append(form)
        rest = unfinished
    for row in (found[form.name] for form in rest):
        if row.refused:
            note = VAIN if vain else task.memo.stopped
            found[row.form] = replace(row, refused=f"{row.refused}; {note}")
    return found


def _is_vain(site: DeconvolutionSite, task: PlanningTask) -> bool:
    """Whether the target refuses the layer by its batch or type, which stay as they are in 2-D."""
    dtype = task.graph.input_specs(task.node.id)[0].dtype or ELEMENT_TYPES["f32"]
    fixed = site.rank < 3 and not (task.all_costs or task.best_effort)
    return fixed and task.target.refuses_data(site.batch, dtype.name)


def chosen(rows: tuple[FormCost, ...]) -> FormCost | None:
    """Return the chosen row of a table, None if all forms are refused."""
    return next((r for r in rows if r.chosen), None)


def _least(rows: Sequence[FormCost], task: PlanningTask) -> float:
    """Return the score that a further form has to reach."""
    if task.all_costs or task.spread is not None:  # that may refuse the cheapest form later
        return math.inf
    scores = [r.score for r in rows if r.refused is None and r.score is not None]
    return min(scores, default=math.inf)


def planned(
    form: Form, site: DeconvolutionSite, task: PlanningTask, limit: float = math.inf
) -> tuple[Planner, PlannedValue] | emit.Skip:
    """Build a form for a site without numbers. Raises OpError if the rule does.

    It is given up beyond `limit`, the score of another form.
    """
    data = task.graph.input_specs(task.node.id)[0]
    dtype = data.dtype or ELEMENT_TYPES["f32"]
    b = Planner(task.target, task.style, dtype, task.sums, task.copies, memo=task.memo)
    b.limit, b.legal = limit, limit < math.inf
    size = task.memo.one(Spec(dtype, site.data_shape))
    known = task.memo.one(Spec(dtype, data.shape)) if site.assumed and data.shape else size
    filter = task.memo.one(Spec(dtype, site.filter_shape))
    inputs = emit.DeconvolutionInputs(
        PlannedValue(known, size),
        PlannedValue(filter, filter, constant=site.constant_filter),
        b.const(np.array(site.begin, np.int64)),
        b.const(np.array(site.end, np.int64)),
        b.const(np.zeros((1, site.outputs, *(1,) * site.rank), dtype.container))
        if task.bias
        else None,
    )
    result = form.lower(core.Deconvolution(site.strides, site.dilations), b, inputs)
    return result if isinstance(result, emit.Skip) else (b, result)


def cost_of(b: Planner, result: PlannedValue, site: DeconvolutionSite) -> Cost:
    """Return the costs of a plan."""
    macs = sum(o.macs * o.times for o in b.operations)
    return Cost(
        macs=macs,
        bytes=sum(o.moved * o.times for o in b.operations) * site.itemsize,
        scratch=b.scratch(result) * site.itemsize,
        nodes=sum(o.times for o in b.operations),
        wasted=max(0.0, 1 - site.useful_macs() / macs) if macs else 0.0,
    )


def _row(
    form: Form, site: DeconvolutionSite, task: PlanningTask, limit: float = math.inf
) -> FormCost:
    try:
        plan = planned(form, site, task, limit)
    except Pruned:
        plan = emit.Skip("another form is cheaper, or none of its spellings is legal")
    except OpError as e:
        plan = emit.Skip(str(e))
    if isinstance(plan, emit.Skip):
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
