"""Measure how many layers a second reading, inferring, lowering, writing and proving take.

    python tools/measure_scale.py                                2,000 and 20,000 layers
    python tools/measure_scale.py --sizes 200000 --kinds mixed
    python tools/measure_scale.py --kinds many --verbs lower --profile

Processor time of one process, the least of --repeat calls. The models are generated, constants
count as layers: `chain` has ReLU and Add in turn, `mixed` Convolution, Add, ReLU and a
deconvolution every 50 layers, `many` nothing but deconvolutions, `wide` Split, ReLU and Concat,
`bodies` If with branches of 10 layers. `validate` reads as well; every other verb begins with what
the one before it returned. `lower`, `write` and `prove` count the layers of the model before it
was lowered. With --profile the calls that take most are listed instead.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import checkout  # noqa: F401
import numpy as np

import irdeconv as ird
from irdeconv.base.tables import table

SIZES = (2_000, 20_000)
VERBS = ("read", "validate", "infer", "lower", "write", "prove")
CHANNELS = 4
LIMITS = ird.Limits(lowered_total=10**7, layers=10**7)
BRANCH = 10  # layers of a body
Shape = tuple[int, ...]
Fed = tuple[int, int, Shape]  # an input: layer, its port, shape

X: Shape = (1, CHANNELS, 8, 8)
PART: Shape = (1, 1, 8, 8)
BIAS: Shape = (1, CHANNELS, 1, 1)
FILTER: Shape = (CHANNELS, CHANNELS, 3, 3)
WINDOW = 'strides="1,1" dilations="1,1" pads_begin="1,1" pads_end="1,1" auto_pad="explicit"'
SCALAR_PORT = '<output><port id="0" precision="{}"/></output>'


@dataclass
class Model:
    """The XML of a model or body while layers are added; bodies share the weights."""

    blob: bytearray = field(default_factory=bytearray)
    layers: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def add(self, kind: str, inside: str, inputs: Sequence[Fed] = (), version: int = 1) -> int:
        """Add a layer with what it contains; returns its id."""
        number = len(self.layers)
        head = f'id="{number}" name="{kind}_{number}" type="{kind}" version="opset{version}"'
        self.layers.append(f"<layer {head}>{inside}</layer>\n")
        self.edges += [
            f'<edge from-layer="{a}" from-port="{b}" to-layer="{number}" to-port="{port}"/>\n'
            for port, (a, b, _) in enumerate(inputs)
        ]
        return number

    def layer(
        self,
        kind: str,
        inputs: Sequence[Fed],
        outputs: Sequence[Shape] = (X,),
        data: str = "",
        rest: str = "",
        version: int = 1,
    ) -> Fed:
        """Add a layer with f32 ports, all but the last output; returns its first output."""
        inside = f"<data {data}/>" if data else ""
        ports = "".join(_port(i, shape) for i, (_, _, shape) in enumerate(inputs))
        inside += f"<input>{ports}</input>" if ports else ""
        ports = "".join(_port(len(inputs) + i, shape) for i, shape in enumerate(outputs))
        inside += f"<output>{ports}</output>" if ports else ""
        number = self.add(kind, inside + rest, inputs, version)
        return number, len(inputs), outputs[0] if outputs else ()

    def parameter(self) -> Fed:
        """Add an input of the shape X."""
        return self.layer("Parameter", (), (X,), f'shape="{_text(X)}" element_type="f32"')

    def const(self, shape: Shape) -> Fed:
        """Add a constant with values that few others have."""
        start = len(self.blob)
        values = np.arange(np.prod(shape, dtype=int), dtype=np.float32) + start
        self.blob += values.tobytes()
        place = f'offset="{start}" size="{values.nbytes}"'
        data = f'element_type="f32" shape="{_text(shape)}" {place}'
        return self.layer("Const", (), (shape,), data)

    def text(self) -> str:
        """Return the sections."""
        return f"<layers>{''.join(self.layers)}</layers>\n<edges>{''.join(self.edges)}</edges>\n"


def _text(shape: Shape) -> str:
    return ",".join(map(str, shape))


def _port(number: int, shape: Shape) -> str:
    dims = "".join(f"<dim>{d}</dim>" for d in shape)
    return f'<port id="{number}" precision="FP32">{dims}</port>'


def add(m: Model, y: Fed) -> Fed:
    return m.layer("Add", (y, m.const(BIAS)), data='auto_broadcast="numpy"')


def relu(m: Model, y: Fed) -> Fed:
    return m.layer("ReLU", (y,))


def deconvolution(m: Model, y: Fed) -> Fed:
    data = WINDOW + ' output_padding="0,0"'
    return m.layer("ConvolutionBackpropData", (y, m.const(FILTER)), data=data)


def chain(m: Model, layers: int) -> Fed:
    y = m.parameter()
    while len(m.layers) < layers:
        y = add(m, relu(m, y))
    return y


def mixed(m: Model, layers: int) -> Fed:
    y = m.parameter()
    while len(m.layers) < layers:
        for _ in range(9):
            y = m.layer("Convolution", (y, m.const(FILTER)), data=WINDOW)
            y = relu(m, add(m, y))
        y = add(m, deconvolution(m, y))
    return y


def many(m: Model, layers: int) -> Fed:
    y = m.parameter()
    while len(m.layers) < layers:
        y = deconvolution(m, y)
    return y


def wide(m: Model, layers: int) -> Fed:
    y = m.parameter()
    start = len(m.blob)
    m.blob += np.int64(1).tobytes()
    data = f'<data element_type="i64" shape="" offset="{start}" size="8"/>'
    axis = (m.add("Const", data + SCALAR_PORT.format("I64")), 0, ())
    while len(m.layers) < layers:
        ports = _port(0, X) + '<port id="1" precision="I64"/>'
        ends = "".join(_port(2 + i, PART) for i in range(CHANNELS))
        inside = f'<data num_splits="{CHANNELS}"/><input>{ports}</input><output>{ends}</output>'
        split = m.add("Split", inside, (y, axis))
        parts = [m.layer("ReLU", [(split, 2 + i, PART)], (PART,)) for i in range(CHANNELS)]
        y = m.layer("Concat", parts, data='axis="1"')
    return y


def bodies(m: Model, layers: int) -> Fed:
    y = m.parameter()
    data = '<data shape="" element_type="boolean"/>'
    condition = m.add("Parameter", data + SCALAR_PORT.format("BOOL"))
    maps = (
        '<{0}_port_map><input external_port_id="1" internal_layer_id="0"/><output '
        'external_port_id="2" internal_layer_id="{1}"/></{0}_port_map><{0}_body>{2}</{0}_body>'
    )
    for _ in range(layers // (2 * BRANCH)):
        inside = '<input><port id="0" precision="BOOL"/>' + _port(1, X) + "</input>"
        inside += f"<output>{_port(2, X)}</output>"
        for name in ("then", "else"):
            body = Model(m.blob)
            body.layer("Result", (chain(body, BRANCH),), ())
            inside += maps.format(name, len(body.layers) - 1, body.text())
        y = (m.add("If", inside, ((condition, 0, ()), y), 8), 2, X)
    return y


KINDS: dict[str, Callable[[Model, int], Fed]] = {
    f.__name__: f for f in (chain, mixed, many, wide, bodies)
}


def generate(kind: str, layers: int, folder: Path) -> Path:
    """Write a model of a kind with so many layers and a few more; returns its `.xml`."""
    m = Model()
    m.layer("Result", (KINDS[kind](m, layers),), ())
    path = folder / f"{kind}_{layers}.xml"
    path.write_text(f'<?xml version="1.0"?>\n<net name="{kind}" version="11">\n{m.text()}</net>\n')
    path.with_suffix(".bin").write_bytes(m.blob)
    return path


def calls(path: Path) -> dict[str, Callable[[], object]]:
    """Return what does each verb once, on what the verb before it returned."""
    inferred = ird.infer(path)
    lowered = ird.lower(inferred).graph
    out = path.with_name("out.xml")
    return {
        "read": lambda: ird.read(path),
        "validate": lambda: ird.validate(path),
        "infer": lambda: ird.infer(inferred),
        "lower": lambda: ird.lower(inferred),
        "write": lambda: ird.write(lowered, out),
        "prove": lambda: ird.certify(inferred, lowered),
    }


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the least processor time of some calls."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def show_profile(call: Callable[[], object]) -> None:
    """Print which functions a call spends its time in."""
    profile = cProfile.Profile()
    profile.runcall(call)
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(40)


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args(args)
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder, LIMITS.applied():
        for kind in given.kinds:
            for size in given.sizes:
                path = generate(kind, size, Path(folder))
                known = calls(path)
                if given.profile:
                    for verb in given.verbs:
                        show_profile(known[verb])
                    continue
                rates = [size / seconds(known[verb], given.repeat) for verb in given.verbs]
                rows.append((kind, f"{size:,}", *(f"{rate:,.0f}" for rate in rates)))
    if rows:
        print("layers a second")
        print(table(("kind", "layers", *given.verbs), rows, right=VERBS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
