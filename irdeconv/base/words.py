"""Words that are probably meant: the nearest of the known ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_LARGEST_TIE = 3  # of a larger one no name is more likely than another
_LEAST_START = 3  # letters that mean a word that begins with them
_OPERATIONS = {  # as other systems call them
    "Conv|(?i:conv[123]d)": "Convolution",
    "(?i:(deconv(olution)?|conv_?transpose)([123]d)?)": "ConvolutionBackpropData",
}


_LOOK_ALIKE = str.maketrans("il|o_ ", "1110--")  # upl is up1


def distance(one: str, other: str) -> int:
    """Return the number of letters to insert, leave out, replace or swap."""
    before: list[int] = []
    row = [*range(len(other) + 1)]
    for i, a in enumerate(one):
        older, before, row = before, row, [i + 1]
        for j, b in enumerate(other):
            row.append(min(before[j] + (a != b), before[j + 1] + 1, row[j] + 1))
            if i and j and a == other[j - 1] and b == one[i - 1]:
                row[-1] = min(row[-1], older[j - 1] + 1)
    return int(row[-1])


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the known words that are nearest to a word: none, one, or all of a small tie."""
    lower, text = {k.lower(): k for k in known}, str(word).lower()
    start, colon, kind = str(word).rpartition(":")
    for form, meant in _OPERATIONS.items():
        names = [f"{start}{colon}{group}{meant}".lower() for group in ("", "Group")]
        if re.fullmatch(form, kind.strip("*?")) and (same := [n for n in names if n in lower]):
            return [lower[same[0]]]
    plain = text.translate(_LOOK_ALIKE)
    same = [k for k in lower if k.translate(_LOOK_ALIKE) == plain]
    longer = [k for k in lower if len(text) >= _LEAST_START and k.startswith(text)]
    if len(longer) > _LARGEST_TIE and all(k.startswith(f"{text}/") for k in longer):
        return []  # the name of a folder or scope
    if same or longer:
        shortest = [k for k in longer if len(k) == min(map(len, longer))]
        few = longer if len(longer) <= _LARGEST_TIE else shortest[:_LARGEST_TIE]
        return [lower[k] for k in same or sorted(few, key=lambda k: (len(k), k))]
    steps: dict[str, int] = {}
    for name in difflib.get_close_matches(text, lower, 8, cutoff):
        found = distance(plain, name.translate(_LOOK_ALIKE))
        short, long = sorted((text, name), key=len)
        if found <= max(1, len(long) // 3) or (len(short) >= _LEAST_START and short in long):
            steps[name] = found
    best = [lower[name] for name, found in steps.items() if found == min(steps.values())]
    return sorted(best) if len(best) <= _LARGEST_TIE else []


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return `did you mean "..."?` for the nearest of the known words, or None."""
    return question(nearest(word, known, cutoff))


def question(names: Iterable[str]) -> str | None:
    """Return `did you mean "a" or "b"?`, or None without a name."""
    meant = '" or "'.join(names)
    return f'did you mean "{meant}"?' if meant else None


def other_pattern(patterns: Iterable[str], names: Iterable[str]) -> str | None:
    """Return a question for a name near to a pattern, or a pattern that fits with stars around."""
    words, texts = [p for p in patterns if p.strip("*")], [*names]
    wider = (f"*{w.strip('*')}*" for w in words if any(w.strip("*") in t for t in texts))
    near = (did_you_mean(word, texts) for word in words)
    return next(filter(None, (*near, *(f"--only '{w}' fits some" for w in wider))), None)


def asking(text: str, word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a text with the question of `did_you_mean`, if a known word is near."""
    return "; ".join(filter(None, (text, did_you_mean(word, known, cutoff))))
