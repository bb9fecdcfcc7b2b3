"""AdaptiveAvgPool and AdaptiveMaxPool, window by window."""

import itertools
import math
from typing import Any

import numpy as np

from op_cases import Case, case, f16, f32, f64, i32, i64, unordered


def windows(shape: tuple[int, ...], out: tuple[int, ...]) -> Any:
    """Yield (output, positions) of every window of a plane, in the order of the data."""
    for at in itertools.product(*map(range, out)):
        ranges = [
            range(math.floor(o * i / n), math.ceil((o + 1) * i / n))
            for o, i, n in zip(at, shape, out, strict=True)
        ]
        yield at, list(itertools.product(*ranges))


def mean(shape: tuple[int, ...], out: tuple[int, ...], kind: Any = f32, **more: Any) -> Case:
    x = unordered(shape)
    y = np.zeros((*shape[:2], *out))
    for n, c in itertools.product(*map(range, shape[:2])):
        for at, places in windows(shape[2:], out):
            y[(n, c, *at)] = sum(x[(n, c, *p)] for p in places) / len(places)
    if kind is i32:
        y = np.rint(y)
    return case("AdaptiveAvgPool-8", "", [kind(x), i64(out)], kind(y), fixed=(), **more)


def largest(
    shape: tuple[int, ...], out: tuple[int, ...], index: Any = i32, kind: Any = f32, **more: Any
) -> Case:
    x = unordered(shape)
    y, where = np.zeros((*shape[:2], *out)), np.zeros((*shape[:2], *out), int)
    order = np.arange(math.prod(shape[2:])).reshape(shape[2:])
    for n, c in itertools.product(*map(range, shape[:2])):
        for at, places in windows(shape[2:], out):
            best = max(places, key=lambda p: (x[(n, c, *p)], -order[p]))
            y[(n, c, *at)], where[(n, c, *at)] = x[(n, c, *best)], order[best]
    text = f'index_element_type="{index.args[0]}"'
    return case("AdaptiveMaxPool-8", text, [kind(x), i64(out)], [kind(y), index(where)], **more)


WIDE = "places of AdaptiveMaxPool as i64"
SIZES = [
    ((2, 3, 7), (3,)),
    ((1, 2, 7, 5), (3, 4)),
    ((1, 1, 5, 4, 3), (2, 3, 2)),
    ((1, 2, 2, 3), (5, 7)),
]
CASES = [
    *(mean(shape, out) for shape, out in SIZES),
    mean((2, 3, 7, 5), (1, 1)),
    mean((1, 2, 5, 3), (2, 2), i32),
    mean((1, 2, 5), (2,), f16, tolerance=2.0**-11),
    mean((1, 2, 5), (2,), f64),
    mean((1, 2, 3, 5), (0, 2)),
    mean((0, 2, 3, 5), (2, 2)),
    *(largest(shape, out) for shape, out in SIZES),
    largest((2, 3, 7, 5), (1, 1)),
    largest((1, 2, 5, 3), (2, 2), kind=i32),
    largest((1, 2, 5, 3), (2, 2), i64, defect=WIDE),
]
