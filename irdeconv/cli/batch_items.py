"""Items of a batch: the files, the journal, the lock, the rows of the report.

The lock of a folder is one of the system, so it ends with its process. The file names the holder.
File systems without such locks (some network drives) keep no other batch out.

The journal has a line of JSON for each finished item. A line is passed to the system at once, so a
killed process loses none; half a line at the end is cut off when the batch is resumed. It is on the
disk a moment later, so a machine that fails loses the items of that moment, which are done again.
Only one batch at a time writes a journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Annotated, Any, NotRequired, TypedDict, get_origin, get_type_hints

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


@dataclass(frozen=True)
class BatchItem:
    """A piece of work: `payload` is the worker's input, `file` the item's subject.

    `name` is unique, and safe as the name of a folder. `sources` are the files whose contents the
    result depends on, `rows` the part of them that is taken, if not all.
    """

    name: str
    file: str
    payload: dict[str, Any]
    sources: tuple[str, ...] = ()
    rows: tuple[int, int] | None = None
    depends: Sequence[Any] = field(default=())

    def key(self, content: Callable[[str], str | None]) -> str:
        """Return a digest of the contents, the options and the version.

        `content` is `content_of`, which may remember files that many items share.
        """
        contents = [content(path) for path in self.sources]
        text = json.dumps([__version__, self.name, self.rows, self.depends, contents])
        return hashlib.sha256(text.encode()).hexdigest()

    def shown(self, row: Row) -> dict[str, Any]:
        """Return the item as the report shows it."""
        part = {} if self.rows is None else {"rows": list(self.rows)}
        return {"item": self.name, "file": self.file, **part, **row}


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


def identity(path: str) -> str:
    """Return a name that all spellings of a path have in common; a link is not its target."""
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
    for path in paths:
        root, found = _found(path, tuple(suffixes), tuple(folders))
        hidden = [] if root is None else [o for o in own if not within(identity(root), o)]
        names = [(identity(file), str(PurePath(file))) for file in found]
        kept = [(i, file) for i, file in names if not any(within(i, o) for o in hidden)]
        if not kept:
            message = f'"{path}" names no file that ends in {" or ".join([*suffixes, *folders])}'
            hint = (
                "name files, folders or patterns such as 'models/**/*.xml'; "
                "links that lead out of a folder are not followed in it"
            )
            raise misused(message, hint)
        for key, file in kept:
            out.setdefault(key, file)
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
    return sorted(found, key=lambda path: PurePath(path).parts)


def _inside(path: str, root: str, folder: bool) -> bool:
    """Whether a path is a regular file (or a folder) that lies in a folder, also behind links."""
    try:
        regular = folder or stat.S_ISREG(os.stat(path).st_mode)
    except OSError as e:  # its folder may be listed, but no file in it opened
        return isinstance(e, PermissionError)
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

    key: str  # the SHA-256 of the version, the options and the contents of the files
    limits: Limits  # --memory and --timeout
    item: Annotated[Row, BatchOutcome]  # its result, as in the report


STOPS_AT_NO_LIMIT = STATUS.keys() - {5, 70}
OF_THE_MACHINE = {"E100", "E520", "E701"}  # a file, a package, a full disk: they may be mended
MOMENT = 0.2  # seconds in which lines are gathered before the disk is waited for


@dataclass
class Journal:
    """An open journal: its rows by key, and the file that new lines are written to."""

    _file: int
    _path: Path
    _lines: dict[str, dict[str, Any]]
    _waiting: bool = False  # whether there are lines that may not be on the disk
    _failure: OSError | None = None

    def known(self, key: str, limits: Limits) -> Row | None:
        """Return the row of an item.

        None for a row that other limits have stopped, or that lacked a file or a package.
        """
        line = self._lines.get(key)
        if line is None:
            return None
        row: Row = line["item"]
        stopped = row["exit_code"] not in STOPS_AT_NO_LIMIT
        lacking = any(d["code"] in OF_THE_MACHINE for d in row["diagnostics"])
        return None if lacking or (stopped and line.get("limits") != limits) else row

    def add(self, key: str, row: Row, limits: Limits) -> None:
        """Keep the row of an item."""
        self._line(JournalLine(key, limits, row))

    def begin(self) -> None:
        """Begin anew."""
        with failures(self._path):
            os.ftruncate(self._file, 0)
        self._lines.clear()
        self._line(JournalHead())

    def close(self) -> None:
        """Bring everything to the disk; FileAccessError if that has failed at any time."""
        self.sync()
        self._write(b"")

    def _line(self, line: JournalHead | JournalLine) -> None:
        self._write((json.dumps(line.to_dict()) + "\n").encode())
        self._waiting = True

    def _write(self, data: bytes) -> None:
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


@contextmanager
def opened(path: Path, *, resume: bool, force: bool) -> Iterator[Journal]:
    """Open a journal, for this process alone.

    With `resume` it keeps its rows. Without, one that has rows is refused, except with `force`.
    UsageError, FileAccessError.
    """
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
        lines = _lines(file, path)
        journal = Journal(file, path, lines)
        if lines and not resume and not force:
            message = f"{path} has the results of {count(len(lines), 'item')} already"
            raise misused(message, "--resume goes on with them, --force begins anew")
        if not (resume and lines):
            journal.begin()
        with closing(journal), repeating(journal.sync, MOMENT):
            yield journal
    finally:
        os.close(file)


def _lines(file: int, path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines by key; cut off an incomplete last line."""
    with os.fdopen(os.dup(file), "rb") as opened:
        data = opened.read()
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].split(b"\n")
    if data and not _is_head(lines[0] if whole else data):
        message = f"{path} is no journal of a batch"
        raise misused(message, "name a new file with --journal")
    if whole < len(data):
        os.ftruncate(file, whole)
    out: dict[str, dict[str, Any]] = {}
    for line in lines[1:]:
        with suppress(ValueError, RecursionError):  # an item without a readable line is done again
            found = json.loads(line)
            if isinstance(found, dict) and is_row(found.get("item")):
                out[str(found.get("key"))] = found
    return out


def _is_head(line: bytes) -> bool:
    """Whether a first line is one of a journal; half of one is, too."""
    head = json.dumps(JournalHead().to_dict()).encode()
    return line == head or (len(line) < len(head) and head.startswith(line))
