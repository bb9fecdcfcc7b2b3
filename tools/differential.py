"""Hold random graphs and mutants of IRs against a live OpenVINO.

    python tools/differential.py --seed 1 --count 1000            random graphs
    python tools/differential.py --seed 1 --count 1000 --mutants  IRs that were changed
    python tools/differential.py --seed 1 --only 17 --shrink DIR  one of them, made small

A random graph has one to some dozen layers of any operation, with branches, shared constants,
several inputs and outputs, open sizes and all element types. OpenVINO's CPU plugin runs it in a
process of its own, which is begun anew where it ends. Held are: what either side refuses; inferred
element types and shapes of every layer; values, within the bounds of `compare`, integers exactly;
that a run never contradicts what inference said; and that the lowered graph gives the same.

With --journal FILE every outcome is a line there; what it holds already is not run again, but
for what did not agree under --again. Prints
the counts of each kind, each explanation (docs/disagreements.md) and whatever has none. Exit code
1 where something has none.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path

import checkout  # noqa: F401

from support.differential.models import Maker, maker
from support.differential.small import shrink_into
from support.differential.trial import SETTLED, Outcome, attempt
from support.live_operations.runtime import Runtime


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first model")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", type=int, help="run the model of this number, print it all")
    parser.add_argument("--mutants", action="store_true", help="changed IRs, not random graphs")
    parser.add_argument("--journal", type=Path, help="keep outcomes here, and go on from them")
    parser.add_argument("--again", action="store_true", help="run again what did not agree")
    parser.add_argument("--shrink", type=Path, metavar="DIR", help="write what has no reason here")
    parser.add_argument("--quiet", action="store_true", help="print counts only")
    args = parser.parse_args()
    make = maker(args.seed, mutants=args.mutants)
    numbers = range(args.start, args.start + args.count)
    if args.only is not None:
        numbers = range(args.only, args.only + 1)
    done = _read(args.journal)
    if args.again:
        done = {n: o for n, o in done.items() if o.kind in SETTLED}
    begun, before = time.monotonic(), len(done)
    _run(make, numbers, done, args.journal)
    rows = {n: done[n] for n in numbers if n in done}
    _print(rows, quiet=args.quiet, whole=args.only is not None)
    ran, seconds = len(done) - before, time.monotonic() - begun
    print(f"{ran} models in {seconds:.0f} s, of which {_computed():.0f} s computing")
    open_ones = [n for n, o in rows.items() if not o.settled]
    if args.shrink:
        for number in open_ones:
            print(shrink_into(args.shrink, number, make(number), rows[number]))
    return 1 if open_ones else 0


def _run(make: Maker, numbers: range, done: dict[int, Outcome], journal: Path | None) -> None:
    with Runtime() as runtime:
        for number in numbers:
            if number in done:
                continue
            done[number] = outcome = attempt(partial(make, number), runtime)
            if journal:
                with journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"number": number, **asdict(outcome)}) + "\n")


def _computed() -> float:
    """Return the seconds of processor time so far, those of OpenVINO's processes included."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def _read(journal: Path | None) -> dict[int, Outcome]:
    if journal is None or not journal.exists():
        return {}
    found = {}
    for line in journal.read_text("utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:  # cut off where the run was ended
            continue
        number = row.pop("number")
        found[number] = Outcome(**row)
    return found


def _print(rows: dict[int, Outcome], *, quiet: bool, whole: bool) -> None:
    kinds = Counter(o.kind for o in rows.values())
    reasons = Counter((o.kind, o.why) for o in rows.values() if o.why)
    for kind, count in kinds.most_common():
        print(f"{count:7} {kind}")
    for (kind, why), count in reasons.most_common():
        print(f"{count:7} {kind}: {why}")
    open_ones = {n: o for n, o in rows.items() if not o.settled}
    for number, o in [] if quiet else open_ones.items():
        detail = o.detail if whole else o.detail[:500]
        print(f"--only {number}: {o.kind} {o.layer}: {detail}")
    sizes = f"{sum(o.wider for o in rows.values())} layers inferred wider than OpenVINO, "
    print(f"{sizes}{sum(o.narrower for o in rows.values())} narrower")
    agree = sum(o.settled for o in rows.values())
    print(f"{len(rows)} models: {agree} agree or are explained, {len(open_ones)} have no reason")


if __name__ == "__main__":
    sys.exit(main())
