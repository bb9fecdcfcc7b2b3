"""Small IRs of version 2 to 7, written by their grammar: an .xml and the bytes of a .bin."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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


# The layers of legacy_cases.txt, with what they are fed and what comes out.


TYPES = {"int": np.int64, "int32": np.int32}


def number(text: str) -> float:
    """Return 3, -0.5, 1/3, log(3/4): any function of math."""
    if made := re.fullmatch(r"(-?)(\w+)\((.*)\)", text):
        value: float = getattr(math, made[2])(number(made[3]))
        return -value if made[1] else value
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


def array(text: str) -> Any:
    words = text.removeprefix("const ").split()
    dtype = TYPES[words.pop(0)] if words and words[0] in TYPES else np.float32
    head = words.pop(0) if words and re.match(r"row|channels|scalar|.*:$", words[0]) else ""
    if words and words[-1].endswith("*"):
        values = np.array(number(words[0][:-1]))
    elif words and ".." in words[-1]:
        first, last = map(number, words[0].split(".."))
        values = np.arange(first, last + 1)
    else:
        values = np.array([number(w) for w in words])
    shapes = {"": (-1,), "row": (1, 1, 1, -1), "channels": (1, -1, 1, 1), "scalar": ()}
    shape = shapes[head] if head in shapes else tuple(map(int, head[:-1].split("x")))
    if not values.ndim:
        return np.full(tuple(map(abs, shape)), values, dtype)
    return values.astype(dtype).reshape(shape)


def case(name: str, layer: str, arrays: str) -> Case:
    blobs = {k: array(text) for k, text in re.findall(r" (\w+)\[([^]]*)\]", layer)}
    kind, *words = re.sub(r" \w+\[[^]]*\]", "", layer).split()
    said = dict(w.split("=", 1) for w in words)
    more: dict[str, Any] = {k[1:]: said.pop(k) for k in list(said) if k.startswith("@")}
    if "version" in more:
        more["version"] = int(more["version"])
    if "grouped" in more:
        more["grouped"] = more["grouped"] == "True"
    inputs, outputs = (side.split(" ; ") for side in arrays.split(" -> "))
    fixed = tuple(i for i, text in enumerate(inputs) if text.startswith("const "))
    return Case(
        name, kind, [*map(array, inputs)], [*map(array, outputs)], said, blobs, fixed, **more
    )


LINES = Path(__file__).with_name("legacy_cases.txt").read_text("utf-8").splitlines()
ROWS = [line.strip() for line in LINES if not line.startswith("#")]
CASES = [case(*ROWS[i : i + 3]) for i in range(0, len(ROWS), 3)]
