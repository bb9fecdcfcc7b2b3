"""Gather, Slice, StridedSlice, Split, VariadicSplit."""

from __future__ import annotations

from op_cases import Case, Tensor, case, count, f32, i32, i64, tensor

A = f32([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])
VECTOR = f32([10, 20, 30])
FAR = 2**63 - 1
TALL = f32([[0, 1], [2, 3], [4, 5]])


def strided(masks: str, begin: list[int], end: list[int], by: list[int], want: Tensor) -> Case:
    return case("StridedSlice-1", masks, [A, i64(begin), i64(end), i64(by)], want)


def sliced(start: list[int], stop: list[int], step: list[int], want: Tensor) -> Case:
    return case("Slice-8", "", [A, i64(start), i64(stop), i64(step)], want)


NONE = 'begin_mask="0,0" end_mask="0,0" '

CASES = [
    case("Gather-1", "", [VECTOR, i64([2, 0]), i64(0)], f32([30, 10])),
    case("Gather-1", "", [VECTOR, i64([-1, 0]), i64(0)], f32([0, 10])),
    case("Gather-1", "", [A, i64(1), i64(1)], f32([1, 5, 9])),
    case("Gather-7", 'batch_dims="1"', [A, i64([[0], [1], [3]]), i64(1)], f32([[0], [5], [11]])),
    case("Gather-7", 'batch_dims="0"', [VECTOR, i64([3]), i64([0])], f32([0])),
    case("Gather-8", 'batch_dims="0"', [VECTOR, i64([-1, 0, 3, -5]), i64(0)], f32([30, 10, 0, 0])),
    case("Gather-8", "", [A, i64([[3, 0]]), i64(-1)], f32([[[3, 0]], [[7, 4]], [[11, 8]]])),
    case("Gather-8", "", [i64([7, 8, 9]), i64([1]), i64(0)], i64([8])),
    case(
        "Gather-8",
        'batch_dims="-1"',
        [A, i64([[0, -1], [1, 1], [3, 9]]), i64(1)],
        f32([[0, 3], [5, 5], [11, 0]]),
    ),
    case(
        "Gather-8",
        'batch_dims="1"',
        [count((2, 2, 3)), i64([[0], [2]]), i64(2)],
        f32([[[0], [3]], [[8], [11]]]),
    ),
    sliced([1], [3], [1], f32([[4, 5, 6, 7], [8, 9, 10, 11]])),
    sliced([-1], [-100], [-2], f32([[8, 9, 10, 11], [0, 1, 2, 3]])),
    sliced([-9], [-100], [-1], f32([[0, 1, 2, 3]])),
    sliced([-9], [0], [-1], f32([], (0, 4))),
    sliced([10], [0], [-1], f32([[8, 9, 10, 11], [4, 5, 6, 7]])),
    sliced([5], [7], [1], f32([], (0, 4))),
    sliced([0, 3], [FAR, 0], [2, -2], f32([[3, 1], [11, 9]])),
    case(
        "Slice-8",
        "",
        [A, i64([0, -1]), i64([FAR, -3]), i64([3, -1]), i64([1, 0])],
        f32([[8, 11], [4, 7]]),
    ),
    case("Slice-8", "", [i64([4, 5, 6, 7]), i64([1]), i64([-1]), i64([1])], i64([5, 6])),
    strided(NONE, [1, 1], [2, 3], [1, 1], f32([[5, 6]])),
    strided('begin_mask="1,0" end_mask="0,0"', [1, 1], [2, 3], [1, 1], f32([[1, 2], [5, 6]])),
    strided('begin_mask="0,0" end_mask="0,1"', [1, 1], [2, 3], [1, 1], f32([[5, 6, 7]])),
    strided('begin_mask="" end_mask=""', [1, 1], [2, 3], [1, 1], f32([[5, 6]])),
    strided(NONE, [-1, 3], [-4, 0], [-1, -2], f32([[11, 9], [7, 5], [3, 1]])),
    strided('begin_mask="1,1" end_mask="1,1"', [0, 0], [0, 0], [-2, -3], f32([[11, 8], [3, 0]])),
    strided(
        NONE + 'new_axis_mask="1,0"', [0, 1], [0, 3], [1, 1], f32([[[4, 5, 6, 7], [8, 9, 10, 11]]])
    ),
    strided(NONE + 'shrink_axis_mask="1,0"', [-1, 1], [0, 3], [1, 1], f32([9, 10])),
    strided(NONE + 'shrink_axis_mask="0,1"', [0, 1], [2, 3], [1, 1], f32([1, 5])),
    strided(NONE + 'shrink_axis_mask="1,1"', [2, 1], [3, 2], [1, 1], f32(9)),
    strided(NONE + 'ellipsis_mask="1,0"', [0, 1], [0, 3], [1, 1], f32([[1, 2], [5, 6], [9, 10]])),
    strided(
        NONE + 'ellipsis_mask="1,0" shrink_axis_mask="0,1"', [0, 1], [0, 3], [1, 1], f32([1, 5, 9])
    ),
    strided(
        'begin_mask="0,0,0" end_mask="0,0,0" new_axis_mask="1,0,0" ellipsis_mask="0,1,0"',
        [0, 0, 1],
        [0, 0, 3],
        [1, 1, 2],
        f32([[[1], [5], [9]]]),
    ),
    # A new axis wins over shrinking; a masked begin wins over the index.
    strided(
        NONE + 'new_axis_mask="1,0" shrink_axis_mask="1,0"',
        [0, 1],
        [0, 3],
        [1, 1],
        f32([[[4, 5, 6, 7], [8, 9, 10, 11]]]),
    ),
    strided('begin_mask="1" end_mask="1" shrink_axis_mask="1"', [2], [3], [1], f32([0, 1, 2, 3])),
    strided('begin_mask="1" end_mask="0" shrink_axis_mask="1"', [2], [0], [-2], f32([0, 1, 2, 3])),
    strided('begin_mask="0" end_mask="1"', [-9], [0], [-2], f32([[0, 1, 2, 3]])),
    case(
        "StridedSlice-1",
        'begin_mask="0" end_mask="0"',
        [VECTOR, i64([1]), i64([FAR])],
        f32([20, 30]),
    ),
    case(
        "StridedSlice-1",
        'begin_mask="0" end_mask="0" shrink_axis_mask="1"',
        [i64([7, 8, 9]), i64([-2]), i64([-1]), i64([1])],
        i64(8),
    ),
    case(
        "StridedSlice-1",
        'begin_mask="0" end_mask="0"',
        [i64([7, 8, 9, 5]), i64([1]), i64([3]), i64([1])],
        i64([8, 9]),
    ),
    case(
        "Split-1",
        'num_splits="2"',
        [A, i64(1)],
        [f32([[0, 1], [4, 5], [8, 9]]), f32([[2, 3], [6, 7], [10, 11]])],
    ),
    case(
        "Split-1", 'num_splits="3"', [TALL, i64(-2)], [f32([[0, 1]]), f32([[2, 3]]), f32([[4, 5]])]
    ),
    case("Split-1", 'num_splits="2"', [i64([1, 2]), i32(0)], [i64([1]), i64([2])]),
    case(
        "VariadicSplit-1",
        "",
        [A, i64(1), i64([1, -1])],
        [f32([[0], [4], [8]]), f32([[1, 2, 3], [5, 6, 7], [9, 10, 11]])],
        fixed=(2,),
    ),
    case(
        "VariadicSplit-1",
        "",
        [TALL, i64([-2]), i64([2, 0, 1])],
        [f32([[0, 1], [2, 3]]), f32([], (0, 2)), f32([[4, 5]])],
        fixed=(2,),
    ),
    case("Split-1", 'num_splits="1"', [tensor("i8", [3, 4]), i64(0)], [tensor("i8", [3, 4])]),
]
