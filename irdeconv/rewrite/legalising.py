"""Rules that rewrite a convolution or deconvolution which the target cannot run.

Each rule starts from a violated condition and leads to convolutions that violate less. Rules are
applied in the order of their stages, so a search ends. All are exact; docs/proof.md has the lemmas.

    stage  rule                                         starts from a condition on
    1      1-D as 2-D, 3-D as 2-D                       spatial axes, rank
    2      groups one by one, or one dense filter       groups, depthwise, multiplier
    3      dilation as zeros in the filter              dilation
    4      stride 1 and a Slice with steps              stride
    -      crops as zeros in the filter                 negative pads
    5      kernel filled with zeros, split              kernel
    6      channels split, filled with zeros            inputs, outputs
    7      pads made equal, by convolutions             pads
    8      tiles                                        size

The form native applies to targets that list ConvolutionBackpropData. Pads become a crop or
output_padding, groups a block-diagonal filter, dilations and sizes of kernels zeros in the filter;
a kernel beyond a limit is split into parts that start at multiples of the stride, each of which
reads the data shifted by whole elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import OpError
from irdeconv.ir.geometry import IntVector, extent
from irdeconv.ir.spec import Array, is_static
from irdeconv.ops import core
from irdeconv.ops.core import vector
from irdeconv.ops.dialect_openvino import backprop_data
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat, Squeeze1
from irdeconv.rewrite import layer_rules
from irdeconv.rewrite.emit import (
    AXIS_0,
    ConvolutionLayer,
    DeconvolutionInputs,
    FormBuilder,
    Ints,
    Option,
    RuleCall,
    Skip,
    X,
    add_bias,
    crop,
    exact_shape,
    filled,
)
from irdeconv.rewrite.layer_rules import LayerLimits

MOST_FILLED = 8  # zeros that join a kernel on an axis
MOST_KERNEL_PARTS = 64  # of a kernel
MOST_CANDIDATES = 3  # of each rule
MOST_JOINED_CHANNELS = 64  # that are added


def proposals(b: Any, layer: Any) -> list[RuleCall]:
    """Return the rules that may help a layer that violates conditions, with their parameters."""
    limits = LayerLimits.of(b, layer)
    if limits is None:
        return []
    if not layer.forward:
        return _native_proposals(limits)
    # A rule may leave pads out, or join groups, so conditions that are violated then count as well.
    words = limits.blamed() | limits.blamed(pads=limits.no_pads) | limits.blamed_if_dense()
    if not b.target.has("Reshape") and limits.has_wrong_axes:
        return []  # nothing else changes the number of axes
    if limits.crop_failures():
        return [RuleCall(layer_rules.uncropped)]
    calls: list[RuleCall] = []
    for stage, names, propose in STAGES:
        if stage > layer.stage and words & names:
            calls += propose(limits)
    return calls


def _flatter(limits: LayerLimits) -> Iterator[RuleCall]:
    """1-D as 2-D; 3-D as 2-D."""
    axes = len(limits.kernel)
    if axes == 1:
        yield from (RuleCall(layer_rules.as_plane, (place,)) for place in (0, 1))
    if axes == 3 and isinstance(limits.size[2], int):
        yield RuleCall(layer_rules.as_planes)


def _ungrouped(limits: LayerLimits) -> Iterator[RuleCall]:
    if limits.groups > 1:
        yield RuleCall(layer_rules.dense)
        yield RuleCall(layer_rules.group_by_group)


def _undilated(limits: LayerLimits) -> Iterator[RuleCall]:
    if any(d > 1 for d in limits.layer.dilations):
        yield RuleCall(layer_rules.undilated)


def _unstrided(limits: LayerLimits) -> Iterator[RuleCall]:
    strides = limits.layer.strides
    now = limits.unmet()
    options = itertools.product(*(layer_rules.divisors(s)[::-1] for s in strides))
    better = [s for s in options if limits.unmet(strides=s) < now and s != strides]
    better.sort(key=math.prod, reverse=True)  # a small stride computes outputs to throw away
    yield from (RuleCall(layer_rules.sliced_stride, (s,)) for s in better[:MOST_CANDIDATES])


def _kernels(limits: LayerLimits) -> Iterator[RuleCall]:
    """Kernels filled with zeros or split, the ones with few products first."""
    judge, kernel = partial(limits.unmet, "kernel", pads=limits.no_pads), limits.kernel
    now = judge()
    if not now:  # of a 3-D kernel there are thousands of sizes to look at
        return
    ranges = layer_rules.wider_sizes(kernel, MOST_FILLED)
    wider = sorted(itertools.product(*ranges), key=math.prod)
    fits = (k for k in wider if k != kernel and judge(kernel=k) < now)
    # Two, as the smallest one may violate a condition on something else.
    yield from (RuleCall(layer_rules.filled_kernel, (k,)) for k in itertools.islice(fits, 2))
    split = (n for n in layer_rules.kernel_parts(kernel, MOST_KERNEL_PARTS) if n != kernel)
    parts = sorted((n for n in split if judge(kernel=n) < now), key=lambda n: _products(kernel, n))
    for n in parts[:MOST_CANDIDATES]:
        yield RuleCall(layer_rules.kernel_as_channels, (n,))
    if limits.b.sums:
        yield from (RuleCall(layer_rules.kernel_as_sum, (n,)) for n in parts[:MOST_CANDIDATES])


def _products(kernel: Ints, part: Ints) -> tuple[int, int]:
    """Return the taps of all parts, and the number of parts."""
    parts = [-(-k // n) for k, n in zip(kernel, part, strict=True)]
    return math.prod(parts) * math.prod(part), math.prod(parts)


def _channels(limits: LayerLimits) -> Iterator[RuleCall]:
    """Channels split into parts, or filled up with zeros."""
    if limits.groups > 1:  # stage 2 has made one group of them
        return
    pads = limits.no_pads
    now = limits.unmet(pads=pads)
    for name, split in (
        ("inputs", layer_rules.inputs_split),
        ("outputs", layer_rules.outputs_split),
    ):
        count = getattr(limits, name)
        if name == "inputs" and not limits.b.sums:
            continue
        for parts in _part_counts(count):
            if limits.unmet(pads=pads, **{name: -(-count // parts)}) < now:
                yield RuleCall(split, (parts,))
                break
    more = _filling(limits)
    if more != (0, 0):
        yield RuleCall(layer_rules.filled_channels, more)


def _filling(limits: LayerLimits) -> tuple[int, int]:
    """Return the numbers of inputs and outputs to add so that fewer conditions are violated."""

    def unmet(i: int, o: int, about: str = "") -> int:
        counts = {"inputs": limits.inputs + i, "outputs": limits.outputs + o}
        return limits.unmet(about, pads=limits.no_pads, **counts)

    now, added = unmet(0, 0), [0, 0]
    for side, name in enumerate(("inputs", "outputs")):
        if unmet(0, 0, name):
            extras = ((n, 0) if side == 0 else (0, n) for n in range(1, MOST_JOINED_CHANNELS + 1))
            added[side] = next((more for more in extras if unmet(*more) < now), (0, 0))[side]
    if not any(added):  # conditions on both
        both = ((n, n) for n in range(1, MOST_JOINED_CHANNELS + 1))
        return next((more for more in both if unmet(*more) < now), (0, 0))
    return added[0], added[1]


def _part_counts(count: int) -> Iterator[int]:
    """Yield numbers of parts, growing faster and faster: exact ones matter only if they are few."""
    parts = 2
    while parts <= count:
        yield parts
        parts += max(1, parts // 8)


def _evened(limits: LayerLimits) -> Iterator[RuleCall]:
    """Pads that are equal on both sides, or on all sides; pads by convolutions that copy."""
    begin, end = limits.layer.known_pads()
    if min(*begin, *end) < 0:
        return
    by_axis = tuple(map(max, begin, end))
    for pads in dict.fromkeys((by_axis, (max(by_axis),) * len(begin))):
        if (pads, pads) != (begin, end):
            yield RuleCall(layer_rules.equal_pads, (pads,))
    yield RuleCall(layer_rules.even_kernel_pads)
    now = limits.unmet()
    # Limits of hardware are fields of a few bits. Each step leaves a smaller pad for the next one.
    for most in (n for n in (31, 15, 7, 3, 2, 1) if n < max(by_axis)):
        if limits.unmet(pads=tuple(tuple(min(p, most) for p in v) for v in (begin, end))) < now:
            yield RuleCall(layer_rules.pads_by_convolution, (most,))
            break


def _tiles(limits: LayerLimits) -> Iterator[RuleCall]:
    now = limits.unmet(pads=limits.no_pads)
    size = limits.size[2:]
    for axis, n in enumerate(size):
        if n is None or None in limits.size:
            continue
        for parts in _part_counts(n):
            part = -(-n // parts) + limits.kernel[axis]
            tile = (*size[:axis], part, *size[axis + 1 :])
            if part < n and limits.unmet(pads=limits.no_pads, size=tile) < now:
                yield RuleCall(layer_rules.tiles, (axis, parts))
                break


GROUPED = ("groups", "depthwise", "multiplier", "GroupConvolution")
Propose = Callable[[LayerLimits], Iterator[RuleCall]]
STAGES: tuple[tuple[int, frozenset[str], Propose], ...] = (
    (1, frozenset(["spatial_axes", "rank", "max_rank", "kernel_d"]), _flatter),
    (2, frozenset([*GROUPED, "inputs", "outputs"]), _ungrouped),
    (3, frozenset(["dilation"]), _undilated),
    (4, frozenset(["stride"]), _unstrided),
    (5, frozenset(["kernel"]), _kernels),
    (6, frozenset(["inputs", "outputs"]), _channels),
    (7, frozenset(["pad", "pad_begin", "pad_end"]), _evened),
    (8, frozenset(["size"]), _tiles),
)


_Ends = tuple[Ints, Ints, Ints]  # pads_begin, pads_end, output_padding
MOST_NATIVE_PARTS, LARGEST_PART = 16, 40  # of a kernel; taps of a part
MOST_PADDINGS = 64  # sizes of output_padding that are tried
COPIED_TAP = 8  # units of work for a tap of a copy
LARGEST_COPY = 2**19  # elements of a filter that copies
OPERATIONS = ("ConvolutionBackpropData", "GroupConvolutionBackpropData")
ABOUT_KERNELS = {"kernel", "pad", "pad_begin", "pad_end", "output_padding", "size"}


@dataclass(frozen=True)
class DeconvolutionLayer(Generic[X]):
    """A deconvolution of data x (N, C, *I) with a filter w (g, C/g, M/g, *K) and a bias.

    The output is the scatter without its first `begin` and last `end` elements per axis; negative
    numbers extend it by zeros. `stage` is that of the last rule that made it.
    """

    x: X
    w: X
    strides: Ints
    dilations: Ints
    begin: Ints
    end: Ints
    bias: X | None = None
    stage: int = 0
    forward: ClassVar[bool] = False
    has_known_pads: ClassVar[bool] = True

    def known_pads(self) -> tuple[Ints, Ints]:
        """Return the crops at both ends."""
        return self.begin, self.end

    def padded(self, begin: Ints, end: Ints, **changes: Any) -> DeconvolutionLayer[X]:
        """Return the layer with other ends and other changes."""
        return replace(self, begin=begin, end=end, **changes)

    def emit(self, b: FormBuilder[X]) -> X:
        """Emit it, or the result of a rule if the target cannot run it."""
        return b.attempt(self, partial(_plain, b, self))


def native(op: core.Deconvolution, b: FormBuilder[X], of: DeconvolutionInputs[X]) -> X | Skip:
    """core.Deconvolution -> a deconvolution that the target has, and crops."""
    pads = vector(b, of.pads_begin), vector(b, of.pads_end)
    if not is_static(b.spec(of.w).shape) or not all(isinstance(p, IntVector) for p in pads):
        return Skip("the filter's shape or the pads are known only at run time")
    begin, end = (p.values for p in pads if isinstance(p, IntVector))
    layer = DeconvolutionLayer(of.x, of.w, op.strides, op.dilations, begin, end, of.bias)
    return _without_joined_zeros(b, layer).emit(b)


def _without_joined_zeros(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> DeconvolutionLayer[X]:
    """Let zeros in the kernel take the place of zeros that join the output."""
    less = [max(-p, 0) for p in layer.begin]
    more = [max(-p - s + 1, 0) for p, s in zip(layer.end, layer.strides, strict=True)]
    if not any((*less, *more)):
        return layer
    w = layer_rules.spread_taps(b, layer.w, layer.dilations)
    plain = replace(layer, w=w, dilations=(1,) * len(less))
    made: DeconvolutionLayer[X] = layer_rules.with_zeros(b, plain, less, more)
    return made


def _plain(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> X:
    """Emit a deconvolution by its own pads, or with a larger output that is cropped."""
    return b.choose(
        [
            Option("pads", partial(_emit, b, layer, *w), partial(_window_fits, layer, w), True)
            for w in _plain_windows(b, layer)
        ]
    )


def _window_fits(layer: DeconvolutionLayer[X], window: _Ends, b: Any) -> bool:
    limits = LayerLimits.of(b, layer)
    return limits is not None and not limits.unmet(pads=window)


def _windows(strides: Ints, extents: Ints, begin: Ints, end: Ints) -> Iterator[_Ends]:
    """Yield pads_begin, pads_end, output_padding of outputs that contain the wanted one."""
    axes = range(len(strides))
    for more in range(min(max(strides), MOST_PADDINGS)):
        padding = tuple(max(min(more, s - 1), -q) for s, q in zip(strides, end, strict=True))
        yield begin, tuple(q + p for q, p in zip(end, padding, strict=True)), padding
    rest = tuple(max(-q, 0) for q in end)
    yield (0,) * len(begin), (0,) * len(begin), rest
    total = [max(e - s, 0) for e, s in zip(extents, strides, strict=True)]
    same = tuple(min(begin[a], total[a] // 2) for a in axes)
    yield same, tuple(total[a] - same[a] for a in axes), (0,) * len(begin)


def _emit(
    b: FormBuilder[X], layer: DeconvolutionLayer[X], begin: Ints, end: Ints, padding: Ints
) -> X:
    """Add the operation; raise OpError unless its output contains that of the layer."""
    groups = exact_shape(b, layer.w)[0]
    front = [p - q for p, q in zip(layer.begin, begin, strict=True)]
    back = [p - (q - m) for p, q, m in zip(layer.end, end, padding, strict=True)]
    if min(*front, *back, *begin) < 0:  # ONNX has no negative pads
        raise OpError("the output would be too small", code="E400")
    w = layer.w if groups > 1 else b.add(Squeeze1(), layer.w, b.const(AXIS_0))
    op = backprop_data(groups)(layer.strides, begin, end, layer.dilations, "explicit", padding)
    return crop(b, add_bias(b, b.add(op, layer.x, w), layer.bias), [0, 0, *front], [0, 0, *back])


def stride_in_steps(b: FormBuilder[X], layer: DeconvolutionLayer[X], first: Ints) -> X:
    """A stride -> zeros inserted by a deconvolution with one tap, and the rest of the stride."""
    ones, zero = (1,) * len(first), (0,) * len(first)

    def step(w: X) -> X:
        return DeconvolutionLayer(layer.x, w, first, ones, zero, zero, stage=4).emit(b)

    x = layer_rules.copied(b, layer.x, step)
    rest = tuple(s // f for s, f in zip(layer.strides, first, strict=True))
    return _without_joined_zeros(b, replace(layer, x=x, strides=rest, stage=4)).emit(b)


def _small_parts(kernel: Ints) -> Iterator[Ints]:
    """Yield sizes of parts of a kernel, the large ones first, that are not too many."""
    parts = layer_rules.kernel_parts(kernel, MOST_NATIVE_PARTS)
    return (part for part in parts if max(part) <= LARGEST_PART)


@dataclass(frozen=True)
class _AxisParts:
    """The parts of a kernel along one axis: the shift of the data of each, and its taps.

    `taps[part][place]` is a tap of the kernel, or K for a zero. The parts read the data from place
    `low` of the shifted data to `high`. Of copies `places` has the shift and the place of each, and
    `surplus` are the outputs behind the last one that is wanted.
    """

    shifts: Ints
    taps: tuple[Ints, ...]
    low: int
    high: int
    places: tuple[tuple[int, int], ...] = ()
    surplus: int = 0


def _axis_parts(k: int, n: int, stride: int, size: int, begin: int, end: int) -> _AxisParts:
    """Cover k taps by parts of n that start at multiples of the stride."""
    shifts, taps, tap = [], [], 0
    while tap < k:
        start = tap // stride * stride
        stop = min(start + n, k)
        if stop <= tap:
            raise OpError("the parts of the kernel are shorter than the stride", code="E400")
        taps.append(tuple(t if tap <= t < stop else k for t in range(start, start + n)))
        shifts.append(start // stride)
        tap = stop
    outputs = stride * (size - 1) + k - begin - end
    used = [
        s
        for shift, row in zip(shifts, taps, strict=True)
        for place, t in enumerate(row)
        if t < k
        for s in (
            max(shift, -((place - begin) // stride)),
            min(shift + size - 1, (begin + outputs - 1 - place) // stride),
        )
    ]
    return _AxisParts(tuple(shifts), tuple(taps), min(used), max(used))


def kernel_in_parts(
    b: FormBuilder[X], layer: DeconvolutionLayer[X], part: Ints, by_convolution: bool
) -> X:
    """A kernel -> parts: shifted copies of the data as channels of one deconvolution.

    Copies are made by crops, pads and a Concat, or by a convolution with one tap in each channel.
    """
    shape = exact_shape(b, layer.w)
    rows = zip(shape[3:], part, layer.strides, layer.begin, layer.end, strict=True)
    sizes = [layer_rules.size_of(b, layer.x, 2 + a) for a in range(len(part))]
    axes = [_axis_parts(k, n, s, i, p, q) for (k, n, s, p, q), i in zip(rows, sizes, strict=True)]
    x = (_shifted_by_convolution if by_convolution else _shifted)(b, layer.x, axes)
    w = layer_rules.taken_taps(b, layer.w, [a.taps for a in axes])
    begin, end = list(layer.begin), list(layer.end)
    for a, axis in enumerate(axes):
        size = layer_rules.size_of(b, layer.x, 2 + a)
        begin[a] -= axis.low * layer.strides[a]
        end[a] += layer.strides[a] * (axis.high - size + 1) + part[a] - shape[3 + a]
    return replace(layer, x=x, w=w, begin=tuple(begin), end=tuple(end), stage=5).emit(b)


def _shifted(b: FormBuilder[X], x: X, axes: Sequence[_AxisParts]) -> X:
    size = [layer_rules.size_of(b, x, 2 + a) for a in range(len(axes))]
    copies = []
    for shift in itertools.product(*(a.shifts for a in axes)):
        begin = [q - a.low for q, a in zip(shift, axes, strict=True)]
        rows = zip(shift, axes, size, strict=True)
        copies.append(layer_rules.outside(b, x, begin, [a.high - q - n + 1 for q, a, n in rows]))
    return b.add(Concat(1), *copies)


def _shifted_by_convolution(b: FormBuilder[X], x: X, axes: Sequence[_AxisParts]) -> X:
    channels, n = layer_rules.size_of(b, x, 1), len(axes)
    kernel = tuple(a.shifts[-1] + 1 for a in axes)
    shifts = list(itertools.product(*(a.shifts for a in axes)))
    taps = filled(b, x, (len(shifts), channels, channels, *kernel), 0)
    for i, shift in enumerate(shifts):
        place = tuple(a.shifts[-1] - q for a, q in zip(axes, shift, strict=True))
        at: Any = (i, slice(None), slice(None), *place)
        taps[at] = np.eye(channels)
    w = b.const(taps.reshape(1, len(shifts) * channels, channels, *kernel))
    begin = IntVector(tuple(a.shifts[-1] - a.low for a in axes))
    size = (layer_rules.size_of(b, x, 2 + a) for a in range(n))
    end = IntVector(tuple(a.high - s + 1 for a, s in zip(axes, size, strict=True)))
    return ConvolutionLayer(x, w, (1,) * n, (1,) * n, begin, end).emit(b)


def _copied_axis(k: int, s: int, f: int, size: int, begin: int, end: int) -> _AxisParts:
    """Return how the copies of stride_by_copies cover an axis of `size` elements and k taps."""
    work.take(COPIED_TAP * (k + s), "its number of taps")
    rest, outputs = s // f, s * (size - 1) + k - begin - end
    first, last = -((begin + s - 1) // s), (k - 1 - begin) // s
    rows: dict[tuple[int, int], Ints] = {}
    for d, a in itertools.product(range(first, last + 1), range(f)):
        start = s * d + rest * a + begin
        row = tuple(t if 0 <= t < k else k for t in range(start, start + rest))
        if min(row) < k:
            rows[d - first, a] = row
    if not rows or outputs < 1:
        raise OpError("no tap of the kernel is left", code="E400")
    shifts = tuple(range(last - first + 1))
    high = -(-outputs // s) - 1 - first
    return _AxisParts(shifts, tuple(rows.values()), -first, high, tuple(rows), -outputs % s)


def _copies(b: FormBuilder[X], layer: DeconvolutionLayer[X], first: Ints) -> list[_AxisParts]:
    shape = exact_shape(b, layer.w)
    size = (layer_rules.size_of(b, layer.x, 2 + a) for a in range(len(first)))
    rows = zip(shape[3:], layer.strides, first, size, layer.begin, layer.end, strict=True)
    return [_copied_axis(*row) for row in rows]


def stride_by_copies(b: FormBuilder[X], layer: DeconvolutionLayer[X], first: Ints, parts: int) -> X:
    """A stride S -> copies of the data by its first factor F, and a kernel as long as S/F.

    Output S*p + r meets x[i] through tap S*(p - i) + r + begin. The copy (d, a) of a channel has
    x[i] at place F*(i + d) + a, and its taps are those for S*d + (S/F)*a + begin + r, r < S/F. The
    copies, and zeros for a whole number of them, are cut into parts. Their results are added.
    """
    axes = _copies(b, layer, first)
    rest = tuple(s // f for s, f in zip(layer.strides, first, strict=True))
    w = layer_rules.taken_taps(b, layer.w, [a.taps for a in axes])
    filter = _copying_filter(b, layer, axes, first, parts)
    w = layer_rules.padded_axis(b, w, 1, filter.shape[2] - (b.spec(w).shape or ())[1])
    x = layer.x
    # One copy of each element is the data itself, unless the outputs end before the last one.
    ends = [layer_rules.size_of(b, x, 2 + i) - 1 for i in range(len(first))]
    if any((len(a.shifts), a.low, a.high) != (1, 0, n) for a, n in zip(axes, ends, strict=True)):
        x = _shifted_by_convolution(b, x, axes)
    zero, ones = (0,) * len(first), (1,) * len(first)
    behind = replace(layer, strides=rest, begin=zero, end=tuple(a.surplus for a in axes), stage=4)

    count = filter.shape[2] // parts

    def part(i: int, bias: X | None) -> X:
        copy = b.const(np.ascontiguousarray(filter[:, :, i * count : (i + 1) * count]))
        y = DeconvolutionLayer(x, copy, first, ones, zero, zero, stage=4).emit(b)
        taps = layer_rules.window(b, w, 1, i * count, count)
        return replace(behind, x=y, w=taps, bias=bias).emit(b)

    sum, key = part(0, layer.bias), object()
    for i in range(1, parts):
        sum = b.add(Add(), sum, b.repeat(key, partial(part, i, None)))
    return sum


def _copying_filter(
    b: FormBuilder[X],
    layer: DeconvolutionLayer[X],
    axes: Sequence[_AxisParts],
    first: Ints,
    parts: int,
) -> Array:
    """Return the filter [1, shifts * C, copies * C, *F] that puts each copy in its place.

    Zeros behind the copies make their number a multiple of `parts`.
    """
    shape = exact_shape(b, layer.w)
    channel, shifts = np.arange(shape[1]), [len(a.shifts) for a in axes]
    every = list(itertools.product(*(a.places for a in axes)))
    copies = -(-len(every) * shape[1] // parts) * parts
    out = filled(b, layer.x, (1, math.prod(shifts) * shape[1], copies, *first), 0)
    for i, row in enumerate(every):
        read = int(np.ravel_multi_index([d for d, _ in row], shifts))
        at: Any = (read * shape[1] + channel, i * shape[1] + channel, *(a for _, a in row))
        out[(0, *at)] = 1
    return out


def _native_proposals(limits: LayerLimits) -> list[RuleCall]:
    """Return the rules that may help a deconvolution that violates conditions."""
    b, layer = limits.b, limits.layer
    words = limits.blamed_if_dense()
    for window in _plain_windows(b, layer):
        words |= limits.blamed(pads=window)
    calls: list[RuleCall] = []
    if layer.stage < 1 and len(layer.strides) == 1 and words & {"spatial_axes", "rank", "max_rank"}:
        calls += [RuleCall(layer_rules.as_plane, (place,)) for place in (0, 1)]
    grouped = {"groups", "depthwise", "multiplier", OPERATIONS[1]}
    if layer.stage < 2 and limits.groups > 1 and words & grouped:
        calls += [RuleCall(layer_rules.dense), RuleCall(layer_rules.group_by_group)]
    if layer.stage < 3 and max(layer.dilations) > 1 and "dilation" in words:
        calls.append(RuleCall(layer_rules.undilated))
    if layer.stage <= 4 and "stride" in words:
        copies = [*_copies_proposed(limits)] if "kernel" in words else []
        b.memo.copied |= bool(copies)
        if copies and b.copies:  # the kernel has too many parts for any other rule
            return calls + copies
        first = _first_step(limits)
        calls += [RuleCall(stride_in_steps, (first,))] if first else []
    if layer.stage < 5 and words & ABOUT_KERNELS:
        calls += _native_kernels(limits)
    return calls


def _plain_windows(b: FormBuilder[X], layer: DeconvolutionLayer[X]) -> list[_Ends]:
    rows = zip(exact_shape(b, layer.w)[3:], layer.dilations, strict=True)
    extents = tuple(extent(k, d) for k, d in rows)
    return [*dict.fromkeys(_windows(layer.strides, extents, layer.begin, layer.end))]


def _first_step(limits: LayerLimits) -> Ints | None:
    """Return the least factor of the strides that violates less."""
    judge, strides = partial(limits.unmet, pads=limits.no_pads), limits.layer.strides
    now, factors = judge(), map(layer_rules.divisors, strides)
    own = (f for f in itertools.product(*factors) if max(f) > 1 and f != strides)
    return next((f for f in own if judge(strides=f) < now), None)


def _copies_proposed(limits: LayerLimits) -> Iterator[RuleCall]:
    """Propose copies of the data if the kernel has too many parts for other rules.

    They are cut into so many parts that neither this step nor one behind it has to cut further.
    """
    layer, kernel, first = limits.layer, limits.kernel, _first_step(limits)
    if first is None or limits.groups > 1 or max(layer.dilations) > 1:
        return
    judge = partial(limits.unmet, pads=limits.no_pads)
    by_kernel, now = partial(judge, "kernel", strides=first), judge(strides=first)
    short = any(by_kernel(kernel=n) < by_kernel() for n in _small_parts(kernel))
    if short and (kernel != layer.strides or any(layer.begin)):
        return
    try:
        axes = _copies(limits.b, layer, first)
    except OpError:
        return
    steps, rest = 0, tuple(s // f for s, f in zip(layer.strides, first, strict=True))
    while any(rest) and judge(strides=rest) > now:
        smaller = tuple(s // f for s, f in zip(rest, first, strict=True))
        if smaller == rest:  # a factor of 1 divides no stride away
            break
        steps, rest = steps + 1, smaller
    inputs = limits.inputs * math.prod(len(a.shifts) for a in axes)
    copies = limits.inputs * math.prod(len(a.places) for a in axes)
    for n in range(1, copies + 1) if limits.b.sums else (1,):
        if _copies_fit(partial(judge, strides=first), first, (inputs, -(-copies // n)), steps):
            yield RuleCall(stride_by_copies, (first, n))
            return


def _copies_fit(judge: Any, first: Ints, channels: tuple[int, int], steps: int) -> bool:
    """Whether a step of copies between these channel counts meets the conditions on channels.

    The last one of the steps behind it must meet them, too.
    """
    growth = math.prod(first)
    wide = channels[1] * growth ** max(steps - 1, 0)
    least = judge(inputs=1, outputs=1, kernel=first)
    return all(
        c * m * growth <= LARGEST_COPY and judge(inputs=c, outputs=m, kernel=first) <= least
        for c, m in ([channels, (wide, wide * growth)] if steps else [channels])
    )


def _native_kernels(limits: LayerLimits) -> Iterator[RuleCall]:
    """Kernels filled with zeros in front or behind, or split into parts."""
    judge = partial(limits.unmet, "kernel", pads=limits.no_pads)
    layer, kernel, now = limits.layer, limits.kernel, judge()
    sizes = itertools.product(*layer_rules.wider_sizes(kernel, 4))
    counted = [(judge(kernel=k), math.prod(k), k) for k in sizes]
    wider = [k for count, _, k in sorted(counted) if count <= now and k != kernel][:3]
    rows = zip(kernel, layer.end, layer.dilations, strict=True)
    whole = tuple(k - min(q, 0) // d for k, q, d in rows)  # zeros for the output padding
    if whole != kernel and whole not in wider:
        wider.append(whole)
    for n in wider:
        yield RuleCall(layer_rules.filled_kernel, (n, (0,) * len(n)))
        fronts = tuple(a - k for a, k in zip(n, kernel, strict=True))
        yield RuleCall(layer_rules.filled_kernel, (n, fronts))
    if max(layer.dilations) > 1:
        return
    sized = (n for n in _small_parts(kernel) if now and judge(kernel=n) < now)
    for n in itertools.islice(sized, 2):
        for by_convolution in (False, True):
            yield RuleCall(kernel_in_parts, (n, by_convolution))
