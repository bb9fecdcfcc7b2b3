"""Make a mutant smaller while its fault stays the same."""

from __future__ import annotations

import dataclasses
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from fuzzing.cases import Case
from fuzzing.guard import Guard
from fuzzing.work import FORK, Found, Tally, limit_memory, run_case

T = TypeVar("T")
TRIES = 400
SECONDS = 10  # of wall time that a try may take


def shrunk(case: Case, found: Found) -> Case:
    """Return the mutant with all lines, then bytes, removed that its fault does not need."""
    case = dataclasses.replace(case, commands=(found.command,))
    if not shows(case, found):
        return case
    tries = iter(range(TRIES))
    for name in sorted(case.files, key=lambda n: n != case.main):
        case = _smaller(case, name, found, tries)
    return case


def _smaller(case: Case, name: str, found: Found, tries: Iterator[int]) -> Case:
    def fails(kept: list[bytes]) -> bool:
        more = next(tries, None) is not None
        return more and shows(_with(case, name, b"".join(kept)), found)

    lines = least(case.files[name].splitlines(keepends=True), fails)
    return _with(case, name, b"".join(least(_tokens(b"".join(lines)), fails)))


def _tokens(data: bytes) -> list[bytes]:
    size = max(1, len(data) // 200)
    return [data[i : i + size] for i in range(0, len(data), size)]


def _with(case: Case, name: str, data: bytes) -> Case:
    return dataclasses.replace(case, files={**case.files, name: data})


def least(pieces: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Leave out ever smaller runs of pieces as long as what is left fails."""
    size = max(1, len(pieces) // 2)
    while pieces:
        at, before = 0, len(pieces)
        while at < len(pieces):
            rest = pieces[:at] + pieces[at + size :]
            if fails(rest):
                pieces = rest
            else:
                at += size
        if size == 1 and len(pieces) == before:
            break
        size = max(1, size // 2)
    return pieces


def shows(case: Case, found: Found) -> bool:
    """Whether a mutant has the fault, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as root:
        child = FORK.Process(target=_try, args=(case, found, root))
        child.start()
        child.join(SECONDS)
        if child.exitcode is None:
            child.kill()
            child.join()
            return found.fault.kind == "endless"
        if child.exitcode in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
            return found.fault.kind == "crash"
        return child.exitcode == 10


def _try(case: Case, found: Found, root: str) -> None:
    tempfile.tempdir = root
    guard, tally = Guard(root), Tally()
    limit_memory()
    run_case(case, Path(root) / "m", guard, tally)
    os._exit(10 if any(f.key == found.key for f in tally.found) else 0)
