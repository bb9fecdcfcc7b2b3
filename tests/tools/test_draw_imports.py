"""tools/draw_imports.py sees every kind of import, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.scripts import script

pytestmark = pytest.mark.thorough
TOOL = script("draw_imports")


def broken(folder: Path, files: dict[str, str]) -> list[str]:
    """What is wrong with a package of a few modules, each by its path."""
    empty = {"__init__": "", "rewrite/__init__": "", "rewrite/forms": ""}
    for name, text in (empty | files).items():
        path = folder / "irdeconv" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    problems: list[str] = TOOL.problems(TOOL.Sources(folder / "irdeconv"))
    return problems


KINDS = {
    "import": "import irdeconv.rewrite.forms",
    "as": "import irdeconv.rewrite.forms as f",
    "from": "from irdeconv.rewrite.forms import FORMS",
    "module": "from irdeconv.rewrite import forms",
    "package": "from irdeconv import rewrite",
    "function": "def f():\n    from irdeconv.rewrite import forms",
    "typing": "if TYPE_CHECKING:\n    from irdeconv.rewrite.forms import FORMS",
    "by name": "import_module('irdeconv.rewrite.forms')",
    "built": "importlib.import_module(f'irdeconv.rewrite.{name}')",
    "dunder": "__import__('irdeconv.rewrite')",
    "extra": "extra('irdeconv.rewrite.forms', 'FORMS')",
    "table": "HOMES = {'forms': 'irdeconv.rewrite.forms'}",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_import_is_seen(kind: str, tmp_path: Path) -> None:
    found = broken(tmp_path, {"verify/second_new": KINDS[kind]})
    assert len(found) == 1
    assert found[0].endswith(": through its wall")


@pytest.mark.parametrize("text", ["import_module(name)", "__import__(f'{a}.b')", "extra(*names)"])
def test_what_is_imported_must_be_named(text: str, tmp_path: Path) -> None:
    found = broken(tmp_path, {"verify/second_new": text})
    assert found == ["verify.second_new imports what the source does not name"]


@pytest.mark.parametrize(
    "text", ["import irdeconv", "from irdeconv import lower", "import_module('irdeconv')"]
)
def test_the_package_itself_is_the_top(text: str, tmp_path: Path) -> None:
    assert broken(tmp_path, {"runtime/plan": text}) == ["runtime.plan imports __init__: upwards"]
    assert broken(tmp_path, {"runtime/plan": "from irdeconv import __version__"}) == []


def test_a_package_must_not_load_others_behind_a_wall(tmp_path: Path) -> None:
    files = {"verify/__init__": "from irdeconv.rewrite import forms", "verify/second_walk": ""}
    found = broken(tmp_path, files)
    assert found == ["verify.second_walk imports verify: through its wall"]


def test_relative_imports_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="imports are absolute"):
        broken(tmp_path, {"verify/new": "from ..rewrite import forms"})


def test_new_folders_and_files_need_a_place(tmp_path: Path) -> None:
    found = broken(tmp_path, {"sparse/csr": "", "weather": ""})
    assert found == ["sparse has no place in LEVELS", "weather has no place in LEVELS"]


def test_upward_arrows_are_refused(tmp_path: Path) -> None:
    found = broken(tmp_path, {"ir/graph": "from irdeconv.rewrite.forms import FORMS"})
    assert found == ["ir.graph imports rewrite.forms: upwards"]


def test_circles_are_refused(tmp_path: Path) -> None:
    folders = {"cli/a": "import irdeconv.show.b", "show/b": "", "show/c": "import irdeconv.cli.d"}
    found = broken(tmp_path / "folders", {**folders, "cli/d": ""})
    assert "imports run in a circle: cli -> show -> cli" in found
    modules = {
        "runtime/a": "import irdeconv.runtime.b",
        "runtime/b": "def f():\n    import irdeconv.runtime.a",
    }
    found = broken(tmp_path / "modules", modules)
    assert found == ["imports run in a circle: runtime.a -> runtime.b -> runtime.a"]


def test_the_page_is_written_and_checked(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    page = tmp_path / "page.md"
    begin, end = "<!-- generated: imports -->\n", "<!-- end of the generated part -->\n"
    page.write_text(f"before\n{begin}old\n{end}after\n", "utf-8")
    monkeypatch.setattr(TOOL, "PAGE", page)
    assert (
        broken(tmp_path, {"verify/second_new": "import irdeconv.base.extras", "base/extras": ""})
        == []
    )
    sources = TOOL.Sources(tmp_path / "irdeconv")
    monkeypatch.setattr(TOOL, "Sources", lambda: sources)
    assert TOOL.main(["--check"]) == 1
    assert "--write" in capsys.readouterr().err
    assert TOOL.main(["--write"]) == TOOL.main(["--check"]) == 0
    drawn = TOOL.drawing(sources)
    assert "verify     -> base" in drawn
    assert page.read_text("utf-8") == f"before\n{begin}```\n{drawn}```\n{end}after\n"
    assert TOOL.main([]) == 0
    assert capsys.readouterr().out == drawn
