"""Attributes of operations: how classes declare them, and their values as XML text."""

from __future__ import annotations

import dataclasses
import math
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypeVar

from irdeconv.base.errors import Problem, count, did_you_mean, nearest, question
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.spec import Shape, format_shape, parse_shape
from irdeconv.proof.spelling import boolean, integer, real

Ints = tuple[int, ...]
Floats = tuple[float, ...]
Strings = tuple[str, ...]


@dataclass(frozen=True)
class ValueRange:
    """The numbers, or the element types, that an attribute may have; others are E210.

    Numbers are from `low` to `high`, `above` without `low` itself. Each number of a list must be in
    the range, there must be as many as `counts` has, and one at least that is `needed`. Lists
    `per_axis` have one number for each spatial axis, so they must have one length; empty ones are
    absent. `hint` says more.
    """

    low: Any = 0
    types: tuple[str, ...] = ()
    high: Any = None
    above: bool = False
    counts: tuple[int, ...] = ()
    needed: bool = False
    per_axis: bool = False
    hint: str = ""

    @property
    def rule(self) -> str:
        """The condition on an attribute, or on each value of a list."""
        if self.types:
            return f"be {' or '.join(self.types)}"
        if self.above:
            return "be positive" if self.high is None else "be positive and finite"
        if self.high is not None:
            same = self.low == self.high
            return f"be {self.low}" if same else f"be from {self.low} to {self.high}"
        return {0: "not be negative", 1: "be positive"}.get(self.low, f"be at least {self.low}")

    @property
    def count_rule(self) -> str:
        """The condition on the number of values of a list."""
        some = " or ".join(str(n) for n in self.counts if n)
        return f"have {some}{', or none' if 0 in self.counts else ''}"

    def holds(self, value: Any) -> bool:
        """Whether an attribute may have a value; a NaN is no lower than anything."""
        if self.types:
            return value.name in self.types
        if self.low is None:
            return True
        least = value > self.low if self.above else not value < self.low
        return least and (self.high is None or value <= self.high)

    def misfit(self, value: Any) -> str | None:
        """Return the error of a value, or of a list of them."""
        if not isinstance(value, tuple):
            return None if self.holds(value) else f"is {value}; it must {self.rule}"
        if self.needed and not value:
            return "is empty; it is required"
        if self.counts and len(value) not in self.counts:
            return f"has {count(len(value), 'value')}; it must {self.count_rule}"
        fits = all(map(self.holds, value))
        return None if fits else f"is {list(value)}; each value must {self.rule}"


Positive = Annotated[int, ValueRange(1)]
Natural = Annotated[int, ValueRange(0)]
NotNegative = Annotated[float, ValueRange(0)]
IndexType = Annotated[ElementType, ValueRange(types=("i32", "i64"))]
Unlimited = Annotated[int, ValueRange(-1, hint="-1 sets no limit")]
# Positive and finite as f32, which OpenVINO holds it as.
PositiveScale = Annotated[float, ValueRange(2.0**-150, above=True, high=(2 - 2.0**-23) * 2.0**127)]
NaturalInts = Annotated[Ints, ValueRange(0)]
AxisInts = Annotated[Ints, ValueRange(None, per_axis=True)]
PositiveAxisInts = Annotated[Ints, ValueRange(1, per_axis=True)]
NaturalAxisInts = Annotated[Ints, ValueRange(0, per_axis=True)]


@dataclass(frozen=True)
class AttributeType:
    """Parses and formats one attribute type; `parse` raises ValueError with the reason.

    `format` returns None for a value that the XML leaves out.
    """

    label: str
    parse: Callable[[str], Any]
    format: Callable[[Any], str | None]


def fits_64_bits(value: int) -> bool:
    """Whether some attribute can have this integer: with a sign or without, in 64 bits."""
    return -(2**63) <= value < 2**64


def parse_list(item: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser of comma-separated values; an empty text is an empty list."""

    def parse(text: str) -> Any:
        if not text:
            return ()
        parts = text.split(",")
        for i, part in enumerate(parts):
            if not part.strip():
                raise ValueError(f"value {i + 1} of {len(parts)} is empty (a stray comma?)")
        return tuple(item(part) for part in parts)

    return parse


def _single(text: str) -> float:
    """Return a number of a list, which OpenVINO reads as f32."""
    value = real(text)
    if math.isfinite(value) and abs(value) >= 2.0**128 - 2.0**103:
        raise ValueError(f'"{text}" is beyond the range of f32')
    return value


def _element_type(text: str) -> ElementType:
    found = ELEMENT_TYPES.get(text.lower())
    if found is None:
        hint = did_you_mean(text, ELEMENT_TYPES)
        if text.lower() in ("dynamic", "undefined"):
            hint = "the file leaves the type open: write the type of the data, such as f32"
        raise ValueError(f'"{text}" is not an element type' + (f"; {hint}" if hint else ""))
    return found


class _NoChoiceError(ValueError):
    """A text is no choice; the arguments are the message and the hint."""

    def __str__(self) -> str:
        return "; ".join(self.args)


def choice(options: tuple[str, ...], *, exact: bool = False) -> AttributeType:
    """Return a choice; only an `exact` one, such as ONNX's, distinguishes upper and lower case."""
    known = {o if exact else o.lower(): o for o in options}

    def parse(text: str) -> str:
        found = known.get(text if exact else text.lower())
        if found is None:
            hint = did_you_mean(text, options) or "write one of these"
            raise _NoChoiceError(f'"{text}" is not one of {", ".join(options)}', hint)
        return found

    return AttributeType(" | ".join(options), parse, str)


def format_float(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return repr(float(value)) if math.isfinite(value) else str(value)


def _join(values: Any) -> str:
    return ",".join(format_float(v) if isinstance(v, float) else str(v) for v in values)


_SIMPLE: dict[Any, AttributeType] = {
    int: AttributeType("integer", integer, str),
    float: AttributeType("number", real, format_float),
    bool: AttributeType("boolean", boolean, lambda v: "true" if v else "false"),
    str: AttributeType("text", str, str),
    Ints: AttributeType("integers", parse_list(integer), _join),
    Floats: AttributeType("numbers", parse_list(_single), _join),
    Strings: AttributeType("texts", parse_list(str.strip), _join),
    ElementType: AttributeType("element type", _element_type, lambda v: v.name),
    typing.Optional[Shape]: AttributeType(  # noqa: UP045 -- a key must equal the evaluated hint
        "shape", parse_shape, lambda v: format_shape(v)[1:-1]
    ),
}


def attribute_type(hint: Any) -> AttributeType:
    """Return the reader and writer of a field's type; TypeError if XML cannot spell the type."""
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


T = TypeVar("T")


@dataclass(frozen=True)
class Attribute:
    """One attribute of an operation: field name, XML spelling, how to read and write it.

    `required`: it has no default. `documented`: the specification requires it although readers
    accept its absence, which deserves a warning. `aliases` are other spellings of `xml`. `range`
    limits the values.
    """

    name: str
    xml: str
    kind: AttributeType
    required: bool
    documented: bool
    default: Any
    aliases: tuple[str, ...] = ()
    range: ValueRange | None = None


def attribute(
    default: Any = dataclasses.MISSING,
    *,
    xml: str | None = None,
    required: bool = False,
    documented: bool = False,
    internal: bool = False,
    exact: bool = False,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare an attribute with more properties than its field's name and type.

    `xml`: its spelling differs. `required`: files have it, in spite of the default.
    `documented`: the specification requires it. `internal`: it is never read from XML. `exact`: its
    choices distinguish upper and lower case. `aliases`: other spellings that are read as well.
    """
    metadata = {
        "xml": xml,
        "required": required,
        "documented": documented,
        "internal": internal,
        "exact": exact,
        "aliases": aliases,
    }
    return field(default=default, metadata=metadata)


def per_class(f: Callable[[type[Any]], T]) -> Callable[[type[Any]], T]:
    """Return `f` with its results memoized; mypy thinks that operation classes are not hashable."""
    return cache(f)  # type: ignore[return-value]


@per_class
def attributes(cls: type[Any]) -> dict[str, Attribute]:
    """Return the attributes of an operation by XML name."""
    hints = _hints(cls)
    out = {}
    for f in dataclasses.fields(cls):
        if f.metadata.get("internal"):
            continue
        xml = f.metadata.get("xml") or f.name
        required = f.default is dataclasses.MISSING
        hint, exact, range = hints[f.name], f.metadata.get("exact"), None
        if typing.get_origin(hint) is Annotated:
            hint, range = typing.get_args(hint)
        kind = choice(typing.get_args(hint), exact=True) if exact else attribute_type(hint)
        out[xml] = Attribute(
            name=f.name,
            xml=xml,
            kind=kind,
            required=required or bool(f.metadata.get("required")),
            documented=bool(f.metadata.get("documented")),
            default=None if required else f.default,
            aliases=f.metadata.get("aliases", ()),
            range=range,
        )
    return out


@per_class
def ranges(cls: type[Any]) -> dict[str, ValueRange]:
    """Return the ranges of the attributes that have one; none if a class is not an operation's."""
    if not cls.versions:
        return {}
    return {a.name: a.range for a in attributes(cls).values() if a.range is not None}


def axis_lists(op: Any) -> dict[str, Ints]:
    """Return the attributes that have a value for each spatial axis, by name."""
    return {name: getattr(op, name) for name, r in ranges(type(op)).items() if r.per_axis}


def out_of_range(op: Any) -> Iterator[Problem]:
    """Yield a problem for each attribute whose value is out of its range."""
    for name, range in ranges(type(op)).items():
        wrong = range.misfit(getattr(op, name))
        if wrong is not None:
            yield Problem("E210", f"{name} {wrong}", attribute=name, hint=range.hint)
    yield from _unequal_lengths(axis_lists(op))


def _unequal_lengths(lists: Mapping[str, Ints]) -> Iterator[Problem]:
    """Yield a problem for every per-axis list whose length is not that of most of them."""
    given = {name: len(values) for name, values in lists.items() if values}
    counts = list(given.values())
    usual = max(counts, key=lambda c: (counts.count(c), -c), default=0)
    others = " and ".join(name for name, length in given.items() if length == usual)
    for name, length in given.items():
        if length != usual:
            verb = "has" if list(given.values()).count(usual) == 1 else "have"
            text = f"{name} has {count(length, 'value')}, {others} {verb} {usual}"
            hint = "every list needs one value per spatial axis"
            yield Problem("E304", text, attribute=name, hint=hint)


def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the fields; those of class variables are many, and unused."""
    hints: dict[str, Any] = {}
    left = {f.name for f in dataclasses.fields(cls)}
    for owner in cls.__mro__:
        said = vars(owner).get("__annotations__", {})
        own = SimpleNamespace(__annotations__={k: v for k, v in said.items() if k in left})
        names = vars(sys.modules[owner.__module__]), dict(vars(owner))
        hints |= typing.get_type_hints(own, *names, include_extras=True)
        left -= said.keys()
    return hints


# The meaning of an absent list, axis by axis.
_PER_AXIS = {"strides": "1", "dilations": "1", "kernel": "nothing"}


def parse_attributes(
    cls: type[Any], data: Mapping[str, str]
) -> tuple[dict[str, Any], list[Problem]]:
    """Convert XML attributes to field values and report wrong, missing and unknown ones."""
    known = attributes(cls)
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    spelled = {alias: a for a in known.values() for alias in a.aliases} | known
    seen: dict[str, str] = {}
    for xml, text in data.items():
        a = spelled.get(xml)
        if a is None:
            continue
        if a.name in seen:
            text_of = f'"{seen[a.name]}" and "{xml}" are two names of one attribute'
            problems.append(Problem("E210", text_of, attribute=xml, hint="keep one of them"))
            continue
        seen[a.name] = xml
        try:
            values[a.name] = a.kind.parse(text)
        except ValueError as e:
            reason, hint = e.args if isinstance(e, _NoChoiceError) else (str(e), None)
            found = f'{xml}="{text}": {reason}'
            problems.append(Problem("E106", found, attribute=xml, hint=hint))
    absent = {p.attribute: p for a in known.values() if a.name not in seen for p in _absent(a)}
    missing = [k for k, a in known.items() if a.name not in seen]
    ignored = "OpenVINO ignores it" if cls.standard else "it is ignored"
    for xml in (name for name in data if name not in spelled):
        near = nearest(xml, missing or list(known))
        meant = absent.pop(next(iter(near), None), None)
        code = "W100" if meant is None or meant.code == "W101" else meant.code
        text = f'there is no attribute "{xml}"; {ignored if meant is None else meant.message}'
        problems.append(Problem(code, text, attribute=xml, hint=question(near)))
    return values, problems + [replace(p, attribute=None) for p in absent.values()]


def _absent(a: Attribute) -> Iterator[Problem]:
    if a.required:
        yield Problem("E105", f'the attribute "{a.xml}" is missing', attribute=a.xml)
    elif a.documented:
        usual = a.kind.format(a.default) or _PER_AXIS.get(a.name, "0")
        text = f'"{a.xml}" is missing, which the specification requires; OpenVINO takes {usual}'
        yield Problem("W101", text, attribute=a.xml)
