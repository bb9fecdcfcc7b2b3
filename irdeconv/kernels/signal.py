"""Frames of a signal: cut out under a window, and added up again."""

from __future__ import annotations

import numpy as np

from irdeconv.ir.spec import Array


def centred(window: Array, size: int) -> Array:
    """Return a window in the middle of `size` zeros."""
    before = (size - len(window)) // 2
    return np.pad(window, (before, size - len(window) - before))


def spectra(signal: Array, window: Array, size: int, step: int) -> Array:
    """Return the Fourier transforms of the frames: signal (..., L) -> (..., frames, bins)."""
    frames = np.lib.stride_tricks.sliding_window_view(signal, size, -1)[..., ::step, :]
    return np.fft.rfft(frames * centred(window, size))


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
