"""Tell how near each kernel comes to what the machine reaches in products and in copying.

    python tools/measure_ceilings.py
    python tools/measure_ceilings.py --count 100 --seed 5

The layers are those of `compare_picks.py`. Each is computed by the kernel that the cost formulas
pick, on one thread; the least processor time counts. Products are those of the definition, without
inserted zeros, so Winograd's kernels may exceed the peak. Bytes are input, filter and output, each
once. For each kernel this prints the median over its layers, and the range. Environment variables
imitate lesser processors, as docs/performance.md tells.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import checkout  # noqa: F401
import compare_picks
import numpy as np

from irdeconv.base.tables import table
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.run.machine import Ceilings, Conditions, gflops, measure_ceilings, rate
from irdeconv.run.measure import Clock, Effort

HEAD = "kernel", "layers", "products", "least, most", "copying", "from, to"


@dataclass(frozen=True)
class Reached:
    """What a kernel reached on a layer: parts of the machine's products and of its copying."""

    kernel: str
    products: float
    copying: float


def macs(problem: ConvProblem, deconvolution: bool) -> int:
    """Return the definition's products: of each input or output position with all taps."""
    positions = problem.positions if deconvolution else int(np.prod(problem.sizes))
    sides = problem.group_inputs * problem.group_outputs * problem.groups
    return problem.shape[0] * positions * sides * problem.taps


def moved(problem: ConvProblem) -> int:
    """Return the bytes of input, filter and output."""
    weights = problem.groups * problem.group_inputs * problem.group_outputs * problem.taps
    elements = np.prod(problem.shape) + np.prod(problem.out_shape) + weights
    return int(elements) * problem.itemsize


def reached(task: compare_picks.Task, ceilings: Ceilings, effort: Effort, clock: Clock) -> Reached:
    """Time a layer's pick."""
    alone = replace(task, candidates=task.candidates[:1])
    (seconds,) = compare_picks.measure(alone, effort, clock).times
    kind = "deconvolution" if task.deconvolution else "convolution"
    name = task.candidates[0].name.rstrip("0123456789x").rstrip("-")
    return Reached(
        kernel=name if " " in name else f"{kind} {name}",  # some are called by both
        products=gflops(macs(task.problem, task.deconvolution), seconds) / ceilings.gemm,
        copying=rate(moved(task.problem), seconds) / ceilings.copy,
    )


def rows(found: Sequence[Reached]) -> Iterator[tuple[str, ...]]:
    """Yield a row of the table for each kernel, the most frequent first."""
    kernels: dict[str, list[Reached]] = {}
    for one in found:
        kernels.setdefault(one.kernel, []).append(one)
    for name, some in sorted(kernels.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        parts = [r.products for r in some], [r.copying for r in some]
        median = (f"{statistics.median(values):.0%}" for values in parts)
        spread = (f"{min(values):.0%} to {max(values):.0%}" for values in parts)
        first, second = zip(median, spread, strict=True)
        yield (name, str(len(some)), *first, *second)


def main(argv: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Measure and print."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--count", type=int, default=60, help="layers that are drawn")
    p.add_argument("--seed", type=int, help="by which they are drawn; else a new one every time")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.05, help="per layer and round")
    p.add_argument("--only", default="", help="layers whose name contains this")
    args = p.parse_args(argv)
    args.list = None
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 16)
    clock = clock or Clock()
    ceilings, now = measure_ceilings(clock), Conditions.now()
    print(f"{now.cpu}, {now.blas}, seed {args.seed}")
    print(f"products {ceilings.gemm:.0f} GF/s, copying {ceilings.copy:.0f} GB/s\n")
    effort = Effort(rounds=args.rounds, time=args.rounds * args.seconds)
    found = [
        reached(task, ceilings, effort, clock)
        for name in compare_picks.LISTS
        for task in compare_picks.tasks(name, args)
    ]
    print(table(HEAD, list(rows(found)), right=HEAD[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
