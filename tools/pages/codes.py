"""docs/codes.md and docs/codes/: every diagnostic code with its example."""

from __future__ import annotations

import re
from pathlib import Path

from irdeconv.base.code_pages import CodePage, code_page
from irdeconv.base.codes import CODES, GROUPS
from pages import DOCS, MARK, table, with_parts

ENDS = {"toml": "toml", "xml": "xml", "ird": "text"}


def pages() -> dict[Path, str]:
    """Return the text of every page by its path."""
    out = with_parts(DOCS / "codes.md", {"all": "".join(map(_listed, GROUPS))})
    for group, title in GROUPS.items():
        sections = "\n".join(_section(code_page(code)) for code in _codes(group))
        out[DOCS / "codes" / f"{group}.md"] = f"{MARK}# {title} ({group})\n\n{sections}"
    return out


def _codes(group: str) -> list[str]:
    return [code for code in CODES if code.startswith(group)]


def _listed(group: str) -> str:
    """Return the list of a group's codes, linked to their sections."""
    rows = ((f"[{c}](codes/{group}.md#{c.lower()})", CODES[c].title) for c in _codes(group))
    return f"## {GROUPS[group]}\n\n{table(('code', 'meaning'), rows)}\n\n"


def _section(page: CodePage) -> str:
    """Return the section of a code: meaning, reason, remedy, example."""
    parts = [f"## {page.code}", f"**{page.title[0].upper()}{page.title[1:]}.**", _linked(page.why)]
    parts.append(f"**How to fix it:** {_linked(page.fix)}")
    if page.when:
        parts.append(f"**When it appears:** {page.when}")
    for name, body in page.files.items():
        file, _, element_type = name.partition(" ")
        shown = f"`{file}`" + (f", numbers of {element_type}" if element_type else "")
        parts.append(f"{shown}:\n\n```{ENDS.get(Path(file).suffix[1:], 'text')}\n{body}```")
    for step in page.steps:
        if step.python:
            parts.append(f"```python\n{step.what}```\n\nraises\n\n```text\n{step.prints}```")
        else:
            parts.append(f"```console\n$ {step.what}\n{step.prints}```")
    return "\n\n".join(parts) + "\n"


def _linked(text: str) -> str:
    """Return the text with links to the pages that it names."""
    return re.sub(r"\bdocs/(\w+\.md)", r"[\1](../\1)", text)
