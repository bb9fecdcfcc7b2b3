"""Which layers are shown, and in which order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from typing import Literal, get_args

from irdeconv.errors import UsageError, misused
from irdeconv.inspection.layers import LayerFacts
from irdeconv.suggest import did_you_mean

Order = Literal["macs", "bytes", "params"]
ORDERS: tuple[str, ...] = get_args(Order)

_KEYS: dict[str, Callable[[LayerFacts], int | None]] = {
    "macs": lambda r: r.macs,
    "bytes": lambda r: r.bytes,
    "params": lambda r: r.parameters,
}
_PATTERN = re.compile(r"[*?\[]")


def matching(layers: Sequence[LayerFacts], only: Iterable[str]) -> dict[str, set[int]]:
    """Return, for each type or name pattern (`*`, `?`, `[...]`), the ids of its layers."""
    by_name: dict[str, set[int]] = {}
    by_type: dict[str, set[int]] = {}
    for r in layers:
        by_name.setdefault(r.name, set()).add(r.id)
        by_type.setdefault(r.type, set()).add(r.id)
    return {text: by_type.get(text, set()) | _named(by_name, text) for text in only}


def _named(by_name: dict[str, set[int]], pattern: str) -> set[int]:
    found = set(by_name.get(pattern, ()))
    if _PATTERN.search(pattern):
        fits = re.compile(translate(pattern)).match
        found |= {i for name, ids in by_name.items() if fits(name) for i in ids}
    return found


def unmatched(text: str, layers: Sequence[LayerFacts]) -> UsageError:
    """Return the error of a type or pattern that fits no layer."""
    known = dict.fromkeys([*(r.type for r in layers), *(r.name for r in layers)])
    hint = did_you_mean(text, known) or "a pattern such as 'block1/*' fits whole names"
    return misused(f'--only "{text}": no layer has this type or name', hint)


def ordered(layers: Iterable[LayerFacts], sort: str | None) -> list[LayerFacts]:
    """Return the layers in the order asked for: the largest first, unknown numbers last."""
    if sort is None:
        return list(layers)
    if sort not in ORDERS:
        hint = did_you_mean(sort, ORDERS)
        raise misused(f'sort "{sort}" is not one of {", ".join(ORDERS)}', hint)
    number = _KEYS[sort]

    def key(r: LayerFacts) -> tuple[bool, int, int]:
        value = number(r)
        return value is None, -(value or 0), r.id

    return sorted(layers, key=key)
