"""Unique, Eye."""

from __future__ import annotations

from op_cases import case, f32, i32, i64

LINE = f32([3, 1, 3, 2, 1, 3])
ROWS = f32([[1, 2], [0, 5], [1, 2]])
EYE = 'output_type="f32"'

CASES = [
    case(
        "Unique-10",
        "",
        [LINE],
        [f32([1, 2, 3]), i64([1, 3, 0]), i64([2, 0, 2, 1, 0, 2]), i64([2, 1, 3])],
    ),
    case(
        "Unique-10",
        'sorted="false" index_element_type="i32"',
        [LINE],
        [f32([3, 1, 2]), i32([0, 1, 3]), i32([0, 1, 0, 2, 1, 0]), i64([3, 2, 1])],
    ),
    case(
        "Unique-10",
        'count_element_type="i32"',
        [ROWS, i64(0)],
        [f32([[0, 5], [1, 2]]), i64([1, 0]), i64([1, 0, 1]), i32([1, 2])],
        fixed=(1,),
    ),
    case(
        "Unique-10",
        'sorted="false"',
        [ROWS, i32([-2])],
        [f32([[1, 2], [0, 5]]), i64([0, 1]), i64([0, 1, 0]), i64([2, 1])],
        fixed=(1,),
    ),
    case(
        "Unique-10",
        "",
        [i32([[4, 4], [2, 4]])],
        [i32([2, 4]), i64([2, 0]), i64([1, 1, 0, 1]), i64([1, 3])],
    ),
    case("Eye-9", EYE, [i64(2), i64(3), i64(0)], f32([[1, 0, 0], [0, 1, 0]])),
    case("Eye-9", EYE, [i32([2]), i32([3]), i32([1])], f32([[0, 1, 0], [0, 0, 1]])),
    case("Eye-9", EYE, [i64(3), i64(2), i64(-2)], f32([[0, 0], [0, 0], [1, 0]])),
    case(
        "Eye-9",
        'output_type="i32"',
        [i64(1), i64(2), i64(0), i64([2, 1])],
        i32([[[[1, 0]]], [[[1, 0]]]]),
    ),
    case("Eye-9", 'output_type="i64"', [i64(1), i64(2), i64(5)], i64([[0, 0]])),
]
