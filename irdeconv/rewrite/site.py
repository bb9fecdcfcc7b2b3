"""One canonical deconvolution in numbers, for the analysis of costs and of non-finite constants.

Also which outputs a lowering form multiplies a tap with, axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from irdeconv.ir.attributes import Ints
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import DYNAMIC, Array, Dim, bounds, ints, is_static
from irdeconv.ops import core
from irdeconv.rewrite.compressed_filters import stored
from irdeconv.rewrite.subpixel import AxisResidues, analyse

STAND_IN = 32  # for a size that is known only at run time


@dataclass(frozen=True)
class DeconvolutionSite:
    """A deconvolution of data [batch, groups * c, *size] with a filter [groups, c, m, *kernel].

    `begin` and `end` are the pads of either sign. If `assumed`, stand-in sizes replace unknown
    ones. `itemsize` is in bytes.
    """

    batch: int
    groups: int
    c: int
    m: int
    size: Ints
    kernel: Ints
    strides: Ints
    dilations: Ints
    begin: Ints
    end: Ints
    itemsize: int
    constant_filter: bool
    assumed: bool = False

    @property
    def outputs(self) -> int:
        """M, the output's channels."""
        return self.groups * self.m

    @property
    def data_shape(self) -> Ints:
        """The shape of the data."""
        return (self.batch, self.groups * self.c, *self.size)

    @property
    def filter_shape(self) -> Ints:
        """The shape of the filter."""
        return (self.groups, self.c, self.m, *self.kernel)

    @cached_property
    def axes(self) -> list[AxisResidues]:
        """The residues of every axis."""
        rows = zip(self.strides, self.dilations, self.kernel, self.begin, self.end, strict=True)
        return [analyse(*row) for row in rows]

    @cached_property
    def output(self) -> Ints:
        """O on every axis, at least 0."""
        rows = zip(self.size, self.axes, strict=True)
        return tuple(max((i + a.more) * a.stride - a.surplus, 0) for i, a in rows)

    def useful_macs(self) -> int:
        """Return the products of an input element and a tap that reach an output."""
        pairs = math.prod(map(self._pairs, range(self.rank)))
        return self.batch * self.groups * self.c * self.m * pairs

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.size)

    def _pairs(self, axis: int) -> int:
        """Return the number of (input, tap) of an axis with s*S + k*D - begin in 0..O."""
        begin = self.begin[axis]
        below = [self._below(axis, top) for top in (begin, begin + self.output[axis])]
        return below[1] - below[0]

    def _below(self, axis: int, top: int) -> int:
        """Return the number of (input s, tap k) with s*S + k*D less than `top`."""
        size, kernel = self.size[axis], self.kernel[axis]
        stride, dilation = self.strides[axis], self.dilations[axis]
        whole = (top - 1 - (size - 1) * stride) // dilation + 1  # the taps for which every s counts
        whole = min(max(whole, 0), kernel)
        some = min(max(-(-top // dilation), whole), kernel)  # none counts from this tap on
        rest = floor_sum(some - whole, stride, dilation, top - (some - 1) * dilation + stride - 1)
        return whole * size + rest

    def classes(self, axis: int) -> tuple[Array, Array]:
        """Return representative outputs of an axis, and how many outputs each represents.

        At the borders taps are outside the data. Between them outputs S apart meet the same taps.
        """
        front, periods = self._periods(axis)
        stride, top = self.strides[axis], self.output[axis]
        if not periods:
            return np.arange(top), np.ones(top, np.int64)
        behind = np.arange(front + periods * stride, top)
        places = np.concatenate((np.arange(front + stride), behind))
        counts = np.ones(len(places), np.int64)
        counts[front : front + stride] = periods
        return places, counts

    def class_number(self, axis: int) -> int:
        """Return the number of outputs from `classes`, without making them."""
        periods = self._periods(axis)[1]
        return self.output[axis] - max(periods - 1, 0) * self.strides[axis]

    def _periods(self, axis: int) -> tuple[int, int]:
        """Return the outputs of the border in front, and the periods of S before the next."""
        stride, top = self.strides[axis], self.output[axis]
        front = max((self.kernel[axis] - 1) * self.dilations[axis] - self.begin[axis], 0)
        back = min((self.size[axis] - 1) * stride - self.begin[axis] + 1, top)
        return front, max(back - front, 0) // stride


def floor_sum(count: int, divisor: int, factor: int, first: int) -> int:
    """Return the sum of (factor * i + first) // divisor for i below count; none is negative."""
    total = 0
    while count > 0:
        total += factor // divisor * (count * (count - 1) // 2) + first // divisor * count
        factor, first = factor % divisor, first % divisor
        last = factor * count + first
        if last < divisor:
            break
        count, first, divisor, factor = last // divisor, last % divisor, factor, divisor
    return total


def site_of(graph: Graph, node: Node) -> DeconvolutionSite | None:
    """Return a core.Deconvolution's numbers; None if filter shape or pads are unknown."""
    op = node.op
    assert isinstance(op, core.Deconvolution)
    data, filter, *pads = graph.input_specs(node.id)
    begin, end = map(ints, pads)
    if not is_static(filter.shape) or begin is None or end is None:
        return None
    groups, c, m, *kernel = filter.shape
    dtype, shape = data.dtype, data.shape or (1, groups * c, *(DYNAMIC for _ in op.strides))
    rows = zip(op.strides, op.dilations, kernel, begin, end, strict=True)
    least = [1 - analyse(*row).more for row in rows]  # of the inputs, for an output to be left
    return DeconvolutionSite(
        batch=_stand_in(shape[0], 1),
        groups=groups,
        c=c,
        m=m,
        size=tuple(_stand_in(d, max(STAND_IN, n)) for d, n in zip(shape[2:], least, strict=True)),
        kernel=tuple(kernel),
        strides=op.strides,
        dilations=op.dilations,
        begin=begin,
        end=end,
        itemsize=dtype.container.itemsize if dtype else 4,
        constant_filter=stored(graph, graph.inputs_of(node.id)[1]) is not None,
        assumed=not is_static(data.shape),
    )


def _stand_in(dim: Dim, size: int) -> int:
    low, high = bounds(dim)
    return low if low == high else max(low, size if high is None else min(size, high))


# The spread of a bad tap: for some outputs of an axis [O, K], float32, 1 for spoilt ones.
AxisReach = Callable[[DeconvolutionSite, int, Array], Array]


def every_output(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """Every tap reaches every output."""
    return np.ones((len(outputs), site.kernel[axis]), np.float32)


def outputs_of_residue(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """A tap reaches all outputs of its residue."""
    return _taps(site, axis, outputs)[0].astype(np.float32)


def tap_by_definition(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """A tap reaches o with o + pads_begin = s*S + k*D, s in 0..I."""
    meets, source = _taps(site, axis, outputs)
    return (meets & (source >= 0) & (source < site.size[axis])).astype(np.float32)


def _taps(site: DeconvolutionSite, axis: int, outputs: Array) -> tuple[Array, Array]:
    """Return [O, K]: whether a tap belongs to an output's residue, and the input that it meets."""
    at = outputs[:, None] + site.begin[axis] - np.arange(site.kernel[axis]) * site.dilations[axis]
    return at % site.strides[axis] == 0, at // site.strides[axis]
