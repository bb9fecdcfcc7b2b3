"""Batches of models, and their processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from irdeconv.base.errors import FileAccessError, UsageError
from irdeconv.cli import batch_executors
from irdeconv.cli.batch_executors import Child, Errand, Results, in_process, in_processes
from irdeconv.cli.batch_items import found_files, name_of, worst
from support import batch_calls
from support.commands import Capture, Patch, answer, command
from support.schemas import require_schema, validator

# `irdeconv batch`: items, their folders, the journal, the report.

ROOT = Path(__file__).resolve().parents[2]
HEAD = "openvino/segmentation_head.xml"
FEW = ("openvino/deconv_3x3_to_5x5.xml", "broken/wrong_channels.xml", "openvino/dynamic.xml")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: Patch) -> Path:
    """A folder with some models, and nothing else, as the current one."""
    for name in (*FEW, HEAD):
        path = tmp_path / "models" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / "ir_samples" / name, path)
        weights = (ROOT / "ir_samples" / name).with_suffix(".bin")
        if weights.exists():
            shutil.copy(weights, path.with_suffix(".bin"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(*words: object) -> dict[str, Any]:
    """The report of a batch in this process."""
    command("batch", *words, "--jobs", "0", "--report", "r.json", "--force", "-q")
    found: dict[str, Any] = json.loads(Path("r.json").read_text())
    require_schema(found)
    return found


# -- items -----------------------------------------------------------------------------------------


def test_names_are_safe_and_different() -> None:
    paths = ["a/b.xml", "a_b.xml", "../a/b.xml", "/etc/passwd", "..", ".", "a/..b.xml", "ä/\n.xml"]
    paths += ["x" * 300 + ".xml", "A/b.xml", "-/-.xml", "a/b.onnx", "CON.xml"]
    names = [name_of(path) for path in paths]
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert name == Path(name).name
        assert name.isascii()
        assert len(name) < 80
        assert name[0].isalnum()
    assert name_of("a//b.xml") == name_of("./a/b.xml")


def test_folders_patterns_and_files(models: Path) -> None:
    Path("models/.hidden.xml").touch()
    Path("models/info.json").touch()
    os.mkfifo("models/pipe.xml")
    outside = models / "outside.xml"
    outside.touch()
    Path("models/leads_out.xml").symlink_to(outside)
    Path("models/leads_in.xml").symlink_to("openvino/dynamic.xml")
    Path("models/loop").symlink_to(".")
    below = [f"models/{name}" for name in sorted((*FEW, HEAD))]
    assert found_files(["models"]) == [below[0], "models/leads_in.xml", *below[1:]]
    assert found_files(["models/openvino/*.xml"]) == below[1:]
    assert found_files(["models/**/dyn*.xml", "models/openvino"]) == [below[2], below[1], below[3]]
    assert found_files(["models/info.json"]) == ["models/info.json"]
    with pytest.raises(FileAccessError, match="models/nothing"):
        found_files(["models/nothing"])
    for nothing in ("*.none", "", "models/**.xml", "models/**x/*.xml", "models/["):
        with pytest.raises(UsageError):
            found_files([nothing])


def test_the_worst_code() -> None:
    rows = {(): 0, (0, 7): 7, (7, 1, 0): 1, (1, 5, 3): 3, (2, 70, 6): 70}
    assert {codes: worst(codes) for codes in rows} == rows


# -- verbs -----------------------------------------------------------------------------------------


def test_each_verb(models: Path) -> None:
    found = report("validate", "models")
    assert found["counts"] == {"yes": 3, "no": 1}
    assert [i["file"] for i in found["items"]] == sorted(i["file"] for i in found["items"])
    assert found["items"][0]["diagnostics"][0]["code"] == "E302"
    assert report("infer", "models")["counts"] == {"yes": 3, "unreadable": 1}
    good = ["models/openvino/segmentation_head.xml", "models/openvino/deconv_3x3_to_5x5.xml"]
    lowered = report("lower", *good, "-o", "out", "--form", "stacked", "--certify")
    assert [i["summary"] for i in lowered["items"]] == [
        "2 deconvolutions of 2 lowered, 2 proved",
        "1 deconvolution of 1 lowered, 1 proved",
    ]
    names = ["certificates.json", "lowered.bin", "lowered.xml", "result.json"]
    assert [f["name"] for f in lowered["items"][0]["files"]] == names
    assert report("check-certificate", *good, "--against", "out")["counts"] == {"yes": 2}
    where = "out/{item}/lowered.xml"
    assert report("compare", *good, "--against", where, "--input=ones")["exit_code"] == 0
    assert report("compare", *good)["counts"] == {"yes": 2}
    ran = report("run", *good, "-o", "ran", "--input", "ones", "--seed", "3")
    assert [f["name"] for f in ran["items"][0]["files"]] == ["outputs.npz", "result.json"]
    require_schema(json.loads(Path("ran", ran["items"][0]["item"], "result.json").read_text()))


def test_verbs_that_edit_and_show(models: Path) -> None:
    onnx = ROOT / "ir_samples/onnx/upscaler.onnx"
    assert report("convert", onnx, f"models/{HEAD}", "-o", "c")["counts"] == {
        "unsupported": 1,
        "unreadable": 1,
    }
    simple = report("simplify", f"models/{HEAD}", "-o", "s")["items"][0]
    names = ["result.json", "simplified.bin", "simplified.xml"]
    assert [f["name"] for f in simple["files"]] == names
    plain = f"s/{simple['item']}/simplified.xml"
    rows = {
        ("inspect", "--only=up*"): "19 layers, 3,592 parameters, 716,800 MACs",
        ("explain", "--solve=64"): "2 deconvolutions",
        ("simplify", "--check=irdeconv"): "19 layers became 19",
    }
    for (verb, word), summary in rows.items():
        assert report(verb, plain, word)["items"][0]["summary"] == summary
    assert report("inspect", "models/openvino/dynamic.xml")["items"][0]["summary"].endswith(
        "0 + ? MACs"
    )
    assert report("bench", plain, "--time=0.01", "--rounds=1")["items"][0]["summary"].endswith(
        " ms"
    )


def test_the_report_does_not_depend_on_who_did_it(models: Path) -> None:
    words = ("batch", "lower", "models", "--force", "-q")
    made = []
    for folder, jobs in (("a", "0"), ("b", "2")):
        where = Path(folder, "out")
        files = [f"{folder}/r{suffix}" for suffix in (".json", ".junit", ".sarif", ".html")]
        Path(folder).mkdir()
        reports = [word for file in files for word in ("--report", file)]
        assert command(*words, "-o", where, "--jobs", jobs, *reports) == 3
        made.append([Path(file).read_bytes() for file in files])
    assert made[0] == made[1]


def test_formats(models: Path) -> None:
    evil = Path("models", 'e\x1b[31m<b>\u202e"&.xml')
    shutil.copy("models/broken/wrong_channels.xml", evil)
    files = ("r.junit", "r.sarif", "r.html")
    reports = [word for file in files for word in ("--report", file)]
    assert command("batch", "validate", "models", "--jobs", "0", "-q", *reports) == 1
    junit, sarif, html = (Path(file).read_text() for file in files)
    for text in (junit, html):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "<b>" not in text
    suite = ElementTree.fromstring(junit)[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "2", "0")
    results = json.loads(sarif)["runs"][0]["results"]
    assert [r["ruleId"] for r in results] == ["E302", "E120", "E302"]
    assert results[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 27


def test_an_html_report_links_to_the_files_and_pages_of_items(models: Path) -> None:
    words = ("models", "-o", "all/out", "--report", "all/r/report.html", "--jobs", "0", "-q")
    Path("all/r").mkdir(parents=True)
    assert command("batch", "lower", *words) == 3
    html = Path("all/r/report.html").read_text()
    assert 'data-place="../out"' in html
    items = [json.loads(line) for line in re.findall('^{".*}$', html, re.M)]
    names = [Path("all/out", item["item"], f["name"]) for item in items for f in item["files"]]
    assert all(name.is_file() for name in names)
    assert [n.name for n in names].count("page.html") == 3


def test_an_answer_is_not_told_twice(models: Path, capsys: Capture) -> None:
    name = "models/openvino/segmentation_head.xml"
    assert command("batch", "run", name, "--jobs", "0", "--shape", "[1,2,32,32]") != 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("data has 2 channels, the filter wants 3") == 1
    assert f"{name}:" in out


def test_very_many_diagnostics_are_not_counted(models: Path, capsys: Capture) -> None:
    text = Path("models/broken/wrong_channels.xml").read_text()
    at = text.index("</layers>")
    layers = "".join(
        f'<layer id="{900 + n}" name="n{n}" type="No" version="opset1" />' for n in range(60)
    )
    Path("many.xml").write_text(text[:at] + layers + text[at:])
    assert command("batch", "validate", "many.xml", "--jobs", "0") != 0
    assert "and at least 45 more diagnostics" in capsys.readouterr().out


def test_a_folder_of_links_says_so(models: Path, capsys: Capture) -> None:
    Path("links").mkdir()
    Path("links/there").symlink_to(models.absolute())
    assert command("batch", "validate", "links") == 2
    assert "links that lead out" in " ".join(capsys.readouterr().err.split())


def test_nothing_to_prove_is_said(models: Path, capsys: Capture) -> None:
    sample = "models/openvino/segmentation_head.xml"
    for name in ("plain.xml", "other.xml"):  # neither has a deconvolution any more
        assert command("lower", sample, "-o", name, "--form", "stacked", "-q") == 0
    capsys.readouterr()
    row = report("check-certificate", "plain.xml", "--against", "other.xml")
    assert row["exit_code"] == 1
    assert row["items"][0]["summary"] == "nothing to prove: no rewritten layers"


# -- the journal -----------------------------------------------------------------------------------


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_what_is_done_is_not_done_again(models: Path, capsys: Capture) -> None:
    words = ("batch", "lower", "models", "-o", "out", "--jobs", "0", "--report", "r.json")
    command(*words)
    first, before = Path("r.json").read_bytes(), lines("out/batch.journal")
    for line in before:
        assert not list(validator("batch-journal").iter_errors(line))
    assert len(before) == 5
    assert command(*words) == 2, "results would be lost"
    assert "--resume goes on" in capsys.readouterr().err
    command(*words, "--resume")
    assert "4 of 4 items are done already" in capsys.readouterr().err
    assert lines("out/batch.journal") == before
    assert Path("r.json").read_bytes() == first


def test_what_has_changed_is_done_again(models: Path) -> None:
    words = ("batch", "infer", "models", "-o", "out", "--jobs", "0", "-q", "--resume")
    command(*words)
    count = len(lines("out/batch.journal"))
    with open("models/openvino/dynamic.xml", "a") as file:
        file.write("\n")
    command(*words)
    assert len(lines("out/batch.journal")) == count + 1
    command(*words, "--no-weights")
    assert len(lines("out/batch.journal")) == count + 5
    command(*words)
    assert len(lines("out/batch.journal")) == count + 8, "--no-weights had left no models"
    shutil.rmtree(f"out/{name_of('models/openvino/dynamic.xml')}")
    command(*words)
    assert len(lines("out/batch.journal")) == count + 9


def test_resume_compares_contents(models: Path) -> None:
    words = ("batch", "infer", "models/openvino", "-o", "out", "--jobs", "0", "-q", "--resume")
    command(*words)
    count = len(lines("out/batch.journal"))
    os.utime("models/openvino/dynamic.xml")
    command(*words)
    assert len(lines("out/batch.journal")) == count, "other times, but the same content"
    model = Path("models/openvino/dynamic.xml")
    status, text = model.stat(), model.read_bytes()
    model.write_bytes(text.replace(b"\n", b" ", 1))
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
    command(*words)
    assert len(lines("out/batch.journal")) == count + 1, "the same size and time of change"
    result = Path("out", name_of(str(model)), "inferred.xml")
    before = result.read_bytes()
    result.write_bytes(bytes(len(before)))
    command(*words)
    assert len(lines("out/batch.journal")) == count + 2, "a result of the same size"
    assert result.read_bytes() == before


def test_a_changed_line_is_done_again(models: Path) -> None:
    words = ("batch", "validate", "models", "--jobs", "0", "-q", "--report", "r.json", "--resume")
    command(*words)
    first, journal = Path("r.json").read_bytes(), Path("r.json.journal")
    journal.write_text(
        journal.read_text().replace('"status":"no","exit_code":1', '"status":"yes","exit_code":0')
    )
    command(*words)
    assert Path("r.json").read_bytes() == first
    assert len(lines("r.json.journal")) == 6


def test_half_a_line_and_rubbish_are_done_again(models: Path) -> None:
    words = ("batch", "validate", "models", "--jobs", "0", "-q", "--report", "r.json", "--resume")
    command(*words)
    first = Path("r.json").read_bytes()
    journal = Path("r.json.journal")
    whole = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*whole[:2], b"[]\n", b'{"key": 1, "item": {}}\n', whole[2][:-9]]))
    command(*words)
    assert Path("r.json").read_bytes() == first
    assert journal.read_bytes().splitlines(keepends=True)[4:] == whole[2:]
    journal.write_bytes(b"something else\n")
    assert command(*words) == 2
    assert journal.read_bytes() == b"something else\n"


def test_one_batch_at_a_time(models: Path, capsys: Capture) -> None:
    fcntl = pytest.importorskip("fcntl")
    with open("x.journal", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert command("batch", "validate", "models", "--journal", "x.journal") == 2
    assert "another batch is at work" in capsys.readouterr().err


def test_links_in_a_circle(models: Path) -> None:
    Path("models/a.xml").symlink_to("b.xml")
    Path("models/b.xml").symlink_to("a.xml")
    Path("models/c.xml").symlink_to("gone.xml")
    links = [i for i in report("validate", "models")["items"] if i["exit_code"] == 6]
    hints = [link["diagnostics"][0]["hint"] for link in links]
    assert hints == [
        "it is a link to b.xml, which leads back to it",
        "it is a link to a.xml, which leads back to it",
        "it is a link to gone.xml, which does not exist",
    ]
    found = report("validate", "models/a.xml", "models/b.xml")["items"]
    assert [item["exit_code"] for item in found] == [6, 6]
    assert command("lower", f"models/{HEAD}", "-o", "models/a.xml") == 0  # replaces the link
    assert command("validate", "models/b.xml") == 0
    Path("out").symlink_to("out")
    for words in (("lower", "out", "-o", "x.xml"), ("batch", "infer", "models", "-o", "out")):
        said = answer(*words, code=6).err
        assert "it is a link to out, which leads back to it" in " ".join(said.split())


@pytest.mark.skipif(
    "sys.platform == 'win32'", reason="it stops the command with SIGKILL, as POSIX has it"
)
def test_kill_and_resume(models: Path) -> None:
    serial = report("infer", "models", "-o", "serial")
    words = ["infer", "models", "-o", "killed", "--jobs", "1", "-q"]
    words += ["--report", "k.json", "--resume"]
    journal, kills = Path("killed/batch.journal"), 0
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for known in (2, 99):
        process = subprocess.Popen(
            [sys.executable, "-m", "irdeconv", "batch", *words],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        while process.poll() is None:
            if journal.exists() and journal.read_bytes().count(b"\n") > known:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        process.wait()
    assert kills
    assert json.loads(Path("k.json").read_text()) == serial
    made = {item["item"] for item in serial["items"]}
    assert {path.name for path in Path("killed").iterdir()} == {*made, "batch.journal"}
    keys = [line["key"] for line in lines("killed/batch.journal")[1:]]
    assert len(keys) == len(set(keys)) == 4, "none is lost, none done twice"


def test_an_extension_is_for_the_items(models: Path) -> None:
    Path("crash.py").write_text("import os\nos.path.exists('no') or os._exit(3)\n")
    words = ("batch", "validate", "models/broken", "--extension", "crash.py", "--jobs", "1", "-q")
    words += ("--report", "r.json", "--resume")
    assert command(*words) == 70
    assert json.loads(Path("r.json").read_text())["counts"] == {"crashed": 1}
    Path("no").touch()  # the cause may be gone, such as too little memory
    assert command(*words) == 1


# The pool of processes of a batch: whatever an item does to its process, the others go on.

CALL = "support.batch_calls:call"


def errand(**limits: Any) -> Errand:
    return Errand(CALL, os.getcwd(), **limits)


def done(work: Callable[[list[dict[str, Any]]], Results], hows: Sequence[str]) -> list[str]:
    """What became of items, in their order."""
    with closing(work([{"how": how} for how in hows])) as results:
        rows = dict(results)
    return [f"{rows[i]['status']} {rows[i]['summary']}" for i in range(len(hows))]


def test_whatever_an_item_does_the_others_go_on() -> None:
    hows = ["well", "crash", "well", "hang", "exit", "print", "well", "nonsense"]
    assert done(partial(in_processes, errand(timeout=1.0), 2), hows) == [
        "yes well",
        "crashed the process of this item was ended by signal 9",
        "yes well",
        "timed out not finished after 1 s",
        "crashed the process of this item ended with exit code 3",
        "yes print",
        "yes well",
        "crashed the process of this item was ended by signal 9",
    ]


def test_in_this_process() -> None:
    assert done(partial(in_process, batch_calls.call), ["well", "well"]) == ["yes well"] * 2


def test_a_process_is_used_again_until_it_dies() -> None:
    with closing(Child(errand())) as child:
        first, second = (child.run({"how": "who"})["summary"] for _ in range(2))
        assert first == second != f"who in {os.getpid()}"
        child.run({"how": "exit"})
        assert child.run({"how": "who"})["summary"] != first


@pytest.mark.skipif("not sys.platform.startswith('linux')", reason="limits of memory need Linux")
def test_memory_is_limited_beyond_that_of_an_idle_process() -> None:
    with closing(Child(errand(memory=200 * 2**20))) as child:
        assert child.run({"how": "memory", "bytes": 100 * 2**20})["summary"] == "memory"
        before = child.run({"how": "who"})["summary"]
        assert child.run({"how": "memory", "bytes": 300 * 2**20})["summary"] == "refused"
        assert child.run({"how": "who"})["summary"] != before, "it had no memory to go on with"


@pytest.mark.skipif("not hasattr(__import__('os'), 'fork')", reason="it forks")
def test_copies_of_a_process_neither_answer_nor_stay() -> None:
    hows = ["fork", "well", "who", "orphan", "well"]
    rows = done(partial(in_processes, errand(), 1), hows)
    assert rows[:2] == ["yes fork", "yes well"]
    assert rows[3:] == ["crashed the process of this item ended with exit code 5", "yes well"]


def test_a_process_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not start"):
        Child(Errand("support.nothing:call", str(tmp_path))).run({})


@pytest.mark.skipif("sys.platform == 'win32'", reason="it ends a process with a signal of POSIX")
@pytest.mark.parametrize("times", [1, 9])
def test_a_process_that_is_killed_while_it_starts(
    times: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    killed = "import os, pathlib\nmarks = pathlib.Path({!r})\nn = len(os.listdir(marks))\n"
    killed += "if n < {}:\n    (marks / str(n)).touch()\n    os.kill(os.getpid(), 9)\n"
    code = killed.format(str(tmp_path), times) + batch_executors.BEGIN
    monkeypatch.setattr(batch_executors, "BEGIN", code)
    with closing(Child(errand())) as child:
        if times == 1:
            assert child.run({"how": "well"})["summary"] == "well"
            return
        with pytest.raises(UsageError, match="does not start"):
            child.run({"how": "well"})


@pytest.mark.skipif(
    "sys.platform == 'win32'", reason="it ends workers with signals, as POSIX has them"
)
def test_who_stops_asking_leaves_no_process_behind(tmp_path: Path) -> None:
    payloads = [{"how": "mark", "folder": str(tmp_path), "name": str(i)} for i in range(3)]
    payloads += [{"how": "hang"}] * 2
    results = in_processes(errand(), 2, payloads)
    next(results)
    results.close()
    (pid, *_) = {int(p.name.split("-")[1]) for p in tmp_path.iterdir()}
    for _ in range(100):
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            time.sleep(0.05)
            continue
        return
    raise AssertionError("the process is still there")
