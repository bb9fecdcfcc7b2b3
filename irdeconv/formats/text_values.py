"""Values in the text form: tokens with places, literals, specs, arrays.

Arrays are bit-exact. A value is written as readable numbers only if reading them back gives the
same bytes. Others (large arrays, NaN payloads, padding bits) are written as base64 of the `.bin`
encoding.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from irdeconv.base.errors import Diagnostic, InputError, did_you_mean
from irdeconv.base.limits import LARGEST_INT
from irdeconv.base.source import Location, SourceFile
from irdeconv.base.tables import escaped_json
from irdeconv.formats.document import MemoryWeights, NoWeights
from irdeconv.formats.layers import ELIDED
from irdeconv.ir.attributes import fits_64_bits
from irdeconv.ir.constant import ArrayData, ConstantData, FileData, decode, encode
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.spec import Array, Dim, Interval, Shape, Spec, is_static

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
        """Return the place of an offset; cheap if offsets grow."""
        if offset < self._line_start:
            self._line, self._line_start = 1, 0
        newlines = self.text.count("\n", self._line_start, offset)
        if newlines:
            self._line += newlines
            self._line_start = self.text.rfind("\n", 0, offset) + 1
        return Location(self.source, fixed=(self._line, offset - self._line_start + 1))

    def fail(
        self, message: str, offset: int | None = None, hint: str | None = None, code: str = "E702"
    ) -> NoReturn:
        """Raise InputError at an offset, by default at the next token."""
        place = self.location(self.token.offset if offset is None else offset)
        raise InputError(Diagnostic(code, "error", message, place, hint=hint))


READABLE_ELEMENTS = 16  # elements; larger arrays are base64


class ElidedWeights(NoWeights):
    """The data of a constant that was left out of a printed text; `digest` is its hash."""

    def __init__(self, digest: str) -> None:
        super().__init__("(left out of the text form)", ELIDED)
        self.digest = digest

    def __reduce__(self) -> tuple[Any, ...]:
        return ElidedWeights, (self.digest,)


def quote(text: str) -> str:
    """Return a JSON string without control, invisible or direction-changing characters."""
    return escaped_json(json.dumps(text, ensure_ascii=False))


def format_bytes(raw: bytes | memoryview) -> str:
    """Return `b"<base64>"`."""
    return f'b"{base64.b64encode(raw).decode()}"'


def format_dim(dim: Dim) -> str:
    """Return `3`, `?`, `..9`, `3..`, `-5..9`; other than `str(dim)` it loses nothing."""
    if not isinstance(dim, Interval):
        return str(int(dim))
    if dim.lo == 0 and dim.hi is None:
        return "?"
    return f"{dim.lo or ''}..{'' if dim.hi is None else dim.hi}"


def format_shape(shape: Shape | None) -> str:
    """Return `[1,3,?]`, or `[...]` for an unknown rank."""
    return "[...]" if shape is None else f"[{','.join(map(format_dim, shape))}]"


def format_spec(spec: Spec, constant: Array | None = None) -> str:
    """Return `f32[1,3]`, with `=[...]` if its value is known (`=data`: the constant's own)."""
    text = f"{spec.dtype or '?'}{format_shape(spec.shape)}"
    if spec.value is None or spec.dtype is None or spec.shape != spec.value.shape:
        return text
    value = format_array(spec.value, spec.dtype)
    if constant is not None and value == format_array(constant, spec.dtype):
        return f"{text}=data"
    return f"{text}={value}"


def format_array(values: Array, dtype: ElementType) -> str:
    """Return a flat list of readable elements, or base64."""
    if values.dtype == object and dtype.kind != "string":
        return f"[{', '.join(format_dim(v) for v in values.reshape(-1))}]"
    return readable(values, dtype, encode(values, dtype)) or format_bytes(encode(values, dtype))


def readable(values: Array, dtype: ElementType, raw: bytes | memoryview) -> str | None:
    """Return the elements as text if that reads back to `raw`, else None."""
    if values.size > READABLE_ELEMENTS:
        return None
    if dtype.kind == "string" and not all(isinstance(v, str) for v in values.reshape(-1)):
        return None
    texts = [_element(v, dtype) for v in values.reshape(-1)]
    with np.errstate(all="ignore"):
        again = to_array(_items(values, texts, dtype), dtype, values.shape)
    return f"[{', '.join(texts)}]" if encode(again, dtype) == bytes(raw) else None


def _items(values: Array, texts: Sequence[str], dtype: ElementType) -> list[Any]:
    """Return the values that the elements' texts are parsed to."""
    if dtype.kind == "string":
        return list(values.reshape(-1))
    if dtype.is_real:
        return [float(t) for t in texts]
    return [v == "true" for v in texts] if dtype.kind == "bool" else [int(t) for t in texts]


def _element(value: Any, dtype: ElementType) -> str:
    if dtype.kind == "string":
        return quote(value)
    if dtype.kind == "bool":
        return "true" if value else "false"
    if not dtype.is_real:
        return str(int(value))
    text = str(value)
    # Some types print -0 and 1; without a point the parser would take them for integers.
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def to_array(items: Sequence[Any], dtype: ElementType, shape: tuple[int, ...]) -> Array:
    """Return parsed elements as an array; ValueError if they do not fit."""
    kinds: dict[str, tuple[type, ...]] = {"string": (str,), "bool": (bool,), "float": (float, int)}
    for item in items:
        allowed = kinds.get(dtype.kind, (int,))
        if not isinstance(item, allowed) or (isinstance(item, bool) and dtype.kind != "bool"):
            raise ValueError(f"{item!r} is not a value of {dtype}")
    try:
        if not dtype.is_real:
            return np.array(items, dtype.container).reshape(shape)
        with np.errstate(all="ignore"):
            wide = np.array(items, np.float64).astype(dtype.container)
        return wide.reshape(shape)
    except OverflowError:
        raise ValueError(f"a value does not fit {dtype}") from None


def format_data(
    data: ConstantData, dtype: ElementType, shape: Shape | None, elide: int | None
) -> str:
    """Return a constant's data: elements if few, base64, elided, or the missing bytes' place."""
    if not data.available:
        assert isinstance(data, FileData)
        if isinstance(data.source, ElidedWeights):
            return _elided(data.size, data.source.digest)
        return f"missing({quote(data.source.path)}, {data.offset}, {data.size})"
    raw = data.raw()
    count = is_static(shape) and int(np.prod(shape, dtype=np.int64))
    text = None
    if is_static(shape) and count <= READABLE_ELEMENTS:
        text = readable(data.values if isinstance(data, ArrayData) else data.array(), dtype, raw)
    if text is not None:
        return text
    if elide is None or len(raw) <= elide:
        return format_bytes(raw)
    return _elided(len(raw), hashlib.blake2b(raw, digest_size=8).hexdigest())


def _elided(size: int, digest: str) -> str:
    return f"elided({size}, {quote(digest)})"


DEPTH = 60  # nested lists and specs
_WORDS = {"none": None, "true": True, "false": False, "nan": math.nan, "inf": math.inf}


@dataclass(frozen=True)
class Missing:
    """`missing("net.bin", offset, size)`: data in a file that is missing."""

    path: str
    offset: int
    size: int


@dataclass(frozen=True)
class Omitted:
    """`elided(size, "hash")`: data that was left out when the text was printed."""

    size: int
    digest: str


class Data:
    """The word `data` behind a spec: its value is the constant's own."""


def literal(lex: Lexer, depth: int = 0) -> Any:
    """Parse one value."""
    token = lex.next()
    if token.kind == "string":
        return string(lex, token)
    if token.kind == "bytes":
        return raw(lex, token)
    if token.kind == "number":
        return int(token.text) if token.text.lstrip("-").isdigit() else float(token.text)
    if token.kind == "range":
        return _range(lex, token)
    if token.text == "[":
        return tuple(items(lex, _deeper(lex, token, depth)))
    if token.text == "?":
        return _spec(lex, None, token, depth) if _touches(lex, token) else Interval(0, None)
    if token.kind == "word":
        return _word(lex, token, depth)
    return lex.fail(f"expected a value, found {lex.describe(token)}", token.offset)


def _deeper(lex: Lexer, token: Token, depth: int) -> int:
    """Return the depth inside a list or a spec that begins with a token."""
    if depth >= DEPTH:
        lex.fail("values are nested too deeply", token.offset)
    return depth + 1


def items(lex: Lexer, depth: int = 0) -> list[Any]:
    """Parse `a, b, c]` behind the opening bracket."""
    out: list[Any] = []
    while not lex.accept("]"):
        if out:
            lex.expect(",")
        out.append(literal(lex, depth))
    return out


def string(lex: Lexer, token: Token) -> str:
    """Return the value of a string token."""
    try:
        text: str = json.loads(token.text)
    except ValueError as e:
        lex.fail(f"malformed string: {e}", token.offset)
    return text


def raw(lex: Lexer, token: Token) -> bytes:
    """Return the value of a base64 token."""
    try:
        return base64.b64decode(token.text[2:-1], validate=True)
    except ValueError as e:
        lex.fail(f"malformed base64: {e}", token.offset)


def _count(lex: Lexer) -> int:
    """Parse a number of bytes."""
    token = lex.take("number")
    if not token.text.isdigit() or int(token.text) > LARGEST_INT:
        lex.fail(f"{token.text[:40]} is not a number of bytes", token.offset)
    return int(token.text)


def _range(lex: Lexer, token: Token) -> Interval:
    lo, _, hi = token.text.partition("..")
    low, high = int(lo or 0), int(hi) if hi else None
    if high is not None and low > high:
        lex.fail(f"{token.text} is an empty range", token.offset)
    if max(low - 1, high or 0) > LARGEST_INT:  # the lower bound 2**63 means that nothing fits
        text = f"a bound above {LARGEST_INT}, the largest number of 64 bits"
        lex.fail(f"{token.text[:60]} has {text}", token.offset)
    return Interval(low, high)


def _touches(lex: Lexer, token: Token) -> bool:
    return lex.token.text == "[" and lex.token.offset == token.end


def _word(lex: Lexer, token: Token, depth: int) -> Any:
    if token.text in _WORDS:
        return _WORDS[token.text]
    if token.text == "data":
        return Data()
    if token.text == "missing":
        return Missing(*_arguments(lex, _text, _count, _count))
    if token.text == "elided":
        return Omitted(*_arguments(lex, _count, _text))
    dtype = ELEMENT_TYPES.get(token.text)
    if dtype is None:
        hint = did_you_mean(token.text, [*ELEMENT_TYPES, *_WORDS])
        lex.fail(f'"{token.text}" is not a value', token.offset, hint)
    return _spec(lex, dtype, token, depth) if _touches(lex, token) else dtype


def _text(lex: Lexer) -> str:
    return string(lex, lex.take("string"))


def _arguments(lex: Lexer, *kinds: Callable[[Lexer], Any]) -> list[Any]:
    """Parse `(a, b, c)`."""
    out: list[Any] = []
    for parse in kinds:
        lex.expect("," if out else "(")
        out.append(parse(lex))
    lex.expect(")")
    return out


@dataclass(frozen=True)
class OwnValue(Spec):
    """A spec written `f32[2]=data`, before the constant's array is put in."""


def _spec(lex: Lexer, dtype: ElementType | None, start: Token, depth: int) -> Spec:
    inside = _deeper(lex, start, depth)
    shape = _shape(lex, inside)
    if not lex.accept("="):
        return Spec(dtype, shape)
    begin = lex.token
    value = literal(lex, inside)
    if isinstance(value, Data):
        return OwnValue(dtype, shape)
    if dtype is None or not is_static(shape):
        lex.fail("a value needs an element type and an exact shape", start.offset)
    if isinstance(value, tuple) and any(isinstance(v, Interval) for v in value):
        if not all(isinstance(v, (int, Interval)) and not isinstance(v, bool) for v in value):
            lex.fail("a partly known value holds dimensions alone", begin.offset)
        partly = np.empty(len(value), object)
        partly[:] = value
        try:
            return Spec(dtype, shape, partly.reshape(shape))
        except ValueError as e:
            lex.fail(str(e), begin.offset)
    return Spec(dtype, shape, array(lex, value, dtype, shape, begin.offset))


def _shape(lex: Lexer, depth: int) -> Shape | None:
    lex.expect("[")
    if lex.token.kind == "any":
        lex.next()
        lex.expect("]")
        return None
    start = lex.token.offset
    found = items(lex, depth)
    if not all(isinstance(d, Interval) or (type(d) is int and d >= 0) for d in found):
        lex.fail("a shape holds dimensions: 3, ?, 3..9", start)
    if any(isinstance(d, int) and d > LARGEST_INT for d in found):
        text = f"a dimension above {LARGEST_INT}, the largest number of 64 bits"
        lex.fail(f"a shape has {text}", start)
    return tuple(found)


def array(lex: Lexer, value: Any, dtype: ElementType, shape: tuple[int, ...], offset: int) -> Array:
    """Return a list or base64 as an array of this type and shape."""
    try:
        if isinstance(value, bytes):
            return decode(value, dtype, shape)
        if isinstance(value, tuple) and len(value) == math.prod(shape):
            values = to_array(value, dtype, shape)
            encode(values, dtype)  # refuses numbers that the type cannot hold: 4 as u2
            return values
        problem = f"{math.prod(shape)} values of {dtype} belong here"
    except ValueError as e:
        problem = str(e)
    return lex.fail(problem, offset)


def constant(
    lex: Lexer, value: Any, dtype: ElementType, shape: Shape | None, offset: int
) -> ConstantData:
    """Return the data of a constant; bytes are kept as they are."""
    exact = tuple(shape) if is_static(shape) else ()
    if isinstance(value, Missing):
        return FileData(NoWeights(value.path), value.offset, value.size, dtype, exact)
    if shape is not None and not is_static(shape):
        lex.fail("a constant has an exact shape", offset)
    if isinstance(value, Omitted):
        return FileData(ElidedWeights(value.digest), 0, value.size, dtype, exact)
    if isinstance(value, tuple):
        return ArrayData.of(array(lex, value, dtype, exact, offset), dtype)
    if not isinstance(value, bytes):
        lex.fail("a list of values or base64 belongs here", offset)
    if is_static(shape):
        array(lex, value, dtype, exact, offset)
    return FileData(MemoryWeights(value, lex.source.path), 0, len(value), dtype, exact)


def fits(value: Any, hint: Any) -> bool:
    """Whether a parsed value may be assigned to a field of this type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return value in args
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, a) for a in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(fits(v, args[0]) for v in value)
        return len(args) == len(value) and all(map(fits, value, args))
    if hint is float:
        return isinstance(value, float) or fits(value, int)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and fits_64_bits(value)
    if hint is type(None):
        return value is None
    return not isinstance(hint, type) or isinstance(value, hint)
