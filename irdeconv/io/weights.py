"""The `.bin` file: mapped into memory, never read as a whole."""

from __future__ import annotations

import hashlib
import mmap
from pathlib import Path
from typing import Any

from irdeconv.errors import OpError
from irdeconv.opening import open_file, size_of


class NoWeights:
    """Stands for a weights file that is missing or was left out; a `ByteSource`.

    `reason` is what `read` says.
    """

    def __init__(self, path: str, reason: str | None = None) -> None:
        self.path = path
        self.reason = reason or f"the weights file {path} is missing"
        self._view: memoryview | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # The file may be another one where and when this is unpickled.
        if self._view is None:
            return NoWeights, (self.path, self.reason)
        return MemoryWeights, (bytes(self._view), self.path)

    def __deepcopy__(self, memo: object) -> NoWeights:
        return self

    @property
    def size(self) -> int | None:
        """Bytes in all; None where the file is missing."""
        return None if self._view is None else len(self._view)

    def read(self, offset: int, size: int) -> memoryview:
        """Return a part without copying; OpError where the file is missing or too short."""
        if self._view is None:
            raise OpError(self.reason, code="E120")
        if offset < 0 or size < 0 or offset + size > len(self._view):
            raise OpError(
                f"bytes {offset}..{offset + size} lie outside {self.path}, which has "
                f"{len(self._view)}",
                code="E121",
            )
        return self._view[offset : offset + size]

    def sha256(self) -> str:
        """Return the hash of all bytes, in hexadecimal digits; they are there."""
        return hashlib.sha256(b"" if self._view is None else self._view).hexdigest()


class MemoryWeights(NoWeights):
    """Weights that are held as bytes."""

    def __init__(self, data: bytes, path: str = "<memory>") -> None:
        super().__init__(path)
        self._view = memoryview(data)


class WeightsFile(NoWeights):
    """A read-only, memory-mapped file of weights.

    `path` may name a file that does not exist: `size` is then None and `read` raises OpError.
    Anything that cannot be mapped (a folder, a FIFO, no permission) raises OSError.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(str(path))
        try:
            file = open_file(self.path)
        except FileNotFoundError:
            return
        with file:
            # An empty file cannot be mapped.
            size, fd = size_of(file), file.fileno()
            self._view = memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_READ) if size else b"")
