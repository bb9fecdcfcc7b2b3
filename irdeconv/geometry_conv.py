"""Where the windows of convolution and pooling lie: auto_pad, rounding and output sizes.

Per axis: I input size, K kernel, S stride, D dilation, DK = D(K-1)+1 the window's extent,
P = I + pads_begin + pads_end the padded size, O output size. Sizes may be intervals; every rule
grows with I and falls with K, so an interval's bounds follow from its ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from irdeconv.spec import Dim, Interval, bounds, maximum

AutoPad = Literal["explicit", "same_upper", "same_lower", "valid"]
Rounding = Literal["floor", "ceil", "ceil_torch"]
Pairs = tuple[tuple[int, ...], tuple[int, ...]]


def extent(kernel: int, dilation: int) -> int:
    """Return DK = D(K-1) + 1."""
    return dilation * (kernel - 1) + 1


def same_pads(auto_pad: str, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return the pads that give O = ceil(I/S); an odd one goes to the end under same_upper."""
    total = max((-(-size // stride) - 1) * stride + extent(kernel, dilation) - size, 0)
    small = total // 2
    return (small, total - small) if auto_pad == "same_upper" else (total - small, small)


def pads(
    auto_pad: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    explicit: tuple[Sequence[int], Sequence[int]],
) -> Pairs:
    """Return the effective (pads_begin, pads_end): the given ones under explicit only."""
    if auto_pad == "explicit":
        return tuple(explicit[0]), tuple(explicit[1])
    if auto_pad == "valid":
        return (0,) * len(sizes), (0,) * len(sizes)
    rows = zip(sizes, kernel, strides, dilations, strict=True)
    same = [same_pads(auto_pad, *row) for row in rows]
    return tuple(b for b, _ in same), tuple(e for _, e in same)


def steps(
    size: int,
    dilated_kernel: int,
    stride: int,
    pad: tuple[int, int],
    rounding: Rounding = "floor",
) -> int:
    """Return O, the number of windows in P; 0 or less where not one fits.

    floor and ceil round (P - DK)/S; ceil_torch drops the last window where it would start behind
    the data and the begin padding.
    """
    room = size + sum(pad) - dilated_kernel
    if rounding == "floor":
        return room // stride + 1
    count = -(-room // stride) + 1
    if rounding == "ceil_torch" and room >= 0 and (count - 1) * stride >= size + pad[0]:
        count -= 1
    return count


def output_size(
    auto_pad: str,
    size: Dim,
    dilated_kernel: Dim,
    stride: int,
    pad: tuple[int, int],
    rounding: Rounding = "floor",
    least: int = 1,
) -> Dim:
    """Return O of one axis; an interval is cut to what can be `least` and more.

    same_upper and same_lower mean ceil(I/S). Where the kernel is smaller than the stride and
    rounding is not floor, the runtime counts one more window.
    """
    if auto_pad in ("same_upper", "same_lower"):
        return _same_size(size, dilated_kernel, stride, rounding)
    pad = pad if auto_pad == "explicit" else (0, 0)
    (low, high), (klow, khigh) = bounds(size), bounds(dilated_kernel)
    top = None if high is None else steps(high, klow, stride, pad, rounding)
    if isinstance(size, int) and isinstance(dilated_kernel, int):
        return steps(size, dilated_kernel, stride, pad, rounding)
    bottom = least if khigh is None else steps(low, khigh, stride, pad, rounding)
    if top is not None and top < least:
        return top
    return Interval.of(max(bottom, least), top)


def _same_size(size: Dim, dilated_kernel: Dim, stride: int, rounding: Rounding) -> Dim:
    count = (size + (stride - 1)) // stride
    if rounding == "floor":
        return count
    if isinstance(size, int) and isinstance(dilated_kernel, int):
        pad = same_pads("same_upper", size, dilated_kernel, stride, 1)
        return steps(size, dilated_kernel, stride, pad, rounding)
    low, high = bounds(count)
    return Interval.of(low, None if high is None else high + 1)


def dilated(kernel: Dim, dilation: int) -> Dim:
    """Return DK of a kernel size that may be an interval."""
    return (maximum(kernel, 1) - 1) * dilation + 1
