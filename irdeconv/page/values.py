"""What flowed through the layers of a run: extremes, histograms, pictures of the tensors."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    def of(array: Array, *, ends: bool = False) -> TensorValues:
        """Look at an array; those at the `ends` of a model may be pictures in colour."""
        seen = array_statistics(array, VALUE_BINS)
        shown = picture(array, colour=ends) if has_numbers(array) else None
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

    def to_dict(self, level: Level) -> dict[str, Any]:
        """Return the JSON form, with a picture of at most that size."""
        found = {k: v for k, v in vars(self).items() if k != "picture" and v not in (None, ())}
        found = {k: v for k, v in found.items() if v or k not in ("zeros", "nan", "infinite")}
        found |= {k: rounded(found[k], 7) for k in ("low", "high", "mean") if k in found}
        if self.picture is None:
            return found
        small = self.picture.at_most(level)
        content = {"data": b64encode(encoded(small)).decode("ascii"), **small.facts}
        return {**found, "picture": content}


@dataclass
class ValueCollector:
    """Looks at every tensor of a run; `trace` is what `Plan.run` calls."""

    graph: Graph
    found: dict[int, tuple[TensorValues, ...]] = field(default_factory=dict)

    def trace(self, node: Node, arrays: tuple[Array, ...]) -> None:
        """Look at what a node has computed."""
        if node.type != "Const":
            ends = node.type == "Parameter" or self._ends(node)
            self.found[node.id] = tuple(TensorValues.of(a, ends=ends) for a in arrays)

    def _ends(self, node: Node) -> bool:
        return any(self.graph.node(i).type == "Result" for i in self.graph.successors(node.id))

    @property
    def level(self) -> Level:
        """The largest size of pictures of which all fit on a page."""
        every = (one.picture for tensors in self.found.values() for one in tensors)
        pictures = [shown for shown in every if shown is not None]
        for level in LEVELS[:-1]:
            if sum(shown.bytes_at(level) for shown in pictures) <= PICTURE_BYTES:
                return level
        return LEVELS[-1]

    def to_dict(self, key: str) -> Mapping[str, Any]:
        """Return the JSON form by node key; `key` is that of the graph."""
        level = self.level
        return {f"{key}/{i}": [t.to_dict(level) for t in ts] for i, ts in self.found.items()}

    def tensors(self, key: str) -> Iterator[tuple[str, TensorValues]]:
        """Yield every tensor with the key of its node."""
        for node, tensors in self.found.items():
            for one in tensors:
                yield f"{key}/{node}", one
