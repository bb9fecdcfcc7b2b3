"""Options of the verbs that a batch passes on to its items, and which options go together."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from irdeconv.base.errors import misused
from irdeconv.cli.options import OptionParser

ALL = "--weights --semantics --shape --extension --limit"
# What can be said of many models at once; the rest belongs to a single one, or to the batch.
PASSED = {
    "validate": f"{ALL} --strict --no-weights",
    "infer": f"{ALL} --no-weights",
    "lower": f"{ALL} --form --target --explain-costs --certify",
    "run": f"{ALL} --input --seed --form --threads --no-fuse --max-memory --exact --outputs --dump",
    "compare": f"{ALL} --input --seed --form --target --tolerance --peer-precision",
    "check-certificate": f"{ALL} --certificate --probe --seed --sizes --second",
}
# What is not said as the verbs say it.
OWN_HELP = {
    "--certify": "prove every lowered layer; the certificates go into -o",
    "--dump": "also keep layers' outputs, in outputs.npz as dump/NAME: all, a layer's or tensor's "
    "name, type:Convolution; may be repeated",
    "--threads": "threads of each item (default: 1); results do not depend on it",
    "--weights": "the .bin file, such as '{folder}/weights.bin' (default: the one beside the .xml)",
}
TWO_MODELS = ("compare", "check-certificate")
JOIN = "join"
TASKS = (*PASSED, JOIN)
JOINED_BY = "task paths inputs folder format color debug quiet words retries".split()


def shard(text: str) -> tuple[int, int]:
    """Parse the value of --shard, such as 2/4."""
    found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f'"{text}" is not such as 1/4, 2/4, 3/4 or 4/4')
    return int(found[1]), int(found[2])


class Passed(argparse.Action):
    """Keeps an option and its value in `words`, in the order in which they are given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Take note of one option."""
        word = self.option_strings[-1]
        words = [*getattr(namespace, "words", ()), word if self.nargs == 0 else f"{word}={values}"]
        namespace.words = words


def add_passed(parser: OptionParser) -> None:
    """Add the options of the verbs; each says which verbs have it."""
    from irdeconv.cli.main import verb_parser

    parser.set_defaults(words=[])
    seen: dict[str, argparse.Action] = {}
    for task in PASSED:
        for action in verb_parser(task)._actions:
            if action.option_strings and action.option_strings[-1] in PASSED[task].split():
                seen.setdefault(action.option_strings[-1], action)
    for name, action in seen.items():
        verbs = [task for task in PASSED if name in PASSED[task].split()]
        which = "any verb" if len(verbs) == len(PASSED) else ", ".join(verbs)
        flag = action.nargs == 0 or name == "--certify"
        parser.add_argument(
            *action.option_strings,
            action=Passed,
            nargs=0 if flag else None,
            metavar=None if flag else _placeholder(action),
            default=argparse.SUPPRESS,
            help=f"of {which}: {_help(name, action)}",
        )


def _placeholder(action: argparse.Action) -> str:
    choices = "|".join(map(str, action.choices or ()))
    return str(action.metavar or choices or action.dest.upper())


def _help(name: str, action: argparse.Action) -> str:
    text = OWN_HELP.get(name) or argparse.HelpFormatter("")._expand_help(action)
    return text.replace("%", "%%")


def refuse_idle(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together, or that the verb does not have."""
    task = args.task
    names = [word.partition("=")[0] for word in args.words]
    for name in names:
        if name not in PASSED.get(task, "").split():
            verbs = [t for t in PASSED if name in PASSED[t].split()]
            raise misused(f"{name} is of {' and '.join(verbs)}, not of {task}", "leave it out")
    for message, hint in _clashes(args, names):
        raise misused(message, hint)


def _clashes(args: argparse.Namespace, names: list[str]) -> Iterator[tuple[str, str]]:
    task, dask = args.task, args.scheduler or args.cluster
    if task == JOIN:
        for name in sorted(vars(args).keys() - {*JOINED_BY}):
            if getattr(args, name):
                yield f"--{name}: join takes results as they are", "leave it out"
        return
    if args.against and task not in TWO_MODELS:
        yield f"--against: {task} takes one model", f"it is of {' and '.join(TWO_MODELS)}"
    if not args.against and task == "check-certificate":
        yield "check-certificate needs --against", "name the folder that batch lower -o has written"
    if "--certify" in names and not args.folder:
        yield "--certify needs -o DIR, where the certificates go", "name a folder"
    if "--dump" in names and not args.folder:
        yield "--dump needs -o DIR, where the arrays go", "name a folder"
    if args.inputs and task != "run":
        yield f"--inputs: {task} takes no arrays", "it is of run"
    if args.rows and not args.inputs:
        yield "--rows cuts the files of --inputs", "name them"
    if args.scheduler and args.cluster:
        yield "--scheduler and --cluster exclude each other", "leave one out"
    if args.jobs == 0 and (args.timeout or args.memory or dask):
        what = "Dask" if dask else "limits of time or memory"
        yield f"--jobs 0 does all in this process, without {what}", "take 1 or more"
    if args.scheduler and args.jobs is not None:
        yield "--jobs: the workers of --scheduler are there already", "leave it out"
    if args.memory and not sys.platform.startswith("linux"):
        yield "--memory needs Linux", "leave it out"
    if args.resume and not (args.folder or args.report or args.journal):
        yield "--resume needs a journal", "name -o DIR, --report FILE or --journal FILE"
    if args.resume and args.force:
        yield "--resume and --force exclude each other", "leave one out"
