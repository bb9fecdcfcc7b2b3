"""One axis of a deconvolution as rows of cells: as the scatter, and as a convolution over zeros.

Everything stands at positions of the uncropped scatter. Input i stands at S*i, its product with
tap k at S*i + D*k, output o at o + begin. The zero-inserted data has input i at S*i as well, and
the tap k of output o lies over o + begin - D*k there. So both views share one ruler.

`assets/anatomy.js` of the page makes the same rows of the same integers; a test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from irdeconv.geometry import IntVector, Vector, Window, full_size, zero_insertion_pads

ELEMENTS = 4  # inputs that a longer axis is drawn with
POSITIONS = 144  # at most; of a wider axis a part is drawn
STAMPS = 8  # inputs, and outputs, that have a row of their own
COLOURS = 8  # phases that have a colour of their own


@dataclass(frozen=True)
class AxisCell:
    """What stands at one position: a kind, the phase of the output it belongs to, and a text."""

    at: int
    kind: str
    text: str = ""
    phase: int | None = None

    def to_list(self) -> list[Any]:
        """Return the JSON form."""
        return [self.at, self.kind, self.text, self.phase]


@dataclass(frozen=True)
class CellRow:
    """A line of cells with its label."""

    label: str
    cells: tuple[AxisCell, ...]


@dataclass(frozen=True, kw_only=True)
class AxisAnatomy:
    """The numbers of one axis; `begin` and `end` are what is cut off the scatter (negative: added).

    `extra` is the output_padding that `end` has less already.
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
        """What the lowering pads the zero-inserted data with before and behind; negative: crops."""
        window = Window(IntVector((self.begin,)), IntVector((self.end,)))
        # Without inputs S*0 zeros are there, unlike S(I-1)+1: the end has S-1 less to pad.
        surplus = IntVector((0 if self.size else self.stride - 1,))
        both = zero_insertion_pads(
            window, IntVector((self.kernel,)), IntVector((self.dilation,)), surplus
        )
        return _only(both[0]), _only(both[1])

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
        """Return the residue of the output at a position; None where there is none."""
        return (position - self.begin) % self.stride if position in self.outputs else None

    def scatter(self) -> list[CellRow]:
        """Return the definition's view: each input times each tap, and the sums."""
        rows = [self._inputs(), *map(self._stamp, self.stamped)]
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
        drawn = range(
            max(self.shown.start - self.begin, 0),
            min(self.shown.stop - self.begin, self.output),
        )
        count = min(max(self.stride, 3), STAMPS, len(drawn))
        first = drawn.start + (len(drawn) - count) // 2
        return range(first, first + count)

    @property
    def example(self) -> int | None:
        """The output that is explained first: the one that is the sum of most products."""
        return max(self.slid, key=lambda o: len(self.sources(o)), default=None)

    def _inputs(self) -> CellRow:
        cells = (c for c in self._data() if c.kind == "input")
        return CellRow("inputs", tuple(cells))

    def _stamp(self, i: int) -> CellRow:
        cells = []
        for p in self.shown:
            k = self.tap(p - self.begin, i)
            if k is not None:
                phase = self.phase(p)
                cells.append(AxisCell(p, "lost" if phase is None else "tap", f"w{k}", phase))
        return CellRow(f"x{i} times", tuple(cells))

    def _sums(self) -> CellRow:
        """Return the outputs where the products add up, and what is cut off."""
        cells = []
        for p in self.shown:
            if p in self.outputs:
                cells.append(self._output(p))
            elif 0 <= p < self.full:
                cells.append(AxisCell(p, "cut"))
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
        drawn = (p for p in self.shown if p in self.outputs)
        counts = ((p, len(self.sources(p - self.begin))) for p in drawn)
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
        """Return where the taps of an output lie over the padded data."""
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
    """Return the axis as it is drawn: with few elements where it has many, or an open number.

    What it starts and ends with is then the same: kernel and pads are kept, and there are as many
    elements as an output of every phase needs.
    """

    def drawn(n: int) -> AxisAnatomy:
        return replace(axis, size=n)

    few = next((n for n in range(ELEMENTS, 2, -1) if len(drawn(n).everything) <= POSITIONS), 2)
    lacking = axis.stride + 1 + axis.begin + axis.end - axis.reach - 1
    few = max(few, -(-lacking // axis.stride) + 1)
    return drawn(few if size is None or size > few + 2 else size)
