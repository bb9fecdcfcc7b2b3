"""Bytes to arrays and back for every element type; expected values are worked out by hand."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Value
from irdeconv.ir.packing import NF4, decode, encode

BIT_LAYOUTS = [
    ("u1", "81", [1, 0, 0, 0, 0, 0, 0, 1]),
    ("u1", "a0", [1, 0, 1]),
    ("u2", "1b", [3, 2, 1, 0]),
    ("u2", "0601", [2, 1, 0, 0, 1]),
    ("u3", "1b0000", [0, 1, 2, 3, 0, 0, 0, 0]),
    ("u3", "001b00", [0, 0, 0, 0, 0, 1, 2, 3]),
    ("u3", "000081", [4, 0, 0, 0, 0, 0, 0, 4]),
    ("u3", "1be481", [4, 1, 2, 3, 3, 2, 1, 4]),
    ("u6", "1b0000", [1, 11, 0, 0]),
    ("u6", "005a00", [0, 0, 5, 10]),
    ("u6", "00005a", [16, 16, 32, 32]),
    ("u4", "1f", [15, 1]),
    ("i4", "8f", [-1, -8]),
    ("i4", "0703", [7, 0, 3]),
    ("nf4", "f0", [-1.0, 1.0]),
    ("f4e2m1", "10325476", [0, 0.5, 1, 1.5, 2, 3, 4, 6]),
    ("f4e2m1", "98badcfe", [-0.0, -0.5, -1, -1.5, -2, -3, -4, -6]),
    ("f8e4m3", "38bc7e", [1, -1.5, 448]),
    ("f8e5m2", "3cbe7b", [1, -1.5, 57344]),
    ("f8e8m0", "7f8000", [1, 2, 2.0**-127]),
    ("bf16", "803fc0bf", [1, -1.5]),
    ("f16", "003c00be", [1, -1.5]),
    ("boolean", "000102", [False, True, True]),
    ("i64", "ffffffffffffffff", [-1]),
    ("u64", "ffffffffffffffff", [2**64 - 1]),
]


@pytest.mark.parametrize(("name", "raw", "expected"), BIT_LAYOUTS)
def test_layout(name: str, raw: str, expected: list[float]) -> None:
    dtype = ELEMENT_TYPES[name]
    got = decode(bytes.fromhex(raw), dtype, (len(expected),))
    assert got.dtype == dtype.container
    assert got.astype(object).tolist() == expected
    assert not got.flags.writeable
    if name != "boolean":
        padded = encode(got, dtype)
        assert padded.hex() == raw


@pytest.mark.parametrize("name", [n for n in ELEMENT_TYPES if n != "string"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33])
def test_round_trip(name: str, count: int) -> None:
    dtype = ELEMENT_TYPES[name]
    rng = np.random.default_rng(count)
    raw = rng.integers(0, 2 if name == "boolean" else 256, dtype.nbytes(count), dtype=np.uint8)
    values = decode(raw.tobytes(), dtype, (count,))
    assert values.shape == (count,)
    again = encode(values, dtype)
    assert len(again) == dtype.nbytes(count)
    assert decode(again, dtype, (count,)).tobytes() == values.tobytes()


def test_whole_byte_types_are_views() -> None:
    raw = memoryview(bytes(range(1, 18)))
    got = decode(raw[1:17], ELEMENT_TYPES["f64"], (2,))
    assert np.shares_memory(got, np.frombuffer(raw, np.uint8))
    assert got.view(np.uint8).reshape(-1).tolist() == list(range(2, 18))


def test_nf4_takes_the_nearest() -> None:
    between = np.array([-1.0, -0.99, -0.8, 0.01, 0.9, 5.0], np.float32)
    got = decode(encode(between, ELEMENT_TYPES["nf4"]), ELEMENT_TYPES["nf4"], (6,))
    assert got.tolist() == [NF4[0], NF4[0], NF4[1], NF4[7], NF4[15], NF4[15]]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("u4", [16], r"16 does not fit u4 \(0..15\)"),
        ("i4", [8, -9], r"-9 does not fit i4 \(-8..7\)"),
        ("u1", [2], r"2 does not fit u1 \(0..1\)"),
        ("u6", [64], r"64 does not fit u6 \(0..63\)"),
    ],
)
def test_values_out_of_range(name: str, values: list[int], message: str) -> None:
    dtype = ELEMENT_TYPES[name]
    with pytest.raises(ValueError, match=message):
        encode(np.array(values, dtype.container), dtype)


@pytest.mark.parametrize(
    ("name", "size", "shape", "message"),
    [
        ("f32", 8, (3,), "3 elements of f32 take 12 bytes, there are 8"),
        ("u3", 3, (9,), "9 elements of u3 take 6 bytes, there are 3"),
        ("i4", 1, (3,), "3 elements of i4 take 2 bytes, there are 1"),
        ("f32", 8, (2**40, 2**40), "take 4835703278458516698824704 bytes"),
        ("f32", 4, (0, 3), "0 elements of f32 take 0 bytes, there are 4"),
    ],
)
def test_wrong_size(name: str, size: int, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(bytes(size), ELEMENT_TYPES[name], shape)


def test_empty_constant_may_have_one_byte() -> None:
    assert decode(b"\0", ELEMENT_TYPES["f32"], (0, 3)).shape == (0, 3)


def packed(count: int, offsets: list[int], text: bytes = b"") -> bytes:
    return struct.pack(f"<{1 + len(offsets)}i", count, *offsets) + text


STRING = ELEMENT_TYPES["string"]


def test_strings() -> None:
    raw = packed(4, [0, 2, 2, 7, 8], "abhééx".encode())
    got = decode(raw, STRING, (2, 2))
    assert got.tolist() == [["ab", ""], ["héé", "x"]]
    assert encode(got, STRING) == raw
    assert decode(packed(0, [0]), STRING, (0,)).shape == (0,)
    assert decode(b"\0", STRING, (0,)).shape == (0,)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "starts with a 4-byte count, there are 0 bytes"),
        (packed(-1, [0]), "the string count is negative: -1"),
        (packed(2_000_000_000, [0, 1]), "header of 2000000000 strings takes 8000000008 bytes"),
        (packed(2, [0, 1, 2], b"ab"), "the tensor holds 2 strings, its shape wants 1"),
        (packed(1, [-1, 1], b"ab"), "string offset 0 is negative: -1"),
        (packed(1, [1, 0], b"ab"), "string 0 ends at 0, before it begins at 1"),
        (packed(1, [0, 3], b"ab"), "the strings end at 3, there are 2 bytes of text"),
        (packed(1, [0, 2], b"a\xff"), "string 0 is not UTF-8: byte 0xff at 1"),
    ],
)
def test_malformed_strings(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(raw, STRING, (1,))


@pytest.mark.parametrize(
    ("type_", "numbers", "want"),
    [
        ("i4", [7, -8, 3], [-2, 0, 6]),
        ("u4", [15, 8, 3], [14, 0, 6]),
        ("u2", [3, 2, 1], [2, 0, 2]),
        ("i8", [127, -128, 3], [-2, 0, 6]),
    ],
)
def test_sums_keep_the_low_bits(type_: str, numbers: list[int], want: list[int]) -> None:
    """Inferred, folded, run and written alike: a container has room for more than its type."""
    layers = f"""%0 "x" = opset1.Parameter() {{element_type = {type_}, shape = [3]}} : {type_}[3]
      %1 "c" = opset1.Const() {{element_type = {type_}, shape = [3], data = {numbers}}}"""
    ends = '%2 "a" = opset1.Add({0}, {0}) %3 "y" = opset1.Result(%2)'
    known = ird.infer(ird.parse(f'graph 1 "g" {{ {layers} {ends.format("%1")} }}'))
    x = np.array(numbers, ELEMENT_TYPES[type_].container)
    (sums,) = ird.run(known, [x]).values()
    assert sums.tolist() == want
    assert known.spec(Value(2)).known.tolist() == want  # type: ignore[union-attr]
    simple, _ = ird.simplify(known)
    assert f"data = {want}" in ird.dump(simple)
    given = ird.infer(ird.parse(f'graph 1 "g" {{ {layers} {ends.format("%0")} }}'))
    for trace in (None, lambda node, arrays: None):  # as planned, and node by node
        (sums,) = ird.run(given, [x], trace=trace).values()
        assert sums.tolist() == want
