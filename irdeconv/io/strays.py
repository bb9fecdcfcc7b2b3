"""Writers of one folder take turns, and sweep away what killed ones have left behind.

Both rest on locks of the system (flock): they leave no files of their own, and end with the process
that holds them. Where there are none (Windows, some network drives), nothing waits and nothing is
swept.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

PREFIX = ".irdeconv-"
_NAME = re.compile(re.escape(PREFIX) + "[0-9a-f]{16}")
_TURN = 10.0  # seconds; who holds a folder for longer is no writer, and the mark tells the rest
_LOOKS = 60.0  # seconds between two looks at a folder, which may hold many files
_FOLDERS = 1000  # remembered
_swept: dict[str, float] = {}


def beside(target: Path) -> Path:
    """Return a name in the target's folder that no file has."""
    return target.parent / f"{PREFIX}{secrets.token_hex(8)}"


@contextmanager
def folder_beside(target: Path, mode: int = 0o700) -> Iterator[Path]:
    """Make an empty folder beside a target; it is removed in the end.

    Where the process dies before, the next one that makes such a folder there sweeps it away.
    """
    with turn(target.parent) as alone:
        if alone:
            sweep(target.parent)
        made = beside(target)
        made.mkdir(mode)
        fd = -1 if sys.platform == "win32" else os.open(made, os.O_RDONLY | os.O_CLOEXEC)
        if fd >= 0:
            hold(fd)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if fd >= 0:
            os.close(fd)


@contextmanager
def turn(folder: Path) -> Iterator[bool]:
    """Keep other writers away from a folder, yield whether that was possible."""
    try:
        fd = -1 if sys.platform == "win32" else os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it may be written, but not read
        fd = -1
    if fd < 0:
        yield False
        return
    try:
        yield _wait(fd)
    finally:
        # A child forked meanwhile has the descriptor, too: closing alone would not free the lock.
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def _wait(fd: int) -> bool:
    end = time.monotonic() + _TURN
    while not hold(fd):
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def hold(fd: int) -> bool:
    """Lock what a descriptor is open on, until it is closed; whether nobody else has."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sweep(folder: Path) -> None:
    """Remove temporaries whose writers are gone; the caller has its `turn`."""
    now, name = time.monotonic(), os.path.abspath(folder)
    if now - _swept.get(name, -_LOOKS) < _LOOKS:
        return
    if len(_swept) >= _FOLDERS:
        _swept.clear()
    _swept[name] = now
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                _remove(Path(entry.path))


def _remove(path: Path) -> None:
    """Remove a temporary of one's own that no process holds."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if status.st_uid != os.geteuid() or not hold(fd):
                return
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            elif stat.S_ISREG(status.st_mode):
                path.unlink()
        finally:
            os.close(fd)
