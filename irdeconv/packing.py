"""Bytes of a `.bin` file to arrays and back, every element type.  [semantics: IR file format]"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irdeconv.dtypes import ElementType
from irdeconv.spec import Array


def decode(raw: bytes | memoryview, dtype: ElementType, shape: Sequence[int]) -> Array:
    """Return the values in the type's container, read-only; a view where a byte is one element.

    Raises ValueError where the bytes do not fit the shape or a string tensor is malformed.
    """
    array = np.frombuffer(raw, dtype.container)[: int(np.prod(shape, dtype=np.int64))]
    return array.reshape(tuple(shape))


def encode(array: Array, dtype: ElementType) -> bytes:
    """Return the bytes of an array as a `.bin` file holds them; `decode` gives it back."""
    return np.ascontiguousarray(array, dtype.container).tobytes()
