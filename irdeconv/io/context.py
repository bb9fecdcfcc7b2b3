"""What the checks of one file share: where to report, the limits, the weights, parsed numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from irdeconv.errors import Collector, Note, Problem, Severity, severity_of
from irdeconv.geometry import Semantics
from irdeconv.io.document import XmlLayer
from irdeconv.io.weights import NoWeights
from irdeconv.limits import LARGEST_INT, Limits, raise_hint
from irdeconv.source import Anchor, Location, SourceFile
from irdeconv.suggest import did_you_mean


class NotReadFurther(Exception):
    """What is wrong with the file makes the rest of it useless, and has been reported."""


@dataclass
class Context:
    """Reading one file: its source, diagnostics, weights and options.

    `used` gathers the parts of the weights file that constants cover, those of bodies as well;
    `unplaced` says that some constant does not tell its part, `outside` are those whose part lies
    outside the file, with where it begins and ends.
    `unknown` counts layers of operations without details, by (type, version).
    """

    source: SourceFile
    out: Collector
    weights: NoWeights
    limits: Limits
    semantics: Semantics
    used: list[tuple[int, int]] = field(default_factory=list)
    unplaced: bool = False
    outside: list[tuple[XmlLayer, int, int]] = field(default_factory=list)
    unknown: dict[tuple[str, str], list[XmlLayer]] = field(default_factory=dict)
    errors: int = 0  # reported so far

    def _count(self) -> None:
        """Count an error; beyond the limit nothing more is looked at."""
        self.errors += 1
        most = self.limits.errors
        if self.errors > most:
            text = f"more than {most:,} errors; what else the file has is not looked at"
            place = Location(self.source, fixed=(1, 1))
            self.out.add("E601", text, location=place, hint=raise_hint("errors"))
            raise NotReadFurther

    def place(self, anchor: Anchor, attribute: str | None = None) -> Location:
        """Return the location of an element or of one of its attributes."""
        return Location(self.source, anchor, attribute)

    def add(
        self,
        code: str,
        message: str,
        anchor: Anchor | None = None,
        *,
        attribute: str | None = None,
        layer: XmlLayer | None = None,
        sub: int = 0,
        severity: Severity | None = None,
        notes: Sequence[Note] = (),
        hint: str | None = None,
    ) -> None:
        """Report a problem.

        Without an anchor its place is the layer, or the element `sub` inside it.
        """
        severity = severity or severity_of(code)
        if severity == "error":
            self._count()
        if self.out.is_full(code, severity):
            return
        if anchor is None:
            anchor = layer.within(sub) if layer else Anchor()
        if layer is not None:
            message = f"{layer.label}: {message}"
        self.out.add(
            code,
            message,
            severity=severity,
            location=self.place(anchor, attribute),
            layer=layer.name if layer else None,
            notes=notes,
            hint=hint,
        )

    def unknown_attributes(
        self,
        names: Iterable[str],
        known: Sequence[str],
        what: str,
        anchor: Anchor | None = None,
        *,
        layer: XmlLayer | None = None,
        sub: int = 0,
    ) -> None:
        """Warn of every name that is not among the known attributes of an element; see `add`."""
        for name in names:
            if name not in known and not self.out.is_full("W100", "warning"):
                self.add(
                    "W100",
                    f'{what} has no attribute "{name}"; OpenVINO ignores it',
                    anchor,
                    attribute=name,
                    layer=layer,
                    sub=sub,
                    hint=did_you_mean(name, known),
                )

    def stands(self, layer: XmlLayer, attribute: str | None = None, *, sub: int = 0) -> Note:
        """Return the note where another layer, or an element inside it, stands."""
        return Note(f"{layer.label} stands here", self.place(layer.within(sub), attribute))

    def problem(self, layer: XmlLayer, problem: Problem) -> None:
        """Report what an operation says about itself; an attribute's place is in `<data>`."""
        self.add(
            problem.code,
            problem.message,
            attribute=problem.attribute,
            layer=layer,
            sub=layer.data_sub if problem.attribute is not None else 0,
            severity=problem.severity,
            hint=problem.hint,
        )


@lru_cache(maxsize=1 << 16)
def integer(text: str | None) -> int | None:
    """Parse a plain decimal integer with an optional sign; None where it is something else."""
    if text is None:
        return None
    text = text.strip()
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 30:
        return None
    return int(text)


@lru_cache(maxsize=1 << 16)
def identifier(text: str | None) -> int | None:
    """Parse the id of a layer or port as OpenVINO does; None where it takes none of it.

    Digits, perhaps with blanks or a plus in front; at most 63 bits.
    """
    number = None if text is None or text != text.rstrip() else integer(text)
    return number if number is not None and 0 <= number <= LARGEST_INT else None


def why_no_identifier(text: str) -> str:
    """Return what is wrong with the text of an id."""
    number = integer(text)
    if number is not None and number < 0:
        return "is negative; ids are 0 or more"
    if number is not None and number > LARGEST_INT:
        return f"is above {LARGEST_INT}"
    return "is not an integer"
