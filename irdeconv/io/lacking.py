"""Constants without data: their file is missing, was left out, or the text form has elided them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irdeconv.constant import FileData
from irdeconv.errors import Diagnostic, Note
from irdeconv.graph import Node
from irdeconv.ops.basic import Const, Opaque
from irdeconv.plural import count

ELIDED = "the text form was printed without its large constants"
MEND = "name the .bin with weights= or --weights"
_MENDS = {ELIDED: "dump(graph, elide=None) and inspect --constants --format ir keep them"}
_NAMED = 20  # names in a note


def lacks_data(op: object) -> bool:
    """Whether an operation is a constant whose bytes are not there."""
    return isinstance(op, Const) and not op.data.available


def no_data(nodes: Sequence[Node], what: str) -> Diagnostic:
    """Return the one error (E120) of all layers that lack data; `what` is said of the first."""
    first, *more = nodes
    reason = _reason(first.op) or "its weights file is missing"
    others = f", and {count(len(more), 'more layer')} as well" if more else ""
    names = ", ".join(f'"{n.name}"' for n in more[:_NAMED])
    cut = ", ..." if len(more) > _NAMED else ""
    return Diagnostic(
        "E120",
        "error",
        f'{first.type} "{first.name}" {what}{others}: {reason}',
        first.location,
        first.name,
        notes=(Note(f"the others are {names}{cut}"),) if more else (),
        hint=_MENDS.get(reason, MEND),
    )


def _reason(op: object) -> str | None:
    """Return why the bytes are not there, where their source says so."""
    data: Any = op.data if isinstance(op, Const) else None
    data = op.weights if isinstance(op, Opaque) else data
    source = data.source if isinstance(data, FileData) else None
    found = getattr(source, "reason", None)
    return found if isinstance(found, str) else None
