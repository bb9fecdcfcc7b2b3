"""What a graph is compared with: another graph, saved arrays, OpenVINO."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from irdeconv.errors import Diagnostic
from irdeconv.graph import Node
from irdeconv.spec import Array

Precision = Literal["f32", "bf16", "int8"]


@dataclass(frozen=True)
class Fetched:
    """What a partner has of a layer: its type there, and its outputs (None: not that one)."""

    type: str
    arrays: tuple[Array | None, ...]


class Partner(ABC):
    """The second side of a comparison, asked layer by layer in the first graph's order.

    Between layers of narrow types (f16, bf16) a partner that is `wide` may go on with the numbers
    that it has before it rounds them for whoever asks. One that is `narrow` may also add up in
    f16. What a layer reads may first be rounded to what the partner `computes` in.
    """

    wide = True
    narrow = False
    computes: Precision = "f32"

    @abstractmethod
    def fetch(self, node: Node) -> Fetched | None:
        """Return the outputs of the layer that a node of the first graph stands for."""

    @abstractmethod
    def outputs(self) -> list[Array | None]:
        """Return the model outputs in order; called once, after the last layer."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; also called where a comparison fails."""

    def warnings(self) -> list[Diagnostic]:
        """Return what there is to say about the partner itself."""
        return []
