"""Little IRs layer by layer, with any attribute, port and version: also such as nobody writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from support import irbuild as ib
from support.ir_edit import NUMPY

End = tuple[int, int]  # a layer and its output


class TextGraph:
    """Layers in order; `x` is the input."""

    def __init__(self, shape: tuple[int, ...], type: str = "f32") -> None:
        self.type, self.blob = type, b"\0" * 8  # OpenVINO reads no empty file
        self.layers = [ib.parameter(0, "x", shape, type, names="x")]
        self.edges: list[tuple[int, int, int, int]] = []
        self.counts = [0]  # of inputs
        self.x: End = (0, 0)

    def const(self, value: Any, type: str = "i64") -> End:
        """Add a constant."""
        a, at = np.asarray(value, NUMPY[type]), len(self.layers)
        self.layers.append(ib.const(at, f"c{at}", a.shape, len(self.blob), a.nbytes, type))
        self.counts.append(0)
        self.blob += a.tobytes()
        return at, 0

    def real(self, value: Any) -> End:
        """Add a constant of the data's type."""
        return self.const(value, self.type)

    def add(self, head: str, *inputs: End, outputs: int = 1, **said: Any) -> End:
        """Add a layer, "Type-opset"; an opset that is no number is the whole version."""
        at, (kind, _, opset) = len(self.layers), head.partition("-")
        count, precision = len(inputs), ib.PRECISIONS[self.type]
        ports = [ib.port(i, (), precision) for i in range(count + outputs)]
        data = " ".join(f'{k}="{v}"' for k, v in said.items()) or None
        sides = {"inputs": ports[:count], "outputs": ports[count:]}
        version = f"opset{opset}" if opset.isdigit() else opset
        self.layers.append(ib.layer(at, f"{kind}{at}", kind, data, version=version, **sides))
        for i, (source, port) in enumerate(inputs):
            self.edges.append((source, self.counts[source] + port, at, i))
        self.counts.append(count)
        return at, 0

    def write(self, path: Path, output: End) -> None:
        """Write both files."""
        self.add("Result-1", output, outputs=0)
        path.write_text(ib.net(self.layers, *self.edges), encoding="utf-8")
        path.with_suffix(".bin").write_bytes(self.blob)
