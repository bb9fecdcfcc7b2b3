"""Files that appear whole or not at all: written beside their targets, then renamed.

Writers of one folder take turns, and remove the temporary files of killed writers. Both use locks
of the system (flock), which leave no files and end with their process. On systems without such
locks (Windows, some network drives), nothing waits and nothing is removed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from errno import EACCES, EINVAL, EISDIR, ENOENT, ENOTDIR, EROFS
from pathlib import Path
from threading import Event
from typing import BinaryIO

from irdeconv.base.errors import FileAccessError
from irdeconv.base.opening import unwritable

if sys.platform != "win32":
    import fcntl

PREFIX = ".irdeconv-"
_NAME = re.compile(re.escape(PREFIX) + "[0-9a-f]{16}")
_TURN = 10.0  # seconds; writers hold a folder for less, and the mark detects mixed files
_LOOKS = 60.0  # seconds between two looks at a folder, which may hold many files
_FOLDERS = 1000  # remembered
_swept: dict[str, float] = {}
_names: dict[Path, int] = {}  # of temporaries that may exist, with the process that made them


def beside(target: Path) -> Path:
    """Return a name for a temporary in the target's folder that no file has; `drop` it."""
    name = target.parent / f"{PREFIX}{secrets.token_hex(8)}"
    _names[name.absolute()] = os.getpid()
    return name


def drop(path: Path) -> None:
    """Remove a temporary, if there is one; if that fails, the next writer looks again."""
    try:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        _swept.pop(os.path.abspath(path.parent), None)
    _names.pop(path.absolute(), None)


def drop_all() -> None:
    """Remove the temporaries of this process: an interruption may come while they are removed."""
    for name, process in tuple(_names.items()):
        if process == os.getpid():  # a forked copy knows those of its parent
            drop(name)


@contextmanager
def folder_beside(target: Path, mode: int = 0o700) -> Iterator[Path]:
    """Make an empty folder beside a target; it is removed at the end, or by a later sweep."""
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
        drop(made)
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
    end = time.monotonic() + _TURN
    try:
        while not (free := hold(fd)) and time.monotonic() <= end:
            time.sleep(0.002)
        yield free
    finally:
        # A child forked meanwhile has the descriptor, too: closing alone would not free the lock.
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def hold(fd: int) -> bool:
    """Lock the file of a descriptor until it is closed; whether the lock was free."""
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
            if stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
                drop(path)
        finally:
            os.close(fd)


_LINKS = 40  # as many as Linux follows
_STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2}
_DESCRIPTOR = re.compile(
    r"/(?:proc/(?:self|thread-self)|dev)/fd/([0-9]{1,9})|/dev/(stdin|stdout|stderr)"
)


@dataclass(frozen=True)
class Replacement:
    """A file that will replace `target`; until then it has the path `name`."""

    target: Path
    name: Path
    file: BinaryIO

    def finish(self) -> None:
        """Bring everything written so far to the disk, and close; once is enough."""
        if not self.file.closed:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()


@dataclass(frozen=True)
class Files:
    """New files that take their places together; see `together`."""

    opened: list[Replacement] = field(default_factory=list)
    names: list[Path] = field(default_factory=list)
    held: list[int] = field(default_factory=list)  # descriptors that keep temporaries locked
    settled: Event = field(default_factory=Event)  # all have their places

    def open(self, target: Path) -> Replacement:
        """Open a file in the target's folder; OSError if that cannot be written.

        A link is followed. The new file gets the permissions and, as far as allowed, the owner of
        an existing one, whose other names (hard links) keep the old content.
        """
        if descriptor_of(target) is not None:
            raise OSError(EINVAL, "it is an open file of this process, which nothing can replace")
        target = Path(os.path.realpath(target)) if target.is_symlink() else target
        with turn(target.parent) as alone:
            if alone:
                sweep(target.parent)
            name = beside(target)
            self.names.append(name)  # before it exists, so that no interruption leaves it behind
            made = Replacement(target, name, self._create(name, target))
        self.opened.append(made)
        return made

    def _create(self, name: Path, target: Path) -> BinaryIO:
        try:
            former = target.stat()
        except OSError:
            former = None
        mode = 0o666 if former is None else stat.S_IMODE(former.st_mode) & 0o777
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        file = os.fdopen(fd, "w+b")
        if os.name != "nt":  # which replaces no open file, and has no such permissions
            self.held.append(os.dup(fd))
            hold(self.held[-1])
            if former is not None:  # the new file gets its owner and permissions
                new = os.fstat(fd)
                if (new.st_uid, new.st_gid) != (former.st_uid, former.st_gid):
                    with suppress(OSError):
                        os.fchown(fd, former.st_uid, former.st_gid)
                os.fchmod(fd, mode)
        return file

    def write(self, target: Path, data: bytes | Iterable[bytes]) -> None:
        """Write a whole file, at once or in pieces; FileAccessError.

        A target that cannot be replaced gets the data now: a device, a pipe, a descriptor such as
        /dev/stdout, even if that is a regular file.
        """
        require_writable(target)
        pieces = [data] if isinstance(data, bytes) else data
        with failures(target):
            fd = descriptor_of(target)
            if fd is not None or (target.exists() and not target.is_file()):
                with open(target if fd is None else os.dup(fd), "wb") as file:
                    file.writelines(pieces)
            else:
                new = self.open(target)
                new.file.writelines(pieces)
                new.finish()

    def put(self) -> None:
        """Finish all files, then let each replace its target.

        The first one opened, the main file, goes first if it has a predecessor, or else last: a
        process killed in between leaves no new main file without the others. If one fails, the
        former files are restored. An interruption after the last one changes nothing. Other
        writers wait meanwhile.
        """
        for one in self.opened:
            with failures(one.target):
                one.finish()
        with ExitStack() as turns, ExitStack() as undo:
            for folder in sorted({os.path.realpath(one.target.parent) for one in self.opened}):
                turns.enter_context(turn(Path(folder)))
            for one in self.opened:
                with failures(one.target):
                    former = _Former(one.target, self.settled)
                    undo.push(former.restore)
                    former.keep()
            old = any(os.path.lexists(one.target) for one in self.opened[:1])
            for one in self.opened if old else reversed(self.opened):
                with failures(one.target):
                    os.replace(one.name, one.target)
            self.settled.set()

    def tidy(self) -> None:
        """Close everything, and remove the temporaries that are left."""
        for one in self.opened:
            with suppress(OSError):  # unfinished files are removed below
                one.file.close()
        for name in self.names:
            drop(name)
        while self.held:
            os.close(self.held.pop())


def descriptor_of(path: Path) -> int | None:
    """Return the descriptor that a path such as /dev/stdout names, through any links."""
    for _ in range(_LINKS):
        named = _DESCRIPTOR.fullmatch(os.path.normpath(path.absolute()))
        if named:
            return int(named[1]) if named[1] else _STREAMS[named[2]]
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)
    return None


class _Former:
    """The former file at a path, or that there is none; it is restored on an error."""

    def __init__(self, target: Path, settled: Event) -> None:
        self.target = target
        self.settled = settled
        self.status = _status(target)
        self.name = beside(target)
        self.kept = False

    def keep(self) -> None:
        """Give the former file a second name."""
        if self.status is not None:
            # Some file systems know no links, and not everybody's file may be linked.
            with suppress(OSError, NotImplementedError):
                os.link(self.target, self.name, follow_symlinks=False)
                self.kept = True

    def restore(self, error: type[BaseException] | None, *more: object) -> None:
        """Put it back on an error, unless all are in place, and drop its second name."""
        back = error is not None and not self.settled.is_set()
        replaced = back and _status(self.target) != self.status
        with suppress(OSError):
            if replaced and self.kept:
                os.replace(self.name, self.target)
            elif replaced and self.status is None:
                self.target.unlink()
        drop(self.name)


def _status(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def together() -> Iterator[Files]:
    """Put the collected files in place at the end, all or none; FileAccessError."""
    files = Files()
    try:
        yield files
        files.put()
    finally:
        files.tidy()


def write_file(target: Path, data: bytes) -> None:
    """Write one file, whole or not at all; FileAccessError."""
    with together() as files:
        files.write(target, data)


@contextmanager
def failures(path: Path) -> Iterator[None]:
    """Turn an OSError of writing into a FileAccessError (E701) that names the path."""
    try:
        yield
    except FileAccessError:
        raise
    except OSError as e:
        raise unwritable(path, e.errno, e.strerror or str(e)) from e


def require_writable(target: Path) -> None:
    """Raise FileAccessError (E701) if a regular file cannot be put at `target`.

    A target that is neither a folder nor a regular file (a device, a pipe) must be writable itself.
    """
    special = descriptor_of(target) is not None or (target.exists() and not target.is_file())
    if target.name in ("", "..") or target.is_dir():
        problem = EISDIR
    elif not special and not target.parent.is_dir():
        problem = ENOTDIR if target.parent.exists() else ENOENT
    elif not os.access(target if special else target.parent, os.W_OK):
        unix = hasattr(os, "statvfs")
        problem = EROFS if unix and os.statvfs(target.parent).f_flag & os.ST_RDONLY else EACCES
    else:
        if not special:
            _try(target)
        return
    raise unwritable(target, problem, os.strerror(problem))


def _try(target: Path) -> None:
    """Make a file beside the target and remove it: permissions alone do not say whether it works.

    A file system may be read-only or full, or like /proc make no files at all.
    """
    trial = beside(Path(os.path.realpath(target)))
    with failures(target):
        trial.touch(exist_ok=False)
    drop(trial)
