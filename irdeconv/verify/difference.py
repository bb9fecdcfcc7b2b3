"""Differences between tensors: size, allowance, and the mistake that explains one.

Tensors are compared in pieces, to save memory. Each test for a mistake explains the whole
difference or nothing: a shifted tensor agrees after shifting back, a missing bias leaves one number
per channel. The first explanation in the list wins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import ml_dtypes
import numpy as np

from irdeconv.base.json_form import Real, Record
from irdeconv.ir.spec import Array

COMPARED_AT_ONCE = 1 << 16  # elements that are compared at a time, in f64


class Greatest:
    """The greatest of many numbers, and the flat place of the first one that is as great."""

    def __init__(self) -> None:
        self.value, self.at = -math.inf, 0

    def see(self, values: Array, start: int) -> None:
        """Look at the numbers of a piece, which begins at the place `start`."""
        at = int(values.argmax())
        if values[at] > self.value:
            self.value, self.at = float(values[at]), start + at


class Measured:
    """The differences of a and b, and the largest excess of |b - `want`| over its limit.

    All have one shape and hold numbers; `limit` is not NaN and has that shape or fits it. `gap`
    is the greatest |a-b|, `scale` the largest finite |a|, `max_rel` the largest
    |a-b| / max(|a|, |b|): at most 2, and 1 if one of them is 0. Not-finite values are 0 apart if
    they are equal, else infinitely far.
    """

    def __init__(self, a: Array, b: Array, want: Array, limit: Array) -> None:
        self.gap, self._limit = Greatest(), Greatest()
        self._ratio, self._beyond = Greatest(), Greatest()
        self.scale = self.max_rel = 0.0
        self._products = np.zeros(5)
        self._differs = False
        for start, (x, y, w, most) in _pieces(a, b, want, limit):
            gap = apart(x, y)
            self.gap.see(gap, start)
            own = gap if want is a else apart(w, y)
            ratio = _ratio(own, most)
            self._differs |= bool(own.any())
            self._limit.see(most, start)
            self._ratio.see(ratio, start)
            self._beyond.see(np.where(ratio > 1, own, -math.inf), start)
            self.scale = max(self.scale, largest(np.abs(x)))
            differ = np.isfinite(gap) & (gap > 0)
            top: Any = np.maximum(np.abs(x[differ]), np.abs(y[differ]))
            self.max_rel = max(self.max_rel, float((gap[differ] / top).max(initial=0.0)))
            self._products += _products(x, y)

    @property
    def closest(self) -> int:
        """The index of the largest forbidden difference, or else of that closest to its limit."""
        if not self._differs:
            return self._limit.at
        return self._ratio.at if self._beyond.value == -math.inf else self._beyond.at

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both tensors, over finite elements."""
        xx, yy, xy = map(float, self._products[:3])
        length = math.sqrt(xx) * math.sqrt(yy)
        return min(xy / length, 1.0) if length else 1.0

    @property
    def l2(self) -> float:
        """The Euclidean length of a - b, over finite elements."""
        return math.sqrt(self._products[3])

    @property
    def psnr(self) -> float:
        """Decibels from the mean square of a - b to the square of `scale`."""
        if not self._products[3] or not self.scale:
            return -math.inf if self._products[3] else math.inf
        return 10 * math.log10(self.scale**2 * self._products[4] / self._products[3])


def _pieces(a: Array, b: Array, want: Array, limit: Array) -> Iterator[tuple[int, list[Array]]]:
    """Yield pieces of all four in f64, and their start."""
    flat = [x.reshape(-1) for x in (a, b, want)]
    same = limit.size == 1
    limits = limit.reshape(-1) if same else np.broadcast_to(limit, a.shape).reshape(-1)
    for start in range(0, a.size, COMPARED_AT_ONCE):
        some = [x[start : start + COMPARED_AT_ONCE].astype(np.float64) for x in flat]
        most = limits if same else limits[start : start + COMPARED_AT_ONCE]
        yield start, [*some, np.broadcast_to(most, some[0].shape)]


def largest(values: Array) -> float:
    """Return the largest finite one of numbers that are not negative, 0 if there is none."""
    return float(values[np.isfinite(values)].max(initial=0.0))


def apart(x: Any, y: Any) -> Array:
    """Return |x - y|: 0 if both are the same NaN or infinity, infinite if only one is."""
    with np.errstate(invalid="ignore"):
        gap = np.asarray(np.abs(x - y))  # of a scalar NumPy makes no array
    odd = ~np.isfinite(gap)
    if odd.any():
        gap[odd] = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.inf)[odd]
    return gap


def _ratio(own: Array, limit: Array) -> Array:
    """Return own / limit: 0 if nothing differs, infinite if nothing is allowed."""
    with np.errstate(all="ignore"):
        ratio = np.asarray(own / limit)
    ratio[own == 0] = 0.0
    ratio[np.isinf(own)] = np.inf  # also if the limit has overflowed
    return ratio


@np.errstate(all="ignore")
def _products(x: Array, y: Array) -> Array:
    """Return the sums of x*x, y*y, x*y, (x-y)^2 and 1 over elements that are finite in both.

    Not by the BLAS, whose sums depend on its number of threads.
    """
    both = np.isfinite(x) & np.isfinite(y)
    p, q = x[both], y[both]
    sums = (np.sum(v) for v in (p * p, q * q, p * q, (p - q) ** 2))
    return np.array([*sums, p.size])


REACH = 3  # positions that a shift is looked for in every direction
MANY = 512  # channels up to which a permutation is looked for


def kind_of(a: Array, b: Array, allowed: float) -> str | None:
    """Name how `b` differs from `a` (N, C, *S) by more than `allowed`; None if unknown."""
    if a.dtype.kind not in "fiub" and a.dtype.kind != "V":
        return None
    x, y = a.astype(np.float64), b.astype(np.float64)
    if x.shape != y.shape:
        return _size(x, y, allowed)
    for here, there, side in ((y, x, "second"), (x, y, "first")):
        lone = (here != here) & (there == there)
        if lone.any():
            at = list(_place(int(lone.argmax()), a.shape))
            return f"NaN on the {side} side only: {lone.sum()} of {a.size} elements, first at {at}"
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
    return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | (apart <= allowed)))


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


TELLING_ULPS = 100_000  # more of them say nothing that the difference does not


@dataclass(frozen=True)
class Allowed:
    """The largest difference of every element that rounding explains, and the rule it is from."""

    limit: Array | float
    rule: str

    @property
    def slack(self) -> float:
        """The effect of other settings or weights: other magnitudes, but of the same order."""
        return 4 * largest(np.asarray(self.limit))


_KEYS = """name type_a type_b shape_a shape_b max_abs max_rel relative worst cosine l2 psnr ulps own
own_at tolerance rule kind output passed"""


class TensorDifference(Record, keys=_KEYS, kw_only=True):
    """One tensor of both models.

    `scale` is the largest |a|. `own` and `tolerance` are those of the element that exceeds its
    limit most, or else comes closest to it. `node` is the id of the layer in the first graph.
    """

    name: str  # of the tensor
    type_a: Annotated[str, str | None]  # the layer's type in the first model
    type_b: Annotated[str, str | None]  # its type, or the array's element type, on the second side
    shape_a: tuple[int, ...]  # in the first model
    shape_b: tuple[int, ...]  # on the second side; if another one, nothing is compared
    max_abs: Real  # largest |a-b|
    scale: float
    tolerance: Real  # the largest `own` that is allowed
    worst: tuple[int, ...] | None  # the index of the largest difference
    output: bool = False  # whether it is an output of the model
    kind: str | None = None  # the known mistake that explains the difference
    cosine: Real = 1.0  # of the angle between the two tensors as vectors
    l2: Real = 0.0  # the Euclidean length of a - b
    psnr: Real = math.inf  # decibels from the mean square of a - b to the largest |a| squared
    ulps: int | None = None  # at `worst`: representable numbers from one value to the other
    max_rel: Real = 0.0  # largest |a-b| / max(|a|, |b|) of all elements
    # the difference that the layer itself makes: with the second model's inputs in both models
    own: Real = 0.0
    own_at: tuple[int, ...] | None = None  # the index of `own`
    rule: Annotated[str, str | None] = "exact"  # how the bound is derived
    node: int | None = None

    @property
    def passed(self) -> bool:
        """Whether shapes agree and the layer's own difference is allowed (infinite never is)."""
        return self.shape_a == self.shape_b and within(self.own, self.tolerance)

    @property
    def relative(self) -> Real:
        """The largest difference relative to the largest |a|."""
        return self.max_abs / self.scale if self.scale else self.max_abs

    def __str__(self) -> str:
        mark = "ok  " if self.passed else "DIFF"
        kind = f"; {self.kind}" if self.kind else ""
        if self.shape_a != self.shape_b:
            return f"{mark} {self.name}: shapes {list(self.shape_a)} and {list(self.shape_b)}{kind}"
        own = f"own error {self.own:.3g}"
        if self.own and self.own_at is not None:
            own += f" at {list(self.own_at)}"
        limit = f"{self.tolerance:.3g}" if self.tolerance or self.rule != "exact" else "none"
        rule = "" if self.rule in ("exact", "given") else f" = {self.rule}"
        only = "only " if limit != "none" else ""
        allowed = f"allowed {limit}{rule}" if self.passed else f"{only}{limit}{rule} allowed"
        return f"{mark} {self.name} {list(self.shape_a)}: {own}, {allowed}{kind}{self._total}"

    @property
    def _total(self) -> str:
        """The text about the whole difference, if there is one."""
        if self.worst is None or not self.max_abs or (math.isinf(self.max_abs) and not self.l2):
            return ""
        steps = f"{self.ulps} ulp, " if self.ulps is not None and self.ulps < TELLING_ULPS else ""
        whole = f"max rel {self.max_rel:.3g}"
        if self.output or not self.passed:
            whole += f", L2 {self.l2:.3g}, cosine {self.cosine:.6g}, PSNR {self.psnr:.1f} dB"
        if self.own == self.max_abs and self.own_at == self.worst:
            return f"; {steps}{whole}"
        earlier = "; earlier layers differ" if self.passed and self.own < self.max_abs else ""
        most = f"|a-b| up to {self.max_abs:.3g} at {list(self.worst)}"
        return f"{earlier}; {most}, {steps}{whole}"


def difference(
    names: tuple[str, str, str],
    a: Array,
    b: Array,
    allowed: Allowed,
    expected: Array | None = None,
    *,
    output: bool = False,
) -> TensorDifference:
    """Compare b with a, and within `allowed` of `expected` (a); not-finite values must be equal."""
    want = a if expected is None else expected
    name, type_a, type_b = names
    record = partial(TensorDifference, name=name, type_a=type_a, type_b=type_b, output=output)
    record, numbers = partial(record, shape_a=a.shape, shape_b=b.shape), _numeric(a) and _numeric(b)
    if not a.size or not a.shape == b.shape == want.shape or not numbers:
        same = np.array_equal(a, b)
        most = float(np.max(allowed.limit, initial=0.0))
        kind = kind_of(a, b, most) if numbers and not same else None
        off = 0.0 if same else np.inf
        return record(max_abs=off, scale=1.0, tolerance=0.0, worst=None, kind=kind, own=off)
    limit = np.asarray(np.nan_to_num(allowed.limit, nan=0.0, posinf=np.inf))
    found = Measured(a, b, want, limit)
    worst, at = (_place(flat, a.shape) for flat in (found.gap.at, found.closest))
    own = float(apart(np.float64(want[at]), np.float64(b[at])))
    tolerance = float(np.broadcast_to(limit, a.shape)[at])
    return record(
        max_abs=found.gap.value,
        scale=found.scale,
        tolerance=tolerance,
        worst=worst,
        kind=None if within(own, tolerance) else kind_of(want, b, largest(limit)),
        cosine=found.cosine,
        l2=found.l2,
        psnr=found.psnr,
        ulps=_ulps(a[worst], b[worst]),
        max_rel=found.max_rel,
        own=own,
        own_at=at,
        rule=allowed.rule,
    )


def within(own: float, limit: float) -> bool:
    """Whether a difference is allowed: also if a limit has overflowed, no infinite one is."""
    return own <= limit and math.isfinite(own)


def _numeric(a: Array) -> bool:
    return a.dtype.kind not in "OSUT" and (a.dtype.kind != "V" or a.dtype.isbuiltin == 2)


def same_values(a: Array, b: Array) -> bool:
    """Whether both arrays hold the same numbers, NaN being equal to itself."""
    if a is b:
        return True
    if a.shape != b.shape or not (_numeric(a) and _numeric(b)):
        return a.shape == b.shape and bool(np.array_equal(a, b))
    return bool(np.all((a == b) | ((a != a) & (b != b))))


def _place(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))


def _ulps(a: Any, b: Any) -> int | None:
    """Return the steps from representable number to representable number between two values."""
    dtype = np.asarray(a).dtype
    real = dtype.kind == "f" or dtype.isbuiltin == 2
    with np.errstate(all="ignore"):
        there = np.asarray(b).astype(dtype)
    if not real or dtype.itemsize not in (1, 2, 4, 8) or not np.isfinite(there.astype(np.float64)):
        return None
    if not np.isfinite(np.asarray(a).astype(np.float64)):
        return None
    return abs(_rank(np.asarray(a)) - _rank(there))


def _rank(value: Array) -> int:
    """Return the number of a floating-point value in ascending order, 0 for both zeros."""
    bits = int(value.view(f"i{value.dtype.itemsize}"))
    return bits if bits >= 0 else -(1 << (8 * value.dtype.itemsize - 1)) - bits


def roundoff(dtype: np.dtype[Any]) -> float:
    """Return the unit roundoff of a type: half the gap above 1, 0 for integers."""
    if dtype.kind in "biuOSUT":
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps) / 2  # type: ignore[no-untyped-call]
