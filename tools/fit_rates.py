"""Fit the rates of the kernels' cost formulas to this processor.

    python tools/fit_rates.py --seconds 600
    python tools/fit_rates.py --only terms --only phases --json rates.json

The cost of a kernel is a sum of counts times rates in nanoseconds; each family of kernels has a
record of rates. For each family this times the kernels of random problems in turns on one thread
and finds the rates, none of them negative, with the least squared relative error. It prints the
package's rates beside the fitted ones, and the median and the 90th percentile of predicted over
measured time for both, on every third trial, which the fit has not seen.

It changes no file. Rates of matrix products hold for vectors of 256 bits (kernels/machine.py): the
printed ones are corrected by this machine's. Repeat with another --seed before you believe a
rate. IRDECONV_FAST=0 measures the kernels without numba. Exit code 2 if a family is not measurable.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import checkout  # noqa: F401
import numpy as np

from irdeconv.kernels import (
    convolution,
    convolution_depthwise,
    convolution_direct,
    convolution_rows,
    deconvolution_col2im,
    deconvolution_direct,
    deconvolution_phases,
    deconvolution_terms,
    products,
    residue_cuts,
)
from irdeconv.kernels import deconvolution_winograd as winograd
from irdeconv.kernels import winograd_tilings as tilings
from irdeconv.kernels.candidate import Candidate, ConvProblem, Estimate, FixedKernel, every_cut
from irdeconv.kernels.eager import convolution_candidates
from irdeconv.kernels.machine import one_blas_thread, product_time, scaled, times
from irdeconv.kernels.threads import Threads, arithmetic
from irdeconv.runtime.measure import Call, Clock, Conditions, Effort, interleaved, percentile

# The module and the constant with the rates of each family of kernels, and what lists kernels.
Records = dict[str, tuple[ModuleType, str, Callable[[ConvProblem], list[Candidate]]]]
CONVOLUTIONS: Records = {
    "convolution": (convolution, "WORK", convolution_candidates),
    "depthwise": (convolution, "DEPTHWISE", convolution_depthwise.depthwise_candidates),
    "interleaved": (convolution_rows, "INTERLEAVED", convolution_rows.candidates),
    "banded": (convolution_rows, "BANDED", convolution_rows.candidates),
    "direct": (convolution_direct, "DIRECT", convolution_direct.candidates),
}
DECONVOLUTIONS: Records = {
    "winograd": (tilings, "TILED", winograd.candidates),
    "winograd-numpy": (tilings, "PASSES", winograd.candidates),
    "residues": (residue_cuts, "RESIDUES", deconvolution_direct.candidates),
    "phases": (deconvolution_col2im, "PHASES", deconvolution_phases.candidates),
    "terms": (deconvolution_col2im, "TERMS", deconvolution_terms.candidates),
    "wide": (deconvolution_col2im, "WIDE", deconvolution_terms.wide_candidates),
}

SCHEMA = "irdeconv/fit-rates/1"
ELEMENTS = 1 << 20  # of inputs, filter and outputs together, at most
DEEP_ELEMENTS = 1 << 23  # the same where the filter is most of it
LEAST, MOST = 2e4, 2e7  # ns that a kernel should take
DRAWS = 100  # problems for each trial that is wanted, at most
TOGETHER = 30  # trials that take turns and are in memory at once
CUTS = 3  # ways to cut the work of a layer that are measured, at most
HELD_OUT = 3  # one trial in so many is not fitted
ROUNDS = 6  # of fitting, each weighted by what the one before predicts, ...
FAR_OFF = 5.0  # ... which counts as at most so many times too much or too little
KEPT = 1e-3  # how much a rate that is twice what it was adds to the squared errors


@dataclass(frozen=True)
class Trial:
    """A kernel on a problem: its estimate, and what makes the call that is timed."""

    estimate: Estimate
    prepare: Callable[[], Call]


@dataclass(frozen=True)
class Family:
    """Kernels whose costs come from one record, which is the constant `home`."""

    rates: Any
    home: str
    draw: Callable[[random.Random], list[Trial]]

    def trials(self, count: int, seed: int) -> list[Trial]:
        """Draw that many trials; fewer where kernels are missing, as without numba."""
        rng, found = random.Random(seed), list[Trial]()
        for _ in range(DRAWS * count):
            if len(found) >= count:
                break
            some = [t for t in self.draw(rng) if t.estimate.rates == self.rates]
            found += [t for t in some if LEAST <= t.estimate.cost <= MOST]
        return found[:count]


@dataclass(frozen=True)
class Fit:
    """Current and fitted rates, and predicted over measured time of unseen trials for both."""

    current: Any
    fitted: Any
    before: list[float]
    after: list[float]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with rates as the package has them."""
        current, fitted = (times(r, 1 / product_time()) for r in (self.current, self.fitted))
        return {
            "rates": {n: [v, getattr(fitted, n)] for n, v in vars(current).items()},
            "ratio_before": ratios(self.before),
            "ratio_after": ratios(self.after),
        }


def ratios(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the 90th percentile."""
    ranked = sorted(values)
    return {"median": percentile(ranked, 50), "p90": percentile(ranked, 90)}


def about(rng: random.Random, low: int, high: int) -> int:
    """Draw an integer, small ones as often as large ones on a logarithmic scale."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def draw_problem(rng: random.Random, deconvolution: bool) -> ConvProblem:
    """Draw a layer: K == S, depthwise, many channels of few positions, or anything.

    The last one twice as often as each of the others.
    """
    rank = rng.choice([1, 2, 2, 2, 3])
    kind = rng.choice(["disjoint", "depthwise", "deep", "any", "any"])
    stride = rng.choice([1, 2, 2, 3, 4, 8] if deconvolution else [1, 1, 1, 2])
    kernel = rng.choice([1, 2, 3, 3, 4, 5, 7] if rank < 3 else [1, 2, 3])
    if kind == "disjoint":
        kernel = stride if deconvolution else 1
    deep = kind == "deep"
    sizes = ((8, 400), (4, 24), (4, 8)) if deep else ((8, 4000), (4, 128), (4, 24))
    size = about(rng, *sizes[rank - 1])
    least, most = (64, 1024) if deep else (1, 256)
    channels = about(rng, least, most)
    outputs = channels if kind == "depthwise" else about(rng, least, most)
    begin = rng.randint(0, kernel // 2)
    span = (size - 1) * stride + kernel - 2 * begin
    outer = span if deconvolution else (size + 2 * begin - kernel) // stride + 1
    return ConvProblem(
        shape=(rng.choice([1, 1, 1, 4]), channels, *(size,) * rank),
        outputs=outputs,
        groups=channels if kind == "depthwise" else 1,
        kernel=(kernel,) * rank,
        strides=(stride,) * rank,
        dilations=(1,) * rank,
        begin=(begin,) * rank,
        sizes=(max(0, outer),) * rank,
    )


def filter_shape(problem: ConvProblem, deconvolution: bool) -> tuple[int, ...]:
    sides = problem.group_inputs, problem.group_outputs
    return problem.groups, *(sides if deconvolution else sides[::-1]), *problem.kernel


def arrays_of(problem: ConvProblem, deconvolution: bool) -> tuple[Any, Any, Any]:
    """Return random data and filter of a layer, and an array for its output."""
    rng, shapes = np.random.default_rng(0), (problem.shape, filter_shape(problem, deconvolution))
    x, w = (rng.standard_normal(s, np.float32) for s in shapes)
    return x, w, np.empty(problem.out_shape, np.float32)


def kernel_call(candidate: Candidate, x: Any, w: Any, out: Any) -> Call:
    """Prepare a kernel and return a call of it, as in a plan whose memory stays where it is."""
    kernel, team, fixed = candidate.prepare(w), Threads(1), None
    if isinstance(kernel, FixedKernel):
        fixed = kernel.fixed(x, out, lambda tile, image, channels, positions: None)

    def call() -> None:
        team.begin()
        if fixed is None:
            kernel(x, out, None, team)
        else:
            fixed(team)

    return call


def draw_layer(
    candidates: Callable[[ConvProblem], list[Candidate]], deconvolution: bool, rng: random.Random
) -> list[Trial]:
    """Return the kernels of a random layer whose estimates have rates."""
    problem = draw_problem(rng, deconvolution)
    data = math.prod(problem.shape) + math.prod(problem.out_shape)
    weights = math.prod(filter_shape(problem, deconvolution))
    if problem.empty or data > ELEMENTS or data + weights > DEEP_ELEMENTS:
        return []

    def prepare(candidate: Candidate) -> Call:
        return kernel_call(candidate, *arrays_of(problem, deconvolution))

    kernels = every_cut(candidates(problem))
    kernels = rng.sample(kernels, min(len(kernels), CUTS))
    return [Trial(c.estimate, partial(prepare, c)) for c in kernels if c.estimate is not None]


def draw_product(rng: random.Random) -> list[Trial]:
    """Return a random product of matrices."""
    k = rng.choice([1, about(rng, 2, 1024), about(rng, 512, 4096)])  # those are packed
    m, n = about(rng, 1, 1024), about(rng, 1, 8192)
    if m * k + k * n + m * n > ELEMENTS:
        return []

    def prepare() -> Call:
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(s, np.float32) for s in ((m, k), (k, n)))
        return partial(products.multiply, a, b, np.empty((m, n), np.float32))

    estimate = Estimate(scaled(products.PRODUCT), partial(products.product_cost, m, k, n))
    return [Trial(estimate, prepare)]


def family(
    module: ModuleType, constant: str, draw: Callable[[random.Random], list[Trial]]
) -> Family:
    home = f"{module.__name__.replace('.', '/')}.py: {constant}"
    return Family(scaled(getattr(module, constant)), home, draw)


def families() -> dict[str, Family]:
    """Return all families by name."""
    found = {"product": family(products, "PRODUCT", draw_product)}
    for deconvolution, records in ((False, CONVOLUTIONS), (True, DECONVOLUTIONS)):
        for name, (module, constant, kernels) in records.items():
            found[name] = family(module, constant, partial(draw_layer, kernels, deconvolution))
    return found


def measure(trials: Sequence[Trial], *, rounds: int, seconds: float, clock: Clock) -> list[float]:
    """Return the least processor time of each trial in nanoseconds, in about `seconds` for all."""
    times, each = list[float](), seconds / (rounds * len(trials))
    for start in range(0, len(trials), TOGETHER):
        calls = {str(i): t.prepare() for i, t in enumerate(trials[start : start + TOGETHER])}
        times += [1e9 * t for t in least(calls, Effort(rounds=rounds, time=rounds * each), clock)]
    return times


def least(calls: dict[str, Call], effort: Effort, clock: Clock) -> list[float]:
    """Return the least processor time of each call in seconds; they take turns on one thread."""
    with one_blas_thread(), arithmetic():
        samples = interleaved(calls, effort, clock=clock)
    return [min(s.cpu for s in samples[name]) for name in calls]


def fit(rates: Any, estimates: Sequence[Estimate], times: Sequence[float]) -> Fit:
    """Return the rates with the least relative error for these times in nanoseconds."""
    pairs = [(e, t) for e, t in zip(estimates, times, strict=True) if t]  # the clock did not move
    unseen = pairs[::HELD_OUT]
    seen = [p for i, p in enumerate(pairs) if i % HELD_OUT]
    names = list(vars(rates))
    zero = replace(rates, **dict.fromkeys(names, 0.0))
    ones = [replace(zero, **{name: 1.0}) for name in names]
    measured = np.array([t for _, t in seen])
    constant = np.array([e.nanoseconds(zero) for e, _ in seen])
    counts = np.array([[e.nanoseconds(one) for one in ones] for e, _ in seen])
    relative = (counts - constant[:, None]) / measured[:, None]
    used = relative.any(axis=0)
    values = np.array([float(vars(rates)[name]) for name in names])
    kept = np.array([KEPT**0.5 / v if v else 0.0 for v in values[used]])
    a = np.concatenate([relative[:, used], np.diag(kept)])
    b = np.concatenate([1 - constant / measured, kept * values[used]])
    for _ in range(ROUNDS):  # half the time is as wrong as twice the time
        predicted = (relative[:, used] * values[used]).sum(1) + constant / measured
        even = np.ones(len(b))
        even[: len(seen)] = 1 / np.sqrt(np.clip(predicted, 1 / FAR_OFF, FAR_OFF))
        values[used] = non_negative(a * even[:, None], b * even)
    fitted = replace(rates, **dict(zip(names, values.tolist(), strict=True)))
    before, after = ([e.nanoseconds(r) / t for e, t in unseen] for r in (rates, fitted))
    return Fit(rates, fitted, before, after)


def non_negative(a: Any, b: Any) -> Any:
    """Return the least squares solution of a x = b without negative elements (Lawson, Hanson)."""
    scale = np.sqrt((a * a).sum(0))
    a, x, free = a / scale, np.zeros(a.shape[1]), np.zeros(a.shape[1], bool)
    for _ in range(3 * len(x)):
        gradient = (a * (b - (a * x).sum(1))[:, None]).sum(0)
        gradient[free] = 0
        if gradient.max(initial=0) < 1e-10:
            break
        free[gradient.argmax()] = True
        while True:
            solution = np.zeros_like(x)
            solution[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            below = free & (solution <= 0)
            if not below.any():
                break
            x += (x[below] / (x[below] - solution[below])).min() * (solution - x)
            free &= x > 1e-12
        x = solution
    return x / scale


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = p.add_argument
    add("--only", action="append", choices=list(families()), help="a family; may be repeated")
    add("--trials", type=int, default=150, help="kernels per family")
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=300, help="of all measurements, besides warming up")
    add("--seed", type=int, default=0, help="which problems are drawn")
    add("--json", metavar="FILE", help="write the result here as well")
    return p.parse_args(argv)


def show(name: str, home: str, found: Fit) -> None:
    """Print a family."""
    before, after = ratios(found.before), ratios(found.after)
    print(f"{name}: {home}")
    print(f"  {'rate':<14} {'current':>10} {'fitted':>10}")
    for rate, (current, fitted) in found.to_dict()["rates"].items():
        print(f"  {rate:<14} {current:>10.4g} {fitted:>10.4g}")
    for label in ("median", "p90"):
        print(f"  {'ratio ' + label:<14} {before[label]:>10.3f} {after[label]:>10.3f}")


def main(argv: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Draw, measure, fit, print."""
    args = arguments(argv)
    chosen = {n: f for n, f in families().items() if not args.only or n in args.only}
    trials = {n: f.trials(args.trials, args.seed) for n, f in chosen.items()}
    missing = [n for n, some in trials.items() if len(some) <= len(vars(chosen[n].rates))]
    if args.only and missing:
        print(f"fit_rates: too few kernels to measure: {', '.join(missing)}", file=sys.stderr)
        return 2
    conditions = Conditions.now()
    print(", ".join(f"{k} {v}" for k, v in asdict(conditions).items()))
    fits = dict[str, Fit]()
    for name in [n for n in chosen if n not in missing]:
        timing = {"rounds": args.rounds, "seconds": args.seconds / len(chosen)}
        times = measure(trials[name], clock=clock or Clock(), **timing)
        fits[name] = fit(chosen[name].rates, [t.estimate for t in trials[name]], times)
        show(name, chosen[name].home, fits[name])
    if missing:
        print(f"not measured, since kernels are missing: {', '.join(missing)}")
    if args.json:
        results = {name: found.to_dict() for name, found in fits.items()}
        document = {"schema": SCHEMA, "conditions": asdict(conditions), "families": results}
        Path(args.json).write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
