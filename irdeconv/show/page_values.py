"""Values of a run on the page: extremes, histograms, and tensors as small pictures of 8 bits.

Arrays are read in small parts. A pixel is the mean of the elements that it covers: 0 if one of them
is not finite, otherwise 1 to 255 from the least to the largest number of its channel.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from irdeconv.base.json_form import json_form
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import Array

PART_SIZE = 1 << 16  # elements that are float64 at a time


@dataclass(frozen=True, kw_only=True)
class ArrayStatistics:
    """Extremes, mean and counts; the first three are of the finite numbers, None without any.

    `bins` counts these in equal parts of the way from `low` to `high`, the last bin with its end;
    one bin if all are the same.
    """

    low: float | None = None
    high: float | None = None
    mean: float | None = None
    zeros: int = 0
    nan: int = 0
    infinite: int = 0
    bins: tuple[int, ...] = ()


def has_numbers(array: Array) -> bool:
    """Whether an array holds numbers at all: texts do not, and empty ones."""
    return bool(array.size) and array.dtype != object and array.dtype.kind not in "SUT"


def array_statistics(array: Array, bins: int = 0) -> ArrayStatistics:
    """Return the statistics of an array, in float64; empty ones if it has no numbers.

    Without `bins` the numbers are not counted by size.
    """
    if not has_numbers(array):
        return ArrayStatistics()
    nan = zeros = seen = 0
    low, high, mean = math.inf, -math.inf, 0.0
    for part in _parts(array):
        nan += int(np.isnan(part).sum())
        zeros += part.size - int(np.count_nonzero(part))
        finite = part[np.isfinite(part)]
        if not finite.size:
            continue
        low, high = min(low, float(finite.min())), max(high, float(finite.max()))
        share = finite.size / (seen + finite.size)
        mean = mean * (1 - share) + _mean(finite) * share
        seen += finite.size
    counts = ArrayStatistics(zeros=zeros, nan=nan, infinite=array.size - seen - nan)
    if not seen:
        return counts
    # The last digit of a mean may be rounded beyond the ends, even to infinity.
    mean = min(max(mean, low), high)
    counted = _histogram(array, low, high, bins, seen) if bins else ()
    return replace(counts, low=low, high=high, mean=mean, bins=counted)


def rounded(value: float, digits: int) -> float:
    """Return a number with fewer digits; the largest doubles are not rounded to infinity."""
    few = float(f"{value:.{digits}g}")
    return few if math.isfinite(few) else value


def _parts(array: Array) -> Iterator[Array]:
    """Yield all elements as float64, a part at a time; their order is that of memory."""
    for part in np.nditer(array, ["external_loop", "buffered"], order="K", buffersize=PART_SIZE):
        yield np.asarray(part).astype(np.float64)


def _mean(values: Array) -> float:
    # The sum of all may overflow although that of their shares does not.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        return mean if math.isfinite(mean) else float((values / values.size).sum())


def _histogram(array: Array, low: float, high: float, bins: int, seen: int) -> tuple[int, ...]:
    if low == high:
        return (seen,)
    # The width of the range may be more than a double holds, or less: powers of 2 are exact.
    power = -math.frexp(max(abs(low), abs(high)))[1]
    start, end = math.ldexp(low, power), math.ldexp(high, power)
    counts = np.zeros(bins, np.int64)
    for part in _parts(array):
        place = (np.ldexp(part[np.isfinite(part)], power) - start) / (end - start)
        counts += np.bincount(np.minimum((place * bins).astype(np.int64), bins - 1), minlength=bins)
    return tuple(map(int, counts))


Kind = Literal["maps", "colour", "lines"]


@dataclass(frozen=True)
class Level:
    """How large pictures may be: maps and lines of a tensor, and pixels of a side or a line."""

    channels: int
    side: int
    length: int
    colour: int


LEVELS = (
    Level(16, 64, 256, 256),
    Level(16, 48, 192, 192),
    Level(12, 32, 128, 128),
    Level(8, 24, 96, 96),
    Level(4, 24, 64, 64),
    Level(4, 16, 48, 48),
    Level(1, 16, 32, 32),
    Level(1, 8, 16, 16),
)


@dataclass(frozen=True)
class TensorPicture:
    """The first channels of a tensor, [channels, height, width]; NaN for each that is not finite.

    `total` counts all channels, `axes` says how the tensor was read, `size` is that of a channel
    before it was reduced.
    """

    kind: Kind
    axes: str
    total: int
    size: tuple[int, int]
    values: Array

    def at_most(self, level: Level) -> TensorPicture:
        """Return the picture reduced to a level; the same one if it is small enough."""
        return self if self.values.shape == self._shape(level) else self.read_at(level)

    def read_at(self, level: Level) -> TensorPicture:
        """Return the picture reduced to a level, of float64, with NaN for numbers not finite."""
        channels, height, width = self._shape(level)
        return replace(self, values=_reduced(self.values[:channels], height, width))

    def _shape(self, level: Level) -> tuple[int, int, int]:
        channels, height, width = self.values.shape
        if self.kind == "lines":
            return min(channels, level.channels), 1, min(width, level.length)
        most = level.colour if self.kind == "colour" else level.side
        scale = min(1.0, most / max(height, width))
        fewer = channels if self.kind == "colour" else min(channels, level.channels)
        return fewer, max(1, round(height * scale)), max(1, round(width * scale))

    @cached_property
    def ranges(self) -> list[tuple[float, float] | None]:
        """The least and largest number of each channel; of all together if they are colours."""
        whole = [self.values] * len(self.values) if self.kind == "colour" else [*self.values]
        finite = [v[np.isfinite(v)] for v in whole]
        return [(float(v.min()), float(v.max())) if v.size else None for v in finite]

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about the picture on the page."""
        digits = [None if r is None else [rounded(v, 5) for v in r] for r in self.ranges]
        ranges = digits[:1] if self.kind == "colour" else digits
        keys = "kind axes total size shape ranges"
        return json_form(self, keys, shape=self.values.shape, ranges=ranges)


def picture(
    values: Array, level: Level = LEVELS[0], *, colour: bool = False
) -> TensorPicture | None:
    """Return a tensor of floating-point numbers as a picture; None if it is none.

    [N, C, H, W] are maps, [N, C, L] and shorter ones lines; of [N, C, D, H, W] the middle slice is
    taken, of a batch the first. 3 channels are a `colour` picture if the caller says so.
    """
    read = _read(values)
    if read is None:
        return None
    axes, channels = read
    total, height, width = channels.shape
    kind: Kind = "lines" if height == 1 else "colour" if colour and total == 3 else "maps"
    return TensorPicture(kind, axes, total, (height, width), channels).read_at(level)


def _read(values: Array) -> tuple[str, Array] | None:
    """Return how the axes are read, and [channels, height, width] of a batch's first element."""
    shape = values.shape
    if values.size < 2 or not 1 <= values.ndim <= 5:
        return None
    if values.ndim == 5:
        middle = shape[2] // 2
        return f"N,C,D,H,W at D = {middle}", values[0, :, middle]
    if values.ndim == 3:
        return "N,C,L", values[0][:, None, :]
    if values.ndim < 3:
        return ("N,L" if values.ndim == 2 else "L"), values.reshape(-1, 1, shape[-1])
    if shape[2] == shape[3] == 1:
        return "N,C,1,1", values[0].reshape(1, 1, -1)
    if shape[3] in (1, 3, 4) and shape[1] > 4 and shape[2] > 4:
        return "N,H,W,C", np.moveaxis(values[0], -1, 0)
    return ("N,C,1,W" if shape[2] == 1 else "N,C,H,W"), values[0]


def _reduced(values: Array, height: int, width: int) -> Array:
    """Return the means of the elements of each pixel, read in parts; whole elements count."""
    channels, rows, columns = values.shape
    wide = max(1, min(columns, PART_SIZE // channels))
    tall = max(1, PART_SIZE // (channels * wide))
    out = np.zeros((channels, height, width))
    down, along = _pixels(rows, height), _pixels(columns, width)
    for y in range(0, rows, tall):
        for x in range(0, columns, wide):
            part = values[:, y : y + tall, x : x + wide].astype(np.float64)
            part[~np.isfinite(part)] = np.nan
            part, top = _sums(part, 1, down[y : y + tall], rows, height)
            part, left = _sums(part, 2, along[x : x + wide], columns, width)
            out[:, top : top + part.shape[1], left : left + part.shape[2]] += part
    return out


def _pixels(whole: int, size: int) -> Array:
    """Return the pixel of each element of an axis."""
    return np.repeat(np.arange(size), np.diff(np.arange(size + 1) * whole // size))


def _sums(part: Array, axis: int, pixels: Array, whole: int, size: int) -> tuple[Array, int]:
    """Return the share of a part in the mean of each pixel, and the first of these pixels."""
    covered = np.diff(np.arange(size + 1) * whole // size)[pixels]
    starts = np.flatnonzero(np.diff(pixels, prepend=-1))
    # Divided first: a sum of large numbers may overflow.
    part = part / np.expand_dims(covered, [a for a in range(3) if a != axis])
    return np.add.reduceat(part, starts, axis), int(pixels[0])


def encoded(shown: TensorPicture) -> bytes:
    """Return the pixels as bytes, channel by channel and row by row."""
    out = np.zeros(shown.values.shape, np.uint8)
    for channel, (values, range) in enumerate(zip(shown.values, shown.ranges, strict=True)):
        if range is None:
            continue
        low, high = range
        scale = max(abs(low), abs(high)) or 1.0
        wide = high / scale - low / scale
        # Equal numbers are in the middle; NaN stays NaN.
        place = (values / scale - low / scale) / wide if wide else values * 0 + 0.5
        level = 1 + np.round(254 * place)
        out[channel] = np.where(np.isnan(level), 0, level).astype(np.uint8)
    return out.tobytes()


VALUE_BINS = 32
PICTURE_BYTES = 1_500_000  # of all pictures on a page, before base64


@dataclass(frozen=True, kw_only=True)
class TensorValues(ArrayStatistics):
    """The values of one tensor. Texts have a shape only."""

    shape: tuple[int, ...]
    element_type: str
    picture: TensorPicture | None = None

    @staticmethod
    def of(array: Array, level: Level = LEVELS[0], *, ends: bool = False) -> TensorValues:
        """Look at an array; those at the `ends` of a model may be pictures in colour."""
        seen = vars(array_statistics(array, VALUE_BINS))
        shown = picture(array, level, colour=ends) if has_numbers(array) else None
        dtype = str(array.dtype)
        return TensorValues(shape=array.shape, element_type=dtype, picture=shown, **seen)

    @property
    def non_finite(self) -> int:
        """The number of NaN and infinite values."""
        return self.nan + self.infinite

    @property
    def largest(self) -> float | None:
        """The largest absolute value; None if there is no number."""
        return None if self.low is None or self.high is None else max(abs(self.low), abs(self.high))

    def at_most(self, level: Level) -> TensorValues:
        """Return the same with a picture of at most that size."""
        return self if self.picture is None else replace(self, picture=self.picture.at_most(level))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = {k: v for k, v in vars(self).items() if k != "picture" and v not in (None, ())}
        found = {k: v for k, v in found.items() if v or k not in ("zeros", "nan", "infinite")}
        found |= {k: rounded(found[k], 7) for k in ("low", "high", "mean") if k in found}
        if self.picture is None:
            return found
        content = {"data": b64encode(encoded(self.picture)).decode("ascii"), **self.picture.facts}
        return {**found, "picture": content}


@dataclass
class ValueCollector:
    """Looks at every tensor of a run; `trace` is the function that `Plan.run` calls.

    Pictures that no longer fit on a page are reduced at once, so that little memory is in use.
    `level` is the largest size at which all fit.
    """

    graph: Graph
    found: dict[int, tuple[TensorValues, ...]] = field(default_factory=dict)
    level: Level = LEVELS[0]
    _pixels: int = 0

    def trace(self, node: Node, arrays: tuple[Array, ...]) -> None:
        """Look at the arrays that a node has computed."""
        if node.type != "Const":
            ends = node.type == "Parameter" or self._ends(node)
            self.found[node.id] = tuple(TensorValues.of(a, self.level, ends=ends) for a in arrays)
            self._pixels += _shown_pixels(self.found[node.id])
            if self._pixels > PICTURE_BYTES:
                self._reduce()

    def _ends(self, node: Node) -> bool:
        return any(self.graph.node(i).type == "Result" for i in self.graph.successors(node.id))

    def _reduce(self) -> None:
        """Reduce all pictures until they fit on a page."""
        for level in LEVELS[LEVELS.index(self.level) :]:
            self.level = level
            self.found = {i: tuple(t.at_most(level) for t in ts) for i, ts in self.found.items()}
            self._pixels = sum(map(_shown_pixels, self.found.values()))
            if self._pixels <= PICTURE_BYTES:
                return

    def to_dict(self, key: str) -> Mapping[str, Any]:
        """Return the JSON form by node key; `key` is that of the graph."""
        return {f"{key}/{i}": [t.to_dict() for t in ts] for i, ts in self.found.items()}

    def tensors(self, key: str) -> Iterator[tuple[str, TensorValues]]:
        """Yield every tensor with the key of its node."""
        for node, tensors in self.found.items():
            for one in tensors:
                yield f"{key}/{node}", one


def _shown_pixels(tensors: tuple[TensorValues, ...]) -> int:
    return sum(t.picture.values.size for t in tensors if t.picture is not None)
