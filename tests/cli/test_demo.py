"""`irdeconv demo`: a picture is enlarged, the network lowered, proved and compared on the way."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import irdeconv as ird
from irdeconv.cli.demo import CUT_MARGIN, FILES, MOST_PIXELS, NETWORK, enlarge
from irdeconv.cli.pictures import planes, psnr, resized
from support.commands import answer, command
from support.fixtures import Capture, Patch

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "ir_samples"
MODEL = SAMPLES / NETWORK
DECONVOLUTIONS = "ConvolutionBackpropData", "GroupConvolutionBackpropData"
# Measured when it was trained, in dB: of the network and of bicubic interpolation.
MEASURED = {"coffee": (33.52, 30.93), "chelsea": (33.60, 32.46)}


def network(form: str | None) -> Any:
    def run(x: Any) -> Any:
        return ird.run(MODEL, [x], form=form)["enlarged"]

    return run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", MEASURED)
def test_the_network_beats_bicubic_on_what_it_never_saw(name: str) -> None:
    with Image.open(MODEL.with_name(f"{name}.png")) as large:
        large.load()
    small = resized(large, (large.width // 2, large.height // 2))
    made = enlarge(small, network("stacked"), network(None))
    assert made.difference < 1e-6
    ours, theirs = psnr(made.image, large), psnr(resized(small, large.size), large)
    assert (ours, theirs) == pytest.approx(MEASURED[name], abs=0.011)


def test_the_network_is_valid_for_any_size() -> None:
    assert ird.validate(MODEL) == []
    graph = ird.infer(MODEL)
    assert [str(p.spec()) for p in graph.parameters] == ["f32[?,3,?,?]"]
    for type in DECONVOLUTIONS:
        assert len(list(graph.nodes(type))) == 1
    assert ird.certify(graph, ird.lower(graph))


def test_one_of_its_deconvolutions_is_bicubic_interpolation() -> None:
    """Away from the borders, where Pillow weighs what is there only."""
    x = planes(Image.open(MODEL.with_name("chelsea.png")))[:, :, :40, :50]
    y = ird.run(MODEL, [x], outputs=["bicubic"], form=None)["bicubic"][0, 0]
    reference = Image.fromarray(np.ascontiguousarray(x[0, 0]))
    smooth = np.asarray(resized(reference, (100, 80)))
    assert np.abs(y - smooth)[8:-8, 8:-8].max() < 2e-6


def test_the_other_one_does_real_work() -> None:
    """Without what it adds the picture is the bicubic one."""
    x = planes(Image.open(MODEL.with_name("coffee.png")))[:, :, :64, :64]
    made = ird.run(MODEL, [x], outputs=["detail", "bicubic", "enlarged"], form=None)
    assert np.abs(made["detail"]).max() > 0.05
    assert np.abs(made["enlarged"] - made["bicubic"]).max() > 0.05


def test_the_margin_is_what_reaches_an_output() -> None:
    x = planes(Image.open(MODEL.with_name("coffee.png")))[:, :, :60, :60].copy()
    y = network(None)(x)
    x[:, :, 30, 30] += 1
    _, _, rows, columns = np.nonzero(network(None)(x) != y)
    assert 2 * 30 - rows.min() < 2 * CUT_MARGIN
    assert columns.max() - 2 * 30 < 2 * CUT_MARGIN


@pytest.mark.oracles
def test_openvino_runs_it() -> None:
    openvino = pytest.importorskip("openvino")
    x = planes(Image.open(MODEL.with_name("coffee.png")))[:, :, :40, :52]
    compiled = openvino.Core().compile_model(MODEL, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert np.abs(compiled(x)["enlarged"] - network(None)(x)).max() < 1e-5


def test_the_demo(tmp_path: Path) -> None:
    said = answer("demo").out
    steps = "picture validate infer lower certify run compare write measure page"
    assert re.findall(r"^✓ (\w+)", said, re.M) == steps.split()
    assert "2 of 2 layers proved, for pictures of every size" in said
    assert "PSNR 33.52 dB, bicubic 30.93 dB: +2.59 dB" in said
    assert "no original" not in said
    assert max(map(len, said.splitlines())) <= 80
    folder = tmp_path / "irdeconv_demo"
    assert {p.name for p in folder.iterdir()} == set(FILES)
    assert os.listdir(tmp_path) == ["irdeconv_demo"]
    for name in FILES:
        assert f"\n  {name} " in said
    with Image.open(folder / "input.png") as small, Image.open(folder / "enlarged.png") as large:
        assert large.size == tuple(2 * n for n in small.size) == (400, 320)
    lowered = ird.read(folder / "lowered.xml")
    assert not any(list(lowered.nodes(type)) for type in DECONVOLUTIONS)
    assert answer("demo", "--format", "json").out == (folder / "demo.json").read_text("utf-8")


def test_the_document(tmp_path: Path) -> None:
    given = ("--form", "auto", "--target", "no-depth-to-space", "-o", "made")
    found = answer("demo", "--format", "json", *given).json
    assert (found["schema"], found["passed"], found["form"]) == ("irdeconv/demo/1", True, "auto")
    assert (found["size"], found["enlarged"]) == ([200, 160], [400, 320])
    assert found["psnr"] == {"network": 33.524, "bicubic": 30.931}
    assert [d["name"] for d in found["deconvolutions"]] == ["bicubic", "detail"]
    assert set(found["files"]) == set(FILES)
    assert all(s["passed"] for s in found["steps"])


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P"])
def test_any_picture(tmp_path: Path, mode: str) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (11, 14, 4), np.uint8)
    image = Image.fromarray(pixels).convert("RGB" if mode == "P" else mode)
    image.convert(mode).save(tmp_path / "my.png")
    said = answer("demo", "--input", "my.png", "-o", "made").out
    assert "✓ picture   my.png, 14 x 11" in said
    assert "There is no original to compare it with, so no PSNR is measured." in said
    assert {p.name for p in (tmp_path / "made").iterdir()} == set(FILES) - {"input.png"}
    with Image.open(tmp_path / "made" / "enlarged.png") as made:
        assert made.mode == {"P": "RGB"}.get(mode, mode)
        assert made.size == (28, 22)


def test_a_photograph_of_a_camera(tmp_path: Path) -> None:
    with Image.open(MODEL.with_name("chelsea.png")) as image:
        exif = Image.Exif()
        exif[0x112] = 8
        image.crop((0, 0, 30, 20)).save(tmp_path / "my.jpg", exif=exif)
    assert command("demo", "--input", "my.jpg") == 0
    with Image.open(tmp_path / "irdeconv_demo" / "enlarged.png") as made:
        assert made.size == (40, 60)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--input", "none.png"], 6, "cannot read none.png: No such file"),
        (["--input", "."], 6, ". is a folder = name a picture"),
        (["--input", "text.png"], 2, "text.png is no picture that can be read: it is plain text"),
        (["--input", "cut.png"], 2, "cut.png: the picture cannot be read"),
        (["--input", "large.png"], 5, "may have at most 16,000,000 pixels; this one has 4001 x"),
        (["--input", "a.png", "--input", "b.png"], 2, "demo enlarges one picture at a time"),
        (["--input", "made/enlarged.png", "-o", "made"], 2, "would be overwritten"),
        (["-o", "made"], 2, "made has enlarged.png, which no demo has written"),
        (["-o", "text.png"], 6, "text.png cannot be written into: it is not a folder"),
        (["my.png"], 2, "irdeconv demo --input my.png"),
        (["openvino/dynamic"], 2, "irdeconv demo --samples openvino/dynamic"),
        (["--form", "phase"], 2, 'did you mean "phases"?'),
        (["--target", "nobody"], 2, "nobody"),
    ],
)
def test_mistakes(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    (tmp_path / "text.png").write_text("only text")
    picture = Image.fromarray(np.random.default_rng(3).integers(0, 256, (20, 10), np.uint8))
    picture.save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:120])
    Image.new("1", (MOST_PIXELS // 4000 + 1, 4000)).save(tmp_path / "large.png")
    (tmp_path / "made").mkdir()
    picture.save(tmp_path / "made" / "enlarged.png")
    before = sorted(p for p in tmp_path.rglob("*"))
    assert said in " ".join(answer("demo", *words, code=code).err.split())
    assert sorted(p for p in tmp_path.rglob("*")) == before


def test_force_overwrites_what_stands_there(tmp_path: Path) -> None:
    (tmp_path / "enlarged.png").write_text("mine")
    picture = Image.new("L", (20, 10), 3)
    picture.save(tmp_path / "my.png")
    assert command("demo", "--input", "my.png", "-o", ".", "--force") == 0
    with Image.open(tmp_path / "enlarged.png") as made:
        assert made.size == (40, 20)


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert "Permission denied" in answer("demo", "-o", "locked", code=6).err


def test_what_does_not_hold_is_said(tmp_path: Path, monkeypatch: Patch) -> None:
    """The lowered network shifts the bicubic picture by one pixel."""
    text = MODEL.read_text("utf-8").replace('pads_begin="7,7"', 'pads_begin="6,6"')
    (tmp_path / "other.xml").write_text(text.replace('pads_end="7,7"', 'pads_end="8,8"'))
    (tmp_path / "other.bin").write_bytes(MODEL.with_suffix(".bin").read_bytes())
    other, write = ird.lower("other.xml").graph, ird.write
    monkeypatch.setattr("irdeconv.write", lambda graph, path: write(other, path))
    said = answer("demo", code=1).out
    assert re.findall(r"^✗ (\w+)", said, re.M) == ["certify", "compare", "measure"]
    assert "not as it should be: certify, compare, measure" in said
    assert json.loads((tmp_path / "irdeconv_demo/demo.json").read_text())["passed"] is False


def test_without_the_letters_for_ticks(monkeypatch: Patch, capsys: Capture) -> None:
    from irdeconv.cli.console import Console
    from irdeconv.cli.demo import Steps

    ticks = iter(range(10))
    steps = Steps(Console(), clock=lambda: float(next(ticks)))
    with steps.step("right") as step:
        step.text = "it holds"
    steps._marks = {True: ("ok  ", ""), False: ("FAIL", "")}
    with steps.step("wrong") as step:
        step.passed = False
    assert not steps.passed
    assert [s.seconds for s in steps.all] == [1.0, 1.0]
    out = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"✓ right     it holds +1.00 s", out[0])
    assert re.fullmatch(r"FAIL wrong +1.00 s", out[1])


def test_every_picture_is_credited() -> None:
    """Those that were trained on are others than those that are measured on."""
    text = MODEL.with_name("README.md").read_text("utf-8")
    parts = text.split("## Pictures")[1:]
    rows = [re.findall(r"^\| ([a-z ]+) \| (.+?) \| (.+?) \| (.+?) \|$", p, re.M)[1:] for p in parts]
    measured, trained = ({name for name, *_ in part} for part in rows)
    assert (len(measured), len(trained)) == (5, 15)
    assert not measured & trained
    assert {p.stem for p in MODEL.parent.glob("*.png")} <= measured
