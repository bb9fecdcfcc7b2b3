"""What kernels read of a convolution's input: zero-extended boxes and planes, and views of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irdeconv.kernels.convolution.conv3d import Conv3d
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.windows import NONE, reads
from irdeconv.spec import Array

SLACK = 32  # elements behind a frame that whole vectors may read


@dataclass(frozen=True)
class Frame:
    """A box of the zero-extended input `[N, C, depth, row, column]`: `f[target] = x[source]`.

    `shape` is the box's, `inside` tells that nothing but data is seen, `empty` that none is.
    """

    shape: tuple[int, ...]
    source: tuple[slice, ...]
    target: tuple[slice, ...]
    inside: bool
    empty: bool
    dtype: np.dtype[Any]

    @property
    def elements(self) -> int:
        """How many elements the box has."""
        return math.prod(self.shape)

    def of(self, x: Array, space: Space) -> Array:
        """Return the box in the type of sums; a view of `x` where that is enough."""
        if self.inside and x.dtype == self.dtype:
            return x[self.source]
        f = space.array(self.shape, self.dtype)
        if not self.inside:
            f[...] = 0
        if not self.empty:
            f[self.target] = x[self.source]
        return f


def frame_of(
    conv: Conv3d, images: slice, channels: slice, box: Sequence[tuple[int, int, int]]
) -> Frame:
    """Describe the box of (start, count, step) along depth, row and column."""
    counts = [count for _, count, _ in box]
    rows = zip(conv.axes, box, strict=True)
    places = [reads(axis.size, step, start, count) for axis, (start, count, step) in rows]
    target, source = ([p[n] for p in places] for n in (0, 1))
    return Frame(
        shape=(images.stop - images.start, channels.stop - channels.start, *counts),
        source=(images, channels, *source),
        target=(slice(None), slice(None), *target),
        inside=target == [slice(0, n) for n in counts],
        empty=NONE in target,
        dtype=conv.compute,
    )


def phase_shape(conv: Conv3d, skips: bool = True) -> tuple[int, ...]:
    """Return the shape of a zero-extended plane, each axis split modulo its stride.

    With `skips` columns of stride 2 are not: reading every second one takes less than splitting.
    """
    depth, row, column = conv.axes
    phases = depth.stride, row.stride, 1 if column.stride == 2 and skips else column.stride
    rest = (-(-a.span(a.out) // p) for a, p in zip(conv.axes, phases, strict=True))
    return (*phases, *rest)


def tap_offsets(conv: Conv3d, skips: bool = True) -> Array:
    """Return for each tap where in the frame the first output reads it."""
    shape = phase_shape(conv, skips)
    offsets = []
    for k in np.ndindex(*(a.kernel for a in conv.axes)):
        taps = zip(k, conv.axes, shape, strict=False)
        shifts = [divmod(t * a.dilation, phases) for t, a, phases in taps]
        place = (*(phase for _, phase in shifts), *(shift for shift, _ in shifts))
        offsets.append(int(np.ravel_multi_index(place, shape)))
    return np.array(offsets, np.int64)


def overlapping(
    a: Array, shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0
) -> Array:
    """Return a view of `a [..., rows, columns]` from row `first` on; strides are in bytes."""
    if a.flags.c_contiguous:
        # A tenth of the time of as_strided, which matters for small layers.
        view: Array = np.ndarray(shape, a.dtype, a, first * a.strides[-2], strides)
        return view
    return as_strided(a[..., first:, :], shape, strides)


def flat_planes(x: Array, space: Space) -> Array:
    """Return `x [N, C, *I]` as `[N, C, positions]`, copied where planes are not contiguous."""
    step = x.itemsize
    for size, stride in zip(reversed(x.shape[2:]), reversed(x.strides[2:]), strict=True):
        if size > 1 and stride != step:
            flat = space.array(x.shape, x.dtype)
            flat[...] = x
            x = flat
            break
        step *= size
    return x.reshape(*x.shape[:2], -1)
