"""Composing one deconvolution: of the proof's walk around convolutions, or of a resize.

A convolution of stride V reads u[j], with element i at j = S1*i + r1 - p (r1 a live place of a
period), and gives v[q] = sum over t of w[t] u[V*q + D*t]. Behind it position o of the output
holds v[q] of a channel that r2 chooses, o = S2*q + r2 - P. So x[i] meets w[t] if V divides
S1*i + a, a = r1 - p - D*t, in the output

    o = S*i + k,   S = S1*S2 / V,   k = S2*a / V + r2 - P.

If S is whole, and all i meet the same weights, that is a deconvolution of stride S whose tap
k - kmin collects all w[t] with that k, and which begins at -kmin. Its end follows from the size of
the output. The t that an i meets depend on i modulo V / gcd(S1, V), its phase: of several phases
all must give one filter.

A resize is a depthwise deconvolution of stride S if its output o is the sum over i of h[o - S*i]
x[i] along each axis. Copies by whole factors are, at every size. With linear weights a resize
repeats the border, while a deconvolution continues with zeros, so the sizes decide: aligned corners
with O = S(I-1) + 1 end with the data. Such a resize is found and proved at exact sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array, is_static
from irdeconv.kernels.interpolation import axis_weights, dense_matrix, nearest_of
from irdeconv.proof.maps import KernelSums, Read, View, last
from irdeconv.proof.model import Ints, Unproved, need
from irdeconv.proof.sizes import Case, Size
from irdeconv.proof.views import plain, regrouped
from irdeconv.rewrite.compressed_filters import constant


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
        """Return one axis."""
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


LARGEST_SIDE = 1 << 12  # positions of an axis, taps of a filter
SIDES_TOO_LARGE = "its axes are too large to be looked at"


def upsampling(graph: Graph, node: Node) -> Decomposition:
    """Return the deconvolution of an Interpolate; Unproved if it is none."""
    data = graph.inputs_of(node.id)[0]
    name, spec, out = f'Interpolate "{node.name}"', graph.spec(data), node.spec().shape
    shape, dtype = spec.shape, spec.dtype
    known = shape is not None and 3 <= len(shape) <= 5 and isinstance(shape[1], int)
    need(known, "the channels of the data are not known")
    if dtype is None or not dtype.is_real:
        raise Unproved(f"the data are {dtype}")
    if not is_static(shape) or not is_static(out):
        raise Unproved(f"{name} ends otherwise for other sizes: they are open")
    need(shape[:2] == out[:2], "it enlarges batch or channels")
    need(max(*shape[2:], *out[2:]) <= LARGEST_SIDE, SIDES_TOO_LARGE)
    weights, rule = _resized(graph, node, shape, out)
    lines = [_line(name, w, rule) for w in weights]
    need(any(line.stride > 1 for line, _ in lines), "it enlarges no axis")
    spellings = [spelled(np.array(line.places), line) for line, _ in lines]
    each = [
        np.array([h.get(line.low + t, Fraction(0)) for t in taps], object)
        for (line, h), (taps, *_) in zip(lines, spellings, strict=True)
    ]
    kernel: Any = reduce(np.multiply.outer, each)
    filter = kernel.astype(float).astype(dtype.container)
    exact = all(Fraction(float(a)) == b for a, b in zip(filter.flat, kernel.flat, strict=True))
    need(exact, f"its weights are no numbers of {dtype}")
    tiled = np.tile(filter, (shape[1], 1, 1, *(1,) * kernel.ndim))
    _, dilations, begin, end, extra = zip(*spellings, strict=True)
    return Decomposition(
        data=data,
        end=node.id,
        filter=tiled,
        strides=tuple(line.stride for line, _ in lines),
        dilations=dilations,
        pads_begin=begin,
        pads_end=end,
        output_padding=extra,
    )


def _line(name: str, weights: Array, rule: str) -> tuple[TapAxis, dict[int, Fraction]]:
    """Return stride and taps of an axis with h; Unproved if the weights differ by position."""
    count, size = weights.shape
    if count == size:
        return TapAxis(1, 0, (0,), 0), {0: Fraction(1)}
    for stride in {count // size, (count - 1) // max(size - 1, 1)} - {0, 1}:
        last = stride * (size - 1)
        with suppress(Unproved):
            met = _taps(weights, count + last, stride, 1, last)
            h = {k - last: weight for k, weight in met.items() if weight}
            places = tuple(range(max(h) - min(h) + 1))
            return TapAxis(stride, min(h), places, count - stride * size), h
    text = f"{name} weighs neighbours by position ({size} elements become {count}, {rule}); "
    raise Unproved(text + "a deconvolution weighs all alike, and zeros beyond the borders")


def resize_unproved(raised: Graph, deconvolution: Node, source: Graph) -> str | None:
    """Return why a deconvolution is not proved equal to the resize of its name; None if it is."""
    found = [n for n in source.find(deconvolution.name) if n.type == "Interpolate"]
    if len(found) != 1:
        return "no resize has its name"
    if raised.inputs_of(deconvolution.id)[0] != source.inputs_of(found[0].id)[0]:
        return "it reads something else"
    try:
        _compare(raised, deconvolution, source, found[0])
    except Unproved as e:
        return str(e)
    return None


def _compare(raised: Graph, node: Node, source: Graph, resize: Node) -> None:
    shape, out = source.spec(source.inputs_of(resize.id)[0]).shape, resize.spec().shape
    filter = constant(raised, raised.inputs_of(node.id)[1])
    if not is_static(shape) or not is_static(out) or filter is None:
        raise Unproved("sizes are open, or the filter is no constant")
    kernel = filter.shape[2 - len(shape) :]
    each = shape[:2] == out[:2] and filter.size == shape[1] * math.prod(kernel)
    need(each, "it is no filter for each channel")
    need(max(*shape[2:], *out[2:], *kernel) <= LARGEST_SIDE, SIDES_TOO_LARGE)
    need(node.spec().shape == out, "the sizes of the outputs differ")
    weights, _ = _resized(source, resize, shape, out)
    op: Any = node.op
    terms = (weights, kernel, op.strides, op.dilations, op.pads_begin)
    taps = [_taps(*axis) for axis in zip(*terms, strict=True)]
    kernels = filter.reshape(shape[1], *kernel).astype(np.float64)
    alike = np.isfinite(kernels).all() and (kernels == kernels[:1]).all()
    need(alike, "the channels have different filters")
    for at in itertools.product(*(range(n) for n in kernels.shape[1:])):
        wanted = [t[k] for t, k in zip(taps, at, strict=True) if k in t]
        met = len(wanted) == len(taps)
        same = not met or math.prod(wanted) == Fraction(float(kernels[(0, *at)]))
        need(same, f"tap {list(at)} differs")


def _taps(
    weights: Array, count: int, stride: int, dilation: int, begin: int
) -> dict[int, Fraction]:
    """Return the value of each tap that any pair of positions meets, along an axis."""
    o, i = np.ogrid[: weights.shape[0], : weights.shape[1]]
    k, between = np.divmod(o + begin - stride * i, dilation)
    met = (between == 0) & (k >= 0) & (k < count)
    need(not weights[~met].any(), "an output reads an input that no tap meets")
    taps = np.zeros(count)
    taps[k[met]] = weights[met]
    need((taps[k[met]] == weights[met]).all(), "outputs weigh their inputs differently")
    return {int(t): Fraction(float(taps[t])) for t in np.unique(k[met])}


def _resized(
    source: Graph, resize: Node, shape: tuple[int, ...], out: tuple[int, ...]
) -> tuple[list[Array], str]:
    """Return the weights [O, I] along each spatial axis, and the rule of coordinates.

    They are those of the kernel, so that coordinates are rounded as OpenVINO rounds them.
    """
    op: Any = resize.op
    plain = not (any(op.pads_begin) or any(op.pads_end) or getattr(op, "antialias", False))
    need(plain, "a resize with pads or antialias is not followed")
    others = [source.spec(v).known for v in source.inputs_of(resize.id)[1:]]
    need(all(v is not None for v in others), "the sizes of the resize are not constant")
    resizes, rules = op.resizes(shape, *others)
    followed = rules.mode in ("nearest", "linear", "linear_onnx")
    need(followed, f"the mode {rules.mode} is not followed")
    made = [np.eye(n) for n in shape[2:]]
    for r in resizes:
        if r.axis >= 2 and rules.mode == "nearest":
            made[r.axis - 2] = np.eye(shape[r.axis])[nearest_of(r, shape[r.axis], rules)]
        elif r.axis >= 2:
            size = shape[r.axis]
            made[r.axis - 2] = dense_matrix(axis_weights(r, size, rules), size, np.float64)
    return made, rules.transformation
