"""Tensors modulo a prime that are outer products: one vector for each axis.

A convolution of such a tensor costs what its filter and its output hold, not their product: the
channels and each spatial axis are summed on their own. What reads each axis on its own (PLACES)
and merged axes keep the form; other movements take the whole tensor (`dense`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.spec import Array
from irdeconv.verify.proof.attributes import Attributes, Ints
from irdeconv.verify.proof.evaluator import MOVEMENTS, reshape_target
from irdeconv.verify.proof.places import PLACES, axes_of, gathered, ints_of, window

PRIME = 2**31 - 1
BITS = 31
PART = 11  # 3 parts make up an element
TERMS = 2**PART


def reduced(v: Array) -> Array:
    """Return non-negative 64-bit integers modulo the prime: 2**31 is 1, so high bits are added."""
    v = np.atleast_1d(v)
    prime, bits = v.dtype.type(PRIME), v.dtype.type(BITS)
    high = v >> bits
    v = v & prime
    v += high  # at most 2**33 + 2**31
    np.right_shift(v, bits, out=high)
    v &= prime
    v += high  # at most p + 4
    np.subtract(v, prime, out=v, where=v >= prime)
    return np.asarray(v)


def times(a: Array, b: Array) -> Array:
    """Return a * b modulo the prime for elements in 0..p-1: products are below 2**62."""
    return reduced(a * b).reshape(np.broadcast_shapes(a.shape, b.shape))


def matmul(a: Array, b: Array) -> Array:
    """Return a @ b modulo the prime for elements in 0..p-1, exactly, by products of doubles.

    `b` is cut into parts of 11 bits. A sum of up to 2**11 products of 31 and 11 bits stays below
    2**53, so that doubles hold it and every sum on the way, in whatever order.
    """
    total: Array | None = None
    for at in range(0, max(a.shape[-1], 1), TERMS):
        found = _matmul(a[..., at : at + TERMS], b[..., at : at + TERMS, :])
        total = found if total is None else reduced(total + found)
    assert total is not None
    return total


@np.errstate(all="ignore")  # BLAS may raise flags on what it reads beyond short rows
def _matmul(a: Array, b: Array) -> Array:
    left, sums = a.astype(np.float64), None
    for shift in (2 * PART, PART, 0):
        part = (b >> shift) & (TERMS - 1)
        found = np.matmul(left, part.astype(np.float64)).astype(np.int64)
        sums = reduced(found if sums is None else sums * TERMS + found)
    assert sums is not None
    return sums


@dataclass(frozen=True)
class Product:
    """The tensor t[i, j, ...] = factors[0][i] * factors[1][j] * ... of int64 modulo the prime."""

    factors: tuple[Array, ...]

    @property
    def shape(self) -> Ints:
        """The sizes of the axes."""
        return tuple(f.size for f in self.factors)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.factors)

    def dense(self) -> Array:
        """Return the elements."""
        out = np.ones((), np.int64)
        for f in self.factors:
            out = times(out[..., None], f)
        return out

    def transposed(self, order: Sequence[int]) -> Product:
        """Return the axes in another order."""
        return Product(tuple(self.factors[a] for a in order))

    def reshaped(self, target: Ints) -> Product | None:
        """Return another shape of as many elements; None where an axis is taken apart."""
        if 0 in self.shape:
            return None
        rest = [f for f in self.factors if f.size > 1]
        factors = []
        for size in target:
            merged = np.ones(1, np.int64)
            while merged.size < size and rest:
                merged = times(merged[:, None], rest.pop(0)).reshape(-1)
            if merged.size != size:
                return None
            factors.append(merged)
        for f in self.factors:
            if f.size == 1:
                if not factors:
                    return None
                factors[0] = times(factors[0], f)
        return Product(tuple(factors))


def dense(x: Array | Product) -> Array:
    """Return the elements of a tensor of either kind."""
    return x.dense() if isinstance(x, Product) else np.asarray(x)


def _transpose(op: Attributes, x: Product, order: Array) -> Product:
    axes = axes_of(order, x.ndim) or list(range(x.ndim))[::-1]
    if sorted(axes) != list(range(x.ndim)):
        raise ValueError(f"{axes} is no order of {x.ndim} axes")
    return x.transposed(axes)


def _reshape(op: Attributes, x: Product, pattern: Array) -> Product | None:
    return x.reshaped(tuple(reshape_target(op, x.shape, ints_of(pattern))))


def _reading(places: Callable[..., list[Array]]) -> Callable[..., Product]:
    def rule(op: Attributes, x: Product, *vectors: Array) -> Product:
        rows = zip(x.factors, places(op, x.shape, *vectors), strict=True)
        return Product(tuple(gathered(f, [at]) for f, at in rows))

    return rule


def _ones(name: str) -> Callable[..., Product | None]:
    """Return the rule of an operation that adds or removes axes of size 1."""

    def rule(op: Attributes, x: Product, *axes: Array) -> Product | None:
        return x.reshaped(MOVEMENTS[name](op, np.broadcast_to(False, x.shape), *axes).shape)

    return rule


MOVES: dict[str, Callable[..., Product | None]] = {
    **{type: _reading(rule) for type, rule in PLACES.items()},
    "Reshape": _reshape,
    "Squeeze": _ones("Squeeze"),
    "Transpose": _transpose,
    "Unsqueeze": _ones("Unsqueeze"),
}


def product_aware(name: str, rule: Callable[..., Array]) -> Callable[..., Any]:
    """Return an operation's rule that keeps a Product where it can."""
    move = MOVES.get(name)

    def apply(op: Attributes, *inputs: Array | Product) -> Array | Product:
        if move is not None and isinstance(inputs[0], Product):
            moved = move(op, *inputs)
            if moved is not None:
                return moved
        return rule(op, *(dense(x) for x in inputs))

    return apply


def contract(x: Product, w: Array, readings: Sequence[Array]) -> Array:
    """Return y (N, g * M/g, *O) for w [g, M/g, C/g, *K]: sums over channels and taps.

    `readings[a]` [O, K] holds what output and tap read along spatial axis a, 0 for nothing.
    """
    groups, outputs, inner = w.shape[:3]
    channels = x.factors[1].reshape(groups, 1, inner, *(1,) * len(readings))
    sums = times(w, channels).sum(2)  # fewer than 2**32 terms below 2**31
    sums = reduced(sums).reshape(groups * outputs, *w.shape[3:])
    for reading in readings:
        # The first axis behind the channels is summed and comes back as the last one.
        sums = np.moveaxis(sums, 1, -1)
        sums = matmul(sums, np.ascontiguousarray(reading.T))
    return times(x.factors[0].reshape(-1, *(1,) * sums.ndim), sums)


def windows_of(x: Array, strides: int, dilation: int, taps: int, pads: tuple[int, int]) -> Array:
    """Return what a convolution reads along an axis: [O, K] of the factor x."""
    wide = gathered(x, [window(x.size, *pads)])
    outputs = max((wide.size - dilation * (taps - 1) - 1) // strides + 1, 0)
    at = strides * np.arange(outputs)[:, None] + dilation * np.arange(taps)
    return np.asarray(wide[at])


def scattered(x: Array, stride: int, dilation: int, taps: int, window: tuple[int, int]) -> Array:
    """Return what reaches the outputs of a deconvolution along an axis: [O, K] of the factor x.

    Element s meets tap k at output s * stride + k * dilation - begin, `window` being (begin, O).
    """
    begin, size = window
    reading = np.zeros((size, taps), np.int64)
    for k in range(taps):
        o = np.arange(x.size) * stride + k * dilation - begin
        kept = (o >= 0) & (o < size)
        reading[o[kept], k] = x[kept]
    return reading
