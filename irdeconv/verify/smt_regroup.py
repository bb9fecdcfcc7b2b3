"""Reshape: neighbouring axes that are merged or split, found by the sizes of both shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from irdeconv.proof.model import Layer, Unproved
from irdeconv.verify.smt_reading import Component, Digit, MergedAxes
from irdeconv.verify.smt_side import ReadSide
from irdeconv.verify.smt_terms import SizeTerm, divisor, equal, term


def groups(
    side: ReadSide, layer: Layer, source: Sequence[SizeTerm], target: Sequence[SizeTerm]
) -> list[tuple[list[SizeTerm], list[SizeTerm]]]:
    """Return neighbouring axes of both shapes that hold the same number of elements."""
    values = side.space.sample()
    out, left, right = [], list(source), list(target)
    while left or right:
        here, there = left[:1], right[:1]
        del left[:1], right[:1]
        while (a := _product(here, values)) != (b := _product(there, values)):
            more, rest = (here, left) if a < b else (there, right)
            if not rest:
                raise Unproved(f"{layer} does not keep the number of elements")
            more.append(rest.pop(0))
        _same_count(side, layer, here, there)
        out.append((here, there))
    return out


def _product(dims: Sequence[SizeTerm], values: Mapping[str, Any]) -> int:
    out = 1
    for d in dims:
        out *= int(d.value(values))
    return out


def _same_count(
    side: ReadSide, layer: Layer, here: Sequence[SizeTerm], there: Sequence[SizeTerm]
) -> None:
    """Demand that two groups of axes hold the same number of elements."""
    left, rest = list(there), []
    for d in here:
        if d in left:
            left.remove(d)
        else:
            rest.append(d)
    counts = (math.prod(dims, start=term(1)) for dims in (rest, left))
    side.demand(equal(*counts), f"{layer} keeps the number of elements")


def regrouped(
    index: Sequence[Component], there: Sequence[SizeTerm], here: Sequence[SizeTerm]
) -> list[Component]:
    """Return the index in the axes `here` of an element of the axes `there`.

    An axis that merges others keeps their components apart, so that no product of sizes is needed
    if a later Reshape splits it again.
    """
    digits = [
        digit
        for c, size in zip(index, there, strict=True)
        for digit in (c.digits if isinstance(c, MergedAxes) else [(c, size)])
        if digit[1] != 1
    ]
    out: list[Component] = []
    left = sum(d != 1 for d in here)
    for size in here[::-1]:
        left -= size != 1
        taken = _innermost(digits, size) if left else digits
        if size == 1 or not taken:
            out.append(term(0))
        else:
            out.append(taken[0][0] if len(taken) == 1 else MergedAxes(tuple(taken)))
    return out[::-1]


def _innermost(digits: list[Digit], size: SizeTerm) -> list[Digit]:
    """Remove the innermost digits that make an axis of a size, splitting one if needed."""
    taken: list[Digit] = []
    while size != 1:
        c, count = digits.pop()
        if count == size:
            return [(c, count), *taken]
        by, n = divisor(size), count.known
        if n and by % n == 0:
            taken.insert(0, (c, count))
            size = term(by // n)
        elif all(f % by == 0 for f in (*count.parts.values(), count.constant)):
            digits.append((_apart(c) // by, count // by))
            return [(_apart(c) % by, size), *taken]
        else:
            outer, more = digits.pop()
            both = MergedAxes(((outer, more), (c, count)))
            digits.append((both.flat(), more * count))
    return taken


def _apart(c: Component) -> Any:
    return c.flat() if isinstance(c, MergedAxes) else c
