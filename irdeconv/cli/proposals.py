"""Command lines that a message proposes: made of the user's, and accepted by the verb's parser."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from irdeconv.base.errors import FileAccessError, IrdeconvError, UsageError, misused, nearest
from irdeconv.base.opening import first_bytes, is_file

MODELS = (".xml", ".onnx", ".ird")
_MODEL_BYTES = 1 << 24  # bytes of a model in which a name is searched
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\uff0d"
_DASH_NAMES = {"\u2013": "an en dash", "\u2014": "an em dash", "\u2212": "a minus sign"}
_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a"
# The value of --format, by the suffix of a file for the answer.
FORMATS = {
    **{f".{format}": format for format in ("json", "sarif", "html", "dot", "svg")},
    ".xml": "junit",
    ".htm": "html",
    ".gv": "dot",
    ".ird": "ir",
    ".txt": "text",
}
_NAMING = ("--outputs", "--only", "--dump")  # options whose values are names of layers


class Unparsed(Exception):
    """argparse's message about a command line."""


class TryingParser(ArgumentParser):
    """A parser of a verb's arguments that can try command lines.

    `check` refuses parsed arguments with which the verb cannot run, `options` returns the records.
    """

    check: Callable[[Namespace], None]
    options: Callable[[], Sequence[Any]]
    args: Sequence[str] = ()  # of the user
    given: dict[str, list[str]]  # values by option, of the command line that is parsed

    def parsed(self, args: Sequence[str]) -> Namespace:
        """Parse values before or after the options; Unparsed if argparse cannot."""
        self.given = {}
        return self.parse_intermixed_args(args)

    def accepts(self, args: Sequence[str]) -> bool:
        """Whether the verb can run with some arguments; files that the user named may be absent."""
        found = self.refusal(args)
        return found is None or (isinstance(found, FileAccessError) and found.filename in self.args)

    def refusal(self, args: Sequence[str]) -> IrdeconvError | None:
        """Return the reason if the verb cannot run with some arguments; --help is one, too."""
        try:
            self.check(self.parsed(args))
        except IrdeconvError as e:
            return e
        except (Unparsed, SystemExit) as e:
            return misused(str(e))
        return None

    def option(self, name: str) -> Any:
        """Return the `VerbOption` of a name, or None."""
        return next((o for o in self.options() if name in o.names), None)

    @property
    def writes_model(self) -> bool:
        """Whether the verb may write a model."""
        return any(o.writes.startswith("model") for o in self.options())


def command(parser: TryingParser, args: Sequence[str]) -> str:
    """Return a command line as a shell reads it."""
    return f"{parser.prog} {shlex.join(args)}".strip()


def accepted(parser: TryingParser, *proposals: Sequence[str]) -> str | None:
    """Return the first command line that the verb accepts."""
    fitting = (args for args in proposals if _names_inputs(args) and parser.accepts(args))
    return next((command(parser, args) for args in fitting), None)


def placed(parser: TryingParser, args: Sequence[str], *groups: Sequence[str]) -> str | None:
    """Return the first command line accepted in which words of a group are values of options."""
    return accepted(parser, *(line for words in groups for line in placements(parser, args, words)))


def _names_inputs(args: Sequence[str]) -> bool:
    """Whether --shape and --input name inputs of the model, and shapes have their ranks."""
    inputs = inputs_of(model_in(args))
    for option, value in pairwise(args):
        name, sign, rest = re.match(r"([^=\[]*)([=\[]?)(.*)", value, re.DOTALL).groups()  # type: ignore[union-attr]
        if not inputs or option not in ("--shape", "--input"):
            continue
        if sign and name and name not in inputs:
            return False
        dims = (rest if sign else value).rstrip("]").split(",")
        known = inputs.get(name if sign else "") or next(iter(inputs.values()))
        if option == "--shape" and known and len(dims) != len(known):
            return False
    return True


def loose_words(parser: TryingParser, args: Sequence[str]) -> list[int]:
    """Return the places of the words that are neither options nor values of options."""
    out, of_option = [], False
    for at, word in enumerate(args):
        if not of_option and (word == "-" or not word.startswith("-")):
            out.append(at)
        of_option = bool((found := parser.option(word)) and found.value)
    return out


def has_name(file: str, name: str, key: bytes = b"names?") -> bool:
    """Whether a model has something of this name; its bytes are searched, without a reader."""
    if not name or not is_file(file):
        return False
    data, text = first_bytes(file, _MODEL_BYTES), name.encode(errors="surrogateescape")
    if file.endswith(".onnx"):  # a text follows its length
        return len(text) < 128 and bytes([len(text)]) + text in data
    form = b'"%s"' if file.endswith(".ird") else rb'\b%s="(?:[^"]*,)?%%s(?:,[^"]*)?"' % key
    return re.search(form % re.escape(text), data) is not None


def inputs_of(file: str) -> dict[str, list[str]]:
    """Return the names and declared dimensions of the inputs of an .xml, without a reader."""
    if not is_file(file) or not file.endswith(".xml"):
        return {}
    text = first_bytes(file, _MODEL_BYTES).decode("utf-8", "replace")
    found = re.findall(
        r'<layer [^>]*\bname="([^"]*)"[^>]*\btype="Parameter"[^>]*>\s*<data ([^>]*)', text
    )
    shapes = ((name, re.search(r'\bshape="([^"]*)"', data)) for name, data in found)
    return {name: re.findall(r"[^\s,]+", shape[1]) if shape else [] for name, shape in shapes}


def model_in(args: Iterable[str]) -> str:
    """Return the first model of a command line, or an empty text."""
    return next((a for a in args if a.endswith(MODELS) and is_file(a)), "")


def require_typed(parser: TryingParser, args: Sequence[str]) -> None:
    """Refuse dashes and quotes of a word processor, which no shell and no parser understands."""
    file = model_in(args)
    wrong = [a for a in args if _typed(parser, a) != a and not is_file(a) and not has_name(file, a)]
    if not wrong:
        return
    first = next(c for c in wrong[0] if c in _DASHES + _QUOTES)
    kind = _DASH_NAMES.get(first, "a dash" if first in _DASHES else "a curly quote")
    plain = [_typed(parser, a) if a in wrong else a for a in args]
    meant = "a plain -" if first in _DASHES else "a straight quote, which the shell removes"
    message = f'"{wrong[0]}" has {kind} for {meant}'
    raise misused(message, accepted(parser, plain) or f"write {_typed(parser, wrong[0])}")


def _typed(parser: TryingParser, word: str) -> str:
    """Return a word with the characters of a keyboard; negative numbers in it as well."""
    word = re.sub(rf"[{_DASHES}](?=\d)", "-", word) if re.search(r"\[|=|^.\d", word) else word
    begin = re.match(rf"-?[{_DASHES}]+-*(?=[A-Za-z])", word)
    if begin:
        rest = word[begin.end() :]
        long = len(rest.partition("=")[0]) > 1
        word = f"{'--' if long else '-'}{rest}"
    return re.sub(rf"(?:^|(?<==))[{_QUOTES}](.*)[{_QUOTES}]$", r"\1", word)


def placements(
    parser: TryingParser, args: Sequence[str], words: Sequence[str]
) -> Iterator[list[str]]:
    """Yield command lines in which surplus words are values of options, likely ones first."""
    rest = [at for at in loose_words(parser, args) if args[at] in words]
    at = rest[0] if rest else len(args)
    kept, file = [a for i, a in enumerate(args) if i not in rest], model_in(args)

    def placed(*new: str) -> list[str]:
        return [*kept[:at], *new, *kept[at:]]

    yield from _more_values(parser, args, rest)
    named = all(has_name(file, word) for word in words)
    if named and len(words) < 3:
        yield placed(*(text for pair in zip(("--from", "--to"), words) for text in pair))  # noqa: B905
    options = list(_options_for(parser, words[0], file))
    for option in options:
        yield placed(*(text for word in words for text in (option, word)))
    if pattern := common_pattern(words) if len(words) > 1 and named else None:
        yield placed("--only", pattern)
    if parser.option(f"--{words[0]}"):  # an option without its dashes
        yield placed(f"--{words[0]}", *words[1:])


def as_option(parser: TryingParser, word: str, args: Sequence[str]) -> str | None:
    """Return the command in which a name of the model behind dashes is the value of an option."""
    name = word.lstrip("-")
    if not has_name(model_in(args), name):
        return None
    return placed(parser, [name if a == word else a for a in args], [name])


def common_pattern(words: Sequence[str]) -> str | None:
    """Return a pattern that fits all words."""
    alike = takewhile(lambda letters: len({*letters}) == 1, zip(*words, strict=False))
    start = "".join(letters[0] for letters in alike)
    return f"{start}*" if start else None


def _more_values(
    parser: TryingParser, args: Sequence[str], places: list[int]
) -> Iterator[list[str]]:
    """Yield command lines in which words behind a value are further values of the same option."""
    first = next((at for at in places if at > 1 and parser.option(args[at - 2])), None)
    if first is None:
        return
    option, value = args[first - 2], args[first - 1]
    run = list(takewhile(places.__contains__, _behind(parser, args, first)))
    values = [value, *(args[at] for at in run)]
    before, after = [*args[: first - 2]], [*args[run[-1] + 1 :]]
    if option == "--from" and len(values) == 2:
        yield [*before, "--from", value, "--to", values[1], *after]
    record = parser.option(option)
    if record.repeated:
        yield before + [text for v in values for text in (option, v)] + after
    if option in _LISTS:
        yield [*before, option, ",".join(values), *after]
    pattern = common_pattern(values)
    if pattern and record.placeholder == "PATTERN":
        yield [*before, option, pattern, *after]


_LISTS = ("--against", "--dialect", "--set", "--solve")


def _options_for(parser: TryingParser, word: str, file: str) -> Iterator[str]:
    """Yield options that may have a word as value."""
    for record in parser.options():
        if record.names and word in (*record.values, *record.words.split()):
            yield record.names[-1]
    profiles = Path(__file__).parents[1] / "rewrite" / "profiles"
    known = [p.stem for p in profiles.glob("*.toml")]
    if word in known:
        yield "--target"
    if word in _RUNTIMES:
        yield from ("--against", "--with", "--compare")
    if word != file:
        yield from _for_file(parser, word)
    if re.fullmatch(r"s(\W).*\1.*\1g?", word):
        yield "--pattern"
    if "=" in word:
        yield from ("--input", "--tolerance", "--sizes", "--limit")
    if word.endswith("]"):
        yield "--shape"
    if re.fullmatch(r"\d+(,\d+)+", word):
        yield from ("--solve", "--shape")
    if has_name(file, word) or re.search(r"[*?]", word):
        yield from _NAMING
    only = parser.option("--only")
    if only is not None and only.placeholder.startswith("TYPE") and has_name(file, word, b"type"):
        yield "--only"


def _for_file(parser: TryingParser, word: str) -> Iterator[str]:
    """Yield options that read a file, if it is there, or else write one."""
    there, suffix = Path(word).exists(), Path(word).suffix
    able = [o for o in parser.options() if o.names and (there or o.writes)]
    yield from (o.name for o in able if suffix in o.usual.split())
    yield from (o.name for o in able if suffix and o.name == "-o")


def require_no_strays(parser: TryingParser, args: Sequence[str], options: Namespace) -> None:
    """Refuse words that are values of an option, and are read as an argument without a name."""
    file = model_in(args)
    for option, word in pairwise(args):
        record = parser.option(option)
        optional = record and record.value.startswith("[") and not record.repeated
        if optional and "." not in word and has_name(file, word):
            rest = [a for a in args if a != option]
            hint = accepted(parser, *([*p, option] for p in placements(parser, rest, [word])))
            message = f'{option} is followed by a file, and "{word}" is a layer of the model'
            raise misused(message, f"write {option} last" if hint is None else hint)
    for word in _strays(parser, options):
        at = next((at for at in loose_words(parser, args) if args[at] == word), None)
        if at is None or Path(word).exists() or word.endswith(MODELS):
            continue
        if word == getattr(options, "layer", "") and (not file or has_name(file, word)):
            continue
        before = args[at - 2] if at > 1 and parser.option(args[at - 2]) else ""
        if before in ("", "-i", "--input") and word in inputs_of(file):
            continue  # without its value
        words = [args[i] for i in _behind(parser, args, at) if not is_file(args[i])]
        hint = placed(parser, args, words, [word])
        record = parser.option(before)
        if not hint and record and word in record.words.split():
            raise misused(f'{before} takes one value: "{word}" is a second one', "leave one out")
        if hint:
            message = f'"{word}" stands alone, without its option'
            if before and f"{before} {args[at - 1]} {before} {word}" in hint:
                message = f'{before} takes one value at a time: "{word}" is a second one'
            raise misused(message, hint)


def _strays(parser: TryingParser, options: Namespace) -> Iterator[str]:
    """Yield words of arguments without a name that are none of their usual values."""
    for record in (o for o in parser.options() if o.usual and not o.names):
        value = getattr(options, record.key, None)
        if record.key == "dir" and getattr(options, "action", "") != "list":
            continue  # a new folder may have any name
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str) and word and not re.fullmatch(record.usual, word):
                yield word


_RUNTIMES = ("openvino", "onnxruntime")


def _behind(parser: TryingParser, args: Sequence[str], at: int) -> list[int]:
    """Return the places of a word and of those that follow it without an option."""
    loose = loose_words(parser, args)
    return [i for i in loose if i >= at and all(j in loose for j in range(at, i))]


def into_file(parser: TryingParser, args: Sequence[str], file: str) -> str | None:
    """Return the command that prints the answer into a file, in the format of its suffix."""
    at = next((i for i, a in enumerate(args) if a == file and i), None)
    if at is None or not file:
        return None
    rest = [*args[: at - 1], *args[at + 1 :]]
    format = FORMATS.get(Path(file).suffix.lower(), "text")
    asked = [] if format == "text" or "--format" in rest else ["--format", format]
    text = accepted(parser, [*rest, *asked])
    return text and f"{text} > {shlex.quote(file)}"


def respelled_choice(args: Sequence[str], option: str, wrong: str, choice: str) -> list[str]:
    """Return a command line with another value; that of --format also changes the suffix of -o."""
    out = []
    for before, word in zip(["", *args], args, strict=False):
        path = Path(word)
        if (before == option and word == wrong) or word == f"{option}={wrong}":
            word = word.removesuffix(wrong) + choice
        elif path.suffix.lower() == f".{wrong}".lower() and before in ("-o", "--output"):
            suffix = next((s for s, f in FORMATS.items() if f == choice), path.suffix)
            word = str(path.with_suffix(suffix))
        out.append(word)
    return out


def respelled_shape(text: str) -> str | None:
    """Return a shape such as x=1,3 or x(1x3) as x[1,3]; None if its dimensions are unclear."""
    name, dim = r"(?:([^=:(\[{ ]+)[=:(\[{ ]+|[(\[{]*)", r"(?:-1|\?|\d{1,18}(?:\.\.\d{0,18})?)"
    found = re.fullmatch(rf"{name}({dim}(?:[x*, ]+{dim})*)[)\]}}]*", text)
    shape = found and f"{(found[1] or '').strip()}[{','.join(re.findall(dim, found[2]))}]"
    return None if shape == text or re.fullmatch(r"[^\[(]+=\d+", text) else shape


def shape_for(word: str, value: str, file: str) -> str:
    """Return a value of --shape of a model for a size or a batch of another tool."""
    numbers = re.findall(r"-?\d+|\?", value)
    for name, dims in inputs_of(file).items():
        if "batch" in word or word in ("-b", "--b"):
            return f"{name}[{','.join([*numbers[:1], *dims[1:]])}]" if numbers else ""
        if len(numbers) in (1, 2) and len(dims) == 4:
            return f"{name}[{','.join([*dims[:2], *(numbers * 2)[:2]])}]"
    return ""


def before_the_verb(word: str, verb: str, parser: TryingParser, rest: Sequence[str]) -> UsageError:
    """Return the error of a command line that has something before its verb."""
    message = f'the verb comes first, before "{word}"'
    at = rest.index(word)
    without = [[*rest[:at], *rest[at + n :]] for n in (1, 2)]
    if found := accepted(parser, rest):
        return misused(message, found)
    name = word.partition("=")[0]
    names = [o for a in parser._actions for o in a.option_strings]
    if word.startswith("-") and name not in names:
        near = nearest(name, names)
        swapped = [[*rest[:at], o, *rest[at + 1 :]] for o in near]
        message = f'{verb} has no option "{name}"; the verb comes first'
        return misused(message, accepted(parser, *swapped, *without))
    return misused(message, f"irdeconv {verb} {' '.join(without[0])} {word}")
