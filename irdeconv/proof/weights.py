"""Whether sums of weights are equal, exactly or up to the rounding of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

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


class Total(NamedTuple):
    """A sum: its value, where that is exact, where it is one weight alone, and that one's type."""

    value: Array
    exact: Array
    alone: Array
    stored: Any


def product(a: Array, b: Array | None) -> Array:
    """Return a * b where that is exact in float64; None stands for 1."""
    if b is not None and not _fits(a, b).all():
        raise Unproved("a product of factors does not fit float64")
    return a if b is None else a * b


def _fits(a: Array, b: Array) -> Array:
    """Return where a product is exact for sure: of two float32, or with 0, 1 or -1."""
    with np.errstate(over="ignore"):
        short = (a.astype(np.float32) == a) & (b.astype(np.float32) == b)
    return np.asarray(short | (abs(a) == 1) | (abs(b) == 1) | (a == 0) | (b == 0))


def compare(low: Sequence[Part], source: Sequence[Part]) -> float:
    """Return the largest relative difference of two sums; Unproved unless they are equal.

    They may differ where one of them is a single weight, to which the other one is rounded.
    """
    parts = (*low, *source)
    kinds = [p.symbols for p in parts] if any(p.symbols.any() for p in parts) else [np.array(0)]
    worst = 0.0
    for kind in kinds:
        sides = [
            [p._replace(weights=p.weights * (p.symbols == kind)) for p in side]
            for side in (low, source)
        ]
        a, b = (_total(side, parts[0].weights.shape) for side in sides)
        sure = a.exact & b.exact
        if np.count_nonzero(~sure) > MOST_FRACTIONS:
            raise Unproved("too many sums of weights do not fit float64")
        worst = max(worst, _differ(a, b, sure))
        a = a._replace(value=_fractions(sides[0], ~sure))
        b = b._replace(value=_fractions(sides[1], ~sure))
        worst = max(worst, _differ(a, b, ~sure))
    return worst


def _total(parts: Sequence[Part], shape: tuple[int, ...]) -> Total:
    value, count = np.zeros(shape), np.zeros(shape, int)
    exact, alone = np.ones(shape, bool), np.ones(shape, bool)
    for p in parts:
        value = value + p.weights * p.factor
        count = count + (p.weights != 0)
        exact &= _fits(p.weights, p.factor)
        alone &= (p.weights == 0) | (abs(p.factor) == 1)
    stored = {p.stored for p in parts}
    kind = stored.pop() if len(stored) == 1 else None
    return Total(value, exact & (count <= 1), alone & (count <= 1), kind)


def _fractions(parts: Sequence[Part], chosen: Array) -> Array:
    out = _exactly(np.zeros(np.count_nonzero(chosen)))
    for p in parts:
        factor = np.broadcast_to(p.factor, chosen.shape)
        out = out + _exactly(p.weights[chosen]) * _exactly(factor[chosen])
    whole = np.zeros(chosen.shape, object)
    whole[chosen] = out
    return whole


def _differ(low: Total, source: Total, chosen: Array) -> float:
    a, b = low.value[chosen], source.value[chosen]
    equal = np.asarray(a == b, bool)
    near = low.alone[chosen] & _rounded(a, b, low.stored)
    near |= source.alone[chosen] & _rounded(b, a, source.stored)
    wrong = np.flatnonzero(~(equal | near))
    if wrong.size:
        x, y = (float(v[wrong[0]]) for v in (a, b))
        raise Different(f"the weights of an input add up to {x:.9g}, in the source to {y:.9g}")
    return float(np.max(abs(a[~equal] - b[~equal]) / abs(b[~equal]), initial=0))


def _rounded(a: Array, b: Array, stored: Any) -> Array:
    """Return where a is a number of the stored type and none is nearer to b."""
    if stored not in (np.float16, np.float32):
        return np.zeros(a.shape, bool)
    with np.errstate(over="ignore"):
        narrow = a.astype(np.float64).astype(stored)
        ends = [np.nextafter(narrow, stored(s)).astype(np.float64) for s in (-np.inf, np.inf)]
    middle = narrow.astype(np.float64)
    ends = [np.where(np.isfinite(e), e, middle) for e in ends]
    if a.dtype == object:
        middle, *ends = (_exactly(v) for v in (middle, *ends))
    near = (middle + ends[0] <= 2 * b) & (2 * b <= middle + ends[1])
    return np.asarray((middle == a) & near, bool)
