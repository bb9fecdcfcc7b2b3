"""The mark by which an `.xml` knows its `.bin`: attributes of its `<rt_info>`.

Two files cannot be replaced at once, so a pair may get mixed: by a writer that is killed, by two
writers, by a copy of one file. OpenVINO reads what is inside `<rt_info>` and ignores its
attributes: it loads the file, and what it writes itself, with other weights, has no mark.
"""

from __future__ import annotations

import re

from irdeconv.io.context import Context
from irdeconv.io.weights import NoWeights
from irdeconv.source import Anchor

SIZE, SHA256 = "weights_size", "weights_sha256"
_DIGITS_SHOWN = 16  # digits
Mark = dict[str, str]


def marked(rt_info: str | None, size: int, sha256: str) -> str:
    """Return the `<rt_info>` of a model with the mark of its weights."""
    mark = f'{SIZE}="{size}" {SHA256}="{sha256}"'
    if rt_info is None:
        return f"<rt_info {mark} />"
    return re.sub(r"^\s*<rt_info", lambda m: f"{m[0]} {mark}", rt_info.rstrip())


def check_mark(mark: Mark, weights: NoWeights, chosen: bool, context: Context) -> None:
    """Report weights that are not those with which the `.xml` was written (E124).

    Where the user has named them (`chosen`) that is a warning.
    """
    if weights.size is None or not mark:
        return
    name, held = SIZE, str(weights.size)
    if mark.get(name, held) == held and SHA256 in mark:
        name, held = SHA256, weights.sha256()
    if mark.get(name, held) == held:
        return
    if name == SIZE:
        differs = f"it has {held} bytes, not {mark[name][:_DIGITS_SHOWN]}"
    else:
        differs = f"its SHA-256 begins {held[:_DIGITS_SHOWN]}, not {mark[name][:_DIGITS_SHOWN]}"
    context.add(
        "E124",
        f"{weights.path} is not what this file was written with: {differs}",
        Anchor("rt_info"),
        attribute=name,
        severity="warning" if chosen else None,
    )
