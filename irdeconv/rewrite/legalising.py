"""Rules that rewrite a convolution which the target cannot run.

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
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from irdeconv.rewrite import layer_rules
from irdeconv.rewrite.emit import Ints, RuleCall
from irdeconv.rewrite.layer_rules import LayerLimits
from irdeconv.rewrite.native import proposals as native_proposals

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
        return native_proposals(limits)
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
    options = itertools.product(*([d for d in range(s, 0, -1) if s % d == 0] for s in strides))
    better = [s for s in options if limits.unmet(strides=s) < now and s != strides]
    better.sort(key=math.prod, reverse=True)  # a small stride computes outputs to throw away
    yield from (RuleCall(layer_rules.sliced_stride, (s,)) for s in better[:MOST_CANDIDATES])


def _kernels(limits: LayerLimits) -> Iterator[RuleCall]:
    """Kernels filled with zeros or split, the ones with few products first."""
    judge, kernel = partial(limits.unmet, "kernel", pads=limits.no_pads), limits.kernel
    now = judge()
    if not now:  # of a 3-D kernel there are thousands of sizes to look at
        return
    ranges = [sorted({*range(k, k + MOST_FILLED + 1), *kernel} - {*range(k)}) for k in kernel]
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
