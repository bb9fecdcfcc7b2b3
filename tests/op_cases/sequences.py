"""CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss, GatherTree; worked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from op_cases import Case, Tensor, case, f16, f32, i32, i64

# The best classes of five steps: 1 1 3 1 0, and 2 3 2 2 3; 3 is the last class.
BEST = [[1, 1, 3, 1, 0], [2, 3, 2, 2, 3]]
DATA = np.eye(4)[BEST] + [0.25, 0.5, 0.125, 0.375]
# Equal values: the first class of them counts.
EQUAL = [[[1, 2, 2], [3, 3, 3], [1, 1, 2], [0, 5, 5]]]
END = [-1]


def greedy(attributes: str, ends: list[int], found: list[list[int]], kind: Any = f32) -> Case:
    """Write a row with DATA by steps and a mask that is 0 from the ends on (and 2 once more)."""
    mask = (np.arange(5)[:, None] < ends).astype(float)
    mask[4, 0] = 2
    wanted = kind([row + END * (5 - len(row)) for row in found], (2, 5, 1, 1))
    inputs = [kind(DATA.transpose(1, 0, 2)), f32(mask)]
    return case("CTCGreedyDecoder-1", attributes, inputs, wanted)


def counted(
    attributes: str,
    lengths: Tensor,
    found: list[list[int]],
    *blank: Tensor,
    kinds: tuple[Any, Any] = (i32, i32),
    data: Any = DATA,
) -> Case:
    steps = np.shape(data)[1]
    wanted = [
        kinds[0]([row + END * (steps - len(row)) for row in found]),
        kinds[1]([len(row) for row in found]),
    ]
    return case("CTCGreedyDecoderSeqLen-6", attributes, [f32(data), lengths, *blank], wanted)


def loss(
    attributes: str,
    chances: Any,
    labels: list[list[int]],
    lengths: list[int],
    found: list[float],
    *blank: Tensor,
    steps: list[int] | None = None,
    kind: Any = f32,
    **more: Any,
) -> Case:
    """Write a row; logits are logarithms of chances times 3, which takes nothing from them."""
    logits = np.log(3 * np.array(chances))
    inputs = [kind(logits), i32(steps or [logits.shape[1]] * len(labels)), i32(labels)]
    wanted = kind([-math.log(p) if p else math.inf for p in found])
    return case("CTCLoss-4", attributes, [*inputs, i32(lengths), *blank], wanted, **more)


MERGED = 'ctc_merge_repeated="true"'
# Two steps, classes a b and the blank.
TWO = [[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]]
THREE = [[*TWO[0], [0.125, 0.5, 0.375]]]

# Steps, batches of beams: the parents of the last step cross, those of the step before lead to 0.
STEPS = np.arange(1, 13).reshape(3, 2, 2)
PARENTS = np.array([[[7, 7], [7, 7]], [[0, 0], [1, 0]], [[1, 0], [1, 1]]])
FOLLOWED = [[[1, 1], [4, 3]], [[6, 5], [7, 8]], [[9, 10], [99, 99]]]


def tree(kind: Any, lengths: list[int], end: int, found: Any, **more: Any) -> Case:
    inputs = [kind(STEPS), kind(PARENTS), kind(lengths), kind(end)]
    return case("GatherTree-1", "", inputs, kind(found), **more)


CASES = [
    greedy("", [5, 5], [[1, 1, 0], [2, 2]]),
    greedy('ctc_merge_repeated="false"', [5, 4], [[1, 1, 1, 0], [2, 2, 2]]),
    # What a mask has behind its first 0 does not count.
    greedy("", [2, 0], [[1], []], f16),
    counted("", i32([5, 4]), [[1, 1, 0], [2, 2]]),
    counted('merge_repeated="false"', i64([4, 1]), [[1, 1, 1], [2]]),
    counted(
        'classes_index_type="i64" sequence_length_type="i64"',
        i32([5, 0]),
        [[3, 0], []],
        i32(1),
        kinds=(i64, i64),
    ),
    counted("", i32([5, 3]), [[1, 3, 1, 0], [2, 3, 2]], i64([-1])),
    counted("", i32([4]), [[1, 0, 1]], data=EQUAL),
    # "a" in two steps: a and blank, blank and a, lasting: a a.
    loss("", TWO, [[0, 9]], [1], [0.25 + 0.0625]),
    loss(MERGED, TWO, [[0, 9]], [1], [0.25 + 0.0625 + 0.125]),
    # "a a" needs a blank between them, where they may not follow each other.
    loss("", TWO, [[0, 0]], [2], [0.125]),
    loss(MERGED, TWO, [[0, 0]], [2], [0]),
    loss(MERGED, THREE, [[0, 0, 0]], [2], [0.5 * 0.5 * 0.125]),
    loss(f'{MERGED} preprocess_collapse_repeated="true"', TWO, [[0, 0]], [2], [0.4375]),
    loss(
        f'{MERGED} unique="true"',
        THREE,
        [[1, 0, 1]],
        [3],
        [
            0.0625 * 0.125
            + 0.0625 * 0.375
            + 0.25 * 0.5 * 0.125
            + 0.25 * 0.25 * 0.125
            + 0.25 * 0.25 * 0.125
        ],
    ),
    # The blank is class 0; of the second sequence one step counts.
    loss(
        MERGED,
        [*TWO, *TWO],
        [[1, 9], [2, 9]],
        [1, 1],
        [0.25 * 0.25 + 0.25 * 0.25 + 0.5 * 0.25, 0.25],
        i32(0),
        steps=[2, 1],
    ),
    loss(MERGED, TWO, [[0, 9]], [1], [0.4375], kind=f16, tolerance=2.0**-10),
    loss(
        MERGED,
        [*TWO, *TWO],
        [[9, 9], [9, 9]],
        [0, 0],
        [0.125, 1],
        steps=[2, 0],
        crash="OpenVINO reads outside of its tables where there is no label",
    ),
    tree(i32, [3, 2], 99, FOLLOWED),
    tree(f32, [7, 2], 99, FOLLOWED),
    tree(i64, [3, 2], 5, [[[1, 1], [4, 3]], [[6, 5], [7, 8]], [[9, 5], [5, 5]]]),
    tree(
        i32,
        [1, 0],
        99,
        [[[1, 2], [99, 99]], [[99, 99], [99, 99]], [[99, 99], [99, 99]]],
        crash="OpenVINO leaves a batch without steps unwritten",
    ),
]
