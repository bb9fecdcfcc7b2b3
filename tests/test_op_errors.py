"""What operations say about inputs and attributes that do not fit: code, port, numbers."""

from __future__ import annotations

import numpy as np
import pytest

import irdeconv.ops
from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import infer_op, lookup
from irdeconv.ir.spec import DYNAMIC, Spec
from irdeconv.ops.convolution import Convolution, GroupConvolution
from op_cases import Tensor, boolean, count, f32, i32, i64
from support.refusals import Row, check_attribute, check_refusal, row, spec

assert irdeconv.ops


def deconvolution(pads: list[Tensor | str], code: str, port: int, *says: str) -> Row:
    inputs = ["f32[1,2,5,5]", "f32[1,2,3,3,3]", *pads]
    return row("Deconvolution-irdeconv_1", "strides=1,1 dilations=1,1", inputs, code, port, *says)


A = count((3, 4))
SEQUENCE = ["f32[2,5]", "f32[2,1,3]", "f32[2,1,3]", "i32[2]", *["f32[1,12,3]"] * 2, "f32[1,12]"]
CELL = ["f32[2,4]", "f32[2,3]", "f32[?,4]", "f32[9,3]", "f32[9]"]
STFT, ISTFT = "transpose_frames=false", "center=false normalized=false"
LRN = "alpha=1 beta=1 bias=1 size=3"
ONCE = "convert_type=i32 with_replacement=false log_probs=false"
SDPA, DEFORMABLE = "ScaledDotProductAttention-13", "DeformableConvolution-8"
ROWS = [
    row("Add-1", "", ["f32[2]", "i32[2]"], "E303", 1, "f32", "i32"),
    row("Add-1", "", ["boolean[2]", "boolean[2]"], "E303", 0, "boolean", "number"),
    row("Add-1", "", ["f32[2,3]", "f32[2,4]"], "E302", 1, "[2,3]", "[2,4]", "3 and 4"),
    row("Add-1", "auto_broadcast=none", ["f32[2,1]", "f32[2,4]"], "E302", 1, "none"),
    row("Add-1", "auto_broadcast=pdpd", ["f32[3]", "f32[2,3]"], "E302", 1, "rank 2", "rank 1"),
    row("Add-1", "auto_broadcast=pdpd", ["f32[2,1]", "f32[2,3]"], "E302", 1, "pdpd"),
    row("LogicalAnd-1", "", ["f32[2]", "f32[2]"], "E303", 0, "boolean"),
    row("Select-1", "", ["f32[2]", "f32[2]", "f32[2]"], "E303", 0, "cond"),
    row("Select-1", "", ["boolean[2]", "f32[2]", "i32[2]"], "E303", 2, "f32", "i32"),
    row("Convert-1", "destination_type=f32", ["string[2]"], "E303", 0, "string"),
    row("Sigmoid-1", "", ["boolean[2]"], "E303", 0, "boolean"),
    row("Mish-4", "", ["i32[2]"], "E303", 0, "i32", "floating-point"),
    row("Swish-4", "", ["f32[2]", "f32[1]"], "E301", 1, "rank 1"),
    row("PReLU-1", "", ["f32[1,3,4]", "f32[5]"], "E302", 1, "[5]", "[1,3,4]"),
    row("SoftMax-8", "axis=2", ["f32[1,3]"], "E304", "axis", "axis 2", "rank 2"),
    row("FakeQuantize-1", "levels=2", ["f32[3]", "f32[2]", *["f32[]"] * 3], "E302", 1, "[3]"),
    row("Concat-1", "axis=0", ["f32[1,2]", "f32[1,3]"], "E302", 1, "[1,3]", "axis 1"),
    row("Concat-1", "axis=0", ["f32[1,2]", "f32[2]"], "E301", 1, "rank 1", "rank 2"),
    row("Concat-1", "axis=2", ["f32[1,2]", "f32[1,2]"], "E304", "axis", "axis 2"),
    row("Concat-1", "axis=0", ["f32[1]", "i32[1]"], "E303", 1, "f32", "i32"),
    row("ShapeOf-3", "output_type=f32", ["f32[2]"], "E304", "output_type", "f32"),
    row("Reshape-1", "", ["f32[2,3]", i64([4])], "E305", 1, "6 elements", "[4]"),
    row("Reshape-1", "", ["f32[2,3]", i64([-1, -1])], "E305", 1, "at most one"),
    row("Reshape-1", "", ["f32[2,3]", i64([-2])], "E305", 1, "[-2]"),
    row("Reshape-1", "special_zero=true", ["f32[6]", i64([6, 0])], "E305", 1, "rank 1"),
    row("Reshape-1", "", ["f32[2,3]", f32([6])], "E303", 1, "f32"),
    row("Squeeze-1", "", ["f32[2,3]", i64([0])], "E305", 1, "dimension 2"),
    row("Squeeze-1", "", ["f32[2,3]", i64([5])], "E305", 1, "axis 5"),
    row("Unsqueeze-1", "", ["f32[2]", i64([1, 1])], "E305", 1, "twice"),
    row("Transpose-1", "", ["f32[2,3]", i64([0])], "E302", 1, "1 values", "rank 2"),
    row("Transpose-1", "", ["f32[2,3]", i64([0, 0])], "E305", 1, "twice"),
    row("Transpose-1", "", ["f32[2,3]", i64([0, -1])], "E302", 1, "[0, -1]", "negative"),
    row("Broadcast-3", "", ["f32[2]", i64([3])], "E302", 1, "[2]", "[3]"),
    row("Broadcast-3", "", ["f32[2,2]", i64([2])], "E302", 1, "more axes"),
    row("Broadcast-3", "mode=bidirectional", ["f32[2]", i64([3])], "E302", 1, "2 and 3"),
    row("Broadcast-3", "mode=explicit", ["f32[2]", i64([2])], "E300", "mode", "axes_mapping"),
    row(
        "Broadcast-3", "mode=explicit", ["f32[2,3]", i64([3, 2]), i64([1, 0])], "E305", 2, "[1, 0]"
    ),
    row("Broadcast-3", "", ["f32[1]", i64([-2])], "E305", 1, "-2"),
    row("Pad-12", "", ["f32[2,3]", i64([1]), i64([1, 1])], "E302", 1, "1 values", "rank 2"),
    row("Pad-12", "", ["f32[2]", i64([-3]), i64([0])], "E306", 1, "size 2", "-1"),
    row("Pad-12", "pad_mode=reflect", ["f32[2]", i64([2]), i64([0])], "E305", 1, "at most 1"),
    row("Pad-12", "pad_mode=symmetric", ["f32[2]", i64([0]), i64([3])], "E305", 2, "at most 2"),
    row("Pad-12", "", ["f32[2]", i64([0]), i64([0]), "i32[]"], "E303", 3, "f32", "i32"),
    row("DepthToSpace-1", "block_size=2", ["f32[1,6,2,2]"], "E302", "block_size", "6", "4"),
    row("SpaceToDepth-1", "block_size=2", ["f32[1,1,2,3]"], "E302", "block_size", "3", "2"),
    row("ShuffleChannels-1", "group=4", ["f32[1,6]"], "E302", "group", "6", "4"),
    row("Split-1", "num_splits=2", ["f32[3]", i64(0)], "E302", "num_splits", "3", "2"),
    row("Split-1", "num_splits=2", ["f32[4]", i64(1)], "E305", 1, "axis 1"),
    row("VariadicSplit-1", "", ["f32[4]", i64(0), i64([3, 2])], "E305", 2, "5", "4"),
    row("VariadicSplit-1", "", ["f32[4]", i64(0), i64([1, 2])], "E305", 2, "3", "4"),
    row("VariadicSplit-1", "", ["f32[4]", i64(0), i64([-1, -1])], "E305", 2, "at most one"),
    row("Gather-8", "", ["f32[2]", f32([0]), i64(0)], "E303", 1, "f32"),
    row("Gather-8", "", ["f32[2]", i64([0]), i64(1)], "E305", 2, "axis 1"),
    row("Gather-8", "batch_dims=2", ["f32[2,2]", i64([0]), i64(0)], "E304", "batch_dims", "2"),
    row("Gather-8", "batch_dims=1", ["f32[2,3]", i64([0]), i64(0)], "E304", "batch_dims", "axis 0"),
    row("Gather-8", "batch_dims=1", ["f32[2,3]", "i64[3,1]", i64(1)], "E302", 1, "[2,3]"),
    row("Slice-8", "", [A, i64([0]), i64([1]), i64([0])], "E305", 3, "step"),
    row(
        "Slice-8", "", [A, i64([0]), i64([1, 2]), i64([1])], "E302", 2, "start has 1", "stop has 2"
    ),
    row("Slice-8", "", [A, *[i64([1, 1])] * 3, i64([0, -2])], "E305", 4, "twice"),
    row("Slice-8", "", [A, i64(0), i64([1]), i64([1])], "E301", 1, "rank 0"),
    row("StridedSlice-1", "", [A, i64([0]), i64([1]), i64([0])], "E305", 3, "step"),
    row("StridedSlice-1", "", [A, *[i64([0] * 3)] * 2], "E302", 1, "3 axes", "rank 2"),
    row("StridedSlice-1", "shrink_axis_mask=1", [A, i64([3]), i64([4])], "E305", 1, "begin 3"),
    row("StridedSlice-1", "ellipsis_mask=1,1", [A, *[i64([0, 0])] * 2], "E304", "ellipsis_mask"),
    row("Range-4", "output_type=f32", [f32(0), f32(1), f32(0)], "E305", 2, "step is 0"),
    row("ReduceSum-1", "", ["f32[2]", i64([1])], "E305", 1, "axis 1", "rank 1"),
    row("ReduceSum-1", "", ["f32[2]", "i64[1,1]"], "E301", 1, "rank 2"),
    row("ReduceLogicalOr-1", "", ["f32[2]", i64([0])], "E303", 0, "boolean"),
    row("MatMul-1", "", ["f32[2,3]", "f32[4,5]"], "E302", 1, "3 columns", "4"),
    row("MatMul-1", "", ["f32[2,2,3]", "f32[3,3,5]"], "E302", 1, "2 and 3"),
    row("MatMul-1", "", ["f32[]", "f32[3]"], "E301", 0, "rank 0"),
    row("NormalizeL2-1", "eps=1 eps_mode=add", ["f32[2]", i64([2])], "E305", 1, "axis 2"),
    row("BatchNormInference-5", "epsilon=0", ["f32[1,3]", *["f32[2]"] * 4], "E302", 1, "2", "3"),
    row("Reverse-1", "mode=mask", ["f32[2]", boolean([1, 1])], "E302", 1, "2 values"),
    row("Tile-1", "", ["f32[2]", "f32[1]"], "E303", 1, "f32"),
    row("Einsum-7", "equation=ij,jk", ["f32[2,3]", "f32[4,5]"], "E302", 1, '"j"', "3 and 4"),
    row("Einsum-7", "equation=ij", ["f32[2]"], "E301", 0, "rank 1"),
    row("Einsum-7", "equation=ij,jk", ["f32[2,3]"], "E304", "equation", "2 inputs"),
    row("GridSample-9", "", ["f32[1,1,2,2]", "f32[1,2,2,3]"], "E302", 1, "3 elements"),
    row("GridSample-9", "", ["f32[1,1,2,2]", "f32[2,2,2,2]"], "E302", 1, "batch"),
    row("Eye-9", "output_type=f32", [i64(2), i64(-1), i64(0)], "E305", 1, "-1"),
    row("DFT-7", "", ["f32[3,4,3]", i64([0])], "E302", 0, "3 elements", "(re, im)"),
    row("DFT-7", "", ["f32[3,4,2]", i64([2])], "E305", 1, "axis 2", "rank 2"),
    row("RDFT-9", "", ["f32[3,4]", i64([1, -1])], "E305", 1, "twice"),
    row("IDFT-7", "", ["f32[3,2]", i64([0]), i64([0])], "E305", 2, "0", "positive"),
    row("IRDFT-9", "", ["f32[3,2]", i64([0]), i64([2**40])], "E306", 2, "above"),
    row("DFT-7", "", ["f32[3,4,2]", i64([0]), i64([2, 3])], "E302", 2, "2 values for 1"),
    row("STFT-15", STFT, ["f32[1,9]", "f32[4]", i64(10), i64(1)], "E305", 2, "10", "9"),
    row("STFT-15", STFT, ["f32[1,9]", "f32[5]", i64(4), i64(1)], "E302", 1, "5 values", "4"),
    row("STFT-15", STFT, ["f32[1,9]", "f32[4]", i64(4), i64(0)], "E305", 3, "0", "positive"),
    row("ISTFT-16", ISTFT, ["f32[4,2,2]", "f32[4]", i64(4), i64(1)], "E302", 0, "4", "3"),
    row("Inverse-14", "", ["f32[2,3,4]"], "E302", 0, "[2,3,4]", "square"),
    row("FakeConvert-13", "", ["f32[2,3]", "f32[2]"], "E302", 1, "[2]"),
    row("FakeConvert-13", "", ["f32[3]", "f32[2,3]"], "E302", 1, "[2,3]", "[3]"),
    row("FakeConvert-13", "", ["f32[2,3]", "f32[2,1]", "f32[1]"], "E302", 2, "[1]", "[2,1]"),
    row("LRN-1", LRN, ["f32[1,3]", i64([2])], "E305", 1, "axis 2", "rank 2"),
    row("GRN-1", "bias=1", ["f32[1,2,3,4,5]"], "E301", 0, "rank 5"),
    row("AdaptiveAvgPool-8", "", ["f32[1,2,5,5]", i64([2])], "E302", 1, "1 values", "2"),
    row("AdaptiveMaxPool-8", "", ["f32[1,2,5]", i64([-2])], "E305", 1, "-2"),
    row("AdaptiveMaxPool-8", "", ["f32[1,2,0]", i64([2])], "E302", 0, "[1,2,0]"),
    row("RandomUniform-8", "output_type=f32", [i64([2]), f32(1), f32(1)], "E305", 2, "1.0"),
    row("RandomUniform-8", "output_type=f32", [i64([2]), i32(0), i32(1)], "E303", 1, "i32"),
    row("RandomUniform-8", "output_type=f32", [i64([-2]), f32(0), f32(1)], "E305", 0, "-2"),
    row("RandomUniform-8", "output_type=f32", [i64([2**40]), f32(0), f32(1)], "E306", 0, "more"),
    row("Multinomial-13", ONCE, ["f32[1,3]", i64([4])], "E305", 1, "4", "3 classes"),
    row("Multinomial-13", ONCE, ["f32[3]", i64([1])], "E301", 0, "rank 1"),
    row(SDPA, "causal=false", ["f32[1,5,4]", "f32[1,6,3]", "f32[1,6,4]"], "E302", 1, "3 columns"),
    row(SDPA, "causal=false", ["f32[2,5,4]", "f32[3,6,4]", "f32[1,6,4]"], "E302", 1, "2 and 3"),
    row(SDPA, "causal=false", ["f32[1,5,4]", "f32[1,6,4]", "f32[1,7,4]"], "E302", 2, "7 keys"),
    row(SDPA, "causal=false", [*["f32[1,5,4]"] * 3, "f32[5]"], "E301", 3, "rank 1"),
    row(SDPA, "causal=false", [*["f32[1,5,4]"] * 3, "f32[5,4]"], "E302", 3, "4 keys"),
    row(SDPA, "causal=false", [*["f32[1,5,4]"] * 3, "f16[5,5]"], "E303", 3, "f16", "f32"),
    row(SDPA, "causal=false", [*["f32[1,5,4]"] * 3, "f32[]", "f32[2]"], "E302", 4, "2 values"),
    row("BinaryConvolution-1", "", ["f32[1,8,5,5]", "f32[2,8,3,3]"], "E303", 1, "f32", "u1"),
    row("BinaryConvolution-1", "", ["f32[1,8,5,5]", "u1[2,4,3,3]"], "E302", 1, "8", "4"),
    row(DEFORMABLE, "", ["f32[1,2,5,5]", "f32[1,8,4,4]", "f32[3,4,2,2]"], "E302", 2, "2", "4"),
    row(DEFORMABLE, "", ["f32[1,2,5,5]", "f32[1,6,4,4]", "f32[3,2,2,2]"], "E302", 1, "6", "8"),
    row(DEFORMABLE, "", ["f32[1,2,5,5]", "f32[1,8,3,4]", "f32[3,2,2,2]"], "E302", 1, "3", "4"),
    row(DEFORMABLE, "group=2", ["f32[1,3,5,5]", *["f32[?,?,?,?]"] * 2], "E302", "group", "3"),
    row("RNNCell-3", "hidden_size=3", CELL, "E302", 3, "size 9", "3 is needed"),
    row("GRUCell-3", "hidden_size=3 linear_before_reset=true", CELL, "E302", 4, "9", "12"),
    row("LSTMSequence-5", "hidden_size=3", SEQUENCE, "E301", 0, "rank 2"),
    deconvolution([i64([0]), i64([0, 0])], "E305", 2, "pads_begin", "[1]", "[2]"),
    deconvolution([i64([0, 0]), i64([0, 0, 0])], "E305", 3, "pads_end", "[3]", "[2]"),
    deconvolution([i64([[0, 0]]), i64([0, 0])], "E305", 2, "pads_begin", "[1,2]"),
    deconvolution(["i64[3]", "i64[2]"], "E305", 2, "pads_begin", "[3]", "[2]"),
    deconvolution([i64([0, 0]), f32([0, 0])], "E303", 3, "pads_end", "f32"),
]


@pytest.mark.parametrize("r", ROWS, ids=[f"{i}-{r.op}" for i, r in enumerate(ROWS)])
def test_refusal(r: Row) -> None:
    check_refusal(r)


CHECKS = [
    ("Split-1", {"num_splits": "0"}, "num_splits"),
    ("FakeQuantize-1", {"levels": "1"}, "levels"),
    ("DepthToSpace-1", {"block_size": "0"}, "block_size"),
    ("ShuffleChannels-1", {"group": "0"}, "group"),
    ("Einsum-7", {"equation": "i1->i"}, "equation"),
    ("Einsum-7", {"equation": "ij->ik"}, "equation"),
    ("Einsum-7", {"equation": "ij->ii"}, "equation"),
    ("GRUCell-3", {"hidden_size": "0"}, "hidden_size"),
    ("LSTMCell-4", {"hidden_size": "1", "activations": "tanh"}, "activations"),
    ("LRN-1", {"alpha": "1", "beta": "1", "bias": "1", "size": "0"}, "size"),
    ("AdaptiveMaxPool-8", {"index_element_type": "u8"}, "index_element_type"),
    ("RandomUniform-8", {"output_type": "u8"}, "output_type"),
    ("RandomUniform-8", {"output_type": "f32", "op_seed": "-1"}, "op_seed"),
    ("DeformableConvolution-8", {"group": "0"}, "group"),
    ("DeformableConvolution-1", {"deformable_group": "0"}, "deformable_group"),
    ("RNNCell-4", {"hidden_size": "1", "activations": "sin"}, "activations"),
    ("BatchNormInference-5", {"epsilon": "-1"}, "epsilon"),
]


@pytest.mark.parametrize(("op", "given", "name"), CHECKS)
def test_attribute_check(op: str, given: dict[str, str], name: str) -> None:
    check_attribute(op, given, name)


def test_negative_pads_before_opset12_are_remarked() -> None:
    cls = lookup("Pad", "opset1")
    assert cls is not None
    specs = [spec(s) for s in ("f32[3]", i64([-1]), i64([0]))]
    (found,) = cls().remarks(*specs)
    assert (found.code, found.port) == ("W301", 1)


def test_document_divides_integers_down() -> None:
    cls = lookup("Divide", "opset1")
    assert cls is not None
    a, b = np.array([-7, 7, 6]), np.array([2, -2, -3])
    document = cls(semantics="document")  # type: ignore[call-arg]
    assert list(document.evaluate(a, b)) == [-4, -4, -2]
    towards_zero = cls(m_pythondiv=False, semantics="document")  # type: ignore[call-arg]
    assert list(towards_zero.evaluate(a, b)) == [-3, -3, -2]
    assert list(cls().evaluate(a, b)) == [-3, -3, -2]


def test_packed_integers_keep_their_low_bits() -> None:
    for name, want in (
        ("u4", [1, 13, 15]),
        ("i4", [1, -3, -1]),
        ("u1", [1, 1, 1]),
        ("u2", [1, 1, 3]),
    ):
        cls = lookup("Convert", "opset1")
        assert cls is not None
        op = cls(destination_type=ELEMENT_TYPES[name])  # type: ignore[call-arg]
        assert op.evaluate(np.array([17, -3, 15])).tolist() == want  # type: ignore[union-attr]


def test_real_to_integer_beyond_the_range() -> None:
    cls = lookup("Convert", "opset1")
    assert cls is not None
    x = f32([float("nan"), 1e30, -1e30]).values
    assert cls(destination_type=ELEMENT_TYPES["i64"]).evaluate(x).tolist() == [  # type: ignore
        0,
        2**63 - 1,
        -(2**63),
    ]
    big = cls(destination_type=ELEMENT_TYPES["u64"])  # type: ignore[call-arg]
    assert big.evaluate(f32([2.0**63, -1]).values).tolist() == [  # type: ignore[union-attr]
        2**63,
        2**64 - 1,
    ]


@pytest.mark.parametrize(
    ("op", "given", "name"),
    [
        ("NonZero-3", {"output_type": "u8"}, "output_type"),
        ("SoftMax-1", {"axis": "-1"}, "axis"),
        ("StridedSlice-1", {"shrink_axis_mask": "0,2"}, "shrink_axis_mask"),
        ("TopK-11", {"sort": "none", "stable": "true"}, "stable"),
    ],
)
def test_attributes_that_openvino_refuses(op: str, given: dict[str, str], name: str) -> None:
    check_attribute(op, given, name)


def test_unknown_ranks_follow_from_list_lengths() -> None:
    unknown = Spec(ELEMENT_TYPES["f32"], None)
    for op, inputs, want in (
        ("Transpose", [unknown, spec("i64[3]")], (DYNAMIC,) * 3),
        ("Pad", [unknown, spec("i64[2]"), spec("i64[2]")], (DYNAMIC,) * 2),
        ("Reshape", [unknown, i64([4, -1]).spec], (4, DYNAMIC)),
        ("Broadcast", [unknown, i32([4, 2]).spec], (4, 2)),
    ):
        cls = lookup(op, "opset12")
        assert cls is not None
        (out,) = infer_op(cls(), tuple(inputs))
        assert out.shape == want


def test_channels_that_are_open_are_checked_when_running() -> None:
    x = np.ones((1, 2, 4), np.float32)
    for op, shape in ((Convolution(), (3, 1, 2)), (GroupConvolution(), (3, 1, 1, 2))):
        with pytest.raises(OpError, match="data has 2 channels"):
            op.evaluate(x, np.ones(shape, np.float32))
