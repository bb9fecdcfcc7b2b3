"""Items: which files there are, what an item is called, and what its result depends on."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
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
    path = PurePath(os.path.normpath(file))
    digest = hashlib.sha256(f"{path.as_posix()}\0{part}".encode("utf-8", "surrogateescape"))
    words = [p for p in (path.parent.name, path.stem) if p != ".."]
    text = _UNSAFE.sub("_", "-".join([*words, part] if part else words))[-LONGEST_NAME:].strip(
        ".-_"
    )
    return f"{text or 'item'}-{digest.hexdigest()[:12]}"


def found_files(
    paths: Iterable[str], suffixes: Sequence[str] = MODELS, folders: Sequence[str] = ()
) -> list[str]:
    """Return the files that paths name: themselves, all below a folder, what a pattern matches.

    A folder gives what ends like one of `suffixes`, in the order of names; a folder that ends like
    one of `folders` counts as a file. Links that lead out of a folder, pipes, devices and hidden
    names in it are left out. A file that is named twice counts once. UsageError where a path gives
    nothing, FileAccessError where there is no such file.
    """
    out: dict[str, None] = {}
    for path in paths:
        found = list(_found(path, suffixes, folders))
        if not found:
            raise misused(
                f'"{path}" names no file that ends in {" or ".join([*suffixes, *folders])}',
                "name files, folders or patterns such as 'models/**/*.xml'",
            )
        out.update(dict.fromkeys(os.path.normpath(file) for file in found))
    return list(out)


def _found(path: str, suffixes: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    if path == "":
        raise misused("a path is empty", "is a variable of the shell unset?")
    if os.path.isdir(path) and not path.rstrip("/").endswith(tuple(folders)):
        yield from _below(path, tuple(suffixes), tuple(folders))
    elif os.path.lexists(path):
        yield path
    elif _PATTERN.search(path):
        for match in _matches(path):
            if not os.path.isdir(match) or match.endswith(tuple(folders)):
                yield match  # `**` matches folders as well as the files in them
    else:
        raise missing(path)


def _matches(pattern: str) -> list[str]:
    """Return what a pattern matches, in the order of names; `**` goes through no links."""
    parts = PurePath(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if _PATTERN.search(part))
    found = Path(*parts[:fixed]).glob("/".join(parts[fixed:]))
    return [str(path) for path in sorted(found, key=lambda path: path.parts)]


def _below(root: str, suffixes: tuple[str, ...], kept: tuple[str, ...]) -> Iterator[str]:
    real = Path(root).resolve()

    def failed(error: OSError) -> None:
        raise unreadable(error.filename or root, error)

    found = []
    for folder, folders, files in os.walk(root, onerror=failed):
        whole = [n for n in folders if kept and n.endswith(kept)]
        found += [os.path.join(folder, name) for name in whole]
        folders[:] = [n for n in folders if n not in whole and not n.startswith(".")]
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(suffixes) and not name.startswith(".") and _inside(path, real):
                found.append(path)
    yield from sorted(found, key=lambda path: PurePath(path).parts)


def _inside(path: str, root: Path) -> bool:
    """Whether a path is a regular file that lies below a folder, also behind links."""
    return os.path.isfile(path) and (
        not os.path.islink(path) or Path(path).resolve().is_relative_to(root)
    )
