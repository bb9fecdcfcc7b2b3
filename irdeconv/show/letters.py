"""A deconvolution along one axis, drawn in letters: zeros, pads, crops, taps and phases."""

from __future__ import annotations

from collections.abc import Iterator

from irdeconv.base.tables import WIDTH
from irdeconv.show.anatomy import AxisAnatomy, AxisCell, OverlapAxis

INDENT = 2  # columns in front of every line, where the drawing is shown
INPUTS = 4  # a longer axis is drawn with so many elements
ROWS = 12
PHASES = 8


def picture(
    size: int | None, kernel: int, stride: int, dilation: int, begin: int, end: int
) -> list[str]:
    """Return the lines of the drawing; `begin` and `end` are what is cut off the whole scatter.

    An axis of many or an unknown number of elements is drawn with few, which shows the same. Where
    not even these fit, only the phases are left.
    """
    drawn = _drawn(size, kernel, stride, dilation, begin + end)
    axis = AxisAnatomy(
        size=drawn, kernel=kernel, stride=stride, dilation=dilation, begin=begin, end=end
    )
    drawing = AxisDrawing(axis)
    lines = [*drawing.cells(), *drawing.rows()] if drawing.fits else ["(too wide to be drawn)"]
    if drawing.fits and drawn != size:
        lines.insert(0, f"drawn with {drawn} of {'?' if size is None else size} elements")
    return [
        *lines,
        *phases(None if drawn != size else axis.output, kernel, stride, dilation, begin),
    ]


def phases(
    output: int | None, kernel: int, stride: int, dilation: int, begin: int
) -> Iterator[str]:
    """Yield which taps reach each residue of the output modulo the stride."""
    axis = OverlapAxis(kernel=kernel, stride=stride, dilation=dilation, begin=begin)
    count = stride if output is None else min(stride, output)
    for residue in range(min(count, PHASES)):
        taps = axis.taps(residue)
        shown = ", ".join(f"y{residue + i * stride}" for i in range(3))
        more = ", ..."
        if output is not None:
            members = range(residue, output, stride)
            shown = ", ".join(f"y{o}" for o in members[:3])
            more = ", ..." if members[3:] else ""
        reach = " ".join(f"w{k}" for k in taps[:ROWS]) + (" ..." if taps[ROWS:] else "")
        yield f"phase {residue} ({shown}{more}): {reach or 'no tap, always 0'}"
    if count > PHASES:
        yield f"... {count} phases"


def _drawn(size: int | None, kernel: int, stride: int, dilation: int, cut: int) -> int:
    """Return how many elements are drawn: few, but enough for an output."""
    wanted = INPUTS
    while stride * (wanted - 1) + dilation * (kernel - 1) + 1 - cut < 1 and wanted < 2 * INPUTS:
        wanted += 1
    return wanted if size is None or size > wanted + 2 else size


class AxisDrawing:
    """The signal with inserted zeros and its window, in positions of the uncropped scatter."""

    def __init__(self, axis: AxisAnatomy) -> None:
        self.axis, self.window = axis, axis.window
        self.low, self.high = min(self.window.start, 0), max(self.window.stop, axis.length)
        names = [f"x{axis.size - 1}", f"w{axis.kernel - 1}", f"y{axis.output - 1}"]
        self.cell = max(map(len, names)) + 1

    @property
    def fits(self) -> bool:
        """Whether the drawing is narrow enough and shows something."""
        wide = 11 + self.cell * (self.high - self.low)
        return self.axis.output > 0 and wide <= WIDTH - INDENT

    def _line(self, label: str, cells: dict[int, str]) -> str:
        row = (cells.get(p, "").ljust(self.cell) for p in range(self.low, self.high))
        return f"{label:<9}{''.join(row)}".rstrip()

    def cells(self) -> Iterator[str]:
        """Yield the data with its zeros, and what pads and crops make of it."""
        data, padded, *_ = self.axis.convolution()
        yield self._line("data", {c.at: _letter(c) for c in data.cells})
        window = {c.at: _letter(c) for c in padded.cells if c.kind != "cut"}
        cut = len(padded.cells) - len(window)
        line, words = self._line("window", window), self._window_words(cut)
        if len(line) + 3 + len(words) <= WIDTH - INDENT:
            yield f"{line}   {words}"
        else:
            yield from (line, f"{'':<9}{words}")

    def _window_words(self, cut: int) -> str:
        before, after = -self.window.start, self.window.stop - self.axis.length
        words = [". inserted zero"] if self.axis.stride > 1 else []
        if before > 0 or after > 0:
            words.append(f"0 padded ({max(before, 0)} | {max(after, 0)})")
        if cut:
            words.append(f"cropped ({max(-before, 0)} | {max(-after, 0)})")
        return ", ".join(words)

    def rows(self) -> Iterator[str]:
        """Yield one line per output: the taps where they lie, and their sum if there is room."""
        outputs = self.axis.output
        shown = outputs if outputs <= ROWS else ROWS - 2
        rows = [self._row(o) for o in (*range(shown), outputs - 1)]
        if any(len(line) + len(sum_) > WIDTH - INDENT for line, sum_ in rows):
            rows = [(line.rstrip(), "") for line, _ in rows]
        *first, last = map("".join, rows)
        yield from first
        if shown < outputs:
            yield f"... {outputs - shown - 1} more"
            yield last

    def _row(self, o: int) -> tuple[str, str]:
        cells = {c.at: _letter(c) for c in self.axis.over(o).cells}
        terms = [f"x{i}*w{k}" for i, k in self.axis.terms(o)]
        line = self._line(f"y{o}", cells).ljust(9 + self.cell * (self.high - self.low))
        return line, f"  = {' + '.join(terms) or 0}"


def _letter(cell: AxisCell) -> str:
    return {"inserted": ".", "idle": "-"}.get(cell.kind, cell.text)
