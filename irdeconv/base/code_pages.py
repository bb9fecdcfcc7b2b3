"""Explanations of diagnostic codes: the reason, the fix, an example.

`codes.CODES` has the titles. `code_texts/` has a text for each code: the reason, then sections that
each begin with `--- name`. `fix` has the remedy. The files of the example follow (`model.bin f32`
has the numbers of a weights file), then a command (`--- $ irdeconv ...`) with its output, or a
program (`python`) and what it `raises`. If no file can provoke a code, `when` names the cause.
`pytest --update` rewrites the outputs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from irdeconv.base.codes import CODES
from irdeconv.base.codes import GROUPS as GROUPS

FOLDER = Path(__file__).parent / "code_texts"


@dataclass(frozen=True)
class ExampleStep:
    """A command or a program of an example, and its output."""

    what: str
    printed: str
    python: bool = False


@dataclass(frozen=True)
class CodePage:
    """The explanation of a diagnostic code.

    `files` are those of the example: texts by name, the numbers of a weights file by its name and
    element type. `when` replaces an example that no file can give.
    """

    code: str
    title: str
    why: str
    fix: str
    files: dict[str, str]
    steps: tuple[ExampleStep, ...]
    when: str | None


def code_page(code: str) -> CodePage:
    """Read the explanation of a code; KeyError if there is no such code."""
    title = CODES[code].title
    why, *parts = re.split(r"^--- ", path_of(code).read_text("utf-8"), flags=re.M)
    sections = {name: body for name, _, body in (p.partition("\n") for p in parts)}
    fix, when = sections.pop("fix"), sections.pop("when", None)
    commands = [name for name in sections if name.startswith("$ ")]
    steps = [ExampleStep(name[2:], sections.pop(name)) for name in commands]
    if "python" in sections:
        steps.append(ExampleStep(sections.pop("python"), sections.pop("raises"), python=True))
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
