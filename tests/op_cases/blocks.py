"""BatchToSpace, SpaceToBatch.

Expected tensors are built element by element from what the operations say of places.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from op_cases import Case, case, count, f32, i32, i64


def spread(
    shape: Sequence[int], block: Sequence[int], begin: Any, end: Any
) -> np.ndarray[Any, Any]:
    """BatchToSpace of 0, 1, 2, ..., by the place of every element."""
    batch = shape[0] // int(np.prod(block))
    whole = np.zeros([batch, *(s * b for s, b in zip(shape[1:], block[1:], strict=True))])
    x = count(shape).values
    for at in itertools.product(*map(range, shape)):
        rest, n = divmod(at[0], batch)
        places = []
        for axis in reversed(range(1, len(shape))):
            rest, inner = divmod(rest, block[axis])
            places.append(at[axis] * block[axis] + inner)
        whole[(n, *reversed(places))] = x[at]
    cuts = zip(begin, whole.shape, end, strict=True)
    return whole[tuple(slice(b, size - e) for b, size, e in cuts)]


def to_space(shape: Any, block: Any, begin: Any, end: Any, kind: Any = i64) -> Case:
    want = spread(shape, block, begin, end)
    return case(
        "BatchToSpace-2", "", [count(shape), kind(block), kind(begin), kind(end)], f32(want)
    )


def to_batch(shape: Any, block: Any, begin: Any, end: Any) -> Case:
    """SpaceToBatch: what BatchToSpace brings back, with 0 at the pads."""
    padded = np.pad(count(shape, 1).values, list(zip(begin, end, strict=True)))
    sizes = [s // b for s, b in zip(padded.shape[1:], block[1:], strict=True)]
    target = [shape[0] * int(np.prod(block)), *sizes]
    where = spread(target, block, [0] * len(block), [0] * len(block)).astype(int)
    want = np.zeros(int(np.prod(target)))
    want[where.reshape(-1)] = padded.reshape(-1)
    inputs = [count(shape, 1), i64(block), i64(begin), i64(end)]
    return case("SpaceToBatch-2", "", inputs, f32(want.reshape(target)))


CASES = [
    to_space((4, 1), (1, 2), (0, 0), (0, 0), i32),
    to_space((12, 2, 3), (1, 2, 3), (0, 0, 0), (0, 0, 0)),
    to_space((12, 2, 3), (1, 3, 2), (0, 1, 0), (0, 2, 3)),
    to_space((6, 2, 1, 3), (1, 1, 3, 2), (0, 0, 1, 2), (0, 0, 0, 1), i32),
    to_space((8, 1, 2, 1, 2), (1, 1, 2, 2, 2), (0, 0, 0, 0, 1), (0, 0, 3, 0, 0)),
    to_batch((2, 6), (1, 3), (0, 0), (0, 0)),
    to_batch((1, 4, 6), (1, 2, 3), (0, 0, 0), (0, 0, 0)),
    to_batch((2, 3, 5), (1, 2, 2), (0, 1, 0), (0, 0, 1)),
    to_batch((1, 2, 3, 4), (1, 1, 2, 2), (0, 0, 1, 2), (0, 0, 0, 0)),
]
