"""The public API, and its snippets."""

import ast
import doctest
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base import limits
from irdeconv.proof.sizes import LARGEST_SIZES
from irdeconv.rewrite.targets import load_target
from irdeconv.verify.probe import LARGEST_PROBED
from irdeconv.verify.suite import LayersReader
from irdeconv.verify.suite_writing import MAX_CASES
from support.commands import Capture, Patch, printed
from support.rows import each_row

# The public names: there, exported, documented, with examples that hold.

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = [n for n in ird.__all__ if inspect.isfunction(getattr(ird, n))]


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(ird.__file__).read_text("utf-8"))
    (block, _) = (n for n in tree.body if isinstance(n, ast.If))  # the other one is __getattr__
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert seen == {name: f"irdeconv.{home}" for name, home in ird._HOMES.items()}
    assert set(ird.__all__) - {"__version__"} == set(seen)
    assert all(getattr(ird, name) is not None for name in ird.__all__)


def test_completion_offers_the_public_names() -> None:
    assert dir(ird) == sorted(ird.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lowr'"):
        ird.lowr  # noqa: B018


NET = Path(__file__).resolve().parents[2] / "ir_samples/openvino/deconv_3x3_to_5x5.xml"


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: ird.lower(NET, form="none"), "write form=None"),
        (lambda: ird.Target("edgetpu"), 'write target="edgetpu"'),
        (lambda: ird.reduce(NET, lambda graph: True), "check(graph, inputs)"),
        (lambda: ird.convert(NET), "read reads it"),
        (lambda: ird.parse(NET.read_text()), "read(path) reads it"),
        (lambda: ird.read(NET).layers, "graph.nodes()"),
    ],
)
def test_what_looks_right_says_what_to_write(call: Any, hint: str) -> None:
    with pytest.raises((ird.IrdeconvError, AttributeError), match=re.escape(hint)):
        call()


def test_a_form_that_does_not_apply_falls_back_within_the_target() -> None:
    path = NET.with_name("segmentation_head.xml")
    low = ird.lower(path, "gemm", "edgetpu")
    assert {r.form for r in low.report} == {"zero-insertion"}


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; import irdeconv; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert {m for m in loaded if m.startswith("irdeconv")} == {"irdeconv"}
    assert "numpy" not in loaded


def named_types(hint: Any) -> Iterator[type]:
    """Every class that an annotation names, inside of unions, lists and calls, too."""
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    parts = typing.get_args(hint)
    if isinstance(hint, UnionType) or parts:
        for part in parts:
            yield from (
                t for p in (part if isinstance(part, list) else [part]) for t in named_types(p)
            )


@each_row("name", FUNCTIONS)
def test_what_a_signature_names_is_public(name: str) -> None:
    hints = typing.get_type_hints(getattr(ird, name))
    types = {t for hint in hints.values() for t in named_types(hint)}
    ours = {t.__name__ for t in types if t.__module__.startswith("irdeconv")}
    assert hints
    assert ours <= set(ird.__all__)


@each_row("name", [n for n in ird.__all__ if n != "ModelLike"])
def test_public_names_are_documented(name: str) -> None:
    value = getattr(ird, name)
    if not isinstance(value, str):
        first = (inspect.getdoc(value) or "").splitlines()[0]
        assert len(first) > 20
        assert not first.startswith(f"{name}("), "the docstring that dataclass makes"


PEERS = {
    "to_openvino",
    "lower_onnx",
    "check_onnx",
    "map_blocks",
}  # their examples import large packages


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.oracles if n in PEERS else ()) for n in FUNCTIONS]
)
@pytest.mark.filterwarnings("default")
def test_examples(name: str, tmp_path: Path, monkeypatch: Patch) -> None:
    shutil.copytree(ROOT / "ir_samples", tmp_path / "ir_samples")
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        getattr(ird, name), name, globs={"ird": ird, "np": np, name: getattr(ird, name)}
    )
    assert example.examples, "no example in the docstring"
    told: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not result.failed, "".join(told)


def test_help_is_readable(capsys: Capture) -> None:
    os.environ["PAGER"] = "cat"
    help(ird.lower)
    text = capsys.readouterr().out
    assert "Return a copy without deconvolutions" in text
    assert "<" not in text.splitlines()[2], "a default that has no readable name"


# Every block of the pages runs somewhere, or says why it does not.

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


@each_row("page", PAGES)
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
def test_commands_without_output_run(page: str, tmp_path: Path, monkeypatch: Patch) -> None:
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
    assert LayersReader(file).read(())[0]


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    text = (ROOT / "docs/limits.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|", text, re.MULTILINE)
    assert rows == [(r["name"], r["what"], limits.shown(r)) for r in limits.table()]
    assert f"at most\n{MAX_CASES:,} cases" in text or f"at most {MAX_CASES:,} cases" in text
    assert all(f"{size:,}" in text for size in (*LARGEST_SIZES, LARGEST_PROBED))
