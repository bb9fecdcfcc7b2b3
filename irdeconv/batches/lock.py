"""A folder that one batch has for itself as long as it is at work.

The lock is one of the system (flock): it goes when its process goes, however that ends. The file
says who holds it, and what an old one says counts for nothing. Where the system knows no such locks
(Windows, some network drives) nobody is kept out.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from irdeconv.errors import misused
from irdeconv.io.atomic import failures

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "batch.lock"
MOST_WORDS = 200  # bytes of a lock that are shown


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other batches out of a folder; UsageError where one is at work there."""
    path = folder / LOCK
    file = _taken(path)
    try:
        with failures(path):
            os.ftruncate(file, 0)
            os.write(file, _words().encode())
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(file)


def locked(file: int) -> bool:
    """Lock an open file until it is closed; False where somebody else has."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def _taken(path: Path) -> int:
    """Open the lock and lock it; its holder removes it, so it may be another file by then."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    while True:
        with failures(path):
            file = os.open(path, flags, 0o644)
        try:
            if not locked(file):
                raise misused(
                    f"another batch is at work in {path.parent}: {_holder(file)}",
                    "wait for its end, or name another folder with -o",
                )
            with suppress(OSError):
                if os.path.samestat(os.fstat(file), path.lstat()):
                    kept, file = file, -1
                    return kept
        finally:
            if file >= 0:
                os.close(file)


def _words() -> str:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} on {platform.node()}, since {now}\n"


def _holder(file: int) -> str:
    words = os.pread(file, MOST_WORDS, 0) if hasattr(os, "pread") else b""
    return words.decode("utf-8", "replace").strip() or "it has not said who it is"
