"""Compare a graph layer by layer with another, saved arrays or OpenVINO; name typical mistakes.

Every tensor has two values: the graph's own and the partner's. A layer is computed from both sides'
inputs. Its second result and the partner's may differ by the rounding of this one layer, no matter
which errors came before. So a wrong layer is found in its place, small mistakes do not hide behind
errors that grow, and errors that grow raise no alarm. Layers that the partner does not have are
bridged: `judge.py` carries their bounds along. Memory contains both sides' live tensors.

Mistakes in filters, groups and settings: the layer is computed with each of them. Filters are
[g, I, O, *K]; I and O may be exchanged. A kind is named if other settings give the other side's
tensor and more than one number supports it. The closest one of several is taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from irdeconv.base import progress
from irdeconv.base.errors import Diagnostic, Judged, count, did_you_mean, first_names, misused
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_text, html_title, line
from irdeconv.base.tables import printable
from irdeconv.ir.attributes import Ints
from irdeconv.ir.constant import ComputedData, ConstantData
from irdeconv.ir.graph import Graph, Node, Value, reached
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array
from irdeconv.kernels.machine import one_blas_thread
from irdeconv.ops import activation, core
from irdeconv.ops.basic import Const
from irdeconv.ops.convolution import ConvolutionBase, GroupConvolution
from irdeconv.ops.dialect_template import DialectDeconvolution
from irdeconv.ops.elementwise import Round, Tanh
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.pooling import AvgPoolBase, Pool
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan, Step
from irdeconv.verify import judge as rounding
from irdeconv.verify.difference import (
    Allowed,
    TensorDifference,
    difference,
    largest,
    listed,
    same,
    same_values,
)
from irdeconv.verify.judge import Judge, evaluate, floats, is_exact, is_real, limited
from irdeconv.verify.partner import (
    Fetched,
    Followed,
    Partner,
    fed_back,
    layer_keys,
    rounds_states,
)


@dataclass
class Follower:
    """Watches the run of a plan; `tensors` collects the layers in its order.

    A tensor whose name has a tolerance, relative to its largest value, is compared as it is. That
    of the name "" is for all other tensors. `alone` counts the layers that the partner does not
    have.
    """

    plan: Plan
    partner: Partner
    tolerances: dict[str, float] = field(default_factory=dict)
    tensors: list[TensorDifference] = field(default_factory=list)
    alone: int = 0
    _values: dict[int, Followed] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _records: dict[int, TensorDifference] = field(default_factory=dict)
    _loops: dict[int, Judge] = field(default_factory=dict)  # that round their states to a grid

    def __post_init__(self) -> None:
        self._names = layer_keys(self.plan.graph)
        # A partner that computes in less than f32 rounds its inputs anyway (`Judge.of`).
        if "" not in self.tolerances and self.partner.computes == "f32":
            self._values = self._folded()
        graph = self.plan.graph
        keys = [self._key(n.id, port) for n in graph.nodes() for port in range(max(n.outputs, 1))]
        _require_known(self.tolerances, [*graph.outputs, *keys])
        for name, node in zip(graph.outputs, graph.results, strict=True):
            value = graph.inputs_of(node.id)[0]
            if name in self.tolerances:
                self.tolerances.setdefault(self._key(value.node, value.port), self.tolerances[name])

    def _key(self, node: int, port: int) -> str:
        name = self._names.get(node, self.plan.graph.node(node).name)
        return f"{name}.{port}" if port else name

    def _tolerance(self, name: str) -> float | None:
        return self.tolerances.get(name, self.tolerances.get(""))

    def _folded(self) -> dict[int, Followed]:
        """Bound the effect of rounding on folded constants: the partner computes its own."""
        program = self.plan.stepwise()
        graph = program.graph
        found: dict[Value, Followed] = {}
        by_slot: dict[int, Followed] = {}
        computed: dict[int, Followed] = {}
        for node, slots in program.given:
            outs = tuple(program.values[slot] for slot in slots)
            ports = [Value(node.id, port) for port in range(len(outs))]
            if isinstance(node.op, Const) and isinstance(node.op.data, ComputedData):
                found[ports[0]] = by_slot[slots[0]] = self._computed(node.op.data, computed)
                continue
            if node.type in ("Const", "Parameter"):
                found |= {v: Followed(array) for v, array in zip(ports, outs, strict=True)}
                continue
            # Other values are known by inference alone, as a shape is.
            read = graph.inputs_of(node.id)
            inputs = tuple(found.get(v) or Followed(np.asarray(graph.spec(v).known)) for v in read)
            judge = Judge.of(node.op, inputs, [f.value for f in inputs], outs, self.partner)
            found |= {v: judge.bridged(v.port) for v in ports}
            by_slot |= {slot: found[v] for slot, v in zip(slots, ports, strict=True)}
        kept = {slot for step in program.steps for slot in step.inputs}
        kept |= {slot for _, slot in program.results}
        return {slot: f for slot, f in by_slot.items() if slot in kept}

    def _computed(self, data: ConstantData, known: dict[int, Followed]) -> Followed:
        """Bound the effect of rounding on a constant that was computed while importing."""
        if not isinstance(data, ComputedData):
            return Followed(data.array())
        if id(data) not in known:
            inputs = tuple(self._computed(d, known) for d in data.inputs)
            arrays, made = [f.value for f in inputs], (data.array(),)
            known[id(data)] = Judge.of(data.op, inputs, arrays, made, self.partner).bridged(0)
        return known[id(data)]

    def watch(self, step: Step, arrays: list[Array], outs: tuple[Array, ...]) -> None:
        """Compare one layer and remember the inputs of the next ones."""
        fetched = self.partner.fetch(step.node)
        self.alone += fetched is None
        inputs = tuple(self._followed(*i) for i in zip(step.inputs, arrays, strict=True))
        if self.partner.fakes_quantizing and isinstance(step.node.op, Round):
            inputs = (self._on_levels(step.node, inputs[0]),)
        judge = Judge.of(step.node.op, inputs, arrays, outs, self.partner)
        if rounds_states(step.node.op):
            self._loops[step.node.id] = judge
        for port, slot in enumerate(step.outputs[: len(outs)]):
            theirs = fetched.arrays[port] if fetched and port < len(fetched.arrays) else None
            if fetched is None or theirs is None:
                self._values[slot] = judge.bridged(port)
            else:
                record = self._compare(step.node, port, judge, fetched, theirs)
                record = replace(record, node=step.node.id)
                self._values[slot] = judge.seen(port, theirs, passed=record.passed)
                self._records[slot] = record
                self.tensors.append(record)
        for slot in step.frees:
            self._values.pop(slot, None)
            self._records.pop(slot, None)

    def _on_levels(self, node: Node, x: Followed) -> Followed:
        """Return the data of a Round, as far off as those of the partner's FakeQuantize."""
        graph = self.plan.graph
        near = graph.successors(node.id)  # a zero point may be added in between
        ends = (graph.node(i).op for i in [*near, *(j for i in near for j in graph.successors(i))])
        clamp = next((op for op in ends if isinstance(op, activation.Clamp)), None)
        if clamp is None or x.error is None:
            return x
        return replace(x, error=x.error + rounding.of_levels(x.value, clamp.max - clamp.min))

    def _followed(self, slot: int, array: Array) -> Followed:
        return self._values.get(slot) or Followed(array)

    def _compare(
        self, node: Node, port: int, judge: Judge, fetched: Fetched, theirs: Array
    ) -> TensorDifference:
        mine = judge.outs[port]
        names = (self._key(node.id, port), node.type, fetched.type)
        tolerance = self._tolerance(names[0])
        if tolerance is not None:
            result = difference(names, mine, theirs, relative(mine, tolerance))
        else:
            wanted, allowed = judge.verdict(port, theirs)
            result = difference(names, mine, theirs, allowed, wanted)
            again = None if result.passed else self._fed_back(Value(node.id, port), theirs)
            if again is not None and again.shape == theirs.shape:
                fed = difference(names, mine, theirs, allowed, again)
                result = fed if fed.passed else result
            if not result.passed:
                layer = (node.op, judge.arrays, theirs, allowed)
                result = with_filter_mistake(with_setting_mistake(result, *layer), *layer)
        return result

    def _fed_back(self, value: Value, theirs: Array) -> Array | None:
        """Compute a tensor of moved outputs of loops, each iteration from the partner's states.

        These are found in the tensor itself, if it has all of a loop. Only loops that round their
        states need this: a rounding error before a tie is a whole step behind it.
        """
        if not self._loops or not is_real(theirs):
            return None
        places, total = dict[int, tuple[Array, ...]](), 1  # 0: no element of a loop, as fills are
        for i, judge in self._loops.items():
            y, *others = judge.made
            numbers = np.arange(total, total + y.size).reshape(y.shape)
            places[i] = (numbers, *(np.zeros(a.shape, np.int64) for a in others))
            total += y.size
        at = self._moved(value, places, numbers=True)
        if at is None or at.shape != theirs.shape:
            return None
        states = np.zeros(total, theirs.dtype)
        states[at[at > 0]] = theirs[at > 0]
        for i in [i for i, (numbers, *_) in places.items() if np.isin(numbers, at).all()]:
            made = fed_back(self._loops[i].op, self._loops[i].arrays, states[places[i][0]])
            self._loops[i] = replace(self._loops[i], made=made or self._loops[i].made)
        return self._moved(value, {i: judge.made for i, judge in self._loops.items()})

    def _moved(
        self, value: Value, outputs: Mapping[int, tuple[Array, ...]], *, numbers: bool = False
    ) -> Array | None:
        """Return a value that is nothing but moved outputs of other nodes; None if it is more.

        With `numbers` the outputs are numbers of elements, and known data is 0.
        """
        graph, made = self.plan.graph, dict[Value, Array | None]()
        for i, arrays in outputs.items():
            made |= {Value(i, port): array for port, array in enumerate(arrays)}
        moving = {n.id for n in graph.nodes() if n.op.rounding.carry == "moves"}.difference(outputs)
        behind = reached([value.node], lambda i: graph.producers(i) if i in moving else ())
        for node in (n for n in graph.topological() if n.id in behind.difference(outputs)):
            inputs = [made[v] for v in graph.inputs_of(node.id)] if node.id in moving else []
            given = [x for x in inputs if x is not None]
            outs = evaluate(node.op, given) if 0 < len(given) == len(inputs) else ()
            for port in range(node.outputs):
                known = graph.spec(port_of := Value(node.id, port)).known
                if numbers and known is not None and is_real(known):
                    known = np.zeros(known.shape, np.int64)
                made[port_of] = known if known is not None or not outs else outs[port]
        return made[value]

    def outputs(self, mine: dict[str, Array]) -> list[str]:
        """Compare the model outputs in order; return those that only one side has."""
        theirs = self.partner.outputs()
        slots = [slot for _, slot in self.plan.stepwise().results]
        ends = zip(self.plan.graph.results, mine.items(), slots, theirs, strict=False)
        for node, (name, a), slot, b in ends:
            if b is not None:
                self.tensors.append(replace(self._output(name, a, b, slot), node=node.id))
        extra = [f"number {i}" for i in range(len(mine), len(theirs))]
        return [*list(mine)[len(theirs) :], *extra]

    def _output(self, name: str, a: Array, b: Array, slot: int) -> TensorDifference:
        names = (name, "Result", "Result")
        tolerance = self._tolerance(name)
        if tolerance is not None:
            return difference(names, a, b, relative(a, tolerance), output=True)
        at, record = self._followed(slot, a), self._records.get(slot)
        if record is not None and same_values(at.value, b) and (at.sound or not record.passed):
            # The layer's own tensor, which was judged already.
            return replace(record, name=name, type_a="Result", type_b="Result", output=True)
        if not at.sound:  # a layer on the way differs: does that show here?
            return difference(names, a, b, rounding.scaled(a, at.all_terms), output=True)
        kept = Allowed(rounding.SMALLEST if rounding.is_real(a) else 0.0, "exact")
        allowed = limited(at.value, b, at.error, at.terms, kept)
        return difference(names, a, b, allowed, at.value, output=True)


def _require_known(tolerances: Iterable[str], known: Sequence[str]) -> None:
    for name in set(tolerances) - {"", *known}:
        hint = did_you_mean(name, known) or f"there are {', '.join(known[:8])}"
        raise misused(f'tolerance of "{name}": there is no such layer, output or array', hint)


def relative(a: Array, tolerance: float) -> Allowed:
    """Return the limit of a relative tolerance."""
    size = np.abs(a.astype(np.float64)) if a.dtype.kind not in "OSUT" else np.zeros(())
    return Allowed(tolerance * largest(size), "given")


_KEYS = "passed first_difference=first missing not_compared=alone tensors"


class Comparison(Record, Judged, keys=_KEYS, kw_only=True, repr=False):
    """Every tensor that both sides have, in the order of the first graph's execution.

    `diagnostics` are warnings about inputs and the second side itself. `graph` is the first one,
    `other` the second if it was executed here.
    """

    tensors: tuple[TensorDifference, ...]  # in the order of execution
    missing: tuple[str, ...] = ()  # outputs of one side only
    alone: int = 0  # layers that the second side does not have
    diagnostics: tuple[Diagnostic, ...] = ()
    graph: Graph | None = field(default=None, compare=False)
    other: Graph | None = field(default=None, compare=False)

    @property
    def outputs(self) -> tuple[TensorDifference, ...]:
        """The model outputs."""
        return tuple(t for t in self.tensors if t.output)

    @property
    def passed(self) -> bool:
        """Whether something was compared, every tensor agrees and no output is missing."""
        return bool(self.tensors) and not self.missing and all(t.passed for t in self.tensors)

    @property
    def first_difference(self) -> TensorDifference | None:
        """The first tensor, in execution order, that differs."""
        return next((t for t in self.tensors if not t.passed), None)

    @property
    def first(self) -> str | None:
        """The name of the first tensor that differs; null if none does."""
        return next((t.name for t in self.tensors if not t.passed), None)

    def __repr__(self) -> str:
        return line(self, None, self.verdict)

    def _repr_html_(self) -> str:
        """Return a row for every output and every difference."""
        return html_title(self.verdict) + html_text("\n".join(self.lines()), wrap=True)

    def __str__(self) -> str:
        return printable("\n".join([*self.lines(), self.verdict]))

    def lines(self, *, everything: bool = False) -> list[str]:
        """Return a line for every output and difference, or for everything.

        A fact of both a layer and the output of its name is printed once.
        """
        said = (t for t in self.tensors if everything or t.output or not t.passed)
        facts = {(t.name, t.passed, t.max_abs, t.own, t.own_at): str(t) for t in said}
        return [*facts.values(), *(f"MISSING output {name}" for name in self.missing)]

    @property
    def verdict(self) -> str:
        """One line: the same or different, and the number of comparisons."""
        first = self.first_difference
        layers = sum(not t.output for t in self.tensors)
        counts = f"{count(len(self.outputs), 'output')}, {count(layers, 'layer')} compared"
        if self.alone:
            counts += f", {self.alone} without a counterpart"
        if self.passed:
            return f"the same: {counts}"
        if first is not None:
            return f"different: first at {first.type_a} {first.name!r}; {counts}"
        if not self.tensors:
            return "different: there is nothing to compare"
        return f"different: outputs are missing; {counts}"


Tolerance = float | Mapping[str, float] | None


def _limits(tolerance: Tolerance) -> dict[str, float]:
    """Return tolerances by name; "" is the name of all others."""
    limits = dict(tolerance) if isinstance(tolerance, Mapping) else {"": tolerance}
    found = {name: limit for name, limit in limits.items() if limit is not None}
    for limit in found.values():
        if not isinstance(limit, Real) or not 0 <= limit < math.inf:
            raise misused(f"tolerance is {limit}: it is a finite number from 0 on")
    return found


def compare_arrays(
    a: Mapping[str, Array], b: Mapping[str, Array], tolerance: Tolerance = None
) -> Comparison:
    """Compare arrays of the same name; without a tolerance they must be equal."""
    limits = _limits(tolerance)
    if a and b and a.keys().isdisjoint(b):
        one, other = (first_names([*side]) for side in (a, b))
        raise misused(f"no array has a name in both: {one} and {other}", code="E505")
    known = [*a, *(n for n in b if n not in a)]
    _require_known(limits, known)
    tensors = []
    for name in (n for n in known if n in a and n in b):
        x, y = a[name], b[name]
        limit = relative(x, limits.get(name, limits.get("", 0.0)))
        limit = limit if limit.limit else Allowed(0.0, "exact")
        tensors.append(difference((name, "array", "array"), x, y, limit, output=True))
    missing = tuple(n for n in known if n not in a or n not in b)
    return Comparison(tensors=tuple(tensors), missing=missing)


def compare_plan(
    a: Plan, start: Callable[[], Partner], inputs: Feeds, tolerance: Tolerance = None
) -> Comparison:
    """Run a plan beside the partner that `start` makes, which is closed in the end.

    By default a layer may differ by its own rounding. `tolerance`, relative to the largest absolute
    value of the first side's tensor, replaces that bound: of all tensors, or of outputs and layers
    by name.
    """
    with one_blas_thread():  # around both sides: settings of one may not reach the other
        with progress.stage("starting the other side"):
            partner = start()
        try:
            follower = Follower(a, partner, _limits(tolerance))
            missing = follower.outputs(a.run(inputs, watch=follower.watch))
            warnings = [*_constant_inputs(a, inputs), *partner.warnings()]
        finally:
            partner.close()
    return Comparison(
        tensors=tuple(follower.tensors),
        missing=tuple(missing),
        alone=follower.alone,
        diagnostics=tuple(warnings),
        graph=a.graph,
    )


def _constant_inputs(a: Plan, inputs: Feeds) -> list[Diagnostic]:
    """Warn of inputs with which a wrong kernel computes the right values, too."""
    found = []
    for name, x in zip(a.binder.inputs, a.binder.bind(inputs), strict=True):
        if rounding.is_real(x) and x.size > 1 and (x == x.flat[0]).all():
            message = f'all elements of input "{name}" are {float(x.flat[0]):.6g}'
            found.append(Diagnostic("W503", "warning", message))
        if rounding.is_real(x) and (unknown := int((x != x).sum())):
            message = f'{unknown} of {count(x.size, "element")} of input "{name}" are NaN'
            found.append(Diagnostic("W503", "warning", message))
    return found


def with_filter_mistake(
    seen: TensorDifference, op: Op, inputs: list[Array], b: Array, allowed: Allowed
) -> TensorDifference:
    """Add the kind to a difference if a mistake of the filter or the groups gives `b`."""
    layout = None if seen.kind is not None else _layout(op, inputs)
    if layout is None or seen.shape_a != seen.shape_b:
        return seen
    order, groups, last = layout
    x, w, *rest = floats(inputs, lambda v: v.astype(np.float64))
    ordered, back = w.transpose(order), np.argsort(order)

    def with_filter(v: Array) -> Array:
        return evaluate(op, [x, v.reshape(ordered.shape).transpose(back), *rest])[0]

    def with_data(v: Array) -> Array:
        data = np.ascontiguousarray(np.moveaxis(v, 1, -1)) if last else v
        return first(evaluate(op, [data, w, *rest])[0])

    def first(v: Array) -> Array:
        return np.moveaxis(v, -1, 1) if last else v

    kind = filter_mistake(with_filter, ordered.reshape(groups), b, allowed.slack)
    if kind is None and groups[0] > 1:
        kind = group_mistake(with_data, first(x), groups[0], first(b), allowed.slack)
    return seen if kind is None else replace(seen, kind=kind)


def _layout(op: Op, inputs: list[Array]) -> tuple[Ints, Ints, bool] | None:
    """Return the order of axes that makes a filter [g,] C, M/g, *K, and its shape [g, I, O, *K].

    Also whether the data's channels are last. None if there is no such filter.
    """
    if len(inputs) < 2 or not inputs[1].size:
        return None
    shape = inputs[1].shape
    plain = tuple(range(len(shape)))
    if isinstance(op, DialectDeconvolution) and op.group_count is not None:
        order = op.filter_order(len(shape) - 2)
        channels, *rest = (shape[axis] for axis in order)
        groups = op.group_count
        return order, (groups, channels // groups, *rest), op.channels_last
    if isinstance(op, DialectDeconvolution):
        return plain, shape, op.channels_last
    if not is_real(inputs[1]):
        return None
    if isinstance(op, (core.Deconvolution, GroupConvolution)):
        return plain, shape, False
    return (plain, (1, *shape), False) if isinstance(op, ConvolutionBase) else None


def filter_mistake(
    compute: Callable[[Array], Array], w: Array, b: Array, allowed: float
) -> str | None:
    """Name the mistake in the filter `w` [g, I, O, *K] that gives `b` in `compute(filter)`."""
    for text, wrong in _filters(w):
        if gives(compute(np.ascontiguousarray(wrong)), b, allowed):
            return text
    return None


def _filters(w: Array) -> Iterator[tuple[str, Array]]:
    """Yield the mistakes of porting a filter: a description, and the filter that it gives."""
    g, i, o, *kernel = w.shape
    spatial = range(3, w.ndim)
    yield "the kernel is flipped", np.flip(w, tuple(spatial))
    for some in range(1, len(kernel)):
        for axes in itertools.combinations(spatial, some):
            text = f"the kernel is flipped along spatial axes {listed(a - 3 for a in axes)}"
            yield text, np.flip(w, axes)
    # Of unlike sizes the axes cannot be swapped, only be read in the wrong order.
    swapped = w if i == o else w.reshape(g, o, i, *kernel)
    yield "input and output channels are swapped", swapped.swapaxes(1, 2)
    for p, q in itertools.combinations(spatial, 2):
        if w.shape[p] == w.shape[q]:
            pair = "rows and columns" if len(kernel) == 2 else f"axes {listed((p - 3, q - 3))}"
            yield f"kernel {pair} are swapped", w.swapaxes(p, q)
    if g > 1:
        yield "the filters of the groups are in reverse order", w[::-1]


def group_mistake(
    compute: Callable[[Array], Array], x: Array, groups: int, b: Array, allowed: float
) -> str | None:
    """Name the mistake in the order of channels that gives `b`: `compute(x)` is the layer."""
    blocks = np.arange(x.shape[1]).reshape(groups, -1).T.reshape(-1)
    interleaved = f"channels of {groups} groups interleaved instead of one group after another"
    for order in (blocks, np.argsort(blocks)):
        y = compute(np.ascontiguousarray(x[:, order]))
        if gives(y, b, allowed):
            return f"input {interleaved}"
        if gives(y[:, np.arange(y.shape[1]).reshape(groups, -1).T.reshape(-1)], b, allowed):
            return f"input and output {interleaved}"
    return None


def gives(y: Array, b: Array, allowed: float) -> bool:
    """Whether two arrays have the same shape and differ by at most `allowed`."""
    return y.shape == b.shape and same(y.astype(np.float64), b.astype(np.float64), allowed)


_PLAIN = [c for c in vars(activation).values() if getattr(c, "group", "")]  # made by `unary`
ACTIVATIONS: dict[str, Op] = {c.type: c() for c in _PLAIN} | {
    "ReLU6": activation.Clamp(0.0, 6.0),
    "Tanh": Tanh(),
    "Swish": activation.Swish(),
    "Gelu": activation.Gelu("ERF"),
    "Gelu by Tanh": activation.Gelu("TANH"),
    "Elu": activation.Elu(1.0),
}
LEAST_SLOPE = 1e-6  # a smaller one is none, nor is one that is so close to 1
EPSILONS = (0.0, *(float(f"1e-{n}") for n in range(12, 0, -1)))
Alternative = tuple[str, Op, Sequence[Array]]


def with_setting_mistake(
    seen: TensorDifference, op: Op, inputs: list[Array], b: Array, allowed: Allowed
) -> TensorDifference:
    """Add the kind to a difference if other settings of the layer give `b`."""
    if not inputs or not is_real(inputs[0]) or not is_real(b):
        return seen
    kind = setting_mistake(op, inputs, b, allowed.slack)
    return seen if kind is None else replace(seen, kind=kind)


def setting_mistake(op: Op, inputs: Sequence[Array], b: Array, allowed: float) -> str | None:
    """Name the setting of a layer that gives `b` within `allowed`; None if there is none."""
    # Values that are only chosen keep their type, whose lowest number marks an empty window.
    wide = inputs if is_exact(op) else floats(inputs, lambda v: v.astype(np.float64))
    # A tiny difference explains nothing: then rounding is as good a reason.
    limit = min(allowed, _apart(op, wide, b) / 4)
    tried = ((_apart(other, values, b), text) for text, other, values in _alternatives(op, wide, b))
    found = [(apart, text) for apart, text in tried if apart <= limit]
    least = min((apart for apart, _ in found), default=0.0)
    close = [text for apart, text in found if apart <= max(2 * least, allowed / 100)]
    return " or ".join(close[:2]) or None


def _apart(op: Op, inputs: Sequence[Array], b: Array) -> float:
    """Return how far the layer is off `b`, infinite if it is not to be compared."""
    try:
        y = evaluate(op, inputs)[0].astype(np.float64)
    except Exception:  # these settings do not fit the inputs, for any reason
        return np.inf
    # Many settings explain numbers that are all the same.
    if y.shape != b.shape or b.size < 2 or bool(np.all(b == b.reshape(-1)[0])):
        return np.inf
    with np.errstate(invalid="ignore"):
        gap = np.abs(y - b.astype(np.float64))
    return float(gap.max(initial=0.0)) if np.isfinite(gap).all() else np.inf


def _alternatives(op: Op, inputs: Sequence[Array], b: Array) -> Iterator[Alternative]:
    if isinstance(op, Pool):
        yield from _poolings(op, inputs)
    elif isinstance(op, MatMul):
        yield from _products(op, inputs)
    elif isinstance(op, activation.PReLU | activation.Elu) or type(op) in _KINDS:
        yield from _activations(op, inputs, b)
    elif {"eps", "epsilon"} & set(op.__dataclass_fields__):
        yield from _epsilons(op, inputs)


_KINDS = frozenset(map(type, ACTIVATIONS.values()))


def _poolings(op: Pool, inputs: Sequence[Array]) -> Iterator[Alternative]:
    for name in ("floor", "ceil", "ceil_torch"):
        if name != op.rounding_type:
            text = f"sizes are rounded by {name} instead of {op.rounding_type}"
            yield text, replace(op, rounding_type=name), inputs
    if isinstance(op, AvgPoolBase):
        says = "do not count" if not op.exclude_pad else "count"
        other = replace(op, exclude_pad=not op.exclude_pad)
        yield f"pads {says} in the averages", other, inputs


def _products(op: MatMul, inputs: Sequence[Array]) -> Iterator[Alternative]:
    x, w = inputs
    if min(x.ndim, w.ndim) < 2:
        return
    turned = w.reshape(*w.shape[:-2], *w.shape[:-3:-1]).swapaxes(-1, -2)
    how = "transposed" if w.shape[-1] == w.shape[-2] else "read as if they were transposed"
    yield f"the weights are {how}", op, [x, np.ascontiguousarray(turned)]
    if x.shape[-1] == x.shape[-2]:
        yield "the data are transposed", op, [np.ascontiguousarray(x.swapaxes(-1, -2)), w]


def _activations(op: Op, inputs: Sequence[Array], b: Array) -> Iterator[Alternative]:
    x = inputs[0]
    own = next((n for n, o in ACTIVATIONS.items() if o == op and len(inputs) == 1), op.type)
    for name, other in ACTIVATIONS.items():
        if name != own:
            yield f"the activation is {name} instead of {own}", other, [x]
    same = np.asarray(np.float64(1.0))
    yield f"the activation ({own}) is missing", activation.PReLU(), [x, same]
    for name, slope in _slopes(op, x, b):
        if isinstance(op, activation.PReLU | activation.Elu) and name == op.type:
            mine = op.alpha if isinstance(op, activation.Elu) else inputs[1]
            was = f"{float(np.reshape(mine, -1)[0]):.4g}" if np.size(mine) == 1 else "its own"
            text = f"alpha is {slope:.4g} instead of {was}"
        else:
            text = f"the activation is {name} of alpha {slope:.4g} instead of {own}"
        other = activation.Elu(slope) if name == "Elu" else activation.PReLU()
        yield text, other, [x] if name == "Elu" else [x, np.asarray(slope)]


def _slopes(op: Op, x: Array, b: Array) -> Iterator[tuple[str, float]]:
    """Yield the alpha of PReLU and Elu at the most negative number, if others confirm it."""
    if x.shape != b.shape:
        return
    low = np.unique(x[np.isfinite(x) & (x < 0)])
    if low.size < 2:
        return
    at = int(np.argmin(np.where(np.isfinite(x), x, 0)))
    there = float(b.reshape(-1)[at])
    for name, unit in (("PReLU", low[0]), ("Elu", np.expm1(low[0]))):
        alpha = there / float(unit)
        if np.isfinite(alpha) and min(abs(alpha), abs(alpha - 1)) > LEAST_SLOPE:
            yield name, alpha


def _epsilons(op: Op, inputs: Sequence[Array]) -> Iterator[Alternative]:
    fields = op.__dataclass_fields__
    name = "eps" if "eps" in fields else "epsilon"
    mine = getattr(op, name)
    modes: list[str | None] = [getattr(op, "eps_mode", None) if "eps_mode" in fields else None]
    modes += {"add": ["max"], "max": ["add"], "inside_sqrt": ["outside_sqrt"],
              "outside_sqrt": ["inside_sqrt"]}.get(str(modes[0]), [])  # fmt: skip
    for mode, eps in itertools.product(modes, EPSILONS):
        changes: dict[str, Any] = {name: eps} | ({"eps_mode": mode} if mode else {})
        text = f"epsilon is {eps:g} instead of {mine:g}"
        if mode != modes[0]:
            text = f"{text}, and {mode} instead of {modes[0]}"
        if eps != mine:
            yield text, replace(op, **changes), inputs  # the type's own limits are not asked
    for mode in modes[1:]:
        text = f"epsilon is {mode} instead of {modes[0]}"
        changes = {"eps_mode": mode}
        yield text, replace(op, **changes), inputs
