"""Evaluate a source layer and its lowered nodes exactly, modulo a prime, on random data.

Both sides are linear in the data, a sum of products of a data element and a weight, plus a bias.
The data are an outer product of random vectors, one for each of the N, C and spatial axes
(product.py): different elements are different monomials of these vectors, so two sides that differ
as polynomials still do, of degree axes + 3 at most, and both cost little more than their filter and
output. Constants become random numbers too, one for each distinct value (0 stays 0), since a
lowering only moves them; an activation becomes a random function. A random point shows that two
polynomials differ but for a probability of degree/p (Schwartz and Zippel), and a random function
hides a difference with probability 1/p. The draws of several trials are independent.

The convolutions are evaluated here, in integers; neither the walk of the proof nor a kernel of the
runtime has a part in it. Shared with the proof are the definition of the source layer and the
movements of evaluator.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.spec import Array
from irdeconv.verify.proof.attributes import Attributes, Ints
from irdeconv.verify.proof.definition import Definition, Unproved
from irdeconv.verify.proof.evaluator import Constants, Evaluator
from irdeconv.verify.proof.layer import LayerPlace, SourceLayer, needed, region
from irdeconv.verify.proof.places import gathered, resized, same_pads, window
from irdeconv.verify.proof.product import (
    PRIME,
    Product,
    contract,
    dense,
    matmul,
    product_aware,
    reduced,
    scattered,
    windows_of,
)
from irdeconv.verify.proof.sizes import ExactSizes

RANDOM_POINTS = 2
REPEATING = ("Interpolate", "Tile")  # behind them filter elements add up
MIXED_AT_ONCE = 2**15  # elements that are mixed at once, so that they stay in the cache
CONVOLUTIONS = ("Convolution", "GroupConvolution")


def error_probability(axes: int, trials: int = RANDOM_POINTS) -> float:
    """Return a bound of the probability that a layer that differs passes.

    It is ((axes + 4)/p) to the trials: N, C, the spatial axes and the weight make the degree, one
    more is the activation's.
    """
    return float(((axes + 4) / PRIME) ** trials)


class Draw:
    """One random draw: numbers for data, values of constants and results of activations."""

    def __init__(self, seed: Sequence[int], *, exact: bool = False) -> None:
        self.exact = exact
        self.rng = np.random.default_rng(list(seed))
        self.key = np.uint64(self.rng.integers(1, 2**63))

    def data(self, shape: Ints) -> Array:
        """Return random elements."""
        return self.rng.integers(0, PRIME, shape)

    def product(self, shape: Ints) -> Product:
        """Return random data that are an outer product."""
        return Product(tuple(self.data((n,)) for n in shape))

    def mix(self, bits: Array) -> Array:
        """Return a pseudo-random number in 0..p-1 for every 64-bit one."""
        flat = bits.astype(np.uint64).reshape(-1)
        for at in range(0, flat.size, MIXED_AT_ONCE):
            z = flat[at : at + MIXED_AT_ONCE]
            z ^= self.key
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                z ^= z >> np.uint64(shift)
                z *= np.uint64(factor)
            z ^= z >> np.uint64(31)
            z[...] = reduced(z)
        return flat.astype(np.int64).reshape(bits.shape)

    def constant(self, array: Array) -> Array:
        """Return one random number for each distinct value; 0 and -0 stay 0.

        With `exact` return the values themselves, as residues, so that sums of them stay sums.
        """
        if self.exact:
            return residues(array)
        integral = array.dtype.kind in "iub"
        wide = array.astype(np.int64 if integral else np.float64)
        return np.where(wide == 0, 0, self.mix(np.ascontiguousarray(wide).view(np.uint64)))

    def activation(self, kind: str, x: Array, parameters: Sequence[Array]) -> Array:
        """Return a random function of x that kind and parameters choose."""
        chosen = int.from_bytes(kind.encode()[:7], "little")
        for p in parameters:
            chosen = int(self.mix(np.array([chosen + int(p.reshape(())[()])], np.uint64))[0])
        return self.mix(x * 2**31 + chosen % 2**31)


class Field(Evaluator):
    """Evaluates a lowered layer modulo the prime; `bound` are its inputs' elements."""

    def __init__(
        self,
        graph: Graph,
        draw: Draw,
        bound: dict[Value, Array | Product],
        vectors: dict[Value, Ints],
    ) -> None:
        super().__init__(graph)
        self.draw = draw
        self.bound = bound
        self.vectors = vectors
        self.constants = Constants(graph)
        for kind in ("ReLU", "Tanh", "Sigmoid", "PReLU", "HardSigmoid"):
            self.rules[kind] = self._activation(kind)
        self.rules["Clamp"] = self._clamp
        self.rules["Interpolate"] = _interpolate
        self.rules["Add"] = lambda op, a, b: reduced(a + b)
        self.rules = {name: product_aware(name, rule) for name, rule in self.rules.items()}
        self.rules["Convolution"] = lambda op, x, w: _convolve(op, x, dense(w)[None])
        self.rules["GroupConvolution"] = lambda op, x, w: _convolve(op, x, dense(w))

    def leaf(self, value: Value, role: str) -> Array | None:
        """Return an input of the layer, or a converted constant."""
        if role == "vector":
            vector = self.vectors.get(value)
            return None if vector is None else np.array(vector, np.int64)
        if value in self.bound:
            return cast(Array, self.bound[value])  # a Product moves like an array
        if self.graph.node(value.node).type == "Convert":
            converted = self.constants.get(value)
            return None if converted is None else self.draw.constant(converted)
        return None

    def constant(self, array: Array, role: str) -> Array:
        """Return random numbers for elements, vectors as they are."""
        return array if role == "vector" else self.draw.constant(array)

    def _compute(self, value: Value, role: str) -> Array:
        node = self.graph.node(value.node)
        if node.type in CONVOLUTIONS and self._behind_convolution(node):
            # The degree of the polynomials would be higher than error_probability says.
            raise Unproved(f'{node.type} "{node.name}" is not the first one')
        return super()._compute(value, role)

    def _behind_convolution(self, node: Node) -> bool:
        """Whether a layer's convolution reads what another one of it computes."""
        graph = self.graph
        before = needed(graph.inputs_of(node.id), graph.inputs_of, self.bound.__contains__)
        return any(graph.node(i).type in CONVOLUTIONS for i in before)

    def _activation(self, kind: str) -> Callable[..., Array]:
        return lambda op, x, *parameters: self.draw.activation(kind, x, parameters)

    def _clamp(self, op: Attributes, x: Array) -> Array:
        bounds = [self.draw.constant(np.array(v, np.float64)) for v in (op.min, op.max)]
        return self.draw.activation("Clamp", x, bounds)


def residues(array: Array) -> Array:
    """Return m * 2**e modulo the prime for every number m * 2**e."""
    if array.dtype.kind in "iub":
        return np.asarray(array.astype(np.int64) % PRIME)
    wide = array.astype(np.float64)
    if not np.isfinite(wide).all():
        raise Unproved("numbers that are not finite have no residues")
    fraction, exponent = np.frexp(wide)
    powers = np.array([pow(2, e % (PRIME - 1), PRIME) for e in range(-1200, 1100)], np.int64)
    whole = (fraction * 2.0**53).astype(np.int64) % PRIME
    return np.asarray(whole * powers[exponent - 53 + 1200] % PRIME)


def _interpolate(op: Attributes, x: Array, *rest: Array) -> Array:
    return gathered(x, resized(op, x.shape, 1 + len(rest), lambda port: rest[port - 1]))


def _convolve(op: Attributes, x: Array | Product, w: Array) -> Array:
    """Return the convolution of x (N, C, *I) with w (g, M/g, C/g, *K)."""
    groups, _, inner, *kernel = w.shape
    n = len(kernel)
    if x.ndim != n + 2 or x.shape[1] != groups * inner:
        raise ValueError(f"data {x.shape}, filter {w.shape}")
    strides, dilations = ((v or (1,) * n) for v in (op.strides, op.dilations))
    spans = (d * (k - 1) for d, k in zip(dilations, kernel, strict=True))
    pads = [same_pads(op, a, r) for a, r in enumerate(spans)]
    if not isinstance(x, Product):
        return _tap_by_tap(x, w, strides, dilations, pads)
    rows = zip(x.factors[2:], strides, dilations, kernel, pads, strict=True)
    return contract(x, w, [windows_of(*row) for row in rows])


def _tap_by_tap(
    x: Array, w: Array, strides: Ints, dilations: Ints, pads: Sequence[tuple[int, int]]
) -> Array:
    """Return the convolution of data that are no product."""
    groups, outputs, inner, *kernel = w.shape
    rows = zip(x.shape, ((0, 0), (0, 0), *pads), strict=True)
    wide = gathered(x, [window(n, *around) for n, around in rows])
    sizes = [
        max((p - d * (k - 1) - 1) // s + 1, 0)
        for p, d, k, s in zip(wide.shape[2:], dilations, kernel, strides, strict=True)
    ]
    y = np.zeros((x.shape[0], groups, outputs, math.prod(sizes)), np.int64)
    for taps in itertools.product(*map(range, kernel)):
        part = wide
        for a, (t, d, s, o) in enumerate(zip(taps, dilations, strides, sizes, strict=True), 2):
            part = part.take(t * d + s * np.arange(o), a)
        columns = part.reshape(x.shape[0], groups, inner, math.prod(sizes))
        y = reduced(y + matmul(w[(slice(None),) * 3 + taps], columns))
    return y.reshape(x.shape[0], groups * outputs, *sizes)


def scatter(d: Definition, x: Product, w: Array, windows: Sequence[tuple[int, int]]) -> Array:
    """Return the definition's result (N, M, *O) for x (N, C, *I), w (g, C/g, M/g, *K)."""
    rows = zip(x.factors[2:], d.strides, d.dilations, w.shape[3:], windows, strict=True)
    return contract(x, w.swapaxes(1, 2), [scattered(*row) for row in rows])


def probe(
    layer: SourceLayer, graph: Graph, place: LayerPlace, sizes: ExactSizes, seed: Sequence[int]
) -> None:
    """Compare once at exact sizes; Unproved where source and lowered layer differ."""
    repeats = any(n.type in REPEATING for n in region(graph, place))
    draw, d = Draw(seed, exact=repeats), layer.definition
    x = draw.product(sizes.data)
    bound: dict[Value, Array | Product] = {place.data: x}
    vectors = {}
    if layer.filter is not None:
        w = draw.constant(layer.filter)
    else:
        w = draw.data(sizes.filter)
        if place.filter is not None:
            bound[place.filter] = w
    canonical = d.canonical_filter(w)
    bias = _bias(layer, draw, canonical.shape[0] * canonical.shape[2])
    if bias is not None and place.bias is not None:
        bound[place.bias] = bias
    if place.output_shape is not None and sizes.output_shape is not None:
        vectors[place.output_shape] = sizes.output_shape
    wanted = sizes.output_shape or layer.output_shape
    windows = d.windows(sizes.data, canonical.shape, wanted)
    y = scatter(d, x.transposed(d.data_axes), canonical, windows)
    if bias is not None:
        y = reduced(y + bias.reshape(-1, *(1,) * d.axes))
    if d.activation is not None:
        y = draw.activation(d.activation[0], y, _parameters(layer, draw))
    y = y.transpose(np.argsort(d.data_axes))
    lowered = dense(Field(graph, draw, bound, vectors).value(place.output, "tensor"))
    if lowered.shape != y.shape:
        raise Unproved(f"the output is {list(lowered.shape)}, not {list(y.shape)}")
    if not np.array_equal(lowered, y):
        at = [int(v) for v in np.argwhere(lowered != y)[0]]
        perhaps = ", perhaps because sums of filter elements are rounded" if repeats else ""
        raise Unproved(f"the outputs differ on random data, first at {at}{perhaps}")


def _bias(layer: SourceLayer, draw: Draw, channels: int) -> Array | None:
    if not layer.has_bias:
        return None
    return draw.data((channels,)) if layer.bias is None else draw.constant(layer.bias)


def _parameters(layer: SourceLayer, draw: Draw) -> list[Array]:
    """Return the activation's parameters as the lowered graph holds them."""
    kind, values = layer.definition.activation or ("", ())
    dtype = np.dtype(np.float64) if kind == "Clamp" else layer.container
    return [draw.constant(np.array(v, dtype)) for v in values]
