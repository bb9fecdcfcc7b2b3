"""The verbs: their purposes, records, functions and parsers."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, cast

from irdeconv.cli.console import Answer, Console
from irdeconv.cli.options import PASSED, RECORDS, SHARED, OptionParser, VerbOption, rows
from irdeconv.cli.usage import option_names

GROUPS: dict[str, dict[str, str]] = {}  # the purposes of verbs, by group
for _verb, _record in RECORDS.items():
    GROUPS.setdefault(_record.group, {})[_verb] = _record.purpose
VERBS = {verb: text for group in GROUPS.values() for verb, text in group.items()}


def function_of(verb: str) -> Callable[[Namespace, Console], int | Answer]:
    """Return the function of a verb."""
    module = import_module(f"irdeconv.cli.{RECORDS[verb].module}")
    found = getattr(module, f"run_{verb.replace('-', '_')}")
    return cast("Callable[[Namespace, Console], int | Answer]", found)


def verb_parser(verb: str) -> OptionParser:
    """Return the parser of a verb's arguments."""
    this = RECORDS[verb]

    def check(options: Namespace) -> None:
        from irdeconv.cli import checks

        checks.check_together(this, options)
        checks.check_options(this, options)
        if not parser.writes_model:
            checks.check_outputs(this, options)  # of a model it imports NumPy

    @cache
    def options_of(task: str) -> list[VerbOption]:
        passed = _passed(task).values() if this.passes else ()
        return [*this.options, *passed, *rows(SHARED["COMMON"])]

    def options() -> list[VerbOption]:
        named = (arg for arg in parser.args if this.passes and arg in PASSED)
        return options_of(next(named, ""))

    parser = OptionParser(f"irdeconv {verb}", this.about, _verbs_with, check, options)
    configure(parser, verb)
    return parser


def configure(parser: ArgumentParser, verb: str) -> None:
    """Add the arguments of a verb and those of all verbs."""
    this = RECORDS[verb]
    groups: dict[str, Any] = {"": parser}
    for option in this.options:
        group = "=" if option.name in this.one_of.split() else option.group
        if group not in groups and group == "=":
            groups[group] = parser.add_mutually_exclusive_group(required=this.one_required)
        elif group not in groups:
            groups[group] = parser.add_argument_group(group)
        option.add_to(groups[group])
    if this.passes:
        _add_passed(parser)
    reads = this.models and not this.passes  # the items of a batch read
    for option in rows(SHARED["COMMON"]):
        if reads or option.name not in ("--extension", "--limit"):
            option.add_to(parser)


def _verbs_with(name: str) -> list[str]:
    return [verb for verb in VERBS if name in option_names(verb_parser(verb))]


# The help of options that mean something else in a batch.
OWN_HELP = {
    "--certify": "prove every lowered layer; the certificates go into -o",
    "--dump": "also keep layers' outputs, in outputs.npz as dump/NAME: all, a layer's or tensor's "
    "name, type:Convolution; may be repeated",
    "--threads": "threads of each item (default: 1); results do not depend on it",
    "--weights": "the .bin file, such as '{folder}/weights.bin' (default: the one beside the .xml)",
}


def _passed(first: str = "") -> dict[str, VerbOption]:
    """Return the options that a batch passes on, by name; as the `first` task has them, if any."""
    seen: dict[str, VerbOption] = {}
    every = [(first, " ".join(PASSED.values()))] if first else []
    for task, names in (*every, *PASSED.items()):
        for option in (*RECORDS[task].options, *rows(SHARED["COMMON"])):
            if option.names and option.names[-1] in names.split():
                usage = "--certify" if option.name == "--certify" else option.usage
                seen.setdefault(option.names[-1], option._replace(usage=usage))
    return seen


def _add_passed(parser: ArgumentParser) -> None:
    """Add the options of the verbs that a batch passes on; each says which verbs have it."""
    parser.set_defaults(words=[])
    for name, option in _passed().items():
        verbs = [task for task in PASSED if name in PASSED[task].split()]
        which = "any verb" if len(verbs) == len(PASSED) else ", ".join(verbs)
        help = OWN_HELP.get(name) or option.help % {"default": option.default}
        kept: dict[str, Any] = {"action": "append_const", "const": option.names[-1]}
        if option.value:
            form = f"{option.names[-1]}={{}}".format
            kept = {"action": "append", "type": form, "metavar": option.placeholder}
        of = f"of {which}: {help.replace('%', '%%')}"
        parser.add_argument(*option.names, dest="words", default=SUPPRESS, help=of, **kept)
