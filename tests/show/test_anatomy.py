"""The drawn anatomy: held against S*i + D*k = o + b, a naive deconvolution and an XML parser."""

import itertools
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from colours import contrast
from irdeconv.cli.main import main
from irdeconv.show.anatomy import (
    POSITIONS,
    STAMPS,
    AxisAnatomy,
    CellRow,
    Overlap,
    OverlapAxis,
    picture,
    picture_style,
    shortened,
)
from irdeconv.show.anatomy_svg import AxisPicture, LayerPicture, svg
from support import oracle
from support.commands import answer

SAMPLES = Path(__file__).resolve().parents[2] / "ir_samples"
SVG = "{http://www.w3.org/2000/svg}"


def grid() -> Iterator[AxisAnatomy]:
    """Yield axes of all kinds: pads of either sign, output padding, no inputs, no outputs."""
    rng = random.Random(0)
    cases = list(
        itertools.product((0, 1, 2, 5), (1, 2, 3, 5), (1, 2, 3, 8), (1, 2, 3), (-3, 0, 1, 4))
    )
    for size, kernel, stride, dilation, begin in rng.sample(cases, 150):
        yield AxisAnatomy(
            size=size, kernel=kernel, stride=stride, dilation=dilation, begin=begin,
            end=rng.randint(-4, 5), extra=rng.randint(0, 2),
        )  # fmt: skip


def naive(a: AxisAnatomy) -> tuple[int, dict[int, list[tuple[int, int]]]]:
    """Return O, and the pairs of every output by trying all of them."""
    outputs = max(a.stride * (a.size - 1) + a.dilation * (a.kernel - 1) + 1 - a.begin - a.end, 0)
    pairs: dict[int, list[tuple[int, int]]] = {o: [] for o in range(outputs)}
    for i, k in itertools.product(range(a.size), range(a.kernel)):
        o = a.stride * i + a.dilation * k - a.begin
        if o in pairs:
            pairs[o].append((i, k))
    return outputs, pairs


def numbers(row: CellRow) -> dict[int, tuple[str, str, int | None]]:
    """Return the cells of a row by position."""
    found = {c.at: (c.kind, c.text, c.phase) for c in row.cells}
    assert len(found) == len(row.cells)
    return found


def test_the_pairs_are_those_of_the_definition() -> None:
    for axis in grid():
        outputs, pairs = naive(axis)
        assert axis.output == outputs
        assert {o: axis.terms(o) for o in range(outputs)} == pairs, axis


def test_the_drawn_scatter_is_the_definition() -> None:
    for axis in grid():
        outputs, pairs = naive(axis)
        inputs, *stamps, sums, counts = axis.scatter()
        assert set(numbers(inputs)) == {axis.stride * i for i in range(axis.size)}
        products = {(i, c.text, c.at) for i, row in enumerate(stamps) for c in row.cells}
        assert products == {
            (i, f"w{k}", axis.stride * i + axis.dilation * k)
            for i in range(axis.size)
            for k in range(axis.kernel)
        }
        drawn = {p: cell for p, cell in numbers(sums).items() if cell[0] != "cut"}
        assert drawn == {
            o + axis.begin: (
                "extra" if o >= outputs - axis.extra else "output",
                f"y{o}",
                o % axis.stride,
            )
            for o in range(outputs)
        }
        lost = {c.at for row in stamps for c in row.cells if c.kind == "lost"}
        assert lost == {p for _, _, p in products} - {o + axis.begin for o in range(outputs)}
        assert [int(c.text) for c in counts.cells] == [len(pairs[o]) for o in range(outputs)]


def test_the_drawn_convolution_computes_a_naive_deconvolution() -> None:
    rng = np.random.default_rng(1)
    for axis in itertools.islice(grid(), 60):
        x = rng.integers(-9, 9, (1, 1, axis.size))
        w = rng.integers(-9, 9, (1, 1, 1, axis.kernel))
        expected = oracle.deconvolution(
            x, w, (axis.stride,), (axis.dilation,), (axis.begin,), (axis.output,)
        )[0, 0]
        data, padded, *_ = axis.convolution()
        # Exactly the window stands there, once what is cut is left out.
        signal = {p: text for p, (kind, text, _) in numbers(padded).items() if kind != "cut"}
        assert len(signal) == (axis.output + axis.reach if axis.output else 0)
        values = {p: int(x[0, 0, int(t[1:])]) if t != "0" else 0 for p, t in signal.items()}
        assert sum(axis.pads) == len(signal) - len(data.cells) or not axis.output
        for o in range(axis.output):
            reads = axis.over(o).cells
            assert len(reads) == axis.kernel
            total = sum(values[c.at] * int(w[0, 0, 0, int(c.text[1:])]) for c in reads)
            assert total == expected[o]
            assert [(c.kind == "tap") for c in reads] == [signal[c.at] != "0" for c in reads]


def test_a_layer_worked_by_hand() -> None:
    """I = 3, K = 3, S = 2, one element cut off at the begin."""
    axis = AxisAnatomy(size=3, kernel=3, stride=2, dilation=1, begin=1, end=0)
    assert (axis.full, axis.output, axis.pads) == (7, 6, (1, 2))
    assert [axis.terms(o) for o in range(6)] == [
        [(0, 1)], [(0, 2), (1, 0)], [(1, 1)], [(1, 2), (2, 0)], [(2, 1)], [(2, 2)],
    ]  # fmt: skip
    data, padded, *reads, _ = axis.convolution()
    assert "".join(c.text for c in data.cells) == "x00x10x2"
    assert "".join(c.text for c in padded.cells) == "0x00x10x200"
    assert [c.text for c in reads[1].cells] == ["w2", "w1", "w0"]


def test_a_large_axis_is_drawn_short_and_keeps_its_ends() -> None:
    for axis in itertools.islice(grid(), 60):
        for size in (7, 224, 10**9, None):
            short = shortened(axis, size)
            assert (short.begin, short.end, short.kernel) == (axis.begin, axis.end, axis.kernel)
            assert len(short.shown) <= POSITIONS
            assert size is None or short.size <= size
            if short.size != size:
                assert short.output > axis.stride  # every phase is there
            rows = [*short.scatter(), *short.convolution()]
            assert all(c.at in short.shown for row in rows for c in row.cells)
            assert len(short.scatter()) <= STAMPS + 4


@pytest.mark.parametrize("axis", [(3, 2, 1), (4, 2, 1), (2, 4, 1), (3, 2, 2), (5, 4, 6), (9, 3, 3)])
def test_the_overlap_is_counted(axis: tuple[int, int, int]) -> None:
    kernel, stride, dilation = axis
    for begin in range(-1, 4):
        a = OverlapAxis(kernel=kernel, stride=stride, dilation=dilation, begin=begin)
        counts = interior(kernel, stride, dilation, begin)
        assert [len(a.taps(r)) for r in range(stride)] == counts
        assert (a.least, a.most) == (min(counts), max(counts))
        for k in a.even_kernels:
            assert len(set(interior(k, stride, 1, begin))) == 1
        for s in a.even_strides:
            assert len(set(interior(kernel, s, dilation, begin))) == 1


def interior(kernel: int, stride: int, dilation: int, begin: int) -> list[int]:
    """Return how many products reach each residue, counted far from the borders."""
    size = 4 * dilation * kernel + 4
    outputs = range(stride * size // 2, stride * size // 2 + stride)
    aligned = [o - o % stride + r for r, o in enumerate(outputs)]
    places = [stride * i + dilation * k - begin for i in range(size) for k in range(kernel)]
    return [places.count(o) for o in aligned]


def test_the_map_of_several_axes_is_the_product() -> None:
    axes = [
        OverlapAxis(kernel=k, stride=s, dilation=1, begin=1) for k, s in ((3, 2), (4, 3), (2, 4))
    ]
    found = list(Overlap(tuple(axes)).slices)
    assert [part.phases for part in found] == [(0,), (1,)]
    for part in found:
        for (y, row), (x, _) in itertools.product(
            enumerate(part.counts), enumerate(part.counts[0])
        ):
            places = (part.phases[0], y % 3, x % 4)
            assert row[x] == np.prod([len(a.taps(r)) for a, r in zip(axes, places, strict=True)])


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "words"),
    [
        (4, 2, 1, "Even: 4 taps reach every output"),
        (1, 1, 1, "Even: 1 tap reaches every output"),
        (3, 2, 1, "1 to 4 taps reach an output away from the borders, 4 times as many"),
        (3, 2, 1, "Axes 0 and 1: a kernel of 2 or 4 would be even (multiples of the stride 2)."),
        (5, 2, 1, "4 to 9 taps reach an output away from the borders, 2.25 times as many"),
        (9, 6, 1, "So would stride 3 or 9, with another output size."),
        (2, 4, 1, "up to 1 tap reach an output, but some outputs are reached by none"),
        (4, 2, 2, "have the factor 2 in common, so at most 1 of 2 phases has taps"),
    ],
)
def test_the_diagnosis(kernel: int, stride: int, dilation: int, words: str) -> None:
    axis = OverlapAxis(kernel=kernel, stride=stride, dilation=dilation, begin=0)
    assert words in " ".join(Overlap((axis, axis)).sentences())


def parsed(text: str) -> ET.Element:
    """Parse an SVG and hold it to what a picture may have."""
    root = ET.fromstring(text)
    for element in root.iter():
        assert element.tag.removeprefix(SVG) in "svg title style g rect path text".split()
        assert not {"style", "id", "onload", "href"} & set(element.attrib)
    return root


def test_names_of_a_model_stay_text() -> None:
    name = '</title><script>alert(1)</script>\x00\u202e"&' + "x" * 400
    axis = AxisAnatomy(size=3, kernel=3, stride=2, dilation=1, begin=0, end=0)
    picture = AxisPicture(title="Axis 0", notes=(), axis=axis)
    text = svg([LayerPicture(name=name, notes=(), axes=(picture,), overlap=None)])
    words = "".join(e.text or "" for e in parsed(text).iter(f"{SVG}text"))
    assert "</title><script>alert(1)</script>\\x00\\u202e" in words
    assert max(len(e.text or "") for e in parsed(text).iter(f"{SVG}text")) < 150


@pytest.mark.parametrize("numbers", [(10**9, 10**6, 10**5, 7, 5, 5), (0, 1, 10**12, 10**12, 0, 0)])
def test_absurd_numbers_are_drawn_in_part(numbers: tuple[int, ...]) -> None:
    names = ("size", "kernel", "stride", "dilation", "begin", "end")
    axis = AxisAnatomy(**dict(zip(names, numbers, strict=True)))
    map_ = Overlap((OverlapAxis(kernel=axis.kernel, stride=axis.stride, dilation=7, begin=0),) * 4)
    short = AxisPicture(title="", notes=(), axis=shortened(axis, axis.size))
    text = svg([LayerPicture(name="x", notes=(), axes=(short,), overlap=map_)])
    parsed(text)
    assert len(text) < 400_000


def test_every_sample_has_a_picture() -> None:
    for path in sorted(SAMPLES.glob("*/*.xml")):
        if path.parent.name != "broken" and path.parent.name != "super_resolution":
            found = ird.explain(path)
            assert parsed(found.to_svg()).attrib["class"] == "anatomy"
            assert found._repr_svg_() == found.to_svg()
            assert found._repr_html_().endswith(found.to_svg())


def test_what_is_open_or_refused_says_so(tmp_path: Path) -> None:
    text = (SAMPLES / "openvino/dynamic.xml").read_text()
    assert (
        "drawn with 4 of 3..9 and ? elements"
        in ird.explain(SAMPLES / "openvino/dynamic.xml").to_svg()
    )
    refused = tmp_path / "refused.xml"
    refused.write_text(text.replace('pads_begin="1,1"', 'pads_begin="90,90"'))
    assert "rejected [" in ird.explain(ird.read(refused, weights=False)).to_svg()


@pytest.mark.usefixtures("pipe")
def test_the_command_writes_a_file(tmp_path: Path) -> None:
    file, sample = tmp_path / "x.svg", str(SAMPLES / "onnx/1d.xml")
    assert main(["explain", sample, "--format", "svg", "-o", str(file)]) == 0
    parsed(file.read_text("utf-8"))
    assert "= add --format svg" in answer("explain", sample, "-o", file, code=2).err
    for format, suffix in (("text", "txt"), ("json", "json")):
        other = tmp_path / f"x.{suffix}"
        assert main(["explain", sample, "--format", format, "-o", str(other)]) == 0
        assert answer("explain", sample, "--format", format).out == other.read_text("utf-8")


def test_letters_of_an_axis_without_inputs_count_their_zeros() -> None:
    """S*I zeros are there and not S(I-1)+1, so four padded zeros are 3 and 1, not 3 and 2."""
    lines = picture(0, 1, 2, 1, -3, -2)
    assert lines[1] == "window   0   0   0   0   . inserted zero, 0 padded (3 | 1)"


def test_without_deconvolutions_it_says_so() -> None:
    words = [e.text for e in parsed(svg([])).iter(f"{SVG}text")]
    assert words == ["There are no deconvolutions."]


@pytest.mark.parametrize("dark", [False, True])
def test_texts_are_readable_on_every_cell(dark: bool) -> None:
    """WCAG 2 asks for a contrast of 4.5 : 1."""
    light, _, rest = picture_style().partition("@media")
    rules = dict(re.findall(r"\.anatomy (\S+) \{[^}]*?fill: (#\w+)", rest if dark else light))
    ink = rules.pop("text")
    assert len(rules) > 14
    for kind, colour in rules.items():
        if kind != ".soft":
            assert contrast(ink, colour) >= 4.5, kind


@pytest.mark.parametrize("amount", [2**40, 2**62, 2**63 - 1])
def test_an_axis_of_huge_numbers_is_explained_but_not_drawn(amount: int) -> None:
    text = (SAMPLES / "openvino/deconv_3x3_to_5x5.xml").read_text()
    file = text.replace('dilations="1,1"', f'dilations="1,{amount}"').encode()
    explained = ird.explain(ird.read(file, weights=False))
    assert "too large" in explained.to_svg()
    assert "phase 0" in str(explained)
