"""Which memory the outputs of nodes need, and which of them are rather copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.graph import Node
from irdeconv.kernels.shared import jit
from irdeconv.spec import Spec, is_static

COPIED_BYTES = 1 << 20  # of an input or outputs, up to which they are rather copied ...
MOVED_BYTES = 1 << 16  # ... and the same where all that meet them are `movable`
Memory = tuple[tuple[int, ...], np.dtype[Any]]  # shape and type of an output


def memory_of(node: Node, outputs: int | None = None) -> tuple[Memory, ...]:
    """Return the memory of the first `outputs`, all of exact shapes; by default of all."""
    out = []
    for spec in (node.specs or ())[:outputs]:
        assert is_static(spec.shape)
        assert spec.dtype is not None
        out.append((spec.shape, np.dtype(spec.dtype.container)))
    return tuple(out)


def small_memory(node: Node, outputs: int) -> tuple[Memory, ...]:
    """Return the memory of the first `outputs` where they are rather copied than placed anew."""
    specs = (node.specs or ())[:outputs]
    static = all(is_static(s.shape) and s.dtype is not None and s.nbytes for s in specs)
    if not static or sum(s.nbytes or 0 for s in specs) > COPIED_BYTES:
        return ()
    found = memory_of(node, outputs)
    return () if any(kind.hasobject for _, kind in found) else found


def scatters(view: Callable[..., Any], inputs: Sequence[Spec]) -> bool:
    """Whether a view of contiguous f32 is not contiguous; then compiled code copies it faster."""
    if str(inputs[0].dtype) != "f32" or not jit.available():
        return False
    given = (np.empty(s.shape, np.float32) for s in inputs if is_static(s.shape))  # never read
    found = view(*given)
    return isinstance(found, np.ndarray) and not found.flags.c_contiguous
