"""Colours: luma and two differences, as cameras and decoders give them, to red, green and blue."""

from __future__ import annotations

import numpy as np

from irdeconv.spec import Array


def to_rgb(y: Array, u: Array, v: Array) -> Array:
    """Return red, green and blue (..., 3) in 0..255: y (N, H, W), u and v (N, H / 2, W / 2), f32.

    Every step is rounded to f32, in the runtime's order, so that u8 rounds to the same.
    """
    luma = (y - np.float32(16)) * np.float32(1.164)
    u, v = ((p - np.float32(128)).repeat(2, 1).repeat(2, 2) for p in (u, v))
    red = luma + np.float32(1.596) * v
    green = luma - np.float32(0.391) * u - np.float32(0.813) * v
    blue = luma + np.float32(2.018) * u
    return np.asarray(np.clip(np.stack([red, green, blue], -1), 0, 255))
