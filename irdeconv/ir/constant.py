"""Constant data: arrays, parts of a `.bin` file that are read on demand, and moved constants.

Rewriting turns, cuts, pads and regroups filters. The result is not stored beside the filter, which
may lie in a mapped file: index tables, one for each axis of the source, map the elements, and they
are fetched part by part for computing or writing.

Layouts in a `.bin` file of the types below a byte, element 0 first  [semantics: IR file format]:

    u1        most significant bit first
    u2        least significant pair first
    u4 i4 nf4 f4e2m1   low nibble first
    u3        8 elements in 3 bytes: two bytes of low pairs, high pair first, then one byte of the
              third bits, most significant first
    u6        4 elements in 3 bytes: two bytes of low nibbles, high nibble first, then one byte of
              the upper pairs, most significant first
    string    i32 count, count + 1 i32 offsets, the UTF-8 bytes
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from irdeconv.ir.dtypes import ElementType, of_numpy
from irdeconv.ir.spec import Array, format_shape

DEEPEST_NOTED = 8  # operations on the way to a constant whose origin is noted
NOTED_BYTES = 1 << 20  # of such a constant, at most
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


@dataclass(frozen=True, eq=False, repr=False)
class ComputedData(ArrayData):
    """A constant that an operation gave for other constants, so many operations deep."""

    op: Any = None
    inputs: tuple[ConstantData, ...] = ()
    depth: int = 1


def computed(
    made: ConstantData, dtype: ElementType, op: Any, inputs: Sequence[ConstantData]
) -> ConstantData:
    """Return a constant with its origin, unless nothing is rounded or the inputs are large."""
    deepest = max((d.depth for d in inputs if isinstance(d, ComputedData)), default=0)
    exact = op.rounding.rule == "exact" and not deepest
    size = sum(d.array().nbytes for d in inputs)
    if exact or deepest >= DEEPEST_NOTED or size > NOTED_BYTES:
        return made
    return ComputedData(made.array(), dtype, op, tuple(inputs), deepest + 1)


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
        kind = np.int32 if max(shape, default=0) < 2**31 else np.int64
        tables = tuple(IndexTable(np.arange(n, dtype=kind), (a,)) for a, n in enumerate(shape))
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
    step = int(index[1]) - int(index[0])
    stop = int(index[-1]) + step
    if not step or stop - int(index[0]) != step * len(index) or (np.diff(index) != step).any():
        return None
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


Bytes = NDArray[Any]  # of uint8; NumPy's stubs widen the results of shifts

NF4 = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ],
    np.float32,
)  # fmt: skip


def decode(raw: bytes | memoryview, dtype: ElementType, shape: Sequence[int]) -> Array:
    """Return the values in the type's container, read-only; a view if a byte is one element.

    Raises ValueError if the bytes do not fit the shape or a string tensor is malformed.
    """
    shape = tuple(map(int, shape))
    count = math.prod(shape)
    if dtype.kind == "string":
        return _read_only(_strings(raw, count), shape)
    need = dtype.nbytes(count)
    # Writers store a zero-element constant as one byte.
    if len(raw) != need and not (count == 0 and len(raw) == 1):
        raise ValueError(f"{count} elements of {dtype} take {need} bytes, there are {len(raw)}")
    if dtype.is_packed:
        return _read_only(_unpack(np.frombuffer(raw, np.uint8, need), dtype, count), shape)
    array = np.frombuffer(raw, dtype.container, count)
    if dtype.kind == "bool" and array.view(np.uint8).max(initial=0) > 1:
        array = array.view(np.uint8) != 0
    return _read_only(array, shape)


def encode(array: Array, dtype: ElementType) -> bytes:
    """Return the bytes of an array as a `.bin` file holds them; `decode` gives it back.

    Raises ValueError if a value does not fit a type of less than a byte.
    """
    if dtype.kind == "string":
        texts = [
            s if isinstance(s, bytes) else str(s).encode()
            for s in np.asarray(array, object).reshape(-1)
        ]
        ends = np.cumsum([0, *map(len, texts)])
        if ends[-1] >= 2**31:
            raise ValueError(f"{ends[-1]} bytes of text do not fit 32-bit offsets")
        return np.array([len(texts), *ends], "<i4").tobytes() + b"".join(texts)
    values = np.ascontiguousarray(array, dtype.container)
    return _pack(values.reshape(-1), dtype) if dtype.is_packed else values.tobytes()


def _read_only(array: Array, shape: tuple[int, ...]) -> Array:
    view = array.reshape(shape)
    view.flags.writeable = False
    return view


def _unpack(raw: Bytes, dtype: ElementType, count: int) -> Array:
    codes: Bytes = _UNPACK[dtype.name](raw)[:count]
    if dtype.name == "i4":
        signed: Array = (codes ^ 8).astype(np.int8) - np.int8(8)
        return signed
    out: Array = NF4[codes] if dtype.name == "nf4" else codes.view(dtype.container)
    return out


def _pack(values: Array, dtype: ElementType) -> bytes:
    codes = _codes(values, dtype)
    group = {"u3": 8, "u6": 4}.get(dtype.name, 8 // dtype.bits)
    padded: Bytes = np.zeros(-(-len(codes) // group) * group, np.uint8)
    padded[: len(codes)] = codes
    packed: Array = _PACK[dtype.name](padded)
    return packed.tobytes()


def _codes(values: Array, dtype: ElementType) -> Bytes:
    if dtype.name == "nf4":
        nearest: Bytes = np.searchsorted((NF4[1:] + NF4[:-1]) / 2, values).astype(np.uint8)
        return nearest
    if dtype.name == "f4e2m1":
        bits: Bytes = values.view(np.uint8) & 0xF
        return bits
    low, high = (-8, 7) if dtype.name == "i4" else (0, 2**dtype.bits - 1)
    if values.size and (values.min() < low or values.max() > high):
        worst = values.min() if values.min() < low else values.max()
        raise ValueError(f"{worst} does not fit {dtype} ({low}..{high})")
    codes: Bytes = values.view(np.uint8) & (2**dtype.bits - 1)
    return codes


def _columns(*columns: Bytes) -> Bytes:
    return np.stack(columns, axis=1).reshape(-1)


def _bits(low: int) -> Array:
    """Return the place of each element's bits, the highest first, in a group of three bytes.

    Two bytes have `low` bits of each element, the third one has half as many above them.
    """
    places = np.arange(16).reshape(-1, low), np.arange(16, 24).reshape(-1, low // 2)
    return np.hstack(places[::-1])


def _unpack_split(raw: Bytes, low: int) -> Bytes:
    bits: Bytes = np.unpackbits(raw).reshape(-1, 24)[:, _bits(low)]
    codes: Bytes = np.packbits(bits, axis=-1).reshape(-1) >> (8 - bits.shape[-1])
    return codes


def _pack_split(v: Bytes, low: int) -> Bytes:
    bits = np.unpackbits(v[:, None], axis=1)[:, -_bits(low).shape[-1] :].reshape(-1, 24)
    return np.packbits(bits[:, np.argsort(_bits(low).reshape(-1))])


_NIBBLES = ("u4", "i4", "nf4", "f4e2m1")
_UNPACK: dict[str, Any] = dict.fromkeys(_NIBBLES, lambda raw: _columns(raw & 0xF, raw >> 4)) | {
    "u1": np.unpackbits,
    "u2": lambda raw: _columns(raw & 3, raw >> 2 & 3, raw >> 4 & 3, raw >> 6),
    "u3": lambda raw: _unpack_split(raw, 2),
    "u6": lambda raw: _unpack_split(raw, 4),
}
_PACK: dict[str, Any] = dict.fromkeys(_NIBBLES, lambda v: v[0::2] | v[1::2] << 4) | {
    "u1": np.packbits,
    "u2": lambda v: v[0::4] | v[1::4] << 2 | v[2::4] << 4 | v[3::4] << 6,
    "u3": lambda v: _pack_split(v, 2),
    "u6": lambda v: _pack_split(v, 4),
}


def _strings(raw: bytes | memoryview, count: int) -> Array:
    out: Array = np.empty(count, object)
    if count == 0 and len(raw) < 4:
        return out
    offsets, text = _string_table(raw, count)
    for i in range(count):
        part = bytes(text[offsets[i] : offsets[i + 1]])
        try:
            out[i] = part.decode()
        except UnicodeDecodeError as e:
            raise ValueError(
                f"string {i} is not UTF-8: byte 0x{part[e.start]:02x} at {e.start}"
            ) from None
    return out


def _string_table(raw: bytes | memoryview, count: int) -> tuple[list[int], memoryview]:
    if len(raw) < 4:
        raise ValueError(f"a string tensor starts with a 4-byte count, there are {len(raw)} bytes")
    stored = int.from_bytes(raw[:4], "little", signed=True)
    if stored < 0:
        raise ValueError(f"the string count is negative: {stored}")
    header = 4 * (stored + 2)
    if header > len(raw):
        takes = f"the header of {stored} strings takes {header} bytes"
        raise ValueError(f"{takes}, there are {len(raw)}")
    if stored != count:
        raise ValueError(f"the tensor holds {stored} strings, its shape wants {count}")
    offsets = np.frombuffer(raw, "<i4", stored + 1, 4).astype(np.int64)
    if offsets[0] < 0:
        raise ValueError(f"string offset 0 is negative: {offsets[0]}")
    falls = np.flatnonzero(np.diff(offsets) < 0)
    if falls.size:
        i = int(falls[0])
        raise ValueError(f"string {i} ends at {offsets[i + 1]}, before it begins at {offsets[i]}")
    if offsets[-1] > len(raw) - header:
        size = len(raw) - header
        raise ValueError(f"the strings end at {offsets[-1]}, there are {size} bytes of text")
    return offsets.tolist(), memoryview(raw)[header:]
