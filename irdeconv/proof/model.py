"""What the proof knows of a model: layers in order, with attributes as the file spells them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Ints = tuple[int, ...]
Interval = tuple[int, int | None]  # the sizes low..high; None: no upper limit
Shape = tuple[int | Interval, ...]


class Unproved(Exception):
    """The equality of two values does not follow; the text says where the proof stops."""


def need(holds: Any, text: str) -> None:
    """Raise Unproved with a text unless something holds."""
    if not holds:
        raise Unproved(text)


class Port(NamedTuple):
    """Output `port` (counted from 0) of layer `layer` (its place in the model)."""

    layer: int
    port: int = 0


class TypedArray(NamedTuple):
    """Elements with the type that the file gives them: "f32", "i64", "boolean", "bf16", ...

    Types that NumPy lacks are held in wider ones (bf16 and f8 in float32, u4 in uint8).
    """

    array: Array
    type: str


class Fact(NamedTuple):
    """Element type and shape of a value; None: not known."""

    type: str | None
    shape: Shape | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.type}[...]"
        sizes = [
            str(n) if isinstance(n, int) else f"{n[0]}..{'' if n[1] is None else n[1]}"
            for n in self.shape
        ]
        return f"{self.type}[{','.join(sizes)}]"


@dataclass(frozen=True)
class Layer:
    """One layer.

    `attributes` are those of <data>, `inputs` the sources in the order of the input ports,
    `outputs` what the file declares of its outputs (never believed inside a rewritten region),
    `names` the tensor names of each output. `elements` are a constant's. `rest` is the canonical
    text of whatever else the layer has (port maps, ...), never empty where it has bodies. `bodies`
    are those of loops and branches, by their tags: what they compute is no part of `rest`.
    """

    name: str
    type: str
    version: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Fact, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    elements: TypedArray | None = None
    rest: str = ""
    bodies: tuple[tuple[str, Model], ...] = ()

    def __str__(self) -> str:
        return f'{self.type} "{self.name}"'


@dataclass(frozen=True)
class Model:
    """Layers, each behind those that it reads; inputs and results as places in the file's order.

    `rest` is the canonical text of whatever else the file says that could matter. `files` has the
    SHA-256 and size of the bytes that were read, of "xml" and "bin".
    """

    layers: tuple[Layer, ...]
    parameters: Ints
    results: Ints
    rest: str = ""
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict, compare=False)

    def of(self, port: Port) -> Layer:
        """Return the layer that computes a value."""
        return self.layers[port.layer]


@dataclass(frozen=True)
class Obligation:
    """To show: value `output` of `lowered` equals value `wanted` of `source`.

    `twins` maps values of `lowered` to values of `source` that they are known to equal; whatever a
    region reads from outside is one of them. `fact` tells type and shape of values of `source`.
    """

    source: Model
    lowered: Model
    wanted: Port
    output: Port
    twins: Mapping[Port, Port]
    fact: Callable[[Port], Fact]


@dataclass(frozen=True)
class Proof:
    """An obligation that was met.

    `form` names the kind of rewriting; `every` says that it holds for every size that `fact`
    allows, `sizes` says for which in words; `maps` has the index maps, one line each. `rounding` is
    the largest relative difference of a weight (0.0: all are equal). `assumed` lists what was taken
    for granted.
    """

    form: str
    sizes: str
    every: bool
    maps: tuple[str, ...] = ()
    rounding: float = 0.0
    assumed: tuple[str, ...] = ()
