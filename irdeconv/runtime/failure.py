"""A layer that fails while a graph is running: what to say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.codes import CODES
from irdeconv.errors import (
    Diagnostic,
    ExecutionError,
    IrdeconvError,
    LimitError,
    Note,
    OpError,
)
from irdeconv.graph import Node
from irdeconv.spec import Spec


def failure(node: Node, arrays: Sequence[Any], error: Exception) -> IrdeconvError:
    """Return what to raise where a layer fails, with the arrays that it got."""
    error = _told(node, arrays, error)
    shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in map(np.asarray, arrays))
    hint, notes = None, [Note(f"its inputs are {shapes or 'none'}")]
    text = str(error) or type(error).__name__
    memory = isinstance(error, MemoryError)
    if isinstance(error, OpError):
        code, hint = error.problem.code, error.problem.hint
        memory = code == "E602"
        if not memory and code != "E300":
            notes.append(Note(f"this is {code}: {CODES[code].title}"))
    diagnostic = Diagnostic(
        code="E602" if memory else "E500",
        severity="error",
        message=f'{node.type} "{node.name}": {text}',
        location=node.location,
        layer=node.name,
        notes=tuple(notes),
        hint=hint,
    )
    return LimitError(diagnostic) if memory else ExecutionError(diagnostic)


def _told(node: Node, arrays: Sequence[Any], error: Exception) -> Exception:
    """Return what inference says of these very arrays where it refuses them; else the error.

    Sizes and values that were open when the graph was inferred may be what is wrong.
    """
    if isinstance(error, OpError | IrdeconvError | MemoryError):
        return error
    try:
        node.op.infer(*(Spec(None, a.shape, Spec.of(a).value) for a in map(np.asarray, arrays)))
    except OpError as refusal:
        return refusal
    except Exception:  # without element types it need not get through
        return error
    return error
