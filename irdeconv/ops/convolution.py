"""Convolution, GroupConvolution, BinaryConvolution, DeformableConvolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, size_error
from irdeconv.ir import geometry
from irdeconv.ir.attributes import AxisInts, Ints, Positive, PositiveAxisInts
from irdeconv.ir.geometry import AutoPad
from irdeconv.ir.op import JUMPS, SCALE, SUM, attribute, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Shape, Spec, is_static, merge
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.copies import padded
from irdeconv.kernels.eager import Sums, convolution, prepared_sums
from irdeconv.kernels.interpolation import DeformableWindows, convolve
from irdeconv.ops.channels import divided
from irdeconv.ops.checks import WindowOp, check_lists


@dataclass(frozen=True)
class FilterWindows(WindowOp):
    """Base of all convolutions: attributes, checks and shape rule.

    Absent lists mean 1 (strides, dilations) and 0 (pads), as in the runtime; the document requires
    them. Negative pads crop. `unrestricted` is for convolutions that a lowering makes: outputs of
    size 0 and more than three spatial axes are then legal.
    """

    rounding = SUM
    filter_layout: ClassVar[str] = ""
    filter_port: ClassVar[int] = 1
    grouped: ClassVar[int] = 0  # 1 if the filter has a leading group axis

    strides: PositiveAxisInts = attribute((), documented=True)
    pads_begin: AxisInts = attribute((), documented=True)
    pads_end: AxisInts = attribute((), documented=True)
    dilations: PositiveAxisInts = attribute((), documented=True)
    auto_pad: AutoPad = "explicit"
    unrestricted: bool = attribute(False, internal=True)

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        return self.signature.replace("1..3", "1..6") if self.unrestricted else self.signature

    def complete(self, at: Fit, *inputs: Spec) -> None:
        at.groups["O"] = self.output_shape(inputs[0].shape, inputs[1].shape)

    def output_shape(self, data: Shape | None, filter: Shape | None) -> Shape | None:
        """Return the output's shape for data and filter whose ranks fit each other."""
        if data is not None:
            axes = len(data) - 2
        elif filter is not None:
            axes = len(filter) - 2 - self.grouped
        else:
            return None
        check_lists(self, axes)
        x = data or (DYNAMIC,) * (axes + 2)
        w = filter or (DYNAMIC,) * (axes + 2 + self.grouped)
        channels = self._channels(x[1], w)
        return (x[0], channels, *self._spatial(x[2:], w[2 + self.grouped :]))

    def _channels(self, data: Dim, filter: Shape) -> Dim:
        """Return M after checking C against the filter."""
        groups, m, c = filter[:3] if self.grouped else (1, *filter[:2])
        if merge(data, groups * c) is None:
            text = f"data has {data} channels, the filter wants {groups * c}"
            text += f" ({groups} groups of {c})" if self.grouped else ""
            raise size_error(
                self.filter_port, text, hint=f"the filter is laid out as {self.filter_layout}"
            )
        return groups * m

    def _spatial(self, sizes: Shape, kernel: Shape) -> list[Dim]:
        strides, dilations, (begin, end) = self.filled(len(sizes))
        least, out = 0 if self.unrestricted else 1, list[Dim]()
        for a, (i, k) in enumerate(zip(sizes, kernel, strict=True)):
            if k == 0:
                raise size_error(self.filter_port, f"the kernel has size 0 on spatial axis {a}")
            reach = geometry.dilated(k, dilations[a])
            pad = (begin[a], end[a])
            o = geometry.output_size(self.auto_pad, i, reach, strides[a], pad, least=least)
            if isinstance(o, int) and o < least:
                padded = i + sum(pad) if self.auto_pad == "explicit" else i
                text = f"the dilated kernel has size {reach} on spatial axis {a}, "
                text += f"but the padded data only {padded}"
                raise OpError(text, code="E306", port=self.filter_port)
            out.append(o)
        return out

    def problem(self, data: Ints, filter: Ints, sizes: Ints, dtype: str) -> ConvProblem:
        """Return the layer at exact shapes of data and filter and output sizes."""
        strides, dilations, _ = self.filled(len(sizes))
        kernel = filter[2 + self.grouped :]
        return ConvProblem(
            shape=data,
            outputs=math.prod(filter[: 1 + self.grouped]),
            groups=filter[0] if self.grouped else 1,
            kernel=kernel,
            strides=strides,
            dilations=dilations,
            begin=self.effective_pads(data[2:], kernel)[0],
            sizes=sizes,
            dtype=dtype,
        )

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return int(inputs[1].size // max(output.shape[1], 1))

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        for name, pads in (("pads_begin", self.pads_begin), ("pads_end", self.pads_end)):
            if self.auto_pad == "explicit" and any(p < 0 for p in pads):
                text = f"{name} has negative values: they crop here, OpenVINO infers a dynamic "
                text += "shape for them"
                yield Problem("W303", text, attribute=name)

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return N * prod(O) * elements of the filter."""
        shape, weights = outputs[0].shape, inputs[self.filter_port].size
        if not is_static(shape) or weights is None:
            return None
        return shape[0] * math.prod(shape[2:]) * weights


class ConvolutionBase(FilterWindows):
    """Base of Convolution and GroupConvolution: the kernel."""

    def evaluate(self, data: Array, filter: Array, sums: Sums | None = None) -> Array:
        self._channels(data.shape[1], filter.shape)
        sizes = tuple(self._spatial(data.shape[2:], filter.shape[2 + self.grouped :]))
        assert is_static(sizes)
        problem = self.problem(data.shape, filter.shape, sizes, data.dtype.name)
        return convolution(data, filter, problem, sums=sums)

    def evaluator(self, used: frozenset[int], inputs: Sequence[Spec]) -> Callable[..., Any]:
        # Those of floats that can be prepared are no evaluators, so these are integers.
        static = all(s.static for s in inputs) and inputs[1].known is not None
        return partial(self.evaluate, sums=prepared_sums()) if static else self.evaluate


@op("Convolution")
class Convolution(ConvolutionBase):
    """Convolution: data (N, C, *I), filter (M, C, *K) -> (N, M, *O), one number type.

    One to three spatial axes. O = floor((I + pads - D(K-1) - 1) / S) + 1, under same_upper and
    same_lower ceil(I / S); E306 if no window fits.  [convolution/Convolution-1]
    """

    signature = "data: number t [N, D, *I:1..3]; filter: t [M, C, *K:I] -> t [*O]"
    filter_layout: ClassVar[str] = "[M, C, *K]"


@op("GroupConvolution")
class GroupConvolution(ConvolutionBase):
    """Grouped convolution: data (N, C, *I), filter (g, M/g, C/g, *K) -> (N, M, *O).

    Output channels are contiguous chunks per group; otherwise as Convolution.
    [convolution/GroupConvolution-1]
    """

    signature = "data: number t [N, D, *I:1..3]; filter: t [G, M, C, *K:I] -> t [*O]"
    filter_layout: ClassVar[str] = "[g, M/g, C/g, *K]"
    grouped: ClassVar[int] = 1


def _signs(filter: Array) -> Array:
    """Return the bits of a filter as 1 and -1, each byte's from its lowest bit up."""
    raw = np.packbits(np.asarray(filter, np.uint8).reshape(-1))
    bits = np.unpackbits(raw, count=filter.size, bitorder="little")
    return bits.reshape(filter.shape).astype(np.float32) * 2 - 1


@op("BinaryConvolution")
class BinaryConvolution(FilterWindows):
    """Convolution of signs: data (N, C, H, W), a filter of bits (M, C, *K) -> (N, M, *O).

    Data above 0 count as 1, others as -1, bits 1 and 0 of the filter alike, so that products add up
    to twice the matches less their number. Padding adds nothing with a `pad_value` of 0, it is 1
    with 1, -1 with others. Strides, pads and dilations as for Convolution. The filter is u1: a
    constant is stored from the highest bit of a byte down, but the runtime reads each byte's bits
    from the lowest up here, right only if C is a multiple of 8. For any C, this does the same.
    [convolution/BinaryConvolution-1]
    """

    rounding = JUMPS
    filter_layout: ClassVar[str] = "[M, C, *K]"

    signature = "data: number t [N, D, ?, ?]; filter: u1 [M, C, ?, ?] -> t [*O]"
    mode: Literal["xnor-popcount"] = "xnor-popcount"
    pad_value: float = attribute(0.0, documented=True)

    def evaluate(self, data: Array, filter: Array) -> Array:
        shape = self.output_shape(data.shape, filter.shape) or ()
        begin, end = self.effective_pads(data.shape[2:], filter.shape[2:])
        signs = np.where(data > 0, np.float32(1), np.float32(-1))
        padding = 0.0 if self.pad_value == 0 else 1.0 if self.pad_value == 1 else -1.0
        x = padded(signs, (0, 0, *begin), (0, 0, *end), padding)
        sizes = tuple(map(int, shape[2:]))  # type: ignore[arg-type]
        plain = replace(self, pads_begin=(), pads_end=(), auto_pad="explicit")
        problem = plain.problem(x.shape, filter.shape, sizes, x.dtype.name)
        return convolution(x, _signs(filter), problem).astype(data.dtype, copy=False)


_NAMES = ("data", "offsets", "filter", "mask")
_DEFORMED = "data: number t [?, ?, ?, ?]; offsets: t [?, ?, ?, ?]; filter: t [?, ?, ?, ?]"


@op("DeformableConvolution", until=7)
class DeformableConvolution1(FilterWindows):
    """Convolution whose taps are moved: data (N, C, H, W), offsets, filter -> (N, M, *O).

    offsets (N, 2 d K, *O): y and x for each of K taps and of d = `deformable_group` groups of
    channels; filter (M, C / `group`, *K). Numbers. A tap between elements is interpolated,
    one outside of the data is 0.  [convolution/DeformableConvolution-1]
    """

    signature = f"{_DEFORMED} -> t [*O]"
    rounding = SCALE
    filter_layout: ClassVar[str] = "[M, C / group, *K]"
    filter_port: ClassVar[int] = 2

    group: Positive = attribute(1, required=True)
    deformable_group: Positive = attribute(1, required=True)
    bilinear_interpolation_pad = False

    def complete(self, at: Fit, *inputs: Spec) -> None:
        data, offsets, filter, *masks = inputs
        x, w = data.shape or (DYNAMIC,) * 4, filter.shape or (DYNAMIC,) * 4
        divided(w[0], self.group, "the number of filters", "group")
        divided(x[1], self.group, "the number of channels", "group")
        divided(x[1], self.deformable_group, "the number of channels", "deformable_group")
        plain = self.output_shape(x, (w[0], w[1] * self.group, *w[2:]))
        assert plain is not None
        taps = w[2] * w[3] * self.deformable_group
        out = self._fitted(plain, offsets.shape, taps * 2, 1)
        at.groups["O"] = self._fitted(out, masks[0].shape, taps, 3) if masks else out

    def _fitted(self, out: Shape, given: Shape | None, channels: Dim, port: int) -> Shape:
        """Return the output's shape after an input of the same batch and places."""
        if given is None:
            return out
        if merge(given[1], channels) is None:
            text = f"{_NAMES[port]} has {given[1]} channels; the filter needs {channels}"
            raise size_error(port, text)
        found = [merge(out[i], given[i]) for i in (0, 2, 3)]
        for axis, both in zip((0, 2, 3), found, strict=True):
            if both is None:
                text = f"{_NAMES[port]} has size {given[axis]}"
                text += f" on axis {axis}, the output {out[axis]}"
                raise size_error(port, text)
        batch, rows, columns = (DYNAMIC if d is None else d for d in found)
        return batch, out[1], rows, columns

    def evaluate(
        self, data: Array, offsets: Array, filter: Array, mask: Array | None = None
    ) -> Array:
        if 0 in (data.size, offsets.size, filter.size):
            return np.zeros((len(data), len(filter), *offsets.shape[2:]), data.dtype)
        kind = np.float64 if data.dtype == np.float64 else np.float32
        begin, _ = self.effective_pads(data.shape[2:], filter.shape[2:])
        strides, dilations, _ = self.filled(2)
        pad = self.bilinear_interpolation_pad
        windows = DeformableWindows(strides=strides, dilations=dilations, begin=begin, padded=pad)
        arrays = [x.astype(kind, copy=False) for x in (data, offsets, filter)]
        scaled = None if mask is None else mask.astype(kind, copy=False)
        groups = (self.group, self.deformable_group)
        with np.errstate(all="ignore"):
            out = convolve(arrays[0], arrays[1], arrays[2], scaled, windows, groups)
        return out.astype(data.dtype, copy=False)


@op("DeformableConvolution", since=8)
class DeformableConvolution(DeformableConvolution1):
    """DeformableConvolution-1 with an optional mask (N, d K, *O), by which each tap is multiplied.

    data (N, C, H, W), offsets (N, 2 d K, *O), filter (M, C / group, *K) -> (N, M, *O). With
    `bilinear_interpolation_pad` taps up to one element outside are interpolated with zeros.
    [convolution/DeformableConvolution-8]
    """

    signature = f"{_DEFORMED}; mask?: t [?, ?, ?, ?] -> t [*O]"
    bilinear_interpolation_pad: bool = False
