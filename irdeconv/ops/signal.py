"""Fourier transforms of tensors and of frames. Complex numbers are pairs, the last axis of 2."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from irdeconv.base.errors import OpError, size_error, value_error, values_of
from irdeconv.base.limits import current, raise_hint
from irdeconv.ir.op import Op, op
from irdeconv.ir.ports import Fit, exact
from irdeconv.ir.spec import (
    DYNAMIC,
    UNKNOWN,
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    merge,
    non_negative,
)
from irdeconv.ops.checks import at_least, axes_of, inferred_shape, widened


def centred(window: Array, size: int) -> Array:
    """Return a window in the middle of `size` zeros."""
    before = (size - len(window)) // 2
    return np.pad(window, (before, size - len(window) - before))


def joined(spectrum: Array, window: Array, size: int, step: int) -> Array:
    """Add up windowed frames (..., frames, bins) -> (..., L), over the sum of squares, or 0."""
    mask = centred(window, size)
    frames = np.fft.irfft(spectrum, size) * mask
    count = frames.shape[-2]
    total = np.zeros((*frames.shape[:-2], (count - 1) * step + size), frames.dtype)
    weight = np.zeros(total.shape[-1], frames.dtype)
    square = mask * mask
    for i in range(count):
        place = slice(i * step, i * step + size)
        total[..., place] += frames[..., i, :]
        weight[place] += square
    return np.divide(total, weight, out=np.zeros_like(total), where=weight != 0)


def paired(x: Array) -> Array:
    """Return pairs [..., 2] as complex numbers [...], double ones if the pairs are."""
    real = np.float64 if x.dtype == np.float64 else np.float32
    kind = np.complex128 if real == np.float64 else np.complex64
    return np.ascontiguousarray(x, real).view(kind)[..., 0]


def pairs(z: Array, dtype: np.dtype[Any]) -> Array:
    """Return complex numbers [...] as pairs [..., 2]."""
    return np.stack([z.real, z.imag], -1).astype(dtype, copy=False)


def require_length(size: int, name: str, port: int) -> None:
    """Raise OpError E306 for an axis that comes from a wrong size."""
    limit = current().axis_elements
    if size > limit:
        text, hint = f"{name} has {size}, above {limit}", raise_hint("axis_elements")
        raise OpError(text, code="E306", port=port, hint=hint)


@op("DFT", since=7)
class DFT(Op):
    """Discrete Fourier transform along `axes`: data [*I, 2] -> [*O, 2], floating-point pairs.

    sum over n of x[n] exp(-2 pi i n k / N). A negative axis counts from the axis before the pairs.
    `signal_size` has a length for each axis, to which the data is cut or filled up with zeros; -1
    keeps it.  [signals/DFT-7]
    """

    signature = (
        "data: f64|f32|f16|bf16 t [*I, ?, 2]; axes: i32|i64 [?]; signal_size?: i32|i64 [?] "
        "-> t [*O]"
    )
    complex_input: ClassVar[int] = 1  # the last axis of the data holds pairs
    transform: ClassVar[Callable[..., Any]] = np.fft.fftn

    def complete(self, at: Fit, data: Spec, axes: Spec, signal_size: Spec | None = None) -> None:
        chosen, sizes = at.values("axes"), at.values("signal_size")
        if chosen is not None and sizes is not None and len(chosen) != len(sizes):
            raise size_error(2, f"signal_size has {values_of(len(sizes))} for {len(chosen)} axes")
        if data.shape is None:
            return
        shape = data.shape[:-1] if self.complex_input else data.shape
        places = exact(chosen)
        resized: list[Dim] = [DYNAMIC] * len(shape)
        if places is not None:
            places = axes_of(places, len(shape), 1)
            new = (UNKNOWN,) * len(places) if signal_size is not None and sizes is None else sizes
            resized = list(shape)
            for i, axis in enumerate(places):
                size = -1 if new is None else new[i]
                resized[axis] = self._size(shape[axis], size, last=i == len(places) - 1)
        at.groups["O"] = self._pairs(tuple(resized))

    def _pairs(self, shape: Shape) -> Shape:
        """Return the shape of the output for a shape of complex numbers."""
        return (*shape, 2)

    def _size(self, length: Dim, size: Dim, *, last: bool) -> Dim:
        """Return the length of a transformed axis; a `size` of -1 keeps it."""
        if isinstance(size, Interval):
            return size if size.lo >= 0 else DYNAMIC
        if size < -1 or size == 0:
            text = f"signal_size has {size}; it must be positive, or -1 for the whole axis"
            raise value_error(2, text)
        require_length(size, "signal_size", 2)
        return length if size == -1 else size

    def evaluate(self, data: Array, axes: Array, signal_size: Array | None = None) -> Array:
        x = paired(data) if self.complex_input else widened(data)
        places = axes_of(axes.tolist(), x.ndim, 1)
        shape = inferred_shape(self, data, axes, signal_size)
        if 0 in data.shape or 0 in shape:
            return np.zeros(shape, data.dtype)
        sizes = [shape[a] for a in places]
        if sizes and not self.complex_input:  # of which the output has half
            last = -1 if signal_size is None else int(signal_size[-1])
            sizes[-1] = x.shape[places[-1]] if last == -1 else last
        with np.errstate(all="ignore"):
            return self.computed(x, sizes, places).astype(data.dtype, copy=False)

    def computed(self, x: Array, sizes: list[int], axes: tuple[int, ...]) -> Array:
        """Return the transform, pairs or real numbers, of these lengths of the axes."""
        return pairs(type(self).transform(x, sizes, axes) if axes else x, x.real.dtype)


@op("IDFT", since=7)
class IDFT(DFT):
    """Inverse DFT along `axes`: data [*I, 2] -> [*O, 2], 1/N sum of x[k] exp(2 pi i n k / N).

    Axes and `signal_size` as for DFT.  [signals/IDFT-7]
    """

    transform = np.fft.ifftn


@op("RDFT", since=9)
class RDFT(DFT):
    """DFT of real data along `axes`: [*I] -> [*O, 2]; the last of `axes` keeps N / 2 + 1 values.

    The others follow by symmetry. Axes count from all of the data's. `signal_size` cuts or fills up
    with zeros (the runtime computes neither longer signals nor a size of -1).  [signals/RDFT-9]
    """

    signature = DFT.signature.replace("[*I, ?, 2]", "[*I, ?]")
    complex_input: ClassVar[int] = 0
    transform = np.fft.rfftn

    def _size(self, length: Dim, size: Dim, *, last: bool) -> Dim:
        n = super()._size(length, size, last=last)
        return n // 2 + 1 if last else n


@op("IRDFT", since=9)
class IRDFT(DFT):
    """Inverse of RDFT: data [*I, 2] -> real [*O]; the last of `axes` grows to 2 (I - 1).

    Elements beyond the pairs of that axis are assumed symmetric. `signal_size` gives other lengths
    of results; missing pairs are zeros (but the runtime reads behind its data).
    [signals/IRDFT-9]
    """

    def _pairs(self, shape: Shape) -> Shape:
        return shape

    def _size(self, length: Dim, size: Dim, *, last: bool) -> Dim:
        if last and size == -1:
            return non_negative((length - 1) * 2)
        if last and isinstance(size, Interval) and size.lo < 0:
            return DYNAMIC
        return super()._size(length, size, last=last)

    def computed(self, x: Array, sizes: list[int], axes: tuple[int, ...]) -> Array:
        return np.asarray(np.fft.irfftn(x, sizes, axes) if axes else x.real)


def _positive(at: Fit, port: int, name: str) -> Dim:
    """Return the value of a scalar that must be positive."""
    value = at.value(name)
    at_least(1, [value], port, name)
    low, top = bounds(value)
    require_length(low, name, port)
    return Interval.of(max(1, low), top)


def _check_window(window: Spec, size: Dim) -> None:
    top = bounds(size)[1]
    if window.shape is None:
        return
    low, high = bounds(window.shape[0])
    if high == 0 or (top is not None and low > top):
        text = f"window has {values_of(window.shape[0])}; it must have 1 to frame_size, {size}"
        raise size_error(1, text)


@op("STFT", since=15)
class STFT(Op):
    """Fourier transforms of frames: signal (B, L) or (L), window (W), two scalars -> 3 more axes.

    A frame of `frame_size` F begins every `frame_step` S elements, and is multiplied by the window,
    which is in the middle of F zeros: (B, (L - F) / S + 1, F / 2 + 1, 2), pairs of re and im.
    `transpose_frames` puts frames behind frequencies. Floating-point.  [signals/STFT-15]
    """

    signature = (
        "signal: real t [*B:1, L]; window: t [?]; frame_size: i32|i64 []; frame_step: i32|i64 [] "
        "-> t [*O]"
    )
    transpose_frames: bool

    def complete(
        self, at: Fit, signal: Spec, window: Spec, frame_size: Spec, frame_step: Spec
    ) -> None:
        size, step = _positive(at, 2, "frame_size"), _positive(at, 3, "frame_step")
        _check_window(window, size)
        if signal.shape is None:
            return
        length = signal.shape[-1]
        top = bounds(length)[1]
        if top is not None and top < bounds(size)[0]:
            raise value_error(2, f"frame_size is {size}; the signal has {length} elements")
        parts: Shape = (non_negative(length - size) // step + 1, size // 2 + 1)
        ordered = parts[::-1] if self.transpose_frames else parts
        at.groups["O"] = (*signal.shape[:-1], *ordered, 2)

    def evaluate(self, signal: Array, window: Array, frame_size: Array, frame_step: Array) -> Array:
        shape = inferred_shape(self, signal, window, frame_size, frame_step)
        if 0 in signal.shape:
            return np.zeros(shape, signal.dtype)
        size, step = int(frame_size.item()), int(frame_step.item())
        frames = np.lib.stride_tricks.sliding_window_view(widened(signal), size, -1)
        z = np.fft.rfft(frames[..., ::step, :] * centred(widened(window), size))
        return pairs(z.swapaxes(-1, -2) if self.transpose_frames else z, signal.dtype)


@op("ISTFT", since=16)
class ISTFT(Op):
    """Put frames together: data (B, F / 2 + 1, N, 2) or without B, window, two scalars -> (B, L).

    The real transforms of the N frames are multiplied by the window and added up `frame_step` S
    apart, then divided by the sum of the squared windows; with `normalized` times sqrt(F). L is
    (N - 1) S + F; `center` drops F / 2 at both ends. `signal_length` cuts the end or fills up with
    zeros instead. Floating-point.  [signals/ISTFT-16]
    """

    signature = (
        "data: real t [*B:1, F, N, 2]; window: t [?]; frame_size: i32|i64 []; "
        "frame_step: i32|i64 []; signal_length?: i32|i64 one = L -> t [*B, L]"
    )
    center: bool
    normalized: bool

    def complete(self, at: Fit, *inputs: Spec) -> None:
        size, step = _positive(at, 2, "frame_size"), _positive(at, 3, "frame_step")
        _check_window(inputs[1], size)
        if merge(at["F"], size // 2 + 1) is None:
            text = f"data has {at['F']} frequencies; frame_size {size} has {size // 2 + 1}"
            raise size_error(0, text)
        if len(inputs) > 4:
            require_length(bounds(at["L"])[0], "signal_length", 4)
            return
        whole = (at["N"] - 1) * step + size
        left = whole - (size // 2) * 2 if self.center else whole
        at["L"] = max(left, 0) if isinstance(left, int) else non_negative(left)

    def evaluate(self, data: Array, window: Array, *scalars: Array) -> Array:
        size, step = (int(v.item()) for v in scalars[:2])
        shape = inferred_shape(self, data, window, *scalars)
        out = np.zeros(shape, data.dtype)
        if 0 in data.shape or 0 in shape:
            return out
        whole = joined(paired(data).swapaxes(-1, -2), widened(window), size, step)
        if self.normalized:
            whole *= whole.dtype.type(math.sqrt(size))
        part = whole[..., size // 2 if self.center else 0 :][..., : shape[-1]]
        out[..., : part.shape[-1]] = part
        return out
