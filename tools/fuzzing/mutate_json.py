"""Changes of a JSON document: dumps of oneDNN Graph, certificates."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from fuzzing.mutate_text import mutate_text
from fuzzing.values import NAMES, integer

Place = tuple[Any, Any]  # a list or a dictionary, and an index or a key of it


def mutate_json(rng: random.Random, content: Any) -> bytes:
    """Change a few places of the tree, or tokens of its text."""
    if rng.random() < 0.15:
        return mutate_text(rng, json.dumps(content)).encode("utf-8", "surrogatepass")
    holder = [copy.deepcopy(content)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(holder))
        if not places:
            break
        rng.choice(_WAYS)(rng, places)
    ascii_only = rng.random() < 0.5
    text = json.dumps(holder[0] if holder else None, ensure_ascii=ascii_only)
    return text.encode("utf-8", "surrogatepass")


def _places(holder: Any) -> list[Place]:
    out: list[Place] = []
    todo = [holder]
    while todo:
        at = todo.pop()
        keys = range(len(at)) if isinstance(at, list) else list(at)
        for key in keys:
            out.append((at, key))
            if isinstance(at[key], list | dict):
                todo.append(at[key])
    return out


def _value(rng: random.Random) -> Any:
    return rng.choice(
        (
            None, True, False, 0, -1, 1.5, float("nan"), float("inf"), 1e308, "", [], {}, [[]],
            [None], {"": 0}, integer(rng), integer(rng), [integer(rng)], [integer(rng)] * 3,
            rng.choice(NAMES), rng.choice(NAMES), "\ud800", "\0", "\x1b[2J", 10**40, [1] * 500,
            _nested(rng.choice((3, 60))), str(integer(rng)),
        )
    )  # fmt: skip


def _nested(depth: int) -> Any:
    out: Any = []
    for _ in range(depth):
        out = [out]
    return out


def _leaf(rng: random.Random, places: list[Place]) -> None:
    leaves = [p for p in places if not isinstance(p[0][p[1]], list | dict)]
    at, key = rng.choice(leaves or places)
    old = at[key]
    if isinstance(old, int) and not isinstance(old, bool) and rng.random() < 0.6:
        at[key] = rng.choice((old + 1, old - 1, -old, old * 2, integer(rng), str(old), float(old)))
    else:
        at[key] = _value(rng)


def _any(rng: random.Random, places: list[Place]) -> None:
    at, key = rng.choice(places)
    at[key] = _value(rng)


def _drop(rng: random.Random, places: list[Place]) -> None:
    at, key = rng.choice(places[1:] or places)
    del at[key]


def _rename(rng: random.Random, places: list[Place]) -> None:
    keyed = [p for p in places if isinstance(p[0], dict)]
    if keyed:
        at, key = rng.choice(keyed)
        at[rng.choice((*NAMES[:8], key.upper(), key + "s"))] = at.pop(key)


def _twice(rng: random.Random, places: list[Place]) -> None:
    listed = [p for p in places[1:] if isinstance(p[0], list)]
    if listed:
        at, key = rng.choice(listed)
        at[key:key] = [copy.deepcopy(at[key])] * rng.choice((1, 1, 2, 40))


def _move(rng: random.Random, places: list[Place]) -> None:
    (a, i), (b, j) = rng.choice(places), rng.choice(places)
    b[j] = copy.deepcopy(a[i])


def _swap(rng: random.Random, places: list[Place]) -> None:
    (a, i), (b, j) = rng.choice(places), rng.choice(places)
    first, second = copy.deepcopy(a[i]), copy.deepcopy(b[j])
    a[i] = second
    if j in b if isinstance(b, dict) else j < len(b):
        b[j] = first


_WAYS = (_leaf, _leaf, _leaf, _leaf, _any, _drop, _rename, _twice, _move, _swap)
