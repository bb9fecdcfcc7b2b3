"""The README and the pages are true: commands run, outputs are real, tables are those of the code.

`pytest tests/test_readme.py --update` rewrites outputs and the table of verbs.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from irdeconv.cli.main import VERBS, main

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
CONSOLE = re.compile(r"^```console\n\$ (?P<command>.+)\n(?P<output>(?:(?!```).*\n)*)```$", re.M)
PAGES = [
    str(p.relative_to(ROOT))
    for p in (README, *sorted(ROOT.glob("docs/*.md")))
    if CONSOLE.search(p.read_text("utf-8"))
]
TABLE = re.compile(r"(?<=^\| verb \| what it does \|\n\|---\|---\|\n)(?:\|.*\n)*", re.M)


def commands() -> dict[str, str]:
    """Return the marked one-line commands by their marks."""
    marked = r"^<!-- command: (\w+) -->\n```sh\n(.+)\n```$"
    return dict(re.findall(marked, README.read_text("utf-8"), re.M))


def shown(page: Path) -> dict[str, str]:
    """Return the outputs that a page shows by their commands, in order."""
    return {m["command"]: m["output"] for m in CONSOLE.finditer(page.read_text("utf-8"))}


def printed(page: Path, folder: Path) -> dict[str, str]:
    """Run the commands of a page in order, in an empty folder with the samples."""
    shutil.copytree(ROOT / "ir_samples", folder / "ir_samples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("COLUMNS", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        return {command: run(patch, command) for command in shown(page)}


def run(patch: pytest.MonkeyPatch, command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "irdeconv"
    screen = io.StringIO()
    patch.setattr(sys, "stdout", screen)
    patch.setattr(sys, "stderr", screen)
    assert main(arguments) in (0, 1)
    return "".join(f"{line.rstrip()}\n" for line in screen.getvalue().splitlines())


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name: str, tmp_path: Path, update: bool) -> None:
    page = ROOT / name
    outputs = printed(page, tmp_path)

    def real(match: re.Match[str]) -> str:
        return f"```console\n$ {match['command']}\n{outputs[match['command']]}```"

    if update:
        page.write_text(CONSOLE.sub(real, page.read_text("utf-8")), "utf-8")
    assert shown(page) == outputs


def test_the_tour_is_long_enough() -> None:
    assert len(shown(README)) >= 5


def test_the_table_of_verbs(update: bool) -> None:
    text = README.read_text("utf-8")
    table = "".join(f"| `{verb}` | {what} |\n" for verb, what in VERBS.items())
    if update:
        README.write_text(TABLE.sub(lambda _: table, text), "utf-8")
    (said,) = TABLE.findall(README.read_text("utf-8"))
    assert said == table


def test_the_python_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)
    shutil.copytree(ROOT / "ir_samples", tmp_path / "ir_samples")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "lowered_head.xml").exists()
    assert (tmp_path / "lowered_head.bin").exists()


def test_the_two_commands_install_and_run() -> None:
    found = commands()
    assert set(found) == {"demo", "tests"}
    for command in found.values():
        assert command.startswith("python3 -m venv .venv && .venv/bin/python -m pip install ")
    assert found["demo"].endswith("&& .venv/bin/irdeconv demo")
    assert "demo" in VERBS
    assert found["tests"].endswith("&& .venv/bin/python -m pytest -n 2")


def test_the_test_command_names_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (names,) = re.findall(r"'\.\[([\w,]+)\]'", commands()["tests"])
    extras = project["optional-dependencies"]
    assert set(names.split(",")) == {"test", "oracles"}
    assert {"test", "oracles", "dev"} <= set(extras)
    assert any(r.startswith("pytest-xdist") for r in extras["test"])


def test_ci_takes_the_test_command_from_the_readme() -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert "<!-- command: tests -->" in script
    assert "pytest" not in script
    assert (ROOT / ".ci/run").stat().st_mode & 0o100
