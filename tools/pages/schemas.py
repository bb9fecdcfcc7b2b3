"""docs/schemas/ and docs/json.md: every JSON document that irdeconv writes, from its records."""

from __future__ import annotations

import functools
import inspect
import json
import operator
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from checkout import ROOT

from irdeconv.base.json_form import Record, keys_of
from irdeconv.cli.diagnostics import ErrorDocument
from pages import DOCS, comments, table, with_parts

SHARED = "common"
ERROR = "ErrorDocument"
TITLES = {
    "batch-journal": "a line of the journal of irdeconv batch",
    "bench": "irdeconv bench, and the file of bench --save",
    "certificates": "the file of lower --certify",
    "demo": "irdeconv demo, and its demo.json",
    "demo-samples": "irdeconv demo --samples",
    "kernels": "the file of run --tune",
    "operations": "irdeconv inspect --operations",
    "piece": "report.json of compare --reduce",
    "suite-manifest": "manifest.json of suite make",
}
BASE = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
Schema = dict[str, Any]


def pages() -> dict[Path, str]:
    """Return the schemas and the text of the page."""
    found = schemas()
    common = found.pop(SHARED)
    rows = [(f"[{n}](#{n})", _code(s["title"])) for n, s in found.items()]
    lines = [table(("document", "of"), rows)]
    for name, schema in found.items():
        of = f"Of {_code(schema['title'])}: [schemas/{name}.json](schemas/{name}.json)."
        lines += [f"\n## {name}\n\n{of}", *_parts(schema)]
    lines += [f"\n## Shared parts\n\nThey are in [schemas/{SHARED}.json](schemas/{SHARED}.json)."]
    out = with_parts(DOCS / "json.md", {"all": "\n".join([*lines, *_parts(common)])})
    for name, schema in (found | {SHARED: common}).items():
        out[DOCS / "schemas" / f"{name}.json"] = json.dumps(schema, indent=2) + "\n"
    return out


def schemas() -> dict[str, Schema]:
    """Return the schema of each document by its name, and that of the parts that several share."""
    parts: dict[str, Schema] = {}
    forms: dict[str, list[str]] = {}
    for record in _documents():
        name = record.json_schema.split("/")[1]
        forms.setdefault(name, []).append(_part(record, parts))
    _part(ErrorDocument, parts)
    reached = {name: _reached(every, parts) for name, every in forms.items()}
    often = [part for every in reached.values() for part in every]
    shared = {ERROR, *_reached([p for p in parts if often.count(p) > 1], parts)}
    common = {"title": "Parts that several documents share"}
    out = {SHARED: _file(SHARED, common, sorted(shared), parts, shared)}
    for name in sorted(forms):
        title = TITLES.get(name, f"irdeconv {name}")
        every = forms[name] + [ERROR] * title.startswith("irdeconv ")
        head = {"title": title, "anyOf": [{"$ref": form} for form in every]}
        own = [part for part in reached[name] if part not in shared]
        out[name] = _file(name, head, own, parts, shared)
    return out


def _documents() -> list[type[Record]]:
    """Return the records that are whole documents, in the order of modules and lines."""
    for path in sorted((ROOT / "irdeconv").rglob("*.py")):
        if re.search(r"^class [^:]*document=", path.read_text("utf-8"), re.M):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    every: list[type[Record]] = [Record]
    for record in every:  # grows
        every += record.__subclasses__()
    found = [record for record in every if record.json_schema]
    return sorted(found, key=lambda r: (r.__module__, inspect.getsourcelines(r)[1]))


def _reached(names: list[str], parts: Mapping[str, Schema]) -> list[str]:
    """Return parts and those in them, in the order in which they are named."""
    every = [*names]
    for name in every:  # grows
        found = re.findall(r'"\$ref": "(\w+)"', json.dumps(parts[name]))
        every += dict.fromkeys(part for part in found if part not in every)
    return every


def _file(
    name: str, head: Schema, own: list[str], parts: Mapping[str, Schema], shared: set[str]
) -> Schema:
    """Return a file with these parts; references lead to it or to the shared file."""
    schema = {**BASE, "$id": f"{name}.json", **head, "$defs": {p: parts[p] for p in own}}
    other = "" if name == SHARED else f"{SHARED}.json"
    place = lambda m: f'"$ref": "{other if m[1] in shared else ""}#/$defs/{m[1]}"'  # noqa: E731
    done: Schema = json.loads(re.sub(r'"\$ref": "(\w+)"', place, json.dumps(schema)))
    return done


def _part(record: type, parts: dict[str, Schema]) -> str:
    """Add the schema of a record and of those in it; return its name."""
    name = record.__name__.lstrip("_")
    if name not in parts:
        parts[name] = {"description": _first(record.__doc__), "type": "object"}
        properties, required = _properties(record, parts)
        more = {"required": required, "additionalProperties": False}
        parts[name] |= {"properties": properties, **more}
    return name


def _properties(record: type, parts: dict[str, Schema]) -> tuple[Schema, list[str]]:
    """Return the keys of a record with their schemas, and those that it always has."""
    properties: Schema = {}
    schema = getattr(record, "json_schema", "")
    if schema[-1:].isdigit():
        text = "the name and the version of this form"
        properties["schema"] = {"const": schema, "description": text}
    required = [*properties]
    for key in keys_of(record):
        kind, text = _attribute(record, key.name)
        nullable = NoneType in get_args(kind) and get_origin(kind) is not Annotated
        if key.merged:
            [whole] = {k for k in get_args(kind) or (kind,) if k is not NoneType}
            own, always = _properties(whole, parts)
            if nullable and not key.optional:
                null = {"type": "null"}
                forms = {k: (v.pop("description"), v) for k, v in own.items()}
                own = {k: {"anyOf": [v, null], "description": d} for k, (d, v) in forms.items()}
            properties |= own
            required += [] if key.optional else always
            continue
        if key.optional and nullable:
            kind = functools.reduce(operator.or_, (k for k in get_args(kind) if k is not NoneType))
        if not key.optional and get_origin(kind) is not NotRequired:
            required.append(key.key)
        assert text, f"{record.__name__}.{key.name}: a comment has to describe the key"
        properties[key.key] = {**_value(kind, parts), "description": text}
    return properties, required


def _attribute(record: type, name: str) -> tuple[Any, str]:
    """Return the type of a field or property, and what describes it."""
    first, _, rest = name.partition(".")
    found = getattr(record, first, None)
    if isinstance(found, property):
        text = _first(found.fget.__doc__)
        return _hints(found.fget)["return"], text[:1].lower() + text[1:]
    kind = _hints(record)[first]
    if rest:
        return _attribute(kind, rest)
    field = getattr(record, "__dataclass_fields__", {}).get(first)
    said = field.metadata.get("what", "") if field else ""
    return kind, comments(record).get(name) or said


def _hints(thing: Any) -> dict[str, Any]:
    """Return the types of annotations, also of classes that only type checkers import."""
    known: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(thing, localns=known, include_extras=True)
        except NameError as e:
            every = (vars(m).get(e.name) for n, m in sys.modules.items() if n[:8] == "irdeconv")
            known[e.name] = next(found for found in every if found is not None)


def _first(text: str | None) -> str:
    """Return the first line of a docstring, without its period."""
    return (text or "").partition("\n")[0].removesuffix(".")


def _value(kind: Any, parts: dict[str, Schema]) -> Schema:
    """Return the schema of a type."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if isinstance(kind, re.Pattern):
        return {"type": "string", "pattern": kind.pattern}
    if kind in TYPES or hasattr(kind, "json_text"):
        return {"type": TYPES.get(kind, "string")}
    if origin in (Annotated, NotRequired):
        return _value(args[-1], parts)
    if origin is Literal:
        return {"enum": [*args]}
    if origin in (Union, UnionType):
        forms = [_value(arg, parts) for arg in args]
        plain = all(f.keys() == {"type"} and isinstance(f["type"], str) for f in forms)
        return {"type": [f["type"] for f in forms]} if plain else {"anyOf": forms}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _value(args[1], parts)}
    if origin is not None:
        return {"type": "array", "items": _value(args[0], parts)}
    return {"$ref": _part(kind, parts)}


def _parts(schema: Schema) -> Iterator[str]:
    """Yield a section for each part of a file."""
    for name, part in schema["$defs"].items():
        rows = []
        for key, value in part["properties"].items():
            mark = "" if key in part["required"] else "+"
            text = value["description"].replace("|", "\\|")
            rows.append((f"`{key}`{mark}", kind(value), text))
        yield f"\n### {name}\n\n{part['description']}.\n\n{table(('key', 'value', ''), rows)}"


def kind(value: Mapping[str, Any]) -> str:
    """The type of a value in a few words."""
    if "$ref" in value:
        return str(value["$ref"].rpartition("/")[2])
    if "const" in value:
        return f'"{value["const"]}"'
    if "enum" in value:
        return " or ".join(f'`"{v}"`' for v in value["enum"])
    if "anyOf" in value:
        return " or ".join(kind(v) for v in value["anyOf"])
    if value.get("type") == "array":
        return f"list of {kind(value['items'])}"
    if value.get("type") == "object":
        return f"object of {kind(value['additionalProperties'])}"
    types = value.get("type", "anything")
    return " or ".join([types] if isinstance(types, str) else types)


def _code(title: str) -> str:
    """Commands and file names in a title, as code."""
    words = title.split(", and ")
    return ", and ".join(f"`{w}`" if w.startswith("irdeconv") else w for w in words)
