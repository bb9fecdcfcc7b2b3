"""The header of an .npy: read by itself and held against the bytes behind it, never executed."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from irdeconv.opening import shown

MAGIC = b"\x93NUMPY"
HEADER_BYTES = 1 << 16
NPY_AXES = 64  # of NumPy
_LONG = re.compile(r"(?<=[0-9])L(?=[,)\s])")  # whole numbers as Python 2 wrote them
_KEYS = {"descr", "fortran_order", "shape"}


class UnreadableArray(Exception):
    """Bytes that cannot be taken for an array of plain elements; the text says why."""


class ByteStream(Protocol):
    """What a header is read from."""

    def read(self, size: int, /) -> bytes:
        """Return that many bytes, fewer at the end."""


@dataclass(frozen=True)
class ArrayHeader:
    """What an .npy says of itself; `size` is that of the header, `nbytes` that of the data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    size: int

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, exactly."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: ByteStream) -> ArrayHeader:
    """Read the header of an .npy; UnreadableArray where it is none, or one of Python objects."""
    begin = stream.read(8)
    if not begin.startswith(MAGIC):
        raise UnreadableArray("it is no .npy" if begin else "it is empty")
    version = tuple(begin[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise UnreadableArray(f"there is no version {'.'.join(map(str, version))} of .npy")
    width = 2 if version == (1, 0) else 4
    length = int.from_bytes(_exactly(stream, width), "little")
    if length > HEADER_BYTES:
        raise UnreadableArray(f"its header has {length:,} bytes; the limit is {HEADER_BYTES:,}")
    data = _exactly(stream, length)
    try:
        text = data.decode("utf-8" if version == (3, 0) else "latin-1")
        if "\\" in text:  # Python warns of many an escape, and no writer has one
            raise ValueError("a backslash")
        fields = ast.literal_eval(_LONG.sub("", text).strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise UnreadableArray("its header is no Python literal") from None
    if not isinstance(fields, dict) or set(fields) != _KEYS:
        raise UnreadableArray("its header has not just descr, fortran_order and shape")
    if not isinstance(fields["fortran_order"], bool):
        raise UnreadableArray(f"fortran_order is {shown(fields['fortran_order'])}, not True, False")
    size = 8 + width + length
    return ArrayHeader(
        _dtype(fields["descr"]), _shape(fields["shape"]), fields["fortran_order"], size
    )


def _exactly(stream: ByteStream, count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise UnreadableArray("it is cut off")
    return found


def _dtype(descr: Any) -> np.dtype[Any]:
    """Return an element type by its text; lists are records, which hold no plain elements."""
    if not isinstance(descr, str):
        raise UnreadableArray("its elements are records, not plain numbers")
    if re.fullmatch(r"[<>|=]?[A-Za-z?][0-9]{0,9}(\[[0-9A-Za-z]{1,9}\])?", descr, re.ASCII) is None:
        raise UnreadableArray(f"there is no element type {shown(descr)}")
    try:
        found = np.dtype(descr)
    except (TypeError, ValueError, OverflowError, MemoryError, SyntaxError):
        raise UnreadableArray(f"there is no element type {shown(descr)}") from None
    if found.hasobject:
        raise UnreadableArray("it holds Python objects instead of numbers")
    if found.fields is not None or found.subdtype is not None or not found.itemsize:
        raise UnreadableArray(f"elements of type {shown(descr)} are no plain numbers")
    return found


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or not all(type(d) is int and d >= 0 for d in shape):
        raise UnreadableArray(f"its shape is {shown(shape)}, not whole numbers from 0 on")
    if len(shape) > NPY_AXES:
        raise UnreadableArray(f"it has {len(shape)} axes; the limit is {NPY_AXES}")
    # An empty array may have axes that no memory could hold.
    if math.prod(d or 1 for d in shape) >= 1 << 62:
        raise UnreadableArray("its shape has more elements than can be counted")
    return shape
