"""Fusion groups (the nodes that a plan executes as one step each), and tensors of 8-bit levels.

Only the plan knows them; the graph stays as it is. Two kinds of fusion make them: the neighbours of
a convolution (ZeroInsertion and Pad in front, element-wise operations behind), and runs of
element-wise operations. Only the group uses the values inside it. A convolution of stride 1 behind
ZeroInsertion and Pad is a deconvolution; a Pad alone becomes pads of the convolution.

In graphs of f16 and bf16 groups read and write tensors of f32 with values of the narrow type: sums
and chains are computed in f32 anyway. A tensor that stays f32 between two steps is rounded in the
epilogue of the first one, and is converted neither there nor in the second. Where another
operation, an input or an output needs the narrow type, a Convert is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import MOVES, ChainStep, Op, Operand
from irdeconv.ir.spec import Array, Spec, is_static
from irdeconv.kernels import elementwise, jit, scratch
from irdeconv.kernels.candidate import ConvProblem, Levels, reversed_filter
from irdeconv.kernels.convolution import as_conv3d
from irdeconv.kernels.elementwise import Instruction
from irdeconv.kernels.elementwise_chain import Chain, ChainEpilogue
from irdeconv.kernels.numpy_calls import KeptCalls
from irdeconv.kernels.panels import LARGEST_LEVEL, LEAST_STEP, MOST_STEP, OFF, row_steps
from irdeconv.kernels.recorded_calls import Repeated
from irdeconv.kernels.threads import Team
from irdeconv.ops.basic import Convert, VariableOp
from irdeconv.ops.checks import ViewOp, shape_of
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.core import Deconvolution, ZeroInsertion
from irdeconv.ops.elementwise import FakeQuantize, Multiply, Subtract
from irdeconv.ops.image import Resizing
from irdeconv.ops.movement import Pad1, Pad12
from irdeconv.ops.pooling import MaxPool1, MaxPool14, Pool
from irdeconv.ops.reduction import Reduction
from irdeconv.ops.slicing import StridedSlice
from irdeconv.ops.sparse import SegmentMax
from irdeconv.rewrite.infer_specs import infer_specs

Key = tuple[Value, tuple[int, ...] | None]  # a value, and the shape it is seen in
_CHAINED = frozenset({"f64", "f32", "f16", "bf16"})  # element types that chains compute


def chain_step(op: Op, inputs: Sequence[Spec]) -> ChainStep | None:
    """Return the operation as a step; None unless operands and result are all f64, or narrower."""
    if not inputs or any(s.dtype is None for s in inputs):
        return None
    step = op.chain_step(inputs)
    if step is None:
        return None
    names = {str(inputs[a.number].dtype) for a in step.args if isinstance(a, Operand)}
    return step if names <= _CHAINED and ("f64" not in names or names == {"f64"}) else None


@dataclass(frozen=True)
class ChainPlan:
    """A compiled chain and the values it reads, by register, except the epilogue's own tensor."""

    chain: Chain
    arguments: tuple[Value, ...]
    registers: tuple[int, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    out_shape: tuple[int, ...]
    name: str

    def __call__(self, *arrays: Array, out: Array, team: Team) -> None:
        """Compute `out` from the tensor that an epilogue finishes, if any, and the arguments."""
        self.chain.run(self._seen(arrays), out, team)

    def fixed(self, *arrays: Array, out: Array) -> Callable[[Team], None] | None:
        """Return a reusable call for these arrays; None if some must be copied."""
        if not self._views(arrays):
            return None
        return self.chain.fixed(self._seen(arrays), out)

    def after(self, arrays: Sequence[Array], out: Array) -> KeptCalls | Repeated | None:
        """Return calls that finish a small output of f32 as a whole, where nothing is compiled."""
        if jit.available() or out.dtype != np.float32 or not self._views(arrays):
            return None
        seen = [out, *self._seen(arrays)]
        return self.chain.kept(seen, out, scratch.SIZES.finished_elements)

    def _views(self, arrays: Sequence[Array]) -> bool:
        """Whether the arrays need not be copied to be seen in their shapes."""
        seen = arrays[len(arrays) - len(self.shapes) :]
        return all(
            s is None or a.flags.c_contiguous for a, s in zip(seen, self.shapes, strict=True)
        )

    def follows(self, arrays: Sequence[Array]) -> bool:
        """Whether an epilogue sees later writes to the arrays, because it copies nothing."""
        whole = self.out_shape[2:]
        spaces = (a.shape[max(0, a.ndim - len(whole)) :] for a in self._seen(arrays))
        plain = all(math.prod(s) == 1 or s == whole for s in spaces)
        return plain and all(a.flags.c_contiguous for a in arrays)

    def epilogue(self, arrays: Sequence[Array]) -> ChainEpilogue:
        """Return an epilogue with one array per argument."""
        given = dict(zip(self.registers, self._seen(arrays), strict=True))
        return self.chain.bind(self.out_shape, given)

    def _seen(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the arguments in their shapes, those of an epilogue's output as they are."""
        main = len(arrays) - len(self.shapes)
        pairs = zip(arrays[main:], self.shapes, strict=True)
        return [*arrays[:main], *(a if s is None else a.reshape(s) for a, s in pairs)]


def plan_chain(
    graph: Graph, nodes: Sequence[Node], constants: Mapping[Value, Array], main: Value | None = None
) -> ChainPlan:
    """Compile element-wise nodes; `main`, by default the first open input, is the main tensor."""
    operands = ChainOperands(constants, main)
    made: dict[Value, int] = {}  # values computed inside
    steps: list[Instruction] = []
    for node in nodes:
        inputs = graph.inputs_of(node.id)
        step = chain_step(node.op, graph.input_specs(node.id))
        assert step is not None
        args = []
        for a in step.args:
            inside = made.get(inputs[a.number]) if isinstance(a, Operand) else None
            args.append(operands.refer(a, inputs) if inside is None else inside)
        made[Value(node.id)] = -1 - len(steps)  # operands come first: their number is not known yet
        steps.append(Instruction(step.rule, tuple(args), step.params))
    spec = nodes[-1].spec()
    assert spec.dtype is not None
    assert is_static(spec.shape)
    return operands.compile(steps, spec.dtype, spec.shape, ", ".join(n.type for n in nodes))


class ChainOperands:
    """Collects the inputs of a chain: the main tensor, values, constants."""

    def __init__(self, constants: Mapping[Value, Array], main: Value | None = None) -> None:
        self.constants = constants
        self.numbers: dict[Key, int] = {} if main is None else {(main, None): 0}
        self.values: dict[int, Key] = {}
        self.known: list[Array | None] = []  # operands 1..k

    def refer(self, argument: Operand | Array, inputs: Sequence[Value]) -> int:
        """Return the operand for an input or a constant array."""
        if not isinstance(argument, Operand):
            return self._constant(argument)
        value, shape = inputs[argument.number], argument.shape
        constant = self.constants.get(value)
        if constant is not None:
            return self._constant(constant if shape is None else constant.reshape(shape))
        key = value, shape
        if key not in self.numbers:
            if not self.numbers:
                self.numbers[key] = 0
                self.values[0] = key
            else:
                self.known.append(None)
                self.numbers[key] = len(self.known)
                self.values[len(self.known)] = key
        return self.numbers[key]

    def _constant(self, array: Array) -> int:
        self.known.append(np.asarray(array))
        return len(self.known)

    def compile(
        self, steps: Sequence[Instruction], dtype: ElementType, shape: tuple[int, ...], name: str
    ) -> ChainPlan:
        """Return the chain for steps over these operands; step k is the argument -1 - k."""
        count = 1 + len(self.known)
        program = [
            replace(s, args=tuple(a if a >= 0 else count - 1 - a for a in s.args)) for s in steps
        ]
        registers = tuple(sorted(self.values))
        keys = [self.values[r] for r in registers]
        return ChainPlan(
            chain=Chain.compile(program, dtype.container, self.known),
            arguments=tuple(value for value, _ in keys),
            registers=registers,
            shapes=tuple(shape for _, shape in keys),
            out_shape=shape,
            name=name,
        )


AXES = range(1, 4)  # spatial axes that the kernels know


@dataclass(frozen=True)
class FusedConvolution:
    """A convolution or deconvolution and the nodes that it covers, producers first.

    `reversed` says that `filter` is the one of the convolution in a zero-insertion form.
    """

    nodes: tuple[Node, ...]
    deconvolution: bool
    problem: ConvProblem
    data: Value
    filter: Value
    reversed: bool = False

    def arrange(self, filter: Array) -> Array:
        """Return a constant filter as the kernels want it."""
        w, rank = filter, self.problem.rank
        if w.ndim != rank + 3:
            w = w.reshape(self.problem.groups, -1, *w.shape[1:])
        if self.reversed:
            w = reversed_filter(w)
        return w


def fuse_convolution(
    graph: Graph, node: Node, constants: Mapping[Value, Array], readers: Users
) -> FusedConvolution | None:
    """Return the layer that ends in a (de)convolution; None for open sizes or no elements."""
    specs = (*graph.input_specs(node.id), node.spec())
    if not all(is_static(s.shape) and 0 not in s.shape for s in specs):
        return None
    x, w, y = shape_of(specs[0]), shape_of(specs[1]), shape_of(specs[-1])
    if len(x) - 2 not in AXES:
        return None
    op, dtype, (data, filter, *pads) = node.op, specs[0].dtype, graph.inputs_of(node.id)
    kind = str(dtype.container) if dtype is not None else ""
    if isinstance(op, Deconvolution):
        if pads[0] not in constants:
            return None
        begin = tuple(int(v) for v in constants[pads[0]])
        return FusedConvolution((node,), True, op.problem(x, w, begin, y[2:], kind), data, filter)
    assert isinstance(op, ConvolutionBase)
    plain = FusedConvolution((node,), False, op.problem(x, w, y[2:], kind), data, filter)
    layer = _with_pads(graph, plain, constants, readers)
    levels = None if layer.deconvolution else levels_of(graph, layer.data, constants)
    if levels is None or kind != "float32" or filter not in constants:
        return layer
    problem = replace(layer.problem, levels=levels)
    taps = as_conv3d(problem).filter(layer.arrange(constants[filter]))  # those that are used
    known = row_steps(taps.reshape(problem.outputs, -1))
    return layer if known is None else replace(layer, problem=problem)


def _with_pads(
    graph: Graph, layer: FusedConvolution, constants: Mapping[Value, Array], readers: Users
) -> FusedConvolution:
    """Take in Pads and crops, and a ZeroInsertion in front of them."""
    while pads := _pad_in_front(graph, layer, constants, readers):
        pad, begin, end = pads
        outer = layer.problem.begin
        # Padding and then reading beyond the end is reading one zero-extended signal, unless the
        # Pad cut off elements and the convolution's own pads add zeros there.
        rows = zip(begin, end, outer, _reach(layer), strict=True)
        if any(p < 0 < o or q < 0 < reach for p, q, o, reach in rows):
            break
        data = graph.inputs_of(pad.id)[0]
        total = tuple(b + o for b, o in zip(begin, outer, strict=True))
        problem = replace(layer.problem, shape=shape_of(graph.spec(data)), begin=total)
        layer = replace(layer, nodes=(pad, *layer.nodes), problem=problem, data=data)
    return _as_deconvolution(graph, layer, readers) or layer


def _reach(layer: FusedConvolution) -> list[int]:
    """Return per axis how far behind the data's end the windows read."""
    w = layer.problem
    rows = zip(w.sizes, w.strides, w.dilations, w.kernel, w.begin, w.shape[2:], strict=True)
    return [(o - 1) * s + d * (k - 1) + 1 - b - i for o, s, d, k, b, i in rows]


def _pad_in_front(
    graph: Graph, layer: FusedConvolution, constants: Mapping[Value, Array], readers: Users
) -> tuple[Node, tuple[int, ...], tuple[int, ...]] | None:
    """Return a Pad with zeros or a crop of spatial axes that only this layer reads, its amounts."""
    pad = graph.node(layer.data.node)
    if readers.only(layer.data) is None:
        return None
    amounts = _amounts(graph, pad, constants)
    shape = None if amounts is None else graph.spec(graph.inputs_of(pad.id)[0]).shape
    if amounts is None or not is_static(shape) or 0 in shape:
        return None
    begin, end = amounts
    if any(begin[:2]) or any(end[:2]) or len(begin) != len(shape):
        return None
    return pad, begin[2:], end[2:]


def _amounts(
    graph: Graph, pad: Node, constants: Mapping[Value, Array]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return by how much a Pad with zeros extends each axis, or a StridedSlice crops it."""
    data, *others = graph.inputs_of(pad.id) or (None,)
    if data is None or any(v not in constants for v in others):
        return None
    lists = [constants[v].reshape(-1).tolist() for v in others]
    if isinstance(pad.op, Pad1 | Pad12):
        zero = not any(v != 0 for value in lists[2:] for v in value)
        return (
            (tuple(lists[0]), tuple(lists[1])) if zero and pad.op.pad_mode == "constant" else None
        )
    if not isinstance(pad.op, StridedSlice) or any(s != 1 for v in lists[2:] for s in v):
        return None
    op, size, left = pad.op, graph.spec(data).shape, pad.spec().shape
    odd = (*op.new_axis_mask, *op.shrink_axis_mask, *op.ellipsis_mask)
    if not is_static(size) or not is_static(left) or any(odd):
        return None
    rows = zip(lists[0], size, (*op.begin_mask, *(0,) * len(size)), strict=False)
    begin = [0 if m else min(b + n if b < 0 else b, n) for b, n, m in rows]
    begin += [0] * (len(size) - len(begin))
    end = (n - b - o for n, b, o in zip(size, begin, left, strict=True))
    return tuple(-b for b in begin), tuple(-e for e in end)


def _as_deconvolution(
    graph: Graph, layer: FusedConvolution, readers: Users
) -> FusedConvolution | None:
    insertion = graph.node(layer.data.node)
    w = layer.problem
    if not isinstance(insertion.op, ZeroInsertion) or any(s != 1 for s in w.strides):
        return None
    if readers.only(layer.data) is None:
        return None
    data = graph.inputs_of(insertion.id)[0]
    shape = graph.spec(data).shape
    if not is_static(shape) or 0 in shape:
        return None
    reach = (d * (k - 1) for d, k in zip(w.dilations, w.kernel, strict=True))
    begin = tuple(r - b for r, b in zip(reach, w.begin, strict=True))
    problem = replace(w, shape=shape, strides=insertion.op.strides, begin=begin)
    nodes = (insertion, *layer.nodes)
    return replace(
        layer, nodes=nodes, deconvolution=True, problem=problem, data=data, reversed=True
    )


LONGEST_CHAIN = 64  # element-wise nodes that are looked at together
_CONVOLVED = ("float16", "float32", "float64", "bfloat16")


@dataclass(frozen=True)
class FusionGroup:
    """Nodes that one step executes, producers first; the last one's outputs are its own."""

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]

    @property
    def last(self) -> Node:
        """The node whose outputs the group has."""
        return self.nodes[-1]


@dataclass(frozen=True)
class ConvolutionGroup(FusionGroup):
    """A (de)convolution with its neighbours; `finish` are the element-wise nodes at the end."""

    layer: FusedConvolution
    finish: tuple[Node, ...] = ()

    @property
    def core(self) -> Node:
        """The convolution or deconvolution."""
        return self.layer.nodes[-1]


@dataclass(frozen=True)
class ChainGroup(FusionGroup):
    """Element-wise operations on tensors of one shape."""


def dense_inputs(group: FusionGroup) -> tuple[Value, ...]:
    """Return the inputs that a group reads faster if their elements are contiguous in memory."""
    if isinstance(group, ConvolutionGroup):
        return tuple(v for v in group.inputs if v != group.layer.filter)
    return group.inputs[:1] if isinstance(group.last.op, Pool | Resizing) else ()


class Users:
    """Readers of each value, among the nodes that are executed; a Result counts as a reader."""

    def __init__(self, graph: Graph, order: Iterable[Node]) -> None:
        self._readers: dict[Value, list[int]] = {}
        for node in order:
            for value in dict.fromkeys(graph.inputs_of(node.id)):
                self._readers.setdefault(value, []).append(node.id)
        self.results = {graph.inputs_of(n.id)[0] for n in graph.results}

    def of(self, value: Value) -> list[int]:
        """Return the readers' node ids."""
        return self._readers.get(value, [])

    def only(self, value: Value) -> int | None:
        """Return the single reader; None if there are more, none, or a Result."""
        readers = self.of(value)
        return readers[0] if len(readers) == 1 and value not in self.results else None


@dataclass
class GroupFinder:
    """Finds the groups of nodes in `order`, producers first; `constants` are known values."""

    graph: Graph
    order: list[Node]
    constants: Mapping[Value, Array]

    def __post_init__(self) -> None:
        self.users = Users(self.graph, self.order)
        self.place = {n.id: k for k, n in enumerate(self.order)}
        self.taken: set[int] = set()

    def find(self) -> list[FusionGroup]:
        """Return every group, in an order in which they can be executed."""
        groups: list[FusionGroup] = []
        for node in self.order:
            if isinstance(node.op, ConvolutionBase | Deconvolution):
                group = self._convolution_group(node)
                if group is not None:
                    groups.append(group)
                    self.taken |= {n.id for n in group.nodes}
        for node in self.order:
            if node.id not in self.taken and self._element_wise(node):
                nodes = (node, *self._behind(node))
                groups.append(ChainGroup(nodes, self._inputs(nodes)))
                self.taken |= {n.id for n in nodes}
        rest = [n for n in self.order if n.id not in self.taken]
        groups += [FusionGroup((n,), self._inputs((n,))) for n in rest]
        return sorted(groups, key=lambda g: self.place[g.last.id])

    def _convolution_group(self, node: Node) -> ConvolutionGroup | None:
        layer = fuse_convolution(self.graph, node, self.constants, self.users)
        if layer is None or layer.problem.dtype not in _CONVOLVED:
            return None
        if any(n.id in self.taken for n in layer.nodes):
            return None
        finish = self._behind(node)
        nodes = (*layer.nodes, *finish)
        return ConvolutionGroup(nodes=nodes, inputs=self._inputs(nodes), layer=layer, finish=finish)

    def _element_wise(self, node: Node) -> bool:
        """Whether a node can be a step of a chain."""
        specs = node.specs or ()
        if len(specs) != 1 or not is_static(specs[0].shape) or 0 in specs[0].shape:
            return False
        inputs = self.graph.input_specs(node.id)
        known = str(specs[0].dtype) in _CHAINED and all(is_static(s.shape) for s in inputs)
        return known and chain_step(node.op, inputs) is not None

    def _behind(self, node: Node) -> tuple[Node, ...]:
        """Return the element-wise nodes behind `node`, of its shape and type, each used once."""
        spec = node.spec()
        inside = {node.id}
        chain: list[Node] = []
        best = 0
        waiting = set(self.users.of(Value(node.id)))
        while waiting and len(chain) < LONGEST_CHAIN:
            nearest = min(waiting, key=self.place.__getitem__)
            waiting.discard(nearest)
            other = self.graph.node(nearest)
            fits = other.id not in self.taken and self._element_wise(other)
            if not fits or other.spec().shape != spec.shape or other.spec().dtype != spec.dtype:
                continue
            inside.add(other.id)
            chain.append(other)
            waiting |= set(self.users.of(Value(other.id))) - inside
            if self._closed(inside, other.id):
                best = len(chain)
        return tuple(chain[:best])

    def _closed(self, inside: set[int], last: int) -> bool:
        """Whether only the last node's value is seen from outside."""
        return all(
            Value(i) not in self.users.results and set(self.users.of(Value(i))) <= inside
            for i in inside
            if i != last
        )

    def _inputs(self, nodes: Iterable[Node]) -> tuple[Value, ...]:
        made = {n.id for n in nodes}
        read = [v for n in nodes for v in self.graph.inputs_of(n.id)]
        return tuple(
            dict.fromkeys(v for v in read if v.node not in made and v not in self.constants)
        )


NARROW = frozenset({"f16", "bf16"})
# Operations that compute in f32 and round once; tests/runtime/test_widening.py has them all.
ROUNDED_ONCE = frozenset(
    {"MatMul", "SoftMax", "Softmax", "LogSoftmax", "MVN", "NormalizeL2", "LRN", "GRN"}
)
WIDE = Convert(ELEMENT_TYPES["f32"])


@dataclass(frozen=True)
class Rounded(Op):
    """Round f32 to the numbers of `element_type`, f16 or bf16; the result is f32."""

    type: ClassVar[str] = "Rounded"
    signature = "data: real t [*I] -> t [*I]"
    element_type: ElementType

    def evaluate(self, data: Array) -> Array:
        """Round data [*I]."""
        return elementwise.evaluate(elementwise.narrow, [data], (self.element_type.container,))

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep:
        """Return the rounding."""
        return ChainStep(elementwise.narrow, (Operand(0),), (self.element_type.container,))


def has_narrow(graph: Graph) -> bool:
    """Whether a value of the graph is f16 or bf16."""
    return any(_is_narrow(s) for n in graph.nodes() for s in n.specs or ())


def _is_narrow(spec: Spec) -> bool:
    return spec.dtype is not None and spec.dtype.name in NARROW


def widened(graph: Graph, groups: list[FusionGroup]) -> Graph:
    """Return the graph with f32 inside, where all of `groups`, producers first, allow it.

    It is the graph itself if that changes nothing.
    """
    chosen = _joined([g for g in groups if _widens(graph, g)])
    if not chosen:
        return graph
    rewriting = _Widening(graph, graph.copy(), {n.id for g in chosen for n in g.nodes})
    for group in chosen:
        rewriting.widen(group)
    rewriting.narrow_again()
    wide, given = rewriting.out, {n.id: n.spec() for n in rewriting.out.parameters}
    errors = any(d.severity == "error" for d in infer_specs(wide, given=given))
    return graph if errors else wide


def _joined(groups: list[FusionGroup]) -> list[FusionGroup]:
    """Return the groups that share a value with another one; alone, they would gain nothing."""
    made = {n.id for g in groups for n in g.nodes}
    read = {v.node for g in groups for v in g.inputs}
    return [g for g in groups if g.last.id in read or any(v.node in made for v in g.inputs)]


def _widens(graph: Graph, group: FusionGroup) -> bool:
    """Whether the group gives the same numbers if narrow inputs and outputs are f32."""
    specs = [s for n in group.nodes for s in (*graph.input_specs(n.id), *(n.specs or ()))]
    names = {s.dtype.name if s.dtype is not None else "" for s in specs}
    if not names & NARROW or "" in names:
        return False
    if isinstance(group, ConvolutionGroup | ChainGroup):
        return "f64" not in names
    op = group.last.op
    moves = op.rounding is MOVES and not isinstance(op, VariableOp | SegmentMax)
    once = op.type in ROUNDED_ONCE or isinstance(op, Pool | Reduction) or moves
    return once and bool(group.inputs) and _is_narrow(graph.input_specs(group.last.id)[0])


@dataclass
class _Widening:
    """Rewrites `out`, a copy of `graph`; `inside` are the nodes that become f32."""

    graph: Graph
    out: Graph
    inside: set[int]
    wide: dict[Value, Value] = field(default_factory=dict)

    def widen(self, group: FusionGroup) -> None:
        """Let a group read and write f32; its last node is followed by the rounding."""
        within = {n.id for n in group.nodes}
        for node in group.nodes:
            for port, value in enumerate(self.graph.inputs_of(node.id)):
                if value.node not in within and _is_narrow(self.graph.spec(value)):
                    self.out.set_input(node.id, port, self._wide(value))
            if isinstance(node.op, Convert) and node.op.destination_type.name in NARROW:
                self.out.replace_op(node.id, Rounded(node.op.destination_type))
        last, exact = group.last, all(n.op.rounding is MOVES for n in group.nodes)
        for port, spec in enumerate(last.specs or ()):
            if spec.dtype is not None and spec.dtype.name in NARROW:
                value = Value(last.id, port)
                self.wide[value] = value if exact else self._rounded(value, spec.dtype)

    def _wide(self, value: Value) -> Value:
        if value not in self.wide:
            name = f"{self.graph.node(value.node).name}/f32"
            self.wide[value] = Value(self.out.add(WIDE, [value], name=name).id)
        return self.wide[value]

    def _rounded(self, value: Value, dtype: ElementType) -> Value:
        """Return an output of f32 with the numbers of its narrow type."""
        last = self.out.node(value.node)
        if isinstance(last.op, Rounded):
            return value
        rounding = self.out.add(Rounded(dtype), [value], name=last.name)
        last.name = f"{last.name}/f32"
        return Value(rounding.id)

    def narrow_again(self) -> None:
        """Convert where something else reads a value that is f32 now, except its shape."""
        for value, wide in self.wide.items():
            if value.node not in self.inside:
                continue
            old, dtype, read = self.graph.node(value.node), self.graph.spec(value).dtype, None
            assert dtype is not None
            for node, port in self.graph.users(value):
                if self.graph.node(node).type == "ShapeOf":
                    self.out.set_input(node, port, wide)
                elif node not in self.inside:
                    if read is None:
                        read = self.out.add(Convert(dtype), [wide], name=f"{old.name}/{dtype.name}")
                        read.add_names(0, old.names_of(value.port))  # it may be an output
                    self.out.set_input(node, port, Value(read.id))


_LOWEST = {"u8": 0, "i8": -128}


def levels_of(graph: Graph, value: Value, constants: Mapping[Value, Array]) -> Levels | None:
    """Return the levels of a value; None if they are unknown, or 0 is none of them.

    Elements may be NaN as well.
    """
    node = graph.node(value.node)
    while value.port == 0 and _keeps_levels(graph, node):
        value = graph.inputs_of(node.id)[0]
        node = graph.node(value.node)
    if isinstance(node.op, FakeQuantize):
        ends = [_number(graph, node, port, constants) for port in (3, 4)]
        step = (max(ends) - min(ends)) / (node.op.levels - 1)
        return _levels(step, -min(ends) / (step or math.nan), node.op.levels)
    if not isinstance(node.op, Multiply):
        return None
    step, zero = _number(graph, node, 1, constants), 0.0
    node = graph.node(graph.inputs_of(node.id)[0].node)
    if isinstance(node.op, Subtract):
        zero = _number(graph, node, 1, constants)
        node = graph.node(graph.inputs_of(node.id)[0].node)
    dtype = graph.input_specs(node.id)[0].dtype if isinstance(node.op, Convert) else None
    lowest = _LOWEST.get(str(dtype), math.nan)
    return _levels(step, zero - lowest, LARGEST_LEVEL + 1)


def _keeps_levels(graph: Graph, node: Node) -> bool:
    """Whether the first output has elements of the first input alone."""
    if isinstance(node.op, MaxPool1 | MaxPool14):  # a window without data gives another number
        shape = graph.input_specs(node.id)[0].shape
        return is_static(shape) and all(w.valid().all() for w in node.op.windows(shape)[0])
    return isinstance(node.op, ViewOp)


def _number(graph: Graph, node: Node, port: int, constants: Mapping[Value, Array]) -> float:
    """Return the number that an input has alone; NaN if it is unknown."""
    array = constants.get(graph.inputs_of(node.id)[port])
    return math.nan if array is None or array.size != 1 else float(array.reshape(-1)[0])


def _levels(step: float, zero: float, count: int) -> Levels | None:
    """Return `count` levels, if they are of 8 bits and 0 is one of them."""
    if not (
        LEAST_STEP <= step <= MOST_STEP and -0.5 < zero < count - 0.5 and count <= LARGEST_LEVEL + 1
    ):
        return None
    return Levels(step, round(zero)) if abs(zero - round(zero)) <= OFF else None
