"""Did-you-mean hints."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return `did you mean "..."?` for the nearest of the known words, or None."""
    lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(str(word).lower(), lower, n=1, cutoff=0.6)
    return f'did you mean "{lower[found[0]]}"?' if found else None
