"""Enlarge a picture piece by piece with a network, and check it by one that should do the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from irdeconv import progress
from irdeconv.cli.pictures import image_of, planes
from irdeconv.spec import Array

if TYPE_CHECKING:
    from PIL.Image import Image

Run = Callable[[Array], Array]

FACTOR = 2
PIECE_SIDE = 256  # pixels, of the picture that is enlarged, on each side of a piece
FEW_PIECES = 4  # as many are enlarged by both graphs; of more, one
CUT_MARGIN = 12  # pixels around a piece; what is further away does not reach its results


class Span(NamedTuple):
    """A piece on one axis: it begins at `start`, and `kept` to `end` is what it is there for."""

    start: int
    kept: int
    end: int


def spans(size: int, piece: int = PIECE_SIDE, margin: int = CUT_MARGIN) -> list[Span]:
    """Return overlapping pieces of one size that share an axis.

    Each is kept up to `margin` pixels from where it was cut; the picture's own edges are no cuts.
    """
    piece = min(size, piece)
    starts = [*range(0, size - piece, piece - 2 * margin), size - piece]
    cuts = [start + margin for start in starts[1:]]
    return [Span(*s) for s in zip(starts, [0, *cuts], [*cuts, size], strict=True)]


@dataclass(frozen=True)
class Enlarged:
    """A picture that a graph has enlarged.

    `seconds` is its time and that of the graph it is checked by, `difference` the largest between
    what both made of a piece, 1 being full brightness.
    """

    image: Image
    pieces: int
    seconds: tuple[float, float]
    difference: float

    @property
    def checked(self) -> bool:
        """Whether both graphs have enlarged all pieces, not only one."""
        return self.pieces <= FEW_PIECES


def piece_shape(image: Image) -> tuple[int, int, int, int]:
    """Return the input shape of a network for the pieces of a picture."""
    many = 2 if image.mode == "RGBA" else 1
    return many, 3, min(image.height, PIECE_SIDE), min(image.width, PIECE_SIDE)


def piece_count(image: Image) -> int:
    """Return how many pieces a picture is cut into."""
    return len(spans(image.height)) * len(spans(image.width))


class PicturePiece(NamedTuple):
    """A piece of a picture: where it stands, and what a network is given of it."""

    across: Span
    down: Span
    planes: Array


def pieces(image: Image) -> Iterator[PicturePiece]:
    """Yield the pieces of a picture row by row."""
    _, _, height, width = piece_shape(image)
    for down in spans(image.height):
        for across in spans(image.width):
            box = across.start, down.start, across.start + width, down.start + height
            yield PicturePiece(across, down, planes(image.crop(box)))


def middle_piece(image: Image) -> PicturePiece:
    """Return the piece that stands for all where only one is looked at."""
    return next(islice(pieces(image), piece_count(image) // 2, None))


def enlarge(
    image: Image, run: Run, check: Run, announce: Callable[[int, float], None] | None = None
) -> Enlarged:
    """Enlarge a picture by `run`; `check` does the same with all pieces or, of many, with one.

    Where there are many, `announce` is told how many and how many seconds they may take.
    """
    from PIL import Image

    out = Image.new(image.mode, (image.width * FACTOR, image.height * FACTOR))
    total = piece_count(image)
    few = total <= FEW_PIECES
    seconds, worst = [0.0, 0.0], 0.0
    if not few:
        x = middle_piece(image).planes
        first, took = _timed(run, x)
        other, seconds[1] = _timed(check, x)
        worst = _difference(first, other)
        if announce is not None:
            announce(total, total * took)
    with progress.stage("enlarging", total) as step:
        for across, down, x in pieces(image):
            made, took = _timed(run, x)
            seconds[0] += took
            if few:
                other, took = _timed(check, x)
                seconds[1] += took
                worst = max(worst, _difference(made, other))
            box = [FACTOR * (v - s.start) for s in (across, down) for v in (s.kept, s.end)]
            kept = image_of(made, image.mode).crop((box[0], box[2], box[1], box[3]))
            out.paste(kept, (FACTOR * across.kept, FACTOR * down.kept))
            step()
    return Enlarged(out, total, (seconds[0], seconds[1]), worst)


def _timed(run: Run, x: Array) -> tuple[Array, float]:
    start = time.perf_counter()
    made = run(x)
    return made, time.perf_counter() - start


def _difference(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max())
