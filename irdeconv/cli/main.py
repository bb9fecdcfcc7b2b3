"""The `irdeconv` command: find the verb, parse its options, turn exceptions into exit codes.

Exit codes: 0 yes, 1 the answer is no, 2 usage, 3 the model cannot be read, 4 unsupported, 5 a
limit, 6 input or output, 70 a bug of irdeconv, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from irdeconv import __version__
from irdeconv.cli.checks import check_options
from irdeconv.cli.console import Console
from irdeconv.cli.options import OptionParser

VERBS = {
    "validate": "check an IR and report everything that is wrong with it",
    "infer": "infer all shapes and compare them with the declared ones",
    "lower": "rewrite deconvolutions into ordinary convolutions and write the IR",
    "raise": "turn decompositions of a deconvolution back into one deconvolution",
    "run": "run a model with NumPy",
    "bench": "time a model: every step, its kernel and rates; other runtimes beside it",
    "inspect": "list layers, shapes, parameters and multiply-accumulates",
    "explain": "tell why a deconvolution gives what it gives, and what other systems would compute",
    "check-certificate": "prove every rewritten layer of a lowered IR equal to the original",
    "compare": "compare a model layer by layer with another, with saved arrays or with OpenVINO",
    "convert": "convert an ONNX model or a oneDNN Graph dump into an IR",
    "demo": "validate, infer, lower, write, run and compare a packaged sample",
    "doctor": "show versions and what this installation can do",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    console = Console()
    if not args:
        console.error(_usage())
        return 2
    if args[0] in ("-h", "--help"):
        console.text(_usage())
        return 0
    if args[0] in ("-V", "--version"):
        console.text(f"irdeconv {__version__}")
        return 0
    if args[0] not in VERBS:
        console.error(_unknown(args[0]))
        return 2
    try:
        return _run_verb(args[0], args[1:])
    except KeyboardInterrupt:
        return 130


def _usage() -> str:
    width = max(map(len, VERBS))
    rows = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        "usage: irdeconv VERB [options]\n"
        "       irdeconv VERB --help\n"
        "       irdeconv --version\n\n"
        f"Verbs:\n{rows}\n\n"
        "Exit codes: 0 yes, 1 no, 2 usage, 3 unreadable model, 4 unsupported, 5 limit, "
        "6 input/output, 70 bug, 130 interrupted."
    )


def _unknown(verb: str) -> str:
    from irdeconv.suggest import did_you_mean

    what = "option" if verb.startswith("-") else "verb"
    hint = did_you_mean(verb, VERBS) or f"there are {', '.join(VERBS)}"
    return f'irdeconv: unknown {what} "{verb}"; {hint}'


def _run_verb(verb: str, args: list[str]) -> int:
    name = "raise_" if verb == "raise" else verb.replace("-", "_")  # `raise` is a keyword
    module = import_module(f"irdeconv.cli.{name}")
    parser = OptionParser(prog=f"irdeconv {verb}", description=module.__doc__)
    module.configure(parser)
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument("-q", "--quiet", action="store_true", help="no log lines on stderr")
    try:
        # Values may stand before or after the options.
        options = parser.parse_intermixed_args(args)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 2
    console = Console(options.format, quiet=options.quiet)
    try:
        check_options(options)
        return int(module.run(options, console))
    except Exception as e:
        if options.debug:
            traceback.print_exc()
        return _report(verb, console, e)


def _report(verb: str, console: Console, error: Exception) -> int:
    from irdeconv.errors import IrdeconvError

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


def _classify(error: Exception) -> tuple[int, str]:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return 6, f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return 5, f"out of memory{': ' if str(error) else ''}{error}"
    return 70, f"{type(error).__name__}: {error}"
