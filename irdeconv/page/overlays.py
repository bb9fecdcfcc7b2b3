"""Numbers of the layers that the page paints on the graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from irdeconv.inspection.layers import LayerFacts
from irdeconv.page.statistics import rounded

Scale = Literal["log", "linear"]


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A number of each layer, by node key ("before/12"); None is an unknown one.

    Instead of `values`, `fact` names a fact of every layer that the page has anyhow. `unit` "B" and
    "s" get prefixes. `lines` are sentences about a layer, `marks` a word about those that need a
    look, which the graph shows as a sign. A layer that is on both sides of a page needs to be named
    on one. `first` is the layer to begin with; an overlay that is `shown` is painted at first.
    """

    key: str
    title: str
    unit: str = ""
    scale: Scale = "log"
    fact: str | None = None
    values: Mapping[str, float | None] = field(default_factory=dict)
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    first: str | None = None
    shown: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which has no infinity: that is the text "Infinity"."""
        values = {k: _number(v) for k, v in self.values.items()}
        content = {
            **vars(self),
            "values": values,
            "lines": {k: [*v] for k, v in self.lines.items()},
        }
        content["marks"] = dict(self.marks)
        return {k: v for k, v in content.items() if v not in (None, {}, "", False)}


FACTS = (
    Overlay(key="macs", title="MACs", fact="macs"),
    Overlay(key="memory", title="memory", unit="B", fact="memory"),
    Overlay(key="parameters", title="parameters", fact="parameters"),
)


def memory(facts: LayerFacts) -> int | None:
    """Return the bytes of a layer's outputs and of the constants that reach it.

    A constant counts where it is read; by itself it takes what it stores. A Result
    shares the memory of the tensor that it names.
    """
    if facts.constant:
        return facts.bytes
    if facts.type == "Result":
        return 0
    sizes = [output.spec.nbytes for output in facts.outputs]
    known = [size for size in sizes if size is not None]
    return sum(known) + facts.bytes if len(known) == len(sizes) else None


def _number(value: float | None) -> float | str | None:
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity"
    # Four digits are more than a colour or a label shows.
    return value if isinstance(value, int) else rounded(value, 4)
