"""Time deconvolution layers of public networks, and compare with an earlier measurement.

    python tools/bench_regression.py -o before.json
    python tools/bench_regression.py --baseline before.json

Times are least processor times of one thread over rounds in which the layers take turns, divided by
the time of a matrix product in the same rounds, so that a processor that runs slower for a while
does not look like a regression. A layer above the threshold is measured again before it counts.
Exit code 1 where a layer became slower, 2 where the two measurements cannot be compared.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.kernels.blas import one_blas_thread
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from irdeconv.runtime.machine import Conditions
from irdeconv.runtime.measure import Clock, Effort, Sample, interleaved
from support.layers import sequential

LAYERS = Path(__file__).resolve().parent / "bench_layers.json"
SCHEMA = "irdeconv/bench-regression/1"
UNIT = "sgemm"  # the name under which the matrix product is measured
SIDE = 384

Measure = Callable[[Sequence[str]], dict[str, float]]


@dataclass(frozen=True)
class Layer:
    """One deconvolution: `input` is [N, C, *I]; lists have one value per spatial axis."""

    name: str
    network: str
    input: list[int]
    outputs: int
    kernel: list[int]
    strides: list[int]
    pads: list[int] | None = None
    output_padding: list[int] | None = None
    dilations: list[int] | None = None
    groups: int = 1

    def graph(self) -> Graph:
        """Return the layer as a graph with a constant filter."""
        zeros, ones = (0,) * len(self.kernel), (1,) * len(self.kernel)
        pads = tuple(self.pads or zeros)
        grouped = self.groups > 1
        op = (GroupConvolutionBackpropData if grouped else ConvolutionBackpropData)(
            strides=tuple(self.strides),
            dilations=tuple(self.dilations or ones),
            pads_begin=pads,
            pads_end=pads,
            output_padding=tuple(self.output_padding or zeros),
        )
        return ird.infer(sequential(self.input, (self.name, op, {"w": self._filter()})))

    def _filter(self) -> Any:
        c, m, g = self.input[1], self.outputs, self.groups
        shape = (c, m, *self.kernel) if g == 1 else (g, c // g, m // g, *self.kernel)
        return np.random.default_rng(0).standard_normal(shape, np.float32)

    def call(self, form: str | None, tune: bool) -> Callable[[], Any]:
        """Return what is timed."""
        plan = ird.compile(self.graph(), form, threads=1, tune=tune)
        x = np.random.default_rng(1).standard_normal(self.input, np.float32)
        return lambda: plan.run([x])


def read_layers(path: Path, only: str = "") -> list[Layer]:
    """Return the layers of a file whose names contain `only`."""
    return [Layer(**row) for row in json.loads(path.read_text("utf-8")) if only in row["name"]]


def matrix_product() -> Callable[[], Any]:
    """Return the unit of time."""
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((SIDE, SIDE), np.float32) for _ in range(2))
    out = np.empty_like(a)
    return lambda: np.matmul(a, b, out=out)


def least(samples: Mapping[str, Sequence[Sample]]) -> dict[str, float]:
    """Return the least processor time of each name in seconds."""
    return {name: min(s.cpu for s in found) for name, found in samples.items()}


def compare(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """Return new time over old time, both in matrix products, of the layers that both have."""
    both = [name for name in new if name in old and name != UNIT]
    return {n: (new[n] / new[UNIT]) / (old[n] / old[UNIT]) for n in both}


def settle(
    old: Mapping[str, float],
    new: dict[str, float],
    measure: Measure,
    *,
    threshold: float,
    retries: int,
) -> dict[str, float]:
    """Return the ratios above the threshold after suspects were measured again.

    `new` is updated with what is less.
    """
    for _ in range(retries):
        suspects = [name for name, r in compare(old, new).items() if r > threshold]
        if not suspects:
            break
        again = measure([*suspects, UNIT])
        new |= {name: min(new[name], again[name]) for name in again}
    return {name: r for name, r in compare(old, new).items() if r > threshold}


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def same_layers(before: dict[str, Any] | None, layers: Sequence[Layer]) -> dict[str, float]:
    """Return the earlier times of the layers that are still the same ones, and of the unit."""
    if before is None:
        return {}
    now = {layer.name: asdict(layer) for layer in layers}
    kept = [n for n in before["seconds"] if n == UNIT or before["layers"].get(n) == now.get(n)]
    return {n: before["seconds"][n] for n in kept}


def read_baseline(path: str) -> dict[str, Any]:
    """Return an earlier measurement; ValueError where the file is none."""
    content = json.loads(Path(path).read_text("utf-8"))
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ValueError(f"{path} is not a measurement of this tool")
    return content


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--layers", type=Path, default=LAYERS, help="a list like tools/bench_layers.json"
    )
    p.add_argument("--only", default="", help="layers whose name contains this")
    p.add_argument("--form", default="zero-insertion", help="as for irdeconv run")
    p.add_argument("--tune", action="store_true", help="measure kernels when compiling")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.1, help="per layer and round")
    p.add_argument("--baseline", metavar="FILE", help="compare with this measurement")
    p.add_argument("--threshold", type=float, default=1.10, help="slower by more is a regression")
    p.add_argument("--retries", type=int, default=3, help="how often suspects are measured again")
    p.add_argument("--other-machine", action="store_true", help="compare different processors")
    p.add_argument("-o", "--output", metavar="FILE", help="write the measurement here")
    return p.parse_args(argv)


def main(argv: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Measure, write, compare."""
    args = arguments(argv)
    conditions = Conditions.now()
    try:
        before = read_baseline(args.baseline) if args.baseline else None
        layers = read_layers(args.layers, args.only)
    except (OSError, ValueError, TypeError) as e:
        return _refuse(str(e))
    if not layers or args.rounds < 1:
        return _refuse("nothing to measure: no layers, or no rounds")
    old_cpu = before["conditions"]["cpu"] if before else conditions.cpu
    if old_cpu != conditions.cpu and not args.other_machine:
        return _refuse(f'the baseline is of "{old_cpu}", this is "{conditions.cpu}"')
    form = None if args.form == "none" else args.form
    calls = {layer.name: layer.call(form, args.tune) for layer in layers}
    calls[UNIT] = matrix_product()

    def measure(names: Sequence[str]) -> dict[str, float]:
        effort = Effort(rounds=args.rounds, time=args.rounds * args.seconds)
        with one_blas_thread():
            chosen = {n: calls[n] for n in names}
            return least(interleaved(chosen, effort, clock=clock or Clock()))

    times = measure(list(calls))
    old = same_layers(before, layers)
    slower = settle(old, times, measure, threshold=args.threshold, retries=args.retries)
    _show(times, compare(old, times), slower)
    if args.output:
        _write(args, conditions, layers, times)
    return 1 if slower else 0


def _write(
    args: argparse.Namespace, conditions: Conditions, layers: Sequence[Layer], times: Any
) -> None:
    document = {
        "schema": SCHEMA,
        "conditions": asdict(conditions),
        "form": args.form,
        "layers": {layer.name: asdict(layer) for layer in layers},
        "seconds": times,
    }
    Path(args.output).write_text(json.dumps(document, indent=1) + "\n")


def _refuse(message: str) -> int:
    print(f"bench_regression: {message}", file=sys.stderr)
    return 2


def _show(
    times: Mapping[str, float], ratios: Mapping[str, float], slower: Mapping[str, float]
) -> None:
    for name, seconds in times.items():
        ratio = f"  {ratios[name]:5.2f} of the baseline" if name in ratios else ""
        verdict = "  SLOWER" if name in slower else ""
        print(f"{name:<20} {seconds * 1e3:9.3f} ms{ratio}{verdict}")
    if ratios:
        mean = geometric_mean(list(ratios.values()))
        print(f"geometric mean {mean:.3f} of the baseline, {len(slower)} of {len(ratios)} slower")


if __name__ == "__main__":
    sys.exit(main())
