"""The pages are true: every file, folder and name of the package that they mention exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [str(p.relative_to(ROOT)) for p in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])]
PACKAGE = ROOT / "irdeconv"
# The first part of a path: a folder of the checkout or of the package.
FOLDERS = {p.name for base in (ROOT, PACKAGE) for p in base.iterdir() if p.is_dir()}
MODULES = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
SOURCES = {
    p.name for folder in (".ci", "irdeconv", "tests", "tools") for p in (ROOT / folder).rglob("*")
}
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
BLOCK = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?<![\w./<>-])\.?\w[\w.*-]*/[^\s,;:()|]*")
DOTTED = re.compile(r"(?<![\w./-])([a-z]\w*(?:\.\w+)+)(?![\w/(-])")
FILES = (".py", ".npz", ".xml", ".bin", ".onnx", ".json", ".toml")  # names of files, not of modules


def code(page: str) -> Iterator[str]:
    """Yield the texts set as code; listings in a language are examples, drawings are not."""
    text = (ROOT / page).read_text("utf-8")
    yield from (b for b in BLOCK.findall(text) if b.startswith("```\n"))
    yield from SPAN.findall(BLOCK.sub("", text))


def paths(page: str) -> set[str]:
    found = {m[0] for text in code(page) for m in PATH.finditer(text)}
    return {p for p in found if p.split("/")[0] in FOLDERS and not re.search("[<{]", p)}


def exists(path: str) -> bool:
    """Whether a path, or a pattern of paths, is of the checkout or of the package.

    The names of JSON documents look like paths: irdeconv/bench/1.
    """
    plain = path.rstrip("/")
    if any(f'"const": "{plain}"' in p.read_text() for p in (ROOT / "docs/schemas").glob("*.json")):
        return True
    return any(next(base.glob(plain), None) is not None for base in (ROOT, PACKAGE))


def names(page: str) -> set[str]:
    """Return dotted names that begin with the package or one of its modules."""
    found = {m[1] for text in code(page) for m in DOTTED.finditer(text)}
    known = {n for n in found if n.split(".")[0] in {"irdeconv", *MODULES}}
    return {n for n in known if not n.endswith(FILES)}


def is_name(name: str) -> bool:
    """Whether a dotted name is a module of the package, or something in one."""
    parts = name.removeprefix("irdeconv.").split(".")
    for count in range(len(parts), -1, -1):
        try:
            thing = import_module(".".join(["irdeconv", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            thing = getattr(thing, part, None)  # type: ignore[assignment]
        return thing is not None
    return False


def links(page: str) -> list[str]:
    """Return the targets of links that stay in the checkout."""
    text = BLOCK.sub("", (ROOT / page).read_text("utf-8"))
    return [t for t in LINK.findall(text) if "://" not in t]


def anchors(text: str) -> set[str]:
    """Return the anchors of headings, as code hosts name them."""
    heads = (re.sub(r"[`*]|\]\(.*?\)|\[", "", h) for h in HEADING.findall(BLOCK.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def leads(page: str, target: str) -> bool:
    """Whether a link of a page leads to a file and, where it names one, to a heading in it."""
    path, _, anchor = target.partition("#")
    to = (ROOT / page).parent / path if path else ROOT / page
    return to.exists() and (not anchor or anchor in anchors(to.read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert [t for t in links(page) if not leads(page, t)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_page_stands_in_a_list(page: str) -> None:
    """docs/index.md lists all pages; those of a folder follow the page of its name."""
    path = ROOT / page
    above = path.parent.with_suffix(".md")
    listed = {(ROOT / "docs" / t).resolve() for t in links("docs/index.md")}
    assert page == "docs/index.md" or path in listed or above in listed


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str) -> None:
    assert sorted(p for p in paths(page) if not exists(p)) == []


@pytest.mark.parametrize("page", PAGES)
def test_files_named_without_their_folder_exist(page: str) -> None:
    found = {n for text in code(page) for n in re.findall(r"(?<![\w./*<>-])[a-z_]\w*\.py\b", text)}
    assert sorted(found - SOURCES) == []


@pytest.mark.parametrize("page", PAGES)
def test_names_of_the_package_exist(page: str) -> None:
    assert sorted(n for n in names(page) if not is_name(n)) == []


def test_the_pages_are_searched() -> None:
    everything = [p for page in PAGES for p in paths(page)]
    assert len(everything) > 40
    assert "irdeconv/__init__.py" in paths("CONTRIBUTING.md")
    assert "proof.steps._copied" in names("docs/proof.md")


def test_anchors_are_those_of_code_hosts() -> None:
    assert anchors("# A `b` c\n\n## What's next?\n") == {"a-b-c", "whats-next"}
    assert leads("README.md", "docs/proof.md")
    assert not leads("README.md", "docs/proof.md#nothing")


def test_what_does_not_exist_is_found() -> None:
    assert not exists("rewrite/nothing.py")
    assert not exists("tests/nothing*.py")
    assert exists("tests/kernels/test_deconv*.py")
    assert not is_name("rewrite.nothing")
    assert not is_name("irdeconv.nothing")
    assert is_name("rewrite.forms.FORMS")
