"""The anatomy of deconvolutions as one SVG: axes drawn both ways, phases, overlap maps.

The file loads nothing and runs nothing; its style knows light and dark. Shapes have classes and no
ids, so that several pictures may stand in one page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from irdeconv.base.errors import count
from irdeconv.base.markup import plain
from irdeconv.base.tables import columns, wrap
from irdeconv.show import anatomy

PICTURE_WIDTH = 980
PICTURE_MARGIN = 16
LABEL_GUTTER = 84  # of labels in front of the cells
LINE_STEP = 17
TEXT_COLUMNS = 140  # of a sentence in a proportional font
NAME_COLUMNS = 106  # of a name in a bold monospaced one
LETTER = 6.1  # width of a letter in a cell, font size 10
WIDEST_CELL = 30
ROOMY = 22  # a cell that has room for three letters
FINE = 10  # narrower cells have thin borders and few texts

LEGEND = (
    ("input", "x", "input"),
    ("inserted", "0", "inserted zero"),
    ("padded", "0", "padded zero"),
    ("tap p0", "w", "tap over data, coloured by phase"),
    ("idle", "w", "tap over a zero"),
    ("cut", "", "cut off"),
    ("output p0", "y", "output, coloured by phase"),
    ("extra p0", "y", "output padding"),
)


@dataclass(frozen=True, kw_only=True)
class AxisPicture:
    """An axis in the picture: `title` names the axes, `notes` list the omissions."""

    title: str
    notes: tuple[str, ...]
    axis: anatomy.AxisAnatomy


@dataclass(frozen=True, kw_only=True)
class LayerPicture:
    """All of one layer; without `axes` the notes say why."""

    name: str
    notes: tuple[str, ...]
    axes: tuple[AxisPicture, ...]
    overlap: anatomy.Overlap | None


def svg(layers: Sequence[LayerPicture]) -> str:
    """Return the pictures of some layers below one another as an SVG document."""
    sheet = Sheet()
    for n, layer in enumerate(layers):
        sheet.y += 24 if n else 0
        sheet.text(layer.name, "name", NAME_COLUMNS)
        for note in layer.notes:
            sheet.text(note)
        for picture in layer.axes:
            _axis(sheet, picture)
        if layer.overlap is not None:
            _overlap(sheet, layer.overlap)
    if any(layer.axes for layer in layers):
        _legend(sheet)
    if not layers:
        sheet.text("There are no deconvolutions.")
    names = ", ".join(layer.name for layer in layers)
    return sheet.document(f"Anatomy of {names}" if layers else "no deconvolutions")


@dataclass
class Sheet:
    """Elements so far, and the kinds of their boxes; `y` is the top of the next line."""

    y: int = PICTURE_MARGIN
    elements: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def add(self, element: str) -> None:
        """Add an element as it stands."""
        self.elements.append(element)

    def text(
        self, text: str, kind: str = "", width: int = TEXT_COLUMNS, x: int = PICTURE_MARGIN
    ) -> None:
        """Write a text in lines; a word that is too long is broken."""
        for line in wrap(plain(text), width, 0).split("\n"):
            for part in _pieces(line, width):
                self.y += LINE_STEP
                named = f' class="{kind}"' if kind else ""
                self.add(f'<text x="{x}" y="{self.y - 4}"{named}>{escape(part)}</text>')

    def box(self, x: float, y: float, w: float, h: float, kind: str) -> None:
        """Draw a cell; a cell that is cut off is crossed out."""
        self.kinds.add(kind.split()[0])
        size = f'width="{w:g}" height="{h:g}"'
        self.add(f'<rect class="{kind}" x="{x:g}" y="{y:g}" {size}/>')
        if kind in ("cut", "lost"):
            line = f"M{x:g} {y + h:g}L{x + w:g} {y:g}"
            self.add(f'<path class="cross" d="{line}"/>')

    def document(self, title: str) -> str:
        """Return the SVG."""
        height = self.y + PICTURE_MARGIN
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="anatomy" width="{PICTURE_WIDTH}" '
            f'height="{height}" viewBox="0 0 {PICTURE_WIDTH} {height}" role="img">\n'
            f"<title>{escape(plain(title))}</title>\n<style>\n{anatomy.picture_style()}</style>\n"
            f'<rect class="paper" x="0" y="0" width="{PICTURE_WIDTH}" height="{height}"/>\n'
            + "\n".join(self.elements)
            + "\n</svg>\n"
        )


def _pieces(line: str, width: int) -> Iterable[str]:
    while columns(line) > width:
        cut = width
        while columns(line[:cut]) > width:
            cut -= 1
        yield line[:cut]
        line = line[cut:]
    yield line


def _axis(sheet: Sheet, picture: AxisPicture) -> None:
    axis = picture.axis
    sheet.y += 12
    sheet.text(picture.title, "head")
    for note in picture.notes:
        sheet.text(note)
    example = axis.example
    sheet.y += 6
    sheet.text("By definition: every input times every tap, added up where products meet", "soft")
    rows(sheet, axis, axis.scatter(), example)
    if example is not None:
        sheet.text(f"for example {equation(axis, example)}", "mono")
    sheet.y += 6
    sheet.text(convolution_title(axis), "soft")
    rows(sheet, axis, axis.convolution())
    sheet.y += 6
    for r, words in enumerate(axis.overlap.phases()):
        if r < anatomy.COLOURS:
            sheet.box(PICTURE_MARGIN, sheet.y + 4, 10, 10, f"output p{r}")
        sheet.text(words, "mono", x=PICTURE_MARGIN + 18)


def convolution_title(axis: anatomy.AxisAnatomy) -> str:
    """Describe the lowering, with its numbers."""
    zeros = count(axis.stride - 1, "zero")
    steps = [f"{zeros} between neighbours"] if axis.stride > 1 else []
    for amount, side in zip(axis.pads, ("before", "behind"), strict=True):
        steps.append(f"{'pad' if amount >= 0 else 'crop'} {abs(amount)} {side}")
    return f"As lowered: {', '.join(steps)}, then a convolution of stride 1 with the flipped kernel"


def equation(axis: anatomy.AxisAnatomy, output: int) -> str:
    """Return the sum of products that an output is."""
    terms = [f"x{i}*w{k}" for i, k in axis.terms(output)[: anatomy.LISTED_TERMS]]
    more = " + ..." if len(axis.sources(output)) > anatomy.LISTED_TERMS else ""
    return f"y{output} = {' + '.join(terms) or '0'}{more}"


def rows(
    sheet: Sheet,
    axis: anatomy.AxisAnatomy,
    lines: Sequence[anatomy.CellRow],
    focus: int | None = None,
) -> None:
    """Draw rows of cells; the column of the output `focus` is framed."""
    shown = axis.shown
    width = min((PICTURE_WIDTH - 2 * PICTURE_MARGIN - LABEL_GUTTER) // len(shown), WIDEST_CELL)
    height = max(min(width, 20), 14)
    sheet.y += 4
    left, top = PICTURE_MARGIN + LABEL_GUTTER, sheet.y + height + 3  # below the inputs
    sheet.add("<g>" if width > FINE else '<g class="fine">')
    for line in lines:
        base = sheet.y + height - (height - 10) // 2 - 1
        label = escape(plain(line.label))
        sheet.add(f'<text class="soft" x="{PICTURE_MARGIN}" y="{base}">{label}</text>')
        places = {cell.at: left + (cell.at - shown.start) * width for cell in line.cells}
        for cell in line.cells:
            colour = "" if cell.phase is None else f" p{cell.phase % anatomy.COLOURS}"
            sheet.box(places[cell.at], sheet.y, width - 1, height, f"{cell.kind}{colour}")
        for cell in _labelled(line.cells, width):
            place = f'x="{places[cell.at] + (width - 1) / 2:g}" y="{base}"'
            faint = " soft" if cell.kind in ("idle", "inserted", "padded") else ""
            sheet.add(f'<text class="in{faint}" {place}>{cell.text}</text>')
        sheet.y += height + 3
    sheet.add("</g>")
    if focus is not None:
        x = left + (focus + axis.begin - shown.start) * width - 2
        sheet.box(x, top - 2, width + 3, sheet.y - top, "focus")
    sheet.y += 2


def _labelled(cells: Sequence[anatomy.AxisCell], width: int) -> list[anatomy.AxisCell]:
    """Return the cells whose texts have room beside those of others; outputs and taps first."""
    taken: list[tuple[float, float]] = []
    out = []
    for cell in sorted(cells, key=lambda c: c.phase is None):
        half = LETTER * len(cell.text) / 2 + (0 if width > FINE else 7)
        if not cell.text or (cell.text == "0" and width < ROOMY and cell.kind != "count"):
            continue
        low, high = cell.at * width - half, cell.at * width + half
        if all(high <= start or stop <= low for start, stop in taken):
            taken.append((low, high))
            out.append(cell)
    return out


def _overlap(sheet: Sheet, overlap: anatomy.Overlap) -> None:
    sheet.y += 14
    sheet.text("How many taps reach each output, away from the borders", "head")
    for sentence in overlap.sentences():
        sheet.text(sentence)
    slices = list(overlap.slices)
    wide = max(len(s.counts[0]) for s in slices)
    digits = max(len(str(overlap.most)), 1)
    size = max(min(24, round(LETTER * digits) + 8, 460 // wide), 8)
    if size >= LETTER * digits + 2:
        size = max(size, 18)
    x, tall = PICTURE_MARGIN, 0
    for part in slices:
        need = size * wide + 16
        if x > PICTURE_MARGIN and x + need > PICTURE_WIDTH - PICTURE_MARGIN:
            x, sheet.y = PICTURE_MARGIN, sheet.y + tall + 8
        tall = _slice(sheet, part, overlap, x, size)
        x += max(need, 120 if part.phases else 0)
    sheet.y += tall + 4
    if overlap.left_out:
        sheet.text(overlap.left_out, "soft")


def _slice(
    sheet: Sheet, part: anatomy.OverlapSlice, overlap: anatomy.Overlap, left: int, size: int
) -> int:
    """Draw one slice beside others and return how much room it takes below `sheet.y`."""
    top = sheet.y + 8
    if part.phases:
        named = ", ".join(map(str, part.phases))
        what = "phase" if len(part.phases) == 1 else "phases"
        sheet.add(f'<text class="soft" x="{left}" y="{top + 8}">{what} {named}</text>')
        top += 14
    for row, counts in enumerate(part.counts):
        for column, n in enumerate(counts):
            x, y = left + column * size, top + row * size
            shade = -(-4 * n // overlap.most) if overlap.most else 0
            sheet.box(x, y, size, size, f"o{shade}")
            if size >= LETTER * len(str(n)) + 2:
                place = f'x="{x + size / 2:g}" y="{y + size // 2 + 4}"'
                sheet.add(f'<text class="in" {place}>{n}</text>')
    return top + len(part.counts) * size - sheet.y


def _legend(sheet: Sheet) -> None:
    sheet.y += 16
    x = PICTURE_MARGIN
    for kind, text, words in LEGEND:
        if kind.split()[0] not in sheet.kinds:
            continue
        need = 26 + round(6.6 * len(words)) + 12
        if x + need > PICTURE_WIDTH - PICTURE_MARGIN:
            x, sheet.y = PICTURE_MARGIN, sheet.y + 24
        sheet.box(x, sheet.y, 18, 18, kind)
        if text:
            sheet.add(f'<text class="in" x="{x + 9}" y="{sheet.y + 13}">{text}</text>')
        sheet.add(f'<text class="soft" x="{x + 24}" y="{sheet.y + 13}">{words}</text>')
        x += need
    sheet.y += 24
