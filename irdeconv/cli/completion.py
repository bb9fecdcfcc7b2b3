"""`completion`: print a script with which bash, zsh or fish completes verbs, options and files."""

from __future__ import annotations

import argparse
import re
from typing import Any

import shtab

from irdeconv.base.codes import CODES
from irdeconv.base.json_form import Record
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.options import FORM_WORDS
from irdeconv.cli.samples import samples
from irdeconv.cli.verbs import VERBS, configure, verb_record
from irdeconv.rewrite.targets import target_names

SHELLS = ("bash", "zsh", "fish")
_FILES = re.compile(r"FILE|LOWERED|OTHER")  # placeholders of files in the usage


class CompletionDocument(Record, document="completion/1"):
    """The script."""

    shell: str  # its name
    script: str  # its text


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Print the script."""
    text = script(args.shell)
    return Answer(lambda: CompletionDocument(args.shell, text), lambda: console.raw(text))


def script(shell: str) -> str:
    """Return the script for a shell: that of one parser, each verb a command below it."""
    whole = argparse.ArgumentParser(prog="irdeconv", description="OpenVINO-style IR")
    whole.add_argument("-V", "--version", action="store_true", help="show the version")
    verbs = whole.add_subparsers(dest="verb")
    for verb, text in VERBS.items():
        parser = verbs.add_parser(verb, help=text, description=text)
        configure(parser, verb)
        own = (o.words for o in verb_record(verb).options if o.key == "form")
        forms = next(own, FORM_WORDS)
        for action in parser._actions:
            _describe(action, forms)
    verbs.add_parser("help", help="show the help of a verb").add_argument("verb", choices=[*VERBS])
    made: str = shtab.complete(whole, shell)
    return made if made.endswith("\n") else f"{made}\n"


def _describe(action: Any, forms: str) -> None:
    """Add the values that an option or argument may have."""
    action.help = re.split("[:;] ", action.help or "")[0]  # a shell has little room
    known = {
        "--form": forms.split(),
        "--target": target_names(),
        "SAMPLE": sorted(samples()),
        "CODE": [*CODES],
    }
    names = [*action.option_strings, str(action.metavar)]
    choices = next((known[n] for n in names if n in known), None)
    if choices is not None and action.choices is None:
        action.choices = choices
    elif _FILES.search(str(action.metavar)):
        action.complete = shtab.FILE
    elif action.metavar == "DIR":
        action.complete = shtab.DIRECTORY
