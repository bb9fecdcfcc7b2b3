"""Constant data: arrays, parts of a `.bin` file that are read on demand, and moved constants.

Rewriting turns, cuts, pads and regroups filters. The result is not stored beside the filter, which
may lie in a mapped file: index tables, one for each axis of the source, map the elements, and they
are fetched part by part for computing or writing.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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


NO_ELEMENT = -1  # in a table: the place has a zero, and no element of the source


@dataclass(frozen=True, eq=False)
class IndexTable:
    """Indices of one axis of the source; every axis of the table has a label of its own."""

    at: Array
    labels: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class MovedData:
    """The elements of another constant at other places, and zeros.

    `tables[a]` holds indices of axis a of the source. An axis of the result consists of axes of
    tables; `axes` has their labels, the slowest first. An element is the source's at the indices
    in the tables. `zero` is the element for NO_ELEMENT in a table.
    """

    source: ConstantData
    dtype: ElementType
    tables: tuple[IndexTable, ...]
    axes: tuple[tuple[int, ...], ...]
    zero: Any = 0
    _made: list[weakref.ref[Array]] = field(default_factory=list)

    @staticmethod
    def of(source: ConstantData, dtype: ElementType, shape: Sequence[int]) -> MovedData:
        """Return a constant of whole bytes unchanged, to be moved."""
        if isinstance(source, MovedData):
            return source
        tables = tuple(IndexTable(np.arange(n), (a,)) for a, n in enumerate(shape))
        return MovedData(source, dtype, tables, tuple((a,) for a in range(len(shape))))

    @staticmethod
    def broadcast(values: Array, dtype: ElementType, shape: Sequence[int]) -> MovedData:
        """Return an array broadcast to a shape, to be moved."""
        full = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
        moved = MovedData.of(ArrayData.of(full, dtype), dtype, shape)
        rows = zip(moved.tables, full.shape, strict=True)
        return moved._changed(tables=tuple(replace(t, at=t.at * (n > 1)) for t, n in rows))

    def __reduce__(self) -> tuple[Any, ...]:
        return MovedData, (self.source, self.dtype, self.tables, self.axes, self.zero)

    def __repr__(self) -> str:
        return f"<MovedData {self.dtype}{format_shape(self.shape)} of {self.source!r}>"

    @cached_property
    def _sizes(self) -> dict[int, int]:
        return {x: n for t in self.tables for x, n in zip(t.labels, t.at.shape, strict=True)}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(math.prod(self._sizes[x] for x in labels) for labels in self.axes)

    @property
    def nbytes(self) -> int:
        """The bytes of the result."""
        return self.dtype.nbytes(math.prod(self.shape))

    @property
    def available(self) -> bool:
        """Whether the source's bytes are there."""
        return self.source.available

    def transposed(self, order: Sequence[int]) -> MovedData:
        """Return it with its axes in another order."""
        return self._changed(axes=tuple(self.axes[a] for a in order))

    def taken(self, axis: int, index: Array, zero: Any = 0) -> MovedData | None:
        """Return the elements of an axis at an index [n], with `zero` for NO_ELEMENT.

        None if the axis consists of several ones of the source, or there is another zero.
        """
        lacks = bool((index == NO_ELEMENT).any())
        if np.array_equal(index, np.arange(self.shape[axis])):
            return self
        if len(self.axes[axis]) != 1:
            return None
        if lacks and zero != self.zero and any((t.at == NO_ELEMENT).any() for t in self.tables):
            return None
        (label,) = self.axes[axis]
        tables = list(self.tables)
        source = next(i for i, t in enumerate(tables) if label in t.labels)
        table, place = tables[source], tables[source].labels.index(label)
        if not table.at.size:
            return None
        at = table.at.take(index, place)
        at[(slice(None),) * place + (index == NO_ELEMENT,)] = NO_ELEMENT
        tables[source] = IndexTable(at, table.labels)
        return self._changed(tables=tuple(tables), zero=zero if lacks else self.zero)

    def reshaped(self, shape: Sequence[int]) -> MovedData | None:
        """Return it in another shape of as many elements; None if axes do not divide."""
        if 0 in shape or not shape:
            return None
        tables, left = list(self.tables), [x for labels in self.axes for x in labels]
        axes = [_cut(tables, left, size) for size in shape]
        found = [a for a in axes if a is not None]
        if len(found) < len(axes):
            return None
        found[-1] = (*found[-1], *left)
        out = self._changed(tables=tuple(tables), axes=tuple(found))
        return out if out.shape == tuple(shape) else None

    def array(self) -> Array:
        """Return the values, read-only; they are fetched anew if no earlier array is alive."""
        made = self._made[0]() if self._made else None
        if made is None:
            made = self._part({}).reshape(self.shape)
            made.flags.writeable = False
            self._made[:] = [weakref.ref(made)]
        return made

    def narrowed(self) -> Array:
        """Return the values; axes that read a single place of the source have one element."""
        kept = set().union(*map(_varying, self.tables))
        axes = [kept.isdisjoint(labels) for labels in self.axes]
        rows = zip(axes, self.axes, strict=True)
        first = {x: slice(1) for narrow, labels in rows if narrow for x in labels}
        sizes = zip(axes, self.shape, strict=True)
        return self._part(first).reshape([1 if narrow else n for narrow, n in sizes])

    def raw(self) -> bytes:
        """Return the bytes as a `.bin` file holds them."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes part by part."""
        order = self._order
        most, rest, depth = PART_BYTES // self.dtype.container.itemsize, 1, len(order)
        while depth and rest * self._sizes[order[depth - 1]] <= most:
            depth -= 1
            rest *= self._sizes[order[depth]]
        if not depth:
            yield self._part({}).tobytes()
            return
        *outer, cut = order[:depth]
        rows = max(most // max(rest, 1), 1)
        for place in np.ndindex(*(self._sizes[x] for x in outer)):
            fixed = {x: slice(i, i + 1) for x, i in zip(outer, place, strict=True)}
            for start in range(0, self._sizes[cut], rows):
                yield self._part({**fixed, cut: slice(start, start + rows)}).tobytes()
                self.source.release()

    def release(self) -> None:
        """Release the memory of the pages of a mapped file."""
        self.source.release()

    @property
    def _order(self) -> list[int]:
        return [x for labels in self.axes for x in labels]

    def _changed(self, **fields: Any) -> MovedData:
        return replace(self, _made=[], **fields)

    def _part(self, where: dict[int, slice]) -> Array:
        """Return the elements at slices of axes of the tables, in the order of the result."""
        whole = slice(None)
        tables = [t.at[tuple(where.get(x, whole) for x in t.labels)] for t in self.tables]
        found = _fetched(self.source.array(), [t.reshape(-1) for t in tables], self.zero)
        found = found.reshape([n for t in tables for n in t.shape])
        labels = [x for t in self.tables for x in t.labels]
        return np.ascontiguousarray(found.transpose([labels.index(x) for x in self._order]))


def _varying(table: IndexTable) -> set[int]:
    """Return the labels of axes along which a table varies."""
    return {x for i, x in enumerate(table.labels) if (table.at != table.at.take([0], i)).any()}


def _fetched(source: Array, index: list[Array], zero: Any) -> Array:
    """Return the elements at an index of each axis, `zero` at NO_ELEMENT; a view if possible."""
    kept = [np.flatnonzero(i != NO_ELEMENT) for i in index]
    used = [i[k] for i, k in zip(index, kept, strict=True)]
    slices = [_as_slice(i) for i in used]
    view = source[tuple(s or slice(None) for s in slices)]
    for axis, (i, s) in enumerate(zip(used, slices, strict=True)):
        view = view if s else view.take(i, axis)
    if all(len(k) == len(i) for i, k in zip(index, kept, strict=True)):
        return view
    out = np.full([len(i) for i in index], zero, source.dtype)
    places = [_as_slice(k) for k in kept]
    out[np.ix_(*kept) if None in places else tuple(places)] = view
    return out


def _as_slice(index: Array) -> slice | None:
    """Return the slice that takes an index; None if it has uneven steps."""
    if len(index) < 2:
        return slice(index[0], index[0] + 1) if len(index) else slice(0, 0)
    step = int(index[1] - index[0])
    if not step or (np.diff(index) != step).any():
        return None
    stop = int(index[-1]) + step
    return slice(int(index[0]), None if stop < 0 else stop, step)


def _cut(tables: list[IndexTable], left: list[int], size: int) -> tuple[int, ...] | None:
    """Take labels from the front of `left` whose axes have `size` elements, the last one split.

    None if an axis would have to end within another one.
    """
    out: list[int] = []
    while left:
        label = left[0]
        at = next(i for i, t in enumerate(tables) if label in t.labels)
        place = tables[at].labels.index(label)
        here = tables[at].at.shape[place]
        if size == 1 and (out or here > 1):
            break
        if size % here and here % size:
            return None
        if here > size:
            left[0] = 1 + max(x for t in tables for x in t.labels)
            tables[at] = _split(tables[at], place, size, left[0])
            return (*out, label)
        out.append(left.pop(0))
        size //= here
    return tuple(out) if size == 1 else None


def _split(table: IndexTable, place: int, size: int, label: int) -> IndexTable:
    """Split an axis of a table into `size` rows, whose elements get a new label."""
    before, after = table.at.shape[:place], table.at.shape[place + 1 :]
    at = table.at.reshape(*before, size, -1, *after)
    return IndexTable(at, (*table.labels[: place + 1], label, *table.labels[place + 1 :]))
