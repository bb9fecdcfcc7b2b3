"""A process that tries mutants one by one, and its parent, which outlives what kills it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzzing.attempt import Fault, Guard, attempt, faults
from fuzzing.cases import Case, make, place
from fuzzing.seeds import seeds
from irdeconv.cli.main import main

FORK = multiprocessing.get_context("fork")
MEMORY = 512 << 20  # bytes that a mutant may take above what the process had before
PATIENCE = 600.0  # seconds without a word; who computes is stopped earlier, by processor time
# A child that one thread starts holds every pipe that another one is opening, and starting it asks
# after all the others: an exit code that two threads ask for reaches one of them.
CHILDREN = threading.Lock()


@dataclass(frozen=True)
class Found:
    """A fault of a mutant."""

    case: str
    command: tuple[str, ...]
    fault: Fault
    bytes: int

    @property
    def key(self) -> tuple[str, str]:
        """What faults of one cause share."""
        return self.fault.kind, self.fault.key


@dataclass
class Tally:
    """What came of some mutants."""

    mutants: int = 0
    commands: int = 0
    codes: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    slowest: tuple[float, str, str] = (0.0, "", "")
    most: tuple[int, str] = (0, "")  # bytes above the start

    def add(self, other: Tally) -> None:
        """Take in another tally."""
        self.mutants += other.mutants
        self.commands += other.commands
        self.codes += other.codes
        self.found += other.found
        self.slowest = max(self.slowest, other.slowest)
        self.most = max(self.most, other.most)


def run_case(case: Case, folder: Path, guard: Guard, tally: Tally) -> None:
    """Write a mutant's files, run its commands and judge them; a slow one gets a second chance."""
    length = len(case.files[case.main])
    for command in case.commands:
        made = tried(case, command, folder, guard)
        if made[0].seconds > 1 and not any(f.kind == "endless" for f in made[1]):
            made = min(made, tried(case, command, folder, guard), key=lambda m: m[0].seconds)
        result, wrong = made
        tally.commands += 1
        tally.codes[case.format, command[0], result.code] += 1
        tally.slowest = max(tally.slowest, (result.seconds, case.name, command[0]))
        tally.found += [Found(case.name, command, f, length) for f in wrong]
    tally.mutants += 1


def tried(case: Case, command: tuple[str, ...], folder: Path, guard: Guard) -> tuple[Any, Any]:
    """Run one command on fresh files."""
    shutil.rmtree(folder, ignore_errors=True)
    case.write(folder)
    result = attempt(tuple(a.replace("{d}", str(folder)) for a in command), guard)
    return result, faults(result, folder)


def limit_memory() -> int:
    """Let this process have no more than MEMORY above what it has; return what it had at most."""
    with open("/proc/self/statm") as f:
        wall = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (wall, wall))
    return peak()


def peak() -> int:
    """Return the most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


Numbers = list[tuple[str, int]]


def _child(send: Connection, seed: int, numbers: Numbers, at: Any, root: str) -> None:
    folder = Path(root) / "m"
    tempfile.tempdir = root  # where commands put what they need for a while
    guard = Guard(root)
    tally, start = Tally(), limit_memory()
    high = start + (8 << 20)
    for i, (format, number) in enumerate(numbers):
        at.value = i
        case = make(format, number, seed)
        run_case(case, folder, guard, tally)
        if peak() > high:
            high = peak()
            tally.most = (high - start, case.name)
        if len(tally.found) > 200 or i % 100 == 99:
            send.send(tally)
            tally = Tally()
    send.send(tally)
    send.close()
    os._exit(0)


def run_numbers(seed: int, numbers: Numbers, tell: Callable[[Tally], None]) -> None:
    """Try mutants in processes of their own: another one goes on behind one that died."""
    first = 0
    while first < len(numbers):
        with tempfile.TemporaryDirectory(prefix="fuzz-") as root:
            first += _one_process(seed, numbers[first:], root, tell)


def _one_process(seed: int, numbers: Numbers, root: str, tell: Callable[[Tally], None]) -> int:
    at = FORK.RawValue("q", 0)
    with CHILDREN:
        receive, send = FORK.Pipe(duplex=False)
        child = FORK.Process(target=_child, args=(send, seed, numbers, at, root), daemon=True)
        child.start()
        send.close()
    last, since, killed = -1, time.monotonic(), False
    while True:
        try:
            if receive.poll(1.0):
                tell(receive.recv())
        except EOFError:
            break
        if at.value != last:
            last, since = at.value, time.monotonic()
        elif time.monotonic() - since > PATIENCE and not killed:
            child.kill()
            killed = True
    with CHILDREN:  # it has closed its pipe, so this does not take long
        child.join()
    if child.exitcode == 0:
        return len(numbers)
    format, number = numbers[at.value]
    case = make(format, number, seed)
    why = "no answer within ten minutes" if killed else f"exit code {child.exitcode}"
    fault = Fault("endless" if killed else "crash", f"{why} {format} {case.commands[-1][0]}", why)
    found = Found(case.name, case.commands[-1], fault, len(case.files[case.main]))
    tell(Tally(mutants=1, found=[found]))
    return int(at.value) + 1


def numbers_of(formats: list[str], start: int, count: int) -> Numbers:
    """Return the mutants of a range: of all formats by their shares, or of one by its own count."""
    if len(formats) == 1:
        return [(formats[0], n) for n in range(start, start + count)]
    wanted = set(formats)
    return [p for p in map(place, range(start, start + count)) if p[0] in wanted]


CHUNK = 500


def warm_up(formats: list[str]) -> None:
    """Import what the commands import, so that processes begin with it."""
    every: dict[str, Case] = {}
    for format in formats:
        seeds(format)
        for number in range(100):
            case = make(format, number, 0)
            verb = " ".join(a for a in case.commands[-1] if not a.startswith("{"))
            every.setdefault(f"{format} {verb}", case)
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        for case in every.values():
            _unchanged(case, Path(folder))


def _unchanged(case: Case, folder: Path) -> None:
    start = next(s for s in seeds(case.format) if s.name == case.seed)
    replace(case, files=start.files).write(folder)
    for command in case.commands:
        forced = ["--force"] if "-o" in command and "--force" not in command else []
        main([*(a.replace("{d}", str(folder)) for a in command), *forced])


class Runs:
    """Runs ranges chunk by chunk; the smallest mutant of each fault is kept in a folder."""

    def __init__(self, seed: int, formats: list[str], folder: Path | None, jobs: int) -> None:
        self.seed = seed
        self.formats = formats
        self.folder = folder
        self.jobs = jobs
        self.tally = Tally()
        self._lock = threading.Lock()

    def go(self, start: int, count: int, tell: Callable[[Tally], None]) -> None:
        """Run the mutants of a range."""

        def add(tally: Tally) -> None:
            with self._lock:
                self.tally.add(tally)
                tell(self.tally)

        def run(at: int) -> None:
            numbers = numbers_of(self.formats, at, min(CHUNK, start + count - at))
            run_numbers(self.seed, numbers, add)

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(run, range(start, start + count, CHUNK)))

    def groups(self) -> Iterator[str]:
        """Yield a line for each cause, and keep its smallest mutant."""
        causes: dict[tuple[str, str], list[Found]] = {}
        for found in self.tally.found:
            causes.setdefault(found.key, []).append(found)
        for i, (key, every) in enumerate(sorted(causes.items())):
            least = min(every, key=lambda f: f.bytes)
            shown = " ".join((least.case, *least.command))
            yield f"{len(every):6} x {': '.join(key)}\n         {shown}"
            if self.folder:
                self._keep(self.folder / f"{i:03}-{key[0].replace(' ', '-')}", least)

    def _keep(self, folder: Path, found: Found) -> None:
        format, _, number = found.case.partition(":")
        make(format, int(number), self.seed).write(folder)
        about = f"{found.case}\nirdeconv {' '.join(found.command)}\n{found.fault.detail}\n"
        (folder / "about.txt").write_text(about.replace("{d}", "."))
