"""Operations that read sequences of classes, and beams."""

from __future__ import annotations

from support.live_operations.generators.drawn import FLAGS, Drawn
from support.live_operations.generators.tools import Generator, Rng
from support.live_operations.sample import Sample


def greedy(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    t, n, c = d.size(1, 8), d.size(1, 3), d.size(1, 5)
    if kind == "CTCGreedyDecoder":
        d.pick(ctc_merge_repeated=FLAGS)
        d.data(d.scores(t, n, c))
        d.data(rng.random((t, n)) < 0.8)
        return d.sample(kind, version, 1)
    types = ("i64", "i32")
    d.pick(merge_repeated=FLAGS, classes_index_type=types, sequence_length_type=types)
    d.data(d.scores(n, t, c))
    d.data(rng.integers(0, t + 1, n), kind=str(rng.choice(types)))
    if rng.random() < 0.5:
        d.constant("i32", d.size(0, c - 1))
    return d.sample(kind, version, 2)


def loss(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    n, t, c = d.size(1, 3), d.size(1, 8), d.size(2, 5)
    d.pick(ctc_merge_repeated=FLAGS, unique=FLAGS, preprocess_collapse_repeated=FLAGS)
    steps = rng.integers(1, t + 1, n)
    d.data(rng.normal(0, 2, (n, t, c)))
    d.data(steps, kind="i32")
    d.data(rng.integers(0, c - 1, (n, t)), kind="i32")
    d.data(rng.integers(1, steps + 1), kind="i32")
    if rng.random() < 0.5:
        d.constant("i32", c - 1)
    return d.sample(kind, version, 1)


def tree(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    t, n, b = d.size(1, 6), d.size(1, 3), d.size(1, 4)
    name = str(rng.choice(["i32", "f32", "i64"]))
    d.data(rng.integers(0, 6, (t, n, b)), kind=name)
    d.data(rng.integers(0, b, (t, n, b)), kind=name)
    d.data(rng.integers(1, t + 2, n), kind=name)
    d.constant(name, d.size(0, 7))
    return d.sample(kind, version, 1)


GENERATORS: dict[str, Generator] = {
    "CTCGreedyDecoder": greedy,
    "CTCGreedyDecoderSeqLen": greedy,
    "CTCLoss": loss,
    "GatherTree": tree,
}
