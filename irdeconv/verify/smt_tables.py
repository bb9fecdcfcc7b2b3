"""Sums of weights and of biases, exact: what is compared as numbers, outside of the formula."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from irdeconv.proof.model import Array, Port, Unproved
from irdeconv.verify.smt_reading import ConstantPart, LinearPart

Taps = tuple[int, ...]
Sums = Mapping[Port | None, Array]  # numbers (None), and element numbers of inputs
LARGEST_SUM = 2.0**52


def added(a: Array, b: Array, numbered: bool) -> Array:
    """Add two arrays; Unproved where the sum would be rounded, or is one of element numbers."""
    if numbered:
        if ((a != 0) & (b != 0)).any():
            raise Unproved("elements of a filter that is an input are added")
        return np.where(a != 0, a, b)
    out = np.asarray(a + b)
    if out.dtype.kind == "f":
        other = out - a
        exact = (a - (out - other)) + (b - other) == 0
    else:
        exact = np.abs(out.astype(np.float64)) < LARGEST_SUM
    if not np.all(exact):
        raise Unproved("a sum of weights is rounded")
    return out


@dataclass
class WeightTable:
    """The weights of a part as [M, C/g + 1, *taps]: by output channel, input channel of its group.

    Whatever reads another group's channels stands in the last column.
    """

    port: Port | None
    weights: Array
    sums: dict[tuple[Taps, ...], Array] = field(default_factory=dict)

    @staticmethod
    def of(part: LinearPart, filter: tuple[int, ...]) -> WeightTable:
        """Make the table of a part beside a filter [g, C/g, M/g, *K]."""
        count, inputs, each = filter[:3]
        rows, channels, weights = part.reading.rows, part.channels, part.weights
        relative = channels - (rows // each * inputs)[:, None]
        relative = np.where((relative >= 0) & (relative < inputs), relative, inputs)
        shape = (count * each, inputs + 1, *weights.shape[2:])
        flat = rows[:, None] * (inputs + 1) + relative
        numbered = part.reading.numbered is not None
        taps = weights.shape[2:]
        if np.unique(flat).size == flat.size:
            table = np.zeros((shape[0] * shape[1], *taps), weights.dtype)
            table[flat.reshape(-1)] = weights.reshape(-1, *taps)
        else:
            table = _collected(flat, weights, shape[0] * shape[1], numbered)
        return WeightTable(part.reading.numbered, table.reshape(shape))

    def sum(self, taps: tuple[Taps, ...]) -> Array:
        """Return the sum over the product of the taps of each axis."""
        if taps not in self.sums:
            by_tap = np.moveaxis(self.weights, (0, 1), (-2, -1))
            chosen = list(itertools.product(*taps))
            out = by_tap[chosen[0]]
            for one in chosen[1:]:
                out = added(out, by_tap[one], self.port is not None)
            self.sums[taps] = out
        return self.sums[taps]


def _collected(flat: Array, weights: Array, size: int, numbered: bool) -> Array:
    """Add up weights that belong to the same channels; other groups' by their absolute values."""
    out = np.zeros((size, *weights.shape[2:]), weights.dtype)
    for column in range(flat.shape[1]):
        at = flat[:, column]
        if np.unique(at).size != at.size:
            raise Unproved("an output channel is computed twice")
        out[at] = added(out[at], weights[:, column], numbered)
    return out


def total(parts: Sequence[tuple[Port | None, Array]]) -> Sums:
    """Add up arrays by what their numbers mean."""
    out: dict[Port | None, Array] = {}
    for port, array in parts:
        out[port] = array if port not in out else added(out[port], array, port is not None)
    return out


def differ(a: Sums, b: Sums, rounding: float) -> bool:
    """Whether two sums are not the same, up to a relative difference of numbers."""
    for port in {*a, *b}:
        left, right = (np.asarray(s.get(port, 0)) for s in (a, b))
        if port is None and rounding:
            most = np.maximum(np.abs(left), np.abs(right))
            if (np.abs(left - right) > rounding * most).any():
                return True
        elif (left != right).any():
            return True
    return False


def constants(parts: Sequence[ConstantPart], channels: int) -> list[tuple[Port | None, Array]]:
    """Return the numbers of constant parts by output channel."""
    out = []
    for p in parts:
        values = np.zeros(channels, p.values.dtype)
        values[p.reading.rows] = p.values
        out.append((p.reading.numbered, values))
    return out
