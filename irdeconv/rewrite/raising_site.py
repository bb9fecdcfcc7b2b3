"""Sites of raising, and resizes as deconvolutions.

Find what surrounds a convolution: the data that it is computed from, the node where it ends.

A resize alone as a depthwise deconvolution, where its borders are those of one.

Along an axis output o is the sum over i of A[o, i] x[i]. That is a deconvolution of stride S where
A[o, i] = h[o - S*i] everywhere. Copies of whole factors are, for every size. Linear weights are in
the midst of the data; at the ends a resize repeats the border, where a deconvolution goes on with
zeros. So sizes decide: aligned corners with O = S(I-1) + 1 end where the data end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.geometry import filled
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array, is_static
from irdeconv.kernels.interpolation import Resize, Rules, axis_weights, dense_matrix
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat
from irdeconv.rewrite.raising_compose import (
    LONGEST,
    Behind,
    ChannelBlock,
    Raising,
    TapAxis,
    compose,
    folded,
    is_finite,
    pads_of,
    spelled,
)
from irdeconv.rewrite.raising_steps import TRACED, AxisTracer, moved_input
from irdeconv.rewrite.raising_tensor import (
    Pattern,
    Signal,
    Size,
    SizeEvaluator,
    Tensor,
    Unreadable,
    known_type,
    single,
    windows,
    without_ones,
)

CONVOLVING = ("Convolution", "GroupConvolution")
ENLARGING = ("Interpolate", "ZeroInsertion")
# Behind a convolution elements are only moved: repeated ones are another layer's data.
BEHIND = frozenset(TRACED) - {"Broadcast", "Concat", "Interpolate", "Tile", "ZeroInsertion"}


@dataclass(frozen=True)
class Decomposition:
    """A deconvolution: from the value `data` to the output of node `end`.

    `bias` has one value per output channel. `repeats` says that elements of the data are repeated,
    `interleaves` that channels are moved into space.
    """

    data: Value
    end: int
    raising: Raising
    bias: Array | None
    repeats: bool
    interleaves: bool


@dataclass(frozen=True)
class RaisingCandidate:
    """What may be a deconvolution. `bias` is by channels of the convolutions.

    `shape` is that of what the convolutions make, `tensor` the output by where it comes from in
    there; `shared` counts values in between that others use too, `length` the nodes behind.
    """

    data: Value
    end: int
    blocks: list[ChannelBlock]
    shape: list[Size]
    tensor: Tensor
    bias: Array | None = None
    shared: int = 0
    length: int = 0

    @property
    def _signals(self) -> tuple[Signal, ...]:
        return self._real.signals

    @property
    def _real(self) -> ChannelBlock:
        return next(b for b in self.blocks if b.filter is not None)

    @property
    def enlarges(self) -> Fraction:
        """The product of the strides."""
        behind = (d.stride for axis in self.tensor.axes for d in axis if isinstance(d, Signal))
        patterns = (len(d.pulse) for x in self.tensor.axes[2:] for d in x if isinstance(d, Pattern))
        wide = math.prod((*(s.stride for s in self._signals), *behind, *patterns))
        return Fraction(wide, math.prod(self._real.strides))

    def rank(self) -> tuple[Fraction, int, bool, int]:
        """Return what makes one candidate better than another."""
        whole = all(min(s.offset, s.tail) >= 0 for s in self._signals)
        return self.enlarges, -self.shared, whole, self.length

    def built(self) -> Decomposition:
        """Return the deconvolution; Unreadable where it is none."""
        rank = len(self._signals) + 2
        tensor = self.tensor
        if len(tensor.axes) != rank:
            raise Unreadable("the rank changes behind the convolution")
        want_batch(tensor, self.shape[0])
        channels = single(without_ones(tensor.axes[1], 1))
        if not isinstance(channels, Pattern) or None in channels.pulse or not channels.pulse:
            raise Unreadable("the output's channels are not those of the convolution")
        signals = tuple(signal(tensor, a, self.shape[a]) for a in range(2, rank))
        if any(None in s.pulse for s in signals):
            raise Unreadable("zeros are inserted behind the convolution")
        behind = Behind(tuple(c for c in channels.pulse if c is not None), signals)
        return Decomposition(
            data=self.data,
            end=self.end,
            raising=compose(self.blocks, behind),
            bias=self._bias(behind),
            repeats=any(s.pulse.count(0) > 1 for s in self._signals),
            interleaves=any(s.stride > 1 for s in signals),
        )

    def _bias(self, behind: Behind) -> Array | None:
        """Return the bias by output channels; Unreadable where it is not one value for each."""
        if self.bias is None:
            return None
        if any(max(s.offset, s.tail) > 0 for s in behind.signals):
            raise Unreadable("zeros are put beside what has got a bias")
        entries = itertools.product(*(s.pulse for s in behind.signals))
        added = [sum(e or 0 for e in row) for row in entries]
        values = self.bias[np.add.outer(np.array(behind.channels), added)]
        if (values.view(f"u{values.itemsize}") != values[:, :1].view(f"u{values.itemsize}")).any():
            raise Unreadable("the bias differs between the phases of an output channel")
        return np.ascontiguousarray(values[:, 0])


@dataclass
class RaisingSite:
    """A convolution, or several that a Concat joins along the channels.

    `refused` collects why parts of its surroundings were not understood.
    """

    graph: Graph
    core: Node
    refused: list[str] = field(default_factory=list)

    @property
    def is_candidate(self) -> bool:
        """Whether something that enlarges stands beside it."""
        before = [n for v in self._convolved() for n in self._upstream(v)]
        behind = self._users(self.core)
        behind += [m for n in behind if known_type(n) == "Add" for m in self._users(n)]
        enlarges = any(known_type(n) in ENLARGING for n in before)
        return enlarges or any(known_type(n) == "DepthToSpace" for n in behind)

    def _users(self, node: Node) -> list[Node]:
        return [self.graph.node(i) for i, _ in self.graph.users(Value(node.id))]

    def best(self) -> Decomposition | None:
        """Return the deconvolution that covers most, None where there is none."""
        candidates: list[RaisingCandidate] = []
        for source in self._sources():
            try:
                candidates += self._from(source)
            except Unreadable as e:
                self._refuse(e)
        for candidate in sorted(candidates, key=RaisingCandidate.rank, reverse=True):
            try:
                return candidate.built()
            except Unreadable as e:
                self._refuse(e)
        return None

    def _refuse(self, reason: Unreadable) -> None:
        if str(reason) not in self.refused:
            self.refused.append(str(reason))

    def _parts(self) -> list[Node]:
        if known_type(self.core) in CONVOLVING:
            return [self.core]
        return [self.graph.node(v.node) for v in self.graph.inputs_of(self.core.id)]

    @property
    def convolutions(self) -> list[Node]:
        """The convolutions of the core."""
        return [p for p in self._parts() if known_type(p) in CONVOLVING]

    @property
    def is_complete(self) -> bool:
        """Whether the core is a convolution, or joins nothing but convolutions and zeros."""
        parts = self._parts()
        others = [p for p in parts if known_type(p) not in (*CONVOLVING, "Broadcast", "Const")]
        if others or not self.convolutions:
            return False
        rank = self.graph.spec(Value(self.core.id)).rank
        op = self.core.op
        if isinstance(op, Concat):
            return rank is not None and op.axis % rank == 1
        return known_type(self.core) in CONVOLVING

    @property
    def compressed(self) -> ElementType | None:
        """The element type in which the filter is stored, where it is converted."""
        value = self.graph.inputs_of(self.convolutions[0].id)[1]
        node = self.graph.node(value.node)
        if known_type(node) != "Convert":
            return None
        return self.graph.spec(self.graph.inputs_of(node.id)[0]).dtype

    def _convolved(self) -> list[Value]:
        return [self.graph.inputs_of(p.id)[0] for p in self.convolutions]

    def _upstream(self, value: Value) -> list[Node]:
        """Return the nodes that move elements on their way to a value, the nearest first."""
        chain: list[Node] = []
        while len(chain) < LONGEST:
            node = self.graph.node(value.node)
            if known_type(node) not in TRACED or value.port:
                break
            chain.append(node)
            value = moved_input(self.graph, node)
        return chain

    def _sources(self) -> list[Value]:
        """Return the values that all convolutions may be computed from, the farthest first."""
        common: list[Value] | None = None
        for value in self._convolved():
            chain = [value, *(moved_input(self.graph, n) for n in self._upstream(value))]
            common = chain if common is None else [v for v in chain if v in common]
        return list(reversed(common or []))

    def _from(self, source: Value) -> list[RaisingCandidate]:
        """Return what may be a deconvolution of the data `source`."""
        spec = self.graph.spec(source)
        if spec.shape is None or len(spec.shape) < 3:
            raise Unreadable("the rank of the data is unknown")
        if 0 in spec.shape:
            raise Unreadable("the data is empty")
        shape = [
            Size.of(d) if isinstance(d, int) else Size.symbol(f"axis {a}")
            for a, d in enumerate(spec.shape)
        ]
        steps = AxisTracer(self.graph, SizeEvaluator(self.graph, {source: shape}))
        real = {p.id: self._block(p, source, shape, steps) for p in self.convolutions}
        made = [shape[0], Size.of(0), *next(iter(real.values())).sizes]
        blocks = [
            real[p.id] if p.id in real else ChannelBlock(steps.zeros(Value(p.id), 1, made), ())
            for p in self._parts()
        ]
        if any(b.sizes != tuple(made[2:]) for b in real.values()):
            raise Unreadable("the convolutions that are joined have different sizes")
        made[1] = Size.of(sum(b.count for b in blocks))
        core = RaisingCandidate(source, self.core.id, blocks, made, Tensor.source(made))
        return [c for c in self._ends(core, steps) if c.enlarges > 1]

    def _block(
        self, part: Node, source: Value, shape: list[Size], steps: AxisTracer
    ) -> ChannelBlock:
        """Return what one convolution contributes."""
        graph = self.graph
        op = part.op
        assert isinstance(op, ConvolutionBase)
        data, weights = graph.inputs_of(part.id)
        w = folded(graph, weights)
        if w is None:
            raise Unreadable("the filter is no constant")
        if not is_finite(w):
            raise Unreadable("the filter is not finite")
        w = w if part.type == "GroupConvolution" else w[None]
        n = w.ndim - 3
        strides, dilations = filled(op.strides, n, 1), filled(op.dilations, n, 1)
        signals = self._read(data, source, shape, steps, w)
        spans = [d * (k - 1) for d, k in zip(dilations, w.shape[3:], strict=True)]
        pads = pads_of(op, spans, graph.node(data.node).type, signals)
        signals = tuple(s.padded(*p) for s, p in zip(signals, pads, strict=True))
        rows = zip(signals, spans, strides, strict=True)
        sizes = tuple(windows(s.size - r, by) for s, r, by in rows)
        steps.vectors.shapes[Value(part.id)] = [shape[0], Size.of(w.shape[0] * w.shape[1]), *sizes]
        return ChannelBlock(w.shape[0] * w.shape[1], sizes, w, signals, dilations, strides)

    def _read(
        self, data: Value, source: Value, shape: list[Size], steps: AxisTracer, w: Array
    ) -> tuple[Signal, ...]:
        """Return the spatial axes that a convolution reads; Unreadable where channels are moved."""
        chain: list[Node] = []
        value = data
        while value != source:
            chain.append(self.graph.node(value.node))
            value = moved_input(self.graph, chain[-1])
        tensor = Tensor.source(shape)
        for node in reversed(chain):
            tensor = steps.apply(node, tensor)
            steps.vectors.shapes[Value(node.id)] = tensor.shape
        if len(tensor.axes) != len(shape) or w.ndim - 1 != len(shape):
            raise Unreadable("the data of the convolution has another rank")
        want_batch(tensor, shape[0])
        channel = single(without_ones(tensor.axes[1], 1))
        whole = channel == single(Tensor.source(shape).axes[1])
        if not whole or (shape[1].number not in (None, w.shape[0] * w.shape[2])):
            raise Unreadable("channels are moved in front of the convolution")
        signals = tuple(signal(tensor, a, shape[a]) for a in range(2, len(shape)))
        if any(entry for s in signals for entry in s.pulse):
            raise Unreadable("channels are moved into space in front of the convolution")
        return signals

    def _ends(self, core: RaisingCandidate, steps: AxisTracer) -> Iterator[RaisingCandidate]:
        """Yield what ends at the core or at a node behind it that moves its elements."""
        waiting = [core]
        while waiting:
            ended = waiting.pop()
            value = Value(ended.end)
            steps.vectors.shapes[value] = ended.tensor.shape
            if ended is core or known_type(self.graph.node(ended.end)) != "Add":
                yield ended
            users = self.graph.users(value)
            shared = ended.shared + (len(users) > 1)
            for user in dict.fromkeys(u for u, _ in users):
                after = self._follow(self.graph.node(user), value, ended.tensor, ended.bias, steps)
                if after is not None and ended.length < LONGEST:
                    tensor, bias = after
                    longer = replace(ended, end=user, tensor=tensor, bias=bias, shared=shared)
                    waiting.append(replace(longer, length=ended.length + 1))

    def _follow(
        self, node: Node, value: Value, tensor: Tensor, bias: Array | None, steps: AxisTracer
    ) -> tuple[Tensor, Array | None] | None:
        """Return what a node makes of a value, None where that cannot be followed."""
        if known_type(node) == "Add" and value == Value(self.core.id):
            added = self._bias(node, value, tensor)
            return None if added is None else (tensor, added)
        if known_type(node) not in BEHIND or moved_input(self.graph, node) != value:
            return None
        try:
            return steps.apply(node, tensor), bias
        except Unreadable as e:
            self._refuse(e)
            return None

    def _bias(self, node: Node, value: Value, tensor: Tensor) -> Array | None:
        """Return the constant that an Add puts on every channel, None where it is none."""
        other = [v for v in self.graph.inputs_of(node.id) if v != value]
        array = folded(self.graph, other[0]) if len(other) == 1 else None
        rank, channels = len(tensor.axes), tensor.shape[1].number or 0
        if not isinstance(node.op, Add) or node.op.auto_broadcast != "numpy":
            return None
        if array is None or array.ndim > rank or not is_finite(array):
            return None
        shape = (*(1,) * (rank - array.ndim), *array.shape)
        if any(n != 1 for a, n in enumerate(shape) if a != 1) or shape[1] not in (1, channels):
            return None
        return np.array(np.broadcast_to(array.reshape(-1), (channels,)))


def want_batch(tensor: Tensor, count: Size) -> None:
    """Raise Unreadable where the first axis is not the batch of `count` elements."""
    digit = single(without_ones(tensor.axes[0], 0))
    whole = isinstance(digit, Signal) and digit.axis == 0 and digit.is_whole
    if not whole and not (digit == Pattern((0,)) and count == Size.of(1)):
        raise Unreadable("the batch is not kept as it is")


def signal(tensor: Tensor, axis: int, count: Size) -> Signal:
    """Return a spatial axis; Unreadable where it does not run along that of the source."""
    digit = single(without_ones(tensor.axes[axis], axis))
    if isinstance(digit, Pattern) and count == Size.of(1):
        # Any stride that keeps the positions apart will do for a single element.
        return Signal(axis, count, len(digit.pulse), pulse=digit.pulse).trimmed()
    if not isinstance(digit, Signal) or digit.axis != axis:
        raise Unreadable(f"spatial axis {axis - 2} does not run along that of the data")
    return digit


LARGEST_AXIS = 1 << 11  # elements of an axis whose weights are looked at


def upsampling(graph: Graph, node: Node) -> Decomposition:
    """Return the deconvolution of an Interpolate; Unreadable where it is none."""
    op: Any = node.op
    data = graph.inputs_of(node.id)[0]
    spec = graph.spec(data)
    if spec.shape is None or not 3 <= len(spec.shape) <= 5 or not isinstance(spec.shape[1], int):
        raise Unreadable("the channels of the data are not known")
    if spec.dtype is None or not spec.dtype.is_real:
        raise Unreadable(f"the data are {spec.dtype}")
    made = _copies(graph, node, data) if op.mode == "nearest" else _weights(graph, node, data)
    if max(made.strides) < 2:
        raise Unreadable("it enlarges no axis")
    return Decomposition(data, node.id, made, None, repeats=True, interleaves=False)


def _copies(graph: Graph, node: Node, data: Value) -> Raising:
    shape = graph.spec(data).shape or ()
    sizes = [
        Size.of(d) if isinstance(d, int) else Size.symbol(f"axis {a}") for a, d in enumerate(shape)
    ]
    tracer = AxisTracer(graph, SizeEvaluator(graph, {data: sizes}))
    wide = tracer.apply(node, Tensor.source(sizes))
    if wide.shape[:2] != sizes[:2]:
        raise Unreadable("it enlarges batch or channels")
    axes, channels = range(2, len(shape)), sizes[1].number or 0
    signals = tuple(signal(wide, a, sizes[a]) for a in axes)
    single = (1,) * len(axes)
    ones = np.ones((channels, 1, 1, *single), _container(graph, data))
    made = [sizes[0], sizes[1], *(s.size for s in signals)]
    block = ChannelBlock(channels, tuple(made[2:]), ones, signals, single, single)
    kept = tuple(signal(Tensor.source(made), a, made[a]) for a in axes)
    return compose([block], Behind(tuple(range(channels)), kept))


def _weights(graph: Graph, node: Node, data: Value) -> Raising:
    """Return the deconvolution of weighted neighbours, at exact sizes."""
    op: Any = node.op
    shape = graph.spec(data).shape
    others = [graph.spec(v).known for v in graph.inputs_of(node.id)[1:]]
    if not is_static(shape) or any(v is None for v in others):
        raise Unreadable(f'Interpolate "{node.name}" ends otherwise for other sizes: they are open')
    if op.mode == "area" or any(op.pads_begin) or any(op.pads_end):
        raise Unreadable(f'Interpolate "{node.name}" pads, or is of the mode {op.mode}')
    resizes, rules = op.resizes(shape, *others)
    by_axis = {r.axis: r for r in resizes if r.size != shape[r.axis]}
    if any(a < 2 for a in by_axis):
        raise Unreadable("it enlarges batch or channels")
    lines = [_line(node, by_axis.get(a), shape[a], rules) for a in range(2, len(shape))]
    rows = [spelled(np.arange(len(h)), tap) for tap, h in lines]
    kernel = np.ones(())
    for (taps, *_), (_, h) in zip(rows, lines, strict=True):
        kernel = np.multiply.outer(kernel, [h[t] if 0 <= t < len(h) else 0.0 for t in taps])
    dtype = _container(graph, data)
    if not np.array_equal(kernel.astype(dtype).astype(np.float64), kernel):
        raise Unreadable(f"its weights are no numbers of {dtype}")
    filter = np.tile(kernel.astype(dtype), (shape[1], 1, 1, *(1,) * kernel.ndim))
    _, dilations, begin, end, extra = zip(*rows, strict=True)
    strides = tuple(tap.stride for tap, _ in lines)
    return Raising(filter, strides, dilations, begin, end, extra)


def _line(
    node: Node, resize: Resize | None, size: int, rules: Rules
) -> tuple[TapAxis, list[float]]:
    """Return stride and taps of an axis with h; Unreadable where the weights differ by position."""
    if resize is None:
        return TapAxis(1, 0, (0,), 0), [1.0]
    if max(size, resize.size) > LARGEST_AXIS or size < 2:
        raise Unreadable(f"an axis of {size} elements becomes one of {resize.size}")
    matrix = dense_matrix(axis_weights(resize, size, rules), size, np.float64)
    for stride in {resize.size // size, (resize.size - 1) // (size - 1)} - {0, 1}:
        taps = _taps(matrix, stride)
        if taps:
            low, high = min(taps), max(taps)
            places = tuple(range(high - low + 1))
            h = [taps.get(low + k, 0.0) for k in places]
            return TapAxis(stride, low, places, resize.size - stride * size), h
    raise Unreadable(
        f'Interpolate "{node.name}" weighs neighbours by position ({size} elements become '
        f"{resize.size}, {rules.transformation}); a deconvolution weighs all alike, and zeros "
        "beyond the borders"
    )


def _taps(matrix: Array, stride: int) -> dict[int, float] | None:
    """Return h where A[o, i] = h[o - stride * i] throughout; None where it is not so."""
    rows, columns = np.indices(matrix.shape)
    lowest = stride * (matrix.shape[1] - 1)
    k = rows - stride * columns + lowest
    least, most = np.full(k.max() + 1, np.inf), np.full(k.max() + 1, -np.inf)
    np.minimum.at(least, k, matrix)
    np.maximum.at(most, k, matrix)
    met = np.isfinite(least)
    if (least[met] != most[met]).any():
        return None
    used = np.flatnonzero(met & (most != 0))
    return {int(j) - lowest: float(most[j]) for j in used}


def _container(graph: Graph, data: Value) -> np.dtype[Any]:
    dtype = graph.spec(data).dtype
    assert dtype is not None
    return np.dtype(dtype.container)
