"""What the operations that choose among boxes ask of their inputs, and how many they may keep."""

from __future__ import annotations

from irdeconv.dtypes import ElementType
from irdeconv.errors import OpError
from irdeconv.op import Op, as_tuple
from irdeconv.ops.checks import one_type, real_types, want_rank
from irdeconv.spec import DYNAMIC, Dim, Interval, Spec, bounds, merge


def matched(boxes: Spec, scores: Spec, numbers: int = 4) -> tuple[Dim, Dim, Dim]:
    """Return batch, classes and boxes of boxes (N, B, numbers) and scores (N, C, B); E301, E302."""
    want_rank(boxes.shape, 3, 3, 0, "boxes")
    want_rank(scores.shape, 3, 3, 1, "scores")
    b, s = boxes.shape or (DYNAMIC,) * 3, scores.shape or (DYNAMIC,) * 3
    batch, number = merge(b[0], s[0]), merge(b[1], s[2])
    want_numbers(b[2], numbers)
    if batch is None or number is None:
        text = f"scores are for {s[0]} x {s[2]} boxes, there are {b[0]} x {b[1]}"
        raise OpError(text, code="E302", port=1)
    return batch, s[1], number


def one_real(*specs: Spec, names: tuple[str, ...]) -> ElementType | None:
    """Return the floating-point type that all inputs share; E303."""
    found = one_type(*specs, names=names)
    real_types(*specs, names=names)
    return found


def want_numbers(size: Dim, numbers: int, port: int = 0, name: str = "a box") -> None:
    """Require so many numbers of each box; E302."""
    if merge(size, numbers) is None:
        text = f"{name} has {size} numbers; it must have {numbers}"
        raise OpError(text, code="E302", port=port)


def most(*factors: Dim | None) -> Dim:
    """Return how many may be found: at most the product; a factor None is unlimited."""
    total = 1
    for factor in factors:
        top = None if factor is None else bounds(factor)[1]
        if top is None:
            return DYNAMIC
        total *= max(top, 0)
    return Interval.of(0, total)


def least_of(*dims: Dim | None) -> Dim | None:
    """Return the smallest upper bound; None where none of them has one."""
    tops = [bounds(d)[1] for d in dims if d is not None]
    known = [t for t in tops if t is not None]
    return max(min(known), 0) if known else None


def known_count(op: Op, *inputs: Spec | None) -> int | None:
    """Return axis 0 of the first output where all values are known."""
    given = [s.known for s in inputs if s is not None]
    if any(v is None for v in given):
        return None
    return len(as_tuple(op.evaluate(*given))[0])
