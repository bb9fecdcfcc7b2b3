"""Lowering forms of core.Deconvolution, as rewrite rules."""

from __future__ import annotations

from typing import Any

from irdeconv import geometry
from irdeconv.geometry import IntVector
from irdeconv.op import Builder
from irdeconv.ops import core
from irdeconv.ops.vectors import sizes, vector
from irdeconv.passes import subpixel
from irdeconv.passes.emit import convolve, flip, pad_spatial
from irdeconv.passes.rewrite import Rule, rewrite


@rewrite(core.Deconvolution)
def zero_insertion(
    op: core.Deconvolution, b: Builder[Any], x: Any, w: Any, pads_begin: Any, pads_end: Any
) -> Any:
    """core.Deconvolution -> ZeroInsertion, Pad, Convolution (filter flipped and regrouped)."""
    axes = len(op.strides)
    window = geometry.Window(vector(b, pads_begin), vector(b, pads_end))
    kernel = sizes(b, w, 3, axes)
    begin, end = geometry.zero_insertion_pads(window, kernel, IntVector(op.dilations))
    size = sizes(b, x, 2, axes)
    if isinstance(size, IntVector) and 0 in size.values:
        # Zero-insertion cannot be shorter than nothing, the scatter of S(I-1)+1 places is.
        lacking = (IntVector(op.strides) - 1) * IntVector(tuple(int(i == 0) for i in size.values))
        end = end - lacking
    if any(s != 1 for s in op.strides):
        x = b.add(core.ZeroInsertion(op.strides), x)
    x = pad_spatial(b, x, begin, end)
    return convolve(b, x, flip(b, w, axes), op.dilations)


FORMS: dict[str, Rule] = {
    "zero-insertion": zero_insertion,
    "phases": subpixel.phases,
    "stacked": subpixel.stacked,
    "gemm": subpixel.gemm,
}
AUTO = "auto"  # each deconvolution in the cheapest form that the target admits
