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
from irdeconv.spec import Shape, bounds


@rewrite(core.Deconvolution)
def zero_insertion(
    op: core.Deconvolution, b: Builder[Any], x: Any, w: Any, pads_begin: Any, pads_end: Any
) -> Any:
    """core.Deconvolution -> ZeroInsertion, Pad, Convolution (filter flipped and regrouped)."""
    axes = len(op.strides)
    window = geometry.Window(vector(b, pads_begin), vector(b, pads_end))
    kernel = sizes(b, w, 3, axes)
    trailing = _may_be_empty(b.spec(x).shape, op.strides)
    surplus = (IntVector(op.strides) - 1) * int(trailing)
    begin, end = geometry.zero_insertion_pads(window, kernel, IntVector(op.dilations), surplus)
    if any(s != 1 for s in op.strides):
        x = b.add(core.ZeroInsertion(op.strides, trailing), x)
    x = pad_spatial(b, x, begin, end)
    return convolve(b, x, flip(b, w, axes), op.dilations)


def _may_be_empty(shape: Shape | None, strides: tuple[int, ...]) -> bool:
    """Whether an axis that is spread may have no element.

    Nothing is shorter than nothing, but S(I-1)+1 is for I = 0. S*I is not, and a crop of S-1
    behind it makes one formula of all sizes.
    """
    if shape is None:
        return any(s > 1 for s in strides)
    return any(s > 1 and bounds(n)[0] == 0 for n, s in zip(shape[2:], strides, strict=True))


FORMS: dict[str, Rule] = {
    "zero-insertion": zero_insertion,
    "phases": subpixel.phases,
    "stacked": subpixel.stacked,
    "gemm": subpixel.gemm,
}
AUTO = "auto"  # each deconvolution in the cheapest form that the target admits
