"""Reductions, MatMul, normalizations."""

from __future__ import annotations

from op_cases import Case, Tensor, boolean, case, count, f16, f32, i32, i64, tensor, u8

A = f32([[1, -2, 3], [4, 5, -6]])
KEEP, DROP = 'keep_dims="true"', 'keep_dims="false"'
INF = float("inf")


def both(op: str, axes: Tensor, want: list[float]) -> list[Case]:
    """Return the reduction of A over one axis with and without keep_dims."""
    kept = [[v] for v in want] if len(want) == 2 else [want]
    return [case(op, KEEP, [A, axes], f32(kept)), case(op, DROP, [A, axes], f32(want))]


CASES = [
    *both("ReduceSum-1", i64([1]), [2, 3]),
    *both("ReduceSum-1", i64(-2), [5, 3, -3]),
    *both("ReduceMean-1", i64([0]), [2.5, 1.5, -1.5]),
    *both("ReduceMax-1", i64([1]), [3, 5]),
    *both("ReduceMin-1", i64([-1]), [-2, -6]),
    *both("ReduceProd-1", i64([1]), [-6, -120]),
    *both("ReduceL1-4", i64([1]), [6, 15]),
    *both("ReduceL2-4", i64([0]), [17**0.5, 29**0.5, 45**0.5]),
    case("ReduceSum-1", DROP, [A, i64([1, 0])], f32(5)),
    case("ReduceSum-1", KEEP, [A, i64([-1, 0])], f32([[5]])),
    case("ReduceSum-1", DROP, [count((2, 2, 2)), i64([2, 0])], f32([10, 18])),
    case("ReduceSum-1", DROP, [i32([[1, 2], [3, 4]]), i64([0])], i32([4, 6])),
    case("ReduceMean-1", DROP, [i32([[1, 2], [-1, -2]]), i64([1])], i32([1, -1])),
    case("ReduceL2-4", DROP, [i32([[2, 3], [1, 2]]), i64([1])], i32([3, 2])),
    case("ReduceMax-1", DROP, [i32([[1, 2], [3, -4]]), i64([1])], i32([2, 3])),
    case(
        "ReduceMax-1",
        DROP,
        [f32([[-INF, -INF]]), i64([1])],
        f32([-INF]),
        defect="maxima and minima of infinities",
    ),
    case("ReduceSum-1", KEEP, [f32([], (0, 2)), i64([0])], f32([[0, 0]])),
    case("ReduceMean-1", KEEP, [f32([], (0, 2)), i64([0])], f32([[0, 0]])),
    case("ReduceMax-1", KEEP, [f32([], (0, 2)), i64([0])], f32([[-3.4028234663852886e38] * 2])),
    case(
        "ReduceMin-1",
        KEEP,
        [f32([], (0, 2)), i64([0])],
        f32([[INF] * 2]),
        defect="the least of no f32",
    ),
    case("ReduceMin-1", KEEP, [i64([], (0, 1)), i64([0])], i64([[2**31 - 1]])),
    case("ReduceMax-1", KEEP, [u8([], (0, 1)), i64([0])], u8([[0]])),
    case("ReduceMax-1", KEEP, [tensor("i16", [], (0, 1)), i64([0])], tensor("i16", [[0]])),
    case("ReduceMax-1", KEEP, [tensor("u32", [], (0, 1)), i64([0])], tensor("u32", [[2**31]])),
    case("ReduceMin-1", KEEP, [f16([], (0, 2)), i64([0])], f16([[INF] * 2])),
    case("ReduceMax-1", KEEP, [f16([], (0, 2)), i64([0])], f16([[-INF] * 2])),
    case("ReduceMin-1", KEEP, [i32([], (0, 2)), i64([0])], i32([[2147483647] * 2])),
    case("ReduceSum-1", DROP, [f16([60000, 60000, -60000]), i64([0])], f16(60000)),
    case("ReduceL1-4", KEEP, [A, i64([])], f32([[1, 2, 3], [4, 5, 6]])),
    case("ReduceL2-4", KEEP, [A, i64([])], f32([[1, 2, 3], [4, 5, 6]])),
    case("ReduceL1-4", DROP, [f32([-1.5, 2]), i64([])], f32([1.5, 2])),
    case("ReduceSum-1", KEEP, [A, i64([])], A),
    case("ReduceMean-1", KEEP, [A, i64([])], A),
    case("ReduceLogicalAnd-1", DROP, [boolean([[1, 1], [1, 0]]), i64([1])], boolean([1, 0])),
    case("ReduceLogicalOr-1", KEEP, [boolean([[0, 1], [0, 0]]), i64([1])], boolean([[1], [0]])),
    case("MatMul-1", "", [A, f32([[1, 0], [0, 1], [2, -1]])], f32([[7, -5], [-8, 11]])),
    case("MatMul-1", 'transpose_a="true"', [A, f32([[1], [2]])], f32([[9], [8], [-9]])),
    case("MatMul-1", 'transpose_b="true"', [A, f32([[1, 1, 1]])], f32([[2], [3]])),
    case(
        "MatMul-1",
        'transpose_a="true" transpose_b="true"',
        [f32([[1], [2]]), f32([[3, 4]])],
        f32([[11]]),
    ),
    case("MatMul-1", "", [f32([1, 2, 3]), f32([4, 5, 6])], f32(32)),
    case("MatMul-1", "", [f32([1, 2]), A], f32([9, 8, -9])),
    case("MatMul-1", "", [A, f32([1, 1, 2])], f32([5, -3])),
    case("MatMul-1", 'transpose_a="true"', [f32([1, 2]), f32([[3], [4]])], f32([11])),
    case(
        "MatMul-1",
        "",
        [count((2, 1, 2)), f32([[1, 10], [100, 1000]])],
        f32([[[100, 1000]], [[302, 3020]]]),
    ),
    case(
        "MatMul-1",
        "",
        [count((2, 1, 1, 1), 1), count((3, 1, 1), 1)],
        f32([1, 2, 3, 2, 4, 6], (2, 3, 1, 1)),
    ),
    case("MatMul-1", "", [i32([[1, 2]]), i32([[3], [4]])], i32([[11]])),
    case(
        "NormalizeL2-1", 'eps="0.25" eps_mode="max"', [f32([[3, 4]]), i64([1])], f32([[0.6, 0.8]])
    ),
    case(
        "NormalizeL2-1",
        'eps="144" eps_mode="add"',
        [f32([[3, 4]]), i64([1])],
        f32([[3 / 13, 4 / 13]]),
    ),
    case(
        "NormalizeL2-1",
        'eps="100" eps_mode="max"',
        [f32([[3, 4]]), i64([1])],
        f32([[0.3, 0.4]]),
    ),
    case("NormalizeL2-1", 'eps="1" eps_mode="add"', [f32([[3, -4, 0]]), i64([])], f32([[1, 1, 0]])),
    case(
        "MVN-2",
        'across_channels="false" normalize_variance="true" eps="0.5625"',
        [f32([1, 3, 10, 10], (1, 2, 1, 2))],
        f32([-0.8, 0.8, 0, 0], (1, 2, 1, 2)),
    ),
    case(
        "MVN-2",
        'across_channels="false" normalize_variance="true"',
        [f32([0.0009765625, 0.0029296875], (1, 1, 1, 2))],
        f32([-1, 1], (1, 1, 1, 2)),
    ),
    case(
        "MVN-2",
        'across_channels="true" normalize_variance="false" eps="0.5"',
        [f32([1, 3, 10, 10], (1, 2, 1, 2))],
        f32([-5, -3, 4, 4], (1, 2, 1, 2)),
    ),
    case(
        "MVN-6",
        'normalize_variance="true" eps="0.5625" eps_mode="INSIDE_SQRT"',
        [f32([[[[1, 3]]]]), i64([-1])],
        f32([[[[-0.8, 0.8]]]]),
    ),
    case(
        "MVN-6",
        'normalize_variance="true" eps="0.25" eps_mode="OUTSIDE_SQRT"',
        [f32([[[[1, 3]]]]), i64([2, 3])],
        f32([[[[-0.8, 0.8]]]]),
    ),
    case(
        "MVN-6",
        'normalize_variance="false" eps="0.25" eps_mode="INSIDE_SQRT"',
        [f32([[[[1, 3]]]]), i64([3])],
        f32([[[[-1, 1]]]]),
    ),
    case(
        "BatchNormInference-1",
        'epsilon="0.75"',
        [f32([2, 1]), f32([1, 0]), f32([[3, 5]]), f32([1, 1]), f32([0.25, 3.25])],
        f32([[5, 2]]),
    ),
    case(
        "BatchNormInference-5",
        'epsilon="0"',
        [f32([3, 5], (1, 2, 1)), f32([2, 1]), f32([1, 0]), f32([1, 1]), f32([4, 4])],
        f32([3, 2], (1, 2, 1)),
    ),
    case("ReduceProd-1", DROP, [i64([2, 3, 4]), i64([0])], i64(24)),
    case("ReduceSum-1", KEEP, [i64([2, 3, 4]), i64(0)], i64([9])),
]
