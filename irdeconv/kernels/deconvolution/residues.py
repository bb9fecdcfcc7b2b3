"""The geometry that the deconvolution kernels share, axis by axis and block by block.

    full[s*S + k*D] += x[s] * w[k];   y[o] = full[o + begin]

Taps k = r + q*step, with step = S / gcd(S, D), fall onto the same outputs modulo S; they form the
*residue* r and differ by q shifts of D / gcd(S, D) positions. The *grown* plane of a residue,
P_r[u] = sum over q of w[r + q*step] x[u - q*shift], lands at the outputs u*S + r*D - begin.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from irdeconv.kernels.shared.candidate import Epilogue
from irdeconv.kernels.shared.problem import ConvProblem, type_of_sums
from irdeconv.kernels.shared.team import Space, shares
from irdeconv.kernels.shared.zero_insertion import trailing
from irdeconv.spec import Array


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a deconvolution."""

    inputs: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    size: int

    @cached_property
    def step(self) -> int:
        """How far apart the taps of one residue are."""
        return self.stride // math.gcd(self.stride, self.dilation)

    @cached_property
    def shift(self) -> int:
        """How many positions apart neighbouring taps of one residue land."""
        return self.dilation // math.gcd(self.stride, self.dilation)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many taps each residue has; the first has most."""
        return tuple(-(-(self.kernel - r) // self.step) for r in range(min(self.kernel, self.step)))

    @property
    def halo(self) -> int:
        """How far the terms of one input position spread in a grown plane."""
        return (self.counts[0] - 1) * self.shift

    def outputs(self, r: int, lo: int, hi: int) -> tuple[int, int]:
        """Return which grown positions of residue r land in the outputs lo..hi."""
        offset = r * self.dilation - self.begin
        first = max(0, -((offset - lo) // self.stride))
        last = min(
            self.inputs + (self.counts[r] - 1) * self.shift, (hi - 1 - offset) // self.stride + 1
        )
        return first, max(first, last)

    def part(self, lo: int, hi: int) -> Part:
        """Return what the outputs lo..hi need."""
        spans = [self.outputs(r, lo, hi) for r in range(len(self.counts))]
        some = [s for s in spans if s[0] < s[1]]
        start, stop = min((s[0] for s in some), default=0), max((s[1] for s in some), default=0)
        covered = sum(b - a for a, b in spans) == hi - lo
        first = min(max(0, start - self.halo), self.inputs)
        return Part(self, lo, hi, start, stop, first, max(first, min(self.inputs, stop)), covered)

    def kinds(self, height: int) -> list[tuple[Part, int]]:
        """Return one part of each kind where each is `height` outputs high, and how many there are.

        Between parts that meet an end of the inputs, all are alike.
        """
        steps = range(0, self.size, height)
        low = (self.kernel - 1 + self.step) * self.dilation - self.begin + self.stride
        high = min(self.size, self.inputs * self.stride - self.begin)
        inner = range(max(0, -(-low // height)), min(len(steps), high // height))
        found: dict[Any, tuple[Part, int]] = {}
        for i in (
            *range(len(steps))[: inner.start],
            *range(max(inner.start, inner.stop), len(steps)),
        ):
            part = self.part(steps[i], min(steps[i] + height, self.size))
            found[part.kind] = part, found.get(part.kind, (part, 0))[1] + 1
        if inner:
            part = self.part(steps[inner[0]], steps[inner[0]] + height)
            found[part.kind] = part, found.get(part.kind, (part, 0))[1] + len(inner)
        return list(found.values())


@dataclass(frozen=True)
class Part:
    """The outputs lo..hi of an axis: they need grown positions start..stop, inputs first..last."""

    axis: Axis
    lo: int
    hi: int
    start: int
    stop: int
    first: int
    last: int
    covered: bool

    @property
    def inputs(self) -> int:
        """The number of input positions."""
        return self.last - self.first

    @property
    def kind(self) -> tuple[int, ...]:
        """Its sizes: parts that agree in them cost the same."""
        start, stop = self.start - self.first, self.stop - self.first
        return self.hi - self.lo, self.inputs, start, stop, self.covered

    @property
    def extent(self) -> int:
        """The inputs and the zeros behind them, into which shifted reads run."""
        return self.inputs + self.axis.halo

    def reach(self, r: int) -> tuple[slice, slice]:
        """Return which positions of residue r are wanted, counted from `first`, and where."""
        a, b = self.axis.outputs(r, self.lo, self.hi)
        at = a * self.axis.stride + r * self.axis.dilation - self.axis.begin - self.lo
        stop = at + (b - a - 1) * self.axis.stride + 1 if b > a else at
        return slice(a - self.first, b - self.first), slice(at, stop, self.axis.stride)


@dataclass(frozen=True)
class Block:
    """A box of outputs of some images; all channels."""

    images: slice
    parts: tuple[Part, ...]

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
        """The padded inputs' sizes; reading `halo` positions back never meets another row's data.

        A single image needs no zeros behind its last row.
        """
        sizes = [p.extent for p in self.parts]
        if self.count == 1:
            sizes[0] = max(self.parts[0].stop - self.parts[0].first, self.parts[0].inputs)
        return tuple(sizes)

    @cached_property
    def reaches(self) -> dict[tuple[int, ...], tuple[Any, Any]]:
        """Per residue, the index of its grown positions in `grid`, and of its outputs."""
        found: dict[tuple[int, ...], tuple[Any, Any]] = {}
        for r in residues([p.axis for p in self.parts]):
            pairs = [p.reach(i) for p, i in zip(self.parts, r, strict=True)]
            found[r] = (..., *(s for s, _ in pairs)), (..., *(t for _, t in pairs))
        return found

    @cached_property
    def columns(self) -> int:
        """The number of positions of the padded inputs of all images."""
        return self.count * math.prod(self.grid)

    def box(self, y: Array) -> Array:
        """Return the block of an array [N, channels, *O]."""
        index = (self.images, slice(None), *(slice(p.lo, p.hi) for p in self.parts))
        box: Array = y[index]
        return box

    def inputs(self, x: Array) -> Array:
        """Return the inputs [images, channels, *] that the block needs, of x [N, channels, *I]."""
        index = (self.images, slice(None), *(slice(p.first, p.last) for p in self.parts))
        box: Array = x[index]
        return box

    def offset(self, q: Sequence[int]) -> int:
        """Return how far apart, in the flat padded inputs, taps lie that differ by q shifts."""
        at = 0
        for size, part, count in zip(self.grid, self.parts, q, strict=True):
            at = at * size + count * part.axis.shift
        return at


def axes_of(problem: ConvProblem) -> tuple[Axis, ...]:
    """Return the spatial axes."""
    rows = zip(
        problem.shape[2:],
        problem.kernel,
        problem.strides,
        problem.dilations,
        problem.begin,
        problem.sizes,
        strict=True,
    )
    return tuple(Axis(*row) for row in rows)


@dataclass(frozen=True)
class Cut:
    """The output in blocks: `images` at a time, and along each axis `heights` outputs at a time.

    Large layers have a great many blocks, of a few kinds: costs are estimated from those.
    """

    problem: ConvProblem
    images: int
    heights: tuple[int, ...]

    def __len__(self) -> int:
        pairs = zip(self.problem.sizes, self.heights, strict=True)
        return -(-self.problem.shape[0] // self.images) * math.prod(-(-o // h) for o, h in pairs)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    @cached_property
    def blocks(self) -> list[Block]:
        """All blocks in order."""
        axes, n = axes_of(self.problem), self.problem.shape[0]
        parts = [
            [a.part(lo, min(lo + h, a.size)) for lo in range(0, a.size, h)]
            for a, h in zip(axes, self.heights, strict=True)
        ]
        return [
            Block(slice(i, min(i + self.images, n)), box)
            for i in range(0, n, self.images)
            for box in itertools.product(*parts)
        ]

    @cached_property
    def kinds(self) -> list[tuple[Block, int]]:
        """One block of each kind, and how many there are."""
        n, step = self.problem.shape[0], self.images
        batches = [(slice(0, step), n // step), (slice(n - n % step, n), int(n % step > 0))]
        axes = [a.kinds(h) for a, h in zip(axes_of(self.problem), self.heights, strict=True)]
        return [
            (Block(images, tuple(p for p, _ in box)), times * math.prod(t for _, t in box))
            for images, times in batches
            if times
            for box in itertools.product(*axes)
        ]

    def most(self, measure: Callable[[Block], int]) -> int:
        """Return the largest measure of a block; at least 1."""
        return max(1, *(measure(b) for b, _ in self.kinds))


def split(problem: ConvProblem, limit: int, overhead: int = 0) -> Cut:
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
        positions = max(1, min(extent, max(room, overhead * axis.halo)))
        pieces = max(1, -(-extent // positions))
        steps = -(-axis.size // axis.stride)
        heights.append(axis.size if pieces == 1 else shares(steps, pieces) * axis.stride)
    return Cut(problem, images, tuple(max(1, h) for h in heights))


def residues(axes: Sequence[Axis]) -> Iterator[tuple[int, ...]]:
    """Enumerate the residues of all axes."""
    return itertools.product(*(range(len(a.counts)) for a in axes))


def put(plane: Array, r: Sequence[int], block: Block, tile: Array) -> None:
    """Write residue r, `plane [channels, images, *grid]`, into `tile [images, channels, *]`.

    There may be several axes of channels.
    """
    taken, where = block.reaches[tuple(r)]
    tile[where] = images_first(plane[taken], block)


def put_edged(plane: Array, edge: Array, r: Sequence[int], block: Block, tile: Array) -> None:
    """Write residue r, whose positions behind the inputs' last column lie in `edge`."""
    (*lead, columns), (*above, into) = (index[1:] for index in block.reaches[tuple(r)])
    width, step = block.parts[-1].inputs, block.parts[-1].axis.stride
    inside = min(columns.stop, width) - columns.start
    if inside > 0:
        cut = slice(columns.start, columns.start + inside)
        where = slice(into.start, into.start + (inside - 1) * step + 1, step)
        tile[(..., *above, where)] = images_first(plane[(..., *lead, cut)], block)
    if columns.stop > width:
        first = max(columns.start, width)
        cut = slice(first - width, columns.stop - width)
        where = slice(into.start + (first - columns.start) * step, into.stop, step)
        tile[(..., *above, where)] = images_first(edge[(..., *lead, cut)], block)


def images_first(plane: Array, block: Block) -> Array:
    """View `[channels, images, *grid]` as `[images, channels, *grid]`."""
    at = plane.ndim - len(block.parts) - 1
    # moveaxis would cost as much as writing some thousand elements
    return plane.transpose(at, *range(at), *range(at + 1, plane.ndim))


def pad(x: Array, block: Block, out: Array) -> None:
    """Write inputs `x [images, channels, *]` into `out [channels, images, *grid]`, zeros behind.

    There may be several axes of channels.
    """
    for axis, part in enumerate(block.parts):
        rest = [slice(None)] * (len(block.parts) - 1 - axis)
        trailing(out, (slice(part.inputs, None), *rest))[...] = 0
    own = trailing(out, (slice(p.inputs) for p in block.parts))
    lead = x.ndim - len(block.parts)
    own[...] = x.transpose(*range(1, lead), 0, *range(lead, x.ndim))


def group_filters(w: Array, group: int, q: Sequence[int], axes: Sequence[Axis]) -> Array:
    """Return the taps of all residues at q shifts: `[C/g, M/g, *residues that have such a tap]`."""
    cuts = [slice(i * a.step, (i + 1) * a.step) for i, a in zip(q, axes, strict=True)]
    return trailing(w[group], cuts)


def shifts(axes: Sequence[Axis]) -> list[tuple[int, ...]]:
    """Enumerate the shifts q of all axes."""
    return list(np.ndindex(*(a.counts[0] for a in axes)))


def open_tile(out: Array, block: Block, channels: slice, space: Space) -> Array:
    """Return where sums of a block of `out [N, M, *O]` are written: `[images, channels, *]`.

    It is the block itself, or scratch memory where the sums have a wider type. Where not every
    position is reached it is zero.
    """
    tile = block.box(out)[:, channels]
    dtype = type_of_sums(out.dtype)
    if dtype != out.dtype:
        tile = space.array(tile.shape, dtype)
    if not block.covered:
        tile[...] = 0
    return tile


def close_tile(
    tile: Array, out: Array, block: Block, channels: slice, epilogue: Epilogue | None
) -> None:
    """Apply an epilogue to a tile, run by run of adjacent positions of `out`, and store it."""
    if epilogue is not None:
        _finish(tile, out.shape[2:], block, channels, epilogue)
    if tile.dtype != out.dtype:
        block.box(out)[:, channels] = tile


def _finish(
    tile: Array, sizes: Sequence[int], block: Block, channels: slice, epilogue: Epilogue
) -> None:
    whole = [p.lo == 0 and p.hi == o for p, o in zip(block.parts, sizes, strict=True)]
    axis = next((a for a in range(len(sizes)) if all(whole[a + 1 :])), 0)
    rest = math.prod(sizes[axis + 1 :])
    run = block.parts[axis]
    origin = [p.lo for p in block.parts[:axis]]
    for lead in np.ndindex(*(p.hi - p.lo for p in block.parts[:axis])):
        at = 0
        for i, lo, o in zip(lead, origin, sizes, strict=False):
            at = at * o + lo + i
        base = at * sizes[axis] * rest
        span = slice(base + run.lo * rest, base + run.hi * rest)
        runs = tile[(slice(None), slice(None), *lead)]
        runs = runs.reshape(*tile.shape[:2], span.stop - span.start, copy=False)
        for i, part in enumerate(runs, block.images.start):
            epilogue(part, i, channels, span)


def tile_bytes(problem: ConvProblem, blocks: Cut, channels: int) -> int:
    """Return the scratch memory of `open_tile` for so many channels."""
    if not problem.narrow:
        return 0
    most = blocks.most(lambda b: b.count * math.prod(p.hi - p.lo for p in b.parts))
    return most * channels * problem.itemsize
