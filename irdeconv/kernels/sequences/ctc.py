"""Connectionist temporal classification: blanks between labels, a label may last."""

from __future__ import annotations

import numpy as np

from irdeconv.spec import Array


def decoded(classes: Array, used: Array, blank: int, *, merge: bool) -> tuple[Array, Array]:
    """Return the classes (N, T) that are no blanks, moved to the left with -1 behind, and how many.

    `merge` leaves out a class that follows itself at once. Only steps that are `used` count.
    """
    kept = used & (classes != blank)
    if merge:
        kept[:, 1:] &= classes[:, 1:] != classes[:, :-1]
    order = np.argsort(~kept, 1, kind="stable")
    counts = np.count_nonzero(kept, 1)
    packed = np.take_along_axis(classes, order, 1)
    return np.where(np.arange(classes.shape[1]) < counts[:, None], packed, -1), counts


def loss(logits: Array, labels: Array, blank: int, *, merge: bool) -> float:
    """Return minus the logarithm of the probability of labels (L,), given logits (T, C).

    It is the sum over all paths: a blank may stand before, between and behind labels and may last;
    with `merge` labels may last too, and equal neighbours need a blank between them.
    """
    if not len(logits):
        return np.inf if len(labels) else 0.0
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    top = logits.max(1, keepdims=True)
    shares = logits - top - np.log(np.sum(np.exp(logits - top), 1, keepdims=True))
    steps = shares[:, states]
    stays = np.where(merge | (states == blank), 0.0, -np.inf)
    source, target = states[:-2], states[2:]
    skips = np.where((source != blank) & ((not merge) | (source != target)), 0.0, -np.inf)
    paths = np.full(len(states), -np.inf)
    paths[:2] = steps[0, :2]
    for step in steps[1:]:
        new = paths + stays
        new[1:] = np.logaddexp(new[1:], paths[:-1])
        new[2:] = np.logaddexp(new[2:], paths[:-2] + skips)
        paths = new + step
    total = -float(np.logaddexp.reduce(paths[-2:]))
    # Rounding may leave a probability just above 1; labels that are the blank go far beyond it.
    return 0.0 if -1e-9 < total < 0 else total
