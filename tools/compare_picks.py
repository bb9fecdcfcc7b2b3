"""Compare the kernels that the cost formulas pick with the best of the candidates, measured.

    python tools/compare_picks.py --list public --only dcgan --details
    python tools/compare_picks.py --without wide 'winograd*' --seed 7

The lists are public layers (`bench_layers.json`), held-out ones (`held_out_layers.json`), and
layers drawn at random. Candidates of a layer take turns on one thread; their least processor time
counts. For each list this prints the geometric mean of the picks' times over the best candidates',
and the worst layer. Exit code 1 if a mean is above --most, 2 if there is nothing to measure.

--numpy compares with the pick without numba, layer by layer. --without compares with the pick among
the other families of kernels; layers whose pick stays the same count as 1. IRDECONV_FAST=0 turns
numba off; NUMBA_CPU_NAME, OPENBLAS_CORETYPE and NPY_DISABLE_CPU_FEATURES imitate other processors.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from unittest import mock

import bench_regression
import checkout  # noqa: F401
import fit_rates

from irdeconv.base.extras import plain
from irdeconv.kernels import eager as both
from irdeconv.kernels.candidate import Candidate, ConvProblem, worthwhile
from irdeconv.runtime.measure import Call, Clock, Conditions, Effort
from support.layers import Layer

HELD_OUT = Path(__file__).resolve().parent / "held_out_layers.json"
LISTS = ("public", "held-out", "random")
LEAST, MOST = 5e4, 2e7  # ns that a random layer should take, by its estimate
LISTINGS = (  # every function that puts candidates of several families together
    (both, "convolution_candidates"),
    (both, "for_convolution"),
    (both, "for_deconvolution"),
)
FAR = 4.0  # candidates are timed whose estimates are at most this multiple of the least


@dataclass(frozen=True)
class Task:
    """A layer and what could compute it, the pick first."""

    name: str
    problem: ConvProblem
    deconvolution: bool
    candidates: tuple[Candidate, ...]

    @staticmethod
    def of(name: str, problem: ConvProblem, deconvolution: bool) -> Task:
        """List the candidates as a plan does."""
        found = (both.for_deconvolution if deconvolution else both.for_convolution)(problem)
        kernels = worthwhile(found)
        some = [c for c in kernels if c.cost <= FAR * kernels[0].cost]
        return Task(name, problem, deconvolution, tuple(some))

    def beside_numpy(self) -> Task:
        """Return it with two candidates: the pick, and that of NumPy alone."""
        with plain():
            alone = Task.of(self.name, self.problem, self.deconvolution).candidates[0]
        return replace(self, candidates=(self.candidates[0], alone))

    def beside_others(self, families: Sequence[str]) -> Task:
        """Return it with the pick among all but some families, then the pick among all.

        Where both are the same kernel there is one candidate.
        """
        with ExitStack() as patched:
            for module, name in LISTINGS:
                some = left_out(getattr(module, name), families)
                patched.enter_context(mock.patch.object(module, name, some))
            other = Task.of(self.name, self.problem, self.deconvolution).candidates[0]
        pick = self.candidates[0]
        return replace(self, candidates=(pick,) if other.label == pick.label else (other, pick))

    def calls(self) -> dict[str, Call]:
        """Return what is timed, by place and name."""
        arrays, kernels = fit_rates.arrays_of(self.problem, self.deconvolution), self.candidates
        call = fit_rates.kernel_call
        return {f"{i} {c.name}": call(c, *arrays) for i, c in enumerate(kernels)}


def left_out(
    listing: Callable[..., list[Candidate]], families: Sequence[str]
) -> Callable[..., list[Candidate]]:
    """Return a function that lists the same candidates without some families, if others are left.

    A name has several words if a kernel computes a layer by another one, as "convolution direct".
    """

    def is_left(candidate: Candidate) -> bool:
        words = candidate.name.split()
        return not any(fnmatchcase(word, family) for word in words for family in families)

    def some(*args: Any, **kwargs: Any) -> list[Candidate]:
        found = listing(*args, **kwargs)
        return [c for c in found if is_left(c)] or found

    return some


@dataclass(frozen=True)
class Picked:
    """A layer's candidates with their times in seconds, the pick first."""

    task: Task
    times: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The pick's time over the least."""
        return self.times[0] / min(self.times)

    def line(self) -> str:
        """Tell the pick and the best."""
        best = self.task.candidates[self.times.index(min(self.times))]
        pick, least = self.times[0] * 1e3, min(self.times) * 1e3
        names = f"{self.task.candidates[0].name} {pick:.3f} ms, best {best.name} {least:.3f} ms"
        return f"{self.task.name:<24} {self.ratio:5.2f}  {names}"

    def details(self) -> Iterator[str]:
        """Tell estimates and times of all candidates."""
        for candidate, time in zip(self.task.candidates, self.times, strict=True):
            guess = candidate.cost / 1e6
            yield f"    {candidate.name:<24} {time * 1e3:8.3f} ms, estimated {guess:.3f}"


class Without(Picked):
    """The pick without some families of kernels, then the pick of all where that is another one."""

    @property
    def ratio(self) -> float:
        """The first one's time over the other's; below 1 where the formulas were wrong."""
        return self.times[0] / self.times[-1]

    def line(self) -> str:
        """Tell both, or that they are one."""
        if len(self.times) == 1:
            return f"{self.task.name:<24}  same  {self.task.candidates[0].name}"
        pairs = zip(self.task.candidates, self.times, strict=True)
        names = ", all: ".join(f"{c.name} {time * 1e3:.3f} ms" for c, time in pairs)
        return f"{self.task.name:<24} {self.ratio:5.2f}  {names}"


def problem_of(layer: Layer) -> ConvProblem:
    """Return what a layer of a list computes."""
    groups = layer.groups or 1
    return ConvProblem(
        shape=layer.data_shape,
        outputs=layer.m * groups,
        groups=groups,
        kernel=layer.kernel,
        strides=layer.strides,
        dilations=layer.dilations,
        begin=layer.pads_begin,
        sizes=layer.output_size,
    )


def listed(path: Path) -> list[Task]:
    """Return the layers of a file."""
    layers = bench_regression.read_layers(path)
    return [Task.of(name, problem_of(layer), True) for name, layer in layers.items()]


def drawn(count: int, seed: int) -> list[Task]:
    """Draw deconvolutions, and half as many convolutions, that take neither too short nor long."""
    rng, found = random.Random(seed), list[Task]()
    for _ in range(fit_rates.DRAWS * count):
        if len(found) >= count:
            break
        deconvolution = len(found) % 3 != 2
        problem = fit_rates.draw_problem(rng, deconvolution)
        if problem.empty or math.prod(problem.shape) + math.prod(problem.out_shape) > 1 << 22:
            continue
        task = Task.of(f"random {len(found)}", problem, deconvolution)
        if LEAST <= task.candidates[0].cost <= MOST:
            found.append(task)
    return found


def tasks(name: str, args: argparse.Namespace) -> list[Task]:
    """Return the layers of a list."""
    if name == "random":
        found = drawn(args.count, args.seed)
    else:
        found = listed(HELD_OUT if name == "held-out" else bench_regression.LAYERS)
    return [t for t in found if args.only in t.name]


def measure(task: Task, effort: Effort, clock: Clock) -> Picked:
    """Time the candidates."""
    return Picked(task, tuple(fit_rates.least(task.calls(), effort, clock)))


def compared(task: Task, args: argparse.Namespace, clock: Clock) -> Picked:
    """Time the candidates that the command line asks for; a pick that stays needs no time."""
    effort = Effort(rounds=args.rounds, time=args.rounds * args.seconds)
    if not args.without:
        return measure(task.beside_numpy() if args.numpy else task, effort, clock)
    task = task.beside_others(args.without)
    same = len(task.candidates) == 1
    return Without(task, (1.0,) if same else measure(task, effort, clock).times)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--list", action="append", choices=LISTS, help="a list; may be repeated")
    p.add_argument("--only", default="", help="layers whose name contains this")
    p.add_argument("--count", type=int, default=40, help="layers that are drawn")
    p.add_argument("--seed", type=int, help="by which they are drawn; else a new one every time")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--seconds", type=float, default=0.05, help="per candidate and round")
    p.add_argument("--most", type=float, help="the greatest mean that is accepted")
    p.add_argument("--numpy", action="store_true", help="beside what NumPy alone would take")
    p.add_argument(
        "--without", nargs="+", action="extend", metavar="FAMILY", help="the picks' cost without it"
    )
    p.add_argument("--details", action="store_true", help="print every candidate")
    args = p.parse_args(argv)
    args.most = args.most or (1.01 if args.without else 1.1 if args.numpy else 1.03)
    return args


def show(name: str, picked: Sequence[Picked], args: argparse.Namespace) -> float:
    """Print what a list came to; return the geometric mean, or the worst with --numpy."""
    mean = statistics.geometric_mean(p.ratio for p in picked)
    worst = max(picked, key=lambda p: p.ratio)
    what = f"without {', '.join(args.without)} over all" if args.without else "over best"
    print(f"{name}: geometric mean of pick {what} {mean:.3f} of {len(picked)} layers, ", end="")
    if args.without:
        print(f"{sum(len(p.times) > 1 for p in picked)} changed, ", end="")
    print(f"worst {worst.ratio:.2f} ({worst.task.name})\n")
    return worst.ratio if args.numpy else mean


def main(argv: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Measure and print."""
    args = arguments(argv)
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 16)
    print(f"{Conditions.now().cpu}, seed {args.seed}\n")
    means = list[float]()
    for name in args.list or LISTS:
        picked = list[Picked]()
        for task in tasks(name, args):
            picked.append(compared(task, args, clock or Clock()))
            print(picked[-1].line(), flush=True)
            if args.details:
                print("    " + str(task.problem))
                print(*picked[-1].details(), sep="\n", flush=True)
        if picked:
            means.append(show(name, picked, args))
    if not means:
        print("compare_picks: no layer to measure", file=sys.stderr)
        return 2
    return 1 if max(means) > args.most else 0


if __name__ == "__main__":
    sys.exit(main())
