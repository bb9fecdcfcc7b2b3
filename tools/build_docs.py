"""Build the documentation into HTML, and check every link and anchor in it.

    python tools/build_docs.py [FOLDER]

FOLDER is build/docs by default. It needs the extra `docs`; reading the pages needs no network.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from checkout import ROOT

START = "docs/index.html"
FRONT = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>irdeconv</title>
<meta http-equiv="refresh" content="0; url={START}">
<p><a href="{START}">The documentation of irdeconv</a></p>
</html>
"""
LOADED = {"img", "script", "iframe", "source", "embed", "audio", "video"}  # by a browser, unasked


class Links(HTMLParser):
    """The links and anchors of a page; `loaded` is what a browser fetches to show it."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        target = values.get("href", values.get("src"))
        if target is None:
            return
        self.targets.append(target)
        style = tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon")
        if tag in LOADED or style:
            self.loaded.append(target)


def read(page: Path) -> Links:
    """Return the links of a page."""
    links = Links()
    links.feed(page.read_text("utf-8"))
    return links


def broken(folder: Path) -> list[str]:
    """Return what is wrong with the links of all pages in a folder, one sentence each."""
    pages = {page.resolve(): read(page) for page in sorted(folder.rglob("*.html"))}
    found = []
    for page, links in pages.items():
        name = page.relative_to(folder.resolve()).as_posix()
        found += [f"{name}: {t}" for t in links.targets if not leads(page, t, pages)]
        found += [f"{name}: loads {t}" for t in links.loaded if urlsplit(t).netloc]
    return found


def leads(page: Path, target: str, pages: dict[Path, Links]) -> bool:
    """Whether a link of a page leads somewhere; addresses of other hosts are not asked."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return True
    to = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if parts.fragment and to in pages:
        return unquote(parts.fragment) in pages[to].anchors
    return to.is_file()


def build(folder: Path) -> int:
    """Run Sphinx; warnings are errors."""
    command = [sys.executable, "-m", *"sphinx -b html -c docs -W --keep-going -q".split()]
    places = ["-d", str(folder.with_name(f"{folder.name}.cache")), ".", str(folder)]
    return subprocess.run([*command, *places], cwd=ROOT, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/docs")
    folder = parser.parse_args().folder.resolve()
    if folder.exists() and not (folder / START).exists() and any(folder.iterdir()):
        print(f"{folder} holds something else", file=sys.stderr)
        return 2
    shutil.rmtree(folder, ignore_errors=True)
    print("building the documentation: less than a minute", flush=True)
    if build(folder):
        return 1
    (folder / "index.html").write_text(FRONT, "utf-8")
    found = broken(folder)
    print("\n".join(found) or f"{folder / 'index.html'}", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
