"""Change lowered files in one way each and hold the checker's answer against OpenVINO's.

    python tools/mutate_lowered.py                                 500 mutants
    python tools/mutate_lowered.py --count 20000 --seed 7 --jobs 2
    python tools/mutate_lowered.py --seed 7 --mutant 33:9     one of them, as a report names it

Each model is a random deconvolution of any system, often with open sizes, beside a loop, a state
and plain layers, lowered in a random form and written. An edit of tests/support/edit_kinds.py or
edit_wiring.py changes that file. OpenVINO says whether the mutant is a model, has the same
interface and computes the same integers at several sizes; `check-certificate` says whether it
equals the original. Prints a row per kind of edit, what was accepted wrongly, crashes, and the
causes for which equal ones were refused: those that stay (BY_DESIGN), then all others. Exit code 1
where anything was wrong, or more than 2 % of the equal ones were refused for other causes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection, wait

import checkout  # noqa: F401

from support.mutation import (
    ACCEPTED,
    CRASHED,
    DEADLY,
    EQUAL,
    INTERFACE,
    INVALID,
    REFUSED,
    VALUES,
    Outcome,
    mutants,
    without_numbers,
)

SPAWN = multiprocessing.get_context("spawn")
PER_MODEL = 12
PER_PROCESS = 80  # models
MOST_MEMORY = 6 << 30  # bytes of a process
MOST_REFUSED = 2.0  # percent of the equal ones
# What stays refused although it is equal: kind of edit, what it says, why.
BY_DESIGN = (
    ("inserted", "^(Floor|Sign|Sigmoid|Exp|Tanh|Sqrt) behind", "no lowering has such a layer"),
    ("inserted_nothing", "^Identity behind Const", "OpenVINO does not fold an Identity"),
    ("layer_type", "", "no lowering has such a layer"),
    ("attribute_choice", "-> pdpd", "no lowering broadcasts so"),
    ("attribute_choice", "^Pad .* pad_mode", "another mode of a Pad that pads nothing"),
    ("attribute_dropped", "^Concat .* without axis", "the runtime leaves the axis to chance"),
    ("attribute_text", "1\\.5", "the runtime cuts a fraction off"),
    ("information", "^(Parameter|Result)", "inputs and outputs are compared with their rt_info"),
    ("version", "", "versions of layers are compared"),
)


def work(send: Connection, seed: int, models: range, first: int, core: bool) -> None:
    """Judge the mutants of some models, telling each before and behind what may kill."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for number in models:
        send.send((number, first, None))
        judged = mutants(seed, number, PER_MODEL, first, core=core)
        for i in range(first, PER_MODEL):
            send.send((number, i, next(judged)))
            send.send((number, i + 1, next(judged)))
        first = 0
    send.close()


class Worker:
    """A process on some models, from mutant `first` of the first one on."""

    def __init__(self, seed: int, core: bool, models: range, first: int = 0) -> None:
        self.seed, self.core, self.models, self.first = seed, core, models, first
        self.number, self.i = models[0], first
        self.half: Outcome | None = None
        self.receive, send = SPAWN.Pipe(duplex=False)
        self.process = SPAWN.Process(target=work, args=(send, seed, models, first, core))
        self.process.start()
        send.close()

    def heir(self) -> tuple[Worker | None, Outcome | None]:
        """Return who goes on where this one died, and the mutant of which it surely died.

        What the runtime did before may kill it later: a mutant is tried again in a new process.
        """
        self.process.join()
        if self.process.exitcode == 0:
            return None, None
        left = range(self.number, self.models.stop)
        if (self.number, self.i) != (self.models[0], self.first):
            return Worker(self.seed, self.core, left, self.i), None
        where = f"--seed {self.seed} {self.number}:{self.i}"
        outcome = self.half or Outcome("process", where, DEADLY, CRASHED, "the checker died")
        if self.i + 1 < PER_MODEL:
            return Worker(self.seed, self.core, left, self.i + 1), outcome
        return Worker(self.seed, self.core, left[1:]) if left[1:] else None, outcome


def outcomes(count: int, seed: int, jobs: int, *, core: bool = False) -> Iterator[Outcome]:
    """Judge `count` mutants on some processes."""
    models = -(-count // PER_MODEL)
    size = min(PER_PROCESS, -(-models // jobs))
    waiting = iter([range(n, min(n + size, models)) for n in range(0, models, size)])
    running = [Worker(seed, core, chunk) for _, chunk in zip(range(jobs), waiting, strict=False)]
    while running:
        for receive in wait([w.receive for w in running]):
            (worker,) = (w for w in running if w.receive is receive)
            try:
                worker.number, worker.i, outcome = worker.receive.recv()
            except EOFError:
                running.remove(worker)
                after, outcome = worker.heir()
                chunk = next(waiting, range(0)) if after is None else range(0)
                if after or chunk:
                    running.append(after or Worker(seed, core, chunk))
            else:
                worker.half = outcome if outcome and outcome.truth == DEADLY else None
                outcome = None if worker.half else outcome
            if outcome:
                yield outcome


def report(found: Sequence[Outcome]) -> int:
    """Print what was found; 1 where the checker was wrong."""
    print(f"{'edit':<20}{'equal':>7}{'refused':>9}{'differ':>8}{'accepted':>10}{'crashed':>9}")
    for kind in sorted({o.kind for o in found}):
        _row(kind, [o for o in found if o.kind == kind])
    _row("all", found)
    for truth in (VALUES, INTERFACE, INVALID, DEADLY):
        wrong = [o for o in found if o.verdict == ACCEPTED and o.truth == truth]
        print(f"accepted, {truth}: {len(wrong)}")
        for o in wrong[:40]:
            print(f"    {o.kind}: {o.text}")
    crashed = [o for o in found if o.verdict == CRASHED]
    print(f"{CRASHED}: {len(crashed)}")
    for o in crashed[:40]:
        print(f"    {o.kind}: {o.text}\n        {o.reason}")
    print(f"the runtime itself died of {sum(o.truth == DEADLY for o in found)}")
    share = _refusals([o for o in found if o.truth == EQUAL])
    return 1 if share > MOST_REFUSED or any(o.wrong for o in found) else 0


def _row(kind: str, found: Sequence[Outcome]) -> None:
    equal = [o for o in found if o.truth == EQUAL]
    differ = [o for o in found if o.truth != EQUAL]
    refused = sum(o.verdict == REFUSED for o in equal)
    accepted = sum(o.verdict == ACCEPTED for o in differ)
    crashed = sum(o.verdict == CRASHED for o in found)
    print(f"{kind:<20}{len(equal):>7}{refused:>9}{len(differ):>8}{accepted:>10}{crashed:>9}")


def _meant(o: Outcome) -> list[str]:
    """Return why an equal one may be refused, if it may; its text begins behind two numbers."""
    said = o.text.split(maxsplit=3)[-1]
    return [why for kind, text, why in BY_DESIGN if o.kind == kind and re.search(text, said)][:1]


def _refusals(equal: Sequence[Outcome]) -> float:
    """Print why equal ones were refused; return their share in percent."""
    refused = [o for o in equal if o.verdict == REFUSED]
    meant = Counter(why for o in refused for why in _meant(o))
    for why, number in meant.most_common():
        print(f"refused although equal, as {why}: {number}")
    refused = [o for o in refused if not _meant(o)]
    share = 100 * len(refused) / max(len(equal), 1)
    print(f"refused although equal: {len(refused)} of {len(equal)}, {share:.1f} %")
    causes = Counter((o.kind, without_numbers(o.reason)[:110]) for o in refused)
    for (kind, cause), number in causes.most_common(60):
        first = next(
            o for o in refused if (o.kind, without_numbers(o.reason)[:110]) == (kind, cause)
        )
        print(f"{number:>6}  {kind}: {cause}\n        {first.text[:150]}")
    return share


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge `--count` mutants and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--core", action="store_true", help="ask irdeconv.proof alone")
    parser.add_argument("--mutant", help="judge this one alone (MODEL:NUMBER)")
    args = parser.parse_args(arguments)
    start = time.perf_counter()
    if args.mutant:
        number, i = map(int, args.mutant.split(":"))
        # Each comes twice, the second time with what the runtime says.
        found = [*islice(mutants(args.seed, number, PER_MODEL, i, core=args.core), 1, 2)]
        print(*found, sep="\n")
    else:
        found = list(outcomes(args.count, args.seed, args.jobs, core=args.core))
    failed = report(found)
    print(f"{len(found)} mutants in {time.perf_counter() - start:.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
