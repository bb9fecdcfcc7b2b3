"""JSON documents of records: their fields in order, records in them as objects, tuples as lists."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Annotated, Any, ClassVar, NamedTuple, TypedDict, dataclass_transform

from irdeconv.base.hints import hinted, named

Real = Annotated[float, float | str | None]  # a text if it is not finite
_SCALARS = frozenset((str, int, float, bool, type(None)))


class NamedLayer(TypedDict):
    """A layer by name."""

    name: str  # of the layer
    type: str  # of its operation


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """A frozen dataclass with a JSON form, of which `make pages` writes the schema.

    Without `keys`, the form has all fields. `keys` are words: names of fields and properties,
    `key=name` or `key=field.name` if the names differ, `...` for all other fields; `name?` is left
    out if it has its default, `*name` is replaced by the keys of the record in that field.
    `document` is the name of a whole document, with a version if it has the key `schema`. The
    comment behind or above a field, or the docstring of a property, describes the key. A field
    `Annotated[T, J]` has the type J in JSON.
    """

    json_keys: ClassVar[str] = "..."
    json_schema: ClassVar[str] = ""

    def __init_subclass__(
        cls, *, keys: str = "...", document: str = "", kw_only: bool = False, repr: bool = True
    ) -> None:
        cls.json_keys, cls.json_schema = keys, document and f"irdeconv/{document}"
        hinted(dataclass(frozen=True, kw_only=kw_only, repr=repr)(cls))

    @named
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        cls: Any = type(self)
        found: dict[str, Any] = {}
        if cls.json_schema[-1:].isdigit():
            found["schema"] = cls.json_schema
        for key in keys_of(cls):
            value = key.value(self)
            if key.optional and value == key.default:
                continue
            if not key.merged:
                found[key.key] = _plain(value)
            elif value is None:
                kinds = typing.get_args(typing.get_type_hints(cls)[key.name])
                [kind] = {*kinds} - {NoneType}
                found |= dict.fromkeys(k.key for k in keys_of(kind))
            else:
                found |= _plain(value)
        return found


class Key(NamedTuple):
    """A key of a JSON form, and the attribute that it has the value of."""

    key: str
    name: str
    value: Callable[[Any], Any]
    optional: bool = False
    merged: bool = False
    default: Any = None


@cache
def keys_of(record: Any) -> list[Key]:
    """Return the keys of a Record, another dataclass or a TypedDict."""
    every = [f.name for f in fields(record)] if is_dataclass(record) else record.__annotations__
    words = getattr(record, "json_keys", "...").split()
    named = {word.strip("?*").rpartition("=")[2] for word in words}
    out = []
    for word in words:
        key, _, name = word.strip("?*").partition("=")
        if word == "...":
            out += [Key(n, n, attrgetter(n)) for n in every if n not in named]
        else:
            default = _default(record, name or key) if word[-1] == "?" else None
            value = attrgetter(name or key)
            out.append(Key(key, name or key, value, word[-1] == "?", word[0] == "*", default))
    return out


def _default(record: Any, name: str) -> Any:
    found = next((f for f in fields(record) if f.name == name), None)
    if found is None:  # a property
        return None
    return found.default if found.default_factory is MISSING else found.default_factory()


def json_form(record: Any, keys: str = "", **values: Any) -> dict[str, Any]:
    """Return the JSON document of a record.

    `keys` are separated by spaces; without them, every field is one. A key in `values` has that
    value, any other key the attribute of its name.
    """
    names = keys.split() or [f.name for f in fields(record)]
    return {n: _plain(values[n] if n in values else getattr(record, n)) for n in names}


def _plain(value: Any) -> Any:
    if type(value) in _SCALARS:  # of a page there are a million
        return value
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if hasattr(type(value), "json_text"):
        return str(value)
    if hasattr(type(value), "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return _plain(dict(value))
    return json_form(value) if is_dataclass(value) else value


def finite(value: Any) -> Any:
    """Return a value in which floats that JSON cannot spell are texts."""
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return value
