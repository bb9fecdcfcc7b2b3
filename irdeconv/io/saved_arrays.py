"""Arrays of `.npy` and `.npz` files of others: headers first, then just what is asked for.

Nothing is unpickled or executed. A shape has to fit the bytes that are there before memory is taken
for it; members of an archive are listed and held against limits before one of them is unpacked.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from errno import EINVAL
from types import TracebackType
from typing import IO, BinaryIO

import numpy as np

from irdeconv.access import PathText, unreadable
from irdeconv.errors import Diagnostic, LimitError
from irdeconv.io.array_headers import ArrayHeader, UnreadableArray, read_header
from irdeconv.limits import current, raise_hint
from irdeconv.opening import open_file, size_of
from irdeconv.spec import Array

MEMBER_BYTES = 128  # of a member in the list at an archive's end: its name and what it takes
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
    """Return what an .npy says of itself; raises what `read_npy` does."""
    with _opened(path) as (_, header):
        return header


def read_npy(path: PathText, rows: tuple[int, int] | None = None) -> Array:
    """Return the array of an .npy, or some `rows` of its first axis.

    Raises FileAccessError, UnreadableArray where it is none or damaged, LimitError.
    """
    with _opened(path) as (file, header):
        if rows is None:
            return _data(file, header, os.fspath(path))
        if header.fortran_order or not header.shape:
            return _data(file, header, os.fspath(path))[slice(*rows)].copy()
        begin, end = (min(max(r, 0), header.shape[0]) for r in rows)
        part = replace(header, shape=(max(end - begin, 0), *header.shape[1:]))
        row = header.nbytes // max(header.shape[0], 1)
        file.seek(begin * row, io.SEEK_CUR)
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
    """Refuse a header that says more than the bytes behind it hold."""
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
    _fill(file, flat)
    array = flat.view(header.dtype)
    if header.fortran_order:
        return array.reshape(header.shape[::-1]).transpose()
    return array.reshape(header.shape)


def _fill(file: IO[bytes], into: Array) -> None:
    at = 0
    while at < len(into):
        part = file.read(min(len(into) - at, FILLED_AT_ONCE))
        if not part:
            raise UnreadableArray("it is cut off")
        into[at : at + len(part)] = np.frombuffer(part, np.uint8)
        at += len(part)


def _limit(name: str, message: str, limit: str) -> LimitError:
    hint = raise_hint(limit)
    return LimitError(Diagnostic("E600", "error", f"{name}: {message}", hint=hint))


class SavedArrays(Mapping[str, Array]):
    """The arrays of an .npz by name; each is read when it is asked for, and not kept.

    Asking raises UnreadableArray where it is damaged, LimitError where it is larger than what may
    be unpacked.
    """

    def __init__(self, source: PathText | bytes, name: str = "<bytes>") -> None:
        """Open an archive.

        Raises FileAccessError, UnreadableArray where it is none, LimitError where it has too many
        members.
        """
        self.name = name if isinstance(source, bytes) else os.fspath(source)
        file: BinaryIO | None = None
        try:
            file = io.BytesIO(source) if isinstance(source, bytes) else open_file(source)
            _require_short_list(file, self.name)
            self._archive = zipfile.ZipFile(file)
            self._file = file
            self._members = self._listed()
        except BaseException as e:
            if file is not None:
                file.close()
            if isinstance(e, LimitError | UnreadableArray | MemoryError):
                raise
            if isinstance(e, OSError) and e.errno != EINVAL:
                raise unreadable(self.name, e) from None
            if isinstance(e, (OSError, *_DAMAGED)):
                raise UnreadableArray(f"it is no .npz: {e}") from None
            raise

    def _listed(self) -> dict[str, zipfile.ZipInfo]:
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

    def __enter__(self) -> SavedArrays:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._archive.close()
        self._file.close()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def header(self, name: str) -> ArrayHeader:
        """Return what an array says of itself; raises what asking for it does."""
        with self._member(name) as (_, header):
            return header

    def __getitem__(self, name: str) -> Array:
        with self._member(name) as (member, header):
            array = _data(member, header, self.name)
            _to_the_end(member, self._members[name].file_size - header.size - header.nbytes)
            return array

    @contextmanager
    def _member(self, name: str) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
        """Open a member behind its header."""
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


def _to_the_end(member: IO[bytes], left: int) -> None:
    """Read what is left of a short rest, so that the checksum is looked at."""
    if left > FILLED_AT_ONCE:
        raise UnreadableArray("bytes stand behind its elements")
    member.read(left + 1)


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


def is_archive(path: PathText) -> bool:
    """Whether a regular file ends as a zip archive does; OSError where it cannot be read."""
    with open_file(path) as file:
        return zipfile.is_zipfile(file)
