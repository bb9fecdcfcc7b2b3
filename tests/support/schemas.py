"""The JSON schemas of docs/schemas/, and whether a document is what they say."""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from referencing import Registry, Resource

# jsonschema makes grammars of IRIs for 2 seconds if it can; no format is checked here.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"


@cache
def schemas() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


@cache
def validator(name: str) -> Any:
    """`error` is what any verb prints if it fails; all others are files."""
    from jsonschema import Draft202012Validator

    resources = [(f"{n}.json", Resource.from_contents(s)) for n, s in schemas().items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    schema = {"$ref": "common.json#/$defs/ErrorDocument"} if name == "error" else schemas()[name]
    return Draft202012Validator(schema, registry=registry)


def require_schema(document: dict[str, Any]) -> None:
    """AssertionError where a document is not what the schema that it names says."""
    name = document["schema"].split("/")[1]
    chosen = "error" if "error" in document else name
    errors = list(validator(chosen).iter_errors(document))
    assert not errors, f"docs/schemas/{name}.json: {'; '.join(map(_deepest, errors))}"


def _deepest(error: Any) -> str:
    while error.context:
        error = max(error.context, key=lambda e: len(e.absolute_path))
    return f"{error.json_path}: {error.message[:300]}"
