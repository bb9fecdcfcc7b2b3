"""One batch at a time has a folder of results, and what it makes there appears whole."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from irdeconv.cli.batch_answer import execute
from irdeconv.cli.batch_items import held
from irdeconv.formats.atomic import together
from support.commands import Capture, Patch, answer, command

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "ir_samples/openvino/dynamic.xml"
WORDS = ("batch", "infer", "m.xml", "--jobs", "0", "-q", "-o", "out")
POSIX = pytest.mark.skipif("sys.platform == 'win32'", reason="its locks are those of POSIX")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: Patch) -> None:
    """A current folder with a model and a folder for results."""
    monkeypatch.chdir(tmp_path)
    for suffix in (".xml", ".bin"):
        shutil.copy2(SAMPLE.with_suffix(suffix), f"m{suffix}")
    Path("out").mkdir()


def test_who_holds_a_folder_is_told() -> None:
    with held(Path("out")):
        said = " ".join(answer(*WORDS, "--journal", "other.journal", code=2).err.split())
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
def test_what_is_no_lock_is_told(kind: str) -> None:
    lock = Path("out/batch.lock")
    if kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to("../m.xml")
    before = Path("m.xml").read_bytes()
    assert "out/batch.lock cannot be written" in answer(*WORDS, code=6).err
    assert Path("m.xml").read_bytes() == before


def payload(stage: str) -> dict[str, Any]:
    words, made = ["m.xml"], {"--output": "inferred.xml"}
    return {"verb": "infer", "words": words, "made": made, "folder": "out/m", "stage": stage}


def test_an_item_that_is_done_twice_is_in_nobodys_way() -> None:
    """A worker that was taken for dead ends its work in a folder of its own, or in none."""
    Path("stage").mkdir()
    first, second = (execute(payload("stage")) for _ in range(2))
    assert len({row.pop("place") for row in (first, second)}) == 2
    assert first == second
    assert not Path("out/m").exists()
    shutil.rmtree("stage")
    late = execute(payload("stage"))
    assert late["diagnostics"][0]["message"].startswith("out/m cannot be written")
    assert not Path("stage").exists()


def test_nothing_is_left_beside_the_results(monkeypatch: Patch) -> None:
    stray = Path("out/.irdeconv-0123456789abcdef")  # of a batch that was killed
    (stray / "half").mkdir(parents=True)
    assert command(*WORDS, "--report", "r.json") == 0
    item = json.loads(Path("r.json").read_text())["items"][0]
    assert {p.name for p in Path("out").iterdir()} == {item["item"], "batch.journal"}
    assert (
        {p.name for p in Path("out", item["item"]).iterdir()}
        == {f["name"] for f in item["files"]}
        == {"inferred.bin", "inferred.xml", "result.json"}
    )

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("irdeconv.cli.batch.os.rename", refuse)
    assert command(*WORDS, "--report", "r.json", "--force") == 6
    item = json.loads(Path("r.json").read_text())["items"][0]
    assert item["summary"] == f"out/{item['item']} cannot be written: Permission denied"


# -- reports ---------------------------------------------------------------------------------------


@POSIX
def test_reports_that_may_not_be_so_large_leave_the_old_ones() -> None:
    import resource

    words = [sys.executable, "-m", "irdeconv", *WORDS[:5], "--report", "a.json"]
    words += ["--report", "b.html", "--force"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(most: int) -> subprocess.CompletedProcess[str]:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        return subprocess.run(
            words, env=environment, preexec_fn=limit, capture_output=True, text=True, check=False
        )

    assert command(*words[3:]) == 0
    before = {name: Path(name).read_bytes() for name in ("a.json", "b.html")}
    for name in before:
        Path(name).write_text("old")
    small = max(len(before["a.json"]), Path("a.json.journal").stat().st_size)
    assert small < len(before["b.html"])
    done = run(small)
    assert done.returncode == 6
    assert "b.html cannot be written: File too large" in done.stderr
    assert "ulimit -f" in done.stderr
    assert done.stdout == "infer: 1 item: 1 yes\n"
    assert [Path(name).read_text() for name in before] == ["old", "old"]
    assert not [p.name for p in Path().iterdir() if p.name.startswith(".irdeconv-")]


def test_an_interruption_is_told(monkeypatch: Patch, capsys: Capture) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("irdeconv.cli.batch._write", interrupt)
    assert command(*[word for word in WORDS if word != "-q"], "--report", "r.json") == 130
    said = "interrupted: 1 of 1 item done; the same command with --resume goes on\n"
    assert capsys.readouterr().err == said
    assert not Path("r.json").exists()


def test_an_interruption_when_all_is_in_place_takes_nothing_back(monkeypatch: Patch) -> None:
    real, calls = Path.unlink, []

    def unlink(path: Path, missing_ok: bool = False) -> None:
        real(path, missing_ok)
        calls.append(path)
        if len(calls) == 3:  # after the two trials
            raise KeyboardInterrupt

    def write() -> None:
        with together() as files:
            monkeypatch.setattr(Path, "unlink", unlink)
            for name in ("a", "b"):
                files.write(Path(name), b"new")

    for name in ("a", "b"):
        Path(name).write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write()
    assert len(calls) > 3
    assert [Path(name).read_text() for name in ("a", "b")] == ["new", "new"]
