"""The recipes of CONTRIBUTING.md name the files that an addition touches.

A comment below the heading of a recipe has a regular expression that finds its example. Sources
that mention the example, by content or name, are the files that the recipe spells in full. Tests
and pages may mention it without being part of the recipe; a second comment lists other such files.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "irdeconv", "tests", "tools")
SUFFIXES = (".py", ".md", ".json", ".toml", ".txt")
OPTIONAL = re.compile(r"tests/\w+/test_\w+\.py|.*\.md|irdeconv/base/code_texts/\w+\.txt")
GENERATED = re.compile(r"tests/(golden|hostile)/.*")
MARK = re.compile(r"^(<!-- )?Generated(;| by `?tools/)", re.M)
RECIPE = re.compile(r"^### (?P<title>.+)\n\n<!-- example: (?P<example>.+) -->\n", re.M)
OTHERS = re.compile(r"<!-- also mentioned in: (.+) -->")
SPAN = re.compile(r"`([\w/.-]+/[\w.-]+\.\w+)`")


@dataclass(frozen=True)
class Recipe:
    """A recipe of the page: its example, its files, and others that mention the example."""

    title: str
    example: str
    files: frozenset[str]
    others: frozenset[str]


def recipes() -> list[Recipe]:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    starts = list(RECIPE.finditer(page))
    return [
        Recipe(
            title=m["title"],
            example=m["example"],
            files=frozenset(f for f in SPAN.findall(text) if not GENERATED.fullmatch(f)),
            others=frozenset(" ".join(OTHERS.findall(text)).split()),
        )
        for m in starts
        for text in [page[m.end() :].partition("\n### ")[0]]
    ]


@cache
def sources() -> dict[str, str]:
    """Return names and texts of all files that nothing generates."""
    paths = [p for f in FOLDERS for p in sorted((ROOT / f).rglob("*")) if p.suffix in SUFFIXES]
    names = {p.relative_to(ROOT).as_posix(): p for p in paths if p != Path(__file__)}
    texts = {n: p.read_text("utf-8") for n, p in names.items() if not GENERATED.fullmatch(n)}
    return {name: text for name, text in texts.items() if not MARK.search(text[:400])}


@pytest.mark.parametrize("recipe", recipes(), ids=lambda r: r.title)
def test_a_recipe_names_the_files_of_its_example(recipe: Recipe) -> None:
    example = re.compile(recipe.example, re.M)
    mention = {f for f, text in sources().items() if example.search(f"{f}\n{text}")}
    assert sorted(recipe.files - mention) == [], "does not mention the example"
    assert sorted(recipe.others - mention) == [], "does not mention the example any more"
    required = {f for f in mention if not OPTIONAL.fullmatch(f)}
    assert sorted(required - recipe.files - recipe.others) == [], "is missing in the recipe"


def test_every_kind_of_addition_has_an_example() -> None:
    assert len(recipes()) >= 10
