"""What a device gave back: a folder of .npz and .npy files, one .npz, or arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from irdeconv.conformance.manifest import OUTPUT
from irdeconv.errors import Diagnostic, FileAccessError, UsageError, misused
from irdeconv.io.array_headers import UnreadableArray
from irdeconv.io.arrays import npz
from irdeconv.io.atomic import failures, write_file
from irdeconv.io.saved_arrays import SavedArrays, read_npy
from irdeconv.spec import Array

SUFFIXES = (".npz", ".npy")


class UnreadableResult(Exception):
    """A result that is there and cannot be taken for an array; the text says why."""


class Results:
    """Results by case; `names` are those of all cases that there is something for."""

    names: set[str]

    def get(self, case: str) -> Array | None:
        """Return a case's output, None where there is none; UnreadableResult."""
        raise NotImplementedError

    def close(self) -> None:
        """Close files."""


class FolderResults(Results):
    """NAME.npz or NAME.npy in a folder."""

    def __init__(self, folder: Path) -> None:
        files = [p for p in sorted(folder.iterdir()) if p.suffix in SUFFIXES]
        self._files = {p.stem: p for p in files}
        self.names = set(self._files)

    def get(self, case: str) -> Array | None:
        """Read a file."""
        path = self._files.get(case)
        if path is None:
            return None
        with _reading(path.name):
            if path.suffix == ".npy":
                return read_npy(path)
            with SavedArrays(path) as archive:
                return archive[_member(list(archive))]


def _member(names: list[str]) -> str:
    """Return the array that is the output: the one of its name, or the only one."""
    if OUTPUT in names or len(names) == 1:
        return OUTPUT if OUTPUT in names else names[0]
    raise ValueError(f'{len(names)} arrays, none is named "{OUTPUT}"')


class ArchiveResults(Results):
    """CASE/y or CASE in one .npz."""

    def __init__(self, path: Path) -> None:
        try:
            self._archive = SavedArrays(path)
        except UnreadableArray as e:
            message = f"{path} is neither a folder of results nor an .npz: {e}"
            raise UsageError(Diagnostic("E505", "error", message, hint=_HINT)) from None
        self._members = {n.removesuffix(f"/{OUTPUT}"): n for n in self._archive}
        self._file = path.name
        self.names = set(self._members)

    def get(self, case: str) -> Array | None:
        """Read a member."""
        name = self._members.get(case)
        if name is None:
            return None
        with _reading(f"{self._file}[{name}]"):
            return self._archive[name]

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()


class MemoryResults(Results):
    """Arrays by case, or arrays by output by case."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self.names = set(arrays)

    def get(self, case: str) -> Array | None:
        """Return an array."""
        found = self._arrays.get(case)
        if isinstance(found, Mapping):
            found = found.get(OUTPUT)
        return None if found is None else np.asarray(found)


_HINT = "results: a folder of CASE.npz or CASE.npy, or one .npz with CASE/y for every case"


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise UnreadableResult(f"{what}: more than fits into memory") from None
    except (UnreadableArray, FileAccessError, ValueError) as e:
        raise UnreadableResult(f"{what}: no plain array: {e}") from None


def open_results(source: str | Path | Mapping[str, Any]) -> Results:
    """Open results; FileAccessError where there are none, UsageError for another kind of file."""
    if isinstance(source, Mapping):
        return MemoryResults(source)
    path = Path(source)
    if path.is_dir():
        return FolderResults(path)
    if not path.exists():
        message = f"cannot read {path}: No such file or directory"
        raise FileAccessError(Diagnostic("E100", "error", message, hint=_HINT))
    return ArchiveResults(path)


def require_place(path: Path, *, force: bool) -> None:
    """Refuse to write results over what is there, unless forced; UsageError."""
    held = path.exists() and (not path.is_dir() or any(path.iterdir()))
    if held and not force:
        raise misused(f"-o {path}: there is something already", "--force replaces it")


def save_results(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write results: one .npz where the path ends so, else a folder with one per case."""
    if path.suffix == ".npz":
        write_file(path, npz({f"{name}/{OUTPUT}": a for name, a in arrays.items()}))
        return
    with failures(path):
        path.mkdir(exist_ok=True)
        for name, array in arrays.items():
            (path / f"{name}.npz").write_bytes(npz({OUTPUT: array}))
