"""Prove that random deconvolutions equal what they are lowered to, in every form, from the files.

    python tools/prove_random_layers.py                        200 layers
    python tools/prove_random_layers.py --count 2000 --seed 7 --jobs 2

All systems, element types, ranks; groups, dilations, pads of either sign, output padding, empty
axes; three of ten layers have open sizes (wholly, intervals), some read output_shape from an input.
Each is lowered, written, read again, and has to be proved for every size that the file admits.
Prints what was not, by reason, with the seed of an example; exit code 1 where there is anything.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import checkout  # noqa: F401
import numpy as np

import irdeconv as ird
from irdeconv.rewrite.forms import FORMS
from support.proof_layers import random_model, write_source

Outcome = tuple[str, str, str, str]  # system, form asked for, reason ("" proved), example


def one_layer(index: int, seed: int) -> list[Outcome]:
    """Prove one layer in every form that applies to it."""
    rng = np.random.default_rng([seed, index])
    model = random_model(rng)
    out = []
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder) / "a.xml", Path(folder) / "b.xml"
        write_source(model.graph, a)
        for form in FORMS:
            low = ird.lower(model.graph, form)
            if any(r.form != form for r in low.report):
                continue  # the form does not apply
            ird.write(low.graph, b)
            reason = why_not(a, b)
            out.append((model.system, form, reason, f"[{seed}, {index}] {model.text}"))
    return out


def why_not(a: Path, b: Path) -> str:
    """Return why the two files are not proved equal for every size, empty where they are."""
    try:
        report = ird.check_certificate(a, b)
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
    if not report.passed:
        return str(report).splitlines()[0]
    few = [c.proved for c in report.layers if "only" in (c.proved or "")]
    return f"sizes: {few[0]}" if few else ""


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "#", re.sub(r'"[^"]*"', '"..."', text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove `--count` layers and print a table by reason."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args(arguments)
    start = time.perf_counter()
    done: Counter[str] = Counter()
    examples: defaultdict[str, list[str]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        run = partial(one_layer, seed=args.seed)
        if args.jobs > 1:
            pool = stack.enter_context(ProcessPoolExecutor(args.jobs))
            found = pool.map(run, range(args.count), chunksize=8)
        else:
            found = map(run, range(args.count))
        for outcomes in found:
            for system, form, reason, example in outcomes:
                done[form] += 1
                if reason:
                    examples[_without_numbers(reason)].append(
                        f"{system} {form} {example}\n  {reason}"
                    )
    failed = sum(map(len, examples.values()))
    for reason, where in sorted(examples.items(), key=lambda row: -len(row[1])):
        print(f"{len(where):>6}  {reason}\n        {where[0]}")
    forms = ", ".join(f"{form} {number}" for form, number in done.items())
    spent = time.perf_counter() - start
    print(f"{args.count} layers, {sum(done.values())} lowerings ({forms}): {failed} not proved")
    print(f"{spent:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
