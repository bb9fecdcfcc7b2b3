"""Files that appear whole or not at all: written beside their target, then renamed onto it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class Replacement:
    """A file that is to take the place of `target`; `name` is where it stands until then."""

    target: Path
    name: Path
    file: BinaryIO

    def finish(self) -> None:
        """Bring everything written so far to the disk, and close."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def put(self) -> None:
        """Take the target's place; only after `finish`."""
        os.replace(self.name, self.target)


@contextmanager
def replacement(target: Path) -> Iterator[Replacement]:
    """Open a file in the target's folder; it is deleted at the end unless it was put in place.

    Raises OSError where the folder cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".irdeconv-")
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            made.chmod(0o666 & ~_umask())  # mkstemp lets only the owner read
            yield Replacement(target, made, file)
    finally:
        made.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
