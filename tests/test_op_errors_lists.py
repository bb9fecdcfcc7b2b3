"""What operations that move, look up and search say about inputs that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from irdeconv.base.errors import OpError
from irdeconv.ir.spec import Spec
from irdeconv.ops.recurrent import RNNSequence
from op_cases import Tensor, case, count, f32, i32, i64, u8
from support.refusals import Row, check_refusal, row

TABLE = count((3, 2))
BLOCK = [i64([1, 4]), i64([0, 0])]
PATCH = "sizes=2,2 strides=1,1 rates=1,1 auto_pad=valid"
SPARSE = [i64([4, 3]), i64([[5, 0]])]
BESIDE = [i64([4, 3]), i64([[1, 3]])]
ROWS = [
    row("BatchToSpace-2", "", ["f32[6,2]", *BLOCK, i64([0, 0])], "E302", None, "6", "4"),
    row("BatchToSpace-2", "", ["f32[4,2]", *BLOCK, i64([0, 9])], "E302", 2, "9", "axis 1"),
    row("BatchToSpace-2", "", ["f32[4,2,1]", *BLOCK, i64([0, 0])], "E302", 1, "2 values", "3"),
    row("BatchToSpace-2", "", ["f32[4]", "i64[1]", "i64[1]", "i64[1]"], "E301", 0, "rank 1"),
    row("SpaceToBatch-2", "", ["f32[1,5]", *BLOCK, i64([0, 2])], "E302", None, "7", "4"),
    row("SpaceToBatch-2", "", ["f32[1,5]", *BLOCK, i64([1, 2])], "E305", 3, "batch", "1"),
    row("SpaceToBatch-2", "", ["f32[1,5]", i64([1, 0]), *BLOCK[1:] * 2], "E305", 1, "0", "axis 1"),
    row("SpaceToBatch-2", "", ["f32[1,5]", *BLOCK, i64([0, -2])], "E305", 3, "-2", "axis 1"),
    row("ReverseSequence-1", "", ["f32[2,3]", i64([1, 4])], "E305", 1, "4", "0 to 3"),
    row("ReverseSequence-1", "", ["f32[2,3]", "i64[3]"], "E302", 1, "3 lengths", "2"),
    row("ReverseSequence-1", "seq_axis=2", ["f32[2,3]", "i64[2]"], "E304", "seq_axis", "axis 2"),
    row("Roll-7", "", ["f32[2,3]", i64([1, 2]), i64([0])], "E302", 1, "2 values", "1 axes"),
    row("Roll-7", "", ["f32[2,3]", i64([1]), i64([2])], "E305", 2, "axis 2", "rank 2"),
    row("Bucketize-3", "", ["f32[2]", "f32[2,2]"], "E301", 1, "rank 2"),
    row("SearchSorted-15", "", ["f32[2,4]", "f32[3,4]"], "E302", 1, "[3,4]", "[2,4]"),
    row("SearchSorted-15", "", ["f32[2,4]", "f32[4]"], "E301", 1, "rank 1", "2"),
    row("SearchSorted-15", "", ["f32[4]", "i32[4]"], "E303", 1, "f32", "i32"),
    row("SliceScatter-15", "", ["f32[4]", "f32[3]", *[i64([1])] * 3], "E302", 1, "[3]", "[0]"),
    row("SliceScatter-15", "", ["f32[4]", "f32[0]", i64([1]), i64([2]), i64([0])], "E305", 4, "0"),
    row("SliceScatter-15", "", ["f32[4]", "i32[0]", *[i64([1])] * 3], "E303", 1, "f32", "i32"),
    row("Col2Im-15", "", ["f32[4,5]", i64([3, 3]), i64([2, 2])], "E302", 0, "5 columns", "4"),
    row("Col2Im-15", "", ["f32[5,4]", i64([3, 3]), i64([2, 2])], "E302", None, "5", "4"),
    row("Col2Im-15", "", ["f32[4,4]", i64([1, 3]), i64([2, 2])], "E302", 2, "window of 2"),
    row("Col2Im-15", "", ["f32[4,4]", i64([3]), i64([2, 2])], "E302", 1, "1 values"),
    row("ExtractImagePatches-3", PATCH, ["f32[1,2,3]"], "E301", 0, "rank 3"),
    row("EmbeddingBagOffsetsSum-3", "", ["f32[4,2]", "f32[3]", "i64[2]"], "E303", 1, "f32"),
    row(
        "EmbeddingBagOffsetsSum-3",
        "",
        ["f32[4,2]", "i64[3]", "i64[2]", "i64[]", "f32[2]"],
        "E302",
        4,
        "[2]",
        "[3]",
    ),
    row(
        "EmbeddingBagPacked-15",
        "reduction=mean",
        ["f32[4,2]", "i64[3,1]", "f32[3,1]"],
        "E300",
        2,
        "sum",
    ),
    row("EmbeddingBagPackedSum-3", "", ["f32[4,2]", "i64[3]"], "E301", 1, "rank 1"),
    row("EmbeddingBagPackedSum-3", "", [TABLE, i64([[0, 3]])], "E305", 1, "3", "0 to 2"),
    row("EmbeddingBagOffsetsSum-3", "", [TABLE, i64([0, 1]), i64([1, 0])], "E305", 2, "[1, 0]"),
    row("EmbeddingSegmentsSum-3", "", [TABLE, i64([0]), i64([2]), i64(2)], "E305", 2, "2", "2 seg"),
    row("EmbeddingSegmentsSum-3", "", [TABLE, i64([0, 1]), i64([1, 0]), i64(2)], "E305", 2, "fall"),
    row("EmbeddingSegmentsSum-3", "", ["f32[4]", "i64[2]", "i64[3]", i64(2)], "E302", 2, "3", "2"),
    row("SegmentMax-16", "", ["f32[4]", "i64[3]"], "E302", 1, "3", "4 rows"),
    row("SegmentMax-16", "", ["f32[4]", "i64[4]", i64(-1)], "E305", 2, "-1"),
    row("SparseFillEmptyRows-16", "", ["f32[1]", *SPARSE, "i32[]"], "E303", 3, "f32", "i32"),
    row("SparseFillEmptyRows-16", "", ["f32[1]", *SPARSE, "f32[]"], "E305", 2, "row 5", "4"),
    row("SparseFillEmptyRows-16", "", ["f32[2]", *SPARSE, "f32[]"], "E302", 2, "1", "2 values"),
    row("SparseFillEmptyRows-16", "", ["f32[1]", *BESIDE, "f32[]"], "E305", 2, "column 3", "3"),
    row("ConvertPromoteTypes-14", "", ["i8[2]", "u8[2]"], "E303", 1, "i8", "u8"),
    row("ConvertPromoteTypes-14", "", ["f32[2]", "string[2]"], "E303", 1, "string"),
    row("BitwiseLeftShift-15", "", ["boolean[2]", "boolean[2]"], "E303", 0, "boolean"),
    row("StringTensorUnpack-15", "", ["f32[2]"], "E303", 0, "f32"),
    row("StringTensorPack-15", "", ["i32[2]", "i32[3]", "u8[?]"], "E302", 1, "[2]", "[3]"),
    row("StringTensorPack-15", "", [i32([0]), i32([3]), u8([97, 98])], "E305", 1, "3", "2 bytes"),
]


@pytest.mark.parametrize("r", ROWS, ids=[f"{i}-{r.op}" for i, r in enumerate(ROWS)])
def test_refusal(r: Row) -> None:
    check_refusal(r)


def test_updates_of_a_slice_that_only_the_run_knows() -> None:
    op, _ = case("SliceScatter-15", "", [f32([1, 2, 3])], f32([1])).build()
    ends = [i64([n]).values for n in (0, 2, 1)]
    with pytest.raises(OpError, match=r"updates are \[1\]; the slice is \[2\]") as e:
        op.evaluate(f32([1, 2, 3]).values, f32([9]).values, *ends)
    assert (e.value.problem.code, e.value.problem.port) == ("E302", 1)


@pytest.mark.parametrize(
    ("kind", "attributes", "inputs", "words"),
    [
        ("SegmentMax-16", "", [f32([1]), i32([0, 1])], "2 segment_ids for 1 rows"),
        ("Pad-12", 'pad_mode="symmetric"', [f32([1]), i64([2]), i64([0])], "at most 1 for size 1"),
        ("GatherElements-6", 'axis="1"', [f32([[1, 2]] * 3), i32([[0]])], "differ on axis 0"),
        (
            "Gather-8",
            'batch_dims="1"',
            [f32([[1, 2]] * 3), i32([[0]]), i64(1)],
            "batch dimension 0",
        ),
    ],
)
def test_sizes_that_only_the_run_knows(
    kind: str, attributes: str, inputs: list[Tensor], words: str
) -> None:
    op, _ = case(kind, attributes, inputs, inputs[0]).build()
    with pytest.raises(OpError, match=words) as e:
        op.evaluate(*(t.values for t in inputs))
    code = "E305" if kind.startswith("Pad") else "E302"
    assert (e.value.problem.code, e.value.problem.port) == (code, 1)


@pytest.mark.parametrize("length", [-1, 3])
def test_lengths_of_sequences(length: int) -> None:
    inputs = [np.zeros(s, np.float32) for s in ((1, 2, 1), (1, 1, 1))]
    weights = [np.zeros(s, np.float32) for s in ((1, 1, 1), (1, 1, 1), (1, 1))]
    arrays = [*inputs, np.array([length]), *weights]
    op = RNNSequence(hidden_size=1)
    known = [Spec.of(a) for a in arrays]
    for attempt in (lambda: op.evaluate(*arrays), lambda: op.infer(*known)):
        with pytest.raises(OpError, match=f"sequence_lengths has {length} at 0") as e:
            attempt()
        assert (e.value.problem.code, e.value.problem.port) == ("E305", 2)
