"""The user's own folder for what is kept between processes: private, by processor.

Compiled code is loaded and run, so it comes from a folder only that belongs to the user, in which
nobody else may write.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
from functools import cache
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def user_folder() -> Path:
    """Return where programs keep what they can make again, by the platform's convention."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "irdeconv"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/irdeconv"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "irdeconv"


def private_folder(path: Path) -> Path | None:
    """Make a folder that is the user's own; None where it cannot be, or belongs to somebody else.

    The folders above it may not be open to others either: who can rename it can replace it.
    """
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        whole = path.resolve()
        if all(is_private(p, last=p == whole) for p in (whole, *whole.parents)):
            return whole
    except (OSError, RuntimeError):  # RuntimeError: nobody's home is known
        pass
    return None


def is_private(path: Path, *, last: bool = True) -> bool:
    """Whether only the user may change a file, or what a folder holds; OSError.

    A folder above it (not the `last`) may be the system's, and open to all if things in it stay
    those of their owners (the sticky bit of /tmp).
    """
    if not hasattr(os, "getuid"):
        return True
    found = path.stat()
    own = found.st_uid == os.getuid() or (not last and found.st_uid == 0)
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return own and (not shared or (not last and bool(found.st_mode & stat.S_ISVTX)))


@cache
def processor() -> str:
    """Return a short digest of the processor: its name and what it can do."""
    said = [platform.machine(), platform.processor(), sys.byteorder]
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        wanted = ("model name", "flags", "Features", "CPU part")
        said += sorted({line for line in lines if line.startswith(wanted)})
    except OSError:
        pass
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
