"""`irdeconv demo`: a picture is enlarged, the network lowered, proved and compared on the way."""

import json
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import irdeconv as ird
from irdeconv.cli.about import samples
from irdeconv.cli.demo import CUT_MARGIN, FILES, MOST_PIXELS, NETWORK, enlarge, spans
from irdeconv.cli.pictures import image_of, planes, png, psnr, read, resized
from irdeconv.ir.graph import Graph
from support.commands import Capture, Patch, answer, command
from support.ir_text import LAYER, W, write_ir
from support.memory import peak_of

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


def test_the_document(tmp_path: Path, monkeypatch: Patch) -> None:
    with Image.open(MODEL.with_name("coffee.png")) as image:
        image.crop((100, 60, 220, 150)).save(tmp_path / "small.png")
    monkeypatch.setattr("irdeconv.cli.demo.PICTURE", str(tmp_path / "small.png"))
    given = ("--form", "auto", "--target", "no-depth-to-space", "-o", "made")
    said = answer("demo", "--format", "json", *given)
    assert said.out == (tmp_path / "made" / "demo.json").read_text("utf-8")
    found = said.json
    assert (found["schema"], found["passed"], found["form"]) == ("irdeconv/demo/1", True, "auto")
    assert (found["size"], found["enlarged"]) == ([60, 45], [120, 90])
    assert found["psnr"] == {"network": 36.419, "bicubic": 34.233}
    assert [d["name"] for d in found["deconvolutions"]] == ["bicubic", "detail"]
    assert set(found["files"]) == set(FILES)
    assert all(s["passed"] for s in found["steps"])


@pytest.mark.sampled(2)
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
        (["--input", "cut.png"], 2, "cut.png: the picture cannot be read"),
        (["--input", "large.png"], 5, "may have at most 16,000,000 pixels; this one has 4001 x"),
        (["--input", "made/enlarged.png", "-o", "made"], 2, "would be overwritten"),
        (["-o", "made"], 2, "made has enlarged.png, which no demo has written"),
    ],
)
def test_mistakes(tmp_path: Path, words: list[str], code: int, said: str) -> None:
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
    Image.new("L", (20, 10), 3).save(tmp_path / "my.png")
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
    with Image.open(MODEL.with_name("coffee.png")) as image:
        image.crop((0, 0, 120, 90)).save(tmp_path / "small.png")
    monkeypatch.setattr("irdeconv.cli.demo.PICTURE", str(tmp_path / "small.png"))
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


# `irdeconv demo --samples`: the packaged models are taken through everything.


@pytest.fixture
def folder(net: Path, monkeypatch: Patch) -> Path:
    """A folder of samples instead of the packaged ones: net and deep/other."""
    (net.parent / "samples" / "deep").mkdir(parents=True)
    for name in ("net", "deep/other"):
        write_ir(net.parent / "samples" / f"{name}.xml", LAYER, W)
    for module in ("about", "demo"):
        monkeypatch.setattr(f"irdeconv.cli.{module}.sample_folder", lambda: net.parent / "samples")
    monkeypatch.setenv("COLUMNS", "9999")  # the paths of some folders are long
    return net.parent


def test_demo(folder: Path, capsys: Capture) -> None:
    captured = answer("demo", "--samples").out
    assert "ok   net: 1 deconvolution, " in captured
    assert "2 samples, form zero-insertion, seed 0: 2 of 2 as they should be" in captured
    assert "1 of 1 as they should be" in answer("demo", "--samples", "net").out
    answer("demo", "--samples", "deep/other", "-i", "x=ones")
    assert command("demo", "--list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(samples())


def test_demo_json_and_kept_files(folder: Path) -> None:
    found = answer("demo", "--samples", "--format", "json", "-o", folder / "kept").json
    assert (found["schema"], found["passed"], found["seed"]) == ("irdeconv/demo-samples/1", True, 0)
    assert [s["name"] for s in found["samples"]] == ["deep/other", "net"]
    assert all(s["comparisons"]["read back"]["passed"] for s in found["samples"])
    kept = sorted(f.name for f in (folder / "kept").glob("*.xml"))
    assert kept == ["deep_other.lowered.xml", "net.lowered.xml"]


def test_demo_fails_where_anything_differs(folder: Path, monkeypatch: Patch) -> None:
    def write_doubled(graph: Graph, path: Path) -> None:
        write_ir(Path(path), LAYER, W * 2)

    monkeypatch.setattr("irdeconv.write", write_doubled)
    out = answer("demo", "--samples", "net", code=1).out
    assert "FAIL net" in out
    assert "read back differs first at deconv" in out


def test_demo_wants_broken_samples_refused(folder: Path) -> None:
    bad = folder / "samples" / "broken" / "bad.xml"
    bad.parent.mkdir()
    bad.write_text("<net")
    assert "ok   broken/bad: refused, 1 error" in answer("demo", "--samples", "broken/bad").out
    write_ir(bad, LAYER, W)
    assert "FAIL broken/bad: accepted" in answer("demo", "--samples", "broken/bad", code=1).out


def test_demo_closes_open_shapes(folder: Path) -> None:
    write_ir(folder / "samples" / "net.xml", LAYER, W, data_shape=[-1, 3, -1, 4])
    [sample] = answer("demo", "--samples", "net", "--format", "json").json["samples"]
    assert sample["inputs"] == {"x": [8, 3, 8, 4]}


def test_the_packaged_samples() -> None:
    assert "as they should be" in answer("demo", "--samples").out


# Pictures of every mode become planes of numbers and come back; what is none is refused.


MOST = 1_000_000
COLOURS = np.random.default_rng(5).integers(0, 256, (6, 7, 3), np.uint8)
ROUND = np.hypot(*np.ogrid[-3:3, -3:4]) < 3


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def raw_png(width: int, height: int, data: bytes, depth: int = 8, colours: int = 2) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*p) for p in parts)


def doubled(x: Any) -> Any:
    return x.repeat(2, 2).repeat(2, 3)


def spread(x: Any) -> Any:
    """Twice as large, with a part of what is as far away as the margin, and dark outside."""
    wide = np.pad(x, ((0, 0), (0, 0), (CUT_MARGIN, CUT_MARGIN), (CUT_MARGIN, CUT_MARGIN)))
    down, across = (
        wide[..., 2 * CUT_MARGIN :, CUT_MARGIN:-CUT_MARGIN],
        wide[..., CUT_MARGIN:-CUT_MARGIN, : -2 * CUT_MARGIN],
    )
    return doubled(x / 2 + down / 4 + across / 4)


def saved(folder: Path, image: Image.Image, name: str = "x.png", **how: Any) -> str:
    image.save(folder / name, **how)
    return str(folder / name)


@pytest.mark.parametrize(
    ("mode", "name", "becomes"),
    [
        ("1", "x.png", "L"),
        ("L", "x.png", "L"),
        ("L", "x.jpg", "L"),
        ("LA", "x.png", "RGBA"),
        ("P", "x.png", "RGB"),
        ("P", "x.gif", "RGB"),
        ("RGB", "x.png", "RGB"),
        ("RGB", "x.jpg", "RGB"),
        ("RGBA", "x.png", "RGBA"),
        ("RGBA", "x.tiff", "RGBA"),
        ("RGB", "x.bmp", "RGB"),
        ("RGB", "x.ppm", "RGB"),
        ("RGB", "x.webp", "RGB"),
        ("CMYK", "x.jpg", "RGB"),
        ("LAB", "x.tiff", "RGB"),
    ],
)
def test_modes(tmp_path: Path, mode: str, name: str, becomes: str) -> None:
    path = saved(tmp_path, Image.fromarray(COLOURS).convert(mode), name)
    picture = read(path, MOST)
    assert (picture.image.mode, picture.size, picture.notes) == (becomes, (7, 6), ())
    with Image.open(path) as opened:
        assert np.array_equal(picture.image, opened.convert(becomes))
    x = planes(picture.image)
    assert x.shape == (2 if becomes == "RGBA" else 1, 3, 6, 7)
    assert x.dtype == np.float32
    assert np.array_equal(image_of(x, becomes), picture.image)  # all is opaque


def test_sixteen_bits(tmp_path: Path) -> None:
    grey = np.arange(0, 42000, 1000, np.uint16).reshape(6, 7)
    picture = read(saved(tmp_path, Image.fromarray(grey)), MOST)
    assert picture.image.mode == "I;16"
    assert planes(picture.image)[0, 1, 5, 6] == np.float32(41000 / 65535)
    assert np.array_equal(image_of(planes(picture.image), "I;16"), grey)
    data = b"".join(b"\0" + row.astype(">u2").tobytes() for row in np.dstack([grey] * 3))
    (tmp_path / "deep.png").write_bytes(raw_png(7, 6, data, 16))
    picture = read(str(tmp_path / "deep.png"), MOST)
    assert picture.notes == ("16 bits per colour read as 8",)
    assert np.array_equal(np.asarray(picture.image)[..., 0], grey >> 8)


def test_floating_point_goes_from_dark_to_bright(tmp_path: Path) -> None:
    values = np.array([[-2, 0, 6], [np.nan, np.inf, 2]], np.float32)
    picture = read(saved(tmp_path, Image.fromarray(values), "x.tiff"), MOST)
    assert np.array_equal(np.asarray(picture.image), [[0, 16384, 65535], [0, 65535, 32768]])


def test_invisible_colours_do_not_shine_through(tmp_path: Path) -> None:
    """A white disk in what is invisible, and red: enlarged, no pixel of it is reddish."""
    pixels = np.zeros((6, 7, 4), np.uint8)
    pixels[..., 0] = 255
    pixels[ROUND] = 255
    picture = read(saved(tmp_path, Image.fromarray(pixels)), MOST)

    def smooth(x: Any) -> Any:
        return (x + np.roll(x, 1, 3)) / 2

    enlarged = np.asarray(image_of(smooth(planes(picture.image)), "RGBA"))
    seen = enlarged[enlarged[..., 3] > 0]
    assert set(enlarged[..., 3].ravel()) == {0, 128, 255}
    assert seen[:, :3].min() >= 254


def test_transparency_of_a_palette_and_of_a_colour(tmp_path: Path) -> None:
    image = Image.fromarray(COLOURS).convert("P")
    image.putpixel((2, 1), 9)
    picture = read(saved(tmp_path, image, transparency=9), MOST)
    assert picture.image.mode == "RGBA"
    assert picture.image.getpixel((2, 1))[3] == 0  # type: ignore[index]
    key = tuple(map(int, COLOURS[1, 2]))
    picture = read(saved(tmp_path, Image.fromarray(COLOURS), transparency=key), MOST)
    assert picture.image.getpixel((2, 1)) == (*key, 0)


def test_a_turned_photograph_stands_upright_and_keeps_its_profile(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112] = 6  # the camera was held sideways
    how = {"exif": exif, "icc_profile": b"a profile", "quality": 95}
    picture = read(saved(tmp_path, Image.fromarray(COLOURS), "x.jpg", **how), MOST)
    assert picture.size == (6, 7)
    assert picture.profile == b"a profile"
    (tmp_path / "y.png").write_bytes(png(picture.image, picture.profile))
    assert read(str(tmp_path / "y.png"), MOST).profile == b"a profile"


def test_of_an_animation_the_first_frame(tmp_path: Path) -> None:
    first = Image.fromarray(COLOURS).convert("P")
    path = saved(tmp_path, first, "x.gif", save_all=True, append_images=[first.rotate(90)])
    picture = read(path, MOST)
    assert picture.notes == ("the first of 2 frames",)
    assert np.array_equal(picture.image, first.convert("RGB"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is an empty file\n   = name a PNG or a JPEG"),
        (b"only text", "it is plain text"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is plain text"),  # a program
        (raw_png(0, 5, b""), "it is damaged or without pixels"),
        (raw_png(5, 0, b""), "it is damaged or without pixels"),
        (raw_png(9, 9, b"")[:20], "the picture cannot be read: Truncated File Read"),
        (raw_png(9, 9, b""), "the picture cannot be read: image file is truncated"),
        (raw_png(9, 7, b"\0".join([COLOURS[0].tobytes()] * 9))[:100], "the picture cannot be read"),
        (raw_png(9, 9, b"").replace(b"IDAT", b"IDAU"), "it is damaged or without pixels"),
    ],
)
def test_what_is_no_picture(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(ird.UsageError, match=said):
        read(str(tmp_path / "x.png"), MOST)


@pytest.mark.parametrize("size", [(1001, 1000), (12_000, 9_000), (2**31 - 1, 2**31 - 1)])
def test_a_huge_header_allocates_nothing(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "x.png").write_bytes(raw_png(*size, b"\0" * 100))

    def refused() -> None:
        with pytest.raises(ird.LimitError, match=r"x\.png: a picture may have .* pixels"):
            read(str(tmp_path / "x.png"), MOST)

    assert peak_of(refused)[1] < 2_000_000


def test_psnr_by_hand() -> None:
    black = Image.new("RGB", (2, 1))
    other = Image.fromarray(np.array([[[0, 0, 5], [1, 0, 2]]], np.uint8))
    assert psnr(black, other) == pytest.approx(10 * np.log10(255**2 / (30 / 6)))
    assert psnr(other, black) == psnr(black, other)
    assert psnr(black, black) == np.inf


@pytest.mark.parametrize("size", [1, 7, 8, 9, 12, 13, 31, 100])
def test_pieces_share_an_axis(size: int) -> None:
    """Each element is kept once, at least the margin away from where its piece was cut."""
    found = spans(size, 8, 2)
    assert [i for s in found for i in range(s.kept, s.end)] == list(range(size))
    for s in found:
        assert 0 <= s.start <= s.start + min(size, 8) <= size
        assert s.start == 0 or s.kept - s.start >= 2
        assert s.start + min(size, 8) == size or s.start + 8 - s.end >= 2


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "I;16"])
def test_pieces_make_the_same_picture_as_the_whole(monkeypatch: Patch, mode: str) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (67, 90, 4), np.uint8)
    image = Image.fromarray(pixels).convert("L" if mode == "I;16" else mode)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)

    whole = enlarge(image, spread, spread)
    assert whole.pieces == 1
    monkeypatch.setattr("irdeconv.cli.demo.PIECE_SIDE", 40)
    monkeypatch.setattr("irdeconv.cli.demo.spans", lambda size: spans(size, 40))
    cut = enlarge(image, spread, spread)
    assert (cut.pieces, cut.difference) == (3 * 5, 0)
    assert np.array_equal(cut.image, whole.image)
    assert enlarge(image, doubled, lambda x: doubled(x) * 0).difference == planes(image).max()
