"""Whether two answers to one sample agree: in type, shape (inferred and computed) and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from support.live_operations.runtime import Answer
from support.live_operations.sample import Sample

Kind = Literal[
    "agree", "differ", "both refuse", "only OpenVINO", "only irdeconv", "OpenVINO crashes",
]  # fmt: skip
KINDS: tuple[Kind, ...] = (
    "agree", "differ", "both refuse", "only OpenVINO", "only irdeconv", "OpenVINO crashes",
)  # fmt: skip
# Relative to the largest magnitude. The plugin computes what is narrow or f64 in f32, functions by
# polynomials; sums may have any order.
LIMITS = {"f64": 2.0**-19, "f32": 2.0**-19, "f16": 2.0**-9, "bf16": 2.0**-6}


@dataclass(frozen=True)
class Verdict:
    """One sample's row: what came of it, and why."""

    kind: Kind
    sample: Sample
    reason: str = ""
    wider: bool = False

    @property
    def disagrees(self) -> bool:
        """Whether OpenVINO runs it, and irdeconv gives something else or nothing."""
        return self.kind in ("differ", "only OpenVINO")


def judge(sample: Sample, live: Answer, ours: Answer) -> Verdict:
    """Compare OpenVINO's answer with irdeconv's."""
    if ours.kind == "crashed":
        return Verdict("differ", sample, f"irdeconv fails: {ours.message}")
    if live.kind in ("crashed", "unstable"):
        return Verdict("OpenVINO crashes", sample, live.message)
    if live.kind == "refused":
        if ours.kind == "refused":
            return Verdict("both refuse", sample, f"{live.message} // {ours.message}")
        return Verdict("only irdeconv", sample, live.message)
    if ours.kind == "refused":
        return Verdict("only OpenVINO", sample, ours.message)
    reason = difference(sample, live, ours)
    wider = not reason and any(map(is_wider, live.specs, ours.specs))
    return Verdict("differ" if reason else "agree", sample, reason, wider)


def difference(sample: Sample, live: Answer, ours: Answer) -> str:
    """Say how two runs differ; empty where they do not."""
    for i, (a, b) in enumerate(zip(live.specs, ours.specs, strict=True)):
        if a[0] != b[0]:
            return f"output {i}: type {b[0]}, OpenVINO {a[0]}"
        if not _compatible(a[1], b[1]):
            return f"output {i}: inferred {shown(b[1])}, OpenVINO {shown(a[1])}"
    for i, (x, y) in enumerate(zip(live.arrays, ours.arrays, strict=True)):
        if x.shape != y.shape:
            return f"output {i}: shape {list(y.shape)}, OpenVINO {list(x.shape)}"
        if not _inside(x.shape, ours.specs[i][1]):
            return f"output {i}: shape {list(x.shape)}, inferred {shown(ours.specs[i][1])}"
        why = _values(x, y, limit_of(sample, ours.specs[i][0]))
        if why:
            return f"output {i}: {why}"
    return ""


def limit_of(sample: Sample, output: str) -> float:
    """The tolerance of the narrowest floating-point type that takes part."""
    names = [output, *(g.tensor.dtype.name for g in sample.inputs)]
    return max((LIMITS[n] for n in names if n in LIMITS), default=0.0)


def _values(live: Any, ours: Any, limit: float) -> str:
    if ours.dtype == object or live.dtype.kind in "UST":
        same = np.array_equal(live.astype(str), ours.astype(str))
        return "" if same else f"{ours.tolist()}, OpenVINO {live.tolist()}"
    if live.dtype.kind != "f":
        wrong = live != ours.astype(live.dtype)
        if ours.dtype.kind == "b" or live.dtype.kind == "b":
            wrong = live.astype(bool) != ours.astype(bool)
    else:
        a, b = live.astype(np.float64), ours.astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        room = limit * max(1.0, float(finite.max(initial=0)))
        wrong = ~np.isclose(a, b, rtol=0, atol=room, equal_nan=True)
    if not wrong.any():
        return ""
    at = tuple(int(v) for v in np.argwhere(wrong)[0])
    many = f"{int(wrong.sum())} of {wrong.size} values; "
    return f"{many}at {list(at)} {ours[at]}, OpenVINO {live[at]}"


def shown(shape: Any) -> str:
    if shape is None:
        return "[...]"
    dims = (str(a) if a == b else "?" if (a, b) == (0, -1) else f"{a}..{b}" for a, b in shape)
    return f"[{','.join(dims)}]"


def _compatible(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(map(_meet, a, b))


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether some size fits both; -1 has no end."""
    return (a[1] < 0 or b[0] <= a[1]) and (b[1] < 0 or a[0] <= b[1])


def _inside(shape: tuple[int, ...], inferred: Any) -> bool:
    if inferred is None:
        return True
    exact = [(d, d) for d in shape]
    return len(exact) == len(inferred) and all(map(_meet, exact, inferred))


def is_wider(live: tuple[str, Any], ours: tuple[str, Any]) -> bool:
    """Whether OpenVINO infers an exact size, or a rank, where irdeconv leaves it open."""
    a, b = live[1], ours[1]
    if a is None or b is None:
        return a is not None
    return any(x[0] == x[1] and y[0] != y[1] for x, y in zip(a, b, strict=True))
