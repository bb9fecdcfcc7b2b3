"""Numbers of things in sentences."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """Return `1 layer`, `2 layers`, `0 layers`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
