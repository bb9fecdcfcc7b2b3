"""The README and the pages are true: commands run, outputs are real, tables are those of the code.

`pytest tests/docs/test_readme.py --update` rewrites outputs and the table of verbs.
"""

import io
import math
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from irdeconv.cli.main import main
from irdeconv.cli.verbs import VERBS

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
CONSOLE = re.compile(r"^```console\n\$ (?P<command>.+)\n(?P<output>(?:(?!```).*\n)*)```$", re.M)
TEXTS = {p: p.read_text("utf-8") for p in (README, *sorted(ROOT.glob("docs/*.md")))}
PAGES = [str(p.relative_to(ROOT)) for p, text in TEXTS.items() if CONSOLE.search(text)]
# A marked example has a test of its own: test_extension.py, and below.
# A block of text right behind the code is what it prints.
PYTHON = re.compile(r"(?<! -->\n)^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.M | re.S)
FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.M | re.S)
EXAMPLE = re.compile(r"<!-- example: (\w+) -->\n```python\n(.*?)^```$", re.M | re.S)
CODED = [str(p.relative_to(ROOT)) for p, text in TEXTS.items() if PYTHON.search(text)]
TABLE = re.compile(r"(?<=^\| verb \| purpose \|\n\|---\|---\|\n)(?:\|.*\n)*", re.M)


def commands() -> dict[str, str]:
    """Return the marked commands by their marks."""
    marked = r"^<!-- command: (\w+) -->\n```sh\n(.+?)\n```$"
    return dict(re.findall(marked, README.read_text("utf-8"), re.M | re.S))


def shown(page: Path) -> dict[str, str]:
    """Return the outputs that a page shows by their commands, in order."""
    return {m["command"]: m["output"] for m in CONSOLE.finditer(page.read_text("utf-8"))}


def printed(page: Path, folder: Path) -> dict[str, str]:
    """Run the commands of a page in order, in a folder with the samples and the page's files."""
    shutil.copytree(ROOT / "ir_samples", folder / "ir_samples")
    for name, text in FILE.findall(page.read_text("utf-8")):
        (folder / name).write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("COLUMNS", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        patch.setattr("irdeconv.cli.running.WORTH_SAYING", math.inf)  # seconds: pages tell none
        return {command: run(patch, command) for command in shown(page)}


def run(patch: pytest.MonkeyPatch, command: str) -> str:
    """Return what a command prints, through `head` and `tail` where it is piped into them."""
    command, *filters = command.split(" | ")
    program, *arguments = shlex.split(command)
    assert program == "irdeconv"
    screen = io.StringIO()
    # What goes to stderr is on the terminal before a filter has read to the end.
    beside = io.StringIO() if filters else screen
    with pytest.MonkeyPatch.context() as streams:
        streams.setattr(sys, "stdout", screen)
        streams.setattr(sys, "stderr", beside)
        assert main(arguments) in (0, 1, 2)
    lines = [line.rstrip() for line in screen.getvalue().splitlines()]
    for words in map(str.split, filters):
        lines = filtered(words, lines)
    said = [line.rstrip() for line in beside.getvalue().splitlines()] if filters else []
    return "".join(f"{line}\n" for line in said + lines)


def filtered(words: list[str], lines: list[str]) -> list[str]:
    """Return the lines that `head -N`, `tail -N` or `tail -n +N` leaves."""
    match words:
        case ["head", count]:
            return lines[: -int(count)]
        case ["tail", "-n", first]:
            return lines[int(first) - 1 :]
        case ["tail", count]:
            return lines[int(count) :]
    raise AssertionError(words)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[dict[str, str], Path]]:
    """Run the commands of a page once; return their outputs and the folder."""

    @cache
    def run_page(name: str) -> tuple[dict[str, str], Path]:
        folder = tmp_path_factory.mktemp("page")
        return printed(ROOT / name, folder), folder

    return run_page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name: str, ran: Any, update: bool) -> None:
    page = ROOT / name
    outputs, _ = ran(name)

    def real(match: re.Match[str]) -> str:
        return f"```console\n$ {match['command']}\n{outputs[match['command']]}```"

    if update:
        page.write_text(CONSOLE.sub(real, page.read_text("utf-8")), "utf-8")
    assert shown(page) == outputs


def test_the_readme_is_short_and_shows_the_main_verbs(update: bool) -> None:
    text = README.read_text("utf-8")
    assert {command.split()[1] for command in shown(README)} == {"lower", "validate", "compare"}
    assert len(text.splitlines()) <= 120
    five = ("lower", "validate", "compare", "reduce", "explain")
    table = "".join(f"| [`{verb}`](docs/verbs/{verb}.md) | {VERBS[verb]} |\n" for verb in five)
    if update:
        README.write_text(TABLE.sub(lambda _: table, text), "utf-8")
    assert TABLE.findall(README.read_text("utf-8")) == [table]
    first = re.findall(r"^irdeconv .*$", text, re.M)[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["description"] == first.removesuffix(".")


@pytest.mark.parametrize("name", CODED)
def test_the_python_code_runs(
    name: str, ran: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / name
    monkeypatch.chdir(ran(name)[1])  # code may use the files that the commands above it write
    scope: dict[str, object] = {}
    for code, output in PYTHON.findall(page.read_text("utf-8")):
        capsys.readouterr()
        exec(compile(code, name, "exec"), scope)
        assert not output or capsys.readouterr().out == output


@pytest.mark.oracles
def test_an_ir_of_an_onnx_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx")
    text = (
        "<ir_version: 8, opset_import: ['': 13]> g (float[1,2] x) => (float[1,2] y) {y = Relu(x)}"
    )
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(text.replace("'", '"')), "model.onnx")
    (code,) = [
        c for n, c in EXAMPLE.findall((ROOT / "docs/install.md").read_text()) if n == "convert"
    ]
    exec(compile(code, "install.md", "exec"), {})
    assert main(["validate", "model.xml"]) == 0


def test_the_commands_that_install() -> None:
    found = commands()
    assert set(found) == {"install", "tests"}
    create = "python3 -m venv .venv && .venv/bin/python -m pip install"
    assert found["install"] == f"{create} . && .venv/bin/irdeconv demo"
    pytest_command = ".venv/bin/python -m pytest -n 2 --dist worksteal"
    assert found["tests"] == f"{create} '.[test,oracles]' && {pytest_command}"


def test_ci_takes_the_test_command_from_the_readme() -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert "<!-- command: tests -->" in script
    assert "pytest -n" not in script  # the browser's tests alone have a command of their own
    assert (ROOT / ".ci/run").stat().st_mode & 0o100
