"""Values of a model modulo a prime below 2**31, at exact sizes and random data.

The core's language computes constants, sizes and moves; sums and products are computed here, in
64-bit integers and in exact products of doubles. An activation becomes a random function.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from irdeconv.proof import language
from irdeconv.proof.definition import (
    ACTIVATIONS,
    CONVOLUTIONS,
    activation,
    define,
    finish,
    is_deconvolution,
    readings,
)
from irdeconv.proof.model import (
    MOVES,
    Array,
    Ints,
    Layer,
    Model,
    Port,
    TypedArray,
    Unproved,
    region,
)

PART = 11  # bits; 3 parts make up an element
TERMS = 2**PART
LEAST_PRIME, PRIMES_END = 2**30, 2**31  # of a prime
PRIMES = 50_697_537  # between LEAST_PRIME and PRIMES_END
WITNESSES = (2, 3, 5, 7)  # they tell every prime below 3,215,031,751


def is_prime(n: int) -> bool:
    """Whether a number of 31 bits is a prime (Miller and Rabin)."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1

    def passes(witness: int) -> bool:
        x = pow(witness, odd, n)
        return x == 1 or any(pow(x, 2**r, n) == n - 1 for r in range(twos))

    return n % 2 == 1 and all(passes(w) for w in WITNESSES)


def random_prime(rng: np.random.Generator) -> int:
    """Return one of the primes between LEAST_PRIME and PRIMES_END, each as likely."""
    while True:
        n = int(rng.integers(LEAST_PRIME, PRIMES_END))
        if is_prime(n):
            return n


@dataclass(frozen=True)
class PrimeField:
    """The integers modulo the prime `p`, of 31 bits; elements are int64 in 0..p-1."""

    p: int

    def of(self, array: Array) -> Array:
        """Return the residues of numbers m * 2**e; Unproved where one is not finite."""
        if array.dtype.kind in "iub":
            wide = array.astype(np.uint64 if array.dtype.kind == "u" else np.int64)
            return np.asarray(wide % wide.dtype.type(self.p)).astype(np.int64)
        wide = array.astype(np.float64)
        if not np.isfinite(wide).all():
            raise Unproved("numbers that are not finite have no residues")
        fraction, exponent = np.frexp(wide)
        low = int(exponent.min(initial=0))
        powers = [pow(2, e - 53, self.p) for e in range(low, int(exponent.max(initial=0)) + 1)]
        whole = (fraction * 2.0**53).astype(np.int64) % self.p
        return np.asarray(whole * np.array(powers, np.int64)[exponent - low] % self.p)

    def times(self, a: Array, b: Array) -> Array:
        """Return a * b: products are below 2**62."""
        return np.asarray(a * b % self.p)

    def inverse(self, a: Array) -> Array:
        """Return 1/a; Unproved where an element is 0."""
        if not np.all(a):
            raise Unproved("a number is divided by 0")
        out, square, bits = np.ones_like(a), a, self.p - 2
        while bits:
            out = self.times(out, square) if bits & 1 else out
            square, bits = self.times(square, square), bits >> 1
        return out

    @np.errstate(all="ignore")  # BLAS may raise flags on what it reads beyond short rows
    def matmul(self, a: Array, b: Array) -> Array:
        """Return a @ b, exactly.

        `b` is cut into parts of 11 bits. A sum of up to 2**11 products of 31 and 11 bits is below
        2**53, so that doubles hold it and every sum on the way, in whatever order.
        """
        total = np.zeros((), np.int64)
        for at in range(0, max(a.shape[-1], 1), TERMS):
            left, sums = a[..., at : at + TERMS].astype(np.float64), np.zeros((), np.int64)
            for shift in (2 * PART, PART, 0):
                part = (b[..., at : at + TERMS, :] >> shift) & (TERMS - 1)
                found = np.matmul(left, part.astype(np.float64)).astype(np.int64)
                sums = (sums * TERMS + found) % self.p
            total = (total + sums) % self.p
        return total

    def factors(self, x: Array) -> list[Array] | None:
        """Return one vector for each axis whose outer product is x; None where there are none."""
        if not x.size:
            return None
        pivot = tuple(map(int, np.unravel_index(int(np.argmax(x != 0)), x.shape)))
        if not x[pivot]:
            return [np.zeros(n, np.int64) for n in x.shape]
        scale = self.inverse(np.array(x[pivot]))
        out = []
        for axis in range(x.ndim):
            line = np.moveaxis(x, axis, -1)[pivot[:axis] + pivot[axis + 1 :]]
            out.append(line if axis == 0 else self.times(line, scale))
        return out if np.array_equal(self.outer(out), x) else None

    def outer(self, factors: Sequence[Array]) -> Array:
        """Return the outer product of vectors."""
        out = np.ones((), np.int64)
        for f in factors:
            out = self.times(out[..., None], f)
        return out

    def contract(self, x: Array, w: Array, readings: Sequence[Array]) -> Array:
        """Return y [N, g * M/g, *O] for x [N, C, *I] and w [g, M/g, C/g, *K].

        `readings[a]` [O, K] holds which position output and tap read along spatial axis a, -1 for
        none. Where x is an outer product, channels and axes are summed one after the other.
        """
        factors = self.factors(x)
        if factors is None:
            return self._tap_by_tap(x, w, readings)
        groups, outputs, inner = w.shape[:3]
        channels = factors[1].reshape(groups, 1, inner, *(1,) * len(readings))
        sums = (self.times(w, channels).sum(2) % self.p).reshape(groups * outputs, *w.shape[3:])
        for factor, reading in zip(factors[2:], readings, strict=True):
            # The first axis behind the channels is summed and comes back as the last one.
            read = np.append(factor, 0)[reading]
            sums = self.matmul(np.moveaxis(sums, 1, -1), np.ascontiguousarray(read.T))
        return self.times(factors[0].reshape(-1, *(1,) * sums.ndim), sums)

    def _tap_by_tap(self, x: Array, w: Array, readings: Sequence[Array]) -> Array:
        groups, outputs, inner, *kernel = w.shape
        wide = np.pad(x, [(0, 0), (0, 0), *((0, 1) for _ in readings)])
        sizes = [r.shape[0] for r in readings]
        places = math.prod(sizes)
        y = np.zeros((x.shape[0], groups, outputs, places), np.int64)
        for taps in itertools.product(*map(range, kernel)):
            part = wide
            for a, (tap, reading) in enumerate(zip(taps, readings, strict=True), 2):
                part = part.take(reading[:, tap], a)
            columns = part.reshape(x.shape[0], groups, inner, places)
            y = (y + self.matmul(w[(slice(None),) * 3 + taps], columns)) % self.p
        return y.reshape(x.shape[0], groups * outputs, *sizes)


def shape_of(shape: Ints) -> Array:
    """Return an array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros((), np.int64), shape)


LARGEST_PROBED = 2**25  # elements of a value
SUM_BITS = 64  # of the number of terms of a sum
BITS = {"f64": 2200, "f32": 300, "bf16": 300, "f16": 64}  # from the smallest number to the largest


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
        places, _ = region(self.model, port, lambda p, _: p in self.bound)
        for place in places:
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
        ports = MOVES[layer.type]
        moved = [self.residues(x) for p, x in enumerate(inputs) if p in ports]
        elements = np.concatenate([*(x.array.reshape(-1) for x in moved), [0]])
        numbers, given = np.arange(elements.size), list[object]()
        for p, x in enumerate(inputs):
            own, numbers = np.split(numbers, [x.array.size if p in ports else 0])
            given.append(own.reshape(x.array.shape) if p in ports else x)
        degree, bits = max(x.degree for x in moved), max(x.bits for x in moved)
        places = language.move(layer, given)
        return [Residues(elements[p], moved[0].type, degree, bits) for p in places]

    def _convolution(self, layer: Layer, inputs: list[Known]) -> Residues:
        x, w = self.residues(inputs[0]), self.residues(inputs[1])
        d = define(layer, x.array.ndim)
        n = x.array.ndim - 2
        data, filter = x.array.transpose(d.data_axes), d.ordered(w.array)
        if data.shape[1] != filter.shape[0] * filter.shape[2]:
            raise Unproved(f"{layer}: data {data.shape} and filter {filter.shape} do not fit")
        space, taps = data.shape[2:], filter.shape[3:]
        reads = []
        windows = d.windows(space, taps, lambda port: self.vector(layer, inputs[port]))
        for a, (begin, outputs) in enumerate(windows):
            if outputs < 0:
                raise NoOutput(f"{layer} would have {outputs} outputs")
            room((outputs, taps[a]))
            step = d.strides[a], d.dilations[a]
            reads.append(readings(space[a], begin, outputs, step, taps[a], d.forward))
        room((len(data), filter.shape[0] * filter.shape[1], *map(len, reads)))
        sums = self.numbers.contract(data, filter, reads)
        bits = x.bits + w.bits + SUM_BITS
        y = Residues(sums, x.type, x.degree + w.degree, bits)
        if d.bias is not None:
            bias = self.residues(inputs[d.bias])
            bias = Residues(bias.array.reshape(-1, *(1,) * n), None, bias.degree, bias.bits)
            y = self.added(layer, y, bias)
        if d.activation is not None:
            y = self.draw.function(y, finish(d.activation, y.type))
        back = tuple(int(a) for a in np.argsort(d.data_axes))
        return Residues(y.array.transpose(back), y.type, y.degree, y.bits)

    def added(self, layer: Layer, a: Residues, b: Residues, sign: int = 1) -> Residues:
        """Return a + b, or a - b."""
        _broadcast(layer, a.array, b.array)
        degree, bits = max(a.degree, b.degree), max(a.bits, b.bits) + SUM_BITS
        return Residues((a.array + sign * b.array) % self.numbers.p, a.type, degree, bits)

    def product(self, layer: Layer, a: Residues, b: Residues) -> Residues:
        """Return a * b."""
        _broadcast(layer, a.array, b.array)
        product = self.numbers.times(a.array, b.array)
        return Residues(product, a.type, a.degree + b.degree, a.bits + b.bits)

    def divide(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return a / b of real numbers."""
        a, b = (self.residues(x) for x in inputs)
        if a.type not in BITS or b.degree:
            raise Unproved(f"{layer}: only real numbers are divided, by constants")
        inverse = Residues(self.numbers.inverse(b.array), b.type, 0, b.bits)
        return self.product(layer, a, inverse)

    def negative(self, layer: Layer, inputs: list[Known]) -> Residues:
        """Return -x."""
        x = self.residues(inputs[0])
        return replace(x, array=-x.array % self.numbers.p)

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
        x = self.residues(inputs[0])
        return self.draw.function(x, activation(layer, x.type, inputs[1:]))


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
    "Add": lambda e, layer, inputs: e.added(layer, *map(e.residues, inputs)),
    "Subtract": lambda e, layer, inputs: e.added(layer, *map(e.residues, inputs), sign=-1),
    "Multiply": lambda e, layer, inputs: e.product(layer, *map(e.residues, inputs)),
    "Divide": Evaluation.divide,
    "Negative": Evaluation.negative,
    "Convert": Evaluation.convert,
    "MatMul": Evaluation.matmul,
    "Einsum": Evaluation.einsum,
    "ReduceSum": Evaluation.reduce_sum,
    **dict.fromkeys(ACTIVATIONS, Evaluation.activation),
}
