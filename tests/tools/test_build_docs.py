"""tools/build_docs.py: links and anchors of HTML are checked; what a page would load is found."""

from __future__ import annotations

from pathlib import Path

from support.scripts import script

build_docs = script("build_docs")


def write(folder: Path, **pages: str) -> None:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)


def test_links_and_anchors_that_lead_somewhere(tmp_path: Path) -> None:
    write(
        tmp_path,
        a='<a href="b.html#here">b</a><a href="#top">top</a><p id="top"><a href="mailto:x@y">m</a>',
        b='<h1 id="here"><a href="https://example.org/">elsewhere</a><a href="a.html">a</a>',
    )
    assert build_docs.broken(tmp_path) == []


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    write(tmp_path, a='<a href="c.html"><a href="b.html#gone"><a href="#gone">', b="<p>")
    assert build_docs.broken(tmp_path) == ["a.html: c.html", "a.html: b.html#gone", "a.html: #gone"]


def test_what_a_browser_would_load_from_elsewhere_is_named(tmp_path: Path) -> None:
    fonts = "https://fonts.example/a.css"
    write(tmp_path, a=f'<link rel="stylesheet" href="{fonts}"><img src="//example.org/a.png">')
    assert build_docs.broken(tmp_path) == [
        f"a.html: loads {fonts}",
        "a.html: loads //example.org/a.png",
    ]
