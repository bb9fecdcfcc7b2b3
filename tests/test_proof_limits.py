"""Small files that would take the core much memory or time, and numbers at the ends of f64."""

from __future__ import annotations

from pathlib import Path

import pytest

from irdeconv.base.limits import Limits
from irdeconv.proof import linear, pairing, reader, symbolic
from support.text_graph import End, TextGraph

AXES = {"dilations": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "auto_pad": "explicit"}


def joined(g: TextGraph, low: bool) -> End:
    """The data beside many large constants."""
    if not low:
        return g.add("Add-1", g.x, g.real([[1]]))
    large = g.add("Broadcast-3", g.real([[1]]), g.const([4096, 4096]), mode="numpy")
    data = g.add("Broadcast-3", g.x, g.const([4096, 1024]), mode="numpy")
    whole = g.add("Concat-1", data, *[large] * 200, axis=1)
    return g.add("Slice-8", whole, *map(g.const, ([0, 0], [1, 1], [1, 1], [0, 1])))


def matched(g: TextGraph, low: bool) -> End:
    """Sums of 65536 computed weights."""
    ones = g.add("Broadcast-3", g.real([[[[1]]]]), g.const([1, 1, 256, 256]), mode="numpy")
    return g.add("Convolution-1", ones, g.x, strides="2,1" if low else "1,1", **AXES)


def divided(g: TextGraph, low: bool) -> End:
    """Quotients whose inverse is infinite."""
    y = g.add("Multiply-1", g.x, g.real(2.0**-70))
    return g.add("Divide-1", y, g.real(2.0 ** (-1074 if low else -1073)))


CASES = {
    "joined": (joined, (1, 1), "f32", "elements are more than"),
    "matched": (matched, (1, 1, 256, 256), "f32", "sums of computed weights are more than"),
    "divided": (divided, (3,), "f64", "the weights of an input add up to"),
}


@pytest.mark.parametrize("name", CASES)
def test_they_are_refused(name: str, tmp_path: Path) -> None:
    make, shape, type, text = CASES[name]
    for low, file in enumerate(("original", "lowered")):
        graph = TextGraph(shape, type)
        graph.write(tmp_path / f"{file}.xml", make(graph, bool(low)))
    files = [reader.read(tmp_path / f"{file}.xml") for file in ("original", "lowered")]
    verdict = pairing.check(*files)
    assert not verdict.passed
    assert text in " ".join(verdict.unequal)


def test_the_proof_takes_on_whatever_a_lowering_may_emit() -> None:
    """Of a phase are a Pad or slice, a convolution and the constants that they read."""
    for most in (symbolic.MOST_LAYERS, linear.MOST_LAYERS):
        assert most >= 4 * Limits().lowered_nodes
