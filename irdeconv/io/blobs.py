"""The `.bin` while it is written: part by part, each constant once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, BinaryIO


@dataclass
class Blobs:
    """The `.bin` while it is written: identical blobs are stored once, nothing is aligned.

    `hash` is that of all bytes so far.
    """

    file: BinaryIO
    size: int = 0
    seen: dict[bytes, int] = field(default_factory=dict)
    hash: Any = field(default_factory=hashlib.sha256)

    def add(self, pieces: Iterable[bytes | memoryview]) -> tuple[int, int]:
        """Store a blob that comes in pieces; returns (offset, size).

        One of several pieces is written before it is known to be new, because making the pieces
        takes longer; if there is one like it, it is taken back.
        """
        rest = iter(pieces)
        first, second = next(rest, b""), next(rest, None)
        if second is None:
            data = first if len(first) else b"\0"
            return self._placed(_key(hashlib.blake2b(data), len(data)), data)
        start, hash, digest = self.size, self.hash.copy(), hashlib.blake2b()
        for piece in chain((first, second), rest):
            digest.update(piece)
            self._append(piece)
        size = self.size - start
        key = _key(digest, size)
        if key in self.seen:
            self.file.seek(start)
            self.file.truncate()
            self.size, self.hash = start, hash
        return self.seen.setdefault(key, start), size

    def _placed(self, key: bytes, data: bytes | memoryview) -> tuple[int, int]:
        if key not in self.seen:
            self.seen[key] = self.size
            self._append(data)
        return self.seen[key], len(data)

    def _append(self, piece: bytes | memoryview) -> None:
        self.file.write(piece)
        self.hash.update(piece)
        self.size += len(piece)


def _key(digest: Any, size: int) -> bytes:
    found: bytes = digest.digest() + size.to_bytes(8, "little")
    return found
