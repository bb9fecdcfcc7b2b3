"""The common parts of deconvolution kernels: residues and blocks of the output.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + begin]

Taps k = r + q*step, with step = S / gcd(S, D), fall onto the same outputs modulo S; they form the
*residue* r and differ by q shifts of D / gcd(S, D) positions. The *grown* plane of a residue,
P_r[u] = sum over q of w[r + q*step] x[u - q*shift], lands at the outputs u*S + r*D - begin.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import scratch
from irdeconv.kernels.candidate import ConvProblem, Epilogue, trailing, type_of_sums
from irdeconv.kernels.scratch import Space, clear, shares


@dataclass(frozen=True)
class DeconvAxis:
    """One spatial axis of a deconvolution."""

    inputs: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    size: int

    @cached_property
    def step(self) -> int:
        """The distance of the taps of one residue."""
        return self.stride // math.gcd(self.stride, self.dilation)

    @cached_property
    def shift(self) -> int:
        """The distance in positions between landings of neighbouring taps of one residue."""
        return self.dilation // math.gcd(self.stride, self.dilation)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of taps of each residue; the first has most."""
        return tuple(-(-(self.kernel - r) // self.step) for r in range(min(self.kernel, self.step)))

    @cached_property
    def halo(self) -> int:
        """The distance to which the terms of one input position spread in a grown plane."""
        return (self.counts[0] - 1) * self.shift

    def outputs(self, r: int, lo: int, hi: int) -> tuple[int, int]:
        """Return the range of grown positions of residue r that land in the outputs lo..hi."""
        offset = r * self.dilation - self.begin
        first = max(0, -((offset - lo) // self.stride))
        last = min(
            self.inputs + (self.counts[r] - 1) * self.shift, (hi - 1 - offset) // self.stride + 1
        )
        return first, max(first, last)

    def part(self, lo: int, hi: int) -> OutputSpan:
        """Return the positions and inputs that the outputs lo..hi need."""
        spans = [self.outputs(r, lo, hi) for r in range(len(self.counts))]
        some = [s for s in spans if s[0] < s[1]]
        start, stop = min((s[0] for s in some), default=0), max((s[1] for s in some), default=0)
        covered = sum(b - a for a, b in spans) == hi - lo
        first = min(max(0, start - self.halo), self.inputs)
        return OutputSpan(
            axis=self,
            lo=lo,
            hi=hi,
            start=start,
            stop=stop,
            first=first,
            last=max(first, min(self.inputs, stop)),
            covered=covered,
        )

    def kinds(self, height: int) -> list[tuple[OutputSpan, int]]:
        """Return one part of each kind, `height` outputs high each, and the number of each kind."""
        steps = range(0, self.size, height)
        low = (self.kernel - 1 + self.step) * self.dilation - self.begin + self.stride
        high = min(self.size, self.inputs * self.stride - self.begin)
        inner = range(max(0, -(-low // height)), min(len(steps), high // height))
        outer = *steps[: inner.start], *steps[max(inner.start, inner.stop) :]
        pairs = [(lo, 1) for lo in outer]
        if inner:
            pairs.append((steps[inner[0]], len(inner)))
        counted: dict[Any, tuple[OutputSpan, int]] = {}
        for lo, times in pairs:
            part = self.part(lo, min(lo + height, self.size))
            counted[part.kind] = part, counted.get(part.kind, (part, 0))[1] + times
        return list(counted.values())


@dataclass(frozen=True)
class OutputSpan:
    """The outputs lo..hi of an axis: they need grown positions start..stop, inputs first..last."""

    axis: DeconvAxis
    lo: int
    hi: int
    start: int
    stop: int
    first: int
    last: int
    covered: bool

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.hi - self.lo

    @cached_property
    def inputs(self) -> int:
        """The number of input positions."""
        return self.last - self.first

    @property
    def kind(self) -> tuple[int, ...]:
        """Its sizes: parts with equal ones cost the same."""
        start, stop = self.start - self.first, self.stop - self.first
        return self.outputs, self.inputs, start, stop, self.covered

    @cached_property
    def extent(self) -> int:
        """The inputs and the zeros behind them, into which shifted reads run."""
        return self.inputs + self.axis.halo

    def reach(self, r: int) -> tuple[slice, slice]:
        """Return the needed positions of residue r, counted from `first`, and their outputs."""
        a, b = self.axis.outputs(r, self.lo, self.hi)
        at = a * self.axis.stride + r * self.axis.dilation - self.axis.begin - self.lo
        stop = at + (b - a - 1) * self.axis.stride + 1 if b > a else at
        return slice(a - self.first, b - self.first), slice(at, stop, self.axis.stride)


@lru_cache(maxsize=64)  # every candidate asks
def axes_of(problem: ConvProblem) -> tuple[DeconvAxis, ...]:
    """Return the spatial axes."""
    lists = problem.kernel, problem.strides, problem.dilations, problem.begin, problem.sizes
    return tuple(map(DeconvAxis, problem.shape[2:], *lists))


def residues(axes: Sequence[DeconvAxis]) -> Iterator[tuple[int, ...]]:
    """Enumerate the residues of all axes."""
    return itertools.product(*(range(len(a.counts)) for a in axes))


def group_filters(w: Array, group: int, q: Sequence[int], axes: Sequence[DeconvAxis]) -> Array:
    """Return the taps of all residues at q shifts: `[C/g, M/g, *residues that have such a tap]`."""
    cuts = [slice(i * a.step, (i + 1) * a.step) for i, a in zip(q, axes, strict=True)]
    return trailing(w[group], cuts)


def shifts(axes: Sequence[DeconvAxis]) -> list[tuple[int, ...]]:
    """Enumerate the shifts q of all axes."""
    return list(np.ndindex(*(a.counts[0] for a in axes)))


ROUGHLY = 1.2  # an estimate for the whole output as a block may exceed the one for blocks so far


@dataclass(frozen=True)
class OutputBlock:
    """A box of outputs of some images; all channels."""

    images: slice
    parts: tuple[OutputSpan, ...]

    @property
    def count(self) -> int:
        """The number of images."""
        return int(self.images.stop - self.images.start)

    @cached_property
    def covered(self) -> bool:
        """Whether every output is reached by some tap."""
        return all(p.covered for p in self.parts)

    @property
    def empty(self) -> bool:
        """Whether no output is reached."""
        return any(p.inputs == 0 for p in self.parts)

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """The padded inputs' sizes; the `halo` positions before one are of its own row or zero."""
        sizes = [p.extent for p in self.parts]
        if self.count == 1:
            sizes[0] = max(self.parts[0].stop - self.parts[0].first, self.parts[0].inputs)
        return tuple(sizes)

    @cached_property
    def reaches(self) -> dict[tuple[int, ...], tuple[Any, Any]]:
        """Per residue, the index of its grown positions in `grid`, and of its outputs."""
        indices: dict[tuple[int, ...], tuple[Any, Any]] = {}
        for r in residues([p.axis for p in self.parts]):
            pairs = [p.reach(i) for p, i in zip(self.parts, r, strict=True)]
            indices[r] = (..., *(s for s, _ in pairs)), (..., *(t for _, t in pairs))
        return indices

    @cached_property
    def edged_reaches(self) -> dict[tuple[int, ...], tuple[Any, Any]]:
        """`reaches` in two parts, each None if empty: up to the inputs' last column, and behind it,
        counted from there.
        """
        return {r: _parts(*pair, self.parts[-1]) for r, pair in self.reaches.items()}

    @cached_property
    def order(self) -> list[tuple[int, ...]]:
        """All residues in the order in which they are written: those first that begin at an even
        place of a row.
        """
        last = self.parts[-1]
        places = [last.reach(i)[1].start % 2 for i in range(len(last.axis.counts))]
        return sorted(self.reaches, key=lambda r: places[r[-1]])

    @cached_property
    def doubled(self) -> bool:
        """Whether the first half of `order` takes even places of rows, the other half odd ones."""
        last = self.parts[-1]
        return last.axis.stride == 2 == len(last.axis.counts)

    @cached_property
    def input_positions(self) -> int:
        """The number of positions of the inputs of all images."""
        return self.count * math.prod(p.inputs for p in self.parts)

    @cached_property
    def output_positions(self) -> int:
        """The number of positions of the outputs of all images."""
        return self.count * math.prod(p.outputs for p in self.parts)

    @cached_property
    def columns(self) -> int:
        """The number of positions of the padded inputs of all images."""
        return self.count * math.prod(self.grid)

    def box(self, y: Array) -> Array:
        """Return the block of an array [N, channels, *O]."""
        box: Array = y[(self.images, slice(None), *(slice(p.lo, p.hi) for p in self.parts))]
        return box

    def inputs(self, x: Array) -> Array:
        """Return the inputs [images, channels, *] that the block needs, of x [N, channels, *I]."""
        box: Array = x[(self.images, slice(None), *(slice(p.first, p.last) for p in self.parts))]
        return box

    def offset(self, q: Sequence[int], grid: tuple[int, ...] | None = None) -> int:
        """Return the distance of taps that differ by q shifts, in flat padded inputs or `grid`."""
        at = 0
        for size, part, count in zip(grid or self.grid, self.parts, q, strict=True):
            at = at * size + count * part.axis.shift
        return at


@dataclass(frozen=True)
class Blocking:
    """The output in blocks, `images` and `heights` at a time; `kinds` of them are few."""

    problem: ConvProblem
    images: int
    heights: tuple[int, ...]

    def __len__(self) -> int:
        pairs = zip(self.problem.sizes, self.heights, strict=True)
        return -(-self.problem.shape[0] // self.images) * math.prod(-(-o // h) for o, h in pairs)

    def __iter__(self) -> Iterator[OutputBlock]:
        return iter(self.blocks)

    @cached_property
    def blocks(self) -> list[OutputBlock]:
        """All blocks in order."""
        axes, n = axes_of(self.problem), self.problem.shape[0]
        parts = [
            [a.part(lo, min(lo + h, a.size)) for lo in range(0, a.size, h)]
            for a, h in zip(axes, self.heights, strict=True)
        ]
        return [
            OutputBlock(slice(i, min(i + self.images, n)), box)
            for i in range(0, n, self.images)
            for box in itertools.product(*parts)
        ]

    @cached_property
    def kinds(self) -> list[tuple[OutputBlock, int]]:
        """One block of each kind, and the number of such blocks."""
        n, step = self.problem.shape[0], self.images
        batches = [(slice(0, step), n // step), (slice(n - n % step, n), int(n % step > 0))]
        axes = [a.kinds(h) for a, h in zip(axes_of(self.problem), self.heights, strict=True)]
        return [
            (OutputBlock(images, tuple(p for p, _ in box)), times * math.prod(t for _, t in box))
            for images, times in batches
            if times
            for box in itertools.product(*axes)
        ]

    def most(self, measure: Callable[[OutputBlock], int]) -> int:
        """Return the largest measure of a block; at least 1."""
        return max(1, *(measure(b) for b, _ in self.kinds))


def split_output(problem: ConvProblem, limit: int, overhead: int = 0) -> Blocking:
    """Split the output into blocks that have at most about `limit` padded input positions.

    Blocks are whole images while these fit, else boxes of whole rows, so that every block is a
    multiple of the stride high, and at least `overhead` times their halo.
    """
    axes = axes_of(problem)
    extents = [a.part(0, a.size).extent for a in axes]
    n = problem.shape[0]
    images = max(1, shares(n, -(-n // max(1, limit // max(1, math.prod(extents))))))
    heights = []
    for i, (axis, extent) in enumerate(zip(axes, extents, strict=True)):
        room = limit // max(1, math.prod(extents[i + 1 :])) - axis.halo
        # Blocks that are little more than halo save no memory, and there are very many of them.
        room = max(room, axis.halo // 4, overhead * axis.halo)
        positions = max(1, min(extent, room))
        pieces = max(1, -(-extent // positions))
        steps = -(-axis.size // axis.stride)
        heights.append(axis.size if pieces == 1 else shares(steps, pieces) * axis.stride)
    return _alike(problem, images, tuple(max(1, h) for h in heights))


def whole_output(problem: ConvProblem) -> Blocking:
    """Return the output as one block, for estimates that need not be exact."""
    return _alike(problem, problem.shape[0], tuple(max(1, size) for size in problem.sizes))


@lru_cache(maxsize=64)  # candidates of a layer share its blocks, and the properties of their kinds
def _alike(problem: ConvProblem, images: int, heights: tuple[int, ...]) -> Blocking:
    return Blocking(problem, images, heights)


def _parts(taken: Any, where: Any, last: OutputSpan) -> tuple[Any, Any]:
    """Split an index of grown positions and of outputs behind the last column of the inputs."""
    *lead, columns = taken
    *above, into = where
    width, step, inside, behind = last.inputs, last.axis.stride, None, None
    count = min(columns.stop, width) - columns.start
    if count > 0:
        cut = slice(columns.start, columns.start + count)
        stop = into.start + (count - 1) * step + 1
        inside = (*lead, cut), (*above, slice(into.start, stop, step))
    if columns.stop > width:
        first = max(columns.start, width)
        cut = slice(first - width, columns.stop - width)
        start = into.start + (first - columns.start) * step
        behind = (*lead, cut), (*above, slice(start, into.stop, step))
    return inside, behind


def put(plane: Array, r: Sequence[int], block: OutputBlock, tile: Array) -> None:
    """Write residue r, `plane [images, *channels, *grid]`, into `tile`, by `block.order`."""
    taken, where = block.reaches[tuple(r)]
    _write(plane[taken], tile, where, block)


Store = tuple[Array, Any, bool]
"""Sums, their places in a tile, and whether they are whole rows of a residue."""


def stores_of(sums: Array, edge: Array | None, block: OutputBlock) -> list[Store]:
    """Return the parts of sums `[*residues, images, channels, *grid]`, for `store`.

    Positions behind the inputs' last column lie in `edge`, if there is one.
    """
    if edge is None:
        pairs = ((sums[r], block.reaches[r]) for r in block.order)
        return [(plane[taken], where, True) for plane, (taken, where) in pairs]
    found: list[Store] = []
    for r in block.order:
        inside, behind = block.edged_reaches[r]
        if inside is not None:
            found.append((sums[r][inside[0]], inside[1], True))
        if behind is not None:
            found.append((edge[r][behind[0]], behind[1], False))
    return found


def store(parts: Sequence[Store], block: OutputBlock, tile: Array) -> None:
    """Write parts of sums into `tile [images, channels, *]`."""
    for part, where, whole in parts:
        if whole:
            _write(part, tile, where, block)
        else:
            tile[where] = part


def _write(source: Array, tile: Array, where: Any, block: OutputBlock) -> None:
    """Write elements to `tile[where]`.

    Every other place of a row is written one by one. If the places between are written later, or
    stays zero, an element and the zero behind it are written as one integer of twice the size.
    """
    worth = source.size >= scratch.SIZES.doubled_elements
    if worth and block.doubled and not where[-1].start % 2:
        pairs = min(source.shape[-1], (tile.shape[-1] - where[-1].start) // 2)
        line = slice(where[-1].start, where[-1].start + 2 * pairs)
        if _put_doubled(source[..., :pairs], tile[(*where[:-1], line)]):
            if pairs < source.shape[-1]:
                tile[(*where[:-1], line.stop)] = source[..., pairs]
            return
    tile[where] = source


def _put_doubled(source: Array, lines: Array) -> bool:
    """Write elements of f32 to the places 0, 2, ... of lines and zeros between, if possible."""
    if lines.dtype != np.float32 or sys.byteorder != "little":
        return False
    wide = lines.view(np.uint64)
    if not wide.flags.aligned:
        return False
    np.copyto(wide, source.view(np.uint32))
    return True


def pad(x: Array, block: OutputBlock, out: Array) -> None:
    """Write `x [images, *channels, *]` into `out [*channels, images, *grid]`, zeros behind."""
    for axis, part in enumerate(block.parts):
        rest = [slice(None)] * (len(block.parts) - 1 - axis)
        trailing(out, (slice(part.inputs, None), *rest))[...] = 0
    inside = trailing(out, (slice(p.inputs) for p in block.parts))
    lead = x.ndim - len(block.parts)
    inside[...] = x.transpose(*range(1, lead), 0, *range(lead, x.ndim))


def flat_planes(part: Array) -> Array | None:
    """Return `[C, *]` as a matrix if that needs no copy."""
    try:
        return part.reshape(part.shape[0], -1, copy=False)
    except ValueError:
        return None


def lead_columns(block: OutputBlock) -> int:
    """Return the number of leading columns of a block that belong to no output."""
    if block.count > 1:
        return 0
    lead = block.parts[0].start - block.parts[0].first
    return int(lead * math.prod(block.grid[1:]))


def open_tile(out: Array, block: OutputBlock, channels: slice, space: Space) -> Array:
    """Return memory for the sums of a block of `out [N, M, *O]`: `[images, channels, *]`.

    It is the block itself, or scratch memory if the sums have a wider type. If not every
    position is reached it is zero.
    """
    tile = block.box(out)[:, channels]
    dtype = type_of_sums(out.dtype)
    if dtype != out.dtype:
        tile = space.array(tile.shape, dtype)
    if not block.covered:
        clear(tile)
    return tile


def close_tile(
    tile: Array, out: Array, block: OutputBlock, channels: slice, epilogue: Epilogue | None
) -> None:
    """Apply an epilogue to a tile, run by run of adjacent positions of `out`, and store it."""
    if epilogue is not None:
        for part, image, span in runs_of(tile, out.shape[2:], block):
            epilogue(part, image, channels, span)
    if tile.dtype != out.dtype:
        block.box(out)[:, channels] = tile


def runs_of(
    tile: Array, sizes: Sequence[int], block: OutputBlock
) -> Iterator[tuple[Array, int, slice]]:
    """Yield the runs of adjacent positions of a tile `[images, channels, *]` in an output.

    Each is `[channels, positions]`, with its image and the places of the positions in a plane of
    `sizes`.
    """
    whole = [p.lo == 0 and p.hi == o for p, o in zip(block.parts, sizes, strict=True)]
    axis = next((a for a in range(len(sizes)) if all(whole[a + 1 :])), 0)
    rest = math.prod(sizes[axis + 1 :])
    run = block.parts[axis]
    origin = [p.lo for p in block.parts[:axis]]
    for lead in np.ndindex(*(p.outputs for p in block.parts[:axis])):
        at = 0
        for i, lo, o in zip(lead, origin, sizes, strict=False):
            at = at * o + lo + i
        base = at * sizes[axis] * rest
        span = slice(base + run.lo * rest, base + run.hi * rest)
        runs = tile[(slice(None), slice(None), *lead)]
        runs = runs.reshape(*tile.shape[:2], span.stop - span.start, copy=False)
        for i, part in enumerate(runs, block.images.start):
            yield part, i, span


def tile_bytes(problem: ConvProblem, blocks: Blocking, channels: int) -> int:
    """Return the scratch memory of `open_tile` for so many channels."""
    if not problem.narrow:
        return 0
    most = blocks.most(lambda b: b.output_positions)
    return most * channels * problem.itemsize
