"""A convolution of a lowered graph: its pads and its bias, and the rules that make it legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic

import numpy as np

from irdeconv.ir.geometry import IntVector, Vector, extent
from irdeconv.ir.spec import DYNAMIC, Shape, bounds, is_static
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.movement import Concat
from irdeconv.ops.shape import Squeeze1
from irdeconv.rewrite.emit import (
    FormBuilder,
    Option,
    X,
    add_bias,
    crop,
    needs,
    pad_spatial,
    zeros_beside,
)

Ints = tuple[int, ...]
AXIS_0 = np.array([0], np.int64)


@dataclass(frozen=True)
class ConvolutionLayer(Generic[X]):
    """A convolution of data x (N, C, *I) with a filter w (g, M/g, C/g, *K) and a bias.

    The pads `begin` and `end` have one number per spatial axis; negative ones crop. The bias
    [1, M, 1, ...] is added directly behind. With `pads_apart` pads should be a Pad in front. With
    `spare_outputs` the last axis has two more than wanted. `stage` is that of the last rule that
    made it.
    """

    x: X
    w: X
    strides: Ints
    dilations: Ints
    begin: Vector
    end: Vector
    bias: X | None = None
    pads_apart: bool = False
    spare_outputs: bool = False
    stage: int = 0
    forward: ClassVar[bool] = True  # the filter has the outputs in front of the inputs

    def known_pads(self) -> tuple[Ints, Ints]:
        """Return the pads; they must be known."""
        assert isinstance(self.begin, IntVector)
        assert isinstance(self.end, IntVector)
        return self.begin.values, self.end.values

    @property
    def has_known_pads(self) -> bool:
        """Whether the pads are known."""
        return isinstance(self.begin, IntVector) and isinstance(self.end, IntVector)

    def padded(
        self, begin: Sequence[int], end: Sequence[int], **changes: Any
    ) -> ConvolutionLayer[X]:
        """Return the layer with other pads and other changes."""
        pads: dict[str, Any] = {"begin": IntVector(tuple(begin)), "end": IntVector(tuple(end))}
        return replace(self, **pads, **changes)

    def emit(self, b: FormBuilder[X]) -> X:
        """Emit it, or the result of a rule if the target cannot run it."""
        return convolve(b, self)


def convolve(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> X:
    """Emit a convolution, or the result of a rule if the target cannot run it."""
    return b.attempt(layer, partial(plain_convolution, b, layer))


def plain_convolution(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> X:
    """Emit a convolution with its own pads, or behind a Pad, or behind a Concat with zeros."""
    if _may_have_one_output(b, layer):
        # Two more than wanted: those may be none, and a single output meets the fault as well.
        axes = len(layer.strides)
        more = IntVector((*(0,) * (axes - 1), 2 * layer.strides[-1]))
        y = plain_convolution(b, replace(layer, end=layer.end + more, spare_outputs=True))
        return crop(b, y, (0,) * (axes + 2), (*(0,) * (axes + 1), 2))
    own = Option("own pads", partial(_with_own_pads, b, layer))
    if not layer.has_known_pads:
        return _behind_pads(b, layer, pad_spatial)
    needed = any(p > 0 for p in sum(layer.known_pads(), ()))
    apart = Option("Pad", partial(_behind_pads, b, layer, pad_spatial), needs("Pad"))
    joins = Option("Concat", partial(_behind_pads, b, layer, pad_by_concat), needs("Concat"))
    others = [joins] if needed and is_static(b.spec(layer.x).shape) else []
    crops = any(p < 0 for p in sum(layer.known_pads(), ()))
    first = layer.pads_apart and not b.style.own_pads and not crops
    options = [apart, own] if first else [own, apart]
    return b.choose([*options, *others] if needed else [apart])


def _with_own_pads(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> X:
    begin, end = layer.known_pads()
    shape = b.spec(layer.x).shape or (DYNAMIC,) * (len(begin) + 2)
    rows = zip(shape[2:], begin, end, strict=True)
    apart = [min(p, q) < 0 < max(p, q) and bounds(n)[0] <= -min(p, q) for n, p, q in rows]
    # A crop may reach into the pad of the other end only if that one is written in front. OpenVINO
    # leaves outputs unwritten if nothing but pads is left.
    outside = [
        IntVector(tuple(p if a else min(p, 0) for a, p in zip(apart, v, strict=True)))
        for v in (begin, end)
    ]
    x = pad_spatial(b, layer.x, outside[0], outside[1])
    own = [
        tuple(0 if a else max(p, 0) for a, p in zip(apart, v, strict=True)) for v in (begin, end)
    ]
    return add_bias(b, emit_convolution(b, x, layer, own[0], own[1]), layer.bias)


def _behind_pads(b: FormBuilder[X], layer: ConvolutionLayer[X], pad: Callable[..., X]) -> X:
    x, zero = pad(b, layer.x, layer.begin, layer.end), (0,) * len(layer.strides)
    return add_bias(b, emit_convolution(b, x, layer, zero, zero), layer.bias)


def pad_by_concat(b: FormBuilder[X], x: X, begin: IntVector, end: IntVector) -> X:
    """Pad the spatial axes by Concats with zeros; negative amounts crop, after the padding."""
    for axis, pads in enumerate(zip(begin.values, end.values, strict=True), 2):
        front, back = ([zeros_beside(b, x, axis, p)] if p > 0 else [] for p in pads)
        if front or back:
            x = b.add(Concat(axis), *front, x, *back)
    amounts = ([0, 0, *(max(-p, 0) for p in v.values)] for v in (begin, end))
    return crop(b, x, *amounts)


def emit_convolution(
    b: FormBuilder[X], x: X, layer: ConvolutionLayer[X], begin: Ints, end: Ints
) -> X:
    """Add the convolution of x with the layer's filter: a plain one for one group."""
    w, shape, size = layer.w, b.spec(layer.w).shape, b.spec(x).shape
    axes, strides = len(layer.strides), layer.strides
    if (rest := _beyond_one_output(layer, shape, size, begin[-1] + end[-1])) is not None:
        # Of one channel, oneDNN (OpenVINO 2026.4.1) reads other elements with a stride there.
        cut = max(rest - end[-1], 0)
        x, strides = crop(b, x, (0,) * (axes + 2), (*(0,) * (axes + 1), cut)), (*strides[:-1], 1)
        end = (*end[:-1], end[-1] - rest + cut)
    # An output of size 0 and a fourth spatial axis are legal in the source layer.
    beyond = axes > 3 or _may_be_empty(size, shape, layer.dilations, (begin, end))
    grouped = shape is None or shape[0] != 1
    w = w if grouped else b.add(Squeeze1(), w, b.const(AXIS_0))
    operation = GroupConvolution if grouped else Convolution
    return b.add(operation(strides, begin, end, layer.dilations, "explicit", beyond), x, w)


def _beyond_one_output(
    layer: ConvolutionLayer[X], filter: Shape | None, size: Shape | None, pads: int
) -> int | None:
    """Return the number of elements that a stride leaves behind the last axis's only output.

    None: that is not known, there are more outputs, no stride, or several input channels.
    """
    if filter is None or size is None or (filter[0], filter[2]) != (1, 1):
        return None
    if not isinstance(size[-1], int) or not isinstance(filter[-1], int):
        return None
    rest = size[-1] + pads - extent(filter[-1], layer.dilations[-1])
    return rest if 0 <= rest < layer.strides[-1] != 1 else None


def _may_have_one_output(b: FormBuilder[X], layer: ConvolutionLayer[X]) -> bool:
    """Whether a convolution of one channel may have a single output on its last axis at some size.

    oneDNN may compute that wrongly, see `emit_convolution`, which handles axes of known size.
    """
    size, filter = b.spec(layer.x).shape, b.spec(layer.w).shape
    strided = len(layer.strides) > 1 and layer.strides[-1] > 1
    if layer.spare_outputs or not strided or filter is None or (filter[0], filter[2]) != (1, 1):
        return False
    return size is None or not (isinstance(size[-1], int) and isinstance(filter[-1], int))


def _may_be_empty(
    size: Shape | None, filter: Shape | None, dilations: Ints, pads: tuple[Ints, Ints]
) -> bool:
    """Whether a filter (g, M/g, C/g, *K) may not fit into padded data (N, C, *I)."""
    if size is None or filter is None:
        return True
    for i, k, d, p, q in zip(size[2:], filter[3:], dilations, *pads, strict=True):
        most = bounds(k)[1]
        if most is None or bounds(i)[0] + p + q < extent(most, d):
            return True
    return False
