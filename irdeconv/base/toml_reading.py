"""TOML files of users: every mistake is reported, with its line and column."""

from __future__ import annotations

import re
from collections.abc import Iterable

from irdeconv.base.errors import Collector, UsageError, did_you_mean, misused
from irdeconv.base.limits import current
from irdeconv.base.opening import parse_toml
from irdeconv.base.source import Location, SourceFile

MOST_TRIES = 1000  # to find the line of a mistake
_KEY_OR_STRING = re.compile(r"[\"']?[ \t]*=|[\"']")  # behind a key or a string


class TomlReader:
    """The `content` of a file, and the mistakes in it; UsageError if it is not TOML."""

    def __init__(self, text: str | bytes, file: str) -> None:
        try:
            self._text = text if isinstance(text, str) else text.decode("utf-8")
            self.content = parse_toml(self._text)
        except ValueError as e:
            raise misused(f"{file}: not TOML: {e}") from e
        self._source = SourceFile(file, self._text.encode())
        self._problems = Collector(most=current().reports)

    def problem(
        self,
        message: str,
        words: tuple[str, ...],
        hint: str | None = None,
        known: Iterable[str] = (),
    ) -> None:
        """Record a mistake, at the last of some words that follow each other in the file.

        The hint names the nearest one of `known`, if there is one.
        """
        if not self._problems.is_full("E700", "error"):  # a file may have 100,000 mistakes
            location = Location(self._source, fixed=self.position(words))
            hint = did_you_mean(words[-1], known) or hint
            self._problems.add("E700", message, location=location, hint=hint)

    def position(self, words: tuple[str, ...]) -> tuple[int, int]:
        """Return line and column of the last word that is there."""
        begin = end = 0
        for word in words:
            tried = end
            for _ in range(MOST_TRIES):
                found = self._text.find(word, tried)
                tried = found + len(word)
                if found < 0:
                    break
                begins = not found or self._text[found - 1] in " \t\n\"'"
                if begins and (word[0] == "[" or _KEY_OR_STRING.match(self._text, tried)):
                    begin, end = found, tried
                    break
        return self._text.count("\n", 0, begin) + 1, begin - self._text.rfind("\n", 0, begin)

    def require_none(self) -> None:
        """Raise UsageError with all mistakes, if there are any."""
        found = self._problems.diagnostics
        found.sort(key=lambda d: (d.location and d.location.position) or (0, 0))
        self._problems.count_rest()
        if self._problems.errors:
            raise UsageError(found)
