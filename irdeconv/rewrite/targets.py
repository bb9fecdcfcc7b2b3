"""Targets: the operations of a device and their costs, from a TOML file (docs/targets.md).

Every key may be absent. Without `max_rank`, `types` or `[operations]` nothing is limited by it;
with `[operations]` a layer runs only if its operation is listed and meets each condition.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from irdeconv.base.errors import did_you_mean, misused
from irdeconv.base.limits import current
from irdeconv.base.opening import TomlReader, read_file, shown
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.rewrite.target_conditions import ALIASES, OPERATIONS, Condition, ConditionError, Facts

DEFAULT_TARGET = "generic"
HIGHEST_MAX_RANK, MOST_CONDITIONS, HIGHEST_WEIGHT = 64, 100, 1e30
HIGHEST_ALIGNMENT = 2**31 - 1


@dataclass(frozen=True)
class ScoreWeights:
    """The weight of each cost's unit in the score; only the ratios of the first four matter.

    `mac` per multiply-accumulate, `byte` per byte read or written, `scratch` per byte of the
    largest set of intermediates alive at once, `node` per operation. `channel_alignment`: channels
    of a group are rounded up to a multiple of it when products are counted.
    `skips_inserted_zeros`: products with inserted zeros take no time, and inserting them takes
    neither time nor memory.
    """

    mac: float = 1.0
    byte: float = 2.5
    scratch: float = 0.0
    node: float = 60000.0
    channel_alignment: int = 1
    skips_inserted_zeros: bool = False


@dataclass(frozen=True)
class Target:
    """A device: its operations with their conditions, and the costs of work there.

    `operations` None: every operation, without conditions. `max_rank` limits the axes of each
    tensor that is not constant, `types` the element types. `wide_sums`: an Add is exact on the
    32-bit sums of int8 convolutions.
    """

    name: str = "unlimited"
    description: str = ""
    source: str = ""
    max_rank: int | None = None
    types: tuple[str, ...] | None = None
    wide_sums: bool = False
    operations: Mapping[str, tuple[Condition, ...]] | None = None
    cost: ScoreWeights = field(default_factory=ScoreWeights)

    def has(self, operation: str) -> bool:
        """Whether the target has an operation at all."""
        return self.operations is None or operation in self.operations

    def failures(self, operation: str, facts: Facts) -> list[str]:
        """Return a text for each reason why a layer cannot run on the target; [] if it can.

        The texts have the numbers in them: `max_rank = 4: 5 axes`, `kernel <= 11: 64 (axis h)`.
        """
        out = []
        listed = () if self.operations is None else self.operations.get(operation)
        if listed is None:
            out.append(f"{operation} is not in the target's list of operations")
        rank, dtype = facts.values.get("rank"), facts.values.get("type")
        if self.max_rank is not None and not (isinstance(rank, int) and rank <= self.max_rank):
            axes = "the rank is known only at run time" if rank is None else f"{rank} axes"
            out.append(f"max_rank = {self.max_rank}: {axes}")
        if self.types is not None and dtype not in self.types:
            out.append(f"types: {'known only at run time' if dtype is None else dtype}")
        return out + [text for c in listed or () if (text := c.failure(facts))]

    def blamed(self, operation: str, facts: Facts) -> frozenset[str]:
        """Return the names in violated conditions, and the operation itself if it is missing."""
        listed, rank = (self.operations or {}).get(operation, ()), facts.values.get("rank")
        fits = self.max_rank is None or (isinstance(rank, int) and rank <= self.max_rank)
        names = (c.names for c in listed if not c.holds(facts))
        missing = () if self.has(operation) else (operation,)
        return frozenset().union(*names, missing, () if fits else ("max_rank",))

    def unmet(self, operation: str, facts: Facts, about: str = "") -> int:
        """Return the number of violated conditions of an operation; `about` is a name in them."""
        if not self.has(operation):
            return 0 if about else 1
        listed = (self.operations or {}).get(operation, ())
        rows = (c for c in listed if not about or about in c.names)
        return sum(not c.holds(facts) for c in rows)


def target_names() -> list[str]:
    """Return the names of the packaged targets."""
    folder = files("irdeconv.rewrite") / "profiles"
    return sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name[-5:] == ".toml")


def load_target(target: str | PathLike[str] | Target | None = None) -> Target:
    """Return the target of a name or of a path that ends in .toml; the default one for None.

    Raises UsageError for an unknown name or a file with mistakes (all of them are listed),
    FileAccessError if the file cannot be read, LimitError if it is too large.
    """
    if isinstance(target, Target):
        return target
    text = fspath(DEFAULT_TARGET if target is None else target)
    if text.endswith(".toml"):
        return parse_target(read_file(text, current().toml_bytes), Path(text).stem, text)
    names = target_names()
    if text not in names:
        known = "irdeconv lower --list-targets lists them; or name a .toml file of your own"
        raise misused(f'there is no target "{text}"', did_you_mean(text, names) or known)
    packaged = files("irdeconv.rewrite") / "profiles" / f"{text}.toml"
    return parse_target(packaged.read_bytes(), text)


def parse_target(text: str | bytes, name: str, file: str | None = None) -> Target:
    """Parse a target file; UsageError lists all of its mistakes with line and column."""
    reader = _TargetReader(text, file or name)
    table = reader.content
    operations, cost = table.pop("operations", None), table.pop("cost", {})
    values = reader.checked(Target, table)
    weights = reader.checked(ScoreWeights, reader.table(cost, "cost"), "cost")
    listed = None
    if operations is not None:
        listed = reader.operations(reader.table(operations, "operations"))
    reader.require_none()
    return Target(name=name, **values, operations=listed, cost=ScoreWeights(**weights))


class _TargetReader(TomlReader):
    """Checks the tables of a file and gathers the mistakes."""

    def table(self, value: Any, key: str) -> dict[str, Any]:
        """Return a table; an empty one for something else."""
        if isinstance(value, dict):
            return value
        self.problem(f"{key} is a table: [{key}]", (key,))
        return {}

    def checked(
        self, record: type[Target | ScoreWeights], table: dict[str, Any], section: str = ""
    ) -> dict[str, Any]:
        """Return the keys that fit the fields of a class."""
        own = ("name", "operations", "cost")
        kinds = {f.name: str(f.type) for f in dataclasses.fields(record) if f.name not in own}
        known = [*kinds] if section else [*kinds, "operations", "cost"]
        good: dict[str, Any] = {}
        for key, value in table.items():
            words = (f"[{section}]", key) if section else (key,)
            place = f"[{section}] " if section else ""
            if key not in kinds:
                hint = f"there are {', '.join(known)}"
                self.problem(f"{place}unknown key {shown(key)}", words, hint, known)
            elif key == "types":
                good[key] = self._types(value)
            elif wanted := _mismatch(kinds[key], value):
                self.problem(f"{place}{key} is {wanted}, not {shown(value)}", words)
            else:
                good[key] = value
        return good

    def _types(self, value: Any) -> tuple[str, ...]:
        """Return the element types of a list of names."""
        if not isinstance(value, list):
            self.problem(f"types is a list of element types, not {shown(value)}", ("types",))
            return ()
        for wrong in [v for v in value if not (isinstance(v, str) and v in ELEMENT_TYPES)]:
            hint, words = f"there are {', '.join(ELEMENT_TYPES)}", ("types", str(wrong))
            self.problem(f"unknown element type {shown(wrong)}", words, hint, ELEMENT_TYPES)
        return tuple(map(str, value))

    def operations(self, table: dict[str, Any]) -> dict[str, tuple[Condition, ...]]:
        """Return the conditions of each operation."""
        out = {}
        for name, texts in table.items():
            words = ("[operations]", name)
            if name not in OPERATIONS:
                other = ALIASES.get(name)
                hint = f"write {other}" if other else "docs/operations.md lists the operations"
                known = () if other else OPERATIONS
                self.problem(f"unknown operation {shown(name)}", words, hint, known)
            elif not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
                self.problem(f"{name} is a list of conditions, not {shown(texts)}", words)
            elif len(texts) > MOST_CONDITIONS:
                message = f"{name} has {len(texts):,} conditions; there may be {MOST_CONDITIONS}"
                self.problem(message, words)
            else:
                out[name] = tuple(self._conditions(name, texts))
        return out

    def _conditions(self, operation: str, texts: list[str]) -> list[Condition]:
        out = []
        for text in texts:
            try:
                out.append(Condition.parse(text, operation))
            except ConditionError as e:
                message = f"condition {shown(text)} of {operation}: {e}"
                self.problem(message, ("[operations]", operation, text), e.hint)
        return out


def _mismatch(kind: str, value: Any) -> str | None:
    """Return a value's expected kind; None if it fits the annotation of a field."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind == "str":
        return None if isinstance(value, str) else "a string"
    if kind == "bool":
        return None if isinstance(value, bool) else "true or false"
    if kind == "float":
        fits = (whole or isinstance(value, float)) and 0 <= value <= HIGHEST_WEIGHT
        return None if fits else f"a number from 0 to {HIGHEST_WEIGHT:g}"
    most = HIGHEST_MAX_RANK if "None" in kind else HIGHEST_ALIGNMENT
    return None if whole and 1 <= value <= most else f"an integer from 1 to {most}"
