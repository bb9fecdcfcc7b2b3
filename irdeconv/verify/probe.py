"""Evaluate a source layer and its replacement exactly, modulo random primes, on random data.

Both sides are polynomials in the data. The data are an outer product of random vectors, one for
each axis: different elements are different monomials, so two sides that differ as polynomials still
do, and channels and axes are summed one after the other. Constants keep their values, modulo the
prime. Two sides that differ are equal at a random point with a probability of at most degree/p
(Schwartz and Zippel), and if the prime divides every difference of coefficients: of all primes
of 31 bits at most bits/30 do. The draws of several trials are independent.

That bounds the chance of a miss at the sizes that were evaluated, and says nothing of others.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from irdeconv.base.errors import count
from irdeconv.proof.definition import LayerDefinition, define, is_deconvolution
from irdeconv.proof.linear import NoOutput
from irdeconv.proof.model import (
    Ints,
    Layer,
    Obligation,
    Port,
    Shape,
    TypedArray,
    Unproved,
    need,
    region,
)
from irdeconv.verify.evaluation import LEAST_PRIME, PRIMES, Draw, Evaluation, Known, Residues, room

RANDOM_POINTS = 2
PROBED_SIZES = (1, 2, 3, 5, 8, 0)
RANDOM_SPAN = 100  # from the lower end of an interval, for random sizes
MOST_PROBED = 10
SMALL = 2  # an open dimension of no meaning


class Differs(Exception):
    """Both sides were evaluated and are not equal."""


@dataclass(frozen=True)
class Probed:
    """The evaluated sizes, and the probability that a difference at them stays unseen."""

    sizes: tuple[str, ...]
    probability: float

    def __str__(self) -> str:
        points = count(RANDOM_POINTS, "random point")
        return f"{points} at {count(len(self.sizes), 'size')}: {', '.join(self.sizes)}"


def fresh_seed() -> int:
    """Return an unpredictable seed."""
    return secrets.randbits(48)


def probe(ob: Obligation, seed: Sequence[int]) -> Probed:
    """Compare both sides at some sizes; Differs if they are not equal, Unproved if unknown."""
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
    return Probed(tuple(done), chance)


class _Probe:
    """An obligation with a single deconvolution that reads data from outside."""

    def __init__(self, ob: Obligation) -> None:
        self.ob = ob
        given = frozenset(ob.twins.values())
        places, read = region(ob.source, ob.wanted, lambda p, _: p in given)
        found = [ob.source.layers[i] for i in places if is_deconvolution(ob.source.layers[i])]
        if len(found) != 1 or found[0].inputs[0] not in given:
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

    @property
    def channels(self) -> Ints:
        """The numbers of channels of the data and of the output."""
        d = self.definition
        ordered = [self.filter[a] for a in d.filter_axes]
        if d.groups is None:
            return ordered[0] * ordered[1], ordered[0] * ordered[2]
        return ordered[0], ordered[1] * d.groups

    def choices(self, rng: np.random.Generator) -> Iterator[Ints]:
        """Yield shapes of the data: all open axes alike, one longer than the others, random."""
        axis = self.definition.data_axes[1]
        free = [a for a, n in enumerate(self.shape) if not isinstance(n, int) and a != axis]
        wishes = [dict.fromkeys(free, n) for n in PROBED_SIZES]
        wishes += [{a: 5 + (a == longer) for a in free} for longer in free]
        wishes += [{a: _random(rng, self.shape[a]) for a in free}]
        seen: set[Ints] = set()
        for wish in wishes:
            chosen = [_inside(n, wish.get(a, 0)) for a, n in enumerate(self.shape)]
            if not isinstance(self.shape[axis], int):
                chosen[axis] = self.channels[0]
            if tuple(chosen) not in seen and len(seen) < MOST_PROBED:
                seen.add(tuple(chosen))
                yield tuple(chosen)

    def trial(self, data: Ints, seed: Sequence[int]) -> float:
        """Compare once; return how likely a difference stays unseen."""
        draw, ob = Draw.of(seed), self.ob
        bound = self._bound(data, draw)
        wanted = _residues(Evaluation(ob.source, bound, draw), ob.wanted)
        theirs = {p: bound[s] for p, s in ob.twins.items() if s in bound}
        try:
            got = _residues(Evaluation(ob.lowered, theirs, draw), ob.output)
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
            open_size = self.channels[1] if len(fact.shape) == 1 else SMALL
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
            taps = self.filter[d.filter_axes[-len(d.strides) :][a]]
            full = (data[axis] - 1) * d.strides[a] + d.dilations[a] * (taps - 1) + 1
            sizes.append(max(full - int(draw.rng.integers(-1, 4)), 1))
        return TypedArray(np.array(sizes, np.int64), self.facts[port].type or "i64")


def _residues(evaluation: Evaluation, port: Port) -> Residues:
    return evaluation.lift(evaluation.value(port))


def _inside(size: int | tuple[int, int | None], wish: int) -> int:
    if isinstance(size, int):
        return size
    low, high = size
    return max(low, wish) if high is None else min(max(low, wish), high)


def _random(rng: np.random.Generator, size: int | tuple[int, int | None]) -> int:
    low, high = (size, size) if isinstance(size, int) else size
    most = low + RANDOM_SPAN
    return int(rng.integers(low, (most if high is None else min(high, most)) + 1))
