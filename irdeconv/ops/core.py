"""The operations that irdeconv adds: the canonical deconvolution and zero-insertion.

Axis letters: N batch, C input channels, M output channels, I input size, O output size, K kernel,
g groups; `*` means one to three spatial axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from irdeconv.base.errors import OpError, value_error
from irdeconv.ir.attributes import Ints, PositiveAxisInts
from irdeconv.ir.op import MOVES, SUM, Op, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    dims,
    format_shape,
    is_static,
    merge,
    non_negative,
)
from irdeconv.kernels import candidate
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.eager import deconvolution

VERSION = "irdeconv_1"


class _Strided(Op):
    """Base: data has as many spatial axes as there are strides."""

    strides: Ints

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        axes = len(self.strides)
        return self.signature.replace("*I:1..", f"*I:{axes}..{axes}")


@op("ZeroInsertion", VERSION, standard=False)
class ZeroInsertion(_Strided):
    """Put S-1 zeros between neighbours: (N, C, *I) -> (N, C, *(S(I-1)+1)), any element type.

    `strides` has one S >= 1 per spatial axis. An empty axis stays empty. With `trailing` S-1 zeros
    follow the last element as well: (N, C, *(S*I)), a size that is linear down to I = 0.
    """

    rounding = MOVES
    signature = "data: any t [N, C, *I:1..] -> t [N, C, *O]"
    strides: PositiveAxisInts
    trailing: bool = False

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        rows = zip(shape[2:], self.strides, strict=True)
        at.groups["O"] = tuple(d * s if self.trailing else _spread(d, s) for d, s in rows)

    def evaluate(self, data: Array) -> Array:
        return candidate.zero_insert(data, self.strides, self.trailing)


def _spread(size: Dim, stride: int) -> Dim:
    if isinstance(size, int):
        return stride * (size - 1) + 1 if size else 0
    return non_negative((size - 1) * stride + 1)


@op("Deconvolution", VERSION, standard=False)
class Deconvolution(_Strided):
    """The canonical deconvolution: every attribute resolved, no auto_pad, no bias.

    data (N, C, *I), filter (g, C/g, M/g, *K), pads_begin and pads_end (n,) of an integer type, n
    spatial axes -> (N, M, *O) with O = S(I-1) + D(K-1) + 1 - pads_begin - pads_end. Pads of either
    sign: y[o] = full[o + pads_begin], zero outside the scatter. Output channels are contiguous
    chunks per group. data and filter share an element type.
    """

    deconvolution: ClassVar[bool] = True
    rounding = SUM
    signature = (
        "data: any t [N, C, *I:1..]; filter: any [G, D, M, *K:I]; pads_begin: integer; "
        "pads_end: integer -> t [N, O, *P]"
    )
    strides: PositiveAxisInts
    dilations: PositiveAxisInts

    def complete(self, at: Fit, data: Spec, filter: Spec, *pads: Spec) -> None:
        n = len(self.strides)
        names = enumerate(zip(pads, ("pads_begin", "pads_end"), strict=True), 2)
        begin, end = (_pads(spec, n, name, port) for port, (spec, name) in names)
        sizes, kernel = at.groups.get("I"), at.groups.get("K")
        at["O"], at.groups["P"] = at["G"] * at["M"], (DYNAMIC,) * n
        if sizes is None or kernel is None or begin is None or end is None:
            return
        at.groups["P"] = tuple(map(non_negative, self._sizes(sizes, kernel, begin, end)))

    def _sizes(self, data: Shape, kernel: Shape, begin: Shape, end: Shape) -> Shape:
        """Return the spatial sizes of the output; E306 if one is negative."""
        rows = zip(data, self.strides, kernel, self.dilations, begin, end, strict=True)
        sizes = tuple((i - 1) * s + (k - 1) * d + 1 - p - q for i, s, k, d, p, q in rows)
        check_output(sizes, 0)
        return sizes

    def evaluate(self, data: Array, filter: Array, pads_begin: Array, pads_end: Array) -> Array:
        begin, end = (tuple(map(int, pads)) for pads in (pads_begin, pads_end))
        sizes = self._sizes(data.shape[2:], filter.shape[3:], begin, end)
        assert is_static(sizes)
        problem = self.problem(data.shape, filter.shape, begin, sizes, data.dtype.name)
        return deconvolution(np.asarray(data), filter, problem)

    def problem(
        self, data: Ints, filter: Ints, begin: Ints, sizes: Ints, dtype: str
    ) -> ConvProblem:
        """Return the layer at exact shapes of data and filter, pads_begin and output sizes."""
        return ConvProblem(
            shape=data,
            outputs=filter[0] * filter[2],
            groups=filter[0],
            kernel=filter[3:],
            strides=self.strides,
            dilations=self.dilations,
            begin=begin,
            sizes=sizes,
            dtype=dtype,
        )

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the products of the scatter: N * C * M/g * prod(K) * prod(I)."""
        return scatter_macs(inputs[0], inputs[1])


def scatter_macs(data: Spec, grouped_filter: Spec) -> int | None:
    """Return N * prod(I) * elements of the filter: every input element meets M/g * prod(K) taps."""
    if not is_static(data.shape) or grouped_filter.size is None:
        return None
    return data.shape[0] * math.prod(data.shape[2:]) * grouped_filter.size


def _pads(spec: Spec, axes: int, name: str, port: int) -> Shape | None:
    """Return pads that are known; a pad of unknown value may be anything, so it bounds no size."""
    if spec.shape is not None and (len(spec.shape) != 1 or merge(spec.shape[0], axes) is None):
        text = f"{name} has shape {format_shape(spec.shape)}, {axes} spatial axes want [{axes}]"
        raise value_error(port, text)
    return None if spec.value is None else dims(spec)


def check_output(sizes: Sequence[Dim], least: int = 1, hint: str | None = None) -> None:
    """Require an output of at least that size on every axis; E306."""
    for axis, size in enumerate(sizes):
        top = size.hi if isinstance(size, Interval) else size
        if top is not None and top < least:
            text = f"the output would have size {size} on spatial axis {axis}"
            raise OpError(text, code="E306", hint=hint)
