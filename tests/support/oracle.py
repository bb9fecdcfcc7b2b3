"""Naive results from the definitions: loops, Python ints or float64, no kernels.

Nothing here is shared with the package: no import from it, no arithmetic in common.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np


def _zeros(shape: Sequence[int], like: Any) -> Any:
    exact = like.dtype.kind in "iub"
    return np.zeros(tuple(shape), object if exact else np.float64)


def _box(*sizes: int) -> Any:
    return itertools.product(*(range(n) for n in sizes))


def _scalar(a: Any, index: tuple[int, ...]) -> Any:
    return int(a[index]) if a.dtype.kind in "iub" else float(a[index])


def zero_insert(x: Any, strides: Sequence[int]) -> Any:
    """Put S-1 zeros between neighbours of the spatial axes."""
    sizes = [s * (i - 1) + 1 if i > 0 else 0 for i, s in zip(x.shape[2:], strides, strict=True)]
    y = np.zeros((*x.shape[:2], *sizes), x.dtype)
    for index in _box(*x.shape):
        where = tuple(i * s for i, s in zip(index[2:], strides, strict=True))
        y[(*index[:2], *where)] = x[index]
    return y


def _apart(a: Any, *leading: int) -> Any:
    """Return Python ints, or float64, with other leading axes in place of the first two."""
    exact = a.dtype.kind in "iub"
    return a.astype(object if exact else np.float64).reshape(*leading, *a.shape[2:])


def _pairs(size: int, stride: int, shift: int, bound: int) -> tuple[slice, slice] | None:
    """Return the positions i of an axis with 0 <= i * stride + shift < bound, and these sums."""
    inside = [i for i in range(size) if 0 <= i * stride + shift < bound]
    if not inside:
        return None
    first, last = inside[0], inside[-1]
    sums = slice(first * stride + shift, last * stride + shift + 1, stride)
    return slice(first, last + 1), sums


def deconvolution(
    x: Any,
    w: Any,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    output_size: Sequence[int],
) -> Any:
    """Scatter each input element times each tap. x [N,C,*I], w [g,C/g,M/g,*K]."""
    return _summed(x, w, output_size, strides, (dilations, pads_begin), scatters=True)


def convolution(
    x: Any,
    w: Any,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
) -> Any:
    """Sum each window. x [N,C,*I], w [g,M/g,C/g,*K]; pads may be negative."""
    sizes = []
    for a, size in enumerate(x.shape[2:]):
        room = size + pads_begin[a] + pads_end[a] - (dilations[a] * (w.shape[3 + a] - 1) + 1)
        sizes.append(room // strides[a] + 1 if room >= 0 else 0)
    w = w.swapaxes(1, 2)
    return _summed(x, w, sizes, strides, (dilations, pads_begin), scatters=False)


def _summed(
    x: Any, w: Any, sizes: Sequence[int], strides: Sequence[int], window: Any, *, scatters: bool
) -> Any:
    """Add up the products with each tap; w [g,C/g,M/g,*K].

    All axes but input channels and taps are axes of element-wise products and sums.
    """
    groups, c_per_group, m_per_group, *kernel = w.shape
    y = _zeros((x.shape[0], groups, m_per_group, *sizes), x)
    xs, ws = _apart(x, x.shape[0], groups, c_per_group), _apart(w, groups, c_per_group)
    ones = (None,) * len(kernel)
    ends = (x.shape[2:], sizes) if scatters else (sizes, x.shape[2:])
    for k in _box(*kernel):
        shifts = [t * dilation - pad for t, dilation, pad in zip(k, *window, strict=True)]
        rows = [*map(_pairs, ends[0], strides, shifts, ends[1])]
        if all(rows):
            sites, places = zip(*(r if scatters else r[::-1] for r in rows if r), strict=True)
            for c in range(c_per_group):
                taps = ws[:, c, :, *k][..., *ones]
                y[:, :, :, *places] += xs[:, :, c, *sites][:, :, None] * taps
    return y.reshape(x.shape[0], groups * m_per_group, *sizes)


def _windows(sizes: Sequence[int], *lists: Sequence[int]) -> list[list[list[int]]]:
    """Return for each axis and output position the input positions inside the data.

    `lists` are those of kernels, strides, dilations, pads at the begin and output sizes.
    """
    axes = []
    for size, kernel, stride, dilation, pad, count in zip(sizes, *lists, strict=True):
        sites = ([o * stride + k * dilation - pad for k in range(kernel)] for o in range(count))
        axes.append([[s for s in row if 0 <= s < size] for row in sites])
    return axes


def max_pool(x: Any, *lists: Sequence[int]) -> tuple[Any, Any]:
    """Return maxima (None without data) and flat positions in the whole input (first wins).

    `lists` are those of `_windows`.
    """
    axes, sizes = _windows(x.shape[2:], *lists), lists[-1]
    y = np.empty((*x.shape[:2], *sizes), object)
    where = np.empty(y.shape, object)
    for n, c, *o in _box(*y.shape):
        best, at = None, None
        for site in itertools.product(*(axes[a][v] for a, v in enumerate(o))):
            value = _scalar(x, (n, c, *site))
            if best is None or value > best:
                best, at = value, int(np.ravel_multi_index((n, c, *site), x.shape))
        y[(n, c, *o)], where[(n, c, *o)] = best, at
    return y, where


def avg_pool(x: Any, *lists: Sequence[int]) -> tuple[Any, Any]:
    """Return the sums of the windows and how many positions of each lie inside the data."""
    axes, sizes = _windows(x.shape[2:], *lists), lists[-1]
    y = _zeros((*x.shape[:2], *sizes), x)
    count = np.zeros(tuple(sizes), np.int64)
    for n, c, *o in _box(*y.shape):
        sites = list(itertools.product(*(axes[a][v] for a, v in enumerate(o))))
        count[tuple(o)] = len(sites)
        for site in sites:
            y[(n, c, *o)] += _scalar(x, (n, c, *site))
    return y, count
