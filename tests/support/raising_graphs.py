"""Graphs that decompose a deconvolution as models and other converters do, for tests of raising."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.convolution import Convolution, GroupConvolution
from support.layers import constant, parameter, result

Ints = tuple[int, ...]
TAKEN = "Convolution GroupConvolution DepthToSpace Interpolate ZeroInsertion Concat".split()


@dataclass
class Net:
    """A graph that grows node by node; constants are made from arrays and lists."""

    seed: Any = 0
    graph: Graph = field(default_factory=Graph)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def numbers(self, *shape: int) -> Any:
        """Random integers, never zero, as f32."""
        return numbers(self.rng, *shape)

    def const(self, value: Any) -> Value:
        """Add a constant: integers are i64, others keep their type."""
        return constant(self.graph, np.asarray(value), f"c{len(self.graph)}")

    def op(self, kind: str, version: str, *inputs: Any, name: str = "", **attributes: Any) -> Value:
        """Add an operation by type and version."""
        values = [v if isinstance(v, Value) else self.const(v) for v in inputs]
        made: Any = REGISTRY[kind, version](**attributes)
        return Value(self.graph.add(made, values, name=name or f"{kind}{len(self.graph)}").id)

    def convolution(self, x: Value, w: Any, pads: Any = None, **more: Any) -> Value:
        """Add a convolution of stride 1; a filter of one more axis makes it a grouped one."""
        axes = (self.graph.spec(x).rank or 0) - 2 if self.graph.node(x.node).specs else None
        rank = np.asarray(w).ndim
        axes = more.pop("axes", axes or rank - 2)
        begin, end = pads or ((0,) * axes, (0,) * axes)
        cls = GroupConvolution if rank == axes + 3 else Convolution
        op = cls(
            more.pop("strides", (1,) * axes),
            tuple(begin),
            tuple(end),
            more.pop("dilations", (1,) * axes),
            more.pop("auto_pad", "explicit"),
        )
        values = [x, w if isinstance(w, Value) else self.const(w)]
        return Value(self.graph.add(op, values, name=more.pop("name", "conv")).id)


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    """Random integers, never zero, as f32."""
    return (rng.integers(1, 10, shape) * rng.choice([-1, 1], shape)).astype(np.float32)


def source(net: Net, shape: Ints, *, open_sizes: bool = False, name: str = "x") -> Value:
    """Add an input; with `open_sizes` all but the channels are dynamic."""
    dims = [None if open_sizes and a != 1 else d for a, d in enumerate(shape)]
    return parameter(net.graph, dims, np.float32, name)


def resize(net: Net, x: Value, factors: Any, **more: Any) -> Value:
    """Add a nearest enlargement of the spatial axes by scales."""
    given = {
        "mode": "nearest",
        "shape_calculation_mode": "scales",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    axes = np.arange(2, 2 + len(factors))
    scales = np.array(factors, np.float32)
    return net.op("Interpolate", "opset11", x, scales, axes, **given | more)


def spelled(net: Net, x: Value, way: str, shape: Ints, strides: Ints) -> Value:
    """Insert zeros in one of the ways in which converters spell it; S-1 zeros stay at the end.

    `shape` is the data's exact shape, as constant targets of Reshape need it.
    """
    axes = len(strides)
    behind = np.arange(3, 3 + 2 * axes, 2)
    wide = [v for n in shape[2:] for v in (n, 1)]
    grown = np.array([*shape[:2], *(n * s for n, s in zip(shape[2:], strides, strict=True))])
    if way == "zero-insertion":
        return net.op("ZeroInsertion", "irdeconv_1", x, strides=strides)
    if way == "unsqueeze-pad":
        x = net.op("Unsqueeze", "opset1", x, behind)
    else:
        x = net.op("Reshape", "opset1", x, np.array([*shape[:2], *wide]))
    if way == "concat":
        for a, s in enumerate(strides):
            zeros = [*shape[:2], *wide]
            zeros[: 2 + 2 * a : 1] = [*shape[:2]] + [
                v for n, t in zip(shape[2 : 2 + a], strides, strict=False) for v in (n, t)
            ]
            zeros[3 + 2 * a] = s - 1
            if s > 1:
                x = net.op("Concat", "opset1", x, np.zeros(zeros, np.float32), axis=3 + 2 * a)
        return net.op("Reshape", "opset1", x, grown)
    end = np.zeros(2 + 2 * axes, np.int64)
    end[behind] = [s - 1 for s in strides]
    x = net.op("Pad", "opset1", x, np.zeros_like(end), end, np.float32(0), pad_mode="constant")
    return net.op("Reshape", "opset1", x, grown)


WAYS = ("zero-insertion", "reshape-pad", "unsqueeze-pad", "concat")


def left(graph: Graph) -> list[str]:
    """Return the types in a graph that only decompositions have."""
    return [n.type for n in graph.nodes() if n.type in TAKEN]


def raised_types(graph: Graph) -> list[str]:
    """Return the deconvolutions of a graph by type."""
    return [n.type for n in graph.nodes() if n.type.endswith("BackpropData")]


def agrees(net: Net, raised: Graph, *feeds: Any, output: str = "y") -> bool:
    """Whether a graph and the raised one compute the same bits."""
    a = ird.run(net.graph, list(feeds), form=None)
    b = ird.run(raised, list(feeds), form=None)
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def end(net: Net, value: Value, name: str = "y") -> Graph:
    """Add an output and return the graph."""
    result(net.graph, value, name)
    return net.graph


def raised_whole(net: Net, pattern: str, *sizes: Ints) -> ird.Raised:
    """Raise the only decomposition of a graph; compare for inputs of `sizes`, and prove it."""
    raised = ird.raise_(net.graph)
    assert [r.pattern for r in raised.report] == [pattern], str(raised.report)
    assert left(raised.graph) == []
    assert all(agrees(net, raised.graph, net.numbers(*size)) for size in sizes)
    certified(net.graph, raised.graph)
    return raised


def certified(source: Graph, raised: Graph) -> None:
    """The raised graph's layers are proved equal to what they replace, and probed."""
    report = ird.check_certificate(raised, ird.infer(source))
    assert report.passed, str(report)
    assert report.layers
    probed = ird.check_certificate(raised, ird.infer(source), probe=True)
    assert probed.passed, str(probed)
