"""Files that cannot be opened, read or written: the error, and what helps."""

from __future__ import annotations

import os
from errno import EACCES, EFBIG, EISDIR, ENOENT, ENOSPC, ENOTDIR, EROFS
from itertools import islice
from pathlib import Path

from irdeconv.errors import Diagnostic, FileAccessError, no_access
from irdeconv.source import Location
from irdeconv.suggest import did_you_mean

_LOOKED_AT = 1000  # files of a folder that may be meant
_MODELS = (".xml", ".onnx", ".ird")

PathText = str | os.PathLike[str]


def reason_of(error: Exception) -> str:
    """Return what the system says of a file that it cannot open."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def unreadable(
    path: PathText, error: Exception, what: str = "", location: Location | None = None
) -> FileAccessError:
    """Return the error (E100) of a file that cannot be opened; `what` stands before its name."""
    number = error.errno if isinstance(error, OSError) else None
    message = f"cannot read {what}{os.fspath(path)}: {reason_of(error)}"
    hint = reading_hint(path, number)
    return no_access(Diagnostic("E100", "error", message, location, hint=hint), number, path)


def missing(path: PathText, what: str = "", location: Location | None = None) -> FileAccessError:
    """Return the error (E100) of a file that is not there."""
    return unreadable(path, OSError(ENOENT, os.strerror(ENOENT)), what, location)


def unwritable(path: Path, number: int | None, reason: str) -> FileAccessError:
    """Return the error (E701) of a file that cannot be written."""
    hint = _writing_hint(path, number)
    found = Diagnostic("E701", "error", f"{path} cannot be written: {reason}", hint=hint)
    return no_access(found, number, path)


def reading_hint(path: PathText, number: int | None) -> str | None:
    """Return what helps with a file that cannot be opened, if anything is known."""
    text, file = os.fspath(path), Path(path)
    if number == ENOENT:
        if "://" in text:
            return "download it first, and name the file"
        if text.startswith("~/"):
            return f"the shell replaces ~ only where a word begins: {Path.home()}{text[1:]}"
        if not file.parent.exists():
            return f"there is no folder {file.parent}"
        return _near(file)
    if number == EISDIR:
        return _inside(file)
    if number == EACCES:
        return f"you may not read it: chmod u+r {text}"
    return None


def _near(file: Path) -> str:
    """Return which file of the same folder may be meant."""
    names = _names(file.parent)
    if set(file.name) & set("*?"):
        return "no file fits this pattern"
    stems = [n for n in names if Path(n).stem in (file.name, file.stem) and n.endswith(_MODELS)]
    alike = [n for n in names if not file.suffix or Path(n).suffix == file.suffix]
    near = f'did you mean "{stems[0]}"?' if stems else did_you_mean(file.name, alike)
    return near or f"there is no such file in {file.parent.resolve()}"


def _inside(folder: Path) -> str:
    """Return which file of a folder may be meant."""
    models = [n for n in _names(folder) if n.endswith(_MODELS)]
    if not models:
        return "name a file; the folder holds no models"
    return f'name a file in it, such as "{folder / models[0]}"'


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in islice(entries, _LOOKED_AT) if not e.is_dir())
    except OSError:
        return []


def _writing_hint(path: Path, number: int | None) -> str | None:
    folder = path.parent
    if number == EISDIR:
        return f'name a file in it, such as "{path / "model.xml"}"'
    if number == ENOENT and folder.is_dir():
        return f"no files can be made in {folder}; name another place"
    if number == ENOENT:
        return f"make the folder first: mkdir -p {folder}"
    if number == ENOTDIR:
        return f"{folder} is a file, not a folder"
    if number in (EACCES, EROFS):
        return f"you may not write in {folder}; name another place"
    if number == ENOSPC:
        return f"there is no space left where {folder} lies"
    if number == EFBIG:
        return "the file system or a limit (ulimit -f) allows no larger files"
    return None
