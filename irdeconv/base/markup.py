"""Objects in print: one line in a console, a table in a notebook.

The HTML loads nothing and names no colours, so it suits light and dark pages; all text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from irdeconv.base.tables import escaped, one_line, printable

MOST_ROWS = 200
_RIGHT = "text-align:right;vertical-align:top;padding:0 0.8em 0.1em 0;white-space:nowrap"
# Drawings of letters need columns; notebooks that are converted give pre the font of the text.
_TEXT = "font-family:monospace;white-space:pre;overflow-x:auto"
_LEFT = "text-align:left;vertical-align:top;padding:0 0.8em 0.1em 0"
# A long name may be broken behind these characters; browsers know no such places in it.
_BREAK = re.compile(r"(?<=[/:.])(?=\w)")


def plain(text: str) -> str:
    """Return a text on one line, with escapes for invisible characters and ends of lines."""
    if text.isprintable():
        return one_line(text)
    return one_line("".join(c if c.isprintable() or ord(c) < 160 else escaped(c) for c in text))


def line(kind: object, name: str | None, *facts: str) -> str:
    """Return `<Kind "name": fact, fact>` for the class of an object."""
    title = type(kind).__name__ + ("" if name is None else f' "{name}"')
    return plain(f"<{title}: {', '.join(facts)}>" if facts else f"<{title}>")


def html_table(
    title: str,
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    right: Iterable[str] = (),
    *,
    total: int | None = None,
) -> str:
    """Return a table with a title as HTML; columns of `right` are aligned right.

    After `MOST_ROWS` rows it says how many more there are; `total` is their number if `rows` is
    cut already.
    """
    styles = [_RIGHT if name in right else _LEFT for name in head]
    cells = [list(row) for row in rows]
    left_out = (len(cells) if total is None else total) - min(len(cells), MOST_ROWS)
    lines = [_row("th", head, styles)]
    lines += [_row("td", row, styles) for row in cells[:MOST_ROWS]]
    if left_out > 0:
        cell = f'<td colspan="{len(head)}" style="{_LEFT}">'
        lines.append(f"<tr>{cell}... {left_out:,} more</td></tr>")
    inner = "\n".join(lines)
    return f'<div style="overflow-x:auto">{html_title(title)}<table>\n{inner}\n</table></div>'


def scrolled(svg: str | None) -> str:
    """Return a picture that scrolls within a notebook's page; nothing if there is none."""
    return f'<div style="max-height:40em;overflow:auto">{svg}</div>' if svg else ""


def html_title(text: str) -> str:
    """Return a line of text above a table."""
    return f"<p><b>{escape(printable(text))}</b></p>"


def html_text(text: str, *, wrap: bool = False) -> str:
    """Return text as HTML that keeps its lines; with `wrap`, long ones go on in the next."""
    return f'<pre style="{_TEXT}{";white-space:pre-wrap" * wrap}">{escape(printable(text))}</pre>'


def _row(tag: str, cells: Sequence[object], styles: Sequence[str]) -> str:
    pairs = zip(cells, styles, strict=True)
    inner = "".join(f'<{tag} style="{s}">{_breakable(str(c))}</{tag}>' for c, s in pairs)
    return f"<tr>{inner}</tr>"


def _breakable(text: str) -> str:
    return "<wbr>".join(map(escape, _BREAK.split(printable(text))))
