"""Evaluate a source layer and its replacement exactly, modulo random primes, on random data.

Both sides are polynomials in the data. The data are an outer product of random vectors, one for
each axis: different elements are different monomials, so two sides that differ as polynomials still
do, and channels and axes are summed one after the other. Constants keep their values, modulo the
prime. Two sides that differ are equal at a random point with a probability of at most degree/p
(Schwartz and Zippel), and if the prime divides every difference of coefficients: of all primes
of 31 bits at most bits/30 do. The draws of several trials are independent.

That bounds the chance of a miss at the sizes that were evaluated, and says nothing of others.

Values are computed modulo a prime below 2**31, at exact sizes. The core's language computes
constants, sizes and moves; sums and products are computed here, in 64-bit integers and in exact
products of doubles. An activation becomes a random function.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple as axes_of

from irdeconv.base.errors import count
from irdeconv.proof.definition import Activation, LayerDefinition, define, is_deconvolution
from irdeconv.proof.linear import ModelWalk, NoOutput
from irdeconv.proof.model import (
    Array,
    Call,
    Ints,
    Layer,
    Model,
    Obligation,
    Port,
    Shape,
    TypedArray,
    Unproved,
    need,
    region,
    spend,
    whole,
)
from irdeconv.verify.adapter import source_region

PART = 11  # bits; 3 parts make up an element
TERMS = 2**PART
LEAST_PRIME, PRIMES_END = 2**30, 2**31  # of a prime
PRIMES = 50_697_537  # between LEAST_PRIME and PRIMES_END


def is_prime(n: int) -> bool:
    """Whether a number from 2 to 2**31 is a prime, by the test of Miller and Rabin.

    No composite below 3,215,031,751 passes it for these four bases.
    """
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    for base in (2, 3, 5, 7):
        powers = [pow(base, (n - 1) >> k, n) for k in range(twos + 1)]
        if n != base and powers[-1] != 1 and n - 1 not in powers:
            return False
    return True


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
        """Return the residues of numbers m * 2**e; Unproved if one is not finite."""
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
        """Return 1/a; Unproved if an element is 0."""
        if not np.all(a):
            raise Unproved("a number is divided by 0")
        out, square, bits = np.ones_like(a), a, self.p - 2
        while bits:
            out = self.times(out, square) if bits & 1 else out
            square, bits = self.times(square, square), bits >> 1
        return out

    @np.errstate(all="ignore")  # BLAS may raise flags on memory beyond short rows
    def matmul(self, a: Array, b: Array) -> Array:
        """Return a @ b, exactly.

        `b` is cut into parts of 11 bits. A sum of up to 2**11 products of 31 and 11 bits is below
        2**53, so that doubles hold it and every sum on the way, in any order.
        """
        total = np.zeros((), np.int64)
        size = max(math.prod(a.shape[:-1]), math.prod(b.shape[:-2]) * a.shape[-2]) * b.shape[-1]
        spend(PRODUCT + size * (PROBED_WORK + a.shape[-1] // 16))
        for at in range(0, max(a.shape[-1], 1), TERMS):
            left, sums = a[..., at : at + TERMS].astype(np.float64), np.zeros((), np.int64)
            for shift in (2 * PART, PART, 0):
                part = (b[..., at : at + TERMS, :] >> shift) & (TERMS - 1)
                found = np.matmul(left, part.astype(np.float64)).astype(np.int64)
                sums = (sums * TERMS + found) % self.p
            total = (total + sums) % self.p
        return total

    def factors(self, x: Array) -> list[Array] | None:
        """Return one vector for each axis whose outer product is x; None if there are none."""
        if not x.any():
            return [np.zeros(n, np.int64) for n in x.shape]
        pivot = tuple(map(int, np.unravel_index(int(np.argmax(x != 0)), x.shape)))
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
        none. If x is an outer product, channels and axes are summed one after the other.
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


LARGEST_PROBED = 2**25  # elements of a value
DRAW_WORK, PRODUCT, PROBED_WORK = 16384, 4096, 2  # units of a draw, a product, an element of it
SUM_BITS = 64  # of the number of terms of a sum
BITS = {"f64": 2200, "f32": 300, "bf16": 300, "f16": 64}  # from the smallest number to the largest


@dataclass(frozen=True)
class Residues:
    """Numbers that depend on data, modulo the prime.

    They are polynomials of at most `degree` in the drawn numbers; its coefficients are m * 2**e
    of at most `bits` bits from the least to the greatest.
    """

    array: Array
    type: str | None
    degree: int = 0
    bits: int = 0

    @property
    def shape(self) -> Ints:
        """The shape of the array."""
        return tuple(self.array.shape)

    def each(self, move: Callable[[Array], Array]) -> Residues:
        """Return the value after a movement of its elements."""
        return replace(self, array=move(self.array))


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
        spend(DRAW_WORK)
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
    """Count the work of an array; Unproved if it would take too much memory."""
    size = math.prod(max(n, 1) for n in shape)
    if size > LARGEST_PROBED:
        text = f"a value of the shape {list(shape)} has more than {LARGEST_PROBED} elements"
        raise Unproved(f"{text}, the most that the probe holds")
    spend(PROBED_WORK * size)


class Evaluation(ModelWalk):
    """Computes values of a model from those that are bound."""

    def __init__(self, model: Model, bound: Mapping[Port, Known], draw: Draw) -> None:
        super().__init__(model, lambda port, _: bound.get(port))
        self.bound, self.draw, self.numbers = bound, draw, draw.numbers

    def value(self, port: Port) -> Any:
        """Return a value; Unproved if it is not followed."""
        return self.bound[port] if port in self.bound else super().value(port)

    def lift(self, value: Known) -> Residues:
        """Return numbers as residues."""
        if isinstance(value, Residues):
            return value
        return Residues(self.numbers.of(value.array), value.type, 0, BITS.get(value.type, 64))

    def _joined(self, values: Sequence[Residues]) -> Residues:
        elements = np.concatenate([*(x.array.reshape(-1) for x in values), [0]])
        degree, bits = max(x.degree for x in values), max(x.bits for x in values)
        return Residues(elements, values[0].type, degree, bits)

    def _block(
        self, layer: Layer, x: Residues, w: Residues, reads: Sequence[Array] = ()
    ) -> Residues:
        (n, g, k, *space), m, sizes = x.shape, w.shape[1], [len(r) for r in reads]
        room((n, g * m, *sizes))
        y = self.numbers.contract(x.array.reshape(n, g * k, *space), w.array, reads)
        bits = x.bits + w.bits + SUM_BITS
        return Residues(y.reshape(n, g, m, *sizes), x.type, x.degree + w.degree, bits)

    def _activated(self, value: Residues, last: Activation) -> Residues:
        return self.draw.function(value, last)

    def _plus(self, a: Residues, b: Residues) -> Residues:
        bits = max(a.bits, b.bits) + SUM_BITS
        return Residues((a.array + b.array) % self.numbers.p, a.type, max(a.degree, b.degree), bits)

    def _times(self, a: Residues, b: Residues) -> Residues:
        product = self.numbers.times(a.array, b.array)
        return Residues(product, a.type, a.degree + b.degree, a.bits + b.bits)

    def _negated(self, value: Residues) -> Residues:
        return replace(value, array=-value.array % self.numbers.p)

    def _multiply(self, call: Call, given: Sequence[Known]) -> Residues:
        return self._times(*self._pair(call, given))

    def _divide(self, call: Call, given: Sequence[Known]) -> Residues:
        """Return a / b of real numbers."""
        a, b = self._pair(call, given)
        call.need(a.type in BITS and not b.degree, "only real numbers are divided, by constants")
        return self._times(a, replace(b, array=self.numbers.inverse(b.array)))

    def _convert(self, call: Call, given: Sequence[Known]) -> Residues:
        """Return real numbers of another type: rounding is no part of the proof."""
        x, type = self.lift(given[0]), call.said["destination_type"]
        call.need(type == x.type or {type, x.type} <= {*BITS}, f"a conversion of {x.type}")
        return replace(x, type=type)

    def _sum(self, call: Call, given: Sequence[Known]) -> Residues:
        x = self.lift(given[0])
        axes = axes_of(whole(given[1]), len(x.shape))
        summed = x.array.sum(axes, keepdims=bool(call.word("keep_dims"))) % self.numbers.p
        return replace(x, array=np.asarray(summed), bits=x.bits + SUM_BITS)


Evaluation.rules = {
    **ModelWalk.rules,
    "Multiply": Evaluation._multiply,
    "Divide": Evaluation._divide,
    "Convert": Evaluation._convert,
    "ReduceSum": Evaluation._sum,
}


RANDOM_POINTS = 2
PROBED_SIZES = (1, 2, 3, 5, 8, 0)
RANDOM_SPAN = 100  # beyond the lower ends of intervals, all together, for random sizes
MOST_PROBED = 10
SMALL = 2  # an open dimension of no meaning


class Differs(Exception):
    """Both sides were evaluated and are not equal."""


def probe(ob: Obligation, seed: Sequence[int]) -> tuple[str, float]:
    """Compare both sides at some sizes; Differs if they are not equal, Unproved if unknown.

    Returns the evaluated sizes, and the probability that a difference at them stays unseen.
    """
    layer = _Probe(ob)
    done, chance = [], 0.0
    for number, data in enumerate(layer.choices(np.random.default_rng([*seed, 0]))):
        try:
            trials = [layer.trial(data, (*seed, 1, number, t)) for t in range(RANDOM_POINTS)]
        except NoOutput:
            continue
        done.append(str(list(data)))
        chance = max(chance, float(np.prod(trials)))
    need(done, "no size was found for which the layer has an output")
    points = count(RANDOM_POINTS, "random point")
    return f"{points} at {count(len(done), 'size')}: {', '.join(done)}", chance


class _Probe:
    """An obligation with a single deconvolution that reads data from outside."""

    def __init__(self, ob: Obligation) -> None:
        self.ob = ob
        places, read = source_region(ob)
        found = [ob.source.layers[i] for i in places if is_deconvolution(ob.source.layers[i])]
        if len(found) != 1 or found[0].inputs[0] not in read:
            raise Unproved("it is no single deconvolution of data from outside")
        self.layer: Layer = found[0]
        _, ends = region(ob.lowered, ob.output, lambda p, _: p in ob.twins)
        read += [ob.twins[p] for p in ends]
        self.given = list(dict.fromkeys(read))
        self.facts = {p: ob.fact(p) for p in self.given}
        shape = self.facts[self.layer.inputs[0]].shape
        if shape is None:
            raise Unproved("the rank of the data is unknown")
        self.shape: Shape = shape
        self.definition: LayerDefinition = define(self.layer, len(shape))
        sizes = self.definition.output_shape
        self.sizes_port = None if sizes is None else self.layer.inputs[sizes]
        self.filter = self._filter()
        # The groups, the outputs and inputs of each, the taps.
        self.ordered: Ints = self.definition.ordered(np.broadcast_to(0, self.filter)).shape

    def _filter(self) -> Ints:
        """Return the filter's shape, open dimensions being small."""
        port, d = self.layer.inputs[1], self.definition
        shape = self.facts[port].shape if port in self.facts else None
        if shape is None:
            return tuple(Evaluation(self.ob.source, {}, Draw.of((0,))).value(port).array.shape)
        spatial = d.filter_axes[-len(d.strides) :]
        most = [3 if a in spatial else SMALL for a in range(len(shape))]
        pairs = zip(shape, most, strict=True)
        return tuple(n if isinstance(n, int) else _inside(n, m) for n, m in pairs)

    def choices(self, rng: np.random.Generator) -> Iterator[Ints]:
        """Yield shapes of the data: all open axes alike, one longer than the others, random."""
        axis = self.definition.data_axes[1]
        free = [a for a, n in enumerate(self.shape) if not isinstance(n, int) and a != axis]
        wishes = [dict.fromkeys(free, n) for n in PROBED_SIZES]
        wishes += [{a: 5 + (a == longer) for a in free} for longer in free]
        span = RANDOM_SPAN // max(len(free), 1)  # the size of a tensor is their product
        wishes += [{a: _inside(self.shape[a], 0) + int(rng.integers(span)) for a in free}]
        seen: set[Ints] = set()
        for wish in wishes:
            chosen = [_inside(n, wish.get(a, 0)) for a, n in enumerate(self.shape)]
            if not isinstance(self.shape[axis], int):
                chosen[axis] = self.ordered[0] * self.ordered[2]
            if tuple(chosen) not in seen and len(seen) < MOST_PROBED:
                seen.add(tuple(chosen))
                yield tuple(chosen)

    def trial(self, data: Ints, seed: Sequence[int]) -> float:
        """Compare once; return how likely a difference stays unseen."""
        draw, ob = Draw.of(seed), self.ob
        bound = self._bound(data, draw)
        evaluation = Evaluation(ob.source, bound, draw)
        wanted = evaluation.lift(evaluation.value(ob.wanted))
        theirs = {p: bound[s] for p, s in ob.twins.items() if s in bound}
        try:
            evaluation = Evaluation(ob.lowered, theirs, draw)
            got = evaluation.lift(evaluation.value(ob.output))
        except NoOutput as e:
            raise Differs(f"{e} (data {list(data)})") from None
        if got.array.shape != wanted.array.shape:
            shapes = f"{list(got.array.shape)}, not {list(wanted.array.shape)}"
            raise Differs(f"the output is {shapes} (data {list(data)})")
        if not np.array_equal(got.array, wanted.array):
            at = [int(v) for v in np.argwhere(got.array != wanted.array)[0]]
            raise Differs(f"the outputs differ on random data, first at {at} (data {list(data)})")
        degree, bits = max(got.degree, wanted.degree), max(got.bits, wanted.bits) + 1
        return degree / LEAST_PRIME + bits / 30 / PRIMES

    def _bound(self, data: Ints, draw: Draw) -> dict[Port, Known]:
        """Return the values from outside: the data, then tensors, then vectors of sizes."""
        layer, out = self.layer, dict[Port, Known]()
        out[layer.inputs[0]] = draw.data(data, self.facts[layer.inputs[0]].type)
        for port in self.given:
            if port not in out and not self._is_vector(port):
                out[port] = self._tensor(port, draw)
        for port in self.given:
            if port not in out:
                out[port] = self._vector(port, data, out, draw)
        return out

    def _is_vector(self, port: Port) -> bool:
        fact = self.facts[port]
        short = fact.shape is not None and len(fact.shape) <= 1
        return port == self.sizes_port or (short and fact.type in ("i64", "i32"))

    def _tensor(self, port: Port, draw: Draw) -> Residues:
        """Return random elements: of a filter of its shape, of others one for each channel."""
        fact = self.facts[port]
        if port == self.layer.inputs[1]:
            shape = self.filter
        elif fact.shape is None:
            raise Unproved("the rank of a value that is read is unknown")
        else:
            open_size = self.ordered[0] * self.ordered[1] if len(fact.shape) == 1 else SMALL
            shape = tuple(n if isinstance(n, int) else _inside(n, open_size) for n in fact.shape)
        room(shape)
        return Residues(draw.data((int(np.prod(shape)),), None).array.reshape(shape), fact.type, 1)

    def _vector(self, port: Port, data: Ints, out: dict[Port, Known], draw: Draw) -> Known:
        """Return sizes: those that the source computes, or those that a caller may ask for."""
        with suppress(Unproved):
            found = Evaluation(self.ob.source, out, draw).value(port)
            if isinstance(found, TypedArray):
                return found
        if port != self.sizes_port:
            raise Unproved(f"what {self.ob.source.of(port)} computes is not evaluated by the probe")
        d, sizes = self.definition, []
        for a, axis in enumerate(d.data_axes[2:]):
            full = (data[axis] - 1) * d.strides[a] + d.dilations[a] * (self.ordered[3 + a] - 1) + 1
            sizes.append(max(full - int(draw.rng.integers(-1, 4)), 1))
        return TypedArray(np.array(sizes, np.int64), self.facts[port].type or "i64")


def _inside(size: int | tuple[int, int | None], wish: int) -> int:
    if isinstance(size, int):
        return size
    low, high = size
    return max(low, wish) if high is None else min(max(low, wish), high)
