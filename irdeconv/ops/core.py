"""The operations that irdeconv adds: the canonical deconvolution and zero-insertion.

Axis letters: N batch, C input channels, M output channels, I input size, O output size, K kernel,
g groups; `*` stands for one to three spatial axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from irdeconv.base.errors import OpError, Problem
from irdeconv.ir import geometry
from irdeconv.ir.attributes import Ints
from irdeconv.ir.op import MOVES, SUM, Op, op
from irdeconv.ir.ports import want_type
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


@op("ZeroInsertion", VERSION, standard=False)
class ZeroInsertion(Op):
    """Put S-1 zeros between neighbours: (N, C, *I) -> (N, C, *(S(I-1)+1)), any element type.

    `strides` has one S >= 1 per spatial axis. An empty axis stays empty. With `trailing` S-1 zeros
    follow the last element as well: (N, C, *(S*I)), a size that is linear down to I = 0.
    """

    rounding = MOVES
    strides: Ints
    trailing: bool = False

    def check(self) -> Iterator[Problem]:
        yield from positive("strides", self.strides)

    def infer(self, data: Spec) -> Spec:
        if data.shape is None:
            return Spec(data.dtype, None)
        if len(data.shape) != len(self.strides) + 2:
            text = (
                f"data has rank {len(data.shape)}, {len(self.strides)} strides want rank "
                f"{len(self.strides) + 2}"
            )
            raise OpError(text, code="E301", port=0)
        rows = zip(data.shape[2:], self.strides, strict=True)
        spatial = (d * s if self.trailing else _spread(d, s) for d, s in rows)
        return Spec(data.dtype, (*data.shape[:2], *spatial))

    def evaluate(self, data: Array) -> Array:
        return candidate.zero_insert(data, self.strides, self.trailing)


def _spread(size: Dim, stride: int) -> Dim:
    if isinstance(size, int):
        return stride * (size - 1) + 1 if size else 0
    return non_negative((size - 1) * stride + 1)


@op("Deconvolution", VERSION, standard=False)
class Deconvolution(Op):
    """The canonical deconvolution: every attribute resolved, no auto_pad, no bias.

    data (N, C, *I), filter (g, C/g, M/g, *K), pads_begin and pads_end (n,) of an integer type, n
    spatial axes -> (N, M, *O) with O = S(I-1) + D(K-1) + 1 - pads_begin - pads_end. Pads of either
    sign: y[o] = full[o + pads_begin], zero outside the scatter. Output channels are contiguous
    chunks per group. data and filter share an element type.
    """

    deconvolution: ClassVar[bool] = True
    rounding = SUM
    strides: Ints
    dilations: Ints

    def check(self) -> Iterator[Problem]:
        yield from positive("strides", self.strides)
        yield from positive("dilations", self.dilations)

    def infer(self, data: Spec, filter: Spec, pads_begin: Spec, pads_end: Spec) -> Spec:
        n = len(self.strides)
        _expect_rank(data, n + 2, "data", 0)
        _expect_rank(filter, n + 3, "filter", 1)
        batch: Dim = data.shape[0] if data.shape else DYNAMIC
        channels: Dim = DYNAMIC
        spatial: list[Dim] = [DYNAMIC] * n
        if filter.shape is not None:
            channels = filter.shape[0] * filter.shape[2]
        begin, end = (
            _pads(spec, n, name, port)
            for spec, name, port in ((pads_begin, "pads_begin", 2), (pads_end, "pads_end", 3))
        )
        if data.shape and filter.shape and begin is not None and end is not None:
            spatial = [
                (i - 1) * s + (k - 1) * d + 1 - p - q
                for i, s, k, d, p, q in zip(
                    data.shape[2:],
                    self.strides,
                    filter.shape[3:],
                    self.dilations,
                    begin,
                    end,
                    strict=True,
                )
            ]
        _not_negative(spatial)
        return Spec(data.dtype, (batch, channels, *map(non_negative, spatial)))

    def evaluate(self, data: Array, filter: Array, pads_begin: Array, pads_end: Array) -> Array:
        full = geometry.full_size(
            geometry.IntVector(data.shape[2:]),
            geometry.IntVector(self.strides),
            geometry.IntVector(filter.shape[3:]),
            geometry.IntVector(self.dilations),
        )
        begin = tuple(int(p) for p in pads_begin)
        end = geometry.IntVector(tuple(int(p) for p in pads_end))
        size = full - geometry.IntVector(begin) - end
        assert isinstance(size, geometry.IntVector)
        _not_negative(size.values)
        problem = self.problem(data.shape, filter.shape, begin, size.values, data.dtype.name)
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


def not_negative(lists: Mapping[str, Ints], what: str = "axis") -> Iterator[Problem]:
    """Yield a problem for every value of a list by name that is below 0."""
    for name, values in lists.items():
        for axis, v in enumerate(values):
            if v < 0:
                text = f"{name} must not be negative, but is {v} on {what} {axis}"
                yield Problem("E210", text, attribute=name)


def positive(name: str, values: Ints) -> Iterator[Problem]:
    """Yield a problem for every value below 1."""
    for axis, v in enumerate(values):
        if v < 1:
            text = f"{name} must be at least 1, but is {v} on spatial axis {axis}"
            yield Problem("E210", text, attribute=name)


def equal_lengths(lists: Mapping[str, Ints]) -> Iterator[Problem]:
    """Yield a problem for every given per-axis list whose length is not that of most of them."""
    given = {name: len(values) for name, values in lists.items() if values}
    counts = list(given.values())
    usual = max(counts, key=lambda c: (counts.count(c), -c), default=0)
    others = " and ".join(name for name, count in given.items() if count == usual)
    for name, count in given.items():
        if count != usual:
            yield Problem(
                "E304",
                f"{name} has {count} values, {others} {usual}",
                attribute=name,
                hint="every list needs one value per spatial axis",
            )


def _pads(spec: Spec, axes: int, name: str, port: int) -> Shape | None:
    """Return pads that are known; a pad of unknown value may be anything, so it bounds no size."""
    want_type(spec, "integer", port, name)
    if spec.shape is not None and (len(spec.shape) != 1 or merge(spec.shape[0], axes) is None):
        text = f"{name} has shape {format_shape(spec.shape)}, {axes} spatial axes want [{axes}]"
        raise OpError(text, code="E305", port=port)
    return None if spec.value is None else dims(spec)


def _expect_rank(spec: Spec, rank: int, name: str, port: int) -> None:
    if spec.shape is not None and len(spec.shape) != rank:
        raise OpError(f"{name} has rank {len(spec.shape)}, not {rank}", code="E301", port=port)


def _not_negative(sizes: tuple[int, ...] | list[Dim]) -> None:
    for axis, size in enumerate(sizes):
        top = size.hi if isinstance(size, Interval) else size
        if top is not None and top < 0:
            raise OpError(f"the output would have size {size} on spatial axis {axis}", code="E306")
