"""By how much a kernel has to win where the smaller estimate alone must not decide."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irdeconv.kernels.shared.candidate import Candidate

ROUNDING = 1.1  # times as fast, where a kernel rounds more than sums of products do, ...
ROUNDING_NS = 50_000.0  # ... and nanoseconds saved
# Kernels of convolutions and of deconvolutions were measured apart: the part of the cost of the
# one that the other may take at most, and the same where both transform tiles.
OTHER_WAY = 0.8
OTHER_WAY_TILES = 0.9


def worthwhile(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out kernels that transform tiles where they save little: they round more.

    So small layers of integral values are exact.
    """
    plain = min((c.cost for c in candidates if not c.transforms), default=math.inf)
    return [
        c
        for c in candidates
        if not c.transforms or max(c.cost + ROUNDING_NS, c.cost * ROUNDING) < plain
    ]
