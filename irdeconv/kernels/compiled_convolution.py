"""Depthwise convolution and frames, compiled; imported only if numba is installed."""

from __future__ import annotations

from typing import Any

from irdeconv.kernels import compiled_vectors as vectors
from irdeconv.kernels.jit import compiled

NEAR_ELEMENTS = 1 << 12  # of planes that are read once more for each phase
LANES, copy_vector, clear_vector = vectors.NATIVE, vectors.copy_vector, vectors.clear_vector
copy8, copy4, copy1 = vectors.copy8, vectors.copy4, vectors.copy1
clear4, plane = vectors.clear4, vectors.plane
copy_vector_by_2, copy4_by_2 = vectors.copy_vector_by_2, vectors.copy4_by_2
copy8_by_2, copy8_by_3, copy8_by_4 = vectors.copy8_by_2, vectors.copy8_by_3, vectors.copy8_by_4


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
    kind: Any,
) -> None:
    """Convolve `x [C, *I]` with `w [M, taps]` into `out [channels, *O]`, channels from `first` on.

    `share` outputs share an input, `axes` are (stride, begin). `frame [planes, n]` holds some
    zero-extended planes of `shape` `[*phases, *rest]`, split modulo the strides, each with some
    elements more. Tap t reads
    `offsets[t]` behind the position's first input. `places` are the starts of a plane's vectors,
    for reading in the frame and for writing in the output's plane, `kind` says how; see `plane`.
    """
    # Several planes are written into frames, then read: what was just written in other pieces than
    # it is read would have to reach the cache first. Outputs that share an input follow each other.
    # The zeros around it are the same for all planes: only the first ones write them.
    data, factors, flat, frames = x.reshape(-1), w.reshape(-1), out.reshape(-1), frame.reshape(-1)
    taps, size = len(offsets), out.shape[1] * out.shape[2] * out.shape[3]
    together, far = frame.shape
    begin, stop = first // share, (first + len(out) - 1) // share + 1
    for c in range(begin, stop, together):
        count = min(together, stop - c)
        fill(data, (c, count), x.shape, frames, (0, far), shape, axes, c == begin)
        for m in range(max(first, c * share), min(first + len(out), (c + count) * share)):
            starts = (m // share - c) * far, (m - first) * size
            weights = factors, m * taps
            plane(frames, places, weights, offsets, flat, starts, kind, out.shape[3])


@compiled
def fill(
    x: Any, planes: Any, sizes: Any, frames: Any, places: Any, shape: Any, axes: Any, zeros: bool
) -> None:
    """Write planes, and `zeros` around them, into frames `[*phases, depth, row, column]`.

    There may be fewer phases than strides in `axes`, the first ones of them.
    `planes` are (first, count), `places` (start of the first frame, distance of frames). Behind
    each there is room for a vector, which is overwritten with the zeros. They need not be written
    again for other planes.
    """
    (s0, b0), (s1, b1), (s2, b2) = axes
    _, depth, height, width = sizes
    to, many, size = places[0], shape[5], shape[4] * shape[5]
    for p in range(shape[0]):
        for q in range(shape[1]):
            top, bottom = inside(height, q, shape[4], s1, b1)
            for r in range(shape[2]):
                low, high = inside(width, r, many, s2, b2)
                for d in range(shape[3]):
                    # A plane of the frame shows the depth i of the input, or zeros if there is
                    # none; rows and columns that show none are given by `inside`.
                    i = d * s0 + p - b0
                    rows = bottom - top if 0 <= i < depth and low < high else 0
                    row = (planes[0] * depth + i) * height + top * s1 + q - b1
                    source = row * width + low * s2 + r - b2, s1 * width, s2
                    target = to, size, top * many + low, many
                    far = planes[1], depth * height * width, places[1]
                    fill_planes(x, source, frames, target, far, rows, high - low, zeros)
                    to += size


@compiled
def inside(size: int, phase: int, count: int, stride: int, begin: int) -> Any:
    """Return the range of positions on a frame's axis that hold data."""
    low = min(count, max(0, -((phase - begin) // stride)))
    return low, max(low, min(count, (size - 1 + begin - phase) // stride + 1))


@compiled
def fill_planes(
    x: Any, source: Any, frame: Any, target: Any, planes: Any, rows: int, count: int, zeros: bool
) -> None:
    """Write rows of `count` elements into planes of frames, and `zeros` around them.

    `source` is (start, distance of rows, of elements), `target` (start, size, start of the first
    row in it, distance of rows), `planes` (count, distances in the source and the frames). A whole
    vector writes behind its row, and later writes replace that; rows near the end, behind which
    nothing may be read or overwritten, are copied exactly.
    """
    (start, far, step), (to, size, first, pitch) = source, target
    many, source_far, target_far = planes
    gap, whole = pitch - count, whole_vectors(count)
    for _ in range(many):
        if rows == 0:
            if zeros:
                clear(frame, to, size)
        else:
            if zeros and first > 0:
                clear(frame, to, first)
            at, place = start, to + first
            fast = rows if step == 1 else 0
            while fast > 0 and (
                at + (fast - 1) * far + whole > len(x) or (fast - rows) * pitch + whole > count
            ):
                fast -= 1
            for h in range(rows):
                if h < fast:
                    copy_vectors(x, at, frame, place, count)
                else:
                    split(x, at, frame, place, count, step)
                if gap > 0 and h < rows - 1:
                    clear_gap(frame, place + count, gap)
                at += far
                place += pitch
            # Last, since this may write into the next frame, which is written after this one.
            if zeros:
                clear(frame, place - gap, to + size - place + gap)
        start += source_far
        to += target_far


@compiled
def whole_vectors(count: int) -> int:
    """Return the number of elements that `copy_vectors` writes."""
    rest = count % LANES
    return count - rest + (rest if rest == 0 else 4 if rest <= 4 else 8 if rest <= 8 else LANES)


@compiled
def copy_vectors(x: Any, start: int, frame: Any, to: int, count: int) -> None:
    """Copy a row, and the rest of the last vector behind it."""
    # The shortest vector that holds the rest of the row: it writes least behind it.
    rest = count % LANES
    last = count - rest
    for k in range(0, last, LANES):
        copy_vector(x, start + k, frame, to + k)
    if rest > 8:
        copy_vector(x, start + last, frame, to + last)
    elif rest > 4:
        copy8(x, start + last, frame, to + last)
    elif rest > 0:
        copy4(x, start + last, frame, to + last)


@compiled
def clear(frame: Any, start: int, count: int) -> None:
    """Write zeros, whole vectors of them."""
    for k in range(start, start + count, LANES):
        clear_vector(frame, k)


@compiled
def clear_gap(frame: Any, start: int, count: int) -> None:
    """Write zeros between rows, mostly a few."""
    if count <= 4:
        clear4(frame, start)
    else:
        clear(frame, start, count)


@compiled
def split_vectors(source: Any, start: int, target: Any, to: int, count: int, stride: int) -> int:
    """Copy every `stride`-th element, 2 to 4, by whole vectors; return the number of copies."""
    if count < 4 or (stride > 2 and count < 8):
        return 0
    if count < 8:
        copy4_by_2(source, start, target, to)
        copy4_by_2(source, start + 2 * (count - 4), target, to + count - 4)
        return count
    done = count // LANES * LANES if stride == 2 else 0
    for k in range(0, done, LANES):
        copy_vector_by_2(source, start + 2 * k, target, to + k)
    while done < count:
        k = min(done, count - 8)  # the last ones may be copied twice
        if stride == 2:
            copy8_by_2(source, start + 2 * k, target, to + k)
        elif stride == 3:
            copy8_by_3(source, start + 3 * k, target, to + k)
        else:
            copy8_by_4(source, start + 4 * k, target, to + k)
        done = k + 8
    return done


@compiled
def split(source: Any, start: int, target: Any, to: int, count: int, stride: int) -> None:
    """Copy every `stride`-th element."""
    if stride > 1:
        # A vector reads the elements between its last one and the next one, too.
        whole = min(count, (len(source) - start) // stride) if stride <= 4 else 0
        done = split_vectors(source, start, target, to, whole, stride)
        for k in range(done, count):
            target[to + k] = source[start + stride * k]
    elif count >= LANES:
        for k in range(0, count - LANES + 1, LANES):
            copy_vector(source, start + k, target, to + k)
        copy_vector(source, start + count - LANES, target, to + count - LANES)
    elif count >= 8:
        copy8(source, start, target, to)
        copy8(source, start + count - 8, target, to + count - 8)
    elif count >= 4:
        copy4(source, start, target, to)
        copy4(source, start + count - 4, target, to + count - 4)
    else:
        for k in range(count):
            copy1(source, start + k, target, to + k)


@compiled
def fill_all(x: Any, frames: Any, first: int, shape: Any, axes: Any) -> None:
    """Copy the planes of `x [C, *I]` into their frames, from `first` on in `frames [C, *]`."""
    data, flat, far = x.reshape(-1), frames.reshape(-1), frames.shape[1]
    # If strides split a plane, it is read once for each phase: so few planes at a time that they
    # are still in the level 1 cache for the next phase.
    single = axes[0][0] == axes[1][0] == axes[2][0] == 1
    plane = x.shape[1] * x.shape[2] * x.shape[3]
    together = max(1, x.shape[0] if single else NEAR_ELEMENTS // max(1, plane))  # read again
    for c in range(0, x.shape[0], together):
        count = min(together, x.shape[0] - c)
        fill(data, (c, count), x.shape, flat, (c * far + first, far), shape, axes, True)
