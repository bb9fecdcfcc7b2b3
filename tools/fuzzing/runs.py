"""Ranges of mutants over some processes, and groups of faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzzing.cases import Case, make
from fuzzing.seeds import seeds
from fuzzing.work import Found, Tally, numbers_of, run_numbers
from irdeconv.cli.main import main

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
    for name, data in start.files.items():
        (folder / name).write_bytes(data)
    for command in case.commands:
        main([*(a.replace("{d}", str(folder)) for a in command), *_forced(command)])


def _forced(command: tuple[str, ...]) -> list[str]:
    return ["--force"] if "-o" in command and "--force" not in command else []


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
