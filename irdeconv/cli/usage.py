"""Messages for a wrong command line, with a remedy, instead of the whole usage."""

from __future__ import annotations

import os
import re
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from irdeconv.base import synonyms
from irdeconv.base.errors import Diagnostic, UsageError, did_you_mean, misused

_PLACEHOLDERS = {
    "ACTION": "make vectors",
    "FILE": "model.xml",
    "LOWERED": "lowered.xml",
    "PATH": "models",
    "-o/--output": "-o out.xml",
}
_OUTPUTS = {"run": "out.npz", "inspect": "out.txt", "explain": "out.txt", "batch": "out"}
_WRITERS = ("lower", "raise", "convert", "extract", "rename", "simplify", "reduce")
_FOR_MODEL = ("--i", "--m", "--net", "--onnx", "--xml")  # how other tools name a model
_VALUES = dict(  # of examples
    pair.split(": ")
    for pair in (
        "--against: openvino, --certificate: proofs.json, --check: 'run_it {}', --compare: "
        "openvino, --dump: all, --dump-dir: dumps, --fail-above: 10, --fill: 64, --form: auto, "
        "--input: x=@x.npy, --iterations: 100, --jobs: 2, --max-growth: 1M, --max-memory: 2G, "
        "--memory: 2G, --pattern: s/old/new/, --rounds: 5, --seed: 1, --shape: 'x[1,3,64,64]', "
        "--sizes: x=1,3,64,64, --solve: 64,64, --target: generic, --threads: 2, --time: 5, "
        "--timeout: 60, --tolerance: 1e-5, --top: 20, --tune: kernels.json, --weights: model.bin"
    ).split(", ")
)


_SURELY = 0.72  # of letters in common: --quantize is not --quiet


def option_names(parser: ArgumentParser) -> list[str]:
    """Return the names of all options."""
    return [name for action in parser._actions for name in action.option_strings]


def _positionals(parser: ArgumentParser) -> list[str]:
    """Return how the usage calls the arguments that are no options."""
    places = [a for a in parser._actions if not a.option_strings]
    ends = {"?": "[{}]", "*": "[{} ...]", "+": "{} ..."}
    return [ends.get(str(a.nargs), "{}").format(a.metavar or a.dest) for a in places]


def _placeholder(parser: ArgumentParser, name: str) -> str:
    """Return how the usage calls the value of an option."""
    return next((str(a.metavar or a.dest.upper()) for a in _named(parser, name)), "VALUE")


def _named(parser: ArgumentParser, name: str) -> list[Action]:
    """Return the action that argparse calls by its option names, joined by slashes, or metavar."""
    return [a for a in parser._actions if ("/".join(a.option_strings) or a.metavar) == name]


def wants_json(args: Sequence[str]) -> bool:
    """Whether --format asks for JSON, also in a command line that cannot be understood."""
    wanted = "text"
    for at, arg in enumerate(args):
        if arg == "--":
            break
        if arg.startswith("--format="):
            wanted = arg.partition("=")[2]
        elif arg == "--format" and at + 1 < len(args):
            wanted = args[at + 1]
    return wanted == "json"


def unknown_verb(args: Sequence[str], verbs: Iterable[str]) -> UsageError:
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
        rest = " ".join([later, *(a for a in args if a != later)])
        return misused(f'the verb stands before "{word}"', f"irdeconv {rest}")
    options = ("--help", "--version") if word.startswith("-") else ()
    near = did_you_mean(word, (*options, *known))
    if word in synonyms.VERBS:
        near = f'did you mean "{synonyms.VERBS[word]}"?'
    elif re.fullmatch(r"[EWew]\d{3}", word):
        near = f"irdeconv codes {word.upper()} explains it"
    elif word.startswith("-"):
        first = "a verb stands first: irdeconv VERB FILE; irdeconv help VERB lists its options"
        return misused(f'there is no option "{word}" without a verb', near or first)
    elif path and not near:
        return misused(f'a verb stands before "{word}"', f"irdeconv inspect {word}")
    return misused(f'there is no verb "{word}"', near or "irdeconv help lists the verbs")


def _unknown_ones(parser: ArgumentParser, args: Sequence[str]) -> list[str]:
    """Return the options that no option of a verb begins with."""
    written = (a.partition("=")[0] for a in args if a.startswith("--"))
    return [w for w in written if not any(o.startswith(w) for o in option_names(parser))]


def _needs_one_of(parser: ArgumentParser, verb: str, names: Sequence[str]) -> UsageError:
    one = f"{', '.join(names[:-1])} or {names[-1]}"
    example = f"{names[0]} {_VALUES.get(names[0]) or _placeholder(parser, names[0])}"
    return misused(f"{verb} needs {one}", f"for example: irdeconv {verb} model.xml {example}")


def misparsed(
    parser: ArgumentParser, message: str, args: Sequence[str], others: Callable[[str], list[str]]
) -> UsageError:
    """Return the error that states argparse's message about a verb's arguments in our words.

    `others` returns the verbs that have an option.
    """
    verb = parser.prog.removeprefix("irdeconv ")
    start, _, rest = message.partition(": ")
    if start == "unrecognized arguments":
        left = [a for a in args if rest == a or rest.startswith(f"{a} ")]
        word = max(left, key=len, default=rest)
        if word.startswith("-") and word != "-":
            return _unknown_option(parser, word, args, others)
        return _one_too_many(parser, verb, word, args)
    required = start.startswith(("the following arguments are", "one of the arguments"))
    if required and (unknown := _unknown_ones(parser, args)):
        return _unknown_option(parser, unknown[0], args, others)
    if start == "the following arguments are required":
        return _lacking(parser, verb, rest.split(", "), args)
    one_of = re.match(r"one of the arguments (.*) is required", message)
    if one_of:
        return _needs_one_of(parser, verb, one_of[1].split())
    name = start.removeprefix("argument ")
    option = name.split("/")[-1]
    if rest.startswith("expected "):
        return _without_value(parser, name, option, args)
    if rest.startswith("ignored explicit argument"):
        return misused(f"{option} takes no value", f"write {option} alone")
    chosen = re.match(r"invalid choice: '(.*)' \(choose from", rest, re.DOTALL)
    if chosen:
        return _no_choice(parser, name, option, chosen[1])
    excluded = re.match(r"not allowed with argument (\S+)", rest)
    if excluded:
        other = excluded[1].split("/")[-1]
        return misused(f"{option} and {other} exclude each other", "leave one out")
    example = _VALUES.get(option) or "".join(re.findall(r"is not a number from (\d+)", rest))
    hint = f"for example: {option} {example}" if example else None
    return misused(f"{option}: {rest}" if rest else message, hint)


def _unknown_option(
    parser: ArgumentParser, word: str, args: Sequence[str], others: Callable[[str], list[str]]
) -> UsageError:
    verb = parser.prog.removeprefix("irdeconv ")
    value = next((b for a, b in pairwise([*args, ""]) if a == word), "")
    word = word.partition("=")[0]
    known = [o for o in option_names(parser) if o.startswith("--") and o != "--debug"]
    plain = "--" + word.lstrip("-").replace("_", "-")
    begun, places = [o for o in known if o.startswith(plain)], _positionals(parser)
    if len(word) == 2 and value[:1].isalnum():
        begun = [o for o in begun if _named(parser, o)[0].nargs != 0]
    if plain not in known and (meant := _meant(verb, plain, known)):
        hint = meant
    elif plain in known or 0 < len(begun) < 5:
        meant = '" or "'.join([plain] if plain in known else begun)
        hint = f'did you mean "{meant}"?'
    elif {"--against": "OTHER"}.get(plain, plain[2:].upper()) in [p.strip("[].+ ") for p in places]:
        hint = f"write irdeconv {verb} {' '.join(places)}, without {word}"
    elif plain.startswith(_FOR_MODEL) and value.endswith((".xml", ".onnx")):
        hint = f"a model stands without an option: irdeconv {verb} {value}"
    elif elsewhere := others(word):
        more = f" and {len(elsewhere) - 3} more" if len(elsewhere) > 3 else ""
        hint = f"it is an option of {', '.join(elsewhere[:3])}{more}"
    elif re.fullmatch("--..?", word) and "NAME=VALUE" in " ".join(places):
        hint = "an input is written NAME=VALUE, without --"
    else:
        near = did_you_mean(plain[2:], [o[2:] for o in known], _SURELY)
        hint = near.replace('"', '"--', 1) if near else _explained(parser, verb, plain[2:])
    return misused(f'{verb} has no option "{word}"', hint)


def _explained(parser: ArgumentParser, verb: str, word: str) -> str:
    """Return where the options of a verb are explained, with those whose help has a word."""
    found = [
        f'"{action.option_strings[-1]}"'
        for action in parser._actions
        if re.search(rf"\b{re.escape(word.replace('-', ' '))}\b", action.help or "")
        and action.option_strings
    ]
    perhaps = f"perhaps {' or '.join(found)}; " if 0 < len(found) < 4 and len(word) > 3 else ""
    return f"{perhaps}irdeconv {verb} --help lists its options"


def _meant(verb: str, word: str, known: Sequence[str]) -> str | None:
    """Return the answer to an option of another tool, if there is one."""
    names = f"{verb}:{word[2:]}", word[2:], re.sub("^(n|num|number-of|set|use)-", "", word[2:])
    answers = next(filter(None, map(synonyms.OPTIONS.get, names)), "")
    for answer in filter(None, answers.split(" | ")):
        if not answer.startswith("--"):
            return answer
        if answer.split()[0] in known:
            return f'did you mean "{answer}"?'
    return None


def _one_too_many(parser: ArgumentParser, verb: str, word: str, args: Sequence[str]) -> UsageError:
    takes = " ".join(_positionals(parser)) or "no file"
    hint = "leave it out"
    whole = next(filter(os.path.isfile, map(" ".join, pairwise(args))), None)
    if whole:
        hint = f"a name with a blank needs quotes: '{whole}'"
    elif word.endswith((".xml", ".onnx")) and {"-o", "--output"} & {*args}:
        hint = "one model at a time; irdeconv batch takes a folder of them"
    elif word.endswith((".xml", ".onnx")) and verb in _WRITERS:
        hint = f"-o {word} writes there"
    elif word.endswith((".xml", ".onnx")) and " ".join(_positionals(parser)) in ("FILE", "[FILE]"):
        hint = "one model at a time; irdeconv compare takes two"
    elif re.search(r"\[.*\]$", word) and "--shape" in option_names(parser):
        hint = f"a shape is written --shape '{word}'"
    elif "=" in word and "--input" in option_names(parser):
        hint = f"an input is written --input {word}"
    elif word.endswith(".json") and "--certificate" in option_names(parser):
        hint = f"--certificate {word} names certificates"
    elif "--only" in option_names(parser) and "--sort" in option_names(parser):
        hint = f"--only {word} names layers"
    elif "--from" in option_names(parser):
        hint = f"name layers by options: --from {word}, --to {word}"
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
        hint = hint.replace(
            ", name it with --weights, or leave it out: --no-weights", ", or name it with --weights"
        )
    for second, option in (("lowered", "--lowered-weights"), ("other", "--other-weights")):
        if place is not None and place.file == getattr(args, second, None):
            hint = hint.replace("--weights", option)
    return replace(diagnostic, hint=hint)


def _lacking(
    parser: ArgumentParser, verb: str, names: list[str], args: Sequence[str]
) -> UsageError:
    """Return the error of missing arguments; the example is the command with them."""
    import shlex

    optional = re.findall(r"\[(\S+)", " ".join(_positionals(parser)))
    names = [n for n in names if n not in optional]
    choices = {str(a.metavar): [str(c) for c in a.choices] for a in parser._actions if a.choices}
    written = [_PLACEHOLDERS.get(n) or choices.get(n, [n])[0] for n in names]
    shown = " and ".join(n.replace("/--output", "") for n in names)
    example = " ".join([shlex.join(args), *written]).strip()
    if args[:1] == ["join"]:
        example = "join results -o joined.npz"
    if verb == "convert":
        example = example.replace("model.xml", "model.onnx")
    there_are = [f"{n} is one of {', '.join(choices[n])}" for n in names if n in choices]
    hint = "; ".join([f"for example: irdeconv {verb} {example}", *there_are])
    places = [a for a in args if not a.startswith("-")]
    more = len(places) > len(_positionals(parser)) and places[-1].endswith((".xml", ".onnx"))
    if names == ["-o/--output"] and more:
        hint = f"-o {places[-1]} writes there"
    return misused(f"{verb} needs {shown}", hint)


def _without_value(
    parser: ArgumentParser, name: str, option: str, args: Sequence[str]
) -> UsageError:
    for at, arg in enumerate(args[:-1]):
        if arg in name.split("/") and re.match(r"-+[\d\[.,]", args[at + 1]):
            hint = f"a value that begins with - is written {option}={args[at + 1]}"
            return misused(f"{option} needs a value", hint)
    choices = [str(c) for a in _named(parser, name) for c in a.choices or ()]
    verb = parser.prog.split()[-1]
    only = {"raise": "zero-insertion", "inspect": "Convolution"}.get(verb, "'decoder/*'")
    values = {**_VALUES, "--output": _OUTPUTS.get(verb, "out.xml"), "--only": only}
    value = choices[0] if choices else values.get(option) or _placeholder(parser, name)
    return misused(f"{option} needs a value", f"for example: {option} {value}")


def _no_choice(parser: ArgumentParser, name: str, option: str, word: str) -> UsageError:
    choices = [str(c) for a in _named(parser, name) for c in a.choices or ()]
    hint = did_you_mean(word, choices, _SURELY) or "there are " + ", ".join(choices)
    meant = synonyms.OPTIONS.get(word, "").removeprefix("--format ")
    if option == "--format" and meant in choices:
        hint += f"; {meant} is the nearest"
    if not option.startswith("-"):
        if re.search(r"[./\\]", word) or os.path.exists(word):
            hint = f"{option} comes before it: {', '.join(choices)}"
        return misused(f'unknown {option.lower()} "{word}"', hint)
    return misused(f'{option} has no "{word}"', hint)
