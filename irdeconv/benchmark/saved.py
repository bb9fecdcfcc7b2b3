"""A report that was saved, and how much has changed since: ratios of medians with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.errors import misused
from irdeconv.opening import read_json

SUFFIX = ".json"
SCHEMA = "irdeconv/bench/1"
# What another value of makes times incomparable, and what is only worth telling.
MACHINE = ("cpu", "cores", "system", "python", "numpy", "blas", "numba")


@dataclass(frozen=True)
class Interval95:
    """A median in seconds, and the bounds between which it lies with 95 % confidence."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Ratio:
    """How many times as long as before something takes, between `low` and `high` (95 %).

    The bounds are those of a ratio of independent medians: squares of the logarithms add up.
    """

    before: float
    now: float
    ratio: float
    low: float
    high: float

    @staticmethod
    def of(before: Interval95, now: Interval95) -> Ratio | None:
        """Compare two medians; None where one is below the clock's resolution."""
        if min(before.low, now.low) <= 0:
            return None
        ratio = now.median / before.median
        down = math.hypot(math.log(now.median / now.low), math.log(before.high / before.median))
        up = math.hypot(math.log(now.high / now.median), math.log(before.median / before.low))
        return Ratio(
            before.median, now.median, ratio, ratio * math.exp(-down), ratio * math.exp(up)
        )

    @property
    def verdict(self) -> str:
        """Whether it is "slower", "faster" or, where the interval holds 1, the "same"."""
        return "slower" if self.low > 1 else "faster" if self.high < 1 else "same"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self) | {"verdict": self.verdict}


@dataclass(frozen=True, kw_only=True)
class BaselineReport:
    """A saved report beside the present one.

    `steps` are those that both have, by the name of the layer; `unlike` says what differs of the
    machine or of how the model is executed; `date` is when it was saved.
    """

    name: str
    date: str
    network: Ratio | None
    steps: tuple[tuple[str, Ratio], ...]
    unlike: tuple[str, ...]

    def slower_by(self, percent: float) -> bool:
        """Whether the network surely takes that much longer: the whole interval is above it."""
        return self.network is not None and self.network.low > 1 + percent / 100

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "date": self.date,
            "network": None if self.network is None else self.network.to_dict(),
            "steps": [{"layer": name, **ratio.to_dict()} for name, ratio in self.steps],
            "unlike": list(self.unlike),
        }


@dataclass(frozen=True)
class SavedReport:
    """The JSON of an earlier report, known to have what a comparison needs."""

    name: str
    content: Mapping[str, Any]

    @staticmethod
    def read(path: Path) -> SavedReport:
        """Read a file; FileAccessError where it cannot be read, UsageError where it is another."""
        try:
            content = read_json(path)
        except ValueError as e:
            raise misused(f"{path}: not JSON: {e}", _HINT) from None
        saved = SavedReport(str(path), content if isinstance(content, dict) else {})
        if saved.content.get("schema") != SCHEMA:
            raise misused(f'{path}: no report of bench: "schema" is not "{SCHEMA}"', _HINT)
        try:
            _ = saved.network("cpu"), dict(saved.steps("cpu")), saved.date, saved.conditions
            _ = saved.network("wall"), dict(saved.steps("wall"))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as e:
            raise misused(f"{path}: no report of bench: {type(e).__name__}: {e}", _HINT) from None
        return saved

    @property
    def conditions(self) -> dict[str, str]:
        """The machine, and how the model was executed, as texts."""
        machine = {k: str(self.content["conditions"][k]) for k in MACHINE}
        how = {k: str(self.content[k]) for k in ("threads", "form", "fused")}
        return machine | how

    @property
    def date(self) -> str:
        """When it was measured."""
        return str(self.content["conditions"]["date"])

    def network(self, clock: str) -> Interval95:
        """Return the median of whole runs by one of the clocks."""
        return _interval(self.content["network"][clock])

    def steps(self, clock: str) -> Iterator[tuple[str, Interval95]]:
        """Yield the medians of the steps by the name of their last layer."""
        for step in self.content["steps"]:
            yield str(step["layers"][-1]["name"]), _interval(step["timing"][clock])


_HINT = "bench --save FILE.json writes one"


def _interval(found: Mapping[str, Any]) -> Interval95:
    values = [float(found[k]) for k in ("median", "low", "high")]
    if not all(0 <= v < math.inf for v in values) or not values[1] <= values[0] <= values[2]:
        raise ValueError(f"median, low and high are {values}")
    return Interval95(*values)


def sorted_out(
    names: Sequence[str | PathLike[str]],
) -> tuple[list[str], list[SavedReport]]:
    """Return which names are those of peers, and the saved reports that the others name."""
    texts = [str(name) for name in names]
    peers = [text for text in texts if not text.endswith(SUFFIX)]
    return peers, [SavedReport.read(Path(text)) for text in texts if text.endswith(SUFFIX)]


def against(saved: SavedReport, report: Mapping[str, Any]) -> BaselineReport:
    """Compare the JSON of a report with a saved one: by processor time if both have one thread."""
    now = SavedReport("now", report)
    threads = {saved.conditions["threads"], now.conditions["threads"]}
    clock = "cpu" if threads == {"1"} else "wall"
    before, steps = dict(saved.steps(clock)), []
    for name, median in now.steps(clock):
        ratio = Ratio.of(before[name], median) if name in before else None
        if ratio is not None:
            steps.append((name, ratio))
    pairs = ((k, saved.conditions[k], v) for k, v in now.conditions.items())
    return BaselineReport(
        name=saved.name,
        date=saved.date,
        network=Ratio.of(saved.network(clock), now.network(clock)),
        steps=tuple(steps),
        unlike=tuple(f"{k}: {old} then, {new} now" for k, old, new in pairs if old != new),
    )
