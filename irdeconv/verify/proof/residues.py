"""Arithmetic modulo a prime below 2**31, exact in 64-bit integers and in products of doubles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.proof.model import Array, Ints, Unproved

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


def gathering(size: int, begin: int, outputs: int, step: tuple[int, int], taps: int) -> Array:
    """Return what a convolution reads along an axis: o*S + k*D - begin, -1 outside; [O, K]."""
    at = np.arange(outputs)[:, None] * step[0] + np.arange(taps) * step[1] - begin
    return np.where((at >= 0) & (at < size), at, -1)


def scattering(size: int, begin: int, outputs: int, step: tuple[int, int], taps: int) -> Array:
    """Return what reaches the outputs of a deconvolution along an axis: (o + begin - k*D)/S."""
    at = np.arange(outputs)[:, None] + begin - np.arange(taps) * step[1]
    place = at // step[0]
    return np.where((at % step[0] == 0) & (place >= 0) & (place < size), place, -1)


def shape_of(shape: Ints) -> Array:
    """Return an array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros((), np.int64), shape)
