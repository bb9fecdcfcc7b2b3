"""The journal of a batch: a line of JSON per finished item.

A line is with the system at once, so a process that is killed loses none, and leaves at most half a
line at the end, which is cut off when the batch is resumed. A moment later it is on the disk, so a
machine that fails loses the items of that moment, which are done again. Only one batch at a time
writes a journal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from irdeconv.batches.lock import locked
from irdeconv.batches.rows import STATUS, Row, is_row
from irdeconv.errors import misused
from irdeconv.io.atomic import failures, require_writable
from irdeconv.plural import count

JOURNAL_SCHEMA = "irdeconv/batch-journal/1"
STOPS_AT_NO_LIMIT = STATUS.keys() - {5, 70}
OF_THE_MACHINE = {"E100", "E520", "E701"}  # a file, a package, a full disk: they may be mended
MOMENT = 0.2  # seconds in which lines are gathered before the disk is waited for
Limits = dict[str, float | int | None]


class Journal:
    """An open journal: what it holds by key, and where the next line goes."""

    def __init__(self, file: int, path: Path, lines: dict[str, dict[str, Any]]) -> None:
        self._file = file
        self._path = path
        self._lines = lines
        self._lock = Lock()
        self._timer: Timer | None = None
        self._failure: OSError | None = None

    def known(self, key: str, limits: Limits) -> Row | None:
        """Return what became of an item.

        Not what other limits than these have stopped, and nothing that lacked a file or a package.
        """
        line = self._lines.get(key)
        if line is None:
            return None
        row: Row = line["item"]
        stopped = row["exit_code"] not in STOPS_AT_NO_LIMIT
        lacking = any(d["code"] in OF_THE_MACHINE for d in row["diagnostics"])
        return None if lacking or (stopped and line.get("limits") != limits) else row

    def add(self, key: str, row: Row, limits: Limits) -> None:
        """Keep what became of an item."""
        self._line({"key": key, "limits": limits, "item": row})

    def begin(self) -> None:
        """Begin anew."""
        with failures(self._path):
            os.ftruncate(self._file, 0)
        self._lines.clear()
        self._line({"schema": JOURNAL_SCHEMA})

    def close(self) -> None:
        """Bring everything to the disk; FileAccessError where that has failed at any time."""
        with self._lock:
            timer = self._timer
        if timer is not None:
            timer.cancel()
            timer.join()  # it may be about to begin
        self._sync()
        with failures(self._path):
            if self._failure is not None:
                raise self._failure

    def _line(self, content: dict[str, Any]) -> None:
        data = (json.dumps(content) + "\n").encode()
        with failures(self._path):
            if self._failure is not None:
                raise self._failure
            while data:
                data = data[os.write(self._file, data) :]
        with self._lock:
            if self._timer is None:
                self._timer = Timer(MOMENT, self._sync)
                self._timer.daemon = True
                self._timer.start()

    def _sync(self) -> None:
        with self._lock:
            self._timer = None  # lines from now on want another one
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
        _lock(file, path)
        lines = _lines(file, path)
        journal = Journal(file, path, lines)
        if lines and not resume and not force:
            message = f"{path} has the results of {count(len(lines), 'item')} already"
            raise misused(message, "--resume goes on with them, --force begins anew")
        if not (resume and lines):
            journal.begin()
        with closing(journal):
            yield journal
    finally:
        os.close(file)


def _lock(file: int, path: Path) -> None:
    """Refuse a journal that another batch writes; the lock goes when its process goes."""
    if not locked(file):
        message = f"another batch is at work with {path}"
        raise misused(message, "wait for its end, or name another folder or journal")


def _lines(file: int, path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines by key; cut off what comes behind the last whole line."""
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
        with suppress(ValueError, RecursionError):  # what cannot be read is done again
            found = json.loads(line)
            if isinstance(found, dict) and is_row(found.get("item")):
                out[str(found.get("key"))] = found
    return out


def _is_head(line: bytes) -> bool:
    """Whether a first line is one of a journal; half of one is, too."""
    head = json.dumps({"schema": JOURNAL_SCHEMA}).encode()
    return line == head or (len(line) < len(head) and head.startswith(line))
