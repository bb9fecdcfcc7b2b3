"""A convolution that only copies is a movement of the data; one that does more is none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.proof import pairing, reader
from pair_texts import Pair, kinds, units
from pair_truth import difference

pytestmark = pytest.mark.oracles

PAIRS = kinds("equal")["legal: copies by a convolution, a deconvolution"]


def wrong(filter: Any, what: str) -> Any:
    """A filter of copies of which one channel is another one."""
    w = filter.copy()
    first = w[0, 0]
    if what == "a tap of 2":
        first *= 2
    elif what == "a tap of -1":
        first *= -1
    elif what == "two taps":
        first[0, :] = 1
    elif what == "two channels":
        first[1] = first[0]
    elif what == "no tap":
        first[:] = 0
    elif what == "another channel":
        first[:] = np.roll(first, 1, 0)
    elif what == "another place":
        first[:] = np.roll(first, 1, 1)
    elif what == "copies exchanged":
        w = np.roll(w, w.shape[1] // 2, 1)
    return w


MISSES = [
    "a tap of 2",
    "a tap of -1",
    "two taps",
    "two channels",
    "no tap",
    "another channel",
    "another place",
    "copies exchanged",
]


@pytest.mark.parametrize("pair", [PAIRS[i] for i in (0, 1, 4, 5)])
@pytest.mark.parametrize("what", MISSES)
def test_near_misses_of_copies_are_refused(what: str, pair: Pair, tmp_path: Path) -> None:
    made = replace(pair, lets={**pair.lets, "units": lambda *args: wrong(units(*args), what)})
    paths = made.write(tmp_path)
    assert difference(made, paths) == "values"
    assert not pairing.check(*(reader.read(p) for p in paths)).passed
