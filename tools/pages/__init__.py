"""The generated pages of docs/: each module's `pages` returns their texts by their paths."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from checkout import ROOT

DOCS = ROOT / "docs"
MARK = "<!-- Generated; `make pages` writes it anew. -->\n\n"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end of the generated part -->)", re.S)


def with_parts(page: Path, parts: dict[str, str]) -> dict[Path, str]:
    """Return a page with new text between the marks of these parts; other parts stay."""
    text = page.read_text("utf-8")
    assert {found[2] for found in _PART.finditer(text)} >= set(parts), page
    new = {name: f"{part.rstrip()}\n" for name, part in parts.items()}
    return {page: _PART.sub(lambda m: f"{m[1]}{new.get(m[2], m[3])}{m[4]}", text)}


@cache
def comments(cls: type) -> dict[str, str]:
    """Return the comment behind or above each field of a class, also of those it inherits."""
    if not cls.__module__.startswith("irdeconv"):
        return {}
    lines = inspect.getsourcelines(cls)[0]
    node: Any = ast.parse("".join(lines)).body[0]
    out = {}
    for base in node.bases:  # a TypedDict does not know its bases
        parent = vars(sys.modules[cls.__module__]).get(ast.unparse(base))
        out |= comments(parent) if isinstance(parent, type) else {}
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and field.end_lineno is not None:
            behind = lines[field.end_lineno - 1].encode()[field.end_col_offset :].decode()
            first = last = field.lineno - 1
            while lines[first - 1].startswith("    # "):
                first -= 1
            above = " ".join(text.strip("# \n") for text in lines[first:last])
            out[ast.unparse(field.target)] = behind.partition("# ")[2].strip() or above
    return out


def table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of Markdown."""
    head, *body = (f"| {' | '.join(row)} |" for row in (columns, *rows))
    return "\n".join([head, f"|{'---|' * len(columns)}", *body])


def plain(text: str) -> str:
    """Return text in which nothing but code is Markdown."""
    pieces = re.split(r"(`[^`]+`)", text)
    pieces[::2] = [re.sub(r"([\\*_\[\]<>$|])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)
