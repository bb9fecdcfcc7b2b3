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

from irdeconv.kernels.arithmetic import accumulator, store
from irdeconv.kernels.resampling import trailing
from irdeconv.kernels.scatter import blocks, scatter
from irdeconv.spec import Array

COLUMN_BYTES = 1 << 20  # patches of one block: large enough for the product, small enough for cache
COLUMN_WIDTH = 384  # ... but never a narrower product than this many output positions
TAP_BYTES = 1 << 18  # one block of the per-tap kernel


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
    total = y if dtype == y.dtype else np.empty(shape, dtype)
    convolve(
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
    elif all(s == 1 for s in strides) and w.shape[1] * 2 < w.shape[2]:
        _few_outputs(x, w, dilations, pads_begin, out)
    elif w.shape[2] == 1:
        _per_tap(x, w, strides, dilations, pads_begin, out)
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


def _per_tap(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    out: Array,
) -> None:
    """Multiply and add tap by tap: one input channel per group, nothing for a matrix product."""
    g, m, _, *kernel = w.shape
    n, sizes = x.shape[0], out.shape[2:]
    frame = _Frame(sizes, kernel, strides, dilations, pads_begin)
    limit = max(1, TAP_BYTES // x.itemsize)
    channels = max(1, min(g, limit // (m * math.prod(sizes))))
    factors = w.reshape(g, m, -1, *(1 for _ in kernel))
    for n0, g0 in itertools.product(range(n), range(0, g, channels)):
        part = slice(g0, min(g0 + channels, g))
        data = frame.fill(x[n0 : n0 + 1, part])
        rows = out[n0, g0 * m : part.stop * m].reshape(-1, m, *sizes)
        for start, block in blocks(sizes, max(1, limit // m)):
            cut = tuple(slice(s, s + z) for s, z in zip(start, block, strict=True))
            total = np.empty((part.stop - g0, m, *block), x.dtype)
            product = np.empty_like(total)
            for t, k in enumerate(np.ndindex(*kernel)):
                taken = frame.tap(data, k, start, block)[0][:, None]
                if t == 0:
                    np.multiply(taken, factors[part, :, t], out=total)
                else:
                    np.multiply(taken, factors[part, :, t], out=product)
                    np.add(total, product, out=total)
            trailing(rows, cut)[...] = total
