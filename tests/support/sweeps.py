"""Long sweeps: some of their parts by default, all with `-m slow`."""

from collections.abc import Iterable
from typing import Any

import pytest


def parts(usual: int, every: int | Iterable[Any]) -> list[Any]:
    """Return all parts, or their numbers; from `usual` on they run only when asked for."""
    values = list(range(every) if isinstance(every, int) else every)
    return values[:usual] + [pytest.param(v, marks=pytest.mark.slow) for v in values[usual:]]
