"""Plain text tables, and numbers for people."""

from __future__ import annotations

from collections.abc import Sequence

NAME_WIDTH = 40


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Return aligned columns under a header and a rule; `right` names right-aligned columns."""
    cells = [list(map(shorten, row)) for row in rows]
    widths = [max(len(head[i]), *(len(r[i]) for r in cells), 0) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        out = (
            c.rjust(w) if h in right else c.ljust(w)
            for c, w, h in zip(row, widths, head, strict=True)
        )
        return "  ".join(out).rstrip()

    rule = "  ".join("-" * w for w in widths)
    return "\n".join([line(head), rule, *map(line, cells)])


def shorten(text: str, width: int = NAME_WIDTH) -> str:
    """Return the text on one line, its middle replaced by `...` where it is too long."""
    flat = text.replace("\n", "\\n").replace("\t", " ").replace("\r", "\\r")
    if len(flat) <= width:
        return flat
    keep = width - 3
    return f"{flat[: keep - keep // 2]}...{flat[-(keep // 2) :]}"


def number(value: int | None) -> str:
    """Return `12,345`, or `?` where unknown."""
    return "?" if value is None else f"{value:,}"


def scaled(value: int | None, unit: str = "") -> str:
    """Return three digits with k, M, G, T; `?` where unknown."""
    if value is None:
        return "?"
    size = float(value)
    for prefix in ("", "k", "M", "G", "T"):
        if size < 999.5 or prefix == "T":
            digits = f"{size:.3g}" if size < 999.5 else f"{size:.0f}"
            return f"{digits} {prefix}{unit}".rstrip()
        size /= 1000
    raise AssertionError


def share(part: int, whole: int) -> str:
    """Return a percentage, empty where the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else ""
