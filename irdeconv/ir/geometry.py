"""Sizes, pads and windows: every formula of convolutions, deconvolutions and pooling.

All rules of a deconvolution's pads and output_shape reduce to a `Window` on the uncropped scatter
of size FULL = S(I-1) + D(K-1) + 1: `y[o] = full[o + pads_begin]` for 0 <= o < O, and O = FULL -
pads_begin - pads_end. A pad may be negative; outside the scatter there are zeros.

The rules are elementwise over the spatial axes, so they are written once on vectors: `IntVector`
if every number is known, a vector of graph values if sizes are known only at run time.

Per axis of a convolution or pooling: I input size, K kernel, S stride, D dilation, DK = D(K-1)+1
the window's extent, P = I + pads_begin + pads_end the padded size, O output size. Sizes may be
intervals; every rule grows with I and falls with K, so an interval's bounds follow from its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from irdeconv.ir.spec import Dim, Interval, bounds, maximum

Semantics = Literal["runtime", "document"]


class Vector(Protocol):
    """One number per spatial axis, with elementwise arithmetic."""

    def __add__(self, other: Vector | int, /) -> Vector: ...

    def __sub__(self, other: Vector | int, /) -> Vector: ...

    def __mul__(self, other: Vector | int, /) -> Vector: ...

    def half(self) -> Vector:
        """Return floor(v / 2)."""

    def clamp(self) -> Vector:
        """Return max(v, 0)."""


@dataclass(frozen=True)
class IntVector:
    """Known numbers, one per spatial axis, in Python integers.

    Arithmetic with a vector of another kind is left to that one.
    """

    values: tuple[int, ...]

    def _zip(self, other: Vector | int, f: Callable[[int, int], int]) -> IntVector:
        if isinstance(other, int):
            return IntVector(tuple(f(a, other) for a in self.values))
        if isinstance(other, IntVector):
            return IntVector(tuple(f(a, b) for a, b in zip(self.values, other.values, strict=True)))
        return NotImplemented  # type: ignore[no-any-return]

    def __add__(self, other: Vector | int, /) -> Vector:
        return self._zip(other, lambda a, b: a + b)

    def __sub__(self, other: Vector | int, /) -> Vector:
        return self._zip(other, lambda a, b: a - b)

    def __mul__(self, other: Vector | int, /) -> Vector:
        return self._zip(other, lambda a, b: a * b)

    def half(self) -> IntVector:
        """Return floor(v / 2) on every axis."""
        return IntVector(tuple(a // 2 for a in self.values))

    def clamp(self) -> IntVector:
        """Return max(v, 0) on every axis."""
        return IntVector(tuple(max(a, 0) for a in self.values))


@dataclass(frozen=True)
class Window:
    """The part of the scatter that is the output: effective pads, O = FULL - begin - end."""

    pads_begin: Vector
    pads_end: Vector


def dilated_kernel(kernel: Vector, dilations: Vector) -> Vector:
    """Return DK = D(K-1) + 1, the extent of a dilated kernel."""
    return (kernel - 1) * dilations + 1


def full_size(size: Vector, strides: Vector, kernel: Vector, dilations: Vector) -> Vector:
    """Return FULL = S(I-1) + DK, the size of the uncropped scatter."""
    return (size - 1) * strides + dilated_kernel(kernel, dilations)


@dataclass(frozen=True, kw_only=True)
class WindowTerms:
    """The terms of a window's rules, as vectors over the spatial axes."""

    size: Vector
    kernel: Vector
    strides: IntVector
    dilations: IntVector
    pads_begin: IntVector
    pads_end: IntVector
    output_padding: IntVector
    output_shape: Vector | None

    def extent(self) -> Vector:
        """Return DK, the extent of the dilated kernel."""
        return dilated_kernel(self.kernel, self.dilations)

    def full(self) -> Vector:
        """Return FULL, the size of the uncropped scatter."""
        return full_size(self.size, self.strides, self.kernel, self.dilations)


def openvino(auto_pad: str, t: WindowTerms) -> Window:
    """Return the window that the OpenVINO runtime computes.  [ConvolutionBackpropData-1]

    With `output_shape` explicit pads_begin stays in force and the end follows; under same_upper the
    odd element goes to the begin, under same_lower to the end, and a negative total is 0.
    """
    zero = t.pads_begin * 0
    if t.output_shape is None:
        begin, end = (t.pads_begin, t.pads_end) if auto_pad == "explicit" else (zero, zero)
        return Window(begin, end - t.output_padding)
    full = t.full()
    if auto_pad == "explicit":
        begin = t.pads_begin
    elif auto_pad == "valid":
        begin = zero
    else:
        begin = _share((full - t.output_shape + t.output_padding).clamp(), auto_pad == "same_lower")
    return Window(begin, full - begin - t.output_shape)


def openvino_document(auto_pad: str, t: WindowTerms) -> Window:
    """Return the window of the published formulas, floor division included.

    With `output_shape` they take half of the total at the begin for every auto_pad but same_upper,
    ignore explicit pads and let a negative total stand.  [ConvolutionBackpropData-1, document]
    """
    if t.output_shape is None:
        return openvino(auto_pad, t)
    full = t.full()
    begin = _share(full - t.output_shape + t.output_padding, auto_pad != "same_upper")
    return Window(begin, full - begin - t.output_shape)


def onednn(auto_pad: str, t: WindowTerms) -> Window:
    """Return oneDNN Graph's window.  [oneDNN Graph ConvTranspose-1]

    Under same_* the total max(DK - S, 0) is split, the smaller half at the begin for same_upper;
    given pads are ignored. output_padding always lengthens the output.
    """
    if auto_pad == "none":
        return Window(t.pads_begin, t.pads_end - t.output_padding)
    if auto_pad == "valid":
        return Window(t.strides * 0, t.strides * 0 - t.output_padding)
    total = (t.extent() - t.strides).clamp()
    begin = _share(total, auto_pad == "same_upper")
    return Window(begin, total - begin - t.output_padding)


def onnx(auto_pad: str, t: WindowTerms, *, mirrored: bool = False) -> Window:
    """Return the window of ONNX Runtime, which is that of the text since version 11.

    output_shape takes precedence over SAME_*, that over VALID and pads. A total is split with the
    smaller half at the begin for SAME_UPPER and the larger one for everything else; `mirrored` is
    the formula printed for version 1, which has it the other way round.  [ONNX ConvTranspose]
    """
    zero = t.strides * 0
    smaller = (auto_pad == "SAME_UPPER") != mirrored
    if t.output_shape is not None:
        full = t.full()
        begin = _share((full + t.output_padding - t.output_shape).clamp(), smaller)
        return Window(begin, full - begin - t.output_shape)
    if auto_pad.startswith("SAME"):
        # Wanted is I * S, and FULL - I * S is DK - S.
        total = (t.extent() - t.strides + t.output_padding).clamp()
        begin = _share(total, smaller)
        return Window(begin, total - begin - t.output_padding)
    if auto_pad == "VALID":
        return Window(zero, zero - t.output_padding)
    return Window(t.pads_begin, t.pads_end - t.output_padding)


def _share(total: Vector, smaller: bool) -> Vector:
    """Return the part of a total that goes to the begin."""
    return total.half() if smaller else total - total.half()


def tensorrt(padding_mode: str, t: WindowTerms) -> Window:
    """Return TensorRT's window.  [IDeconvolutionLayer, Shape Information]

    SAME_* override the given padding by max(DK - S, 0), the smaller half at the begin for
    SAME_UPPER; all other modes take it as it is.
    """
    if not padding_mode.startswith("SAME"):
        return Window(t.pads_begin, t.pads_end)
    total = (t.extent() - t.strides).clamp()
    begin = _share(total, padding_mode == "SAME_UPPER")
    return Window(begin, total - begin)


def zero_insertion_pads(
    window: Window, kernel: Vector, dilations: Vector, surplus: Vector
) -> tuple[Vector, Vector]:
    """Return the pads (negative: crops) of the zero-inserted data before the convolution.

    The zero-inserted data has S(I-1)+1 elements; a stride-1 convolution with the flipped kernel,
    over it padded by DK-1 on both sides, is the scatter. So each side gets DK-1 less its pad, and
    the end less the `surplus` of zeros that the data has there already.
    """
    reach = dilated_kernel(kernel, dilations) - 1
    return reach - window.pads_begin, reach - window.pads_end - surplus


def filled(values: Sequence[int], axes: int, default: int) -> tuple[int, ...]:
    """Return a per-axis attribute; an absent one (empty) is `default` on every axis."""
    return tuple(values) if values else (default,) * axes


def pytorch(padding: Vector, output_padding: Vector) -> Window:
    """Return PyTorch's window: the same padding on both sides.  [ConvTranspose1d, 2d, 3d]"""
    return Window(padding, padding - output_padding)


def tensorflow_size(padding: str, size: Vector, strides: Vector, extent: Vector) -> Vector:
    """Return the default output size: I*S under SAME, or the size that VALID keeps whole.

    Under VALID a kernel shorter than the stride still gets I*S.  [Conv2DTranspose]
    """
    whole = size * strides
    return whole if padding == "SAME" else whole + (extent - strides).clamp()


def tensorflow(padding: str, full: Vector, output_shape: Vector) -> Window:
    """Return TensorFlow's window, that of the gradient of a convolution over `output_shape`.

    Under SAME the total max(FULL - O, 0) has its smaller half at the begin.  [conv2d_transpose]
    """
    begin = full * 0
    if padding == "SAME":
        begin = (full - output_shape).clamp().half()
    return Window(begin, full - begin - output_shape)


def tensorflow_sizes(padding: str, size: int, stride: int, extent: int) -> range:
    """Return the output sizes over which a convolution has `size` windows, on one axis.

    For a single window VALID also takes sizes that lack less than a stride: its division truncates.
    """
    if padding == "SAME":
        return range(stride * (size - 1) + 1, stride * size + 1)
    full = stride * (size - 1) + extent
    return range(max(full - stride + 1, 1) if size == 1 else full, full + stride)


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
    size: int, dilated_kernel: int, stride: int, pad: tuple[int, int], rounding: Rounding = "floor"
) -> int:
    """Return O, the number of windows in P; 0 or less if not one fits.

    floor and ceil round (P - DK)/S; ceil_torch drops a last window that would start behind
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
    """Return O of one axis; an interval is cut to the sizes from `least` on.

    same_upper and same_lower mean ceil(I/S). If the kernel is smaller than the stride and
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
    return top if top is not None and top < least else Interval.of(max(bottom, least), top)


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


def size_hint(size: int, wanted: int, *, extra: int, limit: int | None, pads: int) -> str:
    """Return ways to the wanted size: `the output would be 31; output_padding=1 ...`.

    `extra` is the present output_padding, `limit` the first value that the system refuses (0: it
    has none, None: no limit), `pads` the sum of both pads.
    """
    lack = wanted - size
    ways = []
    if lack and extra + lack >= 0 and (limit is None or extra + lack < limit):
        ways.append(f"output_padding={extra + lack} gives {wanted}")
    elif lack > 0 and limit and extra < limit - 1:
        ways.append(f"output_padding={limit - 1} gives {size + limit - 1 - extra} at most")
    if 0 < lack <= pads:
        ways.append(f"pads that are {lack} less in total give {wanted}")
    elif lack < 0 and not ways:
        ways.append(f"pads that are {-lack} more in total give {wanted}")
    return "; ".join([f"the output would be {size}", *ways])


def empty_hint(full: Vector, window: Window) -> str | None:
    """Return the cuts that leave nothing, on the axis that lacks most; None: unknown."""
    parts = (full, window.pads_begin, window.pads_end)
    rows = [v.values for v in parts if isinstance(v, IntVector)]
    if len(rows) < len(parts):
        return None
    left = [whole - begin - end for whole, begin, end in zip(*rows, strict=True)]
    axis = left.index(min(left))
    whole, begin, end = (row[axis] for row in rows)
    remedy = f"{whole - 1} in total leave 1" if whole > 0 else "the data is empty"
    text = f"on spatial axis {axis} the whole scatter has {whole} elements"
    return f"{text}, of which {begin} + {end} are cut off; {remedy}"
