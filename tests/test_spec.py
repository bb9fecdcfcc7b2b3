"""Dimensions, shapes and their arithmetic; the element types."""

import itertools

import numpy as np
import pytest

from irdeconv.ir import dtypes
from irdeconv.ir.spec import (
    DYNAMIC,
    Interval,
    Spec,
    bounds,
    broadcast,
    compatible,
    format_shape,
    is_static,
    merge,
    merge_shapes,
    parse_dim,
    parse_shape,
    simplify,
)

RANGES = [(0, 0), (0, 3), (2, 5), (4, 4), (-3, 2), (-4, -1), (1, None), (-2, None)]


def members(r: tuple[int, int | None]) -> range:
    lo, hi = r
    return range(lo, (lo + 6 if hi is None else hi) + 1)


def contains(dim: object, value: int) -> bool:
    lo, hi = bounds(dim)  # type: ignore[arg-type]
    return lo <= value and (hi is None or value <= hi)


@pytest.mark.parametrize("a", RANGES)
@pytest.mark.parametrize("b", RANGES)
def test_interval_arithmetic_contains_every_result(a, b):
    x, y = Interval(*a), Interval(*b)
    for p, q in itertools.product(members(a), members(b)):
        assert contains(x + y, p + q)
        assert contains(x - y, p - q)
        assert contains(x * y, p * q)
        assert contains(x + q, p + q)
        assert contains(q - x, q - p)
        if b[0] > 0:
            assert contains(x // y, p // q)


@pytest.mark.parametrize("a", [r for r in RANGES if r[1] is not None])
@pytest.mark.parametrize("b", [r for r in RANGES if r[1] is not None])
def test_bounded_interval_arithmetic_is_tight(a, b):
    x, y = Interval(*a), Interval(*b)
    pairs = list(itertools.product(members(a), members(b)))
    for op in ("__add__", "__sub__", "__mul__"):
        exact = {getattr(p, op)(q) for p, q in pairs}
        assert bounds(getattr(x, op)(y)) == (min(exact), max(exact))
    if b[0] > 0:
        exact = {p // q for p, q in pairs}
        assert bounds(x // y) == (min(exact), max(exact))


def test_large_dimensions_do_not_overflow():
    assert Interval(2**30, 2**31) * 2**30 == Interval(2**60, 2**61)


def test_bounds_beyond_64_bits_are_open():
    assert Interval(2**62, 2**63) * 2**40 == Interval(2**63, None)
    assert Interval(1, 2**63 - 1) + 1 == Interval(2, None)
    assert Interval.of(2, 2**63) - 2 == Interval(0, None)
    assert Interval(0, 2**62) * -4 == Interval(-(2**63), 0)
    grown = Interval(2, 7)
    for _ in range(1_000):
        grown = grown * grown
    assert grown == Interval(2**63, None)


def test_numbers_of_a_value_beyond_64_bits_are_not_known():
    values = np.array([2**63, 3, Interval(1, 2)], object)
    assert list(simplify(values, dtypes.i64)) == [Interval(-(2**63), None), 3, Interval(1, 2)]
    with pytest.raises(ValueError, match="largest number of 64 bits"):
        parse_dim("18446744073709551616")


@pytest.mark.parametrize(
    ("text", "dim"),
    [("3", 3), (" 7 ", 7), ("?", DYNAMIC), ("-1", DYNAMIC), ("3..9", Interval(3, 9)),
     ("..9", Interval(0, 9)), ("3..", Interval(3, None)), ("4..4", 4)],
)  # fmt: skip
def test_parse_dim(text, dim):
    assert parse_dim(text) == dim


@pytest.mark.parametrize("text", ["", "-7", "five", "5.9", "9..3", "1e3", "٣", "3...9", "1" * 60])
def test_parse_dim_rejects(text):
    with pytest.raises(ValueError, match=r'"|range'):
        parse_dim(text)


@pytest.mark.parametrize("text", ["1,3,?,16..512", "...", "", "..9", "3.."])
def test_shape_text_round_trip(text):
    shape = parse_shape(text)
    assert parse_shape(format_shape(shape)[1:-1]) == shape


def test_merge():
    assert merge(3, DYNAMIC) == 3
    assert merge(Interval(2, 5), Interval(4, 9)) == Interval(4, 5)
    assert merge(Interval(2, 5), Interval(5, 9)) == 5
    assert merge(3, 4) is None
    assert merge_shapes((1, DYNAMIC), (DYNAMIC, 4)) == (1, 4)
    assert merge_shapes(None, (1, 2)) == (1, 2)
    with pytest.raises(ValueError, match="ranks 1 and 2"):
        merge_shapes((1,), (1, 2))
    assert compatible(None, (3,))
    assert not compatible((3,), (4,))


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [((2, 1), (3,), (2, 3)), ((1,), (0,), (0,)), ((DYNAMIC,), (3,), (3,)),
     ((DYNAMIC,), (1,), (DYNAMIC,)), ((Interval(2, 4),), (Interval(3, 9),), (Interval(3, 4),)),
     ((Interval(1, 4),), (Interval(1, 9),), (Interval(1, 9),)), (None, (3,), None)],
)  # fmt: skip
def test_broadcast(a, b, out):
    assert broadcast(a, b) == out
    assert broadcast(b, a) == out


@pytest.mark.parametrize(("a", "b"), [((2,), (3,)), ((Interval(4, 9),), (3,))])
def test_broadcast_rejects(a, b):
    with pytest.raises(ValueError, match="broadcast"):
        broadcast(a, b)


def test_spec():
    spec = Spec.of(np.zeros((2, 3), np.float16))
    assert (str(spec), spec.size, spec.nbytes, spec.rank) == ("f16[2,3]", 6, 12, 2)
    assert spec.known is not None
    partly = Spec(dtypes.i64, (2,), np.array([3, DYNAMIC], object))
    assert partly.known is None
    assert is_static((1, 2))
    assert not is_static((1, DYNAMIC))
    assert not is_static(None)


def test_every_element_type_has_one_precision():
    names = [t.precision for t in dtypes.ELEMENT_TYPES.values()]
    assert len(set(names)) == len(names)
    assert {dtypes.BY_PRECISION[p].name for p in names} == set(dtypes.ELEMENT_TYPES)


@pytest.mark.parametrize(
    ("name", "elements", "size"),
    [("u1", 11, 2), ("u3", 11, 6), ("u6", 11, 9), ("i4", 3, 2), ("f64", 2, 16), ("nf4", 5, 3)],
)
def test_packed_sizes(name, elements, size):
    assert dtypes.ELEMENT_TYPES[name].nbytes(elements) == size
