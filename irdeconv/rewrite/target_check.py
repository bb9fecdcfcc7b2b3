"""Whether a target can run the layers of a graph: each layer against the target's list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from irdeconv.base.source import Location
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op, ports
from irdeconv.ir.spec import DYNAMIC, Shape, Spec, ints, is_static
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.channels import DepthToSpace, Split, VariadicSplit
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.dialect_template import DialectDeconvolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.image import Resizing
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.padding import Pad1, Pad12
from irdeconv.ops.slicing import Slice, StridedSlice
from irdeconv.rewrite import target_facts
from irdeconv.rewrite.target_conditions import ALIASES, Facts, Number
from irdeconv.rewrite.target_facts import Tensors
from irdeconv.rewrite.targets import Target

NOT_EXECUTED = ("Parameter", "Result", "Const", "Constant", "Identity")


@dataclass(frozen=True)
class Violation:
    """A layer that the target cannot run, and the condition that it does not meet."""

    layer: str
    operation: str
    text: str
    location: Location | None = None

    def __str__(self) -> str:
        return f'{self.operation} "{self.layer}": {self.text}'


def check_graph(
    graph: Graph, target: Target, only: Callable[[Node], bool] = lambda node: True
) -> list[Violation]:
    """Return the conditions of a target that layers of an inferred graph do not meet.

    `only` chooses the layers; all others, constants and what is computed from constants alone are
    not looked at. Bodies of Loop, If and TensorIterator are.
    """
    out = []
    for top, node, name, facts in executed(graph, only):
        title = node.name if top is node else f'{node.name} (in {top.type} "{top.name}")'
        out += [Violation(title, name, t, node.location) for t in target.failures(name, facts)]
    return out


def executed(
    graph: Graph,
    only: Callable[[Node], bool] = lambda node: True,
    given: Collection[int] = (),
) -> Iterator[tuple[Node, Node, str, Facts]]:
    """Yield the layers that a device executes: node, name of the operation, facts.

    The first node is the layer of the graph: of a layer in a body the operation around it. `given`
    are Parameters of a body that are constant.
    """
    constant = set(given)
    for node in graph.topological():
        read = [v.node for v in graph.inputs_of(node.id)]
        if node.type == "Const" or (read and node.op.pure and constant.issuperset(read)):
            constant.add(node.id)
            continue
        for body in bodies_of(node):
            carried = body.carried()
            same = [
                i.parameter
                for i in body.inputs
                if i.port is not None and read[i.port] in constant and i.parameter not in carried
            ]
            for _, inner, name, facts in executed(body.graph, only, same):
                yield node, inner, name, facts
        layer = _CheckedLayer(graph, node, constant)
        if node.type not in NOT_EXECUTED and only(node) and not layer.is_bias:
            yield node, node, *layer.described()


class _CheckedLayer:
    """A layer of a graph; `constant` are the nodes in front of it that are constant."""

    def __init__(self, graph: Graph, node: Node, constant: set[int]) -> None:
        self.graph, self.node, self.constant = graph, node, constant
        self.inputs = graph.input_specs(node.id)
        self.output = node.spec()
        varying = [
            spec
            for value, spec in zip(graph.inputs_of(node.id), self.inputs, strict=True)
            if value.node not in constant
        ]
        outputs = [node.spec(port) for port in range(node.outputs)]
        every = (*varying, *outputs)
        self.tensors = Tensors(every[0] if every else Spec(None, None), every)

    def described(self) -> tuple[str, Facts]:
        """Return the name of the operation and the facts."""
        op, tensors = self.node.op, self.tensors
        name = ALIASES.get(op.type, op.type)
        if isinstance(op, DialectDeconvolution):
            return self._deconvolution(op)
        if isinstance(op, ConvolutionBase):
            return name, self._convolution(op)
        if isinstance(op, Concat):
            return name, target_facts.joining(tensors, op.axis, self.inputs)
        if isinstance(op, Resizing):
            return name, target_facts.resizing(tensors, self.output, op.mode)
        if isinstance(op, Slice | StridedSlice):
            return name, target_facts.slicing(tensors, *self._steps(op))
        return name, tensors.facts(*self._particulars(op))

    def _particulars(self, op: Op) -> tuple[target_facts.Values, target_facts.Axes]:
        """Return the values that only this operation has."""
        if isinstance(op, Pad1 | Pad12):
            return target_facts.padding(
                op.pad_mode, self._ints(1), self._ints(2), self._fill(), self.tensors
            )
        if isinstance(op, Transpose):
            order = self._ints(1)
            rank = self.tensors.data.rank
            reverse = None if rank is None else tuple(range(rank))[::-1]
            return {"order": order if order or order is None else reverse}, {}
        if isinstance(op, DepthToSpace):
            return {"block": op.block_size, "mode": op.mode}, {}
        if isinstance(op, Split | VariadicSplit):
            axis, rank = self._ints(1), self.inputs[0].rank
            return {"axis": axis[0] % rank if axis and rank else None}, {}
        return {}, {}

    def _ints(self, port: int) -> tuple[int, ...] | None:
        return ints(self.inputs[port])

    def _fill(self) -> Number | None:
        """Return the value that a Pad fills with."""
        if len(self.inputs) < 4:
            return 0
        known = self.inputs[3].known
        return None if known is None else target_facts.number(float(known.reshape(-1)[0]))

    def _steps(self, op: Op) -> tuple[dict[int, int | None] | None, Shape | None]:
        """Return the step of each axis that a Slice names, and the sizes behind it."""
        shape = self.inputs[0].shape
        lists = [self._ints(port) for port in range(1, len(self.inputs))]
        if shape is None or self.output.shape is None:
            return None, None
        if isinstance(op, StridedSlice):
            return self._strided(op, len(shape), lists)
        steps, axes = lists[2], lists[3] if len(lists) > 3 else tuple(range(len(lists[2] or ())))
        if axes is None:
            return None, None
        at = [a % len(shape) for a in axes]
        return dict(zip(at, steps or (None,) * len(at), strict=True)), self.output.shape

    def _strided(
        self, op: StridedSlice, rank: int, lists: Sequence[tuple[int, ...] | None]
    ) -> tuple[dict[int, int | None] | None, Shape | None]:
        begin, end = lists[:2]
        steps = lists[2] if len(lists) > 2 else (1,) * len(begin or ())
        if begin is None or end is None or steps is None:
            return None, None
        named: dict[int, int | None] = {}
        sizes, behind = [], iter(self.output.shape or ())
        for p in op.parts(rank, begin, end, steps):
            size = 1 if p.axis is not None and p.shrink else next(behind)
            if p.axis is not None:
                if not (p.begin is None and p.end is None and p.step == 1):
                    named[p.axis] = p.step
                sizes.append(size)
        return named, tuple(sizes)

    def _convolution(self, op: ConvolutionBase) -> Facts:
        """Return the facts; the filter is [M, C, *K] or [g, M/g, C/g, *K]."""
        shape, data = self.inputs[1].shape, self.inputs[0]
        axes = (data.rank or len(shape or (0, 0)) - op.grouped) - 2
        sizes = [target_facts.exact(d) for d in shape or (DYNAMIC,) * (axes + 2 + op.grouped)]
        groups = sizes[0] if op.grouped else 1
        m, c = sizes[op.grouped : op.grouped + 2]
        channels = (target_facts.product(groups, c), target_facts.product(groups, m), groups)
        lists = (op.strides, op.dilations, op.pads_begin, op.pads_end)
        layer = target_facts.convolution(
            data, channels, sizes[op.grouped + 2 :], lists, op.auto_pad
        )
        return self._windows(layer, has_bias=self.bias is not None)

    def _deconvolution(self, op: DialectDeconvolution) -> tuple[str, Facts]:
        has_bias = "bias" in ports(type(op)).names[: len(self.inputs)] or self.bias is not None
        name, layer = target_facts.deconvolution(op, self.inputs, self.output)
        return name, self._windows(layer, has_bias=has_bias)

    def _windows(self, layer: target_facts.WindowFacts, *, has_bias: bool) -> Facts:
        filter = self.graph.inputs_of(self.node.id)[1].node
        return layer.facts(self.tensors, constant_filter=filter in self.constant, has_bias=has_bias)

    @property
    def bias(self) -> Node | None:
        """The Add of a constant per channel that is the only reader of a convolution."""
        users = self.graph.users(Value(self.node.id))
        add = self.graph.node(users[0][0]) if len(users) == 1 else None
        if add is None or not isinstance(add.op, Add):
            return None
        other = self.graph.node(self.graph.inputs_of(add.id)[1 - users[0][1]].node)
        shape, rank = other.spec().shape, self.output.rank
        per_channel = (
            other.type == "Const"
            and is_static(shape)
            and rank is not None
            and len(shape) <= rank
            and all(d == 1 for a, d in enumerate(shape, rank - len(shape)) if a != 1)
        )
        return add if per_channel else None

    @property
    def is_bias(self) -> bool:
        """Whether it is the Add of a convolution's bias, which counts with the convolution."""
        for value in self.graph.inputs_of(self.node.id) if isinstance(self.node.op, Add) else ():
            source = self.graph.node(value.node)
            if isinstance(source.op, ConvolutionBase | DialectDeconvolution):
                bias = _CheckedLayer(self.graph, source, self.constant).bias
                if bias is not None and bias.id == self.node.id:
                    return True
        return False
