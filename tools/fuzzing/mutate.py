"""Changes of files of any format: of their bytes, their tokens, or the values that they hold.

Each format is read into a tree of lists and dictionaries, changed there in a few places and written
again (`formats.py`). What is changed where is the same for all: values become others that are near,
at a border of their type, of another type, or what stands elsewhere; pieces are dropped, repeated,
renamed, moved, swapped and nested.
"""

from __future__ import annotations

import copy
import random
import re
from typing import Any

# As texts: what reads them has to tell which are numbers of its format.
NUMBERS = (
    "0", "1", "2", "3", "5", "7", "8", "16", "-1", "-2", "-3", "63", "64", "255", "256", "1000",
    "32767", "65535", "65536", "1000000", "16777217", "100000000", "2147483647", "2147483648",
    "-2147483648", "-2147483649", "4294967295", "4294967296", "1099511627776",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "9" * 40, "-" + "9" * 40, "9" * 5000,
    "0.5", "1.5", "-0.0", "1e3", "1e-45", "1e39", "1e309", "nan", "NaN", "inf", "-inf", "Infinity",
    "-0", "+1", "007", "0x10", "1_000", "0b1", "\u0661", "\u00b2", "\uff11", "1.", ".5", "1e",
    "--1", "", "?", "-1..3", "1..3", "3..1", "..", "..5", "5..", "1..99999999999999999999",
    "true", "None",
    "1,", ",1", "1,,2", "1;2", "1 2", "(1)", "[1]",
)  # fmt: skip
NAMES = (
    "", " ", "x", "y", "w", "a" * 300, "a" * 5000, "tab\there", "line\nbreak", "\x7f", "\x85",
    "\u202eevil", "\u2066x\u2069", "zero\u200bwidth", "\ufeffx", "\U000e0041", "\U0001f600",
    "e\u0301" * 40, "../../etc/passwd", "/etc/passwd", "/dev/zero", "C:\\x", "a/b", "..", ".",
    "<script>alert(1)</script>", "]]>", "&amp;", "'\"", "%s%n%d", "{0}", "${x}", "=cmd|'/c'!A1",
    "x:0", "a,b", "\\", "x#1", "layer:x", "0", "-1", "nan", "opset1", "Parameter", "Result",
    "\u0130", "\u00df", "\ufb01", "\u1e9e", "con", "-o", "@x", "*", "\0", "\ud800", "\x1b[2J",
)  # fmt: skip
TYPES = (
    "f32 f16 bf16 f64 i64 i32 i16 i8 u64 u32 u16 u8 boolean i4 u4 u1 nf4 f8e4m3 string dynamic "
    "undefined F32 FP32 FP16 I64 BOOL x opset1 opset3 opset5 opset8 opset13 opset99 extension"
).split()
WORDS = (
    b"\0", b"\xff", b"\x80", b"\n", b'"', b"<", b">", b"&", b"/", b"{", b"}", b"[", b"]", b"(",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\x28", b"\xed\xa0\x80", b"<!DOCTYPE n>", b"<!--", b"]]>",
    b"&x;", b"&#0;", b"&#x1b;", b"\x1b[2J", b"\xff" * 4, b"\0" * 4, b"\xff" * 8, b"\x7f" * 4,
    b"9" * 30, b"-", b"e999",
)  # fmt: skip
LONGEST = 1 << 18  # bytes of a mutant
TIMES = (1, 1, 1, 2, 2, 3, 5)
DIGITS = re.compile(r"-?\d+")
TOKEN = re.compile(r"\s+|\"(?:[^\"\\]|\\.)*\"|-?\d[\w.+-]*|[^\W\d]\w*|.", re.DOTALL)
Place = tuple[Any, Any, str]  # a list or dictionary, an index or key of it, what stands there


# Values ------------------------------------------------------------------------------------------


def nudged(rng: random.Random, text: str) -> str:
    """Change one number in a text a little, or the list that the text is."""
    found = list(DIGITS.finditer(text))
    if not found:
        return text + rng.choice((" ", "x", "0", ","))
    at = rng.choice(found)
    n = int(at.group()) if len(at.group()) < 30 else 9
    value = str(rng.choice((n + 1, n - 1, -n, n * 2, n // 2, n * 1000, 0, 1)))
    if rng.random() < 0.2 and "," in text:
        parts = text.split(",")
        rng.choice((parts.pop, lambda: parts.append(value), parts.reverse))()
        return ",".join(parts)
    return text[: at.start()] + value + text[at.end() :]


def number(rng: random.Random, old: str = "") -> str:
    """Return a number that is near an old one, or a bad one."""
    return nudged(rng, old) if rng.random() < 0.5 else rng.choice(NUMBERS)


def integer(rng: random.Random) -> int:
    """Return an integer, small or at a border of its type."""
    small = rng.randint(-3, 12)
    wide = (1 << rng.choice((7, 8, 15, 16, 20, 24, 31, 32, 40, 62, 63, 64))) + rng.randint(-1, 1)
    return small if rng.random() < 0.5 else rng.choice((wide, -wide))


def anything(rng: random.Random) -> Any:
    """Return a value of any type."""
    deep: Any = []
    for _ in range(rng.choice((3, 60))):
        deep = [deep]
    return rng.choice(
        (
            None, True, False, 0, -1, 1.5, float("nan"), float("inf"), 1e308, "", [], {}, [[]],
            [None], {"": 0}, integer(rng), [integer(rng)], [integer(rng)] * 3, rng.choice(NAMES),
            10**40, [1] * 500, deep, str(integer(rng)), b"\xff",
        )
    )  # fmt: skip


def value(rng: random.Random, old: Any, same: list[Any], words: tuple[str, ...]) -> Any:
    """Return another value: near the old one, one of the `same` kind elsewhere, or a strange one.

    `words` are what a place like this may hold.
    """
    way = rng.random()
    if way < 0.15:
        return copy.deepcopy(rng.choice(same))
    if isinstance(old, str):
        if words and way < 0.6:
            return rng.choice(words)
        if way < 0.65:
            return number(rng, old)
        if way < 0.97:
            return rng.choice((nudged(rng, old), rng.choice(NAMES), rng.choice(TYPES)))
        return old.encode("utf-8", "replace") + rng.choice(WORDS)  # which no format quotes
    if isinstance(old, bytes):
        end, name = rng.randrange(len(old) + 1), rng.choice(NAMES).encode("utf-8", "surrogatepass")
        wide = old[: end & ~7] + (integer(rng) % 2**64).to_bytes(8, "little") + old[end & ~7 :][8:]
        return rng.choice((name, name, wide, old[:end], old * 2, mutate_bytes(rng, old)))
    if isinstance(old, int) and not isinstance(old, bool) and way < 0.7:
        return rng.choice((old + 1, old - 1, -old, old * 2, integer(rng), str(old), float(old)))
    return anything(rng)


# Trees -------------------------------------------------------------------------------------------


def places(tree: Any) -> list[Place]:
    """Return all places in a tree; `is` of a dictionary names what stands in it."""
    out: list[Place] = []
    todo: list[tuple[Any, str]] = [(tree, "")]
    while todo:
        at, name = todo.pop()
        for key in range(len(at)) if isinstance(at, list) else at:
            held = at[key]
            label = str(held.get("is", "")) if isinstance(held, dict) else ""
            kind = label or (name if isinstance(at, list) else f"{at.get('is', '')}.{key}")
            out.append((at, key, kind))
            if isinstance(held, list | dict):
                todo.append((held, kind))
    return out


def mutate_tree(
    rng: random.Random, tree: Any, words: Any = lambda kind: (), times: int | None = None
) -> Any:
    """Change a few places of a copy; of places of a rare kind each is chosen more often."""
    holder = [copy.deepcopy(tree)]
    for _ in range(times or rng.choice(TIMES)):
        kinds: dict[str, list[Place]] = {}
        rare, leaves = rng.random() < 0.15, rng.random() < 0.65
        for at, key, kind in places(holder):
            inner = isinstance(at[key], list | dict)
            if (rare or not _is_rare(at[key], key)) and not (leaves and inner):
                kinds.setdefault(kind, []).append((at, key, kind))
        if not kinds:
            continue
        (kind,) = rng.choices(list(kinds), [len(found) ** -0.5 for found in kinds.values()])
        at, key, _ = rng.choice(kinds[kind])
        try:
            if leaves and rng.random() < 0.85:
                at[key] = value(rng, at[key], [a[k] for a, k, _ in kinds[kind]], words(kind))
            else:
                near = [(at, k, "") for k in (at if isinstance(at, dict) else range(len(at)))]
                near = rng.choice((kinds[kind], kinds[kind], near, rng.choice([*kinds.values()])))
                rng.choice(_WAYS)(rng, at, key, *rng.choice(near)[:2])
        except RecursionError:  # of copying what is nested deeply
            break
    return holder[0] if holder else None


def _is_rare(held: Any, key: Any) -> bool:
    if isinstance(held, list | dict):
        return key in ("at", "in")
    return held == "" or key in ("is", "kind", "lie")


def _drop(rng: random.Random, at: Any, key: Any, b: Any, j: Any) -> None:
    del at[key]


def _any(rng: random.Random, at: Any, key: Any, b: Any, j: Any) -> None:
    at[key] = anything(rng)


def _rename(rng: random.Random, at: Any, key: Any, b: Any, j: Any) -> None:
    at = at if isinstance(at, dict) else b
    if isinstance(at, dict) and at:
        old = key if key in at else rng.choice(list(at))
        new = rng.choice((*NAMES[:8], old.upper(), f"{old}s", rng.choice(list(b or at))))
        at[str(new)] = at.pop(old)


def _repeat(rng: random.Random, at: Any, key: Any, b: Any, j: Any) -> None:
    if isinstance(at, list):
        many = rng.choice((1, 1, 2, 40, 300 if len(repr(at[key])) < 50 else 3))
        at[key:key] = [copy.deepcopy(at[key]) for _ in range(many)]
    else:
        at[f"{key}_"] = copy.deepcopy(at[key])


def _move(rng: random.Random, at: Any, key: Any, b: Any, j: Any) -> None:
    """Put a copy over another piece, or in front of it as one of its kind."""
    piece = copy.deepcopy(at[key])
    if isinstance(b, list) and rng.random() < 0.7:
        if isinstance(piece, dict) and isinstance(b[j], dict) and "is" in b[j]:
            piece["is"] = rng.choice((piece.get("is"), b[j]["is"]))
        b.insert(j, piece)
    else:
        b[j] = piece


def _swap(rng: random.Random, at: Any, key: Any, b: Any, j: Any) -> None:
    first, second = copy.deepcopy(at[key]), copy.deepcopy(b[j])
    at[key] = second
    if j < len(b) if isinstance(b, list) else j in b:
        b[j] = first


def _nest(rng: random.Random, at: Any, key: Any, b: Any, j: Any) -> None:
    """Put a piece into itself, again and again, where its kind holds others."""
    inner = at[key]
    for _ in range(rng.choice((1, 3, 90, 300))):
        if isinstance(inner, dict) and isinstance(inner.get("in"), list):
            inner = {**inner, "in": [inner]}
        else:
            inner = [inner]
    at[key] = inner


_WAYS = (_drop, _drop, _any, _rename, _rename, _repeat, _repeat, _move, _move, _swap, _swap, _nest)


# Texts and bytes ---------------------------------------------------------------------------------


def mutate_text(rng: random.Random, text: str) -> str:
    """Change a few tokens or lines."""
    for _ in range(rng.choice(TIMES)):
        if rng.random() < 0.2:
            pieces = text.splitlines(keepends=True) or [""]
            chosen = list(range(len(pieces)))
        else:
            pieces = TOKEN.findall(text) or [""]
            kinds = (str.isdecimal, str.isalpha, lambda c: c == '"', lambda c: not c.isspace())
            kind = rng.choice(kinds)
            chosen = [i for i, t in enumerate(pieces) if t and kind(t.lstrip("-")[:1] or t)]
        if not chosen:
            continue
        at, other = rng.choice(chosen), rng.randrange(len(pieces))
        old, before, behind = pieces[at], pieces[:at], pieces[at + 1 :]
        bracket = rng.choice("([{<") * rng.choice((1, 2, 300, 5000))
        inserted = rng.choice((bracket, rng.choice(NUMBERS), "#", old))
        if rng.random() < 0.5:
            pieces = [*before, _token(rng, old, pieces[other]), *behind]
        else:
            pieces = rng.choice(
                (
                    before + behind,
                    before + behind[rng.choice((1, 2, 6)) :],
                    [*before, *[old] * rng.choice((2, 2, 3, 500)), *behind],
                    [*before, pieces[other], *behind],
                    [*pieces[:other], inserted, *pieces[other:]],
                    [*pieces[:other], inserted, *pieces[other + 1 :]],
                )
            )
        text = "".join(pieces)[:LONGEST]  # each time: what is repeated twice grows 40,000 times
    return text


def _token(rng: random.Random, old: str, other: str) -> str:
    if old[:1].isdigit() or old[:1] == "-":
        return number(rng, old)
    if old[:1] == '"':
        raw = rng.choice(NAMES)
        escaped = raw.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        more = rng.choice(("", "", "\\u0000", "\\ud800", "\\x1b", "\\u001b", "\\", "\\U00110000"))
        return f'"{raw if rng.random() < 0.2 else escaped}{more}"'
    return rng.choice((other, "true", "none", "nan", rng.choice(TYPES), old + "x", old[:-1]))


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flip, set, cut, insert, repeat, move or swap pieces, some times."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        (a, b), (c, d) = sorted((_piece(rng, data), _piece(rng, data)))
        word, digits = rng.choice(WORDS), [i for i, n in enumerate(data) if 48 <= n <= 57]
        at = rng.choice(digits) if digits else min(a, max(len(data) - 1, 0))
        bit = bytes([data[at] ^ (1 << rng.randrange(8))]) if data else b"x"
        digit = rng.choice((b"0", b"9", b"-1", b"99999999999", b"", bit))
        flipped = bytes(n ^ (1 << rng.randrange(8)) for n in data[a : a + 1])
        ways = (
            data[:a] + flipped + data[a + 1 :],
            data[:at] + digit + data[at + 1 :],
            data[:a] + word + data[a + len(word) :],
            data[:a] + word + data[a:],
            data[:a],
            data[:a] + data[b:],
            data[:b] + data[a:b] * rng.choice((1, 1, 2, 20, 300)) + data[b:],
            data[:c] + data[a:b] + data[rng.choice((c, d)) :],
            data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:],
        )
        data = rng.choice((*ways, *ways[:2]))[:LONGEST]
    return data


def _piece(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.randint(0, rng.choice((1, 2, 4, 16, 64, 400))))
