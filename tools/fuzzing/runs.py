"""Ranges of mutants over some processes, with a journal to resume by and groups of faults."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
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
    """Runs ranges chunk by chunk; what is done is kept in a folder, if one is given."""

    def __init__(self, seed: int, formats: list[str], folder: Path | None, jobs: int) -> None:
        self.seed = seed
        self.formats = formats
        self.folder = folder
        self.jobs = jobs
        self.tally = Tally()
        self._lock = threading.Lock()

    def go(self, start: int, count: int, tell: Callable[[Tally], None]) -> None:
        """Run the mutants of a range."""
        chunks = [(s, min(CHUNK, start + count - s)) for s in range(start, start + count, CHUNK)]
        todo = iter(chunks)
        if self.jobs == 1:
            return self._work(todo, tell)
        threads = [threading.Thread(target=self._work, args=(todo, tell)) for _ in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return None

    def _work(self, todo: Iterator[tuple[int, int]], tell: Callable[[Tally], None]) -> None:
        while True:
            with self._lock:
                chunk = next(todo, None)
            if chunk is None:
                return
            self._chunk(*chunk, tell)

    def _chunk(self, start: int, count: int, tell: Callable[[Tally], None]) -> None:
        kept = None
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            names = "-".join(self.formats) if len(self.formats) == 1 else "all"
            kept = self.folder / f"{names}-{self.seed}-{start}-{count}.done"
        own = Tally()

        def add(tally: Tally) -> None:
            own.add(tally)
            with self._lock:
                self.tally.add(tally)
                tell(self.tally)

        if kept and kept.exists():
            add(pickle.loads(kept.read_bytes()))
            return
        run_numbers(self.seed, numbers_of(self.formats, start, count), add)
        if kept:
            part = kept.with_suffix(".part")
            part.write_bytes(pickle.dumps(own))
            part.replace(kept)

    def groups(self, shrink: bool) -> Iterator[str]:
        """Yield a line for each cause, and keep its smallest mutant."""
        causes: dict[tuple[str, str], list[Found]] = {}
        for found in self.tally.found:
            causes.setdefault(found.key, []).append(found)
        for i, (key, every) in enumerate(sorted(causes.items())):
            least = min(every, key=lambda f: f.bytes)
            shown = " ".join((least.case, *least.command))
            yield f"{len(every):6} x {': '.join(key)}\n         {shown}"
            if self.folder:
                self._keep(self.folder / f"{i:03}-{key[0].replace(' ', '-')}", least, shrink)

    def _keep(self, folder: Path, found: Found, shrink: bool) -> None:
        folder.mkdir(exist_ok=True)
        format, _, number = found.case.partition(":")
        case = make(format, int(number), self.seed)
        if shrink:
            from fuzzing.shrink import shrunk

            case = shrunk(case, found)
        for name, data in case.files.items():
            (folder / name).write_bytes(data)
        about = f"{found.case}\nirdeconv {' '.join(found.command)}\n{found.fault.detail}\n"
        (folder / "about.txt").write_text(about.replace("{d}", "."))
