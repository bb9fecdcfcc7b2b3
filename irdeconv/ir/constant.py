"""Constant data: arrays, and parts of a `.bin` file that are read on demand."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from irdeconv.ir.dtypes import ElementType, of_numpy
from irdeconv.ir.packing import decode, encode
from irdeconv.ir.spec import Array, format_shape

PART_BYTES = 1 << 22  # of a constant that is read or made part by part


@runtime_checkable
class ConstantData(Protocol):
    """The data of a constant."""

    @property
    def available(self) -> bool:
        """Whether the bytes are there (a missing `.bin` is legal until a value is needed)."""

    def array(self) -> Array:
        """Return the values in the element type's container, read-only."""

    def raw(self) -> bytes | memoryview:
        """Return the bytes as a `.bin` file holds them."""

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield these bytes part by part, so that a large constant needs no second place."""

    def release(self) -> None:
        """Release the memory of the pages of a mapped file; they can be read anew."""


@dataclass(frozen=True, eq=False, repr=False)
class ArrayData:
    """A constant that is held as an array."""

    values: Array
    dtype: ElementType

    @staticmethod
    def of(array: Array, dtype: ElementType | None = None) -> ArrayData:
        """Hold a read-only copy-free view of `array`."""
        view = np.asarray(array).view()
        view.flags.writeable = False
        return ArrayData(view, dtype or of_numpy(view.dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayData.of, (self.values, self.dtype)

    def __repr__(self) -> str:
        return f"<ArrayData {self.dtype}{format_shape(self.values.shape)}>"

    @property
    def available(self) -> bool:
        """Always true."""
        return True

    def array(self) -> Array:
        """Return the array, read-only."""
        return self.values

    def raw(self) -> bytes:
        """Return the encoded bytes."""
        return encode(self.values, self.dtype)

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield these bytes part by part."""
        most = PART_BYTES // self.dtype.container.itemsize
        if self.values.size <= most or self.dtype.is_packed or self.dtype.kind == "string":
            yield self.raw()
            return
        flat = self.values.reshape(-1)
        for start in range(0, flat.size, most):
            yield encode(flat[start : start + most], self.dtype)

    def release(self) -> None:
        """Do nothing: the data has no file."""


class ByteSource(Protocol):
    """A readable file of bytes: memory-mapped, missing, or in memory."""

    path: str

    @property
    def size(self) -> int | None:
        """Bytes in all; None if the file is missing."""

    def read(self, offset: int, size: int) -> memoryview:
        """Return a part without copying; OpError if the file is missing or too short."""

    def release(self, offset: int, size: int) -> None:
        """Release the memory of a part that can be read anew."""


@dataclass(frozen=True, eq=False, repr=False)
class FileData:
    """A constant that lies in a `.bin` file; nothing is read before `array` or `raw`."""

    source: ByteSource
    offset: int
    size: int
    dtype: ElementType
    shape: tuple[int, ...]
    _made: list[weakref.ref[Array]] = field(default_factory=list, repr=False)

    def __repr__(self) -> str:
        place = f"{self.size} bytes at {self.offset} of {self.source.path}"
        return f"<FileData {self.dtype}{format_shape(self.shape)}: {place}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return FileData, (self.source, self.offset, self.size, self.dtype, self.shape)

    @property
    def available(self) -> bool:
        """Whether the file is there and long enough."""
        size = self.source.size
        return size is not None and self.offset + self.size <= size

    def raw(self) -> memoryview:
        """Return the bytes, memory-mapped."""
        return self.source.read(self.offset, self.size)

    def pieces(self) -> Iterator[memoryview]:
        """Yield these bytes, memory-mapped."""
        raw = self.raw()
        for start in range(0, len(raw), PART_BYTES):
            yield raw[start : start + PART_BYTES]
            self.source.release(self.offset + start, PART_BYTES)
        self.release()  # a piece may have been read after the next one was asked for

    def release(self) -> None:
        """Release the memory of the pages of a mapped file."""
        self.source.release(self.offset, self.size)

    def array(self) -> Array:
        """Return the values: a memory-mapped view for whole-byte types.

        Others are decoded, anew if no array of the last decoding is alive.
        """
        made = self._made[0]() if self._made else None
        if made is None:
            made = decode(self.raw(), self.dtype, self.shape)
            self._made[:] = [weakref.ref(made)]
        return made
