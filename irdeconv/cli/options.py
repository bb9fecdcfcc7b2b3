"""Verbs and their options as data, options that verbs share, a parser with did-you-mean."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from irdeconv.base.errors import misused
from irdeconv.base.form_names import AUTO, CONDITIONS, FALLBACK
from irdeconv.base.limits import of_environment, setting
from irdeconv.base.tables import wrap
from irdeconv.cli.proposals import TryingParser, Unparsed, require_no_strays, require_typed
from irdeconv.cli.usage import misparsed


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


def tolerance(text: str) -> tuple[str, float]:
    """Parse 1e-3, or NAME=1e-3; the first one has an empty name."""
    name, _, number = text.rpartition("=")
    output, colon, value = number.rpartition(":")
    if colon:
        raise argparse.ArgumentTypeError(f'"{text}": for one output it is {output}={value}')
    return name, real(0)(number)


def size(text: str) -> int:
    """Parse a number of bytes: 4096, 512M, 2G, 1.5GiB; the letters stand for powers of 1024."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)(?:i?B)?", text.strip(), re.I | re.A)
    if match is None:
        raise argparse.ArgumentTypeError(f'"{text}" is not a size such as 512M, 2G or 4096')
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def measurements(text: str) -> str:
    """Parse the value of --tune: a .json file, so that a model is not mistaken, or "-" for none."""
    if text != "-" and not text.endswith(".json"):
        message = f'"{text}" is not a .json file; write --tune behind it, or --tune=FILE.json'
        raise argparse.ArgumentTypeError(message)
    return text


def shard(text: str) -> tuple[int, int]:
    """Parse the value of --shard, such as 2/4."""
    found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        message = f'"{text}" is no shard; those of two are 1/2 and 2/2'
        raise argparse.ArgumentTypeError(message)
    return int(found[1]), int(found[2])


def substitution(text: str) -> Any:
    """Parse s/RE/NEW/ or s/RE/NEW/g."""
    from irdeconv.runtime.editing import Substitution

    parts = re.split(rf"(?<!\\){re.escape(text[1])}", text) if len(text) > 1 else []
    if len(parts) != 4 or parts[0] != "s" or parts[3] not in ("", "g"):
        raise argparse.ArgumentTypeError(f'"{text}" is not of the form s/RE/NEW/ or s/RE/NEW/g')
    wanted, new = (part.replace(f"\\{text[1]}", text[1]) for part in parts[1:3])
    try:
        made = Substitution(re.compile(wanted), new, parts[3] == "g")
        re.compile(f"{wanted}|").sub(new, "")  # so that a wrong group is an error now
    except (re.error, IndexError) as e:
        raise argparse.ArgumentTypeError(f'"{text}" is no regular expression: {e}') from None
    return made


def limit(text: str) -> tuple[str, int]:
    """Parse a value of --limit."""
    try:
        return setting(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def limits_around() -> list[tuple[str, int]]:
    """Return the limits that the environment sets; UsageError if it sets an unknown one."""
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


class OptionParser(TryingParser):
    """An ArgumentParser without abbreviations; arguments it cannot parse are a UsageError.

    `others` returns the verbs that have an option that this one has not.
    """

    def __init__(
        self,
        prog: str,
        description: str | None,
        others: Callable[[str], list[str]] = lambda option: [],
        check: Callable[[argparse.Namespace], None] = lambda options: None,
        options: Callable[[], Sequence[VerbOption]] = tuple,
    ) -> None:
        super().__init__(
            prog=prog, description=description, allow_abbrev=False, formatter_class=HelpText
        )
        self._others, self.check, self.options = others, check, options

    def parse(self, args: Sequence[str]) -> argparse.Namespace:
        """Parse a verb's arguments; UsageError for mistakes."""
        self.args = args
        require_typed(self, args)
        try:
            options = self.parsed(args)
        except Unparsed as e:  # here argparse is done, and can try proposals
            raise misparsed(self, str(e), args, self._others) from None
        require_no_strays(self, args, options)
        return options

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Refuse a second value of an option that has one, which argparse would take silently."""
        if action.option_strings and isinstance(action, argparse._StoreAction):
            first, self.given[action.dest] = self.given.get(action.dest), arg_strings
            if first:  # a bare --certify is no value
                name, values = action.option_strings[-1], " and ".join([*first, *arg_strings])
                raise misused(f"{name} is given twice: {values}", "leave one out")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        """Leave argparse; `parse` raises the UsageError."""
        raise Unparsed(message)


class VerbOption(NamedTuple):
    """An argument of a verb: its spelling, its meaning, the others that it goes with.

    `usage` is `FILE`, `[FILE]`, `FILE ...` or `[FILE ...]` for an argument without a name. `--all`
    takes no value, `--top N` one, `--tune [FILE]` one or none; `--only NAME ...` may be repeated;
    `--sort macs|bytes` takes one of these values. `-o --output FILE` has two names.

    `needs` names arguments one of which must be there, too, and `excludes` those that must not be;
    `--format=dot|svg` is `--format` with one of these values, `why` the reason. `of` are the
    actions of the verb that have the argument, `words` values that a shell may complete.

    The file that it writes may be an ONNX model of any operations, unless an argument of
    `any_onnx_without` is there.

    A model is of one of `formats`, or an old IR; without them of any that irdeconv reads.

    `reads` is model, weights, arrays or file, `writes` model, arrays, text, page, folder or file.
    The words after it are the suffixes of that file: "file .npz".

    `example` is shown in messages. `usual` are the suffixes of files that the option is meant for;
    of an argument without a name a pattern of right words, and of those with another mistake.
    """

    usage: str
    help: str
    parse: Callable[[str], Any] | None = None
    default: Any = None
    dest: str = ""
    const: Any = None
    choices: str = ""
    required: bool = False
    needs: str = ""
    excludes: str = ""
    why: str = ""
    words: str = ""
    of: str = ""
    group: str = ""
    reads: str = ""
    formats: str = ""
    writes: str = ""
    any_onnx_without: str | None = None
    example: str = ""
    usual: str = ""

    @property
    def names(self) -> list[str]:
        """The names of an option."""
        return [word for word in self.usage.split() if word.startswith("-")]

    @property
    def value(self) -> str:
        """How the usage calls the value, with brackets and dots."""
        return " ".join(self.usage.split()[len(self.names) :])

    @property
    def values(self) -> list[str]:
        """All values that it may have, if they are listed."""
        return self.choices.split() or (self.value.split("|") if self.value.islower() else [])

    @property
    def repeated(self) -> bool:
        """Whether there may be several values."""
        return self.value.endswith(("...", "...]"))

    @property
    def placeholder(self) -> str:
        """How the usage calls the value."""
        text = self.value[1:-1] if self.value.startswith("[") else self.value
        return text.removesuffix(" ...")

    @property
    def name(self) -> str:
        """The argument's name in messages."""
        if not self.names:
            return self.placeholder
        return "-o" if "-o" in self.names else self.names[-1]

    @property
    def key(self) -> str:
        """The attribute of the parsed arguments."""
        if self.names:
            return self.dest or self.names[-1].lstrip("-").replace("-", "_")
        return self.dest or self.placeholder.lower() + "s" * self.repeated

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of the file that it names."""
        return (self.reads or self.writes).split()[1:]

    def is_in(self, args: argparse.Namespace, values: str = "") -> bool:
        """Whether it is given, or has one of these `values`."""
        found = getattr(args, self.key, None)
        if values:
            return str(found) in values.split("|")
        return not (found is None or found is False or found in ([], self.default))

    def add_to(self, parser: Any) -> None:
        """Add it to a parser, or to a group of one."""
        parser.add_argument(*(self.names or [self.key]), help=self.help, **dict(self._keywords()))

    def _keywords(self) -> Iterator[tuple[str, Any]]:
        optional = self.value.startswith("[")
        if not self.value:
            yield "action", "store_true"
        elif not self.value.islower():
            yield "metavar", self.placeholder
        if self.names and self.repeated and not optional:
            yield from (("action", "append"), ("default", []))
        elif optional or self.repeated:
            yield "nargs", "?" if not self.repeated else "*" if optional else "+"
        if self.names:
            yield "dest", self.key
        for key, value in (("default", self.default), ("const", self.const), ("type", self.parse)):
            if value is not None:
                yield key, value
        if self.values:
            yield "choices", self.values
        if self.required:
            yield "required", True


PARSERS: dict[str, Callable[..., Callable[[str], Any]]] = {
    "whole": lambda *ends: whole(*map(int, ends)),
    "real": lambda *ends: real(*map(float, ends)),
    "size": lambda: size,
    "tolerance": lambda: tolerance,
    "list": lambda: listed,
    "limit": lambda: limit,
    "measurements": lambda: measurements,
    "substitution": lambda: substitution,
    "shard": lambda: shard,
    "sizes": lambda: lambda text: [whole(1)(size) for size in text.split(",")],
}
_TAG = re.compile(r" @(\w+)")


def rows(text: str) -> Iterator[VerbOption]:
    """Yield the options of a text.

    A row is the usage of an option, two spaces, and its help; lines that are indented more continue
    it. Fields of `Option` and parsers follow as `@name value`. `+ NAME ...` is for rows of SHARED.
    After `= @name value` all rows have these fields, until the next `=`.
    """
    common: dict[str, Any] = {}
    for line in re.sub(r"\n {4,}", " ", re.sub(r"(?m)^    ", "", text)).strip("\n ").split("\n"):
        if line.startswith("+ "):
            shared = (option for name in line[2:].split() for option in rows(SHARED[name]))
            yield from (option._replace(**common) for option in shared)
            continue
        plain, *tags = _TAG.split(line)
        fields: dict[str, Any] = dict(zip(tags[::2], map(str.strip, tags[1::2]), strict=True))
        if plain == "=":
            common = fields
            continue
        usage, _, help = plain.partition("  ")
        fields = {**common, **fields}
        for name in PARSERS.keys() & fields.keys():
            fields["parse"] = PARSERS[name](*fields.pop(name).split())
        if "parse" in fields and "default" in fields:
            fields["default"] = fields["parse"](fields["default"])
        if "required" in fields:
            fields["required"] = True
        yield VerbOption(usage, help)._replace(**fields)


@dataclass(eq=False, repr=False)  # generated methods slow down each start
class Verb:
    """The arguments of a verb, and the facts of its page.

    `table` has its options (see `rows`), `about` is the text of its `--help`, `purpose` its line of
    `irdeconv --help`, `module` that of its function (such as `run_lower`). `no` is the meaning of
    exit code 1; with `partly` there is exit code 7, too. The commands of `example` are run for the
    page, unless their output `differs` by machine. Options of `one_of` exclude each other. `models`
    is False if the verb reads no model of the user's. A batch `passes` options on to other verbs.
    """

    table: str
    about: str = ""
    group: str = ""
    module: str = ""
    purpose: str = ""
    no: str = ""
    example: str = ""
    guide: str = ""
    partly: bool = False
    differs: bool = False
    models: bool = True
    one_of: str = ""
    one_required: bool = False
    passes: bool = False

    @cached_property
    def options(self) -> tuple[VerbOption, ...]:
        """The arguments."""
        return tuple(rows(self.table))

    def named(self, name: str) -> VerbOption:
        """Return an argument by a name of it."""
        return next(o for o in self.options if name in (o.names or [o.placeholder]))

    def has(self, text: str, args: argparse.Namespace) -> bool:
        """Whether an argument is there: `--fuse`; `--format=dot|svg` is one of these values."""
        name, _, values = text.partition("=")
        return self.named(name).is_in(args, values)

    def keeps_onnx(self, args: argparse.Namespace) -> bool:
        """Whether -o NAME.onnx would change an ONNX model regardless of its operations."""
        output = next((o for o in self.options if o.any_onnx_without is not None), None)
        if output is None or str(getattr(args, output.key)).endswith(".onnx"):
            return False
        return not any(self.has(text, args) for text in (output.any_onnx_without or "").split())


def listed(text: str) -> tuple[str, ...]:
    """Parse a list that is separated by commas."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


ALL = "--weights --semantics --shape --extension --limit"
EXECUTED = f"{ALL} --fill --input --seed --form --threads --no-fuse --max-memory"
# Options for many models at once; the others belong to a single model, or to the batch.
PASSED = {
    "validate": f"{ALL} --strict --no-weights",
    "infer": f"{ALL} --fill --no-weights",
    "lower": f"{ALL} --form --target --explain-costs --certify",
    "run": f"{EXECUTED} --exact --outputs --dump",
    "compare": f"{ALL} --fill --input --seed --form --target --tolerance --peer-precision",
    "check-certificate": f"{ALL} --certificate --probe --seed --sizes --second",
    "convert": f"{ALL} --seed",
    "simplify": f"{ALL} --max-growth --decompress --fuse --check --fill --input --seed",
    "inspect": f"{ALL} --fill --no-weights --lower --form --target --only --sort",
    "explain": f"{ALL} --fill --no-weights --solve",
    "bench": f"{EXECUTED} --time --iterations --rounds --warm-up --requests",
}
MADE = {  # the file that a verb writes into -o
    "infer": "inferred.xml",
    "lower": "lowered{suffix}",
    "run": "outputs.npz",
    "convert": "converted.xml",
    "simplify": "simplified{suffix}",
}
JOIN = "join"
TASKS = (*PASSED, JOIN)


FORM_NAMES = ", ".join(f"{form} ({on})" if on else form for form, on in CONDITIONS.items())
FORM_WORDS = f"{' '.join(CONDITIONS)} {AUTO}"
_WORDS = {  # that stand in braces in verbs.txt
    "AUTO": AUTO,
    "FALLBACK": FALLBACK,
    "FORM_NAMES": FORM_NAMES,
    "FORM_WORDS": FORM_WORDS,
    "HEAD": "ir_samples/openvino/segmentation_head.xml",  # the model of most examples
    "JOIN": JOIN,
    "PASSED": " ".join(PASSED),
    "SUMS": "ir_samples/openvino/same_upper_output_shape.xml",
    "TASKS": " ".join(TASKS),
    "TASK_LIST": ", ".join(TASKS),
}


def _verb(head: str, body: str) -> Verb:
    """Return the record of a verb's section."""
    heading, *lines = head.split("\n")
    fields: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        known = f"{fields[name]}\n" if name in fields else ""
        if not name.startswith("#"):
            fields[name] = {"yes": True, "no": False}.get(value, known + value)
    about, _, table = body.rstrip().partition("\n    ")
    group, module, purpose = re.split(", |: ", heading, maxsplit=2)
    return Verb(f"    {table}", about, group, module, purpose, **fields)


# `++ ROWS` begins rows that verbs share, `== VERB: GROUP, MODULE: PURPOSE` a verb. Below that are
# the fields of its record (lines of one name are joined), a blank line, and its text.
_SECTION = r"(?m)^{} ([\w-]+)(?:: )?(.*(?:\n(?!== |\+\+ ).*)*)"
_TEXT = (Path(__file__).parent / "verbs.txt").read_text("utf-8")
_FILLED = re.sub(r"\{([A-Z_]+)\}", lambda m: _WORDS[m[1]], _TEXT)
SHARED = dict(re.findall(_SECTION.format(r"\+\+"), _FILLED))
RECORDS = {
    verb: _verb(*text.split("\n\n", 1)) for verb, text in re.findall(_SECTION.format("=="), _FILLED)
}


def execution(args: argparse.Namespace) -> dict[str, Any]:
    """Return how the options of EXECUTION say to execute: arguments of `irdeconv.compile`."""
    return {
        "form": None if args.form == "none" else args.form or FALLBACK,
        "threads": args.threads,
        "fuse": not args.no_fuse,
        "tune": args.tune == "-" or args.tune or False,
        "max_memory": args.max_memory,
    }


def lowering_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `irdeconv.lower` beside form and target."""
    names = ("explain_costs", "only", "convolutions", "best_effort", "fuse")
    return {name: getattr(args, name) for name in names}
