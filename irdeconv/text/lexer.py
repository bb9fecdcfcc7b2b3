"""Tokens of the text form, with places, and the errors that point at them."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from irdeconv.errors import Diagnostic, InputError
from irdeconv.source import Location, SourceFile

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | (?P<bytes>b"[^"\n]*")
      | (?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*")
      | (?P<ref>%\d+(?:\#\d+)?)
      | (?P<any>\.\.\.)
      | (?P<range>(?:-?\d+)?\.\.(?:-?\d+)?)
      | (?P<number>-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf\b))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>[()\[\]{}<>=,:?.])""",
    re.VERBOSE | re.ASCII,
)
_TOKENS = {
    "ref": "a node such as %5",
    "string": "a string",
    "word": "a word",
    "number": "a number",
    "end": "the end of the text",
}
_DIGITS = 400  # more digits than any number needs


class Token(NamedTuple):
    """A token: kind (`mark` for punctuation), text, offset in the text."""

    kind: str
    text: str
    offset: int

    @property
    def end(self) -> int:
        """The offset behind the token."""
        return self.offset + len(self.text)


class Lexer:
    """Cuts a text into tokens and knows the place of each."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.source = SourceFile(file, text.encode("utf-8", "surrogatepass"))
        self._line, self._line_start = 1, 0
        self.at = 0
        self.tokens = self._tokens()

    def _tokens(self) -> list[Token]:
        out, at, text = [], 0, self.text
        while at < len(text):
            m = _TOKEN.match(text, at)
            if m is None:
                self.fail(f"unexpected {text[at]!r}", at)
            if m.lastgroup != "skip":
                if m.lastgroup in ("number", "ref", "range") and m.end() - at > _DIGITS:
                    self.fail("a number of more than 400 digits", at)
                out.append(Token(str(m.lastgroup), m.group(), at))
            at = m.end()
        out.append(Token("end", "", len(text)))
        return out

    @property
    def token(self) -> Token:
        """The next token; kind `end` behind the last one."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Consume a token."""
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def accept(self, text: str) -> bool:
        """Consume the next token if it is this word or mark."""
        if self.token.text == text and self.token.kind in ("mark", "word"):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        """Consume this word or mark, or fail."""
        token = self.token
        if not self.accept(text):
            self.fail(f'expected "{text}", found {self.describe(token)}')
        return token

    def take(self, *kinds: str) -> Token:
        """Consume a token of one of the kinds, or fail."""
        if self.token.kind not in kinds:
            wanted = " or ".join(_TOKENS[k] for k in kinds)
            self.fail(f"expected {wanted}, found {self.describe(self.token)}")
        return self.next()

    @staticmethod
    def describe(token: Token) -> str:
        """Return the token for a message."""
        return f'"{token.text[:40]}"' if token.text else "the end of the text"

    def location(self, offset: int) -> Location:
        """Return the place of an offset; cheap where offsets grow."""
        if offset < self._line_start:
            self._line, self._line_start = 1, 0
        newlines = self.text.count("\n", self._line_start, offset)
        if newlines:
            self._line += newlines
            self._line_start = self.text.rfind("\n", 0, offset) + 1
        return Location(self.source, fixed=(self._line, offset - self._line_start + 1))

    def fail(
        self,
        message: str,
        offset: int | None = None,
        hint: str | None = None,
        code: str = "E702",
    ) -> NoReturn:
        """Raise InputError at an offset, by default at the next token."""
        place = self.location(self.token.offset if offset is None else offset)
        raise InputError(Diagnostic(code, "error", message, place, hint=hint))
