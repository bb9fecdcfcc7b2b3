"""`batch join`: the outputs of `batch run --inputs`, in the order of the rows, as one file."""

from __future__ import annotations

import argparse
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import IO

import numpy as np

from irdeconv.base.errors import Diagnostic, UsageError, count, misused
from irdeconv.base.json_form import Record
from irdeconv.base.opening import missing, read_file, unreadable
from irdeconv.cli.batch_answer import OUTPUTS, RESULT
from irdeconv.cli.checks import require_array_file, require_single
from irdeconv.cli.console import Console
from irdeconv.cli.inputs import open_arrays
from irdeconv.formats.arrays import HEADER_BYTES, ArrayHeader, archived
from irdeconv.formats.atomic import failures, require_writable, together
from irdeconv.ir.spec import Array

MOST_PROBLEMS = 20  # things that are wrong
RESULT_BYTES = 1 << 26
AGAIN = "the same batch run with --resume makes the rest"


class JoinedFile(Record):
    """A file whose outputs were put together."""

    file: str  # a file of --inputs
    rows: int  # number of its rows
    parts: int  # number of parts that they were run in


class JoinedOutput(Record):
    """An output of all rows."""

    shape: tuple[int, ...]  # its sizes
    element_type: str  # NumPy's name


class JoinReport(Record, document="batch/1"):
    """The joined outputs."""

    joined: list[JoinedFile]  # in the order of the rows
    outputs: dict[str, JoinedOutput]  # by name
    saved: list[str]  # files that were written


@dataclass(frozen=True)
class Joint:
    """The outputs of some rows: the folder, the file, the range of rows, and their origin."""

    folder: str
    file: str
    begin: int
    end: int
    of: int
    origin: str

    @property
    def rows(self) -> str:
        """The rows, as reports call them."""
        return f"{self.file}[{self.begin}:{self.end}]"


def join(args: argparse.Namespace, console: Console) -> int:
    """Put the outputs of all parts together, a part at a time."""
    target = _target(args.folder)
    parts = list(_ordered(*_found(args.paths), args.inputs))
    _require_one_origin(parts)
    outputs = _outputs(parts)
    require_single(args.folder, [*outputs], [])
    with together() as files:
        require_writable(target)
        with failures(target):
            made = files.open(target)
            _write(made.file, parts, outputs, single=target.suffix == ".npy")
    _tell(parts, outputs, args.folder, console)
    return 0


def _target(path: str | None) -> Path:
    if path is None or path == "-":
        raise misused("join needs -o FILE, where the arrays go", "name an .npz, or an .npy")
    require_array_file(path)
    if Path(path).exists() and not Path(path).is_file():
        raise misused(f"-o {path}: it is no regular file", "name a new .npz or .npy")
    return Path(path)


def _found(paths: Iterable[str]) -> tuple[list[Joint], list[str]]:
    """Return the outputs in folders of `batch run -o`, and the file of each failed item."""
    folders = {os.path.realpath(folder): folder for path in paths for folder in _folders(path)}
    found = [_read(folder) for folder in folders.values()]
    parts = [part for part in found if isinstance(part, Joint)]
    if not parts:
        message = f"there are no outputs in {', '.join(paths)}"
        raise misused(message, "name the folder of -o of a batch run --inputs")
    return parts, [file for file in found if isinstance(file, str)]


def _folders(path: str) -> list[str]:
    """Return the folders of items below a path; the path itself if it is one."""
    if not os.path.lexists(path):
        raise missing(path)
    if os.path.isfile(os.path.join(path, RESULT)):
        return [path]
    try:
        with os.scandir(path) as entries:
            folders = [e.path for e in entries if not e.name.startswith(".") and e.is_dir()]
    except OSError as e:
        raise unreadable(path, e) from None
    return sorted(f for f in folders if os.path.isfile(os.path.join(f, RESULT)))


def _read(folder: str) -> Joint | str:
    """Return an item's own record; for a failed item only its file."""
    path = os.path.join(folder, RESULT)
    try:
        document = json.loads(read_file(path, RESULT_BYTES))
        if "error" in document:
            return str(document.get("file", folder))
        rows = document["rows"]
        begin, end, of = (int(rows[name]) for name in ("begin", "end", "of"))
        if not 0 <= begin <= end <= of:
            raise ValueError
        return Joint(folder, str(document["file"]), begin, end, of, str(document["origin"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        message = f"{path} does not say which rows it is of"
        raise misused(message, "batch run --inputs writes such results; run it again") from None


def _ordered(parts: list[Joint], failed: list[str], files: Sequence[str]) -> Iterator[Joint]:
    """Yield parts by file and by rows; UsageError with all that is missing, or there twice."""
    by_file = _by_file(parts)
    for name in files:
        if name not in by_file:
            known = ", ".join(islice(sorted(by_file), 5))
            raise misused(f"--inputs {name}: there are no results of it", f"there are of {known}")
    names = dict.fromkeys(files) or sorted(by_file, key=lambda file: PurePath(file).parts)
    chosen = {name: sorted(by_file[name], key=lambda p: (p.begin, p.end)) for name in names}
    wrong = [problem for found in chosen.values() for problem in _wrong(found)]
    if not files:
        hint = "run it again with --resume, or name the files that are meant with --inputs"
        for file in sorted({*failed} - by_file.keys()):
            wrong.append((f"{file} is missing: its items ended without outputs", hint))
    if wrong:
        lacking = f"; {count(len(failed), 'item')} ended without outputs" if failed else ""
        raise UsageError([*_diagnostics(wrong, lacking)])
    for found in chosen.values():
        yield from found


def _by_file(parts: Iterable[Joint]) -> dict[str, list[Joint]]:
    found: dict[str, list[Joint]] = {}
    for part in parts:
        found.setdefault(part.file, []).append(part)
    return found


def _diagnostics(wrong: list[tuple[str, str]], lacking: str) -> Iterator[Diagnostic]:
    for text, hint in wrong[:MOST_PROBLEMS]:
        yield Diagnostic("E700", "error", text, hint=hint + (lacking if hint == AGAIN else ""))
    if len(wrong) > MOST_PROBLEMS:
        text = f"and {len(wrong) - MOST_PROBLEMS:,} more places like these"
        yield Diagnostic("E700", "error", text, hint=lacking.removeprefix("; "))


def _wrong(parts: list[Joint]) -> Iterator[tuple[str, str]]:
    """Yield the mistakes of a file's parts, which are sorted by rows."""
    first = parts[0]
    for part in parts:
        if part.of != first.of:
            has = f"{first.of:,} rows in {first.folder}, {part.of:,} in {part.folder}"
            yield f"{part.file} has {has}", "run the parts with one and the same file"
            return
    reached = replace(first, begin=0, end=0)
    for part in [*parts, replace(first, begin=first.of, end=first.of)]:
        if part.begin > reached.end:
            rows = f"{part.begin - reached.end:,} of {part.of:,} rows"
            yield f"{part.file}[{reached.end}:{part.begin}] is missing: {rows}", AGAIN
        elif part.begin < reached.end:
            end = min(part.end, reached.end)
            where = f"in {reached.folder} and in {part.folder}"
            rows = f"{part.file}[{part.begin}:{end}]"
            text = f"{rows} is there twice: {count(end - part.begin, 'row')}, {where}"
            yield text, "leave one of the folders out, or run anew into an empty folder"
        reached = max(reached, part, key=lambda p: p.end)


def _require_one_origin(parts: list[Joint]) -> None:
    for part in parts:
        if part.origin != parts[0].origin:
            message = f"{parts[0].rows} and {part.rows} are not made alike"
            hint = f"in {parts[0].folder} and {part.folder}: run one of them again"
            raise misused(message, f"another model, other options or another irdeconv, {hint}")


def _outputs(parts: list[Joint]) -> dict[str, ArrayHeader]:
    """Return the headers of the whole outputs; only headers are read."""
    whole: dict[str, ArrayHeader] = {}
    for part in parts:
        path = os.path.join(part.folder, OUTPUTS)
        with open_arrays(path) as arrays:
            found = {name: arrays.header(name) for name in arrays}
        if part is parts[0]:
            whole = {name: replace(h, shape=(0, *h.shape[1:])) for name, h in found.items()}
        if found.keys() != whole.keys():
            raise _unlike(parts[0], part, f"{[*whole]} and {[*found]}")
        for name, header in found.items():
            total, shape = whole[name], header.shape
            if not shape:
                message = f'output "{name}" is a scalar, which cannot be joined'
                raise misused(message, "leave it out")
            texts = header.dtype.kind == total.dtype.kind == "U"  # as long as its longest one
            if shape[1:] != total.shape[1:] or not (texts or header.dtype == total.dtype):
                rows_of = [f"{h.dtype}{list(h.shape[1:])}" for h in (total, header)]
                raise _unlike(parts[0], part, f'"{name}" has rows of {", then ".join(rows_of)}')
            dtype = np.promote_types(total.dtype, header.dtype)
            rows = total.shape[0] + shape[0]
            whole[name] = replace(total, dtype=dtype, shape=(rows, *shape[1:]))
    return whole


def _unlike(first: Joint, part: Joint, what: str) -> UsageError:
    message = f"the outputs of {first.rows} and of {part.rows} do not fit: {what}"
    return misused(message, "they can only be used by themselves")


def _write(
    file: IO[bytes], parts: list[Joint], outputs: dict[str, ArrayHeader], *, single: bool
) -> None:
    if single:
        for name, whole in outputs.items():
            _write_array(file, parts, name, whole)
        return
    with zipfile.ZipFile(file, "w") as archive:
        for name, whole in outputs.items():
            with archived(archive, name, whole.nbytes + HEADER_BYTES) as member:
                _write_array(member, parts, name, whole)


def _write_array(file: IO[bytes], parts: list[Joint], name: str, whole: ArrayHeader) -> None:
    """Write the header of an .npy and the rows of each part, of which one is in memory."""
    header = {"shape": whole.shape, "fortran_order": False}
    descr = np.lib.format.dtype_to_descr(whole.dtype)
    np.lib.format.write_array_header_1_0(file, {**header, "descr": descr})
    for part in parts:
        with open_arrays(os.path.join(part.folder, OUTPUTS)) as arrays:
            array: Array = np.ascontiguousarray(arrays[name], whole.dtype)
        file.write(array.reshape(-1).view(np.uint8).data)


def _tell(parts: list[Joint], outputs: dict[str, ArrayHeader], path: str, console: Console) -> None:
    files = _by_file(parts)
    rows = sum(part.end - part.begin for part in parts)
    for name, whole in outputs.items():
        if whole.shape[0] != rows:
            has = f'"{name}" has {whole.shape[0]:,} rows for {rows:,} of the inputs'
            console.log(f"{has}: only the parts show which belong together")
    console.log(f"wrote {path}")
    if console.wants_json:
        sizes = {file: sum(p.end - p.begin for p in found) for file, found in files.items()}
        joined = [JoinedFile(file, size, len(files[file])) for file, size in sizes.items()]
        shapes = {name: JoinedOutput(o.shape, str(o.dtype)) for name, o in outputs.items()}
        console.json(JoinReport(joined, shapes, [path]))
        return
    for name, whole in outputs.items():
        console.text(f"{name} {whole.dtype}{list(whole.shape)}")
    joined_of = f"{count(rows, 'row')} of {count(len(files), 'file')}"
    console.text((f"join: {joined_of}, in {count(len(parts), 'part')}", "bold green"))
