"""What failures have in common: values of attributes, by themselves or two at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_CAUSES = 3  # causes that are told
FEWEST_FAILURES = 2  # failures that can have something in common


@dataclass(frozen=True)
class Cause:
    """`features` that all `failed` failures have, and `passed` cases that pass all the same."""

    features: tuple[str, ...]
    failed: int
    passed: int

    def __str__(self) -> str:
        what = " and ".join(self.features)
        rest = f"; so have {self.passed} that pass" if self.passed else "; no case that passes has"
        return f"all {self.failed} have {what}{rest}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"features": list(self.features), "failed": self.failed, "passed": self.passed}


def causes(failed: Sequence[Sequence[str]], passed: Sequence[Sequence[str]]) -> list[Cause]:
    """Return what all failures have and fewest passing cases have, the most telling first.

    Both are the features of every case. Two features at a time count where both together tell more
    than each by itself.
    """
    if len(failed) < FEWEST_FAILURES or not passed:
        return []
    common = [f for f in failed[0] if all(f in other for other in failed)]
    good = [set(features) for features in passed]
    having = {f: sum(f in features for features in good) for f in common}
    telling = [f for f in common if having[f] < len(good)]
    found = [Cause((f,), len(failed), having[f]) for f in telling]
    least = min((c.passed for c in found), default=len(good))
    if least:
        for pair in itertools.combinations(telling, 2):
            both = sum(features.issuperset(pair) for features in good)
            if both < least:
                found.append(Cause(pair, len(failed), both))
    found.sort(key=lambda c: (c.passed, len(c.features), sum(map(_is_size, c.features))))
    best = found[0].passed if found else 0
    # Features of which most cases pass are no cause; what tells less than the best is no news.
    most = min(len(failed), 2 * best)
    return [c for c in found if c.passed * len(c.features) ** 2 <= most][:MOST_CAUSES]


def _is_size(feature: str) -> bool:
    """Whether a feature is a size, which is rarely the cause."""
    return feature.startswith(("size ", "batch ", "channels ", "outputs "))
