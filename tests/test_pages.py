"""The pages are true: every file, folder and name of the package that they mention exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [str(p.relative_to(ROOT)) for p in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])]
PACKAGE = ROOT / "irdeconv"
# The first part of a path: a folder of the checkout or of the package.
FOLDERS = {p.name for base in (ROOT, PACKAGE) for p in base.iterdir() if p.is_dir()}
MODULES = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
SOURCES = {
    p.name for folder in (".ci", "irdeconv", "tests", "tools") for p in (ROOT / folder).rglob("*")
}
LINK = re.compile(r"\]\(([^)#\s]+)")
BLOCK = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?<![\w./<>-])\.?\w[\w.*-]*/[^\s,;:()|]*")
DOTTED = re.compile(r"(?<![\w./-])([a-z]\w*(?:\.\w+)+)(?![\w/(-])")


def code(page: str) -> Iterator[str]:
    """Yield the texts set as code; listings in a language are examples, drawings are not."""
    text = (ROOT / page).read_text("utf-8")
    yield from (b for b in BLOCK.findall(text) if b.startswith("```\n"))
    yield from SPAN.findall(BLOCK.sub("", text))


def paths(page: str) -> set[str]:
    found = {m[0] for text in code(page) for m in PATH.finditer(text)}
    return {p for p in found if p.split("/")[0] in FOLDERS and not re.search("[<{]", p)}


def exists(path: str) -> bool:
    """Whether a path, or a pattern of paths, is of the checkout or of the package."""
    plain = path.rstrip("/")
    return any(next(base.glob(plain), None) is not None for base in (ROOT, PACKAGE))


def names(page: str) -> set[str]:
    """Return dotted names that begin with the package or one of its modules."""
    found = {m[1] for text in code(page) for m in DOTTED.finditer(text)}
    known = {n for n in found if n.split(".")[0] in {"irdeconv", *MODULES}}
    return {n for n in known if not n.endswith(".py")}


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


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    targets = [t for t in LINK.findall((ROOT / page).read_text("utf-8")) if "://" not in t]
    assert [t for t in targets if not (ROOT / page).parent.joinpath(t).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str) -> None:
    assert sorted(p for p in paths(page) if not exists(p)) == []


@pytest.mark.parametrize("page", PAGES)
def test_files_named_without_their_folder_exist(page: str) -> None:
    found = {n for text in code(page) for n in re.findall(r"(?<![\w./*<>-])\w+\.py\b", text)}
    assert sorted(found - SOURCES) == []


@pytest.mark.parametrize("page", PAGES)
def test_names_of_the_package_exist(page: str) -> None:
    assert sorted(n for n in names(page) if not is_name(n)) == []


def test_the_pages_are_searched() -> None:
    everything = [p for page in PAGES for p in paths(page)]
    assert len(everything) > 40
    assert "irdeconv/geometry.py" in paths("ARCHITECTURE.md")
    assert "passes.standardize" in names("ARCHITECTURE.md")


def test_what_does_not_exist_is_found() -> None:
    assert not exists("passes/nothing.py")
    assert not exists("tests/nothing*.py")
    assert exists("tests/test_deconv*.py")
    assert not is_name("passes.nothing")
    assert not is_name("irdeconv.nothing")
    assert is_name("passes.forms.FORMS")
