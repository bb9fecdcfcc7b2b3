"""Classification of sequences against sums over all paths and a loop over steps; refusals."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

import test_op_errors as errors
from irdeconv.kernels import recurrent
from op_cases import count, f32, i32


def read(path: tuple[int, ...], blank: int, *, merge: bool) -> list[int]:
    """Return what a path of classes spells."""
    pairs = zip((None, *path), path, strict=False)
    return [c for p, c in pairs if c != blank and not (merge and c == p)]


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_loss_sums_all_paths(seed: int, merge: bool) -> None:
    r = np.random.default_rng(seed)
    steps, classes = int(r.integers(1, 6)), int(r.integers(2, 5))
    blank = int(r.integers(0, classes))
    others = [c for c in range(classes) if c != blank]
    labels = r.choice(others, int(r.integers(0, steps + 1)))
    chances = r.dirichlet(np.ones(classes), steps)
    total = sum(
        math.prod(chances[t, c] for t, c in enumerate(path))
        for path in itertools.product(range(classes), repeat=steps)
        if read(path, blank, merge=merge) == list(labels)
    )
    want = -math.log(total) if total else math.inf
    got = recurrent.loss(np.log(chances) + 5, labels, blank, merge=merge)
    assert math.isclose(got, want, abs_tol=1e-9)


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_decoding_reads_each_sequence(seed: int, merge: bool) -> None:
    r = random.Random(seed)
    lengths = [r.randint(0, 7) for _ in range(5)]
    classes = np.array([[r.randint(0, 2) for _ in range(7)] for _ in lengths])
    used = np.arange(7) < np.array(lengths)[:, None]
    out, counts = recurrent.decoded(classes, used, 1, merge=merge)
    for found, number, steps, length in zip(out, counts, classes, lengths, strict=True):
        want = read(tuple(steps[:length]), 1, merge=merge)
        assert list(found) == want + [-1] * (7 - len(want))
        assert number == len(want)


DATA = count((2, 3, 4))
LABELS, ENDS = i32([[0, 1, 2], [0, 1, 2]]), i32([3, 3])
TREE = [i32([[[1, 2]], [[3, 4]]]), i32([[[0, 0]], [[0, 2]]]), i32([2]), i32(9)]
LOSS = "CTCLoss-4"
ROWS = [
    errors.row(
        "CTCGreedyDecoder-1", "", ["f32[5,2,4]", "f32[2,5]"], "E302", 1, "size 2", "5 is needed"
    ),
    errors.row("CTCGreedyDecoder-1", "", ["f32[5,2,0]", "f32[5,2]"], "E302", 0, "0 classes"),
    errors.row("CTCGreedyDecoder-1", "", ["f32[5,2,4]", "i32[5,2]"], "E303", 1, "i32"),
    errors.row(
        "CTCGreedyDecoderSeqLen-6", "", [DATA, i32([3, 4])], "E305", 1, "sequence 1 is 4", "0 to 3"
    ),
    errors.row("CTCGreedyDecoderSeqLen-6", "", [DATA, i32([-1, 3])], "E305", 1, "sequence 0 is -1"),
    errors.row("CTCGreedyDecoderSeqLen-6", "", [DATA, ENDS, i32([1, 2])], "E302", 2, "2 values"),
    errors.row(LOSS, "", [DATA, i32([3, 4]), LABELS, i32([1, 1])], "E305", 1, "sequence 1 is 4"),
    errors.row(LOSS, "", [DATA, i32([3, 1]), LABELS, i32([3, 2])], "E305", 3, "is 2", "0 to 1"),
    errors.row(
        LOSS, "", [DATA, ENDS, i32([[0, 9, 9], [0, 9, 9]]), i32([1, 2])], "E305", 2, "9", "4"
    ),
    errors.row(LOSS, "", [DATA, ENDS, LABELS, i32([1, 1]), i32(4)], "E305", 4, "4", "4 classes"),
    errors.row(LOSS, "", [DATA, ENDS, LABELS, i32([1, 1]), i32([3])], "E301", 4, "rank 1"),
    errors.row(LOSS, "", ["f32[2,3,4]", "i32[2]", "i32[2,4]", "i32[2]"], "E302", 2, "size 4", "3"),
    errors.row("GatherTree-1", "", TREE, "E305", 1, "step 1 is 2", "2 beams"),
    errors.row("GatherTree-1", "", [*TREE[:3], f32(9)], "E303", 3, "i32", "f32"),
    errors.row("GatherTree-1", "", [*TREE[:3], i32([9])], "E301", 3, "rank 1"),
]


@pytest.mark.parametrize("r", ROWS, ids=[f"{i}-{r.op}" for i, r in enumerate(ROWS)])
def test_what_does_not_fit_is_refused(r: errors.Row) -> None:
    errors.test_refusal(r)
