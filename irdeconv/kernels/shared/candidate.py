"""Kernels prepared for exact sizes: chosen and given their filter once, run often.

The letters are those of `shared.problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from irdeconv.kernels.shared.team import Space, Team
from irdeconv.spec import Array

ITEMS = 4  # as many are wanted for threads to share, ...
LONG = 1e6  # ... and more of layers that take longer than that each, in nanoseconds
NEARLY = 1.02
SHARES = (1, 2, 4, 8)  # parts that are tried


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
    """A (de)convolution with its filter rearranged; what `prepare` of a candidate returns.

    Where the filter's values decide, so that this is not the kernel that the candidate names, it
    has attributes `name` and `why`.
    """

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """Compute `out [N, M, *O]` (C-contiguous) from `x [N, C, *I]` (any strides)."""


Fix = Callable[[Array, int, slice, slice], Callable[[], None] | None]
"""Takes what an epilogue is called with, for memory that stays where it is; returns that call."""


class FixedKernel(Protocol):
    """A kernel that can find its views of memory that stays where it is once and for all."""

    def fixed(self, x: Array, out: Array, finish: Fix) -> Callable[[Team], None] | None:
        """Return what the kernel would do with these arrays; None where it cannot know."""


def repeated(work: Sequence[Callable[[Space], None]]) -> Callable[[Team], None]:
    """Return the call that does all pieces of work."""
    return lambda team: team.each(work, lambda piece, space: piece(space))


@dataclass(frozen=True)
class Candidate:
    """A kernel that could do the work.

    `cost` is its estimated time in nanoseconds on one thread, `scratch` its memory in bytes besides
    input, output and the filter as given (rearranged filters count). Threads can share `items`
    pieces of work.
    """

    name: str
    cost: float
    scratch: int
    prepare: Callable[[Array], Kernel]
    items: int = 1


def shared(ways: Iterable[Candidate]) -> Candidate:
    """Choose the cheapest way to cut the work, or one that costs nearly as little.

    Of the latter it is the one whose items threads share best.
    """
    found = list(ways)
    least = min(c.cost for c in found)
    wanted = max(ITEMS, int(least / LONG))
    near = [c for c in found if c.cost <= NEARLY * least]
    return max(near, key=lambda c: (min(c.items, wanted), -c.cost))


def finish(out: Array, epilogue: Epilogue | None, team: Team, block: int = 1 << 18) -> None:
    """Apply an epilogue to a whole output, tile by tile of about `block` bytes."""
    if epilogue is None:
        return
    n, m = out.shape[:2]
    flat = out.reshape(n, m, -1)
    width = flat.shape[2]
    rows = max(1, min(m, block // max(1, width * out.itemsize)))
    span = width if rows > 1 else max(1, block // out.itemsize)
    tiles = [
        (i, slice(c, min(c + rows, m)), slice(p, min(p + span, width)))
        for i in range(n)
        for c in range(0, m, rows)
        for p in range(0, width, span)
    ]
    team.each(tiles, lambda t, _: epilogue(flat[t[0], t[1], t[2]], t[0], t[1], t[2]))
