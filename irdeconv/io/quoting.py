"""Attribute values in XML."""

from __future__ import annotations

import re

_SPECIAL = re.compile('[&<>"\n\r\t]')
_SPELLED = {"&": "&amp;", ">": "&gt;", "<": "&lt;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def quoted(text: str) -> str:
    """Return an attribute's value with quotes around it, single ones where only double are inside.

    As `xml.sax.saxutils.quoteattr`, which takes longer and imports all of urllib.
    """
    if _SPECIAL.search(text) is None:
        return f'"{text}"'
    for char, spelled in _SPELLED.items():
        text = text.replace(char, spelled)
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return '"' + text.replace('"', "&quot;") + '"'
