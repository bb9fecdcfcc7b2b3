"""Reshape: neighbouring axes that are merged or split, found by the sizes of both shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irdeconv.proof.model import Layer, Unproved
from irdeconv.verify.smt.reading import Component, fixed
from irdeconv.verify.smt.side import ReadSide
from irdeconv.verify.smt.terms import SizeTerm, divisor, equal, term


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
    """Return the index in the axes `here` of an element of the axes `there`."""
    pairs = [(c, d) for c, d in zip(index, there, strict=True) if d != 1]
    flat: Component = term(0)
    if any(isinstance(c, np.ndarray) for c, _ in pairs):
        flat = np.zeros(1, np.int64)
    for position, (c, size) in enumerate(pairs):
        by = divisor(size) if position else 1
        flat = flat * by + (fixed(c) if isinstance(flat, np.ndarray) else c)
    out: list[Component] = []
    left = sum(d != 1 for d in here)
    for size in here[::-1]:
        left -= size != 1
        if size == 1:
            out.append(term(0))
        elif not left:
            out.append(flat)
        else:
            out.append(flat % divisor(size))
            flat = flat // divisor(size)
    return out[::-1]
