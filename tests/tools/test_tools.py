"""The scripts of tools/ work with their checkout; tasks do what CONTRIBUTING.md says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.scripts import TOOLS, script

IMPORT = re.compile(r"^(?:import|from) (checkout|irdeconv|support)\b", re.MULTILINE)
SCRIPTS = [p for p in sorted(TOOLS.glob("*.py")) if "__main__" in p.read_text("utf-8")]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_checkout_is_imported_first(path: Path) -> None:
    found = IMPORT.findall(path.read_text("utf-8"))
    assert found[:1] in ([], ["checkout"])


def test_another_installation_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "irdeconv").mkdir()
    (tmp_path / "irdeconv" / "__init__.py").write_text("raise RuntimeError('the other one')\n")
    command = [sys.executable, str(TOOLS / "mutate_lowered.py"), "--help"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# The tasks of the Makefile, of .ci/run and of pre-commit do what CONTRIBUTING.md says.


ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CHECKS = ("-m ruff check .", "-m ruff format --check .", "-m mypy")


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def recipe(target: str) -> str:
    """Return the lines below a target of the Makefile."""
    (found,) = re.findall(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", text("Makefile"), re.M)
    return str(found)


def test_every_task_is_told_and_exists() -> None:
    told = set(re.findall(r"`make ([a-z]+)", text("CONTRIBUTING.md") + text("README.md")))
    tasks = set(re.findall(r"^([a-z]+):.*## ", text("Makefile"), re.M))
    assert told >= {*"dev hooks quick check test slow golden pages docs bench ci".split()}
    assert sorted(told - tasks) == []


def test_the_checks_are_the_same_everywhere() -> None:
    for check in CHECKS:
        assert check in recipe("check")
        assert check in text(".ci/run")
    hooks = re.findall(r"entry: .venv/bin/python (-m .*)", text(".pre-commit-config.yaml"))
    wanted = ["-m ruff check", "-m ruff format", "-m mypy"]
    assert [" ".join(h.split()[:3]) for h in hooks] == wanted
    assert re.findall(r"repo: (\S+)", text(".pre-commit-config.yaml")) == ["local"]


def test_setting_up_installs_what_tests_and_checks_need() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (installed,) = re.findall(r"pip install --quiet -e '\.\[([\w,]+)\]'", recipe("$(READY)"))
    assert set(installed.split(",")) == {"test", "oracles", "browser", "dev", "docs"} <= set(extras)
    assert f"-e '.[{installed}]'" in text("CONTRIBUTING.md")
    assert any(r.startswith("pre-commit") for r in extras["dev"])


def test_an_sdist_has_what_contributors_need() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert sorted(i for i in included if not (ROOT / i).exists()) == []
    kit = {"CONTRIBUTING.md", "Makefile", ".pre-commit-config.yaml", "tests", "tools", ".ci"}
    assert kit <= set(included)


# tools/build_docs.py: links and anchors of HTML are checked; what a page would load is found.


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


# tools/size.py counts, compares with a commit, and holds sizes against ceilings.


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
