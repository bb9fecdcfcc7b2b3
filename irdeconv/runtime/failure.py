"""A layer that fails while a graph is running: what to say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.errors import (
    Diagnostic,
    ExecutionError,
    IrdeconvError,
    LimitError,
    Note,
    OpError,
)
from irdeconv.graph import Node


def failure(node: Node, arrays: Sequence[Any], error: Exception) -> IrdeconvError:
    """Return what to raise where a layer fails, with the arrays that it got."""
    shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in map(np.asarray, arrays))
    hint = error.problem.hint if isinstance(error, OpError) else None
    text = str(error) or type(error).__name__
    memory = isinstance(error, MemoryError)
    if isinstance(error, OpError):
        memory = error.problem.code == "E602"
    diagnostic = Diagnostic(
        code="E602" if memory else "E500",
        severity="error",
        message=f'{node.type} "{node.name}": {text}',
        location=node.location,
        layer=node.name,
        notes=(Note(f"its inputs are {shapes or 'none'}"),),
        hint=hint,
    )
    return LimitError(diagnostic) if memory else ExecutionError(diagnostic)
