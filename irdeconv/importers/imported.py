"""What every importer returns, and how it reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    severity_of,
)
from irdeconv.graph import Graph
from irdeconv.limits import current, raise_hint
from irdeconv.source import Location

UNCOVERED = "E502"
ONLY_EXACT = "what is not exactly the same in standard operations is not imported; change the model"
# What operations raise for inputs that nobody foresaw; the node is named then.
MISFITS = (ValueError, TypeError, ArithmeticError, IndexError, KeyError, AttributeError)
SHOWN_LAYERS = 3  # layers that a message names, of those that are uncovered alike
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
    _errors: int = 0

    def add(self, code: str, message: str, **more: Any) -> None:
        """Record a diagnostic; raises all of them where there are more errors than are allowed."""
        super().add(code, message, **more)
        most = current().errors
        self._errors += severity_of(code) == "error"
        if self._errors > most:
            text = f"more than {most:,} errors; what else the model has is not looked at"
            super().add("E601", text, location=self.location, hint=raise_hint("errors"))
            self.finish()

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
        """Raise what was found: UnsupportedError first; wrong arguments alone are UsageError.

        What is alike is one diagnostic, and of one code no more are kept than are shown.
        """
        kept = Collector(most=current().reports)
        kept.take(merged(self.diagnostics))
        kept.count_rest()
        self.diagnostics = kept.diagnostics
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


def merged(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics in which one stands for all layers that are uncovered alike.

    It has the place of the first and names some; an exported network often has an operation that
    is not covered in hundreds of layers.
    """
    alike: dict[Any, list[Diagnostic]] = {}
    for at, d in enumerate(diagnostics):
        named = f' "{d.layer}"'
        same = d.code == UNCOVERED and named in d.message
        key = (d.message.replace(named, "", 1), d.hint) if same else at
        alike.setdefault(key, []).append(d)
    out = []
    for key, found in alike.items():
        first = found[0]
        if len(found) > 1:
            names = ", ".join(f'"{d.layer}"' for d in found[:SHOWN_LAYERS])
            rest = f" and {len(found) - SHOWN_LAYERS} more" if len(found) > SHOWN_LAYERS else ""
            first = replace(first, message=f"{key[0]}: {names}{rest}")
        out.append(first)
    return out


def malformed(
    location: Location, message: str, hint: str | None = None, *, code: str = "E103"
) -> InputError:
    """Return the error of a file that is not a model of its format."""
    return InputError(Diagnostic(code, "error", message, location, hint=hint or CHECK))
