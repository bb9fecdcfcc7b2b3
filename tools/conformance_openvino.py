"""Hold every operation of opset1 to opset16 against a live OpenVINO, on random layers.

    python tools/conformance_openvino.py                    2 samples of each operation and opset
    python tools/conformance_openvino.py --samples 20 --only 'Gather*' --only Pad
    python tools/conformance_openvino.py --only Pad --opset 12 --seed 17 --show

A sample is one layer: a row of tests/op_cases with other element types, sizes, values, attributes
and declared (open) shapes, or what a generator of tests/support/live_operations makes where inputs
have a meaning. OpenVINO's CPU plugin runs it in a process of its own. Both sides have to
agree in element type, inferred and computed shape, and values. Prints a row for each operation,
then everything that disagrees with the arguments that repeat it, and what has no sample. "wider"
counts samples that agree although irdeconv leaves a size open which OpenVINO infers. "explained"
names the row of docs/disagreements.md.

Exit code 1 where less than 97 % of what OpenVINO runs agrees.
"""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import sys

import checkout  # noqa: F401

from support.live_operations.explained import explanation
from support.live_operations.sweep import Table, Target, sweep, targets
from support.live_operations.verdict import KINDS, Verdict

LEAST = 0.97
Row = tuple[Target, int, Verdict]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2, help="of each operation and opset")
    parser.add_argument("--seed", type=int, help="one sample, or the first of them")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--opset", type=int, help="one opset")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="print every sample")
    parser.add_argument("--kinds", help="list these verdicts only, by commas")
    args = parser.parse_args()
    seeds = range(args.seed or 0, (args.seed or 0) + (1 if args.seed is not None else args.samples))
    chosen = [
        t
        for t in targets()
        if args.opset in (None, t.opset)
        and any(fnmatch.fnmatch(t.type, p) for p in args.only or ["*"])
    ]
    table = Table()
    for row in _run(chosen, list(seeds), args.jobs):
        table.add(*row)
        if args.show:
            _print_sample(*row)
    _print(table, chosen, args.kinds.split(",") if args.kinds else list(KINDS))
    return 0 if table.rate >= LEAST else 1


def _run(chosen: list[Target], seeds: list[int], jobs: int) -> list[Row]:
    parts = [(chosen[i :: 4 * jobs], seeds) for i in range(4 * jobs)]
    if jobs == 1:
        found = map(_part, parts)
        return sorted((r for part in found for r in part), key=_order)
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, _not_daemon) as pool:
        return sorted((r for part in pool.imap(_part, parts) for r in part), key=_order)


def _not_daemon() -> None:
    """Let workers of the pool have children."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


def _part(part: tuple[list[Target], list[int]]) -> list[Row]:
    return list(sweep(*part))


def _order(row: Row) -> tuple[str, int, int]:
    return row[0].type, row[0].opset, row[1]


def _print_sample(target: Target, seed: int, verdict: Verdict) -> None:
    print(f"{target} --seed {seed}: {verdict.kind}: {verdict.sample}; {verdict.reason}")


def _print(table: Table, chosen: list[Target], kinds: list[str]) -> None:
    head = ("operation", *KINDS, "wider")
    rows = [head, *table.rows()]
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    for row in rows:
        print(
            "  ".join(
                c.rjust(w) if i else c.ljust(w)
                for i, (c, w) in enumerate(zip(row, widths, strict=True))
            )
        )
    for kind in kinds:
        found = [f for f in table.found if f[2].kind == kind]
        if found:
            print(f"\n{kind}:")
        for target, seed, verdict in found:
            print(f"--only {target.type} --opset {target.opset} --seed {seed}")
            print(f"    {verdict.sample}\n    {verdict.reason}")
            if verdict.disagrees:
                print(f"    explained: {explanation(verdict) or 'no'}")
    without = sorted({t.type for t in chosen if t not in table.counts})
    if without:
        print(f"\nwithout a sample: {' '.join(without)}")
    disagree = sum(f[2].disagrees for f in table.found)
    print(
        f"\n{100 * table.rate:.2f} % of what OpenVINO runs agrees; "
        f"{len(table.unexplained)} of {disagree} disagreements are not explained"
    )


if __name__ == "__main__":
    sys.exit(main())
