"""Expected outputs that are kept: forms, texts, the same bytes every time."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import irdeconv
import irdeconv as ird
from irdeconv import __version__
from irdeconv.cli.main import main
from irdeconv.ir.op import REGISTRY, SugarOp
from irdeconv.rewrite.forms import FORMS
from support.commands import write_files

# What each form emits for layers of every dialect: the files of tests/golden/forms.

FILES = sorted((Path(__file__).parent.parent / "golden" / "forms").glob("*.txt"))


def section(source: str, form: str) -> str:
    """Return what a form makes of a graph; nodes are numbered as they stand, without origins."""
    low = ird.lower(ird.infer(ird.parse(source)), form)
    others = [f"{r.name}: {r.form}, {r.reason}\n" for r in low.report if r.form != form]
    if len(others) == len(low.report):
        return "".join(others)
    text = re.sub(r" <origins = [^>]*>", "", ird.dump(low.graph))
    ids = {number: i for i, number in enumerate(re.findall(r"^  (%\d+)", text, re.M))}
    return "".join(others) + re.sub(r"%\d+", lambda m: f"%{ids[m[0]]}", text)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_what_each_form_emits(file: Path, update: bool) -> None:
    source = file.read_text("utf-8").split("--- ")[0]
    text = source + "".join(f"--- {form}\n{section(source, form)}" for form in FORMS)
    if update:
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def test_every_dialect_is_there() -> None:
    texts = "".join(file.read_text("utf-8") for file in FILES)
    sugar = {cls for cls in REGISTRY.values() if issubclass(cls, SugarOp) and cls.deconvolution}
    shown = {cls for cls in sugar if re.search(rf"\b{cls.version}\"?\.{cls.type}\(", texts)}
    assert {(cls.__module__, cls.type) for cls in sugar} == {
        (cls.__module__, cls.type) for cls in shown
    }


# Commands with their whole output: the files of tests/golden.

TEXTS = sorted((Path(__file__).parent.parent / "golden").glob("*.txt"))
EXPECTED = ("stdout", "stderr", "exit")


def sections(text: str) -> tuple[str, dict[str, str]]:
    """Return the command and the sections by name."""
    head, *parts = text.split("\n--- ")
    assert head.startswith("$ irdeconv ")
    split = [part.partition("\n") for part in parts]
    return head[2:], {name: body for name, _, body in split}


def joined(command: str, parts: dict[str, str]) -> str:
    """Return the text of a golden file."""
    bodies = [f"--- {name}\n{body}".rstrip("\n") + "\n" for name, body in parts.items()]
    return "".join([f"$ {command}\n", *bodies])


def run(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Run the command and return what it printed and its exit code."""
    code = main(shlex.split(command)[1:])
    captured = capsys.readouterr()
    shown = {"stdout": captured.out, "stderr": captured.err, "exit": str(code) if code else ""}
    return {
        k: v.replace(f'"{__version__}"', '"VERSION"').rstrip("\n") for k, v in shown.items() if v
    }


@pytest.mark.usefixtures("pipe")
@pytest.mark.parametrize("file", TEXTS, ids=lambda f: f.stem)
def test_golden(
    file: Path,
    update: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, parts = sections(file.read_text("utf-8"))
    inputs = {k: v for k, v in parts.items() if k not in EXPECTED}
    write_files({name: f"{body}\n" for name, body in inputs.items()}, tmp_path)
    monkeypatch.chdir(tmp_path)
    text = joined(command, inputs | run(command, capsys))
    if update:
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def test_there_are_golden_files() -> None:
    assert len(TEXTS) > 10


# What is written has the same bytes for every hash seed, number of threads and run.

ROOT = Path(irdeconv.__file__).parents[1]
HEAD = ROOT / "ir_samples" / "openvino" / "segmentation_head.xml"
SCRIPT = """
import sys
from irdeconv.cli.main import main
model, threads = sys.argv[1:]
for verb in (
    ["lower", model, "-o", "low.xml", "--certify", "low.json", "--report", "low.html"],
    ["inspect", model, "--format", "json", "-o", "model.json"],
    ["inspect", model, "--format", "svg", "-o", "model.svg"],
    ["run", model, "--seed", "3", "--threads", threads, "-o", "outputs.npz"],
):
    assert main(verb) == 0, verb
"""


@pytest.mark.thorough
def test_same_bytes(tmp_path: Path) -> None:
    """Two processes with other hash seeds and numbers of threads write the same files."""
    written = []
    for seed, threads in (("0", "1"), ("4242", "2")):
        place = tmp_path / seed
        place.mkdir()
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", SCRIPT, str(HEAD), threads]
        subprocess.run(command, cwd=place, env=env, check=True, capture_output=True, timeout=300)
        written.append({p.name: p.read_bytes() for p in sorted(place.iterdir())})
    assert set(written[0]) >= {"low.xml", "low.bin", "low.json", "low.html", "outputs.npz"}
    assert written[0] == written[1]
