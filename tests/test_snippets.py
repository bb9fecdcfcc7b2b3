"""Every block of the pages runs somewhere, or says why it does not.

Blocks with output (`console`) and Python run in test_readme.py. Here are the commands that are
shown without output, the files that are shown whole, and the rule that nothing else exists.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from irdeconv.base import limits
from irdeconv.proof.sizes import LARGEST_SIZES
from irdeconv.rewrite.targets import load_target
from irdeconv.verify.evaluation import LARGEST_PROBED
from irdeconv.verify.suite_file import read_layers
from irdeconv.verify.suite_writing import MAX_CASES
from support.printed import printed

ROOT = Path(__file__).resolve().parent.parent
# Pages of these folders are written by tools, which run their examples.
GENERATED = ("docs/codes/", "docs/verbs/", "docs/operations/")
PAGES = [
    name
    for p in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
    if not (name := p.relative_to(ROOT).as_posix()).startswith(GENERATED)
]
BLOCK = re.compile(
    r"^(<!-- (?P<mark>[^\n]+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
# Languages of blocks, and where they are tested.
LANGUAGES = {
    "console": "test_readme.py",
    "powershell": "",
    "pycon": "test_public.py",
    "python": "test_readme.py",
    "sh": "here",
    "text": "no command: a drawing, a report of another machine",
    "toml": "here",
    "xml": "test_dialect_docs.py",
}
# Why a block does not run: behind `not run: ` in a comment above it.
REASONS = {
    "PowerShell",
    "belongs into the files of a shell",
    "installs",
    "prints times",
    "takes a model of yours",
    "takes results of yours",
}


def blocks(page: str, *languages: str) -> list[re.Match[str]]:
    text = (ROOT / page).read_text("utf-8")
    return [m for m in BLOCK.finditer(text) if not languages or m["language"] in languages]


def commands(page: str) -> list[str]:
    """Return the commands of a page's unmarked `sh` blocks."""
    lines = [ln for m in blocks(page, "sh") if not m["mark"] for ln in m["text"].splitlines()]
    return [
        shlex.join(words) for words in (shlex.split(ln, comments=True) for ln in lines) if words
    ]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_of_known_kinds_and_those_that_do_not_run_say_why(page: str) -> None:
    for block in blocks(page):
        assert block["language"] in LANGUAGES, block[0]
        kind, _, reason = (block["mark"] or "").partition(": ")
        assert kind in ("", "not run", "command", "example", "file", "measured"), block[0]
        assert kind != "not run" or reason in REASONS, block[0]
        assert block["language"] != "powershell" or kind == "not run", block[0]


def test_python_and_console_always_run() -> None:
    marks = [m["mark"] for page in PAGES for m in blocks(page, "python", "console") if m["mark"]]
    assert [mark for mark in marks if mark.startswith("not run")] == []


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)])
def test_commands_without_output_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any(" openvino" in line for line in commands(page)):
        pytest.importorskip("openvino")
    shutil.copytree(ROOT / "ir_samples", tmp_path / "ir_samples")
    monkeypatch.chdir(tmp_path)
    for line in commands(page):
        printed(line, codes=(0,))


def test_there_are_commands_without_output() -> None:
    assert any(commands(p) for p in PAGES)


def test_the_target_of_the_page_is_read(tmp_path: Path) -> None:
    block = blocks("docs/targets.md", "toml")[0]  # the other is the one with mistakes
    file = tmp_path / "npu.toml"
    file.write_text(block["text"], "utf-8")
    assert load_target(str(file)).operations


def test_the_layers_of_the_page_are_read(tmp_path: Path) -> None:
    (block,) = blocks("docs/suite.md", "toml")
    file = tmp_path / "npu.toml"
    file.write_text(block["text"], "utf-8")
    assert read_layers(file, ())


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    text = (ROOT / "docs/limits.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|", text, re.MULTILINE)
    assert rows == [(r["name"], r["what"], limits.shown(r)) for r in limits.table()]
    assert f"at most\n{MAX_CASES:,} cases" in text or f"at most {MAX_CASES:,} cases" in text
    assert all(f"{size:,}" in text for size in (*LARGEST_SIZES, LARGEST_PROBED))
