"""Sites of raising: the surroundings of a convolution, followed by the proof's own walk.

Find the data that a convolution is computed from, and the node where its deconvolution ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array
from irdeconv.ops.basic import Opaque
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat
from irdeconv.proof.definition import CONVOLUTIONS, LayerDefinition, define
from irdeconv.proof.model import (
    REFUSED,
    RULES,
    Fact,
    Layer,
    Model,
    Obligation,
    Port,
    TypedArray,
    Unproved,
    need,
)
from irdeconv.proof.sizes import LARGEST_SIZES, Case
from irdeconv.proof.steps import biased, called
from irdeconv.proof.symbolic import RegionWalk, open_leaf
from irdeconv.proof.views import Leaf, Numbers, data_view
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.verify.adapter import fact_of, layer_of
from irdeconv.verify.raising_compose import Decomposition, ViewReading

LONGEST = 24  # nodes in front of or behind a convolution, or on the way to a constant
LEAST_OPEN = 1 << 12  # of the open sizes that are looked at: no kernel is larger
ENLARGING = ("Interpolate", "ZeroInsertion")
# Operations of a decomposition beside its convolutions.
MOVING = frozenset(
    "Broadcast Concat DepthToSpace Interpolate Pad Reshape Slice Squeeze StridedSlice Tile "
    "Transpose Unsqueeze ZeroInsertion".split()
)
# Behind a convolution elements are only moved: repeated ones are another layer's data.
BEHIND = MOVING - {"Broadcast", "Concat", "Interpolate", "Tile", "ZeroInsertion"}


def known_type(node: Node) -> str:
    """Return a node's type; nothing for one of an operation set that irdeconv does not know."""
    return "" if isinstance(node.op, Opaque) else node.type


def moved_input(graph: Graph, node: Node) -> Value:
    """Return the input whose elements a node moves; of several the first that is no constant."""
    inputs = graph.inputs_of(node.id)

    def varies(value: Value) -> bool:
        made = graph.node(value.node)
        if known_type(made) == "Broadcast":
            made = graph.node(graph.inputs_of(made.id)[0].node)
        return known_type(made) != "Const"

    return next(filter(varies, inputs if known_type(node) == "Concat" else ()), inputs[0])


class GraphWalk:
    """Values of a graph as the proof's walk sees them.

    Open sizes are large, and of the cases into which they split only the first one is followed: its
    results are proved for all of them.
    """

    def __init__(self, graph: Graph) -> None:
        nothing = Model((), (), ())
        none = Obligation(nothing, nothing, Port(0), Port(0), {}, lambda port: Fact(None, None))
        self.graph, self.case = graph, Case(largest=LARGEST_SIZES[-1])
        self.region = RegionWalk(none, self.case)
        self.values: dict[Value, Any] = {}

    def leaf(self, value: Value) -> Leaf:
        """Return a value as it is: its open sizes equal nothing else."""
        name, fact = self.graph.node(value.node).name, fact_of(self.graph.spec(value))
        return open_leaf(self.case, Port(value.node, value.port), name, fact, LEAST_OPEN)

    def layer(self, node: Node) -> Layer:
        """Return a node as the proof sees it."""
        return layer_of(self.graph, node, {v.node: v.node for v in self.graph.inputs_of(node.id)})

    def step(self, node: Node, depth: int = 0) -> Any:
        """Return the result of a node; Unproved if that cannot be followed."""
        layer = self.layer(node)
        given = [self.get(v, depth) for v in self.graph.inputs_of(node.id)]
        try:
            [made] = self.region.layer(layer, given, False)
        except REFUSED as e:
            raise Unproved(f"{layer} does not fit its inputs: {e}") from None
        self.values[Value(node.id)] = made
        return made

    def constant(self, value: Value) -> TypedArray | None:
        """Return a value that the proof computes from constants alone, None for any other."""
        try:
            found = self.get(value)
        except Unproved:
            return None
        numbers = isinstance(found, TypedArray) and found.array.dtype != object
        return found if numbers else None

    def get(self, value: Value, depth: int = 0) -> Any:
        """Return a value that was followed, or the numbers that steps need; else Unproved."""
        if value in self.values:
            return self.values[value]
        spec, node = self.graph.spec(value), self.graph.node(value.node)
        array = constant(self.graph, value) if spec.known is None else spec.known
        if array is not None and spec.dtype is not None:
            return TypedArray(array, spec.dtype.name)
        if known_type(node) == "ShapeOf":
            (data,) = self.graph.inputs_of(node.id)
            self.values.setdefault(data, self.leaf(data))
        elif known_type(node) not in RULES or value.port or depth > LONGEST:
            raise Unproved(f'what {node.type} "{node.name}" computes is not known')
        return self.step(node, depth + 1)


@dataclass(frozen=True)
class RaisingCandidate:
    """A possible deconvolution.

    `bias` is by channels of the convolutions. `shared` counts values in between that others use
    too, `length` the nodes behind.
    """

    data: Value
    end: int
    walk: GraphWalk
    bias: Array | None = None
    shared: int = 0
    length: int = 0

    @cached_property
    def reading(self) -> ViewReading:
        """The output's reading of the data; Unproved if it is no deconvolution."""
        view, data = self.walk.values[Value(self.end)], self.walk.values[self.data]
        return ViewReading(self.walk.case, view, data.shape)

    def rank(self) -> tuple[Fraction, int, int]:
        """Return a key by which better candidates are larger."""
        return self.reading.enlarges, -self.shared, self.length

    def built(self, site: RaisingSite) -> Decomposition:
        """Return the deconvolution; Unproved if it is none."""
        made = self.reading.compose(self.data, self.end)
        bias, compressed = self._bias(self.reading.bias), site.compressed
        return replace(made, bias=bias, convolutions=site.convolutions, compressed=compressed)

    def _bias(self, numbers: Array | None) -> Array | None:
        """Return the bias by output channels; Unproved if it is not one value for each."""
        if self.bias is None or numbers is None:
            return None
        values = self.bias[numbers.reshape(len(numbers), -1)]
        bits = values.view(f"u{values.itemsize}")
        same = (bits == bits[:, :1]).all()
        need(same, "the bias differs between the phases of an output channel")
        return np.ascontiguousarray(values[:, 0])


@dataclass
class RaisingSite:
    """A convolution, or several that a Concat joins along the channels.

    `refused` collects why parts of its surroundings were not understood.
    """

    graph: Graph
    core: Node
    refused: dict[str, None] = field(default_factory=dict)

    def best(self) -> Decomposition | None:
        """Return the deconvolution that covers most, None if nothing suggests one.

        Raises Unproved with the reasons if something that enlarges is beside the core.
        """
        if not self._is_complete():
            return None
        candidates: list[RaisingCandidate] = []
        for source in self._sources():
            with self._noting():
                candidates += filter(self._enlarges, self._from(source))
        for candidate in sorted(candidates, key=RaisingCandidate.rank, reverse=True):
            with self._noting():
                return candidate.built(self)
        before = {known_type(self._node(v)) for chain in self._chains for v in chain}
        if before & {*ENLARGING} or "DepthToSpace" in self._behind():
            raise Unproved("; ".join(self.refused) or "nothing enlarges its axes by whole factors")
        return None

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note why something is not understood, and go on."""
        try:
            yield
        except Unproved as e:
            self.refused[str(e)] = None

    def _enlarges(self, candidate: RaisingCandidate) -> bool:
        with self._noting():
            return candidate.reading.enlarges > 1
        return False

    def _node(self, value: Value) -> Node:
        return self.graph.node(value.node)

    @cached_property
    def _parts(self) -> list[Node]:
        if known_type(self.core) in CONVOLUTIONS:
            return [self.core]
        return [self._node(v) for v in self.graph.inputs_of(self.core.id)]

    @cached_property
    def convolutions(self) -> list[Node]:
        """The convolutions of the core."""
        return [p for p in self._parts if known_type(p) in CONVOLUTIONS]

    def _is_complete(self) -> bool:
        """Whether the core is a convolution, or joins nothing but convolutions and zeros."""
        kinds, op = {known_type(p) for p in self._parts}, self.core.op
        if not kinds <= {*CONVOLUTIONS, "Broadcast", "Const"} or not self.convolutions:
            return False
        rank = self.graph.spec(Value(self.core.id)).rank
        return not isinstance(op, Concat) or (rank is not None and op.axis % rank == 1)

    @property
    def compressed(self) -> ElementType | None:
        """The element type in which the filter is stored, if it is converted."""
        node = self._node(self.graph.inputs_of(self.convolutions[0].id)[1])
        stored = self.graph.inputs_of(node.id)
        return self.graph.spec(stored[0]).dtype if known_type(node) == "Convert" else None

    def _behind(self) -> set[str]:
        """Return the types of the users, and of those of a bias."""
        graph, ids = self.graph, self.graph.successors(self.core.id)
        ids += [i for n in ids if known_type(graph.node(n)) == "Add" for i in graph.successors(n)]
        return {known_type(graph.node(i)) for i in ids}

    @cached_property
    def _chains(self) -> list[list[Value]]:
        """For each convolution its data and the values that these are moved from."""
        return [self._upstream(self.graph.inputs_of(p.id)[0]) for p in self.convolutions]

    def _upstream(self, value: Value) -> list[Value]:
        chain = [value]
        while known_type(self._node(value)) in MOVING and not value.port and len(chain) <= LONGEST:
            value = moved_input(self.graph, self._node(value))
            chain.append(value)
        return chain

    def _sources(self) -> list[Value]:
        """Return the values that all convolutions may be computed from, the farthest first."""
        first, *others = self._chains
        common = [v for v in first if all(v in chain for chain in others)]
        enlarges = len(common) > 1 or self._behind() & BEHIND
        return common[::-1] if enlarges else []

    def _from(self, source: Value) -> Iterator[RaisingCandidate]:
        """Yield possible deconvolutions of the data `source`."""
        spec, walk = self.graph.spec(source), GraphWalk(self.graph)
        need(spec.shape is not None and len(spec.shape) > 2, "the rank of the data is unknown")
        need(0 not in (spec.shape or ()), "the data is empty")
        (definition, channels), *_ = [self._filter(walk, p) for p in self.convolutions]
        leaf = walk.leaf(source)
        fits = len(leaf.shape) == len(definition.data_axes)
        need(fits, "the data of the convolution has another rank")
        if not isinstance(leaf.shape[1], int):
            leaf = replace(leaf, shape=(leaf.shape[0], channels, *leaf.shape[2:]))
        walk.values[source] = data_view(leaf, definition)
        for part, chain in zip(self.convolutions, self._chains, strict=True):
            self._convolve(part, chain[: chain.index(source)], walk)
        if self.core not in self.convolutions:
            walk.step(self.core)
        yield from self._ends(RaisingCandidate(source, self.core.id, walk))

    def _filter(self, walk: GraphWalk, part: Node) -> tuple[LayerDefinition, int]:
        """Return the definition and the channels that a filter takes."""
        filter = walk.constant(self.graph.inputs_of(part.id)[1])
        if filter is None:
            raise Unproved("the filter is no constant")
        grouped = part.type == "GroupConvolution"
        definition = define(walk.layer(part), filter.array.ndim - grouped)
        weights = definition.ordered(filter.array)
        return definition, int(weights.shape[0] * weights.shape[2])

    def _convolve(self, part: Node, chain: list[Value], walk: GraphWalk) -> None:
        """Follow one convolution and the operations that its data pass through."""
        op, data = part.op, self.graph.inputs_of(part.id)[0]
        assert isinstance(op, ConvolutionBase)
        for value in reversed(chain):
            if value not in walk.values:
                walk.step(self._node(value))
        if op.auto_pad in ("same_upper", "same_lower"):
            fits = max(op.strides, default=1) == 1
            need(fits, "the pads of a convolution with a stride follow from the size")
            # A ZeroInsertion is written with a Pad at its end.
            padded = self._node(data).type in ("Pad", "ZeroInsertion")
            fits = not padded or all(isinstance(n, int) for n in walk.values[data].shape[2:])
            need(fits, "automatic pads behind a Pad of open sizes: OpenVINO forgets them")
        walk.step(part)

    def _ends(self, core: RaisingCandidate) -> Iterator[RaisingCandidate]:
        """Yield candidates that end at the core or at a node behind it that moves its elements."""
        waiting = [core]
        while waiting:
            ended = waiting.pop()
            value = Value(ended.end)
            if ended is core or known_type(self.graph.node(ended.end)) != "Add":
                yield ended
            users = self.graph.users(value)
            shared = ended.shared + (len(users) > 1)
            for user in dict.fromkeys(u for u, _ in users):
                bias = self._follow(self.graph.node(user), ended)
                if bias is not False and ended.length < LONGEST:
                    longer = replace(ended, end=user, bias=bias, shared=shared)
                    waiting.append(replace(longer, length=ended.length + 1))

    def _follow(self, node: Node, ended: RaisingCandidate) -> Any:
        """Follow a node behind; return the bias of its result, False if it stays."""
        value, walk = Value(ended.end), ended.walk
        with self._noting():
            if known_type(node) == "Add" and value == Value(self.core.id):
                view = walk.values[value]
                bias = self._bias(node, value, walk)
                if bias is None:
                    return False
                # Its numbers are moved instead of its values, of which some may be 0.
                numbers = Numbers(view.type, np.arange(view.shape[1]))
                call = called(walk.case, walk.layer(node))
                walk.values[Value(node.id)] = biased(call, view, numbers)
                return bias
            if known_type(node) in BEHIND and moved_input(self.graph, node) == value:
                walk.step(node)
                return ended.bias
        return False

    def _bias(self, node: Node, value: Value, walk: GraphWalk) -> Array | None:
        """Return the constant that an Add puts on every channel, None if it is none."""
        other = [v for v in self.graph.inputs_of(node.id) if v != value]
        found = walk.constant(other[0]) if len(other) == 1 else None
        numpy = isinstance(node.op, Add) and node.op.auto_broadcast == "numpy"
        if not numpy or found is None:
            return None
        with np.errstate(invalid="ignore"):  # of signalling NaN
            finite = np.isfinite(found.array.astype(np.float64)).all()
        if not finite:
            return None
        with suppress(ValueError):
            view = walk.values[value]
            column = (1, view.shape[1], *(1 for _ in view.runs[2:]))
            return np.array(np.broadcast_to(found.array, column).reshape(-1))
        return None
