"""The `irdeconv` command: find the verb, parse its options, turn exceptions into exit codes.

Exit codes: 0 yes, 1 the answer is no, 2 usage, 3 the model cannot be read, 4 unsupported, 5 a
limit, 6 input or output, 7 yes, but only for some sizes or under assumptions, 70 a bug of
irdeconv, 130 interrupted.
"""

from __future__ import annotations

import re
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TextIO

from irdeconv import __version__
from irdeconv.base import work
from irdeconv.base.errors import Diagnostic, IrdeconvError, LimitError, Spelling
from irdeconv.base.limits import of_settings
from irdeconv.cli.console import Console, drawn
from irdeconv.cli.interrupt import EXIT_CODE, PROCESS
from irdeconv.cli.options import RECORDS, limits_around
from irdeconv.cli.usage import suited, unknown_verb, wants_json
from irdeconv.cli.verbs import GROUPS, VERBS, function_of, verb_parser

Consoles = Callable[..., Console]
_parser = cache(verb_parser)  # for a process that runs many commands


def main(
    argv: Sequence[str] | None = None, *, out: TextIO | None = None, err: TextIO | None = None
) -> int:
    """Run the command line and return its exit code; `out` and `err` replace the streams."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(args, partial(Console, out=out, err=err))
    except KeyboardInterrupt:
        import_module("irdeconv.formats.atomic").drop_all()
        return EXIT_CODE


def _run(args: list[str], consoles: Consoles) -> int:
    console = consoles()
    if not args:
        console.error(_usage())
        return 2
    if args[0] == "help" and len(args) < 3:
        code = re.fullmatch(r"[EWew]\d{3}", "".join(args[1:]))
        args = ["codes", code[0].upper()] if code else [*args[1:], "--help"]
    if args[0] in ("-h", "--help"):
        console.text(_usage())
        return 0
    if args[0] in ("-V", "--version"):
        console.text(f"irdeconv {__version__}")
        return 0
    return _run_verb(args[0], args, consoles)


def _usage() -> str:
    width = max(map(len, VERBS))
    groups = (
        f"{name.capitalize()}:\n"
        + "".join(f"  {verb:<{width}}  {text}\n" for verb, text in verbs.items())
        for name, verbs in GROUPS.items()
    )
    return (
        "usage: irdeconv VERB FILE [options]\n"
        "       irdeconv help VERB|CODE\n"
        "       irdeconv --version\n\n" + "\n".join(groups) + "\n"
        "Exit codes: 0 yes, 1 no, 2 usage, 3 unreadable model, 4 unsupported, 5 limit, "
        "6 input/output, 7 yes in part, 70 bug, 130 interrupted."
    )


def _run_verb(verb: str, args: list[str], consoles: Consoles) -> int:
    console = consoles("json" if wants_json(args) else "text")
    seen: dict[str, tuple[int, int] | None] = {}  # the files of --watch

    @work.fresh
    def run() -> int:
        nonlocal console, seen
        if verb not in VERBS:
            raise unknown_verb(args, VERBS, _parser)
        try:
            options = _parser(verb).parse(args[1:])
        except SystemExit:  # --help
            return 0
        from irdeconv.cli import checks  # not needed for --version and --help

        console = consoles(options.format, quiet=options.quiet, color=options.color)
        if getattr(options, "watch", False):
            seen = checks.watched(RECORDS[verb], options)
        checks.check_arguments(RECORDS[verb], options)
        for path in getattr(options, "extension", ()):
            import_module("irdeconv.extension").load(path)
        settings = [*limits_around(), *options.limit] if "limit" in options else ()
        with of_settings(settings).applied(), drawn(console):
            if getattr(options, "print_python", False):
                python = import_module("irdeconv.cli.python_script")
                console.raw(python.script(verb, options))
                return 0
            return _answered(verb, options, console)

    name = verb if verb in VERBS else "error"
    while True:
        code = guarded(name, lambda: console, run, debug="--debug" in args)
        if not seen or code in (2, EXIT_CODE):
            return code
        from irdeconv.cli.checks import wait_for_change

        console.log(f"watching {', '.join(filter(seen.get, seen))}; Ctrl-C ends")
        wait_for_change(seen)


def _answered(verb: str, options: Namespace, console: Console) -> int:
    """Run a verb; the hints of its errors name its own options."""
    try:
        answer = function_of(verb)(options, console)
    except IrdeconvError as e:
        keeps_onnx = RECORDS[verb].keeps_onnx(options)
        e.diagnostics = [suited(d, options, keeps_onnx=keeps_onnx) for d in e.diagnostics]
        raise
    return answer if isinstance(answer, int) else answer.shown(console)


def guarded(
    verb: str, console: Callable[[], Console], task: Callable[[], int], *, debug: bool = False
) -> int:
    """Return the exit code of some work; its exceptions are reported on the current console."""
    try:
        with Spelling():
            return task()
    except (Exception, SystemExit) as e:  # an extension may call sys.exit
        if PROCESS.since is not None:  # an import's reaction to the interruption
            return EXIT_CODE
        if debug:
            traceback.print_exc()
        return _report(verb, console(), e)


def _report(verb: str, console: Console, error: BaseException) -> int:
    # The stack of a thread needs memory, too.
    starved = isinstance(error, MemoryError) or str(error) == "can't start new thread"
    if starved and not isinstance(error, IrdeconvError):
        text = f"out of memory{': ' if str(error) else ''}{error}"
        error = LimitError(Diagnostic("E602", "error", text))
    if isinstance(error, IrdeconvError):
        from irdeconv.cli.diagnostics import report_error

        return report_error(verb, console, error)
    code, message = _classify(error)
    if console.wants_json:
        from irdeconv.cli.diagnostics import ErrorDocument

        console.json(ErrorDocument(f"irdeconv/{verb}/1", message, code, ()))
    console.error("irdeconv: ", ("error", "bold red"), f": {message}")
    if code == 70:
        console.error("This is a bug in irdeconv: please report it with the command and the model.")
        console.error("The same command with --debug shows the traceback.")
    return code


def _classify(error: BaseException) -> tuple[int, str]:
    if isinstance(error, OSError):
        file = f"{error.filename}: " if error.filename is not None else ""
        return 6, f"{file}{error.strerror or error}"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("irdeconv"):
        return 4, f"the package {error.name} is not installed; install irdeconv anew with pip"
    return 70, f"{type(error).__name__}: {error}"
