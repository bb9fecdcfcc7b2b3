"""Concat, shape operations, Transpose, Broadcast, Tile, Pad, rearrangements, Range."""

from __future__ import annotations

from op_cases import Case, boolean, case, count, f32, i8, i32, i64, tensor, u8

A = f32([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])
LINE = f32([1, 2, 3, 4])


def pad(version: int, mode: str, begin: int, end: int, want: list[float]) -> Case:
    data = [LINE, i64([begin]), i64([end])]
    return case(f"Pad-{version}", f'pad_mode="{mode}"', data, f32(want))


PADS = [
    pad(1, "constant", 1, 2, [0, 1, 2, 3, 4, 0, 0]),
    pad(1, "edge", 2, 1, [1, 1, 1, 2, 3, 4, 4]),
    pad(1, "reflect", 3, 2, [4, 3, 2, 1, 2, 3, 4, 3, 2]),
    pad(1, "symmetric", 4, 1, [4, 3, 2, 1, 1, 2, 3, 4, 4]),
    pad(1, "constant", -1, 0, [2, 3, 4]),
    pad(12, "constant", 2, -3, [0, 0, 1]),
    pad(12, "constant", -1, 1, [2, 3, 4, 0]),
    # A crop longer than the tensor: nothing but the extension is left.
    pad(12, "constant", -4, 2, [0, 0]),
    pad(12, "edge", -2, 3, [3, 4, 4, 4, 4]),
    pad(12, "edge", 1, -2, [1, 1, 2]),
    pad(12, "reflect", -1, 2, [2, 3, 4, 3, 2]),
    pad(12, "reflect", 1, -2, [2, 1, 2]),
    pad(12, "symmetric", -2, 3, [3, 4, 4, 3, 2]),
    pad(12, "symmetric", 1, -2, [1, 1, 2]),
    case(
        "Pad-12",
        'pad_mode="constant"',
        [LINE, i64([-6]), i64([4])],
        f32([0, 0]),
        crash="a crop beyond the tensor corrupts the heap of OpenVINO 2026.4.1",
    ),
    case(
        "Pad-12",
        'pad_mode="constant"',
        [f32([[1, 2], [3, 4]]), i64([0, 1]), i64([1, -1]), f32(9)],
        f32([[9, 1], [9, 3], [9, 9]]),
    ),
    case("Pad-12", "", [i32([1]), i64([1]), i64([0]), i32(-5)], i32([-5, 1])),
    case(
        "Pad-12",
        'pad_mode="reflect"',
        [f32([[1, 2, 3], [4, 5, 6]]), i64([1, 0]), i64([0, 2])],
        f32([[4, 5, 6, 5, 4], [1, 2, 3, 2, 1], [4, 5, 6, 5, 4]]),
    ),
]

# Depth to space of two channels: block position major, or channel major.
BLOCKS = count((1, 8, 1, 2))
BLOCKS_FIRST = [0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15]
DEPTH_FIRST = [0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15]

CASES = [
    *PADS,
    case("Concat-1", 'axis="0"', [f32([1]), f32([2, 3]), f32([])], f32([1, 2, 3])),
    case("Concat-1", 'axis="-1"', [f32([[1], [2]]), f32([[3], [4]])], f32([[1, 3], [2, 4]])),
    case("Concat-1", 'axis="1"', [i64([[1, 2]]), i64([[3]])], i64([[1, 2, 3]])),
    case("Concat-1", 'axis="0"', [i64([2]), i64([7, 8])], i64([2, 7, 8])),
    case("ShapeOf-1", "", [count((2, 3, 1))], i64([2, 3, 1])),
    case("ShapeOf-3", 'output_type="i32"', [count((2, 3))], i32([2, 3])),
    case("ShapeOf-3", 'output_type="i64"', [f32(5)], i64([])),
    case("Reshape-1", 'special_zero="false"', [A, i64([2, 6])], f32(A.values, (2, 6))),
    case("Reshape-1", 'special_zero="false"', [A, i64([-1, 2])], f32(A.values, (6, 2))),
    case("Reshape-1", 'special_zero="true"', [A, i64([0, 2, -1])], f32(A.values, (3, 2, 2))),
    case("Reshape-1", 'special_zero="true"', [A, i64([1, 0, -1])], f32(A.values, (1, 4, 3))),
    case("Reshape-1", 'special_zero="false"', [f32([7]), i64([])], f32(7)),
    case("Reshape-1", 'special_zero="true"', [f32([], (0, 2)), i64([0, -1])], f32([], (0, 2))),
    case(
        "Reshape-1",
        'special_zero="false"',
        [f32([], (0, 2)), i64([0, -1])],
        f32([], (0, 1)),  # -1 beside a 0 that is no copy could be anything
    ),
    case("Reshape-1", 'special_zero="false"', [i64([4, 5]), i64([2, 1])], i64([[4], [5]])),
    case("Squeeze-1", "", [count((1, 2, 1, 3)), i64([0, -2])], count((2, 3))),
    case("Squeeze-1", "", [count((1, 2, 1, 3)), i64(2)], count((1, 2, 3))),
    case("Squeeze-1", "", [count((1, 2, 1, 3))], count((2, 3))),
    case("Squeeze-15", 'allow_axis_skip="false"', [count((1, 2, 1)), i64([0])], count((2, 1))),
    case("Squeeze-15", 'allow_axis_skip="true"', [count((1, 2, 1)), i64([0, 1])], count((2, 1))),
    case("Squeeze-15", "", [i64([[5, 6]]), i64([0])], i64([5, 6])),
    case("Unsqueeze-1", "", [count((2, 3)), i64([0, -1])], count((1, 2, 3, 1))),
    case("Unsqueeze-1", "", [count((2, 3)), i64([1])], count((2, 1, 3))),
    case("Unsqueeze-1", "", [i64(4), i64(0)], i64([4])),
    case("Transpose-1", "", [A, i64([1, 0])], f32(A.values.T)),
    case("Transpose-1", "", [count((2, 3, 1)), i64([])], f32([0, 3, 1, 4, 2, 5], (1, 3, 2))),
    case("Transpose-1", "", [count((2, 3, 1)), i64([2, 0, 1])], count((1, 2, 3))),
    case("Tile-1", "", [f32([[1, 2], [3, 4]]), i64([2, 1])], f32([[1, 2], [3, 4], [1, 2], [3, 4]])),
    case("Tile-1", "", [f32([[1, 2], [3, 4]]), i64([2])], f32([[1, 2, 1, 2], [3, 4, 3, 4]])),
    case("Tile-1", "", [f32([1, 2]), i64([2, 1, 2])], f32([[[1, 2, 1, 2]], [[1, 2, 1, 2]]])),
    case("Tile-1", "", [f32([1, 2]), i64([0])], f32([])),
    case("Broadcast-1", 'mode="numpy"', [f32([[1], [2]]), i64([2, 2])], f32([[1, 1], [2, 2]])),
    case(
        "Broadcast-1",
        'mode="explicit"',
        [f32([1, 2]), i64([2, 3]), i64([0])],
        f32([[1, 1, 1], [2, 2, 2]]),
    ),
    case(
        "Broadcast-1",
        'mode="none"',
        [f32([1, 2]), i64([2, 2]), i64([0])],
        f32([[1, 1], [2, 2]]),
    ),
    case(
        "Broadcast-1",
        'mode="pdpd"',
        [f32([1, 2]), i64([2, 2])],
        f32([[1, 2], [1, 2]]),
        defect="a Broadcast under pdpd",
    ),
    case("Broadcast-3", 'mode="numpy"', [f32([1, 2]), i64([2, 2])], f32([[1, 2], [1, 2]])),
    case("Broadcast-3", 'mode="numpy"', [i64(3), i64([2])], i64([3, 3])),
    case(
        "Broadcast-3",
        'mode="explicit"',
        [f32([[1, 2]]), i64([1, 2, 2]), i64([0, 2])],
        f32([[[1, 2], [1, 2]]]),
    ),
    case(
        "Broadcast-3",
        'mode="bidirectional"',
        [f32([[1], [2]]), i64([1, 1, 2])],
        f32([[[1, 1], [2, 2]]]),
    ),
    case("Broadcast-3", 'mode="bidirectional"', [f32([1, 2]), i64([1])], f32([1, 2])),
    case(
        "DepthToSpace-1",
        'mode="blocks_first" block_size="2"',
        [BLOCKS],
        f32(BLOCKS_FIRST, (1, 2, 2, 4)),
    ),
    case(
        "DepthToSpace-1",
        'mode="depth_first" block_size="2"',
        [BLOCKS],
        f32(DEPTH_FIRST, (1, 2, 2, 4)),
    ),
    case(
        "DepthToSpace-1",
        'mode="depth_first" block_size="2"',
        [count((1, 4, 3))],
        f32([[[0, 3, 1, 4, 2, 5], [6, 9, 7, 10, 8, 11]]]),
    ),
    case(
        "SpaceToDepth-1",
        'mode="blocks_first" block_size="2"',
        [count((1, 2, 2, 2))],
        f32([0, 4, 1, 5, 2, 6, 3, 7], (1, 8, 1, 1)),
    ),
    case(
        "SpaceToDepth-1",
        'mode="depth_first" block_size="2"',
        [count((1, 2, 2, 2))],
        count((1, 8, 1, 1)),
    ),
    case(
        "SpaceToDepth-1",
        'mode="blocks_first" block_size="3"',
        [count((1, 2, 3))],
        f32([0, 3, 1, 4, 2, 5], (1, 6, 1)),
    ),
    case(
        "ShuffleChannels-1",
        'axis="1" group="2"',
        [count((1, 6, 1))],
        f32([0, 3, 1, 4, 2, 5], (1, 6, 1)),
    ),
    case("ShuffleChannels-3", 'axis="-1" group="2"', [f32([[1, 2, 3, 4]])], f32([[1, 3, 2, 4]])),
    case("Reverse-1", 'mode="index"', [f32([[1, 2], [3, 4]]), i64([0, -1])], f32([[4, 3], [2, 1]])),
    case(
        "Reverse-1",
        'mode="mask"',
        [f32([[1, 2], [3, 4]]), boolean([0, 1])],
        f32([[2, 1], [4, 3]]),
    ),
    case("Range-1", "", [f32(1), f32(2), f32(0.25)], f32([1, 1.25, 1.5, 1.75])),
    case("Range-1", "", [i32(5), i32(0), i32(-2)], i32([5, 3, 1])),
    case("Range-4", 'output_type="i64"', [i64(2), i64(9), i64(3)], i64([2, 5, 8])),
    case("Range-4", 'output_type="f32"', [f32(5), f32(1), f32(-1.5)], f32([5, 3.5, 2])),
    case("Range-4", 'output_type="i32"', [i32(3), i32(3), i32(1)], i32([])),
    case(
        "Range-4",
        'output_type="u8"',
        [i32(250), i32(259), i32(3)],
        u8([250, 253, 0]),
        defect="a Range beyond 8-bit integers",
    ),
    case(
        "Range-4",
        'output_type="i32"',
        [f32(0.5), f32(4.7), f32(1.9)],
        i32([0, 1, 2, 3]),
        defect="a Range of reals as integers",
    ),
    case("Identity-16", "", [A], A),
    case("Concat-1", 'axis="0"', [i8([1]), i8([-2])], i8([1, -2])),
    case(
        "Transpose-1",
        "",
        [tensor("u4", [[1, 2], [3, 4]]), i64([1, 0])],
        tensor("u4", [[1, 3], [2, 4]]),
    ),
]
