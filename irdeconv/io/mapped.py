"""Files that are mapped into memory, and may be cut off or overwritten while they are.

Reading a page that a file no longer has is SIGBUS, which ends the process. Here zeros take the
place of such pages, the work goes on, and `require_intact`, called when it is done, says that it
counts for nothing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from irdeconv.errors import Diagnostic, InputError
from irdeconv.source import Location, SourceFile

_SIGBUS = {"linux": 7, "darwin": 10}.get(sys.platform)  # elsewhere a mapped file cannot be cut off
_ANONYMOUS = {"linux": 0x20, "darwin": 0x1000}
_PRIVATE, _FIXED = 0x02, 0x10
_RELEASED_BYTES = 1 << 20  # less is not worth a call
_GIVEN_UP = 1000  # faults in a row that no file explains


class MappedFile:
    """A mapping of a whole file, which it watches."""

    def __init__(self, path: str, fd: int, map: mmap.mmap) -> None:
        self.path, self._map, self.size = path, map, len(map)
        status = os.fstat(fd)
        self._file = status.st_dev, status.st_ino
        self._time = status.st_mtime_ns
        self._start = np.frombuffer(map, np.uint8).__array_interface__["data"][0]
        self._end = self._start + -(-self.size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.lost = False
        self._zeros = self._end  # where those begin that took the place of pages
        _MAPPED[id(self)] = self
        _install()

    def release(self, offset: int, size: int) -> None:
        """Give back the memory of a part's pages; they are mapped again when they are read."""
        start = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
        stop = min(offset + size, self.size) // mmap.PAGESIZE * mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and stop - start >= _RELEASED_BYTES:
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)

    @property
    def changed(self) -> bool:
        """Whether the file has been cut off or written to since it was mapped."""
        if self.lost:
            return True
        try:
            status = os.stat(self.path)
        except OSError:  # it has been removed: what is mapped stays
            return self._map.size() != self.size
        if (status.st_dev, status.st_ino) != self._file:  # it has been replaced
            return self._map.size() != self.size
        return status.st_mtime_ns != self._time or status.st_size != self.size

    def require_intact(self) -> None:
        """Raise InputError (E125) where the file has changed."""
        if self.changed:
            raise InputError(self.diagnostic())

    def diagnostic(self) -> Diagnostic:
        """Return the error of a file that has changed (E125)."""
        size = self._map.size()
        what = "something wrote to it"
        if size != self.size:
            what = f"it had {self.size} bytes, and has {size}"
        message = f"{self.path} was changed while it was in use: {what}"
        return Diagnostic("E125", "error", message, Location(SourceFile(self.path, b"")))

    def patch(self) -> bool:
        """Put zeros where the file no longer has pages; whether that may explain a fault."""
        known, self.lost = self.lost, self.changed
        start = self._start + -(-self._map.size() // mmap.PAGESIZE) * mmap.PAGESIZE
        if start >= self._zeros:
            return self.lost and not known  # it may have grown again since
        kind = _PRIVATE | _FIXED | _ANONYMOUS[sys.platform]
        _MMAP(start, self._end - start, mmap.PROT_READ, kind, -1, 0)
        self._zeros = start
        return True


_MAPPED: WeakValueDictionary[int, MappedFile] = WeakValueDictionary()
_MMAP: Any = None
_STATE: dict[str, Any] = {"unexplained": 0}


def _install() -> None:
    """Answer SIGBUS, once."""
    global _MMAP
    if _SIGBUS is None or "handler" in _STATE:
        return
    _STATE["handler"] = None
    with suppress(OSError, AttributeError, MemoryError):  # as it was, without
        libc = ctypes.CDLL(None)
        _MMAP = libc.mmap
        _MMAP.restype = ctypes.c_void_p
        number, size = ctypes.c_int, ctypes.c_size_t
        _MMAP.argtypes = (ctypes.c_void_p, size, number, number, number, ctypes.c_long)
        libc.signal.restype = ctypes.c_void_p
        libc.signal.argtypes = (number, ctypes.c_void_p)
        _STATE["handler"] = ctypes.CFUNCTYPE(None, number)(_answer)
        _STATE["signal"] = libc.signal
        address = ctypes.cast(_STATE["handler"], ctypes.c_void_p)
        _STATE["former"] = libc.signal(_SIGBUS, address)


def _answer(number: int) -> None:
    """Explain a fault by a file of ours, so that the instruction can be repeated.

    What none of them explains is left to whoever answered before.

    A fault is not sent from outside: this runs where the mapped memory is read, so nothing here
    waits for what that code holds.
    """
    explained = [one.patch() for one in list(_MAPPED.values())]
    _STATE["unexplained"] = 0 if any(explained) else _STATE["unexplained"] + 1
    if _STATE["unexplained"] >= _GIVEN_UP:
        _STATE["signal"](number, _STATE["former"])
