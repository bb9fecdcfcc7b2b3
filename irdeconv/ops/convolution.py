"""Convolution and GroupConvolution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from irdeconv import geometry_conv
from irdeconv.attributes import Ints
from irdeconv.errors import OpError, Problem
from irdeconv.geometry import filled
from irdeconv.geometry_conv import AutoPad
from irdeconv.kernels.eager import convolution
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import one_type, want_rank, want_type
from irdeconv.ops.core import equal_lengths, positive
from irdeconv.spec import DYNAMIC, Array, Dim, Shape, Spec, is_static, merge
from irdeconv.traits import SUM


@dataclass(frozen=True)
class FilterWindows(Op):
    """What convolutions of every kind share: attributes, checks and shape rule.

    Absent lists mean 1 (strides, dilations) and 0 (pads), as the runtime has it; the document
    requires them. Negative pads crop. `unrestricted` is for convolutions that a lowering makes:
    outputs of size 0 and more than three spatial axes are then legal.
    """

    rounding = SUM
    filter_layout: ClassVar[str] = ""
    grouped: ClassVar[int] = 0  # 1 where the filter has a leading group axis

    strides: Ints = attribute((), documented=True)
    pads_begin: Ints = attribute((), documented=True)
    pads_end: Ints = attribute((), documented=True)
    dilations: Ints = attribute((), documented=True)
    auto_pad: AutoPad = "explicit"
    unrestricted: bool = attribute(False, internal=True)

    def check(self) -> Iterator[Problem]:
        yield from positive("strides", self.strides)
        yield from positive("dilations", self.dilations)
        yield from equal_lengths(self._lists())

    def infer(self, data: Spec, filter: Spec) -> Spec:
        want_type(data, "number", 0, "data")
        dtype = one_type(data, filter, names=("data", "the filter"))
        most = 8 if self.unrestricted else 5
        want_rank(data.shape, 3, most, 0, "data")
        want_rank(filter.shape, 3 + self.grouped, most + self.grouped, 1, "the filter")
        axes = self._axes(data.shape, filter.shape)
        if axes is None:
            return Spec(dtype, None)
        self._check_lists(axes)
        x = data.shape or (DYNAMIC,) * (axes + 2)
        w = filter.shape or (DYNAMIC,) * (axes + 2 + self.grouped)
        channels = self._channels(x[1], w, known=filter.shape is not None)
        return Spec(dtype, (x[0], channels, *self._spatial(x[2:], w[2 + self.grouped :])))

    def _axes(self, data: Shape | None, filter: Shape | None) -> int | None:
        if data is not None and filter is not None:
            want = len(data) + self.grouped
            if len(filter) != want:
                raise OpError(
                    f"data has rank {len(data)}, so the filter needs rank {want} "
                    f"{self.filter_layout}, but it has rank {len(filter)}",
                    code="E301",
                    port=1,
                )
        if data is not None:
            return len(data) - 2
        if filter is not None:
            return len(filter) - 2 - self.grouped
        return None

    def _lists(self) -> dict[str, Ints]:
        return {
            "strides": self.strides,
            "pads_begin": self.pads_begin,
            "pads_end": self.pads_end,
            "dilations": self.dilations,
        }

    def _check_lists(self, axes: int) -> None:
        for name, values in self._lists().items():
            if len(values) not in (0, axes):
                raise OpError(
                    f"{name} has {len(values)} values for {axes} spatial axes",
                    code="E304",
                    attribute=name,
                )

    def _channels(self, data: Dim, filter: Shape, *, known: bool) -> Dim:
        """Return M after checking C against the filter."""
        if self.grouped and known:
            groups, m, c = filter[:3]
            wanted = groups * c
            text = f"{wanted} ({groups} groups of {c})"
        else:
            groups, m, wanted = 1, filter[0], filter[1]
            text = str(wanted)
        if known and merge(data, wanted) is None:
            raise OpError(
                f"data has {data} channels, the filter wants {text}",
                code="E302",
                port=1,
                hint=f"the filter is laid out as {self.filter_layout}",
            )
        return groups * m

    def _spatial(self, sizes: Shape, kernel: Shape) -> list[Dim]:
        axes = len(sizes)
        strides, dilations = filled(self.strides, axes, 1), filled(self.dilations, axes, 1)
        begin, end = filled(self.pads_begin, axes, 0), filled(self.pads_end, axes, 0)
        least, out = 0 if self.unrestricted else 1, list[Dim]()
        for a, (i, k) in enumerate(zip(sizes, kernel, strict=True)):
            if k == 0:
                raise OpError(f"the kernel has size 0 on spatial axis {a}", code="E302", port=1)
            reach = geometry_conv.dilated(k, dilations[a])
            pad = (begin[a], end[a])
            o = geometry_conv.output_size(self.auto_pad, i, reach, strides[a], pad, least=least)
            if isinstance(o, int) and o < least:
                padded = i + sum(pad) if self.auto_pad == "explicit" else i
                raise OpError(
                    f"the dilated kernel has size {reach} on spatial axis {a}, "
                    f"but the padded data only {padded}",
                    code="E306",
                    port=1,
                )
            out.append(o)
        return out

    def problem(self, data: Ints, filter: Ints, sizes: Ints, dtype: str) -> ConvProblem:
        """Return the layer at exact shapes of data and filter and output sizes."""
        axes = len(sizes)
        kernel = filter[2 + self.grouped :]
        return ConvProblem(
            shape=data,
            outputs=math.prod(filter[: 1 + self.grouped]),
            groups=filter[0] if self.grouped else 1,
            kernel=kernel,
            strides=filled(self.strides, axes, 1),
            dilations=filled(self.dilations, axes, 1),
            begin=self.effective_pads(data[2:], kernel)[0],
            sizes=sizes,
            dtype=dtype,
        )

    def effective_pads(self, sizes: Ints, kernel: Ints) -> tuple[Ints, Ints]:
        """Return (pads_begin, pads_end) after auto_pad, for exact spatial sizes."""
        axes = len(sizes)
        return geometry_conv.pads(
            self.auto_pad,
            sizes,
            kernel,
            filled(self.strides, axes, 1),
            filled(self.dilations, axes, 1),
            (filled(self.pads_begin, axes, 0), filled(self.pads_end, axes, 0)),
        )

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return int(inputs[1].size // max(output.shape[1], 1))

    def remarks(self, data: Spec, filter: Spec) -> Iterator[Problem]:
        for name, pads in (("pads_begin", self.pads_begin), ("pads_end", self.pads_end)):
            if self.auto_pad == "explicit" and any(p < 0 for p in pads):
                yield Problem(
                    "W303",
                    f"{name} has negative values: they crop here, OpenVINO infers a dynamic "
                    "shape for them",
                    attribute=name,
                )

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return N * prod(O) * elements of the filter."""
        shape, weights = outputs[0].shape, inputs[1].size
        if not is_static(shape) or weights is None:
            return None
        return shape[0] * math.prod(shape[2:]) * weights


class ConvolutionBase(FilterWindows):
    """What Convolution and GroupConvolution share: the kernel."""

    def evaluate(self, data: Array, filter: Array) -> Array:
        self._channels(data.shape[1], filter.shape, known=True)
        sizes = tuple(self._spatial(data.shape[2:], filter.shape[2 + self.grouped :]))
        assert is_static(sizes)
        problem = self.problem(data.shape, filter.shape, sizes, data.dtype.name)
        return convolution(data, filter, problem)


@op("Convolution")
class Convolution(ConvolutionBase):
    """Convolution: data (N, C, *I), filter (M, C, *K) -> (N, M, *O), one number type.

    One to three spatial axes. O = floor((I + pads - D(K-1) - 1) / S) + 1, under same_upper and
    same_lower ceil(I / S); E306 where no window fits.  [convolution/Convolution-1]
    """

    filter_layout: ClassVar[str] = "[M, C, *K]"


@op("GroupConvolution")
class GroupConvolution(ConvolutionBase):
    """Grouped convolution: data (N, C, *I), filter (g, M/g, C/g, *K) -> (N, M, *O).

    Output channels are contiguous chunks per group; otherwise as Convolution.
    [convolution/GroupConvolution-1]
    """

    filter_layout: ClassVar[str] = "[g, M/g, C/g, *K]"
    grouped: ClassVar[int] = 1
