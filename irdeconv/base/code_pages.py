"""Explanations of diagnostic codes: the reason, the fix, an example.

`codes.CODES` has the titles. `code_texts/` has a text for each code: the reason, then sections that
each begin with `--- name`. `fix` has the remedy. The files of the example follow (`model.bin f32`
has the numbers of a weights file), then a command (`--- $ irdeconv ...`) with its output, or a
program (`python`) and what it `raises`. If no file can provoke a code, `when` names the cause.
`pytest --update` rewrites the outputs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from irdeconv.base.codes import CODES
from irdeconv.base.codes import GROUPS as GROUPS
from irdeconv.base.errors import Severity, severity_of
from irdeconv.base.json_form import Record

FOLDER = Path(__file__).parent / "code_texts"


class CodeTitle(Record, keys="code severity title"):
    """A diagnostic code."""

    code: str  # such as E302
    title: str  # in a few words

    @property
    def severity(self) -> Annotated[Severity, Literal["error", "warning"]]:
        """Errors make a model invalid."""
        return severity_of(self.code)


class CodeExample(Record, keys="command? python? prints", kw_only=True):
    """A step of an example."""

    command: Annotated[str | None, str] = None  # that is run
    python: Annotated[str | None, str] = None  # code that is run
    prints: str  # its output

    @property
    def what(self) -> str:
        """The command, or the code."""
        return self.command or self.python or ""


class CodePage(CodeTitle, keys="code severity title why fix when files steps"):
    """A code, explained."""

    why: str  # its meaning
    fix: str  # the remedy
    files: dict[str, str]  # of the example; the numbers of a weights file by name and element type
    steps: tuple[CodeExample, ...]  # commands or code, and their output
    when: str | None  # when it appears, if no file can show it


def code_page(code: str) -> CodePage:
    """Read the explanation of a code; KeyError if there is no such code."""
    title = CODES[code].title
    why, *parts = re.split(r"^--- ", path_of(code).read_text("utf-8"), flags=re.M)
    sections = {name: body for name, _, body in (p.partition("\n") for p in parts)}
    fix, when = sections.pop("fix"), sections.pop("when", None)
    commands = [name for name in sections if name.startswith("$ ")]
    steps = [CodeExample(command=name[2:], prints=sections.pop(name)) for name in commands]
    if "python" in sections:
        python, raises = sections.pop("python"), sections.pop("raises")
        steps.append(CodeExample(python=python, prints=raises))
    return CodePage(
        code=code,
        title=title,
        why=_joined(why),
        fix=_joined(fix),
        files=sections,
        steps=tuple(steps),
        when=None if when is None else _joined(when),
    )


def path_of(code: str) -> Path:
    """Return the file of a code."""
    return FOLDER / f"{code}.txt"


def _joined(paragraph: str) -> str:
    return " ".join(paragraph.split())
