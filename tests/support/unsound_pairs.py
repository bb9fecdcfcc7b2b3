"""The registry of pairs of models that are not equal, by cause; every module adds its own."""

from __future__ import annotations

from support import (  # noqa: F401 -- importing fills the registry
    unsound_bodies,
    unsound_core,
    unsound_layers,
    unsound_sizes,
)
from support.pair_parts import PAIRS, Pair

CAUSES = tuple(dict.fromkeys(p.cause for p in PAIRS))


def of(cause: str) -> list[Pair]:
    """The pairs of a cause."""
    return [p for p in PAIRS if p.cause == cause]
