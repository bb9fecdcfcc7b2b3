"""Every diagnostic code: its title, and a hint for diagnostics without a better one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Code(NamedTuple):
    """A diagnostic code: its general meaning and a general remedy."""

    title: str
    hint: str


# Groups with their titles. A code and its title, below it the hint (for E700 none in general).
_TABLE = (Path(__file__).parent / "codes.txt").read_text("utf-8")
CODES = {
    code: Code(title, hint or "")
    for code, title, hint in re.findall(r"^(\w{4}) (.+)(?:\n {5}(.+))?$", _TABLE, re.MULTILINE)
}
GROUPS: dict[str, str] = dict(re.findall(r"^# (\w\d)xx (.+)$", _TABLE, re.MULTILINE))
