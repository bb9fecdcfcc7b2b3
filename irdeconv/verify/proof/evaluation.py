"""Values of a model modulo a prime, at exact sizes and random data.

What follows from constants and sizes alone is computed by the core's language; data are residues.
Moving them is the language's as well, by element numbers. Sums and products are evaluated here, in
integers. An activation becomes a random function of what it is applied to.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.proof import language
from irdeconv.proof.call import MOVES
from irdeconv.proof.definition import CONVOLUTIONS, LayerDefinition, define, is_deconvolution
from irdeconv.proof.model import Array, Ints, Layer, Model, Port, TypedArray, Unproved
from irdeconv.verify.proof.region import region
from irdeconv.verify.proof.residues import PrimeField, gathering, random_prime, scattering, shape_of

LARGEST_PROBED = 2**25  # elements of a value
SUM_BITS = 64  # of the number of terms of a sum
BITS = {"f64": 2200, "f32": 300, "bf16": 300, "f16": 64}  # from the smallest number to the largest
NARROW = {"f32": np.float32, "f16": np.float16}


@dataclass(frozen=True)
class Residues:
    """Numbers that depend on data, modulo the prime.

    They are polynomials of at most `degree` in what was drawn; its coefficients are m * 2**e
    of at most `bits` bits from the least to the greatest.
    """

    array: Array
    type: str | None
    degree: int = 0
    bits: int = 0


Known = TypedArray | Residues


@dataclass
class Draw:
    """One random draw: a prime, the numbers of data, the results of activations."""

    rng: np.random.Generator
    numbers: PrimeField
    key: int

    @staticmethod
    def of(seed: Sequence[int]) -> Draw:
        """Draw by a seed."""
        rng = np.random.default_rng(list(seed))
        return Draw(rng, PrimeField(random_prime(rng)), int(rng.integers(1, 2**63)))

    def data(self, shape: Ints, type: str | None) -> Residues:
        """Return an outer product of random vectors: different elements are different monomials."""
        room(shape)
        p = self.numbers.p
        factors = [self.rng.integers(0, p, n) for n in shape]
        return Residues(self.numbers.outer(factors), type, len(shape))

    def function(self, x: Residues, kind: tuple[object, ...]) -> Residues:
        """Return a random function of x that `kind` chooses, by a keyed mixing function.

        It hides that two arguments differ with a probability of 1/p.
        """
        salt = int.from_bytes(hashlib.sha256(repr((self.key, kind)).encode()).digest()[:8], "big")
        z = x.array.astype(np.uint64) + np.uint64(salt)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        z = (z ^ (z >> np.uint64(31))) % np.uint64(self.numbers.p)
        return Residues(z.astype(np.int64), x.type, x.degree + 1, x.bits)


def room(shape: Sequence[int]) -> None:
    """Raise Unproved where an array of a shape would take too much memory."""
    if math.prod(max(n, 1) for n in shape) > LARGEST_PROBED:
        text = f"a value of the shape {list(shape)} has more than {LARGEST_PROBED} elements"
        raise Unproved(f"{text}, the most that the probe holds")


class Evaluation:
    """Computes values of a model from those that are bound."""

    def __init__(self, model: Model, bound: Mapping[Port, Known], draw: Draw) -> None:
        self.model, self.bound, self.draw = model, dict(bound), draw
        self.numbers = draw.numbers

    def value(self, port: Port) -> Known:
        """Return a value; Unproved where it is not followed."""
        for place in region(self.model, port, self.bound.keys()):
            layer = self.model.layers[place]
            inputs = [self._known(p) for p in layer.inputs]
            try:
                found = self._apply(layer, inputs)
            except (ValueError, IndexError, TypeError, ArithmeticError) as e:
                raise Unproved(f"{layer} does not fit its inputs: {e}") from None
            self.bound |= {Port(place, number): made for number, made in enumerate(found)}
        return self._known(port)

    def _known(self, port: Port) -> Known:
        if port not in self.bound:
            raise Unproved(f"{self.model.of(port)} has no output {port.port}")
        return self.bound[port]

    def _apply(self, layer: Layer, inputs: list[Known]) -> Sequence[Known]:
        if layer.elements is not None:
            return [layer.elements]
        if layer.type == "ShapeOf":
            x = inputs[0]
            return language.evaluate(layer, [TypedArray(shape_of(x.array.shape), x.type or "f32")])
        known = [x for x in inputs if isinstance(x, TypedArray)]
        if len(known) == len(inputs) and not is_deconvolution(layer):
            return language.evaluate(layer, known)
        if layer.type in CONVOLUTIONS or is_deconvolution(layer):
            return [self._convolution(layer, inputs)]
        if layer.type in MOVES:
            return self._moved(layer, inputs)
        rule = _RULES.get(layer.type)
        if rule is None:
            raise Unproved(f"{layer} of data is not evaluated by the probe")
        return [rule(self, layer, inputs)]

    def residues(self, x: Known) -> Residues:
        """Return numbers as residues."""
        if isinstance(x, Residues):
            return x
        return Residues(self.numbers.of(x.array), x.type, 0, BITS.get(x.type, 64))

    def vector(self, layer: Layer, x: Known) -> list[int]:
        """Return the integers of a vector."""
        if isinstance(x, Residues):
            raise Unproved(f"{layer}: a size depends on data")
        return [int(v) for v in x.array.reshape(-1)]

    def _moved(self, layer: Layer, inputs: list[Known]) -> Sequence[Residues]:
        ports = [p for p in range(len(inputs)) if p in MOVES[layer.type]]
        moved = [self.residues(inputs[i]) for i in ports]
        rest = [x for i, x in enumerate(inputs) if i not in ports]
        if any(isinstance(x, Residues) for x in rest):
            raise Unproved(f"{layer}: where elements move depends on data")
        elements = np.concatenate([*(x.array.reshape(-1) for x in moved), [0]])
        numbers, at = [], 0
        for x in moved:
            numbers.append(np.arange(at, at + x.array.size).reshape(x.array.shape))
            at += x.array.size
        degree, bits = max(x.degree for x in moved), max(x.bits for x in moved)
        places = language.move(layer, numbers, [x for x in rest if isinstance(x, TypedArray)])
        return [Residues(elements[p], moved[0].type, degree, bits) for p in places]

    def _convolution(self, layer: Layer, inputs: list[Known]) -> Residues:
        x, w = self.residues(inputs[0]), self.residues(inputs[1])
        d = define(layer, x.array.ndim)
        n = x.array.ndim - 2
        if w.array.ndim != len(d.filter_axes):
            raise Unproved(f"{layer}: the filter has rank {w.array.ndim}")
        data, filter = x.array.transpose(d.data_axes), w.array.transpose(d.filter_axes)
        if d.groups is not None:
            if len(filter) % d.groups:
                raise Unproved(f"{layer}: {len(filter)} channels in {d.groups} groups")
            filter = filter.reshape(d.groups, len(filter) // d.groups, *filter.shape[1:])
        filter = filter if d.forward else filter.swapaxes(1, 2)
        if data.shape[1] != filter.shape[0] * filter.shape[2]:
            raise Unproved(f"{layer}: data {data.shape} and filter {filter.shape} do not fit")
        wanted = None
        if d.output_shape is not None:
            wanted = self.vector(layer, inputs[d.output_shape])
        pads = [[0] * n] * 2
        if d.pads is not None:
            pads = [self.vector(layer, inputs[d.pads + side]) for side in (0, 1)]
        readings = []
        for a, (size, taps) in enumerate(zip(data.shape[2:], filter.shape[3:], strict=True)):
            begin, outputs = d.window(a, size, taps, wanted[a] if wanted else None)
            window = begin + pads[0][a], outputs - pads[0][a] - pads[1][a]
            readings.append(_reading(layer, d, a, (size, taps), window))
        room((len(data), filter.shape[0] * filter.shape[1], *(len(r) for r in readings)))
        sums = self.numbers.contract(data, filter, readings)
        bits = x.bits + w.bits + SUM_BITS
        y = Residues(sums, x.type, x.degree + w.degree, bits)
        if d.bias is not None:
            bias = self.residues(inputs[d.bias])
            bias = Residues(bias.array.reshape(-1, *(1,) * n), None, bias.degree, bias.bits)
            y = self._sum(layer, y, bias)
        if d.activation is not None:
            kind, parameters = d.activation
            y = self._activated(y, kind, parameters)
        back = tuple(int(a) for a in np.argsort(d.data_axes))
        return Residues(y.array.transpose(back), y.type, y.degree, y.bits)

    def _activated(self, x: Residues, kind: str, parameters: Sequence[float]) -> Residues:
        rounded = NARROW.get(x.type or "f32", np.float64) if kind != "Clamp" else np.float64
        values = [float(np.asarray(v, rounded)) for v in parameters]
        return self.draw.function(x, (kind, *values))

    def _sum(self, layer: Layer, a: Residues, b: Residues, sign: int = 1) -> Residues:
        _broadcast(layer, a.array, b.array)
        degree, bits = max(a.degree, b.degree), max(a.bits, b.bits) + SUM_BITS
        return Residues((a.array + sign * b.array) % self.numbers.p, a.type, degree, bits)

    def _product(self, layer: Layer, a: Residues, b: Residues) -> Residues:
        _broadcast(layer, a.array, b.array)
        product = self.numbers.times(a.array, b.array)
        return Residues(product, a.type, a.degree + b.degree, a.bits + b.bits)

    def add(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return a + b."""
        return self._sum(layer, self.residues(inputs[0]), self.residues(inputs[1]))

    def subtract(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return a - b."""
        return self._sum(layer, self.residues(inputs[0]), self.residues(inputs[1]), -1)

    def multiply(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return a * b."""
        return self._product(layer, self.residues(inputs[0]), self.residues(inputs[1]))

    def divide(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return a / b of real numbers."""
        a, b = (self.residues(x) for x in inputs)
        if a.type not in BITS or b.degree:
            raise Unproved(f"{layer}: only real numbers are divided, by constants")
        inverse = Residues(self.numbers.inverse(b.array), b.type, 0, b.bits)
        return self._product(layer, a, inverse)

    def negative(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return -x."""
        x = self.residues(inputs[0])
        return Residues(-x.array % self.numbers.p, x.type, x.degree, x.bits)

    def convert(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return real numbers of another type: rounding is no part of the proof."""
        x, type = self.residues(inputs[0]), layer.attributes.get("destination_type", "").lower()
        if type != x.type and not {type, x.type} <= set(BITS):
            raise Unproved(f"{layer}: a conversion of {x.type} to {type} is not evaluated")
        return Residues(x.array, type, x.degree, x.bits)

    def matmul(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return the product of matrices."""
        sides = [self.residues(x) for x in inputs]
        arrays = []
        for x, name in zip(sides, "ab", strict=True):
            turn = layer.attributes.get(f"transpose_{name}", "false").lower() in ("true", "1")
            if x.array.ndim < 2:
                raise Unproved(f"{layer}: a vector is not evaluated")
            arrays.append(x.array.swapaxes(-1, -2) if turn else x.array)
        a, b = arrays
        if a.shape[-1] != b.shape[-2]:
            raise Unproved(f"{layer}: {a.shape} and {b.shape} do not fit")
        room((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))
        bits = sides[0].bits + sides[1].bits + SUM_BITS
        degree = sides[0].degree + sides[1].degree
        return Residues(self.numbers.matmul(a, b), sides[0].type, degree, bits)

    def einsum(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return sums of products by an equation of plain letters, each once in a term."""
        left, arrow, right = layer.attributes.get("equation", "").replace(" ", "").partition("->")
        terms = left.split(",")
        letters = "".join(dict.fromkeys("".join(terms)))
        sides = [self.residues(x) for x in inputs]
        once = all(len(set(t)) == len(t) for t in (*terms, right))
        plain = arrow and letters.isalpha() and set(right) <= set(letters)
        if not plain or not once or len(terms) != len(sides):
            raise Unproved(f"{layer}: its equation is not evaluated")
        order = right + "".join(c for c in letters if c not in right)
        total, degree, bits = np.ones((1,) * len(order), np.int64), 0, SUM_BITS
        for term, x in zip(terms, sides, strict=True):
            if len(term) != x.array.ndim:
                raise Unproved(f"{layer}: its equation does not fit")
            turned = x.array.transpose([term.index(c) for c in order if c in term])
            index = tuple(slice(None) if c in term else np.newaxis for c in order)
            room(np.broadcast_shapes(total.shape, turned[index].shape))
            total = self.numbers.times(total, turned[index])
            degree, bits = degree + x.degree, bits + x.bits
        summed = total.sum(tuple(range(len(right), total.ndim))) % self.numbers.p
        return Residues(summed, sides[0].type, degree, bits)

    def reduce_sum(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return sums along axes."""
        x = self.residues(inputs[0])
        axes = tuple(a % max(x.array.ndim, 1) for a in self.vector(layer, inputs[1]))
        keep = layer.attributes.get("keep_dims", "false").lower() in ("true", "1")
        summed = x.array.sum(axes, keepdims=keep) % self.numbers.p
        return Residues(np.asarray(summed), x.type, x.degree, x.bits + SUM_BITS)

    def activation(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return a random function that type and parameters choose."""
        x, parameters = self.residues(inputs[0]), []
        for parameter in inputs[1:]:
            if isinstance(parameter, Residues) or parameter.array.size != 1:
                raise Unproved(f"{layer}: parameters that are no single constant")
            parameters.append(float(parameter.array.reshape(())))
        parameters += [float(layer.attributes[k]) for k in ("min", "max") if k in layer.attributes]
        return self._activated(x, layer.type, parameters)


def _reading(
    layer: Layer, d: LayerDefinition, a: int, sizes: tuple[int, int], window: tuple[int, int]
) -> Array:
    """Return which position every output and tap reads along spatial axis a."""
    (size, taps), (begin, outputs) = sizes, window
    if outputs < 0:
        raise NoOutput(f"{layer} would have {outputs} outputs")
    room((outputs, taps))
    place = gathering if d.forward else scattering
    return place(size, begin, outputs, (d.strides[a], d.dilations[a]), taps)


class NoOutput(Unproved):
    """A layer has no output at the sizes chosen: no size of the model."""


def _broadcast(layer: Layer, a: Array, b: Array) -> None:
    mode = layer.attributes.get("auto_broadcast", "numpy")
    try:
        room(np.broadcast_shapes(a.shape, b.shape))
    except ValueError as e:
        raise Unproved(f"{layer}: {e}") from None
    if mode != "numpy" and a.shape != b.shape:
        raise Unproved(f"{layer}: auto_broadcast is {mode}")


_RULES: dict[str, Callable[[Evaluation, Layer, list[Known]], Residues]] = {
    "Add": Evaluation.add,
    "Subtract": Evaluation.subtract,
    "Multiply": Evaluation.multiply,
    "Divide": Evaluation.divide,
    "Negative": Evaluation.negative,
    "Convert": Evaluation.convert,
    "MatMul": Evaluation.matmul,
    "Einsum": Evaluation.einsum,
    "ReduceSum": Evaluation.reduce_sum,
    **dict.fromkeys(
        ("ReLU", "Tanh", "Sigmoid", "PReLU", "Clamp", "HardSigmoid"), Evaluation.activation
    ),
}
