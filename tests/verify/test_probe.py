"""The probe's arithmetic, held against Python's unbounded integers and plain loops."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.proof.definition import readings
from irdeconv.proof.model import Unproved
from irdeconv.verify import evaluation
from irdeconv.verify.check import probe_layers
from irdeconv.verify.evaluation import (
    LEAST_PRIME,
    PART,
    PRIMES_END,
    TERMS,
    PrimeField,
    is_prime,
    random_prime,
)
from random_dialects import weights
from support.fixtures import Patch
from support.layers import Layer, build

pytestmark = pytest.mark.thorough

P = 2_147_483_629  # the largest prime below 2**31 - 1
NUMBERS = PrimeField(P)


def elements(rng: np.random.Generator, *shape: int) -> Any:
    """Random elements; a fifth of them the largest one."""
    return np.where(rng.random(shape) < 0.2, P - 1, rng.integers(0, P, shape))


def exact(array: Any) -> Any:
    """The same as unbounded integers."""
    return array.astype(object)


def test_primes() -> None:
    sieve = np.ones(5000, bool)
    sieve[:2] = False
    for n in range(2, 71):
        sieve[2 * n :: n] = False
    assert [n for n in range(9, 5000) if is_prime(n)] == [int(n) for n in np.flatnonzero(sieve)][4:]
    assert is_prime(P)
    assert is_prime(2**31 - 1)
    # Composites that pass for some of the witnesses.
    assert not any(map(is_prime, (2047, 1373653, 25326001, 1122004669, 2**31 - 3)))
    drawn = {random_prime(np.random.default_rng(seed)) for seed in range(20)}
    assert len(drawn) == 20
    assert all(LEAST_PRIME <= n < PRIMES_END and is_prime(n) for n in drawn)


@pytest.mark.parametrize("terms", [0, 1, 7, TERMS, TERMS + 1, 2 * TERMS + 3])
def test_matmul_is_exact(terms: int) -> None:
    rng = np.random.default_rng(terms)
    for a, b in (
        (elements(rng, 2, 3, terms), elements(rng, 2, terms, 4)),
        (np.full((1, terms), P - 1), np.full((terms, 1), P - 1)),
    ):
        want = (exact(a) @ exact(b)) % P if terms else np.zeros((*a.shape[:-1], b.shape[-1]))
        assert np.array_equal(np.broadcast_to(NUMBERS.matmul(a, b), want.shape), want)
    assert PRIMES_END.bit_length() - 1 <= 3 * PART


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_residues_of_real_numbers(dtype: Any) -> None:
    limits = np.finfo(dtype)
    rng = np.random.default_rng(1)
    plain = rng.standard_normal(50).astype(dtype)
    some = [0, -0.0, 1, -1, limits.max, limits.tiny, limits.smallest_subnormal, 1 + limits.eps]
    values = np.concatenate([np.array(some, dtype), plain])
    for value, found in zip(values, NUMBERS.of(values), strict=True):
        fraction = Fraction(float(value))
        assert int(found) == fraction.numerator * pow(fraction.denominator, -1, P) % P
    with pytest.raises(Unproved, match="not finite"):
        NUMBERS.of(np.array([np.inf], dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.bool_])
def test_residues_of_integers(dtype: Any) -> None:
    ends = [0, 1] if dtype is np.bool_ else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 7]
    values = np.array(ends, dtype)
    assert NUMBERS.of(values).tolist() == [int(v) % P for v in values]


def test_products_and_inverses() -> None:
    rng = np.random.default_rng(0)
    a, b = elements(rng, 50), np.maximum(elements(rng, 50), 1)
    assert NUMBERS.times(a, b).tolist() == [int(x) * int(y) % P for x, y in zip(a, b, strict=True)]
    assert (NUMBERS.times(NUMBERS.inverse(b), b) == 1).all()
    with pytest.raises(Unproved, match="divided by 0"):
        NUMBERS.inverse(np.array([3, 0]))


def test_factors_of_outer_products() -> None:
    rng = np.random.default_rng(5)
    vectors = [elements(rng, n) for n in (2, 1, 3, 4)]
    x = NUMBERS.outer(vectors)
    a, b, c, d = map(exact, vectors)
    want = a[:, None, None, None] * b[:, None, None] * c[:, None] * d % P
    assert np.array_equal(x, want)
    x[0] = 0  # as a crop or an inserted zero leaves it
    found = NUMBERS.factors(x)
    assert found is not None
    assert np.array_equal(NUMBERS.outer(found), x)
    x[1, 0, 2, 3] = (x[1, 0, 2, 3] + 1) % P
    assert NUMBERS.factors(x) is None
    zeros = NUMBERS.factors(np.zeros((2, 3), np.int64))
    assert zeros is not None
    assert not NUMBERS.outer(zeros).any()


SHAPES = [((2, 6, 5), (3,), 2), ((1, 4, 3, 5), (2, 3), 1), ((2, 2, 2, 3, 2), (2, 1, 3), 2)]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize(("shape", "kernel", "groups"), SHAPES)
def test_sums_are_those_of_the_definitions(
    shape: tuple[int, ...], kernel: tuple[int, ...], groups: int, split: bool
) -> None:
    """Data that are an outer product are summed axis by axis, others tap by tap."""
    rng = np.random.default_rng(len(shape))
    inner, outputs, axes = shape[1] // groups, 3, len(kernel)
    vectors = [elements(rng, n) for n in shape]
    x = NUMBERS.outer(vectors) if split else elements(rng, *shape)
    assert (NUMBERS.factors(x) is not None) == split
    w = elements(rng, groups, outputs, inner, *kernel)
    strides, dilations, begin = (2, 3, 1)[:axes], (1, 2, 1)[:axes], (1, -1, 0)[:axes]
    steps = list(zip(strides, dilations, strict=True))
    ends = [(*step, b) for step, b in zip(steps, begin, strict=True)]
    for forward, outs in ((False, (9, 11, 4)), (True, (2, 3, 4))):
        sizes = outs[:axes]
        rows = zip(shape[2:], begin, sizes, steps, kernel, strict=True)
        got = NUMBERS.contract(x, w, [readings(*row, forward) for row in rows])
        want = np.zeros((shape[0], groups * outputs, *sizes), object)
        for n, g, m, c in itertools.product(*map(range, (shape[0], groups, outputs, inner))):
            for s in itertools.product(*map(range, shape[2:])):
                for k in itertools.product(*map(range, kernel)):
                    value = int(x[(n, g * inner + c, *s)]) * int(w[(g, m, c, *k)])
                    if not forward:
                        reached = [
                            [i * t + j * d - b] for i, j, (t, d, b) in zip(s, k, ends, strict=True)
                        ]
                    else:  # all o with o*S + k*D - begin == s
                        reached = [
                            [o for o in range(size) if o * t + j * d - b == i]
                            for size, i, j, (t, d, b) in zip(sizes, s, k, ends, strict=True)
                        ]
                    for at in itertools.product(*reached):
                        if all(0 <= o < size for o, size in zip(at, sizes, strict=True)):
                            want[(n, g * outputs + m, *at)] += value
        assert np.array_equal(got, want % P)


def simple(size: tuple[int, int] = (4, 5), channels: int = 2) -> ird.Graph:
    layer = Layer(1, size, None, channels, 3, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    w = weights(np.random.default_rng(1), layer.filter_shape)
    graph, _ = build(layer, np.zeros((1,), np.float32), w, data_shape=layer.data_shape)
    return ird.infer(graph)


def test_the_seed_is_fresh_and_can_be_repeated() -> None:
    source = simple()
    low = ird.lower(source).graph
    seeds = {probe_layers(source, low).seed for _ in range(3)}
    assert len(seeds) == 3
    again = probe_layers(source, low, seed=11)
    assert again.seed == 11
    assert again == probe_layers(source, low, seed=11)
    assert 0 < (again.error_probability or 1) < 1e-12


def test_weights_that_differ_by_a_prime_are_told_apart() -> None:
    """Whoever knows the prime can hide a difference behind it: it is drawn with the data."""
    source = simple()
    low = ird.lower(source).graph
    for p in (2**31 - 1, P):
        other = low.copy()
        (convolution,) = other.nodes("Convolution")
        weight = other.inputs_of(convolution.id)[1]
        from support.mutants import array_of, with_input

        array = np.array(array_of(other, weight), np.float64)
        array.reshape(-1)[4] += p
        mutant = with_input(other, convolution, 1, array)
        report = probe_layers(source, mutant)
        assert report.differs, str(report)


def test_what_is_too_large_is_not_probed(monkeypatch: Patch) -> None:
    source = simple()
    low = ird.lower(source).graph
    monkeypatch.setattr(evaluation, "LARGEST_PROBED", 100)
    report = probe_layers(source, low)
    assert not report.passed
    assert not report.differs
    assert "the most that the probe holds" in (report.layers[0].reason or "")


def test_layers_of_many_products_are_probed_by_their_axes(monkeypatch: Patch) -> None:
    """A side sums K taps of the last axis for each output, the layer C K K / (S S): 64 times more.

    Two sides make a thirty-second; the other axis and the channels cost less than that.
    """
    count, plain = 0, PrimeField.matmul

    def counted(self: PrimeField, a: Any, b: Any) -> Any:
        nonlocal count
        count += a.size * b.shape[-1]
        return plain(self, a, b)

    monkeypatch.setattr(PrimeField, "matmul", counted)
    monkeypatch.setattr("irdeconv.verify.probe.RANDOM_POINTS", 1)
    layer = Layer(1, (128, 160), None, 64, 32, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
    assert layer.products > 5 * 10**8
    w = weights(np.random.default_rng(3), layer.filter_shape)
    graph, _ = build(layer, np.zeros((1,), np.float32), w, data_shape=layer.data_shape)
    source = ird.infer(graph)
    for form in ("zero-insertion", "phases", "stacked"):
        low = ird.lower(source, form).graph
        count = 0
        report = probe_layers(source, low)
        assert report.passed, str(report)
        assert 0 < count < layer.products / 10
