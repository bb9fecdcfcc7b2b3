"""Messages for a wrong command line, with a remedy, instead of the whole usage."""

from __future__ import annotations

import os
import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from irdeconv.base import synonyms
from irdeconv.base.errors import (
    Diagnostic,
    InputError,
    IrdeconvError,
    UsageError,
    did_you_mean,
    misused,
    nearest,
    question,
)
from irdeconv.base.opening import is_file
from irdeconv.cli import proposals
from irdeconv.cli.proposals import TryingParser

_FOR_MODEL = ("--i", "--m", "--net", "--onnx", "--xml")  # how other tools name a model
_SURELY = 0.72  # of letters in common: --quantize is not --quiet


def option_names(parser: ArgumentParser) -> list[str]:
    """Return the names of all options."""
    return [name for action in parser._actions for name in action.option_strings]


def _positionals(parser: TryingParser) -> list[str]:
    """Return how the usage calls the arguments that are no options."""
    return [option.value for option in parser.options() if not option.names]


def _record(parser: TryingParser, name: str) -> Any:
    """Return the record of an argument that argparse calls by its names or its placeholder."""
    every = parser.options()
    return next((o for o in every if name in (*o.names, "/".join(o.names), o.name)), None)


def _example(parser: TryingParser, name: str) -> str:
    """Return a value of an argument, or how the usage calls it."""
    record = _record(parser, name)
    return next(filter(None, (record.example, *record.values, record.placeholder)), "VALUE")


def _choices(parser: TryingParser, name: str) -> list[str]:
    """Return the values of an argument, if they are listed."""
    return getattr(_record(parser, name), "values", [])


def wants_json(args: Sequence[str]) -> bool:
    """Whether --format asks for JSON, also in a command line that cannot be understood."""
    text = "\0".join(takewhile(lambda arg: arg != "--", args))
    found = re.findall(r"(?<![^\0])--format[=\0](?=([^\0]*))", text)
    return found[-1:] == ["json"]


def unknown_verb(
    args: Sequence[str], verbs: Iterable[str], parser_of: Callable[[str], TryingParser]
) -> UsageError:
    """Return the error of a command line whose first word is no verb."""
    word, known = args[0], list(verbs)
    if not word:
        return misused("the verb is empty", "irdeconv help lists the verbs")
    if word == "help":
        message = f'help takes one name: "{args[2]}" is one too many'
        return misused(message, f"irdeconv help {args[1]}")
    later = next((a for a in args[1:] if a in known), None)
    path = re.search(r"[./\\]", word)
    if word.split(" ")[0] in known:
        return misused(f'"{word}" is one word in quotes', f"without them: irdeconv {word}")
    if (word.startswith("-") or path) and later is not None:
        rest = [*args]
        rest.remove(later)
        return proposals.before_the_verb(word, later, parser_of(later), rest)
    options = ("--help", "--version") if word.startswith("-") else ()
    near = did_you_mean(word, (*options, *known))
    if word in synonyms.VERBS:
        near = f'did you mean "{synonyms.VERBS[word]}"?'
    elif re.fullmatch(r"[EWew]\d{3}", word):
        near = f"irdeconv codes {word.upper()} explains it"
    elif word.startswith("-"):
        first = "the verb comes first: irdeconv VERB FILE; irdeconv help VERB lists its options"
        return misused(f'there is no option "{word}" without a verb', near or first)
    elif path and not near:
        example = proposals.accepted(parser_of("inspect"), args)
        hint = f"for example: {example}" if example else "irdeconv help lists the verbs"
        return misused(f'"{word}" is no verb; the verb comes first', hint)
    return misused(f'there is no verb "{word}"', near or "irdeconv help lists the verbs")


def _needs_one_of(
    parser: TryingParser, verb: str, names: Sequence[str], args: Sequence[str]
) -> UsageError:
    loose = ([args[at]] for at in proposals.loose_words(parser, args))
    one = f"{', '.join(names[:-1])} or {names[-1]}"
    example = f"{names[0]} {_example(parser, names[0])}"
    line = f"{shlex.join(args)} {example}" if args else f"model.xml {example}"
    hint = proposals.placed(parser, args, *loose) or f"for example: irdeconv {verb} {line}"
    return misused(f"{verb} needs {one}", hint)


def misparsed(
    parser: TryingParser, message: str, args: Sequence[str], others: Callable[[str], list[str]]
) -> IrdeconvError:
    """Return the error that states argparse's message about a verb's arguments in our words.

    `others` returns the verbs that have an option.
    """
    verb = parser.prog.removeprefix("irdeconv ")
    start, _, rest = message.partition(": ")
    if start == "unrecognized arguments":
        left = [a for a in args if f" {a} " in f" {rest} "]
        options = [a for a in args if re.match(r"-[a-z]{2,}", a) and _long(parser, verb, a)]
        options += [a for a in left if a.startswith("-") and a != "-"]
        if options:
            return _unknown_option(parser, options[0], args, others)
        word = max(left, key=len, default=rest)
        return _one_too_many(parser, verb, _surplus(parser, word, left or [word], args), args)
    known, dashed = option_names(parser), (a for a in args if a.startswith("--"))
    unknown = [a for a in dashed if not any(o.startswith(a.partition("=")[0]) for o in known)]
    if unknown and start.startswith(("the following arguments are", "one of the arguments")):
        return _unknown_option(parser, unknown[0], args, others)
    if start == "the following arguments are required":
        return _lacking(parser, verb, rest.split(", "), args)
    one_of = re.match(r"one of the arguments (.*) is required", message)
    if one_of:
        return _needs_one_of(parser, verb, one_of[1].split(), args)
    name = start.removeprefix("argument ")
    option = name.split("/")[-1]
    if rest.startswith("expected "):
        return _without_value(parser, name, option, args)
    if rest.startswith("ignored explicit argument"):
        return misused(f"{option} takes no value", f"write {option} alone")
    chosen = re.match(r"invalid choice: '(.*)' \(choose from", rest, re.DOTALL)
    if chosen:
        return _no_choice(parser, name, option, chosen[1], args)
    if excluded := re.match(r"not allowed with argument (\S+)", rest):
        other = excluded[1].split("/")[-1]
        return misused(f"{option} and {other} exclude each other", "leave one out")
    return _wrong_value(parser, option, message, args)


def _wrong_value(
    parser: TryingParser, option: str, message: str, args: Sequence[str]
) -> UsageError:
    """Return the error of a value that the option's parser refuses."""
    rest = message.partition(": ")[2]
    for text in re.findall(r'"(.*)" is (?:not of the form s/RE|no regular expression)', rest):
        lines = ([a.replace(text, t) for a in args] for t in _substitutions(text))
        if found := proposals.accepted(parser, *lines):
            escaped = "a backslash makes a character literal: " * (" is no " in rest)
            return misused(f"{option}: {rest}", f"{escaped}{found}")
    least = "".join(re.findall(r"is not a number from (\d+)", rest))
    example = getattr(parser.option(option), "example", "") or least
    hint = f"for example: {option} {example}" if example else None
    return misused(f"{option}: {rest}" if rest else message, hint)


def _substitutions(text: str) -> list[str]:
    """Return what a wrong substitution may be: a literal text, s|a|b with its end, a/b with s."""
    wanted, *new = text[2:].split(text[1:2] or "/")
    literal = text[:2] + (text[1:2] or "/").join([re.escape(wanted), *new])
    return [literal, f"{text}{text[1:2]}", f"s/{text}/", f"s{text}", f"s{text}/"]


def _long(parser: TryingParser, verb: str, word: str) -> bool:
    """Whether a word with a single dash is the name of a long option, here or elsewhere."""
    known = option_names(parser)
    return f"-{word}" in known or _meant(parser, verb, f"-{word}", known) is not None


def _unknown_option(
    parser: TryingParser, word: str, args: Sequence[str], others: Callable[[str], list[str]]
) -> UsageError:
    verb = parser.prog.removeprefix("irdeconv ")
    value = word.partition("=")[2] or next((b for a, b in pairwise([*args, ""]) if a == word), "")
    written, word = word, word.partition("=")[0]
    known = [o for o in option_names(parser) if o.startswith("--") and o != "--debug"]
    plain = "--" + word.lstrip("-").replace("_", "-")
    begun, places = [o for o in known if o.startswith(plain)], _positionals(parser)
    if len(word) == 2 and value[:1].isalnum():
        begun = [o for o in begun if getattr(parser.option(o), "value", "")]
    hint: str | None = None
    if "--input" in known and value and plain[2:] in proposals.inputs_of(proposals.model_in(args)):
        hint = f"an input is written --input {plain[2:]}={value}"
    elif plain not in known and (meant := _meant(parser, verb, plain, known)):
        hint = _fitting(parser, meant, written, value, args)
    elif plain in known or 0 < len(begun) < 5:
        hint = question([plain] if plain in known else begun)
    elif {"--against": "OTHER"}.get(plain, plain[2:].upper()) in [p.strip("[].+ ") for p in places]:
        hint = f"write irdeconv {verb} {' '.join(places)}, without {word}"
    elif plain.startswith(_FOR_MODEL) and value.endswith((".xml", ".onnx")):
        hint = f"a model is written without an option: irdeconv {verb} {value}"
    elif near := nearest(plain[2:], _alike(plain[2:], known), _SURELY):
        hint = question(f"--{name}" for name in near)
    elif name := proposals.as_option(parser, written, args):
        hint = name
    elif elsewhere := [v for v in others(word) if v != "batch"]:
        hint = f"it is an option of {', '.join(elsewhere)}"
    elif re.fullmatch("--..?", word) and "NAME=VALUE" in " ".join(places):
        hint = "an input is written NAME=VALUE, without --"
    return misused(f'{verb} has no option "{word}"', hint or _explained(parser, verb, plain[2:]))


def _alike(word: str, known: Iterable[str]) -> list[str]:
    """Return the options that may be meant, without their dashes: --no-x never means --x."""
    names = [option[2:] for option in known]
    return [name for name in names if name.startswith("no-") == word.startswith("no-")]


def _fitting(parser: TryingParser, meant: str, word: str, value: str, args: Sequence[str]) -> str:
    """Return the remedy of another tool's option: this verb's option, with a value that fits it."""
    option, file = next(iter(re.findall(r"--[a-z-]+", meant)), ""), proposals.model_in(args)
    if not option or not (meant.startswith("--") or "--from" in meant):
        kept = proposals.into_file(parser, args, value) if "> FILE" in meant else None
        return kept or meant
    at = next(i for i, a in enumerate(args) if a == word)
    after = args[at + 1 + (value != "" and "=" not in word) :]
    names = [name for name in re.split("[,; ]+", value) if name]
    news = []
    if option == "--shape":
        shapes = proposals.shape_for(word, value, file), proposals.respelled_shape(value), value
        news = [[option, s] for s in shapes if s and s[-1:] == "]"]
    elif names and all(proposals.has_name(file, name) for name in names):
        news = [["--from", names[0], "--to", names[-1]]] if option == "--from" else []
        news += [[text for name in names for text in (option, name)]]
        news += [[option, pattern] for pattern in [proposals.common_pattern(names)] if pattern]
    elif option == "--format" and value:
        wrong = Path(value).suffix[1:]
        line = proposals.respelled_choice(["-o", value], "", wrong, meant.split()[-1])
        news = [[*meant.split(), *line], [*meant.split(), value]]
    if found := proposals.accepted(parser, *([*args[:at], *new, *after] for new in news)):
        return found
    if not meant.startswith("--"):
        return meant
    if option == "--shape":
        return "--shape takes all sizes of an input, such as --shape 'x[1,3,64,64]'"
    record = parser.option(option)
    needs = record.needs.split() if record else []
    partner = f" It needs {' or '.join(needs)}." if needs and not {*needs} & {*args} else ""
    return f'did you mean "{meant}"?{partner}'


def _explained(parser: TryingParser, verb: str, word: str) -> str:
    """Return where the options of a verb are explained, with those whose help has a word."""
    found = [
        f'"{action.option_strings[-1]}"'
        for action in parser._actions
        if re.search(rf"\b{re.escape(word.replace('-', ' '))}\b", action.help or "")
        and action.option_strings
    ]
    perhaps = f"perhaps {' or '.join(found)}; " if 0 < len(found) < 4 and len(word) > 3 else ""
    return f"{perhaps}irdeconv {verb} --help lists its options"


def _meant(parser: TryingParser, verb: str, word: str, known: Sequence[str]) -> str | None:
    """Return the answer to an option of another tool, if there is one: an option or a sentence."""
    names = f"{verb}:{word[2:]}", word[2:], re.sub("^(n|num|number-of|set|use)-", "", word[2:])
    answers = next(filter(None, map(synonyms.OPTIONS.get, names)), "")
    answers = answers or f"--format {word[2:]}" * (word[2:] in _choices(parser, "--format"))
    for answer in filter(None, answers.split(" | ")):
        option, _, value = answer.partition(" ")
        choices = _choices(parser, option)
        if not answer.startswith("--") or (
            option in known and (not choices or value in ("", *choices))
        ):
            return answer
    return None


def _surplus(
    parser: TryingParser, word: str, left: Sequence[str], args: Sequence[str]
) -> list[str]:
    """Return the surplus words: of a file and words, the words, whichever argparse took first."""
    if not is_file(word):
        return [w for w in left if not w.startswith("-")] or [word]
    loose = [args[at] for at in proposals.loose_words(parser, args)]
    return [w for w in loose if not re.search(r"[./\\=]", w) and not is_file(w)][:1] or [word]


def _one_too_many(
    parser: TryingParser, verb: str, words: Sequence[str], args: Sequence[str]
) -> UsageError:
    takes, word = " ".join(_positionals(parser)) or "no file", words[0]
    whole = next(filter(os.path.isfile, map(" ".join, pairwise(args))), None)
    model = word.endswith((".xml", ".onnx"))
    if whole:
        hint = f"a name with a blank needs quotes: '{whole}'"
    elif model and {"-o", "--output"} & {*args}:
        hint = "one model at a time; irdeconv batch takes a folder of them"
    elif model and not parser.writes_model and takes in ("FILE", "[FILE]"):
        hint = "one model at a time; irdeconv compare takes two"
    else:
        without = [a for a in args if a not in words]
        loose = [[args[at]] for at in proposals.loose_words(parser, args)]
        hint = proposals.placed(parser, args, words, *loose) or "leave it out"
        if hint == "leave it out" and (alone := proposals.accepted(parser, without)):
            hint = f"leave it out: {alone}"
            every = proposals.accepted(parser, [a for a in without if a not in loose[-2]])
            if takes.endswith("[LAYER]") and every:
                hint = f"one LAYER at a time, or none for all: {every}"
    return misused(f'{verb} takes {takes}: "{word}" is one too many', hint)


def suited(diagnostic: Diagnostic, args: Namespace, *, keeps_onnx: bool) -> Diagnostic:
    """Return a diagnostic whose hint names the verb's own options; see `Verb.keeps_onnx`."""
    hint, place = diagnostic.hint, diagnostic.location
    if diagnostic.code == "E502" and keeps_onnx:
        from irdeconv.formats.importing import ONLY_EXACT
        from irdeconv.formats.models import is_onnx

        if hint == ONLY_EXACT and args.file != "-" and is_onnx(args.file):
            hint = "-o NAME.onnx changes the ONNX file itself, regardless of its operations"
            return replace(diagnostic, hint=hint)
    if hint is None or "--weights" not in hint:
        return diagnostic
    if "no_weights" not in args:
        hint = re.sub(", (name .*), or leave it out: --no-weights", r", or \1", hint)
    for second, option in (("lowered", "--lowered-weights"), ("other", "--other-weights")):
        if place is not None and place.file == getattr(args, second, None):
            hint = hint.replace("--weights", option)
    return replace(diagnostic, hint=hint)


def _lacking(
    parser: TryingParser, verb: str, names: list[str], args: Sequence[str]
) -> IrdeconvError:
    """Return the error of missing arguments; the example is the command with them."""
    optional = re.findall(r"\[(\S+)", " ".join(_positionals(parser)))
    names = [n for n in names if n not in optional]
    choices = {o.name: o.values for o in parser.options() if o.values}
    written = [f"{'-o ' * n.startswith('-o/')}{_example(parser, n)}" for n in names]
    shown = " and ".join(n.replace("/--output", "") for n in names)
    example = " ".join([shlex.join(args), *written]).strip()
    if args[:1] == ["join"]:
        example = "join results -o joined.npz"
    refusal = parser.refusal(shlex.split(example)) if args and names == ["-o/--output"] else None
    if isinstance(refusal, InputError):  # the model is no model of this verb
        return refusal
    there_are = [f"{n} is one of {', '.join(choices[n])}" for n in names if n in choices]
    hint = "; ".join([f"for example: irdeconv {verb} {example}", *there_are])
    places = [a for a in args if not a.startswith("-")]
    more = len(places) > len(_positionals(parser)) and places[-1].endswith((".xml", ".onnx"))
    if names == ["-o/--output"] and more:
        hint = f"-o {places[-1]} writes there"
    return misused(f"{verb} needs {shown}", hint)


def _without_value(parser: TryingParser, name: str, option: str, args: Sequence[str]) -> UsageError:
    for at, arg in enumerate(args[:-1]):
        if arg in name.split("/") and re.match(r"-+[\d\[.,]", args[at + 1]):
            hint = f"a value that begins with - is written {option}={args[at + 1]}"
            return misused(f"{option} needs a value", hint)
    return misused(f"{option} needs a value", f"for example: {option} {_example(parser, name)}")


def _no_choice(
    parser: TryingParser, name: str, option: str, word: str, args: Sequence[str]
) -> UsageError:
    choices = _choices(parser, name)
    if not option.startswith("-"):
        hint = did_you_mean(word, choices, _SURELY) or "there are " + ", ".join(choices)
        later = next((a for a in args if a in choices), None)
        swapped = [later, *(a for a in args if a != later)] if later else []
        if re.search(r"[./\\]", word) or os.path.exists(word):
            first = f"{option} comes before it: {', '.join(choices)}"
            hint = (swapped and proposals.accepted(parser, swapped)) or first
        return misused(f'unknown {option.lower()} "{word}"', hint)
    hint = f"there are {', '.join(choices)}"
    answers = synonyms.OPTIONS.get(word.lower(), "").split(" | ")  # the same before the similar
    near = [c for answer in answers for c in choices if answer == f"{option} {c}"][:1]
    near = near or nearest(word, choices, _SURELY)
    if near:
        line = proposals.respelled_choice(args, option, word, near[0])
        found = proposals.accepted(parser, line) if len(near) == 1 else None
        hint = f"did you mean {near[0]}? {found}" if found else question(near) or hint
    return misused(f'{option} has no "{word}"', hint)
