"""Compare two graphs layer by layer on the same inputs, with a tolerance that rounding explains."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv.graph import Graph, Node
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan
from irdeconv.spec import Array
from irdeconv.verify.kinds import kind_of
from irdeconv.verify.lockstep import run_side_by_side


@dataclass(frozen=True)
class TensorDifference:
    """One tensor in both graphs.

    `max_abs` is the largest difference, `scale` the largest absolute value of the reference,
    `tolerance` the allowed difference, `worst` the index of the largest one. `shape_b` differs
    from `shape_a` where the tensors cannot be compared at all. `kind` names a known mistake that
    explains the difference. `cosine` is that of the angle between both tensors, `ulps` the largest
    difference in units in the last place of the reference's largest value.
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
    ulps: float | None = None

    @property
    def passed(self) -> bool:
        """Whether shapes agree and the difference is within the tolerance (NaN never is)."""
        return self.shape_a == self.shape_b and self.max_abs <= self.tolerance

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
            "relative": self.relative,
            "tolerance": self.tolerance,
            "worst": None if self.worst is None else list(self.worst),
            "cosine": self.cosine,
            "ulps": self.ulps,
            "kind": self.kind,
            "output": self.output,
            "passed": self.passed,
        }

    def __str__(self) -> str:
        mark = "ok  " if self.passed else "DIFF"
        kind = f"; {self.kind}" if self.kind else ""
        if self.shape_a != self.shape_b:
            return f"{mark} {self.name}: shapes {list(self.shape_a)} and {list(self.shape_b)}{kind}"
        where = f" at {list(self.worst)}" if self.worst is not None and self.max_abs else ""
        return (
            f"{mark} {self.name} {list(self.shape_a)}: max |a-b| {self.max_abs:.3g}{where}, "
            f"relative {self.relative:.3g}, allowed {self.tolerance:.3g}{kind}"
        )


@dataclass(frozen=True)
class Comparison:
    """Every tensor that both graphs have, in the order of the first graph's execution."""

    tensors: tuple[TensorDifference, ...]
    missing: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[TensorDifference, ...]:
        """The model outputs."""
        return tuple(t for t in self.tensors if t.output)

    @property
    def passed(self) -> bool:
        """Whether every tensor agrees and no output is missing."""
        return not self.missing and all(t.passed for t in self.tensors)

    @property
    def first_difference(self) -> TensorDifference | None:
        """The first tensor, in execution order, that differs."""
        return next((t for t in self.tensors if not t.passed), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        first = self.first_difference
        return {
            "passed": self.passed,
            "first_difference": first.name if first else None,
            "missing": list(self.missing),
            "tensors": [t.to_dict() for t in self.tensors],
        }

    def __str__(self) -> str:
        lines = [str(t) for t in self.tensors if t.output or not t.passed]
        lines += [f"MISSING output {name}" for name in self.missing]
        first = self.first_difference
        layers = sum(not t.output for t in self.tensors)
        if self.passed:
            lines.append(f"the same: {len(self.outputs)} outputs, {layers} layers compared")
        elif first is not None:
            lines.append(f"different: first at {first.type_a} {first.name!r}")
        else:
            lines.append("different: outputs are missing")
        return "\n".join(lines)


def compare_plans(a: Plan, b: Plan, inputs: Feeds, tolerance: float | None = None) -> Comparison:
    """Run both plans and compare the tensors of equal names and the outputs by order.

    `tolerance` is relative to the largest absolute value of the reference tensor; by default it is
    the unit roundoff times the terms accumulated on the way to the tensor (integers: exact).
    """
    terms = accumulated_terms(a.graph)
    tensors: list[TensorDifference] = []

    def check(key: str, first: Node, x: Array, second: Node, y: Array) -> None:
        types = (key, first.type, second.type)
        tensors.append(difference(types, x, y, terms.get(first.id, 1), tolerance))

    keys = (_keys(a.graph), _keys(b.graph))
    out_a, out_b = run_side_by_side(a, b, inputs, keys, check)
    pairs = list(zip(out_a.items(), out_b.items(), strict=False))
    for ((name, x), (_, y)), result in zip(pairs, a.graph.results, strict=False):
        n = terms.get(result.id, 1)
        tensors.append(difference((name, "Result", "Result"), x, y, n, tolerance, output=True))
    return Comparison(
        tuple(tensors), tuple(list(out_a)[len(pairs) :]) or tuple(list(out_b)[len(pairs) :])
    )


def _keys(graph: Graph) -> dict[int, str]:
    """Return the names by which layers are matched, those that are unique.

    The last of the nodes that a rewriting made answers to the name of the source layer.
    """
    keys = {}
    last: dict[tuple[str, ...], int] = {}
    for node in graph.topological():
        if node.type not in ("Const", "Parameter", "Result"):
            keys[node.id] = node.name
            if node.origins:
                last[node.origins] = node.id
    keys |= {i: origins[0] for origins, i in last.items()}
    count = Counter(keys.values())
    return {i: key for i, key in keys.items() if count[key] == 1}


def accumulated_terms(graph: Graph) -> dict[int, int]:
    """Return, per node, the additions and roundings on the longest way from the inputs to it."""
    out: dict[int, int] = {}
    for node in graph.topological():
        before = max((out[v.node] for v in graph.inputs_of(node.id)), default=0)
        macs = node.op.macs(graph.input_specs(node.id), node.specs or ()) or 0
        size = node.spec().size if node.specs else None
        own = -(-macs // size) + 1 if macs and size else 1
        out[node.id] = before + (own if node.type not in ("Const", "Parameter") else 0)
    return out


def difference(
    names: tuple[str, str, str],
    a: Array,
    b: Array,
    terms: int,
    tolerance: float | None = None,
    *,
    output: bool = False,
) -> TensorDifference:
    """Compare two arrays; non-finite values must be equal (NaN to NaN) in the same places."""
    if a.shape != b.shape or a.dtype.kind in "OSU" or a.size == 0:
        same = a.shape == b.shape and bool(np.array_equal(a, b))
        kind = None if same or a.dtype.kind in "OSU" else kind_of(a, b, _roundoff(a) * terms)
        apart = 0.0 if same else np.inf
        return TensorDifference(*names, a.shape, b.shape, apart, 1.0, 0.0, None, output, kind)
    x, y = a.astype(np.float64), b.astype(np.float64)
    apart_at = _apart(x, y)
    finite = np.abs(x[np.isfinite(x)])
    scale = float(finite.max()) if finite.size else 0.0
    allowed = (_roundoff(a) * terms if tolerance is None else tolerance) * scale
    worst = np.unravel_index(int(apart_at.argmax()), apart_at.shape)
    top = float(apart_at.max())
    unit = 2 * _roundoff(a) * scale
    return TensorDifference(
        *names,
        a.shape,
        b.shape,
        top,
        scale,
        allowed,
        tuple(int(i) for i in worst),
        output,
        kind_of(a, b, allowed) if top > allowed else None,
        _cosine(x, y),
        top / unit if unit else None,
    )


def _apart(x: Array, y: Array) -> Array:
    """Return |x - y|: 0 where both are the same NaN or infinity, infinite where only one is."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(x - y)
    equal = (x == y) | (np.isnan(x) & np.isnan(y))
    out: Array = np.where(equal, 0.0, np.where(np.isnan(apart), np.inf, apart))
    return out


def _cosine(x: Array, y: Array) -> float:
    both = np.isfinite(x) & np.isfinite(y)
    p, q = x[both], y[both]
    length = float(np.linalg.norm(p) * np.linalg.norm(q))
    return min(float(p @ q) / length, 1.0) if length else 1.0


def _roundoff(a: Array) -> float:
    if a.dtype.kind in "biu":
        return 0.0
    return float(ml_dtypes.finfo(a.dtype).eps) / 2  # type: ignore[no-untyped-call]
