"""The verbs: their summaries, records, modules and parsers."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

from irdeconv.cli.console import Answer, Console
from irdeconv.cli.options import PASSED, SHARED, OptionParser, Verb, VerbOption, rows
from irdeconv.cli.usage import option_names

GROUPS = {
    "use": {
        "lower": "rewrite deconvolutions as ordinary convolutions",
        "run": "run a model with NumPy",
        "bench": "time a model and its steps, also in other runtimes",
        "batch": "run a verb on many models, or on many inputs of one",
    },
    "check": {
        "validate": "report everything that is wrong with a model",
        "infer": "infer all shapes and compare them with the declared ones",
        "check-certificate": "prove that a lowered model equals the original",
        "compare": "compare two models, or a model and a runtime, by layers",
        "suite": "make test vectors for hardware and compilers; judge results",
    },
    "debug": {
        "inspect": "list layers, shapes, parameters, multiply-accumulates",
        "explain": "show the arithmetic of a deconvolution in all systems",
        "reduce": "shrink a failing model to the layers that reproduce it",
        "codes": "explain a diagnostic code, and how to fix the problem",
    },
    "files": {
        "convert": "convert ONNX, a oneDNN Graph dump or an old IR into an IR",
        "extract": "cut a piece out of a model, with its weights and inputs",
        "rename": "give layers, inputs, outputs and other tensors new names",
        "simplify": "fold constants and drop unnecessary layers",
        "raise": "turn decompositions back into one deconvolution",
    },
    "set up": {
        "demo": "enlarge a picture with a lowered network",
        "doctor": "show versions, and the abilities of this installation",
        "completion": "print a script for completion in bash, zsh or fish",
    },
}
VERBS = {verb: text for group in GROUPS.values() for verb, text in group.items()}


# The verbs of each module, which has a function such as `run_lower` for each.
MODULES = {
    "about": "codes completion doctor",
    "batch": "batch",
    "comparing": "compare reduce",
    "demo": "demo",
    "editing": "extract rename simplify",
    "lowering": "lower raise",
    "proofs": "check-certificate",
    "reports": "validate infer convert inspect explain",
    "running": "run bench",
    "suite": "suite",
}


def function_of(verb: str) -> Callable[[Namespace, Console], int | Answer]:
    """Return the function of a verb."""
    name = next(name for name, verbs in MODULES.items() if verb in verbs.split())
    found = getattr(import_module(f"irdeconv.cli.{name}"), f"run_{verb.replace('-', '_')}")
    return cast("Callable[[Namespace, Console], int | Answer]", found)


def verb_record(verb: str) -> Verb:
    """Return the record of a verb."""
    from irdeconv.cli.records import RECORDS

    return RECORDS[verb]


def verb_parser(verb: str) -> OptionParser:
    """Return the parser of a verb's arguments."""
    parser = OptionParser(f"irdeconv {verb}", verb_record(verb).about, _verbs_with)
    configure(parser, verb)
    return parser


def configure(parser: ArgumentParser, verb: str) -> None:
    """Add the arguments of a verb and those of all verbs."""
    this = verb_record(verb)
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


class _Passed(Action):
    """Keeps an option and its value in `words`, in the order in which they are given."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Take note of one option."""
        word = self.option_strings[-1]
        words = [*getattr(namespace, "words", ()), word if self.nargs == 0 else f"{word}={values}"]
        namespace.words = words


def _add_passed(parser: ArgumentParser) -> None:
    """Add the options of the verbs that a batch passes on; each says which verbs have it."""
    parser.set_defaults(words=[])
    seen: dict[str, VerbOption] = {}
    for task, names in PASSED.items():
        for option in (*verb_record(task).options, *rows(SHARED["COMMON"])):
            if option.names and option.names[-1] in names.split():
                seen.setdefault(option.names[-1], option)
    for name, option in seen.items():
        verbs = [task for task in PASSED if name in PASSED[task].split()]
        which = "any verb" if len(verbs) == len(PASSED) else ", ".join(verbs)
        flag = not option.value or name == "--certify"
        help = OWN_HELP.get(name) or option.help % {"default": option.default}
        parser.add_argument(
            *option.names,
            action=_Passed,
            nargs=0 if flag else None,
            metavar=None if flag else option.placeholder,
            default=SUPPRESS,
            help=f"of {which}: {help.replace('%', '%%')}",
        )
