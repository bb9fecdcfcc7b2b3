"""Signals: Fourier transforms, of whole tensors and of the frames of a signal."""

from irdeconv.ops.signal import fourier, frames
