"""Numbers, names and texts that files should not have, and small changes of those they have."""

from __future__ import annotations

import random
import re

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
    "\u0130", "\u00df", "\ufb01", "\u1e9e", "con", "-o", "@x", "*",
)  # fmt: skip
_NUMBER = re.compile(r"-?\d+")


def nudged(rng: random.Random, text: str) -> str:
    """Change one number in a text a little, or the list that the text is."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text + rng.choice((" ", "x", "0", ","))
    at = rng.choice(found)
    number = int(at.group()) if len(at.group()) < 30 else 9
    ways = (number + 1, number - 1, -number, number * 2, number // 2, number * 1000, 0, 1)
    value = str(rng.choice(ways))
    if rng.random() < 0.2 and "," in text:
        parts = text.split(",")
        rng.choice((parts.pop, lambda: parts.append(value)))()
        return ",".join(parts)
    return text[: at.start()] + value + text[at.end() :]


def number(rng: random.Random, old: str = "") -> str:
    """Return a number that is near an old one, or a bad one."""
    return nudged(rng, old) if rng.random() < 0.45 else rng.choice(NUMBERS)


def integer(rng: random.Random) -> int:
    """Return an integer, small or at a border of its type."""
    small = rng.randint(-3, 12)
    wide = (1 << rng.choice((7, 8, 15, 16, 20, 24, 31, 32, 40, 62, 63, 64))) + rng.randint(-1, 1)
    return small if rng.random() < 0.5 else rng.choice((wide, -wide))
