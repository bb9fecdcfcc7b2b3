"""What every importer returns, and how it reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from irdeconv.errors import (
    Collector,
    Diagnostic,
    InferenceError,
    InputError,
    IrdeconvError,
    Problem,
    UnsupportedError,
    UsageError,
)
from irdeconv.graph import Graph
from irdeconv.source import Location

UNCOVERED = "E502"
ONLY_EXACT = "what is not exactly the same in standard operations is not imported; change the model"
# What operations raise for inputs that nobody foresaw; the node is named then.
MISFITS = (ValueError, TypeError, ArithmeticError, IndexError, KeyError, AttributeError)
CHECK = "it may be cut off, damaged or edited: export it again where the model was made"


@dataclass
class Imported:
    """An imported model: the graph, how often each node type occurred, warnings.

    `format` names the source with its version, `kinds` counts node types, `files` are those that
    were read besides the model.
    """

    graph: Graph
    format: str
    kinds: Counter[str] = field(default_factory=Counter)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    files: tuple[Path, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "format": self.format,
            "node_types": dict(sorted(self.kinds.items())),
            "layers": len(self.graph),
            "diagnostics": [d.to_dict() for d in self.diagnostics],
        }


@dataclass
class Report(Collector):
    """Collects what is wrong with a model that is being imported."""

    location: Location | None = None

    def uncovered(self, layer: str, message: str, hint: str | None = None) -> None:
        """Record something that the importer does not cover."""
        self.add(UNCOVERED, message, location=self.location, layer=layer, hint=hint or ONLY_EXACT)

    def malformed(self, message: str, code: str = "E103", hint: str | None = None) -> None:
        """Record that the file is not what it should be."""
        self.add(code, message, location=self.location, hint=hint or CHECK)

    def problem(self, layer: str, what: str, problem: Problem) -> None:
        """Record an operation's own complaint about a layer."""
        place, hint = self.location, problem.hint
        self.add(problem.code, f"{what}: {problem.message}", location=place, layer=layer, hint=hint)

    def finish(self) -> None:
        """Raise what was found: UnsupportedError first; wrong arguments alone are UsageError."""
        if not self.errors:
            return
        codes = {d.code for d in self.errors}
        kind: type[IrdeconvError] = InferenceError
        if codes == {"E310"}:
            kind = UsageError
        elif UNCOVERED in codes:
            kind = UnsupportedError
        elif any(c.startswith(("E1", "E20")) for c in codes):
            kind = InputError
        raise kind(self.diagnostics)


def malformed(location: Location, message: str, hint: str | None = None) -> InputError:
    """Return the error of a file that is not a model of its format."""
    return InputError(Diagnostic("E103", "error", message, location, hint=hint or CHECK))
