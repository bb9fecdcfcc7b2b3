"""Zero-insertion and windows on zero-extended tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from irdeconv.kernels.shared.windows import NONE, reads
from irdeconv.spec import Array


def trailing(x: Array, parts: Iterable[Any]) -> Array:
    """Return the view of `x` that takes `parts` (slices or ints) along its last axes."""
    index: Any = (..., *parts)
    view: Array = x[index]
    return view


def zero_insert(x: Array, strides: Sequence[int], trailing: bool = False) -> Array:
    """Put S-1 zeros between neighbours: `[N,C,*I]` -> `[N,C,*S(I-1)+1]` (0 stays 0).

    `strides` has one entry per spatial axis. With `trailing` zeros follow the last element as well:
    `[N,C,*S*I]`. The result has the element type of `x`.
    """
    rows = zip(x.shape[2:], strides, strict=True)
    sizes = tuple(s * i if trailing or not i else s * (i - 1) + 1 for i, s in rows)
    y = np.zeros((*x.shape[:2], *sizes), x.dtype)
    places: Any = (..., *(slice(None, None, s) for s in strides))
    y[places] = x
    return y


def window(x: Array, begin: Sequence[int], sizes: Sequence[int]) -> Array:
    """Return `sizes` elements from `begin` on along the last axes of the zero-extended `x`.

    A view where nothing but `x` itself is seen, else a new array. `begin` may be negative or lie
    behind the end, so padding and cropping are one operation.
    """
    spatial = x.shape[x.ndim - len(begin) :]
    triples = list(zip(begin, sizes, spatial, strict=True))
    if all(b >= 0 and b + n <= i for b, n, i in triples):
        return trailing(x, (slice(b, b + n) for b, n, _ in triples))
    y = np.zeros((*x.shape[: x.ndim - len(begin)], *sizes), x.dtype)
    places = [reads(i, 1, b, n) for b, n, i in triples]
    if all(target != NONE for target, _ in places):
        trailing(y, (p[0] for p in places))[...] = trailing(x, (p[1] for p in places))
    return y
