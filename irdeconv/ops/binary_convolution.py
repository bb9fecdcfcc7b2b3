"""BinaryConvolution."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from irdeconv.errors import OpError
from irdeconv.kernels.copies import padded
from irdeconv.kernels.eager import convolution
from irdeconv.op import attribute, op
from irdeconv.ops.checks import want_rank, want_type
from irdeconv.ops.convolution import FilterWindows
from irdeconv.spec import Array, Spec
from irdeconv.traits import JUMPS


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
    constant is stored from the highest bit of a byte down, but the runtime takes each byte's bits
    from the lowest up here, right only where C is a multiple of 8; so does this, whatever C.
    [convolution/BinaryConvolution-1]
    """

    rounding = JUMPS
    filter_layout: ClassVar[str] = "[M, C, *K]"

    mode: Literal["xnor-popcount"] = "xnor-popcount"
    pad_value: float = attribute(0.0, documented=True)

    def infer(self, data: Spec, filter: Spec) -> Spec:
        want_type(data, "number", 0, "data")
        want_rank(data.shape, 4, 4, 0, "data")
        if filter.dtype is not None and filter.dtype.name != "u1":
            text = f"the filter is {filter.dtype}; it must be u1, packed bits"
            raise OpError(text, code="E303", port=1)
        return super().infer(data, Spec(data.dtype, filter.shape))

    def evaluate(self, data: Array, filter: Array) -> Array:
        shape = self.infer(Spec.of(data, keep=False), Spec(None, filter.shape)).shape or ()
        begin, end = self.effective_pads(data.shape[2:], filter.shape[2:])
        signs = np.where(data > 0, np.float32(1), np.float32(-1))
        padding = 0.0 if self.pad_value == 0 else 1.0 if self.pad_value == 1 else -1.0
        x = padded(signs, (0, 0, *begin), (0, 0, *end), padding)
        sizes = tuple(map(int, shape[2:]))  # type: ignore[arg-type]
        plain = replace(self, pads_begin=(), pads_end=(), auto_pad="explicit")
        problem = plain.problem(x.shape, filter.shape, sizes, x.dtype.name)
        return convolution(x, _signs(filter), problem).astype(data.dtype, copy=False)
