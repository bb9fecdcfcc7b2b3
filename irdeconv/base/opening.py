"""Opening untrusted files.

Only regular files are opened, each within a limit, and read once. A pipe, a socket or a device may
give bytes without end, so it is refused before a byte is read. The name of a file does not decide
how it is read, and nothing is unpacked. Errors of the system become diagnostics with a remedy.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from errno import EACCES, EEXIST, EFBIG, EISDIR, ELOOP, ENOENT, ENOSPC, ENOTDIR, EROFS
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from irdeconv.base import work
from irdeconv.base.errors import (
    Collector,
    Diagnostic,
    FileAccessError,
    LimitError,
    UsageError,
    did_you_mean,
    first_names,
    misused,
    nearest,
    no_access,
    question,
)
from irdeconv.base.limits import current
from irdeconv.base.source import Location, SourceFile

_LOOKED_AT = 1000  # files of a folder that may be meant
_MODELS = (".xml", ".onnx", ".ird")
_TOGETHER = (  # suffixes of files that have the same uses
    (*_MODELS, ".json"),
    (".npy", ".npz", ".safetensors", ".png", ".jpg", ".jpeg"),
    (".json", ".toml"),
    (".bin",),
)

PathText = str | os.PathLike[str]


def reason_of(error: Exception) -> str:
    """Return the system's reason for an error of a file."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def unreadable(
    path: PathText, error: Exception, what: str = "", location: Location | None = None
) -> FileAccessError:
    """Return the error (E100) of a file that cannot be opened; `what` comes before its name."""
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
    """Return a hint for a file that cannot be opened, if there is one."""
    text, file = os.fspath(path), Path(path)
    if number == ENOENT:
        if file.is_symlink():
            return _link_hint(file)
        if re.fullmatch(r"[EW]\d{3}", text):
            return f"irdeconv codes {text} explains it"
        if "://" in text:
            return "name its path" if "file:" in text else "download it first, and name the file"
        if text.startswith("~/"):
            return f"the shell replaces ~ only where a word begins: {Path.home()}{text[1:]}"
        if variable := re.match(r"\$\w+|\$\{\w+\}|%\w+%", text):
            return f"{variable[0]} is a variable that the shell did not replace"
        if is_file(slashes := text.replace("\\", "/")):
            return question([slashes])
        if not file.parent.exists():
            return f"there is no folder {file.parent}"
        return _near(file)
    if number == EISDIR:
        names = _names(file)
        if file.suffix == ".mlpackage":
            return "it is a model of Core ML: export the model to ONNX where it was made"
        if "saved_model.pb" in names:
            return f"convert this model of TensorFlow: ovc {text}"
        model = next((n for n in names if n.endswith(_MODELS)), None)
        inside = _model_below(file) if model is None else file / model
        if inside is None:
            return "name a file; the folder holds no models"
        return (
            f'name a file in it, such as "{inside}"; irdeconv batch VERB {text} takes all of them'
        )
    if number == ENOTDIR:
        above = next((p for p in (file, *file.parents) if p.is_file()), file)
        return f"{above} is a file, not a folder"
    if number == EACCES:
        return f"you may not read it: chmod u+r {text}"
    if number == ELOOP and file.is_symlink():
        return _link_hint(file)
    return None


def _link_hint(link: Path) -> str:
    """Return a hint for a link to nothing, or in a circle."""
    circle = os.path.islink(os.path.realpath(link))
    end = "leads back to it" if circle else "does not exist"
    return f"it is a link to {os.readlink(link)}, which {end}"


def real(path: PathText) -> Path:
    """Return a path without links; unlike Path.resolve, also of links in a circle."""
    return Path(os.path.realpath(path))


def _near(file: Path) -> str:
    """Return a hint that names a similar file of the same folder."""
    names = _names(file.parent)
    if set(file.name) & set("*?"):
        for first in (file.parent / n for n in names if fnmatch(n, file.name)):
            return f'name one file, such as "{first}"; batch takes patterns'
        meant = [str(file.with_suffix(s)) for s in nearest(file.suffix, _MODELS)]
        return "; ".join(filter(None, ("no file fits this pattern", question(meant))))
    several = [word for word in re.split("[,; ]+", str(file)) if word]
    if len(several) > 1 and all(map(is_file, several)):
        return f"name each file by itself: {' '.join(several)}"
    groups = [group for group in _TOGETHER if file.suffix.lower() in group]
    suffixes = [suffix for group in groups for suffix in group] or [*_MODELS]
    known = groups or not file.suffix  # a name without a suffix is one of a model
    alike = [n for n in names if not known or Path(n).suffix in suffixes]
    stems = [n for n in names if n.lower() == file.name.lower()]
    stem = file.stem, file.name
    twins = [n for n in names if Path(n).stem in stem and Path(n).suffix in suffixes]
    stems += sorted(twins, key=lambda n: suffixes.index(Path(n).suffix))
    same = {Path(n).stem: n for n in alike if Path(n).suffix == file.suffix}
    near = stems[:1] or [same[stem] for stem in nearest(file.stem, same)]
    near = near or nearest(file.name, alike, 0.75)
    kin = [*same.values()] or (alike if groups else [])
    there_is = f"has {first_names(kin)}" if kin else f"has no {file.suffix or 'such'} file"
    folder = "this folder" if file.parent == Path() else file.parent
    return question(near) or f"{folder} {there_is}"


def _model_below(folder: Path) -> Path | None:
    """Return a model in a folder's folders, among the first files that are there."""
    looked_at = 0
    for root, folders, names in os.walk(folder):
        folders.sort()
        looked_at += len(names) + 1
        model = next((n for n in sorted(names) if n.endswith(_MODELS)), None)
        if model or looked_at > _LOOKED_AT:
            return Path(root, model) if model else None
    return None


def _names(folder: Path) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(e.name for e in islice(entries, _LOOKED_AT) if not e.is_dir())
    return []


def _writing_hint(path: Path, number: int | None) -> str | None:
    folder = path.parent
    if number == EEXIST and path.is_symlink():
        return _link_hint(path)
    if number == ENOENT and folder.is_dir():
        return f"no files can be made in {folder}; name another place"
    hints = {
        EISDIR: f'name a file in it, such as "{path / "model.xml"}"',
        ENOENT: f"make the folder first: mkdir -p {folder}",
        ENOTDIR: f"{folder} is a file, not a folder",
        **dict.fromkeys((EACCES, EROFS), f"you may not write in {folder}; name another place"),
        ENOSPC: f"there is no space left where {folder} lies",
        EFBIG: "the file system or a limit (ulimit -f) allows no larger files",
    }
    return hints.get(number) if number else None


# O_NONBLOCK: opening a named pipe must not wait for a writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
KEY_PARTS = 100  # of a dotted key in TOML
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularError(OSError):
    """The path names a pipe, a socket or a device, which may have no end."""


def open_file(path: PathText) -> BinaryIO:
    """Open a regular file for reading; OSError, at once, if it is anything else."""

    def opener(name: str, _: int) -> int:
        _refuse(os.stat(name).st_mode)  # opening alone may have an effect: a tape rewinds
        return os.open(name, _FLAGS)

    file = open(path, "rb", opener=opener)  # noqa: SIM115
    try:
        _refuse(os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def _refuse(mode: int) -> None:
    for holds, name in _KINDS:
        if holds(mode):
            raise NotRegularError(f"it is {name}, not a regular file")


def size_of(file: BinaryIO) -> int:
    """Return the number of bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def first_bytes(path: PathText, count: int) -> bytes:
    """Return the first bytes of a regular file; OSError if it cannot be read."""
    with open_file(path) as file:
        return file.read(count)


def contents(path: PathText, most: int, what: str = "") -> bytes:
    """Return the bytes of a regular file; OSError, ValueError, LimitError (E600) above `most`."""
    with open_file(path) as file:
        size = size_of(file)
        if size > most:
            raise too_large(path, size, most, what)
        work.earn(size, str(path))
        return file.read(size)


def read_file(path: PathText, most: int, what: str = "") -> bytes:
    """Return the bytes of a file, `what` before its name; FileAccessError, LimitError (E600)."""
    try:
        return contents(path, most, what)
    except (OSError, ValueError) as e:  # a ValueError: the path has a NUL or a surrogate
        raise unreadable(path, e, what) from None


def too_large(path: PathText, size: int, most: int, what: str = "") -> LimitError:
    """Return the error (E600) of a file that is larger than its limit."""
    name = os.fspath(path)
    message = f"{what}{name} has {size:,} bytes; the limit is {most:,}"
    return LimitError(Diagnostic("E600", "error", message, Location(SourceFile(name, b""))))


def read_text(path: PathText, most: int, what: str = "") -> str:
    """Return the text of a UTF-8 file; raises as `read_file`, ValueError for other text."""
    return read_file(path, most, what).decode("utf-8-sig")


def read_json(path: PathText, what: str = "") -> Any:
    """Return the value in a JSON file; raises as `read_file`, ValueError if it is not JSON."""
    return parse_json(read_file(path, current().json_bytes, what))


def parse_json(data: bytes | str) -> Any:
    """Return the value of a JSON text; ValueError if it is not JSON, or unusable here.

    Refused are duplicate names in one object, for which readers take different values, nesting that
    Python cannot follow, numbers of thousands of digits, and text that is not Unicode.
    """
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as e:
        if "Exceeds the limit" not in str(e):  # of int()
            raise
        raise ValueError("a number has thousands of digits") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {shown(twice)} stands twice in an object")
    return found


def shown(value: Any, most: int = 60) -> str:
    """Return a value of a file for a message: on one line, cut if it is long."""
    if isinstance(value, int) and value.bit_length() > most * 3:
        return f"a number of {value.bit_length():,} bits"
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most + 2 else f"{text[:most]}..."


def is_file(path: PathText) -> bool:
    """Whether a path names a regular file."""
    with suppress(OSError, ValueError):
        return Path(path).is_file()
    return False


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table of a TOML text; ValueError if it is not TOML, or a key has too many parts.

    The time of tomllib grows with the square of their number.
    """
    import tomllib

    rows = (row for row in text.split("\n") if not row.lstrip().startswith("#"))
    if any(part.count(".") > KEY_PARTS for row in rows for part in row.split("=")):
        raise ValueError(f"a key has more than {KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


MOST_TRIES = 1000  # to find the line of a mistake
_KEY_OR_STRING = re.compile(r"[\"']?[ \t]*=|[\"']")  # behind a key or a string


class TomlReader:
    """The `content` of a TOML file, and the mistakes in it; UsageError if it is not TOML."""

    def __init__(self, text: str | bytes, file: str) -> None:
        try:
            self._text = text if isinstance(text, str) else text.decode("utf-8")
            self.content = parse_toml(self._text)
        except ValueError as e:
            hint = "correct it at this place" if file.endswith(".toml") else "name a .toml file"
            raise misused(f"{file}: not TOML: {e}", hint) from e
        self._source = SourceFile(file, self._text.encode())
        self._problems = Collector(most=current().reports)

    def problem(
        self,
        message: str,
        words: tuple[str, ...],
        hint: str | None = None,
        known: Iterable[str] = (),
    ) -> None:
        """Record a mistake, at the last of some words that follow each other in the file.

        The hint names the nearest one of `known`, if there is one.
        """
        if not self._problems.skips("E700", "error"):  # a file may have 100,000 mistakes
            location = Location(self._source, fixed=self.position(words))
            hint = did_you_mean(words[-1], known) or hint
            last = self._problems.diagnostics[-1:]
            if [message] != [d.message for d in last] or repr(last[0].location) != repr(location):
                self._problems.add("E700", message, location=location, hint=hint)

    def position(self, words: tuple[str, ...]) -> tuple[int, int]:
        """Return line and column of the last word that is there."""
        begin = end = 0
        for word in words:
            tried = end
            for _ in range(MOST_TRIES):
                found = self._text.find(word, tried)
                tried = found + len(word)
                if found < 0:
                    break
                begins = not found or self._text[found - 1] in " \t\n\"'"
                if begins and (word[0] == "[" or _KEY_OR_STRING.match(self._text, tried)):
                    begin, end = found, tried
                    break
        return self._text.count("\n", 0, begin) + 1, begin - self._text.rfind("\n", 0, begin)

    def require_none(self) -> None:
        """Raise UsageError with all mistakes, if there are any."""
        found = self._problems.diagnostics
        found.sort(key=lambda d: (d.location and d.location.position) or (0, 0))
        self._problems.count_rest()
        if self._problems.errors:
            raise UsageError(found)
