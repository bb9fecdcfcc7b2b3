"""Sweeps of random cases in numbered parts: some of them by default, all with `-m slow`."""

from __future__ import annotations

from typing import Any

import pytest


def parts(usual: int, number: int) -> list[Any]:
    """Return the numbers of all parts; from `usual` on they run only when asked for."""
    rest = (pytest.param(n, marks=pytest.mark.slow) for n in range(usual, number))
    return [*range(usual), *rest]
