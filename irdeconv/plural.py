"""Numbers of things in sentences."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

_SOME = 20


def count(number: int, noun: str) -> str:
    """Return `1 layer`, `2 layers`, `0 layers`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def some(items: Collection[object]) -> str:
    """Return `0, 1, 2`, `none`, or of many things the first: `0, 1, ... (9,000 in all)`."""
    more = f", ... ({len(items):,} in all)" if len(items) > _SOME else ""
    return (", ".join(map(str, islice(items, _SOME))) or "none") + more
