"""DeformableConvolution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from irdeconv.errors import OpError, Problem
from irdeconv.geometry import filled
from irdeconv.kernels.deformable import DeformableWindows, convolve
from irdeconv.op import op
from irdeconv.ops.channels import divided
from irdeconv.ops.checks import one_type, positive_number, want_rank, want_type
from irdeconv.ops.convolution import FilterWindows
from irdeconv.spec import DYNAMIC, Array, Dim, Shape, Spec, merge
from irdeconv.traits import SCALE

_NAMES = ("data", "offsets", "the filter", "mask")


@dataclass(frozen=True)
class _Deformable(FilterWindows):
    """Base of the two versions: a convolution of two axes whose taps are moved by `offsets`."""

    rounding = SCALE
    filter_layout: ClassVar[str] = "[M, C / group, *K]"

    group: int = 1
    deformable_group: int = 1

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        yield from positive_number(self, "group")
        yield from positive_number(self, "deformable_group")

    def _infer(self, data: Spec, offsets: Spec, filter: Spec, mask: Spec | None) -> Spec:
        given = [data, offsets, filter, *([] if mask is None else [mask])]
        want_type(data, "real", 0, "data")
        dtype = one_type(*given, names=_NAMES)
        for port, spec in enumerate(given):
            want_rank(spec.shape, 4, 4, port, _NAMES[port])
        x, w = data.shape or (DYNAMIC,) * 4, filter.shape or (DYNAMIC,) * 4
        divided(w[0], self.group, "the number of filters", "group")
        divided(x[1], self.group, "the number of channels", "group")
        divided(x[1], self.deformable_group, "the number of channels", "deformable_group")
        whole = (w[0], w[1] * self.group, *w[2:])
        try:
            plain = FilterWindows.infer(self, Spec(dtype, x), Spec(dtype, whole)).shape
        except OpError as e:
            if e.problem.port == 1:  # the filter of this operation is another input
                raise OpError(e.problem.message, code=e.problem.code, port=2) from None
            raise
        assert plain is not None
        taps = w[2] * w[3] * self.deformable_group
        out = self._fitted(plain, offsets.shape, taps * 2, 1)
        out = out if mask is None else self._fitted(out, mask.shape, taps, 3)
        return Spec(dtype, out)

    def _fitted(self, out: Shape, given: Shape | None, channels: Dim, port: int) -> Shape:
        """Return the output's shape after an input of the same batch and places."""
        if given is None:
            return out
        if merge(given[1], channels) is None:
            text = f"{_NAMES[port]} has {given[1]} channels; the filter needs {channels}"
            raise OpError(text, code="E302", port=port)
        found = [merge(out[i], given[i]) for i in (0, 2, 3)]
        for axis, both in zip((0, 2, 3), found, strict=True):
            if both is None:
                text = (
                    f"{_NAMES[port]} has size {given[axis]} on axis {axis}, the output {out[axis]}"
                )
                raise OpError(text, code="E302", port=port)
        batch, rows, columns = (DYNAMIC if d is None else d for d in found)
        return batch, out[1], rows, columns

    def _compute(
        self, data: Array, offsets: Array, filter: Array, mask: Array | None, *, padded: bool
    ) -> Array:
        if 0 in (data.size, offsets.size, filter.size):
            return np.zeros((len(data), len(filter), *offsets.shape[2:]), data.dtype)
        kind = np.float64 if data.dtype == np.float64 else np.float32
        begin, _ = self.effective_pads(data.shape[2:], filter.shape[2:])
        windows = DeformableWindows(
            strides=filled(self.strides, 2, 1),
            dilations=filled(self.dilations, 2, 1),
            begin=begin,
            padded=padded,
        )
        arrays = [x.astype(kind, copy=False) for x in (data, offsets, filter)]
        scaled = None if mask is None else mask.astype(kind, copy=False)
        groups = (self.group, self.deformable_group)
        with np.errstate(all="ignore"):
            out = convolve(arrays[0], arrays[1], arrays[2], scaled, windows, groups)
        return out.astype(data.dtype, copy=False)

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        yield from super().remarks(inputs[0], inputs[2])

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        return super().macs((inputs[0], inputs[2]), outputs)


@op("DeformableConvolution", until=7)
class DeformableConvolution1(_Deformable):
    """Convolution whose taps are moved: data (N, C, H, W), offsets, filter -> (N, M, *O).

    offsets (N, 2 d K, *O): y and x for each of K taps and of d = `deformable_group` groups of
    channels; filter (M, C / `group`, *K). Floating-point. A tap between elements is interpolated,
    one outside of the data is 0.  [convolution/DeformableConvolution-1]
    """

    def infer(self, data: Spec, offsets: Spec, filter: Spec) -> Spec:  # type: ignore[override]
        return self._infer(data, offsets, filter, None)

    def evaluate(self, data: Array, offsets: Array, filter: Array) -> Array:
        return self._compute(data, offsets, filter, None, padded=False)


@op("DeformableConvolution", since=8)
class DeformableConvolution(_Deformable):
    """DeformableConvolution-1 with an optional mask (N, d K, *O), by which each tap is multiplied.

    data (N, C, H, W), offsets (N, 2 d K, *O), filter (M, C / group, *K) -> (N, M, *O). With
    `bilinear_interpolation_pad` taps up to one element outside are interpolated with zeros.
    [convolution/DeformableConvolution-8]
    """

    bilinear_interpolation_pad: bool = False

    def infer(  # type: ignore[override]
        self, data: Spec, offsets: Spec, filter: Spec, mask: Spec | None = None
    ) -> Spec:
        return self._infer(data, offsets, filter, mask)

    def evaluate(
        self, data: Array, offsets: Array, filter: Array, mask: Array | None = None
    ) -> Array:
        padded = self.bilinear_interpolation_pad
        return self._compute(data, offsets, filter, mask, padded=padded)
