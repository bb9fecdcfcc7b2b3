"""Kernels for floats narrower than f32: computed in f32, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from irdeconv.kernels.prepared import Candidate, Epilogue, Kernel, Windows
from irdeconv.kernels.team import Space, Team
from irdeconv.spec import Array

CONVERT = 0.7  # ns per element
CHUNK = 1 << 16  # elements converted at once


class _Shifted:
    """An epilogue for images that are computed one at a time."""

    def __init__(self, epilogue: Epilogue, image: int) -> None:
        self.epilogue, self.image = epilogue, image
        self.positional = epilogue.positional

    def __call__(self, tile: Array, image: int, channels: slice, positions: slice) -> None:
        """See Epilogue."""
        self.epilogue(tile, self.image + image, channels, positions)


class _Narrow:
    """Converts one image at a time around a kernel for f32."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        for name in ("name", "why"):  # see Kernel
            if hasattr(kernel, name):
                setattr(self, name, getattr(kernel, name))

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See Kernel."""
        wide = team.space.array((1, *x.shape[1:]), "float32")
        sums = team.space.array((1, *out.shape[1:]), "float32")
        used = team.space.used
        for image in range(x.shape[0]):
            team.space.release(used)
            _copy(wide[0], x[image], team)
            own = None if epilogue is None else _Shifted(epilogue, image)
            self.kernel(wide, sums, own, team)
            _copy(out[image], sums[0], team)


def _copy(into: Array, source: Array, team: Team) -> None:
    def work(channels: slice, _: Space) -> None:
        into[channels] = source[channels]

    step = max(1, CHUNK // max(1, math.prod(into.shape[1:])))
    team.each([slice(i, i + step) for i in range(0, len(into), step)], work)


def narrow(windows: Windows, candidates: Callable[[Windows], list[Candidate]]) -> list[Candidate]:
    """Return the candidates for f32, wrapped so that they take and give narrower floats."""
    single = replace(windows, shape=(1, *windows.shape[1:]), dtype="float32")
    elements = math.prod(single.shape) + math.prod(single.out_shape)

    def wrap(c: Candidate) -> Candidate:
        def prepare(w: Array) -> Kernel:
            return _Narrow(c.prepare(w.astype("float32")))

        cost = windows.shape[0] * (c.cost + CONVERT * elements)
        return Candidate(c.name, cost, c.scratch + 4 * elements, prepare)

    return [wrap(c) for c in candidates(single)]
