"""Time deconvolution layers of public networks with pyperf, and compare two measurements.

    python tools/bench_regression.py -o before.json
    python tools/bench_regression.py -o after.json
    python -m pyperf compare_to before.json after.json --table

`--help` lists pyperf's options. Times are processor times of one thread in several processes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.kernels.blas import one_blas_thread
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from support.layers import sequential

LAYERS = Path(__file__).resolve().parent / "bench_layers.json"


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

    def call(self) -> Callable[[], Any]:
        """Return a call of the lowered layer on one thread."""
        plan = ird.compile(self.graph(), "zero-insertion", threads=1)
        x = np.random.default_rng(1).standard_normal(self.input, np.float32)
        return lambda: plan.run([x])


def read_layers(path: Path, only: str = "") -> list[Layer]:
    """Return the layers of a file whose names contain `only`."""
    return [Layer(**row) for row in json.loads(path.read_text("utf-8")) if only in row["name"]]


def measured(layer: Layer, loops: int) -> float:
    """Return the seconds of processor time that some runs of a layer take."""
    call = layer.call()
    call()
    with one_blas_thread():
        start = time.process_time()
        for _ in range(loops):
            call()
        return time.process_time() - start


def main() -> None:
    """Measure every layer of the list."""
    import pyperf  # type: ignore[import-untyped, unused-ignore]  # tests do without it

    runner = pyperf.Runner(processes=3)  # each imports and compiles for seconds
    for layer in read_layers(LAYERS):
        runner.bench_time_func(layer.name, partial(measured, layer))


if __name__ == "__main__":
    main()
