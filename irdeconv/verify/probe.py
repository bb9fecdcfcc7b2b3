"""Evaluate a source layer and its lowered nodes exactly, modulo a prime, on random data.

Both sides are polynomials of degree 2 at most: a sum of products of a data element and a weight,
plus a bias. Constants become random numbers too, one for each distinct value (0 stays 0), since a
lowering only moves them; an activation becomes a random function. If the two sides differ as
polynomials, a random point shows it but for a probability of 2/p (Schwartz and Zippel), and a
random function hides a difference with probability 1/p. The draws of several trials are
independent.

The convolutions are evaluated here, in integers; neither the walk of the proof nor a kernel of the
runtime has a part in it. Shared with the proof are the definition of the source layer and the
movements of arrays.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.graph import Graph, Value
from irdeconv.spec import Array
from irdeconv.verify.arrays import Constants, Evaluator, padded
from irdeconv.verify.definition import Definition, Ints, Unproved
from irdeconv.verify.enlarge import resize_axes, resize_inputs, resize_places, same_pads
from irdeconv.verify.layer import Layer, Place, region
from irdeconv.verify.sizes import Sizes

PRIME = 2**31 - 1
HALF = 16
TRIALS = 2
REPEATING = ("Interpolate", "Tile")  # behind them filter elements add up


def error_probability(trials: int = TRIALS) -> float:
    """Return a bound of the probability that a layer that differs passes: (3/p) to the trials."""
    return float((3 / PRIME) ** trials)


def matmul(a: Array, b: Array) -> Array:
    """Return a @ b modulo the prime, exactly: halves of 16 bits, whose sums doubles hold.

    Elements lie in 0..p-1; up to 2**20 of them are summed.
    """
    high_a, low_a = ((v).astype(np.float64) for v in (a >> HALF, a & (2**HALF - 1)))
    high_b, low_b = ((v).astype(np.float64) for v in (b >> HALF, b & (2**HALF - 1)))
    top = (high_a @ high_b).astype(np.int64) % PRIME
    middle = (high_a @ low_b + low_a @ high_b).astype(np.int64) % PRIME
    low = (low_a @ low_b).astype(np.int64) % PRIME
    return np.asarray((top * (2 ** (2 * HALF) % PRIME) + middle * 2**HALF + low) % PRIME)


class Draw:
    """One random draw: numbers for data, values of constants and results of activations."""

    def __init__(self, seed: Sequence[int], *, exact: bool = False) -> None:
        self.exact = exact
        self.rng = np.random.default_rng(list(seed))
        self.key = np.uint64(self.rng.integers(1, 2**63))

    def data(self, shape: Ints) -> Array:
        """Return random elements."""
        return self.rng.integers(0, PRIME, shape)

    def mix(self, bits: Array) -> Array:
        """Return a pseudo-random number in 0..p-1 for every 64-bit one."""
        z = bits.astype(np.uint64) ^ self.key
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        z = z ^ (z >> np.uint64(31))
        return np.asarray((z % np.uint64(PRIME)).astype(np.int64))

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
        self, graph: Graph, draw: Draw, bound: dict[Value, Array], vectors: dict[Value, Ints]
    ) -> None:
        super().__init__(graph)
        self.draw = draw
        self.bound = bound
        self.vectors = vectors
        self.constants = Constants(graph)
        for kind in ("ReLU", "Tanh", "Sigmoid", "PReLU", "HardSigmoid"):
            self.rules[kind] = self._activation(kind)
        self.rules["Clamp"] = self._clamp
        self.rules["Interpolate"] = _enlarge
        self.rules["Add"] = lambda op, a, b: (a + b) % PRIME
        self.rules["Convolution"] = lambda op, x, w: _convolve(op, x, w[None])
        self.rules["GroupConvolution"] = _convolve

    def leaf(self, value: Value, role: str) -> Array | None:
        """Return an input of the layer, or a converted constant."""
        if role == "vector":
            given = self.vectors.get(value)
            return None if given is None else np.array(given, np.int64)
        if value in self.bound:
            return self.bound[value]
        if self.graph.node(value.node).type == "Convert":
            found = self.constants.get(value)
            return None if found is None else self.draw.constant(found)
        return None

    def constant(self, array: Array, role: str) -> Array:
        """Return random numbers for elements, vectors as they are."""
        return array if role == "vector" else self.draw.constant(array)

    def _activation(self, kind: str) -> Any:
        return lambda op, x, *parameters: self.draw.activation(kind, x, parameters)

    def _clamp(self, op: Any, x: Array) -> Array:
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


def _enlarge(op: Any, x: Array, *rest: Array) -> Array:
    """Return a nearest enlargement."""
    port, axes_port, scales = resize_inputs(op, len(rest) + 1)
    axes = resize_axes(op, x.ndim)
    if axes_port is not None:
        axes = [int(a) % x.ndim for a in rest[axes_port - 1].reshape(-1)]
    for a, given in zip(axes, rest[port - 1].reshape(-1), strict=True):
        x = x.take(resize_places(op, x.shape[a], float(given), scales), a)
    return x


def _convolve(op: Any, x: Array, w: Array) -> Array:
    """Return the convolution of x (N, C, *I) with w (g, M/g, C/g, *K), tap by tap."""
    groups, outputs, inner, *kernel = w.shape
    n = len(kernel)
    if x.ndim != n + 2 or x.shape[1] != groups * inner:
        raise ValueError(f"data {x.shape}, filter {w.shape}")
    strides, dilations = ((v or (1,) * n) for v in (op.strides, op.dilations))
    spans = (d * (k - 1) for d, k in zip(dilations, kernel, strict=True))
    begin, end = zip(*(same_pads(op, a, r) for a, r in enumerate(spans)), strict=True)
    wide = padded(x, (0, 0, *begin), (0, 0, *end))
    sizes = [
        (p - d * (k - 1) - 1) // s + 1
        for p, d, k, s in zip(wide.shape[2:], dilations, kernel, strides, strict=True)
    ]
    y = np.zeros((x.shape[0], groups, outputs, math.prod(sizes)), np.int64)
    for taps in itertools.product(*map(range, kernel)):
        part = wide
        for a, (t, d, s, o) in enumerate(zip(taps, dilations, strides, sizes, strict=True), 2):
            part = part.take(t * d + s * np.arange(o), a)
        columns = part.reshape(x.shape[0], groups, inner, math.prod(sizes))
        y = (y + matmul(_tap(w, taps), columns)) % PRIME
    return y.reshape(x.shape[0], groups * outputs, *sizes)


def _tap(w: Array, taps: Ints) -> Array:
    """Return the matrices [g, *, *] of one tap."""
    for t in reversed(taps):
        w = w[..., t]
    return w


def scatter(d: Definition, x: Array, w: Array, windows: Sequence[tuple[int, int]]) -> Array:
    """Return the definition's result (N, M, *O) for x (N, C, *I), w (g, C/g, M/g, *K)."""
    groups, inner, outputs, *kernel = w.shape
    y = np.zeros((x.shape[0], groups * outputs, *(o for _, o in windows)), np.int64)
    for taps in itertools.product(*map(range, kernel)):
        source, target = [], []
        for a, t in enumerate(taps):
            begin, size = windows[a]
            o = np.arange(x.shape[2 + a]) * d.strides[a] + t * d.dilations[a] - begin
            kept = np.flatnonzero((o >= 0) & (o < size))
            source.append(kept)
            target.append(o[kept])
        if not all(s.size for s in source):
            continue
        at = np.ix_(np.arange(x.shape[0]), np.arange(x.shape[1]), *source)
        part = x[at].reshape(x.shape[0], groups, inner, -1)
        found = matmul(_tap(w, taps).swapaxes(1, 2), part)
        to = np.ix_(np.arange(y.shape[0]), np.arange(y.shape[1]), *target)
        y[to] = (y[to] + found.reshape(y[to].shape)) % PRIME
    return y


def probe(layer: Layer, graph: Graph, place: Place, sizes: Sizes, seed: Sequence[int]) -> None:
    """Compare once at exact sizes; Unproved where source and lowered layer differ."""
    repeats = any(n.type in REPEATING for n in region(graph, place))
    draw, d = Draw(seed, exact=repeats), layer.definition
    x = draw.data(sizes.data)
    bound, vectors = {place.data: x}, {}
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
    spatial = tuple(sizes.data[a] for a in d.data_axes[2:])
    windows = d.windows(spatial, canonical.shape[3:], wanted)
    y = scatter(d, x.transpose(d.data_axes), canonical, windows)
    if bias is not None:
        y = (y + bias.reshape(-1, *(1,) * d.axes)) % PRIME
    if d.activation is not None:
        y = draw.activation(d.activation[0], y, _parameters(layer, draw))
    y = y.transpose(np.argsort(d.data_axes))
    given = Field(graph, draw, bound, vectors).value(place.output, "tensor")
    if given.shape != y.shape:
        raise Unproved(f"the output is {list(given.shape)}, not {list(y.shape)}")
    if not np.array_equal(given, y):
        at = [int(v) for v in np.argwhere(given != y)[0]]
        perhaps = ", perhaps because sums of filter elements are rounded" if repeats else ""
        raise Unproved(f"the outputs differ on random data, first at {at}{perhaps}")


def _bias(layer: Layer, draw: Draw, channels: int) -> Array | None:
    if not layer.has_bias:
        return None
    return draw.data((channels,)) if layer.bias is None else draw.constant(layer.bias)


def _parameters(layer: Layer, draw: Draw) -> list[Array]:
    """Return the activation's parameters as the lowered graph holds them."""
    kind, values = layer.definition.activation or ("", ())
    dtype = np.dtype(np.float64) if kind == "Clamp" else layer.container
    return [draw.constant(np.array(v, dtype)) for v in values]
