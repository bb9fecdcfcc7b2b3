"""A convolution that only copies is a movement of the data; one that does more is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino")

from rewritings import OPEN, PLANE, S2, Case, deconvolution
from rewritings_few import WIDE_OPEN, copies_filter, of_copies
from test_proof_few_axes import compared

pytestmark = pytest.mark.oracles


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


@pytest.mark.parametrize("case", [S2, PLANE, OPEN, WIDE_OPEN])
@pytest.mark.parametrize("what", MISSES)
def test_near_misses_of_copies_are_refused(what: str, case: Case, tmp_path: Path) -> None:
    filter = wrong(copies_filter(case), what)
    compared(case, deconvolution, lambda c, x: of_copies(c, x, filter), tmp_path)
