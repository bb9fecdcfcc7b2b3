"""Reading and writing at computed places, TopK, CumSum, NonZero, OneHot, GroupNormalization."""

from __future__ import annotations

from op_cases import case, f32, i32, i64

A = f32([[3, 1, 2], [7, 9, 8]])
LINE = f32([5, 6, 7, 8])
TOP = 'axis="-1" mode="max" sort="value"'
REDUCE = 'reduction="{}" use_init_val="{}"'


def scatter(reduction: str, keep: str, want: list[float]) -> object:
    data = [f32([10, 20, 30]), i64([1, -2, 0]), f32([4, 2, 7]), i64(0)]
    return case("ScatterElementsUpdate-12", REDUCE.format(reduction, keep), data, f32(want))


CASES = [
    case("GatherElements-6", 'axis="1"', [A, i64([[0, -1], [2, 2]])], f32([[3, 2], [8, 8]])),
    case("GatherElements-6", 'axis="0"', [A, i32([[1, 0, 1]])], f32([[7, 1, 8]])),
    case("GatherND-5", "", [A, i64([[0, 1], [1, 2]])], f32([1, 8])),
    case("GatherND-5", 'batch_dims="1"', [A, i64([[1], [0]])], f32([1, 7])),
    case("GatherND-5", "", [A, i64([1, 2])], f32(8)),
    case("GatherND-8", "", [A, i32([0, 2])], f32(2)),
    case("GatherND-8", "", [A, i64([[[1]], [[0]]])], f32([[[7, 9, 8]], [[3, 1, 2]]])),
    case(
        "GatherND-8", 'batch_dims="1"', [A, i64([[[1], [2]], [[0], [-1]]])], f32([[1, 2], [7, 8]])
    ),
    case("ScatterUpdate-3", "", [LINE, i64([2, 0]), f32([1, 2]), i64(0)], f32([2, 6, 1, 8])),
    case(
        "ScatterUpdate-3",
        "",
        [A, i64([1]), f32([[0], [-1]]), i64(1)],
        f32([[3, 0, 2], [7, -1, 8]]),
    ),
    case(
        "ScatterElementsUpdate-3",
        "",
        [A, i64([[2], [0]]), f32([[5], [6]]), i64(-1)],
        f32([[3, 1, 5], [6, 9, 8]]),
    ),
    scatter("sum", "true", [17, 26, 30]),
    scatter("sum", "false", [7, 6, 30]),
    scatter("prod", "true", [70, 160, 30]),
    scatter("min", "false", [7, 2, 30]),
    scatter("max", "true", [10, 20, 30]),
    scatter("mean", "true", [8.5, 26 / 3, 30]),
    scatter("mean", "false", [7, 3, 30]),
    case(
        "ScatterElementsUpdate-12",
        'reduction="none"',
        [LINE, i64([3]), f32([0]), i64(0)],
        f32([5, 6, 7, 0]),
    ),
    case("ScatterNDUpdate-4", "", [LINE, i64([[1], [3]]), f32([0, 1])], f32([5, 0, 7, 1])),
    case(
        "ScatterNDUpdate-15",
        'reduction="sum"',
        [LINE, i64([[1], [1]]), f32([10, 1])],
        f32([5, 17, 7, 8]),
    ),
    case(
        "ScatterNDUpdate-15",
        'reduction="sub"',
        [A, i64([[1], [0]]), f32([[1, 1, 1], [2, 2, 2]])],
        f32([[1, -1, 0], [6, 8, 7]]),
    ),
    case("NonZero-3", 'output_type="i64"', [f32([[0, 4], [5, 6]])], i64([[0, 1, 1], [1, 0, 1]])),
    case("NonZero-3", 'output_type="i32"', [i32([0, 0])], i32([], (1, 0))),
    case(
        "OneHot-1",
        'axis="-1"',
        [i64([2, 0, -1]), i64(3), f32(5), f32(1)],
        f32([[1, 1, 5], [5, 1, 1], [1, 1, 1]]),
    ),
    case("OneHot-1", 'axis="0"', [i64([1, 0]), i64(2), i32(1), i32(0)], i32([[0, 1], [1, 0]])),
    case(
        "OneHot-16",
        'axis="-1" negative_indices_mode="normalize"',
        [i64([-1, 0]), i64(2), f32(1), f32(0)],
        f32([[0, 1], [1, 0]]),
    ),
    case("TopK-1", TOP, [A, i64(2)], [f32([[3, 2], [9, 8]]), i32([[0, 2], [1, 2]])]),
    case(
        "TopK-3",
        'axis="1" mode="min" sort="value" index_element_type="i64"',
        [A, i64(2)],
        [f32([[1, 2], [7, 8]]), i64([[1, 2], [0, 2]])],
    ),
    case(
        "TopK-11",
        'axis="1" mode="max" sort="index"',
        [A, i64(2)],
        [f32([[3, 2], [9, 8]]), i32([[0, 2], [1, 2]])],
    ),
    case(
        "TopK-11",
        'axis="0" mode="max" sort="value" stable="true"',
        [f32([4, 6, 4, 6]), i64(3)],
        [f32([6, 6, 4]), i32([1, 3, 0])],
    ),
    case("CumSum-3", "", [LINE, i64(0)], f32([5, 11, 18, 26])),
    case("CumSum-3", 'exclusive="true"', [LINE, i64(-1)], f32([0, 5, 11, 18])),
    case("CumSum-3", 'exclusive="true" reverse="true"', [LINE, i64(0)], f32([21, 15, 8, 0])),
    case("CumSum-3", 'reverse="true"', [A, i64(1)], f32([[6, 3, 2], [24, 17, 8]])),
    case(
        "ScatterElementsUpdate-12",
        'reduction="mean"',
        [i32([-5, 6]), i64([0, 1, 1]), i32([-6, -8, -9]), i64(0)],
        i32([-5, -3]),  # -5.5 and -11 / 3, cut towards zero
    ),
    case(
        "GroupNormalization-12",
        'num_groups="2" epsilon="0.5625"',
        [f32([1, 3, 10, 10], (1, 4, 1)), f32([1, 10, 1, 1]), f32([0, 1, 2, 3])],
        f32([-0.8, 9, 2, 3], (1, 4, 1)),
    ),
]
