"""Fourier transforms, by their sums written out, and frames of signals."""

import cmath
import itertools
import math
from typing import Any

import numpy as np

from op_cases import ROUNDING, Case, Tensor, case, f32, f64, i32, i64, unordered

Complex = Any  # an object array of complex numbers


def transform(x: Complex, axes: list[int], sizes: list[int], sign: int) -> Complex:
    """Transform axis by axis; shorter data are filled up with zeros, longer ones cut."""
    for axis, size in zip(axes, sizes, strict=True):
        x = np.moveaxis(x, axis, -1)
        part = x[..., :size]
        part = np.pad(part, [(0, 0)] * (x.ndim - 1) + [(0, size - part.shape[-1])])
        turn = [
            [cmath.exp(sign * 2j * math.pi * n * k / size) for k in range(size)]
            for n in range(size)
        ]
        x = np.moveaxis(part @ np.array(turn), -1, axis)
    return x


def joined(pairs: Any) -> Complex:
    return pairs[..., 0] + 1j * pairs[..., 1]


def split(z: Complex) -> Any:
    return np.stack([z.real, z.imag], -1)


LOOSE = 64 * ROUNDING
PAIRS = unordered((3, 4, 5, 2))
REAL = unordered((3, 4, 5))


def lists(axes: list[int], sizes: list[int] | None) -> list[Tensor]:
    return [i64(axes, (len(axes),)), *([] if sizes is None else [i64(sizes)])]


def resized(shape: tuple[int, ...], axes: list[int], sizes: list[int] | None) -> list[int]:
    given = [-1] * len(axes) if sizes is None else sizes
    return [shape[a] if s == -1 else s for a, s in zip(axes, given, strict=True)]


def dft(op: str, axes: list[int], sizes: list[int] | None = None, **more: Any) -> Case:
    z = joined(PAIRS)
    whole = [a % 3 for a in axes]
    lengths = resized(z.shape, whole, sizes)
    out = transform(z, whole, lengths, -1 if op == "DFT-7" else 1)
    if op == "IDFT-7":
        out = out / math.prod(lengths)
    inputs = [f32(PAIRS), *lists(axes, sizes)]
    return case(op, "", inputs, f32(split(out)), tolerance=LOOSE, **more)


def rdft(axes: list[int], sizes: list[int] | None = None, **more: Any) -> Case:
    whole = [a % 3 for a in axes]
    lengths = resized(REAL.shape, whole, sizes)
    out = transform(REAL.astype(complex), whole, lengths, -1)
    if axes:
        out = np.take(out, range(lengths[-1] // 2 + 1), whole[-1])
    inputs = [f32(REAL), *lists(axes, sizes)]
    return case("RDFT-9", "", inputs, f32(split(out)), tolerance=LOOSE, **more)


def irdft(axes: list[int], sizes: list[int] | None = None, **more: Any) -> Case:
    z = joined(PAIRS)
    whole = [a % 3 for a in axes]
    lengths = resized(z.shape, whole, sizes)
    last = whole[-1]
    if sizes is None or sizes[-1] == -1:
        lengths[-1] = 2 * (z.shape[last] - 1)
    half = transform(z, whole[:-1], lengths[:-1], 1)
    size = lengths[-1]
    half = np.moveaxis(half, last, -1)[..., : size // 2 + 1]
    half = np.pad(half, [(0, 0)] * 2 + [(0, size // 2 + 1 - half.shape[-1])])
    # What is left out is the conjugate of what stands as far from the end.
    rest = [half[..., size - k].conj() for k in range(size // 2 + 1, size)]
    full = np.concatenate([half, np.stack(rest, -1)], -1) if rest else half
    full[..., 0] = full[..., 0].real
    if size % 2 == 0:
        full[..., size // 2] = full[..., size // 2].real
    out = transform(full, [2], [size], 1).real / math.prod(lengths)
    inputs = [f32(PAIRS), *lists(axes, sizes)]
    wanted = f32(np.moveaxis(out, -1, last))
    return case("IRDFT-9", "", inputs, wanted, tolerance=LOOSE, **more)


CUTS = "a real transform of whole axes"
LONGER = "OpenVINO refuses a signal longer than the data, then dies of the next model"
UNREAD = "OpenVINO reads behind the data where pairs are missing"
UNWRITTEN = "OpenVINO leaves the output unwritten without axes"
FOURIER = [
    *(dft(op, axes) for op in ("DFT-7", "IDFT-7") for axes in ([0], [-1], [2, 1], [0, 1, 2])),
    *(dft(op, [-1, 0], [3, 7]) for op in ("DFT-7", "IDFT-7")),
    dft("DFT-7", [1, 2], [-1, 2]),
    dft("DFT-7", [], crash=UNWRITTEN),
    dft("IDFT-7", [], crash=UNWRITTEN),
    *(rdft(axes) for axes in ([0], [-1], [2, 1], [1, 2], [0, 1, 2])),
    rdft([0, 1, 2], [2, 3, 4]),
    rdft([-1, 0], [3, 7], crash=LONGER),
    rdft([1, 2], [-1, 2], defect=CUTS),
    rdft([], crash="OpenVINO's process dies without axes"),
    *(irdft(axes) for axes in ([0], [-1], [2, 1], [1, 2])),
    irdft([1, 2], [3, 8]),
    irdft([2], [4]),
    irdft([0, 2], [2, 7]),
    irdft([-1, 0], [3, 7], crash=UNREAD),
    irdft([1, 2], [-1, 5], defect=CUTS),
]

SIGNAL = unordered((2, 23))


def padded(window: Any, size: int) -> list[float]:
    before = (size - len(window)) // 2
    return [0.0] * before + list(window) + [0.0] * (size - len(window) - before)


def stft(size: int, step: int, width: int, *, last: bool, batch: bool = True) -> Case:
    window = (np.arange(width) % 3 + 1) / 4
    mask = padded(window, size)
    signals = SIGNAL if batch else SIGNAL[:1]
    rows = []
    for signal in signals:
        starts = range(0, len(signal) - size + 1, step)
        rows.append(
            [
                [
                    sum(
                        signal[s + n] * mask[n] * cmath.exp(-2j * math.pi * n * k / size)
                        for n in range(size)
                    )
                    for k in range(size // 2 + 1)
                ]
                for s in starts
            ]
        )
    found = split(np.array(rows))
    found = found.swapaxes(1, 2) if last else found
    inputs = [f32(signals if batch else signals[0]), f32(window), i64(size), i32(step)]
    text = f'transpose_frames="{str(last).lower()}"'
    return case(
        "STFT-15", text, inputs, f32(found if batch else found[0]), tolerance=LOOSE, fixed=(2, 3)
    )


def istft(
    size: int,
    step: int,
    width: int,
    *,
    center: bool = False,
    normalized: bool = False,
    length: int | None = None,
    batch: bool = True,
) -> Case:
    bins, frames = size // 2 + 1, 4
    spectrum = unordered((2, bins, frames, 2))
    window = (np.arange(width) % 3 + 1) / 4
    mask = padded(window, size)
    whole = (frames - 1) * step + size
    results = []
    for z in joined(spectrum):
        total, weight = [0.0] * whole, [0.0] * whole
        for f, n in itertools.product(range(frames), range(size)):
            value = 0.0
            for k in range(size):
                pair = z[k, f] if k < bins else z[size - k, f].conjugate()
                pair = complex(pair.real) if k == 0 or 2 * k == size else pair
                value += (pair * cmath.exp(2j * math.pi * n * k / size)).real / size
            total[f * step + n] += value * mask[n]
            weight[f * step + n] += mask[n] ** 2
        factor = math.sqrt(size) if normalized else 1
        results.append([t * factor / w if w else 0.0 for t, w in zip(total, weight, strict=True)])
    first = size // 2 if center else 0
    stop = whole - first if length is None else first + length
    rows = [r[first : min(stop, whole)] for r in results]
    rows = [r + [0.0] * (stop - first - len(r)) for r in rows]
    text = f'center="{str(center).lower()}" normalized="{str(normalized).lower()}"'
    inputs = [f32(spectrum if batch else spectrum[0]), f32(window), i64(size), i64(step)]
    inputs += [] if length is None else [i64(length)]
    wanted = f32(rows if batch else rows[0])
    return case("ISTFT-16", text, inputs, wanted, tolerance=LOOSE, fixed=(2, 3))


FRAMES = [
    stft(8, 3, 8, last=False),
    stft(8, 3, 5, last=True),
    stft(7, 2, 4, last=False, batch=False),
    stft(23, 1, 23, last=True),
    istft(8, 3, 8),
    istft(8, 3, 5, center=True),
    istft(7, 2, 4, center=True, normalized=True),
    istft(8, 9, 8, normalized=True, batch=False),  # frames that leave a gap
    istft(8, 3, 8, center=True, length=10),
    istft(8, 3, 8, length=60),
    istft(7, 2, 7, length=5, batch=False),
]

TYPES = [
    case(
        "DFT-7",
        "",
        [f64(PAIRS[0, 0]), i32([0])],
        f64(split(transform(joined(PAIRS[0, 0]), [0], [5], -1))),
        defect="Fourier transforms of f64",
    )
]
CASES = [*FOURIER, *FRAMES, *TYPES]
