"""One axis of a deconvolution as cells and letters, as scatter and convolution; its overlap map.

All positions are those of the uncropped scatter: input i at S*i, its product with tap k at S*i +
D*k, output o at o + begin. The zero-inserted data has input i at S*i as well; the tap k of output o
lies over o + begin - D*k there. `show/assets/anatomy.js` makes the same rows.

The overlap map counts the taps that reach each output. Away from the borders that depends only on
the position modulo the stride; on several axes it is the product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from string import Template

from irdeconv.base.errors import count
from irdeconv.base.tables import WIDTH
from irdeconv.ir.geometry import IntVector, Vector, Window, full_size, zero_insertion_pads

ELEMENTS = 4  # inputs that a longer axis is drawn with
POSITIONS = 144  # at most; of a wider axis a part is drawn
STAMPS = 8  # inputs, and outputs, that have a row of their own
COLOURS = 8  # phases that have a colour of their own, or a line
LISTED_TERMS = 12  # outputs and taps that are listed
INDENT = 2  # columns before every line of a text drawing in its output
ROWS = 12  # of outputs in a text drawing


@dataclass(frozen=True)
class AxisCell:
    """One cell of a row: a kind, the phase of the output it belongs to, and a text."""

    at: int
    kind: str
    text: str = ""
    phase: int | None = None


@dataclass(frozen=True)
class CellRow:
    """A line of cells with its label."""

    label: str
    cells: tuple[AxisCell, ...]


@dataclass(frozen=True, kw_only=True)
class AxisAnatomy:
    """The numbers of one axis; `begin` and `end` are cut off the scatter (negative: added).

    `extra` is the output_padding that is subtracted from `end` already.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    extra: int = 0

    @cached_property
    def reach(self) -> int:
        """D(K-1): how far the last tap lies from the first."""
        return self.dilation * (self.kernel - 1)

    @cached_property
    def full(self) -> int:
        """The size of the uncropped scatter; no element without inputs."""
        terms = (self.size, self.stride, self.kernel, self.dilation)
        size, stride, kernel, dilation = (IntVector((n,)) for n in terms)
        return max(_only(full_size(size, stride, kernel, dilation)), 0) if self.size else 0

    @cached_property
    def output(self) -> int:
        """O = S(I-1) + D(K-1)+1 - begin - end, at least 0."""
        return max(self.stride * (self.size - 1) + self.reach + 1 - self.begin - self.end, 0)

    @cached_property
    def length(self) -> int:
        """The size of the zero-inserted data."""
        return self.stride * (self.size - 1) + 1 if self.size else 0

    @cached_property
    def pads(self) -> tuple[int, int]:
        """The lowering's padding of the zero-inserted data before and behind; negative: crops."""
        window = Window(IntVector((self.begin,)), IntVector((self.end,)))
        # Without inputs S*0 zeros are there, unlike S(I-1)+1: the end has S-1 less to pad.
        surplus = IntVector((0 if self.size else self.stride - 1,))
        kernel, dilation = IntVector((self.kernel,)), IntVector((self.dilation,))
        before, after = zero_insertion_pads(window, kernel, dilation, surplus)
        return _only(before), _only(after)

    @cached_property
    def window(self) -> range:
        """The positions that the convolution reads."""
        before, after = self.pads
        return range(-before, self.length + after) if self.output else range(0)

    @cached_property
    def outputs(self) -> range:
        """The positions of the outputs."""
        return range(self.begin, self.begin + self.output)

    @cached_property
    def everything(self) -> range:
        """All positions at which something stands."""
        spans = [s for s in (range(self.full), self.window, self.outputs) if s] or [range(1)]
        return range(min(s.start for s in spans), max(s.stop for s in spans))

    @cached_property
    def shown(self) -> range:
        """The positions that are drawn: all of them, or a part around the first outputs."""
        all_ = self.everything
        if len(all_) <= POSITIONS:
            return all_
        start = self.begin - min(self.reach, POSITIONS // 2)
        start = max(all_.start, min(start, all_.stop - POSITIONS))
        return range(start, start + POSITIONS)

    @property
    def overlap(self) -> OverlapAxis:
        """The same axis without its size, away from the borders."""
        names = ("kernel", "stride", "dilation", "begin")
        return OverlapAxis(**{name: getattr(self, name) for name in names})

    def tap(self, output: int, input: int) -> int | None:
        """Return the tap by which an input reaches an output: S*i + D*k = o + begin."""
        k, rest = divmod(output + self.begin - self.stride * input, self.dilation)
        return k if rest == 0 and 0 <= k < self.kernel else None

    def sources(self, output: int) -> range:
        """Return the inputs that reach an output; they lie D / gcd(S, D) apart."""
        place, common = output + self.begin, math.gcd(self.stride, self.dilation)
        first = max(-((self.reach - place) // self.stride), 0)
        stop = min(place // self.stride + 1, self.size)
        if place % common:
            return range(0)
        apart = self.dilation // common
        residue = place // common * pow(self.stride // common, -1, apart)
        return range(first + (residue - first) % apart, max(stop, 0), apart)

    def terms(self, output: int) -> list[tuple[int, int]]:
        """Return the pairs of an input and a tap whose products add up to an output."""
        place = output + self.begin
        return [(i, (place - self.stride * i) // self.dilation) for i in self.sources(output)]

    def phase(self, position: int) -> int | None:
        """Return the residue of the output at a position; None if there is no output."""
        return (position - self.begin) % self.stride if position in self.outputs else None

    def scatter(self) -> list[CellRow]:
        """Return the definition's view: each input times each tap, and the sums."""
        inputs = CellRow("inputs", tuple(c for c in self._data() if c.kind == "input"))
        rows = [inputs, *map(self._stamp, self.stamped)]
        if len(self.stamped) < self.size:
            rows.append(CellRow(f"... {self.size} inputs", ()))
        return [*rows, self._sums(), self._counts()]

    def convolution(self) -> list[CellRow]:
        """Return the lowering's view: inserted zeros, pads or crops, and taps over outputs."""
        data = CellRow("data", tuple(self._data()))
        window = CellRow("padded", tuple(self._padded()))
        return [data, window, *map(self.over, self.slid), self._outputs()]

    @property
    def stamped(self) -> range:
        """The inputs with a row of their own: the first that reach an output."""
        inputs = range(self.size)
        if self.size > STAMPS and self.output:
            first = max(-((self.reach - self.begin) // self.stride), 0)
            last = (self.begin + self.output - 1) // self.stride
            inputs = range(min(first, self.size), min(last + 1, self.size))
        return inputs[:STAMPS]

    @property
    def slid(self) -> range:
        """The outputs with a row of their own: one per phase, from the middle."""
        start, stop = self.shown.start - self.begin, self.shown.stop - self.begin
        drawn = range(max(start, 0), min(stop, self.output))
        count = min(max(self.stride, 3), STAMPS, len(drawn))
        first = drawn.start + (len(drawn) - count) // 2
        return range(first, first + count)

    @property
    def example(self) -> int | None:
        """The output that is explained first: the one that is the sum of most products."""
        return max(self.slid, key=lambda o: len(self.sources(o)), default=None)

    def _stamp(self, i: int) -> CellRow:
        cells = []
        for p in self.shown:
            if (k := self.tap(p - self.begin, i)) is not None:
                phase = self.phase(p)
                cells.append(AxisCell(p, "lost" if phase is None else "tap", f"w{k}", phase))
        return CellRow(f"x{i} times", tuple(cells))

    def _sums(self) -> CellRow:
        """Return the outputs, each a sum of products, and the positions that are cut off."""
        seen = (p for p in self.shown if p in self.outputs or 0 <= p < self.full)
        cells = (self._output(p) if p in self.outputs else AxisCell(p, "cut") for p in seen)
        return CellRow("outputs", tuple(cells))

    def _output(self, p: int) -> AxisCell:
        o = p - self.begin
        kind = "extra" if o >= self.output - self.extra else "output"
        return AxisCell(p, kind, f"y{o}", self.phase(p))

    def _outputs(self) -> CellRow:
        cells = (self._output(p) for p in self.shown if p in self.outputs)
        return CellRow("outputs", tuple(cells))

    def _counts(self) -> CellRow:
        """Return how many products each output is the sum of, borders included."""
        counts = ((c.at, len(self.sources(c.at - self.begin))) for c in self._outputs().cells)
        return CellRow("products", tuple(AxisCell(p, "count", str(n)) for p, n in counts))

    def _data(self) -> Iterator[AxisCell]:
        for p in self.shown:
            if 0 <= p < self.length:
                i, rest = divmod(p, self.stride)
                yield AxisCell(p, "inserted", "0") if rest else AxisCell(p, "input", f"x{i}")

    def _padded(self) -> Iterator[AxisCell]:
        data = {c.at: c for c in self._data()}
        for p in self.shown:
            if p in self.window:
                yield data.get(p) or AxisCell(p, "padded", "0")
            elif p in data:
                yield replace(data[p], kind="cut")

    def over(self, o: int) -> CellRow:
        """Return the taps of an output at their positions over the padded data."""
        cells = []
        for p in self.shown:
            k, rest = divmod(o + self.begin - p, self.dilation)
            if rest or not 0 <= k < self.kernel:
                continue
            data = 0 <= p < self.length and p % self.stride == 0
            phase = o % self.stride if data else None
            cells.append(AxisCell(p, "tap" if data else "idle", f"w{k}", phase))
        return CellRow(f"y{o} reads", tuple(cells))


def _only(vector: Vector) -> int:
    assert isinstance(vector, IntVector)
    return vector.values[0]


def shortened(axis: AxisAnatomy, size: int | None) -> AxisAnatomy:
    """Return the axis for the drawing: with few elements if it has many or an unknown number.

    Its begin and end look the same then: kernel and pads are kept, and every phase has enough
    elements for an output.
    """
    few = ELEMENTS
    while few > 2 and len(replace(axis, size=few).everything) > POSITIONS:
        few -= 1
    lacking = axis.stride + 1 + axis.begin + axis.end - axis.reach - 1
    few = max(few, -(-lacking // axis.stride) + 1)
    return replace(axis, size=few if size is None or size > few + 2 else size)


MAPPED_PHASES = 16  # of a larger stride so many are drawn
MAP_CELLS = 6  # a map repeats until it is so wide, to show its pattern
MAP_SLICES = 8  # of three and more axes
TRIED_STRIDES = 4096  # strides that are tried for an even one


@dataclass(frozen=True, kw_only=True)
class OverlapAxis:
    """One axis: which outputs share taps does not depend on its size."""

    kernel: int
    stride: int
    dilation: int
    begin: int

    @property
    def common(self) -> int:
        """The common factor of stride and dilation: so many phases are there per one with taps."""
        return math.gcd(self.stride, self.dilation)

    def taps(self, phase: int) -> range:
        """Return the taps that reach the outputs of a phase: S / gcd(S, D) apart."""
        place = phase + self.begin
        if place % self.common:
            return range(0)
        step = self.stride // self.common
        first = place // self.common * pow(self.dilation // self.common, -1, step) % step
        return range(first, self.kernel, step)

    @property
    def least(self) -> int:
        """The fewest taps of a phase."""
        return 0 if self.common > 1 else self.kernel // self.stride

    @property
    def most(self) -> int:
        """The most taps of a phase."""
        return -(-self.kernel // (self.stride // self.common))

    @property
    def even(self) -> bool:
        """Whether all phases have equally many taps."""
        return self.least == self.most

    @property
    def even_kernels(self) -> list[int]:
        """The multiples of the stride next to the kernel."""
        below = self.kernel // self.stride * self.stride
        return [k for k in (below, below + self.stride) if k]

    @property
    def even_strides(self) -> list[int]:
        """The strides above 1 next to this one with which the kernel would be even."""
        last = min(self.kernel, self.stride + TRIED_STRIDES)
        below = range(self.stride - 1, max(1, self.stride - TRIED_STRIDES), -1)
        found = (next(filter(self._suits, r), None) for r in (below, range(self.stride, last + 1)))
        return [s for s in found if s is not None]

    def _suits(self, stride: int) -> bool:
        return self.kernel % stride == 0 and math.gcd(stride, self.dilation) == 1

    def phases(self, output: int | None = None) -> Iterator[str]:
        """Yield which taps reach each residue of the output modulo the stride."""
        count = self.stride if output is None else min(self.stride, output)
        for residue in range(min(count, COLOURS)):
            taps = self.taps(residue)
            last = residue + 3 * self.stride if output is None else output
            members = range(residue, last, self.stride)
            shown = ", ".join(f"y{o}" for o in members[:3])
            more = ", ..." if output is None or members[3:] else ""
            reach = " ".join(f"w{k}" for k in taps[:LISTED_TERMS])
            reach += " ..." if taps[LISTED_TERMS:] else ""
            yield f"phase {residue} ({shown}{more}): {reach or 'no tap, always 0'}"
        if count > COLOURS:
            yield f"... {count} phases"

    def row(self) -> list[int]:
        """Return the taps of each output along the axis, as far as a map shows it."""
        drawn = min(self.stride, MAPPED_PHASES)
        counts = [len(self.taps(r)) for r in range(drawn)]
        return counts * (1 if drawn < self.stride else max(-(-MAP_CELLS // drawn), 1))


@dataclass(frozen=True)
class OverlapSlice:
    """A map of the last two axes (of a single one: one row) at phases of the axes before."""

    phases: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Overlap:
    """The map of all axes."""

    axes: tuple[OverlapAxis, ...]

    @property
    def least(self) -> int:
        """The fewest taps that reach an output away from the borders."""
        return math.prod(a.least for a in self.axes)

    @property
    def most(self) -> int:
        """The most taps that reach an output."""
        return math.prod(a.most for a in self.axes)

    @property
    def even(self) -> bool:
        """Whether equally many taps reach all outputs away from the borders."""
        return self.least == self.most

    @property
    def slices(self) -> Iterator[OverlapSlice]:
        """Yield the first slices of the map; only a few cells of an even map."""
        *lead, last = self.axes[-2:]
        if self.even:
            counts = ((self.most,) * MAP_CELLS,) * (MAP_CELLS if lead else 1)
            yield OverlapSlice((), counts)
            return
        rows = lead[0].row() if lead else [1]
        outer = self.axes[:-2]
        places = product(*(range(min(a.stride, MAPPED_PHASES)) for a in outer))
        for _, phases in zip(range(MAP_SLICES), places, strict=False):
            around = math.prod(len(a.taps(r)) for a, r in zip(outer, phases, strict=True))
            found = tuple(tuple(around * a * b for b in last.row()) for a in rows)
            yield OverlapSlice(phases, found)

    @property
    def left_out(self) -> str | None:
        """The parts of an uneven map that are not drawn, as a text."""
        slices = math.prod(a.stride for a in self.axes[:-2])
        parts = [f"{MAP_SLICES} of {slices} slices"] if slices > MAP_SLICES else []
        if any(a.stride > MAPPED_PHASES for a in self.axes):
            parts.append(f"at most {MAPPED_PHASES} phases of an axis")
        return f"drawn: {', '.join(parts)}" if parts and not self.even else None

    def sentences(self) -> list[str]:
        """Return the diagnosis: even or not, by which factor, and numbers that would be even."""
        if self.even:
            reach = f"{count(self.most, 'tap')} {'reaches' if self.most == 1 else 'reach'}"
            why = "so the kernel alone makes no checkerboard pattern"
            return [f"Even: {reach} every output away from the borders, {why}."]
        return [self._uneven(), *self._remedies()]

    def _uneven(self) -> str:
        if self.least:
            factor = f"{self.most / self.least:.3g}".removesuffix(".0")
            return (
                f"Uneven: {self.least} to {count(self.most, 'tap')} reach an output away from the "
                f"borders, {factor} times as many at some places as at others. That is where "
                "checkerboard patterns come from."
            )
        return (
            f"Uneven: up to {count(self.most, 'tap')} reach an output, but some outputs are "
            "reached by none. Those are 0 for every input."
        )

    def _remedies(self) -> Iterator[str]:
        by_axis: dict[OverlapAxis, list[int]] = {}
        for n, axis in enumerate(self.axes):
            if not axis.even:
                by_axis.setdefault(replace(axis, begin=0), []).append(n)
        for axis, numbers in by_axis.items():
            named = "Axis" if len(numbers) == 1 else "Axes"
            yield f"{named} {_listed(numbers, 'and')}: {_remedy(axis)}"


def _remedy(axis: OverlapAxis) -> str:
    kernels, other = _listed(axis.even_kernels, "or"), ""
    if strides := axis.even_strides:
        other = f" So would stride {_listed(strides, 'or')}, with another output size."
    if axis.common > 1:
        return (
            f"stride {axis.stride} and dilation {axis.dilation} have the factor {axis.common} in "
            f"common, so at most 1 of {axis.common} phases has taps with any kernel. With "
            f"dilation 1 a kernel of {kernels} would be even.{other}"
        )
    of_stride = f"{'multiples' if len(axis.even_kernels) > 1 else 'a multiple'} of the stride"
    return f"a kernel of {kernels} would be even ({of_stride} {axis.stride}).{other}"


def _listed(numbers: Sequence[int], joint: str) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} {joint} {last}" if first else last


def picture(
    size: int | None, kernel: int, stride: int, dilation: int, begin: int, end: int
) -> list[str]:
    """Return the lines of the drawing; `begin` and `end` are cut off the whole scatter.

    An axis of many or an unknown number of elements is drawn with few, which shows the same. If
    even these do not fit, only the phases are printed.
    """
    axis = AxisAnatomy(
        size=ELEMENTS, kernel=kernel, stride=stride, dilation=dilation, begin=begin, end=end
    )
    while not axis.output and axis.size < 2 * ELEMENTS:  # few, but enough for an output
        axis = replace(axis, size=axis.size + 1)
    drawn = axis.size if size is None or size > axis.size + 2 else size
    axis = replace(axis, size=drawn)
    drawing = AxisDrawing(axis)
    lines = [*drawing.cells(), *drawing.rows()] if drawing.fits else ["(too wide to be drawn)"]
    if drawing.fits and drawn != size:
        lines.insert(0, f"drawn with {drawn} of {'?' if size is None else size} elements")
    return [*lines, *axis.overlap.phases(None if drawn != size else axis.output)]


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
        """Yield the data with its zeros, and the window after padding and cropping."""
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
        """Yield one line per output: its taps at their positions, and the sum if there is room."""
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


# The colours that `assets/anatomy.css` names; p0 to p7 are those of phases, o0 to o4 of overlaps.
_LIGHT = {
    "paper": "#ffffff", "ink": "#1c2330", "soft": "#5b6575", "line": "#8b95a5",
    "empty": "#f1f3f6", "input": "#d7e3f8", "cut": "#b3261e",
    "p0": "#9ecbf2", "p1": "#f7c77e", "p2": "#a5dbab", "p3": "#f2aeb5",
    "p4": "#cdb9ee", "p5": "#eae08a", "p6": "#96dcda", "p7": "#d9c2a7",
    "o0": "#f3f5f8", "o1": "#dbe7fb", "o2": "#b4d0f7", "o3": "#85b2ee", "o4": "#5a93e2",
}  # fmt: skip
_DARK = {
    "paper": "#14181f", "ink": "#e8ecf2", "soft": "#a2acbb", "line": "#6b7686",
    "empty": "#232a35", "input": "#2f4468", "cut": "#ff8a80",
    "p0": "#1f5788", "p1": "#7a5210", "p2": "#28642f", "p3": "#85343d",
    "p4": "#5b4390", "p5": "#67600f", "p6": "#14605e", "p7": "#65502f",
    "o0": "#1c222c", "o1": "#22344f", "o2": "#27456e", "o3": "#2d588f", "o4": "#346bb4",
}  # fmt: skip


@cache
def _rules() -> list[str]:
    """Return the rules of shapes, and those of light and of dark colours."""
    text = (Path(__file__).parent / "assets" / "anatomy.css").read_text("utf-8")
    shapes, colours = text.split("/* colours */\n")
    return [shapes, *(Template(colours).substitute(named) for named in (_LIGHT, _DARK))]


@cache
def picture_style() -> str:
    """Return the style of a single picture, with dark colours on a dark system."""
    shapes, light, dark = _rules()
    return f"{shapes}{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


@cache
def page_style() -> str:
    """Return the style for the page, which says itself whether it is dark; paper is light."""
    shapes, light, dark = _rules()
    dark = dark.replace(".anatomy", ':root[data-theme="dark"] .anatomy')
    return f"{shapes}{light}@media screen {{\n{dark}}}\n"
