"""What a verb has answered to an item of a batch, as a row of the report.

The verb writes JSON, which goes to `result.json` in the item's folder. No path of that folder
stays in it, so that the same work gives the same bytes in any folder; in messages the folder is
called as in the end.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from irdeconv.batches.rows import STATUS, Row
from irdeconv.cli.diagnostics import code_of
from irdeconv.errors import IrdeconvError
from irdeconv.io.atomic import write_file
from irdeconv.plural import count

RESULT = "result.json"
MOST_DIAGNOSTICS = 50  # of an item in the report; result.json has all
MOST_TEXT = 2000  # characters of a message in the report


@dataclass(frozen=True)
class Places:
    """Where an item's files are `made`, and what their folder is called in the end."""

    made: str
    final: str

    def told(self, value: Any) -> Any:
        """Return a document in which paths of files that were made begin in their folder."""
        if isinstance(value, str):
            return value.removeprefix(self.made + os.sep).replace(self.made, self.final)
        if isinstance(value, list):
            return [self.told(v) for v in value]
        if isinstance(value, dict):
            return {k: self.told(v) for k, v in value.items()}
        return value


def row_of(verb: str, code: int, text: str, places: Places | None) -> Row:
    """Return the row of a verb that has printed a JSON document."""
    if not text:  # an extension may end the verb
        code, text = 70, '{"error": "no answer", "diagnostics": []}'
    document = json.loads(text)
    document = document if places is None else places.told(document)
    data = (json.dumps(document, indent=1) + "\n").encode()
    if places is not None:
        write_file(Path(places.made, RESULT), data)
    found = islice(diagnostics(document), MOST_DIAGNOSTICS)
    row: Row = {
        "status": STATUS.get(code, "bug"),
        "exit_code": code,
        "summary": _cut(summary(verb, document)),
        "result": hashlib.sha256(data).hexdigest(),
        "diagnostics": [_cut(d) for d in found],
        "files": [] if places is None else list(files(places.made)),
    }
    if code in (5, 70):
        row["last"] = True  # the process may lack memory that nobody gives back
    return row


def failed(error: IrdeconvError | MemoryError, places: Places | None) -> Row:
    """Return the row of an item whose answer could not be kept."""
    found = error.diagnostics if isinstance(error, IrdeconvError) else ()
    code = 5 if isinstance(error, MemoryError) else code_of(found) or error.exit_code
    diagnostics = [d.to_dict() for d in found[:MOST_DIAGNOSTICS]]
    if places is not None:
        diagnostics = places.told(diagnostics)
    row: Row = {
        "status": STATUS.get(code, "bug"),
        "exit_code": code,
        "summary": _cut(diagnostics[0]["message"]) if found else "out of memory",
        "result": None,
        "diagnostics": _cut(diagnostics),
        "files": [],
    }
    return {**row, "last": True} if code == 5 else row


def _cut(value: Any) -> Any:
    """Return a value whose texts are no longer than a report should have."""
    if isinstance(value, str):
        return value if len(value) <= MOST_TEXT else f"{value[:MOST_TEXT]}..."
    if isinstance(value, list):
        return [_cut(v) for v in value]
    if isinstance(value, dict):
        return {k: _cut(v) for k, v in value.items()}
    return value


def files(folder: str) -> Iterator[dict[str, Any]]:
    """Yield name, size and digest of each file in an item's folder, by name."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            name = path.relative_to(folder).as_posix()
            yield {"name": name, "bytes": path.stat().st_size, "sha256": digest}


def diagnostics(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what a verb has found, errors first."""
    proof = document.get("proof") or {}
    found = [*document.get("diagnostics", ()), *proof.get("warnings", ())]
    found = [d for d in found if isinstance(d, dict)]
    yield from (d for d in found if d["severity"] == "error")
    yield from (d for d in found if d["severity"] != "error")


def summary(verb: str, document: dict[str, Any]) -> str:
    """Return one line of what a verb has answered."""
    if "error" in document:
        found = next(diagnostics(document), None)
        return str(found["message"] if found else document["error"].split("\n")[0])
    return _SUMMARIES[verb](document)


def _validated(document: dict[str, Any]) -> str:
    errors, warnings = document["errors"], document["warnings"]
    return f"{count(errors, 'error')}, {count(warnings, 'warning')}"


def _inferred(document: dict[str, Any]) -> str:
    differs = document["differs"]
    tensors = count(len(document["tensors"]), "tensor")
    return f"{tensors}, {differs} unlike what is declared" if differs else tensors


def _lowered(document: dict[str, Any]) -> str:
    layers = document["layers"]
    if not layers:
        return "no deconvolutions, nothing to lower"
    done = sum(layer["form"] is not None for layer in layers)
    text = f"{count(done, 'deconvolution')} of {len(layers)} lowered"
    made = document.get("certificates")
    if made is None:
        return text
    return f"{text}, {sum(c['reason'] is None for c in made)} proved"


def _run(document: dict[str, Any]) -> str:
    outputs = document["outputs"]
    shapes = ", ".join(f"{name} {facts['shape']}" for name, facts in outputs.items())
    return shapes if len(shapes) < 100 else count(len(outputs), "output")


def _compared(document: dict[str, Any]) -> str:
    tensors = count(len(document["tensors"]), "tensor")
    if document["passed"]:
        return f"the same: {tensors} compared"
    wrong = sum(not tensor["passed"] for tensor in document["tensors"])
    return f"different: {wrong} of {tensors}"


def _checked(document: dict[str, Any]) -> str:
    layers = document["proof"]["layers"]
    if not layers:
        return "nothing to prove: no rewritten layers"
    done = sum(bool(layer.get("passed")) for layer in layers)
    return f"{done} of {count(len(layers), 'rewritten layer')} proved for every size"


_SUMMARIES = {
    "validate": _validated,
    "infer": _inferred,
    "lower": _lowered,
    "run": _run,
    "compare": _compared,
    "check-certificate": _checked,
}
