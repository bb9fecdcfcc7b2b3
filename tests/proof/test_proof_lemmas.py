"""The lemmas of docs/proof.md by enumeration: each against its definition, on small numbers."""

import itertools
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from irdeconv.proof.definition import Relation
from irdeconv.proof.maps import IMPOSSIBLE, NEVER, Axis, MapComparison, Read, View
from irdeconv.proof.model import Port, TypedArray, Unproved
from irdeconv.proof.sizes import Case, Expr, every_case, refuted
from irdeconv.proof.views import Leaf, defined


class Line(NamedTuple):
    """One axis of a deconvolution: I, K, S, D, window (b, O)."""

    inputs: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    outputs: int

    def relation(self) -> set[tuple[int, int, int]]:
        """All (i, k, o) with S*i + D*k = o + b."""
        box = itertools.product(*map(range, (self.inputs, self.kernel, self.outputs)))
        return {
            (i, k, o) for i, k, o in box if self.stride * i + self.dilation * k == o + self.begin
        }


LINES = [
    Line(*v)
    for v in itertools.product((0, 1, 3), (1, 2, 4), (1, 2, 3), (1, 2, 3), (-2, 0, 1, 5), (0, 1, 6))
]


def spread(line: Line, trailing: bool) -> list[int | None]:
    """Which input stands at each position between zeros."""
    inputs, stride = line.inputs, line.stride
    size = stride * inputs if trailing or not inputs else stride * (inputs - 1) + 1
    return [t // stride if t % stride == 0 else None for t in range(size)]


def at(signal: list[Any], t: int) -> Any:
    """An element of a signal, None outside."""
    return signal[t] if 0 <= t < len(signal) else None


@pytest.mark.parametrize("trailing", [False, True])
def test_zero_insertion(trailing: bool) -> None:
    for line in LINES:
        u, pads = spread(line, trailing), line.dilation * (line.kernel - 1) - line.begin
        found = set()
        for o, j in itertools.product(range(line.outputs), range(line.kernel)):
            i = at(u, o + line.dilation * j - pads)
            if i is not None:
                found.add((i, line.kernel - 1 - j, o))
        assert found == line.relation(), line


def phases(line: Line) -> Iterator[tuple[int, int, int, int]]:
    """Yield (rho, i, k, v): input i and tap k meet in output v of phase rho."""
    s, d = line.stride, line.dilation
    for rho, k in itertools.product(range(s), range(line.kernel)):
        if (d * k - rho) % s == 0:
            last = line.outputs + line.begin
            for v in range(line.begin // s, last // s + 1):
                if 0 <= v - (d * k - rho) // s < line.inputs:
                    yield rho, v - (d * k - rho) // s, k, v


def test_phases() -> None:
    for line in LINES:
        placed = [(i, k, line.stride * v + rho - line.begin) for rho, i, k, v in phases(line)]
        kept = [p for p in placed if 0 <= p[2] < line.outputs]
        assert len(kept) == len(set(kept))
        assert set(kept) == line.relation(), line


def test_phases_of_a_residue_without_taps_are_zeros() -> None:
    for line in LINES:
        common = math.gcd(line.dilation, line.stride)
        assert all(rho % common == 0 for rho, *_ in phases(line)), line


def test_stacked() -> None:
    """One convolution for all phases: tap t of phase rho is k with D*k = S*t + rho, or a zero."""
    for line in (x for x in LINES if x.dilation == 1):
        s, taps = line.stride, -(-line.kernel // line.stride)
        found = set()
        for rho, t, i in itertools.product(range(s), range(taps), range(line.inputs)):
            k, o = s * t + rho, s * (i + t) + rho - line.begin
            if k < line.kernel and 0 <= o < line.outputs:
                found.add((i, k, o))
        assert found == line.relation(), line


def test_gemm() -> None:
    """K = q*S: q products, each moved by S; where q is 1, an output meets one input and tap."""
    for inputs, stride, q in itertools.product((0, 1, 4), (1, 2, 3), (1, 2)):
        line = Line(inputs, q * stride, stride, 1, 0, stride * inputs + (q - 1) * stride)
        found = {
            (i, block * stride + k, stride * (i + block) + k)
            for i, k, block in itertools.product(range(inputs), range(stride), range(q))
        }
        assert found == line.relation(), line
        assert q > 1 or len({o for _, _, o in found}) == line.outputs


def test_windows_compose_with_bounds() -> None:
    """The window of a window is the window of the signal that is zero outside of the first."""
    u = [1, 2, 3, 4, 5]
    for b, size, c, count in itertools.product((-2, 0, 2, 4), (0, 1, 4, 8), (-3, 0, 1), (1, 7)):
        first = [at(u, o + b) for o in range(size)]
        second = [at(first, o + c) for o in range(count)]
        bounded = [u[t] if b <= t < b + size else None for t in range(len(u))]
        assert second == [at(bounded, o + b + c) for o in range(count)]


def test_groups_are_a_filter_with_zeros() -> None:
    rng = np.random.default_rng(0)
    w, x = rng.integers(-5, 5, (2, 3, 4)), rng.integers(-5, 5, (6,))
    dense = np.zeros((6, 8), int)
    for h in range(2):
        dense[3 * h : 3 * h + 3, 4 * h : 4 * h + 4] = w[h]
    assert np.array_equal(x @ dense, np.einsum("hc,hcm->hm", x.reshape(2, 3), w).ravel())


def test_without_inputs_all_is_zero() -> None:
    assert all(not line.relation() for line in LINES if not line.inputs)


class Taps(NamedTuple):
    """One axis of a convolution: I, K, S, D, pads at its begin and end, which may be negative."""

    inputs: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def outputs(self) -> int:
        reach = self.dilation * (self.kernel - 1) + 1
        return max((self.inputs + self.begin + self.end - reach) // self.stride + 1, 0)

    def relation(self) -> set[tuple[int, int, int]]:
        """All (i, k, o) with S*o + D*k = i + b."""
        box = itertools.product(*map(range, (self.inputs, self.kernel, self.outputs)))
        return {
            (i, k, o) for i, k, o in box if self.stride * o + self.dilation * k == i + self.begin
        }


TAPS = [
    Taps(*v)
    for v in itertools.product(
        (1, 2, 5, 8), (1, 2, 3), (1, 2, 4), (1, 2, 3), (-3, -1, 0, 2), (-2, 1)
    )
    if v[0] + v[4] + v[5] > v[3] * (v[1] - 1)
]


def test_strides_in_steps_and_slices() -> None:
    """Every n-th output of a stride S / n is the output of S."""
    for taps in TAPS:
        for n in (n for n in (1, 2, 4) if taps.stride % n == 0):
            fine = taps._replace(stride=taps.stride // n)
            found = {(i, k, o // n) for i, k, o in fine.relation() if o % n == 0}
            assert found == taps.relation(), taps
            assert -(-fine.outputs // n) == taps.outputs


def test_crops_are_zeros_in_the_filter() -> None:
    for taps in TAPS:
        front, back = (-(min(v, 0) // taps.dilation) for v in (taps.begin, taps.end))
        more = [taps.dilation * n for n in (front, back)]
        kernel, pads = taps.kernel + front + back, (taps.begin + more[0], taps.end + more[1])
        wide = Taps(taps.inputs, kernel, taps.stride, taps.dilation, *pads)
        assert min(pads) >= 0
        assert wide.outputs == taps.outputs
        found = {(i, k - front, o) for i, k, o in wide.relation()}
        assert {p for p in found if 0 <= p[1] < taps.kernel} == taps.relation(), taps


def test_pads_by_a_copy_and_strides_of_zeros_compose() -> None:
    """A convolution behind one tap of 1 reads the padded data; a stride is one of zeros, twice."""
    for taps in TAPS:
        apart = Taps(taps.inputs + taps.begin + taps.end, *taps[1:4], 0, 0)
        moved = {(i - taps.begin, k, o) for i, k, o in apart.relation()}
        assert {p for p in moved if 0 <= p[0] < taps.inputs} == taps.relation(), taps
    for line in LINES:
        for first in (f for f in (1, 2, 3) if line.stride % f == 0):
            copied = spread(line._replace(stride=first), False)
            rest = line._replace(stride=line.stride // first, inputs=len(copied))
            pairs = {(copied[t], k, o) for t, k, o in rest.relation()}
            assert {p for p in pairs if p[0] is not None} == line.relation(), line


# Taps


def pairs_met(out: Axis, read: Read, residue: int, t: int, live: int) -> set[tuple[int, int]]:
    """All (i, o): output o reads input i through tap t, at a place with this remainder."""
    found, axis = set(), read.axis
    for v in range(-30, 30):
        o = out.radix * v + residue - out.shift
        place = read.stride * v + read.dilation * t - read.pad + axis.shift
        i, rest = divmod(place, axis.radix)
        there = [*out.inside(o + out.shift), *axis.inside(place)]
        there += [e for low, high in read.bounds for e in (v - low, high - 1 - v)]
        if rest == live and min(there) >= 0:
            found.add((i, o))
    return found


def checked_taps(rng: np.random.Generator, forward: bool) -> int:
    """Hold what is said of the taps of a random axis against all pairs; return how many match."""
    inputs, kernel, outputs = (int(n) for n in rng.integers(1, (6, 4, 9)))
    r, inner, stride, dilation = (int(n) for n in rng.integers(1, (4, 3, 4, 3)))
    up, down = (stride, r * inner) if forward else (r * inner, stride)
    begin, shift, moved, pad, low, high = (int(n) for n in rng.integers(-2, (4, 3, 3, 4, 2, 9)))
    whole = (0, inputs * inner)
    taken = Axis(int(rng.integers(1, 12)), 1, inner, moved, (whole, (low, 2 * high)))
    live = tuple(range(int(rng.integers(1, inner + 1))))
    bounds = ((low, high),) * int(rng.integers(2))
    read = Read(taken, int(rng.integers(1, 4)), pad, live, bounds, stride)
    out, emitted = Axis(outputs, 1, r, shift), int(rng.integers(1, 5))
    s, residue = max(up // down, 1), int(rng.integers(r))
    d, step = SimpleNamespace(data_axes=(0, 1, 2)), (s, 1, -dilation, -begin)
    along = Relation(*((1, s, dilation, begin) if forward else step), inputs, kernel, outputs)
    data, zeros = Leaf(Port(0), "f32", (1, 1, inputs)), np.zeros((1, 1, 1, kernel))
    wanted = defined(data, cast(Any, d), TypedArray(zeros, "f32"), [along])
    comparison = MapComparison(Case(), wanted, View("f32", np.zeros(1), (), ()))
    try:
        stands, reached = comparison._taps(0, out, residue, emitted, read)
    except Unproved:
        return 0
    right: list[set[tuple[int, int]]] = [set() for _ in range(kernel)]
    for i, k, o in itertools.product(*map(range, (inputs, kernel, outputs))):
        sides = (s * o + dilation * k, i) if forward else (s * i + dilation * k, o)
        if sides[0] == sides[1] + begin and (o + shift) % r == residue:
            right[k].add((i, o))
    for (t, rest), k in zip(itertools.product(range(emitted), live), stands, strict=True):
        found = pairs_met(out, read, residue, t, rest)
        assert k != NEVER or not found
        assert k < 0 or found == right[k]
    assert all(reached[k] != IMPOSSIBLE or not right[k] for k in range(kernel))
    return sum(k >= 0 and bool(right[k]) for k in stands)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("forward", [False, True])
def test_what_is_said_of_taps_holds_for_all_pairs(forward: bool) -> None:
    rng = np.random.default_rng(5)
    assert sum(checked_taps(rng, forward) for _ in range(2500)) > 50


# Deciding


def test_what_is_refuted_has_no_solution() -> None:
    """Random systems in a box: a refuted one has no integer point; many empty ones are refuted."""
    rng, box = np.random.default_rng(1), range(-3, 4)
    points = np.array(list(itertools.product(box, repeat=3)))
    empty = found = 0
    for _ in range(300):
        rows = [(rng.integers(-3, 4, 3), int(rng.integers(-4, 5))) for _ in range(6)]
        holds = np.all([points @ a + c >= 0 for a, c in rows], axis=0).any()
        names = [((1, "x"),), ((2, "y"),), ((3, "z"),)]
        system = [(tuple(zip(names, map(int, a), strict=True)), c) for a, c in rows]
        system += [(((n, sign),), 3) for n in names for sign in (1, -1)]
        answer = refuted(tuple(system))
        assert not (answer and holds), rows
        empty, found = empty + (not holds), found + answer
    assert found > 0.8 * empty > 0


def value(e: Any, sizes: dict[str, int]) -> int:
    """The number that an expression in named sizes is."""
    if not isinstance(e, Expr):
        return int(e)
    return e.constant + sum(c * math.prod(sizes[name] for _, name in m) for m, c in e.terms.items())


def test_quotients_are_defined_by_their_facts() -> None:
    for c, a, b in itertools.product((1, 2, 3, 7), (-3, -1, 1, 4), (-5, 0, 3)):
        case = Case()
        n = case.symbol("n", 0, 20)
        q, r = (n * a + b) // c, (n * a + b) % c
        assert case.implies(r)
        assert case.implies(c - 1 - r)
        for size in range(21):
            names = {name for f in case.facts for m in f.terms for _, name in m} - {"n"}
            fitting = [
                sizes
                for o in itertools.product(range(-20, 30), repeat=len(names))
                if (sizes := {"n": size, **dict(zip(sorted(names), o, strict=True))})
                and all(value(f, sizes) >= 0 for f in case.facts)
            ]
            assert [value(q, s) for s in fitting] == [(size * a + b) // c]


def test_cases_cover_all_sizes() -> None:
    """Every size meets the facts of exactly one case, and its answers are true there."""
    seen: list[tuple[Case, list[tuple[Any, bool]]]] = []

    def prove(case: Case) -> None:
        n, m = case.symbol("n", 0, 12), case.symbol("m", 0, 12)
        asked = [n - m, n + m - 9, n * 2 - m + 1]
        answers = [(asked[0], asked[0] >= 0)]
        answers.append((asked[1], asked[1] >= 0) if answers[0][1] else (asked[2], asked[2] >= 0))
        seen.append((case, answers))

    assert every_case(prove) == len(seen) == 4
    for n, m in itertools.product(range(13), repeat=2):
        sizes = {"n": n, "m": m}
        fitting = [a for case, a in seen if all(value(f, sizes) >= 0 for f in case.facts)]
        assert len(fitting) == 1
        assert all((value(e, sizes) >= 0) == yes for e, yes in fitting[0])
