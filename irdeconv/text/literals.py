"""Parse the values of the text form: numbers, strings, lists, specs, constants' data."""

from __future__ import annotations

import base64
import json
import math
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from irdeconv.attributes import fits_64_bits
from irdeconv.constant import ArrayData, ConstantData, FileData
from irdeconv.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.io.weights import MemoryWeights, NoWeights
from irdeconv.limits import LARGEST_INT
from irdeconv.packing import decode, encode
from irdeconv.spec import Array, Interval, Shape, Spec, is_static
from irdeconv.suggest import did_you_mean
from irdeconv.text.lexer import Lexer, Token
from irdeconv.text.values import ElidedWeights, to_array, to_dims

DEPTH = 60  # nested lists and specs
_WORDS = {"none": None, "true": True, "false": False, "nan": math.nan, "inf": math.inf}


@dataclass(frozen=True)
class Missing:
    """`missing("net.bin", offset, size)`: data that lies in a file that is not there."""

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
        return _number(token)
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


def _number(token: Token) -> int | float:
    digits = token.text.lstrip("-")
    return int(token.text) if digits.isdigit() else float(token.text)


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
    if max(low - 1, high or 0) > LARGEST_INT:  # a lower bound of 2**63 is what nothing fits
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
        return _missing(lex)
    if token.text == "elided":
        return _omitted(lex)
    dtype = ELEMENT_TYPES.get(token.text)
    if dtype is None:
        hint = did_you_mean(token.text, [*ELEMENT_TYPES, *_WORDS])
        lex.fail(f'"{token.text}" is not a value', token.offset, hint)
    return _spec(lex, dtype, token, depth) if _touches(lex, token) else dtype


def _missing(lex: Lexer) -> Missing:
    lex.expect("(")
    path = string(lex, lex.take("string"))
    lex.expect(",")
    offset = _count(lex)
    lex.expect(",")
    size = _count(lex)
    lex.expect(")")
    return Missing(path, offset, size)


def _omitted(lex: Lexer) -> Omitted:
    lex.expect("(")
    size = _count(lex)
    lex.expect(",")
    digest = string(lex, lex.take("string"))
    lex.expect(")")
    return Omitted(size, digest)


@dataclass(frozen=True)
class OwnValue(Spec):
    """A spec written `f32[2]=data`, before the constant's array is put in."""


def _spec(lex: Lexer, dtype: ElementType | None, start: Token, depth: int) -> Spec:
    inside = _deeper(lex, start, depth)
    shape = _shape(lex, inside)
    if not lex.accept("="):
        return Spec(dtype, shape)
    at = lex.token
    value = literal(lex, inside)
    if isinstance(value, Data):
        return OwnValue(dtype, shape)
    if dtype is None or not is_static(shape):
        lex.fail("a value needs an element type and an exact shape", start.offset)
    if isinstance(value, tuple) and any(isinstance(v, Interval) for v in value):
        return Spec(dtype, shape, _partial(lex, value, shape, at.offset))
    return Spec(dtype, shape, array(lex, value, dtype, shape, at.offset))


def _partial(lex: Lexer, value: tuple[Any, ...], shape: tuple[int, ...], offset: int) -> Array:
    try:
        return to_dims(value, shape)
    except ValueError as e:
        return lex.fail(str(e), offset)


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
            encode(values, dtype)  # refuses what the type cannot hold: 4 as u2
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
    source = MemoryWeights(value, lex.source.path)
    return FileData(source, 0, len(value), dtype, exact)


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
