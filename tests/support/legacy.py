"""Small IRs of version 2 to 7, written by their grammar: an .xml and the bytes of a .bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

import irdeconv as ird

Shape = tuple[int, ...]


@dataclass
class Layer:
    """A layer: type, output shapes, names of what feeds it (NAME or NAME:PORT), data, blobs."""

    kind: str
    name: str
    outputs: Sequence[Shape]
    inputs: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, Any] = field(default_factory=dict)
    precision: str = "FP32"
    tag: str = "data"
    grouped: bool = True  # blobs inside <blobs>, as since version 3


def text(layers: Sequence[Layer], version: int = 5, extra: str = "") -> tuple[bytes, bytes]:
    """Return the `.xml` and the `.bin` of layers in any order."""
    ids = {layer.name: i for i, layer in enumerate(layers)}
    every = {layer.name: layer for layer in layers}
    weights, parts, edges = b"", [], []
    for layer in layers:
        blobs = ""
        for name, array in layer.blobs.items():
            data = np.asarray(array).tobytes()
            blobs += f'<{name} offset="{len(weights)}" size="{len(data)}"/>'
            weights += data
        sources = [
            (every[s.partition(":")[0]], int(s.partition(":")[2] or 0)) for s in layer.inputs
        ]
        parts.append(_layer(layer, ids[layer.name], [n.outputs[p] for n, p in sources], blobs))
        for port, (source, number) in enumerate(sources):
            start = f'from-layer="{ids[source.name]}" from-port="{len(source.inputs) + number}"'
            end = f'to-layer="{ids[layer.name]}" to-port="{port}"'
            edges.append(f"<edge {start} {end}/>")
    begin = f'<?xml version="1.0"?>\n<net batch="1" name="old" version="{version}">\n<layers>\n'
    middle, end = "\n</layers>\n<edges>\n", f"\n</edges>\n{extra}</net>\n"
    net = begin + "\n".join(parts) + middle + "\n".join(edges) + end
    return net.encode(), weights


def _layer(layer: Layer, number: int, inputs: Sequence[Shape], blobs: str) -> str:
    ports = {
        "input": [_port(i, s) for i, s in enumerate(inputs)],
        "output": [_port(len(inputs) + i, s) for i, s in enumerate(layer.outputs)],
    }
    attributes = "".join(f" {k}={quoteattr(str(v))}" for k, v in layer.data.items())
    return (
        f'<layer id="{number}" name="{layer.name}" precision="{layer.precision}" '
        f'type="{layer.kind}">'
        + (f"<{layer.tag}{attributes}/>" if layer.data else "")
        + "".join(f"<{side}>{''.join(p)}</{side}>" for side, p in ports.items() if p)
        + (f"<blobs>{blobs}</blobs>" if layer.grouped and blobs else blobs)
        + "</layer>"
    )


def _port(number: int, shape: Shape) -> str:
    return f'<port id="{number}">' + "".join(f"<dim>{d}</dim>" for d in shape) + "</port>"


@dataclass
class Case:
    """One layer, what it is fed with, and what comes out.

    `inputs` are arrays, those named in `fixed` Const layers; `want` are its outputs.
    """

    name: str
    kind: str
    inputs: Sequence[Any]
    want: Sequence[Any]
    data: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, Any] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()
    version: int = 5
    tag: str = "data"
    grouped: bool = True
    precision: str = "FP32"

    def __str__(self) -> str:
        return self.name

    def feeds(self) -> dict[str, Any]:
        """Return the arrays of the inputs by name."""
        return {
            f"in{i}": np.asarray(a, np.float32)
            for i, a in enumerate(self.inputs)
            if i not in self.fixed
        }

    def files(self) -> tuple[bytes, bytes]:
        """Return the XML and the weights of a model of the layer alone."""
        layers = []
        for i, given in enumerate(self.inputs):
            array = np.asarray(given)
            if i in self.fixed:
                kind = {"i": "I32", "f": "FP32"}[array.dtype.kind]
                blob = array.astype({"I32": np.int32, "FP32": np.float32}[kind])
                layers.append(
                    Layer("Const", f"in{i}", [array.shape], blobs={"custom": blob}, precision=kind)
                )
            else:
                layers.append(Layer("Input", f"in{i}", [array.shape]))
        shapes, names = [np.shape(w) for w in self.want], [f"in{i}" for i in range(len(layers))]
        how = self.data, self.blobs, self.precision, self.tag, self.grouped
        return text([*layers, Layer(self.kind, "y", shapes, names, *how)], self.version)

    def graph(self) -> ird.Graph:
        return ird.read(*self.files())


def f(*values: float) -> Any:
    return np.array(values, np.float32)


def row(*values: float) -> Any:
    """Return an image of one channel and one line."""
    return f(*values).reshape(1, 1, 1, -1)


def channels(*values: float) -> Any:
    """Return an image of one place."""
    return f(*values).reshape(1, -1, 1, 1)
