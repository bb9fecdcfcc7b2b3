"""Fuzz every reader of files: mutants by number, guards, and what was wrong with the answers.

    python tools/fuzz.py --count 40000 --jobs 2          all formats, the mutants 0 to 39,999
    python tools/fuzz.py --format ir --only 123          one mutant, with its files in fuzz-ir-123/

A mutant is a small file (`tools/fuzzing/seeds.py`) that was changed in a few ways, or in its bytes,
and one or two commands that read it. Faults are an exception or exit code 70, a crash, over 1 s
of processor time or 512 MB, an open or call that no reader needs, a warning of Python, a control
character in the output, output that does not parse, a written model that `validate` refuses, a
refusal without a diagnostic. -o keeps the smallest file of each cause. Exit code 1 for any fault.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]
for _setting in ("OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "IRDECONV_FAST=0"):
    os.environ.setdefault(*_setting.split("="))

from fuzzing.cases import SHARES, make  # noqa: E402
from fuzzing.work import Runs, Tally, warm_up  # noqa: E402


def main() -> int:
    """Run mutants, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--format", choices=("all", *SHARES), default="all")
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--start", type=int, default=0, help="the first mutant's number")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", type=int, metavar="K", help="mutant K of the format alone")
    parser.add_argument("-o", "--output", type=Path, help="folder of what was found")
    options = parser.parse_args()
    formats = list(SHARES) if options.format == "all" else [options.format]
    if options.only is not None:
        return _one(options, formats)
    started = time.monotonic()
    warm_up(formats)
    runs = Runs(options.seed, formats, options.output, options.jobs)
    runs.go(options.start, options.count, _progress(options, started))
    _summary(runs.tally, time.monotonic() - started)
    for line in runs.groups():
        print(line)
    return 1 if runs.tally.found else 0


def _progress(options: argparse.Namespace, started: float):  # type: ignore[no-untyped-def]
    shown = [0.0]

    def tell(tally: Tally) -> None:
        now = time.monotonic() - started
        if now - shown[0] > 30:
            shown[0] = now
            rate = tally.mutants / now
            kinds = len({f.key for f in tally.found})
            print(f"{tally.mutants} mutants, {rate:.0f}/s, {kinds} kinds of faults", flush=True)

    return tell


def _one(options: argparse.Namespace, formats: list[str]) -> int:
    """Write a mutant's files, run it, print its commands and what was wrong."""
    if len(formats) != 1:
        print("--only takes a --format", file=sys.stderr)
        return 2
    case = make(formats[0], options.only, options.seed)
    folder = options.output or Path(f"fuzz-{case.format}-{case.number}")
    case.write(folder)
    print(f"{case.name} of {case.seed} in {folder}")
    for command in case.commands:
        print("irdeconv", " ".join(command).replace("{d}", str(folder)))
    warm_up(formats)
    runs = Runs(options.seed, formats, None, 1)
    runs.go(options.only, 1, lambda tally: None)
    for found in runs.tally.found:
        print(f"{found.fault.kind}: {found.fault.key}\n{found.fault.detail}")
    return 1 if runs.tally.found else 0


def _summary(tally: Tally, seconds: float) -> None:
    (seconds_of, name, verb), (bytes_of, where) = tally.slowest, tally.most
    kinds = Counter(f.fault.kind for f in tally.found)
    print(json.dumps({f"{f} {v} {c}": n for (f, v, c), n in sorted(tally.codes.items())}))
    print(
        f"{tally.mutants} mutants, {tally.commands} commands, {seconds:.0f} s; "
        f"slowest {seconds_of:.2f} s ({name} {verb}); "
        f"peak {bytes_of >> 20} MB above the start ({where}); faults: {dict(kinds) or 'none'}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
