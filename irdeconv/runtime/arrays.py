"""Arrays of other packages as NumPy's, with a message that helps where that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.spec import Array


class NoArrayError(Exception):
    """Something is no array of the CPU's memory; the text says what, `hint` what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def is_array(value: object) -> bool:
    """Whether a value is one array, or a number, and not several in a list."""
    return isinstance(value, np.ndarray | np.generic | int | float | complex) or (
        hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    )


def array_of(value: Any) -> Array:
    """Return a value as an array, where possible without copying it.

    Takes whatever NumPy takes: arrays, numbers, nested lists, what has `__array__` or
    `__dlpack__`. Raises NoArrayError.
    """
    if isinstance(value, np.ndarray):
        return value
    kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__qualname__}"
    try:
        by_protocol = hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
        return np.from_dlpack(value) if by_protocol else np.asarray(value)
    except Exception as e:  # whatever another package says
        problem, hint = _why(value)
        reason = problem or next(iter(str(e).splitlines()), "") or type(e).__name__
        raise NoArrayError(f"NumPy cannot read this {kind}: {reason}", hint) from None


def _why(value: Any) -> tuple[str | None, str | None]:
    """Say what is special about a tensor, in the words of its package, and what to do about it."""
    device = str(getattr(value, "device", "cpu"))
    layout = str(getattr(value, "layout", "strided"))
    dtype = str(getattr(value, "dtype", ""))
    if device.startswith("meta"):
        return "it has a shape but no data (device meta)", "give a tensor that holds data"
    if "sparse" in layout:
        return "it is sparse", "array.to_dense()"
    if getattr(value, "requires_grad", False) is True:
        return "it requires a gradient", "array.detach()"
    if getattr(value, "is_quantized", False) is True:
        return "it is quantized", "array.dequantize(), or array.int_repr()"
    if not device.lower().startswith("cpu"):
        return f"it is on the device {device}", "array.cpu()"
    if "bfloat16" in dtype or "float8" in dtype:
        return f"NumPy has no {dtype.removeprefix('torch.')}", "array.float()"
    return None, None
