"""`codes`: explain diagnostic codes, each with an example and how to fix it."""

from __future__ import annotations

import argparse
from functools import partial

from irdeconv.base.code_pages import GROUPS, CodePage, CodeTitle, code_page
from irdeconv.base.codes import CODES
from irdeconv.base.errors import misused
from irdeconv.base.json_form import Record
from irdeconv.base.tables import wrap
from irdeconv.cli.console import Answer, Console


class CodeList(Record, document="codes/1"):
    """All codes."""

    codes: list[CodeTitle]  # in order


class CodePages(Record, document="codes/1"):
    """The requested codes."""

    codes: list[CodePage]  # in order


def run(args: argparse.Namespace, console: Console) -> Answer:
    """List codes, or explain those that are named in full."""
    chosen = _chosen(args.codes)
    if any(text.upper() in CODES for text in args.codes):
        pages = [code_page(code) for code in chosen]
        return Answer(lambda: CodePages(pages), partial(_texts, pages, console))
    titles = [CodeTitle(c, CODES[c].title) for c in chosen]
    return Answer(lambda: CodeList(titles), partial(_list, chosen, console))


def _chosen(texts: list[str]) -> list[str]:
    """Return the codes that begin with a text; UsageError if one fits none."""
    for text in texts:
        if not text or not any(c.startswith(text.upper()) for c in CODES):
            raise misused(f'there is no diagnostic code "{text}"', _hint(text.upper()))
    starts = tuple(text.upper() for text in texts) or ("",)
    return [c for c in CODES if c.startswith(starts)]


def _hint(text: str) -> str:
    """Say which codes have the same digits, or begin alike."""
    same = [c for c in CODES if text and c.endswith(text)]
    if same:
        return f"did you mean {' or '.join(same)}?"
    for end in range(len(text) - 1, 1, -1):
        near = [c for c in CODES if c.startswith(text[:end])]
        if near:
            return f"there are {', '.join(near)}"
    return "irdeconv codes lists all of them"


def _list(chosen: list[str], console: Console) -> None:
    """Print codes and titles below the headings of their groups."""
    for group, title in GROUPS.items():
        codes = [c for c in chosen if c.startswith(group)]
        if codes:
            console.text((title, "bold"))
            for code in codes:
                console.text(f"  {code}  {CODES[code].title}")
    console.text("\nirdeconv codes CODE explains one, with an example")


def _texts(pages: list[CodePage], console: Console) -> None:
    for number, page in enumerate(pages):
        console.text("\n" if number else "", (page.code, "bold"), f": {page.title}\n")
        console.text(wrap(page.why, console.width, 0) + "\n")
        console.text(wrap(f"How to fix it: {page.fix}", console.width, 0))
        if page.when:
            console.text("\n" + wrap(f"When it appears: {page.when}", console.width, 0))
        for name, body in page.files.items():
            file, _, element_type = name.partition(" ")
            console.text(f"\n{file} ({element_type}):\n" if element_type else f"\n{file}:\n")
            console.raw("".join(f"    {line}\n" for line in body.splitlines()))
        for step in page.steps:  # not indented: it is as wide as a pipe
            shown = f"{step.what}\nraises\n\n" if step.python else f"$ {step.what}\n"
            console.raw(f"\n{shown}{step.printed}")
