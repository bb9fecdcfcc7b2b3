"""A deconvolution along one axis, drawn in letters: zeros, pads, crops, taps and phases."""

from __future__ import annotations

from collections.abc import Iterator

from irdeconv.wrapping import WIDTH

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
    axis = AxisDrawing(drawn, kernel, stride, dilation, begin, end)
    lines = [*axis.cells(), *axis.rows()] if axis.fits else ["(too wide to be drawn)"]
    if axis.fits and drawn != size:
        lines.insert(0, f"drawn with {drawn} of {'?' if size is None else size} elements")
    return [
        *lines,
        *phases(None if drawn != size else axis.output, kernel, stride, dilation, begin),
    ]


def phases(
    output: int | None, kernel: int, stride: int, dilation: int, begin: int
) -> Iterator[str]:
    """Yield which taps reach each residue of the output modulo the stride."""
    count = stride if output is None else min(stride, output)
    for residue in range(min(count, PHASES)):
        taps = [k for k in range(kernel) if (residue + begin - k * dilation) % stride == 0]
        shown = ", ".join(f"y{residue + i * stride}" for i in range(3))
        more = ", ..."
        if output is not None:
            members = range(residue, output, stride)
            shown = ", ".join(f"y{o}" for o in members[:3])
            more = ", ..." if len(members) > 3 else ""
        reach = " ".join(f"w{k}" for k in taps[:ROWS]) + (" ..." if len(taps) > ROWS else "")
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
    """The signal with inserted zeros and its window, in positions of the uncropped zeros."""

    def __init__(
        self, size: int, kernel: int, stride: int, dilation: int, begin: int, end: int
    ) -> None:
        self.size, self.kernel, self.stride, self.dilation = size, kernel, stride, dilation
        self.reach = dilation * (kernel - 1)
        self.length = stride * (size - 1) + 1
        self.output = max(self.length + self.reach - begin - end, 0)
        # The window of the stride-1 convolution: from `first`, output + reach positions.
        self.first = begin - self.reach
        self.last = self.first + self.output + self.reach
        self.low, self.high = min(self.first, 0), max(self.last, self.length)
        names = [f"x{size - 1}", f"w{kernel - 1}", f"y{self.output - 1}"]
        self.cell = max(map(len, names)) + 1

    @property
    def fits(self) -> bool:
        """Whether the drawing is narrow enough and shows something."""
        return self.output > 0 and 11 + self.cell * (self.high - self.low) <= WIDTH - INDENT

    def _line(self, label: str, cells: dict[int, str]) -> str:
        row = (cells.get(p, "").ljust(self.cell) for p in range(self.low, self.high))
        return f"{label:<9}{''.join(row)}".rstrip()

    def _signal(self, p: int) -> str:
        if not 0 <= p < self.length:
            return "0"
        return f"x{p // self.stride}" if p % self.stride == 0 else "."

    def cells(self) -> Iterator[str]:
        """Yield the data with its zeros, and what pads and crops make of it."""
        yield self._line("data", {p: self._signal(p) for p in range(self.length)})
        window = {p: self._signal(p) for p in range(self.first, self.last)}
        cut = sum(p not in window for p in range(self.length))
        line, words = self._line("window", window), self._window_words(cut)
        if len(line) + 3 + len(words) <= WIDTH - INDENT:
            yield f"{line}   {words}"
        else:
            yield from (line, f"{'':<9}{words}")

    def _window_words(self, cut: int) -> str:
        before, after = -self.first, self.last - self.length
        words = [". inserted zero"] if self.stride > 1 else []
        if before > 0 or after > 0:
            words.append(f"0 padded ({max(before, 0)} | {max(after, 0)})")
        if cut:
            words.append(f"cropped ({max(-before, 0)} | {max(-after, 0)})")
        return ", ".join(words)

    def rows(self) -> Iterator[str]:
        """Yield one line per output: the taps where they lie, those over data as a sum.

        The sums are left out where a line does not hold them.
        """
        shown = self.output if self.output <= ROWS else ROWS - 2
        rows = [self._row(o) for o in (*range(shown), self.output - 1)]
        if any(len(line) + len(sum_) > WIDTH - INDENT for line, sum_ in rows):
            rows = [(line.rstrip(), "") for line, _ in rows]
        *first, last = map("".join, rows)
        yield from first
        if shown < self.output:
            yield f"... {self.output - shown - 1} more"
            yield last

    def _row(self, o: int) -> tuple[str, str]:
        cells, terms = {}, []
        for k in reversed(range(self.kernel)):
            p = self.first + o + self.reach - k * self.dilation
            signal = self._signal(p)
            cells[p] = f"w{k}" if signal.startswith("x") else "-"
            if signal.startswith("x"):
                terms.append(f"{signal}*w{k}")
        line = self._line(f"y{o}", cells).ljust(9 + self.cell * (self.high - self.low))
        return line, f"  = {' + '.join(terms) or 0}"
