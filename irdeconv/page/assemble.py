"""One HTML file of what a page shows: styles, script and data in it, and nothing to load.

The policy names the style and the script by their hashes, so nothing else is obeyed or run,
whatever a model's texts say.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from irdeconv import __version__
from irdeconv.drawing.anatomy_style import page_style
from irdeconv.markup import plain
from irdeconv.page.packed import packed
from irdeconv.wrapping import escaped_json

# They run in this order, all in one function.
SCRIPTS = (
    "state.js",
    "texts.js",
    "theme.js",
    "painters.js",
    "scene.js",
    "groups.js",
    "draw.js",
    "camera.js",
    "pane.js",
    "pointer.js",
    "minimap.js",
    "ramp.js",
    "overlays.js",
    "legend.js",
    "anatomy.js",
    "anatomy_view.js",
    "details.js",
    "values.js",
    "sidebar.js",
    "changes.js",
    "search.js",
    "table.js",
    "export.js",
    "keys.js",
    "main.js",
)
STYLES = ("page.css", "details.css", "overlays.css", "sheet.css")

_POLICY = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; "
    "base-uri 'none'; form-action 'none'"
)
_UNSAFE = re.compile("[<>&]")


def html(data: dict[str, Any]) -> str:
    """Return the page of a content as HTML."""
    style = _joined(STYLES) + page_style()
    script = f'(function () {{\n"use strict";\n{_joined(SCRIPTS)}}})();\n'
    parts = {
        "policy": _POLICY.format(style=_hash(style), script=_hash(script)),
        "title": escape(plain(data["title"])),
        "version": escape(__version__),
        "style": style,
        "data": json_text(packed(data)),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m.group(1)], _asset("page.html"))


def json_text(data: Any) -> str:
    """Return JSON that no HTML parser takes for anything but text."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate, which some file names contain, has no UTF-8.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return escaped_json(_UNSAFE.sub(lambda m: f"\\u{ord(m.group()):04x}", text))


@cache
def _asset(name: str) -> str:
    return files("irdeconv.page").joinpath("assets", name).read_text("utf-8")


def _joined(names: tuple[str, ...]) -> str:
    return "".join(map(_asset, names))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
