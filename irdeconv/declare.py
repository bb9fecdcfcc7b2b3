"""Declaring attributes: what a field of an operation's class says about its XML attribute."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeVar

from irdeconv.attributes import AttributeType, attribute_type, choice
from irdeconv.errors import Problem
from irdeconv.suggest import did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Attribute:
    """One attribute of an operation: field name, XML spelling, how to read and write it.

    `required`: it has no default. `documented`: the specification requires it although readers
    accept its absence, which deserves a warning. `aliases` are other spellings of `xml`.
    """

    name: str
    xml: str
    kind: AttributeType
    required: bool
    documented: bool
    default: Any
    aliases: tuple[str, ...] = ()


def attribute(
    default: Any = dataclasses.MISSING,
    *,
    xml: str | None = None,
    documented: bool = False,
    internal: bool = False,
    exact: bool = False,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare an attribute that is more than its field's name and type say.

    `xml`: its spelling differs. `documented`: the specification requires it. `internal`: it is
    never read from XML. `exact`: its choices tell upper from lower case. `aliases`: other spellings
    that are read as well.
    """
    metadata = {
        "xml": xml,
        "documented": documented,
        "internal": internal,
        "exact": exact,
        "aliases": aliases,
    }
    return field(default=default, metadata=metadata)


def per_class(f: Callable[[type[Any]], T]) -> Callable[[type[Any]], T]:
    """Return `f` with its results kept; mypy does not take classes of operations for hashable."""
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
        hint, exact = hints[f.name], f.metadata.get("exact")
        kind = choice(typing.get_args(hint), exact=True) if exact else attribute_type(hint)
        out[xml] = Attribute(
            name=f.name,
            xml=xml,
            kind=kind,
            required=required,
            documented=bool(f.metadata.get("documented")),
            default=None if required else f.default,
            aliases=f.metadata.get("aliases", ()),
        )
    return out


def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the fields: class variables are many, and nobody asks for theirs."""
    hints: dict[str, Any] = {}
    left = {f.name for f in dataclasses.fields(cls)}
    for owner in cls.__mro__:
        said = vars(owner).get("__annotations__", {})
        own = SimpleNamespace(__annotations__={k: v for k, v in said.items() if k in left})
        hints |= typing.get_type_hints(own, vars(sys.modules[owner.__module__]), dict(vars(owner)))
        left -= said.keys()
    return hints


# What an absent list means, axis by axis.
_PER_AXIS = {"strides": "1", "dilations": "1", "kernel": "nothing"}


def parse_attributes(
    cls: type[Any], data: Mapping[str, str]
) -> tuple[dict[str, Any], list[Problem]]:
    """Convert XML attributes to field values and report what is wrong, missing or unknown."""
    known = attributes(cls)
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    spelled = {alias: a for a in known.values() for alias in a.aliases} | known
    seen: dict[str, str] = {}
    for xml, text in data.items():
        a = spelled.get(xml)
        if a is None:
            ignored = "OpenVINO ignores it" if cls.standard else "it is ignored"
            message = f'there is no attribute "{xml}"; {ignored}'
            hint = did_you_mean(xml, [k for k in known if k not in data] or list(known))
            problems.append(Problem("W100", message, attribute=xml, hint=hint))
            continue
        if a.name in seen:
            text_of = f'"{seen[a.name]}" and "{xml}" are two names of one attribute'
            problems.append(Problem("E210", text_of, attribute=xml, hint="keep one of them"))
            continue
        seen[a.name] = xml
        try:
            values[a.name] = a.kind.parse(text)
        except ValueError as e:
            problems.append(Problem("E106", f'{xml}="{text}": {e}', attribute=xml))
    problems += (p for a in known.values() if a.name not in seen for p in _absent(a))
    return values, problems


def _absent(a: Attribute) -> Iterator[Problem]:
    """Yield what is to be said of an attribute that is not given."""
    if a.required:
        yield Problem("E105", f'the attribute "{a.xml}" is missing')
    elif a.documented:
        yield Problem(
            "W101",
            f'"{a.xml}" is missing, which the specification requires; '
            f"OpenVINO takes {a.kind.format(a.default) or _PER_AXIS.get(a.name, '0')}",
        )
