"""Bucketize, SearchSorted, shifts of bits, ConvertPromoteTypes, strings."""

from __future__ import annotations

from functools import partial
from typing import Any

from op_cases import (
    Case,
    Tensor,
    bf16,
    boolean,
    case,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    tensor,
    u8,
    u64,
)

string = partial(tensor, "string")
RIGHT, LEFT = 'with_right_bound="true"', 'with_right_bound="false"'
X = f32([[-1, 0, 0.5], [2, 2.5, 9]])
BOUNDS = f32([0, 2, 9])
ROWS = f32([[1, 3, 5, 7], [2, 2, 2, 8]])
ASKED = f32([[0, 3, 9], [2, 1, 8]])
UNSAFE, TORCH = 'promote_unsafe="true"', 'pytorch_scalar_promotion="true"'


def promoted(attributes: str, a: Tensor, b: Tensor, kind: Any) -> Case:
    """Both as the type `kind` makes."""
    wanted = [kind(a.values), kind(b.values)]
    return case("ConvertPromoteTypes-14", attributes, [a, b], wanted)


CASES = [
    case("Bucketize-3", f'output_type="i64" {RIGHT}', [X, BOUNDS], i64([[0, 0, 1], [1, 2, 2]])),
    case("Bucketize-3", f'output_type="i32" {LEFT}', [X, BOUNDS], i32([[0, 1, 1], [2, 2, 3]])),
    case("Bucketize-3", 'output_type="i64"', [X, f32([])], i64([[0, 0, 0], [0, 0, 0]])),
    case("Bucketize-3", 'output_type="i32"', [i64([[3, 4]]), f32([2.5, 3.5])], i32([[1, 2]])),
    case("Bucketize-3", 'output_type="i32"', [f32([[3, 3.5]]), i32([3, 4])], i32([[0, 1]])),
    case("SearchSorted-15", "", [ROWS, ASKED], i64([[0, 1, 4], [0, 0, 3]])),
    case("SearchSorted-15", 'right_mode="true"', [ROWS, ASKED], i64([[0, 2, 4], [3, 0, 4]])),
    case(
        "SearchSorted-15",
        'output_type="i32"',
        [i32([1, 3, 5]), i32([[[0, 3], [4, 9]]])],
        i32([[[0, 1], [2, 3]]]),
    ),
    case(
        "BitwiseLeftShift-15", "", [i32([[1, -3], [5, 0]]), i32([4, 1])], i32([[16, -6], [80, 0]])
    ),
    case("BitwiseLeftShift-15", "", [i8([1, -128, 100]), i8([7, 1, 2])], i8([-128, 0, -112])),
    case("BitwiseLeftShift-15", "", [u8([255, 3]), u8(1)], u8([254, 6])),
    case("BitwiseRightShift-15", "", [i32([-7, 7, -1]), i32([1, 1, 31])], i32([-4, 3, -1])),
    case("BitwiseRightShift-15", "", [u8([[255], [3]]), u8([7, 1])], u8([[1, 127], [0, 1]])),
    case(
        "BitwiseLeftShift-15",
        "",
        [i32([7, 7, 7]), i32([33, -1, 32])],
        i32([0, 0, 0]),
        defect="shifts out of 32 bits",
    ),
    case(
        "BitwiseRightShift-15",
        "",
        [i32([7, -7]), i32([-1, 33])],
        i32([0, -1]),
        defect="shifts out of 32 bits",
    ),
    case("BitwiseRightShift-15", "", [i64([1024, -5]), i64([3, 0])], i64([128, -5])),
    promoted("", f32([1.5]), f32([2]), f32),
    promoted("", i8([-5]), f16([2.5]), f16),
    promoted("", i16([-300]), f32([[2.5]]), f32),
    promoted("", boolean([1, 0]), u8([7]), u8),
    promoted("", u8([200]), i16([-3]), i16),
    promoted("", f16([0.5]), f64([0.25]), f64),
    promoted(UNSAFE, u8([200]), i8([-3]), i16),
    promoted(UNSAFE, i64([3]), f16([0.5]), f16),
    promoted(UNSAFE, bf16([3]), f16([0.5]), f32),
    promoted(UNSAFE, u64([3]), i32([-5]), f32),
    promoted(f'{UNSAFE} u64_integer_promotion_target="f64"', i8([-3]), u64([5]), f64),
    promoted(TORCH, f16([0.5, 3]), f16([[2.5]]), f16),
    promoted(TORCH, i8([-5, 3]), f16(2.5), f16),
    promoted(f"{TORCH} {UNSAFE}", f32([0.5, 3]), f64(2.5), f32),
    promoted(f"{TORCH} {UNSAFE}", i64(-5), u8([2, 3]), lambda v: u8(v)),
    case(
        "StringTensorUnpack-15",
        "",
        [string([["ab", "é"], ["", "xyz"]])],
        [i32([[0, 2], [4, 4]]), i32([[2, 4], [4, 7]]), u8([97, 98, 195, 169, 120, 121, 122])],
    ),
    case(
        "StringTensorPack-15",
        "",
        [i32([[0, 1]]), i32([[3, 1]]), u8([97, 195, 169, 98])],
        string([["aé", ""]]),
    ),
    case("StringTensorPack-15", "", [i64([2]), i64([4]), u8([97, 98, 99, 100])], string(["cd"])),
]
