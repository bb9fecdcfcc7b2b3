"""One deconvolution of the surroundings of a convolution, followed by the proof's own walk.

A site is a convolution, the data that it is computed from, and a node where its deconvolution ends.

A convolution of stride V reads u[j], with element i at j = S1*i + r1 - p (r1 a live place of a
period), and gives v[q] = sum over t of w[t] u[V*q + D*t]. Behind it position o of the output
holds v[q] of a channel that r2 chooses, o = S2*q + r2 - P. So x[i] meets w[t] if V divides
S1*i + a, a = r1 - p - D*t, in the output

    o = S*i + k,   S = S1*S2 / V,   k = S2*a / V + r2 - P.

If S is whole, and all i meet the same weights, that is a deconvolution of stride S whose tap
k - kmin collects all w[t] with that k, and which begins at -kmin. Its end follows from the size of
the output. The t that an i meets depend on i modulo V / gcd(S1, V), its phase: of several phases
all must give one filter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
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
from irdeconv.proof.maps import KernelSums, Read, View, last
from irdeconv.proof.model import (
    REFUSED,
    RULES,
    Fact,
    Ints,
    Layer,
    Model,
    Obligation,
    Port,
    TypedArray,
    Unproved,
    need,
)
from irdeconv.proof.sizes import LARGEST_SIZES, Case, Size
from irdeconv.proof.steps import biased, called
from irdeconv.proof.symbolic import RegionWalk, open_leaf
from irdeconv.proof.views import Leaf, Numbers, data_view, plain, regrouped
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.verify.adapter import fact_of, layer_of

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
            [made] = self.region.step(layer, given)
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


class Sums:
    """A filter (M, C/g, *K) into which elements are added; `exact` until a sum is rounded.

    Floating-point elements are summed as doubles, with the error of every sum (Knuth's two-sum).
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.total: Array = np.zeros(shape, np.int64 if dtype.kind in "iub" else np.float64)
        self.hits: Array = np.zeros((shape[0], *shape[2:]), np.int64)
        self.exact = True

    @property
    def count(self) -> int:
        """The largest number of elements in one sum."""
        return int(self.hits.max(initial=0))

    @np.errstate(all="ignore")
    def add(self, rows: Array, at: Sequence[int], values: Array) -> None:
        """Add values (rows, C/g) to the tap `at` of some output channels."""
        where: Any = (rows, slice(None), *at)
        taps: Any = (rows, *at)
        a, b = self.total[where], values.astype(self.total.dtype)
        total = a + b if self.hits[taps].any() else b  # -0 + 0 would lose the sign
        v = total - a
        self.exact &= bool(((a - (total - v)) + (b - v) == 0).all())
        self.hits[taps] += 1
        self.total[where] = total

    @np.errstate(all="ignore")
    def result(self) -> Array:
        """Return the sums in the filter's type; Unproved if one does not fit it."""
        out = self.total.astype(self.dtype)
        wide = out.astype(self.total.dtype)
        same = wide == self.total
        need((same if self.dtype.kind in "iub" else np.isfinite(wide)).all(), UNFIT)
        self.exact &= bool(same.all())
        return out


UNFIT = "a sum of filter elements does not fit its type"
LARGEST_FILTER = 1 << 28  # elements of a raised filter


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """A deconvolution from the value `data` to the output of node `end`, and what it replaces.

    `filter` is [g, C/g, M/g, *K]. `exact` says that every element of it is an element of the old
    one, or an exact sum. `summed` is the largest number of old elements in a new one. `repeats`
    says that elements of the data were repeated, `interleaves` that channels were moved into space.
    `bias` has one value per output channel. `convolutions` are those that it replaces,
    `compressed` is the element type in which their filters are stored.
    """

    data: Value
    end: int
    filter: Array
    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output_padding: Ints
    exact: bool = True
    summed: int = 1
    repeats: bool = True
    interleaves: bool = False
    bias: Array | None = None
    convolutions: Sequence[Node] = ()
    compressed: ElementType | None = None


@dataclass(frozen=True)
class TapAxis:
    """One axis of the result: the stride, lowest k, the places of k from it, O - S*I."""

    stride: int
    low: int
    places: Ints
    excess: int

    @property
    def size(self) -> int:
        """The taps from the lowest to the highest k."""
        return self.places[-1] + 1


@dataclass(frozen=True)
class PeriodPart:
    """Output channels `rows` that, at some residues of the axes, one convolution's `own` make."""

    residues: Ints
    block: KernelSums
    rows: Array
    own: Array


class ViewReading:
    """A view of data of sizes `data` as a deconvolution; Unproved if it is none."""

    def __init__(self, case: Case, view: View, data: Sequence[Size]) -> None:
        self.case, self.data = case, data
        need(len(view.runs) == len(data), "the rank changes behind the convolution")
        view = plain(view)
        if max(view.runs) > 1:  # axes of size 1 that have another place than in the data
            view = plain(regrouped(case, view, view.shape))
        batch, channels, *self.out = view.axes
        kept = batch.coordinate == 0 and batch.radix == 1 and case.is_zero(batch.shift)
        kept = kept and view.runs == (1,) * len(data) and case.is_zero(batch.length - data[0])
        need(kept, "the batch is not kept as it is")
        need(channels.coordinate is None, "the output's channels are not those of the convolution")
        for a, axis in enumerate(self.out):
            need(axis.coordinate == a + 1, f"spatial axis {a} does not run along that of the data")
        need(view.blocks, "there is no convolution")
        need(all(len(b) == 1 for b in view.blocks or ()), "the data of a convolution is joined")
        self.blocks = [b[0] for b in view.blocks or ()]
        self.table = view.table[0]
        self.bias = None if view.bias is None else view.bias[0]
        self._met: dict[Any, list[tuple[int, int]]] = {}

    @property
    def enlarges(self) -> Fraction:
        """The product of the strides."""
        pairs = zip(self.out, self.blocks[0].reads, strict=True)
        factors = (Fraction(o.radix * r.axis.radix, r.stride) for o, r in pairs)
        return math.prod(factors, start=Fraction(1))

    @property
    def is_whole(self) -> bool:
        """Whether no element of the data is cut off in front of the convolutions."""
        ends = (
            (r.live[0] - r.axis.shift, r.axis.shift + r.axis.length - (n - 1) * r.axis.radix - last)
            for b in self.blocks
            for n, r in zip(self.data[2:], b.reads, strict=True)
            for last in [r.live[-1] + 1]
        )
        return all(map(self.case.implies, itertools.chain(*ends)))

    def compose(self, data: Value, end: int) -> Decomposition:
        """Return the deconvolution of the data, which ends at a node."""
        first = self.blocks[0]
        for b in self.blocks:
            own = np.arange(b.channels.size).reshape(b.channels.shape)
            moved = b.channels.shape != first.channels.shape or (b.channels != own).any()
            need(not moved, "channels are moved in front of the convolution")
        parts = self._parts()
        lines = [self._line(parts, a) for a in range(len(self.out))]
        filter, sums = self._filter(parts, lines, (0,) * len(lines))
        phases = itertools.product(*(self._phases(a) for a in range(len(lines))))
        same = all((self._filter(parts, lines, p)[0] == filter).all() for p in phases if any(p))
        need(same, "the convolution's stride gives elements of the data different filters")
        interleaves = any(axis.radix > 1 for axis in self.out)
        filter, dilations, front, back, extra = _trimmed(filter, lines, all_taps=not interleaves)
        return Decomposition(
            data=data,
            end=end,
            filter=filter,
            strides=tuple(line.stride for line in lines),
            dilations=dilations,
            pads_begin=front,
            pads_end=back,
            output_padding=extra,
            exact=sums.exact,
            summed=sums.count,
            repeats=any(len(r.live) > 1 for b in self.blocks for r in b.reads),
            interleaves=interleaves,
        )

    def _parts(self) -> list[PeriodPart]:
        """Return which convolution makes which outputs."""
        starts = np.cumsum([0, *(b.rows for b in self.blocks)])
        parts = []
        for residues in itertools.product(*(range(axis.radix) for axis in self.out)):
            row = last(self.table, residues)
            owner = np.where(row < 0, -1, np.searchsorted(starts, row, "right") - 1)
            for i in np.unique(owner[row >= 0]):
                chosen = np.flatnonzero(owner == i)
                parts.append(PeriodPart(residues, self.blocks[i], chosen, row[chosen] - starts[i]))
        return parts

    def _phases(self, a: int) -> range:
        """The phases of an element along a spatial axis."""
        read = self.blocks[0].reads[a]
        return range(read.stride // math.gcd(read.stride, read.axis.radix))

    def _stride(self, a: int) -> int:
        (spread, by), *others = {(b.reads[a].axis.radix, b.reads[a].stride) for b in self.blocks}
        need(not others, "the convolutions' data is spread, or their strides are, differently")
        stride, rest = divmod(spread * self.out[a].radix, by)
        need(not rest, f"the convolution's stride {by} leaves no whole stride on axis {a}")
        return stride

    def _line(self, parts: Sequence[PeriodPart], a: int) -> TapAxis:
        stride, phases = self._stride(a), self._phases(a)
        every = {
            k
            for p in parts
            for phase in phases
            for _, k in self._reached(p.block, a, p.residues[a], phase)
        }
        need(every, f"the convolution reads nothing but zeros along spatial axis {a}")
        excess = self.out[a].length - self.data[2 + a] * stride
        need(type(excess) is int, f"spatial axis {a} grows with another size than the data's")
        low = min(every)
        return TapAxis(stride, low, tuple(sorted(k - low for k in every)), excess)

    def _reached(self, block: KernelSums, a: int, residue: int, phase: int) -> list[Any]:
        """Return (t, k) for every tap that elements of a phase meet in outputs of a residue."""
        key = a, block.reads[a], block.weights.shape[3 + a], residue, phase
        if key not in self._met:
            self._met[key] = self._pairs(*key)
        return self._met[key]

    def _pairs(self, a: int, read: Read, taps: int, residue: int, phase: int) -> list[Any]:
        out, n, stride = self.out[a], self.data[2 + a], self._stride(a)
        inner, by, each, found = read.axis.radix, read.stride, len(self._phases(a)), []
        j = self.case.free("j")
        i = j * each + phase
        for t, live in itertools.product(range(taps), read.live):
            first = phase * inner + live + read.pad - read.dilation * t - read.axis.shift
            need(type(first) is type(out.shift) is int, f"spatial axis {a} begins at an open place")
            if first % by:
                continue
            k = out.radix * (first // by) + residue - out.shift - stride * phase
            o, q = i * stride + k, j * (each * inner // by) + first // by
            # Wherever the deconvolution has the pair, it must exist here.
            given = [o, out.length - 1 - o, i, n - 1 - i]
            front = read.axis.inside(i * inner + live)
            behind = [e for low, high in read.bounds for e in (q - low, high - 1 - q)]
            behind += out.inside(o + out.shift)
            for rows, text in (
                (behind, f"spatial axis {a} is padded where the scatter goes on"),
                (front, f"axis {a + 2} is cropped and then padded"),
            ):
                need(all(self.case.implies(e, given) for e in rows), text)
            found.append((t, k))
        return found

    def _filter(
        self, parts: Sequence[PeriodPart], lines: Sequence[TapAxis], phase: Ints
    ) -> tuple[Array, Sums]:
        """Gather all taps of a phase into a filter [g, C/g, M/g, *K] from the lowest k on."""
        groups, _, inner = self.blocks[0].weights.shape[:3]
        total, kernel = len(self.table), [line.size for line in lines]
        count = total * inner * math.prod(kernel)
        need(count <= LARGEST_FILTER, f"its filter would have {count} elements")
        need(total % groups == 0, f"{total} output channels are not {groups} groups")
        sums = Sums((total, inner, *kernel), self.blocks[0].weights.dtype)
        for p in parts:
            group, place = np.divmod(p.own, p.block.weights.shape[1])
            kept = (group == p.rows // (total // groups)).all()
            need(kept, "the channels of the groups are interleaved")
            part = p.block.weights[group, place]
            places = [
                [(t, k - line.low) for t, k in self._reached(p.block, a, p.residues[a], phase[a])]
                for a, line in enumerate(lines)
            ]
            for combination in itertools.product(*places):
                taps, at = zip(*combination, strict=True)
                sums.add(p.rows, at, last(part, taps))
        return sums.result().reshape(groups, total // groups, inner, *kernel).swapaxes(1, 2), sums


def _trimmed(
    filter: Array, lines: Sequence[TapAxis], *, all_taps: bool
) -> tuple[Array, Ints, Ints, Ints, Ints]:
    """Return a filter as it is spelled, dilations, pads and output_padding.

    The sub-pixel forms pad their taps with zeros, which go unless `all_taps` are wanted.
    """
    rows = []
    for a, line in enumerate(lines, 3):
        used = np.flatnonzero((filter != 0).any(tuple({*range(filter.ndim)} - {a})))
        rows.append(spelled(np.array(line.places) if all_taps or not used.size else used, line))
    for a, (taps, *_) in enumerate(rows, 3):
        filter = np.concatenate([filter, np.zeros_like(filter.take([0], a))], a).take(taps, a)
    _, dilations, begin, end, extra = zip(*rows, strict=True)
    return filter, dilations, begin, end, extra


def spelled(used: Array, line: TapAxis) -> tuple[Ints, int, int, int, int]:
    """Return an axis as OpenVINO spells it: taps (-1: a zero), dilation, pads, output_padding.

    `used` are the taps that are needed. A begin below 0 has no legal spelling, nor an
    output_padding of a stride or more: zero taps take their place.
    """
    apart = math.gcd(*(int(u - used[0]) for u in used)) or 1
    first, final = int(used[0]), int(used[-1])
    first -= -(-max(line.low + first, 0) // apart) * apart
    begin = -(line.low + first)
    end = final + line.low - line.stride + 1 - line.excess  # O = S(I-1) + K - begin - end
    longer = -(-max(-end - line.stride + 1, 0) // apart) * apart
    final, end = final + longer, end + longer
    taps = tuple(t if 0 <= t < line.size else -1 for t in range(first, final + 1, apart))
    return taps, apart, begin, max(end, 0), max(-end, 0)


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

    def rank(self) -> tuple[Fraction, int, bool, int]:
        """Return a key by which better candidates are larger."""
        return self.reading.enlarges, -self.shared, self.reading.is_whole, self.length

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
