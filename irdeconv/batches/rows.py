"""What became of an item: one row of the report, the same whoever did the work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from irdeconv.codes import CODES
from irdeconv.errors import Diagnostic

Row = dict[str, Any]  # docs/schemas/batch.json, `item`

TIMED_OUT, CRASHED = "timed out", "crashed"
STATUS = {
    0: "yes",
    7: "in part",
    1: "no",
    5: "limit",
    4: "unsupported",
    3: "unreadable",
    6: "no access",
    2: "wrong command",
    70: "bug",
}
GOOD = ("yes", "in part")


_KINDS = {
    "status": str,
    "exit_code": int,
    "summary": str,
    "result": str | None,
    "diagnostics": list,
    "files": list,
}
_MADE = {"name": str, "bytes": int, "sha256": str}
_DIAGNOSTIC = {
    "code": str,
    "severity": str,
    "message": str,
    "file": str | None,
    "line": int | None,
    "column": int | None,
    "layer": str | None,
    "hint": str | None,
}
_STATES = {*STATUS.values(), TIMED_OUT, CRASHED}


def is_row(found: object) -> bool:
    """Whether something that was read is a row, in which a report finds all that it shows."""
    return (
        _has(found, _KINDS)
        and isinstance(found, dict)
        and found["status"] in _STATES
        and found["exit_code"] in STATUS
        and all(_has(made, _MADE) for made in found["files"])
        and all(_has(d, _DIAGNOSTIC) and d["code"] in CODES for d in found["diagnostics"])
    )


def _has(found: object, kinds: dict[str, Any]) -> bool:
    return isinstance(found, dict) and all(
        key in found and isinstance(found[key], kind) for key, kind in kinds.items()
    )


def worst(codes: Iterable[int]) -> int:
    """Return the worst of exit codes, in the order of `STATUS`; 0 without any."""
    order = list(STATUS)
    return max(codes, key=lambda code: order.index(code) if code in order else -1, default=0)


def ended(status: str, diagnostic: Diagnostic) -> Row:
    """Return the row of an item whose process was ended, or ended by itself."""
    return {
        "status": status,
        "exit_code": 5 if status == TIMED_OUT else 70,
        "summary": diagnostic.message,
        "result": None,
        "diagnostics": [diagnostic.to_dict()],
        "files": [],
    }


def timed_out(seconds: float) -> Row:
    """Return the row of an item that took too long."""
    return ended(TIMED_OUT, Diagnostic("E610", "error", f"not finished after {seconds:g} s"))


def crashed(returncode: int | None) -> Row:
    """Return the row of an item that took its process along; a signal has a negative number."""
    how = "ended without an answer"
    if returncode is not None:
        how = f"ended with exit code {returncode}"
    if returncode is not None and returncode < 0:
        how = f"was ended by signal {-returncode}"
    return ended(CRASHED, Diagnostic("E710", "error", f"the process of this item {how}"))
