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
from functools import partial
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.kernels.machine import one_blas_thread
from support.layers import Layer, sequential

LAYERS = Path(__file__).resolve().parent / "bench_layers.json"


def layer_of(row: dict[str, Any]) -> Layer:
    """Return a deconvolution of a file: `input` is [N, C, *I]; lists have one value per axis of I.

    Without pads, output_padding, dilations and groups there are none.
    """
    (batch, channels, *size), kernel, groups = row["input"], row["kernel"], row.get("groups")
    zeros, ones = [0] * len(kernel), [1] * len(kernel)
    pads, more = row.get("pads", zeros), row.get("output_padding", zeros)
    lists = kernel, row["strides"], row.get("dilations", ones), pads, pads, more
    c, m = (n // (groups or 1) for n in (channels, row["outputs"]))
    return Layer(batch, tuple(size), groups, c, m, *map(tuple, lists))


def graph_of(layer: Layer) -> Graph:
    """Return the layer as a graph with a constant filter."""
    w = np.random.default_rng(0).standard_normal(layer.filter_shape, np.float32)
    return ird.infer(sequential(layer.data_shape, ("deconv", layer.op, {"w": w})))


def call_of(layer: Layer) -> Callable[[], Any]:
    """Return a call of the lowered layer on one thread."""
    plan = ird.compile(graph_of(layer), "zero-insertion", threads=1)
    x = np.random.default_rng(1).standard_normal(layer.data_shape, np.float32)
    return lambda: plan.run([x])


def read_layers(path: Path) -> dict[str, Layer]:
    """Return the layers of a file by their names."""
    return {row["name"]: layer_of(row) for row in json.loads(path.read_text("utf-8"))}


def measured(layer: Layer, loops: int) -> float:
    """Return the seconds of processor time that some runs of a layer take."""
    call = call_of(layer)
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
    for name, layer in read_layers(LAYERS).items():
        runner.bench_time_func(name, partial(measured, layer))


if __name__ == "__main__":
    main()
