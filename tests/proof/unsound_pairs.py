"""The registry of pairs of models that are not equal, by cause; every module adds its own."""

from __future__ import annotations

import unsound_bodies  # noqa: F401 -- importing fills the registry
import unsound_core  # noqa: F401 -- importing fills the registry
import unsound_layers  # noqa: F401 -- importing fills the registry
import unsound_sizes  # noqa: F401 -- importing fills the registry
from pair_parts import PAIRS, Pair

CAUSES = tuple(dict.fromkeys(p.cause for p in PAIRS))


def of(cause: str) -> list[Pair]:
    """The pairs of a cause."""
    return [p for p in PAIRS if p.cause == cause]
