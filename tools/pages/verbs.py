"""docs/verbs.md and docs/verbs/: every verb with its options, exit codes and an example."""

from __future__ import annotations

import contextlib
import math
import re
import shutil
from argparse import Action, HelpFormatter, _HelpAction
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from checkout import ROOT

from irdeconv.cli.options import FORM_NAMES, RECORDS, Verb
from irdeconv.cli.verbs import VERBS, verb_parser
from pages import DOCS, MARK, table, with_parts
from support.commands import printed

# The meanings of exit codes; that of 1 is in the record of each verb.
MEANINGS = {
    0: "done, or the answer is yes",
    2: "the command is wrong",
    3: "the model cannot be read, or its shapes do not fit together",
    4: "an operation or attribute is not supported",
    5: "a limit is exceeded",
    6: "a file cannot be read or written",
    7: "proved, but only for some sizes, or only under the assumptions that are listed",
    70: "a bug of irdeconv",
    130: "interrupted",
}
# An option in a sentence; its value where that is a placeholder, in quotes or one of these words.
_OPTION = re.compile(
    r"(?<![\w-])--?[a-z][a-z-]*(?![\w-])"
    r"( (?:[A-Z]{2,}(?:\.\w+)?(?=\W|$)|'[^'`]*'|(?:all|dot|html|ir|json|onnx|openvino|svg)\b))?"
)
SHARED = ("--color", "--extension", "--debug", "--quiet", "--help")


def pages() -> dict[Path, str]:
    """Return the text of every page by its path."""
    rows = ((f"[`{v}`](verbs/{v}.md)", what) for v, what in VERBS.items())
    listed = table(("verb", "purpose"), rows)
    return with_parts(DOCS / "verbs.md", {"all": listed}) | {
        DOCS / "verbs" / f"{verb}.md": page(verb) for verb in VERBS
    }


def page(verb: str) -> str:
    """Return the page of a verb."""
    this, parser = RECORDS[verb], verb_parser(verb)
    actions = [a for a in parser._actions if a.help is not None]
    own = [a for a in actions if not set(a.option_strings) & set(SHARED)]
    places = [a for a in own if not a.option_strings]
    options = [a for a in own if a.option_strings]
    shared = [a for a in actions if a not in own]
    usage = " ".join(["irdeconv", verb, *map(_place, places), "[options]"])
    sections = [
        f"{MARK}# `{verb}`",
        f"```text\n{usage}\n```",
        *_description(parser.description or ""),
        *_table("Arguments", "argument", places),
        *_table("Options", "option", options),
        *_table("Common options", "option", shared),
        "## Exit codes\n\n" + _exit_codes(verb),
        "## Example\n\n" + _example(this),
    ]
    if this.guide:
        guide = f"{this.guide}.md"
        title = (DOCS / guide).read_text("utf-8").partition("# ")[2].partition("\n")[0]
        sections.append(f"More: [{title}](../{guide})")
    return "\n\n".join(sections) + "\n"


def _description(text: str) -> Iterator[str]:
    """Yield the paragraphs of a verb's docstring; what is indented stays as it is."""
    for paragraph in text.strip().split("\n\n"):
        indented = re.match("  ", paragraph)
        yield f"```text\n{paragraph}\n```" if indented else _escaped(" ".join(paragraph.split()))


def _place(action: Action) -> str:
    """Return how the usage calls an argument."""
    name = str(action.metavar or action.dest)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}.get(str(action.nargs), name)


def _table(title: str, head: str, actions: Sequence[Action]) -> Iterator[str]:
    if actions:
        rows = ((_spelled(a), _help(a)) for a in actions)
        yield f"## {title}\n\n{table((head, 'meaning'), rows)}"


def _spelled(action: Action) -> str:
    """Return the names of an option with its value, or what an argument is called."""
    if not action.option_strings:
        return f"`{_place(action)}`"
    value = ""
    if action.nargs != 0:
        choices = "|".join(map(str, action.choices)) if action.choices is not None else ""
        name = str(action.metavar or choices or action.dest.upper()).replace("|", "\\|")
        value = f" [{name}]" if action.nargs == "?" else f" {name}"
    return ", ".join(f"`{o}{value if o.startswith('--') else ''}`" for o in action.option_strings)


def _help(action: Action) -> str:
    if isinstance(action, _HelpAction):
        return "show the options"
    text = HelpFormatter("")._expand_help(action).replace(FORM_NAMES, "a form of docs/lowering.md")
    many = " (may be repeated)" if action.default == [] and action.option_strings else ""
    return _escaped(text + ("" if "repeated" in text else many))


def _escaped(text: str) -> str:
    """Return text in which nothing is Markdown but code: options, and what stands in quotes."""
    text = re.sub(r"'([^'\s]*[][*/={}][^']*)'", r"`\1`", text)
    pieces = re.split(r"(`[^`]+`)", text)
    pieces[::2] = [_prose(piece) for piece in pieces[::2]]
    return "".join(pieces).replace("|", "\\|")


def _prose(text: str) -> str:
    text = re.sub(r"([\\*_\[\]<>$])", r"\\\1", text)
    text = re.sub(r"\bdocs/(\w+\.md)", r"[\1](../\1)", text)
    return _OPTION.sub(lambda found: f"`{found[0]}`", text)


def _exit_codes(verb: str) -> str:
    this = RECORDS[verb]
    lacking = set() if this.no else {1}
    lacking |= set() if this.partly else {7}
    lacking |= set() if this.models else {3, 4, 5}
    lacking -= {5} if verb == "demo" else set()  # a picture that is too large
    answers = {**MEANINGS, 1: this.no}
    rows = ((str(c), answers[c]) for c in sorted(answers) if c not in lacking)
    return table(("code", "meaning"), rows)


def _example(this: Verb) -> str:
    if this.differs:
        return f"```sh\n{this.example}\n```"
    no_seconds = patch("irdeconv.cli.running.WORTH_SAYING", math.inf)
    with TemporaryDirectory() as folder, contextlib.chdir(folder), no_seconds:
        shutil.copytree(ROOT / "ir_samples", "ir_samples")
        *before, last = [(c, printed(c)) for c in this.example.split("\n")]
    first = "".join(f"{command}\n" for command, _ in before)
    lead = f"After\n\n```sh\n{first}```\n\n" if before else ""
    return f"{lead}```console\n$ {last[0]}\n{last[1]}```"
