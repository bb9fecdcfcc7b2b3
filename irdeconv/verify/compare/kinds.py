"""What kind of difference it is: the mistakes that porting and lowering deconvolutions make.

Each test explains the whole difference or nothing: a shifted tensor agrees after shifting back, a
missing bias leaves one number per channel. The first explanation in the list wins.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from irdeconv.spec import Array

REACH = 3  # positions that a shift is looked for in every direction
MANY = 512  # channels up to which a permutation is looked for


def kind_of(a: Array, b: Array, allowed: float) -> str | None:
    """Name how `b` differs from `a` (N, C, *S); None where no known mistake explains it.

    `allowed` is the largest difference between equal tensors.
    """
    if a.dtype.kind not in "fiub" and a.dtype.kind != "V":
        return None
    x, y = a.astype(np.float64), b.astype(np.float64)
    if x.shape != y.shape:
        return _size(x, y, allowed)
    with np.errstate(all="ignore"):
        for test in (_shifted, _mirrored, _permuted, _offset, _zero_rows, _scaled):
            found = test(x, y, allowed)
            if found:
                return found
    return None


def same(a: Array, b: Array, allowed: float) -> bool:
    """Whether both agree within `allowed`, NaN being equal to itself."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    return bool(np.all(equal | (apart <= allowed)))


def _size(a: Array, b: Array, allowed: float) -> str | None:
    """Explain different sizes by rows that one of them has more."""
    if a.ndim != b.ndim or a.shape[:2] != b.shape[:2]:
        return None
    both = tuple(slice(0, min(p, q)) for p, q in zip(a.shape, b.shape, strict=True))
    more = listed(q - p for p, q in zip(a.shape[2:], b.shape[2:], strict=True))
    if same(a[both], b[both], allowed):
        return f"{more} rows more at the end"
    tail = tuple(slice(max(p - q, 0), None) for p, q in zip(a.shape, b.shape, strict=True))
    other = tuple(slice(max(q - p, 0), None) for p, q in zip(a.shape, b.shape, strict=True))
    return f"{more} rows more at the begin" if same(a[tail], b[other], allowed) else None


def _shifted(a: Array, b: Array, allowed: float) -> str | None:
    """b[o + d] == a[o] for one small d on the spatial axes, nearest first."""
    if a.ndim < 3:
        return None
    steps = itertools.product(range(-REACH, REACH + 1), repeat=a.ndim - 2)
    for d in sorted(steps, key=lambda d: (sum(map(abs, d)), d)):
        if not any(d) or any(abs(s) >= n for s, n in zip(d, a.shape[2:], strict=True)):
            continue
        here = tuple(slice(max(-s, 0), n - max(s, 0)) for s, n in zip(d, a.shape[2:], strict=True))
        there = tuple(slice(max(s, 0), n - max(-s, 0)) for s, n in zip(d, a.shape[2:], strict=True))
        every: Any = (slice(None), slice(None))
        p, q = a[every + here], b[every + there]
        if same(p, q, allowed) and np.ptp(p) > allowed:
            return f"shifted by {listed(d)}"
    return None


def _mirrored(a: Array, b: Array, allowed: float) -> str | None:
    """b is a read backwards along spatial axes."""
    axes = range(2, a.ndim)
    for count in range(1, len(axes) + 1):
        for chosen in itertools.combinations(axes, count):
            if same(np.flip(a, chosen), b, allowed):
                return f"mirrored along spatial axes {listed([c - 2 for c in chosen])}"
    return None


def _permuted(a: Array, b: Array, allowed: float) -> str | None:
    """b has a's channels in another order; groups interleaved is the common one."""
    if a.ndim < 2 or not 1 < a.shape[1] <= MANY:
        return None
    order = _matching(a, b, allowed)
    if order is None or order == sorted(order):
        return None
    for groups in range(2, len(order)):
        if len(order) % groups == 0:
            inter = np.arange(len(order)).reshape(groups, -1).T.reshape(-1).tolist()
            if order == inter:
                return f"channels of {groups} groups interleaved instead of one group after another"
    return f"channels permuted: {listed(order[:8])}{'...' if len(order) > 8 else ''}"


def _matching(a: Array, b: Array, allowed: float) -> list[int] | None:
    """Return p with b[:, i] == a[:, p[i]], every channel once."""
    free = list(range(a.shape[1]))
    order = []
    for i in range(b.shape[1]):
        found = next((j for j in free if same(a[:, j], b[:, i], allowed)), None)
        if found is None:
            return None
        free.remove(found)
        order.append(found)
    return order


def _offset(a: Array, b: Array, allowed: float) -> str | None:
    """b - a is one number per channel: a bias was left out or added twice.

    A channel of one number, or of equal ones, says nothing: many mistakes look like this.
    """
    if a.ndim < 3:
        return None
    apart = a - b
    space = (0, *range(2, a.ndim))
    moved = np.abs(apart).max(axis=space, initial=0) > 2 * allowed
    if (np.ptp(a, axis=space)[moved] <= 4 * allowed).any():
        return None
    per_channel = apart.mean(axis=space, keepdims=True)
    if not np.isfinite(per_channel).all() or not same(apart, per_channel + 0 * apart, 2 * allowed):
        return None
    if same(per_channel, 0 * per_channel, 2 * allowed):
        return None  # the rest says as much: that is rounding
    return f"a bias is missing: {listed(np.round(per_channel.ravel()[:4], 6).tolist())} per channel"


def _zero_rows(a: Array, b: Array, allowed: float) -> str | None:
    """b is zero in the last rows of some axes and a elsewhere."""
    zero, rows = np.zeros(a.shape, bool), []
    for axis in range(2, a.ndim):
        filled = np.any(b, axis=tuple(i for i in range(a.ndim) if i != axis))
        count = int(np.argmax(filled[::-1])) if filled.any() else 0
        rows.append(count)
        zero[(slice(None),) * axis + (slice(a.shape[axis] - count, None),)] = True
    if not any(rows) or not same(a[~zero], b[~zero], allowed):
        return None
    axes = [(axis, count) for axis, count in enumerate(rows) if count]
    if len(axes) == 1:
        axis, count = axes[0]
        return f"the last {count} rows of spatial axis {axis} are zero (output_padding?)"
    return f"the last {listed(rows)} rows of the spatial axes are zero (output_padding?)"


def _scaled(a: Array, b: Array, allowed: float) -> str | None:
    """b is a times one number."""
    top = np.unravel_index(int(np.abs(a).argmax()), a.shape) if a.size else None
    if top is None or not a[top]:
        return None
    factor = float(b[top] / a[top])
    if factor == 0 or not np.isfinite(factor) or a.size < 2:
        return None
    if abs(factor - 1) * abs(a[top]) <= 4 * allowed:
        return None  # that is rounding
    return f"scaled by {factor:.6g}" if same(a * factor, b, allowed * abs(factor)) else None


def listed(values: Any) -> str:
    """Return `(1, 2)` for the values 1 and 2."""
    return "(" + ", ".join(str(v) for v in values) + ")"
