"""NV12toRGB and its like: four pixels of luma share two differences."""

from typing import Any

import numpy as np

from op_cases import Case, case, f16, f32, u8

# Two images of 2 x 4 pixels, with 1 x 2 differences; 116 is a luma of 1.164 * 100.
Y = np.array([[[16, 116, 66, 216], [235, 16, 41, 91]], [[90, 17, 30, 200], [120, 60, 255, 0]]])
U = np.array([[[128, 28]], [[90, 240]]])
V = np.array([[[228, 128]], [[17, 99]]])
Colour = tuple[float, ...]


def pixel(y: float, u: float, v: float) -> Colour:
    luma, d, e = 1.164 * (y - 16), u - 128, v - 128
    found = (luma + 1.596 * e, luma - 0.391 * d - 0.813 * e, luma + 2.018 * d)
    return tuple(min(max(c, 0), 255) for c in found)


RGB = np.empty((2, 2, 4, 3))
for n, i, j in np.ndindex(2, 2, 4):
    RGB[n, i, j] = pixel(Y[n, i, j], U[n, i // 2, j // 2], V[n, i // 2, j // 2])
PAIRS = np.stack([U, V], -1)
BELOW = {  # luma and what follows it in a single plane
    "NV12": np.concatenate([Y, PAIRS.reshape(2, 1, 4)], 1),
    "I420": np.concatenate([Y, np.concatenate([U, V], 2)], 1),
}


def row(op: str, kind: Any, *planes: Any) -> Case:
    out = RGB[..., ::-1] if "BGR" in op else RGB
    rounded = np.floor(out + 0.5) if kind is u8 else out
    inputs = [kind(p if p.ndim == 4 else p[..., None]) for p in planes or (BELOW[op[:4]],)]
    return case(op, "", inputs, kind(rounded), tolerance=2.0**-10 if kind is f16 else 2.0**-20)


CASES = [
    row("NV12toRGB-8", u8),
    row("NV12toBGR-8", f32),
    row("NV12toRGB-8", f16, Y, PAIRS),
    row("NV12toBGR-8", u8, Y, PAIRS),
    row("I420toRGB-8", u8),
    row("I420toBGR-8", f32),
    row("I420toRGB-8", f32, Y, U, V),
    row("I420toBGR-8", u8, Y, U, V),
]
