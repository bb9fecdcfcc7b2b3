"""STFT and ISTFT."""

from __future__ import annotations

import math

import numpy as np

from irdeconv.errors import OpError
from irdeconv.kernels.signal import frames
from irdeconv.op import Op, op
from irdeconv.ops.checks import one_type, single, want_rank, want_type, widened
from irdeconv.ops.signal.fourier import paired, pairs, require_length
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, bounds, merge, non_negative


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
