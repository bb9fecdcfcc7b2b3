"""Compare irdeconv with a live OpenVINO: random layers of every operation, random graphs, mutants.

    python tools/conformance_openvino.py --samples 20 --only 'Gather*' --only Pad
    python tools/conformance_openvino.py --only Pad --opset 12 --seed 17 --show
    python tools/conformance_openvino.py --graphs 1000 --seed 1       random graphs
    python tools/conformance_openvino.py --mutants 1000 --write DIR   changed IRs, those left open
    python tools/conformance_openvino.py --model FILE.xml --inputs FILE.npz

A sample is one layer: a row of tests/op_cases with other element types, sizes, values, attributes
and open shapes, or a layer of a generator of tests/support/live. OpenVINO's CPU plugin runs in a
process of its own. Compared are refusals, inferred and computed types and shapes, and values; of
graphs also inference with runs, and the lowered graph.

Every disagreement is printed with the row of docs/disagreements.md that explains it, if one does.
"wider" counts sizes that irdeconv leaves open and OpenVINO infers. `irdeconv reduce FILE.xml
--inputs FILE.npz --check 'python tools/conformance_openvino.py --model {} --inputs {inputs}'` makes
a model small. Exit code 1 if a model has no explanation, or if less than 97 % of the samples agree.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import checkout  # noqa: F401
import numpy as np

from support.live.differences import explanation
from support.live.graphs import random_model
from support.live.judging import KINDS
from support.live.runtime import Runtime
from support.live.sample import Model
from support.live.sweep import Table, sweep, targets
from support.live.trial import Maker, attempt

LEAST = 0.97


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2, help="of each operation and opset")
    parser.add_argument("--seed", type=int, help="one sample, or of the models")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--opset", type=int, help="one opset")
    parser.add_argument("--show", action="store_true", help="print every sample")
    parser.add_argument("--graphs", type=int, metavar="COUNT", help="random graphs")
    parser.add_argument("--mutants", type=int, metavar="COUNT", help="changed IRs")
    parser.add_argument("--start", type=int, default=0, help="number of the first model")
    parser.add_argument("--model", type=Path, metavar="XML", help="a model, beside its .bin")
    parser.add_argument("--inputs", type=Path, metavar="NPZ", help="the inputs of the model")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write what has no reason here")
    args = parser.parse_args()
    if args.model or args.graphs or args.mutants:
        return _models(_makers(args), args.write)
    return _samples(args)


def _makers(args: argparse.Namespace) -> Iterable[tuple[int, Maker]]:
    if args.model:
        feeds = dict(np.load(args.inputs)) if args.inputs else {}
        model = Model(args.model.read_bytes(), args.model.with_suffix(".bin").read_bytes(), feeds)
        return [(0, lambda: model)]
    if args.mutants:
        from support.live.mutants import mutant as make
    else:
        make = random_model
    numbers = range(args.start, args.start + (args.mutants or args.graphs))
    return [(number, partial(make, args.seed or 0, number)) for number in numbers]


def _models(makers: Iterable[tuple[int, Maker]], folder: Path | None) -> int:
    counts: Counter[tuple[str, str]] = Counter()
    left = 0
    with Runtime() as runtime:
        for number, make in makers:
            outcome = attempt(make, runtime)
            counts[outcome.kind, outcome.why] += 1
            counts["layers inferred wider", ""] += outcome.wider
            counts["layers inferred narrower", ""] += outcome.narrower
            if outcome.settled:
                continue
            left += 1
            print(f"--start {number}: {outcome.kind} {outcome.layer}: {outcome.detail}", flush=True)
            if folder:
                _write(folder / f"{number}.xml", make())
    for (kind, why), count in counts.most_common():
        print(f"{count:7} {kind}{why and ': '}{why}")
    print(f"{left} have no reason")
    return 1 if left else 0


def _write(path: Path, model: Model | None) -> None:
    assert model is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.xml)
    path.with_suffix(".bin").write_bytes(model.weights)
    np.savez(path.with_suffix(".npz"), **dict(model.feeds))


def _samples(args: argparse.Namespace) -> int:
    patterns, first = args.only or ["*"], args.seed or 0
    seeds = range(first, first + (args.samples if args.seed is None else 1))
    named = [t for t in targets() if any(fnmatch.fnmatch(t.type, p) for p in patterns)]
    chosen = [t for t in named if args.opset in (None, t.opset)]
    table = Table()
    for target, seed, verdict in sweep(chosen, seeds):
        table.add(target, seed, verdict)
        if args.show:
            print(f"{target} --seed {seed}: {verdict.kind}: {verdict.sample}; {verdict.reason}")
    rows = [("operation", *KINDS, "wider"), *table.rows()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)))
    for target, seed, verdict in sorted(table.found, key=lambda f: KINDS.index(f[2].kind)):
        print(f"{verdict.kind}: --only {target.type} --opset {target.opset} --seed {seed}")
        why = f"\n    explained: {explanation(verdict) or 'no'}" if verdict.disagrees else ""
        print(f"    {verdict.sample}\n    {verdict.reason}{why}")
    without = sorted({t.type for t in chosen} - {t.type for t in table.counts})
    disagree = sum(f[2].disagrees for f in table.found)
    print(f"without a sample: {' '.join(without) or 'none'}")
    print(
        f"{100 * table.rate:.2f} % of what OpenVINO runs agrees; "
        f"{len(table.unexplained)} of {disagree} disagreements are not explained"
    )
    return 0 if table.rate >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
