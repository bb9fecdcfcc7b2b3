"""How Sphinx turns the Markdown of the checkout into a site: tools/build_docs.py runs it.

The pages stay plain Markdown, so that they read well on a code host, too. What Sphinx needs besides
is added here: docs/index.md lists the pages in their order, and its sections become the sidebar; a
page that has a folder of its own name is followed by the pages in it.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.logging import getLogger

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project = "irdeconv"
(version,) = re.findall(
    r'^__version__ = "(.*)"$', (ROOT / "irdeconv/__init__.py").read_text(), re.M
)
release = version
copyright = "the authors of irdeconv"

extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = ["**/.*"]
root_doc = "docs/index"
nitpicky = True

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # the anchors that code hosts give to headings
highlight_language = "none"

html_theme = "furo"
html_title = f"irdeconv {version}"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_search_summary = False  # it is fetched, which browsers refuse for files
smartquotes = False  # what is quoted are texts of files and commands

_SECTION = re.compile(r"^## (.+)\n(?P<body>(?:(?!## ).*\n?)*)", re.M)
_LINK = re.compile(r"^- \[([^]]*)\]\(([^)#]+)\.md\)", re.M)


def add_contents(app: Any, docname: str, source: list[str]) -> None:
    """Add the lists of pages from which Sphinx makes the sidebar and "next"."""
    if docname == root_doc:
        for section in _SECTION.finditer(source[0]):
            pages = [f"{title} <{page}>" for title, page in _LINK.findall(section["body"])]
            source[0] += _toctree(section[1], pages)
    elif (ROOT / docname).is_dir() and docname.startswith("docs/"):
        pages = sorted((ROOT / docname).glob("*.md"))
        source[0] += _toctree(None, [f"{p.parent.name}/{p.stem}" for p in pages])


def _toctree(caption: str | None, pages: list[str]) -> str:
    """Return a hidden list of pages, relative to the page that it is added to."""
    head = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["\n\n```{toctree}", *head, "", *pages, "```", ""])


def mathml(node: Any, *, block: bool) -> str:
    """Return a formula as MathML, which browsers show without a script."""
    try:
        return str(tex2mathml(re.sub(r"\\dots\b", r"\\ldots", node.astext()), as_block=block))
    except MathError as e:
        getLogger(__name__).warning("formula %s: %s", node.astext(), e, location=node)
        return escape(node.astext())


def inline_math(self: Any, node: Any) -> None:
    """Write a formula within a line."""
    self.body.append(mathml(node, block=False))
    raise SkipNode


def block_math(self: Any, node: Any) -> None:
    """Write a formula on lines of its own."""
    self.body.append(f'<div class="math">{mathml(node, block=True)}</div>')
    raise SkipNode


def setup(app: Any) -> None:
    """Register what is defined here."""
    app.connect("source-read", add_contents)
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline_math, None), block_renderers=(block_math, None)
    )
