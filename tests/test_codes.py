"""Diagnostic codes: every one is explained, and its example reports exactly this code."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.code_pages import FOLDER, GROUPS, CodePage, code_page, path_of
from irdeconv.base.codes import CODES
from irdeconv.base.errors import IrdeconvError
from irdeconv.cli.main import VERBS, main, verb_parser
from irdeconv.cli.usage import option_names
from support.commands import command
from support.printed import printed

# The text of `compare` has words for it; its code stands in JSON.
WITHOUT_CODE_IN_TEXT = {"E504"}
# What no file alone can provoke.
WITHOUT_EXAMPLE = {"E125", "E401", "E402", "E506", "E520", "E610", "W502"}
TYPES = {"f32": np.float32, "i64": np.int64}
REPORTED = re.compile(r"\b(?:error|warning|note)\[([EW]\d{3})\]")


def write_files(page: CodePage, folder: Path) -> None:
    for name, body in page.files.items():
        file, _, element_type = name.partition(" ")
        if element_type:
            numbers = np.array(body.split(), TYPES[element_type])
            (folder / file).write_bytes(numbers.tobytes())
        else:
            (folder / file).write_text(body, "utf-8")


def raised(program: str) -> str:
    with pytest.raises(IrdeconvError) as e:
        exec(compile(program, "example", "exec"), {})
    return f"{e.value}\n"


@pytest.mark.usefixtures("pipe")
@pytest.mark.parametrize("code", sorted(set(CODES) - WITHOUT_EXAMPLE))
def test_an_example_reports_its_code_and_no_other(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: bool
) -> None:
    page = code_page(code)
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert page.steps
    found = [raised(s.what) if s.python else printed(s.what) for s in page.steps]
    if update:
        rewrite(page, found)
    assert [s.printed for s in page.steps] == found
    reported = set(REPORTED.findall("".join(found)))
    assert reported == (set() if code in WITHOUT_CODE_IN_TEXT else {code})


def rewrite(page: CodePage, found: list[str]) -> None:
    """Put what the steps print now into the file of a code."""
    path = path_of(page.code)
    text = path.read_text("utf-8")
    for step, new in zip(page.steps, found, strict=True):
        head = "--- raises\n" if step.python else f"--- $ {step.what}\n"
        text = text.replace(head + step.printed, head + new)
    path.write_text(text, "utf-8")


def test_where_the_text_has_no_code_the_document_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = code_page("E504")
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    (step,) = page.steps
    main([*shlex.split(step.what)[1:], "--format", "json"])
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert {d["code"] for d in found} == {"E504"}


def test_every_code_is_explained_and_nothing_else_is() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} == set(CODES)
    assert {c[:2] for c in CODES} == set(GROUPS)
    assert {c for c in CODES if not code_page(c).steps} == WITHOUT_EXAMPLE
    for page in map(code_page, CODES):
        assert page.why.endswith(".")
        assert page.fix
        assert page.steps or page.when


def test_the_list_has_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("codes") == 0
    out = capsys.readouterr().out
    assert re.findall(r"^  ([EW]\d{3})  ", out, re.M) == [
        c for group in GROUPS for c in CODES if c.startswith(group)
    ]
    assert command("codes", "--format", "json") == 0
    listed = json.loads(capsys.readouterr().out)["codes"]
    assert {c["code"]: c["severity"] for c in listed} == {
        c: "error" if c[0] == "E" else "warning" for c in CODES
    }


def test_a_code_is_explained_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("codes", "e302") == 0
    out = capsys.readouterr().out
    page = code_page("E302")
    assert out.startswith(
        f"E302: {CODES['E302'].title}\n\n{page.why}\n\nHow to fix it: {page.fix}\n"
    )
    assert textwrap.indent(page.files["model.xml"], "    ") in out
    (step,) = page.steps
    assert out.endswith(f"\n\n$ {step.what}\n{step.printed}")
    assert "error[E302]" in out


def test_several_codes_and_beginnings(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("codes", "W4", "E310") == 0
    out = capsys.readouterr().out
    assert [c for c in CODES if f"{c}: {CODES[c].title}" in out] == ["E310", "W400", "W401", "W402"]
    assert command("codes", "w4") == 0
    out = capsys.readouterr().out
    assert "W402" in out
    assert "model.xml" not in out


def test_the_document_of_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("codes", "E600", "--format", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)["codes"]
    assert found["severity"] == "error"
    assert list(found["files"]) == ["model.xml"]
    assert "limits=ird.Limits" in found["steps"][0]["python"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("302", "did you mean E302 or W302?"),
        ("E309", "there are E300, E301, E302"),
        ("X", "irdeconv codes lists all of them"),
        ("", "irdeconv codes lists all of them"),
    ],
)
def test_an_unknown_code_is_told_its_neighbours(
    text: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("codes", text) == 2
    assert hint in capsys.readouterr().err


def test_limits_in_the_texts_are_those_of_the_code() -> None:
    limits = ird.Limits()
    assert f"{limits.layers:,}" in code_page("E601").why
    assert f"{limits.edges:,}" in code_page("E601").why
    assert f"({limits.ports:,})" in code_page("E601").why
    assert f"({limits.attributes:,})" in code_page("E601").why
    assert f"{limits.depth} levels" in code_page("E603").why
    assert f"{limits.xml_bytes // 2**30} GiB" in code_page("E600").why


@pytest.mark.parametrize(("terminal", "arguments"), [(True, []), (True, ["-q"]), (False, [])])
def test_validate_points_to_the_codes_at_a_terminal(
    terminal: bool, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = code_page("E213")
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["validate", "model.xml", *arguments]) == 1
    assert ("irdeconv codes E213 explains" in err.getvalue()) == (terminal and not arguments)
    assert "irdeconv codes" not in out.getvalue()


def test_options_in_the_texts_exist() -> None:
    known = {option for verb in VERBS for option in option_names(verb_parser(verb))}
    for page in map(code_page, CODES):
        named = re.findall(r"(?<![\w-])--[a-z][a-z-]*", f"{page.why} {page.fix}")
        assert set(named) <= known, page.code
        for line in re.findall(r"`irdeconv ([a-z-]+)[ `]", f"{page.why} {page.fix}"):
            assert line in (*VERBS, "help"), page.code
