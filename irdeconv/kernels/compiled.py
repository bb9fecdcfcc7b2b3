"""Loops that numba compiles; imported only where numba is installed.

Loops run over long stretches of one or two arrays, a few taps at a time: with more addresses the
compiler can no longer tell that they do not overlap and gives up vector instructions.
"""

from __future__ import annotations

from typing import Any

from irdeconv.kernels.jit import compiled


@compiled
def depthwise(
    x: Any,
    w: Any,
    offsets: Any,
    frame: Any,
    sums: Any,
    out: Any,
    first: int,
    share: int,
    axes: Any,
    skip: int,
) -> None:
    """Convolve `x [C, *I]` with `w [M, taps]` into `out [channels, *O]`, channels from `first` on.

    `share` outputs share an input, `axes` are (stride, begin). `frame [*phases, *rest]` is a
    zero-extended plane split modulo the strides, in which tap t reads `offsets[t]` behind what the
    output's position reads first; `sums` is a plane with the frame's distances, of whose columns
    every `skip`-th belongs to the output.
    """
    frame[:] = 0
    flat = frame.reshape(-1)
    height, width = frame.shape[4], frame.shape[5]
    rows = (out.shape[1] - 1) * height + out.shape[2]
    length = (rows - 1) * width + (out.shape[3] - 1) * skip + 1
    square = three_rows(offsets)
    seen = -1
    for m in range(out.shape[0]):
        c = (first + m) // share
        if c != seen:
            fill(x[c], frame, axes)
            seen = c
        for start in range(0, length, 2048):
            total = sums[start : min(start + 2048, length)]
            part = flat[start:]
            if square:
                set3x3(part, part[offsets[3] :], part[offsets[6] :], w[first + m], total)
            else:
                total[:] = 0
                add_taps(part, w[first + m], offsets, total)
        pick(sums, height, width, skip, out[m])


@compiled
def three_rows(offsets: Any) -> bool:
    """Whether nine taps are three times three neighbours."""
    if offsets.size != 9:
        return False
    for t in range(0, 9, 3):
        if offsets[t + 1] != offsets[t] + 1 or offsets[t + 2] != offsets[t] + 2:
            return False
    return True


@compiled
def fill(x: Any, frame: Any, axes: Any) -> None:
    """Copy a plane into its frame `[phases, phases, phases, depth, row, column]`."""
    (s0, b0), (s1, b1), (s2, b2) = axes
    for r in range(s2):
        lo = max(0, -((r - b2) // s2))
        hi = min(frame.shape[5], (x.shape[2] - 1 + b2 - r) // s2 + 1)
        if lo >= hi:
            continue
        at = lo * s2 + r - b2
        for i in range(max(0, -b0), min(x.shape[0], frame.shape[3] * s0 - b0)):
            d, p = divmod(i + b0, s0)
            top = max(0, -b1)
            h, q = divmod(top + b1, s1)
            for j in range(top, min(x.shape[1], frame.shape[4] * s1 - b1)):
                split(x[i, j, at:], frame[p, q, r, d, h, lo:hi], s2)
                q += 1
                if q == s1:
                    q = 0
                    h += 1


@compiled
def split(source: Any, target: Any, stride: int) -> None:
    """Copy every `stride`-th element."""
    if stride == 1:
        for k in range(target.size):
            target[k] = source[k]
    elif stride == 2:
        for k in range(target.size):
            target[k] = source[2 * k]
    else:
        for k in range(target.size):
            target[k] = source[stride * k]


@compiled
def add_taps(f: Any, w: Any, offsets: Any, total: Any) -> None:
    """Add every tap's product."""
    t = 0
    taps = w.size
    while t + 5 <= taps:
        k = offsets[t : t + 5]
        add5(f[k[0] :], f[k[1] :], f[k[2] :], f[k[3] :], f[k[4] :], w[t : t + 5], total)
        t += 5
    while t + 3 <= taps:
        add3(f[offsets[t] :], f[offsets[t + 1] :], f[offsets[t + 2] :], w[t : t + 3], total)
        t += 3
    while t < taps:
        factor, part = w[t], f[offsets[t] :]
        for i in range(total.size):
            total[i] += factor * part[i]
        t += 1


@compiled
def set3x3(p: Any, q: Any, r: Any, w: Any, total: Any) -> None:
    """Sum nine products; three rows with fixed distances are three addresses."""
    a, b, c = w[0], w[1], w[2]
    d, e, f = w[3], w[4], w[5]
    g, h, k = w[6], w[7], w[8]
    for i in range(total.size):
        total[i] = (
            a * p[i]
            + b * p[i + 1]
            + c * p[i + 2]
            + d * q[i]
            + e * q[i + 1]
            + f * q[i + 2]
            + g * r[i]
            + h * r[i + 1]
            + k * r[i + 2]
        )


@compiled
def add5(p: Any, q: Any, r: Any, s: Any, t: Any, w: Any, total: Any) -> None:
    """Add five products."""
    a, b, c, d, e = w[0], w[1], w[2], w[3], w[4]
    for i in range(total.size):
        total[i] += a * p[i] + b * q[i] + c * r[i] + d * s[i] + e * t[i]


@compiled
def add3(p: Any, q: Any, r: Any, w: Any, total: Any) -> None:
    """Add three products."""
    a, b, c = w[0], w[1], w[2]
    for i in range(total.size):
        total[i] += a * p[i] + b * q[i] + c * r[i]


@compiled
def pick(sums: Any, height: int, width: int, skip: int, out: Any) -> None:
    """Copy the rows of a plane that belong to the output."""
    for d in range(out.shape[0]):
        for h in range(out.shape[1]):
            at = (d * height + h) * width
            split(sums[at:], out[d, h], skip)
