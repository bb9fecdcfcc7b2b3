"""docs/json.md: every JSON document that irdeconv writes, from docs/schemas/."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pages import DOCS, with_parts

SHARED = "Shared parts"


def pages() -> dict[Path, str]:
    """Return the text of the page."""
    found = {p.stem: json.loads(p.read_text()) for p in sorted((DOCS / "schemas").glob("*.json"))}
    common = found.pop("common")
    lines = ["| document | of |\n|---|---|"]
    lines += [f"| [{n}](#{n}) | {_code(s['title'])} |" for n, s in found.items()]
    for name, schema in found.items():
        lines += ["", *_document(name, schema)]
    lines += ["", f"## {SHARED}", ""]
    for name, part in common["$defs"].items():
        lines += [*_object(name, part, "###"), ""]
    return with_parts(DOCS / "json.md", {"all": "\n".join(lines)})


def _document(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {name}\n\nOf {_code(schema['title'])}: [schemas/{name}.json](schemas/{name}.json).\n"
    if "properties" in schema:
        yield from _table(schema)
    for form in schema.get("anyOf", ()):
        if "properties" in form:
            yield f"\n{form['description']}\n"
            yield from _table(form)
    for part, body in schema.get("$defs", {}).items():
        yield ""
        yield from _object(part, body, "###")


def _object(name: str, body: Mapping[str, Any], level: str) -> Iterator[str]:
    yield f"{level} {name}\n\n{body['description']}\n"
    yield from _table(body)


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| key | value | |\n|---|---|---|"
    for key, value in schema["properties"].items():
        mark = "" if key in schema["required"] else "+"
        text = value["description"].replace("|", "\\|")
        yield f"| `{key}`{mark} | {kind(value)} | {text} |"


def kind(value: Mapping[str, Any]) -> str:
    """The type of a value in a few words."""
    if "$ref" in value:
        return value["$ref"].rpartition("/")[2]
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
