"""tools/size.py counts, compares with a commit, and holds sizes against ceilings."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from support.scripts import TOOLS, script

size = script("size")
TEXT = '''"""Say what.

Two lines."""

import os  # code


def f():
    """One line."""
    # a comment
    return """not a
docstring"""
'''


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    texts = {"irdeconv/a.py": "1\n" * 300, "irdeconv/ops/b.py": TEXT}
    return tree(tmp_path, texts | {"tests/t.py": "1\n" * 50, "tools/u.py": "1\n", ".ci/x": ""})


def test_code_is_no_blank_line_comment_or_docstring() -> None:
    assert size.code_lines(TEXT) == 4


def test_rows_are_folders_and_the_files_beside_them(project: Path) -> None:
    assert size.folders(size.working_tree(project)) == {
        "irdeconv/*.py": (300, 300), "irdeconv/ops": (12, 4), "tests": (50, 50), "tools": (1, 1),
    }  # fmt: skip


def test_a_ceiling_is_held_and_lowered(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert size.main(["--write", "--check"], project) == 0
    for lines, code in ((303, 0), (304, 1), (297, 1), (301, 0)):
        tree(project, {"irdeconv/a.py": "1\n" * lines})
        (project / ".ci/ceilings.toml").write_text(
            "package_lines = 315\npackage_files = 2\npackage_places = 2\n"
            "test_lines = 50\ntool_lines = 1\n"
        )
        assert size.main(["--check"], project) == code, capsys.readouterr().out
    tree(project, {"irdeconv/new/c.py": "", "tests/t.py": "1\n" * 49})
    assert size.main(["--check"], project) == 1
    out = capsys.readouterr().out
    assert "package_files is 3, above the ceiling of 2" in out
    assert "package_places is 3, above the ceiling of 2" in out
    assert "test_lines is 49: lower the ceiling of 50" in out


def test_the_difference_to_a_commit(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert size.main([], project) == 0
    assert "+" not in capsys.readouterr().out
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y.z"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    tree(project, {"irdeconv/ops/b.py": TEXT * 2, "irdeconv/new/c.py": "1\n"})
    assert size.main(["--against", "HEAD"], project) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["irdeconv/ops", "24", "+12", "10", "+6"] in rows
    assert ["irdeconv/new", "1", "+1", "1", "+1"] in rows
    assert ["tests", "50", "50"] in rows
    assert size.main(["--against", "no-such-commit"], project) == 0


def test_the_ceilings_are_those_of_the_tool() -> None:
    held = tomllib.loads((TOOLS.parent / size.CEILINGS).read_text("utf-8"))
    assert held.keys() == size.measured(size.working_tree(TOOLS.parent), TOOLS.parent).keys()
