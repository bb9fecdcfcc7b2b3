"""Convolution by matrix products over blocks of the output.

    y[n, m, o] = sum over c, k of x[n, c, o*S + k*D - pads_begin] * w[m, c, k],  0 outside of x

Letters: N batch, C input channels, M output channels, g groups, I, O spatial sizes, K kernel sizes,
taps = the product of K. `frame` is the zero-extended input that the windows see.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irdeconv.kernels.arithmetic import accumulator, store
from irdeconv.kernels.exact import convolve_in_order, in_order
from irdeconv.kernels.resampling import trailing
from irdeconv.kernels.scatter import blocks, scatter
from irdeconv.spec import Array

PER_CHANNEL_OUTPUTS = 4  # with more outputs per input channel a matrix product is faster
COLUMN_BYTES = 1 << 22  # patches of one block
COLUMN_WIDTH = 800  # ... but never a narrower product than this many output positions
ROW_BYTES = 1 << 22  # rows of patches that share their overlap
CHANNEL_BYTES = 1 << 20  # copies of the channels that are convolved each by itself


def output_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> tuple[int, ...]:
    """Return the output size per axis, floor((I + pads - DK) / S) + 1, at least 0."""
    rows = zip(sizes, kernel, strides, dilations, pads, strict=True)
    return tuple(max((i + p - d * (k - 1) - 1) // s + 1, 0) for i, k, s, d, p in rows)


@np.errstate(all="ignore")
def convolution(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    groups: int = 1,
    out: Array | None = None,
) -> Array:
    """Convolve `x [N,C,*I]` with `w [M,C/g,*K]` or `[g,M/g,C/g,*K]`: `[N,M,*O]`.

    1 to 3 spatial axes. Pads may be negative (crop), windows may lie wholly in the padding. The
    element type is that of `x`: floats narrower than f32 are summed in f32 and rounded once,
    integers are exact and wrap. `out` may be any array of the result's shape and type.
    """
    rank = x.ndim - 2
    w = w if w.ndim == rank + 3 else w.reshape(groups, -1, *w.shape[1:])
    pads = [b + e for b, e in zip(pads_begin, pads_end, strict=True)]
    sizes = output_sizes(x.shape[2:], w.shape[3:], strides, dilations, pads)
    shape = (x.shape[0], w.shape[0] * w.shape[1], *sizes)
    y = np.empty(shape, x.dtype) if out is None else out
    if 0 in y.shape or 0 in w.shape or 0 in x.shape:
        y[...] = 0
        return y
    dtype = accumulator(x, w, math.prod(w.shape[2:]))
    total = y if dtype == y.dtype and not in_order() else np.empty(shape, dtype)
    (convolve_in_order if in_order() else convolve)(
        x.astype(dtype, copy=False),
        w.astype(dtype, copy=False),
        strides,
        dilations,
        pads_begin,
        total,
    )
    return store(total, y)


def convolve(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Choose a kernel and write the convolution into `out`; all of one type, nothing empty."""
    plain = all(k == 1 for k in w.shape[3:]) and all(s == 1 for s in strides)
    if plain and not any(pads_begin) and x.shape[2:] == out.shape[2:] and out.flags.c_contiguous:
        _pointwise(x, w, out)
    elif w.shape[2] == 1 and w.shape[1] <= PER_CHANNEL_OUTPUTS:
        _per_channel(x, w, strides, dilations, pads_begin, out)
    elif all(s == 1 for s in strides) and w.shape[1] * 2 < w.shape[2]:
        _few_outputs(x, w, dilations, pads_begin, out)
    elif _shares_rows(w, strides, dilations, out):
        _rows(x, w, strides, dilations, pads_begin, out)
    else:
        _patches(x, w, strides, dilations, pads_begin, out)


def _pointwise(x: Array, w: Array, out: Array) -> None:
    """Convolve with a kernel of size 1: one matrix product per group and image."""
    g, m, c = w.shape[:3]
    n = x.shape[0]
    np.matmul(w.reshape(g, m, c), x.reshape(n, g, c, -1), out=out.reshape(n, g, m, -1))


def _few_outputs(
    x: Array, w: Array, dilations: Sequence[int], pads_begin: Sequence[int], out: Array
) -> None:
    """Convolve with stride 1 where gathering M/g outputs costs less than gathering C/g inputs.

    A convolution of stride 1 is a deconvolution with the flipped filter and pads DK-1 - pads.
    """
    axes = tuple(range(3, w.ndim))
    flipped = np.ascontiguousarray(np.flip(w, axes).swapaxes(1, 2))
    reach = [d * (k - 1) for k, d in zip(w.shape[3:], dilations, strict=True)]
    begin = [r - p for r, p in zip(reach, pads_begin, strict=True)]
    scatter(x, flipped, [1] * len(reach), dilations, begin, out)


class _Frame:
    """The part of the zero-extended input that all windows see, its last axis split by stride.

    `data` is `[images, channels, *P, phases, Q]`: along the last axis position j*S + r lies at
    [r, j], so that a tap reads contiguous elements for every stride. It is a view of the input
    where stride 1 meets no padding.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        begin: Sequence[int],
    ) -> None:
        self.strides, self.dilations, self.begin = strides, dilations, begin
        self.kernel, self.sizes = kernel, sizes
        reach = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
        self.spans = [(o - 1) * s + r + 1 for o, s, r in zip(sizes, strides, reach, strict=True)]
        s = strides[-1]
        self.phases = sorted({k * dilations[-1] % s for k in range(kernel[-1])})
        self.width = sizes[-1] + reach[-1] // s
        self._buffer: Array | None = None

    def fill(self, x: Array) -> Array:
        """Return the frame of `x [images, channels, *I]`."""
        inside = all(
            b <= 0 and p - b <= i
            for b, p, i in zip(self.begin, self.spans, x.shape[2:], strict=True)
        )
        if inside and self.strides[-1] == 1:
            cut = tuple(slice(-b, p - b) for b, p in zip(self.begin, self.spans, strict=True))
            return trailing(x, cut)[..., None, :]
        shape = (*x.shape[:2], *self.spans[:-1], len(self.phases), self.width)
        if self._buffer is None or self._buffer.shape != shape:
            self._buffer = np.zeros(shape, x.dtype)
        outer = [
            _clip(i, b, p, 1, 0)
            for i, b, p in zip(x.shape[2:-1], self.begin[:-1], self.spans[:-1], strict=True)
        ]
        for index, phase in enumerate(self.phases):
            last = _clip(x.shape[-1], self.begin[-1], self.width, self.strides[-1], phase)
            target = trailing(self._buffer, [*(t for t, _ in outer), index, last[0]])
            target[...] = trailing(x, [*(s for _, s in outer), last[1]])
        return self._buffer

    def tap(
        self, frame: Array, k: Sequence[int], start: Sequence[int], block: Sequence[int]
    ) -> Array:
        """Return what tap `k` reads for an output block: `[images, channels, *block]`."""
        cut = []
        for a in range(len(k) - 1):
            first = start[a] * self.strides[a] + k[a] * self.dilations[a]
            cut.append(slice(first, first + (block[a] - 1) * self.strides[a] + 1, self.strides[a]))
        shift = k[-1] * self.dilations[-1]
        first = start[-1] + shift // self.strides[-1]
        phase = self.phases.index(shift % self.strides[-1])
        return trailing(frame, [*cut, phase, slice(first, first + block[-1])])


def _clip(size: int, begin: int, length: int, stride: int, phase: int) -> tuple[slice, slice]:
    """Return (target, source) slices: target j holds source j*stride + phase - begin."""
    lo = max(0, -((phase - begin) // stride))
    hi = max(lo, min(length, (size - 1 + begin - phase) // stride + 1))
    first = lo * stride + phase - begin
    # An empty source must not start at a negative index, which would count from the end.
    return slice(lo, hi), slice(max(first, 0), max(first + (hi - lo) * stride, 0), stride)


def _patches(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Gather the patches of a block as columns, multiply by the filter."""
    g, m, c, *kernel = w.shape
    n, sizes = x.shape[0], out.shape[2:]
    depth = c * math.prod(kernel)
    frame = _Frame(sizes, kernel, strides, dilations, pads_begin)
    width = max(COLUMN_BYTES // (g * depth * x.itemsize), COLUMN_WIDTH)
    positions = math.prod(sizes)
    images = min(n, max(1, width // positions))
    columns = np.empty(g * depth * min(width, images * positions), x.dtype)
    matrix = w.reshape(g, m, depth)
    flat = out.reshape(n, g, m, positions) if out.flags.c_contiguous else None
    for n0 in range(0, n, images):
        data = frame.fill(x[n0 : n0 + images])
        b = data.shape[0]
        for start, block in blocks(sizes, width):
            size = b * math.prod(block)
            cols = columns[: g * depth * size].reshape(g * c, -1, b, *block)
            for t, k in enumerate(np.ndindex(*kernel)):
                cols[:, t] = frame.tap(data, k, start, block).swapaxes(0, 1)
            right = cols.reshape(g, depth, size)
            if flat is not None and b == 1:
                at = int(np.ravel_multi_index(start, sizes))
                np.matmul(matrix, right, out=flat[n0, :, :, at : at + size])
            else:
                y = np.matmul(matrix, right).reshape(g * m, b, *block)
                cut = tuple(slice(s, s + z) for s, z in zip(start, block, strict=True))
                trailing(out[n0 : n0 + b], cut)[...] = y.swapaxes(0, 1)


def _shares_rows(w: Array, strides: Sequence[int], dilations: Sequence[int], out: Array) -> bool:
    """Whether copying less outweighs packing the filter for every row of the output."""
    g, m, _, *kernel = w.shape
    if g > 1 or dilations[0] > 1 or len(kernel) < 2 or strides[0] >= kernel[0]:
        return False
    saved = 0.25 * (1 - strides[0] / kernel[0])
    return bool(saved * math.prod(out.shape[3:]) > 0.35 * m)


def _rows(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Gather patches along all axes but the first, whose windows overlap in memory.

    Row h of the buffer holds `[C, taps of the other axes, *O[1:]]`; K neighbouring rows are the
    columns of one output row, so nothing is copied K times along the first axis.
    """
    _, m, c, first, *kernel = w.shape
    n, count, *rest = out.shape[0], *out.shape[2:]
    taps, size = math.prod(kernel), math.prod(rest)
    span = (count - 1) * strides[0] + first
    frame = _Frame((span, *rest), (1, *kernel), (1, *strides[1:]), (1, *dilations[1:]), pads_begin)
    matrix = w[0].reshape(m, c, first, taps).swapaxes(1, 2).reshape(m, -1)
    step = c * taps * size
    block = min(count, max(1, ROW_BYTES // (step * strides[0] * x.itemsize)))
    buffer = np.empty(((block - 1) * strides[0] + first) * step, x.dtype)
    shape, item = (first * c * taps, size), x.itemsize
    for image, start in itertools.product(range(n), range(0, count, block)):
        b = min(block, count - start)
        height = (b - 1) * strides[0] + first
        rows = buffer[: height * step].reshape(height, c, taps, *rest)
        data = frame.fill(x[image : image + 1])
        for t, k in enumerate(np.ndindex(*kernel)):
            at = (start * strides[0], *(0 for _ in rest))
            rows[:, :, t] = frame.tap(data, (0, *k), at, (height, *rest))[0].swapaxes(0, 1)
        offsets = (strides[0] * step * item, size * item, item)
        right = as_strided(buffer, (b, *shape), offsets, writeable=False)
        target = out[image, :, start : start + b].swapaxes(0, 1)
        if out.flags.c_contiguous:
            np.matmul(matrix, right, out=target.reshape(b, m, size))
        else:
            target[...] = np.matmul(matrix, right).reshape(target.shape)


def _per_channel(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Convolve with one input channel per group, where a matrix product has nothing to sum.

    The input is copied once per tap of the last axis, so that rows of the output are contiguous;
    the other axes' taps are overlapping views. einsum then multiplies and adds in one pass.
    """
    g, m, _, *kernel = w.shape
    n, sizes = x.shape[0], out.shape[2:]
    axes = list(zip(sizes[:-1], strides[:-1], dilations[:-1], kernel[:-1], strict=True))
    spans = [(o - 1) * s + d * (k - 1) + 1 for o, s, d, k in axes]
    outer = [_clip(*a, 1, 0) for a in zip(x.shape[2:-1], pads_begin[:-1], spans, strict=True)]
    size = kernel[-1] * math.prod(spans) * sizes[-1] * x.itemsize
    group = max(1, min(g, CHANNEL_BYTES // size))
    copies = np.zeros((group, kernel[-1], *spans, sizes[-1]), x.dtype)
    view, labels = _overlapping(copies, axes, sizes)
    rank = len(kernel)
    factors = [0, 1, *range(3, rank + 2), 2]  # groups, outputs, outer taps, last tap
    for image, g0 in itertools.product(range(n), range(0, g, group)):
        part = slice(g0, min(g0 + group, g))
        count = part.stop - g0
        for k in range(kernel[-1]):
            last = _clip(x.shape[-1], pads_begin[-1], sizes[-1], strides[-1], k * dilations[-1])
            source = trailing(x[image, part], [*(s for _, s in outer), last[1]])
            trailing(copies[:count, k], [*(t for t, _ in outer), last[0]])[...] = source
        total = np.einsum(view[:count], labels, w[part, :, 0], factors, [0, 1, *labels[rank + 1 :]])
        out[image, g0 * m : part.stop * m] = total.reshape(count * m, *sizes)


def _overlapping(
    copies: Array, axes: Sequence[tuple[int, int, int, int]], sizes: Sequence[int]
) -> tuple[Array, list[int]]:
    """Return the view `[groups, last tap, *outer taps, *O]` of the copies and its einsum labels.

    Where the last outer axis has stride 1 its rows follow each other, and both axes become one.
    """
    steps = copies.strides
    taps = [k for _, _, _, k in axes]
    tap_steps = [d * step for (_, _, d, _), step in zip(axes, steps[2:], strict=False)]
    outputs = list(sizes)
    output_steps = [
        *(s * step for (_, s, _, _), step in zip(axes, steps[2:], strict=False)),
        steps[-1],
    ]
    if axes and axes[-1][1] == 1:
        outputs[-2:] = [outputs[-2] * outputs[-1]]
        del output_steps[-2]
    shape = (*copies.shape[:2], *taps, *outputs)
    view = as_strided(copies, shape, (*steps[:2], *tap_steps, *output_steps), writeable=False)
    return view, [0, *range(2, len(shape) + 1)]
