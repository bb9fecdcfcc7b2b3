"""What unsound pairs are made of: small models by OpenVINO's own API, and the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

from support.ir_edit import Ir

Node = Any
Shapes = tuple[tuple[int, ...], ...]
DATA, OPEN = (1, 2, 5, 5), "1,2,?,?"
ROWS = (4, 3)  # of what stands beside the deconvolution
# [C, M, 3, 3] of a deconvolution: distinct integers without zeros.
WEIGHTS = (np.arange(1, 73) * np.tile([1, -1, 1], 24)).reshape(2, 4, 3, 3).astype(np.float32)


@dataclass(frozen=True)
class Pair:
    """Two models that differ: `write(folder)` makes original.xml and lowered.xml.

    `feeds` are shapes of the inputs at which the values differ (empty: the interface does, or the
    runtime refuses the second file). `whole` has further inputs' values by index.
    """

    name: str
    cause: str
    write: Callable[[Path], None]
    shapes: Shapes = ()
    values: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def feeds(self, rng: np.random.Generator, types: Sequence[Any]) -> list[Any]:
        """Integers of the types of the inputs at the telling shapes."""
        given = dict(self.values)
        return [
            np.array(given[i], t) if i in given else rng.integers(1, 6, s).astype(t)
            for i, (s, t) in enumerate(zip(self.shapes, types, strict=True))
        ]


PAIRS: list[Pair] = []


def pair(
    cause: str, name: str, write: Callable[[Path], None], *shapes: tuple[int, ...], values: Any = ()
) -> None:
    """Add a pair to the registry."""
    assert all((p.cause, p.name) != (cause, name) for p in PAIRS), name
    PAIRS.append(Pair(name, cause, write, shapes, values))


def twins(
    cause: str,
    name: str,
    make: Callable[[bool], ov.Model],
    *shapes: tuple[int, ...],
    edit: Callable[[Ir], None] | None = None,
    values: Any = (),
) -> None:
    """Add a pair of `make(False)`, the original, and `make(True)`, whose file `edit` changes."""

    def write(folder: Path) -> None:
        for lowered in (False, True):
            path = folder / ("lowered.xml" if lowered else "original.xml")
            save(make(lowered), path)
            if lowered and edit is not None:
                ir = Ir.read(path)
                edit(ir)
                ir.write(path)

    pair(cause, name, write, *shapes, values=values)


def save(model: ov.Model, path: Path) -> None:
    """Write a model; layers that have no name get the same ones in both models of a pair."""
    region = _above(next(op for op in model.get_ops() if op.get_friendly_name() == "deconv"))
    _name(model, {op.get_name() for op in region})
    ov.serialize(model, path)


def _above(node: Node) -> list[Node]:
    """A node and all that it is computed from."""
    found, todo = {}, [node]
    while todo:
        at = todo.pop()
        if at.get_name() not in found:
            found[at.get_name()] = at
            todo += [at.input_value(i).get_node() for i in range(at.get_input_size())]
    return list(found.values())


def _name(model: ov.Model, region: set[str]) -> None:
    count: dict[str, int] = {}
    for node in model.get_ordered_ops():
        type_name = node.get_type_name()
        if node.get_friendly_name() == node.get_name():
            place = "deconv" if node.get_name() in region else type_name
            count[place] = count.get(place, 0) + 1
            node.set_friendly_name(f"{place}/{count[place]}")
        if type_name in ("Loop", "TensorIterator"):
            _name(node.get_function(), set())
        if type_name == "If":
            for i in (0, 1):
                _name(node.get_function(i), set())


def parameter(name: str, shape: Any, type: Any = np.float32) -> Node:
    """An input; `shape` may be a text such as "1,2,?,3..9"."""
    if isinstance(shape, str):
        shape = ov.PartialShape(f"[{shape}]")
    node = op.parameter(shape, type)
    node.set_friendly_name(name)
    node.output(0).get_tensor().set_names({name})
    return node


def vector(*values: int, type: Any = np.int64) -> Node:
    return op.constant(np.array(values, type))


def named(node: Node, name: str) -> Node:
    node.set_friendly_name(name)
    return node


def model(outputs: dict[str, Node], inputs: Sequence[Node], sinks: Sequence[Node] = ()) -> ov.Model:
    """A model whose outputs have these tensor names, in this order."""
    results = []
    for name, node in outputs.items():
        end = node if isinstance(node, ov.Output) else node.output(0)
        end.get_tensor().set_names({name})
        results.append(named(op.result(end), f"{name}/sink"))
    return ov.Model(results, list(sinks), list(inputs), "m")


def deconv(x: Node, w: Any = WEIGHTS, stride: int = 1, **more: Any) -> Node:
    """ConvolutionBackpropData without pads, the layer `deconv`."""
    zeros = [0] * (w.ndim - 2)
    pads = {"pads_begin": zeros, "pads_end": zeros, "dilations": [1] * len(zeros), **more}
    made = op.convolution_backprop_data(x, op.constant(w), strides=[stride] * len(zeros), **pads)
    return named(made, "deconv")


def group_deconv(x: Node, w: Any) -> Node:
    """GroupConvolutionBackpropData of stride 1 without pads on two axes."""
    return op.group_convolution_backprop_data(
        x, op.constant(w), strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1]
    )


def turned(w: Any) -> Any:
    """The filter of the convolution that a deconvolution is: [M, C, *K], flipped."""
    return np.ascontiguousarray(np.flip(w, tuple(range(2, w.ndim))).swapaxes(0, 1))


def conv(x: Node, w: Any = WEIGHTS, pad: int | None = None) -> Node:
    """What `deconv` of stride 1 is: a convolution with pads of K - 1."""
    axes = w.ndim - 2
    pads = [w.shape[2] - 1 if pad is None else pad] * axes
    filter = w if not isinstance(w, np.ndarray) else op.constant(turned(w))
    return op.convolution(x, filter, [1] * axes, pads, pads, [1] * axes)


def spread(x: Node, before: int = 0, value: float = 0.0, mode: str = "constant") -> Node:
    """Data [1, 2, 5, 5] with a zero behind each element: [1, 2, 10, 10]."""
    y = op.unsqueeze(x, vector(3, 5))
    at = [0, 0, 0, before, 0, before]
    after = [0, 0, 0, 1 - before, 0, 1 - before]
    y = op.pad(y, vector(*at), vector(*after), mode, op.constant(np.float32(value)))
    return named(op.reshape(y, vector(1, 2, 10, 10), False), "spread")


def strided(x: Node, spread_x: Node | None = None, w: Any = WEIGHTS) -> Node:
    """What `deconv` of stride 2 is on data [1, 2, 5, 5]; `spread_x` has the zeros between."""
    y = spread(x) if spread_x is None else spread_x
    y = op.pad(y, vector(0, 0, 2, 2), vector(0, 0, 1, 1), "constant", op.constant(np.float32(0)))
    return named(conv(y, w, pad=0), "deconv")


def size(x: Node, axis: int, type: str = "i64") -> Node:
    """One size of a value: [1]."""
    return op.gather(op.shape_of(x, type), vector(axis), op.constant(np.int64(0)))


def concat(*nodes: Node) -> Node:
    return op.concat(list(nodes), 0)


def beside(
    cause: str,
    name: str,
    other: Callable[[bool, Node], Node],
    edit: Callable[[Ir], None] | None = None,
    shape: tuple[int, ...] = ROWS,
    type: Any = np.float32,
) -> None:
    """Add a pair that lowers its deconvolution rightly, beside `other(low, s)`, which differs."""

    def make(low: bool) -> ov.Model:
        x, s = parameter("x", DATA), parameter("s", shape, type)
        y = named(conv(x), "deconv") if low else deconv(x)
        return model({"y": y, "t": other(low, s)}, [x, s])

    twins(cause, name, make, DATA, shape, edit=edit)


def floats(*values: float) -> Node:
    return op.constant(np.array(values, np.float32))
