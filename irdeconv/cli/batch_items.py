"""Items of a batch: the files, the journal, the lock, the rows of the report.

The lock of a folder is one of the system, so it ends with its process. The file names the holder.
File systems without such locks (some network drives) keep no other batch out.

The journal has a line of JSON for each finished item. A line is passed to the system at once, so a
killed process loses none; half a line at the end is cut off when the batch is resumed. It is on the
disk a moment later, so a machine that fails loses the items of that moment, which are done again.
Only one batch at a time writes a journal. The command keeps no rows in memory: it reads them back.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar, get_origin, get_type_hints

from irdeconv import __version__
from irdeconv.base.codes import CODES
from irdeconv.base.errors import Diagnostic, count, misused
from irdeconv.base.json_form import Record
from irdeconv.base.opening import missing, unreadable
from irdeconv.base.progress import repeating
from irdeconv.formats.atomic import failures, require_writable

MODELS = (".xml", ".onnx", ".ird")  # a folder's .json is rarely a dump of oneDNN
LONGEST_NAME = 60  # characters of a name, before its digest
_PATTERN = re.compile(r"[*?\[]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
T = TypeVar("T")
SETTLED = 2e9  # nanoseconds after which any change of a file changes its times


@dataclass(frozen=True)
class Lazy(Sequence[T]):
    """A sequence whose elements are made when they are read: a million items take gigabytes."""

    make: Callable[[int], T]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        return self.make(self.numbers[index])


@dataclass(frozen=True)
class BatchItem:
    """A piece of work: `payload` is the worker's input, `file` the item's subject.

    `name` is unique, and safe as the name of a folder. `sources` are the files whose contents the
    result depends on, `shared` others that many items have, `rows` the part of them that is taken,
    if not all.
    """

    name: str
    file: str
    payload: dict[str, Any]
    sources: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    rows: tuple[int, int] | None = None
    depends: Sequence[Any] = field(default=())

    def key(self, content: Callable[[str], str | None]) -> str:
        """Return a digest of the shared contents, the options and the version.

        `content` is `content_of`, which may remember the files.
        """
        contents = [content(path) for path in self.shared]
        text = json.dumps([__version__, self.name, self.rows, self.depends, contents])
        return hashlib.sha256(text.encode()).hexdigest()

    def shown(self, row: Row) -> dict[str, Any]:
        """Return the item as the report shows it."""
        part = {} if self.rows is None else {"rows": list(self.rows)}
        return {"item": self.name, "file": self.file, **part, **row}


def sources(models: Iterable[str], words: Iterable[str]) -> Iterator[str]:
    """Yield the files that are read for models and for options, as far as names show."""
    for model in models:
        yield model
        if not model.endswith(".onnx"):
            yield str(Path(model).with_suffix(".bin"))
    for word in words:
        value = word.partition("=")[2]
        for path in (value, value.rpartition("@")[2]):
            if os.path.isfile(path):
                yield path


def with_data(paths: Iterable[str]) -> Iterator[str]:
    """Yield files, and those that the ONNX models among them name for their data."""
    for path in paths:
        yield path
        if path.endswith(".onnx"):
            from irdeconv.formats.onnx_container import external_files

            with suppress(OSError, ValueError):  # the item itself reports the mistake
                yield from map(str, external_files(Path(path)))


def traced(work: Callable[[dict[str, Any]], Row], payload: dict[str, Any], folder: str) -> Row:
    """Do an item; its row gets the traces that its sources had before. Paths begin in `folder`."""
    traces = {}
    for path in payload.get("sources", ()):
        for file in with_data([os.path.join(folder, path)]):
            begin = "" if os.path.isabs(path) else os.path.join(folder, "")
            traces[file.removeprefix(begin)] = trace_of(file)
    return {**work(payload), "sources": traces}


def trace_of(path: str, former: str = "") -> str:
    """Return size, times and digest of a file; it is not read if the former ones are the same.

    A file that has just changed has no times: a second change might leave them as they are.
    """
    stamp = ""
    with suppress(OSError):
        found = os.stat(path)
        times = found.st_mtime_ns, found.st_ctime_ns
        if stat.S_ISREG(found.st_mode) and time.time_ns() - min(times) > SETTLED:
            stamp = f"{found.st_size} {times[0]} {times[1]}"
            if former.startswith(f"{stamp} "):
                return former
    return f"{stamp} {content_of(path) or ''}"


def content_of(path: str) -> str | None:
    """Return the digest of a file, or of a folder by the files in it; None without one."""
    if os.path.isdir(path):
        return _folder(path)
    with suppress(OSError):
        if os.path.isfile(path):  # no device and no pipe, which would be read for ever
            return digest_of(path)
    return None


def digest_of(path: str | Path) -> str:
    """Return the digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    """Return a name for the results of a file: readable, safe, and different for each path."""
    path = PurePath(file)  # without "." and "//"; only the file system knows the meaning of ".."
    digest = hashlib.sha256(f"{path.as_posix()}\0{part}".encode("utf-8", "surrogateescape"))
    words = [p for p in (path.parent.name, path.stem) if p != ".."] + [part] * bool(part)
    text = _UNSAFE.sub("_", "-".join(words))[-LONGEST_NAME:].strip(".-_")
    return f"{text or 'item'}-{digest.hexdigest()[:12]}"


def identity(path: str, real: Callable[[str], str] = os.path.realpath) -> str:
    """Return a name that all spellings of a path have in common; a link is not its target."""
    folder, name = os.path.split(path)
    if name in ("", ".", ".."):
        return os.path.realpath(path)
    return os.path.join(real(folder), name)


def within(path: str, folder: str) -> bool:
    """Whether an `identity` is a folder, or lies below it."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def found_files(
    paths: Iterable[str],
    suffixes: Sequence[str] = MODELS,
    folders: Sequence[str] = (),
    without: Sequence[str] = (),
) -> list[str]:
    """Return the files that paths name: themselves, all below a folder, all matches of a pattern.

    Of a folder, names with one of `suffixes` count, in the order of names; a folder with one of
    `folders` as its suffix counts as a file. Links that lead out of a folder, pipes, devices and
    hidden names in it are left out. So are the contents of `without`, unless the searched folder
    itself is in it. A folder that cannot be searched is returned as it is: reading it shows why.
    A file that is named twice counts once. Raises UsageError if a path gives nothing,
    FileAccessError if there is no such file.
    """
    out: dict[str, str] = {}
    own = [identity(path) for path in without]
    real = lru_cache(maxsize=1024)(os.path.realpath)  # many files are in one folder
    for path in paths:
        root, found = _found(path, tuple(suffixes), tuple(folders))
        hidden = [] if root is None else [o for o in own if not within(identity(root), o)]
        nothing = True
        for file in found:
            key = identity(file, real)
            if not any(within(key, o) for o in hidden):
                out.setdefault(key, str(PurePath(file)))
                nothing = False
        if nothing:
            message = f'"{path}" names no file that ends in {" or ".join([*suffixes, *folders])}'
            hint = (
                f"name files, folders or patterns such as 'data/**/*{suffixes[0]}'; "
                "links that lead out of a folder are not followed in it"
            )
            raise misused(message, hint)
    return list(out.values())


def _found(
    path: str, suffixes: tuple[str, ...], folders: tuple[str, ...]
) -> tuple[str | None, list[str]]:
    """Return the folder in which a path searches, if it does, and the files that it means."""
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
    if not os.path.isdir(root):
        raise missing(os.path.join(root, parts[fixed]))
    # `**` matches folders as well as the files in them
    found = _matches(root, "/".join(parts[fixed:]), path)
    return root, [f for f in found if not os.path.isdir(f) or f.endswith(folders or "\0")]


def _matches(root: str, pattern: str, whole: str) -> list[str]:
    """Return the matches of a pattern, in the order of names; `**` goes through no links."""
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
    return sorted(found, key=lambda path: path.replace(os.sep, "\0"))  # in the order of names


def _inside(path: str, root: str, folder: bool) -> bool:
    """Whether a path is a regular file (or a folder) that lies in a folder, also behind links."""
    try:
        regular = folder or stat.S_ISREG(os.stat(path).st_mode)
    except OSError as e:  # its folder may be listed, but no file in it opened; or a broken link
        return isinstance(e, PermissionError) or os.path.islink(path)
    return regular and (not os.path.islink(path) or within(os.path.realpath(path), root))


LOCK = "batch.lock"
MOST_WORDS = 200  # bytes of a lock that are shown


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other batches out of a folder; UsageError if one is at work there."""
    path = folder / LOCK
    file = _taken(path)
    try:
        with failures(path):
            os.ftruncate(file, 0)
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            # Windows locks the first byte, which other processes cannot even read then.
            os.write(file, f"\nprocess {os.getpid()} on {platform.node()}, since {now}\n".encode())
        yield
    finally:
        if sys.platform == "win32":  # it removes no open file
            os.close(file)
        with suppress(OSError):
            path.unlink()
        if sys.platform != "win32":  # no other process may lock it before it is removed
            os.close(file)


def locked(file: int) -> bool:
    """Lock an open file until it is closed; False if another process has locked it."""
    from filelock import lock_descriptor

    try:
        return lock_descriptor(file, blocking=False)
    except OSError:  # the file system has no locks
        return True


def _taken(path: Path) -> int:
    """Open the lock and lock it; its holder removes it, so it may be another file by then."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    while True:
        with failures(path):
            file = os.open(path, flags, 0o644)
        try:
            if not locked(file):
                message = f"another batch is at work in {path.parent}: {_holder(file)}"
                raise misused(message, "wait for its end, or name another folder with -o")
            with suppress(OSError):
                if os.path.samestat(os.fstat(file), path.lstat()):
                    kept, file = file, -1
                    return kept
        finally:
            if file >= 0:
                os.close(file)


def _holder(file: int) -> str:
    os.lseek(file, 1, os.SEEK_SET)
    words = os.read(file, MOST_WORDS)
    return words.decode("utf-8", "replace").strip() or "it has not said who it is"


class BatchFile(TypedDict):
    """A file that an item has made."""

    name: str  # its path below the item's folder
    bytes: int  # its size
    sha256: str  # its digest


class BatchOutcome(TypedDict):
    """The result of an item."""

    # yes, in part, no, limit, unsupported, unreadable, no access, wrong command, bug, timed out or
    # crashed
    status: str
    exit_code: int  # that of the verb
    summary: str  # the verb's answer in one line
    result: str | None  # the SHA-256 of the verb's JSON document; null if there is none
    diagnostics: list[Diagnostic]  # at most 50, errors first
    files: list[BatchFile]  # the item's files in its folder, by name


class BatchRow(BatchOutcome):
    """One item."""

    item: str  # its name, and that of its folder below -o
    file: str  # the model, or the file of inputs
    rows: NotRequired[list[int]]  # begin and end of its part of the file, with --rows


Row = dict[str, Any]  # a BatchOutcome

TIMED_OUT, CRASHED = "timed out", "crashed"
STATUS = {
    0: "yes",
    7: "in part",
    1: "no",
    5: "limit",
    4: "unsupported",
    3: "unreadable",
    6: "no access",
    2: "wrong command",
    70: "bug",
}
GOOD = ("yes", "in part")
PAGE = "page.html"  # the graph page of an item


_KINDS = {k: list if get_origin(t) is list else t for k, t in get_type_hints(BatchOutcome).items()}
_MADE = get_type_hints(BatchFile)
_DIAGNOSTIC: dict[str, Any] = {
    **dict.fromkeys(("code", "severity", "message"), str),
    **dict.fromkeys(("file", "layer", "hint"), str | None),
    **dict.fromkeys(("line", "column"), int | None),
}
_STATES = {*STATUS.values(), TIMED_OUT, CRASHED}


def is_row(found: object) -> bool:
    """Whether something that was read is a row, in which a report finds all that it shows."""
    return (
        _has(found, _KINDS)
        and isinstance(found, dict)
        and found["status"] in _STATES
        and found["exit_code"] in STATUS
        and all(_has(made, _MADE) for made in found["files"])
        and all(_has(d, _DIAGNOSTIC) and d["code"] in CODES for d in found["diagnostics"])
    )


def _has(found: object, kinds: dict[str, Any]) -> bool:
    return isinstance(found, dict) and all(
        key in found and isinstance(found[key], kind) for key, kind in kinds.items()
    )


def worst(codes: Iterable[int]) -> int:
    """Return the worst of exit codes, in the order of `STATUS`; 0 without any."""
    order = list(STATUS)
    return max(codes, key=lambda code: order.index(code) if code in order else -1, default=0)


def ended(code: int, found: list[dict[str, Any]], summary: str, status: str | None = None) -> Row:
    """Return the row of an item without an answer of its verb."""
    return {
        "status": status or STATUS.get(code, "bug"),
        "exit_code": code,
        "summary": summary,
        "result": None,
        "diagnostics": found,
        "files": [],
    }


def stopped(status: str, code: str, message: str) -> Row:
    """Return the row of an item whose process was ended, or ended by itself."""
    found = [Diagnostic(code, "error", message).to_dict()]
    return ended(5 if status == TIMED_OUT else 70, found, message, status)


def crashed(returncode: int | None) -> Row:
    """Return the row of an item that took its process along; a signal has a negative number."""
    how = "ended without an answer"
    if returncode is not None:
        killed = f"was ended by signal {-returncode}"
        how = killed if returncode < 0 else f"ended with exit code {returncode}"
    return stopped(CRASHED, "E710", f"the process of this item {how}")


Limits = dict[str, float | int | None]


class JournalHead(Record, document="batch-journal/1"):
    """The first line of a journal."""


class JournalLine(Record, document="batch-journal"):
    """Every other line: an item that is done."""

    key: str  # the SHA-256 of the version, the options and the contents of shared files
    limits: Limits  # --memory and --timeout
    sources: dict[str, str]  # of the item's own files: the size, two times, and the SHA-256
    item: Annotated[Row, BatchOutcome]  # its result, as in the report
    sum: str  # 16 digits of the SHA-256 of the line with an empty text here


STOPS_AT_NO_LIMIT = STATUS.keys() - {5, 70}
OF_THE_MACHINE = {"E100", "E520", "E701", "E710"}  # a file, a package, a full disk, a kill
HEAD = json.dumps(JournalHead().to_dict()).encode()
MOMENT = 0.2  # seconds in which lines are gathered before the disk is waited for


@dataclass
class Journal:
    """An open journal: new lines are written to its file, and rows are read back from it."""

    _file: int
    _path: Path
    items: Sequence[BatchItem]
    lines: dict[bytes, int] = field(default_factory=dict)  # places of lines by half of their keys
    _end: int = 0
    _waiting: bool = False  # whether there are lines that may not be on the disk
    _failure: OSError | None = None

    def __post_init__(self) -> None:
        self._places = array("q", [-1]) * len(self.items)
        self.states: Counter[str] = Counter()
        self.exit_codes: set[int] = set()

    def _read(self, place: int) -> dict[str, Any]:
        os.lseek(self._file, place, os.SEEK_SET)
        with os.fdopen(os.dup(self._file), "rb") as file:
            return {**json.loads(file.readline()), "place": place}

    def known(self, key: str, limits: Limits) -> dict[str, Any] | None:
        """Return the line of an item, with its place.

        None for a row that other limits have stopped, that crashed, or lacked a file or a package.
        """
        place = self.lines.get(key[:32].encode())
        if place is None:
            return None
        line = self._read(place)
        stopped = line["item"]["exit_code"] not in STOPS_AT_NO_LIMIT
        lacking = any(d["code"] in OF_THE_MACHINE for d in line["item"]["diagnostics"])
        return None if lacking or (stopped and line["limits"] != limits) else line

    def add(self, index: int, row: Row, key: str, limits: Limits, sources: dict[str, str]) -> None:
        """Keep the row of an item."""
        self.note(index, self._end, row)
        line = JournalLine(key, limits, sources, row, "").to_dict()
        data = json.dumps(line, separators=(",", ":")).encode()
        self._write(data[:-2] + _sum(data) + b'"}\n')

    def note(self, index: int, place: int, row: Row) -> None:
        """Note that an item's row is at a place."""
        self._places[index] = place
        self.states[row["status"]] += 1
        self.exit_codes.add(row["exit_code"])

    def rest(self) -> array[int]:
        """Return the numbers of the items that are not done."""
        return array("q", (index for index, place in enumerate(self._places) if place < 0))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the items as the report shows them, once all are done."""
        for item, place in zip(self.items, self._places, strict=True):
            yield item.shown(self._read(place)["item"])

    def begin(self) -> None:
        """Begin anew."""
        with failures(self._path):
            os.ftruncate(self._file, 0)
        self.lines.clear()
        self._end = 0
        self._write(HEAD + b"\n")

    def close(self) -> None:
        """Bring everything to the disk; FileAccessError if that has failed at any time."""
        self.sync()
        self._write(b"")

    def _write(self, data: bytes) -> None:
        self._end += len(data)
        self._waiting = bool(data)
        with failures(self._path):
            if self._failure is not None:
                raise self._failure
            while data:
                data = data[os.write(self._file, data) :]

    def sync(self) -> None:
        """Write new lines to the disk; `close` reports a failure."""
        if self._waiting:
            self._waiting = False
            try:
                os.fsync(self._file)
            except OSError as e:
                self._failure = e


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:16].encode()


@contextmanager
def opened(
    path: Path | None, items: Sequence[BatchItem], *, resume: bool, force: bool
) -> Iterator[Journal]:
    """Open a journal, for this process alone; without a path it is a temporary file.

    With `resume` it keeps its rows. Without, one that has rows is refused, except with `force`.
    UsageError, FileAccessError.
    """
    if path is None:
        with tempfile.TemporaryFile() as temporary:
            yield Journal(temporary.fileno(), Path(tempfile.gettempdir()), items)
        return
    require_writable(path)
    if path.exists() and not path.is_file():
        raise misused(f"the journal {path} is no regular file", "name a new file with --journal")
    with failures(path):
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)
    try:
        if not locked(file):  # the lock goes when its process goes
            message = f"another batch is at work with {path}"
            raise misused(message, "wait for its end, or name another folder or journal")
        known, end = _places(file, path)
        journal = Journal(file, path, items, known, end)
        if known and not resume and not force:
            message = f"{path} has the results of {count(len(known), 'item')} already"
            raise misused(message, "--resume goes on with them, --force begins anew")
        if not (resume and known):
            journal.begin()
        with closing(journal), repeating(journal.sync, MOMENT):
            yield journal
    finally:
        os.close(file)


def _places(file: int, path: Path) -> tuple[dict[bytes, int], int]:
    """Return the places of lines by key, and the end; cut off an incomplete last line."""
    places, end = {}, 0
    with os.fdopen(os.dup(file), "rb") as opened:
        for line in opened:
            if end == 0 and not HEAD.startswith(line.removesuffix(b"\n")):  # half of it is fine
                message = f"{path} is no journal of a batch"
                raise misused(message, "name a new file with --journal")
            if not line.endswith(b"\n"):
                os.ftruncate(file, end)
                break
            if line[-19:-3] == _sum(line[:-19] + b'"}'):  # a changed line is done again
                places[line[8:40]] = end
            end += len(line)
    return places, end
