"""Files that appear whole or not at all: written beside their targets, then renamed onto them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from errno import EACCES, EISDIR, ENOENT, ENOTDIR
from pathlib import Path
from typing import BinaryIO

from irdeconv.access import unwritable
from irdeconv.errors import FileAccessError


@dataclass(frozen=True)
class Replacement:
    """A file that is to take the place of `target`; `name` is where it stands until then."""

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

    def open(self, target: Path) -> Replacement:
        """Open a file in the target's folder; OSError where that cannot be written."""
        name = _beside(target)
        self.names.append(name)  # before it exists, so that no interruption leaves it behind
        made = Replacement(target, name, name.open("xb"))
        self.opened.append(made)
        return made

    def write(self, target: Path, data: bytes) -> None:
        """Write a whole file; FileAccessError.

        A device or a pipe cannot be replaced: it gets the data now.
        """
        require_writable(target)
        with failures(target):
            if target.exists() and not target.is_file():
                target.write_bytes(data)
                return
            new = self.open(target)
            new.file.write(data)
            new.finish()

    def put(self) -> None:
        """Finish all files, then let each take its place, in the order of opening.

        Where one cannot, those before it give their places back.
        """
        for one in self.opened:
            with failures(one.target):
                one.finish()
        with ExitStack() as undo:
            for one in self.opened:
                with failures(one.target):
                    former = _Former(one.target)
                    undo.push(former.restore)
                    former.keep()
                    os.replace(one.name, one.target)


class _Former:
    """What stands at a path before it is replaced, or that nothing does; it returns on an error."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.status = _status(target)
        self.name = _beside(target)
        self.kept = False

    def keep(self) -> None:
        """Give what stands there a second name."""
        if self.status is not None:
            # Some file systems know no links, and not everybody's file may be linked.
            with suppress(OSError, NotImplementedError):
                os.link(self.target, self.name, follow_symlinks=False)
                self.kept = True

    def restore(self, error: type[BaseException] | None, *more: object) -> None:
        """Put it back on an error, and drop its second name."""
        replaced = _status(self.target) != self.status
        with suppress(OSError):
            if error is not None and replaced and self.kept:
                os.replace(self.name, self.target)
            elif error is not None and replaced and self.status is None:
                self.target.unlink()
            self.name.unlink(missing_ok=True)


def _status(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def together() -> Iterator[Files]:
    """Collect files that are put in place at the end: all of them, or none where anything fails.

    Raises FileAccessError where one cannot be finished or put.
    """
    files = Files()
    try:
        yield files
        files.put()
    finally:
        for one in files.opened:
            with suppress(OSError):  # what is not finished is not wanted
                one.file.close()
        for name in files.names:
            name.unlink(missing_ok=True)


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
    """Raise FileAccessError (E701) where a regular file cannot be put at `target`.

    What is neither a folder nor a regular file (a device, a pipe) has to be writable itself.
    """
    special = target.exists() and not target.is_file()
    if target.name in ("", "..") or target.is_dir():
        problem = EISDIR
    elif not special and not target.parent.is_dir():
        problem = ENOTDIR if target.parent.exists() else ENOENT
    elif not os.access(target if special else target.parent, os.W_OK):
        problem = EACCES
    else:
        if not special:
            _try(target)
        return
    raise unwritable(target, problem, os.strerror(problem))


def _try(target: Path) -> None:
    """Make a file beside the target and remove it: permissions alone do not say whether it works.

    A file system may be read-only or full, or like /proc make no files at all.
    """
    trial = _beside(target)
    with failures(target):
        trial.touch(exist_ok=False)
        trial.unlink()


def _beside(target: Path) -> Path:
    """Return a name in the target's folder that no file has."""
    return target.parent / f".irdeconv-{secrets.token_hex(8)}"
