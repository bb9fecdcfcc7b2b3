"""The `irdeconv` command: find the verb, parse its options, turn exceptions into exit codes.

Exit codes: 0 yes, 1 the answer is no, 2 usage, 3 the model cannot be read, 4 unsupported, 5 a
limit, 6 input or output, 7 yes, but for some sizes only or if what is assumed is so, 70 a bug of
irdeconv, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TextIO

from irdeconv import __version__
from irdeconv.base.limits import of_settings
from irdeconv.cli.checks import check_options
from irdeconv.cli.console import Console
from irdeconv.cli.interrupt import EXIT_CODE, PROCESS
from irdeconv.cli.options import OptionParser, add_limit, limits_around
from irdeconv.cli.progress_bars import drawn
from irdeconv.cli.usage import option_names, unknown_verb, wants_json

VERBS = {
    "validate": "check a model and report everything that is wrong with it",
    "infer": "infer all shapes and compare them with the declared ones",
    "lower": "rewrite deconvolutions as ordinary convolutions, and write the model",
    "raise": "turn decompositions of a deconvolution back into one deconvolution",
    "run": "run a model with NumPy",
    "bench": "measure how long a model and each of its steps take, also in other runtimes",
    "inspect": "list layers, shapes, parameters and multiply-accumulates",
    "explain": "show how a deconvolution gets its size and values, and what other systems compute",
    "check-certificate": "prove every rewritten layer of a lowered model equal to the original",
    "compare": "compare a model layer by layer with another model, with saved arrays or OpenVINO",
    "reduce": "reduce a failing model to the few layers that reproduce the failure",
    "convert": "convert an ONNX model, a oneDNN Graph dump or an IR from before 2020 into an IR",
    "extract": "cut a piece out of a model, with its weights and the inputs that flow into it",
    "rename": "give layers, inputs, outputs and other tensors new names",
    "suite": "make test vectors for hardware and compilers, and judge the results",
    "batch": "do the same with many models, or with many inputs of one, on several workers",
    "simplify": "fold constants, and drop layers that change nothing or that no output needs",
    "codes": "explain diagnostic codes, each with an example and how to fix it",
    "demo": "enlarge a picture with a lowered network; check the packaged sample models",
    "completion": "print a script with which bash, zsh or fish completes verbs, options and files",
    "doctor": "show versions, and what this installation can do",
}

Consoles = Callable[..., Console]
WITHOUT_MODELS = ("codes", "demo", "completion", "doctor")  # of the user's


def main(
    argv: Sequence[str] | None = None, *, out: TextIO | None = None, err: TextIO | None = None
) -> int:
    """Run the command line and return its exit code; `out` and `err` stand for the streams."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(args, partial(Console, out=out, err=err))
    except KeyboardInterrupt:
        return EXIT_CODE


def _run(args: list[str], consoles: Consoles) -> int:
    console = consoles()
    if not args:
        console.error(_usage())
        return 2
    if args[0] == "help":
        args = [*args[1:2], "--help"]
    if args[0] in ("-h", "--help"):
        console.text(_usage())
        return 0
    if args[0] in ("-V", "--version"):
        console.text(f"irdeconv {__version__}")
        return 0
    return _run_verb(args[0], args, consoles)


def _usage() -> str:
    width = max(map(len, VERBS))
    rows = [f"  {verb:<{width}}  {text}" for verb, text in VERBS.items()]  # the console wraps
    return (
        "usage: irdeconv VERB [options]\n"
        "       irdeconv help VERB\n"
        "       irdeconv --version\n\n"
        "Verbs:\n" + "\n".join(rows) + "\n\n"
        "Exit codes: 0 yes, 1 no, 2 usage, 3 unreadable model, 4 unsupported, 5 limit, "
        "6 input/output, 7 yes in part, 70 bug, 130 interrupted."
    )


def _module(verb: str) -> ModuleType:
    name = "raise_" if verb == "raise" else verb.replace("-", "_")  # `raise` is a keyword
    return import_module(f"irdeconv.cli.{name}")


def verb_parser(verb: str) -> OptionParser:
    """Return the parser of a verb's arguments."""
    parser = OptionParser(f"irdeconv {verb}", _module(verb).__doc__, _verbs_with)
    configure_verb(parser, verb)
    return parser


def configure_verb(parser: ArgumentParser, verb: str) -> None:
    """Add the arguments of a verb and those of all verbs."""
    _module(verb).configure(parser)
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="use colours; auto: on a terminal, unless NO_COLOR or FORCE_COLOR is set",
    )
    reads = verb not in (*WITHOUT_MODELS, "batch")  # whose items read
    if reads:
        parser.add_argument(
            "--extension",
            metavar="FILE.py",
            action="append",
            default=[],
            help="a Python file with operations of your own (docs/extensions.md); it is executed",
        )
    if reads or verb == "doctor":
        add_limit(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument("-q", "--quiet", action="store_true", help="no log lines on stderr")


def _verbs_with(option: str) -> list[str]:
    return [verb for verb in VERBS if option in option_names(verb_parser(verb))]


def _run_verb(verb: str, args: list[str], consoles: Consoles) -> int:
    console = consoles("json" if wants_json(args) else "text")

    def run() -> int:
        nonlocal console
        if verb not in VERBS:
            raise unknown_verb(args, VERBS)
        try:
            options = verb_parser(verb).parse(args[1:])
        except SystemExit:  # --help
            return 0
        console = consoles(options.format, quiet=options.quiet, color=options.color)
        check_options(options)
        for path in getattr(options, "extension", ()):
            import_module("irdeconv.extension").load(path)
        settings = [*limits_around(), *options.limit] if "limit" in options else ()
        with of_settings(settings).applied(), drawn(console):
            return int(_module(verb).run(options, console))

    name = verb if verb in VERBS else "error"
    return guarded(name, lambda: console, run, debug="--debug" in args)


def guarded(
    verb: str, console: Callable[[], Console], work: Callable[[], int], *, debug: bool = False
) -> int:
    """Return the exit code of some work; what it raises is reported on the console of then."""
    try:
        return work()
    except (Exception, SystemExit) as e:  # an extension may call sys.exit
        if PROCESS.since is not None:  # what an import made of the interruption
            return EXIT_CODE
        if debug:
            traceback.print_exc()
        return _report(verb, console(), e)


def _report(verb: str, console: Console, error: BaseException) -> int:
    from irdeconv.base.errors import IrdeconvError

    if isinstance(error, IrdeconvError):
        from irdeconv.cli.diagnostics import report_error

        return report_error(verb, console, error)
    code, message = _classify(error)
    if console.wants_json:
        console.json(verb, {"error": message, "exit_code": code, "diagnostics": []})
    console.error("irdeconv: ", ("error", "bold red"), f": {message}")
    if code == 70:
        console.error("This is a bug in irdeconv: please report it with the command and the model.")
        console.error("The same command with --debug shows the traceback.")
    return code


def _classify(error: BaseException) -> tuple[int, str]:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return 6, f"{where}{error.strerror or error}"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("irdeconv"):
        return 4, f"the package {error.name} is not installed; install irdeconv anew with pip"
    if isinstance(error, MemoryError):
        return 5, f"out of memory{': ' if str(error) else ''}{error}"
    return 70, f"{type(error).__name__}: {error}"
