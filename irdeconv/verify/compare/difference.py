"""How far two tensors are apart, and what is allowed between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv.spec import Array
from irdeconv.verify.compare.kinds import kind_of
from irdeconv.verify.compare.measured import Measured, apart, largest

_WIDTHS: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


TELLING_ULPS = 100_000  # more of them say nothing that the difference does not


@dataclass(frozen=True)
class Allowed:
    """The largest difference of every element that rounding explains, and the rule it is from."""

    limit: Array | float
    rule: str


@dataclass(frozen=True, kw_only=True)
class TensorDifference:
    """One tensor of both models.

    `max_abs` is the largest |a-b|, at the index `worst`; `ulps` counts the steps from one
    representable number of a's type to the next between both values there. `max_rel` is the
    largest |a-b| / max(|a|, |b|) of all elements, `scale` the largest |a|, `cosine` that of the
    angle between both tensors. `own` is the part of a difference that the layer itself made:
    what is left when the first model computes the layer from the second model's inputs. It may be
    `tolerance`, derived by `rule`; both stand for the element `own_at` that goes beyond its limit
    most, or else comes closest to it. `shape_b` differs from `shape_a` where the tensors cannot be
    compared at all. `kind` names a known mistake that explains the difference, `node` is
    the id of the layer in the first graph.
    """

    name: str
    type_a: str
    type_b: str
    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]
    max_abs: float
    scale: float
    tolerance: float
    worst: tuple[int, ...] | None
    output: bool = False
    kind: str | None = None
    cosine: float = 1.0
    ulps: int | None = None
    max_rel: float = 0.0
    own: float = 0.0
    own_at: tuple[int, ...] | None = None
    rule: str = "exact"
    node: int | None = None

    @property
    def passed(self) -> bool:
        """Whether shapes agree and the layer's own difference is allowed (infinite never is)."""
        return self.shape_a == self.shape_b and within(self.own, self.tolerance)

    @property
    def relative(self) -> float:
        """The largest difference relative to the scale."""
        return self.max_abs / self.scale if self.scale else self.max_abs

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "type_a": self.type_a,
            "type_b": self.type_b,
            "shape_a": list(self.shape_a),
            "shape_b": list(self.shape_b),
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "relative": self.relative,
            "worst": None if self.worst is None else list(self.worst),
            "cosine": self.cosine,
            "ulps": self.ulps,
            "own": self.own,
            "own_at": None if self.own_at is None else list(self.own_at),
            "tolerance": self.tolerance,
            "rule": self.rule,
            "kind": self.kind,
            "output": self.output,
            "passed": self.passed,
        }

    def __str__(self) -> str:
        mark = "ok  " if self.passed else "DIFF"
        kind = f"; {self.kind}" if self.kind else ""
        if self.shape_a != self.shape_b:
            return f"{mark} {self.name}: shapes {list(self.shape_a)} and {list(self.shape_b)}{kind}"
        own = f"own error {self.own:.3g}"
        if self.own and self.own_at is not None:
            own += f" at {list(self.own_at)}"
        limit = f"{self.tolerance:.3g}" if self.tolerance or self.rule != "exact" else "none"
        rule = "" if self.rule == "exact" else f" = {self.rule}"
        allowed = f"allowed {limit}{rule}" if self.passed else f"only {limit}{rule} allowed"
        return f"{mark} {self.name} {list(self.shape_a)}: {own}, {allowed}{kind}{self._total}"

    @property
    def _total(self) -> str:
        """What is said of the whole difference, where there is one."""
        if self.worst is None or not self.max_abs:
            return ""
        steps = f"{self.ulps} ulp, " if self.ulps is not None and self.ulps < TELLING_ULPS else ""
        if self.own == self.max_abs and self.own_at == self.worst:
            return f"; {steps}max rel {self.max_rel:.3g}"
        earlier = "; earlier layers differ" if self.passed and self.own < self.max_abs else ""
        most = f"|a-b| up to {self.max_abs:.3g} at {list(self.worst)}"
        return f"{earlier}; {most}, {steps}max rel {self.max_rel:.3g}"


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
    record = partial(record, shape_a=a.shape, shape_b=b.shape)
    numbers = _numeric(a) and _numeric(b)
    if not a.size or not a.shape == b.shape == want.shape or not numbers:
        same = np.array_equal(a, b)
        most = float(np.max(allowed.limit, initial=0.0))
        kind = kind_of(a, b, most) if numbers and not same else None
        off = 0.0 if same else np.inf
        return record(max_abs=off, scale=1.0, tolerance=0.0, worst=None, kind=kind, own=off)
    limit = np.asarray(np.nan_to_num(allowed.limit, nan=0.0, posinf=np.inf))
    found = Measured(a, b, want, limit)
    worst, at = _place(found.gap.at, a.shape), _place(found.closest, a.shape)
    own = float(apart(np.float64(want[at]), np.float64(b[at])))
    tolerance = float(np.broadcast_to(limit, a.shape)[at])
    return record(
        max_abs=found.gap.value,
        scale=found.scale,
        tolerance=tolerance,
        worst=worst,
        kind=None if within(own, tolerance) else kind_of(want, b, largest(limit)),
        cosine=found.cosine,
        ulps=_ulps(a[worst], b[worst]),
        max_rel=found.max_rel,
        own=own,
        own_at=at,
        rule=allowed.rule,
    )


def within(own: float, limit: float) -> bool:
    """Whether a difference is allowed: also where a limit has overflowed, no infinite one is."""
    return own <= limit and math.isfinite(own)


def _numeric(a: Array) -> bool:
    return a.dtype.kind not in "OSUT" and (a.dtype.kind != "V" or a.dtype.isbuiltin == 2)


def same_values(a: Array, b: Array) -> bool:
    """Whether both arrays hold the same numbers, NaN being equal to itself."""
    if a is b:
        return True
    if a.shape != b.shape or not (_numeric(a) and _numeric(b)):
        return a.shape == b.shape and bool(np.array_equal(a, b))
    equal = a == b
    return bool(np.all(equal | ((a != a) & (b != b))))


def _place(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))


def _ulps(a: Any, b: Any) -> int | None:
    """Return the steps from representable number to representable number between two values."""
    dtype = np.asarray(a).dtype
    real = dtype.kind == "f" or dtype.isbuiltin == 2
    with np.errstate(all="ignore"):
        there = np.asarray(b).astype(dtype)
    if not real or dtype.itemsize not in _WIDTHS or not np.isfinite(there.astype(np.float64)):
        return None
    if not np.isfinite(np.asarray(a).astype(np.float64)):
        return None
    return abs(_rank(np.asarray(a)) - _rank(there))


def _rank(value: Array) -> int:
    """Return the number of a floating-point value in ascending order, 0 for both zeros."""
    bits = int(value.view(_WIDTHS[value.dtype.itemsize]))
    lowest = -(1 << (8 * value.dtype.itemsize - 1))
    return bits if bits >= 0 else lowest - bits


def roundoff(dtype: np.dtype[Any]) -> float:
    """Return the unit roundoff of a type: half the gap above 1, 0 for integers."""
    if dtype.kind in "biuOSUT":
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps) / 2  # type: ignore[no-untyped-call]
