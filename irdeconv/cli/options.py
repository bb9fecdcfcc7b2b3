"""Options that verbs share, and an argument parser with did-you-mean."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from irdeconv.base.form_names import AUTO, CONDITIONS, FALLBACK
from irdeconv.base.limits import of_environment, setting
from irdeconv.base.tables import wrap


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a parser of integers from `low` to `high`, or of at most 40 digits without `high`."""

    def parse(text: str) -> int:
        plain = text.isascii() and text.isdecimal() and len(text) <= 40
        if not plain or int(text) < low or (high is not None and int(text) > high):
            upper = "on" if high is None else f"to {high}"
            raise argparse.ArgumentTypeError(f'"{text}" is not a number from {low} {upper}')
        return int(text)

    return parse


def real(low: float, high: float = math.inf) -> Callable[[str], float]:
    """Return a parser of finite numbers from `low` to `high`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high or math.isinf(value):
            upper = "on" if math.isinf(high) else f"to {high:g}"
            message = f'"{text}" is not a finite number from {low:g} {upper}'
            raise argparse.ArgumentTypeError(message)
        return value + 0.0  # no -0

    return parse


thread_count = whole(1, 1024)


def size(text: str) -> int:
    """Parse a number of bytes: 4096, 512M, 2G, 1.5GiB; the letters stand for powers of 1024."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)(?:i?B)?", text.strip(), re.I | re.A)
    if match is None:
        raise argparse.ArgumentTypeError(f'"{text}" is not a size such as 512M, 2G or 4096')
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def measurements(text: str) -> str:
    """Parse the value of --tune: a .json file, so that a model or an input is not mistaken."""
    if not text.endswith(".json"):
        message = f'"{text}" is not a .json file; write --tune behind it, or --tune=FILE.json'
        raise argparse.ArgumentTypeError(message)
    return text


def limit(text: str) -> tuple[str, int]:
    """Parse a value of --limit."""
    try:
        return setting(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def limits_around() -> list[tuple[str, int]]:
    """Return the limits that the environment sets; UsageError where it sets none that there are."""
    from irdeconv.base.errors import misused

    try:
        return of_environment()
    except ValueError as e:
        raise misused(str(e), "separate several by commas: layers=2000000,xml_bytes=4G") from None


class HelpText(argparse.HelpFormatter):
    """Fills paragraphs to the width of the terminal; of indented ones every line by itself."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = (
            wrap(p, width) if "\n " in f"\n{p}" else wrap(" ".join(p.split("\n")), width, 0)
            for p in text.strip().split("\n\n")
        )
        return "\n\n".join(paragraphs)


class OptionParser(argparse.ArgumentParser):
    """An ArgumentParser without abbreviations; what it cannot parse is a UsageError.

    `others` returns the verbs that have an option that this one has not.
    """

    def __init__(
        self,
        prog: str,
        description: str | None,
        others: Callable[[str], list[str]] = lambda option: [],
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=HelpText,
        )
        self._others = others
        self._args: Sequence[str] = ()

    def parse(self, args: Sequence[str]) -> argparse.Namespace:
        """Parse a verb's arguments; values may stand before or after the options."""
        self._args = args
        return self.parse_intermixed_args(args)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError in our own words."""
        from irdeconv.cli.usage import misparsed

        raise misparsed(self, message, self._args, self._others)


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Add --limit."""
    parser.add_argument(
        "--limit",
        metavar="NAME=N",
        action="append",
        type=limit,
        default=[],
        help="another limit for what a model may contain and ask for, such as layers=2000000 or "
        "xml_bytes=4G; doctor --limits lists them, IRDECONV_LIMITS sets them for every command",
    )


def add_model(parser: OptionParser, *, structure: bool = False, optional: bool = False) -> None:
    """Add FILE (that may be `optional`), --weights, --semantics; `structure` adds --no-weights."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?" if optional else None,
        help="the model: .xml, .onnx, .json (a dump of oneDNN Graph) or .ird (the text form); - "
        "reads stdin",
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="the .bin file (default: the one beside the .xml); for a dump, an .npz by tensor id "
        "or name, or the word random",
    )
    if structure:
        add_no_weights(parser)
    add_semantics(parser)


def add_no_weights(parser: OptionParser) -> None:
    """Add --no-weights, for verbs that look at the structure of a model."""
    parser.add_argument(
        "--no-weights",
        action="store_true",
        help="do not read the .bin; what depends on values of constants stays unknown",
    )


def add_semantics(parser: OptionParser) -> None:
    """Add --semantics."""
    parser.add_argument(
        "--semantics",
        choices=("runtime", "document"),
        default="runtime",
        help="what to follow where OpenVINO's runtime and document differ (default: %(default)s)",
    )


def add_format(parser: OptionParser, *more: str) -> None:
    """Add --format with text, json and more choices."""
    parser.add_argument(
        "--format",
        choices=("text", "json", *more),
        default="text",
        help="how the result is written (default: %(default)s)",
    )


def add_shapes(parser: OptionParser) -> None:
    """Add --shape."""
    parser.add_argument(
        "--shape",
        metavar="NAME[DIMS]",
        action="append",
        default=[],
        help="shape of an input, such as 'x[1,3,224,224]' or 'x:[1,3,224,224]'; ?, -1 and 3..9 "
        "leave a dimension open; several shapes are separated by commas; a single input needs "
        "no name",
    )


def add_running(parser: OptionParser, *, threads: int | None = None) -> None:
    """Add what verbs share that run a model: inputs, --shape, --form and how it is executed.

    `threads` is the default of --threads, None the number of processors.
    """
    parser.add_argument("values", metavar="NAME=VALUE", nargs="*", help="the same as --input")
    add_inputs(parser)
    add_shapes(parser)
    add_form(parser, none=True)
    usual = "the number of processors" if threads is None else str(threads)
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        default=threads,
        help=f"threads that share the work (default: {usual}); results do not depend on it",
    )
    parser.add_argument(
        "--no-fuse", action="store_true", help="run each node by itself, as the graph is written"
    )
    parser.add_argument(
        "--tune",
        nargs="?",
        type=measurements,
        metavar="FILE.json",
        const=True,
        default=False,
        help="measure which kernel is fastest, instead of estimating it; FILE keeps the "
        "measurements for later runs, without it each run measures anew",
    )
    parser.add_argument(
        "--max-memory",
        type=size,
        metavar="SIZE",
        help="refuse (exit code 5) a model that needs more memory for tensors, constants and "
        "scratch: 4096, 512M, 2G",
    )


def add_inputs(parser: OptionParser) -> None:
    """Add the inputs and --seed."""
    parser.add_argument(
        "-i",
        "--input",
        dest="inputs",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an input: x=@file.npy, x=@image.png, x=rand, randn, ones, zeros, arange, or an .npz "
        "of all (by name or in order); an input that is not given is rand",
    )
    add_seed(parser, "rand and randn")


def add_seed(parser: OptionParser, what: str) -> None:
    """Add --seed; `what` says what is random."""
    help = f"seed of {what} (default: %(default)s)"
    parser.add_argument("--seed", type=whole(0), default=0, help=help)


def execution(args: argparse.Namespace) -> dict[str, Any]:
    """Return how `add_running` says to execute, as keyword arguments of `irdeconv.compile`."""
    return {
        "form": None if args.form == "none" else args.form or FALLBACK,
        "threads": args.threads,
        "fuse": not args.no_fuse,
        "tune": args.tune,
        "max_memory": args.max_memory,
    }


def add_rewriting(parser: OptionParser, adjective: str, layers: str, *, onnx: bool = False) -> None:
    """Add what verbs share that rewrite a model: --shape, -o, --certify, --format and such.

    `adjective` names the new IR, `layers` says which ones are proved. With `onnx` an ONNX model may
    be written as well.
    """
    add_shapes(parser)
    more = ", or the ONNX model (.onnx)" if onnx else ""
    suffixes = (".xml", ".onnx") if onnx else (".xml",)
    add_output(parser, f"write the {adjective} IR here (.xml, .bin beside it){more}", *suffixes)
    parser.add_argument(
        "--certify",
        nargs="?",
        const="-",
        metavar="FILE",
        help=f"prove every {layers} layer and show the certificates, or write them to FILE",
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="with --certify: also evaluate both models on random data, modulo primes",
    )
    add_format(parser, "ir")


def add_report(parser: OptionParser, what: str, *, force: bool = False) -> None:
    """Add --report; `what` says what the page shows. `force` adds --force, which no -o does."""
    help = f"write a page for a browser here that draws {what}"
    parser.add_argument("--report", metavar="FILE.html", help=help)
    if force:
        help = "let --report overwrite an input file"
        parser.add_argument("--force", action="store_true", help=help)


def add_output(parser: OptionParser, help: str, *suffixes: str, required: bool = False) -> None:
    """Add -o and --force; `check_options` refuses other `suffixes`, if any are given."""
    parser.set_defaults(output_suffixes=suffixes)
    parser.add_argument("-o", "--output", metavar="FILE", required=required, help=help)
    parser.add_argument("--force", action="store_true", help="let -o overwrite an input file")


def add_form(parser: OptionParser, *, none: bool) -> None:
    """Add --form; `check_options` refuses a name that no form has."""
    parser.set_defaults(form_none=none)
    notes = {**CONDITIONS, FALLBACK: "default"}
    names = ", ".join(f"{name} ({note})" if note else name for name, note in notes.items())
    parser.add_argument(
        "--form",
        help=f"how deconvolutions are lowered: {names}, or {AUTO} (default with --target): each in "
        f"the cheapest form. A layer for which a form is impossible gets {FALLBACK}"
        f"{'. none: not at all' if none else ''}",
    )


def add_lowering_options(parser: OptionParser) -> None:
    """Add --only, --convolutions and --best-effort; `lowering_options` returns them."""
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        help="lower only deconvolutions whose names match, such as 'decoder/*'",
    )
    parser.add_argument(
        "--convolutions",
        action="store_true",
        help="also rewrite ordinary convolutions that the target cannot run as they are",
    )
    parser.add_argument(
        "--best-effort",
        action="store_true",
        help="write the model even if layers violate conditions of the target, with warnings",
    )


def lowering_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `irdeconv.lower` beside form and target."""
    names = ("explain_costs", "only", "convolutions", "best_effort")
    return {name: getattr(args, name) for name in names}


def add_target_check(parser: OptionParser, what: str) -> None:
    """Add --target of verbs that check a model for a target."""
    help = f"{what}: a packaged target (irdeconv lower --list-targets), or a file of your own"
    parser.add_argument("--target", metavar="NAME|FILE.toml", help=help)


def add_target(parser: OptionParser, *, costs: bool = True) -> None:
    """Add --target and, unless costs are not shown, --explain-costs."""
    parser.add_argument(
        "--target",
        metavar="NAME|FILE.toml",
        help="what the target can do: a packaged target (irdeconv lower --list-targets; generic is "
        "the default), or a file of your own. Every new layer meets its conditions, or nothing is "
        "written. docs/targets.md has the format",
    )
    if costs:
        parser.add_argument(
            "--explain-costs",
            action="store_true",
            help="show what each form costs for each deconvolution, and why a form is refused",
        )
