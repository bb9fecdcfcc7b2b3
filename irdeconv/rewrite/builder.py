"""The graph builder, and the replacement of single nodes.

New nodes inherit place, origins and name, and constants are folded. A rule replaces one node by
others, or returns the reason why it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import Diagnostic, LimitError, OpError
from irdeconv.base.extras import plain
from irdeconv.base.limits import current, raise_hint
from irdeconv.ir.constant import ArrayData, MovedData, computed
from irdeconv.ir.dtypes import ElementType, of_numpy
from irdeconv.ir.graph import FreshNames, Graph, Node, Value
from irdeconv.ir.op import Op, SugarOp, as_tuple, effort, infer_op, kept
from irdeconv.ir.spec import Array, Spec, is_static
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.checks import ViewOp
from irdeconv.ops.movement import Pad1
from irdeconv.rewrite.compressed_filters import (
    FilterParameter,
    constant,
    is_constant,
    moved,
    moved_data,
    stored,
)
from irdeconv.rewrite.emit import Decision, Option, RuleCall, Skip, Style

DEFAULT_STYLE = Style()
EMITTED = 6144  # units of work for a node that rewriting adds, and for writing it
FOLDED_GROWTH = 8  # a folded constant may be so many times as large as its inputs


@dataclass
class NodeBudget:
    """The number of nodes that rewriting may still add to a model: `of` at first."""

    of: int
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.of

    def take(self, source: Node, nodes: int = 1) -> None:
        """Take one or more for a node's replacement; LimitError (E601, E602) if it is too much."""
        try:
            self.require(nodes, source)
            work.take(nodes * EMITTED)
        except OpError as e:
            at = source.location, source.name
            raise LimitError(
                Diagnostic("E602", "error", str(e), *at, hint=e.problem.hint)
            ) from None
        finally:
            self.left = max(self.left - nodes, 0)

    def require(self, nodes: int, source: Node) -> None:
        """Raise LimitError (E601) if fewer nodes are left than will replace a node."""
        if nodes > self.left:
            text = f"the nodes that take the place of deconvolutions exceed {self.of:,}"
            hint = raise_hint("lowered_total")
            at = source.location, source.name
            raise LimitError(Diagnostic("E601", "error", text, *at, hint=hint))


@dataclass
class GraphBuilder:
    """Adds nodes for the rewriting of `source`; every new node carries its place and origins.

    An operation whose inputs are all constants is folded at once, unless that would be too much
    work. One that only moves elements is moved in front of the conversion of a constant
    (rewrite/compressed_filters.py).
    """

    checks: ClassVar[bool] = False  # whether operations come from a file

    graph: Graph
    source: Node
    made: list[int] = field(default_factory=list)
    budget: NodeBudget | None = None
    style: Style = DEFAULT_STYLE
    decisions: Iterator[Decision] = field(default_factory=lambda: iter(()))

    def choose(self, options: Sequence[Option[Value]]) -> Value:
        """Build the option that was decided on, by default the first."""
        number = next(self.decisions, 0)
        assert isinstance(number, int)
        return options[number].build()

    def attempt(self, layer: Any, plain: Callable[[], Value]) -> Value:
        """Build the layer as it is, or by the rule that was decided on."""
        call = next(self.decisions, 0)
        if isinstance(call, RuleCall):
            value: Value = call.rule(self, layer, *call.params)
            return value
        return plain()

    def add(self, op: Op, *inputs: Value) -> Value:
        """Add an operation behind its inputs, inferred and perhaps folded; returns output 0."""
        moved = self._as_stored(op, inputs)
        if moved is not None:
            return moved
        large = self._large(op, inputs)
        if large is not None:
            return self._held(large)
        fixed = all(is_constant(self.graph, v) for v in inputs)
        view = self._view(op, inputs) if fixed else None
        if view is not None:
            return self.const(view, self.graph.spec(inputs[0]).dtype)
        specs = infer_op(op, tuple(self.graph.spec(v) for v in inputs))
        if inputs and fixed and self._folds(op, inputs, specs):
            result: Array | None = specs[0].known
            if result is None:
                with np.errstate(all="ignore"), plain():
                    result = kept(as_tuple(op.fold(*self._arrays(inputs))), specs)[0]
            made = self.const(result, specs[0].dtype)
            return self._noted(made, op, inputs) if self.checks else made
        return self._node(op, inputs, specs)

    def _noted(self, made: Value, op: Op, inputs: Sequence[Value]) -> Value:
        """Note how a constant of an importer was made if others may round it differently."""
        ops = (self.graph.node(v.node).op for v in (made, *inputs))
        folded, *given = (one for one in ops if isinstance(one, Const))  # all of them are
        if folded.element_type.is_real:
            data = computed(folded.data, folded.element_type, op, [one.data for one in given])
            self.graph.replace_op(made.node, replace(folded, data=data))
        return made

    def _arrays(self, inputs: Sequence[Value]) -> list[Array]:
        """Return the data of inputs that are constants."""
        return [a for a in (constant(self.graph, v) for v in inputs) if a is not None]

    def _large(self, op: Op, inputs: tuple[Value, ...]) -> MovedData | None:
        """Return a large constant that an operation moves; None for all else."""
        first = self.graph.node(inputs[0].node).op if inputs else None
        if self.checks or not isinstance(first, Const) or not first.data.available:
            return None
        if not is_static(first.shape) or not all(is_constant(self.graph, v) for v in inputs[1:]):
            return None
        rest = self._arrays(inputs[1:])
        moved = moved_data(op, first.data, first.element_type, first.shape, *rest)
        return moved if moved and self._has_room(moved.nbytes, inputs) else None

    def _view(self, op: Op, inputs: tuple[Value, ...]) -> Array | None:
        """Return a view of a constant; None for all else, and if inference will report an error.

        Lowering cuts a filter into thousands of parts. Inferring each would take most of the time.
        """
        if self.checks or not isinstance(op, ViewOp):
            return None
        given, first = self._arrays(inputs), self.graph.node(inputs[0].node).op
        if isinstance(first, Const) and isinstance(first.data, MovedData):  # for the next part
            data = ArrayData.of(given[0], first.element_type)
            self.graph.replace_op(inputs[0].node, replace(first, data=data))
        try:
            found: Array = as_tuple(op.evaluate(*given))[0]
        except (OpError, ValueError, TypeError, IndexError, ArithmeticError):
            return None
        return found

    def _folds(self, op: Op, inputs: tuple[Value, ...], specs: tuple[Spec, ...]) -> bool:
        """Whether to fold an operation behind constants: not if that is much work or memory.

        Three kinds stay: operations that multiply, those whose result would be large and much
        larger than its inputs, and those with more axes than NumPy's iterators support. OpError
        (E602) without work for a target that has its own operations.
        """
        given = tuple(self.graph.spec(v) for v in inputs)
        size, dtype = specs[0].nbytes, specs[0].dtype
        if specs[0].unsure and dtype is not None and not dtype.is_real:
            return False  # it may decide a size
        if not op.pure or op.macs(given, specs) != 0 or size is None:
            return False
        if any(len(s.shape or ()) > current().rank for s in (*given, *specs)):
            return False
        if not self._has_room(size, inputs):
            return False
        units = effort(op, given, specs)
        if self.style.folded:
            work.take(units, f"folding {op.type} of constants")
        return self.style.folded or work.room(units)

    def _has_room(self, size: int, inputs: tuple[Value, ...]) -> bool:
        given = sum(self.graph.spec(v).nbytes or 0 for v in inputs)
        return size <= max(current().folded_bytes, FOLDED_GROWTH * given)

    def keep(self, op: Op, *inputs: Value) -> Value:
        """Add an operation as it is, also behind constants."""
        return self._node(op, inputs, infer_op(op, tuple(self.graph.spec(v) for v in inputs)))

    def declared(self, op: Opaque, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """Add an operation that is known by its declaration only; it may have no inputs."""
        node = self._node(op, tuple(inputs), op.declared)
        return tuple(Value(node.node, port) for port in range(len(op.declared)))

    def const(self, array: Array, dtype: ElementType | None = None) -> Value:
        """Add a constant; `dtype` is needed if it does not follow from the array's type.

        A repeated number is as long as a size of the model says, so its bytes are counted.
        """
        if not any(array.strides):
            work.take(array.nbytes)
        array = np.ascontiguousarray(array) if array.ndim else array
        element_type = dtype or of_numpy(array.dtype)
        data = ArrayData.of(array, element_type)
        op = Const(data=data, element_type=element_type, shape=array.shape)
        return self._node(op, (), (Spec.of(array, element_type),))

    def _held(self, data: MovedData) -> Value:
        op = Const(data=data, element_type=data.dtype, shape=data.shape)
        return self._node(op, (), (op.infer(),))

    def spec(self, value: Value) -> Spec:
        """Return the spec of a value."""
        return self.graph.spec(value)

    def refine(self, value: Value, spec: Spec) -> Value:
        """Keep the more precise spec of a value made here."""
        node = self.graph.node(value.node)
        if value.node in self.made and node.specs is not None and len(node.specs) == 1:
            node.specs = (spec,)
        return value

    def repeat(self, key: object, build: Callable[[], Value]) -> Value:
        """Return `build()`."""
        return build()

    def undo(self) -> None:
        """Remove the nodes that were added."""
        for node in reversed(self.made):
            self.graph.remove(node)

    def _node(self, op: Op, inputs: tuple[Value, ...], specs: tuple[Spec, ...]) -> Value:
        source = self.source
        if self.budget is not None:
            self.budget.take(source)
        name, at = f"{source.name}/{op.type}", source.location
        origins = source.origins or (source.name,)
        node = self.graph.add(op, inputs, name=name, location=at, origins=origins, specs=specs)
        self.made.append(node.id)
        return Value(node.id)

    def _as_stored(self, op: Op, inputs: tuple[Value, ...]) -> Value | None:
        """Apply a movement to a filter stored in few bits, then again the steps behind it."""
        pads = isinstance(op, Pad1) and op.pad_mode == "constant" and len(inputs) == 3
        if not inputs or not (op.moves or pads):
            return None
        dtype = self.graph.spec(inputs[0]).dtype
        found = stored(self.graph, inputs[0]) if dtype is not None and dtype.is_real else None
        rest = [constant(self.graph, v) for v in inputs[1:]]
        if found is None or not found.steps or any(a is None for a in rest):
            return None
        found = moved(found, op, [a for a in rest if a is not None])
        if found is None:
            return None
        held = found.data
        value = (
            self._held(held)
            if isinstance(held, MovedData)
            else self.const(found.values, found.dtype)
        )
        for step in found.steps:
            operands = [self._parameter(p) for p in step.parameters]
            operands.insert(step.port, value)
            value = self.keep(step.node.op, *operands)
            self.graph.node(value.node).rt_info = step.node.rt_info
        return value

    def _parameter(self, parameter: FilterParameter) -> Value:
        value = self.const(parameter.values, parameter.dtype)
        if parameter.convert is None:
            return value
        value = self.keep(parameter.convert.op, value)
        self.graph.node(value.node).rt_info = parameter.convert.rt_info
        return value


@dataclass(frozen=True)
class Change:
    """A rule's effect on one node: the nodes it made, or the reason why it did not apply."""

    made: tuple[int, ...] = ()
    skipped: str | None = None


def replace_node(
    graph: Graph,
    node: Node,
    build: Callable[..., Value | Skip],
    budget: NodeBudget | None = None,
    style: Style = DEFAULT_STYLE,
    decisions: Iterable[Decision] = (),
) -> Change:
    """Replace a node with one output by the result of `build(op, builder, *inputs)`.

    The last new node gets the name and the tensor names; all of them inherit place and origins. It
    stays even if nothing read the node. On Skip, or if `build` raises, the graph is as before.
    The budget pays for the new nodes that stay.
    """
    builder = GraphBuilder(graph, node, budget=budget, style=style, decisions=iter(decisions))
    try:
        result = build(node.op, builder, *graph.inputs_of(node.id))
    except BaseException:
        builder.undo()
        raise
    if isinstance(result, Skip):
        builder.undo()
    else:
        new = graph.node(result.node)
        if new.id in builder.made:
            new.name = node.name
            new.tensor_names = node.tensor_names
            new.rt_info = new.rt_info or node.rt_info
            new.port_rt_info = tuple(r for r in node.port_rt_info if r[0] == "output")
        else:  # an existing value: the names join those of its producer
            new.add_names(result.port, node.names_of(0))
        graph.replace_uses(Value(node.id), result)
        graph.remove(node.id)
        sweep(graph, [i for i in builder.made if i != result.node])
    made = tuple(i for i in builder.made if i in graph)
    if budget is not None:
        budget.left += len(builder.made) - len(made)
    return Change(skipped=result.reason) if isinstance(result, Skip) else Change(made)


def expand(op: SugarOp, b: GraphBuilder, *inputs: Value) -> Value:
    """Build the definition of an operation, for `replace_node`."""
    value: Value = op.expand(b, *inputs)
    return value


def sweep(graph: Graph, candidates: list[int]) -> None:
    """Remove those of the candidates that nothing uses, the latest first."""
    for i in sorted(candidates, reverse=True):
        if i in graph and not graph.successors(i) and graph.node(i).type != "Result":
            graph.remove(i)


def remove_dead(graph: Graph, keep: set[int]) -> int:
    """Remove the nodes that no Result needs; return their number.

    Parameters stay, and so do the nodes of `keep` with their inputs.
    """
    live = graph.live()
    order = graph.topological()
    for node in reversed(order):
        if node.id in keep or any(i in live for i in graph.successors(node.id)):
            live.add(node.id)
    dead = [n.id for n in order if n.id not in live and n.type != "Parameter"]
    for i in reversed(dead):
        graph.remove(i)
    return len(dead)


def products(graph: Graph, nodes: Iterable[Node]) -> int | None:
    """Return the multiply-accumulates of nodes; None if some are unknown."""
    macs = [n.op.macs(graph.input_specs(n.id), n.specs or ()) for n in nodes]
    return None if None in macs else sum(m or 0 for m in macs)


def unique_names(graph: Graph, keep: Collection[int] = ()) -> None:
    """Give nodes that rewriting made names of their own; those of source layers and `keep` stay."""
    made = [n for n in graph.nodes() if n.origins and n.id not in keep]
    names = FreshNames({n.name for n in graph.nodes() if not n.origins or n.id in keep})
    for node in made:
        node.name = names.fresh(node.name)
