"""Classification of sequences against sums over all paths and a loop over steps."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from irdeconv.kernels import recurrent


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
