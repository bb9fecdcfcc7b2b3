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
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from irdeconv.ir.spec import is_static
from irdeconv.rewrite import layer_rules
from irdeconv.rewrite.convolving import ConvolutionLayer, convolution_facts
from irdeconv.rewrite.emit import RuleCall
from irdeconv.rewrite.native import DeconvolutionLayer
from irdeconv.rewrite.native import proposals as native_proposals
from irdeconv.rewrite.target_conditions import Facts

Ints = tuple[int, ...]
MOST_FILLED = 8  # zeros that join a kernel on an axis
MOST_KERNEL_PARTS = 64  # of a kernel
MOST_CANDIDATES = 3  # of each rule
MOST_JOINED_CHANNELS = 64  # that are added


@dataclass(frozen=True)
class LayerLimits:
    """A convolution in numbers, and the target that judges it."""

    b: Any  # Planner
    layer: ConvolutionLayer[Any]
    groups: int
    outputs: int  # of a group
    inputs: int  # of a group
    kernel: Ints
    size: tuple[int | None, ...]

    @staticmethod
    def of(b: Any, layer: ConvolutionLayer[Any]) -> LayerLimits | None:
        """Return the numbers of a layer, None if its filter's shape or its pads are unknown."""
        shape, size = b.spec(layer.w).shape, b.spec(layer.x).shape
        if not is_static(shape) or not layer.has_known_pads or size is None:
            return None
        known = tuple(n if isinstance(n, int) else None for n in size)
        groups, outputs, inputs, *kernel = shape
        return LayerLimits(b, layer, groups, outputs, inputs, tuple(kernel), known)

    def failures(self, **changes: Any) -> list[str]:
        """Return the violated conditions of the layer with other numbers."""
        layer = self.layer
        begin, end = changes.get("pads", layer.known_pads())
        groups = changes.get("groups", self.groups)
        lists = {
            "stride": changes.get("strides", layer.strides),
            "dilation": changes.get("dilations", layer.dilations),
            "pad_begin": begin,
            "pad_end": end,
            "size": changes.get("size", self.size[2:]),
        }
        numbers = [changes.get("outputs", self.outputs), changes.get("inputs", self.inputs)]
        filter = (groups, *numbers, *changes.get("kernel", self.kernel))
        bias = layer.bias is not None
        values, axes = convolution_facts((), filter, True, lists, True, bias)
        spec = self.b.spec(layer.x)
        dtype = spec.dtype.name if spec.dtype else None
        rank = len(lists["stride"]) + 2
        common = {"rank": rank, "batch": self.size[0], "type": dtype, "channels": None}
        operation = "Convolution" if groups == 1 else "GroupConvolution"
        found: list[str] = self.b.target.failures(operation, Facts({**common, **values}, axes))
        return found

    def crop_failures(self) -> list[str]:
        """Return the violated conditions of the Slice that negative pads become."""
        rows = enumerate(zip(*self.layer.known_pads(), strict=True), 2)
        axis = tuple(a for a, pads in rows if min(pads) < 0)
        spec = self.b.spec(self.layer.x)
        values = {
            "rank": len(self.size),
            "batch": self.size[0],
            "channels": self.size[1],
            "type": spec.dtype.name if spec.dtype else None,
            "axis": axis,
            "step": (1,) * len(axis),
        }
        facts = Facts(values, {"size": self.size[2:], "step": (1,) * len(self.size)})
        found: list[str] = self.b.target.failures("Slice", facts) if axis else []
        return found

    def dense_failures(self) -> list[str]:
        """Return the violated conditions of the layer as one group."""
        outputs, inputs = self.groups * self.outputs, self.groups * self.inputs
        if self.groups == 1:
            return []
        return self.failures(groups=1, outputs=outputs, inputs=inputs, pads=self.no_pads)

    @property
    def no_pads(self) -> tuple[Ints, Ints]:
        """Pads of 0."""
        zero = (0,) * len(self.kernel)
        return zero, zero


def proposals(b: Any, layer: Any) -> list[RuleCall]:
    """Return the rules that may help a layer that violates conditions, with their parameters."""
    if isinstance(layer, DeconvolutionLayer):
        return native_proposals(b, layer)
    limits = LayerLimits.of(b, layer)
    if limits is None:
        return []
    texts = [*limits.failures(), *limits.failures(pads=limits.no_pads), *limits.dense_failures()]
    words = set(re.findall(r"[A-Za-z_]+", " ".join(texts)))
    words |= {w[:-2] for w in words if w[-2:] in ("_d", "_h", "_w")}
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
    now = len(limits.failures())
    options = itertools.product(*([d for d in range(s, 0, -1) if s % d == 0] for s in strides))
    better = [s for s in options if len(limits.failures(strides=s)) < now and s != strides]
    better.sort(key=math.prod, reverse=True)
    yield from (RuleCall(layer_rules.sliced_stride, (s,)) for s in better[:MOST_CANDIDATES])


def _kernels(limits: LayerLimits) -> Iterator[RuleCall]:
    """Kernels filled with zeros or split, the ones with few products first."""
    pads, kernel = limits.no_pads, limits.kernel
    now = len(limits.failures(pads=pads))
    ranges = [sorted({*range(k, k + MOST_FILLED + 1), *kernel} - {*range(k)}) for k in kernel]
    wider = sorted(itertools.product(*ranges), key=math.prod)
    fits = (k for k in wider if k != kernel and len(limits.failures(pads=pads, kernel=k)) < now)
    yield from (RuleCall(layer_rules.filled_kernel, (k,)) for k in itertools.islice(fits, 2))
    parts = sorted(_splits(limits, now), key=lambda n: _products(kernel, n))
    for n in parts[:MOST_CANDIDATES]:
        yield RuleCall(layer_rules.kernel_as_channels, (n,))
    if limits.b.sums:
        yield from (RuleCall(layer_rules.kernel_as_sum, (n,)) for n in parts[:MOST_CANDIDATES])


def _splits(limits: LayerLimits, now: int) -> Iterator[Ints]:
    """Yield sizes of parts of a kernel that violate less, with the channels of all parts or not."""
    pads, kernel = limits.no_pads, limits.kernel
    axes = []
    for k in kernel:
        balanced = {-(-k // p) for p in range(1, k + 1)}
        axes.append(sorted({*balanced, *(n for n in range(1, 10) if n <= k)}, reverse=True)[:24])
    for n in itertools.product(*axes):
        if n == kernel or len(limits.failures(pads=pads, kernel=n)) >= now:
            continue
        if math.prod(-(-k // m) for k, m in zip(kernel, n, strict=True)) <= MOST_KERNEL_PARTS:
            yield n


def _products(kernel: Ints, part: Ints) -> tuple[int, int]:
    """Return the taps of all parts, and how many parts there are."""
    parts = [-(-k // n) for k, n in zip(kernel, part, strict=True)]
    return math.prod(parts) * math.prod(part), math.prod(parts)


def _channels(limits: LayerLimits) -> Iterator[RuleCall]:
    """Channels split into parts, or filled up with zeros."""
    if limits.groups > 1:
        return
    pads = limits.no_pads
    now = len(limits.failures(pads=pads))
    for name, split in (
        ("inputs", layer_rules.inputs_split),
        ("outputs", layer_rules.outputs_split),
    ):
        count = getattr(limits, name)
        if name == "inputs" and not limits.b.sums:
            continue
        for parts in _part_counts(count):
            if len(limits.failures(pads=pads, **{name: -(-count // parts)})) < now:
                yield RuleCall(split, (parts,))
                break
    more = _filling(limits)
    if more != (0, 0):
        yield RuleCall(layer_rules.filled_channels, more)


def _filling(limits: LayerLimits) -> tuple[int, int]:
    """Return how many inputs and outputs to add so that fewer conditions are violated."""

    def failures(i: int, o: int) -> list[str]:
        counts = {"inputs": limits.inputs + i, "outputs": limits.outputs + o}
        return limits.failures(pads=limits.no_pads, **counts)

    now, added = failures(0, 0), [0, 0]
    for side, name in enumerate(("inputs", "outputs")):
        if any(name in text for text in now):
            extras = ((n, 0) if side == 0 else (0, n) for n in range(1, MOST_JOINED_CHANNELS + 1))
            fits = (more for more in extras if len(failures(*more)) < len(now))
            added[side] = next(fits, (0, 0))[side]
    if not any(added):  # conditions on both
        both = ((n, n) for n in range(1, MOST_JOINED_CHANNELS + 1))
        return next((more for more in both if len(failures(*more)) < len(now)), (0, 0))
    return added[0], added[1]


def _part_counts(count: int) -> Iterator[int]:
    """Yield numbers of parts, growing faster and faster."""
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
    now = len(limits.failures())
    for most in (n for n in (31, 15, 7, 3, 2, 1) if n < max(by_axis)):
        less = tuple(tuple(min(p, most) for p in v) for v in (begin, end))
        if len(limits.failures(pads=less)) < now:
            yield RuleCall(layer_rules.pads_by_convolution, (most,))
            break


def _tiles(limits: LayerLimits) -> Iterator[RuleCall]:
    now = len(limits.failures(pads=limits.no_pads))
    size = limits.size[2:]
    for axis, n in enumerate(size):
        if n is None or None in limits.size:
            continue
        for parts in _part_counts(n):
            part = -(-n // parts) + limits.kernel[axis]
            tile = (*size[:axis], part, *size[axis + 1 :])
            if part < n and len(limits.failures(pads=limits.no_pads, size=tile)) < now:
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
