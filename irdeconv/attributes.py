"""Attribute types: how the text of an XML attribute becomes a typed value and back."""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from irdeconv.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.spec import Shape, format_shape, parse_shape
from irdeconv.suggest import did_you_mean

Ints = tuple[int, ...]
Floats = tuple[float, ...]
Strings = tuple[str, ...]

_INT = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf|[+-]?nan", re.I)
_INT64 = 2**63


@dataclass(frozen=True)
class AttributeType:
    """Parses and formats one attribute type; `parse` raises ValueError with the reason.

    `format` returns None for a value that the XML leaves out.
    """

    label: str
    parse: Callable[[str], Any]
    format: Callable[[Any], str | None]


def fits_64_bits(value: int) -> bool:
    """Whether an attribute can have this integer: with a sign or without, in 64 bits."""
    return -_INT64 <= value < 2 * _INT64


def parse_int(text: str) -> int:
    """Parse one integer strictly: digits with an optional sign, within 64 bits."""
    text = text.strip()
    if not _INT.fullmatch(text):
        raise ValueError(f'"{text}" is not an integer')
    value = int(text)
    if not fits_64_bits(value):
        raise ValueError(f"{value} does not fit 64 bits")
    return value


def parse_float(text: str) -> float:
    """Parse one floating-point number."""
    text = text.strip()
    if not _FLOAT.fullmatch(text):
        raise ValueError(f'"{text}" is not a number')
    return float(text)


def parse_bool(text: str) -> bool:
    """Parse `true`, `false`, `1` or `0`, in any case."""
    low = text.strip().lower()
    if low in ("true", "1"):
        return True
    if low in ("false", "0"):
        return False
    raise ValueError(f'"{text}" is neither true nor false')


def parse_list(item: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser of comma-separated values; an empty text is an empty list."""

    def parse(text: str) -> Any:
        if not text.strip():
            return ()
        parts = text.split(",")
        for i, part in enumerate(parts):
            if not part.strip():
                raise ValueError(f"value {i + 1} of {len(parts)} is empty (a stray comma?)")
        return tuple(item(part) for part in parts)

    return parse


def _element_type(text: str) -> ElementType:
    found = ELEMENT_TYPES.get(text.strip().lower())
    if found is None:
        hint = did_you_mean(text, ELEMENT_TYPES)
        raise ValueError(f'"{text}" is not an element type' + (f"; {hint}" if hint else ""))
    return found


def choice(options: tuple[str, ...], *, exact: bool = False) -> AttributeType:
    """Return a choice; only an `exact` one, such as ONNX's, tells upper from lower case."""
    known = {o if exact else o.lower(): o for o in options}

    def parse(text: str) -> str:
        found = known.get(text if exact else text.strip().lower())
        if found is None:
            hint = did_you_mean(text, options) if exact else None
            message = f'"{text}" is not one of {", ".join(options)}'
            raise ValueError(f"{message}; {hint}" if hint else message)
        return found

    return AttributeType(" | ".join(options), parse, str)


def format_float(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return repr(float(value)) if math.isfinite(value) else str(value)


def _join(values: Any) -> str:
    return ",".join(format_float(v) if isinstance(v, float) else str(v) for v in values)


_SIMPLE: dict[Any, AttributeType] = {
    int: AttributeType("integer", parse_int, str),
    float: AttributeType("number", parse_float, format_float),
    bool: AttributeType("boolean", parse_bool, lambda v: "true" if v else "false"),
    str: AttributeType("text", str, str),
    Ints: AttributeType("integers", parse_list(parse_int), _join),
    Floats: AttributeType("numbers", parse_list(parse_float), _join),
    Strings: AttributeType("texts", parse_list(str.strip), _join),
    ElementType: AttributeType("element type", _element_type, lambda v: v.name),
    typing.Optional[Shape]: AttributeType(  # noqa: UP045 -- a key must equal the evaluated hint
        "shape", parse_shape, lambda v: format_shape(v)[1:-1]
    ),
}


def attribute_type(hint: Any) -> AttributeType:
    """Return how a field of this type is read and written; TypeError where XML cannot spell it."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return choice(args)
    if origin in (typing.Union, types.UnionType) and type(None) in args:
        inner = attribute_type(next(a for a in args if a is not type(None)))
        return AttributeType(
            inner.label, inner.parse, lambda v: None if v is None else inner.format(v)
        )
    raise TypeError(f"no attribute type for {hint}")
