"""JSON documents of records: their fields in order, records in them as objects, tuples as lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_SCALARS = frozenset((str, int, float, bool, type(None)))


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
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return _plain(dict(value))
    return json_form(value) if is_dataclass(value) else value
