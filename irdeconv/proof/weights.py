"""Whether sums of weights are equal, exactly or up to the rounding of one weight."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from irdeconv.proof.call import normal
from irdeconv.proof.model import Array, Unproved

MOST_FRACTIONS = 2**20
_exactly = np.frompyfunc(Fraction, 1, 1)


class Different(Unproved):
    """Two values differ: another view on them will not help."""


class Part(NamedTuple):
    """Weights times a factor, both in float64, times symbols (0: none).

    `stored` is the type to which the weights were rounded, None where that is not known.
    """

    weights: Array
    factor: Array
    symbols: Array
    stored: Any


def product(a: Array, b: Array | None) -> Array:
    """Return a * b where that is exact in float64; None stands for 1."""
    if b is not None and not _fits(a, b).all():
        raise Unproved("a product of factors is not exact in float64, or beyond the range of f32")
    return a if b is None else a * b


def _fits(a: Array, b: Array) -> Array:
    """Return where a product is exact for sure, and of f32: of two float32, or with 0, 1 or -1."""
    with np.errstate(all="ignore"):
        short = (a.astype(np.float32) == a) & (b.astype(np.float32) == b)
        short &= normal(a * b)
    return np.asarray(short | np.isin(a, (-1, 0, 1)) | np.isin(b, (-1, 0, 1)))


def compare(low: Sequence[Part], source: Sequence[Part], what: str) -> float:
    """Return the largest relative difference of two sums; Unproved unless they are equal.

    They may differ where one of them is a single weight, to which the other one is rounded.
    """
    kinds, worst = [p.symbols for p in (*low, *source)], 0.0
    for kind in kinds if any(k.any() for k in kinds) else [np.array(0)]:
        sides = [
            [p._replace(weights=p.weights * (p.symbols == kind)) for p in side]
            for side in (low, source)
        ]
        alone = [_alone(side, kinds[0].shape) for side in sides]
        few = alone[0] & alone[1]
        if np.count_nonzero(~few) > MOST_FRACTIONS:
            raise Unproved("too many weights are sums to compare them exactly")
        for chosen, number in ((few, np.asarray), (~few, _exactly)):
            a, b = (_total(side, chosen, number) for side in sides)
            equal = np.asarray(a == b, bool)
            near = alone[0][chosen] & _rounded(a, b, sides[0])
            near |= alone[1][chosen] & _rounded(b, a, sides[1])
            near &= np.asarray(b != 0, bool)  # no number is near 0
            for i in np.flatnonzero(~(equal | near))[:1]:
                both = f"add up to {float(a[i]):.9g}, in the source to {float(b[i]):.9g}"
                raise Different(f"{what} {both}")
            apart = ~equal & np.asarray(b != 0, bool)
            step = abs(a[apart] - b[apart]) / abs(b[apart])
            worst = max(worst, float(np.max(step, initial=0)))
    return worst


def _alone(parts: Sequence[Part], shape: tuple[int, ...]) -> Array:
    """Return where a sum is one product at most, and that is exact."""
    count, exact = np.zeros(shape, int), np.ones(shape, bool)
    for p in parts:
        count, exact = count + (p.weights != 0), exact & _fits(p.weights, p.factor)
    return exact & (count < 2)


def _total(parts: Sequence[Part], chosen: Array, number: Any) -> Array:
    out = number(np.zeros(np.count_nonzero(chosen)))
    for p in parts:
        factor = np.broadcast_to(p.factor, chosen.shape)[chosen]
        out = out + number(p.weights[chosen]) * number(factor)
    return np.asarray(out)


def _rounded(a: Array, b: Array, parts: Sequence[Part]) -> Array:
    """Return where a is a number of the type of its single weight and none is nearer to b."""
    types = {p.stored if np.isin(p.factor, (-1, 1)).all() else None for p in parts}
    if types not in ({np.float16}, {np.float32}):
        return np.zeros(a.shape, bool)
    stored = types.pop()
    with np.errstate(over="ignore"):
        narrow = a.astype(np.float64).astype(stored)
        ends = [np.nextafter(narrow, stored(s)) for s in (-np.inf, np.inf)]
    ends = [np.where(np.isfinite(e), e, narrow).astype(np.float64) for e in ends]
    low, middle, high = (
        _exactly(v) if a.dtype == object else v
        for v in (ends[0], narrow.astype(np.float64), ends[1])
    )
    return np.asarray((middle == a) & (low + a <= 2 * b) & (2 * b <= a + high), bool)
