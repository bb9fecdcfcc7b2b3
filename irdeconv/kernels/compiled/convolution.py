"""Depthwise convolution and direct products, compiled; imported only where numba is installed."""

from __future__ import annotations

from typing import Any

from irdeconv.kernels.compiled import vectors
from irdeconv.kernels.shared.jit import compiled

copy8, copy4, copy1 = vectors.copy8, vectors.copy4, vectors.copy1
sums8, sums4, sums1 = vectors.sums8, vectors.sums4, vectors.sums1
copy8_by_2, products8x4 = vectors.copy8_by_2, vectors.products8x4
sums8_by_2, sums4_by_2 = vectors.sums8_by_2, vectors.sums4_by_2


@compiled
def depthwise(
    x: Any,
    w: Any,
    offsets: Any,
    frame: Any,
    shape: Any,
    out: Any,
    first: int,
    share: int,
    axes: Any,
    places: Any,
    lanes: int,
) -> None:
    """Convolve `x [C, *I]` with `w [M, taps]` into `out [channels, *O]`, channels from `first` on.

    `share` outputs share an input, `axes` are (stride, begin). `frame` holds a zero-extended plane
    of `shape` `[*phases, *rest]`, split modulo the strides, and some elements more. Tap t reads
    `offsets[t]` behind what the output's position reads first. `places` are where in the frame the
    vectors of a plane are read, and where in the output's plane they are written; see `plane`.
    """
    frame[:] = 0
    data, factors, flat = x.reshape(-1), w.reshape(-1), out.reshape(-1)
    taps, size = len(offsets), out.shape[1] * out.shape[2] * out.shape[3]
    seen = -1
    for m in range(out.shape[0]):
        c = (first + m) // share
        if c != seen:
            fill(data, c, x.shape, frame, shape, axes)
            seen = c
        plane(frame, places, factors, (first + m) * taps, offsets, flat, m * size, lanes)


@compiled
def plane(
    frame: Any, places: Any, w: Any, start: int, offsets: Any, out: Any, base: int, lanes: int
) -> None:
    """Compute an output plane that starts at `base`, four vectors at once.

    `lanes` is how many elements a vector has, negative for every second one of the frame.
    """
    reads, writes = places
    for p in range(0, len(reads), 4):
        at = reads[p], reads[p + 1], reads[p + 2], reads[p + 3]
        to = base + writes[p], base + writes[p + 1], base + writes[p + 2], base + writes[p + 3]
        if lanes == 8:
            sums8(frame, at, w, start, offsets, out, to)
        elif lanes == 4:
            sums4(frame, at, w, start, offsets, out, to)
        elif lanes == -8:
            sums8_by_2(frame, at, w, start, offsets, out, to)
        elif lanes == -4:
            sums4_by_2(frame, at, w, start, offsets, out, to)
        else:
            sums1(frame, at, w, start, offsets, out, to)


@compiled
def fill(x: Any, c: int, sizes: Any, frame: Any, shape: Any, axes: Any) -> None:
    """Copy plane `c` into its frame `[phases, phases, phases, depth, row, column]`."""
    (s0, b0), (s1, b1), (s2, b2) = axes
    _, depth, height, width = sizes
    base = c * depth * height * width
    for r in range(s2):
        lo = max(0, -((r - b2) // s2))
        hi = min(shape[5], (width - 1 + b2 - r) // s2 + 1)
        if lo >= hi:
            continue
        at = lo * s2 + r - b2
        for i in range(max(0, -b0), min(depth, shape[3] * s0 - b0)):
            d, p = divmod(i + b0, s0)
            top = max(0, -b1)
            h, q = divmod(top + b1, s1)
            for j in range(top, min(height, shape[4] * s1 - b1)):
                to = ((((p * s1 + q) * s2 + r) * shape[3] + d) * shape[4] + h) * shape[5] + lo
                split(x, base + (i * height + j) * width + at, frame, to, hi - lo, s2)
                q += 1
                if q == s1:
                    q = 0
                    h += 1


@compiled
def split(source: Any, start: int, target: Any, to: int, count: int, stride: int) -> None:
    """Copy every `stride`-th element."""
    if stride > 1:
        first = 0
        if stride == 2:
            # A vector reads one element behind its last one.
            first = max(0, min(count, (len(source) - start) // 2) // 8 * 8)
            for k in range(0, first, 8):
                copy8_by_2(source, start + 2 * k, target, to + k)
        for k in range(first, count):
            target[to + k] = source[start + stride * k]
    elif count >= 8:
        for k in range(0, count - 7, 8):
            copy8(source, start + k, target, to + k)
        copy8(source, start + count - 8, target, to + count - 8)
    elif count >= 4:
        copy4(source, start, target, to)
        copy4(source, start + count - 4, target, to + count - 4)
    else:
        for k in range(count):
            copy1(source, start + k, target, to + k)


@compiled
def fill_all(x: Any, frames: Any, shape: Any, axes: Any) -> None:
    """Copy the planes of `x [C, *I]` into their `frames [C, elements of a frame]`."""
    data = x.reshape(-1)
    frames[:] = 0
    for c in range(x.shape[0]):
        fill(data, c, x.shape, frames[c], shape, axes)


@compiled
def direct(
    x: Any, w: Any, offsets: Any, places: Any, out: Any, plane: int, outputs: int, base: int
) -> None:
    """Compute all outputs at some places, eight positions times two by four outputs at once.

    `w [ceil(M/4), taps, 4]` has the last four outputs in its last row. An output plane has `plane`
    elements, the first of them starts at `base`.
    """
    reads, writes = places
    factors, share = w.reshape(-1), w.shape[1] * w.shape[2]
    for p in range(0, len(reads), 2):
        at = reads[p], reads[p + 1]
        for g in range(w.shape[0]):
            m = min(4 * g, outputs - 4)
            first = base + m * plane
            to = first + writes[p], first + writes[p + 1]
            products8x4(x, at, factors, g * share, offsets, out, to, plane)
