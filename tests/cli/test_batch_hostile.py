"""`irdeconv batch` among odd folders, names, journals, extensions, and on a full disk."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.base.errors import FileAccessError
from irdeconv.cli.batch_items import found_files, is_row, name_of
from support.commands import Capture, Patch, command

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "ir_samples/openvino/dynamic.xml"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: Patch) -> None:
    """A current folder with a folder of two models."""
    monkeypatch.chdir(tmp_path)
    for name in ("models/a", "models/sub/b"):
        add(name)


def add(name: str) -> None:
    for suffix in (".xml", ".bin"):
        path = Path(f"{name}{suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLE.with_suffix(suffix), path)


def batch(*words: object) -> int:
    return command("batch", "validate", *words, "--jobs", "0", "-q")


def counts(path: str = "r.json") -> Any:
    return json.loads(Path(path).read_text())["counts"]


def refuse(monkeypatch: Patch, folder: str) -> None:
    """Let a folder be none that may be searched, also for root."""
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path) == folder:
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


# -- folders and names -----------------------------------------------------------------------------


def test_an_unreadable_folder_is_an_item_and_the_others_go_on(monkeypatch: Patch) -> None:
    refuse(monkeypatch, "models/sub")
    assert batch("models", "--report", "r.json") == 6
    items = json.loads(Path("r.json").read_text())["items"]
    assert [(i["file"], i["status"]) for i in items] == [
        ("models/a.xml", "yes"),
        ("models/sub", "no access"),
    ]
    assert [d["code"] for d in items[1]["diagnostics"]] == ["E100"]
    refuse(monkeypatch, "models")
    with pytest.raises(FileAccessError, match="cannot read models"):
        found_files(["models"])


def test_a_file_counts_once_however_it_is_spelled(tmp_path: Path) -> None:
    Path("elsewhere").mkdir()
    Path("link").symlink_to("models/sub")
    spellings = ["models/a.xml", "./models//a.xml", str(tmp_path / "models/a.xml"), "link/../a.xml"]
    assert found_files(spellings) == ["models/a.xml"]
    add("a")  # which link/../a.xml is not
    assert found_files(["a.xml", "link/../a.xml"]) == ["a.xml", "link/../a.xml"]
    assert name_of("a.xml") != name_of("link/../a.xml")


def test_folders_deeper_than_python_calls(tmp_path: Path) -> None:
    os.chdir("models")
    for _ in range(1200):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(tmp_path)
    try:
        assert found_files(["models"]) == ["models/a.xml", "models/sub/b.xml"]
    finally:
        os.chdir("models/" + "d/" * 1200)
        for _ in range(1200):  # what pytest removes folders with is recursive
            os.chdir("..")
            os.rmdir("d")


def test_names_cannot_forge_lines(capsys: Capture) -> None:
    name = "models/x: 1 error\nyes  models/a\x1b[1m\u202e.xml"
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("nothing")
    assert batch("models", "--report", "r.junit", "--report", "r.html") == 1
    assert "\nyes" not in capsys.readouterr().out
    for file in ("r.junit", "r.html"):
        assert "\nyes" not in Path(file).read_text()


# -- what is written -------------------------------------------------------------------------------


def test_a_report_may_go_into_the_folder_of_results() -> None:
    assert batch("models", "-o", "new", "--report", "new/r.json") == 0
    assert counts("new/r.json") == {"yes": 2}
    assert batch("models", "--report", "none/r.json") == 6
    assert not Path("none").exists()


def test_results_are_no_models_of_the_next_run(capsys: Capture) -> None:
    words = ("models", "-o", "models/out", "--jobs", "0", "-q", "--resume")
    words += ("--report", "models/r.xml")
    for _ in range(2):
        assert command("batch", "infer", *words) == 0
        assert Path("models/r.xml").read_text().count("<testcase") == 2
    assert batch("models/out", "--report", "r.json") == 0
    assert counts() == {"yes": 2}
    capsys.readouterr()
    assert batch("models", "-o", "./models/") == 2
    assert "the results would be among the models" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--report", "models/a.xml"),
        ("--report", "r.json", "--journal", "./r.json"),
        ("--report", "r.json", "--journal", "models/sub/b.bin"),
    ],
)
def test_nothing_replaces_what_is_read(words: tuple[str, ...]) -> None:
    before = Path("models/a.xml").read_bytes()
    assert batch("models", *words) == 2
    assert Path("models/a.xml").read_bytes() == before
    assert not Path("r.json").exists()


def test_a_full_disk_is_an_answer_and_not_kept(monkeypatch: Patch) -> None:
    words = ("models", "-o", "out", "--report", "r.json")

    real = os.replace

    def full(source: Path, target: Path) -> None:
        if "out" in target.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    with monkeypatch.context() as m:
        m.setattr("irdeconv.formats.atomic.os.replace", full)
        assert batch(*words) == 6
    found = json.loads(Path("r.json").read_text())
    assert found["counts"] == {"no access": 2}
    assert {d["code"] for i in found["items"] for d in i["diagnostics"]} == {"E701"}
    assert batch(*words, "--resume") == 0
    with monkeypatch.context() as m:
        m.setattr("irdeconv.cli.batch_items.os.write", lambda *_: full(Path(), Path("out")))
        assert batch(*words, "--force") == 6


# -- extensions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import sys\nsys.exit(0)", 2),
        ("raise ValueError('x' * 10_000_000)", 2),
        ("raise MemoryError", 5),
    ],
)
def test_extensions_that_end_the_verb(text: str, code: int) -> None:
    Path("x.py").write_text(text)
    assert batch("models/a.xml", "--extension", "x.py", "--report", "r.json") == code
    assert Path("r.json").stat().st_size < 10_000


# -- the journal -----------------------------------------------------------------------------------

ROW = {"status": "yes", "exit_code": 0, "summary": "", "result": None}
DIAGNOSTIC = dict.fromkeys(("code", "severity", "message"), "E100")
DIAGNOSTIC |= dict.fromkeys(("file", "line", "column", "layer", "hint"))


def test_rows_that_no_report_could_show_are_none() -> None:
    made = {"name": "x", "bytes": 1, "sha256": ""}
    good = {**ROW, "diagnostics": [DIAGNOSTIC], "files": [made]}
    assert is_row(good)
    for bad in (
        None,
        {**good, "status": "fine"},
        {**good, "exit_code": 99},
        {**good, "files": [{"name": "x"}]},
        {**good, "diagnostics": [7]},
        {**good, "diagnostics": [{**DIAGNOSTIC, "code": "E9999"}]},
        {**good, "diagnostics": [{**DIAGNOSTIC, "line": "1"}]},
    ):
        assert not is_row(bad)


def test_a_changed_journal_is_done_again() -> None:
    words = ("models", "--report", "r.json", "--resume")
    assert batch(*words) == 0
    journal = Path("r.json.journal")
    head, *rest = map(json.loads, journal.read_text().splitlines())
    for line in rest:
        line["item"]["diagnostics"] = [{}]
    text = "\n".join(map(json.dumps, (head, *rest)))
    journal.write_text(f"{text}\n" + "[" * 100_000 + "\n" + '{"key": 1' + "0" * 5000 + "}\n")
    assert batch(*words) == 0
    assert counts() == {"yes": 2}


def test_external_data_counts_by_the_names_that_the_model_says() -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    weight = helper.make_tensor("w", TensorProto.FLOAT, (2,), np.zeros(2, "<f4").tobytes(), True)
    onnx.external_data_helper.set_external_data(weight, "sub/numbers", 0, 8)
    weight.ClearField("raw_data")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))
    body = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=weight)], "body", [], [value]
    )
    node = helper.make_node("If", ["b"], ["x"], then_branch=body, else_branch=body)
    graph = helper.make_graph([node], "g", [], [value])
    Path("models/m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    Path("models/sub/numbers").write_bytes(bytes(8))
    words = ("models/m.onnx", "--report", "r.json", "--resume")
    journal = Path("r.json.journal")
    for number, content in enumerate((bytes(8), bytes(8), b"12345678"), 2):
        Path("models/sub/numbers").write_bytes(content)
        batch(*words)
        assert len(journal.read_text().splitlines()) == (2 if number < 4 else 3)
