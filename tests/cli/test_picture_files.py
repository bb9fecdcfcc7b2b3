"""Pictures of every mode become planes of numbers and come back; what is none is refused."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import irdeconv as ird
from irdeconv.cli.demo import CUT_MARGIN, enlarge, spans
from irdeconv.cli.pictures import image_of, planes, png, psnr, read
from support.fixtures import Patch

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
    tracemalloc.start()
    try:
        with pytest.raises(ird.LimitError, match=r"x\.png: a picture may have .* pixels"):
            read(str(tmp_path / "x.png"), MOST)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


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
    kept = [i for s in found for i in range(s.kept, s.end)]
    assert kept == list(range(size))
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
