"""Kernels prepared for exact sizes: chosen and given their filter once, run often.

The letters are those of `shared.problem`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import ITEMS, pieces
from irdeconv.kernels.shared.scratch import Space, clear
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array

LONG_ITEM = 1e6  # nanoseconds; work is cut into more pieces where each would take longer
NEARLY = 1.02  # times the least cost
LONG = 2e6  # nanoseconds of a layer that two threads should gain from, ...
GAIN = 1.6  # ... so many times as fast as one, ...
DEARER = 1.1  # ... where that costs one at most so many times as much
SHARES = (1, 2, 4, 8)  # parts that are tried
ROUNDING = 1.1  # times as fast, where a kernel rounds more than sums of products do, ...
ROUNDING_NS = 50_000.0  # ... and nanoseconds saved


class Epilogue(Protocol):
    """What is done to the sums before they are stored: bias, activation, residual addition."""

    positional: bool
    """Whether it reads other tensors of the output's shape, so that a tile's place matters."""

    def __call__(self, tile: Array, image: int, channels: slice, positions: slice) -> None:
        """Finish a tile `[channels, positions]` of the output in place.

        `positions` counts the elements of an output plane (the product of O); it is ignored where
        the epilogue is not positional.
        """


class Kernel(Protocol):
    """A (de)convolution with its filter rearranged; what `prepare` of a candidate returns."""

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """Compute `out [N, M, *O]` (C-contiguous) from `x [N, C, *I]` (any strides)."""


Piece = Callable[[Space], None]
"""Work with memory that stays where it is, but for scratch memory that it is given."""

Fix = Callable[[Array, int, slice, slice], Piece | None]
"""Takes what an epilogue is called with, for memory that stays where it is; returns that call."""


@runtime_checkable
class NamedKernel(Protocol):
    """A kernel that the filter's values decided on, so that it is not what its candidate names."""

    name: str
    why: str


@runtime_checkable
class FixedKernel(Protocol):
    """A kernel that can find its views of memory that stays where it is once and for all."""

    def fixed(self, x: Array, out: Array, finish: Fix) -> Callable[[Team], None] | None:
        """Return what the kernel would do with these arrays; None where it cannot know."""


@runtime_checkable
class MovableKernel(FixedKernel, Protocol):
    """A kernel that takes hardly longer with other memory in every run, where nothing is finished.

    `movable` tells whether that holds for these sizes.
    """

    movable: bool


@dataclass(frozen=True)
class Estimate:
    """How long a kernel takes: the sum of what it does, counted, times fitted rates.

    `rates` is the record of a family of kernels, in nanoseconds; `nanoseconds` takes such a record
    and is linear in its fields, so that `tools/fit_rates.py` can fit them to measurements.
    """

    rates: Any
    nanoseconds: Callable[[Any], float]

    @property
    def cost(self) -> float:
        """The time by the rates of this machine."""
        return self.nanoseconds(self.rates)


@dataclass(frozen=True)
class Candidate:
    """A kernel that could do the work.

    `cost` is its estimated time in nanoseconds on one thread, `scratch` its memory in bytes besides
    input, output and the filter as given (rearranged filters count). Threads can share `items`
    pieces of work. `transforms`: it multiplies transformed inputs and taps, as Winograd's kernels
    do, instead of the definition's products, and so rounds more. `spreads`: an infinity or NaN of
    the input reaches outputs that do not see it. `estimate` is where the cost comes from, if its
    rates are fitted by the tool. `cuts` are other ways to cut the same work, which may be measured,
    too.
    """

    name: str
    cost: float
    scratch: int
    prepare: Callable[[Array], Kernel]
    items: int = 1
    transforms: bool = False
    spreads: bool = False
    estimate: Estimate | None = None
    cuts: tuple[Candidate, ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """What tells it from all other candidates for the same problem."""
        return f"{self.name}, pieces {self.items}, scratch {self.scratch}"

    @property
    def gain(self) -> float:
        """How much faster two threads are than one, if all pieces take as long."""
        return self.items / -(-self.items // 2)

    def changed(self, change: Callable[[Candidate], Candidate]) -> Candidate:
        """Return it with all of its cuts changed alike."""
        return replace(change(self), cuts=tuple(map(change, self.cuts)))


def every_cut(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return all ways to cut the work of candidates; one of those that nothing tells apart.

    Those that threads could not share, as they can the candidate, are left out, also for a single
    thread: what is chosen must not depend on the number of threads.
    """
    found = dict[str, Candidate]()
    for candidate in candidates:
        least = min(candidate.items, ITEMS)
        for way in (candidate, *(c for c in candidate.cuts if c.items >= least)):
            found.setdefault(way.label, way)
    return list(found.values())


def shared(ways: Iterable[Candidate]) -> Candidate:
    """Choose the cheapest way to cut the work, or one that costs nearly as little.

    Of the latter it is the one whose items threads share best. Where the work is long and none of
    them is shared well, more may be paid for one that is.
    """
    cuts = list(ways)
    least = min(c.cost for c in cuts)
    wanted = max(ITEMS, int(least / LONG_ITEM))
    near = [c for c in cuts if c.cost <= NEARLY * least]
    if least > LONG and all(c.gain < GAIN for c in near):
        near = [c for c in cuts if c.cost <= DEARER * least and c.gain >= GAIN] or near
    return best_of(max(near, key=lambda c: (min(c.items, wanted), -c.cost)), cuts)


def best_of(best: Candidate, cuts: Iterable[Candidate]) -> Candidate:
    """Return the best cut, which knows the others."""
    return replace(best, cuts=tuple(c for c in cuts if c is not best))


def worthwhile(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out kernels that transform tiles where they save little: they round more.

    So small layers of integral values are exact.
    """
    plain = min((c.cost for c in candidates if not c.transforms), default=math.inf)
    return [
        c
        for c in candidates
        if not c.transforms or max(c.cost + ROUNDING_NS, c.cost * ROUNDING) < plain
    ]


def _zero(x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
    """Fill an output that no input reaches. A Kernel."""
    clear(out)
    if out.size:
        finish(out, epilogue, team)


ZERO = Candidate("zero", cost=0.0, scratch=0, prepare=lambda w: _zero)


def finish(out: Array, epilogue: Epilogue | None, team: Team) -> None:
    """Apply an epilogue to a whole output, tile by tile."""
    if epilogue is None:
        return
    block = blocking.SIZES.epilogue_bytes
    n, m = out.shape[:2]
    flat = out.reshape(n, m, -1)
    width = flat.shape[2]
    rows = max(1, min(m, block // max(1, width * out.itemsize)))
    span = width if rows > 1 else max(1, block // out.itemsize)
    tiles = [
        (i, channels, positions)
        for i in range(n)
        for channels in pieces(m, rows)
        for positions in pieces(width, span)
    ]
    team.each(tiles, lambda tile, _: epilogue(flat[tile], *tile))


def deliver(
    tile: Array, out: Array, epilogue: Epilogue | None, image: int, channels: slice, at: slice
) -> None:
    """Finish a tile `[channels, positions]` and store it into `out`, a view of the same shape."""
    if epilogue is not None:
        epilogue(tile, image, channels, at)
    if tile is not out:
        out[...] = tile
