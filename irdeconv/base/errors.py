"""Diagnostics, the exceptions that carry them, and words for messages."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from keyword import iskeyword
from os import PathLike
from typing import Annotated, Any, ClassVar, Literal, Protocol

from irdeconv.base.codes import CODES
from irdeconv.base.hints import Misuse
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_text, plain
from irdeconv.base.notebook import brief
from irdeconv.base.source import Location
from irdeconv.base.tables import WIDTH, one_line
from irdeconv.base.words import asking as asking
from irdeconv.base.words import did_you_mean as did_you_mean
from irdeconv.base.words import nearest as nearest
from irdeconv.base.words import other_pattern as other_pattern
from irdeconv.base.words import question as question

Severity = Literal["error", "warning", "note"]


def severity_of(code: str) -> Severity:
    """Return the severity that the letter of a diagnostic's code means."""
    return "error" if code.startswith("E") else "warning"


REPEATED = 200  # characters of an attribute, a name or a list that a message repeats
_PIECE = re.compile(r'"[^"\n]*"|\[[^\[\]\n]*\]|[^\s/"]{201,}')


def _shortened(text: str) -> str:
    """Cut quoted texts, lists and words that are too long for a message."""
    if len(text) <= REPEATED:
        return text

    def cut(found: re.Match[str]) -> str:
        piece = found[0]
        return piece if len(piece) <= REPEATED else f"{piece[: REPEATED - 4]}...{piece[-1]}"

    return _PIECE.sub(cut, text)


class Note(Record):
    """A remark that belongs to a diagnostic and may point at another place."""

    message: str  # the text
    location: Annotated[Location | None, str | None] = None  # file, line and column

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _shortened(self.message))


class Diagnostic(
    Record, keys="code severity message file line column layer hint notes", repr=False
):
    """One problem: code, severity, message with the numbers, place, layer, notes and a hint.

    Without a hint of its own it has the one of its code.
    """

    code: str  # such as E302; `irdeconv codes E302` explains it
    severity: Annotated[Severity, Literal["error", "warning"]]  # errors make a model invalid
    message: str  # the mistake, with names and numbers
    location: Location | None = None
    layer: str | None = None  # the name of the layer
    notes: tuple[Note, ...] = ()  # other places that belong to it
    hint: str | None = None  # the remedy

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"diagnostic code {self.code} is not in irdeconv.base.codes")
        hint = CODES[self.code].hint if self.hint is None else self.hint
        object.__setattr__(self, "hint", hint and _shortened(hint))
        object.__setattr__(self, "message", _shortened(self.message))

    def __repr__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        return f"<Diagnostic {self.severity}[{self.code}]{plain(where)}: {plain(self.message)}>"

    def _repr_html_(self) -> str:
        return html_text(self.render())

    def __str__(self) -> str:
        where = f"{self.location.shown}: " if self.location else ""
        return one_line(f"{where}{self.severity}[{self.code}]: {self.message}")

    def render(self, width: int = WIDTH) -> str:
        """Return the diagnostic with its source line, a caret, notes and the hint.

        The source line is clipped to a width. A mistake in the command line is one line if it is
        short.
        """
        lines = [str(self)]
        short = f"{self}; {self.hint}"
        if self.code == "E700" and self.hint and len(short) <= width:
            return one_line(short)
        if self.location is not None:
            lines += self.location.snippet(width)
        for note in self.notes:
            where = f" ({note.location.shown})" if note.location else ""
            lines.append(f"   = note: {note.message}{where}")
        if self.hint:
            lines.append(f"   = {self.hint}")
        # Each stays on its line: a name that holds a line break must not look like a diagnostic.
        return "\n".join(map(one_line, lines))

    @property
    def file(self) -> str | None:
        """The file of the problem."""
        return self.location.file if self.location else None

    @property
    def line(self) -> int | None:
        """The line in the file, from 1."""
        return self.location.position[0] if self.location and self.location.position else None

    @property
    def column(self) -> int | None:
        """The column in the line, from 1."""
        return self.location.position[1] if self.location and self.location.position else None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; keys are stable, absent places are null."""
        return super().to_dict() | {"hint": self.hint or None}


class Problem(Record, keys="code message"):
    """A problem that an operation reports without a place: the caller knows the node.

    `attribute` or `port` (an input) is the part of the layer that is meant; a `note` is less than a
    warning.
    """

    code: str  # such as E302
    message: str  # in words
    attribute: str | None = None
    port: int | None = None
    hint: str | None = None
    note: bool = False

    @property
    def severity(self) -> Severity:
        """A note, or the severity of the code's letter."""
        return "note" if self.note else severity_of(self.code)


class Spelling:
    """Whether errors name options of commands (`--max-memory`) or arguments (`max_memory=`)."""

    options = 0  # commands that are running

    def __enter__(self) -> None:
        Spelling.options += 1

    def __exit__(self, *error: object) -> None:
        Spelling.options -= 1


def _shapes(found: re.Match[str]) -> str:
    named = re.sub(r"([^\[\],]+?):?(\[[^\]]*\])", r' "\1": \2', found[1])
    return f"infer(model, {{{named.strip()}}})"


_IN_PYTHON: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"--shape '([^']+\])'", _shapes),
    (r"--dump all keeps", "outputs= of inner names returns"),
    (r"--limit (\w+=\w+)", r"limits=Limits(\1)"),
    (r"(?<!\S)-i\b", "inputs="),
    (r"--certificate\b", "certificates="),
    (r"name it with --weights$", "give it to read(path, weights)"),
    (r", name it with --weights, or leave it out: --no-weights", ", or name it with weights="),
)


def in_python(text: str | None) -> Any:
    """Return a text with arguments of Python instead of options, but those of whole commands."""
    if text is None or re.search(r"\b(irdeconv|mo|pip|tf2onnx) ", text):
        return text
    for option, argument in _IN_PYTHON:
        text = re.sub(option, argument, text)
    option = r"\"[^\"]*\"|(?<![\w-])--([a-z]+(?:-[a-z]+)*)(?: (?=[\"\d]))?"  # none in a quoted name
    return re.sub(option, _argument, text)


# Of messages quoted names stay, and `--to "up"` becomes `to="up"`.
_IN_MESSAGE = re.compile(r'"[^"]*"|(?<![\w-])--([a-z]+(?:-[a-z]+)*)( (?="))?')


def _named(found: re.Match[str]) -> str:
    return _argument(found) if found[2] or not found[1] else _argument(found)[:-1]


def _argument(found: re.Match[str]) -> str:
    name = (found[1] or "").replace("-", "_")
    return f"{name}_=" if iskeyword(name) else f"{name}=" if name else found[0]


class IrdeconvError(Exception):
    """Base of all errors that irdeconv raises on purpose; has all diagnostics.

    Each kind is also the built-in error of the same meaning: a ValueError, an OSError, ... So code
    that catches a built-in error around irdeconv's own calls needs `except IrdeconvError: raise`
    before that.
    """

    exit_code: ClassVar[int] = 70

    def __init_subclass__(cls, code: int | None = None) -> None:
        cls.exit_code = cls.exit_code if code is None else code

    def __init__(self, diagnostics: Iterable[Diagnostic] | Diagnostic) -> None:
        found = [diagnostics] if isinstance(diagnostics, Diagnostic) else list(diagnostics)
        if not Spelling.options:
            texts = [(_IN_MESSAGE.sub(_named, d.message), in_python(d.hint)) for d in found]
            found = [replace(d, message=m, hint=h) for d, (m, h) in zip(found, texts, strict=True)]
        self.diagnostics: list[Diagnostic] = found
        super().__init__(self.text)

    @property
    def text(self) -> str:
        """The rendered errors."""
        return "\n".join(d.render() for d in self.diagnostics if d.severity == "error")

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics,)

    _render_traceback_ = brief


class OpError(IrdeconvError):
    """Raised by an operation's infer, evaluate or expand; passes add layer and place."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "E300",
        attribute: str | None = None,
        port: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(Diagnostic(code, "error", message, hint=hint))
        self.problem = Problem(code, message, attribute, port, hint)

    def __str__(self) -> str:
        return self.problem.message

    def __reduce__(self) -> tuple[Any, ...]:
        return OpError.of, (self.problem,)

    @classmethod
    def of(cls, problem: Problem) -> OpError:
        """Return the error of a problem that `Op.check` reports."""
        error = cls(problem.message, code=problem.code, hint=problem.hint)
        error.problem = problem
        return error


def size_error(port: int, text: str, hint: str | None = None) -> OpError:
    """Return the error of an input whose sizes do not fit."""
    return OpError(text, code="E302", port=port, hint=hint)


def value_error(port: int, text: str, hint: str | None = None) -> OpError:
    """Return the error of an input whose values do not fit."""
    return OpError(text, code="E305", port=port, hint=hint)


def attribute_error(name: str, text: str, hint: str | None = None) -> OpError:
    """Return the error of an attribute that does not fit the inputs."""
    return OpError(text, code="E304", attribute=name, hint=hint)


def attribute_problem(name: str, text: str, hint: str | None = None) -> Problem:
    """Return the problem of an attribute that no inputs fit."""
    return Problem("E210", text, attribute=name, hint=hint)


class InputError(IrdeconvError, ValueError, code=3):
    """The file is not a usable model."""


class InferenceError(IrdeconvError, ValueError, code=3):
    """Shapes or element types do not fit together."""


class LoweringError(IrdeconvError, NotImplementedError, code=4):
    """A deconvolution cannot be lowered in the wanted form."""


class TargetError(LoweringError, code=1):
    """A layer violates conditions of the target in every form."""


class UnsupportedError(IrdeconvError, NotImplementedError, code=4):
    """The graph contains operations or attribute values that irdeconv does not execute."""


class ExecutionError(IrdeconvError, RuntimeError, code=1):
    """A layer failed while the graph was running."""


class NothingToReduceError(IrdeconvError, ValueError, code=1):
    """The fault that `reduce` looks for does not show in the model."""


class LimitError(IrdeconvError, MemoryError, code=5):
    """A size, count or memory limit is exceeded."""


class FailedError(IrdeconvError, AssertionError, code=1):
    """`raise_if_failed` of a result that did not pass."""


class Judged:
    """A result that has passed or not; it is true if it has."""

    def __bool__(self: Any) -> bool:
        return bool(self.passed)

    def raise_if_failed(self: Any) -> None:
        """Raise FailedError with the verdict if the result has not passed."""
        if not self.passed:
            first = "".join(f"; {problem}" for problem in getattr(self, "problems", ())[:1])
            remedy = getattr(self, "_remedy", None)
            hint = remedy or "print the result: it has a line for each layer"
            raise FailedError(Diagnostic("E504", "error", f"{self.verdict}{first}", hint=hint))


class UsageError(IrdeconvError, ValueError, code=2):
    """An argument does not fit the model: input name, shape, element type, option."""


class ArgumentTypeError(UsageError, TypeError):
    """An argument is of a type that means nothing here."""


class UnknownKeyError(UsageError, KeyError):
    """A name or number that a mapping or a graph does not have."""


def misused(
    message: str, hint: str | None = None, code: str = "E700", kind: type[UsageError] = UsageError
) -> UsageError:
    """Return the error of an argument that does not fit."""
    return kind(Diagnostic(code, "error", message, hint=hint))


Misuse.error = partial(misused, kind=ArgumentTypeError)


class FileAccessError(IrdeconvError, OSError, code=6):
    """A file cannot be opened, read or written; `errno` and `filename` say more if known."""

    def __init__(
        self,
        diagnostics: Iterable[Diagnostic] | Diagnostic,
        number: int | None = None,
        file: str | None = None,
    ) -> None:
        super().__init__(diagnostics)
        self.errno: int | None = number
        self.filename: str | None = file
        self.strerror: str | None = None if number is None else os.strerror(number)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics, self.errno, self.filename)


class MissingFileError(FileAccessError, FileNotFoundError):
    """There is no such file or folder."""


class MissingWeightsError(InputError, MissingFileError):
    """The model's weights file is missing, and constants need it."""


class ForbiddenFileError(FileAccessError, PermissionError):
    """The file may not be opened, read or written."""


class FolderError(FileAccessError, IsADirectoryError):
    """The path names a folder, but a file is needed."""


class NoFolderError(FileAccessError, NotADirectoryError):
    """The path names a file, but a folder is needed."""


_KINDS = (MissingFileError, ForbiddenFileError, FolderError, NoFolderError)


def no_access(
    diagnostics: Iterable[Diagnostic] | Diagnostic, number: int | None, file: str | PathLike[str]
) -> FileAccessError:
    """Return the error of a file by its error number: a FileNotFoundError or the like."""
    builtin = type(OSError(number, ""))
    kind = next((k for k in _KINDS if builtin in k.__bases__), FileAccessError)
    return kind(diagnostics, number, os.fspath(file))


class LayerPlace(Protocol):
    """The part of a layer that a diagnostic needs."""

    name: str
    location: Location | None


@dataclass
class Collector:
    """Collects diagnostics in order; beyond `most` of a kind `count_rest` reports the number."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    most: int | None = None
    _counts: Counter[tuple[str, Severity]] = field(default_factory=Counter, repr=False)

    def add(
        self,
        code: str,
        message: str,
        *,
        severity: Severity | None = None,
        location: Location | None = None,
        layer: str | None = None,
        notes: Iterable[Note] = (),
        hint: str | None = None,
    ) -> None:
        """Record a diagnostic; the severity follows from the code's letter unless given."""
        severity = severity or severity_of(code)
        if self._has_room(code, severity):
            found = Diagnostic(code, severity, message, location, layer, tuple(notes), hint)
            self.diagnostics.append(found)

    def add_at(self, layer: LayerPlace, code: str, message: str, **more: Any) -> None:
        """Record a diagnostic of a layer; `more` may have a more exact location, notes, a hint."""
        self.add(code, message, **{"location": layer.location, "layer": layer.name, **more})

    def take(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Record diagnostics that other code has made."""
        self.diagnostics += [d for d in diagnostics if self._has_room(d.code, d.severity)]

    def _has_room(self, code: str, severity: Severity) -> bool:
        if self.skips(code, severity):
            return False
        self._counts[code, severity] += 1
        return True

    def is_full(self, code: str, severity: Severity) -> bool:
        """Whether one more diagnostic would not be shown."""
        return self.most is not None and self._counts[code, severity] >= max(self.most, 1)

    def skips(self, code: str, severity: Severity) -> bool:
        """Whether one more diagnostic would not be shown; if so, it is counted."""
        full = self.is_full(code, severity)
        self._counts[code, severity] += full
        return full

    def count_rest(self) -> None:
        """Report how many diagnostics of a code were not shown in full."""
        for (code, severity), count in self._counts.items():
            if self.most is not None and count > max(self.most, 1):
                shown = [d for d in self.diagnostics if (d.code, d.severity) == (code, severity)]
                message = f"{count - max(self.most, 1)} more like this one are not shown"
                self.diagnostics.append(Diagnostic(code, severity, message, shown[-1].location))
        self._counts.clear()

    @property
    def errors(self) -> list[Diagnostic]:
        """The diagnostics of severity error."""
        return [d for d in self.diagnostics if d.severity == "error"]

    def require_none(self, error: type[IrdeconvError]) -> None:
        """Raise an error with all diagnostics if one of them is an error."""
        if self.errors:
            raise error(self.diagnostics)


_SOME = 20


def count(number: int, noun: str) -> str:
    """Return `1 layer`, `2 layers`, `0 layers`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def values_of(number: object) -> str:
    """Return `1 value`, `2 values`, `? values`."""
    return f"{number} value{'' if number == 1 else 's'}"


def first_names(names: Sequence[str]) -> str:
    """Return names in quotes, of many the first three: `"a", "b", "c" and 2 more`."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f'"{name}"' for name in names[:3]) + more


def some(items: Collection[object]) -> str:
    """Return `0, 1, 2`, `none`, or of many things the first: `0, 1, ... (9,000 in all)`."""
    more = f", ... ({len(items):,} in all)" if len(items) > _SOME else ""
    return (", ".join(map(str, islice(items, _SOME))) or "none") + more
