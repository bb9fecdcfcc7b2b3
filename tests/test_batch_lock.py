"""One batch at a time has a folder of results, and what it makes there appears whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from irdeconv.batches.lock import held
from irdeconv.cli.batch_item import execute
from support.commands import command

SAMPLE = Path(__file__).resolve().parent.parent / "ir_samples/openvino/dynamic.xml"
WORDS = ("batch", "infer", "m.xml", "--jobs", "0", "-q", "-o", "out")
POSIX = pytest.mark.skipif("sys.platform == 'win32'", reason="its locks are those of POSIX")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder with a model and a folder for results."""
    monkeypatch.chdir(tmp_path)
    for suffix in (".xml", ".bin"):
        shutil.copy(SAMPLE.with_suffix(suffix), f"m{suffix}")
    Path("out").mkdir()


@POSIX
def test_who_holds_a_folder_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with held(Path("out")):
        assert command(*WORDS, "--journal", "other.journal") == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"another batch is at work in out: process {os.getpid()} on " in said
        assert "wait for its end, or name another folder with -o" in said
        assert not Path("other.journal").exists()
    assert command(*WORDS, "--journal", "other.journal") == 0


@pytest.mark.parametrize("left", ["", "process 1 on mars", "\x1b[31m\0" * 1000])
def test_a_lock_that_nobody_holds_keeps_nobody_out(left: str) -> None:
    Path("out/batch.lock").write_text(left)
    assert command(*WORDS) == 0
    assert not Path("out/batch.lock").exists()


@POSIX
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_is_no_lock_is_told(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    lock = Path("out/batch.lock")
    if kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to("../m.xml")
    before = Path("m.xml").read_bytes()
    assert command(*WORDS) == 6
    assert "out/batch.lock cannot be written" in capsys.readouterr().err
    assert Path("m.xml").read_bytes() == before


def payload(stage: str) -> dict[str, Any]:
    words, made = ["m.xml"], {"--output": "inferred.xml"}
    return {"verb": "infer", "words": words, "made": made, "folder": "out/m", "stage": stage}


def test_an_item_that_is_done_twice_is_in_nobodys_way() -> None:
    """A worker that was taken for dead ends its work in a folder of its own, or in none."""
    Path("stage").mkdir()
    first, second = (execute(payload("stage")) for _ in range(2))
    places = {row.pop("place") for row in (first, second)}
    assert len(places) == 2
    assert first == second
    assert not Path("out/m").exists()
    shutil.rmtree("stage")
    late = execute(payload("stage"))
    assert late["diagnostics"][0]["message"].startswith("out/m cannot be written")
    assert not Path("stage").exists()


def test_nothing_is_left_beside_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    stray = Path("out/.irdeconv-0123456789abcdef")  # of a batch that was killed
    (stray / "half").mkdir(parents=True)
    assert command(*WORDS, "--report", "r.json") == 0
    item = json.loads(Path("r.json").read_text())["items"][0]
    assert {p.name for p in Path("out").iterdir()} == {item["item"], "batch.journal"}
    made = {p.name for p in Path("out", item["item"]).iterdir()}
    assert (
        made
        == {f["name"] for f in item["files"]}
        == {
            "inferred.bin",
            "inferred.xml",
            "result.json",
        }
    )

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("irdeconv.cli.batch_plan.os.rename", refuse)
    assert command(*WORDS, "--report", "r.json", "--force") == 6
    item = json.loads(Path("r.json").read_text())["items"][0]
    assert item["summary"] == f"out/{item['item']} cannot be written: Permission denied"
