"""Arrays in `.npy`, `.npz` and `.safetensors` files.

Nothing is unpickled or executed. Headers are read first, then only the requested arrays. A shape
must fit the bytes of the file before memory is allocated for it. Members of an archive are listed
and checked against limits before one of them is unpacked.
"""

from __future__ import annotations

import ast
import io
import json
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from errno import EINVAL
from typing import IO, Any, BinaryIO

import ml_dtypes
import numpy as np

from irdeconv.base.errors import Diagnostic, FileAccessError, LimitError, misused
from irdeconv.base.limits import current, raise_hint
from irdeconv.base.opening import (
    PathText,
    first_bytes,
    open_file,
    parse_json,
    shown,
    size_of,
    unreadable,
)
from irdeconv.formats.kinds import BEGIN, SAFETENSORS, kind_of
from irdeconv.ir.spec import Array

TENSOR_TYPES = {
    name: np.dtype(getattr(ml_dtypes, dtype, dtype))
    for name, _, dtype in (
        word.partition("=")
        for word in """BOOL=? U8=u1 I8=i1 U16=<u2 I16=<i2 U32=<u4 I32=<i4 U64=<u8 I64=<i8 F16=<f2
        F32=<f4 F64=<f8 C64=<c8 BF16=bfloat16 F8_E4M3=float8_e4m3fn F8_E5M2=float8_e5m2
        F8_E8M0=float8_e8m0fnu""".split()
    )
}


def packed(path: str, arrays: Mapping[str, Array]) -> bytes:
    """Return arrays by name as the bytes of a file with this suffix; an .npy has only the first."""
    if path.endswith(".npy"):
        return npy(next(iter(arrays.values())))
    return safetensors(arrays) if path.endswith(SAFETENSORS) else npz(arrays)


def safetensors(arrays: Mapping[str, Array]) -> bytes:
    """Return arrays by name as the bytes of a .safetensors; UsageError for texts."""
    names, data = {dtype: name for name, dtype in TENSOR_TYPES.items()}, bytearray()
    arrays = {k: a if a.dtype in names else plain(a) for k, a in arrays.items()}
    header: dict[str, Any] = dict.fromkeys(arrays)
    for name in sorted(arrays, key=lambda k: -arrays[k].dtype.itemsize):  # each one is aligned
        array, begin = arrays[name], len(data)
        if array.dtype not in names or name == "__metadata__":
            message = f'{SAFETENSORS} cannot hold the array "{name}" of {array.dtype}'
            raise misused(message, "write .npz")
        data += array.tobytes()
        kind, offsets = names[array.dtype], (begin, len(data))
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": offsets}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(data)


def npz(arrays: Mapping[str, Array]) -> bytes:
    """Return arrays by name as the bytes of an .npz; the same arrays give the same bytes."""
    # Not numpy.savez: a tensor may be called "file", which is its own parameter's name.
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            data = npy(array)
            with archived(archive, name, len(data)) as file:
                file.write(data)
    return buffer.getvalue()


def archived(archive: zipfile.ZipFile, name: str, size: int) -> IO[bytes]:
    """Open a new array of an .npz, without a time; a lone surrogate in `name` is escaped."""
    stored = name.encode("utf-8", "backslashreplace").decode()
    info = zipfile.ZipInfo(f"{stored}.npy", (1980, 1, 1, 0, 0, 0))
    info.file_size = size  # from 2 GiB on it needs another header
    return archive.open(info, "w")


def npy(array: Array) -> bytes:
    """Return an array as .npy bytes."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, plain(array), allow_pickle=False)
    return buffer.getvalue()


def plain(array: Array) -> Array:
    """Return types that NumPy files do not know as float32 (exactly), strings as text."""
    if array.dtype == object:
        return array.astype(str)
    if array.dtype.isbuiltin == 1 or array.dtype.kind == "U":
        return array
    return array.astype(np.float32)


MAGIC = b"\x93NUMPY"
HEADER_BYTES = 1 << 16
NPY_AXES = 64  # of NumPy
_LONG = re.compile(r"(?<=[0-9])L(?=[,)\s])")  # whole numbers as Python 2 wrote them
_KEYS = {"descr", "fortran_order", "shape"}


class UnreadableArray(Exception):
    """Bytes that cannot be taken for an array of plain elements; the text says why."""


_SAVING = "np.save writes an array as .npy, np.savez several as .npz"


@contextmanager
def naming_file(path: str, suffix: str, array: str = "", hint: str = _SAVING) -> Iterator[None]:
    """Name the file and its kind, or the array in it, in the error of one without plain arrays."""
    try:
        yield
    except UnreadableArray as e:
        begin = first_bytes(path, BEGIN)
        kind = kind_of(begin, path).name
        if begin and suffix not in kind:
            raise misused(f"{path} is {kind}, not {suffix}", hint) from None
        hint = "copy it again, or save it again" if "cut off" in str(e) else hint
        found = Diagnostic("E100", "error", f"{path}{array} cannot be read: {e}", hint=hint)
        raise FileAccessError(found, file=path) from None


@dataclass(frozen=True)
class ArrayHeader:
    """The header of an .npy; `size` is that of the header, `nbytes` that of the data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    size: int

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, exactly."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes]) -> ArrayHeader:
    """Read the header of an .npy; UnreadableArray if it is none, or one of Python objects."""
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


def _exactly(stream: IO[bytes], count: int) -> bytes:
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


MEMBER_BYTES = 128  # of a member in the list at an archive's end: its name and its sizes
ANY_PACKING = 1 << 26  # bytes up to which a member may be packed to almost nothing
FILLED_AT_ONCE = 1 << 24
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of NumPy
_END, _END_SIZE, _LARGE_END, _COMMENT = b"PK\5\6", 22, b"PK\6\6", 1 << 16
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    NotImplementedError,  # a way of packing that Python does not know
    RuntimeError,  # a password is needed
    KeyError,
    OverflowError,
)


def npy_header(path: PathText) -> ArrayHeader:
    """Return the header of an .npy; raises as `read_npy` does."""
    with _opened(path) as (_, header):
        return header


def read_npy(path: PathText, rows: tuple[int, int] | None = None) -> Array:
    """Return an .npy, or `rows` of its first axis; FileAccessError, UnreadableArray, LimitError."""
    with _opened(path) as (file, header):
        if rows is None:
            return _data(file, header, os.fspath(path))
        if header.fortran_order or not header.shape:
            return _data(file, header, os.fspath(path))[slice(*rows)].copy()
        begin, end = (min(max(r, 0), header.shape[0]) for r in rows)
        part = replace(header, shape=(max(end - begin, 0), *header.shape[1:]))
        file.seek(begin * (header.nbytes // max(header.shape[0], 1)), io.SEEK_CUR)
        return _data(file, part, os.fspath(path))


@contextmanager
def _opened(path: PathText) -> Iterator[tuple[BinaryIO, ArrayHeader]]:
    """Open an .npy whose data is all there, behind its header."""
    try:
        with open_file(path) as file:
            header = read_header(file)
            _require_room(header, size_of(file) - header.size)
            yield file, header
    except (OSError, ValueError) as e:
        raise unreadable(path, e) from None


def _require_room(header: ArrayHeader, there: int) -> None:
    """Refuse a header that states more bytes than follow it."""
    if header.nbytes > there:
        shape = list(header.shape)
        message = f"it is cut off: {shape} of {header.dtype} takes {header.nbytes:,} bytes"
        raise UnreadableArray(f"{message}, {max(there, 0):,} are there")


def _data(file: IO[bytes], header: ArrayHeader, name: str) -> Array:
    """Read the elements behind a header."""
    most = current().array_bytes
    if header.nbytes > most:
        message = f"an array has {header.nbytes:,} bytes; the limit is {most:,}"
        raise _limit(name, message, "array_bytes")
    flat = np.empty(header.nbytes, np.uint8)
    at = 0
    while at < len(flat):
        part = file.read(min(len(flat) - at, FILLED_AT_ONCE))
        if not part:
            raise UnreadableArray("it is cut off")
        flat[at : at + len(part)] = np.frombuffer(part, np.uint8)
        at += len(part)
    array = flat.view(header.dtype)
    if header.fortran_order:
        return array.reshape(header.shape[::-1]).transpose()
    return array.reshape(header.shape)


def _limit(name: str, message: str, limit: str) -> LimitError:
    return LimitError(Diagnostic("E600", "error", f"{name}: {message}", hint=raise_hint(limit)))


class SavedArrays(Mapping[str, Array], AbstractContextManager["SavedArrays"]):
    """The arrays of a file of SAVED by name; each is read when it is asked for, and not kept.

    Asking for a damaged one raises UnreadableArray, for one above the limit of unpacked bytes
    LimitError.
    """

    suffix = ".npz"

    def __new__(cls, source: PathText | bytes, name: str = "") -> SavedArrays:
        """Return the reader of a .safetensors for such a path."""
        safe = not isinstance(source, bytes) and os.fspath(source).endswith(SAFETENSORS)
        return super().__new__(_SafeTensors if safe else cls)

    def __init__(self, source: PathText | bytes, name: str = "<bytes>") -> None:
        """Open an archive; FileAccessError, UnreadableArray, LimitError for its members."""
        self.name = name if isinstance(source, bytes) else os.fspath(source)
        file: BinaryIO | None = None
        try:
            file = io.BytesIO(source) if isinstance(source, bytes) else open_file(source)
            self._file = file
            self._members = self._listed(file)
        except BaseException as e:
            if file is not None:
                file.close()
            if isinstance(e, LimitError | UnreadableArray | MemoryError):
                raise
            if isinstance(e, OSError) and e.errno != EINVAL:
                raise unreadable(self.name, e) from None
            if isinstance(e, (OSError, *_DAMAGED)):
                raise UnreadableArray(f"it is no {self.suffix}: {e}") from None
            raise

    def _listed(self, file: BinaryIO) -> dict[str, Any]:
        _require_short_list(file, self.name)
        self._archive = zipfile.ZipFile(file)
        infos = self._archive.infolist()
        if len(infos) > (most := current().members):
            message = f"it has {len(infos):,} members; the limit is {most:,}"
            raise _limit(self.name, message, "members")
        found: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise UnreadableArray(f'it has two members "{name}"')
            found[name] = info
        return found

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def header(self, name: str) -> ArrayHeader:
        """Return the header of an array; raises as asking for the array does."""
        with self._member(name) as (_, header):
            return header

    def __getitem__(self, name: str) -> Array:
        with self._member(name) as (member, header):
            array = _data(member, header, self.name)
            left = self._members[name].file_size - header.size - header.nbytes
            if left > FILLED_AT_ONCE:
                raise UnreadableArray("bytes stand behind its elements")
            member.read(left + 1)  # to the end, so that the checksum is looked at
            return array

    @contextmanager
    def _member(self, name: str) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
        info = self._members[name]
        self._require_modest(info)
        try:
            with self._archive.open(info) as member:
                header = read_header(member)
                _require_room(header, info.file_size - header.size)
                yield member, header
        except (UnreadableArray, LimitError):
            raise
        except OSError as e:
            if e.errno != EINVAL:  # which a place in front of the file's begin gives
                raise unreadable(self.name, e) from None
            raise UnreadableArray("its place in the archive is damaged") from None
        except _DAMAGED as e:
            raise UnreadableArray(str(e) or type(e).__name__) from None

    def _require_modest(self, info: zipfile.ZipInfo) -> None:
        """Refuse a member that is packed in another way than NumPy's, or to almost nothing."""
        if info.compress_type not in _METHODS or info.flag_bits & 1:
            raise UnreadableArray("it is packed or encrypted in a way that NumPy never writes")
        most = current().packing
        if info.file_size > max(ANY_PACKING, most * info.compress_size):
            message = (
                f'"{info.filename}" unpacks {info.compress_size:,} bytes to {info.file_size:,}; '
                f"above {ANY_PACKING:,} bytes the limit is {most} times as many"
            )
            raise _limit(self.name, message, "packing")


class _SafeTensors(SavedArrays):
    """The arrays of a .safetensors: bytes that fill the file, behind a header that is JSON."""

    suffix = SAFETENSORS

    def _listed(self, file: BinaryIO) -> dict[str, Any]:
        """Return header and place of each array; there is no gap between them, and no overlap."""
        length, most = int.from_bytes(_exactly(file, 8), "little"), MEMBER_BYTES * current().members
        if length > size_of(file):
            raise UnreadableArray("it is cut off, or no .safetensors")
        if length > most:
            message = f"its header has {length:,} bytes; the limit is {most:,}"
            raise _limit(self.name, message, "members")
        fields = parse_json(_exactly(file, length))
        entries: dict[str, Any] = fields if isinstance(fields, dict) else {"header": None}
        found, spans = {}, []
        for name, entry in entries.items():
            if name == "__metadata__":
                continue
            try:
                shape, (begin, end) = _shape(tuple(entry["shape"])), entry["data_offsets"]
                header = ArrayHeader(TENSOR_TYPES[entry["dtype"]], shape, False, 0)
                fits = type(begin) is type(end) is int and end - begin == header.nbytes
            except (KeyError, TypeError, ValueError):
                fits = False
            if not fits:
                message = "dtype, shape and data_offsets are missing, unknown, or do not fit"
                raise UnreadableArray(f"{shown(name)}: {message}")
            found[name] = header, 8 + length + begin
            spans.append((begin, end))
        begins, ends = zip(*sorted(spans), strict=True) if spans else ((), ())
        size = size_of(file) - 8 - length
        if size < max(ends, default=0):
            raise UnreadableArray("it is cut off")
        if (*begins, size) != (0, *ends):
            raise UnreadableArray("its arrays do not fill it one after the other")
        return found

    def __getitem__(self, name: str) -> Array:
        with self._member(name) as (file, header):
            return _data(file, header, self.name)

    @contextmanager
    def _member(self, name: str) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
        header, place = self._members[name]
        self._file.seek(place)
        yield self._file, header


def _require_short_list(file: BinaryIO, name: str) -> None:
    """Refuse an archive whose list of members alone would fill the memory."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _END_SIZE - _COMMENT))
    tail = file.read(_END_SIZE + _COMMENT)
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_SIZE:
        raise UnreadableArray("it is no .npz, or cut off: the end of a zip archive is missing")
    lengths = [int.from_bytes(tail[at + 12 : at + 16], "little")]
    large = tail.rfind(_LARGE_END, 0, at)  # in front of the end, its numbers count instead
    if large >= 0:
        lengths.append(int.from_bytes(tail[large + 40 : large + 48], "little"))
    length = min(max(lengths), size)
    most = MEMBER_BYTES * current().members
    if length > most:
        message = f"the list of its members has {length:,} bytes; the limit is {most:,}"
        raise _limit(name, message, "members")
    file.seek(0)
