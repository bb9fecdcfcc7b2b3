"""Changes of a text token by token: TOML profiles, the text form of a graph."""

from __future__ import annotations

import random
import re

from fuzzing.mutate_bytes import LONGEST
from fuzzing.values import NAMES, NUMBERS, number

_TOKEN = re.compile(r"\s+|\"(?:[^\"\\]|\\.)*\"|-?\d[\w.+-]*|[^\W\d]\w*|.", re.DOTALL)
_BRACKETS = "([{<"


def mutate_text(rng: random.Random, text: str) -> str:
    """Change a few tokens or lines."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.2:
            text = _line(rng, text)
        else:
            tokens = _TOKEN.findall(text)
            rng.choice(_WAYS)(rng, tokens)
            text = "".join(tokens)
        text = text[:LONGEST]  # each time: what is repeated twice grows 40,000 times
    return text


def _line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        del lines[a]
    elif way == 1:
        lines.insert(b, lines[a])
    elif way == 2:
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines[a] = lines[a] * rng.choice((2, 3, 200))
    return "".join(lines)


def _where(rng: random.Random, tokens: list[str], kind: str) -> int | None:
    tests = {
        "number": lambda t: t[0].isdigit() or (t[0] == "-" and len(t) > 1),
        "word": lambda t: t[0].isalpha() or t[0] == "_",
        "string": lambda t: t[0] == '"' and len(t) > 1,
        "any": lambda t: not t.isspace(),
    }
    found = [i for i, t in enumerate(tokens) if tests[kind](t)]
    return rng.choice(found) if found else None


def _number(rng: random.Random, tokens: list[str]) -> None:
    at = _where(rng, tokens, "number")
    if at is not None:
        tokens[at] = number(rng, tokens[at])


def _string(rng: random.Random, tokens: list[str]) -> None:
    at = _where(rng, tokens, "string")
    if at is not None:
        raw = rng.choice(NAMES)
        escaped = raw.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        more = rng.choice(("", "", "\\u0000", "\\ud800", "\\x1b", "\\u001b", "\\", "\\U00110000"))
        tokens[at] = f'"{raw if rng.random() < 0.2 else escaped}{more}"'


def _word(rng: random.Random, tokens: list[str]) -> None:
    at, other = _where(rng, tokens, "word"), _where(rng, tokens, "any")
    if at is not None and other is not None:
        words = (tokens[other], "true", "none", "nan", "opset99", tokens[at] + "x", tokens[at][:-1])
        tokens[at] = rng.choice(words)


def _other(rng: random.Random, tokens: list[str]) -> None:
    at, other = _where(rng, tokens, "any"), _where(rng, tokens, "any")
    if at is not None and other is not None:
        tokens[at] = tokens[other]


def _drop(rng: random.Random, tokens: list[str]) -> None:
    at = _where(rng, tokens, "any")
    if at is not None:
        del tokens[at : at + rng.choice((1, 1, 2, 6))]


def _twice(rng: random.Random, tokens: list[str]) -> None:
    at = _where(rng, tokens, "any")
    if at is not None:
        many = rng.choice((2, 2, 3, 500))
        tokens[at : at + 1] = [tokens[at]] * many


def _insert(rng: random.Random, tokens: list[str]) -> None:
    bracket = rng.choice(_BRACKETS) * rng.choice((1, 2, 300, 5000))
    tokens.insert(rng.randrange(len(tokens) + 1), rng.choice((bracket, rng.choice(NUMBERS), "#")))


def _swap(rng: random.Random, tokens: list[str]) -> None:
    at, other = _where(rng, tokens, "any"), _where(rng, tokens, "any")
    if at is not None and other is not None:
        tokens[at], tokens[other] = tokens[other], tokens[at]


_WAYS = (_number, _number, _number, _string, _word, _word, _other, _drop, _twice, _insert, _swap)
