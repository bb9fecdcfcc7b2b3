"""The `.bin` file: mapped into memory, never read as a whole."""

from __future__ import annotations

import hashlib
import mmap
from pathlib import Path
from typing import Any

from irdeconv.constant import FileData
from irdeconv.errors import OpError
from irdeconv.graph import Graph
from irdeconv.io.mapped import MappedFile
from irdeconv.moved import MovedData
from irdeconv.opening import open_file, size_of
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.bodies import every_node


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

    def release(self, offset: int, size: int) -> None:
        """Give back the memory of a part that has been read and can be read anew."""

    def require_intact(self) -> None:
        """Raise InputError (E125) where a file has been cut off or written to since it was opened.

        What was read of it before counts for nothing.
        """

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
        self._mapped: MappedFile | None = None
        try:
            file = open_file(self.path)
        except FileNotFoundError:
            return
        with file:
            size, fd = size_of(file), file.fileno()
            self._view = memoryview(b"")
            if size:  # an empty file cannot be mapped
                held = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
                self._view, self._mapped = memoryview(held), MappedFile(self.path, fd, held)

    def release(self, offset: int, size: int) -> None:
        """See `NoWeights`: the pages stay in the system's cache of files."""
        if self._mapped is not None:
            self._mapped.release(offset, size)

    def require_intact(self) -> None:
        """See `NoWeights`."""
        if self._mapped is not None:
            self._mapped.require_intact()


def sources_of(graph: Graph) -> list[NoWeights]:
    """Return the weights files in which constants of a graph lie, also those of bodies."""
    found: dict[int, NoWeights] = {}
    for node in every_node(graph):
        data = node.op.data if isinstance(node.op, Const) else None
        data = node.op.weights if isinstance(node.op, Opaque) else data
        while isinstance(data, MovedData):
            data = data.source
        if isinstance(data, FileData) and isinstance(data.source, NoWeights):
            found[id(data.source)] = data.source
    return list(found.values())
