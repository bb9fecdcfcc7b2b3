"""Fourier transforms of tensors and of frames.

DFT, IDFT, RDFT and IRDFT. Complex numbers are pairs, the last axis of size 2.

STFT and ISTFT.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.base.limits import current, raise_hint
from irdeconv.ir.op import Op, op
from irdeconv.ir.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, merge, non_negative
from irdeconv.kernels import signal as frames
from irdeconv.ops.checks import (
    UNKNOWN,
    axes_of,
    elements,
    exact,
    one_type,
    single,
    want_rank,
    want_type,
    widened,
)


def paired(x: Array) -> Array:
    """Return pairs [..., 2] as complex numbers [...], double ones where the pairs are."""
    real = np.float64 if x.dtype == np.float64 else np.float32
    kind = np.complex128 if real == np.float64 else np.complex64
    flat = np.ascontiguousarray(x, real)
    return flat.view(kind)[..., 0]


def pairs(z: Array, dtype: np.dtype[Any]) -> Array:
    """Return complex numbers [...] as pairs [..., 2]."""
    out = np.stack([z.real, z.imag], -1)
    return out.astype(dtype, copy=False)


def require_length(size: int, name: str, port: int) -> None:
    """Raise OpError E306 for an axis that comes from a wrong size."""
    limit = current().axis_elements
    if size > limit:
        text, hint = f"{name} has {size}, above {limit}", raise_hint("axis_elements")
        raise OpError(text, code="E306", port=port, hint=hint)


class _Fourier(Op):
    """Base: data, axes, and the sizes to which those axes are cut or filled up with zeros first."""

    complex_input: ClassVar[int] = 1  # the last axis of the data holds pairs
    transform: ClassVar[Callable[..., Any]]

    def infer(self, data: Spec, axes: Spec, signal_size: Spec | None = None) -> Spec:
        want_type(data, "real", 0, "data")
        want_rank(data.shape, 1 + self.complex_input, None, 0, "data")
        want_rank(axes.shape, 1, 1, 1, "axes")
        chosen = elements(axes, 1, "axes")
        sizes = None if signal_size is None else elements(signal_size, 2, "signal_size")
        if signal_size is not None:
            want_rank(signal_size.shape, 1, 1, 2, "signal_size")
        if chosen is not None and sizes is not None and len(chosen) != len(sizes):
            text = f"signal_size has {len(sizes)} values for {len(chosen)} axes"
            raise OpError(text, code="E302", port=2)
        if data.shape is None:
            return Spec(data.dtype, None)
        shape = self._complex_shape(data.shape)
        given = signal_size is not None
        places = exact(chosen)
        if places is None:
            return Spec(data.dtype, self._pairs((DYNAMIC,) * len(shape)))
        places = axes_of(places, len(shape), 1)
        new = (UNKNOWN,) * len(places) if given and sizes is None else sizes
        return Spec(data.dtype, self._pairs(self._resized(shape, places, new)))

    def _complex_shape(self, shape: Shape) -> Shape:
        """Return the shape of the numbers that are transformed."""
        if not self.complex_input:
            return shape
        if merge(shape[-1], 2) is None:
            text = f"the last axis of data has {shape[-1]} elements; it must have 2 (re, im)"
            raise OpError(text, code="E302", port=0)
        return shape[:-1]

    def _pairs(self, shape: Shape) -> Shape:
        """Return the shape of the output for a shape of complex numbers."""
        return (*shape, 2)

    def _resized(self, shape: Shape, axes: tuple[int, ...], sizes: Shape | None) -> Shape:
        out = list(shape)
        for i, axis in enumerate(axes):
            size = -1 if sizes is None else sizes[i]
            out[axis] = self._size(shape[axis], size, last=i == len(axes) - 1)
        return tuple(out)

    def _size(self, length: Dim, size: Dim, *, last: bool) -> Dim:
        """Return the length of a transformed axis; a `size` of -1 keeps it."""
        if isinstance(size, Interval):
            return size if size.lo >= 0 else DYNAMIC
        if size < -1 or size == 0:
            text = f"signal_size has {size}; it must be positive, or -1 for the whole axis"
            raise OpError(text, code="E305", port=2)
        require_length(size, "signal_size", 2)
        return length if size == -1 else size

    def evaluate(self, data: Array, axes: Array, signal_size: Array | None = None) -> Array:
        x = paired(data) if self.complex_input else widened(data)
        places = axes_of(axes.tolist(), x.ndim, 1)
        spec = self.infer(*map(_known, (data, axes)), *self._more(signal_size))
        assert spec.shape is not None
        if 0 in data.shape or 0 in spec.shape:
            return np.zeros(tuple(map(int, spec.shape)), data.dtype)  # type: ignore[arg-type]
        sizes = self._lengths(x.shape, places, signal_size)
        with np.errstate(all="ignore"):
            return self.computed(x, sizes, places).astype(data.dtype, copy=False)

    def _more(self, signal_size: Array | None) -> list[Spec]:
        return [] if signal_size is None else [_known(signal_size)]

    def _lengths(
        self, shape: tuple[int, ...], axes: Sequence[int], signal_size: Array | None
    ) -> list[int]:
        """Return how long each axis is that is transformed."""
        sizes = [-1] * len(axes) if signal_size is None else signal_size.tolist()
        return [shape[a] if s == -1 else s for a, s in zip(axes, sizes, strict=True)]

    def computed(self, x: Array, sizes: list[int], axes: tuple[int, ...]) -> Array:
        """Return the transform, pairs or real numbers."""
        return pairs(type(self).transform(x, sizes, axes) if axes else x, x.real.dtype)


def _known(x: Array) -> Spec:
    return Spec.of(x)


@op("DFT", since=7)
class DFT(_Fourier):
    """Discrete Fourier transform along `axes`: data [*I, 2] -> [*O, 2], floating-point pairs.

    sum over n of x[n] exp(-2 pi i n k / N). A negative axis counts from the axis before the pairs.
    `signal_size` has a length for each axis, to which the data is cut or filled up with zeros; -1
    keeps it.  [signals/DFT-7]
    """

    transform = np.fft.fftn


@op("IDFT", since=7)
class IDFT(_Fourier):
    """Inverse DFT along `axes`: data [*I, 2] -> [*O, 2], 1/N sum of x[k] exp(2 pi i n k / N).

    Axes and `signal_size` as for DFT.  [signals/IDFT-7]
    """

    transform = np.fft.ifftn


@op("RDFT", since=9)
class RDFT(_Fourier):
    """DFT of real data along `axes`: [*I] -> [*O, 2]; the last of `axes` keeps N / 2 + 1 values.

    The others follow by symmetry. Axes count from all of the data's. `signal_size` cuts or fills up
    with zeros (the runtime computes neither longer signals nor a size of -1).  [signals/RDFT-9]
    """

    complex_input: ClassVar[int] = 0

    def _size(self, length: Dim, size: Dim, *, last: bool) -> Dim:
        n = super()._size(length, size, last=last)
        return n // 2 + 1 if last else n

    def computed(self, x: Array, sizes: list[int], axes: tuple[int, ...]) -> Array:
        if not axes:
            return pairs(x.astype(np.result_type(x, np.complex64)), x.dtype)
        return pairs(np.fft.rfftn(x, sizes, axes), x.dtype)


@op("IRDFT", since=9)
class IRDFT(_Fourier):
    """Inverse of RDFT: data [*I, 2] -> real [*O]; the last of `axes` grows to 2 (I - 1).

    What the pairs of that axis leave out is taken to be symmetric. `signal_size` gives other
    lengths, of results; missing pairs are zeros (where the runtime reads behind its data).
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

    def _lengths(
        self, shape: tuple[int, ...], axes: Sequence[int], signal_size: Array | None
    ) -> list[int]:
        sizes = super()._lengths(shape, axes, signal_size)
        if sizes and (signal_size is None or signal_size[-1] == -1):
            sizes[-1] = 2 * (shape[axes[-1]] - 1)
        return sizes

    def computed(self, x: Array, sizes: list[int], axes: tuple[int, ...]) -> Array:
        return np.asarray(np.fft.irfftn(x, sizes, axes) if axes else x.real)


def _positive(spec: Spec, port: int, name: str) -> Dim:
    """Return the value of a scalar that must be positive."""
    want_rank(spec.shape, 0, 0, port, name)
    value = single(spec, port, name)
    top = bounds(value)[1]
    if top is not None and top < 1:
        raise OpError(f"{name} is {value}; it must be positive", code="E305", port=port)
    require_length(bounds(value)[0], name, port)
    return Interval.of(max(1, bounds(value)[0]), top)


def _check_window(window: Spec, size: Dim) -> None:
    want_rank(window.shape, 1, 1, 1, "window")
    top = bounds(size)[1]
    if window.shape is None:
        return
    low, high = bounds(window.shape[0])
    if high == 0 or (top is not None and low > top):
        text = f"window has {window.shape[0]} values; it must have 1 to frame_size, {size}"
        raise OpError(text, code="E302", port=1)


@op("STFT", since=15)
class STFT(Op):
    """Fourier transforms of frames: signal (B, L) or (L), window (W), two scalars -> 3 more axes.

    A frame of `frame_size` F begins every `frame_step` S elements, and is multiplied by the window,
    which lies in the middle of F zeros: (B, (L - F) / S + 1, F / 2 + 1, 2), pairs of re and im.
    `transpose_frames` puts frames behind frequencies. Floating-point.  [signals/STFT-15]
    """

    transpose_frames: bool

    def infer(self, signal: Spec, window: Spec, frame_size: Spec, frame_step: Spec) -> Spec:
        want_type(signal, "real", 0, "signal")
        dtype = one_type(signal, window, names=("signal", "window"))
        want_rank(signal.shape, 1, 2, 0, "signal")
        size = _positive(frame_size, 2, "frame_size")
        step = _positive(frame_step, 3, "frame_step")
        _check_window(window, size)
        if signal.shape is None:
            return Spec(dtype, None)
        length = signal.shape[-1]
        top = bounds(length)[1]
        if top is not None and top < bounds(size)[0]:
            text = f"frame_size is {size}; the signal has {length} elements"
            raise OpError(text, code="E305", port=2)
        count = non_negative(length - size) // step + 1
        parts: Shape = (count, size // 2 + 1)
        return Spec(dtype, (*signal.shape[:-1], *parts[:: -1 if self.transpose_frames else 1], 2))

    def evaluate(self, signal: Array, window: Array, frame_size: Array, frame_step: Array) -> Array:
        shape = self.infer(*map(Spec.of, (signal, window, frame_size, frame_step))).shape or ()
        if 0 in signal.shape:
            return np.zeros(tuple(map(int, shape)), signal.dtype)  # type: ignore[arg-type]
        x, mask = widened(signal), widened(window)
        z = frames.spectra(x, mask, int(frame_size.item()), int(frame_step.item()))
        return pairs(z.swapaxes(-1, -2) if self.transpose_frames else z, signal.dtype)


@op("ISTFT", since=16)
class ISTFT(Op):
    """Put frames together: data (B, F / 2 + 1, N, 2) or without B, window, two scalars -> (B, L).

    The real transforms of the N frames are multiplied by the window and added up `frame_step` S
    apart, then divided by the sum of the squared windows; with `normalized` times sqrt(F). L is
    (N - 1) S + F; `center` drops F / 2 at both ends. `signal_length` cuts the end or fills up with
    zeros instead. Floating-point.  [signals/ISTFT-16]
    """

    center: bool
    normalized: bool

    def infer(
        self,
        data: Spec,
        window: Spec,
        frame_size: Spec,
        frame_step: Spec,
        signal_length: Spec | None = None,
    ) -> Spec:
        want_type(data, "real", 0, "data")
        dtype = one_type(data, window, names=("data", "window"))
        want_rank(data.shape, 3, 4, 0, "data")
        size = _positive(frame_size, 2, "frame_size")
        step = _positive(frame_step, 3, "frame_step")
        _check_window(window, size)
        length = None if signal_length is None else self._given(signal_length)
        if data.shape is None:
            return Spec(dtype, None)
        *batch, bins, count, two = data.shape
        if merge(two, 2) is None:
            text = f"the last axis of data has {two} elements; it must have 2 (re, im)"
            raise OpError(text, code="E302", port=0)
        if merge(bins, size // 2 + 1) is None:
            text = f"data has {bins} frequencies; frame_size {size} has {size // 2 + 1}"
            raise OpError(text, code="E302", port=0)
        if length is None:
            whole = (count - 1) * step + size
            left = whole - (size // 2) * 2 if self.center else whole
            length = max(left, 0) if isinstance(left, int) else non_negative(left)
        return Spec(dtype, (*batch, length))

    def _given(self, signal_length: Spec) -> Dim:
        want_rank(signal_length.shape, 0, 1, 4, "signal_length")
        value = single(signal_length, 4, "signal_length")
        low, top = bounds(value)
        if top is not None and top < 0:
            text = f"signal_length is {value}; it must not be negative"
            raise OpError(text, code="E305", port=4)
        require_length(low, "signal_length", 4)
        return DYNAMIC if low < 0 and top is None else non_negative(value)

    def evaluate(
        self,
        data: Array,
        window: Array,
        frame_size: Array,
        frame_step: Array,
        signal_length: Array | None = None,
    ) -> Array:
        size, step = int(frame_size.item()), int(frame_step.item())
        given = [data, window, frame_size, frame_step]
        given += [] if signal_length is None else [signal_length]
        shape = tuple(map(int, self.infer(*map(Spec.of, given)).shape or ()))  # type: ignore[arg-type]
        out = np.zeros(shape, data.dtype)
        if 0 in data.shape or 0 in shape:
            return out
        spectrum = paired(data).swapaxes(-1, -2)
        whole = frames.joined(spectrum, widened(window), size, step)
        if self.normalized:
            whole *= whole.dtype.type(math.sqrt(size))
        part = whole[..., size // 2 if self.center else 0 :][..., : shape[-1]]
        out[..., : part.shape[-1]] = part
        return out
