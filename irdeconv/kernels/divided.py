"""Layers of which two threads would wait for each other, computed in parts of equal time.

Some images of a layer, or some of its output channels, are a layer themselves. A kernel that cuts
its work into one piece, or three, computes each of these as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels.candidate import DEARER, GAIN, LONG, Candidate, ConvProblem, Epilogue, Kernel
from irdeconv.kernels.scratch import Space, pieces
from irdeconv.kernels.threads import Alone, Team

MOST_LAYER_PARTS = 8


@dataclass(frozen=True)
class LayerPart:
    """Some images, or of one image some groups or some output channels of a group."""

    whole: ConvProblem
    images: slice
    groups: slice
    channels: slice

    @property
    def problem(self) -> ConvProblem:
        """The part as a problem of its own."""
        images, groups, channels = (
            s.stop - s.start for s in (self.images, self.groups, self.channels)
        )
        inputs = groups * self.whole.group_inputs
        shape = (images, inputs, *self.whole.shape[2:])
        return replace(self.whole, shape=shape, outputs=groups * channels, groups=groups)

    @property
    def outputs(self) -> slice:
        """The output channels; all are neighbours."""
        m = self.whole.group_outputs
        first = self.groups.start * m + self.channels.start
        return slice(first, (self.groups.stop - 1) * m + self.channels.stop)

    def of_input(self, x: Array) -> Array:
        """Return the part of `x [N, C, *I]` that is read."""
        c = self.whole.group_inputs
        return x[self.images, self.groups.start * c : self.groups.stop * c]

    def of_filter(self, w: Array, axis: int) -> Array:
        """Return the filter, whose output channels of a group lie along an axis."""
        return w[(self.groups, *(slice(None),) * (axis - 1), self.channels)]


@dataclass
class _Displaced:
    """An epilogue of a part of its output."""

    epilogue: Epilogue
    positional: bool
    image: int
    channel: int

    def __call__(self, tile: Array, image: int, channels: slice, positions: slice) -> None:
        moved = slice(channels.start + self.channel, channels.stop + self.channel)
        self.epilogue(tile, image + self.image, moved, positions)


@dataclass(frozen=True)
class DividedKernel:
    """A kernel for each part."""

    parts: Sequence[LayerPart]
    kernels: Sequence[Kernel]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""

        def work(number: int, space: Space) -> None:
            part, kernel = self.parts[number], self.kernels[number]
            target, done = out[part.images, part.outputs], epilogue
            if epilogue is not None:  # the kernel counts images and channels from the part's
                first = part.images.start, part.outputs.start
                done = _Displaced(epilogue, epilogue.positional, *first)
            kernel(part.of_input(x), target, done, Alone(space))

        team.each(range(len(self.parts)), work)


def parts_of(problem: ConvProblem) -> list[LayerPart]:
    """Divide a layer into parts that two threads share well; there are none if it has too little.

    Into images if it has enough of these, else each image into groups, else these into channels.
    """
    for parts in _divisions(problem):
        sizes = sorted(p.problem.shape[0] * p.problem.outputs for p in parts)
        longest = sizes[-1] * -(-len(sizes) // 2) if len(sizes) > 2 else sizes[-1]
        if len(sizes) <= MOST_LAYER_PARTS and sum(sizes) >= GAIN * longest:
            return parts
    return []


def _divisions(problem: ConvProblem) -> Iterator[list[LayerPart]]:
    n, g, m = problem.shape[0], problem.groups, problem.group_outputs
    all_images, all_groups, all_channels = slice(0, n), slice(0, g), slice(0, m)
    yield [LayerPart(problem, some, all_groups, all_channels) for some in _halves(all_images)]
    each = pieces(n, 1)
    yield [LayerPart(problem, i, some, all_channels) for i in each for some in _halves(all_groups)]
    yield [
        LayerPart(problem, i, group, some)
        for i in each
        for group in pieces(g, 1)
        for some in _halves(all_channels)
    ]


def _halves(whole: slice) -> list[slice]:
    return pieces(whole.stop, -(-whole.stop // 2))


def divided(
    problem: ConvProblem,
    candidates: Sequence[Candidate],
    list_kernels: Callable[[ConvProblem], list[Candidate]],
    axis: int,
) -> list[Candidate]:
    """Return the candidates for a layer, and for parts of a long one if threads share it badly.

    Candidates that threads share badly are left out if others cost hardly more. `list_kernels`
    lists candidates for the parts; `axis` is that of the output channels of a group in the filter.
    Nothing depends on the number of threads.
    """
    least = min(c.cost for c in candidates)
    uneven = [c for c in candidates if c.cost <= DEARER * least and c.gain < GAIN]
    parts = parts_of(problem) if uneven and least > LONG else []
    if not parts:
        return list(candidates)
    kinds = {part.problem for part in parts}
    listed = {kind: {c.name: c for c in list_kernels(kind)} for kind in kinds}
    found = list(candidates)
    for whole in uneven:
        some = [listed[part.problem].get(whole.name) for part in parts]
        kernels = [c for c in some if c is not None]
        if len(kernels) == len(parts):
            found.append(_candidate(whole, parts, kernels, axis))
    even = [c for c in found if c.gain >= GAIN]
    return [c for c in found if not (c in uneven and any(_replaces(e, c) for e in even))]


def _replaces(even: Candidate, uneven: Candidate) -> bool:
    """Whether the one is better for two threads, and for one hardly worse."""
    dearer = even.cost > DEARER * uneven.cost
    return not dearer and even.transforms <= uneven.transforms and even.spreads <= uneven.spreads


def _candidate(
    whole: Candidate,
    parts: Sequence[LayerPart],
    kernels: Sequence[Candidate],
    axis: int,
) -> Candidate:
    """Return the candidate that computes the parts of another one."""

    def prepare(w: Array) -> Kernel:
        pairs = zip(parts, kernels, strict=True)
        filters = ((np.ascontiguousarray(part.of_filter(w, axis)), c) for part, c in pairs)
        return DividedKernel(parts, [c.prepare(some) for some, c in filters])

    return Candidate(
        name=whole.name,
        cost=sum(c.cost for c in kernels),
        scratch=sum(c.scratch for c in kernels),
        prepare=prepare,
        items=len(parts),
        transforms=any(c.transforms for c in kernels),
        spreads=any(c.spreads for c in kernels),
    )
