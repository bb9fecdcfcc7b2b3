"""Which sizes a proof has to walk, and for which ones it then holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from irdeconv.graph import Graph, Node, Value
from irdeconv.spec import Interval, Spec, bounds, is_static
from irdeconv.verify.proof.attributes import Ints, attributes_of
from irdeconv.verify.proof.definition import Unproved
from irdeconv.verify.proof.evaluator import FIRST_VECTOR, Constants
from irdeconv.verify.proof.layer import LayerPlace, SourceLayer, region

REPRESENTATIVE = (1, 2, 3, 5, 8)
TOTALS = (0, 1, 2, 3, -1)
MOST_SIZES = 500
MOST_STEPS = 50_000  # nodes times sizes
TARGETS = ("Broadcast", "Reshape")
AFFINE = ("Add", "Concat", "Convert", "Gather", "Multiply", "ShapeOf", "Subtract")


@dataclass(frozen=True)
class ExactSizes:
    """One choice of exact sizes: the data's and filter's shape, a computed output_shape."""

    data: Ints
    filter: Ints
    output_shape: Ints | None


def is_fixed(layer: SourceLayer, graph: Graph, place: LayerPlace) -> bool:
    """Whether nothing but targets of Reshape and Broadcast depends on sizes, and these are affine.

    Then a proof for the sizes that `choices` yields is one for all sizes.
    """
    if layer.output_shape is not None or layer.computed_output or layer.definition.is_sized:
        return False
    if not is_static(layer.filter_shape):
        return False
    for node in region(graph, place):
        inputs = graph.inputs_of(node.id)
        vectors = inputs[FIRST_VECTOR.get(node.type, len(inputs)) :]
        allowed = AFFINE if node.type in TARGETS else ()
        if not all(_is_affine(graph, v, allowed) for v in vectors):
            return False
    return True


def _holds_sizes(spec: Spec) -> bool:
    """Whether a type is an integer in which no size wraps around."""
    dtype = spec.dtype
    return dtype is not None and dtype.kind in ("int", "uint") and dtype.bits >= 32


def _is_affine(graph: Graph, value: Value, allowed: tuple[str, ...]) -> bool:
    """Whether a vector is a constant, or made of sizes by the allowed operations, affinely."""
    node = graph.node(value.node)
    if node.type == "Const":
        return True
    if node.type not in allowed:
        return False
    if node.type == "Convert" and not _holds_sizes(graph.spec(value)):
        return False
    if node.type == "ShapeOf":
        return True
    inputs = graph.inputs_of(node.id)
    if node.type == "Multiply" and all(graph.node(v.node).type != "Const" for v in inputs):
        return False
    return all(_is_affine(graph, v, allowed) for v in inputs)


def repeats_from(layer: SourceLayer, graph: Graph, place: LayerPlace) -> int | None:
    """Return a size from which on everything repeats; None where no such size is known or small.

    It adds up how far from the ends of an axis each node on the longest way makes a difference.
    """
    filter_shape = layer.filter_shape
    if is_static(layer.data) or not is_static(filter_shape) or not is_fixed(layer, graph, place):
        return None
    d, constants = layer.definition, Constants(graph)
    canonical = d.canonical_shape(filter_shape)
    far: dict[int, int] = {}
    for node in region(graph, place):
        before = (far.get(v.node, 0) for v in graph.inputs_of(node.id))
        far[node.id] = max(before, default=0) + _distance(graph, node, constants)
    windows = d.windows((1,) * len(d.data_axes), canonical, None)
    total = far.get(place.output.node, 0)
    total += max(k * q for k, q in zip(canonical[3:], d.dilations, strict=True))
    total += max(d.strides) + max(abs(b) + abs(o) for b, o in windows)
    small = total <= MOST_SIZES and total * len(far) <= MOST_STEPS
    return total if small else None


def choices(layer: SourceLayer, margin: int | None = None) -> Iterator[ExactSizes]:
    """Yield the sizes to walk: all up to behind `margin`, some without one.

    Raises Unproved where data and filter do not fit.
    """
    d = layer.definition
    filter = tuple(
        n if isinstance(n, int) else (3 if a in d.filter_axes[-d.axes :] else 2)
        for a, n in enumerate(layer.filter_shape)
    )
    canonical = d.canonical_shape(filter)
    channels = canonical[0] * canonical[1]
    if is_static(layer.data) and layer.data[d.data_axes[1]] != channels:
        raise Unproved("data and filter of the source layer do not fit")
    for shape in _shapes(layer, margin):
        shape[d.data_axes[1]] = channels
        for wanted in _outputs(layer, tuple(shape), canonical):
            yield ExactSizes(data=tuple(shape), filter=filter, output_shape=wanted)


def _shapes(layer: SourceLayer, margin: int | None) -> Iterator[list[int]]:
    """Yield data shapes: all open axes alike, then each of them a little longer than the others."""

    def shape(wish: int, longer: int | None = None) -> list[int]:
        return [_inside(n, wish + (a == longer)) for a, n in enumerate(layer.data)]

    if is_static(layer.data):
        yield shape(0)
        return
    numbers = REPRESENTATIVE if margin is None else range(1, margin + 2)
    for n in numbers:
        yield shape(n)
    for axis, size in enumerate(layer.data):
        if isinstance(size, Interval):
            yield shape(numbers[-1], axis)


def _inside(size: int | Interval, wish: int) -> int:
    low, high = bounds(size)
    return max(low, wish) if high is None else min(max(low, wish), high)


def _outputs(layer: SourceLayer, shape: Ints, filter: Ints) -> Iterator[Ints | None]:
    """Yield output shapes for one that is computed: some totals cut off or added."""
    if not layer.computed_output:
        yield None
        return
    d = layer.definition
    full = [e.full for e in d.extents(shape, filter, None)]
    for first in range(len(TOTALS)):
        cut = itertools.islice(itertools.cycle(TOTALS), first, first + d.axes)
        yield tuple(max(f - c, 1) for f, c in zip(full, cut, strict=True))


def _distance(graph: Graph, node: Node, constants: Constants) -> int:
    """Return how far from the ends of an axis a node makes a difference."""
    inputs = graph.inputs_of(node.id)
    if node.type in ("Pad", "Slice", "StridedSlice"):
        vectors = [constants.get(v) for v in inputs[1:3]]
        # Larger numbers stand for the end of an axis.
        near = [abs(int(n)) for v in vectors if v is not None for n in v.reshape(-1)]
        return sum(n for n in near if n < 2**31)
    if node.type in ("Convolution", "GroupConvolution"):
        filter = constants.get(inputs[1])
        shape = (graph.spec(inputs[1]).shape or ()) if filter is None else filter.shape
        kernel = [k for k in shape[2:] if isinstance(k, int)]
        return max(attributes_of(node).dilations, default=1) * max(kernel, default=1)
    return 0
