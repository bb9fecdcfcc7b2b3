"""The sources of the package: parsed when a test asks, since every worker collects every test."""

from __future__ import annotations

from functools import cache
from typing import Any

from support.scripts import script

DRAWN = script("draw_imports")
parsed = DRAWN.parsed


@cache
def imports() -> Any:
    """Return what every module imports."""
    return DRAWN.Sources()
