"""Items: which files there are, what an item is called, and what its result depends on."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from irdeconv import __version__
from irdeconv.access import missing, unreadable
from irdeconv.errors import misused

MODELS = (".xml", ".onnx", ".ird")  # a folder's .json is rarely a dump of oneDNN
LONGEST_NAME = 60  # characters of a name, before its digest
_PATTERN = re.compile(r"[*?\[]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class BatchItem:
    """A piece of work: `payload` is what the worker gets, `file` what it is about.

    `name` is unique, and safe as the name of a folder. `sources` are the files whose contents the
    result depends on, `rows` the part of them that is taken, if not all.
    """

    name: str
    file: str
    payload: dict[str, Any]
    sources: tuple[str, ...] = ()
    rows: tuple[int, int] | None = None
    depends: Sequence[Any] = field(default=())

    def key(self, digests: Digests) -> str:
        """Return what changes with the contents, with the options and with the version."""
        contents = [digests.of(path) for path in self.sources]
        text = json.dumps([__version__, self.name, self.rows, self.depends, contents])
        return hashlib.sha256(text.encode()).hexdigest()


class Digests:
    """What files contain; each is read once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def of(self, path: str) -> str | None:
        """Return the digest of a file, or of a folder by the files in it; None without one."""
        if path not in self._known:
            self._known[path] = _folder(path) if os.path.isdir(path) else _file(path)
        return self._known[path]


def _file(path: str) -> str | None:
    if not os.path.isfile(path):  # also devices and pipes, which would be read for ever
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _folder(path: str) -> str:
    """Return a digest of names, sizes and times: arrays in folders may be large."""
    seen = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            full = os.path.join(folder, name)
            found = os.lstat(full)
            part = [os.path.relpath(full, path), found.st_size, found.st_mtime_ns]
            seen.update(json.dumps(part).encode())
    return seen.hexdigest()


def name_of(file: str, part: str = "") -> str:
    """Return a name for what is made of a file: readable, safe, and different for each path."""
    path = PurePath(file)  # without "." and "//"; what ".." means, only the file system knows
    digest = hashlib.sha256(f"{path.as_posix()}\0{part}".encode("utf-8", "surrogateescape"))
    words = [p for p in (path.parent.name, path.stem) if p != ".."]
    text = _UNSAFE.sub("_", "-".join([*words, part] if part else words))[-LONGEST_NAME:].strip(
        ".-_"
    )
    return f"{text or 'item'}-{digest.hexdigest()[:12]}"


def identity(path: str) -> str:
    """Return a name that all spellings of a path have in common; a link is not what it names."""
    folder, name = os.path.split(path)
    if name in ("", ".", ".."):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(folder), name)


def within(path: str, folder: str) -> bool:
    """Whether an `identity` is a folder, or lies below it."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def found_files(
    paths: Iterable[str],
    suffixes: Sequence[str] = MODELS,
    folders: Sequence[str] = (),
    without: Sequence[str] = (),
) -> list[str]:
    """Return the files that paths name: themselves, all below a folder, what a pattern matches.

    A folder gives what ends like one of `suffixes`, in the order of names; a folder that ends like
    one of `folders` counts as a file. Links that lead out of a folder, pipes, devices and hidden
    names in it are left out, and so is what lies in one of `without`, unless the folder that is
    searched does, too. What cannot be searched is returned as it is: reading it tells why. A file
    that is named twice counts once. UsageError where a path gives nothing, FileAccessError where
    there is no such file.
    """
    out: dict[str, str] = {}
    own = [identity(path) for path in without]
    for path in paths:
        root, found = _found(path, tuple(suffixes), tuple(folders))
        hidden = [] if root is None else [o for o in own if not within(identity(root), o)]
        names = [(identity(file), str(PurePath(file))) for file in found]
        kept = [(i, file) for i, file in names if not any(within(i, o) for o in hidden)]
        if not kept:
            raise misused(
                f'"{path}" names no file that ends in {" or ".join([*suffixes, *folders])}',
                "name files, folders or patterns such as 'models/**/*.xml'; links that lead out of "
                "a folder are not followed in it",
            )
        for key, file in kept:
            out.setdefault(key, file)
    return list(out.values())


def _found(
    path: str, suffixes: tuple[str, ...], folders: tuple[str, ...]
) -> tuple[str | None, list[str]]:
    """Return where a path lets search, if it does, and the files that it means."""
    if path == "":
        raise misused("a path is empty", "is a variable of the shell unset?")
    if os.path.isdir(path) and not path.rstrip("/").endswith(folders or "\0"):
        return path, _below(path, suffixes, folders)
    if os.path.lexists(path):
        return None, [path]
    if _PATTERN.search(path) is None:
        raise missing(path)
    parts = PurePath(path).parts
    fixed = next(i for i, part in enumerate(parts) if _PATTERN.search(part))
    root = str(Path(*parts[:fixed]))
    # `**` matches folders as well as the files in them
    files = [
        file
        for file in _matches(root, "/".join(parts[fixed:]), path)
        if not os.path.isdir(file) or file.endswith(folders or "\0")
    ]
    return root, files


def _matches(root: str, pattern: str, whole: str) -> list[str]:
    """Return what a pattern matches, in the order of names; `**` goes through no links."""
    try:
        found = sorted(Path(root).glob(pattern), key=lambda path: path.parts)
    except (ValueError, NotImplementedError) as e:
        raise misused(f'the pattern "{whole}" cannot be right: {e}', "** is a whole name") from e
    except RecursionError:
        message = f'the pattern "{whole}" leads through too many folders in each other'
        raise misused(message, "name a folder without a pattern") from None
    return [str(path) for path in found]


def _below(root: str, suffixes: tuple[str, ...], kept: tuple[str, ...]) -> list[str]:
    """Return the files below a folder; also folders that cannot be searched."""
    real = os.path.realpath(root)
    found, waiting = [], [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                listed = [entry for entry in entries if not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):  # meanwhile it is gone
            continue
        except OSError as e:
            if folder == root:
                raise unreadable(folder, e) from None
            found.append(folder)
            continue
        for entry in listed:
            whole = entry.name.endswith(kept or "\0") and entry.is_dir()
            if not whole and entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif (whole or entry.name.endswith(suffixes)) and _inside(entry.path, real, whole):
                found.append(entry.path)
    return sorted(found, key=lambda path: PurePath(path).parts)


def _inside(path: str, root: str, folder: bool) -> bool:
    """Whether a path is a regular file (or a folder) that lies in a folder, also behind links."""
    try:
        regular = folder or stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:  # its folder may be listed, but no file in it opened
        return True
    except OSError:
        return False
    return regular and (not os.path.islink(path) or within(os.path.realpath(path), root))
