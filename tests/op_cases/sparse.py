"""Embeddings, SegmentMax, SparseFillEmptyRows; sums are worked by hand."""

from __future__ import annotations

from op_cases import boolean, case, f16, f32, i32, i64, u8

INF = float("inf")
TABLE = f32([[1, 2], [10, 20], [100, 200], [-5, 0.5]])
SUM, MEAN = 'reduction="sum"', 'reduction="mean"'
ROWS = f32([[1, -2], [3, -4], [-5, 6], [7, 8]])
CASES = [
    case(
        "EmbeddingBagOffsetsSum-3",
        "",
        [TABLE, i64([0, 2, 3, 3]), i64([0, 1])],
        f32([[1, 2], [90, 201]]),
    ),
    case(
        "EmbeddingBagOffsetsSum-3",
        "",
        [TABLE, i32([0, 2, 3]), i32([0, 2, 2]), i32(1)],
        f32([[101, 202], [10, 20], [-5, 0.5]]),
    ),
    case(
        "EmbeddingBagOffsetsSum-3",
        "",
        [TABLE, i64([1, 1, 3]), i64([0, 0, 2]), i64(-1), f32([0.5, 2, -1])],
        f32([[0, 0], [25, 50], [5, -0.5]]),
    ),
    case(
        "EmbeddingBagOffsetsSum-3",
        "",
        [TABLE, i64([1]), i64([0, 1])],
        f32([[10, 20], [0, 0]]),
        crash="the CPU plugin wants every offset inside the indices",
    ),
    # What lies in front of the first offset belongs to no bag.
    case(
        "EmbeddingBagOffsetsSum-3",
        "",
        [f16([[[1], [2]], [[3], [4]]]), i32([1, 0, 1]), i32([1, 2])],
        f16([[[1], [2]], [[3], [4]]]),
    ),
    case("EmbeddingBagOffsetsSum-3", "", [i32([5, 7, 9]), i32([2, 1]), i32([0])], i32([16])),
    case(
        "EmbeddingBagOffsets-15",
        MEAN,
        [TABLE, i64([0, 1, 2, 3]), i64([0, 1, 1]), i64(3)],
        f32([[1, 2], [-5, 0.5], [35, 73.5]]),
    ),
    case(
        "EmbeddingBagOffsets-15",
        SUM,
        [TABLE, i32([0, 1]), i32([0]), i32(0), f32([2, 3])],
        f32([[32, 64]]),
    ),
    case(
        "EmbeddingBagPackedSum-3",
        "",
        [TABLE, i64([[0, 1], [3, 3]])],
        f32([[11, 22], [-10, 1]]),
    ),
    case(
        "EmbeddingBagPackedSum-3",
        "",
        [TABLE, i32([[0, 1, 2]]), f32([[2, 0.5, 0]])],
        f32([[7, 14]]),
    ),
    case(
        "EmbeddingBagPacked-15", MEAN, [TABLE, i32([[0, 3], [2, 1]])], f32([[-2, 1.25], [55, 110]])
    ),
    case("EmbeddingBagPacked-15", SUM, [u8([[1], [9]]), i64([[0, 1], [1, 1]])], u8([[10], [18]])),
    case(
        "EmbeddingSegmentsSum-3",
        "",
        [TABLE, i32([0, 1, 3]), i32([0, 0, 2]), i32(4)],
        f32([[11, 22], [0, 0], [-5, 0.5], [0, 0]]),
        fixed=(3,),
    ),
    case(
        "EmbeddingSegmentsSum-3",
        "",
        [TABLE, i64([3, 1]), i64([1, 1]), i64(2), i64(2), f32([-1, 0.5])],
        f32([[100, 200], [10, 9.5]]),
        fixed=(3,),
    ),
    case("SegmentMax-16", "", [ROWS, i64([0, 0, 1, 3])], f32([[3, -2], [-5, 6], [0, 0], [7, 8]])),
    case(
        "SegmentMax-16",
        'fill_mode="lowest"',
        [f32([-1, -3]), i32([1, 1]), i32(3)],
        f32([-3.4028234663852886e38, -1, -3.4028234663852886e38]),
        fixed=(2,),
    ),
    case(
        "SegmentMax-16",
        'fill_mode="lowest"',
        [f16([-1, -3]), i32([1, 1])],
        f16([-INF, -1]),
    ),
    case(
        "SegmentMax-16",
        "",
        [i32([[4], [5], [6]]), i64([0, 2, 2]), i64(2)],
        i32([[4], [0]]),
        fixed=(2,),
    ),
    case(
        "SparseFillEmptyRows-16",
        "",
        [f32([1, 2, 3]), i64([4, 3]), i64([[0, 1], [0, 2], [2, 0]]), f32(9)],
        [
            i64([[0, 1], [0, 2], [1, 0], [2, 0], [3, 0]]),
            f32([1, 2, 9, 3, 9]),
            boolean([0, 1, 0, 1]),
        ],
    ),
    case(
        "SparseFillEmptyRows-16",
        "",
        [i32([5, 6]), i32([2, 7]), i32([[0, 6], [1, 1]]), i32(-1)],
        [i32([[0, 6], [1, 1]]), i32([5, 6]), boolean([0, 0])],
    ),
]
