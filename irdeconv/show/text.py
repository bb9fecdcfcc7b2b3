"""Widths of texts in any browser, and long names shortened to fit.

Boxes are drawn in a monospace font that is unknown beforehand. Every font of the stack has
glyphs of at most `ADVANCE` em, so a text that fits by these widths fits in every browser.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, takewhile

from irdeconv.base.markup import plain

FONT = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
ADVANCE = 0.62  # em; the widest monospace fonts have 0.616
FALLBACK_ADVANCE = 1.0  # of letters that come from another font
WIDE_ADVANCE = 1.4  # East Asian characters have 1 em, the widest emoji 1.37
NAME_LIMIT = 2000  # characters of a name that are looked at
ELLIPSIS = "\u2026"

# A name may be broken behind these, the first that do; behind them it is shortened.
_SEPARATORS = (" ", " /", " /.:@", " /.:@_-")
_PIECES = [
    re.compile(f"[^{re.escape(s)}]*[{re.escape(s)}]+|[^{re.escape(s)}]+") for s in _SEPARATORS
]
# The words of a type: GroupConvolutionBackpropData.
_WORDS = re.compile(r"[A-Z]+(?![a-z])[\d_]*|[A-Z]?[^A-Z]+|[A-Z]")


@lru_cache(maxsize=4096)
def _advance(character: str) -> float:
    if ord(character) < 0x250:  # Latin
        return ADVANCE
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF" or ord(character) >= 0x1F000:
        return WIDE_ADVANCE
    known = 0x370 <= ord(character) < 0x530 or character == ELLIPSIS  # Greek, Cyrillic
    return ADVANCE if known else FALLBACK_ADVANCE


def measure(text: str) -> float:
    """Return the width of a line in em: no font of the stack makes it wider."""
    if text.isascii():
        return ADVANCE * len(text)
    return sum(map(_advance, text))


def shown(text: str) -> str:
    """Return a name as it is drawn: not endless, control and bidirectional characters escaped."""
    if len(text) > NAME_LIMIT:
        text = text[: NAME_LIMIT // 2] + ELLIPSIS + text[-NAME_LIMIT // 2 :]
    return plain(text)


def name_lines(name: str, width: float, most: int = 2) -> list[str]:
    """Return a name in `most` lines of `width` em, broken behind `/.:_`, cut in the middle."""
    text = shown(name)
    return _fitted([pieces.findall(text) for pieces in _PIECES], width, most)


def type_lines(type: str, width: float) -> list[str]:
    """Return a type in at most two lines, broken between its words."""
    return _fitted([_WORDS.findall(shown(type))], width, 2)


def one_line(text: str, width: float) -> str:
    """Return a text on one line, with its middle left out if it is too long."""
    return name_lines(text, width, 1)[0]


def _fitted(splits: Sequence[list[str]], width: float, most: int) -> list[str]:
    """Return the first split that fits into the lines, or one of them shortened."""
    for pieces in splits:
        lines = _whole(pieces, width)
        if len(lines) <= most and all(measure(t) <= width for t in lines):
            return lines
    fitting = (p for p in splits if measure(p[-1]) <= width - ADVANCE)
    return _shortened(next(fitting, splits[-1]), width, most)


def _whole(pieces: Sequence[str], width: float) -> list[str]:
    """Return all pieces in lines; a piece that is wider than a line is one by itself."""
    lines = [""]
    for piece in pieces:
        if lines[-1] and measure(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _shortened(pieces: Sequence[str], width: float, most: int) -> list[str]:
    """Return the first and the last pieces that fit, an ellipsis between them."""
    if len(pieces) == 1:
        return [_squeezed(pieces[0], width)]
    if most == 1:
        return [_cut(pieces, width)]
    heads = takewhile(lambda head: measure(head) <= width - ADVANCE, accumulate(pieces[:-1]))
    head = max(heads, key=len, default="") or _prefix(pieces[0], width - ADVANCE)
    return [head + ELLIPSIS, _tail(pieces, width)]


def _tail(pieces: Sequence[str], width: float) -> str:
    """Return as many of the last pieces as fit; of one that is too long its ends."""
    ends = accumulate(reversed(pieces), lambda end, piece: piece + end)
    fitting = takewhile(lambda end: measure(end) <= width, ends)
    return max(fitting, key=len, default="") or _squeezed(pieces[-1], width)


def _cut(pieces: Sequence[str], width: float) -> str:
    """Return one line: the end in whole pieces behind an ellipsis, else both ends."""
    text, tail = "".join(pieces), _tail(pieces, width - ADVANCE)
    head = _prefix(text, width - measure(tail) - ADVANCE)
    if text.endswith(tail) and len(head) + len(tail) < len(text):
        return head + ELLIPSIS + tail
    return _squeezed(text, width)


def _squeezed(text: str, width: float) -> str:
    """Return the text with its middle left out, the end kept longer than the beginning."""
    if measure(text) <= width:
        return text
    room = width - ADVANCE
    tail = _prefix(text[::-1], room * 2 / 3)[::-1]
    return _prefix(text, room - measure(tail)) + ELLIPSIS + tail


def _prefix(text: str, width: float) -> str:
    """Return the longest beginning that fits."""
    taken, limit = 0.0, width + 1e-9
    for n, character in enumerate(text):
        taken += _advance(character)
        if taken > limit:
            return text[:n]
    return text
