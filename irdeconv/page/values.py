"""What flowed through the layers of a run: extremes, histograms, pictures of the tensors."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from irdeconv.graph import Graph, Node
from irdeconv.page.pictures import LEVELS, Level, TensorPicture, encoded, picture
from irdeconv.page.statistics import array_statistics, has_numbers, rounded
from irdeconv.spec import Array

VALUE_BINS = 32
PICTURE_BYTES = 1_500_000  # of all pictures on a page, before base64


@dataclass(frozen=True, kw_only=True)
class TensorValues:
    """What is known of one tensor; extremes, mean and histogram are of its finite numbers.

    `bins` counts the numbers in equal parts of the way from `low` to `high`, the last bin with its
    end. Texts have a shape only.
    """

    shape: tuple[int, ...]
    element_type: str
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    zeros: int = 0
    nan: int = 0
    infinite: int = 0
    bins: tuple[int, ...] = ()
    picture: TensorPicture | None = None

    @staticmethod
    def of(array: Array, level: Level = LEVELS[0], *, ends: bool = False) -> TensorValues:
        """Look at an array; those at the `ends` of a model may be pictures in colour."""
        seen = array_statistics(array, VALUE_BINS)
        shown = picture(array, level, colour=ends) if has_numbers(array) else None
        return TensorValues(
            shape=array.shape, element_type=str(array.dtype), picture=shown, **vars(seen)
        )

    @property
    def non_finite(self) -> int:
        """The number of NaN and infinite values."""
        return self.nan + self.infinite

    @property
    def largest(self) -> float | None:
        """The largest absolute value; None where there is no number."""
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
    """Looks at every tensor of a run; `trace` is what `Plan.run` calls.

    Pictures that no longer fit on a page are reduced at once, so that little memory is in use.
    `level` is the largest size at which all fit.
    """

    graph: Graph
    found: dict[int, tuple[TensorValues, ...]] = field(default_factory=dict)
    level: Level = LEVELS[0]
    _pixels: int = 0

    def trace(self, node: Node, arrays: tuple[Array, ...]) -> None:
        """Look at what a node has computed."""
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
